#![doc = include_str!("../README.md")]
//!
//! # How it works
//!
//! A deadline in ticks is read as digits of six bits. A timer hangs in the list
//! of the highest digit in which its deadline differs from the wheel's clock;
//! when the clock reaches that digit's value, the list is dealt out over the
//! lists of lower digits. So each timer moves at most once per digit, and the
//! first list in use of the lowest digit in use is always the next one due:
//! a bitmap per digit finds it at once, however far the clock jumps.
#![forbid(unsafe_code)]

mod nodes;

use invariant::broken;
use nodes::{NIL, Nodes};

/// Bits of a digit.
const DIGIT_BITS: u32 = 6;
/// Lists of a digit.
const LISTS: usize = 1 << DIGIT_BITS;
/// Digits enough for every `u64`.
const DIGITS: usize = 64usize.div_ceil(DIGIT_BITS as usize);

/// Names a timer. Once the timer fired or was cancelled the name is stale, and
/// a stale name is harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimerId {
    slot: u32,
    generation: u32,
}

impl TimerId {
    /// No timer.
    pub const NONE: Self = Self {
        slot: NIL,
        generation: 0,
    };
}

impl Default for TimerId {
    fn default() -> Self {
        Self::NONE
    }
}

/// First and last node of a list; [`NIL`] twice for an empty one.
#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
}

const EMPTY: List = List {
    head: NIL,
    tail: NIL,
};

/// Timers that each carry a `K`.
#[derive(Debug)]
pub struct Wheel<K> {
    tick_ms: u64,
    /// The clock, in ticks: all timers with deadlines up to it have fired.
    now_tick: u64,
    nodes: Nodes<K>,
    /// Every digit's lists, one digit after the other.
    lists: Box<[List]>,
    /// For each digit the lists in use, one bit each.
    used: [u64; DIGITS],
    /// The digits in use, one bit each.
    digits_used: u16,
}

impl<K: Copy> Wheel<K> {
    /// The tick of [`Wheel::new`].
    pub const TICK_MS: u64 = 10;

    /// An empty wheel with ticks of 10 ms. `now_ms` is where its clock stands.
    pub fn new(now_ms: u64) -> Self {
        Self::with_tick(now_ms, Self::TICK_MS)
    }

    /// An empty wheel with ticks of `tick_ms` (0 counts as 1).
    pub fn with_tick(now_ms: u64, tick_ms: u64) -> Self {
        let tick_ms = tick_ms.max(1);
        Self {
            tick_ms,
            now_tick: now_ms / tick_ms,
            nodes: Nodes::default(),
            lists: vec![EMPTY; DIGITS * LISTS].into_boxed_slice(),
            used: [0; DIGITS],
            digits_used: 0,
        }
    }

    /// Starts a timer. One whose deadline has passed fires at the next tick.
    /// Gives [`TimerId::NONE`] when 2^32 - 1 timers run already.
    pub fn start(&mut self, deadline_ms: u64, key: K) -> TimerId {
        let tick = deadline_ms
            .div_ceil(self.tick_ms)
            .max(self.now_tick.saturating_add(1));
        let list = self.list_of(tick);
        let Some((slot, generation)) = self.nodes.take(tick, key) else {
            return TimerId::NONE;
        };
        self.append(list, slot);
        TimerId { slot, generation }
    }

    /// Stops a timer; gives back what it carried, `None` for a stale name.
    pub fn cancel(&mut self, id: TimerId) -> Option<K> {
        let node = self.nodes.live(id.slot, id.generation)?;
        let (prev, next, list) = (node.prev, node.next, node.list);
        self.unlink(prev, next, list);
        self.nodes.free(id.slot)
    }

    /// Moves the clock and calls `fire` for each timer that is due, earlier
    /// ticks first. A clock that goes back is ignored.
    pub fn advance(&mut self, now_ms: u64, mut fire: impl FnMut(K)) {
        let target = now_ms / self.tick_ms;
        while let Some((digit, list, tick)) = self.next_list()
            && tick <= target
        {
            // The clock must stand at the list's beginning before its timers
            // are dealt out: their places are relative to the clock.
            self.now_tick = tick;
            let mut slot = self.take_list(digit, list);
            while let Some(node) = self.nodes.get(slot) {
                let (next, deadline) = (node.next, node.tick);
                if deadline <= tick {
                    match self.nodes.free(slot) {
                        Some(key) => fire(key),
                        None => broken!("a list names only timers that run"),
                    }
                } else {
                    let list = self.list_of(deadline);
                    self.append(list, slot);
                }
                slot = next;
            }
        }
        self.now_tick = self.now_tick.max(target);
    }

