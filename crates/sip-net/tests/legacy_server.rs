//! The suites of RFC 3261 26.2.1 at our server. The client is openssl: the
//! library that was built with them, and the machine's own command, which has
//! one of the two.
#![cfg(feature = "legacy-tls")]
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use common::libssl::{self, Visit};
use common::openssl::{Dir, s_client};
use common::{Bench, Seen, handshake_failed, request, tls_server, tls_server_with};
use openssl::ssl::{SslContext, SslMethod};
use rcgen::{BasicConstraints, CertifiedIssuer, DnType, IsCa, KeyPair};
use sip_msg::{ListenerId, Target};
use sip_tls::testing::{KeyKind, TestCa, params};
use sip_tls::{
    CertificateFault, ClientAuth, HandshakeConfig, HandshakeFailure, HandshakeTally,
    LEGACY_SUITE_NAMES, Resumption, SUITE_NAMES, ServerTlsConfig, TlsEngine, TlsInfo, TlsVersion,
};

struct World {
    ca: TestCa,
    pair: (String, String),
    dir: Dir,
}

impl World {
    fn new() -> Self {
        let ca = TestCa::new();
        let pair = ca.issue_with(&["example.com"], KeyKind::Rsa2048);
        let dir = Dir::new();
        Self { ca, pair, dir }
    }

    fn config(&self) -> ServerTlsConfig {
        let (chain, key) = &self.pair;
        ServerTlsConfig::new()
            .engine(TlsEngine::Legacy)
            .pair_pem(chain.as_bytes(), key.as_bytes())
            .unwrap()
    }

    fn asking(&self, auth: ClientAuth) -> ServerTlsConfig {
        self.config()
            .client_auth(auth)
            .roots_pem(&[self.ca.root_pem().as_bytes()])
            .unwrap()
    }
}

/// The suites, and what openssl calls them.
const SUITES: [(&str, &str); 2] = [
    (LEGACY_SUITE_NAMES[0], "AES128-SHA"),
    (LEGACY_SUITE_NAMES[1], "DES-CBC3-SHA"),
];

fn client(suite: &str) -> SslContext {
    libssl::context(SslMethod::tls_client(), suite).build()
}

fn tally(server: &Bench) -> HandshakeTally {
    server.net.listener_counters(ListenerId(0)).unwrap().tls
}

/// Lets the library's client connect; answers its request. Gives what either
/// side saw, ours only where there was a request.
fn visit(server: &mut Bench, client: &SslContext) -> (Result<Visit, String>, Option<TlsInfo>) {
    let result = libssl::client(client, server.addr(), request("from libssl"));
    let patience = Instant::now();
    let mut info = None;
    loop {
        server.turn();
        let message = server
            .seen
            .iter()
            .position(|seen| matches!(seen, Seen::Message(..)));
        if let Some(place) = message
            && let Seen::Message(flow, bytes) = server.seen.remove(place)
        {
            assert_eq!(bytes, request("from libssl"));
            info = server.net.tls_info(flow.conn).copied();
            server.net.send(&Target::back(&flow), libssl::ANSWER, 0);
        }
        match result.try_recv() {
            Ok(visit) => {
                while server.net.connection_count() > 0 {
                    server.turn();
                }
                return (visit, info);
            }
            Err(TryRecvError::Empty) => {}
            Err(error) => panic!("{error}"),
        }
        assert!(
            patience.elapsed() < Duration::from_secs(60),
            "{:?}",
            server.seen
        );
    }
}

#[test]
fn either_suite_is_negotiated_with_the_library_of_the_weak_suites() {
    let world = World::new();
    for (suite, theirs) in SUITES {
        let config = world.config().suites(&[suite]);
        let mut server = tls_server(config.build().unwrap());
        let (seen, info) = visit(&mut server, &client(theirs));
        assert_eq!(seen.unwrap().suite, suite);
        let info = info.unwrap();
        assert_eq!(info.engine(), TlsEngine::Legacy);
        assert_eq!((info.version, info.suite_name()), (TlsVersion::V12, suite));
        assert_eq!((info.group_name(), info.resumed), (None, None));
        assert!(info.cpu_us > 0);
        let place = SUITE_NAMES.iter().position(|name| *name == suite).unwrap();
        assert_eq!(tally(&server).suites[place], 1);
        assert_eq!(tally(&server).full_total(), 1);
    }
}

