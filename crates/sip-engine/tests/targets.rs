//! Determining the targets of a request (RFC 3261 16.5): users, tables,
//! gateways, and who is not there.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use sip_auth::Reply;
use sip_engine::Effect;
use sip_engine::routes::{Gateway, GatewayGroup, Routes};
use sip_engine::settings::{AuthSettings, Mode, Settings, TrustedPeer};
use sip_msg::{HeaderName, Transport};

fn uris(sent: &[Sent]) -> Vec<&str> {
    let mut uris: Vec<_> = sent
        .iter()
        .filter(|s| s.status() == 0)
        .map(Sent::uri)
        .collect();
    uris.sort_unstable();
    uris
}

#[test]
fn a_user_is_found_however_he_is_written() {
    // RFC 3261 16.5: "When accessing the location service constructed by a registrar, the
    // Request-URI MUST first be canonicalized as described in Section 10.3 before being
    // used as an index."
    for transport in TRANSPORTS {
        for uri in [
            "sip:bob@example.org",
            "sip:b%6Fb@EXAMPLE.ORG:5060;user=ip",
            "sip:bob:secret@example.org.",
            "sip:bob@192.0.2.1",
        ] {
            let mut bed = Bed::new(settings());
            bed.register("sip:bob@example.org", "sip:bob@203.0.113.9", None);
            let sent = only(bed.receive(
                &alice(transport),
                &request("OPTIONS", uri, transport).text(),
            ));
            assert_eq!(sent.uri(), "sip:bob@203.0.113.9", "{uri}");
        }
    }
}

#[test]
fn a_contact_is_called_once() {
    let mut bed = Bed::new(settings());
    for contact in [
        "sip:bob@203.0.113.9:5060",
        "sip:bob@203.0.113.9:5060;lang=en",
        "sip:%62ob@203.0.113.9:5060",
        "sip:bob@203.0.113.8:5060",
    ] {
        bed.register("sip:bob@example.org", contact, None);
    }
    let invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
    let sent = bed.receive(&alice(Transport::Udp), &invite.text());
    // RFC 3261 16.5: "If a target URI is already present in the set (based on the definition
    // of equality for the URI type), it MUST NOT be added again." and "As above, any given
    // URI MUST NOT be added to the set more than once."
    assert_eq!(sent.len(), 3, "{:?}", kinds(&sent));
    assert!(uris(&sent).contains(&"sip:bob@203.0.113.8:5060"));
}

#[test]
fn a_foreign_request_has_one_target_its_own() {
    // RFC 3261 16.5: "If the domain of the Request-URI indicates a domain this element is not
    // responsible for, the Request-URI MUST be placed into the target set as the only
    // target, and the element MUST proceed to the task of Request Forwarding (Section
    // 16.6)." and "A proxy MUST NOT add additional targets to the target set if the
    // Request-URI of the original request does not indicate a resource this proxy is
    // responsible for."
    for transport in TRANSPORTS {
        let mut bed = Bed::new(settings());
        bed.register("sip:bob@example.org", "sip:bob@203.0.113.9", None);
        let options = request("OPTIONS", "sip:bob@203.0.113.7:5062", transport);
        let sent = only(bed.receive(&alice(transport), &options.text()));
        assert_eq!(sent.uri(), "sip:bob@203.0.113.7:5062");
        assert_eq!(sent.to.remote.to_string(), "203.0.113.7:5062");
        // Not even a redirection makes another.
        let moved = "Contact: <sip:bob@203.0.113.6>\r\n";
        let moved = only(bed.receive(&answering(&sent), &response(&sent, 302, "x", moved)));
        assert_eq!(moved.status(), 302);
        assert_eq!(moved.all(HeaderName::Contact), ["<sip:bob@203.0.113.6>"]);
    }
}

