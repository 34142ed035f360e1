//! What stores say, caches among them, and stores that verify by themselves.

use super::*;

fn pending_of(server: &Authenticator, message: &Message) -> Pending {
    match server.check(START_MS, message, Side::Registrar, &realm()) {
        Check::Lookup(pending) => pending,
        other => panic!("{other:?}"),
    }
}

fn alices(password: &str, algorithm: Algorithm) -> Ha1 {
    Ha1::compute(algorithm, b"alice", b"example.org", password.as_bytes())
}

#[test]
fn what_a_cache_has_lets_in_and_tells_nobody_else_anything() {
    let server = server();
    let message = register(&Phone::new(&server, "alice", PASSWORD).credentials());
    // The password was changed: the cache has the one before.
    let pending = pending_of(&server, &message);
    let algorithm = pending.key().algorithm();
    let old = Reply::Cached(alices("the one before", algorithm));
    let Verdict::AskAgain(pending) = server.finish(START_MS, pending, &old) else {
        panic!("the store itself was not asked")
    };
    assert_eq!(server.counters().replay_entries, 0, "nothing is used up");
    // However often that happens, what was parked is as good as it was.
    let other = Algorithm::ALL.into_iter().find(|of| *of != algorithm);
    let of_another = Reply::Cached(alices(PASSWORD, other.expect("there are three")));
    let Verdict::AskAgain(pending) = server.finish(START_MS, pending, &of_another) else {
        panic!("the store itself was not asked")
    };
    let new = Reply::Secret(alices(PASSWORD, algorithm));
    assert!(matches!(
        server.finish(START_MS, pending, &new),
        Verdict::Ok(_)
    ));
    // A digest is good once, whoever knows it.
    let again = pending_of(&server, &message);
    let cached = Reply::Cached(alices(PASSWORD, algorithm));
    assert!(matches!(
        server.finish(START_MS, again, &cached),
        Verdict::Challenge(Failure::Replay)
    ));
    let next = register(&Phone::new(&server, "alice", PASSWORD).credentials());
    let next = pending_of(&server, &next);
    assert!(matches!(
        server.finish(START_MS, next, &cached),
        Verdict::Ok(_)
    ));
}

#[test]
fn what_a_cache_does_not_have_lets_in_nobody_and_the_store_is_asked() {
    let server = server();
    for password in [PASSWORD, "guess"] {
        let message = register(&Phone::new(&server, "alice", password).credentials());
        let pending = pending_of(&server, &message);
        let new = Reply::Secret(alices(PASSWORD, pending.key().algorithm()));
        let Verdict::AskAgain(pending) = server.finish(START_MS, pending, &Reply::NotCached) else {
            panic!("answered from a cache that has nothing")
        };
        let is_in = matches!(server.finish(START_MS, pending, &new), Verdict::Ok(_));
        assert_eq!(is_in, password == PASSWORD);
    }
}

#[test]
fn after_a_cache_was_wrong_the_store_says_why_nobody_is_let_in() {
    let server = server();
    for (said, failure) in [
        (Reply::Unknown, Failure::UnknownUser),
        (Reply::Verified(true), Failure::WrongPassword),
    ] {
        let message = register(&Phone::new(&server, "alice", "guess").credentials());
        let pending = pending_of(&server, &message);
        let cached = Reply::Cached(alices(PASSWORD, pending.key().algorithm()));
        let Verdict::AskAgain(pending) = server.finish(START_MS, pending, &cached) else {
            panic!("answered from a cache")
        };
        let verdict = server.finish(START_MS, pending, &said);
        assert!(matches!(verdict, Verdict::Challenge(of) if of == failure));
    }
}

fn verifying() -> Authenticator {
    let config = AuthConfig {
        store_verifies: true,
        offer_auth_int: true,
        authentication_info: true,
        ..config()
    };
    Authenticator::new(config, &KEY, 1)
}

