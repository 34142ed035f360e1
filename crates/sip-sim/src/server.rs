//! The server: its workers, as they are in service, and what of it outlives the process.

mod settings;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use sip_auth::{AuthConfig, Authenticator, Ha1Set, Reply};
use sip_engine::budget::Share;
use sip_engine::shard::Seed;
use sip_engine::token::TokenKeys;
use sip_engine::{Binding, BindingChange, Budget, Location, Now, ParkId, Settings, Shard, Shared};
use sip_limit::{Guard, Rates};
use sip_locate::{Hop, LocateError, Options};
use sip_lookup::{Cache, CacheConfig, Unavailable};
use sip_msg::{ConnId, Flow, Outbox};
use sip_worker::{Control, Mailbox, Parts, Phase, Severities, SocketEvent, StoreAnswer, Worker};

use crate::Dice;
use crate::distant::{Distant, Tag, Users};
use crate::dns::Lookup;
use crate::environment::{Bell, Front, Question, Questions, Silent, Simulated, Sockets};
use crate::plan::{Plan, Store};
use crate::warden::{Bindings, MALLORY};

use settings::settings;
pub(crate) use settings::{CARRIERS, DOMAIN, GATEWAY, NEIGHBOUR, SERVER, carrier, foreign};

/// When the virtual clocks begin, in milliseconds since 1970.
const UNIX_START_MS: u64 = 1_800_000_000_000;
/// What a worker that has nothing under way may hold more than a new one: tables that
/// have grown, and the room for what one turn sends, of which a trim leaves 256 KiB.
const IDLE_BYTES: usize = (128 + 256) << 10;

/// An address-of-record and a contact's identity: what names a row of the database.
type Row = (Arc<[u8]>, Arc<[u8]>);

/// What arrives at a worker's sockets.
#[derive(Debug)]
pub(crate) enum Arrival {
    Message { flow: Flow, bytes: Vec<u8> },
    SendFailed { cookie: u64, was_written: bool },
    Closed(ConnId),
    Unreachable { remote: SocketAddr, quoted: Vec<u8> },
}

/// What the store and the resolver do.
pub(crate) enum Answer {
    /// Told to a worker.
    Store(usize, StoreAnswer),
    /// A change is durable from now on.
    Durable(Vec<BindingChange>),
    /// A resolution goes on.
    Lookup(Lookup),
    /// A resolution is over.
    Resolved(usize, ParkId, Result<Vec<Hop>, LocateError>),
}

/// What a worker's turn led to.
#[derive(Default)]
pub(crate) struct Turned {
    pub(crate) worker: usize,
    pub(crate) outbox: Outbox,
    pub(crate) closes: Vec<ConnId>,
    pub(crate) ended_calls: Vec<u64>,
    pub(crate) answers: Vec<(u64, Answer)>,
    pub(crate) faults: Vec<String>,
    /// Whether the store had told something, so that the table may have changed.
    pub(crate) was_told: bool,
}

pub(crate) struct Server {
    plan: Plan,
    /// The settings in force.
    settings: Arc<Settings>,
    users: Arc<Users>,
    node_secret: [u8; 32],
    token_secret: [u8; 32],
    /// The table of the database, by address-of-record and contact.
    durable: BTreeMap<Row, Arc<Binding>>,
    dice: Dice,
    process: Option<Process>,
    starts: u32,
    /// What all processes counted.
    pub(crate) figures: Figures,
}

/// What the workers of all processes have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) handed_over: u64,
    pub(crate) refused: u64,
    pub(crate) malformed: u64,
    pub(crate) resolved: u64,
    /// Look-ups that a cache answered.
    pub(crate) cached: u64,
    /// Answers of databases at a distance.
    pub(crate) batches: u64,
}

/// The process: what is gone when it ends.
struct Process {
    seats: Vec<Seat>,
    control: Arc<Control<(), Bell>>,
    mailboxes: Vec<Arc<Mailbox<Bell>>>,
    location: Arc<Location>,
    budget: Arc<Budget>,
    /// What shards hold that have seen nothing yet.
    fresh_bytes: u64,
    /// When the store's last answer to a change is due: they are a queue.
    saved_ms: u64,
    /// The database of users, where it is not on this machine.
    distant: Option<Distant>,
    /// What the store was asked to save and no worker was told yet.
    saves: HashMap<(usize, ParkId), Vec<BindingChange>>,
}

