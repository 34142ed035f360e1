//! How many calls go on at a time: of a user, and over a group of gateways. Whatever ends a call
//! gives its place back.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use crate::house::*;
use sip_engine::numbers::{GroupRules, Permission};
use sip_engine::records::{RecordSettings, Why};
use sip_engine::refusal::Reason;
use sip_engine::routes::RouteOption;
use sip_engine::settings::Settings;
use sip_limit::concurrent::Owner;
use sip_msg::{HeaderName, Transport};

const NUMBER: &str = "sip:030123@example.org";

/// What ends a call that rings: the INVITE, and the copy that was sent.
type Ending = fn(&mut House, &Request, &Sent);
/// What ends one that was answered: the same, and the 200.
type Hangup = fn(&mut House, &Request, &Sent, &Sent);

/// Alice may have begun two calls.
fn house_of_two() -> House {
    House::new(book().person("alice", |person| person.calls_max = Some(2)))
}

fn over_group(house: &House, name: &str) -> u32 {
    house.bed.rates.calls().taken(Owner::Group(name.as_bytes()))
}

/// Nobody has a place, and nothing is waited for.
#[track_caller]
fn nothing_is_left(house: &House) {
    assert_eq!(house.bed.rates.calls().owners(), 0);
    assert_eq!(house.bed.shard.open_call_records(), 0);
}

fn cancel(invite: &Request) -> Request {
    let mut cancel = request("CANCEL", &invite.uri, UDP);
    cancel.via.clone_from(&invite.via);
    cancel.call_id.clone_from(&invite.call_id);
    cancel.from.clone_from(&invite.from);
    cancel.to.clone_from(&invite.to);
    cancel
}

#[test]
fn a_user_has_no_more_calls_than_he_may_over_every_transport() {
    for transport in TRANSPORTS {
        let mut house = house_of_two();
        let mut calls = Vec::new();
        for _ in 0..2 {
            calls.push(house.call_over(transport, "alice", NUMBER));
        }
        let (_, refused) = house.call_over(transport, "alice", NUMBER);
        assert_eq!(status(refused), 486, "{transport:?}");
        house.saw(Reason::UserCallsMax);
        // Others have their own, and he may be called.
        assert_eq!(copies(&house.call("bob", NUMBER)).len(), 1);
        house.phone("alice", 11);
        assert_eq!(copies(&house.call("bob", "sip:alice@example.org")).len(), 1);
        // An emergency is no call too many.
        assert_eq!(copies(&house.call("alice", "sip:112@example.org")).len(), 1);
        let (invite, sent) = calls.remove(0);
        let ok = only(house.answer(&sent[0], 200));
        assert_eq!(house.counted("alice"), 2, "it goes on");
        assert_eq!(status(house.call("alice", NUMBER)), 486);
        let bye = within("BYE", &invite, &ok, 2);
        let bye = only(house.bed.receive(&alice(UDP), &bye.text()));
        house.answer(&bye, 200);
        assert_eq!(house.counted("alice"), 1);
        assert_eq!(copies(&house.call("alice", NUMBER)).len(), 1);
    }
}

#[test]
fn a_call_that_came_to_nothing_gives_its_place_back() {
    let endings: [(&str, Ending); 8] = [
        ("refused", |house, _, sent| {
            house.answer(sent, 404);
        }),
        ("refused for good", |house, _, sent| {
            house.answer(sent, 603);
        }),
        ("busy gateway", |house, _, sent| {
            house.answer(sent, 503);
        }),
        ("cancelled", |house, invite, sent| {
            house.answer(sent, 180);
            house.bed.receive(&alice(UDP), &cancel(invite).text());
            house.answer(sent, 487);
        }),
        ("cancelled before anything came", |house, invite, sent| {
            house.bed.receive(&alice(UDP), &cancel(invite).text());
            house.answer(sent, 487);
        }),
        ("silence", |house, _, _| {
            house.bed.wait(40_000);
        }),
        ("it rang for ever", |house, _, sent| {
            house.answer(sent, 180);
            house.bed.wait(300_000);
        }),
        ("nothing could be sent", |house, _, sent| {
            let cookie = sent.cookie;
            house
                .bed
                .act(|s, now, out| s.handle_send_failed(now, cookie, out));
        }),
    ];
    for (name, end) in endings {
        for is_recorded in [false, true] {
            let book = book().person("alice", |person| person.calls_max = Some(1));
            let mut house = House::with(book, |settings| {
                settings.routes.groups[0].calls_max = 1;
                settings.records = RecordSettings {
                    is_on: is_recorded,
                    session_expires_s: 0,
                };
            });
            let (invite, sent) = house.call_over(UDP, "alice", NUMBER);
            assert_eq!((house.counted("alice"), over_group(&house, "pstn")), (1, 1));
            end(&mut house, &invite, &sent[0]);
            nothing_is_left(&house);
            assert_eq!(house.bed.records.len(), usize::from(is_recorded), "{name}");
            // And there is room for the next.
            let mut next = house.call("alice", "sip:+4930@example.org");
            next.retain(|sent| sent.status() == 0);
            assert!(next.len() <= 1, "{name}");
        }
    }
}

