//! The table of a worker's connections: by number, by peer, by call, and how
//! many each source has.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use invariant::broken;
use sip_msg::{ConnId, Target, Transport};
use slab::Slab;

use crate::meter::{Meter, PeerNames};
use crate::ranks::{Class, Ranks, Standing};
use crate::source::source;
use crate::stream::Conn;

/// Bits of a [`ConnId`] that are the place in the table.
const PLACE_BITS: u32 = 20;
/// Bits of a [`ConnId`] below the worker's number.
const WORKER_SHIFT: u32 = 56;
/// The most connections of one worker.
pub(crate) const CONNS_MAX: usize = (1 << PLACE_BITS) - 1;

/// What a table has room for whatever it holds.
const ROOM_MIN: usize = 1_024;
/// A table gives room back that has more than so many times what it holds.
const ROOM_MAX_TIMES: usize = 4;

/// Connections that one source may have that have carried nothing yet. Those beyond are given no
/// time to get on before they go first.
const GETTING_ON_PER_SOURCE_MAX: usize = 64;

/// What a connection may be reused for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Peer {
    pub(crate) transport: Transport,
    pub(crate) remote: SocketAddr,
    /// The name that the peer proved.
    pub(crate) tls_name: Option<Arc<str>>,
    /// Which of several to that peer; 0 is the one that all share.
    pub(crate) lane: u8,
}

/// A worker's connections.
pub(crate) struct Conns {
    worker: u64,
    serial: u64,
    table: Slab<Conn>,
    by_peer: HashMap<Peer, ConnId>,
    /// Those that belong to one call each, and how many they are.
    by_call: HashMap<u64, Vec<ConnId>>,
    of_calls: usize,
    by_source: HashMap<IpAddr, usize>,
    /// Those that have carried nothing yet.
    unused_by_source: HashMap<IpAddr, usize>,
    /// Bytes that each source leaves unread, as far as they were weighed.
    unsent_by_source: HashMap<IpAddr, usize>,
    pub(crate) meter: Meter,
    ranks: Ranks,
}

impl Conns {
    pub(crate) fn new(worker: u8) -> Self {
        Self {
            worker: u64::from(worker),
            serial: 0,
            table: Slab::new(),
            by_peer: HashMap::new(),
            by_call: HashMap::new(),
            of_calls: 0,
            by_source: HashMap::new(),
            unused_by_source: HashMap::new(),
            unsent_by_source: HashMap::new(),
            meter: Meter::default(),
            ranks: Ranks::default(),
        }
    }

