//! Trunks of a house with users: who may call what over them, what they show of whom, and where a
//! provider's calls are retargeted.

use sip_engine::numbers::Permission;
use sip_engine::routes::RouteOption;

use super::called::call_in;
use super::*;
use crate::house::{Book, House, book, copy, gateway, group, lines_of, saw_status, to};

const BOB: &str = "sip:bob@example.org";
const BOBS: &str = "sip:bob@203.0.113.12:5060";
const OTHER: &str = "203.0.113.201:5060";
pub(super) const OUTSIDE: &str = "sip:+4989555@example.org";

fn with_identity(identity: Identity) -> Trunk {
    Trunk {
        identity,
        ..trunk()
    }
}

/// All numbers of the house go by a trunk.
fn house(book: Book, trunk: Trunk) -> House {
    house_with(book, trunk, |_| {})
}

pub(super) fn house_with(book: Book, trunk: Trunk, change: impl FnOnce(&mut Settings)) -> House {
    let mut house = House::with(book, |settings| {
        settings.routes.groups[0] = GatewayGroup {
            name: "provider".into(),
            gateways: vec![gateway(PROVIDER)],
            trunk: Some(Arc::new(trunk)),
            ..GatewayGroup::default()
        };
        change(settings);
    });
    house.phone("bob", 12);
    house
}

#[test]
fn a_caller_is_shown_as_it_is_written_down_for_him() {
    for (identity, name, line) in [
        (
            Identity::Asserted,
            "P-Asserted-Identity",
            "P-Asserted-Identity: <sip:+4930333@provider.example>",
        ),
        (
            Identity::From,
            "From",
            "From: <sip:+4930333@provider.example>;tag=a",
        ),
    ] {
        let book = book().person("alice", |person| person.caller_id = Some("030333".into()));
        let mut house = house(book, with_identity(identity));
        let sent = house.call("alice", OUTSIDE);
        assert_eq!(
            copy(&sent),
            (
                PROVIDER.to_owned(),
                "sip:+4989555@provider.example".to_owned()
            )
        );
        assert_eq!(lines_of(&sent[0], name), [line]);
        // Of whom nothing is written the trunk's list counts, and then its number.
        let line = line.replace("+4930333", "+4930100");
        assert_eq!(lines_of(&house.call("carol", OUTSIDE)[0], name), [line]);
    }
}

#[test]
fn a_call_that_is_forwarded_shows_who_forwards_and_nothing_that_its_sender_says() {
    for identity in [Identity::Asserted, Identity::From] {
        let book = book().person("bob", |person| {
            person.caller_id = Some("+4930222".into());
            person.forwards.always = to(OUTSIDE);
        });
        let mut house = house(book, with_identity(identity));
        // A name elsewhere is none of ours, however it is called.
        let from = "sip:alice@far.example";
        let invite = house
            .request("INVITE", from, BOB, UDP)
            .with("P-Preferred-Identity: <sip:+4930101@example.org>\r\n")
            .with("Diversion: <sip:alice@example.org>;reason=user-busy\r\n")
            .with("History-Info: <sip:+4930101@example.org;cause=302>;index=1\r\n");
        let sent = house
            .bed
            .receive(&flow(UDP, "198.51.100.66:5060"), &invite.text());
        let sent = the(sent, "INVITE");
        assert!(lines_of(&sent, "History-Info").is_empty());
        assert_eq!(
            lines_of(&sent, "Diversion"),
            ["Diversion: <sip:+4930222@provider.example>;reason=unconditional;counter=1"]
        );
        assert_eq!(lines_of(&sent, "From"), [format!("From: <{from}>;tag=a")]);
        let shown = lines_of(&sent, "P-Asserted-Identity");
        match identity {
            Identity::From => assert!(shown.is_empty()),
            _ => assert_eq!(
                shown,
                ["P-Asserted-Identity: <sip:+4930222@provider.example>"]
            ),
        }
        assert!(!sent.text.contains("+4930101"), "{}", sent.text);
    }
}

#[test]
fn by_a_gateway_that_is_no_trunk_a_strangers_word_on_who_forwards_goes_as_little() {
    let book = book().forwards("bob", |forwards| forwards.always = to(OUTSIDE));
    let mut house = House::new(book);
    let lines = "Diversion: <sip:alice@example.org>;reason=user-busy\r\n\
                 History-Info: <sip:alice@example.org;cause=302>;index=1\r\n";
    let bobs = "Diversion: <sip:bob@example.org>;reason=unconditional;counter=1";
    let sent = only(house.stranger_calls(BOB, lines));
    assert_eq!(lines_of(&sent, "Diversion"), [bobs]);
    assert!(lines_of(&sent, "History-Info").is_empty());
    // A peer is believed, and so its word counts.
    let sent = only(house.peer_calls(BOB, lines));
    let peers = "Diversion: <sip:alice@example.org>;reason=user-busy";
    assert_eq!(lines_of(&sent, "Diversion"), [bobs, peers]);
    assert_eq!(lines_of(&sent, "History-Info").len(), 1);
}

