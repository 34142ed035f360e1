//! A connection that was accepted and the one that was opened for it.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use mio::event::Event;
use mio::net::TcpStream;
use socket2::SockRef;

use super::alarms::Wake;
use super::shared::{CALLED, CALLER, Shared};
use crate::stream_line::{Piece, StreamLine};

/// Reads of one side before others have their turn.
const READS_MAX: usize = 16;

/// One socket.
struct End {
    stream: TcpStream,
    /// Whether it is known to be connected.
    is_up: bool,
    /// Whether the kernel may have something to read.
    is_readable: bool,
    /// Whether the kernel may take something.
    is_writable: bool,
    /// Nothing more is read: it was shut down by its peer, or is dead.
    has_ended: bool,
    /// Its connection has an error, as after a reset.
    has_error: bool,
    /// The end was passed on to it: nothing but a reset can follow.
    is_shut: bool,
    /// A reset came, or it could not be connected.
    is_dead: bool,
}

/// A connection that was accepted and the one that was opened for it.
pub(super) struct Pair {
    key: usize,
    /// Who connected, and to whom; the latter is opened when the SYN has crossed.
    ends: [Option<End>; 2],
    /// What came from each of them.
    lines: [StreamLine; 2],
    /// For when the alarm of each line is set.
    alarms: [Option<u64>; 2],
    /// When its SYN arrives.
    syn_due_ns: u64,
    /// Who spoke last.
    spoke: Option<usize>,
    /// The called side could not be reached.
    is_refused: bool,
    /// A reset was passed on: all is over.
    is_broken: bool,
}

/// What is to become of a pair after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It waits for the kernel or an alarm.
    Wait,
    /// It has more to do at once.
    Again,
    /// It waits for room: what is held must leave first.
    Room,
    /// It is over.
    Over {
        /// Whether by a reset.
        by_reset: bool,
    },
}

impl Pair {
    /// A pair whose caller's SYN left at `now_ns`. Its handshake takes a round trip for the
    /// caller and half of one more for the called side: neither's first byte leaves earlier.
    pub(super) fn new(key: usize, caller: TcpStream, now_ns: u64, rtt_ns: u64) -> Self {
        let mut end = End::new(caller);
        end.is_up = true;
        Self {
            key,
            ends: [Some(end), None],
            lines: [
                StreamLine::new(now_ns + rtt_ns),
                StreamLine::new(now_ns + rtt_ns + rtt_ns / 2),
            ],
            alarms: [None; 2],
            syn_due_ns: now_ns + rtt_ns / 2,
            spoke: None,
            is_refused: false,
            is_broken: false,
        }
    }

    /// The SYN has arrived: this connection is opened by it.
    pub(super) fn connect(&mut self, stream: TcpStream) {
        self.ends[CALLED] = Some(End::new(stream));
    }

    /// The SYN has arrived where nobody is: a reset comes back.
    pub(super) fn refuse(&mut self, shared: &Shared) {
        self.is_refused = true;
        if let Some(end) = &mut self.ends[CALLED] {
            end.is_dead = true;
            end.has_ended = true;
        }
        self.lines[CALLED].reset(&shared.directions[CALLED], shared.now_ns());
    }

    /// What the kernel says of a side.
    pub(super) fn note(&mut self, side: usize, event: &Event) {
        let Some(Some(end)) = self.ends.get_mut(side) else {
            // Of a socket that had this place before.
            return;
        };
        end.is_readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        end.is_writable |= event.is_writable() || event.is_write_closed() || event.is_error();
        end.has_error |= event.is_error();
    }

    /// Whether its SYN is arriving.
    pub(super) fn is_awaited(&self, now_ns: u64) -> bool {
        self.ends[CALLED].is_none() && !self.is_refused && self.syn_due_ns <= now_ns
    }

    /// Whether an alarm of a line is the one that is set.
    pub(super) fn rings(&mut self, line: usize, at_ns: u64) -> bool {
        match self.alarms.get_mut(line) {
            Some(alarm) if *alarm == Some(at_ns) => {
                *alarm = None;
                true
            }
            _ => false,
        }
    }

    /// Passes on what is due and takes in what there is.
    pub(super) fn serve(&mut self, shared: &mut Shared) -> Next {
        self.see_connected(shared);
        let held_before = self.held_bytes();
        for side in [CALLED, CALLER] {
            self.see_reset(side, shared);
            self.drain(side, shared);
        }
        shared.held_bytes = shared.held_bytes + self.held_bytes() - held_before;
        let mut next = Next::Wait;
        for side in [CALLER, CALLED] {
            match self.fill(side, shared) {
                Next::Wait => {}
                other if next != Next::Again => next = other,
                _ => {}
            }
        }
        if self.is_over() {
            shared.held_bytes -= self.held_bytes();
            return Next::Over {
                by_reset: self.is_broken,
            };
        }
        for line in [CALLER, CALLED] {
            self.set_alarm(line, shared);
        }
        next
    }

    fn held_bytes(&self) -> usize {
        self.lines.iter().map(StreamLine::held_bytes).sum()
    }

    /// Whether the connection that was opened is up, or could not be.
    fn see_connected(&mut self, shared: &Shared) {
        let Some(end) = &mut self.ends[CALLED] else {
            return;
        };
        if end.is_up || end.is_dead || !end.is_writable {
            return;
        }
        match (end.stream.take_error(), end.stream.peer_addr()) {
            (Ok(None), Ok(_)) => end.is_up = true,
            (Ok(None), Err(error)) if error.kind() == ErrorKind::NotConnected => {
                end.is_writable = false;
            }
            _ => self.refuse(shared),
        }
    }

