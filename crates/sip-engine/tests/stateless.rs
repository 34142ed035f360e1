//! Stateless mode (RFC 3261 16.11).

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use sip_engine::settings::{AuthSettings, Mode, Settings};
use sip_msg::{HeaderName, Transport};

const NEXT: &str = "203.0.113.9:5070";

fn stateless(to: Transport) -> Settings {
    Settings {
        mode: Mode::Stateless,
        ..forwarding(to, NEXT)
    }
}

/// Transports between which nothing must be repeated by the proxy.
const PAIRS: [(Transport, Transport); 4] = [
    (Transport::Udp, Transport::Udp),
    (Transport::Udp, Transport::Tcp),
    (Transport::Tcp, Transport::Tcp),
    (Transport::Tls, Transport::Tls),
];

#[test]
fn every_retransmission_goes_the_same_way() {
    for (from, to) in PAIRS {
        let mut bed = Bed::new(stateless(to));
        let invite = request("INVITE", "sip:carol@example.com", from);
        // RFC 3261 16.11: "Furthermore, when handling a request statelessly, an element MUST NOT
        // generate its own 100 (Trying) or any other provisional response."
        let first = only(bed.receive(&alice(from), &invite.text()));
        let second = only(bed.receive(&alice(from), &invite.text()));
        // RFC 3261 16.11: "In particular, a retransmitted request MUST be forwarded to the same
        // destination each time it is processed." and "Therefore, the component of the branch
        // parameter that makes it unique MUST be the same each time a retransmitted request
        // is forwarded."
        // RFC 3261 16.11: "All other message transformations specified in Section 16.6 MUST
        // result in the same transformation of a retransmitted request."
        // RFC 3261 16.11: "In particular, if
        // the proxy inserts a Record-Route value or pushes URIs into the Route header field,
        // it MUST place the same values in retransmissions of the request.  As for the Via
        // branch parameter, this implies that the transformations MUST be based on
        // time-invariant configuration or retransmission-invariant properties of the
        // request."
        assert_eq!(first.to, second.to);
        assert_eq!(first.text, second.text);
        // RFC 3261 16.11: "A stateless proxy MUST follow the request processing steps described in
        // Section 16.6 with the following exceptions:"
        assert_eq!(first.header(HeaderName::MaxForwards).unwrap(), "69");
        assert!(first.branch().starts_with("z9hG4bK"));
        assert!(!first.all(HeaderName::RecordRoute).is_empty());
        // RFC 3261 16.11: "Stateless proxies MUST NOT perform special processing for CANCEL
        // requests." and "Furthermore, CANCEL and non-Routed ACK requests MUST generate the same
        // choice as their associated INVITE."
        for method in ["CANCEL", "ACK"] {
            let mut other = request(method, "sip:carol@example.com", from);
            other.via = invite.via.clone();
            if method == "ACK" {
                other.to = "<sip:bob@example.org>;tag=c".into();
            }
            let other = only(bed.receive(&alice(from), &other.text()));
            assert_eq!((&other.to, other.branch()), (&first.to, first.branch()));
            assert_eq!(other.method(), method);
        }
        assert_eq!(bed.shard.in_flight(), 0);
    }
}

#[test]
fn one_target_is_chosen() {
    // RFC 3261 16.11: "A stateless proxy MUST follow the request processing steps described in
    // Sections 16.4 through 16.5 with the following exception:"
    // RFC 3261 16.11: "A stateless proxy MUST choose one and only one target from the target
    // set."
    // RFC 3261 16.11: "This choice MUST only rely on fields in the message and time-invariant
    // properties of the server."
    // RFC 3261 16.1: "Any request that is forwarded to more than one location MUST be handled
    // statefully." In either mode it is.
    for (mode, copies) in [(Mode::Stateless, 1), (Mode::Stateful, 2)] {
        let mut bed = Bed::new(Settings { mode, ..settings() });
        for (n, q) in [(1, 100), (2, 900), (3, 900)] {
            bed.register_with(
                "sip:bob@example.org",
                &format!("sip:bob@203.0.113.{n}"),
                None,
                |b| b.q = q,
            );
        }
        let mut chosen = Vec::new();
        for _ in 0..5 {
            let invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
            let mut sent = bed.receive(&alice(Transport::Udp), &invite.text());
            sent.retain(|s| s.status() == 0);
            assert_eq!(sent.len(), copies);
            assert_ne!(sent[0].uri(), "sip:bob@203.0.113.1");
            chosen.push(sent[0].uri().to_owned());
        }
        chosen.dedup();
        assert_eq!(chosen.len(), 1);
    }
}

