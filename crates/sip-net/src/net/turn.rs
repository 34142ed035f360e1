//! What the kernel and the clock say, turned into events.

use invariant::broken;
use mio::Token;
use sip_msg::ConnId;

use super::pending_event::{PendingEvent, push_failure};
use super::ready::{Ready, WAKER, conn};
use super::{Net, Port, beside};
use crate::shared::Due;
use crate::stream::{Ending, Stage};
use crate::{CloseReason, NetEvent, UpgradeFault};

/// Bytes read in one turn from streams that others opened; past it the rest of these streams
/// wait for the next, so that what comes of them is sent first.
pub(super) const TURN_BYTES: usize = 128 * 1024;
/// What a read of a stream that has waited counts for at least in that: with the smallest messages
/// it is no more than they have, and however little many have, they do not make a turn long.
const READ_BYTES_MIN: usize = 256;
/// The same for streams that this side opened: what comes on them mostly belongs to what has
/// begun.
const OPENED_TURN_BYTES: usize = 1024 * 1024;

impl Net {
    /// A socket that had more to read has its turn.
    pub(super) fn begin_turn(&mut self, token: Token) {
        if let Some(id) = conn(token) {
            if let Some(conn) = self.conns.get_mut(id) {
                conn.has_unfinished_read = false;
            }
        } else if let Some(listener) = self.listeners.get_mut(token.0) {
            listener.has_unfinished_read = false;
        }
    }

