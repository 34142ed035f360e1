//! A whole call through the proxy: to a next hop, and to a registered contact.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use sip_msg::{HeaderName, Transport};

/// Runs INVITE 100 180 200 ACK BYE 200 between alice and whoever gets the
/// INVITE; nothing is left at the end.
fn call(bed: &mut Bed, transport: Transport, invite_uri: &str, contact: &str) -> Sent {
    let alice = alice(transport);
    let mut invite = request("INVITE", invite_uri, transport);
    invite.body = "v=0\r\n".into();
    let sent = bed.receive(&alice, &invite.text());
    // RFC 3261 16.2: "The proxy core MUST behave as a UAS with respect to sending an immediate
    // provisional on that server transaction (such as 100 Trying) as described in Section
    // 8.2.6."
    assert_eq!(kinds(&sent), ["100", "INVITE"]);
    assert_eq!(sent[0].to.remote, alice.remote);
    let forwarded = sent.into_iter().nth(1).unwrap();
    assert_eq!(forwarded.message.body(), b"v=0\r\n");
    assert_eq!(forwarded.header(HeaderName::MaxForwards).unwrap(), "69");
    let bob = answering(&forwarded);

    assert!(
        bed.receive(&bob, &response(&forwarded, 100, "", ""))
            .is_empty()
    );
    let ringing = only(bed.receive(&bob, &response(&forwarded, 180, "b", "")));
    assert_eq!((ringing.status(), ringing.to.remote), (180, alice.remote));
    assert_eq!(ringing.all(HeaderName::Via).len(), 1);
    let contact_line = format!("Contact: <{contact}>\r\n");
    let ok = only(bed.receive(&bob, &response(&forwarded, 200, "b", &contact_line)));
    assert_eq!((ok.status(), ok.to.remote), (200, alice.remote));
    let route: String = ok
        .all(HeaderName::RecordRoute)
        .into_iter()
        .rev()
        .map(|value| format!("Route: {value}\r\n"))
        .collect();
    assert!(!route.is_empty());

    let mut in_dialog = request("ACK", contact, transport).with(&route);
    in_dialog.to = "<sip:bob@example.org>;tag=b".into();
    let ack = only(bed.receive(&alice, &in_dialog.text()));
    assert_eq!(
        (ack.method().as_str(), ack.to.remote),
        ("ACK", forwarded.to.remote)
    );
    assert!(ack.all(HeaderName::Route).is_empty());

    in_dialog.method = "BYE".into();
    in_dialog.via.push_str("bye");
    in_dialog.cseq = 2;
    let bye = only(bed.receive(&alice, &in_dialog.text()));
    assert_eq!((bye.method().as_str(), bye.uri()), ("BYE", contact));
    assert_eq!(bye.to.remote, forwarded.to.remote);
    let ok = only(bed.receive(&bob, &response(&bye, 200, "b", "")));
    assert_eq!((ok.status(), ok.method().as_str()), (200, "BYE"));
    forwarded
}

#[test]
fn to_a_next_hop() {
    for transport in TRANSPORTS {
        for next in TRANSPORTS {
            let mut bed = Bed::new(forwarding(next, "203.0.113.9:5070"));
            let contact = format!("sip:bob@203.0.113.9:5070;transport={}", next.uri_name());
            let forwarded = call(&mut bed, transport, "sip:bob@example.com", &contact);
            assert_eq!(forwarded.to.transport, next);
            assert_eq!(forwarded.uri(), "sip:bob@example.com");
            bed.wait(60_000);
            assert_eq!(bed.shard.in_flight(), 0, "{transport:?} {next:?}");
        }
    }
}

#[test]
fn to_a_registered_contact() {
    for transport in TRANSPORTS {
        for bobs in TRANSPORTS {
            let mut bed = Bed::new(settings());
            let contact = format!("sip:bob@203.0.113.9:5070;transport={}", bobs.uri_name());
            let flow = flow(bobs, "203.0.113.9:5070");
            bed.register("sip:bob@example.org", &contact, Some(flow));
            let forwarded = call(&mut bed, transport, "sip:bob@example.org", &contact);
            assert_eq!(forwarded.uri(), contact);
            assert_eq!(forwarded.to.conn, flow.conn);
            bed.wait(60_000);
            assert_eq!(bed.shard.in_flight(), 0, "{transport:?} {bobs:?}");
        }
    }
}

