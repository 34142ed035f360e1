//! The calls: caller and called side in one process, one authenticated INVITE a call.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use measure::{RunResult, Second};

use super::server::NUMBER;
use super::users::{NAME_PATTERN, PASSWORD_PATTERN};
use super::{Bench, DOMAIN, ports};
use crate::process::Process;

/// How long calls that are under way at the end may take.
const DRAIN_S: u64 = 3;
/// Whoever has not logged in yet shares a bound on look-ups under way with all others at his
/// source (`sip_limit`'s guard: 100), and all callers come from one here. So each calls once
/// first, at a rate that stays below it: 100 in 30 ms are 3,000/s.
const KNOWN_PER_S: u64 = 1_500;
const KNOWN_S: u64 = (super::USERS as u64).div_ceil(KNOWN_PER_S);
/// Below this rate so few look-ups are under way that the bound is not met.
const KNOWN_FROM_PER_S: f64 = 1_000.0;

/// Who calls.
#[derive(Clone, Copy, Debug)]
pub(super) enum Callers<'a> {
    /// Nobody in particular.
    Strangers,
    /// The first so many users.
    First(usize),
    /// Those of a file.
    Listed(&'a Path),
}

/// A load under way.
pub(super) struct Load {
    pub(super) process: Process,
    json: PathBuf,
    log: PathBuf,
    /// When the schedule begins, after what goes before it.
    begun: Instant,
    /// What goes before it.
    known_s: u64,
    schedule_s: u64,
}

/// What it told.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// Second by second.
    pub(super) seconds: Vec<Second>,
    /// INVITEs that were answered 200.
    pub(super) answered: u64,
    pub(super) completed: u64,
    pub(super) failed: u64,
    pub(super) causes: BTreeMap<String, u64>,
    /// What it holds against itself.
    pub(super) doubts: Vec<String>,
}

impl Bench<'_> {
    /// Begins calls by a schedule such as `2000/s for 10s`, which takes `schedule_s`.
    pub(super) fn call(
        &self,
        schedule: &str,
        schedule_s: u64,
        callers: Callers<'_>,
    ) -> Result<Load, String> {
        let more = self.answer_here(&[]);
        self.start_load("load", (schedule, 0, schedule_s), callers, &more)
    }

    /// The same, which begins at `from_per_s`, after each caller has logged in once where
    /// that is needed. That is over when this returns, and not in what the load tells by
    /// seconds.
    pub(super) fn call_by_known(
        &self,
        schedule: &str,
        schedule_s: u64,
        callers: Callers<'_>,
        from_per_s: f64,
    ) -> Result<Load, String> {
        if from_per_s < KNOWN_FROM_PER_S {
            return self.call(schedule, schedule_s, callers);
        }
        let schedule = format!("{KNOWN_PER_S}/s for {KNOWN_S}s; {schedule}");
        let more = self.answer_here(&[]);
        let when = (schedule.as_str(), KNOWN_S, schedule_s);
        let mut load = self.start_load("load", when, callers, &more)?;
        load.wait_until(0)?;
        Ok(load)
    }

    /// Calls that come as those of many people do, and not evenly.
    pub(super) fn call_poisson(
        &self,
        schedule: &str,
        schedule_s: u64,
        callers: Callers<'_>,
    ) -> Result<Load, String> {
        let more = self.answer_here(&["--poisson"]);
        self.start_load("load", (schedule, 0, schedule_s), callers, &more)
    }

    /// Begins calls beside those of others, under a name of their own. Whom they call is
    /// there already ([`Self::answer`]).
    pub(super) fn call_beside(
        &self,
        name: &str,
        schedule: &str,
        schedule_s: u64,
        callers: Callers<'_>,
    ) -> Result<Load, String> {
        self.start_load(name, (schedule, 0, schedule_s), callers, &[])
    }

    /// The called side as a process of its own, for several loads.
    pub(super) fn answer(&self) -> Result<Process, String> {
        let words = [
            "load",
            "answer",
            "--listen",
            &format!("udp:127.0.0.1:{}", self.port(ports::CALLED)),
            "--quiet",
        ]
        .map(str::to_owned);
        let signet = self.arguments.signet.display().to_string();
        let log = self.folder.join("called.log");
        Process::start(&self.arguments.cores.load, &signet, &words, &log)
    }

    /// What has a load be the called side too.
    fn answer_here(&self, more: &[&str]) -> Vec<String> {
        let here = format!("udp:127.0.0.1:{}", self.port(ports::CALLED));
        let more = more.iter().map(|word| (*word).to_owned());
        more.chain(["--answer-here".to_owned(), here]).collect()
    }

    fn start_load(
        &self,
        name: &str,
        (schedule, known_s, schedule_s): (&str, u64, u64),
        callers: Callers<'_>,
        more: &[String],
    ) -> Result<Load, String> {
        let json = self.folder.join(name).with_extension("json");
        let log = self.folder.join(name).with_extension("log");
        let _ = std::fs::remove_file(&json);
        let mut words: Vec<String> = [
            "load",
            "call",
            "--to",
            &format!("sip:127.0.0.1:{}", self.port(ports::SERVER)),
            "--transport",
            "udp",
            "--called",
            &format!("sip:{NUMBER}@{DOMAIN}"),
            "--domain",
            DOMAIN,
            "--rate",
            schedule,
            // Nobody registers: the schedule begins when the load does.
            "--setup-rate",
            "1000000",
            "--drain-timeout",
            &format!("{DRAIN_S}s"),
            "--json",
            &json.display().to_string(),
            "--failures-max",
            "99%",
            "--no-check-self",
            "--quiet",
        ]
        .map(str::to_owned)
        .into();
        match callers {
            Callers::Strangers => {}
            Callers::First(count) => words.extend([
                "--agents".to_owned(),
                count.to_string(),
                "--user".to_owned(),
                NAME_PATTERN.to_owned(),
                "--password".to_owned(),
                PASSWORD_PATTERN.to_owned(),
            ]),
            Callers::Listed(path) => {
                words.extend(["--users".to_owned(), path.display().to_string()]);
            }
        }
        words.extend_from_slice(more);
        let signet = self.arguments.signet.display().to_string();
        let process = Process::start(&self.arguments.cores.load, &signet, &words, &log)?;
        Ok(Load {
            process,
            json,
            log,
            begun: Instant::now() + Duration::from_secs(known_s),
            known_s,
            schedule_s,
        })
    }
}

