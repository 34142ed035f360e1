//! Raw figures, bars with their verdicts, and the file that they go to.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::load::Told;
use crate::report::{first_line, machine};

/// One figure of one server in one repeat.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figure {
    /// The case's name.
    pub(super) case: String,
    /// `floor`, `kamailio`, `signet`, or `raw` for the loop without a server.
    pub(super) server: &'static str,
    /// What was measured, with its unit at the end.
    pub(super) what: &'static str,
    pub(super) value: f64,
    /// Which repeat, from 0.
    pub(super) repeat: usize,
    /// What the load of this figure told of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) load: Option<Told>,
}

/// An aim, and whether it was reached.
#[derive(Clone, Debug, Serialize)]
struct Bar {
    case: String,
    /// What is held against the limit.
    what: String,
    /// `None` where it was not measured.
    value: Option<f64>,
    limit: f64,
    /// `at most`, `less than`, or `at least`.
    relation: &'static str,
    /// `met`, `missed`, `not measured`, or `no verdict` where it was to be quick.
    verdict: &'static str,
    /// What speaks against the figure: failed calls, doubts of the generator.
    remarks: Vec<String>,
}

/// How a value stands to its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    AtMost,
    LessThan,
    AtLeast,
}

#[derive(Serialize)]
struct Median {
    case: String,
    server: &'static str,
    what: &'static str,
    value: f64,
    repeats: usize,
}

#[derive(Serialize)]
struct Failure {
    case: String,
    error: String,
}

#[derive(Serialize)]
struct File<'a> {
    format: &'static str,
    version: u32,
    command: String,
    /// Whether it only shows that all works.
    quick: bool,
    date_unix_s: u64,
    host: Host,
    versions: BTreeMap<&'static str, String>,
    bars: &'a [Bar],
    failures: &'a [Failure],
    medians: Vec<Median>,
    figures: &'a [Figure],
}

#[derive(Serialize)]
struct Host {
    machine: String,
    kernel: String,
}

/// Everything of a run.
pub(super) struct Record {
    is_quick: bool,
    figures: Vec<Figure>,
    bars: Vec<Bar>,
    failures: Vec<Failure>,
}

