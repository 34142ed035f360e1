//! Gateways that are silent, refuse, ask for a pause or are drained: which is tried next, and
//! what is held against the one before.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use crate::common::*;
use sip_engine::gateways::{Change, Why};
use sip_engine::refusal::Reason;
use sip_engine::routes::{Care, Failover, Gateway, GatewayGroup};
use sip_engine::settings::Settings;
use sip_engine::{Effect, SharedGateways};
use sip_msg::{HeaderName, Transport};

const UDP: Transport = Transport::Udp;
const GATEWAYS: [&str; 2] = ["203.0.113.8:5070", "203.0.113.9:5070"];
const NUMBER: &str = "sip:+4930@example.org";

/// Numbers go to two gateways, the second for when the first fails.
fn two_gateways(transport: Transport, care: Care) -> Settings {
    let mut settings = settings();
    let gateways = (0..).zip(GATEWAYS).map(|(priority, addr)| Gateway {
        next_hop: next_hop(transport, addr),
        priority,
        weight: 1,
    });
    settings.routes.groups.push(GatewayGroup {
        name: "trunk".into(),
        gateways: gateways.collect(),
        care: Some(Arc::new(care)),
        ..GatewayGroup::default()
    });
    settings.routes.prefixes.insert("+".into(), 0);
    settings
}

fn bed() -> Bed {
    Bed::new(two_gateways(UDP, Care::USUAL))
}

/// A call by its Call-ID; what is sent because of it.
fn call(bed: &mut Bed, call_id: &str, transport: Transport) -> Vec<Sent> {
    let mut invite = request("INVITE", NUMBER, transport);
    invite.call_id = call_id.to_owned();
    bed.receive(&alice(transport), &invite.text())
}

/// The only copy of an INVITE among what was sent, and the number of the gateway it went to.
#[track_caller]
fn copy(sent: Vec<Sent>) -> (usize, Sent) {
    let copy = only(
        sent.into_iter()
            .filter(|of| of.status() == 0 && of.method() == "INVITE")
            .collect(),
    );
    let remote = copy.to.remote.to_string();
    let to = GATEWAYS.iter().position(|addr| *addr == remote);
    (to.unwrap(), copy)
}

/// What is sent to a gateway, by its number, or to alice.
fn to_gateway(sent: &[Sent], number: usize) -> Vec<String> {
    let of_it = sent
        .iter()
        .filter(|of| of.to.remote.to_string() == GATEWAYS[number]);
    of_it
        .map(|of| match of.status() {
            0 => of.method(),
            status => status.to_string(),
        })
        .collect()
}

fn to_alice(sent: &[Sent]) -> Vec<u16> {
    let of_her = sent.iter().filter(|of| of.to.remote == alice(UDP).remote);
    of_her.map(Sent::status).collect()
}

fn answer(bed: &mut Bed, to: &Sent, status: u16) -> Vec<Sent> {
    let text = response(to, status, "g", "");
    bed.receive(&answering(to), &text)
}

/// What was told of gateways since the last time.
fn changes(bed: &mut Bed) -> Vec<Change> {
    let told = bed.effects.drain(..).filter_map(|effect| match effect {
        Effect::Gateway { change, .. } => Some(change),
        _ => None,
    });
    told.collect()
}

/// A call whose first gateway says nothing in its time: the copies to both.
fn left(bed: &mut Bed) -> (Sent, Sent) {
    let (number, first) = copy(call(bed, "left", UDP));
    assert_eq!(number, 0);
    let early = bed.wait(3_900);
    assert!(to_gateway(&early, 1).is_empty());
    let late = bed.wait(200);
    let late = late
        .into_iter()
        .filter(|of| of.to.remote.to_string() == GATEWAYS[1]);
    let (number, second) = copy(late.collect());
    assert_eq!(number, 1);
    (first, second)
}

