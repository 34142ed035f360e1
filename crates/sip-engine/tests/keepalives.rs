//! Keep-alives to phones behind address translations, and flows that end.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::common::*;
use sip_engine::registrar::FlowEnd;
use sip_engine::settings::{KeepAlive, Nat, NatRule, NatSettings, Settings};
use sip_engine::{BindingChange, Effect};
use sip_msg::{HeaderName, Target, Transport};

/// Where bob's packets come from.
const THERE: &str = "203.0.113.7:40007";
const INTERVAL_MS: u64 = 20_000;

fn keeping(keepalive: KeepAlive) -> NatSettings {
    NatSettings {
        keepalive,
        keepalive_interval_ms: INTERVAL_MS,
        ..NatSettings::default()
    }
}

fn settings_with(nat: NatSettings) -> Settings {
    let mut settings = Settings { nat, ..settings() };
    settings.registrar.durable = false;
    settings
}

fn server(nat: NatSettings) -> Bed {
    Bed::new(settings_with(nat))
}

/// A REGISTER of a phone at 10.9.9.9, as it leaves it.
fn register_text(user: &str, cseq: u32, contact: &str, more: &str) -> String {
    format!(
        "REGISTER sip:example.org SIP/2.0\r\nVia: SIP/2.0/UDP 10.9.9.9;rport;branch=z9hG4bK{user}{cseq}\r\n\
         From: <sip:{user}@example.org>;tag=b\r\nTo: <sip:{user}@example.org>\r\nCall-ID: {user}s\r\n\
         CSeq: {cseq} REGISTER\r\nMax-Forwards: 70\r\nContact: {contact}\r\n{more}Content-Length: 0\r\n\r\n"
    )
}

fn register(bed: &mut Bed, user: &str, remote: &str, cseq: u32) {
    let contact = format!("<sip:{user}@10.9.9.9:5060>");
    let phone = flow(Transport::Udp, remote);
    let sent = bed.receive(&phone, &register_text(user, cseq, &contact, ""));
    assert_eq!(only(sent).status(), 200, "{user}");
}

fn is_bound(bed: &Bed, user: &str) -> bool {
    let mut found = Vec::new();
    let aor = format!("sip:{user}@example.org");
    bed.location
        .find(aor.as_bytes(), bed.now.unix_ms, &mut found);
    !found.is_empty()
}

/// Answers an OPTIONS as a phone does.
fn answer(bed: &mut Bed, asked: &Sent) {
    assert_eq!(asked.method(), "OPTIONS");
    assert!(
        bed.receive(&answering(asked), &response(asked, 200, "t", ""))
            .is_empty()
    );
}

/// Waits for the next OPTIONS, which begins one.
fn asked(bed: &mut Bed) -> Sent {
    for _ in 0..400 {
        if let Some(sent) = bed.wait(100).into_iter().next() {
            return sent;
        }
    }
    panic!("nobody was asked");
}

fn ended(bed: &Bed) -> Vec<FlowEnd> {
    let effects = bed.effects.iter();
    effects
        .filter_map(|effect| match effect {
            Effect::FlowEnded { why, .. } => Some(*why),
            _ => None,
        })
        .collect()
}

#[test]
fn line_ends_leave_within_each_interval_while_a_phone_is_bound() {
    let mut bed = server(keeping(KeepAlive::Crlf));
    register(&mut bed, "bob", THERE, 1);
    let begun_ms = bed.now.mono_ms;
    let mut times_ms = vec![begun_ms];
    while bed.now.mono_ms < begun_ms + 300_000 {
        assert!(bed.wait(100).is_empty(), "no message leaves");
        for (to, cookie) in bed.line_ends.drain(..) {
            assert_eq!(to.remote, THERE.parse().unwrap());
            // From the address that it registered at: its translation knows no other.
            assert_eq!(to.local, Some("192.0.2.1".parse().unwrap()));
            assert_ne!(cookie, 0);
            times_ms.push(bed.now.mono_ms);
        }
    }
    let gaps = times_ms.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(gaps.clone().all(|gap_ms| gap_ms <= INTERVAL_MS + 100));
    assert!(
        gaps.skip(1)
            .all(|gap_ms| gap_ms >= INTERVAL_MS * 4 / 5 - 100)
    );
    assert!((15..=20).contains(&times_ms.len()), "{times_ms:?}");
    assert_eq!(bed.shard.counters().phones_kept, 1);
    // Not to a phone that has gone.
    let phone = flow(Transport::Udp, THERE);
    let gone = register_text("bob", 2, "*", "Expires: 0\r\n");
    assert_eq!(only(bed.receive(&phone, &gone)).status(), 200);
    bed.wait(60_000);
    assert!(bed.line_ends.is_empty());
    assert_eq!(bed.shard.counters().phones_kept, 0);
}

