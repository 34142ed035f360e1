//! Logs: by `tracing`, to the standard error, none for a single message.

use std::io::IsTerminal;

use tracing::level_filters::LevelFilter;

use crate::config::{Log, LogFormat, LogLevel};

/// The exit code after a fault of the program itself (`EX_SOFTWARE`).
const EXIT_FAULT: i32 = 70;

/// Starts the log, which tells of broken invariants too; a second start in one process is ignored.
pub(crate) fn start(log: &Log) {
    let level = match log.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let lines = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_target(false);
    let _ = match log.format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    invariant::report_by(|broken| {
        tracing::error!("a fault of this program, please report this line: {broken}");
    });
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
