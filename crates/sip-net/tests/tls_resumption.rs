//! Sessions resumed at our server, as openssl sees it: by version and by
//! mechanism, after a restart, at another node, and where they must not be.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use crate::common::openssl::{Dir, Openssl, s_client};
use crate::common::{Bench, Seen, tls_server};
use sip_msg::ListenerId;
use sip_tls::testing::TestCa;
use sip_tls::{ClientAuth, Resumption, ServerTlsConfig, SessionCache, TicketKeys, TlsVersion};

struct World {
    ca: TestCa,
    pair: (String, String),
    dir: Dir,
}

impl World {
    fn new() -> Self {
        let ca = TestCa::new();
        let pair = ca.issue(&["example.com"]);
        let dir = Dir::new();
        Self { ca, pair, dir }
    }

    fn config(&self) -> ServerTlsConfig {
        let (chain, key) = &self.pair;
        ServerTlsConfig::new()
            .pair_pem(chain.as_bytes(), key.as_bytes())
            .unwrap()
    }

    /// Connects twice, the second time to `second` where there is one; gives
    /// what openssl printed each time.
    fn twice(&self, args: &[&str], first: &mut Bench, second: Option<&mut Bench>) -> [String; 2] {
        let session = self.dir.path("session.pem");
        let with = |mode: &'static str| {
            let mut all = args.to_vec();
            all.extend([mode, &session]);
            all.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>()
        };
        let run = |bench: &mut Bench, mode| {
            let args = with(mode);
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            s_client(bench, &args)
        };
        let one = run(first, "-sess_out");
        assert!(one.contains("SIP/2.0 200 OK"), "{one}");
        let two = run(second.unwrap_or(first), "-sess_in");
        assert!(two.contains("SIP/2.0 200 OK"), "{two}");
        [one, two]
    }
}

fn keys(secret: u8) -> TicketKeys {
    TicketKeys::new([secret; 32], Duration::from_secs(3_600)).unwrap()
}

#[test]
fn every_version_resumes_by_every_mechanism_that_it_has() {
    let world = World::new();
    // What the client is told, what the server offers, and how it resumes.
    type Row<'a> = (
        &'a [&'a str],
        fn(ServerTlsConfig) -> ServerTlsConfig,
        Option<Resumption>,
    );
    let rows: [Row<'_>; 8] = [
        (&["-tls1_2"], |config| config, Some(Resumption::Ticket)),
        (
            &["-tls1_2", "-no_ticket"],
            |config| config,
            Some(Resumption::SessionId),
        ),
        (
            &["-tls1_2"],
            ServerTlsConfig::no_tickets,
            Some(Resumption::SessionId),
        ),
        (
            &["-tls1_2"],
            ServerTlsConfig::no_session_ids,
            Some(Resumption::Ticket),
        ),
        (
            &["-tls1_2", "-no_ticket"],
            ServerTlsConfig::no_session_ids,
            None,
        ),
        (
            &["-tls1_2"],
            |config| config.no_tickets().no_session_ids(),
            None,
        ),
        (&["-tls1_3"], |config| config, Some(Resumption::Psk)),
        (&["-tls1_3"], ServerTlsConfig::no_tickets, None),
    ];
    for (args, offer, how) in rows {
        let mut server = tls_server(offer(world.config()).build().unwrap());
        let session = world.dir.path("session.pem");
        let mut first = args.to_vec();
        first.extend(["-sess_out", &session]);
        let one = s_client(&mut server, &first);
        assert!(one.contains("New, TLSv1."), "{args:?} {how:?}: {one}");
        if args[0] == "-tls1_3" {
            // A ticket that nobody takes is not issued.
            assert_eq!(one.contains("New Session Ticket"), how.is_some(), "{one}");
        }
        // Without a session to be had, openssl writes none.
        if !std::path::Path::new(&session).exists() {
            assert_eq!(how, None, "{args:?}: {one}");
            continue;
        }
        let mut second = args.to_vec();
        second.extend(["-sess_in", &session]);
        let two = s_client(&mut server, &second);
        let word = if how.is_some() {
            "Reused, TLSv1."
        } else {
            "New, TLSv1."
        };
        assert!(two.contains(word), "{args:?} {how:?}: {two}");
        let tally = server.net.listener_counters(ListenerId(0)).unwrap().tls;
        let mut by = [0; Resumption::ALL.len()];
        if let Some(how) = how {
            by[how as usize] = 1;
        }
        assert_eq!(tally.resumed_by, by, "{args:?} {how:?}");
        assert_eq!(tally.full_total() + tally.resumed_total(), 2);
        let version = usize::from(args[0] == "-tls1_3");
        assert_eq!(
            tally.full[version] + tally.resumed[version],
            2,
            "{}",
            TlsVersion::ALL[version].name()
        );
        assert!(tally.full_cpu_us > 0 && tally.full_wall_us > 0);
        std::fs::remove_file(&session).unwrap();
    }
}

