//! Storms of handshakes: bounds, turns and deadlines.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{
    Bench, Seen, any_port, closed, handshake_failed, message, named, opened, request, tls_client,
    tls_server_with,
};
use sip_msg::{ListenerId, Target};
use sip_net::clock::Clock;
use sip_net::{CloseReason, ListenerConfig, NetConfig};
use sip_tls::testing::TestCa;
use sip_tls::{
    ClientTls, ClientTlsConfig, HandshakeConfig, HandshakeCounters, HandshakeFailure,
    HandshakePool, Resumption, ServerTls, ServerTlsConfig, TlsVersion,
};

pub(crate) struct World {
    pub(crate) ca: TestCa,
    pub(crate) tls: Arc<ServerTls>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::of(ServerTlsConfig::new())
    }

    /// Each of our clients begins with another group, and is asked for another hello
    /// (RFC 8446 4.1.4).
    pub(crate) fn that_asks_again() -> Self {
        Self::of(ServerTlsConfig::new().groups(&["P-384"]))
    }

    fn of(tls: ServerTlsConfig) -> Self {
        let ca = TestCa::new();
        let (chain, key) = ca.issue(&["example.com"]);
        let pair = tls.pair_pem(chain.as_bytes(), key.as_bytes());
        let tls = Arc::new(pair.unwrap().build().unwrap());
        Self { ca, tls }
    }

    pub(crate) fn server(&self, config: HandshakeConfig) -> (Bench, HandshakePool) {
        self.server_by(config, Clock::system())
    }

    pub(crate) fn server_by(
        &self,
        config: HandshakeConfig,
        clock: Clock,
    ) -> (Bench, HandshakePool) {
        let pool = HandshakePool::start(config).unwrap();
        let config = NetConfig {
            handshakes: Some(pool.clone()),
            ..NetConfig::default()
        };
        let listener = ListenerConfig::tls(any_port("127.0.0.1"), Arc::clone(&self.tls));
        (Bench::with_clock(&[listener], config, clock), pool)
    }

    pub(crate) fn trust(&self) -> ClientTlsConfig {
        ClientTlsConfig::new()
            .roots_pem(&[self.ca.root_pem().as_bytes()])
            .unwrap()
    }
}

/// A client that stands still after its ClientHello: bytes that it sends.
fn hello(tls: &rustls::ClientConfig) -> Vec<u8> {
    let name = "example.com".try_into().unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(tls.clone()), name).unwrap();
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    bytes
}

pub(crate) fn plain_hello() -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    hello(&config)
}

pub(crate) fn connect(addr: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut socket = TcpStream::connect(addr).unwrap();
    socket.write_all(bytes).unwrap();
    socket
}

pub(crate) fn turn_until(
    server: &mut Bench,
    pool: &HandshakePool,
    done: impl Fn(HandshakeCounters) -> bool,
) {
    let patience = Instant::now();
    while !done(pool.counters()) {
        assert!(patience.elapsed() < Duration::from_secs(30), "{pool:?}");
        server.turn();
    }
}

#[test]
fn full_handshakes_wait_in_a_bounded_queue_and_resumed_ones_pass_them() {
    for version in TlsVersion::ALL {
        let world = World::new();
        // A client gets a session while there is room.
        let (mut server, _) = world.server(HandshakeConfig::default());
        let tls = Arc::new(world.trust().versions(&[version]).build().unwrap());
        let mut client = tls_client(ClientTls::from_pem(&[]).unwrap());
        let addr = server.addr();
        let visit = |client: &mut Bench, server: &mut Bench| {
            let target = named(addr, "example.com");
            let conn = client.net.open_as(&target, &tls).unwrap();
            client.until_with(&mut [server], opened);
            let info = *client.net.tls_info(conn).unwrap();
            client
                .net
                .send(&Target { conn, ..target }, &request("x"), 0);
            let (flow, _) = server.until_with(&mut [client], message);
            server.net.send(&Target::back(&flow), &request("y"), 0);
            client.until_with(&mut [server], message);
            client.net.close(conn, true);
            client.until_with(&mut [server], closed);
            server.until_with(&mut [client], closed);
            info.resumed
        };
        assert_eq!(visit(&mut client, &mut server), None);
        drop(server);

        // Then the storm comes, to a server on the same address, whose only
        // thread has begun its one full handshake.
        let pool = HandshakePool::start(HandshakeConfig {
            threads: 1,
            full_queue_max: 30,
            full_per_s_max: 1,
            hello_timeout_ms: 60_000,
            timeout_ms: 60_000,
            ..HandshakeConfig::default()
        })
        .unwrap();
        let config = NetConfig {
            handshakes: Some(pool.clone()),
            ..NetConfig::default()
        };
        let listener = ListenerConfig::tls(addr, Arc::clone(&world.tls));
        let mut server = Bench::new(&[listener], config);
        let hello = plain_hello();
        let storm: Vec<_> = (0..60).map(|_| connect(addr, &hello)).collect();
        turn_until(&mut server, &pool, |now| {
            now.refused_full >= 15 && now.full_waiting > 0
        });
        let before = pool.counters();
        assert!(
            before.full_waiting <= 30 && before.full_begun < 15,
            "{before:?}"
        );
        for _ in 0..25 {
            assert_eq!(
                visit(&mut client, &mut server),
                Some(match version {
                    TlsVersion::V12 => Resumption::Ticket,
                    TlsVersion::V13 => Resumption::Psk,
                })
            );
        }
        let after = pool.counters();
        assert_eq!(after.resumed_begun, 25);
        // They did not wait for one full handshake each.
        assert!(after.full_begun < before.full_begun + 25, "{after:?}");
        // Who was refused was told at once, by a reset.
        assert!(server.net.counters().closed[CloseReason::Refused as usize] >= 15);
        let tally = server.net.listener_counters(ListenerId(0)).unwrap().tls;
        assert!(tally.failed[HandshakeFailure::Refused as usize] >= 15);
        // And when the storm is over nothing of it is left.
        drop(storm);
        drop(client);
        server.net.close_all(false);
        let patience = Instant::now();
        while pool.counters().under_way > 0 {
            assert!(patience.elapsed() < Duration::from_secs(60), "{pool:?}");
            server.turn();
        }
        let end = pool.counters();
        assert_eq!((end.full_waiting, end.unread), (0, 0), "{end:?}");
    }
}

