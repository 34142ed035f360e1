//! One handshake, from its first byte to its last: what came goes in, what is
//! to be sent comes out.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use rustls::pki_types::ServerName;
use sip_msg::VerifiedPeer;

use crate::algorithms::TlsVersion;
use crate::client::ClientTls;
use crate::context::{self, Context};
use crate::fault::{HandshakeError, HandshakeFailure};
use crate::hello::{self, Hello};
use crate::identity::{attest, server_name};
use crate::info::TlsInfo;
use crate::records::end_of_whole;
use crate::resumption::{ClientResumption, Resumption};
use crate::server::{ServerSide, ServerTls};
use crate::server_sessions::check_resumed;
use crate::session::Session;

/// Bytes of a handshake that wait for more of them; a certificate chain may
/// be long, but not longer.
const INPUT_MAX: usize = 96 * 1024;
/// The same from who shows no certificate: a record of the greatest length, and some of
/// the next.
const INPUT_WITHOUT_CHAIN_MAX: usize = 20 * 1024;

/// A handshake under way.
pub struct Handshake {
    side: Ours,
    /// `None` until its turn.
    session: Option<Session>,
    context: Context,
    /// What came and is not done with.
    pub input: Vec<u8>,
    /// The end of the records in it that a step has looked at; `None` where what it left does
    /// not begin with a record.
    looked_at: Option<usize>,
    /// What is to be sent.
    pub output: Vec<u8>,
    /// Data that came with the last message of the handshake.
    pub plaintext: Vec<u8>,
    /// Whether it is done.
    pub established: bool,
    /// Whether the peer said that it sends no more.
    pub peer_closed: bool,
    /// Whether our signature costs little.
    signs_quickly: bool,
    /// Whether a ClientHello came that fills a record.
    is_hello_whole: bool,
    /// As what it has had its turn.
    began_as: Option<Class>,
    begun: Instant,
    queued_us: u64,
    cpu_ns: u64,
}

/// Which end of the handshake is ours.
pub enum Side {
    /// We were called.
    Server(Arc<ServerTls>),
    /// We called: [`Side::client`].
    Client {
        /// Who we are, and whom we believe.
        tls: Arc<ClientTls>,
        /// Whom the peer must prove to be.
        name: ServerName<'static>,
    },
}

impl Side {
    /// We called a peer that must prove this name, or else its address; `None`
    /// if that is no name.
    pub fn client(tls: Arc<ClientTls>, name: Option<&str>, ip: IpAddr) -> Option<Self> {
        let name = server_name(name, ip)?;
        Some(Self::Client { tls, name })
    }
}

/// What a client's handshake costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Keys are agreed on and signed for.
    Full,
    /// An earlier one is gone on with.
    Resumed,
}

/// What a step costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Little more than a message does: nothing is computed with a key that is not
    /// shared, but where the chain of a stored session is verified again.
    Light,
    /// As much as a few messages: an agreement, a signature on a short curve.
    Middling,
    /// More, or as much as the peer likes: RSA, a chain to be verified.
    Heavy,
}

enum Ours {
    Server(Arc<ServerSide>),
    Client {
        tls: Arc<ClientTls>,
        remote: SocketAddr,
        name: ServerName<'static>,
    },
}

impl Handshake {
    /// Nothing is computed for it yet.
    pub fn new(side: Side, remote: SocketAddr) -> Self {
        let side = match side {
            Side::Server(tls) => Ours::Server(tls.side(remote.ip())),
            Side::Client { tls, name } => Ours::Client { tls, remote, name },
        };
        Self {
            side,
            session: None,
            context: Context::default(),
            input: Vec::new(),
            looked_at: Some(0),
            output: Vec::new(),
            plaintext: Vec::new(),
            established: false,
            peer_closed: false,
            signs_quickly: false,
            is_hello_whole: false,
            began_as: None,
            begun: Instant::now(),
            queued_us: 0,
            cpu_ns: 0,
        }
    }

    /// Its turn has come.
    pub fn have_turn(&mut self) {
        self.queued_us = micros(self.begun.elapsed());
    }

    /// Whether anything was computed for it.
    pub fn is_begun(&self) -> bool {
        self.session.is_some()
    }

    /// Whether a record has become whole since the last step. Until one has, there is nothing to
    /// be done: who sends a record in pieces pays for one.
    pub fn has_new_record(&self) -> bool {
        let Some(looked_at) = self.looked_at else {
            return true;
        };
        end_of_whole(&self.input, looked_at).is_none_or(|end| end > looked_at)
    }

