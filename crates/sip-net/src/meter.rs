//! Which connections there are: how many, how old, what they hold, and whose
//! they are. Everything is counted as connections come and go; nobody looks at
//! all of them.

use std::net::IpAddr;
use std::sync::Arc;

use sip_tls::HandshakeTally;

mod ages;
mod names;

use ages::Ages;
pub use ages::{AGE_BOUNDS_S, ConnectionFigures};
pub use names::{OTHER_PEERS, PEERS_MAX, PeerNames};

/// The connections with one peer, by who opened them.
#[derive(Clone, Debug)]
pub struct PeerCounters {
    /// Its name in the configuration, or [`OTHER_PEERS`].
    pub name: Arc<str>,
    /// Connections that the peer opened.
    pub accepted: SideCounters,
    /// Connections that we opened.
    pub opened: SideCounters,
}

impl PeerCounters {
    /// Nothing counted yet.
    pub fn new(name: Arc<str>) -> Self {
        Self {
            name,
            accepted: SideCounters::default(),
            opened: SideCounters::default(),
        }
    }
}

/// Connections in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideCounters {
    /// TLS handshakes.
    pub tls: HandshakeTally,
    /// Connections now.
    pub connections: ConnectionFigures,
}

impl SideCounters {
    /// Adds another's figures: those of another worker.
    pub fn add(&mut self, other: &Self) {
        self.tls.add(&other.tls);
        self.connections.add(&other.connections);
    }

    fn is_unused(&self) -> bool {
        *self == Self::default()
    }
}

/// What is counted of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metered {
    /// Whether this side opened it.
    pub(crate) opened: bool,
    /// The listener that accepted it.
    pub(crate) listener: u16,
    /// Whose it is: a place in the table of peers that are counted.
    pub(crate) peer: u16,
    /// When it began.
    pub(crate) begun_at_ms: u64,
    /// What it holds in structures of its own, its buffers aside.
    pub(crate) bytes: u64,
}

/// The connections of one listener, or with one peer in one direction.
#[derive(Default)]
struct Gauge {
    open: u64,
    bytes: u64,
    /// The sum of the times at which they began.
    begun_ms_sum: u64,
    ages: Ages,
}

impl Gauge {
    fn enter(&mut self, conn: Metered) {
        self.open += 1;
        self.bytes += conn.bytes;
        self.begun_ms_sum = self.begun_ms_sum.wrapping_add(conn.begun_at_ms);
        self.ages.enter(conn.begun_at_ms);
    }

    fn leave(&mut self, conn: Metered) {
        self.open = self.open.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(conn.bytes);
        self.begun_ms_sum = self.begun_ms_sum.wrapping_sub(conn.begun_at_ms);
        self.ages.leave(conn.begun_at_ms);
    }

    fn figures(&self, now_ms: u64) -> ConnectionFigures {
        if self.open == 0 {
            return ConnectionFigures::default();
        }
        let (ages, oldest_ms) = self.ages.figures(now_ms);
        ConnectionFigures {
            open: self.open,
            bytes: self.bytes,
            age_ms_sum: (self.open.wrapping_mul(now_ms)).wrapping_sub(self.begun_ms_sum),
            oldest_ms,
            ages,
        }
    }
}

/// The gauges of a worker's connections.
#[derive(Default)]
pub(crate) struct Meter {
    /// By listener, of connections that were accepted.
    listeners: Vec<Gauge>,
    /// Of those that were opened.
    opened: Gauge,
    names: Arc<PeerNames>,
    /// By the peer's place in `names`.
    peers: Vec<PeerMeter>,
}

#[derive(Default)]
struct PeerMeter {
    accepted: Gauge,
    accepted_tls: HandshakeTally,
    opened: Gauge,
    opened_tls: HandshakeTally,
}

impl PeerMeter {
    fn gauge(&mut self, conn: Metered) -> &mut Gauge {
        if conn.opened {
            &mut self.opened
        } else {
            &mut self.accepted
        }
    }
}

impl Meter {
    /// Whose a connection is, before its peer has proved anything: by the name
    /// that we called, or by where it comes from.
    pub(crate) fn peer_of(&self, opened: bool, tls_name: Option<&str>, ip: IpAddr) -> u16 {
        if opened {
            self.names.of_opened(tls_name, ip)
        } else {
            self.names.of_accepted(ip)
        }
    }

