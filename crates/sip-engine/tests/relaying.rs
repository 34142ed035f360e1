//! Where a name may lead: not back to this server, not into networks to which
//! nothing is relayed, and not to the gateways past their tables.

#![allow(clippy::unwrap_used, clippy::panic)]

mod lost_flows;
mod shown;

use crate::common::*;
use sip_auth::{Attempt, ClientAuth, Ha1, Reply, RequestParts};
use sip_engine::Effect;
use sip_engine::routes::{Connections, Gateway, GatewayGroup, NextHop, Routes};
use sip_engine::settings::{AuthSettings, Mode, Settings, TrustedPeer};
use sip_locate::Hop;
use sip_msg::{Flow, HeaderName, Transport};

fn secured() -> Settings {
    Settings {
        authenticate: Some(AuthSettings::default()),
        ..settings()
    }
}

#[test]
fn this_server_is_no_peer_of_its_own() {
    for transport in TRANSPORTS {
        let mut settings = secured();
        settings.trusted = vec![TrustedPeer::at([192, 0, 2, 0].into(), 24)];
        let port = if transport == Transport::Tls {
            5061
        } else {
            5060
        };
        for (remote, is_trusted) in [
            (format!("192.0.2.1:{port}"), false),
            // A gateway beside it, on the same host.
            ("192.0.2.1:5099".to_owned(), true),
            (format!("192.0.2.2:{port}"), true),
        ] {
            let mut bed = Bed::new(settings.clone());
            let invite = request("OPTIONS", "sip:carol@203.0.113.9", transport);
            let sent = only(bed.receive(&flow(transport, &remote), &invite.text()));
            let expected = if is_trusted { 0 } else { 403 };
            assert_eq!(sent.status(), expected, "{transport:?} {remote}");
        }
    }
}

#[test]
fn what_comes_back_from_here_is_a_loop() {
    for transport in TRANSPORTS {
        let mut settings = secured();
        settings.trusted = vec![TrustedPeer::at([198, 51, 100, 0].into(), 24)];
        let mut bed = Bed::new(settings);
        let options = request("OPTIONS", "sip:carol@203.0.113.9", transport);
        let sent = only(bed.receive(&alice(transport), &options.text()));
        let text = sent.text.replace("sip:carol@", "sip:dave@");
        let back = flow(transport, "192.0.2.1:40000");
        assert_eq!(only(bed.receive(&back, &text)).status(), 482);
        assert_eq!(bed.shard.counters().loops, 1);
        // A proxy in another network may have our private address.
        let elsewhere = flow(transport, "198.51.100.77:40000");
        let text = sent.text.replace("sip:carol@", "sip:erin@");
        assert_eq!(only(bed.receive(&elsewhere, &text)).status(), 0);
    }
}

#[test]
fn what_comes_back_under_our_name_is_a_loop_from_wherever_it_comes() {
    for transport in TRANSPORTS {
        let mut settings = secured();
        settings.trusted = vec![TrustedPeer::at([198, 51, 100, 0].into(), 24)];
        for listener in &mut settings.listeners {
            listener.advertised_host = Some("sip.example.org".into());
        }
        let mut bed = Bed::new(settings);
        let options = request("OPTIONS", "sip:carol@203.0.113.9", transport);
        let sent = only(bed.receive(&alice(transport), &options.text()));
        // A NAT's address, as the packet has it that went out and in again.
        let back = flow(transport, "198.51.100.77:40000");
        let text = sent.text.replace("sip:carol@", "sip:dave@");
        assert_eq!(only(bed.receive(&back, &text)).status(), 482);
    }
}

/// What stands at the end of a name, in networks to which nothing is relayed.
const DENIED: [&str; 9] = [
    "127.0.0.1:22",
    "127.9.9.9",
    "[::1]",
    "[::ffff:127.0.0.1]:6379",
    "169.254.169.254:80",
    "[fe80::1]",
    "224.0.1.75",
    "255.255.255.255",
    "0.0.0.0:8080",
];