#[test]
fn a_providers_calls_are_retargeted_by_aliases_and_forwards() {
    let book = || {
        book()
            .alias("+4930777", &[(BOB, 1_000)])
            .forwards("alice", |forwards| forwards.always = to(BOB))
            .forwards("dave", |forwards| forwards.always = to(OUTSIDE))
    };
    let mut listed = trunk();
    listed
        .numbers
        .users
        .push(("+4930104".into(), "dave".into()));
    for (uri, diverted) in [
        ("sip:+4930777@192.0.2.1", false),
        ("sip:030777@provider.example", false),
        // A number of the trunk's list: its user forwards.
        ("sip:+4930101@192.0.2.1", true),
    ] {
        let mut house = house(book(), listed.clone());
        let invite = call_in(uri, "<sip:x@y>", UDP);
        let mut sent = house.bed.receive(&flow(UDP, PROVIDER), &invite.text());
        sent.retain(|sent| sent.status() != 100);
        assert_eq!(copy(&sent).1, BOBS, "{uri}");
        assert_eq!(!lines_of(&sent[0], "Diversion").is_empty(), diverted);
    }
    // And back to it, on the account of who forwards.
    let mut house = house(book(), listed);
    let invite = call_in("sip:+4930104@192.0.2.1", "<sip:x@y>", UDP);
    let sent = house.bed.receive(&flow(UDP, PROVIDER), &invite.text());
    assert_eq!(the(sent, "INVITE").uri(), "sip:+4989555@provider.example");
}

#[test]
fn a_forward_to_a_number_of_the_trunk_stays_here_and_ends_where_it_leads_back() {
    // +4930101 is alice's by the trunk's list.
    for (place, led_to) in [
        ("sip:+4930101@example.org", "sip:alice@203.0.113.11:5060"),
        ("sip:030101@example.org", "sip:alice@203.0.113.11:5060"),
        // And its own number is that of whoever gets what is left.
        ("sip:+4930100@example.org", "sip:alice@203.0.113.11:5060"),
    ] {
        let trunk = || {
            let mut trunk = trunk();
            trunk.numbers.to = Some("alice".into());
            trunk
        };
        let book = book().forwards("bob", |forwards| forwards.always = to(place));
        let mut house = house(book, trunk());
        house.phone("alice", 11);
        let invite = call_in("sip:bob@192.0.2.1", "<sip:x@y>", UDP);
        let mut sent = house.bed.receive(&flow(UDP, PROVIDER), &invite.text());
        sent.retain(|sent| sent.status() != 100);
        assert_eq!(copy(&sent).1, led_to);
        // Herself: it would come back by the provider as another call.
        let book = crate::house::book().forwards("alice", |forwards| forwards.always = to(place));
        let mut house = self::house(book, trunk());
        let sent = house.call("carol", "sip:alice@example.org");
        saw_status(&mut house, sent, 482, Reason::LedInCircle);
    }
}

#[test]
fn a_number_is_judged_by_what_the_provider_reads_in_it() {
    for (format, uri, may) in [
        (NumberFormat::E164, "sip:5512345678@example.org", true),
        // It would be a call to Brazil.
        (
            NumberFormat::E164NoPlus,
            "sip:5512345678@example.org",
            false,
        ),
        (NumberFormat::E164NoPlus, "sip:+4989555@example.org", true),
        (NumberFormat::E164NoPlus, "sip:089555@example.org", true),
    ] {
        let mut trunk = trunk();
        trunk.numbers.plan.format = format;
        let book = book().permission("alice", Permission::National);
        let mut house = house(book, trunk);
        let sent = house.call("alice", uri);
        match may {
            true => assert_eq!(copy(&sent).0, PROVIDER, "{format:?} {uri}"),
            false => saw_status(&mut house, sent, 403, Reason::NotPermitted),
        }
        assert_eq!(copy(&house.call("carol", uri)).0, PROVIDER);
    }
}

