//! Dialogs that move, fork, refer, end, outlive a restart and share a
//! connection: their requests pass without a challenge, and others do not.

#![allow(clippy::unwrap_used, clippy::panic)]

mod connections;
mod refused;

use std::sync::Arc;

use crate::common::*;
use sip_engine::Shard;
use sip_engine::settings::{AuthSettings, Mode, Settings, TrustedPeer};
use sip_engine::token::TokenKeys;
use sip_msg::{ConnId, Flow, HeaderName, Transport};

const ALICE: &str = "<sip:alice@example.org>;tag=a";
const BOB: &str = "<sip:bob@example.org>;tag=b";
const ALICES: &str = "sip:alice@198.51.100.1:5060";
const BOBS: &str = "sip:bob@203.0.113.9:5060";

fn secured() -> Settings {
    Settings {
        authenticate: Some(AuthSettings::default()),
        ..settings()
    }
}

/// A server at which alice needs no password for as long as calls begin.
fn bed() -> Bed {
    bed_with(Arc::new(TokenKeys::of([4; 32], 1)))
}

fn bed_with(keys: Arc<TokenKeys>) -> Bed {
    let mut bed = Bed::with_keys(trusting(), keys);
    bed.register("sip:bob@example.org", BOBS, None);
    bed
}

fn trusting() -> Settings {
    Settings {
        trusted: vec![TrustedPeer::at("198.51.100.1".parse().unwrap(), 32)],
        ..secured()
    }
}

/// From now on nobody is trusted.
fn distrust(bed: &mut Bed) {
    bed.act(|shard: &mut Shard, _, _| shard.reload(Arc::new(secured())));
}

/// A request with a Contact of its own, in the name of `from`.
fn of(method: &str, uri: &str, from: &str, to: &str, contact: &str, routes: &[String]) -> Request {
    let mut request = request(method, uri, Transport::Udp);
    (request.from, request.to) = (from.into(), to.into());
    for route in routes {
        request = request.with(&format!("Route: {route}\r\n"));
    }
    // The first Contact is the one that counts.
    request.with(&format!("Contact: <{contact}>\r\n"))
}

fn contact(uri: &str) -> String {
    format!("Contact: <{uri}>\r\n")
}

/// The routes of whoever got a request.
fn as_they_came(sent: &Sent) -> Vec<String> {
    sent.all(HeaderName::RecordRoute)
}

/// The routes of whoever got a response.
fn turned(sent: &Sent) -> Vec<String> {
    let mut routes = sent.all(HeaderName::RecordRoute);
    routes.reverse();
    routes
}

struct Call {
    /// Alice's routes, and bob's.
    alices: Vec<String>,
    bobs: Vec<String>,
}

/// Alice calls bob, who answers; then nobody is trusted any more.
fn call(bed: &mut Bed, transport: Transport, bob: Option<Flow>) -> Call {
    let mut invite = request("INVITE", "sip:bob@example.org", transport);
    invite.from = ALICE.into();
    let sent = bed.receive(&alice(transport), &invite.text());
    let copy = sent.into_iter().find(|sent| sent.status() == 0).unwrap();
    let from = bob.unwrap_or_else(|| answering(&copy));
    let ok = only(bed.receive(&from, &response(&copy, 200, "b", &contact(BOBS))));
    distrust(bed);
    Call {
        alices: turned(&ok),
        bobs: as_they_came(&copy),
    }
}

/// What the server does with a request from nowhere in particular.
fn anywhere(bed: &mut Bed, request: &Request) -> Vec<Sent> {
    bed.receive(&flow(Transport::Udp, "192.0.2.200:5060"), &request.text())
}

/// Whom a request reaches, or how it is refused.
#[track_caller]
fn outcome(bed: &mut Bed, request: &Request) -> String {
    let sent = anywhere(bed, request);
    match sent.iter().find(|sent| sent.status() == 0) {
        Some(copy) => copy.to.remote.to_string(),
        None => kinds(&sent).join(" "),
    }
}

