//! Phones as they are: with several answers to one challenge, with their domain in the
//! user name, with digests from before 1999.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::sync::Arc;

use crate::common::*;
use sip_auth::{
    Algorithm, Attempt, AuthConfig, ClientAuth, Failure, Ha1, Lenient, Reply, RequestParts,
};
use sip_engine::Effect;
use sip_engine::refusal::Reason;
use sip_engine::settings::{AuthSettings, Settings};
use sip_engine::token::TokenKeys;
use sip_msg::{Flow, Limits, Message, Transport};

const NEAR: &str = "10.1.0.7:5060";
const FAR: &str = "203.0.113.7:5060";

fn server(lenient: Vec<Lenient>) -> Bed {
    let settings = Settings {
        authenticate: Some(AuthSettings::default()),
        ..settings()
    };
    let auth = AuthConfig {
        lenient,
        ..AuthConfig::default()
    };
    Bed::with_auth(settings, Arc::new(TokenKeys::of([4; 32], 1)), 5, auth)
}

/// An entry for the phones near by.
fn nearby() -> Lenient {
    Lenient {
        networks: vec!["10.1.0.0/16".parse().unwrap()],
        ..Lenient::default()
    }
}

fn register(flow: &Flow, credentials: &str) -> Request {
    let mut register = request("REGISTER", "sip:example.org", flow.transport);
    register.to = "<sip:alice@example.org>".into();
    register.from = "<sip:alice@example.org>;tag=a".into();
    register.via = register.via.replace("198.51.100.1", "10.0.0.9") + ";rport";
    register.call_id = register.via.replace([' ', '/', ';', ':', '='], "-");
    register.with(credentials)
}

/// A challenge as a phone reads it that knows nothing else.
fn as_read(challenge: &Sent, cut: &[&str]) -> Message {
    let is_kept = |line: &&str| cut.iter().all(|cut| !line.contains(cut));
    let lines: Vec<&str> = challenge.text.split("\r\n").filter(is_kept).collect();
    Message::parse(lines.join("\r\n").as_bytes(), &Limits::default()).unwrap()
}

fn without_qop(challenge: &Message) -> Message {
    let text = String::from_utf8_lossy(challenge.bytes()).replace(", qop=\"auth\"", "");
    Message::parse(text.as_bytes(), &Limits::default()).unwrap()
}

/// The credentials of a phone that gives that name and password.
fn credentials(challenge: &Message, name: &str, password: &str, uri: &str) -> String {
    let mut client = ClientAuth::new();
    client.add("example.org", name, password);
    let mut attempt = Attempt::default();
    client.handle_challenge(&mut attempt, challenge).unwrap();
    let parts = RequestParts {
        method: b"REGISTER",
        uri: uri.as_bytes(),
        body: b"",
    };
    let mut line = Vec::new();
    client.write_credentials(&mut attempt, parts, 7, &mut line);
    String::from_utf8(line).unwrap()
}

fn challenged(bed: &mut Bed, flow: &Flow) -> Sent {
    let challenge = only(bed.receive(flow, &register(flow, "").text()));
    assert_eq!(challenge.status(), 401);
    assert!(bed.effects.is_empty());
    challenge
}

/// A store in which the password of `alice` and of `alice@example.org` is `alice`; how often
/// it was asked, and what was sent because of it.
fn store(bed: &mut Bed) -> (usize, Vec<Sent>) {
    let (mut asked, mut sent) = (0, Vec::new());
    while !bed.effects.is_empty() {
        match bed.effects.remove(0) {
            Effect::FindCredential { park, question, .. } => {
                asked += 1;
                let user = question.subject.user();
                let reply = match user {
                    b"alice" | b"alice@example.org" => {
                        let (realm, password) = (b"example.org", b"alice");
                        Reply::Secret(Ha1::compute(question.algorithm, user, realm, password))
                    }
                    _ => Reply::Unknown,
                };
                sent.extend(bed.act(|shard, now, out| {
                    shard.handle_credential(now, park, Ok(reply), out);
                }));
            }
            Effect::SaveBindings { park, .. } => {
                sent.extend(bed.act(|shard, now, out| shard.handle_saved(now, park, Ok(()), out)))
            }
            other => panic!("{other:?}"),
        }
    }
    (asked, sent)
}

