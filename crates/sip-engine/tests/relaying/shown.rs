//! Places that are shown within a dialog, or where one begins: what they are good for, by who has
//! shown them. Anybody writes any source on a datagram.

use super::*;
use sip_engine::settings::Inbound;

/// The gateway's place as one in league with alice shows it, under the number of his choice.
const AT_GATEWAY: &str = "sip:+1900555@203.0.113.50";
const MALLORYS: &str = "sip:m@203.0.113.66";

/// A call of alice's, and how its two sides name it.
struct Dialog {
    call_id: String,
    alice: String,
    other: String,
    alices: Vec<String>,
    others: Vec<String>,
}

impl Dialog {
    /// What alice sends within it.
    fn of_alice(&self, method: &str, uri: &str) -> String {
        let mut request = request(method, uri, Transport::Udp);
        request.from.clone_from(&self.alice);
        request.to.clone_from(&self.other);
        self.text(request, &self.alices)
    }

    /// What the other side sends to her, with that Contact.
    fn of_other(&self, method: &str, contact: &str, transport: Transport) -> String {
        let mut request = request(method, "sip:alice@198.51.100.1:5060", transport)
            .with(&format!("Contact: <{contact}>\r\n"));
        request.from.clone_from(&self.other);
        request.to.clone_from(&self.alice);
        self.text(request, &self.others)
    }

    fn text(&self, mut request: Request, routes: &[String]) -> String {
        request.call_id.clone_from(&self.call_id);
        request.cseq = 9;
        for route in routes {
            request = request.with(&format!("Route: {route}\r\n"));
        }
        request.text()
    }
}

/// Alice calls somebody, who answers where he was called and shows that Contact.
fn call_to(bed: &mut Bed, uri: &str, contact: &str) -> Dialog {
    let udp = alice(Transport::Udp);
    let mut invite = request("INVITE", uri, Transport::Udp);
    invite.to = format!("<{uri}>");
    let sent = signed_by_alice(bed, &udp, &udp, invite);
    let copy = &sent[1];
    let text = response(copy, 200, "m", &format!("Contact: <{contact}>\r\n"));
    let ok = only(bed.receive(&answering(copy), &text));
    let mut alices = ok.all(HeaderName::RecordRoute);
    alices.reverse();
    Dialog {
        call_id: String::from_utf8_lossy(ok.message.call_id()).into_owned(),
        alice: "<sip:alice@example.org>;tag=a".into(),
        other: ok.header(HeaderName::To).unwrap(),
        alices,
        others: copy.all(HeaderName::RecordRoute),
    }
}

#[test]
fn a_forged_source_shows_no_place_within_a_dialog() {
    for method in ["UPDATE", "INVITE"] {
        for (forged, shown) in [
            (GATEWAY, AT_GATEWAY),
            (GATEWAY, "sip:+1900555@gw.example.net"),
            ("10.1.1.1:5060", "sip:x@10.9.9.9:80"),
        ] {
            let mut settings = with_gateways();
            let private = "10.0.0.0/8".parse().unwrap();
            settings.proxy.relay_denied.push(private);
            let mut bed = Bed::new(settings);
            let call = call_to(&mut bed, MALLORYS, MALLORYS);
            let moved = call.of_other(method, shown, Transport::Udp);
            let sent = bed.receive(&flow(Transport::Udp, forged), &moved);
            assert!(sent.iter().any(|sent| sent.status() == 0), "it passes");
            for source in [alice(Transport::Udp), flow(Transport::Udp, forged)] {
                for within in ["INVITE", "MESSAGE", "UPDATE"] {
                    let sent = bed.receive(&source, &call.of_alice(within, shown));
                    refused(sent, 407, &format!("{method} {shown} {within}"));
                }
            }
            // It may be the gateway all the same: she can hang up there.
            let mut sent = bed.receive(&alice(Transport::Udp), &call.of_alice("BYE", shown));
            match (forged, shown) {
                (GATEWAY, AT_GATEWAY) => assert_eq!(only(sent).to.remote.to_string(), GATEWAY),
                (GATEWAY, _) => {
                    sent = resolved(&mut bed, &[GATEWAY]);
                    assert_eq!(only(sent).to.remote.to_string(), GATEWAY);
                }
                _ => refused(sent, 407, shown),
            }
        }
    }
}

