//! Which contacts a registration may bind, as seen from outside: through a
//! whole shard, with the calls that follow.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use sip_engine::settings::Settings;
use sip_msg::{Flow, HeaderName, Transport};

fn registrar() -> Settings {
    let mut settings = settings();
    settings.registrar.durable = false;
    settings
}

/// Bob's REGISTER with this Contact.
fn register(contact: &str, cseq: u32, transport: Transport) -> String {
    let mut register = request("REGISTER", "sip:example.org", transport);
    register.from = "<sip:bob@example.org>;tag=b".into();
    register.call_id = format!("reg {contact}").replace([' ', '<', '>', '@', ':', ';', '"'], "-");
    register.cseq = cseq;
    register
        .text()
        .replace("<sip:alice@198.51.100.1:5060>", contact)
}

#[track_caller]
fn registered(bed: &mut Bed, flow: &Flow, contact: &str) -> Sent {
    only(bed.receive(flow, &register(contact, 1, flow.transport)))
}

fn contacts(sent: &Sent) -> Vec<String> {
    let bare = |contact: String| contact.split(';').next().unwrap_or_default().to_owned();
    sent.all(HeaderName::Contact)
        .into_iter()
        .map(bare)
        .collect()
}

#[test]
fn a_sips_contact_needs_a_flow_under_tls() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(registrar());
        let answer = registered(&mut bed, &alice(transport), "<sips:bob@198.51.100.1:5061>");
        let expected = if transport == Transport::Tls {
            200
        } else {
            403
        };
        assert_eq!(answer.status(), expected, "{transport:?}");
        if expected == 403 {
            assert!(answer.text.contains("SIPS"), "{}", answer.text);
            assert_eq!(bed.location.bindings(), 0);
        }
    }
}

#[test]
fn a_sips_contact_that_is_bound_to_a_flow_in_the_clear_is_not_called() {
    // As it may stand in a store from before.
    for uri in ["sip:bob@example.org", "sips:bob@example.org"] {
        let mut bed = Bed::new(registrar());
        let flow = flow(Transport::Tcp, "203.0.113.9:40000");
        bed.register(
            "sip:bob@example.org",
            "sips:bob@203.0.113.9:40000",
            Some(flow),
        );
        let invite = request("INVITE", uri, Transport::Tls);
        let sent = bed.receive(&alice(Transport::Tls), &invite.text());
        assert!(sent.iter().all(|sent| sent.status() != 0), "{uri}");
    }
}

#[test]
fn a_contact_that_is_this_server_is_refused() {
    for transport in TRANSPORTS {
        for contact in [
            "<sip:bob@example.org>",
            "<sip:carol@example.org;v=2>",
            "<sip:bob@EXAMPLE.org.:5060>",
            "<sip:bob@192.0.2.1>",
            "<sip:bob@192.0.2.1:5061;transport=tls>",
            "<sip:bob@[2001:db8::1]>",
            "<sip:bob@203.0.113.9;maddr=192.0.2.1>",
            "<sip:bob@203.0.113.9;maddr=example.org>",
            "<sip:bob@[::ffff:192.0.2.1]>",
        ] {
            let mut bed = Bed::new(registrar());
            let answer = registered(&mut bed, &alice(transport), contact);
            assert_eq!(answer.status(), 403, "{contact}");
            assert_eq!(bed.location.bindings(), 0);
        }
        // Another port of this host is somebody else.
        let mut bed = Bed::new(registrar());
        let answer = registered(&mut bed, &alice(transport), "<sip:bob@192.0.2.1:5099>");
        assert_eq!(answer.status(), 200);
    }
}

#[test]
fn the_oldest_contact_makes_room_for_the_eleventh() {
    let mut bed = Bed::new(registrar());
    let udp = alice(Transport::Udp);
    for n in 0..10 {
        bed.wait(1_000);
        registered(
            &mut bed,
            &udp,
            &format!("<sip:bob@198.51.100.1:{}>", 6_000 + n),
        );
    }
    // The first is refreshed: the second is the oldest.
    let refresh = register("<sip:bob@198.51.100.1:6000>", 2, Transport::Udp);
    assert_eq!(only(bed.receive(&udp, &refresh)).status(), 200);
    let answer = registered(&mut bed, &udp, "<sip:bob@198.51.100.1:7000>");
    assert_eq!(answer.status(), 200);
    let bound = contacts(&answer);
    assert_eq!(bound.len(), 10);
    assert!(
        !bound.contains(&"<sip:bob@198.51.100.1:6001>".to_owned()),
        "{bound:?}"
    );
    for kept in ["<sip:bob@198.51.100.1:6000>", "<sip:bob@198.51.100.1:7000>"] {
        assert!(bound.contains(&kept.to_owned()), "{bound:?}");
    }
    assert_eq!(bed.location.bindings(), 10);
}

#[test]
fn a_phone_that_keeps_its_flow_is_not_put_out_by_another() {
    let mut bed = Bed::new(registrar());
    let tcp = alice(Transport::Tcp);
    let outbound = |instance: u32, reg_id: u32| {
        format!(
            "<sip:bob@198.51.100.1:{}>;reg-id={reg_id};+sip.instance=\"<urn:uuid:{instance}>\"",
            6_000 + instance
        )
    };
    for instance in 0..10 {
        registered(&mut bed, &tcp, &outbound(instance, 1));
    }
    let answer = registered(&mut bed, &tcp, "<sip:bob@198.51.100.1:7000>");
    assert_eq!(answer.status(), 403);
    let answer = registered(&mut bed, &tcp, &outbound(11, 1));
    assert_eq!(answer.status(), 403);
    assert_eq!(bed.shard.registrar_counters().contacts_full, 2);
    // Another flow of the same phone takes the place of that phone's first.
    let answer = registered(&mut bed, &tcp, &outbound(4, 2));
    assert_eq!(answer.status(), 200);
    assert_eq!(bed.location.bindings(), 10);
}
