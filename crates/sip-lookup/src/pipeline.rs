//! Questions in, batches out; answers in, answers out.
//!
//! # What is promised
//! *Once.* Each question that was taken is answered once, at its deadline at the latest.
//!
//! *Fresh.* Whoever asks is answered by a row that was asked for after he came. A question
//! shares the look-up of its subject only as long as that has not been sent; later ones make
//! the next look-up. So a change in the store counts with the next question, and a question
//! takes no less time because another is under way (docs/decisions/0110). Nor does it take more,
//! except where the store was asked for that name alone and has not answered: then one look-up of
//! it is under way at a time.
//!
//! A name of which the cache knows that nobody has it may be answered by that knowledge, after a
//! statement that was sent since. It is no older than what was announced, and than the lifetime of
//! such knowledge and two statements. So whoever was added, and not announced, may be unknown for
//! so long.
//!
//! *In order.* The look-ups of a subject form a chain. An answer to one of them answers all
//! before it, whose batches it has overtaken: it left after they were asked and is as good
//! for them. What was before it in the chain comes out before it. So answers about one
//! subject come in the order of the questions, although batches overtake each other and
//! nobody waits for a slow one. (Refusals may come sooner: they change nothing.) Digests that a
//! store verifies are answered in any order: none speaks for another, and were one held back until
//! those before it are judged, whoever sends digests in a user's name could keep him waiting. All
//! that a statement answers is answered in the order of the questions: which of them shared a row,
//! or needed none, is not to be seen in whose answer comes first.
//!
//! *Apart.* A row belongs to the subject that it was asked for by its place in the
//! statement; an answer with more or fewer rows than that is thrown away whole. A row of
//! no use fails its own waiters. A statement that the store refuses, or that is lost, as where it
//! closes the connection over a name or never answers, is asked again in parts, a small one row by
//! row, and what spoils a part as well is asked alone for a while. A name for which statements are
//! lost even so is asked once at a time, such names have a quarter of the statements in flight
//! together, and what they lose does not show that a store is away. A store that refuses everything
//! ([`BatchFailure::Unusable`]) counts as one that is away, and so does one that ends its connections
//! over all that it is asked, a user included who was found before. Where much is lost it is no name:
//! it is asked for once more and no oftener. Names that need no row go with the part in which they
//! would be if they did.
//!
//! *In time.* What nobody waits for any more is not asked. Where the estimate says that the
//! answer would be late, the question is refused at once. A statement is given up after
//! [`PipelineConfig::timeout_us`], and its rows are asked again; a digest that a store
//! verifies is not where it timed out, since it may have been seen.
//!
//! # The paper's processes
//! With [`crate::Mode::Blocking`] the pipeline behaves like the proxy of Dacosta 2009 (4.2,
//! 5.3, 5.4), so far as look-ups go: `p` processes, each of which gathers `q` questions,
//! asks for them in one statement and takes no others until it is answered. Nothing joins but
//! questions for a name that is taken never to be answered, and the order of one user's questions
//! is not kept. What differs:
//! - A batch that is not full leaves when its oldest question has waited for
//!   [`Setting::PATIENCE_US`]. The paper's waits for ever and says that a deployment would
//!   have such a timer (footnote 1).
//! - The questions of all free processes gather in one batch, there in one for each, so
//!   that under light load a batch fills up here in a `p`th of the time.
//! - Only look-ups wait for a process. There all messages do, which is what it costs to
//!   block a process; with calls of one look-up each, as measured there, the capacity is
//!   the same.
//! - Equal names share a row of a statement; 10,000 users make that rare.

mod answers;
mod dispatch;
mod losses;
mod probe;
mod suspects;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;

use slots::Name;

use crate::cache::{Cache, Ticket};
use crate::config::{Mode, PipelineConfig};
use crate::figures::LookupFigures;
use crate::keyed::Keyed;
use crate::model::{Model, Setting};
#[cfg(doc)]
use crate::question::BatchFailure;
use crate::question::{Batch, BatchId, Outcome, Question, Replica, Rows, Unavailable, Why};
use crate::replicas::{Health, Replicas};
use crate::tuner::{Decision, Reason, Tuner};
pub use losses::part_rows;
use losses::{ENDED_CREDIT_MAX, PARTS_CREDIT_MAX};
use probe::Probe;
use suspects::Suspects;
use table::{Answered, Answers, Asking, Line, Table, Taken, What};

