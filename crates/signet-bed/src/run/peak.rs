//! The largest rate with no more failures than a case allows.
//!
//! A ramp finds about where it is; then rates just below are held, each by a server that
//! has just started, until one has no more failures than are allowed. The search of `signet
//! load peak` doubles and halves with a try of seconds each time, and confirms what it found
//! three times: it is closer and takes minutes, and a run has dozens of peaks. What is held
//! here is as true: no rate counts that was not held for as long as any other is measured.

use measure::{Ramp, RampConfig, RampStep, Second};

use super::hold::{Rate, Stretch, drive, hold, plain};
use super::load::When;
use super::scene::Bed;
use crate::experiment::Setting;
use crate::record::{Repeat, figure};
use crate::system::Driver;

/// Seconds of a ramp.
const RAMP_S: u64 = 10;
/// A second in which fewer of the calls that were due ended has a queue that grows.
const ENDED_MIN: f64 = 0.8;
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
    let mut ramp = Ramp::new(RampConfig {
        guess_per_s: wanted.guess_per_s,
        failures_max: wanted.failures_max,
        ended_min: ENDED_MIN,
        hold_ms: setting.hold_ms,
    });
    loop {
        let (from, to) = match ramp.next() {
            RampStep::Try {
                from_per_s,
                to_per_s,
            } => (from_per_s, to_per_s),
            RampStep::Done(Some(found)) => return Ok(found.rate_per_s),
            RampStep::Done(None) => {
                return Err("not even the lowest rate is held: look at the server's log".to_owned());
            }
        };
        let when = When {
            schedule: format!("ramp {}..{}/s over {RAMP_S}s", plain(from), plain(to)),
            seconds: RAMP_S,
            seed: wanted.seed,
        };
        let (told, _, _) = drive(bed, driver, setting, &when, None)?;
        let seconds: Vec<Second> = told.between(0, RAMP_S).copied().collect();
        ramp.give(&seconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
