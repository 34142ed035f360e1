//! A TLS session without a socket: records in, plaintext and records out.

use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, UnbufferedStatus, WriteTraffic,
};
use rustls::{ClientConfig, CommonState, Error, ServerConfig};

use crate::algorithms::{TlsVersion, group_index, suite_index};
use crate::legacy::Resumable;

/// One side of a TLS connection.
pub struct Session(Side);

enum Side {
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
    /// Either side, by the second engine.
    Second(Box<dyn SecondSession>),
}

/// A session of the second engine ([`crate::TlsEngine::Legacy`]): what of
/// [`Session`] is its own. It needs to be told of no input that was left unread.
pub(crate) trait SecondSession: Send {
    fn receive(
        &mut self,
        input: &mut [u8],
        output: &mut Vec<u8>,
        on_data: &mut dyn FnMut(&[u8]),
    ) -> Result<Progress, Error>;
    fn send(&mut self, data: &[u8], output: &mut Vec<u8>) -> Result<(), Error>;
    fn send_close(&mut self, output: &mut Vec<u8>) -> Result<(), Error>;
    fn is_established(&self) -> bool;
    fn is_resumed(&self) -> bool;
    /// The place of the suite in [`crate::SUITE_NAMES`].
    fn suite(&self) -> Option<usize>;
    fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]>;
    /// What a client may resume it by.
    fn resumable(&self) -> Option<Resumable>;
}

/// What came of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the input that are done with; the rest is wanted again.
    pub consumed: usize,
    /// Whether the handshake is done and the session carries data.
    pub established: bool,
    /// Whether the peer said that it sends no more.
    pub peer_closed: bool,
}

/// What room a record needs beside its data; the exact size is asked for
/// where this does not do.
const RECORD_OVERHEAD: usize = 64;
/// Steps until a session that carries data takes more of it.
const STEPS_MAX: usize = 16;
/// The longest record's data.
const RECORD_MAX: usize = 16_384;

impl Session {
    /// A server's, for a client that is yet to say hello.
    pub(crate) fn server(config: &Arc<ServerConfig>) -> Result<Self, Error> {
        let conn = UnbufferedServerConnection::new(Arc::clone(config))?;
        Ok(Self(Side::Server(Box::new(conn))))
    }

    /// A client's; its ClientHello comes with the first [`Session::receive`].
    pub(crate) fn client(
        config: &Arc<ClientConfig>,
        name: &ServerName<'static>,
    ) -> Result<Self, Error> {
        let conn = UnbufferedClientConnection::new(Arc::clone(config), name.clone())?;
        Ok(Self(Side::Client(Box::new(conn))))
    }

    /// One of the second engine's.
    pub(crate) fn second(session: Box<dyn SecondSession>) -> Self {
        Self(Side::Second(session))
    }

    /// What one takes of memory, as far as its size is known before it is made.
    pub const fn bytes(is_client: bool) -> usize {
        if is_client {
            size_of::<UnbufferedClientConnection>()
        } else {
            size_of::<UnbufferedServerConnection>()
        }
    }

    /// Takes records from `input`, hands their data to `on_data` and appends to
    /// `output` what is to be sent in answer: an alert, too, when it fails.
    ///
    /// What is not consumed must be the beginning of the next call's input,
    /// whichever method that is: the session remembers how far it looked.
    pub fn receive(
        &mut self,
        input: &mut [u8],
        output: &mut Vec<u8>,
        on_data: &mut impl FnMut(&[u8]),
    ) -> Result<Progress, Error> {
        if let Side::Second(session) = &mut self.0 {
            return session.receive(input, output, on_data);
        }
        let mut progress = Progress {
            consumed: 0,
            established: false,
            peer_closed: false,
        };
        loop {
            let rest = input.get_mut(progress.consumed..).unwrap_or_default();
            let (discard, step) = self.step(rest, None, output, on_data);
            progress.consumed = progress.consumed.saturating_add(discard).min(input.len());
            match step {
                Step::Goes => {}
                Step::PeerClosed => progress.peer_closed = true,
                Step::Closed => {
                    progress.peer_closed = true;
                    return Ok(progress);
                }
                Step::Blocked { established } => {
                    progress.established = established && !self.is_handshaking();
                    return Ok(progress);
                }
                Step::Failed(error) => {
                    // The alert for it comes with the next step; after that
                    // there is nothing to be had from the session.
                    let rest = input.get_mut(progress.consumed..).unwrap_or_default();
                    let _ = self.step(rest, None, output, on_data);
                    return Err(error);
                }
            }
        }
    }

