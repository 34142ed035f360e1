use super::*;
use crate::random::Random;
use proptest::prelude::*;

/// A server in a simulation.
trait Server {
    fn offer(&mut self, rate_per_s: f64, attempts: u64) -> Outcome;
    fn rest(&mut self, _ns: u64) {}
}

impl<F: FnMut(f64, u64) -> Outcome> Server for F {
    fn offer(&mut self, rate_per_s: f64, attempts: u64) -> Outcome {
        self(rate_per_s, attempts)
    }
}

fn search(config: SearchConfig, server: &mut dyn Server) -> Peak {
    let mut search = PeakSearch::new(config);
    for _ in 0..10_000 {
        match search.next() {
            Step::Rest { duration_ns } => server.rest(duration_ns),
            Step::Try {
                rate_per_s,
                attempts,
            } => {
                assert!(rate_per_s > 0.0 && attempts > 0);
                let again = search.next();
                assert!(matches!(again, Step::Try { rate_per_s: r, .. } if r == rate_per_s));
                search.give(server.offer(rate_per_s, attempts));
            }
            Step::Done(peak) => {
                assert_eq!(search.next(), Step::Done(peak.clone()), "the end is stable");
                return peak;
            }
        }
    }
    panic!("no end");
}

/// What fails of `attempts` when each fails with probability `share`.
fn draw_failures(random: &mut Random, attempts: u64, share: f64) -> u64 {
    (0..attempts).filter(|_| random.unit() <= share).count() as u64
}

fn outcome(attempts: u64, failures: u64) -> Outcome {
    Outcome {
        attempts,
        failures,
        delay_ns: Some(1_000_000),
        ..Outcome::default()
    }
}

/// Holds every rate up to a peak.
fn cliff(peak: f64) -> impl FnMut(f64, u64) -> Outcome {
    move |rate, attempts| outcome(attempts, if rate > peak { attempts / 4 } else { 0 })
}

#[test]
fn it_finds_the_edge_of_an_ideal_server_from_anywhere() {
    for peak in [3.0, 97.0, 100.0, 101.0, 1_234.0, 25_000.0, 300_000.0] {
        for start in [1.0, 100.0, 2_000.0, 900_000.0] {
            let config = SearchConfig {
                start_per_s: start,
                ..SearchConfig::default()
            };
            let precision = config.precision;
            let found = search(config, &mut cliff(peak));
            assert_eq!(found.ending, Ending::Found, "{peak} from {start}");
            assert!(
                found.peak_cps <= peak && found.peak_cps >= peak * (1.0 - 1.5 * precision),
                "{peak} from {start}: {}",
                found.peak_cps
            );
            assert_eq!(found.repeats.len(), 3);
            assert!(found.low <= found.peak_cps && found.peak_cps <= found.high);
            assert!(found.tries.len() < 100, "{} tries", found.tries.len());
        }
    }
}

#[test]
fn one_repeat_gives_the_bracket() {
    let config = SearchConfig {
        repeats: 1,
        ..SearchConfig::default()
    };
    let found = search(config, &mut cliff(1_000.0));
    assert_eq!(found.low, found.peak_cps);
    assert!(found.low <= 1_000.0 && 1_000.0 < found.high, "{found:?}");
    assert!(found.high <= found.low * 1.021);
}

#[test]
fn the_confirming_run_is_twice_as_long() {
    let mut longest: Vec<(f64, u64)> = Vec::new();
    let mut server = |rate: f64, attempts: u64| {
        longest.push((rate, attempts));
        outcome(attempts, u64::from(rate > 1_000.0))
    };
    let config = SearchConfig {
        repeats: 1,
        try_ns: 1_000_000_000,
        ..SearchConfig::default()
    };
    let found = search(config, &mut server);
    let confirmed = longest
        .iter()
        .any(|&(rate, n)| rate == found.peak_cps && n == (2.0 * rate).ceil() as u64);
    assert!(confirmed, "{longest:?}");
}

#[test]
fn noise_moves_the_figure_little_and_the_interval_tells_it() {
    let mut within = 0;
    for seed in 0..40 {
        let mut random = Random::new(seed);
        // The edge lies elsewhere in every try, with a deviation of 2%.
        let mut server = |rate: f64, attempts: u64| {
            let peak = 1_000.0 * (1.0 + 0.02 * random.normal());
            outcome(attempts, if rate > peak { attempts / 10 } else { 0 })
        };
        let config = SearchConfig {
            repeats: 5,
            precision: 0.01,
            ..SearchConfig::default()
        };
        let found = search(config, &mut server);
        assert_eq!(found.ending, Ending::Found, "seed {seed}");
        assert!(
            (930.0..=1_050.0).contains(&found.peak_cps),
            "seed {seed}: {}",
            found.peak_cps
        );
        assert!(
            found.high - found.low > 0.0,
            "seed {seed}: repeats agree by rounding"
        );
        within += u32::from(found.low <= 1_000.0 && 1_000.0 <= found.high);
    }
    assert!(within >= 30, "{within} of 40 intervals hold the edge");
}

