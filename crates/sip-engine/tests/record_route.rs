//! Record-Route (RFC 3261 16.6 step 4), twice where the two sides differ
//! (RFC 5658), and the way of requests within a dialog.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use sip_msg::{HeaderName, Transport};

const NEXT: &str = "203.0.113.9:5070";

/// What the next hop gets of an INVITE that came over `from`; with a second
/// Via below, so that the sender is no phone.
fn forwarded(uri: &str, from: Transport, to: Transport, record_route: bool) -> Vec<String> {
    let mut settings = forwarding(to, NEXT);
    settings.proxy.record_route = record_route;
    let mut bed = Bed::new(settings);
    let invite = request("INVITE", uri, from).with(&far_via(from));
    let sent = bed.receive(&alice(from), &invite.text()).remove(1);
    sent.all(HeaderName::RecordRoute)
}

fn far_via(transport: Transport) -> String {
    format!(
        "Via: SIP/2.0/{} far.example;branch=z9hG4bKfar\r\n",
        transport.via_name()
    )
}

const fn uri_of(transport: Transport) -> &'static str {
    match transport {
        Transport::Udp => "<sip:192.0.2.1:5060;lr>",
        Transport::Tcp => "<sip:192.0.2.1:5060;transport=tcp;lr>",
        _ => "<sip:192.0.2.1:5061;transport=tls;lr>",
    }
}

#[test]
fn one_value_where_the_sides_are_alike_and_two_where_they_differ() {
    for from in TRANSPORTS {
        for to in TRANSPORTS {
            let routes = forwarded("sip:carol@example.com", from, to, true);
            // RFC 3261 16.6: "The URI placed in the Record-Route header field value MUST be a SIP or
            // SIPS URI.  This URI MUST contain an lr parameter (see Section 19.1.1)." and "The URI
            // placed in the Record-Route header field MUST resolve to the element inserting it
            // (or a suitable stand-in) when the server location procedures of [4] are applied to
            // it, so that subsequent requests reach the same SIP element."
            let expected = match from == to {
                true => vec![uri_of(to)],
                false => vec![uri_of(to), uri_of(from)],
            };
            assert_eq!(routes, expected);
        }
    }
}

#[test]
fn two_values_where_the_address_family_changes() {
    let mut bed = Bed::new(forwarding(Transport::Udp, "[2001:db8::9]:5070"));
    let invite =
        request("INVITE", "sip:carol@example.com", Transport::Udp).with(&far_via(Transport::Udp));
    let sent = bed
        .receive(&alice(Transport::Udp), &invite.text())
        .remove(1);
    assert_eq!(
        sent.all(HeaderName::RecordRoute),
        ["<sip:[2001:db8::1]:5060;lr>", "<sip:192.0.2.1:5060;lr>"]
    );
    assert!(sent.all(HeaderName::Via)[0].starts_with("SIP/2.0/UDP [2001:db8::1]:5060;"));
}

#[test]
fn sips_stays_sips() {
    // RFC 3261 16.6: "If the Request-URI contains a SIPS URI, or the topmost Route header field
    // value (after the post processing of bullet 6) contains a SIPS URI, the URI placed
    // into the Record-Route header field MUST be a SIPS URI.  Furthermore, if the request
    // was not received over TLS, the proxy MUST insert a Record-Route header field."
    for record_route in [true, false] {
        for from in [Transport::Udp, Transport::Tcp] {
            let routes = forwarded("sips:carol@example.com", from, Transport::Tls, record_route);
            assert_eq!(routes, ["<sips:192.0.2.1:5061;lr>"]);
        }
    }
    let routes = forwarded(
        "sips:carol@example.com",
        Transport::Tls,
        Transport::Tls,
        true,
    );
    assert_eq!(routes, ["<sips:192.0.2.1:5061;lr>"]);
    let routes = forwarded(
        "sips:carol@example.com",
        Transport::Tls,
        Transport::Tls,
        false,
    );
    assert!(routes.is_empty());
    // RFC 3261 16.6: "In a similar fashion, a proxy that receives a request over TLS, but
    // generates a request without a SIPS URI in the Request-URI or topmost Route header
    // field value (after the post processing of bullet 6), MUST insert a Record-Route
    // header field that is not a SIPS URI."
    for record_route in [true, false] {
        let routes = forwarded(
            "sip:carol@example.com",
            Transport::Tls,
            Transport::Udp,
            record_route,
        );
        assert_eq!(routes, [uri_of(Transport::Udp), uri_of(Transport::Tls)]);
    }
    assert!(
        forwarded(
            "sip:carol@example.com",
            Transport::Udp,
            Transport::Udp,
            false
        )
        .is_empty()
    );
}

#[test]
fn only_what_may_begin_a_dialog_is_recorded() {
    for (method, is_recorded) in [
        ("INVITE", true),
        ("SUBSCRIBE", true),
        ("REFER", true),
        ("NEWMETHOD", true),
        ("OPTIONS", false),
        ("MESSAGE", false),
        ("BYE", false),
        ("PUBLISH", false),
        ("REGISTER", false),
    ] {
        let mut bed = Bed::new(forwarding(Transport::Udp, NEXT));
        let request = request(method, "sip:carol@example.com", Transport::Udp);
        let mut sent = bed.receive(&alice(Transport::Udp), &request.text());
        sent.retain(|s| s.status() == 0);
        let recorded = !only(sent).all(HeaderName::RecordRoute).is_empty();
        assert_eq!(recorded, is_recorded, "{method}");
    }
}