#[track_caller]
fn refused(sent: Vec<Sent>, status: u16, what: &str) {
    let answer = sent.last().unwrap_or_else(|| panic!("{what}: nothing"));
    assert!(
        sent.iter().all(|sent| sent.status() != 0),
        "{what}: {:?}",
        kinds(&sent)
    );
    assert_eq!(answer.status(), status, "{what}\n{}", answer.text);
}

#[test]
fn no_name_leads_into_a_network_that_is_denied() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(settings());
        for host in DENIED {
            let inside = format!("sip:x@{host}");
            let options = request("OPTIONS", &inside, transport);
            refused(bed.receive(&alice(transport), &options.text()), 403, host);
            let by_route = request("INVITE", "sip:bob@203.0.113.9", transport)
                .with(&format!("Route: <sip:{host};lr>\r\n"));
            refused(bed.receive(&alice(transport), &by_route.text()), 403, host);
            if !host.contains('[') {
                let bare = host.split(':').next().unwrap();
                let by_maddr = format!("sip:bob@203.0.113.9;maddr={bare}");
                let by_maddr = request("OPTIONS", &by_maddr, transport);
                refused(bed.receive(&alice(transport), &by_maddr.text()), 403, host);
            }
        }
        // A laboratory on one host talks to itself.
        let local = flow(transport, "127.0.0.1:40000");
        let options = request("OPTIONS", "sip:x@127.0.0.1:5080", transport);
        let sent = only(bed.receive(&local, &options.text()));
        assert_eq!(sent.to.remote, "127.0.0.1:5080".parse().unwrap());
    }
}

/// Asks for what a name in the request is, and answers with these addresses.
#[track_caller]
fn resolved(bed: &mut Bed, addrs: &[&str]) -> Vec<Sent> {
    let Some(Effect::Resolve { park, .. }) = bed.effects.pop() else {
        panic!("nothing was asked");
    };
    let hops = addrs.iter().map(|addr| Hop {
        transport: Transport::Udp,
        addr: addr.parse().unwrap(),
        tls_name: None,
    });
    let hops = hops.collect();
    bed.act(|shard, now, out| shard.handle_resolved(now, park, Ok(hops), out))
}

#[test]
fn what_dns_says_is_judged_like_what_is_written() {
    for mode in [Mode::Stateful, Mode::Stateless] {
        let mut bed = Bed::new(Settings { mode, ..settings() });
        let udp = alice(Transport::Udp);
        let options = || request("OPTIONS", "sip:x@rebind.example", Transport::Udp).text();
        bed.receive(&udp, &options());
        refused(resolved(&mut bed, &["127.0.0.1:5060"]), 403, "alone");
        bed.receive(&udp, &options());
        let sent = only(resolved(&mut bed, &["127.0.0.1:5060", "203.0.113.9:5060"]));
        assert_eq!(sent.to.remote, "203.0.113.9:5060".parse().unwrap());
        // A name that is this server: it is a loop before it goes round.
        bed.receive(&udp, &options());
        refused(resolved(&mut bed, &["192.0.2.1:5060"]), 482, "ourselves");
    }
}

