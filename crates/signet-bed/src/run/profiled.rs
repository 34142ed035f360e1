//! CPU time taken apart by component, over a stretch of its own after what is measured.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::profile::{Ended, Options, Profiler, Running, Target, Walk};

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

    /// CPU time for each call by process and component, in microseconds, where so many ended
    /// a second; and what speaks against it.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn end(
        self,
        calls_per_s: f64,
    ) -> Result<(BTreeMap<String, f64>, Vec<String>), String> {
        let ended = match self.state {
            State::There(ended) => ended,
            State::Failed(why) => return Err(why),
            State::Due | State::UnderWay(..) => {
                return Err(
                    "the load ended before: this machine is too busy for perf, so run it alone"
                        .to_owned(),
                );
            }
        };
        let profile = ended.profile.with_calls_per_s(calls_per_s);
        if let (Some(path), Some(stacks)) = (&self.flame, &ended.stacks) {
            draw(path, &stacks.svg(&profile))?;
        }
        let mut parts = BTreeMap::new();
        for process in &profile.processes {
            for (component, cpu_ns) in &process.components {
                if let Some(us) = profile.us_per_call(*cpu_ns).filter(|_| *cpu_ns > 0) {
                    parts.insert(format!("{}/{}", process.name, component.key()), us);
                }
            }
        }
        Ok((parts, profile.doubts))
    }
}

fn draw(path: &Path, svg: &str) -> Result<(), String> {
    let named = |error: std::io::Error| format!("{}: {error}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(named)?;
    }
    std::fs::write(path, svg).map_err(named)
}
