//! What bounds a peak: the server, the load, or neither.

use std::collections::BTreeMap;

use super::hold::plain;
use crate::record::{Bound, Repeat, Tried, figure};

/// From this share of a core on it is full.
const FULL: f64 = 0.95;
/// A server that takes less than this of its core would hold more by more than a try is close.
const BUSY: f64 = 0.9;

/// Says of a peak what bounds it.
pub(super) fn judge(repeat: &mut Repeat, above: Option<Tried>, is_started: bool) {
    repeat.is_foreign = !is_started;
    let share = repeat.server_cores_max();
    let at = Taken::of(&repeat.figures, &repeat.core_busy, is_started).of_share(share);
    let per_s = repeat.figures.get(figure::RATE_PER_S).copied();
    let at_above = above.as_ref().map(|above| {
        let taken = match per_s {
            Some(per_s) if is_sent_again(above) => at.times(above.per_s / per_s),
            _ => Taken::of(&above.figures, &above.core_busy, is_started).of_share(share),
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
        let beside = match is_started {
            true => format!(", fuller than the server's ({:.0}%)", most.server * 100.0),
            // Nobody knows how many it has.
            false => String::new(),
        };
        repeat.doubts.push(format!(
            "The core of load, called side and database was full{rate} ({:.0}%){beside}: the \
             server's peak may lie above; give the load more cores.",
            most.load * 100.0
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
pub(super) struct Taken {
    /// Of what it may have, by the server alone: what strangers take of its core is no work of its
    /// own.
    server: f64,
    /// With load, called side and database on it, and whatever else.
    load: f64,
    /// Whether the bed has started the server, which then has one core, and the database, if there
    /// is one, that of the load.
    is_started: bool,
}

impl Taken {
    pub(super) fn of(
        figures: &BTreeMap<String, f64>,
        core_busy: &BTreeMap<String, f64>,
        is_started: bool,
    ) -> Self {
        let cores = |name: &str| figures.get(name).copied().unwrap_or(0.0);
        let busy = core_busy.get("load").copied().unwrap_or(0.0);
        let database = if is_started {
            cores(figure::DATABASE_CORES)
        } else {
            0.0
        };
        Self {
            server: cores(figure::SERVER_CORES),
            load: (cores(figure::LOAD_CORES) + database).max(busy),
            is_started,
        }
    }

    /// The same of a server that has this share of its core.
    pub(super) fn of_share(self, share: f64) -> Self {
        Self {
            server: self.server / share,
            ..self
        }
    }

    /// What so many times as many calls take.
    pub(super) fn times(self, factor: f64) -> Self {
        Self {
            server: self.server * factor,
            load: self.load * factor,
            ..self
        }
    }

    fn max(self, other: Self) -> Self {
        Self {
            server: self.server.max(other.server),
            load: self.load.max(other.load),
            ..self
        }
    }

    /// Whether neither core was full.
    pub(super) fn has_room(self) -> bool {
        self.server < BUSY && self.load < FULL
    }

    /// Where both cores are full, what is fuller bounds: beside a load that has even less room a
    /// server may hold more. Of a server that may have several, no number of cores says that it was
    /// full.
    fn bound(self) -> Bound {
        if !self.is_started {
            if self.load >= FULL {
                Bound::Load
            } else {
                Bound::Neither
            }
        } else if self.server >= BUSY && self.server >= self.load {
            Bound::Server
        } else if self.load >= FULL || self.server >= BUSY {
            Bound::Load
        } else {
            Bound::Neither
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let elsewhere = Taken::of(&at, &BTreeMap::new(), false);
        assert_eq!(elsewhere.bound(), Bound::Neither);
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
    fn a_server_that_the_bed_did_not_start_is_not_said_to_be_full() {
        let foreign = |at: BTreeMap<String, f64>| {
            let mut repeat = Repeat {
                figures: at.clone(),
                ..Repeat::default()
            };
            let above = Tried {
                per_s: 110.0,
                figures: at,
                ..Tried::default()
            };
            judge(&mut repeat, Some(above), false);
            repeat
        };
        // It took 1.6 of its cores, and the load all of the one that it has.
        let found = foreign(cores(1.6, 0.99, 0.0));
        assert_eq!((found.bound, found.doubts.len()), (Some(Bound::Load), 1));
        assert!(found.doubts[0].contains("was full (99%): the server's"));
        assert!(found.is_foreign);
        // Beside a load with room it may be full or not.
        let found = foreign(cores(1.6, 0.7, 0.0));
        assert_eq!((found.bound, found.doubts.len()), (Some(Bound::Neither), 0));
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

    /// Half of a core is all of what a server has that is held to it.
    #[test]
    fn a_server_that_has_its_share_is_full() {
        let with = |share: Option<f64>, server: f64, load: f64| {
            let mut repeat = Repeat {
                figures: cores(server, load, 0.0),
                server_share: share,
                ..Repeat::default()
            };
            let above = Tried {
                per_s: 110.0,
                figures: cores(server, load, 0.0),
                ..Tried::default()
            };
            judge(&mut repeat, Some(above), true);
            repeat.bound
        };
        assert_eq!(with(Some(0.5), 0.48, 0.6), Some(Bound::Server));
        assert_eq!(with(None, 0.48, 0.6), Some(Bound::Neither));
        assert_eq!(with(Some(0.5), 0.4, 0.6), Some(Bound::Neither));
        assert_eq!(with(Some(0.5), 0.48, 0.99), Some(Bound::Load));
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
