//! Streams over loopback.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

use crate::common::{Bench, Seen, any_port, closed, message, opened, request, send_failed, to};
use sip_msg::{ConnId, Flow, Target, Transport};
use sip_net::{CloseReason, Framing, ListenerConfig, NetConfig, SendError};

fn server(config: NetConfig) -> Bench {
    Bench::new(
        &[ListenerConfig::new(Transport::Tcp, any_port("127.0.0.1"))],
        config,
    )
}

fn on_given_clock(config: NetConfig) -> Bench {
    let listener = ListenerConfig::new(Transport::Tcp, any_port("127.0.0.1"));
    Bench::on_given_clock(&[listener], config)
}

fn accepted(seen: &Seen) -> Option<Flow> {
    match seen {
        Seen::Accepted(flow) => Some(*flow),
        _ => None,
    }
}

fn malformed(seen: &Seen) -> Option<Flow> {
    match seen {
        Seen::Malformed(flow, _) => Some(*flow),
        _ => None,
    }
}

#[test]
fn a_connection_is_opened_reused_and_answered_on() {
    // RFC 3261 18: "All SIP elements MUST implement UDP and TCP." The same over UDP is in `udp.rs`.
    for ip in ["127.0.0.1", "::1"] {
        let mut server = Bench::on(Transport::Tcp, ip);
        let mut client = Bench::on(Transport::Tcp, ip);
        let target = to(Transport::Tcp, server.addr());
        // Both wait for the connection.
        client.net.send(&target, &request("one"), 0);
        client.net.send(&target, &request("two"), 0);
        let (flow, bytes) = server.until_with(&mut [&mut client], message);
        assert_eq!(bytes, request("one"));
        assert_eq!(server.message().1, request("two"));
        let up = client.until(opened);
        assert_eq!((up.remote, up.local), (flow.local, flow.remote));
        client.net.send(&target, &request("three"), 0);
        client.net.flush();
        let (again, bytes) = server.message();
        assert_eq!((again.conn, bytes), (flow.conn, request("three")));
        server.net.send(&Target::back(&flow), &request("answer"), 0);
        server.net.flush();
        // RFC 3261 18.1.1: "Therefore, the client transport MUST be prepared to receive the response on
        // the same connection used to send the request."
        let (back, bytes) = client.message();
        assert_eq!((back.conn, bytes), (up.conn, request("answer")));
        assert_eq!(
            (client.net.connection_count(), server.net.connection_count()),
            (1, 1)
        );
        // RFC 3261 18: "this index is set to the source IP address, port
        // number, and transport": an accepted connection is reused as well.
        server
            .net
            .send(&to(Transport::Tcp, flow.remote), &request("reused"), 0);
        server.net.flush();
        assert_eq!(client.message().1, request("reused"));
        assert_eq!(server.net.counters().opened, 0);
    }
}

#[test]
fn open_always_makes_a_connection_of_its_own() {
    let mut server = Bench::on(Transport::Tcp, "127.0.0.1");
    let mut client = Bench::on(Transport::Tcp, "127.0.0.1");
    let target = to(Transport::Tcp, server.addr());
    let first = client.net.open(&target).unwrap();
    let second = client.net.open(&target).unwrap();
    assert_ne!(first, second);
    for conn in [second, first] {
        let target = Target {
            conn,
            ..target.clone()
        };
        client.net.send(&target, &request("x"), 0);
        let (flow, _) = server.until_with(&mut [&mut client], message);
        server.net.send(&Target::back(&flow), &request("y"), 0);
        assert_eq!(client.until_with(&mut [&mut server], message).0.conn, conn);
    }
    assert_eq!(server.net.counters().accepted, 2);
}

#[test]
fn a_message_is_framed_at_every_split() {
    let mut server = server(NetConfig::default());
    let mut peer = TcpStream::connect(server.addr()).unwrap();
    peer.set_nodelay(true).unwrap();
    let flow = server.until(accepted);
    let message = request("split");
    for split in 1..message.len() {
        let (front, back) = message.split_at(split);
        peer.write_all(front).unwrap();
        for _ in 0..2 {
            server.turn();
        }
        peer.write_all(back).unwrap();
        assert_eq!(server.message(), (flow, message.clone()));
    }
    // Several in one piece, with line ends between them.
    let many = [&message[..], b"\r\n", &message, &message].concat();
    peer.write_all(&many).unwrap();
    for _ in 0..3 {
        assert_eq!(server.message().1, message);
    }
}

