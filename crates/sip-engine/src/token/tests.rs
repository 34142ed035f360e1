use sip_msg::{ConnId, ListenerId, Transport};

use super::*;
use crate::testing::{parse, request};

const FROM: &str = "<sip:alice@example.org>;tag=1";
const TO: &str = "<sip:bob@example.org>;tag=2";

fn tokens() -> Tokens {
    Tokens::new(Arc::new(TokenKeys::of([7; 32], 5)))
}

fn uri(text: &str) -> Uri<'_> {
    Uri::parse(text.as_bytes()).unwrap()
}

fn flow(transport: Transport, remote: &str, local: &str, conn: u64) -> Flow {
    Flow {
        transport,
        listener: ListenerId(3),
        local: local.parse().unwrap(),
        remote: remote.parse().unwrap(),
        conn: ConnId(conn),
    }
}

fn flows() -> Vec<Flow> {
    let mut flows = Vec::new();
    for transport in [
        Transport::Udp,
        Transport::Tcp,
        Transport::Tls,
        Transport::Ws,
        Transport::Wss,
    ] {
        let ends = [
            ("192.0.2.7:40000", "192.0.2.1:5060", 0),
            ("[2001:db8::7]:1", "[2001:db8::1]:65535", u64::MAX),
            ("192.0.2.7:40000", "[::ffff:192.0.2.1]:5060", 1 << 56),
        ];
        flows.extend(ends.map(|(remote, local, conn)| flow(transport, remote, local, conn)));
    }
    flows
}

fn led(engine: u32, number: Option<u32>) -> Option<Led> {
    let engine = EngineId(engine);
    Some(Led { engine, number })
}

fn message() -> Message {
    parse(request("BYE", "sip:bob@203.0.113.9", FROM, TO, "").as_bytes())
}

/// The token of the message's sender.
fn sealed<'a>(tokens: &Tokens, change: impl FnOnce(&mut Grant<'a>)) -> Vec<u8> {
    let mut grant = Grant {
        target: Some(Box::leak(Box::new(uri("sip:bob@203.0.113.9")))),
        ..Grant::default()
    };
    change(&mut grant);
    let mut text = Vec::new();
    tokens.write_grant(
        &Sides::of(&message()).unwrap(),
        Holder::Sender,
        &grant,
        &mut text,
    );
    text
}

fn read(tokens: &Tokens, text: &[u8]) -> Option<RouteToken> {
    tokens.read_grant(text, &message(), &[])
}

#[test]
fn what_was_written_is_read() {
    let tokens = tokens();
    let text = sealed(&tokens, |_| {});
    assert_eq!(text.len(), 35);
    let token = read(&tokens, &text).unwrap();
    assert_eq!((token.flow(), token.is_flow_lost()), (None, false));
    assert!(tokens.is_target(&token, &uri("sip:bob@203.0.113.9")));
    assert!(!tokens.is_target(&token, &uri("sip:bob@203.0.113.8")));
    for flow in flows() {
        for (is_to_end, went_to_gateway) in [(false, false), (true, false), (false, true)] {
            let text = sealed(&tokens, |grant| {
                grant.flow = Some(&flow);
                grant.instance = Some(77);
                grant.is_to_end = is_to_end;
                grant.went_to_gateway = went_to_gateway;
                grant.leads_to_gateway = !is_to_end;
            });
            let token = read(&tokens, &text).unwrap();
            assert_eq!((token.flow(), token.instance), (Some(&flow), Some(77)));
            assert_eq!(token.is_to_end(), is_to_end);
            assert_eq!(token.went_to_gateway(), went_to_gateway);
            assert_eq!(token.leads_to_gateway(), !is_to_end);
        }
        let mut text = Vec::new();
        tokens.write_flow(&flow, &mut text);
        assert_eq!(tokens.read_flow(&text).unwrap().flow(), &flow);
    }
}

#[test]
fn the_engine_of_a_dialog_is_in_its_tokens() {
    let tokens = tokens();
    let over_tls = flow(Transport::Tls, "192.0.2.7:40000", "192.0.2.1:5061", 9);
    for flow in [None, Some(&over_tls)] {
        for instance in [None, Some(77)] {
            for media in [
                None,
                led(0, None),
                led(u32::MAX, None),
                led(0, Some(0)),
                led(u32::MAX, Some(u32::MAX)),
            ] {
                let text = sealed(&tokens, |grant| {
                    (grant.flow, grant.instance, grant.media) = (flow, instance, media);
                });
                let token = read(&tokens, &text).unwrap();
                assert_eq!((token.flow(), token.instance), (flow, instance));
                assert_eq!(token.media(), media);
            }
        }
    }
    let text = sealed(&tokens, |grant| grant.media = led(7, None));
    assert_eq!(text.len(), 40);
    let text = sealed(&tokens, |grant| grant.media = led(7, Some(8)));
    assert_eq!(text.len(), 46);
}

