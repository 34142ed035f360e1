//! What the admin thread tells the workers, and what they tell it.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sip_engine::Settings;
use sip_engine::refusal::RefusalCounts;
use sip_engine::registrar::RegistrarCounters;
use sip_engine::shard::Counters;
use sip_txn::Live;

use crate::orders::{Order, Orders};
use crate::{Mailbox, Refusals, Wake};

/// Where a process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It serves.
    Running,
    /// It ends what is under way and begins nothing new.
    Draining,
    /// It is to end now.
    Stop,
}

counters::counters! {
    /// What a worker itself counts.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct Figures {
        parts {
            /// How overloaded it is, in thousandths of a step of
            /// [`sip_limit::Controller::severity`].
            pub severity: u32,
        }
        /// Messages handed from one worker to another.
        pub handed_over: u64 = counter("signet_handed_over_total"),
        /// Messages for which the other worker had no room.
        pub handover_refused: u64 = counter("signet_handover_refused_total"),
        /// Questions that the store did not take.
        pub store_refused: u64 = counter("signet_store_refused_total"),
        /// Questions that the resolver did not take.
        pub dns_refused: u64 = counter("signet_dns_refused_total"),
        /// Messages sent by a connection that their neighbour had opened (RFC 5923).
        pub aliases_used: u64 = counter("signet_aliases_used_total"),
        /// Messages dropped before they were read, because their source was refused too often.
        pub dropped_unread: u64 = counter("signet_dropped_unread_total"),
    }
}

/// A worker's figures at one moment.
#[derive(Clone, Default)]
pub struct Snapshot<F> {
    /// When, by the clock that only goes forward.
    pub at_ms: u64,
    /// What the shard counts.
    pub engine: Counters,
    /// What its transactions count.
    pub transactions: sip_txn::Counters,
    /// What its registrar counts.
    pub registrar: RegistrarCounters,
    /// What it has refused.
    pub refusals: RefusalCounts,
    /// The transactions that live.
    pub live: Live,
    /// Requests that are being forwarded.
    pub contexts: usize,
    /// Transactions, contexts and parked requests.
    pub in_flight: usize,
    /// Calls in progress, as far as they are listed.
    pub calls: usize,
    /// What was asked of media engines.
    pub media: sip_media::Counters,
    /// Requests that have no final answer yet, or whose final answer has no ACK, and what is on its
    /// way between workers, where the worker drains.
    pub unanswered: Option<usize>,
    /// What the sockets count.
    pub sockets: F,
    /// What the worker itself counts.
    pub own: Figures,
}

/// Shared by the admin thread and the workers; no worker ever waits on it for
/// more than a copy. `F` is what the sockets count.
pub struct Control<F, W> {
    phase: AtomicU8,
    generation: AtomicU64,
    /// The generation of the newest settings that are the sockets' business too.
    for_sockets: AtomicU64,
    /// The generation of the settings that each worker goes by.
    taken_over: Vec<AtomicU64>,
    settings: Mutex<Option<Arc<Settings>>>,
    snapshots: Vec<Mutex<Snapshot<F>>>,
    mailboxes: Mutex<Vec<Arc<Mailbox<W>>>>,
    refusals: Refusals,
    /// For each worker.
    orders: Vec<Orders>,
}

impl<F: Clone + Default, W: Wake> Control<F, W> {
    /// For so many workers, which serve.
    pub fn new(workers: usize) -> Self {
        Self {
            phase: AtomicU8::new(0),
            generation: AtomicU64::new(0),
            for_sockets: AtomicU64::new(0),
            taken_over: (0..workers).map(|_| AtomicU64::default()).collect(),
            settings: Mutex::new(None),
            snapshots: (0..workers).map(|_| Mutex::default()).collect(),
            mailboxes: Mutex::default(),
            refusals: Refusals::default(),
            orders: (0..workers).map(|_| Orders::default()).collect(),
        }
    }

