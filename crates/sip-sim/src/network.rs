//! The network: datagrams that are lost, come twice and overtake each other,
//! and streams that do nothing of the kind until they break.

use crate::Dice;
use crate::environment::QUOTED_BYTES;
use crate::plan::{Translation, Weather};
use sip_msg::{ConnId, Flow, Lane, ListenerId, Target, Transport};
use std::collections::HashMap;
use std::net::SocketAddr;

use sip_worker::SendFailure;

/// Where something arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// A worker of the server.
    Server(usize),
    Host(usize),
}

/// Something that the network will do.
#[derive(Debug)]
pub(crate) enum Delivery {
    Message {
        to: End,
        flow: Flow,
        bytes: Vec<u8>,
    },
    SendFailed {
        to: End,
        cookie: u64,
        failure: SendFailure,
    },
    Closed {
        to: End,
        conn: ConnId,
    },
    /// A datagram came back (ICMP).
    Unreachable {
        to: End,
        remote: SocketAddr,
        quoted: Vec<u8>,
    },
}

/// What became of a message.
pub(crate) enum Sent {
    /// So many copies are under way.
    Copies(Vec<(u64, Delivery)>),
    /// None, and the sender is told so, if it asked.
    Failed(Option<(u64, Delivery)>),
    /// The sender must first open a connection, and may.
    NeedsConnection,
}

struct Stream {
    host: usize,
    worker: usize,
    /// Who asked for it, where that was the server.
    lane: Option<Lane>,
    is_open: bool,
    /// What the server wrote and may be told was lost: cookies, and until when.
    cookies: Vec<(u64, u64)>,
    /// When the last message in each direction arrives: the next is not before it.
    up_ms: u64,
    down_ms: u64,
}

/// How somebody is who may be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// There, and nothing else: it takes no streams.
    Up,
    /// There, and it takes streams.
    Listens,
    /// Gone, and its host says so.
    Refuses,
    /// Gone, and nobody says so.
    Silent,
}

/// How long the server may be told that something was lost.
const LOST_MS: u64 = 32_000;

/// The network.
pub(crate) struct Network {
    dice: Dice,
    weather: Weather,
    server: SocketAddr,
    hosts: Vec<SocketAddr>,
    health: Vec<Health>,
    workers: usize,
    /// Whether the server takes streams, and whether it is there at all.
    pub(crate) accepts: bool,
    pub(crate) is_up: bool,
    streams: Vec<Stream>,
    /// Hosts behind a translation, and until when it remembers the way to each.
    translated: HashMap<usize, u64>,
    translation: Option<Translation>,
    pub(crate) lost: u64,
    pub(crate) repeated: u64,
    pub(crate) broken: u64,
}

impl Network {
    pub(crate) fn new(
        seed: u64,
        weather: Weather,
        server: SocketAddr,
        hosts: Vec<SocketAddr>,
        workers: usize,
    ) -> Self {
        Self {
            dice: Dice::new(seed, 2),
            weather,
            server,
            health: vec![Health::Up; hosts.len()],
            hosts,
            workers,
            accepts: true,
            is_up: true,
            streams: Vec::new(),
            translated: HashMap::new(),
            translation: None,
            lost: 0,
            repeated: 0,
            broken: 0,
        }
    }

    /// Puts a translation before a host: the address that it is known by is the outside's.
    pub(crate) fn translate(&mut self, host: usize, translation: Translation) {
        self.translation = Some(translation);
        self.translated.insert(host, 0);
    }

    /// A host sends something outward: by the way that is remembered, or by a new port.
    fn go_out(&mut self, now_ms: u64, host: usize) {
        let memory_ms = self.translation.map_or(0, |of| of.memory_ms);
        let Some(until_ms) = self.translated.get_mut(&host) else {
            return;
        };
        if *until_ms <= now_ms
            && let Some(addr) = self.hosts.get_mut(host)
        {
            addr.set_port(addr.port() + 1);
        }
        *until_ms = now_ms + memory_ms;
    }

