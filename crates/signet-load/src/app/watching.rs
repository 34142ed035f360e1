//! The processes that are watched: each for itself and all together, second by second.

use std::fmt;
use std::str::FromStr;

use measure::series::SECONDS_MAX;
use measure::{ProcessSecond, Sample, Watched, WatchedProcess, Watcher, watch};

const NS_PER_S: u64 = 1_000_000_000;
/// Characters that a name may have.
const NAME_MAX: usize = 32;

/// A process that is to be watched with its descendants: `PID`, or `NAME=PID`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchTarget {
    /// What it is called in the result; its program's name if left out.
    pub name: Option<String>,
    /// Its id.
    pub pid: u32,
}

impl FromStr for WatchTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, pid) = match text.split_once('=') {
            Some((name, pid)) => (Some(name), pid),
            None => (None, text),
        };
        let is_name =
            |name: &str| (1..=NAME_MAX).contains(&name.len()) && name.chars().all(is_of_name);
        // The names of columns are made of it.
        if name.is_some_and(|name| !is_name(name)) {
            return Err(format!(
                "'{text}' has no name that a column could have; write up to {NAME_MAX} letters, \
                 digits, - and _, as in server=4711"
            ));
        }
        let pid = pid
            .parse()
            .map_err(|_| format!("'{text}' is no process; write 4711 or server=4711"))?;
        Ok(Self {
            name: name.map(str::to_owned),
            pid,
        })
    }
}

impl fmt::Display for WatchTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name}={}", self.pid),
            None => self.pid.fmt(f),
        }
    }
}

const fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}

/// One of them, as it was seen so far.
struct Seen {
    told: WatchedProcess,
    begin: Sample,
    last: Sample,
}

/// Reads the watched processes, and this one, once a second.
pub(crate) struct Watching {
    watcher: Watcher,
    own: Watcher,
    processes: Vec<Seen>,
    /// All watched processes together, and this one, when the run began.
    begin: Option<(Sample, Sample)>,
    last: (Sample, Sample),
    peak: Sample,
    own_peak: Sample,
    second: Option<u64>,
    /// Second, CPU time of the watched processes, CPU time of this one.
    seconds: Vec<(u64, u64, u64)>,
}

impl Watching {
    /// # Errors
    /// Where a process is not there, or a name or a process is given twice.
    pub(crate) fn new(targets: &[WatchTarget]) -> Result<Self, String> {
        for (at, target) in targets.iter().enumerate() {
            let before = targets.iter().take(at);
            if let Some(twin) = before.clone().find(|other| other.pid == target.pid) {
                return Err(format!("{twin} and {target} are one process: name it once"));
            }
            if let Some(twin) = before
                .filter(|other| other.name.is_some())
                .find(|other| other.name == target.name)
            {
                return Err(format!(
                    "{twin} and {target} have one name: give each its own"
                ));
            }
        }
        let pids: Vec<u32> = targets.iter().map(|target| target.pid).collect();
        let watcher = Watcher::new(&pids).map_err(|error| error.to_string())?;
        let own = Watcher::new(&[std::process::id()]).map_err(|error| error.to_string())?;
        let processes = named(targets)
            .into_iter()
            .map(|told| Seen {
                told,
                begin: Sample::default(),
                last: Sample::default(),
            })
            .collect();
        Ok(Self {
            watcher,
            own,
            processes,
            begin: None,
            last: (Sample::default(), Sample::default()),
            peak: Sample::default(),
            own_peak: Sample::default(),
            second: None,
            seconds: Vec::new(),
        })
    }

    /// Reads all of them where a second has begun since the last time; whether one has.
    pub(crate) fn see(&mut self, elapsed_ns: u64) -> bool {
        let second = elapsed_ns / NS_PER_S;
        if self.second == Some(second) {
            return false;
        }
        self.second = Some(second);
        let each = self.watcher.sample_each();
        let now = (Sample::sum(&each), self.own.sample());
        let is_first = self.begin.is_none();
        self.begin.get_or_insert(now);
        let at_s = second.saturating_sub(1);
        if !is_first && self.seconds.len() < SECONDS_MAX {
            let watched_ns = now.0.cpu_since_ns(&self.last.0);
            let own_ns = now.1.cpu_since_ns(&self.last.1);
            self.seconds.push((at_s, watched_ns, own_ns));
        }
        for (seen, sample) in self.processes.iter_mut().zip(each) {
            if is_first {
                seen.begin = sample;
            } else {
                seen.told.push(ProcessSecond {
                    at_s,
                    cpu_ns: sample.cpu_since_ns(&seen.last),
                    memory_bytes: sample.memory_bytes(),
                });
            }
            seen.told.peak = seen.told.peak.max(&sample);
            seen.last = sample;
        }
        self.peak = self.peak.max(&now.0);
        self.own_peak = self.own_peak.max(&now.1);
        self.last = now;
        true
    }

    /// CPU time of each second: of the watched processes if there are any, and of
    /// this one.
    pub(crate) fn cpu_by_second(&self) -> Vec<(u64, Option<u64>, Option<u64>)> {
        let is_watching = !self.processes.is_empty();
        self.seconds
            .iter()
            .map(|&(at_s, watched, own)| (at_s, is_watching.then_some(watched), Some(own)))
            .collect()
    }