#[test]
fn nothing_is_sent_to_who_did_not_need_it_or_for_whom_it_is_off() {
    let off_there = NatSettings {
        networks: vec![NatRule {
            network: "203.0.113.0/24".parse().unwrap(),
            nat: Nat::Auto,
            keepalive: Some(KeepAlive::Off),
        }],
        ..keeping(KeepAlive::Crlf)
    };
    let on_there = NatSettings {
        networks: vec![NatRule {
            network: "203.0.113.0/24".parse().unwrap(),
            nat: Nat::Auto,
            keepalive: Some(KeepAlive::Crlf),
        }],
        ..keeping(KeepAlive::Off)
    };
    let plain = "<sip:bob@10.9.9.9:5060>";
    let learnt = format!("<sip:bob@{THERE}>");
    let outbound = "<sip:bob@10.9.9.9:5060>;reg-id=1;+sip.instance=\"<urn:uuid:1>\"";
    let wants_flow = "Supported: outbound\r\n";
    let edge = "Path: <sip:198.51.100.8;lr>\r\n";
    for (nat, transport, contact, more, is_kept) in [
        (NatSettings::default(), Transport::Udp, plain, "", false),
        (keeping(KeepAlive::Crlf), Transport::Udp, plain, "", true),
        (keeping(KeepAlive::Crlf), Transport::Tcp, plain, "", false),
        (
            keeping(KeepAlive::Crlf),
            Transport::Udp,
            outbound,
            wants_flow,
            false,
        ),
        (keeping(KeepAlive::Crlf), Transport::Udp, plain, edge, false),
        (
            keeping(KeepAlive::Crlf),
            Transport::Udp,
            "<sip:bob@198.51.100.7:5060>",
            "",
            false,
        ),
        // Who has read in an answer where his packets come from.
        (keeping(KeepAlive::Crlf), Transport::Udp, &learnt, "", true),
        (off_there, Transport::Udp, plain, "", false),
        (on_there, Transport::Udp, plain, "", true),
    ] {
        let mut bed = server(nat);
        let phone = flow(transport, THERE);
        let text = register_text("bob", 1, contact, more);
        let text = text.replace("/UDP", &format!("/{}", transport.via_name()));
        assert_eq!(only(bed.receive(&phone, &text)).status(), 200);
        assert!(bed.wait(2 * INTERVAL_MS).is_empty());
        assert_eq!(
            !bed.line_ends.is_empty(),
            is_kept,
            "{transport:?} {contact} {more}"
        );
    }
}

#[test]
fn a_phone_that_is_asked_and_answers_is_asked_again_and_stays() {
    let mut bed = server(keeping(KeepAlive::Options));
    register(&mut bed, "bob", THERE, 1);
    for nth in 0..20 {
        let asked = asked(&mut bed);
        assert_eq!(asked.to.remote, THERE.parse().unwrap());
        assert_eq!(asked.uri(), "sip:bob@10.9.9.9:5060");
        assert_eq!(asked.header(HeaderName::MaxForwards).unwrap(), "70");
        // Whatever it answers, it is there.
        let status = [200, 404, 405, 481, 486, 501, 503][nth % 7];
        let answer = response(&asked, status, "t", "");
        assert!(bed.receive(&answering(&asked), &answer).is_empty());
        assert!(bed.wait(5_000).is_empty(), "it is not repeated");
    }
    assert!(is_bound(&bed, "bob") && bed.line_ends.is_empty());
    let counters = bed.shard.counters();
    assert_eq!(counters.keepalives, [0, 20]);
    assert_eq!(counters.keepalives_unanswered, 0);
    assert_eq!(bed.shard.in_flight(), 0);
}

