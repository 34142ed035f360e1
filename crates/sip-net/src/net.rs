//! One worker's sockets.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use mio::{Events, Poll, Token};
use sip_msg::{ConnId, ListenerId};
use sip_tls::{HandshakeTally, Handshaken, PeerIdentity, PoolMember, Reply, TlsInfo};
use wheel::Wheel;

use crate::awaited::AwaitedClients;
use crate::clock::{self, Clock};
use crate::config::{NetConfig, WorkerSockets};
use crate::conns::Conns;
use crate::shared::{READ_BYTES, Shared};
use crate::sys::{RecvBatch, SendBatch};
use crate::waker::Waker;
use crate::{ConnectionFigures, Counters, ListenerCounters, NetEvent, PeerCounters, PeerNames};

mod accept;
mod alias;
mod backoff;
mod beside;
mod close;
mod gather;
mod limit;
mod open;
mod open_rate;
mod pending_event;
mod ready;
mod recheck;
mod relieve;
mod secure;
mod send;
mod shed;
mod time_share;
mod turn;
mod waiting;

use accept::{Listener, Port};
use backoff::Backoff;
use beside::Beside;
pub use gather::Gather;
use open_rate::OpenRates;
use pending_event::PendingEvent;
use ready::{Ready, WAKER};
use recheck::Recheck;
use time_share::TimeShare;
use waiting::WaitingStreams;

/// Messages in each interval, on average, from which on it pays to let them gather.
const WORTH_MESSAGES: u32 = 2;
/// Events taken from the kernel at a time.
const EVENTS_MAX: usize = 1_024;
/// How long a worker that has not too much to do waits at least, where it has nothing to do or lets
/// more come. To ask for events that are there takes less; a worker at nineteen twentieths of its
/// core, which gathers for a millisecond, has more.
const RESTED: Duration = Duration::from_micros(30);
/// The tick of the connections' deadlines.
const TICK_MS: u64 = 100;

/// The sockets of one worker thread.
pub struct Net {
    clock: Clock,
    poll: Poll,
    /// `None` only while its events are being handled.
    events: Option<Events>,
    waker: Waker,
    listeners: Vec<Listener>,
    conns: Conns,
    backoff: Backoff,
    open_rates: OpenRates,
    shared: Shared,
    gather: Gather,
    received: RecvBatch,
    sending: SendBatch,
    /// Sockets with more to read than one turn allows.
    unfinished_reads: Vec<Token>,
    /// The same, of the turn before, while they are read on.
    resumed_reads: Vec<Token>,
    /// Streams that others opened, with more to read than a turn allows: as many are read as
    /// the next one does.
    waiting_reads: WaitingStreams,
    /// Streams with more to read that this turn has read: they come last in the next.
    read_on: Vec<Token>,
    /// What this turn has read of streams that this side opened, and what it may yet read of those
    /// that others did.
    opened_bytes: usize,
    turn_left: usize,
    /// Whether the kernel told of all sockets that had something to read, and when it last did.
    has_seen_all: bool,
    all_seen_ms: u64,
    /// How long the turn before took, if it read streams: what comes to one meanwhile waits so long,
    /// whoever sent it, and nobody stamps it.
    turn_ms: u64,
    /// Whether the last turn had to wait for something to do, or waited for more of it.
    has_rested: bool,
    /// Sockets with handshakes that are ready in this turn: they come after what
    /// is on open connections.
    handshakes_ready: Vec<Ready>,
    /// Handshakes that a turn had no room for.
    deferred_handshakes: VecDeque<ConnId>,
    /// Clients that their handshakes wait for.
    awaited: AwaitedClients,
    /// For full handshakes that the worker does itself.
    handshake_time: TimeShare,
    /// Connections with something to write.
    to_flush: Vec<ConnId>,
    /// What is to be told at the next `poll`.
    pending_events: VecDeque<PendingEvent>,
    /// Its part in the pool of handshakes.
    _member: Option<PoolMember>,
    handshaken: Receiver<Handshaken>,
    /// Gives it to them, from any thread, and wakes this worker.
    reply: Reply,
    /// Handshakes of connections that were opened.
    opened_tls: HandshakeTally,
    /// Connections whose certificates are looked at once more.
    recheck: Recheck,
    /// Sockets to servers beside SIP.
    beside: Beside,
}

impl Net {
    /// Takes the sockets bound for `worker`; connections bear its number.
    pub fn new(worker: usize, config: NetConfig, sockets: WorkerSockets) -> io::Result<Self> {
        Self::with_clock(worker, config, sockets, Clock::system())
    }

