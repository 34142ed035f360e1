//! Two records of one experiment: which figures agree within their own intervals.
//!
//! The interval of a figure is 95% by what its repeats differ by in all cases of its record, as
//! for findings, and reaches as far as its own repeats do. Where too little was repeated for that it is
//! that of the mean of its own (Student's t), and allows no more than the experiment lets repeats be
//! apart (`spread_max`): the interval of two repeats is so wide that it would allow nearly anything. Two
//! figures agree where their medians are no further apart than both intervals allow together
//! (the root of the sum of the squares of their halves). Differences of 2% are none, nor are those
//! below the figure's resolution. A figure that one of the records has from a single repeat has no
//! interval, and is not judged.

use std::fmt::Write as _;
use std::path::Path;

use measure::statistics::{deviation, quantile, student_t_95};
use serde::Serialize;
use serde_json::{Value, json};

use crate::experiment::{Experiment, Interval, Load, Noise, SPREAD_MAX};
use crate::page::figures::{Kind, kind_of};
use crate::record::{CaseResult, Record, figure};

/// The share of figures that must agree: 19 of 20.
pub const AGREE_MIN: f64 = 0.95;
/// Differences below this share are none.
const RESOLUTION_SHARE: f64 = 0.02;

/// Two records, compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// Why they may differ whatever the servers do: another machine, other versions.
    pub warnings: Vec<String>,
    /// Figure by figure, in the order of the first record.
    pub rows: Vec<Row>,
    /// Figures further apart than this share do not agree, however wide the intervals of their
    /// own repeats are.
    pub apart_max: f64,
}

/// A figure of a case, a server and a load in both records.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// System, case and load.
    pub what: String,
    /// The figure, a name of [`figure`].
    pub figure: &'static str,
    /// In the first record.
    pub a: Mean,
    /// In the second.
    pub b: Mean,
    /// Whether they agree; `None` where one of them has no interval.
    pub agrees: Option<bool>,
}

/// A median and half of the 95% interval around it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Mean {
    /// Half of the repeats are below it.
    pub median: f64,
    /// `None` of a single repeat.
    pub half: Option<f64>,
    /// Whether the repeats of all cases say so.
    pub is_of_all: bool,
}

impl Mean {
    fn of(record: &Record, result: &CaseResult, figure: &str) -> Option<Self> {
        let counted = result
            .repeats
            .iter()
            .filter(|repeat| repeat.counts_for(figure));
        let of = counted.filter_map(|repeat| repeat.figures.get(figure).copied());
        let mut values: Vec<f64> = of.filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (first, last) = (values.len().checked_sub(1)? / 2, values.len() / 2);
        let median = f64::midpoint(*values.get(first)?, *values.get(last)?);
        let own = Interval {
            median,
            low: *values.first()?,
            high: *values.last()?,
            repeats: values.len(),
        };
        if own.repeats == 1 {
            return Some(Self {
                median,
                half: None,
                is_of_all: false,
            });
        }
        let noise = Noise::of(record.results.iter(), &result.load, figure);
        let half = match noise.map(|noise| noise.around(own)) {
            Some(around) => (around.high - median).max(median - around.low),
            None => {
                student_t_95(own.repeats - 1) * deviation(&values) / (own.repeats as f64).sqrt()
            }
        };
        Some(Self {
            median,
            half: Some(half),
            is_of_all: noise.is_some(),
        })
    }

    fn agrees(self, other: Self, kind: Kind, apart_max: f64) -> Option<bool> {
        let larger = self.median.abs().max(other.median.abs());
        let most = match self.is_of_all && other.is_of_all {
            true => f64::INFINITY,
            false => apart_max * larger,
        };
        let allowed = self.half?.hypot(other.half?).min(most);
        let nothing = (RESOLUTION_SHARE * larger).max(kind.resolution);
        Some((self.median - other.median).abs() <= allowed.max(nothing))
    }
}