#[test]
fn the_suite_that_the_machine_has_is_negotiated_with_its_command() {
    let world = World::new();
    let mut server = tls_server(world.config().build().unwrap());
    let output = s_client(&mut server, &["-cipher", "AES128-SHA@SECLEVEL=0"]);
    assert!(output.contains("Cipher is AES128-SHA"), "{output}");
    assert!(output.contains("SIP/2.0 200 OK"), "{output}");
    // It offers TLS 1.3 as well, and 1.2 is what comes of it.
    assert!(output.contains("New, SSLv3"), "{output}");
    assert!(!output.contains("Server Temp Key"), "{output}");
}

#[test]
fn what_else_a_client_has_is_refused() {
    let world = World::new();
    let mut server = tls_server(world.config().build().unwrap());
    for (args, alert) in [
        (&["-tls1_3"][..], "alert protocol version"),
        (
            &["-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"],
            "alert handshake failure",
        ),
        (
            &["-tls1_1", "-cipher", "AES128-SHA@SECLEVEL=0"],
            "alert protocol version",
        ),
    ] {
        let output = s_client(&mut server, args);
        assert!(output.contains(alert), "{args:?}: {output}");
        let error = server.until(handshake_failed);
        assert_eq!(error.failure, HandshakeFailure::Incompatible, "{args:?}");
        assert!(!error.alert.unwrap().received);
    }
    // One suite of the two alone.
    let mut server = tls_server(world.config().suites(&["AES128-SHA"]).build().unwrap());
    let (seen, _) = visit(&mut server, &client("DES-CBC3-SHA"));
    assert!(seen.unwrap_err().contains("alert handshake failure"));
}

#[test]
fn sessions_resume_by_id_and_by_ticket_and_not_at_all() {
    let world = World::new();
    let session = world.dir.path("session.pem");
    type Row<'a> = (
        &'a [&'a str],
        fn(ServerTlsConfig) -> ServerTlsConfig,
        Option<Resumption>,
    );
    let rows: [Row<'_>; 6] = [
        (&[], |config| config, Some(Resumption::Ticket)),
        (
            &["-no_ticket"],
            |config| config,
            Some(Resumption::SessionId),
        ),
        (
            &[],
            |config| config.no_tickets(),
            Some(Resumption::SessionId),
        ),
        (
            &[],
            |config| config.no_session_ids(),
            Some(Resumption::Ticket),
        ),
        (&["-no_ticket"], |config| config.no_session_ids(), None),
        (&[], |config| config.no_session_ids().no_tickets(), None),
    ];
    for (number, (args, change, how)) in rows.into_iter().enumerate() {
        let mut server = tls_server(change(world.config()).build().unwrap());
        let mut all = vec!["-tls1_2", "-cipher", "AES128-SHA@SECLEVEL=0"];
        all.extend(args);
        let mut first = all.clone();
        first.extend(["-sess_out", &session]);
        let output = s_client(&mut server, &first);
        assert!(output.contains("New, "), "{number}: {output}");
        all.extend(["-sess_in", &session]);
        let output = s_client(&mut server, &all);
        let reused = output.contains("Reused, ");
        assert_eq!(reused, how.is_some(), "{number}: {output}");
        let tally = tally(&server);
        for other in Resumption::ALL {
            let count = u64::from(how == Some(other));
            assert_eq!(
                tally.resumed_by[other as usize], count,
                "{number} {other:?}"
            );
        }
        assert!(output.contains("SIP/2.0 200 OK"), "{number}: {output}");
    }
}

