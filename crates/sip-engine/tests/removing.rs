//! Contacts that the operator removes: stored before that is said, in order with the
//! REGISTERs of the same user.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use crate::common::*;
use sip_auth::{Attempt, ClientAuth, Reply, RequestParts};
use sip_engine::registrar::Removal;
use sip_engine::settings::{AuthSettings, Settings};
use sip_engine::{Effect, ParkId};
use sip_msg::Transport;

const BOB: &str = "sip:bob@example.org";
const UDP: Transport = Transport::Udp;

fn remove(bed: &mut Bed, order: u64, contact: Option<&str>) -> Vec<Sent> {
    let removal = Removal {
        order,
        aor: BOB.as_bytes().into(),
        contact: contact.map(|contact| contact.as_bytes().into()),
    };
    bed.act(|shard, now, out| shard.remove_bindings(now, removal, out))
}

/// The next change that the store is to make.
fn change(bed: &mut Bed) -> ParkId {
    match bed.effects.remove(0) {
        Effect::SaveBindings { park, .. } => park,
        other => panic!("no change: {other:?}"),
    }
}

fn saved(bed: &mut Bed, park: ParkId, answer: Result<(), ()>) -> Vec<Sent> {
    bed.act(|shard, now, out| shard.handle_saved(now, park, answer, out))
}

/// What came of orders.
fn outcomes(bed: &mut Bed) -> Vec<(u64, Result<usize, ()>)> {
    let effects = bed.effects.drain(..);
    let outcome = |effect| match effect {
        Effect::Removed { order, removed } => (order, removed),
        other => panic!("no outcome: {other:?}"),
    };
    effects.map(outcome).collect()
}

fn bound() -> Bed {
    let mut bed = Bed::new(settings());
    bed.register(BOB, "sip:bob@203.0.113.1", None);
    bed.register(BOB, "sip:bob@203.0.113.2;x=y", None);
    bed.register("sip:carol@example.org", "sip:carol@203.0.113.3", None);
    bed
}

fn register(call_id: &str) -> String {
    let mut register = request("REGISTER", "sip:example.org", UDP);
    register.from = "<sip:bob@example.org>;tag=b".into();
    register.call_id = call_id.into();
    register.text()
}

#[test]
fn contacts_are_gone_when_the_store_has_said_so() {
    let mut bed = bound();
    assert!(remove(&mut bed, 7, None).is_empty());
    let park = change(&mut bed);
    assert_eq!(bed.location.bindings(), 3, "not before it is durable");
    assert!(bed.effects.is_empty());
    saved(&mut bed, park, Ok(()));
    assert_eq!(outcomes(&mut bed), [(7, Ok(2))]);
    assert_eq!((bed.location.aors(), bed.location.bindings()), (1, 1));
    // Nobody's phone rings for who comes after him.
    let sent = bed.receive(&alice(UDP), &request("INVITE", BOB, UDP).text());
    assert_eq!(kinds(&sent), ["404"]);
    remove(&mut bed, 8, None);
    assert_eq!(outcomes(&mut bed), [(8, Ok(0))]);
}

#[test]
fn one_contact_is_known_by_its_uri() {
    let mut bed = bound();
    // RFC 3261 19.1.4: an escaped letter is the letter.
    remove(&mut bed, 1, Some("sip:%62ob@203.0.113.2;x=y"));
    let park = change(&mut bed);
    saved(&mut bed, park, Ok(()));
    assert_eq!(outcomes(&mut bed), [(1, Ok(1))]);
    remove(&mut bed, 2, Some("sip:bob@203.0.113.9"));
    assert_eq!(outcomes(&mut bed), [(2, Ok(0))]);
    assert_eq!(bed.location.bindings(), 2);
}

