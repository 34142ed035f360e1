//! Whom the peer of a connection proved to be: told before anything that it
//! sends, known again when a session is resumed, and over when the certificate
//! or the trust in it is.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{
    Bench, Seen, any_port, closed, handshake_failed, message, named, opened, request, tls_client,
    tls_client_by, tls_server_by, tls_server_with, verified,
};
use rcgen::CertificateParams;
use sip_msg::{Target, Transport};
use sip_net::clock::Clock;
use sip_net::{CloseReason, ListenerConfig, NetConfig};
use sip_tls::testing::{KeyKind, TestCa, params};
use sip_tls::{
    CertificateFault, ClientAuth, ClientResumption, ClientTls, ClientTlsConfig, HandshakeConfig,
    HandshakePool, PeerEntry, PeerTls, Resumption, ServerTls, ServerTlsConfig, TlsVersion,
};
use time::OffsetDateTime;

/// Every way to resume, as a client is told to.
const WAYS: [(TlsVersion, ClientResumption, Resumption); 3] = [
    (
        TlsVersion::V12,
        ClientResumption::SessionIds,
        Resumption::SessionId,
    ),
    (
        TlsVersion::V12,
        ClientResumption::Tickets,
        Resumption::Ticket,
    ),
    (TlsVersion::V13, ClientResumption::Tickets, Resumption::Psk),
];

struct World {
    ca: TestCa,
}

impl World {
    fn new() -> Self {
        Self { ca: TestCa::new() }
    }

    fn pair(
        &self,
        name: &str,
        serial: u64,
        change: impl FnOnce(&mut CertificateParams),
    ) -> [String; 2] {
        let mut params = params(&[name], 2020, 2099);
        params.serial_number = Some(serial.into());
        change(&mut params);
        let (chain, key) = self.ca.issue_from(&params, &KeyKind::P256.generate());
        [chain, key]
    }

    fn server(&self, [chain, key]: &[String; 2], way: Resumption) -> ServerTlsConfig {
        let config = ServerTlsConfig::new()
            .pair_pem(chain.as_bytes(), key.as_bytes())
            .unwrap()
            .client_auth(ClientAuth::Optional)
            .roots_pem(&[self.ca.root_pem().as_bytes()])
            .unwrap();
        match way {
            Resumption::SessionId => config.no_tickets(),
            Resumption::Ticket | Resumption::Psk => config,
        }
    }

    fn client(&self, shown: Option<&[String; 2]>) -> ClientTlsConfig {
        let config = ClientTlsConfig::new()
            .roots_pem(&[self.ca.root_pem().as_bytes()])
            .unwrap();
        match shown {
            Some([chain, key]) => config
                .identity_pem(chain.as_bytes(), key.as_bytes())
                .unwrap(),
            None => config,
        }
    }
}

fn serve(config: ServerTlsConfig) -> (Bench, Arc<ServerTls>) {
    let tls = Arc::new(config.build().unwrap());
    let server = tls_server_with(Arc::clone(&tls), HandshakeConfig::default());
    (server, tls)
}

/// The places of what is seen of the beginning of a connection.
fn order(bench: &Bench) -> Vec<&'static str> {
    let seen = bench.seen.iter();
    seen.filter_map(|seen| match seen {
        Seen::Verified(..) => Some("verified"),
        Seen::Accepted(_) => Some("accepted"),
        Seen::Opened(_) => Some("opened"),
        Seen::Message(..) => Some("message"),
        _ => None,
    })
    .collect()
}

/// One connection with a message each way, closed again; how it resumed.
fn visit(client: &mut Bench, server: &mut Bench, tls: &Arc<ClientTls>) -> Option<Resumption> {
    client.seen.clear();
    server.seen.clear();
    let target = named(server.addr(), "example.com");
    let conn = client.net.open_as(&target, tls).unwrap();
    client
        .net
        .send(&Target { conn, ..target }, &request("x"), 0);
    client.net.flush();
    let came = |bench: &Bench| bench.seen.iter().any(|seen| message(seen).is_some());
    let patience = Instant::now();
    while !came(server) {
        assert!(
            patience.elapsed() < Duration::from_secs(30),
            "{:?}",
            client.seen
        );
        client.turn();
        server.turn();
    }
    let flow = server.seen.iter().find_map(message).unwrap().0;
    server.net.send(&Target::back(&flow), &request("y"), 0);
    server.net.flush();
    while !came(client) {
        assert!(
            patience.elapsed() < Duration::from_secs(30),
            "{:?}",
            client.seen
        );
        client.turn();
        server.turn();
    }
    let info = *client.net.tls_info(conn).unwrap();
    client.net.close(conn, true);
    client.until_with(&mut [server], closed);
    server.until_with(&mut [client], closed);
    info.resumed
}

