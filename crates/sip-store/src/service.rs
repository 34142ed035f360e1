//! The two threads that stand between the workers and the disk.

mod tickets;

pub use tickets::{
    TicketServiceConfig, TicketServiceCounters, read_ticket_secrets, serve_ticket_secrets,
};

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use sip_auth::{CredentialKey, Ha1};
use sip_engine::BindingChange;

use crate::{BindingStore, CredentialStore, StoreError};

/// The shortest time between two complaints in the log.
const COMPLAINT_EVERY: Duration = Duration::from_secs(1);

/// A question for [`serve_lookups`]. The tag comes back with the answer.
#[derive(Debug)]
pub struct Lookup<T> {
    /// Who asks.
    pub tag: T,
    /// Whose HA1.
    pub key: CredentialKey,
    /// When nobody waits for the answer any more, by the clock of [`serve_lookups`].
    pub until_ms: u64,
}

/// An order for [`serve_saves`]. The tag comes back with the answer.
#[derive(Debug)]
pub struct Save<T> {
    /// Who asks.
    pub tag: T,
    /// What is to be made durable, all or nothing.
    pub changes: Vec<BindingChange>,
}

/// The store could not say, or could not do it. The log says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unavailable;

/// The answers of one batch, to be drained.
pub type Answers<T, A> = Vec<(T, Result<A, Unavailable>)>;

/// The bounds of the services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceConfig {
    /// Questions answered in one batch, and orders committed in one group.
    pub batch_max: usize,
    /// How long the writer is without work before it looks for expired rows.
    pub idle_ms: u64,
    /// The longest time between two such looks while there is work.
    pub sweep_ms: u64,
    /// Rows looked at each time.
    pub sweep_rows: usize,
    /// The pause after all rows were looked at.
    pub round_pause_ms: u64,
}

impl Default for ServiceConfig {
    fn default() -> Self {
        Self {
            batch_max: 4_096,
            idle_ms: 100,
            sweep_ms: 1_000,
            sweep_rows: 500,
            round_pause_ms: 30_000,
        }
    }
}

/// What the services have done, to be read from any thread.
#[derive(Debug, Default)]
pub struct ServiceCounters {
    lookups: AtomicU64,
    lookup_batches: AtomicU64,
    lookups_failed: AtomicU64,
    lookups_expired: AtomicU64,
    saves: AtomicU64,
    save_groups: AtomicU64,
    saves_failed: AtomicU64,
    expired: AtomicU64,
    /// When the last save failed, by a clock that is never set; 0 where it did not.
    failed_ms: AtomicU64,
    /// When the commit that is under way began, by the same clock; 0 where none is.
    commit_ms: AtomicU64,
    /// The same of the commit that was last found to hang; 0 once a later one has ended in time.
    hanging_ms: AtomicU64,
    /// Whether it was told that the store hangs, and not yet that it answers.
    is_told: AtomicBool,
}

/// What [`ServiceCounters::look_at_commit`] finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitNews {
    /// The store has been at one commit for so long.
    Hangs {
        /// In milliseconds.
        for_ms: u64,
    },
    /// It has ended a commit in time since.
    Answers,
}

counters::counters! {
    /// [`ServiceCounters`] at one moment.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ServiceFigures {
        /// Look-ups of credentials answered.
        pub lookups: u64 = counter("signet_store_lookups_total"),
        /// The batches that they came in.
        pub lookup_batches: u64 = counter("signet_store_lookup_batches_total"),
        /// Look-ups that the database failed.
        pub lookups_failed: u64 = counter("signet_store_lookups_failed_total"),
        /// Look-ups not made because nobody waited for them any more.
        pub lookups_expired: u64 = counter("signet_store_lookups_expired_total"),
        /// Changes of bindings that are stored.
        pub saves: u64 = counter("signet_store_saves_total"),
        /// The commits that they came in.
        pub save_groups: u64 = counter("signet_store_commits_total"),
        /// Changes of bindings that the database failed.
        pub saves_failed: u64 = counter("signet_store_saves_failed_total"),
        /// Expired bindings deleted.
        pub expired: u64 = counter("signet_store_expired_total"),
    }
}

impl ServiceCounters {
    /// Whether the last change of bindings could not be stored, and that was no longer ago
    /// than `within_ms`: whoever waits for the next must give it a chance. Or whether the store
    /// was found to hang, and has ended no commit in time since: what it stores late is of no use
    /// to who waited. The time is of the clock that [`serve_saves`] was given for this.
    pub fn fails_to_save(&self, now_ms: u64, within_ms: u64) -> bool {
        let failed_ms = self.failed_ms.load(Ordering::Relaxed);
        let has_failed = failed_ms != 0 && now_ms.saturating_sub(failed_ms) <= within_ms;
        has_failed || self.hanging_ms.load(Ordering::Relaxed) != 0
    }