#[test]
fn who_is_not_there() {
    // RFC 3261 16.5: "If the Request-URI indicates a resource at this proxy that does not
    // exist, the proxy MUST return a 404 (Not Found) response." and "If the target set
    // remains empty after applying all of the above, the proxy MUST return an error
    // response, which SHOULD be the 480 (Temporarily Unavailable) response."
    for transport in TRANSPORTS {
        for (answer, status) in [(Ok(Reply::Unknown), 404), (Err(NO_ANSWER), 480)] {
            let mut settings = settings();
            settings.authenticate = Some(AuthSettings::default());
            settings.trusted = vec![TrustedPeer::at(alice(transport).remote.ip(), 32)];
            let mut bed = Bed::new(settings);
            let invite = request("INVITE", "sip:b%6Fb@example.org", transport);
            assert!(bed.receive(&alice(transport), &invite.text()).is_empty());
            let Some(Effect::FindCredential { park, question, .. }) = bed.effects.pop() else {
                panic!("nobody was asked for");
            };
            let subject = &question.subject;
            assert_eq!(
                (subject.user(), &**subject.realm()),
                (&b"bob"[..], "example.org")
            );
            let answer = bed.act(|s, now, out| s.handle_credential(now, park, answer, out));
            assert_eq!(only(answer).status(), status);
        }
        // Without authentication there is no list of users.
        let mut bed = Bed::new(settings());
        let invite = request("INVITE", "sip:bob@example.org", transport);
        let answer = only(bed.receive(&alice(transport), &invite.text()));
        assert_eq!(answer.status(), 404);
        let invite = request("INVITE", "sip:example.org", transport);
        let answer = only(bed.receive(&alice(transport), &invite.text()));
        assert_eq!(answer.status(), 404);
    }
}

#[test]
fn the_store_that_says_nothing() {
    let mut settings = settings();
    settings.authenticate = Some(AuthSettings::default());
    settings.trusted = vec![TrustedPeer::at(alice(Transport::Udp).remote.ip(), 32)];
    let mut bed = Bed::new(settings);
    let invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
    assert!(
        bed.receive(&alice(Transport::Udp), &invite.text())
            .is_empty()
    );
    let answers = bed.wait(4_100);
    assert_eq!(kinds(&answers)[..2], ["100", "480"]);
    assert_eq!(bed.shard.counters().lookups_expired, 1);
}

fn gateways() -> Settings {
    let gateway = |addr, priority| Gateway {
        next_hop: next_hop(Transport::Udp, addr),
        priority,
        weight: 1,
    };
    let group = |name: &str, gateways, strip, prepend: &str| GatewayGroup {
        name: name.into(),
        gateways,
        strip,
        prepend: prepend.into(),
        ..GatewayGroup::default()
    };
    let mut settings = settings();
    settings.routes = Routes {
        groups: vec![
            group(
                "abroad",
                vec![
                    gateway("203.0.113.21:5060", 2),
                    gateway("203.0.113.20:5060", 1),
                ],
                0,
                "",
            ),
            group("berlin", vec![gateway("203.0.113.30:5080", 1)], 3, "0"),
            group("partner", vec![gateway("203.0.113.40:5060", 1)], 0, ""),
        ],
        domains: [("partner.example".into(), 2)].into_iter().collect(),
        prefixes: [("+".into(), 0), ("+4930".into(), 1)].into_iter().collect(),
        ..Routes::default()
    };
    settings
}

