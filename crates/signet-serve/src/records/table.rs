//! One table that records are added to: in batches, and by way of the spool while the database
//! is away.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use sip_userdb::{Layout, Options, Table, Tls};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use crate::Error;
use crate::config::{RecordTable, Records, StoreTls};
use crate::data_dir::DataDir;
use crate::userdb::{secret_of, store_error};

use super::row::{COLUMNS, values_of};
use super::spool::Spool;
use super::{Ending, TICK, Tally};

/// Rows of one statement.
const ROWS_MAX: usize = 64;
/// Records that are taken out of the queue at once: so many the disk of the spool is made to
/// take together.
const TAKEN_MAX: usize = 4_096;
/// How long a database is given what waits when the process ends; the spool keeps the rest.
const END: Duration = Duration::from_secs(3);
/// How long a connection may take to be made.
const CONNECT_TIMEOUT_MS: u64 = 3_000;
/// How long a statement may take, the connection included.
const STATEMENT: Duration = Duration::from_secs(5);
/// The same when the process ends.
const LAST_STATEMENT: Duration = Duration::from_secs(2);
/// How long a database that is away is left alone, at first and at most.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// What adds records to a table.
pub(super) struct TableWriter {
    name: String,
    options: Options,
    spool: Spool,
    tally: Arc<Tally>,
    is_ending: Ending,
    /// What this spool has in the sum of all.
    told_bytes: u64,
}

/// The database, or since when it is away.
struct Database {
    table: Table,
    runtime: Runtime,
    local: LocalSet,
    is_away: bool,
    next_try: Instant,
    wait: Duration,
}

impl TableWriter {
    /// Reads the password and opens what waits from before. Nothing is connected yet.
    pub(super) fn open(
        config: &RecordTable,
        data: &DataDir,
        tally: Arc<Tally>,
        is_ending: Ending,
    ) -> Result<Self, Error> {
        let options = checked(config)?;
        let path = data.file(&spool_name(&config.url.0, &config.name));
        let spool = Spool::open(path.clone(), config.spool_bytes_max)
            .map_err(|error| Error::file("write call records to", &path, &error))?;
        Ok(Self {
            name: config.name.clone(),
            options,
            spool,
            tally,
            is_ending,
            told_bytes: 0,
        })
    }

    /// Adds what comes until nothing more will.
    pub(super) fn run(mut self, from: &Receiver<String>) {
        let mut database = match Database::new(&self.options, &self.name) {
            Ok(database) => database,
            Err(error) => {
                tracing::error!("call records are not added to {}: {error}", self.name);
                return;
            }
        };
        loop {
            let (lines, is_over) = gather(from);
            self.take(lines, &mut database);
            if is_over {
                return self.end(database);
            }
            if !self.spool.is_empty() && Instant::now() >= database.next_try {
                self.send_spooled(from, &mut database);
            }
            self.tell_spooled();
        }
    }

    /// Adds lines or, behind those that wait, has them wait.
    fn take(&mut self, lines: Vec<String>, database: &mut Database) {
        let may_answer = !database.is_away || Instant::now() >= database.next_try;
        let mut rest = lines.as_slice();
        if self.spool.is_empty() && may_answer {
            let until = Instant::now() + END;
            for now in lines.chunks(ROWS_MAX) {
                let is_ending = self.is_ending.has_begun();
                let limit = if is_ending { LAST_STATEMENT } else { STATEMENT };
                let is_late = is_ending && Instant::now() >= until;
                if is_late || !self.add(now, database, limit) {
                    break;
                }
                rest = rest.get(now.len()..).unwrap_or_default();
            }
        }
        if rest.is_empty() {
            return;
        }
        let lost = self.spool.append(rest);
        if lost > 0 {
            let count = &self.tally.lost_for_table;
            count.fetch_add(lost as u64, Ordering::Relaxed);
        }
    }

    /// Sends what waits; what comes meanwhile waits behind it.
    fn send_spooled(&mut self, from: &Receiver<String>, database: &mut Database) {
        // At the end its time is bounded.
        while !self.spool.is_empty() && !self.is_ending.has_begun() {
            match self.send_front(database, STATEMENT) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.spool_fails(&error, database),
            }
            let came: Vec<String> = from.try_iter().take(TAKEN_MAX).collect();
            self.take(came, database);
            self.tell_spooled();
        }
    }

    /// Sends the first of what waits; false where the database did not take it.
    fn send_front(&mut self, database: &mut Database, limit: Duration) -> io::Result<bool> {
        let front = self.spool.front(ROWS_MAX)?;
        if !self.add(&front.lines, database, limit) {
            return Ok(false);
        }
        self.spool.advance(&front)?;
        if front.passed_over_bytes > 0 {
            // How many records were there nobody can say.
            self.tally.lost_for_table.fetch_add(1, Ordering::Relaxed);
            tracing::error!(
                "{}: {} bytes without an end of a line are no call record, and are passed over",
                self.spool.path().display(),
                front.passed_over_bytes
            );
        }
        Ok(true)
    }

    fn spool_fails(&self, error: &io::Error, database: &mut Database) {
        let path = self.spool.path().display();
        tracing::error!("{path}: call records that wait cannot be read: {error}");
        database.next_try = Instant::now() + RETRY_MAX;
    }

    /// Adds lines by one statement; false where the database did not take them, which is told
    /// once.
    fn add(&self, lines: &[String], database: &mut Database, limit: Duration) -> bool {
        let rows: Vec<Vec<String>> = lines.iter().filter_map(|line| values_of(line)).collect();
        let unread = lines.len() - rows.len();
        if !rows.is_empty() {
            match database.add(&rows, limit) {
                Ok(()) => database.answers(&self.name),
                Err(error) => {
                    database.fails(&self.name, &error);
                    return false;
                }
            }
        }
        let (added, lost) = (&self.tally.added, &self.tally.lost_for_table);
        added.fetch_add(rows.len() as u64, Ordering::Relaxed);
        // A crash has cut them.
        lost.fetch_add(unread as u64, Ordering::Relaxed);
        true
    }

    /// The process ends: what waits is added, or waits for the next start.
    fn end(mut self, mut database: Database) {
        let until = Instant::now() + END;
        while !self.spool.is_empty() && !database.is_away && Instant::now() < until {
            if !matches!(self.send_front(&mut database, LAST_STATEMENT), Ok(true)) {
                return;
            }
        }
    }

    fn tell_spooled(&mut self) {
        let bytes = self.spool.waiting_bytes();
        let sum = &self.tally.spooled_bytes;
        sum.fetch_add(bytes, Ordering::Relaxed);
        sum.fetch_sub(self.told_bytes, Ordering::Relaxed);
        self.told_bytes = bytes;
    }
}