    /// A side that had said its last word may break off all the same. It is not read any
    /// more, so only its socket's error tells.
    fn see_reset(&mut self, side: usize, shared: &Shared) {
        if let Some(end) = &mut self.ends[side]
            && end.has_error
            && end.has_ended
            && !end.is_dead
        {
            end.is_dead = true;
            self.lines[side].reset(&shared.directions[side], shared.now_ns());
        }
    }

    /// Reads what a side has sent.
    fn fill(&mut self, side: usize, shared: &mut Shared) -> Next {
        let is_other_dead = self.ends[1 - side].as_ref().is_some_and(|end| end.is_dead);
        let line = &mut self.lines[side];
        let Some(end) = &mut self.ends[side] else {
            return Next::Wait;
        };
        if !end.is_up || end.has_ended || is_other_dead {
            return Next::Wait;
        }
        let mut scratch = std::mem::take(&mut shared.scratch);
        let mut reads = 0;
        let next = loop {
            if !end.is_readable {
                break Next::Wait;
            }
            if !shared.has_room(line.held_bytes()) {
                break Next::Room;
            }
            if reads == READS_MAX {
                break Next::Again;
            }
            reads += 1;
            match end.stream.read(&mut scratch) {
                Ok(0) => {
                    end.has_ended = true;
                    line.end(&shared.directions[side], shared.now_ns());
                    break Next::Wait;
                }
                Ok(count) => {
                    let now_ns = shared.now_ns();
                    let bytes = scratch.get(..count).unwrap_or_default();
                    let taken = line.take_in(&mut shared.directions[side], now_ns, bytes);
                    shared.counts.traffic[side].read(count, taken.packets, taken.retransmissions);
                    shared.held_bytes += count;
                    if side == CALLED && self.spoke == Some(CALLER) {
                        shared.counts.round_trips += 1;
                    }
                    self.spoke = Some(side);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => end.is_readable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    end.is_dead = true;
                    end.has_ended = true;
                    line.reset(&shared.directions[side], shared.now_ns());
                    break Next::Wait;
                }
            }
        };
        shared.scratch = scratch;
        next
    }

    /// Writes what is due to a side.
    fn drain(&mut self, side: usize, shared: &mut Shared) {
        let line = &mut self.lines[1 - side];
        let Some(end) = &mut self.ends[side] else {
            return;
        };
        if end.is_dead {
            line.clear();
            return;
        }
        while end.is_up && end.is_writable {
            let now_ns = shared.now_ns();
            let mut slices: Vec<IoSlice<'_>> = Vec::new();
            let Some(due_ns) = line.slices(now_ns, &mut slices) else {
                match line.pop_end(now_ns) {
                    Some(Piece::Reset) => {
                        // Its close is a reset then.
                        let _ = SockRef::from(&end.stream).set_linger(Some(Duration::ZERO));
                        self.is_broken = true;
                        return;
                    }
                    Some(_) => {
                        let _ = end.stream.shutdown(Shutdown::Write);
                        end.is_shut = true;
                        continue;
                    }
                    None => return,
                }
            };
            match end.stream.write_vectored(&slices) {
                Ok(count) => {
                    drop(slices);
                    line.left(count);
                    shared.counts.left(due_ns, now_ns);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => end.is_writable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    drop(slices);
                    line.clear();
                    end.is_dead = true;
                    end.has_ended = true;
                    // What it had sent before it broke off was read or is lost with it.
                    self.lines[side].reset(&shared.directions[side], now_ns);
                    return;
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        let is_dead = |side: usize| match &self.ends[side] {
            Some(end) => end.is_dead,
            None => side == CALLED && self.is_refused,
        };
        let is_shut = |side: usize| self.ends[side].as_ref().is_some_and(|end| end.is_shut);
        let sides = [CALLER, CALLED];
        let is_at_rest = sides.into_iter().all(is_shut) && !sides.into_iter().any(is_dead);
        self.is_broken || sides.into_iter().all(is_dead) || is_at_rest
    }

    /// Sets the alarm for what is first in a line, where it can leave when that is due.
    fn set_alarm(&mut self, line: usize, shared: &mut Shared) {
        let can_leave = self.ends[1 - line]
            .as_ref()
            .is_some_and(|end| end.is_up && end.is_writable);
        let Some(due_ns) = self.lines[line].next_due_ns().filter(|_| can_leave) else {
            return;
        };
        if self.alarms[line] != Some(due_ns) {
            self.alarms[line] = Some(due_ns);
            shared.alarms.set(due_ns, Wake::Line(self.key, line));
        }
    }
}

impl End {
    fn new(stream: TcpStream) -> Self {
        // What was held long enough is not to wait for more.
        let _ = stream.set_nodelay(true);
        Self {
            stream,
            is_up: false,
            is_readable: true,
            is_writable: true,
            has_ended: false,
            has_error: false,
            is_shut: false,
            is_dead: false,
        }
    }

    fn source(&mut self) -> &mut TcpStream {
        &mut self.stream
    }
}

impl Pair {
    /// A side's socket, to be watched.
    pub(super) fn source(&mut self, side: usize) -> Option<&mut TcpStream> {
        self.ends.get_mut(side)?.as_mut().map(End::source)
    }
}
