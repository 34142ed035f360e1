//! Users with passwords: they register, call each other and hang up, and those
//! who have none, or another's name, do not.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use crate::common::*;
use sip_auth::{Attempt, ClientAuth, Reply, RequestParts};
use sip_engine::Effect;
use sip_engine::sender::Sender;
use sip_engine::settings::{AuthSettings, Settings, TrustedPeer};
use sip_msg::{ConnId, Flow, HeaderName, Limits, Message, Transport};

const BOB_CONTACT: &str = "sip:bob@10.0.0.7:5060";

/// A server with the users alice and bob, whose passwords are their names.
fn server() -> Bed {
    Bed::new(Settings {
        authenticate: Some(AuthSettings::default()),
        ..settings()
    })
}

fn client(user: &str) -> ClientAuth {
    let mut client = ClientAuth::new();
    client.add("example.org", user, user);
    client
}

/// Answers one question to the store; what the server sends because of it.
fn store(bed: &mut Bed) -> Vec<Sent> {
    assert_eq!(
        bed.effects.len(),
        1,
        "one question at a time: {:?}",
        bed.effects
    );
    match bed.effects.remove(0) {
        Effect::FindCredential { park, question, .. } => {
            let reply = match question.subject.user() {
                b"alice" | b"bob" => own_name(&question),
                _ => Reply::Unknown,
            };
            bed.act(|shard, now, out| shard.handle_credential(now, park, Ok(reply), out))
        }
        Effect::SaveBindings { park, .. } => {
            bed.act(|shard, now, out| shard.handle_saved(now, park, Ok(()), out))
        }
        other => panic!("not for the store: {other:?}"),
    }
}

/// A challenged request, sent again with credentials. A challenged INVITE is acknowledged first.
fn challenged(bed: &mut Bed, flow: &Flow, client: &mut ClientAuth, first: Request) -> Vec<Sent> {
    let challenge = only(bed.receive(flow, &first.text()));
    let expected = if first.method == "REGISTER" { 401 } else { 407 };
    assert_eq!(challenge.status(), expected);
    assert!(
        bed.effects.is_empty(),
        "nobody is asked before there are credentials"
    );
    if first.method == "INVITE" {
        let mut ack = request("ACK", &first.uri, flow.transport);
        (ack.via, ack.from) = (first.via.clone(), first.from.clone());
        ack.to = challenge.header(HeaderName::To).unwrap();
        assert!(bed.receive(flow, &ack.text()).is_empty());
    }
    let second = signed(flow, client, &challenge, first);
    bed.receive(flow, &second.text())
}

/// The request again, with another branch and CSeq and an answer to the challenge.
fn signed(flow: &Flow, client: &mut ClientAuth, challenge: &Sent, first: Request) -> Request {
    let mut attempt = Attempt::default();
    client
        .handle_challenge(&mut attempt, &challenge.message)
        .expect("a challenge for this user");
    let mut line = Vec::new();
    let parts = RequestParts {
        method: first.method.as_bytes(),
        uri: first.uri.as_bytes(),
        body: first.body.as_bytes(),
    };
    client.write_credentials(&mut attempt, parts, 7, &mut line);
    let via = request(&first.method, &first.uri, flow.transport).via;
    let request = Request {
        via,
        cseq: first.cseq + 1,
        ..first
    };
    request.with(std::str::from_utf8(&line).unwrap())
}

fn bobs_register(transport: Transport) -> (Flow, String) {
    let flow = flow(transport, "203.0.113.7:40007");
    let via = format!(
        "SIP/2.0/{} 10.0.0.7:5060;rport;branch=z9hG4bKbob",
        transport.via_name()
    );
    (flow, via)
}

/// Registers bob, who is behind a NAT.
fn register_bob(bed: &mut Bed, transport: Transport) -> Flow {
    let (flow, via) = bobs_register(transport);
    let register = |cseq: u32, credentials: &str| {
        format!(
            "REGISTER sip:example.org SIP/2.0\r\nVia: {via}{cseq}\r\nFrom: <sip:bob@example.org>;tag=b\r\n\
             To: <sip:bob@example.org>\r\nCall-ID: bobs\r\nCSeq: {cseq} REGISTER\r\nMax-Forwards: 70\r\n\
             Contact: <{BOB_CONTACT}>\r\n{credentials}Content-Length: 0\r\n\r\n"
        )
    };
    let challenge = only(bed.receive(&flow, &register(1, "")));
    assert_eq!(challenge.status(), 401);
    assert!(bed.effects.is_empty() && bed.location.aors() == 0);
    let mut client = client("bob");
    client
        .handle_challenge(&mut Attempt::default(), &challenge.message)
        .unwrap();
    let mut line = Vec::new();
    let parts = RequestParts {
        method: b"REGISTER",
        uri: b"sip:example.org",
        body: b"",
    };
    client.write_credentials(&mut Attempt::default(), parts, 1, &mut line);
    let second = register(2, std::str::from_utf8(&line).unwrap());
    assert!(bed.receive(&flow, &second).is_empty());
    assert!(matches!(bed.effects[..], [Effect::FindCredential { .. }]));
    assert!(store(bed).is_empty());
    assert!(matches!(bed.effects[..], [Effect::SaveBindings { .. }]));
    assert_eq!(bed.location.aors(), 0, "not visible before it is durable");
    // A retransmission meanwhile is the transaction's, not another registration.
    assert!(bed.receive(&flow, &second).is_empty());
    let ok = only(store(bed));
    assert_eq!((ok.status(), ok.to.conn), (200, flow.conn));
    assert_eq!(ok.to.remote.ip(), flow.remote.ip());
    assert_eq!(
        ok.all(HeaderName::Contact),
        [format!("<{BOB_CONTACT}>;expires=3600")]
    );
    if transport == Transport::Udp {
        let again = only(bed.receive(&flow, &second));
        assert_eq!(again.text, ok.text);
    }
    flow
}

