//! Places of handshakes: who gives his up where there are too few.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::common::{Bench, any_port, message, named, request, stream_from, tls_client};
use crate::tls_storm::{World, connect, plain_hello, turn_until};
use sip_net::clock::Clock;
use sip_net::{ListenerConfig, NetConfig};
use sip_tls::{HandshakeConfig, HandshakePool};

/// So many places, which nobody loses by waiting.
fn places(handshakes_max: usize) -> HandshakeConfig {
    HandshakeConfig {
        handshakes_max,
        hello_timeout_ms: 60_000,
        timeout_ms: 60_000,
        ..HandshakeConfig::default()
    }
}

/// Whether the server has left a connection open and said nothing on it.
fn is_left_open(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let nothing = |error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
    stream.read(&mut [0; 1]).is_err_and(nothing)
}

#[test]
fn who_says_nothing_gives_his_place_to_who_comes_after_him() {
    let world = World::new();
    let config = HandshakeConfig {
        full_per_s_max: 1,
        ..places(4)
    };
    let (mut server, pool) = world.server_by(config, Clock::given());
    let addr = server.addr();
    let silent: Vec<_> = (0..6).map(|_| TcpStream::connect(addr).unwrap()).collect();
    turn_until(&mut server, &pool, |now| now.refused == 2);
    assert_eq!(pool.counters().under_way, 4);
    // Those who came first are gone.
    for (place, stream) in silent.iter().enumerate() {
        assert_eq!(is_left_open(stream), place >= 2, "{place}");
    }
    // Who says hello has his place for good: the others go before him, and then nobody does.
    let hello = plain_hello();
    let waiting: Vec<_> = (0..4).map(|_| connect(addr, &hello)).collect();
    turn_until(&mut server, &pool, |now| {
        now.refused == 6 && now.full_begun + now.full_waiting == 4
    });
    let refused = connect(addr, &hello);
    turn_until(&mut server, &pool, |now| now.refused == 7);
    let now = pool.counters();
    assert_eq!((now.under_way, now.full_begun + now.full_waiting), (4, 4));
    drop((silent, waiting, refused));
}

#[test]
fn what_somebody_said_and_nobody_has_read_is_no_silence() {
    let world = World::new();
    let config = HandshakeConfig {
        full_per_s_max: 1,
        ..places(4)
    };
    let (mut server, pool) = world.server_by(config, Clock::given());
    let addr = server.addr();
    // All of them before the server looks.
    let hello = plain_hello();
    let five: Vec<_> = (0..5).map(|_| connect(addr, &hello)).collect();
    turn_until(&mut server, &pool, |now| {
        now.refused == 1 && now.full_begun + now.full_waiting == 4
    });
    // Who came last is the one.
    for (place, stream) in five.iter().enumerate() {
        // The first has had its turn, and an answer.
        let open = place == 0 || is_left_open(stream);
        assert_eq!(open, place < 4, "{place}");
    }
}

#[test]
fn the_beginning_of_a_hello_holds_no_place_for_good() {
    let world = World::new();
    // What has begun is done then: a client whose step a thread has does not give way.
    let config = HandshakeConfig {
        threads: 0,
        ..places(2)
    };
    let (mut server, pool) = world.server(config);
    let addr = server.addr();
    // A record that is whole, and a ClientHello that is not.
    let beginning = [22, 3, 1, 0, 4, 1, 0, 0xff, 0xff];
    let begun: Vec<_> = (0..2).map(|_| connect(addr, &beginning)).collect();
    turn_until(&mut server, &pool, |now| now.full_begun == 2);
    let mut client = tls_client(world.trust().build().unwrap());
    client
        .net
        .send(&named(addr, "example.com"), &request("x"), 0);
    server.until_with(&mut [&mut client], message);
    assert_eq!((pool.counters().refused, pool.counters().under_way), (1, 1));
    drop(begun);
}

/// A client that does what it has to gets in beside those that hold all places, of which one
/// gives way.
fn gets_in(world: &World, server: &mut Bench, pool: &HandshakePool) {
    let (addr, before) = (server.addr(), pool.counters());
    let mut client = tls_client(world.trust().build().unwrap());
    client
        .net
        .send(&named(addr, "example.com"), &request("x"), 0);
    server.until_with(&mut [&mut client], message);
    let now = pool.counters();
    assert_eq!(
        (now.refused, now.under_way, now.done),
        (before.refused + 1, before.under_way - 1, before.done + 1)
    );
}

