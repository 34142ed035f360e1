//! Strangers who guess passwords, and strangers who ask too much: slowed,
//! told of, left alone; and users who are in the same place and get in.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use crate::common::*;
use sip_auth::{Attempt, ClientAuth, Failure, Reply, RequestParts};
use sip_engine::Effect;
use sip_engine::refusal::{Reason, RefusalRecord};
use sip_engine::settings::{AuthSettings, Settings, TrustedPeer};
use sip_limit::{Allowance, Origin, RateLimits};
use sip_msg::{Flow, Message, Transport};

fn server() -> Bed {
    Bed::new(Settings {
        authenticate: Some(AuthSettings::default()),
        ..settings()
    })
}

fn client(user: &str, password: &str) -> ClientAuth {
    let mut client = ClientAuth::new();
    client.add("example.org", user, password);
    client
}

fn register(user: &str, credentials: &str) -> String {
    let mut register = request("REGISTER", "sip:example.org", Transport::Udp);
    let (_, branch) = register.via.rsplit_once('=').unwrap();
    register.call_id = format!("{user}-{branch}");
    register.to = format!("<sip:{user}@example.org>");
    register.from = format!("<sip:{user}@example.org>;tag=a");
    register.via.push_str(";rport");
    register.with(credentials).text()
}

fn signed(client: &mut ClientAuth, user: &str, challenge: &Message) -> String {
    let mut attempt = Attempt::default();
    client.handle_challenge(&mut attempt, challenge).unwrap();
    let parts = RequestParts {
        method: b"REGISTER",
        uri: b"sip:example.org",
        body: b"",
    };
    let mut line = Vec::new();
    client.write_credentials(&mut attempt, parts, 7, &mut line);
    register(user, std::str::from_utf8(&line).unwrap())
}

/// Answers the questions to the store; what is sent because of it, and whether
/// a credential was asked for. Everybody's password is his name.
fn store(bed: &mut Bed) -> (Vec<Sent>, bool) {
    let mut sent = Vec::new();
    let mut was_asked = false;
    while !bed.effects.is_empty() {
        match bed.effects.remove(0) {
            Effect::FindCredential { park, question, .. } => {
                was_asked = true;
                let reply = own_name(&question);
                sent.extend(bed.act(|shard, now, out| {
                    shard.handle_credential(now, park, Ok(reply), out);
                }));
            }
            Effect::SaveBindings { park, .. } => {
                sent.extend(bed.act(|shard, now, out| shard.handle_saved(now, park, Ok(()), out)))
            }
            _ => {}
        }
    }
    (sent, was_asked)
}

/// One try to register: whether a credential was looked up, and what was sent at once.
fn attempt(bed: &mut Bed, flow: &Flow, user: &str, password: &str) -> (bool, Vec<Sent>) {
    let challenge = only(bed.receive(flow, &register(user, "")));
    assert_eq!(challenge.status(), 401);
    let text = signed(&mut client(user, password), user, &challenge.message);
    let mut sent = bed.receive(flow, &text);
    let (more, was_asked) = store(bed);
    sent.extend(more);
    (was_asked, sent)
}

#[test]
fn guesses_at_a_user_are_looked_up_a_few_times_and_the_answer_tells_nothing() {
    let mut bed = server();
    let attacker = flow(Transport::Udp, "198.51.100.66:6666");
    let mut looked_up = 0;
    for guess in 0..200 {
        let (was_asked, _) = attempt(&mut bed, &attacker, "bob", &format!("guess{guess}"));
        looked_up += usize::from(was_asked);
        bed.wait(50);
    }
    assert_eq!(looked_up, 5, "in ten seconds");
    // The right password is not looked up either, and the answer is the same.
    let (was_asked, sent) = attempt(&mut bed, &attacker, "bob", "bob");
    assert!(!was_asked);
    assert_eq!(only(sent).status(), 401);
    assert_eq!(bed.guard.counters().guesses_refused, 196);
    let counters = bed.shard.counters();
    assert_eq!(counters.auth_failures_of(Failure::WrongPassword), 5);
    assert_eq!(counters.auth_failures_of(Failure::TooManyGuesses), 196);
}

