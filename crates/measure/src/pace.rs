//! Open-loop arrivals: when the next call is due depends on the schedule
//! alone, never on how the server does.
//!
//! A schedule is a list of phases, each with a rate that is constant or changes
//! linearly. `N(t)`, the integral of the rate, says how many calls are due by
//! `t`. With constant spacing arrival number `k` (from 0) is due at the last `t`
//! with `N(t) <= k`: the first at once, and never inside a phase of rate 0.
//! Poisson arrivals are the same function of a sum of unit exponentials, which
//! is exact for changing rates too. So pacing is a pure function from the
//! number of an arrival to its time, and threads that share a schedule need
//! nothing but their own number.

mod parse;

use crate::random::Random;

pub use parse::{PaceError, parse_duration_ns, parse_rate_per_s};

const NS_PER_S: f64 = 1e9;
/// Highest rate that a schedule may ask for.
pub const RATE_MAX_PER_S: f64 = 10_000_000.0;
/// Longest phase, a hundred days.
pub const DURATION_MAX_NS: u64 = 100 * 24 * 3_600 * 1_000_000_000;
/// Most phases of a schedule.
pub const PHASES_MAX: usize = 1_000;

/// Arrivals of a Poisson process that are counted one by one when they are given up.
const WALK_MAX: u64 = 1_000_000;

/// How arrivals are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// Evenly.
    #[default]
    Constant,
    /// As a Poisson process: independent of each other, as calls of many users are.
    Poisson,
}

/// A stretch of time and its rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// How long it lasts.
    pub duration_ns: u64,
    /// The rate at its start.
    pub from_per_s: f64,
    /// The rate at its end; equal to `from_per_s`, the rate is constant, else it
    /// changes linearly.
    pub to_per_s: f64,
}

impl Phase {
    /// Arrivals of the phase.
    fn count(&self) -> f64 {
        (self.from_per_s + self.to_per_s) / 2.0 * self.seconds()
    }

    fn seconds(&self) -> f64 {
        self.duration_ns as f64 / NS_PER_S
    }

    /// The time in the phase at which `count` arrivals have come, in seconds.
    fn when(&self, count: f64) -> f64 {
        // count = from*x + slope*x^2/2, solved in the form that loses no digits
        // when the slope is small or 0.
        let slope = (self.to_per_s - self.from_per_s) / self.seconds();
        let root = (self.from_per_s * self.from_per_s + 2.0 * slope * count)
            .max(0.0)
            .sqrt();
        if count <= 0.0 {
            return 0.0;
        }
        2.0 * count / (self.from_per_s + root)
    }
}

/// When calls are due.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    phases: Vec<Phase>,
    arrivals: Arrivals,
    seed: u64,
    limit: Option<u64>,
}

impl Schedule {
    /// One phase of a constant rate. A rate that is no number or negative counts
    /// as 0, one above [`RATE_MAX_PER_S`] as that.
    pub fn constant(rate_per_s: f64, duration_ns: u64) -> Self {
        Self::phases([Phase {
            duration_ns,
            from_per_s: rate_per_s,
            to_per_s: rate_per_s,
        }])
    }

    /// One phase after another. Bounds as for [`Schedule::constant`]; phases
    /// without duration and those past [`PHASES_MAX`] are left out.
    pub fn phases(phases: impl IntoIterator<Item = Phase>) -> Self {
        let bounded = |rate: f64| {
            if rate.is_nan() {
                0.0
            } else {
                rate.clamp(0.0, RATE_MAX_PER_S)
            }
        };
        Self {
            phases: phases
                .into_iter()
                .filter(|phase| phase.duration_ns > 0)
                .take(PHASES_MAX)
                .map(|phase| Phase {
                    duration_ns: phase.duration_ns.min(DURATION_MAX_NS),
                    from_per_s: bounded(phase.from_per_s),
                    to_per_s: bounded(phase.to_per_s),
                })
                .collect(),
            arrivals: Arrivals::Constant,
            seed: 0,
            limit: None,
        }
    }