    /// Appends `data` to `output`, in records. `unread` is what
    /// [`Session::receive`] left.
    pub fn send(
        &mut self,
        data: &[u8],
        unread: &mut Vec<u8>,
        output: &mut Vec<u8>,
    ) -> Result<(), Error> {
        self.write(Outgoing::Data(data), unread, output)
    }

    /// Appends to `output` the notice that no more data comes.
    pub fn send_close(&mut self, unread: &mut Vec<u8>, output: &mut Vec<u8>) -> Result<(), Error> {
        self.write(Outgoing::Close, unread, output)
    }

    fn write(
        &mut self,
        outgoing: Outgoing<'_>,
        unread: &mut Vec<u8>,
        output: &mut Vec<u8>,
    ) -> Result<(), Error> {
        if let Side::Second(session) = &mut self.0 {
            return match outgoing {
                Outgoing::Data(data) => session.send(data, output),
                Outgoing::Close => session.send_close(output),
            };
        }
        // Answers of the session itself may come first, a key update and an
        // alert at most.
        for _ in 0..STEPS_MAX {
            let mut unexpected = false;
            let (discard, step) =
                self.step(unread, Some(outgoing), output, &mut |_| unexpected = true);
            unread.drain(..discard.min(unread.len()));
            match step {
                Step::Blocked { established: true } if !unexpected => return Ok(()),
                Step::Goes if !unexpected => {}
                Step::Failed(error) => return Err(error),
                _ => break,
            }
        }
        Err(Error::General("the session does not carry data".into()))
    }

    /// One step of the session; writes `outgoing` when it comes to that.
    fn step(
        &mut self,
        input: &mut [u8],
        outgoing: Option<Outgoing<'_>>,
        output: &mut Vec<u8>,
        on_data: &mut impl FnMut(&[u8]),
    ) -> (usize, Step) {
        match &mut self.0 {
            Side::Server(conn) => {
                take_step(conn.process_tls_records(input), outgoing, output, on_data)
            }
            Side::Client(conn) => {
                take_step(conn.process_tls_records(input), outgoing, output, on_data)
            }
            // It has no steps: `receive` and `write` are its own.
            Side::Second(_) => (0, Step::Closed),
        }
    }

    /// Whether the handshake was spared by one before it.
    pub fn is_resumed(&self) -> bool {
        if let Side::Second(session) = &self.0 {
            return session.is_resumed();
        }
        self.state()
            .is_some_and(|state| state.handshake_kind() == Some(rustls::HandshakeKind::Resumed))
    }

    /// The version, and the places of suite and group in the lists of names.
    pub fn negotiated(&self) -> Option<(TlsVersion, u8, Option<u8>)> {
        let place = |place: usize| u8::try_from(place).ok();
        if let Side::Second(session) = &self.0 {
            return Some((TlsVersion::V12, place(session.suite()?)?, None));
        }
        let state = self.state()?;
        let suite = state.negotiated_cipher_suite()?;
        Some((
            TlsVersion::of(state.protocol_version()?)?,
            place(suite_index(suite)?)?,
            state
                .negotiated_key_exchange_group()
                .and_then(|group| place(group_index(group.name())?)),
        ))
    }