/// How often what the cache wants renewed is fetched.
const TICK_US: u64 = 100_000;
/// Rows that are taken from the cache at a time to be renewed.
const REFRESHES_PER_TICK: usize = 1_024;
/// The bounds of what a sender is told to wait.
const RETRY_AFTER_MAX_S: u64 = 60;
const AWAY_RETRY_AFTER_MAX_S: u64 = 30;

/// A statement in flight.
struct Flight {
    replica: Replica,
    sent_us: u64,
    /// The look-up of each row; none for a probe.
    lookups: Vec<Name>,
    passengers: Vec<Passenger>,
    rows: usize,
    is_verify: bool,
    /// It asks for a name that is taken never to be answered.
    is_hung: bool,
    /// What it asks, if nobody waits for it.
    probe: Option<Rows>,
}

/// A look-up of a name known not to exist, which waits for a statement without a row.
struct Passenger {
    name: Name,
    ticket: Ticket,
    /// How many of the rows were taken before it.
    rows_before: usize,
}

impl Flight {
    /// All its look-ups in the order in which they were taken, with a row or without.
    fn names(&self) -> Vec<Name> {
        let mut names = Vec::with_capacity(self.lookups.len() + self.passengers.len());
        let mut passengers = self.passengers.iter().peekable();
        for (nth, &name) in self.lookups.iter().enumerate() {
            while let Some(one) = passengers.next_if(|one| one.rows_before <= nth) {
                names.push(one.name);
            }
            names.push(name);
        }
        names.extend(passengers.map(|one| one.name));
        names
    }
}

/// Look-ups of one configuration of stores; see the [module](self). A `T` tells the caller
/// whose answer it is.
///
/// After [`Pipeline::submit`] or a `handle_*`, call [`Pipeline::poll_batch`],
/// [`Pipeline::poll_answer`] and [`Pipeline::poll_given_up`] until each has nothing more;
/// then wait for whatever comes first, [`Pipeline::next_deadline_us`] included, at which
/// [`Pipeline::handle_timeout`] is due. `now_us` is of one clock that does not go back.
pub struct Pipeline<T> {
    config: PipelineConfig,
    hash: Keyed,
    table: Table<T>,
    replicas: Replicas,
    asked: Option<Replica>,
    tuner: Tuner,
    cache: Option<Arc<Cache>>,
    suspects: Suspects,
    /// By age: a statement has a larger number than those sent before it.
    flights: BTreeMap<BatchId, Flight>,
    /// Of these, how many are no probes.
    in_flight: usize,
    next_id: u64,
    /// When the next batch leaves by pacing.
    next_batch_us: u64,
    next_tick_us: u64,
    probe: Probe,
    refusals_in_row: u32,
    /// What is left to take lost statements apart with.
    parts_credit: u32,
    /// The same where connections ended over them.
    ended_credit: u32,
    /// Questions may have come, in [`Mode::Blocking`], that did not join.
    has_unjoined: bool,
    is_outage: bool,
    answers: Answers<T>,
    given_up: VecDeque<BatchId>,
    figures: LookupFigures,
}

impl<T> Pipeline<T> {
    /// With nothing asked. Strangers choose the names, so the key is secret. The pipeline
    /// fills the cache and renews what is used.
    pub fn new(
        now_us: u64,
        hash_key: [u8; 16],
        config: PipelineConfig,
        cache: Option<Arc<Cache>>,
    ) -> Self {
        let hash = Keyed(hash_key);
        Self {
            hash,
            table: Table::new(now_us, hash, config.questions_max),
            replicas: Replicas::new(&config),
            asked: None,
            tuner: Tuner::new(now_us, &config),
            cache,
            suspects: Suspects::default(),
            flights: BTreeMap::new(),
            in_flight: 0,
            next_id: 0,
            next_batch_us: now_us,
            next_tick_us: now_us,
            probe: Probe::default(),
            refusals_in_row: 0,
            parts_credit: PARTS_CREDIT_MAX,
            ended_credit: ENDED_CREDIT_MAX,
            has_unjoined: is_blocking(&config),
            is_outage: false,
            answers: VecDeque::new(),
            given_up: VecDeque::new(),
            figures: LookupFigures::default(),
            config,
        }
    }

