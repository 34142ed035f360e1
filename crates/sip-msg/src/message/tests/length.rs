//! Content-Length, and the limits on a message.

use super::*;

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
