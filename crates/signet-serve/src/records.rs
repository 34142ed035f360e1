//! Call records, from the workers to a file and to tables of databases
//! (`docs/decisions/0199-where-records-wait.md`).
//!
//! A worker puts a record into a bounded queue and goes on; what finds no room is counted. One
//! thread writes the file and passes records on to one thread for each table, each by a queue of
//! its own: neither a disk nor a database that is slow holds up a call, or the other.

mod file;
mod lines;
mod row;
mod spool;
mod table;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sip_engine::CallRecord;

use crate::Error;
use crate::config::{RecordFormat, Records};
use crate::data_dir::DataDir;
use crate::places::Unwritable;

use file::RecordFile;
use lines::Lines;
use row::Row;
use table::TableWriter;

/// Records that wait for the thread that writes; past it they are lost, and counted.
const QUEUE_MAX: usize = 16_384;
/// Lines that wait for a disk that does not take them; past it they are lost, and counted.
const PENDING_MAX: usize = 65_536;
/// Records that are written at once.
const BATCH_MAX: usize = 256;
/// How often a thread that is given nothing looks around.
const TICK: Duration = Duration::from_secs(1);
/// The shortest time between two lines of the log that records are lost.
const TOLD: Duration = Duration::from_secs(10);
/// How long the threads have to end with the process.
const END: Duration = Duration::from_secs(20);
/// How long a worker that ends, with the records of all calls that go on, waits for room.
const LAST: Duration = Duration::from_secs(8);

/// Checks the tables that a configuration names, as far as that shows without connecting.
pub(crate) fn check(config: &Records) -> Result<(), Error> {
    config
        .table
        .iter()
        .try_for_each(|of| table::checked(of).map(drop))
}

/// Whether records can be written to the file; nothing is made for it.
pub(crate) fn can_be_written(file: &Path, data: &Path) -> Result<(), Unwritable> {
    file::can_be_written(file, data)
}

/// What became of records.
#[derive(Default)]
pub(crate) struct Tally {
    /// Records that found no room on their way to the thread.
    pub(crate) lost_in_queue: AtomicU64,
    /// Records that a full disk left no room for.
    pub(crate) lost_in_file: AtomicU64,
    /// Records that found no room on their way to a table.
    pub(crate) lost_for_table: AtomicU64,
    /// Records in the file.
    pub(crate) written: AtomicU64,
    /// Records that tables have taken.
    pub(crate) added: AtomicU64,
    /// Bytes of records that wait in the data folder.
    pub(crate) spooled_bytes: AtomicU64,
}