#[test]
fn what_waits_for_a_silent_store_is_looked_at_less_and_less() {
    let mut bed = server();
    let attacker = flow(Transport::Udp, "198.51.100.66:6666");
    for guess in 0..20 {
        let challenge = only(bed.receive(&attacker, &register("bob", "")));
        let password = format!("guess{guess}");
        let text = signed(&mut client("bob", &password), "bob", &challenge.message);
        assert!(bed.receive(&attacker, &text).is_empty());
    }
    let asked = bed.effects.len();
    assert!(asked < 10, "{asked} are looked up, and the others wait");
    let (begun_ms, mut looks) = (bed.now.mono_ms, 0);
    while bed.now.mono_ms < begun_ms + 3_900 {
        let next_ms = bed.shard.next_deadline_ms().unwrap();
        bed.wait(next_ms.saturating_sub(bed.now.mono_ms).max(1));
        looks += 1;
    }
    assert!((5..30).contains(&looks), "{looks} in four seconds");
}

#[test]
fn what_was_refused_unseen_is_not_let_in_when_it_comes_again() {
    let mut bed = server();
    let attacker = flow(Transport::Udp, "198.51.100.66:6666");
    for guess in 0..5 {
        attempt(&mut bed, &attacker, "bob", &format!("guess{guess}"));
        bed.wait(50);
    }
    let phone = flow(Transport::Udp, "198.51.100.66:40001");
    let challenge = only(bed.receive(&phone, &register("bob", "")));
    let text = signed(&mut client("bob", "bob"), "bob", &challenge.message);
    assert_eq!(only(bed.receive(&phone, &text)).status(), 401);
    // The failures are forgotten before a client stops sending the same again.
    bed.wait(25_000);
    assert_eq!(only(bed.receive(&phone, &text)).status(), 401);
    assert!(!store(&mut bed).1);
    // With the nonce that came with the refusal he is looked up.
    let (was_asked, sent) = attempt(&mut bed, &phone, "bob", "bob");
    assert!(was_asked);
    assert_eq!(only(sent).status(), 200);
}

#[test]
fn a_wrong_answer_waits_longer_each_time_and_a_copy_of_it_changes_nothing() {
    let mut bed = server();
    let attacker = flow(Transport::Udp, "198.51.100.66:6666");
    for wait_ms in [0, 250, 500, 1_000] {
        let challenge = only(bed.receive(&attacker, &register("bob", "")));
        let text = signed(&mut client("bob", "wrong"), "bob", &challenge.message);
        bed.receive(&attacker, &text);
        let (mut sent, _) = store(&mut bed);
        if wait_ms > 0 {
            assert!(sent.is_empty());
            assert!(bed.receive(&attacker, &text).is_empty(), "absorbed");
            assert!(bed.wait(wait_ms - 10).is_empty(), "not before {wait_ms} ms");
            sent = bed.wait(20);
        }
        assert_eq!(only(sent).status(), 401);
    }
    let counters = bed.shard.counters();
    assert_eq!(counters.auth_failures_of(Failure::WrongPassword), 4);
}

#[test]
fn a_user_behind_the_same_address_gets_in_at_once() {
    let mut bed = server();
    let phone = flow(Transport::Udp, "198.51.100.66:40001");
    let (_, sent) = attempt(&mut bed, &phone, "bob", "bob");
    assert_eq!(only(sent).status(), 200);
    let attacker = flow(Transport::Udp, "198.51.100.66:6666");
    for guess in 0..50 {
        attempt(&mut bed, &attacker, "bob", &format!("guess{guess}"));
    }
    // Bob by his flow, and alice, who comes for the first time.
    for (user, place) in [
        ("bob", phone),
        ("alice", flow(Transport::Udp, "198.51.100.66:40002")),
    ] {
        let (was_asked, sent) = attempt(&mut bed, &place, user, user);
        assert!(was_asked);
        assert_eq!(only(sent).status(), 200, "{user}");
    }
}

#[test]
fn what_is_past_a_users_rate_makes_him_known_nowhere() {
    let mut bed = Bed::new(Settings {
        authenticate: Some(AuthSettings::default()),
        rates: RateLimits {
            user: Allowance {
                registrations_per_s: 1,
                ..Allowance::default()
            },
            burst_s: 1,
            ..RateLimits::default()
        },
        ..settings()
    });
    let mut statuses = Vec::new();
    for port in 0..50 {
        let place = flow(Transport::Udp, &format!("198.51.100.66:{}", 40_000 + port));
        let (was_asked, sent) = attempt(&mut bed, &place, "mallory", "mallory");
        assert!(was_asked);
        statuses.push(only(sent).status());
    }
    assert_eq!((statuses.remove(0), statuses), (200, vec![503; 49]));
    // Her address is shut for all who are not known there.
    let origin = |port: u16| Origin {
        remote: ([198, 51, 100, 66], port).into(),
        is_stream: false,
    };
    for _ in 0..20_000 {
        bed.guard.refused(bed.now.mono_ms, &origin(7), 500);
    }
    let known = (0..50).filter(|port| !bed.guard.is_shut(bed.now.mono_ms, &origin(40_000 + port)));
    assert_eq!(known.count(), 1);
}

