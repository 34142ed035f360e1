//! The addresses of the operator's next hops of which something is known.

use std::net::SocketAddr;

use sip_engine::gateways::Shown;
use sip_msg::Transport;

use super::Page;

/// Addresses that are shown, at most so many: `signet gateways` has them all.
const SHOWN_MAX: usize = 64;

pub(super) fn gateways(page: &mut Page, all: &[(Transport, SocketAddr, Shown)]) {
    type Get = fn(&Shown) -> u64;
    let figures: [(&str, &str, &str, Get); 4] = [
        (
            "signet_gateway_in_use",
            "1 while calls go to that address of a gateway, 0 while it is passed over.",
            "gauge",
            |of| u64::from(of.out_for_ms == 0),
        ),
        (
            "signet_gateway_passed_over_total",
            "How often that address began to be passed over.",
            "counter",
            |of| of.times_passed_over,
        ),
        (
            "signet_gateway_probes_good_total",
            "Probes that had a good answer.",
            "counter",
            |of| of.probes_good,
        ),
        (
            "signet_gateway_probes_failed_total",
            "Probes that had none.",
            "counter",
            |of| of.probes_failed,
        ),
    ];
    for (name, help, kind, get) in figures {
        page.head(name, help, kind);
        for (transport, addr, shown) in all.iter().take(SHOWN_MAX) {
            let addr = addr.to_string();
            let labels = [
                ("gateway", &*shown.name),
                ("address", &*addr),
                ("transport", transport.uri_name()),
            ];
            page.sample(name, &labels, get(shown));
        }
    }
}
