//! Call records: one for each call that was let in, from its INVITE to its end.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use sip_auth::{Attempt, ClientAuth, RequestParts};
use sip_engine::records::{EndedBy, RecordSettings, Why};
use sip_engine::refusal::Reason;
use sip_engine::routes::{Gateway, GatewayGroup, RouteOption};
use sip_engine::settings::{AuthSettings, ProxySettings, Settings};
use sip_engine::{CallRecord, Effect};
use sip_msg::{HeaderName, Transport};

const NEXT: &str = "203.0.113.9:5070";
const URI: &str = "sip:bob@example.com";
const CONTACT: &str = "Contact: <sip:bob@203.0.113.9:5070>\r\n";
const UDP: Transport = Transport::Udp;

fn recording(settings: Settings) -> Settings {
    Settings {
        records: RecordSettings {
            is_on: true,
            session_expires_s: 0,
        },
        ..settings
    }
}

fn bed() -> Bed {
    Bed::new(recording(forwarding(UDP, NEXT)))
}

/// An INVITE and the copy of it.
fn invite_with(bed: &mut Bed, transport: Transport, more: &str) -> (Request, Sent) {
    let invite = request("INVITE", URI, transport).with(more);
    let sent = bed.receive(&alice(transport), &invite.text());
    (invite, sent.into_iter().nth(1).unwrap())
}

fn invite(bed: &mut Bed) -> (Request, Sent) {
    invite_with(bed, UDP, "")
}

/// Whoever was called answers; what the caller gets.
fn answer(bed: &mut Bed, sent: &Sent, status: u16, more: &str) -> Vec<Sent> {
    bed.receive(&answering(sent), &response(sent, status, "b", more))
}

/// A request of the caller within the call that this 200 answered.
fn of_caller(method: &str, ok: &Sent, transport: Transport, cseq: u32) -> Request {
    let routes = ok.all(HeaderName::RecordRoute).into_iter().rev();
    let route: String = routes.map(|value| format!("Route: {value}\r\n")).collect();
    let mut within = request(method, "sip:bob@203.0.113.9:5070", transport).with(&route);
    within.to = "<sip:bob@example.org>;tag=b".into();
    within.cseq = cseq;
    within
}

/// A request of the callee within the call that this INVITE began.
fn of_callee(method: &str, sent: &Sent, more: &str) -> Request {
    let routes = sent.all(HeaderName::RecordRoute).into_iter();
    let route: String = routes.map(|value| format!("Route: {value}\r\n")).collect();
    let mut within = request(method, "sip:alice@198.51.100.1:5060", UDP).with(&route);
    within.via = format!("SIP/2.0/UDP {NEXT};branch=z9hG4bKcallee{method}");
    within.from = "<sip:bob@example.org>;tag=b".into();
    within.to = "<sip:alice@example.com>;tag=a".into();
    within.with(more)
}

/// The only record.
#[track_caller]
fn record(bed: &mut Bed) -> CallRecord {
    assert_eq!(bed.records.len(), 1, "{:#?}", bed.records);
    let counters = bed.shard.counters();
    assert_eq!(
        counters.call_records_begun,
        counters.call_records + bed.shard.open_call_records() as u64
    );
    bed.records.remove(0)
}

#[test]
fn a_call_that_was_answered_and_hung_up() {
    for transport in TRANSPORTS {
        for next in TRANSPORTS {
            let mut bed = Bed::new(recording(forwarding(next, NEXT)));
            let started = bed.now;
            let (_, sent) = invite_with(&mut bed, transport, "");
            bed.wait(100);
            answer(&mut bed, &sent, 100, "");
            answer(&mut bed, &sent, 183, CONTACT);
            bed.wait(50);
            answer(&mut bed, &sent, 180, CONTACT);
            bed.wait(150);
            let ok = only(answer(&mut bed, &sent, 200, CONTACT));
            // The 2xx comes again: it is the same call.
            answer(&mut bed, &sent, 200, CONTACT);
            bed.wait(5_000);
            let hung_up = bed.now;
            let bye = of_caller("BYE", &ok, transport, 2);
            let bye = only(bed.receive(&alice(transport), &bye.text()));
            bed.wait(30);
            assert!(bed.records.is_empty(), "the BYE has no answer yet");
            answer(&mut bed, &bye, 200, "");
            assert_eq!(bed.shard.open_call_records(), 0);

            let record = record(&mut bed);
            assert_eq!((record.started, record.ended), (started, Some(hung_up)));
            assert_eq!(record.ring_after_ms(), Some(100));
            assert_eq!(record.answer_after_ms(), Some(300));
            assert_eq!(record.talk_ms(), Some(5_000));
            assert_eq!(record.seen.mono_ms, hung_up.mono_ms + 30);
            assert_eq!(&*record.call_id, "call-1");
            assert_eq!((&*record.caller_user, record.caller_class), ("", "open"));
            assert_eq!(&*record.caller_from, "sip:alice@example.com");
            assert_eq!(record.caller_end, (transport, alice(transport).remote));
            assert_eq!(&*record.request_uri, URI);
            assert_eq!(&*record.called_to, "sip:bob@example.org");
            assert_eq!(&*record.callee_target, NEXT);
            assert_eq!(&*record.callee_trunk, "");
            assert_eq!(record.callee_end, Some((next, NEXT.parse().unwrap())));
            assert_eq!((record.status, record.bye_status), (Some(200), Some(200)));
            assert_eq!((record.ended_by, record.why), (EndedBy::Caller, None));
            assert_eq!(record.tries_total, 1);
            let tries: Vec<_> = record.tries.iter().map(|of| of.end).collect();
            assert_eq!(tries, [Ok(200)]);
        }
    }
}

#[test]
fn the_callee_hangs_up_and_says_why() {
    for (status, more) in [(200, ""), (481, "")] {
        let mut bed = bed();
        let (_, sent) = invite(&mut bed);
        answer(&mut bed, &sent, 200, CONTACT);
        let bye = of_callee("BYE", &sent, "Reason: Q.850;cause=16;text=\"Normal\"\r\n");
        let bye = only(bed.receive(&answering(&sent), &bye.text()));
        answer(&mut bed, &bye, status, more);
        let record = record(&mut bed);
        assert_eq!(record.ended_by, EndedBy::Callee);
        assert_eq!(record.bye_status, Some(status));
        assert_eq!(&*record.reason, "Q.850;cause=16;text=\"Normal\"");
    }
}