    /// Takes a connection in and names it. `None` past [`CONNS_MAX`].
    // RFC 3261 18.1.1: "Therefore, the client transport MUST be prepared to receive the response on the
    // same connection used to send the request." Who opened it makes no difference here.
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
        if conn.opened.is_none() {
            let source = source(conn.flow.remote.ip());
            *self.by_source.entry(source).or_default() += 1;
            *self.unused_by_source.entry(source).or_default() += 1;
            conn.is_counted_unused = true;
        }
        if let Some(call) = conn.call() {
            self.by_call.entry(call).or_default().push(id);
            self.of_calls += 1;
        } else if let Some(peer) = peer_of(&conn) {
            self.by_peer.entry(peer).or_insert(id);
        }
        let tls_name = conn.tls_name().map(|name| &**name);
        let remote = conn.flow.remote.ip();
        conn.peer = self.meter.peer_of(conn.opened.is_some(), tls_name, remote);
        self.meter.enter(conn.metered());
        self.table.insert(conn);
        Some(id)
    }

    /// All connections.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Conn> {
        self.table.iter().map(|(_, conn)| conn)
    }

    /// Takes a connection out.
    pub(crate) fn remove(&mut self, id: ConnId) -> Option<Conn> {
        self.get_mut(id)?;
        self.forget_peer(id);
        self.ranks.take_out(index_of(id));
        let conn = self.table.try_remove(index_of(id))?;
        self.meter.leave(conn.metered());
        self.count_unsent_of(conn.flow.remote.ip(), conn.counted_unsent, 0);
        if conn.opened.is_none() {
            let source = source(conn.flow.remote.ip());
            one_less(&mut self.by_source, source);
            if conn.is_counted_unused {
                one_less(&mut self.unused_by_source, source);
            }
        }
        Some(conn)
    }

    /// Sees to it that nobody finds the connection by its peer or its call any more.
    pub(crate) fn forget_peer(&mut self, id: ConnId) {
        let Some(conn) = self.get_mut(id) else {
            return;
        };
        let call = conn.opened.as_mut().and_then(|opened| opened.call.take());
        if let Some(call) = call {
            self.of_calls -= 1;
            if let Some(conns) = self.by_call.get_mut(&call) {
                conns.retain(|other| *other != id);
                if conns.is_empty() {
                    self.by_call.remove(&call);
                }
            }
        } else if let Some(peer) = peer_of(conn)
            && self.by_peer.get(&peer) == Some(&id)
        {
            self.by_peer.remove(&peer);
        }
    }

    pub(crate) fn get(&self, id: ConnId) -> Option<&Conn> {
        self.table
            .get(index_of(id))
            .filter(|conn| conn.flow.conn == id)
    }

    pub(crate) fn get_mut(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.table
            .get_mut(index_of(id))
            .filter(|conn| conn.flow.conn == id)
    }

    /// Puts a connection that is up behind those that were used before it.
    pub(crate) fn used(&mut self, id: ConnId, now_ms: u64) {
        if let Some(conn) = self.get_mut(id)
            && conn.opened.as_ref().is_none_or(|opened| !opened.asked_for)
        {
            if !conn.usefulness.has_carried {
                conn.usefulness.carried_ms = now_ms;
            }
            conn.usefulness.has_moved = false;
            let mut class = conn.class();
            if conn.is_counted_unused {
                let source = source(conn.flow.remote.ip());
                if conn.usefulness.has_carried {
                    conn.is_counted_unused = false;
                    one_less(&mut self.unused_by_source, source);
                } else if class == Class::Unused
                    && is_many(&self.unused_by_source, source)
                    && !self.ranks.is_in(index_of(id), Class::Unused)
                {
                    class = Class::Crowd;
                }
            }
            self.ranks.put(index_of(id), class);
        }
    }

    /// A connection waits for this side no more, if it did: meanwhile it got on.
    pub(crate) fn put_back(&mut self, id: ConnId, now_ms: u64) {
        if self.ranks.is_waiting(index_of(id)) && self.get(id).is_some() {
            self.used(id, now_ms);
        }
    }

    /// A connection that may be given up for another, and what it was good for.
    pub(crate) fn least_useful(&mut self, now_ms: u64, quiet_ms: u64) -> Option<(ConnId, Class)> {
        let (table, unused) = (&mut self.table, &self.unused_by_source);
        let (place, class) = self.ranks.least_useful(now_ms, quiet_ms, |place| {
            let may_go = |conn: &&mut Conn| conn.stage.is_read() || conn.stage.is_handshaking();
            let conn = table.get_mut(place).filter(may_go)?;
            conn.usefulness.expire(now_ms);
            let source = source(conn.flow.remote.ip());
            let is_one_of_many = conn.is_counted_unused && is_many(unused, source);
            // Of a stream that was never read something is to be read: that may be the message. Of
            // one that was, it may be more of nothing, without end.
            let is_unheard = conn.has_unfinished_read && conn.usefulness.heard_ms == 0;
            let waits_for_us = conn.stage.waits_for_us() || (is_unheard && !is_one_of_many);
            if waits_for_us && !conn.usefulness.has_carried {
                // Meanwhile it gets on.
                conn.usefulness.carried_ms = now_ms;
            }
            Some(Standing {
                class: conn.class(),
                carried_ms: conn.usefulness.carried_ms,
                heard_ms: conn.usefulness.lived_ms(),
                is_one_of_many,
                waits_for_us,
            })
        })?;
        Some((self.table.get(place)?.flow.conn, class))
    }

    /// All of them.
    pub(crate) fn ids(&self) -> Vec<ConnId> {
        self.ids_of(|_| true)
    }

    /// Those of which this is so, in the order of their places.
    pub(crate) fn ids_of(&self, is_so: impl Fn(&Conn) -> bool) -> Vec<ConnId> {
        let conns = self.table.iter().filter(|(_, conn)| is_so(conn));
        conns.map(|(_, conn)| conn.flow.conn).collect()
    }

    /// The peer of a connection has proved these names.
    pub(crate) fn prove(&mut self, id: ConnId, domains: &[Box<str>]) {
        if let Some(conn) = self
            .table
            .get_mut(index_of(id))
            .filter(|conn| conn.flow.conn == id)
        {
            conn.peer = self.meter.prove(conn.metered(), domains);
        }
    }

    /// Counts the peers with these names by them.
    pub(crate) fn name_peers(&mut self, names: Arc<PeerNames>) {
        let conns = self.table.iter_mut();
        let conns = conns.map(|(_, conn)| (conn.metered(), &mut conn.peer));
        self.meter.rename(names, conns);
    }

    /// The connection that may be reused for `peer`.
    pub(crate) fn by_peer(&self, peer: &Peer) -> Option<ConnId> {
        self.by_peer.get(peer).copied()
    }

    /// The connection of a call's own to the peer of `to`: under the same name, or to a peer
    /// whose certificate bears that name as well, where that `counts` on this connection.
    pub(crate) fn by_call(
        &self,
        call: u64,
        to: &Target,
        counts: impl Fn(&Conn) -> bool,
    ) -> Option<ConnId> {
        let conns = self.by_call.get(&call)?;
        let is_it = |id: &&ConnId| {
            self.get(**id).is_some_and(|conn| {
                conn.flow.transport == to.transport
                    && conn.flow.remote == to.remote
                    && (conn.tls_name() == to.tls_name.as_ref()
                        || !to.transport.is_secure()
                        || (conn.peer_bears(to.tls_name.as_deref()) && counts(conn)))
            })
        };
        conns.iter().find(is_it).copied()
    }

    /// All connections of a call's own.
    pub(crate) fn all_of_call(&self, call: u64) -> Vec<ConnId> {
        self.by_call.get(&call).cloned().unwrap_or_default()
    }

    /// How many connections belong to one call each.
    pub(crate) fn of_calls(&self) -> usize {
        self.of_calls
    }

    /// How many connections were accepted from the source of `ip`.
    pub(crate) fn count_from(&self, ip: IpAddr) -> usize {
        self.by_source.get(&source(ip)).copied().unwrap_or(0)
    }

    /// Counts for its source what waits on a connection that was just written
    /// to; gives what that source leaves unread on all of its connections. Where
    /// the peer reads, as nearly always, nothing waits and no table is looked at.
    pub(crate) fn count_unsent(&mut self, id: ConnId) -> usize {
        let Some(conn) = self.get_mut(id) else {
            return 0;
        };
        let waiting = conn.unsent_bytes();
        let before = std::mem::replace(&mut conn.counted_unsent, waiting);
        let ip = conn.flow.remote.ip();
        self.count_unsent_of(ip, before, waiting)
    }

    fn count_unsent_of(&mut self, ip: IpAddr, before: usize, waiting: usize) -> usize {
        if before == 0 && waiting == 0 {
            return 0;
        }
        let source = source(ip);
        let sum = self.unsent_by_source.entry(source).or_default();
        debug_assert!(*sum >= before, "what was counted is in its source's sum");
        *sum = sum.saturating_sub(before) + waiting;
        let sum = *sum;
        if sum == 0 {
            self.unsent_by_source.remove(&source);
        }
        sum
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Gives back the room that a flood has left: the places behind the last connection, and what
    /// tables have that are mostly empty. No connection leaves its place, by which it is named.
    pub(crate) fn trim(&mut self) {
        if has_spare_room(self.table.capacity(), self.table.len()) {
            self.table.shrink_to_fit();
            self.ranks.forget_from(self.table.capacity());
        }
        shrink(&mut self.by_peer);
        shrink(&mut self.by_call);
        shrink(&mut self.by_source);
        shrink(&mut self.unused_by_source);
        shrink(&mut self.unsent_by_source);
    }
}

