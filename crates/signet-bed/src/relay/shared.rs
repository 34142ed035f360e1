//! What all connections of a relay share.

use std::time::Instant;

use mio::Registry;

use super::alarms::Alarms;
use crate::counts::Counts;
use crate::direction::Direction;

/// Bytes under way in one direction of one connection. Past it nothing more is read from its
/// sender, whom the kernel then holds back: 1 Gbit/s over 250 ms.
pub(super) const LINE_BYTES_MAX: usize = 32 << 20;
/// The same of all together.
const ALL_BYTES_MAX: usize = 512 << 20;

/// One side of a connection, as an index: who connected.
pub(super) const CALLER: usize = 0;
/// And to whom.
pub(super) const CALLED: usize = 1;

/// What all connections of a relay share.
pub(super) struct Shared {
    pub(super) registry: Registry,
    pub(super) alarms: Alarms,
    pub(super) counts: Counts,
    /// There and back.
    pub(super) directions: [Direction; 2],
    pub(super) held_bytes: usize,
    pub(super) scratch: Vec<u8>,
    pub(super) begun: Instant,
}

impl Shared {
    pub(super) fn now_ns(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Whether something more may be held in a line that holds so much.
    pub(super) fn has_room(&self, line_bytes: usize) -> bool {
        line_bytes < LINE_BYTES_MAX && self.held_bytes < ALL_BYTES_MAX
    }
}
