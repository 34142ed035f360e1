//! Connections that a neighbour has opened and that requests to it may use
//! (RFC 5923): the table that all workers share.
//!
//! A neighbour asks for it by `alias` in its Via. The word of a Via is worth
//! nothing: whoever may get another's requests that way could take his calls.
//! So an entry is made from [`Proven`] alone, it stands for the address that the
//! connection came from, and it is found only under a name that the certificate
//! bears.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

use sip_msg::{ConnId, Lane, Target, Transport};
use sip_tls::{PeerTls, Proven};

use crate::source::source;

/// Connections of one neighbour to one place of its: the newest is used, the others are for when
/// that one is dead. Past it its own oldest one goes, and nobody else's.
const PER_NEIGHBOUR_MAX: usize = 16;
/// Sources for which there is room at least: the table is not one's alone.
const SOURCES_MIN: usize = 16;

/// Why a connection is not used for requests to its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AliasRefused {
    /// It is gone, it is not under TLS, or this side opened it.
    Unfit,
    /// Its peer showed no certificate, or one that bears neither a domain nor the address that
    /// the connection came from.
    Unproven,
    /// The host in the Via is neither a name in the peer's certificate nor the
    /// address that the connection came from.
    OtherName,
    /// There are too many.
    Full,
}

/// The connections, by the source that they came from.
#[derive(Debug)]
pub struct Aliases {
    /// Those of a source in the order in which they were granted.
    table: RwLock<HashMap<IpAddr, Vec<Alias>>>,
    count: AtomicUsize,
    count_max: usize,
    /// Whoever is called by settings of its own is called by these alone: what it has proved to
    /// whom it called is another matter.
    peers: PeerTls,
}

#[derive(Debug)]
struct Alias {
    /// Where its neighbour says it listens.
    at: SocketAddr,
    conn: ConnId,
    proven: Proven,
}

impl Aliases {
    /// An empty table for so many connections, none of them to a name that has its settings
    /// among `peers`.
    pub fn new(count_max: usize, peers: PeerTls) -> Self {
        Self {
            table: RwLock::default(),
            count: AtomicUsize::new(0),
            count_max,
            peers,
        }
    }

    /// The connection for a target that names none, if its peer has opened one
    /// and has proved the name that is called. It may belong to another worker.
    pub fn find(&self, to: &Target, now_unix_s: u64) -> Option<ConnId> {
        if self.is_empty() || to.transport != Transport::Tls || to.conn.is_some() || !to.may_open {
            return None;
        }
        // Where a policy of connections was configured, it holds.
        let (Lane::Shared, Some(name)) = (to.lane, to.tls_name.as_deref()) else {
            return None;
        };
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let is_it = |alias: &&Alias| {
            alias.at == to.remote && alias.proven.is_good_at(now_unix_s) && alias.proven.bears(name)
        };
        // The newest: the one before it may be dead, and nobody knows yet.
        let aliases = table.get(&source(to.remote.ip()))?;
        let found = aliases.iter().rev().find(is_it)?;
        self.peers.find(name).is_none().then_some(found.conn)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn add(
        &self,
        at: SocketAddr,
        conn: ConnId,
        proven: Proven,
    ) -> Result<(), AliasRefused> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if self.len() >= self.count_max {
            return Err(AliasRefused::Full);
        }
        let from = source(at.ip());
        let known = table.get(&from).map(Vec::as_slice).unwrap_or_default();
        let own = known.iter().enumerate();
        let own = own.filter(|(_, alias)| alias.proven.bears_the_same_at(at.ip(), &proven));
        let own: Vec<(usize, &Alias)> = own.collect();
        // The oldest of those at one place, where there are several.
        let oldest_at = |at: SocketAddr, count_min: usize| {
            let mut there = own.iter().filter(|(_, alias)| alias.at == at);
            let oldest = there.next().map(|(place, _)| *place);
            oldest.filter(|_| there.count() + 1 >= count_min)
        };
        let per_source_max = (self.count_max / SOURCES_MIN).max(PER_NEIGHBOUR_MAX);
        let mut oldest = oldest_at(at, PER_NEIGHBOUR_MAX);
        if oldest.is_none() && known.len() >= per_source_max {
            let of_several = own.iter().find_map(|(_, alias)| oldest_at(alias.at, 2));
            let first = own.first().map(|(place, _)| *place);
            oldest = Some(of_several.or(first).ok_or(AliasRefused::Full)?);
        }
        let aliases = table.entry(from).or_default();
        if let Some(place) = oldest {
            aliases.remove(place);
        } else {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        aliases.push(Alias { at, conn, proven });
        Ok(())
    }

    pub(crate) fn remove(&self, at: SocketAddr, conn: ConnId) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let from = source(at.ip());
        let Some(aliases) = table.get_mut(&from) else {
            return;
        };
        let before = aliases.len();
        aliases.retain(|alias| alias.conn != conn || alias.at != at);
        self.count
            .fetch_sub(before - aliases.len(), Ordering::Relaxed);
        if aliases.is_empty() {
            table.remove(&from);
        }
    }
}
