//! What is sent: queued for its socket, then written with few system calls.

use std::net::SocketAddr;
use std::sync::Arc;

use sip_msg::{ConnId, Lane, Outbox, Target, Transport};
use sip_tls::host_address;

use super::open::OpenReason;
use super::pending_event::push_failure;
use super::{Net, Port};
use crate::conns::Peer;
use crate::shared::traffic;
use crate::stream::Conn;
use crate::{CloseReason, SendError};

/// Bytes queued on a connection before they are written without being asked to.
const WRITE_AT_BYTES: usize = 65_536;

impl Net {
    /// Queues a message; [`Net::flush`] writes it. Failures are reported by
    /// the next `poll`, to a `cookie` that is not 0. A connection of another
    /// worker counts as gone: send through that worker.
    pub fn send(&mut self, to: &Target, bytes: &[u8], cookie: u64) {
        let result = if to.transport == Transport::Udp {
            self.send_datagram(to, bytes, cookie)
        } else {
            self.send_on_stream(to, bytes, cookie)
        };
        if let Err(error) = result {
            push_failure(&mut self.pending_events, cookie, error);
        }
    }

    /// Queues everything in `outbox`, in order.
    pub fn send_outbox(&mut self, outbox: &Outbox) {
        for send in &outbox.sends {
            if let Some(bytes) = outbox.bytes.get(send.start..send.end) {
                self.send(&send.to, bytes, send.cookie);
            }
        }
    }

    /// The addresses from which and to which a message leaves that was just queued for `to`: of
    /// the connection that took it, whose peer may have another port than `to` says, or of the
    /// listener whose datagram it is. The first is unspecified for a datagram where the listener
    /// has all addresses and the route decides. `None` where nothing took it.
    pub fn ends_for(&self, to: &Target) -> Option<(SocketAddr, SocketAddr)> {
        if to.transport != Transport::Udp {
            let conn = self.known_conn(to)?;
            return Some((conn.flow.local, conn.flow.remote));
        }
        let listener = self.listeners.get(usize::from(to.listener.0))?;
        let mut local = listener.local;
        let is_datagram = matches!(&listener.port, Port::Udp(_));
        if !is_datagram || local.is_ipv4() != to.remote.is_ipv4() {
            return None;
        }
        if let Some(ip) = to.local.filter(|_| local.ip().is_unspecified()) {
            local.set_ip(ip);
        }
        Some((local, to.remote))
    }

    /// The connection to a target that there is.
    fn known_conn(&self, to: &Target) -> Option<&Conn> {
        let named = self.conns.get(to.conn);
        if let Some(conn) = named.filter(|conn| to.conn.is_some() && conn.takes_messages()) {
            return Some(conn);
        }
        let (call, lane) = call_and_lane(to.lane);
        let of_call = || self.conn_of_call(call?, to);
        let id = of_call().or_else(|| self.conns.by_peer(&peer_of(to, lane)));
        self.conns.get(id.filter(|_| to.may_open)?)
    }

    /// The connection of a call's own that a message to `to` takes.
    fn conn_of_call(&self, call: u64, to: &Target) -> Option<ConnId> {
        let counts = |conn: &Conn| self.is_called_alike(conn, to);
        self.conns.by_call(call, to, counts)
    }

    /// Whether what the peer of a connection has proved counts for the name that is called now,
    /// which is another: where both are called by the same settings, or where it is the peer's own
    /// address. Who is believed by roots of its own is believed by them for its own name alone.
    fn is_called_alike(&self, conn: &Conn, to: &Target) -> bool {
        let Some(peers) = &self.shared.config.peers else {
            return true;
        };
        let ip = to.remote.ip();
        let settings = |name: Option<&str>| match name {
            Some(name) => peers.find(name),
            None => peers.find(&ip.to_string()),
        };
        let opened_as = conn.tls_name().map(|name| &**name);
        let called = to.tls_name.as_deref();
        match (settings(opened_as), settings(called)) {
            (None, None) => true,
            (Some(one), Some(other)) => {
                Arc::ptr_eq(&one.tls, &other.tls) && one.expect == other.expect
            }
            (Some(_), None) => called
                .and_then(host_address)
                .is_some_and(|address| address.to_canonical() == ip.to_canonical()),
            (None, Some(_)) => false,
        }
    }

    /// Looks for the datagram whose error the kernel gave to another worker of
    /// the same port ([`NetEvent::Unreachable`](crate::NetEvent::Unreachable));
    /// the next `poll` reports it where it was sent here.
    pub fn find_unreachable(&mut self, remote: SocketAddr, quoted: &[u8]) {
        let ports = self.listeners.iter_mut();
        let found = ports
            .filter_map(|listener| match &mut listener.port {
                Port::Udp(port) => port.take_unreachable(remote, quoted),
                Port::Stream(_) | Port::Closed => None,
            })
            .next();
        if let Some(cookie) = found {
            push_failure(&mut self.pending_events, cookie, SendError::Unreachable);
        }
    }

