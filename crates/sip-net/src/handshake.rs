//! TLS handshakes on threads of their own, so that no worker waits for a
//! private-key operation.
//!
//! A storm of handshakes is met in three places. A handshake too many, of all
//! or of one source, is refused before it is begun. The ClientHello is read
//! before anything is computed: one that resumes a session that we know has
//! its turn first, since it costs a tenth of a full one. Full handshakes wait
//! in a queue of their own, as long as its bound allows.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use mio::net::TcpStream;
use mio::{Poll, Token};
use rustls::pki_types::ServerName;
use sip_msg::ConnId;

use crate::conns::source;
use crate::session::Session;
use crate::tls::{ClientTls, HandshakeError, HandshakeFailure, ServerTls, TlsInfo};
use crate::waker::Waker;

mod job;
mod worker;

use worker::Worker;

/// Bounds of the pool.
#[derive(Clone, Copy, Debug)]
pub struct HandshakeConfig {
    /// Threads.
    pub threads: usize,
    /// Handshakes begun and not done; past it new ones are refused.
    pub handshakes_max: usize,
    /// Of these, handshakes with clients of one source (an IPv4 address, an
    /// IPv6 /64).
    pub per_source_max: usize,
    /// Clients whose ClientHello was read and that resume nothing, waiting for
    /// their turn; past it they are refused.
    pub full_queue_max: usize,
    /// The same for those that resume a session.
    pub resumed_queue_max: usize,
    /// Full handshakes with clients begun in a second; 0 for as many as the
    /// threads can do.
    pub full_per_s_max: u32,
    /// How long a client may take to send its ClientHello.
    pub hello_timeout_ms: u64,
    /// How long a handshake may take, the wait for its turn included.
    pub timeout_ms: u64,
}

