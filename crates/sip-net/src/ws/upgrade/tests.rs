use super::*;

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: sip.example.com:8443\r\nUpgrade: websocket\r\n\
    Connection: keep-alive, Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Origin: https://example.com\r\nSec-WebSocket-Protocol: sip\r\nSec-WebSocket-Version: 13\r\n\r\n";

fn rules() -> WebSocketRules {
    WebSocketRules {
        own_hosts: vec!["example.com".into()],
        ..WebSocketRules::default()
    }
}

fn ask(request: &str) -> (Upgraded, String) {
    let mut answer = Vec::new();
    let local = "192.0.2.7".parse().unwrap();
    let upgraded = upgrade(
        request.as_bytes(),
        &mut 0,
        &rules(),
        true,
        local,
        &mut answer,
    );
    (upgraded, String::from_utf8(answer).unwrap())
}

#[test]
fn the_example_of_the_rfc_is_granted() {
    let (upgraded, answer) = ask(REQUEST);
    assert_eq!(upgraded, Upgraded::Done { len: REQUEST.len() });
    assert_eq!(
        answer,
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: sip\r\n\r\n"
    );
    // What comes behind it is not the request's.
    let (upgraded, _) = ask(&format!("{REQUEST}more"));
    assert_eq!(upgraded, Upgraded::Done { len: REQUEST.len() });
}

#[test]
fn spellings_that_mean_the_same_are_granted() {
    for (from, to) in [
        ("Upgrade: websocket", "uPGRADE: h2c, WebSocket"),
        ("Upgrade\r\n", "UPGRADE\r\nConnection: x\r\n"),
        ("Protocol: sip", "Protocol: chat,\tsip , msrp"),
        (
            "Protocol: sip",
            "Protocol: chat\r\nSec-WebSocket-Protocol: sip",
        ),
        ("Origin: https://example.com\r\n", ""),
        (
            "Origin: https://example.com",
            "Origin: https://192.0.2.7:9000",
        ),
        ("GET / HTTP", "GET /?token=1 HTTP"),
        ("Host:", "Content-Length: 0\r\nHost:"),
    ] {
        assert!(REQUEST.contains(from), "{from}");
        let (upgraded, answer) = ask(&REQUEST.replacen(from, to, 1));
        assert!(matches!(upgraded, Upgraded::Done { .. }), "{to}: {answer}");
        assert!(
            answer.contains("Sec-WebSocket-Protocol: sip\r\n"),
            "{answer}"
        );
    }
    let (_, answer) = ask(&REQUEST.replace("Protocol: sip", "Protocol: SIP"));
    assert!(
        answer.contains("Sec-WebSocket-Protocol: SIP\r\n"),
        "{answer}"
    );
}

