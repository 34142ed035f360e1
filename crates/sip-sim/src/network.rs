//! The network: datagrams that are lost, come twice and overtake each other,
//! and streams that do nothing of the kind until they break.

use crate::Dice;
use crate::plan::Weather;
use sip_msg::{ConnId, Flow, ListenerId, Target, Transport};
use std::net::SocketAddr;

/// Where something arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// A shard of the server: whose message it was, where one could not be sent.
    Server(usize),
    Host(usize),
}

/// Something that the network will do.
#[derive(Debug)]
pub(crate) enum Delivery {
    Message { to: End, flow: Flow, bytes: Vec<u8> },
    SendFailed { to: End, cookie: u64 },
    Closed { to: End, conn: ConnId },
}

/// What became of a message.
pub(crate) enum Sent {
    /// So many copies are under way.
    Copies(Vec<(u64, Delivery)>),
    /// The sender must first open a connection, and may.
    NeedsConnection,
}

struct Stream {
    host: usize,
    is_open: bool,
    /// When the last message in each direction arrives: the next is not before it.
    up_ms: u64,
    down_ms: u64,
}

/// The network.
pub(crate) struct Network {
    dice: Dice,
    weather: Weather,
    server: SocketAddr,
    hosts: Vec<SocketAddr>,
    streams: Vec<Stream>,
    pub(crate) lost: u64,
    pub(crate) broken: u64,
}

impl Network {
    pub(crate) fn new(
        seed: u64,
        weather: Weather,
        server: SocketAddr,
        hosts: Vec<SocketAddr>,
    ) -> Self {
        Self {
            dice: Dice::new(seed, 2),
            weather,
            server,
            hosts,
            streams: Vec::new(),
            lost: 0,
            broken: 0,
        }
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

    /// Opens a stream from a host to the server. Both ends name it alike.
    pub(crate) fn open(&mut self, host: usize) -> ConnId {
        self.streams.push(Stream {
            host,
            is_open: true,
            up_ms: 0,
            down_ms: 0,
        });
        ConnId(self.streams.len() as u64)
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
        let receiver = if to.remote == self.server {
            Some(End::Server(0))
        } else {
            self.hosts
                .iter()
                .position(|&addr| addr == to.remote)
                .map(End::Host)
        };
        let Some(receiver) = receiver else {
            self.lost += 1;
            return Sent::Copies(Vec::new());
        };
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
        self.broken += 1;
        let at = |dice: &mut Dice, after_ms: u64| after_ms.max(now_ms) + dice.below(50);
        vec![
            (
                at(&mut self.dice, up_ms),
                Delivery::Closed {
                    to: End::Server(0),
                    conn,
                },
            ),
            (
                at(&mut self.dice, down_ms),
                Delivery::Closed {
                    to: End::Host(host),
                    conn,
                },
            ),
        ]
    }

    fn datagram(&mut self, now_ms: u64, to: End, flow: Flow, bytes: &[u8]) -> (u64, Delivery) {
        let due_ms = now_ms
            + self
                .dice
                .between(self.weather.delay_min_ms, self.weather.delay_max_ms);
        let bytes = bytes.to_vec();
        (due_ms, Delivery::Message { to, flow, bytes })
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
        let (server, hosts) = (self.server, &self.hosts);
        let Some(stream) = stream_mut(&mut self.streams, to.conn).filter(|stream| stream.is_open)
        else {
            if to.may_open && to.remote == server && matches!(from, End::Host(_)) {
                return Sent::NeedsConnection;
            }
            // Nobody listens where the phones are.
            let failure = Delivery::SendFailed { to: from, cookie };
            let due_ms = now_ms + 1;
            return Sent::Copies(if cookie == 0 {
                Vec::new()
            } else {
                vec![(due_ms, failure)]
            });
        };
        let host = hosts.get(stream.host).copied().unwrap_or(server);
        let (receiver, last_ms, local, remote, listener) = match from {
            End::Server(_) => (End::Host(stream.host), &mut stream.down_ms, host, server, 0),
            End::Host(_) => (End::Server(0), &mut stream.up_ms, server, host, 1),
        };
        *last_ms = (*last_ms).max(now_ms + delay_ms);
        let flow = Flow {
            transport: Transport::Tcp,
            listener: ListenerId(listener),
            local,
            remote,
            conn: to.conn,
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
            out.extend(self.break_stream(now_ms, to.conn));
        }
        Sent::Copies(out)
    }
}

fn stream_mut(streams: &mut [Stream], conn: ConnId) -> Option<&mut Stream> {
    let index = usize::try_from(conn.0).ok()?.checked_sub(1)?;
    streams.get_mut(index)
}