    /// Whether a client's handshake resumes a session, by its ClientHello;
    /// `None` until that is whole.
    pub fn class(&mut self) -> Option<Class> {
        let hello = match hello::read(&self.input) {
            hello::Read::More => return None,
            hello::Read::Hello(hello) => hello,
            // What may be a ClientHello costs as one.
            hello::Read::Other => return Some(Class::Full),
        };
        self.is_hello_whole = true;
        if self.resumes(&hello) {
            return Some(Class::Resumed);
        }
        self.signs_quickly = matches!(&self.side, Ours::Server(side) if side.signs_quickly(&hello));
        Some(Class::Full)
    }

    /// Whether the client has said hello, and not only the beginning of it, nor the one after
    /// which it was asked for another.
    pub fn has_said_hello(&self) -> bool {
        match &self.session {
            None => self.is_hello_whole,
            Some(_) if self.asks_again() => false,
            Some(session) => self.is_hello_whole || session.negotiated().is_some(),
        }
    }

    /// Whether the client was asked for another hello (RFC 8446 4.1.4) and has not said it.
    pub fn asks_again(&self) -> bool {
        let negotiated = self.session.as_ref().and_then(Session::negotiated);
        matches!(negotiated, Some((TlsVersion::V13, _, None)))
    }

    /// Whether more came, and waits for more, than a peer has to say: the beginning of a record
    /// beside that of a message too.
    pub fn says_too_much(&self) -> bool {
        self.input.len() > self.input_max()
    }

    fn input_max(&self) -> usize {
        match &self.side {
            // Before the first step it is a hello.
            Ours::Server(_) if self.session.is_none() => INPUT_WITHOUT_CHAIN_MAX,
            Ours::Server(side) if side.gate.verifier.is_none() => INPUT_WITHOUT_CHAIN_MAX,
            _ => INPUT_MAX,
        }
    }

    /// It has its turn as one of this class.
    pub fn begins_as(&mut self, class: Class) {
        self.began_as = Some(class);
    }

    /// The class of a handshake that is begun, where it is another one after all: who seemed
    /// to resume a session and was asked for another hello (RFC 8446 4.1.4) has not had a
    /// turn for what it comes to.
    pub fn class_after_all(&self) -> Option<Class> {
        let seemed_to_resume = self.began_as == Some(Class::Resumed);
        (seemed_to_resume && self.weight(None) != Weight::Light).then_some(Class::Full)
    }

    /// What the next step costs, the first one of this class.
    pub fn weight(&self, class: Option<Class>) -> Weight {
        let Ours::Server(side) = &self.side else {
            return Weight::Heavy;
        };
        let verifies = side.gate.verifier.is_some();
        let is_light = match (&self.session, class) {
            (None, class) => class == Some(Class::Resumed),
            (Some(session), _) => {
                // Once keys are agreed on, what signs is behind us; until then it may be
                // that only another hello was asked for.
                let has_signed =
                    matches!(session.negotiated(), Some((TlsVersion::V13, _, Some(_))));
                session.is_resumed() || (has_signed && !verifies)
            }
        };
        if is_light {
            Weight::Light
        } else if self.signs_quickly && (self.session.is_none() || !verifies) {
            Weight::Middling
        } else {
            Weight::Heavy
        }
    }

    /// Whether a stored session was not taken because of its certificate.
    pub fn is_resumption_refused(&self) -> bool {
        self.context.refused.is_some()
    }

    /// Takes what came, as far as it goes; gives also what that took of the
    /// processor, in nanoseconds, by the thread's own clock.
    pub fn step(&mut self) -> (Result<(), HandshakeError>, u64) {
        let now = || {
            clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
        };
        let before = now();
        let result = self.take(true);
        (result, self.spent(now().saturating_sub(before)))
    }

    /// The same by the clock on the wall, which is read without a system call.
    /// For steps so short that the kernel hardly ever takes the processor away
    /// meanwhile. The first step of what seems to resume a session signs nothing:
    /// where it would have to, see [`Handshake::is_full_after_all`].
    pub fn short_step(&mut self, class: Option<Class>) -> (Result<(), HandshakeError>, u64) {
        let before = Instant::now();
        let result = self.take(class != Some(Class::Resumed));
        (result, self.spent(before.elapsed()))
    }

    /// Whether the step that has just failed was no resumption, because what was to be
    /// resumed does not fit this hello.
    pub fn is_full_after_all(&self) -> bool {
        self.context.was_to_sign
    }

