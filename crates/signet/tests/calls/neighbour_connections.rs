//! Over which connections calls go to a neighbour: several that are kept, or
//! one for each call.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::HashSet;
use std::fs;

use crate::support::TestDir;
use crate::support::caller::Caller;
use crate::support::command::{Serving, text};
use crate::support::gateway::{Gateway, Habit, Record};
use sip_msg::Transport;
use sip_tls::testing::TestCa;

const METHODS: [&str; 3] = ["INVITE", "ACK", "BYE"];

/// A server whose calls to elsewhere.example go to that gateway.
fn serve(folder: &TestDir, ca: &TestCa, gateway: &Gateway, policy: &str, more: &str) -> Serving {
    let at = |name: &str| folder.path().join(name);
    fs::write(at("root.pem"), ca.root_pem()).unwrap();
    let config = format!(
        "version = 1\ndata = \"data\"\ndomains = [\"example.com\"]\nworkers = 1\n{more}\
         [[listen]]\non = \"udp:127.0.0.1:0\"\n[authentication]\nrequired = false\n\
         [[gateway_group]]\nname = \"g\"\ngateways = [{{ uri = \"{}\", {policy} }}]\n\
         [[route]]\ndomain = \"elsewhere.example\"\ngroup = \"g\"\n[tls]\ntrust = [\"root.pem\"]\n",
        gateway.uri()
    );
    fs::write(at("signet.toml"), config).unwrap();
    let config = at("signet.toml");
    Serving::start(folder.path(), &at("data"), &["--config", text(&config)])
}

/// The same with two gateways, the second for when the first fails. Timers B
/// and F are far longer than a test may take.
fn serve_two(folder: &TestDir, ca: &TestCa, gateways: [&Gateway; 2]) -> Serving {
    let policy = format!(
        "priority = 0 }}, {{ uri = \"{}\", priority = 1",
        gateways[1].uri()
    );
    let transport = gateways[0].transport.uri_name();
    let more = format!("[timers]\nt1_ms = 4000\n[[listen]]\non = \"{transport}:127.0.0.1:0\"\n");
    serve(folder, ca, gateways[0], &policy, &more)
}

fn callers(server: &Serving, count: usize) -> Vec<Caller> {
    let new = |_| Caller::new(server.at("udp"), "sip:bob@elsewhere.example");
    (0..count).map(new).collect()
}

fn is_complete(record: &Record, calls: usize) -> bool {
    record.calls.len() == calls
        && record
            .calls
            .values()
            .all(|came| came.len() == METHODS.len())
}

#[test]
fn each_call_has_a_connection_of_its_own_which_ends_with_it() {
    for (transport, mode) in [
        (Transport::Tcp, "mode = \"stateful\"\n"),
        (Transport::Tls, "mode = \"stateful\"\n"),
        (Transport::Tcp, "mode = \"stateless\"\n"),
    ] {
        let folder = TestDir::new("per-call");
        let ca = TestCa::new();
        let gateway = Gateway::start(transport, &ca, Habit::Answers);
        let server = serve(&folder, &ca, &gateway, "connection = \"per-call\"", mode);
        let mut calls = callers(&server, 8);
        for call in &mut calls {
            assert_eq!(call.invite(), 200);
            call.ack();
        }
        let up = gateway.wait_for(|record| record.calls.values().flatten().count() == 16);
        assert_eq!((up.accepted, up.connections), (8, 8), "all are up at once");
        for call in &calls {
            assert_eq!(call.bye(), 200);
        }
        let record = gateway.wait_for(|record| record.connections == 0);
        assert!(is_complete(&record, 8), "{record:#?}");
        assert_eq!(record.accepted, 8);
        let mut conns = HashSet::new();
        for came in record.calls.values() {
            let methods: Vec<&str> = came.iter().map(|(method, _)| &**method).collect();
            assert_eq!(methods, METHODS);
            let own: HashSet<_> = came.iter().map(|(_, conn)| *conn).collect();
            assert_eq!(own.len(), 1, "{came:?}");
            conns.extend(own);
        }
        assert_eq!(conns.len(), 8);
    }
}

#[test]
fn a_call_that_is_refused_gives_its_connection_back() {
    let folder = TestDir::new("per-call-busy");
    let ca = TestCa::new();
    let gateway = Gateway::start(Transport::Tcp, &ca, Habit::IsBusy);
    let server = serve(&folder, &ca, &gateway, "connection = \"per-call\"", "");
    for call in &mut callers(&server, 4) {
        assert_eq!(call.invite(), 486);
    }
    let record = gateway.wait_for(|record| record.connections == 0 && record.accepted == 4);
    for came in record.calls.values() {
        let methods: Vec<&str> = came.iter().map(|(method, _)| &**method).collect();
        assert_eq!(methods, ["INVITE", "ACK"], "the ACK came before the end");
        assert_eq!(came[0].1, came[1].1);
    }
}

#[test]
fn calls_are_spread_over_several_connections_that_are_kept() {
    for transport in [Transport::Tcp, Transport::Tls] {
        let folder = TestDir::new("several");
        let ca = TestCa::new();
        let gateway = Gateway::start(transport, &ca, Habit::Answers);
        let server = serve(&folder, &ca, &gateway, "connections = 3", "");
        for mut call in callers(&server, 40) {
            assert_eq!(call.invite(), 200);
            call.ack();
            assert_eq!(call.bye(), 200);
        }
        let record = gateway.wait_for(|record| is_complete(record, 40));
        assert_eq!((record.accepted, record.connections), (3, 3));
        for came in record.calls.values() {
            assert!(came.iter().all(|(_, conn)| *conn == came[0].1), "{came:?}");
        }
    }
}

#[test]
fn a_call_on_a_connection_that_dies_goes_to_the_next_gateway_at_once() {
    for transport in [Transport::Tcp, Transport::Tls] {
        for habit in [Habit::Closes, Habit::Resets] {
            let folder = TestDir::new("dies");
            let ca = TestCa::new();
            let first = Gateway::start(transport, &ca, habit);
            let second = Gateway::start(transport, &ca, Habit::Answers);
            let server = serve_two(&folder, &ca, [&first, &second]);
            for call in &mut callers(&server, 2) {
                assert_eq!(call.invite(), 200, "{habit:?}");
                call.ack();
                assert_eq!(call.bye(), 200);
            }
            second.wait_for(|record| is_complete(record, 2));
            assert!(!first.record().calls.is_empty());
        }
    }
}

#[test]
fn a_call_may_be_answered_over_another_connection_than_it_went_out_by() {
    let folder = TestDir::new("another");
    let ca = TestCa::new();
    let first = Gateway::start(Transport::Tcp, &ca, Habit::AnswersOverAnother);
    let second = Gateway::start(Transport::Tcp, &ca, Habit::Answers);
    let server = serve_two(&folder, &ca, [&first, &second]);
    let mut call = callers(&server, 1).remove(0);
    assert_eq!(call.invite(), 200);
    call.ack();
    first.wait_for(|record| record.calls.values().any(|came| came.len() == 2));
    assert!(second.record().calls.is_empty());
}