impl Record {
    pub(super) const fn new(is_quick: bool) -> Self {
        Self {
            is_quick,
            figures: Vec::new(),
            bars: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// Takes in a figure, and prints it.
    pub(super) fn add(&mut self, figure: Figure) {
        let remarks = figure.load.as_ref().map(Told::remarks).unwrap_or_default();
        eprintln!(
            "{} {}: {} {:.1}{}{}",
            figure.case,
            figure.server,
            figure.what,
            figure.value,
            if remarks.is_empty() { "" } else { "; " },
            remarks.join("; ")
        );
        self.figures.push(figure);
    }

    /// Holds a value against its limit. What speaks against the figures of
    /// these cases is noted beside it.
    pub(super) fn bar(
        &mut self,
        (case, what): (&str, &str),
        value: Option<f64>,
        (relation, limit): (Relation, f64),
        rests_on: &[&str],
    ) {
        let (word, holds): (_, fn(f64, f64) -> bool) = match relation {
            Relation::AtMost => ("at most", |value, limit| value <= limit),
            Relation::LessThan => ("less than", |value, limit| value < limit),
            Relation::AtLeast => ("at least", |value, limit| value >= limit),
        };
        let verdict = match value {
            None => "not measured",
            // A bar is for whole sizes: few phones say nothing of many.
            Some(_) if self.is_quick => "no verdict",
            // A figure that is no number meets nothing.
            Some(value) if holds(value, limit) => "met",
            Some(_) => "missed",
        };
        let remarks = self
            .figures
            .iter()
            .filter(|figure| rests_on.contains(&figure.case.as_str()))
            .filter_map(|figure| {
                let remarks = figure.load.as_ref()?.remarks();
                (!remarks.is_empty()).then(|| {
                    format!(
                        "{} {} repeat {}: {}",
                        figure.case,
                        figure.server,
                        figure.repeat,
                        remarks.join("; ")
                    )
                })
            })
            .collect();
        self.bars.push(Bar {
            case: case.to_owned(),
            what: what.to_owned(),
            value,
            limit,
            relation: word,
            verdict,
            remarks,
        });
    }

    /// A case was not measured to its end.
    pub(super) fn fail(&mut self, case: &str, error: &str) {
        self.failures.push(Failure {
            case: case.to_owned(),
            error: error.to_owned(),
        });
    }

    /// The middle of all repeats.
    pub(super) fn median(&self, case: &str, server: &str, what: &str) -> Option<f64> {
        let values: Vec<f64> = self
            .figures
            .iter()
            .filter(|f| f.case == case && f.server == server && f.what == what)
            .map(|f| f.value)
            .collect();
        median(values)
    }

    fn medians(&self) -> Vec<Median> {
        let mut medians: Vec<Median> = Vec::new();
        for figure in &self.figures {
            let known = medians.iter_mut().find(|m| {
                (m.case.as_str(), m.server, m.what)
                    == (figure.case.as_str(), figure.server, figure.what)
            });
            if let Some(known) = known {
                known.repeats += 1;
                continue;
            }
            medians.push(Median {
                case: figure.case.clone(),
                server: figure.server,
                what: figure.what,
                value: self
                    .median(&figure.case, figure.server, figure.what)
                    .unwrap_or_default(),
                repeats: 1,
            });
        }
        medians
    }

    /// Writes all of it.
    pub(super) fn write(&self, path: &Path) -> Result<(), String> {
        let command: Vec<String> = std::env::args().collect();
        let file = File {
            format: "signet-bench-tls",
            version: 1,
            command: command.join(" "),
            quick: self.is_quick,
            date_unix_s: std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |d| d.as_secs()),
            host: Host {
                machine: machine(),
                kernel: first_line("uname", &["-r"]),
            },
            versions: BTreeMap::from([
                (
                    "signet",
                    first_line("git", &["describe", "--always", "--dirty"]),
                ),
                ("rustc", first_line("rustc", &["--version"])),
                ("kamailio", first_line("kamailio", &["-v"])),
                ("openssl", first_line("openssl", &["version"])),
            ]),
            bars: &self.bars,
            failures: &self.failures,
            medians: self.medians(),
            figures: &self.figures,
        };
        let text = serde_json::to_string_pretty(&file).map_err(|e| e.to_string())?;
        std::fs::write(path, text + "\n").map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Prints the bars.
    pub(super) fn print(&self) {
        eprintln!();
        for bar in &self.bars {
            let value = bar
                .value
                .map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
            eprintln!(
                "{:<13} {}: {}: {value} ({} {:.2}){}",
                bar.verdict,
                bar.case,
                bar.what,
                bar.relation,
                bar.limit,
                if bar.remarks.is_empty() {
                    ""
                } else {
                    ", with remarks"
                }
            );
        }
        for failure in &self.failures {
            eprintln!("{:<13} {}: {}", "failed", failure.case, failure.error);
        }
    }
}

/// The middle one.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    values
        .get(values.len() / 2 - 1)
        .map(|lower| f64::midpoint(*lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(value: f64, load: Option<Told>) -> Figure {
        Figure {
            case: "c".to_owned(),
            server: "signet",
            what: "us",
            value,
            repeat: 0,
            load,
        }
    }

    #[test]
    fn the_middle_is_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
    }

    #[test]
    fn a_quick_run_has_no_verdict() {
        let mut record = Record::new(true);
        for value in [Some(0.0), Some(2.0), None] {
            record.bar(("c", "w"), value, (Relation::AtMost, 1.0), &[]);
        }
        let verdicts: Vec<&str> = record.bars.iter().map(|bar| bar.verdict).collect();
        assert_eq!(verdicts, ["no verdict", "no verdict", "not measured"]);
    }

    #[test]
    fn a_bar_is_met_missed_or_not_measured() {
        let mut record = Record::new(false);
        for (value, limit) in [
            (Some(1.0), (Relation::AtMost, 1.0)),
            (Some(1.0), (Relation::LessThan, 1.0)),
            (Some(1.0), (Relation::AtLeast, 1.0)),
            (Some(f64::NAN), (Relation::AtMost, 1.0)),
            (None, (Relation::AtMost, 1.0)),
        ] {
            record.bar(("c", "w"), value, limit, &[]);
        }
        let verdicts: Vec<&str> = record.bars.iter().map(|bar| bar.verdict).collect();
        assert_eq!(verdicts, ["met", "missed", "met", "missed", "not measured"]);
    }

    #[test]
    fn what_speaks_against_a_figure_stands_beside_the_bar() {
        let mut record = Record::new(true);
        let told = Told {
            failed: 2,
            ..Told::default()
        };
        record.add(figure(1.0, Some(told)));
        record.add(figure(3.0, None));
        assert_eq!(record.median("c", "signet", "us"), Some(2.0));
        record.bar(("c", "w"), Some(0.0), (Relation::AtMost, 1.0), &["c"]);
        record.bar(("c", "w"), Some(0.0), (Relation::AtMost, 1.0), &["other"]);
        let remarks: Vec<usize> = record.bars.iter().map(|bar| bar.remarks.len()).collect();
        assert_eq!(remarks, [1, 0]);
    }
}