    /// The chain that the peer showed, in this handshake or in the one that it
    /// resumes.
    pub fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        if let Side::Second(session) = &self.0 {
            return session.peer_certificates();
        }
        self.state()?.peer_certificates()
    }

    /// The certificate that the peer proved to be its own; `None` until the
    /// handshake is done, and where it showed none.
    pub fn proven_certificate(&self) -> Option<&CertificateDer<'static>> {
        if self.is_handshaking() {
            return None;
        }
        self.peer_certificates()?.first()
    }

    /// What a client that is the second engine's may resume it by.
    pub(crate) fn legacy_resumable(&self) -> Option<Resumable> {
        match &self.0 {
            Side::Second(session) => session.resumable(),
            _ => None,
        }
    }

    /// What rustls knows of it, where that is the engine.
    fn state(&self) -> Option<&CommonState> {
        match &self.0 {
            Side::Server(conn) => Some(conn),
            Side::Client(conn) => Some(conn),
            Side::Second(_) => None,
        }
    }

    fn is_handshaking(&self) -> bool {
        if let Side::Second(session) = &self.0 {
            return !session.is_established();
        }
        self.state().is_some_and(|state| state.is_handshaking())
    }
}

/// What is to be written once the session takes it.
#[derive(Clone, Copy)]
enum Outgoing<'a> {
    Data(&'a [u8]),
    Close,
}

enum Step {
    Goes,
    Blocked { established: bool },
    PeerClosed,
    Closed,
    Failed(Error),
}

fn take_step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    outgoing: Option<Outgoing<'_>>,
    output: &mut Vec<u8>,
    on_data: &mut impl FnMut(&[u8]),
) -> (usize, Step) {
    let mut discard = status.discard;
    let step = match status.state {
        Err(error) => Step::Failed(error),
        Ok(ConnectionState::ReadTraffic(mut traffic)) => loop {
            match traffic.next_record() {
                Some(Ok(record)) => {
                    discard += record.discard;
                    on_data(record.payload);
                }
                Some(Err(error)) => break Step::Failed(error),
                None => break Step::Goes,
            }
        },
        Ok(ConnectionState::EncodeTlsData(mut record)) => append(output, RECORD_OVERHEAD, |room| {
            record.encode(room).map_err(|error| match error {
                EncodeError::InsufficientSize(size) => Some(size.required_size),
                EncodeError::AlreadyEncoded => None,
            })
        })
        .map_or_else(Step::Failed, |()| Step::Goes),
        Ok(ConnectionState::TransmitTlsData(transmit)) => {
            transmit.done();
            Step::Goes
        }
        Ok(ConnectionState::BlockedHandshake) => Step::Blocked { established: false },
        Ok(ConnectionState::WriteTraffic(mut traffic)) => {
            let blocked = Step::Blocked { established: true };
            match outgoing {
                Some(outgoing) => {
                    seal(&mut traffic, outgoing, output).map_or_else(Step::Failed, |()| blocked)
                }
                None => blocked,
            }
        }
        Ok(ConnectionState::PeerClosed) => Step::PeerClosed,
        Ok(ConnectionState::Closed) => Step::Closed,
        // Early data is not accepted: a SIP request must not be replayed.
        Ok(_) => Step::Failed(Error::General("unexpected state of the session".into())),
    };
    (discard, step)
}

fn seal<Data>(
    traffic: &mut WriteTraffic<'_, Data>,
    outgoing: Outgoing<'_>,
    output: &mut Vec<u8>,
) -> Result<(), Error> {
    let len = match outgoing {
        Outgoing::Data(data) => data.len(),
        Outgoing::Close => 0,
    };
    let guess = len + (len / RECORD_MAX + 1) * RECORD_OVERHEAD;
    append(output, guess, |room| {
        let result = match outgoing {
            Outgoing::Data(data) => traffic.encrypt(data, room),
            Outgoing::Close => traffic.queue_close_notify(room),
        };
        result.map_err(|error| match error {
            EncryptError::InsufficientSize(size) => Some(size.required_size),
            EncryptError::EncryptExhausted => None,
        })
    })
}

/// Appends what `write` writes into the room it is given; when that is too
/// small `write` says how much it needs.
fn append(
    output: &mut Vec<u8>,
    guess: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>,
) -> Result<(), Error> {
    let start = output.len();
    let mut size = guess;
    for _ in 0..2 {
        output.resize(start + size, 0);
        match write(output.get_mut(start..).unwrap_or_default()) {
            Ok(written) => {
                output.truncate(start + written);
                return Ok(());
            }
            Err(Some(required)) => size = required,
            Err(None) => break,
        }
    }
    output.truncate(start);
    Err(Error::EncryptError)
}

#[cfg(test)]
pub(crate) mod tests;