    /// Begins anew as a full handshake what is one after all. Nothing was sent yet, and
    /// the hello is still there.
    pub fn begin_anew(&mut self) {
        self.session = None;
        self.context = std::mem::take(&mut self.context).anew();
        self.output.clear();
        if let (hello::Read::Hello(hello), Ours::Server(side)) =
            (hello::read(&self.input), &self.side)
        {
            self.signs_quickly = side.signs_quickly(&hello);
        }
    }

    fn take(&mut self, may_sign: bool) -> Result<(), HandshakeError> {
        let mut context = std::mem::take(&mut self.context);
        context.must_not_sign = !may_sign;
        let result = context.within(|| self.advance());
        self.context = context;
        result
    }

    fn spent(&mut self, time: Duration) -> u64 {
        let cpu_ns = u64::try_from(time.as_nanos()).unwrap_or(0);
        self.cpu_ns += cpu_ns;
        cpu_ns
    }

    /// An error, with what the handshake took until then.
    pub fn account(&self, error: HandshakeError) -> HandshakeError {
        HandshakeError {
            wall_us: micros(self.begun.elapsed()),
            cpu_us: self.cpu_ns / 1_000,
            ..error
        }
    }

    fn advance(&mut self) -> Result<(), HandshakeError> {
        if self.session.is_none() {
            self.start()
                .map_err(|error| HandshakeError::of(&error, &[]))?;
        }
        let broken = HandshakeError::new(HandshakeFailure::Broken);
        let session = self.session.as_mut().ok_or(broken)?;
        let whole = self.looked_at.and_then(|at| end_of_whole(&self.input, at));
        let plaintext = &mut self.plaintext;
        let progress = session
            .receive(&mut self.input, &mut self.output, &mut |data| {
                plaintext.extend_from_slice(data)
            })
            .map_err(|error| HandshakeError::of(&error, &self.output))?;
        self.input.drain(..progress.consumed);
        self.looked_at = whole.and_then(|end| end.checked_sub(progress.consumed));
        if self.says_too_much() {
            return Err(broken);
        }
        self.established |= progress.established;
        self.peer_closed |= progress.peer_closed;
        if progress.established {
            self.check_resumed_server()?;
        }
        Ok(())
    }

    /// A server whose session is resumed shows no certificate: the one that it showed then is
    /// verified by what is in service now.
    fn check_resumed_server(&self) -> Result<(), HandshakeError> {
        let (Ours::Client { tls, remote, name }, Some(session)) = (&self.side, &self.session)
        else {
            return Ok(());
        };
        if session.is_resumed()
            && let Some(Err(fault)) = tls.check_peer_as(session, name)
        {
            // Else it would be resumed and refused for ever, whatever it has to show by then.
            tls.forget(*remote, name);
            return Err(HandshakeError {
                fault: Some(fault),
                ..HandshakeError::new(HandshakeFailure::BadCertificate)
            });
        }
        Ok(())
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

    /// Makes the session. A client's ClientHello is ready with it.
    fn start(&mut self) -> Result<(), rustls::Error> {
        let session = match &self.side {
            Ours::Server(side) => side.begin()?,
            Ours::Client { tls, remote, name } => {
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
                context::current(|context| {
                    if context.found == Some(Resumption::SessionId) && offered {
                        context.found = Some(Resumption::Ticket);
                    }
                });
                let by_id =
                    context::current(|context| context.found) == Some(Resumption::SessionId);
                if by_id && tls.resumption() == ClientResumption::Tickets {
                    tls.forget_tls12(*remote, name);
                    context::current(|context| context.found = None);
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
    pub fn finish(&mut self) -> Result<(Session, TlsInfo), HandshakeError> {
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
            wall_us: micros(self.begun.elapsed()),
            queued_us: self.queued_us,
            cpu_us: self.cpu_ns / 1_000,
        };
        Ok((session, info))
    }

    /// Whom the peer proved to be; nobody where no certificate was verified.
    pub fn verified_peer(&self, session: &Session) -> Option<Arc<VerifiedPeer>> {
        attest(
            session.peer_certificates()?,
            self.context.not_after_unix_s?,
            matches!(self.side, Ours::Server(_)),
        )
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn client_session(
    config: &Arc<rustls::ClientConfig>,
    name: &ServerName<'static>,
    output: &mut Vec<u8>,
) -> Result<Session, rustls::Error> {
    let mut session = Session::client(config, name)?;
    session.receive(&mut [], output, &mut |_| {})?;
    Ok(session)
}