#[test]
fn an_answered_call_gives_its_place_back_however_it_ends() {
    let endings: [(&str, Hangup); 6] = [
        ("the caller hangs up", |house, invite, _, ok| {
            let bye = within("BYE", invite, ok, 2);
            let bye = only(house.bed.receive(&alice(UDP), &bye.text()));
            house.answer(&bye, 200);
        }),
        ("nobody answers his BYE", |house, invite, _, ok| {
            let bye = within("BYE", invite, ok, 2);
            house.bed.receive(&alice(UDP), &bye.text());
            // Whether the other side goes on nobody knows: for an hour it counts as if it did.
            house.bed.wait(40_000);
            assert_eq!(house.counted("alice"), 1);
            house.bed.wait(3_600_000);
            assert_eq!(house.bed.rates.calls().owners(), 0);
            house.bed.wait(86_400_000);
        }),
        ("the callee hangs up", |house, invite, sent, _| {
            let routes = sent.all(HeaderName::RecordRoute);
            let route: String = routes
                .iter()
                .map(|value| format!("Route: {value}\r\n"))
                .collect();
            let mut bye = request("BYE", "sip:alice@198.51.100.1:5060", UDP).with(&route);
            bye.via = format!("SIP/2.0/UDP {GATEWAY};branch=z9hG4bKcallee");
            bye.call_id.clone_from(&invite.call_id);
            bye.from = format!("{};tag=b", invite.to);
            bye.to.clone_from(&invite.from);
            let bye = only(house.bed.receive(&flow(UDP, GATEWAY), &bye.text()));
            house.answer(&bye, 200);
        }),
        ("the other side does not know it", |house, invite, _, ok| {
            let update = within("UPDATE", invite, ok, 2);
            let update = only(house.bed.receive(&alice(UDP), &update.text()));
            house.answer(&update, 481);
        }),
        ("no BYE ever comes", |house, _, _, _| {
            house.bed.wait(86_500_000);
        }),
        ("the server ends", |house, _, _, _| {
            house
                .bed
                .act(|shard, now, out| shard.stop_records(now, out));
        }),
    ];
    for (name, end) in endings {
        for is_recorded in [false, true] {
            let book = book().person("alice", |person| person.calls_max = Some(1));
            let mut house = House::with(book, |settings| {
                settings.routes.groups[0].calls_max = 1;
                settings.records.is_on = is_recorded;
            });
            let (invite, sent) = house.call_over(UDP, "alice", NUMBER);
            let ok = only(house.answer(&sent[0], 200));
            // The 2xx comes again, as it does over UDP.
            house.answer(&sent[0], 200);
            assert_eq!(
                (house.counted("alice"), over_group(&house, "pstn")),
                (1, 1),
                "{name}"
            );
            assert_eq!(status(house.call("alice", NUMBER)), 486);
            assert_eq!(status(house.peer_calls(NUMBER, "")), 503);
            end(&mut house, &invite, &sent[0], &ok);
            nothing_is_left(&house);
            let told = house
                .bed
                .records
                .iter()
                .filter(|of| of.answered.is_some())
                .count();
            assert_eq!(told, usize::from(is_recorded), "{name}");
        }
    }
}

