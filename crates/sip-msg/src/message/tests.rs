mod length;
mod lines;
mod mandatory;
mod received;

use super::*;
use crate::Transport;
use std::net::SocketAddr;

const INVITE: &str = "INVITE sip:bob@biloxi.com SIP/2.0\r\n\
Via: SIP/2.0/UDP bigbox3.site3.atlanta.com;branch=z9hG4bK77ef4c2312983.1\r\n\
v: SIP/2.0/TCP pc33.atlanta.com;branch=z9hG4bKnashds8;received=192.0.2.1, SIP/2.0/UDP c;branch=z9hG4bKc\r\n\
Max-Forwards: 69\r\n\
To: Bob <sip:bob@biloxi.com>\r\n\
From: Alice <sip:alice@atlanta.com>;tag=1928301774\r\n\
Call-ID: a84b4c76e66710\r\n\
CSeq: 314159 INVITE\r\n\
X-Own: one,\r\n\ttwo\r\n\
Contact: <sip:alice@pc33.atlanta.com>\r\n\
Content-Length: 4\r\n\
\r\n\
v=0\n";

fn parse(text: &str) -> Message {
    Message::parse(text.as_bytes(), &Limits::default()).expect("well formed")
}

fn fault(text: &str) -> ParseErrorKind {
    fault_of(text.as_bytes())
}

fn fault_of(bytes: &[u8]) -> ParseErrorKind {
    match Message::parse(bytes, &Limits::default()) {
        Err(error) => error.kind,
        Ok(message) => message.validate().expect_err("a fault").kind,
    }
}

#[test]
fn a_request_is_read() {
    let message = parse(INVITE);
    assert!(message.is_request());
    assert_eq!(
        message.start_line(),
        StartLine::Request {
            method: Method::Invite,
            token: b"INVITE",
            uri: b"sip:bob@biloxi.com"
        }
    );
    assert_eq!(message.bytes(), INVITE.as_bytes());
    assert_eq!(message.body(), b"v=0\n");
    assert_eq!(message.call_id(), b"a84b4c76e66710");
    assert_eq!(message.cseq().map(|c| c.number), Ok(314_159));
    assert_eq!(message.max_forwards(), Ok(Some(69)));
    assert_eq!(
        message.from().expect("there").tag(),
        Some(&b"1928301774"[..])
    );
    assert_eq!(message.to().expect("there").display, b"Bob");
    assert_eq!(
        message.top_via().expect("there").branch,
        b"z9hG4bK77ef4c2312983.1"
    );
    assert_eq!(message.validate(), Ok(()));
    assert_eq!(
        message.slice(message.request_uri_span()),
        b"sip:bob@biloxi.com"
    );
}

#[test]
fn spans_are_places_in_the_message() {
    let message = parse(INVITE);
    let mut line_end = message.headers_start();
    for field in message.fields() {
        assert_eq!(message.slice(field.value_span), field.value);
        assert_eq!(field.line_span.start, line_end, "lines follow each other");
        assert!(message.slice(field.line_span).ends_with(b"\r\n"));
        line_end = field.line_span.end;
    }
    assert_eq!(line_end, message.headers_end());
    let vias: Vec<_> = message.values(HeaderName::Via).collect();
    assert_eq!(vias.len(), 3);
    for (element, span) in vias {
        assert_eq!(message.slice(span), element);
    }
    let branches: Vec<_> = message
        .vias()
        .map(|via| via.map(|via| via.branch))
        .collect();
    assert_eq!(
        branches,
        [
            Some(&b"z9hG4bK77ef4c2312983.1"[..]),
            Some(b"z9hG4bKnashds8"),
            Some(b"z9hG4bKc")
        ]
    );
    let via = message.vias().nth(1).flatten().expect("there");
    assert_eq!(
        message.slice(via.received_span.expect("there")),
        b"received=192.0.2.1"
    );
}

#[test]
fn other_headers_are_found_by_name_and_keep_their_commas() {
    let message = parse(INVITE);
    let own = message.first_named("x-own").expect("there");
    assert_eq!(own.name, HeaderName::Other);
    let compact = parse(&INVITE.replacen("X-Own", "X", 1));
    assert_eq!(
        compact.first_named("session-expires").map(|f| f.raw_name),
        Some(&b"X"[..])
    );
    assert_eq!(own.value, b"one,\r\n\ttwo");
    let all = |name: &str| message.fields_named(name).count();
    assert_eq!((all("VIA"), all("X-OWN"), all("X-Other")), (2, 1, 0));
    assert_eq!(message.values(HeaderName::From).count(), 1);
    assert_eq!(message.first(HeaderName::Route).map(|f| f.value_span), None);
}

#[test]
fn a_response_takes_its_method_from_cseq() {
    let message = parse(
        "SIP/2.0 180 \r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom: <sip:a@b>;tag=1\r\n\
         To: <sip:c@d>;tag=2\r\nCall-ID: x\r\nCSeq: 1 PRACK\r\n\r\n",
    );
    assert_eq!(
        message.start_line(),
        StartLine::Response {
            status: 180,
            reason: b""
        }
    );
    assert_eq!(message.method(), Method::Prack);
    assert_eq!(message.method_token(), b"PRACK");
    assert_eq!(message.status(), 180);
    assert!(message.is_response() && !message.is_request());
    assert_eq!(message.request_uri(), b"");
    assert_eq!(message.validate(), Ok(()));
}