fn invite(transport: Transport) -> Request {
    let mut invite = request("INVITE", "sip:bob@example.org", transport);
    invite.from = "<sip:alice@example.org>;tag=a".into();
    invite.with("P-Asserted-Identity: <sip:alice@example.org>\r\n")
}

/// Alice, with credentials, calls bob, who answers; what bob got, and the Route of the dialog.
fn call(bed: &mut Bed, transport: Transport) -> (Sent, String) {
    let alice = alice(transport);
    let asked = challenged(bed, &alice, &mut client("alice"), invite(transport));
    assert!(kinds(&asked).iter().all(|kind| kind == "100"));
    let sent = store(bed);
    let to_bob = sent
        .into_iter()
        .find(|sent| sent.method() == "INVITE" && sent.status() == 0)
        .expect("forwarded");
    let bob = answering(&to_bob);
    let contact = format!("Contact: <{BOB_CONTACT}>\r\n");
    let ok = only(bed.receive(&bob, &response(&to_bob, 200, "b", &contact)));
    let routes = ok.all(HeaderName::RecordRoute).into_iter().rev();
    let route = routes.map(|value| format!("Route: {value}\r\n")).collect();
    (to_bob, route)
}

fn in_dialog(method: &str, transport: Transport, cseq: u32, route: &str) -> Request {
    let mut request = request(method, BOB_CONTACT, transport).with(route);
    request.from = "<sip:alice@example.org>;tag=a".into();
    request.to = "<sip:bob@example.org>;tag=b".into();
    request.cseq = cseq;
    request
}

#[test]
fn a_phone_registers_and_is_called_on_its_own_way() {
    // RFC 3261 10.1: "The only requirement is that a registrar for some domain MUST be able to read and
    // write data to the location service, and a proxy or a redirect server for that domain MUST be
    // capable of reading that same data."
    for transport in TRANSPORTS {
        let mut bed = server();
        let bob = register_bob(&mut bed, transport);
        // The connection is to be kept for as long as the contact is bound to it.
        match transport {
            Transport::Udp => assert_eq!(bed.kept, []),
            _ => assert!(
                matches!(bed.kept[..], [(conn, 1_000..=3_600_000)] if conn == bob.conn),
                "{:?}",
                bed.kept
            ),
        }
        let (to_bob, _) = call(&mut bed, transport);
        assert_eq!(
            (to_bob.to.remote, to_bob.to.conn, to_bob.to.transport),
            (bob.remote, bob.conn, transport)
        );
        assert_eq!(to_bob.uri(), BOB_CONTACT);
        // RFC 3261 22.3: "A Proxy-Authorization header field value applies only to the proxy whose realm is
        // identified in the "realm" parameter": to this one, so it goes no further.
        assert!(!to_bob.message.has(HeaderName::ProxyAuthorization));
        assert!(!to_bob.message.has(HeaderName::PAssertedIdentity));
    }
}

