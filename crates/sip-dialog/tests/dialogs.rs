//! What a dialog is made of on either side, and what its requests bear (RFC
//! 3261 8.1.1, 12).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

mod common;

use common::{DELAY_MS, Wire, addr, target};
use sip_dialog::{AgentConfig, AgentKey, CallKey, Cause, Event};
use sip_msg::{HeaderName, Message, Method, Transport};

/// The INVITE that an agent sends on this wire, and its call.
fn calling(wire: &mut Wire, agent: AgentKey, to: &str) -> (CallKey, Message) {
    let call = wire
        .act(0, |agents, now_ms, out| {
            agents.invite(now_ms, agent, to, None, out)
        })
        .expect("there is room");
    (call, wire.expect(Method::Invite))
}

fn value(message: &Message, name: HeaderName) -> String {
    let field = message.first(name).expect("the header is there");
    String::from_utf8(field.value.to_vec()).unwrap()
}

fn tag_of(value: &str) -> &str {
    value.split(";tag=").nth(1).expect("there is a tag")
}

/// An INVITE from somebody at port 5099 to Bob at port 5061, with these
/// headers of its own.
fn invite(uri: &str, from: &str, more: &str) -> String {
    format!(
        "INVITE {uri} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1:5099;branch=z9hG4bKx\r\n\
         From: {from}\r\nTo: <sip:bob@example.org>\r\nCall-ID: x\r\nCSeq: 41 INVITE\r\n\
         Max-Forwards: 70\r\n{more}Content-Length: 0\r\n\r\n"
    )
}

fn ringing(wire: &mut Wire, invite: &str) -> CallKey {
    wire.add(1, "bob", 5060);
    wire.inject(1, 5099, invite);
    let [Event::Incoming { call, .. }] = wire.take_events(1)[..] else {
        panic!("no call came");
    };
    call
}

fn last_sent(wire: &Wire) -> Message {
    let (_, _, text) = wire.sent.last().expect("something was sent");
    Message::parse(text.as_bytes(), &sip_msg::Limits::default()).unwrap()
}

/// The ACK of that last 200.
fn acknowledge(wire: &mut Wire, answer: &Message, from: &str) {
    let to = value(answer, HeaderName::To);
    wire.inject(
        1,
        5099,
        &invite("sip:bob@192.0.2.1:5061", from, "")
            .replace("To: <sip:bob@example.org>", &format!("To: {to}"))
            .replace("INVITE", "ACK")
            .replace("z9hG4bKx", "z9hG4bKack"),
    );
}

#[test]
fn the_calling_side() {
    let mut wire = Wire::new(Transport::Udp, 1, |_| {});
    let alice = wire.add(0, "alice", 5061);
    let (call, first) = calling(&mut wire, alice, "sip:bob@example.org");
    assert_eq!(value(&first, HeaderName::To), "<sip:bob@example.org>");
    let from = value(&first, HeaderName::From);
    let routes = ["<sip:p1;lr>", "<sip:192.0.2.1:5061;lr;x=%41>"];
    let lines = [
        &format!("Record-Route: {}, {}", routes[0], routes[1]),
        "Contact: <sip:bob@192.0.2.1:5070;z>",
    ];
    wire.respond(0, 5061, &first, 180, "early", &lines);
    wire.respond(0, 5061, &first, 200, "bob", &lines);
    let ack = wire.expect(Method::Ack);
    wire.act(0, |agents, now_ms, out| agents.hang_up(now_ms, call, out));
    let bye = wire.expect(Method::Bye);
    for request in [&ack, &bye] {
        assert_eq!(request.request_uri(), b"sip:bob@192.0.2.1:5070;z");
        assert_eq!(
            value(request, HeaderName::Route),
            format!("{}, {}", routes[1], routes[0])
        );
        assert_eq!(value(request, HeaderName::From), from);
        assert_eq!(
            value(request, HeaderName::To),
            "<sip:bob@example.org>;tag=bob"
        );
        assert_eq!(request.call_id(), first.call_id());
    }
    let number = first.cseq().unwrap().number;
    assert_eq!(ack.cseq().unwrap().number, number);
    assert_eq!(bye.cseq().unwrap().number, number + 1);
    assert_eq!(bye.cseq().unwrap().method, b"BYE");
    // The peer's numbers begin where he likes.
    wire.inject(
        0,
        5061,
        &format!(
            "BYE sip:alice@192.0.2.1:5060 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1:5061;branch=z9hG4bKb\r\n\
             From: <sip:bob@example.org>;tag=bob\r\nTo: {from}\r\nCall-ID: {}\r\nCSeq: 0 BYE\r\n\
             Max-Forwards: 70\r\nContent-Length: 0\r\n\r\n",
            String::from_utf8_lossy(first.call_id())
        ),
    );
    assert_eq!(last_sent(&wire).status(), 200);
    wire.respond(0, 5061, &bye, 200, "bob", &[]);
    wire.assert_empty();
}

