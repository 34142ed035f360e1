//! What servers and databases spend their CPU time on, by component.
//!
//! [`Profiler::start`] begins to sample processes with `perf`, and [`Running::end`] sorts the
//! samples by rules ([`Rules`]) into [`Component`]s and scales them to the CPU time that each
//! process used by the kernel's clock. So the components of a process always sum to what it
//! used, and the samples are held against that time: where they stand for more or for less
//! than it by a twentieth, the profile says that it is in doubt.
//!
//! ```no_run
//! use signet_bed::profile::{Options, Profiler, Target};
//!
//! # fn main() -> Result<(), signet_bed::Error> {
//! let targets = [Target::parse("server=123")?, Target::parse("database=456")?];
//! let running = Profiler::start(&targets, Options::default())?;
//! // The stretch that is measured.
//! let profile = running.end()?.profile.with_calls(20_000.0);
//! println!("{}", signet_bed::profile::table(&profile));
//! # Ok(())
//! # }
//! ```
//!
//! Where `perf` may not be used, the kernel's figures of each thread take its place, by the
//! threads' names; the profile then says why, and what each component holds besides itself.

mod accounting;
mod component;
mod cpu;
mod flame;
mod nearest;
mod pattern;
mod perf;
mod program;
mod result;
mod rules;
mod sample;
mod table;
mod tally;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Instant;

use crate::Error;

pub use component::{Component, Legend, MAGULURI_2012, SHEN_2010};
pub use flame::Stacks;
pub use perf::Walk;
pub use program::{Calls, Request, run};
pub use result::{
    ImageShare, PROFILE_FORMAT, PROFILE_VERSION, ProcessProfile, Profile, Source, SymbolShare,
};
pub use rules::{Account, Origin, RULES_TEXT, Rules};
pub use table::{symbols, table};

use cpu::Family;
pub(crate) use perf::FOLDER;
use perf::Recording;
use tally::Tally;

/// Samples a second of CPU time, where nothing else is said: not a divisor of what timers go by.
pub const FREQUENCY_HZ: u32 = 999;
/// The same where callers are sought, which costs more.
pub const FREQUENCY_WALK_HZ: u32 = 199;
const TARGETS_MAX: usize = 16;

/// A process to look at, with its descendants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// What it is here: `server`, `database`.
    pub name: String,
    /// The program that it runs, by which rules are chosen: `signet`, `kamailio`, `mariadbd`.
    pub system: String,
    /// Its number.
    pub pid: u32,
}

/// What a profile is made from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// `perf` where it may be used, else the kernel's figures of threads.
    #[default]
    Best,
    /// `perf` or nothing.
    Perf,
    /// The kernel's figures of threads.
    Accounting,
}

/// How to look.
#[derive(Clone, Debug)]
pub struct Options {
    /// What belongs to which component.
    pub rules: Rules,
    /// Samples a second of CPU time; none for [`FREQUENCY_HZ`], and [`FREQUENCY_WALK_HZ`] where
    /// callers are sought. The kernel's own limit holds besides.
    pub frequency_hz: Option<u32>,
    /// Whether and how callers are found, for [`Ended::stacks`].
    pub walk: Walk,
    /// What it is made from.
    pub wanted: Wanted,
    /// The program `perf`.
    pub perf: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rules: Rules::default(),
            frequency_hz: None,
            walk: Walk::None,
            wanted: Wanted::Best,
            perf: PathBuf::from("perf"),
        }
    }
}

/// Begins profiles.
#[derive(Clone, Copy, Debug)]
pub struct Profiler;

/// A profile that is being taken. Dropped, it ends `perf` and forgets what was sampled.
#[derive(Debug)]
pub struct Running {
    targets: Vec<Target>,
    options: Options,
    frequency_hz: u32,
    recording: Result<Recording, Error>,
    before: Vec<Family>,
    stolen_before_ns: u64,
    begun: Instant,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The profile.
    pub profile: Profile,
    /// The stacks, where callers were sought and `perf` could be used.
    pub stacks: Option<Stacks>,
}

impl Target {
    /// A process of that number; its system is the name of the file that it runs, where
    /// nothing else is said.
    ///
    /// # Errors
    /// There is no such process.
    pub fn new(name: &str, system: Option<&str>, pid: u32) -> Result<Self, Error> {
        let system = match system {
            Some(system) => system.to_owned(),
            None => cpu::program(pid).ok_or_else(|| no_process(name, pid))?,
        };
        Ok(Self {
            name: name.to_owned(),
            system,
            pid,
        })
    }