    /// Streams that waited for their turn have it. Whoever waits behind those that are read now is
    /// not looked at.
    pub(super) fn read_waiting(&mut self, on_event: &mut impl FnMut(NetEvent<'_>)) {
        self.waiting_reads.begin_turn();
        while self.turn_left > 0
            && let Some(token) = self.waiting_reads.take_next()
        {
            match conn(token).and_then(|id| self.conns.get_mut(id)) {
                Some(conn) => {
                    conn.has_unfinished_read = false;
                    conn.waits_at = None;
                }
                None => broken!("a stream that waits for its turn is open"),
            }
            let before = self.shared.turn_bytes;
            self.handle(Ready::more(token), on_event);
            let bytes = self.shared.turn_bytes - before;
            self.waiting_reads.was_read(bytes);
            let uncounted = READ_BYTES_MIN.saturating_sub(bytes);
            self.turn_left = self.turn_left.saturating_sub(uncounted);
        }
    }

    pub(super) fn handle(&mut self, ready: Ready, on_event: &mut impl FnMut(NetEvent<'_>)) {
        if let Some(id) = conn(ready.token) {
            self.handle_conn(id, ready, on_event);
        } else if let Some(place) = beside::index_of(ready.token) {
            self.handle_beside(place, ready, on_event);
        } else if ready.token != WAKER {
            self.handle_listener(ready.token.0, ready, on_event);
        }
        // In the order in which it happened, among what comes from sockets.
        self.emit_pending(on_event);
    }

    /// Whether it is about a connection whose handshake is under way.
    pub(super) fn is_handshaking(&self, ready: &Ready) -> bool {
        conn(ready.token)
            .and_then(|id| self.conns.get(id))
            .is_some_and(|conn| conn.stage.is_handshaking())
    }

    fn handle_listener(
        &mut self,
        index: usize,
        ready: Ready,
        on_event: &mut impl FnMut(NetEvent<'_>),
    ) {
        let Some(listener) = self.listeners.get_mut(index) else {
            return broken!("a listener's token is its place in the list");
        };
        match &mut listener.port {
            Port::Udp(port) => {
                let counters = &mut self.shared.counters;
                let pending = &mut self.pending_events;
                let mut failed = |cookie, error| push_failure(pending, cookie, error);
                if ready.error {
                    port.take_errors(counters, on_event, &mut failed);
                }
                if ready.readable
                    && port.receive(&mut self.received, counters, on_event)
                    && !std::mem::replace(&mut listener.has_unfinished_read, true)
                {
                    self.unfinished_reads.push(ready.token);
                }
                if ready.writable && port.unblock() {
                    port.flush(&mut self.sending, counters, &mut failed);
                }
            }
            Port::Stream(_) => self.accept(index, on_event),
            Port::Closed => {}
        }
    }

    fn handle_conn(
        &mut self,
        id: ConnId,
        mut ready: Ready,
        on_event: &mut impl FnMut(NetEvent<'_>),
    ) {
        let Some(conn) = self.conns.get_mut(id) else {
            return;
        };
        match conn.stage {
            Stage::Connecting { .. } => {
                if ready.writable || ready.error {
                    self.handle_connected(id, on_event);
                }
                return;
            }
            Stage::Handshaking { .. } => {
                self.drive_handshake(id, ready, on_event);
                return;
            }
            Stage::Upgrading { .. } | Stage::Open | Stage::Closing { .. } => {}
        }
        conn.peer_ended |= ready.peer_ended;
        if ready.writable && conn.unblock() && conn.unsent_bytes() > 0 {
            if let Err(reason) = conn.flush(&mut self.shared) {
                self.drop_conn(id, reason);
                return;
            }
            self.conns.count_unsent(id);
        }
        let Some(conn) = self.conns.get_mut(id) else {
            return;
        };
        if conn.is_backed_up(&self.shared.config) && !ready.error {
            if (ready.readable || ready.peer_ended) && !std::mem::replace(&mut conn.is_unread, true)
            {
                self.shared.counters.reads_paused += 1;
            }
            // From here on it waits for its peer.
            conn.forget_backlog();
            return;
        }
        ready.readable |= std::mem::take(&mut conn.is_unread);
        if ready.readable || ready.peer_ended || ready.error {
            let was_asking = conn.is_asking();
            let asked = was_asking.then(|| {
                (
                    conn.flow.transport,
                    conn.flow.remote,
                    conn.tls_name().cloned(),
                )
            });
            let is_opened = conn.opened.is_some();
            let waits = match is_opened {
                true => self.opened_bytes >= OPENED_TURN_BYTES,
                false => self.turn_left == 0,
            };
            let before = self.shared.turn_bytes;
            let result = if waits {
                conn.leave_unread(0, self.shared.now_ms);
                Ok(true)
            } else {
                conn.read(&mut self.shared, on_event)
            };
            let bytes = self.shared.turn_bytes - before;
            match is_opened {
                true => self.opened_bytes += bytes,
                false => self.turn_left = self.turn_left.saturating_sub(bytes),
            }
            match result {
                Ok(more) => {
                    let ending = conn.stage.ending();
                    let is_upgraded = was_asking && conn.stage.is_open();
                    if more && !std::mem::replace(&mut conn.has_unfinished_read, true) {
                        // Whoever had no turn comes before who had one.
                        match (waits, is_opened) {
                            (false, _) => self.read_on.push(ready.token),
                            (true, true) => self.unfinished_reads.push(ready.token),
                            (true, false) => self.waiting_reads.put(conn),
                        }
                    }
                    if conn.is_to_be_flushed() {
                        conn.mark_to_flush(&mut self.to_flush);
                    }
                    let is_unused = !conn.usefulness.has_carried;
                    if conn.usefulness.has_moved {
                        self.conns.used(id, self.shared.now_ms);
                    } else if is_unused && (!waits || ready.error) {
                        // It has been heard, or has broken off: no place is kept for that.
                        if waits {
                            conn.usefulness.heard(self.shared.now_ms);
                        }
                        self.conns.put_back(id, self.shared.now_ms);
                    }
                    if matches!(ending, Some(Ending::ReadStopped | Ending::LastWord)) {
                        // No request of ours may choose it any more.
                        self.forget(id);
                    }
                    if ending == Some(Ending::LastWord) {
                        self.part(id);
                    }
                    if is_upgraded && let Some(peer) = asked {
                        self.backoff.opened(peer);
                    }
                    self.relieve_readers();
                }
                Err(reason) => {
                    let reason = conn.closed_for(reason);
                    self.drop_conn(id, reason);
                }
            }
        }
    }

    pub(super) fn handle_timers(&mut self) {
        let mut due = std::mem::take(&mut self.shared.due);
        self.shared
            .wheel
            .advance(self.shared.now_ms, |key| due.push(key));
        for key in due.drain(..) {
            match key {
                Due::Accept(index) => self.accept_again(index),
                Due::Conn(id) => {
                    let Some(conn) = self.conns.get_mut(id) else {
                        continue;
                    };
                    match conn.handle_timer(&mut self.shared) {
                        Some(_) if conn.stage.is_handshaking() => {
                            self.handshake_timed_out(id);
                        }
                        Some(CloseReason::Idle) if conn.stage.is_open() => self.close_idle(id),
                        Some(CloseReason::Upgrade) if conn.is_asking() => {
                            let failed = PendingEvent::UpgradeFailed(id, UpgradeFault::TimedOut);
                            self.pending_events.push_back(failed);
                            self.drop_conn(id, CloseReason::Upgrade);
                        }
                        Some(reason) => self.drop_conn(id, reason),
                        None if conn.is_to_be_flushed() => conn.mark_to_flush(&mut self.to_flush),
                        None => {}
                    }
                }
            }
        }
        self.shared.due = due;
    }
}