#[test]
fn a_store_that_verifies_is_given_the_digest_as_often_as_it_is_asked() {
    let server = verifying();
    let body = "v=0";
    for qop in ["auth", "auth-int"] {
        let mut phone = Phone::new(&server, "al\"ice", PASSWORD);
        let line = phone.credentials_for("REGISTER", "sip:example.org", body);
        let line = with_param(&line, "qop", qop);
        let message = request("REGISTER", "sip:example.org", &line, body);
        let pending = pending_of(&server, &message);
        let digest = pending.digest().expect("a digest to verify");
        assert_eq!(pending.digest().as_ref(), Some(&digest));
        assert_eq!(
            (&digest.user[..], &*digest.realm, &digest.method[..]),
            (&b"al\"ice"[..], "example.org", &b"REGISTER"[..])
        );
        assert_eq!(
            (&digest.uri[..], &digest.nonce_count[..]),
            (&b"sip:example.org"[..], &b"00000001"[..])
        );
        assert_eq!(digest.qop.as_str(), qop);
        // RFC 5090 2.1.3: what it is given is all that it needs to compute the digest.
        let algorithm = digest.algorithm;
        let ha1 = Ha1::compute(algorithm, &digest.user, b"example.org", PASSWORD.as_bytes());
        let h = |parts: &[&[u8]]| hex(algorithm, &hash::joined(algorithm, parts));
        let mut a2 = vec![&digest.method[..], &digest.uri];
        assert_eq!(digest.body_digest.is_some(), qop == "auth-int");
        a2.extend(digest.body_digest.as_deref());
        let computed = h(&[
            ha1.hex().as_bytes(),
            &digest.nonce,
            &digest.nonce_count,
            &digest.cnonce,
            qop.as_bytes(),
            h(&a2).as_bytes(),
        ]);
        assert_eq!(
            hex(algorithm, &pending.expected(&ha1)).as_bytes(),
            computed.as_bytes()
        );
    }
    // The others are given none.
    let server = self::server();
    let message = register(&Phone::new(&server, "alice", PASSWORD).credentials());
    assert_eq!(pending_of(&server, &message).digest(), None);
}

#[test]
fn the_word_of_a_store_that_verifies_is_no_more_than_a_digest() {
    let server = verifying();
    let message = register(&Phone::new(&server, "alice", PASSWORD).credentials());
    let finish = |unix_ms, is_right| {
        let pending = pending_of(&server, &message);
        server.finish(unix_ms, pending, &Reply::Verified(is_right))
    };
    assert!(matches!(
        finish(START_MS, false),
        Verdict::Challenge(Failure::WrongPassword)
    ));
    assert!(matches!(
        finish(START_MS + 300_000, true),
        Verdict::Challenge(Failure::Stale)
    ));
    assert_eq!(server.counters().replay_entries, 0);
    let Verdict::Ok(who) = finish(START_MS, true) else {
        panic!("the store says that it is right")
    };
    assert_eq!((who.user(), &**who.realm()), (&b"alice"[..], "example.org"));
    // Nobody here knows what the answer would be signed with.
    assert!(!who.write_authentication_info(&mut Vec::new()));
    assert!(matches!(
        finish(START_MS, true),
        Verdict::Challenge(Failure::Replay)
    ));
}

#[test]
fn nobody_is_let_in_by_the_word_of_a_store_that_was_not_to_verify() {
    let server = server();
    let message = register(&Phone::new(&server, "alice", PASSWORD).credentials());
    let pending = pending_of(&server, &message);
    assert!(matches!(
        server.finish(START_MS, pending, &Reply::Verified(true)),
        Verdict::Challenge(Failure::WrongPassword)
    ));
}

#[test]
fn each_failure_has_its_reason() {
    let server = server();
    let good = || Phone::new(&server, "alice", PASSWORD).credentials();
    let why = |line: &str| match server.check(START_MS, &register(line), Side::Registrar, &realm())
    {
        Check::Challenge(why) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(why(""), None, "who has no credentials has not failed");
    let mut forged = Phone::new(
        &Authenticator::new(config(), &[1; 32], 1),
        "alice",
        PASSWORD,
    );
    assert_eq!(why(&forged.credentials()), Some(Failure::ForgedNonce));
    let old = Authenticator::new(config(), &KEY, 9);
    let mut old = Phone::new(&old, "alice", PASSWORD);
    assert_eq!(why(&old.credentials()), Some(Failure::Stale));
    for (param, with) in [("qop", ""), ("algorithm", "SHA-1")] {
        let line = with_param(&good(), param, with);
        assert_eq!(why(&line), Some(Failure::NotOffered), "{param}");
    }
}
