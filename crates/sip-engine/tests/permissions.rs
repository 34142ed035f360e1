//! How far users may call, and the ways around it that there are not.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use crate::house::*;
use sip_engine::numbers::{GroupRules, NumberRules, Permission};
use sip_engine::people::Forwards;
use sip_engine::refusal::Reason;
use sip_engine::settings::Settings;
use sip_msg::Flow;

/// Somebody for each permission, whose name it is.
fn book_of_all() -> Book {
    Permission::ALL
        .into_iter()
        .fold(book(), |book, permission| {
            book.permission(permission.name(), permission)
        })
}

#[test]
fn each_permission_goes_as_far_as_it_says_over_every_transport() {
    use Permission::*;
    for transport in TRANSPORTS {
        let mut house = House::new(book_of_all());
        house.phone("bob", 9);
        for (uri, needs) in [
            ("sip:bob@example.org", Internal),
            ("sip:030123@example.org", National),
            ("sip:x@203.0.113.77", National),
            ("sip:0043123@example.org", International),
            ("sip:+1900@example.org", International),
            ("sip:0137999@example.org", Premium),
        ] {
            for permission in Permission::ALL {
                let (_, sent) = house.call_over(transport, permission.name(), uri);
                let is_let_out = permission >= needs;
                assert_eq!(
                    copies(&sent).len(),
                    usize::from(is_let_out),
                    "{permission:?} {uri}"
                );
                if !is_let_out {
                    assert_eq!(status(sent), 403);
                    house.saw(Reason::NotPermitted);
                }
            }
        }
    }
}

/// Spellings of numbers that cost more, or are abroad.
const PREMIUM: [&str; 7] = [
    "sip:0137123@example.org",
    "sip:+49137123@example.org",
    "sip:0049137123@example.org",
    "sip:%2B49-137-123@example.org;user=phone",
    "sip:+49%28%30%29137123@example.org",
    "tel:+49-137-123",
    "tel:0137123;phone-context=+49",
];

#[test]
fn no_spelling_of_a_number_is_a_way_around_what_it_costs() {
    let mut house = House::new(book_of_all());
    for uri in PREMIUM {
        assert_eq!(status(house.call("international", uri)), 403, "{uri}");
        house.saw(Reason::NotPermitted);
        assert_eq!(copy(&house.call("premium", uri)).0, GATEWAY, "{uri}");
    }
    for uri in [
        "sip:0900123@example.org",
        "sip:+49900123@example.org",
        "sip:00490900123@example.org",
        "tel:+49-900-123",
        // No numbers, but for whoever passes over the `+`.
        "sip:+0900123@example.org",
        "tel:+00-49-900-123",
    ] {
        assert_eq!(status(house.call("premium", uri)), 403, "{uri}");
        house.saw(Reason::NumberBlocked);
        assert_eq!(status(house.peer_calls(uri, "")), 403, "{uri}");
        house.saw(Reason::NumberBlocked);
    }
}

#[test]
fn where_everything_leaves_as_it_is_no_spelling_is_a_way_around_either() {
    let forwards = |settings: &mut Settings| {
        settings.routes.prefixes.clear();
        settings.forward = Some(next_hop(UDP, GATEWAY));
    };
    let mut house = House::with(book_of_all(), forwards);
    let own = [
        // What a next hop may make of it.
        "sip:0137123,1@example.org",
        "sip:0137123;ext=7@example.org",
        "sip:123;phone-context=+49137@example.org",
        "tel:123;phone-context=+49-137",
        "tel:123;PHONE-CONTEXT=%2B49137",
        "sip:123@example.org;phone-context=0049137",
        "tel:123;phone-context=+49;phone-context=+49137",
        "tel:+4930;npdi;rn=+49-137-1",
        "sip:+4930;rn=0137123@example.org;user=phone",
        "sip:bob;rn=+49137@example.org",
        "sip:%20(+49)137123@example.org",
        "sip:%090137123@example.org",
    ];
    for uri in PREMIUM.into_iter().chain(own) {
        assert_eq!(status(house.call("international", uri)), 403, "{uri}");
        house.saw(Reason::NotPermitted);
        assert_eq!(copy(&house.call("premium", uri)).0, GATEWAY, "{uri}");
    }
}

