//! The headers that every message must have.

use super::*;

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
