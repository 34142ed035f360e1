//! Past every bound there is an answer and a count.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
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

#[test]
fn past_the_memory_for_messages_what_begins_something_is_refused_first() {
    let mut bed = bounded(|_| {});
    let call = |bed: &mut Bed| {
        let invite = request("INVITE", "sip:carol@example.com", Transport::Udp);
        bed.receive(&alice(Transport::Udp), &invite.text())
    };
    let begun = call(&mut bed);
    assert_eq!(kinds(&begun), ["100", "INVITE"]);

    // What begins something is refused first, and leaves nothing.
    bed.act(|shard, _, _| shard.set_memory_pressure(0.9));
    let held = bed.shard.held_bytes();
    let refused = only(call(&mut bed));
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.header(HeaderName::RetryAfter).as_deref(), Some("5"));
    assert_eq!(bed.shard.counters().memory_refused, 1);
    assert!(bed.shard.held_bytes() <= held + sip_msg::Pool::LARGE_BYTES);
    let mut bye = request("BYE", "sip:carol@example.com", Transport::Udp);
    bye.to = "<sip:carol@example.com>;tag=c".to_owned();
    assert_eq!(
        kinds(&bed.receive(&alice(Transport::Udp), &bye.text())),
        ["BYE"]
    );

    // Then all but what ends something.
    let within = |bed: &mut Bed, method| {
        let mut request = request(method, "sip:carol@example.com", Transport::Udp);
        request.to = "<sip:carol@example.com>;tag=c".to_owned();
        kinds(&bed.receive(&alice(Transport::Udp), &request.text()))
    };
    bed.act(|shard, _, _| shard.set_memory_pressure(1.0));
    assert_eq!(within(&mut bed, "INFO"), ["503"]);
    assert_eq!(within(&mut bed, "BYE"), ["BYE"]);
    // A BYE is kept for a while, and proves no call: there is an end to that too.
    bed.act(|shard, _, _| shard.set_memory_pressure(sip_engine::budget::OVERDRAWN_AT));
    assert_eq!(within(&mut bed, "BYE"), ["503"]);
    let busy = response(&begun[1], 486, "c", "");
    let ended = bed.receive(&answering(&begun[1]), &busy);
    assert_eq!(kinds(&ended), ["ACK", "486"]);
    // Of a CANCEL that matches nothing nothing is kept.
    let held = bed.shard.held_bytes();
    for _ in 0..100 {
        assert_eq!(within(&mut bed, "CANCEL"), ["481"]);
    }
    assert!(bed.shard.held_bytes() <= held + sip_msg::Pool::LARGE_BYTES);

    bed.act(|shard, _, _| shard.set_memory_pressure(0.1));
    assert_eq!(kinds(&call(&mut bed)), ["100", "INVITE"]);
}

#[test]
fn what_a_flood_holds_is_counted_and_goes_with_it() {
    let mut bed = bounded(|_| {});
    let base = bed.shard.held_bytes();
    let mut largest = 0;
    for n in 0..3_000 {
        let mut message = request("MESSAGE", "sip:carol@example.com", Transport::Udp);
        if n % 10 == 0 {
            message.body = "x".repeat(50_000);
        }
        bed.receive(&alice(Transport::Udp), &message.text());
        largest = largest.max(bed.shard.held_bytes());
    }
    // Each of 300 is held by its context and, to be repeated, by its transaction.
    assert!(largest - base > 300 * 2 * 50_000, "{largest}");
    bed.wait(400_000);
    assert_eq!(bed.shard.in_flight(), 0);
    for _ in 0..40 {
        bed.act(|shard, _, _| shard.trim());
    }
    let left = bed.shard.held_bytes();
    assert!(
        left < base + (256 << 10),
        "{base} bytes before, {left} after"
    );
}

