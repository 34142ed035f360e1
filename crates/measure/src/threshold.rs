//! Conditions under which a run fails: `srd_p99 > 200ms`, `failed > 1%`, `ser < 99`.
//!
//! A condition is `NAME OPERATOR VALUE`. The name says what kind of figure it
//! is, and so which unit the value needs: delays need `us`, `ms` or `s`; ratios
//! are percent, with or without `%`; a count with `%` is a share of all attempts.

mod names;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::result::RunResult;

use names::{Figure, Kind};

/// A condition under which a run fails.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    text: String,
    figure: Figure,
    operator: Operator,
    /// In the figure's unit: microseconds, percent, or a number.
    bound: f64,
    /// A count is held against a share of the attempts.
    of_attempts: bool,
    unit: Unit,
}

/// The unit in which the verdict is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    /// Its name and how many microseconds it is.
    Delay(&'static str, f64),
    Percent,
    Number,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Above,
    AtLeast,
    Below,
    AtMost,
}

impl Operator {
    fn met(self, value: f64, bound: f64) -> bool {
        match self {
            Self::Above => value > bound,
            Self::AtLeast => value >= bound,
            Self::Below => value < bound,
            Self::AtMost => value <= bound,
        }
    }
}

/// A condition that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThresholdError {
    /// Where, in characters from 1.
    pub column: usize,
    /// What is wrong and what to write instead.
    pub message: String,
}

impl fmt::Display for ThresholdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.message)
    }
}

impl std::error::Error for ThresholdError {}

/// How one condition went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThresholdVerdict {
    /// The condition as written.
    pub threshold: String,
    /// The figure, in the unit of the condition; `None` when nothing was measured.
    pub value: Option<f64>,
    /// That unit: `ms`, `%`, ... or empty.
    pub unit: String,
    /// The condition was met, so the run failed.
    pub crossed: bool,
}

impl ThresholdVerdict {
    /// The run fails: the condition was met, or there is no figure to hold
    /// against it. (A run without a single answered call has no `srd_p99`; it
    /// must not pass for that.)
    pub fn failed(&self) -> bool {
        self.crossed || self.value.is_none()
    }
}

impl fmt::Display for ThresholdVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.failed() { "FAILED" } else { "passed" };
        match self.value {
            Some(value) => {
                let digits = if value.fract() == 0.0 { 0 } else { 3 };
                write!(
                    f,
                    "{verdict} {} (it is {value:.digits$}{})",
                    self.threshold, self.unit
                )
            }
            None => write!(f, "{verdict} {} (nothing was measured)", self.threshold),
        }
    }
}

impl Threshold {
    /// Reads `NAME > VALUE`, with `>`, `>=`, `<` or `<=`.
    ///
    /// # Errors
    /// Says where, and what to write instead; an unknown name is answered with
    /// the names that are known.
    pub fn parse(text: &str) -> Result<Self, ThresholdError> {
        let fail = |at: usize, message: String| ThresholdError {
            column: text
                .get(..at)
                .map_or(1, |before| before.chars().count() + 1),
            message,
        };
        let form = "write NAME > VALUE or NAME < VALUE, such as \"srd_p99 > 200ms\"";
        let Some(operator_at) = text.find(['<', '>']) else {
            return Err(fail(
                text.trim_end().len(),
                format!("no \">\" or \"<\": {form}"),
            ));
        };
        let (name, rest) = text.split_at(operator_at);
        let (operator, len) = match (rest.starts_with('>'), rest.get(1..2) == Some("=")) {
            (true, false) => (Operator::Above, 1),
            (true, true) => (Operator::AtLeast, 2),
            (false, false) => (Operator::Below, 1),
            (false, true) => (Operator::AtMost, 2),
        };
        let name_at = name.len() - name.trim_start().len();
        let figure = Figure::parse(name.trim()).map_err(|message| fail(name_at, message))?;
        let value = rest.get(len..).unwrap_or("");
        let value_at = operator_at + len + (value.len() - value.trim_start().len());
        let (bound, unit) =
            value_of(value.trim(), figure.kind()).map_err(|message| fail(value_at, message))?;
        Ok(Self {
            text: text.trim().to_owned(),
            of_attempts: unit == Unit::Percent && figure.kind() == Kind::Count,
            figure,
            operator,
            bound,
            unit,
        })
    }

    /// Holds the result against the condition.
    pub fn evaluate(&self, result: &RunResult) -> ThresholdVerdict {
        let mut value = self.figure.value(result);
        if self.of_attempts {
            let attempts = result.figures.ended() as f64;
            value = value
                .filter(|_| attempts > 0.0)
                .map(|count| count * 100.0 / attempts);
        }
        // What is not a number is not measured.
        let value = value.filter(|value| value.is_finite());
        let (scale, unit) = match self.unit {
            Unit::Delay(name, us) => (us, name),
            Unit::Percent => (1.0, "%"),
            Unit::Number => (1.0, ""),
        };
        ThresholdVerdict {
            threshold: self.text.clone(),
            value: value.map(|value| value / scale),
            unit: unit.to_owned(),
            crossed: value.is_some_and(|value| self.operator.met(value, self.bound)),
        }
    }

    /// Every name that a condition may use, with what it means.
    pub fn names() -> Vec<(String, &'static str)> {
        names::all()
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The bound in the figure's unit, and the unit as written.
fn value_of(text: &str, kind: Kind) -> Result<(f64, Unit), String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number
        .parse()
        .map_err(|_| format!("expected {}, not {text:?}", kind.example()))?;
    match (kind, unit.trim()) {
        (Kind::Delay, "us") => Ok((number, Unit::Delay("us", 1.0))),
        (Kind::Delay, "ms") => Ok((number * 1e3, Unit::Delay("ms", 1e3))),
        (Kind::Delay, "s") => Ok((number * 1e6, Unit::Delay("s", 1e6))),
        (Kind::Delay, "") => Err(format!(
            "a delay needs a unit: write {number}ms, {number}us or {number}s"
        )),
        (Kind::Percent, "" | "%") | (Kind::Count, "%") => Ok((number, Unit::Percent)),
        (Kind::Count | Kind::Rate, "") | (Kind::Rate, "/s") => Ok((number, Unit::Number)),
        (_, unit) => Err(format!(
            "{unit:?} is no unit here: write {}",
            kind.example()
        )),
    }
}

#[cfg(test)]
mod tests;
