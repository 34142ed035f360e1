//! Calls from INVITE to BYE, over each transport and over a wire that loses.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use crate::common::{DELAY_MS, Wire};
use sip_dialog::{AgentKey, CallKey, Cause, Event};
use sip_msg::Transport;

const TRANSPORTS: [Transport; 3] = [Transport::Udp, Transport::Tcp, Transport::Tls];

/// Alice at end 0, Bob at end 1, each the other's proxy.
fn two(transport: Transport) -> (Wire, AgentKey, AgentKey) {
    let mut wire = Wire::new(transport, 2, |_| {});
    let alice = wire.add(0, "alice", 5061);
    let bob = wire.add(1, "bob", 5060);
    (wire, alice, bob)
}

fn call(wire: &mut Wire, alice: AgentKey) -> CallKey {
    wire.act(0, |agents, now_ms, out| {
        agents.invite(now_ms, alice, "sip:bob@example.org", None, out)
    })
    .expect("there is room")
}

fn incoming(wire: &mut Wire) -> CallKey {
    let events = wire.take_events(1);
    let [Event::Incoming { call, .. }] = events[..] else {
        panic!("{events:?}");
    };
    call
}

/// Calls and has the call answered and acknowledged.
fn established(wire: &mut Wire, alice: AgentKey) -> (CallKey, CallKey) {
    let calling = call(wire, alice);
    wire.run_for(DELAY_MS);
    let called = incoming(wire);
    assert!(wire.act(1, |agents, now_ms, out| {
        agents.answer(now_ms, called, None, out)
    }));
    wire.run_for(3 * DELAY_MS);
    assert_eq!(wire.take_events(0), [Event::Answered { call: calling }]);
    assert_eq!(wire.take_events(1), [Event::Established { call: called }]);
    (calling, called)
}

#[test]
fn ring_answer_and_hang_up() {
    for transport in TRANSPORTS {
        let (mut wire, alice, bob) = two(transport);
        let calling = call(&mut wire, alice);
        wire.run_for(DELAY_MS);
        let events = wire.take_events(1);
        let [
            Event::Incoming {
                agent,
                call: called,
            },
        ] = events[..]
        else {
            panic!("{events:?}");
        };
        assert_eq!(agent, bob);
        assert!(wire.act(1, |agents, now_ms, out| agents.ring(now_ms, called, out)));
        wire.run_for(DELAY_MS);
        assert_eq!(
            wire.take_events(0),
            [Event::Provisional {
                call: calling,
                status: 180
            }]
        );
        assert!(wire.act(1, |agents, now_ms, out| {
            agents.answer(now_ms, called, None, out)
        }));
        assert!(!wire.act(1, |agents, now_ms, out| {
            agents.answer(now_ms, called, None, out)
        }));
        wire.run_for(2 * DELAY_MS);
        assert_eq!(wire.take_events(0), [Event::Answered { call: calling }]);
        assert_eq!(wire.take_events(1), [Event::Established { call: called }]);
        assert!(wire.act(0, |agents, now_ms, out| {
            agents.hang_up(now_ms, calling, out)
        }));
        // RFC 3261 15.1.1: "The UAC MUST consider the session terminated (and therefore stop sending or
        // listening for media) as soon as the BYE request is passed to the client transaction."
        assert!(!wire.act(0, |agents, now_ms, out| {
            agents.hang_up(now_ms, calling, out)
        }));
        wire.run_for(2 * DELAY_MS);
        assert_eq!(
            wire.take_events(0),
            [Event::Ended {
                call: calling,
                cause: Cause::HungUp
            }]
        );
        assert_eq!(
            wire.take_events(1),
            [Event::Ended {
                call: called,
                cause: Cause::PeerHungUp
            }]
        );
        assert_eq!(
            wire.start_lines(),
            ["INVITE", "180", "200", "ACK", "BYE", "200"]
        );
        wire.assert_empty();
    }
}

#[test]
fn the_called_side_hangs_up() {
    for transport in TRANSPORTS {
        let (mut wire, alice, _) = two(transport);
        let (calling, called) = established(&mut wire, alice);
        assert!(wire.act(1, |agents, now_ms, out| agents.hang_up(now_ms, called, out)));
        wire.run_for(2 * DELAY_MS);
        assert_eq!(
            wire.take_events(0),
            [Event::Ended {
                call: calling,
                cause: Cause::PeerHungUp
            }]
        );
        assert_eq!(
            wire.take_events(1),
            [Event::Ended {
                call: called,
                cause: Cause::HungUp
            }]
        );
        wire.assert_empty();
    }
}

