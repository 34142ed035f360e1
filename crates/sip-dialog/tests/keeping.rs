//! How long answers are kept for requests that come again.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use crate::common::Wire;
use sip_dialog::Event;
use sip_msg::Transport;

/// One call from its INVITE to its BYE, and the wire on which it was.
fn called(keep_answers_ms: Option<u64>) -> Wire {
    let mut wire = Wire::new(Transport::Udp, 2, |config| {
        config.keep_answers_ms = keep_answers_ms;
        config.linger = false;
    });
    let alice = wire.add(0, "alice", 5061);
    wire.add(1, "bob", 5060);
    let call = wire.act(0, |agents, now_ms, out| {
        agents
            .invite(now_ms, alice, "sip:bob@192.0.2.1:5061", None, out)
            .unwrap()
    });
    wire.run_for(20);
    let incoming = wire.ends[1]
        .events
        .iter()
        .find_map(|(_, event)| match event {
            Event::Incoming { call, .. } => Some(*call),
            _ => None,
        })
        .unwrap();
    wire.act(1, |agents, now_ms, out| {
        assert!(agents.answer(now_ms, incoming, None, out));
    });
    wire.run_for(50);
    wire.act(0, |agents, now_ms, out| {
        assert!(agents.hang_up(now_ms, call, out));
    });
    wire.run_for(50);
    assert_eq!(wire.ends[1].agents.live().calls, 0);
    wire
}

#[test]
fn a_repeat_within_the_time_is_answered_as_before_and_nothing_is_left_after_it() {
    let mut wire = called(Some(5_000));
    let bye = wire
        .sent
        .iter()
        .find(|sent| sent.2.starts_with("BYE "))
        .unwrap()
        .2
        .clone();
    wire.run_for(4_000);
    wire.sent.clear();
    wire.inject(1, 5060, &bye);
    assert!(
        wire.sent[0].2.starts_with("SIP/2.0 200 "),
        "{}",
        wire.sent[0].2
    );
    wire.run_for(2_000);
    wire.act(1, |agents, now_ms, out| agents.handle_timers(now_ms, out));
    assert_eq!(wire.ends[1].agents.live().transactions, 0);
    wire.sent.clear();
    wire.inject(1, 5060, &bye);
    assert!(
        wire.sent[0].2.starts_with("SIP/2.0 481 "),
        "{}",
        wire.sent[0].2
    );
}

#[test]
fn without_a_bound_they_are_kept_as_long_as_the_rfc_says() {
    let mut wire = called(None);
    wire.run_for(6_000);
    assert_eq!(
        wire.ends[1].agents.live().transactions,
        2,
        "of the INVITE and of the BYE"
    );
    wire.run_for(30_000);
    assert_eq!(wire.ends[1].agents.live().transactions, 0);
}