#[test]
fn ack_and_bye_of_a_call_pass_by_their_route_and_forged_ones_do_not() {
    // RFC 3261 22.1: "Servers MUST NOT attempt to challenge an ACK."
    for transport in TRANSPORTS {
        let mut bed = server();
        register_bob(&mut bed, transport);
        let (to_bob, route) = call(&mut bed, transport);
        let alice = alice(transport);
        let ack = only(bed.receive(&alice, &in_dialog("ACK", transport, 2, &route).text()));
        assert_eq!(
            (ack.method().as_str(), ack.to.remote),
            ("ACK", to_bob.to.remote)
        );

        let eve = flow(transport, "203.0.113.66:5060");
        let altered = route.replace("<sip:", "<sip:A");
        for forged_route in ["", "Route: <sip:192.0.2.1;lr>\r\n", &altered] {
            for method in ["BYE", "INVITE", "UPDATE", "ACK"] {
                let sent = bed.receive(&eve, &in_dialog(method, transport, 3, forged_route).text());
                let expected: &[&str] = if method == "ACK" { &[] } else { &["407"] };
                assert_eq!(kinds(&sent), expected, "{method} {forged_route}");
                assert!(bed.effects.is_empty());
            }
            let mut other_call = in_dialog("BYE", transport, 3, &route);
            other_call.call_id = "another".into();
            assert_eq!(only(bed.receive(&eve, &other_call.text())).status(), 407);
        }

        let bye = only(bed.receive(&alice, &in_dialog("BYE", transport, 3, &route).text()));
        assert_eq!(
            (bye.method().as_str(), bye.to.remote),
            ("BYE", to_bob.to.remote)
        );
        let ok = only(bed.receive(&answering(&bye), &response(&bye, 200, "b", "")));
        assert_eq!((ok.status(), ok.to.remote), (200, alice.remote));
    }
}

#[test]
fn a_call_counts_once_when_it_is_let_in() {
    for transport in TRANSPORTS {
        let mut bed = server();
        register_bob(&mut bed, transport);
        let alice = alice(transport);
        let challenge = only(bed.receive(&alice, &invite(transport).text()));
        assert_eq!(challenge.status(), 407);
        assert_eq!(bed.shard.counters().calls, 0, "{transport:?}");
    }
    for transport in TRANSPORTS {
        let mut bed = server();
        register_bob(&mut bed, transport);
        let (_, route) = call(&mut bed, transport);
        assert_eq!(bed.shard.counters().calls, 1, "{transport:?}");
        let alice = alice(transport);
        only(bed.receive(&alice, &in_dialog("ACK", transport, 2, &route).text()));
        let again = bed.receive(&alice, &in_dialog("INVITE", transport, 3, &route).text());
        let passes = |sent: &Sent| sent.status() == 0 && sent.method() == "INVITE";
        assert!(again.iter().any(passes), "{:?}", kinds(&again));
        assert_eq!(bed.shard.counters().calls, 1, "{transport:?}");
    }
}

#[test]
fn the_other_side_hangs_up_by_its_route_too() {
    for transport in TRANSPORTS {
        let mut bed = server();
        let bob = register_bob(&mut bed, transport);
        let (to_bob, _) = call(&mut bed, transport);
        let routes = to_bob.all(HeaderName::RecordRoute);
        let routes: String = routes
            .iter()
            .map(|value| format!("Route: {value}\r\n"))
            .collect();
        let mut bye = request("BYE", "sip:alice@198.51.100.1:5060", transport).with(&routes);
        bye.from = "<sip:bob@example.org>;tag=b".into();
        bye.to = "<sip:alice@example.org>;tag=a".into();
        let forwarded = only(bed.receive(&bob, &bye.text()));
        assert_eq!(forwarded.method(), "BYE");
        assert_eq!(forwarded.to.remote, alice(transport).remote);
    }
}

#[test]
fn with_anothers_name_it_is_403() {
    for transport in TRANSPORTS {
        for (method, from, more) in [
            ("INVITE", "<sip:bob@example.org>;tag=a", ""),
            ("MESSAGE", "<sip:bob@example.org>;tag=a", ""),
            (
                "INVITE",
                "<sip:alice@example.org>;tag=a",
                "P-Asserted-Identity: <sip:bob@example.org>\r\n",
            ),
            ("REGISTER", "<sip:alice@example.org>;tag=a", ""),
        ] {
            let mut bed = server();
            let uri = if method == "REGISTER" {
                "sip:example.org"
            } else {
                "sip:bob@example.org"
            };
            // In a REGISTER it is To that names bob.
            let mut first = request(method, uri, transport).with(more);
            first.from = from.into();
            challenged(&mut bed, &alice(transport), &mut client("alice"), first);
            let refused = store(&mut bed);
            assert_eq!(kinds(&refused), ["403"], "{method} {from} {more}");
            assert!(bed.effects.is_empty());
            assert_eq!(bed.location.aors(), 0);
        }
    }
}

#[test]
fn unknown_user_and_wrong_password_are_asked_for_and_answered_alike() {
    let mut answers = Vec::new();
    for (user, password) in [("alice", "wrong"), ("nobody", "wrong")] {
        let mut bed = server();
        let mut client = ClientAuth::new();
        client.add("example.org", user, password);
        let mut first = request("OPTIONS", "sip:bob@example.org", Transport::Udp);
        first.from = format!("<sip:{user}@example.org>;tag=a");
        assert!(challenged(&mut bed, &alice(Transport::Udp), &mut client, first).is_empty());
        let refused = only(store(&mut bed));
        let names = refused
            .message
            .fields()
            .map(|field| field.raw_name.to_vec());
        answers.push((refused.status(), names.collect::<Vec<_>>()));
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0].0, 407);
}