#[test]
fn a_route_another_host_or_maddr_is_no_way_around() {
    let mut house = House::new(book_of_all());
    let far = "sip:0137123@203.0.113.77";
    for (uri, more) in [
        (
            "sip:0137123@example.org",
            "Route: <sip:203.0.113.77;lr>\r\n",
        ),
        (
            "tel:+49137123",
            "Route: <sip:192.0.2.1;lr>, <sip:203.0.113.77;lr>\r\n",
        ),
        (far, ""),
        ("sip:0137123@example.org;maddr=203.0.113.77", ""),
        ("sip:0137123@192.0.2.1", ""),
    ] {
        for (user, is_let_out) in [("international", false), ("premium", true)] {
            let from = format!("sip:{user}@example.org");
            let request = house.request("INVITE", &from, uri, UDP).with(more);
            let (_, mut sent) = house.signed(&alice(UDP), user, request);
            sent.retain(|sent| sent.status() != 100);
            assert_eq!(
                copies(&sent).len(),
                usize::from(is_let_out),
                "{user} {uri} {more}"
            );
        }
    }
    // An emergency number is led by the operator, whatever its caller names beside it.
    for (uri, more) in [
        ("sip:112@example.org", "Route: <sip:203.0.113.77;lr>\r\n"),
        (
            "tel:112",
            "Route: <sip:192.0.2.1;lr>, <sip:203.0.113.77;lr>\r\n",
        ),
        ("sip:112@example.org", "Route: <sip:203.0.113.77>\r\n"),
        ("sip:112@example.org;maddr=203.0.113.77", ""),
    ] {
        for user in ["none", "premium"] {
            let from = format!("sip:{user}@example.org");
            let request = house.request("INVITE", &from, uri, UDP).with(more);
            let (_, mut sent) = house.signed(&alice(UDP), user, request);
            sent.retain(|sent| sent.status() != 100);
            let led = (GATEWAY.to_owned(), format!("sip:112@{GATEWAY}"));
            assert_eq!(copy(&sent), led, "{user} {uri} {more}");
            assert!(lines_of(&sent[0], "Route").is_empty());
        }
    }
    // Nor is a name.
    let mut house = House::new(book_of_all());
    let request = house
        .request(
            "INVITE",
            "sip:internal@example.org",
            "sip:bob@example.org",
            UDP,
        )
        .with("Route: <sip:203.0.113.77;lr>\r\n");
    let (_, mut sent) = house.signed(&alice(UDP), "internal", request);
    sent.retain(|sent| sent.status() != 100);
    assert_eq!(status(sent), 403);
}

#[test]
fn another_method_and_a_tag_in_to_are_no_way_around() {
    let mut house = House::new(book_of_all());
    for method in [
        "INVITE",
        "MESSAGE",
        "SUBSCRIBE",
        "OPTIONS",
        "REFER",
        "NEWMETHOD",
    ] {
        for tag in ["", ";tag=made-up"] {
            let uri = "sip:0043123@example.org";
            let mut request = house.request(method, "sip:national@example.org", uri, UDP);
            request.to.push_str(tag);
            let (_, mut sent) = house.signed(&alice(UDP), "national", request);
            sent.retain(|sent| sent.status() != 100);
            assert_eq!(status(sent), 403, "{method} {tag}");
        }
    }
}