#[test]
fn a_silent_gateway_costs_one_call_its_time_and_no_other() {
    let shared = Arc::new(SharedGateways::default());
    let settings = two_gateways(UDP, Care::USUAL);
    let mut bed = Bed::with_gateways(settings.clone(), &shared);
    let mut other = Bed::with_gateways(settings, &shared);
    let (_, second) = left(&mut bed);
    assert_eq!(changes(&mut bed), [Change::PassedOver(Why::Silent)]);
    let way = bed
        .refused
        .iter()
        .find(|of| of.reason == Reason::GatewaySilent);
    assert_eq!(way.unwrap().hop, Some(GATEWAYS[0].parse().unwrap()));
    assert_eq!(to_alice(&answer(&mut bed, &second, 200)), [200]);
    // Calls of this shard and of others go to the second at once.
    for bed in [&mut bed, &mut other] {
        let (number, copy) = copy(call(bed, "next", UDP));
        assert_eq!(number, 1);
        answer(bed, &copy, 486);
        assert!(changes(bed).is_empty());
    }
    assert_eq!(bed.shard.counters().gateways_silent, 1);
    assert_eq!(other.shard.counters().gateways_passed_over, 0);
    // After its time it is tried again, and any answer of its redeems it.
    bed.wait(31_000);
    let (number, first) = copy(call(&mut bed, "later", UDP));
    assert_eq!(number, 0);
    answer(&mut bed, &first, 100);
    assert_eq!(changes(&mut bed), [Change::Returned]);
    assert_eq!(bed.shard.counters().gateways_returned, 1);
}

#[test]
fn over_a_stream_that_is_up_a_silent_gateway_is_left_as_well() {
    for transport in [Transport::Tcp, Transport::Tls] {
        let mut bed = Bed::new(two_gateways(transport, Care::USUAL));
        assert_eq!(copy(call(&mut bed, "stream", transport)).0, 0);
        assert_eq!(copy(bed.wait(4_100)).0, 1);
    }
}

#[test]
fn a_response_of_any_kind_ends_the_wait() {
    for status in [100, 180] {
        let mut bed = bed();
        let (_, first) = copy(call(&mut bed, "slow", UDP));
        bed.wait(3_500);
        answer(&mut bed, &first, status);
        let later = bed.wait(100_000);
        assert!(to_gateway(&later, 1).is_empty(), "{status}");
        // From then on timer C is what it is called.
        assert_eq!(bed.shard.counters().timer_c_fired, 0);
        let much_later = bed.wait(90_000);
        assert!(
            to_gateway(&much_later, 0).contains(&"CANCEL".to_owned()),
            "{status}"
        );
        assert_eq!(bed.shard.counters().timer_c_fired, 1);
    }
}

#[test]
fn a_response_with_no_via_but_ours_ends_the_wait_as_well() {
    for status in [100, 180] {
        let mut bed = bed();
        let (_, first) = copy(call(&mut bed, "slow", UDP));
        let callers_via = format!("Via: {}\r\n", first.all(HeaderName::Via)[1]);
        let for_us = response(&first, status, "g", "").replace(&callers_via, "");
        assert!(bed.receive(&answering(&first), &for_us).is_empty());
        let later = bed.wait(100_000);
        assert!(to_gateway(&later, 1).is_empty(), "{status}");
        assert!(changes(&mut bed).is_empty(), "{status}");
    }
}

#[test]
fn the_last_way_has_as_long_as_its_transaction() {
    let mut alone = two_gateways(UDP, Care::USUAL);
    alone.routes.groups[0].gateways.truncate(1);
    let mut bed = Bed::new(alone);
    call(&mut bed, "alone", UDP);
    assert!(to_alice(&bed.wait(31_000)).is_empty());
    assert_eq!(to_alice(&bed.wait(1_100))[0], 408);
    // So has one whose only other is passed over.
    let mut bed = self::bed();
    let (_, second) = left(&mut bed);
    answer(&mut bed, &second, 200);
    let (number, _) = copy(call(&mut bed, "again", UDP));
    assert_eq!(number, 1);
    let waited = bed.wait(20_000);
    assert!(to_alice(&waited).is_empty());
    assert!(
        to_gateway(&waited, 0).iter().all(|of| of == "INVITE"),
        "those of the call before"
    );
    // And one to which the operator gives it.
    let patient = Care {
        timeout_ms: 0,
        ..Care::USUAL
    };
    let mut bed = Bed::new(two_gateways(UDP, patient));
    call(&mut bed, "patient", UDP);
    assert!(to_gateway(&bed.wait(31_000), 1).is_empty());
    assert_eq!(to_gateway(&bed.wait(1_100), 1)[0], "INVITE");
}

