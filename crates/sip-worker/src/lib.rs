//! What runs in service between a shard, its sockets, the store, the resolver and
//! the other workers. No I/O, no threads and no clock: those are the
//! [`Environment`]'s, so that `sip-sim` drives what `signet serve` runs.
//!
//! One turn waits for sockets, timers or mail; gives what came to the shard that it
//! belongs to, its own or another worker's; asks the store and the resolver what the
//! shard wants to know; sends. It blocks nowhere but in that wait, and a turn reads
//! the clock once.
//!
//! ```text
//! while worker.begin_turn(&mut sockets) {
//!     sockets.poll(worker.timeout(), |event| {
//!         worker.wake_up(clock);
//!         worker.handle_event(event);
//!     });
//!     worker.wake_up(clock);
//!     worker.end_turn(&mut sockets);
//! }
//! ```
#![forbid(unsafe_code)]

mod alias;
mod control;
mod environment;
mod failures;
mod flows;
mod gateways;
mod guard;
mod handover;
mod mailbox;
mod media;
mod memory;
mod orders;
mod overload;
mod peers;
mod refusals;
mod sent_for;
mod trunks;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use sip_engine::budget::Share;
use sip_engine::sender::Sender;
use sip_engine::shard::shard_of;
use sip_engine::{Effect, Now, Outputs, ParkId, Shard};
use sip_limit::Guard;
use sip_locate::LocateError;
use sip_msg::{ConnId, Flow, Limits, Message, Method, Pool, Target};

use overload::Overload;
use peers::Peers;
use sent_for::SentFor;

pub use control::{Control, Figures, Phase, Snapshot};
pub use environment::{
    AtOnce, Direction, Environment, Hook, Passing, Records, Resolver, SendFailure, SocketEvent,
    Sockets, Store, StoreAnswer, Trace, Wake,
};
pub use mailbox::{ConnAct, Handover, Mailbox};
pub use orders::{Look, Order, Removed};
pub use overload::Severities;
pub use refusals::Refusals;

/// While there is traffic timers are looked at this often, not each time that
/// one is due: they are set in tens and hundreds of milliseconds.
const TIMER_GRAIN_MS: u64 = 10;
/// How often the figures are copied for whoever asks.
const SNAPSHOT_MS: u64 = 500;
/// The same while the process waits for its end.
const DRAIN_SNAPSHOT_MS: u64 = 20;

/// What a worker is made of.
pub struct Parts<E: Environment> {
    /// Which of the workers it is.
    pub index: usize,
    /// Its shard.
    pub shard: Shard,
    /// What a message may be.
    pub limits: Limits,
    /// The mailboxes of all workers, its own among them.
    pub mailboxes: Vec<Arc<Mailbox<E::Waker>>>,
    /// What decides which message is whose; the same for all.
    pub shard_key: [u8; 16],
    /// Its end of the store.
    pub store: E::Store,
    /// Its end of the resolver.
    pub resolver: E::Resolver,
    /// Its end of the operator's hook.
    pub hook: E::Hook,
    /// Its end of the media engines.
    pub media: sip_media::Client,
    /// Where orders come from.
    pub control: Arc<Control<<E::Sockets as Sockets>::Figures, E::Waker>>,
    /// What shows messages to the operator.
    pub trace: E::Trace,
    /// What takes call records.
    pub records: E::Records,
    /// This worker's share in what messages hold.
    pub memory: Share,
    /// How long arriving messages may wait, in milliseconds, before a part of what begins is
    /// refused; 0 is for ever.
    pub queue_ms_max: u64,
    /// Whether connections are used again for what goes to their peers (RFC 5923).
    pub uses_aliases: bool,
    /// How overloaded each worker is.
    pub severities: Severities,
    /// Who asks too much.
    pub guard: Arc<Guard>,
}

