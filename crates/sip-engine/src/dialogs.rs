//! What is remembered of dialogs beside their tokens: new remote targets, that a dialog
//! has ended, and that it is still alive.
//!
//! A token is bound to the target that its dialog began with, and expires
//! ([`crate::token`]). Most dialogs need no more. A dialog has an entry here if a side
//! announced another target (RFC 3261 12.2), if a request within it was answered with 2xx when its
//! token was old, or if it was ended, so that its tokens end soon after. Only messages that passed
//! as part of a dialog make an entry. A request by itself shows nobody alive but its sender.
//!
//! The table is bounded: past the bound the oldest entry is removed, and a restart removes all.
//! Then a request to a target that the dialog did not begin with is judged like a new one, and so
//! is one to a place that counts only since its side has shown that it is there; the tokens of an
//! ended call are valid until they expire. One that has expired, and whose dialog is not known to
//! have ended, is valid for each request whose sender has proved by a password who he is, and for
//! all again once the other side has answered one of these with 2xx.

use std::collections::VecDeque;
use std::hash::Hasher;

use hashbrown::{HashMap, HashSet};
use invariant::broken;
use sip_msg::{ConnId, Message, Method, Uri};
use siphasher::sip::SipHasher24;

use crate::Now;
use crate::relay::Shown;
use crate::token::{self, RouteToken, Tokens};

/// Targets that are remembered of one dialog, both sides together.
const TARGETS_MAX: usize = 4;
/// How long a dialog's tokens are good after its end, for what winds it up ([`winds_up`]).
const END_S: u64 = 300;
/// Connections that are remembered as ended.
const CONNS_MAX: usize = 4_096;

/// The dialogs of a shard: a message belongs to the shard of its Call-ID.
pub(crate) struct Dialogs {
    key: [u8; 16],
    entries: HashMap<u64, Entry>,
    /// Entries by their last change, the oldest first. One that was changed
    /// since stands there again, with another stamp.
    order: VecDeque<(u64, u64)>,
    stamp: u64,
    max: usize,
    /// Connections on which a request within a dialog failed, or that ended.
    ended_conns: HashSet<ConnId>,
    /// The same, the oldest first.
    ended_order: VecDeque<ConnId>,
    forgotten: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    /// Hashes of a target with the tag of who announced it, and of the tag alone of a side that has
    /// shown that it is there; 0 is none.
    targets: [u64; TARGETS_MAX],
    next: usize,
    /// Until when it is kept.
    until_s: u64,
    /// Until when the dialog is taken to be alive, whatever the age of its token.
    alive_until_s: u64,
    /// When it was ended.
    ended_s: Option<u64>,
    stamp: u64,
}

/// The verdict on a request with a token, after a look at the dialog's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The request is part of the dialog.
    Part,
    /// It is for a target that the dialog never announced.
    UnknownTarget,
    /// The token has expired.
    Old,
    /// The dialog has ended.
    Ended,
}

impl Entry {
    /// Keeps a hash, in the place of the oldest.
    fn keep(&mut self, hash: u64) {
        if self.targets.contains(&hash) {
            return;
        }
        match self.targets.get_mut(self.next) {
            Some(place) => *place = hash,
            None => broken!("the next place is one of TARGETS_MAX"),
        }
        self.next = (self.next + 1) % TARGETS_MAX;
    }
}

impl Dialogs {
    pub(crate) fn new(key: [u8; 16], max: usize) -> Self {
        Self {
            key,
            entries: HashMap::new(),
            order: VecDeque::new(),
            stamp: 0,
            max: max.max(1),
            ended_conns: HashSet::new(),
            ended_order: VecDeque::new(),
            forgotten: 0,
        }
    }

