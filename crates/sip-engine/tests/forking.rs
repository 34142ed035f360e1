//! Parallel and serial forking (RFC 3261 16.6), Max-Breadth (RFC 5393), the
//! flows of one phone (RFC 5626), flows that are gone.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use sip_msg::{HeaderName, Transport};

fn uris(sent: &[Sent]) -> Vec<String> {
    let mut uris: Vec<_> = sent
        .iter()
        .filter(|s| s.method() == "INVITE" && s.status() == 0)
        .map(|s| s.uri().to_owned())
        .collect();
    uris.sort_unstable();
    uris
}

fn contact(n: u8) -> String {
    format!("sip:bob@203.0.113.{n}")
}

fn with_contacts(qs: &[(u8, u16)]) -> Bed {
    let mut bed = Bed::new(settings());
    for (n, q) in qs {
        bed.register_with("sip:bob@example.org", &contact(*n), None, |b| b.q = *q);
    }
    bed
}

fn call(bed: &mut Bed, transport: Transport, more: &str) -> Vec<Sent> {
    let invite = request("INVITE", "sip:bob@example.org", transport).with(more);
    let mut sent = bed.receive(&alice(transport), &invite.text());
    sent.retain(|s| s.status() == 0);
    sent
}

fn answer(bed: &mut Bed, to: &Sent, status: u16) -> Vec<Sent> {
    bed.receive(&answering(to), &response(to, status, "b", ""))
}

#[test]
fn equals_ring_together_and_lower_ones_later() {
    for transport in TRANSPORTS {
        let mut bed = with_contacts(&[(1, 1000), (2, 500), (3, 1000), (4, 100)]);
        let sent = call(&mut bed, transport, "");
        assert_eq!(uris(&sent), [contact(1), contact(3)]);
        assert!(uris(&answer(&mut bed, &sent[0], 486)).is_empty());
        let next = answer(&mut bed, &sent[1], 486);
        assert_eq!(uris(&next), [contact(2)]);
        let next = answer(&mut bed, &next[1], 404);
        assert_eq!(uris(&next), [contact(4)]);
        let last = answer(&mut bed, &next[1], 404);
        assert_eq!(kinds(&last), ["ACK", "486"]);
    }
}

#[test]
fn a_group_that_only_rings_is_given_up_for_the_next() {
    for transport in TRANSPORTS {
        let mut bed = with_contacts(&[(1, 1000), (2, 500)]);
        let first = call(&mut bed, transport, "").remove(0);
        answer(&mut bed, &first, 180);
        let sent = bed.wait(20_100);
        assert_eq!(kinds(&sent)[..2], ["CANCEL", "INVITE"]);
        let second = sent.into_iter().nth(1).unwrap();
        assert_eq!(second.uri(), contact(2));
        // Who was given up can still answer, first come first served.
        let late = answer(&mut bed, &first, 200);
        assert_eq!(kinds(&late)[0], "200");
        answer(&mut bed, &second, 100);
        bed.wait(100_000);
        assert_eq!(bed.shard.in_flight(), 0);
    }
}

#[test]
fn that_a_group_was_told_to_stop_ringing_is_no_answer_to_the_caller() {
    for transport in TRANSPORTS {
        let mut bed = with_contacts(&[(1, 1000), (2, 500)]);
        let first = call(&mut bed, transport, "").remove(0);
        answer(&mut bed, &first, 180);
        let second = bed.wait(20_100).into_iter().nth(1).unwrap();
        assert_eq!(kinds(&answer(&mut bed, &first, 487)), ["ACK"]);
        // What the second says is, though 487 and 486 are as good (RFC 3261 16.7 step 6).
        assert_eq!(kinds(&answer(&mut bed, &second, 486)), ["ACK", "486"]);
    }
}

#[test]
fn the_last_group_rings_as_long_as_it_likes() {
    for transport in TRANSPORTS {
        let mut bed = with_contacts(&[(1, 1000), (2, 500)]);
        let first = call(&mut bed, transport, "").remove(0);
        answer(&mut bed, &first, 180);
        bed.wait(15_000);
        let second = answer(&mut bed, &first, 486).remove(1);
        answer(&mut bed, &second, 180);
        let waited = bed.wait(60_000);
        assert!(!kinds(&waited).contains(&"CANCEL".to_owned()));
        assert_eq!(kinds(&answer(&mut bed, &second, 200)), ["200"]);
    }
}

#[test]
fn who_was_given_up_is_not_tried_elsewhere() {
    let mut bed = Bed::new(settings());
    let named = "sip:bob@phone.example.net";
    bed.register("sip:bob@example.org", named, None);
    bed.register_with("sip:bob@example.org", &contact(2), None, |b| b.q = 500);
    call(&mut bed, Transport::Udp, "");
    let Some(sip_engine::Effect::Resolve { park, .. }) = bed.effects.pop() else {
        panic!("nothing was asked");
    };
    let hop = |n: u8| sip_locate::Hop {
        transport: Transport::Udp,
        addr: std::net::SocketAddr::from(([203, 0, 113, n], 5060)),
        tls_name: None,
    };
    let hops = vec![hop(21), hop(22)];
    let first = only(bed.act(|s, now, out| s.handle_resolved(now, park, Ok(hops), out)));
    answer(&mut bed, &first, 180);
    let given_up = bed.wait(20_100);
    assert_eq!(kinds(&given_up)[..2], ["CANCEL", "INVITE"]);
    answer(&mut bed, &given_up[1], 180);
    assert_eq!(kinds(&answer(&mut bed, &first, 503)), ["ACK"]);
}

