//! Every figure, in the text format of Prometheus.
//!
//! Longer than other files because it is a list: a name, a help text and where
//! the number comes from, for each.

mod tls;

use std::fmt::Write as _;

pub(super) use tls::listener_tallies;

use sip_net::{CloseReason, TransportCounters};

use super::Sources;
use crate::worker::{Phase, Snapshot};

/// The whole page.
pub(super) fn render(sources: &Sources) -> String {
    let snapshots = sources.control.snapshots();
    let mut page = Page::default();
    page.net(&snapshots);
    page.workers(&snapshots);
    page.engine(&snapshots);

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
    tls::listeners(&mut page, sources, &snapshots);

    page.gauge(
        "signet_users_registered",
        "Users with bindings.",
        sources.location.aors() as u64,
    );
    page.gauge(
        "signet_bindings",
        "Bindings.",
        sources.location.bindings() as u64,
    );
    let auth = sources.authenticator.counters();
    page.counter(
        "signet_auth_replays_total",
        "Credentials refused because they were used before.",
        auth.replays,
    );
    page.counter("signet_auth_nonces_total", "Nonces issued.", auth.nonces);
    page.counter(
        "signet_auth_forgotten_total",
        "Good credentials refused because their nonce may have been forgotten.",
        auth.forgotten,
    );
    page.counter(
        "signet_auth_replay_evictions_total",
        "Nonces forgotten because too many were in use.",
        auth.replay_evictions,
    );
    page.gauge(
        "signet_auth_replay_entries",
        "Nonces in use.",
        auth.replay_entries,
    );

    let store = sources.store.figures();
    page.counter(
        "signet_store_lookups_total",
        "Look-ups of credentials answered.",
        store.lookups,
    );
    page.counter(
        "signet_store_lookup_batches_total",
        "The batches that they came in.",
        store.lookup_batches,
    );
    page.counter(
        "signet_store_lookups_failed_total",
        "Look-ups that the database failed.",
        store.lookups_failed,
    );
    page.counter(
        "signet_store_saves_total",
        "Changes of bindings carried out.",
        store.saves,
    );
    page.counter(
        "signet_store_commits_total",
        "The commits that they came in.",
        store.save_groups,
    );
    page.counter(
        "signet_store_saves_failed_total",
        "Changes of bindings that the database failed.",
        store.saves_failed,
    );
    page.counter(
        "signet_store_expired_total",
        "Expired bindings deleted.",
        store.expired,
    );

    page.gauge(
        "signet_start_time_seconds",
        "When the process began, in seconds since 1970.",
        sources.started_unix_s,
    );
    page.gauge(
        "signet_ready",
        "1 while new calls are taken.",
        u64::from(sources.control.phase() == Phase::Running),
    );
    if let Ok(usage) = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF) {
        let cpu = usage.user_time() + usage.system_time();
        page.head(
            "process_cpu_seconds_total",
            "CPU time of the process.",
            "counter",
        );
        let _ = writeln!(
            page.text,
            "process_cpu_seconds_total {}.{:06}",
            cpu.tv_sec(),
            cpu.tv_usec()
        );
    }
    page.text
}