#[test]
fn a_bye_that_forks_gives_a_place_back_where_the_other_side_takes_it() {
    let book = book()
        .person("alice", |person| person.calls_max = Some(1))
        .alias("both", &[("sip:carol@example.org", 1_000), (NUMBER, 1_000)]);
    let mut house = House::new(book);
    house.phone("carol", 12);
    let (invite, sent) = house.call_over(UDP, "alice", NUMBER);
    house.answer(&sent[0], 200);
    for (cseq, takes, left) in [(2, "203.0.113.12:5060", 1), (3, GATEWAY, 0)] {
        // By her password, and not by the way that she was given.
        let mut bye = request("BYE", "sip:both@example.org", UDP);
        bye.call_id.clone_from(&invite.call_id);
        bye.from.clone_from(&invite.from);
        bye.to = format!("{};tag=b", invite.to);
        bye.cseq = cseq;
        let (_, sent) = house.signed(&alice(UDP), "alice", bye);
        assert_eq!(kinds(&sent), ["BYE", "BYE"]);
        let (takers, others): (Vec<_>, Vec<_>) = sent
            .into_iter()
            .partition(|sent| sent.to.remote.to_string() == takes);
        for taker in &takers {
            house.answer(taker, 200);
        }
        for other in &others {
            house.answer(other, 481);
        }
        assert_eq!(house.counted("alice"), left, "{takes}");
    }
    nothing_is_left(&house);
}

/// A request with the names of a call, and a user's password in the place of its token; its copy.
fn by_names(house: &mut House, method: &str, uri: &str, invite: &Request, cseq: u32) -> Sent {
    let mut bare = request(method, uri, UDP);
    bare.call_id.clone_from(&invite.call_id);
    bare.from.clone_from(&invite.from);
    bare.to = format!("{};tag=b", invite.to);
    bare.cseq = cseq;
    let (_, mut sent) = house.signed(&alice(UDP), "alice", bare);
    sent.retain(|sent| sent.status() == 0);
    only(sent)
}

#[test]
fn a_refresh_without_a_token_shows_that_nobody_has_hung_up() {
    for (refreshes, left) in [(false, 0), (true, 1)] {
        let book = book().person("alice", |person| person.calls_max = Some(1));
        let mut house = House::new(book);
        let (invite, sent) = house.call_over(UDP, "alice", NUMBER);
        house.answer(&sent[0], 200);
        let bye = by_names(&mut house, "BYE", NUMBER, &invite, 2);
        house.answer(&bye, 480);
        if refreshes {
            let update = by_names(&mut house, "UPDATE", NUMBER, &invite, 3);
            house.answer(&update, 200);
        }
        house.bed.wait(3_700_000);
        assert_eq!(house.counted("alice"), left);
    }
}

#[test]
fn who_is_told_without_his_token_that_there_is_no_call_has_his_place_back_after_an_hour() {
    for (status, later) in [(481, 0), (500, 1)] {
        let book = book().person("alice", |person| person.calls_max = Some(1));
        let mut house = House::new(book);
        let (invite, sent) = house.call_over(UDP, "alice", NUMBER);
        house.answer(&sent[0], 200);
        let bye = by_names(&mut house, "BYE", NUMBER, &invite, 2);
        house.answer(&bye, status);
        // Another number by the same gateway says the same: at once it proves nothing.
        house.bed.wait(3_500_000);
        assert_eq!(house.counted("alice"), 1, "{status}");
        house.bed.wait(200_000);
        assert_eq!(house.counted("alice"), later, "{status}");
    }
}

#[test]
fn another_number_by_the_same_gateway_has_a_record_of_its_own() {
    let mut house = House::with(book(), |settings| settings.records.is_on = true);
    let (invite, sent) = house.call_over(UDP, "alice", NUMBER);
    house.answer(&sent[0], 200);
    for uri in ["sip:030124@example.org", "tel:+4930125"] {
        // By the names of the first, and without its token.
        let copy = by_names(&mut house, "INVITE", uri, &invite, 2);
        assert_eq!(copy.to.remote.to_string(), GATEWAY);
        house.answer(&copy, 200);
        let [record] = &house.bed.records[..] else {
            panic!("{uri}: {:#?}", house.bed.records);
        };
        assert_eq!(&*record.request_uri, uri);
        assert_eq!((record.status, record.why), (Some(200), Some(Why::NoRoom)));
        house.bed.records.clear();
    }
    assert_eq!(house.bed.shard.open_call_records(), 1);
    assert_eq!(house.bed.shard.counters().call_records_unfollowed, 0);
}

