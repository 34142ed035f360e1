//! From what runs took to what each thing costs.
//!
//! The CPU time of a run is linear in the prices once it is known for how long a wake-up keeps
//! the server awake; that one number is found by trying. A wake-up costs more the more kinds of
//! things come: each finds the caches as another kind has left them. No price is below nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::event::{Event, Rates};

/// What a run took.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// What happened in a second of it.
    pub rates: Rates,
    /// What was measured: CPU time of the server in cores, or bytes a second.
    pub value: f64,
}

/// What one event costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// CPU time, in microseconds.
    pub us: f64,
    /// Its standard error.
    pub error_us: f64,
}

/// Prices, as runs show them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// What the server takes for itself, in cores.
    pub base_cores: f64,
    /// Its standard error.
    pub base_error_cores: f64,
    /// What a wake-up costs, in microseconds.
    pub wake_us: f64,
    /// Its standard error.
    pub wake_error_us: f64,
    /// What one costs more where no two arrivals in a row are of one kind, in microseconds; it
    /// counts by [`Rates::mixed`].
    pub mixed_us: f64,
    /// Its standard error.
    pub mixed_error_us: f64,
    /// For how long what else arrives needs no wake-up of its own, in microseconds.
    pub awake_us: f64,
    /// What each thing costs besides; what no run had is not there.
    pub prices: BTreeMap<Event, Price>,
    /// How far runs are from this, as a share: root of the mean square.
    pub residual: f64,
    /// The most cores that a run took.
    pub cores_max: f64,
}

/// Times awake that are tried, in microseconds.
const AWAKE_US: [f64; 10] = [
    0.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 1_280.0,
];
/// Unknowns before the prices: the base, a wake-up, and one among arrivals of many kinds.
const BEFORE_PRICES: usize = 3;
/// With fewer runs beyond the unknowns a fit goes through almost all of them, whatever they are
/// off by.
pub const SPARE_MIN: usize = 5;
/// What runs are then taken to be off by at least, as a share. A judgement.
pub const UNSEEN: f64 = 0.1;
/// Sets of runs that are drawn for the errors of prices.
const DRAWN: u32 = 40;
/// Rounds of a search, at most.
const ROUNDS_MAX: u32 = 4_000;
/// A round that moves no prediction by a larger share is the last.
const SETTLED: f64 = 1e-10;
/// What is added so that unknowns that no run tells apart get the same.
const RIDGE: f64 = 1e-9;
const US_PER_S: f64 = 1e6;

impl Fit {
    /// Finds the prices. `noise` is by what share repeats of one run differ; what the runs are
    /// from the prices counts where that is more, and [`UNSEEN`] where they are too few to show it.
    pub fn of(samples: &[Sample], noise: f64) -> Self {
        let events: BTreeSet<Event> = samples
            .iter()
            .flat_map(|sample| sample.rates.iter().map(|(event, _)| event))
            .collect();
        let events: Vec<Event> = events.into_iter().collect();
        let measured: Vec<f64> = samples.iter().map(|sample| sample.value).collect();
        let mut best: Option<(f64, f64, Linear, Vec<f64>)> = None;
        for awake_us in AWAKE_US {
            let linear = Linear::new(samples, &events, awake_us, &measured);
            let found = linear.solve(&targets(&measured), None);
            let residual = linear.residual(&targets(&measured), &found);
            if best.as_ref().is_none_or(|(least, ..)| residual < *least) {
                best = Some((residual, awake_us, linear, found));
            }
        }
        let Some((residual, awake_us, linear, found)) = best else {
            return Self::default();
        };
        let unseen = if spare(samples.len(), events.len()) < SPARE_MIN {
            UNSEEN
        } else {
            0.0
        };
        let errors = linear.errors(&found, residual.max(noise).max(unseen));
        let at = |values: &[f64], index: usize| values.get(index).copied().unwrap_or(0.0);
        let priced = events.iter().enumerate().map(|(nth, event)| {
            let price = Price {
                us: at(&found, nth + BEFORE_PRICES) * US_PER_S,
                error_us: at(&errors, nth + BEFORE_PRICES) * US_PER_S,
            };
            (*event, price)
        });
        Self {
            base_cores: at(&found, 0),
            base_error_cores: at(&errors, 0),
            wake_us: at(&found, 1) * US_PER_S,
            wake_error_us: at(&errors, 1) * US_PER_S,
            mixed_us: at(&found, 2) * US_PER_S,
            mixed_error_us: at(&errors, 2) * US_PER_S,
            awake_us,
            prices: priced.collect(),
            residual,
            cores_max: measured.iter().copied().fold(0.0, f64::max),
        }
    }