    /// Reads phases, joined by `;` or `,`:
    ///
    /// - `2000/s for 30s`
    /// - `ramp 100..2000/s over 60s`
    /// - `steps 100,200,400/s each 10s`
    /// - `pause 5s`
    ///
    /// Rates are per `s`, `min` or `h`; durations have a unit (`ms`, `s`, `min`,
    /// `m`, `h`).
    ///
    /// # Errors
    /// Says in which column what was expected.
    pub fn parse(text: &str) -> Result<Self, PaceError> {
        parse::schedule(text).map(Self::phases)
    }

    /// Spaces arrivals as a Poisson process. The same seed gives the same times.
    #[must_use]
    pub fn poisson(mut self, seed: u64) -> Self {
        self.arrivals = Arrivals::Poisson;
        self.seed = seed;
        self
    }

    /// Ends after this many arrivals, if the phases do not end before.
    #[must_use]
    pub fn limit(mut self, calls: u64) -> Self {
        self.limit = Some(calls);
        self
    }

    /// How long all phases last together.
    pub fn duration_ns(&self) -> u64 {
        self.phases
            .iter()
            .fold(0, |sum, phase| sum.saturating_add(phase.duration_ns))
    }

    /// When it is over: with its last phase or, where fewer arrivals were asked for, when the one
    /// after the last of them would be due.
    pub fn ends_ns(&self) -> u64 {
        let whole_ns = self.duration_ns();
        // A Poisson process is walked: of more than a million arrivals its phases say enough.
        let is_short = |limit: &u64| self.arrivals == Arrivals::Constant || *limit <= WALK_MAX;
        let Some(limit) = self.limit.filter(is_short) else {
            return whole_ns;
        };
        let unlimited = Self {
            limit: None,
            ..self.clone()
        };
        Pacer::share(&unlimited, limit, 1)
            .next_due_ns()
            .unwrap_or(whole_ns)
    }

    /// The rate so long after the start; 0 after the end.
    pub fn rate_at(&self, elapsed_ns: u64) -> f64 {
        let mut since_ns = elapsed_ns;
        for phase in &self.phases {
            if since_ns < phase.duration_ns {
                let share = since_ns as f64 / phase.duration_ns as f64;
                return phase.from_per_s + (phase.to_per_s - phase.from_per_s) * share;
            }
            since_ns -= phase.duration_ns;
        }
        0.0
    }

    /// The highest rate of any phase.
    pub fn rate_max_per_s(&self) -> f64 {
        self.phases.iter().fold(0.0, |max, phase| {
            phase.from_per_s.max(phase.to_per_s).max(max)
        })
    }

    /// Arrivals: exact for constant spacing, the mean for Poisson.
    pub fn expected(&self) -> u64 {
        let total: f64 = self
            .phases
            .iter()
            .fold(0.0, |sum, phase| whole(sum + phase.count()));
        let total = total.ceil() as u64;
        self.limit.map_or(total, |limit| limit.min(total))
    }

    /// The phases, as bounded.
    pub fn as_phases(&self) -> &[Phase] {
        &self.phases
    }

    /// How arrivals are spaced.
    pub fn arrivals(&self) -> Arrivals {
        self.arrivals
    }

    /// The seed of Poisson arrivals.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// After how many arrivals it ends, where that was said.
    pub fn arrivals_max(&self) -> Option<u64> {
        self.limit
    }
}

/// Sums of decimal rates miss whole numbers by a few bits; without this a
/// phase could have an arrival too many in its last nanosecond.
fn whole(count: f64) -> f64 {
    let near = count.round();
    if (count - near).abs() < 1e-6 {
        near
    } else {
        count
    }
}

/// Walks the arrivals of a [`Schedule`] in order, each in constant time.
#[derive(Clone, Debug)]
pub struct Pacer {
    phases: Vec<Phase>,
    /// The phase that the next arrival is looked for in.
    phase: usize,
    /// When that phase starts, and the arrivals due before it.
    phase_start_ns: u64,
    phase_start_count: f64,
    arrivals: Arrivals,
    random: Random,
    /// Arrivals of the whole schedule passed so far, other threads' included.
    passed: u64,
    /// The sum of exponentials up to the next arrival (Poisson only).
    operational: f64,
    limit: u64,
    /// This thread takes one arrival in `of`.
    of: u64,
    taken: u64,
    next_ns: Option<u64>,
}