/// Compares two records.
///
/// # Errors
/// Where they are of different experiments, which have no figure in common.
pub fn compare(a: &Record, b: &Record) -> Result<Comparison, String> {
    if a.experiment != b.experiment {
        return Err(format!(
            "one is a record of {}, the other of {}: give two records of the same experiment",
            a.experiment, b.experiment
        ));
    }
    let apart_max = spread_max(a).min(spread_max(b));
    let mut comparison = Comparison {
        warnings: warnings(a, b),
        rows: Vec::new(),
        apart_max,
    };
    for first in &a.results {
        let is_same = |other: &&CaseResult| {
            other.case.id == first.case.id
                && other.case.setting == first.case.setting
                && other.system == first.system
                && is_same_load(&other.load, &first.load)
        };
        let Some(second) = b.results.iter().find(is_same) else {
            continue;
        };
        for kind in figure::ALL.iter().filter_map(|name| kind_of(name)) {
            let both = (
                Mean::of(a, first, kind.name),
                Mean::of(b, second, kind.name),
            );
            let (Some(a), Some(b)) = both else { continue };
            comparison.rows.push(Row {
                what: format!("{} {} {}", first.system, first.case.id, load(&first.load)),
                figure: kind.name,
                a,
                b,
                agrees: a.agrees(b, kind, apart_max),
            });
        }
    }
    Ok(comparison)
}

/// What the experiment of a record allows.
fn spread_max(record: &Record) -> f64 {
    let experiment = Experiment::from_text(Path::new("experiment_toml"), &record.experiment_toml);
    experiment.map_or(SPREAD_MAX, |experiment| experiment.spread_max)
}

/// A search may begin elsewhere and find the same.
fn is_same_load(a: &Load, b: &Load) -> bool {
    match (a, b) {
        (
            Load::Peak {
                failures_max: a, ..
            },
            Load::Peak {
                failures_max: b, ..
            },
        ) => a == b,
        (Load::Rate { per_s: a, .. }, Load::Rate { per_s: b, .. }) => a == b,
        (Load::Peak { .. }, Load::Rate { .. }) | (Load::Rate { .. }, Load::Peak { .. }) => false,
    }
}

fn load(load: &Load) -> String {
    match load {
        Load::Peak { .. } => "peak".to_owned(),
        Load::Rate { per_s, .. } => format!("{per_s}/s"),
    }
}

fn warnings(a: &Record, b: &Record) -> Vec<String> {
    let mut warnings = Vec::new();
    for (name, record) in [("the first", a), ("the second", b)] {
        if record.ended_unix_s.is_none() {
            warnings.push(format!("{name} has not ended"));
        }
    }
    if a.experiment_toml != b.experiment_toml {
        warnings.push(
            "the experiment's file was another: cases whose setting is not the same are left out"
                .to_owned(),
        );
    }
    if a.machine != b.machine {
        warnings.push(format!(
            "the machines differ: {}, {} cores, Linux {}, {}, idle cores {}; and {}, {} cores, Linux {}, {}, idle cores {}",
            a.machine.cpu_model,
            a.machine.cores,
            a.machine.kernel,
            a.machine.network,
            a.machine.idle,
            b.machine.cpu_model,
            b.machine.cores,
            b.machine.kernel,
            b.machine.network,
            b.machine.idle
        ));
    }
    if a.versions != b.versions {
        warnings.push("the programs are of different versions".to_owned());
    }
    if a.form != b.form {
        warnings.push(format!(
            "one is the {} form, the other the {}",
            a.form, b.form
        ));
    }
    warnings
}

impl Comparison {
    /// How many figures agree, and how many were judged.
    pub fn agreeing(&self) -> (usize, usize) {
        let judged = || self.rows.iter().filter_map(|row| row.agrees);
        (judged().filter(|agrees| *agrees).count(), judged().count())
    }

    /// How many of the figures that were judged are no further apart than `apart_max`, whatever
    /// their intervals are: a noisy run agrees with much.
    pub fn close(&self) -> usize {
        let judged = self.rows.iter().filter(|row| row.agrees.is_some());
        let is_close = |row: &&Row| {
            let (a, b) = (row.a.median, row.b.median);
            (a - b).abs() <= self.apart_max * a.abs().max(b.abs())
        };
        judged.filter(is_close).count()
    }

    /// The median of the halves of all intervals that judge, as a share of their figures: how
    /// little a comparison of these records can tell apart. `None` where none was judged.
    pub fn half_median_share(&self) -> Option<f64> {
        let judged = self.rows.iter().filter(|row| row.agrees.is_some());
        let mut halves: Vec<f64> = judged
            .flat_map(|row| [row.a, row.b])
            .filter_map(|mean| Some(mean.half? / mean.median.abs()))
            .filter(|share| share.is_finite())
            .collect();
        halves.sort_by(f64::total_cmp);
        (!halves.is_empty()).then(|| quantile(&halves, 0.5))
    }