    /// Wake-ups a second of a worker to which so much arrives in a second.
    pub fn wakes_per_s(&self, arrivals_per_s: f64) -> f64 {
        wakes_per_s(arrivals_per_s, self.awake_us)
    }

    /// What so many workers take for wake-ups, together and in cores, and its standard error.
    /// What arrives is spread over them, and each is woken up for its own.
    pub fn wake_cores(&self, rates: &Rates, workers: f64) -> (f64, f64) {
        let per_s = workers * self.wakes_per_s(rates.arrivals_per_s() / workers);
        let mixed = rates.mixed();
        let error_us = self.wake_error_us.hypot(mixed * self.mixed_error_us);
        (
            per_s * (self.wake_us + mixed * self.mixed_us) / US_PER_S,
            per_s * error_us / US_PER_S,
        )
    }

    /// CPU time of one worker with these rates, in cores, and its standard error from those of
    /// what it is made of. What has no price counts nothing here: ask [`Fit::unpriced`] first.
    pub fn cores(&self, rates: &Rates) -> (f64, f64) {
        let (wake_cores, wake_error) = self.wake_cores(rates, 1.0);
        let mut cores = self.base_cores + wake_cores;
        let mut square = self.base_error_cores.powi(2) + wake_error.powi(2);
        for (event, per_s) in rates.iter() {
            let price = self.prices.get(&event).copied().unwrap_or_default();
            cores += per_s * price.us / US_PER_S;
            square += (per_s * price.error_us / US_PER_S).powi(2);
        }
        (cores, square.sqrt())
    }

    /// What happens in these rates and was never measured.
    pub fn unpriced(&self, rates: &Rates) -> Vec<Event> {
        let happening = rates.iter().map(|(event, _)| event);
        happening
            .filter(|event| !self.prices.contains_key(event))
            .collect()
    }
}

/// How many more runs there are than unknowns where so many prices are among these.
pub fn spare(runs: usize, prices: usize) -> usize {
    runs.saturating_sub(prices + BEFORE_PRICES)
}

fn wakes_per_s(arrivals_per_s: f64, awake_us: f64) -> f64 {
    arrivals_per_s / (1.0 + arrivals_per_s * awake_us / US_PER_S)
}

/// Finds what each event adds to a figure that is a plain sum, bytes on the wire, and how far
/// runs are from that, as a share.
pub fn shares(samples: &[Sample]) -> (BTreeMap<Event, f64>, f64) {
    let events: BTreeSet<Event> = samples
        .iter()
        .flat_map(|sample| sample.rates.iter().map(|(event, _)| event))
        .collect();
    let rows = samples.iter().map(|sample| {
        let row = events.iter().map(|event| sample.rates.get(*event));
        row.collect::<Vec<f64>>()
    });
    let measured: Vec<f64> = samples.iter().map(|sample| sample.value).collect();
    let linear = Linear::from_rows(rows.collect(), &measured);
    let found = linear.solve(&targets(&measured), None);
    let residual = linear.residual(&targets(&measured), &found);
    (events.into_iter().zip(found).collect(), residual)
}