#[test]
fn a_ticket_that_is_not_ours_gets_no_place_before_others() {
    use rustls::pki_types::pem::PemObject;
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let world = World::new();
        let (mut server, pool) = world.server(HandshakeConfig::default());
        // A ClientHello with a ticket of another server.
        let stranger = World::new();
        let (mut other, _) = stranger.server(HandshakeConfig::default());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        let root = stranger.ca.root_pem();
        roots
            .add(rustls::pki_types::CertificateDer::from_pem_slice(root.as_bytes()).unwrap())
            .unwrap();
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let addr = other.addr();
        let for_thread = config.clone();
        let thread = std::thread::spawn(move || {
            let name = "example.com".try_into().unwrap();
            let mut client = rustls::ClientConnection::new(Arc::new(for_thread), name).unwrap();
            let mut socket = TcpStream::connect(addr).unwrap();
            while client.is_handshaking() {
                client.complete_io(&mut socket).unwrap();
            }
            // The ticket of TLS 1.3 comes after the handshake.
            let is_tls13 = client.protocol_version() == Some(rustls::ProtocolVersion::TLSv1_3);
            while is_tls13 && client.tls13_tickets_received() == 0 {
                client.complete_io(&mut socket).unwrap();
            }
        });
        while !thread.is_finished() {
            other.turn();
        }
        thread.join().unwrap();
        let with_ticket = hello(&config);
        let mut bare = config.clone();
        bare.resumption = rustls::client::Resumption::disabled();
        assert!(
            with_ticket.len() > hello(&bare).len() + 100,
            "the hello has no ticket"
        );
        // Elsewhere it is a full handshake, at home a resumption.
        let (mut home, home_pool) = stranger.server(HandshakeConfig::default());
        for (server, pool, begun) in [
            (&mut server, &pool, (1, 0)),
            (&mut home, &home_pool, (0, 1)),
        ] {
            let peer = connect(server.addr(), &with_ticket);
            turn_until(server, pool, |now| now.full_begun + now.resumed_begun > 0);
            let now = pool.counters();
            assert_eq!((now.full_begun, now.resumed_begun), begun);
            drop(peer);
        }
    }
}

#[test]
fn one_source_has_no_more_than_its_share() {
    let world = World::new();
    let config = HandshakeConfig {
        per_source_max: 3,
        ..HandshakeConfig::default()
    };
    let (mut server, pool) = world.server(config);
    let addr = server.addr();
    let greedy: Vec<_> = (0..10).map(|_| TcpStream::connect(addr).unwrap()).collect();
    for _ in 0..7 {
        assert_eq!(server.until(closed), CloseReason::Refused);
    }
    let counters = pool.counters();
    assert_eq!(
        (
            counters.refused_source,
            counters.refused,
            counters.under_way
        ),
        (7, 7, 3)
    );
    // Another source is served.
    let mut client = Bench::new(
        &[ListenerConfig::outbound(
            sip_msg::Transport::Tls,
            any_port("127.0.0.9"),
        )],
        NetConfig {
            client_tls: Some(Arc::new(world.trust().build().unwrap())),
            handshakes: Some(HandshakePool::start(HandshakeConfig::default()).unwrap()),
            ..NetConfig::default()
        },
    );
    client
        .net
        .send(&named(addr, "example.com"), &request("x"), 0);
    let (flow, _) = server.until_with(&mut [&mut client], message);
    assert_eq!(flow.remote.ip(), "127.0.0.9".parse::<IpAddr>().unwrap());
    // And the first again, when it is done.
    drop(greedy);
    turn_until(&mut server, &pool, |now| now.under_way == 0);
    let again = TcpStream::connect(addr).unwrap();
    turn_until(&mut server, &pool, |now| now.under_way == 1);
    assert_eq!(pool.counters().refused_source, 7);
    drop(again);
}