#[test]
fn another_number_by_the_same_gateway_takes_a_place_and_a_phone_that_has_moved_one_alone() {
    for is_recorded in [false, true] {
        let book = || book().person("alice", |person| person.calls_max = Some(2));
        let recorded = |settings: &mut Settings| settings.records.is_on = is_recorded;
        let mut house = House::with(book(), recorded);
        let (invite, sent) = house.call_over(UDP, "alice", NUMBER);
        house.answer(&sent[0], 200);
        let copy = by_names(&mut house, "INVITE", "sip:030124@example.org", &invite, 2);
        house.answer(&copy, 200);
        assert_eq!(house.counted("alice"), 2);
        assert_eq!(status(house.call("alice", NUMBER)), 486);

        let mut house = House::with(book(), recorded);
        let far = |at: &str| format!("sip:dave@203.0.113.{at}");
        let (invite, sent) = house.call_over(UDP, "alice", &far("50:5060"));
        house.answer(&sent[0], 200);
        for (cseq, at, counted) in [(2, "50:5070", 1), (3, "51:5060", 2)] {
            let copy = by_names(&mut house, "INVITE", &far(at), &invite, cseq);
            house.answer(&copy, 200);
            assert_eq!(house.counted("alice"), counted, "{at}");
        }
    }
}

#[test]
fn who_takes_a_call_by_its_names_at_another_address_has_a_record_and_is_not_counted_as_lost() {
    let mut house = House::with(book(), |settings| settings.records.is_on = true);
    let far = |host: u8| format!("sip:dave@203.0.113.{host}:5060");
    let (invite, sent) = house.call_over(UDP, "alice", &far(50));
    house.answer(&sent[0], 200);
    for (cseq, host) in [(2, 50), (3, 51), (4, 51)] {
        let copy = by_names(&mut house, "INVITE", &far(host), &invite, cseq);
        assert_eq!(copy.to.remote.to_string(), format!("203.0.113.{host}:5060"));
        house.answer(&copy, 200);
        let told = house.bed.records.drain(..).map(|record| record.why);
        let is_other = usize::from(host != 50);
        assert_eq!(told.collect::<Vec<_>>(), vec![Some(Why::NoRoom); is_other]);
    }
    let counters = house.bed.shard.counters();
    assert_eq!(counters.call_records_unfollowed, 0);
    assert_eq!(counters.call_records_begun, 3);
}

#[test]
fn whoever_takes_a_call_by_the_names_of_another_has_a_place_as_long_as_that_goes_on() {
    for is_recorded in [false, true] {
        let book = book().person("alice", |person| person.calls_max = Some(2));
        let mut house = House::with(book, |settings| settings.records.is_on = is_recorded);
        house.phone("bob", 12);
        let (invite, sent) = house.call_over(UDP, "alice", NUMBER);
        let ok = only(house.answer(&sent[0], 200));
        let copy = by_names(&mut house, "INVITE", "sip:bob@example.org", &invite, 2);
        assert_eq!(copy.to.remote.to_string(), "203.0.113.12:5060");
        house.answer(&copy, 200);
        assert_eq!(house.counted("alice"), 2);
        assert_eq!(status(house.call("alice", NUMBER)), 486);
        let bye = within("BYE", &invite, &ok, 3);
        let bye = only(house.bed.receive(&alice(UDP), &bye.text()));
        house.answer(&bye, 200);
        nothing_is_left(&house);
    }
}

