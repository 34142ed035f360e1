//! Two results side by side: what changed, and what is noise.
//!
//! Every figure is compared with its noise, which is taken from the seconds of
//! both runs. Seconds depend on each other (a stall lasts), so they are
//! resampled in blocks ([`crate::statistics::bootstrap_means`]), which gives the
//! 99% interval of the difference. Then
//!
//! - *better* or *worse*: the interval leaves out 0, the difference is at least
//!   `matters`, and the blocks differ in rank too (Mann and Whitney, 1%), which
//!   a single second far off cannot bring about;
//! - *same*: the difference is below `matters` or the interval has 0 in it, and
//!   the whole interval lies within `tolerance`;
//! - *too noisy to tell*: else. The runs are too short, or the machine too busy,
//!   for a difference that matters to show.
//!
//! The noise within two runs is not all the noise between runs (memory layout,
//! neighbours, temperature): a change that matters deserves a second pair of
//! runs. Where the runs themselves are in doubt, or did not do the same, the
//! comparison says so first.

mod figures;
mod table;

use serde::Serialize;

use crate::random::Random;
use crate::result::RunResult;
use crate::statistics::{
    Z_99, block_means, bootstrap_means, mann_whitney, mean, quantile, student_t_99,
};

/// How one figure went from A to B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No difference that matters.
    Same,
    /// B is better.
    Better,
    /// B is worse.
    Worse,
    /// The noise would hide a difference that matters.
    TooNoisy,
}

/// How to compare.
#[derive(Clone, Debug, PartialEq)]
pub struct CompareConfig {
    /// Seed of the resampling: the same files and seed give the same verdicts.
    pub seed: u64,
    /// Relative difference below which nothing is called a change. 0.02.
    pub matters: f64,
    /// Relative difference that must be excluded before two figures are called
    /// the same. 0.10.
    pub tolerance: f64,
    /// The same two for figures in percent, in percentage points. 0.1 and 1.
    pub matters_points: f64,
    /// See `matters_points`.
    pub tolerance_points: f64,
    /// Seconds at the start of each run that are left out (connections and
    /// caches warm up). 1. The last second, which is seldom whole, is always left
    /// out, and so are those in which no arrival was due any more, unless calls ended well in
    /// those alone.
    pub warm_up_s: u64,
    /// Fewest seconds that say anything about noise. 8.
    pub seconds_min: usize,
    /// Resamples of each figure. 2,000.
    pub resamples: usize,
}

impl Default for CompareConfig {
    fn default() -> Self {
        Self {
            seed: 1,
            matters: 0.02,
            tolerance: 0.10,
            matters_points: 0.1,
            tolerance_points: 1.0,
            warm_up_s: 1,
            seconds_min: 8,
            resamples: 2_000,
        }
    }
}

/// Two results, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Why the comparison itself should not be believed, or only in part.
    pub warnings: Vec<String>,
    /// Figure by figure.
    pub rows: Vec<Row>,
}

/// One figure, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its unit: `us`, `%`, `/s`.
    pub unit: &'static str,
    /// In the first result.
    pub a: f64,
    /// In the second.
    pub b: f64,
    /// B minus A: relative to A, or in percentage points if `points`.
    pub difference: f64,
    /// The 99% interval of the difference; infinite where the noise is unknown.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// The difference is in percentage points.
    pub points: bool,
    /// What the comparison says of it.
    pub verdict: Verdict,
}

impl Comparison {
    /// Any figure got worse.
    pub fn any_worse(&self) -> bool {
        self.rows.iter().any(|row| row.verdict == Verdict::Worse)
    }

    /// Any figure changed, for better or worse.
    pub fn any_change(&self) -> bool {
        self.rows
            .iter()
            .any(|row| matches!(row.verdict, Verdict::Worse | Verdict::Better))
    }

    /// The row of a figure.
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// As a table for the terminal, at most 80 columns wide.
    pub fn table(&self) -> String {
        table::table(self)
    }
}

/// Compares B with A.
pub fn compare(a: &RunResult, b: &RunResult, config: &CompareConfig) -> Comparison {
    let (of_a, of_b) = figures::steady(a, b, config);
    let noise = Noise {
        a: of_a,
        b: of_b,
        config,
    };
    let mut rows = figures::by_second(&noise);
    rows.extend(figures::by_run(a, b, &noise, &rows));
    Comparison {
        warnings: figures::warnings(a, b, &noise),
        rows,
    }
}

