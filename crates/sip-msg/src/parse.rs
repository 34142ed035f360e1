//! What can be wrong with a message: the limits, the rules, and the answer to
//! each.

pub(crate) mod lines;
mod scan;
pub(crate) mod start_line;

use crate::HeaderName;
use std::fmt;

/// Bounds on a message. Past each there is an answer of its own.
///
/// Nesting needs no bound: nothing that this crate reads recurses. A comment is
/// never opened, a URI's headers are never parsed as headers, and a body's
/// parts are never looked at.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the whole message; past it 513 (RFC 3261 21.5.7).
    pub message_bytes: usize,
    /// Header fields, comma-separated elements counted apart; past it 400.
    pub header_count: usize,
    /// Bytes of one header line, folds included; past it 400.
    pub header_bytes: usize,
    /// Bytes of the Request-URI; past it 414 (RFC 3261 21.4.12).
    pub uri_bytes: usize,
    /// Bytes of the body; past it 413 (RFC 3261 21.4.11).
    pub body_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: 65_535,
            header_count: 256,
            header_bytes: 8_192,
            uri_bytes: 2_048,
            body_bytes: 60_000,
        }
    }
}

/// What was wrong with a message: whose fault, and how to answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Which rule was broken.
    pub kind: ParseErrorKind,
    /// The byte at which it was seen.
    pub offset: usize,
}

/// The rules that a message can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// Nothing there but line ends.
    Empty,
    /// No start line of RFC 3261 7.1 or 7.2.
    StartLine,
    /// Another version than SIP/2.0.
    Version,
    /// No URI where the Request-URI belongs.
    RequestUri,
    /// The Request-URI has headers (RFC 3261 19.1.1 allows none there).
    RequestUriHeaders,
    /// The Request-URI is longer than [`Limits::uri_bytes`].
    RequestUriTooLong,
    /// A status code that is not 100 to 699.
    StatusCode,
    /// A CR or an LF that is not part of a CRLF.
    BareLineEnd,
    /// The empty line after the headers is missing.
    HeadersUnfinished,
    /// A header field's name is not a token, or no colon follows it.
    HeaderName,
    /// A control character outside a quoted-pair.
    ControlCharacter,
    /// A folded line with nothing on it, or one before the first header.
    Fold,
    /// A header line is longer than [`Limits::header_bytes`].
    HeaderTooLong,
    /// More header fields or elements than [`Limits::header_count`].
    TooManyHeaders,
    /// The message is longer than [`Limits::message_bytes`].
    MessageTooLarge,
    /// No Content-Length, over a stream.
    ContentLengthMissing,
    /// More than one Content-Length, equal or not.
    ContentLengthRepeated,
    /// Content-Length is not a number: empty, signed, a list.
    ContentLengthSyntax,
    /// Content-Length is past 2^32 - 1.
    ContentLengthOverflow,
    /// The body is longer than [`Limits::body_bytes`].
    BodyTooLarge,
    /// Fewer bytes of body than Content-Length says.
    BodyTruncated,
    /// A header that every message has is not there.
    Missing(HeaderName),
    /// A header is there more than once that may be there once.
    Repeated(HeaderName),
    /// A header does not follow its grammar.
    Malformed(HeaderName),
    /// CSeq's number is 2^31 or more (RFC 3261 8.1.1.5).
    CSeqNumber,
    /// CSeq's method is not the request's (RFC 3261 8.1.1.5).
    CSeqMethod,
    /// The same, and the request's method is not known either.
    CSeqMethodUnknown,
    /// Max-Forwards is past 255 (RFC 3261 20.22).
    MaxForwardsRange,
}

impl ParseError {
    pub(crate) const fn new(kind: ParseErrorKind, offset: usize) -> Self {
        Self { kind, offset }
    }

    /// The status with which a request that has this fault is answered.
    pub fn status(&self) -> u16 {
        self.kind.status()
    }

    /// The reason phrase for that answer: the rule, in the RFC's terms.
    pub fn reason(&self) -> &'static str {
        self.kind.reason()
    }
}