#[test]
fn each_fault_has_its_answer() {
    use UpgradeRefusal::*;
    let long = format!("X: {}\r\nHost:", "x".repeat(HEAD_BYTES_MAX));
    let many = "X: 1\r\n".repeat(HEADERS_MAX) + "Host:";
    for (from, to, refusal, status) in [
        ("GET / HTTP/1.1", "nonsense", Malformed, "400 Bad Request"),
        (
            "GET / HTTP/1.1",
            "\x16\x03\x01",
            Malformed,
            "400 Bad Request",
        ),
        ("HTTP/1.1", "HTTP/1.0", Malformed, "400 Bad Request"),
        ("HTTP/1.1", "SIP/2.0", Malformed, "400 Bad Request"),
        (
            "Host: sip.example.com:8443\r\n",
            "",
            Malformed,
            "400 Bad Request",
        ),
        ("Host:", "Host: a\r\nHost:", Malformed, "400 Bad Request"),
        (
            "Host:",
            "Content-Length: 5\r\nHost:",
            Malformed,
            "400 Bad Request",
        ),
        (
            "Host:",
            "Transfer-Encoding: chunked\r\nHost:",
            Malformed,
            "400 Bad Request",
        ),
        (
            "dGhlIHNhbXBsZSBub25jZQ==",
            "dGhl",
            Malformed,
            "400 Bad Request",
        ),
        (
            "dGhlIHNhbXBsZSBub25jZQ==",
            "!GhlIHNhbXBsZSBub25jZQ==",
            Malformed,
            "400 Bad Request",
        ),
        (
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
            "",
            Malformed,
            "400 Bad Request",
        ),
        (
            "Origin:",
            "Origin: https://example.com\r\nOrigin:",
            Malformed,
            "400 Bad Request",
        ),
        (
            "Host:",
            &long,
            TooLarge,
            "431 Request Header Fields Too Large",
        ),
        (
            "Host:",
            &many,
            TooLarge,
            "431 Request Header Fields Too Large",
        ),
        ("GET ", "POST ", Method, "405 Method Not Allowed"),
        (
            "GET / ",
            "REGISTER sip:example.com ",
            Method,
            "405 Method Not Allowed",
        ),
        ("GET / ", "GET /chat ", Path, "404 Not Found"),
        ("GET / ", "GET // ", Path, "404 Not Found"),
        (
            "Upgrade: websocket\r\n",
            "",
            NoUpgrade,
            "426 Upgrade Required",
        ),
        (
            "keep-alive, Upgrade",
            "keep-alive",
            NoUpgrade,
            "426 Upgrade Required",
        ),
        ("Version: 13", "Version: 8", Version, "426 Upgrade Required"),
        (
            "Sec-WebSocket-Version: 13\r\n",
            "",
            Version,
            "426 Upgrade Required",
        ),
        (
            "https://example.com",
            "https://evil.net",
            Origin,
            "403 Forbidden",
        ),
        (
            "https://example.com",
            "http://example.com",
            Origin,
            "403 Forbidden",
        ),
        ("https://example.com", "null", Origin, "403 Forbidden"),
        (
            "Sec-WebSocket-Protocol: sip\r\n",
            "",
            Protocol,
            "400 Bad Request",
        ),
        (
            "Protocol: sip",
            "Protocol: sips, xsip",
            Protocol,
            "400 Bad Request",
        ),
    ] {
        assert!(REQUEST.contains(from), "{from}");
        let (upgraded, answer) = ask(&REQUEST.replacen(from, to, 1));
        assert_eq!(upgraded, Upgraded::Refused(refusal), "{to}");
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}\r\n")),
            "{to}: {answer}"
        );
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains(&format!("Content-Length: {}", body.len())),
            "{head}"
        );
        assert_eq!(
            head.contains("Upgrade: websocket"),
            status.starts_with("426"),
            "{head}"
        );
        assert_eq!(
            head.contains("Sec-WebSocket-Version: 13"),
            refusal == Version
        );
    }
}

#[test]
fn a_request_that_comes_in_pieces_is_looked_at_once() {
    let (rules, local) = (rules(), "192.0.2.7".parse().unwrap());
    for step in [1, 2, 3, 5, 100] {
        let (mut scanned, mut answer, mut end) = (0, Vec::new(), 0);
        loop {
            let input = &REQUEST.as_bytes()[..end];
            match upgrade(input, &mut scanned, &rules, true, local, &mut answer) {
                Upgraded::More => assert_eq!(scanned, end),
                upgraded => {
                    assert_eq!(upgraded, Upgraded::Done { len: REQUEST.len() });
                    break;
                }
            }
            assert!(answer.is_empty() && end < REQUEST.len(), "{step}");
            end = (end + step).min(REQUEST.len());
        }
    }
    // Nor is one waited for that does not end.
    let endless = [b'x'; HEAD_BYTES_MAX + 1];
    let mut scanned = 0;
    let mut answer = Vec::new();
    let upgraded = upgrade(
        &endless[..HEAD_BYTES_MAX],
        &mut scanned,
        &rules,
        true,
        local,
        &mut answer,
    );
    assert_eq!(upgraded, Upgraded::More);
    let upgraded = upgrade(&endless, &mut scanned, &rules, true, local, &mut answer);
    assert_eq!(upgraded, Upgraded::Refused(UpgradeRefusal::TooLarge));
}

#[test]
fn every_refusal_has_its_own_place_among_the_counters() {
    for (place, refusal) in UpgradeRefusal::ALL.into_iter().enumerate() {
        assert_eq!(refusal as usize, place);
    }
}
