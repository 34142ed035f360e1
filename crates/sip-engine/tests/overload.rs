//! A shard whose worker falls behind: what goes on goes on, and what begins is
//! let in by classes.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use crate::common::*;
use sip_limit::Shares;
use sip_limit::overload::{LET_IN_AT, NEW_WORK_AT};
use sip_msg::{HeaderName, Transport};

const BOB: &str = "sip:bob@example.org";

fn server() -> Bed {
    let mut bed = Bed::new(settings());
    bed.register(BOB, "sip:bob@203.0.113.7:5060", None);
    bed
}

/// The severity from which on this server lets one of 64 calls in.
const BAD: f32 = NEW_WORK_AT + 6.0;

fn let_in(bed: &mut Bed, severity: f32) {
    bed.act(|shard, _, _| shard.set_shares(Shares::at(severity)));
}

fn begun(sent: &[Sent]) -> bool {
    kinds(sent).iter().any(|kind| kind == "INVITE")
}

#[test]
fn what_has_begun_goes_on_when_next_to_nothing_is_let_in() {
    let mut bed = server();
    let invite = request("INVITE", BOB, Transport::Udp);
    let mut sent = bed.receive(&alice(Transport::Udp), &invite.text());
    let forwarded = &sent.remove(1);
    let ok = response(forwarded, 200, "b", "Contact: <sip:bob@203.0.113.7>\r\n");
    let route = forwarded.header(HeaderName::RecordRoute).unwrap();
    let flow = answering(forwarded);

    let_in(&mut bed, 24.0);
    assert_eq!(kinds(&bed.receive(&flow, &ok)), ["200"]);
    for (method, seq) in [("ACK", 1), ("BYE", 2)] {
        let mut within = request(method, "sip:bob@203.0.113.7", Transport::Udp);
        within.to = format!("<{BOB}>;tag=b");
        within.cseq = seq;
        let within = within.with(&format!("Route: {route}\r\n"));
        let sent = bed.receive(&alice(Transport::Udp), &within.text());
        assert_eq!(kinds(&sent), [method]);
    }
}

#[test]
fn a_copy_of_what_was_let_in_is_absorbed_and_not_refused() {
    let mut bed = server();
    let invite = request("INVITE", BOB, Transport::Udp).text();
    assert!(begun(&bed.receive(&alice(Transport::Udp), &invite)));
    let_in(&mut bed, 24.0);
    let again = bed.receive(&alice(Transport::Udp), &invite);
    assert_eq!(kinds(&again), ["100"]);
}

#[test]
fn a_refusal_says_when_to_come_again_and_leaves_nothing_behind() {
    let mut bed = server();
    let_in(&mut bed, BAD);
    let invite = request("INVITE", BOB, Transport::Udp).text();
    let refused = only(bed.receive(&alice(Transport::Udp), &invite));
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.header(HeaderName::RetryAfter).unwrap(), "5");
    assert_eq!(bed.shard.in_flight(), 0);
}

#[test]
fn past_the_words_that_there_are_datagrams_are_dropped_and_streams_are_answered() {
    let mut bed = server();
    let_in(&mut bed, BAD);
    for transport in [Transport::Udp, Transport::Tcp] {
        let mut answered = 0;
        for _ in 0..60 {
            let invite = request("INVITE", BOB, transport).text();
            let sent = bed.receive(&alice(transport), &invite);
            answered += sent.iter().filter(|s| s.status() == 503).count();
        }
        match transport {
            Transport::Udp => assert!(answered < 10, "{answered} of 60"),
            _ => assert!(answered > 55, "{answered} of 60"),
        }
    }
    let counters = bed.shard.counters();
    assert!(counters.overload_dropped > 40 && counters.overload_refused > 55);
}

/// How many of 256 are let in.
fn share(bed: &mut Bed, text: impl Fn(u32) -> String, is_in: impl Fn(&[Sent]) -> bool) -> usize {
    (0..256)
        .filter(|n| {
            let sent = bed.receive(&alice(Transport::Udp), &text(*n));
            is_in(&sent)
        })
        .count()
}

#[test]
fn registrations_that_renew_come_before_calls_and_calls_before_first_registrations() {
    let mut bed = server();
    let register = |user: &str| {
        let user = user.to_owned();
        move |n: u32| {
            let mut register = request("REGISTER", "sip:example.org", Transport::Udp);
            register.to = format!("<sip:{user}@example.org>");
            register.from = format!("<sip:{user}@example.org>;tag=a");
            register.call_id = format!("r-{user}-{n}");
            register.text()
        }
    };
    // Without credentials nobody gets far here: what is let in is asked to be stored.
    let_in(&mut bed, NEW_WORK_AT + 2.0);
    let calls = share(
        &mut bed,
        |_| request("INVITE", BOB, Transport::Udp).text(),
        begun,
    );
    let stored = |bed: &mut Bed, user: &str| {
        let text = register(user);
        (0..256)
            .filter(|n| {
                let before = bed.shard.registrar_counters().requests;
                bed.receive(&alice(Transport::Udp), &text(*n));
                bed.effects.clear();
                bed.shard.registrar_counters().requests > before
            })
            .count()
    };
    assert_eq!(stored(&mut bed, "bob"), 256);
    assert_eq!(stored(&mut bed, "carol"), 256 >> 5);
    assert_eq!(calls, 256 >> 2);
}

#[test]
fn who_has_answered_a_challenge_comes_before_who_has_not() {
    let mut bed = server();
    let_in(&mut bed, LET_IN_AT);
    let with = |_| {
        request("INVITE", BOB, Transport::Udp)
            .with("Proxy-Authorization: Digest username=\"alice\"\r\n")
            .text()
    };
    assert_eq!(share(&mut bed, with, begun), 256);
    let without = |_| request("INVITE", BOB, Transport::Udp).text();
    assert_eq!(share(&mut bed, without, begun), 256 >> 6);
}
