//! CPU time taken apart by component, over a stretch of its own after what is measured.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::profile::{Ended, Options, Profiler, Running, Source, Target, Walk};

/// Seconds between what is measured and what is taken apart: the load's first second comes a
/// moment after its start.
pub(super) const APART_S: u64 = 1;
/// Seconds that a profile looks.
const LOOK_S: u64 = 6;
/// Seconds that `perf` has to begin and to end.
const BEGIN_S: u64 = 2;
/// How much longer the load goes on where CPU time is taken apart.
pub(super) const LONGER_S: u64 = APART_S + BEGIN_S + LOOK_S + BEGIN_S;

/// A profile that is due, under way, or there.
#[derive(Debug)]
pub(super) struct Profiling {
    targets: Vec<Target>,
    begins: Instant,
    state: State,
    /// Where stacks are drawn, where they are wanted.
    flame: Option<PathBuf>,
}

#[derive(Debug)]
enum State {
    Due,
    // Both are large, and one is there at a time.
    UnderWay(Box<Running>, Instant),
    There(Box<Ended>),
    Failed(String),
}

impl Profiling {
    /// One that begins in so many seconds. Each process has its name, and that of its program
    /// where it is known.
    pub(super) fn new(
        processes: &[(&str, Option<&str>, u32)],
        in_s: u64,
        flame: Option<PathBuf>,
    ) -> Self {
        let targets = processes
            .iter()
            .map(|(name, system, id)| Target::new(name, *system, *id))
            .collect::<Result<Vec<Target>, _>>();
        let (targets, state) = match targets {
            Ok(targets) => (targets, State::Due),
            Err(error) => (Vec::new(), State::Failed(error.to_string())),
        };
        Self {
            targets,
            begins: Instant::now() + Duration::from_secs(in_s),
            state,
            flame,
        }
    }

    /// Begins or ends what is due. Call it several times a second.
    pub(super) fn look(&mut self) {
        let now = Instant::now();
        let state = std::mem::replace(&mut self.state, State::Due);
        self.state = match state {
            State::Due if now >= self.begins => {
                let walk = if self.flame.is_some() {
                    Walk::Tables
                } else {
                    Walk::None
                };
                let options = Options {
                    walk,
                    ..Options::default()
                };
                match Profiler::start(&self.targets, options) {
                    Ok(running) => State::UnderWay(Box::new(running), Instant::now()),
                    Err(error) => State::Failed(error.to_string()),
                }
            }
            State::UnderWay(running, begun) if now >= begun + Duration::from_secs(LOOK_S) => {
                match running.end() {
                    Ok(ended) => State::There(Box::new(ended)),
                    Err(error) => State::Failed(error.to_string()),
                }
            }
            other => other,
        };
    }

    /// CPU time for each call by process and component, where so many ended a second.
    pub(super) fn end(self, calls_per_s: f64) -> TakenApart {
        match self.state {
            State::There(ended) => of(&ended, self.flame.as_deref(), calls_per_s),
            State::Failed(why) => TakenApart::not(&why),
            State::Due | State::UnderWay(..) => TakenApart::not(
                "the load ended before: this machine is too busy for perf, so run it alone",
            ),
        }
    }
}

/// What was found of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TakenApart {
    /// CPU time in microseconds by process and component.
    pub(super) parts: BTreeMap<String, f64>,
    /// Where it is from; `None` where there is none.
    pub(super) source: Option<Source>,
    /// What speaks against it, or why there is none.
    pub(super) doubts: Vec<String>,
    /// Why it does not count.
    pub(super) void: Option<String>,
}

impl TakenApart {
    fn not(why: &str) -> Self {
        Self {
            doubts: vec![format!("not taken apart: {why}")],
            ..Self::default()
        }
    }
}

fn of(ended: &Ended, flame: Option<&Path>, calls_per_s: f64) -> TakenApart {
    let profile = ended.profile.clone().with_calls_per_s(calls_per_s);
    let mut parts = BTreeMap::new();
    for process in &profile.processes {
        for (component, cpu_ns) in &process.components {
            if let Some(us) = profile.us_per_call(*cpu_ns).filter(|_| *cpu_ns > 0) {
                parts.insert(format!("{}/{}", process.name, component.key()), us);
            }
        }
    }
    let why_not_perf = profile.why_not_perf.iter();
    let mut doubts: Vec<String> = why_not_perf
        .map(|why| format!("by threads and not by perf: {why}"))
        .chain(profile.doubts.iter().cloned())
        .collect();
    if let (Some(path), Some(stacks)) = (flame, &ended.stacks)
        && let Err(why) = draw(path, &stacks.svg(&profile))
    {
        doubts.push(format!("its stacks were not drawn: {why}"));
    }
    TakenApart {
        parts,
        source: Some(profile.source),
        doubts,
        void: profile.void(),
    }
}

fn draw(path: &Path, svg: &str) -> Result<(), String> {
    let named = |error: std::io::Error| format!("{}: {error}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(named)?;
    }
    std::fs::write(path, svg).map_err(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Component, PROFILE_FORMAT, PROFILE_VERSION, ProcessProfile, Profile};

    fn ended(source: Source, why_not_perf: Option<&str>) -> Ended {
        let process = ProcessProfile {
            name: "server".to_owned(),
            system: "signet".to_owned(),
            cpu_ns: 2_000_000,
            sampled_ns: 0,
            samples: 0,
            components: [(Component::Kernel, 2_000_000)].into(),
            holds: BTreeMap::new(),
            threads: BTreeMap::new(),
            unknown_share: 0.0,
            images: Vec::new(),
            symbols: Vec::new(),
        };
        Ended {
            profile: Profile {
                format: PROFILE_FORMAT.to_owned(),
                version: PROFILE_VERSION,
                source,
                why_not_perf: why_not_perf.map(str::to_owned),
                window_ns: 1_000_000_000,
                frequency_hz: None,
                calls: None,
                processes: vec![process],
                doubts: vec!["few samples".to_owned()],
            },
            stacks: None,
        }
    }

    #[test]
    fn parts_have_their_source_and_what_speaks_against_them() {
        let by_perf = of(&ended(Source::Perf, None), None, 100.0);
        assert_eq!(by_perf.parts.get("server/kernel"), Some(&20.0));
        assert_eq!(by_perf.source, Some(Source::Perf));
        assert_eq!(by_perf.doubts, ["few samples"]);
        let by_threads = of(
            &ended(Source::Accounting, Some("it is absent")),
            None,
            100.0,
        );
        assert_eq!(by_threads.source, Some(Source::Accounting));
        assert_eq!(
            by_threads.doubts,
            ["by threads and not by perf: it is absent", "few samples"]
        );
    }

    #[test]
    fn what_was_not_taken_apart_says_why() {
        let failed = |state| Profiling {
            targets: Vec::new(),
            begins: Instant::now(),
            state,
            flame: None,
        };
        let apart = failed(State::Failed("no such process".to_owned())).end(1.0);
        assert_eq!(apart, TakenApart::not("no such process"));
        assert_eq!(apart.doubts, ["not taken apart: no such process"]);
        let apart = failed(State::Due).end(1.0);
        assert!(apart.parts.is_empty() && apart.source.is_none());
        assert!(
            apart
                .doubts
                .iter()
                .any(|doubt| doubt.contains("run it alone"))
        );
    }
}
