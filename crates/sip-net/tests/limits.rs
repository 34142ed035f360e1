//! Too many connections: which of them makes room for a new one, and when the
//! new one is refused.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::backlog::Flood;
use crate::common::*;
use crate::tls_storm::plain_hello;
use sip_msg::{Flow, ListenerId, Target, Transport};
use sip_net::clock::Clock;
use sip_net::{CloseReason, ListenerConfig, NetConfig, SendError};
use sip_tls::testing::TestCa;
use sip_tls::{
    ClientTls, ClientTlsConfig, HandshakeConfig, HandshakeFailure, HandshakePool, ServerTls,
};

const HOUR_MS: u64 = 3_600_000;

fn server(connections_max: usize, evict_after_ms: u64) -> Bench {
    server_by(connections_max, evict_after_ms, Clock::system())
}

fn server_by(connections_max: usize, evict_after_ms: u64, clock: Clock) -> Bench {
    let config = NetConfig {
        connections_max,
        evict_after_ms,
        ..NetConfig::default()
    };
    let listener = ListenerConfig::new(Transport::Tcp, any_port("127.0.0.1"));
    Bench::with_clock(&[listener], config, clock)
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
    let mut server = server_by(4, 0, Clock::given());
    let (_bound_stream, bound) = phone(&mut server, true);
    let (mut first_stream, first) = phone(&mut server, true);
    let (mut second_stream, second) = phone(&mut server, true);
    let (mut silent_stream, silent) = phone(&mut server, false);
    server.net.keep_for(bound.conn, HOUR_MS);
    // It has had its time to get on.
    server.clock.pass(3_000);
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
fn who_has_just_come_is_closed_after_who_is_quiet() {
    let mut server = server_by(3, 0, Clock::given());
    let quiet = [phone(&mut server, true), phone(&mut server, true)];
    server.clock.pass(2_500);
    let new = phone(&mut server, false);
    server.clock.pass(500);
    let newer = phone(&mut server, false);
    assert_eq!(evicted(&mut server), quiet[0].1.conn);
    // The time of one is over now, and not that of the other.
    server.clock.pass(2_500);
    let newest = phone(&mut server, false);
    assert_eq!(evicted(&mut server), new.1.conn);
    let last = phone(&mut server, false);
    assert_eq!(evicted(&mut server), quiet[1].1.conn);
    drop((quiet, new, newer, newest, last));
}

/// Else one source could have every idle connection closed for its own that say nothing.
#[test]
fn a_flood_from_one_source_is_given_no_time_to_get_on() {
    let mut server = server_by(80, 2_000, Clock::given());
    let (mut quiet_stream, quiet) = phone(&mut server, true);
    server.clock.pass(60_000);
    let mut flood = Vec::new();
    for _ in 0..200 {
        flood.push(connect_from([127, 0, 0, 9], &mut server));
    }
    let counters = server.net.counters();
    assert_eq!((counters.evicted_unused, counters.evicted_idle), (121, 0));
    // A phone that comes meanwhile gets in, and is not closed for those after it.
    let (mut stream, flow) = phone(&mut server, false);
    for _ in 0..50 {
        flood.push(connect_from([127, 0, 0, 9], &mut server));
    }
    stream.write_all(&request("late")).unwrap();
    assert_eq!(server.message(), (flow, request("late")));
    quiet_stream.write_all(&request("still")).unwrap();
    assert_eq!(server.message(), (quiet, request("still")));
    let counters = server.net.counters();
    assert_eq!((counters.evicted_unused, counters.evicted_idle), (172, 0));
}

/// Else sixteen connections that have just come would hide the flood behind them, and idle ones
/// would be closed for it.
#[test]
fn whoever_has_just_come_hides_no_flood_from_one_source() {
    let mut server = server_by(160, 2_000, Clock::given());
    let idle: Vec<_> = (0..40).map(|_| phone(&mut server, true)).collect();
    server.clock.pass(60_000);
    let mut silent: Vec<_> = (0..16)
        .map(|_| connect_from([127, 0, 0, 8], &mut server))
        .collect();
    for _ in 0..300 {
        silent.push(connect_from([127, 0, 0, 9], &mut server));
    }
    let counters = server.net.counters();
    assert_eq!((counters.evicted_unused, counters.evicted_idle), (196, 0));
    // Nor were those closed that came before it.
    for (stream, _) in &mut silent[..16] {
        stream.set_nonblocking(true).unwrap();
        let nothing = |error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
        assert!(stream.read(&mut [0]).is_err_and(nothing));
    }
    drop(idle);
}

/// What a phone has said and nobody has read yet may be its registration.
#[test]
fn who_waits_to_be_read_for_the_first_time_is_not_closed_for_others() {
    let mut server = server_by(19, 2_000, Clock::given());
    server.clock.pass(1);
    let (_quiet_stream, quiet) = phone(&mut server, true);
    // Each from an address of its own, and all of them to be read before who speaks after them.
    let hosts = 41..=56;
    let mut floods: Vec<_> = hosts.map(|host| Flood::new(&mut server, host, 1)).collect();
    // One that says nothing again and again, and one that says its first word.
    let (mut empty_stream, empty) = connect_from([127, 0, 0, 30], &mut server);
    empty_stream.write_all(b"\r\n").unwrap();
    let heard = server.net.counters().tcp.bytes_in;
    turn_until(&mut server, |server| {
        server.net.counters().tcp.bytes_in == heard + 2
    });
    let (mut late_stream, late) = connect_from([127, 0, 0, 31], &mut server);
    // That one can write to it is told first.
    server.turn();
    floods.iter_mut().for_each(Flood::fill);
    empty_stream.write_all(b"\r\n").unwrap();
    late_stream.write_all(&request("first")).unwrap();
    server.turn();
    server.clock.pass(3_001);
    let newcomers = [(); 2].map(|()| TcpStream::connect(server.addr()).unwrap());
    server.turn();
    let of_late = |seen: &Seen| matches!(seen, Seen::Message(of, _) if *of == late);
    assert!(!server.seen.iter().any(of_late));
    assert_eq!(evicted(&mut server), empty.conn);
    assert_eq!(evicted(&mut server), quiet.conn);
    server.until(|seen| of_late(seen).then_some(()));
    drop(newcomers);
}

/// Else a phone behind the same address waits for each of them.
#[test]
fn nobody_waits_for_the_turns_of_connections_that_were_closed_unread() {
    let mut server = server_by(200, 2_000, Clock::given());
    let mut phone = connect_from([127, 0, 0, 9], &mut server);
    phone.0.write_all(&request("registers")).unwrap();
    assert_eq!(server.message().0, phone.1);
    answer(&mut server, &phone.1);
    // Of each there is always something that waits.
    let mut floods: Vec<_> = (41..=56)
        .map(|host| Flood::new(&mut server, host, 3))
        .collect();
    let turn = |server: &mut Bench, floods: &mut [Flood]| {
        floods.iter_mut().for_each(Flood::fill);
        server.seen.clear();
        server.turn();
    };
    (0..48).for_each(|_| turn(&mut server, &mut floods));
    let mut flood = Vec::new();
    while flood.len() < 2_000 {
        for _ in 0..50 {
            let mut stream = stream_from([127, 0, 0, 9], server.addr());
            stream.write_all(b"\r").unwrap();
            flood.push(stream);
        }
        // These are accepted, and of those before it is told that there is something to read.
        turn(&mut server, &mut floods);
    }
    let counters = server.net.counters();
    assert!(counters.evicted_unused > 1_700, "{counters:?}");
    phone.0.write_all(&request("still")).unwrap();
    let of_phone = |seen: &Seen| matches!(seen, Seen::Message(of, _) if *of == phone.1);
    let mut turns = 0;
    while !server.seen.iter().any(of_phone) {
        turn(&mut server, &mut floods);
        turns += 1;
        // Three rounds for those that are still open.
        assert!(turns <= 60, "{turns}");
    }
}

/// Else whoever says a word and breaks off holds a place until its turn comes.
#[test]
fn who_has_broken_off_before_he_was_read_is_closed_for_others() {
    let mut server = server_by(18, 2_000, Clock::given());
    server.clock.pass(1);
    let (mut quiet_stream, quiet) = phone(&mut server, true);
    let hosts = 41..=56;
    let mut floods: Vec<_> = hosts.map(|host| Flood::new(&mut server, host, 1)).collect();
    let (mut late_stream, late) = connect_from([127, 0, 0, 31], &mut server);
    // That one can write to it is told first.
    server.turn();
    floods.iter_mut().for_each(Flood::fill);
    late_stream.write_all(&request("first")).unwrap();
    server.turn();
    // It is reset.
    let socket = socket2::SockRef::from(&late_stream);
    socket.set_linger(Some(Duration::ZERO)).unwrap();
    drop(late_stream);
    server.turn();
    server.clock.pass(3_001);
    let newcomer = TcpStream::connect(server.addr()).unwrap();
    server.turn();
    assert_eq!(evicted(&mut server), late.conn);
    quiet_stream.write_all(&request("still")).unwrap();
    server.until(|seen| matches!(seen, Seen::Message(of, _) if *of == quiet).then_some(()));
    drop(newcomer);
}

#[test]
fn who_waits_for_a_thread_is_closed_after_all_others() {
    let handshakes = HandshakeConfig {
        full_per_s_max: 1,
        ..patient()
    };
    let config = NetConfig {
        connections_max: 8,
        evict_after_ms: 0,
        ..NetConfig::default()
    };
    let (mut server, pool) = secure_server_by(config, handshakes, Clock::given());
    let tcp = server.net.local_addr(ListenerId(1)).unwrap();
    let mut quiet_stream = TcpStream::connect(tcp).unwrap();
    let quiet = server.until(accepted);
    quiet_stream.write_all(&request("x")).unwrap();
    assert_eq!(server.message().0, quiet);
    answer(&mut server, &quiet);
    // The first has its turn at once, the others one a second.
    let hello = plain_hello();
    let mut waiting = Vec::new();
    for count in 1..=7 {
        let mut stream = TcpStream::connect(server.addr()).unwrap();
        stream.write_all(&hello).unwrap();
        waiting.push(stream);
        turn_until(&mut server, |_| {
            let now = pool.counters();
            now.full_begun + now.full_waiting == count
        });
    }
    waiting[0].set_nonblocking(true).unwrap();
    turn_until(&mut server, |_| waiting[0].peek(&mut [0]).is_ok());
    // Longer than anybody may take to get on. First who has had his answer goes, then who is
    // quiet, then the newcomer before; of those who have waited for a thread nobody does.
    server.clock.pass(3_500);
    let mut newer = Vec::new();
    for evicted in [(1, 0), (1, 1), (2, 1), (3, 1)] {
        newer.push(TcpStream::connect(tcp).unwrap());
        turn_until(&mut server, |server| {
            let now = server.net.counters();
            (now.evicted_unused, now.evicted_idle) == evicted
        });
    }
    let now = pool.counters();
    assert_eq!((now.under_way, now.refused), (6, 1));
    drop((waiting, newer));
}

/// Else a flood at our listeners would cut off what we send to a gateway that is slow.
#[test]
fn a_handshake_with_a_server_does_not_give_way_to_clients() {
    let config = NetConfig {
        connections_max: 2,
        evict_after_ms: 0,
        client_tls: Some(std::sync::Arc::new(
            ClientTlsConfig::new()
                .trust_anyone_insecurely()
                .build()
                .unwrap(),
        )),
        ..NetConfig::default()
    };
    let (mut server, _) = secure_server_by(config, patient(), Clock::given());
    let tcp = server.net.local_addr(ListenerId(1)).unwrap();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let target = named(silent.local_addr().unwrap(), "example.com");
    let response = b"SIP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n";
    server.net.send(&target, response, 7);
    let (mut gateway, _) = silent.accept().unwrap();
    let mut first = [0];
    gateway.set_nonblocking(true).unwrap();
    turn_until(&mut server, |_| gateway.peek(&mut [0]).is_ok());
    server.clock.pass(10_000);
    let mut quiet = TcpStream::connect(tcp).unwrap();
    let flow = server.until(accepted);
    quiet.write_all(&request("x")).unwrap();
    assert_eq!(server.message().0, flow);
    answer(&mut server, &flow);
    let _newcomer = TcpStream::connect(tcp).unwrap();
    assert_eq!(evicted(&mut server), flow.conn);
    gateway.set_nonblocking(false).unwrap();
    gateway.read_exact(&mut first).unwrap();
    assert_eq!(server.net.connection_count(), 2);
}

fn turn_until(server: &mut Bench, done: impl Fn(&Bench) -> bool) {
    let patience = Instant::now();
    while !done(server) {
        assert!(patience.elapsed() < Duration::from_secs(30));
        server.turn();
    }
}

/// Handshakes that nothing ends.
fn patient() -> HandshakeConfig {
    HandshakeConfig {
        hello_timeout_ms: 60_000,
        timeout_ms: 60_000,
        ..HandshakeConfig::default()
    }
}

/// A TLS listener and a TCP one, in this order.
fn secure_server(config: NetConfig) -> Bench {
    secure_server_by(config, patient(), Clock::system()).0
}

fn secure_server_by(
    config: NetConfig,
    handshakes: HandshakeConfig,
    clock: Clock,
) -> (Bench, HandshakePool) {
    let (chain, key) = TestCa::new().issue(&["example.com"]);
    let tls = ServerTls::from_pem(&[(chain.as_bytes(), key.as_bytes())]).unwrap();
    let pool = HandshakePool::start(handshakes).unwrap();
    let config = NetConfig {
        handshakes: Some(pool.clone()),
        ..config
    };
    let listeners = [
        ListenerConfig::tls(any_port("127.0.0.1"), std::sync::Arc::new(tls)),
        ListenerConfig::new(Transport::Tcp, any_port("127.0.0.1")),
    ];
    (Bench::with_clock(&listeners, config, clock), pool)
}

#[test]
fn who_says_no_hello_goes_before_a_registered_phone() {
    let mut server = secure_server(NetConfig {
        connections_max: 4,
        evict_after_ms: 0,
        ..NetConfig::default()
    });
    let tcp = server.net.local_addr(ListenerId(1)).unwrap();
    let mut phone = TcpStream::connect(tcp).unwrap();
    let flow = server.until(accepted);
    server.net.keep_for(flow.conn, HOUR_MS);
    let silent: Vec<_> = (0..10)
        .map(|_| TcpStream::connect(server.addr()).unwrap())
        .collect();
    turn_until(&mut server, |server| {
        let counters = server.net.counters();
        counters.accepted + counters.refused_total == 11
    });
    let counters = server.net.counters();
    assert_eq!((counters.evicted_unused, counters.evicted_bound), (7, 0));
    assert_eq!(server.net.connection_count(), 4);
    phone.write_all(&request("still")).unwrap();
    assert_eq!(server.message(), (flow, request("still")));
    drop(silent);
}

#[test]
fn of_those_who_carried_nothing_who_got_on_last_goes_last() {
    let mut server = secure_server(NetConfig {
        connections_max: 4,
        ..NetConfig::default()
    });
    let tcp = server.net.local_addr(ListenerId(1)).unwrap();
    let _phone = TcpStream::connect(tcp).unwrap();
    let flow = server.until(accepted);
    server.net.keep_for(flow.conn, HOUR_MS);
    let hello = plain_hello();
    let handshaking = |server: &mut Bench| {
        let before = server.net.counters().accepted;
        let mut stream = TcpStream::connect(server.addr()).unwrap();
        stream.write_all(&hello).unwrap();
        turn_until(server, |server| {
            server.net.counters().accepted == before + 1
        });
        stream
    };
    let half: Vec<_> = (0..3).map(|_| handshaking(&mut server)).collect();
    // A client that completes its handshake is not closed for those who come after it, though
    // nobody has said anything yet.
    let tls = ClientTlsConfig::new().trust_anyone_insecurely().build();
    let tls = std::sync::Arc::new(tls.unwrap());
    let mut client = tls_client(ClientTls::from_pem(&[]).unwrap());
    let target = named(server.addr(), "example.com");
    let conn = client.net.open_as(&target, &tls).unwrap();
    client.until_with(&mut [&mut server], opened);
    server.until_with(&mut [&mut client], accepted);
    let more: Vec<_> = (0..2).map(|_| handshaking(&mut server)).collect();
    client
        .net
        .send(&Target { conn, ..target }, &request("x"), 0);
    client.net.flush();
    server.until_with(&mut [&mut client], message);
    let counters = server.net.counters();
    assert_eq!((counters.evicted_unused, counters.evicted_bound), (3, 0));
    drop((half, more));
}

#[test]
fn what_a_handshake_keeps_is_counted_and_bounded() {
    let mut server = secure_server(NetConfig::default());
    // A ClientHello of 65,535 bytes in many records: each is whole, and it is not.
    let mut record = vec![22, 3, 1, 0x20, 0];
    record.resize(5 + 0x2000, 7);
    let mut first = record.clone();
    first[5..9].copy_from_slice(&[1, 0, 0xff, 0xff]);
    let mut stream = TcpStream::connect(server.addr()).unwrap();
    stream.write_all(&first).unwrap();
    stream.write_all(&record).unwrap();
    turn_until(&mut server, |server| {
        server.net.kept_bytes() == 2 * record.len()
    });
    stream.write_all(&record).unwrap();
    let error = server.until(handshake_failed);
    assert_eq!(error.failure, HandshakeFailure::Broken);
    assert_eq!(server.net.kept_bytes(), 0);

    // Within the bound, all together give way as unfinished messages do.
    let mut server = secure_server(NetConfig {
        read_buffers_bytes_max: 20_000,
        ..NetConfig::default()
    });
    let mut streams = Vec::new();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(server.addr()).unwrap();
        stream.write_all(&first).unwrap();
        streams.push(stream);
    }
    assert_eq!(server.until(closed), CloseReason::Refused);
    assert_eq!(server.net.connection_count(), 2);
    assert_eq!(server.net.kept_bytes(), 2 * first.len());
}

