//! A message: its bytes, and the index that one pass made of them.

mod index;
mod received;
mod request_uri;
mod sides;
#[cfg(test)]
mod tests;
mod top_via;
mod validate;

use crate::chars::part;
use crate::header::{
    CSeq, Contact, HeaderName, NameAddr, Via, delta_seconds, elements, list::whole,
};
use crate::parse::start_line::{Kind, Start};
use crate::parse::{Limits, ParseError, ParseErrorKind};
use crate::{Method, Uri};

/// A range of a message's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last.
    pub end: u32,
}

impl Span {
    /// A span of offsets that fit; a message is never 4 GiB.
    pub(crate) const fn new(start: usize, end: usize) -> Self {
        Self {
            start: start as u32,
            end: end as u32,
        }
    }

    /// Its length in bytes.
    pub const fn len(self) -> usize {
        self.end.saturating_sub(self.start) as usize
    }

    /// Whether there is nothing in it.
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// The same place in a message that this place's text is a part of.
    const fn shifted(self, by: u32) -> Self {
        Self {
            start: self.start + by,
            end: self.end + by,
        }
    }
}

/// The first line (RFC 3261 7.1, 7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartLine<'a> {
    /// A request line.
    Request {
        /// The method.
        method: Method,
        /// The method as it came.
        token: &'a [u8],
        /// The Request-URI as it came.
        uri: &'a [u8],
    },
    /// A status line.
    Response {
        /// 100 to 699.
        status: u16,
        /// The reason phrase, which may be empty.
        reason: &'a [u8],
    },
}

/// One header field line, folding included.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// Which header.
    pub name: HeaderName,
    /// The name as it came (perhaps compact, perhaps in another case).
    pub raw_name: &'a [u8],
    /// The value without surrounding white space; folds are still in it.
    pub value: &'a [u8],
    /// Where the value stands in the message.
    pub value_span: Span,
    /// The whole line with its line end: what to cut to remove the field.
    pub line_span: Span,
}

/// A header line in the index.
#[derive(Clone, Copy, Debug)]
struct Head {
    line_start: u32,
    line_end: u32,
    value_start: u32,
    value_end: u32,
    name_end: u32,
    name: HeaderName,
}

/// A parsed message. The memory is used again by [`Message::fill`].
///
/// # How it is read
/// [`Message::fill`] copies the bytes and finds the lines, and nothing more;
/// [`Message::validate`] checks what every element must check. Typed values
/// are parsed when they are asked for, from the bytes as they came.
pub struct Message {
    bytes: Vec<u8>,
    heads: Vec<Head>,
    start: Start,
    /// Of a request its own, of a response the CSeq's.
    method: Method,
    body_start: usize,
    /// One more than the index of the first head of each name; 0 for none.
    firsts: [u16; HeaderName::COUNT],
    /// The names that occur more than once.
    repeated: u64,
    /// Where the parts of the topmost Via stand, if it can be read.
    top_via: Option<top_via::TopVia>,
    /// CSeq's number and where its method stands, if it can be read.
    cseq: Option<(u32, Span)>,
    /// Where the parts of the Request-URI stand, if it can be read.
    uri: Option<request_uri::RequestUri>,
    /// From and To of a request, where they can be read.
    sides: [Option<sides::Side>; 2],
}

impl Default for Message {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            heads: Vec::new(),
            start: Start::default(),
            method: Method::Other,
            body_start: 0,
            firsts: [0; HeaderName::COUNT],
            repeated: 0,
            top_via: None,
            cseq: None,
            uri: None,
            sides: [None; 2],
        }
    }
}

impl std::fmt::Debug for Message {
    /// The first line and no more: the rest may hold credentials.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let line = part(&self.bytes, 0, self.start.end);
        write!(
            f,
            "Message({}, {} bytes)",
            line.trim_ascii_end().escape_ascii(),
            self.bytes.len()
        )
    }
}

impl Message {
    /// Parses a copy of `bytes`, which must begin with a message: see
    /// [`Message::fill`].
    pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Self, ParseError> {
        let mut message = Self::default();
        message.fill(bytes, limits)?;
        Ok(message)
    }