    /// Reads `NAME=PID` or `NAME:SYSTEM=PID`.
    ///
    /// # Errors
    /// It is neither, or there is no such process.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = || {
            Error::new(
                format!("'{text}' names no process"),
                "write NAME=PID or NAME:SYSTEM=PID, as in server=123 or server:kamailio=123",
            )
        };
        let (names, pid) = text.split_once('=').ok_or_else(wrong)?;
        let pid = pid.trim().parse().map_err(|_| wrong())?;
        let (name, system) = match names.split_once(':') {
            Some((name, system)) => (name, Some(system)),
            None => (names, None),
        };
        if name.is_empty() || system == Some("") {
            return Err(wrong());
        }
        Self::new(name, system, pid)
    }
}

fn no_process(name: &str, pid: u32) -> Error {
    Error::new(
        format!("{name}: there is no process {pid}, or it is not yours to look at"),
        "look for its number with pgrep; as root every process may be looked at",
    )
}

impl Profiler {
    /// Begins to look at processes. When it returns, what they do counts.
    ///
    /// # Errors
    /// A process is not there, or is named twice; `perf` may not be used and
    /// [`Wanted::Perf`] was asked for.
    pub fn start(targets: &[Target], options: Options) -> Result<Running, Error> {
        check(targets)?;
        let roots: Vec<u32> = targets.iter().map(|target| target.pid).collect();
        let families = Family::read(&roots, false);
        for (target, family) in targets.iter().zip(&families) {
            if !family.members.contains_key(&target.pid) {
                return Err(no_process(&target.name, target.pid));
            }
        }
        let asked_hz = options.frequency_hz.unwrap_or(match options.walk {
            Walk::None => FREQUENCY_HZ,
            Walk::Tables | Walk::FramePointers => FREQUENCY_WALK_HZ,
        });
        let frequency_hz = asked_hz.clamp(1, perf::frequency_max_hz().unwrap_or(asked_hz).max(1));
        let recording = if options.wanted == Wanted::Accounting {
            Err(Error::new("perf was not asked for", "leave --no-perf out"))
        } else {
            let pids: Vec<u32> = families
                .iter()
                .flat_map(|family| family.members.keys().copied())
                .collect();
            Recording::start(&options.perf, &pids, frequency_hz, options.walk)
        };
        match recording {
            Err(error) if options.wanted == Wanted::Perf => Err(error),
            recording => Ok(Running {
                targets: targets.to_vec(),
                options,
                frequency_hz,
                recording,
                before: Family::read(&roots, true),
                stolen_before_ns: cpu::stolen_ns(),
                begun: Instant::now(),
            }),
        }
    }
}

fn check(targets: &[Target]) -> Result<(), Error> {
    if targets.is_empty() || targets.len() > TARGETS_MAX {
        return Err(Error::new(
            format!("{} processes cannot be profiled at once", targets.len()),
            format!("name 1 to {TARGETS_MAX}"),
        ));
    }
    for (place, target) in targets.iter().enumerate() {
        let mut earlier = targets.iter().take(place);
        if earlier.any(|other| other.name == target.name || other.pid == target.pid) {
            return Err(Error::new(
                format!("{} or process {} is named twice", target.name, target.pid),
                "give each process one name",
            ));
        }
    }
    Ok(())
}

impl Running {
    /// Ends the window and tells what was found in it. Where `perf` failed meanwhile, the
    /// kernel's figures of threads are told instead, with the reason.
    ///
    /// # Errors
    /// `perf` failed and [`Wanted::Perf`] was asked for.
    pub fn end(self) -> Result<Ended, Error> {
        let roots: Vec<u32> = self.targets.iter().map(|target| target.pid).collect();
        let after = Family::read(&roots, true);
        let window_ns = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let stolen_ns = cpu::stolen_ns().saturating_sub(self.stolen_before_ns);
        let Self {
            targets,
            options,
            frequency_hz,
            recording,
            before,
            ..
        } = self;
        let window = Window {
            targets: &targets,
            before: &before,
            after: &after,
            window_ns,
            stolen_ns,
        };
        match recording.and_then(|recording| window.sampled(recording, &options)) {
            Ok((processes, doubts, stacks)) => Ok(Ended {
                profile: Profile {
                    source: Source::Perf,
                    frequency_hz: Some(frequency_hz),
                    ..window.profile(processes, doubts)
                },
                stacks,
            }),
            Err(error) if options.wanted == Wanted::Perf => Err(error),
            Err(error) => {
                let (processes, doubts) = window.accounted(&options.rules);
                Ok(Ended {
                    profile: Profile {
                        why_not_perf: Some(error.to_string()),
                        ..window.profile(processes, doubts)
                    },
                    stacks: None,
                })
            }
        }
    }
}

