//! The figures of sockets: traffic, datagrams, connections.

use sip_net::{CloseReason, TransportCounters};

use super::{Page, label};
use crate::worker::Snapshot;

pub(super) fn net(page: &mut Page, snapshots: &[Snapshot]) {
    type Get = fn(&sip_net::Counters) -> u64;
    type OfTransport = fn(&TransportCounters) -> u64;
    let sum = |get: Get| {
        snapshots
            .iter()
            .map(|snapshot| get(&snapshot.sockets.net))
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
        page.head(name, help, "counter");
        for (transport, of) in [
            (
                "udp",
                (|net| net.udp) as fn(&sip_net::Counters) -> TransportCounters,
            ),
            ("tcp", |net| net.tcp),
            ("tls", |net| net.tls),
            ("ws", |net| net.ws),
            ("wss", |net| net.wss),
        ] {
            let total = snapshots
                .iter()
                .map(|snapshot| get(&of(&snapshot.sockets.net)))
                .sum();
            page.sample(name, &[("transport", transport)], total);
        }
    }

    let counters: &[(&str, &str, Get)] = &[
        (
            "signet_odd_closed_total",
            "Connections closed because a stranger sent too many wrong messages.",
            |net| net.odd_closed,
        ),
        (
            "signet_reads_paused_total",
            "Times that a peer was not read from, because it did not read.",
            |net| net.reads_paused,
        ),
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
            "signet_connections_refused_rate_total",
            "Connections closed at once, because their source opens them too fast.",
            |net| net.refused_rate,
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
        (
            "signet_connections_backoffs_total",
            "Messages not sent because no connection could be opened to their peer shortly before.",
            |net| net.open_backoffs,
        ),
        (
            "signet_connections_no_local_port_total",
            "Connections not opened because all local ports to that peer are taken.",
            |net| net.no_local_port,
        ),
        (
            "signet_connections_evicted_unused_total",
            "Connections closed to make room that had never carried a message.",
            |net| net.evicted_unused,
        ),
        (
            "signet_connections_evicted_idle_total",
            "Idle connections closed to make room.",
            |net| net.evicted_idle,
        ),
        (
            "signet_connections_evicted_bound_total",
            "Connections closed to make room that a registered contact or a call relied on.",
            |net| net.evicted_bound,
        ),
        (
            "signet_connections_lost_messages_total",
            "Messages written to a connection that ended soon after, answered ones included.",
            |net| net.lost,
        ),
        (
            "signet_connections_lost_forgotten_total",
            "Messages written and not remembered until their answer, because there were too many.",
            |net| net.lost_forgotten,
        ),
        (
            "signet_aliases_granted_total",
            "Connections noted as ways to the neighbours that opened them (RFC 5923).",
            |net| net.aliases_granted,
        ),
        (
            "signet_aliases_refused_unproven_total",
            "Wishes for that of peers that have proved no identity.",
            |net| net.aliases_unproven,
        ),
        (
            "signet_aliases_refused_name_total",
            "Wishes for that under a name that the peer has not proved.",
            |net| net.aliases_other_name,
        ),
        (
            "signet_aliases_full_total",
            "Wishes for that past the bound.",
            |net| net.aliases_full,
        ),
        (
            "signet_call_connections_opened_total",
            "Connections opened for one call each.",
            |net| net.opened_for_calls,
        ),
        (
            "signet_call_connections_full_total",
            "Calls that got no connection of their own, because there are too many.",
            |net| net.calls_shared,
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
        page.counter(name, help, sum(*get));
    }
    page.gauge(
        "signet_connections",
        "Connections now.",
        sum(|net| net.connections),
    );
    page.head(
        "signet_connections_closed_total",
        "Connections closed, by the reason.",
        "counter",
    );
    for (place, reason) in CloseReason::ALL.into_iter().enumerate() {
        let total = snapshots
            .iter()
            .filter_map(|snapshot| snapshot.sockets.net.closed.get(place))
            .sum();
        page.sample(
            "signet_connections_closed_total",
            &[("reason", &label(reason))],
            total,
        );
    }
}
