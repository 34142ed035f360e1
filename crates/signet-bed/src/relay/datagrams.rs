//! A relay of datagrams.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use mio::net::UdpSocket;
use mio::{Interest, Token};
use slab::Slab;

use super::alarms::Wake;
use super::shared::{CALLED, CALLER, Shared};
use super::{LISTENER, TOKENS_BEFORE};
use crate::Error;
use crate::line::Line;

/// Senders at once, each with a socket of its own towards the other side.
const SENDERS_MAX: usize = 4_096;
/// A sender who was silent for so long makes room for another.
const IDLE_NS: u64 = 60_000_000_000;
/// Datagrams read from one socket before others have their turn.
const READS_MAX: usize = 64;

/// Who sends, and what is under way for him.
struct Sender {
    address: SocketAddr,
    socket: UdpSocket,
    lines: [Line<Vec<u8>>; 2],
    held_bytes: [usize; 2],
    alarms: [Option<u64>; 2],
    spoke: Option<usize>,
    last_ns: u64,
}

/// A relay of datagrams.
pub(super) struct Datagrams {
    socket: UdpSocket,
    to: SocketAddr,
    senders: Slab<Sender>,
    by_address: HashMap<SocketAddr, usize>,
    has_more: bool,
    /// Senders whose answers are not all read.
    again: Vec<usize>,
}

impl Datagrams {
    pub(super) fn bind(listen: SocketAddr, to: SocketAddr, shared: &Shared) -> Result<Self, Error> {
        let failed = |error: std::io::Error| super::cannot_listen(listen, &error);
        let mut socket = UdpSocket::bind(listen).map_err(failed)?;
        shared
            .registry
            .register(&mut socket, LISTENER, Interest::READABLE)
            .map_err(failed)?;
        Ok(Self {
            socket,
            to,
            senders: Slab::new(),
            by_address: HashMap::new(),
            has_more: false,
            again: Vec::new(),
        })
    }

    pub(super) fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    pub(super) fn open(&self) -> usize {
        self.senders.len()
    }

