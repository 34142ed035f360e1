//! Connections to PostgreSQL: TLS, the log-in, and who drives them.

use std::future::{Ready, ready};
use std::io;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};

use aws_lc_rs::digest::{SHA256, SHA384, SHA512, digest};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::task::AbortHandle;
use tokio_postgres::config::{SslMode, SslNegotiation};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_postgres::{Client, Config, Connection, Error};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::fault::{Fault, saying};
use crate::net::{Connector, Silence, Stream};

/// SSLRequest: its length and its number ("Message Formats" in PostgreSQL's manual).
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// A connection, logged in. Nothing moves on it unless [`Self::connection`] is polled.
pub(crate) struct LoggedIn {
    pub(crate) client: Client,
    pub(crate) connection: Connection<Stream, Bound>,
    pub(crate) silence: Silence,
}

/// A client and who drives its connection, which ends with it. By itself it would go on for as
/// long as an answer is missing, which may be for ever where the server has taken a statement in
/// and does not speak any more.
pub(crate) struct Session {
    client: Client,
    driver: AbortHandle,
}

impl Session {
    /// Has a connection driven. Its end shows in every question that is put to its client.
    pub(crate) fn new(client: Client, connection: Connection<Stream, Bound>) -> Self {
        let driver = tokio::task::spawn_local(async move {
            let _ = connection.await;
        });
        Self {
            client,
            driver: driver.abort_handle(),
        }
    }
}

impl Deref for Session {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Makes a connection and logs in, within the time for that. What is refused meanwhile is the
/// log-in.
pub(crate) async fn log_in(connector: &Connector, config: &Config) -> Result<LoggedIn, Fault> {
    connector
        .in_time(async {
            let mut stream = connector.open().await?;
            if connector.wants_tls() {
                ask_for_tls(&mut stream).await?;
                stream = connector.upgrade(stream).await?;
            }
            let mut config = config.clone();
            // TLS has begun by then, where it is wanted: the stream goes through `Begun` as it is.
            config
                .ssl_mode(SslMode::Require)
                .ssl_negotiation(SslNegotiation::Direct);
            let begun = Begun {
                is_private: connector.is_private(),
            };
            let silence = stream.silence();
            let (client, connection) = config
                .connect_raw(stream, begun)
                .await
                .map_err(|error| fault(&error))?;
            Ok(LoggedIn {
                client,
                connection,
                silence,
            })
        })
        .await
        .map_err(Fault::of_log_in)
}

/// What stands between the question and the first byte of TLS is one byte. No more is read,
/// so nothing that somebody put in between is taken for the server's.
async fn ask_for_tls(stream: &mut Stream) -> Result<(), Fault> {
    stream.write_all(&SSL_REQUEST).await?;
    stream.flush().await?;
    match stream.read_u8().await? {
        b'S' => Ok(()),
        b'N' => Err(Fault::Unreachable(
            "the server has no TLS, and plain text is not used instead: set ssl = on \
             there, or tls = \"never\" here if the network is safe"
                .to_owned(),
        )),
        _ => Err(Fault::Unreachable(
            "the store does not speak the PostgreSQL protocol".to_owned(),
        )),
    }
}

/// Hands over a stream that is under TLS already, where that is wanted.
struct Begun {
    is_private: bool,
}

impl TlsConnect<Stream> for Begun {
    type Stream = Bound;
    type Error = io::Error;
    type Future = Ready<io::Result<Bound>>;

    fn connect(self, stream: Stream) -> Self::Future {
        ready(Ok(Bound {
            stream,
            is_private: self.is_private,
            said: Vec::with_capacity(SAID_FIRST),
        }))
    }
}

/// The bytes with which a server says how a user is to log in: a kind, a length and a number
/// ("Message Formats" in PostgreSQL's manual).
const SAID_FIRST: usize = 9;

/// A stream that tells which certificate it is bound to, so that a password's proof is good
/// for this connection alone (SCRAM-SHA-256-PLUS, RFC 5929 4). Where others can read it, it
/// ends when the server asks for the password itself: the protocol's client would send it to
/// whoever asks.
pub(crate) struct Bound {
    stream: Stream,
    is_private: bool,
    /// What the server has said first, as far as it says how to log in.
    said: Vec<u8>,
}

/// The server asks for the password where others could read it.
#[derive(Debug)]
struct WantsPassword;

impl std::fmt::Display for WantsPassword {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "the server wants the password itself, which is sent under TLS or over a socket \
             (?socket=) only: set tls = \"always\" here, or scram-sha-256 in its pg_hba.conf",
        )
    }
}

