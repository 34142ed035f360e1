//! What becomes of messages for another worker that has no room for them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use common::*;
use sip_engine::Now;
use sip_engine::refusal::Reason;
use sip_engine::sender::Sender;
use sip_engine::settings::{Listener, Settings};
use sip_engine::shard::shard_of;
use sip_msg::{ConnId, Flow, Limits, ListenerId, Message, Target, Transport};
use sip_worker::{Control, Handover, Mailbox, Phase, SendFailure, SocketEvent, Worker};

/// What ends something finds so much more room than the bound.
const ENDING_MAX: usize = 4_096;

/// Two workers, of which the first one runs.
struct Bed {
    worker: Worker<Played>,
    control: Arc<Control<(), Nothing>>,
    mailboxes: Vec<Arc<Mailbox<Nothing>>>,
    wire: Wire,
}

fn flow(transport: Transport, worker: u64) -> Flow {
    let conn = match transport {
        Transport::Udp => ConnId::NONE,
        _ => ConnId(worker << 56 | 7),
    };
    Flow {
        transport,
        listener: ListenerId(u16::from(transport != Transport::Udp)),
        local: "192.0.2.1:5060".parse().unwrap(),
        remote: "198.51.100.66:6666".parse().unwrap(),
        conn,
    }
}

fn parse(text: &str) -> Message {
    Message::parse(text.as_bytes(), &Limits::default()).unwrap()
}

/// A message of a call of that worker's.
fn of(start: &str, method: &str, owner: usize, to_tag: &str) -> String {
    let text = |nth: u32| {
        format!(
            "{start}\r\nVia: SIP/2.0/TCP 198.51.100.66:6666;branch=z9hG4bKa\r\n\
             From: <sip:alice@example.org>;tag=a\r\nTo: <sip:bob@example.org>{to_tag}\r\n\
             Call-ID: call-{nth}\r\nCSeq: 1 {method}\r\nMax-Forwards: 70\r\n\
             Content-Length: 0\r\n\r\n"
        )
    };
    let is_its = |text: &String| shard_of(&parse(text), 2, &SHARD_KEY) == owner;
    (0..).map(text).find(is_its).unwrap()
}

impl Bed {
    /// In the mailbox of the other, which has room for one that begins something, lie so many.
    fn new(taken: usize) -> Self {
        let mut settings = Settings {
            authenticate: None,
            ..settings()
        };
        settings.listeners.push(Listener {
            transport: Transport::Tcp,
            ..settings.listeners[0].clone()
        });
        let mailboxes: Vec<_> = (0..2).map(|_| Mailbox::new(1, Nothing)).collect();
        let mut filling: Vec<_> = (0..taken)
            .map(|cookie| Handover::SendFailed {
                cookie: cookie as u64,
                failure: SendFailure::There,
            })
            .collect();
        mailboxes[1].put(&mut filling);
        assert!(filling.is_empty());
        let control = Arc::new(Control::new(2));
        let mut parts = parts_among(0, mailboxes.clone(), Front::default(), settings);
        parts.control = Arc::clone(&control);
        Self {
            worker: Worker::new(parts, NOW),
            control,
            mailboxes,
            wire: Wire::default(),
        }
    }

    /// One turn, in which these come; what is sent because of them.
    fn turn(&mut self, flow: Flow, messages: &[&str]) -> Vec<Message> {
        self.turn_at(NOW, flow, messages)
    }

    fn turn_at(&mut self, now: Now, flow: Flow, messages: &[&str]) -> Vec<Message> {
        assert!(self.worker.begin_turn(&mut self.wire));
        self.worker.wake_up(|| now);
        for message in messages {
            let bytes = message.as_bytes();
            self.worker
                .handle_event(SocketEvent::Message { flow, bytes });
        }
        self.worker.end_turn(&mut self.wire);
        let sent = self.wire.sent.drain(..);
        sent.map(|bytes| Message::parse(&bytes, &Limits::default()).unwrap())
            .collect()
    }

