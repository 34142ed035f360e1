//! TLS over loopback, between two of ours and against openssl.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{Bench, Seen, any_port, closed, message, opened, request, send_failed, to};
use sip_msg::{ListenerId, Target, Transport};
use sip_net::{CloseReason, ListenerConfig, NetConfig, SendError};
use sip_tls::testing::TestCa;
use sip_tls::{
    ClientTls, HandshakeConfig, HandshakeFailure, HandshakePool, ServerTls, ServerTlsConfig,
};

struct World {
    ca: TestCa,
    pool: HandshakePool,
}

impl World {
    fn new() -> Self {
        let config = HandshakeConfig {
            timeout_ms: 2_000,
            ..HandshakeConfig::default()
        };
        Self {
            ca: TestCa::new(),
            pool: HandshakePool::start(config).unwrap(),
        }
    }

    fn tls(&self, names: &[&str]) -> Arc<ServerTls> {
        let (chain, key) = self.ca.issue(names);
        Arc::new(ServerTls::from_pem(&[(chain.as_bytes(), key.as_bytes())]).unwrap())
    }

    fn config(&self) -> NetConfig {
        let roots = self.ca.root_pem();
        NetConfig {
            client_tls: Some(Arc::new(ClientTls::from_pem(&[roots.as_bytes()]).unwrap())),
            handshakes: Some(self.pool.clone()),
            ..NetConfig::default()
        }
    }

    fn server(&self, names: &[&str]) -> Bench {
        Bench::new(
            &[ListenerConfig::tls(any_port("127.0.0.1"), self.tls(names))],
            self.config(),
        )
    }

    fn client(&self) -> Bench {
        Bench::new(
            &[ListenerConfig::outbound(
                Transport::Tls,
                any_port("127.0.0.1"),
            )],
            self.config(),
        )
    }
}

fn named(server: &Bench, name: &str) -> Target {
    Target {
        tls_name: Some(name.into()),
        ..to(Transport::Tls, server.addr())
    }
}

/// Its answer is queued while the session reads.
#[test]
fn a_peer_that_pings_while_much_waits_for_it_gets_all_of_it() {
    let world = World::new();
    let (mut server, mut client) = (world.server(&["example.com"]), world.client());
    let target = named(&server, "example.com");
    client.net.send(&target, &request("first"), 1);
    let flow = loop {
        client.turn();
        server.turn();
        if let Some(flow) = server.seen.iter().find_map(|seen| match seen {
            Seen::Message(flow, ..) => Some(*flow),
            _ => None,
        }) {
            break flow;
        }
    };
    let message = request(&"y".repeat(3_000));
    let mut sent = 0;
    // The socket takes a part of the last ones, and so little waits that the peer is still read.
    while server.net.queued_bytes() < 1_000 {
        for _ in 0..15 {
            server.net.send(&Target::back(&flow), &message, 0);
        }
        server.net.flush();
        sent += 15;
        server.turn();
        server.turn();
    }
    for _ in 0..5 {
        client.net.send(&target, b"\r\n\r\n", 0);
        client.net.flush();
        server.turn();
        server.turn();
    }
    assert!((1_000..200_000).contains(&server.net.queued_bytes()));
    let mut came = 0;
    for _ in 0..20_000 {
        client.turn();
        server.turn();
        let is_message = |seen: &Seen| matches!(seen, Seen::Message(_, bytes) if *bytes == message);
        came += client.seen.drain(..).filter(is_message).count();
        if came == sent {
            break;
        }
    }
    assert_eq!(came, sent);
    assert_eq!(server.net.queued_bytes(), 0);
}

/// What waits is made into records a piece at a time.
#[test]
fn a_peer_that_reads_late_gets_all_that_waited_in_order() {
    let world = World::new();
    let (mut server, mut client) = (world.server(&["example.com"]), world.client());
    let target = named(&server, "example.com");
    client.net.send(&target, &request("first"), 1);
    let flow = loop {
        client.turn();
        server.turn();
        if let Some(flow) = server.seen.iter().find_map(|seen| match seen {
            Seen::Message(flow, ..) => Some(*flow),
            _ => None,
        }) {
            break flow;
        }
    };
    let bodies: Vec<String> = (0..6_000)
        .map(|n| format!("{n} {}", "y".repeat(3_000)))
        .collect();
    for body in &bodies {
        server.net.send(&Target::back(&flow), &request(body), 0);
        server.net.flush();
    }
    assert!(
        server.net.queued_bytes() > 4 << 20,
        "the test must fill the socket"
    );
    let mut next = bodies.iter();
    let mut turns = 0;
    while next.len() > 0 {
        turns += 1;
        assert!(turns < 20_000, "{} have not come", next.len());
        client.turn();
        server.turn();
        for seen in client.seen.drain(..) {
            if let Seen::Message(_, bytes) = seen {
                assert_eq!(bytes, request(next.next().unwrap()));
            }
        }
    }
    assert_eq!(server.net.queued_bytes(), 0);
}

