//! Aliases: other names and numbers for users, for several at once, and for who is elsewhere.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use crate::house::*;
use sip_engine::numbers::Permission;
use sip_engine::refusal::Reason;

#[test]
fn an_alias_leads_to_the_phones_of_its_user_over_every_transport() {
    for transport in TRANSPORTS {
        let mut house = House::new(book().alias("reception", &[("sip:bob@example.org", 1_000)]));
        house.phone("bob", 9);
        let (_, sent) = house.call_over(transport, "alice", "sip:reception@example.org");
        let expected = (
            "203.0.113.9:5060".to_owned(),
            "sip:bob@203.0.113.9:5060".to_owned(),
        );
        assert_eq!(copy(&sent), expected, "{transport:?}");
        // Who was called stays in To.
        assert!(
            sent[0]
                .text
                .contains("\r\nTo: <sip:reception@example.org>\r\n")
        );
    }
}

#[test]
fn a_number_from_outside_is_a_users_however_it_is_written() {
    let mut house = House::new(book().alias("+4930555", &[("sip:bob@example.org", 1_000)]));
    house.phone("bob", 9);
    for uri in [
        "sip:+4930555@example.org",
        "sip:+49-30-(555)@example.org;user=phone",
        "sip:%2B4930555@example.org",
        "sip:004930555@example.org",
        "sip:030555@192.0.2.1",
        "tel:+49-30-555",
        "sip:+49030555@example.org",
    ] {
        let sent = house.peer_calls(uri, "");
        assert_eq!(copy(&sent).1, "sip:bob@203.0.113.9:5060", "{uri}");
    }
    // One digit more is another number: it goes out, because the peer may relay.
    let sent = house.peer_calls("sip:+49305551@example.org", "");
    assert_eq!(copy(&sent).0, GATEWAY);
}

#[test]
fn those_with_the_same_q_ring_together_and_the_others_after_them() {
    let targets = [
        ("sip:alice@example.org", 1_000),
        ("sip:bob@example.org", 500),
        ("sip:carol@example.org", 1_000),
        ("sip:nobody@example.org", 700),
    ];
    let mut house = House::new(book().alias("sales", &targets));
    for (user, host) in [("alice", 11), ("bob", 12), ("carol", 13)] {
        house.phone(user, host);
    }
    let sent = house.stranger_calls("sip:sales@example.org", "");
    let mut first: Vec<_> = copies(&sent).into_iter().map(|(_, uri)| uri).collect();
    first.sort();
    assert_eq!(
        first,
        ["sip:alice@203.0.113.11:5060", "sip:carol@203.0.113.13:5060"]
    );
    assert!(house.answer(&sent[0], 486).is_empty());
    let next = house.answer(&sent[1], 486);
    assert_eq!(copy(&next).1, "sip:bob@203.0.113.12:5060");
    assert_eq!(status(house.answer(&next[0], 200)), 200);
}

#[test]
fn a_member_who_is_there_twice_is_called_once() {
    let targets = [
        ("sip:alice@example.org", 1_000),
        ("sip:others@example.org", 1_000),
        ("sip:+4930@example.org", 900),
        ("sip:x@far.example", 900),
    ];
    let again = [
        ("sip:alice@example.org", 1_000),
        ("sip:x@far.example", 1_000),
    ];
    let mut house = House::new(book().alias("all", &targets).alias("others", &again));
    house.phone("alice", 11);
    let sent = house.peer_calls("sip:all@example.org", "");
    assert_eq!(copy(&sent).1, "sip:alice@203.0.113.11:5060");
}

#[test]
fn whoever_leads_in_a_circle_or_too_far_is_told_so() {
    let to = |name: &str| format!("sip:{name}@example.org");
    let mut circle = book();
    for (name, next) in [
        ("a", "b"),
        ("b", "a"),
        ("p", "q"),
        ("q", "r"),
        ("r", "s"),
        ("s", "bob"),
    ] {
        circle = circle.alias(name, &[(&to(next), 1_000)]);
    }
    circle = circle.alias("o", &[("sip:p@example.org", 1_000)]);
    // Many, each to all of them.
    let names: Vec<String> = (0..32).map(|n| format!("m{n}")).collect();
    let uris: Vec<String> = names.iter().map(|name| to(name)).collect();
    let all: Vec<(&str, u16)> = uris.iter().map(|uri| (&**uri, 1_000)).collect();
    for name in &names {
        circle = circle.alias(name, &all);
    }
    let mut house = House::new(circle);
    house.phone("bob", 9);
    assert_eq!(
        copy(&house.call("alice", &to("p"))).1,
        "sip:bob@203.0.113.9:5060"
    );
    for name in ["a", "o", "m0"] {
        assert_eq!(status(house.call("alice", &to(name))), 482, "{name}");
        house.saw(Reason::LedInCircle);
    }
}

#[test]
fn an_alias_of_nobody_who_is_there_is_not_looked_up_as_a_user() {
    let mut house = House::new(book().alias("reception", &[("sip:bob@example.org", 1_000)]));
    let refused = only(house.peer_calls("sip:reception@example.org", ""));
    assert_eq!(refused.status(), 480);
    house.saw(Reason::NotRegistered);
    assert!(
        house.bed.effects.is_empty(),
        "nobody is asked whether there is such a user"
    );
}

#[test]
fn an_alias_of_a_number_is_on_the_account_of_who_calls_it() {
    let book = book()
        .alias("doctor", &[("sip:+4930999@example.org", 1_000)])
        .permission("alice", Permission::Internal)
        .permission("bob", Permission::National);
    let mut house = House::new(book);
    let doctor = "sip:doctor@example.org";
    let sent = house.call("bob", doctor);
    assert_eq!(
        copy(&sent),
        (GATEWAY.to_owned(), format!("sip:+4930999@{GATEWAY}"))
    );
    assert_eq!(status(house.call("alice", doctor)), 403);
    house.saw(Reason::NotPermitted);
    // A stranger reaches nobody by it: neither the gateway nor a hint.
    let refused = only(house.stranger_calls(doctor, ""));
    assert!(matches!(refused.status(), 403 | 480), "{}", refused.text);
    assert_eq!(house.bed.shard.live_contexts(), 1, "bob's alone");
}

#[test]
fn an_alias_may_lead_to_another_domain_and_to_no_gateway() {
    let book = book()
        .alias("partner", &[("sip:desk@203.0.113.77:5070", 1_000)])
        .alias("trick", &[(&format!("sip:+49900@{GATEWAY}"), 1_000)])
        .permission("alice", Permission::Internal);
    let mut house = House::new(book);
    let partner = "sip:partner@example.org";
    let sent = house.call("bob", partner);
    let expected = (
        "203.0.113.77:5070".to_owned(),
        "sip:desk@203.0.113.77:5070".to_owned(),
    );
    assert_eq!(copy(&sent), expected);
    assert_eq!(status(house.call("alice", partner)), 403);
    house.saw(Reason::NotPermitted);
    let refused = only(house.stranger_calls(partner, ""));
    assert_eq!(refused.status(), 403);
    house.saw(Reason::NotRelayed);
    assert_eq!(status(house.call("bob", "sip:trick@example.org")), 403);
    house.saw(Reason::NumberBlocked);
}

#[test]
fn a_name_that_is_taken_leads_where_the_operator_says() {
    let mut house = House::new(book().alias("bob", &[("sip:carol@example.org", 1_000)]));
    house.phone("bob", 12);
    house.phone("carol", 13);
    let sent = house.call("alice", "sip:bob@example.org");
    assert_eq!(copy(&sent).1, "sip:carol@203.0.113.13:5060");
}