/// Everything of a worker but its sockets, which each call is given.
pub struct Worker<E: Environment> {
    parts: Parts<E>,
    now: Now,
    now_is_fresh: bool,
    outputs: Outputs,
    /// What is to be done to connections once everything is sent.
    conn_acts: Vec<(ConnId, ConnAct)>,
    claims: Vec<alias::Claim>,
    ended_calls: Vec<u64>,
    /// Cookies of sends that failed, and what became of them.
    failed: Vec<(u64, SendFailure)>,
    /// Cookies of datagrams that came back.
    returned: Vec<u64>,
    ended: Vec<ConnId>,
    mail: VecDeque<Handover>,
    /// A batch for each worker; its own stays empty.
    batches: Vec<Vec<Handover>>,
    /// For messages that another worker must send.
    buffers: Pool,
    memory: memory::Memory,
    spare_effects: Vec<Effect>,
    answers: Vec<StoreAnswer>,
    hook_answers: Vec<(ParkId, sip_hook::Outcome)>,
    sent_for: SentFor,
    /// Connections that brought messages for other shards: a bit for each worker.
    conn_users: HashMap<ConnId, u64>,
    peers: Peers,
    timers_ran_ms: u64,
    snapshot_ms: u64,
    is_dirty: bool,
    generation: u64,
    is_draining: bool,
    /// Whether the listeners are closed.
    is_closed: bool,
    is_traced: bool,
    figures: Figures,
    overload: Overload,
    removals: orders::Removals,
}

impl<E: Environment> Worker<E> {
    /// A worker at that time, which has not run yet.
    pub fn new(mut parts: Parts<E>, now: Now) -> Self {
        let workers = parts.mailboxes.len();
        let (index, key) = (parts.index, parts.shard_key);
        parts.shard.set_home(index, workers, key);
        Self {
            now,
            now_is_fresh: false,
            outputs: Outputs::default(),
            conn_acts: Vec::new(),
            claims: Vec::new(),
            ended_calls: Vec::new(),
            failed: Vec::new(),
            returned: Vec::new(),
            ended: Vec::new(),
            mail: VecDeque::new(),
            batches: (0..workers).map(|_| Vec::new()).collect(),
            buffers: Pool::default(),
            memory: memory::Memory::default(),
            spare_effects: Vec::new(),
            answers: Vec::new(),
            hook_answers: Vec::new(),
            sent_for: SentFor::default(),
            conn_users: HashMap::new(),
            peers: Peers::default(),
            timers_ran_ms: 0,
            snapshot_ms: 0,
            is_dirty: true,
            generation: 0,
            is_draining: false,
            is_closed: false,
            is_traced: false,
            figures: Figures::default(),
            overload: Overload::new(parts.queue_ms_max, parts.severities.clone(), parts.index),
            removals: orders::Removals::default(),
            parts,
        }
    }

    /// Its shard.
    pub fn shard(&self) -> &Shard {
        &self.parts.shard
    }

    /// What it has counted itself.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Bytes put into the mailboxes of others, less those taken from this worker's own:
    /// summed over the workers it is what lies in all of them.
    pub fn posted_bytes(&self) -> i64 {
        self.memory.posted
    }

    /// Begins a turn: follows what was ordered. False when that is to stop.
    pub fn begin_turn(&mut self, sockets: &mut E::Sockets) -> bool {
        self.now_is_fresh = false;
        self.follow_orders(sockets)
    }

    /// Ends a turn: after this nothing is left to do until [`Worker::timeout`] or
    /// the next event, answer or mail.
    pub fn end_turn(&mut self, sockets: &mut E::Sockets) {
        self.take_answers();
        self.take_mail(sockets);
        self.take_orders();
        self.run_timers();
        self.settle(sockets);
        sockets.flush();
        self.count_memory(sockets);
        self.control_load(sockets);
        self.report(sockets);
    }

    /// Ends what only a process that ends has to end: what other workers have given is passed on,
    /// which nobody would send again, and then the records of calls that go on end.
    pub fn stop(&mut self, sockets: &mut E::Sockets, now: Now) {
        self.now = now;
        self.take_mail(sockets);
        self.settle(sockets);
        sockets.flush();
        self.parts.shard.stop_records(now, &mut self.outputs);
        self.give_records();
    }

    fn give_records(&mut self) {
        for record in self.outputs.records.drain(..) {
            self.parts.records.give(record);
        }
    }

    /// How long the sockets may wait: until the next timer, and while figures
    /// are not yet reported, no longer than until they are.
    pub fn timeout(&self) -> Option<Duration> {
        if !self.failed.is_empty() {
            return Some(Duration::ZERO);
        }
        let now_ms = self.now.mono_ms;
        let timer = self
            .parts
            .shard
            .next_deadline_ms()
            .map(|due_ms| due_ms.max(self.timers_ran_ms + TIMER_GRAIN_MS));
        let report = self.is_dirty.then_some(self.report_due_ms());
        let trim = self.memory.trim_due_ms();
        let media = self.parts.media.next_deadline_ms();
        let kept = self.waits_for_room().then_some(now_ms + TIMER_GRAIN_MS);
        let due_ms = [timer, report, trim, media, kept];
        let due_ms = due_ms.into_iter().flatten().min()?;
        Some(Duration::from_millis(due_ms.saturating_sub(now_ms)))
    }