#[test]
fn it_validates_like_the_other() {
    // RFC 3261 16.11: "A stateless proxy MUST validate a request as described in Section 16.3"
    for transport in TRANSPORTS {
        let mut bed = Bed::new(stateless(transport));
        let mut invite = request("INVITE", "sip:carol@example.com", transport);
        invite.more = "Max-Forwards: 0\r\n".into();
        let answer = only(bed.receive(&alice(transport), &invite.text()));
        assert_eq!(answer.status(), 483);
        let mut ack = request("ACK", "sip:carol@example.com", transport);
        ack.via = invite.via.clone();
        ack.to = answer.header(HeaderName::To).unwrap();
        assert!(bed.receive(&alice(transport), &ack.text()).is_empty());
        assert_eq!(bed.shard.in_flight(), 0);
    }
}

#[test]
fn responses_follow_the_vias() {
    for (from, to) in PAIRS {
        let mut bed = Bed::new(stateless(to));
        let invite = request("INVITE", "sip:carol@example.com", from);
        let sent = only(bed.receive(&alice(from), &invite.text()));
        // RFC 3261 16.11: "When a response arrives at a stateless proxy, the proxy MUST inspect
        // the sent-by value in the first (topmost) Via header field value.  If that address
        // matches the proxy, (it equals a value this proxy has inserted into previous
        // requests) the proxy MUST remove that header field value from the response and
        // forward the result to the location indicated in the next Via header field value.
        // The proxy MUST NOT add to, modify, or remove the message body.  Unless specified
        // otherwise, the proxy MUST NOT remove any other header field values."
        for status in [100, 180, 200] {
            let text = response(&sent, status, "c", "X-Kept: yes\r\n")
                .replace("Content-Length: 0\r\n\r\n", "Content-Length: 3\r\n\r\nabc");
            // RFC 3261 18.1.2: "Otherwise, the response MUST be passed to the core (whether it be
            // stateless proxy, stateful proxy, or UA) for further processing."
            let back = only(bed.receive(&answering(&sent), &text));
            assert_eq!(back.status(), status);
            assert_eq!((back.to.transport, back.to.conn), (from, alice(from).conn));
            assert_eq!(back.to.remote, alice(from).remote);
            let ours = format!("Via: {}\r\n", sent.all(HeaderName::Via)[0]);
            assert_eq!(back.text, text.replace(&ours, ""));
        }
        // RFC 3261 16.11: "If the address does not match the proxy, the message MUST be silently
        // discarded."
        // RFC 3261 18.1.2: "If the value of the "sent-by" parameter in that header field value does not
        // correspond to a value that the client transport is configured to insert into requests, the
        // response MUST be silently discarded."
        let foreign = response(&sent, 200, "c", "").replacen("192.0.2.1", "192.0.2.99", 1);
        assert!(bed.receive(&answering(&sent), &foreign).is_empty());
        assert_eq!(bed.shard.counters().responses_stray, 1);
    }
}

#[test]
fn what_only_the_proxy_could_repeat_gets_a_transaction() {
    // RFC 3261 16.1: "Requests forwarded between different types of transports where the
    // proxy's TU must take an active role in ensuring reliable delivery on one of the
    // transports MUST be forwarded transaction statefully."
    for from in [Transport::Tcp, Transport::Tls] {
        let mut bed = Bed::new(stateless(Transport::Udp));
        let invite = request("INVITE", "sip:carol@example.com", from);
        let sent = bed.receive(&alice(from), &invite.text());
        assert_eq!(kinds(&sent), ["100", "INVITE"]);
        assert_eq!(kinds(&bed.wait(600)), ["INVITE"]);
        bed.receive(&answering(&sent[1]), &response(&sent[1], 180, "c", ""));
        let mut cancel = request("CANCEL", "sip:carol@example.com", from);
        cancel.via = invite.via.clone();
        assert_eq!(
            kinds(&bed.receive(&alice(from), &cancel.text())),
            ["200", "CANCEL"]
        );
        let refused = bed.receive(&answering(&sent[1]), &response(&sent[1], 487, "c", ""));
        assert_eq!(kinds(&refused), ["ACK", "487"]);
        let mut ack = request("ACK", "sip:carol@example.com", from);
        ack.via = invite.via.clone();
        ack.to = refused[1].header(HeaderName::To).unwrap();
        assert!(bed.receive(&alice(from), &ack.text()).is_empty());
        bed.wait(70_000);
        assert_eq!(bed.shard.in_flight(), 0);
    }
}