#[test]
fn the_callers_route_is_the_callees_with_another_token() {
    let mut bed = bed();
    let call = call(&mut bed, Transport::Udp, None);
    // RFC 3261 16.6: "If the URI placed in the Record-Route header field needs to be rewritten
    // when it passes back through in a response, the URI MUST be distinct enough to locate at
    // that time." RFC 3261 16.7: "The new URI provided by the proxy MUST satisfy the same
    // constraints on URIs placed in Record-Route header fields in requests (see Step 4 of
    // Section 16.6) with the following modifications:"
    let parts = |routes: &[String]| {
        let (user, rest) = routes[0].split_once('@').unwrap();
        (user.to_owned(), rest.to_owned())
    };
    let ((alices, alices_rest), (bobs, bobs_rest)) = (parts(&call.alices), parts(&call.bobs));
    assert_ne!(alices, bobs);
    assert_eq!(
        (alices_rest.as_str(), alices_rest.as_str()),
        (bobs_rest.as_str(), "192.0.2.1:5060;lr>")
    );
}

#[test]
fn both_sides_speak_without_a_challenge_and_only_for_themselves() {
    let mut bed = bed();
    let call = call(&mut bed, Transport::Udp, None);
    for method in ["ACK", "INFO", "BYE", "MESSAGE"] {
        let alices = of(method, BOBS, ALICE, BOB, ALICES, &call.alices);
        assert_eq!(outcome(&mut bed, &alices), "203.0.113.9:5060", "{method}");
        let bobs = of(method, ALICES, BOB, ALICE, BOBS, &call.bobs);
        assert_eq!(outcome(&mut bed, &bobs), "198.51.100.1:5060", "{method}");
        let expected = if method == "ACK" { "" } else { "407" };
        let swapped = of(method, BOBS, ALICE, BOB, ALICES, &call.bobs);
        assert_eq!(outcome(&mut bed, &swapped), expected, "{method}");
        let swapped = of(method, ALICES, BOB, ALICE, BOBS, &call.alices);
        assert_eq!(outcome(&mut bed, &swapped), expected, "{method}");
    }
}

/// Credentials as long as a phone's for two algorithms.
fn credentials(name: &str) -> String {
    let rest = "x".repeat(350);
    format!("{name}: Digest username=\"alice\", realm=\"example.org\", opaque=\"{rest}\"\r\n")
}

#[test]
fn credentials_make_no_request_a_long_one() {
    // RFC 3261 13.2.2.4: "The ACK MUST contain the same credentials as the INVITE." They end
    // here, and what is sent on is no longer than that of a phone without a password.
    let mut bed = bed();
    let call = call(&mut bed, Transport::Udp, None);
    for method in ["ACK", "BYE"] {
        let long = of(method, BOBS, ALICE, BOB, ALICES, &call.alices)
            .with(&credentials("Authorization"))
            .with(&credentials("Proxy-Authorization"));
        assert!(long.text().len() > 1_100);
        let sent = only(anywhere(&mut bed, &long));
        assert_eq!(sent.to.transport, Transport::Udp, "{method}");
        assert!(sent.text.len() < 700, "{method}");
    }
}

#[test]
fn a_long_ack_reaches_a_phone_that_knows_no_stream() {
    // It has no transaction that would send the datagram where the stream fails: bob would
    // send his 2xx again and again, and hang up at last.
    let mut bed = bed();
    let call = call(&mut bed, Transport::Udp, None);
    let mut answer = of("ACK", BOBS, ALICE, BOB, ALICES, &call.alices);
    answer.body = "x".repeat(1_200);
    let sent = only(anywhere(&mut bed, &answer));
    assert_eq!(sent.to.transport, Transport::Udp);
}

