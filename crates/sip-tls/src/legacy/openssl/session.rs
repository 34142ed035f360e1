//! A session of the second engine, which reads and writes through memory.

use std::io::{self, Read, Write};
use std::sync::Arc;

use openssl::ssl::{self, ErrorCode, ShutdownState, Ssl, SslStream};
use rustls::pki_types::CertificateDer;
use rustls::{AlertDescription, Error, PeerIncompatible};

use super::Resumable;
use super::{Verdict, der, library_error, take_verdict};
use crate::algorithms::SUITE_NAMES;
use crate::context::current;
use crate::fault::CertificateFault;
use crate::hello;
use crate::resumption::Resumption;
use crate::server_sessions::{Gate, check_resumed};
use crate::session::{Progress, SecondSession};

/// RFC 5246 6.2.3: "The length MUST NOT exceed 2^14 + 2048."
const SEALED_MAX: usize = (1 << 14) + 2_048;
const HEADER_BYTES: usize = 5;

/// One side of a connection.
pub(crate) struct OpensslSession {
    stream: SslStream<Records>,
    side: Side,
    /// Whether the peer's certificate satisfied us.
    verified: bool,
    established: bool,
    /// The chain that the peer showed.
    chain: Vec<CertificateDer<'static>>,
}

enum Side {
    Server {
        gate: Arc<Gate>,
        /// Whether the client offers a ticket; `None` until it said hello.
        offers_ticket: Option<bool>,
    },
    Client {
        /// Whether the server has to prove its name.
        verifies: bool,
    },
}

impl OpensslSession {
    pub(crate) fn server(ssl: Ssl, gate: Arc<Gate>) -> Result<Self, Error> {
        let side = Side::Server {
            gate,
            offers_ticket: None,
        };
        Self::new(ssl, side)
    }

    pub(crate) fn client(ssl: Ssl, verifies: bool) -> Result<Self, Error> {
        Self::new(ssl, Side::Client { verifies })
    }

    fn new(ssl: Ssl, side: Side) -> Result<Self, Error> {
        let stream =
            SslStream::new(ssl, Records::default()).map_err(|error| library_error(&error))?;
        Ok(Self {
            stream,
            side,
            verified: false,
            established: false,
            chain: Vec::new(),
        })
    }

    /// Goes as far as the records allow, with `room` for what is opened. Gives
    /// whether the peer said that it sends no more.
    fn go(&mut self, room: &mut [u8], on_data: &mut dyn FnMut(&[u8])) -> Result<bool, Error> {
        if !self.established {
            take_verdict();
            let result = self.stream.do_handshake();
            let verdict = take_verdict();
            self.verified |= verdict == Verdict::Good;
            match result {
                Ok(()) => self.establish()?,
                Err(error) if error.code() == ErrorCode::WANT_READ => return Ok(false),
                Err(error) => return Err(failure(&error, verdict)),
            }
        }
        // What is opened is never longer than the records that it came in.
        while !room.is_empty() {
            match self.stream.ssl_read(room) {
                Ok(len) => on_data(room.get(..len).unwrap_or_default()),
                Err(error) if error.code() == ErrorCode::WANT_READ => break,
                Err(error) if error.code() == ErrorCode::ZERO_RETURN => return Ok(true),
                Err(error) => return Err(failure(&error, Verdict::None)),
            }
        }
        Ok(false)
    }

    /// The handshake is done: nothing goes on that was not verified.
    fn establish(&mut self) -> Result<(), Error> {
        let ssl = self.stream.ssl();
        let leaf = ssl.peer_certificate();
        let sent = ssl.peer_cert_chain();
        // A server's view of the chain lacks the client's own certificate.
        let skipped = usize::from(!ssl.is_server());
        let above = sent.into_iter().flatten().skip(skipped);
        self.chain = (leaf.iter().map(|leaf| &**leaf))
            .chain(above)
            .filter_map(der)
            .collect();
        let resumed = ssl.session_reused();
        match &self.side {
            Side::Client { verifies } => {
                if *verifies && !resumed && !self.verified {
                    return Err(CertificateFault::Other.into_error());
                }
            }
            Side::Server {
                gate,
                offers_ticket,
            } => {
                if resumed {
                    check_resumed(gate, &self.chain).map_err(CertificateFault::into_error)?;
                    let by_ticket = *offers_ticket == Some(true);
                    current(|context| {
                        context.found = Some(if by_ticket {
                            Resumption::Ticket
                        } else {
                            Resumption::SessionId
                        });
                    });
                } else if gate.verifier.is_some() && !self.chain.is_empty() && !self.verified {
                    return Err(CertificateFault::Other.into_error());
                }
            }
        }
        self.established = true;
        Ok(())
    }
}

impl SecondSession for OpensslSession {
    fn receive(
        &mut self,
        input: &mut [u8],
        output: &mut Vec<u8>,
        on_data: &mut dyn FnMut(&[u8]),
    ) -> Result<Progress, Error> {
        let consumed = whole_records(input);
        let records = input.get_mut(..consumed).unwrap_or_default();
        if let Side::Server { offers_ticket, .. } = &mut self.side
            && offers_ticket.is_none()
            && let hello::Read::Hello(hello) = hello::read(records)
        {
            *offers_ticket = Some(!hello.ticket.is_empty());
        }
        self.stream.get_mut().lend(records, output);
        let result = self.go(records, on_data);
        self.stream.get_mut().give_back(output);
        result.map(|peer_closed| Progress {
            consumed,
            established: self.established,
            peer_closed,
        })
    }

