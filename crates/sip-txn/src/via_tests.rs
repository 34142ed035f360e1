use super::*;
use sip_msg::{Limits, ListenerId, Message};

fn flow(transport: Transport, remote: &str) -> Flow {
    Flow {
        transport,
        listener: ListenerId(3),
        local: "192.0.2.200:5060".parse().unwrap(),
        remote: remote.parse().unwrap(),
        conn: ConnId(if transport.is_reliable() { 77 } else { 0 }),
    }
}

fn request(via: &str) -> Message {
    let text = format!(
        "OPTIONS sip:a@example.com SIP/2.0\r\nVia: {via}\r\nVia: SIP/2.0/UDP other;branch=z9hG4bKo\r\n\
         From: <sip:b@example.com>;tag=1\r\nTo: <sip:a@example.com>\r\nCall-ID: c\r\nCSeq: 1 OPTIONS\r\n\
         Max-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
    );
    Message::parse(text.as_bytes(), &Limits::default()).unwrap()
}

fn target(via: &str, flow: &Flow, honour_maddr: bool) -> Target {
    response_target(flow, &request(via).top_via().unwrap(), honour_maddr)
}

#[test]
fn responses_over_streams_take_their_connection() {
    // RFC 3261 18.2.2: "the response MUST be sent using the existing connection to the source of the original
    // request that created the transaction, if that connection is still open."
    // RFC 3261 18.2.2: "If that connection is no longer open, the server SHOULD open a connection to the IP
    // address in the "received" parameter, if present, using the port in the "sent-by" value, or the
    // default port for that transport, if no port is specified."
    for (transport, may_open, port) in [
        (Transport::Tcp, true, 5060),
        (Transport::Tls, false, 5061),
        (Transport::Wss, false, 443),
    ] {
        let flow = flow(transport, "192.0.2.4:40000");
        let back = target("SIP/2.0/TCP phone.example.com;branch=z9hG4bKa", &flow, true);
        assert_eq!(
            (back.transport, back.conn, back.listener),
            (transport, ConnId(77), ListenerId(3))
        );
        assert_eq!(
            (back.may_open, back.remote),
            (may_open, SocketAddr::new([192, 0, 2, 4].into(), port))
        );
        let back = target(
            "SIP/2.0/TCP phone.example.com:5070;branch=z9hG4bKa;maddr=203.0.113.7",
            &flow,
            true,
        );
        assert_eq!(back.remote, "192.0.2.4:5070".parse().unwrap());
    }
}

#[test]
fn responses_over_udp_go_to_the_source_address() {
    let flow = flow(Transport::Udp, "192.0.2.4:40000");
    // RFC 3261 18.2.2: "Otherwise (for unreliable unicast transports), if the top Via has a "received"
    // parameter, the response MUST be sent to the address in the "received" parameter, using the port
    // indicated in the "sent-by" value, or using port 5060 if none is specified explicitly."
    for (via, remote) in [
        (
            "SIP/2.0/UDP 10.1.1.1:5070;branch=z9hG4bKa",
            "192.0.2.4:5070",
        ),
        ("SIP/2.0/UDP 10.1.1.1;branch=z9hG4bKa", "192.0.2.4:5060"),
        // RFC 3261 18.2.2: "Otherwise, if it is not receiver-tagged, the response MUST be sent to the
        // address indicated by the "sent-by" value, using the procedures in Section 5 of [4]."
        (
            "SIP/2.0/UDP 192.0.2.4:5070;branch=z9hG4bKa",
            "192.0.2.4:5070",
        ),
        (
            "SIP/2.0/UDP 10.1.1.1:5070;branch=z9hG4bKa;received=203.0.113.7",
            "192.0.2.4:5070",
        ),
        (
            "SIP/2.0/UDP 10.1.1.1:5070;branch=z9hG4bKa;rport",
            "192.0.2.4:40000",
        ),
        (
            "SIP/2.0/UDP 10.1.1.1:5070;branch=z9hG4bKa;maddr=203.0.113.7",
            "192.0.2.4:5070",
        ),
    ] {
        // RFC 3261 18.2.2: "It MUST follow the following process:"
        let back = target(via, &flow, false);
        assert_eq!(back.remote, remote.parse().unwrap(), "{via}");
        assert_eq!((back.conn, back.may_open), (ConnId::NONE, false));
    }
}

#[test]
fn maddr_is_honoured_where_that_is_configured() {
    let flow = flow(Transport::Udp, "192.0.2.4:40000");
    // RFC 3261 18.2.2: "Otherwise, if the Via header field value contains a "maddr" parameter, the response
    // MUST be forwarded to the address listed there, using the port indicated in "sent-by", or port 5060 if
    // none is present."
    for (via, remote) in [
        (
            "SIP/2.0/UDP h:5070;branch=z9hG4bKa;maddr=239.0.0.1;rport",
            "239.0.0.1:5070",
        ),
        (
            "SIP/2.0/UDP h;branch=z9hG4bKa;maddr=[2001:db8::1]",
            "[2001:db8::1]:5060",
        ),
        (
            "SIP/2.0/UDP h;branch=z9hG4bKa;maddr=not.an.address",
            "192.0.2.4:5060",
        ),
    ] {
        assert_eq!(
            target(via, &flow, true).remote,
            remote.parse().unwrap(),
            "{via}"
        );
    }
}
