//! Doubling, bisection, a confirming run, repeats.
//!
//! One repeat goes through these stages:
//!
//! 1. *Bracket*: from the start rate up in growing steps until a rate is not
//!    held, or down until one is.
//! 2. *Bisect* until the two are within the precision.
//! 3. *Confirm*: the held rate once more, twice as long. If it fails, the search
//!    goes down in growing steps until a rate is confirmed.
//! 4. *Challenge*: the failed rate above it once more, right after the confirming
//!    run has shown the server healthy. If it holds, it had failed in the
//!    aftermath of an overload (or by chance), and the search goes on upwards
//!    with a longer rest after failures.
//!
//! A try that is not held is repeated, and two of three decide. So one hiccup of
//! the server moves no bound, and hysteresis cannot hide a rate that it holds.

use serde::{Deserialize, Serialize};

use super::{Outcome, Step, Try};
use crate::statistics::{interval_95, wilson_low};

/// What counts as held, and how closely to look.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SearchConfig {
    /// Where to begin.
    pub start_per_s: f64,
    /// Share of failures up to which a rate is held (0, 0.01, 0.04, ...). A
    /// bound above 0 is crossed when the failures of a try would be rarer than
    /// 1 in 20 on a server that fails exactly that share (Wilson's interval),
    /// so that a server at the bound is not failed by chance. 0 means none.
    pub failures_max: f64,
    /// Delay up to which a rate is held; `u64::MAX` for any.
    pub delay_max_ns: u64,
    /// How often the whole search is done.
    pub repeats: u32,
    /// The search ends when the rates that hold and do not are this share apart
    /// (0.001 to 1).
    pub precision: f64,
    /// How long one try lasts.
    pub try_ns: u64,
    /// Fewest attempts of a try.
    pub attempts_min: u64,
    /// How long to rest after a try that was not held.
    pub rest_ns: u64,
    /// The lowest rate to try.
    pub rate_min_per_s: f64,
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
            rate_min_per_s: 1.0,
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
    /// Even the lowest rate was not held.
    NothingHeld,
    /// The highest rate that may be tried was held: the peak lies above.
    NotReached,
    /// Above the rate found the generator has doubts about itself: the figure
    /// is its own limit, and the server's lies above.
    GeneratorLimit,
    /// The bound on tries was reached; the figure is the best so far.
    TooManyTries,
    /// The operator stopped it; the figure is the best so far.
    Interrupted,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// The largest rate held: the mean over the repeats. 0 when none was held.
    pub peak_cps: f64,
    /// Lower end of its 95% interval over the repeats (Student t); of one
    /// repeat, the rate that was confirmed.
    pub low: f64,
    /// Upper end; at least the mean of the lowest rates that were not held.
    pub high: f64,
    /// The largest rate held, by repeat.
    pub repeats: Vec<f64>,
    /// Why the search ended.
    pub ending: Ending,
    /// Every try, in order.
    pub tries: Vec<Try>,
}

impl Peak {
    /// The figure says something about the server.
    pub fn is_valid(&self) -> bool {
        self.ending == Ending::Found
    }
}

/// Largest factor by which rests grow.
const REST_GROWTH_MAX: u32 = 8;
/// Challenges in one repeat that may send the search up again.
const CHALLENGES_MAX: u32 = 4;
/// One-sided 95% of the normal distribution.
const Z_ONE_SIDED: f64 = 1.645;

/// The search as a state machine.
#[derive(Clone, Debug)]
pub struct PeakSearch {
    config: SearchConfig,
    climb: Climb,
    repeat: u32,
    found: Vec<Found>,
    rest_due: bool,
    rest_growth: u32,
    tries: Vec<Try>,
    ending: Option<Ending>,
}

#[derive(Clone, Copy, Debug)]
struct Found {
    rate: f64,
    above: f64,
    by_generator: bool,
    not_reached: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Bracket,
    Bisect,
    Confirm,
    Challenge,
}

/// One repeat.
#[derive(Clone, Debug)]
struct Climb {
    stage: Stage,
    rate: f64,
    /// The largest rate held, and the lowest above it that was not.
    held: Option<f64>,
    failed: Option<f64>,
    /// The failure above came with a doubt of the generator about itself.
    failed_by_generator: bool,
    /// The next step, as a share of the rate; doubles with each.
    step: f64,
    /// Tries of this rate that were not held and were.
    against: u32,
    in_favour: u32,
    /// All tries against it came with a doubt.
    doubtful: bool,
    challenges: u32,
}

