//! The final responses that were given are counted, by method and status.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use crate::common::Wire;
use sip_dialog::{Answers, CallKey, Event};
use sip_msg::{Method, Transport};

const BOB: &str = "sip:bob@192.0.2.1:5061";

/// The call that came last at the called end.
fn incoming(wire: &mut Wire) -> CallKey {
    let events = wire.take_events(1);
    let mut calls = events.iter().filter_map(|event| match event {
        Event::Incoming { call, .. } => Some(*call),
        _ => None,
    });
    calls.next_back().unwrap()
}

#[test]
fn each_request_counts_once_however_often_its_answer_is_sent() {
    let mut wire = Wire::new(Transport::Udp, 2, |_| {});
    let alice = wire.add(0, "alice", 5061);
    wire.add(1, "bob", 5060);
    let invite = |wire: &mut Wire| {
        wire.act(0, |agents, now_ms, out| {
            agents.invite(now_ms, alice, BOB, None, out).unwrap()
        })
    };
    let call = invite(&mut wire);
    wire.run_for(100);
    let rings = incoming(&mut wire);
    // The first two ACKs are lost: the 200 is sent again until the third.
    let mut lost = 0;
    wire.lose = Box::new(move |text| {
        let is_lost = text.starts_with("ACK") && lost < 2;
        lost += u32::from(is_lost);
        is_lost
    });
    wire.act(1, |agents, now_ms, out| {
        assert!(agents.ring(now_ms, rings, out) && agents.answer(now_ms, rings, None, out));
    });
    wire.run_for(5_000);
    assert_eq!(wire.ends[1].agents.counters().answers_retransmitted, 2);
    wire.act(0, |agents, now_ms, out| {
        assert!(agents.hang_up(now_ms, call, out))
    });
    wire.run_for(100);
    invite(&mut wire);
    wire.run_for(100);
    let refused = incoming(&mut wire);
    wire.act(1, |agents, now_ms, out| {
        assert!(agents.reject(now_ms, refused, 486, out))
    });
    wire.act(0, |agents, now_ms, out| {
        agents.options(now_ms, alice, BOB, out).unwrap()
    });
    wire.act(0, |agents, now_ms, out| {
        agents.register(now_ms, alice, 600, out).unwrap()
    });
    wire.run_for(1_000);
    let answers = wire.ends[1].agents.answers();
    let all: Vec<(Method, u16, u64)> = answers.iter().collect();
    assert_eq!(
        all,
        [
            (Method::Invite, 200, 1),
            (Method::Bye, 200, 1),
            (Method::Invite, 486, 1),
            (Method::Options, 200, 1),
            // It is no registrar.
            (Method::Register, 405, 1),
        ]
    );
    let mut both = Answers::default();
    both.merge(answers);
    both.merge(answers);
    assert_eq!(
        (both.of(Method::Invite, 200), both.of(Method::Bye, 481)),
        (2, 0)
    );
    wire.assert_empty();
}