/// Two clients that have said hello and were answered, and do nothing more.
fn two_with_an_answer(server: &mut Bench, pool: &HandshakePool) -> Vec<TcpStream> {
    let (addr, hello) = (server.addr(), plain_hello());
    let two: Vec<_> = (0..2).map(|_| connect(addr, &hello)).collect();
    for stream in &two {
        turn_until(server, pool, |_| !is_left_open(stream));
    }
    two
}

#[test]
fn who_says_no_other_hello_holds_no_place_for_good() {
    let world = World::that_asks_again();
    let (mut server, pool) = world.server(places(2));
    let _begun = two_with_an_answer(&mut server, &pool);
    gets_in(&world, &mut server, &pool);
}

#[test]
fn who_leaves_an_answer_alone_gives_way_after_a_second() {
    let world = World::new();
    let (mut server, pool) = world.server_by(places(2), Clock::given());
    let _begun = two_with_an_answer(&mut server, &pool);
    server.clock.pass(999);
    let newcomer = TcpStream::connect(server.addr()).unwrap();
    turn_until(&mut server, &pool, |now| now.refused == 1);
    assert!(!is_left_open(&newcomer));
    assert_eq!(pool.counters().under_way, 2);
    let displaced = server.net.counters().displaced_handshakes;
    server.clock.pass(1);
    gets_in(&world, &mut server, &pool);
    // The newcomer before was refused, and nobody closed for it.
    let now = server.net.counters();
    assert_eq!((displaced, now.displaced_handshakes), (0, 1));
    assert_eq!(now.refused_handshakes, 2);
}

/// Else a byte now and then holds a place for as long as a handshake may take.
#[test]
fn who_dribbles_after_his_answer_gains_no_time() {
    // A record that is whole and means nothing, and the beginning of the next.
    let nothing = [20, 3, 3, 0, 1, 1, 22];
    for dribbled in [&nothing[..], &nothing[6..]] {
        let world = World::new();
        let (mut server, pool) = world.server_by(places(2), Clock::given());
        let mut begun = two_with_an_answer(&mut server, &pool);
        server.clock.pass(999);
        begun[0].write_all(dribbled).unwrap();
        turn_until_kept(&mut server, 1);
        server.clock.pass(1);
        gets_in(&world, &mut server, &pool);
        assert!(!is_still_open(&begun[0]) && is_still_open(&begun[1]));
    }
}

/// Else a byte from each of those that are looked at has each newcomer refused.
#[test]
fn who_says_a_byte_before_each_turn_holds_no_place_for_that() {
    let world = World::new();
    let (mut server, pool) = world.server_by(places(16), Clock::given());
    let addr = server.addr();
    let mut clients: Vec<_> = (0..16).map(|_| TcpStream::connect(addr).unwrap()).collect();
    turn_until(&mut server, &pool, |now| now.under_way == 16);
    server.clock.pass(1_000);
    let say = |clients: &mut [TcpStream]| {
        for client in clients {
            client.write_all(&[22]).unwrap();
        }
    };
    say(&mut clients);
    turn_until_kept(&mut server, 16);
    say(&mut clients);
    let newcomer = TcpStream::connect(addr).unwrap();
    turn_until(&mut server, &pool, |now| now.refused == 1);
    assert!(is_left_open(&newcomer) && !is_left_open(&clients[0]));
    assert!(clients[1..].iter().all(is_left_open));
    assert_eq!(server.net.counters().displaced_handshakes, 1);
}

/// Until so many bytes of handshakes wait for the rest of them.
fn turn_until_kept(server: &mut Bench, bytes: usize) {
    let patience = Instant::now();
    while server.net.kept_bytes() != bytes {
        assert!(patience.elapsed() < Duration::from_secs(30));
        server.turn();
    }
}

