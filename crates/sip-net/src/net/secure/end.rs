//! How handshakes end, and what is counted of them.

use invariant::broken;
use sip_msg::ConnId;
use sip_tls::{Handshake, HandshakeError, HandshakeFailure, HandshakeTally, TlsVersion};
use socket2::SockRef;

use super::super::Net;
use super::super::pending_event::PendingEvent;
use super::{EARLY_BYTES, TURN_COST};
use crate::stream::{Ending, Pending};
use crate::{CloseReason, NetEvent};

impl Net {
    /// A handshake is done: the connection carries data.
    pub(super) fn complete(
        &mut self,
        id: ConnId,
        pending: &Pending,
        mut handshake: Handshake,
        on_event: &mut impl FnMut(NetEvent<'_>),
    ) -> Result<(), HandshakeError> {
        self.awaited.take_out(id);
        self.count_refused_resumption(id, &handshake);
        let (session, info) = handshake
            .finish()
            .map_err(|error| handshake.account(error))?;
        pending.place.count_done();
        let peer = handshake.verified_peer(&session);
        if self.conns.meter.knows_names()
            && let Some(peer) = &peer
        {
            self.conns.prove(id, peer.domains());
        }
        self.tally(id, |tally| tally.count(&info));
        let Some(conn) = self.conns.get_mut(id) else {
            return broken!("a connection is there while its handshake is", Ok(()));
        };
        let counters = &mut self.shared.counters;
        let resumed = u64::from(info.resumed.is_some());
        if conn.opened.is_some() {
            counters.handshakes_out += 1;
            counters.handshakes_out_resumed += resumed;
        } else {
            counters.handshakes_in += 1;
            counters.handshakes_in_resumed += resumed;
        }
        if let Some(peer) = peer {
            conn.ends_with(&peer, self.shared.now_ms, self.clock.unix_ms());
            self.recheck.secured(id, &info, self.shared.now_ms);
            self.pending_events
                .push_back(PendingEvent::Verified(conn.flow, peer));
        }
        // In TLS 1.3 a server's last flight holds only tickets. It may wait for the
        // answer to a request that has come already, but not for a request: Nagle's
        // algorithm lets none go before the client's last flight is acknowledged.
        let pool = self.shared.config.handshakes.as_ref();
        let is_calm = pool.is_some_and(|pool| !pool.is_storm());
        let has_asked = !handshake.plaintext.is_empty();
        let may_wait =
            conn.opened.is_none() && info.version == TlsVersion::V13 && is_calm && has_asked;
        if conn.opened.is_none()
            && !has_asked
            && handshake.output.is_empty()
            && let Some(socket) = &conn.socket
        {
            // With nothing to send beside it the acknowledgement would wait. It
            // only comes later where this fails.
            let _ = SockRef::from(socket).set_tcp_quickack(true);
        }
        conn.count_handshake(0, &mut self.shared);
        let (sealed, unsent) = (handshake.input, handshake.output);
        conn.secure(session, info, sealed, unsent, &mut self.shared);
        if may_wait {
            conn.hold(&self.shared);
        }
        self.handle_open(id);
        self.emit_pending(on_event);
        if let Some(conn) = self.conns.get_mut(id) {
            conn.take_early(&handshake.plaintext, &mut self.shared, on_event);
            let cost = u32::try_from(handshake.plaintext.len() / EARLY_BYTES);
            self.shared.turn_cost += cost.unwrap_or(TURN_COST);
            let has_moved = conn.usefulness.has_moved;
            let parts = conn.stage.ending() == Some(Ending::LastWord);
            if conn.is_to_be_flushed() {
                conn.mark_to_flush(&mut self.to_flush);
            }
            if has_moved {
                self.conns.used(id, self.shared.now_ms);
            }
            if parts {
                self.part(id);
            }
        }
        Ok(())
    }

    /// A handshake ends without success.
    pub(in crate::net) fn end_handshake(&mut self, id: ConnId, error: HandshakeError) {
        let reason = match error.failure {
            HandshakeFailure::Refused => CloseReason::Refused,
            _ => CloseReason::Handshake,
        };
        self.end_handshake_for(id, error, reason);
    }

    /// The same for a reason that is not the handshake's own.
    pub(in crate::net) fn end_handshake_for(
        &mut self,
        id: ConnId,
        error: HandshakeError,
        reason: CloseReason,
    ) {
        let Some(pending) = self
            .conns
            .get_mut(id)
            .and_then(|conn| conn.stage.take_pending())
        else {
            return;
        };
        let mut error = HandshakeError {
            wall_us: u64::try_from(pending.begun.elapsed().as_micros()).unwrap_or(u64::MAX),
            ..error
        };
        if let Some(handshake) = &pending.handshake {
            self.count_refused_resumption(id, handshake);
            error = handshake.account(error);
        }
        pending.place.count_failed(&error);
        drop(pending);
        self.handshake_failed(id, error, reason);
    }

    fn count_refused_resumption(&mut self, id: ConnId, handshake: &Handshake) {
        if handshake.is_resumption_refused() {
            self.tally(id, |tally| tally.resumptions_refused += 1);
        }
    }

    /// A handshake failed, or was not begun.
    pub(super) fn handshake_failed(
        &mut self,
        id: ConnId,
        error: HandshakeError,
        reason: CloseReason,
    ) {
        if self.conns.get(id).is_none() {
            return;
        }
        let counters = &mut self.shared.counters;
        match (error.failure, reason) {
            (HandshakeFailure::Refused, CloseReason::Refused) => counters.refused_handshakes += 1,
            // Counted by that reason.
            (HandshakeFailure::Refused, _) => {}
            _ => counters.handshakes_failed += 1,
        }
        self.tally(id, |tally| tally.count_failed(&error));
        if let Some(opened) = self.conns.get_mut(id).and_then(|conn| conn.opened.as_mut()) {
            opened.is_name_unproved = is_of_the_name(error.failure);
        }
        self.pending_events
            .push_back(PendingEvent::HandshakeFailed(id, error));
        self.drop_conn(id, reason);
    }

    /// Counts the handshake of a connection: at its listener, if it was
    /// accepted, and for its peer.
    fn tally(&mut self, id: ConnId, count: impl Fn(&mut HandshakeTally)) {
        let Some(conn) = self.conns.get(id) else {
            return broken!("a handshake is counted before its connection goes");
        };
        let (listener, peer, opened) = (conn.flow.listener, conn.peer, conn.opened.is_some());
        count(self.conns.meter.tally(peer, opened));
        if opened {
            count(&mut self.opened_tls);
        } else if let Some(listener) = self.listeners.get_mut(usize::from(listener.0)) {
            count(&mut listener.counters.tls);
        }
    }
}

/// Whether a failure may be of the name that was asked for, and another one be served well: a
/// certificate that does not prove it, and whatever a server says or does to a name that it does
/// not know.
const fn is_of_the_name(failure: HandshakeFailure) -> bool {
    match failure {
        HandshakeFailure::BadCertificate
        | HandshakeFailure::Incompatible
        | HandshakeFailure::CertificateRefused
        | HandshakeFailure::Broken
        | HandshakeFailure::Cut => true,
        HandshakeFailure::TimedOut | HandshakeFailure::Refused => false,
    }
}
