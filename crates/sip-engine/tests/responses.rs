//! Response processing (RFC 3261 16.7), errors of the transport (16.9).

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use sip_msg::{HeaderName, Transport};

/// Bob's phones; each on an address of its own.
const PHONES: [&str; 3] = [
    "203.0.113.11:5060",
    "203.0.113.12:5060",
    "203.0.113.13:5060",
];

/// An INVITE (or another request) forked to three phones, in their order.
fn forked(bed: &mut Bed, method: &str, transport: Transport) -> Vec<Sent> {
    for phone in PHONES {
        bed.register("sip:bob@example.org", &format!("sip:bob@{phone}"), None);
    }
    let request = request(method, "sip:bob@example.org", transport);
    let mut sent = bed.receive(&alice(transport), &request.text());
    sent.retain(|s| s.status() == 0);
    sent.sort_by_key(|s| s.to.remote);
    assert_eq!(sent.len(), 3);
    sent
}

fn answer(bed: &mut Bed, to: &Sent, status: u16, more: &str) -> Vec<Sent> {
    let tag = format!("tag{}", to.to.remote.ip().to_string().replace('.', ""));
    bed.receive(&answering(to), &response(to, status, &tag, more))
}

/// Those that go upstream.
fn upstream(sent: Vec<Sent>) -> Vec<Sent> {
    sent.into_iter().filter(|s| s.status() != 0).collect()
}

#[test]
fn provisional_responses_and_every_2xx_pass_at_once() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(settings());
        let branches = forked(&mut bed, "INVITE", transport);
        // RFC 3261 16.7: "In particular, a stateful proxy MUST NOT forward any 100 (Trying)
        // response."
        assert!(answer(&mut bed, &branches[0], 100, "").is_empty());
        // RFC 3261 16.7: "Until a final response has been sent on the server transaction, the
        // following responses MUST be forwarded immediately:" provisional ones and 2xx.
        // RFC 3261 16.7: "As client transactions pass responses to the proxy layer, the following
        // processing MUST take place:" and "The following processing MUST be performed on each
        // response that is forwarded."
        for (at, status) in [(0, 180), (1, 183), (0, 199)] {
            let sent = only(answer(&mut bed, &branches[at], status, ""));
            assert_eq!(sent.status(), status);
            assert_eq!(sent.to.conn, alice(transport).conn);
        }
        // RFC 3261 16.7: "A stateful proxy MUST NOT immediately forward any other responses."
        assert_eq!(kinds(&answer(&mut bed, &branches[2], 486, "")), ["ACK"]);
        // RFC 3261 16.7: "If the forwarded response was a final response, the proxy MUST generate
        // a CANCEL request for all pending client transactions associated with this response
        // context."
        let sent = answer(&mut bed, &branches[0], 200, "X-Body: 1\r\n");
        assert_eq!(kinds(&sent), ["200", "CANCEL"]);
        assert_eq!(sent[1].to.remote, branches[1].to.remote);
        assert!(sent[0].text.contains("X-Body: 1\r\n"));
        // RFC 3261 16.7: "After a final response has been sent on the server transaction, the
        // following responses MUST be forwarded immediately:" any 2xx to an INVITE.
        let late = only(answer(&mut bed, &branches[1], 200, ""));
        assert_eq!(late.status(), 200);
        // And its repetition, end to end.
        let again = only(answer(&mut bed, &branches[0], 200, ""));
        assert_eq!(again.status(), 200);
        // RFC 3261 16.7: "The proxy MUST maintain the response context until all of its associated
        // transactions have been terminated, even after forwarding a final response."
        assert_eq!(bed.shard.live_contexts(), 1);
        bed.wait(70_000);
        assert_eq!(bed.shard.in_flight(), 0);
    }
}

#[test]
fn a_provisional_after_the_final_one_goes_nowhere() {
    let mut bed = Bed::new(settings());
    let branches = forked(&mut bed, "INVITE", Transport::Udp);
    answer(&mut bed, &branches[0], 200, "");
    let sent = answer(&mut bed, &branches[1], 180, "");
    // Only now may its CANCEL leave.
    assert_eq!(kinds(&sent), ["CANCEL"]);
}

#[test]
fn other_methods_get_one_final_response() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(settings());
        let branches = forked(&mut bed, "OPTIONS", transport);
        assert_eq!(kinds(&answer(&mut bed, &branches[0], 200, "")), ["200"]);
        assert!(answer(&mut bed, &branches[1], 200, "").is_empty());
        assert!(answer(&mut bed, &branches[2], 404, "").is_empty());
        bed.wait(70_000);
        assert_eq!(bed.shard.in_flight(), 0);
    }
}

