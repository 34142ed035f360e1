use proptest::prelude::*;
use sip_msg::Limits;

use super::*;

const REGISTER: RequestParts<'_> = RequestParts {
    method: b"REGISTER",
    uri: b"sip:example.org",
    body: b"",
};

fn response(status: u16, lines: &str) -> Message {
    let text = format!(
        "SIP/2.0 {status} Who\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\nFrom: <sip:alice@example.org>;tag=1\r\n\
         To: <sip:alice@example.org>;tag=2\r\nCall-ID: 1\r\nCSeq: 1 REGISTER\r\n{lines}Content-Length: 0\r\n\r\n"
    );
    Message::parse(text.as_bytes(), &Limits::default()).expect("a good response")
}

fn challenge(realm: &str, nonce: &str, rest: &str) -> String {
    format!("WWW-Authenticate: Digest realm=\"{realm}\", nonce=\"{nonce}\", qop=\"auth\"{rest}\r\n")
}

fn client() -> (ClientAuth, Attempt) {
    let mut auth = ClientAuth::new();
    auth.add("example.org", "alice", "swordfish");
    (auth, Attempt::default())
}

fn write(auth: &mut ClientAuth, attempt: &mut Attempt) -> String {
    let mut out = Vec::new();
    auth.write_credentials(attempt, REGISTER, 1, &mut out);
    String::from_utf8(out).expect("text")
}

#[test]
fn nothing_is_written_before_a_challenge() {
    let (mut auth, mut attempt) = client();
    assert_eq!(write(&mut auth, &mut attempt), "");
}

#[test]
fn a_foreign_realm_is_never_answered() {
    let (mut auth, mut attempt) = client();
    for line in [
        challenge("example.com", "n", ""),
        challenge("Example.org", "n", ""),
        challenge("", "n", ""),
        "Proxy-Authenticate: Digest realm=\"evil\", nonce=\"n\"\r\n".to_owned(),
    ] {
        assert_eq!(
            auth.handle_challenge(&mut attempt, &response(401, &line)),
            Err(GiveUp::ForeignRealm),
            "{line}"
        );
        assert_eq!(write(&mut auth, &mut attempt), "");
    }
    // Not even beside one that is answered.
    let both = challenge("example.com", "theirs", "") + &challenge("example.org", "ours", "");
    assert_eq!(
        auth.handle_challenge(&mut attempt, &response(401, &both)),
        Ok(())
    );
    let written = write(&mut auth, &mut attempt);
    assert!(
        written.contains("nonce=\"ours\"") && !written.contains("theirs"),
        "{written}"
    );
    assert_eq!(written.matches("\r\n").count(), 1);
}

#[test]
fn what_cannot_be_answered_is_named() {
    let (mut auth, _) = client();
    for (line, why) in [
        ("", GiveUp::Malformed),
        ("WWW-Authenticate: Digest ,\r\n", GiveUp::Malformed),
        (
            "WWW-Authenticate: Basic realm=\"example.org\"\r\n",
            GiveUp::Unsupported,
        ),
        (
            "WWW-Authenticate: Digest realm=\"example.org\", nonce=\"n\", algorithm=MD5-sess\r\n",
            GiveUp::Unsupported,
        ),
        (
            "WWW-Authenticate: Digest realm=\"example.org\", nonce=\"n\", qop=\"auth-conf\"\r\n",
            GiveUp::Unsupported,
        ),
        (
            "WWW-Authenticate: Digest realm=\"example.org\", qop=\"auth\"\r\n",
            GiveUp::Unsupported,
        ),
        (
            "WWW-Authenticate: Digest realm=\"example.org\", nonce=\"n\r\n , qop=auth\"\r\n",
            GiveUp::Unsupported,
        ),
    ] {
        assert_eq!(
            auth.handle_challenge(&mut Attempt::default(), &response(401, line)),
            Err(why),
            "{line}"
        );
    }
    let good = challenge("example.org", "n", "");
    assert_eq!(
        auth.handle_challenge(&mut Attempt::default(), &response(403, &good)),
        Err(GiveUp::Malformed)
    );
}

#[test]
fn the_strongest_is_chosen_whatever_the_order() {
    for order in [
        ["MD5", "SHA-256", "SHA-512-256"],
        ["SHA-512-256", "MD5", "SHA-256"],
    ] {
        let (mut auth, mut attempt) = client();
        let lines: String = order
            .iter()
            .map(|a| challenge("example.org", "n", &format!(", algorithm={a}")))
            .collect();
        auth.handle_challenge(&mut attempt, &response(401, &lines))
            .expect("ours");
        let written = write(&mut auth, &mut attempt);
        assert!(written.contains("algorithm=SHA-512-256"));
        // RFC 3261 22.4: "For SIP, the 'uri' MUST be enclosed in quotation marks."
        assert!(written.contains(", uri=\"sip:"), "{written}");
        // RFC 3261 22.4: "If a client receives a "qop" parameter in a challenge header field, it MUST send
        // the "qop" parameter in any resulting authorization header field."
        assert!(written.contains(", qop=auth, nc=00000001"), "{written}");
    }
}