#[test]
fn a_server_flaky_at_one_percent_fails_a_bound_of_none_and_holds_four_percent() {
    for (bound, expected) in [
        (0.0, Ending::NothingHeld),
        (0.01, Ending::Found),
        (0.04, Ending::Found),
    ] {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let mut server = |rate: f64, attempts: u64| {
                let share = if rate > 1_000.0 { 0.2 } else { 0.01 };
                outcome(attempts, draw_failures(&mut random, attempts, share))
            };
            let config = SearchConfig {
                failures_max: bound,
                // At 1/s ten seconds would be too few attempts to see 1%.
                attempts_min: 2_000,
                ..SearchConfig::default()
            };
            let found = search(config, &mut server);
            assert_eq!(
                found.ending, expected,
                "bound {bound}, seed {seed}: {found:?}"
            );
            if expected == Ending::Found {
                assert!(
                    (930.0..=1_000.0).contains(&found.peak_cps),
                    "bound {bound}, seed {seed}: {}",
                    found.peak_cps
                );
            } else {
                assert_eq!(found.peak_cps, 0.0);
            }
        }
    }
}

/// Collapses above `peak` and then fails everything above `relief` until it
/// has rested long enough, or was offered less.
struct Hysteresis {
    peak: f64,
    relief: f64,
    recovery_ns: u64,
    rested_ns: u64,
    collapsed: bool,
}

impl Server for Hysteresis {
    fn offer(&mut self, rate_per_s: f64, attempts: u64) -> Outcome {
        self.rested_ns = 0;
        if rate_per_s > self.peak {
            self.collapsed = true;
        } else if rate_per_s <= self.relief {
            self.collapsed = false;
        }
        outcome(attempts, if self.collapsed { attempts / 2 } else { 0 })
    }

    fn rest(&mut self, ns: u64) {
        self.rested_ns += ns;
        if self.rested_ns >= self.recovery_ns {
            self.collapsed = false;
        }
    }
}

#[test]
fn hysteresis_does_not_hide_the_peak() {
    // From a server that recovers within the first rest to one that needs eight.
    for recovery_s in [0, 3, 5, 10, 20] {
        let mut server = Hysteresis {
            peak: 1_000.0,
            relief: 300.0,
            recovery_ns: recovery_s * 1_000_000_000,
            rested_ns: 0,
            collapsed: false,
        };
        let found = search(SearchConfig::default(), &mut server);
        assert_eq!(found.ending, Ending::Found, "recovery in {recovery_s} s");
        let last = found.repeats.last().copied().unwrap();
        assert!(
            (960.0..=1_000.0).contains(&last) && found.peak_cps > 900.0,
            "recovery in {recovery_s} s: {:?}",
            found.repeats
        );
    }
}

#[test]
fn one_hiccup_moves_nothing() {
    for hiccup_at in 0..25 {
        let mut tries = 0;
        let mut server = |rate: f64, attempts: u64| {
            tries += 1;
            let hiccup = tries == hiccup_at + 1;
            outcome(attempts, u64::from(rate > 1_000.0 || hiccup))
        };
        let found = search(SearchConfig::default(), &mut server);
        assert!(
            (970.0..=1_000.0).contains(&found.peak_cps),
            "hiccup at try {hiccup_at}: {:?}",
            found.repeats
        );
    }
}

#[test]
fn two_of_three_tries_decide_and_each_failure_is_followed_by_a_rest() {
    // Tries of the first rate, 100/s, and the rate that comes after them.
    let table: &[(&[bool], f64)] = &[
        (&[true], 200.0),
        (&[false, true, true], 200.0),
        (&[false, true, false], 50.0),
        (&[false, false], 50.0),
    ];
    for (tries, then) in table {
        let mut search = PeakSearch::new(SearchConfig::default());
        for &held in *tries {
            assert!(
                matches!(
                    search.next(),
                    Step::Try {
                        rate_per_s: 100.0,
                        ..
                    }
                ),
                "{tries:?}"
            );
            search.give(outcome(1_000, u64::from(!held)));
            if !held {
                assert!(matches!(search.next(), Step::Rest { .. }), "{tries:?}");
            }
        }
        let next = search.next();
        assert!(
            matches!(next, Step::Try { rate_per_s, .. } if rate_per_s == *then),
            "{tries:?}: {next:?}"
        );
    }
}

#[test]
fn the_delay_limit_ends_it_too() {
    let mut server = |rate: f64, attempts: u64| Outcome {
        // A queue of a server that takes 2,000/s.
        delay_ns: (rate < 2_000.0).then(|| (1e9 / (2_000.0 - rate)) as u64),
        attempts,
        ..Outcome::default()
    };
    let config = SearchConfig {
        delay_max_ns: 10_000_000,
        ..SearchConfig::default()
    };
    // 1/(2000-r) <= 10 ms up to r = 1900.
    let found = search(config, &mut server);
    assert_eq!(found.ending, Ending::Found);
    assert!(
        (1_850.0..=1_900.0).contains(&found.peak_cps),
        "{}",
        found.peak_cps
    );
}

