//! Numbers are rewritten before anything is looked up for them.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use crate::house::*;
use sip_engine::numbers::{Permission, Rewrite};
use sip_engine::refusal::Reason;
use sip_engine::settings::Settings;

fn rules(settings: &mut Settings) {
    let rule = |pattern: &str, to: &str| Rewrite::new(pattern, to).unwrap();
    settings.numbers.rewrites = vec![
        rule("9(.*)", "$1"),
        rule("00([1-9][0-9]*)", "+$1"),
        rule("0([1-9][0-9]*)", "+49$1"),
        rule("5(..)", "+49305555$1"),
    ];
}

#[test]
fn what_leaves_is_what_a_rule_made_of_it_over_every_transport() {
    for transport in TRANSPORTS {
        let mut house = House::with(book(), rules);
        for (dialled, leaves) in [
            ("030123", "+4930123"),
            ("0030123", "+30123"),
            ("+4930123", "+4930123"),
            ("(030)-1.23", "+4930123"),
            ("%28030%29%20123", "+4930123"),
            ("9112", "112"),
            // Once, and by the first rule alone.
            ("9030", "030"),
        ] {
            let uri = format!("sip:{dialled}@example.org");
            let (_, sent) = house.call_over(transport, "alice", &uri);
            assert_eq!(
                copy(&sent).1,
                format!("sip:{leaves}@{GATEWAY}"),
                "{dialled}"
            );
        }
    }
}

#[test]
fn a_user_or_an_alias_is_found_by_what_was_made_of_the_number() {
    let book = book().alias("+4930555577", &[("sip:bob@example.org", 1_000)]);
    let mut house = House::with(book, rules);
    house.phone("bob", 9);
    house.phone("+4930555512", 10);
    for (dialled, contact) in [
        ("577", "sip:bob@203.0.113.9:5060"),
        ("030555577", "sip:bob@203.0.113.9:5060"),
        ("512", "sip:+4930555512@203.0.113.10:5060"),
    ] {
        let sent = house.call("alice", &format!("sip:{dialled}@example.org"));
        assert_eq!(copy(&sent).1, contact, "{dialled}");
    }
    // A stranger reaches users by it, and nobody else.
    let sent = house.stranger_calls("sip:577@example.org", "");
    assert_eq!(copy(&sent).1, "sip:bob@203.0.113.9:5060");
    let sent = house.stranger_calls("sip:030123@example.org", "");
    assert!(copies(&sent).is_empty());
}

#[test]
fn what_is_permitted_goes_by_what_was_made_of_the_number() {
    let book = book()
        .permission("alice", Permission::National)
        .permission("bob", Permission::Premium);
    let mut house = House::with(book, rules);
    for dialled in ["9030", "90900123", "0900123", "00490900123"] {
        let uri = format!("sip:{dialled}@example.org");
        let is_blocked = dialled.contains("900");
        let sent = house.call("alice", &uri);
        assert_eq!(copies(&sent).is_empty(), is_blocked, "{dialled}");
        let sent = house.call("bob", &uri);
        assert_eq!(copies(&sent).is_empty(), is_blocked, "{dialled}");
    }
    assert_eq!(status(house.call("alice", "sip:90043123@example.org")), 403);
    house.saw(Reason::NotPermitted);
}

#[test]
fn names_and_other_domains_stay_as_they_are() {
    let mut house = House::with(book(), |settings| {
        rules(settings);
        let all = Rewrite::new(".*", "+4912345").unwrap();
        settings.numbers.rewrites.push(all);
    });
    house.phone("bob", 9);
    let sent = house.call("alice", "sip:bob@example.org");
    assert_eq!(copy(&sent).1, "sip:bob@203.0.113.9:5060");
    let sent = house.call("alice", "sip:030123@203.0.113.77");
    assert_eq!(copy(&sent).1, "sip:030123@203.0.113.77");
}