#[test]
fn a_weaker_algorithm_than_required_is_not_answered() {
    let (mut auth, mut attempt) = client();
    auth.require(Algorithm::Sha256);
    let md5 = challenge("example.org", "n", "");
    assert_eq!(
        auth.handle_challenge(&mut attempt, &response(401, &md5)),
        Err(GiveUp::Unsupported)
    );
    let both = md5 + &challenge("example.org", "n", ", algorithm=sha-256");
    assert_eq!(
        auth.handle_challenge(&mut attempt, &response(401, &both)),
        Ok(())
    );
}

#[test]
fn the_count_goes_up_and_begins_anew_with_a_nonce() {
    let (mut auth, mut attempt) = client();
    auth.handle_challenge(
        &mut attempt,
        &response(401, &challenge("example.org", "a", "")),
    )
    .expect("ours");
    for nc in ["nc=00000001\r\n", "nc=00000002\r\n", "nc=00000003\r\n"] {
        assert!(write(&mut auth, &mut attempt).ends_with(nc));
    }
    let stale = challenge("example.org", "b", ", stale=TRUE");
    auth.handle_challenge(&mut attempt, &response(401, &stale))
        .expect("stale");
    let written = write(&mut auth, &mut attempt);
    assert!(written.contains("nonce=\"b\"") && written.ends_with("nc=00000001\r\n"));
}

#[test]
fn a_refusal_ends_it() {
    // RFC 3261 22.1: "A UAC MUST NOT re-attempt requests with the credentials that have just been
    // rejected (though the request may be retried if the nonce was stale)."
    for second in ["a", "b"] {
        let (mut auth, mut attempt) = client();
        auth.handle_challenge(
            &mut attempt,
            &response(401, &challenge("example.org", "a", "")),
        )
        .expect("ours");
        write(&mut auth, &mut attempt);
        let again = response(401, &challenge("example.org", second, ""));
        assert_eq!(
            auth.handle_challenge(&mut attempt, &again),
            Err(GiveUp::Rejected),
            "{second}"
        );
    }
    // The same nonce cannot have become stale and be offered again.
    let (mut auth, mut attempt) = client();
    auth.handle_challenge(
        &mut attempt,
        &response(401, &challenge("example.org", "a", "")),
    )
    .expect("ours");
    write(&mut auth, &mut attempt);
    let again = response(401, &challenge("example.org", "a", ", stale=true"));
    assert_eq!(
        auth.handle_challenge(&mut attempt, &again),
        Err(GiveUp::Rejected)
    );
}

#[test]
fn a_nonce_from_an_earlier_request_gets_one_more_chance() {
    let (mut auth, mut attempt) = client();
    auth.handle_challenge(
        &mut attempt,
        &response(401, &challenge("example.org", "a", "")),
    )
    .expect("ours");
    write(&mut auth, &mut attempt);
    let mut next = Attempt::default();
    write(&mut auth, &mut next);
    assert_eq!(
        auth.handle_challenge(
            &mut next,
            &response(401, &challenge("example.org", "b", ""))
        ),
        Ok(())
    );
    write(&mut auth, &mut next);
    let again = response(401, &challenge("example.org", "c", ""));
    assert_eq!(
        auth.handle_challenge(&mut next, &again),
        Err(GiveUp::Rejected)
    );
}

#[test]
fn endless_staleness_ends() {
    let (mut auth, mut attempt) = client();
    let mut rounds = 0;
    let end = loop {
        let line = challenge(
            "example.org",
            &format!("n{rounds}"),
            if rounds > 0 { ", stale=true" } else { "" },
        );
        match auth.handle_challenge(&mut attempt, &response(401, &line)) {
            Ok(()) => write(&mut auth, &mut attempt),
            Err(end) => break end,
        };
        rounds += 1;
        assert!(rounds < 10);
    };
    assert_eq!((end, rounds), (GiveUp::Loop, 3));
}

#[test]
fn requests_under_way_at_once_do_not_spoil_each_other() {
    let (mut auth, _) = client();
    let (mut first, mut second) = (Attempt::default(), Attempt::default());
    write(&mut auth, &mut first);
    write(&mut auth, &mut second);
    assert_eq!(
        auth.handle_challenge(
            &mut first,
            &response(401, &challenge("example.org", "a", ""))
        ),
        Ok(())
    );
    assert!(write(&mut auth, &mut first).contains("nonce=\"a\""));
    assert_eq!(
        auth.handle_challenge(
            &mut second,
            &response(401, &challenge("example.org", "b", ""))
        ),
        Ok(())
    );
    assert!(write(&mut auth, &mut second).contains("nonce=\"b\""));
}

