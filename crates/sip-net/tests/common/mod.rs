//! A worker's sockets with all that happened on them written down.
// Each test file uses a part of it.
#![allow(dead_code, unreachable_pub)]

#[cfg(feature = "legacy-tls")]
pub mod libssl;
pub mod openssl;
pub mod shown;

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sip_msg::{ConnId, Flow, ListenerId, Target, Transport, VerifiedPeer};
use sip_net::clock::Clock;
use sip_net::{
    CloseReason, ListenerConfig, Net, NetConfig, NetEvent, SendError, UpgradeFault, bind,
};
use sip_tls::{ClientTls, HandshakeConfig, HandshakeError, HandshakePool, PeerIdentity, ServerTls};

/// Connects from an address of this host.
pub fn stream_from(ip: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((ip, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

/// What happened, with the bytes copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    Datagram(Flow, Vec<u8>),
    Message(Flow, Vec<u8>),
    Data(Flow, Vec<u8>),
    Malformed(Flow, Vec<u8>),
    Verified(Flow, Arc<VerifiedPeer>),
    Accepted(Flow),
    Opened(Flow),
    HandshakeFailed(ConnId, HandshakeError),
    UpgradeFailed(ConnId, UpgradeFault),
    Closed(ConnId, CloseReason),
    SendFailed(u64, SendError),
    Unreachable(SocketAddr, Vec<u8>),
    Beside(SocketAddr, Vec<u8>),
    BesideRefused(SocketAddr),
}

pub struct Bench {
    pub net: Net,
    /// By which its deadlines are; that of the system, unless made otherwise.
    pub clock: Clock,
    pub seen: Vec<Seen>,
    /// Messages that were answered by `openssl::s_client`.
    pub answered: usize,
    /// Whom their senders spoke for.
    pub identities: Vec<Option<PeerIdentity>>,
}

impl Bench {
    pub fn new(listeners: &[ListenerConfig], config: NetConfig) -> Self {
        Self::with_clock(listeners, config, Clock::system())
    }

    /// The same on a clock that stands still until the test lets time pass.
    pub fn on_given_clock(listeners: &[ListenerConfig], config: NetConfig) -> Self {
        Self::with_clock(listeners, config, Clock::given())
    }

    pub fn with_clock(listeners: &[ListenerConfig], config: NetConfig, clock: Clock) -> Self {
        let mut sockets = bind(listeners, 1).unwrap();
        Self {
            net: Net::with_clock(0, config, sockets.remove(0), clock.clone()).unwrap(),
            clock,
            seen: Vec::new(),
            answered: 0,
            identities: Vec::new(),
        }
    }

    /// One listener on a port of the kernel's choice.
    pub fn on(transport: Transport, ip: &str) -> Self {
        Self::new(
            &[ListenerConfig::new(transport, any_port(ip))],
            NetConfig::default(),
        )
    }

    pub fn addr(&self) -> SocketAddr {
        self.net.local_addr(ListenerId(0)).unwrap()
    }

    pub fn turn(&mut self) {
        let seen = &mut self.seen;
        self.net
            .poll(Some(Duration::from_millis(5)), |event| {
                seen.push(copy(event))
            })
            .unwrap();
    }

    /// Lets time pass up to one millisecond before a deadline, when no connection
    /// may be closed, and over it: then one must be, once its peer had its time to
    /// close too.
    pub fn closed_after(&mut self, deadline_ms: u64) -> CloseReason {
        // In which deadlines are kept, and the time to close too.
        const TICK_MS: u64 = 100;
        const LINGER_TICKS: u64 = 30;
        self.clock.pass(deadline_ms - 1);
        self.turn();
        self.turn();
        assert_eq!(self.seen.iter().find_map(closed), None, "{deadline_ms} ms");
        self.clock.pass(1);
        for _ in 0..LINGER_TICKS {
            self.clock.pass(TICK_MS);
            self.turn();
        }
        self.until(closed)
    }

    /// Turns until `find` finds what it looks for; takes that out.
    pub fn until<T>(&mut self, find: impl Fn(&Seen) -> Option<T>) -> T {
        self.until_with(&mut [], find)
    }

    /// The same, while others turn too.
    pub fn until_with<T>(
        &mut self,
        others: &mut [&mut Bench],
        find: impl Fn(&Seen) -> Option<T>,
    ) -> T {
        let patience = Instant::now();
        loop {
            if let Some((place, found)) = self
                .seen
                .iter()
                .enumerate()
                .find_map(|(i, seen)| Some((i, find(seen)?)))
            {
                self.seen.remove(place);
                return found;
            }
            assert!(
                patience.elapsed() < Duration::from_secs(30),
                "waited in vain; seen: {:?}",
                self.seen
            );
            self.turn();
            others.iter_mut().for_each(|other| other.turn());
        }
    }

    pub fn message(&mut self) -> (Flow, Vec<u8>) {
        self.until(message)
    }
}

pub fn message(seen: &Seen) -> Option<(Flow, Vec<u8>)> {
    match seen {
        Seen::Message(flow, bytes) | Seen::Datagram(flow, bytes) => Some((*flow, bytes.clone())),
        _ => None,
    }
}

pub fn closed(seen: &Seen) -> Option<CloseReason> {
    match seen {
        Seen::Closed(_, reason) => Some(*reason),
        _ => None,
    }
}

pub fn opened(seen: &Seen) -> Option<Flow> {
    match seen {
        Seen::Opened(flow) => Some(*flow),
        _ => None,
    }
}

pub fn verified(seen: &Seen) -> Option<Arc<VerifiedPeer>> {
    match seen {
        Seen::Verified(_, peer) => Some(Arc::clone(peer)),
        _ => None,
    }
}

pub fn handshake_failed(seen: &Seen) -> Option<HandshakeError> {
    match seen {
        Seen::HandshakeFailed(_, error) => Some(*error),
        _ => None,
    }
}

pub fn send_failed(seen: &Seen) -> Option<(u64, SendError)> {
    match seen {
        Seen::SendFailed(cookie, error) => Some((*cookie, *error)),
        _ => None,
    }
}

pub fn to(transport: Transport, remote: SocketAddr) -> Target {
    Target {
        transport,
        listener: ListenerId(0),
        remote,
        conn: ConnId::NONE,
        may_open: true,
        tls_name: None,
        lane: sip_msg::Lane::Shared,
        local: None,
    }
}

/// A TLS peer under a name.
pub fn named(remote: SocketAddr, name: &str) -> Target {
    Target {
        tls_name: Some(name.into()),
        ..to(Transport::Tls, remote)
    }
}

/// A TLS listener and all that its handshakes need.
pub fn tls_server(tls: ServerTls) -> Bench {
    tls_server_with(std::sync::Arc::new(tls), HandshakeConfig::default())
}

pub fn tls_server_with(tls: Arc<ServerTls>, handshakes: HandshakeConfig) -> Bench {
    tls_server_by(tls, handshakes, Clock::system())
}

/// The same by a clock of the test's.
pub fn tls_server_by(tls: Arc<ServerTls>, handshakes: HandshakeConfig, clock: Clock) -> Bench {
    let config = NetConfig {
        handshakes: Some(HandshakePool::start(handshakes).unwrap()),
        ..NetConfig::default()
    };
    let listener = ListenerConfig::tls(any_port("127.0.0.1"), tls);
    Bench::with_clock(&[listener], config, clock)
}

/// A client that opens TLS connections.
pub fn tls_client(tls: ClientTls) -> Bench {
    tls_client_by(tls, Clock::system())
}

/// The same by a clock of the test's.
pub fn tls_client_by(tls: ClientTls, clock: Clock) -> Bench {
    let config = NetConfig {
        client_tls: Some(std::sync::Arc::new(tls)),
        handshakes: Some(HandshakePool::start(HandshakeConfig::default()).unwrap()),
        ..NetConfig::default()
    };
    let listener = ListenerConfig::outbound(Transport::Tls, any_port("127.0.0.1"));
    Bench::with_clock(&[listener], config, clock)
}

pub fn any_port(ip: &str) -> SocketAddr {
    SocketAddr::new(ip.parse().unwrap(), 0)
}

/// A small request whose body is `body`.
pub fn request(body: &str) -> Vec<u8> {
    format!(
        "OPTIONS sip:example.com SIP/2.0\r\n\
         Via: SIP/2.0/TCP 192.0.2.1;branch=z9hG4bKnashds8\r\n\
         From: <sip:a@example.com>;tag=1\r\nTo: <sip:b@example.com>\r\n\
         Call-ID: {body}\r\nCSeq: 1 OPTIONS\r\nMax-Forwards: 70\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn copy(event: NetEvent<'_>) -> Seen {
    match event {
        NetEvent::Datagram { flow, bytes } => Seen::Datagram(flow, bytes.to_vec()),
        NetEvent::Message { flow, bytes } => Seen::Message(flow, bytes.to_vec()),
        NetEvent::Data { flow, bytes } => Seen::Data(flow, bytes.to_vec()),
        NetEvent::Malformed { flow, head, .. } => Seen::Malformed(flow, head.to_vec()),
        NetEvent::Verified { flow, peer } => Seen::Verified(flow, peer),
        NetEvent::Accepted { flow } => Seen::Accepted(flow),
        NetEvent::Opened { flow } => Seen::Opened(flow),
        NetEvent::HandshakeFailed { conn, error } => Seen::HandshakeFailed(conn, error),
        NetEvent::UpgradeFailed { conn, fault } => Seen::UpgradeFailed(conn, fault),
        NetEvent::Closed { conn, reason } => Seen::Closed(conn, reason),
        NetEvent::SendFailed { cookie, error } => Seen::SendFailed(cookie, error),
        NetEvent::Unreachable { remote, quoted, .. } => Seen::Unreachable(remote, quoted.to_vec()),
        NetEvent::Beside { from, bytes } => Seen::Beside(from, bytes.to_vec()),
        NetEvent::BesideRefused(to) => Seen::BesideRefused(to),
    }
}
