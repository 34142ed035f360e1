//! TLS handshakes: their bounds, their turns, and threads for the expensive part.
//!
//! The sockets stay with their worker, which reads and writes. What costs a
//! private-key operation or the verification of a chain is given to a thread
//! of the pool, so that no worker waits for it; what costs no more than a
//! message does, a session resumed or a client's last word, the worker does
//! itself.
//!
//! A storm of handshakes is met in three places. A handshake too many, of all
//! or of one source, is refused before it is begun; but a client that says
//! nothing, or leaves an answer alone, gives its place to one that comes after it.
//! A worker reads as many hellos in a turn as that has room for, and resumes the
//! sessions that it knows. Full handshakes it does itself while few are under way, they take a
//! small part of its time, and their keys are quick; the others wait in a queue
//! for a thread, as long as its bound allows.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::fault::{HandshakeError, HandshakeFailure};
use crate::handshake::Class;

mod line;
mod queue;

use queue::Queue;
pub use queue::{Handshaken, QueuedStep, Reply, Step};

/// Handshakes under way, of clients that have said hello and of ours, up to which there is no
/// storm. In one, all that a worker has left is for calls.
const CALM_MAX: u64 = 64;

/// Bounds of the pool.
#[derive(Clone, Copy, Debug)]
pub struct HandshakeConfig {
    /// Threads. Without any each worker does all of its handshakes itself: the
    /// cheapest where nothing else is to be done meanwhile.
    pub threads: usize,
    /// Handshakes with clients begun and not done; past it one that only waits for its client
    /// ends for a new one, or the new one is refused. As many again may be under way with
    /// servers, whatever clients do.
    pub handshakes_max: usize,
    /// Of these, handshakes with clients of one source (an IPv4 address, an
    /// IPv6 /64).
    pub per_source_max: usize,
    /// Clients whose ClientHello was read and that resume nothing, waiting for
    /// a thread; past it one of the source that has most is refused, or the new one.
    pub full_queue_max: usize,
    /// Full handshakes with clients begun in a second; 0 for as many as the
    /// threads can do.
    pub full_per_s_max: u32,
    /// How long a client may take to send its ClientHello, and another one if it is asked to.
    pub hello_timeout_ms: u64,
    /// How long a handshake may take from the ClientHello on, the wait for its turn included;
    /// one that we begin, from its beginning.
    pub timeout_ms: u64,
}

impl Default for HandshakeConfig {
    fn default() -> Self {
        Self {
            threads: 1,
            // Ten thousand phones may come back at once; until it is its turn
            // each holds a kilobyte.
            handshakes_max: 16_384,
            per_source_max: 2_048,
            full_queue_max: 2_048,
            full_per_s_max: 0,
            hello_timeout_ms: 5_000,
            timeout_ms: 10_000,
        }
    }
}

/// What the pool counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandshakeCounters {
    /// Handshakes under way.
    pub under_way: u64,
    /// Clients whose full handshake waits for a thread.
    pub full_waiting: u64,
    /// Sockets with handshakes that the turns of workers had no room for.
    pub unread: u64,
    /// Full handshakes with clients that had their turn.
    pub full_begun: u64,
    /// Of these, handshakes that the workers began themselves.
    pub full_on_workers: u64,
    /// Resumptions, as the ClientHello promised, that had their turn.
    pub resumed_begun: u64,
    /// Handshakes done.
    pub done: u64,
    /// Handshakes refused, for whatever reason.
    pub refused: u64,
    /// Of these, because their source had too many under way.
    pub refused_source: u64,
    /// Of these, because too many full handshakes waited.
    pub refused_full: u64,
    /// Handshakes that took too long.
    pub timed_out: u64,
    /// Connections that ended before the handshake did.
    pub cut: u64,
    /// Certificates of peers that were not accepted.
    pub bad_certificate: u64,
    /// Certificates of ours that peers did not accept.
    pub certificate_refused: u64,
    /// Handshakes without a version, a suite or a certificate in common.
    pub incompatible: u64,
    /// Handshakes that failed for any other reason: no TLS, mostly.
    pub failed: u64,
    /// What the threads used of the processor, in microseconds.
    pub cpu_us: u64,
}

/// The threads that compute for handshakes, and what bounds these. Cheap to
/// clone; the threads end when the last clone is dropped.
#[derive(Clone)]
pub struct HandshakePool {
    inner: Arc<Inner>,
}

