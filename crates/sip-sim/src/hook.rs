//! The operator's hook, behind the queue that is in service. It answers late, wrongly, in part,
//! twice or never; it refuses, goes away and returns.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};
use sip_engine::ParkId;
use sip_hook::{Batch, Cache, CacheConfig, Field, Outcome, Question, Queue, QueueConfig};
use sip_lookup::{BatchFailure, BatchId};

use crate::Dice;
use crate::plan::Hooked;
use crate::server::DOMAIN;

/// Who asked: which worker, for which request.
type Asker = (usize, ParkId);

/// What the program says to a request.
type Said = Result<Vec<u8>, BatchFailure>;

/// The queue, and the program at its other end.
pub(crate) struct Hook {
    plan: Hooked,
    users: usize,
    queue: Queue<Asker>,
    cache: Arc<Cache>,
    dice: Dice,
    /// What will be said, by when; the number tells apart what comes at one time.
    said: BTreeMap<(u64, u64), (BatchId, Said)>,
    number: u64,
    /// Until when it has no connection.
    away_until_ms: u64,
    unanswered: HashSet<Asker>,
    /// Answers that could be used.
    pub(crate) used: u64,
    /// Whether something was asked since the last step.
    is_asked: bool,
    pub(crate) faults: Vec<String>,
}

const fn us(ms: u64) -> u64 {
    ms * 1_000
}

impl Hook {
    pub(crate) fn new(plan: Hooked, users: usize, mut dice: Dice) -> Self {
        let cache = CacheConfig {
            fields: vec![Field::User, Field::RequestUri],
            entries_max: 8,
        };
        let cache = Arc::new(Cache::new(dice.bytes(), cache));
        // One that never fails has room for all.
        let is_calm = plan.failure == 0;
        let config = QueueConfig {
            questions_max: if is_calm {
                10_000
            } else {
                [8, 10_000][dice.below(2) as usize]
            },
            batch_max: if is_calm {
                64
            } else {
                dice.between(1, 16) as usize
            },
            in_flight_max: if is_calm {
                4
            } else {
                dice.between(1, 4) as usize
            },
            timeout_us: us(Hooked::TIMEOUT_MS),
            ..QueueConfig::default()
        };
        Self {
            queue: Queue::new(config, Arc::clone(&cache)),
            plan,
            users,
            cache,
            dice,
            said: BTreeMap::new(),
            number: 0,
            away_until_ms: 0,
            unanswered: HashSet::new(),
            used: 0,
            is_asked: false,
            faults: Vec::new(),
        }
    }

    /// A worker asks; what is said at once.
    pub(crate) fn submit(
        &mut self,
        now_ms: u64,
        asker: Asker,
        question: Box<Question>,
        until_ms: u64,
    ) -> Option<Outcome> {
        if let Some(known) = self.cache.get(us(now_ms), &question) {
            return Some(Ok(known));
        }
        let taken = self.queue.submit(us(now_ms), asker, question, us(until_ms));
        if let Err(failure) = taken {
            return Some(Err(failure));
        }
        self.unanswered.insert(asker);
        self.is_asked = true;
        None
    }

    /// What it has answered before is asked for again.
    pub(crate) fn forget(&self) {
        self.cache.clear();
    }