/// A BYE of the caller, and its copy.
fn hangs_up(bed: &mut Bed, ok: &Sent, cseq: u32) -> Sent {
    let bye = of_caller("BYE", ok, UDP, cseq);
    only(bed.receive(&alice(UDP), &bye.text()))
}

#[test]
fn a_bye_that_the_other_side_refuses_ends_nothing() {
    // It wants a password, or has heard a higher CSeq, or cannot read it: it goes on.
    for status in [401, 407, 400, 403, 405, 420, 483, 500, 603] {
        let mut bed = bed();
        let (_, sent) = invite(&mut bed);
        let ok = only(answer(&mut bed, &sent, 200, CONTACT));
        let first = hangs_up(&mut bed, &ok, 2);
        answer(&mut bed, &first, status, "");
        bed.wait(7_200_000);
        assert_eq!(bed.records.len(), 0, "{status}");
        assert_eq!(bed.shard.open_call_records(), 1, "{status}");
        // Whoever hangs up so that it is believed ends it, and only then it is over.
        let hung_up = bed.now;
        let bye = of_callee("BYE", &sent, "Reason: Q.850;cause=16\r\n");
        let bye = only(bed.receive(&answering(&sent), &bye.text()));
        answer(&mut bed, &bye, 200, "");
        let record = record(&mut bed);
        assert_eq!(
            (record.ended, record.why),
            (Some(hung_up), None),
            "{status}"
        );
        assert_eq!(
            (record.ended_by, record.bye_status),
            (EndedBy::Callee, Some(200))
        );
        assert_eq!(&*record.reason, "Q.850;cause=16");
    }
}

#[test]
fn a_bye_that_is_refused_and_never_comes_again_is_told_as_it_was() {
    let mut bed = Bed::new(recording(Settings {
        proxy: ProxySettings {
            dialog_token_lifetime_s: 3_600,
            ..settings().proxy
        },
        ..forwarding(UDP, NEXT)
    }));
    let (_, sent) = invite(&mut bed);
    let ok = only(answer(&mut bed, &sent, 200, CONTACT));
    bed.wait(10_000);
    let hung_up = bed.now;
    let bye = hangs_up(&mut bed, &ok, 2);
    answer(&mut bed, &bye, 500, "");
    bed.wait(3_599_000);
    assert!(bed.records.is_empty());
    bed.wait(2_000);
    let record = record(&mut bed);
    assert_eq!(
        (record.ended, record.ended_by),
        (Some(hung_up), EndedBy::Caller)
    );
    assert_eq!(
        (record.why, record.bye_status),
        (Some(Why::ByeUnconfirmed), Some(500))
    );
}

#[test]
fn a_bye_that_reaches_nobody_ends_the_call_when_nothing_more_is_heard() {
    let mut bed = bed();
    let begun = |bed: &mut Bed| {
        let (_, sent) = invite(bed);
        let ok = only(answer(bed, &sent, 200, CONTACT));
        bed.wait(5_000);
        (sent, ok, bed.now)
    };
    // Nobody answers it, and nothing comes after it.
    let (_, ok, hung_up) = begun(&mut bed);
    hangs_up(&mut bed, &ok, 2);
    bed.wait(86_399_000);
    assert!(bed.records.is_empty(), "it may come again");
    bed.wait(2_000);
    let silent = record(&mut bed);
    assert_eq!(
        (silent.ended, silent.ended_by),
        (Some(hung_up), EndedBy::Caller)
    );
    assert_eq!(silent.talk_ms(), Some(5_000));
    assert_eq!(
        (silent.why, silent.bye_status),
        (Some(Why::ByeUnconfirmed), Some(408))
    );

    // The other side is there after all, and hangs up later.
    let (sent, ok, _) = begun(&mut bed);
    hangs_up(&mut bed, &ok, 2);
    bed.wait(7_200_000);
    let hung_up = bed.now;
    let bye = only(bed.receive(&answering(&sent), &of_callee("BYE", &sent, "").text()));
    answer(&mut bed, &bye, 200, "");
    let later = record(&mut bed);
    assert_eq!((later.ended, later.why), (Some(hung_up), None));
    assert_eq!(later.ended_by, EndedBy::Callee);

    // Or it agrees on another session, and so has not gone.
    let (_, ok, _) = begun(&mut bed);
    hangs_up(&mut bed, &ok, 2);
    bed.wait(40_000);
    let again = of_caller("INVITE", &ok, UDP, 3);
    let again = bed.receive(&alice(UDP), &again.text()).remove(1);
    answer(&mut bed, &again, 200, CONTACT);
    bed.wait(4_000_000);
    assert_eq!((bed.records.len(), bed.shard.open_call_records()), (0, 1));
}

#[test]
fn an_answer_that_names_another_call_does_nothing_to_that_ones_record() {
    // Whoever answers writes what he likes: here the names of another of his calls.
    let mut bed = bed();
    let (_, sent) = invite(&mut bed);
    answer(&mut bed, &sent, 200, CONTACT);
    let mut second = request("INVITE", URI, UDP);
    second.call_id = "call-2".into();
    second.from = "<sip:carol@example.com>;tag=c".into();
    let sent = bed.receive(&alice(UDP), &second.text()).remove(1);
    let ok = only(answer(&mut bed, &sent, 200, CONTACT));
    assert_eq!(bed.shard.open_call_records(), 2);
    let mut again = of_caller("UPDATE", &ok, UDP, 2);
    (again.call_id, again.from) = ("call-2".into(), second.from);
    for (cseq, status, more) in [
        (2, 481, ""),
        (3, 200, "Session-Expires: 90;refresher=uac\r\n"),
    ] {
        again.cseq = cseq;
        again.via = format!("SIP/2.0/UDP 198.51.100.1:5060;branch=z9hG4bKup{cseq}");
        let copy = only(bed.receive(&alice(UDP), &again.text()));
        let forged = response(&copy, status, "b", more)
            .replace("Call-ID: call-2", "Call-ID: call-1")
            .replace(
                "<sip:carol@example.com>;tag=c",
                "<sip:alice@example.com>;tag=a",
            );
        bed.receive(&answering(&copy), &forged);
        let told = bed.records.iter().map(|record| &*record.call_id);
        assert_eq!(told.collect::<Vec<_>>(), ["call-2"], "{status}");
    }
    bed.records.clear();
    bed.wait(200_000);
    assert_eq!((bed.records.len(), bed.shard.open_call_records()), (0, 1));
}

