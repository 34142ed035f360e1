//! Request validation (RFC 3261 16.3), and what is answered to what fails it.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use sip_engine::Effect;
use sip_engine::sender::Sender;
use sip_msg::{HeaderName, Limits, Transport};

const NEXT: &str = "203.0.113.9:5070";

fn bed() -> Bed {
    Bed::new(forwarding(Transport::Udp, NEXT))
}

/// What a request is answered with at once, statelessly: nothing is kept.
#[track_caller]
fn refused(request: &Request, transport: Transport) -> Sent {
    let mut bed = bed();
    let answer = only(bed.receive(&alice(transport), &request.text()));
    assert_eq!(bed.shard.in_flight(), 0);
    assert_eq!(answer.to.remote, alice(transport).remote);
    // RFC 3261 16.1: "When responding directly to a request, the element is playing the role
    // of a UAS and MUST behave as described in Section 8.2."
    assert!(answer.message.to().unwrap().tag().is_some());
    assert_eq!(answer.message.call_id(), b"call-1");
    assert_eq!(answer.all(HeaderName::Via).len(), 1);
    answer
}

#[test]
fn every_failed_check_has_its_status() {
    // RFC 3261 16.3: "Before an element can proxy a request, it MUST verify the message's
    // validity." and "If any of these checks fail, the element MUST behave as a user agent
    // server (see Section 8.2) and respond with an error code."
    // RFC 3261 16.2: "For all new requests, including any with unknown methods, an element
    // intending to proxy the request MUST:" validate it first.
    for transport in TRANSPORTS {
        for method in ["INVITE", "MESSAGE", "NEWMETHOD"] {
            let to = |uri: &str| request(method, uri, transport);
            let mut hops = to("sip:bob@example.com");
            hops.more = "Max-Forwards: 0\r\n".into();
            assert_eq!(refused(&hops, transport).status(), 483);
            let scheme = to("nobodyKnowsThisScheme:opaque");
            assert_eq!(refused(&scheme, transport).status(), 416);
            let breadth = to("sip:bob@example.com").with("Max-Breadth: 0\r\n");
            assert_eq!(refused(&breadth, transport).status(), 440);
            // RFC 3261 16.3: "Any components involved in the remainder of these Request Validation
            // steps or the Request Forwarding section MUST be well-formed."
            let route = to("sip:bob@example.com").with("Route: <sip:\r\n");
            assert_eq!(refused(&route, transport).status(), 400);
        }
    }
}

#[test]
fn a_refusal_is_made_anew_each_time_and_is_the_same() {
    for transport in TRANSPORTS {
        let mut bed = bed();
        for method in ["INVITE", "MESSAGE"] {
            let request =
                request(method, "sip:bob@example.com", transport).with("Proxy-Require: x\r\n");
            let first = only(bed.receive(&alice(transport), &request.text()));
            assert_eq!(first.status(), 420);
            // RFC 3261 8.2.7: "A stateless UAS MUST NOT send provisional (1xx) responses." and "A
            // stateless UAS MUST NOT retransmit responses."
            assert!(bed.wait(40_000).is_empty());
            let second = only(bed.receive(&alice(transport), &request.text()));
            // RFC 3261 8.2.7: "To header tags MUST be generated for responses in a stateless manner -
            // in a manner that will generate the same tag for the same request consistently."
            assert_eq!(first.text, second.text);
        }
    }
}

#[test]
fn options_with_no_hops_left_is_answered_here() {
    let mut options = request("OPTIONS", "sip:bob@example.com", Transport::Udp);
    options.more = "Max-Forwards: 0\r\n".into();
    let answer = refused(&options, Transport::Udp);
    assert_eq!(answer.status(), 200);
    assert!(answer.header(HeaderName::Allow).is_some());
}

#[test]
fn options_to_the_server_itself() {
    for transport in TRANSPORTS {
        for uri in ["sip:example.org", "sip:192.0.2.1", "sips:192.0.2.1:5061"] {
            let answer = refused(&request("OPTIONS", uri, transport), transport);
            assert_eq!(answer.status(), 200, "{uri}");
            assert_eq!(answer.all(HeaderName::Supported), ["path", "outbound"]);
            let known = request("OPTIONS", uri, transport).with("Require: path\r\n");
            assert_eq!(refused(&known, transport).status(), 200, "{uri}");
            // RFC 3261 21.4.15: "The server MUST include a list of the unsupported extensions in an
            // Unsupported header field in the response."
            let required = request("OPTIONS", uri, transport).with("Require: path, foo\r\n");
            let answer = refused(&required, transport);
            assert_eq!(answer.status(), 420);
            assert_eq!(answer.all(HeaderName::Unsupported), ["foo"]);
        }
    }
}

