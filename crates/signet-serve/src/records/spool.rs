//! Records that wait in the data folder for a database that is away.
//!
//! What was read from the front stays in the file until all was: after a crash it is read
//! again, and the table knows by the name of each record that it has it.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::file::open_at_end;

/// Nobody but the server reads it.
const MODE: u32 = 0o600;
/// The most bytes that are read at once; no line has as many.
const READ_MAX: usize = 256 * 1024;

/// A file of lines, read from its front and written at its end.
pub(super) struct Spool {
    path: PathBuf,
    file: File,
    /// Where the first line stands that was not read.
    start: u64,
    len: u64,
    bytes_max: u64,
}

/// Lines from the front.
pub(super) struct Front {
    pub(super) lines: Vec<String>,
    /// Where those begin that follow.
    next: u64,
}

impl Spool {
    pub(super) fn open(path: PathBuf, bytes_max: u64) -> io::Result<Self> {
        let (mut file, mut len, is_cut) = open_at_end(&path, MODE)?;
        if is_cut {
            file.write_all(b"\n")?;
            len += 1;
        }
        Ok(Self {
            path,
            file,
            start: 0,
            len,
            bytes_max,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start >= self.len
    }

    /// The bytes that wait.
    pub(super) fn waiting_bytes(&self) -> u64 {
        self.len.saturating_sub(self.start)
    }

    /// Puts lines at the end, each with its own; how many found no room.
    pub(super) fn append(&mut self, lines: &[String]) -> usize {
        let mut room = self.bytes_max.saturating_sub(self.len);
        let fit = lines.iter().take_while(|line| {
            let fits = line.len() as u64 <= room;
            room = room.saturating_sub(line.len() as u64);
            fits
        });
        let fit = fit.count();
        let text: String = lines.iter().take(fit).map(String::as_str).collect();
        let written = self.file.write_all(text.as_bytes());
        if written.and_then(|()| self.file.sync_data()).is_err() {
            // A full disk: none of them, rather than a line that is cut.
            let _ = self.file.set_len(self.len);
            return lines.len();
        }
        self.len += text.len() as u64;
        lines.len() - fit
    }

    /// The first lines, at most so many.
    pub(super) fn front(&self, max: usize) -> io::Result<Front> {
        let bytes = usize::try_from(self.waiting_bytes()).unwrap_or(READ_MAX);
        let mut read = vec![0; bytes.min(READ_MAX)];
        self.file.read_exact_at(&mut read, self.start)?;
        let mut next = self.start;
        let mut lines = Vec::new();
        for line in read.split_inclusive(|byte| *byte == b'\n').take(max) {
            if line.last() != Some(&b'\n') {
                break;
            }
            next += line.len() as u64;
            lines.push(String::from_utf8_lossy(line).into_owned());
        }
        if lines.is_empty() && !read.is_empty() {
            // A line that no record has: what cannot be read is passed over.
            next += read.len() as u64;
        }
        Ok(Front { lines, next })
    }

    /// These lines wait no more. The file is emptied when none does.
    pub(super) fn advance(&mut self, front: &Front) -> io::Result<()> {
        self.start = front.next;
        if self.is_empty() {
            self.file.set_len(0)?;
            (self.start, self.len) = (0, 0);
        }
        Ok(())
    }
}