impl Database {
    fn new(options: &Options, name: &str) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| {
                Error::new(
                    format!("the database cannot be asked: {error}"),
                    "look at the limits of open files: ulimit -n",
                )
            })?;
        Ok(Self {
            table: table(options, name)?,
            runtime,
            local: LocalSet::new(),
            is_away: false,
            next_try: Instant::now(),
            wait: RETRY_MIN,
        })
    }

    fn add(&mut self, rows: &[Vec<String>], limit: Duration) -> Result<(), Error> {
        let Self {
            table,
            runtime,
            local,
            ..
        } = self;
        let add = async { tokio::time::timeout(limit, table.add(rows)).await };
        match local.block_on(runtime, add) {
            Ok(done) => done.map_err(|error| store_error(&error)),
            Err(_) => Err(Error::new(
                format!("the database did not answer within {} s", limit.as_secs()),
                "see how much it has to do",
            )),
        }
    }

    fn answers(&mut self, name: &str) {
        if std::mem::take(&mut self.is_away) {
            tracing::info!("call records are added to {name} again");
        }
        self.wait = RETRY_MIN;
        self.next_try = Instant::now();
    }

    fn fails(&mut self, name: &str, error: &Error) {
        if !std::mem::replace(&mut self.is_away, true) {
            tracing::error!("call records are not added to {name}, they wait: {error}");
        }
        self.next_try = Instant::now() + self.wait;
        self.wait = (self.wait * 2).min(RETRY_MAX);
    }
}

/// How the database is reached. What is wrong with it is to be known before anything is served.
pub(super) fn checked(config: &RecordTable) -> Result<Options, Error> {
    let password = secret_of(
        &format!("the password of the call records' table {}", config.name),
        "records.table",
        config.password_file.as_deref(),
        config.password_env.as_deref(),
    )?;
    let options = Options {
        url: config.url.0.clone(),
        password,
        tls: match config.tls {
            StoreTls::Auto => Tls::Auto,
            StoreTls::Always => Tls::Always,
            StoreTls::Never => Tls::Never,
        },
        tls_roots: config.tls_roots.clone(),
        layout: Layout::Signet,
        algorithms: None,
        wanted: None,
        connections_max: 1,
        connect_timeout_ms: CONNECT_TIMEOUT_MS,
    };
    table(&options, &config.name)?;
    Ok(options)
}

fn table(options: &Options, name: &str) -> Result<Table, Error> {
    let columns: Vec<_> = COLUMNS.iter().map(|of| (of.name, of.kind)).collect();
    Table::new(options, name, &columns).map_err(|error| store_error(&error))
}

/// What has come, waiting for the first; and whether nothing more will.
fn gather(from: &Receiver<String>) -> (Vec<String>, bool) {
    match from.recv_timeout(TICK) {
        Ok(first) => {
            let more = from.try_iter().take(TAKEN_MAX - 1);
            (std::iter::once(first).chain(more).collect(), false)
        }
        Err(RecvTimeoutError::Timeout) => (Vec::new(), false),
        Err(RecvTimeoutError::Disconnected) => (Vec::new(), true),
    }
}

/// Files in which records wait for tables that are configured no more, and their bytes: nobody
/// sends them.
pub(super) fn of_no_table(config: &Records, data: &DataDir) -> Vec<(PathBuf, u64)> {
    let own: Vec<String> = (config.table.iter())
        .map(|table| spool_name(&table.url.0, &table.name))
        .collect();
    let Ok(entries) = std::fs::read_dir(data.path()) else {
        return Vec::new();
    };
    let found = entries.flatten().filter_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_spool = name.starts_with("records-") && name.ends_with(".spool");
        let bytes = entry.metadata().map_or(0, |meta| meta.len());
        (is_spool && bytes > 0 && !own.contains(&name)).then(|| (entry.path(), bytes))
    });
    found.collect()
}

/// The file of a table, the same at each start: by a hash (FNV-1a) of what it is.
fn spool_name(url: &str, table: &str) -> String {
    let bytes = url.bytes().chain([0]).chain(table.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("records-{hash:016x}.spool")
}