    /// Judges a request that bears `token`, and is for `target`.
    pub(crate) fn judge(
        &self,
        now: Now,
        lifetime_s: u64,
        tokens: &Tokens,
        token: &RouteToken,
        request: &Message,
        target: &Uri<'_>,
    ) -> Standing {
        let entry = self.entry(request);
        let now_s = now.unix_ms / 1_000;
        if let Some(ended_s) = entry.and_then(|entry| entry.ended_s)
            && (now_s >= ended_s + END_S || !winds_up(request.method()))
        {
            return Standing::Ended;
        }
        if !is_alive(now, lifetime_s, token, entry) {
            return Standing::Old;
        }
        // Whether a place counts that was shown to end something.
        let counts = || {
            let tag = request.to_tag();
            let there = tag.map(|tag| self.there(tag));
            ends_something(request.method())
                || entry.is_some_and(|of| there.is_some_and(|there| of.targets.contains(&there)))
        };
        if tokens.is_target(token, target) && (!token.is_to_end() || counts()) {
            return Standing::Part;
        }
        // The other side has announced it: its tag is the one in To.
        let announced = |as_shown| {
            let tag = request.to_tag()?;
            Some(self.announced(target, tag, as_shown))
        };
        let is_announced = entry.is_some_and(|entry| {
            let is_there = |as_shown| {
                announced(as_shown).is_some_and(|announced| entry.targets.contains(&announced))
            };
            is_there(Shown::Open) || (is_there(Shown::ToEnd) && counts())
        });
        match is_announced {
            true => Standing::Part,
            false => Standing::UnknownTarget,
        }
    }