#[test]
fn who_answered_and_answers_no_more_is_not_called_any_more() {
    let mut bed = server(keeping(KeepAlive::Options));
    register(&mut bed, "bob", THERE, 1);
    let first = asked(&mut bed);
    answer(&mut bed, &first);
    for missed in 1..=3 {
        assert!(is_bound(&bed, "bob"), "after {} misses", missed - 1);
        asked(&mut bed);
        // RFC 3261 17.1.2.2 has it repeated: three times within the four seconds.
        assert_eq!(bed.wait(4_200).len(), 3);
        assert_eq!(bed.shard.counters().keepalives_unanswered, missed);
    }
    assert!(!is_bound(&bed, "bob"));
    assert_eq!(ended(&bed), [FlowEnd::Unanswered]);
    assert_eq!(bed.shard.registrar_counters().flows_ended, [1, 0]);
    let Some(Effect::FlowEnded {
        aor,
        contact,
        remote,
        ..
    }) = bed.effects.last()
    else {
        panic!("{:?}", bed.effects);
    };
    assert_eq!(**aor, *b"sip:bob@example.org");
    assert_eq!(**contact, *b"sip:bob@10.9.9.9:5060");
    assert_eq!(*remote, Some(THERE.parse().unwrap()));
    // Nothing more is sent, and who calls is told at once.
    assert!(bed.wait(60_000).is_empty() && bed.line_ends.is_empty());
    assert_eq!(bed.shard.counters().phones_kept, 0);
    let invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
    let sent = bed.receive(&alice(Transport::Udp), &invite.text());
    assert!(sent.iter().all(|sent| sent.status() != 0), "{sent:?}");
}

#[test]
fn an_answer_between_begins_the_count_anew() {
    let mut bed = server(keeping(KeepAlive::Options));
    register(&mut bed, "bob", THERE, 1);
    for _ in 0..5 {
        let first = asked(&mut bed);
        answer(&mut bed, &first);
        for _ in 0..2 {
            asked(&mut bed);
            bed.wait(4_200);
        }
    }
    assert!(is_bound(&bed, "bob"));
    assert_eq!(ended(&bed), []);
    // Nor does one that comes when its time is over.
    let late = asked(&mut bed);
    bed.wait(4_200);
    bed.receive(&answering(&late), &response(&late, 200, "t", ""));
    assert!(!is_bound(&bed, "bob"));
}

#[test]
fn who_never_answers_is_no_more_asked_and_not_put_out() {
    // A phone that knows no OPTIONS; or an address from which nobody has registered but who
    // forged it: it gets three of them, and line ends after that.
    let mut bed = server(keeping(KeepAlive::Options));
    register(&mut bed, "bob", THERE, 1);
    let mut sent = Vec::new();
    for _ in 0..100 {
        sent.extend(bed.wait(5_000));
    }
    assert!(is_bound(&bed, "bob"));
    assert_eq!(ended(&bed), []);
    let counters = bed.shard.counters();
    let [line_ends, options] = counters.keepalives;
    assert_eq!((options, counters.keepalives_unanswered), (3, 3));
    assert_eq!(sent.len(), 12, "each is repeated three times");
    assert!(line_ends >= 20);
    assert_eq!(bed.line_ends.len() as u64, line_ends);
    // When it registers again it is asked again.
    register(&mut bed, "bob", THERE, 2);
    let again = asked(&mut bed);
    answer(&mut bed, &again);
}

