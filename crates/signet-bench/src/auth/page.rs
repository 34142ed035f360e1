//! The results as a page: tables, and the grid as a picture beside the paper's.

use std::path::{Path, PathBuf};

use measure::file::write_text;
use serde::Serialize;
use signet_page::Pages;
use signet_page::chart::{Cell, Chart, Field, Figure, Heat};

use super::paper::{self, PAIR_SIDES, PRINTED};
use super::record::{How, PeakRow, Record};
use crate::rule::Summary;

/// Columns are batches, from 1; rows processes, from 1.
fn batches() -> Vec<u32> {
    [1].into_iter().chain(PAIR_SIDES).collect()
}

/// All rates by processes and batches; with each whether it is from a formula and not from a run.
fn field(title: &str, rate: impl Fn(u32, u32) -> Option<(f64, bool)>) -> Field {
    let mut cells = Vec::new();
    for (row, &processes) in paper::PROCESSES.iter().enumerate() {
        for (column, &batch) in batches().iter().enumerate() {
            if let Some((rate_per_s, is_computed)) = rate(processes, batch) {
                cells.push(Cell {
                    column,
                    row,
                    value: Some(rate_per_s),
                    missing: String::new(),
                    is_computed,
                });
            }
        }
    }
    let title = title.to_owned();
    Field { title, cells }
}

/// What was measured of a cell of the grid.
fn of_grid(record: &Record, processes: u32, batch: u32) -> Option<&PeakRow> {
    let how = How::Blocking { processes, batch };
    let mut peaks = record.peaks.iter();
    peaks.find(|row| row.case == "grid" && row.how == how)
}

fn measured(record: &Record) -> Field {
    field("measured here", |processes, batch| {
        let row = of_grid(record, processes, batch)?;
        Some((row.peak.rate_per_s, false))
    })
}

/// What is printed, and in pale what the paper's formula gives for the other cells that it
/// ran.
fn published() -> Field {
    let ran = super::grid::cells();
    field("Dacosta 2009", |processes, batch| {
        match paper::rate(processes, batch) {
            Some(rate) => Some((rate, false)),
            None if ran.contains(&(processes, batch)) => {
                Some((paper::formula(processes, batch), true))
            }
            None => None,
        }
    })
}

/// Both grids.
fn grids(record: &Record) -> Figure {
    let named = |numbers: &[u32]| numbers.iter().map(ToString::to_string).collect();
    Figure {
        title: "Authentications a second by processes and batches".to_owned(),
        description: "The highest rates here, and those of the paper beside them.".to_owned(),
        chart: Chart::Heat(Heat {
            unit: "authentications/s".to_owned(),
            columns_title: "users in a batch".to_owned(),
            columns: named(&batches()),
            rows_title: "processes that wait".to_owned(),
            rows: named(&paper::PROCESSES),
            fields: vec![measured(record), published()],
        }),
    }
}

/// The repeats of one setting in a line of a table.
#[derive(Clone, Debug, Serialize)]
struct Line {
    case: String,
    store: String,
    users: usize,
    name: String,
    repeats: usize,
    rate_per_s: f64,
    low: f64,
    high: f64,
    setup_p50_ms: f64,
    bytes_each: f64,
    wire_bytes_each: f64,
    packets_each: f64,
    cores: [f64; 4],
    bound: String,
}

