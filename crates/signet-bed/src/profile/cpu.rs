//! CPU time that processes used, with their descendants, by the kernel's own count.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;

use nix::time::ClockId;
use nix::unistd::Pid;

/// Of the kernel's interface, on all machines that Linux runs on today.
const TICKS_PER_S: u64 = 100;
const TICK_NS: u64 = 1_000_000_000 / TICKS_PER_S;
/// Descendants past this many are not looked at.
const MEMBERS_MAX: usize = 4_096;

/// A process and its descendants at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Family {
    pub(crate) root: u32,
    pub(crate) members: BTreeMap<u32, Member>,
    /// By pid and thread id; empty where nobody asked.
    pub(crate) threads: BTreeMap<(u32, u32), Thread>,
}

/// One process. All times since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Member {
    /// When it began, so that another process with the same pid is another.
    pub(crate) begun_ticks: u64,
    /// Of its threads, those that ended included.
    pub(crate) cpu_ns: u64,
    /// Of children that ended and were waited for, with theirs.
    pub(crate) waited_ns: u64,
}

/// One thread. All times since it began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Thread {
    pub(crate) name: String,
    pub(crate) run_ns: u64,
    pub(crate) user_ticks: u64,
    pub(crate) kernel_ticks: u64,
}

/// What `/proc/PID/stat` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stat {
    parent: u32,
    user_ticks: u64,
    kernel_ticks: u64,
    waited_ticks: u64,
    begun_ticks: u64,
}

impl Family {
    /// Reads these processes with their descendants. One that is a descendant of another is
    /// not counted there.
    pub(crate) fn read(roots: &[u32], with_threads: bool) -> Vec<Self> {
        let children = children();
        let mut families: Vec<Self> = roots
            .iter()
            .map(|&root| Self {
                root,
                members: members(root, roots, &children)
                    .into_iter()
                    .map(|pid| (pid, Member::default()))
                    .collect(),
                threads: BTreeMap::new(),
            })
            .collect();
        // The clocks in one go, so that all have the same window.
        for family in &mut families {
            family
                .members
                .retain(|&pid, member| match Member::read(pid) {
                    Some(read) => {
                        *member = read;
                        true
                    }
                    None => false,
                });
        }
        if with_threads {
            for family in &mut families {
                for &pid in family.members.keys() {
                    family.threads.extend(threads(pid));
                }
            }
        }
        families
    }

    /// CPU time used from `before` until now; `None` where the process itself has ended, so
    /// that its clock is gone.
    pub(crate) fn used_ns(&self, before: &Self) -> Option<u64> {
        let is_same = |pid: &u32, now: &Member| {
            let then = before.members.get(pid);
            then.filter(|then| then.begun_ticks == now.begun_ticks)
        };
        let root = self.members.get(&self.root)?;
        if before.members.contains_key(&self.root) && is_same(&self.root, root).is_none() {
            return None;
        }
        let mut living_ns = 0;
        let mut waited_ns = 0;
        for (pid, now) in &self.members {
            let then = is_same(pid, now).copied().unwrap_or_default();
            living_ns += now.cpu_ns.saturating_sub(then.cpu_ns);
            waited_ns += now.waited_ns.saturating_sub(then.waited_ns);
        }
        // What descendants that ended had used before is no time of this window.
        let ended_before_ns: u64 = before
            .members
            .iter()
            .filter(|(pid, then)| {
                self.members
                    .get(pid)
                    .is_none_or(|now| now.begun_ticks != then.begun_ticks)
            })
            .map(|(_, then)| then.cpu_ns + then.waited_ns)
            .sum();
        Some(living_ns + u64::saturating_sub(waited_ns, ended_before_ns))
    }
}

impl Member {
    fn read(pid: u32) -> Option<Self> {
        let stat = stat(&format!("/proc/{pid}/stat"))?;
        let id = Pid::from_raw(i32::try_from(pid).ok()?);
        let time = ClockId::pid_cpu_clock_id(id).ok()?.now().ok()?;
        let seconds = u64::try_from(time.tv_sec()).ok()?;
        let rest_ns = u64::try_from(time.tv_nsec()).ok()?;
        Some(Self {
            begun_ticks: stat.begun_ticks,
            cpu_ns: seconds * 1_000_000_000 + rest_ns,
            waited_ns: stat.waited_ticks * TICK_NS,
        })
    }
}

/// All processes, by parent.
fn children() -> HashMap<u32, Vec<u32>> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for pid in numbers("/proc") {
        if let Some(stat) = stat(&format!("/proc/{pid}/stat")) {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    children
}

fn members(root: u32, roots: &[u32], children: &HashMap<u32, Vec<u32>>) -> Vec<u32> {
    let mut found = vec![root];
    // Processes come and go while they are listed, so that the list may have a circle.
    let mut seen: HashSet<u32> = roots.iter().copied().collect();
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        next += 1;
        for &child in children.get(&pid).into_iter().flatten() {
            if found.len() < MEMBERS_MAX && seen.insert(child) {
                found.push(child);
            }
        }
    }
    found
}

