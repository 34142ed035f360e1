//! What the admin thread tells the workers, and what they tell it.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sip_engine::Settings;
use sip_engine::registrar::RegistrarCounters;
use sip_engine::shard::Counters;
use sip_net::PeerNames;
use sip_txn::Live;

use super::Mailbox;

/// Where a process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
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
    pub(crate) struct Figures {
        parts {
            /// How bad it is, in thousandths of a step of [`sip_limit::Controller::severity`].
            pub(crate) severity: u32,
        }
        /// Messages handed from one worker to another.
        pub(crate) handed_over: u64 = counter("signet_handed_over_total"),
        /// Messages for which the other worker had no room.
        pub(crate) handover_refused: u64 = counter("signet_handover_refused_total"),
        /// Questions that the store did not take.
        pub(crate) store_refused: u64 = counter("signet_store_refused_total"),
        /// Questions that the resolver did not take.
        pub(crate) dns_refused: u64 = counter("signet_dns_refused_total"),
        /// Messages sent by a connection that their neighbour had opened (RFC 5923).
        pub(crate) aliases_used: u64 = counter("signet_aliases_used_total"),
        /// Messages dropped before they were read, because their source was refused too often.
        pub(crate) dropped_unread: u64 = counter("signet_dropped_unread_total"),
    }
}

/// A worker's figures at one moment.
#[derive(Clone, Default)]
pub(crate) struct Snapshot {
    /// When, by `sip_net::clock::now_ms`.
    pub(crate) at_ms: u64,
    pub(crate) engine: Counters,
    pub(crate) transactions: sip_txn::Counters,
    pub(crate) registrar: RegistrarCounters,
    pub(crate) live: Live,
    /// Requests that are being forwarded.
    pub(crate) contexts: usize,
    pub(crate) in_flight: usize,
    /// Requests that have no final answer yet, where the worker drains.
    pub(crate) unanswered: Option<usize>,
    pub(crate) net: sip_net::Counters,
    /// Those of each listener, by its number.
    pub(crate) listeners: Vec<sip_net::ListenerCounters>,
    /// TLS handshakes of connections that were opened.
    pub(crate) opened_tls: sip_net::HandshakeTally,
    /// Connections that were opened.
    pub(crate) opened: sip_net::ConnectionFigures,
    /// What there was with each peer.
    pub(crate) peers: Vec<sip_net::PeerCounters>,
    /// Bytes that wait on connections: to be written, or for the rest of a message.
    pub(crate) buffered_bytes: u64,
    pub(crate) own: Figures,
}

/// Shared by the admin thread and the workers; no worker ever waits on it for
/// more than a copy.
pub(crate) struct Control {
    phase: AtomicU8,
    generation: AtomicU64,
    /// The generation of the settings that each worker goes by.
    taken_over: Vec<AtomicU64>,
    settings: Mutex<Option<Arc<Settings>>>,
    peer_names: Mutex<Arc<PeerNames>>,
    snapshots: Vec<Mutex<Snapshot>>,
    mailboxes: Mutex<Vec<Arc<Mailbox>>>,
}

impl Control {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            phase: AtomicU8::new(0),
            generation: AtomicU64::new(0),
            taken_over: (0..workers).map(|_| AtomicU64::default()).collect(),
            settings: Mutex::new(None),
            peer_names: Mutex::default(),
            snapshots: (0..workers).map(|_| Mutex::default()).collect(),
            mailboxes: Mutex::default(),
        }
    }

    /// Whom to wake when something is ordered.
    pub(crate) fn set_mailboxes(&self, mailboxes: Vec<Arc<Mailbox>>) {
        *lock(&self.mailboxes) = mailboxes;
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Running,
            1 => Phase::Draining,
            _ => Phase::Stop,
        }
    }

    /// Orders a phase; there is no way back.
    pub(crate) fn order(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::AcqRel);
        self.wake_all();
    }

    /// Which peers the workers are to count by name, from the next reload on.
    pub(crate) fn set_peer_names(&self, names: Arc<PeerNames>) {
        *lock(&self.peer_names) = names;
    }

    pub(crate) fn peer_names(&self) -> Arc<PeerNames> {
        lock(&self.peer_names).clone()
    }

    /// Gives all workers other settings.
    pub(crate) fn reload(&self, settings: Arc<Settings>) {
        let mut held = lock(&self.settings);
        *held = Some(settings);
        self.generation.fetch_add(1, Ordering::AcqRel);
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

    /// A worker goes by the settings of that generation.
    pub(crate) fn take_over(&self, worker: usize, generation: u64) {
        if let Some(taken_over) = self.taken_over.get(worker) {
            taken_over.store(generation, Ordering::Release);
        }
    }

    /// Whether all workers go by the newest settings.
    pub(crate) fn is_taken_over(&self) -> bool {
        let generation = self.generation();
        self.taken_over
            .iter()
            .all(|taken_over| taken_over.load(Ordering::Acquire) == generation)
    }

    pub(crate) fn report(&self, worker: usize, snapshot: Snapshot) {
        if let Some(place) = self.snapshots.get(worker) {
            *lock(place) = snapshot;
        }
    }

    /// Each worker's last report.
    pub(crate) fn snapshots(&self) -> Vec<Snapshot> {
        self.snapshots
            .iter()
            .map(|place| lock(place).clone())
            .collect()
    }

    pub(crate) fn wake_all(&self) {
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
        let control = Control::new(2);
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