#[test]
fn two_calls_have_nothing_in_common() {
    let mut wire = Wire::new(Transport::Udp, 1, |_| {});
    let alice = wire.add(0, "alice", 5061);
    let (_, one) = calling(&mut wire, alice, "sip:bob@example.org");
    let (_, other) = calling(&mut wire, alice, "sip:bob@example.org");
    assert_ne!(one.call_id(), other.call_id());
    let froms = [&one, &other].map(|request| value(request, HeaderName::From));
    let [one_tag, other_tag] = [tag_of(&froms[0]), tag_of(&froms[1])];
    // 8 of its 24 digits say where the call is, 4 are a count: 48 bits are random.
    let random = |tag: &str| tag[8..20].to_owned();
    assert_ne!(random(one_tag), random(other_tag));
    assert_ne!(
        one.top_via().unwrap().branch,
        other.top_via().unwrap().branch
    );
    assert!(one.top_via().unwrap().branch.starts_with(b"z9hG4bK"));
    let contacts: Vec<_> = one.values(HeaderName::Contact).collect();
    assert_eq!(contacts.len(), 1);
    assert_eq!(contacts[0].0, b"<sip:alice@192.0.2.1:5060;transport=udp>");
}

#[test]
fn a_peer_without_a_tag_and_without_a_route() {
    let mut wire = Wire::new(Transport::Udp, 1, |_| {});
    let alice = wire.add(0, "alice", 5061);
    let (call, first) = calling(&mut wire, alice, "sip:bob@example.org");
    wire.respond(
        0,
        5061,
        &first,
        200,
        "",
        &["Contact: <sip:bob@192.0.2.1:5070>"],
    );
    wire.expect(Method::Ack);
    wire.act(0, |agents, now_ms, out| agents.hang_up(now_ms, call, out));
    let bye = wire.expect(Method::Bye);
    assert_eq!(value(&bye, HeaderName::To), "<sip:bob@example.org>");
    assert!(!bye.has(HeaderName::Route));
    wire.respond(0, 5061, &bye, 200, "", &[]);
    wire.assert_empty();
}

#[test]
fn the_called_side() {
    for from in ["<sip:c@d>;tag=1", "<sip:c@d>"] {
        let mut wire = Wire::new(Transport::Udp, 2, |_| {});
        let routes = "Record-Route: <sip:192.0.2.1:5099;lr;x=%41>, <sip:p2>\r\n";
        let contact = "Contact: <sip:c@192.0.2.1:5098;y>\r\n";
        let more = format!("{routes}Record-Route: <sip:p3;lr>;z=1\r\n{contact}");
        let call = ringing(&mut wire, &invite("sip:bob@192.0.2.1:5061", from, &more));
        wire.act(1, |agents, now_ms, out| agents.ring(now_ms, call, out));
        let early = last_sent(&wire);
        wire.act(1, |agents, now_ms, out| {
            agents.answer(now_ms, call, None, out)
        });
        let answer = last_sent(&wire);
        for response in [&early, &answer] {
            let values: Vec<_> = response.values(HeaderName::RecordRoute).collect();
            let texts: Vec<_> = values.iter().map(|(value, _)| *value).collect();
            assert_eq!(
                texts,
                [
                    &b"<sip:192.0.2.1:5099;lr;x=%41>"[..],
                    b"<sip:p2>",
                    b"<sip:p3;lr>;z=1"
                ]
            );
            assert_eq!(
                value(response, HeaderName::Contact),
                "<sip:bob@192.0.2.1:5061;transport=udp>"
            );
        }
        let to = value(&answer, HeaderName::To);
        assert_eq!(value(&early, HeaderName::To), to);
        acknowledge(&mut wire, &answer, from);
        assert_eq!(wire.take_events(1), [Event::Established { call }]);
        wire.run_for(DELAY_MS);
        wire.unclaimed.clear();
        wire.act(1, |agents, now_ms, out| agents.hang_up(now_ms, call, out));
        let bye = wire.expect(Method::Bye);
        assert_eq!(bye.request_uri(), b"sip:c@192.0.2.1:5098;y");
        assert_eq!(
            value(&bye, HeaderName::Route),
            "<sip:192.0.2.1:5099;lr;x=%41>, <sip:p2>, <sip:p3;lr>;z=1"
        );
        assert_eq!(value(&bye, HeaderName::From), to);
        assert_eq!(value(&bye, HeaderName::To), from);
        assert_eq!(bye.call_id(), b"x");
        let cseq = bye.cseq().unwrap();
        assert_eq!((cseq.number, cseq.method), (1, &b"BYE"[..]));
        wire.respond(1, 5099, &bye, 200, "", &[]);
        wire.assert_empty();
    }
}

