//! Request forwarding (RFC 3261 16.6): what changes in the copy, and what does not.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use sip_engine::Effect;
use sip_engine::settings::{Mode, Settings};
use sip_locate::{Hop, LocateError};
use sip_msg::{HeaderName, Transport};

const NEXT: &str = "203.0.113.9:5070";

/// A copy of a request to carol at example.com.
fn forwarded(request: &Request, from: Transport, to: Transport) -> Sent {
    let mut bed = Bed::new(forwarding(to, NEXT));
    let mut sent = bed.receive(&alice(from), &request.text());
    sent.retain(|s| s.status() == 0);
    only(sent)
}

fn to_carol(method: &str, transport: Transport) -> Request {
    request(method, "sip:carol@example.com", transport)
}

#[test]
fn untouched_bytes_stay_untouched() {
    // RFC 3261 18.1.1: "To handle this case, the transport layer MUST also be prepared to receive an
    // incoming connection on the source IP address from which the request was sent and port number in
    // the "sent-by" field."
    // RFC 3261 18.1.1: "Before a request is sent, the client transport MUST insert a value of the
    // "sent-by" field into the Via header field."
    let odd = "x-Odd:  spaced ,  out \r\n\tfolded\r\nv: SIP/2.0/TCP first.example;branch=z9hG4bK0\r\n\
        Record-Route: <sip:203.0.113.1;lr>\r\nRecord-Route: <sip:203.0.113.2;lr>,<sip:203.0.113.3;lr>\r\n\
        Subject: one\r\nDate: nonsense\r\nSubject: two\r\n";
    for from in TRANSPORTS {
        for to in TRANSPORTS {
            let mut invite = to_carol("INVITE", from).with(odd);
            invite.body = "v=0\r\n\r\nRoute: <sip:no.header>\r\n".into();
            let sent = forwarded(&invite, from, to);
            // RFC 3261 16.6: "The copy MUST initially contain all of the header fields from the
            // received request.  Fields not detailed in the processing described below MUST NOT
            // be removed." and "The proxy MUST NOT reorder field values with a common field name
            // (See Section 7.3.1).  The proxy MUST NOT add to, modify, or remove the message
            // body."
            let at = sent.text.find("Via: SIP/2.0/").unwrap();
            let (_, added_and_rest) = sent.text.split_at(at);
            let original = invite.text();
            let (_, original_headers) = original.split_once("\r\n").unwrap();
            let tail = original_headers.replace("Max-Forwards: 70", "Max-Forwards: 69");
            assert!(added_and_rest.ends_with(&tail), "{}", sent.text);
            assert_eq!(sent.message.body(), invite.body.as_bytes());
            // RFC 3261 16.6: "The proxy MUST insert a Via header field value into the copy before
            // the existing Via header field values."
            let vias = sent.all(HeaderName::Via);
            assert_eq!(vias.len(), 3);
            assert!(vias[0].starts_with(&format!("SIP/2.0/{} 192.0.2.1:", to.via_name())));
            // RFC 3261 16.6: "The first part MUST satisfy the constraints of Section 8.1.1.7 as
            // described above."
            assert!(sent.branch().starts_with("z9hG4bK"));
            // RFC 3261 16.6: "If this proxy wishes to remain on the path of future requests in a
            // dialog created by this request (assuming the request creates a dialog), it MUST
            // insert a Record-Route header field value into the copy before any existing
            // Record-Route header field values, even if a Route header field is already
            // present."
            let routes = sent.all(HeaderName::RecordRoute);
            assert_eq!(
                routes[routes.len() - 3..].join(","),
                "<sip:203.0.113.1;lr>,<sip:203.0.113.2;lr>,<sip:203.0.113.3;lr>"
            );
            assert!(routes[0].contains("192.0.2.1"));
        }
    }
}

