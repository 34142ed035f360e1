//! The tries of a search: each is a run of its own.

use std::time::Duration;

use measure::search::{Rfc7502Config, Rfc7502Peak};
use measure::{
    Outcome, Peak, PeakSearch, Rfc7502, RunResult, Schedule, SearchConfig, SipFigures, Step, Try,
};
use serde_json::{Value, json};

use crate::app::report::{Circumstances, result_of};
use crate::app::watching::Watching;
use crate::app::{Output, say};
use crate::crew::{Control, Failed, run};
use crate::settings::Settings;

/// What a watched process took in one try.
pub(super) struct Taken {
    name: String,
    pid: u32,
    /// Share of a core while the try lasted.
    cpu_share: f64,
    /// CPU time for each attempt.
    cpu_us: f64,
    /// The most memory that it held.
    memory_bytes: u64,
}

/// Makes the tries of a search, and keeps what each told besides its outcome.
pub(super) struct Tries<'a> {
    settings: &'a Settings,
    delay_percent: f64,
    output: &'a Output,
    control: &'a Control,
    /// The TLS suite that was negotiated.
    pub(super) suite: String,
    /// What the watched processes took, try by try.
    pub(super) taken: Vec<Vec<Taken>>,
}

impl<'a> Tries<'a> {
    pub(super) fn new(
        settings: &'a Settings,
        delay_percent: f64,
        output: &'a Output,
        control: &'a Control,
    ) -> Self {
        Self {
            settings,
            delay_percent,
            output,
            control,
            suite: String::new(),
            taken: Vec::new(),
        }
    }

    pub(super) fn search_peak(&mut self, config: &SearchConfig) -> Result<Peak, Failed> {
        let mut search = PeakSearch::new(config.clone());
        loop {
            match search.next() {
                Step::Rest { duration_ns } => rest(duration_ns, self.control),
                Step::Try {
                    rate_per_s,
                    attempts,
                } => search.give(self.attempt(rate_per_s, attempts)?),
                Step::Done(peak) => return Ok(peak),
            }
        }
    }

    pub(super) fn search_rfc7502(
        &mut self,
        attempts: u64,
        peak: &Peak,
    ) -> Result<Rfc7502Peak, Failed> {
        say(&format!("now RFC 7502, {attempts} attempts a try"));
        let config = Rfc7502Config {
            attempts,
            ..Rfc7502Config::default()
        };
        let mut search = Rfc7502::seeded(config, peak);
        loop {
            match search.next() {
                Step::Rest { duration_ns } => rest(duration_ns, self.control),
                Step::Try {
                    rate_per_s,
                    attempts,
                } => search.give(self.attempt(rate_per_s, attempts)?),
                Step::Done(found) => return Ok(found),
            }
        }
    }

    /// One try: a run of its own.
    fn attempt(&mut self, rate_per_s: f64, attempts: u64) -> Result<Outcome, Failed> {
        let (settings, output) = (self.settings, self.output);
        let duration_ns = (attempts as f64 / rate_per_s * 1e9) as u64 + 1_000_000_000;
        let tried = Settings {
            schedule: Some(Schedule::constant(rate_per_s, duration_ns).limit(attempts)),
            ..settings.clone()
        };
        // It was there before the first try: it has ended since.
        let mut watching = Watching::new(&output.watch).map_err(Failed::Run)?;
        let ran = run(tried.clone(), self.control, &mut |progress| {
            if let Some(elapsed_ns) = progress.elapsed_ns {
                watching.see(elapsed_ns);
            }
            if progress.is_asked {
                say(&format!(
                    "{rate_per_s:8.0}/s  {} begun, {} ended, {} failed so far",
                    progress.started, progress.ended, progress.failed
                ));
            }
        })?;
        let (_, processes) = watching.end();
        self.taken.push(
            processes
                .into_iter()
                .map(|process| Taken {
                    cpu_share: process.cpu_ns as f64 / ran.duration_ns.max(1) as f64,
                    cpu_us: process.cpu_ns as f64 / 1e3 / ran.started.max(1) as f64,
                    memory_bytes: process.peak.memory_bytes(),
                    name: process.name,
                    pid: process.pid,
                })
                .collect(),
        );
        let suite = ran
            .counters
            .iter()
            .find(|counter| counter.0.starts_with("TLS_"));
        if let Some((name, _)) = suite {
            self.suite = (*name).to_owned();
        }
        let delay_ns = delay_ns(&ran.figures, self.delay_percent);
        let (started, failed) = (ran.started, ran.failed);
        // A retransmission on the way to itself is a message that was lost here.
        let lost_here = settings.direct.is_some() && ran.retransmissions.sent() > 0;
        let circumstances = Circumstances {
            bounds: output.bounds,
            ..Circumstances::default()
        };
        let mut result = result_of(ran, &tried, circumstances);
        result.conclude(&[]);
        // A generator that is being searched for its own limit may reach it.
        let doubtful = settings.direct.is_none()
            && result
                .doubts
                .iter()
                .any(|doubt| doubt.name != "interrupted");
        let own_limit =
            settings.direct.is_some() && result.doubts.iter().any(|doubt| doubt.name != "own cpu");
        let failures = if (lost_here || own_limit) && failed == 0 {
            started
        } else {
            failed
        };
        let outcome = Outcome {
            attempts: started,
            failures,
            delay_ns,
            doubtful,
            interrupted: self.control.is_interrupted(),
        };
        if !output.quiet {
            say(&told(rate_per_s, &outcome, failed, &result));
        }
        Ok(outcome)
    }
}

