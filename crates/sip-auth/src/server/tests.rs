//! Scenarios of the server's side, most with the client's side as the peer.

mod headers;
mod lenient;
mod nonces;
mod replies;
mod several;

use sip_msg::{Limits, MessageWriter};

use super::*;
use crate::{Attempt, Claimant, ClientAuth, GiveUp, Ha1Set, RequestParts, credential_lines};

const START_MS: u64 = 1_790_000_000_000;
const KEY: [u8; 32] = [9; 32];
const PASSWORD: &str = "swordfish";

fn realm() -> Arc<str> {
    "example.org".into()
}

fn config() -> AuthConfig {
    AuthConfig {
        algorithms: Algorithm::ALL.to_vec(),
        ..AuthConfig::default()
    }
}

fn server() -> Authenticator {
    Authenticator::new(config(), &KEY, 1)
}

fn register(headers: &str) -> Message {
    request("REGISTER", "sip:example.org", headers, "")
}

fn request(method: &str, uri: &str, headers: &str, body: &str) -> Message {
    let text = format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\nMax-Forwards: 70\r\n\
         From: <sip:alice@example.org>;tag=1\r\nTo: <sip:alice@example.org>\r\nCall-ID: 1\r\nCSeq: 1 {method}\r\n\
         {headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    Message::parse(text.as_bytes(), &Limits::default()).expect("a good request")
}

fn challenge(server: &Authenticator, unix_ms: u64, side: Side, stale: bool) -> Message {
    let mut lines = Vec::new();
    server.write_challenge(unix_ms, side, "example.org", stale, &mut lines);
    response(side, &String::from_utf8(lines).expect("text"))
}

fn response(side: Side, lines: &str) -> Message {
    let text = format!(
        "SIP/2.0 {} Who\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\nFrom: <sip:alice@example.org>;tag=1\r\n\
         To: <sip:alice@example.org>;tag=2\r\nCall-ID: 1\r\nCSeq: 1 REGISTER\r\n{lines}Content-Length: 0\r\n\r\n",
        side.status()
    );
    Message::parse(text.as_bytes(), &Limits::default()).expect("a good response")
}

/// A user agent that took up a challenge and can write credentials.
struct Phone {
    auth: ClientAuth,
    attempt: Attempt,
}

impl Phone {
    fn new(server: &Authenticator, user: &str, password: &str) -> Self {
        Self::at(server, START_MS, user, password)
    }

    fn at(server: &Authenticator, unix_ms: u64, user: &str, password: &str) -> Self {
        let mut auth = ClientAuth::new();
        auth.add("example.org", user, password);
        let mut attempt = Attempt::default();
        auth.handle_challenge(
            &mut attempt,
            &challenge(server, unix_ms, Side::Registrar, false),
        )
        .expect("known realm");
        Self { auth, attempt }
    }

    fn credentials(&mut self) -> String {
        self.credentials_for("REGISTER", "sip:example.org", "")
    }

    fn credentials_for(&mut self, method: &str, uri: &str, body: &str) -> String {
        let mut lines = Vec::new();
        let parts = RequestParts {
            method: method.as_bytes(),
            uri: uri.as_bytes(),
            body: body.as_bytes(),
        };
        self.auth
            .write_credentials(&mut self.attempt, parts, 0x1234_5678_9abc_def0, &mut lines);
        String::from_utf8(lines).expect("text")
    }
}

/// What came of a request, in short.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Ok(String),
    Challenge { stale: bool },
    Malformed(&'static str),
}

/// The store knows alice alone.
fn outcome(server: &Authenticator, unix_ms: u64, message: &Message) -> Outcome {
    outcome_on(server, unix_ms, message, Side::Registrar)
}

fn outcome_on(server: &Authenticator, unix_ms: u64, message: &Message, side: Side) -> Outcome {
    let pending = match server.check(unix_ms, message, side, &realm()) {
        Check::Challenge(why) => {
            let stale = why.is_some_and(Failure::is_stale);
            return Outcome::Challenge { stale };
        }
        Check::Malformed(malformed) => return Outcome::Malformed(malformed.reason),
        Check::Lookup(pending) => pending,
    };
    let set = Ha1Set::compute(b"alice", b"example.org", PASSWORD.as_bytes());
    let reply = match pending.key().user() {
        b"alice" => secret(&set, pending.key().algorithm()),
        _ => Reply::Unknown,
    };
    match server.finish(unix_ms, pending, &reply) {
        Verdict::Ok(who) => Outcome::Ok(String::from_utf8_lossy(who.user()).into_owned()),
        Verdict::Challenge(why) => Outcome::Challenge {
            stale: why.is_stale(),
        },
        Verdict::AskAgain(_) => panic!("the store itself has answered"),
    }
}

fn secret(set: &Ha1Set, algorithm: Algorithm) -> Reply {
    Reply::Secret(set.get(algorithm).clone())
}

fn alice() -> Outcome {
    Outcome::Ok("alice".to_owned())
}

const FRESH: Outcome = Outcome::Challenge { stale: false };
const STALE: Outcome = Outcome::Challenge { stale: true };

/// The credentials with the parameter `name` replaced, or cut where `with` is empty.
fn with_param(credentials: &str, name: &str, with: &str) -> String {
    let body = credentials
        .trim_end()
        .strip_prefix("Authorization: Digest ")
        .expect("credentials");
    let mut found = 0;
    let mut params: Vec<String> = body.split(", ").map(str::to_owned).collect();
    params.retain_mut(|param| {
        if param.split('=').next() == Some(name) {
            found += 1;
            *param = format!("{name}={with}");
        }
        !(with.is_empty() && param.starts_with(&format!("{name}=")))
    });
    assert_eq!(found, 1, "{name} in {credentials}");
    format!("Authorization: Digest {}\r\n", params.join(", "))
}

fn pending_of(
    algorithm: Algorithm,
    qop: Qop,
    nonce: &str,
    cnonce: &str,
    uri: &str,
    body: &str,
) -> Pending {
    Pending {
        key: CredentialKey::new(b"Mufasa", realm(), algorithm),
        nonce: Nonce {
            issued_unix_ms: 0,
            node_id: 0,
            boot_id: 0,
            mark: 0,
            serial: 0,
        },
        nc: 1,
        qop: Some(qop),
        between: SmallVec::from_slice(
            format!("{nonce}:00000001:{cnonce}:{}", qop.as_str()).as_bytes(),
        ),
        ha2: ha2(algorithm, qop, b"GET", uri.as_bytes(), body.as_bytes()),
        answer_ha2: None,
        response: Raw::default(),
        digest: None,
    }
}

#[test]
fn vectors_of_the_rfcs() {
    let response = |pending: Pending, realm: &str, password: &str| {
        let algorithm = pending.key.algorithm;
        let ha1 = Ha1::compute(algorithm, b"Mufasa", realm.as_bytes(), password.as_bytes());
        String::from_utf8_lossy(hex(algorithm, &pending.expected(&ha1)).as_bytes()).into_owned()
    };
    let uri = "/dir/index.html";
    // RFC 2617 3.5.
    let pending = pending_of(
        Algorithm::Md5,
        Qop::Auth,
        "dcd98b7102dd2f0e8b11d0f600bfb0c093",
        "0a4f113b",
        uri,
        "",
    );
    assert_eq!(
        response(pending, "testrealm@host.com", "Circle Of Life"),
        "6629fae49393a05397450978507c4ef1"
    );
    let nonce = "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v";
    let cnonce = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
    for (algorithm, qop, expected) in [
        // RFC 7616 3.9.1.
        (
            Algorithm::Md5,
            Qop::Auth,
            "8ca523f5e9506fed4657c9700eebdbec",
        ),
        (
            Algorithm::Sha256,
            Qop::Auth,
            "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1",
        ),
        // The example of RFC 7616 3.9.2 is cut from SHA-512; these are SHA-512/256
        // of FIPS 180-4, computed by another implementation.
        (
            Algorithm::Sha512_256,
            Qop::Auth,
            "430d05014cecc49cab6fbe03176d41a1da86cbfe24a16580e22aaad928d960d0",
        ),
        (
            Algorithm::Md5,
            Qop::AuthInt,
            "3835b139d1606d821f6f96713d044ded",
        ),
        (
            Algorithm::Sha256,
            Qop::AuthInt,
            "b3a4a0111e74e28223bac4af55ade12af037f6c8a019923135a0dca0d384407f",
        ),
        (
            Algorithm::Sha512_256,
            Qop::AuthInt,
            "631be824ac300042f70f9fd3050e439eb706f91ec48c3bacb8c102a628f68cd4",
        ),
    ] {
        let pending = pending_of(algorithm, qop, nonce, cnonce, uri, "v=0");
        assert_eq!(
            response(pending, "http-auth@example.org", "Circle of Life"),
            expected,
            "{algorithm:?} {qop:?}"
        );
    }
}

#[test]
fn a_request_without_credentials_is_challenged() {
    let server = server();
    assert_eq!(outcome(&server, START_MS, &register("")), FRESH);
    // RFC 3261 22: "Servers MUST NOT accept credentials using the "Basic" authorization scheme"
    assert_eq!(
        outcome(
            &server,
            START_MS,
            // RFC 3261 22.4: "Note, however, that SIP servers MUST NOT accept or request Basic
            // authentication."
            &register("Authorization: Basic YWxpY2U6c3dvcmRmaXNo\r\n")
        ),
        FRESH
    );
    assert_eq!(
        outcome(
            &server,
            START_MS,
            &register("Authorization: Bearer token=\"x\"\r\n")
        ),
        FRESH
    );
}

#[test]
fn the_right_password_is_proof_in_every_algorithm() {
    // RFC 3261 26.3.1: "Proxy servers, redirect servers, registrars, and UAs MUST implement Digest
    // Authorization, encompassing all of the aspects required in 22."
    for algorithm in Algorithm::ALL {
        let server = Authenticator::new(
            AuthConfig {
                algorithms: vec![algorithm],
                ..config()
            },
            &KEY,
            1,
        );
        let mut phone = Phone::new(&server, "alice", PASSWORD);
        for _ in 0..3 {
            assert_eq!(
                outcome(&server, START_MS, &register(&phone.credentials())),
                alice(),
                "{algorithm:?}"
            );
        }
        let mut wrong = Phone::new(&server, "alice", "guess");
        assert_eq!(
            outcome(&server, START_MS, &register(&wrong.credentials())),
            FRESH
        );
        let credentials = phone.credentials();
        assert!(credentials.contains(&format!("algorithm={},", algorithm.as_str())));
    }
}

#[test]
fn the_strongest_algorithm_is_chosen_and_none_that_was_not_offered() {
    let server = server();
    let mut phone = Phone::new(&server, "alice", PASSWORD);
    assert!(phone.credentials().contains("algorithm=SHA-512-256"));
    let only_sha = Authenticator::new(
        AuthConfig {
            algorithms: vec![Algorithm::Sha256],
            ..config()
        },
        &KEY,
        1,
    );
    for other in ["MD5", "MD5-sess", "SHA-512-256", "none"] {
        let credentials = with_param(
            &Phone::new(&only_sha, "alice", PASSWORD).credentials(),
            "algorithm",
            other,
        );
        assert_eq!(
            outcome(&only_sha, START_MS, &register(&credentials)),
            FRESH,
            "{other}"
        );
    }
    // Without an algorithm it is MD5, which is not offered here.
    let credentials = with_param(
        &Phone::new(&only_sha, "alice", PASSWORD).credentials(),
        "algorithm",
        "",
    );
    assert_eq!(outcome(&only_sha, START_MS, &register(&credentials)), FRESH);
}

#[test]
fn an_unknown_user_and_a_wrong_password_get_the_same_answer() {
    let server = server();
    let mut shapes = Vec::new();
    for (user, password) in [
        ("alice", "guess"),
        ("nobody", "guess"),
        ("nobody", PASSWORD),
        ("", "guess"),
    ] {
        let credentials = Phone::new(&server, user, password).credentials();
        assert_eq!(
            outcome(&server, START_MS, &register(&credentials)),
            FRESH,
            "{user}"
        );
        let mut lines = Vec::new();
        server.write_challenge(START_MS, Side::Registrar, "example.org", false, &mut lines);
        shapes.push(lines.len());
    }
    assert!(
        shapes.windows(2).all(|pair| pair[0] == pair[1]),
        "{shapes:?}"
    );
    // The dummy is not a password that a caller could hit on.
    let pending = |user: &str| match server.check(
        START_MS,
        &register(&Phone::new(&server, user, PASSWORD).credentials()),
        Side::Registrar,
        &realm(),
    ) {
        Check::Lookup(pending) => pending,
        other => panic!("{other:?}"),
    };
    let mut made = pending("nobody");
    made.response = made.expected(&Ha1::from_raw(made.key.algorithm, &server.dummy));
    assert!(matches!(
        server.finish(START_MS, made, &Reply::Unknown),
        Verdict::Challenge(Failure::UnknownUser)
    ));
}

#[test]
fn an_answer_for_another_algorithm_is_no_answer() {
    let server = server();
    let message = register(&Phone::new(&server, "alice", PASSWORD).credentials());
    let Check::Lookup(pending) = server.check(START_MS, &message, Side::Registrar, &realm()) else {
        panic!("good credentials")
    };
    let md5 = Ha1::compute(
        Algorithm::Md5,
        b"alice",
        b"example.org",
        PASSWORD.as_bytes(),
    );
    assert!(matches!(
        server.finish(START_MS, pending, &Reply::Secret(md5)),
        Verdict::Challenge(Failure::UnknownUser)
    ));
}

#[test]
fn challenges_are_bounded_and_in_order_of_preference() {
    let server = server();
    let mut lines = Vec::new();
    server.write_challenge(START_MS, Side::Proxy, "example.org", true, &mut lines);
    let text = String::from_utf8(lines).expect("text");
    let named: Vec<_> = text
        .lines()
        .map(|l| {
            l.split("algorithm=")
                .nth(1)
                .and_then(|t| t.split(',').next())
        })
        .collect();
    assert_eq!(named, [Some("SHA-512-256"), Some("SHA-256"), Some("MD5")]);
    assert!(
        text.lines()
            .all(|l| l.starts_with("Proxy-Authenticate: Digest realm=\"example.org\", nonce=\""))
    );
    assert!(text.lines().all(|l| l.ends_with(", stale=true")));
    // RFC 3261 22.4: "However, servers MUST always send a "qop" parameter in WWW-Authenticate and
    // Proxy-Authenticate header field values."
    assert!(text.lines().all(|l| l.contains(", qop=\"auth\"")));
    // With all that a 401 repeats of a REGISTER it stays below twice its size.
    assert!(text.len() < 3 * 160, "{}", text.len());
    let mut writer_out = Vec::new();
    let mut writer = MessageWriter::response(&mut writer_out, 401, "Unauthorized");
    server.add_challenge(
        START_MS,
        Side::Registrar,
        "a\"b\r\nX: y",
        false,
        0,
        &Claimant::default(),
        &mut writer,
    );
    writer.finish(b"");
    let text = String::from_utf8(writer_out).expect("text");
    assert_eq!(
        text.matches("WWW-Authenticate: Digest realm=\"a\\\"b  X: y\", ")
            .count(),
        3,
        "{text}"
    );
}

#[test]
fn challenging_keeps_no_state() {
    let server = server();
    for _ in 0..100_000 {
        let mut lines = Vec::new();
        server.write_challenge(START_MS, Side::Registrar, "example.org", false, &mut lines);
    }
    let counters = server.counters();
    assert_eq!((counters.nonces, counters.replay_entries), (100_000, 0));
}

#[test]
fn the_answer_proves_that_the_server_knows_the_password_too() {
    let server = Authenticator::new(
        AuthConfig {
            authentication_info: true,
            ..config()
        },
        &KEY,
        1,
    );
    let set = Ha1Set::compute(b"alice", b"example.org", PASSWORD.as_bytes());
    for (age_ms, has_next) in [(0, false), (200_000, true)] {
        let mut phone = Phone::new(&server, "alice", PASSWORD);
        let credentials = with_param(&phone.credentials(), "cnonce", "\"a:b\"");
        let message = register(&credentials);
        let Check::Lookup(mut pending) =
            server.check(START_MS + age_ms, &message, Side::Registrar, &realm())
        else {
            panic!("good credentials")
        };
        let algorithm = pending.key().algorithm();
        pending.response = pending.expected(set.get(algorithm));
        let between = String::from_utf8_lossy(&pending.between).into_owned();
        let reply = secret(&set, algorithm);
        let Verdict::Ok(who) = server.finish(START_MS + age_ms, pending, &reply) else {
            panic!("right password")
        };
        let mut value = Vec::new();
        assert!(who.write_authentication_info(&mut value));
        let text = String::from_utf8(value).expect("text");
        // RFC 7616 3.5: A2 is ":" and the uri.
        let h = |s: &str| {
            String::from_utf8_lossy(
                hex(algorithm, &hash::joined(algorithm, &[s.as_bytes()])).as_bytes(),
            )
            .into_owned()
        };
        let ha1 = String::from_utf8_lossy(set.get(algorithm).hex().as_bytes()).into_owned();
        let rspauth = h(&format!("{ha1}:{between}:{}", h(":sip:example.org")));
        assert!(
            text.ends_with(&format!(
                "qop=auth, rspauth=\"{rspauth}\", cnonce=\"a:b\", nc=00000001"
            )),
            "{text}"
        );
        assert_eq!(text.contains("nextnonce=\""), has_next);
    }
    // Off unless configured.
    let server = self::server();
    let message = register(&Phone::new(&server, "alice", PASSWORD).credentials());
    let Check::Lookup(pending) = server.check(START_MS, &message, Side::Registrar, &realm()) else {
        panic!("good credentials")
    };
    let reply = secret(&set, pending.key().algorithm());
    let Verdict::Ok(who) = server.finish(START_MS, pending, &reply) else {
        panic!("right password")
    };
    assert!(!who.write_authentication_info(&mut Vec::new()));
}

#[test]
fn the_next_nonce_bears_the_mark_of_the_one_before_it() {
    let server = Authenticator::new(
        AuthConfig {
            authentication_info: true,
            ..config()
        },
        &KEY,
        1,
    );
    let now_ms = START_MS + 200_000;
    let message = register(&Phone::new(&server, "alice", PASSWORD).credentials());
    let Check::Lookup(mut pending) = server.check(now_ms, &message, Side::Registrar, &realm())
    else {
        panic!("good credentials")
    };
    pending.nonce.mark = 77;
    let set = Ha1Set::compute(b"alice", b"example.org", PASSWORD.as_bytes());
    let reply = secret(&set, pending.key().algorithm());
    let Verdict::Ok(who) = server.finish(now_ms, pending, &reply) else {
        panic!("right password")
    };
    let mut value = Vec::new();
    assert!(who.write_authentication_info(&mut value));
    let text = String::from_utf8(value).expect("text");
    let next = text.split('"').nth(1).expect("a nonce");
    let next = server.key.verify(next.as_bytes(), "example.org");
    let next = next.expect("it is this server's");
    // Else whoever uses it would seem to be where no nonce was sent.
    assert_eq!((next.mark, next.issued_unix_ms), (77, now_ms));
}

#[test]
fn a_client_with_a_wrong_password_gives_up() {
    let server = server();
    let mut phone = Phone::new(&server, "alice", "guess");
    assert_eq!(
        outcome(&server, START_MS, &register(&phone.credentials())),
        FRESH
    );
    let again = challenge(&server, START_MS, Side::Registrar, false);
    assert_eq!(
        phone.auth.handle_challenge(&mut phone.attempt, &again),
        Err(GiveUp::Rejected)
    );
}

#[test]
fn a_client_survives_a_restart_of_the_server() {
    let mut phone = Phone::new(&server(), "alice", PASSWORD);
    assert_eq!(
        outcome(&server(), START_MS, &register(&phone.credentials())),
        alice()
    );
    for server in [
        Authenticator::new(config(), &KEY, 2),
        Authenticator::new(config(), &[1; 32], 3),
    ] {
        phone.attempt = Attempt::default();
        let Outcome::Challenge { stale } =
            outcome(&server, START_MS, &register(&phone.credentials()))
        else {
            panic!("accepted a nonce from before the restart")
        };
        let again = challenge(&server, START_MS, Side::Registrar, stale);
        phone
            .auth
            .handle_challenge(&mut phone.attempt, &again)
            .expect("a new nonce");
        assert_eq!(
            outcome(&server, START_MS, &register(&phone.credentials())),
            alice()
        );
    }
}

#[test]
fn a_phone_that_does_md5_alone_is_offered_md5_alone() {
    let offered = |algorithms: Vec<Algorithm>, user_agent: &[u8]| {
        let config = AuthConfig {
            algorithms,
            ..AuthConfig::default()
        };
        let server = Authenticator::new(config, &KEY, 1);
        let mut out = Vec::new();
        let mut writer = MessageWriter::response(&mut out, 401, "Unauthorized");
        server.add_challenge(
            START_MS,
            Side::Registrar,
            "example.org",
            false,
            0,
            &Claimant {
                user_agent,
                ..Claimant::default()
            },
            &mut writer,
        );
        writer.finish(b"");
        let text = String::from_utf8(out).expect("text");
        ["SHA-256", "MD5"].map(|name| text.matches(&format!("algorithm={name}")).count())
    };
    let both = vec![Algorithm::Sha256, Algorithm::Md5];
    assert_eq!(
        offered(both.clone(), b"baresip v1.0.0 (x86_64/linux)"),
        [0, 1]
    );
    assert_eq!(offered(both.clone(), b"baresip v3.1.0"), [1, 1]);
    assert_eq!(offered(both, b""), [1, 1]);
    // Where the operator does not offer MD5, no phone is offered it.
    assert_eq!(offered(vec![Algorithm::Sha256], b"baresip v1.0.0"), [1, 0]);
}
