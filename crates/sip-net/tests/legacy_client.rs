//! The suites of RFC 3261 26.2.1 on connections that we open. The server is
//! openssl: the library that was built with them, and the machine's own
//! command, which has one of the two.
#![cfg(feature = "legacy-tls")]
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use common::libssl::{self, Visit};
use common::openssl::{Dir, Openssl};
use common::{Bench, handshake_failed, message, named, opened, request, tls_client};
use openssl::ssl::{SslMethod, SslVerifyMode};
use sip_msg::Target;
use sip_tls::testing::{KeyKind, TestCa};
use sip_tls::{
    CertificateFault, ClientResumption, ClientTls, ClientTlsConfig, HandshakeFailure,
    LEGACY_SUITE_NAMES, Resumption, TlsEngine, TlsInfo, TlsVersion,
};

const PATIENCE: Duration = Duration::from_secs(60);

fn config(ca: &TestCa) -> ClientTlsConfig {
    ClientTlsConfig::new()
        .engine(TlsEngine::Legacy)
        .roots_pem(&[ca.root_pem().as_bytes()])
        .unwrap()
}

fn bench() -> Bench {
    tls_client(ClientTls::from_pem(&[]).unwrap())
}

/// Opens a connection, says something, is answered and closes it.
fn visit(
    client: &mut Bench,
    target: &Target,
    tls: &Arc<ClientTls>,
    server: &Receiver<Result<Visit, String>>,
) -> (TlsInfo, Visit) {
    let conn = client.net.open_as(target, tls).unwrap();
    assert_eq!(client.until(opened).conn, conn);
    let info = *client.net.tls_info(conn).unwrap();
    let target = Target {
        conn,
        ..target.clone()
    };
    client.net.send(&target, &request("to libssl"), 0);
    assert_eq!(client.until(message).1, libssl::ANSWER);
    client.net.close(conn, true);
    let patience = Instant::now();
    while client.net.connection_count() > 0 {
        assert!(patience.elapsed() < PATIENCE, "{:?}", client.seen);
        client.turn();
    }
    let seen = server.recv_timeout(PATIENCE).unwrap().unwrap();
    assert_eq!(seen.received, request("to libssl"));
    (info, seen)
}

#[test]
fn either_suite_is_negotiated_with_the_library_of_the_weak_suites() {
    let ca = TestCa::new();
    let pair = ca.issue_with(&["example.com"], KeyKind::Rsa2048);
    for suite in LEGACY_SUITE_NAMES {
        let mut context = libssl::context(SslMethod::tls_server(), "AES128-SHA:DES-CBC3-SHA");
        libssl::show(&mut context, &pair);
        let (addr, server) = libssl::server(context.build(), 1, request("to libssl").len());
        let tls = Arc::new(config(&ca).suites(&[suite]).build().unwrap());
        let mut client = bench();
        let (info, seen) = visit(&mut client, &named(addr, "example.com"), &tls, &server);
        assert_eq!(seen.suite, suite);
        assert_eq!(info.engine(), TlsEngine::Legacy);
        assert_eq!((info.version, info.suite_name()), (TlsVersion::V12, suite));
        assert_eq!((info.group_name(), info.resumed), (None, None));
        assert!(!seen.has_peer_certificate);
    }
}

#[test]
fn the_suite_that_the_machine_has_is_negotiated_with_its_command() {
    let ca = TestCa::new();
    let dir = Dir::new();
    let (chain, key) = ca.issue_with(&["example.com"], KeyKind::Rsa2048);
    let (chain, key) = (dir.file("chain.pem", &chain), dir.file("key.pem", &key));
    let args = [
        "-cert",
        &chain,
        "-key",
        &key,
        "-cipher",
        "AES128-SHA@SECLEVEL=0",
    ];
    let (mut server, addr) = Openssl::server(&args);
    let tls = Arc::new(config(&ca).build().unwrap());
    let mut client = bench();
    let conn = client
        .net
        .open_as(&named(addr, "example.com"), &tls)
        .unwrap();
    assert_eq!(client.until(opened).conn, conn);
    let info = *client.net.tls_info(conn).unwrap();
    assert_eq!(info.suite_name(), LEGACY_SUITE_NAMES[0]);
    let patience = Instant::now();
    while server.count("CIPHER is AES128-SHA") == 0 {
        assert!(patience.elapsed() < PATIENCE, "{}", server.output);
        client.turn();
        server.read();
    }
}

