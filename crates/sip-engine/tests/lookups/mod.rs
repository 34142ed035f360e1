//! What stores say, and what that tells who asks: caches, stores that verify by
//! themselves, stores that do not tell who exists, stores that are away.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod refusals;

use std::sync::Arc;

use crate::common::*;
use sip_auth::{Attempt, AuthConfig, ClientAuth, Failure, Ha1, Reply, RequestParts, Subject};
use sip_engine::settings::{AuthSettings, Settings, TrustedPeer};
use sip_engine::token::TokenKeys;
use sip_engine::{Effect, ParkId};
use sip_lookup::{Outcome, Question, Unavailable, Why};
use sip_msg::{Flow, HeaderName, Transport};

const TIMEOUT_MS: u64 = 4_000;

fn server(auth: AuthSettings, config: AuthConfig) -> Bed {
    let settings = Settings {
        authenticate: Some(auth),
        ..settings()
    };
    Bed::with_auth(settings, Arc::new(TokenKeys::of([4; 32], 1)), 5, config)
}

fn plain() -> Bed {
    server(AuthSettings::default(), AuthConfig::default())
}

fn verifying() -> Bed {
    let auth = AuthSettings {
        tells_unknown_users: false,
        ..AuthSettings::default()
    };
    let config = AuthConfig {
        store_verifies: true,
        ..AuthConfig::default()
    };
    server(auth, config)
}

fn phone(transport: Transport) -> Flow {
    flow(transport, "198.51.100.66:40001")
}

/// A question that the store was asked.
#[derive(Debug)]
struct Asked {
    park: ParkId,
    question: Question,
    until_ms: u64,
}

#[track_caller]
fn asked(bed: &mut Bed) -> Asked {
    match bed.effects.pop() {
        Some(Effect::FindCredential {
            park,
            question,
            until_ms,
        }) => Asked {
            park,
            question,
            until_ms,
        },
        other => panic!("the store was not asked: {other:?}"),
    }
}

fn answer(bed: &mut Bed, park: ParkId, outcome: Outcome) -> Vec<Sent> {
    bed.act(|shard, now, out| shard.handle_credential(now, park, outcome, out))
}

/// A request of alice with her password, in answer to a challenge.
fn sign(bed: &mut Bed, flow: &Flow, method: &str, password: &str) -> String {
    let uri = match method {
        "REGISTER" => "sip:example.org",
        _ => "sip:bob@example.org",
    };
    let mut first = request(method, uri, flow.transport);
    first.from = "<sip:alice@example.org>;tag=a".to_owned();
    if method == "REGISTER" {
        first.to = "<sip:alice@example.org>".to_owned();
    }
    let challenge = only(bed.receive(flow, &first.text()));
    let mut client = ClientAuth::new();
    client.add("example.org", "alice", password);
    let mut attempt = Attempt::default();
    client
        .handle_challenge(&mut attempt, &challenge.message)
        .unwrap();
    let parts = RequestParts {
        method: method.as_bytes(),
        uri: uri.as_bytes(),
        body: b"",
    };
    let mut line = Vec::new();
    client.write_credentials(&mut attempt, parts, 7, &mut line);
    first.via.push_str("again");
    first.with(std::str::from_utf8(&line).unwrap()).text()
}

fn secret(question: &Question, password: &str) -> Ha1 {
    let user = question.subject.user();
    Ha1::compute(
        question.algorithm,
        user,
        b"example.org",
        password.as_bytes(),
    )
}

#[test]
fn what_a_cache_has_lets_in_whose_digest_it_matches_at_once() {
    for transport in TRANSPORTS {
        let mut bed = plain();
        let text = sign(&mut bed, &phone(transport), "MESSAGE", "new");
        bed.receive(&phone(transport), &text);
        let Asked { park, question, .. } = asked(&mut bed);
        assert!(question.why == Why::Digest && question.digest.is_none());
        let cached = Reply::Cached(secret(&question, "new"));
        // Bob has no contact, so the next question is about him: alice is let in.
        assert!(answer(&mut bed, park, Ok(cached)).is_empty());
        assert_eq!(asked(&mut bed).question.subject.user(), b"bob");
    }
}

