//! Plays a case: a called side, a calling side, and what each received.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use crate::case::Case;
use crate::normal::{self, Names};
use crate::support::{DEADLINE, free_ports, is_taken};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Player {
    Sipp,
    Ours,
}

/// What came of a case.
pub(crate) struct Outcome {
    caller_exit: i32,
    callee_exit: i32,
    /// Normalised, call by call.
    pub(crate) caller_sent: Vec<String>,
    pub(crate) callee_sent: Vec<String>,
    /// What each counted, by the columns of its statistics file.
    pub(crate) caller_counts: Vec<(String, String)>,
    pub(crate) callee_counts: Vec<(String, String)>,
    told: String,
}

impl Outcome {
    pub(crate) fn expect_exits(&self, case: &Case) -> Result<(), String> {
        let (caller, callee) = (self.caller_exit, self.callee_exit);
        if (caller, callee) == (case.caller_exits, case.callee_exits) {
            return Ok(());
        }
        Err(format!(
            "the caller exits {caller} and the callee {callee}, not {} and {}\n{}",
            case.caller_exits, case.callee_exits, self.told
        ))
    }
}

/// A side that is running; it does not outlive the test.
struct Side {
    child: Child,
    log: PathBuf,
    errors: PathBuf,
    output: PathBuf,
    counts: PathBuf,
}

impl Drop for Side {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Side {
    fn start(
        player: Player,
        case: &Case,
        role: &str,
        folder: &Path,
        remote: Option<&str>,
        port: u16,
        options: &str,
    ) -> Self {
        let program = match player {
            Player::Sipp => "sipp",
            Player::Ours => env!("CARGO_BIN_EXE_signet-sipp"),
        };
        let log = folder.join(format!("{role}.messages"));
        let errors = folder.join(format!("{role}.errors"));
        let output = folder.join(format!("{role}.out"));
        let counts = folder.join(format!("{role}.counts"));
        let file = |path: &Path| std::fs::File::create(path).unwrap();
        let mut command = Command::new(program);
        command.args(remote);
        command
            .args([
                "-sf",
                case.path.join(role).with_extension("xml").to_str().unwrap(),
            ])
            .args(["-i", "127.0.0.1", "-p", &port.to_string()])
            .args(["-nostdin", "-trace_msg", "-message_file"])
            .arg(&log)
            .args(["-trace_err", "-error_file"])
            .arg(&errors)
            .args(["-trace_stat", "-stf"])
            .arg(&counts);
        // A scenario that says nothing else ends after one call.
        if !options.split_whitespace().any(|option| option == "-m") {
            command.args(["-m", "1"]);
        }
        let child = command
            .args(options.split_whitespace())
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(file(&output))
            .stderr(file(&folder.join(format!("{role}.err"))))
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}; scripts/tools installs sipp"));
        Self {
            child,
            log,
            errors,
            output,
            counts,
        }
    }

    fn wait(&mut self) -> Result<i32, String> {
        let until = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Ok(status.code().unwrap_or(-1));
            }
            if Instant::now() > until {
                return Err("still running at the deadline".to_owned());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The last line of the statistics, without what depends on the time. A run that
    /// ends with a fatal error has none in SIPp.
    fn counts(&self, case: &Case, exit: i32) -> Vec<(String, String)> {
        const TIMED: [&str; 5] = ["Elapsed", "CallRate", "Time", "Length", "Watchdog"];
        let text = std::fs::read_to_string(&self.counts).unwrap_or_default();
        let (Some(header), Some(last)) = (text.lines().next(), text.lines().last()) else {
            return Vec::new();
        };
        if exit == 255 {
            return Vec::new();
        }
        header
            .split(';')
            .zip(last.split(';'))
            .filter(|(name, _)| name.ends_with("(C)") && !TIMED.iter().any(|t| name.contains(t)))
            .filter(|(name, _)| !case.is_by_chance(name))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    fn told(&self) -> String {
        let read = |path: &Path| std::fs::read(path).unwrap_or_default();
        let stderr = self.output.with_extension("err");
        format!(
            "{}{}",
            String::from_utf8_lossy(&read(&self.errors)),
            String::from_utf8_lossy(&read(&stderr))
        )
    }
}

/// Plays a case once.
pub(crate) fn play(case: &Case, caller: Player, callee: Player) -> Result<Outcome, String> {
    let folder = Folder::new(case);
    // In a row, so that neither has the number behind the other's, which has a name of its own.
    let caller_port = free_ports(4);
    let callee_port = caller_port + 2;
    let fill = |options: &str| {
        format!("{options} {}", case.both).replace("CALLEE", &callee_port.to_string())
    };
    // Neither knows `-t tn` on the called side as anything else.
    let mut called = Side::start(
        callee,
        case,
        "callee",
        &folder.0,
        None,
        callee_port,
        &fill(&case.callee),
    );
    await_listener(&mut called, callee_port)?;
    let remote = format!("127.0.0.1:{callee_port}");
    let remote = case.remote.as_deref().unwrap_or(&remote);
    let mut calling = Side::start(
        caller,
        case,
        "caller",
        &folder.0,
        Some(remote),
        caller_port,
        &fill(&case.caller),
    );
    let waited = calling.wait();
    let told = |calling: &Side, called: &Side| {
        format!("caller: {}\ncallee: {}", calling.told(), called.told())
    };
    let caller_exit =
        waited.map_err(|why| format!("the caller: {why}\n{}", told(&calling, &called)))?;
    let callee_exit = called
        .wait()
        .map_err(|why| format!("the callee: {why}\n{}", told(&calling, &called)))?;
    let names = Names {
        caller_pid: calling.child.id(),
        callee_pid: called.child.id(),
        caller_port,
        callee_port,
    };
    Ok(Outcome {
        caller_exit,
        callee_exit,
        caller_sent: normal::received(&called.log, &names, case.has_copies),
        callee_sent: normal::received(&calling.log, &names, case.has_copies),
        caller_counts: calling.counts(case, caller_exit),
        callee_counts: called.counts(case, callee_exit),
        told: told(&calling, &called),
    })
}

/// Waits until somebody has the port.
fn await_listener(side: &mut Side, port: u16) -> Result<(), String> {
    let until = Instant::now() + DEADLINE;
    while !is_taken(port) {
        if let Some(status) = side.child.try_wait().unwrap() {
            return Err(format!("the callee ended: {status}\n{}", side.told()));
        }
        if Instant::now() > until {
            return Err("the callee does not listen".to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// A folder for the files of one play, with the case's injection files.
struct Folder(PathBuf);

impl Folder {
    fn new(case: &Case) -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let path = std::env::temp_dir().join(format!(
            "signet-sipp-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        ));
        std::fs::create_dir_all(&path).unwrap();
        for entry in std::fs::read_dir(&case.path).unwrap() {
            let file = entry.unwrap().path();
            if file.extension().is_some_and(|extension| extension == "csv") {
                std::fs::copy(&file, path.join(file.file_name().unwrap())).unwrap();
            }
        }
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
