//! A connection over TCP or TLS, from an address of the caller's choice.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

use socket2::{Domain, Socket, Type};

use crate::wire::{Draft, Text, cut};

enum Pipe {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// A connection to the server.
pub(crate) struct Stream {
    pipe: Pipe,
    buffer: Vec<u8>,
    closed: bool,
    /// Our end.
    pub(crate) local: SocketAddr,
}

impl Stream {
    /// Connects over TCP, as somebody whom nobody trusts.
    pub(crate) fn tcp(to: SocketAddr) -> Result<Self, String> {
        Self::tcp_from([127, 0, 1, 2], to)
    }

    /// Connects over TCP from an address.
    pub(crate) fn tcp_from(from: [u8; 4], to: SocketAddr) -> Result<Self, String> {
        let failed = |e: std::io::Error| format!("cannot connect to {to}: {e}");
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).map_err(failed)?;
        socket
            .bind(&SocketAddr::from((from, 0)).into())
            .map_err(failed)?;
        socket
            .connect_timeout(&to.into(), Duration::from_secs(5))
            .map_err(failed)?;
        let socket = TcpStream::from(socket);
        let local = socket.local_addr().map_err(|e| e.to_string())?;
        let _ = socket.set_write_timeout(Some(Duration::from_secs(2)));
        Ok(Self {
            pipe: Pipe::Plain(socket),
            buffer: Vec::new(),
            closed: false,
            local,
        })
    }

    /// Connects over TLS 1.3 or 1.2, whatever certificate is shown: who the
    /// server is matters to its clients, and this one only looks at what it does.
    pub(crate) fn tls(to: SocketAddr, name: &str) -> Result<Self, String> {
        let mut stream = Self::tcp(to)?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyServer(provider)))
            .with_no_client_auth();
        let name = ServerName::try_from(name.to_owned()).map_err(|e| e.to_string())?;
        let session = ClientConnection::new(Arc::new(config), name).map_err(|e| e.to_string())?;
        let Pipe::Plain(socket) = stream.pipe else {
            return Err("not a plain connection".to_owned());
        };
        stream.pipe = Pipe::Tls(Box::new(StreamOwned::new(session, socket)));
        Ok(stream)
    }

    fn socket(&self) -> &TcpStream {
        match &self.pipe {
            Pipe::Plain(socket) => socket,
            Pipe::Tls(stream) => &stream.sock,
        }
    }

    /// How long a write may wait for the other side to read.
    pub(crate) fn gives_up_after(&self, limit: Duration) {
        let _ = self.socket().set_write_timeout(Some(limit));
    }

    /// What its Via calls the transport.
    pub(crate) fn transport(&self) -> &'static str {
        match self.pipe {
            Pipe::Plain(_) => "TCP",
            Pipe::Tls(_) => "TLS",
        }
    }

    /// Writes; false where the other side takes no more.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> bool {
        let written = match &mut self.pipe {
            Pipe::Plain(socket) => socket.write_all(bytes),
            Pipe::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        };
        self.closed |= written.is_err();
        written.is_ok()
    }

    /// Sends a request.
    pub(crate) fn send(&mut self, draft: &Draft) -> bool {
        let bytes = draft.render(self.local, self.transport());
        self.send_bytes(&bytes)
    }

    /// The next message, or `None` when none came within `limit` or the other
    /// side closed.
    pub(crate) fn next(&mut self, limit: Duration) -> Option<Text> {
        let until = Instant::now() + limit;
        let mut piece = vec![0; 65_535];
        loop {
            if let Some(message) = cut(&mut self.buffer) {
                return Text::read(&message);
            }
            let left = until.checked_duration_since(Instant::now())?;
            let _ = self
                .socket()
                .set_read_timeout(Some(left.max(Duration::from_millis(1))));
            let read = match &mut self.pipe {
                Pipe::Plain(socket) => socket.read(&mut piece),
                Pipe::Tls(stream) => stream.read(&mut piece),
            };
            match read {
                Ok(0) => self.closed = true,
                Ok(n) => self.buffer.extend_from_slice(piece.get(..n)?),
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return None;
                }
                Err(_) => self.closed = true,
            }
            if self.closed && !self.buffer.windows(4).any(|w| w == b"\r\n\r\n") {
                return None;
            }
        }
    }

    /// Sends a request and waits for its final response.
    pub(crate) fn ask(&mut self, limit: Duration, draft: &Draft) -> Option<Text> {
        if !self.send(draft) {
            return None;
        }
        let until = Instant::now() + limit;
        loop {
            let left = until.checked_duration_since(Instant::now())?;
            let text = self.next(left)?;
            if text.answers(draft) && text.status() >= Some(200) {
                return Some(text);
            }
        }
    }

    /// Whether the other side has closed, as far as was read.
    pub(crate) fn is_closed(&mut self) -> bool {
        if !self.closed {
            let _ = self.next(Duration::from_millis(20));
        }
        self.closed
    }
}

/// Takes every certificate whose key signed the handshake.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
