//! The request that opens a connection, and its answer (RFC 6455 4.2, RFC 7118 4.1).

use std::net::IpAddr;

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::WebSocketRules;

#[cfg(test)]
mod tests;

/// The longest request that is read.
pub const HEAD_BYTES_MAX: usize = 8_192;
/// The most header fields.
pub(super) const HEADERS_MAX: usize = 64;
/// RFC 6455 1.3.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upgraded {
    /// It is not all there: read on.
    More,
    /// The connection is a WebSocket behind the request's `len` bytes.
    Done {
        /// The length of the request.
        len: usize,
    },
    /// It is not to be.
    Refused(UpgradeRefusal),
}

/// Why a request to upgrade is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpgradeRefusal {
    /// No HTTP request, or one that makes no sense.
    Malformed,
    /// A request longer than [`HEAD_BYTES_MAX`], or with too many fields.
    TooLarge,
    /// A method that is not GET.
    Method,
    /// A path that is not the listener's.
    Path,
    /// No wish to upgrade: somebody looks at the address with a browser.
    NoUpgrade,
    /// A version of WebSocket that is not 13.
    Version,
    /// A page that may not.
    Origin,
    /// The subprotocol `sip` is not among those offered.
    Protocol,
}

impl UpgradeRefusal {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Self; 8] = [
        Self::Malformed,
        Self::TooLarge,
        Self::Method,
        Self::Path,
        Self::NoUpgrade,
        Self::Version,
        Self::Origin,
        Self::Protocol,
    ];

    /// Its name among figures.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::TooLarge => "too_large",
            Self::Method => "method",
            Self::Path => "path",
            Self::NoUpgrade => "no_upgrade",
            Self::Version => "version",
            Self::Origin => "origin",
            Self::Protocol => "protocol",
        }
    }

    /// The status line, further header fields, and what to tell the reader.
    /// Nothing of the request is repeated.
    const fn answer(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Malformed => (
                "400 Bad Request",
                "Connection: close\r\n",
                "This is no request to open a WebSocket.",
            ),
            Self::TooLarge => (
                "431 Request Header Fields Too Large",
                "Connection: close\r\n",
                "The request is too long.",
            ),
            Self::Method => (
                "405 Method Not Allowed",
                "Connection: close\r\nAllow: GET\r\n",
                "A WebSocket is opened with GET.",
            ),
            Self::Path => (
                "404 Not Found",
                "Connection: close\r\n",
                "SIP over WebSocket is at another path of this server.",
            ),
            Self::NoUpgrade => (
                "426 Upgrade Required",
                "Connection: close, Upgrade\r\nUpgrade: websocket\r\n",
                "This is a SIP server (RFC 7118): open it as a WebSocket, with the subprotocol sip.",
            ),
            Self::Version => (
                "426 Upgrade Required",
                "Connection: close, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
                "WebSocket version 13 is spoken here.",
            ),
            Self::Origin => (
                "403 Forbidden",
                "Connection: close\r\n",
                "Pages of this origin may not connect. The operator lists those that may in `origins`.",
            ),
            Self::Protocol => (
                "400 Bad Request",
                "Connection: close\r\n",
                "The subprotocol sip must be offered in Sec-WebSocket-Protocol (RFC 7118).",
            ),
        }
    }
}

/// Reads the request at the front of `input` and appends its answer to
/// `answer`. `scanned` is 0 at first and is kept between calls, so that no byte
/// is looked at twice. `local` is this server's end of the connection.
pub fn upgrade(
    input: &[u8],
    scanned: &mut usize,
    rules: &WebSocketRules,
    is_secure: bool,
    local: IpAddr,
    answer: &mut Vec<u8>,
) -> Upgraded {
    let refuse = |refusal: UpgradeRefusal, answer: &mut Vec<u8>| {
        write_refusal(refusal, answer);
        Upgraded::Refused(refusal)
    };
    // What speaks TLS or another protocol is not kept waiting for.
    if input
        .first()
        .is_some_and(|byte| !byte.is_ascii_alphabetic())
    {
        return refuse(UpgradeRefusal::Malformed, answer);
    }
    let len = match head(input, scanned) {
        Head::More => return Upgraded::More,
        Head::TooLarge => return refuse(UpgradeRefusal::TooLarge, answer),
        Head::Whole(len) => len,
    };
    match read(
        input.get(..len).unwrap_or_default(),
        rules,
        is_secure,
        local,
    ) {
        Ok(accepted) => {
            accepted.write(answer);
            Upgraded::Done { len }
        }
        Err(refusal) => refuse(refusal, answer),
    }
}

/// The head of a request or an answer at the front of what was read.
pub(super) enum Head {
    /// Its end is not there yet.
    More,
    /// It is longer than [`HEAD_BYTES_MAX`].
    TooLarge,
    /// It is there, in so many bytes, the empty line among them.
    Whole(usize),
}

/// Finds the end of the head, in the bytes past those that were `scanned`.
pub(super) fn head(input: &[u8], scanned: &mut usize) -> Head {
    let from = scanned.saturating_sub(3);
    let end = input
        .get(from..)
        .unwrap_or_default()
        .windows(4)
        .position(|window| window == b"\r\n\r\n");
    match end.map(|end| from + end + 4) {
        Some(len) if len <= HEAD_BYTES_MAX => Head::Whole(len),
        None if input.len() <= HEAD_BYTES_MAX => {
            *scanned = input.len();
            Head::More
        }
        _ => Head::TooLarge,
    }
}

