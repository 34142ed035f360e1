//! One thread of the handshake pool.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use sip_msg::ConnId;
use slab::Slab;
use wheel::{TimerId, Wheel};

use super::{Figures, HandshakeFailure, Handshaken, Job, Secured, Side, WAKER};
use crate::clock;
use crate::session::Session;
use crate::waker::Waker;

/// Bytes read at a time: a record and its header.
const READ_BYTES: usize = 16_384 + 256;
/// Bytes of a handshake that wait for more of them; a certificate chain may
/// be long, but not longer.
const INPUT_MAX: usize = 96 * 1024;
/// Reads of one socket before the others have their turn.
const READS_MAX: usize = 8;

/// A handshake under way.
struct Handshake {
    conn: ConnId,
    socket: TcpStream,
    session: Session,
    reply: Sender<Handshaken>,
    waker: Waker,
    input: Vec<u8>,
    output: Vec<u8>,
    plaintext: Vec<u8>,
    timer: TimerId,
}

/// What came of driving a handshake.
enum Outcome {
    Waits,
    Again,
    Done,
    Cut,
    Failed(rustls::Error),
}

/// One thread of the pool.
pub(super) struct Worker {
    poll: Poll,
    inbox: Receiver<Job>,
    waker: Waker,
    jobs: Slab<Handshake>,
    wheel: Wheel<(usize, ConnId)>,
    figures: Arc<Figures>,
    timeout_ms: u64,
    scratch: Vec<u8>,
}

impl Worker {
    pub(super) fn new(
        poll: Poll,
        inbox: Receiver<Job>,
        waker: Waker,
        figures: Arc<Figures>,
        timeout_ms: u64,
    ) -> Self {
        Self {
            poll,
            inbox,
            waker,
            jobs: Slab::new(),
            wheel: Wheel::with_tick(clock::now_ms(), 100),
            figures,
            timeout_ms,
            scratch: vec![0; READ_BYTES],
        }
    }

    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(256);
        let mut again: Vec<usize> = Vec::new();
        loop {
            let wait = if again.is_empty() {
                self.wheel
                    .next_deadline_ms()
                    .map(|due| Duration::from_millis(due.saturating_sub(clock::now_ms())))
            } else {
                Some(Duration::ZERO)
            };
            if let Err(error) = self.poll.poll(&mut events, wait)
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!(%error, "the handshake thread cannot wait for its sockets and ends");
                return;
            }
            self.waker.woken();
            let mut next = std::mem::take(&mut again);
            next.extend(
                events
                    .iter()
                    .map(|event| event.token().0)
                    .filter(|token| *token != WAKER.0),
            );
            for key in next {
                if self.drive(key) {
                    again.push(key);
                }
            }
            loop {
                match self.inbox.try_recv() {
                    Ok(job) => {
                        if let Some(key) = self.begin(job)
                            && self.drive(key)
                        {
                            again.push(key);
                        }
                    }
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            let mut late = Vec::new();
            self.wheel.advance(clock::now_ms(), |key| late.push(key));
            for (key, conn) in late {
                if self.jobs.get(key).is_some_and(|job| job.conn == conn) {
                    self.end(key, Err(HandshakeFailure::TimedOut));
                }
            }
        }
    }

    /// Takes a job in.
    fn begin(&mut self, mut job: Job) -> Option<usize> {
        let session = match job.side {
            Side::Server(tls) => UnbufferedServerConnection::new(tls.config())
                .map(|conn| Session::Server(Box::new(conn))),
            Side::Client { config, name } => UnbufferedClientConnection::new(config, name)
                .map(|conn| Session::Client(Box::new(conn))),
        };
        let key = self.jobs.vacant_key();
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = self
            .poll
            .registry()
            .register(&mut job.socket, Token(key), interest);
        let (Ok(session), Ok(())) = (session, registered) else {
            let (conn, result) = (job.conn, Err(self.count_failure(HandshakeFailure::Broken)));
            let _ = job.reply.send(Handshaken { conn, result });
            job.waker.wake();
            return None;
        };
        let timer = self
            .wheel
            .start(clock::now_ms() + self.timeout_ms, (key, job.conn));
        self.jobs.insert(Handshake {
            conn: job.conn,
            socket: job.socket,
            session,
            reply: job.reply,
            waker: job.waker,
            input: Vec::new(),
            output: Vec::new(),
            plaintext: Vec::new(),
            timer,
        });
        Some(key)
    }

