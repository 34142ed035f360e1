//! Places of handshakes: what is awaited of those who hold one, and who gives his up.

use invariant::broken;
use ledger::{Component, within};
use std::net::IpAddr;

use mio::net::TcpStream;
use sip_msg::ConnId;
use sip_tls::{HandshakeError, HandshakeFailure};

use super::super::Net;
use crate::awaited::{Awaited, GRACE_MS, few};
use crate::source::source;
use crate::stream::Conn;

/// Clients that hold a place and are looked at for each newcomer: that they have spoken, and
/// nobody has listened yet, is seen only then.
const CLIENTS_LOOKED_AT_MAX: usize = 16;

impl Net {
    /// Where all places of handshakes are taken, or all that a source may have, a client that
    /// only holds one gives it to the next: to be refused for those is what they want. That may
    /// be one that has said nothing, or one that has left an answer alone.
    pub(super) fn make_a_place(&mut self, source: IpAddr) {
        let Some(pool) = &self.shared.config.handshakes else {
            return;
        };
        if pool.has_places_for_any() {
            return;
        }
        let of = if !pool.has_share_left(source) {
            Some(source)
        } else if pool.is_full() {
            None
        } else {
            return;
        };
        let Some(id) = self.client_that_gives_way(of) else {
            return;
        };
        let pool = self.shared.config.handshakes.as_ref();
        if let Some(pool) = pool.filter(|_| of.is_some()) {
            pool.count_refused_source();
        }
        self.shared.counters.displaced_handshakes += 1;
        self.end_handshake(id, HandshakeError::new(HandshakeFailure::Refused));
    }

    /// A client, of that source if any, that lets this side wait. If all that are looked at have
    /// spoken, and nobody has listened yet, it is one that has had a hearing before and had not
    /// all to say: else who says a byte at a time would have each newcomer refused.
    fn client_that_gives_way(&mut self, of: Option<IpAddr>) -> Option<ConnId> {
        let now_ms = self.shared.now_ms;
        let pool = self.shared.config.handshakes.as_ref()?;
        let (config, few) = (pool.config(), few(pool.workers()));
        let grace_ms = GRACE_MS.min(config.hello_timeout_ms).min(config.timeout_ms);
        let mut dribbles = None;
        for _ in 0..CLIENTS_LOOKED_AT_MAX {
            let next = match of {
                Some(source) => self.awaited.of_source(source, now_ms, grace_ms),
                None => self.awaited.of_all(few, now_ms, grace_ms),
            };
            let Some(id) = next else {
                break;
            };
            let conn = self.conns.get_mut(id);
            let conn = conn.filter(|conn| conn.stage.is_handshaking());
            let Some(conn) = conn else {
                broken!("a client that is waited for is in its handshake");
                self.awaited.take_out(id);
                continue;
            };
            if !conn.stage.waits_for_us() && !has_more_to_read(conn) {
                return Some(id);
            }
            // It has spoken, and waits for this side to listen.
            self.awaited.take_out(id);
            let pending = conn.stage.pending();
            if pending.is_some_and(|pending| pending.handshake.is_some() && pending.has_said_part) {
                dribbles.get_or_insert(id);
            }
        }
        dribbles
    }

    /// What was there of a client has been read and taken: what comes next is the client's to
    /// say.
    pub(super) fn wait_for_client(&mut self, id: ConnId) {
        let now_ms = self.shared.now_ms;
        let conn = self.conns.get_mut(id).filter(|conn| conn.opened.is_none());
        let Some(conn) = conn else {
            return;
        };
        if conn.stage.is_still_silent(now_ms) {
            conn.arm(&mut self.shared);
        }
        let source = source(conn.flow.remote.ip());
        let pending = conn.stage.pending();
        let Some(pending) = pending.filter(|pending| pending.handshake.is_some()) else {
            return;
        };
        let awaited = match pending.is_silent {
            true => Awaited::Hello,
            false => Awaited::Reply,
        };
        let since_ms = *pending.since_ms.get_or_insert(now_ms);
        self.awaited.put(id, source, awaited, since_ms);
    }

    /// The same, and what was there was not all that is awaited.
    pub(super) fn wait_for_more(&mut self, id: ConnId) {
        let conn = self.conns.get_mut(id);
        if let Some(pending) = conn.and_then(|conn| conn.stage.pending()) {
            pending.has_said_part = pending.since_ms.is_some();
        }
        self.wait_for_client(id);
    }

    /// A client has said hello: from the first on it has the time of a handshake.
    pub(super) fn hear_hello(&mut self, id: ConnId) {
        let (now_ms, pool) = (self.shared.now_ms, self.shared.config.handshakes.as_ref());
        let timeout_ms = pool.map_or(0, |pool| pool.config().timeout_ms);
        if let Some(conn) = self.conns.get_mut(id) {
            conn.stage.hear_hello(now_ms, timeout_ms);
        }
        // Whoever got on last goes last of those that carried nothing yet.
        self.conns.used(id, now_ms);
        self.awaited.take_out(id);
    }

    /// A client was asked for another hello, with a key that we take: until it says that, it
    /// holds its place no better than who has said nothing.
    pub(super) fn wait_for_another_hello(&mut self, id: ConnId) {
        let (now_ms, pool) = (self.shared.now_ms, self.shared.config.handshakes.as_ref());
        let wait_ms = pool.map_or(0, |pool| pool.config().hello_timeout_ms);
        if let Some(conn) = self.conns.get_mut(id) {
            conn.stage
                .wait_for_another_hello(now_ms.saturating_add(wait_ms));
            conn.arm(&mut self.shared);
        }
        self.wait_for_client(id);
    }

    /// The time of a client is over, but it has spoken, and this side has not listened: it may
    /// go on, as long as a handshake may take.
    pub(super) fn waits_to_be_heard(&mut self, id: ConnId) -> bool {
        let (now_ms, pool) = (self.shared.now_ms, self.shared.config.handshakes.as_ref());
        let timeout_ms = pool.map_or(0, |pool| pool.config().timeout_ms);
        let conn = self.conns.get_mut(id).filter(|conn| conn.opened.is_none());
        let Some(conn) = conn else {
            return false;
        };
        let has_spoken = conn.stage.waits_for_us() || has_more_to_read(conn);
        if !has_spoken || !conn.stage.wait_for_turn(now_ms, timeout_ms) {
            return false;
        }
        conn.arm(&mut self.shared);
        true
    }
}

/// Whether something came that was not read.
fn has_more_to_read(conn: &Conn) -> bool {
    let peek = |socket: &TcpStream| within(Component::Kernel, || socket.peek(&mut [0]));
    let socket = conn.socket.as_ref();
    socket.is_some_and(|socket| peek(socket).is_ok_and(|len| len > 0))
}
