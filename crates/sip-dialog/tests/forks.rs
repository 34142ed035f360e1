//! Several answers to one INVITE (RFC 3261 13.2.2.4), and one INVITE that
//! comes twice (8.2.2.2).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use crate::common::{DELAY_MS, Wire};
use sip_dialog::{Cause, Event};
use sip_msg::{HeaderName, Method, Transport};

#[test]
fn the_second_answer_is_acknowledged_and_ended() {
    for linger in [true, false] {
        let mut wire = Wire::new(Transport::Udp, 1, |config| config.linger = linger);
        let alice = wire.add(0, "alice", 5061);
        let calling = wire
            .act(0, |agents, now_ms, out| {
                agents.invite(now_ms, alice, "sip:bob@example.org", None, out)
            })
            .unwrap();
        let invite = wire.expect(Method::Invite);
        let first = [
            "Contact: <sip:bob@192.0.2.1:5062>",
            "Record-Route: <sip:192.0.2.1:5061;lr>",
        ];
        let second = [
            "Contact: <sip:bob@192.0.2.1:5063>",
            "Record-Route: <sip:192.0.2.1:5061;lr>",
        ];
        wire.respond(0, 5061, &invite, 180, "one", &first);
        wire.respond(0, 5061, &invite, 180, "two", &second);
        wire.respond(0, 5061, &invite, 200, "one", &first);
        let ack = wire.expect(Method::Ack);
        assert_eq!(ack.request_uri(), b"sip:bob@192.0.2.1:5062");
        assert_eq!(
            ack.first(HeaderName::Route).unwrap().value,
            b"<sip:192.0.2.1:5061;lr>"
        );

        // RFC 3261 13.2.2.4: "If, after acknowledging any 2xx response to an INVITE, the UAC does not want
        // to continue with that dialog, then the UAC MUST terminate the dialog by sending a BYE request as
        // described in Section 15."
        wire.respond(0, 5061, &invite, 200, "two", &second);
        let ack = wire.expect(Method::Ack);
        // RFC 3261 13.2.2.4: "Otherwise, a new dialog in the "confirmed" state MUST be constructed
        // using the procedures of Section 12.1.2." and "The UAC core MUST generate an ACK request for
        // each 2xx received from the transaction layer."
        assert_eq!(ack.request_uri(), b"sip:bob@192.0.2.1:5063");
        assert_eq!(ack.to().unwrap().tag(), Some(&b"two"[..]));
        assert_eq!(ack.cseq().unwrap().number, invite.cseq().unwrap().number);
        let bye = wire.expect(Method::Bye);
        assert_eq!(bye.to().unwrap().tag(), Some(&b"two"[..]));
        assert_ne!(bye.top_via().unwrap().branch, ack.top_via().unwrap().branch);

        // The same 2xx again: the ACK again, and no second BYE.
        wire.respond(0, 5061, &invite, 200, "two", &second);
        let again = wire.expect(Method::Ack);
        assert_eq!(again.bytes(), ack.bytes());
        wire.respond(0, 5061, &bye, 200, "two", &[]);
        wire.run_for(DELAY_MS);
        assert!(wire.unclaimed.is_empty());

        // The first dialog goes on.
        assert_eq!(
            *wire.events(0).last().unwrap(),
            Event::Answered { call: calling }
        );
        wire.act(0, |agents, now_ms, out| {
            agents.hang_up(now_ms, calling, out)
        });
        let bye = wire.expect(Method::Bye);
        assert_eq!(bye.to().unwrap().tag(), Some(&b"one"[..]));
        wire.respond(0, 5061, &bye, 200, "one", &[]);
        assert_eq!(
            *wire.events(0).last().unwrap(),
            Event::Ended {
                call: calling,
                cause: Cause::HungUp
            }
        );

        // A fork that answers when the call is over.
        wire.respond(0, 5061, &invite, 200, "three", &second);
        wire.run_for(DELAY_MS);
        let late: Vec<Method> = wire.unclaimed.drain(..).map(|m| m.method()).collect();
        let too_late = wire.ends[0].agents.counters().answers_too_late;
        if linger {
            assert_eq!((late, too_late), (vec![Method::Ack, Method::Bye], 0));
        } else {
            assert_eq!((late, too_late), (Vec::new(), 1));
            // Sent again it is the same answer; that of another fork is another.
            for (tag, expected) in [("three", 1), ("four", 2)] {
                wire.respond(0, 5061, &invite, 200, tag, &second);
                wire.run_for(DELAY_MS);
                let too_late = wire.ends[0].agents.counters().answers_too_late;
                assert_eq!(too_late, expected, "{tag}");
            }
        }
        wire.lose = Box::new(|_| true);
        wire.assert_empty();
    }
}

