//! What a dialog is made of on either side, and what its requests bear (RFC
//! 3261 8.1.1, 12).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use crate::common::{DELAY_MS, Wire, addr, target};
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
    // RFC 3261 8.1.1.2: "A request outside of a dialog MUST NOT contain a To tag; the tag in the To
    // field of a request identifies the peer of the dialog."
    assert_eq!(value(&first, HeaderName::To), "<sip:bob@example.org>");
    let from = value(&first, HeaderName::From);
    let routes = ["<sip:p1;lr>", "<sip:192.0.2.1:5061;lr;x=%41>"];
    let lines = [
        &format!("Record-Route: {}, {}", routes[0], routes[1]),
        "Contact: <sip:bob@192.0.2.1:5070;method=BYE;z>",
    ];
    let early = ["Record-Route: <sip:p9;lr>", "Contact: <sip:bob@192.0.2.9>"];
    wire.respond(0, 5061, &first, 180, "bob", &early);
    wire.respond(0, 5061, &first, 200, "bob", &lines);
    // RFC 3261 13.2.2.4: "If the dialog identifier in the 2xx response matches the dialog identifier of
    // an existing dialog, the dialog MUST be transitioned to the "confirmed" state, and the route set
    // for the dialog MUST be recomputed based on the 2xx response using the procedures of Section
    // 12.2.1.2."
    let ack = wire.expect(Method::Ack);
    wire.act(0, |agents, now_ms, out| agents.hang_up(now_ms, call, out));
    // RFC 3261 12.1.2: "This state MUST be maintained for the duration of the dialog."
    let bye = wire.expect(Method::Bye);
    for request in [&ack, &bye] {
        // RFC 3261 12.1.2: "The remote target MUST be set to the URI from the Contact header field of
        // the response."
        assert_eq!(request.request_uri(), b"sip:bob@192.0.2.1:5070;z");
        assert_eq!(
            value(request, HeaderName::Route),
            format!("{}, {}", routes[1], routes[0])
        );
        // RFC 3261 12.1.2: "The local tag component of the dialog ID MUST be set to the tag in the From
        // field in the request, and the remote tag component of the dialog ID MUST be set to the tag in
        // the To field of the response." and "The remote URI MUST be set to the URI in the To field,
        // and the local URI MUST be set to the URI in the From field."
        // RFC 3261 12.2.1.1: "The URI in the To field of the request MUST be set to the remote URI from
        // the dialog state." and "The tag in the To header field of the request MUST be set to the
        // remote tag of the dialog ID." and "The From URI of the request MUST be set to the local URI
        // from the dialog state." and "The tag in the From header field of the request MUST be set to
        // the local tag of the dialog ID."
        // RFC 3261 20.20: "Even if the "display-name" is empty, the "name-addr" form MUST be used if
        // the "addr-spec" contains a comma, question mark, or semicolon."
        assert_eq!(value(request, HeaderName::From), from);
        assert_eq!(
            value(request, HeaderName::To),
            "<sip:bob@example.org>;tag=bob"
        );
        // RFC 3261 8.1.1.4: "It MUST be the same for all requests and responses sent by either UA in a
        // dialog."
        // RFC 3261 12.1.2: "The call identifier component of the dialog ID MUST be set to the value of
        // the Call-ID in the request."
        // RFC 3261 12.2.1.1: "The Call-ID of the request MUST be set to the Call-ID of the dialog."
        assert_eq!(request.call_id(), first.call_id());
    }
    let number = first.cseq().unwrap().number;
    assert_eq!(ack.cseq().unwrap().number, number);
    // RFC 3261 12.1.2: "The local sequence number MUST be set to the value of the sequence number in
    // the CSeq header field of the request."
    // RFC 3261 12.2.1.1: "Requests within a dialog MUST contain strictly monotonically increasing and
    // contiguous CSeq sequence numbers (increasing-by-one) in each direction (excepting ACK and CANCEL
    // of course, whose numbers equal the requests being acknowledged or cancelled)." and "Therefore, if
    // the local sequence number is not empty, the value of the local sequence number MUST be
    // incremented by one, and this value MUST be placed into the CSeq header field."
    assert_eq!(bye.cseq().unwrap().number, number + 1);
    // RFC 3261 12.2.1.1: "The method field in the CSeq header field value MUST match the method of the
    // request."
    // RFC 3261 20: ""Not applicable" means that the header field MUST NOT be present in a request."
    assert_eq!(bye.cseq().unwrap().method, b"BYE");
    assert!(!bye.has(HeaderName::Contact) && !bye.has(HeaderName::Expires));
    let mut ask = |method: &str, number: u32| {
        wire.inject(
            0,
            5061,
            &format!(
                "{method} sip:alice@192.0.2.1:5060 SIP/2.0\r\n\
                 Via: SIP/2.0/UDP 192.0.2.1:5061;branch=z9hG4bK{method}{number}\r\n\
                 From: <sip:bob@example.org>;tag=bob\r\nTo: {from}\r\nCall-ID: {}\r\n\
                 CSeq: {number} {method}\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n",
                String::from_utf8_lossy(first.call_id())
            ),
        );
        last_sent(&wire).status()
    };
    // The peer's numbers begin where he likes.
    // RFC 3261 12.1.2: "The remote sequence number MUST be empty (it is established when the remote UA
    // sends a request within the dialog)."
    assert_eq!(ask("OPTIONS", 0), 200);
    // RFC 3261 12.2.2: "If the remote sequence number is empty, it MUST be set to the value of the
    // sequence number in the CSeq header field value in the request." and "The UAS MUST then set the
    // remote sequence number to the value of the sequence number in the CSeq header field value in the
    // request."
    assert_eq!(ask("OPTIONS", 7), 200);
    assert_eq!(ask("OPTIONS", 6), 500);
    // RFC 3261 15.1.2: "A UAS core receiving a BYE request for an existing dialog MUST follow the
    // procedures of Section 12.2.2 to process the request."
    assert_eq!(ask("BYE", 5), 500);
    // RFC 3261 15.1.2: "Whether or not it ends its participation on the session, the UAS core MUST
    // generate a 2xx response to the BYE, and MUST pass that to the server transaction for
    // transmission."
    assert_eq!(ask("BYE", 8), 200);
    wire.respond(0, 5061, &bye, 200, "bob", &[]);
    wire.assert_empty();
}

