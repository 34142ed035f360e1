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
//! A stream that ends is taken out at once, and a source that was never read goes with its last
//! one: whoever opens streams, has them closed and opens others fills no table and makes nobody
//! wait.
//!
//! To put a stream in, to take one out and to take the next one take constant time, and nothing is
//! allocated while no more wait than did before.

use std::collections::HashMap;
use std::net::IpAddr;

use invariant::broken;
use mio::Token;
use slab::Slab;

use super::ready::token;
use super::turn::TURN_BYTES;
use crate::shared::READ_BYTES;
use crate::source::source;
use crate::stream::Conn;

/// What is read of a source before the next one has its turn: one read has it all, and may go
/// beyond what is left of it by less than that.
const PART_BYTES: isize = READ_BYTES as isize;
/// What a turn reads of sources of which nothing waited, while others wait.
const FRESH_BYTES: isize = (TURN_BYTES / 2) as isize;
/// What a read counts for at least in the part of its source, however little it brings.
const READ_COST_MIN: isize = 1_024;
/// No place.
const NIL: usize = usize::MAX;

/// The streams that wait to be read.
#[derive(Default)]
pub(super) struct WaitingStreams {
    streams: Slab<Waiting>,
    /// Those first that have waited for longest.
    by_time: Row,
    sources: Slab<Source>,
    by_source: HashMap<IpAddr, usize>,
    /// Sources of which nothing waited, and all others.
    fresh: Row,
    round: Row,
    /// What may be read of the first kind in this turn.
    fresh_left: isize,
    /// Of which source a stream was taken last, and whether it was of the first kind.
    taken: Option<(usize, bool)>,
}

/// A stream.
struct Waiting {
    token: Token,
    source: usize,
    in_time: Links,
    in_source: Links,
}

/// A source, with its streams.
struct Source {
    ip: IpAddr,
    streams: Row,
    in_row: Links,
    /// Whether it has ever had its turn.
    had_turn: bool,
    /// What may be read of it before others have their turn; what was read beyond that is owed.
    left: isize,
}

impl WaitingStreams {
    /// A stream has more to read: it comes behind all others of its source.
    pub(super) fn put(&mut self, conn: &mut Conn) {
        let at = self.put_in(token(conn.flow.conn), source(conn.flow.remote.ip()));
        match u32::try_from(at) {
            Ok(at) => conn.waits_at = Some(at),
            Err(_) => broken!("no more streams wait than there are connections"),
        }
    }

    /// A stream has ended: if it waits, it does so no more.
    pub(super) fn forget(&mut self, conn: &mut Conn) {
        if let Some(at) = conn.waits_at.take() {
            let token = self.take_out(at as usize);
            if token != Some(self::token(conn.flow.conn)) {
                broken!("a stream that waits is where it was put");
            }
        }
    }

    fn put_in(&mut self, token: Token, ip: IpAddr) -> usize {
        let of = match self.by_source.get(&ip) {
            Some(of) => *of,
            None => {
                let of = self.sources.insert(Source {
                    ip,
                    streams: Row::default(),
                    in_row: Links::default(),
                    had_turn: false,
                    left: PART_BYTES,
                });
                self.by_source.insert(ip, of);
                self.fresh.push(&mut self.sources, of, |of| &mut of.in_row);
                of
            }
        };
        let at = self.streams.insert(Waiting {
            token,
            source: of,
            in_time: Links::default(),
            in_source: Links::default(),
        });
        self.by_time
            .push(&mut self.streams, at, |at| &mut at.in_time);
        match self.sources.get_mut(of) {
            Some(source) => source
                .streams
                .push(&mut self.streams, at, |at| &mut at.in_source),
            None => broken!("a source that is found by its address is in the table"),
        }
        at
    }

    fn take_out(&mut self, at: usize) -> Option<Token> {
        let of = self.streams.get(at)?.source;
        self.by_time
            .take_out(&mut self.streams, at, |at| &mut at.in_time);
        let Some(source) = self.sources.get_mut(of) else {
            return broken!("the source of a stream that waits is in the table", None);
        };
        source
            .streams
            .take_out(&mut self.streams, at, |at| &mut at.in_source);
        if source.streams.is_empty() && !source.had_turn {
            self.by_source.remove(&source.ip);
            self.fresh
                .take_out(&mut self.sources, of, |of| &mut of.in_row);
            self.sources.remove(of);
        }
        self.streams.try_remove(at).map(|waiting| waiting.token)
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
            let of = row.first()?;
            let Some(source) = self.sources.get_mut(of) else {
                return broken!("a source that has its turn is in the table", None);
            };
            let had_part = source.left <= 0;
            if !had_part && let Some(first) = source.streams.first() {
                source.had_turn = true;
                self.taken = Some((of, is_fresh));
                return self.take_out(first);
            }
            if had_part {
                source.left += PART_BYTES;
            }
            let ip = source.ip;
            row.take_out(&mut self.sources, of, |of| &mut of.in_row);
            if had_part || is_fresh {
                self.round.push(&mut self.sources, of, |of| &mut of.in_row);
            } else {
                self.by_source.remove(&ip);
                self.sources.remove(of);
            }
        }
    }

    /// So many bytes were read of the stream that was taken last.
    pub(super) fn was_read(&mut self, bytes: usize) {
        let Some((of, is_fresh)) = self.taken.take() else {
            return broken!("what was read was taken before");
        };
        let cost = isize::try_from(bytes)
            .unwrap_or(isize::MAX)
            .max(READ_COST_MIN);
        match self.sources.get_mut(of) {
            Some(source) => source.left = source.left.saturating_sub(cost),
            None => broken!("a source stays until its turn is over"),
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
        let get = |at| self.streams.get(at);
        let first = self.by_time.first().and_then(get);
        let all = std::iter::successors(first, move |waiting| get(waiting.in_time.after));
        all.map(|waiting| waiting.token)
    }
}