#[test]
fn a_refer_gives_nobody_more_than_he_has() {
    let mut house = House::new(book_of_all());
    house.phone("internal", 9);
    // Whoever may call abroad asks the phone of one who may not.
    let request = house
        .request(
            "REFER",
            "sip:premium@example.org",
            "sip:internal@example.org",
            UDP,
        )
        .with("Refer-To: <tel:+43123>\r\nReferred-By: <sip:premium@example.org>\r\n");
    let (_, sent) = house.signed(&alice(UDP), "premium", request);
    assert_eq!(only(sent).uri(), "sip:internal@203.0.113.9:5060");
    // The phone calls in its own name.
    let more = "Referred-By: <sip:premium@example.org>\r\n";
    let request = house
        .request("INVITE", "sip:internal@example.org", "tel:+43123", UDP)
        .with(more);
    let (_, mut sent) = house.signed(&flow(UDP, "203.0.113.9:5060"), "internal", request);
    sent.retain(|sent| sent.status() != 100);
    assert_eq!(status(sent), 403);
}

/// What becomes of a REFER within a call with the gateway: 0 where that gets it.
fn referred(house: &mut House, at: &Flow, call: (&Request, &Sent), lines: &str) -> u16 {
    house.bed.refused.clear();
    let refer = within("REFER", call.0, call.1, 2).with(lines);
    let sent = only(house.bed.receive(at, &refer.text()));
    if sent.status() == 0 {
        assert_eq!(sent.method(), "REFER");
        assert_eq!(sent.to.remote.to_string(), GATEWAY);
    }
    sent.status()
}

#[test]
fn a_refer_asks_no_gateway_for_a_call_that_its_sender_may_not_make() {
    let book = book_of_all()
        .alias("abroad", &[("sip:+1900@example.org", 1_000)])
        .alias("all", &[("sip:bob@example.org", 1_000)]);
    let mut house = House::new(book);
    house.phone("bob", 9);
    let (invite, sent) = house.call_over(UDP, "national", "sip:030123@example.org");
    let ok = only(house.answer(&sent[0], 200));
    let call = (&invite, &ok);
    for (lines, reason) in [
        ("Refer-To: <tel:+1900555>\r\n", Reason::NotPermitted),
        ("r: <sip:0137999@example.org>\r\n", Reason::NotPermitted),
        (
            "Refer-To: <sip:+1900555@203.0.113.200>\r\n",
            Reason::NotPermitted,
        ),
        (
            "Refer-To: <sip:0900123@example.org>\r\n",
            Reason::NumberBlocked,
        ),
        // To take over a call is no way to begin one.
        (
            "Refer-To: <sip:+1900@example.org?Replaces=x%3Bto-tag%3D1>\r\n",
            Reason::NotPermitted,
        ),
        (
            "Refer-To: <sip:abroad@example.org>\r\n",
            Reason::NotPermitted,
        ),
        // Which of two is meant nobody knows, nor what is in a list, or cannot be read.
        (
            "Refer-To: <sip:bob@example.org>\r\nRefer-To: <tel:+1900>\r\n",
            Reason::NotPermitted,
        ),
        ("Refer-To: <cid:list@x>\r\n", Reason::NotPermitted),
        (
            "Refer-To: sip:bob@example.org?Replaces=x\r\n",
            Reason::NotPermitted,
        ),
    ] {
        let said = referred(&mut house, &alice(UDP), call, lines);
        assert_eq!(said, 403, "{lines}");
        house.saw(reason);
    }
    for lines in [
        "Refer-To: <sip:030777@example.org>\r\n",
        "Refer-To: <tel:+49-30-777>\r\n",
        "Refer-To: <sip:x@203.0.113.77>\r\n",
        "Refer-To: <sip:bob@example.org>\r\n",
        "Refer-To: <sip:all@example.org>\r\n",
        // The end of an attended transfer.
        "Refer-To: <sip:bob@example.org?Replaces=x%3Bto-tag%3D1%3Bfrom-tag%3D2>\r\n",
        "",
    ] {
        let said = referred(&mut house, &alice(UDP), call, lines);
        assert_eq!(said, 0, "{lines}");
    }
    // Who may call everybody refers to everybody.
    let (invite, sent) = house.call_over(UDP, "premium", "sip:030123@example.org");
    let ok = only(house.answer(&sent[0], 200));
    let lines = "Refer-To: <sip:0137999@example.org>\r\n";
    let said = referred(&mut house, &alice(UDP), (&invite, &ok), lines);
    assert_eq!(said, 0);
}