#[test]
fn a_nonce_is_spent_by_three_wrong_answers() {
    let mut bed = server();
    let attacker = flow(Transport::Udp, "198.51.100.66:6666");
    let challenge = only(bed.receive(&attacker, &register("u0", "")));
    let mut asked = 0;
    for user in ["u1", "u2", "u3", "u4", "u5"] {
        let text = signed(&mut client(user, "wrong"), user, &challenge.message);
        bed.receive(&attacker, &text);
        asked += usize::from(store(&mut bed).1);
    }
    assert_eq!(asked, 3);
}

#[test]
fn the_operator_is_told_whom_they_try_and_from_where_and_not_each_time() {
    let mut bed = server();
    let attacker = flow(Transport::Udp, "198.51.100.66:6666");
    for n in 0..20 {
        let user = format!("user{n}");
        let challenge = only(bed.receive(&attacker, &register(&user, "")));
        let text = signed(&mut client(&user, "wrong"), &user, &challenge.message);
        bed.receive(&attacker, &text);
        let Some(Effect::FindCredential { park, .. }) = bed.effects.pop() else {
            panic!("no look-up");
        };
        bed.act(|shard, now, out| {
            shard.handle_credential(now, park, Ok(Reply::Unknown), out);
        });
        bed.wait(1_000);
    }
    let unknown = |record: &&RefusalRecord| record.reason == Reason::UnknownUser;
    let recorded: Vec<&RefusalRecord> = bed.refused.iter().filter(unknown).collect();
    assert_eq!(
        recorded.len(),
        20,
        "each once, and not again with its answer"
    );
    let told: Vec<&RefusalRecord> = recorded
        .into_iter()
        .filter(|record| record.tell.is_some())
        .collect();
    // Two in twenty seconds, and the second says how many there were between them.
    assert_eq!(told.len(), 2, "{told:?}");
    let (first, second) = (told[0], told[1]);
    assert_eq!((first.source, first.is_proven), (attacker.remote, true));
    assert_eq!(
        (&*first.user, &*first.from),
        ("user0", "sip:user0@example.org")
    );
    let more = |record: &RefusalRecord| record.tell.map(|tell| tell.more);
    assert_eq!((more(first), more(second)), (Some(0), Some(9)));
    let counters = bed.shard.counters();
    assert_eq!(counters.auth_failures_of(Failure::UnknownUser), 20);
}

#[test]
fn a_source_that_may_be_forged_is_told_of_as_such_and_a_name_as_it_is() {
    let mut bed = server();
    let attacker = flow(Transport::Udp, "203.0.113.9:6666");
    let victim = flow(Transport::Udp, "198.51.100.66:6666");
    let name = "x\\\" as \u{e4} ";
    for (source, is_proven) in [(victim, false), (attacker, true)] {
        let challenge = only(bed.receive(&attacker, &register("bob", "")));
        let mut mallory = client("x\" as \u{e4} ", "wrong");
        let mut attempt = Attempt::default();
        mallory
            .handle_challenge(&mut attempt, &challenge.message)
            .unwrap();
        let parts = RequestParts {
            method: b"REGISTER",
            uri: b"sip:example.org",
            body: b"",
        };
        let mut line = Vec::new();
        mallory.write_credentials(&mut attempt, parts, 7, &mut line);
        let line = String::from_utf8(line).unwrap();
        assert!(line.contains(name), "{line}");
        bed.receive(&source, &register("bob", &line));
        let Some(Effect::FindCredential { park, .. }) = bed.effects.pop() else {
            panic!("no look-up");
        };
        bed.act(|shard, now, out| {
            shard.handle_credential(now, park, Ok(Reply::Unknown), out);
        });
        let Some(record) = bed.refused.pop() else {
            panic!("nobody is told");
        };
        assert_eq!(record.reason, Reason::UnknownUser);
        assert_eq!(
            (record.source, record.is_proven),
            (source.remote, is_proven)
        );
        assert_eq!(&*record.user, "x\\x22\\x20as\\x20\\xc3\\xa4\\x20");
    }
}

