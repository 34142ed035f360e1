//! The thread that keeps a node's secrets of session tickets the same as the
//! store's.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::{Renewal, StoreError, StoreErrorKind, TicketSecretRow, TicketSecretStore};

/// The longest pause after a failure.
const RETRY_MAX: Duration = Duration::from_secs(10);
/// The pause after the first failure.
const RETRY_MIN: Duration = Duration::from_millis(50);

/// How the secrets of session tickets are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TicketServiceConfig {
    /// How often the store is looked at.
    pub poll_ms: u64,
    /// When the newest secret is this old, a new one is made.
    pub age_max_s: u64,
    /// How long the ones before go on opening tickets.
    pub old_good_for_s: u64,
}

/// What the thread has done, to be read from any thread.
#[derive(Debug, Default)]
pub struct TicketServiceCounters {
    /// Times that the store was read.
    pub reads: AtomicU64,
    /// Times that it could not be.
    pub failures: AtomicU64,
    /// Secrets made.
    pub renewals: AtomicU64,
}

/// Reads the secrets, after making one if there is none or the newest is old.
/// `fresh` makes one as of now; `None` where there is no randomness.
pub fn read_ticket_secrets(
    store: &mut impl TicketSecretStore,
    config: &TicketServiceConfig,
    counters: &TicketServiceCounters,
    unix_s: u64,
    fresh: impl FnOnce() -> Option<TicketSecretRow>,
) -> Result<Vec<TicketSecretRow>, StoreError> {
    let found = store.ticket_secrets(unix_s)?;
    let when = Renewal {
        age_min_s: config.age_max_s,
        old_good_for_s: config.old_good_for_s,
    };
    let newest = found.first().map(|newest| newest.created_unix_s);
    let found = if when.is_due(newest, unix_s) {
        let Some(fresh) = fresh() else {
            return Err(StoreError::new(
                StoreErrorKind::Other,
                "the kernel gives no randomness for a secret of session tickets",
            ));
        };
        if store.renew_ticket_secret(&fresh, when)? {
            counters.renewals.fetch_add(1, Ordering::Relaxed);
        }
        store.ticket_secrets(unix_s)?
    } else {
        found
    };
    counters.reads.fetch_add(1, Ordering::Relaxed);
    Ok(found)
}

/// The body of the thread: reads the secrets every so often, and at once for
/// each message in `orders`, until its senders are gone. After a failure it
/// opens the store anew and tries again, soon at first; what was delivered
/// before stays good meanwhile. `deliver` gets every result.
pub fn serve_ticket_secrets<S: TicketSecretStore>(
    mut open: impl FnMut() -> Result<S, StoreError>,
    orders: &Receiver<()>,
    config: &TicketServiceConfig,
    counters: &TicketServiceCounters,
    mut unix_s: impl FnMut() -> u64,
    mut fresh: impl FnMut() -> Option<TicketSecretRow>,
    mut deliver: impl FnMut(Result<Vec<TicketSecretRow>, StoreError>),
) {
    let poll = Duration::from_millis(config.poll_ms.max(1));
    let mut wait = poll;
    let mut retry = RETRY_MIN;
    let mut store: Option<S> = None;
    loop {
        match orders.recv_timeout(wait) {
            // Asked for: the file may be another one.
            Ok(()) => store = None,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let mut held = match store.take().map_or_else(&mut open, Ok) {
            Ok(held) => held,
            Err(error) => {
                counters.failures.fetch_add(1, Ordering::Relaxed);
                deliver(Err(error));
                wait = retry.min(poll);
                retry = (retry * 2).min(RETRY_MAX);
                continue;
            }
        };
        let result = read_ticket_secrets(&mut held, config, counters, unix_s(), &mut fresh);
        if result.is_ok() {
            store = Some(held);
            wait = poll;
            retry = RETRY_MIN;
        } else {
            counters.failures.fetch_add(1, Ordering::Relaxed);
            wait = retry.min(poll);
            retry = (retry * 2).min(RETRY_MAX);
        }
        deliver(result);
    }
}

#[cfg(test)]
mod tests;
