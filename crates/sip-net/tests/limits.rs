//! Too many connections: which of them makes room for a new one, and when the
//! new one is refused.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;

use common::*;
use sip_msg::{Flow, Target, Transport};
use sip_net::testing::TestCa;
use sip_net::{
    CloseReason, HandshakeConfig, HandshakePool, ListenerConfig, NetConfig, SendError, ServerTls,
};

const HOUR_MS: u64 = 3_600_000;

fn server(connections_max: usize, evict_after_ms: u64) -> Bench {
    let config = NetConfig {
        connections_max,
        evict_after_ms,
        ..NetConfig::default()
    };
    let listener = ListenerConfig::new(Transport::Tcp, any_port("127.0.0.1"));
    Bench::new(&[listener], config)
}

fn accepted(seen: &Seen) -> Option<Flow> {
    match seen {
        Seen::Accepted(flow) => Some(*flow),
        _ => None,
    }
}

/// Connects, and has a request answered if it `talks`.
fn phone(server: &mut Bench, talks: bool) -> (TcpStream, Flow) {
    let mut stream = TcpStream::connect(server.addr()).unwrap();
    let flow = server.until(accepted);
    if talks {
        stream.write_all(&request("x")).unwrap();
        assert_eq!(server.message().0, flow);
        answer(server, &flow);
    }
    (stream, flow)
}

fn answer(server: &mut Bench, flow: &Flow) {
    server.net.send(
        &Target::back(flow),
        b"SIP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        0,
    );
    server.net.flush();
}

/// Whether the server has closed a connection.
fn is_closed(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).is_ok()
}

fn evicted(server: &mut Bench) -> sip_msg::ConnId {
    server.until(|seen| match seen {
        Seen::Closed(conn, CloseReason::Evicted) => Some(*conn),
        _ => None,
    })
}

#[test]
fn the_least_useful_idle_connection_makes_room() {
    let mut server = server(4, 0);
    let (_bound_stream, bound) = phone(&mut server, true);
    let (mut first_stream, first) = phone(&mut server, true);
    let (mut second_stream, second) = phone(&mut server, true);
    let (mut silent_stream, silent) = phone(&mut server, false);
    server.net.keep_for(bound.conn, HOUR_MS);
    let mut newer = Vec::new();
    // The one that was never used, though it is the newest; then those that
    // were used least lately; of the newer ones none.
    for (expected, stream) in [
        (silent, &mut silent_stream),
        (first, &mut first_stream),
        (second, &mut second_stream),
    ] {
        newer.push(phone(&mut server, true));
        assert_eq!(evicted(&mut server), expected.conn);
        assert!(is_closed(stream));
    }
    assert_eq!(server.net.connection_count(), 4);
    let counters = server.net.counters();
    assert_eq!(counters.refused_total, 0);
    assert_eq!((counters.evicted_unused, counters.evicted_idle), (1, 2));
    assert_eq!(counters.evicted_bound, 0);
}

#[test]
fn registered_phones_stay_until_nothing_else_is_left() {
    let mut server = server(3, 0);
    let phones: Vec<(TcpStream, Flow)> = (0..3).map(|_| phone(&mut server, true)).collect();
    for (_, flow) in &phones[..2] {
        server.net.keep_for(flow.conn, HOUR_MS);
    }
    let (_fourth_stream, fourth) = phone(&mut server, true);
    assert_eq!(evicted(&mut server), phones[2].1.conn);
    server.net.keep_for(fourth.conn, HOUR_MS);
    // All are registered: the one that was silent longest goes.
    let _fifth = phone(&mut server, true);
    assert_eq!(evicted(&mut server), phones[0].1.conn);
    let counters = server.net.counters();
    assert_eq!((counters.evicted_idle, counters.evicted_bound), (1, 1));
    // One whose time is over is like any other.
    server.net.keep_for(phones[1].1.conn, 0);
    let _sixth = phone(&mut server, true);
    assert_ne!(evicted(&mut server), fourth.conn);
}

