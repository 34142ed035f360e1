//! The file of records: whole lines at its end, another file when it is full or the day is
//! over.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;

use crate::Error;
use crate::config::RecordFormat;
use crate::places::{self, Unwritable};

use super::beside;
use super::row::{csv_names, rfc3339};

/// Readable for a group, in which whoever bills may be.
const MODE: u32 = 0o640;
/// How long what is written may be in the kernel alone.
const SYNC: Duration = Duration::from_secs(1);
/// How long it is left alone when it could not be given another name.
const ROTATE_AGAIN: Duration = Duration::from_secs(60);
const DAY_MS: u64 = 86_400_000;

/// The file, open at its end.
pub(super) struct RecordFile {
    path: PathBuf,
    format: RecordFormat,
    rotate_bytes_max: u64,
    rotates_daily: bool,
    file: File,
    /// Its bytes; what is behind them is a line that the disk did not take whole.
    len: u64,
    /// Whether its last line has no end: a crash has cut it.
    is_cut: bool,
    /// The day of its last line, counted from 1970.
    day: u64,
    /// When it was synced, where something was written since.
    unsynced: Option<Instant>,
    /// Until when it grows, because it could not be given another name.
    grows_until: Option<Instant>,
    /// Whether it begins with another line of names than what is written now has: whoever reads
    /// it would take the fields of this version by those names.
    has_others: bool,
}

impl RecordFile {
    pub(super) fn open(
        path: PathBuf,
        format: RecordFormat,
        rotate_bytes_max: u64,
        rotates_daily: bool,
    ) -> Result<Self, Error> {
        let fail = |error: io::Error| Error::file("write call records to", &path, &error);
        // Opening a pipe would wait for who reads it, and so would writing.
        if path.exists() && !path.is_file() {
            return Err(no_file(&path));
        }
        let (file, len, is_cut) = open_at_end(&path, MODE).map_err(fail)?;
        let modified = file.metadata().and_then(|meta| meta.modified());
        let day = modified.map_or_else(|_| today(), day_of);
        let mut opened = Self {
            path,
            format,
            rotate_bytes_max,
            rotates_daily,
            file,
            len,
            is_cut,
            day,
            unsynced: None,
            grows_until: None,
            has_others: false,
        };
        opened.has_others = opened.has_other_names();
        opened.rotate_if_due();
        Ok(opened)
    }

    pub(super) fn format(&self) -> RecordFormat {
        self.format
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends whole lines, all or none.
    pub(super) fn append(&mut self, lines: &str) -> io::Result<()> {
        // Nobody could read what is written into a file that has no name any more.
        if self.file.metadata().is_ok_and(|meta| meta.nlink() == 0) {
            tracing::error!(
                "{}: somebody has removed the file of call records; another is begun",
                self.path.display()
            );
            self.reopen();
        }
        self.rotate_if_due();
        let before = match (self.len, self.format) {
            (0, RecordFormat::Csv) => csv_names(),
            _ if self.is_cut => "\n".to_owned(),
            _ => String::new(),
        };
        let text = before + lines;
        if let Err(error) = self.file.write_all(text.as_bytes()) {
            // A line that is cut would be read as another.
            let _ = self.file.set_len(self.len);
            return Err(error);
        }
        self.len += text.len() as u64;
        self.is_cut = false;
        self.day = today();
        self.unsynced.get_or_insert_with(Instant::now);
        Ok(())
    }

    /// Has the disk take what was written, if that is a while ago.
    pub(super) fn sync_now_and_then(&mut self) {
        if self.unsynced.is_some_and(|since| since.elapsed() >= SYNC) {
            self.sync();
        }
    }

    /// Has the disk take what was written.
    pub(super) fn sync(&mut self) {
        if self.unsynced.take().is_some()
            && let Err(error) = self.file.sync_data()
        {
            tracing::error!(
                "{}: the disk may not have all call records: {error}",
                self.path.display()
            );
        }
    }

    /// Opens the file by its name: somebody may have moved the one that is open.
    pub(super) fn reopen(&mut self) {
        self.sync();
        match open_at_end(&self.path, MODE) {
            Ok((file, len, is_cut)) => {
                (self.file, self.len, self.is_cut) = (file, len, is_cut);
                self.has_others = self.has_other_names();
            }
            Err(error) => tracing::error!(
                "{}: cannot be opened again; the old one stays in use: {error}",
                self.path.display()
            ),
        }
    }

    fn rotate_if_due(&mut self) {
        let is_full = self.len >= self.rotate_bytes_max;
        let is_another_day = self.rotates_daily && self.day != today();
        let may_grow = self.grows_until.is_some_and(|until| Instant::now() < until);
        if self.len == 0 || may_grow || !(is_full || is_another_day || self.has_others) {
            return;
        }
        self.begin_another();
    }

    /// Whether it begins with another line of names than what is written now has.
    fn has_other_names(&self) -> bool {
        let names = csv_names();
        let mut first = vec![0; names.len()];
        self.format == RecordFormat::Csv
            && self.len > 0
            && (self.file.read_exact_at(&mut first, 0).is_err() || first != names.as_bytes())
    }

    /// Sets the file aside, and begins another of its name.
    fn begin_another(&mut self) {
        self.sync();
        self.grows_until = None;
        if let Err(error) = self.set_aside() {
            // It grows meanwhile, which loses nothing.
            self.grows_until = Some(Instant::now() + ROTATE_AGAIN);
            tracing::error!("{}: cannot be renamed: {error}", self.path.display());
        }
        self.reopen();
    }

    /// Gives the file a name with the time, which no other has.
    fn set_aside(&self) -> io::Result<()> {
        let now = rfc3339(unix_ms(SystemTime::now())).replace(['-', ':'], "");
        for nth in 0..1_000 {
            let more = match nth {
                0 => format!(".{now}"),
                nth => format!(".{now}.{nth}"),
            };
            let aside = beside(&self.path, &more);
            // Another is never replaced: a link fails where there is one.
            match std::fs::hard_link(&self.path, &aside) {
                Ok(()) => return std::fs::remove_file(&self.path),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }
}

/// Whether records can be written to a file of this name; nothing is made for it.
pub(super) fn can_be_written(path: &Path, data: &Path) -> Result<(), Unwritable> {
    match path.metadata() {
        Ok(meta) if !meta.is_file() => Err((Errno::EINVAL, no_file(path))),
        Ok(_) => places::may_append_to(path),
        Err(_) => places::can_be_made(path, data),
    }
}

fn no_file(path: &Path) -> Error {
    Error::new(
        format!(
            "{} is no file, and call records are written to one",
            path.display()
        ),
        "name another in records.path",
    )
}

/// Opens a file to append to: with it its length, and whether its last line has no end.
pub(super) fn open_at_end(path: &Path, mode: u32) -> io::Result<(File, u64, bool)> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .read(true)
        .mode(mode)
        .open(path)?;
    let len = file.metadata()?.size();
    let mut last = [b'\n'];
    if len > 0 {
        file.read_exact_at(&mut last, len - 1)?;
    }
    Ok((file, len, last != [b'\n']))
}

fn today() -> u64 {
    day_of(SystemTime::now())
}

fn day_of(at: SystemTime) -> u64 {
    unix_ms(at) / DAY_MS
}

fn unix_ms(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
