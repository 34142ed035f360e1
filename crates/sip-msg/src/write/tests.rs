use super::*;
use crate::{Limits, Method};

const REQUEST: &str = "INVITE sip:bob@b SIP/2.0\r\n\
v: SIP/2.0/UDP a;branch=z9hG4bK1\r\n\
Max-Forwards: 70\r\n\
Via: SIP/2.0/UDP c\r\n\
To: <sip:bob@b>\r\n\
CSeq: 1\r\n INVITE\r\n\
From: <sip:alice@a>;tag=1\r\n\
Call-ID: i\r\n\
\r\n";

fn respond(request: &str, status: u16, tag: &[u8]) -> String {
    let mut message = Message::default();
    let _ = message.fill(request.as_bytes(), &Limits::default());
    let mut out = Vec::new();
    ResponseWriter::begin(&mut out, &message, status, reason_phrase(status), tag).finish(b"");
    String::from_utf8(out).expect("text")
}

#[test]
fn a_response_copies_what_it_must() {
    // RFC 3261 8.2.6.2: "The From field of the response MUST equal the From header field of the
    // request.  The Call-ID header field of the response MUST equal the Call-ID header field of the
    // request.  The CSeq header field of the response MUST equal the CSeq field of the request.  The
    // Via header field values in the response MUST equal the Via header field values in the request
    // and MUST maintain the same ordering."
    let expected = "SIP/2.0 404 Not Found\r\n\
        v: SIP/2.0/UDP a;branch=z9hG4bK1\r\nVia: SIP/2.0/UDP c\r\nFrom: <sip:alice@a>;tag=1\r\n\
        To: <sip:bob@b>;tag=t\r\nCall-ID: i\r\nCSeq: 1\r\n INVITE\r\nContent-Length: 0\r\n\r\n";
    // RFC 3261 20: "A mandatory response header field MUST be present in the response, and the header
    // field MUST be understood by the UAC processing the response."
    // RFC 3261 20.14: "If no body is present in a message, then the Content-Length header field value
    // MUST be set to zero."
    // RFC 3261 7: "Note that the empty line MUST be present even if the message-body is not."
    assert_eq!(respond(REQUEST, 404, b"t"), expected);
}

#[test]
fn too_many_header_fields_before_what_must_be_copied_are_answered_alike() {
    // RFC 3261 8.2.6.2: "The Via header field values in the response MUST equal the Via header field
    // values in the request and MUST maintain the same ordering."
    let with = |vias: usize, junk: usize| {
        let vias: String = (0..vias)
            .map(|n| format!("Via: SIP/2.0/UDP h{n}\r\n"))
            .collect();
        let more = format!("{vias}{}Max-Forwards", "X: y\r\n".repeat(junk));
        (REQUEST.replacen("Max-Forwards", &more, 1), vias)
    };
    let top = "SIP/2.0 400 Bad Request\r\nv: SIP/2.0/UDP a;branch=z9hG4bK1\r\n";
    let rest = "From: <sip:alice@a>;tag=1\r\nTo: <sip:bob@b>;tag=t\r\nCall-ID: i\r\n\
        CSeq: 1\r\n INVITE\r\nContent-Length: 0\r\n\r\n";
    for (vias, junk) in [(300, 0), (0, 300), (250, 20)] {
        let (request, vias) = with(vias, junk);
        let expected = format!("{top}{vias}Via: SIP/2.0/UDP c\r\n{rest}");
        assert_eq!(respond(&request, 400, b"t"), expected);
    }
    // Past twice the limit there are no more Vias, and still the rest.
    let (request, _) = with(2_000, 0);
    let answer = respond(&request, 400, b"t");
    assert!(answer.ends_with(rest), "{answer}");
    assert_eq!(answer.matches("SIP/2.0/UDP").count(), 512);
}

