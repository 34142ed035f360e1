//! The program `perf`: started, held until the word, ended, and read.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::sample::Samples;
use super::tally::Tally;
use crate::Error;

/// How long `perf` may take to say that it counts: it looks at every thread first.
const READY_MAX: Duration = Duration::from_secs(30);
/// How long it may take to write its file.
const WRITTEN_MAX: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// What it may write.
const DATA_MAX: &str = "1G";
/// How often perf is started where a process has gone meanwhile, and how it says that.
const STARTS: u32 = 5;
const GONE: &str = "No such process";
/// How much of its complaint is told.
const COMPLAINT_BYTES_MAX: usize = 600;
/// How much of the stack is copied with a sample: what lies deeper has no callers.
const STACK_BYTES: u32 = 16_384;

const TERMINATED: i32 = Signal::SIGTERM as i32;

/// How callers are found for a flame graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Walk {
    /// Not at all: the innermost function is enough for components.
    #[default]
    None,
    /// By the tables that compilers write for exceptions and debuggers. The kernel copies the
    /// stack of each sample, so that it costs more.
    Tables,
    /// By frame pointers, for programs that were built with them.
    FramePointers,
}

/// A `perf record` that runs.
#[derive(Debug)]
pub(crate) struct Recording {
    folder: Folder,
    child: Child,
    /// What it waits for runs until this is closed: so it ends with us in any case.
    input: Option<ChildStdin>,
    to_perf: File,
    from_perf: File,
}

/// How the name of such a folder begins; the id of this process and a number follow.
pub(crate) const FOLDER: &str = "signet-profile-";

