//! The highest rate with fewer than one failure in a hundred and no queue that grows, found by
//! a ramp.

use std::collections::BTreeMap;

use measure::Second;
use serde::{Deserialize, Serialize};

use super::load::Callers;
use super::scene::{Scene, Taken, Watch, bound, taken};
use super::server::figures;
use super::{Bench, ports};

/// The share of failures that is too many, as in the paper.
const FAILURES_MAX: f64 = 0.01;
/// A second in which fewer of the calls that were due began is one of the generator's limit.
const STARTED_MIN: f64 = 0.9;
/// A second in which fewer ended than were due leaves a queue that grows: nobody is refused yet,
/// but everybody waits.
const ENDED_MIN: f64 = 0.9;
/// Ramps until one has its peak in it.
const RAMPS_MAX: usize = 5;
/// The lowest rate that a ramp begins with.
const RATE_MIN: f64 = 4.0;

/// A peak, and what it took.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Peak {
    /// Calls a second that ended well: authentications.
    pub(super) rate_per_s: f64,
    /// Set-up delay in that second, from the time at which each call was due.
    pub(super) setup_p50_ms: f64,
    pub(super) setup_p99_ms: f64,
    /// Payload both ways between server and database.
    pub(super) bytes_each: f64,
    /// With headers, acknowledgements left out.
    pub(super) wire_bytes_each: f64,
    pub(super) packets_each: f64,
    pub(super) round_trips_each: f64,
    /// Cores that server, relay, database and load took.
    pub(super) cores: [f64; 4],
    /// What bounds it.
    pub(super) bound: String,
    /// How late the relay was, one in a hundred.
    pub(super) relay_late_p99_us: f64,
    /// What Signet said of its look-ups at the end of the ramp.
    pub(super) figures: BTreeMap<String, f64>,
    /// Why calls failed, all of the ramp.
    pub(super) causes: BTreeMap<String, u64>,
}

/// Where a ramp had its highest rate.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Highest {
    at_s: u64,
    rate_per_s: f64,
    /// Whether a second with too many failures follows.
    is_bounded: bool,
}

/// The highest rate of two seconds in a row before one with too many failures; `None` where
/// these come first. The first second has calls that did not have time to end.
fn highest(seconds: &[Second]) -> Option<Highest> {
    let is_held = |second: &&Second| {
        let ended = (second.succeeded + second.failed) as f64;
        let is_served = second.failed as f64 <= FAILURES_MAX * ended;
        let is_begun = second.started as f64 >= STARTED_MIN * second.due as f64;
        let is_in_time = ended >= ENDED_MIN * second.due as f64;
        is_served && is_begun && is_in_time
    };
    let held: Vec<&Second> = seconds.iter().skip(1).take_while(is_held).collect();
    let is_bounded = held.len() + 1 < seconds.len();
    let mut best: Option<Highest> = None;
    for pair in held.windows(2) {
        let [a, b] = pair else { continue };
        let rate_per_s = (a.succeeded + b.succeeded) as f64 / 2.0;
        if best.is_none_or(|best| rate_per_s > best.rate_per_s) {
            best = Some(Highest {
                at_s: a.at_s,
                rate_per_s,
                is_bounded,
            });
        }
    }
    best
}