#[test]
fn what_a_cache_has_tells_nobody_else_anything_and_the_store_is_asked_in_its_place() {
    for transport in TRANSPORTS {
        for (password, status, failure) in [
            ("new", 200, None),
            ("wrong", 401, Some(Failure::WrongPassword)),
        ] {
            let mut bed = plain();
            let text = sign(&mut bed, &phone(transport), "REGISTER", password);
            bed.receive(&phone(transport), &text);
            let first = asked(&mut bed);
            bed.wait(1);
            let cached = Reply::Cached(secret(&first.question, "old"));
            let sent = answer(&mut bed, first.park, Ok(cached));
            assert!(sent.is_empty(), "nobody is answered by a cache");
            let second = asked(&mut bed);
            assert_eq!(second.question.why, Why::DigestAgain);
            assert_eq!(second.question.subject, first.question.subject);
            assert_eq!(second.question.algorithm, first.question.algorithm);
            assert_eq!(second.until_ms, first.until_ms, "no longer for that");
            // A copy of the request is absorbed, an answer to the first question is late.
            assert!(bed.receive(&phone(transport), &text).is_empty());
            let late = Reply::Secret(secret(&first.question, password));
            assert!(answer(&mut bed, first.park, Ok(late)).is_empty());
            assert_eq!(bed.shard.counters().answers_late, 1);
            let new = Reply::Secret(secret(&second.question, "new"));
            let mut sent = answer(&mut bed, second.park, Ok(new));
            if let Some(Effect::SaveBindings { park, .. }) = bed.effects.pop() {
                sent = bed.act(|shard, now, out| shard.handle_saved(now, park, Ok(()), out));
            }
            assert_eq!(only(sent).status(), status, "{password}");
            for of in Failure::ALL {
                let counted = bed.shard.counters().auth_failures_of(of);
                assert_eq!(counted, u64::from(failure == Some(of)), "{of:?}");
            }
            bed.wait(70_000);
            assert_eq!(bed.shard.in_flight(), 0);
        }
    }
}

#[test]
fn unknown_users_and_wrong_passwords_are_one_answer_whatever_a_cache_had() {
    let mut answers = Vec::new();
    for (cached, said) in [
        (Some("old"), Reply::Unknown),
        (None, Reply::Unknown),
        (Some("old"), Reply::Verified(false)),
        (Some("old"), Reply::Verified(true)),
    ] {
        let mut bed = plain();
        let text = sign(&mut bed, &phone(Transport::Udp), "REGISTER", "guess");
        bed.receive(&phone(Transport::Udp), &text);
        let mut last = asked(&mut bed);
        if let Some(password) = cached {
            let reply = Reply::Cached(secret(&last.question, password));
            assert!(answer(&mut bed, last.park, Ok(reply)).is_empty());
            last = asked(&mut bed);
        }
        let sent = only(answer(&mut bed, last.park, Ok(said)));
        assert_eq!(sent.status(), 401);
        // What is the request's own has numbers in it that grow.
        let own = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"];
        let lines = sent.text.lines();
        let told = lines.filter(|line| !own.iter().any(|name| line.starts_with(name)));
        let length: usize = told.map(str::len).sum();
        assert!(length > 100, "{}", sent.text);
        answers.push((length, sent.text.contains("stale")));
    }
    assert_eq!(answers, [answers[0]; 4]);
    assert!(!answers[0].1);
}

