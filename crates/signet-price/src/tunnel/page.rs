//! The page of a record of tunnels.

use serde_json::{Value, json};
use signet_bed::Error;
use signet_page::chart::{Axis, Chart, Content, Datum, Figure, Group, Row, Rows};
use signet_page::number::{NONE, figure as three_digits, percent};
use signet_page::{Pages, number};

use super::record::{TunnelRecord, TunnelResult, figure};

/// The heads of [`row_cells`].
pub(crate) const HEAD: [&str; 12] = [
    "tunnel",
    "protected by",
    "carries",
    "Mbit/s",
    "spread",
    "cores",
    "CPU ns/B",
    "UDP adds us",
    "TCP adds us",
    "SRD us",
    "calls failed",
    "CPU us/call",
];

/// The page of a record, one file that needs no other.
///
/// # Errors
/// A template that is wrong: a fault of this program.
pub fn render(record: &TunnelRecord) -> Result<String, Error> {
    let values = json!({
        "record": record,
        "took_s": record.ended_unix_s.saturating_sub(record.started_unix_s),
        "head": HEAD,
        "rows": rows(record),
        "delays": delays(record),
        "charts": charts(record).iter().map(Figure::html).collect::<Vec<_>>(),
    });
    let templates = [("tunnel.html", include_str!("tunnel.html"))];
    Pages::new(&templates)
        .and_then(|pages| pages.render("tunnel.html", &values))
        .map_err(|error| {
            Error::new(
                error.to_string(),
                "this is a fault of this program; report it",
            )
        })
}

/// A row of cells for each tunnel.
pub(crate) fn rows(record: &TunnelRecord) -> Vec<[String; 12]> {
    let tunnels = record.tunnels.iter();
    tunnels.map(|tunnel| row_cells(record, tunnel)).collect()
}

/// A tunnel in the columns of [`HEAD`].
pub(super) fn row_cells(record: &TunnelRecord, tunnel: &TunnelResult) -> [String; 12] {
    let told = |value: Option<f64>| value.map_or_else(|| NONE.to_owned(), three_digits);
    let median = |name: &str| tunnel.median(name);
    let throughput = tunnel.summary(figure::THROUGHPUT_BITS_PER_S);
    let protection = match tunnel.algorithms.as_slice() {
        [] => "nothing".to_owned(),
        algorithms => algorithms.join(", "),
    };
    [
        tunnel.name.clone(),
        protection,
        tunnel.carries.clone(),
        told(throughput.map(|it| it.median / 1e6)),
        throughput
            .filter(|it| it.count > 1)
            .map_or_else(|| NONE.to_owned(), |it| percent(it.spread())),
        told(median(figure::CORES)),
        told(median(figure::CPU_NS_PER_BYTE)),
        told(record.added_us(tunnel, figure::UDP_P50_US)),
        told(record.added_us(tunnel, figure::TCP_P50_US)),
        told(median(figure::SRD_P50_US)),
        median(figure::FAILED_SHARE).map_or_else(|| NONE.to_owned(), percent),
        told(median(figure::CPU_US_PER_CALL)),
    ]
}

/// Delays as they were measured, and bytes on the wire.
fn delays(record: &TunnelRecord) -> Vec<Value> {
    let told = |value: Option<f64>| value.map_or_else(|| NONE.to_owned(), three_digits);
    let tunnels = record.tunnels.iter();
    tunnels
        .map(|tunnel| {
            let median = |name: &str| told(tunnel.median(name));
            let wire = tunnel.median(figure::WIRE_BYTES);
            let carried = tunnel.median(figure::CARRIED_BYTES);
            let ratio = wire
                .zip(carried)
                .map(|(wire, carried)| wire / carried.max(1.0));
            let bytes = carried.map_or_else(|| NONE.to_owned(), number::bytes);
            json!({
                "name": tunnel.name,
                "title": tunnel.title,
                "udp_p50": median(figure::UDP_P50_US),
                "udp_p99": median(figure::UDP_P99_US),
                "udp_lost": median(figure::UDP_LOST),
                "tcp_p50": median(figure::TCP_P50_US),
                "tcp_p99": median(figure::TCP_P99_US),
                "srd_p50": median(figure::SRD_P50_US),
                "srd_p99": median(figure::SRD_P99_US),
                "calls": median(figure::CALLS),
                "carried": bytes,
                "wire_over_carried": told(ratio),
            })
        })
        .collect()
}

