//! The one pass: start line, header boundaries, body.

use super::{Head, Message, Span};
use crate::Method;
use crate::chars::part;
use crate::header::{HeaderName, elements};
use crate::parse::lines::{self, Line, Step};
use crate::parse::start_line::{self, Kind};
use crate::parse::{Limits, ParseError, ParseErrorKind};

/// The most header lines that can be indexed, whatever the limits say.
const HEADS_MAX: usize = u16::MAX as usize - 1;

impl Message {
    pub(super) fn index(&mut self, bytes: &[u8], limits: &Limits) -> Result<(), ParseError> {
        let bytes = skip_line_ends(bytes);
        self.reset();
        let mut fault = None;
        let mut taken = bytes;
        let bytes_max = limits.message_bytes.min(u32::MAX as usize);
        if bytes.len() > bytes_max {
            fault = Some((ParseErrorKind::MessageTooLarge, bytes_max));
            taken = part(bytes, 0, bytes_max);
        }
        self.bytes.extend_from_slice(taken);
        if taken.is_empty() {
            return Err(ParseError::new(ParseErrorKind::Empty, 0));
        }
        self.index_start_line(limits, &mut fault);
        if self.start.kind == Kind::Unknown {
            // Nothing behind such a line means anything, nor can it be answered.
            self.body_start = self.bytes.len();
            return fault.map_or(Ok(()), |(kind, offset)| Err(ParseError::new(kind, offset)));
        }
        self.read_uri();
        self.index_headers(limits, &mut fault);
        self.read_top_via();
        self.read_sides();
        self.index_body(limits, &mut fault);
        self.cseq = match self.parse_cseq() {
            Ok(cseq) => Some((cseq.number, self.place(cseq.method))),
            Err(_) => None,
        };
        if self.start.kind == Kind::Response {
            self.method = self
                .cseq()
                .map_or(Method::Other, |cseq| Method::from_token(cseq.method));
        }
        match fault {
            None => Ok(()),
            Some((kind, offset)) => Err(ParseError::new(kind, offset)),
        }
    }

    fn reset(&mut self) {
        self.bytes.clear();
        self.heads.clear();
        self.start = start_line::Start::default();
        self.method = Method::Other;
        self.body_start = 0;
        self.firsts = [0; HeaderName::COUNT];
        self.repeated = 0;
        self.top_via = None;
        self.cseq = None;
        self.uri = None;
        self.sides = [None; 2];
    }

    fn index_start_line(&mut self, limits: &Limits, fault: &mut Option<(ParseErrorKind, usize)>) {
        self.start = start_line::parse(&self.bytes);
        self.method = self.start.method.unwrap_or(Method::Other);
        if let Some(found) = self.start.fault {
            fault.get_or_insert(found);
        }
        if self.start.uri.len() > limits.uri_bytes {
            fault.get_or_insert((
                ParseErrorKind::RequestUriTooLong,
                self.start.uri.start as usize,
            ));
        }
        // RFC 3261 7.1: "The SIP-Version string is case-insensitive, but implementations MUST send
        // upper-case." This copy is what will be sent.
        let version = self.start.version;
        if let Some([head @ .., b'/', _, _, _]) = self
            .bytes
            .get_mut(version.start as usize..version.end as usize)
            && head.len() == 3
        {
            head.make_ascii_uppercase();
        }
    }

    fn index_headers(&mut self, limits: &Limits, fault: &mut Option<(ParseErrorKind, usize)>) {
        let mut at = self.index_usual_headers(self.start.end, limits);
        loop {
            let line = match lines::step(&self.bytes, at) {
                Step::Line(line) => line,
                Step::Body(body_start) => {
                    self.body_start = body_start;
                    break;
                }
                Step::Unfinished => {
                    fault.get_or_insert((ParseErrorKind::HeadersUnfinished, self.bytes.len()));
                    self.body_start = self.bytes.len();
                    break;
                }
            };
            at = line.end;
            if self.heads.len() >= limits.header_count.min(HEADS_MAX) {
                fault.get_or_insert((ParseErrorKind::TooManyHeaders, line.start));
                if !self.is_repeated_by_answer(&line, limits) {
                    continue;
                }
            }
            self.index_line(&line, limits, fault);
        }
        if self.elements_count_max() > limits.header_count
            && self.elements_count() > limits.header_count
        {
            fault.get_or_insert((ParseErrorKind::TooManyHeaders, self.start.end));
        }
    }

    /// Whether a line past the limit is read for the answer that refuses the message:
    /// the Vias that came, up to as many again as the limit, and the rest of RFC 3261
    /// 8.2.6.2 once each.
    fn is_repeated_by_answer(&self, line: &Line, limits: &Limits) -> bool {
        let heads_max = limits.header_count.saturating_mul(2).min(HEADS_MAX - 4);
        match HeaderName::from_token(part(&self.bytes, line.start, line.name_end)) {
            HeaderName::Via => self.heads.len() < heads_max,
            name @ (HeaderName::From | HeaderName::To | HeaderName::CallId | HeaderName::CSeq) => {
                self.heads.len() < HEADS_MAX && !self.has(name)
            }
            _ => false,
        }
    }

