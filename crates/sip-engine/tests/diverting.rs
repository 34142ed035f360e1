//! Users who forward their calls: always, when they are busy, when they do not answer.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use crate::house::*;
use sip_engine::numbers::Permission;
use sip_engine::people::Forwards;
use sip_engine::refusal::Reason;
use sip_msg::Transport;

const ALICE: &str = "sip:alice@example.org";
const BOB: &str = "sip:bob@example.org";
const BOBS: &str = "sip:bob@203.0.113.12:5060";

/// Alice has a phone and forwards; so has Bob, who does not.
fn house_where(change: impl FnOnce(&mut Forwards)) -> House {
    let mut house = House::new(book().forwards("alice", change));
    house.phone("alice", 11);
    house.phone("bob", 12);
    house
}

#[test]
fn all_calls_go_elsewhere_and_say_who_sent_them_over_every_transport() {
    for transport in TRANSPORTS {
        let mut house = house_where(|forwards| forwards.always = to(BOB));
        let (_, sent) = house.call_over(transport, "carol", ALICE);
        assert_eq!(copy(&sent).1, BOBS, "{transport:?}");
        assert_eq!(
            lines_of(&sent[0], "Diversion"),
            ["Diversion: <sip:alice@example.org>;reason=unconditional;counter=1"]
        );
        // Nothing but a call is forwarded.
        let message = house.request("MESSAGE", "sip:carol@example.org", ALICE, transport);
        let (_, sent) = house.signed(&alice(transport), "carol", message);
        assert_eq!(only(sent).uri(), "sip:alice@203.0.113.11:5060");
    }
    assert_eq!(house_where(|_| {}).bed.shard.counters().calls_diverted, 0);
}

#[test]
fn calls_that_come_while_the_phones_are_busy_go_elsewhere() {
    for (said, is_forwarded) in [
        (486, true),
        (603, false),
        (600, false),
        (404, false),
        (480, false),
    ] {
        let mut house = house_where(|forwards| forwards.busy = to(BOB));
        let sent = house.call("carol", ALICE);
        assert_eq!(copy(&sent).1, "sip:alice@203.0.113.11:5060");
        assert!(lines_of(&sent[0], "Diversion").is_empty());
        let next = house.answer(&sent[0], said);
        if !is_forwarded {
            // RFC 3261 16.7: "it MUST NOT create any new branches in this context." after a 6xx.
            assert_eq!(status(next), said);
            continue;
        }
        assert_eq!(copy(&next).1, BOBS);
        let why = "Diversion: <sip:alice@example.org>;reason=user-busy;counter=1";
        assert_eq!(lines_of(&next[0], "Diversion"), [why]);
        // What the second says is the answer, and the first is forgotten.
        assert_eq!(status(house.answer(&next[0], 404)), 404);
        assert_eq!(house.bed.shard.counters().calls_diverted, 1);
    }
}

#[test]
fn calls_that_nobody_takes_go_elsewhere_after_their_time() {
    let mut house = house_where(|forwards| {
        forwards.no_answer = to(BOB);
        forwards.no_answer_s = 15;
    });
    let sent = house.call("carol", ALICE);
    let alices = &sent[0];
    assert_eq!(only(house.answer(alices, 180)).status(), 180);
    assert!(copies(&house.bed.wait(14_900)).is_empty());
    let mut next = house.bed.wait(200);
    next.sort_by_key(|sent| sent.method());
    assert_eq!(kinds(&next), ["CANCEL", "INVITE"]);
    assert_eq!(next[1].uri(), BOBS);
    let why = "Diversion: <sip:alice@example.org>;reason=no-answer;counter=1";
    assert_eq!(lines_of(&next[1], "Diversion"), [why]);
    // That her phone stops ringing is no answer.
    assert!(house.answer(alices, 487).is_empty());
    assert_eq!(status(house.answer(&next[1], 486)), 486);
}

