//! Processes that a measurement starts, their CPU time, and their end.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use measure::{Sample, Watcher};

/// Where servers run, and where the load does: a core each, where there are two.
pub const SERVER_CORE: &str = "0";
/// The load's.
pub const LOAD_CORE: &str = "1";

/// The same on a machine that may have but one.
pub fn load_core() -> &'static str {
    match std::thread::available_parallelism() {
        Ok(cores) if cores.get() > 1 => LOAD_CORE,
        _ => SERVER_CORE,
    }
}

/// Whether a program is in the places where programs are; a path is looked at alone.
pub fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|folder| folder.join(program).is_file())
}

/// A child that ends with this value.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts `program` on one core, its output to `log`. It ends with whatever started
    /// it: a bench that is broken off leaves no server on the ports of the next.
    ///
    /// # Errors
    /// A log that cannot be written, and a program that cannot be started, `setpriv` and
    /// `taskset` among them.
    pub fn start(
        core: &str,
        program: &str,
        arguments: &[String],
        log: &Path,
    ) -> Result<Self, String> {
        Self::start_as(None, core, program, arguments, log)
    }

    /// The same as a user of this machine, for programs that refuse to run as root.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub fn start_as(
        user: Option<&str>,
        core: &str,
        program: &str,
        arguments: &[String],
        log: &Path,
    ) -> Result<Self, String> {
        Self::spawn(user, core, program, arguments, log, Stdio::null())
    }

    /// The same with a standard input to write to.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub fn start_with_input(
        core: &str,
        program: &str,
        arguments: &[String],
        log: &Path,
    ) -> Result<(Self, ChildStdin), String> {
        let mut process = Self::spawn(None, core, program, arguments, log, Stdio::piped())?;
        let input = process.child.stdin.take();
        let input = input.ok_or_else(|| format!("{program} has no standard input"))?;
        Ok((process, input))
    }

    fn spawn(
        user: Option<&str>,
        core: &str,
        program: &str,
        arguments: &[String],
        log: &Path,
        input: Stdio,
    ) -> Result<Self, String> {
        let file = fs::File::create(log).map_err(|e| format!("{}: {e}", log.display()))?;
        let copy = file.try_clone().map_err(|e| e.to_string())?;
        let mut command = Command::new("setpriv");
        if let Some(user) = user {
            let group = format!("--regid={user}");
            command.args([&format!("--reuid={user}"), &group, "--clear-groups"]);
        }
        let child = command
            .args(["--pdeathsig", "TERM", "taskset", "-c", core, program])
            .args(arguments)
            .stdin(input)
            .stdout(file)
            .stderr(copy)
            // Ctrl-C is for whoever started it, who then ends it.
            .process_group(0)
            .spawn()
            .map_err(|e| format!("cannot start {program}: {e}"))?;
        Ok(Self { child })
    }

    /// The same with a lower claim on the core than its neighbours there.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub fn start_nice(
        core: &str,
        program: &str,
        arguments: &[String],
        log: &Path,
    ) -> Result<Self, String> {
        let mut words = vec!["-n".to_owned(), "19".to_owned(), program.to_owned()];
        words.extend_from_slice(arguments);
        Self::start(core, "nice", &words, log)
    }

    /// The process's id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// It and its descendants, where it is still there.
    fn watcher(&self) -> Option<Watcher> {
        Watcher::new(&[self.id()]).ok()
    }

    /// Its memory and that of its descendants, in bytes: shared pages count in
    /// parts, so that each counts once.
    pub fn memory_bytes(&self) -> u64 {
        let sample = self.watcher().map(|mut watcher| watcher.sample());
        sample.map_or(0, |sample| sample.memory_bytes())
    }

    /// Begins to take its CPU time, and that of its descendants.
    pub fn stretch(&self) -> Stretch {
        let mut watcher = self.watcher();
        let begun = Instant::now();
        let before = watcher.as_mut().map(Watcher::sample_light);
        Stretch {
            watcher,
            begun,
            before: before.unwrap_or_default(),
        }
    }

    /// Its CPU time in each of so many seconds, in microseconds a second.
    pub fn cpu_us_per_s(&self, seconds: usize) -> Vec<f64> {
        (0..seconds)
            .map(|_| {
                let stretch = self.stretch();
                std::thread::sleep(Duration::from_secs(1));
                let (spent_ns, elapsed_s) = stretch.end();
                spent_ns as f64 / 1_000.0 / elapsed_s
            })
            .collect()
    }

    /// Open files of the one of them that has the most.
    pub fn open_files(&self) -> usize {
        let count = |id| fs::read_dir(format!("/proc/{id}/fd")).map_or(0, Iterator::count);
        self.members().into_iter().map(count).max().unwrap_or(0)
    }

    /// It and its descendants that are alive.
    pub(crate) fn members(&self) -> Vec<u32> {
        self.watcher().map_or_else(Vec::new, |all| all.members())
    }

    /// Asks it to end in order, as from the keyboard.
    pub fn interrupt(&mut self) {
        self.signal("INT");
    }

    /// Sends it a signal of that name, if it still runs; whether it does. Once its end was seen its
    /// id may be another process's.
    pub fn signal(&mut self, name: &str) -> bool {
        let is_running = self.is_running();
        if is_running {
            let _ = Command::new("kill")
                .args(["-s", name, &self.id().to_string()])
                .status();
        }
        is_running
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// # Errors
    /// That it has ended.
    pub fn must_run(&mut self, name: &str) -> Result<(), String> {
        if self.is_running() {
            Ok(())
        } else {
            Err(format!("{name} has ended"))
        }
    }

    /// Waits for the end, at most so long; `None` when it did not come.
    pub fn wait(&mut self, limit: Duration) -> Option<i32> {
        let until = Instant::now() + limit;
        while Instant::now() < until {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status.code().unwrap_or(-1));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }
}

/// A stretch of a process's time.
#[derive(Debug)]
pub struct Stretch {
    watcher: Option<Watcher>,
    begun: Instant,
    before: Sample,
}

impl Stretch {
    /// CPU time in nanoseconds and time on the clock in seconds since it began.
    pub fn end(mut self) -> (u64, f64) {
        let after = self.watcher.as_mut().map(Watcher::sample_light);
        let spent_ns = after.map_or(0, |after| after.cpu_since_ns(&self.before));
        (spent_ns, self.begun.elapsed().as_secs_f64())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.signal("TERM") && self.wait(Duration::from_secs(10)).is_none() {
            for member in self.members() {
                let _ = Command::new("kill")
                    .args(["-KILL", &member.to_string()])
                    .status();
            }
        }
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_where_they_are() {
        assert!(is_there("sh"));
        assert!(!is_there("signet-no-such-program"));
    }

    #[test]
    fn a_process_whose_end_was_seen_is_sent_nothing() {
        const LIMIT: Duration = Duration::from_secs(20);
        let log = std::env::temp_dir().join(format!("signet-signal-{}", std::process::id()));
        let mut ended = Process::start(SERVER_CORE, "true", &[], &log).unwrap();
        assert_eq!(ended.wait(LIMIT), Some(0));
        assert!(!ended.signal("TERM"));
        let mut running = Process::start(SERVER_CORE, "sleep", &["60".to_owned()], &log).unwrap();
        assert!(running.signal("TERM"));
        assert_eq!(running.wait(LIMIT), Some(-1));
        assert!(!running.signal("TERM"));
        fs::remove_file(&log).unwrap();
    }
}