#[test]
fn who_cancels_before_he_is_told_has_failed_all_the_same() {
    let mut bed = server();
    let attacker = flow(Transport::Udp, "198.51.100.66:6666");
    for _ in 0..3 {
        let mut invite = request("INVITE", "sip:carol@example.org", Transport::Udp);
        invite.from = "<sip:bob@example.org>;tag=a".to_owned();
        let challenge = only(bed.receive(&attacker, &invite.text()));
        let mut attempt = Attempt::default();
        let mut bob = client("bob", "wrong");
        bob.handle_challenge(&mut attempt, &challenge.message)
            .unwrap();
        let parts = RequestParts {
            method: b"INVITE",
            uri: b"sip:carol@example.org",
            body: b"",
        };
        let mut line = Vec::new();
        bob.write_credentials(&mut attempt, parts, 7, &mut line);
        invite.via.push_str("again");
        let mut cancel = request("CANCEL", "sip:carol@example.org", Transport::Udp);
        cancel.via = invite.via.clone();
        cancel.from = invite.from.clone();
        cancel.call_id = invite.call_id.clone();
        bed.receive(
            &attacker,
            &invite.with(std::str::from_utf8(&line).unwrap()).text(),
        );
        store(&mut bed);
        bed.receive(&attacker, &cancel.text());
    }
    let counters = bed.shard.counters();
    assert_eq!(counters.auth_failures_of(Failure::WrongPassword), 3);
    let of = |reason: Reason| move |record: &&RefusalRecord| record.reason == reason;
    let recorded = |reason| bed.refused.iter().filter(of(reason)).count();
    assert_eq!(recorded(Reason::WrongPassword), 3);
}

#[test]
fn a_source_that_is_refused_too_often_gets_words_then_silence_and_users_go_on() {
    let mut bed = server();
    let phone = flow(Transport::Udp, "198.51.100.66:40001");
    assert_eq!(
        only(attempt(&mut bed, &phone, "bob", "bob").1).status(),
        200
    );
    let under_way = bed.shard.in_flight();
    let flood = flow(Transport::Udp, "198.51.100.66:6666");
    let mut statuses = [0u32; 3];
    for _ in 0..12_000 {
        let sent = bed.receive(&flood, &register("carol", ""));
        bed.effects.clear();
        statuses[match sent.first().map(Sent::status) {
            Some(401) => 0,
            Some(503) => 1,
            _ => 2,
        }] += 1;
    }
    let [challenged, words, silent] = statuses;
    assert!((10_000..10_003).contains(&challenged), "{challenged}");
    assert_eq!(words, 20);
    assert!(silent > 1_900);
    assert_eq!(bed.shard.in_flight(), under_way);
    assert_eq!(
        only(attempt(&mut bed, &phone, "bob", "bob").1).status(),
        200
    );
    // From elsewhere nothing has changed, and the silence ends.
    let other = flow(Transport::Udp, "198.51.100.67:5060");
    assert_eq!(
        only(bed.receive(&other, &register("carol", ""))).status(),
        401
    );
    bed.wait(140_000);
    assert_eq!(
        only(bed.receive(&flood, &register("carol", ""))).status(),
        401
    );
}

#[test]
fn options_with_a_forged_source_are_answered_no_more_often_than_strangers_are_refused() {
    let mut bed = Bed::new(Settings {
        authenticate: Some(AuthSettings::default()),
        trusted: vec![TrustedPeer::at("198.51.100.9".parse().unwrap(), 32)],
        ..settings()
    });
    let phone = flow(Transport::Udp, "198.51.100.66:40001");
    assert_eq!(
        only(attempt(&mut bed, &phone, "bob", "bob").1).status(),
        200
    );
    let ask = |bed: &mut Bed, from: &Flow| {
        let options = request("OPTIONS", "sip:example.org", from.transport);
        bed.receive(from, &options.text()).first().map(Sent::status)
    };
    let forged = flow(Transport::Udp, "198.51.100.66:7");
    let mut statuses = [0u32; 3];
    for _ in 0..12_000 {
        statuses[match ask(&mut bed, &forged) {
            Some(200) => 0,
            Some(503) => 1,
            _ => 2,
        }] += 1;
    }
    let [answered, words, silent] = statuses;
    assert!((10_000..10_010).contains(&answered), "{answered}");
    assert_eq!(words, 20);
    assert!(silent > 1_900);
    // Nobody is shut out by that: neither who comes for the first time, nor who is known there.
    let new = flow(Transport::Udp, "198.51.100.66:40002");
    assert_eq!(
        only(bed.receive(&new, &register("carol", ""))).status(),
        401
    );
    for (transport, from) in [
        (Transport::Udp, "198.51.100.66:40001"),
        (Transport::Udp, "198.51.100.9:5060"),
        (Transport::Udp, "198.51.100.67:5060"),
        (Transport::Tcp, "198.51.100.66:7"),
    ] {
        let from = flow(transport, from);
        assert_eq!(ask(&mut bed, &from), Some(200), "{from:?}");
    }
}