impl Default for HandshakeConfig {
    fn default() -> Self {
        Self {
            threads: 1,
            handshakes_max: 4_096,
            per_source_max: 2_048,
            full_queue_max: 2_048,
            resumed_queue_max: 4_096,
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
    /// Clients waiting for the turn of their full handshake.
    pub full_waiting: u64,
    /// Clients waiting for the turn of their resumption.
    pub resumed_waiting: u64,
    /// Full handshakes with clients that had their turn.
    pub full_begun: u64,
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
    /// Of these, because too many resumptions waited.
    pub refused_resumed: u64,
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

/// The threads that do handshakes. Cheap to clone; they end when the last
/// clone is dropped.
#[derive(Clone)]
pub struct HandshakePool {
    inner: Arc<Inner>,
}

impl HandshakePool {
    /// Starts the threads.
    pub fn start(config: HandshakeConfig) -> io::Result<Self> {
        let figures = Arc::new(Figures::default());
        let mut threads = Vec::new();
        for index in 0..config.threads.max(1) {
            let poll = Poll::new()?;
            let waker = Waker::new(poll.registry(), WAKER)?;
            let (jobs, inbox) = mpsc::channel();
            let worker = Worker::new(poll, inbox, waker.clone(), Arc::clone(&figures), config);
            thread::Builder::new()
                .name(format!("handshake-{index}"))
                .spawn(move || worker.run())?;
            threads.push(Mailbox {
                jobs: Mutex::new(jobs),
                waker,
            });
        }
        Ok(Self {
            inner: Arc::new(Inner {
                threads,
                next: AtomicUsize::new(0),
                figures,
                config,
            }),
        })
    }

    /// What was counted.
    pub fn counters(&self) -> HandshakeCounters {
        let figures = &self.inner.figures;
        let read = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let class = |of: &[AtomicU64; 2], class: Class| of.get(class as usize).map_or(0, read);
        let failed =
            |failure: HandshakeFailure| figures.failed.get(failure as usize).map_or(0, read);
        HandshakeCounters {
            under_way: read(&figures.under_way),
            full_waiting: class(&figures.waiting, Class::Full),
            resumed_waiting: class(&figures.waiting, Class::Resumed),
            full_begun: class(&figures.begun, Class::Full),
            resumed_begun: class(&figures.begun, Class::Resumed),
            done: read(&figures.done),
            refused: failed(HandshakeFailure::Refused),
            refused_source: read(&figures.refused_source),
            refused_full: class(&figures.refused, Class::Full),
            refused_resumed: class(&figures.refused, Class::Resumed),
            timed_out: failed(HandshakeFailure::TimedOut),
            cut: failed(HandshakeFailure::Cut),
            bad_certificate: failed(HandshakeFailure::BadCertificate),
            certificate_refused: failed(HandshakeFailure::CertificateRefused),
            incompatible: failed(HandshakeFailure::Incompatible),
            failed: failed(HandshakeFailure::Broken),
            cpu_us: read(&figures.cpu_ns) / 1_000,
        }
    }

    /// Gives a socket to the pool; no if it has too many.
    pub(crate) fn begin(&self, job: Job) -> bool {
        let inner = &self.inner;
        let figures = &inner.figures;
        if figures.under_way.fetch_add(1, Ordering::Relaxed) >= inner.config.handshakes_max as u64 {
            figures.count_failure(HandshakeFailure::Refused);
            return false;
        }
        let source = job.source();
        if let Some(ip) = source
            && !figures.enter(ip, inner.config.per_source_max)
        {
            figures.refused_source.fetch_add(1, Ordering::Relaxed);
            figures.count_failure(HandshakeFailure::Refused);
            return false;
        }
        let turn = inner.next.fetch_add(1, Ordering::Relaxed) % inner.threads.len().max(1);
        if let Some(mailbox) = inner.threads.get(turn)
            && let Ok(jobs) = mailbox.jobs.lock()
            && jobs.send(job).is_ok()
        {
            drop(jobs);
            mailbox.waker.wake();
            return true;
        }
        // Its thread has ended.
        if let Some(ip) = source {
            figures.leave(ip);
        }
        figures.count_failure(HandshakeFailure::Refused);
        false
    }
}

impl std::fmt::Debug for HandshakePool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HandshakePool")
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

/// What a client's handshake costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Full,
    Resumed,
}

/// A handshake to be done.
pub(crate) struct Job {
    pub(crate) conn: ConnId,
    pub(crate) socket: TcpStream,
    pub(crate) remote: SocketAddr,
    pub(crate) side: Side,
    pub(crate) begun: Instant,
    pub(crate) reply: Sender<Handshaken>,
    pub(crate) waker: Waker,
}

impl Job {
    /// Whose handshakes are bounded together; those that we began are not.
    fn source(&self) -> Option<IpAddr> {
        matches!(self.side, Side::Server(_)).then(|| source(self.remote.ip()))
    }
}

/// Which end of the handshake is ours.
pub(crate) enum Side {
    Server(Arc<ServerTls>),
    Client {
        tls: Arc<ClientTls>,
        name: ServerName<'static>,
    },
}

/// A handshake that is over.
pub(crate) struct Handshaken {
    pub(crate) conn: ConnId,
    /// Whether a stored session was not taken because of its certificate.
    pub(crate) resumption_refused: bool,
    pub(crate) result: Result<Box<Secured>, HandshakeError>,
}

/// A connection whose handshake succeeded.
pub(crate) struct Secured {
    pub(crate) socket: TcpStream,
    pub(crate) session: Session,
    pub(crate) info: TlsInfo,
    /// Data that came with the last message of the handshake.
    pub(crate) plaintext: Vec<u8>,
    /// The beginning of a record.
    pub(crate) sealed: Vec<u8>,
}

const WAKER: Token = Token(usize::MAX);

struct Inner {
    threads: Vec<Mailbox>,
    next: AtomicUsize,
    figures: Arc<Figures>,
    config: HandshakeConfig,
}

impl Drop for Inner {
    fn drop(&mut self) {
        for mut mailbox in self.threads.drain(..) {
            // Without a sender the thread ends.
            let (unused, _) = mpsc::channel();
            if let Ok(jobs) = mailbox.jobs.get_mut() {
                *jobs = unused;
            }
            mailbox.waker.wake();
        }
    }
}

struct Mailbox {
    jobs: Mutex<Sender<Job>>,
    waker: Waker,
}

#[derive(Default)]
struct Figures {
    under_way: AtomicU64,
    done: AtomicU64,
    refused_source: AtomicU64,
    cpu_ns: AtomicU64,
    failed: [AtomicU64; HandshakeFailure::ALL.len()],
    // By class, in the order of `Class`.
    waiting: [AtomicU64; 2],
    begun: [AtomicU64; 2],
    refused: [AtomicU64; 2],
    by_source: Mutex<HashMap<IpAddr, usize>>,
}

impl Figures {
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
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        if let Some(figure) = self.failed.get(failure as usize) {
            figure.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn of(figures: &[AtomicU64; 2], class: Class) -> &AtomicU64 {
        let [full, resumed] = figures;
        match class {
            Class::Full => full,
            Class::Resumed => resumed,
        }
    }
}
