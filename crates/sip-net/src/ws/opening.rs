//! The request with which a client opens a WebSocket, and the check of its
//! answer (RFC 6455 4.1, RFC 7118 4.1).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::upgrade::{Fields, HEADERS_MAX, Head, accept_of, head};

#[cfg(test)]
mod tests;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSocketRequest {
    host: String,
    path: String,
    origin: Option<String>,
}

impl WebSocketRequest {
    /// `host` is the server's name or address, with its port where that is not
    /// the default; `path` begins with a slash; `origin` is the page that the
    /// client says it is, as browsers do (RFC 6454).
    ///
    /// # Errors
    /// Names the part that cannot stand in a request.
    pub fn new(host: &str, path: &str, origin: Option<&str>) -> Result<Self, String> {
        let is_word = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        if !is_word(host) {
            return Err(format!("'{host}' is no host of a WebSocket server"));
        }
        if !is_word(path) || !path.starts_with('/') {
            return Err(format!(
                "'{path}' is no path of a WebSocket; write one that begins with a slash, as in /sip"
            ));
        }
        if let Some(origin) = origin.filter(|origin| !is_word(origin)) {
            return Err(format!(
                "'{origin}' is no origin; write the scheme, host and port of a page: https://phone.example.com"
            ));
        }
        Ok(Self {
            host: host.to_owned(),
            path: path.to_owned(),
            origin: origin.map(str::to_owned),
        })
    }

    /// Appends the request under a key of its own.
    pub fn write(&self, key: &OpeningKey, out: &mut Vec<u8>) {
        // RFC 7118 4.1: a client offers the subprotocol `sip`.
        let text = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: {}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: sip\r\n",
            self.path, self.host, key.key
        );
        out.extend_from_slice(text.as_bytes());
        if let Some(origin) = &self.origin {
            out.extend_from_slice(b"Origin: ");
            out.extend_from_slice(origin.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The answer is not all there: read on.
    More,
    /// The connection is a WebSocket behind the answer's `len` bytes.
    Done {
        /// The length of the answer.
        len: usize,
    },
    /// It is none, and nothing more may be sent on it.
    Failed(UpgradeFault),
}

/// Why a connection that this side opened became no WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpgradeFault {
    /// What came is no HTTP answer.
    Malformed,
    /// An answer longer than [`super::HEAD_BYTES_MAX`], or with too many fields.
    TooLarge,
    /// The server refuses, with this status. No redirect is followed, and no
    /// password is given.
    Refused(u16),
    /// An answer 101 that does not name the upgrade.
    NoUpgrade,
    /// An answer to another request: the server is none for WebSockets, or
    /// something between keeps answers.
    Accept,
    /// The subprotocol is not `sip`.
    Protocol,
    /// An extension that nobody asked for.
    Extension,
    /// No answer in time.
    TimedOut,
}

/// The key of one request, and what its answer must prove.
#[derive(Clone, PartialEq, Eq)]
pub struct OpeningKey {
    key: String,
    accept: String,
}

impl OpeningKey {
    /// From 16 random bytes. RFC 6455 4.1: "The nonce MUST be selected randomly for
    /// each connection."
    pub fn new(random: [u8; 16]) -> Self {
        let key = STANDARD.encode(random);
        let accept = accept_of(key.as_bytes());
        Self { key, accept }
    }

    /// Reads the answer at the front of `input`. `scanned` is 0 at first and is
    /// kept between calls, so that no byte is looked at twice.
    pub fn read_answer(&self, input: &[u8], scanned: &mut usize) -> Answered {
        // What speaks another protocol is not kept waiting for.
        if input.iter().zip(b"HTTP/1.1 ").any(|(is, must)| is != must) {
            return Answered::Failed(UpgradeFault::Malformed);
        }
        let len = match head(input, scanned) {
            Head::More => return Answered::More,
            Head::TooLarge => return Answered::Failed(UpgradeFault::TooLarge),
            Head::Whole(len) => len,
        };
        match self.check(input.get(..len).unwrap_or_default()) {
            Ok(()) => Answered::Done { len },
            Err(fault) => Answered::Failed(fault),
        }
    }

    fn check(&self, head: &[u8]) -> Result<(), UpgradeFault> {
        let mut fields = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut answer = httparse::Response::new(&mut fields);
        match answer.parse(head) {
            Ok(httparse::Status::Complete(len)) if len == head.len() => {}
            Err(httparse::Error::TooManyHeaders) => return Err(UpgradeFault::TooLarge),
            _ => return Err(UpgradeFault::Malformed),
        }
        // RFC 6455 4.1: "If the status code received from the server is not 101, the
        // client handles the response per HTTP [RFC2616] procedures."
        match answer.code {
            Some(101) => {}
            Some(status) => return Err(UpgradeFault::Refused(status)),
            None => return Err(UpgradeFault::Malformed),
        }
        let fields = Fields(answer.headers);
        let one = |name| fields.one(name).map_err(|_| UpgradeFault::Malformed);
        // RFC 6455 4.1: "If the response lacks an |Upgrade| header field [...] or lacks
        // a |Connection| header field [...] the client MUST _Fail the WebSocket Connection_."
        if !fields.has_token("Upgrade", "websocket") || !fields.has_token("Connection", "upgrade") {
            return Err(UpgradeFault::NoUpgrade);
        }
        // RFC 6455 4.1: "If the response lacks a |Sec-WebSocket-Accept| header field or
        // [...] contains a value other than [...] the client MUST _Fail the WebSocket
        // Connection_."
        if one("Sec-WebSocket-Accept")? != Some(self.accept.as_bytes()) {
            return Err(UpgradeFault::Accept);
        }
        // RFC 6455 4.1: "If the response includes a |Sec-WebSocket-Extensions| header
        // field and this header field indicates the use of an extension that was not
        // present in the client's handshake [...] the client MUST _Fail the WebSocket
        // Connection_."
        if fields
            .tokens("Sec-WebSocket-Extensions")
            .any(|extension| !extension.is_empty())
        {
            return Err(UpgradeFault::Extension);
        }
        // RFC 7118 4.1: a server that speaks SIP names the subprotocol in its answer.
        let protocol = one("Sec-WebSocket-Protocol")?;
        if !protocol.is_some_and(|protocol| protocol.eq_ignore_ascii_case(b"sip")) {
            return Err(UpgradeFault::Protocol);
        }
        Ok(())
    }
}

// Nobody who reads a log is to answer in the server's place.
impl std::fmt::Debug for OpeningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpeningKey").finish_non_exhaustive()
    }
}