    /// A side of the dialog of `message`, the one with `tag`, is reached at
    /// `target` from now on, as far as it was shown.
    pub(crate) fn announce(
        &mut self,
        now: Now,
        lifetime_s: u64,
        message: &Message,
        (tag, target): (&[u8], &Uri<'_>),
        as_shown: Shown,
    ) {
        if as_shown == Shown::Nowhere {
            return;
        }
        let announced = self.announced(target, tag, as_shown);
        self.change(now, lifetime_s, message, |entry, _| entry.keep(announced));
    }

    /// The side of the dialog of `message` with that tag has shown that it is where its request
    /// came from: what it had shown to end something is a place like any other.
    pub(crate) fn is_there(&mut self, now: Now, lifetime_s: u64, message: &Message, tag: &[u8]) {
        let there = self.there(tag);
        self.change(now, lifetime_s, message, |entry, _| entry.keep(there));
    }

    /// Whether a token is still good for whoever has no password.
    pub(crate) fn is_alive(
        &self,
        now: Now,
        lifetime_s: u64,
        token: &RouteToken,
        message: &Message,
    ) -> bool {
        is_alive(now, lifetime_s, token, self.entry(message))
    }

    /// The dialog of `message` was seen alive: that is remembered if its token is old, or if there
    /// is an entry in any case. Until when its token is good by that, in seconds since 1970.
    pub(crate) fn seen_alive(
        &mut self,
        now: Now,
        lifetime_s: u64,
        token: &RouteToken,
        message: &Message,
    ) -> Option<u64> {
        let is_old = token.age_s(now.unix_ms) > lifetime_s / 2;
        if !is_old && self.entry(message).is_none() {
            return None;
        }
        self.change(now, lifetime_s, message, |entry, now_s| {
            entry.alive_until_s = now_s + lifetime_s;
        });
        Some(now.unix_ms / 1_000 + lifetime_s)
    }

    /// The dialog of `message` was ended.
    pub(crate) fn end(&mut self, now: Now, lifetime_s: u64, message: &Message) {
        self.change(now, lifetime_s, message, |entry, now_s| {
            entry.ended_s = entry.ended_s.or(Some(now_s));
        });
    }

    /// Remembers that a connection has ended; its id is never used again.
    pub(crate) fn conn_ended(&mut self, conn: ConnId) {
        if !conn.is_some() || !self.ended_conns.insert(conn) {
            return;
        }
        self.ended_order.push_back(conn);
        if self.ended_order.len() > CONNS_MAX
            && let Some(oldest) = self.ended_order.pop_front()
        {
            self.ended_conns.remove(&oldest);
        }
    }

    /// Whether a connection is known to be gone.
    pub(crate) fn is_conn_ended(&self, conn: ConnId) -> bool {
        !self.ended_conns.is_empty() && self.ended_conns.contains(&conn)
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// How many entries were removed early, to make room.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// What is kept of a target that the side with `tag` has shown: its last bit says for what.
    fn announced(&self, target: &Uri<'_>, tag: &[u8], as_shown: Shown) -> u64 {
        let hash = token::hash_target(&self.key, target, tag);
        match as_shown {
            Shown::Open => hash | 1,
            Shown::ToEnd | Shown::Nowhere => hash & !1,
        }
    }

    fn entry(&self, message: &Message) -> Option<&Entry> {
        match self.entries.is_empty() {
            true => None,
            false => self.entries.get(&self.id(message)?),
        }
    }

    fn there(&self, tag: &[u8]) -> u64 {
        token::hash_tag(&self.key, tag) | 1
    }

    fn change(
        &mut self,
        now: Now,
        lifetime_s: u64,
        message: &Message,
        change: impl FnOnce(&mut Entry, u64),
    ) {
        let Some(id) = self.id(message) else {
            return;
        };
        let now_s = now.unix_ms / 1_000;
        self.make_room(now_s);
        self.stamp += 1;
        let entry = self.entries.entry(id).or_insert(Entry {
            targets: [0; TARGETS_MAX],
            next: 0,
            until_s: 0,
            alive_until_s: 0,
            ended_s: None,
            stamp: 0,
        });
        entry.until_s = now_s + lifetime_s;
        entry.stamp = self.stamp;
        change(entry, now_s);
        self.order.push_back((id, self.stamp));
    }

    /// Frees what is over, and the oldest where that is not enough.
    fn make_room(&mut self, now_s: u64) {
        while let Some(&(id, stamp)) = self.order.front() {
            let entry = self.entries.get(&id).filter(|entry| entry.stamp == stamp);
            if let Some(until_s) = entry.map(|entry| entry.until_s) {
                if self.entries.len() < self.max && now_s < until_s {
                    break;
                }
                self.forgotten += u64::from(now_s < until_s);
                self.entries.remove(&id);
            }
            self.order.pop_front();
        }
        // What was changed often stands in the order as often.
        if self.order.len() >= 2 * self.max {
            let entries = &self.entries;
            self.order
                .retain(|(id, stamp)| entries.get(id).is_some_and(|e| e.stamp == *stamp));
        }
    }

    /// A dialog's name, the same from either side.
    fn id(&self, message: &Message) -> Option<u64> {
        let (from, to) = (message.from().ok()?.tag()?, message.to().ok()?.tag()?);
        let mut hasher = SipHasher24::new_with_key(&self.key);
        for part in [message.call_id(), from.min(to), from.max(to)] {
            hasher.write(&(part.len() as u32).to_be_bytes());
            hasher.write(part);
        }
        Some(hasher.finish())
    }
}

/// Whether the token of a dialog with that entry is good by its time.
fn is_alive(now: Now, lifetime_s: u64, token: &RouteToken, entry: Option<&Entry>) -> bool {
    let now_s = now.unix_ms / 1_000;
    token.age_s(now.unix_ms) <= lifetime_s || entry.is_some_and(|of| now_s < of.alive_until_s)
}

/// Whether a request ends what is open within a dialog, and begins nothing. A NOTIFY begins nothing
/// either, but its 2xx shows a place, which may be the one that was asked for.
pub(crate) const fn ends_something(method: Method) -> bool {
    matches!(method, Method::Ack | Method::Bye)
}

/// Whether a request may come within a dialog that has ended (RFC 3261 15): it was on its way, or
/// reports what a REFER in it began (RFC 3515 2.4.7). Any other would begin something anew, past
/// what is asked of a new call.
const fn winds_up(method: Method) -> bool {
    matches!(
        method,
        Method::Ack | Method::Bye | Method::Cancel | Method::Prack | Method::Notify
    )
}

#[cfg(test)]
mod tests;
