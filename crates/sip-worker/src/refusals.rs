//! Requests that were refused: what the log says of them, and the last of them, which
//! `signet why` searches.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sip_engine::RefusalRecord;
use sip_engine::refusal::Level;

use crate::{Environment, Worker};

/// Records that are kept of each table ([`sip_limit::Table`]).
const KEPT_MAX: usize = 2_048;

/// The last refusals of all workers, those of each table apart, so that a flood of
/// strangers leaves those of users where they are. No worker waits on them for more than
/// a list of pointers to be copied.
#[derive(Default)]
pub struct Refusals {
    kept: Mutex<[VecDeque<Arc<RefusalRecord>>; 3]>,
}

impl Refusals {
    /// The most records that are kept.
    pub const MAX: usize = 3 * KEPT_MAX;

    /// Keeps records, in the place of the oldest of the same table.
    pub fn keep(&self, records: impl Iterator<Item = RefusalRecord>) {
        let mut kept = self.lock();
        for record in records {
            if let Some(of_table) = kept.get_mut(record.reason.table() as usize) {
                if of_table.len() >= KEPT_MAX {
                    of_table.pop_front();
                }
                of_table.push_back(Arc::new(record));
            }
        }
    }

    /// All that are kept, the oldest first.
    pub fn all(&self) -> Vec<Arc<RefusalRecord>> {
        let mut all: Vec<_> = self.lock().iter().flatten().cloned().collect();
        all.sort_by_key(|record| record.at_unix_ms);
        all
    }

    fn lock(&self) -> MutexGuard<'_, [VecDeque<Arc<RefusalRecord>>; 3]> {
        // Whatever was put in stays whole.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Environment> Worker<E> {
    /// Logs what was refused, where a line is due, and keeps it.
    pub(super) fn keep_refusals(&mut self) {
        if self.outputs.refused.is_empty() {
            return;
        }
        for record in &self.outputs.refused {
            if record.tell.is_none() {
                continue;
            }
            match record.reason.level() {
                Level::Debug => tracing::debug!("{}", line_of(record)),
                Level::Info => tracing::info!("{}", line_of(record)),
                Level::Warn => tracing::warn!("{}", line_of(record)),
            }
        }
        let refusals = self.parts.control.refusals();
        refusals.keep(self.outputs.refused.drain(..));
    }
}

/// The line, as `etc/fail2ban/signet.conf` reads it. A source that may be forged stands in
/// another form, which shuts nobody out. The address and the reason stand before whatever
/// came from the wire; names are escaped in the record.
fn line_of(record: &RefusalRecord) -> String {
    let source = record.source.ip().to_canonical();
    let mut line = match (record.status, record.is_proven) {
        (Some(_), true) => format!("refused request from {source}: "),
        (Some(_), false) => format!("refused request, perhaps not from {source}: "),
        (None, _) => format!("no way for request from {source}: "),
    };
    let _ = write!(line, "{}", record.reason.name());
    if let Some(status) = record.status {
        let _ = write!(line, " {status}");
    }
    if let Some(hop) = record.hop {
        let _ = write!(line, " at {hop}");
    }
    let _ = write!(
        line,
        ", {} of \"{}\" from \"{}\" to \"{}\" call \"{}\"",
        record.method, record.user, record.from, record.to, record.call_id
    );
    if !record.detail.is_empty() {
        let _ = write!(line, ", {}", record.detail);
    }
    if let Some(tell) = record.tell.filter(|tell| tell.more > 0) {
        let _ = write!(
            line,
            " ({} more in the {} s before)",
            tell.more, tell.since_s
        );
    }
    line
}

#[cfg(test)]
mod tests;