#[test]
fn who_answers_with_the_callers_tag_has_no_dialog() {
    // Else he could show any place as his own, and send there as if it were hers.
    let mut bed = bed();
    let mut invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
    invite.from = ALICE.into();
    let sent = bed.receive(&alice(Transport::Udp), &invite.text());
    let copy = sent.into_iter().find(|sent| sent.status() == 0).unwrap();
    let ok = bed.receive(
        &answering(&copy),
        &response(&copy, 200, "a", &contact(BOBS)),
    );
    assert_eq!(kinds(&ok), ["200"]);
    distrust(&mut bed);
    let bobs = as_they_came(&copy);
    let (bob, carols) = ("<sip:bob@example.org>;tag=a", "sip:carol@203.0.113.77:5060");
    let update = of("UPDATE", ALICES, bob, ALICE, carols, &bobs);
    outcome(&mut bed, &update);
    let to_carol = of("MESSAGE", carols, bob, ALICE, BOBS, &bobs);
    assert_eq!(outcome(&mut bed, &to_carol), "407");
    let to_alice = of("BYE", ALICES, bob, ALICE, BOBS, &bobs);
    assert_eq!(outcome(&mut bed, &to_alice), "407");
}

#[test]
fn a_side_that_has_moved_is_found_by_the_other() {
    // RFC 3261 12.2.1.2: "When a UAC receives a 2xx response to a target refresh request, it MUST
    // replace the dialog's remote target URI with the URI from the Contact header field in that
    // response, if present."
    let (alices_new, bobs_new) = ("sip:alice@198.51.100.7:5070", "sip:bob@203.0.113.10:5062");
    for method in ["INVITE", "UPDATE"] {
        let mut bed = bed();
        let call = call(&mut bed, Transport::Udp, None);
        let to_alice = of("BYE", alices_new, BOB, ALICE, BOBS, &call.bobs);
        assert_eq!(outcome(&mut bed, &to_alice), "407");
        let mut refresh = of(method, BOBS, ALICE, BOB, alices_new, &call.alices);
        refresh.cseq = 2;
        let sent = anywhere(&mut bed, &refresh);
        let copy = sent.into_iter().find(|sent| sent.status() == 0).unwrap();
        let ok = response(&copy, 200, "b", &contact(bobs_new));
        let ok = only(bed.receive(&answering(&copy), &ok));
        assert_eq!(ok.status(), 200);
        // Each is found where it has said to be, with the routes of the beginning.
        if method == "INVITE" {
            let ack = of("ACK", bobs_new, ALICE, BOB, alices_new, &call.alices);
            assert_eq!(outcome(&mut bed, &ack), "203.0.113.10:5062");
        }
        let to_alice = of("BYE", alices_new, BOB, ALICE, bobs_new, &call.bobs);
        assert_eq!(outcome(&mut bed, &to_alice), "198.51.100.7:5070");
        let to_bob = of("BYE", bobs_new, ALICE, BOB, alices_new, &call.alices);
        assert_eq!(outcome(&mut bed, &to_bob), "203.0.113.10:5062");
        // What one side has said of itself it cannot send to.
        let to_herself = of("INFO", alices_new, ALICE, BOB, alices_new, &call.alices);
        assert_eq!(outcome(&mut bed, &to_herself), "407");
    }
}

#[test]
fn a_refused_request_moves_nobody() {
    let mut bed = bed();
    let call = call(&mut bed, Transport::Udp, None);
    let elsewhere = "sip:victim@203.0.113.77";
    let forged = of("INVITE", BOBS, ALICE, BOB, elsewhere, &[]);
    assert_eq!(outcome(&mut bed, &forged), "407");
    // And an answer to something else does not either: its branch is right, its dialog is not.
    let copy = only(anywhere(
        &mut bed,
        &of("UPDATE", BOBS, ALICE, BOB, ALICES, &call.alices),
    ));
    let lie = response(&copy, 200, "b", &contact(elsewhere)).replace("call-1", "call-2");
    bed.receive(&answering(&copy), &lie);
    for call_id in ["call-1", "call-2"] {
        let mut bye = of("BYE", elsewhere, BOB, ALICE, BOBS, &call.bobs);
        bye.call_id = call_id.into();
        assert_eq!(outcome(&mut bed, &bye), "407");
        let mut bye = of("BYE", elsewhere, ALICE, BOB, ALICES, &call.alices);
        bye.call_id = call_id.into();
        assert_eq!(outcome(&mut bed, &bye), "407");
    }
}