fn has_spare_room(room: usize, held: usize) -> bool {
    room > ROOM_MIN.max(ROOM_MAX_TIMES * held)
}

fn shrink<K: Eq + Hash, V>(table: &mut HashMap<K, V>) {
    if has_spare_room(table.capacity(), table.len()) {
        // Twice what there is, so that the next few find room.
        table.shrink_to(2 * table.len());
    }
}

/// The place of a connection in the table.
pub(crate) fn index_of(id: ConnId) -> usize {
    (id.0 & ((1 << PLACE_BITS) - 1)) as usize
}

/// What a connection may be reused for. One that was accepted over TLS proved
/// no name, so it is reached by its number alone; so is one that was opened
/// under an identity of its own. A call's own is found by its call.
fn peer_of(conn: &Conn) -> Option<Peer> {
    let flow = &conn.flow;
    let opened = conn.opened.as_deref();
    if flow.transport.is_secure() && opened.is_none() {
        return None;
    }
    // A browser cannot be called: its connection is reached by its number alone.
    if opened.is_some_and(|opened| opened.client_tls.is_some() || opened.call.is_some())
        || (conn.ws.is_some() && opened.is_none())
    {
        return None;
    }
    Some(Peer {
        transport: flow.transport,
        remote: flow.remote,
        tls_name: conn.tls_name().cloned(),
        lane: opened.map_or(0, |opened| opened.lane),
    })
}