#[test]
fn two_calls_have_nothing_in_common() {
    let mut wire = Wire::new(Transport::Udp, 1, |_| {});
    let alice = wire.add(0, "alice", 5061);
    let (_, one) = calling(&mut wire, alice, "sip:bob@example.org");
    let (_, other) = calling(&mut wire, alice, "sip:bob@example.org");
    // RFC 3261 8.1.1.4: "In a new request created by a UAC outside of any dialog, the Call-ID header
    // field MUST be selected by the UAC as a globally unique identifier over space and time unless
    // overridden by method-specific behavior."
    assert_ne!(one.call_id(), other.call_id());
    let froms = [&one, &other].map(|request| value(request, HeaderName::From));
    let [one_tag, other_tag] = [tag_of(&froms[0]), tag_of(&froms[1])];
    // 8 of its 24 digits say where the call is, 4 are a count: 48 bits are random.
    // RFC 3261 19.3: "When a tag is generated by a UA for insertion into a request or response, it MUST
    // be globally unique and cryptographically random with at least 32 bits of randomness."
    let random = |tag: &str| tag[8..20].to_owned();
    // RFC 3261 8.1.1.3: "The From field MUST contain a new "tag" parameter, chosen by the UAC."
    assert_ne!(random(one_tag), random(other_tag));
    assert_ne!(
        // RFC 3261 8.1.1.7: "The branch parameter value MUST be unique across space and time for all
        // requests sent by the UA."
        one.top_via().unwrap().branch,
        other.top_via().unwrap().branch
    );
    // RFC 3261 8.1.1.7: "The branch ID inserted by an element compliant with this specification MUST
    // always begin with the characters "z9hG4bK"."
    // RFC 3261 20.42: "For implementations compliant to this specification, the value of the branch
    // parameter MUST start with the magic cookie "z9hG4bK", as discussed in Section 8.1.1.7."
    assert!(one.top_via().unwrap().branch.starts_with(b"z9hG4bK"));
    let contacts: Vec<_> = one.values(HeaderName::Contact).collect();
    // RFC 3261 8.1.1.8: "The Contact header field MUST be present and contain exactly one SIP or SIPS
    // URI in any request that can result in the establishment of a dialog."
    assert_eq!(contacts.len(), 1);
    // RFC 3261 8.1.1.8: "That is, the Contact header field value contains the URI at which the UA would
    // like to receive requests, and this URI MUST be valid even if used in subsequent requests outside
    // of any dialogs."
    // RFC 3261 12.1.2: "When a UAC sends a request that can establish a dialog (such as an INVITE) it
    // MUST provide a SIP or SIPS URI with global scope (i.e., the same SIP URI can be used in messages
    // outside this dialog) in the Contact header field of the request."
    // RFC 3261 20: "If the URI contains a comma, question mark or semicolon, the URI MUST be enclosed
    // in angle brackets (< and >)."
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
    // RFC 3261 12.1.2: "A UAC MUST be prepared to receive a response without a tag in the To field, in
    // which case the tag is considered to have a value of null."
    // RFC 3261 12.2.1.1: "If the value of the remote or local tags is null, the tag parameter MUST be
    // omitted from the To or From header fields, respectively."
    assert_eq!(value(&bye, HeaderName::To), "<sip:bob@example.org>");
    // RFC 3261 12.1.2: "If no Record-Route header field is present in the response, the route set MUST
    // be set to the empty set. This route set, even if empty, overrides any pre-existing route set for
    // future requests in this dialog."
    assert!(!bye.has(HeaderName::Route));
    wire.respond(0, 5061, &bye, 200, "", &[]);
    wire.assert_empty();
}