#[test]
fn with_authentication_an_invite_keeps_state_for_its_cancel() {
    let mut settings = stateless(Transport::Udp);
    settings.authenticate = Some(AuthSettings::default());
    settings.trusted = vec![sip_engine::settings::TrustedPeer::at(
        alice(Transport::Udp).remote.ip(),
        32,
    )];
    let mut bed = Bed::new(settings);
    let invite = request("INVITE", "sip:carol@example.com", Transport::Udp);
    let sent = bed.receive(&alice(Transport::Udp), &invite.text());
    assert_eq!(kinds(&sent), ["100", "INVITE"]);
    let options = request("OPTIONS", "sip:carol@example.com", Transport::Udp);
    let live = bed.shard.in_flight();
    assert_eq!(
        kinds(&bed.receive(&alice(Transport::Udp), &options.text())),
        ["OPTIONS"]
    );
    assert_eq!(bed.shard.in_flight(), live);
    // A stranger's CANCEL of nothing goes nowhere.
    let cancel = request("CANCEL", "sip:carol@example.com", Transport::Udp);
    assert_eq!(
        kinds(&bed.receive(&alice(Transport::Udp), &cancel.text())),
        ["481"]
    );
}

#[test]
fn a_response_goes_only_where_a_request_came_from() {
    for (from, to) in PAIRS {
        let mut bed = Bed::new(stateless(to));
        let options = request("OPTIONS", "sip:carol@example.com", from);
        let sent = only(bed.receive(&alice(from), &options.text()));
        let text = response(&sent, 200, "c", "");
        // Made up: our address on top, and somebody else below it.
        let ours = &sent.all(HeaderName::Via)[0];
        let made_up = ours.replace(&sent.branch(), "z9hG4bKguessed");
        let victim = "SIP/2.0/UDP 203.0.113.66:53;branch=z9hG4bKv";
        let below = sent.all(HeaderName::Via)[1].clone();
        let forgeries = [
            text.replace(ours, &made_up),
            text.replace(&below, victim),
            text.replace(&below, &below.replace("198.51.100.1", "203.0.113.66")),
            text.replace(&below, &below.replace("5060", "53")),
            text.replace(&below, &format!("{below};received=203.0.113.66")),
            text.replace(&below, &format!("{below};rport=53")),
            text.replace(ours, &made_up).replace(&below, victim),
        ];
        for (number, forged) in forgeries.iter().enumerate() {
            assert_ne!(*forged, text, "forgery {number}");
            let sent_on = bed.receive(&answering(&sent), forged);
            assert!(
                sent_on.is_empty(),
                "forgery {number}: {:?}",
                kinds(&sent_on)
            );
            assert_eq!(bed.shard.counters().responses_stray, number as u64 + 1);
        }
        assert_eq!(only(bed.receive(&answering(&sent), &text)).status(), 200);
        // The flow of another request does not fit either.
        if !from.is_reliable() {
            continue;
        }
        let mut other = alice(from);
        other.remote.set_port(6060);
        other.conn.0 += 1;
        let elsewhere = request("OPTIONS", "sip:carol@example.com", from);
        let elsewhere = only(bed.receive(&other, &elsewhere.text()));
        let token_of = |via: &str| via.split_once(";flow=").unwrap().1.to_owned();
        let (own, other) = (token_of(ours), token_of(&elsewhere.all(HeaderName::Via)[0]));
        let crossed = text.replace(&own, &other);
        assert!(bed.receive(&answering(&sent), &crossed).is_empty());
        let bare = text.replace(&format!(";flow={own}"), "");
        assert!(bed.receive(&answering(&sent), &bare).is_empty());
    }
}

#[test]
fn a_long_request_has_a_transaction_that_sends_the_datagram_where_there_is_no_stream() {
    let mut bed = Bed::new(Settings {
        mode: Mode::Stateless,
        ..settings()
    });
    let mut long = request("MESSAGE", "sip:carol@203.0.113.9", Transport::Udp);
    long.body = "x".repeat(1_200);
    let stream = only(bed.receive(&alice(Transport::Udp), &long.text()));
    assert_eq!(stream.to.transport, Transport::Tcp);
    let again = only(bed.act(|s, now, out| s.handle_send_failed(now, stream.cookie, out)));
    assert_eq!(
        (again.to.transport, again.to.remote),
        (Transport::Udp, stream.to.remote)
    );
    assert!(bed.receive(&alice(Transport::Udp), &long.text()).is_empty());
    let ok = only(bed.receive(&answering(&again), &response(&again, 200, "c", "")));
    assert_eq!(ok.status(), 200);
    bed.wait(60_000);
    assert_eq!(bed.shard.in_flight(), 0);
}

#[test]
fn an_ack_for_somebody_who_is_not_there_is_counted() {
    for mode in [Mode::Stateful, Mode::Stateless] {
        let mut bed = Bed::new(Settings { mode, ..settings() });
        let mut ack = request("ACK", "sip:nobody@example.org", Transport::Udp);
        ack.to.push_str(";tag=b");
        assert!(bed.receive(&alice(Transport::Udp), &ack.text()).is_empty());
        assert_eq!(bed.shard.counters().requests_dropped, 1, "{mode:?}");
    }
}
