//! Clients that their handshakes wait for, and which of these gives its place to a newcomer.
//!
//! A place of a handshake is held cheaply: a connection on which nothing is said, or a hello
//! whose answer is left alone. So where places run out the source that holds most of them here
//! gives one up, and of its clients the one that has been waited for longest. Whoever has few is
//! not reached by a flood, however young the flood keeps its own.
//!
//! A client stands here from when this side has nothing more to do for it until it speaks again.
//! To put one in, to take it out and to choose one take a time that grows with the logarithm of
//! how many there are.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use sip_msg::ConnId;

/// Sources that are looked at for a client that may be chosen, those with most clients first.
const SOURCES_LOOKED_AT_MAX: usize = 16;

/// What a client has yet to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Its hello, or the other one that it was asked for.
    Hello,
    /// What follows the answer to its hello.
    Reply,
}

/// Clients that are waited for.
#[derive(Debug, Default)]
pub(crate) struct AwaitedClients {
    clients: HashMap<ConnId, (Awaited, Client)>,
    hellos: Line,
    replies: Line,
}

/// One of them: from where, and since when it is waited for.
#[derive(Clone, Copy, Debug)]
struct Client {
    source: IpAddr,
    since_ms: u64,
}

impl AwaitedClients {
    /// This is awaited from a client from now on, and nothing else.
    pub(crate) fn put(&mut self, id: ConnId, source: IpAddr, awaited: Awaited, now_ms: u64) {
        self.take_out(id);
        let client = Client {
            source,
            since_ms: now_ms,
        };
        self.clients.insert(id, (awaited, client));
        self.line(awaited).insert(id, client);
    }

    /// Nothing is awaited from a client any more: it has spoken, or is gone.
    pub(crate) fn take_out(&mut self, id: ConnId) {
        if let Some((awaited, client)) = self.clients.remove(&id) {
            self.line(awaited).remove(id, client);
        }
    }

    /// What is awaited from a client, and since when.
    pub(crate) fn get(&self, id: ConnId) -> Option<(Awaited, u64)> {
        let (awaited, client) = self.clients.get(&id)?;
        Some((*awaited, client.since_ms))
    }

    /// Of those from `source`, or else from whichever source has most of them, the client from
    /// which this has been awaited longest, and for `wait_ms` at least.
    pub(crate) fn longest(
        &self,
        awaited: Awaited,
        source: Option<IpAddr>,
        now_ms: u64,
        wait_ms: u64,
    ) -> Option<ConnId> {
        let line = match awaited {
            Awaited::Hello => &self.hellos,
            Awaited::Reply => &self.replies,
        };
        let longest_of = |source: IpAddr| {
            let (since_ms, id) = line.first_of(source)?;
            (since_ms.saturating_add(wait_ms) <= now_ms).then_some(id)
        };
        match source {
            Some(source) => longest_of(source),
            None => {
                let sources = line.shares.iter().rev().take(SOURCES_LOOKED_AT_MAX);
                sources.map(|share| share.2).find_map(longest_of)
            }
        }
    }

    fn line(&mut self, awaited: Awaited) -> &mut Line {
        match awaited {
            Awaited::Hello => &mut self.hellos,
            Awaited::Reply => &mut self.replies,
        }
    }
}

/// Those from which the same is awaited.
#[derive(Debug, Default)]
struct Line {
    /// Source by source, each in order of time. Connections are numbered in the order in which
    /// they came.
    clients: BTreeSet<(IpAddr, u64, ConnId)>,
    counts: HashMap<IpAddr, usize>,
    /// The source with most clients last, and of equal ones the one that has waited longest.
    shares: BTreeSet<(usize, Reverse<u64>, IpAddr)>,
}

impl Line {
    fn insert(&mut self, id: ConnId, client: Client) {
        self.change(client.source, |line| {
            line.clients.insert((client.source, client.since_ms, id));
            *line.counts.entry(client.source).or_default() += 1;
        });
    }

    fn remove(&mut self, id: ConnId, client: Client) {
        self.change(client.source, |line| {
            line.clients.remove(&(client.source, client.since_ms, id));
            if let Some(count) = line.counts.get_mut(&client.source) {
                *count -= 1;
                if *count == 0 {
                    line.counts.remove(&client.source);
                }
            }
        });
    }

    fn change(&mut self, source: IpAddr, change: impl FnOnce(&mut Self)) {
        if let Some(share) = self.share_of(source) {
            self.shares.remove(&share);
        }
        change(self);
        if let Some(share) = self.share_of(source) {
            self.shares.insert(share);
        }
    }

    fn share_of(&self, source: IpAddr) -> Option<(usize, Reverse<u64>, IpAddr)> {
        let count = *self.counts.get(&source)?;
        let (since_ms, _) = self.first_of(source)?;
        Some((count, Reverse(since_ms), source))
    }

    /// The client of a source that has been waited for longest, and since when.
    fn first_of(&self, source: IpAddr) -> Option<(u64, ConnId)> {
        let from = (source, 0, ConnId::NONE);
        let (of, since_ms, id) = self.clients.range(from..).next()?;
        (*of == source).then_some((*since_ms, *id))
    }
}

#[cfg(test)]
mod tests;
