//! How long it takes until what a peer has sent is read.
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Bench, Seen, any_port, closed, message, opened, request, stream_from, to};
use sip_msg::{ConnId, ListenerId, Target, Transport};
use sip_net::testing::upgrade_request;
use sip_net::{
    CloseReason, ListenerConfig, NetConfig, NetEvent, WebSocketListener, WebSocketRules,
};

/// What a turn reads of a socket.
const READ: u64 = 65_536;

fn server() -> Bench {
    server_with(NetConfig::default())
}

fn server_with(config: NetConfig) -> Bench {
    let listener = ListenerConfig::new(Transport::Tcp, any_port("127.0.0.1"));
    Bench::on_given_clock(&[listener], config)
}

/// Streams from one address of which there is always more to read than a turn does.
pub(crate) struct Flood {
    streams: Vec<TcpStream>,
    /// How much of a message each of them has sent.
    at: Vec<usize>,
    message: Vec<u8>,
}

impl Flood {
    pub(crate) fn new(server: &mut Bench, host: u8, count: usize) -> Self {
        let before = server.net.connection_count();
        let streams: Vec<_> = (0..count)
            .map(|_| stream_from([127, 0, 0, host], server.addr()))
            .collect();
        while server.net.connection_count() < before + count {
            server.turn();
        }
        for stream in &streams {
            stream.set_nonblocking(true).unwrap();
        }
        server.seen.clear();
        Self {
            streams,
            at: vec![0; count],
            message: request(&"x".repeat(2_000)),
        }
    }

    pub(crate) fn fill(&mut self) {
        for (stream, at) in self.streams.iter_mut().zip(&mut self.at) {
            while let Ok(len) = stream.write(&self.message[*at..]) {
                *at = (*at + len) % self.message.len();
            }
        }
    }

    fn turn(&mut self, server: &mut Bench) {
        self.fill();
        server.turn();
    }

