//! Writes requests and responses from nothing.

#[cfg(test)]
mod tests;

use crate::header::NameAddr;
use crate::{Field, HeaderName, Message};

/// Writes a message into a buffer: start line, headers, then `finish` with the
/// body, which writes the Content-Length.
///
/// Whatever it is given, a header stays one header: line ends in a value become
/// spaces.
pub struct MessageWriter<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> MessageWriter<'o> {
    /// Begins a request.
    pub fn request(out: &'o mut Vec<u8>, method: &str, uri: &[u8]) -> Self {
        out.extend_from_slice(method.as_bytes());
        out.push(b' ');
        Self::text(out, uri);
        // RFC 3261 7.1: "To be compliant with this specification, applications sending SIP messages
        // MUST include a SIP-Version of "SIP/2.0"."
        out.extend_from_slice(b" SIP/2.0\r\n");
        Self { out }
    }

    /// Begins a response.
    pub fn response(out: &'o mut Vec<u8>, status: u16, reason: &str) -> Self {
        out.extend_from_slice(b"SIP/2.0 ");
        write_number(out, u64::from(status));
        out.push(b' ');
        Self::text(out, reason.as_bytes());
        out.extend_from_slice(b"\r\n");
        Self { out }
    }

    /// A header field.
    pub fn header(&mut self, name: &str, value: &[u8]) -> &mut Self {
        self.header_with(name, |out| out.extend_from_slice(value))
    }

    /// A header field whose value is a number.
    pub fn number(&mut self, name: &str, value: u64) -> &mut Self {
        self.header_with(name, |out| write_number(out, value))
    }

    /// A header field whose value a closure writes; it must only append.
    pub fn header_with(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) -> &mut Self {
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b": ");
        let start = self.out.len();
        write(self.out);
        keep_to_one_line(self.out, start);
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// A header line as it stands in another message, line end included.
    pub fn field(&mut self, message: &Message, field: &Field<'_>) -> &mut Self {
        self.out.extend_from_slice(message.slice(field.line_span));
        self
    }

    // RFC 3261 7: "The start-line, each message-header line, and the empty line MUST be terminated by a
    // carriage-return line-feed sequence (CRLF)." and "Note that the empty line MUST be present even if
    // the message-body is not."
    /// The empty line and the body; adds Content-Length.
    pub fn finish(self, body: &[u8]) {
        self.out.extend_from_slice(b"Content-Length: ");
        // RFC 3261 20.14: "If no body is present in a message, then the Content-Length header field
        // value MUST be set to zero."
        write_number(self.out, body.len() as u64);
        self.out.extend_from_slice(b"\r\n\r\n");
        self.out.extend_from_slice(body);
    }

    fn text(out: &mut Vec<u8>, text: &[u8]) {
        let start = out.len();
        out.extend_from_slice(text);
        keep_to_one_line(out, start);
    }
}

/// Writes a response to a request (RFC 3261 8.2.6): every Via, From, To,
/// Call-ID and CSeq copied, the To tag added where there was none.
pub struct ResponseWriter;