#[test]
fn a_number_at_the_providers_domain_is_judged_by_what_the_provider_reads_in_it() {
    for (format, uri, refused) in [
        (
            NumberFormat::E164NoPlus,
            "sip:5512345678@provider.example",
            Some(Reason::NotPermitted),
        ),
        (
            NumberFormat::E164NoPlus,
            "sip:55-1234-5678;x=y@provider.example",
            Some(Reason::NotPermitted),
        ),
        (
            NumberFormat::E164NoPlus,
            "sip:88216123@provider.example",
            Some(Reason::NumberBlocked),
        ),
        (
            NumberFormat::E164NoPlus,
            "sip:4989555123@provider.example",
            None,
        ),
        (NumberFormat::E164NoPlus, "sip:help@provider.example", None),
        // They are a number of this country to who reads them so.
        (NumberFormat::E164, "sip:5512345678@provider.example", None),
    ] {
        let mut trunk = trunk();
        trunk.numbers.plan.format = format;
        let book = book()
            .permission("alice", Permission::National)
            .alias("abroad", &[(uri, 1_000)]);
        let mut house = house_with(book, trunk, |settings| {
            let domains = &mut settings.routes.domains;
            domains.insert("provider.example".into(), 0);
            settings.numbers.blocked.push("+882".into());
        });
        for called in [uri, "sip:abroad@example.org"] {
            let sent = house.call("alice", called);
            match refused {
                Some(reason) => saw_status(&mut house, sent, 403, reason),
                None => assert_eq!(copy(&sent), (PROVIDER.to_owned(), uri.to_owned())),
            }
        }
    }
}

const HELP: &str = "sip:112@example.org";

/// The provider refuses the trunk's password; nothing is sent to it for a while.
fn lock(house: &mut House) {
    let first = the(house.call("alice", OUTSIDE), "INVITE");
    let again = the(challenge(&mut house.bed, &first, 407, "n1"), "INVITE");
    challenge(&mut house.bed, &again, 407, "n2");
}

#[test]
fn help_is_called_over_a_trunk_whose_password_is_refused_and_its_challenge_answered() {
    let mut house = house(book().permission("none", Permission::None), trunk());
    lock(&mut house);
    let sent = house.call("alice", OUTSIDE);
    saw_status(&mut house, sent, 503, Reason::TrunkRefused);
    let help = the(house.call("none", HELP), "INVITE");
    assert_eq!(help.uri(), "sip:112@provider.example");
    assert!(credentials(&help).is_none());
    let again = the(challenge(&mut house.bed, &help, 407, "n3"), "INVITE");
    assert!(credentials(&again).unwrap().contains("nonce=\"n3\""));
    // It is refused still: that is no longer a pause for others, and the next is tried all the
    // same.
    let refused = challenge(&mut house.bed, &again, 407, "n4");
    assert_eq!(statuses(&refused), [503]);
    let help = the(house.call("none", HELP), "INVITE");
    let again = the(challenge(&mut house.bed, &help, 407, "n5"), "INVITE");
    // And taken: it is for others too.
    answer(&mut house.bed, &again, 200);
    assert_eq!(copy(&house.call("alice", OUTSIDE)).0, PROVIDER);
}

#[test]
fn a_trunk_whose_password_is_refused_is_the_last_way_to_help() {
    let mut house = house_with(book(), trunk(), |settings| {
        settings.routes.groups.push(group("other", OTHER));
        let option = |group, cost| RouteOption {
            group,
            cost,
            when: None,
        };
        let options = vec![option(0, 1), option(1, 2)];
        settings.routes.prefix_options.insert("112".into(), options);
    });
    assert_eq!(copy(&house.call("alice", HELP)).0, PROVIDER);
    lock(&mut house);
    let sent = house.call("alice", HELP);
    assert_eq!(copy(&sent).0, OTHER);
    assert_eq!(copy(&house.answer(&sent[0], 503)).0, PROVIDER);
}

#[test]
fn a_trunk_has_no_more_calls_than_it_may_and_the_next_way_follows_where_it_is_refused() {
    let mut house = house_with(book(), trunk(), |settings| {
        settings.routes.groups[0].calls_max = 1;
    });
    let first = house.call("alice", OUTSIDE);
    assert_eq!(copy(&first).0, PROVIDER);
    let second = house.call("carol", OUTSIDE);
    saw_status(&mut house, second, 503, Reason::GroupCallsMax);

    let option = |group, cost| RouteOption {
        group,
        cost,
        when: None,
    };
    let mut house = house_with(book(), trunk(), |settings| {
        settings.routes.groups.push(group("other", OTHER));
        let options = vec![option(0, 1), option(1, 2)];
        settings.routes.prefix_options.insert("+49".into(), options);
    });
    let first = the(house.call("alice", OUTSIDE), "INVITE");
    let again = the(challenge(&mut house.bed, &first, 407, "n1"), "INVITE");
    challenge(&mut house.bed, &again, 407, "n2");
    assert_eq!(
        copy(&house.call("carol", OUTSIDE)),
        (OTHER.to_owned(), format!("sip:+4989555@{OTHER}"))
    );
}
