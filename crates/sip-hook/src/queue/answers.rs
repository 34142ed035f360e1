//! What the program says, and what is done where it does not.

use std::sync::Arc;

use invariant::broken;
use sip_lookup::{BatchFailure, BatchId, Replica};

use super::{Failure, Flight, Queue};
use crate::{Answer, json};

/// The one program.
const IT: Replica = Replica(0);
/// Requests refused in a row, after which it is not their questions: they are not asked again
/// one by one.
const REFUSALS_MAX: u32 = 16;

impl<T> Queue<T> {
    /// The program has answered a request with that body.
    pub fn handle_answer(&mut self, now_us: u64, id: BatchId, body: &[u8]) {
        let Some(flight) = self.land(id) else {
            self.figures.unasked += 1;
            return;
        };
        self.breaker.heard(now_us, IT);
        if flight.is_probe {
            return;
        }
        self.figures.answered += 1;
        self.figures.round_trip_us += now_us.saturating_sub(flight.sent_us);
        self.answered_sent_us = self.answered_sent_us.max(flight.sent_us);
        let given = match json::read(body) {
            Ok(given) => given,
            Err(why) => return self.refused(&flight, &why),
        };
        self.refusals_in_row = 0;
        for (nth, answer) in given {
            let asked = nth.filter(|nth| flight.asked.binary_search(nth).is_ok());
            let is_taken = asked.is_some_and(|nth| self.settle(now_us, nth, answer));
            self.figures.unasked += u64::from(!is_taken);
        }
        for nth in flight.asked {
            if !self.is_under_way(nth) {
                self.fail(nth, Failure::Bad("it has none for this request".into()));
            }
        }
    }

    /// A request has no answer. One that was given up, or answered, is counted only.
    pub fn handle_failure(&mut self, now_us: u64, id: BatchId, failure: BatchFailure) {
        let Some(flight) = self.land(id) else {
            self.figures.unasked += 1;
            return;
        };
        match failure {
            BatchFailure::Refused(why)
            | BatchFailure::Ended(why)
            | BatchFailure::Unusable(why)
            | BatchFailure::LogInRefused(why)
            | BatchFailure::Cancelled(why) => {
                self.breaker.heard(now_us, IT);
                self.refused(&flight, &why);
            }
            BatchFailure::Unreachable(_) => self.lost(now_us, &flight, &Failure::Unreachable),
            BatchFailure::TimedOut => self.lost(now_us, &flight, &Failure::TimedOut),
        }
    }

    /// Does what is due at `now_us`: answers those whose time is up, gives requests up, and asks
    /// again what a slow one has.
    pub fn handle_timeout(&mut self, now_us: u64) {
        while let Some((deadline_us, nth)) = self.deadlines.first().copied()
            && now_us >= deadline_us
        {
            if !self.fail(nth, Failure::TimedOut) {
                broken!("a question whose deadline is kept is waited for");
                self.deadlines.pop_first();
            }
        }
        let is_due = |(id, flight): (&BatchId, &Flight)| {
            (now_us >= self.times_out_us(flight)).then_some(*id)
        };
        let late: Vec<BatchId> = self.flights.iter().filter_map(is_due).collect();
        for id in late {
            self.given_up.push_back(id);
            match self.land(id) {
                Some(flight) => self.lost(now_us, &flight, &Failure::TimedOut),
                None => broken!("a request that is late is in flight"),
            }
        }
        let is_slow = |(id, flight): (&BatchId, &Flight)| {
            (self.is_slow(flight) && now_us >= self.due_us(flight)).then_some(*id)
        };
        let slow: Vec<BatchId> = self.flights.iter().filter_map(is_slow).collect();
        for id in slow {
            self.split(id);
        }
    }

    fn land(&mut self, id: BatchId) -> Option<Flight> {
        let flight = self.flights.remove(&id)?;
        match flight.is_probe {
            true => self.breaker.end_probe(IT),
            false => self.in_flight -= 1,
        }
        for nth in &flight.asked {
            if let Some(waiter) = self.waiters.get_mut(nth) {
                waiter.flights = waiter.flights.saturating_sub(1);
            }
        }
        Some(flight)
    }

