//! Where the secrets of session tickets come from: a file, read anew at each
//! reload, or a database, looked at by a thread of its own.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sip_net::clock;
use sip_store::{
    Database, StoreError, StoreErrorKind, TicketSecretRow, TicketServiceConfig,
    TicketServiceCounters, read_ticket_secrets, serve_ticket_secrets,
};
use sip_tls::{TicketKeys, TicketSecret};
use zeroize::Zeroizing;

use crate::Error;
use crate::config::{Config, TicketKeysFrom, Tls};
use crate::data_dir::{DataDir, read_secret, this_user};
use crate::store_link::spawn;
use crate::tls_report::{ShownSecret, ShownTickets};

/// How long the start waits for a database that another process holds locked.
const START_PATIENCE: Duration = Duration::from_secs(5);
/// How many times a node looks at the store before a new secret seals tickets:
/// by then all others have it, if they look as often.
const SETTLE_POLLS: u64 = 3;

/// Where the secrets of session tickets come from.
pub(super) enum Tickets {
    /// A file.
    File,
    /// A database.
    Store(StoredTickets),
}

/// The secrets that the nodes on one database share.
pub(super) struct StoredTickets {
    keys: TicketKeys,
    state: Arc<Mutex<State>>,
    counters: Arc<TicketServiceCounters>,
    orders: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and the reports share.
pub(crate) struct State {
    file: PathBuf,
    secrets: Vec<TicketSecret>,
    rotation: Duration,
    settle: Duration,
    secret_rotation_s: u64,
    /// What the store last said, if that was an error.
    trouble: Option<String>,
    /// Whether the store never answered, so that the secret is this process's.
    is_own: bool,
}

/// The database with the secrets.
pub(crate) fn ticket_store(given: &Tls, data: &Path) -> PathBuf {
    given
        .ticket_store
        .clone()
        .unwrap_or_else(|| data.join(crate::data_dir::DATABASE))
}

/// How long a secret goes on opening tickets after another has followed it:
/// until the last ticket under it has ended, and a minute for clocks that differ.
pub(crate) fn old_good_for_s(given: &Tls) -> u64 {
    given.ticket_rotation_s + settle_s(given) + 60
}

pub(crate) fn settle_s(given: &Tls) -> u64 {
    given.ticket_poll_s.saturating_mul(SETTLE_POLLS)
}

/// A new secret as of now.
pub(crate) fn fresh_secret() -> Option<TicketSecretRow> {
    let mut secret = Zeroizing::new([0; 32]);
    let mut id = [0; 4];
    crate::random_bytes(&mut *secret).ok()?;
    crate::random_bytes(&mut id).ok()?;
    Some(TicketSecretRow {
        id: format!("{:08x}", u32::from_be_bytes(id)),
        secret,
        created_unix_s: unix_s(),
        not_after_unix_s: None,
    })
}

impl Tickets {
    /// Reads the secrets, and starts the thread that goes on doing so. A store
    /// that is away does not keep a server from its start: until it is back the
    /// tickets are this process's own.
    pub(super) fn start(given: &Tls, data: &DataDir) -> Result<Self, Error> {
        if given.ticket_keys == TicketKeysFrom::File {
            return Ok(Self::File);
        }
        let file = ticket_store(given, data.path());
        let config = TicketServiceConfig {
            poll_ms: given.ticket_poll_s.saturating_mul(1_000),
            age_max_s: given.ticket_secret_rotation_s,
            old_good_for_s: old_good_for_s(given),
        };
        let counters = Arc::new(TicketServiceCounters::default());
        let mut state = State {
            file: file.clone(),
            secrets: Vec::new(),
            rotation: Duration::from_secs(given.ticket_rotation_s),
            settle: Duration::from_secs(settle_s(given)),
            secret_rotation_s: given.ticket_secret_rotation_s,
            trouble: None,
            is_own: false,
        };
        match first_secrets(&file, &config, &counters) {
            Ok(rows) => state.secrets = rows.into_iter().map(secret_of).collect(),
            Err(error) if is_passing(error.kind()) => {
                counters.failures.fetch_add(1, Ordering::Relaxed);
                tracing::error!(
                    "the secrets of session tickets cannot be read; until then tickets are good on this node and in this run alone: {error}"
                );
                let own = fresh_secret().ok_or_else(|| {
                    Error::new("the kernel gives no randomness", "look at the system's log")
                })?;
                state.secrets = vec![secret_of(own)];
                state.trouble = Some(error.to_string());
                state.is_own = true;
            }
            Err(error) => return Err(error.into()),
        }
        let keys = TicketKeys::from_secrets(state.secrets.clone(), state.rotation, state.settle)?;
        let state = Arc::new(Mutex::new(state));
        let (orders, ordered) = sync_channel(1);
        let (told, counted, ring) = (state.clone(), counters.clone(), keys.clone());
        let thread = spawn("store-tickets", move || {
            serve_ticket_secrets(
                || Database::open_existing(&file),
                &ordered,
                &config,
                &counted,
                unix_s,
                fresh_secret,
                |result| take_up(&ring, &told, result),
            );
        })?;
        Ok(Self::Store(StoredTickets {
            keys,
            state,
            counters,
            orders: Some(orders),
            thread: Some(thread),
        }))
    }