#[test]
fn whoever_takes_a_call_after_another_has_his_places_until_he_hangs_up() {
    for (is_recorded, calls_max) in [(false, 1), (true, 1), (false, 0), (true, 0)] {
        let book = book()
            .person("alice", |person| person.calls_max = Some(calls_max))
            .alias("both", &[("sip:bob@example.org", 1_000), (NUMBER, 1_000)]);
        let mut house = House::with(book, |settings| {
            settings.routes.groups[0].calls_max = 1;
            settings.records.is_on = is_recorded;
        });
        house.phone("bob", 12);
        let (invite, sent) = house.call_over(UDP, "alice", "sip:both@example.org");
        assert_eq!(copies(&sent).len(), 2);
        // His phone takes it, and his mobile one by the gateway at the same moment.
        let (mobile, phone): (Vec<_>, Vec<_>) = sent
            .iter()
            .partition(|sent| sent.to.remote.to_string() == GATEWAY);
        let mut answered = Vec::new();
        for (copy, tag) in [(phone[0], "b"), (mobile[0], "c")] {
            let contact = format!("Contact: <sip:x@{}>\r\n", copy.to.remote);
            let text = response(copy, 200, tag, &contact);
            let mut back = house.bed.receive(&answering(copy), &text);
            back.retain(|sent| sent.status() == 200);
            answered.push((only(back), tag));
        }
        let taken = |house: &House| (house.counted("alice"), over_group(house, "pstn"));
        assert_eq!(taken(&house), (calls_max, 1));
        // Whose end nobody waits for is not followed.
        let is_first_followed = is_recorded || calls_max > 0;
        assert_eq!(
            house.bed.shard.open_call_records(),
            1 + usize::from(is_first_followed)
        );
        for ((ok, tag), left) in answered.iter().zip([(calls_max, 1), (0, 0)]) {
            let mut bye = within("BYE", &invite, ok, 2);
            bye.to = format!("{};tag={tag}", invite.to);
            let bye = only(house.bed.receive(&alice(UDP), &bye.text()));
            house.answer(&bye, 200);
            assert_eq!(taken(&house), left, "{tag}");
        }
        nothing_is_left(&house);
        let told = house.bed.records.iter();
        let trunks: Vec<&str> = told.map(|record| &*record.callee_trunk).collect();
        match is_recorded {
            true => assert_eq!(trunks, ["", "pstn"]),
            false => assert!(trunks.is_empty()),
        }
    }
}

#[test]
fn an_answer_that_crosses_a_cancel_is_a_call_and_is_counted() {
    let mut house = house_of_two();
    let (invite, sent) = house.call_over(UDP, "alice", NUMBER);
    house.answer(&sent[0], 180);
    house.bed.receive(&alice(UDP), &cancel(&invite).text());
    let ok = house.answer(&sent[0], 200);
    let ok = ok.into_iter().find(|sent| sent.status() == 200).unwrap();
    assert_eq!(house.counted("alice"), 1, "he did not get rid of it");
    let bye = within("BYE", &invite, &ok, 2);
    let bye = only(house.bed.receive(&alice(UDP), &bye.text()));
    house.answer(&bye, 200);
    nothing_is_left(&house);
}

#[test]
fn what_goes_on_within_a_call_is_no_other_and_what_says_so_falsely_is_one() {
    let mut house = house_of_two();
    let (invite, sent) = house.call_over(UDP, "alice", NUMBER);
    let ok = only(house.answer(&sent[0], 200));
    for cseq in 2..6 {
        let again = within("INVITE", &invite, &ok, cseq);
        let mut copies = house.bed.receive(&alice(UDP), &again.text());
        copies.retain(|sent| sent.status() == 0);
        let copy = only(copies);
        assert_eq!(copy.method(), "INVITE");
        assert_eq!(house.counted("alice"), 1);
        house.answer(&copy, 200);
        assert_eq!(house.counted("alice"), 1);
    }
    // A tag in To makes no dialog.
    for n in 0..2 {
        let mut request = house.request("INVITE", "sip:alice@example.org", NUMBER, UDP);
        request.to.push_str(";tag=made-up");
        let (_, mut sent) = house.signed(&alice(UDP), "alice", request);
        sent.retain(|sent| sent.status() != 100);
        assert_eq!(copies(&sent).len(), usize::from(n == 0));
    }
    house.saw(Reason::UserCallsMax);
}