#[test]
fn messages_wait_for_the_handshake_and_answers_come_back() {
    let world = World::new();
    let (mut server, mut client) = (world.server(&["example.com"]), world.client());
    let target = named(&server, "example.com");
    client.net.send(&target, &request("one"), 1);
    client.net.send(&target, &request("two"), 2);
    let (flow, bytes) = server.until_with(&mut [&mut client], message);
    assert_eq!((flow.transport, bytes), (Transport::Tls, request("one")));
    assert_eq!(
        server.until_with(&mut [&mut client], message).1,
        request("two")
    );
    assert!(server.seen.contains(&Seen::Accepted(flow)));
    // Many, long ones, both ways over several records.
    let long = request(&"z".repeat(7_500));
    for _ in 0..50 {
        server.net.send(&Target::back(&flow), &long, 0);
    }
    for _ in 0..50 {
        let (back, bytes) = client.until_with(&mut [&mut server], message);
        assert!(bytes == long && back.remote == server.addr());
    }
    let (mine, theirs) = (client.net.counters(), server.net.counters());
    assert_eq!((mine.handshakes_out, theirs.handshakes_in), (1, 1));
    assert_eq!((mine.tls.messages_in, theirs.tls.messages_out), (50, 50));
    assert!(
        !client
            .seen
            .iter()
            .any(|seen| matches!(seen, Seen::SendFailed(..)))
    );
}

#[test]
fn a_connection_is_reused_for_its_own_name_only() {
    let world = World::new();
    let (mut server, mut client) = (
        world.server(&["a.example.com", "b.example.com"]),
        world.client(),
    );
    let send = |client: &mut Bench, server: &mut Bench, name: &str| {
        client.net.send(&named(server, name), &request(name), 0);
        server.until_with(&mut [client], message).0.conn
    };
    let a = send(&mut client, &mut server, "a.example.com");
    let b = send(&mut client, &mut server, "b.example.com");
    assert_ne!(a, b);
    assert_eq!(send(&mut client, &mut server, "a.example.com"), a);
    assert_eq!(send(&mut client, &mut server, "b.example.com"), b);
    assert_eq!(client.net.connection_count(), 2);
    // One that was accepted proved no name: it is reached by its number alone.
    let flow = server.seen.iter().find_map(|seen| match seen {
        Seen::Accepted(flow) => Some(*flow),
        _ => None,
    });
    server.net.send(
        &Target {
            may_open: true,
            ..to(Transport::Tls, flow.unwrap().remote)
        },
        &request("x"),
        5,
    );
    assert_eq!(
        server.until(send_failed),
        (5, SendError::Closed(CloseReason::ConnectFailed))
    );
}

#[test]
fn a_name_that_is_not_proved_gets_no_byte() {
    // What the certificate bears, what is asked for, and whether it will do.
    let matrix: &[(&[&str], &str, bool)] = &[
        (&["example.com"], "example.com", true),
        (&["EXAMPLE.com"], "example.COM", true),
        (&["example.com"], "other.com", false),
        (&["example.com"], "sub.example.com", false),
        (&["*.example.com"], "sub.example.com", false),
        (&["sip:example.com"], "example.com", true),
        (&["sip:example.com", "other.com"], "other.com", false),
        (&["sip:user@example.com"], "example.com", false),
        (&["sips:example.com"], "example.com", false),
        (&["127.0.0.1"], "127.0.0.1", true),
        (&["127.0.0.2"], "127.0.0.1", false),
        (&["example.com"], "127.0.0.1", false),
    ];
    let world = World::new();
    for (names, asked, fits) in matrix {
        let (mut server, mut client) = (world.server(names), world.client());
        client
            .net
            .send(&named(&server, asked), &request("secret"), 3);
        if *fits {
            assert_eq!(
                server.until_with(&mut [&mut client], message).1,
                request("secret"),
                "{names:?} {asked}"
            );
        } else {
            let failed = client.until_with(&mut [&mut server], send_failed);
            assert_eq!(
                failed,
                (3, SendError::Closed(CloseReason::Handshake)),
                "{names:?} {asked}"
            );
            server.until_with(&mut [&mut client], closed);
            assert_eq!(server.net.counters().tls.bytes_in, 0, "{names:?} {asked}");
        }
    }
    assert!(world.pool.counters().bad_certificate >= 8);
}

