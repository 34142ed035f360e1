//! Streams with more to read than a turn allows, and which of them is read next.
//!
//! Sources take turns, and of each source its streams do, in the order in which they came: whoever
//! sends without end on many connections is read no more often than with one. A source is read
//! until it has had its part, as in deficit round robin, so that a hundred phones behind one
//! address with a message each need no hundred rounds.
//!
//! A source of which nothing waited comes before those of which something does, for half of what
//! a turn reads (as in FQ-CoDel, RFC 8290 4.2): a phone with one message does not wait for a
//! round of all that send without end. What is read to its end keeps its place in the round until
//! it comes to it: else whoever pauses would be new each time.
//!
//! To put a stream in and to take the next one take constant time, and nothing is allocated while
//! no more wait than did before.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use invariant::broken;
use mio::Token;
use slab::Slab;

use super::turn::TURN_BYTES;
use crate::shared::READ_BYTES;

/// What is read of a source before the next one has its turn: one read has it all, and may go
/// beyond what is left of it by less than that.
const PART_BYTES: isize = READ_BYTES as isize;
/// What a turn reads of sources of which nothing waited, while others wait.
const FRESH_BYTES: isize = (TURN_BYTES / 2) as isize;
/// What a read counts for at least, however little it brings.
const READ_COST_MIN: isize = 1_024;
/// No place.
const NIL: usize = usize::MAX;

/// The streams that wait to be read.
pub(super) struct WaitingStreams {
    streams: Slab<Waiting>,
    /// Those that have waited for longest and for shortest.
    longest: usize,
    shortest: usize,
    sources: Slab<Source>,
    by_source: HashMap<IpAddr, usize>,
    /// Sources of which nothing waited, and all others.
    fresh: VecDeque<usize>,
    round: VecDeque<usize>,
    /// What may be read of the first kind in this turn.
    fresh_left: isize,
    /// Of which source a stream was taken last, and whether it was of the first kind.
    taken: (usize, bool),
}

/// A stream, with its neighbours in order of time and the next one of its source.
struct Waiting {
    token: Token,
    longer: usize,
    shorter: usize,
    next: usize,
}

/// A source, with its first stream and its last.
struct Source {
    ip: IpAddr,
    first: usize,
    last: usize,
    /// What may be read of it before others have their turn; what was read beyond that is owed.
    left: isize,
}

impl Default for WaitingStreams {
    fn default() -> Self {
        Self {
            streams: Slab::new(),
            longest: NIL,
            shortest: NIL,
            sources: Slab::new(),
            by_source: HashMap::new(),
            fresh: VecDeque::new(),
            round: VecDeque::new(),
            fresh_left: FRESH_BYTES,
            taken: (NIL, false),
        }
    }
}

impl WaitingStreams {
    /// A stream has more to read: it comes behind all others of its source.
    pub(super) fn put(&mut self, token: Token, source: IpAddr) {
        let of = match self.by_source.get(&source) {
            Some(of) => *of,
            None => {
                let of = self.sources.insert(Source {
                    ip: source,
                    first: NIL,
                    last: NIL,
                    left: PART_BYTES,
                });
                self.by_source.insert(source, of);
                self.fresh.push_back(of);
                of
            }
        };
        let longer = self.shortest;
        let here = self.streams.insert(Waiting {
            token,
            longer,
            shorter: NIL,
            next: NIL,
        });
        self.shortest = here;
        match self.streams.get_mut(longer) {
            Some(longer) => longer.shorter = here,
            None => self.longest = here,
        }
        let Some(source) = self.sources.get_mut(of) else {
            return broken!("a source that is found by its address is in the table");
        };
        let last = std::mem::replace(&mut source.last, here);
        match self.streams.get_mut(last) {
            Some(last) => last.next = here,
            None => source.first = here,
        }
    }

    /// A turn begins.
    pub(super) fn begin_turn(&mut self) {
        self.fresh_left = FRESH_BYTES;
    }