/// A call from alice to a registered bob; what each of them gets of the
/// other's BYE.
fn byes(alices: Transport, bobs: Transport, is_translated: bool) {
    let mut bed = Bed::new(settings());
    let bob_flow = flow(bobs, "203.0.113.9:40000");
    let contact_addr = if is_translated {
        "10.1.1.1:5060"
    } else {
        "203.0.113.9:40000"
    };
    let contact = format!("sip:bob@{contact_addr};transport={}", bobs.uri_name());
    bed.register("sip:bob@example.org", &contact, Some(bob_flow));
    let alice_flow = flow(alices, "198.51.100.1:40001");
    let mut invite = request("INVITE", "sip:bob@example.org", alices);
    invite.via = format!(
        "SIP/2.0/{} 10.2.2.2:5060;rport;branch=z9hG4bKnat",
        alices.via_name()
    );
    let sent = bed.receive(&alice_flow, &invite.text()).remove(1);
    assert_eq!(
        (sent.to.remote, sent.to.conn),
        (bob_flow.remote, bob_flow.conn)
    );
    let line = format!("Contact: <{contact}>\r\n");
    let ok = only(bed.receive(&bob_flow, &response(&sent, 200, "b", &line)));
    let routes = ok.all(HeaderName::RecordRoute);
    let as_routes = |routes: &mut dyn Iterator<Item = &String>| -> String {
        routes.map(|r| format!("Route: {r}\r\n")).collect()
    };
    // Alice's route set is the reverse.
    let mut bye = request("BYE", &contact, alices).with(&as_routes(&mut routes.iter().rev()));
    bye.to = "<sip:bob@example.org>;tag=b".into();
    let at_bob = only(bed.receive(&alice_flow, &bye.text()));
    assert_eq!(
        (at_bob.to.remote, at_bob.to.conn),
        (bob_flow.remote, bob_flow.conn)
    );
    assert_eq!(at_bob.uri(), contact);
    assert!(at_bob.all(HeaderName::Route).is_empty());
    // Bob's is as it came.
    let mut bye =
        request("BYE", "sip:alice@10.2.2.2:5060", bobs).with(&as_routes(&mut routes.iter()));
    bye.to = "<sip:alice@example.com>;tag=a".into();
    bye.from = "<sip:bob@example.org>;tag=b".into();
    let at_alice = only(bed.receive(&bob_flow, &bye.text()));
    assert_eq!(
        (at_alice.to.remote, at_alice.to.conn),
        (alice_flow.remote, alice_flow.conn)
    );
    assert!(!at_alice.to.may_open);
    assert!(at_alice.all(HeaderName::Route).is_empty());
}

#[test]
fn phones_are_found_along_their_flows() {
    for alices in TRANSPORTS {
        for bobs in TRANSPORTS {
            for is_translated in [true, false] {
                byes(alices, bobs, is_translated);
            }
        }
    }
}

#[test]
fn a_forged_flow_leads_nowhere_else() {
    let mut bed = Bed::new(settings());
    let bob_flow = flow(Transport::Tcp, "203.0.113.9:40000");
    bed.register(
        "sip:bob@example.org",
        "sip:bob@10.1.1.1;transport=tcp",
        Some(bob_flow),
    );
    let invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
    let sent = bed
        .receive(&alice(Transport::Udp), &invite.text())
        .remove(1);
    let contact = "Contact: <sip:bob@10.1.1.1;transport=tcp>\r\n";
    let ok = only(bed.receive(&bob_flow, &response(&sent, 200, "b", contact)));
    let offered = sent.all(HeaderName::RecordRoute).remove(0);
    let route = ok.all(HeaderName::RecordRoute).remove(0);
    let within = |route: &str, call_id: &str| {
        let mut info = request("INFO", "sip:x@203.0.113.50", Transport::Udp)
            .with(&format!("Route: {route}\r\n"));
        info.to = "<sip:bob@example.org>;tag=b".into();
        info.call_id = call_id.into();
        info
    };
    let mut flow_of = |route: &str, call_id: &str| {
        let text = within(route, call_id).text();
        only(bed.receive(&alice(Transport::Udp), &text)).to.conn
    };
    assert_eq!(flow_of(&route, "call-1"), bob_flow.conn);
    // What only was to become the caller's is nothing yet.
    assert_ne!(flow_of(&offered, "call-1"), bob_flow.conn);
    // In another dialog the token is nothing, and changed it is nothing.
    assert_ne!(flow_of(&route, "call-2"), bob_flow.conn);
    let at = route.find('@').unwrap();
    for position in 5..at {
        let mut changed = route.clone().into_bytes();
        changed[position] = if changed[position] == b'A' {
            b'B'
        } else {
            b'A'
        };
        let changed = String::from_utf8(changed).unwrap();
        assert_ne!(flow_of(&changed, "call-1"), bob_flow.conn, "{changed}");
    }
}
