//! A server transaction's memory, and the table in which requests find it.

use crate::id::{SLOT_MAX, ServerId};
use crate::key::Key;
use crate::machine::{Action, ServerEvent};
use crate::{ServerState, server_invite, server_non_invite};
use invariant::broken;
use sip_msg::{Method, Target};
use slots::{Name, Slots};
use wheel::TimerId;

/// Which machine, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Machine {
    Invite(server_invite::State),
    NonInvite(server_non_invite::State),
}

impl Machine {
    /// A new transaction's machine, and what it does first.
    pub(crate) const fn new(method: Method) -> (Self, &'static [Action]) {
        match method {
            Method::Invite => (
                Self::Invite(server_invite::INITIAL.0),
                server_invite::INITIAL.1,
            ),
            _ => (
                Self::NonInvite(server_non_invite::INITIAL.0),
                server_non_invite::INITIAL.1,
            ),
        }
    }

    pub(crate) const fn step(self, event: ServerEvent) -> (Self, &'static [Action]) {
        match self {
            Self::Invite(state) => {
                let (state, actions) = server_invite::step(state, event);
                (Self::Invite(state), actions)
            }
            Self::NonInvite(state) => {
                let (state, actions) = server_non_invite::step(state, event);
                (Self::NonInvite(state), actions)
            }
        }
    }

    /// `None` when it is over.
    pub(crate) const fn state(self) -> Option<ServerState> {
        use server_invite::State as Invite;
        use server_non_invite::State as NonInvite;
        match self {
            Self::Invite(Invite::Proceeding) | Self::NonInvite(NonInvite::Proceeding) => {
                Some(ServerState::Proceeding)
            }
            Self::Invite(Invite::Completed) | Self::NonInvite(NonInvite::Completed) => {
                Some(ServerState::Completed)
            }
            Self::Invite(Invite::Confirmed) => Some(ServerState::Confirmed),
            Self::Invite(Invite::Accepted) => Some(ServerState::Accepted),
            Self::NonInvite(NonInvite::Trying) => Some(ServerState::Trying),
            Self::Invite(Invite::Terminated) | Self::NonInvite(NonInvite::Terminated) => None,
        }
    }

    pub(crate) const fn is_invite(self) -> bool {
        matches!(self, Self::Invite(_))
    }

    /// Whether the final response to an INVITE waits for its ACK here.
    pub(crate) const fn awaits_ack(self) -> bool {
        matches!(self, Self::Invite(server_invite::State::Completed))
    }
}

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) key: Key,
    /// The next transaction in the chain of its hash, as slot + 1.
    next: u32,
    pub(crate) method: Method,
    pub(crate) method_tag: u32,
    pub(crate) machine: Machine,
    pub(crate) target: Target,
    pub(crate) context: u64,
    /// The last response, where it may have to be repeated.
    pub(crate) response: Vec<u8>,
    /// Timer G.
    pub(crate) repeat: TimerId,
    pub(crate) interval_ms: u64,
    /// The one other timer.
    pub(crate) timer: TimerId,
    /// The To tag's hash of the final response, where the rules of RFC 2543 apply.
    pub(crate) response_tag: Option<u32>,
    /// Whether responses go elsewhere than to the source.
    pub(crate) maddr: bool,
    /// Whether a 100 over an unreliable transport is allowed by now (RFC 4320).
    pub(crate) trying_allowed: bool,
}

impl Server {
    pub(crate) fn new(
        key: Key,
        method: Method,
        method_tag: u32,
        machine: Machine,
        target: Target,
    ) -> Self {
        Self {
            key,
            next: 0,
            method,
            method_tag,
            machine,
            context: 0,
            response: Vec::new(),
            repeat: TimerId::NONE,
            interval_ms: 0,
            timer: TimerId::NONE,
            response_tag: None,
            maddr: false,
            trying_allowed: target.transport.is_reliable(),
            target,
        }
    }
}

/// All server transactions, with chains by hash: nothing is ever rehashed, so
/// no request waits for that.
#[derive(Debug)]
pub(crate) struct Servers {
    slots: Slots<Server>,
    /// First transaction of each chain, as slot + 1; a power of two of them.
    heads: Vec<u32>,
}

/// The most chains: 4 MiB of heads, which stays once it was used. At 5,000 calls a second
/// 320,000 transactions are kept, and each that shares a chain costs a look-up a miss in
/// the caches.
const HEADS_MAX: usize = 1 << 20;

