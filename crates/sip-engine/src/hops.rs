//! Locates configured next hops, and remembers other hops that failed.

use std::net::SocketAddr;

use hashbrown::HashMap;
use sip_locate::{Destination, Hop, Located, Reach, locate};
use sip_msg::Transport;

use crate::routes::NextHop;

/// Hops that are remembered as dead, at most so many.
const DEAD_MAX: usize = 4_096;

/// Locates a configured next hop. `secure`: TLS is required.
pub(crate) fn of_next_hop(next: &NextHop, secure: bool, reach: Reach) -> Located {
    let destination = Destination {
        host: next.host.as_bytes(),
        port: next.port,
        transport: next.transport,
        secure,
        is_configured: true,
    };
    locate(&destination, reach)
}

/// Hops that did not answer lately, other than the operator's own
/// ([`crate::gateways`]). Bounded; only hops that were tried get in.
#[derive(Default)]
pub(crate) struct DeadHops {
    until: HashMap<(Transport, SocketAddr), u64>,
}

impl DeadHops {
    /// Remembers a failure.
    pub(crate) fn failed(
        &mut self,
        transport: Transport,
        addr: SocketAddr,
        until_ms: u64,
        now_ms: u64,
    ) {
        if self.until.len() >= DEAD_MAX {
            self.until.retain(|_, until| *until > now_ms);
            if self.until.len() >= DEAD_MAX {
                return;
            }
        }
        self.until.insert((transport, addr), until_ms);
    }

    /// Forgets it: the hop has answered.
    pub(crate) fn answered(&mut self, transport: Transport, addr: SocketAddr) {
        if !self.until.is_empty() {
            self.until.remove(&(transport, addr));
        }
    }

    /// Whether the hop failed lately.
    pub(crate) fn is_dead(&self, transport: Transport, addr: SocketAddr, now_ms: u64) -> bool {
        !self.until.is_empty()
            && self
                .until
                .get(&(transport, addr))
                .is_some_and(|until| *until > now_ms)
    }

    /// Moves dead hops behind the others, and keeps the order within both.
    pub(crate) fn sort(&self, hops: &mut [Hop], now_ms: u64) {
        if !self.until.is_empty() {
            hops.sort_by_key(|hop| self.is_dead(hop.transport, hop.addr, now_ms));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_are_passed_over_for_a_time() {
        let hop = |n: u8| Hop {
            transport: Transport::Udp,
            addr: SocketAddr::from(([192, 0, 2, n], 5060)),
            tls_name: None,
        };
        let mut dead = DeadHops::default();
        dead.failed(Transport::Udp, hop(1).addr, 100, 0);
        let mut hops = [hop(1), hop(2), hop(3)];
        dead.sort(&mut hops, 50);
        assert_eq!(hops, [hop(2), hop(3), hop(1)]);
        hops.sort_by_key(|h| h.addr);
        dead.sort(&mut hops, 100);
        assert_eq!(hops, [hop(1), hop(2), hop(3)]);
        assert!(dead.is_dead(Transport::Udp, hop(1).addr, 99));
        assert!(!dead.is_dead(Transport::Udp, hop(1).addr, 100));
        dead.answered(Transport::Udp, hop(1).addr);
        assert!(!dead.is_dead(Transport::Udp, hop(1).addr, 50));
    }

    #[test]
    fn the_memory_of_the_dead_is_bounded() {
        let mut dead = DeadHops::default();
        for n in 0..2 * DEAD_MAX as u32 {
            let addr = SocketAddr::from((n.to_be_bytes(), 5060));
            dead.failed(Transport::Udp, addr, 100, 0);
        }
        assert_eq!(dead.until.len(), DEAD_MAX);
    }
}