    /// Whether something that comes from outside gets to a host.
    fn gets_in(&mut self, now_ms: u64, host: usize) -> bool {
        let (Some(until_ms), Some(of)) = (self.translated.get_mut(&host), self.translation) else {
            return true;
        };
        let is_known = *until_ms > now_ms;
        if is_known && of.counts_inward {
            *until_ms = now_ms + of.memory_ms;
        }
        is_known
    }

    /// Where a datagram was sent that has no way: to a translation that says so?
    fn is_told(&self, to: SocketAddr) -> bool {
        let mut translated = self.translated.keys();
        self.translation.is_some_and(|of| of.speaks)
            && translated.any(|host| self.hosts.get(*host).is_some_and(|at| at.ip() == to.ip()))
    }

    pub(crate) fn addr(&self, end: End) -> SocketAddr {
        match end {
            End::Server(_) => self.server,
            End::Host(host) => self.hosts.get(host).copied().unwrap_or(self.server),
        }
    }

    /// Ends the bad weather, so that everything can come to rest.
    pub(crate) fn calm(&mut self) {
        self.weather.breakage = 0;
    }

    /// Opens a stream from a host to the server, if the server takes any. Both ends
    /// name it alike.
    pub(crate) fn open(&mut self, host: usize) -> ConnId {
        let worker = self.dice.below(self.workers as u64) as usize;
        self.stream(host, worker, None, self.is_up && self.accepts)
    }

    fn stream(&mut self, host: usize, worker: usize, lane: Option<Lane>, is_open: bool) -> ConnId {
        self.streams.push(Stream {
            host,
            worker,
            lane,
            is_open,
            cookies: Vec::new(),
            up_ms: 0,
            down_ms: 0,
        });
        ConnId((worker as u64) << 56 | self.streams.len() as u64)
    }

    pub(crate) fn is_open(&mut self, conn: ConnId) -> bool {
        stream_mut(&mut self.streams, conn).is_some_and(|stream| stream.is_open)
    }

    /// Somebody dies or returns. His streams end with him.
    pub(crate) fn set_health(
        &mut self,
        now_ms: u64,
        host: usize,
        health: Health,
    ) -> Vec<(u64, Delivery)> {
        if let Some(place) = self.health.get_mut(host) {
            *place = health;
        }
        let is_gone = matches!(health, Health::Refuses | Health::Silent);
        self.break_all(now_ms, |stream| is_gone && stream.host == host)
    }

    /// A call has ended, and the streams that are its own.
    pub(crate) fn end_call(
        &mut self,
        now_ms: u64,
        worker: usize,
        call: u64,
    ) -> Vec<(u64, Delivery)> {
        self.break_all(now_ms, |stream| {
            stream.worker == worker && stream.lane == Some(Lane::Call(call))
        })
    }

    /// The server dies: nobody of it hears of anything any more.
    pub(crate) fn server_dies(&mut self, now_ms: u64) -> Vec<(u64, Delivery)> {
        self.is_up = false;
        let mut all = self.break_all(now_ms, |_| true);
        all.retain(|(_, delivery)| !delivery.is_to_server());
        all
    }

    fn break_all(&mut self, now_ms: u64, which: impl Fn(&Stream) -> bool) -> Vec<(u64, Delivery)> {
        let numbered = self.streams.iter().zip(1_u64..);
        let ids: Vec<ConnId> = numbered
            .filter(|(stream, _)| stream.is_open && which(stream))
            .map(|(stream, number)| ConnId((stream.worker as u64) << 56 | number))
            .collect();
        ids.into_iter()
            .flat_map(|conn| self.break_stream(now_ms, conn))
            .collect()
    }

