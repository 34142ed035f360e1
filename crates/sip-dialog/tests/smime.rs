//! Calls and messages whose bodies S/MIME protects (RFC 3261 23).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use std::sync::Arc;

use crate::common::{DELAY_MS, Wire};
use sip_dialog::{AgentKey, CallKey, Cause, Event};
use sip_msg::{Method, Transport};
use smime::make::{Authority, Key, Kind};
use smime::{BodySecurity, Identity, Keyring, OpenError, Protection, SealError, Transfer, Trust};

const NOW_UNIX_S: u64 = 1_800_000_000;
const BOB: &str = "sip:bob@example.org";

struct World {
    wire: Wire,
    alice: AgentKey,
    bob: AgentKey,
    sender: BodySecurity,
    recipient: BodySecurity,
}

fn identity(authority: &Authority, kind: Kind, address: &str) -> Arc<Identity> {
    let key = Key::new(kind).unwrap();
    Arc::new(authority.identity(&key, &[address]).unwrap())
}

impl World {
    /// Alice at end 0 and Bob at end 1, each with a certificate.
    fn new(kind: Kind, protection: Protection) -> Self {
        let authority = Authority::make().unwrap();
        let bob = identity(&authority, kind, BOB);
        let mut keyring = Keyring::default();
        assert!(keyring.add(&Arc::new(bob.certificate().clone())));
        let sender = BodySecurity {
            protection: Some(protection),
            identity: Some(identity(&authority, kind, "sip:alice@example.org")),
            keyring: Arc::new(keyring),
            ..BodySecurity::default()
        };
        let recipient = BodySecurity {
            decrypts: vec![bob],
            trust: Arc::new(Trust::from_pem(authority.pem().as_bytes()).unwrap()),
            ..BodySecurity::default()
        };
        let mut wire = Wire::new(Transport::Tcp, 2, |_| {});
        let now_ms = wire.now_ms;
        for end in &mut wire.ends {
            end.agents.set_wall_clock(now_ms, NOW_UNIX_S);
        }
        let alice = wire.add(0, "alice", 5061);
        let bob = wire.add(1, "bob", 5060);
        let mut this = Self {
            wire,
            alice,
            bob,
            sender,
            recipient,
        };
        this.secure();
        this
    }

    /// Gives both what they have.
    fn secure(&mut self) {
        let sender = Arc::new(self.sender.clone());
        let recipient = Arc::new(self.recipient.clone());
        let [alice, bob] = &mut self.wire.ends[..] else {
            panic!("there are two");
        };
        alice.agents.secure_bodies(self.alice, Some(sender));
        bob.agents.secure_bodies(self.bob, Some(recipient));
    }

    fn call(&mut self) -> Option<CallKey> {
        let alice = self.alice;
        self.wire.act(0, |agents, now_ms, out| {
            agents.invite(now_ms, alice, BOB, None, out)
        })
    }

    /// Calls, and is refused for the body.
    fn refused(&mut self) -> (OpenError, u16) {
        let call = self.call().unwrap();
        self.wire.run_for(3 * DELAY_MS);
        let events = self.wire.take_events(1);
        let [
            Event::BodyRefused {
                method: Method::Invite,
                error,
                ..
            },
        ] = events[..]
        else {
            panic!("{events:?}");
        };
        let events = self.wire.take_events(0);
        let [
            Event::Failed {
                call: failed,
                cause: Cause::Status(status),
            },
        ] = events[..]
        else {
            panic!("{events:?}");
        };
        assert_eq!(failed, call);
        assert!(self.wire.ends[1].agents.counters().bodies_refused > 0);
        (error, status)
    }

    fn last_response(&self) -> &str {
        let responses = self.wire.sent.iter().rev().map(|sent| sent.2.as_str());
        responses
            .filter(|text| text.starts_with("SIP/2.0 "))
            .find(|text| !text.starts_with("SIP/2.0 1"))
            .unwrap()
    }
}