    /// A connection is there from now on.
    pub(crate) fn enter(&mut self, conn: Metered) {
        self.side(conn).enter(conn);
        self.peer(conn.peer).gauge(conn).enter(conn);
    }

    /// A connection is gone.
    pub(crate) fn leave(&mut self, conn: Metered) {
        self.side(conn).leave(conn);
        self.peer(conn.peer).gauge(conn).leave(conn);
    }

    /// The peer of a connection has proved these names: gives whose it is now.
    pub(crate) fn prove(&mut self, conn: Metered, domains: &[Box<str>]) -> u16 {
        // Whom we called is known by the name that we called.
        if conn.opened && conn.peer > 0 {
            return conn.peer;
        }
        let Some(peer) = self.names.of_proven(domains) else {
            return conn.peer;
        };
        self.peer(conn.peer).gauge(conn).leave(conn);
        self.peer(peer).gauge(conn).enter(conn);
        peer
    }

    /// Whether it matters what names a peer proves.
    pub(crate) fn knows_names(&self) -> bool {
        self.names.has_names()
    }

    /// Where the handshakes of a connection are counted for its peer.
    pub(crate) fn tally(&mut self, conn_peer: u16, opened: bool) -> &mut HandshakeTally {
        let peer = self.peer(conn_peer);
        if opened {
            &mut peer.opened_tls
        } else {
            &mut peer.accepted_tls
        }
    }

    /// The connections that a listener accepted.
    pub(crate) fn of_listener(&self, listener: usize, now_ms: u64) -> ConnectionFigures {
        self.listeners
            .get(listener)
            .map_or_else(ConnectionFigures::default, |gauge| gauge.figures(now_ms))
    }

    /// The connections that were opened.
    pub(crate) fn of_opened(&self, now_ms: u64) -> ConnectionFigures {
        self.opened.figures(now_ms)
    }

    /// Every peer with which there was anything.
    pub(crate) fn peers(&self, now_ms: u64) -> Vec<PeerCounters> {
        let all = self.peers.iter().enumerate().map(|(place, peer)| {
            let side = |tls, gauge: &Gauge| SideCounters {
                tls,
                connections: gauge.figures(now_ms),
            };
            PeerCounters {
                name: self.names.name(place),
                accepted: side(peer.accepted_tls, &peer.accepted),
                opened: side(peer.opened_tls, &peer.opened),
            }
        });
        all.filter(|peer| !(peer.accepted.is_unused() && peer.opened.is_unused()))
            .collect()
    }

    /// Other names count from now on. What was counted stays with the names
    /// that are kept; what belonged to others goes to [`OTHER_PEERS`]. Whose each
    /// connection is now is written beside it.
    pub(crate) fn rename<'c>(
        &mut self,
        names: Arc<PeerNames>,
        conns: impl Iterator<Item = (Metered, &'c mut u16)>,
    ) {
        let before = std::mem::take(&mut self.peers);
        let old_names = std::mem::replace(&mut self.names, names);
        let places: Vec<u16> = (0..before.len().max(1))
            .map(|place| self.names.index_of(&old_names.name(place)))
            .collect();
        for (old, new) in before.iter().zip(&places) {
            let peer = self.peer(*new);
            peer.accepted_tls.add(&old.accepted_tls);
            peer.opened_tls.add(&old.opened_tls);
        }
        for (conn, peer) in conns {
            *peer = places.get(usize::from(*peer)).copied().unwrap_or(0);
            self.peer(*peer).gauge(conn).enter(conn);
        }
    }

    fn side(&mut self, conn: Metered) -> &mut Gauge {
        if conn.opened {
            return &mut self.opened;
        }
        entry_at(&mut self.listeners, usize::from(conn.listener))
    }

    fn peer(&mut self, at: u16) -> &mut PeerMeter {
        entry_at(&mut self.peers, usize::from(at))
    }
}

/// The entry at a place of a table that grows up to it; there are at most 256
/// listeners and [`PEERS_MAX`] peers.
fn entry_at<T: Default>(table: &mut Vec<T>, at: usize) -> &mut T {
    if table.len() <= at {
        table.resize_with(at + 1, T::default);
    }
    &mut table[at]
}

#[cfg(test)]
mod tests;
