//! The trunks of which something is known: registrations, and passwords that were refused.

use sip_engine::trunk::{Shown, State};

use super::Page;

/// Trunks that are shown, at most so many: `signet trunks` has them all.
const SHOWN_MAX: usize = 64;

pub(super) fn trunks(page: &mut Page, all: &[(Box<str>, Shown)]) {
    type Get = fn(&Shown) -> u64;
    let figures: [(&str, &str, &str, Get); 5] = [
        (
            "signet_trunk_registered",
            "1 while the account of that trunk is registered, 0 while it is not or was never to be.",
            "gauge",
            |of| u64::from(of.state == Some(State::Registered)),
        ),
        (
            "signet_trunk_registered_total",
            "How often its registration was granted, renewals among them.",
            "counter",
            |of| of.registered_total,
        ),
        (
            "signet_trunk_register_failed_total",
            "How often it was not, after all members were asked.",
            "counter",
            |of| of.failed_total,
        ),
        (
            "signet_trunk_refused",
            "1 while nothing is sent to that trunk because its password was refused.",
            "gauge",
            |of| u64::from(of.refused_for_ms > 0),
        ),
        (
            "signet_trunk_password_refused_total",
            "How often its password was refused.",
            "counter",
            |of| of.refused_total,
        ),
    ];
    for (name, help, kind, get) in figures {
        page.head(name, help, kind);
        for (trunk, shown) in all.iter().take(SHOWN_MAX) {
            page.sample(name, &[("trunk", &**trunk)], get(shown));
        }
    }
}
