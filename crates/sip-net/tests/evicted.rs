//! Connections that make room for others: which of them where phones may be dead, and what is
//! counted and concluded of it.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{Bench, Seen, any_port, closed, message, request, to};
use crate::tls_storm::World;
use sip_msg::{ConnId, Flow, Target, Transport};
use sip_net::clock::Clock;
use sip_net::ws::WebSocketRequest;
use sip_net::{CloseReason, ListenerConfig, NetConfig};
use sip_tls::{HandshakeConfig, HandshakePool};

const HOUR_MS: u64 = 3_600_000;

fn config(connections_max: usize) -> NetConfig {
    NetConfig {
        connections_max,
        evict_after_ms: 0,
        ..NetConfig::default()
    }
}

fn connected(server: &mut Bench) -> (TcpStream, Flow) {
    let stream = TcpStream::connect(server.addr()).unwrap();
    let flow = server.until(|seen| match seen {
        Seen::Accepted(flow) => Some(*flow),
        _ => None,
    });
    (stream, flow)
}

/// A phone that has registered.
fn phone(server: &mut Bench) -> (TcpStream, Flow) {
    let (mut stream, flow) = connected(server);
    stream.write_all(&request("x")).unwrap();
    server.until(message);
    let answer = b"SIP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n";
    server.net.send(&Target::back(&flow), answer, 0);
    server.net.flush();
    server.net.keep_for(flow.conn, HOUR_MS);
    (stream, flow)
}

fn evicted(server: &mut Bench) -> ConnId {
    server.until(|seen| match seen {
        Seen::Closed(conn, CloseReason::Evicted) => Some(*conn),
        _ => None,
    })
}

fn turn_until(server: &mut Bench, done: impl Fn(&Bench) -> bool) {
    let patience = Instant::now();
    while !done(server) {
        assert!(patience.elapsed() < Duration::from_secs(30));
        server.turn();
    }
}

/// After a power cut the table is full of connections whose phones are gone, and each phone that
/// comes back would be closed for the next one.
#[test]
fn where_all_are_registered_who_was_not_heard_for_long_goes_before_who_has_just_come() {
    let listener = ListenerConfig::new(Transport::Tcp, any_port("127.0.0.1"));
    let mut server = Bench::on_given_clock(&[listener], config(8));
    let mut phones: Vec<_> = (0..8).map(|_| phone(&mut server)).collect();
    // All but the last two show themselves, as they are asked to.
    for pings in 1..=2 {
        server.clock.pass(120_000);
        for (stream, _) in &mut phones[..6] {
            stream.write_all(b"\r\n\r\n").unwrap();
        }
        turn_until(&mut server, |server| {
            server.net.counters().pings == 6 * pings
        });
    }
    server.clock.pass(59_999);
    let first = connected(&mut server);
    let second = connected(&mut server);
    let mut gone = vec![evicted(&mut server), evicted(&mut server)];
    // For the first one a phone must go, for the second one the first.
    assert_eq!(gone, [phones[6].1.conn, first.1.conn]);
    server.clock.pass(1);
    let third = connected(&mut server);
    gone = vec![evicted(&mut server)];
    assert_eq!(gone, [phones[7].1.conn]);
    // No phone is left that may be dead: as ever.
    let fourth = connected(&mut server);
    assert_eq!(evicted(&mut server), second.1.conn);
    let counters = server.net.counters();
    assert_eq!((counters.evicted_unused, counters.evicted_bound), (2, 2));
    drop((third, fourth));
}

#[test]
fn a_handshake_that_made_room_is_evicted_and_not_refused() {
    let world = World::new();
    let pool = HandshakePool::start(HandshakeConfig::default()).unwrap();
    let config = NetConfig {
        handshakes: Some(pool.clone()),
        ..config(2)
    };
    let listener = ListenerConfig::tls(any_port("127.0.0.1"), Arc::clone(&world.tls));
    let mut server = Bench::with_clock(&[listener], config, Clock::given());
    let addr = server.addr();
    let three: Vec<_> = (0..3).map(|_| TcpStream::connect(addr).unwrap()).collect();
    assert_eq!(server.until(closed), CloseReason::Evicted);
    let now = server.net.counters();
    assert_eq!(now.closed[CloseReason::Evicted as usize], 1);
    assert_eq!(now.closed[CloseReason::Refused as usize], 0);
    assert_eq!((now.evicted_unused, now.refused_handshakes), (1, 0));
    assert_eq!((now.handshakes_failed, now.displaced_handshakes), (0, 0));
    // Among the ends of handshakes there is no other.
    assert_eq!((pool.counters().refused, pool.counters().under_way), (1, 2));
    drop(three);
}

/// That we had no room says nothing of who would have answered.
#[test]
fn an_evicted_connection_causes_no_backoff() {
    let ask = WebSocketRequest::new("example.com", "/", None).unwrap();
    let config = NetConfig {
        client_websocket: Some(Arc::new(ask)),
        reopen_backoff_max_ms: 60_000,
        ..config(1)
    };
    let outbound = ListenerConfig::outbound(Transport::Ws, any_port("127.0.0.1"));
    let mut client = Bench::on_given_clock(&[outbound], config);
    // Nobody waits for an answer to what is sent. They accept, and leave the request to make a
    // WebSocket of it unanswered.
    let response = b"SIP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n";
    let servers = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let mut accepted = Vec::new();
    for place in [0, 1, 0] {
        let addr = servers[place].local_addr().unwrap();
        client.net.send(&to(Transport::Ws, addr), response, 0);
        let bytes = |server: &Bench| server.net.counters().ws.bytes_out;
        let before = bytes(&client);
        turn_until(&mut client, |client| bytes(client) > before);
        accepted.push(servers[place].accept().unwrap());
    }
    let now = client.net.counters();
    assert_eq!((now.evicted_idle, now.open_backoffs), (2, 0));
    assert_eq!(now.open_failed, 2);
    assert_eq!(client.until(closed), CloseReason::Evicted);
}