    /// Takes a question; it is answered by [`Pipeline::poll_answer`], at `deadline_us` at the
    /// latest. One that is refused here is not heard of again.
    pub fn submit(
        &mut self,
        now_us: u64,
        tag: T,
        question: Question,
        deadline_us: u64,
    ) -> Result<(), Unavailable> {
        let Question {
            subject,
            algorithm,
            digest,
            why,
        } = question;
        let line = match self.suspects.is_empty() || digest.is_some() {
            true => Line::Shared,
            false => self.suspects.line(now_us, self.hash.hash_one(&subject)),
        };
        let doubted = match why {
            Why::DigestAgain => Some((subject.clone(), deadline_us)),
            // The same steps, and no doubt: there was nothing that it could be cast on.
            Why::DigestUncached => Some((subject.clone(), 0)),
            Why::Digest | Why::Existence => None,
        };
        let what = match digest {
            Some(digest) => What::Verify(digest),
            None => What::Secrets(subject),
        };
        if self.replicas.healthy().is_none() {
            self.probe.refused(&what);
            self.figures.refused[2] += 1;
            return Err(self.away(now_us));
        }
        let expected_us = self.expected_us(now_us);
        // An estimate on the edge would have all of them asked for and late.
        let likely_us = expected_us.saturating_add(expected_us / 4);
        if now_us >= deadline_us || now_us.saturating_add(likely_us) > deadline_us {
            self.figures.refused[1] += 1;
            return Err(retry_after(expected_us));
        }
        let taken = self.table.ask(
            now_us,
            Asking {
                tag,
                algorithm,
                what,
                deadline_us,
                joins: !is_blocking(&self.config) || line == Line::Hung,
                line,
            },
        );
        match taken {
            Taken::Full => {
                self.figures.refused[0] += 1;
                return Err(retry_after(expected_us));
            }
            Taken::Joined => self.figures.joined += 1,
            Taken::Alone => self.tuner.handle_arrival(),
        }
        self.figures.questions += 1;
        if let (Some((subject, until_us)), Some(cache)) = (doubted, &self.cache) {
            cache.doubt(&subject, until_us);
        }
        Ok(())
    }

    /// The next statement to send; none as long as it is better to wait.
    pub fn poll_batch(&mut self, now_us: u64) -> Option<Batch> {
        self.dispatch(now_us)
    }

    /// The next answer: to whom, and what.
    pub fn poll_answer(&mut self) -> Option<(T, Outcome)> {
        let Answered { tag, outcome, .. } = self.answers.pop_front()?;
        Some((tag, outcome))
    }

    /// The next statement that is not waited for any longer. An answer to it counts for
    /// nothing.
    pub fn poll_given_up(&mut self) -> Option<BatchId> {
        self.given_up.pop_front()
    }

