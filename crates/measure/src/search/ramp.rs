//! About where a peak is, by ramps: the highest rate before the first second that is not held.
//! A single one is passed over where both seconds behind it are held.
//!
//! A ramp takes seconds and starts a server once, where [`super::PeakSearch`] takes minutes;
//! what it finds was held for two seconds and no longer. Where a ramp has no such second the
//! next one goes on higher, and where it begins with one, lower. What an earlier ramp held
//! counts, whatever a later one makes of the same rates.

use crate::Second;

/// A second in which fewer of the arrivals that were due began is one of the generator's limit.
const STARTED_MIN: f64 = 0.9;
/// Ramps until one has its peak in it.
const RAMPS_MAX: u32 = 5;
/// How far from what was found a fine ramp begins, and how far beyond it ends.
const FINE: f64 = 0.15;
/// The lowest rate that a ramp begins with.
const RATE_MIN_PER_S: f64 = 4.0;

/// Which seconds are held.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RampConfig {
    /// Where the peak may be, a second.
    pub guess_per_s: f64,
    /// The share of failures that a second may have.
    pub failures_max: f64,
    /// The share of what is due in a second that has to end: with less there is a queue that
    /// grows. Nobody is refused yet, but everybody waits.
    pub ended_min: f64,
    /// How long calls are held: they end at the rate of so long ago.
    pub hold_ms: u64,
    /// Whether one more ramp goes around what was found, in finer steps.
    pub is_fine: bool,
}

/// Where a ramp had its highest rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Highest {
    /// The first of the two seconds.
    pub at_s: u64,
    /// What ended well a second, of what was due in it.
    pub rate_per_s: f64,
    /// Whether a second that is not held, and not passed over, follows.
    pub is_bounded: bool,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RampStep {
    /// A ramp between these rates; its seconds go to [`Ramp::give`].
    Try {
        /// Where it begins.
        from_per_s: f64,
        /// Where it ends.
        to_per_s: f64,
    },
    /// The peak, or as much as was held; `None` where not even the lowest rate was.
    Done(Option<Highest>),
}

/// The ramps as a state machine.
#[derive(Clone, Debug)]
pub struct Ramp {
    config: RampConfig,
    from_per_s: f64,
    to_per_s: f64,
    ramps: u32,
    best: Option<Highest>,
    /// Whether this ramp is the fine one, the last.
    is_last: bool,
    is_over: bool,
}

impl Ramp {
    /// At its beginning: around the guess.
    pub fn new(config: RampConfig) -> Self {
        let mut ramp = Self {
            config,
            from_per_s: 0.0,
            to_per_s: 0.0,
            ramps: 0,
            best: None,
            is_last: false,
            is_over: false,
        };
        ramp.go(config.guess_per_s * 0.5, config.guess_per_s * 1.5);
        ramp
    }

    /// What to do next: a ramp until its seconds are given, the result for ever.
    pub fn next(&self) -> RampStep {
        if self.is_over {
            return RampStep::Done(self.best);
        }
        RampStep::Try {
            from_per_s: self.from_per_s,
            to_per_s: self.to_per_s,
        }
    }

    /// The seconds of the ramp that was asked for; gives where it had its highest rate, if no
    /// ramp before it had a higher one.
    pub fn give(&mut self, seconds: &[Second]) -> Option<Highest> {
        self.ramps += 1;
        let was_last = self.is_last;
        let found = self.config.highest(seconds);
        let before = self.best;
        match (found, before) {
            (Some(found), _) => {
                self.is_over = found.is_bounded;
                self.go(self.to_per_s * 0.7, self.to_per_s * 2.0);
            }
            // It is between what was held and where this one began.
            (None, Some(best)) => self.go(best.rate_per_s * 0.7, best.rate_per_s * 1.4),
            (None, None) if self.from_per_s <= RATE_MIN_PER_S => self.is_over = true,
            (None, None) => self.go(self.from_per_s * 0.25, self.from_per_s * 1.1),
        }
        self.is_over |= was_last || self.ramps >= RAMPS_MAX;
        let is_best =
            |found: &Highest| before.is_none_or(|best| found.rate_per_s > best.rate_per_s);
        let found = found.filter(is_best);
        self.best = found.or(before);
        let is_fine_next = self.is_over && self.config.is_fine && !was_last;
        if let Some(best) = self.best.filter(|_| is_fine_next) {
            (self.is_over, self.is_last) = (false, true);
            self.from_per_s = best.rate_per_s * (1.0 - FINE);
            self.to_per_s = best.rate_per_s * (1.0 + FINE);
        }
        found
    }

    fn go(&mut self, from_per_s: f64, to_per_s: f64) {
        self.from_per_s = from_per_s.max(RATE_MIN_PER_S);
        self.to_per_s = to_per_s.max(self.from_per_s * 2.0);
    }
}

