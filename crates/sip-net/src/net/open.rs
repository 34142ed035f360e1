//! Connections that this side opens, and the moment at which one is up.

use invariant::broken;
use ledger::Component;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use mio::net::TcpStream;
use sip_msg::{ConnId, Flow, Lane, Target, Transport};
use sip_tls::{ClientTls, Side};
use socket2::{Domain, Protocol, Socket, Type};

use super::Net;
use super::pending_event::PendingEvent;
use super::ready::register;
use crate::config::PEER_TIMEOUT;
use crate::stream::{Conn, Opened, Stage};
use crate::{CloseReason, NetEvent, SendError, sys};

/// Why a connection is opened.
pub(super) enum OpenReason<'a> {
    /// The owner asked for it, perhaps under an identity of its own.
    Asked(Option<&'a Arc<ClientTls>>),
    /// There is something to send, perhaps of a call that is to have its own.
    ToSend { call: Option<u64> },
}

impl Net {
    /// Opens a connection of its own, whether or not there is one already.
    /// Messages sent on it wait until it is up.
    pub fn open(&mut self, to: &Target) -> Result<ConnId, SendError> {
        self.open_with(to, OpenReason::Asked(None))
    }

    /// The same over TLS under an identity and with options of its own. Only
    /// what names the connection is sent on it.
    pub fn open_as(&mut self, to: &Target, tls: &Arc<ClientTls>) -> Result<ConnId, SendError> {
        self.open_with(to, OpenReason::Asked(Some(tls)))
    }

    pub(super) fn open_with(
        &mut self,
        to: &Target,
        wish: OpenReason<'_>,
    ) -> Result<ConnId, SendError> {
        let (tls, call, asked_for) = match wish {
            OpenReason::Asked(tls) => (tls, None, true),
            OpenReason::ToSend { call } => (None, call, false),
        };
        let index = usize::from(to.listener.0);
        let listener = self.listeners.get(index).ok_or(SendError::NoListener)?;
        let request = match to.transport {
            Transport::Udp => return Err(SendError::NoListener),
            Transport::Tcp | Transport::Tls => None,
            Transport::Ws | Transport::Wss => {
                let request = self.shared.config.client_websocket.clone();
                Some(request.ok_or(SendError::NoListener)?)
            }
        };
        if to.transport.is_secure()
            && ((self.shared.config.client_tls.is_none() && tls.is_none())
                || self.shared.config.handshakes.is_none())
        {
            return Err(SendError::NoListener);
        }
        let (framing, local) = (listener.framing, listener.local);
        let has_room = match wish {
            OpenReason::Asked(_) => self.has_room(),
            OpenReason::ToSend { .. } => self.make_room(),
        };
        if !has_room {
            return Err(SendError::Full);
        }
        let (mut socket, local) = connect(to.remote, local).map_err(|step| {
            self.shared.counters.open_failed += 1;
            let cause = step.cause();
            self.shared.counters.no_local_port += u64::from(cause == SendError::NoLocalPort);
            cause
        })?;
        let flow = Flow {
            transport: to.transport,
            listener: to.listener,
            local,
            remote: to.remote,
            conn: ConnId::NONE,
        };
        let now_ms = self.shared.now_ms;
        let stage = Stage::Connecting {
            deadline_ms: now_ms.saturating_add(self.shared.config.connect_timeout_ms),
            closes: false,
        };
        let mut conn = Conn::new(flow, stage, framing, now_ms);
        conn.opened = Some(Box::new(Opened {
            asked_for,
            was_open: false,
            tls_name: to.tls_name.clone().filter(|_| to.transport.is_secure()),
            is_name_unproved: false,
            lane: match to.lane {
                Lane::Nth(lane) => lane,
                _ => 0,
            },
            call,
            was_for_call: call.is_some(),
            client_tls: tls.filter(|_| to.transport.is_secure()).cloned(),
        }));
        self.shared.counters.opened_for_calls += u64::from(call.is_some());
        let id = self.conns.insert(conn).ok_or(SendError::Full)?;
        let registered = register(self.poll.registry(), &mut socket, id);
        let asked = self.conns.get_mut(id).map_or(Ok(()), |conn| {
            conn.socket = Some(socket);
            conn.arm(&mut self.shared);
            request.map_or(Ok(()), |request| conn.ask(&request, &mut self.shared))
        });
        self.shared.counters.connections += 1;
        if let Err(reason) = asked {
            self.drop_conn(id, reason);
        } else if registered.is_err() {
            self.drop_conn(id, CloseReason::ConnectFailed);
        }
        Ok(id)
    }

