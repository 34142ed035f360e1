//! What a worker's sockets are told: listeners, bounds and deadlines.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sip_msg::{Limits, ListenerId, Transport};
use sip_tls::{ClientTls, HandshakePool, PeerTls, ServerTls};
use socket2::{Domain, Protocol, Socket, Type};

use crate::Aliases;
use crate::ws::{WebSocketListener, WebSocketRequest};

/// How a byte stream is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Framing {
    /// Into SIP messages (RFC 3261 18.3).
    #[default]
    Sip,
    /// The same, but that a message without Content-Length has no body
    /// ([`sip_msg::Framer::lenient`]). A server is stricter: RFC 3261 20.14 wants one.
    SipOrLengthless,
    /// Not at all: bytes are handed on as they come.
    Raw,
}

/// One listener: its place in the list is its [`ListenerId`].
#[derive(Clone, Debug)]
pub struct ListenerConfig {
    /// The transport.
    pub transport: Transport,
    /// The address; port 0 lets the kernel choose.
    pub addr: SocketAddr,
    /// The certificates, for TLS.
    pub tls: Option<Arc<ServerTls>>,
    /// What a request to upgrade must have, for WebSocket.
    pub websocket: Option<Arc<WebSocketListener>>,
    /// How its streams are cut, those it opens included.
    pub framing: Framing,
    /// Whether it accepts connections; one that does not gives only the
    /// source address of the connections that are opened from it.
    pub accept: bool,
}

impl ListenerConfig {
    /// A listener without TLS that frames SIP.
    pub const fn new(transport: Transport, addr: SocketAddr) -> Self {
        Self {
            transport,
            addr,
            tls: None,
            websocket: None,
            framing: Framing::Sip,
            accept: true,
        }
    }

    /// A TLS listener.
    pub const fn tls(addr: SocketAddr, tls: Arc<ServerTls>) -> Self {
        Self {
            transport: Transport::Tls,
            addr,
            tls: Some(tls),
            websocket: None,
            framing: Framing::Sip,
            accept: true,
        }
    }

    /// A WebSocket listener (RFC 7118), over TLS where `tls` is given.
    pub fn websocket(
        addr: SocketAddr,
        tls: Option<Arc<ServerTls>>,
        websocket: Arc<WebSocketListener>,
    ) -> Self {
        let transport = if tls.is_some() {
            Transport::Wss
        } else {
            Transport::Ws
        };
        Self {
            tls,
            websocket: Some(websocket),
            ..Self::new(transport, addr)
        }
    }

    /// A listener that does not listen: connections are opened from its address.
    pub const fn outbound(transport: Transport, addr: SocketAddr) -> Self {
        Self {
            transport,
            addr,
            tls: None,
            websocket: None,
            framing: Framing::Sip,
            accept: false,
        }
    }
}