#[test]
fn the_memory_is_used_again() {
    let mut message = parse(INVITE);
    let (bytes, heads) = (message.bytes.as_ptr(), message.heads.as_ptr());
    let limits = Limits::default();
    message
        .fill(b"SIP/2.0 200 OK\r\nCSeq: 1 BYE\r\n\r\n", &limits)
        .expect("well formed");
    assert_eq!(message.call_id(), b"", "nothing of the old message is left");
    assert_eq!(message.method(), Method::Bye);
    message
        .fill(INVITE.as_bytes(), &limits)
        .expect("well formed");
    assert_eq!(
        (message.bytes.as_ptr(), message.heads.as_ptr()),
        (bytes, heads)
    );
}

#[test]
fn quoted_commas_are_no_elements() {
    let text = INVITE.replacen(
        "<sip:alice@pc33.atlanta.com>",
        "\"a,b,c,d\" <sip:alice@pc33.atlanta.com>",
        1,
    );
    let limits = Limits {
        header_count: 11,
        ..Limits::default()
    };
    assert!(Message::parse(text.as_bytes(), &limits).is_ok());
}

#[test]
fn every_prefix_and_every_flipped_byte_is_survived() {
    let mut message = Message::default();
    let limits = Limits::default();
    let mut touch = |bytes: &[u8]| {
        let filled = message.fill(bytes, &limits);
        let validated = message.validate();
        let seen = message.fields().count() + message.values(HeaderName::Via).count();
        let _ = (
            message.uri().is_ok(),
            message.is_answerable(),
            message.from().is_ok(),
            message.contacts().count(),
        );
        (filled.is_ok(), validated.is_ok(), seen)
    };
    for end in 0..INVITE.len() {
        let (filled, ..) = touch(&INVITE.as_bytes()[..end]);
        assert!(!filled, "a prefix of {end} bytes is no message");
    }
    for at in 0..INVITE.len() {
        for byte in [0, b'\r', b'\n', b' ', b',', b'"', b'<', b'%', b':', 0xff] {
            let mut bytes = INVITE.as_bytes().to_vec();
            bytes[at] = byte;
            touch(&bytes);
        }
    }
}

#[test]
fn cseq_is_read_once_and_found_where_it_went() {
    let text = "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP a.example;branch=z9hG4bK1\r\n\
                From: <sip:a@a.example>;tag=1\r\nTo: <sip:b@b.example>;tag=2\r\nCall-ID: c\r\n\
                CSeq: 4711 \r\n\tUNUSUAL\r\n\r\n";
    let mut message = Message::parse(text.as_bytes(), &Limits::default()).expect("well formed");
    let read = |message: &Message| {
        let cseq = message.cseq().expect("there");
        (cseq.number, cseq.method.to_vec())
    };
    assert_eq!(read(&message), (4711, b"UNUSUAL".to_vec()));
    message.stamp_received("198.51.100.7:4711".parse().expect("an address"));
    assert!(message.bytes().len() > text.len());
    assert_eq!(read(&message), (4711, b"UNUSUAL".to_vec()));
    assert_eq!(message.method_token(), b"UNUSUAL");
    // Nothing of it is left when the memory is used again.
    for (rest, kind) in [
        ("", ParseErrorKind::Missing(HeaderName::CSeq)),
        ("CSeq: x\r\n", ParseErrorKind::Malformed(HeaderName::CSeq)),
    ] {
        let text = format!("SIP/2.0 200 OK\r\nCall-ID: c\r\n{rest}\r\n");
        assert_eq!(message.fill(text.as_bytes(), &Limits::default()), Ok(()));
        assert_eq!(message.cseq().map_err(|error| error.kind), Err(kind));
    }
}

#[test]
fn several_values_are_told_from_one() {
    // RFC 3261 7.3.1: "It MUST be possible to combine the multiple header field rows into one
    // "field-name: field-value" pair, without changing the semantics of the message, by appending each
    // subsequent field-value to the first, each separated by a comma." and "Implementations MUST be
    // able to process multiple header field rows with the same name in any combination of the
    // single-value-per-line or comma-separated value forms."
    for (vias, several) in [
        ("", false),
        ("Via: SIP/2.0/UDP a\r\n", false),
        ("Via: SIP/2.0/UDP a\r\nVia:\r\n", false),
        ("Via: SIP/2.0/UDP a;x=\"b,c\"\r\n", false),
        ("Via: SIP/2.0/UDP a, SIP/2.0/UDP b\r\n", true),
        ("Via:\r\nv: SIP/2.0/UDP a,SIP/2.0/UDP b\r\n", true),
        (
            "Via: SIP/2.0/UDP a\r\nTo: <sip:x>\r\nv: SIP/2.0/UDP b\r\n",
            true,
        ),
    ] {
        let text = format!("SIP/2.0 200 OK\r\n{vias}\r\n");
        let message = Message::parse(text.as_bytes(), &Limits::default()).expect("well formed");
        assert_eq!(message.has_several(HeaderName::Via), several, "{vias}");
        let counted = message.values(HeaderName::Via).count() > 1;
        assert_eq!(counted, several, "{vias}");
    }
}