#[test]
fn who_was_left_is_cancelled_when_it_speaks_and_not_before() {
    let mut bed = bed();
    let (first, second) = left(&mut bed);
    // RFC 3261 9.1: "If no provisional response has been received, the CANCEL request MUST NOT
    // be sent; rather, the client MUST wait for the arrival of a provisional response before
    // sending the request."
    let waited = bed.wait(5_000);
    assert!(to_gateway(&waited, 0).iter().all(|of| of == "INVITE"));
    let spoke = answer(&mut bed, &first, 100);
    assert_eq!(to_gateway(&spoke, 0), ["CANCEL"]);
    let cancel = only(spoke);
    assert_eq!(cancel.branch(), first.branch());
    answer(&mut bed, &cancel, 200);
    let over = answer(&mut bed, &first, 487);
    assert_eq!(to_gateway(&over, 0), ["ACK"]);
    assert!(to_alice(&over).is_empty(), "another has its place");
    assert_eq!(to_alice(&answer(&mut bed, &second, 180)), [180]);
    assert_eq!(to_alice(&answer(&mut bed, &second, 486)), [486]);
    bed.wait(70_000);
    assert_eq!(bed.shard.in_flight(), 0);
}

#[test]
fn a_2xx_of_who_was_left_is_the_callers() {
    // RFC 3261 16.7: "After a final response has been sent on the server transaction, the
    // following responses MUST be forwarded immediately:" "Any 2xx response to an INVITE
    // request".
    for before in [None, Some(200), Some(486)] {
        let mut bed = bed();
        let (first, second) = left(&mut bed);
        answer(&mut bed, &second, 180);
        if let Some(status) = before {
            assert_eq!(to_alice(&answer(&mut bed, &second, status)), [status]);
        }
        let late = answer(&mut bed, &first, 200);
        assert_eq!(to_alice(&late), [200], "{before:?}");
        // The other rings for nobody any more, where it still does.
        let cancels = to_gateway(&late, 1);
        match before {
            None => assert_eq!(cancels, ["CANCEL"]),
            Some(_) => assert!(cancels.is_empty()),
        }
        if before.is_none() {
            answer(&mut bed, &second, 487);
        }
        // What is repeated, because its ACK was lost, goes the same way.
        assert_eq!(
            to_alice(&answer(&mut bed, &first, 200)),
            [200],
            "{before:?}"
        );
        bed.wait(100_000);
        assert_eq!(bed.shard.in_flight(), 0, "{before:?}");
    }
}

#[test]
fn a_6xx_of_who_was_left_ends_the_call_for_all() {
    // RFC 3261 16.7: "If a 6xx response is received, it is not immediately forwarded, but the
    // stateful proxy SHOULD cancel all client pending transactions".
    let mut bed = bed();
    let (first, second) = left(&mut bed);
    answer(&mut bed, &second, 180);
    let declined = answer(&mut bed, &first, 603);
    assert_eq!(to_gateway(&declined, 1), ["CANCEL"]);
    assert_eq!(to_alice(&answer(&mut bed, &second, 487)), [603]);
}

#[test]
fn who_is_given_up_before_its_time_is_known_to_be_silent_all_the_same() {
    let mut bed = bed();
    let (_, first) = copy(call(&mut bed, "given-up", UDP));
    let mut cancel = request("CANCEL", NUMBER, UDP);
    cancel.call_id = "given-up".to_owned();
    cancel.via = first.all(HeaderName::Via)[1].clone();
    bed.wait(3_000);
    bed.receive(&alice(UDP), &cancel.text());
    assert!(to_gateway(&bed.wait(1_100), 1).is_empty());
    assert_eq!(changes(&mut bed), [Change::PassedOver(Why::Silent)]);
    assert_eq!(copy(call(&mut bed, "next", UDP)).0, 1);
}

