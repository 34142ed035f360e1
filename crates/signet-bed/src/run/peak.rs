//! The largest rate with no more failures than a case allows.
//!
//! A ramp finds about where it is, or an earlier round has; then rates are held, each by a
//! server that has just started, until one has no more failures than are allowed and one a
//! little above has ([`Edge`]). No rate counts that was not held for as long as any other is
//! measured, nor more of it than was asked for.

use std::time::Duration;

use measure::{Ramp, RampConfig, RampStep, Second};

use super::bound::{Taken, judge};
use super::edge::Edge;
use super::hold::{Rate, Stretch, drive, hold, plain};
use super::load::When;
use super::say;
use super::scene::Bed;
use crate::experiment::{Setting, UNDER_WAY_MAX};
use crate::record::{Repeat, Tried, figure};
use crate::system::Driver;

/// Seconds of a ramp.
pub(super) const RAMP_S: u64 = 8;
/// A second in which fewer of the calls that were due ended has a queue that grows.
const ENDED_MIN: f64 = 0.8;
/// The first step from what a ramp found, and from what an earlier round did.
const STEP: f64 = 0.065;
const STEP_KNOWN: f64 = 0.05;
/// How far from what an earlier round found the next one begins, at most: the rates that are
/// tried must not be the same again, or rounding would look like agreement.
const ELSEWHERE: f64 = 0.02;

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wanted<'a> {
    /// The share of failures that is allowed.
    pub(super) failures_max: f64,
    /// Where it may be.
    pub(super) guess_per_s: f64,
    /// Where an earlier round found it.
    pub(super) known_per_s: Option<f64>,
    pub(super) stretch: Stretch,
    pub(super) seed: u64,
    /// Shares of it that are held after it is found.
    pub(super) below: &'a [f64],
}

/// The peak of a server with a setting.
pub(super) fn peak(
    bed: &Bed,
    driver: &dyn Driver,
    setting: &Setting,
    wanted: Wanted<'_>,
) -> Result<Repeat, String> {
    let edge = match wanted.known_per_s {
        Some(known_per_s) => Edge::new(elsewhere(known_per_s, wanted.seed), STEP_KNOWN),
        None => Edge::new(about(bed, driver, setting, wanted)?, STEP),
    };
    let hold_rate = |per_s: f64| {
        let rate = Rate {
            per_s,
            stretch: wanted.stretch,
            seed: wanted.seed,
            apart: None,
        };
        hold(bed, driver, setting, rate)
    };
    let try_rate = |per_s: f64, is_one_held: bool| match hold_rate(per_s) {
        // What goes wrong above a rate that was held takes nothing from that one.
        Err(why) if is_one_held && !bed.stop.is_asked() => {
            say(&format!("at {} a second: {why}", plain(per_s)));
            Ok(Repeat::default())
        }
        outcome => outcome,
    };
    let mut repeat = search(edge, wanted.failures_max, driver.is_started(), try_rate)?;
    for per_s in below(repeat.held_per_s, wanted.below) {
        match hold_rate(per_s) {
            Ok(tried) => repeat.below.push(of_rate(per_s, tried)),
            // What goes wrong after the peak was found takes nothing from it.
            Err(why) if !bed.stop.is_asked() => {
                say(&format!("at {} a second: {why}", plain(per_s)));
            }
            Err(why) => return Err(why),
        }
    }
    Ok(repeat)
}

/// Tries rates until the edge is found: the highest that was held, with the lowest above it that
/// was not and what bounds it. `hold` is told the rate, and whether one below it was held.
fn search(
    mut edge: Edge,
    failures_max: f64,
    is_started: bool,
    mut hold: impl FnMut(f64, bool) -> Result<Repeat, String>,
) -> Result<Repeat, String> {
    let (mut held, mut above): (Option<Repeat>, Option<Tried>) = (None, None);
    let begun_per_s = edge.next_per_s();
    let mut is_doubted = false;
    loop {
        let Some(per_s) = edge.next_per_s() else {
            let (_, not_held_per_s) = edge.found();
            let surprise = held.as_ref().zip(not_held_per_s);
            if !is_doubted
                && surprise.is_some_and(|(held, per_s)| has_room(held, per_s, is_started))
            {
                is_doubted = true;
                edge.doubt();
                // Until it has failed again nothing above has.
                above = None;
                continue;
            }
            break;
        };
        let mut tried = hold(per_s, held.is_some())?;
        let is_held = is_held(&tried, per_s, failures_max);
        edge.give(is_held);
        if is_held {
            bound_by(&mut tried, per_s);
            held = Some(tried);
        } else {
            above = Some(of_rate(per_s, tried));
        }
    }
    let Some(mut repeat) = held else {
        let (_, least_per_s) = edge.found();
        let of = |rate: Option<f64>| plain(rate.unwrap_or(0.0).round());
        return Err(format!(
            "from {} a second down to {} no rate was held: look at the server's log",
            of(begun_per_s),
            of(least_per_s)
        ));
    };
    judge(&mut repeat, above, is_started);
    Ok(repeat)
}

