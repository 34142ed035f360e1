//! Clients that their handshakes wait for, and which of these gives its place to a newcomer.
//!
//! A place of a handshake is held cheaply: by a connection on which nothing is said, or by a hello
//! whose answer is left alone. So where places run out, a source that holds many of them here
//! gives one up, the one that holds most first. Whoever has few is not reached by a flood from
//! few sources, however young the flood keeps its own.
//!
//! Of one source, and of all where no source has many, the one goes that has been silent for
//! longest, if that is longer than the grace, or else the one that has left its answer alone for
//! longest, if that is. Where nobody is past the grace, one that is silent goes only while those
//! are no fewer than the others, and else the newcomer is one too many: a phone that has just
//! come must not go before hellos of which somebody replays as many as there are places, and a
//! flood of silence must not shut newcomers out.
//!
//! A client stands here from when this side has nothing more to do for it until it speaks again.
//! To put one in, to take it out and to choose one take a time that grows with the logarithm of
//! how many there are.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use invariant::broken;
use sip_msg::ConnId;

/// For so long a client may take to speak, or to take an answer up, before it is closed for others:
/// a round trip, mostly with time to spare.
pub(crate) const GRACE_MS: u64 = 1_000;
/// Clients of one source that are few, at all workers together. A source with more gives a
/// place up before all others, and is not asked how long it has been waited for.
const FEW: usize = 64;
/// The same at one worker, where there are many.
const FEW_MIN: usize = 4;

/// Clients of one source that are few at one of so many workers: the kernel spreads them evenly.
pub(crate) fn few(workers: usize) -> usize {
    (FEW / workers.max(1)).max(FEW_MIN)
}

/// What a client has yet to say.
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
    counts: HashMap<IpAddr, Counts>,
    all: Counts,
    /// The source with most clients last.
    shares: BTreeSet<(usize, IpAddr)>,
}

/// One of them: from where, and since when that is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Client {
    source: IpAddr,
    awaited: Awaited,
    since_ms: u64,
}

/// How many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    hellos: usize,
    replies: usize,
}

impl Counts {
    fn sum(self) -> usize {
        self.hellos + self.replies
    }

    fn of(&mut self, awaited: Awaited) -> &mut usize {
        match awaited {
            Awaited::Hello => &mut self.hellos,
            Awaited::Reply => &mut self.replies,
        }
    }
}

impl AwaitedClients {
    /// This is awaited from a client since then, and nothing else.
    pub(crate) fn put(&mut self, id: ConnId, source: IpAddr, awaited: Awaited, since_ms: u64) {
        let client = Client {
            source,
            awaited,
            since_ms,
        };
        if self.clients.get(&id) == Some(&client) {
            return;
        }
        self.take_out(id);
        self.clients.insert(id, client);
        self.by_time.insert((awaited, since_ms, id));
        self.by_source.insert((source, awaited, since_ms, id));
        *self.all.of(awaited) += 1;
        let before = self.counts.get(&source).copied().unwrap_or_default();
        let mut now = before;
        *now.of(awaited) += 1;
        self.count(source, before, now);
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
        *self.all.of(awaited) -= 1;
        let mut now = before;
        *now.of(awaited) -= 1;
        self.count(source, before, now);
    }

    /// The client that goes where a source has all its places, of its own.
    pub(crate) fn of_source(&self, source: IpAddr, now_ms: u64, grace_ms: u64) -> Option<ConnId> {
        let counts = self.counts.get(&source)?;
        let first = |awaited| self.first_of(source, awaited);
        past_grace(first, now_ms, grace_ms)
            .or_else(|| first(Awaited::Hello).filter(|_| counts.hellos >= counts.replies))
            .map(|(_, id)| id)
    }

    /// The client that goes where all places are taken: of the source that has most, if those
    /// are more than `few`, or else of all.
    pub(crate) fn of_all(&self, few: usize, now_ms: u64, grace_ms: u64) -> Option<ConnId> {
        if let Some((count, source)) = self.shares.last()
            && *count > few
        {
            let first = |awaited| self.first_of(*source, awaited);
            let oldest = || {
                first(Awaited::Hello)
                    .into_iter()
                    .chain(first(Awaited::Reply))
                    .min()
            };
            let silent = first(Awaited::Hello).filter(|hello| is_past(*hello, now_ms, grace_ms));
            return silent.or_else(oldest).map(|(_, id)| id);
        }
        let first = |awaited| self.first_of_all(awaited);
        past_grace(first, now_ms, grace_ms)
            .or_else(|| first(Awaited::Hello).filter(|_| self.all.hellos >= self.all.replies))
            .map(|(_, id)| id)
    }

    fn first_of_all(&self, awaited: Awaited) -> Option<First> {
        let from = (awaited, 0, ConnId::NONE);
        let (what, since_ms, id) = *self.by_time.range(from..).next()?;
        (what == awaited).then_some((since_ms, id))
    }

    fn first_of(&self, source: IpAddr, awaited: Awaited) -> Option<First> {
        let from = (source, awaited, 0, ConnId::NONE);
        let (of, what, since_ms, id) = *self.by_source.range(from..).next()?;
        (of == source && what == awaited).then_some((since_ms, id))
    }

    fn count(&mut self, source: IpAddr, before: Counts, now: Counts) {
        self.shares.remove(&(before.sum(), source));
        if now.sum() == 0 {
            self.counts.remove(&source);
        } else {
            self.counts.insert(source, now);
            self.shares.insert((now.sum(), source));
        }
    }
}

/// The client that has been waited for longest, of some, and since when.
type First = (u64, ConnId);

/// Who goes because it has let this side wait for longer than it may, who is silent first.
fn past_grace(
    first: impl Fn(Awaited) -> Option<First>,
    now_ms: u64,
    grace_ms: u64,
) -> Option<First> {
    let of = |awaited| first(awaited).filter(|first| is_past(*first, now_ms, grace_ms));
    of(Awaited::Hello).or_else(|| of(Awaited::Reply))
}

fn is_past((since_ms, _): First, now_ms: u64, grace_ms: u64) -> bool {
    since_ms.saturating_add(grace_ms) <= now_ms
}

#[cfg(test)]
mod tests;