#[test]
fn who_answers_gets_no_token_for_another_name() {
    // Alice and who answers her are in league: the answer says that another called.
    for (what, by) in [
        ("From: <sip:alice@", "From: <sip:ceo@"),
        (
            "From: <sip:alice@example.org>;tag=a",
            "From: <sip:alice@example.org>;tag=z",
        ),
        ("To: <sip:bob@", "To: <sip:carol@"),
        ("Call-ID: call-1", "Call-ID: call-2"),
    ] {
        let mut bed = bed();
        let mut invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
        invite.from = ALICE.into();
        let copy = bed
            .receive(&alice(Transport::Udp), &invite.text())
            .remove(1);
        let ok = response(&copy, 200, "b", &contact("sip:victim@203.0.113.77"));
        let lie = ok.replace(what, by);
        assert_ne!(lie, ok);
        let got = only(bed.receive(&answering(&copy), &lie));
        assert_eq!(
            got.all(HeaderName::RecordRoute),
            copy.all(HeaderName::RecordRoute),
            "{by}"
        );
    }
}

#[test]
fn early_dialogs_of_a_forked_call_have_tokens_of_their_own() {
    let mut bed = bed();
    bed.register("sip:bob@example.org", "sip:bob@203.0.113.10:5060", None);
    let mut invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
    invite.from = ALICE.into();
    let sent = bed.receive(&alice(Transport::Udp), &invite.text());
    let mut routes = Vec::new();
    for (copy, tag) in sent
        .iter()
        .filter(|sent| sent.status() == 0)
        .zip(["x", "y"])
    {
        let uri = copy.uri().to_owned();
        let more = format!("Require: 100rel\r\nRSeq: 1\r\n{}", contact(&uri));
        let ringing = only(bed.receive(&answering(copy), &response(copy, 183, tag, &more)));
        routes.push((tag, uri, turned(&ringing)));
    }
    assert_eq!(routes.len(), 2);
    distrust(&mut bed);
    for (tag, uri, own) in &routes {
        for (other_tag, _, _) in &routes {
            let to = format!("<sip:bob@example.org>;tag={other_tag}");
            let prack = of("PRACK", uri, ALICE, &to, ALICES, own);
            let expected = if tag == other_tag {
                uri.split('@').nth(1).unwrap()
            } else {
                "407"
            };
            assert_eq!(outcome(&mut bed, &prack), expected, "{tag} {other_tag}");
        }
    }
}

#[test]
fn what_a_refer_has_begun_is_reported() {
    // Outside of a call: the NOTIFY may come before the answer, by the routes of the REFER.
    let mut bed = bed();
    let mut refer = request("REFER", "sip:bob@example.org", Transport::Udp);
    refer.from = ALICE.into();
    let copy = only(bed.receive(&alice(Transport::Udp), &refer.text()));
    distrust(&mut bed);
    let bobs = as_they_came(&copy);
    let early = of("NOTIFY", ALICES, BOB, ALICE, BOBS, &bobs);
    assert_eq!(outcome(&mut bed, &early), "198.51.100.1:5060");
    let ok = only(bed.receive(
        &answering(&copy),
        &response(&copy, 202, "b", &contact(BOBS)),
    ));
    let within = of("REFER", BOBS, ALICE, BOB, ALICES, &turned(&ok));
    assert_eq!(outcome(&mut bed, &within), "203.0.113.9:5060");
    // Within a call, and after its BYE.
    let mut bed = bed_with(Arc::new(TokenKeys::of([4; 32], 1)));
    let call = call(&mut bed, Transport::Udp, None);
    let bye = of("BYE", ALICES, BOB, ALICE, BOBS, &call.bobs);
    let copy = only(anywhere(&mut bed, &bye));
    bed.receive(&answering(&copy), &response(&copy, 200, "a", ""));
    bed.wait(60_000);
    let report = of("NOTIFY", ALICES, BOB, ALICE, BOBS, &call.bobs);
    assert_eq!(outcome(&mut bed, &report), "198.51.100.1:5060");
    bed.wait(300_000);
    let late = of("NOTIFY", ALICES, BOB, ALICE, BOBS, &call.bobs);
    assert_eq!(outcome(&mut bed, &late), "407");
}