#[test]
fn the_best_of_all_is_chosen_when_all_are_in() {
    // RFC 3261 16.7: "A stateful proxy MUST send a final response to a response context's
    // server transaction if no final responses have been immediately forwarded by the
    // above rules and all client transactions in this response context have been
    // terminated." and "The stateful proxy MUST choose the "best" final response among those
    // received and stored in the response context." and "Otherwise, the proxy MUST forward a
    // response from the responses stored in the response context."
    for transport in TRANSPORTS {
        for (statuses, best) in [
            ([404, 486, 302], 302),
            ([503, 486, 500], 486),
            ([480, 415, 404], 415),
            ([404, 503, 503], 404),
            // Of those that are as good, the first.
            ([486, 480, 404], 486),
            // RFC 3261 16.7: "It MUST choose from the 6xx class responses if any exist in the
            // context."
            ([301, 603, 486], 603),
            // RFC 3261 16.7: "If the only response that was received is a 503, the proxy SHOULD
            // generate a 500 response and forward that upstream."
            ([503, 503, 503], 500),
        ] {
            let mut bed = Bed::new(settings());
            let branches = forked(&mut bed, "INVITE", transport);
            let mut sent = Vec::new();
            for (branch, status) in branches.iter().zip(statuses) {
                assert_eq!(sent.len(), 0, "{statuses:?}");
                sent = upstream(answer(&mut bed, branch, status, ""));
            }
            assert_eq!(only(sent).status(), best, "{statuses:?}");
            bed.wait(70_000);
            assert_eq!(bed.shard.in_flight(), 0);
        }
    }
}

#[test]
fn a_6xx_ends_the_search() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(settings());
        bed.register_with("sip:bob@example.org", "sip:mail@203.0.113.99", None, |b| {
            b.q = 100
        });
        let branches = forked(&mut bed, "INVITE", transport);
        answer(&mut bed, &branches[0], 180, "");
        // RFC 3261 16.7: "If a 6xx response is received, it is not immediately forwarded, but the
        // stateful proxy SHOULD cancel all client pending transactions as described in
        // Section 10, and it MUST NOT create any new branches in this context."
        let sent = answer(&mut bed, &branches[1], 603, "");
        assert_eq!(kinds(&sent), ["ACK", "CANCEL"]);
        assert_eq!(kinds(&answer(&mut bed, &branches[0], 487, "")), ["ACK"]);
        assert_eq!(
            kinds(&answer(&mut bed, &branches[2], 486, "")),
            ["ACK", "603"]
        );
    }
}

#[test]
fn without_any_response_408() {
    // RFC 3261 16.7: "If there are no final responses in the context, the proxy MUST send a 408
    // (Request Timeout) response to the server transaction."
    for transport in TRANSPORTS {
        let mut bed = Bed::new(settings());
        forked(&mut bed, "INVITE", transport);
        let sent = upstream(bed.wait(40_000));
        assert_eq!(sent[0].status(), 408);
        // To another method 408 says nothing that its client does not know (RFC 4320).
        let mut bed = Bed::new(settings());
        forked(&mut bed, "OPTIONS", transport);
        assert!(upstream(bed.wait(70_000)).iter().all(|s| s.status() == 100));
        assert_eq!(bed.shard.in_flight(), 0);
    }
}

#[test]
fn a_408_to_another_method_is_not_sent_and_its_request_is_no_new_one_when_it_comes_again() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(forwarding(transport, PHONES[0]));
        let info = request("INFO", "sip:carol@example.com", transport).text();
        let sent = only(bed.receive(&alice(transport), &info));
        // RFC 4320 4.2: "A transaction-stateful SIP element MUST NOT send a response with Status-Code
        // of 408 to a non-INVITE request. As a consequence, an element that cannot respond before
        // the transaction expires will not send a final response at all."
        assert!(answer(&mut bed, &sent, 408, "").is_empty());
        // RFC 3261 17.2.2: "Once in the "Trying" state, any further request retransmissions are
        // discarded."
        for _ in 0..7 {
            assert!(bed.receive(&alice(transport), &info).is_empty());
            assert!(bed.wait(4_000).is_empty());
        }
        assert_eq!(bed.shard.live_contexts(), 0);
        bed.wait(70_000);
        assert_eq!(bed.shard.in_flight(), 0);
    }
}

#[test]
fn a_2xx_that_comes_again_and_again_holds_nothing_more() {
    let mut bed = Bed::new(forwarding(Transport::Udp, PHONES[0]));
    let invite = request("INVITE", "sip:carol@example.com", Transport::Udp);
    let sent = bed
        .receive(&alice(Transport::Udp), &invite.text())
        .remove(1);
    assert_eq!(kinds(&answer(&mut bed, &sent, 200, "")), ["200"]);
    let held = bed.shard.held_bytes();
    for _ in 0..1_000 {
        assert_eq!(kinds(&answer(&mut bed, &sent, 200, "")), ["200"]);
    }
    assert!(bed.shard.held_bytes() < held + 10_000);
}

