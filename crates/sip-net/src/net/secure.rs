//! TLS handshakes: given to the pool, and taken back when they are over.

use std::time::Instant;

use mio::net::TcpStream;
use sip_msg::ConnId;

use super::open::register;
use super::send::mark_dirty;
use super::{Net, Owed};
use crate::handshake::{Job, Side};
use crate::{
    CloseReason, HandshakeError, HandshakeFailure, HandshakeTally, NetEvent, PeerIdentity,
};

impl Net {
    pub(super) fn begin_handshake(&mut self, id: ConnId, socket: TcpStream, side: Side) {
        let Some(conn) = self.conns.get(id) else {
            return;
        };
        let (reply, waker) = (self.handshakes.clone(), self.waker.clone());
        let job = Job {
            conn: id,
            socket,
            remote: conn.flow.remote,
            side,
            begun: Instant::now(),
            reply,
            waker,
        };
        let begun = match &self.shared.config.handshakes {
            Some(pool) => pool.begin(job),
            None => false,
        };
        if !begun {
            let error = HandshakeError::new(HandshakeFailure::Refused);
            self.handshake_failed(id, error);
        }
    }

    /// Takes back the sockets whose handshakes are over.
    pub(super) fn handle_handshakes(&mut self, on_event: &mut impl FnMut(NetEvent<'_>)) {
        while let Ok(handshaken) = self.handshaken.try_recv() {
            let id = handshaken.conn;
            if self.conns.get(id).is_none() {
                continue;
            }
            if handshaken.resumption_refused {
                self.tally(id, |tally| tally.resumptions_refused += 1);
            }
            let mut secured = match handshaken.result {
                Ok(secured) => secured,
                Err(error) => {
                    self.handshake_failed(id, error);
                    continue;
                }
            };
            if self.conns.meter.knows_names()
                && let Some(chain) = secured.session.peer_certificates()
                && let Some(peer) = chain.first().and_then(|der| PeerIdentity::from_der(der))
            {
                self.conns.prove(id, &peer.domains);
            }
            self.tally(id, |tally| tally.count(&secured.info));
            let Some(conn) = self.conns.get_mut(id) else {
                continue;
            };
            let counters = &mut self.shared.counters;
            let resumed = u64::from(secured.info.resumed.is_some());
            if conn.opened {
                counters.handshakes_out += 1;
                counters.handshakes_out_resumed += resumed;
            } else {
                counters.handshakes_in += 1;
                counters.handshakes_in_resumed += resumed;
                let listener = usize::from(conn.flow.listener.0);
                if let Some(listener) = self.listeners.get_mut(listener) {
                    listener.counters.handshakes += 1;
                    listener.counters.resumed += resumed;
                }
            }
            if register(self.poll.registry(), &mut secured.socket, id).is_err() {
                self.drop_conn(id, CloseReason::Broken);
                continue;
            }
            conn.secure(
                secured.socket,
                secured.session,
                secured.info,
                secured.sealed,
                &mut self.shared,
            );
            self.handle_open(id);
            self.tell(on_event);
            if let Some(conn) = self.conns.get_mut(id) {
                conn.take_early(&secured.plaintext, &mut self.shared, on_event);
                if conn.unsent_bytes() > 0 {
                    mark_dirty(conn, &mut self.dirty);
                }
            }
        }
    }

    /// A handshake failed, or was not begun.
    fn handshake_failed(&mut self, id: ConnId, error: HandshakeError) {
        let Some(conn) = self.conns.get(id) else {
            return;
        };
        let reason = if error.failure == HandshakeFailure::Refused {
            self.shared.counters.refused_handshakes += 1;
            CloseReason::Refused
        } else {
            self.shared.counters.handshakes_failed += 1;
            CloseReason::Handshake
        };
        let listener = usize::from(conn.flow.listener.0);
        if !conn.opened
            && let Some(listener) = self.listeners.get_mut(listener)
            && let Some(count) = listener.counters.failed.get_mut(error.failure as usize)
        {
            *count += 1;
        }
        self.tally(id, |tally| tally.count_failed(&error));
        self.owed.push_back(Owed::HandshakeFailed(id, error));
        self.drop_conn(id, reason);
    }

    /// Counts the handshake of a connection: at its listener, if it was
    /// accepted, and for its peer.
    fn tally(&mut self, id: ConnId, count: impl Fn(&mut HandshakeTally)) {
        let Some(conn) = self.conns.get(id) else {
            return;
        };
        let (listener, peer, opened) = (conn.flow.listener, conn.peer, conn.opened);
        count(self.conns.meter.tally(peer, opened));
        if opened {
            count(&mut self.opened_tls);
        } else if let Some(listener) = self.listeners.get_mut(usize::from(listener.0)) {
            count(&mut listener.counters.tls);
        }
    }
}