#[test]
fn numbers_go_to_the_gateways_of_their_longest_prefix() {
    for transport in TRANSPORTS {
        for (uri, to, rewritten) in [
            (
                "sip:+33123@example.org",
                "203.0.113.20:5060",
                "sip:+33123@203.0.113.20:5060",
            ),
            (
                "tel:+33-12-3",
                "203.0.113.20:5060",
                "sip:+33123@203.0.113.20:5060",
            ),
            (
                "sip:+49301234@example.org",
                "203.0.113.30:5080",
                "sip:0301234@203.0.113.30:5080",
            ),
            (
                "sip:x@Partner.Example",
                "203.0.113.40:5060",
                "sip:x@Partner.Example",
            ),
        ] {
            let mut bed = Bed::new(gateways());
            let sent = only(bed.receive(
                &alice(transport),
                &request("OPTIONS", uri, transport).text(),
            ));
            assert_eq!(sent.to.remote.to_string(), to, "{uri}");
            assert_eq!(sent.uri(), rewritten);
        }
        let mut bed = Bed::new(gateways());
        let unknown = request("OPTIONS", "sip:0800@example.org", transport);
        assert_eq!(
            only(bed.receive(&alice(transport), &unknown.text())).status(),
            404
        );
        let mut next = Bed::new(forwarding(Transport::Udp, "203.0.113.50:5060"));
        let tel = request("OPTIONS", "tel:+49-1", transport);
        let sent = only(next.receive(&alice(transport), &tel.text()));
        assert_eq!(sent.to.remote.to_string(), "203.0.113.50:5060");
        // A user comes before a table.
        bed.register("sip:+33123@example.org", "sip:bob@203.0.113.9", None);
        let user = request("OPTIONS", "sip:+33123@example.org", transport);
        let sent = only(bed.receive(&alice(transport), &user.text()));
        assert_eq!(sent.uri(), "sip:bob@203.0.113.9");
    }
}

#[test]
fn the_next_gateway_is_tried_when_one_fails_and_not_when_it_refuses() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(gateways());
        let invite = request("INVITE", "sip:+33123@example.org", transport);
        let first = bed.receive(&alice(transport), &invite.text()).remove(1);
        assert_eq!(first.to.remote.to_string(), "203.0.113.20:5060");
        let sent = bed.receive(&answering(&first), &response(&first, 503, "g", ""));
        assert_eq!(kinds(&sent), ["ACK", "INVITE"]);
        assert_eq!(sent[1].to.remote.to_string(), "203.0.113.21:5060");
        assert_eq!(sent[1].uri(), "sip:+33123@203.0.113.21:5060");
        let sent = bed.receive(&answering(&sent[1]), &response(&sent[1], 486, "g", ""));
        assert_eq!(kinds(&sent), ["ACK", "486"]);
        // The one that failed is passed over for a time.
        let again = request("INVITE", "sip:+33124@example.org", transport);
        let again = bed.receive(&alice(transport), &again.text()).remove(1);
        assert_eq!(again.to.remote.to_string(), "203.0.113.21:5060");
        bed.wait(31_000);
        let later = request("OPTIONS", "sip:+33125@example.org", transport);
        let later = only(bed.receive(&alice(transport), &later.text()));
        assert_eq!(later.to.remote.to_string(), "203.0.113.20:5060");
    }
}