#[test]
fn both_sides_are_told_before_anything_else_and_again_when_they_resume() {
    let world = World::new();
    let mine = world.pair("example.com", 1, |_| {});
    let theirs = world.pair("peer.example", 2, |_| {});
    for (version, resumption, how) in WAYS {
        let (mut server, _) = serve(world.server(&mine, how));
        let config = world.client(Some(&theirs)).versions(&[version]);
        let tls = Arc::new(config.resumption(resumption).build().unwrap());
        let mut client = tls_client(ClientTls::from_pem(&[]).unwrap());
        for resumed in [None, Some(how), Some(how)] {
            assert_eq!(visit(&mut client, &mut server, &tls), resumed, "{how:?}");
            assert_eq!(order(&server), ["verified", "accepted", "message"]);
            assert_eq!(order(&client), ["verified", "opened", "message"]);
            for (bench, name, is_client) in [
                (&mut server, "peer.example", true),
                (&mut client, "example.com", false),
            ] {
                let peer = bench.until(verified);
                assert_eq!(peer.domains(), [name.into()], "{how:?} {resumed:?}");
                assert_eq!(peer.is_client(), is_client);
                // The first of January 2099.
                assert_eq!(peer.not_after_unix_s(), 4_070_908_800);
                bench.seen.clear();
            }
        }
    }
}

#[test]
fn who_shows_nothing_or_is_believed_without_a_reason_proves_nothing() {
    let world = World::new();
    let mine = world.pair("example.com", 1, |_| {});
    for (_, resumption, how) in WAYS {
        let (mut server, _) = serve(world.server(&mine, how));
        let config = ClientTlsConfig::new().trust_anyone_insecurely();
        let tls = Arc::new(config.resumption(resumption).build().unwrap());
        let mut client = tls_client(ClientTls::from_pem(&[]).unwrap());
        for _ in 0..2 {
            visit(&mut client, &mut server, &tls);
        }
        for bench in [&client, &server] {
            assert!(!order(bench).contains(&"verified"), "{how:?}");
        }
    }
}

#[test]
fn a_server_that_was_revoked_since_is_not_resumed() {
    let world = World::new();
    let mine = world.pair("example.com", 5, |_| {});
    for (version, resumption, how) in WAYS {
        for (revoked, fault) in [
            (&[99][..], None),
            (&[99, 5], Some(CertificateFault::Revoked)),
        ] {
            let (mut server, _) = serve(world.server(&mine, how));
            let config = || {
                world
                    .client(None)
                    .versions(&[version])
                    .resumption(resumption)
            };
            let tls = Arc::new(config().build().unwrap());
            let mut client = tls_client(ClientTls::from_pem(&[]).unwrap());
            assert_eq!(visit(&mut client, &mut server, &tls), None);
            assert_eq!(visit(&mut client, &mut server, &tls), Some(how));
            let list = world.ca.revoke(revoked);
            tls.reload(config().crl_pem(&[list.as_bytes()]).unwrap())
                .unwrap();
            client.seen.clear();
            let before = server.net.counters().tls.messages_in;
            match fault {
                // What was proved by the policy before is not taken over.
                None => assert_eq!(visit(&mut client, &mut server, &tls), None),
                Some(fault) => {
                    let target = named(server.addr(), "example.com");
                    let conn = client.net.open_as(&target, &tls).unwrap();
                    let target = Target { conn, ..target };
                    client.net.send(&target, &request("secret"), 0);
                    let error = client.until_with(&mut [&mut server], handshake_failed);
                    assert_eq!(error.fault, Some(fault), "{how:?}");
                    assert_eq!(server.net.counters().tls.messages_in, before);
                    server.until_with(&mut [&mut client], handshake_failed);
                }
            }
        }
    }
}

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;