#[test]
fn what_comes_back_twice_ends_a_flow_and_once_does_not() {
    for how in [KeepAlive::Options, KeepAlive::Crlf] {
        let mut bed = server(keeping(how));
        register(&mut bed, "bob", THERE, 1);
        let returned = |bed: &mut Bed, cookie| {
            bed.act(|shard, now, out| shard.handle_returned(now, cookie, out))
        };
        // The first of them.
        let first = match how {
            KeepAlive::Options => asked(&mut bed).cookie,
            _ => {
                bed.wait(INTERVAL_MS);
                bed.line_ends.pop().unwrap().1
            }
        };
        assert!(returned(&mut bed, first).is_empty());
        assert!(is_bound(&bed, "bob"), "{how:?}");
        // It is asked soon, and is there.
        let doubted = only(bed.wait(2_100));
        answer(&mut bed, &doubted);
        bed.wait(1_000);
        assert!(is_bound(&bed, "bob"), "{how:?}");
        // Once more, and it is not there.
        let again = match how {
            KeepAlive::Options => asked(&mut bed).cookie,
            _ => {
                bed.line_ends.clear();
                bed.wait(INTERVAL_MS);
                bed.line_ends.pop().unwrap().1
            }
        };
        returned(&mut bed, again);
        let doubted = only(bed.wait(2_100));
        returned(&mut bed, doubted.cookie);
        assert!(!is_bound(&bed, "bob"), "{how:?}");
        assert_eq!(ended(&bed), [FlowEnd::CameBack]);
        assert_eq!(bed.shard.registrar_counters().flows_ended, [0, 1]);
        assert_eq!(bed.shard.counters().keepalives_came_back, 3);
        assert_eq!(bed.shard.live_transactions().client_non_invite, 0);
    }
}

#[test]
fn errors_that_quote_line_ends_alone_put_nobody_out() {
    // Anybody who knows both addresses can make them up, each time that line ends leave.
    let mut bed = server(keeping(KeepAlive::Crlf));
    register(&mut bed, "bob", THERE, 1);
    for _ in 0..2_000 {
        let mut sent = bed.wait(100);
        for (_, cookie) in std::mem::take(&mut bed.line_ends) {
            sent.extend(bed.act(|shard, now, out| shard.handle_returned(now, cookie, out)));
            // Twice for one, and for others that there are none of.
            for other in [cookie, cookie ^ 1, cookie ^ 1 << 40, 1 << 63, u64::MAX] {
                bed.act(|shard, now, out| shard.handle_returned(now, other, out));
            }
        }
        for asked in sent {
            answer(&mut bed, &asked);
        }
    }
    assert!(is_bound(&bed, "bob"));
    assert!(bed.shard.counters().keepalives_came_back >= 5);
}

#[test]
fn what_does_not_leave_here_says_nothing_of_a_phone() {
    for how in [KeepAlive::Options, KeepAlive::Crlf] {
        let mut bed = server(keeping(how));
        register(&mut bed, "bob", THERE, 1);
        for _ in 0..200 {
            let sent = bed.wait(1_000);
            let line_ends = std::mem::take(&mut bed.line_ends);
            let cookies = sent.iter().map(|sent| sent.cookie);
            for cookie in cookies.chain(line_ends.into_iter().map(|(_, cookie)| cookie)) {
                bed.act(|shard, now, out| shard.handle_send_failed(now, cookie, out));
            }
        }
        assert!(is_bound(&bed, "bob"), "{how:?}");
        let counters = bed.shard.counters();
        assert!(counters.keepalives.iter().sum::<u64>() >= 8, "{how:?}");
        assert_eq!(counters.keepalives_came_back, 0);
        assert_eq!(counters.keepalives_unanswered, 0);
    }
}

/// Registers so many phones, each of which answers once.
fn many(bed: &mut Bed, count: u8) {
    for n in 0..count {
        register(bed, &format!("u{n}"), &format!("203.0.113.{n}:40007"), 1);
    }
    let mut answered = BTreeSet::new();
    while answered.len() < usize::from(count) {
        for asked in bed.wait(100) {
            answer(bed, &asked);
            answered.insert(asked.to.remote);
        }
    }
}

#[test]
fn where_most_are_silent_at_once_nobody_is_put_out() {
    let mut bed = server(keeping(KeepAlive::Options));
    many(&mut bed, 40);
    bed.wait(200_000);
    assert!((0..40).all(|n| is_bound(&bed, &format!("u{n}"))));
    assert_eq!(ended(&bed), []);
    assert!(bed.shard.counters().flows_spared >= 40);
    // The way is back, but for one.
    let silent: SocketAddr = "203.0.113.5:40007".parse().unwrap();
    for _ in 0..1_500 {
        for asked in bed.wait(100) {
            if asked.to.remote != silent && asked.method() == "OPTIONS" {
                bed.receive(&answering(&asked), &response(&asked, 200, "t", ""));
            }
        }
    }
    let left = (0..40).filter(|n| is_bound(&bed, &format!("u{n}")));
    assert_eq!(left.count(), 39);
    assert!(!is_bound(&bed, "u5"));
    assert_eq!(ended(&bed), [FlowEnd::Unanswered]);
}

