//! What a worker that falls behind tells its sockets.

use super::ready::conn;
use super::{Net, Port};
use crate::sys::Shed;

/// How many of the streams that wait for their turn are asked for how long.
const LOOKED_AT: usize = 64;

impl Net {
    /// Messages received so far, and keep-alives that were answered: whoever sends these without end
    /// keeps a worker busy too.
    pub fn counters_in(&self) -> u64 {
        let counters = &self.shared.counters;
        counters.messages_in() + counters.pings + counters.websocket.pings_in
    }

    /// Whether the last turn left nothing to read; where it read streams, whether it had to wait
    /// for something to read besides.
    pub fn is_drained(&self) -> bool {
        let has_none = self.unfinished_reads.is_empty() && self.waiting_reads.is_empty();
        let has_all = has_none && self.has_seen_all;
        has_all && (self.has_rested || !self.may_more_wait())
    }

    /// Whether more may wait than [`Net::waiting_ms`] tells: with whoever sends by a stream, since
    /// there is only so much room for it here.
    pub fn may_more_wait(&self) -> bool {
        self.shared.turn_bytes > 0
    }

    /// Whether it is to be known how long datagrams wait ([`Net::waiting_ms`]). It
    /// costs something for each of them.
    pub fn time_datagrams(&mut self, is_on: bool) {
        for listener in &mut self.listeners {
            if let Port::Udp(port) = &mut listener.port {
                port.set_stamps(is_on);
            }
        }
    }

    /// How long what was read last had waited, of the socket where that is longest; `None` where
    /// nothing is left to read, or it is not known of each that has more.
    pub fn waiting_ms(&self) -> Option<u64> {
        if self.is_drained() {
            return None;
        }
        let now_ms = self.shared.now_ms;
        // Of the sockets that a turn heard nothing of it is known when it last heard of all.
        let unheard_ms = match self.has_seen_all {
            true => 0,
            false => now_ms.saturating_sub(self.all_seen_ms),
        };
        let mut longest_ms = unheard_ms.max(self.turn_ms);
        // Those that have waited for longest, whoever is read next.
        let first = self.waiting_reads.by_time().take(LOOKED_AT);
        for token in self.unfinished_reads.iter().copied().chain(first) {
            let conn = conn(token).and_then(|id| self.conns.get(id));
            let listener = self.listeners.get(token.0).map(|listener| &listener.port);
            let waiting_ms = match (conn, listener) {
                (Some(conn), _) => conn.waiting_ms(now_ms),
                (None, Some(Port::Udp(port))) => port.waiting_ms()?,
                // A connection that is gone, or one that is to come.
                (None, _) => continue,
            };
            longest_ms = longest_ms.max(waiting_ms);
        }
        Some(longest_ms)
    }

    /// Lets the kernel drop a share of the requests that begin something, before
    /// they cost anything; `None` for no more. Only datagrams: what comes by a
    /// stream must be answered.
    pub fn shed(&mut self, shed: Option<Shed>) {
        for listener in &mut self.listeners {
            if let Port::Udp(port) = &mut listener.port {
                port.shed(shed.as_ref());
            }
        }
    }
}