#[test]
fn max_forwards() {
    for transport in TRANSPORTS {
        let mut options = to_carol("OPTIONS", transport);
        // RFC 3261 16.6: "If the copy contains a Max-Forwards header field, the proxy MUST
        // decrement its value by one (1)."
        options.more = "Max-Forwards: 10\r\n".into();
        let sent = forwarded(&options, transport, transport);
        assert_eq!(sent.all(HeaderName::MaxForwards), ["9"]);
        // RFC 3261 16.6: "If the copy does not contain a Max-Forwards header field, the proxy
        // MUST add one with a field value, which SHOULD be 70."
        options.more.clear();
        let sent = forwarded(&options, transport, transport);
        assert_eq!(sent.all(HeaderName::MaxForwards), ["70"]);
    }
}

#[test]
fn content_length_is_added_where_a_stream_needs_it() {
    // RFC 3261 20: "If a stream-based protocol (such as TCP) is used as a transport, then the header
    // field MUST be sent."
    // RFC 3261 18.3: "The Content-Length header field MUST be used with stream oriented transports."
    // RFC 3261 16.6: "If the request will be sent to the next hop using a stream-based
    // transport and the copy contains no Content-Length header field, the proxy MUST
    // insert one with the correct value for the body of the request (see Section 20.14)."
    let mut message = to_carol("MESSAGE", Transport::Udp);
    message.body = "hello".into();
    let text = message.text().replace("Content-Length: 5\r\n", "");
    for to in TRANSPORTS {
        let mut bed = Bed::new(forwarding(to, NEXT));
        let sent = only(bed.receive(&alice(Transport::Udp), &text));
        assert_eq!(sent.message.body(), b"hello");
        let expected = (to != Transport::Udp).then(|| "5".to_owned());
        assert_eq!(sent.header(HeaderName::ContentLength), expected);
        // And in the response to a client on a stream.
        let mut bed = Bed::new(forwarding(Transport::Udp, NEXT));
        let sent = only(bed.receive(&alice(to), &to_carol("MESSAGE", to).text()));
        let ok = response(&sent, 200, "c", "").replace("Content-Length: 0\r\n", "");
        let ok = only(bed.receive(&answering(&sent), &ok));
        let expected = (to != Transport::Udp).then(|| "0".to_owned());
        assert_eq!(ok.header(HeaderName::ContentLength), expected);
    }
}

#[test]
fn bytes_behind_the_body_of_a_datagram_are_not_forwarded() {
    let mut message = to_carol("MESSAGE", Transport::Udp);
    message.body = "hello".into();
    let smuggled = message.text() + "INVITE sip:carol@example.com SIP/2.0\r\n\r\n";
    let mut bed = Bed::new(forwarding(Transport::Tcp, NEXT));
    let sent = only(bed.receive(&alice(Transport::Udp), &smuggled));
    assert!(sent.text.ends_with("\r\n\r\nhello"));
}

#[test]
fn the_via_below_ours_says_where_the_request_came_from() {
    for transport in TRANSPORTS {
        let mut options = to_carol("OPTIONS", transport);
        options.via = format!(
            "SIP/2.0/{} phone.example;rport;branch=z9hG4bKnat{}",
            transport.via_name(),
            transport.via_name()
        );
        let mut bed = Bed::new(forwarding(transport, NEXT));
        let sent = only(bed.receive(&alice(transport), &options.text()));
        let below = &sent.all(HeaderName::Via)[1];
        assert!(below.contains("rport=5060"), "{below}");
        assert!(below.contains("received=198.51.100.1"), "{below}");
        let back = only(bed.receive(&answering(&sent), &response(&sent, 200, "c", "")));
        assert_eq!(back.to.conn, alice(transport).conn);
        assert_eq!(back.to.remote.ip(), alice(transport).remote.ip());
        // RFC 3261 16.7: "In particular, the proxy MUST NOT remove any "received" parameter it
        // may have added to the next Via header field value while processing the request
        // associated with this response."
        assert_eq!(back.all(HeaderName::Via), [below.as_str()]);
    }
}

#[test]
fn max_breadth_is_added_and_handed_on() {
    let options = to_carol("OPTIONS", Transport::Udp);
    let sent = forwarded(&options, Transport::Udp, Transport::Udp);
    assert_eq!(sent.all(HeaderName::MaxBreadth), ["60"]);
    let options = to_carol("OPTIONS", Transport::Udp).with("Max-Breadth: 5\r\n");
    let sent = forwarded(&options, Transport::Udp, Transport::Udp);
    assert_eq!(sent.all(HeaderName::MaxBreadth), ["5"]);
}