/// A worker with what is its own.
struct Seat {
    worker: Worker<Simulated>,
    sockets: Sockets,
    bell: Bell,
    asked: Questions,
    arrivals: VecDeque<Arrival>,
    /// When it wants to be woken.
    due_ms: Option<u64>,
    /// When it will look at what has come.
    look_ms: Option<u64>,
    /// What the store tells it in its next turn.
    told: Vec<(ParkId, bool)>,
}

impl Seat {
    /// The store tells its worker something.
    fn is_told(&mut self, answer: StoreAnswer) {
        self.asked.with(|asked| asked.answers.push(answer));
        sip_worker::Wake::wake(&self.bell);
    }
}

pub(crate) fn now(now_ms: u64) -> Now {
    Now {
        mono_ms: now_ms,
        unix_ms: UNIX_START_MS + now_ms,
    }
}

impl Server {
    pub(crate) fn new(plan: &Plan, users: &[String]) -> Self {
        let mut dice = Dice::new(plan.seed, 3);
        let honest = users.iter().map(|user| (user.as_str(), "secret"));
        let hostile = plan.hostility.map(|_| (MALLORY, "mallory's own"));
        let sets = honest.chain(hostile).map(|(user, password)| {
            let set = Ha1Set::compute(user.as_bytes(), DOMAIN.as_bytes(), password.as_bytes());
            (user.as_bytes().to_vec(), set)
        });
        let mut server = Self {
            plan: plan.clone(),
            settings: Arc::new(settings(plan, 0)),
            users: Arc::new(sets.collect()),
            node_secret: dice.bytes(),
            token_secret: dice.bytes(),
            durable: BTreeMap::new(),
            dice,
            process: None,
            starts: 0,
            figures: Figures::default(),
        };
        server.start(0);
        server
    }

    /// A process begins with what is durable.
    pub(crate) fn start(&mut self, now_ms: u64) {
        self.starts += 1;
        let dice = &mut self.dice;
        let location = Arc::new(Location::new(10_000, dice.bytes()));
        for ((aor, key), binding) in &self.durable {
            let mut binding = Arc::clone(binding);
            if let Some(flow) = &mut Arc::make_mut(&mut binding).flow {
                flow.conn = ConnId::NONE;
            }
            location.apply(&[BindingChange::Put {
                aor: Arc::clone(aor),
                key: Arc::clone(key),
                binding,
            }]);
        }
        let guard = Arc::new(Guard::new(dice.bytes(), sip_limit::Limits::default()));
        let epoch = self.starts;
        let shared = Arc::new(Shared {
            location: Arc::clone(&location),
            authenticator: Arc::new(Authenticator::new(
                AuthConfig::default(),
                &self.node_secret,
                epoch,
            )),
            guard: Arc::clone(&guard),
            token_keys: Arc::new(TokenKeys::of(self.token_secret, epoch)),
            gateways: Arc::default(),
            rates: Arc::new(Rates::new([10; 16])),
        });
        let workers = self.plan.workers;
        let bells: Vec<Bell> = (0..workers).map(|_| Bell::default()).collect();
        let mailboxes: Vec<_> = bells
            .iter()
            .map(|bell| Mailbox::new(self.plan.handover_max, bell.clone()))
            .collect();
        let control = Arc::new(Control::new(workers));
        control.set_mailboxes(mailboxes.clone());
        let one = Shard::new(
            Arc::clone(&self.settings),
            Arc::clone(&shared),
            Seed([0; 32]),
        );
        let fresh_bytes = (one.held_bytes() * self.plan.workers) as u64;
        let memory_bytes = fresh_bytes + self.plan.memory_bytes * self.plan.workers as u64;
        let budget = Arc::new(Budget::new(memory_bytes));
        let severities: Severities = (0..workers).map(|_| AtomicU32::new(0)).collect();
        let shard_key = dice.bytes();
        let distance = self.plan.distance;
        // Dice of its own: the same worlds come about with it and without.
        let mut far = Dice::new(self.plan.seed ^ u64::from(self.starts), 8);
        let cache = distance.filter(|of| of.has_cache).map(|_| {
            let config = CacheConfig {
                lifetime_us: far.between(1, 60) * 1_000_000,
                ..CacheConfig::default()
            };
            Arc::new(Cache::new(far.bytes(), config))
        });
        let distant = distance.map(|distance| {
            let dice = Dice::new(far.throw(), 9);
            let users = Arc::clone(&self.users);
            Distant::new(now_ms, distance, dice, users, cache.clone())
        });
        let seats = bells.into_iter().enumerate().map(|(index, bell)| {
            let front = cache.clone().map(|cache| Front::new(cache, far.bytes()));
            let asked = Questions::new(Dice::new(dice.throw(), 7), self.plan.store.full, front);
            let parts = Parts {
                index,
                shard: Shard::new(
                    Arc::clone(&self.settings),
                    Arc::clone(&shared),
                    Seed(dice.bytes()),
                ),
                limits: self.settings.limits,
                mailboxes: mailboxes.clone(),
                shard_key,
                store: asked.clone(),
                resolver: asked.clone(),
                control: Arc::clone(&control),
                trace: Silent,
                retry_after_s: self.settings.bounds.retry_after_s,
                memory: Share::new(Arc::clone(&budget)),
                queue_ms_max: 100,
                guard: Arc::clone(&guard),
                uses_aliases: false,
                severities: Arc::clone(&severities),
            };
            Seat {
                worker: Worker::new(parts, now(now_ms)),
                sockets: Sockets::default(),
                bell,
                asked,
                arrivals: VecDeque::new(),
                due_ms: None,
                look_ms: None,
                told: Vec::new(),
            }
        });
        let seats: Vec<Seat> = seats.collect();
        self.process = Some(Process {
            fresh_bytes,
            seats,
            control,
            mailboxes: mailboxes.clone(),
            location,
            budget,
            saved_ms: 0,
            distant,
            saves: HashMap::new(),
        });
    }