#[test]
fn a_peer_in_the_list_is_never_refused_too_often() {
    let peer = "198.51.100.66:5060";
    let mut bed = Bed::new(Settings {
        authenticate: Some(AuthSettings::default()),
        trusted: vec![TrustedPeer::at("198.51.100.66".parse().unwrap(), 32)],
        ..settings()
    });
    let peer = flow(Transport::Udp, peer);
    for _ in 0..11_000 {
        let sent = bed.receive(&peer, &register("carol", ""));
        assert_eq!(only(sent).status(), 401);
    }
}

/// Before all domains are known nobody can say who is foreign: he is to come again, and is a
/// stranger until then.
#[test]
fn a_stranger_who_is_to_come_again_leaves_nothing_behind_and_is_charged_for_it() {
    let mut bed = Bed::new(Settings {
        authenticate: Some(AuthSettings {
            knows_all_domains: false,
            ..AuthSettings::default()
        }),
        ..forwarding(Transport::Udp, "203.0.113.200:5060")
    });
    let call = || {
        let mut invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
        invite.from = "<sip:mallory@far.example>;tag=a".to_owned();
        invite.text()
    };
    let flood = flow(Transport::Udp, "198.51.100.66:6666");
    for _ in 0..10_001 {
        assert_eq!(only(bed.receive(&flood, &call())).status(), 503);
    }
    assert_eq!(bed.shard.in_flight(), 0);
    assert_eq!(bed.shard.refusal_counts().of(Reason::ForeignFrom), 10_000);
    assert_eq!(bed.shard.refusal_counts().of(Reason::RefusedTooOften), 1);
    let gateway = flow(Transport::Udp, "203.0.113.200:5060");
    assert_eq!(only(bed.receive(&gateway, &call())).status(), 503);
    assert_eq!(bed.shard.refusal_counts().of(Reason::GatewayNotTrusted), 1);
    let counters = bed.shard.counters();
    assert_eq!(counters.auth_failures_of(Failure::StoreUnavailable), 0);
    assert!(bed.wait(40_000).is_empty(), "no answer is sent again");
}

#[test]
fn a_phone_that_is_new_gets_in_while_passwords_are_guessed_beside_it() {
    let mut bed = server();
    let attacker = flow(Transport::Udp, "198.51.100.66:6666");
    // With a challenge for each guess, and then with one for all.
    for guess in 0..11_000 {
        attempt(&mut bed, &attacker, "bob", &format!("guess{guess}"));
    }
    let challenge = only(bed.receive(&attacker, &register("bob", "")));
    let mut answered = 0;
    for _ in 0..11_000 {
        let text = signed(&mut client("bob", "wrong"), "bob", &challenge.message);
        answered += bed.receive(&attacker, &text).len();
        store(&mut bed);
    }
    assert!(answered < 10_100, "answers to guesses end: {answered}");
    assert_eq!(bed.guard.counters().sources_shut, 0);
    let phone = flow(Transport::Udp, "198.51.100.66:40002");
    let (was_asked, sent) = attempt(&mut bed, &phone, "alice", "alice");
    assert!(was_asked);
    assert_eq!(only(sent).status(), 200);
}