#[test]
fn a_second_question_is_given_up_when_the_first_would_have_been() {
    for (method, status) in [("REGISTER", "500"), ("INVITE", "503")] {
        let mut bed = plain();
        let text = sign(&mut bed, &phone(Transport::Udp), method, "new");
        bed.receive(&phone(Transport::Udp), &text);
        let first = asked(&mut bed);
        assert_eq!(first.until_ms, bed.now.mono_ms + TIMEOUT_MS);
        bed.wait(3_000);
        let cached = Reply::Cached(secret(&first.question, "old"));
        assert!(answer(&mut bed, first.park, Ok(cached)).is_empty());
        assert!(bed.wait(900).iter().all(|sent| sent.status() == 100));
        assert!(
            kinds(&bed.wait(200)).contains(&status.to_owned()),
            "{method}"
        );
        assert_eq!(bed.shard.counters().lookups_expired, 1);
        bed.wait(70_000);
        assert_eq!(bed.shard.in_flight(), 0);
    }
}

#[test]
fn while_the_store_is_away_a_cache_lets_in_and_wrong_digests_are_told_to_come_again() {
    let mut bed = plain();
    let text = sign(&mut bed, &phone(Transport::Tcp), "REGISTER", "new");
    bed.receive(&phone(Transport::Tcp), &text);
    let Asked { park, question, .. } = asked(&mut bed);
    let cached = Reply::Cached(secret(&question, "new"));
    assert!(answer(&mut bed, park, Ok(cached)).is_empty());
    assert!(matches!(bed.effects[..], [Effect::SaveBindings { .. }]));
    bed.effects.clear();
    let away = Unavailable {
        retry_after_s: Some(23),
    };
    let text = sign(&mut bed, &phone(Transport::Tcp), "REGISTER", "guess");
    bed.receive(&phone(Transport::Tcp), &text);
    let first = asked(&mut bed);
    let cached = Reply::Cached(secret(&first.question, "new"));
    answer(&mut bed, first.park, Ok(cached));
    let second = asked(&mut bed);
    let sent = only(answer(&mut bed, second.park, Err(away)));
    assert_eq!(sent.status(), 500);
    assert_eq!(sent.header(HeaderName::RetryAfter).as_deref(), Some("23"));
    let counted = |bed: &Bed, of| bed.shard.counters().auth_failures_of(of);
    assert_eq!(counted(&bed, Failure::StoreUnavailable), 1);
    assert_eq!(counted(&bed, Failure::WrongPassword), 0);
}

#[test]
fn guesses_at_who_is_in_a_cache_are_looked_up_no_more_often() {
    let mut bed = plain();
    let attacker = phone(Transport::Udp);
    let (mut first, mut second) = (0, 0);
    for guess in 0..40 {
        let text = sign(&mut bed, &attacker, "REGISTER", &format!("guess{guess}"));
        bed.receive(&attacker, &text);
        while let Some(effect) = bed.effects.pop() {
            let Effect::FindCredential { park, question, .. } = effect else {
                continue;
            };
            let ha1 = secret(&question, "new");
            let is_second = question.why == Why::DigestAgain;
            let reply = match is_second {
                true => Reply::Secret(ha1),
                false => Reply::Cached(ha1),
            };
            first += u64::from(!is_second);
            second += u64::from(is_second);
            answer(&mut bed, park, Ok(reply));
        }
        bed.wait(50);
    }
    // Five failures of one user from one source, however many answers each took.
    assert_eq!((first, second), (5, 5));
    bed.wait(600_000);
    assert_eq!(bed.shard.in_flight(), 0);
}

/// A guess at alice, whose secret a cache has: whether that was compared with it, and let
/// him in. The store's word is for the caller to give.
fn is_let_in_by_cache(bed: &mut Bed, flow: &Flow, method: &str, password: &str) -> (bool, String) {
    let text = sign(bed, flow, method, password);
    bed.receive(flow, &text);
    let Asked { park, question, .. } = asked(bed);
    assert_eq!(question.why, Why::Digest);
    let cached = Reply::Cached(secret(&question, "new"));
    answer(bed, park, Ok(cached));
    let Some(effect) = bed.effects.pop() else {
        panic!("neither let in nor asked again");
    };
    let is_in = match &effect {
        Effect::FindCredential { question, .. } => question.why == Why::Existence,
        _ => true,
    };
    bed.effects.push(effect);
    (is_in, text)
}