    /// The process is killed. Returned are the users whose changes were under way.
    pub(crate) fn kill(&mut self) -> HashSet<Vec<u8>> {
        self.count();
        let process = self.process.take();
        let saves = process.iter().flat_map(|process| process.saves.values());
        saves
            .flatten()
            .map(|change| change.aor().to_vec())
            .collect()
    }

    pub(crate) fn is_up(&self) -> bool {
        self.process.is_some()
    }

    /// All workers are given other settings.
    pub(crate) fn reload(&mut self, generation: u64) {
        self.settings = Arc::new(settings(&self.plan, generation));
        if let Some(process) = &self.process {
            process.control.reload(Arc::clone(&self.settings));
        }
    }

    /// Whether all workers go by the newest settings.
    pub(crate) fn is_taken_over(&self) -> bool {
        let process = self.process.as_ref();
        process.is_none_or(|process| process.control.is_taken_over())
    }

    pub(crate) fn order(&mut self, phase: Phase) {
        if let Some(process) = &self.process {
            process.control.order(phase);
        }
    }

    /// Whether the listeners are closed.
    pub(crate) fn accepts(&self) -> bool {
        let process = self.process.as_ref();
        process.is_some_and(|process| process.seats.iter().all(|seat| !seat.sockets.has_stopped))
    }

    /// Something arrives at a worker's sockets.
    pub(crate) fn arrive(&mut self, worker: usize, arrival: Arrival) {
        let process = self.process.as_mut();
        if let Some(seat) = process.and_then(|process| process.seats.get_mut(worker)) {
            seat.arrivals.push_back(arrival);
        }
    }

    /// The store or the resolver does something; perhaps with something to follow.
    pub(crate) fn take_answer(&mut self, now_ms: u64, answer: Answer) -> Option<(u64, Answer)> {
        let worker = match answer {
            Answer::Durable(changes) => {
                for change in changes {
                    match change {
                        BindingChange::Put { aor, key, binding } => {
                            self.durable.insert((aor, key), binding);
                        }
                        BindingChange::Remove { aor, key } => _ = self.durable.remove(&(aor, key)),
                    }
                }
                return None;
            }
            Answer::Lookup(lookup) => {
                let (worker, park) = (lookup.worker, lookup.park);
                return Some(match lookup.step(now_ms, &self.plan.dns, &mut self.dice) {
                    crate::dns::Stepped::Waits(at_ms, lookup) => (at_ms, Answer::Lookup(lookup)),
                    crate::dns::Stepped::Done(at_ms, result) => {
                        (at_ms, Answer::Resolved(worker, park, result))
                    }
                });
            }
            Answer::Store(worker, _) | Answer::Resolved(worker, ..) => worker,
        };
        let seat = self.process.as_mut()?.seats.get_mut(worker)?;
        match answer {
            Answer::Store(_, answer) => {
                if let StoreAnswer::Saved(park, result) = &answer {
                    seat.told.push((*park, result.is_ok()));
                }
                seat.asked.with(|asked| asked.answers.push(answer));
            }
            Answer::Resolved(_, park, result) => {
                self.figures.resolved += u64::from(result.is_ok());
                seat.asked
                    .with(|asked| asked.names.push_back((park, result)));
            }
            Answer::Durable(_) | Answer::Lookup(_) => {}
        }
        sip_worker::Wake::wake(&seat.bell);
        None
    }

