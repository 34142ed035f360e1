//! A connection ends under requests that were written to it.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use sip_engine::routes::{Gateway, GatewayGroup};
use sip_engine::settings::Settings;
use sip_msg::Transport;

const GATEWAYS: [&str; 2] = ["203.0.113.8:5070", "203.0.113.9:5070"];

/// Calls to example.net go to two gateways, one after the other.
fn two_gateways(transport: Transport) -> Settings {
    let mut settings = settings();
    let gateways = GATEWAYS.iter().enumerate().map(|(at, addr)| Gateway {
        next_hop: next_hop(transport, addr),
        priority: at as u16,
        weight: 1,
    });
    settings.routes.groups.push(GatewayGroup {
        gateways: gateways.collect(),
        ..GatewayGroup::default()
    });
    settings.routes.domains.insert("example.net".into(), 0);
    settings
}

fn remotes(sent: &[Sent]) -> Vec<String> {
    let requests = sent.iter().filter(|sent| sent.status() == 0);
    requests.map(|sent| sent.to.remote.to_string()).collect()
}

/// The request as it went to the first gateway.
fn sent_to_first(bed: &mut Bed, method: &str, transport: Transport) -> Sent {
    let text = request(method, "sip:bob@example.net", transport).text();
    let mut sent = bed.receive(&alice(transport), &text);
    sent.retain(|sent| sent.status() == 0);
    let sent = only(sent);
    assert_eq!(sent.to.remote.to_string(), GATEWAYS[0]);
    sent
}

#[test]
fn a_request_without_any_answer_goes_to_the_next_gateway_at_once() {
    // RFC 3261 17.1.4: "The client transaction SHOULD inform the TU that a transport failure
    // has occurred, and the client transaction SHOULD transition directly to the
    // "Terminated" state."
    for transport in [Transport::Tcp, Transport::Tls] {
        for method in ["INVITE", "OPTIONS"] {
            let mut bed = Bed::new(two_gateways(transport));
            let first = sent_to_first(&mut bed, method, transport);
            let next = bed.act(|shard, now, out| shard.handle_send_lost(now, first.cookie, out));
            assert_eq!(remotes(&next), [GATEWAYS[1]], "{method}");
            // Told once more, or of the next hop's answered request: nothing comes of it.
            let again = bed.act(|shard, now, out| shard.handle_send_lost(now, first.cookie, out));
            assert!(again.is_empty());
            let second = &next[0];
            let answer = bed.receive(&answering(second), &response(second, 200, "g", ""));
            assert_eq!(kinds(&answer), ["200"]);
            let late = bed.act(|shard, now, out| shard.handle_send_lost(now, second.cookie, out));
            assert!(late.is_empty());
        }
    }
}

#[test]
fn a_call_that_rings_may_be_answered_over_another_connection() {
    for transport in [Transport::Tcp, Transport::Tls] {
        for provisional in [100, 180] {
            let mut bed = Bed::new(two_gateways(transport));
            let first = sent_to_first(&mut bed, "INVITE", transport);
            bed.receive(&answering(&first), &response(&first, provisional, "g", ""));
            let lost = bed.act(|shard, now, out| shard.handle_send_lost(now, first.cookie, out));
            assert!(lost.is_empty(), "{:?}", kinds(&lost));
            let another = flow(transport, "203.0.113.8:40001");
            let answer = bed.receive(&another, &response(&first, 200, "g", ""));
            assert_eq!(kinds(&answer), ["200"]);
        }
    }
}

#[test]
fn a_response_that_was_written_is_no_business_of_its_transaction_any_more() {
    let transport = Transport::Tcp;
    let mut bed = Bed::new(two_gateways(transport));
    let first = sent_to_first(&mut bed, "INVITE", transport);
    let busy = bed.receive(&answering(&first), &response(&first, 486, "g", ""));
    let to_alice = busy.iter().find(|sent| sent.status() == 486).unwrap();
    assert_ne!(to_alice.cookie, 0);
    let lost = bed.act(|shard, now, out| shard.handle_send_lost(now, to_alice.cookie, out));
    assert!(lost.is_empty(), "{:?}", kinds(&lost));
}
