//! CPU time and memory of those who take part in a measurement, look by look, how busy their
//! cores were, and what passed between server and database meanwhile.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use measure::Watcher;

use crate::distance::Passed;

/// How often they are looked at: a walk through `/proc` for each takes about a millisecond.
pub const EVERY: Duration = Duration::from_secs(1);

/// `/proc/stat` counts in ticks of this many nanoseconds.
const TICK_NS: u64 = 10_000_000;

/// One look at all of them.
#[derive(Clone, Debug, Default, PartialEq)]
struct Look {
    /// When, seconds since 1970.
    at_s: f64,
    /// CPU time so far, of each in the order in which they were given.
    cpu_ns: Vec<u64>,
    /// Memory of each, shared pages whole.
    rss_bytes: Vec<u64>,
    /// Time so far in which each core had nothing to do.
    idle_ns: Vec<u64>,
    /// What passed between server and database so far.
    passed: Passed,
}

/// Memory of one of them, taken once.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Weighed {
    /// Which one.
    index: usize,
    /// Shared pages whole.
    rss_bytes: u64,
    /// Shared pages in parts, where the system tells.
    pss_bytes: Option<u64>,
}

/// How to look at a relay's report without the relay.
pub type Glance = Box<dyn Fn() -> Option<Passed> + Send>;

/// What is looked at.
pub struct Subject<W> {
    /// Processes with their descendants. One that is gone counts as one that takes nothing.
    pub processes: Vec<(W, u32)>,
    /// Cores by their numbers, each with whose it is.
    pub cores: Vec<(W, String)>,
    /// What passes between server and database.
    pub glance: Option<Glance>,
    /// Whose shared pages are told apart, and how long after the beginning: once, since the
    /// kernel walks through all of a process's pages for it.
    pub weighs: Option<(W, Duration)>,
}

/// Looks at all of them while a load runs; `W` says who is who.
#[derive(Debug)]
pub struct Watch<W> {
    end: Sender<()>,
    thread: JoinHandle<(Vec<Look>, Option<Weighed>)>,
    who: Vec<W>,
    cores: Vec<W>,
}

impl<W: Copy + PartialEq> Watch<W> {
    /// Begins.
    pub fn begin(subject: Subject<W>, every: Duration) -> Self {
        let (end, ended) = channel();
        let who: Vec<W> = subject.processes.iter().map(|(who, _)| *who).collect();
        let weighs = subject.weighs.and_then(|(whose, after)| {
            let index = who.iter().position(|other| *other == whose)?;
            Some((index, Instant::now() + after))
        });
        let mut eyes = Eyes {
            watchers: subject
                .processes
                .iter()
                .map(|(_, id)| Watcher::new(&[*id]).ok())
                .collect(),
            cores: subject
                .cores
                .iter()
                .map(|(_, number)| format!("cpu{number}"))
                .collect(),
            glance: subject.glance,
            clock: Clock::begin(),
        };
        let thread = std::thread::spawn(move || eyes.follow(&ended, every, weighs));
        Self {
            end,
            thread,
            who,
            cores: subject.cores.iter().map(|(who, _)| *who).collect(),
        }
    }

    /// Ends with a last look.
    pub fn end(self) -> Looks<W> {
        let _ = self.end.send(());
        let (looks, weighed) = self.thread.join().unwrap_or_default();
        Looks {
            who: self.who,
            cores: self.cores,
            looks,
            weighed,
        }
    }
}

/// What reads `/proc` for a watch.
struct Eyes {
    watchers: Vec<Option<Watcher>>,
    /// Cores as `/proc/stat` names them.
    cores: Vec<String>,
    glance: Option<Glance>,
    clock: Clock,
}

/// Seconds since 1970 as they were at the beginning, and from then on by the clock that nobody sets.
/// The load tells when it began by the one and counts its seconds by the other, so that a clock that
/// is set meanwhile would hold CPU time of a longer or a shorter stretch against its calls.
#[derive(Clone, Copy, Debug)]
struct Clock {
    begun: Instant,
    begun_unix_s: f64,
}

impl Clock {
    fn begin() -> Self {
        Self {
            begun: Instant::now(),
            begun_unix_s: unix_s(),
        }
    }

    fn at_s(self, now: Instant) -> f64 {
        self.begun_unix_s + now.saturating_duration_since(self.begun).as_secs_f64()
    }
}

impl Eyes {
    /// Looks at all until the end is said.
    fn follow(
        &mut self,
        ended: &Receiver<()>,
        every: Duration,
        mut weighs: Option<(usize, Instant)>,
    ) -> (Vec<Look>, Option<Weighed>) {
        let mut looks = Vec::new();
        let mut weighed = None;
        loop {
            looks.push(self.look());
            let now = Instant::now();
            if let Some((index, _)) = weighs.filter(|(_, at)| *at <= now) {
                weighed = self.weigh(index);
                weighs = None;
            }
            let until = weighs.map(|(_, at)| at.saturating_duration_since(now));
            let wait = until.map_or(every, |until| until.min(every));
            if !matches!(ended.recv_timeout(wait), Err(RecvTimeoutError::Timeout)) {
                break;
            }
        }
        looks.push(self.look());
        (looks, weighed)
    }