#[test]
fn requests_in_the_dialog_of_a_fork_find_it() {
    let mut wire = Wire::new(Transport::Udp, 1, |_| {});
    let alice = wire.add(0, "alice", 5061);
    wire.act(0, |agents, now_ms, out| {
        agents.invite(now_ms, alice, "sip:bob@example.org", None, out)
    })
    .unwrap();
    let invite = wire.expect(Method::Invite);
    wire.respond(
        0,
        5061,
        &invite,
        200,
        "one",
        &["Contact: <sip:bob@192.0.2.1:5062>"],
    );
    wire.respond(
        0,
        5061,
        &invite,
        200,
        "two",
        &["Contact: <sip:bob@192.0.2.1:5063>"],
    );
    wire.run_for(DELAY_MS);
    let tag = String::from_utf8(invite.from().unwrap().tag().unwrap().to_vec()).unwrap();
    let call_id = String::from_utf8(invite.call_id().to_vec()).unwrap();
    let bye = |from_tag: &str| {
        format!(
            "BYE sip:alice@192.0.2.1:5060 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1:5099;branch=z9hG4bK{from_tag}\r\n\
             From: <sip:bob@example.org>;tag={from_tag}\r\nTo: <sip:alice@example.org>;tag={tag}\r\n\
             Call-ID: {call_id}\r\nCSeq: 1 BYE\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
        )
    };
    wire.inject(0, 5099, &bye("two"));
    assert_eq!(wire.start_lines().last().unwrap(), "200");
    wire.inject(0, 5099, &bye("three"));
    assert_eq!(wire.start_lines().last().unwrap(), "481");
    wire.inject(0, 5099, &bye("one"));
    assert_eq!(wire.start_lines().last().unwrap(), "200");
    wire.lose = Box::new(|_| true);
    wire.assert_empty();
}

#[test]
fn a_merged_invite_is_answered_482() {
    let mut wire = Wire::new(Transport::Udp, 2, |_| {});
    wire.add(1, "bob", 5060);
    let invite = |branch: &str| {
        format!(
            "INVITE sip:bob@example.org SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1:5099;branch=z9hG4bK{branch}\r\n\
             From: <sip:c@d>;tag=1\r\nTo: <sip:bob@example.org>\r\nCall-ID: x\r\nCSeq: 1 INVITE\r\n\
             Contact: <sip:c@192.0.2.1:5099>\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
        )
    };
    wire.inject(1, 5099, &invite("one"));
    let [Event::Incoming { call, .. }] = wire.take_events(1)[..] else {
        panic!("no call came");
    };
    // RFC 3261 8.2.2.2: "If the From tag, Call-ID, and CSeq exactly match those associated with an ongoing
    // transaction, but the request does not match that transaction (based on the matching rules in
    // Section 17.2.3), the UAS core SHOULD generate a 482 (Loop Detected) response and pass it to the
    // server transaction."
    // RFC 3261 8.2.2.2: "If the request has no tag in the To header field, the UAS core MUST check the
    // request against ongoing transactions."
    wire.inject(1, 5099, &invite("two"));
    assert_eq!(wire.start_lines(), ["482"]);
    assert!(wire.take_events(1).is_empty());
    // The same once more is a retransmission.
    wire.act(1, |agents, now_ms, out| agents.ring(now_ms, call, out));
    wire.inject(1, 5099, &invite("one"));
    assert_eq!(wire.start_lines(), ["482", "180", "180"]);
    assert!(wire.take_events(1).is_empty());
    wire.act(1, |agents, now_ms, out| {
        agents.reject(now_ms, call, 486, out)
    });
    wire.assert_empty();
}
