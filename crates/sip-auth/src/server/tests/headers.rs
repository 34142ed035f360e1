//! What stands in the headers: whose it is, what it covers, what is wrong with it.

use std::cell::Cell;

use proptest::prelude::*;

use super::*;
use crate::{claimed, credential_lines_of};

#[test]
fn the_uri_is_the_request_uri() {
    let server = server();
    let digest_of =
        |uri: &str| Phone::new(&server, "alice", PASSWORD).credentials_for("INVITE", uri, "");
    let to = |uri: &str, credentials: &str| {
        outcome(&server, START_MS, &request("INVITE", uri, credentials, ""))
    };
    let uri = "sip:bob@example.org";
    assert_eq!(to(uri, &digest_of(uri)), alice());
    // Equal by RFC 3261 19.1.4, not by bytes.
    assert_eq!(to("sip:%62ob@EXAMPLE.org", &digest_of(uri)), alice());
    let mismatch = Outcome::Malformed("Digest URI Is Not The Request-URI");
    for other in [
        "sip:carol@example.org",
        "sips:bob@example.org",
        "sip:bob@example.org;transport=tcp",
        "tel:+1",
    ] {
        assert_eq!(to(other, &digest_of(uri)), mismatch, "{other}");
    }
    assert_eq!(to(uri, &digest_of("http://example.org/")), mismatch);
    assert_eq!(to(uri, &digest_of("")), mismatch);
    // The method is covered too.
    let message = request("MESSAGE", uri, &digest_of(uri), "");
    assert_eq!(outcome(&server, START_MS, &message), FRESH);
}

#[test]
fn auth_int_finds_every_flipped_bit() {
    let server = Authenticator::new(
        AuthConfig {
            offer_auth_int: true,
            ..config()
        },
        &KEY,
        1,
    );
    let mut lines = Vec::new();
    server.write_challenge(START_MS, Side::Registrar, "example.org", false, &mut lines);
    let both = String::from_utf8(lines).expect("text");
    assert!(both.contains("qop=\"auth,auth-int\""));
    let only_int = both.replace("auth,auth-int", "auth-int");
    let mut phone = Phone::new(&server, "alice", PASSWORD);
    phone.auth.forget_nonces();
    phone.attempt = Attempt::default();
    phone
        .auth
        .handle_challenge(&mut phone.attempt, &response(Side::Registrar, &only_int))
        .expect("supported");
    let (uri, body) = ("sip:bob@example.org", "v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\n");
    let credentials = phone.credentials_for("INVITE", uri, body);
    assert!(credentials.contains("qop=auth-int"));
    for at in 0..body.len() {
        for bit in 0..7 {
            let mut flipped = body.as_bytes().to_vec();
            flipped[at] ^= 1 << bit;
            let flipped = String::from_utf8(flipped).expect("ascii");
            let message = request("INVITE", uri, &credentials, &flipped);
            assert_eq!(
                outcome(&server, START_MS, &message),
                FRESH,
                "byte {at} bit {bit}"
            );
        }
    }
    assert_eq!(
        outcome(
            &server,
            START_MS,
            &request("INVITE", uri, &credentials, body)
        ),
        alice()
    );
}

#[test]
fn ours_is_picked_from_several_and_only_ours_is_cut() {
    let server = server();
    let ours = Phone::new(&server, "alice", PASSWORD)
        .credentials()
        .replace("Authorization", "Proxy-Authorization");
    let theirs = "Proxy-Authorization: Digest username=\"a\", realm=\"example.com\", nonce=\"x\", uri=\"sip:b\", response=\"0\"\r\n";
    let message = register(&format!(
        "{theirs}{ours}Proxy-Authorization: Basic eA==\r\n"
    ));
    assert_eq!(
        outcome_on(&server, START_MS, &message, Side::Registrar),
        FRESH,
        "the other side's header"
    );
    assert_eq!(
        outcome_on(&server, START_MS, &message, Side::Proxy),
        alice()
    );
    let cut: Vec<_> = credential_lines(&message, Side::Proxy, "example.org")
        .map(|s| message.slice(s))
        .collect();
    assert_eq!(cut, [ours.as_bytes()]);
    assert_eq!(
        credential_lines(&message, Side::Registrar, "example.org").count(),
        0
    );
    // One that cannot be read stands in nobody's way while ours is there.
    let message = register(&format!("Proxy-Authorization: Digest ,,\r\n{ours}"));
    assert_eq!(
        outcome_on(&server, START_MS, &message, Side::Proxy),
        STALE,
        "used before"
    );
}

