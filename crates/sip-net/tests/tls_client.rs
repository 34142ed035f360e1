//! Our client against `openssl s_server`: what it offers, how it resumes and
//! who it is, as the server sees it.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::openssl::{Dir, Openssl};
use crate::common::{Bench, any_port, handshake_failed, named, opened, request, tls_client};
use sip_msg::{ConnId, Target, Transport};
use sip_net::{ListenerConfig, NetConfig};
use sip_tls::testing::{KeyKind, TestCa};
use sip_tls::{
    CertificateFault, ClientAuth, ClientResumption, ClientTls, ClientTlsConfig, HandshakeConfig,
    HandshakeFailure, HandshakePool, Resumption, ServerTlsConfig, TlsInfo, TlsVersion,
};

struct World {
    ca: TestCa,
    dir: Dir,
}

impl World {
    fn new() -> Self {
        Self {
            ca: TestCa::new(),
            dir: Dir::new(),
        }
    }

    fn config(&self) -> ClientTlsConfig {
        ClientTlsConfig::new()
            .roots_pem(&[self.ca.root_pem().as_bytes()])
            .unwrap()
    }

    fn server(&self, kind: KeyKind, args: &[&str]) -> (Openssl, std::net::SocketAddr) {
        let (chain, key) = self.ca.issue_with(&["example.com"], kind);
        let chain = self.dir.file("chain.pem", &chain);
        let key = self.dir.file("key.pem", &key);
        let mut all = vec!["-cert", &chain, "-key", &key];
        all.extend(args);
        Openssl::server(&all)
    }
}

/// Turns until `done` says so.
fn turn_until(client: &mut Bench, server: &mut Openssl, done: impl Fn(&Bench, &Openssl) -> bool) {
    let patience = Instant::now();
    while !done(client, server) {
        assert!(
            patience.elapsed() < Duration::from_secs(30),
            "{} {:?}",
            server.output,
            client.seen
        );
        client.turn();
        server.read();
    }
}

/// Opens a connection, says something, and closes it when the server has
/// printed it, with what can be resumed later where `resumable`.
fn visit(
    client: &mut Bench,
    server: &mut Openssl,
    target: &Target,
    tls: &Arc<ClientTls>,
    resumable: bool,
) -> TlsInfo {
    let conn = client.net.open_as(target, tls).unwrap();
    assert_eq!(client.until(opened).conn, conn);
    let info = *client.net.tls_info(conn).unwrap();
    // What it prints once the connection is up comes before the data.
    let mark = format!("visit {}", conn.0);
    client.net.send(
        &Target {
            conn,
            ..target.clone()
        },
        &request(&mark),
        0,
    );
    turn_until(client, server, |_, server| {
        server.output.contains(&format!("Call-ID: {mark}\r\n"))
    });
    if resumable {
        turn_until(client, server, |_, _| tls.session_count() > 0);
    }
    client.net.close(conn, true);
    turn_until(client, server, |client, _| {
        client.net.connection_count() == 0
    });
    info
}

#[test]
fn what_is_offered_is_what_was_asked_for() {
    let world = World::new();
    let versions = [
        (
            TlsVersion::V12,
            "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
            "ECDHE-RSA-AES256-GCM-SHA384",
        ),
        (
            TlsVersion::V13,
            "TLS_CHACHA20_POLY1305_SHA256",
            "TLS_CHACHA20_POLY1305_SHA256",
        ),
    ];
    let (mut server, addr) = world.server(KeyKind::Rsa2048, &[]);
    for (version, suite, theirs) in versions {
        for (group, curve) in [
            ("P-384", "secp384r1"),
            ("P-256", "secp256r1"),
            ("X25519", "x25519"),
        ] {
            let tls = world
                .config()
                .versions(&[version])
                .suites(&[suite])
                .groups(&[group]);
            let tls = Arc::new(tls.build().unwrap());
            let mut client = tls_client(ClientTls::from_pem(&[]).unwrap());
            server.output.clear();
            let info = visit(
                &mut client,
                &mut server,
                &named(addr, "example.com"),
                &tls,
                false,
            );
            assert_eq!(info.version, version);
            assert_eq!((info.suite_name(), info.group_name()), (suite, Some(group)));
            assert_eq!(info.resumed, None);
            assert!(info.cpu_us > 0 && info.wall_us > 0);
            assert!(
                server.output.contains(&format!("CIPHER is {theirs}")),
                "{}",
                server.output
            );
            assert!(
                server
                    .output
                    .contains(&format!("Supported groups: {curve}")),
                "{}",
                server.output
            );
        }
    }
}

