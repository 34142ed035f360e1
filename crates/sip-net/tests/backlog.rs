//! How long it takes until what a peer has sent is read.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use crate::common::{Bench, any_port, request};
use sip_msg::Transport;
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
    assert_eq!(server.net.waiting_ms(), Some(0), "what was before does not count");
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
