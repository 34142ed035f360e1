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
use sip_msg::{ConnId, Flow, Limits, ListenerId, Message, Target, Transport, VerifiedPeer};
use sip_worker::{ConnAct, Control, Handover, Mailbox, Phase, SendFailure, SocketEvent, Worker};

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
        settings.registrar.durable = false;
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

    /// One turn, in which the sockets have this to say.
    fn hear(&mut self, event: SocketEvent<'_>) {
        assert!(self.worker.begin_turn(&mut self.wire));
        self.worker.wake_up(|| NOW);
        self.worker.handle_event(event);
        self.worker.end_turn(&mut self.wire);
    }

    /// The other gives this.
    fn is_given(&self, handover: Handover) {
        let mut given = vec![handover];
        self.mailboxes[0].put(&mut given);
        assert!(given.is_empty());
    }

    /// What lies in the mailbox of the other.
    fn mail(&self) -> Vec<Handover> {
        let mut mail = VecDeque::new();
        self.mailboxes[1].take(&mut mail);
        mail.into()
    }

    /// The same beside what filled it.
    fn taken(&self) -> Vec<Handover> {
        let mut mail = self.mail();
        mail.retain(|of| !matches!(of, Handover::SendFailed { .. }));
        mail
    }
}

/// A REGISTER of a user whose bindings belong to the first worker, with a contact that is
/// reached by its connection alone, and his name.
fn register() -> (String, String) {
    let text = |nth: u32| {
        format!(
            "REGISTER sip:example.org SIP/2.0\r\n\
             Via: SIP/2.0/TCP 198.51.100.66:6666;branch=z9hG4bKr\r\n\
             From: <sip:user{nth}@example.org>;tag=r\r\nTo: <sip:user{nth}@example.org>\r\n\
             Call-ID: register\r\nCSeq: 1 REGISTER\r\nMax-Forwards: 70\r\n\
             Contact: <sip:user{nth}@198.51.100.66:6666;transport=tcp>\r\n\
             Content-Length: 0\r\n\r\n"
        )
    };
    let is_its = |nth: &u32| shard_of(&parse(&text(*nth)), 2, &SHARD_KEY) == 0;
    let nth = (0..).find(is_its).unwrap();
    (text(nth), format!("user{nth}"))
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

#[test]
fn a_send_that_failed_is_told_once_and_to_the_worker_whose_shard_wanted_it() {
    let mut bed = Bed::new(0);
    let tcp = flow(Transport::Tcp, 0);
    bed.is_given(Handover::Send {
        to: Target::back(&tcp),
        bytes: of("BYE sip:bob@example.org SIP/2.0", "BYE", 1, ";tag=b").into_bytes(),
        from: 1,
        cookie: 77,
    });
    assert_eq!(bed.turn(tcp, &[]).len(), 1);
    let cookie = bed.wire.cookies[0];
    for told in [1, 0] {
        match told {
            1 => bed.hear(SocketEvent::SendFailed {
                cookie,
                failure: SendFailure::Lost,
            }),
            _ => _ = bed.turn(tcp, &[]),
        }
        let mail = bed.mail();
        assert_eq!(mail.len(), told);
        for handover in mail {
            let Handover::SendFailed { cookie, failure } = handover else {
                panic!("another handover");
            };
            assert_eq!((cookie, failure), (77, SendFailure::Lost));
        }
    }
    // Where nobody wanted to know, nobody is told.
    bed.is_given(Handover::Send {
        to: Target::back(&tcp),
        bytes: of("SIP/2.0 180 Ringing", "INVITE", 1, ";tag=b").into_bytes(),
        from: 1,
        cookie: 0,
    });
    bed.turn(tcp, &[]);
    assert_eq!(bed.wire.cookies, [cookie, 0]);
}

#[test]
fn a_request_that_finds_no_room_at_its_connections_worker_has_failed_at_once() {
    let mut bed = Bed::new(1 + ENDING_MAX);
    let (register, user) = register();
    bed.is_given(Handover::Message {
        sender: Sender::unproved(flow(Transport::Tcp, 1)),
        message: Box::new(parse(&register)),
    });
    let udp = flow(Transport::Udp, 0);
    bed.turn(udp, &[]);
    let uri = format!("sip:{user}@example.org");
    let start = format!("INVITE {uri} SIP/2.0");
    let invite = of(&start, "INVITE", 0, "").replace("sip:bob@example.org", &uri);
    let sent = bed.turn(udp, &[&invite]);
    assert!(sent.iter().all(|of| of.status() == 100), "it is under way");
    assert_eq!(bed.worker.timeout(), Some(Duration::ZERO));
    let sent = bed.turn(udp, &[]);
    assert!(sent.iter().any(|of| of.status() >= 400), "{sent:?}");
}

#[test]
fn what_is_to_be_done_to_a_connection_is_done_by_the_worker_that_has_it() {
    let (register, _) = register();
    for owner in [0, 1] {
        let mut bed = Bed::new(0);
        bed.is_given(Handover::Message {
            sender: Sender::unproved(flow(Transport::Tcp, owner)),
            message: Box::new(parse(&register)),
        });
        let sent = bed.turn(flow(Transport::Udp, 0), &[]);
        let mail = bed.mail();
        let mut acts = mail.iter().filter_map(|of| match of {
            Handover::Connection(conn, act) => Some((*conn, *act)),
            _ => None,
        });
        let conn = flow(Transport::Tcp, owner).conn;
        match owner {
            0 => assert_eq!((sent.len(), acts.next()), (1, None)),
            _ => {
                assert!(sent.is_empty());
                let (to, act) = acts.next().unwrap();
                assert_eq!(to, conn);
                assert!(matches!(act, ConnAct::KeepFor { for_ms } if for_ms > 0));
                assert_eq!(acts.next(), None);
            }
        }
    }
}

#[test]
fn others_are_asked_for_a_datagram_that_came_back_unless_it_was_an_answer() {
    let mut bed = Bed::new(0);
    let remote = "198.51.100.66:6666".parse().unwrap();
    let answer = of("SIP/2.0 200 OK", "INVITE", 1, ";tag=b");
    let invite = of("INVITE sip:bob@example.org SIP/2.0", "INVITE", 1, "");
    for (text, asked) in [(&answer, 0), (&invite, 1)] {
        let quoted = text.as_bytes();
        bed.hear(SocketEvent::Unreachable { remote, quoted });
        let mail = bed.mail();
        assert_eq!(mail.len(), asked);
        for handover in mail {
            let Handover::Unreachable { remote: to, quoted } = handover else {
                panic!("another handover");
            };
            assert_eq!((to, &*quoted), (remote, text.as_bytes()));
        }
    }
}

#[test]
fn whoever_proved_himself_is_named_with_what_is_handed_over_while_his_connection_lasts() {
    #[allow(clippy::disallowed_methods, reason = "the tests make their own proofs")]
    let proof = VerifiedPeer::attest(vec!["gw.example.net".into()], Vec::new(), u64::MAX, true);
    let proof = Arc::new(proof);
    let mut bed = Bed::new(0);
    let tls = flow(Transport::Tls, 0);
    let other = Flow {
        conn: ConnId(8),
        ..tls
    };
    let invite = of("INVITE sip:bob@example.org SIP/2.0", "INVITE", 1, "");
    let is_named = |bed: &mut Bed, flow: Flow| {
        let bytes = invite.as_bytes();
        bed.hear(SocketEvent::Message { flow, bytes });
        let mail = bed.mail();
        let sender = mail.into_iter().find_map(|of| match of {
            Handover::Message { sender, .. } => Some(sender),
            _ => None,
        });
        sender.unwrap().peer.is_some_and(|peer| peer == proof)
    };
    assert!(!is_named(&mut bed, tls));
    bed.hear(SocketEvent::Verified {
        conn: tls.conn,
        peer: Arc::clone(&proof),
    });
    assert!(is_named(&mut bed, tls));
    assert!(!is_named(&mut bed, other), "that is another connection");
    bed.hear(SocketEvent::Closed(tls.conn));
    // Its messages went there: so does the word of its end.
    let mail = bed.mail();
    assert!(matches!(mail[..], [Handover::Closed(conn)] if conn == tls.conn));
    assert!(!is_named(&mut bed, tls));
}
