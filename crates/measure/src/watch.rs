//! CPU time and memory of other processes, from `/proc`, children included.
//!
//! CPU time is the sum of `schedstat` over all tasks, which is exact to the
//! nanosecond; what an ended thread or process had taken when it was last seen
//! stays in the sum. Where `/proc/PID/stat`, which counts ended threads too but
//! only in ticks, says more, it is believed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::series::SECONDS_MAX;

/// What processes have used, together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// CPU time since the processes began.
    pub cpu_ns: u64,
    /// Resident memory; pages that processes share count in each.
    pub rss_bytes: u64,
    /// Resident memory with shared pages divided among their users; `None`
    /// where `/proc/PID/smaps_rollup` may not be read.
    pub pss_bytes: Option<u64>,
    /// Threads alive.
    pub threads: u64,
    /// Processes alive.
    pub processes: u64,
}

impl Sample {
    /// CPU time between an earlier sample of the same watcher and this one.
    pub fn cpu_since_ns(&self, earlier: &Self) -> u64 {
        self.cpu_ns.saturating_sub(earlier.cpu_ns)
    }

    /// What several families of processes have used together. Shared pages are known
    /// where every family that is alive tells of them.
    #[must_use]
    pub fn sum(families: &[Self]) -> Self {
        let mut all = Self::default();
        for family in families {
            all.cpu_ns += family.cpu_ns;
            all.rss_bytes += family.rss_bytes;
            all.threads += family.threads;
            all.processes += family.processes;
        }
        let alive = families.iter().filter(|family| family.processes > 0);
        all.pss_bytes = alive
            .map(|family| family.pss_bytes)
            .sum::<Option<u64>>()
            .filter(|_| all.processes > 0);
        all
    }

    /// Memory with shared pages divided among their users, where that is known, else
    /// all that is resident.
    pub fn memory_bytes(&self) -> u64 {
        self.pss_bytes.unwrap_or(self.rss_bytes)
    }

    /// Threads, memory and processes at their larger, CPU time at its later.
    #[must_use]
    pub fn max(&self, other: &Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.max(other.cpu_ns),
            rss_bytes: self.rss_bytes.max(other.rss_bytes),
            pss_bytes: self.pss_bytes.max(other.pss_bytes),
            threads: self.threads.max(other.threads),
            processes: self.processes.max(other.processes),
        }
    }
}

/// A process that was named to be watched, with its descendants but for those that
/// were named themselves: so nothing is in two of them, and together they are all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WatchedProcess {
    /// What it is called in the result.
    pub name: String,
    /// Its id.
    pub pid: u32,
    /// The name of its program, as the system has it.
    pub program: String,
    /// CPU time it took during the run.
    pub cpu_ns: u64,
    /// The most that it held.
    pub peak: Sample,
    /// Second by second.
    pub seconds: Vec<ProcessSecond>,
}

/// One second of a watched process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessSecond {
    /// Seconds since the start of the run, from 0.
    pub at_s: u64,
    /// CPU time it took in this second.
    pub cpu_ns: u64,
    /// Memory at the end of it: see [`Sample::memory_bytes`].
    pub memory_bytes: u64,
}

impl WatchedProcess {
    /// Adds a second; past [`SECONDS_MAX`] it is left out.
    pub fn push(&mut self, second: ProcessSecond) {
        if self.seconds.len() < SECONDS_MAX {
            self.seconds.push(second);
        }
    }

    /// The second that began so long after the start, if it was seen.
    pub fn second(&self, at_s: u64) -> Option<&ProcessSecond> {
        let at = self
            .seconds
            .binary_search_by_key(&at_s, |second| second.at_s)
            .ok()?;
        self.seconds.get(at)
    }
}

/// A process that cannot be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchError {
    /// Its id.
    pub pid: u32,
    /// What the system said.
    pub reason: String,
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "process {} cannot be watched ({}): give the id of a process that runs on this machine",
            self.pid, self.reason
        )
    }
}

impl std::error::Error for WatchError {}

