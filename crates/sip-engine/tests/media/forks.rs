//! Calls with several targets: each has a branch of its own at the engine.

use sip_engine::Settings;
use sip_engine::routes::{Gateway, GatewayGroup};
use sip_engine::settings::MediaUse;
use sip_media::Command;

use super::bed::*;
use crate::common::*;

fn contact(n: u8) -> String {
    format!("sip:bob@203.0.113.{n}:5070")
}

fn to_bob() -> String {
    invite(UDP).replace(URI, "sip:bob@example.org")
}

fn with_contacts(qs: &[(u8, u16)]) -> Bed {
    let mut bed = Bed::new(Settings {
        media: Some(std::sync::Arc::new(media(MediaUse::Always))),
        ..settings()
    });
    for (n, q) in qs {
        bed.register_with("sip:bob@example.org", &contact(*n), None, |b| b.q = *q);
    }
    bed
}

#[test]
fn each_target_has_its_own_branch_and_who_loses_is_ended() {
    let mut bed = with_contacts(&[(1, 1000), (2, 1000), (3, 1000)]);
    bed.receive(&alice(UDP), &to_bob());
    let offers = all_asked(&mut bed);
    assert_eq!(offers.len(), 3);
    let branches: Vec<_> = offers.iter().map(|of| of.ask.branch.clone()).collect();
    assert!(branches[0] != branches[1] && branches[1] != branches[2]);
    // They are answered in another order than they were asked in.
    let mut copies = Vec::new();
    for (nth, offer) in offers.into_iter().enumerate().rev() {
        let copy = only(give(&mut bed, offer, &led(&format!("for {nth}"))));
        assert_says(&copy, &led(&format!("for {nth}")));
        copies.push(copy);
    }
    copies.reverse();
    // The second answers; a third has not been heard of, and the first rings.
    let ringing = with_sdp(&response(&copies[0], 183, "b0", ""), &sdp("zero"));
    bed.receive(&answering(&copies[0]), &ringing);
    let early = asked(&mut bed);
    assert_eq!(early.ask.branch, branches[0]);
    respond_as(&mut bed, &copies[1], 200, "b1", &sdp("one"));
    let of_answer = asked(&mut bed);
    assert_eq!(of_answer.ask.branch, branches[1]);
    let sent = give(&mut bed, of_answer, &led("one"));
    assert_eq!(kinds(&sent)[0], "200");
    assert_says(&sent[0], &led("one"));
    assert!(kinds(&sent).contains(&"CANCEL".to_owned()));
    let deletes = all_asked(&mut bed);
    let lost: Vec<_> = deletes.iter().map(|of| of.ask.branch.clone()).collect();
    assert!(deletes.iter().all(|of| of.command() == Command::Delete));
    assert_eq!(lost, [branches[2].clone(), branches[0].clone()]);
    // What the first said before comes too late for anybody.
    let late = give(&mut bed, early, &led("zero"));
    assert!(
        late.iter().all(|of| of.status() != 183),
        "{:?}",
        kinds(&late)
    );
}

// RFC 3261 16.7: "If no final response has been forwarded, ... any 2xx"; and those that come
// RFC 3261 16.7: "After a final response has been sent on the server transaction, the following
// responses MUST be forwarded immediately: -  Any 2xx response to an INVITE request"
#[test]
fn who_answers_when_his_branch_was_ended_is_heard_without_an_engine() {
    let mut bed = with_contacts(&[(1, 1000), (2, 1000)]);
    bed.receive(&alice(UDP), &to_bob());
    let mut copies = Vec::new();
    for offer in all_asked(&mut bed) {
        copies.push(only(give(&mut bed, offer, &led("alice"))));
    }
    respond_as(&mut bed, &copies[0], 200, "b0", &sdp("zero"));
    let of_answer = asked(&mut bed);
    give(&mut bed, of_answer, &led("zero"));
    assert_eq!(asked(&mut bed).command(), Command::Delete);
    let sent = respond_as(&mut bed, &copies[1], 200, "b1", &sdp("one"));
    assert_eq!(kinds(&sent), ["200"]);
    assert_says(&sent[0], &sdp("one"));
    assert!(all_asked(&mut bed).is_empty());
}