/// Bounds and deadlines of one worker's sockets.
#[derive(Clone, Debug)]
pub struct NetConfig {
    /// Bounds on a message.
    pub limits: Limits,
    /// How to prove the names of TLS peers; without it no TLS connection is opened.
    pub client_tls: Option<Arc<ClientTls>>,
    /// How to ask for a WebSocket; without it no WebSocket is opened. A server opens
    /// none: a browser cannot be connected to.
    pub client_websocket: Option<Arc<WebSocketRequest>>,
    /// The same as `client_tls` for connections to names that have settings of their own.
    pub peers: Option<PeerTls>,
    /// Where TLS handshakes run; without it TLS connections are refused.
    pub handshakes: Option<HandshakePool>,
    /// Connections; past it a new one takes the place of the least useful one
    /// or, where all are in use, is closed at once.
    pub connections_max: usize,
    /// Connections accepted from one source (an IPv4 address, an IPv6 /64).
    pub connections_per_source_max: usize,
    /// Connections that a source may open in a second; at once, four times as many; past it they
    /// are closed at once, unless a registered contact relies on a connection from there. 0 for no
    /// limit.
    pub opened_per_source_per_s: u32,
    /// Bytes waiting to be written on one connection; past it the next message closes it, if its
    /// peer has taken nothing for four seconds.
    pub write_queue_bytes_max: usize,
    /// Bytes waiting to be written on all connections together; past it the
    /// largest of the source that holds most are closed. One source has no more
    /// than a quarter of it: past that its largest are closed.
    pub write_queues_bytes_max: usize,
    /// Bytes of unfinished messages kept for all connections together; past it
    /// the largest of the source that holds most are closed.
    pub read_buffers_bytes_max: usize,
    /// Datagrams waiting because a socket is full; past it they are dropped.
    pub udp_queue_max: usize,
    /// Whether STUN Binding requests are answered on UDP listeners that frame SIP
    /// (RFC 5626 4.4.2).
    pub stun: bool,
    /// How long a message may take from its first byte to its last; once more so long where
    /// more of it is there by then and waits for its turn to be read.
    pub message_timeout_ms: u64,
    /// How long a connection may be silent.
    pub idle_timeout_ms: u64,
    /// How long a connection of one call's own may be silent.
    pub call_idle_timeout_ms: u64,
    /// Connections that belong to one call each ([`sip_msg::Lane::Call`]); past
    /// it a call shares the connection of all.
    pub call_connections_max: usize,
    /// How long no connection is opened to a peer to which that failed, at
    /// most; 0 for not at all. It begins with a fraction of that and doubles
    /// with each failure. [`crate::Net::open`] does not wait.
    pub reopen_backoff_max_ms: u64,
    /// How long the request to make a WebSocket of a connection may take, or the
    /// answer to ours, from when the connection, or its TLS, is up. Waits for a turn count
    /// as in [`Self::message_timeout_ms`].
    pub upgrade_timeout_ms: u64,
    /// How long a WebSocket may be silent before it is pinged, and after that
    /// before it is given up; 0 for never.
    pub websocket_ping_ms: u64,
    /// How long the cookie of a message that was written is remembered: if its
    /// connection ends before, [`crate::SendError::Lost`] tells so. 0 for not at all.
    pub answer_timeout_ms: u64,
    /// Past `connections_max` the least useful connection gives its place to a
    /// new one, if it has carried no message for this long.
    pub evict_after_ms: u64,
    /// Where connections are noted that their peers want to be reached by
    /// (RFC 5923), shared by all workers; without it there are none.
    pub aliases: Option<Arc<Aliases>>,
    /// How long a connection may take to be opened, the TLS handshake aside.
    pub connect_timeout_ms: u64,
    /// How long the last bytes may take to leave a connection that is closed.
    pub linger_ms: u64,
    /// The kernel's receive and send buffers of a UDP socket, each, as far as
    /// it allows.
    pub udp_receive_buffer_bytes: usize,
    /// For how long, at most, messages may gather while there is traffic, so
    /// that one wake-up serves them all; 0 for never. It lengthens the way of
    /// each message by half of that on average.
    pub gather_us: u64,
}

impl Default for NetConfig {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            client_tls: None,
            client_websocket: None,
            peers: None,
            handshakes: None,
            connections_max: 100_000,
            connections_per_source_max: 10_000,
            opened_per_source_per_s: 5_000,
            write_queue_bytes_max: 1024 * 1024,
            write_queues_bytes_max: 256 * 1024 * 1024,
            read_buffers_bytes_max: 256 * 1024 * 1024,
            udp_queue_max: 4_096,
            stun: false,
            message_timeout_ms: 32_000,
            idle_timeout_ms: 3_600_000,
            call_idle_timeout_ms: 600_000,
            call_connections_max: 50_000,
            reopen_backoff_max_ms: 0,
            upgrade_timeout_ms: 10_000,
            websocket_ping_ms: 30_000,
            answer_timeout_ms: 0,
            aliases: None,
            evict_after_ms: 2_000,
            connect_timeout_ms: 4_000,
            linger_ms: 2_000,
            udp_receive_buffer_bytes: 4 * 1024 * 1024,
            gather_us: 0,
        }
    }
}

/// The bound sockets of one worker, made by [`bind`] for [`crate::Net::new`].
#[derive(Debug)]
pub struct WorkerSockets {
    pub(crate) listeners: Vec<BoundListener>,
}

/// A listener's configuration, its real address and its socket.
#[derive(Debug)]
pub(crate) struct BoundListener {
    pub(crate) config: ListenerConfig,
    pub(crate) local: SocketAddr,
    /// `None` for a listener that does not accept.
    pub(crate) socket: Option<Socket>,
}