#[test]
fn each_line_is_read_once_however_many_realms_are_ours() {
    let lines = |realm: &str, name: &str| {
        format!("Proxy-Authorization: Digest realm=\"{realm}\"{name}\r\n").repeat(200)
    };
    let asked = Cell::new(0);
    let is_ours = |realm: AuthValue<'_>| {
        asked.set(asked.get() + 1);
        realm.is(b"example.org")
    };
    let foreign = register(&lines("example.com", ", username=\"a\""));
    assert!(claimed(&foreign, Side::Proxy, is_ours).is_none());
    assert_eq!(asked.take(), 200);
    assert_eq!(
        credential_lines_of(&foreign, Side::Proxy, is_ours).count(),
        0
    );
    assert_eq!(asked.take(), 200);
    // Of ours no more are looked at than are judged.
    let nameless = register(&lines("example.org", ""));
    assert!(claimed(&nameless, Side::Proxy, is_ours).is_none());
    assert_eq!(asked.take(), JUDGED_MAX);
    let named = "Proxy-Authorization: Digest realm=\"example.org\", username=\"al\\ice\"\r\n";
    let named = register(&(lines("example.com", "") + named));
    let claimed = claimed(&named, Side::Proxy, is_ours).unwrap();
    assert_eq!(claimed.user(), b"alice");
    assert!(claimed.realm.is(b"example.org"));
}

#[test]
fn names_are_unescaped() {
    let server = server();
    let mut phone = Phone::new(&server, "al\"i\\ce", PASSWORD);
    let message = register(&phone.credentials());
    let Check::Lookup(pending) = server.check(START_MS, &message, Side::Registrar, &realm()) else {
        panic!("good credentials")
    };
    assert_eq!(pending.key().user(), b"al\"i\\ce");
    let ha1 = Ha1::compute(
        pending.key().algorithm(),
        b"al\"i\\ce",
        b"example.org",
        PASSWORD.as_bytes(),
    );
    match server.finish(START_MS, pending, &Reply::Secret(ha1)) {
        Verdict::Ok(who) => assert_eq!(who.user(), b"al\"i\\ce"),
        other => panic!("{other:?}"),
    }
    // An escape where none is needed is the same name.
    let credentials = with_param(
        &Phone::new(&server, "alice", PASSWORD).credentials(),
        "username",
        "\"\\a\\lice\"",
    );
    assert_eq!(outcome(&server, START_MS, &register(&credentials)), alice());
}

#[test]
fn a_names_bound_is_on_the_name_and_not_on_its_spelling() {
    let server = server();
    for (name, is_read) in [
        ("\"".repeat(crate::USERNAME_MAX), true),
        ("\"".repeat(crate::USERNAME_MAX + 1), false),
    ] {
        let credentials = Phone::new(&server, &name, PASSWORD).credentials();
        let expected = if is_read {
            // Read, looked up, and nobody whom the store knows.
            FRESH
        } else {
            Outcome::Malformed("Digest Username Too Long")
        };
        assert_eq!(
            outcome(&server, START_MS, &register(&credentials)),
            expected
        );
    }
}

