//! A message that was seen, and the bounded way from the workers to who shows it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use sip_msg::Transport;
use sip_worker::{Direction, Passing};

/// Messages that wait to be shown; past it they are left out.
const WAITING_MAX: usize = 4_096;
/// Their bytes; past it they are left out.
pub(super) const WAITING_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A message with its way and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// When it was read or handed to the sockets, in microseconds since 1970.
    pub(crate) at_unix_us: u64,
    pub(crate) direction: Direction,
    pub(crate) transport: Transport,
    /// The address of this server's end; `None` where the message had no way to go.
    pub(crate) local: Option<SocketAddr>,
    pub(crate) remote: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

impl Seen {
    pub(super) fn new(passing: &Passing<'_>, at_unix_us: u64) -> Self {
        Self {
            at_unix_us,
            direction: passing.direction,
            transport: passing.transport,
            local: passing.local,
            remote: passing.remote,
            bytes: passing.bytes.to_vec(),
        }
    }
}

#[derive(Default)]
struct Tally {
    left_out: AtomicU64,
    waiting_bytes: AtomicUsize,
}

/// The workers' end. Cheap to clone.
#[derive(Clone)]
pub(super) struct Outlet {
    to: SyncSender<Arc<Seen>>,
    tally: Arc<Tally>,
}

/// The end of who shows messages.
pub(super) struct Inlet {
    from: Receiver<Arc<Seen>>,
    tally: Arc<Tally>,
}

impl Outlet {
    pub(super) fn new() -> (Self, Inlet) {
        let (to, from) = sync_channel(WAITING_MAX);
        let tally = Arc::new(Tally::default());
        let inlet = Inlet {
            from,
            tally: tally.clone(),
        };
        (Self { to, tally }, inlet)
    }

    /// Gives a message, or leaves it out where too much waits.
    pub(super) fn give(&self, seen: &Arc<Seen>) {
        let (len, tally) = (seen.bytes.len(), &self.tally);
        let waiting = tally.waiting_bytes.fetch_add(len, Ordering::Relaxed);
        if waiting + len > WAITING_BYTES_MAX || self.to.try_send(seen.clone()).is_err() {
            tally.waiting_bytes.fetch_sub(len, Ordering::Relaxed);
            tally.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Inlet {
    /// Waits for a message; `None` when there will be none.
    pub(super) fn next(&self) -> Option<Arc<Seen>> {
        self.taken(self.from.recv().ok())
    }

    /// A message, if one waits.
    pub(super) fn at_hand(&self) -> Option<Arc<Seen>> {
        self.taken(self.from.try_recv().ok())
    }

    /// How many were left out since this was last asked.
    pub(super) fn left_out(&self) -> u64 {
        self.tally.left_out.swap(0, Ordering::Relaxed)
    }

    fn taken(&self, seen: Option<Arc<Seen>>) -> Option<Arc<Seen>> {
        let len = seen.as_ref().map_or(0, |seen| seen.bytes.len());
        self.tally.waiting_bytes.fetch_sub(len, Ordering::Relaxed);
        seen
    }
}