/// Rows of a linear problem, each divided by its measured value so that errors are shares.
struct Linear {
    rows: Vec<Vec<f64>>,
    /// The product of the rows with themselves.
    gram: Vec<Vec<f64>>,
}

impl Linear {
    /// Columns: the base, wake-ups, those among many kinds, then the events.
    fn new(samples: &[Sample], events: &[Event], awake_us: f64, measured: &[f64]) -> Self {
        let rows = samples.iter().map(|sample| {
            let wakes = wakes_per_s(sample.rates.arrivals_per_s(), awake_us);
            let before_prices = [1.0, wakes, wakes * sample.rates.mixed()];
            let counts = events.iter().map(|event| sample.rates.get(*event));
            before_prices
                .into_iter()
                .chain(counts)
                .collect::<Vec<f64>>()
        });
        Self::from_rows(rows.collect(), measured)
    }

    fn from_rows(mut rows: Vec<Vec<f64>>, measured: &[f64]) -> Self {
        for (row, value) in rows.iter_mut().zip(measured) {
            for cell in row.iter_mut() {
                *cell /= scale(*value);
            }
        }
        let width = rows.first().map_or(0, Vec::len);
        let product = |left: usize, right: usize| -> f64 {
            rows.iter()
                .map(|row| cell(row, left) * cell(row, right))
                .sum()
        };
        let gram = (0..width)
            .map(|left| (0..width).map(|right| product(left, right)).collect())
            .collect();
        Self { rows, gram }
    }

    /// The least squares without anything below 0, one unknown after the other.
    fn solve(&self, targets: &[f64], from: Option<&[f64]>) -> Vec<f64> {
        let width = self.gram.len();
        let right: Vec<f64> = (0..width)
            .map(|column| {
                let products = self.rows.iter().zip(targets);
                products
                    .map(|(row, target)| cell(row, column) * target)
                    .sum()
            })
            .collect();
        // One unknown after the other is slow where two runs hardly tell them apart, so that it
        // begins close to the end.
        let mut found = from.map_or_else(|| self.without_bounds(&right), <[f64]>::to_vec);
        for _ in 0..ROUNDS_MAX {
            let mut moved: f64 = 0.0;
            for (nth, line) in self.gram.iter().enumerate() {
                let own = cell(line, nth);
                if own <= 0.0 {
                    continue;
                }
                let all: f64 = line.iter().zip(&found).map(|(a, b)| a * b).sum();
                let before = cell(&found, nth);
                let after = (before + (cell(&right, nth) - all) / own).max(0.0);
                moved = moved.max((after - before).abs() * own.sqrt());
                if let Some(value) = found.get_mut(nth) {
                    *value = after;
                }
            }
            if moved < SETTLED {
                break;
            }
        }
        found
    }

    /// The least squares of all unknowns at once, where what comes out below 0 is left out
    /// until nothing does.
    fn without_bounds(&self, right: &[f64]) -> Vec<f64> {
        let norm = |nth: usize| {
            self.gram
                .get(nth)
                .map_or(0.0, |line| cell(line, nth))
                .sqrt()
        };
        let mut among: Vec<usize> = (0..right.len()).filter(|nth| norm(*nth) > 0.0).collect();
        loop {
            let rows = among.iter().map(|left| {
                let line = self.gram.get(*left).map_or(&[][..], Vec::as_slice);
                let scaled = among.iter().map(|other| {
                    let ridge = if left == other { RIDGE } else { 0.0 };
                    cell(line, *other) / (norm(*left) * norm(*other)) + ridge
                });
                let end = cell(right, *left) / norm(*left);
                scaled.chain([end]).collect::<Vec<f64>>()
            });
            let solved = eliminated(rows.collect());
            let least =
                (0..solved.len()).min_by(|a, b| cell(&solved, *a).total_cmp(&cell(&solved, *b)));
            match least {
                Some(nth) if cell(&solved, nth) < 0.0 => {
                    among.remove(nth);
                }
                _ => {
                    let mut found = vec![0.0; right.len()];
                    for (nth, value) in among.iter().zip(solved) {
                        if let Some(place) = found.get_mut(*nth) {
                            *place = value / norm(*nth);
                        }
                    }
                    return found;
                }
            }
        }
    }

