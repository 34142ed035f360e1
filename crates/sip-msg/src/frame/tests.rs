use super::*;
use crate::Message;

const MESSAGE: &[u8] = b"OPTIONS sip:a@b SIP/2.0\r\nl: 3\r\nX: y\r\n\r\nabc";

/// Feeds a stream in the given pieces; what was found, in order.
fn run(stream: &[u8], cuts: &[usize], limits: &Limits) -> Vec<Result<Framed, ParseErrorKind>> {
    let mut framer = Framer::default();
    let mut found = Vec::new();
    let mut read = 0;
    for &end in cuts.iter().chain([&stream.len()]) {
        loop {
            match framer.next(&stream[read..end], limits) {
                Ok(Framed::More) => break,
                Ok(framed) => {
                    found.push(Ok(framed));
                    read += match framed {
                        Framed::Message { len } | Framed::Ping { len } | Framed::Skip { len } => {
                            len
                        }
                        Framed::More => 0,
                    };
                }
                Err(error) => {
                    assert!(error.head_len <= end - read);
                    found.push(Err(error.error.kind));
                    return found;
                }
            }
        }
    }
    found
}

fn only(stream: &[u8]) -> Result<Framed, ParseErrorKind> {
    run(stream, &[], &Limits::default())
        .into_iter()
        .next()
        .unwrap_or(Ok(Framed::More))
}

#[test]
fn a_message_at_every_split() {
    let stream = [MESSAGE, b"\r\n", MESSAGE].concat();
    let len = MESSAGE.len();
    for cut in 0..=stream.len() {
        assert_eq!(
            run(&stream, &[cut], &Limits::default()),
            [
                Ok(Framed::Message { len }),
                Ok(Framed::Skip { len: 2 }),
                Ok(Framed::Message { len })
            ],
            "cut at {cut}"
        );
    }
    let every: Vec<usize> = (0..stream.len()).collect();
    assert_eq!(run(&stream, &every, &Limits::default()).len(), 3);
}

#[test]
fn pings_are_counted_alike_at_every_split() {
    let stream = b"\r\n\r\n\r\n\r\n\r\n";
    let pings = |cuts: &[usize]| {
        let found = run(stream, cuts, &Limits::default());
        found
            .iter()
            .filter(|f| matches!(f, Ok(Framed::Ping { .. })))
            .count()
    };
    assert_eq!(only(b"\r\n\r\n"), Ok(Framed::Ping { len: 4 }));
    assert_eq!(only(b"\r\n"), Ok(Framed::Skip { len: 2 }));
    assert_eq!(only(b"\r"), Ok(Framed::More));
    for cut in 0..=stream.len() {
        assert_eq!(pings(&[cut]), 2, "cut at {cut}");
    }
    assert_eq!(pings(&(0..stream.len()).collect::<Vec<_>>()), 2);
}

#[test]
fn a_line_end_before_a_message_is_no_half_ping_behind_it() {
    let stream = [b"\r\n", MESSAGE, b"\r\n"].concat();
    let found = run(&stream, &[], &Limits::default());
    assert!(
        found.iter().all(|f| !matches!(f, Ok(Framed::Ping { .. }))),
        "{found:?}"
    );
}

#[test]
fn what_cannot_be_framed() {
    use ParseErrorKind as K;
    for (head, kind) in [
        (
            &b"OPTIONS sip:a@b SIP/2.0\r\nX: y\r\n\r\n"[..],
            // RFC 3261 20.14: "If a stream-based protocol (such as TCP) is used as transport, the
            // header field MUST be used."
            K::ContentLengthMissing,
        ),
        (
            b"OPTIONS sip:a@b SIP/2.0\r\nl: 3\r\nContent-Length: 3\r\n\r\nabc",
            K::ContentLengthRepeated,
        ),
        (
            b"OPTIONS sip:a@b SIP/2.0\r\nl: -3\r\n\r\nabc",
            K::ContentLengthSyntax,
        ),
        (
            b"OPTIONS sip:a@b SIP/2.0\r\nl: 4294967299\r\n\r\nabc",
            K::ContentLengthOverflow,
        ),
        (
            b"OPTIONS sip:a@b SIP/2.0\r\nl: 70000\r\n\r\nabc",
            K::BodyTooLarge,
        ),
        (
            b"OPTIONS sip:a@b SIP/2.0\r\nl\x01: 3\r\nl: 0\r\n\r\nabc",
            K::HeaderName,
        ),
        (
            b"OPTIONS sip:a@b SIP/2.0\r\nX: a\rl: 3\r\nl: 0\r\n\r\nabc",
            K::BareLineEnd,
        ),
        (
            b"OPTIONS sip:a@b SIP/2.0\r\nX: a\r\n \r\nl: 0\r\n\r\nabc",
            K::Fold,
        ),
        (b"OPTIONS sip:a@b SIP/2.0\nl: 3\n\nabc", K::BareLineEnd),
        (b"\nOPTIONS sip:a@b SIP/2.0\r\n", K::BareLineEnd),
        (b"\rOPTIONS sip:a@b SIP/2.0\r\n\r\n", K::BareLineEnd),
        (b"GET / HTTP/1.1\r\n", K::StartLine),
    ] {
        assert_eq!(only(head), Err(kind), "{}", head.escape_ascii());
    }
}

