//! Whoever is beyond a provider: what he says in its name gets nothing that fits to the password
//! by a nonce of his, and does not have the trunk left alone.

use sip_auth::Side;

use super::called::call_in;
use super::people::{OUTSIDE, house_with};
use super::*;
use crate::house::{House, book, to};

fn asked_by(side: Side) -> Trunk {
    let mut trunk = trunk();
    trunk.credentials.as_mut().unwrap().asked_by = Some(side);
    trunk
}

/// Alice calls; the copy that the provider gets.
fn call(bed: &mut Bed, name: &str) -> Sent {
    let mut request = invite(UDP);
    request.call_id = name.to_owned();
    the(bed.receive(&alice(UDP), &request.text()), "INVITE")
}

/// A challenge comes back with these lines.
fn say(bed: &mut Bed, sent: &Sent, status: u16, lines: &str) -> Vec<Sent> {
    bed.receive(&answering(sent), &response(sent, status, "x", lines))
}

/// Nothing was sent for a challenge but its ACK: it was handed to alice.
#[track_caller]
fn is_handed_on(sent: Vec<Sent>, status: u16) {
    assert_eq!(statuses(&sent), [status]);
    assert_eq!(kinds(&out(sent)), ["ACK"]);
}

#[test]
fn who_has_rung_is_past_the_provider_and_asks_for_himself() {
    for (status, is_first) in [(401, true), (407, true), (401, false), (407, false)] {
        let mut bed = Bed::new(open(UDP, trunk()));
        let mut copy = call(&mut bed, "ringing");
        if !is_first {
            copy = the(challenge(&mut bed, &copy, 407, "n1"), "INVITE");
        }
        // What has no tag, or is 100, may be the provider's own.
        bed.receive(&answering(&copy), &response(&copy, 100, "", ""));
        answer(&mut bed, &copy, 180);
        let sent = challenge(&mut bed, &copy, status, "his");
        is_handed_on(sent, status);
        assert!(events(&mut bed).is_empty());
        // The next call is not kept from the provider.
        let next = call(&mut bed, "next");
        the(challenge(&mut bed, &next, 407, "n2"), "INVITE");
    }
    // A provider that says 100 before it asks is answered.
    let mut bed = Bed::new(open(UDP, trunk()));
    let copy = call(&mut bed, "trying");
    bed.receive(&answering(&copy), &response(&copy, 100, "", ""));
    the(challenge(&mut bed, &copy, 407, "n1"), "INVITE");
}

#[test]
fn who_asks_by_the_other_header_after_the_provider_was_answered_is_another() {
    for (first, second) in [(407, 401), (401, 407)] {
        let mut bed = Bed::new(open(UDP, trunk()));
        let copy = call(&mut bed, "both");
        let copy = the(challenge(&mut bed, &copy, first, "n1"), "INVITE");
        let sent = challenge(&mut bed, &copy, second, "his");
        is_handed_on(sent, second);
        assert!(events(&mut bed).is_empty());
        assert_eq!(bed.shard.counters().trunk_challenges_passed, 1);
        let record = bed.refused.last().unwrap();
        assert_eq!(record.reason, Reason::TrunkForeignRealm);
        let told = format!("realm {REALM}, with {second} by another than the provider");
        assert!(record.detail.contains(&told), "{}", record.detail);
    }
}

#[test]
fn of_two_headers_that_of_the_status_alone_is_answered() {
    let mut bed = Bed::new(open(UDP, trunk()));
    let copy = call(&mut bed, "two");
    let lines = challenge_line(407, REALM, "n1", "") + &challenge_line(401, REALM, "his", "");
    let copy = the(say(&mut bed, &copy, 407, &lines), "INVITE");
    let line = credentials(&copy).unwrap();
    assert!(line.contains("nonce=\"n1\""), "{line}");
    assert!(!copy.text.contains("his"), "{}", copy.text);
    // Nor where it stands alone in the wrong place.
    let mut bed = Bed::new(open(UDP, trunk()));
    let copy = call(&mut bed, "wrong");
    let sent = say(&mut bed, &copy, 407, &challenge_line(401, REALM, "his", ""));
    assert!(out(sent).iter().all(|of| of.method() == "ACK"));
}

