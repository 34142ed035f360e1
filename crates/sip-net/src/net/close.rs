//! The ends of connections.

use std::time::Duration;

use ledger::{Component, within};
use sip_msg::ConnId;
use socket2::SockRef;

use super::Net;
use super::pending_event::{PendingEvent, push_failure};
use crate::stream::{Ending, Opened, Stage};
use crate::{CloseReason, SendError};

impl Net {
    /// Closes a connection, now or after what is queued on it was written. In
    /// the second case a TLS peer is told so (close_notify).
    pub fn close(&mut self, id: ConnId, after_flush: bool) {
        self.forget(id);
        let Some(conn) = self.conns.get_mut(id) else {
            return;
        };
        if !after_flush {
            let reason = match conn.stage {
                Stage::Closing {
                    reason,
                    ending: Ending::ReadStopped | Ending::Answering | Ending::LastWord,
                    ..
                } => reason,
                _ => CloseReason::Asked,
            };
            self.drop_conn(id, reason);
        } else if let Err(reason) = conn.begin_to_close(CloseReason::Asked, &mut self.shared) {
            self.drop_conn(id, reason);
        }
    }

    /// What came on a connection has ended it: it is closed behind its last word. A
    /// request of ours that was not granted has none, and what waited for the answer
    /// is not sent.
    pub(super) fn part(&mut self, id: ConnId) {
        let has_word = self.conns.get(id).is_some_and(|conn| !conn.is_asking());
        self.close(id, has_word);
    }

    /// The call that [`sip_msg::Lane::Call`] gave this number has ended: its own
    /// connections are closed after what is queued on them was written.
    pub fn end_call(&mut self, call: u64) {
        for id in self.conns.all_of_call(call) {
            self.close(id, true);
        }
    }

    /// Breaks a connection off: it is reset, what is queued on it is lost, and
    /// a TLS peer is told nothing.
    pub fn abort(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(id)
            && let Some(socket) = &conn.socket
        {
            // Fails only if the connection has ended already.
            let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
        }
        self.drop_conn(id, CloseReason::Asked);
    }

    /// Closes every connection, now or after what is queued on it was written.
    pub fn close_all(&mut self, after_flush: bool) {
        for id in self.conns.ids() {
            self.close(id, after_flush);
        }
    }

    /// Closes a connection that was silent for too long, politely.
    pub(super) fn close_idle(&mut self, id: ConnId) {
        self.forget(id);
        if let Some(conn) = self.conns.get_mut(id)
            && let Err(reason) = conn.begin_to_close(CloseReason::Idle, &mut self.shared)
        {
            self.drop_conn(id, reason);
        }
    }

    /// A connection is gone.
    pub(super) fn drop_conn(&mut self, id: ConnId, reason: CloseReason) {
        self.forget(id);
        self.awaited.take_out(id);
        let Some(mut conn) = self.conns.remove(id) else {
            return;
        };
        self.waiting_reads.forget(&mut conn);
        let counters = &mut self.shared.counters;
        counters.connections -= 1;
        if let Some(count) = counters.closed.get_mut(reason as usize) {
            *count += 1;
        }
        if conn.opened.as_ref().is_some_and(|opened| !opened.was_open) {
            counters.open_failed += 1;
            let is_of_ours = matches!(
                reason,
                CloseReason::Asked | CloseReason::Refused | CloseReason::Evicted
            );
            if !is_of_ours {
                let max_ms = self.shared.config.reopen_backoff_max_ms;
                // A name that is not known there holds off nobody else's.
                let is_unproved = |opened: &&Opened| opened.is_name_unproved;
                let by_name = conn.opened.as_deref().filter(is_unproved);
                let name = by_name.and_then(|opened| opened.tls_name.clone());
                let peer = (conn.flow.transport, conn.flow.remote, name);
                self.backoff.failed(peer, self.shared.now_ms, max_ms);
            }
        }
        let mut lost = 0;
        for (cookie, was_written) in conn.open_cookies(&self.shared) {
            let error = if was_written {
                lost += 1;
                SendError::Lost
            } else {
                SendError::Closed(reason)
            };
            push_failure(&mut self.pending_events, cookie, error);
        }
        self.shared.counters.lost += lost;
        conn.release(&mut self.shared);
        within(Component::Kernel, || drop(conn.socket.take()));
        self.pending_events
            .push_back(PendingEvent::Closed(id, reason));
    }
}
