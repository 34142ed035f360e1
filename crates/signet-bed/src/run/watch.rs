//! CPU time and memory of those who take part in a measurement, second by second.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use measure::Watcher;

use crate::distance::Passed;

/// How often they are looked at: a walk through `/proc` for each takes about a millisecond.
const EVERY: Duration = Duration::from_secs(1);

/// Who takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Server,
    Database,
    Load,
    Called,
}

/// One look at all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Look {
    /// When, seconds since 1970.
    pub(super) at_s: f64,
    /// CPU time so far, of each in the order in which they were given.
    pub(super) cpu_ns: Vec<u64>,
    /// What passed between server and database so far.
    pub(super) passed: Passed,
}

/// How to look at a relay's report without the relay.
type Glance = Box<dyn Fn() -> Option<Passed> + Send>;

/// Looks at all of them while a load runs.
#[derive(Debug)]
pub(super) struct Watch {
    end: Sender<()>,
    thread: JoinHandle<(Vec<Look>, u64)>,
    who: Vec<Who>,
}

impl Watch {
    /// Begins. A process that is gone counts as one that takes nothing.
    pub(super) fn begin(processes: &[(Who, u32)], glance: Option<Glance>) -> Self {
        let (end, ended) = channel();
        let who = processes.iter().map(|(who, _)| *who).collect();
        let mut watchers: Vec<(Who, Option<Watcher>)> = processes
            .iter()
            .map(|(who, id)| (*who, Watcher::new(&[*id]).ok()))
            .collect();
        let thread = std::thread::spawn(move || {
            let mut looks = Vec::new();
            loop {
                looks.push(look(&mut watchers, glance.as_ref()));
                if !matches!(ended.recv_timeout(EVERY), Err(RecvTimeoutError::Timeout)) {
                    break;
                }
            }
            looks.push(look(&mut watchers, glance.as_ref()));
            // Once, at its end: the kernel walks through all of a process's pages for it.
            let server = watchers.iter_mut().find(|(who, _)| *who == Who::Server);
            let sample = server.and_then(|(_, watcher)| Some(watcher.as_mut()?.sample()));
            let memory = sample.map_or(0, |s| s.pss_bytes.unwrap_or(s.rss_bytes));
            (looks, memory)
        });
        Self { end, thread, who }
    }

    /// Ends with a last look.
    pub(super) fn end(self) -> Looks {
        let _ = self.end.send(());
        let (looks, server_memory_bytes) = self.thread.join().unwrap_or_default();
        Looks {
            who: self.who,
            looks,
            server_memory_bytes,
        }
    }
}

fn look(watchers: &mut [(Who, Option<Watcher>)], glance: Option<&Glance>) -> Look {
    let so_far = |watcher: &mut Option<Watcher>| {
        let watcher = watcher.as_mut();
        watcher.map_or(0, |watcher| watcher.sample_light().cpu_ns)
    };
    Look {
        at_s: unix_s(),
        cpu_ns: watchers.iter_mut().map(|(_, watcher)| so_far(watcher)).collect(),
        passed: glance.and_then(|glance| glance()).unwrap_or_default(),
    }
}

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Looks {
    who: Vec<Who>,
    looks: Vec<Look>,
    /// Memory of the server at the end, shared pages in parts.
    pub(super) server_memory_bytes: u64,
}

impl Looks {
    /// CPU time that one took from one moment to another, in nanoseconds; `None` where it
    /// was not seen over that time.
    pub(super) fn cpu_ns(&self, who: Who, from_s: f64, to_s: f64) -> Option<f64> {
        let index = self.who.iter().position(|other| *other == who)?;
        let so_far = |look: &Look| look.cpu_ns.get(index).copied().unwrap_or(0) as f64;
        Some(self.at(to_s, so_far)? - self.at(from_s, so_far)?)
    }

    /// Bits that passed between server and database, headers included.
    pub(super) fn database_bits(&self, from_s: f64, to_s: f64) -> Option<f64> {
        let so_far = |look: &Look| look.passed.wire_bytes as f64 * 8.0;
        Some(self.at(to_s, so_far)? - self.at(from_s, so_far)?)
    }

    /// A count at a moment between two looks, as if it grew evenly.
    fn at(&self, at_s: f64, so_far: impl Fn(&Look) -> f64) -> Option<f64> {
        self.looks.windows(2).find_map(|pair| {
            let [before, after] = pair else { return None };
            let is_between = before.at_s <= at_s && at_s <= after.at_s;
            let length_s = after.at_s - before.at_s;
            (is_between && length_s > 0.0).then(|| {
                let share = (at_s - before.at_s) / length_s;
                so_far(before) + share * (so_far(after) - so_far(before))
            })
        })
    }
}

/// Seconds since 1970.
pub(super) fn unix_s() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks() -> Looks {
        let look = |at_s: f64, server: u64, load: u64, wire_bytes: u64| Look {
            at_s,
            cpu_ns: vec![server, load],
            passed: Passed {
                wire_bytes,
                ..Passed::default()
            },
        };
        Looks {
            who: vec![Who::Server, Who::Load],
            looks: vec![
                look(100.0, 0, 10, 0),
                look(101.0, 1_000, 20, 100),
                look(102.0, 3_000, 30, 300),
            ],
            server_memory_bytes: 0,
        }
    }

    #[test]
    fn what_was_taken_lies_between_two_looks() {
        let looks = looks();
        assert_eq!(looks.cpu_ns(Who::Server, 100.0, 102.0), Some(3_000.0));
        assert_eq!(looks.cpu_ns(Who::Server, 100.5, 101.5), Some(1_500.0));
        assert_eq!(looks.cpu_ns(Who::Load, 100.0, 101.0), Some(10.0));
        assert_eq!(looks.database_bits(101.0, 102.0), Some(1_600.0));
    }

    #[test]
    fn what_was_not_seen_is_not_told() {
        let looks = looks();
        assert_eq!(looks.cpu_ns(Who::Database, 100.0, 102.0), None);
        assert_eq!(looks.cpu_ns(Who::Server, 99.0, 102.0), None);
        assert_eq!(looks.cpu_ns(Who::Server, 100.0, 103.0), None);
        assert_eq!(Looks::default().cpu_ns(Who::Server, 1.0, 2.0), None);
    }

    #[test]
    fn this_process_is_seen() {
        let watch = Watch::begin(&[(Who::Server, std::process::id())], None);
        let looks = watch.end();
        assert_eq!(looks.looks.len(), 2, "one at the beginning, one at the end");
        assert!(looks.server_memory_bytes > 100_000);
    }
}