#[test]
fn calls_that_were_not_answered() {
    // Busy, and says why.
    let mut bed = bed();
    let (_, sent) = invite(&mut bed);
    answer(&mut bed, &sent, 180, "");
    let why = "Reason: Q.850;cause=17\r\n";
    answer(&mut bed, &sent, 486, why);
    let busy = record(&mut bed);
    assert_eq!((busy.status, busy.ended_by), (Some(486), EndedBy::Callee));
    assert_eq!((&*busy.reason, busy.why), ("Q.850;cause=17", None));
    assert!(busy.rang.is_some() && busy.answered.is_none());
    assert_eq!(busy.talk_ms(), None);

    // Cancelled, and says why.
    let (invite_, sent) = invite(&mut bed);
    answer(&mut bed, &sent, 180, "");
    let mut cancel = request("CANCEL", URI, UDP).with("Reason: SIP;cause=200\r\n");
    cancel.via = invite_.via;
    bed.receive(&alice(UDP), &cancel.text());
    assert!(bed.records.is_empty());
    answer(&mut bed, &sent, 487, why);
    let cancelled = record(&mut bed);
    assert_eq!(
        (cancelled.status, cancelled.ended_by),
        (Some(487), EndedBy::Caller)
    );
    assert_eq!(&*cancelled.reason, "SIP;cause=200");

    // Nobody is there.
    invite(&mut bed);
    bed.wait(33_000);
    let silent = record(&mut bed);
    assert_eq!(
        (silent.status, silent.ended_by),
        (Some(408), EndedBy::Timer)
    );
    assert_eq!(silent.why, Some(Why::Refused(Reason::TimedOut)));
    assert_eq!(silent.tries.len(), 1);
    assert_eq!(silent.tries[0].end, Err(Reason::TimedOut));

    // It rings for too long.
    let (_, sent) = invite(&mut bed);
    answer(&mut bed, &sent, 180, "");
    bed.wait(186_000);
    answer(&mut bed, &sent, 487, "");
    let unheard = record(&mut bed);
    assert_eq!(
        (unheard.status, unheard.ended_by),
        (Some(487), EndedBy::Timer)
    );
    assert_eq!(bed.shard.open_call_records(), 0);
}

fn with_trunk() -> Bed {
    let gateway = |addr, priority| Gateway {
        next_hop: next_hop(UDP, addr),
        priority,
        weight: 1,
    };
    let mut settings = recording(settings());
    settings.routes.groups.push(GatewayGroup {
        name: "outside".into(),
        gateways: vec![
            gateway("203.0.113.1:5060", 1),
            gateway("203.0.113.2:5060", 2),
        ],
        ..GatewayGroup::default()
    });
    settings.routes.prefixes.insert("+".into(), 0);
    Bed::new(settings)
}

#[test]
fn a_failover_is_told_with_the_trunk() {
    for (second, status, ended_by) in [
        (200, Some(200), EndedBy::Server),
        (503, Some(500), EndedBy::Failover),
    ] {
        let mut bed = with_trunk();
        let invite = request("INVITE", "sip:+4930@example.org", UDP);
        let first = bed.receive(&alice(UDP), &invite.text()).remove(1);
        assert_eq!(first.to.remote.to_string(), "203.0.113.1:5060");
        let sent = answer(&mut bed, &first, 503, "");
        let next = sent.into_iter().find(|of| of.method() == "INVITE").unwrap();
        answer(&mut bed, &next, second, CONTACT);
        bed.act(|shard, now, out| shard.stop_records(now, out));
        let record = record(&mut bed);
        assert_eq!((record.status, record.ended_by), (status, ended_by));
        assert_eq!(&*record.request_uri, "sip:+4930@example.org");
        assert_eq!(&*record.callee_trunk, "outside");
        assert_eq!(&*record.callee_target, "203.0.113.2:5060");
        let tries: Vec<_> = record.tries.iter().map(|of| of.end).collect();
        assert_eq!(tries, [Ok(503), Ok(second)]);
        assert_eq!(record.tries_total, 2);
    }
}

#[test]
fn a_gateway_of_several_groups_is_told_with_the_one_by_which_it_was_called() {
    let group = |name: &str, addr: &str| GatewayGroup {
        name: name.into(),
        gateways: vec![Gateway {
            next_hop: next_hop(UDP, addr),
            priority: 1,
            weight: 1,
        }],
        ..GatewayGroup::default()
    };
    let option = |group| RouteOption {
        group,
        cost: 1,
        when: None,
    };
    let mut settings = recording(settings());
    settings.routes.groups = vec![
        group("cheap", "203.0.113.1:5060"),
        group("dear", "203.0.113.1:5060"),
        group("away", "203.0.113.2:5060"),
    ];
    settings.routes.prefixes.insert("+".into(), 1);
    let options = vec![option(2), option(1)];
    settings.routes.prefix_options.insert("0".into(), options);
    let mut bed = Bed::new(settings.clone());
    for (number, fails_over) in [("+4930", false), ("0301", true)] {
        let mut invite = request("INVITE", &format!("sip:{number}@example.org"), UDP);
        invite.call_id = number.into();
        let mut copy = bed.receive(&alice(UDP), &invite.text()).remove(1);
        if fails_over {
            let sent = answer(&mut bed, &copy, 503, "");
            copy = sent.into_iter().find(|of| of.method() == "INVITE").unwrap();
        }
        assert_eq!(copy.to.remote.to_string(), "203.0.113.1:5060");
        answer(&mut bed, &copy, 486, "");
        let record = record(&mut bed);
        assert_eq!(&*record.callee_trunk, "dear", "{number}");
        assert_eq!(&*record.callee_target, "203.0.113.1:5060");
        assert_eq!(record.tries.len(), 1 + usize::from(fails_over));
    }

    // One of the group before, which was left for its silence, takes the call after all.
    let mut bed = Bed::new(settings);
    let invite = request("INVITE", "sip:0301@example.org", UDP);
    let first = bed.receive(&alice(UDP), &invite.text()).remove(1);
    assert_eq!(first.to.remote.to_string(), "203.0.113.2:5060");
    let sent = bed.wait(4_100);
    let mut copies = sent.iter().filter(|of| of.method() == "INVITE");
    assert!(copies.any(|of| of.to.remote.to_string() == "203.0.113.1:5060"));
    answer(&mut bed, &first, 200, CONTACT);
    bed.act(|shard, now, out| shard.stop_records(now, out));
    let record = record(&mut bed);
    assert_eq!(
        (&*record.callee_trunk, &*record.callee_target),
        ("away", "203.0.113.2:5060")
    );
    let tries: Vec<_> = record.tries.iter().map(|of| (of.to.1, of.end)).collect();
    let at = first.to.remote;
    let silent = (at, Err(Reason::GatewaySilent));
    assert_eq!(tries, [silent, (at, Ok(200))]);
}

