//! Neighbours that tell each other how much they can take (RFC 7339, RFC 7415).

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::sync::Arc;

use crate::common::*;
use sip_engine::sender::Sender;
use sip_engine::settings::{Settings, TrustedPeer};
use sip_msg::{Flow, HeaderName, Limits, Transport, VerifiedPeer};

const GATEWAY: &str = "203.0.113.9:5070";
const OFFER: &str = ";oc;oc-algo=\"loss\"";

/// An INVITE towards the gateway; what is sent.
fn call(bed: &mut Bed) -> Vec<Sent> {
    let invite = request("INVITE", "sip:carol@example.com", Transport::Udp);
    bed.receive(&alice(Transport::Udp), &invite.text())
}

/// What the gateway answers, with this in our Via in the place of the offer.
fn answer(bed: &mut Bed, sent: &Sent, told: &str) {
    let text = response(sent, 180, "g", "");
    assert!(text.contains(OFFER), "{text}");
    bed.receive(&answering(sent), &text.replacen(OFFER, told, 1));
}

fn sent_of(bed: &mut Bed, calls: u32) -> usize {
    (0..calls)
        .filter(|_| call(bed).iter().any(|s| s.status() == 0))
        .count()
}

#[test]
fn a_gateway_is_offered_it_and_its_word_is_kept_and_ends() {
    let mut bed = Bed::new(forwarding(Transport::Udp, GATEWAY));
    let first = call(&mut bed).remove(1);
    assert!(first.all(HeaderName::Via)[0].ends_with(OFFER));
    answer(
        &mut bed,
        &first,
        ";oc=50;oc-algo=\"loss\";oc-validity=1000;oc-seq=7.1",
    );
    assert_eq!(sent_of(&mut bed, 40), 20);
    assert_eq!(bed.shard.counters().spared, 20);
    bed.wait(1_001);
    assert_eq!(sent_of(&mut bed, 40), 40);
}

#[test]
fn a_call_that_may_not_be_sent_is_refused_as_if_the_gateway_had_done_it() {
    let mut bed = Bed::new(forwarding(Transport::Udp, GATEWAY));
    let first = call(&mut bed).remove(1);
    answer(
        &mut bed,
        &first,
        ";oc=0;oc-algo=\"rate\";oc-validity=1000;oc-seq=7.1",
    );
    call(&mut bed);
    let refused = call(&mut bed).into_iter().next_back().unwrap();
    assert!(refused.status() >= 500, "{}", refused.text);
}

#[test]
fn a_user_is_neither_offered_it_nor_heeded() {
    let mut bed = Bed::new(settings());
    bed.register("sip:bob@example.org", "sip:bob@203.0.113.7:5060", None);
    for _ in 0..2 {
        let invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
        let sent = bed
            .receive(&alice(Transport::Udp), &invite.text())
            .remove(1);
        let via = sent.all(HeaderName::Via).remove(0);
        assert!(!via.contains(";oc"), "{via}");
        let text = response(&sent, 180, "b", "").replacen(&via, &format!("{via};oc=100"), 1);
        bed.receive(&answering(&sent), &text);
    }
}

#[test]
fn a_peer_that_asks_is_told_and_nobody_speaks_in_our_place() {
    let mut bed = Bed::new(Settings {
        trusted: vec![TrustedPeer::at("198.51.100.1".parse().unwrap(), 32)],
        ..forwarding(Transport::Udp, GATEWAY)
    });
    bed.act(|shard, _, _| shard.set_loss_percent(30));
    let told = |sent: &Sent| {
        let via = sent.all(HeaderName::Via).remove(0);
        via.contains(";oc=30;oc-algo=\"loss\";oc-validity=500;oc-seq=")
            && via.matches(";oc=").count() == 1
    };
    let asking = |method, uri| {
        let mut request = request(method, uri, Transport::Udp);
        request.via.push_str(";oc;oc-algo=\"loss,rate\"");
        request.text()
    };
    let options = asking("OPTIONS", "sip:192.0.2.1:5060");
    let own = only(bed.receive(&alice(Transport::Udp), &options));
    assert!(told(&own), "{}", own.text);
    let invite = asking("INVITE", "sip:carol@example.com");
    let forwarded = bed.receive(&alice(Transport::Udp), &invite).remove(1);
    // The gateway writes into the Via of our peer.
    let ringing = response(&forwarded, 180, "g", "");
    let forged = ringing.replace(
        ";oc;oc-algo=\"loss,rate\"\r",
        ";oc=100;oc-seq=9999999999.9\r",
    );
    assert_ne!(ringing, forged);
    assert!(told(&only(bed.receive(&answering(&forwarded), &forged))));
    // Who does not ask is not told.
    let plain = request("INVITE", "sip:carol@example.com", Transport::Udp);
    let sent = bed.receive(&alice(Transport::Udp), &plain.text()).remove(1);
    let ringing = only(bed.receive(&answering(&sent), &response(&sent, 180, "g", "")));
    assert!(!ringing.all(HeaderName::Via)[0].contains(";oc"));
}

#[test]
fn who_is_told_is_who_asked_and_not_who_answers() {
    let proof = proof_of("peer.example");
    let entry = TrustedPeer {
        network: None,
        identity: Some("peer.example".into()),
        speaks_for: Some(vec!["*".into()]),
        ..TrustedPeer::at("198.51.100.1".parse().unwrap(), 32)
    };
    let mut bed = Bed::new(Settings {
        trusted: vec![entry],
        ..forwarding(Transport::Tls, "203.0.113.9:5061")
    });
    bed.act(|shard, _, _| shard.set_loss_percent(30));
    let mut of = |peer: Option<&Arc<VerifiedPeer>>, flow: &Flow, text: &str| match peer {
        None => bed.receive(flow, text),
        Some(peer) => bed.act(|shard, now, out| {
            let mut message = shard.spare_message();
            message.fill(text.as_bytes(), &Limits::default()).unwrap();
            let sender = Sender {
                flow: *flow,
                peer: Some(Arc::clone(peer)),
            };
            shard.handle_message(now, &sender, message, out);
        }),
    };
    for (caller, called) in [(Some(&proof), None), (None, Some(&proof))] {
        let mut invite = request("INVITE", "sip:carol@example.com", Transport::Tls);
        invite.via.push_str(";oc;oc-algo=\"loss\"");
        let copy = of(caller, &alice(Transport::Tls), &invite.text()).remove(1);
        let ringing = response(&copy, 180, "g", "");
        let ringing = only(of(called, &answering(&copy), &ringing));
        let is_told = ringing.all(HeaderName::Via)[0].contains(";oc=30;");
        assert_eq!(is_told, caller.is_some(), "{}", ringing.text);
    }
}
