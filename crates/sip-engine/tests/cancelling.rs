//! CANCEL (RFC 3261 16.10) and timer C (16.8).

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::*;
use sip_engine::Effect;
use sip_msg::Transport;

const NEXT: &str = "203.0.113.9:5070";

fn invite(bed: &mut Bed, transport: Transport) -> (Request, Sent) {
    let invite = request("INVITE", "sip:carol@example.com", transport);
    let sent = bed.receive(&alice(transport), &invite.text()).remove(1);
    (invite, sent)
}

fn cancel_of(invite: &Request, transport: Transport) -> Request {
    let mut cancel = request("CANCEL", &invite.uri, transport);
    cancel.via = invite.via.clone();
    cancel
}

#[test]
fn a_ringing_call_is_cancelled() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(forwarding(transport, NEXT));
        let (invite, sent) = invite(&mut bed, transport);
        bed.receive(&answering(&sent), &response(&sent, 180, "c", ""));
        let cancel = cancel_of(&invite, transport);
        // RFC 3261 16.10: "If a matching response context is found, the element MUST immediately
        // return a 200 (OK) response to the CANCEL request." and "A proxy MUST cancel any
        // pending client transactions associated with a response context when it receives a
        // matching CANCEL request." and "Furthermore, the element MUST generate CANCEL requests for
        // all pending client transactions in the context as described in Section 16.7 step
        // 10."
        let answers = bed.receive(&alice(transport), &cancel.text());
        assert_eq!(kinds(&answers), ["200", "CANCEL"]);
        assert_eq!(answers[1].to.remote, sent.to.remote);
        // A second CANCEL changes nothing; over UDP it is a repetition of the first.
        let again = bed.receive(&alice(transport), &cancel.text());
        assert!(kinds(&again).iter().all(|kind| kind == "200"));
        let ended = bed.receive(&answering(&sent), &response(&sent, 487, "c", ""));
        assert_eq!(kinds(&ended), ["ACK", "487"]);
        bed.wait(70_000);
        assert_eq!(bed.shard.in_flight(), 0);
    }
}

#[test]
fn a_cancel_waits_for_a_provisional_response() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(forwarding(transport, NEXT));
        let (invite, sent) = invite(&mut bed, transport);
        let answers = bed.receive(&alice(transport), &cancel_of(&invite, transport).text());
        assert_eq!(kinds(&answers), ["200"]);
        let trying = bed.receive(&answering(&sent), &response(&sent, 100, "", ""));
        assert_eq!(kinds(&trying), ["CANCEL"]);
        // If nothing more comes, the caller gets his 487 all the same.
        let ended = bed.wait(40_000);
        assert!(kinds(&ended).contains(&"487".to_owned()));
    }
}

#[test]
fn a_cancelled_search_tries_nobody_else() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(settings());
        bed.register("sip:bob@example.org", "sip:bob@203.0.113.1", None);
        bed.register_with("sip:bob@example.org", "sip:bob@203.0.113.2", None, |b| {
            b.q = 500
        });
        let invite = request("INVITE", "sip:bob@example.org", transport);
        let sent = bed.receive(&alice(transport), &invite.text()).remove(1);
        bed.receive(&answering(&sent), &response(&sent, 180, "b", ""));
        bed.receive(&alice(transport), &cancel_of(&invite, transport).text());
        let ended = bed.receive(&answering(&sent), &response(&sent, 487, "b", ""));
        assert_eq!(kinds(&ended), ["ACK", "487"]);
    }
}

#[test]
fn a_cancel_of_nothing_is_answered_481() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(forwarding(transport, NEXT));
        let (invite, sent) = invite(&mut bed, transport);
        bed.receive(&answering(&sent), &response(&sent, 180, "c", ""));
        let mut cancel = cancel_of(&invite, transport);
        cancel.via.push('x');
        let answer = only(bed.receive(&alice(transport), &cancel.text()));
        assert_eq!(answer.status(), 481);
        // The right branch from the wrong host cancels nothing either.
        let stranger = flow(transport, "198.51.100.66:5060");
        let answer = bed.receive(&stranger, &cancel_of(&invite, transport).text());
        assert_eq!(kinds(&answer), ["481"]);
    }
}

