//! CANCEL (RFC 3261 16.10) and timer C (16.8).

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
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
fn nothing_is_kept_of_a_cancel_of_nothing() {
    // One branch from many places would be one chain of transactions, which each new one walks.
    let mut bed = Bed::new(forwarding(Transport::Udp, NEXT));
    let cancel = request("CANCEL", "sip:carol@example.com", Transport::Udp);
    for n in 0..1_000_u32 {
        let [_, a, b, c] = n.to_be_bytes();
        let from = flow(Transport::Udp, &format!("198.51.{}.{}:5060", a ^ b, c));
        let sent = bed.receive(&from, &cancel.text());
        assert_eq!(kinds(&sent), ["481"]);
        assert_eq!(bed.shard.in_flight(), 0);
    }
}

#[test]
fn who_cancels_nothing_again_and_again_is_refused_less_and_less() {
    let tcp = Transport::Tcp;
    let mut bed = Bed::new(forwarding(tcp, NEXT));
    let mut said = std::collections::BTreeSet::new();
    for _ in 0..10_200 {
        let cancel = request("CANCEL", "sip:carol@example.com", tcp);
        said.insert(kinds(&bed.receive(&alice(tcp), &cancel.text())));
    }
    let expected = [vec![], vec!["481".to_owned()], vec!["503".to_owned()]];
    assert_eq!(said, expected.into());
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
        bed.act(|s, now, out| s.handle_resolved(
            now,
            park,
            Err(sip_locate::LocateError::NotFound),
            out
        ))
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
fn timer_c_is_longer_than_three_minutes_whatever_is_chosen() {
    // RFC 3261 16.6: "The timer MUST be larger than 3 minutes."
    let mut settings = forwarding(Transport::Udp, NEXT);
    settings.proxy.timer_c_ms = 1;
    let mut bed = Bed::new(settings);
    let (_, sent) = invite(&mut bed, Transport::Udp);
    bed.receive(&answering(&sent), &response(&sent, 180, "c", ""));
    assert!(bed.wait(180_000).is_empty());
    assert_eq!(kinds(&bed.wait(10_000))[0], "CANCEL");
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

#[test]
fn a_cancel_of_what_is_no_invite_changes_nothing() {
    // RFC 3261 9.2: "A CANCEL request has no impact on the processing of transactions with any
    // other method defined in this specification."
    for transport in TRANSPORTS {
        let mut bed = Bed::new(settings());
        bed.register("sip:bob@example.org", "sip:bob@203.0.113.1", None);
        bed.register_with("sip:bob@example.org", "sip:bob@203.0.113.2", None, |b| {
            b.q = 500
        });
        let message = request("MESSAGE", "sip:bob@example.org", transport);
        let first = only(bed.receive(&alice(transport), &message.text()));
        // RFC 4320 4.1: it is answered 100 after a while.
        assert!(kinds(&bed.wait(5_000)).contains(&"100".to_owned()));
        let answers = bed.receive(&alice(transport), &cancel_of(&message, transport).text());
        assert_eq!(kinds(&answers), ["200"]);
        // The search goes on at the next contact, and its answer arrives.
        let next = bed.receive(&answering(&first), &response(&first, 486, "b", ""));
        assert_eq!(kinds(&next), ["MESSAGE"]);
        let done = bed.receive(&answering(&next[0]), &response(&next[0], 200, "b", ""));
        assert_eq!(kinds(&done), ["200"]);
    }
}

fn is_cancel(sent: &Sent) -> bool {
    sent.status() == 0 && sent.method() == "CANCEL"
}

/// Two phones ring; the first of them answers with this status.
fn two_ring(transport: Transport, has_rung: bool, status: u16) -> Vec<Sent> {
    let mut bed = Bed::new(settings());
    bed.register("sip:bob@example.org", "sip:bob@203.0.113.1", None);
    bed.register("sip:bob@example.org", "sip:bob@203.0.113.2", None);
    let invite = request("INVITE", "sip:bob@example.org", transport);
    let sent = bed.receive(&alice(transport), &invite.text());
    let (first, second) = (&sent[1], &sent[2]);
    if has_rung {
        bed.receive(&answering(second), &response(second, 180, "c", ""));
    }
    let mut ended = bed.receive(&answering(first), &response(first, status, "b", ""));
    if !has_rung {
        ended.extend(bed.receive(&answering(second), &response(second, 180, "c", "")));
    }
    ended
}

#[test]
fn phones_learn_that_the_call_was_taken_elsewhere() {
    // RFC 3326 2: a phone whose call was taken by another shows no missed call.
    for transport in TRANSPORTS {
        for has_rung in [true, false] {
            let ended = two_ring(transport, has_rung, 200);
            let cancel = ended.iter().find(|s| is_cancel(s)).unwrap();
            let reason = "\r\nReason: SIP;cause=200;text=\"Call completed elsewhere\"\r\n";
            assert!(cancel.text.contains(reason), "{}", cancel.text);
        }
        // Nobody took it: one of them declined for all.
        let ended = two_ring(transport, true, 603);
        let cancel = ended.iter().find(|s| is_cancel(s)).unwrap();
        assert!(
            cancel.text.contains("\r\nReason: SIP;cause=603\r\n"),
            "{}",
            cancel.text
        );
    }
}

#[test]
fn a_callers_reason_goes_with_his_cancel() {
    for transport in TRANSPORTS {
        for has_rung in [true, false] {
            let mut bed = Bed::new(forwarding(transport, NEXT));
            let (invite, sent) = invite(&mut bed, transport);
            if has_rung {
                bed.receive(&answering(&sent), &response(&sent, 180, "c", ""));
            }
            let cancel = cancel_of(&invite, transport).with(
                "Reason: Q.850;cause=16\r\nREASON: SIP;cause=200;\r\n text=\"elsewhere\"\r\n",
            );
            let mut sent_on = bed.receive(&alice(transport), &cancel.text());
            if !has_rung {
                sent_on.extend(bed.receive(&answering(&sent), &response(&sent, 180, "c", "")));
            }
            let cancel = sent_on.iter().find(|s| is_cancel(s)).unwrap();
            let fields: Vec<_> = cancel
                .text
                .lines()
                .filter(|l| l.starts_with("Reason"))
                .collect();
            assert_eq!(
                fields,
                ["Reason: Q.850;cause=16, SIP;cause=200;   text=\"elsewhere\""],
                "{}",
                cancel.text
            );
        }
    }
}

#[test]
fn a_reason_that_is_too_long_to_be_meant_stays_here() {
    for transport in TRANSPORTS {
        for (length, is_passed) in [(1_024, true), (1_025, false)] {
            let mut bed = Bed::new(forwarding(transport, NEXT));
            let (invite, sent) = invite(&mut bed, transport);
            bed.receive(&answering(&sent), &response(&sent, 180, "c", ""));
            let reason = format!("Reason: {}\r\n", "x".repeat(length));
            let cancel = cancel_of(&invite, transport).with(&reason);
            let sent_on = bed.receive(&alice(transport), &cancel.text());
            let cancel = sent_on.iter().find(|sent| is_cancel(sent)).unwrap();
            assert_eq!(cancel.text.contains("\r\nReason: x"), is_passed);
        }
    }
}
