//! Phones behind address translations, and where they are called: the cases of which Via
//! alone does not tell.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use crate::common::*;
use sip_engine::Effect;
use sip_engine::settings::{AuthSettings, Nat, NatRule, NatSettings, Settings, TrustedPeer};
use sip_msg::{Flow, HeaderName, Transport};

/// Where the phone's packets come from.
const THERE: &str = "203.0.113.7:40007";

fn server(nat: NatSettings) -> Bed {
    let mut settings = Settings { nat, ..settings() };
    settings.registrar.durable = false;
    Bed::new(settings)
}

fn always() -> NatSettings {
    NatSettings {
        listeners: vec![Nat::Always; 4],
        ..NatSettings::default()
    }
}

fn register(via: &str, contact: &str, more: &str) -> String {
    format!(
        "REGISTER sip:example.org SIP/2.0\r\nVia: SIP/2.0/UDP {via};branch=z9hG4bKreg\r\n\
         From: <sip:bob@example.org>;tag=b\r\nTo: <sip:bob@example.org>\r\nCall-ID: bobs\r\n\
         CSeq: 1 REGISTER\r\nMax-Forwards: 70\r\nContact: {contact}\r\n{more}Content-Length: 0\r\n\r\n"
    )
}

/// Registers bob, calls him, and gives the INVITE that he gets; `None` where DNS is asked
/// for him.
fn called(bed: &mut Bed, phone: &Flow, via: &str, contact: &str) -> Option<Sent> {
    let sent = bed.receive(phone, &register(via, &format!("<{contact}>"), ""));
    assert_eq!(only(sent).status(), 200, "{via} {contact}");
    let alice = alice(Transport::Udp);
    let invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
    let sent = bed.receive(&alice, &invite.text());
    let is_copy = |sent: &Sent| sent.status() == 0;
    sent.into_iter().find(is_copy)
}

#[test]
fn a_phone_is_called_where_its_packets_come_from_if_its_contact_cannot_be_meant() {
    for (via, contact, from, is_there, why) in [
        (
            "203.0.113.7:40007;rport",
            "sip:bob@10.9.9.9:5060",
            THERE,
            true,
            "Via was corrected on the way, Contact was not",
        ),
        (
            "192.168.1.5:5060",
            "sip:bob@pc7.lan:5060",
            THERE,
            true,
            "a private Via, and a name that is nowhere",
        ),
        (
            "203.0.113.7:5060;rport",
            "sip:bob@203.0.113.7:5060",
            THERE,
            true,
            "the right address, and a port that the translation has changed",
        ),
        (
            "203.0.113.7:40007;rport",
            "sip:bob@203.0.113.7:5060",
            THERE,
            false,
            "the same, and Via is right: it may listen elsewhere",
        ),
        (
            "203.0.113.7:5060",
            "sip:bob@203.0.113.7:5060",
            THERE,
            false,
            "it sends from another port than it listens at, and does not ask otherwise",
        ),
        (
            "10.0.0.7:5060;rport",
            "sip:bob@10.0.0.8:5060",
            "10.0.0.7:5060",
            false,
            "it registers its neighbour",
        ),
        (
            "203.0.113.7:40007;rport",
            "sip:bob@198.51.100.9:5060",
            THERE,
            false,
            "a public address elsewhere",
        ),
    ] {
        let mut bed = server(NatSettings::default());
        let phone = flow(Transport::Udp, from);
        let invite = called(&mut bed, &phone, via, contact).expect(why);
        assert_eq!(invite.to.remote == phone.remote, is_there, "{why}");
        // RFC 3261 16.6: the Request-URI is the contact all the same.
        assert_eq!(invite.uri(), contact, "{why}");
    }
}

#[test]
fn always_and_never_are_what_they_say() {
    let phone = flow(Transport::Udp, THERE);
    for (via, contact) in [
        ("203.0.113.7:5060", "sip:bob@203.0.113.7:5060"),
        ("203.0.113.7:5060", "sip:bob@198.51.100.9:5060"),
        ("10.0.0.7", "sip:bob@pbx.example.net"),
    ] {
        let mut bed = server(always());
        let invite = called(&mut bed, &phone, via, contact).expect("no DNS is asked");
        assert_eq!(invite.to.remote, phone.remote, "{contact}");
    }
    // By network, before the listener.
    let never = NatSettings {
        networks: vec![NatRule {
            network: "203.0.113.0/24".parse().unwrap(),
            nat: Nat::Never,
            keepalive: None,
        }],
        ..always()
    };
    let mut bed = server(never.clone());
    let invite = called(&mut bed, &phone, "10.0.0.7", "sip:bob@10.9.9.9:5060").unwrap();
    assert_eq!(invite.to.remote, "10.9.9.9:5060".parse().unwrap());
    // A connection is the only way to who opened it.
    let mut bed = server(never);
    let phone = flow(Transport::Tcp, THERE);
    let via = "10.0.0.7";
    let text = register(via, "<sip:bob@10.9.9.9:5060;transport=tcp>", "").replace("/UDP", "/TCP");
    assert_eq!(only(bed.receive(&phone, &text)).status(), 200);
    let invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
    let sent = bed.receive(&alice(Transport::Udp), &invite.text());
    let copy = sent.iter().find(|sent| sent.status() == 0).unwrap();
    assert_eq!(copy.to.conn, phone.conn);
}