#[test]
fn a_contact_leads_into_a_denied_network_from_there_only() {
    let mut settings = settings();
    settings.registrar.durable = false;
    let register = |contact: &str, transport| {
        let register = request("REGISTER", "sip:example.org", transport);
        let contact = format!("<sip:{contact}>");
        register
            .text()
            .replace("<sip:alice@198.51.100.1:5060>", &contact)
    };
    for transport in TRANSPORTS {
        for host in DENIED {
            // Along the flow that the phone has registered by its call comes in any case.
            let is_along = ["169.254", "[fe80", "0.0.0.0"]
                .iter()
                .any(|at| host.starts_with(at));
            if transport != Transport::Udp || is_along {
                continue;
            }
            let mut bed = Bed::new(settings.clone());
            let text = register(&format!("bob@{host}"), transport);
            refused(bed.receive(&alice(transport), &text), 403, host);
            assert_eq!(bed.location.bindings(), 0);
        }
        let mut bed = Bed::new(settings.clone());
        let local = flow(transport, "127.0.0.1:40000");
        let text = register("bob@127.0.0.1:5080", transport);
        assert_eq!(only(bed.receive(&local, &text)).status(), 200);
        let invite = request("INVITE", "sip:bob@example.org", transport);
        let sent = bed.receive(&alice(transport), &invite.text()).remove(1);
        assert_eq!(sent.to.remote.ip(), local.remote.ip());
        // Who called from outside reaches the phone within the dialog as well: by a Route
        // of ours that says where.
        let route = sent.header(HeaderName::RecordRoute).unwrap();
        assert!(route.contains('@'), "{route}");
    }
    // A name is judged when it is called.
    let mut bed = Bed::new(settings);
    let text = register("bob@rebind.example", Transport::Udp);
    let udp = alice(Transport::Udp);
    assert_eq!(only(bed.receive(&udp, &text)).status(), 200);
    let invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
    bed.receive(&udp, &invite.text());
    refused(resolved(&mut bed, &["127.0.0.1:5060"]), 403, "rebound");
}

#[test]
fn a_path_leads_to_a_neighbour_in_a_denied_network_if_the_neighbour_has_brought_it() {
    let mut settings = settings();
    settings.registrar.durable = false;
    let neighbours = ["127.0.0.1", "203.0.113.80"].map(|ip| ip.parse().unwrap());
    settings.trusted = neighbours.map(|ip| TrustedPeer::at(ip, 32)).into();
    let udp = alice(Transport::Udp);
    let edge = flow(Transport::Udp, "127.0.0.1:5080");
    // The source of a datagram is no proof, but where what came from there had to prove it.
    let far = |transport| flow(transport, "203.0.113.80:5080");
    for (from, is_called) in [
        (udp, false),
        (edge, true),
        (far(Transport::Udp), false),
        (far(Transport::Tcp), true),
    ] {
        let mut bed = Bed::new(settings.clone());
        // A proxy's name, or one that its user has resolve to there.
        let register = request("REGISTER", "sip:example.org", from.transport)
            .with("Via: SIP/2.0/UDP 203.0.113.9:5060;branch=z9hG4bKphone\r\n")
            .with("Path: <sip:edge.example;lr>\r\n");
        let sent = only(bed.receive(&from, &register.text()));
        assert_eq!(sent.status(), 200, "{}", sent.text);
        let invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
        bed.receive(&udp, &invite.text());
        let sent = resolved(&mut bed, &["127.0.0.1:5080"]);
        match is_called {
            true => assert_eq!(only(sent).to.remote, edge.remote),
            false => refused(sent, 403, "whoever has written the Path"),
        }
    }
}

const GATEWAY: &str = "203.0.113.50:5060";

/// Numbers with `+` go to a gateway with an address, those with 0 to one with a name.
fn with_gateways() -> Settings {
    let named = NextHop {
        host: "gw.example.net".into(),
        port: None,
        transport: None,
        connections: Connections::default(),
    };
    let group = |name: &str, next_hop| GatewayGroup {
        name: name.into(),
        gateways: vec![Gateway {
            next_hop,
            priority: 0,
            weight: 1,
        }],
        ..GatewayGroup::default()
    };
    let mut settings = secured();
    settings.routes = Routes {
        groups: vec![
            group("literal", next_hop(Transport::Udp, GATEWAY)),
            group("named", named),
        ],
        prefixes: [("+".into(), 0), ("0".into(), 1)].into(),
        ..Routes::default()
    };
    settings
}

/// A request of alice's, user of example.org, after its challenge.
fn by_alice(bed: &mut Bed, uri: &str, more: &str) -> Vec<Sent> {
    by_alice_at(bed, &alice(Transport::Udp), uri, more)
}