impl Climb {
    fn new(rate: f64, step: f64) -> Self {
        Self {
            stage: Stage::Bracket,
            rate,
            held: None,
            failed: None,
            failed_by_generator: false,
            step,
            against: 0,
            in_favour: 0,
            doubtful: true,
            challenges: 0,
        }
    }

    fn go(&mut self, stage: Stage, rate: f64) {
        self.stage = stage;
        self.rate = rate;
        self.against = 0;
        self.in_favour = 0;
        self.doubtful = true;
    }

    /// Counts a try; the verdict once there is one.
    fn vote(&mut self, held: bool, doubtful: bool) -> Option<bool> {
        if held {
            self.in_favour += 1;
        } else {
            self.against += 1;
            self.doubtful &= doubtful;
        }
        if self.against == 0 || self.in_favour == 2 {
            return Some(true);
        }
        (self.against == 2 || self.stage == Stage::Challenge).then_some(false)
    }
}

impl PeakSearch {
    /// At its beginning. Figures out of bounds count as the nearest within.
    pub fn new(mut config: SearchConfig) -> Self {
        let finite = |value: f64, or: f64| if value.is_finite() { value } else { or };
        config.precision = finite(config.precision, 0.02).clamp(0.001, 1.0);
        config.rate_min_per_s = finite(config.rate_min_per_s, 1.0).max(0.001);
        config.rate_max_per_s =
            finite(config.rate_max_per_s, crate::pace::RATE_MAX_PER_S).max(config.rate_min_per_s);
        config.start_per_s =
            finite(config.start_per_s, 100.0).clamp(config.rate_min_per_s, config.rate_max_per_s);
        config.repeats = config.repeats.max(1);
        Self {
            climb: Climb::new(config.start_per_s, 1.0),
            config,
            repeat: 0,
            found: Vec::new(),
            rest_due: false,
            rest_growth: 1,
            tries: Vec::new(),
            ending: None,
        }
    }