    /// What the workers have refused lately.
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.orders.len()
    }

    /// Gives one worker an order; false where it has too many already. What it does with it
    /// is told by the order itself.
    pub fn order_of(&self, worker: usize, order: Order) -> bool {
        let is_given = self.orders.get(worker).is_some_and(|own| own.give(order));
        if let Some(mailbox) = lock(&self.mailboxes).get(worker) {
            mailbox.wake();
        }
        is_given
    }

    /// Takes a worker's orders.
    pub(crate) fn orders_of(&self, worker: usize) -> Vec<Order> {
        let own = self.orders.get(worker);
        own.map(Orders::take).unwrap_or_default()
    }

    /// Whom to wake when something is ordered.
    pub fn set_mailboxes(&self, mailboxes: Vec<Arc<Mailbox<W>>>) {
        *lock(&self.mailboxes) = mailboxes;
    }

    /// Where the process is in its life.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Running,
            1 => Phase::Draining,
            _ => Phase::Stop,
        }
    }

    /// Orders a phase; there is no way back.
    pub fn order(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::AcqRel);
        self.wake_all();
    }

    /// Gives all workers other settings. Whom sockets trust may have changed with them.
    pub fn reload(&self, settings: Arc<Settings>) {
        self.give(settings, true);
    }

    /// The same where nothing else has changed than what is written of people, as by each command
    /// of many: the sockets have nothing to do.
    pub fn reload_people(&self, settings: Arc<Settings>) {
        self.give(settings, false);
    }

    fn give(&self, settings: Arc<Settings>, is_for_sockets: bool) {
        let mut held = lock(&self.settings);
        *held = Some(settings);
        let generation = self.generation.fetch_add(1, Ordering::AcqRel) + 1;
        if is_for_sockets {
            self.for_sockets.store(generation, Ordering::Release);
        }
        drop(held);
        self.wake_all();
    }

    /// Grows with each reload.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The newest settings and their generation; none before the first reload.
    pub(crate) fn settings(&self) -> (u64, Option<Arc<Settings>>) {
        let held = lock(&self.settings);
        (self.generation(), held.clone())
    }

    /// Whether settings after that generation are the sockets' business too.
    pub(crate) fn has_more_for_sockets(&self, than: u64) -> bool {
        self.for_sockets.load(Ordering::Acquire) > than
    }

    /// A worker goes by the settings of that generation.
    pub(crate) fn take_over(&self, worker: usize, generation: u64) {
        if let Some(taken_over) = self.taken_over.get(worker) {
            taken_over.store(generation, Ordering::Release);
        }
    }

    /// Whether all workers go by the newest settings.
    pub fn is_taken_over(&self) -> bool {
        let generation = self.generation();
        self.taken_over
            .iter()
            .all(|taken_over| taken_over.load(Ordering::Acquire) == generation)
    }

    /// Keeps a worker's figures.
    pub(crate) fn report(&self, worker: usize, snapshot: Snapshot<F>) {
        if let Some(place) = self.snapshots.get(worker) {
            *lock(place) = snapshot;
        }
    }

    /// Each worker's last report.
    pub fn snapshots(&self) -> Vec<Snapshot<F>> {
        self.snapshots
            .iter()
            .map(|place| lock(place).clone())
            .collect()
    }

    fn wake_all(&self) {
        lock(&self.mailboxes)
            .iter()
            .for_each(|mailbox| mailbox.wake());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is replaced as a whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reload_is_over_when_the_last_worker_goes_by_it() {
        struct NoBell;
        impl Wake for NoBell {
            fn wake(&self) {}
        }
        let control = Control::<(), NoBell>::new(2);
        assert!(control.is_taken_over(), "nothing was reloaded");
        control.reload(Arc::default());
        control.take_over(0, control.generation());
        assert!(!control.is_taken_over());
        control.take_over(1, control.generation());
        assert!(control.is_taken_over());
        control.reload(Arc::default());
        assert!(!control.is_taken_over());
    }
}