#[test]
fn who_is_known_to_be_there_shows_a_place_within_a_dialog() {
    let listed = || TrustedPeer {
        may_relay: false,
        ..TrustedPeer::at([203, 0, 113, 50].into(), 32)
    };
    for (transport, peer) in [(Transport::Udp, Some(listed())), (Transport::Tcp, None)] {
        let mut settings = with_gateways();
        settings.trusted.extend(peer);
        let mut bed = Bed::new(settings);
        let call = call_to(&mut bed, MALLORYS, MALLORYS);
        let moved = call.of_other("UPDATE", AT_GATEWAY, transport);
        bed.receive(&flow(transport, GATEWAY), &moved);
        let sent = bed.receive(&alice(Transport::Udp), &call.of_alice("INVITE", AT_GATEWAY));
        assert_eq!(sent[1].to.remote.to_string(), GATEWAY, "{transport:?}");
    }
    // What it has shown before, in its answer, is shown already.
    let mut bed = Bed::new(with_gateways());
    let shown = "sip:+4930@203.0.113.50";
    let call = call_to(&mut bed, "sip:+4930@example.org", shown);
    let again = call.of_other("INVITE", shown, Transport::Udp);
    let sent = bed.receive(&flow(Transport::Udp, GATEWAY), &again);
    assert_eq!(kinds(&sent), ["100", "INVITE"]);
    let sent = bed.receive(&alice(Transport::Udp), &call.of_alice("INVITE", shown));
    assert_eq!(sent[1].to.remote.to_string(), GATEWAY);
}

/// Somebody calls alice, who answers; where he seems to be, and the Contact that he shows.
fn call_from(bed: &mut Bed, from: &Flow, shown: &str) -> Dialog {
    call_from_by(bed, from, shown, "alice")
}

/// The same, where To names another user of ours.
fn call_from_by(bed: &mut Bed, from: &Flow, shown: &str, named: &str) -> Dialog {
    began_from(bed, from, shown, ("INVITE", named, ""), str::to_owned)
}

/// Somebody begins a dialog with alice by that method, naming that user of ours, with more header
/// lines; she answers, and changes what she answers.
fn began_from(
    bed: &mut Bed,
    from: &Flow,
    shown: &str,
    (method, named, more): (&str, &str, &str),
    change: impl FnOnce(&str) -> String,
) -> Dialog {
    let alices = "sip:alice@198.51.100.1:5060";
    bed.register("sip:alice@example.org", alices, None);
    let mut invite = request(method, "sip:alice@example.org", from.transport)
        .with(&format!("Contact: <{shown}>\r\n{more}"));
    invite.via = invite
        .via
        .replace("198.51.100.1", &from.remote.ip().to_string());
    invite.from = "<sip:carol@elsewhere.example>;tag=m".into();
    invite.to = format!("<sip:{named}@example.org>");
    invite.call_id = invite.via.rsplit('=').next().unwrap().to_owned();
    let sent = bed.receive(from, &invite.text());
    let copy = sent.iter().find(|sent| sent.status() == 0).unwrap();
    let text = response(copy, 200, "a", &format!("Contact: <{alices}>\r\n"));
    let ok = only(bed.receive(&answering(copy), &change(&text)));
    assert_eq!(ok.status(), 200);
    let mut others = ok.all(HeaderName::RecordRoute);
    others.reverse();
    Dialog {
        call_id: invite.call_id.clone(),
        alice: format!("{};tag=a", invite.to),
        other: invite.from.clone(),
        alices: copy.all(HeaderName::RecordRoute),
        others,
    }
}

