//! Lines of the log on their way to the standard error. Whoever reads that may be slow, or not
//! read at all: a thread that has a line puts it here and goes on, and one thread writes.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Lines that wait; past it they are left out.
const LINES_MAX: usize = 4_096;
/// Their bytes; past it they are left out.
const BYTES_MAX: usize = 1024 * 1024;

/// How long the thread that writes waits after a line that was not taken, as by a full disk.
const PAUSE: Duration = Duration::from_millis(100);

/// A bounded queue of lines for one thread that writes them.
pub(super) struct Queue {
    state: Mutex<State>,
    /// There is something to do for the thread that writes.
    is_due: Condvar,
    /// That thread has done something.
    is_done: Condvar,
}

struct State {
    waiting: VecDeque<Box<[u8]>>,
    waiting_bytes: usize,
    /// Whether something was taken and is not written yet.
    is_writing: bool,
    /// Lines that were left out and not told of yet.
    untold: u64,
    left_out: u64,
}

/// What is next for the thread that writes.
enum Next {
    Write(Box<[u8]>),
    /// So many lines were left out behind what is written by now.
    Tell(u64),
}

impl Queue {
    pub(super) const fn new() -> Self {
        Self {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                waiting_bytes: 0,
                is_writing: false,
                untold: 0,
                left_out: 0,
            }),
            is_due: Condvar::new(),
            is_done: Condvar::new(),
        }
    }

    /// Gives a line, or leaves it out where too much waits. It never waits for who reads.
    pub(super) fn give(&self, line: &[u8]) {
        let mut state = self.lock();
        let has_room = state.waiting.len() < LINES_MAX
            && state.waiting_bytes.saturating_add(line.len()) <= BYTES_MAX;
        // After one that was left out come others until that is told: so each gap has one place.
        if has_room && state.untold == 0 {
            state.waiting_bytes += line.len();
            state.waiting.push_back(line.into());
        } else {
            state.untold += 1;
            state.left_out += 1;
        }
        self.is_due.notify_one();
    }

    /// How many lines were left out.
    pub(super) fn left_out(&self) -> u64 {
        self.lock().left_out
    }

    /// Waits for something to write, and writes it; or has it told how many lines were left out,
    /// by a line that is given like others. What is not taken is written the next time: while a
    /// disk is full the queue fills, and what finds no room in it is counted.
    pub(super) fn write_next(&self, to: &mut impl Write, tell: impl FnOnce(u64)) {
        let left: Box<[u8]> = match self.next() {
            Next::Write(line) => left_of(to, &line).into(),
            Next::Tell(left_out) => {
                tell(left_out);
                Box::default()
            }
        };
        let is_left = !left.is_empty();
        let mut state = self.lock();
        if is_left {
            state.waiting_bytes += left.len();
            state.waiting.push_front(left);
        }
        state.is_writing = false;
        drop(state);
        self.is_done.notify_all();
        if is_left {
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits until all is written, or as long as it may take.
    pub(super) fn wait_written(&self, limit: Duration) {
        let until = Instant::now() + limit;
        let mut state = self.lock();
        while state.is_writing || state.untold > 0 || !state.waiting.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.is_done.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn next(&self) -> Next {
        let mut state = self.lock();
        loop {
            // Half of the room is free then: many lines follow before the next gap.
            let has_room =
                state.waiting.len() <= LINES_MAX / 2 && state.waiting_bytes <= BYTES_MAX / 2;
            let next = match state.untold > 0 && has_room {
                true => Some(Next::Tell(std::mem::take(&mut state.untold))),
                false => state.waiting.pop_front().map(Next::Write),
            };
            if let Some(next) = next {
                if let Next::Write(line) = &next {
                    state.waiting_bytes -= line.len();
                }
                state.is_writing = true;
                return next;
            }
            let waited = self.is_due.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is whole by itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes a line, and gives what of it was not taken.
fn left_of<'l>(to: &mut impl Write, line: &'l [u8]) -> &'l [u8] {
    let mut left = line;
    while !left.is_empty() {
        let written = match to.write(left) {
            Ok(0) => Err(io::Error::from(ErrorKind::WriteZero)),
            written => written,
        };
        match written {
            Ok(written) => left = left.get(written..).unwrap_or(&[]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Whoever read is gone, which is no reason to end, and nobody will read the rest.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return &[],
            Err(_) => return left,
        }
    }
    // What is buffered is not lost by it.
    let _ = to.flush();
    left
}

#[cfg(test)]
mod tests;