    /// When [`Pipeline::handle_timeout`] and then [`Pipeline::poll_batch`] are to be called,
    /// if nothing else comes first. It may have passed: then at once.
    pub fn next_deadline_us(&self) -> Option<u64> {
        let oldest = self.flights.values().next();
        let timeout_us = oldest.map(|flight| self.times_out_us(flight));
        let probe_us = self.replicas.next_probe_us();
        let deadlines = [
            self.table.next_deadline_us(),
            timeout_us,
            probe_us.filter(|_| !self.probe.is_empty()),
            self.cache.as_ref().map(|_| self.next_tick_us),
            self.leaves_us(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Until when nothing happens here but that questions come, which can wait: no statement is
    /// under way, none leaves by itself, and what is gathered leaves then. `None` where anything
    /// else may be due. It may have passed.
    pub fn quiet_until_us(&self) -> Option<u64> {
        let is_paced = matches!(self.setting(), Setting::Paced { .. });
        let is_alone = |line| self.table.queued(line) > 0;
        let is_quiet =
            self.flights.is_empty() && ![Line::Apart, Line::Hung].into_iter().any(is_alone);
        (is_paced && is_quiet).then_some(self.next_batch_us)
    }

    /// Takes new bounds, at once.
    pub fn reload(&mut self, config: PipelineConfig) {
        self.table.set_waiters_max(config.questions_max);
        self.replicas.reload(&config);
        self.tuner.reload(&config);
        self.has_unjoined |= is_blocking(&config);
        self.config = config;
    }

    /// What the tuner has set last, or the operator, and why.
    pub fn decision(&self) -> Decision {
        let fixed = |interval_us, in_flight_max, batch_max| Decision {
            interval_us,
            in_flight_max,
            batch_max,
            reason: Reason::Fixed,
        };
        match self.config.mode {
            Mode::Tuned => self.tuner.decision(),
            Mode::Fixed {
                interval_us,
                batch_max,
                in_flight_max,
            } => fixed(interval_us, in_flight_max, batch_max),
            Mode::Blocking { processes, batch } => fixed(0, processes, batch),
        }
    }

    /// What the store is taken to be.
    pub fn model(&self) -> Model {
        self.tuner.model()
    }

    /// What was done, and how things stand.
    pub fn figures(&self) -> LookupFigures {
        let decision = self.decision();
        let rate_per_s = self.tuner.rate_per_s();
        let predicted = self.model().predict(&self.setting(), rate_per_s);
        LookupFigures {
            predicted_per_s: predicted.capacity_per_s as u64,
            // Where more is asked than can be answered there is no mean.
            predicted_us: if predicted.mean_delay_us.is_finite() {
                predicted.mean_delay_us as u64
            } else {
                0
            },
            breaks: self.replicas.breaks(),
            queued: Line::ALL
                .map(|line| self.table.queued(line) as u64)
                .iter()
                .sum(),
            in_flight: self.flights.len() as u64,
            replicas_open: self.replicas.count(Health::Open) as u64,
            replicas_probed: self.replicas.count(Health::Probing) as u64,
            interval_us: decision.interval_us,
            in_flight_max: decision.in_flight_max as u64,
            batch_max: decision.batch_max as u64,
            round_trip_min_us: self.tuner.round_trip_min_us(),
            ..self.figures
        }
    }

    /// How a replica stands.
    pub fn health(&self, replica: Replica) -> Health {
        self.replicas.health(replica)
    }

    /// Whether nothing is asked, waited for or remembered of any question.
    pub fn is_idle(&self) -> bool {
        self.table.is_empty() && self.flights.is_empty() && self.answers.is_empty()
    }

    /// How batches leave now.
    fn setting(&self) -> Setting {
        Setting::of(self.config.mode).unwrap_or_else(|| Setting::from(&self.tuner.decision()))
    }

    fn times_out_us(&self, flight: &Flight) -> u64 {
        flight.sent_us.saturating_add(self.config.timeout_us)
    }

    /// How long a question that comes now will take. Where nothing is under way the next
    /// one is always tried: whatever made the last ones slow may be over.
    fn expected_us(&self, now_us: u64) -> u64 {
        let queued = self.table.queued(Line::Shared) + self.table.queued(Line::Apart);
        if queued == 0 && self.in_flight == 0 {
            return 0;
        }
        let expected_us = match Setting::of(self.config.mode) {
            Some(setting) => self.tuner.expected_us(queued, &setting),
            None => self.tuner.expected_tuned_us(now_us, queued),
        };
        expected_us.unwrap_or(0)
    }

    /// No replica can be asked: told to wait for longer the longer that has lasted.
    fn away(&self, now_us: u64) -> Unavailable {
        let away_s = self.replicas.away_us(now_us) / 1_000_000;
        let retry_after_s = (away_s / 4).clamp(1, AWAY_RETRY_AFTER_MAX_S);
        Unavailable {
            retry_after_s: u32::try_from(retry_after_s).ok(),
        }
    }
}

/// Told to wait for as long as the queue would take.
fn retry_after(expected_us: u64) -> Unavailable {
    let retry_after_s = expected_us.div_ceil(1_000_000).clamp(1, RETRY_AFTER_MAX_S);
    Unavailable {
        retry_after_s: u32::try_from(retry_after_s).ok(),
    }
}

const fn is_blocking(config: &PipelineConfig) -> bool {
    matches!(config.mode, Mode::Blocking { .. })
}
