//! The two ways to end a TLS connection: with a farewell and without.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::common::openssl::Openssl;
use crate::common::{Bench, any_port, closed, message, named, opened, request, tls_client, to};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};
use sip_msg::{Target, Transport};
use sip_net::clock::Clock;
use sip_net::{CloseReason, ListenerConfig, NetConfig};
use sip_tls::testing::TestCa;
use sip_tls::{ClientTls, HandshakeConfig, HandshakePool, ServerTls};

/// How a connection ended, as its peer saw it.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// close_notify, then the end of the stream.
    Farewell,
    /// The end of the stream alone.
    Cut,
    Reset,
}

/// A TLS server that reads one connection to its end; gives what it read, and
/// the end.
fn peer(ca: &TestCa) -> (std::net::SocketAddr, JoinHandle<(Vec<u8>, End)>) {
    let (chain, key) = ca.issue(&["example.com"]);
    let chain = vec![CertificateDer::from_pem_slice(chain.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut server = ServerConnection::new(Arc::new(config)).unwrap();
        let mut data = Vec::new();
        let end = read_to_end(&mut server, &mut socket, &mut data);
        (data, end)
    });
    (addr, thread)
}

fn read_to_end(server: &mut ServerConnection, socket: &mut TcpStream, data: &mut Vec<u8>) -> End {
    loop {
        let mut buffer = [0; 4_096];
        let mut reader = server.reader();
        match reader.read(&mut buffer) {
            Ok(0) => return End::Farewell,
            Ok(len) => data.extend_from_slice(&buffer[..len]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                match server.complete_io(socket) {
                    Ok(_) => {}
                    Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
                        return End::Reset;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return End::Cut,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_close_says_farewell_and_an_abort_resets() {
    let ca = TestCa::new();
    for (abort, end) in [(false, End::Farewell), (true, End::Reset)] {
        let (addr, thread) = peer(&ca);
        let mut client = tls_client(ClientTls::from_pem(&[ca.root_pem().as_bytes()]).unwrap());
        let target = named(addr, "example.com");
        let conn = client.net.open(&target).unwrap();
        client.until(opened);
        let target = Target { conn, ..target };
        client.net.send(&target, &request("x"), 0);
        client.net.flush();
        if abort {
            client.net.abort(conn);
        } else {
            client.net.close(conn, true);
        }
        let (data, seen) = {
            while !thread.is_finished() {
                client.turn();
            }
            thread.join().unwrap()
        };
        assert_eq!(seen, end);
        // A reset may overtake what was written.
        assert!(abort || data == request("x"));
        assert_eq!(client.until(closed), CloseReason::Asked);
        assert_eq!(client.net.connection_count(), 0);
    }
}

#[test]
fn an_abort_resets_without_tls_too_and_loses_what_was_queued() {
    let listener = TcpListener::bind(any_port("127.0.0.1")).unwrap();
    let mut client = crate::common::Bench::on(Transport::Tcp, "127.0.0.1");
    let target = to(Transport::Tcp, listener.local_addr().unwrap());
    let conn = client.net.open(&target).unwrap();
    client.until(opened);
    let (mut peer, _) = listener.accept().unwrap();
    client
        .net
        .send(&Target { conn, ..target }, &request("lost"), 7);
    client.net.abort(conn);
    assert_eq!(client.until(crate::common::send_failed).0, 7);
    let error = peer.read(&mut [0; 100]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    // Once more for one that is gone.
    client.net.abort(conn);
    assert_eq!(client.until(closed), CloseReason::Asked);
    client.turn();
    assert!(!client.seen.iter().any(|seen| closed(seen).is_some()));
}

/// A TLS server, and openssl that has sent it a request in that version.
fn with_openssl(version: &str, config: NetConfig, clock: Clock) -> (Bench, Openssl) {
    let (chain, key) = TestCa::new().issue(&["example.com"]);
    let tls = ServerTls::from_pem(&[(chain.as_bytes(), key.as_bytes())]).unwrap();
    let config = NetConfig {
        handshakes: Some(HandshakePool::start(HandshakeConfig::default()).unwrap()),
        ..config
    };
    let listener = ListenerConfig::tls(any_port("127.0.0.1"), Arc::new(tls));
    let mut server = Bench::with_clock(&[listener], config, clock);
    let addr = server.addr().to_string();
    let mut client = Openssl::start(&["s_client", "-connect", &addr, version]);
    client.write(&request("x"));
    let (flow, _) = server.until(message);
    let answer = b"SIP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n";
    server.net.send(&Target::back(&flow), answer, 0);
    server.net.flush();
    (server, client)
}

/// openssl tells a farewell ("closed") from a cut ("errno", "unexpected eof").
fn assert_farewell(server: &mut Bench, client: &mut Openssl) {
    let patience = std::time::Instant::now();
    while !client.over {
        assert!(patience.elapsed().as_secs() < 30, "{}", client.output);
        server.turn();
        client.read();
    }
    let told = &client.output;
    assert!(told.contains("\nclosed\n"), "{told}");
    assert!(
        !told.contains("errno") && !told.contains("unexpected eof"),
        "{told}"
    );
}

#[test]
fn an_idle_connection_ends_with_a_farewell() {
    const IDLE_MS: u64 = 600_000;
    const TICK_MS: u64 = 100;
    for version in ["-tls1_2", "-tls1_3"] {
        let config = NetConfig {
            idle_timeout_ms: IDLE_MS,
            ..NetConfig::default()
        };
        let (mut server, mut client) = with_openssl(version, config, Clock::given());
        server.clock.pass(IDLE_MS - 1);
        server.turn();
        server.turn();
        assert_eq!(server.net.connection_count(), 1);
        server.clock.pass(1 + TICK_MS);
        assert_farewell(&mut server, &mut client);
        assert_eq!(server.until(closed), CloseReason::Idle);
    }
}

#[test]
fn one_that_makes_room_for_another_ends_with_a_farewell() {
    for version in ["-tls1_2", "-tls1_3"] {
        let config = NetConfig {
            connections_max: 1,
            evict_after_ms: 0,
            ..NetConfig::default()
        };
        let (mut server, mut client) = with_openssl(version, config, Clock::system());
        let _newer = TcpStream::connect(server.addr()).unwrap();
        assert_eq!(server.until(closed), CloseReason::Evicted);
        assert_farewell(&mut server, &mut client);
    }
}
