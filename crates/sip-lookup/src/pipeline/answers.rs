//! What stores say, and what is done where they do not.

use std::hash::BuildHasher;

use sip_auth::{Algorithm, Reply, Secrets, Subject};
use slots::Name;

use super::losses::{ENDED_CREDIT_MAX, PARTS_CREDIT_MAX};
use super::probe::rows_of;
use super::table::{Table, What};
use super::{Flight, Passenger, Pipeline, REFRESHES_PER_TICK, TICK_US};
use crate::question::{BadRow, BatchAnswer, BatchFailure, BatchId, Row, Unavailable};
use crate::tuner::Sample;

/// The places of the kinds of failures among the figures.
pub(super) const UNREACHABLE: usize = 0;
const REFUSED: usize = 1;
pub(super) const TIMED_OUT: usize = 2;
const GARBLED: usize = 3;
const LOG_IN_REFUSED: usize = 4;
pub(super) const NO_ADVICE: Unavailable = Unavailable {
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
            self.probe.answered(rows, found(&answer).is_some());
            return;
        }
        self.refusals_in_row = 0;
        self.parts_credit = (self.parts_credit + 1).min(PARTS_CREDIT_MAX);
        self.ended_credit = (self.ended_credit + 1).min(ENDED_CREDIT_MAX);
        if let Some((what, is_found)) = shown(&self.table, &flight, &answer) {
            self.probe.answered(rows_of(what), is_found);
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
                is_reject: matches!(answer, BatchAnswer::Verified(false)),
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
            // One that refuses whoever exists is of no more use, though it answers about nobody.
            BatchFailure::Refused(_) if self.is_of_no_use(&flight) => {
                self.lost(now_us, &flight, REFUSED);
            }
            BatchFailure::Refused(_) => {
                self.figures.failures[REFUSED] += 1;
                self.replicas.refused(now_us, flight.replica);
                if self.replicas.refuses_all(flight.replica) && self.probe.has_found() {
                    self.replicas.suspect(flight.replica);
                }
                self.note_outage(now_us);
                self.refused(now_us, &flight, false);
            }
            BatchFailure::Cancelled(_) => {
                self.figures.failures[REFUSED] += 1;
                self.replicas.heard(now_us, flight.replica);
                self.note_outage(now_us);
                self.replicas.broke_off(flight.replica);
                self.refused(now_us, &flight, true);
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
            Err(bad) => {
                if let (BadRow::Bad(_), Some(cache)) = (bad, &self.cache) {
                    cache.forget(subject);
                }
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
    pub(super) fn give_up(&mut self, now_us: u64, name: Name, why: Unavailable) {
        if let Some(cache) = &self.cache
            && let Some(lookup) = self.table.lookups.get(name)
            && let What::Secrets(subject) = &lookup.what
        {
            cache.refresh_failed(subject);
        }
        self.figures.failed += self.table.fail(now_us, name, why, &mut self.answers);
    }

    /// Whether any replica can be asked has perhaps changed. Where none can, nobody waits.
    pub(super) fn note_outage(&mut self, now_us: u64) {
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

/// The place of the first user whom an answer finds.
fn found(answer: &BatchAnswer) -> Option<usize> {
    match answer {
        BatchAnswer::Rows(rows) => rows.iter().position(|row| matches!(row, Ok(Some(_)))),
        BatchAnswer::Verified(_) => None,
    }
}

/// What of a statement that was answered shows best that a store is of use: a user who was found,
/// and else whatever it asks. Whether he was found.
fn shown<'t, T>(
    table: &'t Table<T>,
    flight: &Flight,
    answer: &BatchAnswer,
) -> Option<(&'t What, bool)> {
    let name = found(answer).and_then(|at| flight.lookups.get(at));
    match name.and_then(|&name| table.lookups.get(name)) {
        Some(lookup) => Some((&lookup.what, true)),
        None => Some((some_of(table, flight)?, false)),
    }
}

/// What the first look-up of a statement asks that is not over.
pub(super) fn some_of<'t, T>(table: &'t Table<T>, flight: &Flight) -> Option<&'t What> {
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