#[test]
fn of_a_fork_the_one_who_answers_is_told() {
    let mut bed = Bed::new(recording(settings()));
    for nth in 1..=3 {
        let contact = format!("sip:bob:secret@203.0.113.{nth};x=y");
        bed.register("sip:bob@example.org", &contact, None);
    }
    let invite = request("INVITE", "sip:bob@example.org", UDP);
    let mut sent = bed.receive(&alice(UDP), &invite.text());
    sent.retain(|of| of.status() == 0);
    assert_eq!(sent.len(), 3);
    answer(&mut bed, &sent[0], 486, "");
    answer(&mut bed, &sent[2], 180, "");
    let answers = answer(&mut bed, &sent[1], 200, CONTACT);
    let ok = answers.iter().find(|of| of.status() == 200).unwrap();
    answer(&mut bed, &sent[2], 487, "");
    // A second answer is another dialog, which the caller hangs up.
    let bye = of_caller("BYE", ok, UDP, 2);
    let mut other = of_caller("BYE", ok, UDP, 3);
    other.to = "<sip:bob@example.org>;tag=other".into();
    let other = only(bed.receive(&alice(UDP), &other.text()));
    answer(&mut bed, &other, 200, "");
    assert_eq!((bed.records.len(), bed.shard.open_call_records()), (0, 1));
    let bye = only(bed.receive(&alice(UDP), &bye.text()));
    answer(&mut bed, &bye, 200, "");
    let record = record(&mut bed);
    let at = sent[1].to.remote;
    assert_eq!(record.callee_end, Some((UDP, at)));
    assert_eq!(*record.callee_target, format!("sip:bob@{}", at.ip()));
    assert_eq!(record.tries_total, 3);
    let tries: Vec<_> = record.tries.iter().map(|of| of.end).collect();
    assert_eq!(tries, [Ok(486), Ok(200)]);
}

#[test]
fn each_who_takes_a_forked_call_has_a_record_of_his_own() {
    let mut bed = Bed::new(recording(settings()));
    for nth in 1..=2 {
        let contact = format!("sip:bob@203.0.113.{nth}");
        bed.register("sip:bob@example.org", &contact, None);
    }
    let invite = request("INVITE", "sip:bob@example.org", UDP);
    let mut sent = bed.receive(&alice(UDP), &invite.text());
    sent.retain(|of| of.status() == 0);
    assert_eq!(sent.len(), 2);
    // Both at the same moment: the CANCEL comes too late.
    let mut answered = Vec::new();
    for (copy, tag) in sent.iter().zip(["b", "c"]) {
        let text = response(copy, 200, tag, CONTACT);
        let mut back = bed.receive(&answering(copy), &text);
        back.retain(|of| of.status() == 200);
        answered.push((only(back), copy, tag));
        // It comes again: it is the same call.
        bed.receive(&answering(copy), &text);
    }
    assert_eq!(bed.shard.open_call_records(), 2);
    let mut ids = Vec::new();
    for (nth, (ok, copy, tag)) in answered.iter().enumerate() {
        bed.wait(1_000);
        let mut bye = of_caller("BYE", ok, UDP, 2);
        bye.to = format!("<sip:bob@example.org>;tag={tag}");
        let bye = only(bed.receive(&alice(UDP), &bye.text()));
        answer(&mut bed, &bye, 200, "");
        let record = record(&mut bed);
        let at = copy.to.remote;
        assert_eq!(record.callee_end, Some((UDP, at)));
        assert_eq!(*record.callee_target, format!("sip:bob@{}", at.ip()));
        assert_eq!(record.talk_ms(), Some(1_000 * (nth as u64 + 1)));
        assert_eq!((record.status, record.bye_status), (Some(200), Some(200)));
        assert_eq!(&*record.call_id, "call-1");
        ids.push(record.id);
    }
    assert_ne!(ids[0], ids[1]);
    assert_eq!(bed.shard.open_call_records(), 0);
}

#[test]
fn a_call_without_a_bye_ends_by_its_session_timer() {
    let mut bed = bed();
    let (_, sent) = invite(&mut bed);
    let timer = |seconds: u32| format!("{CONTACT}Session-Expires: {seconds};refresher=uac\r\n");
    let ok = only(answer(&mut bed, &sent, 200, &timer(1_000)));
    bed.wait(90_000);
    // A refresh agrees on another; what is no refresh does not put it back.
    let again = of_caller("INVITE", &ok, UDP, 2);
    let again = bed.receive(&alice(UDP), &again.text()).remove(1);
    answer(&mut bed, &again, 200, &timer(100));
    bed.wait(60_000);
    bed.receive(&alice(UDP), &of_caller("INFO", &ok, UDP, 3).text());
    let seen = bed.now;
    bed.wait(39_000);
    assert!(bed.records.is_empty());
    bed.wait(2_000);
    let record = record(&mut bed);
    assert_eq!(
        (record.ended_by, record.why),
        (EndedBy::Timer, Some(Why::SessionExpired))
    );
    assert_eq!(record.session_expires_s, Some(100));
    assert_eq!(record.seen, seen);
    let talked_ms = record.talk_ms().unwrap();
    assert!((190_000..190_100).contains(&talked_ms), "{talked_ms}");
    assert_eq!(bed.shard.open_call_records(), 0);
}

