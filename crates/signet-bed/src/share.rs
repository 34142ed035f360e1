//! A server's share of its core.
//!
//! Where load and database have one core together, a server that is as fast as they are has no
//! peak of its own: the load is full first. Held to a share of its core it is full by itself,
//! while the load has room. The kernel lets a control group run for a quota of CPU time in each
//! period, and wait for the rest of it (its `Documentation/scheduler/sched-bwc.rst`).

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::Error;

/// In so long a period the server runs for its share and waits for the rest: what comes meanwhile
/// waits in the buffers of its sockets. What the host takes away of the core is made up for within
/// the period, as long as it is no more than the rest.
const PERIOD_US: u32 = 20_000;
/// Where the groups of CPU time are: of both versions in one tree, and of version 1 alone.
const UNIFIED: &str = "/sys/fs/cgroup";
const SEPARATE: &str = "/sys/fs/cgroup/cpu";
/// How a group's name begins; the id of the run's process follows.
const NAME: &str = "signet-bed-";

/// Processes that have a share of their core. Lift it before they end, and drop it once they have:
/// then their group goes.
#[derive(Debug)]
pub(crate) struct Share {
    share: f64,
    group: Group,
}

impl Share {
    /// Holds processes, and all that they start from now on, to a share of one core. `members`
    /// says which: it is asked until it names no new one, since those that were not yet held may
    /// have started others.
    ///
    /// # Errors
    /// Why the kernel does not, and that there is nobody to hold.
    pub(crate) fn hold(share: f64, members: impl Fn() -> Vec<u32>) -> Result<Self, String> {
        let group = Group::new(share)?;
        let mut held = BTreeSet::new();
        loop {
            let new: Vec<u32> = members()
                .into_iter()
                .filter(|id| held.insert(*id))
                .collect();
            if new.is_empty() {
                break;
            }
            for id in new {
                group.add(id)?;
            }
        }
        match held.is_empty() {
            true => Err("no process of the server is found that could be held".to_owned()),
            false => Ok(Self { share, group }),
        }
    }

    /// What it is of the core.
    pub(crate) fn share(&self) -> f64 {
        self.share
    }

    /// Lets its processes have the whole core: one that ends would wait for its share.
    pub(crate) fn lift(&self) {
        let (name, text) = if self.group.is_unified {
            ("cpu.max", "max")
        } else {
            ("cpu.cfs_quota_us", "-1")
        };
        // A group that is gone holds nobody.
        let _ = fs::write(self.group.folder.join(name), text);
    }

    /// Whether a share can be held here.
    ///
    /// # Errors
    /// Why not, and what helps.
    pub(crate) fn try_out(share: f64) -> Result<(), Error> {
        let held = Command::new("sleep").arg("60").spawn();
        let tried = held
            .map_err(|error| error.to_string())
            .and_then(|mut sleeper| {
                let share = Self::hold(share, || vec![sleeper.id()]);
                let _ = sleeper.kill();
                let _ = sleeper.wait();
                share.map(drop)
            });
        tried.map_err(|why| {
            Error::new(
                why,
                "run it as root, where /sys/fs/cgroup can be written and has the controller `cpu`",
            )
        })
    }
}

/// A control group of this process.
#[derive(Debug)]
struct Group {
    folder: PathBuf,
    is_unified: bool,
}

impl Group {
    fn new(share: f64) -> Result<Self, String> {
        let is_unified = Path::new(UNIFIED).join("cgroup.controllers").exists();
        let within = Path::new(if is_unified { UNIFIED } else { SEPARATE });
        let folder = within.join(format!("{NAME}{}", std::process::id()));
        if is_unified {
            // Where it is there already, or cannot be had, the quota shows it.
            let _ = fs::write(within.join("cgroup.subtree_control"), "+cpu");
        }
        let failed = |what: &Path, error: &io::Error| {
            format!("no control group can be made ({}: {error})", what.display())
        };
        match fs::create_dir(&folder) {
            // That of the measurement before goes when its last process does.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(&folder, &error)),
            Ok(()) => {}
        }
        let group = Self { folder, is_unified };
        let quota_us = (f64::from(PERIOD_US) * share).round();
        let (period, quota) = (PERIOD_US.to_string(), quota_us.to_string());
        let both = format!("{quota} {period}");
        let settings: &[(&str, &str)] = if is_unified {
            &[("cpu.max", &both)]
        } else {
            &[("cpu.cfs_period_us", &period), ("cpu.cfs_quota_us", &quota)]
        };
        for (name, text) in settings {
            let path = group.folder.join(name);
            fs::write(&path, text).map_err(|error| failed(&path, &error))?;
        }
        Ok(group)
    }