/// A request that is granted.
struct Accepted {
    accept: String,
    /// The subprotocol as the client spells it.
    protocol: String,
}

impl Accepted {
    fn write(&self, answer: &mut Vec<u8>) {
        // RFC 7118 4.1: the answer names the subprotocol `sip` too.
        let text = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {}\r\nSec-WebSocket-Protocol: {}\r\n\r\n",
            self.accept, self.protocol
        );
        answer.extend_from_slice(text.as_bytes());
    }
}

fn read(
    head: &[u8],
    rules: &WebSocketRules,
    is_secure: bool,
    local: IpAddr,
) -> Result<Accepted, UpgradeRefusal> {
    let mut fields = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(head) {
        Ok(httparse::Status::Complete(len)) if len == head.len() => {}
        Err(httparse::Error::TooManyHeaders) => return Err(UpgradeRefusal::TooLarge),
        _ => return Err(UpgradeRefusal::Malformed),
    }
    let target = request.path.unwrap_or_default();
    let is_http11 = request.version == Some(1);
    if request.method != Some("GET") {
        return Err(UpgradeRefusal::Method);
    }
    let path = target.split_once('?').map_or(target, |(path, _)| path);
    if path != rules.path {
        return Err(UpgradeRefusal::Path);
    }
    let fields = Fields(request.headers);
    let has_body = fields.any("Transfer-Encoding")
        || fields
            .all("Content-Length")
            .any(|length| length.trim_ascii() != b"0");
    // RFC 6455 4.2.1: "An HTTP/1.1 or higher GET request, including a
    // "Request-URI"" and "A |Host| header field containing the server's authority."
    let host = fields.one("Host")?;
    if !is_http11 || has_body || host.is_none_or(<[u8]>::is_empty) {
        return Err(UpgradeRefusal::Malformed);
    }
    if !fields.has_token("Upgrade", "websocket") || !fields.has_token("Connection", "upgrade") {
        return Err(UpgradeRefusal::NoUpgrade);
    }
    if fields.one("Sec-WebSocket-Version")? != Some(b"13") {
        return Err(UpgradeRefusal::Version);
    }
    // RFC 6455 4.2.1: "A |Sec-WebSocket-Key| header field with a base64-encoded
    // [...] value that, when decoded, is 16 bytes in length."
    let key = fields
        .one("Sec-WebSocket-Key")?
        .filter(|key| STANDARD.decode(key).is_ok_and(|key| key.len() == 16))
        .ok_or(UpgradeRefusal::Malformed)?;
    if let Some(origin) = fields.one("Origin")?
        && !rules.admits(origin, is_secure, local)
    {
        return Err(UpgradeRefusal::Origin);
    }
    // RFC 7118 4.1: a client must offer the subprotocol `sip`.
    let protocol = fields
        .tokens("Sec-WebSocket-Protocol")
        .find(|token| token.eq_ignore_ascii_case(b"sip"))
        .ok_or(UpgradeRefusal::Protocol)?;
    Ok(Accepted {
        accept: accept_of(key),
        protocol: String::from_utf8_lossy(protocol).into_owned(),
    })
}

/// RFC 6455 4.2.2: "The value of this header field is constructed by
/// concatenating /key/ [...] with the string
/// "258EAFA5-E914-47DA-95CA-C5AB0DC85B11", taking the SHA-1 hash of this
/// concatenated value to obtain a 20-byte value and base64-encoding [...] this
/// 20-byte hash." It proves that a WebSocket server answers, and nothing else.
pub(super) fn accept_of(key: &[u8]) -> String {
    let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    context.update(key);
    context.update(GUID);
    STANDARD.encode(context.finish().as_ref())
}

fn write_refusal(refusal: UpgradeRefusal, answer: &mut Vec<u8>) {
    let (status, fields, text) = refusal.answer();
    let whole = format!(
        "HTTP/1.1 {status}\r\n{fields}Content-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\r\n{text}\n",
        text.len() + 1
    );
    answer.extend_from_slice(whole.as_bytes());
}

/// The header fields of a request or an answer.
pub(super) struct Fields<'h>(pub(super) &'h [httparse::Header<'h>]);

impl<'h> Fields<'h> {
    fn all(&self, name: &str) -> impl Iterator<Item = &'h [u8]> {
        self.0
            .iter()
            .filter(move |field| field.name.eq_ignore_ascii_case(name))
            .map(|field| field.value.trim_ascii())
    }

    fn any(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }

    /// The only field of that name; an error where there are several.
    pub(super) fn one(&self, name: &str) -> Result<Option<&'h [u8]>, UpgradeRefusal> {
        let mut all = self.all(name);
        let first = all.next();
        match all.next() {
            None => Ok(first),
            Some(_) => Err(UpgradeRefusal::Malformed),
        }
    }

    pub(super) fn tokens(&self, name: &str) -> impl Iterator<Item = &'h [u8]> {
        self.all(name)
            .flat_map(|value| value.split(|byte| *byte == b','))
            .map(<[u8]>::trim_ascii)
    }

    pub(super) fn has_token(&self, name: &str, token: &str) -> bool {
        self.tokens(name)
            .any(|found| found.eq_ignore_ascii_case(token.as_bytes()))
    }
}
