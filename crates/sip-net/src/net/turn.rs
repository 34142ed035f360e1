//! What the kernel and the clock say, turned into events.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use mio::event::Event;
use mio::{Token, net::TcpStream};
use sip_msg::{ConnId, Flow, ListenerId};

use super::{FIRST_CONN, Listener, Net, Owed, Port, WAKER, mark_dirty, owe_failure, register};
use crate::conns::CONNS_MAX;
use crate::handshake::{Job, Side};
use crate::shared::Due;
use crate::stream::{Conn, State};
use crate::tls;
use crate::{CloseReason, HandshakeError, HandshakeFailure, HandshakeTally, NetEvent, SendError};

/// Connections accepted from one listener at a time.
const ACCEPTS_MAX: usize = 64;
/// Bytes read from streams in one turn; past it the other streams wait for the
/// next, so that what comes of them is sent first.
const TURN_BYTES: usize = 1024 * 1024;
/// How long to leave a listener alone that could not accept.
const ACCEPT_PAUSE_MS: u64 = 200;

/// What the kernel says of a socket.
#[derive(Clone, Copy)]
pub(super) struct Ready {
    token: Token,
    readable: bool,
    writable: bool,
    /// The peer sends no more.
    ending: bool,
    error: bool,
}

impl Ready {
    pub(super) fn new(event: &Event) -> Self {
        Self {
            token: event.token(),
            readable: event.is_readable(),
            writable: event.is_writable(),
            ending: event.is_read_closed(),
            error: event.is_error(),
        }
    }

    /// There was more to read than one turn allows.
    pub(super) fn more(token: Token) -> Self {
        Self {
            token,
            readable: true,
            writable: false,
            ending: false,
            error: false,
        }
    }
}

impl Net {
    /// A socket that had more to read has its turn.
    pub(super) fn begin_turn(&mut self, token: Token) {
        if let Some(place) = token.0.checked_sub(FIRST_CONN) {
            if let Some(conn) = self.conns.at_mut(place) {
                conn.again = false;
            }
        } else if let Some(listener) = self.listeners.get_mut(token.0) {
            listener.again = false;
        }
    }

