use std::collections::BTreeSet;
use std::num::NonZeroU8;
use std::sync::Arc;

use sip_msg::Limits;

use super::*;
use crate::routes::{Gateway, GatewayGroup, NextHop};

const SEVERAL: Connections = Connections::Kept(NonZeroU8::new(4).unwrap());

fn lanes(connections: Connections) -> Lanes {
    let next_hop = NextHop {
        host: Arc::from("gw.example.com"),
        port: None,
        transport: None,
        connections,
    };
    let gateway = Gateway {
        next_hop,
        priority: 0,
        weight: 1,
    };
    let group = GatewayGroup {
        gateways: vec![gateway],
        ..GatewayGroup::default()
    };
    let mut settings = Settings::default();
    settings.routes.groups.push(group);
    Lanes::new([7; 16], &settings)
}

fn message(method: &str, call_id: &str, tag: &str) -> Message {
    let text = format!(
        "{method} sip:bob@gw.example.com SIP/2.0\r\nVia: SIP/2.0/TCP a.example;branch=z9hG4bK1\r\n\
         From: <sip:a@a.example>;tag=1\r\nTo: <sip:bob@gw.example.com>{tag}\r\n\
         Call-ID: {call_id}\r\nCSeq: 1 {method}\r\n\r\n"
    );
    Message::parse(text.as_bytes(), &Limits::default()).unwrap()
}

fn gateway() -> SocketAddr {
    "192.0.2.9:5061".parse().unwrap()
}

#[test]
fn calls_spread_over_several_and_a_call_keeps_to_one() {
    let mut lanes = lanes(SEVERAL);
    let mut seen = BTreeSet::new();
    for n in 0..100 {
        let call = n.to_string();
        let mut lane = |method, configured| {
            let request = message(method, &call, if method == "BYE" { ";tag=2" } else { "" });
            lanes.lane(Transport::Tls, gateway(), configured, Some(&request))
        };
        let invite = lane("INVITE", Some(SEVERAL));
        // Within the dialog the way is an address, and no route is asked.
        assert_eq!(lane("BYE", None), invite);
        let Lane::Nth(nth) = invite else {
            panic!("{invite:?}");
        };
        seen.insert(nth);
    }
    assert_eq!(seen, BTreeSet::from([0, 1, 2, 3]));
}

#[test]
fn a_call_of_its_own_begins_with_its_invite() {
    let mut lanes = lanes(Connections::PerCall);
    let mut lane = |method, tag| {
        let request = message(method, "c", tag);
        let configured = tag.is_empty().then_some(Connections::PerCall);
        lanes.lane(Transport::Tcp, gateway(), configured, Some(&request))
    };
    let Lane::Call(call) = lane("INVITE", "") else {
        panic!();
    };
    assert_eq!(lane("ACK", ";tag=2"), Lane::OfCall(call));
    assert_eq!(lane("INVITE", ";tag=2"), Lane::OfCall(call));
    assert_eq!(lane("BYE", ";tag=2"), Lane::OfCall(call));
    assert_eq!(lane("OPTIONS", ""), Lane::OfCall(call));
    let other = message("INVITE", "d", "");
    let mut lane_to =
        |transport, addr, configured| lanes.lane(transport, addr, configured, Some(&other));
    assert_ne!(
        lane_to(Transport::Tcp, gateway(), Some(Connections::PerCall)),
        Lane::Call(call)
    );
    // Datagrams have no connections, and of others nothing was configured.
    let per_call = Some(Connections::PerCall);
    assert_eq!(lane_to(Transport::Udp, gateway(), per_call), Lane::Shared);
    let elsewhere = "192.0.2.8:5061".parse().unwrap();
    assert_eq!(lane_to(Transport::Tcp, elsewhere, None), Lane::Shared);
}

#[test]
fn a_full_table_begins_anew_at_a_reload_and_the_usual_is_not_remembered() {
    let mut lanes = lanes(SEVERAL);
    let bye = message("BYE", "c", ";tag=2");
    for n in 0..2 * NEIGHBOURS_MAX as u32 {
        let addr = SocketAddr::from((n.to_be_bytes(), 5060));
        lanes.lane(Transport::Tcp, addr, Some(SEVERAL), Some(&bye));
    }
    assert_eq!(lanes.neighbours.len(), NEIGHBOURS_MAX);
    lanes.reload(&Settings::default());
    assert!(lanes.neighbours.is_empty());
    let usual = Some(Connections::default());
    let lane = lanes.lane(Transport::Tcp, gateway(), usual, Some(&bye));
    assert_eq!((lane, lanes.neighbours.len()), (Lane::Shared, 0));
}

#[test]
fn a_call_stays_on_its_connection_over_a_reload() {
    let (invite, bye) = (message("INVITE", "c", ""), message("BYE", "c", ";tag=2"));
    for connections in [SEVERAL, Connections::PerCall] {
        let mut lanes = lanes(connections);
        let lane = |lanes: &mut Lanes, configured, request: &Message| {
            lanes.lane(Transport::Tls, gateway(), configured, Some(request))
        };
        lane(&mut lanes, Some(connections), &invite);
        let before = lane(&mut lanes, None, &bye);
        assert_ne!(before, Lane::Shared);
        // Even where the neighbour is gone from the configuration.
        lanes.reload(&Settings::default());
        assert_eq!(lane(&mut lanes, None, &bye), before);
        assert_eq!(lane(&mut lanes, None, &message("CANCEL", "c", "")), before);
        // What begins goes as to anybody whom the configuration does not name.
        assert_eq!(lane(&mut lanes, None, &invite), Lane::Shared);
        let is_closed = lanes.ended_call(&bye, 200).is_some();
        assert_eq!(is_closed, connections == Connections::PerCall);
        // A new call says how the neighbour is reached now.
        let usual = Some(Connections::default());
        assert_eq!(lane(&mut lanes, usual, &invite), Lane::Shared);
        assert_eq!(lane(&mut lanes, None, &bye), Lane::Shared);
    }
}

#[test]
fn a_call_ends_with_its_refusal_or_with_its_bye() {
    let per_call = lanes(Connections::PerCall);
    for (method, tag, status, ends) in [
        ("INVITE", "", 486, true),
        ("INVITE", "", 200, false),
        ("INVITE", ";tag=2", 488, false),
        ("BYE", ";tag=2", 200, true),
        ("BYE", ";tag=2", 481, true),
        ("BYE", ";tag=2", 407, false),
        ("UPDATE", ";tag=2", 500, false),
    ] {
        let request = message(method, "c", tag);
        let ended = per_call.ended_call(&request, status);
        assert_eq!(ended.is_some(), ends, "{method}{tag} {status}");
        assert_eq!(lanes(SEVERAL).ended_call(&request, status), None);
    }
}
