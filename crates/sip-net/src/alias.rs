//! Connections that a neighbour has opened and that requests to it may use
//! (RFC 5923): the table that all workers share.
//!
//! A neighbour asks for it by `alias` in its Via. The word of a Via is worth
//! nothing: whoever may get another's requests that way could take his calls.
//! So an entry is made from [`Proven`] alone, it stands for the address that the
//! connection came from, and it is found only under a name that the certificate
//! bears.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

use sip_msg::{ConnId, Lane, Target, Transport};
use sip_tls::Proven;

/// Neighbours behind one address.
const PER_ADDR_MAX: usize = 16;

/// Why a connection is not used for requests to its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AliasRefused {
    /// It is gone, it is not under TLS, or this side opened it.
    Unfit,
    /// Its peer showed no certificate.
    Unproven,
    /// The host in the Via is neither a name in the peer's certificate nor the
    /// address that the connection came from.
    OtherName,
    /// There are too many.
    Full,
}

/// The connections, by the address at which their neighbour says it listens.
#[derive(Debug)]
pub struct Aliases {
    table: RwLock<HashMap<SocketAddr, Vec<Alias>>>,
    count: AtomicUsize,
    count_max: usize,
}

#[derive(Debug)]
struct Alias {
    conn: ConnId,
    proven: Proven,
}

impl Aliases {
    /// An empty table for so many connections.
    pub fn new(count_max: usize) -> Self {
        Self {
            table: RwLock::default(),
            count: AtomicUsize::new(0),
            count_max,
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
        let is_it =
            |alias: &&Alias| alias.proven.is_good_at(now_unix_s) && alias.proven.bears(name);
        // The newest: the one before it may be dead, and nobody knows yet.
        let found = table.get(&to.remote)?.iter().rev().find(is_it)?;
        Some(found.conn)
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
        let aliases = table.entry(at).or_default();
        if aliases.len() >= PER_ADDR_MAX {
            aliases.remove(0);
        } else {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        aliases.push(Alias { conn, proven });
        Ok(())
    }

    pub(crate) fn remove(&self, at: SocketAddr, conn: ConnId) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let Some(aliases) = table.get_mut(&at) else {
            return;
        };
        let before = aliases.len();
        aliases.retain(|alias| alias.conn != conn);
        self.count
            .fetch_sub(before - aliases.len(), Ordering::Relaxed);
        if aliases.is_empty() {
            table.remove(&at);
        }
    }
}