#[test]
fn a_call_without_a_timer_ends_with_its_tokens() {
    let mut bed = Bed::new(recording(Settings {
        proxy: ProxySettings {
            dialog_token_lifetime_s: 3_600,
            ..settings().proxy
        },
        ..forwarding(UDP, NEXT)
    }));
    let (_, sent) = invite(&mut bed);
    let timer = format!("{CONTACT}Session-Expires: 100\r\n");
    let ok = only(answer(&mut bed, &sent, 200, &timer));
    // The timer is dropped by a refresh without one.
    let again = of_caller("INVITE", &ok, UDP, 2);
    let again = bed.receive(&alice(UDP), &again.text()).remove(1);
    answer(&mut bed, &again, 200, CONTACT);
    bed.wait(3_000_000);
    bed.receive(&alice(UDP), &of_caller("INFO", &ok, UDP, 3).text());
    bed.wait(3_599_000);
    assert!(bed.records.is_empty());
    bed.wait(2_000);
    let record = record(&mut bed);
    assert_eq!(
        (record.ended_by, record.why),
        (EndedBy::Timer, Some(Why::NoBye))
    );
}

#[test]
fn a_session_timer_is_asked_for() {
    let mut settings = recording(forwarding(UDP, NEXT));
    settings.records.session_expires_s = 1_800;
    let asks = |supported: &str, answered: &str| {
        let mut bed = Bed::new(settings.clone());
        let (_, sent) = invite_with(&mut bed, UDP, supported);
        let ok = only(answer(
            &mut bed,
            &sent,
            200,
            &format!("{CONTACT}{answered}"),
        ));
        bed.act(|shard, now, out| shard.stop_records(now, out));
        let agreed_s = record(&mut bed).session_expires_s;
        let of = |message: &Sent, name: &str| {
            let field = message.message.first_named(name)?;
            Some(String::from_utf8_lossy(field.value).into_owned())
        };
        let asked = of(&sent, "Session-Expires");
        let told = (of(&ok, "Session-Expires"), of(&ok, "Require"));
        (asked, told, agreed_s)
    };
    let text = |text: &str| Some(text.to_owned());
    // RFC 4028 8.1 and 8.2: the callee has no timers, and the caller is told to refresh.
    assert_eq!(
        asks("Supported: timer\r\n", ""),
        (
            text("1800"),
            (text("1800;refresher=uac"), text("timer")),
            Some(1_800)
        )
    );
    let agreed = "Session-Expires: 900;refresher=uas\r\nRequire: timer\r\n";
    assert_eq!(
        asks("Supported: timer\r\n", agreed),
        (
            text("1800"),
            (text("900;refresher=uas"), text("timer")),
            Some(900)
        )
    );
    assert_eq!(asks("", ""), (None, (None, None), None));

    // RFC 4028 6: who wants longer intervals says so, and that passes.
    let mut bed = Bed::new(settings.clone());
    let (_, sent) = invite_with(&mut bed, UDP, "Supported: timer\r\n");
    let sent = answer(&mut bed, &sent, 422, "Min-SE: 3600\r\n");
    let refused = sent.iter().find(|of| of.status() == 422).unwrap();
    assert!(
        refused.text.contains("Min-SE: 3600\r\n"),
        "{}",
        refused.text
    );
    assert_eq!(record(&mut bed).status, Some(422));
}

#[test]
fn what_goes_past_this_server_has_no_end() {
    let mut bed = Bed::new(recording(Settings {
        proxy: ProxySettings {
            record_route: false,
            ..settings().proxy
        },
        ..forwarding(UDP, NEXT)
    }));
    let (_, sent) = invite(&mut bed);
    answer(&mut bed, &sent, 200, CONTACT);
    let record = record(&mut bed);
    assert_eq!(
        (record.ended_by, record.why),
        (EndedBy::Unseen, Some(Why::NotOnPath))
    );
    assert!(record.answered.is_some() && record.ended.is_none());
    assert_eq!(record.talk_ms(), None);
}

#[test]
fn a_side_that_knows_the_dialog_no_more_has_ended_it() {
    let mut bed = bed();
    let (_, sent) = invite(&mut bed);
    let ok = only(answer(&mut bed, &sent, 200, CONTACT));
    let again = of_caller("INVITE", &ok, UDP, 2);
    let again = bed.receive(&alice(UDP), &again.text()).remove(1);
    answer(&mut bed, &again, 481, "");
    let record = record(&mut bed);
    assert_eq!(
        (record.ended_by, record.bye_status),
        (EndedBy::Callee, None)
    );
    assert_eq!(
        (record.status, bed.shard.open_call_records()),
        (Some(200), 0)
    );
}

#[test]
fn who_was_let_in_and_refused_has_a_record_and_a_stranger_has_none() {
    let mut bed = Bed::new(recording(settings()));
    let invite = request("INVITE", "sip:nobody@example.org", UDP);
    bed.receive(&alice(UDP), &invite.text());
    let refused = record(&mut bed);
    assert_eq!(
        (refused.status, refused.ended_by),
        (Some(404), EndedBy::Server)
    );
    assert_eq!(refused.why, Some(Why::Refused(Reason::NoSuchUser)));
    assert_eq!(refused.tries_total, 0);
    // Nothing but calls has a record.
    for method in ["OPTIONS", "MESSAGE", "SUBSCRIBE"] {
        bed.receive(
            &alice(UDP),
            &request(method, "sip:nobody@example.org", UDP).text(),
        );
    }
    assert!(bed.records.is_empty());

    let mut bed = Bed::new(Settings {
        authenticate: Some(AuthSettings::default()),
        ..recording(forwarding(UDP, NEXT))
    });
    let invite = request("INVITE", "sip:bob@example.org", UDP);
    for _ in 0..100 {
        bed.receive(&alice(UDP), &invite.text());
    }
    assert!(bed.records.is_empty());
    assert_eq!(bed.shard.counters().call_records_begun, 0);
}