/// The same, with the credentials from somewhere else.
fn by_alice_at(bed: &mut Bed, at: &Flow, uri: &str, more: &str) -> Vec<Sent> {
    let invite = request("INVITE", uri, Transport::Udp).with(more);
    signed_by_alice(bed, &alice(Transport::Udp), at, invite)
}

/// A request of alice's that is challenged at one place, and comes with her password from another.
fn signed_by_alice(bed: &mut Bed, asked: &Flow, at: &Flow, mut invite: Request) -> Vec<Sent> {
    invite.from = "<sip:alice@example.org>;tag=a".into();
    invite.call_id = invite.via.rsplit('=').next().unwrap().to_owned();
    let challenge = only(bed.receive(asked, &invite.text()));
    assert!(matches!(challenge.status(), 401 | 407), "{}", invite.uri);
    let (mut auth, mut attempt) = (ClientAuth::new(), Attempt::default());
    auth.add("example.org", "alice", "secret");
    auth.handle_challenge(&mut attempt, &challenge.message)
        .unwrap();
    let parts = RequestParts {
        method: invite.method.as_bytes(),
        uri: invite.uri.as_bytes(),
        body: b"",
    };
    let mut lines = Vec::new();
    auth.write_credentials(&mut attempt, parts, 7, &mut lines);
    invite.more.push_str(std::str::from_utf8(&lines).unwrap());
    invite.via.push_str("again");
    invite.cseq += 1;
    bed.receive(at, &invite.text());
    let Some(Effect::FindCredential { park, question, .. }) = bed.effects.pop() else {
        panic!("the store was not asked");
    };
    let ha1 = Ha1::compute(question.algorithm, b"alice", b"example.org", b"secret");
    bed.act(|s, now, out| s.handle_credential(now, park, Ok(Reply::Secret(ha1)), out))
}

#[test]
fn users_reach_gateways_by_the_tables_alone() {
    let mut bed = Bed::new(with_gateways());
    for (uri, route) in [
        ("sip:+1900555@203.0.113.50", ""),
        ("sip:+1900555@203.0.113.50:5060;transport=tcp", ""),
        ("sip:+1900555@203.0.113.50:5061;transport=tls", ""),
        ("sip:+1900555@[::ffff:203.0.113.50]", ""),
        ("sip:+1900555@203.0.113.7;maddr=203.0.113.50", ""),
        (
            "sip:+1900555@203.0.113.7",
            "Route: <sip:203.0.113.50;lr>\r\n",
        ),
        ("sip:+1900555@203.0.113.7", "Route: <sip:203.0.113.50>\r\n"),
        ("sip:1900555@gw.example.net", ""),
        ("sip:1900555@GW.example.net.:5060", ""),
    ] {
        refused(by_alice(&mut bed, uri, route), 403, uri);
    }
    assert_eq!(
        kinds(&by_alice(&mut bed, "sip:x@innocent.example", "")),
        ["100"]
    );
    refused(resolved(&mut bed, &[GATEWAY]), 403, "another name of it");
    // By the tables, and another host of its network by its address.
    let sent = by_alice(&mut bed, "sip:+4930@example.org", "");
    assert_eq!(sent[1].to.remote.to_string(), GATEWAY);
    let sent = by_alice(&mut bed, "sip:x@203.0.113.51", "");
    assert_eq!(sent[1].to.remote.to_string(), "203.0.113.51:5060");
    // What DNS has once said of a gateway's name is the gateway's.
    by_alice(&mut bed, "sip:0190@example.org", "");
    resolved(&mut bed, &["203.0.113.51:5060"]);
    for learned in ["sip:x@203.0.113.51", "sip:x@203.0.113.51:5061"] {
        refused(by_alice(&mut bed, learned, ""), 403, "learned");
    }
    bed.act(|shard, _, _| shard.reload(std::sync::Arc::new(with_gateways())));
    refused(
        by_alice(&mut bed, "sip:x@203.0.113.51", ""),
        403,
        "reloaded",
    );
}

