//! The connections: per listener, of those that this server opened, and per peer.

use sip_net::{AGE_BOUNDS_S, ConnectionFigures};

use super::Page;
use super::handshakes::{Row, tallies};
use crate::tls_report::Counted;
use crate::worker::Snapshot;

/// Whose connections, and which there are.
struct Of<'o> {
    labels: Vec<(&'static str, &'o str)>,
    connections: &'o ConnectionFigures,
}

/// `places` are the listeners' names, in the order in which they are counted.
pub(super) fn connections(
    page: &mut Page,
    places: &[String],
    accepts_tls: &dyn Fn(&str) -> bool,
    snapshots: &[Snapshot],
    counted: &Counted,
) {
    let names = places.iter().map(String::as_str);
    let listeners: Vec<_> = names.zip(&counted.listeners).collect();
    let mut rows: Vec<Row<'_>> = listeners
        .iter()
        .filter(|(name, _)| accepts_tls(name))
        .map(|(name, counted)| Row {
            labels: vec![("listener", name)],
            tally: &counted.tls,
        })
        .collect();
    rows.push(Row {
        labels: vec![("listener", "opened")],
        tally: &counted.opened_tls,
    });
    tallies(page, "listener", &rows, false);

    let sides = || {
        let peers = counted.peers.iter();
        peers.flat_map(|peer| {
            [("peer", &peer.accepted), ("us", &peer.opened)].map(|(opened_by, side)| {
                let labels = vec![("peer", &*peer.name), ("opened_by", opened_by)];
                (labels, side)
            })
        })
    };
    let rows: Vec<Row<'_>> = sides()
        .map(|(labels, side)| Row {
            labels,
            tally: &side.tls,
        })
        .collect();
    tallies(page, "peer", &rows, true);

    // Datagrams have no connections.
    let streams = listeners
        .iter()
        .filter(|(name, _)| !name.starts_with("udp:"));
    let mut rows: Vec<Of<'_>> = streams
        .clone()
        .map(|(name, counted)| Of {
            labels: vec![("listener", name)],
            connections: &counted.connections,
        })
        .collect();
    rows.push(Of {
        labels: vec![("listener", "opened")],
        connections: &counted.opened,
    });
    figures(page, "listener", &rows);
    let rows: Vec<Of<'_>> = sides()
        .map(|(labels, side)| Of {
            labels,
            connections: &side.connections,
        })
        .collect();
    figures(page, "peer", &rows);

    let name = "signet_listener_connections_accepted_total";
    page.head(name, "Connections accepted.", "counter");
    for (listener, counted) in streams.clone() {
        page.sample(name, &[("listener", listener)], counted.accepted);
    }
    let name = "signet_listener_connections_refused_total";
    page.head(
        name,
        "Connections closed at once, because there are too many, or too many of their source, or these come too fast.",
        "counter",
    );
    for (listener, counted) in streams {
        for (reason, count) in [
            ("total", counted.refused_total),
            ("source", counted.refused_source),
            ("rate", counted.refused_rate),
        ] {
            page.sample(name, &[("listener", listener), ("reason", reason)], count);
        }
    }
    page.gauge(
        "signet_connections_buffered_bytes",
        "Bytes that wait on connections: to be written, or for the rest of a message.",
        snapshots.iter().map(|of| of.sockets.buffered_bytes).sum(),
    );
    page.gauge(
        "signet_tls_client_sessions",
        "Peers with which the next connection that this server opens could resume.",
        counted.sessions as u64,
    );
}

fn figures(page: &mut Page, kind: &str, rows: &[Of<'_>]) {
    type Get = fn(&ConnectionFigures) -> u64;
    let gauges: [(&str, &str, Get); 4] = [
        ("connections", "Connections now.", |of| of.open),
        (
            "connections_memory_bytes",
            "What they hold in structures of their own: connection and TLS session by their sizes, without buffers and what the session keeps on the heap.",
            |of| of.bytes,
        ),
        (
            "connections_age_seconds",
            "Sum of their ages: divide by their number for the mean.",
            |of| of.age_ms_sum / 1_000,
        ),
        (
            "connections_oldest_seconds",
            "The age of the oldest, to a minute in its first hour, to an hour in its first week.",
            |of| of.oldest_ms / 1_000,
        ),
    ];
    for (ending, help, get) in gauges {
        let name = format!("signet_{kind}_{ending}");
        page.head(&name, help, "gauge");
        for row in rows {
            page.sample(&name, &row.labels, get(row.connections));
        }
    }
    let name = format!("signet_{kind}_connections_by_age");
    page.head(
        &name,
        "Connections that are no older than this many seconds.",
        "gauge",
    );
    for row in rows {
        let mut sum = 0;
        let bounds = AGE_BOUNDS_S.iter().map(u64::to_string);
        let bounds = bounds.chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(row.connections.ages) {
            sum += count;
            let mut labels = row.labels.clone();
            labels.push(("within_seconds", &bound));
            page.sample(&name, &labels, sum);
        }
    }
}