impl Servers {
    pub(crate) fn new(server_max: usize) -> Self {
        let heads = server_max.clamp(64, HEADS_MAX).next_power_of_two();
        Self {
            slots: Slots::new(server_max.min(SLOT_MAX)),
            heads: vec![0; heads],
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.slots.len()
    }

    /// The memory of the tables.
    pub(crate) const fn held_bytes(&self) -> usize {
        self.slots.held_bytes() + self.heads.len() * size_of::<u32>()
    }

    pub(crate) fn trim(&mut self) {
        self.slots.trim();
    }

    pub(crate) fn get(&self, id: ServerId) -> Option<&Server> {
        self.slots.get(id.0)
    }

    pub(crate) fn get_mut(&mut self, id: ServerId) -> Option<&mut Server> {
        self.slots.get_mut(id.0)
    }

    /// The transaction with this hash that `matches`.
    pub(crate) fn find(&self, hash: u128, matches: impl Fn(&Server) -> bool) -> Option<ServerId> {
        self.seek(hash, matches).ok()
    }

    /// The same, or else how many others have this hash.
    pub(crate) fn seek(
        &self,
        hash: u128,
        matches: impl Fn(&Server) -> bool,
    ) -> Result<ServerId, usize> {
        let mut twins = 0;
        let mut next = self.heads.get(self.chain(hash)).copied().unwrap_or(0);
        while let Some((name, server)) = next.checked_sub(1).and_then(|slot| self.slots.at(slot)) {
            if server.key.hash == hash {
                if matches(server) {
                    return Ok(ServerId(name));
                }
                twins += 1;
            }
            next = server.next;
        }
        Err(twins)
    }

    pub(crate) fn insert(&mut self, mut server: Server) -> Option<ServerId> {
        let chain = self.chain(server.key.hash);
        let head = self.heads.get_mut(chain)?;
        server.next = *head;
        let name = self.slots.insert(server)?;
        *head = name.slot + 1;
        Some(ServerId(name))
    }

    pub(crate) fn remove(&mut self, id: ServerId) -> Option<Server> {
        let server = self.slots.remove(id.0)?;
        let chain = self.chain(server.key.hash);
        self.unlink(chain, id.0, server.next);
        Some(server)
    }

    fn unlink(&mut self, chain: usize, name: Name, next: u32) {
        let removed = name.slot + 1;
        let Some(head) = self.heads.get_mut(chain) else {
            return broken!("a chain's number is below the number of heads");
        };
        if *head == removed {
            *head = next;
            return;
        }
        let mut at = *head;
        while let Some(server) = at.checked_sub(1).and_then(|slot| self.slots.at_mut(slot)) {
            if server.next == removed {
                server.next = next;
                return;
            }
            at = server.next;
        }
        broken!("a transaction is in the chain of its hash");
    }

    fn chain(&self, hash: u128) -> usize {
        hash as usize & (self.heads.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_msg::{ConnId, ListenerId, Transport};

    fn server(hash: u128, context: u64) -> Server {
        let target = Target {
            transport: Transport::Udp,
            listener: ListenerId(0),
            remote: ([192, 0, 2, 1], 5060).into(),
            conn: ConnId::NONE,
            may_open: false,
            tls_name: None,
            lane: sip_msg::Lane::Shared,
            local: None,
        };
        let key = Key {
            hash,
            to_tag: 0,
            legacy: false,
        };
        let (machine, _) = Machine::new(Method::Bye);
        Server {
            context,
            ..Server::new(key, Method::Bye, 0, machine, target)
        }
    }

    #[test]
    fn a_chain_keeps_its_others_when_one_goes() {
        let mut servers = Servers::new(64);
        // All in one chain: they differ above the bits that choose it.
        let ids: Vec<_> = (0..10u128)
            .map(|n| servers.insert(server(n << 64 | 5, n as u64)).unwrap())
            .collect();
        for gone in [9, 0, 4] {
            assert!(servers.remove(ids[gone]).is_some());
            assert!(servers.remove(ids[gone]).is_none());
        }
        for (n, id) in ids.iter().enumerate() {
            let found = servers.find((n as u128) << 64 | 5, |_| true);
            assert_eq!(found, Some(*id).filter(|_| ![9, 0, 4].contains(&n)));
        }
        assert_eq!(
            servers.find(3 << 64 | 5, |server| server.context == 4),
            None
        );
        assert_eq!(servers.len(), 7);
    }
}
