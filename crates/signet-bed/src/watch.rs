//! CPU time of those who take part in a measurement, look by look, and what passed between
//! server and database meanwhile.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use measure::Watcher;

use crate::distance::Passed;

/// How often they are looked at: a walk through `/proc` for each takes about a millisecond.
pub const EVERY: Duration = Duration::from_secs(1);

/// One look at all of them.
#[derive(Clone, Debug, Default, PartialEq)]
struct Look {
    /// When, seconds since 1970.
    at_s: f64,
    /// CPU time so far, of each in the order in which they were given.
    cpu_ns: Vec<u64>,
    /// What passed between server and database so far.
    passed: Passed,
}

/// How to look at a relay's report without the relay.
pub type Glance = Box<dyn Fn() -> Option<Passed> + Send>;

/// Looks at all of them while a load runs; `W` says who is who.
#[derive(Debug)]
pub struct Watch<W> {
    end: Sender<()>,
    thread: JoinHandle<(Vec<Look>, Vec<u64>)>,
    who: Vec<W>,
}

impl<W: Copy + PartialEq> Watch<W> {
    /// Begins. A process that is gone counts as one that takes nothing.
    pub fn begin(processes: &[(W, u32)], glance: Option<Glance>, every: Duration) -> Self {
        let (end, ended) = channel();
        let who = processes.iter().map(|(who, _)| *who).collect();
        let mut watchers: Vec<Option<Watcher>> = processes
            .iter()
            .map(|(_, id)| Watcher::new(&[*id]).ok())
            .collect();
        let thread = std::thread::spawn(move || {
            let mut looks = Vec::new();
            loop {
                looks.push(look(&mut watchers, glance.as_ref()));
                if !matches!(ended.recv_timeout(every), Err(RecvTimeoutError::Timeout)) {
                    break;
                }
            }
            looks.push(look(&mut watchers, glance.as_ref()));
            // Once, at its end: the kernel walks through all of a process's pages for it.
            let memory = watchers.iter_mut().map(|watcher| {
                let sample = watcher.as_mut().map(Watcher::sample);
                sample.map_or(0, |sample| sample.memory_bytes())
            });
            (looks, memory.collect())
        });
        Self { end, thread, who }
    }

    /// Ends with a last look.
    pub fn end(self) -> Looks<W> {
        let _ = self.end.send(());
        let (looks, memory_bytes) = self.thread.join().unwrap_or_default();
        Looks {
            who: self.who,
            looks,
            memory_bytes,
        }
    }
}

fn look(watchers: &mut [Option<Watcher>], glance: Option<&Glance>) -> Look {
    let so_far = |watcher: &mut Option<Watcher>| {
        let watcher = watcher.as_mut();
        watcher.map_or(0, |watcher| watcher.sample_light().cpu_ns)
    };
    Look {
        at_s: unix_s(),
        cpu_ns: watchers.iter_mut().map(so_far).collect(),
        passed: glance.and_then(|glance| glance()).unwrap_or_default(),
    }
}

/// What was seen. Counts between two looks are reckoned as if they grew evenly.
#[derive(Clone, Debug, PartialEq)]
pub struct Looks<W> {
    who: Vec<W>,
    looks: Vec<Look>,
    memory_bytes: Vec<u64>,
}

impl<W> Default for Looks<W> {
    fn default() -> Self {
        Self {
            who: Vec::new(),
            looks: Vec::new(),
            memory_bytes: Vec::new(),
        }
    }
}

impl<W: Copy + PartialEq> Looks<W> {
    fn index(&self, who: W) -> Option<usize> {
        self.who.iter().position(|other| *other == who)
    }

    /// Memory of one of them at the end, shared pages in parts; `None` where it was not seen.
    pub fn memory_bytes(&self, who: W) -> Option<u64> {
        let bytes = self.memory_bytes.get(self.index(who)?).copied();
        bytes.filter(|bytes| *bytes > 0)
    }

    /// When the first and the last look were, seconds since 1970.
    pub fn ends_s(&self) -> Option<(f64, f64)> {
        Some((self.looks.first()?.at_s, self.looks.last()?.at_s))
    }

    /// CPU time that one took from one moment to another, in nanoseconds; `None` where it
    /// was not seen over that time.
    pub fn cpu_ns(&self, who: W, from_s: f64, to_s: f64) -> Option<f64> {
        let index = self.index(who)?;
        let so_far = |look: &Look| look.cpu_ns.get(index).copied().unwrap_or(0) as f64;
        Some(self.at(to_s, so_far)? - self.at(from_s, so_far)?)
    }

    /// By how much a count of what passes between server and database grew.
    pub fn passed(&self, from_s: f64, to_s: f64, count: fn(&Passed) -> u64) -> Option<f64> {
        let so_far = |look: &Look| count(&look.passed) as f64;
        Some(self.at(to_s, so_far)? - self.at(from_s, so_far)?)
    }

    /// How late one in a hundred left the relay, up to a moment.
    pub fn relay_late_p99_us(&self, to_s: f64) -> f64 {
        let before = self.looks.iter().rfind(|look| look.at_s <= to_s);
        before.map_or(0.0, |look| look.passed.late_p99_us)
    }

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
pub(crate) fn unix_s() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks() -> Looks<char> {
        let look = |at_s: f64, server: u64, load: u64, wire_bytes: u64| Look {
            at_s,
            cpu_ns: vec![server, load],
            passed: Passed {
                wire_bytes,
                late_p99_us: at_s,
                ..Passed::default()
            },
        };
        Looks {
            who: vec!['s', 'l'],
            looks: vec![
                look(100.0, 0, 10, 0),
                look(101.0, 1_000, 20, 100),
                look(102.0, 3_000, 30, 300),
            ],
            memory_bytes: vec![5, 0],
        }
    }

    #[test]
    fn what_was_taken_lies_between_two_looks() {
        let looks = looks();
        assert_eq!(looks.cpu_ns('s', 100.0, 102.0), Some(3_000.0));
        assert_eq!(looks.cpu_ns('s', 100.5, 101.5), Some(1_500.0));
        assert_eq!(looks.cpu_ns('l', 100.0, 101.0), Some(10.0));
        let wire_bytes = |passed: &Passed| passed.wire_bytes;
        assert_eq!(looks.passed(101.0, 102.0, wire_bytes), Some(200.0));
        assert_eq!(looks.relay_late_p99_us(101.9), 101.0);
        assert_eq!(looks.ends_s(), Some((100.0, 102.0)));
        assert_eq!(looks.memory_bytes('s'), Some(5));
    }

    #[test]
    fn what_was_not_seen_is_not_told() {
        let looks = looks();
        assert_eq!(looks.cpu_ns('d', 100.0, 102.0), None);
        assert_eq!(looks.cpu_ns('s', 99.0, 102.0), None);
        assert_eq!(looks.cpu_ns('s', 100.0, 103.0), None);
        assert_eq!(looks.memory_bytes('l'), None);
        let none = Looks::default();
        assert_eq!(none.cpu_ns('s', 1.0, 2.0), None);
        assert_eq!(none.relay_late_p99_us(1.0), 0.0);
    }

    #[test]
    fn this_process_is_seen() {
        let watch = Watch::begin(&[('s', std::process::id())], None, EVERY);
        let looks = watch.end();
        assert_eq!(looks.looks.len(), 2, "one at the beginning, one at the end");
        assert!(looks.memory_bytes('s').unwrap() > 100_000);
    }
}
