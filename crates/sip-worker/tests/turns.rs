//! What a worker does with what comes before its shard sees it: while it is to end, where a
//! source is left without answers, and where one of the workers falls behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use common::*;
use sip_engine::Now;
use sip_engine::refusal::Reason;
use sip_engine::settings::Settings;
use sip_limit::{Guard, Limits, Origin, Verdict};
use sip_msg::{ConnId, Flow, ListenerId, Message, Transport};
use sip_worker::{Mailbox, Parts, Phase, Severities, SocketEvent, Worker};

fn alone() -> Parts<Played> {
    let settings = Settings {
        authenticate: None,
        ..settings()
    };
    parts_among(
        0,
        vec![Mailbox::new(16, Nothing)],
        Front::default(),
        settings,
    )
}

fn from(remote: &str) -> Flow {
    Flow {
        transport: Transport::Udp,
        listener: ListenerId(0),
        local: "192.0.2.1:5060".parse().unwrap(),
        remote: remote.parse().unwrap(),
        conn: ConnId::NONE,
    }
}

fn request(method: &str, to_tag: &str) -> String {
    format!(
        "{method} sip:bob@example.org SIP/2.0\r\n\
         Via: SIP/2.0/UDP 198.51.100.66:6666;branch=z9hG4bK{method}\r\n\
         From: <sip:alice@example.org>;tag=a\r\nTo: <sip:bob@example.org>{to_tag}\r\n\
         Call-ID: {method}\r\nCSeq: 1 {method}\r\nMax-Forwards: 70\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

fn statuses(wire: &mut Wire) -> Vec<u16> {
    let sent = wire.sent.drain(..);
    sent.map(|bytes| Message::parse(&bytes, &settings().limits).unwrap().status())
        .collect()
}

#[test]
fn an_order_to_drain_counts_for_what_came_with_it_and_is_followed_once() {
    let parts = alone();
    let control = Arc::clone(&parts.control);
    let mut worker = Worker::new(parts, NOW);
    let mut wire = Wire::default();
    let invite = request("INVITE", "");
    assert!(worker.begin_turn(&mut wire));
    // It comes while the worker waits for its sockets.
    control.order(Phase::Draining);
    worker.wake_up(|| NOW);
    worker.handle_event(SocketEvent::Message {
        flow: from("198.51.100.66:6666"),
        bytes: invite.as_bytes(),
    });
    worker.end_turn(&mut wire);
    assert_eq!(statuses(&mut wire), [503]);
    assert_eq!(worker.shard().refusal_counts().of(Reason::Draining), 1);
    assert_eq!(wire.stopped, 0);
    for _ in 0..3 {
        assert!(
            worker.begin_turn(&mut wire),
            "it goes on until it is to stop"
        );
        worker.wake_up(|| NOW);
        worker.end_turn(&mut wire);
        assert_eq!(wire.stopped, 1);
    }
    // There is no way back.
    control.order(Phase::Running);
    assert_eq!(control.phase(), Phase::Draining);
    control.order(Phase::Stop);
    assert!(!worker.begin_turn(&mut wire));
}

#[test]
fn a_source_that_is_left_without_answers_is_read_only_where_something_may_go_on() {
    let limits = Limits {
        refusals_per_s: 1,
        refusals_max: 1,
        ..Limits::default()
    };
    let guard = Arc::new(Guard::new([9; 16], limits));
    let mut parts = alone();
    parts.guard = Arc::clone(&guard);
    let mut worker = Worker::new(parts, NOW);
    let stranger = from("198.51.100.66:6666");
    let origin = Origin {
        remote: stranger.remote,
        is_stream: false,
    };
    let verdict = || guard.refused(NOW.mono_ms, &origin, 0).0;
    assert!((0..1_000).any(|_| verdict() == Verdict::Silence));
    let mut wire = Wire::default();
    let options = request("OPTIONS", "");
    let bye = request("BYE", ";tag=b");
    let mut given = |flow: Flow, text: &str| {
        assert!(worker.begin_turn(&mut wire));
        worker.wake_up(|| NOW);
        let bytes = text.as_bytes();
        worker.handle_event(SocketEvent::Message { flow, bytes });
        worker.end_turn(&mut wire);
        let read = worker.shard().counters().requests;
        (worker.figures().dropped_unread, read)
    };
    assert_eq!(given(stranger, &options), (1, 0));
    // What may be part of something that was let in is for the shard to judge.
    assert_eq!(given(stranger, &bye), (1, 1));
    assert_eq!(given(from("198.51.100.67:6666"), &options), (1, 2));
}

#[test]
fn what_the_worst_of_the_workers_cannot_handle_reaches_none() {
    let mut parts = alone();
    let severities: Severities = [0, 20_000].map(AtomicU32::new).into_iter().collect();
    parts.severities = Arc::clone(&severities);
    let mut worker = Worker::new(parts, NOW);
    let mut wire = Wire::default();
    let mut turn = |at_ms: u64| {
        assert!(worker.begin_turn(&mut wire));
        worker.wake_up(|| Now {
            mono_ms: NOW.mono_ms + at_ms,
            ..NOW
        });
        worker.end_turn(&mut wire);
        wire.shed.drain(..).collect::<Vec<_>>()
    };
    let shed = turn(0);
    let [Some(shares)] = shed[..] else {
        panic!("{shed:?}");
    };
    assert_eq!(shares.new_work.percent(), 0);
    assert!(shares.let_in.percent() > 0, "answers to challenges pass");
    assert_eq!(severities[0].load(Ordering::Relaxed), 0, "its own is told");
    // It ends with the other's.
    severities[1].store(0, Ordering::Relaxed);
    assert!(matches!(turn(1_000)[..], [None]));
    assert!(turn(2_000).is_empty());
}
