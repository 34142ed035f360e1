//! The page of a record: the paper's tables with our figures beside, its figures drawn, and
//! everything that was measured.

pub(crate) mod drawn;
pub(crate) mod tables;

use serde_json::json;
use signet_bed::Error;
use signet_page::{Pages, number};

use crate::paper::Paper;
use crate::record::{Item, PriceRecord};

/// Where a line misses a point by more, it does not tell the price.
const LINE_ERROR_MAX: f64 = 0.1;

/// The page of a record, one file that needs no other.
///
/// # Errors
/// A template that is wrong: a fault of this program.
pub fn render(record: &PriceRecord) -> Result<String, Error> {
    let fault = |what: String| Error::new(what, "this is a fault of this program; report it");
    let paper = Paper::niedermayer_2006().map_err(|error| fault(error.to_string()))?;
    let took_s = record.ended_unix_s.saturating_sub(record.started_unix_s);
    let charts: Vec<String> = drawn::figures(record, &paper)
        .iter()
        .map(signet_page::chart::Figure::html)
        .collect();
    let bent: Vec<String> = record
        .items
        .iter()
        .filter_map(|item| Some((item, item.line.as_ref()?)))
        .filter(|(_, line)| line.error > LINE_ERROR_MAX)
        .map(|(item, line)| format!("{}: {}", named(item), number::percent(line.error)))
        .collect();
    let lined = record
        .items
        .iter()
        .filter(|item| item.line.is_some())
        .count();
    let values = json!({
        "record": record,
        "took_s": took_s,
        "paper": {
            "authors": paper.authors,
            "title": paper.title,
            "venue": paper.venue,
            "year": paper.year,
            "setting": paper.setting,
        },
        "tables": tables::tables(record, &paper),
        "charts": charts,
        "regression": tables::regression(record),
        "lines": { "count": lined, "bent": bent, "error_max": LINE_ERROR_MAX },
        "sizes": tables::sizes(record),
        "items": tables::items(record),
        "sip": crate::sip::table(record),
        "checks": record.checks.iter().map(crate::record::Check::sentence).collect::<Vec<_>>(),
        "hz": format!("{:.3} GHz", record.clock.hz / 1e9),
        "overhead": number::figure(record.clock.overhead_ns),
    });
    let pages = Pages::new(&[("crypto.html", include_str!("crypto.html"))]);
    pages
        .and_then(|pages| pages.render("crypto.html", &values))
        .map_err(|error| fault(error.to_string()))
}

/// An item in a line.
fn named(item: &Item) -> String {
    format!("{} by {}, {}", item.name, item.provider, item.operation)
}

/// The item that stands for a name in the paper's tables: sending, by RustCrypto where it may
/// be, which alone has all of them.
pub(crate) fn standing<'a>(record: &'a PriceRecord, name: &str) -> Option<&'a Item> {
    let sent = || {
        record
            .items
            .iter()
            .filter(|item| item.name == name && item.operation == "send")
    };
    let own = sent().find(|item| item.provider == "rustcrypto");
    own.or_else(|| sent().next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Line;
    use crate::record::{Check, Clock, Missed, Point};

    fn item(name: &str, provider: &str) -> Item {
        let points: Vec<Point> = [64u64, 300, 700, 1_400]
            .into_iter()
            .map(|size_bytes| Point {
                size_bytes,
                median_ns: 100.0 + 2.0 * size_bytes as f64,
                cycles: Some(260.0 + 5.2 * size_bytes as f64),
                ..Point::default()
            })
            .collect();
        Item {
            name: name.to_owned(),
            family: name.split('/').next().unwrap().to_owned(),
            provider: provider.to_owned(),
            operation: "send".to_owned(),
            labels: [("mode", "transport"), ("outer", "ipv4")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            line: Line::through(&points),
            points,
            ..Item::default()
        }
    }

    fn record() -> PriceRecord {
        PriceRecord {
            clock: Clock {
                source: "tsc".to_owned(),
                hz: 2.6e9,
                overhead_ns: 20.0,
            },
            items: [
                "ah/transport/ipv4/hmac-sha1-96",
                "esp/transport/ipv4/aes-128-cbc",
                "esp+ah/transport/ipv4/aes-128-cbc/hmac-sha1-96",
            ]
            .map(|name| item(name, "rustcrypto"))
            .into(),
            missed: vec![Missed {
                name: "primitive/<des>".to_owned(),
                ..Missed::default()
            }],
            checks: vec![Check::default()],
            doubts: vec!["it was loud".to_owned()],
            ..PriceRecord::default()
        }
    }

    #[test]
    fn a_page_has_the_papers_figures_and_ours() {
        let page = render(&record()).unwrap();
        for part in [
            "Table 1",
            "Table 12",
            "63,628",
            // 260 + 5.2 * 1400 cycles, 2.9 µs, 3862 Mbit/s.
            "7,540",
            "3,862",
            "&lt;des&gt;",
            "it was loud",
            "<svg",
        ] {
            assert!(page.contains(part), "{part} is missing");
        }
        assert!(!page.contains("Table 13"));
        let options = roxmltree::ParsingOptions {
            allow_dtd: true,
            ..roxmltree::ParsingOptions::default()
        };
        roxmltree::Document::parse_with_options(&page, options).unwrap();
    }

    #[test]
    fn an_empty_record_has_a_page_too() {
        assert!(render(&PriceRecord::default()).unwrap().contains("Table 1"));
    }
}