    /// What lies in the mailbox of the other, beside what filled it.
    fn taken(&self) -> Vec<Handover> {
        let mut mail = VecDeque::new();
        self.mailboxes[1].take(&mut mail);
        mail.retain(|of| !matches!(of, Handover::SendFailed { .. }));
        mail.into()
    }
}

#[test]
fn a_request_for_which_another_has_no_room_is_refused_like_any_other() {
    let mut bed = Bed::new(1);
    let invite = of("INVITE sip:bob@example.org SIP/2.0", "INVITE", 1, "");
    // A datagram comes again.
    assert!(bed.turn(flow(Transport::Udp, 0), &[&invite]).is_empty());
    let tcp = flow(Transport::Tcp, 0);
    let sent = bed.turn(tcp, &[&invite]);
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].status(), 503);
    // RFC 3261 18.2.1: "If the host portion of the "sent-by" parameter contains a domain name, or
    // if it contains an IP address that differs from the packet source address, the server MUST
    // add a "received" parameter to that Via header field value."
    let named = invite.replace("TCP 198.51.100.66:6666", "TCP phone.example.org");
    let refused = bed.turn(tcp, &[&named]);
    let via = refused[0].top_via().unwrap();
    assert_eq!(via.received, Some(b"198.51.100.66".as_slice()));
    let retry_after = sent[0].first(sip_msg::HeaderName::RetryAfter).unwrap();
    assert_eq!(retry_after.value, b"5");
    let counts = bed.worker.shard().refusal_counts();
    assert_eq!(counts.of(Reason::Overloaded), 2);
    assert_eq!(bed.worker.figures().handover_refused, 3);
    // RFC 3261 8.2.7: "To header tags MUST be generated for responses in a stateless manner - in a
    // manner that will generate the same tag for the same request consistently."
    let tag = |message: &Message| message.to_tag().unwrap().to_vec();
    let again = bed.turn(tcp, &[&invite]);
    assert_eq!(tag(&sent[0]), tag(&again[0]));
    // Its ACK is known by it, and goes to nobody.
    let to_tag = format!(";tag={}", String::from_utf8(tag(&sent[0])).unwrap());
    let ack = of("ACK sip:bob@example.org SIP/2.0", "ACK", 1, &to_tag);
    assert!(bed.turn(tcp, &[&ack]).is_empty());
    assert_eq!(bed.worker.shard().counters().acks_absorbed, 1);
    assert!(bed.taken().is_empty());
    // Every other is the other's.
    let ack = of("ACK sip:bob@example.org SIP/2.0", "ACK", 1, ";tag=another");
    bed.turn(tcp, &[&ack]);
    assert_eq!(bed.taken().len(), 1);
}

#[test]
fn a_final_response_on_a_stream_waits_for_room_and_every_other_message_does_not() {
    let ok = of("SIP/2.0 200 OK", "INVITE", 1, ";tag=b");
    let ringing = of("SIP/2.0 180 Ringing", "INVITE", 1, ";tag=b");
    let mut bed = Bed::new(1 + ENDING_MAX);
    bed.turn(flow(Transport::Udp, 0), &[&ok, &ringing]);
    let tcp = flow(Transport::Tcp, 0);
    bed.turn(tcp, &[&ringing, &ok]);
    assert_eq!(bed.worker.figures().handover_refused, 3);
    // It does not wait until something else happens.
    let timeout = bed.worker.timeout().unwrap();
    assert!(timeout <= Duration::from_millis(10), "{timeout:?}");
    // One to be sent along a connection of the other waits as well.
    let options = parse(&of("OPTIONS sip:example.org SIP/2.0", "OPTIONS", 0, ""));
    let mut asked = vec![Handover::Message {
        sender: Sender::unproved(flow(Transport::Tcp, 1)),
        message: Box::new(options),
    }];
    bed.mailboxes[0].put(&mut asked);
    bed.turn(tcp, &[]);
    assert_eq!(bed.worker.figures().handover_refused, 3);
    assert!(bed.taken().is_empty());
    bed.turn(tcp, &[]);
    match &bed.taken()[..] {
        [
            Handover::Message { message, .. },
            Handover::Send { bytes, .. },
        ] => {
            assert_eq!(message.status(), 200);
            assert!(bytes.starts_with(b"SIP/2.0 200 "));
        }
        other => panic!("{} other", other.len()),
    }
    assert_ne!(bed.worker.timeout(), Some(Duration::from_millis(10)));
}