    /// Replaces the content by a copy of `bytes`, without allocating where the
    /// old capacity suffices. After an error the index holds what was
    /// understood, so that a 400 can be written from it.
    ///
    /// `bytes` is a datagram, or what a [`crate::Framer`] cut from a stream.
    /// Line ends before the start line are skipped. Without a Content-Length the
    /// body reaches to the end (over a stream the framer has refused that
    /// already); with one, bytes behind the body are left out of the message.
    pub fn fill(&mut self, bytes: &[u8], limits: &Limits) -> Result<(), ParseError> {
        self.index(bytes, limits)
    }

    /// The memory that it holds.
    pub fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity() + self.heads.capacity() * size_of::<Head>()
    }

    /// Gives back memory that a message of the usual size does not need. Its
    /// content is lost.
    pub fn shrink(&mut self) {
        if self.held_bytes() > crate::Pool::LARGE_BYTES {
            *self = Self::default();
        }
    }

    /// The whole message.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes at `span`; nothing where it does not lie in the message.
    pub fn slice(&self, span: Span) -> &[u8] {
        part(&self.bytes, span.start as usize, span.end as usize)
    }

    /// The first line.
    pub fn start_line(&self) -> StartLine<'_> {
        if self.start.kind == Kind::Response {
            return StartLine::Response {
                status: self.start.status,
                reason: self.slice(self.start.reason),
            };
        }
        StartLine::Request {
            method: self.method,
            token: self.slice(self.start.token),
            uri: self.slice(self.start.uri),
        }
    }

    /// Whether this is a request.
    pub fn is_request(&self) -> bool {
        self.start.kind == Kind::Request
    }

    /// Whether this is a response. What failed to parse may be neither.
    pub fn is_response(&self) -> bool {
        self.start.kind == Kind::Response
    }

    /// Whether a response can be written to it, even where it failed to parse: it
    /// is a request but no ACK, and has a Via. Where [`Message::top_via`] cannot
    /// be read, the answer goes back to where the packet came from.
    pub fn is_answerable(&self) -> bool {
        // RFC 3261 17: an ACK has no response.
        self.is_request() && self.method != Method::Ack && self.has(HeaderName::Via)
    }

    /// The request's method; of a response, the CSeq's.
    pub fn method(&self) -> Method {
        self.method
    }

    /// The method's token as it came (of a response, the CSeq's).
    pub fn method_token(&self) -> &[u8] {
        match self.start.kind {
            Kind::Request => self.slice(self.start.token),
            _ => self.cseq().map(|cseq| cseq.method).unwrap_or_default(),
        }
    }

    /// The Request-URI as it came; empty for a response.
    pub fn request_uri(&self) -> &[u8] {
        self.slice(self.start.uri)
    }

    /// Where the Request-URI stands.
    pub fn request_uri_span(&self) -> Span {
        self.start.uri
    }

    /// The Request-URI, parsed.
    pub fn uri(&self) -> Result<Uri<'_>, ParseError> {
        self.known_uri().ok_or(ParseError::new(
            ParseErrorKind::RequestUri,
            self.start.uri.start as usize,
        ))
    }

    /// A response's status; 0 for a request.
    pub fn status(&self) -> u16 {
        self.start.status
    }

    /// All header fields in order.
    pub fn fields(&self) -> impl Iterator<Item = Field<'_>> {
        self.heads.iter().map(|head| self.field(head))
    }

    /// The fields of that name in order.
    pub fn fields_of(&self, name: HeaderName) -> impl Iterator<Item = Field<'_>> {
        self.heads_of(name).map(|head| self.field(head))
    }

    /// The first field of that name, in O(1) for the names that a proxy reads.
    pub fn first(&self, name: HeaderName) -> Option<Field<'_>> {
        self.first_head(name).map(|head| self.field(head))
    }

    /// Whether a field of that name is there.
    pub fn has(&self, name: HeaderName) -> bool {
        self.first_head(name).is_some()
    }

    /// The first field with a name that has no [`HeaderName`] of its own, in its
    /// long or its compact form.
    pub fn first_named(&self, name: &str) -> Option<Field<'_>> {
        self.fields_named(name).next()
    }

    /// All fields of any name, in its long or its compact form, in their order.
    pub fn fields_named<'m>(&'m self, name: &str) -> impl Iterator<Item = Field<'m>> {
        let known = HeaderName::from_token(name.as_bytes());
        let compact = crate::header::compact_form(name);
        self.fields().filter(move |field| match known {
            HeaderName::Other => {
                field.raw_name.eq_ignore_ascii_case(name.as_bytes())
                    || compact.is_some_and(|compact| field.raw_name.eq_ignore_ascii_case(compact))
            }
            known => field.name == known,
        })
    }

    /// The elements of a comma-separated header over all its fields, in order,
    /// each trimmed, with the place where it stands. A header that is no list
    /// has one element for each field.
    // RFC 3261 7.3.1: "It MUST be possible to combine the multiple header field rows into one
    // "field-name: field-value" pair, without changing the semantics of the message, by appending each
    // subsequent field-value to the first, each separated by a comma." and "Implementations MUST be
    // able to process multiple header field rows with the same name in any combination of the
    // single-value-per-line or comma-separated value forms."
    pub fn values(&self, name: HeaderName) -> impl Iterator<Item = (&[u8], Span)> {
        self.heads_of(name).flat_map(move |head| {
            let value = part(
                &self.bytes,
                head.value_start as usize,
                head.value_end as usize,
            );
            let values = match name.is_list() {
                true => elements(value),
                false => whole(value),
            };
            values.map(|(element, span)| (element, span.shifted(head.value_start)))
        })
    }

    /// Whether a comma-separated header has more than one element.
    pub fn has_several(&self, name: HeaderName) -> bool {
        let filled = |head: &&Head| head.value_start < head.value_end;
        if self.repeated & name.bit() != 0 && self.heads_of(name).filter(filled).nth(1).is_some() {
            return true;
        }
        let has_comma = |head: &Head| memchr::memchr(b',', self.value(head)).is_some();
        self.heads_of(name).any(has_comma) && self.values(name).nth(1).is_some()
    }

    /// The offset of the first byte after the start line: where headers begin.
    pub fn headers_start(&self) -> u32 {
        Span::new(0, self.start.end).end
    }

    /// The offset of the empty line that ends the headers: where to add one as
    /// the last.
    pub fn headers_end(&self) -> u32 {
        self.heads
            .last()
            .map_or(self.headers_start(), |head| head.line_end)
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        self.bytes.get(self.body_start..).unwrap_or_default()
    }

    /// The Call-ID; empty where there is none.
    pub fn call_id(&self) -> &[u8] {
        self.value_of(HeaderName::CallId).unwrap_or_default()
    }

    /// The CSeq.
    pub fn cseq(&self) -> Result<CSeq<'_>, ParseError> {
        match self.cseq {
            Some((number, method)) => Ok(CSeq {
                number,
                method: self.slice(method),
            }),
            None => self.parse_cseq(),
        }
    }

    /// The topmost Via.
    pub fn top_via(&self) -> Result<Via<'_>, ParseError> {
        match self.known_top_via() {
            Some(via) => Ok(via),
            None => Err(self.malformed(self.mandatory(HeaderName::Via)?)),
        }
    }

    /// All Vias, topmost first.
    pub fn vias(&self) -> impl Iterator<Item = Option<Via<'_>>> {
        self.values(HeaderName::Via)
            .map(|(element, span)| Via::parse(element, span))
    }

    /// From.
    pub fn from(&self) -> Result<NameAddr<'_>, ParseError> {
        self.name_addr(HeaderName::From)
    }

    /// To.
    pub fn to(&self) -> Result<NameAddr<'_>, ParseError> {
        self.name_addr(HeaderName::To)
    }

    /// Max-Forwards: `Ok(None)` where absent.
    pub fn max_forwards(&self) -> Result<Option<u32>, ParseError> {
        let Some(head) = self.first_head(HeaderName::MaxForwards) else {
            return Ok(None);
        };
        let Some(number) = crate::chars::number(self.value(head)) else {
            return Err(self.malformed(head));
        };
        // RFC 3261 20.22: "The Max-Forwards value is an integer in the range 0-255 indicating the
        // remaining number of times this request message is allowed to be forwarded."
        match u32::try_from(number) {
            Ok(number) if number <= 255 => Ok(Some(number)),
            _ => Err(ParseError::new(
                ParseErrorKind::MaxForwardsRange,
                head.value_start as usize,
            )),
        }
    }

    /// The Contact elements, each parsed.
    pub fn contacts(&self) -> impl Iterator<Item = Result<Contact<'_>, ParseError>> {
        self.values(HeaderName::Contact).map(|(element, span)| {
            let malformed = ParseErrorKind::Malformed(HeaderName::Contact);
            Contact::parse(element).ok_or(ParseError::new(malformed, span.start as usize))
        })
    }

    /// The elements of Route, Record-Route, Path or the like, each parsed, with
    /// its place.
    pub fn addresses(
        &self,
        name: HeaderName,
    ) -> impl Iterator<Item = Result<(NameAddr<'_>, Span), ParseError>> {
        self.values(name)
            .map(move |(element, span)| match NameAddr::parse(element) {
                Some(addr) => Ok((addr, span)),
                None => Err(ParseError::new(
                    ParseErrorKind::Malformed(name),
                    span.start as usize,
                )),
            })
    }

    /// Whether `tag` is among the option tags of Require, Supported and the like.
    pub fn has_option(&self, name: HeaderName, tag: &str) -> bool {
        self.values(name)
            .any(|(element, _)| element.eq_ignore_ascii_case(tag.as_bytes()))
    }

    /// Expires, in seconds; `None` where absent.
    pub fn expires_s(&self) -> Option<u32> {
        // RFC 3261 10.2.1.1: "Malformed values SHOULD be treated as equivalent to 3600."
        self.value_of(HeaderName::Expires)
            .map(|value| delta_seconds(value).unwrap_or(3600))
    }

    fn heads_of(&self, name: HeaderName) -> impl Iterator<Item = &Head> {
        let first = usize::from(self.firsts.get(name as usize).copied().unwrap_or(0));
        let from = if first == 0 {
            self.heads.len()
        } else {
            first - 1
        };
        self.heads
            .get(from..)
            .unwrap_or_default()
            .iter()
            .filter(move |head| head.name == name)
    }

    fn first_head(&self, name: HeaderName) -> Option<&Head> {
        let first = usize::from(*self.firsts.get(name as usize)?);
        self.heads.get(first.checked_sub(1)?)
    }

    fn value(&self, head: &Head) -> &[u8] {
        part(
            &self.bytes,
            head.value_start as usize,
            head.value_end as usize,
        )
    }

    fn value_of(&self, name: HeaderName) -> Option<&[u8]> {
        self.first_head(name).map(|head| self.value(head))
    }

    fn mandatory(&self, name: HeaderName) -> Result<&Head, ParseError> {
        self.first_head(name).ok_or(ParseError::new(
            ParseErrorKind::Missing(name),
            self.start.end,
        ))
    }

    fn parse_cseq(&self) -> Result<CSeq<'_>, ParseError> {
        let head = self.mandatory(HeaderName::CSeq)?;
        CSeq::parse(self.value(head))
            .map_err(|kind| ParseError::new(kind, head.value_start as usize))
    }

    fn malformed(&self, head: &Head) -> ParseError {
        ParseError::new(
            ParseErrorKind::Malformed(head.name),
            head.value_start as usize,
        )
    }

    fn name_addr(&self, name: HeaderName) -> Result<NameAddr<'_>, ParseError> {
        if let Some(known) = self.known_side(name) {
            return Ok(known);
        }
        let head = self.mandatory(name)?;
        NameAddr::parse(self.value(head)).ok_or_else(|| self.malformed(head))
    }

    fn field(&self, head: &Head) -> Field<'_> {
        Field {
            name: head.name,
            raw_name: part(
                &self.bytes,
                head.line_start as usize,
                head.name_end as usize,
            ),
            value: self.value(head),
            value_span: Span {
                start: head.value_start,
                end: head.value_end,
            },
            line_span: Span {
                start: head.line_start,
                end: head.line_end,
            },
        }
    }
}