#[test]
fn the_request_uri_is_the_targets() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(settings());
        bed.register(
            "sip:bob@example.org",
            "sip:bob@203.0.113.9:5070;method=INVITE;x=1?Subject=no",
            None,
        );
        let options = request("OPTIONS", "sip:bob@example.org;user=phone", transport);
        let sent = only(bed.receive(&alice(transport), &options.text()));
        // RFC 3261 16.6: "The Request-URI in the copy's start line MUST be replaced with the URI
        // for this target.  If the URI contains any parameters not allowed in a Request-URI,
        // they MUST be removed."
        assert_eq!(sent.uri(), "sip:bob@203.0.113.9:5070;x=1");
        assert!(sent.header(HeaderName::Subject).is_none());
        // One that is its own target is no other.
        let mut bed = Bed::new(settings());
        let uri = "sip:carol@203.0.113.9;method=INVITE;x=1";
        let sent = only(bed.receive(
            &alice(transport),
            &request("OPTIONS", uri, transport).text(),
        ));
        assert_eq!(sent.uri(), "sip:carol@203.0.113.9;x=1");
    }
}

#[test]
fn a_contacts_path_is_pushed_in_front_of_the_routes() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(settings());
        let path = "<sip:edge@203.0.113.1;lr>,<sip:203.0.113.2;lr>";
        bed.register_with("sip:bob@example.org", "sip:bob@10.0.0.9", None, |b| {
            b.path = path.as_bytes().into();
        });
        let invite = request("INVITE", "sip:bob@example.org", transport);
        let sent = bed.receive(&alice(transport), &invite.text()).remove(1);
        // RFC 3261 16.6: "This set MUST be pushed into the Route header field of the copy ahead
        // of any existing values, if present.  If the Route header field is absent, it MUST
        // be added, containing that list of URIs."
        assert_eq!(
            sent.all(HeaderName::Route),
            ["<sip:edge@203.0.113.1;lr>", "<sip:203.0.113.2;lr>"]
        );
        assert_eq!(sent.uri(), "sip:bob@10.0.0.9");
        assert_eq!(sent.to.remote.to_string(), "203.0.113.1:5060");
        // RFC 3261 16.6: "A proxy MUST ensure that all such proxies are loose routers."
        let mut bed = Bed::new(settings());
        bed.register_with("sip:bob@example.org", "sip:bob@10.0.0.9", None, |b| {
            b.path = b"<sip:203.0.113.1>".as_slice().into();
        });
        let invite = request("INVITE", "sip:bob@example.org", transport);
        let sent = bed.receive(&alice(transport), &invite.text());
        assert_eq!(kinds(&sent), ["100", "480"]);
    }
}

#[test]
fn a_next_hop_of_the_operators_is_never_used_past_a_route() {
    // RFC 3261 16.6: "If the request has a Route header field, this alternative MUST NOT be
    // used unless it is known that next hop proxy is a loose router." and "Such a policy
    // MUST NOT be used if the proxy is not certain that the IP address, port, and
    // transport correspond to a server that is a loose router."
    let options = to_carol("OPTIONS", Transport::Udp).with("Route: <sip:203.0.113.1;lr>\r\n");
    let sent = forwarded(&options, Transport::Udp, Transport::Udp);
    assert_eq!(sent.to.remote.to_string(), "203.0.113.1:5060");
    assert_eq!(sent.all(HeaderName::Route), ["<sip:203.0.113.1;lr>"]);
}