#[test]
fn while_the_store_is_away_guesses_at_who_is_in_a_cache_are_bounded_and_told_nothing() {
    let mut bed = plain();
    let attacker = phone(Transport::Udp);
    for guess in 0..40 {
        let password = format!("guess{guess}");
        let (is_in, _) = is_let_in_by_cache(&mut bed, &attacker, "REGISTER", &password);
        assert!(!is_in);
        let second = asked(&mut bed);
        let sent = only(answer(&mut bed, second.park, Err(NO_ANSWER)));
        assert_eq!(sent.status(), 500, "as if nobody knew him");
        bed.wait(50);
    }
    // Past the bound he is not let in although he is right, and the answer is the same.
    let (is_in, _) = is_let_in_by_cache(&mut bed, &attacker, "REGISTER", "new");
    assert!(!is_in);
    let second = asked(&mut bed);
    let sent = only(answer(&mut bed, second.park, Err(NO_ANSWER)));
    assert_eq!(sent.status(), 500);
    assert_eq!(
        bed.shard
            .counters()
            .auth_failures_of(Failure::WrongPassword),
        0
    );
    // Alice, at home.
    let home = flow(Transport::Udp, "203.0.113.7:5060");
    assert!(is_let_in_by_cache(&mut bed, &home, "MESSAGE", "new").0);
    bed.effects.clear();
    // And there, when it is forgotten.
    bed.wait(30_000);
    assert!(is_let_in_by_cache(&mut bed, &attacker, "MESSAGE", "new").0);
}

#[test]
fn who_cancels_before_the_store_has_answered_has_guessed_all_the_same() {
    let mut bed = plain();
    let attacker = phone(Transport::Udp);
    for guess in 0..40 {
        let password = format!("guess{guess}");
        let (is_in, invite) = is_let_in_by_cache(&mut bed, &attacker, "INVITE", &password);
        assert!(!is_in);
        bed.effects.clear();
        let head = invite
            .split("Proxy-Authorization")
            .next()
            .unwrap_or_default();
        let cancel = head.replace("INVITE", "CANCEL") + "Content-Length: 0\r\n\r\n";
        let sent = bed.receive(&attacker, &cancel);
        assert!(
            kinds(&sent).contains(&"487".to_owned()),
            "{:?}",
            kinds(&sent)
        );
        bed.wait(50);
    }
    let (is_in, _) = is_let_in_by_cache(&mut bed, &attacker, "INVITE", "new");
    assert!(!is_in, "he is not told that he is right");
    bed.effects.clear();
    let home = flow(Transport::Udp, "203.0.113.7:5060");
    assert!(is_let_in_by_cache(&mut bed, &home, "INVITE", "new").0);
}

#[test]
fn a_cache_is_told_who_has_proved_himself_and_of_nobody_else() {
    let auth = AuthSettings {
        tells_who_is_proved: true,
        ..AuthSettings::default()
    };
    for (auth, password, is_told) in [
        (auth.clone(), "new", true),
        (auth, "guess", false),
        (AuthSettings::default(), "new", false),
    ] {
        let mut bed = server(auth, AuthConfig::default());
        let text = sign(&mut bed, &phone(Transport::Udp), "REGISTER", password);
        bed.receive(&phone(Transport::Udp), &text);
        let Asked { park, question, .. } = asked(&mut bed);
        let reply = Reply::Secret(secret(&question, "new"));
        answer(&mut bed, park, Ok(reply));
        let told: Vec<&Subject> = bed
            .effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Proved(subject) => Some(subject),
                _ => None,
            })
            .collect();
        assert_eq!(told, vec![&question.subject; usize::from(is_told)]);
    }
}