#[test]
fn a_named_gateway_that_failed_is_asked_for_last() {
    let mut settings = gateways();
    let named = |name: &str, priority| Gateway {
        next_hop: sip_engine::routes::NextHop {
            host: name.into(),
            port: None,
            transport: None,
            connections: sip_engine::routes::Connections::default(),
        },
        priority,
        weight: 1,
    };
    settings.routes.groups[0].gateways = vec![named("one.example", 1), named("two.example", 2)];
    let mut bed = Bed::new(settings);
    // What the resolver is asked for, and its answer.
    let resolve = |bed: &mut Bed| -> (String, Vec<Sent>) {
        let Some(Effect::Resolve { park, query }) = bed.effects.pop() else {
            panic!("nothing was asked");
        };
        let last = if &*query.host == "one.example" { 1 } else { 2 };
        let hop = sip_locate::Hop {
            transport: Transport::Udp,
            addr: std::net::SocketAddr::from(([203, 0, 113, last], 5060)),
            tls_name: None,
        };
        let sent = bed.act(|s, now, out| s.handle_resolved(now, park, Ok(vec![hop]), out));
        (query.host.to_string(), sent)
    };
    let invite = request("INVITE", "sip:+33123@example.org", Transport::Udp);
    bed.receive(&alice(Transport::Udp), &invite.text());
    let (host, sent) = resolve(&mut bed);
    assert_eq!(host, "one.example");
    let first = only(sent);
    bed.act(|s, now, out| s.handle_send_failed(now, first.cookie, out));
    let (host, sent) = resolve(&mut bed);
    assert_eq!((host.as_str(), sent.len()), ("two.example", 1));
    // The next call asks for the first, finds it dead, and goes to the second.
    let invite = request("INVITE", "sip:+33124@example.org", Transport::Udp);
    bed.receive(&alice(Transport::Udp), &invite.text());
    let (host, sent) = resolve(&mut bed);
    assert_eq!((host.as_str(), sent.len()), ("one.example", 0));
    let (host, sent) = resolve(&mut bed);
    assert_eq!(host, "two.example");
    let second = only(sent);
    assert_eq!(second.uri(), "sip:+33124@two.example");
    // If that fails too, the dead one is tried after all.
    bed.act(|s, now, out| s.handle_send_failed(now, second.cookie, out));
    let (host, sent) = resolve(&mut bed);
    assert_eq!((host.as_str(), sent.len()), ("one.example", 1));
}

#[test]
fn a_gateway_to_which_a_request_cannot_go_is_passed_over() {
    for mode in [Mode::Stateful, Mode::Stateless] {
        let mut settings = Settings { mode, ..gateways() };
        let abroad = &mut settings.routes.groups[0].gateways;
        abroad[0].next_hop.transport = Some(Transport::Tcp);
        let mut bed = Bed::new(settings);
        let mut leads = |uri| {
            let options = request("OPTIONS", uri, Transport::Tls);
            let sent = only(bed.receive(&alice(Transport::Tls), &options.text()));
            (sent.to.transport, sent.to.remote.to_string())
        };
        // The first gateway is reached by UDP alone.
        let first = (Transport::Udp, "203.0.113.20:5060".to_owned());
        assert_eq!(leads("sip:+33123@example.org"), first);
        let second = (Transport::Tls, "203.0.113.21:5060".to_owned());
        assert_eq!(leads("sips:+33123@example.org"), second);
        // That was no failure of the first.
        assert_eq!(leads("sip:+33124@example.org"), first);
    }
}

#[test]
fn gateways_have_calls_by_the_lots_of_rfc_2782() {
    const GATEWAYS: [&str; 3] = [
        "203.0.113.60:5060",
        "203.0.113.61:5060",
        "203.0.113.62:5060",
    ];
    for mode in [Mode::Stateful, Mode::Stateless] {
        let mut settings = Settings { mode, ..gateways() };
        let weighted = |(addr, weight): (&str, u16)| Gateway {
            next_hop: next_hop(Transport::Udp, addr),
            priority: 1,
            weight,
        };
        let weights = GATEWAYS.into_iter().zip([9, 2, 0]);
        settings.routes.groups[0].gateways = weights.map(weighted).collect();
        let mut bed = Bed::new(settings);
        let mut calls = [0_u32; 3];
        for n in 0..1_200 {
            let mut options = request("OPTIONS", "sip:+33123@example.org", Transport::Udp);
            options.call_id = format!("lot-{n}");
            let sent = only(bed.receive(&alice(Transport::Udp), &options.text()));
            assert_eq!(sent.status(), 0);
            let chosen = sent.to.remote.to_string();
            calls[GATEWAYS.iter().position(|addr| *addr == chosen).unwrap()] += 1;
        }
        // RFC 2782: "In the presence of records containing weights greater than 0, records
        // with weight 0 should have a very small chance of being selected." There are
        // twelve lots here, nine, two and one.
        let expected = [850..950, 150..250, 50..150];
        for (calls, expected) in calls.iter().zip(expected) {
            assert!(expected.contains(calls), "{mode:?} {calls:?}");
        }
    }
}
