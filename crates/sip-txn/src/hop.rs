//! The requests that a client transaction makes of its own request: the ACK to
//! a non-2xx (RFC 3261 17.1.1.3) and the CANCEL (RFC 3261 9.1).

use sip_msg::write::write_number;
use sip_msg::{HeaderName, Message, MessageWriter};

/// Appends the ACK to `response`, a non-2xx final one to `invite`.
/// Writes nothing where one of the two lacks what the ACK needs.
// RFC 3261 17.1.1.3: "A UAC core that generates an ACK for 2xx MUST instead follow the rules described
// in Section 13."
pub(crate) fn write_ack(invite: &Message, response: &Message, out: &mut Vec<u8>) -> bool {
    // RFC 3261 17.1.1.3: "The To header field in the ACK MUST equal the To header field in the response
    // being acknowledged, and therefore will usually differ from the To header field in the original
    // request by the addition of the tag parameter."
    write(invite, "ACK", response, b"", out)
}

/// Appends the CANCEL of `invite`, with a Reason (RFC 3326) where there is one.
pub(crate) fn write_cancel(invite: &Message, reason: &[u8], out: &mut Vec<u8>) -> bool {
    // RFC 3261 9.1: "The Request-URI, Call-ID, To, the numeric part of CSeq, and From header fields in the
    // CANCEL request MUST be identical to those in the request being cancelled, including tags."
    write(invite, "CANCEL", invite, reason, out)
}

/// A request for the hop that `invite` took, with the To of `to_of`.
fn write(
    invite: &Message,
    method: &str,
    to_of: &Message,
    reason: &[u8],
    out: &mut Vec<u8>,
) -> bool {
    // RFC 3261 17.1.1.3: "The ACK MUST contain a single Via header field, and this MUST be equal to the top
    // Via header field of the original request."
    // RFC 3261 9.1: "A CANCEL constructed by a client MUST have only a single Via header field value
    // matching the top Via value in the request being cancelled."
    let Some((via, _)) = invite.values(HeaderName::Via).next() else {
        return false;
    };
    let (Some(from), Some(to), Some(call_id), Ok(cseq)) = (
        invite.first(HeaderName::From),
        to_of.first(HeaderName::To),
        invite.first(HeaderName::CallId),
        invite.cseq(),
    ) else {
        return false;
    };
    // RFC 3261 17.1.1.3: "The ACK request constructed by the client transaction MUST contain values for the
    // Call-ID, From, and Request-URI that are equal to the values of those header fields in the request
    // passed to the transport by the client transaction (call this the "original request")."
    let mut message = MessageWriter::request(out, method, invite.request_uri());
    message.header("Via", via);
    // RFC 3261 17.1.1.3: "If the INVITE request whose response is being acknowledged had Route header
    // fields, those header fields MUST appear in the ACK."
    // RFC 3261 9.1: "If the request being cancelled contains a Route header field, the CANCEL request MUST
    // include that Route header field's values."
    for route in invite.fields_of(HeaderName::Route) {
        message.field(invite, &route);
    }
    // RFC 3261 8.1.1.6: "A UAC MUST insert a Max-Forwards header field into each request it originates with
    // a value that SHOULD be 70."
    match invite.first(HeaderName::MaxForwards) {
        Some(field) => message.field(invite, &field),
        None => message.number("Max-Forwards", 70),
    };
    message.field(invite, &from);
    message.field(to_of, &to);
    message.field(invite, &call_id);
    // RFC 3261 17.1.1.3: "The CSeq header field in the ACK MUST contain the same value for the sequence
    // number as was present in the original request, but the method parameter MUST be equal to "ACK"."
    // RFC 3261 9.1: "However, the method part of the CSeq header field MUST have a value of CANCEL."
    message.header_with("CSeq", |value| {
        write_number(value, u64::from(cseq.number));
        value.push(b' ');
        value.extend_from_slice(method.as_bytes());
    });
    if !reason.is_empty() {
        message.header("Reason", reason);
    }
    // RFC 3261 8.2.2.3: "Note that Require and Proxy-Require MUST NOT be used in a SIP CANCEL request,
    // or in an ACK request sent for a non-2xx response."
    // RFC 3261 9.1: "The CANCEL request MUST NOT contain any Require or Proxy-Require header fields."
    message.finish(b"");
    true
}

#[cfg(test)]
#[path = "hop_tests.rs"]
mod tests;