/// Else a flood of replayed hellos has each phone closed that is about to say its own.
#[test]
fn who_has_just_come_does_not_go_before_hellos_that_are_replayed() {
    let world = World::new();
    let (mut server, pool) = world.server_by(places(3), Clock::given());
    let addr = server.addr();
    let begun = two_with_an_answer(&mut server, &pool);
    server.clock.pass(500);
    let mut client = Client::new(&world, addr);
    turn_until(&mut server, &pool, |now| now.under_way == 3);
    let hello = plain_hello();
    for refused in 1..=3 {
        let _newcomer = connect(addr, &hello);
        turn_until(&mut server, &pool, |now| now.refused == refused);
    }
    // The first of them has had its second: the next newcomer gets in for it.
    server.clock.pass(500);
    let _newcomer = connect(addr, &hello);
    turn_until(&mut server, &pool, |now| now.refused == 4);
    assert!(!is_still_open(&begun[0]));
    client.speak();
    client.listen(&mut server, &pool);
    client.speak();
    turn_until(&mut server, &pool, |now| now.done == 1);
}

/// The kernel spreads the connections of a source evenly over workers.
#[test]
fn what_a_source_has_at_other_workers_counts_too() {
    let world = World::new();
    let (mut server, pool) = world.server_by(places(50), Clock::given());
    let addr = server.addr();
    let slow = stream_from([127, 0, 0, 3], addr);
    turn_until(&mut server, &pool, |now| now.under_way == 1);
    server.clock.pass(1_000);
    let mut flood: Vec<_> = (0..49).map(|_| stream_from([127, 0, 0, 9], addr)).collect();
    turn_until(&mut server, &pool, |now| now.under_way == 50);
    let other = pool.join();
    assert_eq!(pool.workers(), 2);
    let newcomer = stream_from([127, 0, 0, 4], addr);
    turn_until(&mut server, &pool, |now| now.refused == 1);
    assert!(is_left_open(&slow) && is_left_open(&newcomer) && !is_left_open(&flood[0]));
    // Where there is one alone, 48 are not many.
    drop(other);
    flood.push(stream_from([127, 0, 0, 9], addr));
    turn_until(&mut server, &pool, |now| now.refused == 2);
    assert!(!is_left_open(&slow));
}