#[test]
fn certificates_of_clients_are_asked_for_and_checked() {
    let world = World::new();
    let stranger = TestCa::named("Another CA");
    let good = world.ca.issue(&["sip:phones.example.com"]);
    let rsa = world
        .ca
        .issue_with(&["sip:phones.example.com"], KeyKind::Rsa2048);
    let bad = stranger.issue(&["sip:phones.example.com"]);
    let late = world
        .ca
        .issue_between(&["sip:phones.example.com"], 2001, 2002);
    use CertificateFault::{Expired, Missing, UnknownIssuer};
    for (auth, shown, fault) in [
        (ClientAuth::Off, Some(&bad), None),
        (ClientAuth::Optional, None, None),
        (ClientAuth::Optional, Some(&good), None),
        (ClientAuth::Optional, Some(&bad), Some(UnknownIssuer)),
        (ClientAuth::Required, Some(&rsa), None),
        (ClientAuth::Required, Some(&late), Some(Expired)),
        (ClientAuth::Required, None, Some(Missing)),
    ] {
        let mut server = tls_server(world.asking(auth).build().unwrap());
        let mut args = vec!["-tls1_2", "-cipher", "AES128-SHA@SECLEVEL=0"];
        let files = shown
            .map(|(chain, key)| (world.dir.file("c.pem", chain), world.dir.file("c.key", key)));
        if let Some((chain, key)) = &files {
            args.extend(["-cert", chain, "-key", key]);
        }
        let output = s_client(&mut server, &args);
        let row = format!("{auth:?} {fault:?}: {output}");
        match fault {
            None => {
                assert!(output.contains("SIP/2.0 200 OK"), "{row}");
                let identity = server.identities.pop().unwrap();
                assert_eq!(
                    identity.is_some(),
                    auth != ClientAuth::Off && shown.is_some()
                );
                if let Some(identity) = identity {
                    assert!(identity.speaks_for("phones.example.com"));
                }
            }
            Some(fault) => {
                assert!(output.contains("alert"), "{row}");
                let error = server.until(handshake_failed);
                assert_eq!(error.failure, HandshakeFailure::BadCertificate, "{row}");
                assert_eq!(error.fault, Some(fault), "{row}");
                assert!(
                    !server
                        .seen
                        .iter()
                        .any(|seen| matches!(seen, Seen::Message(..)))
                );
                assert_eq!(tally(&server).faults[fault as usize], 1, "{row}");
            }
        }
    }
}

#[test]
fn a_session_with_a_certificate_is_checked_again_by_the_whole_chain() {
    let world = World::new();
    let session = world.dir.path("session.pem");
    // An authority between, which only the client has.
    let mut between = params(&["between.example.com"], 2020, 2099);
    between.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    between.extended_key_usages.clear();
    between
        .distinguished_name
        .push(DnType::CommonName, "Between");
    let between =
        CertifiedIssuer::signed_by(between, KeyPair::generate().unwrap(), world.ca.issuer())
            .unwrap();
    let key = KeyKind::P256.generate();
    let leaf = params(&["sip:phones.example.com"], 2020, 2099);
    let leaf = leaf.signed_by(&key, &between).unwrap();
    let cert = world.dir.file("cert.pem", &leaf.pem());
    let chain = world.dir.file("chain.pem", &between.pem());
    let key = world.dir.file("cert.key", &key.serialize_pem());
    let mut server = tls_server(world.asking(ClientAuth::Required).build().unwrap());
    let args = [
        "-tls1_2",
        "-cipher",
        "AES128-SHA@SECLEVEL=0",
        "-cert",
        &cert,
        "-key",
        &key,
        "-cert_chain",
        &chain,
    ];
    let mut first = args.to_vec();
    first.extend(["-sess_out", &session]);
    let output = s_client(&mut server, &first);
    assert!(output.contains("SIP/2.0 200 OK"), "{output}");
    // Tickets, which would lack the chain, are not issued.
    let mut second = args.to_vec();
    second.extend(["-sess_in", &session]);
    let output = s_client(&mut server, &second);
    assert!(output.contains("Reused, "), "{output}");
    assert_eq!(tally(&server).resumed_by[Resumption::SessionId as usize], 1);
    // Who it is was not forgotten.
    let identity = server.identities.pop().unwrap().unwrap();
    assert!(identity.speaks_for("phones.example.com"));
}