impl std::error::Error for WantsPassword {}

impl Bound {
    /// Looks at what the server says first.
    fn heard(&mut self, bytes: &[u8]) -> io::Result<()> {
        let left = SAID_FIRST.saturating_sub(self.said.len());
        if self.is_private || left == 0 {
            return Ok(());
        }
        self.said.extend(bytes.iter().take(left));
        // AuthenticationCleartextPassword, however long it says it is.
        match self.said.as_slice() {
            [b'R', _, _, _, _, 0, 0, 0, 3] => Err(io::Error::other(WantsPassword)),
            _ => Ok(()),
        }
    }
}

impl TlsStream for Bound {
    fn channel_binding(&self) -> ChannelBinding {
        self.stream
            .peer_certificate()
            .and_then(end_point)
            .map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

/// The certificate's hash, by the function of its signature; `None` where RFC 5929 4.1 names
/// none, as for Ed25519.
fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let algorithm = match parsed.signature_algorithm.algorithm.to_id_string().as_str() {
        // RFC 5929 4.1: "If the certificate's signatureAlgorithm uses a single hash function,
        // and that hash function is either MD5 or SHA-1, then use SHA-256".
        "1.2.840.113549.1.1.4"
        | "1.2.840.113549.1.1.5"
        | "1.2.840.10045.4.1"
        | "1.2.840.113549.1.1.11"
        | "1.2.840.10045.4.3.2" => &SHA256,
        "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" => &SHA384,
        "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" => &SHA512,
        _ => return None,
    };
    Some(digest(algorithm, certificate).as_ref().to_vec())
}

impl AsyncRead for Bound {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let read = buffer.filled().get(before..).unwrap_or_default();
        match self.heard(read) {
            Ok(()) => polled,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl AsyncWrite for Bound {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// What an error says about the connection.
pub(crate) fn fault(error: &Error) -> Fault {
    if let Some(said) = error.as_db_error() {
        let code = said.code().code();
        let told = format!(
            "the store says {code}: {}",
            saying(said.message().as_bytes())
        );
        // This connection is of no use, and another may be: 53 has no room, 57P is shut down,
        // 08 lost it; 26000 and 0A000 have a statement that is prepared no more.
        let is_over = ["53", "57P", "08", "26000", "0A000"];
        // 57014 was cancelled, as by statement_timeout, 55P03 waited for a lock, and class 40 was
        // rolled back, as where a standby applies what a statement reads.
        let is_broken_off = ["57014", "55P03", "40"];
        let is_of = |classes: &[&str]| classes.iter().any(|class| code.starts_with(class));
        return if is_of(&is_over) {
            Fault::Unreachable(told)
        } else if is_of(&is_broken_off) {
            Fault::Cancelled(told)
        } else {
            Fault::Refused(told)
        };
    }
    let why = std::error::Error::source(error);
    match why.and_then(|why| why.downcast_ref::<io::Error>()) {
        Some(why) if why.kind() == io::ErrorKind::UnexpectedEof => {
            Fault::Unreachable("the store closed the connection".to_owned())
        }
        Some(why) if why.get_ref().is_some_and(|why| why.is::<WantsPassword>()) => {
            Fault::Refused(why.to_string())
        }
        Some(why) => Fault::Unreachable(why.to_string()),
        None if error.is_closed() => {
            Fault::Unreachable("the store closed the connection".to_owned())
        }
        None => match why {
            // What cannot be bound or read.
            Some(why) => Fault::Refused(format!("{error}: {}", saying(why.to_string().as_bytes()))),
            // What the server should not have said: nobody knows which question its next answer
            // is about.
            None => Fault::Unreachable(error.to_string()),
        },
    }
}
