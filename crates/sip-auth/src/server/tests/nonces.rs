//! Nonces, their counts and what makes them stale.

use super::*;

#[test]
fn a_replay_is_refused_a_hundred_thousand_times() {
    let server = server();
    let message = register(&Phone::new(&server, "alice", PASSWORD).credentials());
    assert_eq!(outcome(&server, START_MS, &message), alice());
    for _ in 0..100_000 {
        assert_eq!(outcome(&server, START_MS + 1, &message), STALE);
    }
    let counters = server.counters();
    assert_eq!((counters.replays, counters.replay_entries), (100_000, 1));
}

#[test]
fn counts_may_overtake_each_other() {
    let server = server();
    let mut phone = Phone::new(&server, "alice", PASSWORD);
    let mut requests: Vec<_> = (0..20).map(|_| register(&phone.credentials())).collect();
    requests.reverse();
    for message in &requests {
        assert_eq!(outcome(&server, START_MS, message), alice());
    }
    for message in &requests {
        assert_eq!(outcome(&server, START_MS, message), STALE);
    }
}

#[test]
fn qop_without_count_or_client_nonce_is_malformed() {
    let server = server();
    for (name, reason) in [
        ("nc", "Digest Nonce Count Missing"),
        ("cnonce", "Digest Client Nonce Missing"),
    ] {
        let credentials = with_param(
            &Phone::new(&server, "alice", PASSWORD).credentials(),
            name,
            "",
        );
        assert_eq!(
            outcome(&server, START_MS, &register(&credentials)),
            Outcome::Malformed(reason)
        );
    }
}

#[test]
fn the_form_of_rfc_2069_is_challenged_even_if_its_digest_is_right() {
    let server = server();
    // The same challenge without qop makes the client answer in the old form.
    let mut lines = Vec::new();
    server.write_challenge(START_MS, Side::Registrar, "example.org", false, &mut lines);
    let old = String::from_utf8(lines)
        .expect("text")
        .replace(", qop=\"auth\"", "");
    let mut phone = Phone::new(&server, "alice", PASSWORD);
    phone.auth.forget_nonces();
    phone.attempt = Attempt::default();
    phone
        .auth
        .handle_challenge(&mut phone.attempt, &response(Side::Registrar, &old))
        .expect("old but good");
    let credentials = phone.credentials();
    // RFC 3261 22.4: "These mechanisms MUST be used by a server to determine if the client supports the
    // new mechanisms in RFC 2617 that were not specified in RFC 2069."
    assert!(!credentials.contains("qop") && !credentials.contains("nc="));
    assert_eq!(outcome(&server, START_MS, &register(&credentials)), FRESH);
}

#[test]
fn a_wrong_digest_with_a_high_count_does_not_poison() {
    let server = server();
    let mut phone = Phone::new(&server, "alice", PASSWORD);
    let first = phone.credentials();
    for nc in ["ffffffff", "00000041", "00000001"] {
        let forged = with_param(
            &with_param(&first, "nc", nc),
            "response",
            &format!("\"{}\"", "0".repeat(64)),
        );
        assert_eq!(outcome(&server, START_MS, &register(&forged)), FRESH);
    }
    assert_eq!(server.counters().replay_entries, 0);
    assert_eq!(outcome(&server, START_MS, &register(&first)), alice());
}

#[test]
fn nonces_of_another_process_node_or_time_are_stale() {
    let old = server();
    let credentials = Phone::new(&old, "alice", PASSWORD).credentials();
    let message = register(&credentials);
    // A restart, the clock going on, standing still or set back.
    let restarted = Authenticator::new(config(), &KEY, 2);
    for unix_ms in [START_MS + 10, START_MS, START_MS - 1_000_000] {
        assert_eq!(outcome(&restarted, unix_ms, &message), STALE);
    }
    let other_node = Authenticator::new(
        AuthConfig {
            node_id: 1,
            ..config()
        },
        &KEY,
        1,
    );
    assert_eq!(outcome(&other_node, START_MS, &message), STALE);
    // A secret of its own cannot tell: no user is asked again all the same, as
    // the client sees that the nonce worked before.
    let stranger = Authenticator::new(config(), &[1; 32], 1);
    assert_eq!(outcome(&stranger, START_MS, &message), FRESH);
    assert_eq!(outcome(&old, START_MS + 300_000, &message), STALE);
    assert_eq!(outcome(&old, START_MS + 299_999, &message), alice());
}

#[test]
fn a_nonce_that_expires_while_the_store_is_asked_is_stale() {
    let server = server();
    let message = register(&Phone::new(&server, "alice", PASSWORD).credentials());
    let Check::Lookup(pending) =
        server.check(START_MS + 299_999, &message, Side::Registrar, &realm())
    else {
        panic!("fresh yet")
    };
    let set = Ha1Set::compute(b"alice", b"example.org", PASSWORD.as_bytes());
    let reply = secret(&set, pending.key().algorithm());
    assert!(matches!(
        server.finish(START_MS + 300_000, pending, &reply),
        Verdict::Challenge(Failure::Stale)
    ));
}

#[test]
fn a_nonce_is_good_in_its_realm_only() {
    let server = server();
    let mut lines = Vec::new();
    server.write_challenge(START_MS, Side::Registrar, "example.com", false, &mut lines);
    let theirs = String::from_utf8(lines).expect("text");
    let nonce = theirs.split('"').nth(3).expect("a nonce");
    let credentials = with_param(
        &Phone::new(&server, "alice", PASSWORD).credentials(),
        "nonce",
        &format!("\"{nonce}\""),
    );
    assert_eq!(outcome(&server, START_MS, &register(&credentials)), FRESH);
}

#[test]
fn past_the_windows_bound_nothing_is_accepted_twice() {
    let server = Authenticator::new(
        AuthConfig {
            replay_entries_max: 0,
            ..config()
        },
        &KEY,
        1,
    );
    let messages: Vec<_> = (0..2_000)
        .map(|_| register(&Phone::new(&server, "alice", PASSWORD).credentials()))
        .collect();
    for message in &messages {
        assert_eq!(outcome(&server, START_MS, message), alice());
    }
    for message in &messages {
        assert_eq!(outcome(&server, START_MS, message), STALE);
    }
    let counters = server.counters();
    assert!(
        counters.forgotten > 0 && counters.replays > 0 && counters.replay_entries <= 256,
        "{counters:?}"
    );
    assert_eq!(counters.replay_evictions, 2_000 - counters.replay_entries);
}
