//! Cuts a byte stream into messages (RFC 3261 18.3), with the parser's own
//! reading of where the headers end and how long the body is.

#[cfg(test)]
mod tests;

use crate::HeaderName;
use crate::chars::{part, rest};
use crate::parse::lines::{self, Step};
use crate::parse::start_line::{self, Kind};
use crate::parse::{Limits, ParseError, ParseErrorKind};

/// What a stream held next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framed {
    /// Not yet a whole message: read on.
    More,
    /// A whole message: the next `len` bytes of the buffer.
    Message {
        /// Its length in bytes.
        len: usize,
    },
    /// The double CRLF of a keep-alive (RFC 5626 3.5.1): answer with one CRLF.
    Ping {
        /// Its length in bytes.
        len: usize,
    },
    /// Line ends between messages, to be skipped (RFC 3261 7.5), pongs included.
    Skip {
        /// Their number in bytes.
        len: usize,
    },
}

/// A stream that cannot be framed any further: answer, then close.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameError {
    /// What was wrong.
    pub error: ParseError,
    /// How many bytes of the buffer are the head of the message at fault:
    /// [`crate::Message::fill`] of them fails too, and leaves what an answer is
    /// made from.
    pub head_len: usize,
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for FrameError {}

/// Remembers how far a stream was scanned, so that no byte is scanned twice.
///
/// Feed it the unread bytes whenever there are more of them; the outcome does
/// not depend on how they were split.
#[derive(Default, Debug)]
pub struct Framer {
    /// So many bytes are whole lines, none of them empty.
    lines: usize,
    /// So many bytes were searched for line ends.
    scanned: usize,
    /// The length of the message whose headers were read; 0 before that.
    needed: usize,
    /// The last thing in the stream was half a ping.
    half_ping: bool,
    /// A message without Content-Length has no body.
    takes_lengthless: bool,
}

impl Framer {
    /// One to which a message without Content-Length is one without a body: for who plays
    /// peers that leave it out, and whose own peers may.
    pub fn lenient() -> Self {
        Self {
            takes_lengthless: true,
            ..Self::default()
        }
    }

    /// Looks at the unread bytes of the stream: the same start as in the last
    /// call, perhaps with more behind it. After anything but [`Framed::More`]
    /// the caller drops `len` bytes before it calls again.
    pub fn next(&mut self, unread: &[u8], limits: &Limits) -> Result<Framed, FrameError> {
        if self.needed == 0 {
            match unread {
                [] | [b'\r'] => return Ok(Framed::More),
                [b'\r', b'\n', ..] => return Ok(self.line_end(unread)),
                _ => {}
            }
            self.half_ping = false;
            let Some(head_len) = self.find_head(unread, limits)? else {
                return Ok(Framed::More);
            };
            let head = part(unread, 0, head_len);
            self.needed = message_len(head, limits, self.takes_lengthless)?;
        }
        if unread.len() < self.needed {
            return Ok(Framed::More);
        }
        let len = self.needed;
        *self = Self {
            takes_lengthless: self.takes_lengthless,
            ..Self::default()
        };
        Ok(Framed::Message { len })
    }

    /// Whether the stream stands between two messages: nothing is owed by the
    /// peer. (A lone CR counts as between.)
    pub fn is_idle(&self) -> bool {
        self.needed == 0 && self.scanned == 0
    }

    /// A ping is two CRLFs in a row, however they were split.
    fn line_end(&mut self, unread: &[u8]) -> Framed {
        if self.half_ping {
            self.half_ping = false;
            return Framed::Ping { len: 2 };
        }
        if unread.starts_with(b"\r\n\r\n") {
            return Framed::Ping { len: 4 };
        }
        self.half_ping = true;
        Framed::Skip { len: 2 }
    }

    /// Where the headers end, if they do.
    fn find_head(&mut self, unread: &[u8], limits: &Limits) -> Result<Option<usize>, FrameError> {
        let fail = |kind, at: usize| {
            Err(FrameError {
                error: ParseError::new(kind, at),
                head_len: at.min(unread.len()),
            })
        };
        while let Some(found) = memchr::memchr(b'\n', rest(unread, self.scanned)) {
            let line_feed = self.scanned + found;
            let end = line_feed + 1;
            self.scanned = end;
            if end > limits.message_bytes {
                break;
            }
            if part(unread, line_feed.saturating_sub(1), end) != b"\r\n" {
                return fail(ParseErrorKind::BareLineEnd, line_feed);
            }
            if self.lines == 0 && start_line::is_foreign(part(unread, 0, line_feed - 1)) {
                return fail(ParseErrorKind::StartLine, end);
            }
            if self.lines != 0 && end == self.lines + 2 {
                return Ok(Some(end));
            }
            self.lines = end;
        }
        self.scanned = unread.len();
        if unread.len() > limits.message_bytes {
            return fail(ParseErrorKind::MessageTooLarge, limits.message_bytes);
        }
        Ok(None)
    }
}

/// The length of the message that `head` begins: the parser's own walk over the
/// lines, in search of Content-Length.
fn message_len(head: &[u8], limits: &Limits, takes_lengthless: bool) -> Result<usize, FrameError> {
    let fail = |kind, at| {
        Err(FrameError {
            error: ParseError::new(kind, at),
            head_len: head.len(),
        })
    };
    let start = start_line::parse(head);
    if let Some((ParseErrorKind::BareLineEnd, at)) = start.fault {
        return fail(ParseErrorKind::BareLineEnd, at);
    }
    if start.kind == Kind::Unknown {
        return fail(ParseErrorKind::StartLine, 0);
    }
    let mut at = start.end;
    let mut length = None;
    loop {
        let line = match lines::step(head, at) {
            Step::Line(line) => line,
            Step::Body(_) => break,
            Step::Unfinished => return fail(ParseErrorKind::HeadersUnfinished, head.len()),
        };
        at = line.end;
        let name = part(head, line.start, line.name_end);
        // A line that the parser would not index might be a Content-Length to
        // somebody else: there is no agreement about where this message ends.
        if let Some((kind, offset)) = line.fault.or_else(|| lines::name_fault(head, &line)) {
            return fail(kind, offset);
        }
        if !matches!(name.first(), Some(b'C' | b'c' | b'L' | b'l'))
            || HeaderName::from_token(name) != HeaderName::ContentLength
        {
            continue;
        }
        if length.is_some() {
            return fail(ParseErrorKind::ContentLengthRepeated, line.start);
        }
        match lines::content_length(part(head, line.value_start, line.value_end)) {
            Ok(found) => length = Some(found),
            Err(kind) => return fail(kind, line.value_start),
        }
    }
    // RFC 3261 20.14: "If a stream-based protocol (such as TCP) is used as transport, the header field MUST
    // be used."
    let Some(length) = length.or(takes_lengthless.then_some(0)) else {
        return fail(ParseErrorKind::ContentLengthMissing, head.len());
    };
    if length > limits.body_bytes {
        return fail(ParseErrorKind::BodyTooLarge, head.len());
    }
    if head.len().saturating_add(length) > limits.message_bytes {
        return fail(ParseErrorKind::MessageTooLarge, head.len());
    }
    Ok(head.len() + length)
}