#[test]
fn who_hangs_up_meanwhile_is_told_so_and_nothing_is_left() {
    let mut bed = bed();
    let (_, second) = left(&mut bed);
    answer(&mut bed, &second, 180);
    let mut cancel = request("CANCEL", NUMBER, UDP);
    cancel.call_id = "left".to_owned();
    // It has the branch of the INVITE, which is beneath our own in its copy.
    cancel.via = second.all(HeaderName::Via)[1].clone();
    let hung_up = bed.receive(&alice(UDP), &cancel.text());
    assert_eq!(to_gateway(&hung_up, 1), ["CANCEL"]);
    assert_eq!(to_alice(&answer(&mut bed, &second, 487)), [487]);
    bed.wait(100_000);
    assert_eq!(bed.shard.in_flight(), 0);
}

#[test]
fn the_next_gateway_is_tried_after_the_answers_that_are_named() {
    let named = [408, 480].into_iter().chain(500..600);
    let care = Care {
        failover: named.fold(Failover::NONE, Failover::with),
        ..Care::USUAL
    };
    for (status, goes_on) in [
        (408, true),
        (480, true),
        (500, true),
        (503, true),
        (404, false),
        (405, false),
        (407, false),
        (486, false),
        (603, false),
    ] {
        let mut bed = Bed::new(two_gateways(UDP, care.clone()));
        let (_, first) = copy(call(&mut bed, "refused", UDP));
        let sent = answer(&mut bed, &first, status);
        let expected: &[u16] = if goes_on { &[] } else { &[status] };
        assert_eq!(to_alice(&sent), expected, "{status}");
        assert_eq!(to_gateway(&sent, 1).len(), usize::from(goes_on), "{status}");
        let why = match status {
            503 => Reason::NextHopBusy,
            _ => Reason::GatewayFailed,
        };
        let way = bed.refused.iter().find(|of| of.status.is_none());
        assert_eq!(way.map(|of| of.reason), goes_on.then_some(why), "{status}");
        // Only who says that it serves nobody is passed over.
        let out = changes(&mut bed);
        match status {
            503 => assert_eq!(out, [Change::PassedOver(Why::Busy)]),
            _ => assert!(out.is_empty(), "{status} {out:?}"),
        }
    }
    // Nothing is held against whom the operator will not have replaced; it is busy all the same.
    let mut bed = Bed::new(two_gateways(
        UDP,
        Care {
            failover: Failover::NONE,
            ..Care::USUAL
        },
    ));
    let (_, first) = copy(call(&mut bed, "none", UDP));
    assert_eq!(to_alice(&answer(&mut bed, &first, 503)), [500]);
    assert_eq!(copy(call(&mut bed, "after", UDP)).0, 1);
}

#[test]
fn an_answer_within_a_dialog_is_never_a_reason_to_go_elsewhere() {
    let care = Care {
        failover: (400..600).fold(Failover::NONE, Failover::with),
        ..Care::USUAL
    };
    let mut bed = Bed::new(two_gateways(UDP, care));
    let mut again = request("INVITE", NUMBER, UDP);
    again.to = "<sip:bob@example.org>;tag=b".to_owned();
    let (_, first) = copy(bed.receive(&alice(UDP), &again.text()));
    // Nor is silence: the dialog is where it is.
    assert!(to_gateway(&bed.wait(10_000), 1).is_empty());
    let sent = answer(&mut bed, &first, 480);
    assert_eq!(
        (to_alice(&sent), to_gateway(&sent, 1).len()),
        (vec![480], 0)
    );
}