#[test]
fn calls_are_protected_in_every_way_and_opened() {
    for kind in [Kind::P256, Kind::Rsa2048] {
        for protection in Protection::ALL {
            for transfer in [Transfer::Binary, Transfer::Base64] {
                let name = format!("{} {} {transfer:?}", kind.name(), protection.name());
                let mut world = World::new(kind, protection);
                world.sender.transfer = transfer;
                world.secure();
                let calling = world.call().unwrap();
                world.wire.run_for(DELAY_MS);
                let events = world.wire.take_events(1);
                let [Event::Incoming { call, agent }] = events[..] else {
                    panic!("{name}: {events:?}");
                };
                assert_eq!(agent, world.bob);
                let opened = world.wire.ends[1].agents.opened(call).unwrap();
                assert_eq!(opened.content_type, b"application/sdp", "{name}");
                assert!(opened.body.starts_with(b"v=0\r\n"), "{name}");
                assert_eq!(opened.was_encrypted, protection.encrypts(), "{name}");
                assert_eq!(opened.signer.is_some(), protection.signs(), "{name}");
                let invite = &world.wire.sent[0].2;
                assert_eq!(invite.contains("m=audio"), !protection.encrypts(), "{name}");
                // RFC 3261 23.3: "the value of the "handling" parameter SHOULD be "required.""
                let disposition = invite
                    .lines()
                    .find(|line| line.starts_with("Content-Disposition:"))
                    .unwrap();
                assert!(disposition.ends_with("handling=required"), "{disposition}");
                assert!(world.wire.act(1, |agents, now_ms, out| {
                    agents.answer(now_ms, call, None, out)
                }));
                world.wire.run_for(3 * DELAY_MS);
                assert_eq!(
                    world.wire.take_events(0),
                    [Event::Answered { call: calling }],
                    "{name}"
                );
                assert!(world.wire.act(0, |agents, now_ms, out| {
                    agents.hang_up(now_ms, calling, out)
                }));
                world.wire.run_for(3 * DELAY_MS);
                assert_eq!(world.wire.ends[1].agents.counters().bodies_opened, 1);
                world.wire.assert_empty();
            }
        }
    }
}

#[test]
fn a_body_that_changed_on_its_way_is_refused() {
    let mut world = World::new(Kind::P256, Protection::Sign);
    let call = world.call().unwrap();
    let packet = world.wire.packets.last_mut().unwrap();
    let at = packet.bytes.windows(7).position(|text| text == b"m=audio");
    packet.bytes[at.unwrap()] = b'n';
    world.wire.run_for(3 * DELAY_MS);
    let events = world.wire.take_events(1);
    let [Event::BodyRefused { error, .. }] = events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(error, OpenError::BadSignature);
    let cause = Cause::Status(403);
    assert_eq!(world.wire.take_events(0), [Event::Failed { call, cause }]);
    assert!(
        world
            .last_response()
            .contains("Warning: 399 signet \"the signature")
    );
}

#[test]
fn a_body_for_another_key_is_undecipherable() {
    let mut world = World::new(Kind::P256, Protection::Encrypt);
    world.recipient.decrypts.clear();
    world.secure();
    // RFC 3261 23.2: "If a UA receives an S/MIME body that has been encrypted with a public key
    // unknown to the recipient, it MUST reject the request with a 493 (Undecipherable) response."
    assert_eq!(world.refused(), (OpenError::NotForUs, 493));
    assert!(
        world
            .last_response()
            .starts_with("SIP/2.0 493 Undecipherable\r\n")
    );
}

#[test]
fn who_signs_is_whom_from_names() {
    let mut world = World::new(Kind::P256, Protection::Sign);
    let other = Authority::make().unwrap();
    world.sender.identity = Some(identity(&other, Kind::P256, "sip:alice@example.org"));
    world.secure();
    assert_eq!(world.refused(), (OpenError::Untrusted, 403));
    let mut world = World::new(Kind::P256, Protection::Sign);
    world.recipient.trust = Arc::new(Trust::from_pem(other.pem().as_bytes()).unwrap());
    world.sender.identity = Some(identity(&other, Kind::P256, "sip:mallory@example.org"));
    world.secure();
    assert_eq!(world.refused(), (OpenError::WrongSigner, 403));
}

#[test]
fn a_body_in_the_clear_is_refused_where_a_signature_is_asked_for() {
    let mut world = World::new(Kind::P256, Protection::Sign);
    world.sender.protection = None;
    world.secure();
    assert!(world.call().is_some());
    world.wire.run_for(3 * DELAY_MS);
    let events = world.wire.take_events(1);
    assert!(matches!(events[..], [Event::Incoming { .. }]), "{events:?}");
    world.wire.take_events(0);
    world.recipient.wants_signature = true;
    world.secure();
    assert_eq!(world.refused(), (OpenError::NotSigned, 403));
}

