//! Handshakes that the other side breaks off at every step: each is counted by
//! its reason, none leaves anything behind, and honest peers are served.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{
    Bench, Seen, any_port, closed, handshake_failed, message, named, request, tls_client,
};
use rustls::ClientConnection;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sip_msg::ListenerId;
use sip_net::{CloseReason, ListenerConfig, NetConfig};
use sip_tls::testing::TestCa;
use sip_tls::{
    ClientAuth, ClientTls, ClientTlsConfig, HandshakeConfig, HandshakeFailure, HandshakePool,
    ServerTlsConfig, TlsVersion,
};

/// How far a client goes.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A part of the ClientHello's first record.
    InTheHello,
    /// The whole ClientHello.
    AfterTheHello,
    /// It has read what the server answered.
    AfterTheFlight,
    /// It has sent its last flight but for the last bytes.
    BeforeFinished,
    /// The handshake is done, and nothing is said on it.
    AfterFinished,
}

const STEPS: [Step; 5] = [
    Step::InTheHello,
    Step::AfterTheHello,
    Step::AfterTheFlight,
    Step::BeforeFinished,
    Step::AfterFinished,
];

/// How a client goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// With the end of the stream.
    Closed,
    /// With a reset.
    Reset,
}

struct World {
    ca: TestCa,
    pool: HandshakePool,
    server: Bench,
}

impl World {
    fn new(version: TlsVersion, auth: ClientAuth) -> Self {
        let ca = TestCa::new();
        let (chain, key) = ca.issue(&["example.com"]);
        let config = ServerTlsConfig::new()
            .pair_pem(chain.as_bytes(), key.as_bytes())
            .unwrap()
            .versions(&[version])
            .client_auth(auth)
            .roots_pem(&[ca.root_pem().as_bytes()])
            .unwrap();
        let pool = HandshakePool::start(HandshakeConfig::default()).unwrap();
        let net = NetConfig {
            handshakes: Some(pool.clone()),
            ..NetConfig::default()
        };
        let tls = Arc::new(config.build().unwrap());
        let listener = ListenerConfig::tls(any_port("127.0.0.1"), tls);
        Self {
            ca,
            pool,
            server: Bench::new(&[listener], net),
        }
    }