#[test]
fn the_caller_is_told_the_best_that_was_said() {
    let care = Care {
        failover: (400..600).fold(Failover::NONE, Failover::with),
        ..Care::USUAL
    };
    // What the first and the second say; 0 for nobody there.
    for (first, second, told) in [
        (480, 603, 603),
        (480, 0, 480),
        (500, 404, 404),
        (480, 500, 480),
        (503, 500, 500),
        (503, 503, 500),
        (503, 0, 500),
    ] {
        let mut bed = Bed::new(two_gateways(UDP, care.clone()));
        let (_, one) = copy(call(&mut bed, "both", UDP));
        let (_, two) = copy(answer(&mut bed, &one, first));
        let sent = match second {
            0 => bed.act(|shard, now, out| shard.handle_send_failed(now, two.cookie, out)),
            status => answer(&mut bed, &two, status),
        };
        assert_eq!(to_alice(&sent), [told], "{first} and {second}");
    }
    // The last to answer knows best: 486 is no reason to go on here.
    let care = Care {
        failover: Failover::USUAL.with(480),
        ..Care::USUAL
    };
    let mut bed = Bed::new(two_gateways(UDP, care));
    let (_, one) = copy(call(&mut bed, "busy", UDP));
    let (_, two) = copy(answer(&mut bed, &one, 480));
    assert_eq!(to_alice(&answer(&mut bed, &two, 486)), [486]);
}

#[test]
fn a_pause_that_a_gateway_asks_for_is_kept_up_to_a_bound() {
    let pause = |bed: &mut Bed, status: u16, value: &str| {
        let (number, first) = copy(call(bed, &format!("pause-{status}-{}", value.len()), UDP));
        assert_eq!(number, 0);
        let text = response(&first, status, "g", &format!("Retry-After: {value}\r\n"));
        bed.receive(&answering(&first), &text)
    };
    let goes_to = |bed: &mut Bed, call_id: &str| {
        let (number, copy) = copy(call(bed, call_id, UDP));
        answer(bed, &copy, 486);
        number
    };
    // RFC 3261 21.5.4: "It SHOULD NOT forward any other requests to that server for the
    // duration specified in the Retry-After header field, if present."
    let mut bed = self::bed();
    pause(&mut bed, 503, "60 (maintenance)");
    assert_eq!(changes(&mut bed), [Change::PassedOver(Why::RetryAfter)]);
    bed.wait(59_000);
    assert_eq!(goes_to(&mut bed, "59"), 1);
    bed.wait(2_000);
    assert_eq!(goes_to(&mut bed, "61"), 0);
    // Not for ever.
    pause(&mut bed, 503, "4294967295");
    bed.wait(299_000);
    assert_eq!(goes_to(&mut bed, "299"), 1);
    bed.wait(2_000);
    assert_eq!(goes_to(&mut bed, "301"), 0);
    // Who asks for none is busy, as any other.
    pause(&mut bed, 503, "0");
    bed.wait(29_000);
    assert_eq!(goes_to(&mut bed, "29"), 1);
    bed.wait(2_000);
    assert_eq!(goes_to(&mut bed, "31"), 0);
    // It is the called party that others speak of: RFC 3261 14.2 has a phone answer 500 with
    // Retry-After to a second INVITE.
    let care = Care {
        failover: Failover::USUAL.with(480).with(500),
        ..Care::USUAL
    };
    let mut bed = Bed::new(two_gateways(UDP, care.clone()));
    for status in [480, 486, 500, 600] {
        pause(&mut bed, status, "60");
        assert_eq!(goes_to(&mut bed, &format!("after-{status}")), 0);
    }
    assert!(changes(&mut bed).is_empty());
    // Where its wish does not count it is busy, as any other.
    let deaf = Care {
        retry_after_max_s: 0,
        ..care
    };
    let mut bed = Bed::new(two_gateways(UDP, deaf));
    pause(&mut bed, 503, "600");
    bed.wait(31_000);
    assert_eq!(goes_to(&mut bed, "busy"), 0);
}