#[test]
fn what_has_stopped_ringing_and_what_was_never_reached_both_count_as_no_answer() {
    for said in [480, 408] {
        let mut house = house_where(|forwards| forwards.no_answer = to(BOB));
        let sent = house.call("carol", ALICE);
        assert_eq!(copy(&house.answer(&sent[0], said)).1, BOBS, "{said}");
    }
    // A phone that is off.
    let mut house = house_where(|forwards| forwards.no_answer = to(BOB));
    let cookie = house.call("carol", ALICE)[0].cookie;
    let next = house
        .bed
        .act(|s, now, out| s.handle_send_failed(now, cookie, out));
    assert_eq!(copy(&next).1, BOBS);
    // None at all.
    let mut house = House::new(book().forwards("alice", |forwards| forwards.no_answer = to(BOB)));
    house.phone("bob", 12);
    assert_eq!(copy(&house.call("carol", ALICE)).1, BOBS);
    // Nobody answers anywhere.
    let mut house = house_where(|forwards| forwards.no_answer = to(BOB));
    let sent = house.call("carol", ALICE);
    house.answer(&sent[0], 180);
    let mut sent = house.bed.wait(20_100);
    sent.retain(is_copy);
    house.answer(&sent[0], 180);
    let mut ended = Vec::new();
    for _ in 0..400 {
        ended.extend(house.bed.wait(1_000));
    }
    let finals = ended
        .iter()
        .map(Sent::status)
        .filter(|status| *status >= 200);
    let mut finals: Vec<u16> = finals.collect();
    // It comes again until it is acknowledged.
    finals.dedup();
    assert_eq!(finals, [408], "one answer, and that nobody took it");
}

#[test]
fn whoever_hangs_up_is_not_forwarded() {
    let mut house = house_where(|forwards| {
        forwards.busy = to(BOB);
        forwards.no_answer = to(BOB);
    });
    let (invite, sent) = house.call_over(UDP, "carol", ALICE);
    house.answer(&sent[0], 180);
    let mut cancel = request("CANCEL", ALICE, UDP);
    cancel.via.clone_from(&invite.via);
    cancel.call_id.clone_from(&invite.call_id);
    cancel.from.clone_from(&invite.from);
    cancel.to.clone_from(&invite.to);
    house.bed.receive(&alice(UDP), &cancel.text());
    for said in [486, 487] {
        let next = house.answer(&sent[0], said);
        assert!(copies(&next).is_empty());
    }
    assert!(copies(&house.bed.wait(60_000)).is_empty());
}

#[test]
fn a_stranger_pays_for_nothing_and_gets_no_farther_than_the_owner_may() {
    let expensive = "sip:+43900@example.org";
    for (permission, is_let_out) in [
        (Permission::International, true),
        (Permission::National, false),
        (Permission::None, false),
    ] {
        let forwards = |person: &mut sip_engine::people::Person| {
            person.permission = Some(permission);
            person.forwards.always = to(expensive);
        };
        let book = book()
            .person("alice", forwards)
            .alias("sales", &[(ALICE, 1_000)]);
        let mut house = House::new(book);
        for uri in [ALICE, "sip:sales@example.org"] {
            let sent = house.stranger_calls(uri, "");
            if is_let_out {
                assert_eq!(
                    copy(&sent),
                    (GATEWAY.to_owned(), format!("sip:+43900@{GATEWAY}"))
                );
                continue;
            }
            // He is told that she is not there, and the operator why.
            assert_eq!(status(sent), 480);
            house.saw(Reason::ForwardRefused);
            // Nor may anybody go there by her who may himself.
            assert_eq!(status(house.call("carol", uri)), 480);
        }
        // It is that number, and no other that a stranger can choose.
        for uri in ["sip:+43901@example.org", expensive, "tel:+43900"] {
            let sent = house.stranger_calls(uri, "");
            assert!(copies(&sent).is_empty(), "{uri}: {}", sent[0].text);
        }
    }
}

// RFC 3261 17.1.1.3 and 13.2.2.4: an ACK belongs to the transaction or the dialog of an INVITE.
#[test]
fn an_ack_of_no_call_is_retargeted_to_nobody() {
    let book = book().forwards("alice", |forwards| {
        forwards.always = to("sip:+43900@example.org");
    });
    let mut house = House::new(book);
    let ack = house.request("ACK", "sip:mallory@far.example", ALICE, UDP);
    let sent = house.bed.receive(&flow(UDP, STRANGER), &ack.text());
    assert!(sent.is_empty(), "{}", sent[0].text);
    // The INVITE that it would belong to is retargeted.
    assert_eq!(copies(&house.stranger_calls(ALICE, "")).len(), 1);
}

#[test]
fn a_caller_who_may_not_call_there_himself_is_led_there_by_the_owner() {
    let book = book()
        .permission("carol", Permission::Internal)
        .person("alice", |person| {
            person.permission = Some(Permission::National);
            person.forwards.busy = to("sip:030123@example.org");
        });
    let mut house = House::new(book);
    house.phone("alice", 11);
    let sent = house.call("carol", ALICE);
    let next = house.answer(&sent[0], 486);
    assert_eq!(
        copy(&next),
        (GATEWAY.to_owned(), format!("sip:030123@{GATEWAY}"))
    );
    assert_eq!(status(house.call("carol", "sip:030123@example.org")), 403);
}