#[test]
fn a_hang_up_before_the_ack_waits_for_it() {
    // RFC 3261 15: "However, the callee's UA MUST NOT send a BYE on a confirmed dialog until it has
    // received an ACK for its 2xx response or until the server transaction times out."
    let (mut wire, alice, _) = two(Transport::Udp);
    call(&mut wire, alice);
    wire.run_for(DELAY_MS);
    let called = incoming(&mut wire);
    wire.act(1, |agents, now_ms, out| {
        assert!(agents.answer(now_ms, called, None, out));
        assert!(agents.hang_up(now_ms, called, out));
    });
    wire.run_for(4 * DELAY_MS);
    assert_eq!(wire.start_lines(), ["INVITE", "200", "ACK", "BYE", "200"]);
    wire.assert_empty();
}

#[test]
fn a_call_that_rings_is_refused_and_not_ended() {
    let (mut wire, alice, _) = two(Transport::Udp);
    call(&mut wire, alice);
    wire.run_for(DELAY_MS);
    let called = incoming(&mut wire);
    wire.act(1, |agents, now_ms, out| {
        assert!(agents.ring(now_ms, called, out));
        assert!(agents.hang_up(now_ms, called, out));
    });
    wire.run_for(2 * DELAY_MS);
    // RFC 3261 15: "The caller's UA MAY send a BYE for either confirmed or early dialogs, and the
    // callee's UA MAY send a BYE on confirmed dialogs, but MUST NOT send a BYE on early dialogs."
    assert_eq!(wire.start_lines(), ["INVITE", "180", "480", "ACK"]);
    wire.assert_empty();
}

#[test]
fn both_hang_up_at_once() {
    let (mut wire, alice, _) = two(Transport::Udp);
    let (calling, called) = established(&mut wire, alice);
    wire.act(0, |agents, now_ms, out| {
        agents.hang_up(now_ms, calling, out)
    });
    wire.act(1, |agents, now_ms, out| agents.hang_up(now_ms, called, out));
    wire.run_for(2 * DELAY_MS);
    assert_eq!(
        wire.take_events(0),
        [Event::Ended {
            call: calling,
            cause: Cause::HungUp
        }]
    );
    assert_eq!(
        wire.take_events(1),
        [Event::Ended {
            call: called,
            cause: Cause::HungUp
        }]
    );
    wire.assert_empty();
}

#[test]
fn a_refused_call() {
    for transport in TRANSPORTS {
        let (mut wire, alice, _) = two(transport);
        let calling = call(&mut wire, alice);
        wire.run_for(DELAY_MS);
        let called = incoming(&mut wire);
        assert!(!wire.act(1, |agents, now_ms, out| {
            agents.reject(now_ms, called, 200, out)
        }));
        assert!(wire.act(1, |agents, now_ms, out| {
            agents.reject(now_ms, called, 486, out)
        }));
        wire.run_for(2 * DELAY_MS);
        assert_eq!(
            wire.take_events(0),
            [Event::Failed {
                call: calling,
                cause: Cause::Status(486)
            }]
        );
        assert_eq!(
            wire.take_events(1),
            [Event::Failed {
                call: called,
                cause: Cause::Status(486)
            }]
        );
        assert_eq!(wire.start_lines(), ["INVITE", "486", "ACK"]);
        wire.assert_empty();
    }
}

#[test]
fn a_slow_answer_is_announced_by_100_and_180_is_repeated() {
    let (mut wire, alice, _) = two(Transport::Udp);
    let calling = call(&mut wire, alice);
    wire.run_for(DELAY_MS + 300);
    assert_eq!(wire.start_lines(), ["INVITE", "100"]);
    let called = incoming(&mut wire);
    wire.act(1, |agents, now_ms, out| agents.ring(now_ms, called, out));
    // RFC 3261 13.3.1.1: "To prevent cancellation, the UAS MUST send a non-100 provisional response at
    // every minute, to handle the possibility of lost provisional responses."
    wire.run_for(125_000);
    assert_eq!(wire.start_lines(), ["INVITE", "100", "180", "180", "180"]);
    // Nobody answers: the caller loses patience.
    wire.run_for(60_000);
    assert_eq!(wire.start_lines()[5..], ["CANCEL", "200", "487", "ACK"]);
    assert_eq!(
        *wire.events(0).last().unwrap(),
        Event::Failed {
            call: calling,
            cause: Cause::Timeout
        }
    );
    wire.assert_empty();
}

