//! CPU time and memory of other processes, from `/proc`, children included.
//!
//! CPU time is the sum of `schedstat` over all tasks, which is exact to the
//! nanosecond; what an ended thread or process had taken when it was last seen
//! stays in the sum. Where `/proc/PID/stat`, which counts ended threads too but
//! only in ticks, says more, it is believed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

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

/// Watches processes and all their descendants.
#[derive(Clone, Debug)]
pub struct Watcher {
    proc_dir: PathBuf,
    roots: Vec<u32>,
    /// By process and its start time, since ids are used again.
    seen: BTreeMap<(u32, u64), Seen>,
}

/// What a process was last known to have used.
#[derive(Clone, Debug, Default)]
struct Seen {
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
        for &pid in pids {
            if let Err(error) = fs::read_to_string(proc_dir.join(format!("{pid}/stat"))) {
                return Err(WatchError {
                    pid,
                    reason: error.to_string(),
                });
            }
        }
        Ok(Self {
            proc_dir,
            roots: pids.to_vec(),
            seen: BTreeMap::new(),
        })
    }

    /// The processes that were named.
    pub fn pids(&self) -> &[u32] {
        &self.roots
    }

    /// Reads all figures. A process that ended counts with what it had used
    /// when it was last seen. Takes a walk through `/proc` (about a
    /// millisecond): call it once a second at most, and not on a thread that
    /// moves messages.
    ///
    /// The kernel walks the process's page tables for `smaps_rollup` while it
    /// holds a lock that page faults want; of a process with gigabytes of memory
    /// that takes tens of milliseconds. There, [`Watcher::sample_light`] each
    /// second and this at the end disturb less.
    pub fn sample(&mut self) -> Sample {
        self.read(true)
    }

    /// Reads all figures but `pss_bytes`.
    pub fn sample_light(&mut self) -> Sample {
        self.read(false)
    }

    fn read(&mut self, with_pss: bool) -> Sample {
        let mut sample = Sample::default();
        let mut pss_known = with_pss;
        let mut pss_bytes = 0;
        for (pid, stat) in self.family() {
            sample.processes += 1;
            let dir = self.proc_dir.join(pid.to_string());
            let seen = self.seen.entry((pid, stat.start_ticks)).or_default();
            seen.stat_ns = seen.stat_ns.max(stat.cpu_ticks.saturating_mul(TICK_NS));
            for (task, cpu_ns) in tasks(&dir) {
                sample.threads += 1;
                let known_ns = seen.tasks_ns.entry(task).or_default();
                *known_ns = cpu_ns.max(*known_ns);
            }
            sample.rss_bytes += kib(&dir.join("status"), "VmRSS:").unwrap_or(0) * 1_024;
            if with_pss {
                let pss_kib = kib(&dir.join("smaps_rollup"), "Pss:");
                pss_known &= pss_kib.is_some();
                pss_bytes += pss_kib.unwrap_or(0) * 1_024;
            }
        }
        sample.cpu_ns = self.seen.values().map(Seen::cpu_ns).sum();
        sample.pss_bytes = (pss_known && sample.processes > 0).then_some(pss_bytes);
        sample
    }

    /// The named processes that are alive, and all their descendants. One that
    /// was seen as a descendant stays in the family when its parent ends.
    fn family(&self) -> Vec<(u32, Stat)> {
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
        let known = self
            .seen
            .keys()
            .filter(|(pid, start)| all.get(pid).is_some_and(|stat| stat.start_ticks == *start));
        let mut queue: Vec<u32> = self
            .roots
            .iter()
            .copied()
            .chain(known.map(|&(pid, _)| pid))
            .collect();
        let mut family = BTreeSet::new();
        while let Some(pid) = queue.pop() {
            if all.contains_key(&pid) && family.insert(pid) {
                queue.extend(children.get(&pid).into_iter().flatten());
            }
        }
        family
            .into_iter()
            .filter_map(|pid| all.remove(&pid).map(|stat| (pid, stat)))
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