#[test]
fn a_store_that_verifies_lets_in_by_its_word_once_and_nobody_else() {
    for transport in TRANSPORTS {
        for (method, is_right, statuses) in [
            ("REGISTER", true, [200, 401]),
            ("REGISTER", false, [401, 401]),
            ("INVITE", false, [407, 407]),
        ] {
            let mut bed = verifying();
            let text = sign(&mut bed, &phone(transport), method, "new");
            // Once more in another transaction: a digest is good once.
            let copy = text.replacen("again", "oncemore", 1);
            for (text, status) in [text, copy].iter().zip(statuses) {
                bed.receive(&phone(transport), text);
                let Asked { park, question, .. } = asked(&mut bed);
                let digest = question.digest.expect("the digest itself is verified");
                assert_eq!(
                    (&digest.user[..], &*digest.realm),
                    (&b"alice"[..], "example.org")
                );
                assert_eq!(digest.method, method.as_bytes());
                let mut sent = answer(&mut bed, park, Ok(Reply::Verified(is_right)));
                if let Some(Effect::SaveBindings { park, .. }) = bed.effects.pop() {
                    sent = bed.act(|shard, now, out| shard.handle_saved(now, park, Ok(()), out));
                }
                if sent.is_empty() {
                    sent = bed.wait(1_000);
                }
                let last = sent.iter().map(Sent::status).find(|status| *status >= 200);
                assert_eq!(last, Some(status), "{method} {is_right}");
                bed.effects.clear();
            }
        }
    }
}

#[test]
fn who_is_proved_elsewhere_speaks_for_himself_alone() {
    let mut bed = verifying();
    let text = sign(&mut bed, &phone(Transport::Udp), "MESSAGE", "new");
    let text = text.replacen("<sip:alice@", "<sip:carol@", 1);
    bed.receive(&phone(Transport::Udp), &text);
    let Asked { park, .. } = asked(&mut bed);
    let sent = only(answer(&mut bed, park, Ok(Reply::Verified(true))));
    assert_eq!(sent.status(), 403);
    let counters = bed.shard.counters();
    assert_eq!(counters.auth_failures_of(Failure::NotHimself), 1);
}

#[test]
fn where_the_store_does_not_tell_who_exists_nobody_asks_and_nobody_is_404() {
    // RFC 3261 16.5: "If the target set remains empty after applying all of the above, the
    // proxy MUST return an error response, which SHOULD be the 480 (Temporarily Unavailable)
    // response."
    for transport in TRANSPORTS {
        let peer = flow(transport, "198.51.100.1:5060");
        let settings = Settings {
            authenticate: Some(AuthSettings {
                tells_unknown_users: false,
                ..AuthSettings::default()
            }),
            trusted: vec![TrustedPeer::at(peer.remote.ip(), 32)],
            ..settings()
        };
        let mut bed = Bed::new(settings);
        let invite = request("INVITE", "sip:bob@example.org", transport);
        assert_eq!(only(bed.receive(&peer, &invite.text())).status(), 480);
        assert!(bed.effects.is_empty());
    }
}

#[test]
fn whether_a_user_exists_is_asked_by_the_digest_that_most_have() {
    let peer = flow(Transport::Udp, "198.51.100.1:5060");
    for (algorithms, expected) in [
        (AuthConfig::default().algorithms, "MD5"),
        (vec![sip_auth::Algorithm::Sha256], "SHA-256"),
    ] {
        let mut bed = server(
            AuthSettings::default(),
            AuthConfig {
                algorithms,
                ..AuthConfig::default()
            },
        );
        let text = sign(&mut bed, &peer, "MESSAGE", "new");
        bed.receive(&peer, &text);
        let Asked { park, question, .. } = asked(&mut bed);
        let reply = Reply::Secret(secret(&question, "new"));
        answer(&mut bed, park, Ok(reply));
        let Asked { park, question, .. } = asked(&mut bed);
        assert_eq!(question.algorithm.as_str(), expected);
        // A cache would say it sooner where others have asked for him.
        assert_eq!(question.why, Why::Existence);
        let reply = Reply::Secret(secret(&question, "any"));
        assert_eq!(only(answer(&mut bed, park, Ok(reply))).status(), 480);
    }
}