#[test]
fn a_generator_at_its_limit_is_not_called_a_server_at_its_limit() {
    let mut server = |rate: f64, attempts: u64| Outcome {
        doubtful: rate > 700.0,
        ..outcome(attempts, 0)
    };
    let found = search(SearchConfig::default(), &mut server);
    assert_eq!(found.ending, Ending::GeneratorLimit);
    assert!(!found.is_valid());
    assert!(
        (680.0..=700.0).contains(&found.peak_cps),
        "{}",
        found.peak_cps
    );
    // A server that fails below the generator's limit is found as usual.
    let mut server = |rate: f64, attempts: u64| Outcome {
        doubtful: rate > 700.0,
        ..outcome(attempts, u64::from(rate > 500.0))
    };
    let found = search(SearchConfig::default(), &mut server);
    assert_eq!(found.ending, Ending::Found);
    assert!(
        (485.0..=500.0).contains(&found.peak_cps),
        "{}",
        found.peak_cps
    );
}

#[test]
fn a_peak_above_the_highest_rate_is_told_as_not_reached() {
    let config = SearchConfig {
        rate_max_per_s: 5_000.0,
        ..SearchConfig::default()
    };
    let found = search(config, &mut cliff(1e9));
    assert_eq!(
        (found.ending, found.peak_cps),
        (Ending::NotReached, 5_000.0)
    );
}

#[test]
fn a_dead_server_ends_with_nothing() {
    let found = search(SearchConfig::default(), &mut cliff(0.0));
    assert_eq!((found.ending, found.peak_cps), (Ending::NothingHeld, 0.0));
    // One that makes no attempts at all is no better.
    let mut silent = |_: f64, _: u64| Outcome::default();
    assert_eq!(
        search(SearchConfig::default(), &mut silent).ending,
        Ending::NothingHeld
    );
}

#[test]
fn the_bound_on_tries_holds_and_the_best_so_far_is_given() {
    let config = SearchConfig {
        tries_max: 6,
        ..SearchConfig::default()
    };
    let found = search(config, &mut cliff(1_000.0));
    assert_eq!(found.ending, Ending::TooManyTries);
    assert_eq!(found.tries.len(), 6);
    // 100, 200, 400, 800 held; 1600 failed twice.
    assert_eq!(found.peak_cps, 800.0);
    // A server without any rule ends too.
    let mut random = Random::new(1);
    let mut dice = |_: f64, attempts: u64| outcome(attempts, random.next_u64() & 1);
    let found = search(SearchConfig::default(), &mut dice);
    assert!(found.tries.len() <= 200);
}

#[test]
fn an_interruption_gives_the_best_so_far() {
    let mut tries = 0;
    let mut server = |_: f64, attempts: u64| {
        tries += 1;
        Outcome {
            interrupted: tries == 4,
            ..outcome(attempts, 0)
        }
    };
    let found = search(SearchConfig::default(), &mut server);
    assert_eq!((found.ending, found.peak_cps), (Ending::Interrupted, 400.0));
}

#[test]
fn nonsense_in_the_configuration_does_no_harm() {
    let config = SearchConfig {
        start_per_s: f64::NAN,
        failures_max: -1.0,
        precision: 0.0,
        repeats: 0,
        rate_min_per_s: f64::NEG_INFINITY,
        rate_max_per_s: f64::INFINITY,
        ..SearchConfig::default()
    };
    let found = search(config, &mut cliff(500.0));
    assert!(
        found.peak_cps <= 500.0 && found.peak_cps > 495.0,
        "{}",
        found.peak_cps
    );
}

proptest! {
    #[test]
    fn whatever_the_outcomes_it_ends_within_its_bound(seed in any::<u64>(), repeats in 0u32..5, tries_max in 1u32..60, doubt in 0.0..0.5f64, stop in 0.0..0.02f64, start in 0.0..1e7f64) {
        let mut random = Random::new(seed);
        let mut server = |_: f64, attempts: u64| Outcome {
            attempts: random.below(attempts as usize + 1) as u64,
            failures: if random.unit() < 0.6 { 0 } else { random.next_u64() },
            slow: 0,
            delay_ns: (random.unit() < 0.9).then(|| random.next_u64()),
            doubtful: random.unit() < doubt,
            interrupted: random.unit() < stop,
        };
        let config = SearchConfig { repeats, tries_max, start_per_s: start, delay_max_ns: u64::MAX / 2, failures_max: 0.01, ..SearchConfig::default() };
        let found = search(config.clone(), &mut server);
        prop_assert!(found.tries.len() <= tries_max as usize);
        prop_assert!(found.low <= found.peak_cps && found.peak_cps <= found.high);
        prop_assert!(found.tries.iter().all(|t| t.rate_per_s >= config.rate_min_per_s && t.rate_per_s <= config.rate_max_per_s));
    }
}
