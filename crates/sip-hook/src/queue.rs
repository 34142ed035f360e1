//! Questions in, requests out; answers in, answers out.
//!
//! # What is promised
//! *Once.* Each question that was taken is answered once, at its deadline at the latest.
//!
//! *At once.* While fewer requests are in flight than may be, a question leaves as it comes.
//! Otherwise questions gather, and the next request that may leave takes what has gathered: the
//! longer the program takes, the more questions share a request.
//!
//! *Apart.* An answer belongs to the question whose number it has, if that was in the request. One
//! that is wrong, that is missing or that was given twice is that question's matter. Where the
//! program refuses a request whole, or answers what is no list, its questions are asked once more,
//! each alone: so one that it cannot bear takes no other with it. The same where a request takes
//! longer than half of its time and one that left after it has been answered.
//!
//! *In time.* What nobody waits for any more is not asked. Where the program cannot be reached a
//! question is asked once more. After some failures in a row it is left alone, and whoever asks is
//! told so at once, until it answers a request without questions.
//!
//! So a question may be asked twice, under the same number.

mod answers;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use invariant::broken;
use sip_lookup::{BatchId, PipelineConfig, Replicas};

use crate::cache::Ticket;
use crate::figures::{HookFigures, size_class};
use crate::{Answer, Cache, Question, json};

/// The bounds of a [`Queue`]. Zeros count as the least that works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Questions held at once, those in flight included.
    pub questions_max: usize,
    /// Questions in one request.
    pub batch_max: usize,
    /// Requests in flight at once.
    pub in_flight_max: usize,
    /// How long a request may take.
    pub timeout_us: u64,
    /// Failures in a row after which the program is left alone.
    pub failures_max: u32,
    /// How often it is tried while it is left alone.
    pub probe_interval_us: u64,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            questions_max: 16_384,
            batch_max: 64,
            in_flight_max: 4,
            timeout_us: 1_000_000,
            failures_max: 3,
            probe_interval_us: 500_000,
        }
    }
}

/// What is to be posted now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Comes back with the answer.
    pub id: BatchId,
    /// The body of the request, as JSON.
    pub body: Vec<u8>,
    /// How many questions are in it; none where it is to find whether the program is back.
    pub questions: usize,
}

/// What came of a question.
pub type Outcome = Result<Arc<Answer>, Failure>;

/// Why a question has no answer of use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Too many questions wait.
    Full,
    /// The program is left alone, because it failed.
    Away,
    /// It did not answer in time.
    TimedOut,
    /// It cannot be reached.
    Unreachable,
    /// It refused the request, or answered what cannot be understood.
    Refused(Box<str>),
    /// It answered something of no use.
    Bad(Box<str>),
}