#[test]
fn a_session_ends_with_the_certificate() {
    use time::OffsetDateTime;
    let world = World::new();
    let session = world.dir.path("session.pem");
    // Long enough for a visit on a machine with much to do.
    let end = OffsetDateTime::now_utc() + Duration::from_secs(8);
    let mut leaf = params(&["sip:phones.example.com"], 2020, 2099);
    leaf.not_after = end;
    let (cert, key) = world.ca.issue_from(&leaf, &KeyKind::P256.generate());
    let (cert, key) = (
        world.dir.file("c.pem", &cert),
        world.dir.file("c.key", &key),
    );
    let mut server = tls_server(world.asking(ClientAuth::Required).build().unwrap());
    let args = [
        "-tls1_2",
        "-cipher",
        "AES128-SHA@SECLEVEL=0",
        "-cert",
        &cert,
        "-key",
        &key,
    ];
    let mut first = args.to_vec();
    first.extend(["-sess_out", &session]);
    let output = s_client(&mut server, &first);
    assert!(output.contains("SIP/2.0 200 OK"), "{output}");
    let patience = Instant::now();
    while OffsetDateTime::now_utc() <= end + Duration::from_secs(1) {
        assert!(patience.elapsed() < Duration::from_secs(60));
        server.turn();
    }
    let mut second = args.to_vec();
    second.extend(["-sess_in", &session]);
    let before = server.answered;
    s_client(&mut server, &second);
    let error = server.until(handshake_failed);
    assert_eq!(error.fault, Some(CertificateFault::Expired));
    assert_eq!(server.answered, before);
    // The session is forgotten: the next time there is a full handshake, in
    // which the client is told why.
    let output = s_client(&mut server, &second);
    assert!(output.contains("alert certificate expired"), "{output}");
}

#[test]
fn handshakes_that_are_cut_and_garbage_leave_nothing_behind() {
    let world = World::new();
    let mut server = tls_server(world.config().build().unwrap());
    let addr = server.addr();
    let hello = {
        // A whole ClientHello: what a client says to a listener that is silent.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = libssl::client(&client("AES128-SHA"), silent.local_addr().unwrap(), vec![]);
        let (mut socket, _) = silent.accept().unwrap();
        let mut bytes = vec![0; 4_096];
        let len = std::io::Read::read(&mut socket, &mut bytes).unwrap();
        bytes.truncate(len);
        bytes
    };
    let mut count = 0;
    for len in [0, 1, 5, 40, hello.len() - 1, hello.len()] {
        let mut socket = TcpStream::connect(addr).unwrap();
        socket.write_all(&hello[..len]).unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        let error = server.until(handshake_failed);
        assert_eq!(error.failure, HandshakeFailure::Cut, "{len}");
        count += 1;
    }
    for garbage in [
        &b"OPTIONS sip:example.com SIP/2.0\r\n\r\n"[..],
        &[22, 3, 1, 0, 4, 1, 0, 0, 0],
        &[7; 300],
    ] {
        let mut socket = TcpStream::connect(addr).unwrap();
        socket.write_all(garbage).unwrap();
        let error = server.until(handshake_failed);
        assert_eq!(error.failure, HandshakeFailure::Broken, "{garbage:?}");
        count += 1;
    }
    // A handshake that the client gives up in its middle, by an alert.
    let mut fussy = libssl::context(SslMethod::tls_client(), "AES128-SHA");
    let root = TestCa::named("Another CA").root_pem();
    libssl::ask(&mut fussy, &root, openssl::ssl::SslVerifyMode::PEER);
    let (seen, _) = visit(&mut server, &fussy.build());
    assert!(seen.unwrap_err().contains("certificate verify failed"));
    let error = server.until(handshake_failed);
    assert_eq!(error.failure, HandshakeFailure::CertificateRefused);
    count += 1;
    assert_eq!(tally(&server).failed.iter().sum::<u64>(), count);
    assert_eq!(server.net.connection_count(), 0);
    assert_eq!(server.net.kept_bytes(), 0);
    assert!(
        !server
            .seen
            .iter()
            .any(|seen| matches!(seen, Seen::Message(..)))
    );
    // And the next is served.
    assert!(visit(&mut server, &client("AES128-SHA")).0.is_ok());
}

#[test]
fn a_reload_takes_over_what_is_good_and_refuses_what_is_not() {
    let world = World::new();
    let tls = Arc::new(world.config().build().unwrap());
    let mut server = tls_server_with(Arc::clone(&tls), HandshakeConfig::default());
    let (chain, key) = world.ca.issue(&["example.com"]);
    let wrong = ServerTlsConfig::new()
        .engine(TlsEngine::Legacy)
        .pair_pem(chain.as_bytes(), key.as_bytes())
        .unwrap();
    let error = tls.reload(wrong).unwrap_err().to_string();
    assert!(error.contains("RSA key"), "{error}");
    assert!(visit(&mut server, &client("AES128-SHA")).0.is_ok());
    tls.reload(world.config().suites(&["DES-CBC3-SHA"]))
        .unwrap();
    assert!(visit(&mut server, &client("AES128-SHA")).0.is_err());
    assert!(visit(&mut server, &client("DES-CBC3-SHA")).0.is_ok());
}
