//! A small world: a few users, those who ask for them, replicas that fail in every way,
//! and a judge who knows what is true.

mod judge;
mod replicas;
mod report;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

use fastrand::Rng;
use sip_auth::{Algorithm, DigestRequest, Ha1, Qop, Subject};
use sip_lookup::{
    Asked, BatchAnswer, BatchFailure, BatchId, Cache, CacheConfig, Health, Mode, Pipeline,
    PipelineConfig, Question, Replica, Tuning, Why,
};

pub(crate) use report::Report;

const USERS: usize = 11;
/// Names from here on have no user, at first.
const STRANGERS_FROM: usize = 6;
/// Whose name the store cannot bear, whose row is of no use, and for whom there is no answer.
const POISON: usize = 8;
const BAD: usize = 9;
const MUTE: usize = 10;
const QUESTIONS: u64 = 150;
/// How long somebody waits past his deadline: timers have ticks of a millisecond.
const TICK_US: u64 = 1_000;

/// How a replica does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weather {
    Fair,
    /// Statements get lost.
    Silent,
    /// Connections are refused.
    Closed,
    /// Statements are answered wrongly.
    Mad,
    /// Statements are broken off.
    Busy,
    /// Connections end over whoever exists.
    Deadly,
    /// Whoever exists is refused.
    Refusing,
}

enum Event {
    Ask,
    Answer(BatchId, Said),
    Weather,
    Change,
    Heard(usize, Subject, bool),
}

/// What a replica says to a statement.
enum Said {
    Answer(BatchAnswer),
    Failure(BatchFailure),
}

struct Queued {
    at_us: u64,
    nth: u64,
    event: Event,
}

impl PartialEq for Queued {
    fn eq(&self, other: &Self) -> bool {
        self.nth == other.nth
    }
}
impl Eq for Queued {}
impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Queued {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_us, self.nth).cmp(&(other.at_us, other.nth))
    }
}

/// A question that was taken.
struct Open {
    user: usize,
    algorithm: Algorithm,
    verifies: Option<bool>,
    asked_us: u64,
    deadline_us: u64,
    /// The user's version when it was asked.
    version: u32,
}

/// The versions that a user has had, and since when; `None` where there was no such user.
struct User {
    subject: Subject,
    versions: Vec<(u64, bool)>,
}

pub(crate) struct World {
    random: Rng,
    now_us: u64,
    nth: u64,
    events: BinaryHeap<Reverse<Queued>>,
    pipeline: Pipeline<u64>,
    cache: Option<Arc<Cache>>,
    config: PipelineConfig,
    /// The largest of each bound that any configuration has had.
    questions_max: usize,
    in_flight_max: usize,
    timeout_us: u64,
    lifetime_us: u64,
    negative_lifetime_us: u64,
    stale_us: u64,
    verifies: bool,
    /// What comes for him who has no answer: the end of a connection, or nothing.
    mute_closes: bool,
    weather: Vec<Weather>,
    /// How bad it gets; 0 is fair always.
    badness: u64,
    users: Vec<User>,
    asks_left: u64,
    next_tag: u64,
    open: BTreeMap<u64, Open>,
    /// Of each user, the questions that were taken, in their order.
    order: Vec<VecDeque<u64>>,
    asked: Asked,
    /// The newest version that each user's thread was told.
    told: Vec<u32>,
    in_flight: BTreeMap<BatchId, ()>,
    report: Report,
}

fn ha1(user: usize, version: u32, algorithm: Algorithm) -> Ha1 {
    let mut digest = vec![0xa5; algorithm.digest_len()];
    digest[0] = user as u8;
    digest[1..5].copy_from_slice(&version.to_be_bytes());
    Ha1::from_bytes(algorithm, &digest).expect("the length is the algorithm's")
}

/// Whose and which secret it is.
fn read(ha1: &Ha1) -> (usize, u32) {
    let digest = ha1.expose();
    let version = u32::from_be_bytes(digest[1..5].try_into().expect("four bytes"));
    (digest[0] as usize, version)
}