#[test]
fn a_long_body_comes_byte_for_byte() {
    let mut server = Bench::on(Transport::Tcp, "127.0.0.1");
    let mut client = Bench::on(Transport::Tcp, "127.0.0.1");
    let target = to(Transport::Tcp, server.addr());
    let bodies: Vec<String> = (0..20)
        .map(|n: usize| {
            char::from(b'a' + n as u8 % 26)
                .to_string()
                .repeat(n * 2_900)
        })
        .collect();
    for body in &bodies {
        client.net.send(&target, &long_request(body), 0);
    }
    for body in &bodies {
        let (_, bytes) = server.until_with(&mut [&mut client], message);
        assert!(bytes.ends_with(body.as_bytes()));
        assert_eq!(bytes.len(), long_request(body).len());
    }
}

fn long_request(body: &str) -> Vec<u8> {
    format!(
        "MESSAGE sip:a@b SIP/2.0\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

#[test]
fn a_ping_is_answered_with_a_pong() {
    // RFC 5626 5.4: "When a server receives a double CRLF sequence between SIP
    // messages on a connection-oriented transport such as TCP or SCTP, it MUST
    // immediately respond with a single CRLF over the same connection."
    let mut server = server(NetConfig::default());
    let mut peer = TcpStream::connect(server.addr()).unwrap();
    peer.write_all(b"\r\n\r\n").unwrap();
    while server.net.counters().pings == 0 {
        server.turn();
    }
    server.turn();
    let mut pong = [0; 2];
    peer.read_exact(&mut pong).unwrap();
    assert_eq!(&pong, b"\r\n");
    peer.write_all(&request("after")).unwrap();
    assert_eq!(server.message().1, request("after"));
}

#[test]
fn garbage_is_reported_once_answered_and_closed() {
    let mut server = server(NetConfig::default());
    let mut peer = TcpStream::connect(server.addr()).unwrap();
    let garbage = b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\nmore and more".repeat(100);
    peer.write_all(&garbage).unwrap();
    let flow = server.until(malformed);
    server
        .net
        .send(&Target::back(&flow), b"SIP/2.0 400 Bad Request\r\n\r\n", 0);
    server.net.close(flow.conn, true);
    server.net.flush();
    let _ = peer.write_all(&garbage);
    let mut answer = Vec::new();
    for _ in 0..20 {
        server.turn();
    }
    peer.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"SIP/2.0 400 Bad Request\r\n\r\n");
    drop(peer);
    assert_eq!(server.until(closed), CloseReason::Malformed);
    assert!(
        !server
            .seen
            .iter()
            .any(|seen| matches!(seen, Seen::Malformed(..) | Seen::Message(..)))
    );
}

#[test]
fn what_came_before_garbage_is_still_answered() {
    const LATE: &[u8] = b"SIP/2.0 200 OK\r\n\r\n";
    const WRONG: &[u8] = b"SIP/2.0 400 Bad Request\r\n\r\n";
    // With an answer to the garbage, without one, and without any to the request.
    for (to_garbage, to_request) in [(WRONG, LATE), (b"", LATE), (WRONG, b"")] {
        let mut server = on_given_clock(NetConfig::default());
        let mut peer = TcpStream::connect(server.addr()).unwrap();
        let mut sent = request("asked");
        sent.extend_from_slice(b"\x16\x03\x01 this is no SIP\r\n\r\n");
        peer.write_all(&sent).unwrap();
        assert_eq!(server.message().1, request("asked"));
        let flow = server.until(malformed);
        let back = Target::back(&flow);
        let say = |server: &mut Bench, words: &[u8]| {
            if !words.is_empty() {
                server.net.send(&back, words, 0);
            }
            server.net.flush();
        };
        say(&mut server, to_garbage);
        server.net.close(flow.conn, true);
        server.turn();
        assert_eq!(server.seen.iter().find_map(closed), None);
        say(&mut server, to_request);
        if to_garbage.is_empty() || to_request.is_empty() {
            server.clock.pass(NetConfig::default().linger_ms + 100);
            server.turn();
        }
        server.turn();
        let mut answers = Vec::new();
        peer.read_to_end(&mut answers).unwrap();
        assert_eq!(answers, [to_garbage, to_request].concat());
        drop(peer);
        assert_eq!(server.until(closed), CloseReason::Malformed);
    }
}

#[test]
fn garbage_that_nobody_answers_is_closed_all_the_same() {
    let mut server = server(NetConfig {
        linger_ms: 100,
        ..NetConfig::default()
    });
    let mut peer = TcpStream::connect(server.addr()).unwrap();
    peer.write_all(b"\x16\x03\x01 this is no SIP\r\n\r\n")
        .unwrap();
    assert_eq!(server.until(closed), CloseReason::Malformed);
    assert_eq!(server.net.connection_count(), 0);
}

#[test]
fn a_peer_that_closes_is_reported_with_what_it_said_before() {
    let mut server = server(NetConfig::default());
    let mut peer = TcpStream::connect(server.addr()).unwrap();
    peer.write_all(&request("last words")).unwrap();
    peer.shutdown(Shutdown::Both).unwrap();
    drop(peer);
    let (flow, bytes) = server.message();
    assert_eq!(bytes, request("last words"));
    assert_eq!(server.until(closed), CloseReason::Peer);
    server.net.send(&Target::back(&flow), b"too late", 5);
    assert_eq!(server.until(send_failed), (5, SendError::Gone));
    assert_eq!(server.net.counters().connections, 0);
}

#[test]
fn a_refused_connection_fails_what_waited_for_it() {
    let dead = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut client = Bench::on(Transport::Tcp, "127.0.0.1");
    let target = to(Transport::Tcp, dead);
    for cookie in [11, 0, 12] {
        client.net.send(&target, &request("x"), cookie);
    }
    let error = SendError::Closed(CloseReason::ConnectFailed);
    assert_eq!(client.until(send_failed), (11, error));
    assert_eq!(client.until(send_failed), (12, error));
    assert_eq!(client.until(closed), CloseReason::ConnectFailed);
    assert_eq!(client.net.counters().open_failed, 1);
    assert!(
        !client
            .seen
            .iter()
            .any(|seen| matches!(seen, Seen::SendFailed(..)))
    );
}

/// A listener whose queue is full, so that it answers nothing.
fn silent_listener() -> ((socket2::Socket, TcpStream), SocketAddr) {
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    full.bind(&any_port("127.0.0.1").into()).unwrap();
    full.listen(0).unwrap();
    let addr = full.local_addr().unwrap().as_socket().unwrap();
    let first = TcpStream::connect(addr).unwrap();
    ((full, first), addr)
}

#[test]
fn a_connection_that_is_never_answered_times_out() {
    let (_full, addr) = silent_listener();
    let config = NetConfig {
        connect_timeout_ms: 20_000,
        ..NetConfig::default()
    };
    let mut client = on_given_clock(config);
    client.net.send(&to(Transport::Tcp, addr), &request("x"), 7);
    assert_eq!(client.closed_after(20_000), CloseReason::ConnectTimeout);
    assert_eq!(
        client.until(send_failed),
        (7, SendError::Closed(CloseReason::ConnectTimeout))
    );
}

#[test]
fn a_reader_that_never_reads_is_closed_and_the_others_are_served() {
    let mut server = on_given_clock(with_short_queues());
    let stuck = TcpStream::connect(server.addr()).unwrap();
    let flow = server.until(accepted);
    let mut reader = TcpStream::connect(server.addr()).unwrap();
    let other = server.until(accepted);
    let mut cookie = fill(&mut server, &flow, 200_000);
    // For less than four seconds it may be busy with something else.
    let message = request(&"x".repeat(2_000));
    for pass_ms in [3_999, 1] {
        assert_eq!(server.net.counters().connections, 2);
        server.clock.pass(pass_ms);
        server.turn();
        cookie += 1;
        server.net.send(&Target::back(&flow), &message, cookie);
        server.net.flush();
    }
    assert_eq!(server.until(closed), CloseReason::SlowReader);
    // What was not written is reported, the one that was too many included.
    assert!(server.seen.contains(&Seen::SendFailed(
        cookie,
        SendError::Closed(CloseReason::SlowReader)
    )));
    let failed = server
        .seen
        .iter()
        .filter(|seen| matches!(seen, Seen::SendFailed(..)))
        .count();
    let waited = 200_000_usize.div_ceil(message.len());
    assert!((waited + 2..=waited + 3).contains(&failed), "{failed}");
    assert!(!server.net.has_unsent());
    server.net.send(&Target::back(&other), b"served", 0);
    server.net.flush();
    let mut answer = [0; 6];
    reader.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"served");
    drop(stuck);
}

