use super::*;
use crate::ws::{HEAD_BYTES_MAX, Upgraded, WebSocketRules, upgrade};

/// The key of RFC 6455 1.3: `dGhlIHNhbXBsZSBub25jZQ==`.
const SAMPLE: [u8; 16] = *b"the sample nonce";

const ANSWER: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
    Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\
    Sec-WebSocket-Protocol: sip\r\n\r\n";

fn read(answer: &str) -> Answered {
    OpeningKey::new(SAMPLE).read_answer(answer.as_bytes(), &mut 0)
}

#[test]
fn the_example_of_the_rfc_is_taken() {
    assert_eq!(read(ANSWER), Answered::Done { len: ANSWER.len() });
    // What comes behind it is frames.
    let more = format!("{ANSWER}\u{1}");
    assert_eq!(read(&more), Answered::Done { len: ANSWER.len() });
    // Spellings that mean the same.
    for (from, to) in [
        ("Upgrade: websocket", "uPGRADE: WebSocket"),
        ("Connection: Upgrade", "Connection: keep-alive, upgrade"),
        ("Protocol: sip", "Protocol: SIP"),
        ("101 Switching Protocols", "101 "),
        ("\r\nUpgrade:", "\r\nSec-WebSocket-Extensions: \r\nUpgrade:"),
    ] {
        assert!(ANSWER.contains(from), "{from}");
        let answer = ANSWER.replacen(from, to, 1);
        assert!(matches!(read(&answer), Answered::Done { .. }), "{answer}");
    }
}

#[test]
fn an_answer_is_read_however_it_is_cut() {
    let key = OpeningKey::new(SAMPLE);
    let mut scanned = 0;
    for len in 0..ANSWER.len() {
        let part = ANSWER.as_bytes().get(..len).unwrap();
        assert_eq!(key.read_answer(part, &mut scanned), Answered::More, "{len}");
    }
    let whole = key.read_answer(ANSWER.as_bytes(), &mut scanned);
    assert_eq!(whole, Answered::Done { len: ANSWER.len() });
}

#[test]
fn each_fault_of_an_answer_has_its_name() {
    use UpgradeFault::*;
    let long = format!("X: {}\r\nUpgrade:", "x".repeat(HEAD_BYTES_MAX));
    let many = "X: 1\r\n".repeat(HEADERS_MAX) + "Upgrade:";
    for (from, to, fault) in [
        (
            "HTTP/1.1 101 Switching Protocols",
            "SIP/2.0 200 OK",
            Malformed,
        ),
        ("HTTP/1.1", "HTTP/1.0", Malformed),
        ("HTTP/1.1 101", "\u{16}\u{3}\u{1}", Malformed),
        ("101 Switching Protocols", "abc", Malformed),
        ("101 Switching Protocols", "200 OK", Refused(200)),
        ("101 Switching Protocols", "302 Found", Refused(302)),
        ("101 Switching Protocols", "403 Forbidden", Refused(403)),
        ("Upgrade: websocket", "Upgrade: h2c", NoUpgrade),
        ("Upgrade: websocket\r\n", "", NoUpgrade),
        ("Connection: Upgrade", "Connection: close", NoUpgrade),
        (
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOp=",
            Accept,
        ),
        (
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
            "S3PPLMBITXAQ9KYGZZHZRBK+XOO=",
            Accept,
        ),
        (
            "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n",
            "",
            Accept,
        ),
        (
            "Sec-WebSocket-Accept:",
            "Sec-WebSocket-Accept: x\r\nSec-WebSocket-Accept:",
            Malformed,
        ),
        ("Protocol: sip", "Protocol: msrp", Protocol),
        ("Sec-WebSocket-Protocol: sip\r\n", "", Protocol),
        (
            "Upgrade:",
            "Sec-WebSocket-Extensions: permessage-deflate\r\nUpgrade:",
            Extension,
        ),
        ("Upgrade:", &long, TooLarge),
        ("Upgrade:", &many, TooLarge),
    ] {
        assert!(ANSWER.contains(from), "{from}");
        let answer = ANSWER.replacen(from, to, 1);
        assert_eq!(read(&answer), Answered::Failed(fault), "{to}");
    }
    // One that never ends is not read for ever.
    let endless = format!("HTTP/1.1 101 {}", "x".repeat(HEAD_BYTES_MAX));
    assert_eq!(read(&endless), Answered::Failed(TooLarge));
}

#[test]
fn our_own_server_grants_our_own_request() {
    let key = OpeningKey::new([7; 16]);
    for origin in [None, Some("https://192.0.2.7")] {
        let request = WebSocketRequest::new("sip.example.com:8443", "/sip?a=1", origin).unwrap();
        let (mut asked, mut answer) = (Vec::new(), Vec::new());
        request.write(&key, &mut asked);
        let rules = WebSocketRules {
            path: "/sip".to_owned(),
            ..WebSocketRules::default()
        };
        let local = "192.0.2.7".parse().unwrap();
        let upgraded = upgrade(&asked, &mut 0, &rules, true, local, &mut answer);
        assert_eq!(upgraded, Upgraded::Done { len: asked.len() });
        let len = answer.len();
        assert_eq!(key.read_answer(&answer, &mut 0), Answered::Done { len });
        // Another connection's answer is none of this one's.
        let other = OpeningKey::new([8; 16]).read_answer(&answer, &mut 0);
        assert_eq!(other, Answered::Failed(UpgradeFault::Accept));
    }
}

#[test]
fn what_cannot_stand_in_a_request_is_refused() {
    for (host, path, origin, why) in [
        ("", "/", None, "no host"),
        ("a\r\nX: 1", "/", None, "no host"),
        ("a", "sip", None, "begins with a slash"),
        ("a", "/a b", None, "begins with a slash"),
        ("a", "/\r\n", None, "begins with a slash"),
        ("a", "/", Some("https://a\r\nX: 1"), "no origin"),
    ] {
        let error = WebSocketRequest::new(host, path, origin).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_key_is_not_shown() {
    assert!(!format!("{:?}", OpeningKey::new(SAMPLE)).contains("dGhl"));
}