#[test]
fn a_forged_source_makes_no_user_the_gateway() {
    let mut bed = Bed::new(with_gateways());
    let forged = flow(Transport::Udp, GATEWAY);
    let sent = by_alice_at(&mut bed, &forged, "sip:+1900555@203.0.113.50", "");
    // He gets another nonce, where he is not.
    refused(sent, 407, "a user's word, from wherever it seems to come");
}

#[test]
fn a_users_contact_is_no_gateway() {
    let mut settings = with_gateways();
    settings.registrar.durable = false;
    settings.trusted = vec![TrustedPeer::at([203, 0, 113, 50].into(), 32)];
    let mut bed = Bed::new(settings);
    let contact = format!("sip:+1900555@{GATEWAY}");
    // As it may stand in a store from before.
    bed.register("sip:bob@example.org", &contact, None);
    let sent = by_alice(&mut bed, "sip:bob@example.org", "");
    refused(sent, 403, "a contact that is a gateway");
    // The gateway may call itself.
    let gateway = flow(Transport::Udp, GATEWAY);
    let invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
    let sent = bed.receive(&gateway, &invite.text());
    assert_eq!(sent[1].to.remote.to_string(), GATEWAY);
}

#[test]
fn a_route_to_this_server_does_not_step_round_the_tables() {
    // RFC 3261 16.4: "If the first value in the Route header field indicates this proxy,
    // the proxy MUST remove that value from the request." Phones with an outbound proxy begin
    // every request with it; it makes no dialog.
    for transport in TRANSPORTS {
        for route in [
            "",
            "Route: <sip:192.0.2.1;lr>\r\n",
            "Route: <sip:example.org;lr>\r\n",
        ] {
            let mut bed = Bed::new(forwarding(transport, "203.0.113.200:5060"));
            let invite = request("INVITE", "sip:carol@example.com", transport).with(route);
            let sent = bed.receive(&alice(transport), &invite.text());
            assert_eq!(sent.len(), 2, "{route}");
            assert_eq!(
                sent[1].to.remote.to_string(),
                "203.0.113.200:5060",
                "{route}"
            );
            assert!(sent[1].header(HeaderName::Route).is_none());
        }
    }
    let mut settings = with_gateways();
    settings.routes.domains = [("example.com".into(), 0)].into();
    let mut bed = Bed::new(settings);
    let sent = by_alice(
        &mut bed,
        "sip:carol@example.com",
        "Route: <sip:192.0.2.1;lr>\r\n",
    );
    assert_eq!(sent[1].to.remote.to_string(), GATEWAY);
}

/// Alice calls mallory, who answers with a Contact and a Record-Route of his
/// choice from where he is; what comes of alice's re-INVITE there.
fn shown_by(bed: &mut Bed, from: &str, contact: &str, record: &str) -> Vec<Sent> {
    shown_to(bed, from, contact, record, &alice(Transport::Udp))
}

/// The same, where her re-INVITE comes from there.
fn shown_to(bed: &mut Bed, from: &str, contact: &str, record: &str, source: &Flow) -> Vec<Sent> {
    let sent = by_alice(bed, "sip:mallory@203.0.113.66", "");
    let copy = &sent[1];
    let ours = copy.header(HeaderName::RecordRoute).unwrap();
    let text = response(copy, 200, "m", &format!("Contact: <{contact}>\r\n"));
    let above = format!("{record}Record-Route: {ours}");
    let text = text.replacen(&format!("Record-Route: {ours}"), &above, 1);
    let ok = only(bed.receive(&flow(Transport::Udp, from), &text));
    let mut again = request("INVITE", contact, source.transport);
    again.from = "<sip:alice@example.org>;tag=a".into();
    again.to = ok.header(HeaderName::To).unwrap();
    again.call_id = String::from_utf8_lossy(ok.message.call_id()).into_owned();
    again.cseq = 9;
    let mut routes = ok.all(HeaderName::RecordRoute);
    routes.reverse();
    for route in routes {
        again = again.with(&format!("Route: {route}\r\n"));
    }
    bed.receive(source, &again.text())
}

