//! What stores say, and what is done where they do not.

use std::hash::BuildHasher;

use sip_auth::{Algorithm, Reply, Secrets, Subject};
use slots::Name;

use super::probe::rows_of;
use super::table::{Again, Line, Table, What};
use super::{Flight, Passenger, Pipeline, REFRESHES_PER_TICK, TICK_US};
use crate::question::{BatchAnswer, BatchFailure, BatchId, Row, Unavailable};
use crate::tuner::Sample;

/// The places of the kinds of failures among the figures.
const UNREACHABLE: usize = 0;
const REFUSED: usize = 1;
const TIMED_OUT: usize = 2;
const GARBLED: usize = 3;
const LOG_IN_REFUSED: usize = 4;
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
const NO_ADVICE: Unavailable = Unavailable {
    retry_after_s: None,
};

impl<T> Pipeline<T> {
    /// A store has answered. What does not answer a statement in flight row by row is
    /// counted and thrown away.
    pub fn handle_answer(&mut self, now_us: u64, id: BatchId, answer: BatchAnswer) {
        let Some(flight) = self.land(id) else {
            self.figures.unasked += 1;
            return;
        };
        self.replicas.heard(now_us, flight.replica);
        self.note_outage(now_us);
        let is_whole = match &answer {
            BatchAnswer::Rows(rows) => !flight.is_verify && rows.len() == flight.rows,
            BatchAnswer::Verified(_) => flight.is_verify,
        };
        if !is_whole {
            self.figures.failures[GARBLED] += 1;
            self.refused(now_us, &flight, false);
            return;
        }
        self.replicas.answered(flight.replica);
        if let Some(rows) = flight.probe {
            self.probe.answered(rows);
            return;
        }
        self.refusals_in_row = 0;
        self.parts_credit = (self.parts_credit + 1).min(PARTS_CREDIT_MAX);
        self.ended_credit = (self.ended_credit + 1).min(ENDED_CREDIT_MAX);
        if let Some(what) = some_of(&self.table, &flight) {
            self.probe.answered(rows_of(what));
        }
        if flight.is_hung
            && let Some(What::Secrets(subject)) = some_of(&self.table, &flight)
        {
            self.suspects.answered(self.hash.hash_one(subject));
        }
        self.figures.answered += 1;
        self.figures.round_trip_us += now_us.saturating_sub(flight.sent_us);
        self.tuner.handle_answer(
            now_us,
            &Sample {
                sent_us: flight.sent_us,
                rows: flight.rows,
                is_single: flight.is_verify,
            },
        );
        let begun = self.answers.len();
        match answer {
            BatchAnswer::Rows(rows) => {
                for (&name, row) in flight.lookups.iter().zip(rows) {
                    self.take_row(now_us, name, &row);
                }
                self.land_passengers(now_us, &flight);
            }
            BatchAnswer::Verified(is_right) => {
                for &name in &flight.lookups {
                    self.settle(now_us, name, |_| Reply::Verified(is_right));
                }
            }
        }
        // Looked-up names come before those known not to exist: that is nobody's business.
        if let Some(answered) = self.answers.make_contiguous().get_mut(begun..) {
            answered.sort_by_key(|answer| answer.nth);
        }
    }

    /// A statement has no answer. One that was given up, or answered, is counted only.
    pub fn handle_failure(&mut self, now_us: u64, id: BatchId, failure: BatchFailure) {
        let Some(flight) = self.land(id) else {
            self.figures.unasked += 1;
            return;
        };
        match failure {
            // One that breaks everything off is of no more use than one that is away, and is not
            // back where it breaks off what it is tried with.
            BatchFailure::Cancelled(_) if self.replicas.breaks_all_off(flight.replica) => {
                self.lost(now_us, &flight, REFUSED);
            }
            BatchFailure::Refused(_) | BatchFailure::Cancelled(_) => {
                self.figures.failures[REFUSED] += 1;
                self.replicas.heard(now_us, flight.replica);
                self.note_outage(now_us);
                let may_do = matches!(failure, BatchFailure::Cancelled(_));
                if may_do {
                    self.replicas.broke_off(flight.replica);
                }
                self.refused(now_us, &flight, may_do);
            }
            BatchFailure::Ended(_) => self.ended(now_us, &flight),
            BatchFailure::Unreachable(_) => self.lost(now_us, &flight, UNREACHABLE),
            BatchFailure::LogInRefused(_) => self.lost(now_us, &flight, LOG_IN_REFUSED),
            BatchFailure::Unusable(_) => self.lost(now_us, &flight, REFUSED),
            BatchFailure::TimedOut => self.lost(now_us, &flight, TIMED_OUT),
        }
    }

    /// Does what is due at `now_us`: answers those whose time is up, gives statements up,
    /// and sees what the cache wants renewed.
    pub fn handle_timeout(&mut self, now_us: u64) {
        let cache = self.cache.clone();
        let dropped = |subject: &Subject| {
            if let Some(cache) = &cache {
                cache.refresh_failed(subject);
            }
        };
        let expired = self.table.expire(now_us, &mut self.answers, dropped);
        self.figures.expired_unasked += expired.unasked;
        self.figures.expired += expired.asked;
        while let Some((&id, flight)) = self.flights.first_key_value()
            && now_us >= self.times_out_us(flight)
        {
            self.given_up.push_back(id);
            if let Some(flight) = self.land(id) {
                self.lost(now_us, &flight, TIMED_OUT);
            }
        }
        if now_us >= self.next_tick_us {
            self.next_tick_us = now_us.saturating_add(TICK_US);
            self.fetch_refreshes(now_us);
        }
    }

