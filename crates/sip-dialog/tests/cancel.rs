//! CANCEL, on its way and too late (RFC 3261 9).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use crate::common::{DELAY_MS, Wire, addr};
use sip_dialog::{CallKey, Cause, Event};
use sip_msg::{Method, Transport};

fn calling(wire: &mut Wire) -> CallKey {
    let alice = wire.add(0, "alice", 5061);
    wire.act(0, |agents, now_ms, out| {
        agents.invite(now_ms, alice, "sip:bob@example.org", None, out)
    })
    .unwrap()
}

#[test]
fn a_ringing_call_is_cancelled() {
    for transport in [Transport::Udp, Transport::Tcp] {
        let mut wire = Wire::new(transport, 2, |_| {});
        wire.add(1, "bob", 5060);
        let calling = calling(&mut wire);
        wire.run_for(DELAY_MS);
        let [Event::Incoming { call: called, .. }] = wire.take_events(1)[..] else {
            panic!("no call came");
        };
        wire.act(1, |agents, now_ms, out| agents.ring(now_ms, called, out));
        wire.run_for(DELAY_MS);
        wire.take_events(0);
        assert!(wire.act(0, |agents, now_ms, out| {
            agents.hang_up(now_ms, calling, out)
        }));
        wire.run_for(2 * DELAY_MS);
        assert_eq!(
            wire.take_events(0),
            [Event::Failed {
                call: calling,
                cause: Cause::Cancelled
            }]
        );
        assert_eq!(
            wire.take_events(1),
            [Event::Failed {
                call: called,
                cause: Cause::Cancelled
            }]
        );
        assert_eq!(
            wire.start_lines(),
            // RFC 3261 15: "A UA MUST NOT send a BYE outside of a dialog."
            ["INVITE", "180", "CANCEL", "200", "487", "ACK"]
        );
        // RFC 3261 9.2: "noting that the To tag of the response to the CANCEL and the To tag in the response to
        // the original request SHOULD be the same."
        let tags: Vec<&str> = wire
            .sent
            .iter()
            .filter(|(_, from, _)| *from == addr(5061))
            .filter_map(|(_, _, text)| text.split("To: ").nth(1)?.lines().next())
            .collect();
        assert_eq!(tags.len(), 3);
        assert!(
            tags.iter()
                .all(|tag| tag.contains(";tag=") && *tag == tags[0]),
            "{tags:?}"
        );
        wire.assert_empty();
    }
}

#[test]
fn an_unanswered_call_is_cancelled_at_the_first_provisional_response() {
    let mut wire = Wire::new(Transport::Udp, 1, |_| {});
    let calling = calling(&mut wire);
    let invite = wire.expect(Method::Invite);
    wire.act(0, |agents, now_ms, out| {
        agents.hang_up(now_ms, calling, out)
    });
    wire.run_for(100);
    assert!(
        wire.unclaimed.is_empty(),
        "RFC 3261 9.1 forbids a CANCEL before a provisional response"
    );
    wire.respond(0, 5061, &invite, 100, "", &[]);
    let cancel = wire.expect(Method::Cancel);
    wire.respond(0, 5061, &cancel, 200, "x", &[]);
    wire.respond(0, 5061, &invite, 487, "x", &[]);
    wire.expect(Method::Ack);
    assert_eq!(
        wire.take_events(0),
        [Event::Failed {
            call: calling,
            cause: Cause::Cancelled
        }]
    );
    wire.assert_empty();
}

#[test]
fn a_2xx_that_crosses_the_cancel_is_acknowledged_and_ended() {
    // RFC 3261 15: "If the INVITE results in 2xx final response(s) to the INVITE, this means that a UAS
    // accepted the invitation while the CANCEL was in progress.  The UAC MAY continue with the sessions
    // established by any 2xx responses, or MAY terminate them with BYE."
    let mut wire = Wire::new(Transport::Udp, 2, |_| {});
    wire.add(1, "bob", 5060);
    let calling = calling(&mut wire);
    wire.run_for(DELAY_MS);
    let [Event::Incoming { call: called, .. }] = wire.take_events(1)[..] else {
        panic!("no call came");
    };
    wire.act(1, |agents, now_ms, out| agents.ring(now_ms, called, out));
    wire.run_for(DELAY_MS);
    wire.take_events(0);
    wire.act(0, |agents, now_ms, out| {
        agents.hang_up(now_ms, calling, out)
    });
    wire.act(1, |agents, now_ms, out| {
        agents.answer(now_ms, called, None, out)
    });
    wire.run_for(4 * DELAY_MS);
    assert_eq!(
        wire.take_events(0),
        [Event::Ended {
            call: calling,
            cause: Cause::Cancelled
        }]
    );
    let events = wire.take_events(1);
    assert_eq!(
        *events.last().unwrap(),
        Event::Ended {
            call: called,
            cause: Cause::PeerHungUp
        }
    );
    wire.assert_empty();
}

#[test]
fn a_cancel_for_nothing_is_answered_481() {
    let mut wire = Wire::new(Transport::Udp, 2, |_| {});
    wire.add(1, "bob", 5060);
    wire.inject(
        1,
        5099,
        "CANCEL sip:bob@example.org SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1:5099;branch=z9hG4bKx\r\n\
         From: <sip:c@d>;tag=1\r\nTo: <sip:bob@example.org>\r\nCall-ID: x\r\nCSeq: 1 CANCEL\r\n\
         Max-Forwards: 70\r\nContent-Length: 0\r\n\r\n",
    );
    assert_eq!(wire.start_lines(), ["481"]);
    wire.assert_empty();
}