#[test]
fn a_proxy_and_a_registrar_one_after_the_other() {
    let (mut auth, mut attempt) = client();
    auth.add("proxy.example.net", "al\"ice", "other");
    let line = "Proxy-Authenticate: Digest realm=\"proxy.example.net\", nonce=\"p\", opaque=\"o\\\"p\"\r\n";
    auth.handle_challenge(&mut attempt, &response(407, line))
        .expect("ours");
    write(&mut auth, &mut attempt);
    auth.handle_challenge(
        &mut attempt,
        &response(401, &challenge("example.org", "r", "")),
    )
    .expect("ours");
    let written = write(&mut auth, &mut attempt);
    let lines: Vec<_> = written.lines().collect();
    // RFC 3261 20.7: "Although not a comma-separated list, this header field name may be present
    // multiple times, and MUST NOT be combined into a single header line using the usual rules
    // described in Section 7.3."
    // RFC 3261 20.28: "Although not a comma-separated list, this header field name may be present
    // multiple times, and MUST NOT be combined into a single header line using the usual rules
    // described in Section 7.3.1."
    // RFC 3261 7.3.1: "Multiple header field rows with these names MAY be present in a message, but
    // since their grammar does not follow the general form listed in Section 7.3, they MUST NOT be
    // combined into a single header field row."
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with(
        "Authorization: Digest username=\"alice\", realm=\"example.org\", nonce=\"r\""
    ));
    assert!(lines[1].starts_with(
        "Proxy-Authorization: Digest username=\"al\\\"ice\", realm=\"proxy.example.net\""
    ));
    assert!(
        // RFC 3261 22.4: "RFC 2617 notes that a cnonce value MUST NOT be sent in an Authorization (and
        // by extension Proxy-Authorization) header field if no qop directive has been sent."
        lines[1].ends_with(", opaque=\"o\\\"p\"") && !lines[1].contains("nc="),
        "{}",
        lines[1]
    );
}

#[test]
fn passwords_are_not_printed() {
    let (mut auth, mut attempt) = client();
    auth.handle_challenge(
        &mut attempt,
        &response(401, &challenge("example.org", "a", "")),
    )
    .expect("ours");
    assert!(!format!("{auth:?} {attempt:?}").contains("swordfish"));
}

proptest! {
    /// Whatever a server sends: one line for each header, or none.
    #[test]
    fn no_challenge_panics(value in prop::collection::vec(any::<u8>(), 0..200), whole in any::<bool>()) {
        let text: Vec<u8> = value.iter().map(|b| if b"\r\n\0".contains(b) { b' ' } else { *b }).collect();
        let mut bytes = b"SIP/2.0 401 Who\r\nWWW-Authenticate: Digest realm=\"example.org\", nonce=\"n\", qop=auth".to_vec();
        bytes.extend_from_slice(if whole { b", opaque=\"" } else { b", " });
        bytes.extend_from_slice(&text);
        bytes.extend_from_slice(if whole { b"\"\r\nContent-Length: 0\r\n\r\n" } else { b"\r\nContent-Length: 0\r\n\r\n" });
        if let Ok(message) = Message::parse(&bytes, &Limits::default()) {
            let (mut auth, mut attempt) = client();
            if auth.handle_challenge(&mut attempt, &message).is_ok() {
                let mut out = Vec::new();
                auth.write_credentials(&mut attempt, REGISTER, 1, &mut out);
                prop_assert_eq!(out.iter().filter(|&&b| b == b'\n').count(), 1);
                prop_assert!(out.ends_with(b"\r\n"));
            }
        }
    }
}

#[test]
fn a_nonce_is_used_again_where_its_uses_are_counted() {
    for (rest, may) in [
        (", qop=\"auth\"", true),
        (", qop=\"auth-int\"", true),
        ("", false),
    ] {
        let (mut auth, mut attempt) = client();
        assert!(auth.may_reuse_nonces(), "there are none");
        let line = format!("WWW-Authenticate: Digest realm=\"example.org\", nonce=\"n\"{rest}\r\n");
        auth.handle_challenge(&mut attempt, &response(401, &line))
            .expect("ours");
        assert_eq!(auth.may_reuse_nonces(), may, "{rest}");
        auth.forget_nonces();
        assert!(auth.may_reuse_nonces());
        assert_eq!(write(&mut auth, &mut attempt), "");
    }
}