    /// A connection that is being opened is up, or is not.
    pub(super) fn handle_connected(&mut self, id: ConnId, on_event: &mut impl FnMut(NetEvent<'_>)) {
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
        let side = self.conns.get(id).and_then(|conn| {
            let (tls, name) = self.client_tls_of(conn)?;
            Side::client(tls, name.as_deref(), conn.flow.remote.ip())
        });
        let Some(side) = side else {
            self.drop_conn(id, CloseReason::Handshake);
            return;
        };
        self.begin_client_handshake(id, side, on_event);
    }

    /// What the handshake of a connection that is opened is made from: the connection's own,
    /// that of the name, or that of all; and the name that its peer must bear, the one that was
    /// called if there is no other.
    pub(super) fn client_tls_of(&self, conn: &Conn) -> Option<(Arc<ClientTls>, Option<Arc<str>>)> {
        if let Some(own) = conn
            .opened
            .as_ref()
            .and_then(|opened| opened.client_tls.as_ref())
        {
            return Some((Arc::clone(own), conn.tls_name().cloned()));
        }
        let config = &self.shared.config;
        let by_name = match (&config.peers, conn.tls_name()) {
            (Some(peers), Some(name)) => peers.find(name),
            (Some(peers), None) => peers.find(&conn.flow.remote.ip().to_string()),
            _ => None,
        };
        let (tls, expect) = match by_name {
            Some(entry) => (entry.tls, entry.expect),
            None => (config.client_tls.clone()?, None),
        };
        Some((tls, expect.or_else(|| conn.tls_name().cloned())))
    }

    /// A connection carries messages from now on.
    pub(super) fn handle_open(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else {
            return broken!("a connection that is open is in the table");
        };
        let closes = conn.stage.closes_when_open();
        if conn.ws.is_some() {
            conn.await_upgrade(&mut self.shared);
        } else {
            conn.open(&mut self.shared);
            if conn.opened.is_some() {
                self.shared.counters.opened += 1;
                let name = conn.tls_name().cloned();
                let peer = (conn.flow.transport, conn.flow.remote, name);
                self.backoff.opened(peer);
                self.pending_events
                    .push_back(PendingEvent::Opened(conn.flow));
            } else {
                self.pending_events
                    .push_back(PendingEvent::Accepted(conn.flow));
            }
        }
        let result = if conn.is_to_be_flushed() {
            conn.flush(&mut self.shared)
        } else {
            Ok(())
        };
        let result = if closes && result.is_ok() {
            conn.begin_to_close(CloseReason::Asked, &mut self.shared)
        } else {
            result
        };
        self.conns.used(id, self.shared.now_ms);
        if let Err(reason) = result {
            self.drop_conn(id, reason);
        }
    }
}

/// The step at which a connection failed that could not even be begun.
enum Step {
    Socket(io::Error),
    Bind,
    Connect(io::Error),
}

impl Step {
    fn cause(&self) -> SendError {
        match self {
            // No file descriptor, or no memory.
            Self::Socket(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
                ) =>
            {
                SendError::Full
            }
            // The address of the listener is not, or no longer, this machine's.
            Self::Bind => SendError::Unsendable,
            // The port is chosen at this step, so that one port serves many
            // peers; connect(2) says EADDRNOTAVAIL when all towards this one are taken.
            Self::Connect(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EADDRNOTAVAIL | libc::EADDRINUSE | libc::EAGAIN)
                ) =>
            {
                SendError::NoLocalPort
            }
            // A firewall of this machine.
            Self::Connect(error)
                if matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES)) =>
            {
                SendError::Unsendable
            }
            Self::Socket(_) | Self::Connect(_) => SendError::Closed(CloseReason::ConnectFailed),
        }
    }
}

