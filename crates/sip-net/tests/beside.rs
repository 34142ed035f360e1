//! Sockets to servers beside SIP.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use crate::common::*;
use sip_msg::Transport;
use sip_net::testing::uninterrupted;

fn bench() -> Bench {
    Bench::on(Transport::Udp, "127.0.0.1")
}

fn server() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind(any_port("127.0.0.1")).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let addr = socket.local_addr().unwrap();
    (socket, addr)
}

/// What a server gets, and from where.
fn asked(server: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = [0; 65_535];
    let (len, from) = uninterrupted(|| server.recv_from(&mut buffer)).unwrap();
    (buffer[..len].to_vec(), from)
}

fn beside(seen: &Seen) -> Option<(SocketAddr, Vec<u8>)> {
    match seen {
        Seen::Beside(from, bytes) => Some((*from, bytes.clone())),
        _ => None,
    }
}

fn refused(seen: &Seen) -> Option<SocketAddr> {
    match seen {
        Seen::BesideRefused(to) => Some(*to),
        _ => None,
    }
}

#[test]
fn each_server_has_a_socket_of_its_own_and_nobody_else_is_heard() {
    let mut bench = bench();
    let (one, one_addr) = server();
    let (other, other_addr) = server();
    bench.net.send_beside(one_addr, b"first");
    bench.net.send_beside(other_addr, b"second");
    bench.net.send_beside(one_addr, b"third");
    let (first, own) = asked(&one);
    assert_eq!(first, b"first");
    assert_eq!(asked(&one), (b"third".to_vec(), own));
    let (second, others) = asked(&other);
    assert_eq!(second, b"second");
    assert_ne!(own, others);
    // Who has overheard the port says what he likes.
    for stranger in [&other, &server().0] {
        stranger.send_to(b"forged", own).unwrap();
    }
    one.send_to(b"answer", own).unwrap();
    let long = vec![7; 60_000];
    one.send_to(&long, own).unwrap();
    one.send_to(b"", own).unwrap();
    assert_eq!(bench.until(beside), (one_addr, b"answer".to_vec()));
    assert_eq!(bench.until(beside), (one_addr, long));
    assert_eq!(bench.until(beside), (one_addr, Vec::new()));
    assert_eq!(bench.seen.iter().find_map(beside), None);
}

#[test]
fn what_comes_in_great_number_is_read_to_its_end() {
    let mut bench = bench();
    let (server, addr) = server();
    bench.net.send_beside(addr, b"hello");
    let (_, own) = asked(&server);
    for number in 0..200_u8 {
        server.send_to(&[number], own).unwrap();
    }
    for number in 0..200_u8 {
        assert_eq!(bench.until(beside), (addr, vec![number]));
    }
}

#[test]
fn a_closed_port_is_told_and_one_that_opens_again_is_used() {
    let mut bench = bench();
    let (server, addr) = server();
    drop(server);
    bench.net.send_beside(addr, b"anybody");
    assert_eq!(bench.until(refused), addr);
    let server = UdpSocket::bind(addr).unwrap();
    bench.net.send_beside(addr, b"again");
    assert_eq!(asked(&server).0, b"again");
}

#[test]
fn what_is_too_long_for_a_datagram_says_nothing_about_the_server() {
    let mut bench = bench();
    let (server, addr) = server();
    for length in [65_508, 70_000] {
        bench.net.send_beside(addr, &vec![7; length]);
    }
    let longest = vec![7; 65_507];
    bench.net.send_beside(addr, &longest);
    let (got, own) = asked(&server);
    assert_eq!(got, longest);
    server.send_to(b"here", own).unwrap();
    assert_eq!(bench.until(beside), (addr, b"here".to_vec()));
    assert_eq!(bench.seen.iter().find_map(refused), None);
    assert_eq!(bench.net.counters().beside_drops, 2);
}

#[test]
fn what_fails_on_this_machine_says_nothing_about_the_server() {
    let mut bench = bench();
    // The kernel lets no socket like these send there.
    let forbidden: SocketAddr = "127.255.255.255:9".parse().unwrap();
    bench.net.send_beside(forbidden, b"anybody");
    let (server, addr) = server();
    bench.net.send_beside(addr, b"hello");
    let (_, own) = asked(&server);
    server.send_to(b"here", own).unwrap();
    assert_eq!(bench.until(beside), (addr, b"here".to_vec()));
    assert_eq!(bench.seen.iter().find_map(refused), None);
    assert_eq!(bench.net.counters().beside_drops, 1);
}

#[test]
fn servers_that_are_not_wanted_any_more_are_not_heard() {
    let mut bench = bench();
    let (one, one_addr) = server();
    let (other, other_addr) = server();
    bench.net.send_beside(one_addr, b"a");
    bench.net.send_beside(other_addr, b"b");
    let ((_, own), (_, others)) = (asked(&one), asked(&other));
    bench.net.keep_beside(&[other_addr]);
    one.send_to(b"late", own).unwrap();
    other.send_to(b"here", others).unwrap();
    assert_eq!(bench.until(beside), (other_addr, b"here".to_vec()));
    assert_eq!(bench.seen.iter().find_map(beside), None);
    // It gets another socket when it is wanted again.
    bench.net.send_beside(one_addr, b"c");
    assert_eq!(asked(&one).0, b"c");
}

#[test]
fn sockets_are_bounded() {
    let mut bench = bench();
    let servers: Vec<_> = (0..65).map(|_| server()).collect();
    for (_, addr) in &servers {
        bench.net.send_beside(*addr, b"x");
    }
    for (server, _) in servers.iter().take(64) {
        assert_eq!(asked(server).0, b"x");
    }
    assert_eq!(bench.net.counters().beside_drops, 1);
}
