//! What happens when there are too many connections.

use sip_msg::ConnId;
use sip_tls::{HandshakeError, HandshakeFailure};

use super::Net;
use crate::CloseReason;
use crate::conns::CONNS_MAX;
use crate::ranks::Class;
use crate::stream::Conn;

impl Net {
    /// A registered contact relies on a connection for so long: others are
    /// closed before it where one must make room.
    pub fn keep_for(&mut self, id: ConnId, for_ms: u64) {
        let until_ms = self.shared.now_ms.saturating_add(for_ms);
        if let Some(conn) = self.conns.get_mut(id) {
            let until = &mut conn.usefulness.bound_until_ms;
            *until = until_ms.max(*until);
            let ip = conn.flow.remote.ip();
            self.conns.used(id, self.shared.now_ms);
            let (now_ms, per_s) = (
                self.shared.now_ms,
                self.shared.config.opened_per_source_per_s,
            );
            self.open_rates.keep_for(ip, now_ms, until_ms, per_s);
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.conns.len() < self.shared.config.connections_max.min(CONNS_MAX)
    }

    /// Sees to it that there is room for one more connection: if need be the
    /// least useful one is closed. Whether there is.
    pub(super) fn make_room(&mut self) -> bool {
        if self.has_room() {
            return true;
        }
        let config = &self.shared.config;
        let (now_ms, quiet_ms) = (self.shared.now_ms, config.evict_after_ms);
        let Some((id, class)) = self.conns.least_useful(now_ms, quiet_ms) else {
            return false;
        };
        if let Some(conn) = self.conns.get_mut(id) {
            let counters = &mut self.shared.counters;
            *match class {
                Class::Unused | Class::Crowd | Class::Waiting => &mut counters.evicted_unused,
                Class::Idle | Class::Busy => &mut counters.evicted_idle,
                Class::Bound | Class::BoundBusy => &mut counters.evicted_bound,
            } += 1;
            conn.say_goodbye(&mut self.shared);
        }
        self.give_up(id, CloseReason::Evicted);
        true
    }

    /// Closes a connection for others, or ends the handshake of a client.
    pub(super) fn give_up(&mut self, id: ConnId, reason: CloseReason) {
        let is_client = |conn: &Conn| conn.opened.is_none() && conn.stage.is_handshaking();
        match self.conns.get(id).is_some_and(is_client) {
            true => {
                let error = HandshakeError::new(HandshakeFailure::Refused);
                self.end_handshake_for(id, error, reason);
            }
            false => self.drop_conn(id, reason),
        }
    }
}
