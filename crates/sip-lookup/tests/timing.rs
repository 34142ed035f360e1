//! A refusal takes as long whatever is known of the name: held in the cache, there and not
//! held, known not to be there, or new; and of two that come at once the first is of who asked
//! first. On a clock without noise, among users' traffic.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

mod support;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use fastrand::Rng;
use sip_auth::{Algorithm, Ha1, Secrets, Subject};
use sip_lookup::{
    BatchAnswer, BatchId, Cache, CacheConfig, Mode, Pipeline, PipelineConfig, Question, Rows, Why,
};
use support::{Store, subject};

const REFUSALS: usize = 20_000;
/// Users who call, and are held; those who exist and never do.
const CALLERS: u64 = 500;
const SLEEPERS: u64 = 500_000;
/// Names that are tried again and again, and do not exist.
const KNOWN_GHOSTS: u64 = 200;
/// Questions a second: of users, and of the one who tries names. So few that each leaves at once
/// where the tuner decides: a wait for company would hide small differences.
const USERS_PER_S: f64 = 800.0;
const GUESSES_PER_S: f64 = 400.0;

/// What is known of a name that is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Held,
    NotHeld,
    KnownGhost,
    NewGhost,
}

const SORTS: [Sort; 4] = [Sort::Held, Sort::NotHeld, Sort::KnownGhost, Sort::NewGhost];

struct Scene {
    random: Rng,
    realm: Arc<str>,
    now_us: u64,
    cache: Arc<Cache>,
    pipeline: Pipeline<Option<(Sort, u64)>>,
    store: Store,
    answers: BinaryHeap<Reverse<(u64, BatchId, Vec<u64>)>>,
    delays_us: [Vec<f64>; 4],
    next_name: u64,
}

/// Numbers below this are of users who exist.
const GHOSTS_FROM: u64 = CALLERS + SLEEPERS;

impl Scene {
    fn new(mode: Mode) -> Self {
        let cache = Arc::new(Cache::new(
            [4; 16],
            CacheConfig {
                lifetime_us: 2_000_000,
                refresh_ahead_us: 500_000,
                negative_lifetime_us: 10_000_000,
                ..CacheConfig::default()
            },
        ));
        let config = PipelineConfig {
            mode,
            ..PipelineConfig::default()
        };
        let mut store = Store::new(30_000, 4, 150.0, 15.0);
        store.jitter_us = 100;
        Self {
            random: Rng::with_seed(11),
            realm: Arc::from("example.org"),
            now_us: 0,
            pipeline: Pipeline::new(0, [4; 16], config, Some(Arc::clone(&cache))),
            cache,
            store,
            answers: BinaryHeap::new(),
            delays_us: Default::default(),
            next_name: 0,
        }
    }

    fn gap_us(&mut self, per_s: f64) -> f64 {
        -(1.0 - self.random.f64()).ln() * 1e6 / per_s
    }

    fn play(&mut self) {
        let (mut user_us, mut guess_us) = (0.0, 3_000_000.0);
        while self.delays_us.iter().any(|delays| delays.len() < REFUSALS) {
            let answer_us = self.answers.peek().map_or(u64::MAX, |Reverse(next)| next.0);
            let deadline_us = self.pipeline.next_deadline_us().unwrap_or(u64::MAX);
            let arrival_us = (user_us as u64).min(guess_us as u64);
            let next_us = arrival_us.min(answer_us).min(deadline_us).max(self.now_us);
            self.now_us = next_us;
            if answer_us == next_us {
                self.answer();
            } else if user_us as u64 == next_us {
                self.call();
                user_us += self.gap_us(USERS_PER_S);
            } else if guess_us as u64 == next_us {
                self.guess();
                guess_us += self.gap_us(GUESSES_PER_S);
            } else {
                self.pipeline.handle_timeout(next_us);
            }
            self.drain();
        }
    }

    fn ask(&mut self, tag: Option<(Sort, u64)>, subject: Subject, why: Why) {
        let question = Question {
            subject,
            algorithm: Algorithm::Md5,
            digest: None,
            why,
        };
        let deadline_us = self.now_us + 4_000_000;
        let taken = self
            .pipeline
            .submit(self.now_us, tag, question, deadline_us);
        taken.expect("nothing is in want here");
    }

    /// A user calls, with the right password.
    fn call(&mut self) {
        let subject = subject(&self.realm, self.random.u64(0..CALLERS));
        let found = self.cache.get(self.now_us, &subject, Algorithm::Md5);
        match found {
            Some(_) => self.cache.confirm(&subject),
            None => self.ask(None, subject, Why::DigestUncached),
        }
    }

