//! How long what a peer has sent waits until it is read, where a turn does not read all of it.

use std::os::fd::RawFd;

use crate::sys::unread_bytes;

/// A mark at the end of what was there at one time: what comes to it has waited for as long as it
/// takes to be read.
#[derive(Debug)]
pub(super) struct Backlog {
    /// What is to be read before it.
    left_bytes: usize,
    marked_ms: u64,
    /// How long it took to come to the mark before.
    took_ms: u64,
}

impl Backlog {
    /// With a mark at the end of what is unread now.
    pub(super) fn new(fd: RawFd, now_ms: u64) -> Self {
        let mut backlog = Self {
            left_bytes: 0,
            marked_ms: now_ms,
            took_ms: 0,
        };
        backlog.mark(fd, now_ms);
        backlog
    }

    /// So many bytes were read.
    pub(super) fn read(&mut self, bytes: usize, fd: RawFd, now_ms: u64) {
        self.left_bytes = self.left_bytes.saturating_sub(bytes);
        if self.left_bytes == 0 {
            self.took_ms = now_ms.saturating_sub(self.marked_ms);
            self.mark(fd, now_ms);
        }
    }

    // What the kernel does not tell is as if nothing waited: it is asked again after the next read.
    fn mark(&mut self, fd: RawFd, now_ms: u64) {
        self.left_bytes = unread_bytes(fd).unwrap_or(0);
        self.marked_ms = now_ms;
    }

    /// How long what was read last had waited, or what is read next has waited by now.
    pub(super) fn waiting_ms(&self, now_ms: u64) -> u64 {
        self.took_ms.max(now_ms.saturating_sub(self.marked_ms))
    }
}
