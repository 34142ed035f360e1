//! Peers to which no connection could be opened lately.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use sip_msg::Transport;

/// Peers that are remembered, at most; past it those are forgotten that may be tried soonest.
const PEERS_MAX: usize = 4_096;
/// The first wait.
const FIRST_MS: u64 = 50;
/// After so many doublings it grows no more.
const DOUBLINGS_MAX: u32 = 16;

/// To whom no connection could be opened: whoever is at an address; or who bears a name there, where
/// somebody answers who does not prove it, or does not know it. Others may be there under theirs.
pub(super) type Unopened = (Transport, SocketAddr, Option<Arc<str>>);

/// How long each of them is left alone.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    peers: HashMap<Unopened, Wait>,
    /// By the end of the wait. To put one in and to take one out take a time that grows with the
    /// logarithm of how many there are.
    by_end: BTreeMap<(u64, u64), Unopened>,
    /// Waits that ever began.
    numbered: u64,
}

#[derive(Clone, Copy, Debug)]
struct Wait {
    failures: u32,
    until_ms: u64,
    /// Which wait it is, among those that end with it.
    number: u64,
}

impl Backoff {
    /// A connection could not be opened.
    pub(super) fn failed(&mut self, peer: Unopened, now_ms: u64, max_ms: u64) {
        if max_ms == 0 {
            return;
        }
        let before = self.peers.get(&peer).copied();
        // Connections that fail together count once.
        if before.is_some_and(|wait| wait.until_ms > now_ms) {
            return;
        }
        self.forget(&peer);
        if self.peers.len() >= PEERS_MAX {
            self.make_room(now_ms);
        }
        let failures = before.map_or(0, |wait| wait.failures);
        let wait_ms = (FIRST_MS << failures.min(DOUBLINGS_MAX)).min(max_ms);
        self.numbered += 1;
        let wait = Wait {
            failures: failures.saturating_add(1),
            until_ms: now_ms.saturating_add(wait_ms),
            number: self.numbered,
        };
        self.by_end
            .insert((wait.until_ms, wait.number), peer.clone());
        self.peers.insert(peer, wait);
    }

    /// Forgets those that may be tried again, or else the one that may be soonest.
    fn make_room(&mut self, now_ms: u64) {
        while let Some((&(until_ms, _), peer)) = self.by_end.first_key_value()
            && (until_ms <= now_ms || self.peers.len() >= PEERS_MAX)
        {
            let peer = peer.clone();
            self.forget(&peer);
        }
    }

    fn forget(&mut self, peer: &Unopened) {
        if let Some(wait) = self.peers.remove(peer) {
            self.by_end.remove(&(wait.until_ms, wait.number));
        }
    }

    /// A connection was opened.
    pub(super) fn opened(&mut self, (transport, addr, name): Unopened) {
        if !self.peers.is_empty() {
            self.forget(&(transport, addr, None));
            self.forget(&(transport, addr, name));
        }
    }

    /// Whether to leave the peer alone.
    pub(super) fn holds(&self, (transport, addr, name): Unopened, now_ms: u64) -> bool {
        let holds = |of: &Unopened| self.peers.get(of).is_some_and(|it| it.until_ms > now_ms);
        !self.peers.is_empty()
            && (holds(&(transport, addr, None)) || holds(&(transport, addr, name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(n: u32) -> Unopened {
        let addr = SocketAddr::from((n.to_be_bytes(), 5060));
        (Transport::Tcp, addr, None)
    }

    #[test]
    fn a_name_that_nobody_bears_there_holds_off_no_other() {
        let of = |name: Option<&str>| {
            let (_, addr, _) = peer(1);
            (Transport::Tls, addr, name.map(Arc::from))
        };
        let mut backoff = Backoff::default();
        backoff.failed(of(Some("evil.example")), 0, 300);
        assert!(backoff.holds(of(Some("evil.example")), 1));
        assert!(!backoff.holds(of(Some("gw.example")), 1));
        backoff.opened(of(Some("gw.example")));
        assert!(backoff.holds(of(Some("evil.example")), 1));
        // Where nobody answers at all, nobody does under any name.
        backoff.failed(of(None), 0, 300);
        assert!(backoff.holds(of(Some("gw.example")), 1));
        backoff.opened(of(Some("gw.example")));
        assert!(!backoff.holds(of(Some("gw.example")), 1));
    }

    #[test]
    fn the_wait_doubles_up_to_its_bound_and_ends_with_success() {
        let mut backoff = Backoff::default();
        let mut now_ms = 1_000;
        for wait_ms in [50, 100, 200, 300, 300] {
            assert!(!backoff.holds(peer(1), now_ms));
            backoff.failed(peer(1), now_ms, 300);
            // The same failure, of a second connection.
            backoff.failed(peer(1), now_ms, 300);
            assert!(backoff.holds(peer(1), now_ms + wait_ms - 1), "{wait_ms}");
            assert!(!backoff.holds(peer(2), now_ms));
            now_ms += wait_ms;
        }
        backoff.failed(peer(1), now_ms, 300);
        backoff.opened(peer(1));
        assert!(!backoff.holds(peer(1), now_ms));
        backoff.failed(peer(1), now_ms, 0);
        assert!(!backoff.holds(peer(1), now_ms), "0 is never");
    }

    #[test]
    fn the_memory_is_bounded_and_forgets_who_may_be_tried_again() {
        let mut backoff = Backoff::default();
        for n in 0..2 * PEERS_MAX as u32 {
            backoff.failed(peer(n), 0, 300);
        }
        assert_eq!(backoff.peers.len(), PEERS_MAX);
        backoff.failed(peer(u32::MAX), 60, 300);
        assert!(backoff.holds(peer(u32::MAX), 61));
        assert_eq!(backoff.peers.len(), 1);
        assert_eq!(backoff.by_end.len(), 1);
    }

    #[test]
    fn past_the_bound_who_may_be_tried_soonest_is_forgotten() {
        let mut backoff = Backoff::default();
        backoff.failed(peer(0), 0, 300);
        // Its second wait is the longer one.
        backoff.failed(peer(0), 50, 300);
        for n in 1..PEERS_MAX as u32 + 10 {
            backoff.failed(peer(n), 50 + u64::from(n % 2), 300);
        }
        assert_eq!(backoff.peers.len(), PEERS_MAX);
        assert_eq!(backoff.by_end.len(), PEERS_MAX);
        let held = |n| backoff.holds(peer(n), 60);
        assert!(held(0) && held(PEERS_MAX as u32 + 9));
        let forgotten: Vec<_> = (0..PEERS_MAX as u32 + 10).filter(|n| !held(*n)).collect();
        assert_eq!(forgotten, [2, 4, 6, 8, 10, 12, 14, 16, 18, 20]);
    }
}
