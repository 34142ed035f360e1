//! Datagrams over loopback.
#![allow(clippy::unwrap_used)]

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use crate::common::{Bench, Seen, any_port, message, request, send_failed, to};
use sip_msg::{ConnId, ListenerId, Target, Transport};
use sip_net::testing::uninterrupted;
use sip_net::{ListenerConfig, Net, NetConfig, NetEvent, QUOTED_BYTES_MAX, SendError, bind};

#[test]
fn a_datagram_comes_whole_and_goes_back() {
    for ip in ["127.0.0.1", "::1"] {
        let mut server = Bench::on(Transport::Udp, ip);
        let mut client = Bench::on(Transport::Udp, ip);
        client
            .net
            .send(&to(Transport::Udp, server.addr()), b"ping", 0);
        client.net.flush();
        let (flow, bytes) = server.message();
        assert_eq!(bytes, b"ping");
        assert_eq!(
            // RFC 3261 18.1.1: "For unreliable unicast transports, the client transport MUST be
            // prepared to receive responses on the source IP address from which the request is sent (as
            // responses are sent back to the source address) and the port number in the "sent-by"
            // field."
            (flow.local, flow.remote, flow.conn),
            (server.addr(), client.addr(), ConnId::NONE)
        );
        server.net.send(&Target::back(&flow), b"pong", 0);
        let (back, bytes) = client.until_with(&mut [&mut server], message);
        assert_eq!(
            (back.remote, bytes.as_slice()),
            (server.addr(), b"pong".as_slice())
        );
    }
}

#[test]
fn batches_keep_order_and_long_datagrams_keep_their_ends() {
    let mut server = Bench::on(Transport::Udp, "127.0.0.1");
    let mut client = Bench::on(Transport::Udp, "127.0.0.1");
    let target = to(Transport::Udp, server.addr());
    let sent: Vec<Vec<u8>> = (1..=100u32)
        .map(|n| n.to_string().repeat(n as usize).into_bytes())
        .collect();
    for bytes in &sent {
        client.net.send(&target, bytes, 0);
    }
    client.net.flush();
    for bytes in &sent {
        assert_eq!(&server.message().1, bytes);
    }
    // RFC 3261 18.1.1: "However, implementations MUST be able to handle messages up to the maximum
    // datagram packet size."
    let longest = vec![7; 65_507];
    client.net.send(&target, &longest, 0);
    client.net.flush();
    assert_eq!(server.message().1, longest);
    assert_eq!(server.net.counters().udp.messages_in, 101);
    assert_eq!(client.net.counters().udp.messages_out, 101);
    assert_eq!(
        client.net.counters().udp.bytes_out,
        server.net.counters().udp.bytes_in
    );
}