/// What passes, and round trips.
pub(crate) fn charts(record: &TunnelRecord) -> Vec<Figure> {
    let drawn = |title: &str, unit: &str, name: &str, scale: f64| {
        let rows: Vec<Row> = record
            .tunnels
            .iter()
            .filter_map(|tunnel| {
                let found = tunnel.summary(name)?;
                let [value, low, high] = [found.median, found.low, found.high].map(|it| it * scale);
                let datum = if found.count > 1 {
                    Datum::between(value, low, high)
                } else {
                    Datum::exact(value)
                };
                Some(Row {
                    name: tunnel.name.clone(),
                    colour: 0,
                    content: Content::Bar(datum),
                })
            })
            .collect();
        (!rows.is_empty()).then(|| Figure {
            title: title.to_owned(),
            description: format!("{} tunnels, in {unit}.", rows.len()),
            chart: Chart::Rows(Rows {
                axis: Axis::linear(unit),
                groups: vec![Group {
                    label: String::new(),
                    rows,
                }],
                interval: "lowest and highest of the repeats".to_owned(),
                ..Rows::default()
            }),
        })
    };
    [
        drawn(
            "What TCP carries through each",
            "Mbit/s",
            figure::THROUGHPUT_BITS_PER_S,
            1e-6,
        ),
        drawn(
            "Round trip of a message on a connection",
            "µs",
            figure::TCP_P50_US,
            1.0,
        ),
        drawn(
            "CPU time of its programs for each call",
            "µs",
            figure::CPU_US_PER_CALL,
            1.0,
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::record::Missed;
    use signet_bed::record::Repeat;

    fn tunnel(name: &str, figures: &[(&str, f64)]) -> TunnelResult {
        let figures = figures
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value));
        TunnelResult {
            name: name.to_owned(),
            title: format!("<{name}>"),
            repeats: vec![Repeat {
                figures: figures.collect(),
                ..Repeat::default()
            }],
            ..TunnelResult::default()
        }
    }

    pub(in super::super) fn record() -> TunnelRecord {
        TunnelRecord {
            tunnels: vec![
                tunnel(
                    "none",
                    &[
                        (figure::THROUGHPUT_BITS_PER_S, 9e9),
                        (figure::TCP_P50_US, 20.0),
                        (figure::CARRIED_BYTES, 1e9),
                        (figure::WIRE_BYTES, 1e9),
                    ],
                ),
                tunnel(
                    "stunnel/aes-128-gcm",
                    &[
                        (figure::THROUGHPUT_BITS_PER_S, 3e9),
                        (figure::TCP_P50_US, 51.5),
                    ],
                ),
            ],
            missed: vec![Missed {
                name: "wireguard".to_owned(),
                why: "no device".to_owned(),
                ..Missed::default()
            }],
            doubts: vec!["it was loud".to_owned()],
            ..TunnelRecord::default()
        }
    }

    #[test]
    fn a_page_has_tunnels_and_what_they_add() {
        let page = render(&record()).unwrap();
        let page = page.replace("&#x2f;", "/");
        for part in [
            "stunnel/aes-128-gcm",
            "&lt;none&gt;",
            "3,000",
            // 51.5 less 20.
            "31.5",
            "no device",
            "it was loud",
            "<svg",
        ] {
            assert!(page.contains(part), "{part} is missing");
        }
        let options = roxmltree::ParsingOptions {
            allow_dtd: true,
            ..roxmltree::ParsingOptions::default()
        };
        roxmltree::Document::parse_with_options(&page, options).unwrap();
    }

    #[test]
    fn an_empty_record_has_a_page_too() {
        assert!(render(&TunnelRecord::default()).unwrap().contains("<h1>"));
    }
}
