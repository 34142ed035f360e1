//! How long a run still takes, from how long its parts have taken.

use crate::experiment::{Case, Load};

/// Seconds that a server, its relay and the load take to start.
const START_S: f64 = 2.0;
/// Seconds that the last calls have, beyond the time that they are held.
pub(super) const DRAIN_S: u64 = 3;
/// Seconds of a ramp.
pub(super) const RAMP_S: u64 = 10;
/// Ramps and rates held until a peak is found, as they have come out.
const RAMPS: f64 = 1.4;
const HELD: f64 = 1.6;
/// Agents that come up a second.
pub(super) const SETUP_PER_S: u32 = 500;

/// The lengths of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Seconds of load before the measuring.
    pub warm_up_s: u32,
    /// Seconds of measuring.
    pub measure_s: u32,
}

/// How long a measurement takes, as it is reckoned before anything was measured.
pub fn reckoned_s(case: &Case, load: &Load, lengths: Lengths) -> f64 {
    use crate::experiment::Flow;
    let agents = match case.setting.flow {
        Flow::CallsToRegistered => case.setting.agents.callers + case.setting.agents.called,
        Flow::Calls | Flow::Registrations => 0,
    };
    let around_s = START_S
        + f64::from(agents) / f64::from(SETUP_PER_S)
        + DRAIN_S as f64
        + case.setting.hold_ms as f64 / 1_000.0;
    let measured_s = f64::from(lengths.warm_up_s + lengths.measure_s);
    match load {
        Load::Rate { .. } => around_s + measured_s,
        Load::Peak { .. } => RAMPS * (around_s + RAMP_S as f64) + HELD * (around_s + measured_s),
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
    let seconds = seconds.max(0.0);
    let minutes = (seconds / 60.0).round() as u64;
    match minutes {
        _ if seconds < 90.0 => format!("{seconds:.0} s"),
        0..=89 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::experiment::{Flow, Setting};

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

    #[test]
    fn agents_and_holding_take_their_time() {
        let lengths = Lengths {
            warm_up_s: 4,
            measure_s: 6,
        };
        let mut case = Case {
            id: "a".to_owned(),
            labels: BTreeMap::new(),
            setting: Setting::default(),
            loads: Vec::new(),
        };
        let rate = Load::Rate {
            per_s: 10.0,
            profile: false,
        };
        assert_eq!(reckoned_s(&case, &rate, lengths), 15.0);
        case.setting.flow = Flow::CallsToRegistered;
        case.setting.hold_ms = 60_000;
        assert_eq!(reckoned_s(&case, &rate, lengths), 79.0);
        let peak = Load::Peak {
            failures_max: 0.0,
            guess_per_s: 10.0,
        };
        assert!(reckoned_s(&case, &peak, lengths) > 2.0 * 79.0);
    }

    #[test]
    fn times_are_said_in_their_unit() {
        for (seconds, expected) in [
            (-1.0, "0 s"),
            (89.0, "89 s"),
            (90.0, "2 min"),
            (5_340.0, "89 min"),
            (5_400.0, "1 h 30 min"),
            (7_500.0, "2 h 5 min"),
        ] {
            assert_eq!(said(seconds), expected, "{seconds}");
        }
    }
}