    /// Reads the lines that are as almost everybody writes them, up to the first that is
    /// not; where that begins.
    fn index_usual_headers(&mut self, mut at: usize, limits: &Limits) -> usize {
        let count_max = limits.header_count.min(HEADS_MAX);
        while self.heads.len() < count_max
            && let Some(line) = lines::usual(&self.bytes, at)
        {
            let name = HeaderName::from_token(part(&self.bytes, line.start, line.name_end));
            let is_good =
                name != HeaderName::Other || lines::name_fault(&self.bytes, &line).is_none();
            if !is_good || line.end - line.start > limits.header_bytes {
                break;
            }
            at = line.end;
            self.push_head(name, &line);
        }
        at
    }

    fn index_line(
        &mut self,
        line: &Line,
        limits: &Limits,
        fault: &mut Option<(ParseErrorKind, usize)>,
    ) {
        let raw_name = part(&self.bytes, line.start, line.name_end);
        let name = HeaderName::from_token(raw_name);
        let mut line_fault = line.fault;
        if name == HeaderName::Other && line_fault.is_none() {
            line_fault = lines::name_fault(&self.bytes, line);
        }
        if let Some(found) = line_fault {
            // A line that is not understood is in no index: nothing reads it,
            // and no answer repeats it.
            fault.get_or_insert(found);
            return;
        }
        if line.end - line.start > limits.header_bytes {
            fault.get_or_insert((ParseErrorKind::HeaderTooLong, line.start));
        }
        self.push_head(name, line);
    }

    fn push_head(&mut self, name: HeaderName, line: &Line) {
        self.heads.push(Head {
            line_start: line.start as u32,
            line_end: line.end as u32,
            value_start: line.value_start as u32,
            value_end: line.value_end as u32,
            name_end: line.name_end as u32,
            name,
        });
        if let Some(first) = self.firsts.get_mut(name as usize) {
            if *first == 0 {
                *first = self.heads.len() as u16;
            } else {
                self.repeated |= name.bit();
            }
        }
    }

    fn index_body(&mut self, limits: &Limits, fault: &mut Option<(ParseErrorKind, usize)>) {
        let length = match self.content_length() {
            Ok(length) => length,
            Err((kind, offset)) => {
                fault.get_or_insert((kind, offset));
                None
            }
        };
        let there = self.bytes.len() - self.body_start;
        let length = length.unwrap_or(there);
        if length > limits.body_bytes {
            fault.get_or_insert((ParseErrorKind::BodyTooLarge, self.body_start));
        } else if length > there {
            // RFC 3261 18.3: "If the transport packet ends before the end of the message body, this is
            // considered an error.  If the message is a response, it MUST be discarded.  If the message is
            // a request, the element SHOULD generate a 400 (Bad Request) response."
            fault.get_or_insert((ParseErrorKind::BodyTruncated, self.bytes.len()));
        }
        // RFC 3261 18.3: "If there are additional bytes in the transport packet beyond the end of the
        // body, they MUST be discarded."
        self.bytes.truncate(self.body_start.saturating_add(length));
    }

    fn content_length(&self) -> Result<Option<usize>, (ParseErrorKind, usize)> {
        let Some(head) = self.first_head(HeaderName::ContentLength) else {
            return Ok(None);
        };
        if self.repeated & HeaderName::ContentLength.bit() != 0 {
            return Err((
                ParseErrorKind::ContentLengthRepeated,
                head.line_start as usize,
            ));
        }
        match lines::content_length(self.value(head)) {
            Ok(length) => Ok(Some(length)),
            Err(kind) => Err((kind, head.value_start as usize)),
        }
    }

    /// A bound from above, without a look at the bytes: no element is empty, and a
    /// comma stands between two.
    fn elements_count_max(&self) -> usize {
        let count = |head: &Head| match head.name.is_list() {
            true => (head.value_end - head.value_start) as usize / 2 + 1,
            false => 1,
        };
        self.heads.iter().map(count).sum()
    }

    fn elements_count(&self) -> usize {
        let count = |head: &Head| match head.name.is_list() {
            true => elements(self.value(head)).count().max(1),
            false => 1,
        };
        self.heads.iter().map(count).sum()
    }

    /// Moves the index where bytes were put in or taken out at `at`.
    pub(super) fn shift(&mut self, at: u32, by: i64) {
        let moved = |offset: &mut u32| {
            if *offset > at {
                *offset = u32::try_from(i64::from(*offset) + by).unwrap_or(*offset);
            }
        };
        for head in &mut self.heads {
            for offset in [
                &mut head.line_start,
                &mut head.line_end,
                &mut head.value_start,
                &mut head.value_end,
                &mut head.name_end,
            ] {
                moved(offset);
            }
        }
        let mut body_start = Span::new(0, self.body_start).end;
        moved(&mut body_start);
        self.body_start = body_start as usize;
        if let Some((_, method)) = &mut self.cseq {
            moved(&mut method.start);
            moved(&mut method.end);
        }
    }
}

/// RFC 3261 7.5: "Implementations processing SIP messages over stream-oriented transports MUST ignore any
/// CRLF appearing before the start-line [H4.1]." A datagram is read alike.
fn skip_line_ends(mut bytes: &[u8]) -> &[u8] {
    while let [b'\r', b'\n', tail @ ..] = bytes {
        bytes = tail;
    }
    bytes
}
