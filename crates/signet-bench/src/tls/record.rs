//! Raw figures, bars with their verdicts, and the file that they go to.

use std::path::Path;

use measure::file::write_json;
use serde::Serialize;

use super::servers::Server;
use crate::aims::{Aims, Relation};
use crate::report::Circumstances;
use crate::rule::Summary;
use crate::told::Told;

/// One figure of one server in one repeat.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figure {
    /// The case's name.
    pub(super) case: String,
    /// `floor`, `kamailio`, `signet`, `before`, or `raw` for the loop without a server.
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

#[derive(Serialize)]
struct Median {
    case: String,
    server: &'static str,
    what: &'static str,
    value: f64,
    repeats: usize,
}

#[derive(Serialize)]
struct File<'a> {
    format: &'static str,
    version: u32,
    #[serde(flatten)]
    circumstances: Circumstances,
    #[serde(flatten)]
    aims: &'a Aims,
    medians: Vec<Median>,
    figures: &'a [Figure],
}

/// Everything of a run.
pub(super) struct Record {
    is_quick: bool,
    figures: Vec<Figure>,
    pub(super) aims: Aims,
}

impl Record {
    pub(super) fn new(is_quick: bool) -> Self {
        Self {
            is_quick,
            figures: Vec::new(),
            aims: Aims::default(),
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
        held: (Relation, f64),
        rests_on: &[&str],
    ) {
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
        self.aims
            .bar(self.is_quick, (case, what), value, held, remarks);
    }

    /// The middle of all repeats.
    pub(super) fn median(&self, case: &str, server: &str, what: &str) -> Option<f64> {
        self.summary(case, server, what).map(|values| values.median)
    }

    fn summary(&self, case: &str, server: &str, what: &str) -> Option<Summary> {
        let is_of_it = |f: &&Figure| f.case == case && f.server == server && f.what == what;
        let values = self.figures.iter().filter(is_of_it).map(|f| f.value);
        Summary::of(values.collect())
    }

    /// Prints what this build took of what the build before took, for each figure that both
    /// have: the ratio of medians, and the lowest and the highest of single repeats.
    pub(super) fn print_before(&self) {
        let name = Server::Before.name();
        for median in self.medians() {
            let (case, what) = (median.case.as_str(), median.what);
            if median.server != name || median.value == 0.0 {
                continue;
            }
            let Some(now) = self.summary(case, Server::Signet.name(), what) else {
                continue;
            };
            let Some(before) = self.summary(case, name, what) else {
                unreachable!("a median is of figures")
            };
            eprintln!(
                "{case}: {what} {:.1} ({:.1} to {:.1}), before {:.1} ({:.1} to {:.1}), {:.2} of it",
                now.median,
                now.low,
                now.high,
                before.median,
                before.low,
                before.high,
                now.median / before.median
            );
        }
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
        let programs: [(_, _, &[&str]); 2] = [
            ("kamailio", "kamailio", &["-v"]),
            ("openssl", "openssl", &["version"]),
        ];
        let file = File {
            format: "signet-bench-tls",
            version: 2,
            circumstances: Circumstances::now(self.is_quick, &programs),
            aims: &self.aims,
            medians: self.medians(),
            figures: &self.figures,
        };
        write_json(path, &file)
    }
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
        let remarks: Vec<usize> = record
            .aims
            .bars
            .iter()
            .map(|bar| bar.remarks.len())
            .collect();
        assert_eq!(remarks, [1, 0]);
    }
}