#[test]
fn nobody_shows_a_place_within_a_dialog_that_he_is_not_at() {
    const MALLORY: &str = "203.0.113.66:5060";
    let mut settings = with_gateways();
    // A gateway beside this server.
    let beside = next_hop(Transport::Udp, "127.0.0.1:5070");
    settings.routes.groups[0].gateways.push(Gateway {
        next_hop: beside,
        priority: 1,
        weight: 1,
    });
    let mut bed = Bed::new(settings);
    for (contact, record) in [
        ("sip:+1900555@203.0.113.50", ""),
        ("sip:+1900555@[::ffff:203.0.113.50]:5061;transport=tls", ""),
        ("sip:+1900555@203.0.113.66;maddr=203.0.113.50", ""),
        ("sip:+1900555@gw.example.net", ""),
        (
            "sip:+1900555@203.0.113.66",
            "Record-Route: <sip:203.0.113.50;lr>\r\n",
        ),
        (
            "sip:+1900555@203.0.113.66",
            "Record-Route: <sip:gw.example.net;lr>\r\n",
        ),
        ("sip:x@127.0.0.1:22", ""),
        ("sip:x@127.0.0.1:5070", ""),
    ] {
        let what = format!("{contact} {record}");
        refused(shown_by(&mut bed, MALLORY, contact, record), 407, &what);
    }
    let sent = shown_by(&mut bed, MALLORY, "sip:m@203.0.113.67", "");
    assert_eq!(sent[1].to.remote.to_string(), "203.0.113.67:5060");
    for addr in [GATEWAY, "127.0.0.1:22", "127.0.0.1:5070"] {
        shown_by(&mut bed, MALLORY, "sip:+1900555@innocent.example", "");
        refused(resolved(&mut bed, &[addr]), 403, addr);
    }
}

#[test]
fn a_gateway_shows_itself_within_a_dialog() {
    for contact in [
        "sip:+1900555@203.0.113.50:5060",
        "sip:+1900555@gw.example.net",
    ] {
        let mut bed = Bed::new(with_gateways());
        let sent = by_alice(&mut bed, "sip:+1900555@example.org", "");
        let copy = &sent[1];
        let text = response(copy, 200, "g", &format!("Contact: <{contact}>\r\n"));
        let gateway = flow(Transport::Udp, GATEWAY);
        // The second is what a gateway repeats that got no ACK.
        bed.receive(&gateway, &text);
        let ok = only(bed.receive(&gateway, &text));
        let mut bye = request("BYE", contact, Transport::Udp);
        bye.from = "<sip:alice@example.org>;tag=a".into();
        bye.to = ok.header(HeaderName::To).unwrap();
        bye.call_id = String::from_utf8_lossy(ok.message.call_id()).into_owned();
        let route = ok.header(HeaderName::RecordRoute).unwrap();
        let bye = bye.with(&format!("Route: {route}\r\n"));
        let mut sent = bed.receive(&alice(Transport::Udp), &bye.text());
        if contact.contains("gw.") {
            sent = resolved(&mut bed, &[GATEWAY]);
        }
        assert_eq!(only(sent).to.remote.to_string(), GATEWAY);
    }
}

