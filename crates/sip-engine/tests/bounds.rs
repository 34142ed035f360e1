//! Past every bound there is an answer and a count.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::*;
use sip_engine::settings::Settings;
use sip_msg::{HeaderName, Transport};

const NEXT: &str = "203.0.113.9:5070";

fn bounded(change: impl FnOnce(&mut Settings)) -> Bed {
    let mut settings = forwarding(Transport::Udp, NEXT);
    change(&mut settings);
    Bed::new(settings)
}

/// Calls until one is refused; how many were let through.
fn calls(bed: &mut Bed) -> (usize, Sent) {
    for n in 0..20 {
        let invite = request("INVITE", "sip:carol@example.com", Transport::Udp);
        let mut sent = bed.receive(&alice(Transport::Udp), &invite.text());
        if sent.iter().all(|s| s.status() != 0) {
            return (n, sent.remove(sent.len() - 1));
        }
    }
    panic!("nothing was refused");
}

#[test]
fn contexts() {
    let mut bed = bounded(|s| s.bounds.contexts_max = 3);
    let (through, refused) = calls(&mut bed);
    assert_eq!((through, refused.status()), (3, 503));
    assert_eq!(refused.header(HeaderName::RetryAfter).as_deref(), Some("5"));
    assert_eq!(bed.shard.counters().contexts_full, 1);
    assert_eq!(bed.shard.live_contexts(), 3);
}

#[test]
fn server_transactions() {
    let mut bed = bounded(|s| s.bounds.server_transactions_max = 3);
    let (through, refused) = calls(&mut bed);
    assert_eq!((through, refused.status()), (3, 503));
    assert_eq!(refused.header(HeaderName::RetryAfter).as_deref(), Some("5"));
    assert_eq!(bed.shard.transaction_counters().server_full, 1);
}

#[test]
fn client_transactions() {
    let mut bed = bounded(|s| s.bounds.client_transactions_max = 3);
    let (through, refused) = calls(&mut bed);
    assert_eq!((through, refused.status()), (3, 503));
    assert_eq!(bed.shard.counters().clients_full, 1);
}

#[test]
fn a_stateless_refusal_is_no_bigger_than_it_must_be() {
    // What a sender who may be forged gets out is bounded by what he put in.
    let mut bed = bounded(|s| s.bounds.contexts_max = 0);
    let mut invite = request("INVITE", "sip:carol@example.com", Transport::Udp);
    invite.body = "v=0\r\n".repeat(20);
    let text = invite.text();
    let sent = bed.receive(&alice(Transport::Udp), &text);
    assert_eq!(kinds(&sent), ["503"]);
    assert!(sent[0].text.len() < text.len());
    assert!(bed.wait(70_000).is_empty());
}

#[test]
fn everything_ends() {
    let mut bed = bounded(|_| {});
    for method in ["INVITE", "OPTIONS", "BYE", "NEWMETHOD"] {
        for uri in [
            "sip:carol@example.com",
            "sip:bob@192.0.2.1",
            "sip:nobody@[2001:db8::7]",
        ] {
            bed.receive(
                &alice(Transport::Udp),
                &request(method, uri, Transport::Udp).text(),
            );
        }
    }
    assert!(bed.shard.in_flight() > 0);
    bed.wait(400_000);
    assert_eq!(bed.shard.in_flight(), 0);
    assert_eq!(bed.shard.next_deadline_ms(), None);
}

#[test]
fn a_reload_takes_effect_at_once() {
    let mut bed = bounded(|_| {});
    let mut settings = forwarding(Transport::Udp, "203.0.113.77:5060");
    settings.domains = vec!["example.net".into()];
    bed.act(|shard, _, _| shard.reload(std::sync::Arc::new(settings)));
    let invite = request("INVITE", "sip:carol@example.com", Transport::Udp);
    let sent = bed
        .receive(&alice(Transport::Udp), &invite.text())
        .remove(1);
    assert_eq!(sent.to.remote.to_string(), "203.0.113.77:5060");
    let register = request("OPTIONS", "sip:example.net", Transport::Udp);
    assert_eq!(
        only(bed.receive(&alice(Transport::Udp), &register.text())).status(),
        200
    );
}