/// An engine that was told of the offer alone knows the branch, and no tag that a BYE has.
#[test]
fn who_answers_without_a_word_of_media_leaves_nothing_at_the_engine() {
    let mut bed = with_contacts(&[(1, 1000)]);
    bed.receive(&alice(UDP), &to_bob());
    let offer = asked(&mut bed);
    let branch = offer.ask.branch.clone();
    let copy = only(give(&mut bed, offer, &led("alice")));
    assert_eq!(kinds(&respond(&mut bed, &copy, 200, "")), ["200"]);
    let delete = asked(&mut bed);
    assert_eq!(delete.command(), Command::Delete);
    assert_eq!(delete.ask.branch, branch);

    // Whoever said it in a reliable provisional response says nothing in the 200.
    let mut bed = with_contacts(&[(1, 1000)]);
    bed.receive(&alice(UDP), &to_bob());
    let offer = asked(&mut bed);
    let copy = only(give(&mut bed, offer, &led("alice")));
    respond(&mut bed, &copy, 183, &sdp("bob"));
    let early = asked(&mut bed);
    give(&mut bed, early, &led("bob"));
    assert_eq!(kinds(&respond(&mut bed, &copy, 200, "")), ["200"]);
    assert!(all_asked(&mut bed).is_empty());
}

#[test]
fn one_target_does_not_wait_for_another() {
    let mut bed = with_contacts(&[(1, 1000), (2, 1000)]);
    bed.receive(&alice(UDP), &to_bob());
    let mut offers = all_asked(&mut bed);
    let second = offers.remove(1);
    let copy = only(give(&mut bed, second, &led("alice")));
    respond(&mut bed, &copy, 200, &sdp("bob"));
    let of_answer = asked(&mut bed);
    let sent = give(&mut bed, of_answer, &led("bob"));
    assert_says(&sent[0], &led("bob"));
    // The first is not called any more; its engine hears of that when it answers.
    assert!(give(&mut bed, offers.remove(0), &led("alice")).is_empty());
    let deletes = all_asked(&mut bed);
    assert_eq!(deletes.len(), 1);
    assert_eq!(deletes[0].command(), Command::Delete);
    bed.wait(100_000);
    assert_eq!(bed.shard.in_flight(), 0);
}

#[test]
fn where_one_offer_is_refused_the_other_targets_ring() {
    let mut bed = with_contacts(&[(1, 1000), (2, 1000)]);
    bed.receive(&alice(UDP), &to_bob());
    let mut offers = all_asked(&mut bed);
    assert!(fail(&mut bed, offers.remove(0)).is_empty());
    let copy = only(give(&mut bed, offers.remove(0), &led("alice")));
    let sent = respond(&mut bed, &copy, 486, "");
    assert_eq!(kinds(&sent), ["ACK", "486"]);
}

#[test]
fn those_with_a_lower_q_are_asked_for_when_it_is_their_turn() {
    let mut bed = with_contacts(&[(1, 1000), (2, 500)]);
    bed.receive(&alice(UDP), &to_bob());
    let first = asked(&mut bed);
    let copy = only(give(&mut bed, first, &led("alice")));
    respond(&mut bed, &copy, 486, "");
    let second = asked(&mut bed);
    assert_eq!(second.command(), Command::Offer);
    let copy = only(give(&mut bed, second, &led("alice")));
    assert_eq!(copy.uri(), contact(2));
    let sent = respond(&mut bed, &copy, 486, "");
    assert_eq!(kinds(&sent), ["ACK", "486"]);
    assert_eq!(all_asked(&mut bed).len(), 2, "both branches are ended");
}

#[test]
fn the_gateway_after_one_that_failed_gets_what_was_made_for_it() {
    let mut settings = leading(UDP);
    settings.forward = None;
    let gateways = (0..).zip([NEXT, "203.0.113.10:5070"]);
    let gateways = gateways.map(|(priority, addr)| Gateway {
        next_hop: next_hop(UDP, addr),
        priority,
        weight: 1,
    });
    settings.routes.groups.push(GatewayGroup {
        name: "trunk".into(),
        gateways: gateways.collect(),
        ..GatewayGroup::default()
    });
    settings.routes.prefixes.insert("+".into(), 0);
    let mut bed = Bed::new(settings);
    bed.receive(
        &alice(UDP),
        &invite(UDP).replace(URI, "sip:+4930@example.org"),
    );
    let offer = asked(&mut bed);
    let branch = offer.ask.branch.clone();
    let copy = only(give(&mut bed, offer, &led("alice")));
    let sent = respond(&mut bed, &copy, 503, "");
    assert_eq!(kinds(&sent), ["ACK", "INVITE"]);
    assert!(all_asked(&mut bed).is_empty());
    let copy = &sent[1];
    assert_eq!(copy.to.remote.to_string(), "203.0.113.10:5070");
    assert_says(copy, &led("alice"));
    respond(&mut bed, copy, 200, &sdp("bob"));
    let of_answer = asked(&mut bed);
    assert_eq!(of_answer.ask.branch, branch);
    assert_says(&only(give(&mut bed, of_answer, &led("bob"))), &led("bob"));
    assert!(all_asked(&mut bed).is_empty());
}