#[test]
fn what_a_gateway_stands_before_is_reached_by_it_alone() {
    // What answers runs beside the gateway's proxy.
    const BEHIND: &str = "sip:+1900555@127.0.0.1:5080";
    for (record, is_reached) in [
        ("sip:203.0.113.50;lr", true),
        ("sip:gw.example.net;lr", true),
        // A strict router, and a place that is no gateway's.
        ("sip:203.0.113.50", false),
        ("sip:203.0.113.66;lr", false),
    ] {
        let mut bed = Bed::new(with_gateways());
        let sent = by_alice(&mut bed, "sip:+1900555@example.org", "");
        let ours = sent[1].header(HeaderName::RecordRoute).unwrap();
        let text = response(&sent[1], 200, "g", &format!("Contact: <{BEHIND}>\r\n"));
        let both = format!("Record-Route: <{record}>\r\nRecord-Route: {ours}");
        let text = text.replacen(&format!("Record-Route: {ours}"), &both, 1);
        let ok = only(bed.receive(&flow(Transport::Udp, GATEWAY), &text));
        let mut routes = ok.all(HeaderName::RecordRoute);
        routes.reverse();
        let mut within = |method: &str, cseq: u32, routes: &[String]| {
            let mut within = request(method, BEHIND, Transport::Udp);
            within.from = "<sip:alice@example.org>;tag=a".into();
            within.to = ok.header(HeaderName::To).unwrap();
            within.call_id = String::from_utf8_lossy(ok.message.call_id()).into_owned();
            within.cseq = cseq;
            for route in routes {
                within = within.with(&format!("Route: {route}\r\n"));
            }
            let sent = bed.receive(&alice(Transport::Udp), &within.text());
            match sent.is_empty() {
                true => resolved(&mut bed, &[GATEWAY]),
                false => sent,
            }
        };
        let (_, ours) = routes.split_last().unwrap();
        refused(within("INVITE", 8, ours), 407, record);
        let sent = within("BYE", 9, &routes);
        if is_reached {
            let bye = only(sent);
            assert_eq!(bye.to.remote.to_string(), GATEWAY, "{record}: {}", bye.text);
            assert_eq!((&*bye.method(), bye.uri()), ("BYE", BEHIND), "{record}");
        } else {
            assert!(sent.iter().all(|sent| sent.status() >= 400), "{record}");
        }
    }
}

#[test]
fn who_is_called_by_anothers_name_reaches_the_caller_alone_by_it() {
    const SHOWN: &str = "sip:x@203.0.113.99";
    let mut bed = Bed::new(with_gateways());
    // Alice names bob in To and calls mallory, who may then speak as bob within the dialog:
    // to her, wherever she says that she is. A phone that follows a 3xx does the same.
    let contact = format!("Contact: <{SHOWN}>\r\n");
    let sent = by_alice(&mut bed, "sip:mallory@203.0.113.66", &contact);
    let sent = only(bed.receive(&mallory(), &as_bob(&sent[1], SHOWN)));
    assert_eq!(sent.to.remote, alice(Transport::Udp).remote);
    // She calls bob, and a Route leads to mallory.
    let route = format!("Route: <sip:203.0.113.66;lr>\r\n{contact}");
    let sent = by_alice(&mut bed, "sip:bob@example.org", &route);
    let sent = only(bed.receive(&mallory(), &as_bob(&sent[1], SHOWN)));
    assert_eq!(sent.to.remote, alice(Transport::Udp).remote);
}

fn mallory() -> Flow {
    flow(Transport::Udp, "203.0.113.66:5060")
}

/// What whoever got that INVITE says as bob, whom it names in To, to the caller at `uri`.
fn as_bob(invite: &Sent, uri: &str) -> String {
    let mut message = request("MESSAGE", uri, Transport::Udp);
    message.from = "<sip:bob@example.org>;tag=m".into();
    message.to = invite.header(HeaderName::From).unwrap();
    message.call_id = String::from_utf8_lossy(invite.message.call_id()).into_owned();
    for route in invite.all(HeaderName::RecordRoute) {
        message = message.with(&format!("Route: {route}\r\n"));
    }
    message.text()
}