#[test]
fn five_reconnections_reuse_one_session() {
    let world = World::new();
    for args in [
        &["-tls1_2", "-reconnect"][..],
        &["-tls1_2", "-no_ticket", "-reconnect"],
    ] {
        let mut server = tls_server(world.config().build().unwrap());
        let output = s_client(&mut server, args);
        assert_eq!(output.matches("New, TLSv1.2").count(), 1, "{output}");
        assert_eq!(output.matches("Reused, TLSv1.2").count(), 5, "{output}");
        let tally = server.net.listener_counters(ListenerId(0)).unwrap().tls;
        assert_eq!((tally.full_total(), tally.resumed_total()), (1, 5));
    }
}

#[test]
fn tickets_are_good_after_a_restart_and_at_another_node() {
    let world = World::new();
    for version in ["-tls1_2", "-tls1_3"] {
        let config = || world.config().tickets(keys(7));
        let mut first = tls_server(config().build().unwrap());
        let mut next = tls_server(config().build().unwrap());
        let [one, two] = world.twice(&[version], &mut first, Some(&mut next));
        assert!(one.contains("New, ") && two.contains("Reused, "), "{two}");
        // Another secret, and keys that ended with their process.
        for stranger in [world.config().tickets(keys(8)), world.config()] {
            let mut first = tls_server(config().build().unwrap());
            let mut next = tls_server(stranger.build().unwrap());
            let [_, two] = world.twice(&[version], &mut first, Some(&mut next));
            assert!(two.contains("New, "), "{two}");
        }
    }
}

#[test]
fn a_cache_serves_all_who_share_it() {
    let world = World::new();
    let cache = SessionCache::new(100);
    let config = || world.config().session_cache(cache.clone());
    let mut first = tls_server(config().build().unwrap());
    let mut next = tls_server(config().build().unwrap());
    let [_, two] = world.twice(&["-tls1_2", "-no_ticket"], &mut first, Some(&mut next));
    assert!(two.contains("Reused, "), "{two}");
    assert!(!cache.is_empty());
}

#[test]
fn a_session_of_one_policy_or_scope_is_nothing_in_another() {
    let world = World::new();
    let root = world.ca.root_pem();
    let cache = SessionCache::new(100);
    let config = || world.config().tickets(keys(7)).session_cache(cache.clone());
    let asks = |auth| {
        config()
            .client_auth(auth)
            .roots_pem(&[root.as_bytes()])
            .unwrap()
    };
    for args in [&["-tls1_2"][..], &["-tls1_2", "-no_ticket"], &["-tls1_3"]] {
        for other in [config().scope("inside"), asks(ClientAuth::Optional)] {
            let mut first = tls_server(config().build().unwrap());
            let mut next = tls_server(other.build().unwrap());
            let [_, two] = world.twice(args, &mut first, Some(&mut next));
            assert!(two.contains("New, "), "{args:?}: {two}");
        }
    }
}

#[test]
fn sessions_outlive_a_new_certificate() {
    let world = World::new();
    for version in ["-tls1_2", "-tls1_3"] {
        let session = world.dir.path("session.pem");
        let tls = std::sync::Arc::new(world.config().build().unwrap());
        let mut server = crate::common::tls_server_with(
            std::sync::Arc::clone(&tls),
            sip_tls::HandshakeConfig::default(),
        );
        s_client(&mut server, &[version, "-sess_out", &session]);
        let (chain, key) = world.ca.issue(&["example.com"]);
        let fresh = ServerTlsConfig::new().pair_pem(chain.as_bytes(), key.as_bytes());
        tls.reload(fresh.unwrap()).unwrap();
        let two = s_client(&mut server, &[version, "-sess_in", &session]);
        assert!(two.contains("Reused, "), "{two}");
    }
}

#[test]
fn tickets_do_not_wait_for_a_client_that_has_asked_nothing() {
    // Without TCP_NODELAY its request waits for the acknowledgement of its last
    // flight, and that goes out with the tickets.
    let world = World::new();
    let mut server = tls_server(world.config().build().unwrap());
    let addr = server.addr().to_string();
    let mut client = Openssl::start(&["s_client", "-connect", &addr, "-tls1_3"]);
    server.until(|seen| matches!(seen, Seen::Accepted(_)).then_some(()));
    server.net.flush();
    assert!(!server.net.has_unsent());
    assert_eq!(server.net.counters().tls.messages_in, 0);
    client.finish();
}