#[test]
fn a_provider_that_asks_by_one_header_is_answered_by_that_one_alone() {
    for (side, asks, other) in [(Side::Proxy, 407, 401), (Side::Registrar, 401, 407)] {
        let mut bed = Bed::new(open(UDP, asked_by(side)));
        let copy = call(&mut bed, "first");
        is_handed_on(challenge(&mut bed, &copy, other, "his"), other);
        let copy = call(&mut bed, "second");
        let copy = the(challenge(&mut bed, &copy, asks, "n1"), "INVITE");
        let call = Call::answered(&mut bed, copy);
        // Nor within the dialog, where nobody rings before he asks.
        let bye = call.sent(&mut bed, "BYE", 9);
        let sent = challenge(&mut bed, &bye, other, "his");
        assert_eq!(statuses(&sent), [other]);
        assert!(out(sent).is_empty());
    }
}

#[test]
fn what_a_stranger_says_is_answered_to_the_member() {
    // He knows what only the request had, and sends from elsewhere: what fits to his nonce goes
    // to the provider all the same.
    let mut bed = Bed::new(open(UDP, trunk()));
    let copy = call(&mut bed, "stranger");
    let line = challenge_line(407, REALM, "his", "");
    let text = response(&copy, 407, "x", &line);
    let stranger = flow(UDP, "198.51.100.66:5060");
    let sent = bed.receive(&stranger, &text);
    for of in &sent {
        assert_ne!(of.to.remote, stranger.remote, "{}", of.text);
    }
    let again = the(sent, "INVITE");
    assert_eq!(again.to.remote.to_string(), PROVIDER);
    // What was not asked is not answered, wherever it comes from.
    let forged = text.replace(&copy.branch(), "z9hG4bKnone");
    for source in [PROVIDER, "198.51.100.66:5060"] {
        let sent = bed.receive(&flow(UDP, source), &forged);
        assert!(sent.iter().all(|of| credentials(of).is_none()));
    }
}

#[test]
fn a_flood_of_challenges_is_answered_once() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(open(transport, trunk()));
        let first = the(
            bed.receive(&alice(transport), &invite(transport).text()),
            "INVITE",
        );
        let again = the(challenge(&mut bed, &first, 407, "n1"), "INVITE");
        for nonce in 0..100 {
            let sent = challenge(&mut bed, &first, 407, &format!("flood-{nonce}"));
            assert!(statuses(&sent).is_empty(), "alice does not hear of it");
            let kinds = kinds(&out(sent));
            assert!(kinds.iter().all(|kind| kind == "ACK"), "{kinds:?}");
        }
        // The call goes on as it was.
        assert_eq!(statuses(&answer(&mut bed, &again, 200)), [200]);
        assert!(events(&mut bed).is_empty());
        let counters = bed.shard.counters();
        assert_eq!(counters.trunk_challenges_answered, 1);
        assert_eq!(counters.trunk_credentials_refused, 0);
    }
}

#[test]
fn within_a_dialog_a_stale_nonce_is_answered_three_times_at_most() {
    let mut bed = Bed::new(open(UDP, trunk()));
    let call = Call::new(&mut bed, UDP);
    for method in ["BYE", "INFO", "INVITE"] {
        let mut last = call.sent(&mut bed, method, 20);
        let mut rounds = 0;
        let sent = loop {
            let nonce = format!("{method}-{rounds}");
            let line = challenge_line(407, REALM, &nonce, ", stale=true");
            let sent = say(&mut bed, &last, 407, &line);
            let again = |of: &Sent| of.status() == 0 && of.method() == method;
            match sent.iter().find(|of| again(of)) {
                Some(of) => last = the_same(of),
                None => break sent,
            }
            rounds += 1;
        };
        assert!((1..=3).contains(&rounds), "{method} {rounds}");
        assert_eq!(statuses(&sent), [503], "{method}");
    }
    assert!(events(&mut bed).is_empty());
}

#[test]
fn a_password_that_was_taken_is_not_left_alone_because_of_one_who_is_called() {
    let shared = Arc::new(SharedGateways::default());
    let mut bed = Bed::with_gateways(open(UDP, trunk()), &shared);
    // Calls that the provider takes, and then the one who is called refuses the password that he
    // never had, in its name.
    let mut nth = 0;
    let mut attempt = |bed: &mut Bed, is_his: bool| {
        nth += 1;
        let copy = call(bed, &format!("call-{nth}"));
        let more = challenge_line(407, REALM, &format!("n{nth}"), ", stale=true");
        let copy = the(say(bed, &copy, 407, &more), "INVITE");
        match is_his {
            true => statuses(&challenge(bed, &copy, 407, &format!("his-{nth}"))),
            false => statuses(&answer(bed, &copy, 200)),
        }
    };
    assert_eq!(attempt(&mut bed, false), [200]);
    for _ in 0..3 {
        assert_eq!(attempt(&mut bed, true), [503]);
        assert_eq!(attempt(&mut bed, true), [503]);
        assert!(events(&mut bed).is_empty());
        assert_eq!(attempt(&mut bed, false), [200]);
    }
    // Three in a row are believed: the provider may have another password by now.
    assert_eq!(attempt(&mut bed, true), [503]);
    assert_eq!(attempt(&mut bed, true), [503]);
    assert!(events(&mut bed).is_empty());
    assert_eq!(attempt(&mut bed, true), [503]);
    let for_ms = 30_000;
    assert_eq!(events(&mut bed), [TrunkEvent::PasswordRefused { for_ms }]);
}

