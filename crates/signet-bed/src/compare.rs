//! Two records of one experiment: which figures agree within their own intervals.
//!
//! The interval of a figure is 95% by what its repeats differ by in all cases of its record, as
//! for findings, and reaches as far as its own repeats do. Where too little was repeated for that it is
//! that of the mean of its own (Student's t), and allows no more than the experiment lets repeats be
//! apart (`spread_max`): the interval of two repeats is so wide that it would allow nearly anything. Two
//! figures agree where their medians are no further apart than both intervals allow together
//! (the root of the sum of the squares of their halves). Differences of 2% are none, nor are those
//! below the figure's resolution. A figure that one of the records has from a single repeat has no
//! interval, and is not judged. One that only one of them has, though both were asked for it, is
//! lost, and no more than 1 in 20 may be. What only one was asked for is counted and not judged.

use std::fmt::Write as _;
use std::path::Path;

use measure::statistics::{deviation, quantile, student_t_95};
use serde::Serialize;
use serde_json::{Value, json};

use crate::experiment::{Experiment, Interval, Load, Noise, SPREAD_MAX, counted};
use crate::page::figures::{Kind, kind_of};
use crate::record::{CaseResult, Machine, Record, figure};

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
    /// Figures of one record that the other was not asked for: their case, server or load is not in
    /// it or has another setting there, or it measures no such figure at all.
    pub not_asked: usize,
    /// Figures further apart than this share do not agree, however wide the intervals of their
    /// own repeats are.
    pub apart_max: f64,
}

/// A figure of a case, a server and a load that both records were asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// System, case and load.
    pub what: String,
    /// The figure, a name of [`figure`].
    pub figure: &'static str,
    /// In the first record; `None` where it has none that counts.
    pub a: Option<Measured>,
    /// In the second.
    pub b: Option<Measured>,
    /// Whether they agree; `None` where one of them is not there or has no interval.
    pub agrees: Option<bool>,
}

impl Row {
    /// Whether only one of the records has it.
    fn is_lost(&self) -> bool {
        self.a.is_none() || self.b.is_none()
    }
}

/// A median and half of the 95% interval around it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Half of the repeats are below it.
    pub median: f64,
    /// `None` of a single repeat.
    pub half: Option<f64>,
    /// Whether the interval is made of the repeats of all cases, and not of its own alone.
    pub is_of_all: bool,
}

impl Measured {
    fn of(record: &Record, result: &CaseResult, figure: &str) -> Option<Self> {
        let of = counted(result, figure).filter_map(|repeat| repeat.figures.get(figure).copied());
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
        not_asked: not_asked(b, a),
        apart_max,
    };
    // What one of them measures nowhere it was not asked for.
    let has = |record: &Record, name: &str| {
        let mut repeats = record.results.iter().flat_map(|result| &result.repeats);
        repeats.any(|repeat| repeat.figures.contains_key(name))
    };
    let kinds = || figure::ALL.iter().filter_map(|name| kind_of(name));
    comparison.not_asked += not_asked(a, b);
    for first in &a.results {
        let Some(second) = place_of(first, b) else {
            continue;
        };
        for kind in kinds() {
            let both = (
                Measured::of(a, first, kind.name),
                Measured::of(b, second, kind.name),
            );
            let agrees = match both {
                (Some(a), Some(b)) => a.agrees(b, kind, apart_max),
                (None, None) => continue,
                (Some(_), None) | (None, Some(_)) if has(a, kind.name) && has(b, kind.name) => None,
                (Some(_), None) | (None, Some(_)) => {
                    comparison.not_asked += 1;
                    continue;
                }
            };
            comparison.rows.push(Row {
                what: format!("{} {} {}", first.system, first.case.id, load(&first.load)),
                figure: kind.name,
                a: both.0,
                b: both.1,
                agrees,
            });
        }
    }
    Ok(comparison)
}

/// The place that a record has for a result of another.
fn place_of<'a>(result: &CaseResult, record: &'a Record) -> Option<&'a CaseResult> {
    record.results.iter().find(|other| {
        other.case.id == result.case.id
            && other.case.setting == result.case.setting
            && other.system == result.system
            && is_same_load(&other.load, &result.load)
    })
}