impl Failure {
    /// How many kinds there are.
    pub(crate) const COUNT: usize = 6;
    /// Their names, in the order of [`Failure::index`].
    pub(crate) const NAMES: [&'static str; Self::COUNT] =
        ["full", "away", "timed_out", "unreachable", "refused", "bad"];

    pub(crate) const fn index(&self) -> usize {
        match self {
            Self::Full => 0,
            Self::Away => 1,
            Self::TimedOut => 2,
            Self::Unreachable => 3,
            Self::Refused(_) => 4,
            Self::Bad(_) => 5,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("too many questions wait for it"),
            Self::Away => f.write_str("it is left alone for a while, because it failed"),
            Self::TimedOut => f.write_str("it did not answer in time"),
            Self::Unreachable => f.write_str("it cannot be reached"),
            Self::Refused(why) => write!(f, "it gave no usable answer: {why}"),
            Self::Bad(why) => write!(f, "its answer cannot be used: {why}"),
        }
    }
}

/// A question that waits for its answer.
struct Waiter<T> {
    tag: T,
    question: Box<Question>,
    deadline_us: u64,
    ticket: Ticket,
    /// Requests in flight that have it.
    flights: u8,
    /// Whether it is in one of the queues.
    is_queued: bool,
    /// Whether it was asked again, because a request was lost.
    was_lost: bool,
    /// It goes in a request of its own.
    is_alone: bool,
}

/// A request in flight.
struct Flight {
    sent_us: u64,
    /// The numbers of its questions, sorted; none for a probe.
    asked: Vec<u64>,
    is_probe: bool,
    /// Whether its questions were asked again, because it is slow.
    is_split: bool,
}

/// Questions to one program; see the [module](self). A `T` tells the caller whose answer it is.
///
/// After [`Queue::submit`] or a `handle_*`, call [`Queue::poll_batch`], [`Queue::poll_answer`] and
/// [`Queue::poll_given_up`] until each has nothing more; then wait for whatever comes first,
/// [`Queue::next_deadline_us`] included, at which [`Queue::handle_timeout`] is due. `now_us` is of
/// one clock that does not go back.
pub struct Queue<T> {
    config: QueueConfig,
    cache: Arc<Cache>,
    waiters: HashMap<u64, Waiter<T>>,
    /// When each of them gives up.
    deadlines: BTreeSet<(u64, u64)>,
    /// Numbers of questions that share requests, and of those that do not. Some of them were
    /// answered by now.
    together: VecDeque<u64>,
    alone: VecDeque<u64>,
    is_turn_of_alone: bool,
    queued: usize,
    flights: BTreeMap<BatchId, Flight>,
    /// Of these, how many are no probes.
    in_flight: usize,
    breaker: Replicas,
    /// When the youngest request left that was answered.
    answered_sent_us: u64,
    refusals_in_row: u32,
    next_question: u64,
    next_batch: u64,
    answers: VecDeque<(T, Outcome)>,
    given_up: VecDeque<BatchId>,
    figures: HookFigures,
}

impl<T> Queue<T> {
    /// With nothing asked. It fills the cache, and asks it nothing: whoever submits has done so.
    pub fn new(config: QueueConfig, cache: Arc<Cache>) -> Self {
        let breaker = Replicas::new(&PipelineConfig {
            replicas: 1,
            failures_max: config.failures_max,
            probe_interval_us: config.probe_interval_us,
            ..PipelineConfig::default()
        });
        Self {
            config,
            cache,
            waiters: HashMap::new(),
            deadlines: BTreeSet::new(),
            together: VecDeque::new(),
            alone: VecDeque::new(),
            is_turn_of_alone: false,
            queued: 0,
            flights: BTreeMap::new(),
            in_flight: 0,
            breaker,
            answered_sent_us: 0,
            refusals_in_row: 0,
            next_question: 0,
            next_batch: 0,
            answers: VecDeque::new(),
            given_up: VecDeque::new(),
            figures: HookFigures::default(),
        }
    }

    /// Takes a question; it is answered by [`Queue::poll_answer`], at `deadline_us` at the latest.
    /// One that is refused here is not heard of again.
    pub fn submit(
        &mut self,
        now_us: u64,
        tag: T,
        question: Box<Question>,
        deadline_us: u64,
    ) -> Result<(), Failure> {
        let refused = if now_us >= deadline_us {
            Some(Failure::TimedOut)
        } else if self.is_away() {
            Some(Failure::Away)
        } else {
            let is_full = self.waiters.len() >= self.config.questions_max.max(1);
            is_full.then_some(Failure::Full)
        };
        if let Some(failure) = refused {
            self.count_failure(&failure);
            return Err(failure);
        }
        let nth = self.next_question;
        self.next_question += 1;
        self.figures.questions += 1;
        self.deadlines.insert((deadline_us, nth));
        self.waiters.insert(
            nth,
            Waiter {
                tag,
                question,
                deadline_us,
                ticket: self.cache.ticket(),
                flights: 0,
                is_queued: true,
                was_lost: false,
                is_alone: false,
            },
        );
        self.queued += 1;
        self.together.push_back(nth);
        Ok(())
    }

    /// The next request to send; none as long as all that may be are in flight, or nothing is to
    /// be asked.
    pub fn poll_batch(&mut self, now_us: u64) -> Option<Batch> {
        if self.breaker.take_probe(now_us).is_some() {
            self.figures.probes += 1;
            return Some(self.send(now_us, Vec::new(), true));
        }
        if self.is_away() || self.in_flight >= self.config.in_flight_max.max(1) {
            return None;
        }
        let asked = self.gather();
        (!asked.is_empty()).then(|| self.send(now_us, asked, false))
    }

    /// The next answer: to whom, and what.
    pub fn poll_answer(&mut self) -> Option<(T, Outcome)> {
        self.answers.pop_front()
    }

    /// The next request that is not waited for any longer. An answer to it counts for nothing.
    pub fn poll_given_up(&mut self) -> Option<BatchId> {
        self.given_up.pop_front()
    }

