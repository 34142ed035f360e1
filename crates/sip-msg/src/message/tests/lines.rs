//! Start lines, header lines and their ends.

use super::*;

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
fn line_ends_before_the_start_line_are_skipped() {
    // RFC 3261 7.5: "Implementations processing SIP messages over stream-oriented transports MUST
    // ignore any CRLF appearing before the start-line [H4.1]."
    let message = parse(&format!("\r\n\r\n{INVITE}"));
    assert_eq!(message.bytes(), INVITE.as_bytes());
    assert_eq!(fault("\r\n\r\n"), ParseErrorKind::Empty);
    assert_eq!(fault(""), ParseErrorKind::Empty);
}
