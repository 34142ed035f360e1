//! Several groups for the same numbers: the cheapest first, each in its hours.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use crate::house::*;
use sip_engine::hours::{Hours, Zone};
use sip_engine::numbers::Permission;
use sip_engine::refusal::Reason;
use sip_engine::routes::{Care, Failover, RouteOption};
use sip_engine::settings::Settings;

const CHEAP: &str = "203.0.113.201:5060";
const NUMBER: &str = "sip:0043123@example.org";

fn option(group: usize, cost: u32, when: Option<Hours>) -> RouteOption {
    RouteOption { group, cost, when }
}

/// A cheap group for `00`, with the number as it wants it, before the other.
fn two_options(settings: &mut Settings) {
    let mut cheap = group("cheap", CHEAP);
    cheap.strip = 2;
    cheap.prepend = "+".into();
    settings.routes.groups.push(cheap);
    settings
        .routes
        .prefix_options
        .insert("00".into(), vec![option(1, 1, None), option(0, 2, None)]);
}

#[test]
fn the_cheapest_is_first_and_the_next_follows_with_its_own_form_of_the_number() {
    for transport in TRANSPORTS {
        let mut house = House::with(book(), two_options);
        let (_, sent) = house.call_over(transport, "alice", NUMBER);
        assert_eq!(
            copy(&sent),
            (CHEAP.to_owned(), format!("sip:+43123@{CHEAP}"))
        );
        let next = house.answer(&sent[0], 503);
        assert_eq!(
            copy(&next),
            (GATEWAY.to_owned(), format!("sip:0043123@{GATEWAY}"))
        );
        assert_eq!(status(house.answer(&next[0], 486)), 486);
    }
}

#[test]
fn what_is_no_failure_of_the_way_is_the_answer() {
    for (said, goes_on) in [
        (486, false),
        (404, false),
        (480, true),
        (503, true),
        (603, false),
    ] {
        let mut house = House::with(book(), |settings| {
            two_options(settings);
            settings.routes.groups[1].care = Some(std::sync::Arc::new(Care {
                failover: Failover::USUAL.with(480),
                ..Care::USUAL
            }));
        });
        let sent = house.call("alice", NUMBER);
        let next = house.answer(&sent[0], said);
        assert_eq!(copies(&next).len(), usize::from(goes_on), "{said}");
    }
}

#[test]
fn a_silent_way_is_left_for_the_next() {
    let mut house = House::with(book(), two_options);
    house.call("alice", NUMBER);
    let next = house.bed.wait(4_100);
    let next: Vec<_> = copies(&next)
        .into_iter()
        .filter(|(to, _)| to == GATEWAY)
        .collect();
    assert_eq!(next.len(), 1);
}

#[test]
fn a_way_is_there_in_its_hours() {
    // The clock of the tests begins on Tuesday, 14 November 2023, at 22:13 UTC.
    let tuesday = 24 * 60;
    let evening = Hours::new(vec![(tuesday + 22 * 60, tuesday + 23 * 60)]);
    let mut house = House::with(book(), |settings| {
        two_options(settings);
        let options = vec![option(1, 1, Some(evening.clone()))];
        settings.routes.prefix_options.insert("00".into(), options);
    });
    assert_eq!(copy(&house.call("alice", NUMBER)).0, CHEAP);
    house.bed.wait(3_600_000);
    // Then it is as if it were not there: the shorter prefix counts.
    assert_eq!(copy(&house.call("alice", NUMBER)).0, GATEWAY);
    // In Berlin it is an hour later.
    let mut house = House::with(book(), |settings| {
        two_options(settings);
        let options = vec![option(1, 1, Some(evening))];
        settings.routes.prefix_options.insert("00".into(), options);
        settings.routes.zone = Zone::new(vec![(0, 3_600)]);
    });
    assert_eq!(copy(&house.call("alice", NUMBER)).0, GATEWAY);
}

#[test]
fn domains_have_ways_as_well() {
    let mut house = House::with(book(), |settings| {
        settings.routes.groups.push(group("cheap", CHEAP));
        let options = vec![option(1, 1, None), option(0, 2, None)];
        settings
            .routes
            .domain_options
            .insert("partner.example".into(), options);
    });
    let uri = "sip:desk@partner.example";
    let sent = house.call("alice", uri);
    assert_eq!(copy(&sent), (CHEAP.to_owned(), uri.to_owned()));
    let next = house.answer(&sent[0], 503);
    assert_eq!(copy(&next), (GATEWAY.to_owned(), uri.to_owned()));
}

#[test]
fn each_way_is_judged_by_what_leaves_there() {
    let book = book().permission("alice", Permission::National);
    let mut house = House::with(book, |settings| {
        let mut cheap = group("cheap", CHEAP);
        // It wants a number that alice may not call.
        cheap.prepend = "+43".into();
        settings.routes.groups.push(cheap);
        let options = vec![option(1, 1, None), option(0, 2, None)];
        settings.routes.prefix_options.insert("03".into(), options);
    });
    let sent = house.call("alice", "sip:030123@example.org");
    assert_eq!(copy(&sent).0, GATEWAY, "by the way that is left");
    let sent = house.call("bob", "sip:030123@example.org");
    assert_eq!(copy(&sent).0, CHEAP);
    assert_eq!(status(house.call("alice", NUMBER)), 403);
    house.saw(Reason::NotPermitted);
}
