//! Who is let in and begins too much: held to a rate by kind of request, told why,
//! and harming nobody, not even his own calls.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use crate::common::*;
use sip_auth::{Attempt, ClientAuth, RequestParts};
use sip_engine::Effect;
use sip_engine::effect::Limited;
use sip_engine::settings::{AuthSettings, Inbound, Settings, TrustedPeer};
use sip_limit::{Allowance, Kind, Party, Rate, RateLimits};
use sip_msg::{Flow, HeaderName, Transport};

const BOB: &str = "sip:bob@example.org";
const BOBS: &str = "sip:bob@203.0.113.9:5060";

fn secured() -> Settings {
    Settings {
        authenticate: Some(AuthSettings::default()),
        ..settings()
    }
}

fn server(settings: Settings) -> Bed {
    let mut bed = Bed::new(settings);
    bed.register(BOB, BOBS, None);
    bed
}

/// A request in the name of a user; each is of a call of its own.
fn of(user: &str, method: &str, uri: &str) -> Request {
    let mut request = request(method, uri, Transport::Udp);
    let (_, branch) = request.via.rsplit_once('=').unwrap();
    request.call_id = branch.to_owned();
    request.from = format!("<sip:{user}@example.org>;tag=a");
    if method == "REGISTER" {
        request.to = format!("<sip:{user}@example.org>");
    }
    request
}

/// Sends a request, and again with the user's password, which is his name; what is
/// sent because of that.
fn ask(bed: &mut Bed, flow: &Flow, user: &str, mut request: Request) -> Vec<Sent> {
    let challenge = bed.receive(flow, &request.text()).remove(0);
    assert!(matches!(challenge.status(), 401 | 407));
    let mut client = ClientAuth::new();
    client.add("example.org", user, user);
    let mut attempt = Attempt::default();
    client
        .handle_challenge(&mut attempt, &challenge.message)
        .unwrap();
    let parts = RequestParts {
        method: request.method.as_bytes(),
        uri: request.uri.as_bytes(),
        body: request.body.as_bytes(),
    };
    let mut line = Vec::new();
    client.write_credentials(&mut attempt, parts, 7, &mut line);
    request.via.push_str("again");
    let mut sent = bed.receive(
        flow,
        &request.with(std::str::from_utf8(&line).unwrap()).text(),
    );
    let is_question = |effect: &Effect| {
        matches!(
            effect,
            Effect::FindCredential { .. } | Effect::SaveBindings { .. }
        )
    };
    while let Some(at) = bed.effects.iter().position(is_question) {
        sent.extend(match bed.effects.remove(at) {
            Effect::FindCredential { park, question, .. } => {
                let reply = own_name(&question);
                bed.act(|shard, now, out| shard.handle_credential(now, park, Ok(reply), out))
            }
            Effect::SaveBindings { park, .. } => {
                bed.act(|shard, now, out| shard.handle_saved(now, park, Ok(()), out))
            }
            _ => Vec::new(),
        });
    }
    sent
}

/// A call that is up between a user and bob: requests of the user within it.
fn call(bed: &mut Bed, flow: &Flow, user: &str) -> impl Fn(&str, u32) -> String + use<> {
    let invite = of(user, "INVITE", BOB);
    let (call_id, from) = (invite.call_id.clone(), invite.from.clone());
    let sent = ask(bed, flow, user, invite);
    let copy = sent.into_iter().find(|sent| sent.status() == 0).unwrap();
    let contact = format!("Contact: <{BOBS}>\r\n");
    let ok = only(bed.receive(&answering(&copy), &response(&copy, 200, "b", &contact)));
    let route = ok.header(HeaderName::RecordRoute).unwrap();
    move |method, cseq| {
        let mut within = request(method, BOBS, Transport::Udp);
        (within.call_id, within.from) = (call_id.clone(), from.clone());
        within.to = format!("<{BOB}>;tag=b");
        within.cseq = cseq;
        within.with(&format!("Route: {route}\r\n")).text()
    }
}

fn is_forwarded(sent: &[Sent]) -> bool {
    sent.iter().any(|sent| sent.status() == 0)
}