/// Whether of a source more have carried nothing than are given time to get on.
fn is_many(unused: &HashMap<IpAddr, usize>, source: IpAddr) -> bool {
    unused.get(&source) > Some(&GETTING_ON_PER_SOURCE_MAX)
}

/// Takes one from what is counted of a source.
fn one_less(counts: &mut HashMap<IpAddr, usize>, source: IpAddr) {
    let Some(count) = counts.get_mut(&source) else {
        return broken!("what is taken from a source was counted");
    };
    *count -= 1;
    if *count == 0 {
        counts.remove(&source);
    }
}

#[cfg(test)]
mod tests {
    use sip_msg::{Flow, ListenerId};

    use super::*;
    use crate::config::Framing;
    use crate::stream::Stage;

    fn conn(nth: u32) -> Conn {
        let flow = Flow {
            transport: Transport::Tcp,
            listener: ListenerId(0),
            local: SocketAddr::from(([127, 0, 0, 1], 5060)),
            remote: SocketAddr::from((nth.to_be_bytes(), 5060)),
            conn: ConnId::NONE,
        };
        Conn::new(flow, Stage::Open, Framing::Sip, 0)
    }

    #[test]
    fn the_room_of_a_flood_of_connections_comes_back_and_its_names_stay_stale() {
        let mut conns = Conns::new(0);
        let first = conns.insert(conn(0)).unwrap();
        let flood: Vec<ConnId> = (1..20_000)
            .map(|nth| conns.insert(conn(nth)).unwrap())
            .collect();
        for id in std::iter::once(&first).chain(&flood) {
            conns.used(*id, 0);
        }
        conns.trim();
        assert_eq!(conns.len(), 20_000);
        for id in &flood {
            assert!(conns.remove(*id).is_some());
        }
        conns.trim();
        assert!(conns.table.capacity() <= ROOM_MIN);
        assert!(conns.by_peer.capacity() <= ROOM_MIN);
        assert!(conns.by_source.capacity() <= ROOM_MIN);
        // What is left is as it was, and what comes has names of its own.
        assert_eq!(conns.get(first).map(|conn| conn.flow.conn), Some(first));
        for nth in 0..2_000 {
            let id = conns.insert(conn(nth)).unwrap();
            conns.used(id, 1);
            assert!(flood.binary_search(&id).is_err());
        }
        assert!(flood.iter().all(|id| conns.get(*id).is_none()));
        assert_eq!(conns.least_useful(10_000, 0).map(|(id, _)| id), Some(first));
    }
}
