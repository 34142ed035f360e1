//! The verb `delay`: signals, commands on the standard input, and reports.

use std::io::{BufRead, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use nix::sys::signal::{SigSet, Signal};

use crate::Error;
use crate::command::RelayCommand;
use crate::counts::Report;
use crate::relay::{Handle, Occasion, Relay};
use crate::settings::DelaySettings;

/// Longer lines are no commands.
const LINE_BYTES_MAX: u64 = 4_096;

/// Where reports go.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// A file that has the last report at any time; besides the standard output.
    pub report: Option<PathBuf>,
}

/// Relays until SIGTERM, SIGINT, the end of the standard input, or the end of its time, and
/// prints a report as one line of JSON at SIGUSR1; gives the last one, to be printed.
///
/// The standard input ends it, and is read for commands, only where it is a pipe, a socket or
/// a terminal: a program that was started with /dev/null has nobody at the other end. Call it
/// before there are other threads: the signals must be blocked in all of them.
///
/// # Errors
/// What [`Relay::bind`] and [`Relay::run`] say, and a file that cannot be written.
pub fn delay(settings: &DelaySettings, output: &Output) -> Result<String, Error> {
    let relay = Relay::bind(settings)?;
    if let Some(path) = &output.report {
        // Better now than after an hour.
        write_file(path, "")?;
    }
    watch_signals(relay.handle())?;
    watch_input(relay.handle());
    say(&format!(
        "{} from {} to {}, {} ms there and back",
        match settings.transport {
            crate::Transport::Tcp => "TCP",
            crate::Transport::Udp => "UDP",
        },
        relay.local_addr(),
        settings.to,
        settings.conditions.rtt_ns as f64 / 1e6
    ));
    let last = relay.run(|report, occasion| {
        // A report at its time goes to the file, where there is one, and nobody is told.
        let aloud = occasion == Occasion::Asked || output.report.is_none();
        let told = line(report).and_then(|line| {
            if aloud {
                measure::stdout::print(&line).unwrap_or_else(|error| say(&error));
            }
            keep(&line, output)
        });
        told.unwrap_or_else(|error| say(&error.to_string()));
    })?;
    let line = line(&last)?;
    if let Err(error) = keep(&line, output) {
        // Then it is told here alone.
        measure::stdout::print(&line).unwrap_or_else(|error| say(&error));
        return Err(error);
    }
    Ok(line)
}

/// A report as a line.
fn line(report: &Report) -> Result<String, Error> {
    let text = serde_json::to_string(report).map_err(|error| {
        Error::new(
            format!("the report cannot be written as JSON: {error}"),
            "this is a fault of this program; report it",
        )
    })?;
    Ok(text + "\n")
}

/// Writes a report to its file, where there is one.
fn keep(line: &str, output: &Output) -> Result<(), Error> {
    match &output.report {
        Some(path) => write_file(path, line),
        None => Ok(()),
    }
}

fn write_file(path: &Path, text: &str) -> Result<(), Error> {
    measure::file::replace(path, text.as_bytes()).map_err(|error| {
        let what = format!("cannot write {}: {error}", path.display());
        Error::new(what, "choose another --report")
    })
}

fn watch_signals(handle: Handle) -> Result<(), Error> {
    let failed =
        |error: nix::Error| Error::new(format!("cannot watch for signals: {error}"), "try again");
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGUSR1] {
        signals.add(signal);
    }
    signals.thread_block().map_err(failed)?;
    std::thread::spawn(move || {
        while let Ok(signal) = signals.wait() {
            handle.send(match signal {
                Signal::SIGUSR1 => RelayCommand::Report,
                _ => RelayCommand::Stop,
            });
        }
    });
    Ok(())
}

fn watch_input(handle: Handle) {
    let is_watched = std::fs::metadata("/proc/self/fd/0").is_ok_and(|input| {
        let kind = input.file_type();
        let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stdin());
        kind.is_fifo() || kind.is_socket() || is_terminal
    });
    if !is_watched {
        return;
    }
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut line = Vec::new();
            let mut limited = std::io::Read::take(&mut input, LINE_BYTES_MAX);
            match limited.read_until(b'\n', &mut line) {
                Ok(count) if count > 0 => {}
                _ => break,
            }
            let line = String::from_utf8_lossy(&line);
            if line.trim().is_empty() {
                continue;
            }
            match RelayCommand::parse(&line) {
                Ok(command) => handle.send(command),
                Err(error) => say(&error),
            }
        }
        handle.send(RelayCommand::Stop);
    });
}

/// A line for whoever looks on.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "signet bed delay: {line}");
}