    /// The keys for listeners by this configuration. A file is read anew.
    pub(super) fn keys(&self, config: &Config, data: &DataDir) -> Result<TicketKeys, Error> {
        match self {
            Self::File => file_keys(&config.tls, data),
            Self::Store(stored) => Ok(stored.keys.clone()),
        }
    }

    /// After a reload the store is looked at.
    pub(super) fn reloaded(&self) {
        let Self::Store(stored) = self else { return };
        if let Some(orders) = &stored.orders {
            // Full: it is about to look anyway.
            let _ = orders.try_send(());
        }
    }

    /// What an auditor is told of the keys in service; no secret is in it.
    pub(super) fn reporter(&self, given: &Tls, keys: &TicketKeys) -> TicketReporter {
        match self {
            Self::File => {
                let secrets = keys.ids().into_iter().map(|id| ShownSecret {
                    id,
                    created_unix_s: None,
                    not_after_unix_s: None,
                });
                TicketReporter::File(ShownTickets {
                    secrets: secrets.collect(),
                    ..tickets_by_file(given)
                })
            }
            Self::Store(stored) => {
                TicketReporter::Store(stored.state.clone(), stored.counters.clone())
            }
        }
    }

    /// Ends the thread.
    pub(super) fn end(&mut self) {
        if let Self::Store(stored) = self {
            stored.orders = None;
            if let Some(thread) = stored.thread.take() {
                // A thread that panicked has ended the process already.
                let _ = thread.join();
            }
        }
    }
}

/// Tells what is in service, at any time.
#[derive(Clone)]
pub(crate) enum TicketReporter {
    File(ShownTickets),
    Store(Arc<Mutex<State>>, Arc<TicketServiceCounters>),
}

impl TicketReporter {
    pub(crate) fn shown(&self) -> ShownTickets {
        match self {
            Self::File(shown) => shown.clone(),
            Self::Store(state, counters) => {
                let state = lock(state);
                ShownTickets {
                    source: state.file.display().to_string(),
                    is_store: true,
                    lifetime_s: state.rotation.as_secs(),
                    secret_rotation_s: Some(state.secret_rotation_s),
                    secrets: state.secrets.iter().map(shown_secret).collect(),
                    trouble: state.trouble.clone(),
                    is_own: state.is_own,
                    reads: counters.reads.load(Ordering::Relaxed),
                    failures: counters.failures.load(Ordering::Relaxed),
                    renewals: counters.renewals.load(Ordering::Relaxed),
                }
            }
        }
    }
}

/// What can be said of tickets whose secret is in a file.
pub(crate) fn tickets_by_file(given: &Tls) -> ShownTickets {
    ShownTickets {
        source: match &given.ticket_secret_file {
            Some(file) => file.display().to_string(),
            None => "ticket.secret in the data folder".to_owned(),
        },
        lifetime_s: given.ticket_rotation_s,
        ..ShownTickets::default()
    }
}

/// What can be said without a running server.
pub(crate) fn tickets_by_config(given: &Tls, data: &Path) -> ShownTickets {
    if given.ticket_keys == TicketKeysFrom::File {
        return tickets_by_file(given);
    }
    let file = ticket_store(given, data);
    let read = Database::open_as_it_is(&file).and_then(|mut database| {
        use sip_store::TicketSecretStore as _;
        database.ticket_secrets(unix_s())
    });
    let (secrets, trouble) = match read {
        Ok(rows) => (
            rows.into_iter()
                .map(|row| shown_secret(&secret_of(row)))
                .collect(),
            None,
        ),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    ShownTickets {
        source: file.display().to_string(),
        is_store: true,
        lifetime_s: given.ticket_rotation_s,
        secret_rotation_s: Some(given.ticket_secret_rotation_s),
        secrets,
        trouble,
        ..ShownTickets::default()
    }
}

/// The keys by a secret in a file.
fn file_keys(given: &Tls, data: &DataDir) -> Result<TicketKeys, Error> {
    let secret = match &given.ticket_secret_file {
        Some(file) => shared_secret(file)?,
        None => data.ticket_secret()?,
    };
    TicketKeys::new(*secret, Duration::from_secs(given.ticket_rotation_s)).map_err(Error::from)
}

/// The secret in a file that the operator made.
pub(super) fn shared_secret(file: &Path) -> Result<Zeroizing<[u8; 32]>, Error> {
    let remedy = format!(
        "make one and copy it to every node: openssl rand -hex 32 | install -o {} -m 0600 /dev/stdin {}",
        this_user(),
        file.display()
    );
    match file.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Err(Error::new(
            format!("there is no file {}", file.display()),
            remedy,
        )),
        _ => read_secret(file, &remedy),
    }
}

/// The secrets as they are at the start, or the first one. A database that is
/// locked is tried again for a while.
fn first_secrets(
    file: &Path,
    config: &TicketServiceConfig,
    counters: &TicketServiceCounters,
) -> Result<Vec<TicketSecretRow>, StoreError> {
    let until = Instant::now() + START_PATIENCE;
    loop {
        let result = Database::open(file).and_then(|mut database| {
            read_ticket_secrets(&mut database, config, counters, unix_s(), fresh_secret)
        });
        match result {
            Err(error) if error.kind() == StoreErrorKind::Busy && Instant::now() < until => {}
            done => return done,
        }
    }
}

/// Whether the trouble may pass; what an operator got wrong does not.
fn is_passing(kind: StoreErrorKind) -> bool {
    matches!(
        kind,
        StoreErrorKind::Busy | StoreErrorKind::Full | StoreErrorKind::Io | StoreErrorKind::Other
    )
}

/// What the thread does with what the store said.
fn take_up(
    keys: &TicketKeys,
    state: &Mutex<State>,
    result: Result<Vec<TicketSecretRow>, StoreError>,
) {
    let mut state = lock(state);
    match result {
        Ok(rows) if !rows.is_empty() => {
            if state.trouble.take().is_some() {
                tracing::info!("the secrets of session tickets can be read again");
            }
            let secrets: Vec<_> = rows.into_iter().map(secret_of).collect();
            let is_new = secrets.first().map(|secret| &secret.id)
                != state.secrets.first().map(|secret| &secret.id);
            if is_new && let Some(newest) = secrets.first() {
                tracing::info!(id = newest.id, "a new secret of session tickets");
            }
            state.secrets = secrets;
            state.is_own = false;
            put_in_service(keys, &state);
        }
        Ok(_) => {}
        Err(error) => {
            // Once for each trouble, not for each attempt.
            if state.trouble.is_none() {
                tracing::error!(
                    "the secrets of session tickets cannot be read; those in use stay: {error}"
                );
            }
            state.trouble = Some(error.to_string());
        }
    }
}

fn put_in_service(keys: &TicketKeys, state: &State) {
    if let Err(error) = keys.replace(state.secrets.clone(), state.rotation, state.settle) {
        tracing::error!("the secrets of session tickets stay as they were: {error}");
    }
}

fn secret_of(row: TicketSecretRow) -> TicketSecret {
    TicketSecret {
        id: row.id,
        secret: row.secret,
        created_unix_s: row.created_unix_s,
        not_after_unix_s: row.not_after_unix_s,
    }
}

fn shown_secret(secret: &TicketSecret) -> ShownSecret {
    ShownSecret {
        id: secret.id.clone(),
        created_unix_s: Some(secret.created_unix_s),
        not_after_unix_s: secret.not_after_unix_s,
    }
}

fn unix_s() -> u64 {
    clock::unix_ms() / 1_000
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_in_a_file_is_told_by_a_name() {
        let told = |byte| {
            let keys = TicketKeys::new([byte; 32], Duration::from_secs(3_600)).unwrap();
            Tickets::File.reporter(&Tls::default(), &keys).shown()
        };
        let shown = told(1);
        assert_eq!(shown.secrets.len(), 1);
        let id = &shown.secrets[0].id;
        assert_eq!(id.len(), 8);
        assert_eq!(*id, told(1).secrets[0].id);
        assert_ne!(*id, told(2).secrets[0].id);
    }
}