    /// What to do next. A rest is asked for once; a try until its outcome is
    /// given; the result for ever.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Step {
        if let Some(ending) = self.ending {
            return Step::Done(self.peak(ending));
        }
        if std::mem::take(&mut self.rest_due) {
            return Step::Rest {
                duration_ns: self
                    .config
                    .rest_ns
                    .saturating_mul(u64::from(self.rest_growth)),
            };
        }
        let long = if self.climb.stage == Stage::Confirm {
            2.0
        } else {
            1.0
        };
        let attempts = self.climb.rate * self.config.try_ns as f64 / 1e9 * long;
        Step::Try {
            rate_per_s: self.climb.rate,
            attempts: (attempts.ceil() as u64)
                .max(self.config.attempts_min)
                .max(1),
        }
    }

    /// How the last try went.
    pub fn give(&mut self, outcome: Outcome) {
        if self.ending.is_some() {
            return;
        }
        let held = !outcome.doubtful && !outcome.interrupted && self.holds(&outcome);
        self.tries.push(Try {
            rate_per_s: self.climb.rate,
            outcome,
            held,
            repeat: self.repeat,
        });
        self.rest_due = !held;
        if outcome.interrupted {
            self.ending = Some(Ending::Interrupted);
        } else if let Some(verdict) = self.climb.vote(held, outcome.doubtful) {
            self.decide(verdict);
        }
        if self.ending.is_none() && self.tries.len() >= self.config.tries_max as usize {
            self.ending = Some(Ending::TooManyTries);
        }
    }

    /// Every try so far.
    pub fn tries(&self) -> &[Try] {
        &self.tries
    }

    fn holds(&self, outcome: &Outcome) -> bool {
        let failures_held = if self.config.failures_max <= 0.0 {
            outcome.failures == 0
        } else {
            wilson_low(outcome.failures, outcome.attempts, Z_ONE_SIDED) <= self.config.failures_max
        };
        let delay_held = self.config.delay_max_ns == u64::MAX
            || outcome
                .delay_ns
                .is_some_and(|delay| delay <= self.config.delay_max_ns);
        outcome.attempts > 0 && failures_held && delay_held
    }

    /// Moves on after a rate was judged.
    fn decide(&mut self, held: bool) {
        let rate = self.climb.rate;
        if held {
            self.climb.held = Some(rate);
        } else {
            self.climb.failed = Some(rate);
            self.climb.failed_by_generator = self.climb.doubtful;
            // A rate that held before and fails on confirmation holds no longer.
            self.climb.held = self.climb.held.filter(|&below| below < rate);
        }
        match (self.climb.stage, held) {
            (Stage::Bracket, true) if rate >= self.config.rate_max_per_s => self.confirm(),
            (Stage::Bracket | Stage::Bisect, _) => self.narrow(),
            (Stage::Confirm, true) if self.climb.challenges >= CHALLENGES_MAX => self.settle(),
            (Stage::Confirm, true) => match self.climb.failed {
                Some(above) => self.climb.go(Stage::Challenge, above),
                None => self.settle(),
            },
            (Stage::Confirm, false) => self.descend(Stage::Confirm),
            (Stage::Challenge, false) => self.settle(),
            (Stage::Challenge, true) => {
                self.climb.challenges += 1;
                self.climb.failed = None;
                self.rest_growth = (self.rest_growth * 2).min(REST_GROWTH_MAX);
                self.climb.step = 4.0 * self.config.precision;
                self.narrow();
            }
        }
    }

    /// Goes up, down or between, whichever bound is missing.
    fn narrow(&mut self) {
        match (self.climb.held, self.climb.failed) {
            (Some(held), None) => {
                let next = (held * (1.0 + self.climb.step)).min(self.config.rate_max_per_s);
                self.climb.step = (self.climb.step * 2.0).min(1.0);
                if held >= self.config.rate_max_per_s {
                    self.confirm();
                } else {
                    self.climb.go(Stage::Bracket, next);
                }
            }
            (None, _) => self.descend(Stage::Bracket),
            (Some(held), Some(failed)) => {
                if failed <= held * (1.0 + self.config.precision) {
                    self.confirm();
                } else {
                    self.climb.go(Stage::Bisect, held + (failed - held) / 2.0);
                }
            }
        }
    }

    fn confirm(&mut self) {
        self.climb.step = self.config.precision;
        if let Some(held) = self.climb.held {
            self.climb.go(Stage::Confirm, held);
        }
    }

    /// Tries lower: the growing step, never more than half.
    fn descend(&mut self, stage: Stage) {
        let rate = self.climb.rate;
        if rate <= self.config.rate_min_per_s {
            self.ending = Some(if self.climb.failed_by_generator {
                Ending::GeneratorLimit
            } else {
                Ending::NothingHeld
            });
            return;
        }
        let lower = rate / (1.0 + self.climb.step);
        self.climb.step = (self.climb.step * 2.0).min(1.0);
        self.climb.go(stage, lower.max(self.config.rate_min_per_s));
    }

    /// Ends a repeat and begins the next, near what was found.
    fn settle(&mut self) {
        let Some(rate) = self.climb.held else {
            self.ending = Some(Ending::NothingHeld);
            return;
        };
        self.found.push(Found {
            rate,
            above: self.climb.failed.unwrap_or(rate),
            by_generator: self.climb.failed.is_some() && self.climb.failed_by_generator,
            not_reached: self.climb.failed.is_none(),
        });
        self.repeat += 1;
        if self.repeat == self.config.repeats {
            self.ending = Some(self.verdict());
            return;
        }
        // Each repeat starts elsewhere, so that the rates it tries do not repeat
        // those of the one before and rounding does not look like agreement.
        let off = self.config.precision * (1.5 + f64::from(self.repeat) * 0.618 % 1.0);
        let start = (rate * (1.0 - off.min(0.9))).max(self.config.rate_min_per_s);
        self.climb = Climb::new(start, 2.0 * self.config.precision);
    }

    fn verdict(&self) -> Ending {
        if self.found.iter().any(|found| found.by_generator) {
            Ending::GeneratorLimit
        } else if self.found.iter().any(|found| found.not_reached) {
            Ending::NotReached
        } else {
            Ending::Found
        }
    }

    fn peak(&self, ending: Ending) -> Peak {
        let mut repeats: Vec<f64> = self.found.iter().map(|found| found.rate).collect();
        // Ended early: the best that was held at least once.
        if repeats.is_empty() && ending != Ending::NothingHeld {
            repeats.extend(self.climb.held);
        }
        let (mean, low, high) = interval_95(&repeats);
        // No closer than the rates that were tried: the edge lies between the
        // one that was held and the one above it that was not.
        let above: Vec<f64> = self.found.iter().map(|found| found.above).collect();
        let (low, high) = (low.max(0.0), high.max(crate::statistics::mean(&above)));
        Peak {
            peak_cps: mean,
            low,
            high,
            repeats,
            ending,
            tries: self.tries.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
