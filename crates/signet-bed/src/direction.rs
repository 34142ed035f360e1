//! One direction of the distance: how long what is sent takes, and what of it is lost.

use fastrand::Rng;
use serde::Serialize;

/// The payload of a full TCP segment over Ethernet: 1,500 bytes less the headers of IPv4 and
/// TCP with timestamps.
pub const MSS_BYTES: usize = 1_448;
/// What a packet is longer on the wire than its payload: Ethernet 14, IPv4 20, TCP with
/// timestamps 32. Counted for datagrams too, whose headers are 24 shorter.
pub const PACKET_OVERHEAD_BYTES: u64 = 66;
/// The least by which a retransmission timer exceeds the round trip, as in Linux.
pub const RTO_MIN_NS: u64 = 200_000_000;
/// Packets in flight from which on a loss shows by duplicate acknowledgements
/// (RFC 5681 3.2: three of them), and not by the timer.
const FAST_RETRANSMIT_PACKETS: u64 = 4;
/// How often a packet is lost in a row at most.
const LOSSES_MAX: u32 = 8;
/// With a rate, a read is cut so that what is first in it need not wait for what is last:
/// into what the rate sends in this time, in whole packets.
const PART_NS: u64 = 200_000;

/// What a path is like. The same holds each way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Conditions {
    /// There and back.
    pub rtt_ns: u64,
    /// The most that is added to half of the round trip; each time a draw from 0 to here.
    pub jitter_ns: u64,
    /// The share of packets that is lost, 0 to below 1.
    pub loss: f64,
    /// Bits a second that pass each way, headers included.
    pub rate_bits_per_s: Option<u64>,
}

/// One direction. All streams in it share its rate.
#[derive(Clone, Debug)]
pub struct Direction {
    conditions: Conditions,
    random: Rng,
    /// When everything that was given to it so far has been sent: a token bucket as deep as
    /// a packet.
    free_at_ns: u64,
}

/// When something arrives, and how often it had to be sent again for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passage {
    pub(crate) due_ns: u64,
    pub(crate) retransmissions: u32,
}

impl Direction {
    /// A way; the same seed draws the same.
    pub fn new(conditions: Conditions, seed: u64) -> Self {
        Self {
            conditions,
            random: Rng::with_seed(seed),
            free_at_ns: 0,
        }
    }

    /// What it is like.
    pub const fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// Changes it for what is sent from now on.
    pub fn set(&mut self, conditions: Conditions) {
        self.conditions = conditions;
    }

    /// Half of the round trip.
    pub const fn half_ns(&self) -> u64 {
        self.conditions.rtt_ns / 2
    }

    /// How many bytes of a stream go through as one.
    pub(crate) fn part_bytes(&self) -> usize {
        let Some(rate) = self.conditions.rate_bits_per_s else {
            return usize::MAX;
        };
        let bytes = u128::from(rate) * u128::from(PART_NS) / 8_000_000_000;
        let packets = (usize::try_from(bytes).unwrap_or(usize::MAX) / MSS_BYTES).max(1);
        packets.saturating_mul(MSS_BYTES)
    }

    /// When bytes of a stream arrive, of which `packets_before` are under way. No earlier
    /// than half a round trip after `opens_ns`.
    pub(crate) fn stream(
        &mut self,
        now_ns: u64,
        opens_ns: u64,
        bytes: usize,
        packets_before: u64,
    ) -> Passage {
        let packets = packets(bytes);
        let sent_ns = self.sent_ns(now_ns, bytes).max(opens_ns);
        let (stall_ns, retransmissions) = self.stall(packets, packets_before);
        Passage {
            due_ns: sent_ns + self.half_ns() + self.jitter_ns() + stall_ns,
            retransmissions,
        }
    }

    /// When a datagram arrives; `None` where it is lost.
    pub(crate) fn datagram(&mut self, now_ns: u64, bytes: usize) -> Option<u64> {
        let sent_ns = self.sent_ns(now_ns, bytes);
        let loss = self.conditions.loss;
        // A lost packet has taken its part of the rate all the same.
        if loss > 0.0 && self.random.f64() < loss {
            return None;
        }
        Some(sent_ns + self.half_ns() + self.jitter_ns())
    }

    /// When the sender has nothing of it left.
    fn sent_ns(&mut self, now_ns: u64, bytes: usize) -> u64 {
        let Some(rate) = self.conditions.rate_bits_per_s else {
            return now_ns;
        };
        let bits = u128::from(wire_bytes(bytes)) * 8;
        let takes_ns = bits * 1_000_000_000 / u128::from(rate.max(1));
        let takes_ns = u64::try_from(takes_ns).unwrap_or(u64::MAX);
        self.free_at_ns = self.free_at_ns.max(now_ns).saturating_add(takes_ns);
        self.free_at_ns
    }

    fn jitter_ns(&mut self) -> u64 {
        match self.conditions.jitter_ns {
            0 => 0,
            most => self.random.u64(0..=most),
        }
    }

