//! In which order connections give up their places, when there are too many.
//!
//! Each connection hangs in one of five lists, the one that carried a message
//! least lately in front. To move one to the end, to take one out and to find
//! the least useful one take constant time each. A connection is known here by
//! its place in the table of connections alone.

use invariant::broken;

mod usefulness;

pub(crate) use usefulness::Usefulness;

/// No place.
const NIL: u32 = u32::MAX;
/// Lists: for each class of use one.
const LISTS: usize = 5;
/// Requests that have no answer after so long will have none: timer C
/// (RFC 3261 16.6) and the time that the last messages take.
const STALE_MS: u64 = 240_000;
/// For so long a connection that has carried nothing may get on, a handshake or its first
/// message, before it goes first: a round trip, and one segment that is lost and sent again.
/// Else each newcomer to a full table would close the one before, and none would ever register.
pub(crate) const GETTING_ON_MS: u64 = 3_000;
/// Connections that are looked at for one that has not got on.
const LOOKED_AT_MAX: usize = 16;

/// A connection's place in its list.
#[derive(Clone, Copy, Debug)]
struct Rank {
    prev: u32,
    next: u32,
    class: Option<Class>,
}

impl Default for Rank {
    fn default() -> Self {
        Self {
            prev: NIL,
            next: NIL,
            class: None,
        }
    }
}

/// What a connection is good for, the least useful first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// It has never carried a message.
    Unused,
    /// Nobody relies on it, and nothing is under way.
    Idle,
    /// Nobody relies on it, and requests are under way.
    Busy,
    /// A registered contact or a call relies on it, and nothing is under way.
    Bound,
    /// Both.
    BoundBusy,
}

/// What a connection is good for now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) class: Class,
    /// When it last carried a message; where it never did, when it last got on.
    pub(crate) carried_ms: u64,
    /// For how long after that it may get on, where it has carried nothing.
    pub(crate) getting_on_ms: u64,
    /// Whether it has to wait for this side: to close it then would lose what was done for it.
    pub(crate) waits_for_us: bool,
}

/// The lists.
#[derive(Debug)]
pub(crate) struct Ranks {
    /// By the connection's place in the table.
    ranks: Vec<Rank>,
    ends: [(u32, u32); LISTS],
}

impl Default for Ranks {
    fn default() -> Self {
        Self {
            ranks: Vec::new(),
            ends: [(NIL, NIL); LISTS],
        }
    }
}

impl Ranks {
    /// Puts a connection where it belongs now, behind all others of its class.
    pub(crate) fn put(&mut self, place: usize, class: Class) {
        let Ok(here) = u32::try_from(place) else {
            return broken!("a place in the table fits 32 bits");
        };
        if place >= self.ranks.len() {
            self.ranks.resize_with(place + 1, Rank::default);
        }
        let rank = &self.ranks[place];
        if rank.class == Some(class) && rank.next == NIL {
            return;
        }
        self.take_out(place);
        let (head, tail) = &mut self.ends[class as usize];
        let last = std::mem::replace(tail, here);
        if last == NIL {
            *head = here;
        }
        self.ranks[place] = Rank {
            prev: last,
            next: NIL,
            class: Some(class),
        };
        if let Some(last) = self.rank(last) {
            last.next = here;
        }
    }

    /// Takes a connection out of its list.
    pub(crate) fn take_out(&mut self, place: usize) {
        let Some(rank) = self.ranks.get_mut(place) else {
            return;
        };
        let Rank { prev, next, class } = std::mem::take(rank);
        let Some(class) = class else {
            return;
        };
        let (head, tail) = &mut self.ends[class as usize];
        if prev == NIL {
            *head = next;
        }
        if next == NIL {
            *tail = prev;
        }
        if let Some(prev) = self.rank(prev) {
            prev.next = next;
        }
        if let Some(next) = self.rank(next) {
            next.prev = prev;
        }
    }

    /// The connection that is missed least, and what it was good for. `None`
    /// where each is in use, or was within `quiet_ms`. `look` tells what one is
    /// good for now, or nothing of one that ends anyway.
    pub(crate) fn least_useful(
        &mut self,
        now_ms: u64,
        quiet_ms: u64,
        mut look: impl FnMut(usize) -> Option<Standing>,
    ) -> Option<(usize, Class)> {
        let orders = [
            (Class::Unused, None),
            (Class::Idle, Some(quiet_ms)),
            (Class::Unused, Some(0)),
            (Class::Busy, Some(quiet_ms.max(STALE_MS))),
            (Class::Bound, Some(quiet_ms)),
            (Class::BoundBusy, Some(quiet_ms.max(STALE_MS))),
        ];
        // Each turn but the last moves one that is not where it belongs, once
        // for each change of it.
        let mut put_back = 0;
        'again: loop {
            for (class, quiet_ms) in orders {
                // They stand in order of time, but of those that get on some have less of it.
                let is_unused = class == Class::Unused;
                let mut looks = if is_unused { LOOKED_AT_MAX } else { 1 };
                let mut next = self.first(class);
                while looks > 0
                    && let Some(place) = next
                {
                    let Some(now) = look(place) else {
                        self.take_out(place);
                        continue 'again;
                    };
                    if now.class != class {
                        self.put(place, now.class);
                        continue 'again;
                    }
                    next = self.behind(place);
                    if is_unused && now.waits_for_us && put_back < LOOKED_AT_MAX {
                        // It gets on, and hides nobody behind it.
                        put_back += 1;
                        self.put(place, class);
                        continue;
                    }
                    looks -= 1;
                    let quiet_ms = quiet_ms.unwrap_or(now.getting_on_ms);
                    let is_quiet = now.carried_ms.saturating_add(quiet_ms) <= now_ms;
                    if is_quiet && !(is_unused && now.waits_for_us) {
                        return Some((place, class));
                    }
                }
                if is_unused && quiet_ms.is_some() && self.first(class).is_some() {
                    // All that were looked at wait for this side.
                    return None;
                }
            }
            return None;
        }
    }

    fn first(&self, class: Class) -> Option<usize> {
        let (head, _) = self.ends.get(class as usize)?;
        (*head != NIL).then_some(*head as usize)
    }

    fn behind(&self, place: usize) -> Option<usize> {
        let next = self.ranks.get(place)?.next;
        (next != NIL).then_some(next as usize)
    }

    fn rank(&mut self, place: u32) -> Option<&mut Rank> {
        self.ranks.get_mut(place as usize)
    }
}

#[cfg(test)]
mod tests;
