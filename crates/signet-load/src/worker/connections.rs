//! Connections come up and go.

use invariant::broken;
use measure::Failure;
use sip_msg::{ConnId, Flow};

use super::{Due, Stage, Worker};
use crate::clock::to_ms;
use crate::settings::Lifetime;

/// How long until a lost connection is opened again, at least.
pub(super) const REOPEN_MS: u64 = 500;

impl Worker {
    pub(super) fn handle_opened(&mut self, at_ns: u64, flow: &Flow) {
        // What was asked for while the connection was being opened is written only now.
        for what in self.waiting.take(flow.conn) {
            self.mark_sent(what, at_ns);
        }
        if flow.conn == self.shared_conn {
            let was_connected = self.shared_conn_local.replace(flow.local).is_some();
            let since_ns = std::mem::take(&mut self.shared_since_ns);
            // It was opened for the first seat.
            self.note_opened(0, flow.conn, since_ns, was_connected, at_ns);
            self.record.upkeep.reopened += u64::from(was_connected);
            return;
        }
        let Some(number) = self.seats.of_conn(flow.conn) else {
            return;
        };
        let Some(seat) = self.seats.at_mut(number) else {
            return broken!("seats are never taken away");
        };
        let since_ns = std::mem::take(&mut seat.opening_since_ns);
        let was_connected = std::mem::replace(&mut seat.was_connected, true);
        let has_resumed = self.note_opened(number, flow.conn, since_ns, was_connected, at_ns);
        self.storm_connected(number, has_resumed, at_ns);
        if self.shared.settings.lifetime == Lifetime::Agent {
            self.record.upkeep.reopened += u64::from(self.seats.is_ready(number));
            self.newly_open.push((number, flow.local));
        }
    }

    /// Takes the figures of a connection that is up; whether it resumed a session.
    fn note_opened(
        &mut self,
        number: u32,
        conn: ConnId,
        since_ns: u64,
        was_connected: bool,
        at_ns: u64,
    ) -> bool {
        let wants_resumption = self
            .seats
            .at(number)
            .is_some_and(|seat| seat.wants_resumption);
        let Some(info) = self.net.tls_info(conn) else {
            self.record.connects.record(since_ns, since_ns, at_ns);
            return false;
        };
        let has_resumed = info.resumed.is_some();
        let handshakes = &mut self.record.handshakes;
        // The first one has nothing to resume, of each agent that keeps its own sessions.
        let has_session = if self.identities.is_empty() {
            handshakes.full > 0
        } else {
            was_connected
        };
        if wants_resumption && !has_resumed && has_session {
            handshakes.resumption_refused += 1;
        }
        handshakes.cpu_ns += info.cpu_us * 1_000;
        handshakes.done(has_resumed, since_ns, since_ns, at_ns);
        self.record.note_tls(info);
        has_resumed
    }

    /// Agents whose connections have come up register, or register again. Only
    /// when all inputs of this turn are handled: a request that begins takes
    /// the number of one that has ended, whose end must have been handled.
    pub(super) fn welcome(&mut self, now_ns: u64) {
        let mut newly_open = std::mem::take(&mut self.newly_open);
        for (number, local) in newly_open.drain(..) {
            if !self.seats.is_ready(number) {
                self.seat_on(number, local, now_ns);
                continue;
            }
            let conn = self.seats.at(number).map_or(ConnId::NONE, |seat| seat.conn);
            self.move_seat(number, conn, local);
            if self.shared.settings.register_first
                && !self.register(number, super::jobs::Purpose::Refresh, now_ns)
            {
                self.refresh_soon(number, now_ns);
            }
        }
        self.newly_open = newly_open;
    }

    pub(super) fn handle_closed(&mut self, conn: ConnId, why: &'static str) {
        self.waiting.take(conn);
        let is_over = matches!(self.stage, Stage::HangingUp | Stage::Closing);
        if conn == self.shared_conn {
            self.shared_conn = ConnId::NONE;
            self.shared_since_ns = 0;
            if !is_over {
                self.record.upkeep.causes.add(Failure::Other(why));
            }
            return;
        }
        let was_opening = self
            .seats
            .of_conn(conn)
            .and_then(|number| self.seats.at(number))
            .is_some_and(|seat| seat.opening_since_ns > 0);
        let Some(number) = self.seats.lose_conn(conn) else {
            return;
        };
        // It came up in this very turn, and nothing was sent on it.
        let is_new = self.newly_open.iter().any(|(other, _)| *other == number);
        if self.shared.settings.lifetime != Lifetime::Agent || is_over {
            return;
        }
        if self.seats.is_ready(number) {
            self.storm_try_failed(number);
            self.record.upkeep.causes.add(Failure::Other(why));
            // Until it is registered anew: nobody reaches it at the contact that is bound.
            if let Some(seat) = self.seats.at_mut(number) {
                seat.is_lost |= self.shared.settings.register_first;
            }
            if self.is_kept_up(number) {
                let after_ms = self.dice.u64(REOPEN_MS..2 * REOPEN_MS);
                let now_ms = to_ms(self.clock.now_ns());
                self.agenda.start(now_ms + after_ms, Due::Reopen(number));
            }
        } else if self.stage == Stage::SetUp && (was_opening || is_new) {
            self.newly_open.retain(|(other, _)| *other != number);
            self.set_up_failed(number, Failure::Other(why));
        }
    }
}