#[test]
fn who_answers_each_challenge_is_let_in_by_the_one_that_he_answers_well() {
    for transport in TRANSPORTS {
        let mut bed = server(Vec::new());
        let phone = flow(transport, FAR);
        let challenge = challenged(&mut bed, &phone);
        let md5 = as_read(&challenge, &["algorithm=SHA-256"]);
        let good = credentials(&md5, "alice", "alice", "sip:example.org");
        let wrong = good.replace("algorithm=MD5", "algorithm=SHA-256");
        assert_ne!(wrong, good);
        // JAIN-SIP 1.3: an MD5 digest for each of them.
        let both = register(&phone, &format!("{wrong}{good}"));
        assert!(bed.receive(&phone, &both.text()).is_empty());
        let (asked, sent) = store(&mut bed);
        assert_eq!((asked, only(sent).status()), (1, 200), "{transport:?}");
        let counters = bed.shard.counters();
        assert!(
            Failure::ALL
                .iter()
                .all(|of| counters.auth_failures_of(*of) == 0)
        );

        // `npm sip` 0.0.6: the first alone. It is asked again, and its connection stays.
        let again = only(bed.receive(&phone, &register(&phone, &wrong).text()));
        assert_eq!(again.status(), 401, "{transport:?}");
        assert!(bed.effects.is_empty(), "{:?}", bed.effects);
        let counters = bed.shard.counters();
        assert_eq!(counters.auth_failures_of(Failure::OtherAlgorithm), 1);
        let told = bed.refused.last().unwrap();
        assert_eq!(
            (told.reason, told.status),
            (Reason::OtherAlgorithm, Some(401))
        );
    }
}

#[test]
fn a_connection_stays_after_a_400() {
    for transport in [Transport::Tcp, Transport::Tls] {
        let mut bed = server(Vec::new());
        let phone = flow(transport, FAR);
        let refused = register(&phone, "Authorization: Digest ,,\r\n");
        assert_eq!(only(bed.receive(&phone, &refused.text())).status(), 400);
        // It is counted, since nobody is wrong all the time, and not closed.
        assert!(
            matches!(bed.effects[..], [Effect::Odd(conn)] if conn == phone.conn),
            "{:?}",
            bed.effects
        );
        bed.effects.clear();
        challenged(&mut bed, &phone);
    }
}

#[test]
fn many_credentials_are_one_guess() {
    let mut bed = server(Vec::new());
    let attacker = flow(Transport::Udp, FAR);
    let mut looked_up = 0;
    for nth in 0..40 {
        let challenge = challenged(&mut bed, &attacker);
        let sha = as_read(&challenge, &["algorithm=MD5"]);
        let guesses: String = (0..8)
            .map(|guess| format!("guess{nth}-{guess}"))
            .map(|guess| credentials(&sha, "alice", &guess, "sip:example.org"))
            .collect();
        let guesses = register(&attacker, &guesses);
        bed.receive(&attacker, &guesses.text());
        let (asked, _) = store(&mut bed);
        assert!(asked <= 1, "{asked} look-ups of one request");
        looked_up += asked;
        bed.wait(50);
    }
    assert_eq!(looked_up, 5, "as many as where each request has one");
    let counters = bed.shard.counters();
    assert_eq!(counters.auth_failures_of(Failure::WrongPassword), 5);
    assert_eq!(counters.auth_failures_of(Failure::TooManyGuesses), 35);
}

#[test]
fn a_user_name_may_have_its_domain_behind_it() {
    for (name, status) in [
        ("alice@example.org", 200),
        ("alice@EXAMPLE.org", 401),
        ("alice@example.com", 401),
        ("bob@example.org", 401),
    ] {
        let mut bed = server(Vec::new());
        let phone = flow(Transport::Tcp, FAR);
        let challenge = challenged(&mut bed, &phone);
        let line = credentials(&challenge.message, name, "alice", "sip:example.org");
        let request = register(&phone, &line);
        let mut sent = bed.receive(&phone, &request.text());
        sent.extend(store(&mut bed).1);
        sent.extend(bed.wait(10_000));
        assert_eq!(only(sent).status(), status, "{name}");
        if status == 200 {
            // The contact is alice's, by whatever name she proved it.
            let mut found = Vec::new();
            let unix_ms = bed.now.unix_ms;
            bed.location
                .find(b"sip:alice@example.org", unix_ms, &mut found);
            assert_eq!(found.len(), 1);
        }
    }
    // It is she alone: bob's name is not in hers.
    let mut bed = server(Vec::new());
    let phone = flow(Transport::Tcp, FAR);
    let challenge = challenged(&mut bed, &phone);
    let line = credentials(
        &challenge.message,
        "alice@example.org",
        "alice",
        "sip:example.org",
    );
    let mut request = register(&phone, &line);
    request.to = "<sip:bob@example.org>".into();
    request.from = "<sip:bob@example.org>;tag=a".into();
    assert!(bed.receive(&phone, &request.text()).is_empty());
    assert_eq!(only(store(&mut bed).1).status(), 403);
}