#[test]
fn the_record_of_a_forwarded_call_names_who_pays_for_it() {
    let number = "sip:030123@example.org";
    let book = book()
        .forwards("alice", |forwards| forwards.always = to(number))
        .forwards("bob", |forwards| forwards.busy = to(number));
    let mut house = House::with(book, |settings| settings.records.is_on = true);
    house.phone("bob", 12);
    let sent = house.stranger_calls(ALICE, "");
    house.answer(&sent[0], 404);
    // A tag in To makes no dialog of it.
    let mut tagged = house.request("INVITE", "sip:mallory@far.example", ALICE, UDP);
    tagged.to.push_str(";tag=made-up");
    let mut sent = house.bed.receive(&flow(UDP, STRANGER), &tagged.text());
    sent.retain(is_copy);
    assert_eq!(copy(&sent).0, GATEWAY);
    house.answer(&sent[0], 404);
    let sent = house.call("carol", BOB);
    let sent = house.answer(&sent[0], 486);
    house.answer(&sent[0], 404);
    // Whatever is forwarded by nobody is the caller's.
    let sent = house.call("carol", number);
    house.answer(&sent[0], 404);
    let records = house.bed.records.iter();
    let told = records.map(|record| (&*record.caller_user, &*record.payer_user));
    let carol = "carol@example.org";
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            ("", "alice@example.org"),
            ("", "alice@example.org"),
            (carol, "bob@example.org"),
            (carol, "")
        ]
    );
}

#[test]
fn whoever_may_call_nobody_inside_is_retargeted_by_nobody() {
    for always in [true, false] {
        for has_phone in [true, false] {
            let book = book()
                .permission("carol", Permission::None)
                .forwards("alice", |forwards| match always {
                    true => forwards.always = to("sip:030123@example.org"),
                    false => forwards.no_answer = to("sip:030123@example.org"),
                });
            let mut house = House::new(book);
            if has_phone {
                house.phone("alice", 11);
            }
            let sent = house.call("carol", ALICE);
            saw_status(&mut house, sent, 403, Reason::NotPermitted);
            // A stranger may call her, and is.
            assert_eq!(copies(&house.stranger_calls(ALICE, "")).len(), 1);
        }
    }
}

#[test]
fn what_may_not_be_forwarded_ends_with_what_the_phones_have_said() {
    let mut house = House::new(book().person("alice", |person| {
        person.permission = Some(Permission::Internal);
        person.forwards.busy = to("sip:030123@example.org");
    }));
    house.phone("alice", 11);
    let sent = house.call("carol", ALICE);
    assert_eq!(status(house.answer(&sent[0], 486)), 486);
    house.saw(Reason::ForwardRefused);
}

#[test]
fn an_address_that_nobody_may_name_is_not_reached_by_a_forward() {
    for place in [
        "sip:x@127.0.0.1",
        "sip:x@203.0.113.200:5060",
        "sip:x@192.0.2.1:5070;maddr=127.0.0.1",
    ] {
        let mut house = house_where(|forwards| forwards.busy = to(place));
        // A peer might name it himself: by her it is hers to name.
        let sent = house.peer_calls(ALICE, "");
        let next = house.answer(&sent[0], 486);
        assert!(copies(&next).is_empty(), "{place}");
        assert!(next.iter().any(|sent| sent.status() >= 400));
    }
}

#[test]
fn forwards_in_a_ring_end() {
    // Over two users, without a phone ringing in between.
    let ring = book()
        .forwards("alice", |forwards| forwards.always = to(BOB))
        .forwards("bob", |forwards| forwards.always = to(ALICE));
    let mut house = House::new(ring);
    assert_eq!(status(house.call("carol", ALICE)), 482);
    house.saw(Reason::LedInCircle);
    assert!(house.bed.shard.counters().calls_diverted <= 4);

    // Over two users who are busy.
    let ring = book()
        .forwards("alice", |forwards| forwards.busy = to(BOB))
        .forwards("bob", |forwards| forwards.busy = to(ALICE));
    let mut house = House::new(ring);
    house.phone("alice", 11);
    house.phone("bob", 12);
    let mut sent = house.call("carol", ALICE);
    let mut rings = 0;
    while is_copy(&sent[0]) {
        rings += 1;
        assert!(rings < 10);
        sent = house.answer(&sent[0], 486);
    }
    assert_eq!((status(sent), rings), (486, 2), "no phone rings twice");
    house.saw(Reason::LedInCircle);
    assert_eq!(house.bed.shard.live_contexts(), 0);
}

