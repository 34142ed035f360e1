//! Path, Service-Route, and the flows by which phones are reached.

use super::*;

#[test]
fn path_is_kept_in_order_and_shown_to_who_knows_it() {
    let mut registers = Registers::new();
    let vias = "Via: SIP/2.0/UDP 192.0.2.8;branch=z9hG4bK2\r\nVia: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK1\r\n";
    let path = "Path: <sip:edge1.example.org;lr>,\r\n <sip:edge2.example.org;lr>\r\nPath: <sip:edge3.example.org;lr>\r\n";
    let silent = Ask {
        vias,
        ..ask(1, &format!("{CONTACT}{path}"))
    };
    let response = registers.give(&silent).unwrap();
    assert_eq!(
        (response.status(), response.has(HeaderName::Path)),
        (200, false)
    );
    let kept =
        b"<sip:edge1.example.org;lr>, <sip:edge2.example.org;lr>, <sip:edge3.example.org;lr>";
    assert_eq!(&*registers.bound()[0].path, kept);
    assert_eq!(
        registers.bound()[0].flow,
        None,
        "the phone is not at the other end"
    );
    let knowing = Ask {
        vias,
        ..ask(2, &format!("{CONTACT}{path}Supported: path\r\n"))
    };
    let response = registers.give(&knowing).unwrap();
    assert_eq!(response.values(HeaderName::Path).count(), 3);
    let long = format!("{CONTACT}Path: <sip:{}@h;lr>\r\n", "x".repeat(3_000));
    assert_eq!(registers.status(&ask(3, &long)), 400);
}

#[test]
fn service_route_is_handed_out() {
    let mut registers = Registers::new();
    registers.world.settings.registrar.service_route =
        vec!["<sip:a;lr>".into(), "<sip:b;lr>".into()];
    let response = registers.give(&ask(1, CONTACT)).unwrap();
    let routes: Vec<_> = response
        .values(HeaderName::ServiceRoute)
        .map(|(route, _)| route.to_vec())
        .collect();
    assert_eq!(routes, [b"<sip:a;lr>".to_vec(), b"<sip:b;lr>".to_vec()]);
}

#[test]
fn which_flows_are_kept() {
    let via = |sent_by: &'static str| -> &'static str { sent_by };
    for (transport, vias, is_kept, why) in [
        (
            Transport::Tcp,
            "Via: SIP/2.0/TCP 10.0.0.9;branch=z9hG4bK1\r\n",
            true,
            "a connection is the only way",
        ),
        (
            Transport::Tls,
            "Via: SIP/2.0/TLS 192.0.2.9:5060;branch=z9hG4bK1\r\n",
            true,
            "with or without NAT",
        ),
        (Transport::Udp, via(VIA), false, "no NAT"),
        (
            Transport::Udp,
            "Via: SIP/2.0/UDP 192.0.2.9:5060;rport;branch=z9hG4bK1\r\n",
            false,
            "no NAT, as rport shows",
        ),
        (
            Transport::Udp,
            "Via: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK1\r\n",
            false,
            "the default port",
        ),
        (
            Transport::Udp,
            "Via: SIP/2.0/UDP 10.0.0.9;branch=z9hG4bK1\r\n",
            true,
            "another address",
        ),
        (
            Transport::Udp,
            "Via: SIP/2.0/UDP 192.0.2.9:6060;rport;branch=z9hG4bK1\r\n",
            true,
            "another port, and rport",
        ),
        (
            Transport::Udp,
            "Via: SIP/2.0/UDP 192.0.2.9:6060;branch=z9hG4bK1\r\n",
            false,
            "it listens elsewhere",
        ),
        (
            Transport::Udp,
            "Via: SIP/2.0/UDP phone.local;rport;branch=z9hG4bK1\r\n",
            true,
            "a name says nothing",
        ),
        (
            Transport::Tcp,
            "Via: SIP/2.0/TCP 192.0.2.8;branch=z9hG4bK2\r\nVia: SIP/2.0/TCP 10.0.0.9;branch=z9hG4bK1\r\n",
            false,
            "a proxy's connection",
        ),
    ] {
        let mut registers = Registers::new();
        registers.flow = flow(transport, "192.0.2.9:5060");
        registers.ok(&Ask {
            vias,
            ..ask(1, CONTACT)
        });
        assert_eq!(
            registers.bound()[0].flow,
            is_kept.then_some(registers.flow),
            "{why}"
        );
        assert_eq!(registers.bound()[0].had_flow, is_kept, "{why}");
    }
}

#[test]
fn a_refresh_moves_to_the_new_connection() {
    let mut registers = Registers::new();
    registers.flow = flow(Transport::Tcp, "192.0.2.9:40000");
    registers.ok(&ask(1, CONTACT));
    registers.flow = flow(Transport::Tcp, "192.0.2.9:40001");
    registers.ok(&ask(2, CONTACT));
    let bound = registers.bound();
    assert_eq!((bound.len(), bound[0].flow), (1, Some(registers.flow)));
}

const INSTANCE: &str = "\"<urn:uuid:00000000-0000-1000-8000-000A95A0E128>\"";

fn outbound(uri: &str, reg_id: &str) -> String {
    format!(
        "Contact: <{uri}>;+sip.instance={INSTANCE};reg-id={reg_id}\r\nSupported: path, outbound\r\n"
    )
}