    fn send(&mut self, mut data: &[u8], output: &mut Vec<u8>) -> Result<(), Error> {
        self.stream.get_mut().lend(&[], output);
        let mut result = Ok(());
        while !data.is_empty() {
            match self.stream.ssl_write(data) {
                Ok(len) => data = data.get(len..).unwrap_or_default(),
                Err(error) => {
                    result = Err(failure(&error, Verdict::None));
                    break;
                }
            }
        }
        self.stream.get_mut().give_back(output);
        result
    }

    fn send_close(&mut self, output: &mut Vec<u8>) -> Result<(), Error> {
        self.stream.get_mut().lend(&[], output);
        let result = self.stream.shutdown();
        self.stream.get_mut().give_back(output);
        result
            .map(|_| ())
            .map_err(|error| failure(&error, Verdict::None))
    }

    fn is_established(&self) -> bool {
        self.established
    }

    fn is_resumed(&self) -> bool {
        self.stream.ssl().session_reused()
    }

    fn suite(&self) -> Option<usize> {
        let name = self.stream.ssl().current_cipher()?.standard_name()?;
        SUITE_NAMES.iter().position(|known| *known == name)
    }

    fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        (!self.chain.is_empty()).then_some(&self.chain)
    }

    fn resumable(&self) -> Option<Resumable> {
        match self.side {
            Side::Client { .. } if self.established => Resumable::of(self.stream.ssl()),
            _ => None,
        }
    }
}

impl Drop for OpensslSession {
    fn drop(&mut self) {
        // Without it a connection that is cut takes its session with it, which
        // is right only for one that was not admitted.
        if self.established {
            self.stream
                .set_shutdown(ShutdownState::SENT | ShutdownState::RECEIVED);
        }
    }
}

/// How much of `input` is whole records. What is none goes to the library as
/// it is, to be told what is wrong.
fn whole_records(input: &[u8]) -> usize {
    let mut at = 0;
    while let Some([kind, rest @ ..]) = input.get(at..) {
        // RFC 5246 6.2.1: change_cipher_spec to application_data.
        if !(20..=23).contains(kind) {
            return input.len();
        }
        let Some([major, _, high, low]) = rest.first_chunk::<4>() else {
            break;
        };
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        if *major != 3 || len > SEALED_MAX {
            return input.len();
        }
        match at + HEADER_BYTES + len {
            end if end <= input.len() => at = end,
            _ => break,
        }
    }
    at
}

/// SSL_R_…, sslerr.h; an alert of the peer's is its number and a thousand.
const NO_SHARED_CIPHER: i32 = 193;
const PEER_DID_NOT_RETURN_A_CERTIFICATE: i32 = 199;
const UNSUPPORTED_PROTOCOL: i32 = 258;
const VERSION_TOO_LOW: i32 = 396;
const ALERT_OFFSET: i32 = 1_000;

/// The error that the other engine would have for this one.
fn failure(error: &ssl::Error, verdict: Verdict) -> Error {
    if let Verdict::Bad(fault) = verdict {
        return fault.into_error();
    }
    let Some(stack) = error.ssl_error() else {
        return Error::General(format!("OpenSSL: {error}"));
    };
    for each in stack.errors() {
        let reason = each.reason_code();
        match reason {
            NO_SHARED_CIPHER => return PeerIncompatible::NoCipherSuitesInCommon.into(),
            UNSUPPORTED_PROTOCOL | VERSION_TOO_LOW => {
                return PeerIncompatible::Tls12NotOfferedOrEnabled.into();
            }
            PEER_DID_NOT_RETURN_A_CERTIFICATE => return Error::NoCertificatesPresented,
            _ => {}
        }
        if let Ok(alert) = u8::try_from(reason - ALERT_OFFSET) {
            return Error::AlertReceived(AlertDescription::from(alert));
        }
    }
    library_error(stack)
}

/// What the library reads from and writes to.
#[derive(Debug, Default)]
struct Records {
    input: Vec<u8>,
    read: usize,
    output: Vec<u8>,
}

impl Records {
    fn lend(&mut self, records: &[u8], output: &mut Vec<u8>) {
        self.input.extend_from_slice(records);
        self.output = std::mem::take(output);
    }

    fn give_back(&mut self, output: &mut Vec<u8>) {
        *output = std::mem::take(&mut self.output);
        // A connection that waits keeps nothing.
        if self.read == self.input.len() {
            self.input = Vec::new();
            self.read = 0;
        }
    }
}

impl Read for Records {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let rest = self.input.get(self.read..).unwrap_or_default();
        let len = rest.len().min(into.len());
        if len == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if let (Some(into), Some(rest)) = (into.get_mut(..len), rest.get(..len)) {
            into.copy_from_slice(rest);
        }
        self.read += len;
        Ok(len)
    }
}

impl Write for Records {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
