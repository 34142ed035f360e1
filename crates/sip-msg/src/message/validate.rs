//! What every element checks before it trusts a message.

use super::Message;
use crate::Method;
use crate::chars::is;
use crate::header::{HeaderName, NameAddr};
use crate::parse::{ParseError, ParseErrorKind};

/// Headers that may stand in a message once. Of the others that RFC 3261 20
/// does not define as lists, a second one changes nothing that is read here.
const ONCE: [HeaderName; 9] = [
    HeaderName::From,
    HeaderName::To,
    HeaderName::CallId,
    HeaderName::CSeq,
    HeaderName::MaxForwards,
    HeaderName::ContentLength,
    HeaderName::ContentType,
    HeaderName::Expires,
    HeaderName::MaxBreadth,
];

const ONCE_BITS: u64 = {
    let mut bits = 0;
    let mut at = 0;
    while at < ONCE.len() {
        bits |= ONCE[at].bit();
        at += 1;
    }
    bits
};

impl Message {
    /// Checks what every element must check before it trusts the message
    /// (RFC 3261 8.1.1, 16.3): the mandatory headers, once each, well formed,
    /// CSeq's method equal to the request's, known SIP version, sane numbers.
    ///
    /// Call it on what [`Message::fill`] accepted. A Request-URI of a scheme
    /// that nobody knows passes: its answer is 416, and the proxy's to give.
    pub fn validate(&self) -> Result<(), ParseError> {
        if let Some((kind, offset)) = self.start.fault {
            return Err(ParseError::new(kind, offset));
        }
        if self.is_request() {
            self.validate_request_uri()?;
        }
        // RFC 3261 8.1.1: "A valid SIP request formulated by a UAC MUST, at a minimum, contain the
        // following header fields: To, From, CSeq, Call-ID, Max-Forwards, and Via; all of these header
        // fields are mandatory in all SIP requests." Max-Forwards alone may be missing: RFC 3261 16.3 has
        // the proxy let such a request pass.
        // RFC 3261 20: "A "mandatory" header field MUST be present in a request, and MUST be understood
        // by the UAS receiving the request."
        self.top_via()?;
        self.validate_address(HeaderName::From)?;
        self.validate_address(HeaderName::To)?;
        self.validate_call_id()?;
        let cseq = self.cseq()?;
        // RFC 3261 8.1.1.5: "The method MUST match that of the request."
        if self.is_request() && cseq.method != self.method_token() {
            let offset = self
                .first_head(HeaderName::CSeq)
                .map_or(0, |head| head.value_start as usize);
            let kind = match self.method() {
                Method::Other => ParseErrorKind::CSeqMethodUnknown,
                _ => ParseErrorKind::CSeqMethod,
            };
            return Err(ParseError::new(kind, offset));
        }
        self.max_forwards()?;
        self.validate_once()
    }

    /// Checks what an element must check of a response that it only forwards:
    /// what it reads itself, and that nothing stands there twice that others
    /// might read differently. From and To go on as they came.
    pub fn validate_forwarded(&self) -> Result<(), ParseError> {
        if let Some((kind, offset)) = self.start.fault {
            return Err(ParseError::new(kind, offset));
        }
        self.top_via()?;
        self.mandatory(HeaderName::From)?;
        self.mandatory(HeaderName::To)?;
        self.validate_call_id()?;
        self.cseq()?;
        self.validate_once()
    }

    fn validate_request_uri(&self) -> Result<(), ParseError> {
        let uri = self.uri()?;
        // RFC 3261 19.1.1, Table 1: headers are not allowed in a Request-URI.
        if !uri.headers.is_empty() {
            return Err(ParseError::new(
                ParseErrorKind::RequestUriHeaders,
                self.start.uri.start as usize,
            ));
        }
        Ok(())
    }

    fn validate_address(&self, name: HeaderName) -> Result<(), ParseError> {
        if self.is_known_sound(name) {
            return Ok(());
        }
        let head = self.mandatory(name)?;
        let addr = NameAddr::parse(self.value(head)).ok_or_else(|| self.malformed(head))?;
        // RFC 3261 7.3.1: "Even though an arbitrary number of parameter pairs may be attached to a header
        // field value, any given parameter-name MUST NOT appear more than once."
        if !addr.has_sound_tag() || addr.uri().is_none() {
            return Err(self.malformed(head));
        }
        Ok(())
    }

    fn validate_call_id(&self) -> Result<(), ParseError> {
        let head = self.mandatory(HeaderName::CallId)?;
        let value = self.value(head);
        // Wider than RFC 3261 25.1's `word`: any one word that white space and
        // control characters do not break.
        let is_one_word = !value.is_empty() && value.iter().all(|&b| is(b, crate::chars::VISIBLE));
        if is_one_word {
            Ok(())
        } else {
            Err(self.malformed(head))
        }
    }

    fn validate_once(&self) -> Result<(), ParseError> {
        let twice = self.repeated & ONCE_BITS;
        if twice == 0 {
            return Ok(());
        }
        let name = ONCE
            .into_iter()
            .find(|name| twice & name.bit() != 0)
            .unwrap_or(HeaderName::Other);
        let offset = self
            .fields_of(name)
            .nth(1)
            .map_or(0, |field| field.line_span.start as usize);
        Err(ParseError::new(ParseErrorKind::Repeated(name), offset))
    }
}
