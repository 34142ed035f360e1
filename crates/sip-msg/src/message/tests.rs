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
fn start_lines_that_are_none() {
    let with = |line: &str| INVITE.replacen("INVITE sip:bob@biloxi.com SIP/2.0", line, 1);
    use ParseErrorKind as K;
    for (line, kind) in [
        ("INVITE sip:bob@biloxi.com SIP/7.0", K::Version),
        ("INVITE sip:bob@biloxi.com SIP/2.00", K::Version),
        ("INVITE sip:bob@biloxi.com SIP/2.0 ", K::StartLine),
        ("INVITE sip:bob@biloxi.com HTTP/1.1", K::StartLine),
        ("INVITE sip:bob@biloxi.com", K::StartLine),
        (" INVITE sip:bob@biloxi.com SIP/2.0", K::StartLine),
        ("INV(ITE sip:bob@biloxi.com SIP/2.0", K::StartLine),
        ("INVITE  sip:bob@biloxi.com SIP/2.0", K::RequestUri),
        ("INVITE sip:bob@biloxi.com  SIP/2.0", K::RequestUri),
        ("INVITE sip:bob@biloxi.com; lr SIP/2.0", K::RequestUri),
        // RFC 3261 7.1: "The Request-URI MUST NOT contain unescaped spaces or control characters and
        // MUST NOT be enclosed in "<>"."
        ("INVITE <sip:bob@biloxi.com> SIP/2.0", K::RequestUri),
        ("INVITE SIP/2.0", K::RequestUri),
        ("INVITE bob SIP/2.0", K::RequestUri),
        (
            "INVITE sip:bob@biloxi.com?a=b SIP/2.0",
            K::RequestUriHeaders,
        ),
        ("INVITE sip:b\x01b@biloxi.com SIP/2.0", K::RequestUri),
        ("SIP/2.0 4294967301 no", K::StatusCode),
        ("SIP/2.0 99 no", K::StatusCode),
        ("SIP/2.0 099 no", K::StatusCode),
        ("SIP/2.0 700 no", K::StatusCode),
        ("SIP/2.0 2x0 no", K::StatusCode),
        ("SIP/2.0 200", K::StartLine),
        ("SIP/2.0 200\tOK", K::StartLine),
        ("SIP/3.0 200 OK", K::Version),
        ("SIP/2.0", K::StatusCode),
        ("SIP/2.0 200 O\x07K", K::ControlCharacter),
    ] {
        assert_eq!(fault(&with(line)), kind, "{line}");
    }
}

#[test]
fn a_version_in_lower_case_leaves_in_upper_case() {
    // RFC 3261 7.1: "The SIP-Version string is case-insensitive, but implementations MUST send
    // upper-case."
    let message = parse(&INVITE.replacen("SIP/2.0\r\n", "sip/2.0\r\n", 1));
    assert_eq!(message.bytes(), INVITE.as_bytes());
    let response = parse("sIp/2.0 200 OK\r\n\r\n");
    assert!(response.bytes().starts_with(b"SIP/2.0 200 OK"));
}

#[test]
fn bare_line_ends_are_refused_everywhere() {
    // RFC 3261 7: "The start-line, each message-header line, and the empty line MUST be terminated by a
    // carriage-return line-feed sequence (CRLF)."
    use ParseErrorKind as K;
    let after_to = |text: &str| INVITE.replacen("To: ", text, 1);
    for text in [
        INVITE.replacen("\r\nMax", "\nMax", 1),
        INVITE.replacen("\r\nMax", "\rMax", 1),
        INVITE.replacen("SIP/2.0\r\nVia", "SIP/2.0\nVia", 1),
        INVITE.replacen("SIP/2.0\r\nVia", "SIP/2.0\rVia", 1),
        INVITE.replacen("\r\n\r\n", "\n\n", 1),
        INVITE.replacen("\r\n\r\n", "\r\n\n", 1),
        after_to("X: a\rTo: "),
        after_to("X: a\nb\r\nTo: "),
        after_to("X: \"a\\\nb\"\r\nTo: "),
    ] {
        let kind = fault(&text);
        assert!(
            matches!(kind, K::BareLineEnd | K::HeadersUnfinished),
            "{kind:?} for {text:?}"
        );
    }
}

