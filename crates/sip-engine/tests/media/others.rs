//! The media of others: whoever sends what stands in the messages of a call, as himself or with the
//! token that he was given when it rang, has a call of his own at the engine.

use std::sync::Arc;

use sip_engine::settings::{Inbound, MediaUse};
use sip_msg::{Flow, HeaderName};

use super::bed::*;
use crate::common::*;
use crate::house::{House, PEER, STRANGER, book};

const ANONYMOUS: &str = "<sip:anonymous@anonymous.invalid>;tag=v";
const SALES: &str = "sip:sales@example.org";

/// Two phones ring for sales, and an engine leads every call.
fn house(inbound: Inbound) -> House {
    let mut house = House::with(book(), |settings| {
        settings.inbound = inbound;
        settings.media = Some(Arc::new(media(MediaUse::Always)));
    });
    for host in [1, 2] {
        let contact = format!("sip:sales@203.0.113.{host}:5060");
        house.bed.register(SALES, &contact, None);
    }
    house
}

/// An INVITE to sales with a Call-ID that others know.
fn known_invite(from: &str, who: &str) -> Request {
    let mut invite = request("INVITE", SALES, UDP).with("Content-Type: application/sdp\r\n");
    invite.from = from.to_owned();
    invite.to = format!("<{SALES}>");
    invite.call_id = "victim".to_owned();
    invite.body = sdp(who);
    invite
}

/// What the engine calls a call, once the first phone has answered it; what the second one got.
fn answered(bed: &mut Bed) -> (Box<[u8]>, Sent) {
    let mut copies = Vec::new();
    for offer in all_asked(bed) {
        copies.push(only(give(bed, offer, &led("victim"))));
    }
    respond(bed, &copies[0], 200, &sdp("sales"));
    let of_answer = asked(bed);
    let own = of_answer.ask.call_id.clone();
    give(bed, of_answer, &led("sales"));
    all_asked(bed);
    (own, copies.remove(1))
}

/// What the engine is to call what was asked for last, for each target.
fn names(bed: &mut Bed) -> Vec<Box<[u8]>> {
    let all = all_asked(bed);
    assert!(!all.is_empty(), "it has an engine");
    all.into_iter().map(|of| of.ask.call_id).collect()
}

#[test]
fn who_hides_like_another_has_a_call_of_his_own_at_the_engine() {
    let mut house = house(Inbound::Trusted);
    house.signed(&alice(UDP), "alice", known_invite(ANONYMOUS, "victim"));
    let (own, _) = answered(&mut house.bed);
    let at = flow(UDP, "203.0.113.2:5060");
    house.signed(&at, "mallory", known_invite(ANONYMOUS, "mallory"));
    let names = names(&mut house.bed);
    assert!(!names.contains(&own));
    assert!(names.iter().all(|name| name.starts_with(b"victim;")));
}

#[test]
fn a_stranger_in_the_name_of_another_has_a_call_of_his_own_at_the_engine() {
    let from = "<sip:+4930100@provider.example>;tag=v";
    let mut house = house(Inbound::Anyone);
    let send = |house: &mut House, at: &str, who: &str| {
        let text = known_invite(from, who).text();
        house.bed.receive(&flow(UDP, at), &text);
    };
    send(&mut house, PEER, "victim");
    let (own, _) = answered(&mut house.bed);
    // Even from the same place: the source of a datagram is no proof.
    for at in [STRANGER, PEER] {
        send(&mut house, at, "mallory");
        assert!(!names(&mut house.bed).contains(&own), "{at}");
    }
}

#[test]
fn the_token_of_a_phone_that_rang_in_vain_leads_to_nobody_elses_media() {
    let mut house = house(Inbound::Trusted);
    house.signed(&alice(UDP), "alice", known_invite(ANONYMOUS, "victim"));
    let (own, in_vain) = answered(&mut house.bed);
    let at: Flow = answering(&in_vain);
    let routes = in_vain.all(HeaderName::RecordRoute);
    let route: String = routes
        .iter()
        .map(|value| format!("Route: {value}\r\n"))
        .collect();
    for method in ["INVITE", "UPDATE"] {
        let mut within = request(method, "sip:alice@198.51.100.1:5060", UDP)
            .with(&route)
            .with("Content-Type: application/sdp\r\n");
        within.via = within.via.replace("198.51.100.1", "203.0.113.2");
        within.from = format!("<{SALES}>;tag=m");
        within.to = ANONYMOUS.to_owned();
        within.call_id = "victim".to_owned();
        within.body = sdp("mallory");
        house.bed.receive(&at, &within.text());
        let names = names(&mut house.bed);
        assert!(!names.contains(&own), "{method}");
    }
}