#[test]
fn a_secure_call_has_secure_contacts() {
    let mut wire = Wire::new(Transport::Tls, 1, |_| {});
    let alice = wire.add(0, "alice", 5061);
    let (_, secure) = calling(&mut wire, alice, "sips:bob@example.org");
    let contact = value(&secure, HeaderName::Contact);
    assert_eq!(contact, "<sips:alice@192.0.2.1:5060;transport=tls>");
    let (_, plain) = calling(&mut wire, alice, "sip:bob@example.org");
    let contact = value(&plain, HeaderName::Contact);
    assert_eq!(contact, "<sip:alice@192.0.2.1:5060;transport=tls>");
    let tag = "<sip:c@d>;tag=1";
    let from = |uri: &str| format!("Contact: <{uri}:c@192.0.2.1:5098>\r\n");
    let via = "Record-Route: <sip:p;lr>\r\n";
    for (uri, more, is_secure) in [
        ("sips:bob@192.0.2.1:5061", from("sips"), true),
        ("sip:bob@192.0.2.1:5061", from("sips"), true),
        (
            "sip:bob@192.0.2.1:5061",
            format!("{via}{}", from("sips")),
            false,
        ),
        (
            "sip:bob@192.0.2.1:5061",
            format!("{}{}", via.replace("sip:", "sips:"), from("sip")),
            true,
        ),
        ("sip:bob@192.0.2.1:5061", from("sip"), false),
    ] {
        let mut wire = Wire::new(Transport::Tls, 2, |_| {});
        let call = ringing(&mut wire, &invite(uri, tag, &more));
        wire.act(1, |agents, now_ms, out| agents.ring(now_ms, call, out));
        let contact = value(&last_sent(&wire), HeaderName::Contact);
        assert_eq!(contact.starts_with("<sips:bob@"), is_secure, "{uri} {more}");
    }
}

#[test]
fn what_may_not_be_called() {
    let mut wire = Wire::new(Transport::Udp, 1, |_| {});
    let alice = wire.add(0, "alice", 5061);
    for to in [
        "sips:bob@example.org",
        "sip:bob@example.org;method=MESSAGE",
        "bob",
    ] {
        let call = wire.act(0, |agents, now_ms, out| {
            agents.invite(now_ms, alice, to, None, out)
        });
        assert_eq!(call, None, "{to}");
    }
    assert!(wire.sent.is_empty());
    let to = "sip:bob@example.org;user=phone;method=INVITE;x=1?Subject=y";
    let (_, request) = calling(&mut wire, alice, to);
    let clean = "sip:bob@example.org;user=phone;x=1";
    assert_eq!(request.request_uri(), clean.as_bytes());
    assert_eq!(value(&request, HeaderName::To), format!("<{clean}>"));
}

#[test]
fn which_agents_there_may_be() {
    let mut wire = Wire::new(Transport::Tls, 1, |_| {});
    let with = |contact: &str, registrar: &str, transport| AgentConfig {
        aor: "sip:alice@example.org".to_owned(),
        contact: contact.to_owned(),
        contact_params: String::new(),
        sent_by: "192.0.2.1".to_owned(),
        registrar: registrar.to_owned(),
        credentials: None,
        proxy: target(transport, addr(5061)),
    };
    let tls = Transport::Tls;
    let agents = &mut wire.ends[0].agents;
    for (contact, registrar, transport, is_good) in [
        ("sip:a@192.0.2.1", "sip:example.org", tls, true),
        ("sips:a@192.0.2.1", "sips:example.org", tls, true),
        ("sip:a@192.0.2.1", "sip:x@example.org", tls, false),
        ("sip:a@192.0.2.1", "sips:example.org", tls, false),
        (
            "sips:a@192.0.2.1",
            "sips:example.org",
            Transport::Tcp,
            false,
        ),
        ("tel:+1", "sip:example.org", tls, false),
    ] {
        let added = agents.add_agent(&with(contact, registrar, transport));
        assert_eq!(added.is_some(), is_good, "{contact} {registrar}");
    }
}

#[test]
fn statuses_that_nobody_knows() {
    let mut wire = Wire::new(Transport::Udp, 1, |_| {});
    let alice = wire.add(0, "alice", 5061);
    let (call, first) = calling(&mut wire, alice, "sip:bob@example.org");
    for status in [100, 183, 199] {
        wire.respond(0, 5061, &first, status, "x", &[]);
    }
    let provisional = |status| Event::Provisional { call, status };
    assert_eq!(wire.take_events(0), [provisional(183), provisional(199)]);
    for status in [399, 499, 599, 699] {
        let (call, invite) = calling(&mut wire, alice, "sip:bob@example.org");
        wire.respond(0, 5061, &invite, status, "x", &[]);
        wire.expect(Method::Ack);
        let cause = Cause::Status(status);
        assert_eq!(wire.take_events(0), [Event::Failed { call, cause }]);
    }
    // A 2xx that nobody knows is an answer like any other.
    wire.respond(
        0,
        5061,
        &first,
        299,
        "x",
        &["Contact: <sip:b@192.0.2.1:5061>"],
    );
    wire.expect(Method::Ack);
    assert_eq!(wire.take_events(0), [Event::Answered { call }]);
}
