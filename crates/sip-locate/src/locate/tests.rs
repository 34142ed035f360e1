use std::net::IpAddr;

use Transport::{Tcp, Tls, Udp, Ws, Wss};

use super::*;

/// A server with these listeners, all on IPv4.
fn with(transports: &[Transport]) -> Reach {
    let here = IpAddr::from([192, 0, 2, 1]);
    transports.iter().map(|t| (*t, here)).collect()
}

fn located(uri: &str, secure: bool, reach: Reach) -> Located {
    locate_uri(&Uri::parse(uri.as_bytes()).unwrap(), secure, reach)
}

/// `transport address name`, where it is an address.
fn hop(uri: &str, secure: bool, reach: Reach) -> Result<String, Refusal> {
    match located(uri, secure, reach) {
        Located::Hop { hop, .. } => {
            let name = hop.tls_name.map(|name| format!(" {name}"));
            let transport = hop.transport.uri_name();
            Ok(format!(
                "{transport} {}{}",
                hop.addr,
                name.unwrap_or_default()
            ))
        }
        Located::Nowhere(refusal) => Err(refusal),
        Located::Ask(query) => panic!("{uri} asks for {query:?}"),
    }
}

#[test]
fn an_address_needs_no_question() {
    for (uri, secure, leads_to) in [
        ("sip:a@192.0.2.9", false, "udp 192.0.2.9:5060"),
        ("sip:a@192.0.2.9:7;transport=tcp", false, "tcp 192.0.2.9:7"),
        (
            "sip:a@[2001:db8::9];transport=TLS",
            false,
            "tls [2001:db8::9]:5061 2001:db8::9",
        ),
        ("sips:a@192.0.2.9", false, "tls 192.0.2.9:5061 192.0.2.9"),
        (
            "sips:a@192.0.2.9:7;transport=tcp",
            false,
            "tls 192.0.2.9:7 192.0.2.9",
        ),
        (
            "sip:a@example.org;maddr=192.0.2.9",
            false,
            "udp 192.0.2.9:5060",
        ),
        // RFC 3261 16.6: "Independently of which URI is being used as input to the
        // procedures of [4], if the Request-URI specifies a SIPS resource, the proxy MUST
        // follow the procedures of [4] as if the input URI were a SIPS URI."
        (
            "sip:192.0.2.9;transport=tcp;lr",
            true,
            "tls 192.0.2.9:5061 192.0.2.9",
        ),
    ] {
        let found = hop(uri, secure, Reach::EVERYWHERE);
        assert_eq!(found.as_deref(), Ok(leads_to), "{uri}");
    }
}

#[test]
fn an_address_without_a_transport_takes_udp_and_else_tcp() {
    // RFC 3263 4.1: "Otherwise, if no transport protocol is specified, but the TARGET is a
    // numeric IP address, the client SHOULD use UDP for a SIP URI, and TCP for a SIPS URI."
    let to = "sip:a@203.0.113.9:5070";
    let by_default = |reach| match located(to, false, reach) {
        Located::Hop { hop, by_default } => (hop.transport, by_default),
        other => panic!("{other:?}"),
    };
    assert_eq!(by_default(with(&[Tls, Tcp, Udp])), (Udp, true));
    assert_eq!(by_default(with(&[Tls, Tcp])), (Tcp, true));
    // Nobody asked for TLS, and TLS is not what listens at that port.
    assert_eq!(hop(to, false, with(&[Tls])), Err(Refusal::NoListener));
    let secure = to.replace("sip:", "sips:");
    assert_eq!(
        hop(&secure, false, with(&[Udp, Tcp])),
        Err(Refusal::NoListener)
    );
    // What is named is nobody's default, and is not replaced.
    let named = format!("{to};transport=udp");
    let Located::Hop { by_default, .. } = located(&named, false, with(&[Udp, Tcp])) else {
        panic!("{named} is an address");
    };
    assert!(!by_default);
    assert_eq!(hop(&named, false, with(&[Tcp])), Err(Refusal::NoListener));
}

#[test]
fn each_family_has_its_own_listeners() {
    let here = |ip: &str| ip.parse().unwrap();
    let reach: Reach = [(Udp, here("192.0.2.1")), (Tcp, here("2001:db8::1"))]
        .into_iter()
        .collect();
    let v6 = "sip:[2001:db8::9]";
    assert_eq!(hop(v6, false, reach).unwrap(), "tcp [2001:db8::9]:5060");
    assert_eq!(
        hop("sip:192.0.2.9", false, reach).unwrap(),
        "udp 192.0.2.9:5060"
    );
    assert_eq!(hop(v6, false, with(&[Udp])), Err(Refusal::NoListener));
    assert!(reach.has(Udp, here("198.51.100.1")));
    assert!(!reach.has(Udp, here("2001:db8::9")));
}

#[test]
fn a_name_is_asked_for() {
    let asked = |uri, secure| match located(uri, secure, Reach::EVERYWHERE) {
        Located::Ask(query) => query,
        other => panic!("{uri}: {other:?}"),
    };
    let query = asked("sip:a@example.org:5080;transport=tcp", true);
    let expected = Query {
        host: "example.org".into(),
        port: Some(5080),
        transport: Some(Tls),
        secure: true,
        is_configured: false,
    };
    assert_eq!(query, expected);
    // RFC 3263 4.1 has a SIPS URI ask for NAPTR as well: the transport is the domain's
    // to say.
    let query = asked("sips:a@example.org", false);
    assert_eq!((query.transport, query.secure), (None, true));
    let destination = Destination {
        host: b"gw.example",
        port: None,
        transport: Some(Udp),
        secure: false,
        is_configured: true,
    };
    let Located::Ask(query) = locate(&destination, Reach::EVERYWHERE) else {
        panic!("a name");
    };
    assert!(query.is_configured);
}

#[test]
fn what_leads_nowhere_is_told_why() {
    let nowhere = |uri, reach| match located(uri, false, reach) {
        Located::Nowhere(refusal) => refusal,
        other => panic!("{uri}: {other:?}"),
    };
    for (uri, refusal) in [
        ("tel:+49123", Refusal::NoSipUri),
        (
            "sip:a@example.org;transport=sctp",
            Refusal::UnknownTransport,
        ),
        ("sip:a@192.0.2.9;transport=sctp", Refusal::UnknownTransport),
        ("sip:a@b.invalid;transport=ws", Refusal::OpenedByPeer),
        ("sips:a@192.0.2.9;transport=ws", Refusal::OpenedByPeer),
        // RFC 3261 19.1.1: "For a SIPS URI, the transport parameter MUST indicate a reliable
        // transport."
        ("sips:a@192.0.2.9;transport=udp", Refusal::NoTlsOverUdp),
        ("sips:a@example.org;transport=udp", Refusal::NoTlsOverUdp),
    ] {
        assert_eq!(nowhere(uri, Reach::EVERYWHERE), refusal, "{uri}");
        assert!(!refusal.to_string().is_empty());
    }
    let long = format!("sip:{}.example", "a".repeat(64));
    assert_eq!(nowhere(&long, Reach::EVERYWHERE), Refusal::NoHost);
    // A listener is missing that DNS could not make up for.
    for (uri, transports) in [
        ("sip:example.org;transport=tls", &[Udp, Tcp][..]),
        ("sips:example.org", &[Udp, Tcp]),
        ("sip:example.org:5070", &[Tls]),
        ("sip:example.org", &[Ws, Wss]),
        ("sip:example.org", &[]),
    ] {
        let reach = with(transports);
        assert_eq!(nowhere(uri, reach), Refusal::NoListener, "{uri}");
    }
}