/// Watches processes and all their descendants, each for itself and all together.
#[derive(Clone, Debug)]
pub struct Watcher {
    proc_dir: PathBuf,
    roots: Vec<u32>,
    /// When each of these began: once one has ended, another may have its id.
    begun_ticks: Vec<u64>,
    /// By process and its start time, since ids are used again.
    seen: BTreeMap<(u32, u64), Seen>,
}

/// What a process was last known to have used.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// Which of the named processes it belongs to.
    family: usize,
    /// CPU time of each task, alive or ended.
    tasks_ns: BTreeMap<u64, u64>,
    /// CPU time of the whole process by `stat`.
    stat_ns: u64,
}

impl Seen {
    fn cpu_ns(&self) -> u64 {
        self.tasks_ns.values().sum::<u64>().max(self.stat_ns)
    }
}

/// What a walk found of one family.
#[derive(Default)]
struct Reading {
    sample: Sample,
    is_pss_unknown: bool,
    pss_bytes: u64,
}

/// The fields of `/proc/PID/stat` that matter here.
struct Stat {
    parent: u32,
    cpu_ticks: u64,
    start_ticks: u64,
}

/// `/proc` counts in ticks of this many nanoseconds: USER_HZ is 100 on every
/// architecture that Rust's standard library supports.
const TICK_NS: u64 = 10_000_000;
impl Watcher {
    /// # Errors
    /// Names the first process that does not exist.
    pub fn new(pids: &[u32]) -> Result<Self, WatchError> {
        Self::with_proc(PathBuf::from("/proc"), pids)
    }

    fn with_proc(proc_dir: PathBuf, pids: &[u32]) -> Result<Self, WatchError> {
        let mut begun_ticks = Vec::with_capacity(pids.len());
        for &pid in pids {
            let failed = |reason: String| WatchError { pid, reason };
            let text = fs::read_to_string(proc_dir.join(format!("{pid}/stat")))
                .map_err(|error| failed(error.to_string()))?;
            let stat = parse_stat(&text)
                .ok_or_else(|| failed("its stat has another form than proc(5) says".to_owned()))?;
            begun_ticks.push(stat.start_ticks);
        }
        Ok(Self {
            proc_dir,
            roots: pids.to_vec(),
            begun_ticks,
            seen: BTreeMap::new(),
        })
    }

    /// The processes that were named.
    pub fn pids(&self) -> &[u32] {
        &self.roots
    }

    /// Those that are alive now: the named ones and their descendants.
    pub fn members(&self) -> Vec<u32> {
        let alive = self.families().into_iter();
        alive.map(|(pid, _, _)| pid).collect()
    }

    /// Reads all figures, of all together. A process that ended counts with what it
    /// had used when it was last seen. Takes a walk through `/proc` (about a
    /// millisecond): call it once a second at most, and not on a thread that
    /// moves messages.
    ///
    /// The kernel walks the process's page tables for `smaps_rollup` while it
    /// holds a lock that page faults want; of a process with gigabytes of memory
    /// that takes tens of milliseconds. There, [`Watcher::sample_light`] each
    /// second and this at the end disturb less.
    pub fn sample(&mut self) -> Sample {
        Sample::sum(&self.read(true))
    }

    /// Reads all figures but `pss_bytes`.
    pub fn sample_light(&mut self) -> Sample {
        Sample::sum(&self.read(false))
    }

    /// As [`Watcher::sample`], in the same one walk, but each named process for
    /// itself, in their order. A descendant belongs to the nearest of its ancestors
    /// that was named, so that [`Sample::sum`] of these counts nothing twice.
    pub fn sample_each(&mut self) -> Vec<Sample> {
        self.read(true)
    }