    /// How much later a stream goes on because packets of it were lost. A stream loses
    /// nothing: its sender sends again, a round trip later where packets behind the lost one
    /// tell, else when the timer runs out; twice as late each time that this is lost too.
    fn stall(&mut self, packets: u64, packets_before: u64) -> (u64, u32) {
        let loss = self.conditions.loss;
        if loss <= 0.0 {
            return (0, 0);
        }
        let all_pass = (1.0 - loss).powi(i32::try_from(packets).unwrap_or(i32::MAX));
        if self.random.f64() < all_pass {
            return (0, 0);
        }
        let mut timer_ns = self.conditions.rtt_ns + RTO_MIN_NS;
        let mut stall_ns = if packets + packets_before >= FAST_RETRANSMIT_PACKETS {
            self.conditions.rtt_ns
        } else {
            timer_ns
        };
        let mut times = 1;
        while times < LOSSES_MAX && self.random.f64() < loss {
            timer_ns *= 2;
            stall_ns += timer_ns;
            times += 1;
        }
        (stall_ns, times)
    }
}

/// Packets that a sender needs for so many bytes, all but the last of them full.
pub(crate) const fn packets(bytes: usize) -> u64 {
    bytes.div_ceil(MSS_BYTES) as u64
}

/// Those bytes with the headers of their packets. A datagram without payload is one too.
pub(crate) fn wire_bytes(bytes: usize) -> u64 {
    bytes as u64 + packets(bytes).max(1) * PACKET_OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn conditions() -> Conditions {
        Conditions {
            rtt_ns: 30 * MS,
            jitter_ns: 0,
            loss: 0.0,
            rate_bits_per_s: None,
        }
    }

    #[test]
    fn half_of_the_round_trip_each_way() {
        let mut direction = Direction::new(conditions(), 1);
        assert_eq!(direction.stream(7, 0, 100, 0).due_ns, 15 * MS + 7);
        assert_eq!(direction.datagram(7, 100), Some(15 * MS + 7));
    }

    #[test]
    fn nothing_is_sent_before_the_connection_is_up() {
        let mut direction = Direction::new(conditions(), 1);
        assert_eq!(direction.stream(7, 30 * MS, 100, 0).due_ns, 45 * MS);
    }

    #[test]
    fn jitter_comes_on_top_and_is_bounded() {
        let mut direction = Direction::new(
            Conditions {
                jitter_ns: 2 * MS,
                ..conditions()
            },
            1,
        );
        let dues: Vec<u64> = (0..1_000)
            .map(|_| direction.stream(0, 0, 1, 0).due_ns)
            .collect();
        let (low, high) = (*dues.iter().min().unwrap(), *dues.iter().max().unwrap());
        assert!((15 * MS..15 * MS + MS / 10).contains(&low), "{low}");
        assert!(high <= 17 * MS && high > 17 * MS - MS / 10, "{high}");
    }

    #[test]
    fn the_rate_is_shared_and_counts_headers() {
        // 1 Mbit/s: a bit a microsecond.
        let mut direction = Direction::new(
            Conditions {
                rtt_ns: 0,
                rate_bits_per_s: Some(1_000_000),
                ..conditions()
            },
            1,
        );
        let one_us = (100 + PACKET_OVERHEAD_BYTES) * 8;
        assert_eq!(direction.stream(0, 0, 100, 0).due_ns, one_us * 1_000);
        assert_eq!(direction.datagram(0, 100), Some(2 * one_us * 1_000));
        // A pause is no credit.
        let later_ns = 1_000 * MS;
        assert_eq!(
            direction.datagram(later_ns, 100),
            Some(later_ns + one_us * 1_000)
        );
    }

    #[test]
    fn a_lost_packet_of_a_stream_comes_later_and_a_datagram_never() {
        let lossy = Conditions {
            loss: 0.2,
            ..conditions()
        };
        let mut direction = Direction::new(lossy, 3);
        let lost = (0..10_000)
            .filter(|_| direction.datagram(0, 9).is_none())
            .count();
        assert!((1_800..2_200).contains(&lost), "{lost}");

        let alone: Vec<Passage> = (0..10_000).map(|_| direction.stream(0, 0, 9, 0)).collect();
        let stalled = alone.iter().filter(|p| p.retransmissions > 0).count();
        assert!((1_800..2_200).contains(&stalled), "{stalled}");
        for passage in &alone {
            match passage.retransmissions {
                0 => assert_eq!(passage.due_ns, 15 * MS),
                1 => assert_eq!(passage.due_ns, 45 * MS + RTO_MIN_NS),
                2 => assert_eq!(passage.due_ns, 15 * MS + 3 * (30 * MS + RTO_MIN_NS)),
                times => assert!(times <= LOSSES_MAX),
            }
        }
        // With others behind it a round trip is enough.
        let first = (0..100).map(|_| direction.stream(0, 0, 9, 20));
        let once: Vec<Passage> = first.filter(|p| p.retransmissions == 1).collect();
        assert!(!once.is_empty() && once.iter().all(|p| p.due_ns == 45 * MS));
    }

    #[test]
    fn a_read_is_cut_by_the_rate_into_whole_packets() {
        let with = |rate_bits_per_s| {
            Direction::new(
                Conditions {
                    rate_bits_per_s,
                    ..conditions()
                },
                1,
            )
            .part_bytes()
        };
        assert_eq!(with(None), usize::MAX);
        assert_eq!(with(Some(1_000_000)), MSS_BYTES);
        assert_eq!(with(Some(1_000_000_000)), 17 * MSS_BYTES);
    }

    #[test]
    fn packets_and_their_headers() {
        assert_eq!([0, 1, MSS_BYTES, MSS_BYTES + 1].map(packets), [0, 1, 1, 2]);
        assert_eq!(wire_bytes(60), 60 + 66);
        assert_eq!(wire_bytes(0), 66);
    }
}
