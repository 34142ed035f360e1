use super::*;
use sip_msg::{Limits, ListenerId};

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

/// The topmost Via as the three ways of changing it leave it.
fn fixed(via: &str, flow: &Flow) -> String {
    let request = request(via);
    let top = request.top_via().unwrap();
    let fix = ViaFix::new(flow, &top);

    let mut written = Vec::new();
    fix.write(&request, &top, &mut written);
    let written = String::from_utf8(written).unwrap();

    let mut edits = Edits::default();
    fix.edit(&top, &mut edits);
    let mut forwarded = Vec::new();
    edits.apply(&request, &mut forwarded);
    let forwarded = String::from_utf8(forwarded).unwrap();
    assert_eq!(forwarded.lines().nth(1), Some(&*format!("Via: {written}")));
    assert_eq!(
        forwarded.lines().nth(2),
        Some("Via: SIP/2.0/UDP other;branch=z9hG4bKo")
    );

    let mut response = b"earlier message, Via: ".to_vec();
    response.extend_from_slice(via.as_bytes());
    let start = response.len();
    sip_msg::ResponseWriter::begin(&mut response, &request, 200, "OK", b"t").finish(b"");
    let earlier = response[..start].to_vec();
    fix.patch(&request, &top, &mut response, start);
    assert_eq!(response[..start], earlier);
    let response = String::from_utf8(response.split_off(start)).unwrap();
    assert_eq!(response.lines().nth(1), Some(&*format!("Via: {written}")));
    assert!(
        response.ends_with("Content-Length: 0\r\n\r\n"),
        "{response}"
    );
    written
}

#[test]
fn received_is_added_where_the_sender_is_another_than_it_says() {
    let udp = flow(Transport::Udp, "192.0.2.4:40000");
    // RFC 3261 18.2.1: "If the host portion of the "sent-by" parameter contains a domain name, or if it
    // contains an IP address that differs from the packet source address, the server MUST add a
    // "received" parameter to that Via header field value. This parameter MUST contain the source address
    // from which the packet was received."
    assert_eq!(
        fixed("SIP/2.0/UDP bobspc.biloxi.com:5060", &udp),
        "SIP/2.0/UDP bobspc.biloxi.com:5060;received=192.0.2.4"
    );
    assert_eq!(
        fixed("SIP/2.0/UDP 10.1.1.1:5060;branch=z9hG4bKa", &udp),
        "SIP/2.0/UDP 10.1.1.1:5060;branch=z9hG4bKa;received=192.0.2.4"
    );
    let same = "SIP/2.0/UDP 192.0.2.4:5060;branch=z9hG4bKa";
    assert_eq!(fixed(same, &udp), same);
    let tcp = flow(Transport::Tcp, "[2001:db8::9]:40000");
    assert_eq!(
        fixed("SIP/2.0/TCP [2001:db8::1]:5060;branch=z9hG4bKa", &tcp),
        "SIP/2.0/TCP [2001:db8::1]:5060;branch=z9hG4bKa;received=2001:db8::9"
    );
    assert_eq!(
        fixed("SIP/2.0/TCP [2001:DB8:0::9];branch=z9hG4bKa", &tcp),
        "SIP/2.0/TCP [2001:DB8:0::9];branch=z9hG4bKa"
    );
    let mapped = flow(Transport::Udp, "[::ffff:192.0.2.4]:40000");
    assert_eq!(fixed(same, &mapped), same);
}

#[test]
fn rport_is_filled_in_where_it_is_asked_for() {
    let udp = flow(Transport::Udp, "192.0.2.4:40000");
    // RFC 3581 4: "If this Via header field value contains an "rport" parameter with no value, it MUST set
    // the value of the parameter to the source port of the request."
    assert_eq!(
        fixed("SIP/2.0/UDP 192.0.2.4:5060;rport;branch=z9hG4bKa", &udp),
        "SIP/2.0/UDP 192.0.2.4:5060;rport=40000;branch=z9hG4bKa;received=192.0.2.4"
    );
}

#[test]
fn what_the_sender_claims_of_itself_is_replaced() {
    let udp = flow(Transport::Udp, "192.0.2.4:40000");
    assert_eq!(
        fixed(
            "SIP/2.0/UDP h;received=203.0.113.7;rport=1;branch=z9hG4bKa",
            &udp
        ),
        "SIP/2.0/UDP h;received=192.0.2.4;rport=40000;branch=z9hG4bKa"
    );
    assert_eq!(
        fixed(
            "SIP/2.0/UDP h;rport=1;branch=z9hG4bKa;received=203.0.113.7;x",
            &udp
        ),
        "SIP/2.0/UDP h;rport=40000;branch=z9hG4bKa;received=192.0.2.4;x"
    );
    assert_eq!(
        fixed(
            "SIP/2.0/UDP 192.0.2.4;received=203.0.113.7;branch=z9hG4bKa",
            &udp
        ),
        "SIP/2.0/UDP 192.0.2.4;received=192.0.2.4;branch=z9hG4bKa"
    );
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