#[test]
fn a_cancel_is_never_challenged() {
    // RFC 3261 22.1: "Although the CANCEL method does take a response (a 2xx), servers MUST NOT attempt to
    // challenge CANCEL requests since these requests cannot be resubmitted."
    for transport in TRANSPORTS {
        let mut cancel = request("CANCEL", "sip:bob@example.org", transport);
        cancel.from = "<sip:alice@example.org>;tag=a".into();
        let answer = only(server().receive(&alice(transport), &cancel.text()));
        assert_eq!(answer.status(), 481);
    }
}

#[test]
fn a_foreign_challenge_goes_to_the_client() {
    // The server has no password to answer it with, and would not if it had.
    let mut bed = server();
    register_bob(&mut bed, Transport::Udp);
    let sent = challenged(
        &mut bed,
        &alice(Transport::Udp),
        &mut client("alice"),
        invite(Transport::Udp),
    );
    assert!(sent.iter().all(|sent| sent.status() == 100));
    let to_bob = store(&mut bed)
        .into_iter()
        .find(|sent| sent.status() == 0)
        .unwrap();
    let challenge = "Proxy-Authenticate: Digest realm=\"elsewhere\", nonce=\"n\"\r\n";
    let sent = bed.receive(&answering(&to_bob), &response(&to_bob, 407, "b", challenge));
    // RFC 3261 22.3: "All 407 (Proxy Authentication Required) responses MUST be forwarded upstream
    // toward the UAC following the procedures for any other response."
    assert_eq!(kinds(&sent), ["ACK", "407"]);
    assert!(sent[1].text.contains(challenge));
    let parsed = Message::parse(sent[0].text.as_bytes(), &Limits::default()).unwrap();
    assert!(!parsed.has(HeaderName::ProxyAuthorization));
}

#[test]
fn a_challenge_is_one_packet_back_and_keeps_nothing() {
    // Whoever forges a source sends it one packet of at most twice the size.
    let mut bed = server();
    let source = flow(Transport::Udp, "203.0.113.66:5060");
    for method in ["REGISTER", "INVITE", "OPTIONS", "MESSAGE"] {
        let uri = match method {
            "REGISTER" => "sip:example.org",
            _ => "sip:bob@example.org",
        };
        let mut first = request(method, uri, Transport::Udp)
            .with("Allow: INVITE, ACK, CANCEL, OPTIONS, BYE\r\nUser-Agent: phone 1.0\r\n");
        first.from = "<sip:alice@example.org>;tag=a".into();
        let text = first.text();
        let challenge = only(bed.receive(&source, &text));
        assert!(matches!(challenge.status(), 401 | 407), "{method}");
        assert_eq!(challenge.to.remote.ip(), source.remote.ip());
        assert!(
            challenge.text.len() <= 2 * text.len(),
            "{method}: {} bytes for {}",
            challenge.text.len(),
            text.len()
        );
    }
    assert_eq!((bed.effects.len(), bed.shard.in_flight()), (0, 0));
}

/// What a neighbour's connection carries is many people's, so what one of them does
/// wrong is not held against it, whenever that is found out.
#[test]
fn a_neighbour_is_still_known_when_the_store_has_answered() {
    let proof = proof_of("peer.example");
    let flow = Flow {
        conn: ConnId(7),
        ..alice(Transport::Tls)
    };
    for peer in [Some(proof), None] {
        let mut bed = Bed::new(Settings {
            authenticate: Some(AuthSettings::default()),
            trusted: vec![TrustedPeer::proven("peer.example".into())],
            ..settings()
        });
        let sender = Sender { flow, peer };
        let send = |bed: &mut Bed, text: &str| {
            bed.act(|shard, now, out| {
                let mut message = shard.spare_message();
                message.fill(text.as_bytes(), &Limits::default()).unwrap();
                shard.handle_message(now, &sender, message, out);
            })
        };
        let mut register = request("REGISTER", "sip:example.org", Transport::Tls)
            .with("Contact: *\r\nExpires: 3600\r\n");
        register.from = "<sip:alice@example.org>;tag=a".into();
        register.to = "<sip:alice@example.org>".into();
        let challenge = only(send(&mut bed, &register.text()));
        assert_eq!(challenge.status(), 401);
        let signed = signed(&flow, &mut client("alice"), &challenge, register);
        assert!(send(&mut bed, &signed.text()).is_empty());
        assert_eq!(only(store(&mut bed)).status(), 400);
        let is_counted = bed.effects.iter().any(|e| matches!(e, Effect::Odd(_)));
        assert_eq!(is_counted, sender.peer.is_none(), "{:?}", bed.effects);
    }
}