    fn add(&self, process: u32) -> Result<(), String> {
        let path = self.folder.join("cgroup.procs");
        match fs::write(&path, process.to_string()) {
            // One that has ended meanwhile needs none.
            Err(error) if Path::new(&format!("/proc/{process}")).exists() => Err(format!(
                "process {process} takes no share of its core: {error}"
            )),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Processes that have just ended are members for a moment more.
        for _ in 0..20 {
            match fs::remove_dir(&self.folder) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Ok(()) | Err(_) => return,
            }
        }
    }
}

/// Removes the groups of runs that were killed.
pub(crate) fn remove_stale(lives: impl Fn(u32) -> bool) {
    for within in [UNIFIED, SEPARATE] {
        for entry in fs::read_dir(within).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let run = name.to_str().and_then(|name| name.strip_prefix(NAME));
            let run: Option<u32> = run.and_then(|id| id.parse().ok());
            if run.is_some_and(|id| !lives(id)) {
                // One that still has processes stays.
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::process::Child;
    use std::time::Instant;

    use super::*;

    /// A loop, and its end.
    struct Busy(Child);

    impl Busy {
        fn new() -> Self {
            let words = ["-c", "while :; do :; done"];
            Self(Command::new("sh").args(words).spawn().unwrap())
        }

        fn end(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    impl Drop for Busy {
        fn drop(&mut self) {
            self.end();
        }
    }

    /// The number behind a word in a file of a group.
    fn told(folder: &Path, file: &str, word: &str) -> Option<u64> {
        let text = fs::read_to_string(folder.join(file)).ok()?;
        let of_line = |line: &str| line.strip_prefix(word)?.trim().parse().ok();
        text.lines().find_map(of_line)
    }

    /// Whether groups with a quota can be made here, found out without the code under test.
    fn has_groups() -> bool {
        [(UNIFIED, "cpu.max"), (SEPARATE, "cpu.cfs_quota_us")]
            .iter()
            .any(|(within, quota)| {
                let folder = Path::new(within).join(format!("signet-test-{}", std::process::id()));
                let is_there = fs::create_dir(&folder).is_ok() && folder.join(quota).exists();
                let _ = fs::remove_dir(&folder);
                is_there
            })
    }

    #[test]
    fn a_process_is_held_to_its_share_until_it_is_lifted() {
        if let Err(error) = Share::try_out(0.05) {
            // Not root, or no control groups: then the bed says so and goes on without.
            assert!(error.to_string().contains("run it as root"), "{error}");
            assert!(!has_groups(), "{error}");
            return;
        }
        let mut busy = Busy::new();
        let id = busy.0.id();
        let share = Share::hold(0.05, || vec![id]).unwrap();
        let folder = share.group.folder.clone();
        let quota = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default();
        let quotas = || quota("cpu.max") + &quota("cpu.cfs_quota_us");
        assert!(quotas().starts_with("1000"), "{}", quotas());
        // The kernel has made it wait.
        let until = Instant::now() + Duration::from_secs(60);
        while told(&folder, "cpu.stat", "nr_throttled ").unwrap_or(0) == 0 {
            assert!(Instant::now() < until, "it has never waited");
            std::thread::sleep(Duration::from_millis(20));
        }
        // As if this run had been killed.
        let others_live = |id| id != std::process::id();
        remove_stale(others_live);
        assert!(folder.exists(), "a group with processes stays");
        share.lift();
        let lifted = quotas();
        busy.end();
        assert!(
            lifted.starts_with("max") || lifted.starts_with("-1"),
            "{lifted}"
        );
        while folder.exists() {
            assert!(Instant::now() < until, "the group stays");
            remove_stale(others_live);
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(share);
        drop(Share::hold(0.05, || vec![id]).expect("who has ended needs no share"));
        assert!(!folder.exists());
        assert!(Share::hold(0.05, Vec::new).is_err(), "there is nobody");
        assert!(!folder.exists());
        // Who is started meanwhile is held too. Nobody of these is there.
        let asked = Cell::new(0);
        let members = || {
            asked.set(asked.get() + 1);
            (0..asked.get().min(3)).map(|nth| u32::MAX - nth).collect()
        };
        drop(Share::hold(0.05, members).unwrap());
        assert_eq!(asked.get(), 4);
    }
}
