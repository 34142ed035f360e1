//! Several connections to one peer, connections of a call's own, and how long
//! a peer is left alone that cannot be reached.
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::net::TcpListener;
use std::sync::Arc;

use crate::common::*;
use sip_msg::{ConnId, Lane, ListenerId, Target, Transport};
use sip_net::{CloseReason, ListenerConfig, NetConfig, SendError};
use sip_tls::testing::TestCa;
use sip_tls::{ClientTls, HandshakeConfig, HandshakePool, PeerEntry, PeerTls, ServerTls};

fn client(config: NetConfig) -> Bench {
    let listener = ListenerConfig::outbound(Transport::Tcp, any_port("127.0.0.1"));
    Bench::new(&[listener], config)
}

fn client_on_given_clock(config: NetConfig) -> Bench {
    let listener = ListenerConfig::outbound(Transport::Tcp, any_port("127.0.0.1"));
    Bench::on_given_clock(&[listener], config)
}

fn on(lane: Lane, target: &Target) -> Target {
    Target {
        lane,
        ..target.clone()
    }
}

/// Sends on a lane; the connection on which the server got it.
fn send(client: &mut Bench, server: &mut Bench, lane: Lane, target: &Target) -> ConnId {
    client.net.send(&on(lane, target), &request("x"), 1);
    server.until_with(&mut [client], message).0.conn
}

#[test]
fn each_of_several_lanes_is_opened_once_and_again_when_it_died() {
    let mut server = Bench::on(Transport::Tcp, "127.0.0.1");
    let mut client = client(NetConfig::default());
    let target = to(Transport::Tcp, server.addr());
    let lanes = [Lane::Shared, Lane::Nth(1), Lane::Nth(2), Lane::Nth(3)];
    let conns: Vec<ConnId> = lanes
        .map(|lane| send(&mut client, &mut server, lane, &target))
        .into();
    assert_eq!(conns.iter().collect::<HashSet<_>>().len(), 4);
    assert_eq!(
        send(&mut client, &mut server, Lane::Nth(2), &target),
        conns[2]
    );
    assert_eq!(
        send(&mut client, &mut server, Lane::Nth(0), &target),
        conns[0]
    );
    assert_eq!(client.net.connection_count(), 4);

    server.net.close(conns[2], false);
    client.until_with(&mut [&mut server], closed);
    let again = send(&mut client, &mut server, Lane::Nth(2), &target);
    assert!(!conns.contains(&again));
    assert_eq!(
        send(&mut client, &mut server, Lane::Nth(3), &target),
        conns[3]
    );
    assert_eq!(server.net.counters().accepted, 5);
}

#[test]
fn the_addresses_that_a_message_leaves_by_are_those_which_the_peer_sees() {
    let mut server = Bench::on(Transport::Tcp, "127.0.0.1");
    let mut client = client(NetConfig::default());
    let target = to(Transport::Tcp, server.addr());
    assert_eq!(client.net.ends_for(&target), None, "there is no connection");
    let mut seen = HashSet::new();
    for lane in [Lane::Shared, Lane::Nth(1), Lane::Call(7)] {
        let target = on(lane, &target);
        client.net.send(&target, &request("x"), 1);
        // It is known at once, while the connection is being opened.
        let ends = client.net.ends_for(&target);
        let flow = server.until_with(&mut [&mut client], message).0;
        assert_eq!(ends, Some((flow.remote, flow.local)));
        seen.insert(flow.remote);
        let mut back = Target::back(&flow);
        let seen_by_server = Some((flow.local, flow.remote));
        assert_eq!(server.net.ends_for(&back), seen_by_server);
        // RFC 3261 18.2.2: an answer's target has the port in Via, for the case that the
        // connection is gone.
        back.remote.set_port(5060);
        assert_eq!(server.net.ends_for(&back), seen_by_server);
    }
    assert_eq!(seen.len(), 3);
    let elsewhere = on(Lane::Call(8), &target);
    let shared = client.net.ends_for(&target);
    assert_eq!(client.net.ends_for(&elsewhere), shared);
    let one_flow = Target {
        may_open: false,
        ..target
    };
    assert_eq!(client.net.ends_for(&one_flow), None);
}

