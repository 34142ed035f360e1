//! The calls in progress that the operator is shown: from the 2xx to the BYE, where both
//! pass.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use sip_engine::settings::{ProxySettings, Settings};
use sip_msg::{HeaderName, Transport};

const CONTACT: &str = "Contact: <sip:bob@203.0.113.9:5070>\r\n";
const URI: &str = "sip:bob@example.com";

/// A call that was answered; the requests within it are made of the one that is given back.
fn answered(bed: &mut Bed, call_id: &str, transport: Transport) -> Request {
    let mut invite = request("INVITE", URI, transport);
    invite.call_id = call_id.into();
    let sent = bed.receive(&alice(transport), &invite.text());
    let forwarded = sent.into_iter().nth(1).unwrap();
    let bob = answering(&forwarded);
    let ok = only(bed.receive(&bob, &response(&forwarded, 200, "b", CONTACT)));
    let routes = ok.all(HeaderName::RecordRoute).into_iter().rev();
    let route: String = routes.map(|value| format!("Route: {value}\r\n")).collect();
    // The 2xx comes again: it is the same call.
    bed.receive(&bob, &response(&forwarded, 200, "b", CONTACT));
    let mut within = request("BYE", "sip:bob@203.0.113.9:5070", transport).with(&route);
    within.call_id = call_id.into();
    within.to = "<sip:bob@example.org>;tag=b".into();
    within.cseq = 2;
    within
}

fn listed(bed: &Bed) -> Vec<String> {
    let mut found = Vec::new();
    assert_eq!(bed.shard.list_calls(0, 100, &mut found), None);
    assert_eq!(found.len(), bed.shard.calls());
    found.iter().map(|call| call.call_id().into()).collect()
}

#[test]
fn a_call_is_listed_from_its_answer_to_its_bye() {
    for transport in TRANSPORTS {
        for next in TRANSPORTS {
            let mut bed = Bed::new(forwarding(next, "203.0.113.9:5070"));
            let mut bye = answered(&mut bed, "one", transport);
            answered(&mut bed, "two", transport);
            assert_eq!(listed(&bed), ["one", "two"]);
            assert_eq!(bed.shard.counters().calls_begun, 2);
            let mut found = Vec::new();
            bed.shard.list_calls(0, 1, &mut found);
            let call = &found[0];
            assert_eq!(call.caller, (transport, alice(transport).remote));
            assert_eq!(call.callee, (next, "203.0.113.9:5070".parse().unwrap()));
            assert_eq!(&*call.from(), "sip:alice@example.com");
            assert_eq!(&*call.to(), "sip:bob@example.org");
            assert_eq!(call.since_unix_ms, bed.now.unix_ms);

            // The other side may refuse to hang up, and goes on.
            for (cseq, status) in [(2, 401), (3, 500)] {
                let copy = hangs_up(&mut bed, transport, &mut bye, cseq);
                assert_eq!(listed(&bed), ["one", "two"], "it has no answer yet");
                bed.receive(&answering(&copy), &response(&copy, status, "b", ""));
                assert_eq!(listed(&bed), ["one", "two"], "{status}");
            }
            let copy = hangs_up(&mut bed, transport, &mut bye, 4);
            bed.receive(&answering(&copy), &response(&copy, 200, "b", ""));
            assert_eq!(listed(&bed), ["two"]);
        }
    }
}

/// Alice's BYE in a transaction of its own, and its copy.
fn hangs_up(bed: &mut Bed, transport: Transport, bye: &mut Request, cseq: u32) -> Sent {
    bye.cseq = cseq;
    bye.via.push_str("again");
    only(bed.receive(&alice(transport), &bye.text()))
}

#[test]
fn a_call_whose_bye_reaches_nobody_is_listed_no_more() {
    let mut bed = Bed::new(forwarding(Transport::Udp, "203.0.113.9:5070"));
    let mut bye = answered(&mut bed, "one", Transport::Udp);
    hangs_up(&mut bed, Transport::Udp, &mut bye, 2);
    assert_eq!(listed(&bed), ["one"]);
    bed.wait(40_000);
    assert!(listed(&bed).is_empty());
}