    /// Takes a message.
    pub(crate) fn send(
        &mut self,
        now_ms: u64,
        from: End,
        to: &Target,
        cookie: u64,
        bytes: &[u8],
    ) -> Sent {
        if to.transport.is_reliable() {
            return self.send_on_stream(now_ms, from, to, cookie, bytes);
        }
        if let End::Host(host) = from {
            self.go_out(now_ms, host);
        }
        let receiver = if to.remote == self.server {
            let worker = self.dice.below(self.workers as u64) as usize;
            self.is_up.then_some(End::Server(worker))
        } else {
            self.hosts
                .iter()
                .position(|&addr| addr == to.remote)
                .map(End::Host)
        };
        let receiver = receiver.filter(|end| match end {
            End::Host(host) => self.gets_in(now_ms, *host),
            End::Server(_) => true,
        });
        let Some(receiver) = receiver else {
            self.lost += 1;
            return Sent::Copies(match self.is_told(to.remote) {
                true => vec![self.come_back(now_ms, to.remote, bytes)],
                false => Vec::new(),
            });
        };
        if let End::Server(_) = from
            && self.dice.thousandths(self.weather.refusal)
        {
            let failure = Delivery::SendFailed {
                to: from,
                cookie,
                // Half of the time it is this machine that does not send it.
                failure: match cookie & 1 {
                    0 => SendFailure::Here,
                    _ => SendFailure::There,
                },
            };
            return Sent::Failed((cookie != 0).then_some((now_ms, failure)));
        }
        if let End::Host(host) = receiver
            && let Some(Health::Refuses | Health::Silent) = self.health.get(host)
        {
            self.lost += 1;
            let comes_back = self.health.get(host) == Some(&Health::Refuses);
            let unreachable = self.come_back(now_ms, self.addr(receiver), bytes);
            return Sent::Copies(match comes_back {
                true => vec![unreachable],
                false => Vec::new(),
            });
        }
        let flow = Flow {
            transport: Transport::Udp,
            listener: ListenerId(0),
            local: self.addr(receiver),
            remote: self.addr(from),
            conn: ConnId::NONE,
        };
        let mut copies = Vec::new();
        if self.dice.thousandths(self.weather.loss) {
            self.lost += 1;
        } else {
            copies.push(self.datagram(now_ms, receiver, flow, bytes));
        }
        if self.dice.thousandths(self.weather.repeat) {
            self.repeated += 1;
            copies.push(self.datagram(now_ms, receiver, flow, bytes));
        }
        Sent::Copies(copies)
    }

    /// Breaks a stream: both ends hear of it, what is under way arrives or not.
    pub(crate) fn break_stream(&mut self, now_ms: u64, conn: ConnId) -> Vec<(u64, Delivery)> {
        let Some(stream) = stream_mut(&mut self.streams, conn).filter(|stream| stream.is_open)
        else {
            return Vec::new();
        };
        stream.is_open = false;
        let (host, up_ms, down_ms) = (stream.host, stream.up_ms, stream.down_ms);
        let cookies = std::mem::take(&mut stream.cookies);
        let to = End::Server(stream.worker);
        self.broken += 1;
        let at = |dice: &mut Dice, after_ms: u64| after_ms.max(now_ms) + dice.below(50);
        let known_ms = at(&mut self.dice, up_ms);
        let failure = SendFailure::Lost;
        let lost = cookies
            .into_iter()
            .filter(|(_, until_ms)| *until_ms > now_ms);
        let lost = lost.map(|(cookie, _)| Delivery::SendFailed {
            to,
            cookie,
            failure,
        });
        let mut all: Vec<_> = lost.map(|lost| (known_ms, lost)).collect();
        all.extend([
            (known_ms, Delivery::Closed { to, conn }),
            (
                at(&mut self.dice, down_ms),
                Delivery::Closed {
                    to: End::Host(host),
                    conn,
                },
            ),
        ]);
        all
    }

    /// A datagram of the server comes back (ICMP), to any worker.
    fn come_back(&mut self, now_ms: u64, remote: SocketAddr, bytes: &[u8]) -> (u64, Delivery) {
        let quoted = bytes.get(..QUOTED_BYTES).unwrap_or(bytes).to_vec();
        let to = End::Server(self.dice.below(self.workers as u64) as usize);
        (now_ms + 1, Delivery::Unreachable { to, remote, quoted })
    }