#[test]
fn the_called_side() {
    // RFC 3261 12.1: "UAs MUST assign values to the dialog ID components as described below."
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
            // RFC 3261 12.1.1: "When a UAS responds to a request with a response that establishes a
            // dialog (such as a 2xx to INVITE), the UAS MUST copy all Record-Route header field values
            // from the request into the response (including the URIs, URI parameters, and any
            // Record-Route header field parameters, whether they are known or unknown to the UAS) and
            // MUST maintain the order of those values."
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
                // RFC 3261 12.1.1: "The UAS MUST add a Contact header field to the response."
                value(response, HeaderName::Contact),
                "<sip:bob@192.0.2.1:5061;transport=udp>"
            );
        }
        // RFC 3261 13.2.1: "Once the UAS has sent or received an answer to the initial offer, it MUST
        // NOT generate subsequent offers in any responses to the initial INVITE." and "All user agents
        // that support INVITE MUST support these two exchanges."
        assert!(early.body().is_empty());
        // RFC 3261 13.3.1: "It MUST provide the offer in its first non-failure reliable message back to
        // the UAC."
        // RFC 3261 13.3.1.4: "If the INVITE did not contain an offer, the 2xx MUST contain an offer if
        // the UAS had not yet sent an offer."
        assert!(answer.body().starts_with(b"v=0"));
        let to = value(&answer, HeaderName::To);
        // RFC 3261 8.2.6.2: "The same tag MUST be used for all responses to that request, both final
        // and provisional (again excepting the 100 (Trying))."
        // "Each" is a provisional response. RFC 3261 13.3.1.1: "Each of these MUST indicate the same
        // dialog ID."
        assert_eq!(value(&early, HeaderName::To), to);
        acknowledge(&mut wire, &answer, from);
        assert_eq!(wire.take_events(1), [Event::Established { call }]);
        wire.run_for(DELAY_MS);
        wire.unclaimed.clear();
        wire.act(1, |agents, now_ms, out| agents.hang_up(now_ms, call, out));
        // RFC 3261 12.1.1: "This state MUST be maintained for the duration of the dialog."
        let bye = wire.expect(Method::Bye);
        // RFC 3261 12.1.1: "The remote target MUST be set to the URI from the Contact header field of
        // the request."
        assert_eq!(bye.request_uri(), b"sip:c@192.0.2.1:5098;y");
        assert_eq!(
            value(&bye, HeaderName::Route),
            "<sip:192.0.2.1:5099;lr;x=%41>, <sip:p2>, <sip:p3;lr>;z=1"
        );
        // RFC 3261 12.1.1: "The local tag component of the dialog ID MUST be set to the tag in the To
        // field in the response to the request (which always includes a tag), and the remote tag
        // component of the dialog ID MUST be set to the tag from the From field in the request." and
        // "The remote URI MUST be set to the URI in the From field, and the local URI MUST be set to
        // the URI in the To field."
        assert_eq!(value(&bye, HeaderName::From), to);
        // RFC 3261 12.1.1: "A UAS MUST be prepared to receive a request without a tag in the From
        // field, in which case the tag is considered to have a value of null."
        assert_eq!(value(&bye, HeaderName::To), from);
        // RFC 3261 12.1.1: "The call identifier component of the dialog ID MUST be set to the value of
        // the Call-ID in the request."
        assert_eq!(bye.call_id(), b"x");
        // RFC 3261 12.1.1: "The local sequence number MUST be empty."
        // RFC 3261 12.2.1.1: "If the local sequence number is empty, an initial value MUST be chosen
        // using the guidelines of Section 8.1.1.5."
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
    // RFC 3261 8.1.1.8: "If the Request-URI or top Route header field value contains a SIPS URI, the
    // Contact header field MUST contain a SIPS URI as well."
    // RFC 3261 12.1.2: "If the request has a Request-URI or a topmost Route header field value with a
    // SIPS URI, the Contact header field MUST contain a SIPS URI."
    let contact = value(&secure, HeaderName::Contact);
    assert_eq!(contact, "<sips:alice@192.0.2.1:5060;transport=tls>");
    let (_, plain) = calling(&mut wire, alice, "sip:bob@example.org");
    let contact = value(&plain, HeaderName::Contact);
    assert_eq!(contact, "<sip:alice@192.0.2.1:5060;transport=tls>");
    let tag = "<sip:c@d>;tag=1";
    let from = |uri: &str| format!("Contact: <{uri}:c@192.0.2.1:5098>\r\n");
    let via = "Record-Route: <sip:p;lr>\r\n";
    for (uri, more, is_secure) in [
        ("sips:bob@192.0.2.1:5061", from("sip"), true),
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
        // RFC 3261 12.1.1: "If the request that initiated the dialog contained a SIPS URI in the
        // Request-URI or in the top Record-Route header field value, if there was any, or the Contact
        // header field if there was no Record-Route header field, the Contact header field in the
        // response MUST be a SIPS URI."
        let contact = value(&last_sent(&wire), HeaderName::Contact);
        assert_eq!(contact.starts_with("<sips:bob@"), is_secure, "{uri} {more}");
    }
}

