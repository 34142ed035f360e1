//! The figures of WebSocket connections.

use sip_net::{UpgradeRefusal, WebSocketFault};

use super::Page;
use crate::worker::Snapshot;

pub(super) fn websocket(page: &mut Page, snapshots: &[Snapshot]) {
    let of = || {
        snapshots
            .iter()
            .map(|snapshot| &snapshot.sockets.net.websocket)
    };
    page.counter(
        "signet_websocket_upgraded_total",
        "Connections that became WebSockets.",
        of().map(|of| of.upgraded).sum(),
    );
    page.counter(
        "signet_websocket_pings_received_total",
        "Pings of WebSockets answered.",
        of().map(|of| of.pings_in).sum(),
    );
    page.counter(
        "signet_websocket_pings_sent_total",
        "WebSockets pinged because they were silent.",
        of().map(|of| of.pings_out).sum(),
    );
    let name = "signet_websocket_refused_total";
    page.head(
        name,
        "Requests to open a WebSocket that were refused, by the reason.",
        "counter",
    );
    for (place, refusal) in UpgradeRefusal::ALL.into_iter().enumerate() {
        let total = of().filter_map(|of| of.refused.get(place)).sum();
        page.sample(name, &[("reason", refusal.name())], total);
    }
    let name = "signet_websocket_faults_total";
    page.head(
        name,
        "WebSockets closed for what came on them, by the fault.",
        "counter",
    );
    for (place, fault) in WebSocketFault::ALL.into_iter().enumerate() {
        let total = of().filter_map(|of| of.faults.get(place)).sum();
        page.sample(name, &[("fault", fault.name())], total);
    }
}