#[test]
fn two_servers_in_a_row_keep_a_dialog_each_by_its_own_token() {
    let mut first = Bed::with_keys(
        Settings {
            forward: Some(next_hop(Transport::Udp, "203.0.113.1:5060")),
            domains: vec!["example.com".into()],
            ..trusting()
        },
        Arc::new(TokenKeys::of([1; 32], 1)),
    );
    let mut settings = trusting();
    for listener in &mut settings.listeners {
        listener.bound.set_ip("203.0.113.1".parse().unwrap());
    }
    settings.trusted = vec![TrustedPeer::at("192.0.2.1".parse().unwrap(), 32)];
    let keys = Arc::new(TokenKeys::of([2; 32], 2));
    let mut second = Bed::with_seed(settings.clone(), keys, 6);
    second.register("sip:bob@example.org", BOBS, None);
    let at_second = |remote: &str| Flow {
        local: "203.0.113.1:5060".parse().unwrap(),
        ..flow(Transport::Udp, remote)
    };
    let mut invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
    invite.from = "<sip:alice@example.com>;tag=a".into();
    let between = first
        .receive(&alice(Transport::Udp), &invite.text())
        .remove(1);
    let copy = second
        .receive(&at_second("192.0.2.1:5060"), &between.text)
        .remove(1);
    let ok = response(&copy, 200, "b", &contact(BOBS));
    let ok = only(second.receive(&at_second("203.0.113.9:5060"), &ok));
    let ok = only(first.receive(&flow(Transport::Udp, "203.0.113.1:5060"), &ok.text));
    distrust(&mut first);
    settings.trusted.clear();
    second.act(|shard, _, _| shard.reload(Arc::new(settings)));
    assert_eq!(ok.all(HeaderName::RecordRoute).len(), 2);
    let alice_is = "<sip:alice@example.com>;tag=a";
    for method in ["ACK", "BYE"] {
        let request = of(method, BOBS, alice_is, BOB, ALICES, &turned(&ok));
        let between = only(anywhere(&mut first, &request));
        assert_eq!(between.to.remote.to_string(), "203.0.113.1:5060");
        let from = at_second("192.0.2.1:5060");
        let copy = only(second.receive(&from, &between.text));
        assert_eq!(copy.to.remote.to_string(), "203.0.113.9:5060");
    }
    let bye = of("BYE", ALICES, BOB, alice_is, BOBS, &as_they_came(&copy));
    let between = only(second.receive(&at_second("203.0.113.9:5060"), &bye.text()));
    assert_eq!(between.to.remote.to_string(), "192.0.2.1:5060");
    let copy = only(first.receive(&flow(Transport::Udp, "203.0.113.1:5060"), &between.text));
    assert_eq!(copy.to.remote.to_string(), "198.51.100.1:5060");
}

