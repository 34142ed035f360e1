//! The agent that takes what is for nobody else, and a registrar that keeps
//! nothing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

mod common;

use common::Wire;
use sip_dialog::Event;
use sip_msg::{Method, Transport};

fn peer(is_registrar: bool) -> Wire {
    let mut wire = Wire::new(Transport::Udp, 2, |config| {
        config.is_registrar = is_registrar
    });
    wire.add(0, "alice", 5061);
    let bob = wire.add(1, "bob", 5060);
    let anybody = wire.add(1, "anybody", 5060);
    wire.ends[1].agents.set_catch_all(Some(anybody));
    let _ = bob;
    wire
}

#[test]
fn a_call_for_nobody_rings_at_the_catch_all_and_others_at_their_own() {
    let mut wire = peer(false);
    let alice = wire.add(0, "carol", 5061);
    for (to, expected) in [
        ("sip:whoever@192.0.2.1:5061", "anybody"),
        ("sip:bob@192.0.2.1:5061", "bob"),
    ] {
        wire.ends[1].events.clear();
        wire.act(0, |agents, now_ms, out| {
            agents.invite(now_ms, alice, to, None, out).unwrap()
        });
        wire.run_for(100);
        let agent = wire.ends[1]
            .events
            .iter()
            .find_map(|(_, event)| match event {
                Event::Incoming { agent, .. } => Some(*agent),
                _ => None,
            })
            .unwrap();
        // Bob was added before the one that takes the rest.
        assert_eq!(agent.index() == 0, expected == "bob", "{to}");
    }
}

#[test]
fn a_register_is_taken_where_the_configuration_says_so() {
    for is_registrar in [false, true] {
        let mut wire = peer(is_registrar);
        let carol = wire.add(0, "carol", 5061);
        for (expires_s, granted_s) in [(600, 600), (0, 0)] {
            wire.ends[0].events.clear();
            wire.act(0, |agents, now_ms, out| {
                agents.register(now_ms, carol, expires_s, out).unwrap()
            });
            wire.run_for(100);
            let events: Vec<Event> = wire.ends[0].events.iter().map(|(_, e)| *e).collect();
            match events[..] {
                [Event::Registered { expires_s, .. }] => {
                    assert!(is_registrar);
                    assert_eq!(expires_s, granted_s);
                }
                [Event::RegisterFailed { .. }] => assert!(!is_registrar),
                _ => panic!("{events:?}"),
            }
        }
        let was_told = wire.ends[1].events.iter().any(|(_, e)| {
            matches!(
                e,
                Event::Received {
                    method: Method::Register,
                    ..
                }
            )
        });
        assert_eq!(was_told, is_registrar);
    }
}