#[test]
fn a_datagram_leaves_from_its_listener() {
    let all = ListenerConfig::new(Transport::Udp, any_port("0.0.0.0"));
    let one = ListenerConfig::new(Transport::Udp, any_port("127.0.0.1"));
    let bench = Bench::new(&[all, one], NetConfig::default());
    let mut target = to(Transport::Udp, "127.0.0.1:9".parse().unwrap());
    let port = |listener| bench.net.local_addr(ListenerId(listener)).unwrap().port();
    let local = |target: &Target| {
        let ends = bench.net.ends_for(target);
        ends.map(|(local, _)| local.to_string())
    };
    assert_eq!(local(&target), Some(format!("0.0.0.0:{}", port(0))));
    target.local = Some("127.0.0.7".parse().unwrap());
    assert_eq!(local(&target), Some(format!("127.0.0.7:{}", port(0))));
    target.listener = ListenerId(1);
    assert_eq!(local(&target), Some(format!("127.0.0.1:{}", port(1))));
    target.remote = "[::1]:9".parse().unwrap();
    assert_eq!(local(&target), None, "no way leads there from it");
}

#[test]
fn a_call_has_its_own_connection_until_its_end() {
    let mut server = Bench::on(Transport::Tcp, "127.0.0.1");
    let mut client = client(NetConfig::default());
    let target = to(Transport::Tcp, server.addr());
    let first = send(&mut client, &mut server, Lane::Call(7), &target);
    let second = send(&mut client, &mut server, Lane::Call(8), &target);
    assert_ne!(first, second);
    for lane in [Lane::OfCall(7), Lane::Call(7)] {
        assert_eq!(send(&mut client, &mut server, lane, &target), first);
    }
    // What has no call takes neither, and a call that has none takes the shared one.
    let shared = send(&mut client, &mut server, Lane::Shared, &target);
    assert!(![first, second].contains(&shared));
    assert_eq!(
        send(&mut client, &mut server, Lane::OfCall(9), &target),
        shared
    );
    assert_eq!(client.net.counters().opened_for_calls, 2);

    // What is queued still arrives, then that connection alone is closed.
    client
        .net
        .send(&on(Lane::OfCall(7), &target), &request("last"), 0);
    client.net.end_call(7);
    client.net.end_call(7);
    assert_eq!(
        server.until_with(&mut [&mut client], message).1,
        request("last")
    );
    assert_eq!(
        server.until_with(&mut [&mut client], closed),
        CloseReason::Peer
    );
    assert_eq!(server.net.connection_count(), 2);
    assert_eq!(
        send(&mut client, &mut server, Lane::OfCall(7), &target),
        shared
    );
    assert_eq!(
        send(&mut client, &mut server, Lane::OfCall(8), &target),
        second
    );
}

#[test]
fn past_the_bound_calls_share_one_connection() {
    let mut server = Bench::on(Transport::Tcp, "127.0.0.1");
    let mut client = client(NetConfig {
        call_connections_max: 2,
        ..NetConfig::default()
    });
    let target = to(Transport::Tcp, server.addr());
    let conns: Vec<ConnId> = (0..5)
        .map(|call| send(&mut client, &mut server, Lane::Call(call), &target))
        .collect();
    assert_eq!(conns.iter().collect::<HashSet<_>>().len(), 3);
    assert_eq!(conns[2..], [conns[2]; 3]);
    let counters = client.net.counters();
    assert_eq!((counters.opened_for_calls, counters.calls_shared), (2, 3));
    // The end of one makes room for another.
    client.net.end_call(0);
    let next = send(&mut client, &mut server, Lane::Call(9), &target);
    assert!(!conns.contains(&next));
}

#[test]
fn a_call_that_falls_silent_is_closed_before_others() {
    let mut server = Bench::on(Transport::Tcp, "127.0.0.1");
    let mut client = client_on_given_clock(NetConfig {
        call_idle_timeout_ms: 60_000,
        ..NetConfig::default()
    });
    let target = to(Transport::Tcp, server.addr());
    send(&mut client, &mut server, Lane::Shared, &target);
    send(&mut client, &mut server, Lane::Call(1), &target);
    assert_eq!(client.closed_after(60_000), CloseReason::Idle);
    assert_eq!(client.net.connection_count(), 1);
    send(&mut client, &mut server, Lane::Call(1), &target);
    assert_eq!(server.net.counters().accepted, 3);
}

