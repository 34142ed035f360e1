//! Logs: by `tracing`, to the standard error, none for a single message.

use std::io::IsTerminal;
use std::sync::OnceLock;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Log, LogFormat, LogLevel};

/// The exit code after a fault of the program itself (`EX_SOFTWARE`).
const EXIT_FAULT: i32 = 70;

/// What changes the level of the running log.
static LEVEL: OnceLock<Handle<LevelFilter, Registry>> = OnceLock::new();

/// Starts the log, which tells of broken invariants too; a second start in one process is ignored.
pub(crate) fn start(log: &Log) {
    let (level, handle) = reload::Layer::new(filter(log.level));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_target(false);
    let log_of = tracing_subscriber::registry().with(level);
    let started = match log.format {
        LogFormat::Text => log_of
            .with(lines.with_ansi(std::io::stderr().is_terminal()))
            .try_init(),
        LogFormat::Json => log_of.with(lines.json().flatten_event(true)).try_init(),
    };
    if started.is_ok() {
        let _ = LEVEL.set(handle);
    }
    invariant::report_by(|broken| {
        tracing::error!("a fault of this program, please report this line: {broken}");
    });
}

/// From which level on the running log has lines; `None` where there is none.
pub(crate) fn level() -> Option<LogLevel> {
    let held = LEVEL.get()?.with_current(|held| *held).ok()?;
    LogLevel::ALL
        .into_iter()
        .find(|level| filter(*level) == held)
}

/// Has the running log from another level on.
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
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        tracing::error!("a thread panicked, which is a fault of this program: the process ends");
        std::process::exit(EXIT_FAULT);
    }));
}

/// Ends the process for a fault that leaves it unable to serve.
pub(crate) fn end_on_fault(what: &str) -> ! {
    tracing::error!("{what}: the process ends");
    std::process::exit(EXIT_FAULT)
}
