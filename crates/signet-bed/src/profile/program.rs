//! The verb `profile`: a window, a table, and files.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};

use super::{Ended, Options, Profiler, Target, Walk, symbols, table};
use crate::Error;

/// How many calls there were.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Calls {
    /// In the window.
    InAll(f64),
    /// A second.
    PerSecond(f64),
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// `NAME=PID` or `NAME:SYSTEM=PID` each.
    pub targets: Vec<String>,
    /// How long to look.
    pub seconds: u32,
    /// What times are divided by; none for CPU time a second.
    pub calls: Option<Calls>,
    /// Where the profile goes as JSON.
    pub json: Option<PathBuf>,
    /// Where the stacks go: a picture, or folded lines where the name ends in `.folded`.
    pub flame: Option<PathBuf>,
    /// Functions to show of each process.
    pub symbols: usize,
    /// How to look. Callers are sought where there is a `flame`.
    pub options: Options,
}

/// Looks for so many seconds, or until SIGINT or SIGTERM; gives a table, to be printed.
///
/// Call it before there are other threads: the signals must be blocked in all of them.
///
/// # Errors
/// What [`Profiler::start`] and [`super::Running::end`] say, and a file that cannot be written.
pub fn run(request: &Request) -> Result<String, Error> {
    let mut targets = Vec::new();
    for text in &request.targets {
        targets.push(Target::parse(text)?);
    }
    // Better now than after the window.
    for path in [&request.json, &request.flame].into_iter().flatten() {
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .map_err(|error| unwritable(path, &error))?;
    }
    let mut options = request.options.clone();
    if request.flame.is_some() && options.walk == Walk::None {
        options.walk = Walk::Tables;
    }
    let stopped = signals()?;
    let running = Profiler::start(&targets, options)?;
    let _ = stopped.recv_timeout(Duration::from_secs(u64::from(request.seconds)));
    let Ended { profile, stacks } = running.end()?;
    let profile = match request.calls {
        Some(Calls::InAll(calls)) => profile.with_calls(calls),
        Some(Calls::PerSecond(calls)) => profile.with_calls_per_s(calls),
        None => profile,
    };
    if let Some(path) = &request.json {
        let text = serde_json::to_string_pretty(&profile).map_err(|error| {
            Error::new(
                format!("the profile cannot be written as JSON: {error}"),
                "this is a fault of this program; report it",
            )
        })?;
        write(path, &format!("{text}\n"))?;
    }
    if let Some(path) = &request.flame {
        let Some(stacks) = stacks else {
            let why = profile.why_not_perf.as_deref().unwrap_or("no stacks");
            return Err(Error::new(
                format!("no flame graph, since it needs perf: {why}"),
                "leave --flame out or see to it that perf may be used",
            ));
        };
        let is_folded = path.extension().is_some_and(|end| end == "folded");
        let text = if is_folded {
            stacks.folded()
        } else {
            stacks.svg(&profile)
        };
        write(path, &text)?;
    }
    Ok(table(&profile) + &symbols(&profile, request.symbols))
}

/// Tells of the first signal that asks for the end.
fn signals() -> Result<mpsc::Receiver<()>, Error> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals
        .thread_block()
        .map_err(|error| Error::new(format!("cannot watch for signals: {error}"), "try again"))?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        if signals.wait().is_ok() {
            let _ = sender.send(());
        }
    });
    Ok(receiver)
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    File::create(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Error {
    Error::new(
        format!("cannot write {}: {error}", path.display()),
        "choose another file",
    )
}