#[test]
fn over_tls_a_call_keeps_its_connection_for_names_in_the_same_certificate() {
    // The Contact of a gateway often has its address where the route has its
    // name. Whoever is not in its certificate is somebody else.
    let ca = TestCa::new();
    let (chain, key) = ca.issue(&["gw.example.com", "gw2.example.com", "127.0.0.1"]);
    let tls = ServerTls::from_pem(&[(chain.as_bytes(), key.as_bytes())]).unwrap();
    let mut server = tls_server(tls);
    let mut client = tls_client(ClientTls::from_pem(&[ca.root_pem().as_bytes()]).unwrap());
    let by = |name: &str| named(server.addr(), name);
    let targets = [
        by("gw.example.com"),
        by("127.0.0.1"),
        by("GW2.example.com"),
        by("evil.example.com"),
    ];
    let own = send(&mut client, &mut server, Lane::Call(1), &targets[0]);
    for target in &targets[..3] {
        assert_eq!(send(&mut client, &mut server, Lane::OfCall(1), target), own);
    }
    client
        .net
        .send(&on(Lane::OfCall(1), &targets[3]), &request("x"), 5);
    let failed = client.until_with(&mut [&mut server], send_failed);
    assert_eq!(failed, (5, SendError::Closed(CloseReason::Handshake)));
    assert_eq!(client.net.connection_count(), 1);
}

/// A name with roots of its own is proved by these alone, and they prove no other.
#[test]
fn over_tls_a_call_keeps_its_connection_for_names_that_are_called_by_the_same_settings_alone() {
    let (ca, elsewhere) = (TestCa::new(), TestCa::named("Another CA"));
    let (chain, key) = ca.issue(&["gw.example.com", "own.example.com", "127.0.0.1"]);
    let tls = ServerTls::from_pem(&[(chain.as_bytes(), key.as_bytes())]).unwrap();
    let mut server = tls_server(tls);
    let addr = server.addr();
    let trusting = |ca: &TestCa| {
        let tls = ClientTls::from_pem(&[ca.root_pem().as_bytes()]);
        Arc::new(tls.unwrap())
    };
    for (all, own, first, other) in [
        (&ca, &elsewhere, "gw.example.com", "own.example.com"),
        (&elsewhere, &ca, "own.example.com", "gw.example.com"),
    ] {
        let peers = PeerTls::new();
        let entry = PeerEntry {
            tls: trusting(own),
            expect: None,
        };
        peers.replace([("own.example.com".to_owned(), entry)]);
        let config = NetConfig {
            client_tls: Some(trusting(all)),
            peers: Some(peers),
            handshakes: Some(HandshakePool::start(HandshakeConfig::default()).unwrap()),
            ..NetConfig::default()
        };
        let listener = ListenerConfig::outbound(Transport::Tls, any_port("127.0.0.1"));
        let mut client = Bench::new(&[listener], config);
        let [first, other, address] = [first, other, "127.0.0.1"].map(|name| named(addr, name));
        let conn = send(&mut client, &mut server, Lane::Call(1), &first);
        assert_eq!(
            send(&mut client, &mut server, Lane::OfCall(1), &address),
            conn
        );
        client
            .net
            .send(&on(Lane::OfCall(1), &other), &request("x"), 5);
        let failed = client.until_with(&mut [&mut server], send_failed);
        assert_eq!(failed, (5, SendError::Closed(CloseReason::Handshake)));
        assert_eq!(client.net.connection_count(), 1);
    }
}

#[test]
fn a_peer_that_cannot_be_reached_is_left_alone_for_a_while() {
    let closed_port = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let mut client = client_on_given_clock(NetConfig {
        reopen_backoff_max_ms: 10_000,
        ..NetConfig::default()
    });
    let target = to(Transport::Tcp, closed_port);
    let refused = (1, SendError::Closed(CloseReason::ConnectFailed));
    for _ in 0..2 {
        client.net.send(&target, &request("x"), 1);
    }
    assert_eq!(client.until(send_failed), refused);
    assert_eq!(client.until(send_failed), refused);
    assert_eq!(client.net.counters().open_failed, 1, "both waited for one");
    client.net.send(&target, &request("x"), 1);
    assert_eq!(client.until(send_failed), refused);
    let counters = client.net.counters();
    assert_eq!((counters.open_failed, counters.open_backoffs), (1, 1));

    // It comes up, and is tried again as soon as the wait is over, and not before.
    let listener = ListenerConfig::new(Transport::Tcp, closed_port);
    let mut server = Bench::new(&[listener], NetConfig::default());
    assert_eq!(server.net.local_addr(ListenerId(0)), Some(closed_port));
    client.net.send(&target, &request("too soon"), 1);
    assert_eq!(client.until(send_failed), refused);
    client.clock.pass(10_000);
    client.turn();
    client.net.send(&target, &request("late"), 1);
    let (_, late) = server.until_with(&mut [&mut client], message);
    assert_eq!(late, request("late"));
    // Whoever asks for a connection by itself does not wait.
    drop(server);
    client.until(closed);
    client.seen.clear();
    for _ in 0..3 {
        client.net.open(&target).unwrap();
        client.until(closed);
    }
}