/// What differs more is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Less,
    More,
}

/// The seconds that the noise is taken from.
struct Noise<'a> {
    a: Vec<crate::series::Second>,
    b: Vec<crate::series::Second>,
    config: &'a CompareConfig,
}

/// What is to be compared.
struct Compared<'a> {
    name: &'a str,
    unit: &'static str,
    wish: Wish,
    /// Compared by difference in percentage points, not by ratio.
    points: bool,
}

impl Noise<'_> {
    /// A row from one value for each second.
    fn row(&self, what: &Compared<'_>, a: &[f64], b: &[f64]) -> Row {
        let (mean_a, mean_b) = (mean(a), mean(b));
        let difference = difference(mean_a, mean_b, what.points);
        let (low, high) = self.interval(what, a, b);
        let differ_in_rank = {
            let (a, b) = (
                block_means(a, block_len(a.len())),
                block_means(b, block_len(b.len())),
            );
            mann_whitney(&a, &b) < 0.01
        };
        Row {
            name: what.name.to_owned(),
            unit: what.unit,
            a: mean_a,
            b: mean_b,
            difference,
            low,
            high,
            points: what.points,
            verdict: self.verdict(what, difference, low, high, differ_in_rank),
        }
    }

    fn verdict(
        &self,
        what: &Compared<'_>,
        difference: f64,
        low: f64,
        high: f64,
        differ: bool,
    ) -> Verdict {
        let (matters, tolerance) = if what.points {
            (self.config.matters_points, self.config.tolerance_points)
        } else {
            (self.config.matters, self.config.tolerance)
        };
        let changed = (low > 0.0 || high < 0.0) && difference.abs() >= matters;
        if changed && differ {
            return match (difference > 0.0, what.wish) {
                (true, Wish::More) | (false, Wish::Less) => Verdict::Better,
                _ => Verdict::Worse,
            };
        }
        if !changed && low >= -tolerance && high <= tolerance {
            Verdict::Same
        } else {
            Verdict::TooNoisy
        }
    }

    /// The 99% interval of the difference of means.
    fn interval(&self, what: &Compared<'_>, a: &[f64], b: &[f64]) -> (f64, f64) {
        let enough = self.config.seconds_min.max(2);
        if a.len() < enough || b.len() < enough {
            return (f64::NEG_INFINITY, f64::INFINITY);
        }
        // Each figure has draws of its own, whatever others there are.
        let salt = what
            .name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        let mut random = Random::new(self.config.seed ^ salt);
        let resamples = self.config.resamples.max(200);
        let means_a = bootstrap_means(a, block_len(a.len()), resamples, &mut random);
        let means_b = bootstrap_means(b, block_len(b.len()), resamples, &mut random);
        let mut differences: Vec<f64> = means_a
            .iter()
            .zip(&means_b)
            .map(|(a, b)| difference(*a, *b, what.points))
            .collect();
        differences.sort_by(f64::total_cmp);
        let middle = difference(mean(a), mean(b), what.points);
        if !middle.is_finite() {
            return (f64::NEG_INFINITY, f64::INFINITY);
        }
        // Few blocks know little of their own scatter: resampling them makes the
        // interval too narrow by this much (Student's t, and n in place of n-1).
        let blocks = |seconds: usize| (seconds / block_len(seconds)) as f64;
        let fewest = blocks(a.len()).min(blocks(b.len()));
        let degrees = (blocks(a.len()) + blocks(b.len())) as usize - 2;
        let wider = student_t_99(degrees) / Z_99 * (fewest / (fewest - 1.0)).sqrt();
        (
            middle + (quantile(&differences, 0.005) - middle) * wider,
            middle + (quantile(&differences, 0.995) - middle) * wider,
        )
    }
}

/// B less A: in points as it is, else relative to A. From nothing to something
/// is infinitely more.
fn difference(a: f64, b: f64, points: bool) -> f64 {
    if points {
        b - a
    } else if a == b {
        0.0
    } else if a == 0.0 {
        f64::INFINITY * b.signum()
    } else {
        (b - a) / a
    }
}

/// Blocks of the square root of all: long enough for what seconds have in
/// common, and as many blocks as seconds in each. Never so long that fewer than
/// six remain: with four, no difference in rank could show at 1%.
fn block_len(seconds: usize) -> usize {
    ((seconds as f64).sqrt().round() as usize)
        .min(seconds / 6)
        .max(1)
}

#[cfg(test)]
mod tests;