#[test]
fn the_route_of_another_call_is_no_way_past_a_limit() {
    let mut house = House::with(book(), |settings| {
        settings.routes.groups[0].calls_max = 1;
    });
    let (invite, sent) = house.call_over(UDP, "alice", NUMBER);
    let ok = only(house.answer(&sent[0], 200));
    // What proves that a BYE is of that call proves nothing of the next, by its names or others.
    let again = within("INVITE", &invite, &ok, 2);
    let routes = again.more.lines().filter(|line| line.starts_with("Route:"));
    let routes: String = routes.map(|line| format!("{line}\r\n")).collect();
    assert!(!routes.is_empty());
    let mut same = within("INVITE", &invite, &ok, 3);
    same.uri = "sip:030124@example.org".to_owned();
    let other = house
        .request("INVITE", "sip:alice@example.org", NUMBER, UDP)
        .with(&routes);
    for request in [same, other] {
        let (_, mut sent) = house.signed(&alice(UDP), "alice", request);
        sent.retain(|sent| sent.status() != 100);
        assert_eq!(status(sent), 503);
        house.saw(Reason::GroupCallsMax);
    }
    // Within it the call goes on.
    let mut sent = house.bed.receive(&alice(UDP), &again.text());
    sent.retain(|sent| sent.status() != 100);
    assert_eq!(only(sent).method(), "INVITE");
}

#[test]
fn help_is_called_however_many_calls_go_on() {
    let helps = ["sip:112@example.org", "tel:110"];
    let mut house = House::with(
        book().person("alice", |person| person.calls_max = Some(1)),
        |settings| settings.routes.groups[0].calls_max = 1,
    );
    assert_eq!(copies(&house.call("alice", NUMBER)).len(), 1);
    assert_eq!(status(house.call("alice", NUMBER)), 486);
    assert_eq!(status(house.call("bob", NUMBER)), 503);
    for uri in helps {
        assert_eq!(copy(&house.call("alice", uri)).0, GATEWAY, "{uri}");
        // A peer, as a PBX whose people call by this server, has as much of it.
        assert_eq!(copy(&house.peer_calls(uri, "")).0, GATEWAY, "{uri}");
    }
    assert_eq!((house.counted("alice"), over_group(&house, "pstn")), (1, 1));
}

#[test]
fn a_full_group_gives_way_to_the_next_and_comes_back() {
    let mut house = House::with(book(), |settings| {
        let mut cheap = group("cheap", "203.0.113.201:5060");
        cheap.calls_max = 1;
        cheap.strip = 1;
        cheap.prepend = "77".into();
        settings.routes.groups.push(cheap);
        settings.routes.groups[0].calls_max = 1;
        let option = |group, cost| RouteOption {
            group,
            cost,
            when: None,
        };
        settings.routes.prefixes.clear();
        settings
            .routes
            .prefix_options
            .insert("0".into(), vec![option(1, 1), option(0, 2)]);
    });
    let first = house.call("alice", NUMBER);
    assert_eq!(copy(&first).1, "sip:7730123@203.0.113.201:5060");
    let second = house.call("bob", NUMBER);
    assert_eq!(copy(&second).1, format!("sip:030123@{GATEWAY}"));
    let refused = only(house.call("carol", NUMBER));
    assert_eq!(refused.status(), 503);
    assert!(
        refused.text.contains("All Lines Are Busy"),
        "{}",
        refused.text
    );
    house.saw(Reason::GroupCallsMax);
    assert_eq!(
        (over_group(&house, "cheap"), over_group(&house, "pstn")),
        (1, 1)
    );
    // One that fails over gives its place in the first back.
    let third = house.answer(&second[0], 404);
    assert_eq!(status(third), 404);
    let next = house.answer(&first[0], 503);
    assert_eq!(copy(&next).0, GATEWAY);
    assert_eq!(
        (over_group(&house, "cheap"), over_group(&house, "pstn")),
        (0, 1)
    );
    house.answer(&next[0], 486);
    nothing_is_left(&house);
}

#[test]
fn what_is_forwarded_is_on_the_account_of_who_forwards_it() {
    let book = book().person("alice", |person| {
        person.calls_max = Some(1);
        person.permission = Some(Permission::National);
        person.forwards.always = to(NUMBER);
    });
    let mut house = House::new(book);
    let sent = house.stranger_calls("sip:alice@example.org", "");
    assert_eq!(copy(&sent).0, GATEWAY);
    assert_eq!(house.counted("alice"), 1);
    assert_eq!(
        status(house.stranger_calls("sip:alice@example.org", "")),
        486
    );
    house.saw(Reason::UserCallsMax);
    assert_eq!(status(house.call("alice", NUMBER)), 486);
    house.answer(&sent[0], 486);
    nothing_is_left(&house);
}

