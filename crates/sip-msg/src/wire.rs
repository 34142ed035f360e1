//! Where a message came from, where one goes, and the outbox in which the
//! protocol leaves what is to be sent. Plain data: the sockets are elsewhere.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// A transport protocol, as it stands in a Via (RFC 3261 18, RFC 7118).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// Datagrams.
    Udp,
    /// A plain byte stream.
    Tcp,
    /// A byte stream under TLS.
    Tls,
    /// WebSocket (RFC 7118).
    Ws,
    /// WebSocket under TLS (RFC 7118).
    Wss,
}

impl Transport {
    /// Whether the transport retransmits by itself, so that the transaction
    /// layer does not (RFC 3261 17).
    pub const fn is_reliable(self) -> bool {
        !matches!(self, Self::Udp)
    }

    /// Whether the bytes are encrypted and the peer's name was checked.
    pub const fn is_secure(self) -> bool {
        matches!(self, Self::Tls | Self::Wss)
    }

    /// The token in a Via's sent-protocol: `UDP`, `TCP`, `TLS`, `WS`, `WSS`.
    pub const fn via_name(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
            Self::Tls => "TLS",
            Self::Ws => "WS",
            Self::Wss => "WSS",
        }
    }

    /// Whether each message is one of a WebSocket's (RFC 7118). To a server such a
    /// connection is opened by the other side alone.
    pub const fn is_websocket(self) -> bool {
        matches!(self, Self::Ws | Self::Wss)
    }

    /// The value of a URI's `transport` parameter. RFC 7118 5.2.2 defines `ws`
    /// and no other: the scheme says whether it is under TLS.
    pub const fn uri_param(self) -> &'static str {
        match self {
            Self::Wss => "ws",
            other => other.uri_name(),
        }
    }

    /// Its name in lower case: `udp`, `tcp`, `tls`, `ws`, `wss`.
    pub const fn uri_name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Ws => "ws",
            Self::Wss => "wss",
        }
    }

    /// The default port (RFC 3261 19.1.2, RFC 7118): 5061 for TLS, 80 and 443
    /// for WebSocket, 5060 otherwise.
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Udp | Self::Tcp => 5060,
            Self::Tls => 5061,
            Self::Ws => 80,
            Self::Wss => 443,
        }
    }

    /// Reads a Via's or a URI's transport token, whatever its case.
    pub fn from_token(token: &[u8]) -> Option<Self> {
        [Self::Udp, Self::Tcp, Self::Tls, Self::Ws, Self::Wss]
            .into_iter()
            .find(|t| t.uri_name().as_bytes().eq_ignore_ascii_case(token))
    }
}

/// A connection, named by the layer that owns the sockets. 0 is no connection.
/// The top 8 bits are the worker that owns it; the rest is opaque and never
/// used again for another connection in the life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ConnId(pub u64);

impl ConnId {
    /// No connection: a datagram, or a stream that is yet to be opened.
    pub const NONE: Self = Self(0);

    /// Whether this names a connection.
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }

    /// The worker whose sockets hold the connection.
    pub const fn worker(self) -> usize {
        (self.0 >> 56) as usize
    }
}

/// An index into the server's list of listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct ListenerId(pub u16);

/// The path on which a message arrived, and on which its sender is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// The transport.
    pub transport: Transport,
    /// The listener that received it (for connections: that accepted it, or
    /// the one whose address was advertised when it was opened).
    pub listener: ListenerId,
    /// The address of this server's end.
    pub local: SocketAddr,
    /// The address of the peer's end, as the kernel saw it.
    pub remote: SocketAddr,
    /// The connection; [`ConnId::NONE`] for datagrams.
    pub conn: ConnId,
}

/// Where a message is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The transport to use.
    pub transport: Transport,
    /// The listener to send from: which UDP socket, or whose address a new
    /// connection is bound to.
    pub listener: ListenerId,
    /// The address of the peer.
    pub remote: SocketAddr,
    /// Use this connection. When it is gone, or [`ConnId::NONE`], another to
    /// `remote` under the same name is used or opened, if `may_open`.
    pub conn: ConnId,
    /// Whether a connection may be opened; false where only the named flow
    /// will do (RFC 5626 5.3).
    pub may_open: bool,
    /// The name that the peer's certificate must bear (RFC 5922), for a TLS
    /// connection that is opened. A connection is never reused for another name.
    pub tls_name: Option<Arc<str>>,
    /// Which of several connections to `remote`, where `conn` is none.
    pub lane: Lane,
    /// The address of this host to send a datagram from, where the listener has
    /// them all; `None` for the one that the route has.
    pub local: Option<IpAddr>,
}

/// Which connection to one peer a message takes, where there are several. All
/// messages of a call take the same, so that they keep their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lane {
    /// The one that all share.
    #[default]
    Shared,
    /// This one of several; 0 is the shared one.
    Nth(u8),
    /// The call's own, opened where it has none. The number stands for the
    /// Call-ID and is not to be guessed.
    Call(u64),
    /// The call's own, where it has one; else the shared one.
    OfCall(u64),
}

impl Target {
    /// The way back along a flow.
    pub const fn back(flow: &Flow) -> Self {
        Self {
            transport: flow.transport,
            listener: flow.listener,
            remote: flow.remote,
            conn: flow.conn,
            may_open: false,
            tls_name: None,
            lane: Lane::Shared,
            local: Some(flow.local.ip()),
        }
    }
}

/// A message in an [`Outbox`]: `outbox.bytes[start..end]`, for `to`.
#[derive(Clone, Debug)]
pub struct QueuedMessage {
    /// Where to.
    pub to: Target,
    /// First byte in [`Outbox::bytes`].
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// Given back when the message could not be sent; 0 where nobody wants to know.
    pub cookie: u64,
}

/// What is to be sent, in one buffer that is used again: the protocol appends,
/// the shell sends and clears.
#[derive(Default, Debug)]
pub struct Outbox {
    /// The messages' bytes, one after the other.
    pub bytes: Vec<u8>,
    /// The messages, in the order in which to send them.
    pub sends: Vec<QueuedMessage>,
}

impl Outbox {
    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.sends.clear();
    }

    /// Queues the bytes written since `start`, an earlier `self.bytes.len()`.
    pub fn send_since(&mut self, start: usize, to: Target, cookie: u64) {
        let end = self.bytes.len();
        self.sends.push(QueuedMessage {
            to,
            start,
            end,
            cookie,
        });
    }

    /// Queues a copy of `message`.
    pub fn send_copy(&mut self, message: &[u8], to: Target, cookie: u64) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(message);
        self.send_since(start, to, cookie);
    }
}