    fn report_due_ms(&self) -> u64 {
        self.snapshot_ms
            + if self.is_draining {
                DRAIN_SNAPSHOT_MS
            } else {
                SNAPSHOT_MS
            }
    }

    /// The wait is over: the first call of a turn asks for the time.
    pub fn wake_up(&mut self, clock: impl FnOnce() -> Now) {
        if !self.now_is_fresh {
            self.now = clock();
            self.now_is_fresh = true;
            self.is_traced = self.parts.trace.is_on();
            // The order may have come with the messages that woke us.
            if self.parts.control.phase() == Phase::Draining {
                self.refuse_new_calls();
            }
        }
    }

    fn refuse_new_calls(&mut self) {
        if !self.is_draining {
            self.is_draining = true;
            self.is_dirty = true;
            self.parts.shard.refuse_new_calls();
        }
    }

    /// Something that the sockets have, in a turn that is awake.
    pub fn handle_event(&mut self, event: SocketEvent<'_>) {
        self.is_dirty = true;
        match event {
            SocketEvent::Message { flow, bytes } => self.on_message(flow, bytes),
            SocketEvent::Malformed { flow, head, error } => {
                let mut message = self.parts.shard.spare_message();
                // The head alone is not a whole message either; what is wrong
                // with it is what the framer said.
                let _ = message.fill(head, &self.parts.limits);
                self.trace_in(&flow, head);
                let sender = self.sender(flow);
                let (now, out) = (self.now, &mut self.outputs);
                let shard = &mut self.parts.shard;
                shard.handle_unframed(now, &sender, message, &error, out);
            }
            SocketEvent::Verified { conn, peer } => self.peers.verified(conn, peer),
            SocketEvent::Closed(conn) => {
                self.peers.ended(conn);
                self.ended.push(conn);
            }
            SocketEvent::SendFailed { cookie, failure } => self.failed.push((cookie, failure)),
            SocketEvent::Returned { cookie } => self.returned.push(cookie),
            SocketEvent::FromEngine { from, bytes } => {
                self.parts.media.receive(self.now.mono_ms, from, bytes);
            }
            SocketEvent::EngineUnreachable(to) => {
                self.parts.media.unreachable(self.now.mono_ms, to);
            }
            SocketEvent::Unreachable { remote, quoted } => {
                self.pass_on_unreachable(remote, quoted);
            }
        }
    }

    fn on_message(&mut self, flow: Flow, bytes: &[u8]) {
        if self.is_shut_out(&flow, bytes) {
            self.figures.dropped_unread += 1;
            return;
        }
        self.trace_in(&flow, bytes);
        let mut message = self.parts.shard.spare_message();
        if let Err(error) = message.fill(bytes, &self.parts.limits) {
            let sender = self.sender(flow);
            let (now, out) = (self.now, &mut self.outputs);
            let shard = &mut self.parts.shard;
            shard.handle_malformed(now, &sender, message, &error, out);
            return;
        }
        if self.parts.uses_aliases {
            self.claims.extend(alias::Claim::read(&flow, &message));
        }
        self.take_bytes(bytes.len());
        let sender = self.sender(flow);
        let workers = self.batches.len();
        if workers > 1 {
            let owner = shard_of(&message, workers, &self.parts.shard_key);
            // It is for what was refused here, because its worker had no room.
            let is_for_refusal = message.method() == Method::Ack
                && owner != self.parts.index
                && self.parts.shard.is_for_own_answer(&message);
            if owner != self.parts.index
                && !is_for_refusal
                && let Some(batch) = self.batches.get_mut(owner)
            {
                self.memory.posted += message.held_bytes() as i64;
                let conn = sender.flow.conn;
                if conn.is_some() {
                    *self.conn_users.entry(conn).or_default() |= worker_bit(owner);
                }
                batch.push(Handover::Message { sender, message });
                return;
            }
        }
        self.give(&sender, message);
    }

    /// Who is at the other end of a flow.
    fn sender(&self, flow: Flow) -> Sender {
        let peer = self.peers.of(&flow);
        Sender { flow, peer }
    }

    /// Gives a message to the shard.
    fn give(&mut self, sender: &Sender, message: Box<Message>) {
        let (now, shard, out) = (self.now, &mut self.parts.shard, &mut self.outputs);
        shard.handle_message(now, sender, message, out);
    }

