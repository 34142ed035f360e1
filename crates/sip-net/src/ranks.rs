//! In which order connections give up their places, when there are too many.
//!
//! Each connection hangs in one of seven lists, the one that carried a message
//! least lately in front. To move one to the end, to take one out and to find
//! the least useful one take constant time each. A connection is known here by
//! its place in the table of connections alone.

use invariant::broken;

mod usefulness;

pub(crate) use usefulness::Usefulness;

/// No place.
const NIL: u32 = u32::MAX;
/// Lists: for each class of use one.
const LISTS: usize = 7;
/// Requests that have no answer after so long will have none: timer C
/// (RFC 3261 16.6) and the time that the last messages take.
const STALE_MS: u64 = 240_000;
/// For so long a connection that has carried nothing may get on, a handshake or its first
/// message, before it goes first: a round trip, and one segment that is lost and sent again.
/// Else each newcomer to a full table would close the one before, and none would ever register.
const GETTING_ON_MS: u64 = 3_000;
/// A connection that is relied on and on which nothing was heard for so long may be dead, as all
/// are after a power cut: a phone that shows itself as often as it is asked to (Flow-Timer, RFC
/// 5626 4.4.1) has left two keep-alives out by then.
pub(crate) const UNHEARD_MS: u64 = 300_000;
/// Connections that have carried nothing yet are few, and such a one goes before them, while they
/// are less than this part of all, or than this number.
const FEW_PART: usize = 64;
const FEW_MIN: usize = 4;

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
    /// The same, and when it came its source had more of these than are given time to get on.
    Crowd,
    /// The same, and it has to wait for this side.
    Waiting,
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
    /// When it last carried a message or anything was heard on it.
    pub(crate) heard_ms: u64,
    /// Whether its source has more that have carried nothing than are given time to get on.
    pub(crate) is_one_of_many: bool,
    /// Whether it has to wait for this side: to close it then would lose what was done for it.
    pub(crate) waits_for_us: bool,
}

impl Standing {
    /// The list that it belongs into: one that waits for this side would hide those behind it, as
    /// one that is given time would hide those that are not. Whoever was given time keeps it.
    fn list(&self, now_in: Class) -> Class {
        match self.class {
            Class::Unused if self.waits_for_us => Class::Waiting,
            Class::Unused if self.is_one_of_many && now_in != Class::Unused => Class::Crowd,
            class => class,
        }
    }
}

/// How long the first of a list must have been quiet, to go.
#[derive(Clone, Copy)]
enum Quiet {
    For(u64),
    /// For [`UNHEARD_MS`], where few have carried nothing yet.
    WhereFewAreUnused,
    /// It does not go, nor does anybody after it.
    Never,
}

/// The lists.
#[derive(Debug)]
pub(crate) struct Ranks {
    /// By the connection's place in the table.
    ranks: Vec<Rank>,
    ends: [(u32, u32); LISTS],
    counts: [usize; LISTS],
}

impl Default for Ranks {
    fn default() -> Self {
        Self {
            ranks: Vec::new(),
            ends: [(NIL, NIL); LISTS],
            counts: [0; LISTS],
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
        self.counts[class as usize] += 1;
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
        self.counts[class as usize] -= 1;
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

    /// No connection has a place from here on: gives their room back.
    pub(crate) fn forget_from(&mut self, place: usize) {
        self.ranks.truncate(place);
        self.ranks.shrink_to_fit();
    }

    /// Whether one was found to wait for this side, and is kept out of the way until it is put
    /// back.
    pub(crate) fn is_waiting(&self, place: usize) -> bool {
        self.is_in(place, Class::Waiting)
    }

    /// Whether one stands in the list of this class.
    pub(crate) fn is_in(&self, place: usize, class: Class) -> bool {
        let rank = self.ranks.get(place);
        rank.is_some_and(|rank| rank.class == Some(class))
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
        let stale_ms = quiet_ms.max(STALE_MS);
        let orders = [
            (Class::Unused, Quiet::For(GETTING_ON_MS)),
            (Class::Crowd, Quiet::For(0)),
            (Class::Idle, Quiet::For(quiet_ms)),
            (Class::Bound, Quiet::WhereFewAreUnused),
            (Class::Unused, Quiet::For(0)),
            (Class::Waiting, Quiet::Never),
            (Class::Busy, Quiet::For(stale_ms)),
            (Class::Bound, Quiet::For(quiet_ms)),
            (Class::BoundBusy, Quiet::For(stale_ms)),
        ];
        // Each turn but the last moves one that is not where it belongs, once
        // for each change of it.
        'again: loop {
            for (class, quiet) in orders {
                let Some(place) = self.first(class) else {
                    continue;
                };
                let Some(now) = look(place) else {
                    self.take_out(place);
                    continue 'again;
                };
                let list = now.list(class);
                if list != class {
                    self.put(place, list);
                    continue 'again;
                }
                let quiet_ms = match quiet {
                    Quiet::For(ms) => ms,
                    Quiet::WhereFewAreUnused if self.has_few_unused() => quiet_ms.max(UNHEARD_MS),
                    Quiet::WhereFewAreUnused => continue,
                    // While such wait, nobody who carries anything is closed for a newcomer.
                    Quiet::Never => return None,
                };
                let since_ms = match class {
                    Class::Bound => now.heard_ms,
                    _ => now.carried_ms,
                };
                if since_ms.saturating_add(quiet_ms) <= now_ms {
                    return Some((place, class));
                }
            }
            return None;
        }
    }

    fn has_few_unused(&self) -> bool {
        let unused = [Class::Unused, Class::Crowd, Class::Waiting];
        let unused: usize = unused.map(|class| self.counts[class as usize]).iter().sum();
        let all: usize = self.counts.iter().sum();
        unused < (all / FEW_PART).max(FEW_MIN)
    }

    fn first(&self, class: Class) -> Option<usize> {
        let (head, _) = self.ends.get(class as usize)?;
        (*head != NIL).then_some(*head as usize)
    }

    fn rank(&mut self, place: u32) -> Option<&mut Rank> {
        self.ranks.get_mut(place as usize)
    }
}

#[cfg(test)]
mod tests;