    /// Gives an answer to whoever waits for it; false where nobody does.
    fn settle(&mut self, now_us: u64, nth: u64, answer: Result<Answer, String>) -> bool {
        let answer = match answer {
            Ok(answer) => Arc::new(answer),
            Err(why) => return self.fail(nth, Failure::Bad(why.into())),
        };
        let Some(waiter) = self.waiters.remove(&nth) else {
            return false;
        };
        self.deadlines.remove(&(waiter.deadline_us, nth));
        self.queued -= usize::from(waiter.is_queued);
        let said = self.figures.answers.get_mut(answer.action().index());
        if let Some(count) = said {
            *count += 1;
        }
        self.cache
            .put(now_us, &waiter.question, waiter.ticket, &answer);
        self.answers.push_back((waiter.tag, Ok(answer)));
        true
    }

    /// Ends a question without an answer; false where nobody waits for it.
    fn fail(&mut self, nth: u64, failure: Failure) -> bool {
        let Some(waiter) = self.waiters.remove(&nth) else {
            return false;
        };
        self.deadlines.remove(&(waiter.deadline_us, nth));
        self.queued -= usize::from(waiter.is_queued);
        self.count_failure(&failure);
        self.answers.push_back((waiter.tag, Err(failure)));
        true
    }

    /// Whether a question is in a queue, or in another request, or over.
    fn is_under_way(&self, nth: u64) -> bool {
        let waiter = self.waiters.get(&nth);
        waiter.is_none_or(|waiter| waiter.is_queued || waiter.flights > 0)
    }

    /// The program will not answer this request. Its questions are asked one by one; one that was
    /// alone is what it does not like.
    fn refused(&mut self, flight: &Flight, why: &str) {
        if flight.is_probe {
            return;
        }
        self.refusals_in_row = self.refusals_in_row.saturating_add(1);
        let is_split = flight.asked.len() > 1 && self.refusals_in_row <= REFUSALS_MAX;
        for &nth in &flight.asked {
            if self.is_under_way(nth) {
                continue;
            }
            // It may have been asked alone already, and refused, while this request was slow.
            let was_alone = self.waiters.get(&nth).is_some_and(|waiter| waiter.is_alone);
            match is_split && !was_alone {
                true => self.ask_alone(nth),
                false => _ = self.fail(nth, Failure::Refused(why.into())),
            }
        }
    }

    /// A request is slow, and others are not.
    fn split(&mut self, id: BatchId) {
        let Some(flight) = self.flights.get_mut(&id) else {
            return broken!("a request that is slow is in flight");
        };
        flight.is_split = true;
        for nth in flight.asked.clone() {
            self.ask_alone(nth);
        }
    }

    /// A question is asked again in a request of its own, if anybody waits for it.
    fn ask_alone(&mut self, nth: u64) {
        if let Some(waiter) = self.waiters.get_mut(&nth)
            && !waiter.is_queued
            && !waiter.is_alone
        {
            waiter.is_alone = true;
            waiter.is_queued = true;
            self.queued += 1;
            self.figures.retried += 1;
            self.alone.push_back(nth);
        }
    }

    /// A request was lost. Where the program could not be reached its questions are asked once
    /// more; one that took too long has taken all the time that they had.
    fn lost(&mut self, now_us: u64, flight: &Flight, failure: &Failure) {
        let is_unreachable = *failure == Failure::Unreachable;
        self.breaker
            .failed(now_us, IT, flight.sent_us, is_unreachable);
        let is_away = self.is_away();
        for &nth in flight.asked.iter().rev() {
            if self.is_under_way(nth) {
                continue;
            }
            let Some(waiter) = self.waiters.get_mut(&nth) else {
                broken!("a question that is neither queued nor asked is waited for");
                continue;
            };
            if !is_unreachable || is_away || waiter.was_lost {
                self.fail(nth, failure.clone());
                continue;
            }
            waiter.was_lost = true;
            waiter.is_queued = true;
            self.queued += 1;
            self.figures.retried += 1;
            match waiter.is_alone {
                true => self.alone.push_front(nth),
                false => self.together.push_front(nth),
            }
        }
        if is_away {
            self.give_up_queued();
        }
    }

    /// Nobody waits for a program that is not there.
    fn give_up_queued(&mut self) {
        let together = std::mem::take(&mut self.together);
        let alone = std::mem::take(&mut self.alone);
        for nth in alone.into_iter().chain(together) {
            let is_queued = self.waiters.get(&nth).is_some_and(|of| of.is_queued);
            if is_queued {
                self.fail(nth, Failure::Away);
            }
        }
    }
}