    /// Somebody tries a wrong one.
    fn guess(&mut self) {
        let sort = SORTS[self.random.usize(0..SORTS.len())];
        self.next_name += 1;
        let nth = match sort {
            Sort::Held => self.random.u64(0..CALLERS),
            Sort::NotHeld => CALLERS + self.next_name % SLEEPERS,
            Sort::KnownGhost => GHOSTS_FROM + self.random.u64(0..KNOWN_GHOSTS),
            Sort::NewGhost => GHOSTS_FROM + KNOWN_GHOSTS + self.next_name,
        };
        let subject = subject(&self.realm, nth);
        let held = self.cache.get(self.now_us, &subject, Algorithm::Md5);
        let why = match held {
            Some(_) => Why::DigestAgain,
            None => Why::DigestUncached,
        };
        self.ask(Some((sort, self.now_us)), subject, why);
    }

    fn answer(&mut self) {
        let Some(Reverse((_, id, names))) = self.answers.pop() else {
            panic!("an answer is due");
        };
        let row = |nth: u64| {
            (nth < GHOSTS_FROM).then(|| {
                let mut secrets = Secrets::default();
                secrets.insert(Ha1::from_bytes(Algorithm::Md5, &[nth as u8; 16]).unwrap());
                secrets
            })
        };
        let rows = names.into_iter().map(|nth| Ok(row(nth))).collect();
        self.pipeline
            .handle_answer(self.now_us, id, BatchAnswer::Rows(rows));
    }

    fn drain(&mut self) {
        while let Some(batch) = self.pipeline.poll_batch(self.now_us) {
            let Rows::Secrets(subjects) = batch.rows else {
                panic!("nothing is verified here");
            };
            let number = |subject: &Subject| {
                let digits = std::str::from_utf8(&subject.user()[4..]).unwrap();
                digits.parse().unwrap()
            };
            let names: Vec<u64> = subjects.iter().map(number).collect();
            let answer_us = self.store.serve(self.now_us, names.len(), &mut self.random);
            self.answers.push(Reverse((answer_us, batch.id, names)));
        }
        let mut before_us = 0;
        while let Some((tag, outcome)) = self.pipeline.poll_answer() {
            assert!(outcome.is_ok());
            if let Some((sort, asked_us)) = tag {
                assert!(asked_us >= before_us, "{sort:?} is answered too late");
                before_us = asked_us;
                let delays = &mut self.delays_us[sort as usize];
                if delays.len() < REFUSALS {
                    delays.push((self.now_us - asked_us) as f64);
                }
            }
        }
    }
}

/// The largest distance between the distributions of two samples (Kolmogorov, Smirnov).
fn distance(a: &[f64], b: &[f64]) -> f64 {
    let sorted = |sample: &[f64]| {
        let mut sorted = sample.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted
    };
    let (a, b) = (sorted(a), sorted(b));
    let below = |sample: &[f64], x: f64| {
        sample.partition_point(|&other| other <= x) as f64 / sample.len() as f64
    };
    let points = a.iter().chain(&b);
    points
        .map(|&x| (below(&a, x) - below(&b, x)).abs())
        .fold(0.0, f64::max)
}

/// Past it two samples of so many differ: one in a thousand sets of twelve comparisons gets
/// there by chance.
fn critical() -> f64 {
    2.25 * (2.0 / REFUSALS as f64).sqrt()
}

#[test]
fn refusals_take_as_long_whatever_is_known_of_the_name() {
    for mode in [
        Mode::Tuned,
        Mode::Fixed {
            interval_us: 2_000,
            batch_max: 64,
            in_flight_max: 64,
        },
    ] {
        let mut scene = Scene::new(mode);
        scene.play();
        let figures = scene.pipeline.figures();
        let cached = scene.cache.figures();
        println!("{mode:?}: {figures:?}, {cached:?}");
        assert!(cached.hits > REFUSALS as u64 / 2 && cached.negative > 0);
        assert!(figures.refreshes > 0 && (mode == Mode::Tuned || figures.passengers > 0));
        for (nth, a) in SORTS.iter().enumerate() {
            for b in &SORTS[nth + 1..] {
                let (left, right) = (&scene.delays_us[*a as usize], &scene.delays_us[*b as usize]);
                let distance = distance(left, right);
                println!("{a:?} and {b:?}: {distance:.4} of {:.4}", critical());
                assert!(distance < critical(), "{mode:?}: {a:?} and {b:?} differ");
            }
        }
        if mode == Mode::Tuned {
            // Were a statement one row shorter, it would be seen.
            let held = &scene.delays_us[Sort::Held as usize];
            let shorter: Vec<f64> = held.iter().map(|delay_us| delay_us - 15.0).collect();
            assert!(distance(held, &shorter) > critical());
        }
    }
}