/// Any bounds.
fn config(random: &mut Rng) -> PipelineConfig {
    let mode = match random.u8(0..8) {
        0 => Mode::Blocking {
            processes: random.usize(1..4),
            batch: random.usize(1..6),
        },
        1..3 => Mode::Fixed {
            interval_us: random.u64(0..5_000),
            batch_max: random.usize(1..8),
            in_flight_max: random.usize(1..6),
        },
        _ => Mode::Tuned,
    };
    PipelineConfig {
        mode,
        replicas: random.usize(1..4),
        questions_max: random.usize(5..100),
        batch_max: random.usize(1..9),
        in_flight_max: random.usize(1..9),
        timeout_us: random.u64(50_000..400_000),
        failures_max: random.u32(1..5),
        probe_interval_us: random.u64(20_000..300_000),
        tuning: Tuning::default(),
    }
}

/// Statements in flight, without those that find out whether replicas are back.
fn in_flight_max(config: &PipelineConfig) -> usize {
    match config.mode {
        Mode::Tuned => config.in_flight_max,
        Mode::Fixed { in_flight_max, .. } => in_flight_max,
        Mode::Blocking { processes, .. } => processes,
    }
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let mut config = config(&mut random);
        let mut cache_config = CacheConfig {
            entries_max: random.usize(2..12),
            strangers_max: random.usize(1..6),
            negatives_max: random.usize(0..4),
            lifetime_us: random.u64(50_000..2_000_000),
            negative_lifetime_us: random.u64(20_000..1_000_000),
            refresh_ahead_us: random.u64(0..500_000),
            stale_us: random.u64(0..3_000_000),
            bytes_max: random.usize(1_000..20_000),
        };
        // What the cache wants renewed pays for names that are not there where it meets them in a
        // statement: it does where much is renewed, and statements are far apart.
        let renews = random.u8(0..4) == 0;
        if renews {
            config.mode = Mode::Fixed {
                interval_us: random.u64(10_000..200_000),
                batch_max: 10,
                in_flight_max: 6,
            };
            config.batch_max = 10;
            cache_config.entries_max = 20;
            cache_config.strangers_max = 10;
            cache_config.negatives_max = 4;
            cache_config.refresh_ahead_us = cache_config.lifetime_us;
            cache_config.bytes_max = 20_000;
        }
        let verifies = random.u8(0..10) == 0;
        let cache = (!verifies && (renews || random.bool()))
            .then(|| Arc::new(Cache::new([9; 16], cache_config)));
        let realm: Arc<str> = Arc::from("example.org");
        let users = (0..USERS).map(|nth| User {
            subject: Subject::new(&[b'a' + nth as u8], Arc::clone(&realm)),
            versions: vec![(0, !(STRANGERS_FROM..POISON).contains(&nth))],
        });
        let mut world = Self {
            now_us: 0,
            nth: 0,
            events: BinaryHeap::new(),
            pipeline: Pipeline::new(0, [9; 16], config, cache.clone()),
            cache,
            lifetime_us: cache_config.lifetime_us,
            negative_lifetime_us: cache_config.negative_lifetime_us,
            stale_us: cache_config.stale_us,
            verifies,
            mute_closes: random.bool(),
            weather: vec![Weather::Fair; config.replicas],
            badness: random.u64(0..7),
            users: users.collect(),
            questions_max: config.questions_max,
            in_flight_max: in_flight_max(&config),
            timeout_us: config.timeout_us,
            config,
            asks_left: QUESTIONS,
            next_tag: 0,
            open: BTreeMap::new(),
            order: (0..USERS).map(|_| VecDeque::new()).collect(),
            asked: Asked::new([9; 16]),
            told: vec![0; USERS],
            in_flight: BTreeMap::new(),
            report: Report::default(),
            random,
        };
        world.after(0, Event::Ask);
        world.after(50_000, Event::Weather);
        world.after(70_000, Event::Change);
        world
    }

    fn after(&mut self, delay_us: u64, event: Event) {
        self.nth += 1;
        self.events.push(Reverse(Queued {
            at_us: self.now_us + delay_us,
            nth: self.nth,
            event,
        }));
    }

    /// Plays until nobody asks, nothing is left and replicas are found back, and says what
    /// happened.
    pub(crate) fn play(mut self) -> Report {
        let mut steps = 0;
        let mut found_by_us = None;
        loop {
            steps += 1;
            assert!(
                steps < 20_000,
                "the world goes on for ever at {} us: {} open, {} in flight, {:?}, {:?}",
                self.now_us,
                self.open.len(),
                self.in_flight.len(),
                self.config,
                self.pipeline.figures()
            );
            let event_us = self.events.peek().map(|Reverse(next)| next.at_us);
            let is_over = self.asks_left == 0 && self.open.is_empty() && self.in_flight.is_empty();
            let is_over = is_over && self.pipeline.is_idle();
            if is_over && found_by_us.is_none() {
                // All is fair by now. One of two probes asks what is answered.
                let probes_us = 2 * self.config.probe_interval_us;
                found_by_us = Some(self.now_us + probes_us + self.timeout_us);
            }
            let is_over = is_over && found_by_us.is_some_and(|us| us <= self.now_us);
            let deadline_us = match is_over {
                // What renews the cache would go on.
                true => None,
                false => self.pipeline.next_deadline_us(),
            };
            let Some(next_us) = [event_us, deadline_us].into_iter().flatten().min() else {
                break;
            };
            self.now_us = self.now_us.max(next_us);
            if event_us.is_some_and(|us| us <= next_us) {
                let Some(Reverse(queued)) = self.events.pop() else {
                    panic!("an event is due");
                };
                self.happen(queued.event);
            } else {
                self.pipeline.handle_timeout(self.now_us);
            }
            self.drain();
        }
        self.end()
    }

    fn end(mut self) -> Report {
        assert!(self.open.is_empty(), "questions without an answer");
        assert!(self.order.iter().all(VecDeque::is_empty));
        let figures = self.pipeline.figures();
        assert_eq!(figures.queued, 0);
        assert_eq!(figures.in_flight, 0);
        assert!(self.pipeline.is_idle(), "something is left: {figures:?}");
        for user in &self.users {
            assert!(!self.asked.holds(&user.subject));
        }
        let health = (0..self.config.replicas).map(|nth| self.pipeline.health(Replica(nth)));
        let health: Vec<Health> = health.collect();
        assert!(
            health.iter().all(|health| *health == Health::Healthy),
            "not found back: {health:?}"
        );
        self.report.joined = figures.joined;
        self.report.overtaken = figures.overtaken;
        self.report.retried = figures.retried;
        self.report.passengers = figures.passengers;
        self.report.refreshes = figures.refreshes;
        self.report.expired = figures.expired + figures.expired_unasked;
        self.report.breaks = figures.breaks;
        self.report.unasked = figures.unasked;
        if let Some(cache) = &self.cache {
            self.report.stale = cache.figures().stale;
        }
        self.report
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Ask => self.ask_some(),
            Event::Answer(id, said) => self.answer(id, said),
            Event::Weather => self.turn_weather(),
            Event::Change => self.change(),
            Event::Heard(user, subject, is_confirmed) => {
                self.asked.end(&subject);
                if is_confirmed && let Some(cache) = &self.cache {
                    cache.confirm(&self.users[user].subject);
                }
            }
        }
    }

    fn ask_some(&mut self) {
        let many = match self.random.u8(0..10) {
            0 => self.random.u64(1..20),
            _ => 1,
        };
        for _ in 0..many.min(self.asks_left) {
            self.asks_left -= 1;
            self.ask();
        }
        if self.asks_left > 0 {
            // Now and then it is quiet for so long that what is held grows old.
            let pause_us = match self.random.u8(0..30) {
                0 => self.random.u64(0..2_000_000),
                _ => self.random.u64(0..20_000),
            };
            self.after(pause_us, Event::Ask);
        } else {
            // Replicas that stay away are tried for ever.
            self.weather.fill(Weather::Fair);
        }
    }

    fn ask(&mut self) {
        let user = self.random.usize(0..USERS);
        let subject = self.users[user].subject.clone();
        let algorithm = match self.random.u8(0..4) {
            0 => Algorithm::Sha256,
            _ => Algorithm::Md5,
        };
        self.report.asked += 1;
        let mut why = match self.cache {
            Some(_) => Why::DigestUncached,
            None => Why::Digest,
        };
        if let Some(cache) = self.cache.clone()
            && !self.asked.holds(&subject)
            && let Some(reply) = cache.get(self.now_us, &subject, algorithm)
        {
            self.judge_hit(user, &reply);
            // Some have the password.
            if self.random.bool() {
                cache.confirm(&subject);
                self.report.hits += 1;
                return;
            }
            why = Why::DigestAgain;
        }
        let verifies = self.verifies.then(|| self.random.bool());
        let deadline_us = self.now_us
            + match self.random.u8(0..5) {
                0 => self.random.u64(0..50_000),
                _ => self.random.u64(500_000..2_000_000),
            };
        let question = Question {
            subject: subject.clone(),
            algorithm,
            digest: verifies.map(|is_right| Box::new(digest(&subject, is_right))),
            why,
        };
        let tag = self.next_tag;
        self.next_tag += 1;
        let now_us = self.now_us;
        match self.pipeline.submit(now_us, tag, question, deadline_us) {
            Ok(()) => {
                self.asked.begin(&subject);
                self.order[user].push_back(tag);
                self.open.insert(
                    tag,
                    Open {
                        user,
                        algorithm,
                        verifies,
                        asked_us: now_us,
                        deadline_us,
                        version: self.version(user),
                    },
                );
            }
            Err(why) => {
                assert!(why.retry_after_s.is_none_or(|s| (1..=60).contains(&s)));
                self.report.refused += 1;
            }
        }
        assert!(self.open.len() <= self.questions_max);
    }

    fn version(&self, user: usize) -> u32 {
        (self.users[user].versions.len() - 1) as u32
    }

    fn drain(&mut self) {
        while let Some(id) = self.pipeline.poll_given_up() {
            assert!(
                self.in_flight.remove(&id).is_some(),
                "given up without being in flight"
            );
        }
        while let Some(batch) = self.pipeline.poll_batch(self.now_us) {
            self.send(batch);
        }
        while let Some((tag, outcome)) = self.pipeline.poll_answer() {
            self.judge(tag, outcome);
        }
    }

    fn turn_weather(&mut self) {
        if self.asks_left == 0 {
            return;
        }
        let replica = self.random.usize(0..self.weather.len());
        self.weather[replica] = match self.random.u64(0..8) {
            nth if nth >= self.badness => Weather::Fair,
            0 => Weather::Silent,
            1 => Weather::Closed,
            2 => Weather::Mad,
            3 => Weather::Busy,
            4 => Weather::Deadly,
            _ => Weather::Refusing,
        };
        let pause_us = self.random.u64(10_000..600_000);
        self.after(pause_us, Event::Weather);
    }

    /// The operator sets other bounds, of the same replicas; what joins goes on joining.
    fn reload(&mut self) {
        let joins = |config: &PipelineConfig| !matches!(config.mode, Mode::Blocking { .. });
        let mut next = config(&mut self.random);
        next.replicas = self.config.replicas;
        next.probe_interval_us = self.config.probe_interval_us;
        if joins(&next) != joins(&self.config) {
            next.mode = self.config.mode;
        }
        self.questions_max = self.questions_max.max(next.questions_max);
        self.in_flight_max = self.in_flight_max.max(in_flight_max(&next));
        self.timeout_us = self.timeout_us.max(next.timeout_us);
        self.config = next;
        self.pipeline.reload(next);
    }

    /// A user changes his password, comes or goes; it may be announced.
    fn change(&mut self) {
        if self.random.u8(0..20) == 0 {
            self.reload();
        }
        let user = self.random.usize(0..POISON);
        let exists = self.random.u8(0..4) > 0;
        self.users[user].versions.push((self.now_us, exists));
        if let Some(cache) = &self.cache {
            match self.random.u8(0..4) {
                0 => {
                    cache.invalidate(&self.users[user].subject);
                    self.told[user] = self.version(user);
                }
                1 => {
                    cache.invalidate_all();
                    for other in 0..USERS {
                        self.told[other] = self.version(other);
                    }
                }
                _ => {}
            }
        }
        if self.asks_left > 0 {
            let pause_us = self.random.u64(10_000..300_000);
            self.after(pause_us, Event::Change);
        }
    }
}

fn digest(subject: &Subject, is_right: bool) -> DigestRequest {
    DigestRequest {
        user: subject.user().to_vec(),
        realm: Arc::clone(subject.realm()),
        nonce: Vec::new(),
        method: b"INVITE".to_vec(),
        uri: Vec::new(),
        qop: Qop::Auth,
        algorithm: Algorithm::Md5,
        cnonce: Vec::new(),
        nonce_count: Vec::new(),
        response: match is_right {
            true => b"right".to_vec(),
            false => b"wrong".to_vec(),
        },
        body_digest: None,
    }
}
