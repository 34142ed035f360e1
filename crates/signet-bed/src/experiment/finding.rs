//! What a paper found, as statements that a record answers.

use std::fmt;

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::at::At;
use super::file::Form;
use super::pick::Pick;

/// A statement and the ratio that it stands or falls by.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// In plain English: "TCP costs more than UDP".
    pub statement: String,
    /// Where the paper says so.
    pub place: String,
    /// What is compared, a name of [`crate::record::figure`], or components of the CPU time:
    /// `server/public_key+symmetric`.
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
    /// The ratio beyond which it is "differently" again, of a statement with a size: "about
    /// four times".
    pub yes_until: Option<f64>,
    /// The ratio in the paper, where its text has one.
    pub published: Option<f64>,
    /// The forms that answer it; both where none is named.
    #[serde(default)]
    pub forms: Vec<Form>,
    /// The systems that it is asked of; all where none is named.
    #[serde(default)]
    pub systems: Vec<String>,
}

impl Finding {
    /// Whether a form answers it.
    pub fn is_for(&self, form: Form) -> bool {
        self.forms.is_empty() || self.forms.contains(&form)
    }
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
    /// Between the bounds, or beyond the last.
    Differently,
    /// A case of it has no figure that counts, or one that is only the least or the most that
    /// it can be, and more is needed; or what its repeats allow reaches from a yes to a no.
    NotMeasured,
}

/// A median and the ends of what its repeats allow.
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
    /// The common rate, a second; of several, a case's is the first that it has.
    pub rate_per_s: CommonRates,
    /// The cases; all that have both where nothing is said.
    #[serde(default, rename = "where")]
    pub pick: Pick,
    /// Two shares of a peak, each as often as it is held after the peak is found: the line of least
    /// squares through what they take lets it be expected.
    #[serde(default)]
    pub below: Vec<f64>,
    /// The mean error aimed at, as a share.
    pub error_max: f64,
    /// The paper's mean error.
    pub published: Option<f64>,
    /// Where the paper says so.
    pub place: String,
}

/// The common rates of a cross-check: a number, or a list of them.
#[derive(Clone, Debug, PartialEq)]
pub struct CommonRates(pub Vec<f64>);

impl<'de> Deserialize<'de> for CommonRates {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RatesVisitor)
    }
}

struct RatesVisitor;

impl<'de> Visitor<'de> for RatesVisitor {
    type Value = CommonRates;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a rate as a number, or a list of them")
    }

    fn visit_f64<E>(self, rate: f64) -> Result<CommonRates, E> {
        Ok(CommonRates(vec![rate]))
    }

    fn visit_i64<E>(self, rate: i64) -> Result<CommonRates, E> {
        Ok(CommonRates(vec![rate as f64]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<CommonRates, A::Error> {
        let mut rates = Vec::new();
        while let Some(rate) = list.next_element::<f64>()? {
            rates.push(rate);
        }
        Ok(CommonRates(rates))
    }
}