#[test]
fn malformed_credentials_are_named() {
    let server = server();
    let good = Phone::new(&server, "alice", PASSWORD).credentials();
    let long = format!("\"{}\"", "x".repeat(300));
    for (name, with, reason) in [
        ("username", "", "Digest Username Missing"),
        ("realm", "", "Digest Realm Missing"),
        ("nonce", "", "Digest Nonce Missing"),
        ("uri", "", "Digest URI Missing"),
        ("response", "", "Digest Response Missing"),
        ("response", "\"00\"", "Digest Response Malformed"),
        ("response", "\"\"", "Digest Response Malformed"),
        ("nc", "1", "Digest Nonce Count Malformed"),
        ("nc", "0000000g", "Digest Nonce Count Malformed"),
        ("qop", "auth-conf", "Digest Quality Of Protection Unknown"),
        ("cnonce", &long, "Digest Client Nonce Too Long"),
        ("username", &long, "Digest Username Too Long"),
        (
            "nc",
            "00000001, nc=00000002",
            "Digest Parameter Given Twice",
        ),
        (
            "username",
            "\"bob\", Username=\"alice\"",
            "Digest Parameter Given Twice",
        ),
        ("opaque", "", ""),
    ] {
        if name == "opaque" {
            // Unknown parameters are ignored.
            let extended = good.replace("\r\n", ", opaque=\"x\", auth-param=1\r\n");
            assert_eq!(outcome(&server, START_MS, &register(&extended)), alice());
            continue;
        }
        let credentials = with_param(&good, name, with);
        assert_eq!(
            outcome(&server, START_MS, &register(&credentials)),
            Outcome::Malformed(reason),
            "{credentials}"
        );
    }
    for (line, reason) in [
        ("Authorization: Digest\r\n", "Malformed Authorization"),
        ("Authorization: Digest x\r\n", "Malformed Authorization"),
        (
            "Authorization: Digest username=\"alice\r\n",
            "Malformed Authorization",
        ),
        (
            "Proxy-Authorization: Digest =\r\n",
            "Malformed Proxy-Authorization",
        ),
    ] {
        let side = if line.starts_with("Proxy") {
            Side::Proxy
        } else {
            Side::Registrar
        };
        assert_eq!(
            outcome_on(&server, START_MS, &register(line), side),
            Outcome::Malformed(reason),
            "{line}"
        );
    }
    assert_eq!(
        with_param(&good, "realm", "\"example.com\"")
            .matches("example.com")
            .count(),
        1
    );
    let foreign = with_param(&good, "realm", "\"example.com\"");
    assert_eq!(outcome(&server, START_MS, &register(&foreign)), FRESH);
}

proptest! {
    #[test]
    fn no_header_panics(value in prop::collection::vec(any::<u8>(), 0..300)) {
        let text: Vec<u8> = value.iter().map(|b| if b"\r\n\0".contains(b) { b' ' } else { *b }).collect();
        let mut bytes = b"REGISTER sip:example.org SIP/2.0\r\nAuthorization: Digest ".to_vec();
        bytes.extend_from_slice(&text);
        bytes.extend_from_slice(b"\r\nContent-Length: 0\r\n\r\n");
        if let Ok(message) = Message::parse(&bytes, &Limits::default()) {
            prop_assert!(!matches!(outcome(&server(), START_MS, &message), Outcome::Ok(_)));
            let _ = credential_lines(&message, Side::Registrar, "example.org").count();
        }
    }

    /// Good credentials with any one byte changed are refused, or say the same.
    #[test]
    fn no_changed_byte_makes_another_user(at in 0usize..400, byte in 0x20u8..0x7f) {
        let server = server();
        let good = Phone::new(&server, "alice", PASSWORD).credentials();
        let mut changed = good.clone().into_bytes();
        let start = "Authorization: ".len();
        let len = changed.len() - start - 2;
        changed[start + at % len] = byte;
        let changed = String::from_utf8(changed).expect("ascii");
        match outcome(&server, START_MS, &register(&changed)) {
            Outcome::Ok(user) => prop_assert_eq!(user, "alice"),
            _ => prop_assert_ne!(changed, good),
        }
    }
}