fn threads(pid: u32) -> Vec<((u32, u32), Thread)> {
    numbers(&format!("/proc/{pid}/task"))
        .into_iter()
        .filter_map(|tid| {
            let folder = format!("/proc/{pid}/task/{tid}");
            let stat = stat(&format!("{folder}/stat"))?;
            let run = fs::read_to_string(format!("{folder}/schedstat")).ok()?;
            let name = fs::read(format!("{folder}/comm")).ok()?;
            let thread = Thread {
                name: String::from_utf8_lossy(&name).trim_end().to_owned(),
                run_ns: run.split(' ').next()?.parse().ok()?,
                user_ticks: stat.user_ticks,
                kernel_ticks: stat.kernel_ticks,
            };
            Some(((pid, tid), thread))
        })
        .collect()
}

fn numbers(folder: &str) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

fn stat(path: &str) -> Option<Stat> {
    parse_stat(&String::from_utf8_lossy(&fs::read(path).ok()?))
}

/// The name may hold anything, so fields are counted from its last bracket.
fn parse_stat(text: &str) -> Option<Stat> {
    let (_, after) = text.rsplit_once(')')?;
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    // proc(5) counts from 1 and has two fields before these.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(Stat {
        parent: u32::try_from(field(4)?).ok()?,
        user_ticks: field(14)?,
        kernel_ticks: field(15)?,
        waited_ticks: field(16)?.saturating_add(field(17)?),
        begun_ticks: field(22)?,
    })
}

/// The name of the file that a process runs, without its folder.
pub(crate) fn program(pid: u32) -> Option<String> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let name = path.file_name()?.to_string_lossy().into_owned();
    Some(name.strip_suffix(" (deleted)").unwrap_or(&name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(root: u32, members: &[(u32, u64, u64, u64)]) -> Family {
        Family {
            root,
            members: members
                .iter()
                .map(|&(pid, begun_ticks, cpu_ns, waited_ns)| {
                    let member = Member {
                        begun_ticks,
                        cpu_ns,
                        waited_ns,
                    };
                    (pid, member)
                })
                .collect(),
            threads: BTreeMap::new(),
        }
    }

    #[test]
    fn time_used_is_that_of_all_who_lived_in_the_window() {
        let before = family(1, &[(1, 5, 100, 40), (2, 6, 1_000, 0), (3, 7, 500, 10)]);
        // 2 used 20 more; 3 ended at 530 and with its 10 was waited for; 4 is new.
        let after = family(1, &[(1, 5, 107, 40 + 540), (2, 6, 1_020, 0), (4, 9, 3, 0)]);
        assert_eq!(after.used_ns(&before), Some(7 + 20 + 30 + 3));
    }

    #[test]
    fn a_process_that_ended_has_no_clock() {
        let before = family(1, &[(1, 5, 100, 0)]);
        assert_eq!(family(1, &[]).used_ns(&before), None);
        // Another one with its pid.
        assert_eq!(family(1, &[(1, 8, 3, 0)]).used_ns(&before), None);
    }

    #[test]
    fn children_that_nobody_waited_for_do_not_count_backwards() {
        let before = family(1, &[(1, 5, 100, 0), (2, 6, 900, 0)]);
        assert_eq!(family(1, &[(1, 5, 130, 0)]).used_ns(&before), Some(30));
    }

    #[test]
    fn a_listed_process_is_no_descendant_of_another() {
        let children = HashMap::from([(1, vec![2, 3]), (3, vec![4, 1])]);
        assert_eq!(members(1, &[1], &children), [1, 2, 3, 4]);
        assert_eq!(members(1, &[1, 3], &children), [1, 2]);
        assert_eq!(members(3, &[1, 3], &children), [3, 4]);
    }

    #[test]
    fn names_with_brackets_do_not_move_fields() {
        let text = "12 (a) b (c) S 7 0 0 0 0 0 0 0 0 0 11 12 13 14 20 0 3 0 99 0 0";
        let expected = Stat {
            parent: 7,
            user_ticks: 11,
            kernel_ticks: 12,
            waited_ticks: 27,
            begun_ticks: 99,
        };
        assert_eq!(parse_stat(text), Some(expected));
        assert_eq!(parse_stat("12 (a"), None);
        assert_eq!(parse_stat("12 (a) S x"), None);
    }

    #[test]
    fn this_process_has_a_clock_and_threads() {
        let pid = std::process::id();
        let families = Family::read(&[pid], true);
        let again = Family::read(&[pid], true);
        assert!(families[0].members[&pid].cpu_ns > 0);
        assert!(families[0].threads.keys().any(|&(of, _)| of == pid));
        assert!(again[0].used_ns(&families[0]).is_some());
        assert!(program(pid).is_some());
    }
}