fn with_short_queues() -> NetConfig {
    NetConfig {
        write_queue_bytes_max: 100_000,
        ..NetConfig::default()
    }
}

/// Sends until so many bytes wait because the peer does not read; gives the last cookie.
fn fill(server: &mut Bench, flow: &Flow, bytes: usize) -> u64 {
    let message = request(&"x".repeat(2_000));
    let mut cookie = 0;
    while server.net.queued_bytes() < bytes {
        cookie += 1;
        server.net.send(&Target::back(flow), &message, cookie);
        server.net.flush();
        assert!(cookie < 100_000, "never full");
    }
    cookie
}

/// A trunk with thousands of calls a second has a megabyte waiting while its peer collects garbage.
#[test]
fn a_peer_that_goes_on_reading_is_not_closed_for_what_waits() {
    let mut server = on_given_clock(with_short_queues());
    let mut peer = TcpStream::connect(server.addr()).unwrap();
    let flow = server.until(accepted);
    let mut buffer = vec![0; 1 << 20];
    for _ in 0..5 {
        fill(&mut server, &flow, 4_000_000);
        server.clock.pass(3_900);
        server.turn();
        let waiting = server.net.queued_bytes();
        while server.net.queued_bytes() == waiting {
            let _ = peer.read(&mut buffer).unwrap();
            server.turn();
        }
    }
    assert_eq!(server.net.counters().connections, 1);
}