    /// When to call [`Wheel::advance`] next: never after the first timer's
    /// rounded deadline; for a timer that is far away sometimes before, so
    /// that its list is dealt out (at most ten times in its life).
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.next_list()
            .map(|(_, _, tick)| tick.saturating_mul(self.tick_ms))
    }

    /// How many timers run.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether no timer runs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory of the timers.
    pub const fn held_bytes(&self) -> usize {
        self.nodes.held_bytes()
    }

    /// Gives back memory that no timer has needed since the last call.
    pub fn trim(&mut self) {
        self.nodes.trim();
    }

    /// The list for a deadline later than the clock.
    fn list_of(&self, tick: u64) -> u16 {
        let differing = (tick ^ self.now_tick) | 1;
        let digit = (63 - differing.leading_zeros()) / DIGIT_BITS;
        let value = (tick >> (digit * DIGIT_BITS)) as usize % LISTS;
        // Below 11 * 64.
        (digit as usize * LISTS + value) as u16
    }

    /// The list that is due first: its digit, its value and its first tick.
    fn next_list(&self) -> Option<(usize, usize, u64)> {
        if self.digits_used == 0 {
            return None;
        }
        let digit = self.digits_used.trailing_zeros() as usize;
        let value = self.used.get(digit)?.trailing_zeros() as usize;
        let shift = digit as u32 * DIGIT_BITS;
        // All higher digits are the clock's, all lower ones zero.
        let higher = self.now_tick.checked_shr(shift + DIGIT_BITS).unwrap_or(0);
        let higher = higher.checked_shl(shift + DIGIT_BITS).unwrap_or(0);
        Some((digit, value, higher | ((value as u64) << shift)))
    }

    /// Empties a list and gives its first node.
    fn take_list(&mut self, digit: usize, value: usize) -> u32 {
        self.mark_unused(digit, value);
        match self.lists.get_mut(digit * LISTS + value) {
            Some(list) => std::mem::replace(list, EMPTY).head,
            None => broken!("a digit has a list for each of its values", NIL),
        }
    }

    fn append(&mut self, list: u16, slot: u32) {
        let (digit, value) = (list as usize / LISTS, list as usize % LISTS);
        let Some(ends) = self.lists.get_mut(list as usize) else {
            return broken!("a list's number is below the number of lists");
        };
        let last = ends.tail;
        ends.tail = slot;
        if last == NIL {
            ends.head = slot;
            match self.used.get_mut(digit) {
                Some(bits) => *bits |= 1 << value,
                None => broken!("a list belongs to one of the digits"),
            }
            self.digits_used |= 1 << digit;
        }
        match self.nodes.get_mut(slot) {
            Some(node) => (node.prev, node.next, node.list) = (last, NIL, list),
            None => broken!("only a timer that runs joins a list"),
        }
        if let Some(node) = self.nodes.neighbour_mut(last) {
            node.next = slot;
        }
    }

    fn unlink(&mut self, prev: u32, next: u32, list: u16) {
        if let Some(node) = self.nodes.neighbour_mut(prev) {
            node.next = next;
        }
        if let Some(node) = self.nodes.neighbour_mut(next) {
            node.prev = prev;
        }
        let Some(ends) = self.lists.get_mut(list as usize) else {
            return broken!("a list's number is below the number of lists");
        };
        if prev == NIL {
            ends.head = next;
        }
        if next == NIL {
            ends.tail = prev;
        }
        if ends.head == NIL {
            self.mark_unused(list as usize / LISTS, list as usize % LISTS);
        }
    }

    fn mark_unused(&mut self, digit: usize, value: usize) {
        let Some(bits) = self.used.get_mut(digit) else {
            return broken!("a list belongs to one of the digits");
        };
        *bits &= !(1 << value);
        if *bits == 0 {
            self.digits_used &= !(1 << digit);
        }
    }
}

#[cfg(test)]
mod tests;