    /// Goes on with a handshake; gives whether its turn ended before it had to wait.
    fn drive(&mut self, key: usize) -> bool {
        let Some(job) = self.jobs.get_mut(key) else {
            return false;
        };
        match job.drive(&mut self.scratch) {
            Outcome::Waits => return false,
            Outcome::Again => return true,
            Outcome::Done => self.end(key, Ok(())),
            Outcome::Cut => self.end(key, Err(HandshakeFailure::Cut)),
            Outcome::Failed(error) => {
                tracing::debug!(%error, "a TLS handshake failed");
                self.end(key, Err(failure_of(&error)));
            }
        }
        false
    }

    /// A handshake is over: what is left of it goes back to its owner.
    fn end(&mut self, key: usize, result: Result<(), HandshakeFailure>) {
        let Some(mut job) = self.jobs.try_remove(key) else {
            return;
        };
        self.wheel.cancel(job.timer);
        let released = self.poll.registry().deregister(&mut job.socket);
        let result = result.and(released.map_err(|_| HandshakeFailure::Broken));
        let result = match result {
            Ok(()) => {
                self.figures.under_way.fetch_sub(1, Ordering::Relaxed);
                self.figures.done.fetch_add(1, Ordering::Relaxed);
                Ok(Secured {
                    socket: job.socket,
                    session: job.session,
                    plaintext: job.plaintext,
                    sealed: job.input,
                })
            }
            Err(failure) => Err(self.count_failure(failure)),
        };
        let _ = job.reply.send(Handshaken {
            conn: job.conn,
            result,
        });
        job.waker.wake();
    }

    fn count_failure(&self, failure: HandshakeFailure) -> HandshakeFailure {
        self.figures.under_way.fetch_sub(1, Ordering::Relaxed);
        if let Some(figure) = self.figures.failed.get(failure as usize) {
            figure.fetch_add(1, Ordering::Relaxed);
        }
        failure
    }
}

impl Handshake {
    fn drive(&mut self, scratch: &mut [u8]) -> Outcome {
        for _ in 0..READS_MAX {
            let plaintext = &mut self.plaintext;
            let result = self
                .session
                .receive(&mut self.input, &mut self.output, &mut |data| {
                    plaintext.extend_from_slice(data)
                });
            let progress = match result {
                Ok(progress) => progress,
                Err(error) => {
                    // The alert, as far as the socket takes it.
                    let _ = self.write();
                    let _ = self.socket.shutdown(std::net::Shutdown::Write);
                    // A socket that is closed with unread bytes in it resets
                    // the connection, and the alert may be lost with it.
                    for _ in 0..READS_MAX {
                        if !matches!(self.socket.read(scratch), Ok(1..)) {
                            break;
                        }
                    }
                    return Outcome::Failed(error);
                }
            };
            self.input.drain(..progress.consumed);
            if self.input.len() > INPUT_MAX {
                return Outcome::Failed(rustls::Error::General("the handshake is too long".into()));
            }
            match self.write() {
                Err(_) => return Outcome::Cut,
                Ok(false) => return Outcome::Waits,
                Ok(true) if progress.established => return Outcome::Done,
                Ok(true) if progress.peer_closed => return Outcome::Cut,
                Ok(true) => {}
            }
            match self.socket.read(scratch) {
                Ok(0) => return Outcome::Cut,
                Ok(len) => self
                    .input
                    .extend_from_slice(scratch.get(..len).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Outcome::Waits,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Outcome::Cut,
            }
        }
        Outcome::Again
    }

    /// Writes what is to be sent; gives whether all was.
    fn write(&mut self) -> io::Result<bool> {
        let mut written = 0;
        while let Some(rest) = self.output.get(written..)
            && !rest.is_empty()
        {
            match self.socket.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(len) => written += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.output.drain(..written);
        Ok(self.output.is_empty())
    }
}

fn failure_of(error: &rustls::Error) -> HandshakeFailure {
    use rustls::{AlertDescription as Alert, Error};
    match error {
        Error::InvalidCertificate(_)
        | Error::NoCertificatesPresented
        | Error::AlertReceived(
            Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::CertificateRequired
            | Alert::UnknownCA,
        ) => HandshakeFailure::BadCertificate,
        Error::PeerIncompatible(_)
        | Error::AlertReceived(
            Alert::HandshakeFailure | Alert::ProtocolVersion | Alert::UnrecognisedName,
        ) => HandshakeFailure::Incompatible,
        _ => HandshakeFailure::Broken,
    }
}