#[test]
fn it_resumes_as_it_was_told_to() {
    let world = World::new();
    use ClientResumption::{Any, Off, SessionIds, Tickets};
    // The version, what the server is told, what the client is told, and how
    // the second visit resumes.
    let rows: [(TlsVersion, &[&str], ClientResumption, Option<Resumption>); 10] = [
        (TlsVersion::V12, &[], Any, Some(Resumption::Ticket)),
        (
            TlsVersion::V12,
            &["-no_ticket"],
            Any,
            Some(Resumption::SessionId),
        ),
        (TlsVersion::V12, &[], Tickets, Some(Resumption::Ticket)),
        (TlsVersion::V12, &["-no_ticket"], Tickets, None),
        (
            TlsVersion::V12,
            &[],
            SessionIds,
            Some(Resumption::SessionId),
        ),
        (TlsVersion::V12, &[], Off, None),
        (TlsVersion::V13, &[], Any, Some(Resumption::Psk)),
        (TlsVersion::V13, &[], Tickets, Some(Resumption::Psk)),
        (TlsVersion::V13, &[], SessionIds, None),
        (TlsVersion::V13, &[], Off, None),
    ];
    for (version, args, resumption, how) in rows {
        let row = format!("{} {args:?} {resumption:?}", version.name());
        let (mut server, addr) = world.server(KeyKind::P256, args);
        let tls = world.config().versions(&[version]).resumption(resumption);
        let tls = Arc::new(tls.build().unwrap());
        let mut client = tls_client(ClientTls::from_pem(&[]).unwrap());
        let target = named(addr, "example.com");
        let first = visit(&mut client, &mut server, &target, &tls, how.is_some());
        assert_eq!(first.resumed, None, "{row}");
        assert_eq!(
            server.count("Reused session-id"),
            0,
            "{row}: {}",
            server.output
        );
        let second = visit(&mut client, &mut server, &target, &tls, false);
        assert_eq!(second.resumed, how, "{row}: {}", server.output);
        assert_eq!(
            server.count("Reused session-id"),
            usize::from(how.is_some()),
            "{row}: {}",
            server.output
        );
        // Others under the same roof do not resume it.
        let other = Arc::new(tls.with_own_sessions());
        let third = visit(&mut client, &mut server, &target, &other, false);
        assert_eq!(third.resumed, None, "{row}");
        let never = Arc::new(tls.without_resumption());
        let fourth = visit(&mut client, &mut server, &target, &never, false);
        assert_eq!(fourth.resumed, None, "{row}");
        let tally = client.net.opened_tls();
        assert_eq!(
            (tally.full_total(), tally.resumed_total()),
            (4 - u64::from(how.is_some()), u64::from(how.is_some())),
            "{row}"
        );
    }
}

#[test]
fn a_session_ends_with_the_certificate_of_the_server() {
    let world = World::new();
    // Long enough for three visits on a machine with much to do.
    let end = time::OffsetDateTime::now_utc() + Duration::from_secs(12);
    let mut params = sip_tls::testing::params(&["example.com"], 2020, 2099);
    params.not_after = end;
    let (chain, key) = world.ca.issue_from(&params, &KeyKind::P256.generate());
    let chain = world.dir.file("short.pem", &chain);
    let key = world.dir.file("short.key", &key);
    let mut visited = Vec::new();
    for (version, args) in [
        (TlsVersion::V12, &[][..]),
        (TlsVersion::V12, &["-no_ticket"]),
        (TlsVersion::V13, &[]),
    ] {
        let mut all = vec!["-cert", &chain, "-key", &key];
        all.extend(args);
        let (mut server, addr) = Openssl::server(&all);
        let tls = Arc::new(world.config().versions(&[version]).build().unwrap());
        let mut client = tls_client(ClientTls::from_pem(&[]).unwrap());
        let target = named(addr, "example.com");
        visit(&mut client, &mut server, &target, &tls, true);
        visited.push((server, client, tls, target));
    }
    let patience = Instant::now();
    while time::OffsetDateTime::now_utc() <= end + Duration::from_secs(1) {
        assert!(patience.elapsed() < Duration::from_secs(60));
        visited.iter_mut().for_each(|(_, client, ..)| client.turn());
    }
    for (_server, mut client, tls, target) in visited {
        // A session is there still, and is not offered.
        assert_eq!(tls.session_count(), 1);
        client.net.open_as(&target, &tls).unwrap();
        let error = client.until(handshake_failed);
        assert_eq!(error.fault, Some(CertificateFault::Expired));
    }
}