    /// Reads what those who ask have sent.
    pub(super) fn receive(&mut self, shared: &mut Shared) {
        let mut scratch = std::mem::take(&mut shared.scratch);
        self.has_more = false;
        for read in 0.. {
            if read == READS_MAX {
                self.has_more = true;
                break;
            }
            match self.socket.recv_from(&mut scratch) {
                Ok((count, from)) => {
                    let bytes = scratch.get(..count).unwrap_or_default();
                    match self.sender(from, shared) {
                        Some(key) => self.take_in(key, CALLER, bytes, shared),
                        None => shared.counts.connections.refused += 1,
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // What an earlier datagram met with is no matter of the next.
                Err(_) => {}
            }
        }
        shared.scratch = scratch;
    }

    /// The kernel has something to say of a sender's socket.
    pub(super) fn note(&mut self, token: Token, shared: &mut Shared) {
        self.answers(token.0 - TOKENS_BEFORE, shared);
    }

    /// Reads what came back for a sender.
    fn answers(&mut self, key: usize, shared: &mut Shared) {
        let mut scratch = std::mem::take(&mut shared.scratch);
        for read in 0.. {
            let Some(sender) = self.senders.get(key) else {
                break;
            };
            if read == READS_MAX {
                self.again.push(key);
                break;
            }
            match sender.socket.recv(&mut scratch) {
                Ok(count) => {
                    let bytes = scratch.get(..count).unwrap_or_default();
                    self.take_in(key, CALLED, bytes, shared);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => {}
            }
        }
        shared.scratch = scratch;
    }

    /// Goes on with what was left unread; true where some still is.
    pub(super) fn go_on(&mut self, shared: &mut Shared) -> bool {
        if self.has_more {
            self.receive(shared);
        }
        for key in std::mem::take(&mut self.again) {
            self.answers(key, shared);
        }
        self.has_more || !self.again.is_empty()
    }

    /// Something is due.
    pub(super) fn ring(&mut self, key: usize, line: usize, at_ns: u64, shared: &mut Shared) {
        let Some(sender) = self.senders.get_mut(key) else {
            return;
        };
        if sender.alarms.get(line) != Some(&Some(at_ns)) {
            return;
        }
        sender.alarms[line] = None;
        loop {
            let now_ns = shared.now_ns();
            let Some((due_ns, bytes)) = sender.lines[line].pop_due(now_ns) else {
                break;
            };
            sender.held_bytes[line] -= bytes.len();
            shared.held_bytes -= bytes.len();
            let sent = if line == CALLER {
                sender.socket.send(&bytes)
            } else {
                self.socket.send_to(&bytes, sender.address)
            };
            match sent {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    shared.counts.traffic[line].overflowed += 1;
                }
                // Where nobody listens a datagram is lost without a word.
                _ => shared.counts.left(due_ns, now_ns),
            }
        }
        Self::set_alarm(sender, key, line, shared);
    }

    /// The sender with this address, who may be new.
    fn sender(&mut self, address: SocketAddr, shared: &mut Shared) -> Option<usize> {
        if let Some(&key) = self.by_address.get(&address) {
            return Some(key);
        }
        if self.senders.len() >= SENDERS_MAX {
            self.forget_idle(shared);
        }
        if self.senders.len() >= SENDERS_MAX {
            return None;
        }
        let local: IpAddr = if self.to.is_ipv4() {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            Ipv6Addr::UNSPECIFIED.into()
        };
        let mut socket = UdpSocket::bind(SocketAddr::from((local, 0))).ok()?;
        socket.connect(self.to).ok()?;
        let entry = self.senders.vacant_entry();
        let key = entry.key();
        let token = Token(TOKENS_BEFORE + key);
        shared
            .registry
            .register(&mut socket, token, Interest::READABLE)
            .ok()?;
        entry.insert(Sender {
            address,
            socket,
            lines: Default::default(),
            held_bytes: [0; 2],
            alarms: [None; 2],
            spoke: None,
            last_ns: shared.now_ns(),
        });
        self.by_address.insert(address, key);
        shared.counts.connections.accepted += 1;
        Some(key)
    }

    fn forget_idle(&mut self, shared: &mut Shared) {
        let now_ns = shared.now_ns();
        let by_address = &mut self.by_address;
        self.senders.retain(|_, sender| {
            let is_idle = sender.last_ns + IDLE_NS < now_ns && sender.held_bytes == [0; 2];
            if is_idle {
                by_address.remove(&sender.address);
                let _ = shared.registry.deregister(&mut sender.socket);
            }
            !is_idle
        });
    }

    fn take_in(&mut self, key: usize, side: usize, bytes: &[u8], shared: &mut Shared) {
        let Some(sender) = self.senders.get_mut(key) else {
            return;
        };
        let now_ns = shared.now_ns();
        sender.last_ns = now_ns;
        let traffic = &mut shared.counts.traffic[side];
        traffic.datagram(bytes.len());
        if side == CALLED && sender.spoke == Some(CALLER) {
            shared.counts.round_trips += 1;
        }
        sender.spoke = Some(side);
        // An empty datagram takes room as well.
        if !shared.has_room(sender.held_bytes[side]) || sender.lines[side].len() >= LINE_MAX {
            shared.counts.traffic[side].overflowed += 1;
            return;
        }
        let Some(due_ns) = shared.directions[side].datagram(now_ns, bytes.len()) else {
            shared.counts.traffic[side].lost += 1;
            return;
        };
        sender.held_bytes[side] += bytes.len();
        shared.held_bytes += bytes.len();
        sender.lines[side].push(due_ns, bytes.to_vec());
        Self::set_alarm(sender, key, side, shared);
    }

    fn set_alarm(sender: &mut Sender, key: usize, line: usize, shared: &mut Shared) {
        if let Some(due_ns) = sender.lines[line].next_due_ns()
            && sender.alarms[line] != Some(due_ns)
        {
            sender.alarms[line] = Some(due_ns);
            shared.alarms.set(due_ns, Wake::Line(key, line));
        }
    }
}

/// Datagrams under way in one direction of one sender.
const LINE_MAX: usize = 65_536;
