//! Whether two sorts of names can be told apart by their refusals.

use measure::random::Random;
use measure::statistics::{
    bootstrap_quantiles, kolmogorov_smirnov, mann_whitney, quantile, superiority,
};

use super::names::Sort;
use crate::auth::record::{TimingPair, TimingRow};

/// The parts of the distributions that are looked at one by one.
pub(super) const SHARES: [f64; 3] = [0.5, 0.9, 0.99];
/// Resamples for the interval of a difference.
const RESAMPLES: usize = 2_000;
/// The ends of an interval that has 99 of 100.
const ENDS: [f64; 2] = [0.005, 0.995];
/// Tests of each pair: by time twice, and by order.
pub(super) const TESTS: usize = 3;

/// What came of the requests of one sort.
pub(super) struct Sample {
    pub(super) sort: Sort,
    /// How long each answer took, in milliseconds.
    pub(super) took_ms: Vec<f64>,
    /// Of those that were sent together with another: 1 where the answer came after that of
    /// the one that was sent later, -1 where it came before that of the one that was sent
    /// earlier, else 0.
    pub(super) order: Vec<f64>,
    pub(super) requests: usize,
}

impl Sample {
    pub(super) const fn new(sort: Sort) -> Self {
        Self {
            sort,
            took_ms: Vec::new(),
            order: Vec::new(),
            requests: 0,
        }
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.took_ms.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// Its line in a table.
    pub(super) fn row(&self) -> TimingRow {
        let sorted = self.sorted();
        let out_of_order = self.order.iter().filter(|moved| **moved != 0.0).count();
        TimingRow {
            name: self.sort.name().to_owned(),
            requests: self.requests,
            refused: self.took_ms.len(),
            quantiles_ms: SHARES.map(|share| quantile(&sorted, share)),
            out_of_order: out_of_order as f64 / self.order.len().max(1) as f64,
        }
    }
}

/// Compares all pairs of some samples.
pub(super) fn pairs(samples: &[&Sample], is_control: bool) -> Vec<TimingPair> {
    // The same draws for the sample in each of its pairs.
    let drawn: Vec<Vec<Vec<f64>>> = (0..)
        .zip(samples)
        .map(|(seed, sample)| {
            let mut random = Random::new(seed);
            bootstrap_quantiles(&sample.sorted(), &SHARES, RESAMPLES, &mut random)
        })
        .collect();
    let mut pairs = Vec::new();
    for (nth, (a, of_a)) in samples.iter().zip(&drawn).enumerate() {
        for (b, of_b) in samples.iter().zip(&drawn).skip(nth + 1) {
            let (distance, p_distance) = kolmogorov_smirnov(&a.took_ms, &b.took_ms);
            pairs.push(TimingPair {
                a: a.sort.name().to_owned(),
                b: b.sort.name().to_owned(),
                is_control,
                distance,
                p_distance,
                p_rank: mann_whitney(&a.took_ms, &b.took_ms),
                p_order: mann_whitney(&a.order, &b.order),
                superiority: superiority(&a.took_ms, &b.took_ms),
                differences_us: differences_us((*a, of_a.as_slice()), (*b, of_b.as_slice())),
            });
        }
    }
    pairs
}

/// By how much `a` takes longer than `b` at each of [`SHARES`]: the difference, and the ends
/// of its interval, in microseconds.
fn differences_us(
    (a, of_a): (&Sample, &[Vec<f64>]),
    (b, of_b): (&Sample, &[Vec<f64>]),
) -> [[f64; 3]; 3] {
    let (a, b) = (a.sorted(), b.sorted());
    let mut nth = 0;
    SHARES.map(|share| {
        let at = |quantiles: &Vec<f64>| quantiles.get(nth).copied().unwrap_or(0.0);
        let resampled = of_a.iter().zip(of_b);
        let mut resampled: Vec<f64> = resampled.map(|(a, b)| at(a) - at(b)).collect();
        resampled.sort_by(f64::total_cmp);
        nth += 1;
        let [low, high] = ENDS.map(|end| quantile(&resampled, end));
        [quantile(&a, share) - quantile(&b, share), low, high].map(|ms| ms * 1_000.0)
    })
}

/// The least probability of all tests of these pairs, times their number (Bonferroni).
pub(super) fn least_p(pairs: &[TimingPair]) -> Option<f64> {
    let all = pairs
        .iter()
        .flat_map(|pair| [pair.p_distance, pair.p_rank, pair.p_order]);
    let least = all.reduce(f64::min)?;
    Some((least * (pairs.len() * TESTS) as f64).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(sort: Sort, seed: u64, added_ms: f64) -> Sample {
        let mut random = Random::new(seed);
        let took_ms: Vec<f64> = (0..4_000)
            .map(|_| 30.0 + 0.3 * random.exponential() + added_ms)
            .collect();
        let order = (0..4_000).map(|_| random.below(3) as f64 - 1.0).collect();
        Sample {
            sort,
            requests: took_ms.len(),
            took_ms,
            order,
        }
    }

    #[test]
    fn what_is_alike_is_not_told_apart_and_what_differs_is() {
        let samples = [
            sample(Sort::Held, 1, 0.0),
            sample(Sort::NotHeld, 2, 0.0),
            sample(Sort::NewGhost, 3, 0.0),
        ];
        let refs: Vec<&Sample> = samples.iter().collect();
        let alike = pairs(&refs, false);
        assert_eq!(alike.len(), 3);
        assert!(least_p(&alike).unwrap() > 0.01, "{alike:?}");
        for pair in &alike {
            assert!((pair.superiority - 0.5).abs() < 0.03, "{pair:?}");
            for [difference, low, high] in pair.differences_us {
                assert!(low <= difference && difference <= high);
            }
        }
        let later = sample(Sort::Later, 4, 0.2);
        let control = pairs(&[&later, &samples[0]], true);
        assert!(least_p(&control).unwrap() < 1e-6);
        let [median, ..] = control[0].differences_us;
        assert!(median[1] > 100.0 && median[2] < 300.0, "{median:?}");
        assert!(control[0].superiority > 0.6);
    }

    #[test]
    fn an_order_that_tells_is_found_where_times_do_not() {
        let one = sample(Sort::Held, 1, 0.0);
        let mut other = sample(Sort::NotHeld, 2, 0.0);
        for (nth, moved) in other.order.iter_mut().enumerate() {
            *moved = if nth % 2 == 0 { 1.0 } else { *moved };
        }
        let found = pairs(&[&one, &other], false);
        assert!(found[0].p_rank > 0.01 && found[0].p_distance > 0.01);
        assert!(least_p(&found).unwrap() < 1e-6);
        assert_eq!(least_p(&[]), None);
    }
}