    /// Writes what was queued: datagrams in batches, each connection's bytes at once.
    pub fn flush(&mut self) {
        let pending = &mut self.pending_events;
        for listener in &mut self.listeners {
            if let Port::Udp(port) = &mut listener.port
                && port.has_unsent()
            {
                port.flush(
                    &mut self.sending,
                    &mut self.shared.counters,
                    &mut |cookie, error| {
                        push_failure(pending, cookie, error);
                    },
                );
            }
        }
        while let Some(id) = self.to_flush.pop() {
            let Some(conn) = self.conns.get_mut(id) else {
                continue;
            };
            conn.is_marked_to_flush = false;
            match conn.flush(&mut self.shared) {
                Ok(()) => self.keep_to_share(id),
                Err(reason) => self.drop_conn(id, reason),
            }
        }
    }

    // RFC 3261 18.1.1: "For unreliable unicast transports, the client transport MUST be prepared to
    // receive responses on the source IP address from which the request is sent (as responses are sent
    // back to the source address) and the port number in the "sent-by" field." They come to the
    // listener that it leaves from.
    fn send_datagram(&mut self, to: &Target, bytes: &[u8], cookie: u64) -> Result<(), SendError> {
        let listener = self
            .listeners
            .get_mut(usize::from(to.listener.0))
            .ok_or(SendError::NoListener)?;
        let Port::Udp(port) = &mut listener.port else {
            return Err(SendError::NoListener);
        };
        let pending = &mut self.pending_events;
        port.queue(
            to.remote,
            to.local,
            bytes,
            cookie,
            &mut self.sending,
            &mut self.shared.counters,
            &mut |cookie, error| {
                push_failure(pending, cookie, error);
            },
        );
        Ok(())
    }

    fn send_on_stream(&mut self, to: &Target, bytes: &[u8], cookie: u64) -> Result<(), SendError> {
        self.relieve_writers(bytes.len());
        let id = self.find_conn(to)?;
        let Some(conn) = self.conns.get_mut(id) else {
            return Err(SendError::Gone);
        };
        let early = if conn.unsent_bytes() >= WRITE_AT_BYTES {
            conn.flush(&mut self.shared)
        } else {
            Ok(())
        };
        match early.and_then(|()| conn.queue_message(bytes, cookie, &mut self.shared)) {
            Ok(()) => {
                traffic(&mut self.shared.counters, to.transport).messages_out += 1;
                conn.mark_to_flush(&mut self.to_flush);
                if conn.stage.is_open() {
                    self.conns.used(id, self.shared.now_ms);
                }
                Ok(())
            }
            Err(reason) => {
                self.drop_conn(id, reason);
                Err(SendError::Closed(reason))
            }
        }
    }

    /// The connection for a target: the named one, its call's own, one to the
    /// same peer under the same name, or a new one.
    fn find_conn(&mut self, to: &Target) -> Result<ConnId, SendError> {
        if to.conn.is_some()
            && let Some(conn) = self.conns.get_mut(to.conn)
            && conn.takes_messages()
        {
            return Ok(to.conn);
        }
        if !to.may_open {
            return Err(SendError::Gone);
        }
        let (call, lane) = call_and_lane(to.lane);
        if let Some(call) = call
            && let Some(id) = self.conn_of_call(call, to)
        {
            return Ok(id);
        }
        let has_room = self.conns.of_calls() < self.shared.config.call_connections_max;
        let opens_for_call = matches!(to.lane, Lane::Call(_)) && has_room;
        if matches!(to.lane, Lane::Call(_)) && !has_room {
            self.shared.counters.calls_shared += 1;
        }
        let peer = peer_of(to, lane);
        if !opens_for_call && let Some(id) = self.conns.by_peer(&peer) {
            return Ok(id);
        }
        if self.backoff.holds(
            (to.transport, to.remote, to.tls_name.clone()),
            self.shared.now_ms,
        ) {
            self.shared.counters.open_backoffs += 1;
            return Err(SendError::Closed(CloseReason::ConnectFailed));
        }
        let call = call.filter(|_| opens_for_call);
        self.open_with(to, OpenReason::ToSend { call })
    }
}

/// Of which call's own connections one is wanted, and which of those that calls share.
const fn call_and_lane(lane: Lane) -> (Option<u64>, u8) {
    match lane {
        Lane::Shared => (None, 0),
        Lane::Nth(lane) => (None, lane),
        Lane::Call(call) | Lane::OfCall(call) => (Some(call), 0),
    }
}

fn peer_of(to: &Target, lane: u8) -> Peer {
    Peer {
        transport: to.transport,
        remote: to.remote,
        tls_name: to.tls_name.clone(),
        lane,
    }
}
