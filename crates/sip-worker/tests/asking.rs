//! In which order a worker asks the store, and what a cache before it makes of that.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::*;
use sip_auth::{Attempt, ClientAuth, RequestParts};
use sip_msg::{ConnId, Flow, ListenerId, Message, Transport};
use sip_worker::{SocketEvent, Worker};

/// One turn, in which these come; what is sent because of them.
fn turn(worker: &mut Worker<Played>, requests: &[String]) -> Vec<Message> {
    let mut wire = Wire::default();
    assert!(worker.begin_turn(&mut wire));
    worker.wake_up(|| NOW);
    for request in requests {
        worker.handle_event(SocketEvent::Message {
            flow: Flow {
                transport: Transport::Udp,
                listener: ListenerId(0),
                local: "192.0.2.1:5060".parse().unwrap(),
                remote: "198.51.100.66:6666".parse().unwrap(),
                conn: ConnId::NONE,
            },
            bytes: request.as_bytes(),
        });
    }
    worker.end_turn(&mut wire);
    let read = |bytes: &Vec<u8>| Message::parse(bytes, &settings().limits).unwrap();
    wire.sent.iter().map(read).collect()
}

fn register(user: &str, branch: &str, more: &str) -> String {
    format!(
        "REGISTER sip:example.org SIP/2.0\r\n\
         Via: SIP/2.0/UDP 198.51.100.66:6666;branch=z9hG4bK{branch}\r\n\
         From: <sip:{user}@example.org>;tag=a\r\nTo: <sip:{user}@example.org>\r\n\
         Call-ID: {branch}\r\nCSeq: 1 REGISTER\r\nMax-Forwards: 70\r\n{more}\
         Content-Length: 0\r\n\r\n"
    )
}

/// A REGISTER with a wrong password, in answer to a challenge.
fn guess(worker: &mut Worker<Played>, user: &str, nth: usize) -> String {
    let challenge = turn(worker, &[register(user, &format!("first{nth}"), "")]);
    let mut client = ClientAuth::new();
    client.add("example.org", user, "wrong");
    let mut attempt = Attempt::default();
    client
        .handle_challenge(&mut attempt, &challenge[0])
        .unwrap();
    let parts = RequestParts {
        method: b"REGISTER",
        uri: b"sip:example.org",
        body: b"",
    };
    let mut line = Vec::new();
    client.write_credentials(&mut attempt, parts, 7, &mut line);
    let line = String::from_utf8(line).unwrap();
    register(user, &format!("second{nth}"), &line)
}

#[test]
fn requests_of_one_turn_are_asked_for_in_their_order_whoever_is_in_the_cache() {
    for names in [
        ["alice", "ghost", "bob", "carol"],
        ["ghost", "alice", "bob", "carol"],
        ["ghost", "bob", "carol", "alice"],
    ] {
        let store = Front::default();
        let mut worker = worker(store.clone());
        let guesses = names.iter().enumerate();
        let guesses = guesses.map(|(nth, name)| guess(&mut worker, name, nth));
        let guesses: Vec<String> = guesses.collect();
        assert!(store.0.borrow().is_empty());
        let sent = turn(&mut worker, &guesses);
        assert!(sent.is_empty(), "nobody is answered by a cache");
        assert_eq!(*store.0.borrow(), names);
        assert_eq!(*store.1.borrow(), names.len(), "each was looked for first");
    }
}
