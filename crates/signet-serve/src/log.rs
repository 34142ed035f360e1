//! Logs: by `tracing`, to the standard error, none for a single message.
//!
//! No thread of the server writes there but one, because a pipe or a terminal that nobody reads
//! holds up whoever does (`docs/decisions/0235-no-call-waits-for-the-log.md`).

mod queue;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;

use crate::Error;
use crate::config::{Log, LogFormat, LogLevel};

use queue::Queue;

/// How long a process that ends waits for who reads its last lines.
const LAST: Duration = Duration::from_secs(2);
/// The exit code after a fault of the program itself (`EX_SOFTWARE`).
const EXIT_FAULT: i32 = 70;

/// What changes the level of the running log.
static LEVEL: OnceLock<Handle<LevelFilter, Registry>> = OnceLock::new();

/// Lines that wait to be written.
static QUEUE: Queue = Queue::new();

/// A log that is running: what has this sees to its last lines at its end.
pub(crate) struct Running(());

impl Drop for Running {
    fn drop(&mut self) {
        QUEUE.wait_written(LAST);
    }
}

/// What the log writes its lines to.
struct Lines;

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        QUEUE.give(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts the log, which tells of broken invariants too; a second start in one process is ignored.
pub(crate) fn start(log: &Log) -> Result<Running, Error> {
    if LEVEL.get().is_none() {
        start_writing()?;
    }
    let (level, handle) = reload::Layer::new(filter(log.level));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(|| Lines)
        .with_target(false);
    let log_of = tracing_subscriber::registry().with(level);
    let started = match log.format {
        LogFormat::Text => log_of
            .with(lines.with_ansi(io::stderr().is_terminal()))
            .try_init(),
        LogFormat::Json => log_of.with(lines.json().flatten_event(true)).try_init(),
    };
    if started.is_ok() {
        let _ = LEVEL.set(handle);
    }
    invariant::report_by(|broken| {
        tracing::error!("a fault of this program, please report this line: {broken}");
    });
    Ok(Running(()))
}

/// Starts the thread that writes.
fn start_writing() -> Result<(), Error> {
    let thread = std::thread::Builder::new().name("log".to_owned());
    let started = thread.spawn(|| write_lines(&mut io::stderr()));
    started.map(drop).map_err(|error| {
        Error::new(
            format!("cannot start a thread: {error}"),
            "look at the limits of processes: ulimit -u",
        )
    })
}

fn write_lines(to: &mut impl Write) {
    loop {
        QUEUE.write_next(to, |left_out| {
            tracing::error!(
                "{left_out} lines of the log were left out here: whoever reads the standard error did not keep up, or the disk that it goes to was full"
            );
        });
    }
}

/// How many lines were left out because whoever reads them, or a disk, did not take them.
pub(crate) fn left_out() -> u64 {
    QUEUE.left_out()
}

/// Says why the process ends, on the standard error. Where a log is running it comes behind its
/// lines, and a process whose standard error nobody reads ends all the same.
pub fn say_last(why: &Error) {
    let line = format!("signet: {why}\n");
    if LEVEL.get().is_none() {
        let _ = io::stderr().write_all(line.as_bytes());
        return;
    }
    QUEUE.give(line.as_bytes());
    QUEUE.wait_written(LAST);
}

/// From which level on the running log has lines; `None` where there is none.
pub(crate) fn level() -> Option<LogLevel> {
    let held = LEVEL.get()?.with_current(|held| *held).ok()?;
    LogLevel::ALL
        .into_iter()
        .find(|level| filter(*level) == held)
}

/// Has the running log show another level and above.
pub(crate) fn set_level(level: LogLevel) -> Result<(), reload::Error> {
    match LEVEL.get() {
        Some(handle) => handle.reload(filter(level)),
        None => Ok(()),
    }
}

const fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    }
}

/// Makes a panic in any thread the end of the process. A server that lost a
/// worker would keep its sockets and answer nothing: one that is gone is
/// started again by whoever watches it, and loses nothing that was answered.
pub(crate) fn end_on_panic() {
    // The hook of the standard library would wait for who reads the standard error.
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("without a name");
        let backtrace = Backtrace::capture();
        let backtrace = match backtrace.status() {
            BacktraceStatus::Captured => format!("\n{backtrace}"),
            _ => String::new(),
        };
        end(&format!(
            "a thread panicked, which is a fault of this program: the process ends: {name}, {panic}{backtrace}"
        ))
    }));
}

/// Ends the process for a fault that leaves it unable to serve.
pub(crate) fn end_on_fault(what: &str) -> ! {
    end(&format!("{what}: the process ends"))
}

fn end(why: &str) -> ! {
    tracing::error!("{why}");
    QUEUE.wait_written(LAST);
    std::process::exit(EXIT_FAULT)
}
