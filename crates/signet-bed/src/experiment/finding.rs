//! What a paper found, as statements that a record answers.

use serde::{Deserialize, Serialize};

use super::at::At;
use super::pick::Pick;

/// A statement and the ratio that it stands or falls by.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// In plain English: "TCP costs more than UDP".
    pub statement: String,
    /// Where the paper says so.
    pub place: String,
    /// What is compared, a name of [`crate::record::figure`].
    pub figure: String,
    /// The load.
    #[serde(default)]
    pub at: At,
    /// The load of the cases below the line; [`Finding::at`] where nothing is said.
    pub than_at: Option<At>,
    /// The cases above the line.
    pub of: Pick,
    /// What is taken away from each of them before.
    pub of_less: Option<Pick>,
    /// The cases below the line.
    pub than: Pick,
    /// What is taken away from each of them before.
    pub than_less: Option<Pick>,
    /// How sets of cases are compared.
    #[serde(default)]
    pub by: By,
    /// The ratio from which the answer is yes.
    pub yes_at: f64,
    /// The ratio from which, on the other side, it is no. Between the two it is
    /// "differently".
    pub no_at: f64,
    /// The ratio in the paper, where its text has one.
    pub published: Option<f64>,
    /// The systems that it is asked of; all where none is named.
    #[serde(default)]
    pub systems: Vec<String>,
}

/// How sets of cases are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// Case by case: those that agree on every axis that neither pick names. The ratio is the
    /// geometric mean.
    #[default]
    Pairs,
    /// The highest of each set.
    Highest,
    /// The lowest of each set.
    Lowest,
}

/// What a record says of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As the paper has it.
    Yes,
    /// Not so.
    No,
    /// Between the bounds, or the repeats disagree.
    Differently,
    /// A case of it has no figure that counts.
    NotMeasured,
}

/// A median and its lowest and highest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Of medians.
    pub median: f64,
    /// The lowest that the repeats allow.
    pub low: f64,
    /// The highest.
    pub high: f64,
    /// The fewest repeats that a figure in it has; one gives no interval.
    pub repeats: usize,
}

/// The answer for one system.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The system.
    pub system: String,
    /// Yes, no, or otherwise.
    pub verdict: Verdict,
    /// The ratio, where it was measured.
    pub ratio: Option<Interval>,
    /// A sentence with the numbers; where nothing was measured, what is missing.
    pub sentence: String,
}

/// Whether peaks agree with what costs at a common rate let expect (Shen 2010, 4.1).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrossCheck {
    /// The common rate, a second.
    pub rate_per_s: f64,
    /// The cases; all that have both where nothing is said.
    #[serde(default, rename = "where")]
    pub pick: Pick,
    /// The mean error aimed at, as a share.
    pub error_max: f64,
    /// The paper's mean error.
    pub published: Option<f64>,
    /// Where the paper says so.
    pub place: String,
}