#[test]
fn a_process_that_ends_writes_what_goes_on() {
    let mut bed = bed();
    let (_, sent) = invite(&mut bed);
    answer(&mut bed, &sent, 200, CONTACT);
    let mut second = request("INVITE", URI, UDP);
    second.call_id = "call-2".into();
    bed.receive(&alice(UDP), &second.text());
    let held = bed.shard.held_bytes();
    bed.act(|shard, now, out| shard.stop_records(now, out));
    assert_eq!(bed.records.len(), 2);
    assert!(bed.shard.held_bytes() < held);
    for record in &bed.records {
        assert_eq!(record.ended, Some(bed.now));
        assert_eq!(
            (record.ended_by, record.why),
            (EndedBy::Server, Some(Why::ServerStopped))
        );
    }
    let ids: Vec<u128> = bed.records.iter().map(|record| record.id).collect();
    assert_ne!(ids[0], ids[1]);
    let counters = bed.shard.counters();
    assert_eq!((counters.call_records_begun, counters.call_records), (2, 2));
}

#[test]
fn without_records_there_are_none() {
    let mut bed = Bed::new(forwarding(UDP, NEXT));
    let (_, sent) = invite(&mut bed);
    answer(&mut bed, &sent, 200, CONTACT);
    bed.act(|shard, now, out| shard.stop_records(now, out));
    assert!(bed.records.is_empty());
    assert_eq!(bed.shard.counters().call_records_begun, 0);
}

fn with_users() -> Bed {
    Bed::new(Settings {
        authenticate: Some(AuthSettings::default()),
        ..recording(forwarding(UDP, NEXT))
    })
}

/// A request of alice's by her password, which is her name.
fn by_password(bed: &mut Bed, mut request: Request) -> Vec<Sent> {
    request.from = "<sip:alice@example.org>;tag=a".into();
    let challenge = only(bed.receive(&alice(UDP), &request.text()));
    assert_eq!(challenge.status(), 407);
    let (mut auth, mut attempt) = (ClientAuth::new(), Attempt::default());
    auth.add("example.org", "alice", "alice");
    auth.handle_challenge(&mut attempt, &challenge.message)
        .unwrap();
    let parts = RequestParts {
        method: request.method.as_bytes(),
        uri: request.uri.as_bytes(),
        body: b"",
    };
    let mut lines = Vec::new();
    auth.write_credentials(&mut attempt, parts, 7, &mut lines);
    request.more.push_str(std::str::from_utf8(&lines).unwrap());
    request.via.push_str("again");
    bed.receive(&alice(UDP), &request.text());
    let asked = bed.effects.drain(..).find_map(|effect| match effect {
        Effect::FindCredential { park, question, .. } => Some((park, question)),
        _ => None,
    });
    let (park, question) = asked.unwrap();
    let reply = Ok(own_name(&question));
    bed.act(|shard, now, out| shard.handle_credential(now, park, reply, out))
}

#[test]
fn a_user_who_has_not_shown_the_dialogs_token_ends_no_record() {
    // By her password she may send what she likes to whom she likes: with the names of her
    // call, to a friend who says whatever she wants, and the call goes on.
    let mut bed = with_users();
    bed.register("sip:friend@example.org", "sip:friend@203.0.113.77", None);
    let sent = by_password(&mut bed, request("INVITE", URI, UDP)).remove(1);
    let ok = only(answer(&mut bed, &sent, 200, CONTACT));
    assert_eq!(bed.shard.open_call_records(), 1);
    for (method, status, more) in [
        ("BYE", 200, ""),
        ("BYE", 481, ""),
        ("BYE", 408, ""),
        ("UPDATE", 481, ""),
        ("UPDATE", 200, "Session-Expires: 90;refresher=uac\r\n"),
        ("INVITE", 481, ""),
    ] {
        let mut forged = request(method, "sip:friend@example.org", UDP);
        (forged.to, forged.cseq) = ("<sip:bob@example.org>;tag=b".into(), 7);
        let sent = by_password(&mut bed, forged);
        let copy = sent.into_iter().find(|of| of.status() == 0).unwrap();
        assert_eq!(copy.to.remote.ip().to_string(), "203.0.113.77");
        answer(&mut bed, &copy, status, more);
        // An INVITE to a user of ours is a call of its own, which the friend refuses.
        let own = usize::from(method == "INVITE");
        let told: Vec<_> = bed.records.drain(..).map(|record| record.status).collect();
        assert_eq!(told, vec![Some(status); own], "{method} {status}");
        assert_eq!(bed.shard.open_call_records(), 1, "{method} {status}");
    }
    bed.wait(4_000_000);
    assert_eq!((bed.records.len(), bed.shard.open_call_records()), (0, 1));
    // Nor does what this server itself refuses her.
    let mut nowhere = request("BYE", "sip:x@203.0.113.7;maddr=127.0.0.1", UDP);
    nowhere.to = "<sip:bob@example.org>;tag=b".into();
    assert_eq!(only(by_password(&mut bed, nowhere)).status(), 403);
    assert_eq!((bed.records.len(), bed.shard.open_call_records()), (0, 1));
    // With her token she hangs up.
    let hung_up = bed.now;
    let mut bye = of_caller("BYE", &ok, UDP, 9);
    bye.from = "<sip:alice@example.org>;tag=a".into();
    let bye = only(bed.receive(&alice(UDP), &bye.text()));
    answer(&mut bed, &bye, 200, "");
    let record = record(&mut bed);
    assert_eq!(
        (record.ended, record.bye_status, record.why),
        (Some(hung_up), Some(200), None)
    );
    assert_eq!(record.caller_class, "user");
}

