//! One handshake, from its first byte to its last.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use sip_msg::ConnId;
use socket2::SockRef;
use wheel::TimerId;

use super::worker::{Source, micros};
use super::{Class, HandshakeError, HandshakeFailure, Handshaken, Job, Side};
use crate::session::Session;
use crate::tls::context::Context;
use crate::tls::hello::{self, Hello};
use crate::tls::server_sessions::check_resumed;
use crate::tls::{ClientResumption, ClientTls, Resumption, ServerSide, TlsInfo, TlsVersion};
use crate::waker::Waker;

/// Bytes of a handshake that wait for more of them; a certificate chain may
/// be long, but not longer.
const INPUT_MAX: usize = 96 * 1024;
/// Reads of one socket before the others have their turn.
const READS_MAX: usize = 8;

/// A handshake under way.
pub(super) struct Handshake {
    pub(super) conn: ConnId,
    pub(super) serial: u64,
    pub(super) socket: TcpStream,
    pub(super) source: Source,
    pub(super) stage: Stage,
    side: Ours,
    /// `None` until its turn.
    session: Option<Session>,
    pub(super) context: Context,
    pub(super) reply: Sender<Handshaken>,
    pub(super) waker: Waker,
    pub(super) input: Vec<u8>,
    output: Vec<u8>,
    pub(super) plaintext: Vec<u8>,
    pub(super) timer: TimerId,
    pub(super) begun: Instant,
    queued_us: u64,
    pub(super) cpu_ns: u64,
}

/// Where a handshake stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The ClientHello is awaited.
    Hello,
    /// It waits for its turn.
    Queued(Class),
    /// It is under way.
    Running,
}

/// Which end is ours.
enum Ours {
    Server(Arc<ServerSide>),
    Client {
        tls: Arc<ClientTls>,
        remote: std::net::SocketAddr,
        name: ServerName<'static>,
    },
}

/// What came of driving a handshake.
pub(super) enum Outcome {
    Waits,
    Again,
    /// The ClientHello was read.
    Queue(Class),
    Done,
    Cut,
    Failed(HandshakeError),
}

impl Handshake {
    pub(super) fn new(job: Job, serial: u64) -> Self {
        let source = job.source();
        let (side, stage) = match job.side {
            Side::Server(tls) => (Ours::Server(tls.side()), Stage::Hello),
            Side::Client { tls, name } => {
                let remote = job.remote;
                (Ours::Client { tls, remote, name }, Stage::Running)
            }
        };
        Self {
            conn: job.conn,
            serial,
            socket: job.socket,
            source,
            stage,
            side,
            session: None,
            context: Context::default(),
            reply: job.reply,
            waker: job.waker,
            input: Vec::new(),
            output: Vec::new(),
            plaintext: Vec::new(),
            timer: TimerId::NONE,
            begun: job.begun,
            queued_us: 0,
            cpu_ns: 0,
        }
    }

    /// Its turn has come.
    pub(super) fn have_turn(&mut self) {
        self.stage = Stage::Running;
        self.queued_us = micros(self.begun.elapsed());
    }

    /// The socket is to end without a farewell, and at once.
    pub(super) fn reset(&mut self) {
        let _ = SockRef::from(&self.socket).set_linger(Some(Duration::ZERO));
    }

    pub(super) fn drive(&mut self, scratch: &mut [u8]) -> Outcome {
        match self.stage {
            Stage::Hello => self.read_hello(scratch),
            // Who goes away while waiting gives his place to another.
            Stage::Queued(_) => match self.socket.peek(&mut [0]) {
                Ok(1..) => Outcome::Waits,
                Err(error) if is_passing(&error) => Outcome::Waits,
                _ => Outcome::Cut,
            },
            Stage::Running => {
                let mut context = std::mem::take(&mut self.context);
                let outcome = context.within(|| self.run(scratch));
                self.context = context;
                outcome
            }
        }
    }

    fn read_hello(&mut self, scratch: &mut [u8]) -> Outcome {
        for _ in 0..READS_MAX {
            match hello::read(&self.input) {
                hello::Read::More => {}
                hello::Read::Hello(hello) => {
                    let class = if self.resumes(&hello) {
                        Class::Resumed
                    } else {
                        Class::Full
                    };
                    return Outcome::Queue(class);
                }
                // What may be a ClientHello costs as one.
                hello::Read::Other => return Outcome::Queue(Class::Full),
            }
            match self.read(scratch) {
                Received::Bytes => {}
                Received::Nothing => return Outcome::Waits,
                Received::End => return Outcome::Cut,
            }
        }
        Outcome::Again
    }

    /// Whether a client resumes a session that we know: tickets are opened,
    /// which nobody can forge, but it is not yet seen whether the client has
    /// the session's secret.
    fn resumes(&self, hello: &Hello<'_>) -> bool {
        let Ours::Server(side) = &self.side else {
            return false;
        };
        let knows_ticket = |ticket: &[u8]| {
            side.ticketer
                .as_ref()
                .is_some_and(|ours| ours.knows(ticket))
        };
        if hello.psks().take(4).any(knows_ticket) {
            return true;
        }
        if !hello.ticket.is_empty() {
            return knows_ticket(hello.ticket);
        }
        !hello.session_id.is_empty()
            && side
                .sessions
                .as_ref()
                .is_some_and(|sessions| sessions.knows(hello.session_id))
    }

