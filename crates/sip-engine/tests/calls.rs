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
            let bye = answered(&mut bed, "one", transport);
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

            assert_eq!(kinds(&bed.receive(&alice(transport), &bye.text())), ["BYE"]);
            assert_eq!(listed(&bed), ["two"]);
        }
    }
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