#[test]
fn a_call_goes_on_after_a_restart() {
    let key = [9; 32];
    let mut before = bed_with(Arc::new(TokenKeys::of(key, 1)));
    let call = call(&mut before, Transport::Udp, None);
    for (method, expected) in [
        ("ACK", ["203.0.113.9:5060", "198.51.100.1:5060"]),
        ("INVITE", ["203.0.113.9:5060", "198.51.100.1:5060"]),
        ("BYE", ["203.0.113.9:5060", "198.51.100.1:5060"]),
    ] {
        let mut after = Bed::with_keys(secured(), Arc::new(TokenKeys::of(key, 2)));
        let alices = of(method, BOBS, ALICE, BOB, ALICES, &call.alices);
        let bobs = of(method, ALICES, BOB, ALICE, BOBS, &call.bobs);
        let got = [outcome(&mut after, &alices), outcome(&mut after, &bobs)];
        assert_eq!(got, expected, "{method}");
        // Another key is another server.
        let mut other = Bed::with_keys(secured(), Arc::new(TokenKeys::of([8; 32], 2)));
        let expected = if method == "ACK" { "" } else { "407" };
        let alices = of(method, BOBS, ALICE, BOB, ALICES, &call.alices);
        assert_eq!(outcome(&mut other, &alices), expected, "{method}");
    }
}

#[test]
fn without_state_a_subscription_has_its_tokens_too() {
    let mut settings = trusting();
    settings.mode = Mode::Stateless;
    let mut bed = Bed::new(settings.clone());
    bed.register("sip:bob@example.org", BOBS, None);
    let mut subscribe = request("SUBSCRIBE", "sip:bob@example.org", Transport::Udp);
    subscribe.from = ALICE.into();
    let copy = only(bed.receive(&alice(Transport::Udp), &subscribe.text()));
    let ok = response(&copy, 200, "b", &contact(BOBS));
    let got = only(bed.receive(&answering(&copy), &ok));
    // What the answer says of the request must be what the request was.
    let lie = ok.replace("From: <sip:alice@", "From: <sip:ceo@");
    let lied = only(bed.receive(&answering(&copy), &lie));
    assert_eq!(
        lied.all(HeaderName::RecordRoute),
        copy.all(HeaderName::RecordRoute)
    );
    settings.trusted.clear();
    bed.act(|shard, _, _| shard.reload(Arc::new(settings)));
    let notify = of("NOTIFY", ALICES, BOB, ALICE, BOBS, &as_they_came(&copy));
    assert_eq!(outcome(&mut bed, &notify), "198.51.100.1:5060");
    let again = of("SUBSCRIBE", BOBS, ALICE, BOB, ALICES, &turned(&got));
    assert_eq!(outcome(&mut bed, &again), "203.0.113.9:5060");
}

#[test]
fn a_redirect_server_takes_no_token_for_a_way() {
    let mut bed = bed();
    let call = call(&mut bed, Transport::Udp, None);
    let mut redirecting = secured();
    redirecting.mode = Mode::Redirect;
    redirecting.forward = Some(next_hop(Transport::Udp, "203.0.113.200:5060"));
    bed.act(|shard, _, _| shard.reload(Arc::new(redirecting)));
    let invite = of("INVITE", BOBS, ALICE, BOB, ALICES, &call.alices);
    assert_eq!(outcome(&mut bed, &invite), "404");
}

