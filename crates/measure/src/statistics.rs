//! The few statistics that the search and the comparison need.

use crate::random::Random;

/// Arithmetic mean; 0 of nothing.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    values.iter().sum::<f64>() / values.len() as f64
}

/// Standard deviation of a sample (n - 1); 0 of fewer than two.
pub fn deviation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = mean(values);
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    (squares / (values.len() - 1) as f64).sqrt()
}

/// The value that a Student t variable stays within, either side, with a
/// probability of 95%. `degrees` 0 gives infinity.
pub fn student_t_95(degrees: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    if degrees == 0 {
        return f64::INFINITY;
    }
    TABLE
        .get(degrees - 1)
        .copied()
        .unwrap_or_else(|| student_t(Z_95, degrees))
}

/// The same for 99%, within 1% from 8 degrees on.
pub fn student_t_99(degrees: usize) -> f64 {
    if degrees == 0 {
        return f64::INFINITY;
    }
    student_t(Z_99, degrees)
}

/// A normal variable stays within so many deviations, either side, with a
/// probability of 95%.
const Z_95: f64 = 1.959_964;

/// A normal variable stays within so many deviations, either side, with a
/// probability of 99%.
pub const Z_99: f64 = 2.575_829;

/// The first terms of the Cornish-Fisher expansion of Student's t, from the
/// normal quantile `z`.
fn student_t(z: f64, degrees: usize) -> f64 {
    let n = degrees as f64;
    z + (z.powi(3) + z) / (4.0 * n)
        + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n)
}

/// Mean and its 95% interval (Student t). One value has no interval: all three
/// are the value.
pub fn interval_95(values: &[f64]) -> (f64, f64, f64) {
    let mean = mean(values);
    if values.len() < 2 {
        return (mean, mean, mean);
    }
    let half = student_t_95(values.len() - 1) * deviation(values) / (values.len() as f64).sqrt();
    (mean, mean - half, mean + half)
}

/// The ends of the 95% interval of the median of what `sorted` was drawn from, by the ranks of a
/// binomial with a half, whatever the distribution. Fewer than nine give the lowest and the
/// highest, which fewer than six hold it between less often than that. `None` of fewer than two.
pub fn median_interval_95(sorted: &[f64]) -> Option<(f64, f64)> {
    if sorted.len() < 2 {
        return None;
    }
    let n = sorted.len() as f64;
    let rank = ((n + 1.0 - Z_95 * n.sqrt()) / 2.0).floor().max(1.0) as usize;
    let low = sorted.get(rank - 1).copied();
    low.zip(sorted.get(sorted.len() - rank).copied())
}

/// The lower end of Wilson's interval for a share of which `hits` of `trials`
/// were seen; `z` deviations (1.645: 95% on this side).
pub fn wilson_low(hits: u64, trials: u64, z: f64) -> f64 {
    if trials == 0 || hits == 0 {
        return 0.0;
    }
    let (n, share) = (trials as f64, hits as f64 / trials as f64);
    let centre = share + z * z / (2.0 * n);
    let half = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    ((centre - half) / (1.0 + z * z / n)).max(0.0)
}