    /// A plain client of our server, with a certificate.
    fn plain(&self) -> ClientConnection {
        let mut roots = rustls::RootCertStore::empty();
        let root = CertificateDer::from_pem_slice(self.ca.root_pem().as_bytes()).unwrap();
        roots.add(root).unwrap();
        let (chain, key) = self.ca.issue(&["peer.example"]);
        let chain = vec![CertificateDer::from_pem_slice(chain.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .unwrap();
        ClientConnection::new(Arc::new(config), "example.com".try_into().unwrap()).unwrap()
    }

    /// Waits until nothing is under way.
    fn settle(&mut self, what: &str) {
        let patience = Instant::now();
        while self.pool.counters().under_way > 0 || self.server.net.connection_count() > 0 {
            assert!(patience.elapsed() < Duration::from_secs(30), "{what}");
            self.server.turn();
        }
        assert_eq!(self.server.net.kept_bytes(), 0, "{what}");
        assert!(!self.server.net.has_unsent(), "{what}");
        let now = self.pool.counters();
        assert_eq!((now.full_waiting, now.unread), (0, 0), "{what}");
    }
}

fn output(conn: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while conn.wants_write() {
        conn.write_tls(&mut bytes).unwrap();
    }
    bytes
}

/// Goes with a server as far as this step, and away.
fn go(world: &mut World, step: Step, end: End) {
    let mut conn = world.plain();
    let mut socket = TcpStream::connect(world.server.addr()).unwrap();
    let hello = output(&mut conn);
    let first = match step {
        Step::InTheHello => &hello[..hello.len() / 2],
        _ => &hello,
    };
    socket.write_all(first).unwrap();
    if !matches!(step, Step::InTheHello | Step::AfterTheHello) {
        socket.set_nonblocking(true).unwrap();
        let patience = Instant::now();
        // Everything that the server has to say until it is the client's turn.
        while !conn.wants_write() && conn.is_handshaking() {
            assert!(patience.elapsed() < Duration::from_secs(30));
            world.server.turn();
            if conn.read_tls(&mut socket).is_ok() {
                conn.process_new_packets().unwrap();
            }
        }
        socket.set_nonblocking(false).unwrap();
        let last = output(&mut conn);
        match step {
            Step::BeforeFinished => socket.write_all(&last[..last.len() - 3]).unwrap(),
            Step::AfterFinished => socket.write_all(&last).unwrap(),
            _ => {}
        }
        if matches!(step, Step::AfterFinished) {
            let accepted = |seen: &Seen| matches!(seen, Seen::Accepted(_)).then_some(());
            world.server.until(accepted);
        }
    }
    if end == End::Reset {
        socket2::SockRef::from(&socket)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
    }
    drop(socket);
}

#[test]
fn a_client_goes_away_at_every_step() {
    for version in TlsVersion::ALL {
        for auth in [ClientAuth::Off, ClientAuth::Required] {
            let mut world = World::new(version, auth);
            let mut cut = 0;
            let mut done = 0;
            for step in STEPS {
                for end in [End::Closed, End::Reset] {
                    let what = format!("TLS {} {auth:?} {step:?} {end:?}", version.name());
                    go(&mut world, step, end);
                    let reason = world.server.until(closed);
                    if matches!(step, Step::AfterFinished) {
                        done += 1;
                        assert!(
                            matches!(reason, CloseReason::Peer | CloseReason::Broken),
                            "{what}: {reason:?}"
                        );
                    } else {
                        cut += 1;
                        assert_eq!(reason, CloseReason::Handshake, "{what}");
                        let error = world.server.until(handshake_failed);
                        assert_eq!(error.failure, HandshakeFailure::Cut, "{what}");
                    }
                    world.settle(&what);
                }
            }
            let counters = world.pool.counters();
            assert_eq!((counters.cut, counters.done), (cut, done));
            let tally = world
                .server
                .net
                .listener_counters(ListenerId(0))
                .unwrap()
                .tls;
            assert_eq!(tally.failed[HandshakeFailure::Cut as usize], cut);
            assert_eq!(tally.failed.iter().sum::<u64>(), cut);
            let read = world.server.net.counters().tls;
            assert_eq!((read.messages_in, read.bytes_in), (0, 0));
        }
    }
}

#[test]
fn what_is_no_handshake_is_told_so_and_counted() {
    use HandshakeFailure::{Broken, Incompatible};
    // The ClientHellos of SSL 3.0 and TLS 1.1, records of other kinds, lengths
    // that lie, and a handshake message that is none.
    let old = |minor: u8| {
        let mut hello = vec![22, 3, minor.min(1), 0, 45, 1, 0, 0, 41, 3, minor];
        hello.extend([7; 32]);
        hello.extend([0, 0, 2, 0, 0x2f, 1, 0]);
        hello
    };
    let rows: [(&str, Vec<u8>, HandshakeFailure); 8] = [
        ("TLS 1.1", old(2), Incompatible),
        ("SSL 3.0", old(0), Incompatible),
        ("data before the handshake", vec![23, 3, 3, 0, 1, 0], Broken),
        ("an alert", vec![21, 3, 3, 0, 2, 2, 40], Broken),
        ("a record too long", vec![22, 3, 3, 255, 255, 1], Broken),
        ("an empty record", vec![22, 3, 3, 0, 0], Broken),
        (
            "another message first",
            vec![22, 3, 3, 0, 4, 14, 0, 0, 0],
            Broken,
        ),
        ("no TLS at all", b"GET / HTTP/1.1\r\n\r\n".to_vec(), Broken),
    ];
    for version in TlsVersion::ALL {
        for (name, bytes, failure) in &rows {
            let mut world = World::new(version, ClientAuth::Off);
            let mut socket = TcpStream::connect(world.server.addr()).unwrap();
            socket.write_all(bytes).unwrap();
            let error = world.server.until(handshake_failed);
            if *failure == Incompatible {
                assert_eq!(error.failure, Incompatible, "{name}: {error}");
            } else {
                assert!(
                    !matches!(
                        error.failure,
                        HandshakeFailure::TimedOut | HandshakeFailure::Cut
                    ),
                    "{name}: {error}"
                );
            }
            world.settle(name);
            // What was told is an alert or an end, never a word of SIP.
            let mut told = Vec::new();
            let _ = socket.read_to_end(&mut told);
            assert!(told.is_empty() || told[0] == 21, "{name}: {told:?}");
        }
    }
}

/// A server that answers a ClientHello with these bytes and goes away.
fn answers(bytes: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let _ = socket.read(&mut [0; 4_096]);
        let _ = socket.write_all(bytes);
    });
    addr
}

#[test]
fn a_server_goes_away_or_speaks_something_else() {
    let ca = TestCa::new();
    for (bytes, failure) in [
        (&b""[..], HandshakeFailure::Cut),
        (&[22, 3, 3, 0, 80, 2, 0], HandshakeFailure::Cut),
        (&[21, 3, 3, 0, 2, 2, 70], HandshakeFailure::Incompatible),
        (&[21, 3, 3, 0, 2, 2, 80], HandshakeFailure::Broken),
        (b"SIP/2.0 200 OK\r\n\r\n", HandshakeFailure::Broken),
    ] {
        let mut client = tls_client(ClientTls::from_pem(&[ca.root_pem().as_bytes()]).unwrap());
        let target = named(answers(bytes), "example.com");
        client.net.send(&target, &request("secret"), 1);
        let error = client.until(handshake_failed);
        assert_eq!(error.failure, failure, "{bytes:?}: {error}");
        assert_eq!(client.until(crate::common::send_failed).0, 1);
        assert_eq!(client.net.connection_count(), 0);
        let tally = client.net.opened_tls();
        assert_eq!(tally.failed[failure as usize], 1);
    }
}

#[test]
fn after_all_that_honest_peers_are_served() {
    let mut world = World::new(TlsVersion::V13, ClientAuth::Required);
    for step in STEPS {
        for _ in 0..20 {
            go(&mut world, step, End::Reset);
        }
    }
    world.settle("the storm");
    let (chain, key) = world.ca.issue(&["peer.example"]);
    let config = ClientTlsConfig::new()
        .roots_pem(&[world.ca.root_pem().as_bytes()])
        .unwrap();
    let config = config
        .identity_pem(chain.as_bytes(), key.as_bytes())
        .unwrap();
    let mut client = tls_client(config.build().unwrap());
    let target = named(world.server.addr(), "example.com");
    client.net.send(&target, &request("x"), 0);
    let (_, bytes) = world.server.until_with(&mut [&mut client], message);
    assert_eq!(bytes, request("x"));
}
