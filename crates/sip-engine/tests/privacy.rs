//! Callers who hide: they are let in by their passwords, and their names go to nobody who is not
//! trusted.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use crate::house::*;
use sip_engine::numbers::Permission;
use sip_engine::refusal::Reason;
use sip_engine::settings::Inbound;

const HIDDEN: &str = "sip:anonymous@anonymous.invalid";
const BOB: &str = "sip:bob@example.org";
const NUMBER: &str = "sip:030123@example.org";

fn hidden(house: &mut House, uri: &str) -> Request {
    let request = house.request("INVITE", HIDDEN, uri, UDP);
    request.with("Privacy: id\r\n")
}

fn closed() -> House {
    House::with(
        book().permission("internal", Permission::Internal),
        |settings| {
            settings.inbound = Inbound::Trusted;
        },
    )
}

#[test]
fn a_user_who_hides_is_asked_and_let_in_over_every_transport() {
    for transport in TRANSPORTS {
        let mut house = closed();
        house.phone("bob", 9);
        for uri in [BOB, NUMBER, "sip:x@203.0.113.77"] {
            let request = house.request("INVITE", HIDDEN, uri, transport);
            let (_, mut sent) = house.signed(&alice(transport), "alice", request);
            house.saw(Reason::AnonymousCaller);
            sent.retain(|sent| sent.status() != 100);
            let copy = only(sent);
            assert_eq!(copy.method(), "INVITE");
            // Nothing of who it is leaves with it.
            assert!(
                copy.text
                    .contains("\r\nFrom: <sip:anonymous@anonymous.invalid>;tag=a\r\n")
            );
            assert!(!copy.text.contains("username"), "{}", copy.text);
        }
    }
}

#[test]
fn who_has_no_password_is_nobody_however_he_hides() {
    let mut house = closed();
    house.phone("bob", 9);
    let request = hidden(&mut house, BOB);
    let (_, sent) = house.signed_with(&alice(UDP), "alice", "wrong", request);
    let mut sent = sent;
    sent.extend(house.bed.wait(5_000));
    assert!(copies(&sent).is_empty());
    house.saw(Reason::WrongPassword);
    // Credentials of another realm are no credentials.
    let theirs = "Proxy-Authorization: Digest username=\"alice\", realm=\"far.example\", nonce=\"x\", \
                  uri=\"sip:bob@example.org\", response=\"6629fae49393a05397450978507c4ef1\"\r\n";
    let request = hidden(&mut house, BOB).with(theirs);
    let refused = only(house.bed.receive(&alice(UDP), &request.text()));
    assert_eq!(refused.status(), 407);
    // An ACK cannot be asked.
    let mut ack = hidden(&mut house, BOB);
    ack.method = "ACK".to_owned();
    assert!(house.bed.receive(&alice(UDP), &ack.text()).is_empty());
    // Nor does anybody register so.
    let mut register = house.request("REGISTER", HIDDEN, "sip:example.org", UDP);
    register.to = format!("<{BOB}>");
    let refused = only(house.bed.receive(&alice(UDP), &register.text()));
    assert_eq!(refused.status(), 401);
}

#[test]
fn who_hides_may_no_more_than_who_does_not() {
    let mut house = closed();
    let request = hidden(&mut house, NUMBER);
    let (_, mut sent) = house.signed(&alice(UDP), "internal", request);
    sent.retain(|sent| sent.status() != 100);
    assert_eq!(status(sent), 403);
    house.saw(Reason::NotPermitted);
    // And asserts no other identity.
    let claim = "P-Asserted-Identity: <sip:bob@example.org>\r\n";
    let request = hidden(&mut house, BOB).with(claim);
    let (_, sent) = house.signed(&alice(UDP), "alice", request);
    assert_eq!(status(sent), 403);
    house.saw(Reason::NotHimself);
    // His own is cut, as a user's is.
    house.phone("bob", 9);
    let own = "P-Asserted-Identity: <sip:alice@example.org>\r\n";
    let request = hidden(&mut house, BOB).with(own);
    let (_, mut sent) = house.signed(&alice(UDP), "alice", request);
    sent.retain(|sent| sent.status() != 100);
    assert!(lines_of(&only(sent), "P-Asserted-Identity").is_empty());
}

#[test]
fn who_hides_shows_nothing_in_the_place_of_his_name() {
    for (inbound, refused) in [(Inbound::Trusted, 403), (Inbound::Anyone, 480)] {
        for user in [
            "+4930999",
            "%2B4930999",
            "bob",
            "anonymous;+4930999",
            "anonymous:+4930999",
        ] {
            let mut house = House::with(book(), |settings| settings.inbound = inbound);
            let request = hidden(&mut house, NUMBER);
            let challenge = only(house.bed.receive(&alice(UDP), &request.text()));
            assert_eq!(challenge.status(), 407);
            // A digest says nothing of From.
            let from = format!("sip:{user}@anonymous.invalid");
            let request = house.request("INVITE", &from, NUMBER, UDP);
            let line = credentials(&challenge, &request, "alice", "alice");
            let mut sent = house.bed.receive(&alice(UDP), &request.with(&line).text());
            sent.extend(house.look_up());
            sent.retain(|sent| sent.status() != 100);
            assert_eq!(status(sent), refused, "{inbound:?} {user}");
        }
    }
    for from in [
        "sip:anonymous.invalid",
        "sip:%61nonymous@anonymous.invalid",
        "sip:Anonymous@ANONYMOUS.INVALID",
    ] {
        let mut house = closed();
        let request = house.request("INVITE", from, NUMBER, UDP);
        let (_, sent) = house.signed(&alice(UDP), "alice", request);
        assert_eq!(copies(&sent).len(), 1, "{from}");
    }
}