#[test]
fn forwards_in_a_ring_over_two_servers_end() {
    let abroad = "sip:bob@203.0.113.77:5070";
    let mut house = house_where(|forwards| forwards.always = to(abroad));
    let mut sent = house.peer_calls(ALICE, "");
    // Theirs leads back to alice, with our Via below its own: what was here comes back.
    let hop = "Via: SIP/2.0/UDP 203.0.113.77:5070;branch=z9hG4bKhop\r\nVia: ";
    let back = sent[0].text.replacen("Via: ", hop, 1);
    let back = back.replacen(abroad, ALICE, 1);
    let other = flow(UDP, "203.0.113.77:5070");
    let mut again = house.bed.receive(&other, &back);
    again.retain(|sent| sent.status() != 100);
    assert_eq!(status(again), 482);
    // One that begins anew each time, as a back-to-back user agent does, has nothing but
    // Diversion to show.
    let mut times = 0;
    let mut diversion = String::new();
    loop {
        sent = house.peer_calls(ALICE, &diversion);
        if !is_copy(&sent[0]) {
            break;
        }
        times += 1;
        assert!(times < 10);
        diversion = lines_of(&sent[0], "Diversion").join("\r\n") + "\r\n";
    }
    assert_eq!((status(sent), times), (482, 4));
    house.saw(Reason::LedInCircle);
}

#[test]
fn a_ring_by_a_provider_that_tells_nothing_ends() {
    let mut house = House::new(book().person("alice", |person| {
        person.forwards.always = to("sip:+491701@example.org");
    }));
    // Each comes back as a call of its own, from the same caller, while none is answered.
    let mut rings = Vec::new();
    let refused = loop {
        let sent = only(house.peer_calls(ALICE, ""));
        if !is_copy(&sent) {
            break sent;
        }
        rings.push(sent);
        assert!(rings.len() < 20);
    };
    assert_eq!((refused.status(), rings.len()), (482, 8));
    house.saw(Reason::LedInCircle);
    // It is the ring that ends: others are forwarded.
    assert_eq!(copies(&house.stranger_calls(ALICE, "")).len(), 1);
    // Those that somebody answers are none of it, nor those that are over.
    house.answer(&rings[0], 200);
    house.answer(&rings[1], 486);
    for _ in 0..2 {
        assert_eq!(copies(&house.peer_calls(ALICE, "")).len(), 1);
    }
    assert_eq!(status(house.peer_calls(ALICE, "")), 482);
}

/// A call of somebody new from elsewhere; what becomes of it.
fn of_another(house: &mut House, nth: usize) -> Sent {
    let from = format!("sip:x{nth}@far.example");
    let request = house.request("INVITE", &from, ALICE, UDP);
    let mut sent = house.bed.receive(&flow(UDP, STRANGER), &request.text());
    sent.retain(|sent| sent.status() != 100);
    only(sent)
}

#[test]
fn strangers_of_many_names_have_no_more_forwarded_at_a_time_than_may_be() {
    let book = book()
        .forwards("alice", |forwards| {
            forwards.always = to("sip:+491701@example.org")
        })
        .forwards("bob", |forwards| {
            forwards.always = to("sip:+491702@example.org")
        });
    let mut house = House::new(book);
    let sent: Vec<Sent> = (0..100).map(|nth| of_another(&mut house, nth)).collect();
    let (out, refused): (Vec<Sent>, Vec<Sent>) = sent.into_iter().partition(is_copy);
    assert_eq!(out.len(), 32);
    assert!(refused.iter().all(|sent| sent.status() == 486));
    house.saw(Reason::UserCallsMax);
    // It is her account, and no other's.
    assert_eq!(copies(&house.stranger_calls(BOB, "")).len(), 1);
    house.answer(&out[0], 200);
    house.answer(&out[1], 404);
    assert!((100..102).all(|nth| is_copy(&of_another(&mut house, nth))));
    assert_eq!(of_another(&mut house, 102).status(), 486);
}

#[test]
fn what_is_forwarded_is_no_faster_than_its_user_may_call() {
    let forwards = |forwards: &mut Forwards| forwards.always = to("sip:+491701@example.org");
    let mut house = House::with(book().forwards("alice", forwards), |settings| {
        settings.rates.user.calls_per_s = 2;
        settings.rates.burst_s = 5;
    });
    // Though each is answered.
    for nth in 0..10 {
        let sent = of_another(&mut house, nth);
        assert!(is_copy(&sent), "{nth}");
        house.answer(&sent, 200);
    }
    assert_eq!(of_another(&mut house, 10).status(), 486);
    house.saw(Reason::RateLimited);
    // It is one rate with that of her own calls.
    let sent = house.call("alice", "sip:030123@example.org");
    saw_status(&mut house, sent, 503, Reason::RateLimited);
    assert_eq!(
        copies(&house.call("carol", "sip:030123@example.org")).len(),
        1
    );
    house.bed.wait(1_000);
    assert!(is_copy(&of_another(&mut house, 11)));
}