    /// When [`Queue::handle_timeout`] and then [`Queue::poll_batch`] are to be called, if nothing
    /// else comes first. It may have passed: then at once.
    pub fn next_deadline_us(&self) -> Option<u64> {
        let may_leave =
            self.queued > 0 && !self.is_away() && self.in_flight < self.config.in_flight_max.max(1);
        let flights = self.flights.values().map(|flight| self.due_us(flight));
        let deadlines = [
            may_leave.then_some(0),
            self.deadlines.first().map(|(due_us, _)| *due_us),
            flights.min(),
            self.breaker.next_probe_us(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// What was done, and how things stand.
    pub fn figures(&self) -> HookFigures {
        HookFigures {
            breaks: self.breaker.breaks(),
            queued: self.queued as u64,
            in_flight: self.flights.len() as u64,
            away: u64::from(self.is_away()),
            ..self.figures
        }
    }

    /// Whether nothing is asked or waited for.
    pub fn is_idle(&self) -> bool {
        self.waiters.is_empty() && self.flights.is_empty() && self.answers.is_empty()
    }

    fn is_away(&self) -> bool {
        self.breaker.healthy().is_none()
    }

    /// Takes the numbers of what shares the next request: what has to be alone has every other.
    fn gather(&mut self) -> Vec<u64> {
        let is_turn_of_alone = self.is_turn_of_alone;
        self.is_turn_of_alone = !is_turn_of_alone;
        for is_alone in [is_turn_of_alone, !is_turn_of_alone] {
            let max = if is_alone {
                1
            } else {
                self.config.batch_max.max(1)
            };
            let mut asked = Vec::new();
            while asked.len() < max
                && let Some(nth) = self.next_queued(is_alone)
            {
                asked.push(nth);
            }
            if !asked.is_empty() {
                return asked;
            }
        }
        Vec::new()
    }

    /// Takes the next question out of a queue. What was answered since is dropped, and so is what
    /// is in the other queue now.
    fn next_queued(&mut self, is_alone: bool) -> Option<u64> {
        let queue = match is_alone {
            true => &mut self.alone,
            false => &mut self.together,
        };
        while let Some(nth) = queue.pop_front() {
            if let Some(waiter) = self.waiters.get_mut(&nth)
                && waiter.is_queued
                && waiter.is_alone == is_alone
            {
                waiter.is_queued = false;
                self.queued -= 1;
                return Some(nth);
            }
        }
        None
    }

    fn send(&mut self, now_us: u64, mut asked: Vec<u64>, is_probe: bool) -> Batch {
        asked.sort_unstable();
        for nth in &asked {
            match self.waiters.get_mut(nth) {
                Some(waiter) => waiter.flights = waiter.flights.saturating_add(1),
                None => broken!("a question that was just taken out of a queue is waited for"),
            }
        }
        let waiters = &self.waiters;
        let questions = asked.iter().filter_map(|nth| {
            let waiter = waiters.get(nth)?;
            Some((*nth, &*waiter.question))
        });
        let body = json::write(questions);
        if !is_probe {
            self.in_flight += 1;
            if let Some(sent) = self.figures.batches.get_mut(size_class(asked.len())) {
                *sent += 1;
            }
        }
        let id = BatchId(self.next_batch);
        self.next_batch += 1;
        let questions = asked.len();
        self.flights.insert(
            id,
            Flight {
                sent_us: now_us,
                asked,
                is_probe,
                is_split: false,
            },
        );
        Batch {
            id,
            body,
            questions,
        }
    }

    fn times_out_us(&self, flight: &Flight) -> u64 {
        flight.sent_us.saturating_add(self.config.timeout_us)
    }

    /// When something is to be done about a request that is not answered.
    fn due_us(&self, flight: &Flight) -> u64 {
        match self.is_slow(flight) {
            true => flight.sent_us.saturating_add(self.config.timeout_us / 2),
            false => self.times_out_us(flight),
        }
    }

    /// Whether others that left after it were answered before it, so that it is not the whole
    /// program that takes its time.
    fn is_slow(&self, flight: &Flight) -> bool {
        flight.asked.len() > 1 && !flight.is_split && self.answered_sent_us > flight.sent_us
    }

    fn count_failure(&mut self, failure: &Failure) {
        if let Some(count) = self.figures.failed.get_mut(failure.index()) {
            *count += 1;
        }
    }
}