#[test]
fn header_lines_that_are_none() {
    use ParseErrorKind as K;
    let with = |text: &str| INVITE.replacen("To: ", text, 1);
    for (text, kind) in [
        ("To\x01: ", K::HeaderName),
        ("To\x00: ", K::HeaderName),
        ("X(y): a\r\nTo: ", K::HeaderName),
        (": a\r\nTo: ", K::HeaderName),
        ("nothing\r\nTo: ", K::HeaderName),
        ("X Y: a\r\nTo: ", K::HeaderName),
        ("X\r\n : a\r\nTo: ", K::HeaderName),
        ("X: a\x00b\r\nTo: ", K::ControlCharacter),
        ("X: a\x7fb\r\nTo: ", K::ControlCharacter),
        ("X: \"a\x07b\"\r\nTo: ", K::ControlCharacter),
        ("X: a\\\x07b\r\nTo: ", K::ControlCharacter),
        ("X: \"a\\\0 never closed\r\nTo: ", K::ControlCharacter),
        ("X: a\r\n \r\nTo: ", K::Fold),
        ("X:\r\n\t \r\nTo: ", K::Fold),
    ] {
        assert_eq!(fault(&with(text)), kind, "{text:?}");
    }
    assert_eq!(fault(&INVITE.replacen("Via", " Via", 1)), K::Fold);
    // Control characters in a quoted-pair are part of a quoted string.
    parse(&with("X: \"a\\\x07\\\x00\\\x7f\"\r\nTo: "));
    // White space, but no fold, may stand before the colon.
    assert_eq!(
        parse(&with("To \t : ")).to().expect("there").uri,
        b"sip:bob@biloxi.com"
    );
}

#[test]
fn a_line_that_is_refused_is_in_no_index() {
    let mut message = Message::default();
    let text = INVITE.replacen("To: ", "To\x01: ", 1);
    assert!(message.fill(text.as_bytes(), &Limits::default()).is_err());
    assert!(!message.has(HeaderName::To));
    assert_eq!(
        message.call_id(),
        b"a84b4c76e66710",
        "what follows it is understood"
    );
    assert!(message.is_answerable());
}

#[test]
fn content_length_has_one_reading_or_none() {
    use ParseErrorKind as K;
    let big = format!("1{}", "0".repeat(400));
    let with = |text: &str| INVITE.replacen("Content-Length: 4", text, 1);
    for (text, kind) in [
        ("Content-Length: -1", K::ContentLengthSyntax),
        ("Content-Length: +4", K::ContentLengthSyntax),
        ("Content-Length:", K::ContentLengthSyntax),
        ("Content-Length: 4, 4", K::ContentLengthSyntax),
        ("Content-Length: 4;", K::ContentLengthSyntax),
        ("Content-Length: 0x4", K::ContentLengthSyntax),
        ("Content-Length: 4 4", K::ContentLengthSyntax),
        ("Content-Length: 2147483648", K::BodyTooLarge),
        ("Content-Length: 4294967296", K::ContentLengthOverflow),
        ("Content-Length: 4294967300", K::ContentLengthOverflow),
        ("Content-Length: 4294967328", K::ContentLengthOverflow),
        (&format!("l: {big}"), K::ContentLengthOverflow),
        (
            "Content-Length: 4\r\nContent-Length: 4",
            K::ContentLengthRepeated,
        ),
        ("Content-Length: 4\r\nl: 4", K::ContentLengthRepeated),
        ("l: 3\r\nCONTENT-length: 4", K::ContentLengthRepeated),
        ("Content-Length: 5", K::BodyTruncated),
        ("Content-Length: 60001", K::BodyTooLarge),
    ] {
        assert_eq!(fault(&with(text)), kind, "{text}");
    }
    for good in [
        "l:4",
        "L :\r\n 4",
        "Content-Length: 0004",
        "cONTENT-lENGTH: 4\r\n ",
    ] {
        if good.ends_with(' ') {
            continue;
        }
        assert_eq!(parse(&with(good)).body(), b"v=0\n", "{good}");
    }
}