    /// Looks whether the store is at one commit for longer than `patience_ms`. To be called by one
    /// thread, again and again; each piece of news is given once.
    pub fn look_at_commit(&self, now_ms: u64, patience_ms: u64) -> Option<CommitNews> {
        let commit_ms = self.commit_ms.load(Ordering::Relaxed);
        let hanging_ms = self.hanging_ms.load(Ordering::Relaxed);
        let for_ms = now_ms.saturating_sub(commit_ms);
        let is_told = self.is_told.load(Ordering::Relaxed);
        if commit_ms != 0 && commit_ms != hanging_ms && for_ms > patience_ms {
            self.hanging_ms.store(commit_ms, Ordering::Relaxed);
            self.is_told.store(true, Ordering::Relaxed);
            return (!is_told).then_some(CommitNews::Hangs { for_ms });
        }
        let is_over = is_told && hanging_ms == 0;
        is_over.then(|| {
            self.is_told.store(false, Ordering::Relaxed);
            CommitNews::Answers
        })
    }

    /// Has the store commit something, and notes that it is at it.
    fn commit<R>(&self, now_ms: u64, act: impl FnOnce() -> R) -> R {
        let began_ms = now_ms.max(1);
        self.commit_ms.store(began_ms, Ordering::Relaxed);
        let result = act();
        self.commit_ms.store(0, Ordering::Relaxed);
        if self.hanging_ms.load(Ordering::Relaxed) != began_ms {
            self.hanging_ms.store(0, Ordering::Relaxed);
        }
        result
    }

    /// The figures now.
    pub fn figures(&self) -> ServiceFigures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ServiceFigures {
            lookups: read(&self.lookups),
            lookup_batches: read(&self.lookup_batches),
            lookups_failed: read(&self.lookups_failed),
            lookups_expired: read(&self.lookups_expired),
            saves: read(&self.saves),
            save_groups: read(&self.save_groups),
            saves_failed: read(&self.saves_failed),
            expired: read(&self.expired),
        }
    }
}

/// A queue of at most `entries_max`. Workers use [`SyncSender::try_send`]: a
/// full queue is an answer too, and they never wait.
pub fn queue<M>(entries_max: usize) -> (SyncSender<M>, Receiver<M>) {
    sync_channel(entries_max)
}

/// The body of the reading thread: answers look-ups in batches until all
/// senders are gone and the queue is empty. `deliver` gets each batch's answers
/// once, and drains them. A question for which nobody waits at `now_ms` is not asked and
/// has no answer.
pub fn serve_lookups<T>(
    store: &mut impl CredentialStore,
    queue: &Receiver<Lookup<T>>,
    config: &ServiceConfig,
    counters: &ServiceCounters,
    mut now_ms: impl FnMut() -> u64,
    mut deliver: impl FnMut(&mut Answers<T, Option<Ha1>>),
) {
    let mut complaints = Complaints::new("look-ups");
    let mut tags = Vec::new();
    let mut keys = Vec::new();
    let mut found = Vec::new();
    let mut answers = Answers::new();
    while let Ok(first) = queue.recv() {
        let now_ms = now_ms();
        for Lookup { tag, key, until_ms } in std::iter::once(first)
            .chain(queue.try_iter())
            .take(config.batch_max.max(1))
        {
            if now_ms > until_ms {
                count(&counters.lookups_expired, 1);
                continue;
            }
            tags.push(tag);
            keys.push(key);
        }
        if keys.is_empty() {
            continue;
        }
        store.find(&keys, &mut found);
        count(&counters.lookups, keys.len());
        count(&counters.lookup_batches, 1);
        keys.clear();
        let mut found = found.drain(..);
        for tag in tags.drain(..) {
            answers.push(match found.next() {
                Some(Ok(answer)) => (tag, Ok(answer)),
                Some(Err(error)) => {
                    count(&counters.lookups_failed, 1);
                    complaints.note(&error, 1);
                    (tag, Err(Unavailable))
                }
                // A store that answers fewer than it was asked.
                None => {
                    count(&counters.lookups_failed, 1);
                    (tag, Err(Unavailable))
                }
            });
        }
        deliver(&mut answers);
        answers.clear();
    }
}