impl ParseErrorKind {
    /// The status with which a request that has this fault is answered.
    pub const fn status(self) -> u16 {
        match self {
            // RFC 3261 21.5.6: "The server does not support, or refuses to support, the SIP protocol
            // version that was used in the request."
            Self::Version => 505,
            // RFC 3261 21.4.12: "The server is refusing to service the request because the Request-URI
            // is longer than the server is willing to interpret."
            Self::RequestUriTooLong => 414,
            // RFC 3261 21.4.11: "The server is refusing to process a request because the request
            // entity-body is larger than the server is willing or able to process."
            Self::BodyTooLarge => 413,
            // RFC 3261 21.5.7: "The server was unable to process the request since the message length
            // exceeded its capabilities."
            Self::MessageTooLarge => 513,
            // RFC 4475 3.1.2.18: the sender may know more than this server does.
            Self::CSeqMethodUnknown => 501,
            _ => 400,
        }
    }

    /// The reason phrase for that answer: the rule, in the RFC's terms.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Empty => "Empty Message",
            Self::StartLine => "Malformed Start-Line",
            Self::Version => "Version Not Supported",
            Self::RequestUri => "Malformed Request-URI",
            Self::RequestUriHeaders => "Headers in Request-URI",
            Self::RequestUriTooLong => "Request-URI Too Long",
            Self::StatusCode => "Malformed Status-Code",
            Self::BareLineEnd => "Bare CR or LF",
            Self::HeadersUnfinished => "No Empty Line after Headers",
            Self::HeaderName => "Malformed Header Field Name",
            Self::ControlCharacter => "Control Character in Header Field",
            Self::Fold => "Malformed Header Folding",
            Self::HeaderTooLong => "Header Field Too Long",
            Self::TooManyHeaders => "Too Many Header Fields",
            Self::MessageTooLarge => "Message Too Large",
            Self::ContentLengthMissing => "Missing Content-Length",
            Self::ContentLengthRepeated => "Repeated Content-Length",
            Self::ContentLengthSyntax => "Malformed Content-Length",
            Self::ContentLengthOverflow => "Content-Length Out of Range",
            Self::BodyTooLarge => "Request Entity Too Large",
            Self::BodyTruncated => "Body Shorter Than Content-Length",
            Self::Missing(name) => match name {
                HeaderName::Via => "Missing Via",
                HeaderName::From => "Missing From",
                HeaderName::To => "Missing To",
                HeaderName::CallId => "Missing Call-ID",
                HeaderName::CSeq => "Missing CSeq",
                _ => "Missing Header Field",
            },
            Self::Repeated(name) => match name {
                HeaderName::From => "Repeated From",
                HeaderName::To => "Repeated To",
                HeaderName::CallId => "Repeated Call-ID",
                HeaderName::CSeq => "Repeated CSeq",
                HeaderName::MaxForwards => "Repeated Max-Forwards",
                _ => "Repeated Header Field",
            },
            Self::Malformed(name) => match name {
                HeaderName::Via => "Malformed Via",
                HeaderName::From => "Malformed From",
                HeaderName::To => "Malformed To",
                HeaderName::CallId => "Malformed Call-ID",
                HeaderName::CSeq => "Malformed CSeq",
                HeaderName::MaxForwards => "Malformed Max-Forwards",
                HeaderName::Contact => "Malformed Contact",
                HeaderName::Route => "Malformed Route",
                HeaderName::RecordRoute => "Malformed Record-Route",
                HeaderName::Path => "Malformed Path",
                _ => "Malformed Header Field",
            },
            Self::CSeqNumber => "CSeq Number Out of Range",
            Self::CSeqMethod => "CSeq Method Mismatch",
            Self::CSeqMethodUnknown => "Not Implemented",
            Self::MaxForwardsRange => "Max-Forwards Out of Range",
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ParseErrorKind::Missing(name)
            | ParseErrorKind::Repeated(name)
            | ParseErrorKind::Malformed(name) => {
                write!(
                    f,
                    "{} ({}) at byte {}",
                    self.reason(),
                    name.as_str(),
                    self.offset
                )
            }
            kind => write!(f, "{} at byte {}", kind.reason(), self.offset),
        }
    }
}

impl std::error::Error for ParseError {}