impl Load {
    /// Sleeps until so long after the beginning.
    pub(super) fn wait_until(&mut self, seconds: u64) -> Result<(), String> {
        let until = self.begun + Duration::from_secs(seconds);
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        if self.process.is_running() {
            Ok(())
        } else {
            Err(self.said("the load ended early"))
        }
    }

    /// Waits for the end of the schedule, and reads what it told.
    pub(super) fn end(mut self) -> Result<Told, String> {
        let limit = self.begun + Duration::from_secs(self.schedule_s + DRAIN_S + 30);
        let left = limit.saturating_duration_since(Instant::now());
        if self.process.wait(left).is_none() {
            return Err(self.said("the load did not end"));
        }
        let result = RunResult::read(&self.json)
            .map_err(|error| format!("{}: {error}", self.said("the load told nothing")))?;
        Ok(Told::new(&result, self.known_s, self.schedule_s))
    }

    fn said(&self, what: &str) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let tail: Vec<&str> = log.lines().rev().take(4).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        format!("{what}: {}", tail.join(" | "))
    }
}

impl Told {
    fn new(result: &RunResult, known_s: u64, schedule_s: u64) -> Self {
        let causes = serde_json::to_value(&result.causes).unwrap_or_default();
        let causes = causes.as_object().into_iter().flatten();
        Self {
            // What ends after the schedule ends because it is over.
            seconds: result
                .series
                .iter()
                .filter(|second| second.at_s >= known_s && second.at_s < known_s + schedule_s)
                .map(|second| Second {
                    at_s: second.at_s - known_s,
                    ..*second
                })
                .collect(),
            answered: result.figures.invites_ok,
            completed: result.figures.completed,
            failed: result.causes.total(),
            causes: causes
                .map(|(name, count)| (name.clone(), count.as_u64().unwrap_or(0)))
                .collect(),
            doubts: result
                .doubts
                .iter()
                .map(|doubt| {
                    format!(
                        "{}: {:.3}, bound {:.3}",
                        doubt.name, doubt.figure, doubt.bound
                    )
                })
                .collect(),
        }
    }

    /// The seconds from `from_s` to before `to_s`.
    pub(super) fn between(&self, from_s: u64, to_s: u64) -> impl Iterator<Item = &Second> {
        self.seconds
            .iter()
            .filter(move |second| second.at_s >= from_s && second.at_s < to_s)
    }

    /// Why a figure that rests on this run is to be doubted.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = self.doubts.clone();
        if self.failed > 0 {
            remarks.push(format!("{} calls failed: {:?}", self.failed, self.causes));
        }
        remarks
    }
}