#[test]
fn who_is_no_user_of_ours_refers_a_gateway_to_users_of_ours_alone() {
    let book = book_of_all().forwards("bob", |forwards| {
        forwards.always = to("sip:030123@example.org");
    });
    let mut house = House::new(book);
    let stranger = flow(UDP, STRANGER);
    let from = "sip:mallory@far.example";
    let invite = house.request("INVITE", from, "sip:bob@example.org", UDP);
    let mut sent = house.bed.receive(&stranger, &invite.text());
    sent.retain(|sent| sent.status() != 100);
    let ok = only(house.answer(&only(sent), 200));
    for (target, status) in [
        ("<sip:030777@example.org>", 403),
        ("<sip:x@203.0.113.77>", 403),
        ("<sip:national@example.org>", 0),
    ] {
        let lines = format!("Refer-To: {target}\r\n");
        let said = referred(&mut house, &stranger, (&invite, &ok), &lines);
        assert_eq!(said, status, "{target}");
    }
}

#[test]
fn who_is_of_this_house_refers_a_gateway_as_far_as_all_may_where_nothing_is_written_of_him() {
    let mut house = House::with(book_of_all(), |settings| {
        settings.numbers.permission = Permission::National;
    });
    // A name, and a number without a phone.
    for user in ["carol", "105"] {
        let (invite, sent) = house.call_over(UDP, user, "sip:030123@example.org");
        let ok = only(house.answer(&sent[0], 200));
        for (target, status) in [("<tel:+4930777>", 0), ("<tel:+1900555>", 403)] {
            let lines = format!("Refer-To: {target}\r\n");
            let said = referred(&mut house, &alice(UDP), (&invite, &ok), &lines);
            assert_eq!(said, status, "{user} {target}");
        }
    }
}

/// Not all of its targets are looked at.
#[test]
fn a_long_alias_refers_a_gateway_no_farther_than_any_user() {
    let mut targets = vec![("sip:internal@example.org", 1_000)];
    targets.extend([("sip:premium@example.org", 1_000); 70]);
    let mut house = House::with(book_of_all().alias("many", &targets), |settings| {
        settings.numbers.permission = Permission::National;
    });
    let (invite, sent) = house.call_over(UDP, "many", "sip:030123@example.org");
    let ok = only(house.answer(&sent[0], 200));
    let lines = "Refer-To: <tel:+1900555>\r\n";
    let said = referred(&mut house, &alice(UDP), (&invite, &ok), lines);
    assert_eq!(said, 403);
}

#[test]
fn who_hides_refers_a_gateway_to_users_of_ours_alone() {
    use sip_engine::settings::Inbound;
    for inbound in [Inbound::Trusted, Inbound::Anyone] {
        let mut house = House::with(book_of_all(), |settings| settings.inbound = inbound);
        let hidden = "sip:anonymous@anonymous.invalid";
        let request = house.request("INVITE", hidden, "sip:030123@example.org", UDP);
        let (invite, mut sent) = house.signed(&alice(UDP), "national", request);
        sent.retain(|sent| sent.status() != 100);
        let ok = only(house.answer(&only(sent), 200));
        for (target, status) in [("<tel:+4930777>", 403), ("<sip:bob@example.org>", 0)] {
            let lines = format!("Refer-To: {target}\r\n");
            let said = referred(&mut house, &alice(UDP), (&invite, &ok), &lines);
            assert_eq!(said, status, "{inbound:?} {target}");
        }
    }
}

#[test]
fn where_nothing_is_written_of_numbers_and_people_each_of_the_house_refers_to_whom_he_likes() {
    let mut house = House::with(book(), |settings| {
        settings.numbers = NumberRules::default();
    });
    let (invite, sent) = house.call_over(UDP, "105", "sip:030123@example.org");
    let ok = only(house.answer(&sent[0], 200));
    let lines = "Refer-To: <sip:0900123@example.org>\r\n";
    let said = referred(&mut house, &alice(UDP), (&invite, &ok), lines);
    assert_eq!(said, 0);
}