#[test]
fn a_forged_source_shows_no_place_where_a_dialog_begins() {
    let settings = || Settings {
        inbound: Inbound::Anyone,
        ..with_gateways()
    };
    let udp = alice(Transport::Udp);
    let gateway = flow(Transport::Udp, GATEWAY);
    let mut bed = Bed::new(settings());
    let call = call_from(&mut bed, &gateway, AT_GATEWAY);
    for within in ["INVITE", "MESSAGE", "UPDATE"] {
        let sent = bed.receive(&udp, &call.of_alice(within, AT_GATEWAY));
        refused(sent, 407, within);
    }
    let sent = bed.receive(&udp, &call.of_alice("BYE", AT_GATEWAY));
    assert_eq!(only(sent).to.remote.to_string(), GATEWAY);
    // So it is where it names another than it calls, as a provider does that writes into To what
    // was dialled.
    let mut bed = Bed::new(settings());
    let call = call_from_by(&mut bed, &gateway, AT_GATEWAY, "+4930");
    let sent = bed.receive(&udp, &call.of_alice("INVITE", AT_GATEWAY));
    refused(sent, 407, "another's name");
    let ack = call.of_other("ACK", AT_GATEWAY, Transport::Udp);
    bed.receive(
        &gateway,
        &ack.replace("<sip:alice@example.org>", "<sip:+4930@example.org>"),
    );
    let sent = bed.receive(&udp, &call.of_alice("INVITE", AT_GATEWAY));
    assert_eq!(sent[1].to.remote.to_string(), GATEWAY);
    let sent = bed.receive(&udp, &call.of_alice("BYE", AT_GATEWAY));
    assert_eq!(only(sent).to.remote.to_string(), GATEWAY);
    // Nor is she led along its way, whatever Contact it shows.
    let hidden = "sip:+1900555@192.168.0.5";
    let mut bed = Bed::new(settings());
    let call = call_from(&mut bed, &gateway, hidden);
    let sent = bed.receive(&udp, &call.of_alice("MESSAGE", hidden));
    assert_eq!(only(sent).to.remote.to_string(), "192.168.0.5:5060");
    // Everybody else behind a translation is reached where he called from.
    let phone = flow(Transport::Udp, "203.0.113.77:40000");
    let call = call_from(&mut bed, &phone, hidden);
    let sent = bed.receive(&udp, &call.of_alice("MESSAGE", hidden));
    assert_eq!(only(sent).to.remote, phone.remote);
    // The gateway itself, where the operator knows it, or by a connection.
    let peer = TrustedPeer::at([203, 0, 113, 50].into(), 32);
    for (transport, peer) in [(Transport::Udp, Some(peer)), (Transport::Tcp, None)] {
        let mut settings = settings();
        settings.trusted.extend(peer);
        let mut bed = Bed::new(settings);
        let call = call_from(&mut bed, &flow(transport, GATEWAY), AT_GATEWAY);
        let sent = bed.receive(&udp, &call.of_alice("INVITE", AT_GATEWAY));
        assert_eq!(sent[1].to.remote.ip(), gateway.remote.ip(), "{transport:?}");
    }
}

#[test]
fn a_gateway_shows_by_what_it_was_answered_that_it_is_there() {
    // It is not listed, and calls in by datagrams: users can hang up, and do all else once its ACK
    // has come, in which stands what only the gateway was sent.
    let settings = || Settings {
        inbound: Inbound::Anyone,
        ..with_gateways()
    };
    let udp = alice(Transport::Udp);
    let gateway = flow(Transport::Udp, GATEWAY);
    for shown in [AT_GATEWAY, "sip:+1900555@gw.example.net"] {
        let mut bed = Bed::new(settings());
        let call = call_from(&mut bed, &gateway, shown);
        let reaches = |bed: &mut Bed, uri: &str| {
            let mut sent = bed.receive(&udp, &call.of_alice("INVITE", uri));
            if uri.contains("gw.") && kinds(&sent) == ["100"] {
                sent = resolved(bed, &[GATEWAY]);
            }
            let copy = sent.iter().find(|sent| sent.status() == 0);
            copy.map(|copy| copy.to.remote.to_string())
        };
        let ack = call.of_other("ACK", shown, Transport::Udp);
        let without = ack.replace("Route:", "X-Route:");
        assert!(bed.receive(&gateway, &without).is_empty());
        assert_eq!(reaches(&mut bed, shown), None);
        assert_eq!(only(bed.receive(&gateway, &ack)).method(), "ACK");
        assert_eq!(reaches(&mut bed, shown).as_deref(), Some(GATEWAY));
        // From then on it shows other places as well, from its own.
        let another = "sip:+4930@203.0.113.50";
        let moved = call.of_other("UPDATE", another, Transport::Udp);
        bed.receive(&flow(Transport::Udp, "203.0.113.66:5060"), &moved);
        assert_eq!(reaches(&mut bed, another), None);
        let moved = call.of_other("UPDATE", another, Transport::Udp);
        bed.receive(&gateway, &moved);
        assert_eq!(reaches(&mut bed, another).as_deref(), Some(GATEWAY));
        // What it has shown is forgotten by a restart, until it sends something again; she can hang
        // up all the same.
        let mut bed = Bed::new(settings());
        assert_eq!(reaches(&mut bed, shown), None);
        refused(
            bed.receive(&udp, &call.of_alice("NOTIFY", shown)),
            407,
            shown,
        );
        let mut sent = bed.receive(&udp, &call.of_alice("BYE", shown));
        if sent.is_empty() {
            sent = resolved(&mut bed, &[GATEWAY]);
        }
        assert_eq!(only(sent).to.remote.to_string(), GATEWAY);
        bed.receive(&gateway, &call.of_other("INFO", shown, Transport::Udp));
        assert_eq!(reaches(&mut bed, shown).as_deref(), Some(GATEWAY));
    }
}

