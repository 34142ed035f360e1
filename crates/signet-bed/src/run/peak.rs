//! The largest rate with no more failures than a case allows.
//!
//! A ramp finds about where it is; then rates just below are held, each by a server that
//! has just started, until one has no more failures than are allowed. The search of `signet
//! load peak` doubles and halves with a try of seconds each time, and confirms what it found
//! three times: it is closer and takes minutes, and a run has dozens of peaks. What is held
//! here is as true: no rate counts that was not held for as long as any other is measured.

use measure::Second;

use super::hold::{Rate, Stretch, drive, hold, plain};
use super::load::When;
use super::scene::Bed;
use crate::experiment::Setting;
use crate::record::{Repeat, figure};
use crate::system::Driver;

/// Seconds of a ramp.
const RAMP_S: u64 = 10;
/// A second in which fewer of the calls that were due began is one of the generator's limit.
const STARTED_MIN: f64 = 0.9;
/// A second in which fewer of the calls that were due ended has a queue that grows.
const ENDED_MIN: f64 = 0.8;
/// Ramps until one has its peak in it.
const RAMPS_MAX: usize = 5;
/// The lowest rate that a ramp begins with.
const RATE_MIN: f64 = 4.0;
/// Shares of what the ramp found, until one is held.
const SHARES: [f64; 7] = [1.0, 0.95, 0.9, 0.84, 0.76, 0.66, 0.5];
/// A rate is held where this share of it ended well, besides what may fail.
const HELD_MIN: f64 = 0.97;
/// From this share of a core on the load is full.
const FULL: f64 = 0.95;
/// A server with a core that is less full is not what bounds.
const BUSY: f64 = 0.85;

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wanted {
    /// The share of failures that is allowed.
    pub(super) failures_max: f64,
    /// Where it may be.
    pub(super) guess_per_s: f64,
    pub(super) stretch: Stretch,
    pub(super) seed: u64,
}

/// Where a ramp had its highest rate.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Highest {
    rate_per_s: f64,
    /// Whether a second that is not held follows.
    is_bounded: bool,
}

/// The peak of a server with a setting.
pub(super) fn peak(
    bed: &Bed,
    driver: &dyn Driver,
    setting: &Setting,
    wanted: Wanted,
) -> Result<Repeat, String> {
    let about = about(bed, driver, setting, wanted)?;
    let mut last = None;
    for share in SHARES {
        let per_s = (about * share).max(1.0);
        let rate = Rate {
            per_s,
            stretch: wanted.stretch,
            seed: wanted.seed,
            apart: None,
        };
        let mut repeat = hold(bed, driver, setting, rate)?;
        if is_held(&repeat, per_s, wanted.failures_max) {
            repeat.doubts.extend(bounded_by_the_load(&repeat));
            return Ok(repeat);
        }
        last = Some(per_s);
    }
    Err(match last {
        Some(rate) => format!(
            "the ramp came to {} a second, and not even {} were held: look at the server's log",
            plain(about.round()),
            plain(rate.round())
        ),
        None => "no rate was tried".to_owned(),
    })
}

/// Whether a rate had no more failures than are allowed, and ended what was begun.
fn is_held(repeat: &Repeat, per_s: f64, failures_max: f64) -> bool {
    let of = |name: &str| repeat.figures.get(name).copied();
    let failed = of(figure::FAILED_SHARE).unwrap_or(1.0);
    let ended = of(figure::RATE_PER_S).unwrap_or(0.0);
    failed <= failures_max && ended >= per_s * HELD_MIN * (1.0 - failures_max)
}

/// A doubt where the load was full and the server was not.
fn bounded_by_the_load(repeat: &Repeat) -> Option<String> {
    let of = |name: &str| repeat.figures.get(name).copied();
    let (load, server) = (of(figure::LOAD_CORES)?, of(figure::SERVER_CORES)?);
    (load >= FULL && server < BUSY).then(|| {
        format!(
            "The load had its core full ({:.0}%) and the server its own not ({:.0}%): the server's \
             peak lies above; give the load more cores.",
            load * 100.0,
            server * 100.0
        )
    })
}

/// About where the peak is.
fn about(bed: &Bed, driver: &dyn Driver, setting: &Setting, wanted: Wanted) -> Result<f64, String> {
    let guess = wanted.guess_per_s;
    let (mut from, mut to) = (guess * 0.5, guess * 1.5);
    let mut last = None;
    for _ in 0..RAMPS_MAX {
        from = from.max(RATE_MIN);
        to = to.max(from * 2.0);
        let when = When {
            schedule: format!("ramp {}..{}/s over {RAMP_S}s", plain(from), plain(to)),
            seconds: RAMP_S,
            seed: wanted.seed,
        };
        let (told, _, _) = drive(bed, driver, setting, &when, None)?;
        let seconds: Vec<Second> = told.between(0, RAMP_S).copied().collect();
        match highest(&seconds, wanted.failures_max, setting.hold_ms) {
            Some(found) if found.is_bounded => return Ok(found.rate_per_s),
            Some(found) => {
                last = Some(found.rate_per_s);
                (from, to) = (to * 0.7, to * 2.0);
            }
            None if from <= RATE_MIN => break,
            None => (from, to) = (from * 0.25, from * 1.1),
        }
    }
    last.ok_or_else(|| "not even the lowest rate is held: look at the server's log".to_owned())
}

