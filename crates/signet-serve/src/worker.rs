//! A worker's thread: the sockets, the database and the resolver under what
//! [`sip_worker`] decides.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};

use ledger::{Component, CpuTimes, enter, within};
use sip_engine::{Now, ParkId};
use sip_limit::Shares;
use sip_locate::{Hop, LocateError, Query};
use sip_msg::{ConnId, ListenerId, Outbox, Target};
use sip_net::{
    Aliases, CloseReason, DnsClient, Net, NetEvent, PeerNames, QUOTED_BYTES_MAX, SendError, Shed,
    clock,
};
use sip_worker::{Environment, SendFailure, SocketEvent, Wake};
pub(crate) use sip_worker::{Phase, Severities};

use crate::hook::WorkerHook;
use crate::records::WorkerRecords;
use crate::store_link::StoreClient;
use crate::trace::WorkerTracer;

pub(crate) type Control = sip_worker::Control<NetFigures, Waker>;
pub(crate) type Mailbox = sip_worker::Mailbox<Waker>;
pub(crate) type Parts = sip_worker::Parts<Service>;
pub(crate) type Snapshot = sip_worker::Snapshot<NetFigures>;

/// What a worker works with in service.
pub(crate) enum Service {}

impl Environment for Service {
    type Sockets = Sockets;
    type Store = StoreClient;
    type Resolver = Resolver;
    type Hook = WorkerHook;
    type Trace = WorkerTracer;
    type Records = WorkerRecords;
    type Waker = Waker;
}

/// Runs a worker until it is told to stop. An error is the sockets' own.
pub(crate) fn run(mut sockets: Sockets, parts: Parts) -> io::Result<()> {
    ledger::open(clock::now_ns);
    let mut worker = sip_worker::Worker::new(parts, now());
    while worker.begin_turn(&mut sockets) {
        sockets.net.poll(worker.timeout(), |event| {
            let _core = enter(Component::SipCore);
            worker.wake_up(now);
            if let Some(event) = translate(event) {
                worker.handle_event(event);
            }
        })?;
        worker.wake_up(now);
        worker.end_turn(&mut sockets);
    }
    worker.stop(&mut sockets, now());
    Ok(())
}

/// The CPU time of this thread, as the kernel counts it; 0 where it does not say, which
/// takes nothing from what was counted.
fn cpu_ns() -> u64 {
    let cpu = sip_net::sys::thread_cpu_time().unwrap_or_default();
    u64::try_from(cpu.as_nanos()).unwrap_or(0)
}

fn now() -> Now {
    Now {
        mono_ms: clock::now_ms(),
        unix_ms: clock::unix_ms(),
    }
}

