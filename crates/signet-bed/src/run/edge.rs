//! Which rates are held to find a peak: up until one is not held or down until one is, then
//! between the two.
//!
//! The first steps are as small as the two rates are close at the end; then they grow, so that a
//! bad beginning costs a few tries and not many. A rate that is not held is tried once more only
//! where that was a surprise ([`Edge::doubt`]): the search of `signet load peak`, which does so
//! always, takes minutes, and a run has dozens of peaks, most of them found more than once.

use invariant::broken;

use crate::experiment::RESOLUTION;

/// By how much more the next step goes, where some led to no other outcome.
const STEP_GROWTH: f64 = 2.0;
/// Steps before they grow.
const STEPS_ALIKE: u32 = 2;
/// The largest step.
const STEP_MAX: f64 = 0.4;
/// Rates that are tried.
const TRIES_MAX: u32 = 8;
/// Rates that are tried at least after a doubt, if so many are needed.
const TRIES_AGAIN: u32 = 4;
/// The lowest rate.
const RATE_MIN_PER_S: f64 = 1.0;

/// Rates that are tried, one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Edge {
    next_per_s: Option<f64>,
    first_step: f64,
    step: f64,
    tries: u32,
    held_per_s: Option<f64>,
    not_held_per_s: Option<f64>,
}

impl Edge {
    /// Begins at a rate; the first step from there is this share of it.
    pub(super) fn new(start_per_s: f64, step: f64) -> Self {
        Self {
            next_per_s: Some(start_per_s.max(RATE_MIN_PER_S)),
            first_step: step,
            step,
            tries: 0,
            held_per_s: None,
            not_held_per_s: None,
        }
    }

    /// The rate that is to be held next; `None` at the end.
    pub(super) const fn next_per_s(&self) -> Option<f64> {
        self.next_per_s
    }

    /// Whether the rate that was asked for was held.
    pub(super) fn give(&mut self, is_held: bool) {
        let Some(tried_per_s) = self.next_per_s else {
            return broken!("an outcome is given for a rate that was asked for");
        };
        self.tries += 1;
        if is_held {
            self.held_per_s = Some(tried_per_s);
        } else {
            self.not_held_per_s = Some(tried_per_s);
        }
        let is_last = self.tries >= TRIES_MAX;
        let next_per_s = match (self.held_per_s, self.not_held_per_s) {
            (Some(held), Some(not_held)) => {
                (not_held - held > held * RESOLUTION).then(|| f64::midpoint(held, not_held))
            }
            (Some(held), None) => Some(held * (1.0 + self.step)),
            (None, _) if tried_per_s <= RATE_MIN_PER_S => None,
            (None, _) => Some((tried_per_s * (1.0 - self.step)).max(RATE_MIN_PER_S)),
        };
        if self.tries >= STEPS_ALIKE {
            self.step = (self.step * STEP_GROWTH).min(STEP_MAX);
        }
        self.next_per_s = next_per_s.filter(|_| !is_last);
    }

    /// Has the lowest rate that was not held tried once more, and goes on from there: both sides
    /// would have had room at it, so that a moment in which the machine stood still is a likelier
    /// reason than the rate. At the end of a search, and once in it.
    pub(super) fn doubt(&mut self) {
        let Some(not_held_per_s) = self.not_held_per_s.take() else {
            return broken!("a rate that is doubted was tried and not held");
        };
        self.next_per_s = Some(not_held_per_s);
        self.step = self.first_step;
        self.tries = self.tries.min(TRIES_MAX - TRIES_AGAIN);
    }

    /// The highest rate that was held, and the lowest above it that was not.
    pub(super) const fn found(&self) -> (Option<f64>, Option<f64>) {
        (self.held_per_s, self.not_held_per_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates that are tried against a server that holds so much.
    fn tries(start_per_s: f64, step: f64, holds_per_s: f64) -> (Vec<f64>, Edge) {
        let mut edge = Edge::new(start_per_s, step);
        let mut tried = Vec::new();
        while let Some(per_s) = edge.next_per_s() {
            tried.push(per_s.round());
            edge.give(per_s <= holds_per_s);
        }
        (tried, edge)
    }

    #[test]
    fn a_rate_that_is_held_is_no_peak_before_one_above_is_not() {
        let (tried, edge) = tries(1_000.0, 0.065, 1_070.0);
        assert_eq!(tried, [1_000.0, 1_065.0, 1_134.0]);
        assert_eq!(edge.held_per_s.map(f64::round), Some(1_065.0));
        assert_eq!(edge.not_held_per_s.map(f64::round), Some(1_134.0));
        // A beginning that is far below the peak is left behind.
        let (tried, edge) = tries(1_000.0, 0.065, 1_900.0);
        assert!(tried.len() <= 8, "{tried:?}");
        assert!(edge.held_per_s.unwrap() > 1_700.0, "{edge:?}");
        assert!(edge.not_held_per_s.unwrap() > 1_900.0, "{edge:?}");
    }

    #[test]
    fn the_two_rates_are_close_to_each_other() {
        for holds_per_s in (500..2_000).step_by(7).map(f64::from) {
            for step in [0.05, 0.065] {
                let (tried, edge) = tries(1_000.0, step, holds_per_s);
                let (Some(held), Some(not_held)) = edge.found() else {
                    panic!("{holds_per_s}: {edge:?}")
                };
                assert!(held <= holds_per_s && holds_per_s < not_held, "{edge:?}");
                let is_close = not_held - held <= held * RESOLUTION;
                assert!(is_close || tried.len() == 8, "{holds_per_s}: {tried:?}");
            }
        }
        // Near the beginning that takes two tries or three.
        for (holds_per_s, expected) in [(900.0, 3), (950.0, 2), (1_050.0, 2), (1_100.0, 3)] {
            assert_eq!(tries(1_000.0, 0.065, holds_per_s).0.len(), expected);
        }
    }

    #[test]
    fn a_rate_that_is_doubted_is_tried_again_and_left_behind_where_it_is_held() {
        // The first was not held by chance; what is below it is.
        let mut edge = Edge::new(1_000.0, 0.065);
        edge.give(false);
        edge.give(true);
        assert_eq!(edge.found(), (Some(935.0), Some(1_000.0)));
        assert_eq!(edge.next_per_s(), None);
        edge.doubt();
        let mut tried = Vec::new();
        while let Some(per_s) = edge.next_per_s() {
            tried.push(per_s.round());
            edge.give(per_s <= 1_150.0);
        }
        assert_eq!(tried, [1_000.0, 1_065.0, 1_203.0, 1_134.0]);
        assert_eq!(edge.found().0.map(f64::round), Some(1_134.0));
        // Where it is not held again, it was the rate.
        let mut edge = Edge::new(1_000.0, 0.065);
        edge.give(false);
        edge.give(true);
        edge.doubt();
        edge.give(false);
        assert_eq!(edge.found(), (Some(935.0), Some(1_000.0)));
        assert_eq!(edge.next_per_s(), None);
    }

    #[test]
    fn what_has_no_edge_ends() {
        let (tried, edge) = tries(1_000.0, 0.065, 0.0);
        assert_eq!((edge.held_per_s, tried.len()), (None, 8));
        let (tried, edge) = tries(2.0, 0.4, 0.0);
        assert_eq!((edge.held_per_s, tried.last()), (None, Some(&1.0)));
        let (tried, edge) = tries(1_000.0, 0.065, f64::INFINITY);
        assert_eq!((edge.not_held_per_s, tried.len()), (None, 8));
        assert!(edge.next_per_s().is_none());
    }
}