#[test]
fn who_is_behind_is_told_how_long_datagrams_waited() {
    let mut server = Bench::on(Transport::Udp, "127.0.0.1");
    let mut client = Bench::on(Transport::Udp, "127.0.0.1");
    let target = to(Transport::Udp, server.addr());
    // Sixty datagrams, which wait while `meanwhile` is done; then all is read.
    let mut send = |server: &mut Bench, meanwhile: &mut dyn FnMut(&mut Bench)| {
        for _ in 0..60 {
            client.net.send(&target, b"ping", 0);
        }
        client.net.flush();
        meanwhile(server);
        std::thread::sleep(Duration::from_millis(50));
        server
            .net
            .poll(Some(Duration::ZERO), &mut |_: NetEvent<'_>| {})
            .unwrap();
        assert!(!server.net.is_drained());
        let waiting_ms = server.net.waiting_ms();
        while !server.net.is_drained() {
            server
                .net
                .poll(Some(Duration::ZERO), &mut |_: NetEvent<'_>| {})
                .unwrap();
        }
        assert_eq!(server.net.waiting_ms(), None, "nothing waits");
        waiting_ms
    };
    assert_eq!(send(&mut server, &mut |_| {}), None, "nobody asked");
    // The kernel stamps these when they are read.
    let asked_late = send(&mut server, &mut |server| server.net.time_datagrams(true));
    // Where another socket of this machine had asked, it had stamped them all.
    assert!(
        asked_late.is_none_or(|ms| ms >= 40),
        "they came before anybody asked: {asked_late:?}"
    );
    // The wall clock stamps, and may be slewed a little against the one that sleeps.
    // The kernel begins to stamp a little after it is asked to.
    assert!((0..20).any(|_| send(&mut server, &mut |_| {}).is_some_and(|ms| ms >= 40)));
    server.net.time_datagrams(false);
    assert_eq!(send(&mut server, &mut |_| {}), None);
}

#[test]
fn a_datagram_that_the_kernel_refuses_is_reported_and_the_rest_leaves() {
    let mut server = Bench::on(Transport::Udp, "127.0.0.1");
    let mut client = Bench::on(Transport::Udp, "127.0.0.1");
    let target = to(Transport::Udp, server.addr());
    client.net.send(&target, b"first", 1);
    client.net.send(&target, &vec![0; 65_508], 2);
    client.net.send(&target, b"last", 3);
    client.net.send(
        &to(Transport::Udp, "[::1]:5060".parse().unwrap()),
        b"of another family",
        4,
    );
    client.net.flush();
    assert_eq!(server.message().1, b"first");
    assert_eq!(server.message().1, b"last");
    let mut failed = [client.until(send_failed), client.until(send_failed)];
    failed.sort_by_key(|(cookie, _)| *cookie);
    assert_eq!(
        failed,
        [(2, SendError::Unsendable), (4, SendError::NoRoute)]
    );
    assert_eq!(client.net.counters().udp_unsendable, 2);
}

#[test]
fn a_dead_port_is_reported_with_the_datagram_it_was_for() {
    for ip in ["127.0.0.1", "::1"] {
        let dead = UdpSocket::bind(any_port(ip)).unwrap().local_addr().unwrap();
        let mut server = Bench::on(Transport::Udp, ip);
        let mut client = Bench::on(Transport::Udp, ip);
        let message = request("nobody");
        client.net.send(&to(Transport::Udp, dead), &message, 21);
        client.net.flush();
        // RFC 3261 18.4: "If the transport user asks for a message to be sent
        // over an unreliable transport, and the result is an ICMP error, the
        // behavior depends on the type of ICMP error. Host, network, port or
        // protocol unreachable errors, or parameter problem errors SHOULD cause
        // the transport layer to inform the transport user of a failure in
        // sending."
        assert_eq!(client.until(send_failed), (21, SendError::Unreachable));
        let (remote, quoted) = client.until(|seen| match seen {
            Seen::Unreachable(remote, quoted) => Some((*remote, quoted.clone())),
            _ => None,
        });
        assert_eq!(remote, dead);
        assert!(
            !quoted.is_empty() && message.starts_with(&quoted),
            "{quoted:?}"
        );
        // The error of one peer does not touch another's datagrams.
        client.net.send(&to(Transport::Udp, dead), b"again", 0);
        client.net.flush();
        client
            .net
            .send(&to(Transport::Udp, server.addr()), b"alive", 0);
        client.net.flush();
        assert_eq!(server.message().1, b"alive");
    }
}

#[test]
fn a_dead_port_is_reported_to_the_worker_that_sent_whichever_is_told() {
    let listener = ListenerConfig::new(Transport::Udp, any_port("127.0.0.1"));
    let mut nets: Vec<Net> = bind(&[listener], 2)
        .unwrap()
        .into_iter()
        .enumerate()
        .map(|(index, sockets)| Net::new(index, NetConfig::default(), sockets).unwrap())
        .collect();
    let mut by_others = 0;
    // The kernel picks the worker by the peer's address and port.
    for cookie in 1..=32 {
        let alive = UdpSocket::bind(any_port("127.0.0.1")).unwrap();
        let dead = alive.local_addr().unwrap();
        drop(alive);
        let message = request(&format!("nobody{cookie}"));
        nets[0].send(&to(Transport::Udp, dead), &message, cookie);
        nets[0].flush();
        let (mut told, mut elsewhere) = (None, None);
        while told.is_none() {
            for net in &mut nets {
                let wait = Some(std::time::Duration::from_millis(5));
                net.poll(wait, |event| match event {
                    NetEvent::SendFailed { cookie, error } => told = Some((cookie, error)),
                    NetEvent::Unreachable {
                        remote,
                        quoted,
                        is_told: false,
                        ..
                    } => elsewhere = Some((remote, quoted.to_vec())),
                    _ => {}
                })
                .unwrap();
            }
            if let Some((remote, quoted)) = elsewhere.take() {
                by_others += 1;
                nets[0].find_unreachable(remote, &quoted[..QUOTED_BYTES_MAX.min(quoted.len())]);
            }
        }
        assert_eq!(told, Some((cookie, SendError::Unreachable)));
    }
    assert!(by_others > 0, "the kernel told the sender each time");
}

#[test]
fn a_socket_for_every_address_answers_from_the_one_it_was_asked_at() {
    let mut server = Bench::on(Transport::Udp, "0.0.0.0");
    let port = server.addr().port();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    let asked: SocketAddr = format!("127.0.0.9:{port}").parse().unwrap();
    client.connect(asked).unwrap();
    client.send(b"who").unwrap();
    let (flow, _) = server.message();
    assert_eq!(flow.local, asked);
    server.net.send(&Target::back(&flow), b"me", 0);
    server.net.flush();
    let mut buffer = [0; 16];
    // A connected socket takes datagrams from that address alone.
    let len = client.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..len], b"me");
}

