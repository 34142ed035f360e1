//! When something is to be done next. The timer of the kernel rings to the microsecond, which
//! the millisecond of epoll's own deadline does not.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::AsRawFd;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::Error;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wake {
    /// The SYN of this connection arrives.
    Connect(usize),
    /// Something that came from this side of this connection is due.
    Line(usize, usize),
    /// Connections that could not be accepted may be now.
    Accept,
    /// It is time for a report.
    Report,
    /// It is time to end.
    Stop,
}

/// The alarms that are set, and the kernel's timer for the first of them.
pub(super) struct Alarms {
    heap: BinaryHeap<Reverse<(u64, Wake)>>,
    timer: TimerFd,
    armed_ns: Option<u64>,
}

impl Alarms {
    pub(super) fn new(registry: &Registry, token: Token) -> Result<Self, Error> {
        let failed = |why: String| {
            Error::new(
                format!("cannot make a timer: {why}"),
                "raise the limit of open files",
            )
        };
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer =
            TimerFd::new(ClockId::CLOCK_MONOTONIC, flags).map_err(|e| failed(e.to_string()))?;
        let fd = std::os::fd::AsFd::as_fd(&timer).as_raw_fd();
        registry
            .register(&mut SourceFd(&fd), token, Interest::READABLE)
            .map_err(|e| failed(e.to_string()))?;
        Ok(Self {
            heap: BinaryHeap::new(),
            timer,
            armed_ns: None,
        })
    }

    pub(super) fn set(&mut self, at_ns: u64, wake: Wake) {
        self.heap.push(Reverse((at_ns, wake)));
    }

    /// The first that is due, with the time at which it was.
    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<(u64, Wake)> {
        let Reverse((at_ns, _)) = self.heap.peek()?;
        if *at_ns > now_ns {
            return None;
        }
        self.heap.pop().map(|Reverse(due)| due)
    }

    /// Sets the kernel's timer for the first alarm; false where that is due already.
    pub(super) fn arm(&mut self, now_ns: u64) -> Result<bool, Error> {
        let Some(Reverse((at_ns, _))) = self.heap.peek() else {
            return Ok(true);
        };
        let Some(ahead_ns) = at_ns.checked_sub(now_ns).filter(|ns| *ns > 0) else {
            return Ok(false);
        };
        // One that rang already is behind `now_ns`, and so are all alarms that it rang for.
        if self.armed_ns != Some(*at_ns) {
            let ahead = TimeSpec::from_duration(Duration::from_nanos(ahead_ns));
            self.timer
                .set(Expiration::OneShot(ahead), TimerSetTimeFlags::empty())
                .map_err(|e| Error::new(format!("cannot set the timer: {e}"), "try again"))?;
            self.armed_ns = Some(*at_ns);
        }
        Ok(true)
    }

    /// The kernel's timer rang.
    pub(super) fn rang(&mut self) {
        self.armed_ns = None;
    }
}