#[test]
fn what_the_store_did_not_take_stays_and_is_told() {
    let mut bed = bound();
    remove(&mut bed, 1, None);
    let park = change(&mut bed);
    saved(&mut bed, park, Err(()));
    assert_eq!(outcomes(&mut bed), [(1, Err(()))]);
    assert_eq!(bed.location.bindings(), 3);
    // One that takes too long is told too, and counts when it is done after all.
    remove(&mut bed, 2, None);
    let park = change(&mut bed);
    bed.wait(settings().registrar.save_timeout_ms + 1);
    assert_eq!(outcomes(&mut bed), [(2, Err(()))]);
    saved(&mut bed, park, Ok(()));
    assert!(outcomes(&mut bed).is_empty());
    assert_eq!(bed.location.bindings(), 1);
}

// RFC 3261 10.3: "REGISTER requests MUST be processed by a registrar in the order that they
// are received."
#[test]
fn an_order_waits_its_turn_among_registers() {
    let mut bed = Bed::new(settings());
    let bob = alice(UDP);
    assert!(bed.receive(&bob, &register("first")).is_empty());
    let first = change(&mut bed);
    remove(&mut bed, 1, None);
    assert!(bed.effects.is_empty(), "it waits for the one before it");
    assert!(bed.receive(&bob, &register("second")).is_empty());
    let sent = saved(&mut bed, first, Ok(()));
    assert_eq!(kinds(&sent), ["200"]);
    assert_eq!(bed.location.bindings(), 1);
    let order = change(&mut bed);
    saved(&mut bed, order, Ok(()));
    let second = bed
        .effects
        .iter()
        .position(|of| matches!(of, Effect::SaveBindings { .. }));
    let Effect::SaveBindings { park, .. } = bed.effects.remove(second.unwrap()) else {
        panic!();
    };
    assert_eq!(outcomes(&mut bed), [(1, Ok(1))]);
    assert_eq!(bed.location.bindings(), 0);
    assert_eq!(kinds(&saved(&mut bed, park, Ok(()))), ["200"]);
    assert_eq!(
        bed.location.bindings(),
        1,
        "he has registered after the order"
    );
    assert_eq!(bed.shard.in_flight(), 2, "nothing but transactions");
}

#[test]
fn a_register_whose_password_was_looked_up_before_is_looked_up_again() {
    let mut bed = Bed::new(Settings {
        authenticate: Some(AuthSettings::default()),
        ..settings()
    });
    let bob = alice(UDP);
    let challenge = only(bed.receive(&bob, &register("c")));
    assert_eq!(challenge.status(), 401);
    let mut client = ClientAuth::new();
    client.add("example.org", "bob", "bob");
    let mut attempt = Attempt::default();
    client
        .handle_challenge(&mut attempt, &challenge.message)
        .unwrap();
    let mut line = Vec::new();
    let parts = RequestParts {
        method: b"REGISTER",
        uri: b"sip:example.org",
        body: b"",
    };
    client.write_credentials(&mut attempt, parts, 1, &mut line);
    let credentials = std::str::from_utf8(&line).unwrap();
    let signed = register("c").replace("CSeq: 1 ", &format!("{credentials}CSeq: 2 "));
    assert!(bed.receive(&bob, &signed).is_empty());
    let question = |bed: &mut Bed| match bed.effects.remove(0) {
        Effect::FindCredential { park, question, .. } => (park, question),
        other => panic!("no question: {other:?}"),
    };
    let (before, old) = question(&mut bed);
    remove(&mut bed, 1, None);
    let (after, _) = question(&mut bed);
    assert_eq!(outcomes(&mut bed), [(1, Ok(0))]);
    // What the store said of the user who was removed comes too late.
    let answer = own_name(&old);
    let sent = bed.act(|shard, now, out| shard.handle_credential(now, before, Ok(answer), out));
    assert!(sent.is_empty() && bed.effects.is_empty());
    let sent = bed.act(|shard, now, out| {
        shard.handle_credential(now, after, Ok(Reply::Unknown), out);
    });
    assert_eq!(kinds(&sent), ["401"]);
    assert_eq!(bed.location.bindings(), 0);
}