impl HandshakePool {
    /// Starts the threads.
    pub fn start(config: HandshakeConfig) -> io::Result<Self> {
        let figures = Arc::new(Figures::default());
        let queue = Arc::new(Queue::new(&config, Arc::clone(&figures)));
        let pool = Self {
            inner: Arc::new(Inner {
                queue,
                figures,
                config,
            }),
        };
        for index in 0..config.threads {
            let queue = Arc::clone(&pool.inner.queue);
            thread::Builder::new()
                .name(format!("handshake-{index}"))
                .spawn(move || queue.run())?;
        }
        Ok(pool)
    }

    /// What was counted.
    pub fn counters(&self) -> HandshakeCounters {
        let figures = &self.inner.figures;
        let read = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let failed =
            |failure: HandshakeFailure| figures.failed.get(failure as usize).map_or(0, read);
        HandshakeCounters {
            under_way: read(&figures.under_way),
            full_waiting: read(&figures.full_waiting),
            unread: read(&figures.unread),
            full_begun: read(figures.begun(Class::Full)),
            full_on_workers: read(&figures.full_on_workers),
            resumed_begun: read(figures.begun(Class::Resumed)),
            done: read(&figures.done),
            refused: failed(HandshakeFailure::Refused),
            refused_source: read(&figures.refused_source),
            refused_full: read(&figures.refused_full),
            timed_out: failed(HandshakeFailure::TimedOut),
            cut: failed(HandshakeFailure::Cut),
            bad_certificate: failed(HandshakeFailure::BadCertificate),
            certificate_refused: failed(HandshakeFailure::CertificateRefused),
            incompatible: failed(HandshakeFailure::Incompatible),
            failed: failed(HandshakeFailure::Broken),
            cpu_us: read(&figures.cpu_ns) / 1_000,
        }
    }

    /// The bounds.
    pub fn config(&self) -> &HandshakeConfig {
        &self.inner.config
    }

    /// Whether workers do all handshakes themselves.
    pub fn is_without_threads(&self) -> bool {
        self.inner.config.threads == 0
    }

    /// Whether so few clients' handshakes are under way that there is a place for whoever comes.
    pub fn has_places_for_any(&self) -> bool {
        let Inner {
            figures, config, ..
        } = &*self.inner;
        let any_max = config.per_source_max.min(config.handshakes_max) as u64;
        figures.accepted.load(Ordering::Relaxed) < any_max
    }

    /// Whether a client's handshake finds no place any more, whoever the client is.
    pub fn is_full(&self) -> bool {
        let accepted = &self.inner.figures.accepted;
        accepted.load(Ordering::Relaxed) >= self.inner.config.handshakes_max as u64
    }