#[test]
fn what_cannot_be_framed_cannot_be_parsed_and_can_be_answered() {
    let stream =
        b"OPTIONS sip:a@b SIP/2.0\r\nVia: SIP/2.0/TCP h;branch=z9hG4bK1\r\nl: 70000\r\n\r\nabc";
    let error = Framer::default()
        .next(stream, &Limits::default())
        .expect_err("too long");
    assert_eq!(error.error.status(), 413);
    let mut message = Message::default();
    assert!(
        message
            .fill(&stream[..error.head_len], &Limits::default())
            .is_err()
    );
    assert!(message.is_answerable());
}

#[test]
fn who_asks_for_it_gets_messages_without_a_length_and_nothing_else_that_is_wrong() {
    let lengthless = b"OPTIONS sip:a@b SIP/2.0\r\nX: y\r\n\r\n";
    let stream = [lengthless.as_slice(), MESSAGE, lengthless].concat();
    let mut framer = Framer::lenient();
    let mut rest = stream.as_slice();
    for expected in [lengthless.len(), MESSAGE.len(), lengthless.len()] {
        let framed = framer.next(rest, &Limits::default());
        assert_eq!(framed, Ok(Framed::Message { len: expected }));
        rest = &rest[expected..];
    }
    for (head, kind) in [
        (
            &b"OPTIONS sip:a@b SIP/2.0\r\nl: -3\r\n\r\n"[..],
            ParseErrorKind::ContentLengthSyntax,
        ),
        (
            b"OPTIONS sip:a@b SIP/2.0\r\nl: 0\r\nl: 0\r\n\r\n",
            ParseErrorKind::ContentLengthRepeated,
        ),
        (b"GET / HTTP/1.1\r\n", ParseErrorKind::StartLine),
    ] {
        let error = Framer::lenient().next(head, &Limits::default());
        assert_eq!(error.map_err(|e| e.error.kind), Err(kind));
    }
}

#[test]
fn a_stream_holds_no_more_than_the_limit() {
    let limits = Limits {
        message_bytes: 64,
        ..Limits::default()
    };
    let endless = [b"OPTIONS sip:a@b SIP/2.0\r\nX: ", [b'y'; 64].as_slice()].concat();
    assert_eq!(
        run(&endless, &[30], &limits),
        [Err(ParseErrorKind::MessageTooLarge)]
    );
    let body = b"OPTIONS sip:a@b SIP/2.0\r\nl: 60\r\n\r\n";
    assert_eq!(
        run(body, &[], &limits),
        [Err(ParseErrorKind::MessageTooLarge)]
    );
    assert_eq!(
        run(MESSAGE, &[], &limits),
        [Ok(Framed::Message { len: MESSAGE.len() })]
    );
}

#[test]
fn no_byte_is_scanned_twice() {
    let mut framer = Framer::default();
    let line = [b"OPTIONS sip:".as_slice(), &[b'a'; 1000]].concat();
    for end in 1..line.len() {
        assert_eq!(
            framer.next(&line[..end], &Limits::default()),
            Ok(Framed::More)
        );
        assert_eq!(framer.scanned, end);
        assert!(!framer.is_idle());
    }
}

#[test]
fn idle_is_between_messages() {
    let mut framer = Framer::default();
    let limits = Limits::default();
    assert!(framer.is_idle());
    assert_eq!(framer.next(&MESSAGE[..30], &limits), Ok(Framed::More));
    assert!(!framer.is_idle());
    assert_eq!(
        framer.next(&MESSAGE[..MESSAGE.len() - 1], &limits),
        Ok(Framed::More)
    );
    assert!(!framer.is_idle());
    assert_eq!(
        framer.next(MESSAGE, &limits),
        Ok(Framed::Message { len: MESSAGE.len() })
    );
    assert!(framer.is_idle());
}
