//! Phones on WebSockets (RFC 7118): the way to them, and the routes of their calls.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use sip_engine::settings::{Listener, Settings};
use sip_msg::{ConnId, Flow, HeaderName, ListenerId, Transport};

const WS: &str = "192.0.2.1:8080";
const WSS: &str = "192.0.2.1:8443";

/// The usual listeners, and one for each kind of WebSocket.
fn with_websockets() -> Settings {
    let mut settings = settings();
    for (transport, bound) in [(Transport::Ws, WS), (Transport::Wss, WSS)] {
        let bound: std::net::SocketAddr = bound.parse().unwrap();
        settings.listeners.push(Listener {
            transport,
            bound,
            advertised_host: None,
            advertised_port: bound.port(),
            certificates_authenticate: false,
        });
    }
    settings
}

fn browser(transport: Transport) -> Flow {
    let (listener, local) = match transport {
        Transport::Ws => (4, WS),
        _ => (5, WSS),
    };
    Flow {
        transport,
        listener: ListenerId(listener),
        local: local.parse().unwrap(),
        remote: "198.51.100.7:50000".parse().unwrap(),
        conn: ConnId(4711),
    }
}

#[test]
fn a_browser_is_called_along_its_connection_whatever_its_contact_is() {
    for (transport, local) in [(Transport::Ws, WS), (Transport::Wss, WSS)] {
        for contact in [
            "sip:bob@df7jal23ls0d.invalid;transport=ws",
            // Libraries make such an address up, for servers that know no better.
            "sip:bob@203.0.113.9;transport=ws",
            "sip:bob@203.0.113.9:1234;transport=wss",
            "sips:bob@df7jal23ls0d.invalid;transport=ws",
            "sip:bob@df7jal23ls0d.invalid",
        ] {
            if contact.starts_with("sips:") && !transport.is_secure() {
                // It is not registered, nor called, in the clear: see `registering.rs`.
                continue;
            }
            let mut bed = Bed::new(with_websockets());
            bed.register("sip:bob@example.org", contact, Some(browser(transport)));
            let invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
            let sent = bed
                .receive(&alice(Transport::Udp), &invite.text())
                .remove(1);
            assert_eq!(sent.uri(), contact);
            assert_eq!(
                (sent.to.transport, sent.to.conn, sent.to.may_open),
                (transport, ConnId(4711), false),
                "{contact}"
            );
            let via = sent.header(HeaderName::Via).unwrap();
            let name = transport.via_name();
            assert!(
                via.starts_with(&format!("SIP/2.0/{name} {local};")),
                "{via}"
            );
        }
    }
}

#[test]
fn a_contact_elsewhere_is_not_the_connections() {
    // Somebody registers a phone of his that is at a public address of its own.
    let mut bed = Bed::new(with_websockets());
    let flow = browser(Transport::Ws);
    bed.register(
        "sip:bob@example.org",
        "sip:bob@203.0.113.9;transport=udp",
        Some(flow),
    );
    let invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
    let sent = bed
        .receive(&alice(Transport::Udp), &invite.text())
        .remove(1);
    assert_eq!(sent.to.transport, Transport::Udp);
    assert_eq!(sent.to.remote, "203.0.113.9:5060".parse().unwrap());
}

#[test]
fn nobody_opens_a_websocket_to_a_browser() {
    for uri in [
        "sip:bob@203.0.113.9:8080;transport=ws",
        "sips:bob@203.0.113.9;transport=ws",
        "sip:bob@df7jal23ls0d.invalid;transport=ws",
    ] {
        let mut bed = Bed::new(with_websockets());
        let options = request("OPTIONS", uri, Transport::Udp);
        let sent = only(bed.receive(&alice(Transport::Udp), &options.text()));
        assert_eq!(sent.status(), 502, "{uri}");
        assert!(bed.effects.is_empty(), "no name is asked for");
    }
}