/// What waits for a connection that is being opened is no sign of a peer that does not read.
#[test]
fn what_waits_for_a_connection_to_open_may_be_more_than_what_waits_for_a_reader() {
    let (_full, addr) = silent_listener();
    let mut client = on_given_clock(with_short_queues());
    let message = request(&"x".repeat(2_000));
    for _ in 0..2_000 {
        client.net.send(&to(Transport::Tcp, addr), &message, 0);
        client.net.flush();
    }
    client.clock.pass(3_900);
    client.turn();
    client.net.send(&to(Transport::Tcp, addr), &message, 0);
    assert_eq!(client.net.queued_bytes(), 2_001 * message.len());
    assert_eq!(client.net.counters().connections, 1);
}

#[test]
fn a_slow_reader_gets_every_byte_in_order() {
    let config = NetConfig {
        write_queue_bytes_max: 32 * 1024 * 1024,
        ..NetConfig::default()
    };
    let mut server = server(config);
    let mut peer = TcpStream::connect(server.addr()).unwrap();
    let flow = server.until(accepted);
    let mut sent = Vec::new();
    for n in 0..4_000u32 {
        let message = request(&format!("{n} {}", "y".repeat(3_000)));
        server.net.send(&Target::back(&flow), &message, 0);
        sent.extend_from_slice(&message);
        if n % 10 == 0 {
            server.net.flush();
        }
    }
    server.net.flush();
    assert!(server.net.has_unsent(), "the test must fill the socket");
    server.net.close(flow.conn, true);
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        peer.read_to_end(&mut all).unwrap();
        all
    });
    assert_eq!(server.until(closed), CloseReason::Asked);
    assert!(reader.join().unwrap() == sent);
}

#[test]
fn a_message_that_is_begun_must_be_finished() {
    let config = NetConfig {
        message_timeout_ms: 30_000,
        ..NetConfig::default()
    };
    let mut server = on_given_clock(config);
    let mut peer = TcpStream::connect(server.addr()).unwrap();
    // Whole messages push the deadline on; a byte of one that is begun does not.
    peer.write_all(&request("whole")).unwrap();
    server.message();
    server.clock.pass(29_000);
    server.turn();
    peer.write_all(b"INVITE sip:a@b SIP/2.0\r\nContent-Length: 50000\r\n\r\n")
        .unwrap();
    while server.net.kept_bytes() == 0 {
        server.turn();
    }
    assert_eq!(server.closed_after(30_000), CloseReason::MessageTimeout);
}

#[test]
fn a_silent_connection_is_closed() {
    let config = NetConfig {
        idle_timeout_ms: 600_000,
        ..NetConfig::default()
    };
    let mut server = on_given_clock(config);
    let _peer = TcpStream::connect(server.addr()).unwrap();
    server.until(accepted);
    assert_eq!(server.closed_after(600_000), CloseReason::Idle);
}