/// The probability that a normal variable lies further from its mean than `z`
/// deviations, on either side.
pub fn normal_two_sided(z: f64) -> f64 {
    // Abramowitz and Stegun 7.1.26, error below 1.5e-7.
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let polynomial = t
        * (0.254_829_592
            + t * (-0.284_496_736
                + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    (polynomial * (-x * x).exp()).clamp(0.0, 1.0)
}

/// The two-sided probability of such a difference in rank when `a` and `b` come
/// from the same distribution (Mann and Whitney, normal approximation with
/// correction for ties and continuity). 1 when either is empty.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> f64 {
    let Some((u, ties)) = ranked(a, b) else {
        return 1.0;
    };
    let (n_a, n_b) = (a.len() as f64, b.len() as f64);
    let n = n_a + n_b;
    let variance = n_a * n_b / 12.0 * (n + 1.0 - ties / (n * (n - 1.0)));
    if variance <= 0.0 || variance.is_nan() {
        return 1.0;
    }
    let distance = ((u - n_a * n_b / 2.0).abs() - 0.5).max(0.0);
    normal_two_sided(distance / variance.sqrt())
}

/// The probability that a value of `a` is larger than one of `b`, equal ones counted half
/// (Vargha and Delaney's A): a half where neither tends to be. A half when either is empty.
pub fn superiority(a: &[f64], b: &[f64]) -> f64 {
    match ranked(a, b) {
        Some((u, _)) => u / (a.len() as f64 * b.len() as f64),
        None => 0.5,
    }
}

/// Mann and Whitney's U of `a`, and the sum over ties of their size cubed less their size.
/// `None` when either is empty.
fn ranked(a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let mut all: Vec<(f64, bool)> = a.iter().map(|&v| (v, true)).collect();
    all.extend(b.iter().map(|&v| (v, false)));
    all.sort_by(|x, y| x.0.total_cmp(&y.0));
    let (mut rank_sum_a, mut ties, mut before) = (0.0, 0.0, 0usize);
    for equal in all.chunk_by(|x, y| x.0 == y.0) {
        let size = equal.len() as f64;
        // Ranks before+1 ..= before+size share their mean.
        let rank = before as f64 + (size + 1.0) / 2.0;
        rank_sum_a += rank * equal.iter().filter(|(_, of_a)| *of_a).count() as f64;
        ties += size.powi(3) - size;
        before += equal.len();
    }
    let n_a = a.len() as f64;
    Some((rank_sum_a - n_a * (n_a + 1.0) / 2.0, ties))
}

/// The largest distance between the distributions of two samples, and the probability of
/// one as large when they come from the same distribution (Kolmogorov and Smirnov; the limit
/// for large samples, too high where there are ties). 0 and 1 when either is empty.
pub fn kolmogorov_smirnov(a: &[f64], b: &[f64]) -> (f64, f64) {
    if a.is_empty() || b.is_empty() {
        return (0.0, 1.0);
    }
    let (n_a, n_b) = (a.len() as f64, b.len() as f64);
    let mut all: Vec<(f64, bool)> = a.iter().map(|&v| (v, true)).collect();
    all.extend(b.iter().map(|&v| (v, false)));
    all.sort_by(|x, y| x.0.total_cmp(&y.0));
    let (mut of_a, mut of_b, mut distance) = (0.0, 0.0, 0.0f64);
    for equal in all.chunk_by(|x, y| x.0 == y.0) {
        let count = equal.iter().filter(|(_, of_a)| *of_a).count() as f64;
        of_a += count;
        of_b += equal.len() as f64 - count;
        distance = distance.max((of_a / n_a - of_b / n_b).abs());
    }
    let p = kolmogorov((n_a * n_b / (n_a + n_b)).sqrt() * distance);
    (distance, p)
}

/// The probability that Kolmogorov's limit exceeds `x`.
fn kolmogorov(x: f64) -> f64 {
    // Below it the series converges slowly, and the probability is 1 to seven digits.
    if x < 0.25 {
        return 1.0;
    }
    let term = |k: i32| {
        let sign = if k % 2 == 0 { -1.0 } else { 1.0 };
        sign * (-2.0 * f64::from(k * k) * x * x).exp()
    };
    (2.0 * (1..=20).map(term).sum::<f64>()).clamp(0.0, 1.0)
}

/// Means of consecutive blocks of `len` values; a rest shorter than `len` joins
/// the last block.
pub fn block_means(values: &[f64], len: usize) -> Vec<f64> {
    let len = len.max(1);
    let blocks = (values.len() / len).max(usize::from(!values.is_empty()));
    (0..blocks)
        .filter_map(|block| {
            let end = if block + 1 == blocks {
                values.len()
            } else {
                (block + 1) * len
            };
            values.get(block * len..end).map(mean)
        })
        .collect()
}

/// Means of resamples of `values` made of blocks of `len` consecutive values
/// (circular block bootstrap: what follows the last is the first), so that the
/// dependence of one second on the one before stays in the noise.
pub fn bootstrap_means(
    values: &[f64],
    len: usize,
    resamples: usize,
    random: &mut Random,
) -> Vec<f64> {
    let n = values.len();
    if n == 0 {
        return Vec::new();
    }
    let len = len.clamp(1, n);
    // Sums of blocks from each start, so that a resample costs n/len additions.
    let circular = |at: usize| values.get(at % n).copied().unwrap_or(0.0);
    let block_sum = |start: usize, len: usize| (start..start + len).map(circular).sum::<f64>();
    let whole: Vec<f64> = (0..n).map(|start| block_sum(start, len)).collect();
    let rest = n % len;
    (0..resamples)
        .map(|_| {
            let mut sum = 0.0;
            for _ in 0..n / len {
                sum += whole.get(random.below(n)).copied().unwrap_or(0.0);
            }
            if rest > 0 {
                sum += block_sum(random.below(n), rest);
            }
            sum / n as f64
        })
        .collect()
}

/// Quantiles of resamples of `sorted`, at each of `shares`, one after the other: what other
/// samples of the same distribution might show.
pub fn bootstrap_quantiles(
    sorted: &[f64],
    shares: &[f64],
    resamples: usize,
    random: &mut Random,
) -> Vec<Vec<f64>> {
    // How often each value was drawn stands for the resample, which so needs no sorting.
    let mut drawn = vec![0usize; sorted.len()];
    (0..resamples)
        .map(|_| {
            drawn.fill(0);
            for _ in 0..sorted.len() {
                if let Some(times) = drawn.get_mut(random.below(sorted.len())) {
                    *times += 1;
                }
            }
            shares
                .iter()
                .map(|share| drawn_quantile(sorted, &drawn, *share))
                .collect()
        })
        .collect()
}

/// The same value as [`quantile`] of a sample in which each of `sorted` is as often as it was
/// drawn.
fn drawn_quantile(sorted: &[f64], drawn: &[usize], share: f64) -> f64 {
    let at = (share * (sorted.len() as f64 - 1.0)).round().max(0.0) as usize;
    let mut before = 0;
    let found = sorted.iter().zip(drawn).find(|(_, times)| {
        before += **times;
        before > at
    });
    found
        .or_else(|| sorted.iter().zip(drawn).next_back())
        .map_or(0.0, |(value, _)| *value)
}

/// The value that a share of `sorted` does not exceed; 0 of nothing.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = (share * (sorted.len() as f64 - 1.0)).round().max(0.0) as usize;
    sorted
        .get(at.min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or(0.0)
}

#[cfg(test)]
mod tests;
