//! What is sent on, as another stack reads it.

use std::num::NonZeroU8;
use std::sync::{Mutex, PoisonError};

use sip_engine::routes::{Connections, NextHop};
use sip_engine::settings::Settings;
use sip_msg::Transport;

use crate::world::{Sent, World, flow, settings};
use crate::{Answer, Other, Reading, replaced};

/// What the server sends because of a message, and in the ordinary it forwards
/// it, is read by another stack as it is read by us: who calls whom, in which
/// dialog, by which way, with which body. A message that the other stack
/// refuses, or does not survive, is no disagreement.
///
/// A response is the answer to an INVITE that was forwarded, where it has
/// `BRANCH` for the branch of that. Without another parser in the environment
/// nothing but the forwarding is tried.
pub fn differential(data: &[u8]) {
    static OTHER: Mutex<Option<Other>> = Mutex::new(None);
    for sent in forwarded(data) {
        let ours = Reading::of(&sent.message);
        let mut other = OTHER.lock().unwrap_or_else(PoisonError::into_inner);
        if other.is_none() {
            *other = Other::start();
        }
        let Some(parser) = other.as_mut() else {
            continue;
        };
        match parser.read(&sent.bytes) {
            Answer::Read(theirs) => {
                let disagreements: Vec<_> = ours
                    .disagreements(&theirs)
                    .map(|name| {
                        let text = |reading: &Reading| {
                            reading
                                .get(name)
                                .unwrap_or_default()
                                .escape_ascii()
                                .to_string()
                        };
                        format!("{name}: '{}', the other '{}'", text(&ours), text(&theirs))
                    })
                    .collect();
                assert!(
                    disagreements.is_empty(),
                    "read in two ways: {disagreements:?} in\n{}",
                    sent.bytes.escape_ascii()
                );
            }
            Answer::Refused => {}
            Answer::Ended => *other = None,
        }
    }
}

/// All that is sent on because of a message.
fn forwarded(data: &[u8]) -> Vec<Sent> {
    let settings = Settings {
        authenticate: None,
        forward: Some(NextHop {
            host: "203.0.113.9".into(),
            port: Some(5060),
            transport: Some(Transport::Udp),
            connections: Connections::Kept(NonZeroU8::MIN),
        }),
        ..settings()
    };
    let mut world = World::new(settings);
    let caller = flow(Transport::Udp, ([198, 51, 100, 1], 5060).into());
    if !data.starts_with(b"SIP/") {
        return world.receive(&caller, data);
    }
    let invite = b"INVITE sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/UDP 198.51.100.1;branch=z9hG4bKa\r\n\
        Max-Forwards: 70\r\nFrom: <sip:alice@example.org>;tag=a\r\nTo: <sip:bob@example.com>\r\nCall-ID: 1\r\n\
        CSeq: 1 INVITE\r\nContact: <sip:alice@198.51.100.1>\r\nContent-Length: 0\r\n\r\n";
    let sent = world.receive(&caller, invite);
    let copy = sent.iter().find(|sent| sent.message.is_request());
    let copy = copy.expect("an INVITE is forwarded");
    let branch = copy
        .message
        .top_via()
        .map_or(Vec::new(), |via| via.branch.to_vec());
    let called = flow(Transport::Udp, ([203, 0, 113, 9], 5060).into());
    world.receive(&called, &replaced(data, b"BRANCH", &branch))
}
