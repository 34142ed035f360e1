//! A modelled store behind a modelled way, on a virtual clock.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use fastrand::Rng;
use sip_auth::{Algorithm, DigestRequest, Qop, Subject};
use sip_lookup::{
    BatchAnswer, BatchId, Mode, Pipeline, PipelineConfig, Question, Rows, Tuning, Why,
};

/// A number from the environment.
pub(crate) fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
    )
}

/// The user of that number.
pub(crate) fn subject(realm: &Arc<str>, nth: u64) -> Subject {
    Subject::new(format!("user{nth}").as_bytes(), Arc::clone(realm))
}

/// A store with workers that take statements in the order in which they come, and the way
/// there and back.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) round_trip_us: u64,
    pub(crate) jitter_us: u64,
    pub(crate) query_us: f64,
    pub(crate) row_us: f64,
    workers: Vec<u64>,
}

impl Store {
    pub(crate) fn new(round_trip_us: u64, workers: usize, query_us: f64, row_us: f64) -> Self {
        Self {
            round_trip_us,
            jitter_us: round_trip_us / 100,
            query_us,
            row_us,
            workers: vec![0; workers],
        }
    }

    /// When the answer to a statement that is sent now is back.
    pub(crate) fn serve(&mut self, now_us: u64, rows: usize, random: &mut Rng) -> u64 {
        let arrives_us = now_us + self.half(random);
        let worker = self.workers.iter_mut().min().expect("a store has workers");
        let service_us = self.query_us + self.row_us * rows as f64;
        *worker = arrives_us.max(*worker) + service_us as u64;
        *worker + self.half(random)
    }

    /// It does nothing until then.
    pub(crate) fn stall(&mut self, until_us: u64) {
        for worker in &mut self.workers {
            *worker = until_us.max(*worker);
        }
    }

    fn half(&self, random: &mut Rng) -> u64 {
        self.round_trip_us / 2 + random.u64(0..=self.jitter_us / 2)
    }
}

/// What was seen in a stretch of time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) delays_us: Vec<u64>,
    pub(crate) asked: u64,
    pub(crate) refused: u64,
    pub(crate) failed: u64,
    pub(crate) statements: u64,
    pub(crate) rows: u64,
    pub(crate) passed_us: u64,
}

impl Seen {
    pub(crate) fn answered_per_s(&self) -> f64 {
        self.delays_us.len() as f64 * 1e6 / self.passed_us as f64
    }

    pub(crate) fn mean_us(&self) -> f64 {
        self.delays_us.iter().sum::<u64>() as f64 / self.delays_us.len() as f64
    }

    /// The delay that so many of a hundred do not exceed.
    pub(crate) fn percentile_us(&self, percent: f64) -> u64 {
        let mut sorted = self.delays_us.clone();
        sorted.sort_unstable();
        let at = (sorted.len() as f64 * percent / 100.0) as usize;
        sorted[at.min(sorted.len() - 1)]
    }

    pub(crate) fn mean_rows(&self) -> f64 {
        self.rows as f64 / self.statements as f64
    }
}

/// A pipeline with its store.
pub(crate) struct Bench {
    pub(crate) pipeline: Pipeline<u64>,
    pub(crate) store: Store,
    pub(crate) now_us: u64,
    random: Rng,
    realm: Arc<str>,
    /// When, to which, and how many rows; 0 where a digest was verified.
    answers: BinaryHeap<Reverse<(u64, BatchId, usize)>>,
    next_arrival_us: f64,
    pub(crate) deadline_us: u64,
    /// Timers fire at multiples of it.
    pub(crate) tick_us: u64,
    /// The store verifies digests, one by one.
    pub(crate) verifies: bool,
}

impl Bench {
    pub(crate) fn new(mode: Mode, store: Store) -> Self {
        let config = PipelineConfig {
            mode,
            in_flight_max: 1_024,
            tuning: Tuning::default(),
            ..PipelineConfig::default()
        };
        Self::with(config, store)
    }