#[test]
fn where_strangers_are_let_in_whoever_hides_is_asked_only_for_what_users_may() {
    let mut house = House::new(book());
    house.phone("bob", 9);
    // To a user he is a stranger like another.
    let request = hidden(&mut house, BOB);
    let mut sent = house.bed.receive(&alice(UDP), &request.text());
    sent.retain(|sent| sent.status() != 100);
    assert_eq!(only(sent).uri(), "sip:bob@203.0.113.9:5060");
    // A number is for users, and he may be one.
    let request = hidden(&mut house, NUMBER);
    let (_, mut sent) = house.signed(&alice(UDP), "alice", request);
    sent.retain(|sent| sent.status() != 100);
    assert_eq!(only(sent).to.remote.to_string(), GATEWAY);
    // Who does not hide is told what a stranger is told.
    let refused = house.stranger_calls(NUMBER, "");
    assert!(refused.iter().all(|sent| sent.status() != 407));
}

#[test]
fn an_identity_that_is_to_be_kept_goes_to_trusted_neighbours_alone() {
    let asserted = "P-Asserted-Identity: \"Al\" <sip:+4912@far.example>\r\n\
                    P-Asserted-Identity: <tel:+4912>\r\nRemote-Party-ID: <sip:+4912@far.example>\r\n";
    for (privacy, is_kept) in [
        ("Privacy: id\r\n", true),
        ("Privacy: header;ID\r\n", true),
        ("", false),
        ("Privacy: none\r\n", false),
    ] {
        let book = book().alias("desk", &[("sip:desk@203.0.113.77", 1_000)]);
        let mut house = House::new(book);
        house.phone("bob", 9);
        for (uri, is_trusted) in [
            (BOB, false),
            ("sip:x@203.0.113.77", false),
            ("sip:desk@example.org", false),
            (NUMBER, true),
            ("sip:x@198.51.100.200:5080", true),
        ] {
            let more = format!("{asserted}{privacy}");
            let sent = only(house.peer_calls(uri, &more));
            let shown = lines_of(&sent, "P-Asserted-Identity").len()
                + lines_of(&sent, "Remote-Party-ID").len();
            let expected = if is_kept && !is_trusted { 0 } else { 3 };
            assert_eq!(shown, expected, "{privacy} {uri}\n{}", sent.text);
            // The wish goes on with it.
            assert_eq!(lines_of(&sent, "Privacy").is_empty(), privacy.is_empty());
        }
    }
}

#[test]
fn one_who_says_it_by_an_older_header_alone_is_kept_as_well() {
    let more = "Remote-Party-ID: <sip:+4912@far.example>\r\nPrivacy: id\r\n";
    let mut house = House::new(book());
    house.phone("bob", 9);
    for (uri, shown) in [(BOB, 0), (NUMBER, 1)] {
        let sent = only(house.peer_calls(uri, more));
        assert_eq!(lines_of(&sent, "Remote-Party-ID").len(), shown, "{uri}");
    }
}

#[test]
fn who_answers_may_hide_too() {
    let named = "Contact: <sip:x@203.0.113.200>\r\nP-Asserted-Identity: <tel:+4930>\r\n";
    for (privacy, is_kept) in [("Privacy: id\r\n", true), ("", false)] {
        for status in [180, 200] {
            let mut house = House::new(book());
            let more = format!("{named}{privacy}");
            for is_peer in [false, true] {
                let sent = match is_peer {
                    false => house.call("alice", NUMBER),
                    true => house.peer_calls(NUMBER, ""),
                };
                let text = response(&sent[0], status, "b", &more);
                let back = house.bed.receive(&answering(&sent[0]), &text);
                let back = back.into_iter().find(|sent| sent.status() == status);
                let shown = lines_of(&back.unwrap(), "P-Asserted-Identity").len();
                assert_eq!(
                    shown,
                    usize::from(is_peer || !is_kept),
                    "{privacy} {status}"
                );
            }
        }
    }
}

#[test]
fn who_hides_is_asked_wherever_he_calls() {
    for uri in ["tel:+4930123", "sip:x@203.0.113.77"] {
        let mut house = House::new(book());
        let request = hidden(&mut house, uri);
        let (_, mut sent) = house.signed(&alice(UDP), "alice", request);
        sent.retain(|sent| sent.status() != 100);
        assert_eq!(copies(&sent).len(), 1, "{uri}");
    }
}

#[test]
fn so_it_is_without_state() {
    let more = "P-Asserted-Identity: <sip:+4912@far.example>\r\nPrivacy: id\r\n";
    for (uri, shown) in [(BOB, 0), (NUMBER, 1)] {
        let mut house = House::with(book(), |settings| {
            settings.mode = sip_engine::settings::Mode::Stateless;
            settings.authenticate = None;
        });
        house.phone("bob", 9);
        let request = house
            .request("MESSAGE", "sip:+4912@far.example", uri, UDP)
            .with(more);
        let sent = only(house.bed.receive(&flow(UDP, PEER), &request.text()));
        assert_eq!(lines_of(&sent, "P-Asserted-Identity").len(), shown, "{uri}");
    }
}