    /// The same with deadlines by a clock of the owner's.
    pub fn with_clock(
        worker: usize,
        config: NetConfig,
        sockets: WorkerSockets,
        clock: Clock,
    ) -> io::Result<Self> {
        let worker = u8::try_from(worker).map_err(|_| io::Error::other("more than 256 workers"))?;
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let mut listeners = Vec::new();
        for (index, bound) in sockets.listeners.into_iter().enumerate() {
            listeners.push(Listener::new(index, bound, &config, poll.registry())?);
        }
        let now = clock.now();
        let now_ms = clock::ms_at(now);
        let (handshakes, handshaken) = mpsc::channel();
        let reply = {
            let waker = waker.clone();
            Arc::new(move |done| {
                // The worker may have ended.
                let _ = handshakes.send(done);
                waker.wake();
            })
        };
        let member = config.handshakes.as_ref().map(|pool| pool.join());
        Ok(Self {
            clock,
            poll,
            events: Some(Events::with_capacity(EVENTS_MAX)),
            waker,
            listeners,
            conns: Conns::new(worker),
            backoff: Backoff::default(),
            open_rates: OpenRates::default(),
            shared: Shared {
                config,
                counters: Counters::default(),
                now_ms,
                wheel: Wheel::with_tick(now_ms, TICK_MS),
                due: Vec::new(),
                buffers: Default::default(),
                masks: Default::default(),
                scratch: vec![0; READ_BYTES],
                turn_bytes: 0,
                turn_cost: 0,
                queued_bytes: 0,
                kept_bytes: 0,
            },
            gather: Gather::new(now, WORTH_MESSAGES),
            received: RecvBatch::new(),
            sending: SendBatch::new(),
            unfinished_reads: Vec::new(),
            resumed_reads: Vec::new(),
            waiting_reads: WaitingStreams::default(),
            read_on: Vec::new(),
            opened_bytes: 0,
            turn_left: 0,
            has_seen_all: true,
            all_seen_ms: now_ms,
            turn_ms: 0,
            has_rested: true,
            handshakes_ready: Vec::new(),
            deferred_handshakes: VecDeque::new(),
            awaited: AwaitedClients::default(),
            handshake_time: TimeShare::new(now_ms),
            to_flush: Vec::new(),
            pending_events: VecDeque::new(),
            _member: member,
            handshaken,
            reply,
            opened_tls: HandshakeTally::default(),
            recheck: Recheck::default(),
            beside: Beside::default(),
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
        let done = self.clock.now();
        self.turn_ms = match self.shared.turn_bytes {
            0 => 0,
            _ => clock::ms_at(done).saturating_sub(self.shared.now_ms),
        };
        self.flush();
        let told = self.emit_pending(on_event);
        let timeout = self.wait_at_most(timeout, told);
        let Some(mut events) = self.events.take() else {
            return Err(io::Error::other("poll is not reentrant"));
        };
        let waits = ledger::wait();
        let may_rest = timeout != Some(Duration::ZERO);
        let begun_to_wait = if may_rest { self.clock.now() } else { done };
        let interval = Duration::from_micros(self.shared.config.gather_us);
        if !interval.is_zero() && timeout != Some(Duration::ZERO) {
            let pause = self.gather.pause(interval, self.clock.now());
            if !pause.is_zero() {
                std::thread::sleep(timeout.map_or(pause, |timeout| timeout.min(pause)));
            }
        }
        let timeout = match timeout {
            Some(Duration::ZERO) => timeout,
            timeout if self.waker.may_sleep() => timeout,
            _ => Some(Duration::ZERO),
        };
        let result = self.poll.poll(&mut events, timeout);
        drop(waits);
        let woken = self.clock.now();
        self.has_rested = may_rest && woken.saturating_duration_since(begun_to_wait) >= RESTED;
        self.shared.now_ms = clock::ms_at(woken);
        self.shared.counters.polls += 1;
        if result.is_ok() {
            let was_woken = self.waker.woke_up();
            self.shared.turn_bytes = 0;
            self.opened_bytes = 0;
            self.turn_left = turn::TURN_BYTES;
            self.shared.turn_cost = 0;
            let spare = std::mem::take(&mut self.resumed_reads);
            let mut turns = std::mem::replace(&mut self.unfinished_reads, spare);
            for token in turns.drain(..) {
                self.begin_turn(token);
                self.handle(Ready::more(token), on_event);
            }
            self.resumed_reads = turns;
            self.read_waiting(on_event);
            // Calls first. Handshakes behind them and in a row: each finds the
            // code of the one before it in the caches.
            let mut handshakes = std::mem::take(&mut self.handshakes_ready);
            let mut told_of = 0;
            for event in &events {
                told_of += 1;
                let ready = Ready::new(event);
                if self.is_handshaking(&ready) {
                    handshakes.push(ready);
                } else {
                    self.handle(ready, on_event);
                }
            }
            self.has_seen_all = told_of < EVENTS_MAX;
            if self.has_seen_all {
                self.all_seen_ms = self.shared.now_ms;
            }
            if was_woken {
                self.handle_handshakes(on_event);
                self.emit_pending(on_event);
            }
            self.drive_deferred_handshakes(on_event);
            for ready in handshakes.drain(..) {
                self.handle(ready, on_event);
            }
            self.handshakes_ready = handshakes;
            for token in self.read_on.drain(..) {
                match ready::conn(token).and_then(|id| self.conns.get_mut(id)) {
                    Some(conn) if conn.opened.is_none() => self.waiting_reads.put(conn),
                    Some(_) => self.unfinished_reads.push(token),
                    // It has ended meanwhile.
                    None => {}
                }
            }
            self.handle_timers();
            self.recheck_some();
            self.emit_pending(on_event);
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
        let place = usize::from(listener.0);
        let mut counters = self.listeners.get(place)?.counters;
        counters.connections = self.conns.meter.of_listener(place, self.shared.now_ms);
        Some(counters)
    }

    /// The connections that were opened.
    pub fn opened_connections(&self) -> ConnectionFigures {
        self.conns.meter.of_opened(self.shared.now_ms)
    }

    /// What was counted for each peer with which there was anything.
    pub fn peer_counters(&self) -> Vec<PeerCounters> {
        self.conns.meter.peers(self.shared.now_ms)
    }

    /// Counts the peers with these names by them, and all others together.
    /// Looks at every connection: for a start and a reload.
    pub fn name_peers(&mut self, names: Arc<PeerNames>) {
        self.conns.name_peers(names);
    }

    /// Bytes that wait to be written on connections.
    pub fn queued_bytes(&self) -> usize {
        self.shared.queued_bytes
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

    /// The memory that it holds on account of messages: those that wait to be
    /// written, and the beginnings of those that were not wholly read.
    pub fn held_bytes(&self) -> usize {
        let ports = self.listeners.iter().map(|listener| match &listener.port {
            Port::Udp(port) => port.held_bytes(),
            _ => 0,
        });
        self.shared.queued_bytes + self.shared.kept_bytes + ports.sum::<usize>()
    }

    /// Gives back memory that nothing has needed since the last call: to be
    /// called every few seconds.
    pub fn trim(&mut self) {
        for listener in &mut self.listeners {
            if let Port::Udp(port) = &mut listener.port {
                port.trim();
            }
        }
        self.received.trim();
        self.conns.trim();
    }

    fn wait_at_most(&self, timeout: Option<Duration>, told: bool) -> Option<Duration> {
        if told
            || !self.unfinished_reads.is_empty()
            || !self.waiting_reads.is_empty()
            || !self.deferred_handshakes.is_empty()
            || self.recheck.is_due()
        {
            return Some(Duration::ZERO);
        }
        let due = self.shared.wheel.next_deadline_ms();
        let own = due.map(|due| Duration::from_millis(due.saturating_sub(self.shared.now_ms)));
        match (timeout, own) {
            (Some(timeout), Some(own)) => Some(timeout.min(own)),
            (timeout, own) => timeout.or(own),
        }
    }

    /// Tells the events that waited for it; gives whether there were any.
    fn emit_pending(&mut self, on_event: &mut impl FnMut(NetEvent<'_>)) -> bool {
        let any = !self.pending_events.is_empty();
        while let Some(event) = self.pending_events.pop_front() {
            on_event(match event {
                PendingEvent::Verified(flow, peer) => NetEvent::Verified { flow, peer },
                PendingEvent::Accepted(flow) => NetEvent::Accepted { flow },
                PendingEvent::Opened(flow) => NetEvent::Opened { flow },
                PendingEvent::HandshakeFailed(conn, error) => {
                    NetEvent::HandshakeFailed { conn, error }
                }
                PendingEvent::UpgradeFailed(conn, fault) => NetEvent::UpgradeFailed { conn, fault },
                PendingEvent::Closed(conn, reason) => NetEvent::Closed { conn, reason },
                PendingEvent::SendFailed(cookie, error) => NetEvent::SendFailed { cookie, error },
                PendingEvent::BesideRefused(to) => NetEvent::BesideRefused(to),
            });
        }
        any
    }
}