    /// What the watched processes took, all together and each for itself; nothing where
    /// the run did not begin.
    pub(crate) fn end(&mut self) -> (Vec<Watched>, Vec<WatchedProcess>) {
        let Some((begin, _)) = self.begin.filter(|_| !self.processes.is_empty()) else {
            return (Vec::new(), Vec::new());
        };
        let each = self.watcher.sample_each();
        let all = Sample::sum(&each);
        let told: Vec<WatchedProcess> = self
            .processes
            .iter()
            .zip(each)
            .map(|(seen, sample)| WatchedProcess {
                cpu_ns: sample.cpu_since_ns(&seen.begin),
                peak: seen.told.peak.max(&sample),
                ..seen.told.clone()
            })
            .collect();
        let programs: Vec<&str> = told.iter().map(|told| told.program.as_str()).collect();
        let together = Watched {
            pid: told.first().map_or(0, |first| first.pid),
            name: programs.join("+"),
            cpu_ns: all.cpu_since_ns(&begin),
            peak: self.peak.max(&all),
        };
        (vec![together], told)
    }

    /// The most memory that this process held.
    pub(crate) fn own_memory_bytes(&self) -> u64 {
        self.own_peak.rss_bytes
    }
}

/// Each with a name that no other has: its own, or its program's, with its id where
/// several have that.
fn named(targets: &[WatchTarget]) -> Vec<WatchedProcess> {
    let programs: Vec<String> = targets
        .iter()
        .map(|target| watch::process_name(target.pid).unwrap_or_default())
        .collect();
    let plain: Vec<String> = targets
        .iter()
        .zip(&programs)
        .map(|(target, program)| match &target.name {
            Some(name) => name.clone(),
            None => {
                let clean = |c: char| if is_of_name(c) { c } else { '_' };
                program.chars().map(clean).collect()
            }
        })
        .collect();
    let mut all = Vec::new();
    for ((target, program), name) in targets.iter().zip(programs).zip(&plain) {
        let is_shared = plain.iter().filter(|other| *other == name).count() > 1;
        let name = if target.name.is_none() && (is_shared || name.is_empty()) {
            format!("{name}-{}", target.pid)
        } else {
            name.clone()
        };
        all.push(WatchedProcess {
            name,
            pid: target.pid,
            program,
            ..WatchedProcess::default()
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> WatchTarget {
        text.parse().unwrap()
    }

    #[test]
    fn a_process_has_an_id_and_if_you_like_a_name() {
        assert_eq!(target("server=12").to_string(), "server=12");
        assert_eq!((target("12").name, target("12").pid), (None, 12));
        for wrong in [
            "",
            "x",
            "=12",
            "server=",
            "server=x",
            "a b=12",
            "a,b=1",
            "server=-1",
            "server=1=2",
        ] {
            assert!(wrong.parse::<WatchTarget>().is_err(), "{wrong}");
        }
        let long = format!("{}=1", "x".repeat(NAME_MAX + 1));
        assert!(long.parse::<WatchTarget>().is_err());
    }

    #[test]
    fn nothing_is_watched_twice_and_no_two_have_one_name() {
        let own = std::process::id();
        let of = |texts: [String; 2]| {
            Watching::new(&texts.map(|text| target(&text)))
                .map(|_| ())
                .unwrap_err()
        };
        let error = of([format!("a={own}"), format!("b={own}")]);
        assert!(error.contains("one process"), "{error}");
        let error = of([format!("a={own}"), "a=1".to_owned()]);
        assert!(error.contains("one name"), "{error}");
        let error = of([format!("a={own}"), format!("b={}", u32::MAX)]);
        assert!(error.contains("cannot be watched"), "{error}");
    }

    #[test]
    fn each_process_is_told_for_itself_and_all_together() {
        // This process, and a child of it that waits for the end of its input.
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let (own, child_id) = (std::process::id(), child.id());
        let targets = [format!("{own}"), format!("child={child_id}")].map(|text| target(&text));
        let mut watching = Watching::new(&targets).unwrap();
        assert_eq!(watching.end(), (Vec::new(), Vec::new()), "it has not begun");
        assert!(watching.see(0) && !watching.see(999_999_999));
        assert!(watching.see(1_000_000_000) && watching.see(2_500_000_000));
        let (together, each) = watching.end();
        drop(child.stdin.take());
        child.wait().unwrap();
        let [together] = &together[..] else {
            panic!("one entry for all: {together:?}");
        };
        assert_eq!(each.len(), 2);
        assert_eq!(together.pid, own);
        assert_eq!(each[1].name, "child");
        assert_eq!(each[1].program, "cat");
        for process in &each {
            let at_s: Vec<u64> = process.seconds.iter().map(|second| second.at_s).collect();
            assert_eq!(at_s, [0, 1]);
            assert!(process.peak.memory_bytes() > 0, "{process:?}");
            assert!(process.seconds[0].memory_bytes > 0, "{process:?}");
        }
        let sum_ns: u64 = each.iter().map(|process| process.cpu_ns).sum();
        assert_eq!(sum_ns, together.cpu_ns);
        assert_eq!(watching.cpu_by_second().len(), 2);
    }
}