/// It makes no step, so that no step looks at what is kept.
#[test]
fn the_beginning_of_a_record_counts_beside_that_of_a_message() {
    let mut server = secure_server(NetConfig::default());
    // 19 KiB of a ClientHello of 65,535 bytes in two records that are whole.
    let mut whole = vec![22, 3, 1, 0x20, 0, 1, 0, 0xff, 0xff];
    whole.resize(5 + 0x2000, 7);
    whole.extend([22, 3, 1, 0x2b, 0]);
    whole.resize(whole.len() + 0x2b00, 7);
    let mut begun = vec![22, 3, 1, 0x40, 0];
    begun.resize(16_000, 7);
    let mut stream = TcpStream::connect(server.addr()).unwrap();
    stream.write_all(&whole).unwrap();
    turn_until(&mut server, |server| server.net.kept_bytes() == whole.len());
    stream.write_all(&begun).unwrap();
    let error = server.until(handshake_failed);
    assert_eq!(error.failure, HandshakeFailure::Broken);
    assert_eq!(server.net.kept_bytes(), 0);
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

/// Connects from an address of this host.
fn connect_from(ip: [u8; 4], server: &mut Bench) -> (TcpStream, Flow) {
    let stream = stream_from(ip, server.addr());
    let flow = server.until(accepted);
    (stream, flow)
}

/// Sends until so many bytes wait because the peer does not read.
fn stuff(server: &mut Bench, flow: &Flow, bytes: usize) {
    let before = server.net.queued_bytes();
    let message = request(&"x".repeat(50_000));
    while server.net.queued_bytes() < before + bytes {
        server.net.send(&Target::back(flow), &message, 0);
        server.net.flush();
    }
}

#[test]
fn past_the_total_of_all_queues_the_source_that_holds_most_gives_way() {
    const TOTAL: usize = 8 << 20;
    let config = NetConfig {
        write_queue_bytes_max: 4 << 20,
        write_queues_bytes_max: TOTAL,
        ..NetConfig::default()
    };
    let listener = ListenerConfig::new(Transport::Tcp, any_port("127.0.0.1"));
    let mut server = Bench::new(&[listener], config);
    // Five sources keep to their shares, one of them with two connections. All
    // together leave little room.
    let greedy: Vec<_> = (0..2)
        .map(|_| connect_from([127, 0, 0, 2], &mut server))
        .collect();
    stuff(&mut server, &greedy[0].1, 1_250_000);
    stuff(&mut server, &greedy[1].1, 650_000);
    let slow: Vec<_> = [3, 5, 6, 7]
        .map(|host| connect_from([127, 0, 0, host], &mut server))
        .into();
    for (_, flow) in &slow {
        stuff(&mut server, flow, 1_500_000);
    }
    let (mut innocent, flow) = connect_from([127, 0, 0, 4], &mut server);
    let message = request(&"y".repeat(50_000));
    let mut read = 0;
    // More than there is room for: it is not the slow ones who go, whose it is.
    for (_, flow) in slow.iter().chain(&slow).chain(&slow) {
        server.net.send(&Target::back(flow), &message, 0);
        server.net.flush();
    }
    server.net.send(&Target::back(&flow), &message, 7);
    server.net.flush();
    let mut buffer = vec![0; message.len()];
    while read < message.len() {
        read += innocent.read(&mut buffer[read..]).unwrap();
    }
    let mut gone = Vec::new();
    server.turn();
    for seen in &server.seen {
        assert_ne!(
            seen,
            &Seen::SendFailed(7, SendError::Closed(CloseReason::SlowReader))
        );
        if let Seen::Closed(conn, reason) = seen {
            assert_eq!(*reason, CloseReason::SlowReader);
            gone.push(*conn);
        }
    }
    assert!(!gone.is_empty());
    let of_greedy: Vec<_> = greedy.iter().map(|(_, flow)| flow.conn).collect();
    assert!(
        gone.iter().all(|conn| of_greedy.contains(conn)),
        "{gone:?} of {of_greedy:?}, slow is {:?}, the innocent {:?}, {} bytes",
        slow[0].1.conn,
        flow.conn,
        server.net.queued_bytes()
    );
    assert!(server.net.queued_bytes() <= TOTAL);
}

#[test]
fn below_the_total_no_source_has_more_than_its_share() {
    const TOTAL: usize = 8 << 20;
    let config = NetConfig {
        write_queue_bytes_max: 4 << 20,
        write_queues_bytes_max: TOTAL,
        ..NetConfig::default()
    };
    let listener = ListenerConfig::new(Transport::Tcp, any_port("127.0.0.1"));
    let mut server = Bench::new(&[listener], config);
    let small = connect_from([127, 0, 0, 2], &mut server);
    let large = connect_from([127, 0, 0, 2], &mut server);
    let other = connect_from([127, 0, 0, 3], &mut server);
    stuff(&mut server, &small.1, 600_000);
    stuff(&mut server, &other.1, 1_600_000);
    assert_eq!(server.net.connection_count(), 3);
    // More than a quarter of all for one source, and far less than all.
    let message = request(&"x".repeat(50_000));
    for _ in 0..200 {
        server.net.send(&Target::back(&large.1), &message, 0);
        server.net.flush();
        assert!(server.net.queued_bytes() < TOTAL / 4 + 1_800_000);
    }
    let gone = server.until(|seen| match seen {
        Seen::Closed(conn, CloseReason::SlowReader) => Some(*conn),
        _ => None,
    });
    assert_eq!(gone, large.1.conn);
    for _ in 0..5 {
        server.turn();
    }
    assert_eq!(server.net.connection_count(), 2, "only the largest goes");
    // What is read is no longer counted.
    let mut reader = small.0;
    reader.set_nonblocking(true).unwrap();
    let mut buffer = vec![0; 1 << 20];
    while server.net.queued_bytes() > 1_700_000 {
        let _ = reader.read(&mut buffer);
        server.turn();
    }
    stuff(&mut server, &small.1, 1_700_000);
    assert_eq!(server.net.connection_count(), 2);
}

#[test]
fn past_the_total_of_unfinished_messages_the_source_that_holds_most_gives_way() {
    let config = NetConfig {
        read_buffers_bytes_max: 100_000,
        ..NetConfig::default()
    };
    let listener = ListenerConfig::new(Transport::Tcp, any_port("127.0.0.1"));
    let mut server = Bench::new(&[listener], config);
    let whole = request(&"x".repeat(30_000));
    let mut greedy: Vec<_> = (0..3)
        .map(|_| connect_from([127, 0, 0, 2], &mut server))
        .collect();
    let mut innocent = connect_from([127, 0, 0, 4], &mut server);
    for (stream, _) in &mut greedy {
        let before = server.net.kept_bytes();
        stream.write_all(&whole[..29_000]).unwrap();
        while server.net.kept_bytes() < before + 29_000 {
            server.turn();
        }
    }
    // Half of a message more is too much together: not for whoever sent it.
    innocent.0.write_all(&whole[..20_000]).unwrap();
    let gone = server.until(|seen| match seen {
        Seen::Closed(conn, CloseReason::Refused) => Some(*conn),
        _ => None,
    });
    assert!(greedy.iter().any(|(_, flow)| flow.conn == gone));
    innocent.0.write_all(&whole[20_000..]).unwrap();
    assert_eq!(server.message().0, innocent.1);
}

#[test]
fn who_does_not_read_is_not_read_from() {
    let config = NetConfig {
        write_queue_bytes_max: 4 << 20,
        ..NetConfig::default()
    };
    let listener = ListenerConfig::new(Transport::Tcp, any_port("127.0.0.1"));
    let mut server = Bench::new(&[listener], config);
    let (mut stream, flow) = connect_from([127, 0, 0, 2], &mut server);
    stuff(&mut server, &flow, 2 << 20);
    stream.write_all(&request("more")).unwrap();
    while server.net.counters().reads_paused == 0 {
        server.turn();
    }
    assert_eq!(server.net.counters().tcp.messages_in, 0);
    // He reads, and is heard.
    stream.set_nonblocking(true).unwrap();
    let mut buffer = vec![0; 1 << 20];
    while server.net.counters().tcp.messages_in == 0 {
        while stream.read(&mut buffer).is_ok() {}
        server.turn();
    }
    assert_eq!(server.message().0, flow);
    assert_eq!(server.net.counters().reads_paused, 1);
}

#[test]
fn a_stranger_may_be_wrong_now_and_then_but_not_all_the_time() {
    let mut server = server(10, 0);
    let (mut stream, flow) = phone(&mut server, false);
    for _ in 0..16 {
        server.net.count_odd(flow.conn);
    }
    server.turn();
    assert_eq!(server.net.connection_count(), 1);
    server.net.count_odd(flow.conn);
    assert_eq!(server.net.counters().odd_closed, 1);
    assert!(is_closed(&mut stream));
}