/// How many figures a record has of results for which another has no place.
fn not_asked(record: &Record, other: &Record) -> usize {
    let alone = record
        .results
        .iter()
        .filter(|result| place_of(result, other).is_none());
    let figures = alone.map(|result| {
        let names = figure::ALL.iter();
        names
            .filter(|name| Measured::of(record, result, name).is_some())
            .count()
    });
    figures.sum()
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
    let machine = |record: &Record| Machine {
        has_shares: None,
        ..record.machine.clone()
    };
    if machine(a) != machine(b) {
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
    let shares = [a, b].map(|record| record.machine.has_shares == Some(true));
    if shares[0] != shares[1] {
        warnings.push(
            "servers were held to a share of their core in one of the two alone: their peaks cannot \
             be compared"
                .to_owned(),
        );
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
            row.a.zip(row.b).is_some_and(|(a, b)| {
                let (a, b) = (a.median, b.median);
                (a - b).abs() <= self.apart_max * a.abs().max(b.abs())
            })
        };
        judged.filter(is_close).count()
    }

    /// The median of the halves of all intervals that judge, as a share of their figures: how
    /// little a comparison of these records can tell apart. `None` where none was judged.
    pub fn half_median_share(&self) -> Option<f64> {
        let judged = self.rows.iter().filter(|row| row.agrees.is_some());
        let mut halves: Vec<f64> = judged
            .flat_map(|row| row.a.into_iter().chain(row.b))
            .filter_map(|figure| Some(figure.half? / figure.median.abs()))
            .filter(|share| share.is_finite())
            .collect();
        halves.sort_by(f64::total_cmp);
        (!halves.is_empty()).then(|| quantile(&halves, 0.5))
    }

    /// How many figures only one of the records has, though both were asked for them.
    pub fn lost(&self) -> usize {
        self.rows.iter().filter(|row| row.is_lost()).count()
    }

    /// Whether 19 of 20 agree, and no more than 1 in 20 is lost; not where none could be judged.
    pub fn holds(&self) -> bool {
        let (agreeing, judged) = self.agreeing();
        let kept = self.rows.len() - self.lost();
        judged > 0
            && agreeing as f64 >= AGREE_MIN * judged as f64
            && kept as f64 >= AGREE_MIN * self.rows.len() as f64
    }

    /// As JSON: every figure that both records were asked for, `null` on the side that has none,
    /// `"format": "signet-bed-comparison"`, `"version": 1`.
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
            "lost": self.lost(),
            "not_asked": self.not_asked,
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
        self.write_rows(&mut text, all);
        self.write_agreement(&mut text);
        text
    }

    /// What differs or is lost, a line for each figure; with `all` what agrees too.
    fn write_rows(&self, text: &mut String, all: bool) {
        let is_shown = |row: &&Row| all || row.agrees == Some(false) || row.is_lost();
        for row in self.rows.iter().filter(is_shown) {
            let Some(kind) = kind_of(row.figure) else {
                continue;
            };
            let verdict = match row.agrees {
                Some(true) => "agrees",
                Some(false) => "DIFFERS",
                None if row.is_lost() => "LOST",
                None => "measured once",
            };
            let told = |figure: Option<Measured>| {
                figure.map_or_else(|| "none".to_owned(), |figure| figure.told(kind))
            };
            let _ = writeln!(
                text,
                "{:<14}{} {}: {} and {}",
                verdict,
                row.what,
                kind.title,
                told(row.a),
                told(row.b)
            );
        }
    }

    /// How many figures agree, how many are lost, and how many were not judged.
    fn write_agreement(&self, text: &mut String) {
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
        let lost = self.lost();
        if lost > 0 {
            let _ = writeln!(
                text,
                "{lost} more count in one of the records alone, {:.1}% of all; no more than {:.0}% may.",
                lost as f64 * 100.0 / self.rows.len() as f64,
                (1.0 - AGREE_MIN) * 100.0
            );
        }
        let alone = self.rows.len() - judged - lost;
        if alone > 0 {
            let _ = writeln!(
                text,
                "{alone} more were measured once, have no interval, and were not judged."
            );
        }
        if self.not_asked > 0 {
            let _ = writeln!(
                text,
                "{} more are of what only one of the records was asked for, and were not judged.",
                self.not_asked
            );
        }
    }
}

impl Measured {
    fn told(self, kind: Kind) -> String {
        match self.half {
            Some(half) => format!("{} +- {}", kind.told(self.median), kind.bare(half)),
            None => kind.told(self.median),
        }
    }
}

#[cfg(test)]
mod tests;