#[test]
fn a_name_is_resolved_and_its_hops_tried_in_order() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(settings());
        let mut invite = request("INVITE", "sip:carol@example.com:5070", transport);
        invite.call_id = "resolve".into();
        assert_eq!(
            kinds(&bed.receive(&alice(transport), &invite.text())),
            ["100"]
        );
        let Some(Effect::Resolve { park, query }) = bed.effects.pop() else {
            panic!("nothing was asked");
        };
        assert_eq!(
            (&*query.host, query.port, query.transport),
            ("example.com", Some(5070), None)
        );
        let hop = |n: u8| Hop {
            transport: Transport::Udp,
            addr: std::net::SocketAddr::from(([203, 0, 113, n], 5070)),
            tls_name: None,
        };
        let first = only(bed.act(|shard, now, out| {
            shard.handle_resolved(now, park, Ok(vec![hop(1), hop(2)]), out);
        }));
        // RFC 3261 16.6: "As described in [4], the proxy MUST attempt to deliver the message to
        // the first tuple in that set, and proceed through the set in order until the
        // delivery attempt succeeds."
        assert_eq!(first.to.remote, hop(1).addr);
        let second = only(bed.act(|shard, now, out| {
            shard.handle_send_failed(now, first.cookie, out);
        }));
        assert_eq!(second.to.remote, hop(2).addr);
        // RFC 3261 16.6: "For each tuple attempted, the proxy MUST format the message as
        // appropriate for the tuple and send the request using a new client transaction as
        // detailed in steps 8 through 10." and "Thus, the branch parameter provided with the Via
        // header field inserted in step 8 MUST be different for each attempt." and "A stateful
        // proxy MUST create a new client transaction for this request as described in Section
        // 17.1 and instructs the transaction to send the request using the address, port and
        // transport determined in step 7."
        assert_ne!(first.branch(), second.branch());
        assert_eq!(bed.shard.transaction_counters().client_created, 2);
        // Late and repeated answers find nobody.
        assert!(
            bed.act(|s, now, out| s.handle_resolved(now, park, Ok(vec![hop(3)]), out))
                .is_empty()
        );
        assert_eq!(bed.shard.counters().answers_late, 1);
    }
}

#[test]
fn without_an_answer_from_dns_the_target_fails() {
    let mut bed = Bed::new(settings());
    let invite = request("INVITE", "sip:carol@example.com", Transport::Udp);
    bed.receive(&alice(Transport::Udp), &invite.text());
    let answers = bed.wait(5_100);
    assert_eq!(answers[0].status(), 504);
    assert_eq!(bed.shard.counters().resolves_expired, 1);
    let Some(Effect::Resolve { park, .. }) = bed.effects.pop() else {
        panic!("nothing was asked");
    };
    assert!(
        bed.act(|s, now, out| s.handle_resolved(now, park, Err(LocateError::NotFound), out))
            .is_empty()
    );
}

#[test]
fn cancel_and_ack_have_the_branch_of_their_invite() {
    // RFC 3261 16.6: "The request method MUST NOT be included in the calculation of the
    // branch parameter.  In particular, CANCEL and ACK requests (for non-2xx responses)
    // MUST have the same branch value as the corresponding request they cancel or
    // acknowledge."
    for transport in TRANSPORTS {
        let mut bed = Bed::new(forwarding(transport, NEXT));
        let invite = to_carol("INVITE", transport);
        let sent = bed.receive(&alice(transport), &invite.text()).remove(1);
        let bob = answering(&sent);
        bed.receive(&bob, &response(&sent, 180, "c", ""));
        let mut cancel = to_carol("CANCEL", transport);
        cancel.via = invite.via.clone();
        let cancel = bed.receive(&alice(transport), &cancel.text());
        assert_eq!(kinds(&cancel), ["200", "CANCEL"]);
        assert_eq!(cancel[1].branch(), sent.branch());
        let ack = bed.receive(&bob, &response(&sent, 487, "c", ""));
        assert_eq!(kinds(&ack), ["ACK", "487"]);
        assert_eq!(ack[0].branch(), sent.branch());
    }
}