impl Bench<'_> {
    /// Seconds of a ramp.
    const fn ramp_s(&self) -> u64 {
        if self.is_quick() { 6 } else { 12 }
    }

    /// The peak of what is on the stage, which is guessed to be near `guess_per_s`.
    pub(super) fn peak(
        &self,
        scene: &Scene<'_>,
        guess_per_s: f64,
        callers: Callers<'_>,
    ) -> Result<Peak, String> {
        let (mut from, mut to) = (guess_per_s * 0.5, guess_per_s * 1.5);
        let mut last = None;
        for _ in 0..RAMPS_MAX {
            from = from.max(RATE_MIN);
            to = to.max(from * 2.0);
            let (peak, is_bounded) = self.ramp(scene, (from, to), callers)?;
            match peak {
                Some(peak) if is_bounded => return Ok(peak),
                Some(peak) => {
                    last = Some(peak);
                    (from, to) = (to * 0.6, to * 2.0);
                }
                None if from <= RATE_MIN => break,
                None => (from, to) = (from * 0.25, from * 1.1),
            }
        }
        last.ok_or_else(|| "not even the lowest rate is held".to_owned())
    }

    fn ramp(
        &self,
        scene: &Scene<'_>,
        (from, to): (f64, f64),
        callers: Callers<'_>,
    ) -> Result<(Option<Peak>, bool), String> {
        let seconds = self.ramp_s();
        let schedule = format!("ramp {from:.0}..{to:.0}/s over {seconds}s");
        let load = self.call_by_known(&schedule, seconds, callers, from)?;
        let ids = [
            Some(scene.server.id()),
            Some(scene.relay.process.id()),
            Some(scene.database.process.id()),
            Some(load.process.id()),
        ];
        let watch = Watch::begin(ids, Box::new(scene.relay.glance()));
        let told = load.end();
        let looks = watch.end();
        let told = told?;
        let Some(found) = highest(&told.seconds) else {
            return Ok((None, true));
        };
        let (from_s, to_s) = (found.at_s as f64, found.at_s as f64 + 2.3);
        let held = taken(&looks, from_s, to_s).unwrap_or_default();
        // What is full shows when a little more is asked for.
        let beyond = taken(&looks, from_s + 1.0, to_s + 1.0).unwrap_or(held);
        let rate = found.rate_per_s.max(1.0);
        let of = |pick: fn(&Second) -> u64| {
            let within = told.between(found.at_s, found.at_s + 2).map(pick);
            within.max().unwrap_or(0) as f64 / 1_000.0
        };
        let peak = Peak {
            rate_per_s: found.rate_per_s,
            setup_p50_ms: of(|second| second.p50_us),
            setup_p99_ms: of(|second| second.p99_us),
            bytes_each: held.bytes_per_s / rate,
            wire_bytes_each: held.wire_bytes_per_s / rate,
            packets_each: held.packets_per_s / rate,
            round_trips_each: held.round_trips_per_s / rate,
            cores: held.cores,
            bound: self.bound_of(&beyond),
            relay_late_p99_us: held.relay_late_p99_us,
            figures: figures(self.port(ports::METRICS)).unwrap_or_default(),
            causes: told.causes,
        };
        Ok((Some(peak), found.is_bounded))
    }

    fn bound_of(&self, taken: &Taken) -> String {
        bound(&self.arguments.cores, taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(at_s: u64, succeeded: u64, failed: u64) -> Second {
        Second {
            at_s,
            due: succeeded + failed,
            started: succeeded + failed,
            succeeded,
            failed,
            ..Second::default()
        }
    }

    #[test]
    fn the_peak_is_before_the_first_second_with_too_many_failures() {
        let seconds = [
            second(0, 5, 0),
            second(1, 100, 0),
            second(2, 110, 1),
            second(3, 120, 1),
            second(4, 150, 30),
            second(5, 900, 0),
        ];
        let found = highest(&seconds).unwrap();
        assert_eq!((found.at_s, found.rate_per_s), (2, 115.0));
        assert!(found.is_bounded);
    }

    #[test]
    fn a_ramp_without_failures_has_no_bound() {
        let seconds = [second(0, 5, 0), second(1, 10, 0), second(2, 20, 0)];
        let found = highest(&seconds).unwrap();
        assert_eq!((found.rate_per_s, found.is_bounded), (15.0, false));
    }

    #[test]
    fn failures_from_the_beginning_are_no_peak() {
        let seconds = [second(0, 5, 0), second(1, 10, 10), second(2, 20, 0)];
        assert_eq!(highest(&seconds), None);
        assert_eq!(highest(&[]), None);
    }

    #[test]
    fn a_queue_that_grows_ends_the_ramp() {
        let mut queued = second(3, 300, 0);
        queued.due = 400;
        queued.started = 400;
        let seconds = [
            second(0, 5, 0),
            second(1, 200, 0),
            second(2, 210, 0),
            queued,
        ];
        let found = highest(&seconds).unwrap();
        assert_eq!((found.rate_per_s, found.is_bounded), (205.0, true));
    }

    #[test]
    fn a_generator_that_does_not_keep_up_ends_the_ramp() {
        let mut late = second(3, 120, 0);
        late.due = 200;
        let seconds = [second(0, 5, 0), second(1, 100, 0), second(2, 110, 0), late];
        let found = highest(&seconds).unwrap();
        assert_eq!((found.rate_per_s, found.is_bounded), (105.0, true));
    }
}
