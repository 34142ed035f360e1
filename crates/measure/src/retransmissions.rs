//! Why messages were sent again.

use serde::{Deserialize, Serialize};

/// Retransmissions of a run, each counted under one cause.
///
/// SIP over UDP repeats a request when its timer fires before an answer
/// (RFC 3261 17.1). The cause is known only when the transaction ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Retransmissions {
    /// The generator's fault: it was itself late (behind its schedule, or with
    /// unread messages waiting) when the timer fired. Such a figure says
    /// nothing about the server.
    pub ours: u64,
    /// A message was lost: no answer to the first copy ever came, or nothing
    /// came at all.
    pub lost: u64,
    /// The answer was under way: it came after the timer had fired, and the
    /// repeat was in vain. The server was slower than the timer.
    pub late: u64,
    /// Messages that the other side sent again and that arrived here.
    pub received: u64,
}

impl Retransmissions {
    /// Messages that this side sent again, whatever the cause.
    pub fn sent(&self) -> u64 {
        self.ours + self.lost + self.late
    }

    /// Adds another thread's counts to these.
    pub fn merge(&mut self, other: &Self) {
        self.ours += other.ours;
        self.lost += other.lost;
        self.late += other.late;
        self.received += other.received;
    }
}