#[test]
fn who_is_called_and_asks_in_the_providers_name_does_not_end_what_goes_ahead() {
    let mut bed = Bed::new(open(UDP, trunk()));
    let copy = call(&mut bed, "first");
    let copy = the(challenge(&mut bed, &copy, 407, "n1"), "INVITE");
    answer(&mut bed, &copy, 200);
    for name in ["his-1", "his-2"] {
        let copy = call(&mut bed, name);
        assert!(credentials(&copy).is_some());
        let copy = the(challenge(&mut bed, &copy, 407, name), "INVITE");
        answer(&mut bed, &copy, 486);
    }
    let mut asked = 0;
    loop {
        let copy = call(&mut bed, &format!("asked-{asked}"));
        if credentials(&copy).is_some() {
            answer(&mut bed, &copy, 200);
            break;
        }
        asked += 1;
        assert!(asked < 1_000, "each call is asked for ever");
        let sent = challenge(&mut bed, &copy, 407, &format!("m{asked}"));
        answer(&mut bed, &the(sent, "INVITE"), 200);
    }
    assert_eq!(asked, 99);
    assert!(credentials(&call(&mut bed, "next")).is_some());
}

/// A reload: the trunk has another password, and this member alone.
fn renew(bed: &mut Bed, member: &str) {
    let mut renewed = trunk();
    let password = Password::new("herring".to_owned());
    renewed.credentials.as_mut().unwrap().password = password;
    let settings = with_members(UDP, renewed, &[member]);
    bed.act(|shard, _, _| shard.reload(Arc::new(settings)));
}

#[test]
fn a_challenge_to_the_password_of_before_gets_nothing_that_fits_to_that_of_now() {
    let mut bed = Bed::new(open(UDP, trunk()));
    let first = call(&mut bed, "before");
    let second = call(&mut bed, "before-too");
    let second = the(challenge(&mut bed, &second, 407, "n1"), "INVITE");
    // And the provider is elsewhere.
    renew(&mut bed, SECOND);
    for (copy, nonce) in [(first, "n2"), (second, "n3")] {
        let sent = challenge(&mut bed, &copy, 407, nonce);
        assert_eq!(statuses(&sent), [503]);
        assert_eq!(kinds(&out(sent)), ["ACK"]);
    }
    // Nor is it held against that.
    assert!(events(&mut bed).is_empty());
    let copy = call(&mut bed, "after");
    assert_eq!(copy.to.remote.to_string(), SECOND);
    the(challenge(&mut bed, &copy, 407, "n4"), "INVITE");
}

#[test]
fn a_call_of_before_takes_nothing_that_fits_to_the_password_of_now_to_its_next_member() {
    let silent = "203.0.113.7:5070";
    let mut bed = Bed::new(with_members(UDP, trunk(), &[silent, PROVIDER]));
    let mut request = invite(UDP);
    request.call_id = "before".to_owned();
    let sent = bed.receive(&alice(UDP), &request.text());
    let is_there = |of: &Sent| of.to.remote.to_string() == silent;
    assert!(sent.iter().any(is_there), "{:?}", kinds(&sent));
    renew(&mut bed, SECOND);
    // The provider of now has asked, and what it asked with goes ahead.
    let copy = call(&mut bed, "after");
    let copy = the(challenge(&mut bed, &copy, 407, "n1"), "INVITE");
    answer(&mut bed, &copy, 200);
    let copy = call(&mut bed, "ahead");
    assert!(credentials(&copy).is_some());
    answer(&mut bed, &copy, 200);
    let mut sent = bed.wait(10_000);
    sent.retain(|of| of.to.remote.to_string() == PROVIDER);
    let copy = sent.first().unwrap();
    assert_eq!(
        (copy.method().as_str(), credentials(copy)),
        ("INVITE", None)
    );
    let sent = challenge(&mut bed, copy, 407, "n2");
    assert_eq!(statuses(&sent), [503]);
    assert_eq!(kinds(&out(sent)), ["ACK"]);
    assert!(events(&mut bed).is_empty());
}