/// The highest rate of two seconds in a row before one that is not held; `None` where that
/// comes first. The first second has calls that did not have time to end.
fn highest(seconds: &[Second], failures_max: f64, hold_ms: u64) -> Option<Highest> {
    // What is held for a while ends at the rate of a while ago.
    let held_s = hold_ms.div_ceil(1_000) as usize;
    let is_held = |(at, second): &(usize, &Second)| {
        let ended = (second.succeeded + second.failed) as f64;
        let due_then = at
            .checked_sub(held_s)
            .and_then(|then| seconds.get(then))
            .map_or(0, |second| second.due);
        let is_served = second.failed as f64 <= failures_max * ended;
        let is_begun = second.started as f64 >= STARTED_MIN * second.due as f64;
        let is_ended = ended >= ENDED_MIN * due_then as f64;
        is_served && is_begun && is_ended
    };
    let all = seconds.iter().enumerate().skip(1);
    let held: Vec<&Second> = all.take_while(is_held).map(|(_, second)| second).collect();
    let is_bounded = held.len() + 1 < seconds.len();
    let rates = held.windows(2).filter_map(|pair| match pair {
        [a, b] => Some((a.succeeded + b.succeeded) as f64 / 2.0),
        _ => None,
    });
    rates
        .max_by(f64::total_cmp)
        .filter(|rate| *rate > 0.0)
        .map(|rate_per_s| Highest {
            rate_per_s,
            is_bounded,
        })
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

    fn found(seconds: &[Second]) -> Option<(f64, bool)> {
        highest(seconds, 0.01, 0).map(|found| (found.rate_per_s, found.is_bounded))
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
        assert_eq!(found(&seconds), Some((115.0, true)));
    }

    #[test]
    fn a_ramp_without_failures_has_no_bound() {
        let seconds = [second(0, 5, 0), second(1, 10, 0), second(2, 20, 0)];
        assert_eq!(found(&seconds), Some((15.0, false)));
    }

    #[test]
    fn failures_from_the_beginning_are_no_peak() {
        let seconds = [second(0, 5, 0), second(1, 10, 10), second(2, 20, 0)];
        assert_eq!(found(&seconds), None);
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn a_queue_that_grows_ends_the_ramp_before_anything_fails() {
        let mut slow = second(3, 120, 0);
        (slow.due, slow.started) = (200, 200);
        let seconds = [second(0, 5, 0), second(1, 100, 0), second(2, 110, 0), slow];
        assert_eq!(found(&seconds), Some((105.0, true)));
    }

    #[test]
    fn what_is_held_for_a_while_ends_later() {
        let mut seconds: Vec<Second> = (0..8)
            .map(|at_s| {
                let due = 100 + 50 * at_s;
                let ended = if at_s >= 3 { 100 + 50 * (at_s - 3) } else { 0 };
                Second {
                    due,
                    started: due,
                    ..second(at_s, ended, 0)
                }
            })
            .collect();
        let found = highest(&seconds, 0.01, 3_000).unwrap();
        assert_eq!((found.rate_per_s, found.is_bounded), (275.0, false));
        assert_eq!(highest(&seconds, 0.01, 0), None);
        // And where it does not end it is a queue again.
        if let Some(last) = seconds.last_mut() {
            last.succeeded = 200;
        }
        assert!(highest(&seconds, 0.01, 3_000).unwrap().is_bounded);
    }

    #[test]
    fn a_rate_is_held_with_the_failures_that_are_allowed() {
        let repeat = |rate: f64, failed: f64| Repeat {
            figures: [
                (figure::RATE_PER_S.to_owned(), rate),
                (figure::FAILED_SHARE.to_owned(), failed),
            ]
            .into(),
            ..Repeat::default()
        };
        assert!(is_held(&repeat(99.0, 0.0), 100.0, 0.0));
        assert!(!is_held(&repeat(96.0, 0.0), 100.0, 0.0));
        assert!(is_held(&repeat(96.0, 0.04), 100.0, 0.04));
        assert!(!is_held(&repeat(96.0, 0.05), 100.0, 0.04));
        assert!(!is_held(&Repeat::default(), 100.0, 0.04));
    }

    #[test]
    fn a_full_load_beside_an_idle_server_is_a_doubt() {
        let repeat = |load: f64, server: f64| Repeat {
            figures: [
                (figure::LOAD_CORES.to_owned(), load),
                (figure::SERVER_CORES.to_owned(), server),
            ]
            .into(),
            ..Repeat::default()
        };
        assert!(bounded_by_the_load(&repeat(0.98, 0.5)).is_some());
        assert!(bounded_by_the_load(&repeat(0.98, 0.99)).is_none());
        assert!(bounded_by_the_load(&repeat(0.6, 0.5)).is_none());
        assert!(bounded_by_the_load(&Repeat::default()).is_none());
    }
}