#[test]
fn a_long_request_goes_over_a_stream_where_nobody_chose_the_datagram() {
    // RFC 3261 18.1.1: "If a request is within 200 bytes of the path MTU, or if it is larger
    // than 1300 bytes and the path MTU is unknown, the request MUST be sent using an RFC 2914
    // [43] congestion controlled transport protocol, such as TCP."
    let mut bed = Bed::new(settings());
    let mut long = request("MESSAGE", "sip:carol@203.0.113.9", Transport::Udp);
    long.body = "x".repeat(1_200);
    let stream = only(bed.receive(&alice(Transport::Udp), &long.text()));
    // RFC 3261 18: "It has arisen out of the need to handle larger messages, which MUST use TCP, as
    // discussed below."
    assert_eq!(stream.to.transport, Transport::Tcp);
    // RFC 3261 18.1.1: "If this causes a change in the transport protocol from the one indicated in the
    // top Via, the value in the top Via MUST be changed."
    assert!(stream.all(HeaderName::Via)[0].starts_with("SIP/2.0/TCP"));
    // No stream there: the datagram after all.
    let again = only(bed.act(|s, now, out| s.handle_send_failed(now, stream.cookie, out)));
    assert_eq!(
        (again.to.transport, again.to.remote),
        (Transport::Udp, stream.to.remote)
    );
    // Who asks for UDP gets it.
    let mut named = request(
        "MESSAGE",
        "sip:carol@203.0.113.9;transport=udp",
        Transport::Udp,
    );
    named.body = long.body.clone();
    let sent = only(bed.receive(&alice(Transport::Udp), &named.text()));
    assert_eq!(sent.to.transport, Transport::Udp);
}

/// A name is asked for, and this is where it leads by UDP.
#[track_caller]
fn resolved_to(bed: &mut Bed, addr: &str) -> Vec<Sent> {
    resolved_to_all(bed, &[(Transport::Udp, addr)])
}

/// A name is asked for, and these are the places to which it leads, in order.
#[track_caller]
fn resolved_to_all(bed: &mut Bed, places: &[(Transport, &str)]) -> Vec<Sent> {
    let Some(Effect::Resolve { park, .. }) = bed.effects.pop() else {
        panic!("nothing was asked");
    };
    let hops = places.iter().map(|(transport, addr)| Hop {
        transport: *transport,
        addr: addr.parse().unwrap(),
        tls_name: None,
    });
    let hops = hops.collect();
    bed.act(|shard, now, out| shard.handle_resolved(now, park, Ok(hops), out))
}

#[test]
fn a_long_request_goes_over_a_stream_where_a_name_leads_to_the_datagram() {
    // RFC 3261 18.1.1: "If a request is within 200 bytes of the path MTU, or if it is larger
    // than 1300 bytes and the path MTU is unknown, the request MUST be sent using an RFC 2914
    // [43] congestion controlled transport protocol, such as TCP."
    let udp = alice(Transport::Udp);
    for mode in [Mode::Stateful, Mode::Stateless] {
        for (uri, body, expected) in [
            ("sip:carol@far.example", 1_200, Transport::Tcp),
            ("sip:carol@far.example:5070", 1_200, Transport::Tcp),
            ("sip:carol@far.example", 10, Transport::Udp),
            ("sip:carol@far.example;transport=udp", 1_200, Transport::Udp),
        ] {
            let mut bed = Bed::new(Settings { mode, ..settings() });
            let mut message = request("MESSAGE", uri, Transport::Udp);
            message.body = "x".repeat(body);
            assert!(bed.receive(&udp, &message.text()).is_empty());
            let mut sent = resolved_to(&mut bed, "203.0.113.9:5060");
            if sent.is_empty() {
                // It has got a transaction, which asks for itself.
                sent = resolved_to(&mut bed, "203.0.113.9:5060");
            }
            let sent = only(sent);
            assert_eq!(sent.to.transport, expected, "{mode:?} {uri} {body}");
            if expected == Transport::Tcp {
                let again =
                    only(bed.act(|s, now, out| s.handle_send_failed(now, sent.cookie, out)));
                let came_to = (again.to.transport, again.to.remote);
                assert_eq!(came_to, (Transport::Udp, sent.to.remote));
            }
        }
    }
    // A phone that has registered by datagram knows no stream.
    let mut bed = Bed::new(settings());
    let bob = flow(Transport::Udp, "203.0.113.9:5060");
    bed.register("sip:bob@example.org", "sip:bob@phone.example", Some(bob));
    let mut message = request("MESSAGE", "sip:bob@example.org", Transport::Udp);
    message.body = "x".repeat(1_200);
    let mut sent = bed.receive(&udp, &message.text());
    if sent.is_empty() {
        sent = resolved_to(&mut bed, "203.0.113.9:5060");
    }
    assert_eq!(only(sent).to.transport, Transport::Udp);
}