/// Begins to connect, from the listener's address where it has one; with the
/// address that the connection has.
fn connect(remote: SocketAddr, local: SocketAddr) -> Result<(TcpStream, SocketAddr), Step> {
    let _kernel = ledger::enter(Component::Kernel);
    let new = || {
        let kind = Type::STREAM.nonblocking();
        let socket = Socket::new(Domain::for_address(remote), kind, Some(Protocol::TCP))?;
        socket.set_tcp_nodelay(true)?;
        socket.set_tcp_user_timeout(Some(PEER_TIMEOUT))?;
        Ok(socket)
    };
    let socket = new().map_err(Step::Socket)?;
    if !local.ip().is_unspecified() && local.is_ipv4() == remote.is_ipv4() {
        sys::set_bind_address_no_port(std::os::fd::AsRawFd::as_raw_fd(&socket))
            .and_then(|()| socket.bind(&SocketAddr::new(local.ip(), 0).into()))
            .map_err(|_| Step::Bind)?;
    }
    begin(socket, remote)
}

/// Begins to connect a socket.
fn begin(socket: Socket, remote: SocketAddr) -> Result<(TcpStream, SocketAddr), Step> {
    match socket.connect(&remote.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(error) => return Err(Step::Connect(error)),
    }
    // The kernel chose it just then.
    let local = socket.local_addr().map_err(Step::Connect)?.as_socket();
    let Some(local) = local.filter(|local| !is_same(local, &remote)) else {
        // It chose the very port that nobody listens at, here on this machine: the socket
        // is connected to itself (RFC 9293 3.5), and what is sent comes back.
        return Err(Step::Connect(io::ErrorKind::ConnectionRefused.into()));
    };
    Ok((TcpStream::from_std(socket.into()), local))
}

fn is_same(one: &SocketAddr, other: &SocketAddr) -> bool {
    (one.ip(), one.port()) == (other.ip(), other.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_where_nobody_listens_is_not_connected_to_itself() {
        for ip in ["127.0.0.1:0", "[::1]:0"] {
            let addr: SocketAddr = ip.parse().unwrap();
            let kind = Type::STREAM.nonblocking();
            let domain = Domain::for_address(addr);
            let socket = Socket::new(domain, kind, Some(Protocol::TCP)).unwrap();
            // The port that the kernel would choose once in some 28,000 times.
            socket.bind(&addr.into()).unwrap();
            let itself = socket.local_addr().unwrap().as_socket().unwrap();
            let refused = begin(socket, itself).err().map(|step| step.cause());
            let expected = SendError::Closed(CloseReason::ConnectFailed);
            assert_eq!(refused, Some(expected), "{ip}");
        }
    }

    #[test]
    fn a_limit_of_this_side_is_told_from_a_refusal() {
        let of = |code| io::Error::from_raw_os_error(code);
        let refused = SendError::Closed(CloseReason::ConnectFailed);
        for (step, cause) in [
            (
                Step::Connect(of(libc::EADDRNOTAVAIL)),
                SendError::NoLocalPort,
            ),
            (Step::Connect(of(libc::ECONNREFUSED)), refused),
            (Step::Connect(of(libc::EPERM)), SendError::Unsendable),
            (Step::Connect(of(libc::ENETUNREACH)), refused),
            (Step::Socket(of(libc::EMFILE)), SendError::Full),
            (Step::Socket(of(libc::EAFNOSUPPORT)), refused),
            (Step::Bind, SendError::Unsendable),
        ] {
            assert_eq!(step.cause(), cause);
        }
    }
}