#[test]
fn each_side_gets_its_own_route_and_ws_stands_for_both_kinds() {
    let host_of = |route: &str| route.split_once('@').unwrap().1.to_owned();
    for (transport, local) in [(Transport::Ws, WS), (Transport::Wss, WSS)] {
        // From a browser to a datagram phone. RFC 3261 16.6: "a proxy that receives a
        // request over TLS, but generates a request without a SIPS URI in the
        // Request-URI or topmost Route header field value (after the post processing
        // of bullet 6), MUST insert a Record-Route header field that is not a SIPS URI."
        for record_route in [true, false] {
            let mut settings = with_websockets();
            settings.proxy.record_route = record_route;
            let mut bed = Bed::new(settings);
            bed.register("sip:bob@example.org", "sip:bob@203.0.113.9", None);
            let mut invite = request("INVITE", "sip:bob@example.org", transport);
            invite.via = format!(
                "SIP/2.0/{} df7jal23ls0d.invalid;branch=z9hG4bK56sdasks",
                transport.via_name()
            );
            let sent = bed.receive(&browser(transport), &invite.text()).remove(1);
            let routes = sent.all(HeaderName::RecordRoute);
            if !record_route && transport == Transport::Ws {
                assert!(routes.is_empty());
                continue;
            }
            assert_eq!(routes.len(), 2);
            assert!(routes.iter().all(|route| route.starts_with("<sip:")));
            assert!(routes[0].ends_with("192.0.2.1:5060;lr>"), "{routes:?}");
            assert_eq!(host_of(&routes[1]), format!("{local};transport=ws;lr>"));
            // RFC 3261 18.2.1: the made-up host is corrected by `received`.
            assert!(sent.all(HeaderName::Via)[1].ends_with(";received=198.51.100.7"));
        }

        // To a browser.
        let mut bed = Bed::new(with_websockets());
        let contact = "sip:bob@df7jal23ls0d.invalid;transport=ws";
        bed.register("sip:bob@example.org", contact, Some(browser(transport)));
        let invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
        let sent = bed
            .receive(&alice(Transport::Udp), &invite.text())
            .remove(1);
        let routes = sent.all(HeaderName::RecordRoute);
        assert_eq!(host_of(&routes[0]), format!("{local};transport=ws;lr>"));
        assert!(routes[1].ends_with("192.0.2.1:5060;lr>"), "{routes:?}");

        // The ACK comes by those of the answer, to the connection.
        let line = format!("Contact: <{contact}>\r\n");
        let ok = response(&sent, 200, "b", &line);
        let ok = only(bed.receive(&browser(transport), &ok));
        let routes = ok.all(HeaderName::RecordRoute);
        let mut ack = request("ACK", contact, Transport::Udp);
        ack.to = "<sip:bob@example.org>;tag=b".into();
        for route in routes.iter().rev() {
            ack = ack.with(&format!("Route: {route}\r\n"));
        }
        let sent = only(bed.receive(&alice(Transport::Udp), &ack.text()));
        assert_eq!((sent.to.transport, sent.to.conn), (transport, ConnId(4711)));
        assert!(sent.all(HeaderName::Route).is_empty());
    }
}

#[test]
fn a_call_by_sips_reaches_browsers_under_tls_alone() {
    // RFC 3261 26.2.2: a SIPS URI "specifies that the resource be contacted securely."
    let contact = "sips:bob@df7jal23ls0d.invalid;transport=ws";
    for (transport, is_reached) in [(Transport::Ws, false), (Transport::Wss, true)] {
        let mut bed = Bed::new(with_websockets());
        let plain = contact.replace("sips:", "sip:");
        let contact = if is_reached { contact } else { plain.as_str() };
        bed.register("sip:bob@example.org", contact, Some(browser(transport)));
        let invite = request("INVITE", "sips:bob@example.org", Transport::Tls);
        let sent = bed.receive(&alice(Transport::Tls), &invite.text());
        let forwarded = sent.iter().find(|sent| sent.status() == 0);
        assert_eq!(forwarded.is_some(), is_reached);
        if let Some(sent) = forwarded {
            let routes = sent.all(HeaderName::RecordRoute);
            let (_, host) = routes[0].split_once('@').unwrap();
            assert!(routes[0].starts_with("<sips:"), "{routes:?}");
            assert_eq!(host, format!("{WSS};transport=ws;lr>"));
        }
    }
}
