//! What workers and the main thread tell each other.

use std::sync::atomic::{AtomicU8, AtomicU64};

use measure::{Causes, SecondPart};
use sip_dialog::{Answers, Live};
use sip_msg::{ListenerId, Target};
use sip_net::Counters;

use super::{Before, CalledCounts, Recorder, Sent, Upkeep};
use crate::clock::Clock;
use crate::settings::Settings;
use crate::smime::Smime;

/// What a worker is asked to do.
pub(crate) mod orders {
    /// Go on.
    pub(crate) const RUN: u8 = 0;
    /// Begin nothing more and let what is under way end.
    pub(crate) const DRAIN: u8 = 1;
    /// End at once.
    pub(crate) const STOP: u8 = 2;
}

/// What all workers and the main thread have in common.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    /// What protects bodies, where that is asked for.
    pub(crate) smime: Option<Smime>,
    pub(crate) clock: Clock,
    /// When the run begins; `u64::MAX` until all workers are ready.
    pub(crate) start_ns: AtomicU64,
    /// One of [`orders`], for those who call.
    pub(crate) order: AtomicU8,
    /// One of [`orders`], for those who are only called.
    pub(crate) order_called: AtomicU8,
}

/// Which worker this is, and where its messages go.
#[derive(Clone, Debug)]
pub(crate) struct WorkerPart {
    /// Among all threads.
    pub(crate) number: usize,
    /// Among those that do the same.
    pub(crate) index: usize,
    pub(crate) of: usize,
    /// Where requests go; `None` for a called side alone.
    pub(crate) target: Option<Target>,
    /// Listeners from which this worker sends: the first of them and how many.
    pub(crate) senders: u16,
    /// The first listener of the called side, if there is one.
    pub(crate) answering: Option<ListenerId>,
}

/// What a worker tells the main thread while it runs.
pub(crate) enum Report {
    /// It is ready, or as ready as it will be.
    Ready { worker: usize, upkeep: Upkeep },
    /// How it stands.
    Tick(Box<Tick>),
    /// It is over.
    Done(Box<Final>),
    /// It cannot go on.
    Failed { error: String },
}

/// How a worker stands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tick {
    pub(crate) worker: usize,
    pub(crate) started: u64,
    pub(crate) ended: u64,
    pub(crate) failed: u64,
    pub(crate) in_flight: u64,
    pub(crate) ready: u64,
    pub(crate) part: Option<SecondPart>,
    pub(crate) causes: Vec<(String, u64)>,
    pub(crate) called: CalledCounts,
    pub(crate) called_causes: Causes,
    pub(crate) answers: Answers,
    pub(crate) retransmissions: u64,
    pub(crate) kernel_drops: u64,
    pub(crate) queue_drops: u64,
    pub(crate) late_p99_us: u64,
    pub(crate) late_max_us: u64,
}

/// Everything that a worker found out.
pub(crate) struct Final {
    pub(crate) worker: usize,
    /// It has begun nothing itself.
    pub(crate) is_called_only: bool,
    pub(crate) record: Recorder,
    pub(crate) sockets: Counters,
    pub(crate) agents: sip_dialog::Counters,
    /// The final responses given.
    pub(crate) answers: Answers,
    pub(crate) transactions: sip_txn::Counters,
    /// How they stood when the run began.
    pub(crate) before: Before,
    /// What was still alive when all had ended.
    pub(crate) live: Live,
    pub(crate) connections: usize,
    /// TLS handshakes that failed on connections that were opened.
    pub(crate) handshakes_failed: u64,
    /// When the last arrival was over.
    pub(crate) end_ns: u64,
    /// How long its arrivals were due; 0 where it had none.
    pub(crate) sending_ns: u64,
    /// How long it sent, and what it took meanwhile.
    pub(crate) sent: Sent,
    /// CPU time during the run.
    pub(crate) cpu_ns: u64,
    /// Time during the run in which it was ready and had no CPU.
    pub(crate) waited_ns: u64,
}
