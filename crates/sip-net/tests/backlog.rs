//! How long it takes until what a peer has sent is read.
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::common::{Bench, Seen, any_port, opened, request, to};
use sip_msg::{ConnId, Transport};
use sip_net::{ListenerConfig, NetConfig, NetEvent};

fn server() -> Bench {
    let listener = ListenerConfig::new(Transport::Tcp, any_port("127.0.0.1"));
    Bench::on_given_clock(&[listener], NetConfig::default())
}

/// Messages of so many bytes together.
fn messages(bytes: usize) -> Vec<u8> {
    let message = request(&"x".repeat(2_000));
    message.repeat(bytes / message.len())
}

/// Turns until so many bytes more were read.
fn read(server: &mut Bench, bytes: u64) {
    let before = server.net.counters().tcp.bytes_in;
    while server.net.counters().tcp.bytes_in < before + bytes {
        server.turn();
    }
}

/// A worker that is never through with a stream is no slow one for that.
#[test]
fn of_a_stream_with_more_to_read_it_is_told_how_long_that_waits() {
    // What a turn reads of a socket.
    const READ: u64 = 65_536;
    let mut server = server();
    let mut peer = TcpStream::connect(server.addr()).unwrap();
    // The kernel gives a connection more room once it has carried something.
    for _ in 0..200 {
        let sent = messages(50_000);
        peer.write_all(&sent).unwrap();
        read(&mut server, sent.len() as u64);
    }
    peer.write_all(&messages(80_000)).unwrap();
    read(&mut server, READ);
    assert_eq!(server.net.waiting_ms(), Some(0));
    // What is beyond the first turn is read 20 ms later. The next one reads twice as much: what
    // it had left, and what it is told of.
    peer.write_all(&messages(150_000)).unwrap();
    server.clock.pass(20);
    server.turn();
    assert_eq!(server.net.waiting_ms(), Some(20));
    while !server.net.is_drained() {
        server.turn();
    }
    assert_eq!(server.net.waiting_ms(), None);
    peer.write_all(&messages(80_000)).unwrap();
    read(&mut server, READ);
    assert_eq!(
        server.net.waiting_ms(),
        Some(0),
        "what was before does not count"
    );
}

/// There is only so much room for it here, and what waits with him is not seen.
#[test]
fn a_worker_that_streams_keep_busy_may_have_more_to_do_than_it_sees() {
    let mut server = server();
    let mut peer = TcpStream::connect(server.addr()).unwrap();
    let message = request("x");
    for _ in 0..10 {
        peer.write_all(&message).unwrap();
        read(&mut server, message.len() as u64);
        // No time has passed between this turn and the one before.
        assert!(server.net.may_more_wait() && !server.net.is_drained());
    }
    server.turn();
    assert!(server.net.is_drained() && !server.net.may_more_wait());
}

/// However little each of many streams has, and though a turn reads all of it.
#[test]
fn what_comes_on_streams_while_a_turn_lasts_waits_for_its_end() {
    let mut server = server();
    let mut peer = TcpStream::connect(server.addr()).unwrap();
    peer.write_all(&request("x")).unwrap();
    let mut is_read = false;
    while !is_read {
        let clock = server.clock.clone();
        let poll = server.net.poll(Some(Duration::ZERO), |event| {
            if matches!(event, NetEvent::Message { .. }) {
                is_read = true;
                clock.pass(60);
            }
        });
        poll.unwrap();
    }
    // What has come in those 60 ms is read now.
    peer.write_all(&request("y")).unwrap();
    read(&mut server, 1);
    assert_eq!(server.net.waiting_ms(), Some(60));
    server.turn();
    server.turn();
    assert!(server.net.is_drained());
}

/// More sockets than the kernel tells of at a time.
#[test]
fn of_sockets_that_a_turn_heard_nothing_of_it_is_known_when_the_last_did() {
    let mut server = server();
    let mut peers: Vec<TcpStream> = Vec::new();
    while peers.len() < 1_100 {
        for _ in 0..100 {
            peers.push(TcpStream::connect(server.addr()).unwrap());
        }
        while server.net.connection_count() < peers.len() {
            server.turn();
        }
    }
    assert!(server.net.is_drained());
    let message = request("x");
    for peer in &mut peers {
        peer.write_all(&message).unwrap();
    }
    server.clock.pass(30);
    server.turn();
    assert!(!server.net.is_drained());
    assert_eq!(server.net.waiting_ms(), Some(30));
    server.turn();
    server.turn();
    assert!(server.net.is_drained());
}