#[test]
fn a_call_whose_bye_finds_no_room_is_listed_no_more() {
    let settings = || forwarding(Transport::Udp, "203.0.113.9:5070");
    let mut bed = Bed::new(settings());
    let bye = answered(&mut bed, "one", Transport::Udp);
    let mut full = settings();
    full.bounds.contexts_max = 0;
    bed.act(|shard, _, _| shard.reload(std::sync::Arc::new(full)));
    let refused = only(bed.receive(&alice(Transport::Udp), &bye.text()));
    assert_eq!(refused.status(), 503);
    assert!(listed(&bed).is_empty());
}

#[test]
fn a_second_dialog_of_one_call_id_is_listed_beside_the_first() {
    let udp = Transport::Udp;
    let mut bed = Bed::new(forwarding(udp, "203.0.113.9:5070"));
    answered(&mut bed, "one", udp);
    let mut second = request("INVITE", URI, udp);
    (second.call_id, second.from) = ("one".into(), "<sip:carol@example.com>;tag=c".into());
    let copy = bed.receive(&alice(udp), &second.text()).remove(1);
    bed.receive(&answering(&copy), &response(&copy, 200, "b", CONTACT));
    assert_eq!(listed(&bed), ["one", "one"]);
    let mut bye = request("BYE", "sip:bob@203.0.113.9:5070", udp);
    (bye.call_id, bye.from) = (second.call_id, second.from);
    bye.to = "<sip:bob@example.org>;tag=b".into();
    let copy = hangs_up(&mut bed, udp, &mut bye, 2);
    bed.receive(&answering(&copy), &response(&copy, 200, "b", ""));
    let mut found = Vec::new();
    bed.shard.list_calls(0, 100, &mut found);
    let from: Vec<String> = found.iter().map(|call| call.from().into()).collect();
    assert_eq!(from, ["sip:alice@example.com"]);
}

#[test]
fn what_is_no_call_or_goes_past_this_server_is_not_listed() {
    let mut bed = Bed::new(Settings {
        proxy: ProxySettings {
            record_route: false,
            ..settings().proxy
        },
        ..forwarding(Transport::Udp, "203.0.113.9:5070")
    });
    answered(&mut bed, "one", Transport::Udp);
    assert!(listed(&bed).is_empty());

    // A failure is no call, nor is anything but an INVITE.
    let mut bed = Bed::new(forwarding(Transport::Udp, "203.0.113.9:5070"));
    for (method, status) in [("INVITE", 486), ("SUBSCRIBE", 200)] {
        let mut first = request(method, URI, Transport::Udp);
        first.call_id = method.into();
        let sent = bed.receive(&alice(Transport::Udp), &first.text());
        let forwarded = sent.into_iter().last().unwrap();
        bed.receive(
            &answering(&forwarded),
            &response(&forwarded, status, "b", CONTACT),
        );
        assert!(listed(&bed).is_empty(), "{method}");
    }
}

#[test]
fn a_call_within_a_call_is_the_same_and_ends_with_it() {
    let mut bed = Bed::new(forwarding(Transport::Udp, "203.0.113.9:5070"));
    let alice = alice(Transport::Udp);
    for (method, status, left) in [
        ("INVITE", 200, 1),
        ("INVITE", 488, 1),
        ("UPDATE", 500, 1),
        // RFC 3261 12.2.1.2: "If the response for a request within a dialog is a 481
        // (Call/Transaction Does Not Exist) or a 408 (Request Timeout), the UAC SHOULD
        // terminate the dialog."
        ("INVITE", 481, 0),
        ("UPDATE", 408, 0),
    ] {
        let mut again = answered(&mut bed, "one", Transport::Udp);
        again.method = method.into();
        let sent = bed.receive(&alice, &again.text());
        let forwarded = sent.into_iter().last().unwrap();
        assert_eq!(forwarded.method(), method);
        bed.receive(
            &answering(&forwarded),
            &response(&forwarded, status, "b", CONTACT),
        );
        assert_eq!(listed(&bed).len(), left, "{method} {status}");
        bed.wait(60_000);
    }
}