/// A 401 with so many challenges of 7,000 bytes.
fn challenge(bed: &mut Bed, to: &Sent, challenges: usize) -> Vec<Sent> {
    let nonce = "n".repeat(7_000);
    let line = format!("WWW-Authenticate: Digest realm=\"r\", nonce=\"{nonce}\"\r\n");
    let text = response(to, 401, "c", &line.repeat(challenges));
    bed.receive(&answering(to), &text)
}

/// A call that is forked to ten phones.
fn forked_to_ten(bed: &mut Bed) -> Vec<Sent> {
    for phone in 10..20 {
        let contact = format!("sip:bob@203.0.113.{phone}");
        bed.register("sip:bob@example.org", &contact, None);
    }
    let invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
    let mut branches = bed.receive(&alice(Transport::Udp), &invite.text());
    branches.retain(|sent| sent.status() == 0);
    assert_eq!(branches.len(), 10);
    branches
}

#[test]
fn the_challenges_of_a_fork_are_counted_and_have_a_bound() {
    let mut bed = Bed::new(settings());
    let branches = forked_to_ten(&mut bed);
    challenge(&mut bed, &branches[0], 1);
    let held = bed.shard.held_bytes();
    challenge(&mut bed, &branches[1], 2);
    assert!(bed.shard.held_bytes() > held + 13_000);
    assert_eq!(bed.shard.counters().challenges_left_out, 0);
    for branch in &branches[2..9] {
        challenge(&mut bed, branch, 8);
    }
    assert!(bed.shard.held_bytes() < held + 40_000);
    assert_eq!(bed.shard.counters().challenges_left_out, 7);
    let mut sent = challenge(&mut bed, &branches[9], 8);
    sent.retain(|sent| sent.status() != 0);
    let refused = only(sent);
    assert_eq!(refused.all(HeaderName::WwwAuthenticate).len(), 3);
}

#[test]
fn what_a_fork_collects_does_not_make_an_answer_too_long_for_a_datagram() {
    const DATAGRAM_BYTES_MAX: usize = 65_507;
    let mut bed = Bed::new(settings());
    let branches = forked_to_ten(&mut bed);
    let mut sent = Vec::new();
    for branch in &branches {
        sent = challenge(&mut bed, branch, 8);
    }
    sent.retain(|sent| sent.status() != 0);
    let refused = only(sent);
    assert_eq!(refused.status(), 401);
    assert_eq!(refused.all(HeaderName::WwwAuthenticate).len(), 8);
    assert!(refused.text.len() < DATAGRAM_BYTES_MAX);
    assert_eq!(bed.shard.counters().challenges_left_out, 9);
}

#[test]
fn one_sender_has_only_so_many_names_resolved_at_a_time() {
    let mut bed = Bed::new(Settings {
        authenticate: Some(sip_engine::settings::AuthSettings::default()),
        inbound: sip_engine::settings::Inbound::Anyone,
        ..settings()
    });
    bed.register("sip:bob@example.org", "sip:bob@phone.example.net", None);
    let call = |bed: &mut Bed, remote: &str| {
        let mut invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
        invite.from = "<sip:stranger@example.net>;tag=s".to_owned();
        bed.receive(&flow(Transport::Udp, remote), &invite.text())
    };
    let mut refused = 0;
    for _ in 0..40 {
        let sent = call(&mut bed, "198.51.100.1:5060");
        refused += usize::from(kinds(&sent).iter().any(|kind| kind.starts_with('5')));
    }
    assert_eq!(refused, 8);
    assert_eq!(bed.shard.counters().resolves_refused, 8);
    // Another sender has his own.
    bed.effects.clear();
    call(&mut bed, "198.51.100.2:5060");
    let Some(sip_engine::Effect::Resolve { park, .. }) = bed.effects.pop() else {
        panic!("nothing was asked");
    };
    // What has its answer, and what has waited too long, makes room.
    bed.act(|shard, now, out| {
        shard.handle_resolved(now, park, Err(sip_locate::LocateError::NotFound), out)
    });
    bed.wait(60_000);
    call(&mut bed, "198.51.100.1:5060");
    assert_eq!(bed.shard.counters().resolves_refused, 8);
}