#[test]
fn where_all_are_in_use_the_new_one_is_refused() {
    let mut server = server(2, 0);
    let mut streams = Vec::new();
    let mut flows = Vec::new();
    for _ in 0..2 {
        let (mut stream, flow) = phone(&mut server, false);
        stream.write_all(&request("x")).unwrap();
        server.message();
        streams.push(stream);
        flows.push(flow);
    }
    let mut refused = TcpStream::connect(server.addr()).unwrap();
    while server.net.counters().refused_total == 0 {
        server.turn();
    }
    assert!(is_closed(&mut refused));
    // Nor is one opened.
    let elsewhere = Bench::on(Transport::Tcp, "127.0.0.1");
    let target = to(Transport::Tcp, elsewhere.addr());
    server.net.send(&target, &request("x"), 5);
    assert_eq!(server.until(send_failed), (5, SendError::Full));
    // An answer later one of them is idle.
    answer(&mut server, &flows[1]);
    server.net.send(&target, &request("x"), 5);
    assert_eq!(evicted(&mut server), flows[1].conn);
    assert_eq!(server.net.connection_count(), 2);
}

#[test]
fn what_was_used_a_moment_ago_is_not_given_up() {
    let mut server = server(1, HOUR_MS);
    let (_stream, _) = phone(&mut server, true);
    let mut refused = TcpStream::connect(server.addr()).unwrap();
    while server.net.counters().refused_total == 0 {
        server.turn();
    }
    assert!(is_closed(&mut refused));
    assert_eq!(server.net.connection_count(), 1);
}

#[test]
fn a_flood_of_silent_connections_does_not_shut_a_registered_phone_out() {
    let mut server = server(8, 2_000);
    let (mut stream, flow) = phone(&mut server, true);
    server.net.keep_for(flow.conn, HOUR_MS);
    // Nor one that is not registered, while it is in use.
    let (mut other_stream, other) = phone(&mut server, true);
    let mut flood = Vec::new();
    for _ in 0..100 {
        flood.push(phone(&mut server, false));
        other_stream.write_all(&request("in use")).unwrap();
        assert_eq!(server.message().0, other);
        answer(&mut server, &other);
    }
    let counters = server.net.counters();
    assert_eq!((counters.evicted_unused, counters.refused_total), (94, 0));
    // It is still there, and a newcomer gets in too.
    stream.write_all(&request("still")).unwrap();
    assert_eq!(server.message(), (flow, request("still")));
    phone(&mut server, true);
}

#[test]
fn what_was_said_of_an_evicted_connection_is_not_said_of_its_successor() {
    let ca = TestCa::new();
    let (chain, key) = ca.issue(&["example.com"]);
    let tls = ServerTls::from_pem(&[(chain.as_bytes(), key.as_bytes())]).unwrap();
    let config = NetConfig {
        connections_max: 1,
        evict_after_ms: 0,
        handshakes: Some(HandshakePool::start(HandshakeConfig::default()).unwrap()),
        ..NetConfig::default()
    };
    let listeners = [
        ListenerConfig::tls(any_port("127.0.0.1"), std::sync::Arc::new(tls)),
        ListenerConfig::new(Transport::Tcp, any_port("127.0.0.1")),
    ];
    let mut server = Bench::new(&listeners, config);
    let plain = server.net.local_addr(sip_msg::ListenerId(1)).unwrap();
    let mut old = TcpStream::connect(plain).unwrap();
    let flow = server.until(accepted);
    old.write_all(&request("x")).unwrap();
    assert_eq!(server.message().0, flow);
    answer(&mut server, &flow);

    // In one turn: a new one comes, takes the old one's place, and the old one
    // says goodbye.
    let new = TcpStream::connect(server.addr()).unwrap();
    old.shutdown(std::net::Shutdown::Both).unwrap();
    assert_eq!(evicted(&mut server), flow.conn);
    for _ in 0..20 {
        server.turn();
    }
    assert_eq!(server.net.connection_count(), 1);
    assert_eq!(server.net.counters().handshakes_failed, 0);
    drop(new);
}