#[test]
fn who_may_forward_no_more_makes_nobody_busy() {
    let book = book()
        .person("alice", |person| {
            person.calls_max = Some(1);
            person.forwards.always = to("sip:bob@example.org");
        })
        .forwards("bob", |forwards| forwards.busy = to(NUMBER));
    let mut house = House::new(book);
    house.phone("bob", 12);
    let first = house.call("carol", "sip:alice@example.org");
    assert_eq!(copy(&first).1, "sip:bob@203.0.113.12:5060");
    // Bob's phone is not asked, so it has not said that it is busy.
    assert_eq!(status(house.call("carol", "sip:alice@example.org")), 486);
    house.saw(Reason::UserCallsMax);
    // When he says it himself, he forwards.
    assert_eq!(copy(&house.answer(&first[0], 486)).0, GATEWAY);
}

#[test]
fn a_group_of_users_has_a_limit_for_each_and_a_users_own_comes_first() {
    let book = book()
        .person("alice", |person| person.group = Some("staff".into()))
        .person("bob", |person| {
            person.group = Some("staff".into());
            person.calls_max = Some(0);
        });
    let mut house = House::with(book, |settings: &mut Settings| {
        let staff = GroupRules {
            permission: None,
            calls_max: Some(1),
        };
        settings.numbers.groups.insert("staff".into(), staff);
    });
    assert_eq!(copies(&house.call("alice", NUMBER)).len(), 1);
    assert_eq!(status(house.call("alice", NUMBER)), 486);
    for _ in 0..3 {
        assert_eq!(copies(&house.call("bob", NUMBER)).len(), 1);
    }
}

#[test]
fn two_workers_count_together() {
    let settings = || {
        let mut settings = settings_of_house();
        let book = book().person("alice", |person| person.calls_max = Some(1));
        settings.people = std::sync::Arc::new(book.0);
        settings
    };
    let mut first = house_of_two();
    let place = first
        .bed
        .rates
        .calls()
        .take(Owner::User(b"alice", b"example.org"), 2);
    // As another worker's call: it is in the table that all share.
    first.bed.shard.reload(std::sync::Arc::new(settings()));
    assert_eq!(status(first.call("alice", NUMBER)), 486);
    drop(place);
    assert_eq!(copies(&first.call("alice", NUMBER)).len(), 1);
    assert_eq!(first.counted("alice"), 1);
    let over_tcp = first.call_over(Transport::Tcp, "alice", NUMBER).1;
    assert_eq!(status(over_tcp), 486);
}

/// What a callee who keeps session timers writes into his 200.
const KEPT: &str = "Require: timer\r\nSession-Expires: 90;refresher=uac\r\n";
/// What a caller writes who asks for one.
const ASKED: &str = "Supported: timer\r\nSession-Expires: 90\r\n";

/// Alice may have one call, and has one, for which she asked a session timer; the INVITE, its copy,
/// and the 200.
fn timed(is_recorded: bool, kept: &str) -> (House, Request, Sent, Sent) {
    let book = book().person("alice", |person| person.calls_max = Some(1));
    timed_of(book, is_recorded, kept)
}

/// The same with that directory.
fn timed_of(book: Book, is_recorded: bool, kept: &str) -> (House, Request, Sent, Sent) {
    let mut house = House::with(book, |settings| {
        settings.records = RecordSettings {
            is_on: is_recorded,
            session_expires_s: 1_800,
        };
    });
    let invite = house
        .request("INVITE", "sip:alice@example.org", NUMBER, UDP)
        .with(ASKED);
    let (invite, mut sent) = house.signed(&alice(UDP), "alice", invite);
    sent.retain(is_copy);
    let sent = only(sent);
    let ok = only(answer_with(&mut house, &sent, kept));
    (house, invite, sent, ok)
}

