//! Phones with several flows (RFC 5626): one flow of a phone at a time, and what comes next is
//! what can be tried.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use crate::house::*;
use sip_engine::people::Forwards;
use sip_engine::refusal::Reason;
use sip_msg::Transport;

const BOB: &str = "sip:bob@example.org";
const CAROL: &str = "sip:carol@example.org";
const CAROLS: &str = "sip:carol@203.0.113.13:5060";
/// What Bob has beside the phone with two flows.
const BOBS_OTHER: &str = "sip:bob@203.0.113.14:5060";
const PHONE: &str = "203.0.113.9";

/// Registers a phone of Bob's by two flows, each with its q.
fn phone_of_two_flows(house: &mut House, transport: Transport, qs: [u16; 2]) {
    for (reg_id, q) in (1..).zip(qs) {
        let flow = flow(transport, &format!("{PHONE}:{}", 40_000 + reg_id));
        house
            .bed
            .register_with(BOB, "sip:bob@10.0.0.9;ob", Some(flow), |binding| {
                binding.q = q;
                binding.reg_id = Some(reg_id);
                binding.instance = Some(b"<urn:uuid:1>".as_slice().into());
            });
    }
}

/// Bob has a phone of two flows, and Carol an ordinary one.
fn house_of_flows(transport: Transport, qs: [u16; 2], book: Book) -> House {
    let mut house = House::new(book);
    phone_of_two_flows(&mut house, transport, qs);
    house.phone("carol", 13);
    house
}

fn bob_forwards(change: impl FnOnce(&mut Forwards)) -> Book {
    book().forwards("bob", change)
}

/// The only copy went along one flow of the phone.
#[track_caller]
fn one_flow(sent: Vec<Sent>) -> Sent {
    let sent = only(sent);
    assert!(
        is_copy(&sent) && sent.to.remote.ip().to_string() == PHONE,
        "{}",
        sent.text
    );
    sent
}

/// It rings, and is said to again and again, for that time; nothing else comes of it.
#[track_caller]
fn rings_for(house: &mut House, sent: &Sent, for_ms: u64) {
    for _ in 0..for_ms / 1_000 {
        assert_eq!(only(house.answer(sent, 180)).status(), 180);
        assert!(kinds(&house.bed.wait(1_000)).is_empty());
    }
}

/// What rings is given up, and the only copy is for this URI.
#[track_caller]
fn gives_up_for(house: &mut House, within_ms: u64, uri: &str) -> Sent {
    let mut next = house.bed.wait(within_ms);
    next.sort_by_key(Sent::method);
    assert_eq!(kinds(&next), ["CANCEL", "INVITE"]);
    assert_eq!(next[1].uri(), uri);
    next.remove(1)
}

#[test]
fn another_contact_of_lower_q_is_tried_after_a_phone_of_two_flows() {
    for transport in TRANSPORTS {
        for qs in [[1_000, 1_000], [1_000, 800]] {
            let house = || {
                let mut house = house_of_flows(transport, qs, book());
                house
                    .bed
                    .register_with(BOB, BOBS_OTHER, None, |binding| binding.q = 500);
                house
            };
            // It refuses.
            let mut refused = house();
            let first = one_flow(refused.call("alice", BOB));
            let next = refused.answer(&first, 486);
            assert_eq!(copy(&next).1, BOBS_OTHER, "{transport:?} {qs:?}");
            assert_eq!(status(refused.answer(&next[0], 404)), 486);
            assert_eq!(refused.bed.shard.live_contexts(), 0);
            // It rings too long, however often it says that it rings.
            let mut rings = house();
            let first = one_flow(rings.call("alice", BOB));
            rings_for(&mut rings, &first, 19_000);
            let next = gives_up_for(&mut rings, 1_100, BOBS_OTHER);
            assert!(rings.answer(&first, 487).is_empty());
            assert_eq!(status(rings.answer(&next, 200)), 200);
        }
    }
}

#[test]
fn the_other_flow_comes_before_what_has_a_lower_q_where_the_first_is_gone() {
    let mut house = house_of_flows(Transport::Tls, [1_000, 1_000], book());
    house
        .bed
        .register_with(BOB, BOBS_OTHER, None, |binding| binding.q = 500);
    let first = one_flow(house.call("alice", BOB));
    let gone = |house: &mut House, sent: &Sent| {
        let cookie = sent.cookie;
        let act = |s: &mut sip_engine::Shard, now, out: &mut _| {
            s.handle_send_failed(now, cookie, out);
        };
        house.bed.act(act)
    };
    let second = one_flow(gone(&mut house, &first));
    assert_ne!(second.to.remote, first.to.remote);
    assert_eq!(copy(&gone(&mut house, &second)).1, BOBS_OTHER);
    assert_eq!(house.bed.shard.counters().flows_failed, 2);
}