#[test]
fn max_breadth_is_divided_and_what_is_too_much_waits() {
    let breadths = |sent: &[Sent]| -> Vec<u32> {
        let mut all: Vec<u32> = sent
            .iter()
            .filter_map(|s| s.header(HeaderName::MaxBreadth))
            .map(|b| b.parse().unwrap())
            .collect();
        all.sort_unstable();
        all
    };
    for transport in TRANSPORTS {
        let mut bed = with_contacts(&[(1, 1000), (2, 1000), (3, 1000)]);
        assert_eq!(breadths(&call(&mut bed, transport, "")), [20, 20, 20]);
        let mut bed = with_contacts(&[(1, 1000), (2, 1000), (3, 1000)]);
        assert_eq!(
            breadths(&call(&mut bed, transport, "Max-Breadth: 5\r\n")),
            [1, 2, 2]
        );
        // RFC 5393: no more at once than the breadth that came in; the rest one after the other.
        let mut bed = with_contacts(&[(1, 1000), (2, 1000), (3, 1000)]);
        let sent = call(&mut bed, transport, "Max-Breadth: 2\r\n");
        assert_eq!(breadths(&sent), [1, 1]);
        let next = answer(&mut bed, &sent[0], 486);
        assert_eq!((uris(&next).len(), breadths(&next)), (1, vec![1]));
    }
}

#[test]
fn branches_are_bounded() {
    let mut settings = settings();
    settings.proxy.branches_max = 4;
    let mut bed = Bed::new(settings);
    for n in 1..=9 {
        bed.register("sip:bob@example.org", &contact(n), None);
    }
    assert_eq!(call(&mut bed, Transport::Udp, "").len(), 4);
    assert!(bed.shard.counters().branches_refused > 0);
}

#[test]
fn one_flow_of_a_phone_at_a_time_and_the_next_when_it_is_gone() {
    for transport in [Transport::Tcp, Transport::Tls] {
        let mut bed = Bed::new(settings());
        let flows = [
            flow(transport, "203.0.113.9:40001"),
            flow(transport, "203.0.113.9:40002"),
        ];
        for (reg_id, flow) in (1..).zip(flows) {
            bed.register_with(
                "sip:bob@example.org",
                "sip:bob@10.0.0.9;ob",
                Some(flow),
                |b| {
                    b.reg_id = Some(reg_id);
                    b.instance = Some(b"<urn:uuid:1>".as_slice().into());
                },
            );
        }
        let sent = call(&mut bed, transport, "");
        let first = only(sent);
        assert!(!first.to.may_open);
        let gone = bed.act(|s, now, out| s.handle_send_failed(now, first.cookie, out));
        let second = only(gone);
        assert_ne!(second.to.conn, first.to.conn);
        assert_eq!(bed.shard.counters().flows_failed, 1);
        // A phone that refused has been heard: its other flow is not asked again.
        assert_eq!(kinds(&answer(&mut bed, &second, 486)), ["ACK", "486"]);
        let first = only(call(&mut bed, transport, ""));
        assert_eq!(kinds(&answer(&mut bed, &first, 486)), ["ACK", "486"]);
    }
}

#[test]
fn two_phones_that_have_one_private_address_both_ring() {
    for transport in [Transport::Tcp, Transport::Tls] {
        let mut bed = Bed::new(settings());
        // One URI in two spellings, each phone over its own connection.
        let phones = [
            ("sip:bob@10.0.0.9;ob", "203.0.113.9:40001"),
            ("sip:%62ob@10.0.0.9;ob", "203.0.113.8:40002"),
        ];
        for (contact, place) in phones {
            let flow = flow(transport, place);
            bed.register_with("sip:bob@example.org", contact, Some(flow), |b| {
                b.reg_id = Some(1);
                b.instance = Some(place.as_bytes().into());
            });
        }
        let sent = call(&mut bed, transport, "");
        let mut places: Vec<_> = sent.iter().map(|s| s.to.remote.to_string()).collect();
        places.sort_unstable();
        assert_eq!(places, ["203.0.113.8:40002", "203.0.113.9:40001"]);
        // Each is a phone of its own, and not another flow of the first.
        assert_eq!(kinds(&answer(&mut bed, &sent[0], 486)), ["ACK"]);
        assert_eq!(kinds(&answer(&mut bed, &sent[1], 486)), ["ACK", "486"]);
    }
}