fn answer_with(house: &mut House, sent: &Sent, lines: &str) -> Vec<Sent> {
    let lines = format!("Contact: <sip:x@{}>\r\n{lines}", sent.to.remote);
    let text = response(sent, 200, "b", &lines);
    house.bed.receive(&answering(sent), &text)
}

/// An UPDATE of the callee.
fn update_of_callee(house: &mut House, invite: &Request, sent: &Sent, lines: &str) -> Sent {
    let routes = sent.all(HeaderName::RecordRoute);
    let routes = routes.iter().map(|value| format!("Route: {value}\r\n"));
    let lines: String = routes.chain([lines.to_owned()]).collect();
    let mut update = request("UPDATE", "sip:alice@198.51.100.1:5060", UDP).with(&lines);
    update.via = format!("SIP/2.0/UDP {GATEWAY};branch=z9hG4bKcallee");
    update.call_id.clone_from(&invite.call_id);
    update.from = format!("{};tag=b", invite.to);
    update.to.clone_from(&invite.from);
    only(house.bed.receive(&flow(UDP, GATEWAY), &update.text()))
}

#[test]
fn a_timer_that_the_caller_alone_keeps_gives_no_place_back() {
    for is_recorded in [false, true] {
        // The gateway has no timers, and nobody refreshes: the call goes on, whatever was asked.
        let (mut house, invite, sent, ok) = timed(is_recorded, "");
        let timer = "Session-Expires: 90;refresher=uac";
        assert!(ok.text.contains(timer), "{}", ok.text);
        house.bed.wait(91_000);
        assert_eq!(status(house.call("alice", NUMBER)), 486);
        // A refresh makes it no other, nor what she answers to the gateway.
        let update = within("UPDATE", &invite, &ok, 2).with(ASKED);
        let update = only(house.bed.receive(&alice(UDP), &update.text()));
        answer_with(&mut house, &update, "");
        let update = update_of_callee(&mut house, &invite, &sent, "");
        answer_with(&mut house, &update, KEPT);
        house.bed.wait(91_000);
        assert_eq!(house.counted("alice"), 1);
        let bye = within("BYE", &invite, &ok, 3);
        let bye = only(house.bed.receive(&alice(UDP), &bye.text()));
        house.answer(&bye, 200);
        nothing_is_left(&house);
    }
}

#[test]
fn a_timer_that_the_caller_alone_keeps_ends_no_record() {
    // No limit counts her call: it is the record of what she pays for.
    let (mut house, invite, _, ok) = timed_of(book().person("alice", |_| {}), true, "");
    house.bed.wait(91_000);
    assert!(house.bed.records.is_empty());
    assert_eq!(house.bed.shard.open_call_records(), 1);
    house.bed.wait(3_509_000);
    let bye = within("BYE", &invite, &ok, 3);
    let bye = only(house.bed.receive(&alice(UDP), &bye.text()));
    house.answer(&bye, 200);
    nothing_is_left(&house);
    let [record] = &house.bed.records[..] else {
        panic!("{:#?}", house.bed.records);
    };
    let talked_ms = record.talk_ms().unwrap();
    assert!((3_600_000..3_600_100).contains(&talked_ms), "{talked_ms}");
    assert_eq!((record.session_expires_s, record.why), (Some(90), None));
}

#[test]
fn a_timer_that_the_callee_keeps_gives_a_place_back() {
    let (mut house, ..) = timed(true, KEPT);
    house.bed.wait(89_000);
    assert_eq!(house.counted("alice"), 1);
    house.bed.wait(2_000);
    nothing_is_left(&house);
    assert_eq!(house.bed.records.len(), 1);
    // One who asks for it later keeps it, too.
    let (mut house, invite, sent, _) = timed(false, "");
    let update = update_of_callee(&mut house, &invite, &sent, ASKED);
    answer_with(&mut house, &update, KEPT);
    house.bed.wait(91_000);
    nothing_is_left(&house);
    // What was agreed on last counts.
    let (mut house, invite, _, ok) = timed(false, KEPT);
    let update = within("UPDATE", &invite, &ok, 2).with(ASKED);
    let update = only(house.bed.receive(&alice(UDP), &update.text()));
    answer_with(&mut house, &update, "");
    house.bed.wait(91_000);
    assert_eq!(house.counted("alice"), 1);
}
