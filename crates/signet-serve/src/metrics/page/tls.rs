//! The figures of TLS: of the threads that do handshakes, of certificates and of
//! the secrets of session tickets.

use std::collections::BTreeMap;

use sip_tls::HandshakeCounters;

use super::super::ShownTls;
use super::Page;
use crate::tls_report::ShownTickets;

/// The figures of the threads that do handshakes.
pub(super) fn pool(page: &mut Page, handshakes: &HandshakeCounters) {
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
            "signet_tls_full_begun_total",
            "Full TLS handshakes with clients that had their turn.",
            handshakes.full_begun,
        ),
        (
            "signet_tls_full_on_workers_total",
            "Of these, handshakes that workers began themselves.",
            handshakes.full_on_workers,
        ),
        (
            "signet_tls_resumed_begun_total",
            "TLS handshakes that their ClientHello made look like resumptions, with clients that had their turn.",
            handshakes.resumed_begun,
        ),
        (
            "signet_tls_refused_full_total",
            "TLS handshakes refused, because too many full ones waited.",
            handshakes.refused_full,
        ),
    ] {
        page.counter(name, help, value);
    }
    page.gauge(
        "signet_tls_full_waiting",
        "Clients whose full TLS handshake waits for a thread.",
        handshakes.full_waiting,
    );
    page.gauge(
        "signet_tls_unread",
        "Sockets with TLS handshakes that the turns of workers had no room for.",
        handshakes.unread,
    );
    page.head(
        "signet_tls_cpu_seconds_total",
        "CPU time of TLS handshakes, on workers and on threads.",
        "counter",
    );
    page.sample_us("signet_tls_cpu_seconds_total", &[], handshakes.cpu_us);
}

pub(super) fn shown(page: &mut Page, shown: &ShownTls) {
    tickets(page, &shown.tickets.shown());
    let name = "signet_tls_certificate_not_after_seconds";
    page.head(
        name,
        "The end of each certificate that is shown, in seconds since 1970.",
        "gauge",
    );
    let listeners = shown.listeners.iter().flatten();
    let accepting = listeners
        .filter(|listener| listener.accepts)
        .flat_map(|listener| {
            let certificates = listener.certificates.iter();
            certificates.map(|certificate| (listener.place.as_str(), certificate))
        });
    let called = shown.outgoing.called.iter();
    let identities = (shown.outgoing.identity.iter())
        .chain(called.filter_map(|called| called.identity.as_ref()?.as_ref()))
        .map(|certificate| ("opened", certificate));
    let mut samples = BTreeMap::new();
    for (listener, certificate) in accepting.chain(identities) {
        let file = certificate.file.display().to_string();
        // One may stand in several places.
        samples.insert((listener, file), certificate.not_after_unix_s);
    }
    for ((listener, file), not_after_unix_s) in samples {
        page.sample(
            name,
            &[("listener", listener), ("file", &file)],
            not_after_unix_s,
        );
    }
}

/// Where the keys of session tickets come from.
fn tickets(page: &mut Page, shown: &ShownTickets) {
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
        "Times that this failed; those in use stay.",
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
        if let Some(created) = secret.created_unix_s {
            page.sample(name, &[("id", &secret.id)], created);
        }
    }
}