#[test]
fn who_says_nothing_and_who_waits_too_long_are_given_up() {
    let world = World::new();
    let config = HandshakeConfig {
        full_per_s_max: 1,
        hello_timeout_ms: 300,
        timeout_ms: 1_500,
        ..HandshakeConfig::default()
    };
    let (mut server, pool) = world.server(config);
    let addr = server.addr();
    let silent = TcpStream::connect(addr).unwrap();
    let mut half = TcpStream::connect(addr).unwrap();
    half.write_all(&plain_hello()[..50]).unwrap();
    for _ in 0..2 {
        let error = server.until(handshake_failed);
        assert_eq!(error.failure, HandshakeFailure::TimedOut);
    }
    // Five come at once, and one a second has its turn; none of them goes on.
    let hello = plain_hello();
    let waiting: Vec<_> = (0..5).map(|_| connect(addr, &hello)).collect();
    for _ in 0..5 {
        let error = server.until(handshake_failed);
        assert_eq!(error.failure, HandshakeFailure::TimedOut);
    }
    let counters = pool.counters();
    assert_eq!(
        (
            counters.timed_out,
            counters.under_way,
            counters.full_waiting
        ),
        (7, 0, 0)
    );
    drop((silent, half, waiting));
}

#[test]
fn who_goes_away_while_waiting_leaves_nothing() {
    let world = World::new();
    let config = HandshakeConfig {
        full_per_s_max: 20,
        ..HandshakeConfig::default()
    };
    let (mut server, pool) = world.server(config);
    let hello = plain_hello();
    for _ in 0..20 {
        drop(connect(server.addr(), &hello));
    }
    for _ in 0..20 {
        server.until(handshake_failed);
    }
    let counters = pool.counters();
    assert_eq!(
        (counters.under_way, counters.done, counters.cut),
        (0, 0, 20)
    );
    assert_eq!(server.net.connection_count(), 0);
    assert!(
        !server
            .seen
            .iter()
            .any(|seen| matches!(seen, Seen::Accepted(_)))
    );
}

#[test]
fn a_storm_is_served_whole_where_there_is_room() {
    let world = World::new();
    let (server_tls, trust) = (Arc::clone(&world.tls), world.trust());
    let mut server = tls_server_with(
        server_tls,
        HandshakeConfig {
            threads: 2,
            ..HandshakeConfig::default()
        },
    );
    let tls = Arc::new(trust.build().unwrap().without_resumption());
    let mut client = tls_client(ClientTls::from_pem(&[]).unwrap());
    let target = named(server.addr(), "example.com");
    for _ in 0..300 {
        client.net.open_as(&target, &tls).unwrap();
    }
    for _ in 0..300 {
        client.until_with(&mut [&mut server], opened);
    }
    let patience = Instant::now();
    while server.net.counters().handshakes_in < 300 {
        assert!(patience.elapsed() < Duration::from_secs(30));
        server.turn();
    }
    let tally = server.net.listener_counters(ListenerId(0)).unwrap().tls;
    assert_eq!(
        (tally.full_total(), tally.failed.iter().sum::<u64>()),
        (300, 0)
    );
    assert!(tally.full_cpu_us > 0 && tally.full_wall_us > 0);
}

#[test]
fn a_refused_peer_is_reset() {
    let world = World::new();
    let config = HandshakeConfig {
        full_queue_max: 0,
        // Paced ones wait, if they may.
        full_per_s_max: 1,
        ..HandshakeConfig::default()
    };
    let (mut server, pool) = world.server(config);
    let mut peer = connect(server.addr(), &plain_hello());
    let error = server.until(handshake_failed);
    assert_eq!(error.failure, HandshakeFailure::Refused);
    assert_eq!(server.until(closed), CloseReason::Refused);
    let result = peer.read(&mut [0; 100]);
    assert_eq!(
        result.unwrap_err().kind(),
        std::io::ErrorKind::ConnectionReset
    );
    assert_eq!(
        (pool.counters().refused_full, pool.counters().under_way),
        (1, 0)
    );
}