#[test]
fn a_tag_is_added_where_there_is_none() {
    // RFC 3261 8.2.6.2: "If a request contained a To tag in the request, the To header field in the
    // response MUST equal that of the request."
    let tagged = REQUEST.replacen("To: <sip:bob@b>", "To: sip:bob@b;TAG=x", 1);
    assert!(respond(&tagged, 200, b"t").contains("To: sip:bob@b;TAG=x\r\n"));
    // RFC 3261 8.2.6.2: "However, if the To header field in the request did not contain a tag, the URI
    // in the To header field in the response MUST equal the URI in the To header field; additionally,
    // the UAS MUST add a tag to the To header field in the response (with the exception of the 100
    // (Trying) response, in which a tag MAY be present)."
    assert!(respond(REQUEST, 100, b"t").contains("To: <sip:bob@b>\r\n"));
    let folded = REQUEST.replacen("To: <sip:bob@b>", "To: <sip:bob@b>  \t", 1);
    assert!(respond(&folded, 200, b"t").contains("To: <sip:bob@b>;tag=t\r\n"));
}

#[test]
fn a_100_takes_the_timestamp_along() {
    // RFC 3261 8.2.6.1: "When a 100 (Trying) response is generated, any Timestamp header field present in
    // the request MUST be copied into this 100 (Trying) response."
    let stamped = REQUEST.replacen("Call-ID", "Timestamp: 54.21\r\nCall-ID", 1);
    assert!(respond(&stamped, 100, b"").contains("\r\nTimestamp: 54.21\r\n"));
    assert!(!respond(&stamped, 180, b"t").contains("Timestamp"));
    assert!(!respond(REQUEST, 100, b"").contains("Timestamp"));
}

#[test]
fn a_broken_request_is_answered_with_what_was_understood() {
    let broken = REQUEST
        .replacen("Call-ID", "Call\x01ID", 1)
        .replacen("To: ", "To: \"", 1);
    let answer = respond(&broken, 400, b"t");
    assert!(answer.contains("v: SIP/2.0/UDP a;branch=z9hG4bK1\r\nVia: SIP/2.0/UDP c\r\n"));
    assert!(answer.contains("To: \"<sip:bob@b>;tag=t\r\n"));
    assert!(!answer.contains("ID"));
}

#[test]
fn what_is_written_is_read_back() {
    // RFC 3261 7.1: "To be compliant with this specification, applications sending SIP messages MUST
    // include a SIP-Version of "SIP/2.0"."
    let mut out = Vec::new();
    let mut writer = MessageWriter::request(&mut out, "MESSAGE", b"sip:bob@b");
    writer
        .header("Via", b"SIP/2.0/TCP h;branch=z9hG4bKx")
        .header("From", b"<sip:a@b>;tag=1");
    writer
        .header("To", b"<sip:bob@b>")
        .header("Call-ID", b"c")
        .header("CSeq", b"7 MESSAGE");
    writer
        .number("Max-Forwards", 70)
        .header_with("Subject", |out| out.extend_from_slice(b"hi"));
    writer.finish(b"hello");
    let message = Message::parse(&out, &Limits::default()).expect("well formed");
    assert_eq!(message.validate(), Ok(()));
    assert_eq!(
        (message.method(), message.body()),
        (Method::Message, &b"hello"[..])
    );
    assert_eq!(message.max_forwards(), Ok(Some(70)));
    assert_eq!(
        message.first(HeaderName::Subject).map(|f| f.value),
        Some(&b"hi"[..])
    );
}

#[test]
fn a_header_stays_one_header() {
    let mut out = Vec::new();
    let mut writer = MessageWriter::response(&mut out, 200, "OK\r\nX: y");
    writer
        .header("A", b"1\r\nEvil: 2\n\r\0")
        .header("B", b"1,\r\n 2");
    writer.finish(b"");
    let expected =
        "SIP/2.0 200 OK  X: y\r\nA: 1  Evil: 2   \r\nB: 1,   2\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(String::from_utf8_lossy(&out), expected);
}

#[test]
fn a_fold_at_the_end_of_a_value_opens_no_line() {
    let mut out = Vec::new();
    let mut writer = MessageWriter::response(&mut out, 200, "OK");
    writer.header("A", b"1\r\n ");
    writer.finish(b"");
    let fill = Message::parse(&out, &Limits::default());
    assert_eq!(fill.map(|m| m.fields().count()), Ok(2));
}

#[test]
fn numbers() {
    for number in [0, 9, 10, 65_535, u64::MAX] {
        let mut out = Vec::new();
        write_number(&mut out, number);
        assert_eq!(String::from_utf8_lossy(&out), number.to_string());
    }
}