/// A Via of the accomplice's, below the gateway's.
const MALLORYS_VIA: &str = "Via: SIP/2.0/UDP 203.0.113.66:5060;branch=z9hG4bKm\r\n";

#[test]
fn what_a_gateway_may_send_on_to_others_shows_nothing() {
    // A proxy that knows of no such request takes its Via off and sends the answer on by the next:
    // whoever has forged the gateway's source, and written that Via, would get what is in it.
    let udp = alice(Transport::Udp);
    let gateway = flow(Transport::Udp, GATEWAY);
    let opens = |mode, method, more: &str, change: &dyn Fn(&str) -> String| {
        let mut bed = Bed::new(Settings {
            inbound: Inbound::Anyone,
            mode,
            ..with_gateways()
        });
        let begun = (method, "alice", more);
        let mut call = began_from(&mut bed, &gateway, AT_GATEWAY, begun, change);
        call.others.retain(|route| !route.contains("203.0.113.66"));
        let shows = match method {
            "INVITE" => "ACK",
            other => other,
        };
        let shows = call.of_other(shows, AT_GATEWAY, Transport::Udp);
        bed.receive(&flow(Transport::Udp, "203.0.113.66:5060"), &shows);
        let mut sent = bed.receive(&udp, &call.of_alice("MESSAGE", AT_GATEWAY));
        sent.retain(|sent| sent.status() == 0);
        sent.first().map(|sent| sent.to.remote) == Some(gateway.remote)
    };
    let as_it_is = |text: &str| text.to_owned();
    // By the response's Vias the accomplices would have it sent on as well.
    let with_via = |text: &str| text.replacen("From:", &format!("{MALLORYS_VIA}From:"), 1);
    // And by a route before ours the gateway itself would bring it to another.
    let with_route = |text: &str| {
        let ours = text.find("Record-Route:").unwrap();
        let end = ours + text[ours..].find("\r\n").unwrap() + 2;
        let (before, behind) = text.split_at(end);
        format!("{before}Record-Route: <sip:203.0.113.66;lr>\r\n{behind}")
    };
    for (mode, method) in [(Mode::Stateful, "INVITE"), (Mode::Stateless, "SUBSCRIBE")] {
        assert!(opens(mode, method, "", &as_it_is), "{method}");
        assert!(!opens(mode, method, MALLORYS_VIA, &as_it_is), "{method}");
        assert!(!opens(mode, method, "", &with_via), "{method}");
        assert!(!opens(mode, method, "", &with_route), "{method}");
    }
    // Nor within a dialog.
    for (more, opens) in [("", true), (MALLORYS_VIA, false)] {
        let mut bed = Bed::new(with_gateways());
        let call = call_to(&mut bed, MALLORYS, MALLORYS);
        let again = call.of_other("INVITE", AT_GATEWAY, Transport::Udp);
        let again = again.replacen("From:", &format!("{more}From:"), 1);
        let sent = bed.receive(&gateway, &again);
        let copy = sent.iter().find(|sent| sent.status() == 0).unwrap();
        let contact = "Contact: <sip:alice@198.51.100.1:5060>\r\n";
        let ok = only(bed.receive(&udp, &response(copy, 200, "", contact)));
        let mut others = ok.all(HeaderName::RecordRoute);
        others.reverse();
        let call = Dialog { others, ..call };
        let ack = call.of_other("ACK", AT_GATEWAY, Transport::Udp);
        bed.receive(&flow(Transport::Udp, "203.0.113.66:5060"), &ack);
        let mut sent = bed.receive(&udp, &call.of_alice("INVITE", AT_GATEWAY));
        sent.retain(|sent| sent.status() == 0);
        assert_eq!(!sent.is_empty(), opens, "{more}");
    }
}