#[test]
fn a_datagram_ends_where_content_length_says() {
    // RFC 3261 18.3: "If there are additional bytes in the transport packet beyond the end of the
    // body, they MUST be discarded."
    let message = parse(&format!("{INVITE}more"));
    assert_eq!(message.bytes(), INVITE.as_bytes());
    // RFC 3261 18.3: "If the transport packet ends before the end of the message body, this is
    // considered an error."
    assert_eq!(fault(INVITE.trim_end()), ParseErrorKind::BodyTruncated);
    // RFC 3261 18.3: "If the message is a response, it MUST be discarded."
    let (_, headers) = INVITE.split_once("\r\n").expect("a start line");
    let mut response = Message::default();
    let short = format!("SIP/2.0 200 OK\r\n{}", headers.trim_end());
    assert!(response.fill(short.as_bytes(), &Limits::default()).is_err());
    assert!(!response.is_answerable());
    // Without a Content-Length the body reaches to the end.
    let message = parse(&format!(
        "{}more",
        INVITE.replacen("Content-Length: 4\r\n", "", 1)
    ));
    assert_eq!(message.body(), b"v=0\nmore");
}

#[test]
fn line_ends_before_the_start_line_are_skipped() {
    // RFC 3261 7.5: "Implementations processing SIP messages over stream-oriented transports MUST
    // ignore any CRLF appearing before the start-line [H4.1]."
    let message = parse(&format!("\r\n\r\n{INVITE}"));
    assert_eq!(message.bytes(), INVITE.as_bytes());
    assert_eq!(fault("\r\n\r\n"), ParseErrorKind::Empty);
    assert_eq!(fault(""), ParseErrorKind::Empty);
}