    fn take_answers(&mut self) {
        self.tell_failures();
        let mut answers = std::mem::take(&mut self.answers);
        self.parts.store.take_answers(&mut answers);
        self.is_dirty |= !answers.is_empty();
        for answer in answers.drain(..) {
            let (now, shard, out) = (self.now, &mut self.parts.shard, &mut self.outputs);
            match answer {
                StoreAnswer::Credential(park, answer) => {
                    shard.handle_credential(now, park, answer, out);
                }
                StoreAnswer::Saved(park, answer) => shard.handle_saved(now, park, answer, out),
            }
        }
        self.answers = answers;
        self.take_hook_answers();
        while let Some((park, answer)) = self.parts.resolver.next_answer() {
            self.is_dirty = true;
            let (shard, out) = (&mut self.parts.shard, &mut self.outputs);
            shard.handle_resolved(self.now, park, answer, out);
        }
        self.look_after_engines();
        self.take_media();
    }

    fn take_hook_answers(&mut self) {
        let mut answers = std::mem::take(&mut self.hook_answers);
        self.parts.hook.take_answers(&mut answers);
        self.is_dirty |= !answers.is_empty();
        for (park, outcome) in answers.drain(..) {
            let (shard, out) = (&mut self.parts.shard, &mut self.outputs);
            shard.handle_hook(self.now, park, outcome, out);
        }
        self.hook_answers = answers;
    }

    fn run_timers(&mut self) {
        let now_ms = self.now.mono_ms;
        let is_due = self
            .parts
            .shard
            .next_deadline_ms()
            .is_some_and(|due_ms| due_ms <= now_ms);
        if is_due && now_ms >= self.timers_ran_ms + TIMER_GRAIN_MS {
            self.timers_ran_ms = now_ms;
            self.is_dirty = true;
            self.parts.shard.handle_timers(self.now, &mut self.outputs);
        }
    }

    /// Carries out what the shard wants, until it wants nothing more.
    fn settle(&mut self, sockets: &mut E::Sockets) {
        while !self.outputs.effects.is_empty() {
            let mut effects = std::mem::replace(
                &mut self.outputs.effects,
                std::mem::take(&mut self.spare_effects),
            );
            for effect in effects.drain(..) {
                self.carry_out(effect);
            }
            self.spare_effects = effects;
            self.take_media();
        }
        self.send_to_engines(sockets);
        self.keep_refusals();
        self.give_records();
        for claim in self.claims.drain(..) {
            claim.settle(sockets);
        }
        self.send(sockets);
        for (conn, act) in self.conn_acts.drain(..) {
            let owner = conn.worker();
            match self.batches.get_mut(owner) {
                Some(batch) if owner != self.parts.index => {
                    batch.push(Handover::Connection(conn, act));
                }
                _ => act.carry_out(conn, sockets),
            }
        }
        for call in self.ended_calls.drain(..) {
            sockets.end_call(call);
        }
        self.hand_over(sockets);
    }

    /// An effect that cannot be begun is answered at once, which may bring
    /// forth others.
    fn carry_out(&mut self, effect: Effect) {
        let (now, shard, out) = (self.now, &mut self.parts.shard, &mut self.outputs);
        match effect {
            Effect::FindCredential {
                park,
                question,
                until_ms,
            } => match self.parts.store.find_credential(park, question, until_ms) {
                AtOnce::Pending => {}
                AtOnce::Known(reply) => {
                    let begun = out.effects.len();
                    shard.handle_credential(now, park, Ok(reply), out);
                    self.carry_out_since(begun);
                }
                AtOnce::Refused(why) => {
                    self.figures.store_refused += 1;
                    shard.handle_credential(now, park, Err(why), out);
                }
            },
            Effect::Proved(subject) => self.parts.store.proved(&subject),
            Effect::AskHook {
                park,
                question,
                until_ms,
            } => {
                if let Some(known) = self.parts.hook.ask(park, question, until_ms) {
                    shard.handle_hook(now, park, known, out);
                }
            }
            Effect::SaveBindings { park, changes } => {
                if !self.parts.store.save_bindings(park, changes) {
                    self.figures.store_refused += 1;
                    shard.handle_saved(now, park, Err(()), out);
                }
            }
            Effect::Removed { order, removed } => self.removed(order, removed),
            Effect::Resolve { park, query } => {
                if !self.parts.resolver.ask(park, query) {
                    self.figures.dns_refused += 1;
                    shard.handle_resolved(now, park, Err(LocateError::Timeout), out);
                }
            }
            Effect::Media { park, ask } => self.ask_engine(park, ask),
            Effect::Close(conn) => self.conn_acts.push((conn, ConnAct::Close)),
            Effect::Odd(conn) => self.conn_acts.push((conn, ConnAct::CountOdd)),
            Effect::KeepFor { conn, for_ms } => {
                self.conn_acts.push((conn, ConnAct::KeepFor { for_ms }));
            }
            Effect::EndCall(call) => self.ended_calls.push(call),
            Effect::Gateway {
                transport,
                addr,
                name,
                change,
            } => gateways::log(transport, addr, &name, change),
            Effect::FlowEnded {
                aor,
                contact,
                remote,
                why,
            } => flows::log(&aor, &contact, remote, why),
            Effect::Trunk { name, event } => trunks::log(&name, &event),
            Effect::Limited { flow, what } => self.log_limited(&flow, &what),
        }
    }

