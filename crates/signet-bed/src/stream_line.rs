//! What is under way in one direction of a TCP connection.

use std::io::IoSlice;

use invariant::broken;

use crate::direction::{Direction, packets};
use crate::line::Line;

/// Slices that leave with one system call at most.
const SLICES_MAX: usize = 64;

/// A part of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes.
    Bytes(Vec<u8>),
    /// The sender has no more to say: FIN.
    End,
    /// The sender reset the connection: RST.
    Reset,
}

/// What became of bytes that were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Packets that the sender must have used at least.
    pub packets: u64,
    /// How many of them were sent again.
    pub retransmissions: u64,
}

/// One direction of a stream: bytes in their order, none before its time.
#[derive(Clone, Debug, Default)]
pub struct StreamLine {
    line: Line<Piece>,
    /// Before this nothing is sent: the connection is not up yet at the sender.
    opens_ns: u64,
    held_bytes: usize,
    held_packets: u64,
    /// What of the first piece has left.
    front_at: usize,
}

impl StreamLine {
    /// A direction whose sender has a connection from `opens_ns` on.
    pub fn new(opens_ns: u64) -> Self {
        Self {
            opens_ns,
            ..Self::default()
        }
    }

    /// Takes in what was read.
    pub fn take_in(&mut self, direction: &mut Direction, now_ns: u64, bytes: &[u8]) -> Taken {
        let mut taken = Taken::default();
        for part in bytes.chunks(direction.part_bytes()) {
            let passage = direction.stream(now_ns, self.opens_ns, part.len(), self.held_packets);
            let packets = packets(part.len());
            taken.packets += packets;
            taken.retransmissions += u64::from(passage.retransmissions);
            self.held_bytes += part.len();
            self.held_packets += packets;
            self.line.push(passage.due_ns, Piece::Bytes(part.to_vec()));
        }
        taken
    }

    /// The sender has no more to say.
    pub fn end(&mut self, direction: &Direction, now_ns: u64) {
        let sent_ns = now_ns.max(self.opens_ns);
        self.line.push(sent_ns + direction.half_ns(), Piece::End);
    }

    /// The sender is gone. What it had sent before comes first.
    pub fn reset(&mut self, direction: &Direction, now_ns: u64) {
        self.line.push(now_ns + direction.half_ns(), Piece::Reset);
    }

    /// When something may leave.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.line.next_due_ns()
    }

    /// Bytes under way.
    pub const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Fills in what may leave now in one system call, and gives when the first of it was due.
    pub fn slices<'a>(&'a self, now_ns: u64, slices: &mut Vec<IoSlice<'a>>) -> Option<u64> {
        let mut first_due_ns = None;
        for (at, (due_ns, piece)) in self.line.due(now_ns).take(SLICES_MAX).enumerate() {
            let Piece::Bytes(bytes) = piece else { break };
            let from = if at == 0 { self.front_at } else { 0 };
            slices.push(IoSlice::new(bytes.get(from..).unwrap_or_default()));
            first_due_ns.get_or_insert(due_ns);
        }
        first_due_ns
    }

    /// So many bytes of [`StreamLine::slices`] have left.
    pub fn left(&mut self, mut bytes: usize) {
        while bytes > 0 {
            let Some((due_ns, Piece::Bytes(first))) = self.line.pop() else {
                return broken!("no more bytes leave than are under way");
            };
            let rest = first.len().saturating_sub(self.front_at);
            if bytes < rest {
                self.front_at += bytes;
                self.held_bytes -= bytes;
                self.line.put_back(due_ns, Piece::Bytes(first));
                return;
            }
            bytes -= rest;
            self.held_bytes -= rest;
            self.held_packets -= packets(first.len());
            self.front_at = 0;
        }
    }

    /// Takes the end of the stream where it is due and nothing is before it.
    pub fn pop_end(&mut self, now_ns: u64) -> Option<Piece> {
        let first = self.line.due(now_ns).next();
        let is_end = matches!(first, Some((_, Piece::End | Piece::Reset)));
        let taken = is_end.then(|| self.line.pop()).flatten();
        taken.map(|(_, piece)| piece)
    }

    /// Drops what is under way: there is nobody to take it.
    pub fn clear(&mut self) {
        self.line.clear();
        self.held_bytes = 0;
        self.held_packets = 0;
        self.front_at = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direction::Conditions;

    const MS: u64 = 1_000_000;

    fn direction(jitter_ns: u64, rate_bits_per_s: Option<u64>) -> Direction {
        let conditions = Conditions {
            rtt_ns: 30 * MS,
            jitter_ns,
            loss: 0.05,
            rate_bits_per_s,
        };
        Direction::new(conditions, 7)
    }

    /// All that leaves by a clock that goes from wake-up to wake-up, at most `most` bytes at a
    /// time.
    fn drain(line: &mut StreamLine, most: usize) -> (Vec<u8>, Vec<Piece>) {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        let mut now_ns = 0;
        while let Some(due_ns) = line.next_due_ns() {
            assert!(due_ns >= now_ns, "time goes back");
            now_ns = due_ns;
            let mut slices = Vec::new();
            line.slices(now_ns, &mut slices);
            let whole: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
            let count = whole.len().min(most);
            bytes.extend_from_slice(&whole[..count]);
            line.left(count);
            ends.extend(line.pop_end(now_ns));
        }
        assert_eq!(line.held_bytes(), 0);
        (bytes, ends)
    }

    #[test]
    fn bytes_come_out_unchanged_and_in_order_whatever_happens_to_them() {
        for rate in [None, Some(10_000_000), Some(1_000_000_000)] {
            let mut direction = direction(5 * MS, rate);
            let mut line = StreamLine::new(30 * MS);
            let sent: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
            let mut packets = 0;
            for (at, part) in sent.chunks(6_000).enumerate() {
                packets += line.take_in(&mut direction, at as u64 * MS, part).packets;
            }
            assert_eq!(packets, 200_000_usize.div_ceil(6_000) as u64 * 5 - 3);
            line.end(&direction, 40 * MS);
            let (bytes, ends) = drain(&mut line, 1_000);
            assert!(bytes == sent);
            assert_eq!(ends, [Piece::End]);
        }
    }

    #[test]
    fn the_end_and_a_reset_come_after_what_was_sent_before() {
        let mut direction = direction(0, None);
        for (ending, piece) in [(true, Piece::End), (false, Piece::Reset)] {
            let mut line = StreamLine::new(0);
            line.take_in(&mut direction, 0, b"last words");
            if ending {
                line.end(&direction, 0);
            } else {
                line.reset(&direction, 0);
            }
            assert_eq!(line.pop_end(u64::MAX), None, "bytes come first");
            assert_eq!(drain(&mut line, 3), (b"last words".to_vec(), vec![piece]));
        }
    }

    #[test]
    fn a_part_of_a_piece_may_leave() {
        let mut direction = direction(0, None);
        let mut line = StreamLine::new(0);
        line.take_in(&mut direction, 0, b"abcdef");
        line.left(2);
        assert_eq!(line.held_bytes(), 4);
        let mut slices = Vec::new();
        assert!(line.slices(u64::MAX, &mut slices).is_some());
        assert_eq!(&*slices[0], b"cdef");
        drop(slices);
        line.clear();
        assert_eq!((line.held_bytes(), line.next_due_ns()), (0, None));
    }
}