/// The body of the writing thread: commits orders in groups until all senders
/// are gone and the queue is empty, and answers each group after its commit
/// has reached the disk, or failed. Deletes expired rows a few at a time.
/// `unix_ms` tells the time, and `now_ms` that of a clock that is never set, by which it is known
/// for how long the store fails.
pub fn serve_saves<T>(
    store: &mut impl BindingStore,
    queue: &Receiver<Save<T>>,
    config: &ServiceConfig,
    counters: &ServiceCounters,
    mut unix_ms: impl FnMut() -> u64,
    mut now_ms: impl FnMut() -> u64,
    mut deliver: impl FnMut(&mut Answers<T, ()>),
) {
    let mut complaints = Complaints::new("registrations");
    let mut sweeper = Sweeper::new(config);
    let mut group: Vec<Save<T>> = Vec::new();
    let mut answers = Answers::new();
    loop {
        let first = match queue.recv_timeout(sweeper.wait()) {
            Ok(first) => first,
            Err(RecvTimeoutError::Timeout) => {
                sweeper.sweep(store, unix_ms(), now_ms(), counters, &mut complaints);
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        group.extend(
            std::iter::once(first)
                .chain(queue.try_iter())
                .take(config.batch_max.max(1)),
        );
        let result = counters.commit(now_ms(), || {
            store.save(&mut group.iter().flat_map(|save| &save.changes))
        });
        count(&counters.save_groups, 1);
        match &result {
            Ok(()) => {
                count(&counters.saves, group.len());
                counters.failed_ms.store(0, Ordering::Relaxed);
            }
            Err(error) => {
                count(&counters.saves_failed, group.len());
                let failed_ms = now_ms().max(1);
                counters.failed_ms.store(failed_ms, Ordering::Relaxed);
                complaints.note(error, group.len());
            }
        }
        let result = result.map_err(|_| Unavailable);
        answers.extend(group.drain(..).map(|save| (save.tag, result)));
        deliver(&mut answers);
        answers.clear();
        if sweeper.is_overdue() {
            sweeper.sweep(store, unix_ms(), now_ms(), counters, &mut complaints);
        }
    }
}

/// When the writer looks for expired rows.
struct Sweeper<'c> {
    config: &'c ServiceConfig,
    /// The last look.
    looked: Instant,
    /// No look before this: the last round found all there was.
    resting_until: Instant,
}

impl<'c> Sweeper<'c> {
    fn new(config: &'c ServiceConfig) -> Self {
        let now = Instant::now();
        Self {
            config,
            looked: now,
            resting_until: now,
        }
    }

    /// How long to wait for an order before the next look.
    fn wait(&self) -> Duration {
        let idle = Duration::from_millis(self.config.idle_ms.max(1));
        idle.max(self.resting_until.saturating_duration_since(Instant::now()))
    }

    fn is_overdue(&self) -> bool {
        let now = Instant::now();
        now >= self.resting_until
            && now.duration_since(self.looked) >= Duration::from_millis(self.config.sweep_ms)
    }

    fn sweep(
        &mut self,
        store: &mut impl BindingStore,
        unix_ms: u64,
        now_ms: u64,
        counters: &ServiceCounters,
        complaints: &mut Complaints,
    ) {
        let swept = counters.commit(now_ms, || {
            store.delete_expired(unix_ms, self.config.sweep_rows)
        });
        let rest = match swept {
            Ok(swept) => {
                count(
                    &counters.expired,
                    usize::try_from(swept.deleted).unwrap_or(usize::MAX),
                );
                swept.is_round
            }
            Err(error) => {
                complaints.note(&error, 0);
                true
            }
        };
        self.looked = Instant::now();
        if rest {
            self.resting_until = self.looked + Duration::from_millis(self.config.round_pause_ms);
        }
    }
}

/// Tells the log of failures, at most once a second.
struct Complaints {
    of: &'static str,
    told: Option<Instant>,
    /// Members of failed groups since then.
    untold: usize,
}

impl Complaints {
    fn new(of: &'static str) -> Self {
        Self {
            of,
            told: None,
            untold: 0,
        }
    }

    fn note(&mut self, error: &StoreError, failed: usize) {
        self.untold += failed;
        let now = Instant::now();
        if self
            .told
            .is_none_or(|told| now.duration_since(told) >= COMPLAINT_EVERY)
        {
            tracing::error!(failed = self.untold, "the store fails {}: {error}", self.of);
            self.told = Some(now);
            self.untold = 0;
        }
    }
}

fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

#[cfg(test)]
mod tests;