/// Whoever sends without end, on however many connections, has no more than his turn.
#[test]
fn streams_take_turns_and_what_this_side_opened_has_one_each_time() {
    // What a turn reads of a socket, and of those that others opened.
    const READ: usize = 65_536;
    const TURN: usize = 2 * READ;
    let mut server = server();
    let gateway = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = to(Transport::Tcp, gateway.local_addr().unwrap());
    server.net.send(&target, &request("to the gateway"), 0);
    server.net.flush();
    server.until(opened);
    let (mut gateway, _) = gateway.accept().unwrap();
    let mut peers: Vec<TcpStream> = (0..8)
        .map(|_| TcpStream::connect(server.addr()).unwrap())
        .collect();
    while server.net.connection_count() < 9 {
        server.turn();
    }
    // Each peer always has more than a turn reads of it; the last has one message.
    let (last, busy) = peers.split_last_mut().unwrap();
    for peer in busy.iter_mut() {
        peer.set_nonblocking(true).unwrap();
    }
    let message = request(&"x".repeat(2_000));
    let mut at = vec![0; busy.len()];
    let mut fill = |busy: &mut [TcpStream]| {
        for (peer, at) in busy.iter_mut().zip(&mut at) {
            while let Ok(len) = peer.write(&message[*at..]) {
                *at = (*at + len) % message.len();
            }
        }
    };
    let mut heard: HashSet<ConnId> = HashSet::new();
    for turn in 0..40 {
        fill(busy);
        if turn == 20 {
            last.write_all(&request("the last")).unwrap();
            heard.clear();
        }
        gateway.write_all(&request("from the gateway")).unwrap();
        let before = server.net.counters().tcp.bytes_in as usize;
        server.seen.clear();
        server.turn();
        let read = server.net.counters().tcp.bytes_in as usize - before;
        assert!(read < TURN + 2 * READ, "{read} in turn {turn}");
        let of_gateway = |seen: &Seen| matches!(seen, Seen::Message(_, bytes) if bytes == &request("from the gateway"));
        assert!(server.seen.iter().any(of_gateway), "turn {turn}");
        heard.extend(server.seen.iter().filter_map(|seen| match seen {
            Seen::Message(flow, _) => Some(flow.conn),
            _ => None,
        }));
    }
    assert_eq!(heard.len(), 9, "each has had a turn");
}

/// Else a stranger whose bytes are read and forgotten would have everybody refused.
#[test]
fn what_is_read_to_be_forgotten_does_not_wait() {
    let mut server = server();
    let mut peer = TcpStream::connect(server.addr()).unwrap();
    peer.set_nonblocking(true).unwrap();
    let garbage = vec![b'x'; 65_536];
    for _ in 0..8 {
        while peer.write(&garbage).is_ok_and(|len| len > 0) {}
        server.turn();
        server.clock.pass(100);
        // As long as the turn took.
        assert!(server.net.waiting_ms() <= Some(100));
    }
}

#[test]
fn streams_that_this_side_opened_have_a_bound_together() {
    const BOUND: usize = 1024 * 1024;
    let mut server = server();
    let gateways: Vec<TcpListener> = (0..48)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    for gateway in &gateways {
        let target = to(Transport::Tcp, gateway.local_addr().unwrap());
        server.net.send(&target, &request("to the gateway"), 0);
    }
    server.net.flush();
    let mut peers: Vec<TcpStream> = gateways
        .iter()
        .map(|gateway| gateway.accept().unwrap().0)
        .collect();
    while server.net.counters().opened < 48 {
        server.turn();
    }
    let message = messages(60_000);
    for peer in &mut peers {
        peer.write_all(&message).unwrap();
    }
    let all = peers.len() * message.len();
    let begun = server.net.counters().tcp.bytes_in as usize;
    let mut before = begun;
    while before < begun + all {
        server.turn();
        let now = server.net.counters().tcp.bytes_in as usize;
        assert!(now - before < BOUND + 131_072, "{}", now - before);
        before = now;
    }
}
