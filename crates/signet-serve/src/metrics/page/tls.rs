//! The figures of TLS handshakes: per listener, and of connections that this
//! server opened.

use sip_net::{
    CertificateFault, GROUP_NAMES, HandshakeFailure, HandshakeTally, Resumption, SUITE_NAMES,
    TlsVersion,
};

use super::super::Sources;
use super::Page;
use crate::worker::Snapshot;

/// The listeners' tallies, by the listeners' number, summed over the workers.
pub(in crate::metrics) fn listener_tallies(snapshots: &[Snapshot]) -> Vec<HandshakeTally> {
    let mut tallies: Vec<HandshakeTally> = Vec::new();
    for snapshot in snapshots {
        for (nth, listener) in snapshot.listeners.iter().enumerate() {
            if nth == tallies.len() {
                tallies.push(HandshakeTally::default());
            }
            if let Some(tally) = tallies.get_mut(nth) {
                tally.add(&listener.tls);
            }
        }
    }
    tallies
}

/// The figures of the threads that do handshakes.
pub(super) fn pool(page: &mut Page, sources: &Sources) {
    let handshakes = sources.handshakes.counters();
    page.gauge(
        "signet_tls_handshakes_under_way",
        "TLS handshakes under way.",
        handshakes.under_way,
    );
    page.head(
        "signet_tls_handshakes_total",
        "TLS handshakes, by their end.",
        "counter",
    );
    for (end, count) in [
        ("done", handshakes.done),
        ("refused", handshakes.refused),
        ("timed_out", handshakes.timed_out),
        ("cut", handshakes.cut),
        ("bad_certificate", handshakes.bad_certificate),
        ("certificate_refused", handshakes.certificate_refused),
        ("incompatible", handshakes.incompatible),
        ("failed", handshakes.failed),
    ] {
        page.sample("signet_tls_handshakes_total", &[("end", end)], count);
    }

    for (name, help, value) in [
        (
            "signet_tls_refused_source_total",
            "TLS handshakes refused, because their source had too many under way.",
            handshakes.refused_source,
        ),
        (
            "signet_tls_refused_full_total",
            "TLS handshakes refused, because too many full ones waited.",
            handshakes.refused_full,
        ),
        (
            "signet_tls_refused_resumed_total",
            "TLS handshakes refused, because too many resumptions waited.",
            handshakes.refused_resumed,
        ),
    ] {
        page.counter(name, help, value);
    }
    page.gauge(
        "signet_tls_full_waiting",
        "Clients waiting for the turn of their full TLS handshake.",
        handshakes.full_waiting,
    );
    page.gauge(
        "signet_tls_resumed_waiting",
        "Clients waiting for the turn of their TLS resumption.",
        handshakes.resumed_waiting,
    );
    page.head(
        "signet_tls_threads_cpu_seconds_total",
        "CPU time of the threads that do TLS handshakes.",
        "counter",
    );
    page.sample_us(
        "signet_tls_threads_cpu_seconds_total",
        &[],
        handshakes.cpu_us,
    );
}

pub(super) fn listeners(page: &mut Page, sources: &Sources, snapshots: &[Snapshot]) {
    let shown = sources.tls();
    let mut rows: Vec<(String, HandshakeTally)> = shown
        .iter()
        .zip(listener_tallies(snapshots))
        .filter_map(|(listener, tally)| Some((listener.as_ref()?, tally)))
        .filter(|(listener, _)| listener.accepts)
        .map(|(listener, tally)| (listener.place.clone(), tally))
        .collect();
    let mut opened = HandshakeTally::default();
    for snapshot in snapshots {
        opened.add(&snapshot.opened_tls);
    }
    rows.push(("opened".to_owned(), opened));
    tallies(page, &rows);
    tickets(page, sources);

    let name = "signet_tls_certificate_not_after_seconds";
    page.head(
        name,
        "The end of each certificate that is shown, in seconds since 1970.",
        "gauge",
    );
    for listener in shown.iter().flatten().filter(|listener| listener.accepts) {
        for certificate in &listener.certificates {
            let file = certificate.file.display().to_string();
            // Prometheus: a backslash, a quote and a line end are escaped.
            let file = file
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            let labels = [("listener", listener.place.as_str()), ("file", &file)];
            page.sample(name, &labels, certificate.not_after_unix_s);
        }
    }
}

/// Where the keys of session tickets come from.
fn tickets(page: &mut Page, sources: &Sources) {
    let shown = sources.tickets();
    if !shown.is_store {
        return;
    }
    page.counter(
        "signet_tls_ticket_store_reads_total",
        "Times that the secrets of session tickets were read.",
        shown.reads,
    );
    page.counter(
        "signet_tls_ticket_store_failures_total",
        "Times that they could not be; those at hand go on.",
        shown.failures,
    );
    page.counter(
        "signet_tls_ticket_secrets_made_total",
        "Secrets of session tickets that this node made.",
        shown.renewals,
    );
    let name = "signet_tls_ticket_secret_created_seconds";
    page.head(
        name,
        "When each secret of session tickets was made, in seconds since 1970; the same on all nodes of a cluster.",
        "gauge",
    );
    for secret in &shown.secrets {
        page.sample(name, &[("id", &secret.id)], secret.created_unix_s);
    }
}