    /// How far the rows are from it, as a share: root of the mean square, with as many fewer
    /// rows as there are unknowns that count.
    fn residual(&self, targets: &[f64], found: &[f64]) -> f64 {
        let squares: f64 = self
            .predicted(found)
            .zip(targets)
            .map(|(share, target)| (share - target).powi(2))
            .sum();
        let unknowns = found.iter().filter(|value| **value > 0.0).count();
        let left = self.rows.len().saturating_sub(unknowns).max(1);
        (squares / left as f64).sqrt()
    }

    fn predicted<'a>(&'a self, found: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
        self.rows
            .iter()
            .map(move |row| row.iter().zip(found).map(|(a, b)| a * b).sum())
    }

    /// Standard errors of the unknowns: by how much they move where the runs are disturbed by
    /// as much as they are uncertain.
    fn errors(&self, found: &[f64], uncertain: f64) -> Vec<f64> {
        // The same runs give the same errors.
        let mut random = fastrand::Rng::with_seed(1);
        let mut squares = vec![0.0; found.len()];
        for _ in 0..DRAWN {
            let disturbed: Vec<f64> = self
                .predicted(found)
                .map(|share| share * (1.0 + uncertain * normal(&mut random)))
                .collect();
            let again = self.solve(&disturbed, Some(found));
            for (square, (after, before)) in squares.iter_mut().zip(again.iter().zip(found)) {
                *square += (after - before).powi(2);
            }
        }
        let drawn = f64::from(DRAWN);
        let mean = squares.into_iter().map(|square| (square / drawn).sqrt());
        mean.collect()
    }
}

/// Solves linear equations by elimination; each row ends with its right side.
fn eliminated(mut rows: Vec<Vec<f64>>) -> Vec<f64> {
    let size = rows.len();
    for column in 0..size {
        let size_of = |row: &Vec<f64>| cell(row, column).abs();
        let largest = (column..size).max_by(|a, b| {
            let of = |nth: &usize| rows.get(*nth).map_or(0.0, size_of);
            of(a).total_cmp(&of(b))
        });
        rows.swap(column, largest.unwrap_or(column));
        let Some(pivot) = rows.get(column).cloned() else {
            break;
        };
        let divisor = cell(&pivot, column);
        if divisor == 0.0 {
            continue;
        }
        for (nth, row) in rows.iter_mut().enumerate() {
            let factor = if nth == column {
                0.0
            } else {
                cell(row, column) / divisor
            };
            for (value, from) in row.iter_mut().zip(&pivot) {
                *value -= factor * from;
            }
        }
    }
    let solved = rows.iter().enumerate().map(|(nth, row)| {
        let divisor = cell(row, nth);
        let right = row.last().copied().unwrap_or(0.0);
        if divisor == 0.0 { 0.0 } else { right / divisor }
    });
    solved.collect()
}

/// What rows come to that are divided by their measured values.
fn targets(measured: &[f64]) -> Vec<f64> {
    let shares = measured.iter().map(|value| value / scale(*value));
    shares.collect()
}

/// A run that took nothing is divided by 1.
fn scale(value: f64) -> f64 {
    if value > 0.0 { value } else { 1.0 }
}

fn cell(row: &[f64], column: usize) -> f64 {
    row.get(column).copied().unwrap_or(0.0)
}