const FIRST: &str = "203.0.113.9:5060";
const SECOND: &str = "203.0.113.10:5060";

/// A long MESSAGE to a name that leads to these places; the copy that is sent first.
#[track_caller]
fn long_message(bed: &mut Bed, places: &[(Transport, &str)]) -> Sent {
    let mut message = request("MESSAGE", "sip:carol@far.example", Transport::Udp);
    message.body = "x".repeat(1_200);
    assert!(
        bed.receive(&alice(Transport::Udp), &message.text())
            .is_empty()
    );
    only(resolved_to_all(bed, places))
}

#[test]
fn a_short_request_has_no_transaction_because_a_name_has_two_servers() {
    let mode = Mode::Stateless;
    let mut bed = Bed::new(Settings { mode, ..settings() });
    let message = request("MESSAGE", "sip:carol@far.example", Transport::Udp);
    bed.receive(&alice(Transport::Udp), &message.text());
    let places = [(Transport::Udp, FIRST), (Transport::Udp, SECOND)];
    let sent = only(resolved_to_all(&mut bed, &places));
    assert_eq!(sent.to.transport, Transport::Udp);
    assert_eq!((bed.shard.in_flight(), bed.effects.len()), (0, 0));
}

#[test]
fn a_server_that_answers_503_is_asked_by_no_other_way() {
    // RFC 3261 21.5.4: "It SHOULD NOT forward any other requests to that server for the duration
    // specified in the Retry-After header field, if present."
    let (udp, tcp) = (Transport::Udp, Transport::Tcp);
    for places in [
        vec![(udp, FIRST)],
        vec![(udp, FIRST), (tcp, FIRST)],
        vec![(tcp, FIRST), (udp, FIRST)],
    ] {
        let mut bed = Bed::new(settings());
        let copy = long_message(&mut bed, &places);
        assert_eq!(copy.to.transport, tcp);
        let busy = response(&copy, 503, "c", "Retry-After: 60\r\n");
        let sent = bed.receive(&answering(&copy), &busy);
        assert_eq!(kinds(&sent), ["500"], "{places:?}");
    }
    // Another server is.
    let mut bed = Bed::new(settings());
    let places = [(udp, FIRST), (udp, SECOND), (tcp, FIRST)];
    let copy = long_message(&mut bed, &places);
    let busy = |copy: &Sent| response(copy, 503, "c", "");
    let next = only(bed.receive(&answering(&copy), &busy(&copy)));
    let came_to = (next.to.transport, next.to.remote.to_string());
    assert_eq!(came_to, (tcp, SECOND.to_owned()));
    let sent = bed.receive(&answering(&next), &busy(&next));
    assert_eq!(kinds(&sent), ["500"]);
}

#[test]
fn only_a_stream_that_is_not_there_gives_way_to_the_datagram() {
    let (udp, tcp) = (Transport::Udp, Transport::Tcp);
    // Who is silent on it is there.
    let mut bed = Bed::new(settings());
    let copy = long_message(&mut bed, &[(udp, FIRST)]);
    assert_eq!(copy.to.transport, tcp);
    let sent = bed.wait(40_000);
    assert!(
        sent.iter().all(|sent| sent.status() != 0),
        "{:?}",
        kinds(&sent)
    );
    // Each way is tried once.
    for places in [
        vec![(udp, FIRST), (tcp, FIRST)],
        vec![(tcp, FIRST), (udp, FIRST)],
    ] {
        let mut bed = Bed::new(settings());
        let stream = long_message(&mut bed, &places);
        let failed = |bed: &mut Bed, sent: &Sent| {
            bed.act(|shard, now, out| shard.handle_send_failed(now, sent.cookie, out))
        };
        let datagram = only(failed(&mut bed, &stream));
        assert_eq!((stream.to.transport, datagram.to.transport), (tcp, udp));
        let sent = failed(&mut bed, &datagram);
        assert_eq!(kinds(&sent), ["502"], "{places:?}");
    }
}