#[test]
fn a_nonce_shows_that_a_gateway_is_there_if_it_went_there_and_nowhere_else() {
    let gateway = flow(Transport::Udp, GATEWAY);
    let mut settings = with_gateways();
    settings.registrar.durable = false;
    let private = "10.0.0.0/8".parse().unwrap();
    settings.proxy.relay_denied.push(private);
    let inside = flow(Transport::Udp, "10.1.1.1:5060");
    let register = |settings: &Settings, asked: &Flow, at: &Flow, port: u16, more: &str| {
        let mut bed = Bed::new(settings.clone());
        let mut register = request("REGISTER", "sip:example.org", Transport::Udp).with(more);
        register.to = "<sip:alice@example.org>".into();
        let sent_by = format!("{}:{port}", at.remote.ip());
        register.via = register.via.replace("198.51.100.1:5060", &sent_by);
        only(signed_by_alice(&mut bed, asked, at, register)).status()
    };
    for at in [gateway, inside] {
        assert_eq!(register(&settings, &at, &at, 5060, ""), 200);
        // Where it is a proxy, the accomplice has got the nonce.
        let sent_on = register(&settings, &at, &at, 5060, MALLORYS_VIA);
        assert_eq!(sent_on, 401, "{at:?}");
        // The operator says that it sends nothing on to whom it does not know.
        let mut listing = settings.clone();
        listing.trusted = vec![TrustedPeer::at(at.remote.ip(), 32)];
        assert_eq!(register(&listing, &at, &at, 5060, MALLORYS_VIA), 200);
    }
    // Whoever is behind the gateway's address with it gets nonces there, and is not the gateway.
    let beside = flow(Transport::Udp, "203.0.113.50:6000");
    assert_eq!(register(&settings, &beside, &gateway, 5060, ""), 401);
    assert_eq!(register(&settings, &gateway, &gateway, 6000, ""), 401);
}

#[test]
fn a_registration_from_outside_leads_no_neighbour_into_a_denied_network() {
    // Whoever calls from there would go where the callee's name leads by then.
    let local = flow(Transport::Tcp, "127.0.0.1:40000");
    for (from, is_reached) in [("198.51.100.66:5060", false), ("127.0.0.1:5070", true)] {
        let mut settings = with_gateways();
        settings.trusted = vec![TrustedPeer::at([127, 0, 0, 1].into(), 32)];
        let mut bed = Bed::new(settings);
        let contact = "sip:bob@rebind.example:6379;transport=udp";
        bed.register_with("sip:bob@example.org", contact, None, |binding| {
            binding.source = Some((Transport::Udp, from.parse().unwrap()));
        });
        let invite = request("INVITE", "sip:bob@example.org", Transport::Tcp);
        bed.receive(&local, &invite.text());
        let sent = resolved(&mut bed, &["127.0.0.1:6379"]);
        match is_reached {
            true => assert_eq!(only(sent).to.remote.to_string(), "127.0.0.1:6379"),
            false => refused(sent, 403, from),
        }
    }
}

#[test]
fn a_strangers_source_opens_no_denied_network() {
    let mut settings = Settings {
        inbound: Inbound::Anyone,
        ..with_gateways()
    };
    let private = "10.0.0.0/8".parse().unwrap();
    settings.proxy.relay_denied.push(private);
    for transport in [Transport::Udp, Transport::Tcp] {
        let mut bed = Bed::new(settings.clone());
        let contact = "sip:bob@rebind.example";
        bed.register_with("sip:bob@example.org", contact, None, |binding| {
            binding.source = Some((Transport::Tcp, "10.2.2.2:5060".parse().unwrap()));
        });
        let invite = request("INVITE", "sip:bob@example.org", transport);
        bed.receive(&flow(transport, "10.1.1.1:5060"), &invite.text());
        let sent = resolved(&mut bed, &["10.9.9.9:80"]);
        match transport {
            Transport::Udp => refused(sent, 403, "by a datagram"),
            _ => assert_eq!(only(sent).to.remote.to_string(), "10.9.9.9:80"),
        }
    }
}

