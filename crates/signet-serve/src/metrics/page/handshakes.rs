//! The figures of TLS handshakes: per listener, of connections that this server
//! opened, and per peer.

use sip_tls::{
    CertificateFault, GROUP_NAMES, HandshakeFailure, HandshakeTally, Resumption, SUITE_NAMES,
    TlsVersion,
};

use super::Page;

/// Whose handshakes, and what was counted of them.
pub(super) struct Row<'r> {
    pub(super) labels: Vec<(&'static str, &'r str)>,
    pub(super) tally: &'r HandshakeTally,
}

impl<'r> Row<'r> {
    fn with<'l>(&'l self, more: &[(&'l str, &'l str)]) -> Vec<(&'l str, &'l str)>
    where
        'r: 'l,
    {
        self.labels
            .iter()
            .copied()
            .chain(more.iter().copied())
            .collect()
    }
}

/// The families `signet_tls_KIND_...`. Of listeners every figure is there from
/// the start; peers are many, and show what is not nought.
pub(super) fn tallies(page: &mut Page, kind: &str, rows: &[Row<'_>], is_sparse: bool) {
    let is_shown = |count: u64| !is_sparse || count > 0;
    let name = format!("signet_tls_{kind}_handshakes_total");
    page.head(
        &name,
        "TLS handshakes done; listener 'opened': on connections that this server opened.",
        "counter",
    );
    for row in rows {
        for (kind, counts) in [("full", &row.tally.full), ("resumed", &row.tally.resumed)] {
            for (version, count) in TlsVersion::ALL.into_iter().zip(counts) {
                if is_shown(*count) {
                    let labels = row.with(&[("kind", kind), ("version", version.name())]);
                    page.sample(&name, &labels, *count);
                }
            }
        }
    }

    type Get = fn(&HandshakeTally) -> &[u64];
    let resumptions = Resumption::ALL.map(Resumption::name);
    let failures = HandshakeFailure::ALL.map(HandshakeFailure::name);
    let faults = CertificateFault::ALL.map(CertificateFault::name);
    let families: [(&str, &str, &str, &[&str], Get); 5] = [
        (
            "resumed_total",
            "TLS handshakes resumed, by how.",
            "by",
            &resumptions,
            |of| &of.resumed_by,
        ),
        (
            "suite_total",
            "TLS handshakes done, by cipher suite.",
            "suite",
            &SUITE_NAMES,
            |of| &of.suites,
        ),
        (
            "group_total",
            "TLS handshakes done, by key-exchange group.",
            "group",
            &GROUP_NAMES,
            |of| &of.groups,
        ),
        (
            "failed_total",
            "TLS handshakes that failed, by the reason.",
            "reason",
            &failures,
            |of| &of.failed,
        ),
        (
            "certificates_refused_total",
            "Certificates of the other side that were not accepted, by the fault.",
            "fault",
            &faults,
            |of| &of.faults,
        ),
    ];
    for (ending, help, label, values, get) in families {
        let name = format!("signet_tls_{kind}_{ending}");
        page.head(&name, help, "counter");
        for row in rows {
            for (value, count) in values.iter().zip(get(row.tally)) {
                if is_shown(*count) {
                    page.sample(&name, &row.with(&[(label, value)]), *count);
                }
            }
        }
    }

    let name = format!("signet_tls_{kind}_resumptions_refused_total");
    page.head(
        &name,
        "Sessions not resumed, because the client's certificate would not be accepted any more.",
        "counter",
    );
    for row in rows {
        if is_shown(row.tally.resumptions_refused) {
            page.sample(&name, &row.with(&[]), row.tally.resumptions_refused);
        }
    }
    times(page, kind, rows, is_sparse);
}

fn times(page: &mut Page, kind: &str, rows: &[Row<'_>], is_sparse: bool) {
    type Times = fn(&HandshakeTally) -> Vec<(&'static str, u64)>;
    let times: [(&str, &str, Times); 2] = [
        (
            "wall_seconds_total",
            "Time that TLS handshakes took on the clock, their wait included.",
            |of| vec![("full", of.full_wall_us), ("resumed", of.resumed_wall_us)],
        ),
        (
            "cpu_seconds_total",
            "Time that TLS handshakes took on the processor.",
            |of| {
                vec![
                    ("full", of.full_cpu_us),
                    ("resumed", of.resumed_cpu_us),
                    ("failed", of.failed_cpu_us),
                ]
            },
        ),
    ];
    for (ending, help, get) in times {
        let name = format!("signet_tls_{kind}_{ending}");
        page.head(&name, help, "counter");
        for row in rows {
            for (of, time_us) in get(row.tally) {
                if !is_sparse || time_us > 0 {
                    page.sample_us(&name, &row.with(&[("kind", of)]), time_us);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listeners_figures_are_all_there_and_a_peers_where_there_are_some() {
        let mut some = HandshakeTally::default();
        some.full[TlsVersion::V13 as usize] = 4;
        some.full_cpu_us = 3_000_000;
        some.failed[0] = 2;
        let none = HandshakeTally::default();
        let row = |label, name, tally| Row {
            labels: vec![(label, name)],
            tally,
        };
        let mut page = Page::default();
        let listeners = [row("listener", "a", &none), row("listener", "b", &some)];
        tallies(&mut page, "listener", &listeners, false);
        let peers = [row("peer", "a", &none), row("peer", "b", &some)];
        tallies(&mut page, "peer", &peers, true);
        for line in [
            "signet_tls_listener_handshakes_total{listener=\"b\",kind=\"full\",version=\"1.3\"} 4",
            "signet_tls_listener_handshakes_total{listener=\"a\",kind=\"full\",version=\"1.3\"} 0",
            "signet_tls_listener_failed_total{listener=\"b\",reason=\"timed_out\"} 2",
            "signet_tls_listener_cpu_seconds_total{listener=\"b\",kind=\"full\"} 3.000000",
            "signet_tls_peer_handshakes_total{peer=\"b\",kind=\"full\",version=\"1.3\"} 4",
        ] {
            assert!(
                page.text.lines().any(|of| of == line),
                "{line} is not in\n{}",
                page.text
            );
        }
        assert!(!page.text.contains("peer=\"a\""), "{}", page.text);
    }
}