/// The text format of Prometheus.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn net(&mut self, snapshots: &[Snapshot]) {
        type Get = fn(&sip_net::Counters) -> u64;
        type OfTransport = fn(&TransportCounters) -> u64;
        let sum = |get: Get| {
            snapshots
                .iter()
                .map(|snapshot| get(&snapshot.net))
                .sum::<u64>()
        };

        let traffic: [(&str, &str, OfTransport); 4] = [
            (
                "signet_messages_received_total",
                "Messages received.",
                |of| of.messages_in,
            ),
            (
                "signet_messages_sent_total",
                "Messages sent, or queued to be.",
                |of| of.messages_out,
            ),
            ("signet_received_bytes_total", "Bytes received.", |of| {
                of.bytes_in
            }),
            ("signet_sent_bytes_total", "Bytes sent.", |of| of.bytes_out),
        ];
        for (name, help, get) in traffic {
            self.head(name, help, "counter");
            for (transport, of) in [
                (
                    "udp",
                    (|net| net.udp) as fn(&sip_net::Counters) -> TransportCounters,
                ),
                ("tcp", |net| net.tcp),
                ("tls", |net| net.tls),
            ] {
                let total = snapshots
                    .iter()
                    .map(|snapshot| get(&of(&snapshot.net)))
                    .sum();
                self.sample(name, &[("transport", transport)], total);
            }
        }

        let counters: [(&str, &str, Get); 18] = [
            (
                "signet_udp_kernel_drops_total",
                "Datagrams that the kernel dropped because the socket's buffer was full.",
                |net| net.udp_kernel_drops,
            ),
            (
                "signet_udp_queue_drops_total",
                "Datagrams dropped because the queue behind a full socket was full.",
                |net| net.udp_queue_drops,
            ),
            (
                "signet_udp_unsendable_total",
                "Datagrams that the kernel refused to send.",
                |net| net.udp_unsendable,
            ),
            (
                "signet_udp_keep_alives_total",
                "Datagrams of line ends only.",
                |net| net.udp_keep_alives,
            ),
            (
                "signet_udp_unreachable_total",
                "ICMP errors received for datagrams sent.",
                |net| net.udp_unreachable,
            ),
            (
                "signet_connections_accepted_total",
                "Connections accepted.",
                |net| net.accepted,
            ),
            (
                "signet_connections_refused_total",
                "Connections closed at once, because there are too many.",
                |net| net.refused_total,
            ),
            (
                "signet_connections_refused_source_total",
                "Connections closed at once, because their source has too many.",
                |net| net.refused_source,
            ),
            (
                "signet_connections_refused_handshakes_total",
                "Connections closed at once, because too many handshakes wait.",
                |net| net.refused_handshakes,
            ),
            (
                "signet_accept_errors_total",
                "Times that accepting failed, for want of file descriptors or memory.",
                |net| net.accept_errors,
            ),
            (
                "signet_connections_opened_total",
                "Connections opened.",
                |net| net.opened,
            ),
            (
                "signet_connections_open_failed_total",
                "Connections that could not be opened.",
                |net| net.open_failed,
            ),
            ("signet_pings_total", "Keep-alive pings answered.", |net| {
                net.pings
            }),
            (
                "signet_tls_accepted_total",
                "TLS handshakes completed on connections that were accepted.",
                |net| net.handshakes_in,
            ),
            (
                "signet_tls_accepted_resumed_total",
                "Of these, resumed ones.",
                |net| net.handshakes_in_resumed,
            ),
            (
                "signet_tls_opened_total",
                "TLS handshakes completed on connections that were opened.",
                |net| net.handshakes_out,
            ),
            (
                "signet_tls_opened_resumed_total",
                "Of these, resumed ones.",
                |net| net.handshakes_out_resumed,
            ),
            (
                "signet_polls_total",
                "Turns of the workers' loops.",
                |net| net.polls,
            ),
        ];
        for (name, help, get) in counters {
            self.counter(name, help, sum(get));
        }
        self.gauge(
            "signet_connections",
            "Connections now.",
            sum(|net| net.connections),
        );
        self.head(
            "signet_connections_closed_total",
            "Connections closed, by the reason.",
            "counter",
        );
        for (place, reason) in CloseReason::ALL.into_iter().enumerate() {
            let total = snapshots
                .iter()
                .filter_map(|snapshot| snapshot.net.closed.get(place))
                .sum();
            self.sample(
                "signet_connections_closed_total",
                &[("reason", &label(reason))],
                total,
            );
        }
    }

    fn workers(&mut self, snapshots: &[Snapshot]) {
        type Get = fn(&Snapshot) -> u64;
        let counters: [(&str, &str, Get); 4] = [
            (
                "signet_handed_over_total",
                "Messages handed from one worker to another.",
                |of| of.own.handed_over,
            ),
            (
                "signet_handover_refused_total",
                "Messages for which the other worker had no room.",
                |of| of.own.handover_refused,
            ),
            (
                "signet_store_refused_total",
                "Questions that the store did not take.",
                |of| of.own.store_refused,
            ),
            (
                "signet_dns_refused_total",
                "Questions that the resolver did not take.",
                |of| of.own.dns_refused,
            ),
        ];
        for (name, help, get) in counters {
            self.counter(name, help, snapshots.iter().map(get).sum());
        }
        self.gauge("signet_workers", "Worker threads.", snapshots.len() as u64);
        self.gauge(
            "signet_in_flight",
            "Transactions, forwarded requests and parked requests.",
            snapshots.iter().map(|of| of.in_flight as u64).sum(),
        );
    }

    fn engine(&mut self, snapshots: &[Snapshot]) {
        type Get = fn(&Snapshot) -> u64;
        let counters: [(&str, &str, Get); 38] = [
            ("signet_requests_total", "Requests that parsed.", |of| {
                of.engine.requests
            }),
            ("signet_responses_total", "Responses that parsed.", |of| {
                of.engine.responses
            }),
            (
                "signet_malformed_total",
                "Messages that did not parse, or that no element may trust.",
                |of| of.engine.malformed,
            ),
            (
                "signet_malformed_dropped_total",
                "Of these, those that could not be answered.",
                |of| of.engine.malformed_dropped,
            ),
            (
                "signet_requests_forwarded_total",
                "Copies of requests sent on.",
                |of| of.engine.requests_forwarded,
            ),
            (
                "signet_responses_forwarded_total",
                "Responses sent on upstream.",
                |of| of.engine.responses_forwarded,
            ),
            (
                "signet_responses_stray_total",
                "Responses that belong to nothing that was sent.",
                |of| of.engine.responses_stray,
            ),
            (
                "signet_responses_without_via_total",
                "Responses without a Via beyond our own.",
                |of| of.engine.responses_without_via,
            ),
            ("signet_challenges_total", "Challenges.", |of| {
                of.engine.challenges
            }),
            (
                "signet_requests_dropped_total",
                "Requests that could not be answered.",
                |of| of.engine.requests_dropped,
            ),
            (
                "signet_acks_absorbed_total",
                "ACKs to answers for which no state was kept.",
                |of| of.engine.acks_absorbed,
            ),
            (
                "signet_contexts_full_total",
                "Requests refused because there was no room for a context.",
                |of| of.engine.contexts_full,
            ),
            (
                "signet_lookups_full_total",
                "Requests refused because too many wait for the store.",
                |of| of.engine.lookups_full,
            ),
            (
                "signet_parks_full_total",
                "Requests refused because too many wait for addresses.",
                |of| of.engine.parks_full,
            ),
            (
                "signet_clients_full_total",
                "Copies not sent for want of a client transaction.",
                |of| of.engine.clients_full,
            ),
            (
                "signet_branches_refused_total",
                "Targets beyond the bound of branches.",
                |of| of.engine.branches_refused,
            ),
            (
                "signet_lookups_expired_total",
                "Look-ups that the store did not answer in time.",
                |of| of.engine.lookups_expired,
            ),
            (
                "signet_resolves_expired_total",
                "Addresses that were not found in time.",
                |of| of.engine.resolves_expired,
            ),
            (
                "signet_answers_late_total",
                "Answers of the store or the resolver that came too late.",
                |of| of.engine.answers_late,
            ),
            ("signet_loops_total", "Loops that were detected.", |of| {
                of.engine.loops
            }),
            (
                "signet_timer_c_fired_total",
                "Calls that rang for too long.",
                |of| of.engine.timer_c_fired,
            ),
            (
                "signet_flows_failed_total",
                "Flows to phones that were gone when a request came for them.",
                |of| of.engine.flows_failed,
            ),
            (
                "signet_server_transactions_total",
                "Server transactions.",
                |of| of.transactions.server_created,
            ),
            (
                "signet_client_transactions_total",
                "Client transactions.",
                |of| of.transactions.client_created,
            ),
            (
                "signet_requests_absorbed_total",
                "Retransmitted requests absorbed.",
                |of| of.transactions.request_absorbed,
            ),
            (
                "signet_responses_absorbed_total",
                "Retransmitted responses absorbed.",
                |of| of.transactions.response_absorbed,
            ),
            (
                "signet_requests_retransmitted_total",
                "Requests retransmitted.",
                |of| of.transactions.request_retransmitted,
            ),
            (
                "signet_responses_retransmitted_total",
                "Responses retransmitted.",
                |of| of.transactions.response_retransmitted,
            ),
            (
                "signet_server_transactions_full_total",
                "Requests for which there was no transaction.",
                |of| of.transactions.server_full,
            ),
            (
                "signet_client_transactions_timed_out_total",
                "Requests that nobody answered.",
                |of| of.transactions.client_timeout,
            ),
            (
                "signet_client_transactions_failed_total",
                "Requests that could not be sent.",
                |of| of.transactions.client_failed,
            ),
            (
                "signet_acks_missing_total",
                "Final answers that were never acknowledged.",
                |of| of.transactions.ack_timeout,
            ),
            ("signet_registers_total", "REGISTERs taken.", |of| {
                of.registrar.requests
            }),
            (
                "signet_registers_ok_total",
                "REGISTERs answered 200.",
                |of| of.registrar.ok,
            ),
            (
                "signet_registers_refused_total",
                "REGISTERs answered otherwise.",
                |of| of.registrar.refused,
            ),
            (
                "signet_registers_save_failed_total",
                "REGISTERs that the store could not store.",
                |of| of.registrar.save_failed,
            ),
            (
                "signet_registers_save_timeout_total",
                "REGISTERs that the store did not store in time.",
                |of| of.registrar.save_timeout,
            ),
            (
                "signet_registers_queue_full_total",
                "REGISTERs refused because too many wait for the store.",
                |of| of.registrar.queue_full,
            ),
        ];
        for (name, help, get) in counters {
            self.counter(name, help, snapshots.iter().map(get).sum());
        }
        self.head(
            "signet_answers_total",
            "Final answers of this server's own, by class.",
            "counter",
        );
        for (place, class) in ["2xx", "3xx", "4xx", "5xx", "6xx"].iter().enumerate() {
            let total = snapshots
                .iter()
                .filter_map(|of| of.engine.answers.get(place))
                .sum();
            self.sample("signet_answers_total", &[("class", class)], total);
        }
        let gauges: [(&str, &str, Get); 5] = [
            ("signet_contexts", "Requests being forwarded.", |of| {
                of.contexts as u64
            }),
            (
                "signet_server_transactions_invite",
                "INVITE server transactions alive.",
                |of| of.live.server_invite as u64,
            ),
            (
                "signet_server_transactions_other",
                "Other server transactions alive.",
                |of| of.live.server_non_invite as u64,
            ),
            (
                "signet_client_transactions_invite",
                "INVITE client transactions alive.",
                |of| of.live.client_invite as u64,
            ),
            (
                "signet_client_transactions_other",
                "Other client transactions alive.",
                |of| of.live.client_non_invite as u64,
            ),
        ];
        for (name, help, get) in gauges {
            self.gauge(name, help, snapshots.iter().map(get).sum());
        }
    }

    /// A time in microseconds, in seconds.
    fn sample_us(&mut self, name: &str, labels: &[(&str, &str)], value_us: u64) {
        let (seconds, rest) = (value_us / 1_000_000, value_us % 1_000_000);
        self.sample_text(name, labels, &format!("{seconds}.{rest:06}"));
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, help, "counter");
        self.sample(name, &[], value);
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, help, "gauge");
        self.sample(name, &[], value);
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        self.sample_text(name, labels, &value.to_string());
    }

    fn sample_text(&mut self, name: &str, labels: &[(&str, &str)], value: &str) {
        self.text.push_str(name);
        for (nth, (label, text)) in labels.iter().enumerate() {
            let _ = write!(
                self.text,
                "{}{label}=\"{text}\"",
                if nth == 0 { '{' } else { ',' }
            );
        }
        let _ = writeln!(
            self.text,
            "{} {value}",
            if labels.is_empty() { "" } else { "}" }
        );
    }
}