#[test]
fn without_a_name_the_address_is_the_name() {
    let world = World::new();
    let (mut server, mut client) = (world.server(&["127.0.0.1"]), world.client());
    client
        .net
        .send(&to(Transport::Tls, server.addr()), &request("x"), 0);
    assert_eq!(
        server.until_with(&mut [&mut client], message).1,
        request("x")
    );
}

#[test]
fn a_certificate_of_another_authority_or_another_time_is_refused() {
    let (world, stranger) = (World::new(), World::new());
    let (chain, key) = world.ca.issue_between(&["example.com"], 2001, 2002);
    let expired = Arc::new(ServerTls::from_pem(&[(chain.as_bytes(), key.as_bytes())]).unwrap());
    for tls in [stranger.tls(&["example.com"]), expired] {
        let mut server = Bench::new(
            &[ListenerConfig::tls(any_port("127.0.0.1"), tls)],
            world.config(),
        );
        let mut client = world.client();
        client
            .net
            .send(&named(&server, "example.com"), &request("x"), 4);
        let failed = client.until_with(&mut [&mut server], send_failed);
        assert_eq!(failed, (4, SendError::Closed(CloseReason::Handshake)));
    }
}

#[test]
fn the_second_connection_resumes_and_another_name_does_not() {
    let world = World::new();
    let (mut server, mut client) = (
        world.server(&["a.example.com", "b.example.com"]),
        world.client(),
    );
    for (name, resumed) in [
        ("a.example.com", 0),
        ("a.example.com", 1),
        ("b.example.com", 1),
        ("b.example.com", 2),
    ] {
        let conn = client.net.open(&named(&server, name)).unwrap();
        client.until_with(&mut [&mut server], opened);
        // The ticket comes after the handshake.
        let target = Target {
            conn,
            ..named(&server, name)
        };
        client.net.send(&target, &request("x"), 0);
        let (flow, _) = server.until_with(&mut [&mut client], message);
        server.net.send(&Target::back(&flow), &request("y"), 0);
        client.until_with(&mut [&mut server], message);
        assert_eq!(
            client.net.counters().handshakes_out_resumed,
            resumed,
            "{name}"
        );
    }
    assert_eq!(server.net.counters().handshakes_in_resumed, 2);
}

#[test]
fn certificates_are_chosen_by_name_and_replaced_without_a_cut() {
    let world = World::new();
    let pairs = [
        world.ca.issue(&["a.example.com"]),
        world.ca.issue(&["b.example.com"]),
    ];
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(chain, key)| (chain.as_bytes(), key.as_bytes()))
        .collect();
    let tls = Arc::new(ServerTls::from_pem(&pairs).unwrap());
    let listener = ListenerConfig::tls(any_port("127.0.0.1"), Arc::clone(&tls));
    let (mut server, mut client) = (Bench::new(&[listener], world.config()), world.client());
    for name in ["b.example.com", "a.example.com"] {
        client.net.send(&named(&server, name), &request(name), 0);
        assert_eq!(
            server.until_with(&mut [&mut client], message).1,
            request(name)
        );
    }
    // A bad one leaves the old ones in service.
    assert!(tls.reload(ServerTlsConfig::new()).is_err());
    let (chain, key) = world.ca.issue(&["c.example.com"]);
    let fresh = ServerTlsConfig::new().pair_pem(chain.as_bytes(), key.as_bytes());
    tls.reload(fresh.unwrap()).unwrap();
    client
        .net
        .send(&named(&server, "c.example.com"), &request("new"), 0);
    assert_eq!(
        server.until_with(&mut [&mut client], message).1,
        request("new")
    );
    client.net.send(
        &named(&server, "a.example.com"),
        &request("old connection"),
        0,
    );
    assert_eq!(
        server.until_with(&mut [&mut client], message).1,
        request("old connection")
    );
    assert_eq!(client.net.connection_count(), 3);
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let world = World::new();
    let (chain, key) = world.ca.issue(&["a"]);
    let (_, other_key) = world.ca.issue(&["a"]);
    let wrong = |chain: &str, key: &str| {
        ServerTls::from_pem(&[(chain.as_bytes(), key.as_bytes())])
            .unwrap_err()
            .to_string()
    };
    assert!(
        wrong(&chain, &other_key).contains("own key"),
        "{}",
        wrong(&chain, &other_key)
    );
    assert!(wrong(&key, &key).contains("no certificate"));
    assert!(wrong(&chain, &chain).contains("private key"));
    let missing =
        ServerTls::from_pem_files(&[("/no/such/chain.pem", "/no/such/key.pem")]).unwrap_err();
    assert!(
        missing.to_string().starts_with("/no/such/chain.pem: "),
        "{missing}"
    );
    assert!(ServerTls::from_pem(&[]).is_err());
}