#[test]
fn a_cancel_after_the_end_changes_nothing() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(forwarding(transport, NEXT));
        let (invite, sent) = invite(&mut bed, transport);
        bed.receive(&answering(&sent), &response(&sent, 200, "c", ""));
        let answers = bed.receive(&alice(transport), &cancel_of(&invite, transport).text());
        assert_eq!(kinds(&answers), ["200"]);
    }
}

#[test]
fn a_call_that_waits_for_addresses_is_cancelled() {
    let mut bed = Bed::new(settings());
    let invite = request("INVITE", "sip:carol@example.com", Transport::Udp);
    bed.receive(&alice(Transport::Udp), &invite.text());
    let answers = bed.receive(
        &alice(Transport::Udp),
        &cancel_of(&invite, Transport::Udp).text(),
    );
    assert_eq!(kinds(&answers), ["200", "487"]);
    let Some(Effect::Resolve { park, .. }) = bed.effects.pop() else {
        panic!("nothing was asked");
    };
    assert!(
        bed.act(|s, now, out| s.handle_resolved(now, park, Vec::new(), out))
            .is_empty()
    );
}

#[test]
fn timer_c_cancels_what_rings_for_ever() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(forwarding(transport, NEXT));
        let (_, sent) = invite(&mut bed, transport);
        bed.receive(&answering(&sent), &response(&sent, 180, "c", ""));
        // RFC 3261 16.6: "Timer C MUST be set for each client transaction when an INVITE request
        // is proxied.  The timer MUST be larger than 3 minutes."
        assert!(bed.wait(180_000).is_empty());
        // RFC 3261 16.8: "If timer C should fire, the proxy MUST either reset the timer with any
        // value it chooses, or terminate the client transaction.  If the client transaction
        // has received a provisional response, the proxy MUST generate a CANCEL request
        // matching that transaction."
        let fired = bed.wait(10_000);
        assert_eq!(kinds(&fired)[0], "CANCEL");
        assert_eq!(bed.shard.counters().timer_c_fired, 1);
        let ended = bed.receive(&answering(&sent), &response(&sent, 487, "c", ""));
        assert_eq!(kinds(&ended), ["ACK", "487"]);
    }
}

#[test]
fn a_provisional_response_sets_timer_c_back() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(forwarding(transport, NEXT));
        let (_, sent) = invite(&mut bed, transport);
        // RFC 3261 16.7: "For an INVITE transaction, if the response is a provisional response
        // with status codes 101 to 199 inclusive (i.e., anything but 100), the proxy MUST
        // reset timer C for that client transaction.  The timer MAY be reset to a different
        // value, but this value MUST be greater than 3 minutes."
        for status in [180, 183, 180, 181] {
            bed.receive(&answering(&sent), &response(&sent, status, "c", ""));
            assert!(bed.wait(180_000).is_empty(), "{status}");
        }
        // 100 is none of those.
        bed.receive(&answering(&sent), &response(&sent, 100, "", ""));
        assert_eq!(kinds(&bed.wait(10_000))[0], "CANCEL");
    }
}

#[test]
fn timer_c_without_any_response_is_a_408() {
    // RFC 3261 16.8: "If the client transaction has not received a provisional response, the
    // proxy MUST behave as if the transaction received a 408 (Request Timeout) response."
    // Timer B is shorter where it runs; here it does not.
    let mut settings = forwarding(Transport::Tcp, NEXT);
    settings.timers.t1_ms = 10_000;
    let mut bed = Bed::new(settings);
    invite(&mut bed, Transport::Tcp);
    let sent = bed.wait(190_000);
    assert_eq!(kinds(&sent), ["408"]);
    assert_eq!(bed.shard.counters().timer_c_fired, 1);
}