#[test]
fn proxy_require() {
    let invite = request("INVITE", "sip:bob@example.com", Transport::Udp)
        .with("Proxy-Require: foo, bar\r\nProxy-Require: baz\r\n");
    let answer = refused(&invite, Transport::Udp);
    // RFC 3261 16.3: "If the request contains a Proxy-Require header field (Section 20.29)
    // with one or more option-tags this element does not understand, the element MUST
    // return a 420 (Bad Extension) response.  The response MUST include an Unsupported
    // (Section 20.40) header field listing those option-tags the element did not
    // understand."
    assert_eq!(answer.status(), 420);
    assert_eq!(answer.all(HeaderName::Unsupported), ["foo", "bar", "baz"]);
}

#[test]
fn a_long_list_of_extensions_is_refused_by_no_longer_an_answer() {
    let tags = ["a"; 200].join(",");
    for (method, uri, name) in [
        ("INVITE", "sip:bob@example.com", "Proxy-Require"),
        ("OPTIONS", "sip:example.org", "Require"),
        ("REGISTER", "sip:example.org", "Require"),
    ] {
        let request = request(method, uri, Transport::Udp).with(&format!("{name}: {tags}\r\n"));
        let answer = only(bed().receive(&alice(Transport::Udp), &request.text()));
        assert_eq!(answer.status(), 420);
        assert_eq!(answer.all(HeaderName::Unsupported).len(), 200);
        let (out, sent) = (answer.text.len(), request.text().len());
        assert!(out <= sent + 100, "{out} bytes for {sent}");
    }
}

#[test]
fn who_is_refused_before_the_gate_owes_for_it() {
    let tcp = Transport::Tcp;
    let mut bed = bed();
    let mut last = 0;
    for _ in 0..10_100 {
        let invite = request("INVITE", "sip:bob@example.com", tcp);
        let spent = invite.text().replace("Max-Forwards: 70", "Max-Forwards: 0");
        match bed.receive(&alice(tcp), &spent).first() {
            Some(sent) => last = sent.status(),
            None => break,
        }
    }
    assert_eq!(last, 503, "answered so a few times, and then not at all");
}

#[test]
fn unknown_methods_and_headers_pass() {
    // RFC 3261 16.3: "An element MUST NOT refuse to proxy a request because it contains a
    // method or header field it does not know about."
    let mut bed = bed();
    let strange = request("NEWMETHOD", "sip:bob@example.com", Transport::Udp)
        .with("New-Header: \x7fkept\r\nDate: not a date\r\n");
    let text = strange.text();
    let forwarded = bed.receive(&alice(Transport::Udp), &text.replace('\x7f', ""));
    let forwarded = only(forwarded);
    assert_eq!(forwarded.method(), "NEWMETHOD");
    assert!(
        forwarded
            .text
            .contains("New-Header: kept\r\nDate: not a date\r\n")
    );
}

#[test]
fn a_looped_request_is_found_and_a_spiral_passes() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(forwarding(transport, NEXT));
        let invite = request("INVITE", "sip:bob@example.com", transport);
        let first = bed.receive(&alice(transport), &invite.text()).remove(1);
        let peer = answering(&first);
        // The next hop sends it back, with its own Via on top.
        let back = first.text.replacen(
            "Via: ",
            "Via: SIP/2.0/UDP 203.0.113.9;branch=z9hG4bKhop\r\nVia: ",
            1,
        );
        let looped = only(bed.receive(&peer, &back));
        assert_eq!(looped.status(), 482);
        // For somebody else it is a spiral, as another target.
        let spiral =
            back.replacen("sip:bob@", "sip:carol@", 1)
                .replacen("z9hG4bKhop", "z9hG4bKhop2", 1);
        let again = bed.receive(&peer, &spiral);
        assert_eq!(kinds(&again), ["100", "INVITE"]);
        assert_eq!(bed.shard.counters().loops, 1);
    }
}

#[test]
fn merged_requests_are_no_error() {
    // RFC 3261 16.3: "Notice that a proxy is not required to detect merged requests and MUST
    // NOT treat merged requests as an error condition."
    let mut bed = bed();
    let mut options = request("OPTIONS", "sip:bob@example.com", Transport::Udp);
    for branch in ["z9hG4bKone", "z9hG4bKtwo"] {
        options.via = format!("SIP/2.0/UDP 198.51.100.1:5060;branch={branch}");
        assert_eq!(
            only(bed.receive(&alice(Transport::Udp), &options.text())).method(),
            "OPTIONS"
        );
    }
}