    /// Carries out what came of an answer before what else is wanted. A question that is
    /// asked again because a cache did not settle it keeps its place before those of later
    /// requests: else the order of their answers would show who is in the cache.
    fn carry_out_since(&mut self, begun: usize) {
        while self.outputs.effects.len() > begun {
            let effect = self.outputs.effects.remove(begun);
            self.carry_out(effect);
        }
    }

    /// Looks whether something was ordered; false when the order is to stop.
    fn follow_orders(&mut self, sockets: &mut E::Sockets) -> bool {
        if self.parts.control.generation() != self.generation {
            let before = self.generation;
            let (generation, settings) = self.parts.control.settings();
            self.generation = generation;
            if let Some(settings) = settings {
                self.parts.limits = settings.limits;
                self.parts.shard.reload(settings);
                if self.parts.control.has_more_for_sockets(before) {
                    sockets.settings_changed();
                }
                self.reload_engines(sockets);
            }
            self.parts.control.take_over(self.parts.index, generation);
        }
        match self.parts.control.phase() {
            Phase::Running => true,
            Phase::Draining => {
                self.refuse_new_calls();
                if !std::mem::replace(&mut self.is_closed, true) {
                    sockets.stop_accepting();
                }
                true
            }
            Phase::Stop => false,
        }
    }

    /// Copies the figures for whoever asks: now and then, so that asking costs
    /// the worker nothing.
    fn report(&mut self, sockets: &E::Sockets) {
        let now_ms = self.now.mono_ms;
        let is_due = now_ms >= self.report_due_ms();
        if self.is_dirty && is_due {
            self.snapshot_ms = now_ms;
            // Something that is under way will change; nothing under way, and
            // the next report waits for the next event.
            let shard = &self.parts.shard;
            let unanswered = self
                .is_draining
                .then(|| shard.unanswered(self.now) + self.handed_over());
            self.is_dirty = shard.in_flight() > 0 || unanswered.is_some_and(|count| count > 0);
            let snapshot = Snapshot {
                at_ms: now_ms,
                engine: shard.counters().clone(),
                transactions: *shard.transaction_counters(),
                registrar: *shard.registrar_counters(),
                refusals: shard.refusal_counts().clone(),
                live: shard.live_transactions(),
                contexts: shard.live_contexts(),
                in_flight: shard.in_flight(),
                calls: shard.calls(),
                media: *self.parts.media.counters(),
                unanswered,
                sockets: sockets.figures(),
                own: Figures {
                    severity: self.overload.severity(),
                    ..self.figures
                },
            };
            self.parts.control.report(self.parts.index, snapshot);
        }
    }

    fn trace_in(&self, flow: &Flow, bytes: &[u8]) {
        if self.is_traced && !bytes.is_empty() {
            self.parts.trace.message(&Passing {
                direction: Direction::In,
                transport: flow.transport,
                local: Some(flow.local),
                remote: flow.remote,
                bytes,
            });
        }
    }

    /// Shows a message that was just given to this worker's sockets.
    fn trace_out(&self, sockets: &mut E::Sockets, to: &Target, bytes: &[u8]) {
        if self.is_traced {
            let (local, remote) = sockets.ends_for(to).unzip();
            self.parts.trace.message(&Passing {
                direction: Direction::Out,
                transport: to.transport,
                local,
                remote: remote.unwrap_or(to.remote),
                bytes,
            });
        }
    }
}

/// The bit of a worker; where there are more than bits some have one in common.
const fn worker_bit(worker: usize) -> u64 {
    1 << (worker % 64)
}