#[test]
fn a_flow_along_which_nothing_comes_back_is_gone_too() {
    let mut bed = Bed::new(settings());
    for (reg_id, port) in [(1, 40_001), (2, 40_002)] {
        let flow = flow(Transport::Udp, &format!("203.0.113.9:{port}"));
        bed.register_with(
            "sip:bob@example.org",
            "sip:bob@10.0.0.9;ob",
            Some(flow),
            |b| {
                b.reg_id = Some(reg_id);
                b.instance = Some(b"<urn:uuid:1>".as_slice().into());
            },
        );
    }
    let first = only(call(&mut bed, Transport::Udp, ""));
    let sent = bed.wait(33_000);
    let second = sent.iter().find(|s| s.to.remote != first.to.remote);
    assert_eq!(second.map(Sent::method).as_deref(), Some("INVITE"));
    assert_eq!(bed.shard.counters().flows_failed, 1);
}

#[test]
fn a_phone_whose_flows_are_gone_is_not_available() {
    let mut bed = Bed::new(settings());
    let gone = flow(Transport::Tcp, "203.0.113.9:40001");
    bed.register_with(
        "sip:bob@example.org",
        "sip:bob@10.0.0.9;ob",
        Some(gone),
        |b| {
            b.reg_id = Some(1);
        },
    );
    let sent = only(call(&mut bed, Transport::Udp, ""));
    let answer = only(bed.act(|s, now, out| s.handle_send_failed(now, sent.cookie, out)));
    assert_eq!(answer.status(), 480);
    // Another contact is tried first, where there is one.
    bed.register_with("sip:bob@example.org", "sip:bob@203.0.113.2", None, |b| {
        b.q = 1
    });
    let sent = only(call(&mut bed, Transport::Udp, ""));
    let next = bed.act(|s, now, out| s.handle_send_failed(now, sent.cookie, out));
    assert_eq!(uris(&next), ["sip:bob@203.0.113.2"]);
}

#[test]
fn which_contacts_are_reached_by_the_flow_that_they_registered_on() {
    let way = |contact: &str, flow| {
        let mut bed = Bed::new(settings());
        bed.register("sip:bob@example.org", contact, Some(flow));
        let sent = only(call(&mut bed, Transport::Udp, ""));
        (
            sent.to.transport,
            sent.to.remote.to_string(),
            sent.to.conn == flow.conn,
        )
    };
    let udp = flow(Transport::Udp, "203.0.113.9:40001");
    let tcp = flow(Transport::Tcp, "203.0.113.9:40001");
    let tls = flow(Transport::Tls, "203.0.113.9:40001");
    // Behind a translation: where it came from.
    let behind = way("sip:bob@10.0.0.9:5060", udp);
    assert_eq!(behind, (Transport::Udp, "203.0.113.9:40001".into(), true));
    let unnamed = way("sip:bob@phone.invalid", udp);
    assert_eq!(unnamed, (Transport::Udp, "203.0.113.9:40001".into(), true));
    // Its flow is only kept where a translation showed, and that has put another port.
    let other_port = way("sip:bob@203.0.113.9:5080", udp);
    assert_eq!(other_port, behind);
    // Not behind one: where it says.
    let mut direct = Bed::new(settings());
    direct.register("sip:bob@example.org", "sip:bob@203.0.113.9:5080", None);
    let sent = only(call(&mut direct, Transport::Udp, ""));
    assert_eq!(sent.to.remote.to_string(), "203.0.113.9:5080");
    let elsewhere = way("sip:bob@203.0.113.77:5080", udp);
    assert_eq!(elsewhere.1, "203.0.113.77:5080");
    // Over a connection: the connection.
    for flow in [tcp, tls] {
        let contact = format!(
            "sip:bob@10.0.0.9:5060;transport={}",
            flow.transport.uri_name()
        );
        assert_eq!(
            way(&contact, flow),
            (flow.transport, "203.0.113.9:40001".into(), true)
        );
    }
    let same_host = way("sip:bob@203.0.113.9:5080;transport=tcp", tcp);
    assert_eq!(same_host, (Transport::Tcp, "203.0.113.9:5080".into(), true));
    // Registered for somebody else, or for another transport: where it says.
    let other = way("sip:bob@203.0.113.77:5080;transport=tcp", tcp);
    assert_eq!(other, (Transport::Tcp, "203.0.113.77:5080".into(), false));
    let udp_contact = way("sip:bob@203.0.113.9:5080;transport=udp", tcp);
    assert_eq!(udp_contact.0, Transport::Udp);
}

#[test]
fn an_absurd_max_breadth_is_capped_and_no_error() {
    let copies = |more: &str| {
        let mut settings = settings();
        settings.proxy.max_breadth = 2;
        let mut bed = Bed::new(settings);
        for n in 1..=4 {
            bed.register(
                "sip:bob@example.org",
                &format!("sip:bob@203.0.113.{n}"),
                None,
            );
        }
        let mut invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
        invite.more.push_str(more);
        let sent = bed.receive(&alice(Transport::Udp), &invite.text());
        sent.iter().filter(|sent| sent.status() == 0).count()
    };
    for wire in [
        "",
        "Max-Breadth: 3\r\n",
        "Max-Breadth: 4294967295\r\n",
        "Max-Breadth: 99999999999999\r\n",
    ] {
        assert_eq!(copies(wire), 2, "{wire}");
    }
    assert_eq!(copies("Max-Breadth: 1\r\n"), 1);
}