    fn run(&mut self, scratch: &mut [u8]) -> Outcome {
        if self.session.is_none() {
            // For a client that went away while it waited nothing is computed.
            if matches!(self.side, Ours::Server(_)) && matches!(self.read(scratch), Received::End) {
                return Outcome::Cut;
            }
            if let Err(error) = self.start() {
                return Outcome::Failed(HandshakeError::of(&error, &[]));
            }
        }
        for _ in 0..READS_MAX {
            let Some(session) = &mut self.session else {
                return Outcome::Cut;
            };
            let plaintext = &mut self.plaintext;
            let result = session.receive(&mut self.input, &mut self.output, &mut |data| {
                plaintext.extend_from_slice(data)
            });
            let progress = match result {
                Ok(progress) => progress,
                Err(error) => {
                    let error = HandshakeError::of(&error, &self.output);
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
                return Outcome::Failed(HandshakeError::new(HandshakeFailure::Broken));
            }
            match self.write() {
                Err(_) => return Outcome::Cut,
                Ok(false) => return Outcome::Waits,
                Ok(true) if progress.established => return Outcome::Done,
                Ok(true) if progress.peer_closed => return Outcome::Cut,
                Ok(true) => {}
            }
            match self.read(scratch) {
                Received::Bytes => {}
                Received::Nothing => return Outcome::Waits,
                Received::End => return Outcome::Cut,
            }
        }
        Outcome::Again
    }

    /// Makes the session. A client's ClientHello is ready with it.
    fn start(&mut self) -> Result<(), rustls::Error> {
        let session = match &self.side {
            Ours::Server(side) => side.begin()?,
            Ours::Client { tls, remote, name } => {
                #[cfg(feature = "legacy-tls")]
                if let Some(session) = tls.begin_legacy(*remote, name, &mut self.output) {
                    self.session = Some(session?);
                    return Ok(());
                }
                let config = tls.config_for(*remote);
                let mut session = client_session(&config, name, &mut self.output)?;
                let offered = match hello::read(&self.output) {
                    hello::Read::Hello(hello) => !hello.ticket.is_empty(),
                    _ => false,
                };
                crate::tls::context::current(|context| {
                    if context.found == Some(Resumption::SessionId) && offered {
                        context.found = Some(Resumption::Ticket);
                    }
                });
                let by_id = crate::tls::context::current(|context| context.found)
                    == Some(Resumption::SessionId);
                if by_id && tls.resumption() == ClientResumption::Tickets {
                    tls.forget_tls12(*remote, name);
                    crate::tls::context::current(|context| context.found = None);
                    self.output.clear();
                    session = client_session(&config, name, &mut self.output)?;
                }
                session
            }
        };
        self.session = Some(session);
        Ok(())
    }

    /// What became of a handshake that is done.
    pub(super) fn finish(&mut self) -> Result<(Session, TlsInfo), HandshakeError> {
        let broken = HandshakeError::new(HandshakeFailure::Broken);
        let session = self.session.take().ok_or(broken)?;
        let (version, suite, group) = session.negotiated().ok_or(broken)?;
        let resumed = session.is_resumed().then(|| match version {
            TlsVersion::V13 => Resumption::Psk,
            TlsVersion::V12 => self.context.found.unwrap_or(Resumption::SessionId),
        });
        if resumed.is_some()
            && self.context.found.is_none()
            && let Ours::Server(side) = &self.side
            && let Err(fault) =
                check_resumed(&side.gate, session.peer_certificates().unwrap_or_default())
        {
            return Err(HandshakeError {
                fault: Some(fault),
                ..HandshakeError::new(HandshakeFailure::BadCertificate)
            });
        }
        if resumed.is_none()
            && let Ours::Client { tls, remote, name } = &self.side
            && let Some(end) = self.context.not_after_unix_s
        {
            tls.sessions_end(*remote, name, end);
        }
        #[cfg(feature = "legacy-tls")]
        if let Ours::Client { tls, remote, name } = &self.side
            && let Some(held) = session.legacy_resumable()
        {
            tls.keep_legacy(*remote, name, held);
        }
        let info = TlsInfo {
            version,
            suite,
            group,
            resumed,
            wall_us: 0,
            queued_us: self.queued_us,
            cpu_us: 0,
        };
        Ok((session, info))
    }

    fn read(&mut self, scratch: &mut [u8]) -> Received {
        loop {
            return match self.socket.read(scratch) {
                Ok(0) => Received::End,
                Ok(len) => {
                    self.input
                        .extend_from_slice(scratch.get(..len).unwrap_or_default());
                    Received::Bytes
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Received::Nothing,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => Received::End,
            };
        }
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

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// What came of a read.
enum Received {
    Bytes,
    Nothing,
    End,
}

fn client_session(
    config: &Arc<rustls::ClientConfig>,
    name: &ServerName<'static>,
    output: &mut Vec<u8>,
) -> Result<Session, rustls::Error> {
    let conn = UnbufferedClientConnection::new(Arc::clone(config), name.clone())?;
    let mut session = Session::Client(Box::new(conn));
    session.receive(&mut [], output, &mut |_| {})?;
    Ok(session)
}
