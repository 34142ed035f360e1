//! Listeners, and the connections that they accept.

use invariant::broken;
use ledger::{Component, within};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use sip_msg::{ConnId, Flow, ListenerId, Transport};
use sip_tls::ServerTls;

use super::Net;
use super::pending_event::PendingEvent;
use super::ready::register;
use crate::config::{BoundListener, Framing, NetConfig};
use crate::shared::Due;
use crate::stream::{Conn, Stage};
use crate::udp::UdpPort;
use crate::ws::{WebSocket, WebSocketListener};
use crate::{CloseReason, ListenerCounters, NetEvent};

/// Connections accepted from one listener at a time.
const ACCEPTS_MAX: usize = 64;
/// How long to leave a listener alone that could not accept.
const ACCEPT_PAUSE_MS: u64 = 200;

pub(super) struct Listener {
    pub(super) local: SocketAddr,
    pub(super) transport: Transport,
    pub(super) framing: Framing,
    pub(super) tls: Option<Arc<ServerTls>>,
    pub(super) websocket: Option<Arc<WebSocketListener>>,
    pub(super) port: Port,
    /// Whether it waits in the list of sockets with more to read.
    pub(super) has_unfinished_read: bool,
    pub(super) counters: ListenerCounters,
}

pub(super) enum Port {
    Udp(Box<UdpPort>),
    Stream(TcpListener),
    /// Does not accept, or no longer.
    Closed,
}

impl Listener {
    /// Takes a listener's socket, where it has one, and registers it with `poll`.
    pub(super) fn new(
        index: usize,
        bound: BoundListener,
        config: &NetConfig,
        poll: &Registry,
    ) -> io::Result<Self> {
        let id =
            ListenerId(u16::try_from(index).map_err(|_| io::Error::other("too many listeners"))?);
        let (local, framing, transport) =
            (bound.local, bound.config.framing, bound.config.transport);
        let port = match bound.socket {
            None => Port::Closed,
            Some(socket) if transport == Transport::Udp => {
                let mut port = UdpPort::new(id, socket, local, framing, config)?;
                port.register(poll, Token(index))?;
                Port::Udp(Box::new(port))
            }
            Some(socket) => {
                let mut listener = TcpListener::from_std(socket.into());
                poll.register(&mut listener, Token(index), Interest::READABLE)?;
                Port::Stream(listener)
            }
        };
        Ok(Self {
            local,
            transport,
            framing,
            tls: bound.config.tls,
            websocket: bound.config.websocket,
            port,
            has_unfinished_read: false,
            counters: ListenerCounters::default(),
        })
    }
}

impl Net {
    /// Stops accepting connections; datagrams and open connections go on.
    pub fn stop_accepting(&mut self) {
        for listener in &mut self.listeners {
            if matches!(listener.port, Port::Stream(_)) {
                // Dropped, it leaves the poll too, and the kernel refuses
                // connections to the port.
                listener.port = Port::Closed;
            }
        }
    }

    pub(super) fn accept(&mut self, index: usize, on_event: &mut impl FnMut(NetEvent<'_>)) {
        for _ in 0..ACCEPTS_MAX {
            let Some(Listener {
                port: Port::Stream(port),
                ..
            }) = self.listeners.get(index)
            else {
                return;
            };
            match within(Component::Kernel, || port.accept()) {
                Ok((socket, remote)) => {
                    self.admit(index, socket, remote);
                    self.emit_pending(on_event);
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

    pub(super) fn accept_again(&mut self, index: usize) {
        if let Some(listener) = self.listeners.get_mut(index)
            && !std::mem::replace(&mut listener.has_unfinished_read, true)
        {
            self.unfinished_reads.push(Token(index));
        }
    }

    /// Takes an accepted socket in, or closes it at once.
    fn admit(&mut self, index: usize, mut socket: TcpStream, remote: SocketAddr) {
        // Before TLS begins: what is refused costs no more than accepting it.
        let (now_ms, per_s) = (
            self.shared.now_ms,
            self.shared.config.opened_per_source_per_s,
        );
        if !self.open_rates.admit(remote.ip(), now_ms, per_s) {
            self.shared.counters.refused_rate += 1;
            if let Some(listener) = self.listeners.get_mut(index) {
                listener.counters.refused_rate += 1;
            }
            return;
        }
        if self.conns.count_from(remote.ip()) >= self.shared.config.connections_per_source_max {
            self.shared.counters.refused_source += 1;
            if let Some(listener) = self.listeners.get_mut(index) {
                listener.counters.refused_source += 1;
            }
            return;
        }
        if !self.make_room() {
            self.shared.counters.refused_total += 1;
            if let Some(listener) = self.listeners.get_mut(index) {
                listener.counters.refused_total += 1;
            }
            return;
        }
        let Some(listener) = self.listeners.get_mut(index) else {
            return broken!("what was accepted came from a listener in the list");
        };
        let counters = &mut self.shared.counters;
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
        let now_ms = self.shared.now_ms;
        let mut conn = Conn::new(flow, Stage::Open, listener.framing, now_ms);
        let websocket = listener.websocket.clone();
        conn.ws = websocket.map(|of| Box::new(WebSocket::of_server(of, now_ms)));
        let Some(id) = self.conns.insert(conn) else {
            counters.refused_total += 1;
            listener.counters.refused_total += 1;
            return;
        };
        counters.accepted += 1;
        listener.counters.accepted += 1;
        counters.connections += 1;
        match tls {
            Some(tls) => self.begin_server_handshake(id, socket, tls),
            None => {
                if register(self.poll.registry(), &mut socket, id).is_err() {
                    self.drop_conn(id, CloseReason::Refused);
                } else if let Some(conn) = self.conns.get_mut(id) {
                    conn.socket = Some(socket);
                    if conn.ws.is_some() {
                        conn.await_upgrade(&mut self.shared);
                    } else {
                        conn.arm(&mut self.shared);
                        self.pending_events
                            .push_back(PendingEvent::Accepted(conn.flow));
                    }
                    self.conns.used(id, self.shared.now_ms);
                } else {
                    broken!("a connection that was just added is in the table");
                }
            }
        }
    }
}