#[test]
fn a_token_without_a_target_has_none() {
    let tokens = tokens();
    let text = sealed(&tokens, |grant| grant.target = None);
    let token = read(&tokens, &text).unwrap();
    assert!(!tokens.is_target(&token, &uri("sip:bob@203.0.113.9")));
}

#[test]
fn a_token_is_legal_in_a_user_part() {
    let tokens = tokens();
    for flow in flows() {
        let text = sealed(&tokens, |grant| {
            grant.flow = Some(&flow);
            grant.instance = Some(77);
            grant.media = led(7, Some(8));
            grant.is_offer = true;
        });
        assert!(text.len() <= TEXT_MAX);
        // RFC 3261 25.1: a user is made of unreserved characters, among which are letters, digits, "-"
        // and "_".
        assert!(
            text.iter()
                .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(b))
        );
        let uri = [b"sip:", &text[..], b"@192.0.2.1;lr"].concat();
        assert_eq!(sip_msg::Uri::parse(&uri).unwrap().user, Some(&text[..]));
    }
}

#[test]
fn every_flipped_bit_is_refused() {
    let tokens = tokens();
    let over_tls = flow(Transport::Tls, "192.0.2.7:40000", "192.0.2.1:5061", 9);
    for (flow, media) in [
        (None, None),
        (Some(&over_tls), None),
        (None, led(7, None)),
        (None, led(7, Some(8))),
    ] {
        let text = sealed(&tokens, |grant| (grant.flow, grant.media) = (flow, media));
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut forged = text.clone();
                forged[at] ^= 1 << bit;
                assert_eq!(read(&tokens, &forged), None, "byte {at} bit {bit}");
            }
        }
        let raw = URL_SAFE_NO_PAD.decode(&text).unwrap();
        for at in 0..raw.len() * 8 {
            let mut forged = raw.clone();
            forged[at / 8] ^= 1 << (at % 8);
            let forged = URL_SAFE_NO_PAD.encode(forged);
            assert_eq!(read(&tokens, forged.as_bytes()), None, "bit {at}");
        }
    }
}

#[test]
fn every_flipped_bit_of_a_flow_token_is_refused() {
    let tokens = tokens();
    for flow in flows() {
        let mut text = Vec::new();
        tokens.write_flow(&flow, &mut text);
        let raw = URL_SAFE_NO_PAD.decode(&text).unwrap();
        for at in 0..raw.len() * 8 {
            let mut forged = raw.clone();
            forged[at / 8] ^= 1 << (at % 8);
            let forged = URL_SAFE_NO_PAD.encode(forged);
            assert_eq!(tokens.read_flow(forged.as_bytes()), None, "bit {at}");
        }
        let other = Tokens::new(Arc::new(TokenKeys::of([8; 32], 5)));
        assert_eq!(other.read_flow(&text), None);
    }
}

#[test]
fn cut_lengthened_and_strange_ones_are_refused() {
    let tokens = tokens();
    let flow = flow(Transport::Tcp, "192.0.2.7:40000", "192.0.2.1:5060", 9);
    let text = sealed(&tokens, |grant| grant.flow = Some(&flow));
    for len in 0..text.len() {
        assert_eq!(read(&tokens, &text[..len]), None, "{len}");
        assert_eq!(read(&tokens, &text[len + 1..]), None, "{len}");
    }
    for tail in ["A", "AA", "AAAA", "=", "%41", "==", " "] {
        let long = [&text, tail.as_bytes()].concat();
        assert_eq!(read(&tokens, &long), None, "{tail}");
    }
    for strange in [
        &b"alice"[..],
        b"",
        &[b'A'; 4096],
        &[0xff; 40],
        &[b'A'; TEXT_MAX],
    ] {
        assert_eq!(read(&tokens, strange), None);
    }
}

