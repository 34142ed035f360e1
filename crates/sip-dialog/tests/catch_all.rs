//! The agent that takes what is for nobody else, and a registrar that keeps
//! nothing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use crate::common::Wire;
use sip_dialog::Event;
use sip_msg::{ListenerId, Method, Transport};

fn peer(is_registrar: bool) -> Wire {
    let mut wire = Wire::new(Transport::Udp, 2, |config| {
        config.is_registrar = is_registrar
    });
    wire.add(0, "alice", 5061);
    let bob = wire.add(1, "bob", 5060);
    let anybody = wire.add(1, "anybody", 5060);
    wire.ends[1].agents.set_catch_all(ListenerId(0), anybody);
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

#[test]
fn each_contact_is_bound_for_the_time_that_it_asks_for_itself() {
    // RFC 3261 10.3: "If the field value has an "expires" parameter, that value MUST be taken as the
    // requested expiration."
    for (contacts, expires_s, bound) in [
        (
            "<sip:c@h:1> ; expires = 60",
            600,
            vec!["<sip:c@h:1> ; expires = 60"],
        ),
        (
            "<sip:c@h:1;x=y>, <sip:c@h:2>;expires=0",
            600,
            vec!["<sip:c@h:1;x=y>;expires=600"],
        ),
        (
            "<sip:c@h:1>;expires=60, <sip:c@h:2>",
            0,
            vec!["<sip:c@h:1>;expires=60"],
        ),
        ("*", 0, vec![]),
    ] {
        let mut wire = peer(true);
        let register = format!(
            "REGISTER sip:example.org SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1:5099;branch=z9hG4bKr\r\n\
             Max-Forwards: 70\r\nFrom: <sip:c@example.org>;tag=c\r\nTo: <sip:c@example.org>\r\n\
             Call-ID: r\r\nCSeq: 1 REGISTER\r\nContact: {contacts}\r\nExpires: {expires_s}\r\n\
             Content-Length: 0\r\n\r\n"
        );
        wire.inject(1, 5099, &register);
        let (_, _, answer) = &wire.sent[0];
        let lines = answer.lines();
        let found: Vec<&str> = lines.filter_map(|l| l.strip_prefix("Contact: ")).collect();
        assert_eq!(found, bound, "{answer}");
    }
}

#[test]
fn every_request_goes_to_the_proxy_where_that_is_asked_for() {
    for always_proxy in [false, true] {
        let mut wire = Wire::new(Transport::Udp, 2, |config| {
            config.always_proxy = always_proxy
        });
        let alice = wire.add(0, "alice", 5061);
        let call = wire.act(0, |agents, now_ms, out| {
            agents
                .invite(now_ms, alice, "sip:bob@example.org", None, out)
                .unwrap()
        });
        let invite = wire.sent[0].2.clone();
        let branch = invite
            .split("branch=")
            .nth(1)
            .unwrap()
            .split(';')
            .next()
            .unwrap();
        let line = |name: &str| {
            let start = format!("{name}: ");
            let line = invite
                .lines()
                .find(|line| line.starts_with(&start))
                .unwrap();
            format!("{line}\r\n")
        };
        let answer = format!(
            "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 192.0.2.1:5060;branch={branch}\r\n{}\
             To: <sip:bob@example.org>;tag=b\r\n{}{}Contact: <sip:bob@192.0.2.1:5099>\r\nContent-Length: 0\r\n\r\n",
            line("From"),
            line("Call-ID"),
            line("CSeq")
        );
        wire.sent.clear();
        wire.packets.clear();
        wire.inject(0, 5061, &answer);
        wire.act(0, |agents, now_ms, out| {
            assert!(agents.hang_up(now_ms, call, out))
        });
        let ways: Vec<u16> = wire.packets.iter().map(|packet| packet.to.port()).collect();
        assert_eq!(
            ways,
            if always_proxy {
                [5061, 5061]
            } else {
                [5099, 5099]
            }
        );
        assert!(
            wire.sent
                .iter()
                .all(|sent| sent.2.contains(" sip:bob@192.0.2.1:5099 SIP/2.0"))
        );
    }
}

#[test]
fn what_begins_a_dialog_goes_to_the_proxy() {
    let mut wire = Wire::new(Transport::Udp, 2, |_| {});
    let alice = wire.add(0, "alice", 5061);
    wire.act(0, |agents, now_ms, out| {
        agents
            .invite(now_ms, alice, "sip:bob@192.0.2.7:5077", None, out)
            .unwrap()
    });
    let ways: Vec<u16> = wire.packets.iter().map(|packet| packet.to.port()).collect();
    assert_eq!(ways, [5061]);
}