    /// When a worker has something to do next.
    pub(crate) fn next_deadline_ms(&mut self, now_ms: u64) -> Option<u64> {
        let distant = self.process.as_ref().and_then(|of| of.distant.as_ref());
        let distant_ms = distant.and_then(Distant::next_deadline_ms);
        let slack_ms = self.plan.wake_max_ms;
        let dice = &mut self.dice;
        let seats = self
            .process
            .iter_mut()
            .flat_map(|process| &mut process.seats);
        seats
            .filter_map(|seat| {
                if seat.bell.has_rung() || !seat.arrivals.is_empty() {
                    seat.look_ms
                        .get_or_insert_with(|| now_ms + dice.between(0, slack_ms));
                }
                seat.look_ms.into_iter().chain(seat.due_ms).min()
            })
            .chain(distant_ms)
            .min()
    }

    /// The database at a distance does what is due; what is wrong with it.
    pub(crate) fn step_distant(&mut self, now_ms: u64) -> Vec<String> {
        let Some(process) = &mut self.process else {
            return Vec::new();
        };
        let Some(distant) = &mut process.distant else {
            return Vec::new();
        };
        for (Tag { worker, park, .. }, outcome) in distant.step(now_ms) {
            if let Some(seat) = process.seats.get_mut(worker) {
                seat.is_told(StoreAnswer::Credential(park, outcome));
            }
        }
        std::mem::take(&mut distant.faults)
    }

    /// Has a worker that is due take its turn; none where none is.
    pub(crate) fn turn(&mut self, now_ms: u64) -> Option<Turned> {
        let process = self.process.as_mut()?;
        let due = |seat: &Seat| seat.look_ms.into_iter().chain(seat.due_ms).min();
        let is_due = |seat: &Seat| due(seat).is_some_and(|due_ms| due_ms <= now_ms);
        let worker = process.seats.iter().position(is_due)?;
        let seat = process.seats.get_mut(worker)?;
        seat.look_ms = None;
        seat.due_ms = None;
        seat.bell.quiet();
        if !seat.worker.begin_turn(&mut seat.sockets) {
            seat.arrivals.clear();
            return Some(Turned::default());
        }
        seat.worker.wake_up(|| now(now_ms));
        seat.asked.with(|asked| {
            if let Some(front) = &mut asked.front {
                front.now_us = now_ms * 1_000;
            }
        });
        let returned = std::mem::take(&mut seat.sockets.returned);
        for cookie in returned {
            seat.worker.handle_event(SocketEvent::SendFailed {
                cookie,
                was_written: false,
            });
        }
        for arrival in std::mem::take(&mut seat.arrivals) {
            let event = match &arrival {
                Arrival::Message { flow, bytes } => {
                    seat.sockets.messages_in += 1;
                    SocketEvent::Message { flow: *flow, bytes }
                }
                Arrival::SendFailed {
                    cookie,
                    was_written,
                } => SocketEvent::SendFailed {
                    cookie: *cookie,
                    was_written: *was_written,
                },
                Arrival::Closed(conn) => SocketEvent::Closed(*conn),
                Arrival::Unreachable { remote, quoted } => {
                    match seat.sockets.take_recent(*remote, quoted) {
                        Some(cookie) => SocketEvent::SendFailed {
                            cookie,
                            was_written: false,
                        },
                        None => SocketEvent::Unreachable {
                            remote: *remote,
                            quoted,
                        },
                    }
                }
            };
            seat.worker.handle_event(event);
        }
        seat.worker.end_turn(&mut seat.sockets);
        let wait = seat.worker.timeout();
        seat.due_ms = wait.map(|wait| now_ms + wait.as_millis() as u64);
        if !seat.sockets.returned.is_empty() {
            seat.due_ms = Some(now_ms);
        }
        let mut turned = Turned {
            worker,
            outbox: std::mem::take(&mut seat.sockets.outbox),
            closes: std::mem::take(&mut seat.sockets.closes),
            ended_calls: std::mem::take(&mut seat.sockets.ended_calls),
            was_told: !seat.told.is_empty(),
            ..Turned::default()
        };
        let told = std::mem::take(&mut seat.told);
        let questions = seat
            .asked
            .with(|asked| std::mem::take(&mut asked.questions));
        for (park, is_durable) in told {
            let fault = self.check_saved(now_ms, (worker, park), is_durable);
            turned.faults.extend(fault);
        }
        for question in questions {
            self.ask(now_ms, worker, question, &mut turned.answers);
        }
        Some(turned)
    }