#[test]
fn a_refresh_without_the_dialogs_token_ends_no_record_while_the_call_goes_on() {
    let timer = |seconds: u32| format!("{CONTACT}Session-Expires: {seconds};refresher=uac\r\n");
    let mut bed = with_users();
    bed.register("sip:friend@example.org", "sip:friend@203.0.113.77", None);
    let sent = by_password(&mut bed, request("INVITE", URI, UDP)).remove(1);
    answer(&mut bed, &sent, 200, &timer(100));
    bed.wait(60_000);
    // It goes to the other side, which takes it for one of the dialog.
    let mut again = request("INVITE", URI, UDP);
    (again.to, again.cseq) = ("<sip:bob@example.com>;tag=b".into(), 7);
    let again = by_password(&mut bed, again).remove(1);
    assert_eq!(again.to.remote.to_string(), NEXT);
    answer(&mut bed, &again, 200, &timer(90));
    bed.wait(90_000);
    assert_eq!((bed.records.len(), bed.shard.open_call_records()), (0, 1));
    // What a friend says to the same names makes it last no longer.
    let mut friends = request("UPDATE", "sip:friend@example.org", UDP);
    (friends.to, friends.cseq) = ("<sip:bob@example.com>;tag=b".into(), 8);
    let friends = by_password(&mut bed, friends);
    let friends = friends.into_iter().find(|of| of.status() == 0).unwrap();
    answer(&mut bed, &friends, 200, &timer(3_600));
    bed.wait(11_000);
    let record = record(&mut bed);
    assert_eq!(record.why, Some(Why::SessionExpired));
    let talked_ms = record.talk_ms().unwrap();
    assert!((160_000..161_100).contains(&talked_ms), "{talked_ms}");
}

#[test]
fn a_phone_that_loses_its_route_hangs_up_where_its_call_went() {
    let mut bed = with_users();
    let sent = by_password(&mut bed, request("INVITE", URI, UDP)).remove(1);
    answer(&mut bed, &sent, 200, CONTACT);
    // It sends what it has to say by way of the server, and without the Route that it was given.
    let mut bye = request("BYE", "sip:bob@203.0.113.9:5070", UDP);
    (bye.to, bye.cseq) = ("<sip:bob@example.org>;tag=b".into(), 2);
    let sent = by_password(&mut bed, bye);
    let copy = sent.into_iter().find(|of| of.status() == 0).unwrap();
    assert_eq!(copy.to.remote.to_string(), NEXT);
    answer(&mut bed, &copy, 200, "");
    let record = record(&mut bed);
    assert_eq!(
        (record.ended_by, record.bye_status),
        (EndedBy::Caller, Some(200))
    );
}

#[test]
fn whoever_does_not_know_a_call_ends_no_record_of_it() {
    // Without her token she hangs up at another number that is reached by the same address.
    let mut bed = with_users();
    let sent = by_password(&mut bed, request("INVITE", URI, UDP)).remove(1);
    answer(&mut bed, &sent, 200, CONTACT);
    let mut hangs_up = |uri: &str, status| {
        let mut bye = request("BYE", uri, UDP);
        (bye.to, bye.cseq) = ("<sip:bob@example.org>;tag=b".into(), 2);
        let sent = by_password(&mut bed, bye);
        let copy = sent.into_iter().find(|of| of.status() == 0).unwrap();
        assert_eq!(copy.to.remote.to_string(), NEXT);
        let hung_up = bed.now;
        answer(&mut bed, &copy, status, "");
        bed.wait(1_000);
        let told = std::mem::take(&mut bed.records);
        (told, bed.shard.open_call_records(), hung_up)
    };
    let (told, open, _) = hangs_up("sip:carol@example.com", 481);
    assert_eq!((told.len(), open), (0, 1));
    let (told, open, hung_up) = hangs_up("sip:bob@203.0.113.9:5070", 200);
    assert_eq!((told.len(), open), (1, 0));
    assert_eq!(
        (told[0].ended, told[0].bye_status, told[0].why),
        (Some(hung_up), Some(200), None)
    );
}

#[test]
fn a_tag_of_his_own_making_spares_nobody_his_record() {
    let mut bed = with_users();
    let mut invite = request("INVITE", URI, UDP);
    invite.to = "<sip:bob@example.org>;tag=b".into();
    let sent = by_password(&mut bed, invite).remove(1);
    let ok = only(answer(&mut bed, &sent, 200, CONTACT));
    assert_eq!(bed.shard.open_call_records(), 1);
    // One more within that call is no other one.
    let mut again = request("INVITE", URI, UDP);
    (again.to, again.cseq) = ("<sip:bob@example.org>;tag=b".into(), 2);
    let sent = by_password(&mut bed, again).remove(1);
    answer(&mut bed, &sent, 200, CONTACT);
    assert_eq!(bed.shard.counters().call_records_begun, 1);
    // By the same names she calls a friend, who takes it: that is another.
    bed.register("sip:friend@example.org", "sip:friend@203.0.113.77", None);
    let mut others = request("INVITE", "sip:friend@example.org", UDP);
    (others.to, others.cseq) = ("<sip:bob@example.org>;tag=b".into(), 3);
    let sent = by_password(&mut bed, others);
    let copy = sent.into_iter().find(|of| of.status() == 0).unwrap();
    let contact = "Contact: <sip:friend@203.0.113.77>\r\n";
    let friends = only(answer(&mut bed, &copy, 200, contact));
    let other = record(&mut bed);
    assert_eq!(&*other.callee_target, "sip:friend@203.0.113.77");
    assert_eq!((other.status, other.why), (Some(200), Some(Why::NoRoom)));
    assert_eq!(bed.shard.counters().call_records_begun, 2);
    // What she has by that of the friend's ends nothing but his.
    for (cseq, status) in [(7, 200), (8, 481)] {
        let mut bye = of_caller("BYE", &friends, UDP, cseq);
        bye.uri = "sip:friend@203.0.113.77".into();
        bye.from = "<sip:alice@example.org>;tag=a".into();
        let copy = only(bed.receive(&alice(UDP), &bye.text()));
        assert_eq!(copy.to.remote.ip().to_string(), "203.0.113.77");
        answer(&mut bed, &copy, status, "");
    }
    assert_eq!((bed.records.len(), bed.shard.open_call_records()), (0, 1));
    let mut bye = of_caller("BYE", &ok, UDP, 9);
    bye.from = "<sip:alice@example.org>;tag=a".into();
    let sent = bed.receive(&alice(UDP), &bye.text());
    if let Some(copy) = sent.iter().find(|of| of.status() == 0) {
        answer(&mut bed, copy, 200, "");
    }
    bed.act(|shard, now, out| shard.stop_records(now, out));
    assert_eq!(&*record(&mut bed).caller_user, "alice@example.org");
}