#[test]
fn handshakes_of_garbage_fail_and_stay_bounded() {
    let world = World::new();
    let mut server = world.server(&["example.com"]);
    for garbage in [
        &b"REGISTER sip:example.com SIP/2.0\r\n\r\n"[..],
        &[0x16, 3, 1, 2, 0, 1],
        &[0; 100_000],
    ] {
        let mut peer = TcpStream::connect(server.addr()).unwrap();
        let _ = peer.write_all(garbage);
        // Silence after the beginning of a record ends at the deadline.
        assert_eq!(server.until(closed), CloseReason::Handshake);
        let mut rest = Vec::new();
        let _ = peer.read_to_end(&mut rest);
    }
    let half = TcpStream::connect(server.addr()).unwrap();
    drop(half);
    assert_eq!(server.until(closed), CloseReason::Handshake);
    let counters = world.pool.counters();
    assert_eq!((counters.under_way, counters.done), (0, 0));
    let failed = server
        .net
        .listener_counters(ListenerId(0))
        .unwrap()
        .tls
        .failed;
    for (failure, count, in_all) in [
        (HandshakeFailure::TimedOut, 1, counters.timed_out),
        (HandshakeFailure::Cut, 1, counters.cut),
        (HandshakeFailure::Broken, 2, counters.failed),
    ] {
        assert_eq!(
            (failed[failure as usize], in_all),
            (count, count),
            "{failure:?}"
        );
    }
    assert_eq!(server.net.counters().handshakes_failed, 4);
}

#[test]
fn a_broken_record_closes_the_connection() {
    let world = World::new();
    let (mut server, mut client) = (world.server(&["example.com"]), world.client());
    // A relay that breaks a byte of the last record.
    let relay = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (relay_addr, server_addr) = (relay.local_addr().unwrap(), server.addr());
    let thread = std::thread::spawn(move || {
        let (mut down, _) = relay.accept().unwrap();
        let mut up = TcpStream::connect(server_addr).unwrap();
        let (mut down_copy, mut up_copy) = (down.try_clone().unwrap(), up.try_clone().unwrap());
        let back = std::thread::spawn(move || std::io::copy(&mut up_copy, &mut down_copy));
        let mut buffer = [0; 65_536];
        while let Ok(len) = down.read(&mut buffer)
            && len > 0
        {
            // Application data of more than a thousand bytes.
            if buffer[0] == 23 && len > 1_000 {
                buffer[len - 1] ^= 1;
            }
            if up.write_all(&buffer[..len]).is_err() {
                break;
            }
        }
        let _ = up.shutdown(std::net::Shutdown::Both);
        let _ = back.join();
    });
    let target = Target {
        remote: relay_addr,
        ..named(&server, "example.com")
    };
    client.net.send(&target, &request("short"), 0);
    server.until_with(&mut [&mut client], message);
    client.net.send(&target, &request(&"long".repeat(500)), 0);
    assert_eq!(
        server.until_with(&mut [&mut client], closed),
        CloseReason::Tls
    );
    assert!(
        !server
            .seen
            .iter()
            .any(|seen| matches!(seen, Seen::Message(..)))
    );
    client.until_with(&mut [&mut server], closed);
    thread.join().unwrap();
}

