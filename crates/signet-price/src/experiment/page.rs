//! The page of an experiment: what the paper found and what was found here, and its tables with
//! ours beside.

use std::path::Path;

use protection::{Levels, Prices, Ratings};
use serde_json::{Value, json};
use signet_bed::Error;
use signet_bed::experiment::{PricesExperiment, Verdict};
use signet_page::{Pages, number};

use super::answer::answer;
use super::record::PricesRecord;
use crate::page::{drawn, tables};
use crate::paper::Paper;
use crate::rate;
use crate::tunnel::{self, TunnelRecord, figure};

/// The line that today's levels of performance are held against, as `signet price rate` has it.
const LINE_BITS_PER_S: u64 = 10_000_000_000;
/// The tunnels that stand beside the paper's Table 13, row by row and column by column.
const TABLE_13: [[Option<&str>; 2]; 3] = [
    [None, Some("openvpn/none")],
    [
        Some("stunnel/aes-128-cbc+sha1"),
        Some("openvpn/aes-128-cbc+sha1"),
    ],
    [None, Some("openvpn/blowfish-128-cbc+sha1")],
];

/// The page of a record, one file that needs no other.
///
/// # Errors
/// A template that is wrong: a fault of this program.
pub fn render(experiment: &PricesExperiment, record: &PricesRecord) -> Result<String, Error> {
    let fault = |what: String| Error::new(what, "this is a fault of this program; report it");
    let paper = Paper::niedermayer_2006().map_err(|error| fault(error.to_string()))?;
    let none = TunnelRecord::default();
    let tunnels = record.tunnels.as_ref().unwrap_or(&none);
    let charts = drawn::figures(&record.packets, &paper);
    let charts = charts.into_iter().chain(tunnel::charts(tunnels));
    let values = json!({
        "experiment": {
            "title": experiment.title,
            "question": experiment.question,
            "differs": experiment.differs,
        },
        "paper": {
            "authors": experiment.paper.authors,
            "title": experiment.paper.title,
            "venue": experiment.paper.venue,
            "year": experiment.paper.year,
            "setting": experiment.paper.setting,
        },
        "lead": lead(experiment, record),
        "findings": findings(experiment, record),
        "charts": charts.map(|chart| chart.html()).collect::<Vec<_>>(),
        "tables": tables::tables(&record.packets, &paper),
        "regression": tables::regression(&record.packets),
        "table_13": table_13(&paper, tunnels),
        "table_14": table_14(record),
        "tunnels": { "head": tunnel::HEAD, "rows": tunnel::rows(tunnels) },
        "missed": missed(record, tunnels),
        "doubts": record.packets.doubts.iter().chain(&tunnels.doubts).collect::<Vec<_>>(),
        "machine": record.packets.machine,
        "versions": record.packets.versions.iter().chain(&tunnels.versions).collect::<Vec<_>>(),
        "seconds": tunnels.seconds,
        "repeats": tunnels.repeats,
        "form": record.form,
        "name": record.experiment,
        "command": record.command,
        "started_unix_s": record.started_unix_s,
        "took_s": record.ended_unix_s.saturating_sub(record.started_unix_s),
    });
    let templates = [("prices.html", include_str!("prices.html"))];
    Pages::new(&templates)
        .and_then(|pages| pages.render("prices.html", &values))
        .map_err(|error| fault(error.to_string()))
}

const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Yes => "yes",
        Verdict::No => "no",
        Verdict::Differently => "differently",
        Verdict::NotMeasured => "not decided",
    }
}

fn lead(experiment: &PricesExperiment, record: &PricesRecord) -> String {
    let count = |verdict: Verdict| {
        let findings = experiment.findings.iter();
        findings
            .filter(|it| answer(it, record).verdict == verdict)
            .count()
    };
    format!(
        "Of {} statements of the paper {} hold here, {} do not, {} hold differently, and {} are not decided.",
        experiment.findings.len(),
        count(Verdict::Yes),
        count(Verdict::No),
        count(Verdict::Differently),
        count(Verdict::NotMeasured)
    )
}

