//! The stamps of `received` and `rport`.

use super::*;

#[test]
fn received_is_stamped() {
    // RFC 3261 18.2.1: "If the host portion of the "sent-by" parameter contains a domain name, or if it
    // contains an IP address that differs from the packet source address, the server MUST add a
    // "received" parameter to that Via header field value."
    let source: SocketAddr = "192.0.2.7:5066".parse().expect("an address");
    let stamped = |via: &str| {
        let text = INVITE.replacen(
            "SIP/2.0/UDP bigbox3.site3.atlanta.com;branch=z9hG4bK77ef4c2312983.1",
            via,
            1,
        );
        let mut message = parse(&text);
        message.stamp_received(source);
        // The index moved with the bytes: it is the one that a fresh parse makes.
        let again = Message::parse(message.bytes(), &Limits::default()).expect("well formed");
        let lines = |m: &Message| {
            m.fields()
                .map(|f| (f.value_span, f.line_span, f.raw_name.len()))
                .collect::<Vec<_>>()
        };
        assert_eq!(lines(&message), lines(&again));
        assert_eq!(message.body(), again.body());
        let field = message.first(HeaderName::Via).expect("there");
        String::from_utf8_lossy(field.value).into_owned()
    };
    for (via, expected) in [
        (
            "SIP/2.0/UDP h;branch=z9hG4bK1",
            // RFC 3261 18.2.1: "When the server transport receives a request over any transport, it
            // MUST examine the value of the "sent-by" parameter in the top Via header field value." and
            // "This parameter MUST contain the source address from which the packet was received."
            "SIP/2.0/UDP h;branch=z9hG4bK1;received=192.0.2.7",
        ),
        (
            "SIP/2.0/UDP h, SIP/2.0/UDP i",
            "SIP/2.0/UDP h;received=192.0.2.7, SIP/2.0/UDP i",
        ),
        (
            "SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK1",
            "SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK1",
        ),
        (
            "SIP/2.0/UDP 192.0.2.8",
            "SIP/2.0/UDP 192.0.2.8;received=192.0.2.7",
        ),
        (
            "SIP/2.0/UDP h;rport;branch=a",
            "SIP/2.0/UDP h;rport=5066;branch=a;received=192.0.2.7",
        ),
        (
            "SIP/2.0/UDP 192.0.2.7;rport",
            "SIP/2.0/UDP 192.0.2.7;rport=5066;received=192.0.2.7",
        ),
        (
            "SIP/2.0/UDP h;rport=1;received=1.2.3.4",
            "SIP/2.0/UDP h;rport=5066;received=192.0.2.7",
        ),
        (
            "SIP/2.0/UDP h;received=10.20.30.40;rport;x=y",
            "SIP/2.0/UDP h;received=192.0.2.7;rport=5066;x=y",
        ),
        (
            "SIP/2.0/UDP 192.0.2.7;received=10.2.3.4",
            "SIP/2.0/UDP 192.0.2.7;received=192.0.2.7",
        ),
    ] {
        assert_eq!(stamped(via), expected);
    }
    for (via, source) in [
        ("SIP/2.0/UDP 192.0.2.7", "[::ffff:192.0.2.7]:1"),
        ("SIP/2.0/TCP [2001:DB8:0::9]", "[2001:db8::9]:1"),
    ] {
        let mut message = parse(&INVITE.replacen("SIP/2.0/UDP bigbox3.site3.atlanta.com", via, 1));
        let before = message.bytes().to_vec();
        message.stamp_received(source.parse().expect("an address"));
        assert_eq!(message.bytes(), before, "{via}");
    }
    let mut message = parse(INVITE);
    message.stamp_received("[::ffff:192.0.2.7]:1".parse().expect("an address"));
    assert_eq!(
        message.top_via().expect("there").received,
        Some(&b"192.0.2.7"[..])
    );
    message.stamp_received("[2001:db8::1]:1".parse().expect("an address"));
    assert_eq!(
        message.top_via().expect("there").received,
        Some(&b"2001:db8::1"[..])
    );
    assert_eq!(
        message.top_via().expect("there").transport,
        Some(Transport::Udp)
    );
}

#[test]
fn a_source_is_stamped_with_its_port_whether_that_was_asked_for_or_not() {
    for (via, expected) in [
        (
            "SIP/2.0/UDP 10.0.0.9;branch=z9hG4bK1",
            "SIP/2.0/UDP 10.0.0.9;branch=z9hG4bK1;rport=5066;received=192.0.2.7",
        ),
        (
            "SIP/2.0/UDP 192.0.2.7",
            "SIP/2.0/UDP 192.0.2.7;rport=5066;received=192.0.2.7",
        ),
        (
            "SIP/2.0/UDP h;rport;x=y",
            "SIP/2.0/UDP h;rport=5066;x=y;received=192.0.2.7",
        ),
    ] {
        let text = INVITE.replacen(
            "SIP/2.0/UDP bigbox3.site3.atlanta.com;branch=z9hG4bK77ef4c2312983.1",
            via,
            1,
        );
        let mut message = parse(&text);
        message.stamp_source("192.0.2.7:5066".parse().expect("an address"));
        let again = Message::parse(message.bytes(), &Limits::default()).expect("well formed");
        for message in [&message, &again] {
            let field = message.first(HeaderName::Via).expect("there");
            assert_eq!(field.value, expected.as_bytes());
            let via = message.top_via().expect("there");
            assert_eq!(via.rport, Some(Some(5066)));
        }
    }
}