    fn land(&mut self, id: BatchId) -> Option<Flight> {
        let flight = self.flights.remove(&id)?;
        match flight.probe.is_some() {
            true => self.replicas.end_probe(flight.replica),
            false => self.in_flight -= 1,
        }
        Some(flight)
    }

    /// A row, for those who wait for it and for the cache. Nobody may wait any more, or a
    /// later row may have answered them: then it counts for nothing.
    fn take_row(&mut self, now_us: u64, name: Name, row: &Row) {
        let Some(lookup) = self.table.lookups.get(name) else {
            return;
        };
        let What::Secrets(subject) = &lookup.what else {
            return;
        };
        match row {
            Ok(secrets) => {
                if let Some(cache) = &self.cache {
                    cache.fill(now_us, subject, lookup.ticket, secrets.as_ref());
                }
                let secrets = secrets.as_ref();
                self.settle(now_us, name, |algorithm| reply(secrets, algorithm));
            }
            Err(_) => {
                self.figures.bad_rows += 1;
                self.give_up(now_us, name, NO_ADVICE);
            }
        }
    }

    /// Names that do not exist were not in the statement. Where that may have changed since
    /// it left, they are asked for.
    fn land_passengers(&mut self, now_us: u64, flight: &Flight) {
        for &Passenger { name, ticket, .. } in &flight.passengers {
            let Some(lookup) = self.table.lookups.get_mut(name) else {
                continue;
            };
            let (What::Secrets(subject), Some(cache)) = (&lookup.what, &self.cache) else {
                continue;
            };
            if cache.ticket(subject) == ticket {
                self.settle(now_us, name, |_| Reply::Unknown);
            } else {
                lookup.failures += 1;
                self.table.again(name, true);
            }
        }
    }

    fn settle(&mut self, now_us: u64, name: Name, reply: impl Fn(Algorithm) -> Reply) {
        let answers = &mut self.answers;
        let reply = |algorithm| Ok(reply(algorithm));
        let settled = self.table.settle(now_us, name, reply, answers);
        self.figures.overtaken += settled.overtaken;
        self.figures.expired += settled.late;
    }

    /// Ends a look-up without an answer.
    fn give_up(&mut self, now_us: u64, name: Name, why: Unavailable) {
        if let Some(cache) = &self.cache
            && let Some(lookup) = self.table.lookups.get(name)
            && let What::Secrets(subject) = &lookup.what
        {
            cache.refresh_failed(subject);
        }
        self.figures.failed += self.table.fail(now_us, name, why, &mut self.answers);
    }

    /// A statement was lost: its rows are asked again, perhaps of another replica, in parts where a
    /// name among them may be why. A digest that timed out is not: a store that has seen it and
    /// counts nonces would take it for one that somebody sends again, and say that it is wrong.
    /// Where the way to a store is known to be closed it is: most of what was under way there has
    /// not been seen. Nor is a name that is taken never to be answered, where again it was not: that
    /// says nothing of the store.
    fn lost(&mut self, now_us: u64, flight: &Flight, kind: usize) {
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
    fn ended(&mut self, now_us: u64, flight: &Flight) {
        self.figures.failures[UNREACHABLE] += 1;
        self.replicas.heard(now_us, flight.replica);
        self.note_outage(now_us);
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
    fn refused(&mut self, now_us: u64, flight: &Flight, may_do: bool) {
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
            let Some(lookup) = self.table.lookups.get_mut(name) else {
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

    /// Whether any replica can be asked has perhaps changed. Where none can, nobody waits.
    fn note_outage(&mut self, now_us: u64) {
        let is_outage = self.replicas.healthy().is_none();
        if is_outage != self.is_outage {
            self.is_outage = is_outage;
            if let Some(cache) = &self.cache {
                cache.set_outage(is_outage);
            }
        }
        if !is_outage || self.table.is_settled() {
            return;
        }
        let why = self.away(now_us);
        let cache = self.cache.clone();
        let dropped = |subject: &Subject| {
            if let Some(cache) = &cache {
                cache.refresh_failed(subject);
            }
        };
        let failed = self
            .table
            .fail_queued(now_us, why, &mut self.answers, dropped);
        self.figures.failed += failed;
    }

    fn fetch_refreshes(&mut self, now_us: u64) {
        let Some(cache) = self.cache.clone() else {
            return;
        };
        cache.sweep(now_us);
        let mut subjects = Vec::new();
        cache.take_refreshes(REFRESHES_PER_TICK, &mut subjects);
        for subject in subjects {
            let is_asked = !self.is_outage && self.table.refresh(now_us, subject.clone());
            if !is_asked {
                cache.refresh_failed(&subject);
            }
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

/// What the first look-up of a statement asks that is not over.
fn some_of<'t, T>(table: &'t Table<T>, flight: &Flight) -> Option<&'t What> {
    let mut names = flight.lookups.iter();
    let lookup = names.find_map(|&name| table.lookups.get(name))?;
    Some(&lookup.what)
}

fn reply(secrets: Option<&Secrets>, algorithm: Algorithm) -> Reply {
    match secrets.and_then(|secrets| secrets.get(algorithm)) {
        Some(ha1) => Reply::Secret(ha1.clone()),
        None => Reply::Unknown,
    }
}