/// What ends beyond the rate that was asked for had waited since before the measuring, and is no
/// part of what was held: neither are its bytes, nor calls that were open at once because of it.
fn bound_by(held: &mut Repeat, per_s: f64) {
    held.held_per_s = Some(per_s);
    let figures = &mut held.figures;
    let Some(&ended_per_s) = figures.get(figure::RATE_PER_S) else {
        return;
    };
    if ended_per_s <= per_s {
        return;
    }
    figures.insert(figure::RATE_PER_S.to_owned(), per_s);
    if let Some(bits_per_s) = figures.get_mut(figure::DATABASE_BITS_PER_S) {
        *bits_per_s *= per_s / ended_per_s;
    }
    // How many of them are of the backlog nobody knows.
    if ended_per_s > per_s * (1.0 + UNDER_WAY_MAX) {
        figures.remove(figure::CONCURRENT_MAX);
    }
}

/// Whether both sides would have had room at a higher rate, by what they took at one that was held.
fn has_room(held: &Repeat, per_s: f64, is_started: bool) -> bool {
    let held_per_s = held.figures.get(figure::RATE_PER_S).copied();
    held_per_s.is_some_and(|held_per_s| {
        let at = Taken::of(&held.figures, &held.core_busy, is_started);
        let at = at.of_share(held.server_cores_max());
        at.times(per_s / held_per_s).has_room()
    })
}

/// What came of a rate.
fn of_rate(per_s: f64, repeat: Repeat) -> Tried {
    Tried {
        per_s,
        figures: repeat.figures,
        core_busy: repeat.core_busy,
    }
}

/// Shares of a peak, in whole calls.
fn below(found_per_s: Option<f64>, shares: &[f64]) -> Vec<f64> {
    let of_share = |share: &f64| Some((found_per_s? * share).round().max(1.0));
    shares.iter().filter_map(of_share).collect()
}

/// A rate near one that is known.
fn elsewhere(known_per_s: f64, seed: u64) -> f64 {
    let drawn = fastrand::Rng::with_seed(seed).f64();
    known_per_s * (1.0 + ELSEWHERE * (2.0 * drawn - 1.0))
}

/// Whether a rate had no more failures than are allowed, and ended what was begun: where more
/// may fail than is under way at the end, both together are no more than that.
fn is_held(repeat: &Repeat, per_s: f64, failures_max: f64) -> bool {
    let of = |name: &str| repeat.figures.get(name).copied();
    let failed = of(figure::FAILED_SHARE).unwrap_or(1.0);
    let ended = of(figure::RATE_PER_S).unwrap_or(0.0);
    failed <= failures_max && ended >= per_s * (1.0 - failures_max.max(UNDER_WAY_MAX))
}