impl Tally {
    /// Records that were lost, by where.
    pub(crate) fn lost(&self) -> [(&'static str, u64); 3] {
        [
            ("queue", &self.lost_in_queue),
            ("file", &self.lost_in_file),
            ("table", &self.lost_for_table),
        ]
        .map(|(at, count)| (at, count.load(Ordering::Relaxed)))
    }
}

/// The threads that take records, and the way to them.
pub(crate) struct Recorder {
    running: Option<Running>,
    tally: Arc<Tally>,
    told: Told,
}

struct Running {
    to: SyncSender<Box<CallRecord>>,
    reopens: Arc<AtomicBool>,
    is_ending: Ending,
    thread: JoinHandle<()>,
}

/// Whether the process ends. The records of all calls in progress then come at once, and who has
/// one may wait for room: no call is held up by that any more.
#[derive(Clone, Default)]
struct Ending(Arc<AtomicBool>);

impl Ending {
    fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn has_begun(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Gives something to a thread, at once, or while the process ends until `until`, which
    /// begins with the first that has to wait; false where there was no room for it.
    fn give<T>(&self, to: &SyncSender<T>, what: T, until: &mut Option<Instant>) -> bool {
        let mut what = what;
        loop {
            what = match to.try_send(what) {
                Ok(()) => return true,
                Err(TrySendError::Full(what)) if self.has_begun() => what,
                Err(_) => return false,
            };
            let until = *until.get_or_insert_with(|| Instant::now() + LAST);
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// What was told of losses.
struct Told {
    lost: u64,
    at: Option<Instant>,
}

/// A worker's end.
pub(crate) struct WorkerRecords {
    to: Option<SyncSender<Box<CallRecord>>>,
    tally: Arc<Tally>,
    is_ending: Ending,
    /// Until when it waits for room, once the process ends.
    until: Option<Instant>,
}

impl Recorder {
    /// Opens the file and what waits for tables, and starts the threads; none where no records
    /// are wanted.
    pub(crate) fn start(config: &Records, data: &DataDir) -> Result<Self, Error> {
        let tally = Arc::new(Tally::default());
        let running = match config.is_on() {
            true => Some(Running::start(config, data, &tally)?),
            false => None,
        };
        Ok(Self {
            running,
            tally,
            told: Told { lost: 0, at: None },
        })
    }

    /// A worker's end.
    pub(crate) fn for_worker(&self) -> WorkerRecords {
        let running = self.running.as_ref();
        WorkerRecords {
            to: running.map(|running| running.to.clone()),
            tally: self.tally.clone(),
            is_ending: running.map_or_else(Ending::default, |running| running.is_ending.clone()),
            until: None,
        }
    }

    /// What became of records.
    pub(crate) fn tally(&self) -> Arc<Tally> {
        self.tally.clone()
    }

    /// The workers are about to end, and give what goes on.
    pub(crate) fn begin_end(&self) {
        if let Some(running) = &self.running {
            running.is_ending.begin();
        }
    }

    /// Opens the file anew, soon: it may have been moved.
    pub(crate) fn reopen(&self) {
        if let Some(running) = &self.running {
            running.reopens.store(true, Ordering::Relaxed);
        }
    }

    /// Says so if records are lost: to be called every second or so.
    pub(crate) fn tell_losses(&mut self, now: Instant) {
        let lost: u64 = self.tally.lost().iter().map(|(_, count)| count).sum();
        let is_due = self.told.at.is_none_or(|at| now >= at + TOLD);
        if lost > self.told.lost && is_due {
            tracing::error!(
                "{} call records are lost: the disk or the database does not keep up; signet_call_records_lost_total says where",
                lost - self.told.lost
            );
            self.told = Told {
                lost,
                at: Some(now),
            };
        }
    }

    /// Waits until all is written, once no worker has anything more for it; not for ever.
    pub(crate) fn end(mut self) {
        self.begin_end();
        if let Some(Running { to, thread, .. }) = self.running.take() {
            drop(to);
            if !wait_for(thread, Instant::now() + END) {
                tracing::error!(
                    "call records were not all written within {} s: the disk does not answer",
                    END.as_secs()
                );
            }
        }
        self.told.at = None;
        self.tell_losses(Instant::now());
    }
}

/// Waits for a thread's end, as long as it may take; whether it has ended.
fn wait_for(thread: JoinHandle<()>, until: Instant) -> bool {
    while !thread.is_finished() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    let has_ended = thread.is_finished();
    if has_ended {
        // One that panicked has ended the process already.
        let _ = thread.join();
    }
    has_ended
}

impl Running {
    fn start(config: &Records, data: &DataDir, tally: &Arc<Tally>) -> Result<Self, Error> {
        let file = config.path.clone().map(|path| {
            RecordFile::open(
                path,
                config.format,
                config.rotate_bytes_max,
                config.rotate_daily,
            )
        });
        for (path, bytes) in table::of_no_table(config, data) {
            tracing::warn!(
                "{}: {bytes} bytes of call records wait for a table that is not configured any more: name it in [[records.table]] again, by the same url and name, or remove the file",
                path.display()
            );
        }
        let is_ending = Ending::default();
        let tables = config.table.iter().map(|table| {
            let writer = TableWriter::open(table, data, tally.clone(), is_ending.clone())?;
            Outlet::start(writer)
        });
        let (to, from) = sync_channel(QUEUE_MAX);
        let reopens = Arc::new(AtomicBool::new(false));
        let writer = FileWriter {
            from,
            reopens: reopens.clone(),
            node: node(config),
            pending: Lines::new(PENDING_MAX),
            file: file.transpose()?,
            is_failing: false,
            tables: tables.collect::<Result<_, Error>>()?,
            tally: tally.clone(),
            is_ending: is_ending.clone(),
        };
        let thread = spawn("records", move || writer.run())?;
        Ok(Self {
            to,
            reopens,
            is_ending,
            thread,
        })
    }
}

/// What this server is called in records.
fn node(config: &Records) -> String {
    let own = || nix::unistd::gethostname().ok()?.into_string().ok();
    let node = config.node.clone().or_else(own);
    node.unwrap_or_else(|| "signet".to_owned())
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

impl sip_worker::Records for WorkerRecords {
    fn give(&mut self, record: Box<CallRecord>) {
        let Some(to) = &self.to else {
            return;
        };
        if !self.is_ending.give(to, record, &mut self.until) {
            self.tally.lost_in_queue.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The way to a table's thread.
struct Outlet {
    to: SyncSender<String>,
    thread: JoinHandle<()>,
    until: Option<Instant>,
}

impl Outlet {
    fn start(writer: TableWriter) -> Result<Self, Error> {
        let (to, from) = sync_channel(QUEUE_MAX);
        let thread = spawn("records-table", move || writer.run(&from))?;
        Ok(Self {
            to,
            thread,
            until: None,
        })
    }
}

/// What writes the file and passes records on.
struct FileWriter {
    from: Receiver<Box<CallRecord>>,
    reopens: Arc<AtomicBool>,
    node: String,
    /// Lines that are not in the file yet.
    pending: Lines,
    file: Option<RecordFile>,
    is_failing: bool,
    tables: Vec<Outlet>,
    tally: Arc<Tally>,
    is_ending: Ending,
}

impl FileWriter {
    fn run(mut self) {
        // A disk that fails is tried once in a tick, and records go on to the tables meanwhile.
        let mut next_try = Instant::now();
        loop {
            let is_over = match self.from.recv_timeout(TICK) {
                Ok(first) => {
                    self.take(&first);
                    self.take_at_hand();
                    false
                }
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => true,
            };
            if self.reopens.swap(false, Ordering::Relaxed)
                && let Some(file) = &mut self.file
            {
                file.reopen();
            }
            if !self.is_failing || Instant::now() >= next_try || is_over {
                self.write();
                next_try = Instant::now() + TICK;
            }
            if is_over {
                self.end();
                return;
            }
        }
    }

    fn take_at_hand(&mut self) {
        for _ in 1..BATCH_MAX {
            match self.from.try_recv() {
                Ok(record) => self.take(&record),
                Err(_) => return,
            }
        }
    }

    fn take(&mut self, record: &CallRecord) {
        let row = Row::new(record, &self.node);
        let lost = |count: &AtomicU64| count.fetch_add(1, Ordering::Relaxed);
        let json = row.json();
        for Outlet { to, until, .. } in &mut self.tables {
            if !self.is_ending.give(to, json.clone(), until) {
                lost(&self.tally.lost_for_table);
            }
        }
        let line = match self.file.as_ref().map(RecordFile::format) {
            None => return,
            Some(RecordFormat::Jsonl) => json,
            Some(RecordFormat::Csv) => row.csv(),
        };
        if !self.pending.push(line) {
            lost(&self.tally.lost_in_file);
        }
    }

    /// Writes what waits, as far as the disk takes it.
    fn write(&mut self) {
        let Some(file) = &mut self.file else {
            return;
        };
        while let Some((text, count)) = self.pending.front(BATCH_MAX) {
            if let Err(error) = file.append(&text) {
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::error!(
                        "{}: call records are not written: {error}; make room on the disk, they wait meanwhile",
                        file.path().display()
                    );
                }
                return;
            }
            self.pending.pop(count);
            let written = &self.tally.written;
            written.fetch_add(count as u64, Ordering::Relaxed);
        }
        if std::mem::take(&mut self.is_failing) {
            tracing::info!("{}: call records are written again", file.path().display());
        }
        file.sync_now_and_then();
    }

    fn end(self) {
        if let Some(mut file) = self.file {
            file.sync();
        }
        let lost = self.pending.len() as u64;
        self.tally.lost_in_file.fetch_add(lost, Ordering::Relaxed);
        // None waits for the other.
        let tables = self.tables.into_iter();
        let threads: Vec<JoinHandle<()>> = tables.map(|of| of.thread).collect();
        let until = Instant::now() + END / 2;
        for thread in threads {
            if !wait_for(thread, until) {
                tracing::error!(
                    "call records for a table may be lost: it, or the disk of the data folder, does not answer"
                );
            }
        }
    }
}

/// The path of a file beside another, with something behind its name.
fn beside(path: &Path, more: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(more);
    path.with_file_name(name)
}