impl WorkerSockets {
    /// The address that a listener is bound to, with its real port.
    pub fn local_addr(&self, listener: ListenerId) -> Option<SocketAddr> {
        self.listeners
            .get(usize::from(listener.0))
            .map(|listener| listener.local)
    }
}

/// A listener that could not be bound.
#[derive(Debug)]
pub struct BindError {
    /// Which one.
    pub listener: ListenerId,
    /// Its transport.
    pub transport: Transport,
    /// Its address.
    pub addr: SocketAddr,
    /// Why.
    pub error: io::Error,
}

/// Binds every listener for every worker, or nothing: the sockets for worker
/// `n` are element `n`. With several workers they share the port.
pub fn bind(listeners: &[ListenerConfig], workers: usize) -> Result<Vec<WorkerSockets>, BindError> {
    let mut all: Vec<WorkerSockets> = (0..workers.max(1))
        .map(|_| WorkerSockets {
            listeners: Vec::new(),
        })
        .collect();
    for (index, config) in listeners.iter().enumerate() {
        let blame = |error| BindError {
            listener: ListenerId(u16::try_from(index).unwrap_or(u16::MAX)),
            transport: config.transport,
            addr: config.addr,
            error,
        };
        if u16::try_from(index).is_err() {
            return Err(blame(io::Error::other("too many listeners")));
        }
        let mut addr = config.addr;
        let shared = workers > 1;
        if shared && has_socket(config) && addr.port() != 0 {
            // A port that may be shared would be shared with another server
            // too: first see that nobody has it.
            drop(open(config, addr, false).map_err(blame)?);
        }
        for sockets in &mut all {
            let bound = if has_socket(config) {
                let socket = open(config, addr, shared).map_err(blame)?;
                let local = socket.local_addr().map_err(blame)?.as_socket();
                addr = local.ok_or_else(|| blame(io::ErrorKind::AddrNotAvailable.into()))?;
                BoundListener {
                    config: config.clone(),
                    local: addr,
                    socket: Some(socket),
                }
            } else {
                BoundListener {
                    config: config.clone(),
                    local: addr,
                    socket: None,
                }
            };
            sockets.listeners.push(bound);
        }
    }
    Ok(all)
}

fn has_socket(config: &ListenerConfig) -> bool {
    config.accept || config.transport == Transport::Udp
}

/// How long a peer may leave bytes without acknowledgement: one that is gone
/// without a word is given up in the time of a transaction.
pub(crate) const PEER_TIMEOUT: Duration = Duration::from_secs(32);

/// Connections that wait to be accepted.
const BACKLOG: i32 = 4_096;

fn open(config: &ListenerConfig, addr: SocketAddr, shared: bool) -> io::Result<Socket> {
    let domain = Domain::for_address(addr);
    let datagrams = match config.transport {
        Transport::Udp => true,
        Transport::Tcp => false,
        Transport::Tls | Transport::Wss if config.tls.is_none() => {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a listener with TLS needs a certificate",
            ));
        }
        Transport::Ws | Transport::Wss if config.websocket.is_none() => {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a WebSocket listener needs rules",
            ));
        }
        Transport::Tls | Transport::Ws | Transport::Wss => false,
    };
    let (kind, protocol) = if datagrams {
        (Type::DGRAM, Protocol::UDP)
    } else {
        (Type::STREAM, Protocol::TCP)
    };
    let socket = Socket::new(domain, kind.nonblocking(), Some(protocol))?;
    if addr.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    if !datagrams {
        // A restart must not wait for the connections of the last run.
        socket.set_reuse_address(true)?;
    }
    if shared {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&addr.into())?;
    if !datagrams {
        // Accepted sockets inherit these: two system calls less for each.
        socket.set_tcp_nodelay(true)?;
        socket.set_tcp_user_timeout(Some(PEER_TIMEOUT))?;
        socket.listen(BACKLOG)?;
    }
    Ok(socket)
}

impl std::fmt::Display for BindError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "cannot listen on {}:{}: {}",
            self.transport.uri_name(),
            self.addr,
            self.error
        )
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