#[test]
fn each_answer_leaves_from_the_address_that_was_asked_whoever_asked_before() {
    let mut server = Bench::on(Transport::Udp, "0.0.0.0");
    let port = server.addr().port();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client
        .set_read_timeout(Some(std::time::Duration::from_secs(10)))
        .unwrap();
    let mut flows = Vec::new();
    for asked in ["127.0.0.2", "127.0.0.3"] {
        let asked = SocketAddr::new(asked.parse().unwrap(), port);
        client.send_to(b"who", asked).unwrap();
        let (flow, _) = server.message();
        assert_eq!(flow.local, asked);
        flows.push(flow);
    }
    // Nothing that others send in between changes that: not the same peer, not
    // as many sources as anybody has.
    let mut received = 0;
    for nth in 0..5_000_u32 {
        let [_, _, high, low] = nth.to_be_bytes();
        let other = UdpSocket::bind((std::net::Ipv4Addr::new(127, 1, high, low), 0)).unwrap();
        other
            .send_to(b"x", SocketAddr::from(([127, 0, 0, 4], port)))
            .unwrap();
        server.turn();
        received += server.seen.drain(..).count();
    }
    assert!(received > 4_096, "{received}");
    for flow in flows {
        server.net.send(&Target::back(&flow), b"me", 0);
        server.net.flush();
        let mut buffer = [0; 16];
        let (_, from) = uninterrupted(|| client.recv_from(&mut buffer)).unwrap();
        assert_eq!(from, flow.local);
    }
}

#[test]
fn line_ends_alone_are_no_message() {
    let mut server = Bench::on(Transport::Udp, "127.0.0.1");
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    for bytes in [&b"\r\n\r\n"[..], b"", b"\0\0\0\0", b"x"] {
        client.send_to(bytes, server.addr()).unwrap();
    }
    assert_eq!(server.message().1, b"x");
    assert_eq!(server.net.counters().udp_keep_alives, 3);
}

#[test]
fn a_binding_request_is_answered_at_the_port_and_no_message() {
    let request = b"\0\x01\0\0\x21\x12\xa4\x42transaction!";
    for (ip, len) in [("127.0.0.1", 32), ("::1", 44)] {
        let config = NetConfig {
            stun: true,
            ..NetConfig::default()
        };
        let listener = ListenerConfig::new(Transport::Udp, any_port(ip));
        let mut server = Bench::new(&[listener], config);
        let client = UdpSocket::bind((ip, 0)).unwrap();
        client
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        client.send_to(request, server.addr()).unwrap();
        // Another method of STUN, and SIP behind it.
        client
            .send_to(b"\0\x03\0\0\x21\x12\xa4\x42transaction!", server.addr())
            .unwrap();
        client.send_to(b"x", server.addr()).unwrap();
        assert_eq!(server.message().1, b"x");
        server.net.flush();
        let mut buffer = [0; 64];
        let (got, from) = uninterrupted(|| client.recv_from(&mut buffer)).unwrap();
        assert_eq!((got, from), (len, server.addr()));
        assert_eq!(buffer[..2], [1, 1]);
        assert_eq!(buffer[8..20], *b"transaction!");
        // XOR-MAPPED-ADDRESS: the port under the first half of the cookie.
        let port = u16::from_be_bytes([buffer[26] ^ 0x21, buffer[27] ^ 0x12]);
        assert_eq!(port, client.local_addr().unwrap().port());
        let counters = server.net.counters();
        assert_eq!((counters.stun_answers, counters.stun_drops), (1, 1));
    }
    // Where it is off, it is a datagram as any other.
    let mut server = Bench::on(Transport::Udp, "127.0.0.1");
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.send_to(request, server.addr()).unwrap();
    assert_eq!(server.message().1, request);
}

#[test]
fn a_flood_is_dropped_by_the_kernel_and_counted() {
    let config = NetConfig {
        udp_receive_buffer_bytes: 4_096,
        ..NetConfig::default()
    };
    let mut server = Bench::new(
        &[ListenerConfig::new(Transport::Udp, any_port("127.0.0.1"))],
        config,
    );
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..1_000 {
        client.send_to(&[1; 500], server.addr()).unwrap();
    }
    let mut received = 0;
    // What is in the buffer was dropped around; the datagram after it says so.
    while server.net.counters().udp_kernel_drops == 0 {
        server.turn();
        received += server.seen.drain(..).count() as u64;
        client.send_to(b"after", server.addr()).unwrap();
    }
    let counters = server.net.counters();
    assert!(received < 1_000);
    assert!(counters.udp_kernel_drops >= 500, "{counters:?}");
}

#[test]
fn workers_share_a_port_and_strangers_do_not() {
    let config = ListenerConfig::new(Transport::Udp, any_port("127.0.0.1"));
    let sockets = bind(std::slice::from_ref(&config), 2).unwrap();
    let addr = sockets[0].local_addr(ListenerId(0)).unwrap();
    assert_eq!(sockets[1].local_addr(ListenerId(0)), Some(addr));
    assert_ne!(addr.port(), 0);
    let taken = [ListenerConfig::new(Transport::Udp, addr)];
    for workers in [1, 2] {
        let error = bind(&taken, workers).unwrap_err();
        assert_eq!((error.listener, error.addr), (ListenerId(0), addr));
        assert!(error.to_string().contains(&addr.to_string()), "{error}");
    }
}

#[test]
fn a_listener_that_is_not_there_is_reported() {
    let mut client = Bench::on(Transport::Udp, "127.0.0.1");
    let target = Target {
        listener: ListenerId(7),
        ..to(Transport::Udp, client.addr())
    };
    client.net.send(&target, b"x", 9);
    assert_eq!(client.until(send_failed), (9, SendError::NoListener));
}