/// The rows: a listener and its figures.
fn tallies(page: &mut Page, rows: &[(String, HandshakeTally)]) {
    let name = "signet_tls_listener_handshakes_total";
    page.head(
        name,
        "TLS handshakes done; of the listener 'opened': of connections that this server opened.",
        "counter",
    );
    for (listener, tally) in rows {
        for (kind, counts) in [("full", &tally.full), ("resumed", &tally.resumed)] {
            for (version, count) in TlsVersion::ALL.into_iter().zip(counts) {
                let labels = [
                    ("listener", listener.as_str()),
                    ("kind", kind),
                    ("version", version.name()),
                ];
                page.sample(name, &labels, *count);
            }
        }
    }

    type Get = fn(&HandshakeTally) -> &[u64];
    let resumptions = Resumption::ALL.map(Resumption::name);
    let failures = HandshakeFailure::ALL.map(HandshakeFailure::name);
    let faults = CertificateFault::ALL.map(CertificateFault::name);
    let families: [(&str, &str, &str, &[&str], Get); 5] = [
        (
            "signet_tls_listener_resumed_total",
            "TLS handshakes resumed, by how.",
            "by",
            &resumptions,
            |of| &of.resumed_by,
        ),
        (
            "signet_tls_listener_suite_total",
            "TLS handshakes done, by cipher suite.",
            "suite",
            &SUITE_NAMES,
            |of| &of.suites,
        ),
        (
            "signet_tls_listener_group_total",
            "TLS handshakes done, by key-exchange group.",
            "group",
            &GROUP_NAMES,
            |of| &of.groups,
        ),
        (
            "signet_tls_listener_failed_total",
            "TLS handshakes that failed, by the reason.",
            "reason",
            &failures,
            |of| &of.failed,
        ),
        (
            "signet_tls_listener_certificates_refused_total",
            "Certificates of the other side that were not accepted, by the fault.",
            "fault",
            &faults,
            |of| &of.faults,
        ),
    ];
    for (name, help, label, values, get) in families {
        page.head(name, help, "counter");
        for (listener, tally) in rows {
            for (value, count) in values.iter().zip(get(tally)) {
                page.sample(name, &[("listener", listener), (label, value)], *count);
            }
        }
    }

    let name = "signet_tls_listener_resumptions_refused_total";
    page.head(
        name,
        "Sessions not resumed, because the client's certificate would not be accepted any more.",
        "counter",
    );
    for (listener, tally) in rows {
        page.sample(name, &[("listener", listener)], tally.resumptions_refused);
    }

    type Times<'t> = fn(&HandshakeTally) -> [(&'t str, u64); 3];
    let times: [(&str, &str, Times<'_>); 2] = [
        (
            "signet_tls_listener_wall_seconds_total",
            "Time that TLS handshakes took on the clock, their wait included.",
            |of| {
                [
                    ("full", of.full_wall_us),
                    ("resumed", of.resumed_wall_us),
                    ("", 0),
                ]
            },
        ),
        (
            "signet_tls_listener_cpu_seconds_total",
            "Time that TLS handshakes took on the processor.",
            |of| {
                [
                    ("full", of.full_cpu_us),
                    ("resumed", of.resumed_cpu_us),
                    ("failed", of.failed_cpu_us),
                ]
            },
        ),
    ];
    for (name, help, get) in times {
        page.head(name, help, "counter");
        for (listener, tally) in rows {
            for (kind, time_us) in get(tally) {
                if !kind.is_empty() {
                    page.sample_us(name, &[("listener", listener), ("kind", kind)], time_us);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listeners_figures_are_summed_over_the_workers() {
        let mut snapshot = Snapshot {
            listeners: vec![sip_net::ListenerCounters::default(); 2],
            ..Snapshot::default()
        };
        let second = snapshot.listeners.last_mut().unwrap();
        second.tls.full[TlsVersion::V13 as usize] = 2;
        second.tls.full_cpu_us = 1_500_000;
        second.tls.failed[0] = 1;
        let sums = listener_tallies(&[snapshot.clone(), Snapshot::default(), snapshot]);
        let rows = vec![("a".to_owned(), sums[0]), ("b".to_owned(), sums[1])];
        let mut page = Page::default();
        tallies(&mut page, &rows);
        for line in [
            "signet_tls_listener_handshakes_total{listener=\"b\",kind=\"full\",version=\"1.3\"} 4",
            "signet_tls_listener_handshakes_total{listener=\"a\",kind=\"full\",version=\"1.3\"} 0",
            "signet_tls_listener_failed_total{listener=\"b\",reason=\"timed_out\"} 2",
            "signet_tls_listener_cpu_seconds_total{listener=\"b\",kind=\"full\"} 3.000000",
        ] {
            assert!(
                page.text.lines().any(|of| of == line),
                "{line} is not in\n{}",
                page.text
            );
        }
    }
}