#[test]
fn too_many_handshakes_are_refused_at_once() {
    let world = World::new();
    let pool = HandshakePool::start(HandshakeConfig {
        handshakes_max: 2,
        ..HandshakeConfig::default()
    })
    .unwrap();
    let config = NetConfig {
        handshakes: Some(pool.clone()),
        ..world.config()
    };
    let listener = ListenerConfig::tls(any_port("127.0.0.1"), world.tls(&["example.com"]));
    let mut server = Bench::new(&[listener], config);
    let peers: Vec<_> = (0..5)
        .map(|_| TcpStream::connect(server.addr()).unwrap())
        .collect();
    for _ in 0..3 {
        assert_eq!(server.until(closed), CloseReason::Refused);
    }
    assert_eq!(
        (
            server.net.counters().refused_handshakes,
            pool.counters().refused
        ),
        (3, 3)
    );
    assert_eq!(server.net.connection_count(), 2);
    drop(peers);
    while server.net.connection_count() > 0 {
        server.turn();
    }
    assert_eq!(pool.counters().under_way, 0);
}

#[test]
fn a_closed_session_says_so_before_it_ends() {
    let world = World::new();
    let (mut server, mut client) = (world.server(&["example.com"]), world.client());
    client
        .net
        .send(&named(&server, "example.com"), &request("x"), 0);
    let (flow, _) = server.until_with(&mut [&mut client], message);
    server.net.send(&Target::back(&flow), &request("bye"), 0);
    server.net.close(flow.conn, true);
    assert_eq!(
        client.until_with(&mut [&mut server], message).1,
        request("bye")
    );
    assert_eq!(
        client.until_with(&mut [&mut server], closed),
        CloseReason::Peer
    );
    assert_eq!(
        server.until_with(&mut [&mut client], closed),
        CloseReason::Asked
    );
    assert_eq!(
        (client.net.connection_count(), server.net.connection_count()),
        (0, 0)
    );
}

#[test]
fn openssl_speaks_with_the_server_in_both_versions() {
    let world = World::new();
    let mut server = world.server(&["example.com"]);
    let roots = std::env::temp_dir().join(format!("sip-net-roots-{}.pem", std::process::id()));
    std::fs::write(&roots, world.ca.root_pem()).unwrap();
    for version in ["-tls1_2", "-tls1_3"] {
        let mut openssl = Openssl(
            Command::new("openssl")
                .args([
                    "s_client",
                    "-quiet",
                    "-verify_return_error",
                    "-servername",
                    "example.com",
                ])
                .args(["-verify_hostname", "example.com", version])
                .args([
                    "-connect",
                    &server.addr().to_string(),
                    "-CAfile",
                    roots.to_str().unwrap(),
                ])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        );
        let mut stdin = openssl.0.stdin.take().unwrap();
        stdin.write_all(&request(version)).unwrap();
        let (flow, bytes) = server.message();
        assert_eq!(bytes, request(version));
        server
            .net
            .send(&Target::back(&flow), b"SIP/2.0 200 OK\r\n\r\n", 0);
        server.net.flush();
        let mut line = String::new();
        BufReader::new(openssl.0.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "SIP/2.0 200 OK\r\n");
    }
    let _ = std::fs::remove_file(roots);
}

struct Openssl(Child);

impl Drop for Openssl {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_handshake_cut_at_any_byte_leaves_nothing() {
    let world = World::new();
    let mut server = world.server(&["example.com"]);
    let hello = client_hello();
    let mut cuts = 0;
    for end in (0..hello.len()).step_by(9) {
        let mut peer = TcpStream::connect(server.addr()).unwrap();
        peer.write_all(&hello[..end]).unwrap();
        drop(peer);
        cuts += 1;
    }
    // After the whole of it the server has answered with its certificate.
    for _ in 0..20 {
        let mut peer = TcpStream::connect(server.addr()).unwrap();
        peer.write_all(&hello).unwrap();
        peer.set_nonblocking(true).unwrap();
        let patience = Instant::now();
        while peer.read(&mut [0; 5]).is_err() {
            assert!(patience.elapsed() < Duration::from_secs(30));
            server.turn();
        }
        cuts += 1;
    }
    for _ in 0..cuts {
        assert_eq!(server.until(closed), CloseReason::Handshake);
    }
    assert_eq!(
        (server.net.connection_count(), server.net.kept_bytes()),
        (0, 0)
    );
    let counters = world.pool.counters();
    assert_eq!((counters.under_way, counters.done), (0, 0));
    assert_eq!(server.net.counters().tls.messages_in, 0);
    // An honest client is served.
    let mut client = world.client();
    client
        .net
        .send(&named(&server, "example.com"), &request("x"), 0);
    assert_eq!(
        server.until_with(&mut [&mut client], message).1,
        request("x")
    );
}

fn client_hello() -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let name = "example.com".try_into().unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut hello = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut hello).unwrap();
    }
    assert!(hello.len() > 200);
    hello
}
