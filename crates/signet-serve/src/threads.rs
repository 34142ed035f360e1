//! The CPU time of the threads beside the workers, each of which is one component's by its
//! name. Workers tell theirs themselves: they are in several.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ledger::{Component, CpuTimes};

/// What they used, those that have ended since as well.
#[derive(Default)]
pub(crate) struct Threads(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    /// By their number: whose they are, and what they used when they were seen last.
    alive: HashMap<u32, (Component, u64)>,
    /// What those used that are gone.
    ended_ns: [u64; Component::COUNT],
}

impl Threads {
    /// What they used until now. A thread that nobody asked about while it lived is not in it.
    pub(crate) fn cpu(&self) -> CpuTimes {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.look(Path::new("/proc/self/task"), std::process::id());
        seen.cpu()
    }
}

impl Seen {
    /// Looks at the threads of a process, as the kernel shows them in a folder.
    fn look(&mut self, tasks: &Path, process: u32) {
        let Ok(entries) = fs::read_dir(tasks) else {
            // No file may be opened now: all is as it was.
            return;
        };
        let mut before = std::mem::take(&mut self.alive);
        for entry in entries.flatten() {
            let task = entry.file_name().to_str().and_then(|id| id.parse().ok());
            let Some(task) = task else { continue };
            let Some((name, cpu_ns)) = read(&entry.path()) else {
                // It ended just then, or cannot be read now: the next look shows which.
                self.alive.extend(before.remove_entry(&task));
                continue;
            };
            let Some(component) = component(&name, task == process) else {
                continue;
            };
            // A number with less than before is another thread's by now.
            if before
                .get(&task)
                .is_some_and(|(_, seen_ns)| *seen_ns <= cpu_ns)
            {
                before.remove(&task);
            }
            self.alive.insert(task, (component, cpu_ns));
        }
        for (component, cpu_ns) in before.into_values() {
            if let Some(sum) = self.ended_ns.get_mut(component as usize) {
                *sum += cpu_ns;
            }
        }
    }

    fn cpu(&self) -> CpuTimes {
        let mut sums_ns = self.ended_ns;
        for (component, cpu_ns) in self.alive.values() {
            if let Some(sum) = sums_ns.get_mut(*component as usize) {
                *sum += cpu_ns;
            }
        }
        CpuTimes {
            us: sums_ns.map(|ns| ns / 1_000),
        }
    }
}

/// A thread's name, and its CPU time in nanoseconds.
fn read(task: &Path) -> Option<(String, u64)> {
    let name = fs::read_to_string(task.join("comm")).ok()?;
    // proc(5), schedstat: time spent on the CPU, in nanoseconds; time spent waiting; slices.
    let times = fs::read_to_string(task.join("schedstat")).ok()?;
    let cpu_ns = times.split_ascii_whitespace().next()?.parse().ok()?;
    Some((name.trim_end().to_owned(), cpu_ns))
}

/// Whose a thread is; `None` of a worker.
fn component(name: &str, is_first: bool) -> Option<Component> {
    let kind = name.split_once('-').map_or(name, |(kind, _)| kind);
    Some(match kind {
        "worker" => return None,
        "handshake" => Component::TlsHandshakes,
        "store" | "lookups" | "domains" => Component::Store,
        "dns" => Component::Resolver,
        "trace" | "records" | "log" => Component::Administration,
        _ if is_first => Component::Administration,
        _ => Component::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;

    #[test]
    fn a_thread_is_a_components_by_its_name() {
        for (name, is_first, of) in [
            ("worker-0", false, None),
            ("handshake-1", false, Some(Component::TlsHandshakes)),
            ("store-read", false, Some(Component::Store)),
            ("store-tickets", false, Some(Component::Store)),
            ("lookups", false, Some(Component::Store)),
            ("dns", false, Some(Component::Resolver)),
            ("trace-sip", false, Some(Component::Administration)),
            ("records-table", false, Some(Component::Administration)),
            ("log", false, Some(Component::Administration)),
            ("signet", true, Some(Component::Administration)),
            ("signet", false, Some(Component::Other)),
            ("jemalloc_bg_thd", false, Some(Component::Other)),
        ] {
            assert_eq!(component(name, is_first), of, "{name}");
        }
    }

    #[test]
    fn what_a_thread_used_that_ended_stays_in_the_sum() {
        let temp = TempDir::new("threads");
        let write = |task: u32, name: &str, cpu_ns: u64| {
            let folder = temp.path().join(task.to_string());
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("comm"), format!("{name}\n")).unwrap();
            fs::write(folder.join("schedstat"), format!("{cpu_ns} 77 5\n")).unwrap();
        };
        let mut seen = Seen::default();
        let mut look = || {
            seen.look(temp.path(), 7);
            let cpu = seen.cpu();
            [
                Component::Administration,
                Component::Store,
                Component::Kernel,
            ]
            .map(|component| cpu.of(component))
        };
        write(7, "signet", 5_000);
        write(8, "worker-0", 900_000);
        write(9, "store-read", 2_000);
        assert_eq!(look(), [5, 2, 0]);
        write(9, "store-read", 4_000);
        assert_eq!(look(), [5, 4, 0]);
        // Another thread has its number now.
        write(9, "store-write", 1_000);
        assert_eq!(look(), [5, 4 + 1, 0]);
        fs::remove_dir_all(temp.path().join("9")).unwrap();
        assert_eq!(look(), [5, 5, 0]);
        write(10, "lookups", 3_000);
        assert_eq!(look(), [5, 5 + 3, 0]);
    }

    #[test]
    fn this_process_is_looked_at() {
        let threads = Threads::default();
        let before = threads.cpu();
        while threads.cpu() == before {}
        assert!(threads.cpu().sum() > before.sum());
    }
}
