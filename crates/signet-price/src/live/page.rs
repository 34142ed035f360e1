//! The page of a window: where CPU time went, drawn and as a table.

use serde_json::{Value, json};
use signet_bed::Error;
use signet_page::Pages;
use signet_page::chart::{Axis, Chart, Content, Datum, Figure, Group, Row, Rows};
use signet_page::number::{count, figure, percent};

use super::{LiveRecord, Spent};

/// One file that needs no other.
///
/// # Errors
/// A template that is wrong: a fault of this program.
pub fn page(record: &LiveRecord) -> Result<String, Error> {
    let rows: Vec<Value> = record
        .components
        .iter()
        .chain([&record.total])
        .map(row)
        .collect();
    let values = json!({
        "from": record.from,
        "server": record.server,
        "seconds": figure(record.seconds),
        "calls": count(record.calls),
        "registrations": count(record.registrations),
        "cores": figure(record.total.cpu_s / record.seconds.max(1e-9)),
        "core_hour_eur": record.core_hour_eur,
        "one": record.unit().map(|(one, _)| one),
        "many": record.unit().map(|(_, many)| many),
        "rows": rows,
        "notes": record.notes,
        "chart": drawn(record).map(|figure| figure.html()),
    });
    let templates = [("live.html", include_str!("live.html"))];
    Pages::new(&templates)
        .and_then(|pages| pages.render("live.html", values))
        .map_err(|error| {
            Error::new(
                error.to_string(),
                "this is a fault of this program; report it",
            )
        })
}

fn row(spent: &Spent) -> Value {
    let (us, eur) = spent.each().unzip();
    json!({
        "name": spent.name,
        "cpu_s": figure(spent.cpu_s),
        "share": percent(spent.share),
        "us": us.map(figure),
        "eur": eur.map(figure),
    })
}

/// What each took; nothing where nothing did.
fn drawn(record: &LiveRecord) -> Option<Figure> {
    let unit = record.unit().map(|(one, _)| one);
    let rows: Vec<Row> = record
        .components
        .iter()
        .filter(|spent| spent.cpu_s > 0.0)
        .map(|spent| Row {
            name: spent.name.clone(),
            colour: 0,
            content: Content::Bar(Datum::exact(match spent.each() {
                Some((us, _)) => us,
                None => spent.cpu_s * 1e3,
            })),
        })
        .collect();
    (!rows.is_empty()).then(|| Figure {
        title: "Where CPU time goes".to_owned(),
        description: "By component of the server.".to_owned(),
        chart: Chart::Rows(Rows {
            axis: Axis::linear(match unit {
                Some(one) => format!("CPU time for each {one}, µs"),
                None => "CPU time, ms".to_owned(),
            }),
            groups: vec![Group {
                label: String::new(),
                rows,
            }],
            ..Rows::default()
        }),
    })
}
