//! The tries of a search: each is a run of its own.

use std::time::Duration;

use measure::search::{Rfc7502Config, Rfc7502Peak};
use measure::{
    Doubt, Outcome, Peak, PeakSearch, Rfc7502, RunResult, Schedule, SearchConfig, SipFigures, Step,
    Try, WatchedProcess,
};
use serde_json::{Value, json};

use super::{PeakSettings, established_within_ns};
use crate::app::fleet::ask;
use crate::app::report::{Circumstances, result_of};
use crate::app::watching::Watching;
use crate::app::{Output, say};
use crate::crew::{Control, Failed, Progress, run};
use crate::settings::Settings;

/// What a watched process took in one try.
pub(super) struct Taken {
    name: String,
    pid: u32,
    /// Share of a core while the load was sent.
    cpu_share: f64,
    /// CPU time for each attempt.
    cpu_us: f64,
    /// The most memory that it held.
    memory_bytes: u64,
}

/// Makes the tries of a search, and keeps what each told besides its outcome.
pub(super) struct Tries<'a> {
    settings: &'a Settings,
    options: &'a PeakSettings,
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
        options: &'a PeakSettings,
        output: &'a Output,
        control: &'a Control,
    ) -> Self {
        Self {
            settings,
            options,
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
        let (is_direct, output) = (self.settings.direct.is_some(), self.output);
        let duration_ns = (attempts as f64 / rate_per_s * 1e9) as u64 + 1_000_000_000;
        let schedule = Schedule::constant(rate_per_s, duration_ns).limit(attempts);
        // It was there before the first try: it has ended since.
        let mut watching = Watching::new(&output.watch).map_err(Failed::Run)?;
        let result = self.drive(schedule, &mut |progress| {
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
        let started = result.counters.get("started").copied().unwrap_or(0);
        self.note(processes, &result, started);
        let failed = result.figures.failed();
        // A retransmission on the way to itself is a message that was lost here.
        let lost_here = is_direct && result.retransmissions.sent() > 0;
        // A generator that is being searched for its own limit may reach it.
        let may = if is_direct { "own cpu" } else { "interrupted" };
        let is_missing = |doubt: &Doubt| doubt.name.ends_with("agents missing");
        let has_doubts =
            (result.doubts.iter()).any(|doubt| !doubt.name.ends_with(may) && !is_missing(doubt));
        // Whom the server did not register it did not serve: that is no limit of the generator.
        let are_missing = result.doubts.iter().any(is_missing);
        let outcome = Outcome {
            attempts: started,
            failures: match is_direct {
                _ if are_missing => started,
                true => failures_of_itself(started, failed, lost_here || has_doubts),
                false => failed,
            },
            slow: slow(
                &result.figures,
                established_within_ns(self.settings, self.options)
                    .saturating_add(rung_for_ns(self.settings)),
            ),
            delay_ns: delay_ns(&result.figures, self.options.delay_percent),
            doubtful: has_doubts && !is_direct,
            interrupted: self.control.is_interrupted(),
        };
        if !output.quiet {
            say(&told(rate_per_s, &outcome, failed, &result));
        }
        Ok(outcome)
    }

    /// Drives the load in these arrivals, here or by workers.
    fn drive(
        &self,
        schedule: Schedule,
        draw: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<RunResult, Failed> {
        let tried = Settings {
            schedule: Some(schedule),
            ..self.settings.clone()
        };
        if let Some(fleet) = &self.options.fleet {
            // What they reach without a server is looked for once, not in each try.
            let output = Output {
                check_self: false,
                ..self.output.clone()
            };
            let asked = ask(&tried, fleet, &output, self.control, draw)?;
            return Ok(asked.conclude(&[]));
        }
        let ran = run(tried.clone(), self.control, draw)?;
        let circumstances = Circumstances {
            bounds: self.output.bounds,
            ..Circumstances::default()
        };
        let mut result = result_of(ran, &tried, circumstances);
        result.conclude(&[]);
        Ok(result)
    }

    /// Keeps what a try told besides its outcome.
    fn note(&mut self, processes: Vec<WatchedProcess>, result: &RunResult, started: u64) {
        let take = |process: WatchedProcess| Taken {
            cpu_share: result.core_share(&process),
            cpu_us: process.cpu_ns as f64 / 1e3 / started.max(1) as f64,
            memory_bytes: process.peak.memory_bytes(),
            name: process.name,
            pid: process.pid,
        };
        self.taken.push(processes.into_iter().map(take).collect());
        let mut names = result.counters.keys();
        if let Some(name) = names.find(|name| name.starts_with("TLS_")) {
            self.suite.clone_from(name);
        }
    }
}

/// The delay that the limit is held against: of set-ups or registrations, and of the
/// slowest other request.
fn delay_ns(figures: &SipFigures, percent: f64) -> Option<u64> {
    let delay = if figures.srd.count() > 0 {
        Some(&figures.srd)
    } else {
        figures.attempts_rrd()
    };
    let others = figures.requests.values().map(|request| &request.delay);
    delay
        .into_iter()
        .chain(others)
        .filter(|delay| delay.count() > 0)
        .map(|delay| delay.intended_us(percent) * 1_000)
        .max()
}

/// How long the called side may ring, which is no delay of the server's.
fn rung_for_ns(settings: &Settings) -> u64 {
    let longest = settings.answering.ring.longest();
    u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX)
}

/// Set-ups, registrations and other requests that ended well and took longer than this.
fn slow(figures: &SipFigures, within_ns: u64) -> u64 {
    let others = figures.requests.values().map(|request| &request.delay);
    [Some(&figures.setup), figures.attempts_rrd()]
        .into_iter()
        .flatten()
        .chain(others)
        .map(|delay| delay.longer_than(within_ns / 1_000))
        .sum()
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
    if outcome.slow > 0 {
        line.push_str(&format!(", {} set up too late", outcome.slow));
    }
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

/// What counts as failed in a try of the generator's own limit: all, where it doubts itself or lost
/// something. Nobody else is there who could have done it, and a few that failed beside it, which
/// may be allowed, are no reason to hold such a rate.
const fn failures_of_itself(started: u64, failed: u64, is_doubted: bool) -> u64 {
    if is_doubted { started } else { failed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_up_too_late_is_counted() {
        const MS: u64 = 1_000_000;
        let mut figures = SipFigures::new();
        for done_ms in [100, 199, 300, 2_000] {
            figures.invite_sent();
            figures.invite_answered(
                200,
                &measure::Setup {
                    intended_ns: 0,
                    sent_ns: 0,
                    // It rang at once: that is no session yet.
                    first_status_ns: Some(MS),
                    done_ns: done_ms * MS,
                },
            );
        }
        assert_eq!(slow(&figures, 200 * MS), 2);
        figures.register_sent();
        figures.register_ok(0, 0, 250 * MS);
        figures.request("options").delay.record(0, 0, 201 * MS);
        assert_eq!(slow(&figures, 200 * MS), 4);
        assert_eq!(slow(&figures, 32_000 * MS), 0);
    }

    #[test]
    fn a_failure_beside_a_doubt_makes_no_rate_held() {
        for failed in [0, 1, 10] {
            assert_eq!(failures_of_itself(10_000, failed, true), 10_000);
            assert_eq!(failures_of_itself(10_000, failed, false), failed);
        }
    }
}