impl ResponseWriter {
    /// Begins the response; `to_tag` is added unless To has one or the status is 100.
    /// Works on a message that failed to parse, with what was understood.
    pub fn begin<'o>(
        out: &'o mut Vec<u8>,
        request: &Message,
        status: u16,
        reason: &str,
        to_tag: &[u8],
    ) -> MessageWriter<'o> {
        let mut writer = MessageWriter::response(out, status, reason);
        // RFC 3261 8.2.6.2: "The From field of the response MUST equal the From header field of the
        // request.  The Call-ID header field of the response MUST equal the Call-ID header field of the
        // request.  The CSeq header field of the response MUST equal the CSeq field of the request.  The
        // Via header field values in the response MUST equal the Via header field values in the request
        // and MUST maintain the same ordering."
        for field in request.fields_of(HeaderName::Via) {
            writer.field(request, &field);
        }
        // RFC 3261 20: "A mandatory response header field MUST be present in the response, and the
        // header field MUST be understood by the UAC processing the response."
        for name in [
            HeaderName::From,
            HeaderName::To,
            HeaderName::CallId,
            HeaderName::CSeq,
        ] {
            let Some(field) = request.first(name) else {
                continue;
            };
            // RFC 3261 8.2.6.2: "If a request contained a To tag in the request, the To header field in
            // the response MUST equal that of the request."
            if name == HeaderName::To && wants_tag(&field, status, to_tag) {
                // RFC 3261 8.2.6.2: "However, if the To header field in the request did not contain a
                // tag, the URI in the To header field in the response MUST equal the URI in the To header
                // field; additionally, the UAS MUST add a tag to the To header field in the response (with
                // the exception of the 100 (Trying) response, in which a tag MAY be present)."
                let line_end = field.value_span.end;
                writer.out.extend_from_slice(request.slice(crate::Span {
                    start: field.line_span.start,
                    end: line_end,
                }));
                writer.out.extend_from_slice(b";tag=");
                writer.out.extend_from_slice(to_tag);
                writer.out.extend_from_slice(b"\r\n");
            } else {
                writer.field(request, &field);
            }
        }
        // RFC 3261 8.2.6.1: "When a 100 (Trying) response is generated, any Timestamp header field present
        // in the request MUST be copied into this 100 (Trying) response."
        for field in request
            .fields_of(HeaderName::Timestamp)
            .filter(|_| status == 100)
        {
            writer.field(request, &field);
        }
        writer
    }
}

/// Appends a decimal number.
pub fn write_number(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0u8; 20];
    let mut left = number;
    let mut start = digits.len();
    for place in digits.iter_mut().rev() {
        *place = b'0' + (left % 10) as u8;
        left /= 10;
        start -= 1;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(start..).unwrap_or_default());
}

/// The reason phrase of RFC 3261 21 and of the extensions that this project answers with.
pub fn reason_phrase(status: u16) -> &'static str {
    match status {
        100 => "Trying",
        180 => "Ringing",
        181 => "Call Is Being Forwarded",
        182 => "Queued",
        183 => "Session Progress",
        200 => "OK",
        202 => "Accepted",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Moved Temporarily",
        305 => "Use Proxy",
        380 => "Alternative Service",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        410 => "Gone",
        412 => "Conditional Request Failed",
        413 => "Request Entity Too Large",
        414 => "Request-URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Unsupported URI Scheme",
        420 => "Bad Extension",
        421 => "Extension Required",
        422 => "Session Interval Too Small",
        423 => "Interval Too Brief",
        430 => "Flow Failed",
        439 => "First Hop Lacks Outbound Support",
        440 => "Max-Breadth Exceeded",
        480 => "Temporarily Unavailable",
        481 => "Call/Transaction Does Not Exist",
        482 => "Loop Detected",
        483 => "Too Many Hops",
        484 => "Address Incomplete",
        485 => "Ambiguous",
        486 => "Busy Here",
        487 => "Request Terminated",
        488 => "Not Acceptable Here",
        489 => "Bad Event",
        491 => "Request Pending",
        493 => "Undecipherable",
        500 => "Server Internal Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Server Time-out",
        505 => "Version Not Supported",
        513 => "Message Too Large",
        600 => "Busy Everywhere",
        603 => "Decline",
        604 => "Does Not Exist Anywhere",
        606 => "Not Acceptable",
        _ => class_phrase(status),
    }
}

/// What stands for a status that nobody named (RFC 3261 7.2).
const fn class_phrase(status: u16) -> &'static str {
    match status / 100 {
        1 => "Provisional",
        2 => "Success",
        3 => "Redirection",
        5 => "Server Error",
        6 => "Global Failure",
        _ => "Client Error",
    }
}

fn wants_tag(to: &Field<'_>, status: u16, to_tag: &[u8]) -> bool {
    let has_tag = NameAddr::parse(to.value).is_some_and(|addr| addr.param("tag").is_some());
    !has_tag && status != 100 && !to_tag.is_empty()
}

/// Turns every CR, LF and NUL from `start` on into a space: folds too, which mean
/// the same.
fn keep_to_one_line(out: &mut [u8], start: usize) {
    let mut text = out.get_mut(start..).unwrap_or_default();
    while let Some(found) = memchr::memchr3(b'\r', b'\n', 0, text) {
        let Some((byte, tail)) = text.get_mut(found..).and_then(<[u8]>::split_first_mut) else {
            return;
        };
        *byte = b' ';
        text = tail;
    }
}