#[test]
fn a_forward_through_an_alias_a_rule_or_a_spelling_back_to_its_user_ends() {
    use sip_engine::numbers::Rewrite;
    for (place, name) in [
        ("sip:desk@example.org", "desk"),
        // One number in three spellings.
        ("sip:+4930555@example.org", "+4930555"),
        ("sip:0049-30-555@example.org", "030555"),
        // A rule makes an alias of it.
        ("sip:77@example.org", "+4977"),
        ("sip:alice@example.org", "other"),
        ("sip:alice@192.0.2.1", "other"),
    ] {
        for when in 0..3 {
            let book =
                book()
                    .alias(name, &[(ALICE, 1_000)])
                    .forwards("alice", |forwards| match when {
                        0 => forwards.always = to(place),
                        1 => forwards.busy = to(place),
                        _ => forwards.no_answer = to(place),
                    });
            let mut house = House::with(book, |settings| {
                let rule = Rewrite::new("77", "+4977").unwrap();
                settings.numbers.rewrites.push(rule);
            });
            if when > 0 {
                house.phone("alice", 11);
            }
            let mut sent = house.call("carol", ALICE);
            let mut rings = 0;
            while is_copy(&sent[0]) {
                rings += 1;
                assert!(rings < 3, "{place}");
                let said = if when == 1 { 486 } else { 480 };
                sent = house.answer(&sent[0], said);
            }
            let expected = [482, 486, 480][when];
            assert_eq!(status(sent), expected, "{place} {when}");
            assert_eq!(rings, usize::from(when > 0), "{place}");
            assert_eq!(house.bed.shard.live_contexts(), 0);
        }
    }
}

#[test]
fn a_call_is_led_from_one_to_the_next_and_each_is_named() {
    let book = book()
        .forwards("alice", |forwards| forwards.always = to(BOB))
        .forwards("bob", |forwards| {
            forwards.busy = to("sip:carol@example.org")
        });
    let mut house = House::new(book);
    house.phone("bob", 12);
    house.phone("carol", 13);
    let sent = house.call("dave", ALICE);
    let next = house.answer(&sent[0], 486);
    assert_eq!(copy(&next).1, "sip:carol@203.0.113.13:5060");
    assert_eq!(
        lines_of(&next[0], "Diversion"),
        [
            "Diversion: <sip:bob@example.org>;reason=user-busy;counter=1",
            "Diversion: <sip:alice@example.org>;reason=unconditional;counter=1",
        ]
    );
}

#[test]
fn members_of_a_group_are_called_at_their_phones() {
    let book = book()
        .forwards("alice", |forwards| {
            forwards.always = to("sip:030123@example.org")
        })
        .alias("sales", &[(ALICE, 1_000), (BOB, 500)]);
    let mut house = House::new(book);
    house.phone("alice", 11);
    house.phone("bob", 12);
    let sent = house.call("carol", "sip:sales@example.org");
    assert_eq!(copy(&sent).1, "sip:alice@203.0.113.11:5060");
    assert_eq!(copy(&house.answer(&sent[0], 486)).1, BOBS);
}

#[test]
fn a_redirect_server_says_where_a_call_is_forwarded_to() {
    let book = book().forwards("alice", |forwards| {
        forwards.always = to("sip:desk@far.example")
    });
    let mut house = House::with(book, |settings| {
        settings.mode = sip_engine::settings::Mode::Redirect;
    });
    let moved = only(house.call("carol", ALICE));
    assert_eq!(moved.status(), 302);
    assert!(
        moved.text.contains("Contact: <sip:desk@far.example>"),
        "{}",
        moved.text
    );
}

#[test]
fn a_stateless_server_forwards_what_always_is() {
    let book = book().forwards("alice", |forwards| forwards.always = to(BOB));
    let mut house = House::with(book, |settings| {
        settings.mode = sip_engine::settings::Mode::Stateless;
        settings.authenticate = None;
    });
    house.phone("bob", 12);
    let request = house.request("INVITE", "sip:x@far.example", ALICE, Transport::Udp);
    let sent = house.bed.receive(&alice(UDP), &request.text());
    assert_eq!(copy(&sent).1, BOBS);
}
