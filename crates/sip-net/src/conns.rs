//! The table of a worker's connections: by number, by peer, and how many each
//! source has.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sip_msg::{ConnId, Transport};
use slab::Slab;

use crate::stream::Conn;

/// Bits of a [`ConnId`] that are the place in the table.
const PLACE_BITS: u32 = 20;
/// Bits of a [`ConnId`] below the worker's number.
const WORKER_SHIFT: u32 = 56;
/// The most connections of one worker.
pub(crate) const CONNS_MAX: usize = (1 << PLACE_BITS) - 1;

/// What a connection may be reused for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Peer {
    pub(crate) transport: Transport,
    pub(crate) remote: SocketAddr,
    /// The name that the peer proved.
    pub(crate) tls_name: Option<Arc<str>>,
}

/// A worker's connections.
pub(crate) struct Conns {
    worker: u64,
    serial: u64,
    table: Slab<Conn>,
    by_peer: HashMap<Peer, ConnId>,
    by_source: HashMap<IpAddr, usize>,
}

impl Conns {
    pub(crate) fn new(worker: u8) -> Self {
        Self {
            worker: u64::from(worker),
            serial: 0,
            table: Slab::new(),
            by_peer: HashMap::new(),
            by_source: HashMap::new(),
        }
    }

    /// Takes a connection in and names it. `None` past [`CONNS_MAX`].
    pub(crate) fn insert(&mut self, mut conn: Conn) -> Option<ConnId> {
        let place = self.table.vacant_key();
        if place >= CONNS_MAX {
            return None;
        }
        // 36 bits: at 10,000 connections a second they last for 79 days; a
        // number that comes again in the same place is older than any flow.
        self.serial = (self.serial + 1) & ((1 << (WORKER_SHIFT - PLACE_BITS)) - 1);
        if self.worker == 0 && self.serial == 0 {
            self.serial = 1;
        }
        let id = ConnId((self.worker << WORKER_SHIFT) | (self.serial << PLACE_BITS) | place as u64);
        conn.flow.conn = id;
        if !conn.opened {
            *self
                .by_source
                .entry(source(conn.flow.remote.ip()))
                .or_default() += 1;
        }
        if let Some(peer) = peer_of(&conn) {
            self.by_peer.entry(peer).or_insert(id);
        }
        self.table.insert(conn);
        Some(id)
    }

    /// Takes a connection out.
    pub(crate) fn remove(&mut self, id: ConnId) -> Option<Conn> {
        self.get_mut(id)?;
        self.forget_peer(id);
        let conn = self.table.try_remove(place(id))?;
        if !conn.opened {
            let source = source(conn.flow.remote.ip());
            if let Some(count) = self.by_source.get_mut(&source) {
                *count -= 1;
                if *count == 0 {
                    self.by_source.remove(&source);
                }
            }
        }
        Some(conn)
    }

    /// Sees to it that nobody finds the connection by its peer any more.
    pub(crate) fn forget_peer(&mut self, id: ConnId) {
        if let Some(peer) = self.get_mut(id).and_then(|conn| peer_of(conn))
            && self.by_peer.get(&peer) == Some(&id)
        {
            self.by_peer.remove(&peer);
        }
    }

    pub(crate) fn get(&self, id: ConnId) -> Option<&Conn> {
        self.table
            .get(place(id))
            .filter(|conn| conn.flow.conn == id)
    }

    pub(crate) fn get_mut(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.table
            .get_mut(place(id))
            .filter(|conn| conn.flow.conn == id)
    }

    /// The connection in a place of the table.
    pub(crate) fn at_mut(&mut self, place: usize) -> Option<&mut Conn> {
        self.table.get_mut(place)
    }

    /// All of them.
    pub(crate) fn ids(&self) -> Vec<ConnId> {
        self.table.iter().map(|(_, conn)| conn.flow.conn).collect()
    }

    /// The connection that may be reused for `peer`.
    pub(crate) fn by_peer(&self, peer: &Peer) -> Option<ConnId> {
        self.by_peer.get(peer).copied()
    }

    /// How many connections were accepted from the source of `ip`.
    pub(crate) fn count_from(&self, ip: IpAddr) -> usize {
        self.by_source.get(&source(ip)).copied().unwrap_or(0)
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }
}

/// The place of a connection in the table.
pub(crate) fn place(id: ConnId) -> usize {
    (id.0 & ((1 << PLACE_BITS) - 1)) as usize
}

/// What a connection may be reused for. One that was accepted over TLS proved
/// no name, so it is reached by its number alone; so is one that was opened
/// under an identity of its own.
fn peer_of(conn: &Conn) -> Option<Peer> {
    let flow = &conn.flow;
    if flow.transport.is_secure() && !conn.opened {
        return None;
    }
    if conn.client_tls.is_some() {
        return None;
    }
    Some(Peer {
        transport: flow.transport,
        remote: flow.remote,
        tls_name: conn.tls_name.clone(),
    })
}

/// What counts as one source: a host with IPv6 has a /64 to itself.
pub(crate) fn source(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(ip) => IpAddr::from((u128::from(ip) & !u128::from(u64::MAX)).to_be_bytes()),
    }
}