#[test]
fn who_rings_at_one_gateway_rings_at_no_other() {
    let care = Care {
        failover: (400..600).fold(Failover::NONE, Failover::with),
        ..Care::USUAL
    };
    for rings in [180, 183, 199] {
        for status in [408, 480, 500, 503] {
            let mut bed = Bed::new(two_gateways(UDP, care.clone()));
            let (_, first) = copy(call(&mut bed, "rings", UDP));
            assert_eq!(to_alice(&answer(&mut bed, &first, rings)), [rings]);
            let sent = answer(&mut bed, &first, status);
            assert!(!to_gateway(&sent, 1).contains(&"INVITE".to_owned()));
            let told = if status == 503 { 500 } else { status };
            assert_eq!(to_alice(&sent), [told], "{rings} {status}");
            // What it says of itself counts all the same.
            let expected: &[Change] = match status {
                503 => &[Change::PassedOver(Why::Busy)],
                _ => &[],
            };
            assert_eq!(changes(&mut bed), expected);
        }
    }
    // A 100 is nothing that the caller hears.
    let mut bed = Bed::new(two_gateways(UDP, care.clone()));
    let (_, first) = copy(call(&mut bed, "tries", UDP));
    answer(&mut bed, &first, 100);
    assert_eq!(copy(answer(&mut bed, &first, 480)).0, 1);
    // Nor does the end of a connection, or of its transaction, take a call elsewhere that rings.
    let mut bed = Bed::new(two_gateways(Transport::Tcp, care));
    let (_, first) = copy(call(&mut bed, "breaks", Transport::Tcp));
    answer(&mut bed, &first, 180);
    let mut sent = bed.act(|shard, now, out| shard.handle_send_failed(now, first.cookie, out));
    sent.extend(bed.wait(300_000));
    assert!(!to_gateway(&sent, 1).contains(&"INVITE".to_owned()));
}

#[test]
fn what_this_machine_does_not_send_is_held_against_no_gateway() {
    let mut bed = Bed::new(two_gateways(UDP, Care::USUAL));
    let (at, first) = copy(call(&mut bed, "too-long", UDP));
    assert_eq!(at, 0);
    let sent = bed.act(|shard, now, out| shard.handle_unsent(now, first.cookie, out));
    let (at, second) = copy(sent);
    assert_eq!(at, 1, "the call goes on");
    answer(&mut bed, &second, 486);
    assert_eq!(changes(&mut bed), []);
    assert_eq!(copy(call(&mut bed, "next", UDP)).0, 0);
    // Where nobody is there it is.
    let (_, third) = copy(call(&mut bed, "gone", UDP));
    bed.act(|shard, now, out| shard.handle_send_failed(now, third.cookie, out));
    assert_eq!(changes(&mut bed), [Change::PassedOver(Why::Unreachable)]);
    assert_eq!(copy(call(&mut bed, "after", UDP)).0, 1);
}

#[test]
fn when_its_time_is_over_one_call_tries_it_out_and_others_do_not_wait() {
    let shared = Arc::new(SharedGateways::default());
    let settings = two_gateways(UDP, Care::USUAL);
    let mut bed = Bed::with_gateways(settings.clone(), &shared);
    let mut other = Bed::with_gateways(settings, &shared);
    let (_, second) = left(&mut bed);
    answer(&mut bed, &second, 486);
    bed.wait(31_000);
    other.now = bed.now;
    assert_eq!(copy(call(&mut bed, "tries-it-out", UDP)).0, 0);
    for (nth, bed) in [&mut bed, &mut other].into_iter().enumerate() {
        let (number, beside) = copy(call(bed, &format!("beside-{nth}"), UDP));
        assert_eq!(number, 1);
        answer(bed, &beside, 486);
    }
    // It is silent still, and that is no news.
    changes(&mut bed);
    bed.wait(4_100);
    assert!(changes(&mut bed).is_empty());
    let shown = shared.health(bed.now.mono_ms).remove(0).2;
    assert_eq!((shown.why, shown.times_passed_over), (Some(Why::Silent), 1));
    assert!(shown.out_for_ms > 29_000, "{shown:?}");
}

#[test]
fn a_gateway_that_ends_calls_and_takes_none_stays_passed_over() {
    let mut bed = bed();
    let (_, up) = copy(call(&mut bed, "up", UDP));
    let ok = answer(&mut bed, &up, 200).remove(0);
    left(&mut bed);
    let mut bye = request("BYE", &format!("sip:g@{}", GATEWAYS[0]), UDP);
    bye.call_id = "up".to_owned();
    bye.to = "<sip:bob@example.org>;tag=g".to_owned();
    let route = ok.header(HeaderName::RecordRoute).unwrap();
    let bye = bye.with(&format!("Route: {route}\r\n"));
    let bye = only(bed.receive(&alice(UDP), &bye.text()));
    assert_eq!(bye.to.remote.to_string(), GATEWAYS[0]);
    changes(&mut bed);
    answer(&mut bed, &bye, 200);
    assert!(changes(&mut bed).is_empty());
    assert_eq!(copy(call(&mut bed, "next", UDP)).0, 1);
}