/// A draw from a normal variable of mean 0 and deviation 1: the sum of twelve even ones.
fn normal(random: &mut fastrand::Rng) -> f64 {
    (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUE_PRICES: [(Event, f64); 4] = [
        (Event::LegUdp, 15.0),
        (Event::RegisterUdp, 9.0),
        (Event::FullP256, 180.0),
        (Event::VerifyOwn, 6.0),
    ];

    fn truth() -> Fit {
        let price = |us| Price { us, error_us: 0.0 };
        Fit {
            base_cores: 0.002,
            wake_us: 3.0,
            mixed_us: 2.0,
            awake_us: 40.0,
            prices: TRUE_PRICES.map(|(event, us)| (event, price(us))).into(),
            ..Fit::default()
        }
    }

    fn rates(of: &[(Event, f64)]) -> Rates {
        let mut rates = Rates::default();
        for (event, per_s) in of {
            rates.add(*event, *per_s);
        }
        rates
    }

    /// Runs as a server with the true prices would have them, each off by this share, to
    /// either side in turn.
    fn samples(off: f64) -> Vec<Sample> {
        let mut runs = Vec::new();
        for per_s in [100.0, 500.0, 2_000.0, 8_000.0] {
            runs.push(rates(&[(Event::LegUdp, per_s)]));
            runs.push(rates(&[(Event::RegisterUdp, per_s)]));
            runs.push(rates(&[
                (Event::RegisterUdp, per_s),
                (Event::VerifyOwn, per_s),
            ]));
            runs.push(rates(&[
                (Event::LegUdp, per_s),
                (Event::FullP256, per_s / 8.0),
            ]));
        }
        let runs = runs.into_iter().enumerate();
        runs.map(|(nth, rates)| {
            let side = if (nth + nth / 4) % 2 == 0 {
                1.0 + off
            } else {
                1.0 - off
            };
            let value = truth().cores(&rates).0 * side;
            Sample { rates, value }
        })
        .collect()
    }

    #[test]
    fn prices_are_found_again() {
        let fit = Fit::of(&samples(0.0), 0.01);
        assert_eq!(fit.awake_us, 40.0);
        assert!((fit.wake_us - 3.0).abs() < 0.1, "{fit:?}");
        assert!((fit.mixed_us - 2.0).abs() < 0.1, "{fit:?}");
        assert!((fit.base_cores - 0.002).abs() < 0.000_2, "{fit:?}");
        for (event, us) in TRUE_PRICES {
            let price = fit.prices[&event];
            assert!((price.us / us - 1.0).abs() < 0.05, "{event:?}: {price:?}");
            assert!(price.error_us > 0.0, "{event:?}: {price:?}");
        }
        assert!(fit.residual < 0.005, "{fit:?}");
        assert!(fit.base_error_cores > 0.0 && fit.wake_error_us > 0.0);
    }

    #[test]
    fn a_fit_through_all_runs_is_not_certain() {
        // Seven unknowns: the base, two of wake-ups, four prices.
        for (off, count) in [(0.0, 7), (0.05, 7), (0.05, 11)] {
            let mut some = samples(off);
            some.truncate(count);
            let fit = Fit::of(&some, 0.0);
            assert_eq!(fit.prices.len(), TRUE_PRICES.len());
            for sample in &some {
                let (cores, error) = fit.cores(&sample.rates);
                assert!(error > 0.01 * cores, "{off} {count}: {cores} {error}");
            }
        }
        assert_eq!([spare(7, 4), spare(12, 4), spare(3, 4)], [0, 5, 0]);
    }

    #[test]
    fn what_was_not_in_the_runs_is_predicted_within_its_interval() {
        let fit = Fit::of(&samples(0.03), 0.0);
        assert!((0.01..0.08).contains(&fit.residual), "{fit:?}");
        let mixed = rates(&[
            (Event::LegUdp, 3_000.0),
            (Event::RegisterUdp, 700.0),
            (Event::VerifyOwn, 300.0),
            (Event::FullP256, 90.0),
        ]);
        let (cores, error) = fit.cores(&mixed);
        let (expected, _) = truth().cores(&mixed);
        assert!(
            (cores - expected).abs() < 2.0 * error.max(0.02 * expected),
            "{cores} {expected}"
        );
        assert!((cores / expected - 1.0).abs() < 0.08, "{cores} {expected}");
    }

    #[test]
    fn base_and_wake_ups_are_as_uncertain_as_they_were_found() {
        let sure = truth();
        let unsure = Fit {
            base_error_cores: 0.000_5,
            wake_error_us: 1.0,
            ..truth()
        };
        let nothing = Rates::default();
        assert_eq!(sure.cores(&nothing), (0.002, 0.0));
        assert_eq!(unsure.cores(&nothing), (0.002, 0.000_5));
        let some = rates(&[(Event::LegUdp, 2_000.0)]);
        let wakes_per_s = unsure.wakes_per_s(some.arrivals_per_s());
        let (_, error) = unsure.cores(&some);
        assert!((error - (wakes_per_s / 1e6).hypot(0.000_5)).abs() < 1e-12);
        // On two workers there are more of them, each as uncertain.
        let (_, of_two) = unsure.wake_cores(&some, 2.0);
        assert!(of_two > wakes_per_s / 1e6, "{of_two}");
    }

    #[test]
    fn a_wake_up_costs_more_among_many_kinds() {
        let fit = truth();
        let alike = rates(&[(Event::LegUdp, 1_000.0)]);
        let mixed = rates(&[(Event::LegUdp, 500.0), (Event::LegTls, 500.0)]);
        assert_eq!(alike.arrivals_per_s(), mixed.arrivals_per_s());
        let [(alike_cores, _), (mixed_cores, _)] =
            [&alike, &mixed].map(|rates| fit.wake_cores(rates, 1.0));
        assert!(
            (mixed_cores / alike_cores - 4.0 / 3.0).abs() < 1e-9,
            "{alike_cores} {mixed_cores}"
        );
        let unsure = Fit {
            mixed_error_us: 1.0,
            ..truth()
        };
        assert_eq!(unsure.cores(&alike).1, 0.0);
        assert!(unsure.cores(&mixed).1 > 0.0);
    }

    #[test]
    fn no_price_is_below_nothing() {
        // A dearer register without a digest than with one.
        let odd = [
            Sample {
                rates: rates(&[(Event::RegisterUdp, 100.0)]),
                value: 0.2,
            },
            Sample {
                rates: rates(&[(Event::RegisterUdp, 100.0), (Event::VerifyOwn, 100.0)]),
                value: 0.1,
            },
        ];
        let fit = Fit::of(&odd, 0.0);
        assert!(fit.base_cores >= 0.0 && fit.wake_us >= 0.0);
        assert!(fit.prices.values().all(|price| price.us >= 0.0), "{fit:?}");
        assert_eq!(Fit::of(&[], 0.1), Fit::default());
    }

    #[test]
    fn wake_ups_are_shared_by_what_comes_together() {
        let fit = truth();
        assert!(fit.wakes_per_s(10.0) > 9.99);
        let (few, many) = (fit.wakes_per_s(10_000.0), fit.wakes_per_s(100_000.0));
        assert!(few < many && many < 25_000.0, "{few} {many}");
    }

    #[test]
    fn a_plain_sum_has_no_wake_ups() {
        let sums = samples(0.0).into_iter().map(|sample| Sample {
            value: TRUE_PRICES
                .iter()
                .map(|(event, bytes)| sample.rates.get(*event) * bytes)
                .sum(),
            ..sample
        });
        let (found, residual) = shares(&sums.collect::<Vec<Sample>>());
        assert!(residual < 0.001, "{residual}");
        for (event, bytes) in TRUE_PRICES {
            assert!((found[&event] / bytes - 1.0).abs() < 0.01, "{found:?}");
        }
    }

    #[test]
    fn what_was_never_measured_is_named() {
        let asked = rates(&[(Event::LegUdp, 1.0), (Event::Mutual, 1.0)]);
        assert_eq!(truth().unpriced(&asked), [Event::Mutual]);
    }
}