    /// Whether 19 of 20 agree; not where none could be judged.
    pub fn holds(&self) -> bool {
        let (agreeing, judged) = self.agreeing();
        judged > 0 && agreeing as f64 >= AGREE_MIN * judged as f64
    }

    /// As JSON: every figure that both records have, `"format": "signet-bed-comparison"`,
    /// `"version": 1`.
    pub fn json(&self) -> Value {
        let (agreeing, judged) = self.agreeing();
        json!({
            "format": "signet-bed-comparison",
            "version": 1,
            "holds": self.holds(),
            "agreeing": agreeing,
            "judged": judged,
            "close": self.close(),
            "not_judged": self.rows.len() - judged,
            "half_median_share": self.half_median_share(),
            "apart_max_share": self.apart_max,
            "agree_min_share": AGREE_MIN,
            "warnings": self.warnings,
            "rows": self.rows,
        })
    }

    /// As text: what differs, then how much agrees. `all` names what agrees too.
    pub fn table(&self, all: bool) -> String {
        let mut text = String::new();
        for warning in &self.warnings {
            let _ = writeln!(text, "! {warning}");
        }
        let is_shown = |row: &&Row| all || row.agrees == Some(false);
        for row in self.rows.iter().filter(is_shown) {
            let Some(kind) = kind_of(row.figure) else {
                continue;
            };
            let verdict = match row.agrees {
                Some(true) => "agrees",
                Some(false) => "DIFFERS",
                None => "measured once",
            };
            let _ = writeln!(
                text,
                "{:<14}{} {}: {} and {}",
                verdict,
                row.what,
                kind.title,
                row.a.told(kind),
                row.b.told(kind)
            );
        }
        let (agreeing, judged) = self.agreeing();
        let _ = match judged {
            0 => writeln!(text, "No figure could be judged."),
            _ => writeln!(
                text,
                "{agreeing} of {judged} figures agree within their own intervals, {:.1}%; {:.0}% must.",
                agreeing as f64 * 100.0 / judged as f64,
                AGREE_MIN * 100.0
            ),
        };
        if let Some(half) = self.half_median_share() {
            let _ = writeln!(
                text,
                "Half of the intervals reach {:.1}% or further around their figure; where they are of \
                 a figure's own repeats alone, what differs by more than {:.0}% is held to differ, \
                 however wide they are.",
                half * 100.0,
                self.apart_max * 100.0
            );
        }
        if judged > 0 {
            let _ = writeln!(
                text,
                "{} of them are no more than {:.0}% apart, whatever their intervals are.",
                self.close(),
                self.apart_max * 100.0
            );
        }
        let alone = self.rows.len() - judged;
        if alone > 0 {
            let _ = writeln!(
                text,
                "{alone} more were measured once, have no interval, and were not judged."
            );
        }
        text
    }
}

