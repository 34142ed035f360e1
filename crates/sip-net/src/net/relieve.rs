//! What happens when all connections together hold too much: whoever holds most
//! gives way, and not whoever comes next.

use invariant::broken;
use std::collections::{BinaryHeap, HashMap};
use std::net::IpAddr;

use sip_msg::ConnId;

use super::Net;
use crate::CloseReason;
use crate::source::source;
use crate::stream::Conn;

/// How much is freed at a time, as a part of the bound: all connections are
/// looked at for it.
const FREED_PART: usize = 8;
/// The part of all that may wait to be written that may wait for one source.
const SOURCE_PART: usize = 4;
/// Wrong messages of a stranger that a connection outlives within
/// [`ODD_WINDOW_MS`].
const ODD_MAX: u16 = 16;
const ODD_WINDOW_MS: u64 = 60_000;

impl Net {
    /// Makes room for `more` bytes in what waits to be written.
    pub(super) fn relieve_writers(&mut self, more: usize) {
        let max = self.shared.config.write_queues_bytes_max;
        if self.shared.queued_bytes + more > max {
            self.relieve(max, Conn::unsent_bytes, CloseReason::SlowReader);
        }
    }

    /// Sees to it that what waits for the source of a connection, which was
    /// just written to, keeps to its share: else its largest connections are
    /// closed, until a part of the share is free.
    pub(super) fn keep_to_share(&mut self, id: ConnId) {
        let share = self.shared.config.write_queues_bytes_max / SOURCE_PART;
        let mut waiting = self.conns.count_unsent(id);
        if waiting <= share {
            return;
        }
        let Some(ip) = self.conns.get(id).map(|conn| conn.flow.remote.ip()) else {
            return broken!("a connection on which bytes wait is in the table");
        };
        let of_source = |conn: &&Conn| source(conn.flow.remote.ip()) == source(ip);
        let mut conns: Vec<_> = self
            .conns
            .iter()
            .filter(of_source)
            .filter(|conn| conn.counted_unsent > 0)
            .map(|conn| (conn.counted_unsent, conn.flow.conn))
            .collect();
        conns.sort_unstable_by_key(|(bytes, _)| *bytes);
        while waiting > share - share / FREED_PART
            && let Some((bytes, largest)) = conns.pop()
        {
            waiting -= bytes;
            self.drop_conn(largest, CloseReason::SlowReader);
        }
    }

    /// Sees to it that unfinished messages keep to their bound.
    pub(super) fn relieve_readers(&mut self) {
        let max = self.shared.config.read_buffers_bytes_max;
        if self.shared.kept_bytes > max {
            self.relieve(max, Conn::kept_bytes, CloseReason::Refused);
        }
    }

    /// Closes the largest connections of the source that holds most, again and
    /// again, until a part of `max` is free.
    fn relieve(&mut self, max: usize, held: fn(&Conn) -> usize, reason: CloseReason) {
        let mut of_source: HashMap<IpAddr, (usize, Vec<(usize, ConnId)>)> = HashMap::new();
        for conn in self.conns.iter() {
            let bytes = held(conn);
            if bytes > 0 {
                let (sum, conns) = of_source.entry(source(conn.flow.remote.ip())).or_default();
                *sum += bytes;
                conns.push((bytes, conn.flow.conn));
            }
        }
        let (sums, mut sources): (Vec<usize>, Vec<_>) = of_source.into_values().unzip();
        for conns in &mut sources {
            conns.sort_unstable_by_key(|(bytes, _)| *bytes);
        }
        let mut largest: BinaryHeap<(usize, usize)> = sums.into_iter().zip(0..).collect();
        let mut freed = 0;
        while freed <= max / FREED_PART
            && let Some((sum, place)) = largest.pop()
        {
            if let Some((bytes, id)) = sources.get_mut(place).and_then(Vec::pop) {
                self.give_up(id, reason);
                freed += bytes;
                largest.push((sum - bytes, place));
            }
        }
    }

    /// A stranger has sent a message on this connection that was wrong, though
    /// it was whole. One that sends many is closed.
    pub fn count_odd(&mut self, id: ConnId) {
        let now_ms = self.shared.now_ms;
        let Some(conn) = self.conns.get_mut(id) else {
            return;
        };
        if now_ms >= conn.odd_until_ms {
            conn.odd_until_ms = now_ms + ODD_WINDOW_MS;
            conn.odd = 0;
        }
        conn.odd += 1;
        // Those that had come before it is closed are answered too.
        if conn.odd == ODD_MAX + 1 {
            self.shared.counters.odd_closed += 1;
            self.close(id, true);
        }
    }
}