#[test]
fn what_no_transaction_can_hold_is_answered_400_with_the_reason() {
    // RFC 3261 16.3: "The request MUST be well-formed enough to be handled with a server
    // transaction."
    for transport in TRANSPORTS {
        for (broken, status, reason) in [
            ("CSeq: 1 INVITE\r\n", 400, "Missing CSeq"),
            ("Call-ID: call-1\r\n", 400, "Missing Call-ID"),
            (
                "From: <sip:alice@example.com>;tag=a\r\n",
                400,
                "Missing From",
            ),
        ] {
            let mut bed = bed();
            let text = request("INVITE", "sip:bob@example.com", transport).text();
            assert!(text.contains(broken));
            let answer = only(bed.receive(&alice(transport), &text.replace(broken, "")));
            assert_eq!(answer.status(), status);
            assert!(answer.text.contains(reason), "{}", answer.text);
            assert_eq!(bed.shard.in_flight(), 0);
            // It was whole, so a stream stays open; a stranger's are counted.
            let is_counted = matches!(bed.effects.as_slice(), [Effect::Odd(_)]);
            assert_eq!(is_counted, transport != Transport::Udp);
        }
    }
}

#[test]
fn what_cannot_be_answered_is_dropped_and_counted() {
    for transport in TRANSPORTS {
        for text in [
            "INVITE sip:bob@example.com SIP/2.0\r\nContent-Length: 0\r\n\r\n",
            "SIP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
            "hello\r\n\r\n",
        ] {
            let mut bed = bed();
            assert!(bed.receive(&alice(transport), text).is_empty());
            assert_eq!(bed.shard.counters().malformed_dropped, 1, "{text}");
        }
        // No response is ever sent to an ACK, and none to a response.
        let mut bed = bed();
        let ack = request("ACK", "sip:bob@example.com", transport).text();
        assert!(
            bed.receive(&alice(transport), &ack.replace("CSeq: 1 ACK\r\n", ""))
                .is_empty()
        );
        assert_eq!(bed.shard.counters().malformed_dropped, 1);
    }
}

#[test]
fn a_neighbours_connection_outlives_one_bad_request() {
    let mut settings = forwarding(Transport::Udp, NEXT);
    settings.trusted = vec![sip_engine::settings::TrustedPeer::at(
        alice(Transport::Tcp).remote.ip(),
        32,
    )];
    let mut bed = Bed::new(settings);
    let text = request("INVITE", "sip:bob@example.com", Transport::Tcp).text();
    let answer = only(bed.receive(
        &alice(Transport::Tcp),
        &text.replace("CSeq: 1 INVITE\r\n", ""),
    ));
    assert_eq!(answer.status(), 400);
    assert!(bed.effects.is_empty());
    // One that does not even parse, but has an end: nor one with a header above its limit.
    let long = format!("Subject: {}\r\nCall-ID:", "x".repeat(10_000));
    for (from, to) in [("Call-ID:", "Call-ID\x01:"), ("Call-ID:", long.as_str())] {
        let answer = bed.receive(&alice(Transport::Tcp), &text.replace(from, to));
        assert_eq!(only(answer).status(), 400);
        assert!(bed.effects.is_empty());
    }
    // What cannot be framed ends it all the same.
    let mut message = bed.shard.spare_message();
    let error = message
        .fill(b"INVITE sip:bob@example.com SIP/2.0\n", &Limits::default())
        .unwrap_err();
    bed.act(|shard, now, out| {
        shard.handle_unframed(
            now,
            &Sender::unproved(alice(Transport::Tcp)),
            message,
            &error,
            out,
        );
    });
    assert!(matches!(bed.effects.as_slice(), [Effect::Close(_)]));
}

#[test]
fn an_ack_to_a_refusal_ends_here() {
    for transport in TRANSPORTS {
        let mut bed = bed();
        let mut invite = request("INVITE", "sip:bob@203.0.113.9", transport);
        invite.more = "Max-Forwards: 0\r\n".into();
        let refused = only(bed.receive(&alice(transport), &invite.text()));
        let mut ack = request("ACK", "sip:bob@203.0.113.9", transport);
        ack.via = invite.via.clone();
        ack.to = refused.header(HeaderName::To).unwrap();
        assert!(bed.receive(&alice(transport), &ack.text()).is_empty());
        // RFC 3261 8.2.7: "A stateless UAS MUST ignore ACK requests."
        assert_eq!(bed.shard.counters().acks_absorbed, 1);
        // Another tag is not ours: such an ACK goes its way.
        ack.to = "<sip:bob@example.org>;tag=0123456789abcdef".into();
        assert_eq!(
            only(bed.receive(&alice(transport), &ack.text())).method(),
            "ACK"
        );
    }
}