impl Mean {
    fn told(self, kind: Kind) -> String {
        match self.half {
            Some(half) => format!("{} +- {}", kind.told(self.median), kind.bare(half)),
            None => kind.told(self.median),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Case, Setting};
    use crate::record::Repeat;

    fn record(values: &[f64]) -> Record {
        let repeat = |value: &f64| Repeat {
            figures: [(figure::SERVER_CPU_US.to_owned(), *value)].into(),
            ..Repeat::default()
        };
        Record {
            experiment: "shen-2010".to_owned(),
            ended_unix_s: Some(1),
            results: vec![CaseResult {
                case: Case {
                    id: "udp".to_owned(),
                    labels: [].into(),
                    setting: Setting::default(),
                    loads: Vec::new(),
                    below: Vec::new(),
                },
                system: "signet".to_owned(),
                load: Load::Rate {
                    per_s: 1_000.0,
                    profile: false,
                    for_check: false,
                },
                repeats: values.iter().map(repeat).collect(),
                missed: None,
            }],
            ..Record::default()
        }
    }

    fn agrees(a: &[f64], b: &[f64]) -> Option<bool> {
        compare(&record(a), &record(b)).unwrap().rows[0].agrees
    }

    #[test]
    fn figures_agree_within_their_intervals() {
        assert_eq!(agrees(&[47.0, 50.0, 53.0], &[52.0, 55.0, 58.0]), Some(true));
        assert_eq!(
            agrees(&[49.9, 50.0, 50.1], &[60.0, 60.1, 60.2]),
            Some(false)
        );
        // Repeats that happen to be alike make no difference of half a percent.
        assert_eq!(agrees(&[50.0, 50.0, 50.0], &[50.3, 50.3, 50.3]), Some(true));
        assert_eq!(agrees(&[50.0], &[90.0, 91.0]), None);
    }

    #[test]
    fn an_interval_of_two_repeats_allows_no_more_than_the_experiment() {
        // Student's t of two repeats is 12.7: by their intervals these could be alike.
        assert_eq!(agrees(&[48.0, 52.0], &[68.0, 72.0]), Some(false));
        assert_eq!(agrees(&[48.0, 52.0], &[54.0, 58.0]), Some(true));
        let comparison = compare(&record(&[48.0, 52.0]), &record(&[54.0, 58.0])).unwrap();
        let half = comparison.half_median_share().unwrap();
        assert!(half > 0.4 && half < 0.6, "{half}");
        let table = comparison.table(false);
        assert!(table.contains("more than 15% is held to differ"), "{table}");
        let once = compare(&record(&[50.0]), &record(&[50.0])).unwrap();
        assert!(once.table(false).contains("1 more were measured once"));
        assert_eq!(once.half_median_share(), None);
    }

    #[test]
    fn repeats_of_all_cases_say_how_far_figures_may_be_apart() {
        let of = |apart: f64, more: f64| {
            let mut record = record(&[]);
            let like = record.results.remove(0);
            for nth in 1..=8_u32 {
                let middle = f64::from(nth) * 100.0 * more;
                let values = [middle / apart, middle * apart];
                let mut result = self::record(&values).results.remove(0);
                result.case.id = format!("{nth}");
                result.load = like.load.clone();
                record.results.push(result);
            }
            record
        };
        // Repeats that differ by a fifth allow a fifth, and no half.
        let (steady, noisy) = (of(1.005, 1.0), of(1.1, 1.0));
        let fifth = compare(&noisy, &of(1.1, 1.18)).unwrap();
        assert_eq!((fifth.agreeing(), fifth.close()), ((8, 8), 0));
        assert_eq!(compare(&noisy, &of(1.1, 1.5)).unwrap().agreeing(), (0, 8));
        assert_eq!(
            compare(&steady, &of(1.005, 1.05)).unwrap().agreeing(),
            (0, 8)
        );
        assert_eq!(compare(&steady, &noisy).unwrap().agreeing(), (8, 8));
    }

    #[test]
    fn a_repeat_that_doubts_itself_is_left_out() {
        let mut doubted = record(&[50.0, 50.1, 500.0]);
        doubted.results[0].repeats[2].doubts.push("late".to_owned());
        let comparison = compare(&record(&[50.0, 50.1]), &doubted).unwrap();
        assert_eq!(comparison.agreeing(), (1, 1));
        assert!(comparison.holds());
    }

    #[test]
    fn what_differs_is_named_and_what_cannot_be_compared_refused() {
        let comparison = compare(&record(&[49.9, 50.0]), &record(&[80.0, 80.1])).unwrap();
        assert!(!comparison.holds());
        let table = comparison.table(false);
        assert!(
            table.contains(
                "DIFFERS       signet udp 1000/s CPU time of the server for each: 50.0 µs"
            ),
            "{table}"
        );
        assert!(table.contains("0 of 1 figures agree"), "{table}");
        let other = Record {
            experiment: "kulin-2012".to_owned(),
            ..record(&[1.0])
        };
        assert!(
            compare(&record(&[1.0]), &other)
                .unwrap_err()
                .contains("kulin-2012")
        );
        let none = compare(&record(&[]), &record(&[])).unwrap();
        assert!(!none.holds() && none.table(true).contains("No figure"));
    }

    #[test]
    fn other_machines_and_versions_are_told() {
        let mut other = record(&[50.0]);
        other.machine.cores = 8;
        other
            .versions
            .insert("kamailio".to_owned(), "5.8".to_owned());
        other.ended_unix_s = None;
        other.form = "long".to_owned();
        assert_eq!(compare(&record(&[50.0]), &other).unwrap().warnings.len(), 4);
    }
}