#[test]
fn outbound_flows_replace_by_instance_and_reg_id() {
    let mut registers = Registers::new();
    registers.flow = flow(Transport::Tls, "192.0.2.9:40000");
    let response = registers
        .give(&ask(1, &outbound("sip:a@10.0.0.1", "1")))
        .unwrap();
    assert_eq!(response.status(), 200);
    // RFC 3261 8.2.4: "The needed extension(s) MUST be included in a Require header field in the response."
    // and "Any extensions applied to a non-421 response MUST be listed in a Require header field included
    // in the response."
    assert_eq!(header(&response, "Require").as_deref(), Some("outbound"));
    assert_eq!(header(&response, "Flow-Timer").as_deref(), Some("120"));
    let expected = format!("<sip:a@10.0.0.1>;expires=3600;+sip.instance={INSTANCE};reg-id=1");
    assert_eq!(contacts(&response), [expected]);
    // RFC 3261 8.2.4: "A UAS that wishes to apply some extension when generating the response MUST NOT do
    // so unless support for that extension is indicated in the Supported header field in the request." and
    // "Of course, the server MUST NOT apply extensions not listed in the Supported header field in the
    // request."
    let silent = outbound("sip:a@10.0.0.1", "1").replace("Supported", "X");
    let response = registers.give(&ask(2, &silent)).unwrap();
    assert_eq!(header(&response, "Require"), None);
    assert_eq!(header(&response, "Flow-Timer"), None);
    // The phone started again: another Call-ID, another address, another connection.
    registers.flow = flow(Transport::Tls, "192.0.2.9:40001");
    registers.ok(&ask(1, &outbound("sip:a@10.0.0.2", "1")).call_id("call-2"));
    assert_eq!(registers.bound().len(), 1);
    assert_eq!(registers.bound()[0].flow, Some(registers.flow));
    assert_eq!(&*registers.bound()[0].uri, b"sip:a@10.0.0.2");
    // A second flow of the same phone stands beside the first.
    registers.flow = flow(Transport::Tls, "192.0.2.9:40002");
    registers.ok(&ask(2, &outbound("sip:a@10.0.0.2", "2")).call_id("call-2"));
    let bound = registers.bound();
    assert_eq!(
        bound.iter().map(|b| b.reg_id).collect::<Vec<_>>(),
        [Some(2), Some(1)]
    );
    assert!(bound[0].is_same_instance(&bound[1]));
    // And beside one that has the URI and no flow of its own.
    registers.ok(&ask(3, "Contact: <sip:a@10.0.0.2>\r\n").call_id("call-2"));
    assert_eq!(registers.bound().len(), 3);
    // Each ends by itself.
    let mut gone = outbound("sip:a@10.0.0.2", "1");
    gone.push_str("Expires: 0\r\n");
    registers.ok(&ask(4, &gone).call_id("call-2"));
    assert_eq!(registers.bound().len(), 2);
}

#[test]
fn outbound_keeps_the_order_too() {
    let mut registers = Registers::new();
    registers.ok(&ask(5, &outbound("sip:a@10.0.0.1", "1")));
    assert_eq!(
        registers.status(&ask(5, &outbound("sip:a@10.0.0.2", "1"))),
        500
    );
    assert_eq!(&*registers.bound()[0].uri, b"sip:a@10.0.0.1");
}

#[test]
fn reg_id_without_sense_is_left_aside() {
    for lines in [
        "Contact: <sip:a@h>;reg-id=1\r\n".to_owned(),
        outbound("sip:a@h", "0"),
        outbound("sip:a@h", "x"),
        outbound("sip:a@h", "4294967296"),
    ] {
        let mut registers = Registers::new();
        let response = registers.give(&ask(1, &lines)).unwrap();
        assert_eq!(
            (response.status(), header(&response, "Flow-Timer")),
            (200, None),
            "{lines}"
        );
        assert_eq!(registers.bound()[0].reg_id, None, "{lines}");
    }
}

#[test]
fn outbound_through_a_proxy_needs_its_word() {
    let vias = "Via: SIP/2.0/UDP 192.0.2.8;branch=z9hG4bK2\r\nVia: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK1\r\n";
    let mut registers = Registers::new();
    registers.world.settings.registrar.outbound_needs_ob = true;
    let lines = outbound("sip:a@h", "1");
    assert_eq!(
        registers.status(&Ask {
            vias,
            ..ask(1, &lines)
        }),
        439
    );
    let with_ob = format!("{lines}Path: <sip:token@192.0.2.8;lr;ob>\r\n");
    registers.ok(&Ask {
        vias,
        ..ask(1, &with_ob)
    });
    assert_eq!(registers.bound()[0].reg_id, Some(1));
    // A phone that did not ask for it is bound without.
    let silent = lines.replace("path, outbound", "path");
    registers.ok(&Ask {
        vias,
        ..ask(1, &silent)
    }
    .call_id("other"));
    assert_eq!(registers.bound()[0].reg_id, None);
}

#[test]
fn over_udp_the_flow_timer_keeps_a_nat_open() {
    let mut registers = Registers::new();
    let response = registers.give(&ask(1, &outbound("sip:a@h", "1"))).unwrap();
    assert_eq!(header(&response, "Flow-Timer").as_deref(), Some("25"));
}
