//! Whole messages for the operator's eyes, with secrets masked: on the terminal, in a file for
//! Wireshark, and for who asks for them on the socket in the data folder (`signet trace`).
//!
//! A worker copies the bytes of what a filter lets through and goes on; threads of their own
//! mask, print and write. When one cannot keep up, messages are left out for it and their
//! number is said: no worker waits for a terminal, a disk or a client.

mod clients;
mod filter;
mod mask;
mod outlet;
mod packet;
mod pcap;
mod text;

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use sip_worker::Passing;

use crate::Error;
use crate::config::Log;
use crate::places::{self, Unwritable};

use clients::Clients;
use outlet::{Inlet, Outlet};

pub(crate) use clients::TooMany;
pub use filter::Filter;
pub(crate) use mask::blotted;
pub use mask::masked;
pub(crate) use outlet::Seen;
pub use pcap::FILE_BYTES_MAX;
pub(crate) use pcap::PcapFile;
pub(crate) use text::write as write_text;

/// Where messages go, and which.
#[derive(Clone)]
struct Sink {
    filter: Filter,
    outlet: Outlet,
}

/// What workers show messages to. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Tracer(Arc<Shared>);

struct Shared {
    /// Grows with each change of the sinks, so that a worker need not look at them.
    generation: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    filter: Filter,
    terminal: Option<Outlet>,
    file: Option<PcapOutput>,
    clients: Clients,
    sinks: Arc<[Sink]>,
}

/// The file for Wireshark, and the thread that writes it.
struct PcapOutput {
    path: PathBuf,
    bytes_max: u64,
    outlet: Outlet,
    thread: JoinHandle<()>,
}

/// What a configuration asks for, with all that could fail done.
pub(crate) struct Prepared {
    filter: Filter,
    terminal: Option<Outlet>,
    file: Option<PcapOutput>,
    keeps_file: bool,
}

impl Tracer {
    /// Begins with what the configuration asks for.
    pub(crate) fn start(log: &Log) -> Result<Self, Error> {
        let tracer = Self(Arc::new(Shared {
            generation: AtomicU64::new(1),
            state: Mutex::default(),
        }));
        tracer.take_over(tracer.prepare(log)?);
        Ok(tracer)
    }

    /// Opens what a configuration asks for and is not open yet.
    pub(crate) fn prepare(&self, log: &Log) -> Result<Prepared, Error> {
        let state = self.state();
        let terminal = match (log.trace_sip, &state.terminal) {
            (false, _) => None,
            (true, Some(running)) => Some(running.clone()),
            (true, None) => Some(terminal()?),
        };
        let is_same = |file: &&PcapOutput| {
            log.trace_pcap.as_ref() == Some(&file.path)
                && file.bytes_max == log.trace_pcap_bytes_max
                && !file.thread.is_finished()
        };
        let keeps_file = state.file.as_ref().filter(is_same).is_some();
        let file = match &log.trace_pcap {
            Some(path) if !keeps_file => Some(file(path.clone(), log.trace_pcap_bytes_max)?),
            _ => None,
        };
        Ok(Prepared {
            filter: log.trace_filter(),
            terminal,
            file,
            keeps_file,
        })
    }

    /// Goes by what was prepared.
    pub(crate) fn take_over(&self, prepared: Prepared) {
        let mut state = self.state();
        state.filter = prepared.filter;
        state.terminal = prepared.terminal;
        if !prepared.keeps_file {
            state.file = prepared.file;
        }
        self.changed(&mut state);
    }

    /// A worker's end.
    pub(crate) fn for_worker(&self) -> WorkerTracer {
        WorkerTracer {
            shared: self.clone(),
            generation: Cell::new(0),
            sinks: RefCell::default(),
        }
    }

    /// Begins to keep messages for who asks for them: the name by which he does.
    pub(crate) fn open_for(&self, filter: Filter) -> Result<u64, TooMany> {
        let mut state = self.state();
        let name = state.clients.open(filter)?;
        self.changed(&mut state);
        Ok(name)
    }

    /// What was kept for him since he last asked, and how many were left out; `None` for a
    /// name that is not there (any more).
    pub(crate) fn take_for(&self, name: u64) -> Option<(Vec<Arc<Seen>>, u64)> {
        self.state().clients.take(name)
    }

    /// He does not ask any more.
    pub(crate) fn close_for(&self, name: u64) {
        let mut state = self.state();
        state.clients.close(name);
        self.changed(&mut state);
    }

    /// Keeps nothing more for who has not asked for a while: to be called every second or so.
    pub(crate) fn sweep(&self, now: Instant) {
        let mut state = self.state();
        if state.clients.sweep(now) {
            self.changed(&mut state);
        }
    }