    fn datagram(&mut self, now_ms: u64, to: End, flow: Flow, bytes: &[u8]) -> (u64, Delivery) {
        let due_ms = now_ms
            + self
                .dice
                .between(self.weather.delay_min_ms, self.weather.delay_max_ms);
        let bytes = bytes.to_vec();
        (due_ms, Delivery::Message { to, flow, bytes })
    }

    /// The stream that a worker of the server has to there, opened where it has none
    /// and somebody takes it.
    fn server_stream(&mut self, worker: usize, to: &Target) -> ConnId {
        let host = self.hosts.iter().position(|&addr| addr == to.remote);
        let listens = |host: &usize| self.health.get(*host) == Some(&Health::Listens);
        let Some(host) = host.filter(listens) else {
            return ConnId::NONE;
        };
        let find = |lane: Lane| {
            let mut numbered = self.streams.iter().zip(1_u64..);
            numbered.find(|(stream, _)| {
                stream.is_open
                    && (stream.worker, stream.host, stream.lane) == (worker, host, Some(lane))
            })
        };
        let (found, lane) = match to.lane {
            Lane::OfCall(call) => (
                find(Lane::Call(call)).or_else(|| find(Lane::Shared)),
                Lane::Shared,
            ),
            lane => (find(lane), lane),
        };
        match found {
            Some((_, number)) => ConnId((worker as u64) << 56 | number),
            None if to.may_open => self.stream(host, worker, Some(lane), true),
            None => ConnId::NONE,
        }
    }

    fn send_on_stream(
        &mut self,
        now_ms: u64,
        from: End,
        to: &Target,
        cookie: u64,
        bytes: &[u8],
    ) -> Sent {
        let breaks = self.dice.thousandths(self.weather.breakage);
        let delay_ms = self
            .dice
            .between(self.weather.delay_min_ms, self.weather.delay_max_ms);
        let conn = match (to.conn.is_some(), from) {
            (false, End::Server(worker)) => self.server_stream(worker, to),
            _ => to.conn,
        };
        let (server, hosts) = (self.server, &self.hosts);
        let Some(stream) = stream_mut(&mut self.streams, conn).filter(|stream| stream.is_open)
        else {
            if to.may_open && to.remote == server && matches!(from, End::Host(_)) {
                return Sent::NeedsConnection;
            }
            // Nobody listens where the phones are.
            let failure = Delivery::SendFailed {
                to: from,
                cookie,
                failure: SendFailure::There,
            };
            let due_ms = now_ms + 1;
            return Sent::Failed((cookie != 0).then_some((due_ms, failure)));
        };
        let host = hosts.get(stream.host).copied().unwrap_or(server);
        let (receiver, last_ms, local, remote, listener) = match from {
            End::Server(_) => (End::Host(stream.host), &mut stream.down_ms, host, server, 0),
            End::Host(_) => (
                End::Server(stream.worker),
                &mut stream.up_ms,
                server,
                host,
                1,
            ),
        };
        if cookie != 0 && matches!(from, End::Server(_)) {
            stream.cookies.push((cookie, now_ms + LOST_MS));
        }
        *last_ms = (*last_ms).max(now_ms + delay_ms);
        let flow = Flow {
            transport: Transport::Tcp,
            listener: ListenerId(listener),
            local,
            remote,
            conn,
        };
        let bytes = bytes.to_vec();
        let message = Delivery::Message {
            to: receiver,
            flow,
            bytes,
        };
        let mut out = vec![(*last_ms, message)];
        if breaks {
            if self.dice.below(2) == 0 {
                out.clear();
            }
            out.extend(self.break_stream(now_ms, conn));
        }
        Sent::Copies(out)
    }
}

impl Delivery {
    pub(crate) fn is_to_server(&self) -> bool {
        let (Self::Message { to, .. }
        | Self::SendFailed { to, .. }
        | Self::Closed { to, .. }
        | Self::Unreachable { to, .. }) = self;
        matches!(to, End::Server(_))
    }
}

fn stream_mut(streams: &mut [Stream], conn: ConnId) -> Option<&mut Stream> {
    let number = conn.0 & ((1 << 56) - 1);
    let index = usize::try_from(number).ok()?.checked_sub(1)?;
    streams.get_mut(index)
}