/// Whether the server has left a connection open, whatever it said on it.
fn is_still_open(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let mut said = Vec::new();
    let end = stream.read_to_end(&mut said);
    end.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

#[test]
fn who_had_to_wait_for_his_answer_has_not_left_it_alone() {
    let world = World::new();
    let config = HandshakeConfig {
        full_per_s_max: 1,
        hello_timeout_ms: 1_000,
        ..places(2)
    };
    let (mut server, pool) = world.server_by(config, Clock::given());
    let (addr, hello) = (server.addr(), plain_hello());
    let first = connect(addr, &hello);
    turn_until(&mut server, &pool, |now| now.full_begun == 1);
    turn_until(&mut server, &pool, |_| !is_left_open(&first));
    let second = connect(addr, &hello);
    turn_until(&mut server, &pool, |now| now.full_waiting == 1);
    server.clock.pass(2_000);
    turn_until(&mut server, &pool, |now| now.full_begun == 2);
    turn_until(&mut server, &pool, |_| !is_left_open(&second));
    server.clock.pass(10);
    // The first has had its answer for long, and the second for no time.
    let third = connect(addr, &hello);
    turn_until(&mut server, &pool, |now| {
        now.refused == 1 && now.full_waiting == 1
    });
    assert!(!is_still_open(&first));
    let fourth = connect(addr, &hello);
    turn_until(&mut server, &pool, |now| now.refused == 2);
    assert!(!is_still_open(&fourth));
    assert!(is_still_open(&second) && is_still_open(&third));
}

#[test]
fn who_is_asked_for_another_hello_has_said_nothing_from_then_on() {
    let world = World::that_asks_again();
    let (mut server, pool) = world.server_by(places(3), Clock::given());
    let addr = server.addr();
    let mut asked = TcpStream::connect(addr).unwrap();
    turn_until(&mut server, &pool, |now| now.under_way == 1);
    server.clock.pass(10);
    let silent: Vec<_> = (0..2).map(|_| TcpStream::connect(addr).unwrap()).collect();
    turn_until(&mut server, &pool, |now| now.under_way == 3);
    server.clock.pass(10);
    asked.write_all(&plain_hello()).unwrap();
    turn_until(&mut server, &pool, |_| !is_left_open(&asked));
    // Those who came after it have been silent for longer.
    let mut newer = Vec::new();
    for (refused, goes) in [(1, &silent[0]), (2, &silent[1])] {
        newer.push(TcpStream::connect(addr).unwrap());
        turn_until(&mut server, &pool, |now| now.refused == refused);
        assert!(!is_left_open(goes));
        assert!(is_still_open(&asked));
        server.clock.pass(10);
    }
    newer.push(TcpStream::connect(addr).unwrap());
    turn_until(&mut server, &pool, |now| now.refused == 3);
    assert!(!is_still_open(&asked));
}

#[test]
fn silent_clients_of_other_sources_hide_none_of_a_sources_own() {
    let world = World::new();
    let config = HandshakeConfig {
        per_source_max: 2,
        ..places(64)
    };
    let (mut server, pool) = world.server(config);
    let addr = server.addr();
    let from = |last, count| (0..count).map(move |_| stream_from([127, 0, 0, last], addr));
    let others: Vec<_> = (10..22).flat_map(|last| from(last, 2)).collect();
    turn_until(&mut server, &pool, |now| now.under_way == 24);
    let own: Vec<_> = from(1, 2).collect();
    turn_until(&mut server, &pool, |now| now.under_way == 26);
    gets_in(&world, &mut server, &pool);
    assert!(!is_left_open(&own[0]) && is_left_open(&own[1]));
    assert!(others.iter().all(is_left_open));
}

/// Else who keeps all his connections young has the places of all who are slow, be they silent
/// or hellos whose answers he leaves alone.
#[test]
fn where_all_places_are_taken_the_source_that_waits_with_most_gives_one_up() {
    let world = World::new();
    for hello in [Vec::new(), plain_hello()] {
        let config = HandshakeConfig {
            per_source_max: 70,
            ..places(140)
        };
        let (mut server, pool) = world.server_by(config, Clock::given());
        let addr = server.addr();
        let slow = stream_from([127, 0, 0, 3], addr);
        turn_until(&mut server, &pool, |now| now.under_way == 1);
        server.clock.pass(1_000);
        let mut flood = Vec::new();
        for (last, under_way) in [(8, 71), (9, 140)] {
            while flood.len() as u64 + 1 < under_way {
                let mut stream = stream_from([127, 0, 0, last], addr);
                stream.write_all(&hello).unwrap();
                flood.push(stream);
            }
            turn_until(&mut server, &pool, |now| now.under_way == under_way);
        }
        for stream in flood.iter().filter(|_| !hello.is_empty()) {
            turn_until(&mut server, &pool, |_| !is_left_open(stream));
        }
        // The second source may have one more, and the slow one is the oldest.
        for refused in 1..=4 {
            let last = 8 + (refused as u8 % 2);
            let mut stream = stream_from([127, 0, 0, last], addr);
            stream.write_all(&hello).unwrap();
            turn_until(&mut server, &pool, |now| now.refused == refused);
            assert!(is_left_open(&slow), "{refused}");
            flood.push(stream);
        }
        let newcomer = stream_from([127, 0, 0, 4], addr);
        turn_until(&mut server, &pool, |now| now.refused == 5);
        assert!(is_left_open(&slow) && is_left_open(&newcomer));
    }
}

/// A client that is driven by hand.
struct Client {
    tls: rustls::ClientConnection,
    stream: TcpStream,
}

impl Client {
    fn new(world: &World, addr: SocketAddr) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        let root = world.ca.root_pem();
        roots
            .add(CertificateDer::from_pem_slice(root.as_bytes()).unwrap())
            .unwrap();
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "example.com".try_into().unwrap();
        Self {
            tls: rustls::ClientConnection::new(Arc::new(config), name).unwrap(),
            stream: TcpStream::connect(addr).unwrap(),
        }
    }

    fn speak(&mut self) {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.stream).unwrap();
        }
    }

    fn listen(&mut self, server: &mut Bench, pool: &HandshakePool) {
        self.stream.set_nonblocking(true).unwrap();
        let stream = &mut self.stream;
        let patience = Instant::now();
        while !self.tls.read_tls(stream).is_ok_and(|len| len > 0) {
            assert!(patience.elapsed() < Duration::from_secs(30), "{pool:?}");
            server.turn();
        }
        self.tls.process_new_packets().unwrap();
    }
}