/// About where the peak is.
fn about(
    bed: &Bed,
    driver: &dyn Driver,
    setting: &Setting,
    wanted: Wanted<'_>,
) -> Result<f64, String> {
    let mut ramp = Ramp::new(RampConfig {
        guess_per_s: wanted.guess_per_s,
        failures_max: wanted.failures_max,
        ended_min: ENDED_MIN,
        hold_ms: setting.hold_ms,
        // What comes of it is held for longer from there on.
        is_fine: false,
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
        let whole = Duration::from_secs(RAMP_S);
        let driven = drive(bed, driver, setting, &when, whole, None)?;
        let seconds: Vec<Second> = driven.told.between(0, RAMP_S).copied().collect();
        ramp.give(&seconds);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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
        // What never ended is not allowed on top of what may fail.
        assert!(!is_held(&repeat(94.0, 0.04), 100.0, 0.04));
        assert!(is_held(&repeat(97.5, 0.01), 100.0, 0.01));
        assert!(!is_held(&repeat(96.5, 0.01), 100.0, 0.01));
        assert!(!is_held(&Repeat::default(), 100.0, 0.04));
    }

    /// What comes of a rate: so much ended, on cores with so much room.
    fn outcome(ended_per_s: f64, failed: f64, cores: f64) -> Repeat {
        let mut figures = self::cores(cores, cores, 0.0);
        figures.insert(figure::RATE_PER_S.to_owned(), ended_per_s);
        figures.insert(figure::FAILED_SHARE.to_owned(), failed);
        Repeat {
            figures,
            ..Repeat::default()
        }
    }

    #[test]
    fn no_peak_is_above_what_was_asked_for() {
        // What waited since before the measuring ends in it.
        let found = search(Edge::new(900.0, STEP), 0.01, true, |per_s, _| {
            let failed = if per_s < 1_000.0 { 0.0 } else { 1.0 };
            Ok(outcome(1.08 * per_s, failed, 0.95))
        });
        let found = found.unwrap();
        let above_per_s = found.not_held.unwrap().per_s;
        let peak_per_s = found.figures[figure::RATE_PER_S];
        assert_eq!(found.held_per_s, Some(peak_per_s));
        assert!(peak_per_s < 1_000.0 && above_per_s >= 1_000.0);
        assert!(above_per_s <= peak_per_s * 1.07, "{peak_per_s}");
    }

    #[test]
    fn what_had_waited_is_in_no_figure_of_a_peak() {
        for (ended, has_concurrent) in [(1.08, false), (1.02, true), (0.99, true)] {
            let mut held = outcome(1_000.0 * ended, 0.0, 0.95);
            let bits = figure::DATABASE_BITS_PER_S.to_owned();
            held.figures.insert(bits, 1_000_000.0 * ended);
            let concurrent = figure::CONCURRENT_MAX.to_owned();
            held.figures.insert(concurrent, 2_000.0);
            bound_by(&mut held, 1_000.0);
            let per_call =
                held.figures[figure::DATABASE_BITS_PER_S] / held.figures[figure::RATE_PER_S];
            assert!((per_call - 1_000.0).abs() < 1e-6, "{per_call}");
            let concurrent = held.figures.get(figure::CONCURRENT_MAX);
            assert_eq!(concurrent.is_some(), has_concurrent, "{ended}");
        }
    }

    #[test]
    fn after_a_doubt_only_what_fails_again_stands_above() {
        // The machine stands still for four tries; then all that is asked for is held.
        let mut tries = 0;
        let found = search(Edge::new(1_000.0, STEP), 0.01, true, |per_s, _| {
            tries += 1;
            let failed = if tries <= 4 { 1.0 } else { 0.0 };
            Ok(outcome(per_s, failed, 0.5))
        });
        let found = found.unwrap();
        assert!(found.figures[figure::RATE_PER_S] > 1_000.0, "{found:?}");
        assert_eq!(found.not_held, None);
        assert_eq!(found.doubts.len(), 1, "{found:?}");
        assert!(found.doubts[0].contains("No rate above it was measured and failed"));
        // One that fails again is the rate above.
        let found = search(Edge::new(1_000.0, STEP), 0.01, true, |per_s, _| {
            let failed = if per_s > 900.0 { 1.0 } else { 0.0 };
            Ok(outcome(per_s, failed, 0.5))
        });
        let found = found.unwrap();
        assert!(found.doubts.is_empty(), "{found:?}");
        assert!(found.not_held.unwrap().per_s > 900.0);
    }

    #[test]
    fn shares_of_a_peak_are_rates_in_whole_calls() {
        assert_eq!(below(Some(1_001.0), &[0.5, 0.75]), [501.0, 751.0]);
        assert_eq!(below(Some(1.0), &[0.3]), [1.0]);
        assert!(below(Some(1_000.0), &[]).is_empty());
    }

    #[test]
    fn a_later_round_begins_near_what_is_known_and_not_at_it() {
        let begun: Vec<f64> = (0..20).map(|seed| elsewhere(1_000.0, seed)).collect();
        for per_s in &begun {
            assert!((per_s - 1_000.0).abs() <= 20.0, "{per_s}");
        }
        assert!(begun.windows(2).any(|pair| pair[0] != pair[1]));
    }

    fn cores(server: f64, load: f64, database: f64) -> BTreeMap<String, f64> {
        [
            (figure::SERVER_CORES.to_owned(), server),
            (figure::LOAD_CORES.to_owned(), load),
            (figure::DATABASE_CORES.to_owned(), database),
        ]
        .into()
    }

    #[test]
    fn a_rate_is_doubted_where_both_had_room() {
        let held = |server: f64, load: f64| {
            let mut figures = cores(server, load, 0.0);
            figures.insert(figure::RATE_PER_S.to_owned(), 1_000.0);
            Repeat {
                figures,
                ..Repeat::default()
            }
        };
        assert!(has_room(&held(0.72, 0.74), 1_070.0, true));
        assert!(!has_room(&held(0.88, 0.74), 1_070.0, true));
        assert!(!has_room(&held(0.72, 0.92), 1_070.0, true));
        assert!(!has_room(&Repeat::default(), 1_070.0, true));
    }
}