impl RampConfig {
    /// The highest rate of two seconds in a row before one that bounds it; `None` where that
    /// comes first. The first second has calls that did not have time to end.
    ///
    /// A second that is not held is a bound unless both behind it are held, at rates that are
    /// higher still: then the machine stood still for a moment, and not the server.
    fn highest(&self, seconds: &[Second]) -> Option<Highest> {
        let is_held = |at: usize| {
            let second = seconds.get(at);
            second.is_some_and(|second| self.is_held(seconds, at, second))
        };
        let bounds = |at: &usize| !(is_held(*at) || is_held(at + 1) && is_held(at + 2));
        let bound = (1..seconds.len()).find(bounds);
        let before = &seconds[..bound.unwrap_or(seconds.len())];
        let mut best: Option<Highest> = None;
        for (at, pair) in before.windows(2).enumerate().skip(1) {
            let [a, b] = pair else { continue };
            // What waited since the second before is not of this one.
            let rate_per_s = (a.succeeded.min(a.due) + b.succeeded.min(b.due)) as f64 / 2.0;
            let are_held = is_held(at) && is_held(at + 1);
            if are_held && rate_per_s > best.map_or(0.0, |best| best.rate_per_s) {
                best = Some(Highest {
                    at_s: a.at_s,
                    rate_per_s,
                    is_bounded: bound.is_some(),
                });
            }
        }
        best
    }

