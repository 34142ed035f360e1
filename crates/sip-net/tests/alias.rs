//! RFC 5923: who may be reached by a connection that he opened, and who claims it
//! in vain.
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use sip_msg::{ConnId, Flow, Lane, Target, Transport};
use sip_net::{AliasRefused, Aliases, ListenerConfig, NetConfig};
use sip_tls::testing::TestCa;
use sip_tls::{
    ClientAuth, ClientTls, ClientTlsConfig, HandshakeConfig, HandshakePool, PeerEntry, PeerTls,
    ServerTlsConfig,
};

const NOW_UNIX_S: u64 = 1_800_000_000;
/// The first of January 2099, when the tests' certificates end.
const END_UNIX_S: u64 = 4_070_908_800;

struct World {
    ca: TestCa,
    server: Bench,
    aliases: Arc<Aliases>,
    /// Names that are called by settings of their own.
    called: PeerTls,
    /// Those that have connected; without them their connections would end.
    peers: Vec<Bench>,
}

impl World {
    fn new() -> Self {
        Self::with_room_for(8)
    }

    fn with_room_for(count_max: usize) -> Self {
        let ca = TestCa::new();
        let (chain, key) = ca.issue(&["example.com"]);
        let tls = ServerTlsConfig::new()
            .pair_pem(chain.as_bytes(), key.as_bytes())
            .unwrap()
            .roots_pem(&[ca.root_pem().as_bytes()])
            .unwrap()
            .client_auth(ClientAuth::Optional)
            .build()
            .unwrap();
        let called = PeerTls::new();
        let aliases = Arc::new(Aliases::new(count_max, called.clone()));
        let config = NetConfig {
            handshakes: Some(HandshakePool::start(HandshakeConfig::default()).unwrap()),
            aliases: Some(Arc::clone(&aliases)),
            ..NetConfig::default()
        };
        let listeners = [
            ListenerConfig::tls(any_port("127.0.0.1"), Arc::new(tls)),
            ListenerConfig::new(Transport::Tcp, any_port("127.0.0.1")),
        ];
        Self {
            ca,
            server: Bench::new(&listeners, config),
            aliases,
            called,
            peers: Vec::new(),
        }
    }

    /// A neighbour that connects, with a certificate for `names` if there are any.
    fn neighbour(&mut self, names: &[&str]) -> Flow {
        let mut tls = ClientTlsConfig::new()
            .roots_pem(&[self.ca.root_pem().as_bytes()])
            .unwrap();
        if !names.is_empty() {
            let (chain, key) = self.ca.issue(names);
            tls = tls.identity_pem(chain.as_bytes(), key.as_bytes()).unwrap();
        }
        let mut peer = tls_client(tls.build().unwrap());
        let target = named(self.server.addr(), "example.com");
        peer.net.send(&target, &request("x"), 0);
        let (flow, _) = self.server.until_with(&mut [&mut peer], message);
        self.peers.push(peer);
        flow
    }

    fn find(&self, name: &str, port: u16) -> Option<ConnId> {
        let at = SocketAddr::from(([127, 0, 0, 1], port));
        self.aliases.find(&named(at, name), NOW_UNIX_S)
    }
}