#[test]
fn a_refer_that_begins_something_at_a_gateway_is_judged_as_well() {
    let mut house = House::new(book_of_all());
    for (target, is_let_out) in [("<tel:+4930777>", true), ("<tel:+1900555>", false)] {
        let from = "sip:national@example.org";
        let refer = house.request("REFER", from, "sip:030123@example.org", UDP);
        let refer = refer.with(&format!("Refer-To: {target}\r\n"));
        let (_, sent) = house.signed(&alice(UDP), "national", refer);
        let sent = only(sent);
        match is_let_out {
            true => assert_eq!(sent.to.remote.to_string(), GATEWAY),
            false => assert_eq!(sent.status(), 403),
        }
    }
}

#[test]
fn another_spelling_of_a_users_name_may_no_more_than_he() {
    let mut house = House::new(book_of_all());
    for user in ["INTERNAL", "Internal"] {
        // As a store that passes over case lets him in.
        assert_eq!(
            status(house.call(user, "sip:030123@example.org")),
            403,
            "{user}"
        );
        house.saw(Reason::NotPermitted);
    }
}

#[test]
fn emergency_numbers_are_every_users_and_nobody_elses() {
    let mut house = House::with(book_of_all(), |settings| {
        settings.numbers.blocked.push("11".into());
    });
    for uri in ["sip:112@example.org", "sip:1-1-0@example.org", "tel:112"] {
        assert_eq!(copy(&house.call("none", uri)).0, GATEWAY, "{uri}");
    }
    // The name of an emergency is no way to another host, and nothing may hang on it.
    for uri in [
        "sip:112@203.0.113.77",
        "sip:1120@example.org",
        "sip:118@example.org",
    ] {
        assert_eq!(status(house.call("none", uri)), 403, "{uri}");
    }
    assert!(copies(&house.stranger_calls("sip:112@example.org", "")).is_empty());
    let forwards = |settings: &mut Settings| {
        settings.routes.prefixes.clear();
        settings.forward = Some(next_hop(UDP, GATEWAY));
    };
    let mut house = House::with(book_of_all(), forwards);
    assert_eq!(copy(&house.call("none", "sip:112@example.org")).0, GATEWAY);
    let uri = "sip:112,0043@example.org";
    assert_eq!(status(house.call("none", uri)), 403, "{uri}");
    // Phones of mobile networks give it a context: nothing of that goes on, and nobody is refused.
    for uri in [
        "tel:112;phone-context=+49",
        "tel:112;phone-context=+43",
        "sip:112;phone-context=+43@example.org;user=phone",
        "sip:112;ext=1@example.org:5060",
        "sip:112@192.0.2.1:5060",
        "tel:112;rn=+43900",
    ] {
        let (to, leaves) = copy(&house.call("none", uri));
        assert_eq!((&*to, &*leaves), (GATEWAY, "sip:112@example.org"), "{uri}");
    }
}

#[test]
fn help_is_led_where_the_operator_leads_it_and_made_no_other_number() {
    use sip_engine::numbers::Rewrite;
    // A rule for numbers of the town, and the guard of the house before the police.
    let book = || {
        book_of_all()
            .alias("110", &[("sip:+493099@example.org", 1_000)])
            .alias("help", &[("sip:110@example.org", 1_000)])
            .person("none", |person| {
                person.permission = Some(Permission::None);
                person.calls_max = Some(1);
            })
    };
    let rules = |settings: &mut Settings| {
        // And 9 for a line.
        for (pattern, to) in [("9(1..)", "$1"), ("([1-9][0-9]+)", "+4930$1")] {
            let rule = Rewrite::new(pattern, to).unwrap();
            settings.numbers.rewrites.push(rule);
        }
        settings.numbers.blocked.push("+493099".into());
        settings.routes.groups[0].calls_max = 1;
    };
    let mut house = House::with(book(), rules);
    for _ in 0..2 {
        let sent = house.call("none", "sip:112@example.org");
        assert_eq!(
            copy(&sent),
            (GATEWAY.to_owned(), format!("sip:112@{GATEWAY}"))
        );
        for uri in [
            "sip:110@example.org",
            "sip:9110@example.org",
            "sip:help@example.org",
        ] {
            let sent = house.call("none", uri);
            assert_eq!(copy(&sent).1, format!("sip:+493099@{GATEWAY}"), "{uri}");
        }
    }
    // What it is led to is reached by its emergency number alone.
    assert_eq!(status(house.call("none", "sip:+493099@example.org")), 403);
    assert!(copies(&house.stranger_calls("sip:110@example.org", "")).is_empty());
    // By somebody inside too.
    let guarded = book().alias("112", &[("sip:guard@example.org", 1_000)]);
    let mut house = House::with(guarded, rules);
    house.phone("guard", 9);
    let sent = house.call("none", "sip:112@example.org");
    assert_eq!(copy(&sent).1, "sip:guard@203.0.113.9:5060");
    assert_eq!(status(house.call("none", "sip:guard@example.org")), 403);
}

