//! One worker's sockets.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Registry, Token};
use sip_msg::{ConnId, Flow, ListenerId, Outbox, Target, Transport};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use wheel::Wheel;

use crate::config::{Framing, NetConfig, PEER_TIMEOUT, WorkerSockets};
use crate::conns::{self, CONNS_MAX, Conns, Peer};
use crate::handshake::Handshaken;
use crate::shared::{READ_BYTES, Shared, traffic};
use crate::stream::{Conn, State};
use crate::sys::{self, RecvBatch, SendBatch};
use crate::tls::ServerTls;
use crate::udp::UdpPort;
use crate::waker::Waker;
use crate::{
    ClientTls, CloseReason, Counters, HandshakeError, HandshakeTally, ListenerCounters, NetEvent,
    PeerIdentity, SendError, TlsInfo, clock,
};

mod gather;
mod turn;

use gather::Gather;
use turn::Ready;
const WAKER: Token = Token(usize::MAX);
/// Tokens below this are listeners, those from it on are connections.
const FIRST_CONN: usize = 1 << 16;
/// Events taken from the kernel at a time.
const EVENTS_MAX: usize = 1_024;
/// Bytes queued on a connection before they are written without being asked to.
const WRITE_AT_BYTES: usize = 65_536;
/// The tick of the connections' deadlines.
const TICK_MS: u64 = 100;

/// The sockets of one worker thread.
pub struct Net {
    poll: Poll,
    /// `None` only while its events are being handled.
    events: Option<Events>,
    waker: Waker,
    listeners: Vec<Listener>,
    conns: Conns,
    shared: Shared,
    gather: Gather,
    received: RecvBatch,
    sending: SendBatch,
    /// Sockets with more to read than one turn allows.
    again: Vec<Token>,
    /// The same while they have their turn.
    turns: Vec<Token>,
    /// Connections with something to write.
    dirty: Vec<ConnId>,
    /// What is to be told at the next `poll`.
    owed: VecDeque<Owed>,
    handshaken: Receiver<Handshaken>,
    handshakes: Sender<Handshaken>,
    /// Handshakes of connections that were opened.
    opened_tls: HandshakeTally,
}

struct Listener {
    local: SocketAddr,
    transport: Transport,
    framing: Framing,
    tls: Option<Arc<ServerTls>>,
    port: Port,
    /// Whether it waits in the list of sockets with more to read.
    again: bool,
    counters: ListenerCounters,
}

enum Port {
    Udp(Box<UdpPort>),
    Stream(mio::net::TcpListener),
    /// Does not accept, or no longer.
    Closed,
}

/// An event that borrows nothing.
#[derive(Clone, Copy)]
enum Owed {
    Accepted(Flow),
    Opened(Flow),
    HandshakeFailed(ConnId, HandshakeError),
    Closed(ConnId, CloseReason),
    SendFailed(u64, SendError),
}

impl Net {
    /// Takes the sockets bound for `worker`; connections bear its number.
    pub fn new(worker: usize, config: NetConfig, sockets: WorkerSockets) -> io::Result<Self> {
        let worker = u8::try_from(worker).map_err(|_| io::Error::other("more than 256 workers"))?;
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let mut listeners = Vec::new();
        for (index, bound) in sockets.listeners.into_iter().enumerate() {
            let id = ListenerId(
                u16::try_from(index).map_err(|_| io::Error::other("too many listeners"))?,
            );
            let (local, framing, transport) =
                (bound.local, bound.config.framing, bound.config.transport);
            let port = match bound.socket {
                None => Port::Closed,
                Some(socket) if transport == Transport::Udp => {
                    let buffer_bytes = config.udp_receive_buffer_bytes;
                    let mut port = UdpPort::new(
                        id,
                        socket,
                        local,
                        framing,
                        config.udp_queue_max,
                        buffer_bytes,
                    )?;
                    port.register(poll.registry(), Token(index))?;
                    Port::Udp(Box::new(port))
                }
                Some(socket) => {
                    let mut listener = mio::net::TcpListener::from_std(socket.into());
                    poll.registry()
                        .register(&mut listener, Token(index), Interest::READABLE)?;
                    Port::Stream(listener)
                }
            };
            listeners.push(Listener {
                local,
                transport,
                framing,
                tls: bound.config.tls,
                port,
                again: false,
                counters: ListenerCounters::default(),
            });
        }
        let now_ms = clock::now_ms();
        let (handshakes, handshaken) = mpsc::channel();
        Ok(Self {
            poll,
            events: Some(Events::with_capacity(EVENTS_MAX)),
            waker,
            listeners,
            conns: Conns::new(worker),
            shared: Shared {
                config,
                counters: Counters::default(),
                now_ms,
                wheel: Wheel::with_tick(now_ms, TICK_MS),
                due: Vec::new(),
                buffers: Default::default(),
                scratch: vec![0; READ_BYTES],
                turn_bytes: 0,
                queued_bytes: 0,
                kept_bytes: 0,
            },
            gather: Gather::new(Instant::now()),
            received: RecvBatch::new(),
            sending: SendBatch::new(),
            again: Vec::new(),
            turns: Vec::new(),
            dirty: Vec::new(),
            owed: VecDeque::new(),
            handshaken,
            handshakes,
            opened_tls: HandshakeTally::default(),
        })
    }

