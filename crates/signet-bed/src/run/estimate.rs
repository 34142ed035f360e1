//! How long a run takes: as reckoned from its cases, and then from how long its parts have taken.

use signet_page::number;

use super::Lengths;
use super::load::setup_s;
use super::peak::RAMP_S;
use super::profiled::LONGER_S;
use crate::experiment::{Case, Load};

/// Seconds that a server and the load take to start.
const START_S: f64 = 1.0;
/// Seconds that the last calls have, beyond the time that they are held.
const DRAIN_S: f64 = 1.0;
/// Ramps, and rates held, until a peak is found that nobody knows of, as counted in runs on two
/// cores.
const RAMPS: f64 = 2.0;
const HELD: f64 = 2.9;
/// Rates held until one is found again.
const HELD_AGAIN: f64 = 2.6;

/// How long it takes to measure a load of a case once, in seconds, in its first round or in a
/// later one.
pub(super) fn visit_s(
    lengths: Lengths,
    case: &Case,
    load: &Load,
    round: u32,
    is_taken_apart: bool,
) -> f64 {
    let measured_s = f64::from(lengths.warm_up_s) + f64::from(lengths.measure_s);
    let registered_s = setup_s(&case.setting) as f64;
    let hold_s = case.setting.hold_ms as f64 / 1_000.0;
    let around_s = START_S + registered_s + hold_s + DRAIN_S;
    match load {
        Load::Rate { .. } if is_taken_apart => around_s + measured_s + LONGER_S as f64,
        Load::Rate { .. } => around_s + measured_s,
        Load::Peak { .. } => {
            let below = case.below.len() as f64;
            let held_s = around_s + measured_s;
            if round > 0 {
                (HELD_AGAIN + below) * held_s
            } else {
                RAMPS * (around_s + RAMP_S as f64) + (HELD + below) * held_s
            }
        }
    }
}

/// What was reckoned and what it took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Remaining {
    left_s: f64,
    done_s: f64,
    took_s: f64,
}

impl Remaining {
    /// Before anything is measured of so much.
    pub const fn new(reckoned_s: f64) -> Self {
        Self {
            left_s: reckoned_s,
            done_s: 0.0,
            took_s: 0.0,
        }
    }

    /// A part that was reckoned to take so long took so long.
    pub fn took(&mut self, reckoned_s: f64, took_s: f64) {
        self.left_s = (self.left_s - reckoned_s).max(0.0);
        self.done_s += reckoned_s;
        self.took_s += took_s;
    }

    /// A part falls away.
    pub fn falls_away(&mut self, reckoned_s: f64) {
        self.left_s = (self.left_s - reckoned_s).max(0.0);
    }

    /// Seconds to go: what is left, at the pace of what was done.
    pub fn to_go_s(&self) -> f64 {
        if self.done_s > 0.0 {
            self.left_s * self.took_s / self.done_s
        } else {
            self.left_s
        }
    }
}

/// A time as people say it: `40 s`, `12 min`, `2 h 5 min`.
pub fn said(seconds: f64) -> String {
    number::seconds(seconds.max(0.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_goes_at_the_pace_of_what_was_done() {
        let mut remaining = Remaining::new(100.0);
        assert_eq!(remaining.to_go_s(), 100.0);
        remaining.took(20.0, 30.0);
        assert_eq!(remaining.to_go_s(), 120.0);
        // One that is quicker than reckoned makes the rest shorter.
        remaining.took(20.0, 10.0);
        assert_eq!(remaining.to_go_s(), 60.0);
        remaining.falls_away(30.0);
        assert_eq!(remaining.to_go_s(), 30.0);
        remaining.took(40.0, 60.0);
        assert_eq!(remaining.to_go_s(), 0.0);
    }
}