/// Where those forward to who watch over the house.
const MOBILE: &str = "sip:+491701@example.org";

/// Help is the guard's, who may have one call, has it, and forwards as this says. It is also the
/// one that may go over the gateway.
fn guarded(change: impl FnOnce(&mut Forwards)) -> House {
    let book = book_of_all()
        .alias("112", &[("sip:guard@example.org", 1_000)])
        .person("guard", |person| {
            person.calls_max = Some(1);
            change(&mut person.forwards);
        })
        .forwards("deputy", |forwards| forwards.busy = to(MOBILE));
    let mut house = House::with(book, |settings| settings.routes.groups[0].calls_max = 1);
    house.phone("deputy", 10);
    let own = house.call("guard", "sip:030123@example.org");
    assert_eq!(copy(&own).0, GATEWAY);
    house.answer(&own[0], 180);
    assert_eq!(house.counted("guard"), 1);
    house
}

#[test]
fn help_that_is_forwarded_from_a_phone_meets_no_limit_either() {
    let mobile = (GATEWAY.to_owned(), format!("sip:+491701@{GATEWAY}"));
    let later = |place: &'static str| {
        move |forwards: &mut Forwards| {
            (forwards.busy, forwards.no_answer) = (to(place), to(place));
        }
    };
    // At once, where he has no phone.
    let mut house = guarded(later(MOBILE));
    assert_eq!(copy(&house.call("none", "sip:112@example.org")), mobile);
    for said in [486, 480] {
        let mut house = guarded(later(MOBILE));
        house.phone("guard", 9);
        let sent = house.call("none", "sip:112@example.org");
        assert_eq!(copy(&sent).1, "sip:guard@203.0.113.9:5060");
        assert_eq!(copy(&house.answer(&sent[0], said)), mobile, "{said}");
        assert_eq!(house.counted("guard"), 1, "it is counted for nobody");
        // Other calls to him are: he has no call left.
        let sent = house.call("internal", "sip:guard@example.org");
        let ended = house.answer(&sent[0], said);
        assert!(copies(&ended).is_empty());
        house.saw(Reason::UserCallsMax);
    }
    // When nobody takes it.
    let mut house = guarded(later(MOBILE));
    house.phone("guard", 9);
    let sent = house.call("none", "sip:112@example.org");
    house.answer(&sent[0], 180);
    assert_eq!(copy(&house.bed.wait(20_100)), mobile);
    // And from one to the next.
    let mut house = guarded(later("sip:deputy@example.org"));
    house.phone("guard", 9);
    let sent = house.call("none", "sip:112@example.org");
    let next = house.answer(&sent[0], 486);
    assert_eq!(copy(&next).1, "sip:deputy@203.0.113.10:5060");
    assert_eq!(copy(&house.answer(&next[0], 486)), mobile);
}