/// What a worker has to know of it, if anything.
fn translate(event: NetEvent<'_>) -> Option<SocketEvent<'_>> {
    Some(match event {
        NetEvent::Datagram { flow, bytes } | NetEvent::Message { flow, bytes } => {
            SocketEvent::Message { flow, bytes }
        }
        NetEvent::Malformed { flow, head, error } => SocketEvent::Malformed {
            flow,
            head,
            error: error.error,
        },
        NetEvent::Verified { flow, peer } => SocketEvent::Verified {
            conn: flow.conn,
            peer,
        },
        NetEvent::Closed { conn, .. } => SocketEvent::Closed(conn),
        NetEvent::SendFailed {
            cookie,
            error: SendError::Unreachable,
        } => SocketEvent::Returned { cookie },
        NetEvent::Beside { from, bytes } => SocketEvent::FromEngine { from, bytes },
        NetEvent::BesideRefused(to) => SocketEvent::EngineUnreachable(to),
        NetEvent::SendFailed { cookie, error } => SocketEvent::SendFailed {
            cookie,
            failure: failure(error),
        },
        NetEvent::Unreachable {
            remote,
            quoted,
            is_told: false,
            ..
        } => SocketEvent::Unreachable {
            remote,
            quoted: quoted.get(..QUOTED_BYTES_MAX).unwrap_or(quoted),
        },
        NetEvent::Accepted { .. }
        | NetEvent::Opened { .. }
        | NetEvent::HandshakeFailed { .. }
        | NetEvent::UpgradeFailed { .. }
        | NetEvent::Unreachable { .. }
        | NetEvent::Data { .. } => return None,
    })
}

/// What a failure says of who would have got the message. A gateway that was taken for gone
/// because of a limit of this machine, or of a message that is too long, would be left by all.
const fn failure(error: SendError) -> SendFailure {
    match error {
        SendError::Full
        | SendError::NoLocalPort
        | SendError::Unsendable
        | SendError::Closed(CloseReason::Refused | CloseReason::Evicted | CloseReason::Asked) => {
            SendFailure::Here
        }
        SendError::Gone
        | SendError::Closed(_)
        | SendError::Unreachable
        | SendError::NoRoute
        | SendError::NoListener => SendFailure::There,
        SendError::Lost => SendFailure::Lost,
    }
}

/// Which peers are counted by name: changed by the admin thread, read at a reload.
pub(crate) type CountedPeers = Arc<Mutex<Arc<PeerNames>>>;

/// A worker's sockets.
pub(crate) struct Sockets {
    net: Net,
    aliases: Option<Arc<Aliases>>,
    peer_names: CountedPeers,
    ways: Ways,
}

/// What the sockets of a worker count.
#[derive(Clone, Default)]
pub(crate) struct NetFigures {
    /// Messages, connections and errors.
    pub(crate) net: sip_net::Counters,
    /// Those of each listener, by its number.
    pub(crate) listeners: Vec<sip_net::ListenerCounters>,
    /// TLS handshakes of connections that were opened.
    pub(crate) opened_tls: sip_tls::HandshakeTally,
    /// Connections that were opened.
    pub(crate) opened: sip_net::ConnectionFigures,
    /// What there was with each peer.
    pub(crate) peers: Vec<sip_net::PeerCounters>,
    /// Bytes that wait on connections: to be written, or for the rest of a message.
    pub(crate) buffered_bytes: u64,
    /// The CPU time of the worker's thread, by component.
    pub(crate) cpu: CpuTimes,
}

impl Sockets {
    pub(crate) fn new(net: Net, aliases: Option<Arc<Aliases>>, peer_names: CountedPeers) -> Self {
        let mut sockets = Self {
            net,
            aliases,
            peer_names,
            ways: Ways::default(),
        };
        sockets.name_peers();
        sockets
    }

    pub(crate) fn waker(&self) -> sip_net::Waker {
        self.net.waker()
    }

    fn name_peers(&mut self) {
        let names = self.peer_names.lock();
        let names = names.unwrap_or_else(PoisonError::into_inner).clone();
        self.net.name_peers(names);
    }
}

impl sip_worker::Sockets for Sockets {
    type Figures = NetFigures;

    fn send(&mut self, to: &Target, bytes: &[u8], cookie: u64) {
        self.net.send(to, bytes, cookie);
    }

    fn send_outbox(&mut self, outbox: &Outbox) {
        self.net.send_outbox(outbox);
    }

    fn flush(&mut self) {
        self.net.flush();
    }

    fn send_to_engine(&mut self, to: SocketAddr, bytes: &[u8]) {
        self.net.send_beside(to, bytes);
    }

    fn keep_engines(&mut self, engines: &[SocketAddr]) {
        self.net.keep_beside(engines);
    }

    fn close(&mut self, conn: ConnId) {
        self.net.close(conn, true);
    }

    fn count_odd(&mut self, conn: ConnId) {
        self.net.count_odd(conn);
    }

    fn keep_for(&mut self, conn: ConnId, for_ms: u64) {
        self.net.keep_for(conn, for_ms);
    }

    fn end_call(&mut self, call: u64) {
        self.net.end_call(call);
    }

    fn stop_accepting(&mut self) {
        self.net.stop_accepting();
    }

    fn find_unreachable(&mut self, remote: SocketAddr, quoted: &[u8]) {
        self.net.find_unreachable(remote, quoted);
    }

    fn alias(&mut self, conn: ConnId, host: &str, port: Option<u16>) {
        // What was refused is counted there; the connection works as any other.
        let _ = self.net.alias(conn, host, port);
    }

    fn name_aliases(&self, outbox: &mut Outbox, now_unix_s: u64) -> u64 {
        let mut used = 0;
        if let Some(aliases) = self.aliases.as_ref().filter(|aliases| !aliases.is_empty()) {
            for send in &mut outbox.sends {
                if let Some(conn) = aliases.find(&send.to, now_unix_s) {
                    send.to.conn = conn;
                    used += 1;
                }
            }
        }
        used
    }

    fn settings_changed(&mut self) {
        self.name_peers();
        // Whom we trust may have changed with them.
        self.net.recheck_peers();
    }

    fn held_bytes(&self) -> usize {
        self.net.held_bytes()
    }

    fn trim(&mut self) {
        self.net.trim();
    }

    fn ends_for(&mut self, to: &Target) -> Option<(SocketAddr, SocketAddr)> {
        let (mut local, remote) = self.net.ends_for(to)?;
        if local.ip().is_unspecified() {
            local.set_ip(self.ways.local_to(remote));
        }
        Some((local, remote))
    }

    fn is_drained(&self) -> bool {
        self.net.is_drained()
    }

    fn waiting_ms(&self) -> Option<u64> {
        self.net.waiting_ms()
    }

    fn may_more_wait(&self) -> bool {
        self.net.may_more_wait()
    }

    fn messages_in(&self) -> u64 {
        self.net.counters_in()
    }

    fn time_datagrams(&mut self, is_on: bool) {
        self.net.time_datagrams(is_on);
    }

    fn shed(&mut self, offered: Option<&Shares>) {
        self.net.shed(offered.map(|offered| Shed {
            calls: offered.new_work.threshold(),
            registrations: offered.first_registration.threshold(),
        }));
    }

    fn figures(&self) -> NetFigures {
        let net = &self.net;
        NetFigures {
            net: net.counters(),
            listeners: (0..)
                .map_while(|nth| net.listener_counters(ListenerId(nth)))
                .collect(),
            opened_tls: *net.opened_tls(),
            opened: net.opened_connections(),
            peers: net.peer_counters(),
            buffered_bytes: (net.queued_bytes() + net.kept_bytes()) as u64,
            cpu: ledger::settle(cpu_ns()),
        }
    }
}

/// From which address of this machine the routes lead to others, as they were when first
/// asked for.
#[derive(Default)]
struct Ways(HashMap<IpAddr, IpAddr>);

impl Ways {
    /// Past so many they are asked for anew.
    const MAX: usize = 1_024;

    /// The kernel is asked, and nothing is sent. Without a route it is the unspecified address.
    fn local_to(&mut self, remote: SocketAddr) -> IpAddr {
        if let Some(known) = self.0.get(&remote.ip()) {
            return *known;
        }
        let any: IpAddr = match remote {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let route = || {
            let socket = UdpSocket::bind((any, 0))?;
            socket.connect(remote)?;
            socket.local_addr()
        };
        let local = route().map_or(any, |local: SocketAddr| local.ip());
        if self.0.len() >= Self::MAX {
            self.0.clear();
        }
        self.0.insert(remote.ip(), local);
        local
    }
}

/// A worker's end of the resolver's thread.
pub(crate) struct Resolver(pub(crate) DnsClient);

impl sip_worker::Resolver for Resolver {
    fn ask(&mut self, park: ParkId, query: Query) -> bool {
        within(Component::Resolver, || self.0.ask(park.0, query).is_ok())
    }

    fn next_answer(&mut self) -> Option<(ParkId, Result<Vec<Hop>, LocateError>)> {
        let (id, answer) = self.0.next_answer()?;
        Some((ParkId(id), answer))
    }
}

/// Ends the wait of a worker's sockets.
pub(crate) struct Waker(pub(crate) sip_net::Waker);

impl Wake for Waker {
    fn wake(&self) {
        self.0.wake();
    }
}
