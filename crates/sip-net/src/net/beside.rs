//! Datagrams to servers that the operator has named, beside SIP: each has a socket of its own,
//! connected, so that the kernel lets nobody else in and says who is not there.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use ledger::{Component, within};
use mio::net::UdpSocket;
use mio::{Interest, Registry, Token};

use super::Net;
use super::pending_event::PendingEvent;
use super::ready::Ready;
use crate::NetEvent;

/// Such sockets, at most so many.
const SOCKETS_MAX: usize = 64;
/// Their tokens begin behind those of all listeners, and below those of connections.
const FIRST_TOKEN: usize = 1 << 15;
/// Datagrams read from one of them in a turn.
const READS_MAX: usize = 64;
/// The longest datagram that may come.
const DATAGRAM_BYTES_MAX: usize = 65_535;
/// The longest that is sent: what IPv4 carries behind its header and that of UDP.
const SENT_BYTES_MAX: usize = 65_507;

/// The sockets; a place stays with the next one where a socket was closed.
#[derive(Default)]
pub(super) struct Beside {
    sockets: Vec<Option<Socket>>,
    buffer: Vec<u8>,
}

struct Socket {
    at: SocketAddr,
    socket: UdpSocket,
}

impl Beside {
    /// The socket to an address, opened where there is none.
    fn socket(&mut self, at: SocketAddr, registry: &Registry) -> io::Result<&UdpSocket> {
        let known = self
            .sockets
            .iter()
            .position(|of| of.as_ref().is_some_and(|of| of.at == at));
        let place = match known {
            Some(place) => place,
            None => self.open(at, registry)?,
        };
        let opened = self.sockets.get(place).and_then(Option::as_ref);
        let opened = opened.map(|of| &of.socket);
        opened.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn open(&mut self, at: SocketAddr, registry: &Registry) -> io::Result<usize> {
        let free = self.sockets.iter().position(Option::is_none);
        let place = free.unwrap_or(self.sockets.len());
        if place >= SOCKETS_MAX {
            return Err(io::Error::other("too many sockets beside SIP"));
        }
        let any: SocketAddr = match at {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = std::net::UdpSocket::bind(any)?;
        socket.set_nonblocking(true)?;
        socket.connect(at)?;
        let mut socket = UdpSocket::from_std(socket);
        let token = Token(FIRST_TOKEN + place);
        registry.register(&mut socket, token, Interest::READABLE)?;
        let opened = Some(Socket { at, socket });
        match self.sockets.get_mut(place) {
            Some(free) => *free = opened,
            None => self.sockets.push(opened),
        }
        Ok(place)
    }
}

/// The place of the socket that a token stands for.
pub(super) fn index_of(token: Token) -> Option<usize> {
    let place = token.0.checked_sub(FIRST_TOKEN)?;
    (place < SOCKETS_MAX).then_some(place)
}

/// Whether an error says of the other side that nobody is there. All others are this machine's own: a
/// firewall or its full table of connections, no buffers, no descriptor. A server that was taken for
/// gone because of them would be left by all workers.
fn says_it_is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
    )
}

impl Net {
    /// Sends a datagram to a server beside SIP, at once. What it says comes as
    /// [`NetEvent::Beside`], and that it is not there as [`NetEvent::BesideRefused`]. What fails on
    /// this machine is a datagram that was lost on its way: whoever sends repeats it.
    pub fn send_beside(&mut self, to: SocketAddr, bytes: &[u8]) {
        // What no datagram carries says nothing about who would get it.
        if bytes.len() > SENT_BYTES_MAX {
            self.shared.counters.beside_drops += 1;
            return;
        }
        let registry = self.poll.registry();
        let sent = self
            .beside
            .socket(to, registry)
            .and_then(|socket| within(Component::Kernel, || socket.send(bytes)));
        match sent {
            Ok(_) => {}
            Err(error) if says_it_is_gone(&error) => {
                let refused = PendingEvent::BesideRefused(to);
                self.pending_events.push_back(refused);
            }
            Err(_) => self.shared.counters.beside_drops += 1,
        }
    }

    /// Closes the sockets to all other servers than these.
    pub fn keep_beside(&mut self, wanted: &[SocketAddr]) {
        for place in &mut self.beside.sockets {
            if place.as_ref().is_some_and(|of| !wanted.contains(&of.at)) {
                // Dropped, it leaves the poll too.
                *place = None;
            }
        }
    }

    /// Reads what came to one of the sockets.
    pub(super) fn handle_beside(
        &mut self,
        place: usize,
        ready: Ready,
        on_event: &mut impl FnMut(NetEvent<'_>),
    ) {
        // It may have been closed since the kernel spoke.
        let Some(Some(Socket { at, socket })) = self.beside.sockets.get(place) else {
            return;
        };
        self.beside.buffer.resize(DATAGRAM_BYTES_MAX, 0);
        for _ in 0..READS_MAX {
            let buffer = &mut self.beside.buffer;
            match within(Component::Kernel, || socket.recv(buffer)) {
                Ok(len) => on_event(NetEvent::Beside {
                    from: *at,
                    bytes: buffer.get(..len).unwrap_or_default(),
                }),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What was sent before came back.
                Err(error) if says_it_is_gone(&error) => {
                    on_event(NetEvent::BesideRefused(*at));
                }
                Err(_) => {}
            }
        }
        // It may have been told of again before its turn came.
        if !self.unfinished_reads.contains(&ready.token) {
            self.unfinished_reads.push(ready.token);
        }
    }
}