#[test]
fn help_is_forwarded_no_farther_than_who_forwards_it_may_call() {
    let book = book_of_all()
        .alias("112", &[("sip:guard@example.org", 1_000)])
        .person("guard", |person| {
            person.permission = Some(Permission::Internal);
            person.forwards.busy = to(MOBILE);
        });
    let mut house = House::new(book);
    house.phone("guard", 9);
    let sent = house.call("none", "sip:112@example.org");
    assert_eq!(status(house.answer(&sent[0], 486)), 486);
    house.saw(Reason::ForwardRefused);
}

#[test]
fn help_is_called_by_who_hides_wherever_strangers_are_let_in_or_not() {
    use sip_engine::settings::Inbound;
    for inbound in [Inbound::Anyone, Inbound::Proven, Inbound::Trusted] {
        let mut house = House::with(book_of_all(), |settings| settings.inbound = inbound);
        for uri in ["sip:112@example.org", "tel:112"] {
            let hidden = "sip:anonymous@anonymous.invalid";
            let request = house
                .request("INVITE", hidden, uri, UDP)
                .with("Privacy: id\r\n");
            let (_, mut sent) = house.signed(&alice(UDP), "none", request);
            sent.retain(|sent| sent.status() != 100);
            assert_eq!(copy(&sent).0, GATEWAY, "{inbound:?} {uri}");
        }
    }
}

#[test]
fn codes_of_switches_around_a_number_are_no_way_around_a_list() {
    let by_routes = |settings: &mut Settings| {
        for prefix in ["*", "#"] {
            settings.routes.prefixes.insert(prefix.into(), 0);
        }
    };
    let by_forward = |settings: &mut Settings| {
        settings.routes.prefixes.clear();
        settings.forward = Some(next_hop(UDP, GATEWAY));
    };
    for change in [&by_routes as &dyn Fn(&mut Settings), &by_forward] {
        let mut house = House::with(book_of_all(), change);
        for uri in [
            "sip:0900123%23@example.org",
            "sip:*31%230900123@example.org",
            "sip:%2331%23+49900123@example.org",
            "sip:*21*0900123%23@example.org",
            "sip:(+49)900123@example.org",
            "tel:0900123#",
        ] {
            let sent = house.call("premium", uri);
            assert_eq!(status(sent), 403, "{uri}");
            house.saw(Reason::NumberBlocked);
        }
        // What is in no list is abroad at least, and leaves as RFC 3261 19.1.2 has it written.
        let uri = "sip:*31%23030123@example.org";
        assert_eq!(status(house.call("national", uri)), 403);
        let (_, to) = copy(&house.call("international", uri));
        assert!(to.starts_with("sip:*31%23030123@"), "{to}");
    }
}

#[test]
fn what_nothing_else_is_written_of_is_as_the_group_and_then_as_all() {
    let book = book()
        .person("alice", |person| person.group = Some("staff".into()))
        .person("bob", |_| {});
    let mut house = House::with(book, |settings| {
        settings.numbers.permission = Permission::Internal;
        let staff = GroupRules {
            permission: Some(Permission::National),
            calls_max: None,
        };
        settings.numbers.groups.insert("staff".into(), staff);
    });
    let uri = "sip:030123@example.org";
    assert_eq!(copy(&house.call("alice", uri)).0, GATEWAY);
    for user in ["bob", "carol"] {
        assert_eq!(status(house.call(user, uri)), 403, "{user}");
    }
}

#[test]
fn a_call_that_was_let_out_goes_on_whatever_its_user_may_now() {
    let mut house = House::new(book_of_all());
    let (invite, sent) = house.call_over(UDP, "national", "sip:030123@example.org");
    let ok = only(house.answer(&sent[0], 200));
    let mut settings = settings_of_house();
    settings.people = std::sync::Arc::new(book().permission("national", Permission::None).0);
    house.bed.shard.reload(std::sync::Arc::new(settings));
    let bye = within("BYE", &invite, &ok, 2);
    let sent = only(house.bed.receive(&alice(UDP), &bye.text()));
    assert_eq!(sent.method(), "BYE");
    assert_eq!(
        status(house.call("national", "sip:030123@example.org")),
        403
    );
}
