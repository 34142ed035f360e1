//! Which of this host's addresses each peer sent to.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};

/// Peers remembered.
const SOURCES: usize = 4_096;

/// For a socket that is bound to every address: to which of them each peer
/// sent last, so that what is sent back leaves from there. Of a fixed size; a
/// peer that was forgotten is answered from the address the route has.
pub(super) struct Sources {
    peers: Vec<Option<(SocketAddr, IpAddr)>>,
    hasher: RandomState,
}

impl Default for Sources {
    fn default() -> Self {
        Self {
            peers: vec![None; SOURCES],
            hasher: RandomState::new(),
        }
    }
}

impl Sources {
    pub(super) fn remember(&mut self, peer: SocketAddr, source: IpAddr) {
        let place = self.place(peer);
        if let Some(entry) = self.peers.get_mut(place) {
            *entry = Some((peer, source));
        }
    }

    pub(super) fn recall(&self, peer: SocketAddr) -> Option<IpAddr> {
        let entry = *self.peers.get(self.place(peer))?;
        entry
            .filter(|(known, _)| *known == peer)
            .map(|(_, source)| source)
    }

    fn place(&self, peer: SocketAddr) -> usize {
        self.hasher.hash_one(peer) as usize % SOURCES
    }
}