#[test]
fn a_connection_ends_with_the_certificate_of_its_peer() {
    let world = World::new();
    for ends_at_server in [true, false] {
        let end = OffsetDateTime::now_utc() + Duration::from_secs(HOUR_MS / 1_000);
        let short = |params: &mut CertificateParams| params.not_after = end;
        let (mine, theirs) = if ends_at_server {
            (
                world.pair("example.com", 1, |_| {}),
                world.pair("peer.example", 2, short),
            )
        } else {
            (
                world.pair("example.com", 3, short),
                world.pair("peer.example", 4, |_| {}),
            )
        };
        let clock = Clock::given();
        let tls = Arc::new(world.server(&mine, Resumption::Psk).build().unwrap());
        let mut server = tls_server_by(tls, HandshakeConfig::default(), clock.clone());
        let tls = world.client(Some(&theirs)).build().unwrap();
        let mut client = tls_client_by(tls, clock.clone());
        let target = named(server.addr(), "example.com");
        client.net.send(&target, &request("x"), 0);
        server.until_with(&mut [&mut client], message);
        // What it carries a minute before keeps it from being idle.
        clock.pass(HOUR_MS - MINUTE_MS);
        client.net.send(&target, &request("y"), 0);
        server.until_with(&mut [&mut client], message);
        assert!(
            [&server, &client]
                .iter()
                .all(|end| end.net.connection_count() == 1)
        );
        clock.pass(2 * MINUTE_MS);
        let (one, other) = if ends_at_server {
            (&mut server, &mut client)
        } else {
            (&mut client, &mut server)
        };
        assert_eq!(
            one.until_with(&mut [other], closed),
            CloseReason::Certificate
        );
        assert_eq!(other.until_with(&mut [one], closed), CloseReason::Peer);
    }
}

/// RFC 8446 4.4.2: "For maximum compatibility, all implementations SHOULD be prepared to handle
/// potentially extraneous certificates and arbitrary orderings from any TLS version".
#[test]
fn a_certificate_that_proves_nothing_ends_nothing() {
    let world = World::new();
    let (over, _) = TestCa::named("Old CA").issue_between(&["old.example"], 2000, 2001);
    let with_more = |[chain, key]: [String; 2]| [chain + &over, key];
    let mine = with_more(world.pair("example.com", 1, |_| {}));
    let theirs = with_more(world.pair("peer.example", 2, |_| {}));
    for (_, _, way) in WAYS {
        let clock = Clock::given();
        let tls = Arc::new(world.server(&mine, way).build().unwrap());
        let mut server = tls_server_by(tls, HandshakeConfig::default(), clock.clone());
        let tls = world.client(Some(&theirs)).build().unwrap();
        let mut client = tls_client_by(tls, clock.clone());
        let target = named(server.addr(), "example.com");
        client.net.send(&target, &request("x"), 0);
        let peer = server.until_with(&mut [&mut client], verified);
        assert_eq!(peer.not_after_unix_s(), 4_070_908_800);
        server.until_with(&mut [&mut client], message);
        clock.pass(MINUTE_MS);
        client.net.send(&target, &request("y"), 0);
        server.until_with(&mut [&mut client], message);
        assert_eq!(server.net.counters().accepted, 1);
    }
}