#[test]
fn of_two_who_hang_up_at_once_the_one_who_is_answered_ends_the_record() {
    let mut bed = with_users();
    let first = by_password(&mut bed, request("INVITE", URI, UDP)).remove(1);
    let ok = only(answer(&mut bed, &first, 200, CONTACT));
    // Once she has come without her token, none proves anything of this call.
    let mut again = request("INVITE", URI, UDP);
    (again.to, again.cseq) = ("<sip:bob@example.org>;tag=b".into(), 2);
    let sent = by_password(&mut bed, again).remove(1);
    answer(&mut bed, &sent, 200, CONTACT);
    let mut bye = of_caller("BYE", &ok, UDP, 3);
    bye.from = "<sip:alice@example.org>;tag=a".into();
    only(bed.receive(&alice(UDP), &bye.text()));
    // The other side's crosses hers, which nobody answers.
    let mut bye = of_callee("BYE", &first, "Reason: Q.850;cause=16\r\n");
    bye.to = "<sip:alice@example.org>;tag=a".into();
    let bye = only(bed.receive(&answering(&first), &bye.text()));
    answer(&mut bed, &bye, 200, "");
    let record = record(&mut bed);
    assert_eq!(
        (record.ended_by, record.bye_status, record.why),
        (EndedBy::Callee, Some(200), None)
    );
    assert_eq!(&*record.reason, "Q.850;cause=16");
    assert_eq!(bed.shard.open_call_records(), 0);
}

#[test]
fn a_gateway_that_was_left_is_among_the_tries_and_may_have_the_call_after_all() {
    for first_wins in [false, true] {
        let mut bed = with_trunk();
        let invite = request("INVITE", "sip:+4930@example.org", UDP);
        let first = bed.receive(&alice(UDP), &invite.text()).remove(1);
        let sent = bed.wait(4_100);
        let second = sent
            .into_iter()
            .find(|of| of.to.remote.to_string() == "203.0.113.2:5060")
            .unwrap();
        let winner = match first_wins {
            true => &first,
            false => &second,
        };
        answer(&mut bed, winner, 200, CONTACT);
        bed.act(|shard, now, out| shard.stop_records(now, out));
        let record = record(&mut bed);
        let at = winner.to.remote;
        assert_eq!(record.callee_end, Some((UDP, at)));
        assert_eq!(*record.callee_target, at.to_string());
        assert_eq!(&*record.callee_trunk, "outside");
        let tries: Vec<_> = record.tries.iter().map(|of| (of.to.1, of.end)).collect();
        assert_eq!(
            tries,
            [(first.to.remote, Err(Reason::GatewaySilent)), (at, Ok(200))]
        );
        assert_eq!(record.tries_total, 2);
    }
}

#[test]
fn a_gateway_that_was_left_and_answers_after_another_has_a_record_of_its_own() {
    let mut bed = with_trunk();
    let invite = request("INVITE", "sip:+4930@example.org", UDP);
    let first = bed.receive(&alice(UDP), &invite.text()).remove(1);
    let sent = bed.wait(4_100);
    let second = sent
        .into_iter()
        .find(|of| of.to.remote.to_string() == "203.0.113.2:5060")
        .unwrap();
    answer(&mut bed, &second, 200, CONTACT);
    let late = response(&first, 200, "c", CONTACT);
    bed.receive(&answering(&first), &late);
    assert_eq!(bed.shard.open_call_records(), 2);
    bed.act(|shard, now, out| shard.stop_records(now, out));
    let told = bed.records.iter();
    let told = told.map(|record| (record.callee_end, &*record.callee_trunk));
    let ends = [second.to.remote, first.to.remote].map(|at| Some((UDP, at)));
    assert_eq!(told.collect::<Vec<_>>(), ends.map(|end| (end, "outside")));
    let counters = bed.shard.counters();
    assert_eq!((counters.call_records_begun, counters.call_records), (2, 2));
}

#[test]
fn a_call_that_is_answered_before_its_cancel_arrives_has_been_answered() {
    let mut bed = bed();
    let (invite_, sent) = invite(&mut bed);
    answer(&mut bed, &sent, 180, "");
    let mut cancel = request("CANCEL", URI, UDP).with("Reason: SIP;cause=200\r\n");
    cancel.via = invite_.via;
    bed.receive(&alice(UDP), &cancel.text());
    let ok = only(answer(&mut bed, &sent, 200, CONTACT));
    assert!(bed.records.is_empty());
    let bye = hangs_up(&mut bed, &ok, 2);
    answer(&mut bed, &bye, 200, "");
    let record = record(&mut bed);
    assert_eq!((record.status, record.bye_status), (Some(200), Some(200)));
    assert_eq!((&*record.reason, record.why), ("", None));
}

#[test]
fn what_redirects_ends_its_call() {
    let mut bed = bed();
    let (_, sent) = invite(&mut bed);
    answer(
        &mut bed,
        &sent,
        302,
        "Contact: <sip:bob@elsewhere.example>\r\n",
    );
    let record = record(&mut bed);
    assert_eq!(
        (record.status, record.ended_by),
        (Some(302), EndedBy::Callee)
    );
    assert_eq!(bed.shard.open_call_records(), 0);
}

#[test]
fn a_session_timer_that_is_too_short_to_be_one_is_a_minute_and_a_half() {
    // RFC 4028 4 has 90 seconds as the least.
    let mut bed = bed();
    let (_, sent) = invite(&mut bed);
    let timer = format!("{CONTACT}Session-Expires: 1;refresher=uac\r\n");
    answer(&mut bed, &sent, 200, &timer);
    bed.wait(89_000);
    assert!(bed.records.is_empty());
    bed.wait(2_000);
    let record = record(&mut bed);
    assert_eq!(
        (record.why, record.session_expires_s),
        (Some(Why::SessionExpired), Some(1))
    );
}