#[test]
fn a_stolen_password_calls_no_faster_than_its_user_may_and_others_go_on() {
    let mut bed = server(secured());
    let home = flow(Transport::Udp, "198.51.100.1:5060");
    let thief = flow(Transport::Udp, "198.51.100.66:6666");
    let within = call(&mut bed, &home, "alice");
    assert!(is_forwarded(&bed.receive(&home, &within("ACK", 1))));
    let (mut calls, mut refused) = (0, 0);
    for n in 0..3_000 {
        let before = bed.shard.in_flight();
        let sent = ask(&mut bed, &thief, "alice", of("alice", "INVITE", BOB));
        if is_forwarded(&sent) {
            calls += 1;
        } else {
            refused += 1;
            let answer = only(sent);
            assert_eq!(answer.status(), 503);
            assert!(answer.header(HeaderName::RetryAfter).is_some());
            assert_eq!(bed.shard.in_flight(), before, "a refusal keeps nothing");
        }
        if n % 3 == 0 {
            bed.wait(3);
        }
    }
    // Ten seconds' worth, of which alice has taken one, and then fifty a second.
    assert!((640..=650).contains(&calls), "{calls}");
    let counted = bed.rates.limited(Party::User, Rate::Requests(Kind::Call));
    assert_eq!(counted, refused);
    let told: Vec<&Effect> = bed.effects.iter().collect();
    assert!((2..=4).contains(&told.len()), "{told:?}");
    assert!(told.iter().all(|effect| matches!(
        effect,
        Effect::Limited {
            flow,
            what: Limited::Rate {
                party: Party::User,
                name,
                rate: Rate::Requests(Kind::Call),
            },
        } if *flow == thief && &**name == "alice"
    )));
    bed.effects.clear();
    // Her own call goes on and ends, and she may do what is no call.
    for (method, cseq) in [("INVITE", 2), ("MESSAGE", 3), ("BYE", 4)] {
        assert!(is_forwarded(&bed.receive(&home, &within(method, cseq))));
    }
    let register = of("alice", "REGISTER", "sip:example.org");
    assert_eq!(only(ask(&mut bed, &home, "alice", register)).status(), 200);
    // Another user calls from the very same place.
    let sent = ask(&mut bed, &thief, "carol", of("carol", "INVITE", BOB));
    assert!(is_forwarded(&sent));
    // And when the thief is gone it is over.
    bed.wait(10_000);
    let sent = ask(&mut bed, &home, "alice", of("alice", "INVITE", BOB));
    assert!(is_forwarded(&sent));
}

#[test]
fn a_tag_that_nobody_gave_spares_no_request_its_rate() {
    let mut bed = server(secured());
    let thief = flow(Transport::Udp, "198.51.100.66:6666");
    for (method, rate) in [
        ("INVITE", Rate::Requests(Kind::Other)),
        ("REGISTER", Rate::Requests(Kind::Registration)),
        ("REFER", Rate::Requests(Kind::Other)),
    ] {
        for _ in 0..1_000 {
            let uri = if method == "REGISTER" {
                "sip:example.org"
            } else {
                BOB
            };
            let mut request = of("alice", method, uri);
            request.to.push_str(";tag=b");
            ask(&mut bed, &thief, "alice", request);
        }
        assert!(bed.rates.limited(Party::User, rate) >= 500, "{method}");
        bed.wait(11_000);
    }
}

/// A rate of calls alone is all that a contract has.
#[test]
fn where_others_have_no_limit_a_made_up_tag_makes_no_call_one_of_them() {
    let calls = Allowance {
        calls_per_s: 5,
        ..Allowance::default()
    };
    let peer = TrustedPeer {
        calls_per_s: Some(20),
        ..TrustedPeer::at("198.51.100.1".parse().unwrap(), 32)
    };
    for (entry, inbound, passes) in [
        (Some(peer), Inbound::Trusted, 200),
        (None, Inbound::Anyone, 50),
    ] {
        let mut bed = server(Settings {
            trusted: entry.into_iter().collect(),
            inbound,
            rates: RateLimits {
                source: calls,
                ..RateLimits::default()
            },
            ..secured()
        });
        let passed = (0..400)
            .filter(|n| {
                let mut invite = request("INVITE", BOB, Transport::Udp);
                invite.call_id = format!("call-{n}");
                invite.to.push_str(";tag=b");
                is_forwarded(&bed.receive(&alice(Transport::Udp), &invite.text()))
            })
            .count();
        assert_eq!(passed, passes);
    }
}

#[test]
fn each_kind_of_request_has_its_rate() {
    let mut bed = server(secured());
    let home = flow(Transport::Udp, "198.51.100.1:5060");
    for (method, uri, kind, passes) in [
        ("REGISTER", "sip:example.org", Kind::Registration, 200),
        ("MESSAGE", BOB, Kind::Message, 500),
        ("PUBLISH", BOB, Kind::Message, 0),
        ("SUBSCRIBE", BOB, Kind::Other, 500),
        ("SOMETHING", BOB, Kind::Other, 0),
    ] {
        let refused = (0..600)
            .map(|_| ask(&mut bed, &home, "alice", of("alice", method, uri)))
            .filter(|sent| sent.iter().any(|sent| sent.status() == 503))
            .count();
        assert_eq!(600 - refused, passes, "{method}");
        let counted = bed.rates.limited(Party::User, Rate::Requests(kind));
        assert!(counted >= refused as u64, "{method}");
    }
}

