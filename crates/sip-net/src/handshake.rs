//! TLS handshakes on threads of their own, so that no worker waits for a
//! private-key operation.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread;

use mio::net::TcpStream;
use mio::{Poll, Token};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use sip_msg::ConnId;

use crate::session::Session;
use crate::tls::ServerTls;
use crate::waker::Waker;

mod worker;

use worker::Worker;

/// Bounds of the pool.
#[derive(Clone, Copy, Debug)]
pub struct HandshakeConfig {
    /// Threads.
    pub threads: usize,
    /// Handshakes begun and not done; past it new ones are refused.
    pub handshakes_max: usize,
    /// How long one may take.
    pub timeout_ms: u64,
}

impl Default for HandshakeConfig {
    fn default() -> Self {
        Self {
            threads: 1,
            handshakes_max: 4_096,
            timeout_ms: 10_000,
        }
    }
}

/// What the pool counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandshakeCounters {
    /// Handshakes under way.
    pub under_way: u64,
    /// Handshakes done.
    pub done: u64,
    /// Handshakes refused because too many were under way.
    pub refused: u64,
    /// Handshakes that took too long.
    pub timed_out: u64,
    /// Connections that ended before the handshake did.
    pub cut: u64,
    /// Certificates that were not accepted, by us or by the peer.
    pub bad_certificate: u64,
    /// Handshakes without a version, a suite or a certificate in common.
    pub incompatible: u64,
    /// Handshakes that failed for any other reason: no TLS, mostly.
    pub failed: u64,
}

/// Why a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HandshakeFailure {
    /// It took too long.
    TimedOut,
    /// The connection ended before it did.
    Cut,
    /// A certificate was not accepted, by us or by the peer.
    BadCertificate,
    /// No version, suite, group or certificate in common.
    Incompatible,
    /// What came was no TLS, or not as it must be.
    Broken,
}

impl HandshakeFailure {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Self; 5] = [
        Self::TimedOut,
        Self::Cut,
        Self::BadCertificate,
        Self::Incompatible,
        Self::Broken,
    ];
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
            let worker = Worker::new(
                poll,
                inbox,
                waker.clone(),
                Arc::clone(&figures),
                config.timeout_ms,
            );
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
                handshakes_max: config.handshakes_max,
            }),
        })
    }

    /// What was counted.
    pub fn counters(&self) -> HandshakeCounters {
        let figures = &self.inner.figures;
        let read = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let failed =
            |failure: HandshakeFailure| figures.failed.get(failure as usize).map_or(0, read);
        HandshakeCounters {
            under_way: read(&figures.under_way),
            done: read(&figures.done),
            refused: read(&figures.refused),
            timed_out: failed(HandshakeFailure::TimedOut),
            cut: failed(HandshakeFailure::Cut),
            bad_certificate: failed(HandshakeFailure::BadCertificate),
            incompatible: failed(HandshakeFailure::Incompatible),
            failed: failed(HandshakeFailure::Broken),
        }
    }

    /// Gives a socket to the pool, or says no at once.
    pub(crate) fn begin(&self, job: Job) -> Result<(), Job> {
        let inner = &self.inner;
        if inner.figures.under_way.fetch_add(1, Ordering::Relaxed) >= inner.handshakes_max as u64 {
            inner.figures.under_way.fetch_sub(1, Ordering::Relaxed);
            inner.figures.refused.fetch_add(1, Ordering::Relaxed);
            return Err(job);
        }
        let turn = inner.next.fetch_add(1, Ordering::Relaxed) % inner.threads.len().max(1);
        let Some(mailbox) = inner.threads.get(turn) else {
            return Err(job);
        };
        let sent = match mailbox.jobs.lock() {
            Ok(jobs) => jobs.send(job).map_err(|error| error.0),
            Err(_) => Err(job),
        };
        match sent {
            Ok(()) => {
                mailbox.waker.wake();
                Ok(())
            }
            Err(job) => {
                inner.figures.under_way.fetch_sub(1, Ordering::Relaxed);
                Err(job)
            }
        }
    }
}

impl std::fmt::Debug for HandshakePool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HandshakePool")
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

/// A handshake to be done.
pub(crate) struct Job {
    pub(crate) conn: ConnId,
    pub(crate) socket: TcpStream,
    pub(crate) side: Side,
    pub(crate) reply: Sender<Handshaken>,
    pub(crate) waker: Waker,
}

/// Which end of the handshake is ours.
pub(crate) enum Side {
    Server(Arc<ServerTls>),
    Client {
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    },
}

/// A handshake that is over.
pub(crate) struct Handshaken {
    pub(crate) conn: ConnId,
    pub(crate) result: Result<Secured, HandshakeFailure>,
}

/// A connection whose handshake succeeded.
pub(crate) struct Secured {
    pub(crate) socket: TcpStream,
    pub(crate) session: Session,
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
    handshakes_max: usize,
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
    refused: AtomicU64,
    failed: [AtomicU64; HandshakeFailure::ALL.len()],
}