#[test]
fn what_may_not_be_called() {
    // RFC 3261 19.1.5: "If the URI contains a method parameter, its value MUST be used as the method of
    // the request." and "An implementation MUST NOT proceed with transmitting the request."
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
        // RFC 3261 8.1.2: "Independent of which URI is used as input to the procedures of [4], if the
        // Request-URI specifies a SIPS resource, the UAC MUST follow the procedures of [4] as if the
        // input URI were a SIPS URI."
        assert_eq!(call, None, "{to}");
    }
    // RFC 3261 20.15: "The Content-Type header field MUST be present if the body is not empty."
    let page = wire.act(0, |agents, now_ms, out| {
        // RFC 3261 7.4.1: "The Internet media type of the message body MUST be given by the
        // Content-Type header field."
        agents.message(now_ms, alice, "sip:bob@example.org", b"", b"hi", out)
    });
    assert_eq!(page, None);
    assert!(wire.sent.is_empty());
    let to = "sip:bob@example.org;user=phone;method=INVITE;x=1?Subject=y&Require=z";
    let (_, request) = calling(&mut wire, alice, to);
    let clean = "sip:bob@example.org;user=phone;x=1";
    assert_eq!(request.request_uri(), clean.as_bytes());
    // RFC 3261 19.1.5: "An implementation MUST NOT send a request requiring an extension that it does
    // not support."
    assert_eq!(value(&request, HeaderName::To), format!("<{clean}>"));
    assert!(!request.has(HeaderName::Require));
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
        // RFC 3261 12.1.1: "The URI provided in the Contact header field MUST be a SIP or SIPS URI."
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
    // RFC 3261 8.1.3.2: "A UAC MUST treat any provisional response different than 100 that it does not
    // recognize as 183 (Session Progress)." and "A UAC MUST be able to process 100 and 183 responses."
    let provisional = |status| Event::Provisional { call, status };
    assert_eq!(wire.take_events(0), [provisional(183), provisional(199)]);
    for status in [399, 499, 599, 699] {
        let (call, invite) = calling(&mut wire, alice, "sip:bob@example.org");
        wire.respond(0, 5061, &invite, status, "x", &[]);
        wire.expect(Method::Ack);
        // RFC 3261 13.2.2.3: "Subsequent final responses (which would only arrive under error
        // conditions) MUST be ignored."
        wire.respond(0, 5061, &invite, 404, "y", &[]);
        wire.expect(Method::Ack);
        // RFC 3261 8.1.3.2: "A UAC MUST treat any final response it does not recognize as being
        // equivalent to the x00 response code of that class, and MUST be able to process the x00
        // response code for all classes."
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
