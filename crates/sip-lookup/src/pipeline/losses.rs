//! What is done with a statement that has no answer: what of it is asked again, and what it says of
//! its names and of its store.

use std::hash::BuildHasher;

use invariant::broken;
use slots::Name;

use super::answers::{NO_ADVICE, TIMED_OUT, UNREACHABLE, some_of};
use super::table::{Again, Line, What};
use super::{Flight, Pipeline};

/// How often a look-up whose batch was lost is asked again.
const RETRIES: u8 = 1;
/// Statements refused in a row, after which it is not their rows: they are not asked again
/// in parts.
const REFUSALS_MAX: u32 = 128;
/// Parts into which a refused statement is taken, and the rows up to which each row is asked
/// alone. One name in 256 is found by twenty statements within three round trips; halves would
/// take six fewer and four round trips more.
const PARTS: usize = 8;
const APART_MAX: usize = 4;
/// What taking a lost statement apart costs, and what there is for that at most; each answer adds
/// one. A name spoils one part of eight, at the end one row of four. Where more is lost, the store
/// is away or slow: in parts it would have more to do, and no more would be answered.
const PARTS_COST: u32 = 3;
pub(super) const PARTS_CREDIT_MAX: u32 = 12;
/// The same where the store ended its connections over a statement: there is more for that, since
/// nobody waits for long. But it is not paid for by the answers of the four rows of a small one: who
/// answers single rows and nothing larger is not asked for ever for each row by itself.
const ENDED_COST: u32 = 4;
pub(super) const ENDED_CREDIT_MAX: u32 = 64;

impl<T> Pipeline<T> {
    /// A statement was lost: its rows are asked again, perhaps of another replica, in parts where a
    /// name among them may be why. A digest that timed out is not: a store that has seen it and
    /// counts nonces would take it for one that somebody sends again, and say that it is wrong.
    /// Where the way to a store is known to be closed it is: most of what was under way there has
    /// not been seen. Nor is a name that is taken never to be answered, where again it was not: that
    /// says nothing of the store.
    pub(super) fn lost(&mut self, now_us: u64, flight: &Flight, kind: usize) {
        if let Some(count) = self.figures.failures.get_mut(kind) {
            *count += 1;
        }
        if let Some(what) = some_of(&self.table, flight) {
            self.probe.sent(what);
        }
        let in_time = kind != TIMED_OUT;
        let may_be_of_a_name = matches!(kind, UNREACHABLE | TIMED_OUT);
        match flight.is_hung && may_be_of_a_name {
            true => self.replicas.doubt(flight.replica, flight.sent_us),
            false => self
                .replicas
                .failed(now_us, flight.replica, flight.sent_us, in_time),
        }
        let retries = match !in_time && (flight.is_verify || flight.is_hung) {
            true => 0,
            false => RETRIES,
        };
        if may_be_of_a_name {
            self.suspect(now_us, flight);
        }
        let may = may_be_of_a_name && self.has_parts(flight);
        let is_apart = may && is_spent(&mut self.parts_credit, PARTS_COST);
        self.ask_all_again(now_us, flight, is_apart, retries);
        self.note_outage(now_us);
    }

    /// A store ended the connection over a statement, twice, and answered another between: it is
    /// there. A row that was alone is what it does not bear. What had several is asked in parts as
    /// long as that is answered: whatever ends all but the smallest is not asked everything again.
    /// One that ends all is tried with a user who was found: over him it is no stranger's name.
    /// Where none was found yet, another that stands by is asked, at no cost to anybody.
    pub(super) fn ended(&mut self, now_us: u64, flight: &Flight) {
        if flight.probe.is_some() {
            return self.lost(now_us, flight, UNREACHABLE);
        }
        let ends_all = self.replicas.ends_all(flight.replica);
        if ends_all && !self.probe.has_found() && self.replicas.has_stand_in(flight.replica) {
            return self.lost(now_us, flight, UNREACHABLE);
        }
        self.figures.failures[UNREACHABLE] += 1;
        self.replicas.ended(now_us, flight.replica);
        if ends_all && self.probe.has_found() {
            self.replicas.suspect(flight.replica);
        }
        let is_single = flight.names().len() == 1;
        if is_single && let Some(What::Secrets(subject)) = some_of(&self.table, flight) {
            let hash = self.hash.hash_one(subject);
            self.suspects.note(now_us, hash, Line::Apart);
        }
        let retries = match is_single {
            true => 0,
            false => RETRIES,
        };
        let is_apart = self.has_parts(flight) && is_spent(&mut self.ended_credit, ENDED_COST);
        self.ask_all_again(now_us, flight, is_apart, retries);
        self.note_outage(now_us);
    }

    /// Whether a refusal shows that a replica is of no use: it refuses a user who was found, over
    /// whom it is no stranger's name. Where none was found yet and another stands by, that one is
    /// asked instead of one that has refused all of late, at no cost to anybody.
    pub(super) fn is_of_no_use(&self, flight: &Flight) -> bool {
        match &flight.probe {
            Some(rows) => self.probe.is_found(rows),
            None => {
                self.replicas.refuses_all(flight.replica)
                    && !self.probe.has_found()
                    && self.replicas.has_stand_in(flight.replica)
            }
        }
    }

