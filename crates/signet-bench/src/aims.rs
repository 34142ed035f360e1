//! Aims: figures that are held against a limit, and cases that were not measured to their end.

use serde::{Deserialize, Serialize};

use crate::rule::Summary;

/// An aim, and whether it was reached.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Bar {
    pub(crate) case: String,
    /// What is held against the limit.
    pub(crate) what: String,
    /// `None` where it was not measured.
    pub(crate) value: Option<f64>,
    pub(crate) limit: f64,
    /// `at most`, `less than` or `at least`.
    pub(crate) relation: String,
    /// `met`, `missed`, `not decided` where repeats disagree on that, `not measured`, or `no
    /// verdict` where it was to be quick.
    pub(crate) verdict: String,
    /// What speaks against the figure: failed calls, doubts of the generator.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) remarks: Vec<String>,
}

/// How a value stands to its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    AtMost,
    LessThan,
    AtLeast,
}

impl Relation {
    fn word(self) -> &'static str {
        match self {
            Self::AtMost => "at most",
            Self::LessThan => "less than",
            Self::AtLeast => "at least",
        }
    }

    /// A figure that is no number meets nothing.
    fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::AtMost => value <= limit,
            Self::LessThan => value < limit,
            Self::AtLeast => value >= limit,
        }
    }
}

/// The share of the repeats that must be on the same side of a limit as their middle.
const AGREEING: f64 = 0.8;

/// A case that was not measured to its end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) case: String,
    pub(crate) error: String,
}

/// The aims of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Aims {
    pub(crate) bars: Vec<Bar>,
    pub(crate) failures: Vec<Failure>,
}

impl Aims {
    /// Holds a value of a case against its limit. A run that is to be quick has no verdict:
    /// few calls say nothing of many.
    pub(crate) fn bar(
        &mut self,
        is_quick: bool,
        (case, what): (&str, &str),
        value: Option<f64>,
        (relation, limit): (Relation, f64),
        remarks: Vec<String>,
    ) {
        let verdict = match value {
            None => "not measured",
            Some(_) if is_quick => "no verdict",
            Some(value) if relation.holds(value, limit) => "met",
            Some(_) => "missed",
        };
        self.bars.push(Bar {
            case: case.to_owned(),
            what: what.to_owned(),
            value: value.filter(|value| value.is_finite()),
            limit,
            relation: relation.word().to_owned(),
            verdict: verdict.to_owned(),
            remarks,
        });
    }

    /// Holds the middle of several repeats against a limit. It is decided where at least
    /// four of five are on that side.
    pub(crate) fn bar_of_repeats(
        &mut self,
        is_quick: bool,
        named: (&str, &str),
        repeats: &[f64],
        (relation, limit): (Relation, f64),
    ) {
        let middle = Summary::of(repeats.to_vec()).map(|summary| summary.median);
        self.bar(is_quick, named, middle, (relation, limit), Vec::new());
        let is_decided = middle.is_none_or(|middle| {
            let holds = relation.holds(middle, limit);
            let agrees = |repeat: &&f64| relation.holds(**repeat, limit) == holds;
            repeats.iter().filter(agrees).count() as f64 >= AGREEING * repeats.len() as f64
        });
        if let Some(bar) = self.bars.last_mut()
            && !is_quick
            && !is_decided
        {
            bar.verdict = "not decided".to_owned();
        }
    }

    /// A case was not measured to its end.
    pub(crate) fn fail(&mut self, case: &str, error: &str) {
        self.failures.push(Failure {
            case: case.to_owned(),
            error: error.to_owned(),
        });
    }

    /// Prints the aims, and what was not measured to its end.
    pub(crate) fn print(&self) {
        eprintln!();
        for bar in &self.bars {
            let value = bar
                .value
                .map_or("-".to_owned(), |value| format!("{value:.2}"));
            let remarks = match bar.remarks.as_slice() {
                [] => "",
                _ => ", with remarks",
            };
            eprintln!(
                "{:<13} {}: {}: {value} ({} {:.2}){remarks}",
                bar.verdict, bar.case, bar.what, bar.relation, bar.limit
            );
        }
        for failure in &self.failures {
            eprintln!("{:<13} {}: {}", "failed", failure.case, failure.error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(is_quick: bool, held: &[(Option<f64>, Relation)]) -> Vec<String> {
        let mut aims = Aims::default();
        for (value, relation) in held {
            aims.bar(is_quick, ("c", "w"), *value, (*relation, 1.0), Vec::new());
        }
        aims.bars.into_iter().map(|bar| bar.verdict).collect()
    }

    #[test]
    fn an_aim_is_met_missed_or_not_measured_and_no_number_meets_nothing() {
        let held = [
            (Some(1.0), Relation::AtMost),
            (Some(1.0), Relation::LessThan),
            (Some(1.0), Relation::AtLeast),
            (Some(f64::NAN), Relation::AtMost),
            (None, Relation::AtMost),
        ];
        let expected = ["met", "missed", "met", "missed", "not measured"];
        assert_eq!(verdicts(false, &held), expected);
    }

    #[test]
    fn an_aim_is_decided_where_four_of_five_repeats_agree() {
        let mut aims = Aims::default();
        let all: [&[f64]; 5] = [
            &[1.1, 1.2, 0.9, 1.3, 1.1],
            &[1.1, 1.2, 0.9, 0.8, 1.1],
            &[0.9, 0.9, 0.9, 1.9, 0.9],
            &[1.0],
            &[],
        ];
        for repeats in all {
            aims.bar_of_repeats(false, ("c", "w"), repeats, (Relation::AtLeast, 1.0));
        }
        aims.bar_of_repeats(true, ("c", "w"), all[1], (Relation::AtLeast, 1.0));
        let verdicts: Vec<&str> = aims.bars.iter().map(|bar| bar.verdict.as_str()).collect();
        let decided = ["met", "not decided", "missed", "met"];
        assert_eq!(verdicts[..4], decided);
        assert_eq!(verdicts[4..], ["not measured", "no verdict"]);
    }

    #[test]
    fn a_quick_run_has_no_verdict() {
        let held = [(Some(0.0), Relation::AtMost), (None, Relation::AtLeast)];
        assert_eq!(verdicts(true, &held), ["no verdict", "not measured"]);
    }
}