#[test]
fn an_alias_hunts_on_after_a_phone_of_two_flows() {
    for transport in TRANSPORTS {
        let hunts = || book().alias("sales", &[(BOB, 1_000), (CAROL, 500)]);
        let mut house = house_of_flows(transport, [1_000, 1_000], hunts());
        let first = one_flow(house.call("alice", "sip:sales@example.org"));
        let next = house.answer(&first, 480);
        assert_eq!(copy(&next).1, CAROLS, "{transport:?}");
        let mut house = house_of_flows(transport, [1_000, 1_000], hunts());
        let first = one_flow(house.call("alice", "sip:sales@example.org"));
        rings_for(&mut house, &first, 19_000);
        gives_up_for(&mut house, 1_100, CAROLS);
    }
}

#[test]
fn a_call_is_forwarded_from_a_phone_of_two_flows_to_what_has_a_lower_q() {
    for transport in TRANSPORTS {
        let later = || {
            let book = bob_forwards(|forwards| {
                forwards.busy = to("sip:desk@example.org");
                forwards.no_answer = to("sip:desk@example.org");
            });
            book.alias("desk", &[(CAROL, 300)])
        };
        for said in [486, 480] {
            let mut house = house_of_flows(transport, [1_000, 1_000], later());
            let first = one_flow(house.call("alice", BOB));
            let next = house.answer(&first, said);
            assert_eq!(copy(&next).1, CAROLS, "{transport:?} {said}");
            // What she says is the answer.
            assert_eq!(status(house.answer(&next[0], 404)), 404);
        }
    }
}

#[test]
fn however_often_it_is_said_that_it_rings_it_is_forwarded_in_time() {
    for transport in TRANSPORTS {
        for qs in [[1_000, 1_000], [1_000, 500]] {
            let book = bob_forwards(|forwards| {
                forwards.no_answer = to(CAROL);
                forwards.no_answer_s = 15;
            });
            let mut house = house_of_flows(transport, qs, book);
            let first = one_flow(house.call("alice", BOB));
            rings_for(&mut house, &first, 14_000);
            let next = gives_up_for(&mut house, 1_100, CAROLS);
            let why = "Diversion: <sip:bob@example.org>;reason=no-answer;counter=1";
            assert_eq!(lines_of(&next, "Diversion"), [why], "{transport:?} {qs:?}");
            assert!(house.answer(&first, 487).is_empty());
            assert_eq!(status(house.answer(&next, 200)), 200);
        }
    }
}

#[test]
fn a_phone_of_two_flows_and_nothing_else_rings_as_long_as_it_likes() {
    for transport in TRANSPORTS {
        for qs in [[1_000, 1_000], [1_000, 500]] {
            let mut house = house_of_flows(transport, qs, book());
            let first = one_flow(house.call("alice", BOB));
            rings_for(&mut house, &first, 60_000);
            assert_eq!(status(house.answer(&first, 200)), 200);
        }
    }
}

/// The first flow of a phone is gone while another phone rings: the other flow, of lower q, has
/// its turn when that one has rung for as long as any may.
#[test]
fn the_other_flow_of_a_phone_does_not_wait_until_another_phone_has_rung_for_ever() {
    let mut house = house_of_flows(Transport::Tls, [1_000, 500], book());
    house
        .bed
        .register_with(BOB, BOBS_OTHER, None, |binding| binding.q = 1_000);
    let both = house.call("alice", BOB);
    assert_eq!(kinds(&both), ["INVITE", "INVITE"]);
    let (flow, other): (Vec<_>, Vec<_>) = both
        .into_iter()
        .partition(|sent| sent.to.remote.ip().to_string() == PHONE);
    let (flow, other) = (only(flow), only(other));
    assert_eq!(only(house.answer(&other, 180)).status(), 180);
    let cookie = flow.cookie;
    let gone = |s: &mut sip_engine::Shard, now, out: &mut _| s.handle_send_failed(now, cookie, out);
    assert!(kinds(&house.bed.act(gone)).is_empty());
    rings_for(&mut house, &other, 19_000);
    let mut next = house.bed.wait(1_100);
    next.sort_by_key(Sent::method);
    assert_eq!(kinds(&next), ["CANCEL", "INVITE"]);
    assert_eq!(next[1].to.remote.ip().to_string(), PHONE);
}

#[test]
fn a_503_along_a_flow_leads_to_the_next_and_tells_of_no_flow_that_is_gone() {
    for transport in TRANSPORTS {
        let mut house = house_of_flows(transport, [1_000, 1_000], book());
        let first = one_flow(house.call("alice", BOB));
        let second = one_flow(house.answer(&first, 503));
        assert_ne!(second.to.remote, first.to.remote);
        // RFC 3261 16.7: "If the only response that was received is a 503, the proxy SHOULD
        // generate a 500 response and forward that upstream."
        let refused = house.answer(&second, 503);
        saw_status(&mut house, refused, 500, Reason::NextHopBusy);
        assert_eq!(house.bed.shard.counters().flows_failed, 0);
    }
}
