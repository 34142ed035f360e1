//! Records that wait in the data folder for a database that is away.
//!
//! What was read from the front stays in the file until all was, or its room is wanted: after a
//! crash it is read again, and the table knows by the name of each record that it has it.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::beside;
use super::file::open_at_end;

/// Nobody but the server reads it.
const MODE: u32 = 0o600;
/// The most bytes that are read at once; no line has as many.
const READ_MAX: usize = 256 * 1024;
/// Where room could not be made, it is tried again when this part of the spool was sent since.
const PARTS: u64 = 16;
/// What follows the name of the file that is to take its place.
const NEW: &str = ".new";

/// A file of lines, read from its front and written at its end.
pub(super) struct Spool {
    path: PathBuf,
    file: File,
    /// Where the first line stands that was not read.
    start: u64,
    len: u64,
    bytes_max: u64,
    /// Whether the last line has no end: a crash has cut it. The disk may have no room for one
    /// now, and a server starts on a full disk.
    is_cut: bool,
    /// Where the first line must stand that was not read before room is made again, where that
    /// failed.
    again_at: u64,
}

/// Lines from the front.
pub(super) struct Front {
    pub(super) lines: Vec<String>,
    /// Bytes of a line that is longer than any record, which is passed over; there are no others
    /// then.
    pub(super) passed_over_bytes: u64,
    /// The bytes of all in the file.
    bytes: u64,
}

impl Spool {
    pub(super) fn open(path: PathBuf, bytes_max: u64) -> io::Result<Self> {
        // A crash has left it half written; all of it is in the file.
        let _ = std::fs::remove_file(beside(&path, NEW));
        let (file, len, is_cut) = open_at_end(&path, MODE)?;
        Ok(Self {
            path,
            file,
            start: 0,
            len,
            bytes_max,
            is_cut,
            again_at: 0,
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
        let end = if self.is_cut { "\n" } else { "" };
        let wanted = lines.iter().map(|line| line.len() as u64).sum::<u64>() + end.len() as u64;
        if wanted > self.bytes_max.saturating_sub(self.len) {
            // Where it fails there is as much room as before.
            let _ = self.make_room();
        }
        let mut room = self.bytes_max.saturating_sub(self.len + end.len() as u64);
        let fit = lines.iter().take_while(|line| {
            let fits = line.len() as u64 <= room;
            room = room.saturating_sub(line.len() as u64);
            fits
        });
        let fit = fit.count();
        if fit == 0 {
            return lines.len();
        }
        let fitting = lines.iter().take(fit).map(String::as_str);
        let text: String = std::iter::once(end).chain(fitting).collect();
        let written = self.file.write_all(text.as_bytes());
        if written.and_then(|()| self.file.sync_data()).is_err() {
            // A full disk: none of them, rather than a line that is cut.
            let _ = self.file.set_len(self.len);
            return lines.len();
        }
        self.len += text.len() as u64;
        self.is_cut = false;
        lines.len() - fit
    }

    /// The first lines, at most so many.
    pub(super) fn front(&self, max: usize) -> io::Result<Front> {
        let waiting = usize::try_from(self.waiting_bytes()).unwrap_or(READ_MAX);
        let mut read = vec![0; waiting.min(READ_MAX)];
        self.file.read_exact_at(&mut read, self.start)?;
        let mut bytes = 0;
        let mut lines = Vec::new();
        for line in read.split_inclusive(|byte| *byte == b'\n').take(max) {
            let is_whole = line.last() == Some(&b'\n');
            let is_last = bytes + line.len() as u64 == self.waiting_bytes();
            let is_over = is_whole || (self.is_cut && is_last);
            if !is_over {
                break;
            }
            bytes += line.len() as u64;
            let end = if is_whole { "" } else { "\n" };
            lines.push(String::from_utf8_lossy(line).into_owned() + end);
        }
        let mut passed_over_bytes = 0;
        if lines.is_empty() && !read.is_empty() {
            // A line that no record has: what cannot be read is passed over.
            passed_over_bytes = self.first_line_bytes()?;
            bytes = passed_over_bytes;
        }
        Ok(Front {
            lines,
            passed_over_bytes,
            bytes,
        })
    }

    /// The bytes up to the end of the first line, however long it is.
    fn first_line_bytes(&self) -> io::Result<u64> {
        let mut read = vec![0; READ_MAX];
        let mut at = self.start;
        while at < self.len {
            let piece = self.piece_at(at, &mut read)?;
            if let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
                return Ok(at - self.start + end as u64 + 1);
            }
            at += piece.len() as u64;
        }
        Ok(self.waiting_bytes())
    }

    /// These lines wait no more. The file is emptied when none does.
    pub(super) fn advance(&mut self, front: &Front) -> io::Result<()> {
        self.start += front.bytes;
        if self.is_empty() {
            self.file.set_len(0)?;
            (self.start, self.len, self.again_at) = (0, 0, 0);
            self.is_cut = false;
        }
        Ok(())
    }

    /// Takes what was read out of the file, where that is half of it or more: so no byte is copied
    /// but for one that was sent. The file is the old one, whole, until the disk has the new one, and
    /// the directory is made to say which before anything is put at its end.
    fn make_room(&mut self) -> io::Result<()> {
        if self.start == 0 || self.start < self.len / 2 || self.start < self.again_at {
            return Ok(());
        }
        self.again_at = self.start + self.bytes_max / PARTS;
        let new = beside(&self.path, NEW);
        let _ = std::fs::remove_file(&new);
        let (mut file, ..) = open_at_end(&new, MODE)?;
        let copied = self.copy_waiting(&mut file);
        let renamed = copied
            .and_then(|()| file.sync_all())
            .and_then(|()| std::fs::rename(&new, &self.path));
        if let Err(error) = renamed {
            let _ = std::fs::remove_file(&new);
            return Err(error);
        }
        self.file = file;
        self.len = self.waiting_bytes();
        (self.start, self.again_at) = (0, 0);
        match self.path.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }

    /// What stands there, as much of it as there is room for.
    fn piece_at<'r>(&self, at: u64, read: &'r mut [u8]) -> io::Result<&'r [u8]> {
        let left = usize::try_from(self.len - at).unwrap_or(usize::MAX);
        let len = left.min(read.len());
        let piece = read.get_mut(..len).unwrap_or_default();
        self.file.read_exact_at(piece, at)?;
        Ok(piece)
    }

    fn copy_waiting(&self, to: &mut File) -> io::Result<()> {
        let mut read = vec![0; READ_MAX];
        let mut at = self.start;
        while at < self.len {
            let piece = self.piece_at(at, &mut read)?;
            to.write_all(piece)?;
            at += piece.len() as u64;
        }
        Ok(())
    }
}
