//! What a shard's own timers mean.

use crate::effect::ParkId;
use crate::proxy::context::Key;
use slots::Name;

/// A timer of the shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// Timer C of a branch (RFC 3261 16.6 step 11).
    C(Key, u16),
    /// A group of targets has rung long enough: on to the next.
    Serial(Key),
    /// What is parked has waited too long.
    Park(ParkId),
    /// It is time to look whose turn it is to be probed.
    Probes,
    /// A probe has had its time.
    Probe(u32),
    /// It is time to look which registrations with providers are due.
    Trunks,
    /// A REGISTER to a provider has had its time.
    Register(u32),
    /// The record of a call that was answered has waited too long for its end.
    Record(u64),
    /// It is time to look for contacts that are to be kept alive.
    KeepAlives,
    /// It is a phone's turn to be sent a keep-alive, or the time of its answer is over.
    KeepAlive(Name),
}