#[test]
fn with_always_who_has_a_connection_is_called_by_it_whatever_his_contact_says() {
    for contact in [
        "sip:bob@198.51.100.9:5060",
        "sip:bob@198.51.100.9:5060;transport=udp",
        "sip:bob@pbx.example.net;transport=tls",
    ] {
        let mut bed = server(always());
        let phone = flow(Transport::Tcp, THERE);
        let text = register("10.0.0.7", &format!("<{contact}>"), "").replace("/UDP", "/TCP");
        assert_eq!(only(bed.receive(&phone, &text)).status(), 200, "{contact}");
        let invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
        let sent = bed.receive(&alice(Transport::Udp), &invite.text());
        let copy = sent.iter().find(|sent| sent.status() == 0).unwrap();
        assert_eq!((copy.to.conn, copy.to.may_open), (phone.conn, false));
        // It is gone: nobody else is called in its place.
        let cookie = copy.cookie;
        let sent = bed.act(|shard, now, out| shard.handle_send_failed(now, cookie, out));
        assert_eq!(kinds(&sent), ["480"], "{contact}");
        assert!(
            bed.effects
                .iter()
                .all(|of| !matches!(of, Effect::Resolve { .. }))
        );
    }
}

#[test]
fn with_always_an_answer_goes_to_where_its_request_came_from() {
    let phone = flow(Transport::Udp, THERE);
    for (nat, port) in [(NatSettings::default(), 5060), (always(), 40007)] {
        let mut bed = server(nat);
        // Without rport RFC 3261 18.2.2 has the port of sent-by.
        let answer = only(bed.receive(&phone, &register("10.0.0.7", "<sip:bob@10.0.0.7>", "")));
        assert_eq!(answer.status(), 200);
        let to = format!("203.0.113.7:{port}").parse().unwrap();
        assert_eq!(answer.to.remote, to);
    }
}

/// A caller whose Contact is that, by way of a server with authentication: where the BYE of
/// whom he called goes to.
fn hung_up_at(nat: NatSettings, via: &str, contact: &str) -> Option<Sent> {
    let mut bed = Bed::new(Settings {
        nat,
        authenticate: Some(AuthSettings::default()),
        trusted: vec![TrustedPeer::at("203.0.113.7".parse().unwrap(), 32)],
        ..settings()
    });
    let callee = flow(Transport::Udp, "198.51.100.8:5060");
    bed.register(
        "sip:bob@example.org",
        "sip:bob@198.51.100.8:5060",
        Some(callee),
    );
    let caller = flow(Transport::Udp, THERE);
    let mut invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
    invite.via = format!("SIP/2.0/UDP {via};branch=z9hG4bKcaller");
    let text = invite.text();
    let text = text.replace("sip:alice@198.51.100.1:5060", contact);
    let sent = bed.receive(&caller, &text);
    let copy = sent.into_iter().find(|sent| sent.status() == 0).unwrap();
    let ok = response(&copy, 200, "b", "Contact: <sip:bob@198.51.100.8:5060>\r\n");
    bed.receive(&callee, &ok);
    let routes = copy.all(HeaderName::RecordRoute);
    let routes: String = routes
        .iter()
        .map(|value| format!("Route: {value}\r\n"))
        .collect();
    let mut bye = request("BYE", contact, Transport::Udp).with(&routes);
    bye.via = "SIP/2.0/UDP 198.51.100.8:5060;branch=z9hG4bKbye".into();
    bye.from = "<sip:bob@example.org>;tag=b".into();
    bye.to = "<sip:alice@example.com>;tag=a".into();
    let sent = bed.receive(&callee, &bye.text());
    sent.into_iter().find(|sent| sent.status() == 0)
}