/// The delay that the limit is held against: of set-ups or registrations, and of the
/// slowest other request.
fn delay_ns(figures: &SipFigures, percent: f64) -> Option<u64> {
    let delay = if figures.srd.count() > 0 {
        &figures.srd
    } else {
        &figures.rrd
    };
    let others = figures.requests.values().map(|request| &request.delay);
    std::iter::once(delay)
        .chain(others)
        .filter(|delay| delay.count() > 0)
        .map(|delay| delay.intended_us(percent) * 1_000)
        .max()
}

/// A line for a try.
fn told(rate_per_s: f64, outcome: &Outcome, failed: u64, result: &RunResult) -> String {
    let delay = outcome.delay_ns.map_or_else(
        || "no delay".to_owned(),
        |ns| format!("delay {:.1} ms", ns as f64 / 1e6),
    );
    let causes: Vec<String> = result
        .causes
        .ranked()
        .iter()
        .take(3)
        .map(|(why, n)| format!("{why} {n}"))
        .collect();
    let doubts: Vec<&str> = result
        .doubts
        .iter()
        .map(|doubt| doubt.name.as_str())
        .collect();
    let mut line = format!(
        "{rate_per_s:8.0}/s  {} begun, {failed} failed, {} sent again, {delay}",
        outcome.attempts,
        result.retransmissions.sent(),
    );
    if !causes.is_empty() {
        line.push_str(&format!(" ({})", causes.join(", ")));
    }
    if !doubts.is_empty() {
        line.push_str(&format!(" [{}]", doubts.join(", ")));
    }
    line
}

/// For each watched process what it took in the highest try that was held.
pub(super) fn watched_at_peak(tries: &[Try], taken: &[Vec<Taken>]) -> Vec<String> {
    let held = tries.iter().zip(taken).filter(|(tried, _)| tried.held);
    let highest = held.max_by(|a, b| a.0.rate_per_s.total_cmp(&b.0.rate_per_s));
    let Some((tried, processes)) = highest else {
        return Vec::new();
    };
    processes
        .iter()
        .map(|process| {
            format!(
                "process {} {}: {:.1}% of a core at {:.0}/s, {:.1} us of CPU each, {:.1} MiB",
                process.pid,
                process.name,
                process.cpu_share * 100.0,
                tried.rate_per_s,
                process.cpu_us,
                process.memory_bytes as f64 / f64::from(1 << 20)
            )
        })
        .collect()
}

/// Each watched process with what it took, try by try.
pub(super) fn processes(tries: &[Try], taken: &[Vec<Taken>]) -> Vec<Value> {
    let first: &[Taken] = taken.first().map_or(&[], Vec::as_slice);
    let named = first.iter().enumerate();
    named
        .map(|(nth, process)| {
            let rows: Vec<Value> = tries
                .iter()
                .zip(taken)
                .filter_map(|(tried, taken)| Some((tried, taken.get(nth)?)))
                .map(|(tried, taken)| {
                    json!({
                        "rate_per_s": tried.rate_per_s,
                        "held": tried.held,
                        "cpu_share": taken.cpu_share,
                        "cpu_us_per_attempt": taken.cpu_us,
                        "memory_bytes": taken.memory_bytes,
                    })
                })
                .collect();
            json!({"name": process.name, "pid": process.pid, "tries": rows})
        })
        .collect()
}

fn rest(duration_ns: u64, control: &Control) {
    let mut left = Duration::from_nanos(duration_ns);
    let step = Duration::from_millis(100);
    while !left.is_zero() && !control.is_interrupted() {
        std::thread::sleep(left.min(step));
        left = left.saturating_sub(step);
    }
}
