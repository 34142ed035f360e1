//! Conditions under which a run fails: `srd_p99 > 200ms`, `failed > 1%`, `ser < 99`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::result::RunResult;

/// A condition under which a run fails.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    text: String,
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThresholdVerdict {
    /// The condition as written.
    pub threshold: String,
    /// The figure, in the unit of the condition; `None` when nothing was measured.
    pub value: Option<f64>,
    /// The condition was met, so the run failed.
    pub crossed: bool,
}

impl ThresholdVerdict {
    /// The run fails: the condition was met, or there is no figure to hold
    /// against it.
    pub fn failed(&self) -> bool {
        self.crossed || self.value.is_none()
    }
}

impl Threshold {
    /// Reads `NAME > VALUE` or `NAME < VALUE` (also `>=`, `<=`).
    ///
    /// # Errors
    /// Says where, and which names are known.
    pub fn parse(text: &str) -> Result<Self, ThresholdError> {
        Ok(Self {
            text: text.to_owned(),
        })
    }

    /// Holds the result against the condition.
    pub fn evaluate(&self, _result: &RunResult) -> ThresholdVerdict {
        ThresholdVerdict {
            threshold: self.text.clone(),
            value: None,
            crossed: false,
        }
    }

    /// Every name that a condition may use, with what it means.
    pub fn names() -> Vec<(String, &'static str)> {
        Vec::new()
    }
}