    fn look(&mut self) -> Look {
        let samples = self.watchers.iter_mut().map(|watcher| {
            let sample = watcher.as_mut().map(Watcher::sample_light);
            sample.map_or((0, 0), |sample| (sample.cpu_ns, sample.rss_bytes))
        });
        let (cpu_ns, rss_bytes) = samples.unzip();
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let idle_ns = self.cores.iter().map(|core| idle_ns(&stat, core));
        Look {
            at_s: self.clock.at_s(Instant::now()),
            cpu_ns,
            rss_bytes,
            // Where one is not there, none is: they are told by their order.
            idle_ns: idle_ns.collect::<Option<_>>().unwrap_or_default(),
            passed: self
                .glance
                .as_ref()
                .and_then(|glance| glance())
                .unwrap_or_default(),
        }
    }

    fn weigh(&mut self, index: usize) -> Option<Weighed> {
        let sample = self.watchers.get_mut(index)?.as_mut()?.sample();
        Some(Weighed {
            index,
            rss_bytes: sample.rss_bytes,
            pss_bytes: sample.pss_bytes,
        })
    }
}

/// Time that a core had nothing to do since the machine began, by the text of `/proc/stat`.
fn idle_ns(stat: &str, core: &str) -> Option<u64> {
    let mut lines = stat.lines().map(str::split_ascii_whitespace);
    let fields: Vec<&str> = lines
        .find_map(|mut line| (line.next()? == core).then_some(line))?
        .collect();
    // proc(5): user, nice, system, idle, iowait, ...
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some((ticks(3)? + ticks(4)?).saturating_mul(TICK_NS))
}

/// What was seen. Counts between two looks are reckoned as if they grew evenly.
#[derive(Clone, Debug, PartialEq)]
pub struct Looks<W> {
    who: Vec<W>,
    cores: Vec<W>,
    looks: Vec<Look>,
    weighed: Option<Weighed>,
}

impl<W> Default for Looks<W> {
    fn default() -> Self {
        Self {
            who: Vec::new(),
            cores: Vec::new(),
            looks: Vec::new(),
            weighed: None,
        }
    }
}

impl<W: Copy + PartialEq> Looks<W> {
    fn index(&self, who: W) -> Option<usize> {
        self.who.iter().position(|other| *other == who)
    }

    /// The most memory that one of them had from one moment to another; `None` where it was
    /// not seen. Shared pages count in parts where it was weighed: in the proportion that they
    /// had then.
    pub fn memory_bytes(&self, who: W, from_s: f64, to_s: f64) -> Option<u64> {
        let index = self.index(who)?;
        let weighed = self.weighed.filter(|weighed| weighed.index == index);
        let looks = self.looks.iter();
        let within = looks.filter(|look| from_s <= look.at_s && look.at_s <= to_s);
        let seen = within.filter_map(|look| look.rss_bytes.get(index).copied());
        let most = seen.chain(weighed.map(|weighed| weighed.rss_bytes)).max();
        let most = most.filter(|bytes| *bytes > 0)?;
        let part = weighed.and_then(|weighed| {
            let pss_bytes = weighed.pss_bytes?;
            (weighed.rss_bytes > 0).then(|| pss_bytes as f64 / weighed.rss_bytes as f64)
        });
        Some((most as f64 * part.unwrap_or(1.0)).round() as u64)
    }