    /// Whether a statement that is asked again can be taken apart.
    fn has_parts(&self, flight: &Flight) -> bool {
        let names = flight.names();
        names.len() > 1 && names.iter().any(|&name| self.table.waiting(name) > 0)
    }

    /// Has the rows of a statement asked again, in parts where it is taken apart. The last first, so
    /// that putting each in front of a queue keeps their order.
    fn ask_all_again(&mut self, now_us: u64, flight: &Flight, is_apart: bool, retries: u8) {
        if is_apart {
            self.set_parts(flight);
        }
        let retries = if is_apart { u8::MAX } else { retries };
        for name in flight.names().into_iter().rev() {
            self.ask_again(now_us, name, retries);
        }
    }

    /// What was lost in a part of a statement that was lost, or alone after that, may be why: it
    /// is asked alone for a while. Its time may be over before it is found out which. A part says
    /// nothing where all is lost.
    fn suspect(&mut self, now_us: u64, flight: &Flight) {
        let is_single = flight.rows == 1;
        let is_there = self
            .replicas
            .has_spoken_since(flight.replica, flight.sent_us);
        let line = match is_single {
            true => Line::Hung,
            false => Line::Apart,
        };
        for &name in &flight.lookups {
            if let Some(lookup) = self.table.lookups.get(name)
                && let What::Secrets(subject) = &lookup.what
                && match is_single {
                    true => lookup.line > Line::Shared || lookup.failures > 0,
                    false => lookup.part.is_some() && is_there,
                }
            {
                self.suspects
                    .note(now_us, self.hash.hash_one(subject), line);
                self.table.move_to(name, line);
            }
        }
    }

    /// Has the rows of a statement go in parts the next time, those of a small one each alone. Who
    /// waited for it without a row has his place among them.
    fn set_parts(&mut self, flight: &Flight) {
        let mut names = flight.names();
        names.retain(|&name| self.table.waiting(name) > 0);
        let part_rows = part_rows(names.len());
        let parts = self.table.new_parts(names.len().div_ceil(part_rows));
        for (nth, name) in names.into_iter().enumerate() {
            self.table.move_to(name, Line::Apart);
            if let Some(lookup) = self.table.lookups.get_mut(name) {
                lookup.part = (part_rows > 1).then(|| parts + (nth / part_rows) as u64);
            }
        }
    }

    /// Has a look-up asked again, unless it has been so often.
    fn ask_again(&mut self, now_us: u64, name: Name, retries: u8) {
        let Some(lookup) = self.table.lookups.get_mut(name) else {
            return;
        };
        let may = lookup.failures < retries;
        lookup.failures = lookup.failures.saturating_add(1);
        // Nobody waits for it any more, or nobody ever did.
        if self.table.waiting(name) == 0 {
            return self.give_up(now_us, name, NO_ADVICE);
        }
        match self.table.again(name, may) {
            Again::Merged => {}
            Again::Queued => self.figures.retried += 1,
            Again::Over => {
                let why = self.away(now_us);
                self.give_up(now_us, name, why);
            }
        }
    }

    /// A store will not answer this statement. Its rows are asked in parts, and the rows of a
    /// small one each alone, so that whoever sends a name that the store does not like makes few
    /// statements of one. A row that was alone is what it does not like, and the next of that
    /// name is asked alone. One that is to be asked alone may be in a statement with others all
    /// the same, where it was joined to a later question: that says nothing of it. Where the
    /// store may answer the same statement the next time (`may_do`), a row that was alone is asked
    /// for once more.
    pub(super) fn refused(&mut self, now_us: u64, flight: &Flight, may_do: bool) {
        if flight.probe.is_some() {
            return;
        }
        self.refusals_in_row = self.refusals_in_row.saturating_add(1);
        let names = flight.names();
        let is_split = names.len() > 1 && self.refusals_in_row <= REFUSALS_MAX;
        if is_split {
            self.set_parts(flight);
        }
        for name in names.into_iter().rev() {
            let is_single = flight.lookups == [name];
            let Some(lookup) = self.table.lookups.get_mut(name) else {
                continue;
            };
            if is_single && may_do && !flight.is_verify && lookup.failures < RETRIES {
                lookup.failures += 1;
                if self.table.waiting(name) > 0 {
                    self.figures.retried +=
                        u64::from(self.table.again(name, true) == Again::Queued);
                    continue;
                }
            }
            let Some(lookup) = self.table.lookups.get(name) else {
                broken!("a look-up that was found is there");
                continue;
            };
            if is_single && let What::Secrets(subject) = &lookup.what {
                let hash = self.hash.hash_one(subject);
                self.suspects.note(now_us, hash, Line::Apart);
            }
            if !is_split || self.table.waiting(name) == 0 {
                self.give_up(now_us, name, NO_ADVICE);
                continue;
            }
            self.figures.retried += u64::from(self.table.again(name, true) == Again::Queued);
        }
    }
}

/// Takes a cost from a credit, where there is so much.
fn is_spent(credit: &mut u32, cost: u32) -> bool {
    let left = credit.checked_sub(cost);
    *credit = left.unwrap_or(*credit);
    left.is_some()
}

/// The rows of each part of a statement that is asked again in parts.
pub const fn part_rows(rows: usize) -> usize {
    match rows <= APART_MAX {
        true => 1,
        false => rows.div_ceil(PARTS),
    }
}