/// Some of those in a table, in order: each has its neighbours in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    first: usize,
    last: usize,
}

/// The neighbours in a row.
#[derive(Clone, Copy, Debug)]
struct Links {
    before: usize,
    after: usize,
}

impl Default for Row {
    fn default() -> Self {
        Self {
            first: NIL,
            last: NIL,
        }
    }
}

impl Default for Links {
    fn default() -> Self {
        Self {
            before: NIL,
            after: NIL,
        }
    }
}

impl Row {
    fn first(&self) -> Option<usize> {
        (self.first != NIL).then_some(self.first)
    }

    fn is_empty(&self) -> bool {
        self.first == NIL
    }

    /// Puts one of the table at the end.
    fn push<T>(&mut self, table: &mut Slab<T>, here: usize, links: fn(&mut T) -> &mut Links) {
        let before = std::mem::replace(&mut self.last, here);
        match table.get_mut(before) {
            Some(before) => links(before).after = here,
            None => self.first = here,
        }
        match table.get_mut(here) {
            Some(here) => links(here).before = before,
            None => broken!("what is put in a row is in its table"),
        }
    }

    /// Takes one out that is in it.
    fn take_out<T>(&mut self, table: &mut Slab<T>, here: usize, links: fn(&mut T) -> &mut Links) {
        let Some(here) = table.get_mut(here) else {
            return broken!("what is in a row is in its table");
        };
        let Links { before, after } = std::mem::take(links(here));
        match table.get_mut(before) {
            Some(before) => links(before).after = after,
            None => self.first = after,
        }
        match table.get_mut(after) {
            Some(after) => links(after).before = before,
            None => self.last = before,
        }
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
        waiting.put_in(Token(number), ip(source));
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

    /// Else whoever opens streams and has them closed fills the table, and whoever is behind the
    /// same address waits for as many.
    #[test]
    fn of_streams_that_have_ended_nothing_is_kept_and_nobody_waits_for_them() {
        let mut waiting = WaitingStreams::default();
        put_all(&mut waiting, [1_000, 1_001]);
        for number in 0..100_000 {
            // Of a source that sends without end, and of sources that come and go.
            for source in [1, number] {
                let at = waiting.put_in(Token(number), ip(source as u32));
                assert_eq!(waiting.take_out(at), Some(Token(number)));
            }
        }
        assert_eq!((waiting.streams.len(), waiting.streams.capacity()), (2, 4));
        assert_eq!((waiting.sources.len(), waiting.by_source.len()), (1, 1));
        assert_eq!(turn(&mut waiting, endless), [1_000, 1_001]);
    }

    /// Else it would be new each time, and come before all others.
    #[test]
    fn a_source_that_has_its_streams_closed_after_its_turn_is_not_new_for_that() {
        let mut waiting = WaitingStreams::default();
        put_all(&mut waiting, [1_000, 2_000, 3_000]);
        (0..3).for_each(|_| drop(turn(&mut waiting, endless)));
        put(&mut waiting, 4_000);
        assert_eq!(turn(&mut waiting, |_| FULL)[0], 4_000);
        let at = waiting.put_in(Token(4_001), ip(4));
        waiting.take_out(at);
        put(&mut waiting, 4_002);
        assert_ne!(turn(&mut waiting, endless)[0], 4_002);
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
        let mut places = HashMap::new();
        for nth in 0..20_000 {
            let what = random(5);
            if what < 2 {
                // Each once, and of twenty sources.
                let number = random(20) * 1_000_000 + nth;
                let at = waiting.put_in(Token(number), ip(number as u32 / 1_000_000));
                held.push(number);
                places.insert(number, at);
            } else if what == 2 && !held.is_empty() {
                let number = held.remove(random(held.len() as u32));
                assert_eq!(waiting.take_out(places[&number]), Some(Token(number)));
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
            assert_eq!(waiting.streams.len(), held.len());
            assert_eq!(waiting.is_empty(), held.is_empty());
        }
        while waiting.take_next().is_some() {}
        assert!(waiting.sources.is_empty() && waiting.by_source.is_empty());
        let rows = [waiting.fresh, waiting.round, waiting.by_time];
        assert_eq!(rows, [Row::default(); 3]);
    }
}