#[test]
fn a_reload_closes_the_connections_of_those_who_are_trusted_no_longer() {
    let world = World::new();
    let mine = world.pair("example.com", 1, |_| {});
    let (mut server, tls) = serve(world.server(&mine, Resumption::Psk));
    let mut clients: Vec<Bench> = Vec::new();
    // Two that show certificates, and one that shows none.
    for shown in [
        Some(world.pair("bad.example", 7, |_| {})),
        Some(world.pair("good.example", 8, |_| {})),
        None,
    ] {
        let mut client = tls_client(world.client(shown.as_ref()).build().unwrap());
        let target = named(server.addr(), "example.com");
        client.net.send(&target, &request("x"), 0);
        server.until_with(&mut [&mut client], message);
        clients.push(client);
    }
    let [bad, good, none] = clients.as_mut_slice() else {
        panic!()
    };
    let with_list = |serials: &[u64]| {
        let list = world.ca.revoke(serials);
        let config = world.server(&mine, Resumption::Psk);
        config.crl_pem(&[list.as_bytes()]).unwrap()
    };
    // A change that is about nobody here closes nothing.
    for serials in [&[99][..], &[99, 7]] {
        tls.reload(with_list(serials)).unwrap();
        server.net.recheck_peers();
        for _ in 0..20 {
            server.turn();
        }
        for client in [&mut *good, &mut *none] {
            let addr = server.addr();
            client
                .net
                .send(&named(addr, "example.com"), &request("y"), 0);
            server.until_with(&mut [client], message);
        }
    }
    assert_eq!(
        server.until_with(&mut [&mut *bad], closed),
        CloseReason::Certificate
    );
    bad.until_with(&mut [&mut server], closed);
    assert_eq!(server.net.connection_count(), 2);
    // Who asks nobody any more believes nobody by a certificate.
    let config = world.server(&mine, Resumption::Psk);
    tls.reload(config.client_auth(ClientAuth::Off)).unwrap();
    server.net.recheck_peers();
    assert_eq!(
        server.until_with(&mut [&mut *good], closed),
        CloseReason::Certificate
    );
    assert_eq!(server.net.connection_count(), 1);
}

/// Else a thief's connection stays open for as long as something else is changed every few seconds.
#[test]
fn all_are_looked_at_however_often_that_is_asked_for() {
    let world = World::new();
    let mine = world.pair("example.com", 1, |_| {});
    let (mut server, tls) = serve(world.server(&mine, Resumption::Psk));
    let mut clients: Vec<Bench> = Vec::new();
    // More than are looked at in one turn.
    for serial in 10..16 {
        let theirs = world.pair("peer.example", serial, |_| {});
        let mut client = tls_client(world.client(Some(&theirs)).build().unwrap());
        let target = named(server.addr(), "example.com");
        client.net.send(&target, &request("x"), 0);
        server.until_with(&mut [&mut client], message);
        clients.push(client);
    }
    let list = world.ca.revoke(&[15]);
    let config = world.server(&mine, Resumption::Psk);
    tls.reload(config.crl_pem(&[list.as_bytes()]).unwrap())
        .unwrap();
    for _ in 0..20 {
        server.net.recheck_peers();
        server.turn();
    }
    assert_eq!(server.until(closed), CloseReason::Certificate);
    assert_eq!(server.net.connection_count(), 5);
}

#[test]
fn a_reload_closes_connections_to_servers_too() {
    let world = World::new();
    let (mut server, _) =
        serve(world.server(&world.pair("example.com", 5, |_| {}), Resumption::Psk));
    let tls = Arc::new(world.client(None).build().unwrap());
    let mut client = tls_client(ClientTls::from_pem(&[]).unwrap());
    let target = named(server.addr(), "example.com");
    client.net.open_as(&target, &tls).unwrap();
    client.until_with(&mut [&mut server], opened);
    for (serials, count) in [(&[99][..], 1), (&[5], 0)] {
        let list = world.ca.revoke(serials);
        tls.reload(world.client(None).crl_pem(&[list.as_bytes()]).unwrap())
            .unwrap();
        client.net.recheck_peers();
        for _ in 0..20 {
            client.turn();
        }
        assert_eq!(client.net.connection_count(), count);
    }
    assert_eq!(client.until(closed), CloseReason::Certificate);
}

