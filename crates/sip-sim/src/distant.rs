//! A database at a distance, reached by the pipeline that is in service. It answers late,
//! wrongly, in part, twice or never; it loses its connection and returns.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use sip_auth::{Algorithm, Ha1Set, Reply, Secrets, Subject};
use sip_engine::ParkId;
use sip_lookup::{
    BadRow, Batch, BatchAnswer, BatchFailure, BatchId, Cache, Mode, Outcome, Pipeline,
    PipelineConfig, Question, Rows, Unavailable,
};

use crate::Dice;
use crate::plan::Distance;

/// The database: users and their secrets.
pub(crate) type Users = HashMap<Vec<u8>, Ha1Set>;

/// Who asked what: which worker, for which request, about whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) worker: usize,
    pub(crate) park: ParkId,
    pub(crate) subject: Subject,
}

/// What a database says to a batch.
type Said = Result<BatchAnswer, BatchFailure>;

/// The pipeline, and the databases at its other end.
pub(crate) struct Distant {
    plan: Distance,
    users: Arc<Users>,
    pipeline: Pipeline<Tag>,
    dice: Dice,
    /// What will be said, by when; the number tells apart what comes at one time.
    said: BTreeMap<(u64, u64), (BatchId, usize, Said)>,
    number: u64,
    /// Until when each replica has no connection.
    away_until_ms: Vec<u64>,
    /// Questions that were not answered yet, of each subject in order.
    unanswered: HashMap<Subject, VecDeque<(usize, ParkId)>>,
    /// Whether something was asked since the last step.
    is_asked: bool,
    pub(crate) faults: Vec<String>,
}

const fn us(ms: u64) -> u64 {
    ms * 1_000
}

impl Distant {
    pub(crate) fn new(
        now_ms: u64,
        plan: Distance,
        mut dice: Dice,
        users: Arc<Users>,
        cache: Option<Arc<Cache>>,
    ) -> Self {
        let mode = match dice.below(3) {
            0 => Mode::Fixed {
                interval_us: us(dice.between(0, 20)),
                batch_max: dice.between(8, 64) as usize,
                in_flight_max: dice.between(4, 16) as usize,
            },
            _ => Mode::Tuned,
        };
        let config = PipelineConfig {
            mode,
            replicas: plan.replicas,
            questions_max: plan.questions_max,
            batch_max: dice.between(2, 64) as usize,
            timeout_us: us(plan.timeout_ms),
            ..PipelineConfig::default()
        };
        Self {
            pipeline: Pipeline::new(us(now_ms), dice.bytes(), config, cache),
            said: BTreeMap::new(),
            number: 0,
            away_until_ms: vec![0; plan.replicas],
            unanswered: HashMap::new(),
            is_asked: false,
            faults: Vec::new(),
            plan,
            users,
            dice,
        }
    }

    /// A worker asks.
    pub(crate) fn submit(
        &mut self,
        now_ms: u64,
        tag: Tag,
        question: Question,
        until_ms: u64,
    ) -> Result<(), Unavailable> {
        let (asker, subject) = ((tag.worker, tag.park), tag.subject.clone());
        self.pipeline
            .submit(us(now_ms), tag, question, us(until_ms))?;
        self.unanswered.entry(subject).or_default().push_back(asker);
        self.is_asked = true;
        Ok(())
    }