impl Pacer {
    /// All arrivals of the schedule.
    pub fn new(schedule: &Schedule) -> Self {
        Self::share(schedule, 0, 1)
    }

    /// Every `of`-th arrival, from number `index` on. The shares `0..of` of a
    /// schedule are together exactly the schedule, whatever its spacing.
    /// `of` 0 counts as 1.
    pub fn share(schedule: &Schedule, index: u64, of: u64) -> Self {
        let mut pacer = Self {
            phases: schedule.phases.clone(),
            phase: 0,
            phase_start_ns: 0,
            phase_start_count: 0.0,
            arrivals: schedule.arrivals,
            random: Random::new(schedule.seed),
            passed: 0,
            operational: 0.0,
            limit: schedule.limit.unwrap_or(u64::MAX),
            of: of.max(1),
            taken: 0,
            next_ns: None,
        };
        pacer.draw();
        pacer.skip(index);
        pacer.next_ns = pacer.find();
        pacer
    }

    /// When the next arrival is due, since the start; `None` when all are taken.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.next_ns
    }

    /// Moves on to the arrival after it.
    pub fn take(&mut self) {
        if self.next_ns.is_none() {
            return;
        }
        self.taken += 1;
        self.skip(self.of);
        self.next_ns = self.find();
    }

    /// Takes the next arrival if it is due at `elapsed_ns`, and says when it was.
    pub fn take_due(&mut self, elapsed_ns: u64) -> Option<u64> {
        let due_ns = self.next_ns.filter(|&due_ns| due_ns <= elapsed_ns)?;
        self.take();
        Some(due_ns)
    }

    /// Gives up all that was not taken, and says how many arrivals of this share those
    /// were. It is exact, but for a Poisson process with more than a million of them,
    /// whose others are reckoned by their mean.
    pub fn give_up(&mut self) -> u64 {
        let mut left = 0;
        if self.arrivals == Arrivals::Poisson {
            while self.next_ns.is_some() && left < WALK_MAX {
                left += 1;
                self.skip(self.of);
                self.next_ns = self.find();
            }
        }
        if self.next_ns.take().is_some() {
            left += self.left();
        }
        left
    }

    /// Arrivals of this share from the next one on, where there is a next one.
    fn left(&self) -> u64 {
        let phases = self.phases.iter().skip(self.phase);
        let end_count = phases.fold(self.phase_start_count, |sum, phase| {
            whole(sum + phase.count())
        });
        let in_phases = match self.arrivals {
            Arrivals::Constant => {
                let end = end_count.ceil() as u64;
                end.saturating_sub(self.passed).div_ceil(self.of)
            }
            Arrivals::Poisson => {
                1 + ((end_count - self.operational).max(0.0) / self.of as f64) as u64
            }
        };
        let in_limit = self.limit.saturating_sub(self.passed).div_ceil(self.of);
        in_phases.min(in_limit)
    }

    /// Arrivals taken so far.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    fn skip(&mut self, arrivals: u64) {
        self.passed = self.passed.saturating_add(arrivals);
        if self.arrivals == Arrivals::Poisson {
            for _ in 0..arrivals {
                self.draw();
            }
        }
    }

    fn draw(&mut self) {
        if self.arrivals == Arrivals::Poisson {
            self.operational += self.random.exponential();
        }
    }

    fn find(&mut self) -> Option<u64> {
        if self.passed >= self.limit {
            return None;
        }
        let count = match self.arrivals {
            Arrivals::Constant => self.passed as f64,
            Arrivals::Poisson => self.operational,
        };
        while let Some(phase) = self.phases.get(self.phase) {
            let end_count = whole(self.phase_start_count + phase.count());
            if count < end_count {
                let in_phase_ns = phase.when(count - self.phase_start_count) * NS_PER_S;
                let in_phase_ns = (in_phase_ns.round() as u64).min(phase.duration_ns);
                return Some(self.phase_start_ns.saturating_add(in_phase_ns));
            }
            self.phase_start_ns = self.phase_start_ns.saturating_add(phase.duration_ns);
            self.phase_start_count = end_count;
            self.phase += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests;