#[test]
fn every_agent_shows_its_own_certificate() {
    let world = World::new();
    let root = world.dir.file("root.pem", &world.ca.root_pem());
    for version in TlsVersion::ALL {
        let (mut server, addr) = world.server(
            KeyKind::P256,
            &["-Verify", "3", "-verify_return_error", "-CAfile", &root],
        );
        let base = world.config().versions(&[version]).build().unwrap();
        let mut client = tls_client(ClientTls::from_pem(&[]).unwrap());
        let target = named(addr, "example.com");
        for kind in [KeyKind::P256, KeyKind::Rsa2048, KeyKind::Ed25519] {
            let mut params = sip_tls::testing::params(&["agent.example.com"], 2020, 2099);
            let name = format!("agent {kind:?}");
            params
                .distinguished_name
                .push(rcgen::DnType::CommonName, name.as_str());
            let (chain, key) = world.ca.issue_from(&params, &kind.generate());
            let agent = base
                .with_identity_pem(chain.as_bytes(), key.as_bytes())
                .unwrap();
            let agent = Arc::new(agent);
            server.output.clear();
            let first = visit(&mut client, &mut server, &target, &agent, true);
            assert_eq!(first.resumed, None, "{kind:?} resumes what another began");
            assert!(
                server.output.contains(&format!("CN = {name}")),
                "{}",
                server.output
            );
        }
        // Without one the server does not want us, and says so.
        let bare = Arc::new(base);
        let conn = client.net.open_as(&target, &bare).unwrap();
        if version == TlsVersion::V12 {
            let error = client.until(handshake_failed);
            assert_eq!(error.failure, HandshakeFailure::Incompatible, "{error}");
            assert!(error.alert.is_some_and(|alert| alert.received), "{error}");
        } else {
            // In TLS 1.3 a client is done before it is refused.
            assert_ne!(conn, ConnId::NONE);
            client.until(crate::common::closed);
        }
    }
}

#[test]
fn a_connection_under_an_identity_of_its_own_is_used_by_its_number_only() {
    let world = World::new();
    let (chain, key) = world.ca.issue(&["agent.example.com"]);
    let (own, own_key) = world.ca.issue(&["example.com"]);
    let config = ServerTlsConfig::new().pair_pem(own.as_bytes(), own_key.as_bytes());
    let asks = config
        .unwrap()
        .client_auth(ClientAuth::Optional)
        .roots_pem(&[world.ca.root_pem().as_bytes()])
        .unwrap();
    let mut server = crate::common::tls_server(asks.build().unwrap());
    let mut client = tls_client(world.config().build().unwrap());
    let agent = world.config().build().unwrap();
    let agent = agent.with_identity_pem(chain.as_bytes(), key.as_bytes());
    let agent = Arc::new(agent.unwrap());
    let target = named(server.addr(), "example.com");
    let conn = client.net.open_as(&target, &agent).unwrap();
    client.until_with(&mut [&mut server], opened);
    // Whoever names it speaks as the agent, and nobody else does.
    for (conn, identity) in [(conn, Some("agent.example.com")), (ConnId::NONE, None)] {
        client.net.send(
            &Target {
                conn,
                ..target.clone()
            },
            &request("x"),
            0,
        );
        let (flow, _) = server.until_with(&mut [&mut client], crate::common::message);
        let seen = server.net.peer_identity(flow.conn);
        assert_eq!(seen.is_some(), identity.is_some());
        assert!(seen.is_none_or(|seen| seen.speaks_for("agent.example.com")));
    }
    assert_eq!(client.net.connection_count(), 2);
    // No more than two: the second is there for the next without a name.
    client.net.send(&target, &request("y"), 0);
    server.until_with(&mut [&mut client], crate::common::message);
    assert_eq!(client.net.connection_count(), 2);
}