    /// The share of the time from one moment to another in which somebody's core was busy, with
    /// whatever was on it; `None` where it was not seen over that time.
    pub fn busy(&self, whose: W, from_s: f64, to_s: f64) -> Option<f64> {
        let index = self.cores.iter().position(|other| *other == whose)?;
        let is_known = self.looks.iter().all(|look| look.idle_ns.len() > index);
        let so_far = |look: &Look| look.idle_ns.get(index).copied().unwrap_or(0) as f64;
        let idle_ns = self.at(to_s, so_far)? - self.at(from_s, so_far)?;
        let length_ns = (to_s - from_s) * 1e9;
        (is_known && length_ns > 0.0).then(|| (1.0 - idle_ns / length_ns).clamp(0.0, 1.0))
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

    /// Bytes of memory and idle time are those of the server and of its core.
    fn looks() -> Looks<char> {
        let look =
            |at_s: f64, cpu_ns: [u64; 2], rss_bytes: u64, idle_ns: u64, wire_bytes: u64| Look {
                at_s,
                cpu_ns: cpu_ns.into(),
                rss_bytes: vec![rss_bytes, 0],
                idle_ns: vec![idle_ns],
                passed: Passed {
                    wire_bytes,
                    late_p99_us: at_s,
                    ..Passed::default()
                },
            };
        Looks {
            who: vec!['s', 'l'],
            cores: vec!['s'],
            looks: vec![
                look(100.0, [0, 10], 500, 0, 0),
                look(101.0, [1_000, 20], 800, 900_000_000, 100),
                look(102.0, [3_000, 30], 50, 1_000_000_000, 300),
            ],
            weighed: None,
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
    }

    #[test]
    fn memory_is_the_most_under_load_and_not_what_is_left_after_it() {
        let mut looks = looks();
        assert_eq!(looks.memory_bytes('s', 100.0, 102.0), Some(800));
        assert_eq!(looks.memory_bytes('s', 101.5, 102.0), Some(50));
        // Of 900 bytes two thirds were its own share.
        looks.weighed = Some(Weighed {
            index: 0,
            rss_bytes: 900,
            pss_bytes: Some(600),
        });
        assert_eq!(looks.memory_bytes('s', 100.0, 102.0), Some(600));
        looks.weighed = Some(Weighed {
            index: 0,
            rss_bytes: 400,
            pss_bytes: Some(100),
        });
        assert_eq!(looks.memory_bytes('s', 100.0, 102.0), Some(200));
        looks.weighed = Some(Weighed {
            index: 0,
            rss_bytes: 400,
            pss_bytes: None,
        });
        assert_eq!(looks.memory_bytes('s', 100.0, 102.0), Some(800));
    }

    #[test]
    fn a_core_is_busy_while_it_is_not_idle() {
        let looks = looks();
        let busy = |from_s, to_s| looks.busy('s', from_s, to_s).map(|share| share * 10.0);
        assert_eq!(busy(100.0, 102.0).map(f64::round), Some(5.0));
        assert_eq!(busy(100.0, 101.0).map(f64::round), Some(1.0));
        assert_eq!(busy(101.0, 102.0).map(f64::round), Some(9.0));
        assert_eq!(looks.busy('l', 100.0, 102.0), None);
        let stat = "cpu  9 9 9 9 9\ncpu0 1 2 3 40 5 6 7\ncpu1 1 2 3\n";
        assert_eq!(idle_ns(stat, "cpu0"), Some(450_000_000));
        assert_eq!(idle_ns(stat, "cpu1"), None);
        assert_eq!(idle_ns(stat, "cpu2"), None);
    }

    #[test]
    fn what_was_not_seen_is_not_told() {
        let looks = looks();
        assert_eq!(looks.cpu_ns('d', 100.0, 102.0), None);
        assert_eq!(looks.cpu_ns('s', 99.0, 102.0), None);
        assert_eq!(looks.cpu_ns('s', 100.0, 103.0), None);
        assert_eq!(looks.memory_bytes('l', 100.0, 102.0), None);
        assert_eq!(looks.memory_bytes('d', 100.0, 102.0), None);
        let none = Looks::default();
        assert_eq!(none.cpu_ns('s', 1.0, 2.0), None);
        assert_eq!(none.busy('s', 1.0, 2.0), None);
        assert_eq!(none.relay_late_p99_us(1.0), 0.0);
    }

    #[test]
    fn a_clock_that_is_set_meanwhile_moves_no_look() {
        let begun = Instant::now();
        let clock = Clock {
            begun,
            begun_unix_s: 1_000.0,
        };
        assert_eq!(clock.at_s(begun + Duration::from_millis(2_500)), 1_002.5);
        let mut eyes = Eyes {
            watchers: Vec::new(),
            cores: Vec::new(),
            glance: None,
            clock,
        };
        // What the system's clock says by now is none of it.
        let at_s = eyes.look().at_s;
        assert!((1_000.0..1_100.0).contains(&at_s), "{at_s}");
        assert!((Clock::begin().begun_unix_s - unix_s()).abs() < 100.0);
    }

    #[test]
    fn this_process_is_seen() {
        let subject = |weighs| Subject {
            processes: vec![('s', std::process::id())],
            cores: vec![('s', "0".to_owned())],
            glance: None,
            weighs,
        };
        let watch = Watch::begin(subject(None), EVERY);
        let looks = watch.end();
        assert_eq!(looks.looks.len(), 2, "one at the beginning, one at the end");
        assert!(looks.memory_bytes('s', 0.0, f64::MAX).unwrap() > 100_000);
        assert!(looks.looks.iter().all(|look| look.idle_ns.len() == 1));
        let watch = Watch::begin(subject(Some(('s', Duration::ZERO))), EVERY);
        let weighed = watch.end().weighed.unwrap();
        assert!(weighed.rss_bytes > 100_000 && weighed.index == 0);
    }
}
