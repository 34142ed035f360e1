//! Contacts whose flow has ended with the process that held it: where they were registered from
//! still counts, and along no flow are they reached.

use super::*;

/// What a start finds of a phone that has registered from there, over a connection.
fn register(bed: &mut Bed, contact: &str, from: &str, had_flow: bool) {
    bed.register_with("sip:bob@example.org", contact, None, |binding| {
        binding.source = Some((Transport::Tcp, from.parse().unwrap()));
        binding.had_flow = had_flow;
    });
}

fn denying() -> Settings {
    let mut settings = with_gateways();
    let private = "10.0.0.0/8".parse().unwrap();
    settings.proxy.relay_denied.push(private);
    settings
}

#[test]
fn who_has_registered_from_a_denied_network_is_called_there_after_a_restart() {
    let contact = "sip:bob@10.1.1.1:5060;transport=tcp";
    let mut bed = Bed::new(denying());
    register(&mut bed, contact, "10.1.1.1:40000", true);
    let sent = by_alice(&mut bed, "sip:bob@example.org", "");
    let copy = sent.iter().find(|sent| sent.status() == 0).unwrap();
    assert_eq!(copy.to.transport, Transport::Tcp);
    assert_eq!(copy.to.remote.to_string(), "10.1.1.1:5060");
    // And within the dialog.
    let text = response(copy, 200, "b", &format!("Contact: <{contact}>\r\n"));
    let ok = only(bed.receive(&answering(copy), &text));
    let mut ack = request("ACK", contact, Transport::Udp);
    ack.from = "<sip:alice@example.org>;tag=a".into();
    ack.to = ok.header(HeaderName::To).unwrap();
    ack.cseq = 2;
    ack.call_id = String::from_utf8_lossy(ok.message.call_id()).into_owned();
    for route in ok.all(HeaderName::RecordRoute).iter().rev() {
        ack = ack.with(&format!("Route: {route}\r\n"));
    }
    let ack = only(bed.receive(&alice(Transport::Udp), &ack.text()));
    assert_eq!(ack.to.remote, copy.to.remote);
    assert!(
        ack.to.may_open,
        "by the connection of the INVITE, or another"
    );
}

#[test]
fn who_would_be_reached_by_a_call_and_by_nothing_within_it_is_not_called() {
    let mut bed = Bed::new(denying());
    let contact = "sip:bob@10.1.1.1:5061;transport=tls";
    register(&mut bed, contact, "10.1.1.1:40000", true);
    refused(by_alice(&mut bed, "sip:bob@example.org", ""), 403, contact);
}

#[test]
fn who_has_registered_from_elsewhere_or_through_a_proxy_is_not() {
    for (from, had_flow) in [("203.0.113.7:40000", true), ("10.1.1.1:40000", false)] {
        let mut bed = Bed::new(denying());
        register(
            &mut bed,
            "sip:bob@10.1.1.1:5060;transport=tcp",
            from,
            had_flow,
        );
        refused(by_alice(&mut bed, "sip:bob@example.org", ""), 403, from);
    }
}

#[test]
fn a_gateway_that_has_registered_as_a_user_is_called_after_a_restart() {
    let contact = format!("sip:+1900555@{GATEWAY};transport=tcp");
    for (from, had_flow, is_called) in [
        ("203.0.113.50:41000", true, true),
        ("203.0.113.50:41000", false, false),
        ("203.0.113.7:41000", true, false),
    ] {
        let mut bed = Bed::new(with_gateways());
        register(&mut bed, &contact, from, had_flow);
        let sent = by_alice(&mut bed, "sip:bob@example.org", "");
        match is_called {
            true => assert_eq!(sent[1].to.remote.to_string(), GATEWAY),
            false => refused(sent, 403, from),
        }
    }
}

#[test]
fn a_registration_leaves_the_proof_of_where_it_came_from() {
    let mut settings = settings();
    settings.registrar.durable = false;
    let private = "10.0.0.0/8".parse().unwrap();
    settings.proxy.relay_denied.push(private);
    let mut bed = Bed::new(settings);
    for (transport, at) in [
        (Transport::Udp, "10.1.1.1:5060"),
        (Transport::Tcp, "10.1.1.2:5060"),
    ] {
        let mut register = request("REGISTER", "sip:example.org", transport);
        register.via = register.via.replace("198.51.100.1:5060", at);
        let contact = format!("<sip:bob@{at};transport={}>", transport.uri_name());
        let text = register.text();
        let text = text.replace("<sip:alice@198.51.100.1:5060>", &contact);
        let sent = bed.receive(&flow(transport, at), &text.replace("call-1", at));
        assert_eq!(only(sent).status(), 200);
    }
    let mut count = 0;
    bed.location.for_each(bed.now.unix_ms, |_, bindings| {
        count += bindings.iter().filter(|binding| binding.had_flow).count();
    });
    assert_eq!(count, 2);
}