#[test]
fn phones_in_a_denied_network_call_each_other_by_datagrams() {
    let mut settings = with_gateways();
    let private = "10.0.0.0/8".parse().unwrap();
    settings.proxy.relay_denied.push(private);
    let mut bed = Bed::new(settings);
    let (alices, bobs) = ("sip:alice@10.2.2.2:5060", "sip:bob@10.1.1.1:5060");
    let bob = flow(Transport::Udp, "10.1.1.1:5060");
    bed.register("sip:bob@example.org", bobs, Some(bob));
    let alice = flow(Transport::Udp, "10.2.2.2:5060");
    let mut invite = request("INVITE", "sip:bob@example.org", Transport::Udp)
        .with(&format!("Contact: <{alices}>\r\n"));
    invite.via = invite.via.replace("198.51.100.1", "10.2.2.2");
    let sent = signed_by_alice(&mut bed, &alice, &alice, invite);
    let copy = sent.iter().find(|sent| sent.status() == 0).unwrap();
    let contact = format!("Contact: <{bobs}>\r\n");
    let ok = only(bed.receive(&bob, &response(copy, 200, "b", &contact)));
    let mut routes = ok.all(HeaderName::RecordRoute);
    routes.reverse();
    let call = Dialog {
        call_id: String::from_utf8_lossy(ok.message.call_id()).into_owned(),
        alice: "<sip:alice@example.org>;tag=a".into(),
        other: ok.header(HeaderName::To).unwrap(),
        alices: routes,
        others: copy.all(HeaderName::RecordRoute),
    };
    for method in ["ACK", "INFO", "BYE"] {
        let sent = bed.receive(&alice, &call.of_alice(method, bobs));
        assert_eq!(only(sent).to.remote, bob.remote, "{method}");
        let bobs = call.of_other(method, bobs, Transport::Udp);
        let bobs = bobs.replace("sip:alice@198.51.100.1:5060", alices);
        let sent = bed.receive(&bob, &bobs);
        assert_eq!(only(sent).to.remote, alice.remote, "{method}");
    }
}

#[test]
fn an_answer_shows_a_place_where_no_state_is_kept_if_it_comes_from_where_the_request_went() {
    let udp = alice(Transport::Udp);
    let at_home = "sip:+4930@example.org";
    for (subscribed, forged, is_shown) in [
        (MALLORYS, GATEWAY, false),
        (MALLORYS, "203.0.113.66:5060", false),
        (at_home, "203.0.113.66:5060", false),
        (at_home, GATEWAY, true),
    ] {
        let mut bed = Bed::new(Settings {
            mode: Mode::Stateless,
            ..with_gateways()
        });
        let mut subscribe = request("SUBSCRIBE", subscribed, Transport::Udp);
        subscribe.to = format!("<{subscribed}>");
        let copy = only(signed_by_alice(&mut bed, &udp, &udp, subscribe));
        let text = response(&copy, 200, "m", &format!("Contact: <{AT_GATEWAY}>\r\n"));
        let ok = only(bed.receive(&flow(Transport::Udp, forged), &text));
        let call = Dialog {
            call_id: String::from_utf8_lossy(ok.message.call_id()).into_owned(),
            alice: "<sip:alice@example.org>;tag=a".into(),
            other: ok.header(HeaderName::To).unwrap(),
            alices: ok.all(HeaderName::RecordRoute),
            others: copy.all(HeaderName::RecordRoute),
        };
        let sent = bed.receive(&udp, &call.of_alice("SUBSCRIBE", AT_GATEWAY));
        match is_shown {
            true => assert_eq!(only(sent).to.remote.to_string(), GATEWAY),
            false => refused(sent, 407, forged),
        }
    }
}