    /// Waits until the file is written, once no worker has anything more for it.
    pub(crate) fn end(&self) {
        let file = {
            let mut state = self.state();
            let file = state.file.take();
            self.changed(&mut state);
            file
        };
        if let Some(PcapOutput { outlet, thread, .. }) = file {
            drop(outlet);
            // One that panicked has ended the process already.
            let _ = thread.join();
        }
    }

    fn changed(&self, state: &mut State) {
        let own = state.terminal.iter();
        let own = own.chain(state.file.as_ref().map(|file| &file.outlet));
        let own = own.map(|outlet| Sink {
            filter: state.filter.clone(),
            outlet: outlet.clone(),
        });
        state.sinks = own.chain(state.clients.sinks()).collect();
        self.0.generation.fetch_add(1, Ordering::Release);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the thread that prints.
fn terminal() -> Result<Outlet, Error> {
    let (outlet, inlet) = Outlet::new();
    spawn("trace-sip", move || print_all(&inlet))?;
    Ok(outlet)
}

/// Whether a file of this name could be begun; nothing is made for it.
pub(crate) fn can_be_written(path: &Path, data: &Path) -> Result<(), Unwritable> {
    if let Err(error) = pcap::can_be_begun(path) {
        let remedy = "name another in log.trace_pcap, or move that one away";
        let told = match error.kind() {
            ErrorKind::AlreadyExists => Error::new(error.to_string(), remedy),
            _ => Error::file("read", path, &error),
        };
        return Err((Errno::EEXIST, told));
    }
    places::can_be_made(path, data)
}

/// Makes the file, and starts the thread that writes it.
fn file(path: PathBuf, bytes_max: u64) -> Result<PcapOutput, Error> {
    let made = PcapFile::create(&path, bytes_max);
    let made = made.map_err(|error| Error::file("write", &path, &error))?;
    let (outlet, inlet) = Outlet::new();
    let thread = spawn("trace-pcap", move || write_all(&inlet, made))?;
    Ok(PcapOutput {
        path,
        bytes_max,
        outlet,
        thread,
    })
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(body).map_err(|error| {
        Error::new(
            format!("cannot start a thread: {error}"),
            "look at the limits of processes: ulimit -u",
        )
    })
}

fn print_all(inlet: &Inlet) {
    let mut text = Vec::new();
    while let Some(seen) = inlet.next() {
        text.clear();
        // Written at once, so that no line of the log stands amid it. A terminal that is gone is
        // no reason to end.
        let _ = write_text(&seen, inlet.left_out(), &mut text)
            .and_then(|()| std::io::stderr().write_all(&text));
    }
}

fn write_all(inlet: &Inlet, mut file: PcapFile) {
    let written = write_until_end(inlet, &mut file);
    let path = file.path().display();
    match written {
        Ok(0) => {}
        Ok(left_out) => {
            tracing::warn!("{path}: {left_out} messages were left out at its end");
        }
        Err(error) => tracing::error!(
            "{path}: messages are not written any more: {error}; make room on the disk, then reload"
        ),
    }
}

/// Gives how many messages were left out behind the last one that was written.
fn write_until_end(inlet: &Inlet, file: &mut PcapFile) -> io::Result<u64> {
    while let Some(first) = inlet.next() {
        file.write(&first, inlet.left_out())?;
        while let Some(seen) = inlet.at_hand() {
            file.write(&seen, inlet.left_out())?;
        }
        file.flush()?;
    }
    Ok(file.left_out() + inlet.left_out())
}

/// What one worker shows messages to.
pub(crate) struct WorkerTracer {
    shared: Tracer,
    generation: Cell<u64>,
    sinks: RefCell<Arc<[Sink]>>,
}

impl sip_worker::Trace for WorkerTracer {
    fn is_on(&self) -> bool {
        let generation = self.shared.0.generation.load(Ordering::Acquire);
        if self.generation.replace(generation) != generation {
            let sinks = self.shared.state().sinks.clone();
            self.sinks.replace(sinks);
        }
        !self.sinks.borrow().is_empty()
    }

    fn message(&self, passing: &Passing<'_>) {
        let mut copy = None;
        for sink in self.sinks.borrow().iter() {
            if sink.filter.fits(passing.remote, passing.bytes) {
                let copy = copy.get_or_insert_with(|| Arc::new(Seen::new(passing, now_us())));
                sink.outlet.give(copy);
            }
        }
    }
}

/// The time in microseconds since 1970.
fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or(Duration::ZERO).as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