#[test]
fn the_2xx_is_repeated_until_the_ack() {
    for transport in TRANSPORTS {
        let (mut wire, alice, _) = two(transport);
        let calling = call(&mut wire, alice);
        wire.run_for(DELAY_MS);
        let called = incoming(&mut wire);
        let mut acks = 0;
        wire.lose = Box::new(move |text| {
            acks += u32::from(text.starts_with("ACK"));
            text.starts_with("ACK") && acks <= 5
        });
        let answered_ms = wire.now_ms;
        wire.act(1, |agents, now_ms, out| {
            agents.answer(now_ms, called, None, out)
        });
        wire.run_for(20_000);
        let times: Vec<u64> = wire
            .sent
            .iter()
            .filter(|(_, _, text)| text.starts_with("SIP/2.0 200"))
            .map(|(at_ms, _, _)| (at_ms - answered_ms).div_euclid(50) * 50)
            .collect();
        // RFC 3261 13.3.1.4: "The 2xx response is passed to the transport with an interval that starts at T1
        // seconds and doubles for each retransmission until it reaches T2 seconds (T1 and T2 are defined in
        // Section 17).  Response retransmissions cease when an ACK request for the response is received.
        // This is independent of whatever transport protocols are used to send the response."
        assert_eq!(times, [0, 500, 1_500, 3_500, 7_500, 11_500]);
        assert_eq!(wire.events(0), [Event::Answered { call: calling }]);
        assert_eq!(wire.events(1), [Event::Established { call: called }]);
        // RFC 3261 13.2.2.4: "The ACK MUST be passed to the client transport every time a retransmission of
        // the 2xx final response that triggered the ACK arrives."
        assert_eq!(wire.ends[0].agents.counters().acks_retransmitted, 5);
        let mut acks: Vec<&String> = wire
            .sent
            .iter()
            .map(|s| &s.2)
            .filter(|t| t.starts_with("ACK"))
            .collect();
        assert_eq!(acks.len(), 6);
        acks.dedup();
        assert_eq!(acks.len(), 1, "it is the same ACK each time");
        wire.act(0, |agents, now_ms, out| {
            agents.hang_up(now_ms, calling, out)
        });
        wire.assert_empty();
    }
}

#[test]
fn a_2xx_that_is_never_acknowledged_ends_with_bye() {
    let (mut wire, alice, _) = two(Transport::Udp);
    call(&mut wire, alice);
    wire.run_for(DELAY_MS);
    let called = incoming(&mut wire);
    wire.lose = Box::new(|text| text.starts_with("ACK"));
    wire.act(1, |agents, now_ms, out| {
        agents.answer(now_ms, called, None, out)
    });
    wire.run_for(31_000);
    assert!(wire.events(1).is_empty());
    wire.run_for(2_000);
    // RFC 3261 13.3.1.4: "If the server retransmits the 2xx response for 64*T1 seconds without receiving
    // an ACK, the dialog is confirmed, but the session SHOULD be terminated.  This is accomplished with a
    // BYE, as described in Section 15."
    assert_eq!(
        wire.events(1),
        [Event::Ended {
            call: called,
            cause: Cause::NoAck
        }]
    );
    assert_eq!(
        wire.start_lines()
            .iter()
            .filter(|line| *line == "BYE")
            .count(),
        1
    );
    wire.assert_empty();
}

#[test]
fn nobody_is_there() {
    let (mut wire, alice, _) = two(Transport::Udp);
    wire.lose = Box::new(|_| true);
    let calling = call(&mut wire, alice);
    wire.run_for(33_000);
    // RFC 3261 8.1.3.1: "When a timeout error is received from the transaction layer, it MUST be treated
    // as if a 408 (Request Timeout) status code has been received."
    assert_eq!(
        wire.events(0),
        [Event::Failed {
            call: calling,
            cause: Cause::Timeout
        }]
    );
    wire.assert_empty();
}

