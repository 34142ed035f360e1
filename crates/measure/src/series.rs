//! The run second by second: what the live picture draws and what the noise of
//! a figure is taken from.
//!
//! Each thread has a [`SecondRecorder`] and hands over its finished seconds as
//! [`SecondPart`]s; a [`Series`] adds the parts of all threads together. A call
//! counts as started in the second of its send, its delay in the second in which
//! it was known, and the call as ended well or not in the second of its end, so
//! that a stall shows where it was.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::latency::Quantiles;

const NS_PER_S: u64 = 1_000_000_000;
/// Longest series, a week; later seconds are dropped and counted.
pub const SECONDS_MAX: usize = 7 * 24 * 3_600;
/// So many seconds may a thread be behind the first with its parts.
pub const OPEN_S: u64 = 60;

/// One second of a run, all threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Second {
    /// Seconds since the start of the run, from 0.
    pub at_s: u64,
    /// Arrivals that came to their turn in this second, as they were due; and with the last
    /// of them those that never did, because the schedule had ended.
    pub due: u64,
    /// Attempts started.
    pub started: u64,
    /// Attempts that ended well.
    pub succeeded: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Attempts that were redirected, neither well nor failed.
    #[serde(skip_serializing_if = "is_none")]
    pub redirected: u64,
    /// Attempts under way at its end.
    pub in_flight: u64,
    /// Messages sent again.
    pub retransmissions: u64,
    /// Mean delay from the intended time, of what was answered well in this second. Of the
    /// four delays none is 0 but in a second without any, in which they are not written.
    #[serde(skip_serializing_if = "is_no_mean")]
    pub mean_us: f64,
    /// Half were at most this long, from the intended time.
    #[serde(skip_serializing_if = "is_no_delay")]
    pub p50_us: u64,
    /// 99%, from the intended time.
    #[serde(skip_serializing_if = "is_no_delay")]
    pub p99_us: u64,
    /// The longest.
    #[serde(skip_serializing_if = "is_no_delay")]
    pub max_us: u64,
    /// CPU time of the watched processes in this second.
    pub watched_cpu_ns: Option<u64>,
    /// CPU time of the generator itself in this second.
    pub own_cpu_ns: Option<u64>,
}

impl Second {
    /// Whether any delay was measured in it: they are recorded as a microsecond or more.
    pub fn has_delays(&self) -> bool {
        self.p50_us > 0
    }
}

fn is_no_mean(mean_us: &f64) -> bool {
    *mean_us == 0.0
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

fn is_no_delay(us: &u64) -> bool {
    *us == 0
}

/// One thread's part of one second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SecondPart {
    /// Seconds since the start, from 0.
    pub at_s: u64,
    /// Arrivals due.
    pub due: u64,
    /// Attempts started.
    pub started: u64,
    /// Attempts that ended well.
    pub succeeded: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Attempts that were redirected.
    pub redirected: u64,
    /// Attempts under way at its end.
    pub in_flight: u64,
    /// Messages sent again.
    pub retransmissions: u64,
    /// `(delay in us, count)` of the histogram's buckets in use.
    pub delays: Vec<(u64, u64)>,
}

/// Counts one thread's seconds. Recording allocates nothing; handing over a
/// second allocates its [`SecondPart`].
#[derive(Clone, Debug)]
pub struct SecondRecorder {
    part: SecondPart,
    delays: Histogram<u64>,
}

impl Default for SecondRecorder {
    fn default() -> Self {
        Self::new()
    }
}

impl SecondRecorder {
    /// At second 0.
    pub fn new() -> Self {
        Self {
            part: SecondPart::default(),
            delays: histogram(),
        }
    }

    /// An arrival was due.
    pub fn due(&mut self) {
        self.part.due += 1;
    }

    /// So many arrivals were due and are given up.
    pub fn given_up(&mut self, arrivals: u64) {
        self.part.due += arrivals;
    }

    /// An attempt was started.
    pub fn started(&mut self) {
        self.part.started += 1;
    }

    /// An attempt ended well.
    pub fn succeeded(&mut self) {
        self.part.succeeded += 1;
    }

    /// The delay of an attempt that was answered well, from its intended time.
    pub fn answered(&mut self, intended_ns: u64, done_ns: u64) {
        let us = (done_ns.saturating_sub(intended_ns).saturating_add(500)) / 1_000;
        self.delays.saturating_record(us.max(1));
    }

    /// An attempt failed.
    pub fn failed(&mut self) {
        self.part.failed += 1;
    }

    /// An attempt was redirected.
    pub fn redirected(&mut self) {
        self.part.redirected += 1;
    }

    /// A message was sent again.
    pub fn retransmitted(&mut self) {
        self.part.retransmissions += 1;
    }

    /// Hands over the current second when `elapsed_ns` is past its end, and
    /// starts the second of `elapsed_ns`. Call it several times a second, before
    /// recording what happened at `elapsed_ns`.
    pub fn turn(&mut self, elapsed_ns: u64, in_flight: u64) -> Option<SecondPart> {
        let now_s = elapsed_ns / NS_PER_S;
        (now_s > self.part.at_s).then(|| self.hand_over(now_s, in_flight))
    }

    /// Hands over what there is of the last second.
    pub fn finish(&mut self, in_flight: u64) -> SecondPart {
        let next_s = self.part.at_s + 1;
        self.hand_over(next_s, in_flight)
    }

