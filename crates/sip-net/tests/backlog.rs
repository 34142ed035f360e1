//! How long it takes until what a peer has sent is read.
#![allow(clippy::unwrap_used)]

use std::io::{ErrorKind, Write};
use std::net::TcpStream;

use crate::common::{Bench, any_port, request};
use sip_msg::Transport;
use sip_net::{ListenerConfig, NetConfig};

fn server() -> Bench {
    let listener = ListenerConfig::new(Transport::Tcp, any_port("127.0.0.1"));
    Bench::on_given_clock(&[listener], NetConfig::default())
}

/// Messages of so many bytes together.
fn messages(bytes: usize) -> Vec<u8> {
    let message = request(&"x".repeat(2_000));
    message.repeat(bytes / message.len())
}

/// A worker that is never through with a stream is no slow one for that.
#[test]
fn of_a_stream_with_more_to_read_it_is_told_how_long_that_waits() {
    let mut server = server();
    let mut peer = TcpStream::connect(server.addr()).unwrap();
    // The kernel gives a connection more room once it has carried something.
    for _ in 0..200 {
        peer.write_all(&messages(50_000)).unwrap();
        let before = server.net.counters().tcp.bytes_in;
        while server.net.counters().tcp.bytes_in == before || !server.net.is_drained() {
            server.turn();
        }
    }
    // A turn reads 64 KiB of it.
    peer.write_all(&messages(80_000)).unwrap();
    while server.net.is_drained() {
        server.turn();
    }
    assert_eq!(server.net.waiting_ms(), Some(0));
    // What is beyond the first turn is read 20 ms later. The next one reads twice as much: what
    // it had left, and what it is told of.
    peer.write_all(&messages(150_000)).unwrap();
    server.clock.pass(20);
    server.turn();
    assert_eq!(server.net.waiting_ms(), Some(20));
    server.clock.pass(7);
    while !server.net.is_drained() {
        server.turn();
    }
    assert_eq!(server.net.waiting_ms(), Some(0));
    peer.write_all(&messages(80_000)).unwrap();
    while server.net.is_drained() {
        server.turn();
    }
    assert_eq!(
        server.net.waiting_ms(),
        Some(0),
        "what was before does not count"
    );
}

#[test]
fn where_a_sender_has_to_wait_nobody_knows_for_how_long() {
    let mut server = server();
    let mut peer = TcpStream::connect(server.addr()).unwrap();
    peer.set_nonblocking(true).unwrap();
    let message = request(&"x".repeat(2_000));
    loop {
        match peer.write(&message) {
            Ok(len) if len == message.len() => {}
            Ok(_) => break,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    while server.net.is_drained() {
        server.turn();
    }
    assert_eq!(server.net.waiting_ms(), None);
    while !server.net.is_drained() {
        server.turn();
    }
    assert_eq!(server.net.waiting_ms(), Some(0));
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
    assert!(server.net.is_drained());
}