#[test]
fn a_call_of_before_says_nothing_of_the_password_of_now() {
    let mut bed = Bed::new(open(UDP, trunk()));
    let before = call(&mut bed, "before");
    let before = the(challenge(&mut bed, &before, 407, "n1"), "INVITE");
    renew(&mut bed, PROVIDER);
    let copy = call(&mut bed, "after");
    let copy = the(challenge(&mut bed, &copy, 407, "n2"), "INVITE");
    assert_eq!(statuses(&challenge(&mut bed, &copy, 407, "n3")), [503]);
    let for_ms = 30_000;
    assert_eq!(events(&mut bed), [TrunkEvent::PasswordRefused { for_ms }]);
    // What the provider has taken was the other.
    assert_eq!(statuses(&answer(&mut bed, &before, 200)), [200]);
    let mut next = invite(UDP);
    next.call_id = "next".to_owned();
    let sent = bed.receive(&alice(UDP), &next.text());
    assert_eq!(statuses(&sent).last(), Some(&503));
    assert!(out(sent).is_empty());
}

const FIRST: &str = "203.0.113.30:5070";
const FIRSTS_REALM: &str = "first.example";

/// A house with two trunks: a call by the first is forwarded over the second.
fn between() -> House {
    let mut first = Trunk {
        name: "first".into(),
        domain: "first.example".into(),
        ..trunk()
    };
    first.numbers.users = vec![("+4930104".into(), "dave".into())];
    let credentials = first.credentials.as_mut().unwrap();
    credentials.realm = FIRSTS_REALM.into();
    credentials.user = "f4930100".into();
    let book = book().forwards("dave", |forwards| forwards.always = to(OUTSIDE));
    house_with(book, trunk(), |settings| {
        settings.routes.groups.push(GatewayGroup {
            name: "first".into(),
            gateways: vec![crate::house::gateway(FIRST)],
            trunk: Some(Arc::new(first)),
            ..GatewayGroup::default()
        });
    })
}

fn to_first(sent: Vec<Sent>) -> Sent {
    let is_firsts = |of: &Sent| of.to.remote.to_string() == FIRST;
    let mut sent: Vec<Sent> = sent.into_iter().filter(is_firsts).collect();
    sent.retain(|of| of.status() != 100);
    only(sent)
}

