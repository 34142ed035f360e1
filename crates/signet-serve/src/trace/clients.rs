//! Those who ask for messages on the socket in the data folder.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::outlet::{Inlet, Outlet};
use super::{Filter, Seen, Sink};

/// How many may ask at a time.
const CLIENTS_MAX: usize = 4;
/// One who has not asked for so long is gone.
const GONE_AFTER: Duration = Duration::from_secs(5);
/// Messages in one answer, and their bytes, but for the last of them.
const ANSWER_MAX: usize = 2_048;
const ANSWER_BYTES_MAX: usize = 2 * 1024 * 1024;

/// As many ask as may.
pub(crate) struct TooMany;

#[derive(Default)]
pub(super) struct Clients {
    last: u64,
    open: Vec<Client>,
}

struct Client {
    name: u64,
    filter: Filter,
    outlet: Outlet,
    inlet: Inlet,
    asked: Instant,
}

impl Clients {
    pub(super) fn open(&mut self, filter: Filter) -> Result<u64, TooMany> {
        if self.open.len() >= CLIENTS_MAX {
            return Err(TooMany);
        }
        self.last += 1;
        let (outlet, inlet) = Outlet::new();
        self.open.push(Client {
            name: self.last,
            filter,
            outlet,
            inlet,
            asked: Instant::now(),
        });
        Ok(self.last)
    }

    pub(super) fn take(&mut self, name: u64) -> Option<(Vec<Arc<Seen>>, u64)> {
        let client = self.open.iter_mut().find(|client| client.name == name)?;
        client.asked = Instant::now();
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while taken.len() < ANSWER_MAX
            && bytes < ANSWER_BYTES_MAX
            && let Some(seen) = client.inlet.at_hand()
        {
            bytes += seen.bytes.len();
            taken.push(seen);
        }
        Some((taken, client.inlet.left_out()))
    }

    pub(super) fn close(&mut self, name: u64) {
        self.open.retain(|client| client.name != name);
    }

    /// Closes those who are gone; whether there were any.
    pub(super) fn sweep(&mut self, now: Instant) -> bool {
        let before = self.open.len();
        let is_there = |client: &Client| now.saturating_duration_since(client.asked) < GONE_AFTER;
        self.open.retain(is_there);
        self.open.len() != before
    }

    pub(super) fn sinks(&self) -> impl Iterator<Item = Sink> {
        self.open.iter().map(|client| Sink {
            filter: client.filter.clone(),
            outlet: client.outlet.clone(),
        })
    }
}