/// What is known of a window besides samples.
struct Window<'a> {
    targets: &'a [Target],
    before: &'a [Family],
    after: &'a [Family],
    window_ns: u64,
    /// Time of all cores that the machine's host gave to others.
    stolen_ns: u64,
}

type Sampled = (Vec<ProcessProfile>, Vec<String>, Option<Stacks>);

impl Window<'_> {
    fn sampled(&self, mut recording: Recording, options: &Options) -> Result<Sampled, Error> {
        recording.stop()?;
        let mut owners = HashMap::new();
        for families in [self.before, self.after] {
            for (place, family) in families.iter().enumerate() {
                owners.extend(family.members.keys().map(|&pid| (pid, place)));
            }
        }
        let mut tally = Tally::new(&options.rules, self.targets, owners);
        tally.stacks = (options.walk != Walk::None).then(Stacks::default);
        let odd_lines = recording.read(&options.perf, &mut tally)?;
        let used: Vec<Option<u64>> = self.used().collect();
        let processes = tally.profiles(&used);
        let mut doubts: Vec<String> = processes.iter().flat_map(ProcessProfile::doubts).collect();
        for (target, used) in self.targets.iter().zip(&used) {
            if used.is_none() {
                doubts.push(format!(
                    "{} ended meanwhile, so that its CPU time is that of its samples",
                    target.name
                ));
            }
        }
        doubts.extend(result::stray_doubt(tally.strays_ns, tally.sampled_ns()));
        if odd_lines > 0 {
            doubts.push(format!("{odd_lines} lines of perf could not be read"));
        }
        Ok((processes, doubts, tally.stacks.take()))
    }

    fn accounted(&self, rules: &Rules) -> (Vec<ProcessProfile>, Vec<String>) {
        let mut doubts = Vec::new();
        let mut processes = Vec::new();
        let windows = self.before.iter().zip(self.after);
        for (target, (before, after)) in self.targets.iter().zip(windows) {
            if let Some(profile) = accounting::profile(rules, target, before, after) {
                processes.push(profile);
            } else {
                doubts.push(format!(
                    "{} ended meanwhile, and its CPU time with it",
                    target.name
                ));
            }
        }
        (processes, doubts)
    }

    /// CPU time that each process used.
    fn used(&self) -> impl Iterator<Item = Option<u64>> + '_ {
        let windows = self.before.iter().zip(self.after);
        windows.map(|(before, after)| after.used_ns(before))
    }

    fn profile(&self, processes: Vec<ProcessProfile>, mut doubts: Vec<String>) -> Profile {
        doubts.extend(result::stolen_doubt(self.stolen_ns, self.window_ns));
        Profile {
            format: PROFILE_FORMAT.to_owned(),
            version: PROFILE_VERSION,
            source: Source::Accounting,
            why_not_perf: None,
            window_ns: self.window_ns,
            frequency_hz: None,
            calls: None,
            processes,
            doubts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_name_and_a_number() {
        let pid = std::process::id();
        let target = Target::parse(&format!("server:kamailio={pid}")).unwrap();
        assert_eq!(
            (target.name.as_str(), target.system.as_str()),
            ("server", "kamailio")
        );
        let target = Target::parse(&format!("load={pid}")).unwrap();
        assert!(target.system.starts_with("signet_bed"), "{}", target.system);
        for wrong in [
            "server",
            "=1",
            "server=x",
            "a:=1",
            ":b=1",
            "server=4294967295",
        ] {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_process_has_one_name_and_a_name_one_process() {
        let target = |name: &str, pid| Target {
            name: name.to_owned(),
            system: "x".to_owned(),
            pid,
        };
        assert!(check(&[target("a", 1), target("b", 2)]).is_ok());
        assert!(check(&[target("a", 1), target("a", 2)]).is_err());
        assert!(check(&[target("a", 1), target("b", 1)]).is_err());
        assert!(check(&[]).is_err());
    }

    #[test]
    fn a_missing_perf_leaves_the_threads() {
        let target = Target::new("self", Some("signet"), std::process::id()).unwrap();
        let options = Options {
            perf: PathBuf::from("/nowhere/perf"),
            ..Options::default()
        };
        let wanted = Options {
            wanted: Wanted::Perf,
            ..options.clone()
        };
        assert!(Profiler::start(std::slice::from_ref(&target), wanted).is_err());
        let ended = Profiler::start(&[target], options).unwrap().end().unwrap();
        assert_eq!(ended.profile.source, Source::Accounting);
        let why = ended.profile.why_not_perf.unwrap();
        // Where perf may not be used, that is said first.
        assert!(
            why.contains("not installed") || why.contains("paranoid"),
            "{why}"
        );
        let process = &ended.profile.processes[0];
        assert_eq!(process.components.values().sum::<u64>(), process.cpu_ns);
    }
}