#[test]
fn another_call_another_key_and_another_kind_are_refused() {
    let tokens = tokens();
    let flow = flow(Transport::Tcp, "192.0.2.7:40000", "192.0.2.1:5060", 9);
    let text = sealed(&tokens, |grant| grant.flow = Some(&flow));
    assert!(read(&tokens, &text).is_some());
    for (what, by) in [
        ("call-1", "call-2"),
        ("call-1", "call-"),
        (
            "sip:alice@example.org>;tag=1",
            "sip:alice@example.org>;tag=11",
        ),
        ("sip:alice@", "sip:alicia@"),
        ("sip:bob@example.org", "sip:bob@example.com"),
        (";tag=2", ";tag=3"),
    ] {
        let changed = request("BYE", "sip:bob@203.0.113.9", FROM, TO, "").replace(what, by);
        let changed = parse(changed.as_bytes());
        assert_eq!(tokens.read_grant(&text, &changed, &[]), None, "{by}");
    }
    let next = uri("sip:next.example;lr");
    assert_eq!(tokens.read_grant(&text, &message(), &[next]), None);
    let other = Tokens::new(Arc::new(TokenKeys::of([8; 32], 5)));
    assert_eq!(read(&other, &text), None);
    assert_eq!(tokens.read_flow(&text), None);
    let mut of_flow = Vec::new();
    tokens.write_flow(&flow, &mut of_flow);
    assert_eq!(read(&tokens, &of_flow), None);
    // What is offered to the caller is nothing in the hands of who answers.
    let offer = sealed(&tokens, |grant| {
        grant.flow = Some(&flow);
        grant.instance = Some(77);
        grant.is_offer = true;
    });
    let token = read(&tokens, &offer).unwrap();
    assert_eq!(token.named_flow(), None);
    assert!(!Tokens::has_instance(&token), "nor is the caller's phone");
}