#[test]
fn who_registers_again_is_kept_once_and_begins_anew() {
    let mut bed = server(keeping(KeepAlive::Crlf));
    for cseq in 1..=30 {
        register(&mut bed, "bob", THERE, cseq);
    }
    // What was replaced is found when its turn comes.
    assert_eq!(bed.shard.counters().phones_kept, 30);
    bed.wait(INTERVAL_MS + 100);
    assert_eq!(bed.shard.counters().phones_kept, 1);
    bed.line_ends.clear();
    bed.wait(10 * INTERVAL_MS);
    assert!((9..=13).contains(&bed.line_ends.len()));

    // A phone is asked, comes from another place, and what was asked there counts no more.
    let mut bed = server(keeping(KeepAlive::Options));
    register(&mut bed, "bob", THERE, 1);
    let first = asked(&mut bed);
    answer(&mut bed, &first);
    for _ in 0..2 {
        asked(&mut bed);
        bed.wait(4_200);
    }
    let last = asked(&mut bed);
    register(&mut bed, "bob", "203.0.113.7:40999", 2);
    bed.act(|shard, now, out| shard.handle_returned(now, last.cookie, out));
    bed.wait(5_000);
    assert!(is_bound(&bed, "bob"));
    assert_eq!(ended(&bed), []);
    bed.wait(2 * INTERVAL_MS);
    assert_eq!(bed.shard.counters().phones_kept, 1);
}

/// Answers what the store is asked; the removals among it.
fn store(bed: &mut Bed) -> usize {
    let mut removals = 0;
    let effects = std::mem::take(&mut bed.effects);
    for effect in effects {
        match effect {
            Effect::SaveBindings { park, changes } => {
                let is_removal =
                    |change: &&BindingChange| matches!(change, BindingChange::Remove { .. });
                removals += changes.iter().filter(is_removal).count();
                bed.act(|shard, now, out| shard.handle_saved(now, park, Ok(()), out));
            }
            other => bed.effects.push(other),
        }
    }
    removals
}

#[test]
fn a_contact_whose_flow_has_ended_is_removed_from_the_store_first() {
    let mut settings = settings_with(keeping(KeepAlive::Options));
    settings.registrar.durable = true;
    let mut bed = Bed::new(settings);
    let phone = flow(Transport::Udp, THERE);
    let text = |cseq| register_text("bob", cseq, "<sip:bob@10.9.9.9:5060>", "");
    assert!(bed.receive(&phone, &text(1)).is_empty());
    store(&mut bed);
    assert!(is_bound(&bed, "bob"));
    let returned = |bed: &mut Bed, cookie| {
        bed.act(|shard, now, out| shard.handle_returned(now, cookie, out));
    };
    // While the store has a change of his he may be registering just now.
    let first = asked(&mut bed);
    returned(&mut bed, first.cookie);
    let second = only(bed.wait(2_100));
    assert!(bed.receive(&phone, &text(2)).is_empty());
    returned(&mut bed, second.cookie);
    assert_eq!(store(&mut bed), 0);
    assert!(is_bound(&bed, "bob") && ended(&bed).is_empty());
    // Now he has gone.
    let first = asked(&mut bed);
    returned(&mut bed, first.cookie);
    let second = only(bed.wait(2_100));
    returned(&mut bed, second.cookie);
    assert!(is_bound(&bed, "bob"), "the store does not have it yet");
    // He registers meanwhile: in his turn.
    assert!(bed.receive(&phone, &text(3)).is_empty());
    assert_eq!(store(&mut bed), 1);
    assert_eq!(ended(&bed), [FlowEnd::CameBack]);
    assert_eq!(store(&mut bed), 0);
    assert!(is_bound(&bed, "bob"));
}