#[test]
fn an_answer_that_comes_too_late_does_not_bring_a_slow_gateway_back() {
    let mut bed = bed();
    let (first, second) = left(&mut bed);
    answer(&mut bed, &second, 180);
    changes(&mut bed);
    for status in [100, 180, 200] {
        answer(&mut bed, &first, status);
        assert!(changes(&mut bed).is_empty(), "{status}");
    }
    assert_eq!(copy(call(&mut bed, "next", UDP)).0, 1);
}

#[test]
fn where_all_are_passed_over_each_has_its_time_and_the_last_as_long_as_it_takes() {
    let mut bed = bed();
    // Both are found silent by one call.
    left(&mut bed);
    bed.wait(4_100);
    assert_eq!(changes(&mut bed).len(), 2);
    // One that begins now goes to both, one after the other.
    let (number, _) = copy(call(&mut bed, "all-out", UDP));
    assert_eq!(
        number, 1,
        "the first is put behind, as long as there is another"
    );
    let waited = bed.wait(4_100);
    let copies: Vec<_> = waited
        .iter()
        .filter(|of| of.header(HeaderName::CallId).as_deref() == Some("all-out"))
        .filter(|of| of.to.remote.to_string() == GATEWAYS[0])
        .collect();
    assert_eq!(copies[0].method(), "INVITE");
    let ok = response(copies[0], 200, "g", "");
    assert_eq!(to_alice(&bed.receive(&answering(copies[0]), &ok)), [200]);
}

#[test]
fn a_call_that_is_cancelled_between_two_gateways_goes_to_neither() {
    let mut bed = bed();
    let (_, first) = copy(call(&mut bed, "left", UDP));
    bed.wait(3_900);
    let mut cancel = request("CANCEL", NUMBER, UDP);
    cancel.call_id = "left".to_owned();
    cancel.via = first.all(HeaderName::Via)[1].clone();
    bed.receive(&alice(UDP), &cancel.text());
    let later = bed.wait(1_000);
    assert!(to_gateway(&later, 1).is_empty());
    // It wakes up: 9.1 has its CANCEL wait for that.
    let spoke = answer(&mut bed, &first, 100);
    assert_eq!(to_gateway(&spoke, 0), ["CANCEL"]);
    assert_eq!(to_alice(&answer(&mut bed, &first, 487)), [487]);
    // Nor does a refusal that crosses the CANCEL lead anywhere.
    let (_, first) = copy(call(&mut bed, "crossing", UDP));
    let mut cancel = request("CANCEL", NUMBER, UDP);
    cancel.call_id = "crossing".to_owned();
    cancel.via = first.all(HeaderName::Via)[1].clone();
    bed.receive(&alice(UDP), &cancel.text());
    let sent = answer(&mut bed, &first, 503);
    assert!(!to_gateway(&sent, 0).contains(&"INVITE".to_owned()));
    assert!(!to_gateway(&sent, 1).contains(&"INVITE".to_owned()));
    assert_eq!(to_alice(&sent).len(), 1);
    bed.wait(100_000);
    assert_eq!(bed.shard.in_flight(), 0);
}

#[test]
fn a_gateway_that_is_drained_while_a_call_goes_on_to_it_has_that_call() {
    // What was chosen before is kept: a call is not refused for an order that came meanwhile.
    let shared = Arc::new(SharedGateways::default());
    let settings = two_gateways(UDP, Care::USUAL);
    let hop = settings.routes.groups[0].gateways[1].next_hop.clone();
    let mut bed = Bed::with_gateways(settings, &shared);
    let (_, first) = copy(call(&mut bed, "under-way", UDP));
    shared.drain(&hop, true);
    assert_eq!(copy(answer(&mut bed, &first, 503)).0, 1);
    let (number, next) = copy(call(&mut bed, "new", UDP));
    assert_eq!(number, 0, "the other is passed over, and is all there is");
    assert_eq!(to_alice(&answer(&mut bed, &next, 503)), [500]);
}