    /// Takes the stream that is read next.
    pub(super) fn take_next(&mut self) -> Option<Token> {
        loop {
            let is_fresh = !self.fresh.is_empty() && (self.fresh_left > 0 || self.round.is_empty());
            let row = match is_fresh {
                true => &mut self.fresh,
                false => &mut self.round,
            };
            let of = *row.front()?;
            let Some(source) = self.sources.get_mut(of) else {
                row.pop_front();
                broken!("a source that has its turn is in the table");
                continue;
            };
            if source.left <= 0 {
                source.left += PART_BYTES;
                row.pop_front();
                self.round.push_back(of);
            } else if source.first != NIL {
                self.taken = (of, is_fresh);
                return self.take_first_of(of);
            } else {
                row.pop_front();
                if is_fresh {
                    self.round.push_back(of);
                } else {
                    self.by_source.remove(&source.ip);
                    self.sources.remove(of);
                }
            }
        }
    }

    /// So many bytes were read of the stream that was taken last.
    pub(super) fn was_read(&mut self, bytes: usize) {
        let (of, is_fresh) = self.taken;
        let cost = isize::try_from(bytes)
            .unwrap_or(isize::MAX)
            .max(READ_COST_MIN);
        if let Some(source) = self.sources.get_mut(of) {
            source.left = source.left.saturating_sub(cost);
        }
        if is_fresh {
            self.fresh_left = self.fresh_left.saturating_sub(cost);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// All of them, those first that have waited for longest.
    pub(super) fn by_time(&self) -> impl Iterator<Item = Token> + '_ {
        let first = self.streams.get(self.longest);
        let all = std::iter::successors(first, |waiting| self.streams.get(waiting.shorter));
        all.map(|waiting| waiting.token)
    }

    fn take_first_of(&mut self, of: usize) -> Option<Token> {
        let source = self.sources.get_mut(of)?;
        let Some(waiting) = self.streams.try_remove(source.first) else {
            return broken!("the first stream of a source is in the table", None);
        };
        source.first = waiting.next;
        if waiting.next == NIL {
            source.last = NIL;
        }
        match self.streams.get_mut(waiting.longer) {
            Some(longer) => longer.shorter = waiting.shorter,
            None => self.longest = waiting.shorter,
        }
        match self.streams.get_mut(waiting.shorter) {
            Some(shorter) => shorter.longer = waiting.longer,
            None => self.shortest = waiting.longer,
        }
        Some(waiting.token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: usize = READ_BYTES;

    fn ip(number: u32) -> IpAddr {
        IpAddr::from(number.to_be_bytes())
    }

    /// Streams that are named by numbers: of each source a thousand.
    fn put(waiting: &mut WaitingStreams, number: usize) {
        let source = u32::try_from(number / 1_000).unwrap_or(0);
        waiting.put(Token(number), ip(source));
    }

    fn put_all(waiting: &mut WaitingStreams, numbers: impl IntoIterator<Item = usize>) {
        for number in numbers {
            put(waiting, number);
        }
    }

    /// What a turn reads, where each stream has so much; those that are full wait again.
    fn turn(waiting: &mut WaitingStreams, has: impl Fn(usize) -> usize) -> Vec<usize> {
        let (mut read, mut left) = (Vec::new(), TURN_BYTES);
        waiting.begin_turn();
        while left > 0
            && let Some(Token(number)) = waiting.take_next()
        {
            let bytes = has(number).min(FULL);
            waiting.was_read(bytes);
            left = left.saturating_sub(bytes);
            read.push(number);
        }
        for number in &read {
            if has(*number) > FULL {
                put(waiting, *number);
            }
        }
        read
    }

    fn endless(_: usize) -> usize {
        usize::MAX
    }

    #[test]
    fn streams_of_one_source_take_turns() {
        let mut waiting = WaitingStreams::default();
        put_all(&mut waiting, 0..5);
        let turns = [0; 5].map(|_| turn(&mut waiting, endless));
        assert_eq!(turns, [[0, 1], [2, 3], [4, 0], [1, 2], [3, 4]]);
    }

    #[test]
    fn sources_take_turns_however_many_streams_one_has() {
        let mut waiting = WaitingStreams::default();
        put_all(&mut waiting, 1_000..1_900);
        turn(&mut waiting, endless);
        put_all(&mut waiting, [2_000, 3_000]);
        let mut read = Vec::new();
        (0..30).for_each(|_| read.extend(turn(&mut waiting, endless)));
        let of = |source| read.iter().filter(move |number| **number / 1_000 == source);
        for source in 1..=3 {
            assert!((19..=21).contains(&of(source).count()), "{source}");
        }
    }

    /// Else a hundred phones behind an address need as many rounds as who sends without end.
    #[test]
    fn a_source_is_read_until_it_has_had_its_part() {
        let mut waiting = WaitingStreams::default();
        let has = |number: usize| match number {
            2_000..3_000 => 600,
            _ => usize::MAX,
        };
        put_all(&mut waiting, [1_000, 3_000, 4_000]);
        (0..3).for_each(|_| drop(turn(&mut waiting, has)));
        put_all(&mut waiting, 2_000..2_200);
        let mut phones = 0;
        for _ in 0..10 {
            let read = turn(&mut waiting, has);
            phones += read.iter().filter(|number| has(**number) == 600).count();
        }
        // 64 in each round: the least that a read counts for goes so often into a part.
        assert_eq!(phones, 200);
    }

    #[test]
    fn who_had_nothing_waiting_comes_before_those_who_send_without_end() {
        let mut waiting = WaitingStreams::default();
        let has = |number: usize| match number {
            500_000.. => 600,
            _ => usize::MAX,
        };
        put_all(&mut waiting, (1..400).map(|source| source * 1_000));
        (0..400).for_each(|_| drop(turn(&mut waiting, has)));
        put(&mut waiting, 500_000);
        assert_eq!(turn(&mut waiting, has)[0], 500_000);
        // Not a second time before each of the others has had its turn.
        put(&mut waiting, 500_000);
        let mut turns = 1;
        while !turn(&mut waiting, has).contains(&500_000) {
            turns += 1;
        }
        assert!((190..=210).contains(&turns), "{turns}");
    }

    /// Else whoever comes from a new address each time would have all turns.
    #[test]
    fn those_who_had_nothing_waiting_have_half_of_a_turn() {
        let mut waiting = WaitingStreams::default();
        let has = |number: usize| match number {
            1_000..2_000 => usize::MAX,
            _ => FULL,
        };
        put_all(&mut waiting, [1_000, 1_001]);
        turn(&mut waiting, has);
        put_all(&mut waiting, (2..100).map(|source| source * 1_000));
        for newcomer in 2..50 {
            let read = turn(&mut waiting, has);
            let sources: Vec<_> = read.iter().map(|number| number / 1_000).collect();
            assert_eq!(sources, [newcomer, 1]);
        }
        // Where nobody else waits they have all of it.
        let mut waiting = WaitingStreams::default();
        put_all(&mut waiting, [1_000, 2_000, 3_000]);
        assert_eq!(turn(&mut waiting, endless).len(), 2);
    }

    #[test]
    fn they_are_told_in_order_of_time_and_nothing_is_kept_of_who_is_gone() {
        let mut waiting = WaitingStreams::default();
        let mut seed = 12_345u32;
        let mut random = |below: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((seed >> 8) % below) as usize
        };
        let mut held: Vec<usize> = Vec::new();
        for nth in 0..20_000 {
            if random(2) == 0 {
                // Each once, and of twenty sources.
                let number = random(20) * 1_000_000 + nth;
                waiting.put(Token(number), ip(number as u32 / 1_000_000));
                held.push(number);
            } else if let Some(Token(number)) = waiting.take_next() {
                waiting.was_read(random(2 * FULL as u32).min(FULL));
                let of_source = |other: &usize| other / 1_000_000 == number / 1_000_000;
                assert_eq!(held.iter().copied().find(of_source), Some(number));
                held.retain(|other| *other != number);
                waiting.begin_turn();
            } else {
                assert!(held.is_empty());
            }
            assert!(
                waiting
                    .by_time()
                    .map(|token| token.0)
                    .eq(held.iter().copied())
            );
            assert_eq!(waiting.is_empty(), held.is_empty());
        }
        while waiting.take_next().is_some() {}
        assert!(waiting.sources.is_empty() && waiting.by_source.is_empty());
        assert!(waiting.fresh.is_empty() && waiting.round.is_empty());
        assert_eq!((waiting.longest, waiting.shortest), (NIL, NIL));
    }
}