#[test]
fn a_peers_call_by_anothers_name_is_answered_at_a_peers_place_or_where_it_came_from() {
    const PEER: &str = "198.51.100.5:5060";
    let settings = Settings {
        trusted: vec![TrustedPeer::at([198, 51, 100, 0].into(), 24)],
        ..secured()
    };
    // Where the peer says that its caller is, what it has put on the route, and where
    // what is said to that caller goes. A trunk that shows itself, or another peer,
    // is reached there; a phone of ours is not, by whatever the request looks like.
    for (shown, more, leads_to) in [
        ("sip:x@198.51.100.5:5062", "", "198.51.100.5:5062"),
        ("sip:x@198.51.100.9", "", "198.51.100.9:5060"),
        ("sip:x@203.0.113.99", "", PEER),
        ("sip:x@phone.example.net", "", PEER),
        (
            "sip:x@203.0.113.99",
            "Record-Route: <sip:203.0.113.98;lr>\r\n",
            PEER,
        ),
        (
            "sip:x@203.0.113.99",
            "Record-Route: <sip:198.51.100.5:5063;lr>\r\n",
            "198.51.100.5:5063",
        ),
        ("sip:x@203.0.113.99", "Route: <sip:192.0.2.1;lr>\r\n", PEER),
    ] {
        let mut bed = Bed::new(settings.clone());
        let mut invite = request("INVITE", "sip:mallory@203.0.113.66", Transport::Udp)
            .with(&format!("Contact: <{shown}>\r\n{more}"));
        invite.via = invite.via.replace("198.51.100.1", "198.51.100.5");
        invite.from = "<sip:carol@peer.example>;tag=c".into();
        invite.to = match more.contains("\r\nRoute:") {
            true => "<sip:bob@example.org>;tag=none".into(),
            false => "<sip:bob@example.org>".into(),
        };
        let sent = bed.receive(&flow(Transport::Udp, PEER), &invite.text());
        let copy = sent.iter().find(|sent| sent.status() == 0).unwrap();
        let sent = only(bed.receive(&mallory(), &as_bob(copy, shown)));
        assert_eq!(sent.status(), 0, "{shown} {more}\n{}", sent.text);
        assert_eq!(sent.to.remote.to_string(), leads_to, "{shown} {more}");
    }
}

#[test]
fn anothers_name_leads_nowhere_where_the_caller_has_no_second_route() {
    // Over UDP, but for `sips`: the route is one URI, which cannot lead back to her.
    let mut bed = Bed::new(with_gateways());
    let contact = "Contact: <sip:x@203.0.113.99>\r\n";
    let sent = by_alice(&mut bed, "sips:mallory@203.0.113.66", contact);
    let copy = sent.iter().find(|sent| sent.status() == 0).unwrap();
    let routes = copy.all(HeaderName::RecordRoute);
    assert!(
        routes.len() == 1 && routes[0].starts_with("<sips:"),
        "{}",
        copy.text
    );
    let mallory = flow(Transport::Tls, "203.0.113.66:5061");
    let sent = only(bed.receive(&mallory, &as_bob(copy, "sip:x@203.0.113.99")));
    assert_eq!(sent.status(), 407, "{}", sent.text);
}

#[test]
fn a_forged_source_opens_nothing_to_a_name_within_a_dialog() {
    const MALLORY: &str = "203.0.113.66:5060";
    let mut settings = with_gateways();
    settings
        .proxy
        .relay_denied
        .push("10.0.0.0/8".parse().unwrap());
    let name = "sip:+1900555@innocent.example";
    for (forged, addr) in [
        (GATEWAY, GATEWAY),
        ("127.0.0.1:40000", "127.0.0.1:22"),
        ("10.1.1.1:5060", "10.9.9.9:80"),
    ] {
        let mut bed = Bed::new(settings.clone());
        let source = flow(Transport::Udp, forged);
        shown_to(&mut bed, MALLORY, name, "", &source);
        refused(resolved(&mut bed, &[addr]), 403, forged);
        // A connection is one's own.
        let source = flow(Transport::Tcp, forged);
        shown_to(&mut bed, MALLORY, name, "", &source);
        let sent = resolved(&mut bed, &[addr]);
        match addr {
            GATEWAY => refused(sent, 403, "no gateway's word"),
            _ => assert_eq!(only(sent).to.remote.to_string(), addr),
        }
    }
}