#[test]
fn after_a_start_each_shard_keeps_the_contacts_of_its_users() {
    let mut bed = server(keeping(KeepAlive::Crlf));
    for n in 0..40 {
        let there = flow(Transport::Udp, &format!("203.0.113.{n}:40007"));
        let (aor, contact) = (
            format!("sip:u{n}@example.org"),
            format!("sip:u{n}@10.9.9.9"),
        );
        bed.register(&aor, &contact, Some(there));
    }
    let mut all = BTreeSet::new();
    for index in 0..2 {
        bed.shard.set_home(index, 2, [7; 16]);
        // Every part of the table was looked at after a second.
        bed.wait(1_000 + INTERVAL_MS);
        let kept = bed.shard.counters().phones_kept;
        assert!((8..=32).contains(&kept), "{kept}");
        let to: Vec<SocketAddr> = bed.line_ends.drain(..).map(|(to, _)| to.remote).collect();
        let to: BTreeSet<SocketAddr> = to.into_iter().collect();
        assert_eq!(to.len() as u64, kept, "each of them");
        assert!(all.is_disjoint(&to), "and no other shard does");
        all.extend(to);
        bed.wait(INTERVAL_MS);
        assert!(bed.line_ends.len() as u64 <= 2 * kept, "and once");
        bed.line_ends.clear();
    }
    assert_eq!(all.len(), 40);
}

#[test]
fn a_reload_turns_them_on_and_off() {
    let mut bed = server(NatSettings::default());
    register(&mut bed, "bob", THERE, 1);
    bed.wait(100_000);
    assert!(bed.line_ends.is_empty());
    let reload = |bed: &mut Bed, nat| bed.shard.reload(Arc::new(settings_with(nat)));
    reload(&mut bed, keeping(KeepAlive::Crlf));
    bed.wait(1_000 + INTERVAL_MS);
    assert!(!bed.line_ends.is_empty());
    // One that changes nothing of it, and one that does, while an OPTIONS is under way.
    reload(&mut bed, keeping(KeepAlive::Crlf));
    assert_eq!(bed.shard.counters().phones_kept, 1);
    reload(&mut bed, keeping(KeepAlive::Options));
    let first = asked(&mut bed);
    reload(&mut bed, NatSettings::default());
    assert_eq!(bed.shard.live_transactions().client_non_invite, 0);
    bed.line_ends.clear();
    bed.receive(&answering(&first), &response(&first, 200, "t", ""));
    bed.act(|shard, now, out| shard.handle_returned(now, first.cookie, out));
    assert!(bed.wait(100_000).is_empty() && bed.line_ends.is_empty());
    assert_eq!(bed.shard.counters().phones_kept, 0);
    assert!(is_bound(&bed, "bob"));
}

/// A translation forgets a phone within its time, whatever is changed here.
#[test]
fn a_reload_lets_no_way_close_that_was_open() {
    let mut bed = server(keeping(KeepAlive::Crlf));
    for n in 0..50 {
        register(
            &mut bed,
            &format!("u{n}"),
            &format!("203.0.113.7:{}", 10_000 + n),
            1,
        );
    }
    bed.wait(INTERVAL_MS);
    bed.line_ends.clear();
    // Whatever it changes, and though it is changed again and again.
    for turn in 0..40_u64 {
        let nat = NatSettings {
            keepalive_fail: 3 + (turn % 2) as u32,
            ..keeping(KeepAlive::Crlf)
        };
        bed.shard.reload(Arc::new(settings_with(nat)));
        assert_eq!(bed.shard.counters().phones_kept, 50);
        bed.wait(INTERVAL_MS / 40);
    }
    let reached = |bed: &mut Bed| {
        let to = bed.line_ends.drain(..).map(|(to, _)| to.remote);
        to.collect::<BTreeSet<SocketAddr>>().len()
    };
    assert_eq!(reached(&mut bed), 50, "each within an interval");

    // A shorter interval puts none off that was due: all within the one that was.
    for less in 1..=40_u64 {
        let nat = NatSettings {
            keepalive_interval_ms: INTERVAL_MS - 10 * less,
            ..keeping(KeepAlive::Crlf)
        };
        bed.shard.reload(Arc::new(settings_with(nat)));
        bed.wait(INTERVAL_MS / 40);
    }
    assert_eq!(reached(&mut bed), 50, "however often it is made shorter");

    // One that is much shorter holds at once, and not after the longer one.
    let sooner = NatSettings {
        keepalive_interval_ms: INTERVAL_MS / 10,
        ..keeping(KeepAlive::Crlf)
    };
    bed.shard.reload(Arc::new(settings_with(sooner)));
    bed.wait(INTERVAL_MS / 10 + 1_000);
    assert_eq!(reached(&mut bed), 50);
    assert_eq!(bed.shard.counters().phones_kept, 50, "and nobody twice");
}