#[test]
fn a_neighbour_that_proved_its_name_is_reached_by_its_own_connection() {
    let mut world = World::new();
    let flow = world.neighbour(&["sip:gw.example.net", "other.example.net"]);
    world
        .server
        .net
        .alias(flow.conn, "GW.example.net", Some(5071))
        .unwrap();
    assert_eq!(world.find("gw.example.net", 5071), Some(flow.conn));
    // Under no other name, at no other port, and over nothing but TLS. Where
    // there is a SIP URI in a certificate its DNS names do not count (RFC 5922).
    for (name, port) in [
        ("gw.example.net", 5061),
        ("other.example.net", 5071),
        ("example.net", 5071),
        ("sub.gw.example.net", 5071),
        ("127.0.0.1", 5071),
    ] {
        assert_eq!(world.find(name, port), None, "{name}:{port}");
    }
    let target = named("127.0.0.1:5071".parse().unwrap(), "gw.example.net");
    let find = |target: &Target, unix_s| world.aliases.find(target, unix_s);
    assert_eq!(find(&target, END_UNIX_S), Some(flow.conn));
    assert_eq!(
        find(&target, END_UNIX_S + 1),
        None,
        "its certificate has ended"
    );
    for other in [
        Target {
            transport: Transport::Tcp,
            ..target.clone()
        },
        Target {
            tls_name: None,
            ..target.clone()
        },
        Target {
            may_open: false,
            ..target.clone()
        },
        Target {
            lane: Lane::Nth(1),
            ..target.clone()
        },
        Target {
            conn: ConnId(1),
            ..target.clone()
        },
    ] {
        assert_eq!(find(&other, NOW_UNIX_S), None, "{other:?}");
    }

    // What is sent there arrives, and no connection is opened.
    let to_it = Target {
        conn: flow.conn,
        ..target
    };
    world.server.net.send(&to_it, &request("call"), 0);
    world.server.net.flush();
    assert_eq!(world.peers[0].message().1, request("call"));
    let counters = world.server.net.counters();
    assert_eq!((counters.opened, counters.aliases_granted), (0, 1));

    // It ends with the connection.
    world.peers[0].net.close_all(false);
    let mut peers = std::mem::take(&mut world.peers);
    world.server.until_with(&mut [&mut peers[0]], closed);
    assert_eq!(world.find("gw.example.net", 5071), None);
    assert!(world.aliases.is_empty());
}

#[test]
fn an_address_in_the_certificate_is_a_name_as_well() {
    let mut world = World::new();
    let flow = world.neighbour(&["127.0.0.1", "gw.example.net"]);
    let net = &mut world.server.net;
    net.alias(flow.conn, "127.0.0.1", None).unwrap();
    assert_eq!(world.find("127.0.0.1", 5061), Some(flow.conn));
    assert_eq!(world.find("127.0.0.2", 5061), None);
}

#[test]
fn nobody_takes_the_requests_of_another() {
    use AliasRefused::{OtherName, Unfit, Unproven};
    let mut world = World::new();
    for (names, host, refused) in [
        // No certificate, whatever the Via says.
        (&[][..], "gw.example.net", Unproven),
        (&[], "127.0.0.1", Unproven),
        // A good certificate of somebody else.
        (&["evil.example.net"], "gw.example.net", OtherName),
        (&["evil.example.net"], "sub.evil.example.net", OtherName),
        (&["*.example.net"], "gw.example.net", OtherName),
        // The address of another.
        (&["gw.example.net"], "192.0.2.1", OtherName),
        (&["gw.example.net"], "::1", OtherName),
        (&["gw.example.net"], "", OtherName),
    ] {
        let flow = world.neighbour(names);
        let net = &mut world.server.net;
        assert_eq!(
            net.alias(flow.conn, host, Some(5071)),
            Err(refused),
            "{host}"
        );
        assert!(world.aliases.is_empty());
    }
    let counters = world.server.net.counters();
    assert_eq!(
        (counters.aliases_unproven, counters.aliases_other_name),
        (2, 6)
    );

    // Its own address may be claimed by anybody who proved something; it is
    // found only under what was proved.
    let flow = world.neighbour(&["evil.example.net"]);
    let net = &mut world.server.net;
    net.alias(flow.conn, "127.0.0.1", Some(5071)).unwrap();
    for name in ["gw.example.net", "127.0.0.1"] {
        assert_eq!(world.find(name, 5071), None, "{name}");
    }
    assert_eq!(world.find("evil.example.net", 5071), Some(flow.conn));
    // Nor does it hide the connection of its rightful owner, older or newer.
    for _ in 0..2 {
        let rightful = world.neighbour(&["gw.example.net"]);
        let other = world.neighbour(&["evil.example.net"]);
        let net = &mut world.server.net;
        net.alias(rightful.conn, "gw.example.net", Some(5071))
            .unwrap();
        net.alias(other.conn, "evil.example.net", Some(5071))
            .unwrap();
        assert_eq!(world.find("gw.example.net", 5071), Some(rightful.conn));
    }

    // Plain TCP proves nothing, and neither does a connection that is not there.
    let tcp = world.server.net.local_addr(sip_msg::ListenerId(1)).unwrap();
    let mut plain = Bench::on(Transport::Tcp, "127.0.0.1");
    plain.net.send(&to(Transport::Tcp, tcp), &request("x"), 0);
    let (flow, _) = world.server.until_with(&mut [&mut plain], message);
    let net = &mut world.server.net;
    assert_eq!(net.alias(flow.conn, "127.0.0.1", Some(5071)), Err(Unfit));
    assert_eq!(net.alias(ConnId(99), "127.0.0.1", Some(5071)), Err(Unfit));
}

