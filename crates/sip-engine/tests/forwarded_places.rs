//! A call that is forwarded has one place among the calls of whoever forwards it, at however many
//! phones it rings.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use crate::house::*;
use sip_engine::location::Binding;
use sip_engine::refusal::Reason;

const NUMBER: &str = "sip:030123@example.org";

/// Nobody has a place, and nothing is waited for.
#[track_caller]
fn nothing_is_left(house: &House) {
    assert_eq!(house.bed.rates.calls().owners(), 0);
    assert_eq!(house.bed.shard.open_call_records(), 0);
}

/// Alice may have so many calls, and forwards all of hers to Bob, who has two phones.
fn house_of_two_phones(calls_max: u32, qs: [u16; 2]) -> House {
    let book = book().person("alice", |person| {
        person.calls_max = Some(calls_max);
        person.forwards.always = to("sip:bob@example.org");
    });
    let mut house = House::new(book);
    for (host, q) in (12..).zip(qs) {
        let contact = format!("sip:bob@203.0.113.{host}:5060");
        let change = |binding: &mut Binding| binding.q = q;
        (house.bed).register_with("sip:bob@example.org", &contact, None, change);
    }
    house
}

#[test]
fn a_forwarded_call_has_one_place_however_many_phones_it_rings_at() {
    for transport in TRANSPORTS {
        let mut house = house_of_two_phones(2, [1_000, 1_000]);
        let (invite, sent) = house.call_over(transport, "carol", "sip:alice@example.org");
        assert_eq!(copies(&sent).len(), 2, "{transport:?}");
        assert_eq!(house.counted("alice"), 1);
        // So she has one for a call of her own, and none for a third.
        let own = house.call("alice", NUMBER);
        assert_eq!(copies(&own).len(), 1);
        assert_eq!(status(house.call("dave", "sip:alice@example.org")), 486);
        house.saw(Reason::UserCallsMax);
        house.answer(&own[0], 486);
        assert_eq!(house.counted("alice"), 1);
        // It is the call's until that is over, whatever becomes of the other phone.
        house.answer(&sent[0], 180);
        house.answer(&sent[1], 180);
        let answered = house.answer(&sent[0], 200);
        assert_eq!(kinds(&answered), ["200", "CANCEL"]);
        let ok = &answered[0];
        house.answer(&sent[1], 487);
        assert_eq!(house.counted("alice"), 1);
        let bye = within("BYE", &invite, ok, 2);
        let bye = only(house.bed.receive(&alice(transport), &bye.text()));
        house.answer(&bye, 200);
        nothing_is_left(&house);
    }
}

#[test]
fn the_one_place_of_a_forwarded_call_comes_back_with_the_last_phone() {
    // One after the other has refused.
    let mut house = house_of_two_phones(1, [1_000, 1_000]);
    let sent = house.call("carol", "sip:alice@example.org");
    assert_eq!(copies(&sent).len(), 2);
    assert!(house.answer(&sent[0], 486).is_empty());
    assert_eq!(house.counted("alice"), 1, "one rings");
    assert_eq!(status(house.answer(&sent[1], 486)), 486);
    nothing_is_left(&house);
    assert_eq!(
        copies(&house.call("carol", "sip:alice@example.org")).len(),
        2
    );
    // The second comes once the first has rung too long, and has not said yet that it stopped.
    let mut house = house_of_two_phones(1, [1_000, 500]);
    let first = only(house.call("carol", "sip:alice@example.org"));
    house.answer(&first, 180);
    let mut next = house.bed.wait(20_100);
    next.retain(is_copy);
    let second = only(next);
    assert_eq!(house.counted("alice"), 1);
    assert!(house.answer(&first, 487).is_empty());
    assert_eq!(house.counted("alice"), 1, "the second rings");
    assert_eq!(status(house.answer(&second, 486)), 486);
    nothing_is_left(&house);
}

#[test]
fn a_forwarded_call_that_two_phones_answer_has_one_place_and_gives_it_back_once() {
    let mut house = house_of_two_phones(1, [1_000, 1_000]);
    let (invite, sent) = house.call_over(UDP, "carol", "sip:alice@example.org");
    assert_eq!(copies(&sent).len(), 2);
    let mut oks = Vec::new();
    for (copy, tag) in sent.iter().zip(["b", "c"]) {
        let contact = format!("Contact: <sip:x@{}>\r\n", copy.to.remote);
        let text = response(copy, 200, tag, &contact);
        let mut back = house.bed.receive(&answering(copy), &text);
        back.retain(|sent| sent.status() == 200);
        oks.push((only(back), tag));
        assert_eq!(house.counted("alice"), 1, "{tag}");
    }
    for (ok, tag) in &oks {
        let mut bye = within("BYE", &invite, ok, 2);
        bye.to = format!("{};tag={tag}", invite.to);
        let bye = only(house.bed.receive(&alice(UDP), &bye.text()));
        house.answer(&bye, 200);
    }
    nothing_is_left(&house);
}

#[test]
fn who_calls_himself_and_forwards_that_has_one_call() {
    let book = book().person("alice", |person| {
        person.calls_max = Some(1);
        person.forwards.always = to(NUMBER);
    });
    let mut house = House::new(book);
    let (invite, sent) = house.call_over(UDP, "alice", "sip:alice@example.org");
    assert_eq!(copy(&sent).0, GATEWAY);
    assert_eq!(house.counted("alice"), 1);
    assert_eq!(status(house.call("carol", "sip:alice@example.org")), 486);
    let ok = only(house.answer(&sent[0], 200));
    assert_eq!(house.counted("alice"), 1);
    let bye = within("BYE", &invite, &ok, 2);
    let bye = only(house.bed.receive(&alice(UDP), &bye.text()));
    house.answer(&bye, 200);
    nothing_is_left(&house);
}