/// A folder of our own that goes when this does.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Error> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{FOLDER}{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|error| {
                Error::new(
                    format!("cannot make {}: {error}", path.display()),
                    "remove what has that name, or set TMPDIR to a folder that can be written to",
                )
            })?;
        Ok(Self(path))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A pipe with a name, open at both ends, so that neither opening nor writing waits.
    fn pipe(&self, name: &str) -> Result<File, Error> {
        let path = self.file(name);
        mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR)
            .map_err(std::io::Error::from)
            .and_then(|()| {
                OpenOptions::new()
                    .read(true)
                    .write(true)
                    .custom_flags(OFlag::O_NONBLOCK.bits())
                    .open(&path)
            })
            .map_err(|error| {
                Error::new(
                    format!("cannot make {}: {error}", path.display()),
                    "set TMPDIR to a folder on a local disk",
                )
            })
    }

    fn complaint(&self) -> String {
        let text = fs::read(self.file("stderr")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
        let joined = lines.join(" ");
        let end = (0..=COMPLAINT_BYTES_MAX.min(joined.len()))
            .rev()
            .find(|&end| joined.is_char_boundary(end));
        joined.get(..end.unwrap_or(0)).unwrap_or("").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// `perf` with nobody's settings but ours and numbers as programs write them.
fn perf(program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env("PERF_CONFIG", "/dev/null")
        .env("LC_ALL", "C")
        // A key on the terminal is for us: what was sampled so far is to be told.
        .process_group(0);
    command
}

impl Recording {
    /// Starts `perf record` for these processes and waits until it counts.
    ///
    /// # Errors
    /// `perf` is not there, may not be used, or does not begin.
    pub(crate) fn start(
        program: &Path,
        pids: &[u32],
        frequency_hz: u32,
        walk: Walk,
    ) -> Result<Self, Error> {
        if let Some(error) = refusal() {
            return Err(error);
        }
        let mut left = STARTS;
        loop {
            // Children and threads come and go, and perf begins with none where one has gone.
            let is_there = |pid: &u32| Path::new("/proc").join(pid.to_string()).exists();
            let there: Vec<u32> = pids.iter().copied().filter(is_there).collect();
            let looked_at = if there.is_empty() {
                pids
            } else {
                there.as_slice()
            };
            left -= 1;
            match Self::begin(program, looked_at, frequency_hz, walk) {
                Err(error) if left > 0 && error.to_string().contains(GONE) => {}
                begun => return begun,
            }
        }
    }

    fn begin(program: &Path, pids: &[u32], frequency_hz: u32, walk: Walk) -> Result<Self, Error> {
        let folder = Folder::new()?;
        let to_perf = folder.pipe("to")?;
        let from_perf = folder.pipe("from")?;
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        let (to, from) = (folder.file("to"), folder.file("from"));
        let control = format!("fifo:{},{}", to.display(), from.display());
        let mut command = perf(program);
        command
            .args(["record", "-N", "-B", "-F", &frequency_hz.to_string()])
            .args(event(walk))
            .args(["--max-size", DATA_MAX])
            .args(["-D", "-1", "--control", &control, "-p", &pids.join(",")])
            .arg("-o")
            .arg(folder.file("data"))
            .args(["--", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(private(&folder.file("stderr"))?);
        let mut child = command
            .spawn()
            .map_err(|error| not_started(program, &error))?;
        let mut recording = Self {
            folder,
            input: child.stdin.take(),
            child,
            to_perf,
            from_perf,
        };
        recording.tell("enable", READY_MAX)?;
        Ok(recording)
    }

    /// Says a word to `perf` and waits until it has done so.
    fn tell(&mut self, word: &str, limit: Duration) -> Result<(), Error> {
        let asked = writeln!(self.to_perf, "{word}");
        asked.map_err(|error| self.failed(&format!("cannot be told anything: {error}")))?;
        let until = Instant::now() + limit;
        let mut heard = Vec::new();
        let mut buffer = [0_u8; 64];
        while Instant::now() < until {
            if let Ok(count) = self.from_perf.read(&mut buffer) {
                heard.extend_from_slice(buffer.get(..count).unwrap_or(&[]));
            }
            if heard.windows(3).any(|window| window == b"ack") {
                return Ok(());
            }
            if let Ok(Some(_)) = self.child.try_wait() {
                return Err(self.failed("has ended"));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Err(self.failed(&format!("did not {word} within {} s", limit.as_secs())))
    }

    fn failed(&self, what: &str) -> Error {
        let complaint = self.folder.complaint();
        Error::new(
            if complaint.is_empty() {
                format!("perf {what}")
            } else {
                format!("perf {what} ({complaint})")
            },
            "look whether the processes still run and are yours; as root perf may look at all of them",
        )
    }

    /// Stops counting: what happens from now on is in no sample.
    ///
    /// # Errors
    /// `perf` does not answer.
    pub(crate) fn stop(&mut self) -> Result<(), Error> {
        let told = self.tell("disable", READY_MAX);
        // It ends by itself when all that it looks at has ended; how, is asked later.
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return Ok(());
        }
        told
    }

    /// Ends `perf` and counts what it sampled.
    ///
    /// # Errors
    /// `perf` failed to write its file or to read it.
    pub(crate) fn read(mut self, program: &Path, tally: &mut Tally<'_>) -> Result<u64, Error> {
        drop(self.input.take());
        let status = wait(&mut self.child, WRITTEN_MAX);
        // Where it ends by itself it ends what it waits for, and then as that did.
        let is_written =
            status.is_some_and(|status| status.success() || status.signal() == Some(TERMINATED));
        if !is_written {
            return Err(self.failed("failed to write what it sampled"));
        }
        let data = self.folder.file("data");
        let mut command = perf(program);
        command
            .args(["script", "--no-inline", "-F"])
            .arg("comm,tid,pid,time,period,ip,sym,dso")
            .arg("-i")
            .arg(&data)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(private(&self.folder.file("stderr"))?);
        let mut script = command
            .spawn()
            .map_err(|error| not_started(program, &error))?;
        let mut read = Ok(0);
        if let Some(output) = script.stdout.take() {
            read = count(BufReader::new(output), tally);
        }
        let status = wait(&mut script, WRITTEN_MAX);
        match (read, status.is_some_and(|status| status.success())) {
            (Ok(odd_lines), true) => Ok(odd_lines),
            (Err(error), _) => Err(self.failed(&format!("script cannot be read: {error}"))),
            (Ok(_), false) => Err(self.failed("script failed")),
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        drop(self.input.take());
        wait(&mut self.child, Duration::from_secs(2));
    }
}

fn count(output: impl std::io::BufRead, tally: &mut Tally<'_>) -> Result<u64, std::io::Error> {
    let mut samples = Samples::new(output);
    while let Some(sample) = samples.next()? {
        tally.add(&sample);
    }
    Ok(samples.odd_lines)
}

/// Waits for the end, and brings it about where it does not come.
fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let until = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < until => std::thread::sleep(LOOK_EVERY),
            _ => break,
        }
    }
    let _ = child.kill();
    child.wait().ok()
}

/// The kernel's timer, by each thread's own CPU time. A frame is asked for in any case: so
/// `perf script` tells where in its file a sample is, and not only in memory.
fn event(walk: Walk) -> Vec<String> {
    let words: &[&str] = match walk {
        Walk::None => &["-e", "cpu-clock/call-graph=fp,max-stack=1/"],
        // As a term of the event, perf 6.1 records the stack and does not walk it.
        Walk::FramePointers => &["-e", "cpu-clock", "--call-graph", "fp"],
        Walk::Tables => &["-e", "cpu-clock", "--call-graph"],
    };
    let mut words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    if walk == Walk::Tables {
        words.push(format!("dwarf,{STACK_BYTES}"));
    }
    words
}

fn private(path: &Path) -> Result<File, Error> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| {
            Error::new(
                format!("cannot write {}: {error}", path.display()),
                "set TMPDIR to a folder that has room",
            )
        })
}

fn not_started(program: &Path, error: &std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::NotFound {
        Error::new(
            format!("{} is not installed", program.display()),
            "install it (Debian: apt-get install linux-perf)",
        )
    } else {
        Error::new(
            format!("cannot start {}: {error}", program.display()),
            "look at its permissions",
        )
    }
}

/// The most samples a second that the kernel takes now.
pub(crate) fn frequency_max_hz() -> Option<u32> {
    let text = fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate").ok()?;
    text.trim().parse().ok()
}

/// Why this user may not sample the kernel's part of a process, if so.
fn refusal() -> Option<Error> {
    let read = |path| fs::read_to_string(path).ok();
    let paranoid = read("/proc/sys/kernel/perf_event_paranoid");
    let status = read("/proc/self/status").unwrap_or_default();
    refused(paranoid.as_deref(), &status)
}

fn refused(paranoid: Option<&str>, status: &str) -> Option<Error> {
    const CAP_SYS_ADMIN: u32 = 21;
    const CAP_PERFMON: u32 = 38;
    /// The highest with which the kernel's part may be sampled by anybody.
    const PARANOID_MAX: i32 = 1;
    let Some(paranoid) = paranoid else {
        return Some(Error::new(
            "this kernel has no performance events",
            "use a kernel with CONFIG_PERF_EVENTS",
        ));
    };
    let level: i32 = paranoid.trim().parse().unwrap_or(0);
    let capabilities = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|text| u64::from_str_radix(text.trim(), 16).ok())
        .unwrap_or(0);
    let has = |capability: u32| (capabilities >> capability) & 1 == 1;
    let may = level <= PARANOID_MAX || has(CAP_SYS_ADMIN) || has(CAP_PERFMON);
    (!may).then(|| {
        Error::new(
            format!("perf may not be used by this user (kernel.perf_event_paranoid is {level})"),
            "run as root, or type: sudo sysctl kernel.perf_event_paranoid=1",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_use_perf() {
        let root = "Name:\tx\nCapEff:\t000001ffffffffff\n";
        let nobody = "Name:\tx\nCapEff:\t0000000000000000\n";
        let perfmon = "CapEff:\t0000004000000000\n";
        assert!(refused(Some("2\n"), root).is_none());
        assert!(refused(Some("3\n"), perfmon).is_none());
        assert!(refused(Some("1\n"), nobody).is_none());
        assert!(refused(Some("-1\n"), "").is_none());
        let error = refused(Some("2\n"), nobody).unwrap().to_string();
        assert!(
            error.contains("sysctl kernel.perf_event_paranoid=1"),
            "{error}"
        );
        assert!(refused(None, root).is_some());
    }

    #[test]
    fn a_missing_perf_says_how_to_get_it() {
        let program = Path::new("/nowhere/perf");
        let error = Command::new(program).spawn().unwrap_err();
        let told = not_started(program, &error).to_string();
        assert!(told.contains("linux-perf"), "{told}");
    }

    #[test]
    fn a_folder_goes_with_its_value() {
        let folder = Folder::new().unwrap();
        let path = folder.0.clone();
        fs::write(folder.file("stderr"), "  one\n\n two \u{e4}\n").unwrap();
        assert_eq!(folder.complaint(), "one two \u{e4}");
        fs::write(folder.file("stderr"), "\u{e4}".repeat(1_000)).unwrap();
        assert!(folder.complaint().len() <= COMPLAINT_BYTES_MAX);
        drop(folder);
        assert!(!path.exists());
    }
}