    fn is_held(&self, seconds: &[Second], at: usize, second: &Second) -> bool {
        let held_s = usize::try_from(self.hold_ms.div_ceil(1_000)).unwrap_or(usize::MAX);
        let then = at.checked_sub(held_s).and_then(|then| seconds.get(then));
        let due_then = then.map_or(0, |second| second.due) as f64;
        let ended = (second.succeeded + second.failed) as f64;
        second.failed as f64 <= self.failures_max * ended
            && second.started as f64 >= STARTED_MIN * second.due as f64
            && ended >= self.ended_min * due_then
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: RampConfig = RampConfig {
        guess_per_s: 100.0,
        failures_max: 0.01,
        ended_min: 0.9,
        hold_ms: 0,
        is_fine: false,
    };

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

    fn found(seconds: &[Second]) -> Option<(u64, f64, bool)> {
        let found = CONFIG.highest(seconds);
        found.map(|found| (found.at_s, found.rate_per_s, found.is_bounded))
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
        assert_eq!(found(&seconds), Some((2, 115.0, true)));
    }

    #[test]
    fn a_moment_in_which_the_machine_stood_still_is_no_bound() {
        let ramp = |failed: [u64; 8]| -> Vec<Second> {
            let seconds = (0..8).zip(failed);
            seconds
                .map(|(at_s, failed)| second(at_s, 100 + 10 * at_s - failed, failed))
                .collect()
        };
        let one = ramp([0, 0, 0, 50, 0, 0, 0, 0]);
        assert_eq!(found(&one), Some((6, 165.0, false)));
        let then_full = ramp([0, 0, 50, 0, 0, 0, 50, 50]);
        assert_eq!(found(&then_full), Some((4, 145.0, true)));
        // Whoever fails every other second holds nothing, and a second at the end is a bound.
        let by_turns = ramp([0, 0, 0, 50, 0, 50, 0, 50]);
        assert_eq!(found(&by_turns), Some((1, 115.0, true)));
        let at_the_end = ramp([0, 0, 0, 0, 0, 0, 50, 0]);
        assert_eq!(found(&at_the_end), Some((4, 145.0, true)));
    }

    #[test]
    fn a_ramp_without_failures_has_no_bound() {
        let seconds = [second(0, 5, 0), second(1, 10, 0), second(2, 20, 0)];
        assert_eq!(found(&seconds), Some((1, 15.0, false)));
    }

    #[test]
    fn failures_from_the_beginning_are_no_peak() {
        let seconds = [second(0, 5, 0), second(1, 10, 10), second(2, 20, 0)];
        assert_eq!(found(&seconds), None);
        assert_eq!(found(&[]), None);
        let nothing = [second(0, 0, 0), second(1, 0, 0), second(2, 0, 0)];
        assert_eq!(found(&nothing), None);
    }

    #[test]
    fn a_queue_that_grows_and_a_generator_that_is_behind_end_the_ramp() {
        let mut queued = second(3, 120, 0);
        (queued.due, queued.started) = (140, 140);
        let mut behind = second(3, 120, 0);
        behind.due = 200;
        for last in [queued, behind] {
            let seconds = [second(0, 5, 0), second(1, 100, 0), second(2, 110, 0), last];
            assert_eq!(found(&seconds), Some((1, 105.0, true)));
        }
        let patient = RampConfig {
            ended_min: 0.8,
            ..CONFIG
        };
        let seconds = [
            second(0, 5, 0),
            second(1, 100, 0),
            second(2, 110, 0),
            queued,
        ];
        assert!(!patient.highest(&seconds).unwrap().is_bounded);
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
        let held = RampConfig {
            hold_ms: 3_000,
            ..CONFIG
        };
        let found = held.highest(&seconds).unwrap();
        assert_eq!((found.rate_per_s, found.is_bounded), (275.0, false));
        assert_eq!(CONFIG.highest(&seconds), None);
        // And where it does not end it is a queue again.
        if let Some(last) = seconds.last_mut() {
            last.succeeded = 200;
        }
        assert!(held.highest(&seconds).unwrap().is_bounded);
    }

    /// Ramps against a server that holds so much, with the rates of each.
    fn ramps(holds_per_s: f64) -> (Vec<(f64, f64)>, Option<Highest>) {
        ramps_of(|_| holds_per_s)
    }

    /// The same of one that holds another rate in each ramp.
    fn ramps_of(holds_per_s: impl Fn(usize) -> f64) -> (Vec<(f64, f64)>, Option<Highest>) {
        ramps_by(CONFIG, holds_per_s)
    }

    fn ramps_by(
        config: RampConfig,
        holds_per_s: impl Fn(usize) -> f64,
    ) -> (Vec<(f64, f64)>, Option<Highest>) {
        let mut ramp = Ramp::new(config);
        let mut tried = Vec::new();
        loop {
            let (from, to) = match ramp.next() {
                RampStep::Try {
                    from_per_s,
                    to_per_s,
                } => (from_per_s, to_per_s),
                RampStep::Done(found) => return (tried, found),
            };
            let holds_per_s = holds_per_s(tried.len());
            tried.push((from, to));
            let seconds: Vec<Second> = (0..10)
                .map(|at_s| {
                    let rate = from + (to - from) * at_s as f64 / 10.0;
                    let is_held = rate <= holds_per_s;
                    second(at_s, rate as u64, if is_held { 0 } else { rate as u64 })
                })
                .collect();
            ramp.give(&seconds);
        }
    }

    #[test]
    fn what_an_earlier_ramp_held_counts() {
        // The machine stands still in the second ramp, and then holds less than before.
        let (tried, found) = ramps_of(|nth| [1_000.0, 0.0, 120.0][nth.min(2)]);
        let (from, to) = tried[2];
        let found = found.unwrap();
        assert_eq!(tried.len(), 3);
        assert_eq!(found.rate_per_s, 135.0);
        assert!(
            from < found.rate_per_s && to > found.rate_per_s,
            "{from} to {to}"
        );
        // Or as much, and then the later ramp has its end in it.
        let (_, found) = ramps_of(|nth| [1_000.0, 0.0, 150.0][nth.min(2)]);
        let found = found.unwrap();
        assert!(found.is_bounded && found.rate_per_s > 135.0, "{found:?}");
    }

    #[test]
    fn a_fine_ramp_comes_closer() {
        let fine = RampConfig {
            is_fine: true,
            ..CONFIG
        };
        for holds_per_s in [110.0, 400.0, 20.0] {
            let (coarse, about) = ramps(holds_per_s);
            let (tried, found) = ramps_by(fine, |_| holds_per_s);
            assert_eq!(tried.len(), coarse.len() + 1, "{tried:?}");
            let (about, found) = (about.unwrap().rate_per_s, found.unwrap().rate_per_s);
            assert!(
                about <= found && found <= holds_per_s && found > holds_per_s * 0.9,
                "{about}, then {found} of {holds_per_s}"
            );
        }
        assert_eq!(ramps_by(fine, |_| 0.0).1, None);
        // One that is nowhere reached ends too.
        let (tried, _) = ramps_by(fine, |_| f64::INFINITY);
        assert_eq!(tried.len(), 6);
        // What was found counts where the machine stands still in the fine one.
        let (_, found) = ramps_by(fine, |nth| [110.0, 0.0][nth]);
        assert_eq!(found, ramps(110.0).1);
    }

    #[test]
    fn ramps_go_where_the_peak_is() {
        let (tried, found) = ramps(110.0);
        assert_eq!(tried, [(50.0, 150.0)]);
        assert!(found.unwrap().is_bounded);
        let (tried, found) = ramps(400.0);
        assert_eq!(tried.len(), 3);
        let found = found.unwrap();
        assert!(found.is_bounded && found.rate_per_s > 300.0, "{found:?}");
        let (tried, found) = ramps(20.0);
        assert!(tried.len() > 1 && found.unwrap().is_bounded, "{tried:?}");
        assert_eq!(ramps(0.0).1, None);
        // One that is nowhere reached ends too.
        let (tried, found) = ramps(f64::INFINITY);
        assert_eq!(tried.len(), 5);
        assert!(!found.unwrap().is_bounded);
    }
}
