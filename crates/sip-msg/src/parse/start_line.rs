//! The start line (RFC 3261 7.1, 7.2).

use crate::chars::{VISIBLE, all, is_token, part, rest};
use crate::parse::ParseErrorKind;
use crate::{Method, Span};

/// What kind of message the start line begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Neither: nothing can be said about the message.
    #[default]
    Unknown,
    Request,
    Response,
}

/// The start line as far as it was understood.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Start {
    pub(crate) kind: Kind,
    pub(crate) method: Option<Method>,
    /// The method's token.
    pub(crate) token: Span,
    /// The Request-URI.
    pub(crate) uri: Span,
    pub(crate) status: u16,
    /// The reason phrase.
    pub(crate) reason: Span,
    /// The SIP-Version.
    pub(crate) version: Span,
    /// Past the line's CRLF.
    pub(crate) end: usize,
    pub(crate) fault: Option<(ParseErrorKind, usize)>,
}

/// Reads the start line at the beginning of `bytes`.
pub(crate) fn parse(bytes: &[u8]) -> Start {
    let mut fault = None;
    let mut line_end = bytes.len();
    let mut end = bytes.len();
    match memchr::memchr2(b'\r', b'\n', bytes) {
        Some(at) if bytes.get(at..at + 2) == Some(b"\r\n") => {
            line_end = at;
            end = at + 2;
        }
        Some(at) => {
            fault = Some((ParseErrorKind::BareLineEnd, at));
            line_end = at;
            end = at + 1;
        }
        None => fault = Some((ParseErrorKind::HeadersUnfinished, bytes.len())),
    }
    let line = part(bytes, 0, line_end);
    // RFC 3261 7.1: "The Request-URI MUST NOT contain unescaped spaces or control characters and MUST
    // NOT be enclosed in "<>"."
    let mut start = if is_version_prefix(line) {
        status_line(line)
    } else {
        request_line(line)
    };
    start.end = end;
    start.fault = match fault {
        Some((ParseErrorKind::BareLineEnd, _)) => fault,
        _ => start.fault.or(fault),
    };
    start
}

/// Whether a line that does begin a stream's message could be SIP at all; what
/// could not is refused before the rest of it has come.
pub(crate) fn is_foreign(line: &[u8]) -> bool {
    !is_version_prefix(line) && version_gap(line).is_none()
}

fn is_version_prefix(line: &[u8]) -> bool {
    line.first_chunk::<4>()
        .is_some_and(|head| head.eq_ignore_ascii_case(b"SIP/"))
}

fn span(start: usize, end: usize) -> Span {
    Span::new(start, end)
}

/// `SIP-Version SP Status-Code SP Reason-Phrase`.
fn status_line(line: &[u8]) -> Start {
    let mut start = Start {
        kind: Kind::Response,
        ..Start::default()
    };
    let version_end = memchr::memchr(b' ', line).unwrap_or(line.len());
    start.version = span(0, version_end);
    start.fault = version_fault(part(line, 0, version_end), 0);
    let tail = rest(line, version_end + 1);
    let code = part(tail, 0, 3);
    let well_formed = code.len() == 3 && code.iter().all(u8::is_ascii_digit);
    let number = crate::chars::number(code)
        .and_then(|n| u16::try_from(n).ok())
        .unwrap_or(0);
    if !well_formed || !(100..=699).contains(&number) || matches!(tail.get(3), Some(b'0'..=b'9')) {
        start
            .fault
            .get_or_insert((ParseErrorKind::StatusCode, version_end + 1));
        return start;
    }
    start.status = number;
    if tail.get(3) != Some(&b' ') {
        start
            .fault
            .get_or_insert((ParseErrorKind::StartLine, line.len()));
        return start;
    }
    start.reason = span(version_end + 5, line.len());
    if let Some(at) = line
        .iter()
        .position(|&b| (b < 0x20 && b != b'\t') || b == 0x7f)
    {
        start
            .fault
            .get_or_insert((ParseErrorKind::ControlCharacter, at));
    }
    start
}

/// `Method SP Request-URI SP SIP-Version`.
fn request_line(line: &[u8]) -> Start {
    let mut start = Start::default();
    let foreign = Start {
        fault: Some((ParseErrorKind::StartLine, 0)),
        ..Start::default()
    };
    let (Some(first), Some(last)) = (memchr::memchr(b' ', line), version_gap(line)) else {
        return foreign;
    };
    let token = part(line, 0, first);
    if !is_token(token) || last < first {
        return foreign;
    }
    start.kind = Kind::Request;
    start.method = Some(Method::from_token(token));
    start.token = span(0, first);
    start.version = span(last + 1, line.len());
    start.fault = version_fault(rest(line, last + 1), last + 1);
    if first == last {
        start
            .fault
            .get_or_insert((ParseErrorKind::RequestUri, first));
        return start;
    }
    start.uri = span(first + 1, last);
    // RFC 3261 7.1: "The Request-URI MUST NOT contain unescaped spaces or control characters and MUST
    // NOT be enclosed in "<>"."
    let uri = part(line, first + 1, last);
    if uri.is_empty() || !all(uri, VISIBLE) || uri.first() == Some(&b'<') {
        start
            .fault
            .get_or_insert((ParseErrorKind::RequestUri, first + 1));
    }
    start
}

/// The space before the SIP-Version: the last that `SIP/` follows.
fn version_gap(line: &[u8]) -> Option<usize> {
    let well_placed = line.len().checked_sub(8);
    if let Some(at) = well_placed
        && line.get(at..).is_some_and(|tail| tail == b" SIP/2.0")
    {
        return Some(at);
    }
    line.windows(5)
        .rposition(|w| w.eq_ignore_ascii_case(b" SIP/"))
}

/// RFC 3261 7.1: "The SIP-Version string is case-insensitive, but implementations MUST send
/// upper-case."
fn version_fault(version: &[u8], offset: usize) -> Option<(ParseErrorKind, usize)> {
    if version.eq_ignore_ascii_case(b"SIP/2.0") {
        return None;
    }
    let number = rest(version, 4);
    let mut halves = number.splitn(2, |&b| b == b'.');
    let is_number = |half: Option<&[u8]>| {
        half.is_some_and(|h| !h.is_empty() && h.iter().all(u8::is_ascii_digit))
    };
    let kind = if is_number(halves.next()) && is_number(halves.next()) {
        ParseErrorKind::Version
    } else {
        ParseErrorKind::StartLine
    };
    Some((kind, offset))
}