    /// Each has had its turn, and waits for the next.
    fn settle(&mut self, server: &mut Bench) {
        (0..self.streams.len()).for_each(|_| self.turn(server));
        server.seen.clear();
    }
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

/// A peer for which the kernel has more room than a turn reads, as it has once a connection has
/// carried something.
fn with_room(server: &mut Bench) -> TcpStream {
    let mut peer = TcpStream::connect(server.addr()).unwrap();
    for _ in 0..200 {
        let sent = messages(50_000);
        peer.write_all(&sent).unwrap();
        read(server, sent.len() as u64);
    }
    peer
}

/// A worker that is never through with a stream is no slow one for that.
#[test]
fn of_a_stream_with_more_to_read_it_is_told_how_long_that_waits() {
    let mut server = server();
    let mut peer = with_room(&mut server);
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

/// Else a peer that was busy for a moment has everybody refused who comes after it.
#[test]
fn what_is_left_unread_until_its_sender_reads_does_not_wait_for_this_side() {
    let mut server = server_with(NetConfig {
        write_queue_bytes_max: 4 << 20,
        ..NetConfig::default()
    });
    let mut peer = with_room(&mut server);
    let (flow, _) = server.message();
    // A turn leaves some of it.
    peer.write_all(&messages(200_000)).unwrap();
    read(&mut server, READ);
    assert_eq!(server.net.waiting_ms(), Some(0));
    // Then so much waits for the peer that it is read no more.
    let answer = request(&"x".repeat(50_000));
    while server.net.queued_bytes() < 2 << 20 {
        server.net.send(&Target::back(&flow), &answer, 0);
        server.net.flush();
    }
    while server.net.counters().reads_paused == 0 {
        server.turn();
    }
    server.clock.pass(10_000);
    server.turn();
    assert_eq!(server.net.waiting_ms(), None);
    // The peer reads again, and there is more than a turn reads.
    let before = server.net.counters().tcp.bytes_in;
    peer.set_nonblocking(true).unwrap();
    let mut buffer = vec![0; 1 << 20];
    while server.net.counters().tcp.bytes_in == before {
        while peer.read(&mut buffer).is_ok() {}
        server.turn();
    }
    assert_eq!(server.net.waiting_ms(), Some(0));
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
    const READ: usize = self::READ as usize;
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

/// However many streams one source has: else all others wait for a round of these.
#[test]
fn whoever_has_little_to_say_does_not_wait_for_all_streams_of_a_source_that_has_much() {
    let mut server = server();
    let mut flood = Flood::new(&mut server, 9, 64);
    flood.settle(&mut server);
    let mut phone = stream_from([127, 0, 0, 3], server.addr());
    while server.net.connection_count() < 65 {
        flood.turn(&mut server);
    }
    for nth in 0..4 {
        let sent = request(&format!("no. {nth}"));
        phone.write_all(&sent).unwrap();
        let is_it = |seen: &Seen| matches!(seen, Seen::Message(_, bytes) if *bytes == sent);
        let mut turns = 0;
        while !server.seen.iter().any(is_it) {
            server.seen.clear();
            flood.turn(&mut server);
            turns += 1;
            assert!(turns <= 3, "no. {nth}");
        }
    }
    // The flood is read on meanwhile, each stream of it.
    server.seen.clear();
    (0..40).for_each(|_| flood.turn(&mut server));
    let heard = server.seen.iter().filter_map(message);
    let heard: HashSet<_> = heard.map(|(flow, _)| flow.conn).collect();
    assert_eq!(heard.len(), 64);
}

/// The time of a message does not run out because its end lies here.
#[test]
fn a_message_whose_end_waits_for_its_turn_is_not_too_late() {
    let mut server = server_with(NetConfig {
        message_timeout_ms: 1_000,
        ..NetConfig::default()
    });
    let mut flood = Flood::new(&mut server, 9, 32);
    flood.settle(&mut server);
    let mut peer = stream_from([127, 0, 0, 9], server.addr());
    let sent = request("in two parts");
    let (first, second) = sent.split_at(100);
    peer.write_all(first).unwrap();
    (0..40).for_each(|_| flood.turn(&mut server));
    server.seen.clear();
    peer.write_all(second).unwrap();
    flood.turn(&mut server);
    // With the time that deadlines are kept in.
    server.clock.pass(1_100);
    flood.turn(&mut server);
    let is_it = |seen: &Seen| matches!(seen, Seen::Message(_, bytes) if *bytes == sent);
    assert!(!server.seen.iter().any(is_it));
    (0..40).for_each(|_| flood.turn(&mut server));
    assert!(server.seen.iter().any(is_it));
    // Nor is any of those closed that send without end, and are cut amid a message each time.
    assert_eq!(server.seen.iter().find_map(closed), None);
}

/// Nor that of an upgrade, and it does not begin anew for ever.
#[test]
fn an_upgrade_that_waits_for_its_turn_has_its_time_once_more() {
    for is_too_late in [false, true] {
        let rules = WebSocketRules {
            own_hosts: vec!["example.com".into()],
            ..WebSocketRules::default()
        };
        let browsers = Arc::new(WebSocketListener::new(rules));
        let listeners = [
            ListenerConfig::new(Transport::Tcp, any_port("127.0.0.1")),
            ListenerConfig::websocket(any_port("127.0.0.1"), None, browsers),
        ];
        let config = NetConfig {
            upgrade_timeout_ms: 1_000,
            ..NetConfig::default()
        };
        let mut server = Bench::on_given_clock(&listeners, config);
        let mut flood = Flood::new(&mut server, 9, 64);
        flood.settle(&mut server);
        let to = server.net.local_addr(ListenerId(1)).unwrap();
        let mut browser = stream_from([127, 0, 0, 9], to);
        while server.net.connection_count() < 65 {
            flood.turn(&mut server);
        }
        let asks = upgrade_request("example.com", "/", "");
        browser.write_all(asks.as_bytes()).unwrap();
        flood.turn(&mut server);
        // With the time that deadlines are kept in.
        for _ in 0..=usize::from(is_too_late) {
            server.clock.pass(1_100);
            assert_eq!(server.seen.iter().find_map(closed), None);
            flood.turn(&mut server);
        }
        let upgraded = |server: &Bench| server.net.counters().websocket.upgraded;
        assert_eq!(upgraded(&server), 0);
        (0..80).for_each(|_| flood.turn(&mut server));
        let ended = server.seen.iter().find_map(closed);
        match is_too_late {
            false => assert_eq!((ended, upgraded(&server)), (None, 1)),
            true => assert_eq!((ended, upgraded(&server)), (Some(CloseReason::Upgrade), 0)),
        }
    }
}

/// The answer to a ping may be what waits.
#[test]
fn whoever_was_pinged_and_waits_for_his_turn_is_not_given_up() {
    let rules = WebSocketRules {
        own_hosts: vec!["example.com".into()],
        ..WebSocketRules::default()
    };
    let browsers = Arc::new(WebSocketListener::new(rules));
    let listeners = [
        ListenerConfig::new(Transport::Tcp, any_port("127.0.0.1")),
        ListenerConfig::websocket(any_port("127.0.0.1"), None, browsers),
    ];
    let config = NetConfig {
        websocket_ping_ms: 1_000,
        ..NetConfig::default()
    };
    let mut server = Bench::on_given_clock(&listeners, config);
    let to = server.net.local_addr(ListenerId(1)).unwrap();
    let mut browser = stream_from([127, 0, 0, 9], to);
    let asks = upgrade_request("example.com", "/", "");
    browser.write_all(asks.as_bytes()).unwrap();
    while server.net.counters().websocket.upgraded == 0 {
        server.turn();
    }
    let mut flood = Flood::new(&mut server, 9, 64);
    flood.settle(&mut server);
    // With the time that deadlines are kept in.
    server.clock.pass(1_100);
    flood.turn(&mut server);
    assert_eq!(server.net.counters().websocket.pings_out, 1);
    // A pong that says nothing, under a mask.
    browser.write_all(&[0x8a, 0x80, 1, 2, 3, 4]).unwrap();
    flood.turn(&mut server);
    let read = |server: &Bench| server.net.counters().ws.bytes_in;
    let before = read(&server);
    server.clock.pass(1_100);
    flood.turn(&mut server);
    assert_eq!(read(&server), before);
    (0..40).for_each(|_| flood.turn(&mut server));
    assert_eq!(read(&server), before + 6);
    // It is pinged as ever, and given up where it does not answer.
    server.clock.pass(1_100);
    flood.turn(&mut server);
    assert_eq!(server.net.counters().websocket.pings_out, 2);
    assert_eq!(server.seen.iter().find_map(closed), None);
    server.clock.pass(1_100);
    flood.turn(&mut server);
    while server.seen.iter().find_map(closed).is_none() {
        server.clock.pass(100);
        flood.turn(&mut server);
    }
    assert_eq!(server.seen.iter().find_map(closed), Some(CloseReason::Idle));
}

/// Else a turn lasts as long as there are streams with a byte each.
#[test]
fn of_streams_that_wait_with_little_a_turn_reads_so_many_and_no_more() {
    let mut server = server();
    let mut peers: Vec<TcpStream> = Vec::new();
    while peers.len() < 1_000 {
        for _ in 0..100 {
            peers.push(TcpStream::connect(server.addr()).unwrap());
        }
        while server.net.connection_count() < peers.len() {
            server.turn();
        }
    }
    server.turn();
    // Three have what a turn reads.
    let (much, little) = peers.split_at_mut(3);
    for peer in much {
        peer.write_all(&messages(60_000)).unwrap();
    }
    for peer in little {
        peer.write_all(b"\r").unwrap();
    }
    let reads = [(); 4].map(|()| {
        let before = server.net.counters().tcp.bytes_in;
        server.turn();
        server.net.counters().tcp.bytes_in - before
    });
    assert!(reads[0] > 131_072);
    assert_eq!(reads[1..], [512, 485, 0]);
}

/// Else whoever sends them without end has everybody refused, as if calls were what comes.
#[test]
fn keep_alives_count_among_what_is_handled() {
    let mut server = server();
    let mut peer = TcpStream::connect(server.addr()).unwrap();
    peer.write_all(&b"\r\n\r\n".repeat(100)).unwrap();
    peer.write_all(&request("x")).unwrap();
    server.message();
    assert_eq!(server.net.counters_in(), 101);
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