#[test]
fn challenges_are_collected() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(settings());
        let branches = forked(&mut bed, "INVITE", transport);
        let challenge = |header: &str, realm: &str| {
            format!("{header}: Digest realm=\"{realm}\", nonce=\"n\"\r\n")
        };
        answer(
            &mut bed,
            &branches[0],
            407,
            &challenge("Proxy-Authenticate", "one"),
        );
        answer(
            &mut bed,
            &branches[1],
            401,
            &challenge("WWW-Authenticate", "two"),
        );
        let sent = upstream(answer(&mut bed, &branches[2], 486, ""));
        // RFC 3261 16.7: "If the selected response is a 401 (Unauthorized) or 407 (Proxy
        // Authentication Required), the proxy MUST collect any WWW-Authenticate and
        // Proxy-Authenticate header field values from all other 401 (Unauthorized) and 407
        // (Proxy Authentication Required) responses received so far in this response context
        // and add them to this response without modification before forwarding."
        // RFC 3261 16.7: "The forwarded response MUST be processed as described in steps
        // "Aggregate Authorization Header Field Values" through "Record-Route"."
        let sent = only(sent);
        assert_eq!(sent.status(), 407);
        assert_eq!(
            // RFC 3261 22.3: "Each WWW-Authenticate and Proxy-Authenticate value received in responses
            // to the forked request MUST be placed into the single response that is sent by the forking
            // proxy to the UA; the ordering of these header field values is not significant."
            sent.all(HeaderName::ProxyAuthenticate),
            ["Digest realm=\"one\", nonce=\"n\""]
        );
        assert_eq!(
            sent.all(HeaderName::WwwAuthenticate),
            ["Digest realm=\"two\", nonce=\"n\""]
        );
    }
}

#[test]
fn a_response_is_forwarded_as_it_came_but_for_our_via() {
    // RFC 3261 16.7: "The proxy MUST NOT add to, modify, or remove the message body.  Unless
    // otherwise specified, the proxy MUST NOT remove any header field values other than
    // the Via header field value discussed in Section 16.7 Item 3." and "Any response chosen for
    // immediate forwarding MUST be processed as described in steps "Aggregate
    // Authorization Header Field Values" through "Record-Route"."
    for transport in TRANSPORTS {
        let mut bed = Bed::new(forwarding(transport, PHONES[0]));
        let invite = request("INVITE", "sip:carol@example.com", transport);
        let sent = bed.receive(&alice(transport), &invite.text()).remove(1);
        let text = response(&sent, 200, "c", "x-Odd:  kept \r\nDate: nonsense\r\n")
            .replace("Content-Length: 0\r\n\r\n", "l: 3\r\n\r\nabc");
        let ok = only(bed.receive(&answering(&sent), &text));
        let our_via = format!("Via: {}\r\n", sent.all(HeaderName::Via)[0]);
        assert_eq!(ok.text, text.replace(&our_via, ""));
        // RFC 3261 16.7: "A proxy MUST NOT insert a tag into the To header field of a 1xx or 2xx
        // response if the request did not contain one.  A proxy MUST NOT modify the tag in
        // the To header field of a 1xx or 2xx response." and "A proxy MUST NOT modify the To tag
        // in any forwarded response to a request that contains a To tag."
        let untagged = text.replace(";tag=c", "");
        let again = only(bed.receive(&answering(&sent), &untagged));
        assert_eq!(again.text, untagged.replace(&our_via, ""));
        let mut reinvite = request("INVITE", "sip:carol@203.0.113.11", transport);
        reinvite.to = "<sip:carol@example.com>;tag=theirs".into();
        let sent = bed.receive(&alice(transport), &reinvite.text()).remove(1);
        let refused = upstream(answer(&mut bed, &sent, 488, ""));
        assert!(
            only(refused)
                .text
                .contains("To: <sip:carol@example.com>;tag=theirs\r\n")
        );
    }
}

#[test]
fn a_response_without_a_via_beyond_ours_is_not_forwarded() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(forwarding(transport, PHONES[0]));
        let invite = request("INVITE", "sip:carol@example.com", transport);
        let sent = bed.receive(&alice(transport), &invite.text()).remove(1);
        let alices_via = format!("Via: {}\r\n", sent.all(HeaderName::Via)[1]);
        // RFC 3261 16.7: "If no Via header field values remain in the response, the response was
        // meant for this element and MUST NOT be forwarded."
        let ringing = response(&sent, 180, "c", "").replace(&alices_via, "");
        assert!(bed.receive(&answering(&sent), &ringing).is_empty());
        let ok = response(&sent, 200, "c", "").replace(&alices_via, "");
        let sent = upstream(bed.receive(&answering(&sent), &ok));
        assert_eq!(only(sent).status(), 502);
    }
}