#[test]
fn an_agent_without_smime_understands_none_of_it() {
    let mut world = World::new(Kind::P256, Protection::Sign);
    let bob = world.bob;
    world.wire.ends[1].agents.secure_bodies(bob, None);
    let call = world.call().unwrap();
    world.wire.run_for(3 * DELAY_MS);
    // RFC 3261 23.2: "MUST reject the request with a 415 Unsupported Media Type response if the MIME
    // type is not understood"
    let cause = Cause::Status(415);
    assert_eq!(world.wire.take_events(0), [Event::Failed { call, cause }]);
    assert!(
        world
            .last_response()
            .contains("Accept: application/sdp\r\n")
    );
}

#[test]
fn nothing_is_sent_in_the_clear_that_is_to_be_encrypted() {
    let mut world = World::new(Kind::P256, Protection::Encrypt);
    world.sender.keyring = Arc::default();
    world.secure();
    assert_eq!(world.call(), None);
    let alice = world.alice;
    let message = world.wire.act(0, |agents, now_ms, out| {
        agents.message(now_ms, alice, BOB, b"text/plain", b"hello", out)
    });
    assert_eq!(message, None);
    assert!(world.wire.sent.is_empty());
    let agents = &world.wire.ends[0].agents;
    let missing = SealError::NoRecipient(BOB.to_owned());
    assert_eq!(agents.seal_error(), Some(&missing));
    assert_eq!(agents.counters().bodies_unsealed, 2);
    world.wire.assert_empty();
}

#[test]
fn messages_are_protected_too_and_options_say_what_is_understood() {
    let mut world = World::new(Kind::P256, Protection::EncryptThenSign);
    let alice = world.alice;
    world.wire.act(0, |agents, now_ms, out| {
        agents
            .message(now_ms, alice, BOB, b"text/plain", b"hello", out)
            .unwrap()
    });
    world.wire.run_for(3 * DELAY_MS);
    assert!(!world.wire.sent[0].2.contains("hello"));
    let events = world.wire.take_events(1);
    assert!(
        matches!(
            events[..],
            [Event::Received {
                method: Method::Message,
                ..
            }]
        ),
        "{events:?}"
    );
    assert_eq!(world.wire.ends[1].agents.counters().bodies_opened, 1);
    world.recipient.decrypts.clear();
    world.secure();
    world.wire.act(0, |agents, now_ms, out| {
        agents
            .message(now_ms, alice, BOB, b"text/plain", b"hello", out)
            .unwrap()
    });
    world.wire.run_for(3 * DELAY_MS);
    assert!(world.last_response().starts_with("SIP/2.0 493 "));
    world.wire.act(0, |agents, now_ms, out| {
        agents.options(now_ms, alice, BOB, out).unwrap()
    });
    world.wire.run_for(3 * DELAY_MS);
    let accept = "Accept: application/sdp, multipart/signed, application/pkcs7-mime";
    assert!(world.last_response().contains(accept));
    world.wire.assert_empty();
}

#[test]
fn a_challenged_call_bears_the_same_body_again() {
    let mut world = World::new(Kind::P256, Protection::EncryptThenSign);
    // Nobody is at this port but the script.
    let carol = world.wire.add(0, "carol", 5070);
    let security = Arc::new(world.sender.clone());
    world.wire.ends[0]
        .agents
        .secure_bodies(carol, Some(security));
    world.wire.act(0, |agents, now_ms, out| {
        agents.invite(now_ms, carol, BOB, None, out).unwrap()
    });
    let first = world.wire.expect(Method::Invite);
    let challenge = "WWW-Authenticate: Digest realm=\"example.org\", nonce=\"n1\", qop=\"auth\", algorithm=SHA-256";
    world.wire.respond(0, 5070, &first, 401, "t1", &[challenge]);
    assert_eq!(world.wire.expect(Method::Ack).body(), b"");
    let second = world.wire.expect(Method::Invite);
    assert_eq!(first.body(), second.body());
    assert!(!first.body().is_empty());
}
