//! What passed, and how well the relay kept its times.

use std::net::SocketAddr;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::direction::{Conditions, wire_bytes};
use crate::settings::Transport;

/// The name in every report.
pub const REPORT_FORMAT: &str = "signet-bed-delay";
/// The form of a report; within one, fields are only added.
pub const REPORT_VERSION: u32 = 1;
/// Above this lateness of one in a hundred the relay says that it was late.
const LATE_P99_MAX_US: f64 = 500.0;
/// Later than ten seconds counts as ten seconds.
const LATE_MAX_NS: u64 = 10_000_000_000;

/// What passed in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Payload that was read.
    pub bytes: u64,
    /// Datagrams; for streams the fewest segments that can have carried what each read gave,
    /// at [`crate::MSS_BYTES`]. Acknowledgements without data are not counted.
    pub packets: u64,
    /// The bytes with [`crate::PACKET_OVERHEAD_BYTES`] for each of these packets.
    pub wire_bytes: u64,
    /// Reads that gave something: what a program wrote at once is mostly one.
    pub reads: u64,
    /// Packets of streams that were lost and sent again.
    pub retransmissions: u64,
    /// Datagrams that were lost as asked.
    pub lost: u64,
    /// Datagrams for which a queue or a socket had no room.
    pub overflowed: u64,
}

impl Traffic {
    pub(crate) fn read(&mut self, bytes: usize, packets: u64, retransmissions: u64) {
        self.bytes += bytes as u64;
        self.packets += packets;
        self.wire_bytes += bytes as u64 + packets * crate::direction::PACKET_OVERHEAD_BYTES;
        self.reads += 1;
        self.retransmissions += retransmissions;
    }

    pub(crate) fn datagram(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.packets += 1;
        self.wire_bytes += wire_bytes(bytes);
        self.reads += 1;
    }
}

/// Connections; of datagrams, senders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Connections {
    /// Accepted.
    pub accepted: u64,
    /// Closed at once because there were too many.
    pub refused: u64,
    /// Ended by a reset of either side, or because the other side could not be reached.
    pub reset: u64,
    /// Open now.
    pub open: u64,
}

/// How much later than it was due something left, because the relay had other things to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Late {
    /// Half of all were at most so late.
    pub p50_us: f64,
    /// 99%.
    pub p99_us: f64,
    /// The latest.
    pub max_us: f64,
    /// Whether this is more than a measurement should stand: the relay had too little of a
    /// core.
    pub is_late: bool,
}

/// What a relay tells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// [`REPORT_FORMAT`].
    pub format: &'static str,
    /// [`REPORT_VERSION`].
    pub version: u32,
    /// Streams or datagrams.
    pub transport: Transport,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where everything goes.
    pub to: SocketAddr,
    /// The time since it began, in nanoseconds.
    pub elapsed_ns: u64,
    /// What the path is like now.
    pub conditions: Conditions,
    /// Connections.
    pub connections: Connections,
    /// From those who connect.
    pub there: Traffic,
    /// To them.
    pub back: Traffic,
    /// How often something came back after something had gone there, over all connections:
    /// exchanges of question and answer. Where a connection has several questions under
    /// way, fewer than there were.
    pub round_trips: u64,
    /// Bytes under way now.
    pub held_bytes: u64,
    /// How well it kept its times.
    pub late: Late,
}

/// Counts of a running relay.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) connections: Connections,
    /// There and back.
    pub(crate) traffic: [Traffic; 2],
    pub(crate) round_trips: u64,
    late: Histogram<u64>,
}

impl Counts {
    pub(crate) fn new() -> Self {
        Self {
            connections: Connections::default(),
            traffic: [Traffic::default(); 2],
            round_trips: 0,
            late: histogram(),
        }
    }

    /// Something left that was due before.
    pub(crate) fn left(&mut self, due_ns: u64, now_ns: u64) {
        self.late.saturating_record(now_ns.saturating_sub(due_ns));
    }

    pub(crate) fn late(&self) -> Late {
        let us = |ns: u64| ns as f64 / 1_000.0;
        let p99_us = us(self.late.value_at_quantile(0.99));
        Late {
            p50_us: us(self.late.value_at_quantile(0.5)),
            p99_us,
            max_us: us(self.late.max()),
            is_late: p99_us > LATE_P99_MAX_US,
        }
    }
}

#[expect(clippy::expect_used, reason = "the bounds are constants")]
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATE_MAX_NS, 2).expect("1 ns to 10 s in 2 digits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_late_is_said() {
        let mut counts = Counts::new();
        for _ in 0..990 {
            counts.left(1_000, 21_000);
        }
        assert!(!counts.late().is_late);
        for _ in 0..20 {
            counts.left(0, 3_000_000);
        }
        let late = counts.late();
        assert!(late.is_late && late.p50_us < 25.0 && late.max_us > 2_900.0);
    }

    #[test]
    fn headers_are_counted_by_packets() {
        let mut traffic = Traffic::default();
        traffic.read(3_000, 3, 1);
        traffic.datagram(100);
        assert_eq!(
            (traffic.bytes, traffic.packets, traffic.reads),
            (3_100, 4, 2)
        );
        assert_eq!(traffic.wire_bytes, 3_100 + 4 * 66);
        assert_eq!(traffic.retransmissions, 1);
    }
}