#[test]
fn a_domain_behind_the_name_is_no_guess_more() {
    let mut bed = server(Vec::new());
    let attacker = flow(Transport::Udp, FAR);
    let mut looked_up = 0;
    for nth in 0..20 {
        let challenge = challenged(&mut bed, &attacker);
        let name = ["alice", "alice@example.org", "Alice@Example.ORG"][nth % 3];
        let line = credentials(&challenge.message, name, "guess", "sip:example.org");
        bed.receive(&attacker, &register(&attacker, &line).text());
        looked_up += store(&mut bed).0;
        bed.wait(50);
    }
    assert_eq!(looked_up, 5);
}

#[test]
fn phones_that_are_named_are_challenged_and_taken_as_they_can() {
    let entry = Lenient {
        algorithms: vec![Algorithm::Md5],
        qop_optional: true,
        uri_by_host: true,
        ..nearby()
    };
    for transport in TRANSPORTS {
        let mut bed = server(vec![entry.clone()]);
        let (near, far) = (flow(transport, NEAR), flow(transport, FAR));
        let challenge = challenged(&mut bed, &near);
        assert!(!challenge.text.contains("SHA-256"), "{}", challenge.text);
        // RFC 3261 22.4: "However, servers MUST always send a "qop" parameter in WWW-Authenticate and
        // Proxy-Authenticate header field values."
        assert!(challenge.text.contains("qop=\"auth\""));
        // pyVoIP 1.6: no qop, and the server's URI for whatever it asks.
        let old = without_qop(&challenge.message);
        let line = credentials(&old, "alice", "alice", "sip:example.org;transport=UDP");
        assert!(!line.contains("qop") && line.contains("transport=UDP"));
        assert!(
            bed.receive(&near, &register(&near, &line).text())
                .is_empty()
        );
        assert_eq!(only(store(&mut bed).1).status(), 200, "{transport:?}");
        // The same nonce once more, in another request: another nonce, and no question for
        // the password.
        assert!(
            bed.receive(&near, &register(&near, &line).text())
                .is_empty()
        );
        let stale = only(store(&mut bed).1);
        assert_eq!(stale.status(), 401);
        assert!(stale.text.contains("stale=true"), "{}", stale.text);
        assert_eq!(bed.shard.counters().auth_failures_of(Failure::Replay), 0);

        // All others are asked for what all are.
        let challenge = challenged(&mut bed, &far);
        assert!(challenge.text.contains("SHA-256"));
        let old = without_qop(&as_read(&challenge, &["algorithm=SHA-256"]));
        for (uri, status) in [
            ("sip:example.org", 401),
            ("sip:example.org;transport=UDP", 401),
        ] {
            let line = credentials(&old, "alice", "alice", uri);
            let refused = only(bed.receive(&far, &register(&far, &line).text()));
            assert_eq!(refused.status(), status);
            let told = bed.refused.last().unwrap();
            assert_eq!(told.reason, Reason::NotOffered);
        }
    }
}

#[test]
fn an_entry_for_a_user_changes_what_he_is_offered_and_nobody_else() {
    let entry = Lenient {
        users: vec!["alice".into()],
        algorithms: vec![Algorithm::Md5, Algorithm::Sha256],
        ..Lenient::default()
    };
    let mut bed = server(vec![entry]);
    let phone = flow(Transport::Udp, FAR);
    let offered = |sent: &Sent| {
        let names = sent.text.split("algorithm=").skip(1);
        names
            .map(|rest| rest.split(',').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let challenge = challenged(&mut bed, &phone);
    assert_eq!(offered(&challenge), ["MD5", "SHA-256"]);
    // `npm sip` takes the first and is let in by it.
    let first = as_read(&challenge, &["algorithm=SHA-256"]);
    let line = credentials(&first, "alice", "alice", "sip:example.org");
    assert!(
        bed.receive(&phone, &register(&phone, &line).text())
            .is_empty()
    );
    assert_eq!(only(store(&mut bed).1).status(), 200);
    let mut bobs = register(&phone, "");
    bobs.to = "<sip:bob@example.org>".into();
    let challenge = only(bed.receive(&phone, &bobs.text()));
    assert_eq!(offered(&challenge), ["SHA-256", "MD5"]);
}