#[test]
fn another_hello_makes_no_handshake_longer() {
    let world = World::that_asks_again();
    let config = HandshakeConfig {
        hello_timeout_ms: 1_000,
        timeout_ms: 1_500,
        ..HandshakeConfig::default()
    };
    let (mut server, pool) = world.server_by(config, Clock::given());
    let mut client = Client::new(&world, server.addr());
    turn_until(&mut server, &pool, |now| now.under_way == 1);
    server.clock.pass(900);
    client.speak();
    client.listen(&mut server, &pool);
    server.clock.pass(900);
    client.speak();
    client.listen(&mut server, &pool);
    // From the first hello on it has 1,500 ms, and is answered.
    server.clock.pass(599);
    server.turn();
    server.turn();
    assert_eq!(pool.counters().timed_out, 0);
    // The time that deadlines are kept in.
    server.clock.pass(101);
    turn_until(&mut server, &pool, |now| now.timed_out == 1);
}

#[test]
fn who_comes_from_where_all_places_are_held_in_silence_gets_in() {
    let world = World::new();
    let config = HandshakeConfig {
        per_source_max: 2,
        ..places(16)
    };
    let (mut server, pool) = world.server_by(config, Clock::given());
    let addr = server.addr();
    let silent: Vec<_> = (0..2).map(|_| TcpStream::connect(addr).unwrap()).collect();
    turn_until(&mut server, &pool, |now| now.under_way == 2);
    gets_in(&world, &mut server, &pool);
    // Where the others there do what they have to, the new one is refused.
    let hello = plain_hello();
    let mut busy = Vec::new();
    for (refused, under_way) in [(1, 2), (2, 2), (3, 2)] {
        busy.push(connect(addr, &hello));
        turn_until(&mut server, &pool, |now| {
            now.full_begun == busy.len().min(2) as u64 + 1
                && (now.refused, now.under_way) == (refused, under_way)
        });
    }
    assert_eq!(pool.counters().refused_source, 3);
    for (place, stream) in silent.iter().chain(&busy[2..]).enumerate() {
        assert!(!is_left_open(stream), "{place}");
    }
}

#[test]
fn who_has_said_hello_hides_nobody_who_is_silent() {
    let world = World::new();
    let config = HandshakeConfig {
        full_per_s_max: 1,
        ..places(20)
    };
    let (mut server, pool) = world.server_by(config, Clock::given());
    let (addr, hello) = (server.addr(), plain_hello());
    let first = TcpStream::connect(addr).unwrap();
    turn_until(&mut server, &pool, |now| now.under_way == 1);
    let waiting: Vec<_> = (0..18).map(|_| connect(addr, &hello)).collect();
    turn_until(&mut server, &pool, |now| {
        now.full_begun + now.full_waiting == 18
    });
    let second = TcpStream::connect(addr).unwrap();
    turn_until(&mut server, &pool, |now| now.under_way == 20);
    for (refused, goes) in [(1, &first), (2, &second)] {
        assert!(is_left_open(goes));
        let _next = TcpStream::connect(addr).unwrap();
        turn_until(&mut server, &pool, |now| now.refused == refused);
        assert!(!is_left_open(goes));
    }
    drop(waiting);
}

#[test]
fn clients_do_not_take_the_places_of_handshakes_with_servers() {
    let world = World::new();
    let pool = HandshakePool::start(places(1)).unwrap();
    let config = NetConfig {
        client_tls: Some(Arc::new(world.trust().build().unwrap())),
        handshakes: Some(pool.clone()),
        ..NetConfig::default()
    };
    let listener = ListenerConfig::tls(any_port("127.0.0.1"), Arc::clone(&world.tls));
    let mut server = Bench::new(&[listener], config);
    let addr = server.addr();
    // It said hello and nothing more, and holds the only place.
    let half = connect(addr, &plain_hello());
    turn_until(&mut server, &pool, |now| now.full_begun == 1);
    let (mut gateway, _) = world.server(HandshakeConfig::default());
    server
        .net
        .send(&named(gateway.addr(), "example.com"), &request("x"), 0);
    gateway.until_with(&mut [&mut server], message);
    let now = pool.counters();
    assert_eq!((now.refused, now.under_way, now.done), (0, 1, 1));
    drop(half);
}
