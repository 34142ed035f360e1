//! Who is let in because calls go there.

use sip_locate::{Hop, LocateError};

use super::*;

fn call_from(bed: &mut Bed, source: &str) -> String {
    let mut invite = request("INVITE", "sip:bob@example.org", UDP);
    invite.from = "<sip:0401@provider.example>;tag=g".into();
    invite.call_id = format!("from-{source}-{}", bed.now.mono_ms);
    let sent = bed.receive(&flow(UDP, source), &invite.text());
    match sent.iter().find(|of| of.status() == 0) {
        Some(_) => "let in".into(),
        None => kinds(&sent).join(" "),
    }
}

fn bed_of(settings: Settings) -> Bed {
    let mut bed = Bed::new(settings);
    bed.register("sip:bob@example.org", "sip:bob@198.51.100.7", None);
    bed
}

#[test]
fn members_are_let_in_by_their_address_and_their_neighbours_are_not() {
    let mut bed = bed_of(secured(UDP, trunk()));
    for (source, said) in [
        (PROVIDER, "let in"),
        ("203.0.113.8:40000", "let in"),
        ("203.0.113.9:5070", "403"),
        ("198.51.100.1:5060", "403"),
    ] {
        assert_eq!(call_from(&mut bed, source), said, "{source}");
    }
    // What the operator adds counts, and nothing where he wants none.
    let mut more = trunk();
    more.trust.networks = vec!["203.0.113.0/28".parse().unwrap()];
    bed.act(|shard, _, _| shard.reload(Arc::new(secured(UDP, more))));
    assert_eq!(call_from(&mut bed, "203.0.113.9:5070"), "let in");
    assert_eq!(call_from(&mut bed, "203.0.113.16:5070"), "403");
    let mut none = trunk();
    none.trust = Trust::default();
    bed.act(|shard, _, _| shard.reload(Arc::new(secured(UDP, none))));
    assert_eq!(call_from(&mut bed, PROVIDER), "403");
}

#[test]
fn over_tls_the_name_in_the_certificate_counts_and_no_address() {
    let mut by_name = trunk();
    by_name.trust = Trust {
        identities: vec!["sip.provider.example".into()],
        secure_only: true,
        ..Trust::default()
    };
    let mut bed = bed_of(secured(Transport::Tls, by_name));
    let tls = flow(Transport::Tls, "203.0.113.8:40000");
    for (name, is_let_in) in [
        (None, false),
        (Some("other.example"), false),
        (Some("sip.provider.example"), true),
    ] {
        let mut invite = request("INVITE", "sip:bob@example.org", Transport::Tls);
        invite.from = "<sip:0401@provider.example>;tag=g".into();
        invite.call_id = format!("tls-{name:?}").replace(['"', '(', ')'], "");
        let sender = sip_engine::sender::Sender {
            flow: tls,
            peer: name.map(proof_of),
        };
        let text = invite.text();
        let sent = bed.act(|shard, now, out| {
            let mut message = shard.spare_message();
            message.fill(text.as_bytes(), &Default::default()).unwrap();
            shard.handle_message(now, &sender, message, out);
        });
        assert_eq!(
            sent.iter().any(|of| of.status() == 0),
            is_let_in,
            "{name:?}"
        );
    }
    // Nor by UDP, from wherever.
    assert_eq!(call_from(&mut bed, PROVIDER), "403");
}

/// Answers the questions for a name.
fn resolve(bed: &mut Bed, answer: &Result<Vec<&str>, LocateError>) -> usize {
    let effects = std::mem::take(&mut bed.effects);
    let mut asked = 0;
    for effect in effects {
        let Effect::Resolve { park, query } = effect else {
            continue;
        };
        assert_eq!(&*query.host, "sip.provider.example");
        assert!(query.is_configured);
        asked += 1;
        let hops = answer.clone().map(|addrs| {
            let hops = addrs.into_iter().map(|addr| Hop {
                transport: UDP,
                addr: addr.parse().unwrap(),
                tls_name: None,
            });
            hops.collect()
        });
        bed.act(|shard, now, out| shard.handle_resolved(now, park, hops, out));
    }
    asked
}

#[test]
fn a_name_is_trusted_where_dns_has_it_now_and_for_a_while_after() {
    let mut settings = secured(UDP, trunk());
    let hop = &mut settings.routes.groups[0].gateways[0].next_hop;
    (hop.host, hop.port) = ("sip.provider.example".into(), None);
    let shared = Arc::new(SharedGateways::default());
    let mut bed = Bed::with_gateways(settings.clone(), &shared);
    let mut other = Bed::with_gateways(settings, &shared);
    for bed in [&mut bed, &mut other] {
        bed.register("sip:bob@example.org", "sip:bob@198.51.100.7", None);
        assert_eq!(
            call_from(bed, "203.0.113.8:5060"),
            "403",
            "nobody has asked yet"
        );
    }
    bed.wait(100);
    assert_eq!(resolve(&mut bed, &Ok(vec!["203.0.113.8:5060"])), 1);
    // All workers know it.
    for bed in [&mut bed, &mut other] {
        assert_eq!(call_from(bed, "203.0.113.8:5060"), "let in");
        assert_eq!(call_from(bed, "203.0.113.9:5060"), "403");
    }
    // It has moved: the old place is good for a while.
    bed.wait(300_000);
    assert_eq!(resolve(&mut bed, &Ok(vec!["203.0.113.9:5060"])), 1);
    assert_eq!(call_from(&mut bed, "203.0.113.8:5060"), "let in");
    assert_eq!(call_from(&mut bed, "203.0.113.9:5060"), "let in");
    for _ in 0..3 {
        bed.wait(300_000);
        assert_eq!(resolve(&mut bed, &Ok(vec!["203.0.113.9:5060"])), 1);
    }
    assert_eq!(call_from(&mut bed, "203.0.113.8:5060"), "403");
    // While DNS is silent nothing changes.
    for _ in 0..10 {
        bed.wait(300_000);
        assert_eq!(resolve(&mut bed, &Err(LocateError::Timeout)), 1);
    }
    bed.register("sip:bob@example.org", "sip:bob@198.51.100.7", None);
    assert_eq!(call_from(&mut bed, "203.0.113.9:5060"), "let in");
}

#[test]
fn one_worker_asks_and_no_more_than_one() {
    let mut settings = secured(UDP, trunk());
    let hop = &mut settings.routes.groups[0].gateways[0].next_hop;
    (hop.host, hop.port) = ("sip.provider.example".into(), None);
    let asked: Vec<usize> = (0..4)
        .map(|index| {
            let mut bed = Bed::new(settings.clone());
            bed.act(|shard, _, _| shard.set_home(index, 4, [7; 16]));
            bed.wait(1_000);
            resolve(&mut bed, &Ok(vec!["203.0.113.8:5060"]))
        })
        .collect();
    assert_eq!(asked.iter().sum::<usize>(), 1, "{asked:?}");
}