#[test]
fn a_server_that_drains_waits_for_acks() {
    for transport in TRANSPORTS {
        let alice = alice(transport);
        let begin = |bed: &mut Bed| {
            let invite = request("INVITE", "sip:bob@example.com", transport);
            let sent = bed.receive(&alice, &invite.text());
            (invite, sent.into_iter().nth(1).unwrap())
        };
        let next = forwarding(Transport::Udp, "203.0.113.9:5060");
        let mut bed = Bed::new(next.clone());
        let (mut invite, copy) = begin(&mut bed);
        assert_eq!(bed.shard.unanswered(bed.now), 1);
        // RFC 3261 17.2.1: "If timer G fires, the response is passed to the transport layer once
        // more for retransmission". The process would take that with it.
        bed.receive(&answering(&copy), &response(&copy, 486, "b", ""));
        assert_eq!(bed.shard.unanswered(bed.now), 1, "{transport:?}");
        bed.wait(9_000);
        assert_eq!(bed.shard.unanswered(bed.now), 1);
        invite.method = "ACK".into();
        invite.to = "<sip:bob@example.org>;tag=b".into();
        assert!(bed.receive(&alice, &invite.text()).is_empty());
        assert_eq!(bed.shard.unanswered(bed.now), 0);

        // Who answers repeats his 2xx until its ACK passes here.
        let mut bed = Bed::new(next);
        let (_, copy) = begin(&mut bed);
        let ok = response(&copy, 200, "b", "");
        for wait_ms in [0, 500, 1_000] {
            bed.wait(wait_ms);
            assert_eq!(kinds(&bed.receive(&answering(&copy), &ok)), ["200"]);
            assert_eq!(bed.shard.unanswered(bed.now), 1);
        }
        bed.wait(1_990);
        assert_eq!(bed.shard.unanswered(bed.now), 1);
        bed.wait(10);
        assert_eq!(bed.shard.unanswered(bed.now), 0);

        // Nobody waits longer than for an ACK that never comes.
        let mut bed = Bed::new(forwarding(Transport::Udp, "203.0.113.9:5060"));
        let (_, copy) = begin(&mut bed);
        bed.receive(&answering(&copy), &response(&copy, 486, "b", ""));
        bed.wait(40_000);
        assert_eq!(
            (bed.shard.unanswered(bed.now), bed.shard.in_flight()),
            (0, 0)
        );
    }
}

#[test]
fn a_server_that_drains_waits_for_each_ack_and_no_longer() {
    for transport in TRANSPORTS {
        let alice = alice(transport);
        let mut bed = Bed::new(forwarding(Transport::Udp, "203.0.113.9:5060"));
        let of = |method: &str, nth: u32| {
            let mut request = request(method, "sip:bob@203.0.113.9", transport);
            request.to = "<sip:bob@example.org>;tag=b".into();
            request.call_id = format!("call-{nth}");
            request
        };
        bed.act(|shard, _, _| shard.refuse_new_calls());
        // Calls that go on refresh their sessions all the time.
        for nth in 0..9 {
            let sent = bed.receive(&alice, &of("INVITE", nth).text());
            let copy = sent.into_iter().find(|sent| sent.status() == 0).unwrap();
            let ok = response(&copy, 200, "b", "");
            assert_eq!(kinds(&bed.receive(&answering(&copy), &ok)), ["200"]);
            assert_eq!(bed.shard.unanswered(bed.now), 1);
            // Its ACK was lost: the 2xx comes again, and then another ACK.
            bed.wait(500);
            bed.receive(&answering(&copy), &ok);
            bed.receive(&alice, &of("ACK", nth + 100).text());
            assert_eq!(bed.shard.unanswered(bed.now), 1, "that was another's");
            assert_eq!(
                only(bed.receive(&alice, &of("ACK", nth).text())).method(),
                "ACK"
            );
            assert_eq!(bed.shard.unanswered(bed.now), 0, "{transport:?}");
        }
        // Nobody waits longer than for an ACK that never comes.
        let sent = bed.receive(&alice, &of("INVITE", 9).text());
        let copy = sent.into_iter().find(|sent| sent.status() == 0).unwrap();
        bed.receive(&answering(&copy), &response(&copy, 200, "b", ""));
        bed.wait(1_990);
        assert_eq!(bed.shard.unanswered(bed.now), 1);
        bed.wait(10);
        assert_eq!(bed.shard.unanswered(bed.now), 0);
    }
}