#[test]
fn a_gateway_that_is_drained_begins_nothing_and_goes_on() {
    let shared = Arc::new(SharedGateways::default());
    let settings = two_gateways(UDP, Care::USUAL);
    let hops: Vec<_> = settings.routes.groups[0]
        .gateways
        .iter()
        .map(|of| of.next_hop.clone())
        .collect();
    let mut bed = Bed::with_gateways(settings.clone(), &shared);
    let (number, before) = copy(call(&mut bed, "before", UDP));
    assert_eq!(number, 0);
    assert!(shared.drain(&hops[0], true));
    assert_eq!(to_alice(&answer(&mut bed, &before, 200)), [200]);
    assert_eq!(copy(call(&mut bed, "new", UDP)).0, 1);
    // What has a tag in To has begun before.
    let mut again = request("INVITE", NUMBER, UDP);
    again.to = "<sip:bob@example.org>;tag=b".to_owned();
    assert_eq!(copy(bed.receive(&alice(UDP), &again.text())).0, 0);
    // A reload that has it still keeps it drained.
    bed.act(|shard, _, _| shard.reload(Arc::new(settings)));
    assert_eq!(copy(call(&mut bed, "reloaded", UDP)).0, 1);
    shared.drain(&hops[1], true);
    let refused = call(&mut bed, "none", UDP);
    assert_eq!(to_alice(&refused), [503]);
    assert!(refused[0].header(HeaderName::RetryAfter).is_some());
    let why = bed
        .refused
        .iter()
        .find(|of| of.status == Some(503))
        .unwrap();
    assert_eq!(
        (why.reason, why.phrase),
        (Reason::GatewaysDrained, "Gateways Drained")
    );
    shared.drain(&hops[0], false);
    assert_eq!(copy(call(&mut bed, "undrained", UDP)).0, 0);
}

#[test]
fn the_next_hop_of_everything_is_drained_like_any_other() {
    let shared = Arc::new(SharedGateways::default());
    let settings = forwarding(UDP, GATEWAYS[0]);
    let hop = settings.forward.clone().unwrap();
    let mut bed = Bed::with_gateways(settings, &shared);
    shared.drain(&hop, true);
    for uri in ["sip:bob@far.example", "tel:+4930", "sip:nobody@example.org"] {
        let invite = request("INVITE", uri, UDP);
        assert_eq!(
            to_alice(&bed.receive(&alice(UDP), &invite.text())),
            [503],
            "{uri}"
        );
    }
}

#[test]
fn all_addresses_of_a_name_are_ways_and_each_is_known_for_itself() {
    let mut settings = two_gateways(UDP, Care::USUAL);
    settings.routes.groups[0].gateways.truncate(1);
    settings.routes.groups[0].gateways[0].next_hop.host = "gw.example".into();
    let mut bed = Bed::new(settings);
    let resolved = |bed: &mut Bed| {
        let park = bed.effects.iter().find_map(|effect| match effect {
            Effect::Resolve { park, .. } => Some(*park),
            _ => None,
        });
        bed.effects.clear();
        let hops = GATEWAYS.map(|addr| sip_locate::Hop {
            transport: UDP,
            addr: addr.parse().unwrap(),
            tls_name: None,
        });
        let park = park.unwrap();
        bed.act(|shard, now, out| shard.handle_resolved(now, park, Ok(hops.to_vec()), out))
    };
    call(&mut bed, "one", UDP);
    assert_eq!(copy(resolved(&mut bed)).0, 0);
    let waited = bed.wait(4_100);
    assert!(to_gateway(&waited, 1).contains(&"INVITE".to_owned()));
    bed.effects.clear();
    call(&mut bed, "two", UDP);
    assert_eq!(copy(resolved(&mut bed)).0, 1);
}