    pub(crate) fn with(config: PipelineConfig, store: Store) -> Self {
        Self {
            pipeline: Pipeline::new(0, [3; 16], config, None),
            store,
            now_us: 0,
            random: Rng::with_seed(5),
            realm: Arc::from("example.org"),
            answers: BinaryHeap::new(),
            next_arrival_us: 0.0,
            deadline_us: 4_000_000,
            tick_us: 1,
            verifies: false,
        }
    }

    /// Has questions come by themselves at that rate for so long.
    pub(crate) fn run(&mut self, for_us: u64, per_s: f64) -> Seen {
        let until_us = self.now_us + for_us;
        let mut seen = Seen {
            passed_us: for_us,
            ..Seen::default()
        };
        self.next_arrival_us = self.now_us as f64 + self.gap_us(per_s);
        loop {
            let arrival_us = self.next_arrival_us as u64;
            let answer_us = self.answers.peek().map_or(u64::MAX, |Reverse(next)| next.0);
            let deadline_us = self.pipeline.next_deadline_us().unwrap_or(u64::MAX);
            let deadline_us = deadline_us
                .checked_next_multiple_of(self.tick_us)
                .unwrap_or(u64::MAX);
            let next_us = arrival_us.min(answer_us).min(deadline_us).max(self.now_us);
            if next_us >= until_us {
                self.now_us = until_us;
                return seen;
            }
            self.now_us = next_us;
            if answer_us == next_us {
                let Some(Reverse((_, id, rows))) = self.answers.pop() else {
                    panic!("an answer is due");
                };
                let answer = match rows {
                    0 => BatchAnswer::Verified(true),
                    rows => BatchAnswer::Rows(vec![Ok(None); rows]),
                };
                self.pipeline.handle_answer(next_us, id, answer);
            } else if arrival_us == next_us {
                self.ask(&mut seen);
                self.next_arrival_us += self.gap_us(per_s);
            } else {
                self.pipeline.handle_timeout(next_us);
            }
            self.drain(&mut seen);
        }
    }

    fn gap_us(&mut self, per_s: f64) -> f64 {
        -(1.0 - self.random.f64()).ln() * 1e6 / per_s
    }

    fn ask(&mut self, seen: &mut Seen) {
        let subject = subject(&self.realm, self.random.u64(0..1_000_000));
        let question = Question {
            digest: self.verifies.then(|| Box::new(digest(&subject))),
            subject,
            algorithm: Algorithm::Md5,
            why: Why::Digest,
        };
        let now_us = self.now_us;
        let taken = self
            .pipeline
            .submit(now_us, now_us, question, now_us + self.deadline_us);
        seen.asked += 1;
        seen.refused += u64::from(taken.is_err());
    }

    fn drain(&mut self, seen: &mut Seen) {
        while let Some(batch) = self.pipeline.poll_batch(self.now_us) {
            let (rows, digests) = match batch.rows {
                Rows::Secrets(rows) => (rows.len(), 0),
                Rows::Verify(_) => (0, 1),
            };
            assert_eq!(digests == 1, self.verifies);
            let answer_us = self
                .store
                .serve(self.now_us, rows + digests, &mut self.random);
            self.answers.push(Reverse((answer_us, batch.id, rows)));
            seen.statements += 1;
            seen.rows += (rows + digests) as u64;
        }
        while let Some((asked_us, outcome)) = self.pipeline.poll_answer() {
            match outcome {
                Ok(_) => seen.delays_us.push(self.now_us - asked_us),
                Err(_) => seen.failed += 1,
            }
        }
        while self.pipeline.poll_given_up().is_some() {}
    }
}

fn digest(subject: &Subject) -> DigestRequest {
    DigestRequest {
        user: subject.user().to_vec(),
        realm: Arc::clone(subject.realm()),
        nonce: Vec::new(),
        method: b"REGISTER".to_vec(),
        uri: Vec::new(),
        qop: Qop::Auth,
        algorithm: Algorithm::Md5,
        cnonce: Vec::new(),
        nonce_count: Vec::new(),
        response: Vec::new(),
        body_digest: None,
    }
}