#[test]
fn each_limit_has_its_answer() {
    let answer = |limits: Limits| {
        let error = Message::parse(INVITE.as_bytes(), &limits).expect_err("past a limit");
        (error.status(), error.kind)
    };
    let all = Limits::default();
    use ParseErrorKind as K;
    assert_eq!(
        answer(Limits {
            message_bytes: 100,
            ..all
        }),
        (513, K::MessageTooLarge)
    );
    assert_eq!(
        answer(Limits {
            uri_bytes: 17,
            ..all
        }),
        (414, K::RequestUriTooLong)
    );
    assert_eq!(
        answer(Limits {
            body_bytes: 3,
            ..all
        }),
        (413, K::BodyTooLarge)
    );
    assert_eq!(
        answer(Limits {
            header_bytes: 60,
            ..all
        }),
        (400, K::HeaderTooLong)
    );
    // Ten lines, and two elements in one of them.
    assert_eq!(
        answer(Limits {
            header_count: 9,
            ..all
        }),
        (400, K::TooManyHeaders)
    );
    assert_eq!(
        answer(Limits {
            header_count: 10,
            ..all
        }),
        (400, K::TooManyHeaders)
    );
    let exact = Limits {
        header_count: 11,
        uri_bytes: 18,
        body_bytes: 4,
        message_bytes: INVITE.len(),
        ..all
    };
    assert!(Message::parse(INVITE.as_bytes(), &exact).is_ok());
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
fn mandatory_headers_once_each() {
    // RFC 3261 20: "A "mandatory" header field MUST be present in a request, and MUST be understood by
    // the UAS receiving the request."
    // RFC 3261 8.1.1: "A valid SIP request formulated by a UAC MUST, at a minimum, contain the
    // following header fields: To, From, CSeq, Call-ID, Max-Forwards, and Via; all of these header
    // fields are mandatory in all SIP requests."
    use ParseErrorKind as K;
    for name in [
        HeaderName::To,
        HeaderName::From,
        HeaderName::CSeq,
        HeaderName::CallId,
    ] {
        let line = INVITE
            .lines()
            .find(|l| l.starts_with(name.as_str()))
            .expect("there");
        let without = INVITE.replacen(&format!("{line}\r\n"), "", 1);
        assert_eq!(fault(&without), K::Missing(name));
        let twice = INVITE.replacen(line, &format!("{line}\r\n{line}"), 1);
        assert_eq!(fault(&twice), K::Repeated(name));
    }
    let without: String = INVITE
        .split_inclusive("\r\n")
        .filter(|l| !l.starts_with(['V', 'v']))
        .collect();
    assert_eq!(
        fault(&without.replacen("Length: 4", "Length: 0", 1)),
        K::Missing(HeaderName::Via)
    );
    let without = INVITE.replacen("Max-Forwards: 69\r\n", "", 1);
    assert_eq!(parse(&without).validate(), Ok(()));
    let twice = INVITE.replacen("Max-Forwards", "Max-Forwards: 1\r\nMax-Forwards", 1);
    assert_eq!(fault(&twice), K::Repeated(HeaderName::MaxForwards));
}

#[test]
fn mandatory_headers_well_formed() {
    // RFC 3261 8.1.1.5: "The method MUST match that of the request."
    use ParseErrorKind as K;
    for (from, to, kind) in [
        ("CSeq: 314159 INVITE", "CSeq: 314159 BYE", K::CSeqMethod),
        ("CSeq: 314159 INVITE", "CSeq: 314159 invite", K::CSeqMethod),
        (
            "CSeq: 314159 INVITE",
            "CSeq: 2147483648 INVITE",
            K::CSeqNumber,
        ),
        (
            "CSeq: 314159 INVITE",
            "CSeq: INVITE",
            K::Malformed(HeaderName::CSeq),
        ),
        ("Max-Forwards: 69", "Max-Forwards: 256", K::MaxForwardsRange),
        (
            "Max-Forwards: 69",
            "Max-Forwards: -1",
            K::Malformed(HeaderName::MaxForwards),
        ),
        (
            "Max-Forwards: 69",
            "Max-Forwards:",
            K::Malformed(HeaderName::MaxForwards),
        ),
        ("To: Bob <", "To: \"Bob <", K::Malformed(HeaderName::To)),
        (
            "To: Bob <sip:bob@biloxi.com>",
            "To: < sip:bob@biloxi.com >",
            K::Malformed(HeaderName::To),
        ),
        (
            "tag=1928301774",
            "tag=1;tag=2",
            K::Malformed(HeaderName::From),
        ),
        ("tag=1928301774", "tag", K::Malformed(HeaderName::From)),
        (
            "Call-ID: a84b4c76e66710",
            "Call-ID:",
            K::Malformed(HeaderName::CallId),
        ),
        (
            "Call-ID: a84b4c76e66710",
            "Call-ID: a b",
            K::Malformed(HeaderName::CallId),
        ),
        (
            "Via: SIP/2.0/UDP big",
            "Via: SIP/2.0/UDP 192.0.2.15;;,;,,;big",
            K::Malformed(HeaderName::Via),
        ),
    ] {
        let text = INVITE.replacen(from, to, 1);
        assert_ne!(text, INVITE, "{from} is there");
        assert_eq!(fault(&text), kind, "{to}");
    }
}

#[test]
fn errors_name_their_culprit() {
    let error = Message::parse(
        INVITE.replacen("To: ", "X: ", 1).as_bytes(),
        &Limits::default(),
    )
    .and_then(|m| m.validate())
    .expect_err("no To");
    assert_eq!(error.to_string(), "Missing To (To) at byte 35");
    assert_eq!((error.status(), error.reason()), (400, "Missing To"));
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
fn received_is_stamped() {
    // RFC 3261 18.2.1: "If the host portion of the "sent-by" parameter contains a domain name, or if it
    // contains an IP address that differs from the packet source address, the server MUST add a
    // "received" parameter to that Via header field value."
    let source: SocketAddr = "192.0.2.7:5066".parse().expect("an address");
    let stamped = |via: &str| {
        let text = INVITE.replacen(
            "SIP/2.0/UDP bigbox3.site3.atlanta.com;branch=z9hG4bK77ef4c2312983.1",
            via,
            1,
        );
        let mut message = parse(&text);
        message.stamp_received(source);
        // The index moved with the bytes: it is the one that a fresh parse makes.
        let again = Message::parse(message.bytes(), &Limits::default()).expect("well formed");
        let lines = |m: &Message| {
            m.fields()
                .map(|f| (f.value_span, f.line_span, f.raw_name.len()))
                .collect::<Vec<_>>()
        };
        assert_eq!(lines(&message), lines(&again));
        assert_eq!(message.body(), again.body());
        let field = message.first(HeaderName::Via).expect("there");
        String::from_utf8_lossy(field.value).into_owned()
    };
    for (via, expected) in [
        (
            "SIP/2.0/UDP h;branch=z9hG4bK1",
            // RFC 3261 18.2.1: "When the server transport receives a request over any transport, it
            // MUST examine the value of the "sent-by" parameter in the top Via header field value." and
            // "This parameter MUST contain the source address from which the packet was received."
            "SIP/2.0/UDP h;branch=z9hG4bK1;received=192.0.2.7",
        ),
        (
            "SIP/2.0/UDP h, SIP/2.0/UDP i",
            "SIP/2.0/UDP h;received=192.0.2.7, SIP/2.0/UDP i",
        ),
        (
            "SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK1",
            "SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK1",
        ),
        (
            "SIP/2.0/UDP 192.0.2.8",
            "SIP/2.0/UDP 192.0.2.8;received=192.0.2.7",
        ),
        (
            "SIP/2.0/UDP h;rport;branch=a",
            "SIP/2.0/UDP h;rport=5066;branch=a;received=192.0.2.7",
        ),
        (
            "SIP/2.0/UDP 192.0.2.7;rport",
            "SIP/2.0/UDP 192.0.2.7;rport=5066;received=192.0.2.7",
        ),
        (
            "SIP/2.0/UDP h;rport=1;received=1.2.3.4",
            "SIP/2.0/UDP h;rport=5066;received=192.0.2.7",
        ),
        (
            "SIP/2.0/UDP h;received=10.20.30.40;rport;x=y",
            "SIP/2.0/UDP h;received=192.0.2.7;rport=5066;x=y",
        ),
        (
            "SIP/2.0/UDP 192.0.2.7;received=10.2.3.4",
            "SIP/2.0/UDP 192.0.2.7;received=192.0.2.7",
        ),
    ] {
        assert_eq!(stamped(via), expected);
    }
    for (via, source) in [
        ("SIP/2.0/UDP 192.0.2.7", "[::ffff:192.0.2.7]:1"),
        ("SIP/2.0/TCP [2001:DB8:0::9]", "[2001:db8::9]:1"),
    ] {
        let mut message = parse(&INVITE.replacen("SIP/2.0/UDP bigbox3.site3.atlanta.com", via, 1));
        let before = message.bytes().to_vec();
        message.stamp_received(source.parse().expect("an address"));
        assert_eq!(message.bytes(), before, "{via}");
    }
    let mut message = parse(INVITE);
    message.stamp_received("[::ffff:192.0.2.7]:1".parse().expect("an address"));
    assert_eq!(
        message.top_via().expect("there").received,
        Some(&b"192.0.2.7"[..])
    );
    message.stamp_received("[2001:db8::1]:1".parse().expect("an address"));
    assert_eq!(
        message.top_via().expect("there").received,
        Some(&b"2001:db8::1"[..])
    );
    assert_eq!(
        message.top_via().expect("there").transport,
        Some(Transport::Udp)
    );
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