    /// A handle with which other threads wake this worker.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Waits until something happens, `timeout` at most (`None` is for ever),
    /// and hands it to `on_event`. Under traffic it may let messages gather
    /// first ([`NetConfig::gather_us`]). Work per call is bounded, fairly among
    /// sockets; what is left is done in the next call, which does not wait.
    /// What was queued and not flushed is written first.
    pub fn poll(
        &mut self,
        timeout: Option<Duration>,
        mut on_event: impl FnMut(NetEvent<'_>),
    ) -> io::Result<()> {
        let on_event = &mut on_event;
        self.flush();
        let told = self.tell(on_event);
        let timeout = self.wait_at_most(timeout, told);
        let Some(mut events) = self.events.take() else {
            return Err(io::Error::other("poll is not reentrant"));
        };
        let interval = Duration::from_micros(self.shared.config.gather_us);
        if !interval.is_zero() && timeout != Some(Duration::ZERO) {
            let pause = self.gather.pause(interval, Instant::now());
            if !pause.is_zero() {
                std::thread::sleep(timeout.map_or(pause, |timeout| timeout.min(pause)));
            }
        }
        let result = self.poll.poll(&mut events, timeout);
        let woken = Instant::now();
        self.shared.now_ms = clock::ms_at(woken);
        self.shared.counters.polls += 1;
        if result.is_ok() {
            self.waker.woken();
            self.shared.turn_bytes = 0;
            let spare = std::mem::take(&mut self.turns);
            let mut turns = std::mem::replace(&mut self.again, spare);
            for token in turns.drain(..) {
                self.begin_turn(token);
                self.handle(Ready::more(token), on_event);
            }
            self.turns = turns;
            for event in &events {
                self.handle(Ready::new(event), on_event);
            }
            self.handle_timers();
            self.tell(on_event);
            let messages = self.shared.counters.messages_in();
            self.gather.looked(interval, woken, messages);
        }
        self.events = Some(events);
        match result {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// The time at which the last `poll` woke up, in [`crate::clock::now_ms`]'s terms.
    pub fn now_ms(&self) -> u64 {
        self.shared.now_ms
    }

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
            owe_failure(&mut self.owed, cookie, error);
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

    /// Writes what was queued: datagrams in batches, each connection's bytes at once.
    pub fn flush(&mut self) {
        let owed = &mut self.owed;
        for listener in &mut self.listeners {
            if let Port::Udp(port) = &mut listener.port
                && port.has_unsent()
            {
                port.flush(
                    &mut self.sending,
                    &mut self.shared.counters,
                    &mut |cookie, error| {
                        owe_failure(owed, cookie, error);
                    },
                );
            }
        }
        while let Some(id) = self.dirty.pop() {
            let Some(conn) = self.conns.get_mut(id) else {
                continue;
            };
            conn.dirty = false;
            if let Err(reason) = conn.flush(&mut self.shared) {
                self.drop_conn(id, reason);
            }
        }
    }

    /// Opens a connection of its own, whether or not there is one already.
    /// Messages sent on it wait until it is up.
    pub fn open(&mut self, to: &Target) -> Result<ConnId, SendError> {
        self.open_with(to, None)
    }

    /// The same over TLS under an identity and with options of its own. Only
    /// what names the connection is sent on it.
    pub fn open_as(&mut self, to: &Target, tls: &Arc<ClientTls>) -> Result<ConnId, SendError> {
        self.open_with(to, Some(tls))
    }

    fn open_with(
        &mut self,
        to: &Target,
        tls: Option<&Arc<ClientTls>>,
    ) -> Result<ConnId, SendError> {
        let index = usize::from(to.listener.0);
        let listener = self.listeners.get(index).ok_or(SendError::NoListener)?;
        if !matches!(to.transport, Transport::Tcp | Transport::Tls) {
            return Err(SendError::NoListener);
        }
        if to.transport == Transport::Tls
            && ((self.shared.config.client_tls.is_none() && tls.is_none())
                || self.shared.config.handshakes.is_none())
        {
            return Err(SendError::NoListener);
        }
        if self.conns.len() >= self.shared.config.connections_max.min(CONNS_MAX) {
            return Err(SendError::Full);
        }
        let framing = listener.framing;
        let mut socket = connect(to.remote, listener.local).map_err(|_| {
            self.shared.counters.open_failed += 1;
            SendError::Closed(CloseReason::ConnectFailed)
        })?;
        // The kernel chose it when the connection was begun.
        let local = socket.local_addr().unwrap_or(listener.local);
        let flow = Flow {
            transport: to.transport,
            listener: to.listener,
            local,
            remote: to.remote,
            conn: ConnId::NONE,
        };
        let now_ms = self.shared.now_ms;
        let mut conn = Conn::new(flow, State::Connecting, framing, now_ms);
        conn.opened = true;
        conn.client_tls = tls.filter(|_| to.transport.is_secure()).cloned();
        conn.tls_name = to.tls_name.clone().filter(|_| to.transport.is_secure());
        conn.deadline_ms = now_ms.saturating_add(self.shared.config.connect_timeout_ms);
        let id = self.conns.insert(conn).ok_or(SendError::Full)?;
        let registered = register(self.poll.registry(), &mut socket, id);
        if let Some(conn) = self.conns.get_mut(id) {
            conn.socket = Some(socket);
            conn.arm(&mut self.shared);
        }
        self.shared.counters.connections += 1;
        if registered.is_err() {
            self.drop_conn(id, CloseReason::ConnectFailed);
        }
        Ok(id)
    }

    /// Closes a connection, now or after what is queued on it was written. In
    /// the second case a TLS peer is told so (close_notify).
    pub fn close(&mut self, id: ConnId, after_flush: bool) {
        self.conns.forget_peer(id);
        let Some(conn) = self.conns.get_mut(id) else {
            return;
        };
        if !after_flush {
            let reason = if conn.state == State::Deaf {
                conn.reason
            } else {
                CloseReason::Asked
            };
            self.drop_conn(id, reason);
        } else if let Err(reason) = conn.begin_to_close(&mut self.shared) {
            self.drop_conn(id, reason);
        }
    }

    /// Breaks a connection off: it is reset, what is queued on it is lost, and
    /// a TLS peer is told nothing.
    pub fn abort(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(id)
            && let Some(socket) = &conn.socket
        {
            // Fails only if the connection has ended already.
            let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
        }
        self.drop_conn(id, CloseReason::Asked);
    }

    /// Closes every connection, now or after what is queued on it was written.
    pub fn close_all(&mut self, after_flush: bool) {
        for id in self.conns.ids() {
            self.close(id, after_flush);
        }
    }

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

    /// Replaces bounds, deadlines and TLS; what is open stays open.
    pub fn reconfigure(&mut self, config: NetConfig) {
        for listener in &mut self.listeners {
            if let Port::Udp(port) = &mut listener.port {
                port.set_queue_max(config.udp_queue_max);
            }
        }
        self.shared.config = config;
    }

    /// The address that a listener is bound to, with its real port.
    pub fn local_addr(&self, listener: ListenerId) -> Option<SocketAddr> {
        self.listeners
            .get(usize::from(listener.0))
            .map(|listener| listener.local)
    }

    /// What was counted.
    pub fn counters(&self) -> Counters {
        self.shared.counters
    }

    /// What was counted for one listener.
    pub fn listener_counters(&self, listener: ListenerId) -> Option<ListenerCounters> {
        let listener = self.listeners.get(usize::from(listener.0))?;
        Some(listener.counters)
    }

    /// What was counted of the TLS handshakes of connections that were opened.
    pub fn opened_tls(&self) -> &HandshakeTally {
        &self.opened_tls
    }

    /// What came of a connection's TLS handshake; `None` until it is done.
    pub fn tls_info(&self, id: ConnId) -> Option<&TlsInfo> {
        self.conns.get(id)?.tls.as_deref()
    }

    /// Whom the peer of a TLS connection speaks for, by its certificate, if it
    /// showed one. Read from the certificate anew each time.
    pub fn peer_identity(&self, id: ConnId) -> Option<PeerIdentity> {
        let session = self.conns.get(id)?.session.as_ref()?;
        PeerIdentity::from_der(session.peer_certificates()?.first()?)
    }

    /// How many connections there are.
    pub fn connection_count(&self) -> usize {
        self.conns.len()
    }

    /// Whether bytes are queued on any connection or socket.
    pub fn has_unsent(&self) -> bool {
        self.shared.queued_bytes > 0
            || self
                .listeners
                .iter()
                .any(|listener| matches!(&listener.port, Port::Udp(port) if port.has_unsent()))
    }

    /// Bytes held of messages that were begun and not finished.
    pub fn kept_bytes(&self) -> usize {
        self.shared.kept_bytes
    }

    fn send_datagram(&mut self, to: &Target, bytes: &[u8], cookie: u64) -> Result<(), SendError> {
        let listener = self
            .listeners
            .get_mut(usize::from(to.listener.0))
            .ok_or(SendError::NoListener)?;
        let Port::Udp(port) = &mut listener.port else {
            return Err(SendError::NoListener);
        };
        let owed = &mut self.owed;
        port.queue(
            to.remote,
            bytes,
            cookie,
            &mut self.sending,
            &mut self.shared.counters,
            &mut |cookie, error| {
                owe_failure(owed, cookie, error);
            },
        );
        Ok(())
    }

    fn send_on_stream(&mut self, to: &Target, bytes: &[u8], cookie: u64) -> Result<(), SendError> {
        let id = self.find_conn(to)?;
        let Some(conn) = self.conns.get_mut(id) else {
            return Err(SendError::Gone);
        };
        let early = if conn.unsent_bytes() >= WRITE_AT_BYTES {
            conn.flush(&mut self.shared)
        } else {
            Ok(())
        };
        match early.and_then(|()| conn.queue(bytes, cookie, &mut self.shared)) {
            Ok(()) => {
                traffic(&mut self.shared.counters, to.transport).messages_out += 1;
                mark_dirty(conn, &mut self.dirty);
                Ok(())
            }
            Err(reason) => {
                self.drop_conn(id, reason);
                Err(SendError::Closed(reason))
            }
        }
    }

    /// The connection for a target: the named one, one to the same peer under
    /// the same name, or a new one.
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
        let peer = Peer {
            transport: to.transport,
            remote: to.remote,
            tls_name: to.tls_name.clone(),
        };
        match self.conns.by_peer(&peer) {
            Some(id) => Ok(id),
            None => self.open(to),
        }
    }

    fn wait_at_most(&self, timeout: Option<Duration>, told: bool) -> Option<Duration> {
        if told || !self.again.is_empty() {
            return Some(Duration::ZERO);
        }
        let due = self.shared.wheel.next_deadline_ms();
        let own = due.map(|due| Duration::from_millis(due.saturating_sub(self.shared.now_ms)));
        match (timeout, own) {
            (Some(timeout), Some(own)) => Some(timeout.min(own)),
            (timeout, own) => timeout.or(own),
        }
    }

    /// Tells what is owed; gives whether there was anything.
    fn tell(&mut self, on_event: &mut impl FnMut(NetEvent<'_>)) -> bool {
        let any = !self.owed.is_empty();
        while let Some(owed) = self.owed.pop_front() {
            on_event(match owed {
                Owed::Accepted(flow) => NetEvent::Accepted { flow },
                Owed::Opened(flow) => NetEvent::Opened { flow },
                Owed::HandshakeFailed(conn, error) => NetEvent::HandshakeFailed { conn, error },
                Owed::Closed(conn, reason) => NetEvent::Closed { conn, reason },
                Owed::SendFailed(cookie, error) => NetEvent::SendFailed { cookie, error },
            });
        }
        any
    }
}

fn owe_failure(owed: &mut VecDeque<Owed>, cookie: u64, error: SendError) {
    if cookie != 0 {
        owed.push_back(Owed::SendFailed(cookie, error));
    }
}

fn mark_dirty(conn: &mut Conn, dirty: &mut Vec<ConnId>) {
    if !conn.dirty {
        conn.dirty = true;
        dirty.push(conn.flow.conn);
    }
}

fn register(registry: &Registry, socket: &mut mio::net::TcpStream, id: ConnId) -> io::Result<()> {
    // Both at once and for good: with edge-triggered events that costs no
    // wake-up, and never a call to change it.
    let token = Token(FIRST_CONN + conns::place(id));
    registry.register(socket, token, Interest::READABLE | Interest::WRITABLE)
}

/// Begins to connect, from the listener's address where it has one.
fn connect(remote: SocketAddr, local: SocketAddr) -> io::Result<mio::net::TcpStream> {
    let socket = Socket::new(
        Domain::for_address(remote),
        Type::STREAM.nonblocking(),
        Some(Protocol::TCP),
    )?;
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_user_timeout(Some(PEER_TIMEOUT))?;
    if !local.ip().is_unspecified() && local.is_ipv4() == remote.is_ipv4() {
        sys::set_bind_address_no_port(std::os::fd::AsRawFd::as_raw_fd(&socket))?;
        socket.bind(&SocketAddr::new(local.ip(), 0).into())?;
    }
    match socket.connect(&remote.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(error) => return Err(error),
    }
    Ok(mio::net::TcpStream::from_std(socket.into()))
}
