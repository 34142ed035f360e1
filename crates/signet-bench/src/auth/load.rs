//! The calls: caller and called side in one process, one authenticated INVITE a call.

use std::path::Path;
use std::time::Duration;

use measure::Second;
use signet_bed::experiment::Transport;
use signet_bed::generator::{Desk, Generator};
use signet_bed::system::{NUMBER, Site};

use super::users::{NAME_PATTERN, PASSWORD_PATTERN};
use super::{Bench, DOMAIN, ports};
use crate::process::Process;
use crate::told::Told;

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
    pub(super) generator: Generator,
    /// What goes before the schedule.
    known_s: u64,
    schedule_s: u64,
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
        let port = self.port(ports::CALLED);
        let listen = format!("udp:127.0.0.1:{port}");
        let words = ["load", "answer", "--listen", &listen, "--quiet"].map(str::to_owned);
        let listens = [(Transport::Udp, port)];
        let site = Site::here(&self.folder, &self.arguments.cores.load, &listens);
        let signet = self.arguments.signet.display().to_string();
        site.start("called", &signet, &words)?.into_process()
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
        let mut words: Vec<String> = [
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
            "--failures-max",
            "99%",
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
        let desk = Desk {
            signet: &self.arguments.signet,
            core: &self.arguments.cores.load,
            folder: &self.folder,
        };
        Ok(Load {
            generator: desk.start(name, &words)?,
            known_s,
            schedule_s,
        })
    }
}

impl Load {
    /// Sleeps until so long after the beginning of the schedule.
    pub(super) fn wait_until(&mut self, seconds: u64) -> Result<(), String> {
        self.generator.wait_until(self.known_s + seconds)
    }

    /// Waits for the end of the schedule, and reads what it told of it.
    pub(super) fn end(self) -> Result<Told, String> {
        let (known_s, schedule_s) = (self.known_s, self.schedule_s);
        let limit = Duration::from_secs(known_s + schedule_s + DRAIN_S + 30);
        let limit = limit.saturating_sub(self.generator.begun().elapsed());
        let mut result = self.generator.end(limit)?;
        result.series = of_schedule(&result.series, known_s, schedule_s);
        Ok(Told::new(result))
    }
}

/// The seconds of the schedule, counted from its beginning. What ends after it ends because it
/// is over.
fn of_schedule(seconds: &[Second], known_s: u64, schedule_s: u64) -> Vec<Second> {
    let is_of_it = |second: &&Second| (known_s..known_s + schedule_s).contains(&second.at_s);
    let seconds = seconds.iter().filter(is_of_it);
    seconds
        .map(|second| Second {
            at_s: second.at_s - known_s,
            ..*second
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_before_the_schedule_and_after_it_is_left_out() {
        let seconds: Vec<Second> = (0..9)
            .map(|at_s| Second {
                at_s,
                due: at_s,
                ..Second::default()
            })
            .collect();
        let found = of_schedule(&seconds, 3, 4);
        let found: Vec<(u64, u64)> = found.iter().map(|s| (s.at_s, s.due)).collect();
        assert_eq!(found, [(0, 3), (1, 4), (2, 5), (3, 6)]);
    }
}
