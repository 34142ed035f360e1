//! Delays, each from two starting points.
//!
//! A generator that waits for a slow server sends less while the server is
//! slow, and a histogram of what it sent hides the stall ("coordinated
//! omission"). So every delay is kept twice: from the time at which the arrival
//! was *intended*, which is what a user of an open-loop load would have felt,
//! and from the time of the *actual* send, which is what the server did to the
//! messages it saw. Where the two differ, the generator or a stalled server
//! held calls back.

use hdrhistogram::Histogram;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest delay kept, one hour; longer ones count as one hour.
pub const MAX_US: u64 = 3_600_000_000;
/// Significant decimal digits of a delay.
const DIGITS: u8 = 3;

/// Two histograms of one delay: one microsecond to one hour, within 0.1%.
#[derive(Clone, Debug)]
pub struct Latency {
    intended: Histogram<u64>,
    actual: Histogram<u64>,
}

/// Percentiles of one histogram, in microseconds; all 0 when nothing was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quantiles {
    /// Arithmetic mean.
    pub mean_us: f64,
    /// The shortest.
    pub min_us: u64,
    /// Half of all delays are at most this long.
    pub p50_us: u64,
    /// 90%.
    pub p90_us: u64,
    /// 95%.
    pub p95_us: u64,
    /// 99%.
    pub p99_us: u64,
    /// 99.9%.
    pub p999_us: u64,
    /// The longest.
    pub max_us: u64,
}

/// A [`Latency`] in a few figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LatencySummary {
    /// Delays recorded.
    pub count: u64,
    /// From the intended time of the arrival.
    pub intended: Quantiles,
    /// From the actual send.
    pub actual: Quantiles,
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

impl Latency {
    /// Empty. Allocates all the memory that it will ever need (about 380 KiB,
    /// of which only the pages in use become resident).
    pub fn new() -> Self {
        Self {
            intended: histogram(),
            actual: histogram(),
        }
    }

    /// Records one delay that ended at `done_ns`. A time before its start
    /// counts as no delay. Allocates nothing.
    #[inline]
    pub fn record(&mut self, intended_ns: u64, sent_ns: u64, done_ns: u64) {
        let intended_us = to_us(done_ns.saturating_sub(intended_ns));
        let actual_us = to_us(done_ns.saturating_sub(sent_ns));
        self.intended.saturating_record(intended_us);
        self.actual.saturating_record(actual_us);
    }

    /// Adds another thread's delays to these.
    pub fn merge(&mut self, other: &Self) {
        // Both have the same bounds, so that adding cannot fail.
        let _ = self.intended.add(&other.intended);
        let _ = self.actual.add(&other.actual);
    }

    /// Delays recorded.
    pub fn count(&self) -> u64 {
        self.intended.len()
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.intended.reset();
        self.actual.reset();
    }

    /// The usual percentiles.
    pub fn summary(&self) -> LatencySummary {
        LatencySummary {
            count: self.count(),
            intended: quantiles(&self.intended),
            actual: quantiles(&self.actual),
        }
    }

    /// Any percentile (0 to 100) from the intended time, in microseconds.
    pub fn intended_us(&self, percent: f64) -> u64 {
        self.intended.value_at_quantile(percent / 100.0)
    }

    /// How many lasted longer than this, from the intended time. What stands in one bucket of the
    /// histogram with the bound is not longer.
    pub fn longer_than(&self, us: u64) -> u64 {
        let within = self.intended.count_between(0, us);
        self.intended.len().saturating_sub(within)
    }

    /// Any percentile (0 to 100) from the actual send, in microseconds.
    pub fn actual_us(&self, percent: f64) -> u64 {
        self.actual.value_at_quantile(percent / 100.0)
    }
}

/// Equal when every bucket holds the same count.
impl PartialEq for Latency {
    fn eq(&self, other: &Self) -> bool {
        self.intended == other.intended && self.actual == other.actual
    }
}

fn histogram() -> Histogram<u64> {
    // The bounds are constants that the constructor takes.
    #[allow(clippy::expect_used)]
    Histogram::new_with_bounds(1, MAX_US, DIGITS).expect("1 us to 1 h in 3 digits")
}

/// Rounds to the nearest microsecond, within the histogram's bounds.
fn to_us(ns: u64) -> u64 {
    (ns.saturating_add(500) / 1_000).clamp(1, MAX_US)
}

fn quantiles(histogram: &Histogram<u64>) -> Quantiles {
    if histogram.is_empty() {
        return Quantiles::default();
    }
    Quantiles {
        mean_us: histogram.mean(),
        min_us: histogram.min(),
        p50_us: histogram.value_at_quantile(0.50),
        p90_us: histogram.value_at_quantile(0.90),
        p95_us: histogram.value_at_quantile(0.95),
        p99_us: histogram.value_at_quantile(0.99),
        p999_us: histogram.value_at_quantile(0.999),
        max_us: histogram.max(),
    }
}

/// What stands in JSON: the summary for people, the buckets for programs.
#[derive(Serialize, Deserialize)]
struct Record {
    #[serde(flatten)]
    summary: LatencySummary,
    /// `[highest value of the bucket in us, count]`.
    #[serde(default)]
    intended_buckets: Vec<(u64, u64)>,
    #[serde(default)]
    actual_buckets: Vec<(u64, u64)>,
}

impl Serialize for Latency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Record {
            summary: self.summary(),
            intended_buckets: buckets(&self.intended),
            actual_buckets: buckets(&self.actual),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Latency {
    /// The buckets alone count; a summary that does not fit them is not believed.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let record = Record::deserialize(deserializer)?;
        let mut latency = Self::new();
        fill(&mut latency.intended, &record.intended_buckets).map_err(D::Error::custom)?;
        fill(&mut latency.actual, &record.actual_buckets).map_err(D::Error::custom)?;
        if latency.intended.len() != latency.actual.len() {
            return Err(D::Error::custom(format!(
                "intended_buckets hold {} delays and actual_buckets {}: both must hold as many",
                latency.intended.len(),
                latency.actual.len()
            )));
        }
        Ok(latency)
    }
}

fn buckets(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    histogram
        .iter_recorded()
        .map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()))
        .collect()
}

fn fill(histogram: &mut Histogram<u64>, buckets: &[(u64, u64)]) -> Result<(), String> {
    let mut total = 0u64;
    for &(value_us, count) in buckets {
        total = total
            .checked_add(count)
            .filter(|&total| total < 1 << 53)
            .ok_or("a histogram of more than 2^53 delays: the file is damaged")?;
        histogram
            .record_n(value_us, count)
            .map_err(|_| format!("a delay of {value_us} us: the longest is {MAX_US}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