#[test]
fn of_a_call_between_two_providers_each_has_its_own_password() {
    let mut bed = between().bed;
    let from_first = flow(UDP, FIRST);
    let mut invite = call_in("sip:+4930104@192.0.2.1", "<sip:x@y>", UDP);
    invite.via = invite.via.replace(PROVIDER, FIRST);
    invite.more = format!("Contact: <sip:gw@{FIRST}>\r\n");
    invite.cseq = 3;
    let copy = the(bed.receive(&from_first, &invite.text()), "INVITE");
    assert_eq!(copy.uri(), "sip:+4989555@provider.example");
    assert_eq!(cseq(&copy), "12 INVITE");
    let copy = the(challenge(&mut bed, &copy, 407, "n1"), "INVITE");
    assert!(credentials(&copy).unwrap().contains("p4930100"));
    let ok = to_first(answer(&mut bed, &copy, 200));
    assert_eq!((ok.status(), cseq(&ok).as_str()), (200, "3 INVITE"));

    // The first acknowledges, and asks for something; the second is the one who challenges.
    let mut routes = ok.all(HeaderName::RecordRoute);
    routes.reverse();
    let firsts = |method: &str, cseq: u32, more: &str| {
        let mut request = request(method, &format!("sip:gw@{PROVIDER};transport=udp"), UDP);
        request.via = request.via.replace("198.51.100.1:5060", FIRST);
        request.from = ok.header(HeaderName::From).unwrap();
        request.to = ok.header(HeaderName::To).unwrap();
        request.call_id = ok.header(HeaderName::CallId).unwrap();
        request.cseq = cseq;
        for route in &routes {
            request = request.with(&format!("Route: {route}\r\n"));
        }
        request.with(more)
    };
    let sent = bed.receive(&from_first, &firsts("ACK", 3, "").text());
    assert_eq!(cseq(&the(sent, "ACK")), "13 ACK");
    let info = firsts("INFO", 4, "");
    let info = the(bed.receive(&from_first, &info.text()), "INFO");
    assert_eq!(cseq(&info), "16 INFO");
    let info = the(challenge(&mut bed, &info, 407, "n2"), "INFO");
    let line = credentials(&info).unwrap();
    assert!(line.contains("realm=\"provider.example\""), "{line}");
    let answered = to_first(answer(&mut bed, &info, 200));
    assert_eq!(cseq(&answered), "4 INFO");

    // The second asks for something; the first challenges, by its own realm and by no other.
    let seconds = |method: &str, cseq: u32, more: &str| {
        let mut request = request(method, &format!("sip:gw@{FIRST}"), UDP);
        request.via = request.via.replace("198.51.100.1:5060", PROVIDER);
        request.from = format!("{};tag=p", copy.header(HeaderName::To).unwrap());
        request.to = copy.header(HeaderName::From).unwrap();
        request.call_id = copy.header(HeaderName::CallId).unwrap();
        request.cseq = cseq;
        for route in copy.all(HeaderName::RecordRoute) {
            request = request.with(&format!("Route: {route}\r\n"));
        }
        request.with(more)
    };
    let from_second = flow(UDP, PROVIDER);
    let info = to_first(bed.receive(&from_second, &seconds("INFO", 7, "").text()));
    assert_eq!(
        (cseq(&info).as_str(), credentials(&info)),
        ("28 INFO", None)
    );
    let line = challenge_line(407, REALM, "m0", "");
    let sent = bed.receive(&answering(&info), &response(&info, 407, "x", &line));
    assert_eq!(kinds(&out(sent)), ["407"], "that is not its realm");
    let bye = to_first(bed.receive(&from_second, &seconds("BYE", 8, "").text()));
    assert_eq!(cseq(&bye), "32 BYE");
    let line = challenge_line(407, FIRSTS_REALM, "m1", "");
    let bye = to_first(bed.receive(&answering(&bye), &response(&bye, 407, "x", &line)));
    assert_eq!(cseq(&bye), "33 BYE");
    let line = credentials(&bye).unwrap();
    for part in ["f4930100", "realm=\"first.example\"", "nonce=\"m1\""] {
        assert!(line.contains(part), "{line}");
    }
    let sent = bed.receive(&answering(&bye), &response(&bye, 200, "x", ""));
    let ok = only(out(sent));
    assert_eq!((ok.status(), cseq(&ok).as_str()), (200, "8 BYE"));
    bed.wait(100_000);
    assert_eq!(bed.shard.in_flight(), 0);
}

#[test]
fn a_refer_between_two_providers_is_named_as_each_has_sent_it() {
    let mut bed = between().bed;
    let from_first = flow(UDP, FIRST);
    let mut invite = call_in("sip:+4930104@192.0.2.1", "<sip:x@y>", UDP);
    invite.via = invite.via.replace(PROVIDER, FIRST);
    invite.more = format!("Contact: <sip:gw@{FIRST}>\r\n");
    let copy = the(bed.receive(&from_first, &invite.text()), "INVITE");
    let ok = to_first(answer(&mut bed, &copy, 200));
    assert_eq!(ok.status(), 200);
    let seconds = |method: &str, cseq: u32, more: &str| {
        let mut request = request(method, &format!("sip:gw@{FIRST}"), UDP);
        request.via = request.via.replace("198.51.100.1:5060", PROVIDER);
        request.from = format!("{};tag=p", copy.header(HeaderName::To).unwrap());
        request.to = copy.header(HeaderName::From).unwrap();
        request.call_id = copy.header(HeaderName::CallId).unwrap();
        request.cseq = cseq;
        for route in copy.all(HeaderName::RecordRoute) {
            request = request.with(&format!("Route: {route}\r\n"));
        }
        request.with(more)
    };
    let from_second = flow(UDP, PROVIDER);
    // The second's REFER 5 is 20 at the first; what came of the first's REFER 6, which the second
    // knows as 24, is told as 6.
    for (method, written, comes) in [("SUBSCRIBE", 5, 20), ("NOTIFY", 24, 6)] {
        let event = format!("Event: refer;id={written}\r\n");
        let request = seconds(method, 9, &event);
        let sent = to_first(bed.receive(&from_second, &request.text()));
        let event = format!("Event: refer;id={comes}\r\n");
        assert!(sent.text.contains(&event), "{}", sent.text);
    }
}