    fn read(&mut self, with_pss: bool) -> Vec<Sample> {
        let mut readings: BTreeMap<usize, Reading> = BTreeMap::new();
        for (pid, stat, family) in self.families() {
            let reading = readings.entry(family).or_default();
            let sample = &mut reading.sample;
            sample.processes += 1;
            let dir = self.proc_dir.join(pid.to_string());
            let seen = self.seen.entry((pid, stat.start_ticks)).or_default();
            seen.family = family;
            seen.stat_ns = seen.stat_ns.max(stat.cpu_ticks.saturating_mul(TICK_NS));
            for (task, cpu_ns) in tasks(&dir) {
                sample.threads += 1;
                let known_ns = seen.tasks_ns.entry(task).or_default();
                *known_ns = cpu_ns.max(*known_ns);
            }
            sample.rss_bytes += kib(&dir.join("status"), "VmRSS:").unwrap_or(0) * 1_024;
            if with_pss {
                let pss_kib = kib(&dir.join("smaps_rollup"), "Pss:");
                reading.is_pss_unknown |= pss_kib.is_none();
                reading.pss_bytes += pss_kib.unwrap_or(0) * 1_024;
            }
        }
        for seen in self.seen.values() {
            readings.entry(seen.family).or_default().sample.cpu_ns += seen.cpu_ns();
        }
        (0..self.roots.len())
            .map(|family| {
                let reading = readings.remove(&family).unwrap_or_default();
                let is_known = with_pss && !reading.is_pss_unknown && reading.sample.processes > 0;
                Sample {
                    pss_bytes: is_known.then_some(reading.pss_bytes),
                    ..reading.sample
                }
            })
            .collect()
    }

    /// The named processes that are alive, and all their descendants, each with the
    /// number of the one that it belongs to. One that was seen as a descendant
    /// stays in its family when its parent ends.
    fn families(&self) -> Vec<(u32, Stat, usize)> {
        let mut all = BTreeMap::new();
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let entries = fs::read_dir(&self.proc_dir).into_iter().flatten().flatten();
        for entry in entries {
            let pid = entry
                .file_name()
                .to_str()
                .and_then(|n| n.parse::<u32>().ok());
            let stat = fs::read_to_string(entry.path().join("stat"));
            if let (Some(pid), Some(stat)) = (pid, stat.ok().and_then(|text| parse_stat(&text))) {
                children.entry(stat.parent).or_default().push(pid);
                all.insert(pid, stat);
            }
        }
        let named = self.roots.iter().zip(&self.begun_ticks).zip(0..);
        let named = named
            .filter(|((pid, begun), _)| {
                all.get(*pid)
                    .is_some_and(|stat| stat.start_ticks == **begun)
            })
            .map(|((pid, _), family)| (*pid, family));
        let known = self
            .seen
            .iter()
            .filter(|((pid, start), _)| all.get(pid).is_some_and(|stat| stat.start_ticks == *start))
            .map(|(&(pid, _), seen)| (pid, seen.family));
        let mut families: BTreeMap<u32, usize> = BTreeMap::new();
        for (pid, family) in named.chain(known) {
            if all.contains_key(&pid) {
                families.entry(pid).or_insert(family);
            }
        }
        let mut queue: Vec<(u32, usize)> = families.iter().map(|(&pid, &of)| (pid, of)).collect();
        while let Some((pid, family)) = queue.pop() {
            for &child in children.get(&pid).into_iter().flatten() {
                if let Entry::Vacant(place) = families.entry(child) {
                    place.insert(family);
                    queue.push((child, family));
                }
            }
        }
        families
            .into_iter()
            .filter_map(|(pid, family)| all.remove(&pid).map(|stat| (pid, stat, family)))
            .collect()
    }
}

/// The name of a process, as in `/proc/PID/comm`.
pub fn process_name(pid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The command's name may hold anything, so count from its last bracket.
    let after = text.get(text.rfind(')')? + 1..)?;
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    // proc(5): (3) state, (4) ppid, ... (14) utime, (15) stime, ... (22) starttime.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(Stat {
        parent: u32::try_from(field(4)?).ok()?,
        cpu_ticks: field(14)?.saturating_add(field(15)?),
        start_ticks: field(22)?,
    })
}

fn tasks(dir: &Path) -> Vec<(u64, u64)> {
    let entries = fs::read_dir(dir.join("task"))
        .into_iter()
        .flatten()
        .flatten();
    entries
        .filter_map(|entry| {
            let task = entry.file_name().to_str()?.parse().ok()?;
            let text = fs::read_to_string(entry.path().join("schedstat")).ok()?;
            Some((task, text.split(' ').next()?.parse().ok()?))
        })
        .collect()
}

/// The figure of a line such as `VmRSS:   1234 kB`.
fn kib(path: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests;