#[test]
fn what_waits_for_room_has_a_bound() {
    let ok = of("SIP/2.0 200 OK", "INVITE", 1, ";tag=b");
    let mut bed = Bed::new(1 + ENDING_MAX);
    let many = vec![&*ok; ENDING_MAX + 9];
    bed.turn(flow(Transport::Tcp, 0), &many);
    assert_eq!(bed.worker.figures().handover_refused, 9);
    assert!(bed.taken().is_empty());
    bed.turn(flow(Transport::Tcp, 0), &[]);
    assert_eq!(bed.taken().len(), ENDING_MAX);
}

#[test]
fn a_server_that_drains_waits_for_what_is_on_its_way_between_workers() {
    let ok = of("SIP/2.0 200 OK", "INVITE", 1, ";tag=b");
    let tcp = flow(Transport::Tcp, 0);
    let mut bed = Bed::new(1 + ENDING_MAX);
    let later = |by_ms: u64| Now {
        mono_ms: NOW.mono_ms + by_ms,
        ..NOW
    };
    let unanswered = |bed: &Bed| bed.control.snapshots()[0].unanswered;
    bed.control.order(Phase::Draining);
    bed.turn(tcp, &[&ok]);
    assert_eq!(unanswered(&bed), Some(1), "it waits here");
    // Once it is there, that is told without another event.
    bed.taken();
    bed.turn_at(later(100), tcp, &[]);
    assert_eq!(bed.taken().len(), 1);
    bed.turn_at(later(200), tcp, &[]);
    assert_eq!(unanswered(&bed), Some(0));
    // What another gives while this one sends waits there for its next turn.
    let stray = of("SIP/2.0 200 OK", "INVITE", 0, ";tag=b");
    let options = parse(&of("OPTIONS sip:example.org SIP/2.0", "OPTIONS", 0, ""));
    let mut given = vec![Handover::Message {
        sender: Sender::unproved(flow(Transport::Tcp, 1)),
        message: Box::new(options),
    }];
    let own = Arc::clone(&bed.mailboxes[0]);
    bed.wire.while_it_sends = Some(Box::new(move || own.put(&mut given)));
    bed.turn_at(later(300), tcp, &[&stray]);
    assert_eq!(unanswered(&bed), Some(1), "it waits for this one");
    bed.turn_at(later(400), tcp, &[]);
    assert_eq!(unanswered(&bed), Some(0));
}

#[test]
fn a_worker_that_ends_passes_on_what_it_was_given() {
    let ok = of("SIP/2.0 200 OK", "INVITE", 1, ";tag=b");
    let tcp = flow(Transport::Tcp, 0);
    let mut bed = Bed::new(1 + ENDING_MAX);
    bed.turn(tcp, &[&ok]);
    // Another has answered a request that came by a connection of this one.
    let mut given = vec![Handover::Send {
        to: Target::back(&tcp),
        bytes: b"SIP/2.0 200 OK\r\n\r\n".to_vec(),
        from: 1,
        cookie: 1,
    }];
    bed.mailboxes[0].put(&mut given);
    bed.taken();
    bed.control.order(Phase::Stop);
    assert!(!bed.worker.begin_turn(&mut bed.wire));
    bed.worker.stop(&mut bed.wire, NOW);
    assert_eq!(bed.wire.sent.len(), 1);
    assert_eq!(bed.taken().len(), 1);
}