    /// When [`Hook::step`] has something to do.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        if self.is_asked {
            return Some(0);
        }
        let queue = self.queue.next_deadline_us();
        let said = self.said.first_key_value();
        said.map(|((at_ms, _), _)| *at_ms)
            .into_iter()
            .chain(queue.map(|at_us| at_us.div_ceil(1_000)))
            .min()
    }

    /// Does what is due, and whatever follows from questions that were submitted.
    pub(crate) fn step(&mut self, now_ms: u64) -> Vec<(Asker, Outcome)> {
        self.is_asked = false;
        while let Some(entry) = self.said.first_entry() {
            if entry.key().0 > now_ms {
                break;
            }
            let (id, said) = entry.remove();
            match said {
                Ok(body) => self.queue.handle_answer(us(now_ms), id, &body),
                Err(failure) => self.queue.handle_failure(us(now_ms), id, failure),
            }
        }
        self.queue.handle_timeout(us(now_ms));
        while let Some(batch) = self.queue.poll_batch(us(now_ms)) {
            self.ask(now_ms, &batch);
        }
        while let Some(given_up) = self.queue.poll_given_up() {
            // Half of them come all the same.
            if self.dice.below(2) == 0 {
                self.said.retain(|_, (id, _)| *id != given_up);
            }
        }
        let mut answers = Vec::new();
        while let Some((asker, outcome)) = self.queue.poll_answer() {
            if !self.unanswered.remove(&asker) {
                self.faults
                    .push(format!("{asker:?} did not ask the hook, or is told twice"));
            }
            self.used += u64::from(outcome.is_ok());
            answers.push((asker, outcome));
        }
        answers
    }

    /// A request goes to the program.
    fn ask(&mut self, now_ms: u64, batch: &Batch) {
        let rtt_ms = self.plan.rtt_ms + self.dice.between(0, self.plan.rtt_ms / 2);
        if now_ms < self.away_until_ms {
            // No connection, or one that leads nowhere.
            if self.dice.below(4) > 0 {
                let failure = BatchFailure::Unreachable("no connection".to_owned());
                self.say(now_ms + 1, batch.id, Err(failure));
            }
            return;
        }
        let mut answers = self.answers(batch);
        let mut at_ms = now_ms + rtt_ms;
        if self.dice.thousandths(self.plan.failure) {
            match self.dice.below(9) {
                0 => {
                    self.away_until_ms = now_ms + self.dice.between(10, 8_000);
                    let failure = BatchFailure::Unreachable("closed".to_owned());
                    return self.say(now_ms + 1, batch.id, Err(failure));
                }
                1 => return,
                2 => at_ms += self.dice.between(100, 6_000),
                3 => self.say(at_ms + 1, batch.id, Ok(body(&answers))),
                4 => _ = answers.pop(),
                5 => {
                    for answer in &mut answers {
                        answer["id"] = json!(self.dice.below(100));
                    }
                }
                6 => {
                    if let Some(answer) = answers.first_mut() {
                        answer["action"] = json!("explode");
                    }
                }
                7 => return self.say(at_ms, batch.id, Ok(b"<html>".to_vec())),
                _ => {
                    let failure = BatchFailure::Refused("500".to_owned());
                    return self.say(at_ms, batch.id, Err(failure));
                }
            }
        }
        self.say(at_ms, batch.id, Ok(body(&answers)));
    }

    fn answers(&mut self, batch: &Batch) -> Vec<Value> {
        let Ok(asked) = serde_json::from_slice::<Value>(&batch.body) else {
            self.faults.push("a question is no JSON".to_owned());
            return Vec::new();
        };
        let questions = asked["questions"].as_array().cloned().unwrap_or_default();
        if questions.len() != batch.questions {
            self.faults
                .push("a request has not the questions that it counts".to_owned());
        }
        questions.iter().map(|of| self.answer(of)).collect()
    }

    fn answer(&mut self, question: &Value) -> Value {
        let id = &question["id"];
        if self.dice.thousandths(self.plan.rejects) {
            let status = [403, 486, 503, 603][self.dice.below(4) as usize];
            return json!({"id": id, "action": "reject", "status": status, "reason": "no", "cache_s": 1});
        }
        if question["kind"] != "registration" && self.dice.thousandths(self.plan.turns) {
            let other = self.dice.below(self.users as u64);
            let uri = format!("sip:user{other}@{DOMAIN}");
            return match self.dice.below(3) {
                0 => json!({"id": id, "action": "route", "to": "carrier"}),
                1 => json!({"id": id, "action": "route", "to": "no such group"}),
                _ if question["from"] == uri => json!({"id": id, "action": "continue"}),
                _ => json!({"id": id, "action": "rewrite", "request_uri": uri}),
            };
        }
        json!({"id": id, "action": "continue", "headers": {"X-Sim": "hook"}, "cache_s": 2})
    }

    fn say(&mut self, at_ms: u64, id: BatchId, said: Said) {
        self.number += 1;
        self.said.insert((at_ms, self.number), (id, said));
    }

    /// Questions that were never answered.
    pub(crate) fn left(&self) -> usize {
        self.unanswered.len()
    }
}

fn body(answers: &[Value]) -> Vec<u8> {
    let body = json!({"version": 1, "answers": answers});
    body.to_string().into_bytes()
}