    /// When [`Distant::step`] has something to do.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        if self.is_asked {
            return Some(0);
        }
        let pipeline = self.pipeline.next_deadline_us();
        let said = self.said.first_key_value();
        said.map(|((at_ms, _), _)| *at_ms)
            .into_iter()
            .chain(pipeline.map(|at_us| at_us.div_ceil(1_000)))
            .min()
    }

    /// Does what is due, and whatever follows from questions that were submitted.
    pub(crate) fn step(&mut self, now_ms: u64) -> Vec<(Tag, Outcome)> {
        self.is_asked = false;
        while let Some(entry) = self.said.first_entry() {
            if entry.key().0 > now_ms {
                break;
            }
            let (id, _, said) = entry.remove();
            match said {
                Ok(answer) => self.pipeline.handle_answer(us(now_ms), id, answer),
                Err(failure) => self.pipeline.handle_failure(us(now_ms), id, failure),
            }
        }
        let due_us = self.pipeline.next_deadline_us();
        if due_us.is_some_and(|due_us| due_us <= us(now_ms)) {
            self.pipeline.handle_timeout(us(now_ms));
        }
        while let Some(batch) = self.pipeline.poll_batch(us(now_ms)) {
            self.ask(now_ms, batch);
        }
        while let Some(given_up) = self.pipeline.poll_given_up() {
            // Half of them come all the same.
            if self.dice.below(2) == 0 {
                self.said.retain(|_, (id, ..)| *id != given_up);
            }
        }
        let mut answers = Vec::new();
        while let Some((tag, outcome)) = self.pipeline.poll_answer() {
            self.check(&tag, &outcome);
            answers.push((tag, outcome));
        }
        answers
    }

    /// What must be true of an answer: it is not false, and it comes to whoever asked first
    /// for this user. A refusal may come sooner: it changes nothing.
    fn check(&mut self, tag: &Tag, outcome: &Outcome) {
        let asker = (tag.worker, tag.park);
        let waiting = self.unanswered.get_mut(&tag.subject);
        let place = waiting.and_then(|waiting| {
            let at = waiting.iter().position(|of| *of == asker)?;
            waiting.remove(at);
            Some((at, waiting.is_empty()))
        });
        match place {
            None => self.faults.push(format!("{tag:?} did not ask, or twice")),
            Some((1.., _)) if outcome.is_ok() => self.faults.push(format!(
                "{tag:?} is answered before others who asked for the same user"
            )),
            Some((_, true)) => _ = self.unanswered.remove(&tag.subject),
            Some(_) => {}
        }
        let user = self.users.get(tag.subject.user());
        let is_true = match outcome {
            Ok(Reply::Unknown) => user.is_none(),
            Ok(Reply::Secret(ha1)) => user.is_some_and(|set| set.get(ha1.algorithm()) == ha1),
            Ok(Reply::Cached(_) | Reply::NotCached | Reply::Verified(_)) => false,
            Err(_) => true,
        };
        if !is_true {
            self.faults
                .push(format!("{tag:?} is answered falsely: {outcome:?}"));
        }
    }

    /// A batch goes to its database.
    fn ask(&mut self, now_ms: u64, batch: Batch) {
        let Batch { id, replica, rows } = batch;
        let rtt_ms = self.plan.rtt_ms + self.dice.between(0, self.plan.rtt_ms / 2);
        let away_until_ms = self.away_until_ms.get(replica.0).copied();
        if away_until_ms.is_none_or(|until_ms| now_ms < until_ms) {
            // No connection, or one that leads nowhere.
            if self.dice.below(4) > 0 {
                let failure = BatchFailure::Unreachable("no connection".to_owned());
                self.say(now_ms + 1, id, replica.0, Err(failure));
            }
            return;
        }
        let mut answer = self.answer(&rows);
        let mut at_ms = now_ms + rtt_ms;
        if self.dice.thousandths(self.plan.failure) {
            match self.dice.below(7) {
                0 => return self.lose(now_ms, replica.0),
                1 => return,
                2 => at_ms += self.dice.between(100, 6_000),
                3 => self.say(at_ms + 1, id, replica.0, Ok(answer.clone())),
                4 => answer = BatchAnswer::Verified(true),
                5 => {
                    if let BatchAnswer::Rows(rows) = &mut answer {
                        rows.pop();
                    }
                }
                _ => {
                    let failure = BatchFailure::Refused("out of order".to_owned());
                    return self.say(at_ms, id, replica.0, Err(failure));
                }
            }
        }
        self.say(at_ms, id, replica.0, Ok(answer));
    }

    fn answer(&mut self, rows: &Rows) -> BatchAnswer {
        let Rows::Secrets(subjects) = rows else {
            return BatchAnswer::Verified(false);
        };
        let bad = self.plan.failure / 4;
        let mut row = |subject: &Subject| {
            if self.dice.thousandths(bad) {
                return Err(BadRow::Bad("no digest".to_owned()));
            }
            Ok(self.users.get(subject.user()).map(|set| {
                let mut secrets = Secrets::default();
                for algorithm in Algorithm::ALL {
                    secrets.insert(set.get(algorithm).clone());
                }
                secrets
            }))
        };
        BatchAnswer::Rows(subjects.iter().map(&mut row).collect())
    }

    fn say(&mut self, at_ms: u64, id: BatchId, replica: usize, said: Said) {
        self.number += 1;
        self.said.insert((at_ms, self.number), (id, replica, said));
    }

    /// A database goes away, and with it all that it was asked.
    fn lose(&mut self, now_ms: u64, replica: usize) {
        let away_ms = self.dice.between(10, 8_000);
        if let Some(until_ms) = self.away_until_ms.get_mut(replica) {
            *until_ms = now_ms + away_ms;
        }
        for (_, of, said) in self.said.values_mut() {
            if *of == replica {
                *said = Err(BatchFailure::Unreachable("closed".to_owned()));
            }
        }
    }

    /// Questions that were never answered.
    pub(crate) fn left(&self) -> usize {
        self.unanswered.values().map(VecDeque::len).sum()
    }

    /// Batches that were asked.
    pub(crate) fn batches(&self) -> u64 {
        self.number
    }
}
