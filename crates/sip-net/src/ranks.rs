//! In which order connections give up their places, when there are too many.
//!
//! Each connection hangs in one of five lists, the one that carried a message
//! least lately in front. To move one to the end, to take one out and to find
//! the least useful one take constant time each.

use slab::Slab;

use crate::stream::{Conn, State};

/// No place.
const NIL: u32 = u32::MAX;
/// Lists: for each class of use one.
const LISTS: usize = 5;
/// Requests that have no answer after so long will have none: timer C
/// (RFC 3261 16.6) and the time that the last messages take.
const STALE_MS: u64 = 240_000;

/// A connection's place in its list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rank {
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

/// The lists.
#[derive(Debug)]
pub(crate) struct Ranks {
    ends: [(u32, u32); LISTS],
}

impl Default for Ranks {
    fn default() -> Self {
        Self {
            ends: [(NIL, NIL); LISTS],
        }
    }
}

impl Ranks {
    /// Puts a connection where it belongs now, behind all others of its class.
    pub(crate) fn put(&mut self, conns: &mut Slab<Conn>, place: usize) {
        let (Some(conn), Ok(here)) = (conns.get_mut(place), u32::try_from(place)) else {
            return;
        };
        conn.usefulness.has_moved = false;
        let class = class_of(conn);
        if conn.rank.class == Some(class) && conn.rank.next == NIL {
            return;
        }
        self.take_out(conns, place);
        let Some((head, tail)) = self.ends.get_mut(class as usize) else {
            return;
        };
        let last = std::mem::replace(tail, here);
        if last == NIL {
            *head = here;
        }
        if let Some(conn) = conns.get_mut(place) {
            conn.rank = Rank {
                prev: last,
                next: NIL,
                class: Some(class),
            };
        }
        if let Some(last) = rank(conns, last) {
            last.next = here;
        }
    }

    /// Takes a connection out of its list.
    pub(crate) fn take_out(&mut self, conns: &mut Slab<Conn>, place: usize) {
        let Some(conn) = conns.get_mut(place) else {
            return;
        };
        let Rank { prev, next, class } = std::mem::take(&mut conn.rank);
        let Some((head, tail)) = class.and_then(|class| self.ends.get_mut(class as usize)) else {
            return;
        };
        if prev == NIL {
            *head = next;
        }
        if next == NIL {
            *tail = prev;
        }
        if let Some(prev) = rank(conns, prev) {
            prev.next = next;
        }
        if let Some(next) = rank(conns, next) {
            next.prev = prev;
        }
    }

    /// The connection that is missed least, and what it was good for. `None`
    /// where each is in use, or was within `quiet_ms`.
    pub(crate) fn least_useful(
        &mut self,
        conns: &mut Slab<Conn>,
        now_ms: u64,
        quiet_ms: u64,
    ) -> Option<(usize, Class)> {
        let orders = [
            (Class::Unused, 0),
            (Class::Idle, quiet_ms),
            (Class::Busy, quiet_ms.max(STALE_MS)),
            (Class::Bound, quiet_ms),
            (Class::BoundBusy, quiet_ms.max(STALE_MS)),
        ];
        // Each turn but the last moves one that is not where it belongs, once
        // for each change of it.
        'again: loop {
            for (class, quiet_ms) in orders {
                let Some(place) = self.first(class) else {
                    continue;
                };
                let conn = conns.get_mut(place)?;
                if !matches!(conn.state, State::Open | State::Upgrading) {
                    self.take_out(conns, place);
                    continue 'again;
                }
                if conn.usefulness.bound_until_ms <= now_ms {
                    conn.usefulness.bound_until_ms = 0;
                }
                if class_of(conn) != class {
                    self.put(conns, place);
                    continue 'again;
                }
                if conn.usefulness.carried_ms.saturating_add(quiet_ms) <= now_ms {
                    return Some((place, class));
                }
            }
            return None;
        }
    }

    fn first(&self, class: Class) -> Option<usize> {
        let (head, _) = self.ends.get(class as usize)?;
        (*head != NIL).then_some(*head as usize)
    }
}

fn rank(conns: &mut Slab<Conn>, place: u32) -> Option<&mut Rank> {
    conns.get_mut(place as usize).map(|conn| &mut conn.rank)
}

const fn class_of(conn: &Conn) -> Class {
    let is_bound = conn.call.is_some() || conn.usefulness.bound_until_ms > 0;
    match (is_bound, conn.usefulness.unanswered > 0) {
        (false, false) if !conn.usefulness.has_carried => Class::Unused,
        (false, false) => Class::Idle,
        (false, true) => Class::Busy,
        (true, false) => Class::Bound,
        (true, true) => Class::BoundBusy,
    }
}

#[cfg(test)]
mod tests;