/// `SlowReader` as `slow_reader`.
fn label(reason: CloseReason) -> String {
    let mut label = String::new();
    for letter in format!("{reason:?}").chars() {
        if letter.is_ascii_uppercase() && !label.is_empty() {
            label.push('_');
        }
        label.push(letter.to_ascii_lowercase());
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_its_head_and_is_summed_over_the_workers() {
        let mut snapshots = vec![Snapshot::default(), Snapshot::default()];
        for snapshot in &mut snapshots {
            snapshot.engine.requests = 3;
            snapshot.net.udp.messages_in = 5;
            snapshot.net.closed = [1; CloseReason::ALL.len()];
        }
        let mut page = Page::default();
        page.net(&snapshots);
        page.workers(&snapshots);
        page.engine(&snapshots);
        for line in [
            "signet_requests_total 6",
            "signet_messages_received_total{transport=\"udp\"} 10",
            "signet_connections_closed_total{reason=\"slow_reader\"} 2",
            "signet_workers 2",
        ] {
            assert!(
                page.text.lines().any(|of| of == line),
                "{line} is not in\n{}",
                page.text
            );
        }
        let mut known = "";
        for line in page.text.lines() {
            if let Some(head) = line.strip_prefix("# TYPE ") {
                known = head.split(' ').next().unwrap();
            } else if !line.starts_with('#') {
                assert_eq!(line.split(['{', ' ']).next().unwrap(), known, "{line}");
            }
        }
    }
}