fn findings(experiment: &PricesExperiment, record: &PricesRecord) -> Vec<Value> {
    let findings = experiment.findings.iter();
    findings
        .map(|finding| {
            let answer = answer(finding, record);
            json!({
                "statement": finding.statement,
                "place": finding.place,
                "word": word(answer.verdict),
                "sentence": answer.sentence,
            })
        })
        .collect()
}

/// The paper's tunnels and ours, in Mbit/s.
fn table_13(paper: &Paper, tunnels: &TunnelRecord) -> Option<Value> {
    let table = paper.table(13)?;
    let here = |name: Option<&str>| {
        let throughput = tunnels
            .tunnel(name?)?
            .median(figure::THROUGHPUT_BITS_PER_S)?;
        Some(number::figure(throughput / 1e6))
    };
    let rows = table.rows.iter().zip(TABLE_13).map(|(row, names)| {
        let cells = row.values.iter().zip(names).map(|(value, name)| {
            json!({
                "paper": number::figure(*value),
                "here": here(name).unwrap_or_else(|| number::NONE.to_owned()),
            })
        });
        json!({ "labels": row.labels, "cells": cells.collect::<Vec<_>>() })
    });
    let columns = table.columns.iter();
    let columns = columns.map(|column| json!({ "title": column.title, "unit": "Mbit/s" }));
    Some(json!({
        "number": table.number,
        "caption": table.caption,
        "labels": table.labels,
        "columns": columns.collect::<Vec<_>>(),
        "rows": rows.collect::<Vec<_>>(),
    }))
}

/// The paper's levels and today's; none where no packet has a price.
fn table_14(record: &PricesRecord) -> Vec<Value> {
    let text = serde_json::to_string(&record.packets).unwrap_or_default();
    let Ok(prices) = Prices::parse(Path::new("record.json"), &text) else {
        return Vec::new();
    };
    let ratings = Ratings::new(&Levels::shipped(), &prices, LINE_BITS_PER_S);
    let published = ratings.ratings.iter().filter(|it| it.published.is_some());
    published.map(rate::row).collect()
}

fn missed(record: &PricesRecord, tunnels: &TunnelRecord) -> Vec<String> {
    let packets = record.packets.missed.iter();
    let mut missed: Vec<String> = packets
        .map(|it| format!("{}, {}: {}", it.name, it.provider, it.why))
        .collect();
    let more = tunnels.missed.iter();
    missed.extend(more.map(|it| format!("{}: {}", it.name, it.why)));
    if !record.tunnels_missed.is_empty() {
        missed.push(format!("tunnels: {}", record.tunnels_missed));
    }
    missed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_nothing_has_a_page_with_every_statement_and_table() {
        let (experiment, toml) = PricesExperiment::open("niedermayer-2006").unwrap().unwrap();
        let record = PricesRecord {
            experiment_toml: toml,
            tunnels_missed: "be <root>".to_owned(),
            ..PricesRecord::default()
        };
        let page = render(&experiment, &record).unwrap();
        for finding in &experiment.findings {
            assert!(page.contains(&finding.statement), "{}", finding.statement);
        }
        for part in [
            "Table 1.",
            "Table 12.",
            "Table 13.",
            "63,628",
            "be &lt;root&gt;",
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
    fn table_13_has_as_many_rows_as_the_papers() {
        let paper = Paper::niedermayer_2006().unwrap();
        let table = paper.table(13).unwrap();
        assert_eq!(table.rows.len(), TABLE_13.len());
        for (row, names) in table.rows.iter().zip(TABLE_13) {
            for (value, name) in row.values.iter().zip(names) {
                assert_eq!(value.is_nan(), name.is_none(), "{row:?}");
                let is_known = |name: &str| tunnel::TUNNELS.iter().any(|it| it.name == name);
                assert!(name.is_none_or(is_known), "{name:?}");
            }
        }
    }
}