#[test]
fn a_secure_call_over_one_route_finds_its_phone() {
    // One value for both sides, with the flow to the one that is under TLS.
    let bob = flow(Transport::Tls, "203.0.113.9:40000");
    let bobs = "sips:bob@203.0.113.9:40000";
    let mut bed = Bed::new(trusting());
    bed.register("sip:bob@example.org", bobs, Some(bob));
    let mut invite = request("INVITE", "sips:bob@example.org", Transport::Tcp);
    invite.from = ALICE.into();
    let sent = bed.receive(&alice(Transport::Tcp), &invite.text());
    let copy = sent.into_iter().find(|sent| sent.status() == 0).unwrap();
    assert_eq!(copy.all(HeaderName::RecordRoute).len(), 1);
    let ok = only(bed.receive(&bob, &response(&copy, 200, "b", &contact(bobs))));
    distrust(&mut bed);
    let mut bye = of("BYE", bobs, ALICE, BOB, ALICES, &turned(&ok));
    bye.via = bye.via.replace("UDP", "TLS");
    let elsewhere = flow(Transport::Tls, "198.51.100.77:41000");
    let got = only(bed.receive(&elsewhere, &bye.text()));
    assert_eq!(got.to.conn, bob.conn);
    assert_ne!(got.to.conn, ConnId::NONE);
    // In the other hand it names no flow.
    let bye = of("BYE", ALICES, BOB, ALICE, bobs, &as_they_came(&copy));
    assert_eq!(outcome(&mut bed, &bye), "198.51.100.1:5060");
}

#[test]
fn the_values_of_a_route_count_in_their_order_alone() {
    // Alice is on a connection, so that bob has two values: the one by which her requests
    // will leave, and the one that leads to her.
    let mut bed = bed();
    let call = call(&mut bed, Transport::Tcp, None);
    assert_eq!(call.bobs.len(), 2);
    let right = of("MESSAGE", ALICES, BOB, ALICE, BOBS, &call.bobs);
    let sent = anywhere(&mut bed, &right);
    assert!(only(sent).to.conn.is_some(), "along her connection");
    let turned: Vec<String> = call.bobs.iter().rev().cloned().collect();
    for routes in [&turned[..], &turned[1..]] {
        let wrong = of("MESSAGE", ALICES, BOB, ALICE, BOBS, routes);
        assert_eq!(outcome(&mut bed, &wrong), "407", "{routes:?}");
    }
}

#[test]
fn the_whole_route_behind_this_server_stays_that_of_the_dialog() {
    // Two proxies before this server, and two behind it. The next one may send on to whatever a
    // side puts behind it.
    let mut bed = bed();
    let before = "Record-Route: <sip:198.51.100.5;lr>, <sip:198.51.100.6;lr>\r\n";
    let mut invite = request("INVITE", "sip:bob@example.org", Transport::Udp).with(before);
    invite.from = ALICE.into();
    let sent = bed.receive(&alice(Transport::Udp), &invite.text());
    let copy = sent.into_iter().find(|sent| sent.status() == 0).unwrap();
    let mut text = response(&copy, 200, "b", &contact(BOBS));
    let behind = "Record-Route: <sip:203.0.113.6;lr>\r\nRecord-Route: <sip:203.0.113.5;lr>\r\n";
    text.insert_str(text.find("Record-Route:").unwrap(), behind);
    let ok = only(bed.receive(&answering(&copy), &text));
    distrust(&mut bed);
    // What is before this server is off when a request comes here.
    let (alices, bobs) = (turned(&ok).split_off(2), as_they_came(&copy));
    for ((uri, from, to, own), routes, next) in [
        ((BOBS, ALICE, BOB, ALICES), alices, "203.0.113.5:5060"),
        ((ALICES, BOB, ALICE, BOBS), bobs, "198.51.100.5:5060"),
    ] {
        assert_eq!(routes.len(), 3, "{routes:?}");
        let mut outcome = |routes: &[String]| {
            let info = of("INFO", uri, from, to, own, routes);
            outcome(&mut bed, &info)
        };
        assert_eq!(outcome(&routes), next);
        let friend = "<sip:203.0.113.66;lr>".to_owned();
        let mut other = routes.clone();
        other[2].clone_from(&friend);
        let mut longer = routes.clone();
        longer.push(friend);
        let mut turned = routes.clone();
        turned.swap(1, 2);
        for wrong in [
            &other[..],
            &longer[..],
            &turned[..],
            &routes[..2],
            &routes[..1],
        ] {
            assert_eq!(outcome(wrong), "407", "{wrong:?}");
        }
    }
}
