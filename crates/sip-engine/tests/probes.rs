//! Probes of gateways: who is probed, what is made of the answers, and that all know of it.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common::*;
use sip_engine::gateways::{Change, Why};
use sip_engine::routes::{Care, Failover, Gateway, GatewayGroup, Probing};
use sip_engine::settings::Settings;
use sip_engine::shard::shard_of;
use sip_engine::{Effect, SharedGateways};
use sip_msg::{HeaderName, Transport};

const UDP: Transport = Transport::Udp;
const GATEWAYS: [&str; 2] = ["203.0.113.8:5070", "203.0.113.9:5070"];
const INTERVAL_MS: u64 = 20_000;

fn care() -> Care {
    Care {
        probing: Some(Probing {
            interval_ms: INTERVAL_MS,
            fails_max: 2,
            goods_min: 2,
        }),
        ..Care::USUAL
    }
}

/// Numbers go to these gateways, in their order.
fn gateways(care: Care, addrs: &[&str], transport: Transport) -> Settings {
    let mut settings = settings();
    let gateways = (0..).zip(addrs).map(|(priority, addr)| Gateway {
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

/// The next probe, and nothing else but its repetitions.
#[track_caller]
fn probe(bed: &mut Bed) -> Sent {
    for _ in 0..2 * INTERVAL_MS / 100 {
        let mut sent = bed.wait(100);
        sent.retain(|of| of.status() == 0 && of.method() == "OPTIONS");
        if !sent.is_empty() {
            return sent.remove(0);
        }
    }
    panic!("nobody was probed");
}

/// A probe that is answered so, or not at all for 0.
fn answered(bed: &mut Bed, status: u16) {
    let sent = probe(bed);
    match status {
        0 => _ = bed.wait(4_100),
        status => {
            let back = response(&sent, status, "g", "");
            assert!(bed.receive(&answering(&sent), &back).is_empty());
        }
    }
}

fn changes(bed: &mut Bed) -> Vec<Change> {
    let told = bed.effects.drain(..).filter_map(|effect| match effect {
        Effect::Gateway { change, .. } => Some(change),
        _ => None,
    });
    told.collect()
}

/// Where a call goes first.
fn goes_to(bed: &mut Bed, call_id: &str) -> String {
    let mut invite = request("INVITE", "sip:+4930@example.org", UDP);
    invite.call_id = call_id.to_owned();
    let sent = bed.receive(&alice(UDP), &invite.text());
    let copy = sent
        .into_iter()
        .find(|of| of.status() == 0 && of.method() == "INVITE")
        .unwrap();
    let busy = response(&copy, 486, "g", "");
    bed.receive(&answering(&copy), &busy);
    copy.to.remote.to_string()
}

#[test]
fn a_probe_is_a_request_like_any_other() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(gateways(care(), &GATEWAYS[..1], transport));
        let sent = probe(&mut bed);
        assert_eq!(
            (sent.to.transport, sent.to.remote.to_string().as_str()),
            (transport, GATEWAYS[0])
        );
        assert_eq!(sent.uri(), format!("sip:{}", GATEWAYS[0]));
        assert_eq!(sent.header(HeaderName::MaxForwards).as_deref(), Some("70"));
        assert_eq!(sent.header(HeaderName::CSeq).as_deref(), Some("1 OPTIONS"));
        let from = sent.header(HeaderName::From).unwrap();
        assert!(from.starts_with("<sip:example.org>;tag="), "{from}");
        let via = sent.header(HeaderName::Via).unwrap();
        let begins = format!("SIP/2.0/{} 192.0.2.1:", transport.via_name());
        assert!(via.starts_with(&begins), "{via}");
        assert_eq!(sent.all(HeaderName::Via).len(), 1);
        // A provisional response is none yet; the final one comes once.
        for status in [100, 200, 200] {
            let back = response(&sent, status, "g", "");
            assert!(bed.receive(&answering(&sent), &back).is_empty());
        }
        let shown = bed.gateways.health(bed.now.mono_ms);
        assert_eq!((shown[0].2.probes_good, shown[0].2.probes_failed), (1, 0));
        assert_eq!(shown[0].2.last_answer.unwrap().0, 200);
    }
}

#[test]
fn who_fails_too_often_is_passed_over_until_it_answers_often_enough() {
    let mut bed = Bed::new(gateways(care(), &GATEWAYS[..1], UDP));
    // The second is not probed, so that each probe here is the first's.
    let mut settings = gateways(care(), &GATEWAYS[..1], UDP);
    let mut beside = settings.routes.groups[0].gateways[0].clone();
    beside.next_hop = next_hop(UDP, GATEWAYS[1]);
    settings.routes.groups.push(GatewayGroup {
        name: "beside".into(),
        gateways: vec![beside],
        ..GatewayGroup::default()
    });
    let spare = settings.routes.groups[1].gateways[0].clone();
    let mut whole = settings.clone();
    whole.routes.groups[0].gateways.push(Gateway {
        priority: 9,
        ..spare
    });
    bed.act(|shard, _, _| shard.reload(Arc::new(settings)));
    answered(&mut bed, 0);
    assert!(changes(&mut bed).is_empty());
    answered(&mut bed, 503);
    assert_eq!(changes(&mut bed), [Change::PassedOver(Why::Probes)]);
    // The same for calls, which have another to go to.
    bed.act(|shard, _, _| shard.reload(Arc::new(whole)));
    assert_eq!(goes_to(&mut bed, "out"), GATEWAYS[1]);
    let mut good = 0;
    while changes(&mut bed).is_empty() {
        let sent = probe(&mut bed);
        let is_first = sent.to.remote.to_string() == GATEWAYS[0];
        good += u32::from(is_first);
        assert!(good <= 2);
        let back = response(&sent, 200, "g", "");
        bed.receive(&answering(&sent), &back);
    }
    assert_eq!(good, 2);
    assert_eq!(goes_to(&mut bed, "back"), GATEWAYS[0]);
}

#[test]
fn any_answer_is_good_but_those_that_say_otherwise() {
    let strict = Care {
        failover: (500..600).fold(Failover::NONE, Failover::with),
        ..care()
    };
    for (care, status, is_good) in [
        (care(), 200, true),
        (care(), 404, true),
        (care(), 405, true),
        (care(), 407, true),
        (care(), 481, true),
        (care(), 483, true),
        (care(), 500, true),
        (care(), 408, false),
        (care(), 503, false),
        (care(), 0, false),
        (strict.clone(), 501, true),
        (strict.clone(), 500, false),
        (strict, 404, true),
    ] {
        let mut bed = Bed::new(gateways(care, &GATEWAYS[..1], UDP));
        answered(&mut bed, status);
        answered(&mut bed, status);
        let out = changes(&mut bed) == [Change::PassedOver(Why::Probes)];
        assert_eq!(out, !is_good, "{status}");
    }
}

#[test]
fn a_probe_whose_connection_cannot_be_opened_has_failed_at_once() {
    let mut bed = Bed::new(gateways(care(), &GATEWAYS[..1], Transport::Tcp));
    for _ in 0..2 {
        let sent = probe(&mut bed);
        bed.act(|shard, now, out| shard.handle_send_failed(now, sent.cookie, out));
    }
    assert_eq!(changes(&mut bed), [Change::PassedOver(Why::Probes)]);
    assert_eq!(bed.shard.in_flight(), 0);
}

#[test]
fn a_pause_in_the_answer_to_a_probe_is_kept_too() {
    let mut bed = Bed::new(gateways(care(), &GATEWAYS[..1], UDP));
    let sent = probe(&mut bed);
    let back = response(&sent, 503, "g", "Retry-After: 100\r\n");
    bed.receive(&answering(&sent), &back);
    assert_eq!(changes(&mut bed), [Change::PassedOver(Why::RetryAfter)]);
    let shown = bed.gateways.health(bed.now.mono_ms);
    assert_eq!(shown[0].2.out_for_ms, 100_000);
}

#[test]
fn each_address_of_a_name_is_probed_for_itself() {
    let mut settings = gateways(care(), &GATEWAYS[..1], UDP);
    let hop = &mut settings.routes.groups[0].gateways[0].next_hop;
    (hop.host, hop.port) = ("gw.example".into(), None);
    let mut bed = Bed::new(settings);
    let hops = GATEWAYS.map(|addr| sip_locate::Hop {
        transport: UDP,
        addr: addr.parse().unwrap(),
        tls_name: None,
    });
    let resolve = |bed: &mut Bed| {
        let park = bed.effects.iter().find_map(|effect| match effect {
            Effect::Resolve { park, .. } => Some(*park),
            _ => None,
        });
        bed.effects.clear();
        park.map(|park| {
            bed.act(|shard, now, out| shard.handle_resolved(now, park, Ok(hops.to_vec()), out))
        })
    };
    let mut told = Vec::new();
    for _ in 0..2 {
        let sent = loop {
            bed.wait(100);
            if let Some(sent) = resolve(&mut bed) {
                break sent;
            }
        };
        let to: BTreeSet<String> = sent.iter().map(|of| of.to.remote.to_string()).collect();
        assert_eq!(to, GATEWAYS.map(str::to_owned).into());
        let alive = sent
            .iter()
            .find(|of| of.to.remote.to_string() == GATEWAYS[1])
            .unwrap();
        let back = response(alive, 200, "g", "");
        bed.receive(&answering(alive), &back);
        bed.wait(4_100);
        told.extend(changes(&mut bed));
    }
    assert_eq!(told, [Change::PassedOver(Why::Probes)]);
    // A call is sent to the one that is alive, though DNS has the other first.
    let invite = request("INVITE", "sip:+4930@example.org", UDP);
    bed.receive(&alice(UDP), &invite.text());
    let sent = only(resolve(&mut bed).unwrap());
    assert_eq!(sent.to.remote.to_string(), GATEWAYS[1]);
    // A name that DNS does not have is asked for again, and nothing is held against anybody.
    loop {
        bed.wait(100);
        let park = bed.effects.iter().find_map(|effect| match effect {
            Effect::Resolve { park, .. } => Some(*park),
            _ => None,
        });
        if let Some(park) = park {
            let none = Err(sip_locate::LocateError::NotFound);
            let sent = bed.act(|shard, now, out| shard.handle_resolved(now, park, none, out));
            assert!(sent.is_empty());
            break;
        }
    }
}

#[test]
fn each_gateway_is_probed_by_one_shard_and_all_know_what_came_of_it() {
    let (shared, key) = (Arc::new(SharedGateways::default()), [7; 16]);
    let settings = gateways(care(), &GATEWAYS, UDP);
    let mut beds = [0, 1].map(|index| {
        let mut bed = Bed::with_gateways(settings.clone(), &shared);
        bed.act(|shard, _, _| shard.set_home(index, 2, key));
        bed
    });
    for (index, bed) in beds.iter_mut().enumerate() {
        let mut seen = BTreeSet::new();
        for _ in 0..3 {
            let sent = probe(bed);
            // Its answer comes to the shard that asked.
            assert_eq!(shard_of(&sent.message, 2, &key), index);
            seen.insert(sent.to.remote.to_string());
            if index == 1 {
                let back = response(&sent, 200, "g", "");
                bed.receive(&answering(&sent), &back);
            } else {
                bed.wait(4_100);
            }
        }
        assert_eq!(seen, BTreeSet::from([GATEWAYS[index].to_owned()]));
    }
    let [first, second] = &mut beds;
    assert_eq!(changes(first), [Change::PassedOver(Why::Probes)]);
    assert!(changes(second).is_empty());
    second.now.mono_ms = first.now.mono_ms;
    assert_eq!(goes_to(second, "other-shard"), GATEWAYS[1]);
}

#[test]
fn nobody_is_probed_where_nothing_says_so_or_the_server_is_to_end() {
    let mut bed = Bed::new(gateways(Care::USUAL, &GATEWAYS, UDP));
    assert_eq!(bed.shard.next_deadline_ms(), None);
    let settings = Arc::new(gateways(care(), &GATEWAYS, UDP));
    bed.act(|shard, _, _| shard.reload(settings));
    probe(&mut bed);
    bed.act(|shard, _, _| shard.refuse_new_calls());
    let sent = bed.wait(10 * INTERVAL_MS);
    // What was under way is repeated until its time is over.
    let calls: BTreeSet<_> = sent
        .iter()
        .map(|of| of.header(HeaderName::CallId))
        .collect();
    assert!(calls.len() <= 1, "{calls:?}");
    assert_eq!(bed.shard.next_deadline_ms(), None);
    assert_eq!(bed.shard.in_flight(), 0);
}

#[test]
fn probes_keep_their_time_through_reloads() {
    let settings = Arc::new(gateways(care(), &GATEWAYS[..1], UDP));
    let mut bed = Bed::new(gateways(care(), &GATEWAYS[..1], UDP));
    let mut probes = 0;
    for _ in 0..100 {
        bed.act(|shard, _, _| shard.reload(Arc::clone(&settings)));
        let sent = bed.wait(INTERVAL_MS / 10);
        let fresh: BTreeSet<_> = sent
            .iter()
            .map(|of| of.header(HeaderName::CallId))
            .collect();
        probes += usize::from(!fresh.is_empty());
        for of in &sent {
            let back = response(of, 200, "g", "");
            bed.receive(&answering(of), &back);
        }
    }
    assert!((8..=12).contains(&probes), "{probes} in ten intervals");
    // One that makes the interval shorter counts at once.
    let mut often = care();
    often.probing = often.probing.map(|probing| Probing {
        interval_ms: INTERVAL_MS / 10,
        ..probing
    });
    let often = Arc::new(gateways(often, &GATEWAYS[..1], UDP));
    bed.act(|shard, _, _| shard.reload(often));
    assert!(!bed.wait(INTERVAL_MS / 4).is_empty());
}

/// So many gateways, of which each has an address of its own.
fn many(count: usize, interval_ms: u64) -> Settings {
    let care = Care {
        probing: care().probing.map(|probing| Probing {
            interval_ms,
            ..probing
        }),
        ..care()
    };
    let addrs = (0..count).map(|n| format!("203.0.{}.{}:5060", n / 200, n % 200 + 1));
    let addrs: Vec<String> = addrs.collect();
    let addrs: Vec<&str> = addrs.iter().map(String::as_str).collect();
    gateways(care, &addrs, UDP)
}

#[test]
fn hundreds_of_gateways_are_probed_one_after_the_other() {
    let mut bed = Bed::new(many(300, 30_000));
    let mut probed = BTreeSet::new();
    for second in 0..31 {
        let sent = bed.wait(1_000);
        let before = probed.len();
        for of in &sent {
            probed.insert(of.header(HeaderName::CallId));
            let back = response(of, 200, "g", "");
            bed.receive(&answering(of), &back);
        }
        // Ten would be even.
        let fresh = probed.len() - before;
        assert!(fresh <= 30, "{fresh} in second {second}");
    }
    let shown = bed.gateways.health(bed.now.mono_ms);
    assert_eq!(shown.len(), 300, "each has had its turn");
    assert_eq!(bed.shard.counters().probes_skipped, 0);
}

#[test]
fn probes_under_way_are_bounded_and_those_that_find_no_room_are_counted() {
    let mut bed = Bed::new(many(1_500, 1_000));
    for _ in 0..50 {
        bed.wait(100);
        assert!(bed.shard.in_flight() <= 1_024);
    }
    assert!(bed.shard.counters().probes_skipped > 0);
    // Nobody answers; what is known of addresses is bounded too.
    assert!(bed.gateways.health(bed.now.mono_ms).len() <= 1_024);
}