#[test]
fn a_server_is_believed_only_with_a_reason() {
    // RFC 3261 26.3.2.1: "If the certificate is invalid, revoked, or if it does not identify the
    // appropriate party, the UA MUST NOT send the REGISTER message and otherwise proceed with the
    // registration."
    // RFC 3261 26.3.1: "All SIP elements that support TLS MUST have a mechanism for validating
    // certificates received during TLS negotiation; this entails possession of one or more root
    // certificates issued by certificate authorities (preferably well-known distributors of site
    // certificates comparable to those that issue root certificates for web browsers)."
    let world = World::new();
    let (mut server, addr) = world.server(KeyKind::P256, &[]);
    let stranger = TestCa::named("Another CA");
    let stranger = ClientTls::from_pem(&[stranger.root_pem().as_bytes()]).unwrap();
    let mut client = tls_client(stranger);
    for (name, tls, fault) in [
        ("example.com", None, Some(CertificateFault::UnknownIssuer)),
        (
            "example.org",
            Some(world.config()),
            Some(CertificateFault::WrongName),
        ),
        (
            "example.org",
            Some(ClientTlsConfig::new().trust_anyone_insecurely()),
            None,
        ),
    ] {
        let target = named(addr, name);
        let conn = match tls {
            Some(tls) => client.net.open_as(&target, &Arc::new(tls.build().unwrap())),
            None => client.net.open(&target),
        };
        match fault {
            Some(fault) => {
                let error = client.until(handshake_failed);
                assert_eq!(
                    (error.failure, error.fault),
                    (HandshakeFailure::BadCertificate, Some(fault))
                );
                let alert = error.alert.unwrap();
                assert!(!alert.received);
                turn_until(&mut client, &mut server, |_, server| {
                    server.output.contains("alert")
                });
            }
            None => {
                let conn = conn.unwrap();
                client.until(opened);
                // Whom it did not have to be is not lost.
                let identity = client.net.peer_identity(conn).unwrap();
                assert!(identity.speaks_for("example.com") && !identity.speaks_for("example.org"));
            }
        }
    }
    let both = world.config().trust_anyone_insecurely().build();
    assert!(
        both.unwrap_err()
            .to_string()
            .contains("give roots, or trust anyone")
    );
}

/// Who is asked for a name that he does not know may say so in any way, and is no worse reached by
/// another.
#[test]
fn a_name_that_is_not_known_there_holds_off_no_other() {
    let ca = TestCa::new();
    // unrecognized_name, handshake_failure, unknown_ca (RFC 8446 6.2), and no word.
    for said in [
        &[21, 3, 3, 0, 2, 2, 112][..],
        &[21, 3, 3, 0, 2, 2, 40],
        &[21, 3, 3, 0, 2, 2, 48],
        &[],
    ] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            for _ in 0..2 {
                let (mut peer, _) = listener.accept().unwrap();
                let _ = std::io::Read::read(&mut peer, &mut [0; 4_096]);
                let _ = std::io::Write::write_all(&mut peer, said);
            }
        });
        let tls = ClientTlsConfig::new().roots_pem(&[ca.root_pem().as_bytes()]);
        let config = NetConfig {
            client_tls: Some(Arc::new(tls.unwrap().build().unwrap())),
            handshakes: Some(HandshakePool::start(HandshakeConfig::default()).unwrap()),
            reopen_backoff_max_ms: 60_000,
            ..NetConfig::default()
        };
        let outbound = ListenerConfig::outbound(Transport::Tls, any_port("127.0.0.1"));
        let mut client = Bench::new(&[outbound], config);
        for name in ["evil.example", "gw.example"] {
            client.net.send(&named(addr, name), &request("hello"), 1);
            client.until(handshake_failed);
        }
        assert_eq!(client.net.counters().open_backoffs, 0);
        // The same name waits.
        client
            .net
            .send(&named(addr, "gw.example"), &request("hello"), 2);
        assert_eq!(client.net.counters().open_backoffs, 1);
        thread.join().unwrap();
    }
}