#[test]
fn sessions_resume_as_asked_for_and_as_offered() {
    use ClientResumption::{Any, Off, SessionIds, Tickets};
    let ca = TestCa::new();
    let pair = ca.issue_with(&["example.com"], KeyKind::Rsa2048);
    for (how, by_ticket, by_id, resumed) in [
        (Off, true, true, None),
        (Tickets, true, true, Some(Resumption::Ticket)),
        (Tickets, false, true, None),
        (SessionIds, true, true, Some(Resumption::SessionId)),
        (SessionIds, true, false, None),
        (Any, true, true, Some(Resumption::Ticket)),
        (Any, false, true, Some(Resumption::SessionId)),
        (Any, false, false, None),
    ] {
        let row = format!("{how:?} {by_ticket} {by_id}");
        let mut context = libssl::context(SslMethod::tls_server(), "DES-CBC3-SHA");
        libssl::show(&mut context, &pair);
        libssl::resume(&mut context, by_ticket, by_id);
        let len = request("to libssl").len();
        let (addr, server) = libssl::server(context.build(), 4, len);
        let tls = Arc::new(config(&ca).resumption(how).build().unwrap());
        let mut client = bench();
        let target = named(addr, "example.com");
        for time in 0..3 {
            let (info, seen) = visit(&mut client, &target, &tls, &server);
            let expected = resumed.filter(|_| time > 0);
            assert_eq!(info.resumed, expected, "{row} {time}");
            assert_eq!(seen.resumed, expected.is_some(), "{row} {time}");
            let tally = client.net.opened_tls();
            for other in Resumption::ALL {
                let count = if resumed == Some(other) { time } else { 0 };
                assert_eq!(tally.resumed_by[other as usize], count, "{row} {time}");
            }
        }
        // Another identity has sessions of its own; so has nobody who forgot.
        let other = Arc::new(tls.with_own_sessions());
        let (info, _) = visit(&mut client, &target, &other, &server);
        assert_eq!(info.resumed, None, "{row}");
        assert_eq!(
            tls.session_count() > 0,
            resumed.is_some() || how == Tickets && by_id,
            "{row}"
        );
        tls.forget_sessions();
        assert_eq!(tls.session_count(), 0);
    }
}

#[test]
fn an_agent_shows_the_certificate_that_it_is_given() {
    let ca = TestCa::new();
    let pair = ca.issue_with(&["example.com"], KeyKind::Rsa2048);
    let agent = ca.issue(&["agent.example.com"]);
    let mut context = libssl::context(SslMethod::tls_server(), "AES128-SHA");
    libssl::show(&mut context, &pair);
    let must = SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT;
    libssl::ask(&mut context, &ca.root_pem(), must);
    libssl::resume(&mut context, false, true);
    let (addr, server) = libssl::server(context.build(), 4, request("to libssl").len());
    let target = named(addr, "example.com");
    let mut client = bench();
    let nobody = Arc::new(config(&ca).build().unwrap());
    let one = nobody.with_identity_pem(agent.0.as_bytes(), agent.1.as_bytes());
    let one = Arc::new(one.unwrap());
    for resumed in [None, Some(Resumption::SessionId)] {
        let (info, seen) = visit(&mut client, &target, &one, &server);
        assert!(seen.has_peer_certificate);
        assert_eq!(info.resumed, resumed);
    }
    let full = Arc::new(one.without_resumption());
    assert_eq!(visit(&mut client, &target, &full, &server).0.resumed, None);
    client.net.open_as(&target, &nobody).unwrap();
    let error = client.until(handshake_failed);
    assert!(error.alert.unwrap().received, "{error}");
    let seen = server.recv_timeout(PATIENCE).unwrap();
    assert!(seen.unwrap_err().contains("did not return a certificate"));
}

#[test]
fn a_server_must_prove_its_name() {
    use CertificateFault::{Expired, Revoked, UnknownIssuer, WrongName};
    let ca = TestCa::new();
    let stranger = TestCa::named("Another CA");
    let rsa = |ca: &TestCa, from, to| {
        let mut params = sip_tls::testing::params(&["example.com"], from, to);
        params.serial_number = Some(7.into());
        ca.issue_from(&params, &KeyKind::Rsa2048.generate())
    };
    let good = rsa(&ca, 2020, 2099);
    let none: &[u64] = &[];
    for (pair, name, revoked, fault) in [
        (&good, "example.com", none, None),
        (&good, "example.org", none, Some(WrongName)),
        (&good, "sub.example.com", none, Some(WrongName)),
        (
            &rsa(&stranger, 2020, 2099),
            "example.com",
            none,
            Some(UnknownIssuer),
        ),
        (&rsa(&ca, 2001, 2002), "example.com", none, Some(Expired)),
        (&good, "example.com", &[7], Some(Revoked)),
    ] {
        let mut context = libssl::context(SslMethod::tls_server(), "AES128-SHA");
        libssl::show(&mut context, pair);
        let (addr, server) = libssl::server(context.build(), 1, request("to libssl").len());
        let crl = ca.revoke(revoked);
        let tls = config(&ca).crl_pem(&[crl.as_bytes()]).unwrap();
        let tls = Arc::new(tls.build().unwrap());
        let mut client = bench();
        let target = named(addr, name);
        let Some(fault) = fault else {
            visit(&mut client, &target, &tls, &server);
            continue;
        };
        client.net.open_as(&target, &tls).unwrap();
        let error = client.until(handshake_failed);
        assert_eq!(error.failure, HandshakeFailure::BadCertificate, "{fault:?}");
        assert_eq!(error.fault, Some(fault));
        assert!(!error.alert.unwrap().received, "{fault:?}");
        let seen = server.recv_timeout(PATIENCE).unwrap().unwrap_err();
        assert!(seen.contains("alert"), "{fault:?}: {seen}");
    }
}

#[test]
fn a_server_that_has_no_such_suite_is_left() {
    let ca = TestCa::new();
    let pair = ca.issue_with(&["example.com"], KeyKind::Rsa2048);
    let mut context = libssl::context(SslMethod::tls_server(), "ECDHE-RSA-AES128-GCM-SHA256");
    libssl::show(&mut context, &pair);
    let (addr, _server) = libssl::server(context.build(), 1, 1);
    let tls = Arc::new(config(&ca).build().unwrap());
    let mut client = bench();
    client
        .net
        .open_as(&named(addr, "example.com"), &tls)
        .unwrap();
    let error = client.until(handshake_failed);
    assert_eq!(error.failure, HandshakeFailure::Incompatible);
    assert!(error.alert.unwrap().received);
}