    pub(super) fn handle(&mut self, ready: Ready, on_event: &mut impl FnMut(NetEvent<'_>)) {
        let token = ready.token.0;
        if ready.token == WAKER {
            self.handle_handshakes(on_event);
        } else if token >= FIRST_CONN {
            self.handle_conn(token - FIRST_CONN, ready, on_event);
        } else {
            self.handle_listener(token, ready, on_event);
        }
        // In the order in which it happened, among what comes from sockets.
        self.tell(on_event);
    }

    fn handle_listener(
        &mut self,
        index: usize,
        ready: Ready,
        on_event: &mut impl FnMut(NetEvent<'_>),
    ) {
        let Some(listener) = self.listeners.get_mut(index) else {
            return;
        };
        match &mut listener.port {
            Port::Udp(port) => {
                let counters = &mut self.shared.counters;
                let owed = &mut self.owed;
                let mut failed = |cookie, error| owe_failure(owed, cookie, error);
                if ready.error {
                    port.take_errors(counters, on_event, &mut failed);
                }
                if ready.readable
                    && port.receive(&mut self.received, counters, on_event)
                    && !std::mem::replace(&mut listener.again, true)
                {
                    self.again.push(ready.token);
                }
                if ready.writable && port.unblock() {
                    port.flush(&mut self.sending, counters, &mut failed);
                }
            }
            Port::Stream(_) => self.accept(index, on_event),
            Port::Closed => {}
        }
    }

    fn accept(&mut self, index: usize, on_event: &mut impl FnMut(NetEvent<'_>)) {
        for _ in 0..ACCEPTS_MAX {
            let Some(Listener {
                port: Port::Stream(port),
                ..
            }) = self.listeners.get(index)
            else {
                return;
            };
            match port.accept() {
                Ok((socket, remote)) => {
                    self.admit(index, socket, remote);
                    self.tell(on_event);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    // No descriptors, or no memory. The connection stays in
                    // the kernel's queue, and no event will tell of it again.
                    self.shared.counters.accept_errors += 1;
                    self.shared
                        .wheel
                        .start(self.shared.now_ms + ACCEPT_PAUSE_MS, Due::Accept(index));
                    return;
                }
            }
        }
        self.accept_again(index);
    }

    fn accept_again(&mut self, index: usize) {
        if let Some(listener) = self.listeners.get_mut(index)
            && !std::mem::replace(&mut listener.again, true)
        {
            self.again.push(Token(index));
        }
    }

    /// Takes an accepted socket in, or closes it at once.
    fn admit(&mut self, index: usize, mut socket: TcpStream, remote: SocketAddr) {
        let Some(listener) = self.listeners.get_mut(index) else {
            return;
        };
        let counters = &mut self.shared.counters;
        if self.conns.len() >= self.shared.config.connections_max.min(CONNS_MAX) {
            counters.refused_total += 1;
            return;
        }
        if self.conns.count_from(remote.ip()) >= self.shared.config.connections_per_source_max {
            counters.refused_source += 1;
            return;
        }
        let mut local = listener.local;
        if local.ip().is_unspecified() {
            local = socket.local_addr().unwrap_or(local);
        }
        let listener_id = ListenerId(u16::try_from(index).unwrap_or(u16::MAX));
        let flow = Flow {
            transport: listener.transport,
            listener: listener_id,
            local,
            remote,
            conn: ConnId::NONE,
        };
        let tls = listener.tls.clone();
        let state = if tls.is_some() {
            State::Handshaking
        } else {
            State::Open
        };
        let conn = Conn::new(flow, state, listener.framing, self.shared.now_ms);
        let Some(id) = self.conns.insert(conn) else {
            counters.refused_total += 1;
            return;
        };
        counters.accepted += 1;
        listener.counters.accepted += 1;
        counters.connections += 1;
        match tls {
            Some(tls) => self.begin_handshake(id, socket, Side::Server(tls)),
            None => {
                if register(self.poll.registry(), &mut socket, id).is_err() {
                    self.drop_conn(id, CloseReason::Refused);
                } else if let Some(conn) = self.conns.get_mut(id) {
                    conn.socket = Some(socket);
                    conn.arm(&mut self.shared);
                    self.owed.push_back(Owed::Accepted(conn.flow));
                }
            }
        }
    }

    fn handle_conn(&mut self, place: usize, ready: Ready, on_event: &mut impl FnMut(NetEvent<'_>)) {
        let Some(conn) = self.conns.at_mut(place) else {
            return;
        };
        let id = conn.flow.conn;
        if conn.state == State::Connecting {
            if ready.writable || ready.error {
                self.handle_connected(id);
            }
            return;
        }
        conn.ending |= ready.ending;
        if ready.writable
            && conn.unblock()
            && conn.unsent_bytes() > 0
            && let Err(reason) = conn.flush(&mut self.shared)
        {
            self.drop_conn(id, reason);
            return;
        }
        if ready.readable || ready.ending || ready.error {
            let result = if self.shared.turn_bytes < TURN_BYTES {
                conn.read(&mut self.shared, on_event)
            } else {
                Ok(true)
            };
            match result {
                Ok(more) => {
                    let deaf = conn.state == State::Deaf;
                    if more && !std::mem::replace(&mut conn.again, true) {
                        self.again.push(ready.token);
                    }
                    if conn.unsent_bytes() > 0 {
                        mark_dirty(conn, &mut self.dirty);
                    }
                    if deaf {
                        // No request of ours may choose it any more.
                        self.conns.forget_peer(id);
                    }
                }
                Err(reason) => {
                    let reason = conn.closed_for(reason);
                    self.drop_conn(id, reason);
                }
            }
        }
    }

    /// A connection that is being opened is up, or is not.
    fn handle_connected(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else {
            return;
        };
        let Some(socket) = &conn.socket else {
            return;
        };
        let failed = !matches!(socket.take_error(), Ok(None));
        if failed {
            self.drop_conn(id, CloseReason::ConnectFailed);
            return;
        }
        if let Err(error) = socket.peer_addr() {
            if error.kind() != io::ErrorKind::NotConnected {
                self.drop_conn(id, CloseReason::ConnectFailed);
            }
            return;
        }
        if !conn.flow.transport.is_secure() {
            self.handle_open(id);
            return;
        }
        let name = tls::server_name(conn.tls_name.as_deref(), conn.flow.remote.ip());
        let own = conn.client_tls.as_ref();
        let tls = own.or(self.shared.config.client_tls.as_ref()).cloned();
        let (Some(name), Some(tls), Some(mut socket)) = (name, tls, conn.socket.take()) else {
            self.drop_conn(id, CloseReason::Handshake);
            return;
        };
        conn.state = State::Handshaking;
        conn.deadline_ms = u64::MAX;
        if self.poll.registry().deregister(&mut socket).is_err() {
            self.drop_conn(id, CloseReason::Handshake);
            return;
        }
        self.begin_handshake(id, socket, Side::Client { tls, name });
    }

    fn begin_handshake(&mut self, id: ConnId, socket: TcpStream, side: Side) {
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
    fn handle_handshakes(&mut self, on_event: &mut impl FnMut(NetEvent<'_>)) {
        while let Ok(handshaken) = self.handshaken.try_recv() {
            let id = handshaken.conn;
            if self.conns.get(id).is_none() {
                continue;
            }
            if handshaken.resumption_refused
                && let Some(tally) = self.tally(id)
            {
                tally.resumptions_refused += 1;
            }
            let mut secured = match handshaken.result {
                Ok(secured) => secured,
                Err(error) => {
                    self.handshake_failed(id, error);
                    continue;
                }
            };
            if let Some(tally) = self.tally(id) {
                tally.count(&secured.info);
            }
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
        if let Some(tally) = self.tally(id) {
            tally.count_failed(&error);
        }
        self.owed.push_back(Owed::HandshakeFailed(id, error));
        self.drop_conn(id, reason);
    }

    /// Where the handshake of a connection is counted: at its listener, if it
    /// was accepted.
    fn tally(&mut self, id: ConnId) -> Option<&mut HandshakeTally> {
        let conn = self.conns.get(id)?;
        if conn.opened {
            return Some(&mut self.opened_tls);
        }
        let listener = self.listeners.get_mut(usize::from(conn.flow.listener.0))?;
        Some(&mut listener.counters.tls)
    }

    /// A connection carries messages from now on.
    fn handle_open(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else {
            return;
        };
        conn.open(&mut self.shared);
        if conn.opened {
            self.shared.counters.opened += 1;
            self.owed.push_back(Owed::Opened(conn.flow));
        } else {
            self.owed.push_back(Owed::Accepted(conn.flow));
        }
        let result = conn.flush(&mut self.shared);
        let result = if conn.close_when_open && result.is_ok() {
            conn.begin_to_close(&mut self.shared)
        } else {
            result
        };
        if let Err(reason) = result {
            self.drop_conn(id, reason);
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
                    if let Some(conn) = self.conns.get_mut(id)
                        && let Some(reason) = conn.handle_timer(&mut self.shared)
                    {
                        self.drop_conn(id, reason);
                    }
                }
            }
        }
        self.shared.due = due;
    }

    /// A connection is gone.
    pub(super) fn drop_conn(&mut self, id: ConnId, reason: CloseReason) {
        let Some(mut conn) = self.conns.remove(id) else {
            return;
        };
        let counters = &mut self.shared.counters;
        counters.connections -= 1;
        if let Some(count) = counters.closed.get_mut(reason as usize) {
            *count += 1;
        }
        if conn.opened && !conn.was_open {
            counters.open_failed += 1;
        }
        for cookie in conn.unsent_cookies() {
            owe_failure(&mut self.owed, cookie, SendError::Closed(reason));
        }
        conn.release(&mut self.shared);
        self.owed.push_back(Owed::Closed(id, reason));
    }
}