    fn hand_over(&mut self, next_s: u64, in_flight: u64) -> SecondPart {
        let mut part = std::mem::replace(
            &mut self.part,
            SecondPart {
                at_s: next_s,
                ..SecondPart::default()
            },
        );
        part.in_flight = in_flight;
        part.delays = self
            .delays
            .iter_recorded()
            .map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()))
            .collect();
        self.delays.reset();
        part
    }
}

/// Puts the parts of all threads together.
///
/// The delays of a second are kept until [`OPEN_S`] later ones have begun; then
/// its percentiles are settled, so that a long run needs little memory.
#[derive(Clone, Debug, Default)]
pub struct Series {
    seconds: BTreeMap<u64, Second>,
    /// Delays of the seconds that are not settled.
    open: BTreeMap<u64, Vec<(u64, u64)>>,
    /// Delays of all seconds together.
    overall: BTreeMap<u64, u64>,
    dropped: u64,
    late: u64,
}

impl Series {
    /// Empty.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one thread's part of one second.
    pub fn add(&mut self, part: &SecondPart) {
        for &(us, count) in &part.delays {
            *self.overall.entry(us).or_default() += count;
        }
        let Some(second) = self.at(part.at_s) else {
            return;
        };
        second.due += part.due;
        second.started += part.started;
        second.succeeded += part.succeeded;
        second.failed += part.failed;
        second.redirected += part.redirected;
        second.in_flight += part.in_flight;
        second.retransmissions += part.retransmissions;
        let last_s = self.last_s().unwrap_or(0);
        if part.at_s + OPEN_S < last_s {
            self.late += 1;
            return;
        }
        let delays = self.open.entry(part.at_s).or_default();
        delays.extend_from_slice(&part.delays);
        while let Some(oldest) = self.open.first_entry() {
            if *oldest.key() + OPEN_S >= last_s {
                break;
            }
            let (at_s, delays) = oldest.remove_entry();
            if let Some(second) = self.seconds.get_mut(&at_s) {
                *second = with_delays(*second, &delays);
            }
        }
    }

    /// Notes the CPU time that the watched processes and the generator took in
    /// one second.
    pub fn cpu(&mut self, at_s: u64, watched_cpu_ns: Option<u64>, own_cpu_ns: Option<u64>) {
        if let Some(second) = self.at(at_s) {
            second.watched_cpu_ns = watched_cpu_ns;
            second.own_cpu_ns = own_cpu_ns;
        }
    }

    fn at(&mut self, at_s: u64) -> Option<&mut Second> {
        if self.seconds.len() >= SECONDS_MAX && !self.seconds.contains_key(&at_s) {
            self.dropped += 1;
            return None;
        }
        let second = self.seconds.entry(at_s).or_default();
        second.at_s = at_s;
        Some(second)
    }

    /// How many parts were left out because the series was full.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// How many parts came after their second was settled: their counts are in the
    /// figures, but their delays are not in that second's percentiles.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// One second as known so far.
    pub fn second(&self, at_s: u64) -> Option<Second> {
        let second = *self.seconds.get(&at_s)?;
        Some(match self.open.get(&at_s) {
            Some(delays) => with_delays(second, delays),
            None => second,
        })
    }

    /// The last second that any thread has handed over.
    pub fn last_s(&self) -> Option<u64> {
        self.seconds.last_key_value().map(|(&at_s, _)| at_s)
    }

    /// All seconds in order.
    pub fn seconds(&self) -> Vec<Second> {
        self.seconds
            .keys()
            .filter_map(|&at_s| self.second(at_s))
            .collect()
    }

    /// Percentiles over all seconds so far, from the intended time, in two
    /// digits: for the picture while the run goes on. `None` before the first delay.
    pub fn overall(&self) -> Option<Quantiles> {
        let delays: Vec<(u64, u64)> = self.overall.iter().map(|(&us, &n)| (us, n)).collect();
        let total: u64 = delays.iter().map(|&(_, count)| count).sum();
        if total == 0 {
            return None;
        }
        let sum: f64 = delays.iter().map(|&(us, n)| us as f64 * n as f64).sum();
        let at = |share| at_share(&delays, total, share);
        Some(Quantiles {
            mean_us: sum / total as f64,
            min_us: delays.first().map_or(0, |&(us, _)| us),
            p50_us: at(0.50),
            p90_us: at(0.90),
            p95_us: at(0.95),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: delays.last().map_or(0, |&(us, _)| us),
        })
    }
}

fn with_delays(mut second: Second, delays: &[(u64, u64)]) -> Second {
    let mut delays = delays.to_vec();
    delays.sort_unstable();
    let total: u64 = delays.iter().map(|&(_, count)| count).sum();
    if total == 0 {
        return second;
    }
    let sum: f64 = delays.iter().map(|&(us, n)| us as f64 * n as f64).sum();
    second.mean_us = sum / total as f64;
    second.p50_us = at_share(&delays, total, 0.50);
    second.p99_us = at_share(&delays, total, 0.99);
    second.max_us = delays.last().map_or(0, |&(us, _)| us);
    second
}

/// The least delay that at least `share` of all do not exceed.
fn at_share(sorted: &[(u64, u64)], total: u64, share: f64) -> u64 {
    let wanted = ((total as f64 * share).ceil() as u64).max(1);
    let mut seen = 0;
    for &(us, count) in sorted {
        seen += count;
        if seen >= wanted {
            return us;
        }
    }
    0
}

fn histogram() -> Histogram<u64> {
    // The bounds are constants that the constructor takes.
    #[allow(clippy::expect_used)]
    Histogram::new_with_bounds(1, crate::latency::MAX_US, 2).expect("1 us to 1 h in 2 digits")
}

#[cfg(test)]
mod tests;