#[test]
fn bytes_are_limited_beside_numbers() {
    let limits = RateLimits {
        user: Allowance {
            bytes_per_s: 20_000,
            ..Allowance::default()
        },
        ..RateLimits::default()
    };
    let mut bed = server(Settings {
        rates: limits,
        ..secured()
    });
    let home = flow(Transport::Udp, "198.51.100.1:5060");
    let mut passed = 0;
    for _ in 0..50 {
        let mut message = of("alice", "MESSAGE", BOB);
        message.body = "x".repeat(19_000);
        passed += usize::from(is_forwarded(&ask(&mut bed, &home, "alice", message)));
    }
    assert_eq!(passed, 10);
    assert_eq!(bed.rates.limited(Party::User, Rate::Bytes), 40);
}

#[test]
fn peers_and_sources_are_unlimited_until_the_operator_says_otherwise() {
    let calls = Allowance {
        calls_per_s: 5,
        ..Allowance::default()
    };
    let own = |calls_per_s| TrustedPeer {
        calls_per_s,
        ..TrustedPeer::at("198.51.100.1".parse().unwrap(), 32)
    };
    let limited = RateLimits {
        peer: calls,
        source: calls,
        ..RateLimits::default()
    };
    for (entry, inbound, rates, passes) in [
        (
            Some(own(None)),
            Inbound::Trusted,
            RateLimits::default(),
            400,
        ),
        (Some(own(None)), Inbound::Trusted, limited, 50),
        (Some(own(Some(20))), Inbound::Trusted, limited, 200),
        (
            Some(own(Some(20))),
            Inbound::Trusted,
            RateLimits::default(),
            200,
        ),
        (Some(own(Some(0))), Inbound::Trusted, limited, 400),
        (None, Inbound::Anyone, RateLimits::default(), 400),
        (None, Inbound::Anyone, limited, 50),
    ] {
        let party = if entry.is_some() {
            Party::Peer
        } else {
            Party::Source
        };
        let mut bed = server(Settings {
            trusted: entry.into_iter().collect(),
            inbound,
            rates,
            ..secured()
        });
        let passed = (0..400)
            .filter(|n| {
                let mut invite = request("INVITE", BOB, Transport::Udp);
                invite.call_id = format!("call-{n}");
                is_forwarded(&bed.receive(&alice(Transport::Udp), &invite.text()))
            })
            .count();
        assert_eq!(passed, passes);
        let rate = Rate::Requests(Kind::Call);
        assert_eq!(bed.rates.limited(party, rate), 400 - passes as u64);
    }
}

#[test]
fn the_calls_of_a_peer_that_begins_too_many_go_on() {
    let peer = TrustedPeer {
        calls_per_s: Some(1),
        ..TrustedPeer::at("198.51.100.1".parse().unwrap(), 32)
    };
    let others = Allowance {
        others_per_s: 1,
        ..Allowance::default()
    };
    let mut bed = server(Settings {
        trusted: vec![peer],
        rates: RateLimits {
            peer: others,
            burst_s: 1,
            ..RateLimits::default()
        },
        ..secured()
    });
    let trunk = alice(Transport::Udp);
    let sent = bed.receive(&trunk, &request("INVITE", BOB, Transport::Udp).text());
    let copy = sent.into_iter().find(|sent| sent.status() == 0).unwrap();
    let contact = format!("Contact: <{BOBS}>\r\n");
    let ok = only(bed.receive(&answering(&copy), &response(&copy, 200, "b", &contact)));
    let route = ok.header(HeaderName::RecordRoute).unwrap();
    let mut within = |method: &str, cseq, routes: &str| {
        let mut within = request(method, BOBS, Transport::Udp);
        within.to = format!("<{BOB}>;tag=b");
        within.cseq = cseq;
        kinds(&bed.receive(&trunk, &within.with(routes).text())).join(" ")
    };
    let route = format!("Route: {route}\r\n");
    for cseq in 2..20 {
        assert_eq!(within("INVITE", cseq, &route), "100 INVITE");
    }
    // What only says that it is within a call is one of the others.
    assert_eq!(within("INVITE", 20, ""), "100 INVITE");
    assert_eq!(within("INVITE", 21, ""), "503");
    assert_eq!(within("BYE", 22, ""), "BYE");
}