#[test]
fn a_reload_closes_connections_to_servers_that_must_bear_another_name() {
    let world = World::new();
    let theirs = world.pair("sip.far.example", 5, |_| {});
    let (mut server, _) = serve(world.server(&theirs, Resumption::Psk));
    let entry = |expect: &str| {
        let entry = PeerEntry {
            tls: Arc::new(world.client(None).build().unwrap()),
            expect: Some(expect.into()),
        };
        ("far.example".to_owned(), entry)
    };
    let peers = PeerTls::new();
    peers.replace([entry("sip.far.example")]);
    let config = NetConfig {
        client_tls: Some(Arc::new(world.client(None).build().unwrap())),
        peers: Some(peers.clone()),
        handshakes: Some(HandshakePool::start(HandshakeConfig::default()).unwrap()),
        ..NetConfig::default()
    };
    let listener = ListenerConfig::outbound(Transport::Tls, any_port("127.0.0.1"));
    let mut client = Bench::new(&[listener], config);
    let far_at = named(server.addr(), "far.example");
    client.net.send(&far_at, &request("x"), 0);
    server.until_with(&mut [&mut client], message);
    for (expect, count) in [("SIP.far.example", 1), ("other.example", 0)] {
        peers.replace([entry(expect)]);
        client.net.recheck_peers();
        for _ in 0..20 {
            client.turn();
        }
        assert_eq!(client.net.connection_count(), count, "{expect}");
    }
    assert_eq!(client.until(closed), CloseReason::Certificate);
}

#[test]
fn a_name_may_be_called_by_settings_of_its_own() {
    let world = World::new();
    let elsewhere = TestCa::named("Another CA");
    let mine = world.pair("example.com", 1, |_| {});
    let [chain, key] = elsewhere.issue(&["sip.far.example"]).into();
    let (mut near, _) = serve(world.server(&mine, Resumption::Psk));
    let far = ServerTlsConfig::new()
        .pair_pem(chain.as_bytes(), key.as_bytes())
        .unwrap()
        .versions(&[TlsVersion::V12, TlsVersion::V13])
        .client_auth(ClientAuth::Optional)
        .roots_pem(&[world.ca.root_pem().as_bytes()]);
    let (mut far, _) = serve(far.unwrap());

    let identity = world.pair("me.example", 2, |_| {});
    let peers = PeerTls::new();
    let config = NetConfig {
        client_tls: Some(Arc::new(world.client(Some(&identity)).build().unwrap())),
        peers: Some(peers.clone()),
        handshakes: Some(HandshakePool::start(HandshakeConfig::default()).unwrap()),
        ..NetConfig::default()
    };
    let listener = ListenerConfig::outbound(Transport::Tls, any_port("127.0.0.1"));
    let mut client = Bench::new(&[listener], config);
    let far_at = named(far.addr(), "far.example");
    // By what counts for all its authority is unknown.
    client.net.send(&far_at, &request("x"), 0);
    let error = client.until_with(&mut [&mut far], handshake_failed);
    assert_eq!(error.fault, Some(CertificateFault::UnknownIssuer));
    // Its own authority is not enough: it bears another name.
    let entry = |expect: Option<&str>| {
        let tls = ClientTlsConfig::new()
            .roots_pem(&[elsewhere.root_pem().as_bytes()])
            .unwrap()
            .versions(&[TlsVersion::V12]);
        let entry = PeerEntry {
            tls: Arc::new(tls.build().unwrap()),
            expect: expect.map(Arc::from),
        };
        ("Far.example".to_owned(), entry)
    };
    peers.replace([entry(None)]);
    client.net.send(&far_at, &request("x"), 0);
    let error = client.until_with(&mut [&mut far], handshake_failed);
    assert_eq!(error.fault, Some(CertificateFault::WrongName));
    // With the name that it bears, the version that is offered, and no
    // certificate of ours.
    peers.replace([entry(Some("sip.far.example"))]);
    client.net.send(&far_at, &request("x"), 0);
    let flow = client.until_with(&mut [&mut far], opened);
    let info = client.net.tls_info(flow.conn).unwrap();
    assert_eq!(info.version, TlsVersion::V12);
    far.until_with(&mut [&mut client], message);
    assert!(!far.seen.iter().any(|seen| verified(seen).is_some()));
    // Others are called as before.
    client
        .net
        .send(&named(near.addr(), "example.com"), &request("x"), 0);
    let peer = near.until_with(&mut [&mut client], verified);
    assert_eq!(peer.domains(), ["me.example".into()]);
    // And the same address under another name is another connection.
    client
        .net
        .send(&named(far.addr(), "other.example"), &request("x"), 0);
    let error = client.until_with(&mut [&mut far], handshake_failed);
    assert_eq!(error.fault, Some(CertificateFault::UnknownIssuer));
}
