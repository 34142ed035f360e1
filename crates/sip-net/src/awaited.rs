//! Clients that their handshakes wait for, and which of these gives its place to a newcomer.
//!
//! A place of a handshake is held cheaply: by a connection on which nothing is said, or by a hello
//! whose answer is left alone. So where places run out, a source that holds many of them here
//! gives one up, the one that holds most first. Whoever has few is not reached by a flood from
//! few sources, however young the flood keeps its own. Where no source has many, the client goes
//! that has been waited for longest.
//!
//! A client stands here from when this side has nothing more to do for it until it speaks again.
//! To put one in, to take it out and to choose one take a time that grows with the logarithm of
//! how many there are.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use invariant::broken;
use sip_msg::ConnId;

/// Clients of one source that are few. One with more gives a place up before all others, and is
/// not asked how long it has been waited for.
const FEW: usize = 64;

/// What a client has yet to say. Who has said nothing goes before who has said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Awaited {
    /// Its hello, or the other one that it was asked for.
    Hello,
    /// What follows the answer to its hello.
    Reply,
}

/// Clients that are waited for.
#[derive(Debug, Default)]
pub(crate) struct AwaitedClients {
    clients: HashMap<ConnId, Client>,
    /// In order of time. Connections are numbered in the order in which they came.
    by_time: BTreeSet<(Awaited, u64, ConnId)>,
    /// Source by source, each in the same order.
    by_source: BTreeSet<(IpAddr, Awaited, u64, ConnId)>,
    counts: HashMap<IpAddr, usize>,
    /// The source with most clients last.
    shares: BTreeSet<(usize, IpAddr)>,
}

/// One of them: from where, and since when that is awaited.
#[derive(Clone, Copy, Debug)]
struct Client {
    source: IpAddr,
    awaited: Awaited,
    since_ms: u64,
}

impl AwaitedClients {
    /// This is awaited from a client from now on, and nothing else.
    pub(crate) fn put(&mut self, id: ConnId, source: IpAddr, awaited: Awaited, now_ms: u64) {
        self.take_out(id);
        let client = Client {
            source,
            awaited,
            since_ms: now_ms,
        };
        self.clients.insert(id, client);
        self.by_time.insert((awaited, now_ms, id));
        self.by_source.insert((source, awaited, now_ms, id));
        let before = self.counts.get(&source).copied().unwrap_or(0);
        self.count(source, before, before + 1);
    }

    /// Nothing is awaited from a client any more: it has spoken, or is gone.
    pub(crate) fn take_out(&mut self, id: ConnId) {
        let Some(client) = self.clients.remove(&id) else {
            return;
        };
        let Client {
            source,
            awaited,
            since_ms,
        } = client;
        self.by_time.remove(&(awaited, since_ms, id));
        self.by_source.remove(&(source, awaited, since_ms, id));
        let Some(before) = self.counts.get(&source).copied() else {
            return broken!("a client that is waited for is counted of its source");
        };
        self.count(source, before, before - 1);
    }

    /// Whether something is awaited from a client.
    pub(crate) fn has(&self, id: ConnId) -> bool {
        self.clients.contains_key(&id)
    }

    /// The client of a source that has all its places: it has let this side wait longest, where
    /// it has had an answer for `patience_ms` at least.
    pub(crate) fn of_source(
        &self,
        source: IpAddr,
        now_ms: u64,
        patience_ms: u64,
    ) -> Option<ConnId> {
        let first = |awaited| self.first_of(source, awaited);
        first(Awaited::Hello)
            .or_else(|| first(Awaited::Reply).filter(|reply| is_past(*reply, now_ms, patience_ms)))
            .map(|(_, id)| id)
    }

    /// The client that goes where all places are taken: of the source that has most, if those
    /// are many, or else of all.
    pub(crate) fn of_all(&self, now_ms: u64, patience_ms: u64) -> Option<ConnId> {
        if let Some((count, source)) = self.shares.last()
            && *count > FEW
        {
            return self.of_source(*source, now_ms, 0);
        }
        let (awaited, since_ms, id) = *self.by_time.first()?;
        (awaited == Awaited::Hello || is_past((since_ms, id), now_ms, patience_ms)).then_some(id)
    }

    fn first_of(&self, source: IpAddr, awaited: Awaited) -> Option<(u64, ConnId)> {
        let from = (source, awaited, 0, ConnId::NONE);
        let (of, what, since_ms, id) = self.by_source.range(from..).next()?;
        (*of == source && *what == awaited).then_some((*since_ms, *id))
    }

    fn count(&mut self, source: IpAddr, before: usize, now: usize) {
        self.shares.remove(&(before, source));
        if now == 0 {
            self.counts.remove(&source);
        } else {
            self.counts.insert(source, now);
            self.shares.insert((now, source));
        }
    }
}

fn is_past((since_ms, _): (u64, ConnId), now_ms: u64, patience_ms: u64) -> bool {
    since_ms.saturating_add(patience_ms) <= now_ms
}

#[cfg(test)]
mod tests;