#[test]
fn with_nonces_from_elsewhere_a_forged_source_is_answered_no_longer_and_shuts_nobody_out() {
    let mut bed = server();
    let attacker = flow(Transport::Udp, "203.0.113.9:6666");
    let forged = flow(Transport::Udp, "198.51.100.66:6666");
    let mut reflected = 0;
    for guess in 0..6_000 {
        let challenge = only(bed.receive(&attacker, &register("bob", "")));
        reflected += bed.receive(&forged, &register("bob", "")).len();
        let user = format!("u{guess}");
        let text = signed(&mut client(&user, "wrong"), &user, &challenge.message);
        reflected += bed.receive(&forged, &text).len();
        reflected += store(&mut bed).0.len();
    }
    assert!(reflected < 10_100, "{reflected}");
    // The failures are the attacker's, not of the address that he forged.
    bed.wait(150_000);
    let phone = flow(Transport::Udp, "198.51.100.66:40002");
    let (was_asked, sent) = attempt(&mut bed, &phone, "alice", "alice");
    assert!(was_asked);
    assert_eq!(only(sent).status(), 200);
}

/// Sends so many attempts before the store answers the first; how many were looked
/// up, and how many were refused.
fn burst(bed: &mut Bed, flow: &Flow, password: &str) -> (usize, usize) {
    let mut texts = Vec::new();
    for _ in 0..60 {
        let challenge = only(bed.receive(flow, &register("bob", "")));
        texts.push(signed(
            &mut client("bob", password),
            "bob",
            &challenge.message,
        ));
    }
    let mut sent = Vec::new();
    for text in &texts {
        sent.extend(bed.receive(flow, text));
    }
    let is_question = |effect: &&Effect| matches!(effect, Effect::FindCredential { .. });
    let mut looked_up = 0;
    for _ in 0..600 {
        looked_up += bed.effects.iter().filter(is_question).count();
        sent.extend(store(bed).0);
        sent.extend(bed.wait(10));
    }
    let refused = sent.iter().filter(|sent| sent.status() == 401).count();
    (looked_up, refused)
}

#[test]
fn guesses_in_one_burst_are_looked_up_no_more_often_than_one_after_another() {
    let mut bed = server();
    let attacker = flow(Transport::Udp, "198.51.100.66:6666");
    assert_eq!(burst(&mut bed, &attacker, "wrong"), (5, 60));
}

#[test]
fn who_is_right_in_one_burst_waits_a_moment_and_gets_in_each_time() {
    let mut bed = server();
    let phone = flow(Transport::Udp, "198.51.100.66:40001");
    assert_eq!(burst(&mut bed, &phone, "bob"), (60, 0));
}

#[test]
fn who_waits_for_a_store_that_is_silent_is_not_told_that_he_is_wrong() {
    let mut bed = server();
    let phone = flow(Transport::Udp, "198.51.100.66:40001");
    let mut texts = Vec::new();
    for _ in 0..60 {
        let challenge = only(bed.receive(&phone, &register("bob", "")));
        let mut bob = client("bob", "bob");
        texts.push(signed(&mut bob, "bob", &challenge.message));
    }
    let mut sent = Vec::new();
    for text in &texts {
        sent.extend(bed.receive(&phone, text));
    }
    // Nobody answers, so whoever waits behind the first few has waited in vain.
    for _ in 0..1_000 {
        sent.extend(bed.wait(10));
    }
    let statuses = sent.iter().map(Sent::status).filter(|status| *status > 100);
    assert_eq!(statuses.collect::<Vec<_>>(), [500; 60]);
    bed.wait(60_000);
    assert_eq!(bed.shard.in_flight(), 0);
    // It answers again, and all places are free.
    bed.effects.clear();
    assert_eq!(burst(&mut bed, &phone, "bob"), (60, 0));
}

#[test]
fn who_seems_to_be_where_nobody_else_may_send_shows_that_he_is_there() {
    let mut bed = server();
    let home = flow(Transport::Udp, "198.51.100.66:40001");
    let inside = flow(Transport::Udp, "127.0.0.1:5099");
    let mut challenge = only(bed.receive(&home, &register("bob", "")));
    // With a nonce that was sent elsewhere the source may be forged: calls to bob would
    // go there. With the one that is sent there it is not.
    for (status, bindings) in [(401, 0), (200, 1)] {
        let text = signed(&mut client("bob", "bob"), "bob", &challenge.message);
        bed.receive(&inside, &text);
        challenge = only(store(&mut bed).0);
        assert_eq!(challenge.status(), status, "{}", challenge.text);
        assert_eq!(bed.location.bindings(), bindings);
        assert_eq!(challenge.text.contains("stale=true"), status == 401);
    }
}