    /// A handshake was refused because its source has all that it may.
    pub fn count_refused_source(&self) {
        let figures = &self.inner.figures;
        figures.refused_source.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a source has fewer handshakes under way than it may.
    pub fn has_share_left(&self, source: IpAddr) -> bool {
        let Inner {
            figures, config, ..
        } = &*self.inner;
        figures.count_of(source) < config.per_source_max
    }

    /// A worker more does handshakes with clients, until what is given is dropped.
    pub fn join(&self) -> PoolMember {
        let figures = Arc::clone(&self.inner.figures);
        figures.workers.fetch_add(1, Ordering::Relaxed);
        PoolMember { figures }
    }

    /// Workers that do.
    pub fn workers(&self) -> usize {
        usize::try_from(self.inner.figures.workers.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    /// A place for a handshake; none if there are too many, of all or of
    /// `source`. Handshakes that we began have no source.
    pub fn admit(&self, source: Option<IpAddr>) -> Option<HandshakeSlot> {
        let Inner {
            figures, config, ..
        } = &*self.inner;
        let of_its_kind = figures.of_its_kind(source).fetch_add(1, Ordering::Relaxed);
        figures.under_way.fetch_add(1, Ordering::Relaxed);
        let fits = of_its_kind < config.handshakes_max as u64;
        if !fits || source.is_some_and(|ip| !figures.enter(ip, config.per_source_max)) {
            if fits {
                self.count_refused_source();
            }
            figures.of_its_kind(source).fetch_sub(1, Ordering::Relaxed);
            figures.under_way.fetch_sub(1, Ordering::Relaxed);
            figures.count_failure(HandshakeFailure::Refused);
            return None;
        }
        let mut slot = HandshakeSlot {
            figures: Arc::clone(figures),
            source,
            is_heard: false,
        };
        if source.is_none() {
            slot.hear();
        }
        Some(slot)
    }

    /// Lets a thread do a step. Gives it back when too many wait already.
    pub fn send(&self, step: Step) -> Result<QueuedStep, Step> {
        self.inner.queue.push(step)
    }

    /// Whether a full handshake that begins now is left to a thread: for others
    /// before it, for its time, or because there is a storm.
    pub fn must_wait(&self) -> bool {
        let Inner {
            figures, config, ..
        } = &*self.inner;
        config.full_per_s_max > 0
            || figures.full_waiting.load(Ordering::Relaxed) > 0
            || self.is_storm()
    }

    /// Whether so many handshakes are under way that none gets more than it must. Clients that
    /// have said nothing cost nothing.
    pub fn is_storm(&self) -> bool {
        self.inner.figures.heard.load(Ordering::Relaxed) > CALM_MAX
    }

    /// A worker does a step itself whose turn it is.
    pub fn count_begun(&self, class: Class) {
        let figures = &self.inner.figures;
        figures.begun(class).fetch_add(1, Ordering::Relaxed);
        if class == Class::Full {
            figures.full_on_workers.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A socket more stays unread until a turn has room.
    pub fn count_unread(&self) {
        self.inner.figures.unread.fetch_add(1, Ordering::Relaxed);
    }

    /// A turn has room for one of them.
    pub fn count_read(&self) {
        self.inner.figures.unread.fetch_sub(1, Ordering::Relaxed);
    }

    /// What a step took of a worker's processor time.
    pub fn count_cpu(&self, cpu_ns: u64) {
        self.inner
            .figures
            .cpu_ns
            .fetch_add(cpu_ns, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for HandshakePool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HandshakePool")
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

/// A handshake's place among those under way, until it is dropped.
pub struct HandshakeSlot {
    figures: Arc<Figures>,
    source: Option<IpAddr>,
    /// Whether it is one of ours, or its client has said hello.
    is_heard: bool,
}

impl HandshakeSlot {
    /// Its client has said hello.
    pub fn hear(&mut self) {
        if !std::mem::replace(&mut self.is_heard, true) {
            self.figures.heard.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// It succeeded.
    pub fn count_done(&self) {
        self.figures.done.fetch_add(1, Ordering::Relaxed);
    }

    /// It failed.
    pub fn count_failed(&self, error: &HandshakeError) {
        self.figures.count_failure(error.failure);
    }
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        let of_its_kind = self.figures.of_its_kind(self.source);
        of_its_kind.fetch_sub(1, Ordering::Relaxed);
        self.figures.under_way.fetch_sub(1, Ordering::Relaxed);
        if self.is_heard {
            self.figures.heard.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(ip) = self.source {
            self.figures.leave(ip);
        }
    }
}

/// A worker that does handshakes with clients.
pub struct PoolMember {
    figures: Arc<Figures>,
}

impl Drop for PoolMember {
    fn drop(&mut self) {
        self.figures.workers.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Inner {
    queue: Arc<Queue>,
    figures: Arc<Figures>,
    config: HandshakeConfig,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.queue.close();
    }
}

#[derive(Default)]
struct Figures {
    workers: AtomicU64,
    under_way: AtomicU64,
    /// Of these, handshakes of ours, and with clients that have said hello.
    heard: AtomicU64,
    /// Handshakes with clients, and those that we began.
    accepted: AtomicU64,
    opened: AtomicU64,
    done: AtomicU64,
    refused_source: AtomicU64,
    cpu_ns: AtomicU64,
    failed: [AtomicU64; HandshakeFailure::ALL.len()],
    full_begun: AtomicU64,
    full_on_workers: AtomicU64,
    resumed_begun: AtomicU64,
    full_waiting: AtomicU64,
    refused_full: AtomicU64,
    unread: AtomicU64,
    by_source: Mutex<HashMap<IpAddr, usize>>,
}

impl Figures {
    /// Those under way with clients, or with servers.
    fn of_its_kind(&self, source: Option<IpAddr>) -> &AtomicU64 {
        match source {
            Some(_) => &self.accepted,
            None => &self.opened,
        }
    }

    /// One more of a source; no if that were too many.
    fn enter(&self, source: IpAddr, max: usize) -> bool {
        let mut by_source = self
            .by_source
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let count = by_source.entry(source).or_default();
        let fits = *count < max;
        if fits {
            *count += 1;
        } else if *count == 0 {
            by_source.remove(&source);
        }
        fits
    }

    fn count_of(&self, source: IpAddr) -> usize {
        let by_source = self
            .by_source
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        by_source.get(&source).copied().unwrap_or(0)
    }

    fn leave(&self, source: IpAddr) {
        let mut by_source = self
            .by_source
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = by_source.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                by_source.remove(&source);
            }
        }
    }

    fn count_failure(&self, failure: HandshakeFailure) {
        if let Some(figure) = self.failed.get(failure as usize) {
            figure.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn begun(&self, class: Class) -> &AtomicU64 {
        match class {
            Class::Full => &self.full_begun,
            Class::Resumed => &self.resumed_begun,
        }
    }
}
