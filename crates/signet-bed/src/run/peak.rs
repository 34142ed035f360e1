//! The largest rate with no more failures than a case allows.
//!
//! A ramp finds about where it is, or an earlier round has; then rates are held, each by a
//! server that has just started, until one has no more failures than are allowed and one a
//! little above has ([`Edge`]). No rate counts that was not held for as long as any other is
//! measured.

use std::collections::BTreeMap;
use std::time::Duration;

use measure::{Ramp, RampConfig, RampStep, Second};

use super::edge::Edge;
use super::hold::{Rate, Stretch, drive, hold, plain};
use super::load::When;
use super::say;
use super::scene::Bed;
use crate::experiment::Setting;
use crate::record::{Bound, Repeat, Tried, figure};
use crate::system::Driver;

/// Seconds of a ramp.
pub(super) const RAMP_S: u64 = 10;
/// A second in which fewer of the calls that were due ended has a queue that grows.
const ENDED_MIN: f64 = 0.8;
/// The first step from what a ramp found, and from what an earlier round did.
const STEP: f64 = 0.065;
const STEP_KNOWN: f64 = 0.05;
/// How far from what an earlier round found the next one begins, at most: the rates that are
/// tried must not be the same again, or rounding would look like agreement.
const ELSEWHERE: f64 = 0.02;
/// Where fewer failures are allowed than this share, so much may have been due and not ended:
/// the last second of a stretch of four misses what is under way.
const UNDER_WAY_MAX: f64 = 0.03;
/// From this share of a core on it is full.
const FULL: f64 = 0.95;
/// A server that takes less than this of its core would hold more by more than a try is close.
const BUSY: f64 = 0.9;

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
    let mut edge = match wanted.known_per_s {
        Some(known_per_s) => Edge::new(elsewhere(known_per_s, wanted.seed), STEP_KNOWN),
        None => Edge::new(about(bed, driver, setting, wanted)?, STEP),
    };
    let (mut held, mut above) = (None, None);
    let begun_per_s = edge.next_per_s();
    let mut is_doubted = false;
    loop {
        let Some(per_s) = edge.next_per_s() else {
            let (_, not_held_per_s) = edge.found();
            let surprise = held.as_ref().zip(not_held_per_s);
            if !is_doubted
                && surprise.is_some_and(|(held, per_s)| has_room(held, per_s, driver.is_started()))
            {
                is_doubted = true;
                edge.doubt();
                continue;
            }
            break;
        };
        let rate = Rate {
            per_s,
            stretch: wanted.stretch,
            seed: wanted.seed,
            apart: None,
        };
        let tried = match hold(bed, driver, setting, rate) {
            Ok(repeat) => repeat,
            // What goes wrong above a rate that was held takes nothing from that one.
            Err(why) if held.is_some() && !bed.stop.is_asked() => {
                say(&format!("at {} a second: {why}", plain(per_s)));
                Repeat::default()
            }
            Err(why) => return Err(why),
        };
        let is_held = is_held(&tried, per_s, wanted.failures_max);
        edge.give(is_held);
        if is_held {
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
    judge(&mut repeat, above, driver.is_started());
    let (found_per_s, _) = edge.found();
    for per_s in below(found_per_s, wanted.below) {
        let rate = Rate {
            per_s,
            stretch: wanted.stretch,
            seed: wanted.seed,
            apart: None,
        };
        match hold(bed, driver, setting, rate) {
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

/// Whether both sides would have had room at a higher rate, by what they took at one that was held.
fn has_room(held: &Repeat, per_s: f64, is_database_beside: bool) -> bool {
    let held_per_s = held.figures.get(figure::RATE_PER_S).copied();
    held_per_s.is_some_and(|held_per_s| {
        let at = Taken::of(&held.figures, &held.core_busy, is_database_beside);
        at.times(per_s / held_per_s).bound() == Bound::Neither
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

/// Says of a peak what bounds it. `is_database_beside` where the database, if there is one, has
/// the load's core.
fn judge(repeat: &mut Repeat, above: Option<Tried>, is_database_beside: bool) {
    let at = Taken::of(&repeat.figures, &repeat.core_busy, is_database_beside);
    let per_s = repeat.figures.get(figure::RATE_PER_S).copied();
    let at_above = above.as_ref().map(|above| {
        let taken = match per_s {
            Some(per_s) if is_sent_again(above) => at.times(above.per_s / per_s),
            _ => Taken::of(&above.figures, &above.core_busy, is_database_beside),
        };
        (above.per_s, taken)
    });
    let most = at_above.map_or(at, |(_, above)| at.max(above));
    repeat.bound = Some(most.bound());
    if most.bound() == Bound::Load {
        let rate = match at_above {
            Some((per_s, _)) if at.bound() != Bound::Load => {
                format!(" at {} a second", plain(per_s.round()))
            }
            _ => String::new(),
        };
        repeat.doubts.push(format!(
            "The core of load, called side and database was full{rate} ({:.0}%), fuller than the \
             server's ({:.0}%): the server's peak may lie above; give the load more cores.",
            most.load * 100.0,
            most.server * 100.0
        ));
    } else if above.as_ref().is_none_or(|above| above.figures.is_empty()) {
        repeat.doubts.push(
            "No rate above it was measured and failed: the peak may lie above; run it again, or \
             give a guess that is nearer."
                .to_owned(),
        );
    }
    repeat.not_held = above;
}

/// Messages sent again for each call, from which on cores say more of them than of calls.
const SENT_AGAIN_MAX: f64 = 0.1;

/// Whether a rate that was not held tells nothing of what bounds: a moment's delay has had requests
/// sent again, and what both sides then took is the work of that. They are full because the rate
/// was not held.
fn is_sent_again(above: &Tried) -> bool {
    let sent = above.figures.get(figure::RETRANSMISSIONS);
    sent.is_some_and(|sent| *sent > SENT_AGAIN_MAX)
}

/// How full both cores were.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Taken {
    /// By the server alone: what strangers take of its core is no work of its own.
    server: f64,
    /// With load, called side and database on it, and whatever else.
    load: f64,
}

impl Taken {
    fn of(
        figures: &BTreeMap<String, f64>,
        core_busy: &BTreeMap<String, f64>,
        is_database_beside: bool,
    ) -> Self {
        let cores = |name: &str| figures.get(name).copied().unwrap_or(0.0);
        let busy = core_busy.get("load").copied().unwrap_or(0.0);
        let database = if is_database_beside {
            cores(figure::DATABASE_CORES)
        } else {
            0.0
        };
        Self {
            server: cores(figure::SERVER_CORES),
            load: (cores(figure::LOAD_CORES) + database).max(busy),
        }
    }

    /// What so many times as many calls take.
    fn times(self, factor: f64) -> Self {
        Self {
            server: self.server * factor,
            load: self.load * factor,
        }
    }

    fn max(self, other: Self) -> Self {
        Self {
            server: self.server.max(other.server),
            load: self.load.max(other.load),
        }
    }

    /// Where both cores are full, what is fuller bounds: beside a load that has even less room a
    /// server may hold more.
    fn bound(self) -> Bound {
        if self.server >= BUSY && self.server >= self.load {
            Bound::Server
        } else if self.load >= FULL || self.server >= BUSY {
            Bound::Load
        } else {
            Bound::Neither
        }
    }
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
        let (told, _, _) = drive(bed, driver, setting, &when, whole, None)?;
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
        // What never ended is not allowed on top of what may fail.
        assert!(!is_held(&repeat(94.0, 0.04), 100.0, 0.04));
        assert!(is_held(&repeat(97.5, 0.01), 100.0, 0.01));
        assert!(!is_held(&repeat(96.5, 0.01), 100.0, 0.01));
        assert!(!is_held(&Repeat::default(), 100.0, 0.04));
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

    /// What bounds a peak, by what was taken at it and at the rate above.
    fn judged(at: BTreeMap<String, f64>, above: Option<BTreeMap<String, f64>>) -> Repeat {
        let mut repeat = Repeat {
            figures: at,
            ..Repeat::default()
        };
        let above = above.map(|figures| Tried {
            per_s: 110.0,
            figures,
            ..Tried::default()
        });
        judge(&mut repeat, above, true);
        repeat
    }

    #[test]
    fn a_full_load_beside_an_idle_server_is_a_doubt() {
        let low = cores(0.6, 0.5, 0.0);
        let found = judged(cores(0.5, 0.98, 0.0), Some(low.clone()));
        assert_eq!(found.bound, Some(Bound::Load));
        assert_eq!(found.doubts.len(), 1);
        assert!(found.doubts[0].contains("was full (98%)"), "{found:?}");
        let found = judged(cores(0.99, 0.98, 0.0), Some(low.clone()));
        assert_eq!((found.bound, found.doubts.len()), (Some(Bound::Server), 0));
        let found = judged(low.clone(), Some(low));
        assert_eq!((found.bound, found.doubts.len()), (Some(Bound::Neither), 0));
    }

    #[test]
    fn the_database_is_on_the_core_of_the_load() {
        let at = cores(0.55, 0.58, 0.4);
        let found = judged(at.clone(), Some(at.clone()));
        assert_eq!((found.bound, found.doubts.len()), (Some(Bound::Load), 1));
        assert_eq!(
            Taken::of(&at, &BTreeMap::new(), false).bound(),
            Bound::Neither
        );
        // And so is whatever the kernel has there.
        let busy = [("load".to_owned(), 0.97), ("server".to_owned(), 1.0)].into();
        let taken = Taken::of(&cores(0.55, 0.7, 0.0), &busy, true);
        assert_eq!(taken.bound(), Bound::Load);
        assert_eq!(taken.server, 0.55, "the server has not taken its core");
    }

    #[test]
    fn the_rate_that_failed_tells_what_bounds_as_well() {
        // The search has stepped back from where the load was full.
        let found = judged(cores(0.7, 0.8, 0.0), Some(cores(0.75, 1.0, 0.0)));
        assert_eq!(found.bound, Some(Bound::Load));
        assert!(
            found.doubts[0].contains("at 110 a second (100%)"),
            "{found:?}"
        );
        assert_eq!(found.not_held.map(|above| above.per_s), Some(110.0));
        let found = judged(cores(0.85, 0.8, 0.0), Some(cores(0.97, 0.96, 0.0)));
        assert_eq!((found.bound, found.doubts.len()), (Some(Bound::Server), 0));
    }

    #[test]
    fn where_both_are_full_the_fuller_one_bounds() {
        let found = judged(cores(0.72, 0.74, 0.0), Some(cores(0.92, 0.94, 0.0)));
        assert_eq!((found.bound, found.doubts.len()), (Some(Bound::Load), 1));
        assert!(
            found.doubts[0].contains("(94%), fuller than the server's (92%)"),
            "{found:?}"
        );
        let found = judged(cores(0.72, 0.74, 0.0), Some(cores(0.94, 0.92, 0.0)));
        assert_eq!((found.bound, found.doubts.len()), (Some(Bound::Server), 0));
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

    #[test]
    fn what_is_sent_again_tells_nothing_of_what_bounds() {
        let with = |at: BTreeMap<String, f64>| {
            let mut at = at;
            at.insert(figure::RATE_PER_S.to_owned(), 100.0);
            let mut above = cores(0.97, 1.0, 0.0);
            above.insert(figure::RETRANSMISSIONS.to_owned(), 2.0);
            judged(at, Some(above))
        };
        let found = with(cores(0.6, 0.7, 0.0));
        assert_eq!((found.bound, found.doubts.len()), (Some(Bound::Neither), 0));
        // At 110 a second it would have been full without.
        let found = with(cores(0.83, 0.7, 0.0));
        assert_eq!(found.bound, Some(Bound::Server));
        assert_eq!(with(cores(0.6, 0.9, 0.0)).bound, Some(Bound::Load));
    }

    #[test]
    fn a_peak_with_no_failure_above_it_is_a_doubt() {
        let found = judged(cores(0.6, 0.5, 0.0), None);
        assert_eq!((found.doubts.len(), found.not_held), (1, None));
    }
}