#[test]
fn a_bye_that_nobody_answers_ends_the_call() {
    let (mut wire, alice, _) = two(Transport::Udp);
    let (calling, called) = established(&mut wire, alice);
    wire.lose = Box::new(|_| true);
    wire.act(0, |agents, now_ms, out| {
        agents.hang_up(now_ms, calling, out)
    });
    wire.run_for(33_000);
    assert_eq!(
        wire.take_events(0),
        [Event::Ended {
            call: calling,
            cause: Cause::Timeout
        }]
    );
    wire.lose = Box::new(|_| false);
    // RFC 3261 15.1.1: "If the response for the BYE is a 481 (Call/Transaction Does Not Exist) or a 408
    // (Request Timeout) or no response at all is received for the BYE (that is, a timeout is returned by
    // the client transaction), the UAC MUST consider the session and the dialog terminated."
    wire.act(1, |agents, now_ms, out| agents.hang_up(now_ms, called, out));
    wire.run_for(2 * DELAY_MS);
    assert_eq!(
        wire.take_events(1),
        [Event::Ended {
            call: called,
            cause: Cause::Status(481)
        }]
    );
    wire.assert_empty();
}

#[test]
fn an_invitation_expires() {
    let (mut wire, _, _) = two(Transport::Udp);
    let invite = "INVITE sip:bob@example.org SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1:5099;branch=z9hG4bKx\r\n\
        From: <sip:c@d>;tag=1\r\nTo: <sip:bob@example.org>\r\nCall-ID: x\r\nCSeq: 1 INVITE\r\nExpires: 5\r\n\
        Contact: <sip:c@192.0.2.1:5099>\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n";
    wire.inject(1, 5099, invite);
    let called = incoming(&mut wire);
    wire.run_for(4_900);
    assert!(wire.events(1).is_empty());
    wire.run_for(200);
    // RFC 3261 13.3.1: "If the invitation expires before the UAS has generated a final response, a 487
    // (Request Terminated) response SHOULD be generated."
    assert_eq!(
        wire.take_events(1),
        [Event::Failed {
            call: called,
            cause: Cause::Timeout
        }]
    );
    assert!(wire.start_lines().contains(&"487".to_owned()));
    wire.assert_empty();
}

#[test]
fn the_callers_own_session_is_sent_and_answered() {
    let (mut wire, alice, _) = two(Transport::Udp);
    wire.act(0, |agents, now_ms, out| {
        agents.invite(
            now_ms,
            alice,
            "sip:bob@example.org",
            Some(b"v=0\r\ns=mine\r\n"),
            out,
        )
    });
    wire.run_for(DELAY_MS);
    let called = incoming(&mut wire);
    wire.act(1, |agents, now_ms, out| {
        agents.answer(now_ms, called, Some(b"v=0\r\ns=yours\r\n"), out)
    });
    let [(_, _, invite), (_, _, answer)] = &wire.sent[..] else {
        panic!("{:?}", wire.start_lines());
    };
    assert!(
        // RFC 3261 13.2.1: "The initial offer MUST be in either an INVITE or, if not there, in the
        // first reliable non-failure message from the UAS back to the UAC."
        invite.ends_with(
            "Content-Type: application/sdp\r\nContent-Length: 13\r\n\r\nv=0\r\ns=mine\r\n"
        ),
        "{invite}"
    );
    assert!(
        // RFC 3261 13.2.1: "If the initial offer is in an INVITE, the answer MUST be in a reliable
        // non-failure message from UAS back to UAC which is correlated to that INVITE."
        // RFC 3261 13.3.1.4: "If the INVITE request contained an offer, and the UAS had not yet sent an
        // answer, the 2xx MUST contain an answer."
        answer.ends_with(
            "Content-Type: application/sdp\r\nContent-Length: 14\r\n\r\nv=0\r\ns=yours\r\n"
        ),
        "{answer}"
    );
}

#[test]
fn no_room_for_calls() {
    let mut wire = Wire::new(Transport::Udp, 2, |config| config.calls_max = 1);
    let alice = wire.add(0, "alice", 5061);
    wire.add(1, "bob", 5060);
    call(&mut wire, alice);
    let second = wire.act(0, |agents, now_ms, out| {
        agents.invite(now_ms, alice, "sip:bob@example.org", None, out)
    });
    assert_eq!(second, None);
    assert_eq!(wire.ends[0].agents.counters().full, 1);
}