#[test]
fn too_many_connections_of_one_source_are_closed_at_once() {
    let config = NetConfig {
        connections_max: 3,
        connections_per_source_max: 2,
        ..NetConfig::default()
    };
    let mut server = server(config);
    let _two = [
        TcpStream::connect(server.addr()).unwrap(),
        TcpStream::connect(server.addr()).unwrap(),
    ];
    let mut third = TcpStream::connect(server.addr()).unwrap();
    while server.net.counters().refused_source == 0 {
        server.turn();
    }
    assert_eq!(third.read(&mut [0; 1]).unwrap_or(0), 0);
    assert_eq!(server.net.connection_count(), 2);
    // Connections that this side opens count in all, not for a source. Those that
    // were asked for close no others (tests/limits.rs has what does).
    let there = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = to(Transport::Tcp, there.local_addr().unwrap());
    server.net.open(&target).unwrap();
    assert_eq!(server.net.open(&target), Err(SendError::Full));
}

#[test]
fn who_opens_connections_too_fast_is_refused_until_he_goes_slower() {
    let config = NetConfig {
        opened_per_source_per_s: 1,
        ..NetConfig::default()
    };
    let mut server = server(config);
    // Where four may come at once, and one each second.
    let begin = std::time::Instant::now();
    let peers: Vec<TcpStream> = (0..60)
        .map(|_| TcpStream::connect(server.addr()).unwrap())
        .collect();
    while server.net.counters().accepted + server.net.counters().refused_rate < 60 {
        server.turn();
    }
    let refused = server.net.counters().refused_rate;
    let earned = begin.elapsed().as_secs() + 1;
    assert!(
        refused <= 56 && refused + earned >= 56,
        "{refused} after {earned} s"
    );
    drop(peers);
    // A second later there is room again.
    let taken = server.net.counters().accepted;
    while server.net.counters().accepted == taken {
        let _peer = TcpStream::connect(server.addr()).unwrap();
        server.turn();
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn stopping_leaves_what_is_open() {
    let mut server = server(NetConfig::default());
    let mut peer = TcpStream::connect(server.addr()).unwrap();
    server.until(accepted);
    server.net.stop_accepting();
    assert!(TcpStream::connect(server.addr()).is_err());
    peer.write_all(&request("still here")).unwrap();
    assert_eq!(server.message().1, request("still here"));
}

#[test]
fn raw_bytes_pass_as_they_come() {
    let listener = ListenerConfig {
        framing: Framing::Raw,
        ..ListenerConfig::new(Transport::Tcp, any_port("127.0.0.1"))
    };
    let mut server = Bench::new(&[listener], NetConfig::default());
    let mut peer = TcpStream::connect(server.addr()).unwrap();
    peer.write_all(b"\r\n\r\nanything").unwrap();
    let mut all = Vec::new();
    while all.len() < 12 {
        all.extend(server.until(|seen| match seen {
            Seen::Data(_, bytes) => Some(bytes.clone()),
            _ => None,
        }));
    }
    assert_eq!(all, b"\r\n\r\nanything");
}

#[test]
fn a_message_without_a_length_is_taken_only_where_that_was_asked_for() {
    let lengthless = b"OPTIONS sip:a@b SIP/2.0\r\nCall-ID: x\r\n\r\n";
    for (framing, is_taken) in [(Framing::Sip, false), (Framing::SipOrLengthless, true)] {
        let listener = ListenerConfig {
            framing,
            ..ListenerConfig::new(Transport::Tcp, any_port("127.0.0.1"))
        };
        let mut server = Bench::new(&[listener], NetConfig::default());
        let mut peer = TcpStream::connect(server.addr()).unwrap();
        peer.write_all(lengthless).unwrap();
        if is_taken {
            assert_eq!(server.message().1, lengthless);
            peer.write_all(&request("more")).unwrap();
            assert_eq!(server.message().1, request("more"));
        } else {
            server.until(malformed);
        }
    }
}

#[test]
fn a_connection_may_be_opened_from_an_address_that_does_not_listen() {
    let mut server = Bench::on(Transport::Tcp, "127.0.0.1");
    let outbound = [ListenerConfig::outbound(
        Transport::Tcp,
        any_port("127.0.0.7"),
    )];
    let mut client = Bench::new(&outbound, NetConfig::default());
    client
        .net
        .send(&to(Transport::Tcp, server.addr()), &request("x"), 0);
    let (flow, _) = server.until_with(&mut [&mut client], message);
    assert_eq!(flow.remote.ip().to_string(), "127.0.0.7");
}

#[test]
fn a_number_never_names_another_connection() {
    let mut server = server(NetConfig::default());
    let mut seen: Vec<ConnId> = Vec::new();
    for _ in 0..20 {
        let peer = TcpStream::connect(server.addr()).unwrap();
        let flow = server.until(accepted);
        assert!(flow.conn.is_some() && flow.conn.worker() == 0 && !seen.contains(&flow.conn));
        seen.push(flow.conn);
        drop(peer);
        server.until(closed);
        server.net.send(&Target::back(&flow), b"x", 1);
        assert_eq!(server.until(send_failed), (1, SendError::Gone));
    }
}

#[test]
fn a_thousand_begun_messages_hold_no_more_than_was_sent() {
    let mut server = server(NetConfig::default());
    let peers: Vec<TcpStream> = (0..1_000)
        .map(|_| {
            let mut peer = TcpStream::connect(server.addr()).unwrap();
            peer.write_all(b"MESSAGE sip:a@b SIP/2.0\r\nContent-Length: 59999\r\n\r\n")
                .unwrap();
            server.turn();
            peer
        })
        .collect();
    while server.net.connection_count() < peers.len() {
        server.turn();
    }
    assert!(
        server.net.kept_bytes() <= peers.len() * 60,
        "{}",
        server.net.kept_bytes()
    );
    drop(peers);
    while server.net.connection_count() > 0 {
        server.turn();
    }
    assert_eq!(server.net.kept_bytes(), 0);
}

#[test]
fn a_stream_that_never_stops_leaves_turns_to_others() {
    let mut server = server(NetConfig::default());
    let mut torrent = TcpStream::connect(server.addr()).unwrap();
    let flow = server.until(accepted);
    let all = request(&"t".repeat(1_000)).repeat(20_000);
    let len = all.len();
    let writer = std::thread::spawn(move || {
        torrent.write_all(&all).unwrap();
        torrent
    });
    // Each turn brings a bounded part of it, however much there is.
    let mut received = 0;
    while received < len {
        server.turn();
        let turn: usize = server
            .seen
            .drain(..)
            .map(|seen| match seen {
                Seen::Message(from, bytes) if from == flow => bytes.len(),
                _ => 0,
            })
            .sum();
        assert!(turn <= 1024 * 1024 + 128 * 1024, "{turn}");
        received += turn;
    }
    assert_eq!(received, len);
    drop(writer.join().unwrap());
}

#[test]
fn what_was_written_and_has_no_answer_is_lost_with_its_connection() {
    for (answer_timeout_ms, lost) in [(60_000, true), (0, false)] {
        let peer = TcpListener::bind("127.0.0.1:0").unwrap();
        let config = NetConfig {
            answer_timeout_ms,
            ..NetConfig::default()
        };
        let mut client = server(config);
        let target = to(Transport::Tcp, peer.local_addr().unwrap());
        for cookie in [0, 7, 8] {
            client.net.send(&target, &request("x"), cookie);
        }
        client.until(opened);
        let (mut socket, _) = peer.accept().unwrap();
        socket
            .read_exact(&mut vec![0; 3 * request("x").len()])
            .unwrap();
        drop(socket);
        assert_eq!(client.until(closed), CloseReason::Peer);
        client.turn();
        let told: Vec<_> = client.seen.iter().filter_map(send_failed).collect();
        let expected = [(7, SendError::Lost), (8, SendError::Lost)];
        assert_eq!(told, if lost { &expected[..] } else { &[] });
        assert_eq!(client.net.counters().lost, told.len() as u64);
    }
}

#[test]
fn an_address_that_is_not_ours_is_not_taken_for_a_peer_that_refuses() {
    // TEST-NET-1: nobody here has it.
    let elsewhere = ListenerConfig::outbound(Transport::Tcp, any_port("192.0.2.77"));
    let mut client = Bench::new(&[elsewhere], NetConfig::default());
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = to(Transport::Tcp, peer.local_addr().unwrap());
    assert_eq!(client.net.open(&target), Err(SendError::Unsendable));
    assert_eq!(client.net.counters().open_failed, 1);
}