#[test]
fn a_provisional_response_that_is_not_forwarded_was_received_all_the_same() {
    for transport in TRANSPORTS {
        for status in [100, 180] {
            let mut bed = Bed::new(forwarding(transport, PHONES[0]));
            let invite = request("INVITE", "sip:carol@example.com", transport);
            let sent = bed.receive(&alice(transport), &invite.text()).remove(1);
            let alices_via = format!("Via: {}\r\n", sent.all(HeaderName::Via)[1]);
            let for_us = response(&sent, status, "c", "").replace(&alices_via, "");
            assert!(bed.receive(&answering(&sent), &for_us).is_empty());
            // RFC 3261 16.8: "If the client transaction has received a provisional response, the
            // proxy MUST generate a CANCEL request matching that transaction."
            let fired = bed.wait(190_000);
            assert_eq!(kinds(&fired)[0], "CANCEL", "{status}");
            // Who answers all the same is the caller's.
            assert_eq!(kinds(&answer(&mut bed, &sent, 200, "")), ["200"]);
        }
    }
}

#[test]
fn what_the_proxy_does_not_read_is_not_judged_and_what_is_there_twice_is() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(forwarding(transport, PHONES[0]));
        let invite = request("INVITE", "sip:carol@example.com", transport);
        let sent = bed.receive(&alice(transport), &invite.text()).remove(1);
        let ringing = response(&sent, 180, "c", "");
        let odd = ringing.replace("<sip:alice@example.com>;tag=a", "alice <sip:??>;;");
        let passed = only(bed.receive(&answering(&sent), &odd));
        assert!(passed.text.contains("From: alice <sip:??>;;\r\n"));
        for twice in [
            "Call-ID: call-1\r\n",
            "CSeq: 1 INVITE\r\n",
            "To: <sip:x@y>\r\n",
        ] {
            let smuggled = ringing.replacen("Content-Length", &format!("{twice}Content-Length"), 1);
            assert!(
                bed.receive(&answering(&sent), &smuggled).is_empty(),
                "{twice}"
            );
        }
        assert_eq!(bed.shard.counters().malformed_dropped, 3);
    }
}

#[test]
fn a_stray_response_is_dropped() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(forwarding(transport, PHONES[0]));
        let invite = request("INVITE", "sip:carol@example.com", transport);
        let sent = bed.receive(&alice(transport), &invite.text()).remove(1);
        let mut stray = response(&sent, 200, "c", "");
        stray = stray.replacen(&sent.branch(), "z9hG4bKforged", 1);
        assert!(bed.receive(&answering(&sent), &stray).is_empty());
        assert_eq!(bed.shard.counters().responses_stray, 1);
    }
}

#[test]
fn a_request_that_cannot_be_sent_counts_as_503() {
    // RFC 3261 16.9: "If the transport layer notifies a proxy of an error when it tries to
    // forward a request (see Section 18.4), the proxy MUST behave as if the forwarded
    // request received a 503 (Service Unavailable) response."
    for transport in TRANSPORTS {
        let mut bed = Bed::new(forwarding(transport, PHONES[0]));
        let invite = request("INVITE", "sip:carol@example.com", transport);
        let sent = bed.receive(&alice(transport), &invite.text()).remove(1);
        let failed = only(bed.act(|s, now, out| s.handle_send_failed(now, sent.cookie, out)));
        assert_eq!(failed.status(), 503);
    }
}

#[test]
fn a_2xx_after_the_end_of_the_server_transaction_still_arrives() {
    // RFC 3261 16.7: "The proxy MUST pass the response to the server transaction associated
    // with the response context." and "If the server transaction is no longer available to
    // handle the transmission, the element MUST forward the response statelessly by
    // sending it to the server transport."
    let mut bed = Bed::new(settings());
    let branches = forked(&mut bed, "INVITE", Transport::Udp);
    answer(&mut bed, &branches[1], 180, "");
    assert_eq!(kinds(&answer(&mut bed, &branches[0], 200, ""))[0], "200");
    // The server transaction ends 32 s after its first 2xx. The other phone gave
    // no answer to its CANCEL, and its transaction ends 32 s after that.
    bed.wait(31_900);
    let late = answer(&mut bed, &branches[1], 200, "");
    assert_eq!(kinds(&late), ["200"]);
    bed.wait(200);
    let repeated = answer(&mut bed, &branches[1], 200, "");
    assert_eq!(kinds(&repeated), ["200"]);
    assert_eq!(repeated[0].to.remote, alice(Transport::Udp).remote);
    bed.wait(70_000);
    assert_eq!(bed.shard.in_flight(), 0);
}