#[test]
fn all_routes_behind_ours_are_bound_in_their_order() {
    let tokens = tokens();
    let hops = ["sip:a.example;lr", "sip:b.example;lr"].map(uri);
    let [a, b] = hops;
    let other = uri("sip:c.example;lr");
    let text = sealed(&tokens, |grant| grant.behind = &hops);
    let reads = |behind: &[Uri<'_>]| tokens.read_grant(&text, &message(), behind).is_some();
    assert!(reads(&[a, b]));
    assert!(reads(&[a, uri("sip:x@B.example.;lr;x=y")]), "the same hop");
    for wrong in [
        &hops[..0],
        &[a],
        &[b],
        &[b, a],
        &[a, other],
        &[a, uri("sip:b.example:5070;lr")],
        // Without `lr` it would be the Request-URI of what the next hop sends on.
        &[a, uri("sip:b.example")],
        &[a, uri("sip:+1900@b.example")],
        &[a, b, other],
    ] {
        assert!(!reads(wrong), "{wrong:?}");
    }
}

#[test]
fn all_of_a_strict_route_behind_ours_is_bound() {
    let tokens = tokens();
    let hops = ["sip:a.example;lr", "sip:+4930@b.example;tgrp=x"].map(uri);
    let [a, b] = hops;
    let text = sealed(&tokens, |grant| grant.behind = &hops);
    let reads = |behind: &[Uri<'_>]| tokens.read_grant(&text, &message(), behind).is_some();
    assert!(reads(&[a, b]));
    assert!(reads(&[a, uri("sip:%2B4930@B.example;x=y;tgrp=x")]));
    for other in [
        "sip:+4930@b.example;lr;tgrp=x",
        "sip:+1900@b.example;tgrp=x",
        "sip:b.example;tgrp=x",
        "sip:+4930@b.example;tgrp=y",
        "sip:+4930@b.example",
        "sips:+4930@b.example;tgrp=x",
    ] {
        assert!(!reads(&[a, uri(other)]), "{other}");
    }
}

#[test]
fn a_connection_of_another_process_is_lost_and_its_dialog_is_not() {
    let before = tokens();
    let after = Tokens::new(Arc::new(TokenKeys::of([7; 32], 6)));
    let tcp = flow(Transport::Tcp, "192.0.2.7:40000", "192.0.2.1:5060", 9);
    let udp = flow(Transport::Udp, "192.0.2.7:40000", "192.0.2.1:5060", 0);
    for (flow, is_lost) in [(&tcp, true), (&udp, false)] {
        let text = sealed(&before, |grant| grant.flow = Some(flow));
        let token = read(&after, &text).unwrap();
        assert_eq!(token.is_flow_lost(), is_lost);
        assert_eq!(token.flow().is_none(), is_lost);
        assert_eq!(token.named_flow(), Some(flow));
        let mut text = Vec::new();
        before.write_flow(flow, &mut text);
        assert_eq!(after.read_flow(&text).is_none(), is_lost);
    }
}

#[test]
fn an_old_key_verifies_as_long_as_it_is_in_the_ring() {
    let key = |id| TokenKey {
        id,
        secret: [id; 32],
        created_unix_s: u64::from(id),
    };
    let keys = Arc::new(TokenKeys::new(key(1), Vec::new(), 5));
    let mut tokens = Tokens::new(Arc::clone(&keys));
    let first = sealed(&tokens, |_| {});
    keys.replace(key(2), vec![key(1)]);
    tokens.refresh();
    let second = sealed(&tokens, |_| {});
    assert_ne!(first, second);
    let token = read(&tokens, &first).unwrap();
    assert!(tokens.is_target(&token, &uri("sip:bob@203.0.113.9")));
    assert!(read(&tokens, &second).is_some());
    keys.replace(key(3), vec![key(2)]);
    tokens.refresh();
    assert!(read(&tokens, &first).is_none());
    assert!(read(&tokens, &second).is_some());
}

#[test]
fn a_key_is_needed_until_the_last_that_needs_it_and_the_ring_has_a_bound() {
    let key = |id: u8| TokenKey {
        id,
        secret: [id; 32],
        created_unix_s: 0,
    };
    let keys = TokenKeys::new(key(0), (1..200).map(key).collect(), 5);
    let ring = keys.ring();
    let kept: Vec<u8> = ring.older.iter().map(|key| key.id).collect();
    assert_eq!(kept, (1..TOKEN_KEYS_MAX as u8).collect::<Vec<_>>());
    for until_s in [1_000, 3_000, 2_000] {
        keys.need(1, until_s);
    }
    assert_eq!((keys.needed_until_s(1), keys.needed_until_s(2)), (3_000, 0));
}

#[test]
fn a_target_is_the_same_however_it_is_spelled() {
    let tokens = tokens();
    let target = uri("sip:bob@Phone.example:5070;transport=TCP;ob");
    let text = sealed(&tokens, |grant| grant.target = Some(&target));
    let token = read(&tokens, &text).unwrap();
    for (other, is_same) in [
        ("sip:bob@phone.EXAMPLE.:5070;x=y;transport=tcp", true),
        ("sip:%62ob@phone.example:5070;transport=tcp", true),
        ("sip:bob@phone.example:5070", false),
        ("sip:bob@phone.example:5071;transport=tcp", false),
        ("sip:bob@phone.example;transport=tcp", false),
        ("sip:Bob@phone.example:5070;transport=tcp", false),
        ("sips:bob@phone.example:5070;transport=tcp", false),
        (
            "sip:bob@phone.example:5070;transport=tcp;maddr=192.0.2.1",
            false,
        ),
        ("sip:phone.example:5070;transport=tcp", false),
        ("sip:bob:9@phone.example:5070;transport=tcp", false),
        ("sip:bob@phone.example:5070;transport=tcp;tgrp=1", false),
        ("sip:bob@phone.example:5070;transport=tcp;TGRP", false),
        (
            "sip:bob@phone.example:5070;transport=tcp;ob;cic=+11234",
            false,
        ),
    ] {
        assert_eq!(tokens.is_target(&token, &uri(other)), is_same, "{other}");
    }
}

#[test]
fn a_carrier_is_part_of_a_target() {
    let tokens = tokens();
    let target = uri("sip:+4930@gw.example;tgrp=A;cic=1");
    let text = sealed(&tokens, |grant| grant.target = Some(&target));
    let token = read(&tokens, &text).unwrap();
    for (other, is_same) in [
        ("sip:+4930@gw.example;x;Tgrp=a;cic=1;y=z", true),
        ("sip:+4930@gw.example;cic=1;tgrp=a", true),
        ("sip:+4930@gw.example;tgrp=a;cic=1;cic-context=+1", false),
        ("sip:+4930@gw.example;tgrp=b;cic=1", false),
        ("sip:+4930@gw.example;tgrp=a;tgrp=b;cic=1", false),
        ("sip:+4930@gw.example;tgrp=a", false),
        ("sip:+4930@gw.example", false),
    ] {
        assert_eq!(tokens.is_target(&token, &uri(other)), is_same, "{other}");
    }
}

#[test]
fn a_mark_goes_with_its_dialog_and_is_nobody_elses_to_write() {
    let tokens = tokens();
    let mark = Mark {
        trunk: tokens.trunk("provider"),
        counts: true,
        is_anonymous: false,
        is_inbound: false,
        invite: 4 * 7 + 1,
    };
    let other = Mark {
        trunk: tokens.trunk("other"),
        invite: 0,
        ..mark
    };
    let instance = Some(9);
    let second = [None, Some(other)];
    for (flow, from) in flows()
        .iter()
        .map(Some)
        .chain([None])
        .flat_map(|flow| second.map(|from| (flow, from)))
    {
        let marks = Marks::of(Some(mark), from);
        let text = sealed(&tokens, |grant| {
            (grant.marks, grant.flow, grant.instance) = (marks, flow, instance);
        });
        assert!(text.len() <= TEXT_MAX);
        let token = read(&tokens, &text).unwrap();
        assert_eq!((token.marks(), token.named_flow()), (marks, flow));
        assert!(tokens.is_trunk(&token, mark, "provider"));
        assert!(!tokens.is_trunk(&token, mark, "provider2"));
        assert!(tokens.is_trunk(&token, other, "other"));
        let last = text.len() - 1;
        for at in 0..=last {
            let mut forged = text.clone();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(read(&tokens, &forged), None, "byte {at}");
        }
    }
    let without = read(&tokens, &sealed(&tokens, |_| {})).unwrap();
    assert_eq!(without.marks(), None);
}