#[test]
fn who_is_called_by_settings_of_its_own_is_called_by_no_alias() {
    let mut world = World::new();
    let flow = world.neighbour(&["gw.example.net", "other.example.net"]);
    let net = &mut world.server.net;
    net.alias(flow.conn, "gw.example.net", None).unwrap();
    let entry = PeerEntry {
        tls: Arc::new(ClientTls::from_pem(&[]).unwrap()),
        expect: None,
    };
    world.called.replace([("GW.example.net".to_owned(), entry)]);
    assert_eq!(world.find("gw.example.net", 5061), None);
    assert_eq!(world.find("other.example.net", 5061), Some(flow.conn));
    world.called.replace([]);
    assert_eq!(world.find("gw.example.net", 5061), Some(flow.conn));
}

#[test]
fn who_bears_no_name_of_his_own_gets_no_entry() {
    let mut world = World::new();
    for names in [
        &["*.example.net"][..],
        &["sip:user@example.net"],
        &["192.0.2.1"],
    ] {
        let flow = world.neighbour(names);
        let net = &mut world.server.net;
        assert_eq!(
            net.alias(flow.conn, "127.0.0.1", Some(5071)),
            Err(AliasRefused::Unproven),
            "{names:?}"
        );
        assert!(world.aliases.is_empty());
    }
    assert_eq!(world.server.net.counters().aliases_unproven, 3);
}

#[test]
fn nobody_pushes_out_the_connection_of_another() {
    // So many that one source may have sixteen.
    let mut world = World::with_room_for(64);
    let rightful = world.neighbour(&["gw.example.net"]);
    let net = &mut world.server.net;
    net.alias(rightful.conn, "gw.example.net", Some(5071))
        .unwrap();
    let mut newest = None;
    for n in 0..20 {
        let other = world.neighbour(&["evil.example.net"]);
        // At the same place, and at any other behind the address.
        let port = if n % 2 == 0 { 5071 } else { 6000 + n };
        let net = &mut world.server.net;
        net.alias(other.conn, "127.0.0.1", Some(port)).unwrap();
        if n % 2 == 0 {
            newest = Some(other.conn);
        }
    }
    assert_eq!(world.find("gw.example.net", 5071), Some(rightful.conn));
    assert_eq!(world.find("evil.example.net", 5071), newest);
    assert_eq!(world.aliases.len(), 16);
    // Who has nothing to give for it gets nothing.
    let third = world.neighbour(&["third.example.net"]);
    let net = &mut world.server.net;
    assert_eq!(
        net.alias(third.conn, "third.example.net", Some(5071)),
        Err(AliasRefused::Full)
    );
    world.server.net.close_all(false);
    world.server.net.poll(Some(Duration::ZERO), |_| {}).unwrap();
    assert!(world.aliases.is_empty());
}

#[test]
fn nodes_of_one_neighbour_do_not_push_each_other_out() {
    let mut world = World::with_room_for(4_096);
    let mut conns = Vec::new();
    for port in 6000..6017 {
        let node = world.neighbour(&["gw.example.net"]);
        let net = &mut world.server.net;
        net.alias(node.conn, "gw.example.net", Some(port)).unwrap();
        conns.push((port, node.conn));
    }
    for (port, conn) in conns {
        assert_eq!(world.find("gw.example.net", port), Some(conn), "{port}");
    }
}

#[test]
fn the_table_is_bounded_and_a_wish_is_heard_once() {
    let mut world = World::new();
    for n in 0..10 {
        let flow = world.neighbour(&["gw.example.net"]);
        let net = &mut world.server.net;
        let noted = net.alias(flow.conn, "gw.example.net", Some(6000 + n));
        assert_eq!(noted.is_ok(), n < 8, "{n}");
        net.alias(flow.conn, "gw.example.net", Some(7000)).unwrap();
        assert_eq!(world.find("gw.example.net", 7000), None);
    }
    assert_eq!(world.aliases.len(), 8);
    assert_eq!(world.server.net.counters().aliases_full, 2);
    world.server.net.close_all(false);
    world.server.net.poll(Some(Duration::ZERO), |_| {}).unwrap();
    assert!(world.aliases.is_empty());
}