    /// A question goes to the store or to the resolver.
    fn ask(
        &mut self,
        now_ms: u64,
        worker: usize,
        question: Question,
        answers: &mut Vec<(u64, Answer)>,
    ) {
        let store = self.plan.store;
        let fails = self.dice.thousandths(store.failure);
        let delay_ms = delay_ms(&mut self.dice, &store);
        match question {
            Question::Credential(park, question, until_ms) if self.plan.distance.is_some() => {
                let subject = question.subject.clone();
                let tag = Tag {
                    worker,
                    park,
                    subject,
                };
                let Some(process) = &mut self.process else {
                    return;
                };
                let distant = process.distant.as_mut();
                let submitted = distant.map(|of| of.submit(now_ms, tag, question, until_ms));
                if let (Some(Err(full)), Some(seat)) = (submitted, process.seats.get_mut(worker)) {
                    seat.is_told(StoreAnswer::Credential(park, Err(full)));
                }
            }
            Question::Credential(park, question, _) => {
                let found = self.users.get(question.subject.user());
                let found = found.map(|set| set.get(question.algorithm).clone());
                let answer = match fails {
                    true => Err(Unavailable {
                        retry_after_s: None,
                    }),
                    false => Ok(found.map_or(Reply::Unknown, Reply::Secret)),
                };
                let answer = Answer::Store(worker, StoreAnswer::Credential(park, answer));
                answers.push((now_ms + delay_ms, answer));
            }
            Question::Save(park, changes) => {
                let Some(process) = &mut self.process else {
                    return;
                };
                process.saves.insert((worker, park), changes.clone());
                let durable_ms = process.saved_ms.max(now_ms + delay_ms);
                process.saved_ms = durable_ms + self.dice.between(0, 5);
                if !fails {
                    answers.push((durable_ms, Answer::Durable(changes)));
                }
                let answer = if fails { Err(()) } else { Ok(()) };
                let answer = Answer::Store(worker, StoreAnswer::Saved(park, answer));
                answers.push((process.saved_ms, answer));
            }
            Question::Name(park, query) => {
                let listeners = self.settings.listeners.iter();
                let options = Options {
                    reach: listeners
                        .map(|listener| (listener.transport, listener.bound.ip()))
                        .collect(),
                    ..Options::default()
                };
                let lookup = Lookup::new(now_ms, worker, park, query, options);
                answers.push((now_ms, Answer::Lookup(lookup)));
            }
        }
    }

    /// Whether calls see exactly what the store acknowledged: to be asked
    /// right after the worker was told of it.
    fn check_saved(
        &mut self,
        now_ms: u64,
        saved: (usize, ParkId),
        is_durable: bool,
    ) -> Option<String> {
        let process = self.process.as_mut()?;
        let changes = process.saves.remove(&saved)?;
        let unix_ms = now(now_ms).unix_ms;
        for change in &changes {
            let BindingChange::Put { aor, binding, .. } = change else {
                continue;
            };
            let mut found = Vec::new();
            process.location.find(aor, unix_ms, &mut found);
            let is_seen = found.iter().any(|seen| **seen == **binding);
            if is_seen != is_durable && binding.expires_unix_ms > unix_ms {
                let (aor, uri) = (aor.escape_ascii(), binding.uri.escape_ascii());
                return Some(format!(
                    "{aor} at {uri}: durable {is_durable}, seen by calls {is_seen}"
                ));
            }
        }
        None
    }

    /// Contacts that an address-of-record may have.
    pub(crate) fn contacts_max(&self) -> usize {
        self.settings.registrar.contacts_max
    }

    /// All bindings, and the time at which they are.
    pub(crate) fn bindings(&self, now_ms: u64) -> (u64, Bindings) {
        let unix_ms = now(now_ms).unix_ms;
        let mut all = Vec::new();
        if let Some(process) = &self.process {
            process.location.for_each(unix_ms, |aor, bindings| {
                all.push((Arc::clone(aor), bindings.to_vec()));
            });
        }
        (unix_ms, all)
    }