fn lines(record: &Record, is_of_grid: bool) -> Vec<Line> {
    let mut groups: Vec<Vec<&PeakRow>> = Vec::new();
    for row in record
        .peaks
        .iter()
        .filter(|row| (row.case == "grid") == is_of_grid)
    {
        let is_same = |group: &&mut Vec<&PeakRow>| {
            group.first().is_some_and(|first| {
                (&first.case, &first.store, first.users, first.how)
                    == (&row.case, &row.store, row.users, row.how)
            })
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups.iter().filter_map(|group| line(group)).collect()
}

fn line(group: &[&PeakRow]) -> Option<Line> {
    let of =
        |figure: fn(&PeakRow) -> f64| Summary::of(group.iter().map(|row| figure(row)).collect());
    let rate = of(|row| row.peak.rate_per_s)?;
    // The one in the middle stands for what has no middle.
    let nearest = |a: &&&PeakRow, b: &&&PeakRow| {
        let off = |row: &PeakRow| (row.peak.rate_per_s - rate.median).abs();
        off(a).total_cmp(&off(b))
    };
    let typical = group.iter().min_by(nearest)?;
    Some(Line {
        case: typical.case.clone(),
        store: typical.store.clone(),
        users: typical.users,
        name: typical.name.clone(),
        repeats: group.len(),
        rate_per_s: rate.median,
        low: rate.low,
        high: rate.high,
        setup_p50_ms: of(|row| row.peak.setup_p50_ms)?.median,
        bytes_each: of(|row| row.peak.bytes_each)?.median,
        wire_bytes_each: of(|row| row.peak.wire_bytes_each)?.median,
        packets_each: of(|row| row.peak.packets_each)?.median,
        cores: typical.peak.cores,
        bound: typical.peak.bound.clone(),
    })
}

/// Makes the page of a file of results, beside it or in another folder.
pub(super) fn from_file(results: &Path, folder: &Path) -> Result<PathBuf, String> {
    let record = Record::read(results)?;
    let name = results.file_stem().unwrap_or(results.as_os_str());
    let page = folder.join(name).with_extension("html");
    write_text(&page, &draw(&record)?)?;
    Ok(page)
}

fn draw(record: &Record) -> Result<String, String> {
    let printed: Vec<_> = PRINTED
        .iter()
        .map(|p| {
            let ours = of_grid(record, p.processes, p.batch);
            serde_json::json!({
                "printed": p,
                "bytes_each": p.bytes_each(),
                "ours_per_s": ours.map(|row| row.peak.rate_per_s),
                "ours_bytes_each": ours.map(|row| row.peak.wire_bytes_each),
            })
        })
        .collect();
    let values = serde_json::json!({
        "record": record,
        "grids": grids(record).html(),
        "printed": printed,
        "peaks": lines(record, false),
        "cells": lines(record, true),
        "who": super::scene::WHO,
    });
    Pages::new(&[("auth.html", include_str!("auth.html"))])
        .and_then(|pages| pages.render("auth.html", values))
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aims::{Aims, Bar};
    use crate::auth::peak::Peak;
    use crate::auth::record::{
        CallersRow, CostRow, DelayRow, ModelRow, Outage, OutageRow, StepRow, TimingPair, TimingRow,
    };
    use crate::report::Circumstances;

    fn row(case: &str, how: How, repeat: usize, rate_per_s: f64) -> PeakRow {
        PeakRow {
            case: case.to_owned(),
            store: "MariaDB".to_owned(),
            users: 10_000,
            how,
            name: how.name(),
            repeat,
            peak: Peak {
                rate_per_s,
                wire_bytes_each: 123.4,
                cores: [0.4, 0.1, 0.7, 0.25],
                bound: "core 1: database 70%, load 25%".to_owned(),
                ..Peak::default()
            },
        }
    }

    fn blocking(processes: u32, batch: u32) -> How {
        How::Blocking { processes, batch }
    }

    fn peaks() -> Vec<PeakRow> {
        vec![
            row("grid", blocking(4, 1), 0, 131.0),
            row("grid", blocking(32, 16), 0, 7_900.0),
            row("grid", blocking(512, 1), 0, 4_100.0),
            row("tuner", How::Tuned, 0, 9_000.0),
            row("tuner", How::Tuned, 1, 9_400.0),
            row("tuner", How::Tuned, 2, 9_100.0),
        ]
    }

    fn delay() -> DelayRow {
        DelayRow {
            what: "at 100/s".to_owned(),
            rate_per_s: 100.0,
            base_p50_ms: 0.4,
            setup_p50_ms: 30.9,
            setup_p99_ms: 31.6,
            added_p50_ms: 30.5,
            added_p99_ms: 31.2,
            remarks: vec!["a <remark>".to_owned()],
        }
    }

    fn step() -> StepRow {
        StepRow {
            what: "round trip 100 ms".to_owned(),
            at_s: 30,
            steady_ms: 30.0,
            settled_s: None,
            p50_ms: vec![120.0, 101.0],
            succeeded: vec![90, 100],
            failed: 1,
        }
    }

    fn outage() -> Outage {
        Outage {
            callers: vec![CallersRow {
                who: "other <users>".to_owned(),
                rate_per_s: 300.0,
                served: 30_123,
                causes: [("status 503".to_owned(), 4_321)].into(),
                remarks: Vec::new(),
            }],
            times: vec![
                OutageRow {
                    killed_s: 8.0,
                    away_s: 4.125,
                    told_later: 87,
                    recovered_s: Some(0.234),
                },
                OutageRow {
                    killed_s: 18.0,
                    away_s: 4.0,
                    told_later: 0,
                    recovered_s: None,
                },
            ],
            figures: [("signet_lookups_breaks_total".to_owned(), 12.0)].into(),
        }
    }

    fn cost() -> CostRow {
        CostRow {
            server: "signet MariaDB".to_owned(),
            cpu_us_per_call: 55.5,
            low: 54.0,
            high: 57.0,
            repeats: 5,
            objections: vec!["it moved".to_owned()],
        }
    }

    fn prediction() -> ModelRow {
        ModelRow {
            what: "2 in flight".to_owned(),
            unit: "ms".to_owned(),
            predicted: 10.0,
            measured: 9.0,
            low: 8.5,
            high: 9.5,
            error: 0.111,
        }
    }

    fn timing() -> TimingRow {
        TimingRow {
            name: "a user <held>".to_owned(),
            requests: 20_000,
            refused: 19_999,
            quantiles_ms: [30.123, 31.0, 32.0],
            out_of_order: 0.0123,
        }
    }

    fn timing_pair() -> TimingPair {
        TimingPair {
            a: "a user <held>".to_owned(),
            b: "nobody".to_owned(),
            is_control: true,
            distance: 0.0077,
            p_distance: 0.5912,
            p_rank: 0.4,
            p_order: 1.0,
            superiority: 0.5012,
            differences_us: [[1.0, -4.0, 6.0]; 3],
        }
    }

    fn bar() -> Bar {
        Bar {
            case: "tuner".to_owned(),
            what: "of the best pair".to_owned(),
            value: Some(1.15),
            limit: 1.0,
            relation: "at least".to_owned(),
            verdict: "met".to_owned(),
            remarks: Vec::new(),
        }
    }

    fn record() -> Record {
        Record {
            format: "signet-bench-auth".to_owned(),
            version: 1,
            circumstances: Circumstances {
                command: "signet-bench <auth>".to_owned(),
                ..Circumstances::default()
            },
            cores: [("server".to_owned(), "0".to_owned())].into(),
            peaks: peaks(),
            delays: vec![delay()],
            steps: vec![step()],
            outage: Some(outage()),
            costs: vec![cost()],
            model: vec![prediction()],
            timing: vec![timing()],
            timing_pairs: vec![timing_pair()],
            aims: Aims {
                bars: vec![bar()],
                failures: Vec::new(),
            },
            ..Record::default()
        }
    }

    #[test]
    fn the_page_is_whole_needs_nothing_and_escapes_what_it_is_given() {
        let page = draw(&record()).unwrap();
        assert!(page.trim_end().ends_with("</html>"));
        assert!(page.contains("signet-bench &lt;auth&gt;"));
        assert!(page.contains("a &lt;remark&gt;"));
        for shown in [
            "7.9k",
            "12.1k",
            "9100",
            "1.15",
            "55.5",
            "31.20",
            "11.1",
            "core 1: database",
            "other &lt;users&gt;",
            "30123",
            "status 503: 4321",
            "234 ms",
            "not before the next kill",
            "signet_lookups_breaks_total 12",
            "a user &lt;held&gt;",
            "30.123",
            "0.5912",
            "50.12%",
            "1 (-4 to 6)",
            "(control)",
        ] {
            assert!(page.contains(shown), "{shown}");
        }
        // Both grids in one picture, for wide and for narrow pages.
        assert_eq!(page.matches("<svg").count(), 2);
        assert_eq!(page.matches(">measured here<").count(), 2);
        for outside in ["https://", "src=", "<script", "@import"] {
            assert!(!page.contains(outside), "the page needs {outside}");
        }
        assert!(page.contains("width=device-width"));
    }

    #[test]
    fn a_run_without_figures_makes_a_page_too() {
        assert!(draw(&Record::default()).unwrap().contains("</html>"));
    }

    #[test]
    fn the_pictures_have_a_square_for_each_that_was_run() {
        let ours = measured(&record());
        let places: Vec<(usize, usize)> = ours.cells.iter().map(|c| (c.column, c.row)).collect();
        assert_eq!(places, [(0, 2), (4, 5), (0, 9)]);
        assert!(grids(&record()).html().contains("7.9k"));
        let theirs = published();
        assert_eq!(theirs.cells.len(), 10 + 6 + 36);
        let printed = theirs.cells.iter().filter(|cell| !cell.is_computed);
        assert_eq!(printed.count(), PRINTED.len());
    }

    #[test]
    fn repeats_are_one_line_with_their_ends() {
        let lines = lines(&record(), false);
        assert_eq!(lines.len(), 1);
        assert_eq!(
            (lines[0].rate_per_s, lines[0].low, lines[0].high),
            (9_100.0, 9_000.0, 9_400.0)
        );
        assert_eq!(lines[0].repeats, 3);
    }

    #[test]
    fn a_file_is_read_back_and_another_form_is_refused() {
        let folder = std::env::temp_dir().join(format!("signet-auth-page-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("auth.json");
        record().write(&path).unwrap();
        let page = from_file(&path, &folder).unwrap();
        assert!(page.ends_with("auth.html"));
        let other = Record {
            version: 2,
            ..record()
        };
        other.write(&path).unwrap();
        assert!(
            from_file(&path, &folder)
                .unwrap_err()
                .contains("measure again")
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
