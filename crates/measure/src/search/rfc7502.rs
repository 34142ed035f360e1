//! The search of RFC 7502, and its report form.

use serde::{Deserialize, Serialize};

use super::{Outcome, Step, Try};

/// The parameters of RFC 7502's search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rfc7502Config {
    /// `r`, the first rate.
    pub initial_per_s: f64,
    /// `N`, the attempts of every try.
    pub attempts: u64,
}

impl Default for Rfc7502Config {
    fn default() -> Self {
        Self { initial_per_s: 100.0, attempts: 50_000 }
    }
}

/// What the report form wants besides the rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rfc7502Report {
    /// The rate found.
    pub rate_per_s: f64,
}

/// RFC 7502's search as a state machine.
#[derive(Clone, Debug)]
pub struct Rfc7502 {
    config: Rfc7502Config,
    tries: Vec<Try>,
}

impl Rfc7502 {
    /// At its beginning.
    pub fn new(config: Rfc7502Config) -> Self {
        Self { config, tries: Vec::new() }
    }

    /// What to do next.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Step<f64> {
        let _ = (&self.config, &self.tries);
        Step::Done(0.0)
    }

    /// How the last try went.
    pub fn give(&mut self, _outcome: Outcome) {}
}