#[test]
fn a_server_that_stood_still_sends_no_burst() {
    let mut bed = server(keeping(KeepAlive::Crlf));
    for n in 0..600_u32 {
        register(
            &mut bed,
            &format!("u{n}"),
            &format!("203.0.113.7:{}", 10_000 + n),
            1,
        );
    }
    bed.now.mono_ms += 60_000;
    bed.now.unix_ms += 60_000;
    bed.act(|shard, now, out| shard.handle_timers(now, out));
    assert_eq!(bed.line_ends.len(), 256);
    bed.wait(1_200);
    assert_eq!(bed.line_ends.len(), 600, "the others follow soon");
    // And they stay spread.
    bed.line_ends.clear();
    let mut most = 0;
    for _ in 0..600 {
        bed.wait(100);
        most = most.max(bed.line_ends.drain(..).count());
    }
    assert!(most < 100, "{most}");
}

#[test]
fn a_server_that_drains_keeps_ways_open_and_waits_for_no_answer() {
    let mut bed = server(keeping(KeepAlive::Options));
    register(&mut bed, "bob", THERE, 1);
    bed.shard.refuse_new_calls();
    for _ in 0..5 {
        // Calls go on that may end by a BYE to this phone.
        let asked = asked(&mut bed);
        assert_eq!(bed.shard.unanswered(bed.now), 0);
        answer(&mut bed, &asked);
    }
    assert!(is_bound(&bed, "bob"));
}

#[test]
fn without_memory_for_messages_line_ends_take_the_place_of_questions() {
    let mut bed = server(keeping(KeepAlive::Options));
    register(&mut bed, "bob", THERE, 1);
    bed.shard.set_memory_pressure(0.9);
    assert!(bed.wait(2 * INTERVAL_MS).is_empty());
    assert!(!bed.line_ends.is_empty());
    bed.shard.set_memory_pressure(0.1);
    let asked = asked(&mut bed);
    answer(&mut bed, &asked);
}

#[test]
fn a_keepalive_leads_to_where_the_phone_was_and_to_nobody_else() {
    // A contact that names another place is called where it came from, or where it says, and
    // no keep-alive goes to where it says.
    for contact in [
        "sip:bob@10.1.1.1:5060",
        "sip:bob@pc7.lan",
        "sip:bob@198.51.100.66:5060",
        "sip:bob@198.51.100.66:5060;transport=tcp",
        "sip:bob@10.1.1.1;maddr=198.51.100.66",
    ] {
        for how in [KeepAlive::Crlf, KeepAlive::Options] {
            let nat = NatSettings {
                listeners: vec![Nat::Always; 4],
                ..keeping(how)
            };
            let mut bed = server(nat);
            let phone = flow(Transport::Udp, THERE);
            let text = register_text("bob", 1, &format!("<{contact}>"), "");
            assert_eq!(only(bed.receive(&phone, &text)).status(), 200);
            let sent = bed.wait(2 * INTERVAL_MS);
            let to: Vec<&Target> = sent.iter().map(|sent| &sent.to).collect();
            let to = to.into_iter().chain(bed.line_ends.iter().map(|(to, _)| to));
            let to: Vec<SocketAddr> = to.map(|to| to.remote).collect();
            assert!(!to.is_empty(), "{contact}");
            let there: SocketAddr = THERE.parse().unwrap();
            assert!(to.iter().all(|to| *to == there), "{contact} {to:?}");
        }
    }
}

#[test]
fn a_phone_that_moves_is_kept_where_it_is() {
    let mut bed = server(keeping(KeepAlive::Crlf));
    register(&mut bed, "bob", THERE, 1);
    bed.wait(INTERVAL_MS);
    bed.line_ends.clear();
    let elsewhere = "198.51.100.77:1024";
    register(&mut bed, "bob", elsewhere, 2);
    bed.wait(INTERVAL_MS + 100);
    let to: BTreeSet<SocketAddr> = bed.line_ends.iter().map(|(to, _)| to.remote).collect();
    assert_eq!(to, BTreeSet::from([elsewhere.parse().unwrap()]));
}