    /// Adds up what the workers have counted so far.
    fn count(&mut self) {
        for seat in self.process.iter().flat_map(|process| &process.seats) {
            let (own, shard) = (seat.worker.figures(), seat.worker.shard());
            self.figures.handed_over += own.handed_over;
            self.figures.refused += own.handover_refused + own.store_refused + own.dns_refused;
            self.figures.malformed += shard.counters().malformed;
            self.figures.cached += seat
                .asked
                .with(|asked| asked.front.as_ref().map_or(0, |front| front.hits));
        }
        let distant = self.process.as_ref().and_then(|of| of.distant.as_ref());
        self.figures.batches += distant.map_or(0, Distant::batches);
    }

    /// What is left of a server that has nothing to do any more.
    pub(crate) fn finish(&mut self) -> Vec<String> {
        self.count();
        let mut left = Vec::new();
        let Some(process) = &self.process else {
            return left;
        };
        for (worker, (seat, mailbox)) in process.seats.iter().zip(&process.mailboxes).enumerate() {
            let shard = seat.worker.shard();
            if shard.in_flight() + shard.unanswered() != 0 {
                left.push(format!(
                    "worker {worker} still has {} things under way: {:?}",
                    shard.in_flight(),
                    shard.live_transactions()
                ));
            }
            let mut mail = VecDeque::new();
            mailbox.take(&mut mail);
            if !mail.is_empty() || !seat.arrivals.is_empty() {
                left.push(format!("worker {worker} was handed what it never took"));
            }
            if seat
                .asked
                .with(|asked| asked.answers.len() + asked.names.len())
                != 0
            {
                left.push(format!("worker {worker} never took its answers"));
            }
        }
        let unanswered = process.distant.as_ref().map_or(0, Distant::left);
        if unanswered != 0 {
            left.push(format!("{unanswered} look-ups were never answered"));
        }
        if process.saves.values().len() != 0 {
            left.push("the store never said whether something is durable".to_owned());
        }
        let posted: i64 = process
            .seats
            .iter()
            .map(|seat| seat.worker.posted_bytes())
            .sum();
        if posted != 0 {
            left.push(format!("{posted} bytes were handed over and not taken"));
        }
        let held = process.budget.bytes_held();
        let allowed = process.fresh_bytes + (process.seats.len() * IDLE_BYTES) as u64;
        if held > allowed {
            left.push(format!("{held} bytes are held where nothing is under way"));
        }
        left
    }
}

fn delay_ms(dice: &mut Dice, store: &Store) -> u64 {
    if dice.thousandths(store.stall) {
        return dice.between(3_000, 12_000);
    }
    dice.between(0, store.delay_max_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_msg::{ListenerId, Transport};

    #[test]
    fn the_shard_of_a_call_hears_of_the_end_of_its_connection() {
        let plan = Plan {
            workers: 2,
            wake_max_ms: 0,
            ..Plan::calm(1, 1)
        };
        let mut server = Server::new(&plan, &[]);
        let conn = ConnId(1 << 56 | 1);
        let flow = Flow {
            transport: Transport::Tcp,
            listener: ListenerId(1),
            local: SERVER.into(),
            remote: SocketAddr::from(([10, 0, 1, 1], 5060)),
            conn,
        };
        let ask = |n: u8| {
            format!(
                "OPTIONS sip:{DOMAIN} SIP/2.0\r\nVia: SIP/2.0/TCP 10.0.1.1;branch=z9hG4bK{n}\r\n\
                 From: <sip:a@{DOMAIN}>;tag=1\r\nTo: <sip:{DOMAIN}>\r\nCall-ID: {n}\r\n\
                 CSeq: 1 OPTIONS\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
            )
        };
        for n in 0..20 {
            let bytes = ask(n).into_bytes();
            server.arrive(1, Arrival::Message { flow, bytes });
        }
        server.arrive(1, Arrival::Closed(conn));
        while server.next_deadline_ms(0) == Some(0) {
            assert!(server.turn(0).is_some());
        }
        let process = server.process.as_ref().unwrap();
        for seat in &process.seats {
            let counters = seat.worker.shard().counters();
            assert!(counters.requests > 0, "both had calls over it");
            assert_eq!(counters.connections_closed, 1);
        }
    }
}
