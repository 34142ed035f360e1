//! A run: jobs go in, a record comes out.

use std::time::{SystemTime, UNIX_EPOCH};

use measure::Host;
use signet_bed::Error;
use signet_bed::record::Machine;

use crate::cycles;
use crate::record::{Clock, FORMAT, Item, Missed, Point, PriceRecord, VERSION};
use crate::timing::{self, Job, Timing};

/// A median whose batches differ by more is noisy.
const SPREAD_MAX: f64 = 0.03;
/// So many of them may be.
const NOISY_MAX: f64 = 0.05;
/// The share of its time for which a run may wait for a core.
const WAITED_MAX: f64 = 0.01;

/// What is to be run.
pub struct Task {
    /// The command line, for the record.
    pub command: String,
    /// The work.
    pub jobs: Vec<Job>,
    /// What nobody here can do.
    pub missed: Vec<Missed>,
    /// Libraries and programs, and their versions.
    pub versions: Vec<(String, String)>,
    /// How long and how often.
    pub timing: Timing,
}

/// Times everything. `told` hears of each round that is done: which, and of how many.
///
/// # Errors
/// The first work that cannot go on.
pub fn run(task: Task, told: &mut dyn FnMut(u32, u32)) -> Result<PriceRecord, Error> {
    let started_unix_s = now_unix_s();
    let host = Host::this();
    let clock = Clock {
        overhead_ns: timing::overhead_ns(),
        ..cycles::calibrate()
    };
    let before = Scheduled::now();
    let items = timing::run(task.jobs, &task.timing, &clock, told)?;
    let waited = before
        .zip(Scheduled::now())
        .map(|(before, after)| after.waited(&before));
    Ok(PriceRecord {
        format: FORMAT.to_owned(),
        version: VERSION,
        command: task.command,
        started_unix_s,
        ended_unix_s: now_unix_s(),
        machine: Machine {
            cpu_model: host.cpu_model,
            cores: u32::try_from(host.cores).unwrap_or(u32::MAX),
            kernel: host.kernel,
            ..Machine::default()
        },
        versions: task.versions.into_iter().collect(),
        clock,
        doubts: doubts(&items, waited, &task.timing),
        items,
        missed: task.missed,
        checks: Vec::new(),
    })
}

fn now_unix_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

/// What the kernel's scheduler says of this thread.
struct Scheduled {
    ran_ns: f64,
    waited_ns: f64,
}

impl Scheduled {
    fn now() -> Option<Self> {
        Self::of(&std::fs::read_to_string("/proc/thread-self/schedstat").ok()?)
    }

    fn of(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        Some(Self {
            ran_ns: words.next()?.parse().ok()?,
            waited_ns: words.next()?.parse().ok()?,
        })
    }

    /// The share of the time since then for which it waited for a core.
    fn waited(&self, since: &Self) -> f64 {
        let waited = self.waited_ns - since.waited_ns;
        waited / (waited + self.ran_ns - since.ran_ns).max(1.0)
    }
}

fn doubts(items: &[Item], waited: Option<f64>, timing: &Timing) -> Vec<String> {
    let points = || items.iter().flat_map(|item| &item.points);
    let count = points().count();
    let noisy = points().filter(|point| point.spread > SPREAD_MAX).count();
    let mut doubts = Vec::new();
    if let Some(waited) = waited.filter(|waited| *waited > WAITED_MAX) {
        doubts.push(format!(
            "other programs had the core for {:.0} % of the time: measure where nothing else runs",
            waited * 100.0
        ));
    }
    if noisy as f64 > NOISY_MAX * count as f64 {
        doubts.push(format!(
            "{noisy} of {count} medians have batches that differ by more than {:.0} %: the machine \
             is not quiet",
            SPREAD_MAX * 100.0
        ));
    }
    let is_short = |point: &&Point| timing.is_short(point.times, point.median_ns);
    let short = points().filter(is_short).count();
    if short > 0 {
        doubts.push(format!(
            "{short} of {count} medians are of batches of one time alone, which cold caches make dear: \
             the machine was not quiet when batches were chosen"
        ));
    }
    let rounds = points().map(|point| point.batches).min().unwrap_or(0);
    if rounds < timing.rounds {
        doubts.push(format!(
            "time allowed {rounds} rounds of {}: choose fewer sizes or algorithms",
            timing.rounds
        ));
    }
    doubts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(spread: f64, batches: u32) -> Vec<Item> {
        let point = Point {
            spread,
            batches,
            ..Point::default()
        };
        vec![Item {
            points: vec![point; 10],
            ..Item::default()
        }]
    }

    #[test]
    fn noise_is_told() {
        let timing = Timing {
            rounds: 9,
            ..Timing::default()
        };
        assert!(doubts(&items(0.01, 9), Some(0.001), &timing).is_empty());
        assert!(doubts(&items(0.01, 9), None, &timing).is_empty());
        let told = doubts(&items(0.2, 5), Some(0.25), &timing);
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(
            told[0].contains("25 %")
                && told[1].contains("10 of 10")
                && told[2].contains("5 rounds of 9")
        );
    }

    #[test]
    fn batches_of_one_time_are_told_where_more_were_wanted() {
        let timing = Timing {
            rounds: 9,
            ..Timing::default()
        };
        let told = |times: u32, median_ns: f64| {
            let mut items = items(0.01, 9);
            items[0].points[3] = Point {
                times,
                median_ns,
                ..items[0].points[3]
            };
            doubts(&items, None, &timing)
        };
        let short = told(1, 300.0);
        assert_eq!(short.len(), 1, "{short:?}");
        assert!(short[0].starts_with("1 of 10 medians"), "{short:?}");
        assert!(told(166, 300.0).is_empty());
        assert!(told(1, 60_000.0).is_empty(), "a handshake fills a batch");
    }

    #[test]
    fn waiting_is_a_share_of_the_time() {
        let (before, after) = (Scheduled::of("100 50 3"), Scheduled::of("400 150 9\n"));
        let waited = after.unwrap().waited(&before.unwrap());
        assert!((waited - 0.25).abs() < 1e-9, "{waited}");
        assert!(Scheduled::of("x").is_none());
    }
}