#[test]
fn a_bye_finds_a_caller_behind_a_translation() {
    let there = Some(THERE.parse().unwrap());
    let to = |bye: Option<Sent>| bye.map(|bye| bye.to.remote);
    for (via, contact) in [
        ("203.0.113.7:40007;rport", "sip:alice@10.9.9.9:5060"),
        ("192.168.1.5", "sip:alice@pc7.lan"),
        ("203.0.113.7;rport", "sip:alice@203.0.113.7:5060"),
    ] {
        let bye = hung_up_at(NatSettings::default(), via, contact);
        assert_eq!(to(bye), there, "{via} {contact}");
        let bye = hung_up_at(always(), via, contact);
        assert_eq!(to(bye), there, "{via} {contact}");
    }
    let never = NatSettings {
        listeners: vec![Nat::Never; 4],
        ..NatSettings::default()
    };
    let bye = hung_up_at(never, "203.0.113.7:40007", "sip:alice@10.9.9.9:5060");
    assert_eq!(to(bye), Some("10.9.9.9:5060".parse().unwrap()));
    let bye = hung_up_at(always(), "203.0.113.7", "sip:alice@203.0.113.7:5060");
    assert_eq!(to(bye), there);
}

#[test]
fn a_phone_behind_a_translation_registers_again_sooner() {
    let nat = NatSettings {
        expires_max_s: Some(120),
        ..NatSettings::default()
    };
    for (via, contact, from, expires_s) in [
        ("10.0.0.7", "sip:bob@10.0.0.7:5060", THERE, 120),
        (
            "203.0.113.9",
            "sip:bob@203.0.113.9:5060",
            "203.0.113.9:5060",
            3_600,
        ),
    ] {
        let mut bed = server(nat.clone());
        let phone = flow(Transport::Udp, from);
        let text = register(via, &format!("<{contact}>"), "");
        let granted = only(bed.receive(&phone, &text));
        assert_eq!(
            granted.all(HeaderName::Contact),
            [format!("<{contact}>;expires={expires_s}")]
        );
        // Who asks for less gets it.
        let text =
            register(via, &format!("<{contact}>;expires=90"), "").replace("CSeq: 1", "CSeq: 2");
        let text = text.replace("z9hG4bKreg", "z9hG4bKagain");
        let granted = only(bed.receive(&phone, &text));
        assert_eq!(
            granted.all(HeaderName::Contact),
            [format!("<{contact}>;expires=90")]
        );
    }
    // Who keeps his way open himself, and who is reached by a proxy, register when they like.
    let outbound = (
        "Supported: outbound\r\n",
        ";reg-id=1;+sip.instance=\"<urn:uuid:1>\"",
    );
    let behind = ("Path: <sip:198.51.100.8;lr>\r\n", "");
    for (more, params) in [outbound, behind] {
        let mut bed = server(nat.clone());
        let contact = format!("<sip:bob@10.0.0.7:5060>{params}");
        let text = register("10.0.0.7", &contact, more);
        let granted = only(bed.receive(&flow(Transport::Udp, THERE), &text));
        assert!(granted.text.contains(";expires=3600"), "{}", granted.text);
    }
    // A connection has no translation to keep open.
    let mut bed = server(nat);
    let phone = flow(Transport::Tcp, THERE);
    let text = register("10.0.0.7", "<sip:bob@10.0.0.7;transport=tcp>", "");
    let granted = only(bed.receive(&phone, &text.replace("/UDP", "/TCP")));
    assert!(granted.text.contains(";expires=3600"), "{}", granted.text);
}

#[test]
fn a_phone_that_wants_a_flow_which_nobody_keeps_is_bound_all_the_same() {
    // Kamailio 5.6 as an edge writes no `ob` into its Path.
    let more = "Path: <sip:192.0.2.8;lr>\r\nSupported: path, outbound\r\n";
    let contact = "<sip:bob@10.0.0.7:5060>;reg-id=1;+sip.instance=\"<urn:uuid:1>\"";
    let vias = "192.0.2.8;branch=z9hG4bKedge\r\nVia: SIP/2.0/UDP 10.0.0.7";
    let edge = flow(Transport::Udp, "192.0.2.8:5060");
    for (needs_ob, status) in [(false, 200), (true, 439)] {
        let mut settings = settings();
        settings.registrar.durable = false;
        settings.registrar.outbound_needs_ob = needs_ob;
        let mut bed = Bed::new(settings);
        let answer = only(bed.receive(&edge, &register(vias, contact, more)));
        assert_eq!(answer.status(), status);
        if needs_ob {
            continue;
        }
        // It is not told that its flow is kept.
        assert!(!answer.message.has(HeaderName::Require), "{}", answer.text);
        assert!(!answer.text.contains("reg-id"), "{}", answer.text);
        let invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
        let sent = bed.receive(&alice(Transport::Udp), &invite.text());
        let copy = sent.iter().find(|sent| sent.status() == 0).unwrap();
        assert_eq!(copy.to.remote, edge.remote);
        assert_eq!(copy.all(HeaderName::Route), ["<sip:192.0.2.8;lr>"]);
    }
}
