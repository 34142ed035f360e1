//! The whole protocol of one thread: passes each input to the transactions, to
//! authentication, and to the registrar or the proxy, in that order.

mod acks;
mod counters;
mod events;
mod floor;
mod guard;
mod hook;
mod keepalives;
mod overload;
pub(crate) mod probes;
mod rates;
mod refusals;
mod requests;
mod spread;

use std::sync::Arc;

use sip_auth::Reply;
use sip_locate::{Hop, LocateError};
use sip_lookup::Outcome;
use sip_msg::{ConnId, Edits, Message, ParseError, Pool, Span};
use sip_txn::Transactions;
use wheel::Wheel;

use crate::budget::Room;
use crate::calls::{Call, Calls};
use crate::dialogs::Dialogs;
use crate::effect::{Now, Outputs, ParkId};
use crate::gateways::{Gateways, SharedGateways};
use crate::hops::DeadHops;
use crate::lanes::Lanes;
use crate::media::Offered;
use crate::numbers::NumberLists;
use crate::own::Own;
use crate::park::{Parked, Parks};
use crate::permit::{Gate, GateContext};
use crate::proxy::context::{Candidate, Contexts};
use crate::proxy::retarget::Divert;
use crate::random::{Dice, derive};
use crate::records::OpenCalls;
use crate::refusal::{Reason, RefusalCounts, StatusLine};
use crate::registrar::{Registrar, RegistrarContext, Removal};
use crate::sender::Sender;
use crate::timer::Timer;
use crate::token::{TokenKeys, Tokens};
use crate::trunk::Trunks;
use crate::trunk::register::Registrations;
use crate::{Binding, Location, Settings};

pub use counters::Counters;
pub use spread::{shard_of, shard_of_user};

/// What all shards of a process share.
pub struct Shared {
    /// The location table.
    pub location: Arc<Location>,
    /// Digest authentication: keys and the replay window.
    pub authenticator: Arc<sip_auth::Authenticator>,
    /// Limits of refusals and of wrong passwords.
    pub guard: Arc<sip_limit::Guard>,
    /// Rate limits of users, peers and sources.
    pub rates: Arc<sip_limit::Rates>,
    /// The keys under which flow and route tokens are signed.
    pub token_keys: Arc<TokenKeys>,
    /// The operator's next hops: their addresses as DNS gave them, how each is, and which are
    /// drained.
    pub gateways: Arc<SharedGateways>,
}

/// The random seed of a shard: everything that must not be guessed, or must differ
/// between runs, is derived from it.
#[derive(Clone, Copy)]
pub struct Seed(pub [u8; 32]);

/// The shard's secrets.
pub(crate) struct Keys {
    pub(crate) loops: [u8; 16],
    pub(crate) tags: [u8; 16],
    pub(crate) branches: [u8; 16],
    pub(crate) identities: [u8; 16],
}

/// A shard: all inputs are methods, all effects are in [`Outputs`].
pub struct Shard {
    pub(crate) settings: Arc<Settings>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) own: Own,
    pub(crate) tokens: Tokens,
    pub(crate) keys: Keys,
    pub(crate) txns: Transactions,
    pub(crate) registrar: Registrar,
    pub(crate) contexts: Contexts,
    pub(crate) parks: Parks,
    pub(crate) wheel: Wheel<Timer>,
    pub(crate) dead: DeadHops,
    pub(crate) gateways: Gateways,
    probes: probes::Probes,
    keepalives: keepalives::KeepAlives,
    pub(crate) trunks: Trunks,
    pub(crate) registrations: Registrations,
    pub(crate) lanes: Lanes,
    pub(crate) dialogs: Dialogs,
    pub(crate) calls: Calls,
    pub(crate) open_calls: OpenCalls,
    pub(crate) offered: Offered,
    pub(crate) dice: Dice,
    pub(crate) pool: Pool,
    pub(crate) edits: Edits,
    pub(crate) counters: Counters,
    refusals: RefusalCounts,
    // Memory that is used again by one step at a time.
    pub(crate) bindings: Vec<Arc<Binding>>,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) aor: Vec<u8>,
    pub(crate) target_uri: Vec<u8>,
    pub(crate) strip: Vec<Span>,
    pub(crate) granted: Vec<u8>,
    fired: Vec<Timer>,
    /// Whether what fails at the moment was not sent by this machine, through no fault of who
    /// would have got it.
    pub(crate) is_our_failure: bool,
    /// Whether new calls are refused, because the process is to end.
    refuses_calls: bool,
    /// The share of the memory for messages that is in use, over all shards.
    memory_pressure: f64,
    /// What is let in while the worker falls behind.
    overload: sip_limit::Gate,
    /// When wrong credentials are refused at the earliest.
    floor: floor::Floor,
    /// ACKs that are still to pass.
    acks: acks::Acks,
    pub(crate) room: Room,
    /// How much less neighbours are to send, where they ask.
    pub(crate) loss_percent: u32,
    /// What neighbours have told of their load.
    pub(crate) neighbours: sip_limit::oc::Neighbours,
    /// Whether anything is written of numbers and people.
    pub(crate) has_people: bool,
    /// The lists of numbers, as they are compared.
    pub(crate) number_lists: NumberLists,
    /// Whose forwards count for the targets that were found last.
    pub(crate) divert: Option<Box<Divert>>,
    /// How many names may still be looked at for the request at hand.
    pub(crate) steps_left: u8,
}

impl Shard {
    /// A shard without state.
    pub fn new(settings: Arc<Settings>, shared: Arc<Shared>, seed: Seed) -> Self {
        let mut config = sip_txn::Config::new(derive(&seed, b"match"), derive(&seed, b"branch"));
        config.timers = settings.timers;
        config.client_max = settings.bounds.client_transactions_max;
        config.server_max = settings.bounds.server_transactions_max;
        let keys = Keys {
            loops: derive(&seed, b"loop"),
            tags: derive(&seed, b"tag"),
            branches: derive(&seed, b"stateless"),
            identities: derive(&seed, b"identities"),
        };
        let mut shard = Self {
            own: Own::new(&settings),
            tokens: Tokens::new(Arc::clone(&shared.token_keys)),
            dialogs: Dialogs::new(derive(&seed, b"dialogs"), settings.bounds.dialogs_max),
            calls: Calls::new(derive(&seed, b"calls")),
            open_calls: OpenCalls::new(derive(&seed, b"records"), derive(&seed, b"numbers")),
            offered: Offered::new(derive(&seed, b"offered")),
            dice: Dice::new(&derive(&seed, b"dice")),
            keys,
            txns: Transactions::new(config, 0),
            registrar: Registrar::new(derive(&seed, b"registrar")),
            contexts: Contexts::default(),
            parks: Parks::default(),
            wheel: Wheel::new(0),
            dead: DeadHops::default(),
            gateways: Gateways::new(&settings, Arc::clone(&shared.gateways)),
            probes: probes::Probes::default(),
            keepalives: keepalives::KeepAlives::new(),
            trunks: Trunks::new(&settings, derive(&seed, b"trunks")),
            registrations: Registrations::default(),
            lanes: Lanes::new(derive(&seed, b"lanes"), &settings),
            pool: Pool::default(),
            edits: Edits::default(),
            counters: Counters::default(),
            refusals: RefusalCounts::default(),
            bindings: Vec::new(),
            candidates: Vec::new(),
            aor: Vec::new(),
            target_uri: Vec::new(),
            strip: Vec::new(),
            granted: Vec::new(),
            fired: Vec::new(),
            is_our_failure: false,
            refuses_calls: false,
            memory_pressure: 0.0,
            overload: sip_limit::Gate::default(),
            floor: floor::Floor::default(),
            acks: acks::Acks::default(),
            room: Room::Enough,
            loss_percent: 0,
            neighbours: sip_limit::oc::Neighbours::default(),
            has_people: settings.has_people(),
            number_lists: settings.numbers.lists(),
            divert: None,
            steps_left: 0,
            settings,
            shared,
        };
        shard.plan_probes();
        shard.plan_keepalives();
        shard.follow_trunks();
        shard.plan_registrations();
        shard
    }

    /// Replaces the settings; requests under way continue with the new ones. The timers
    /// and bounds of transactions stay as they were at the start.
    pub fn reload(&mut self, settings: Arc<Settings>) {
        self.own.reload(&settings);
        self.gateways = Gateways::new(&settings, Arc::clone(&self.shared.gateways));
        self.lanes.reload(&settings);
        let keeps_as_before = self.settings.nat == settings.nat;
        let interval_before_ms = self.settings.nat.keepalive_interval_ms;
        let known = &self.shared.gateways.trunks;
        self.trunks.reload(&settings, Some(known));
        self.has_people = settings.has_people();
        self.number_lists = settings.numbers.lists();
        self.settings = settings;
        self.plan_probes();
        if !keeps_as_before {
            self.replan_keepalives(interval_before_ms);
        }
        self.follow_trunks();
        self.plan_registrations();
    }

    /// Takes over who is trusted because calls go there, where that has changed.
    pub(crate) fn follow_trunks(&mut self) {
        let known = &self.shared.gateways.trunks;
        if self.trunks.is_behind(known) {
            let trusted = self.trunks.take_over(&self.settings, known);
            let settings = Settings::clone(&self.settings);
            self.settings = Arc::new(Settings {
                trusted,
                ..settings
            });
        }
    }

    /// Answers new calls with 503 from now on; requests under way, and requests within
    /// dialogs, continue.
    /// Registrations with providers are taken back.
    pub fn refuse_new_calls(&mut self) {
        if !std::mem::replace(&mut self.refuses_calls, true) {
            self.acks.drain();
            self.wake_registrations();
        }
    }

    /// A 2xx to an INVITE passes: its ACK is to come.
    pub(crate) fn note_accepted(&mut self, now: Now, ok: &Message) {
        let until_ms = now.mono_ms.saturating_add(self.txns.ack_wait_ms());
        self.acks
            .accepted(&self.keys.tags, now.mono_ms, until_ms, ok);
    }

    /// Whether new calls are refused, because the process is to end.
    pub(crate) fn refuses_calls(&self) -> bool {
        self.refuses_calls
    }

    /// Sets the share of the memory budget in use
    /// ([`Budget::pressure`](crate::Budget::pressure)): to be called once a turn. Requests
    /// are refused by it as [`Room`] says.
    pub fn set_memory_pressure(&mut self, pressure: f64) {
        self.memory_pressure = pressure;
        self.room = Room::at(pressure);
    }

    /// The share that was set last.
    pub fn memory_pressure(&self) -> f64 {
        self.memory_pressure
    }

    /// The memory that this shard holds for messages: parked requests, what transactions
    /// and contexts keep, and spare buffers.
    pub fn held_bytes(&self) -> usize {
        self.pool.held_bytes()
            + self.txns.held_bytes()
            + self.contexts.held_bytes()
            + self.parks.held_bytes()
            + self.registrar.held_bytes()
            + self.wheel.held_bytes()
            + self.open_calls.held_bytes()
            + self.calls.held_bytes()
    }

    /// Frees memory that was not needed since the last call, half of it at a time: to be
    /// called every few seconds.
    pub fn trim(&mut self) {
        self.pool.trim();
        self.txns.trim();
        self.contexts.trim();
        self.parks.trim();
        self.wheel.trim();
        self.keepalives.trim();
        self.calls.trim();
    }

    /// A message to fill and to give to [`Shard::handle_message`].
    pub fn spare_message(&mut self) -> Box<Message> {
        self.pool.message()
    }

    /// Handles a message that was parsed.
    pub fn handle_message(
        &mut self,
        now: Now,
        sender: &Sender,
        message: Box<Message>,
        out: &mut Outputs,
    ) {
        self.own.learn(&sender.flow.local);
        self.tokens.refresh();
        self.gateways.refresh();
        self.follow_trunks();
        if message.is_request() {
            self.counters.requests += 1;
            self.handle_request(now, sender, message, out);
        } else {
            self.counters.responses += 1;
            self.handle_response(now, sender, message, out);
        }
        self.drain(now, out);
    }

    /// Handles a message that did not parse, with what was understood of it: a request
    /// with a readable Via is answered 400 or the error's own status; anything else is
    /// dropped and counted. The message was whole, so its stream stays open: a
    /// neighbour's always, a stranger's until there are too many of them.
    pub fn handle_malformed(
        &mut self,
        now: Now,
        sender: &Sender,
        message: Box<Message>,
        error: &ParseError,
        out: &mut Outputs,
    ) {
        self.malformed(now, sender, message, error, out);
        self.odd(sender, &mut out.effects);
        self.drain(now, out);
    }

    /// Handles the head of a message whose end cannot be found: answered like
    /// [`Shard::handle_malformed`]. Its stream is closed after that, since nobody knows
    /// where the next message begins.
    pub fn handle_unframed(
        &mut self,
        now: Now,
        sender: &Sender,
        message: Box<Message>,
        error: &ParseError,
        out: &mut Outputs,
    ) {
        self.malformed(now, sender, message, error, out);
        crate::answers::close(&sender.flow, &mut out.effects);
        self.drain(now, out);
    }

    /// Takes the store's answer: `Err` where it could not say.
    pub fn handle_credential(
        &mut self,
        now: Now,
        park: ParkId,
        answer: Outcome,
        out: &mut Outputs,
    ) {
        match self.parks.take(park, &mut self.wheel) {
            Some(Parked::Credential(job, mut pending)) => {
                let reserved = std::mem::take(&mut pending.reserved);
                let attempt = self.attempt(now, &job.sender.flow, &pending);
                let told_ms = self.refusals_told_ms(now, &pending, &answer);
                let answer = self.fit_to_compare(now, attempt.as_ref(), answer);
                let is_held = matches!(answer, Ok(Reply::Cached(_)));
                let cx = self.gate_context(now, &job.sender);
                match crate::permit::gate_finish(&cx, pending, &job.request, answer) {
                    // What it has reserved and when it ends are as they were.
                    Gate::Lookup(mut pending) => {
                        if let Some(attempt) = attempt {
                            self.shared.guard.mismatched(now.mono_ms, &attempt, is_held);
                        }
                        pending.reserved = reserved;
                        self.ask_store(job, pending, out);
                    }
                    gate => {
                        self.tell_who_is_proved(&gate, out);
                        self.proved(now, job, (attempt, told_ms), gate, out);
                        self.shared.guard.looked_up(now.mono_ms, reserved);
                    }
                }
            }
            Some(Parked::User(job)) => {
                // RFC 3261 16.5: "If the target set remains empty after applying all of the
                // above, the proxy MUST return an error response, which SHOULD be the 480
                // (Temporarily Unavailable) response."
                let line = match answer {
                    Ok(Reply::Unknown) => StatusLine::refused(404, Reason::NoSuchUser),
                    _ => StatusLine::refused(480, Reason::NotRegistered),
                };
                self.answer_job(now, job, line, out);
            }
            _ => self.counters.answers_late += 1,
        }
        self.drain(now, out);
    }

    /// Takes the store's answer to a change of bindings.
    pub fn handle_saved(
        &mut self,
        now: Now,
        park: ParkId,
        answer: Result<(), ()>,
        out: &mut Outputs,
    ) {
        let cx = RegistrarContext {
            now,
            settings: &self.settings,
            location: &self.shared.location,
            own: &self.own,
            gateways: &self.gateways,
        };
        self.registrar.handle_saved(&cx, park, answer);
        self.drain(now, out);
    }

    /// Removes contacts by the operator's order. REGISTERs of that user whose credentials are
    /// being looked up are looked up again, because he may be gone by now.
    pub fn remove_bindings(&mut self, now: Now, removal: Removal, out: &mut Outputs) {
        self.look_up_again(now, &removal.aor, out);
        let cx = RegistrarContext {
            now,
            settings: &self.settings,
            location: &self.shared.location,
            own: &self.own,
            gateways: &self.gateways,
        };
        self.registrar.remove(&cx, removal, out);
        self.drain(now, out);
    }

    /// The resolver's answer: the hops to try, in order, or why there are none.
    pub fn handle_resolved(
        &mut self,
        now: Now,
        park: ParkId,
        answer: Result<Vec<Hop>, LocateError>,
        out: &mut Outputs,
    ) {
        let answer = match answer {
            Ok(hops) if hops.is_empty() => Err(LocateError::NotFound),
            answer => answer,
        };
        match (self.parks.take(park, &mut self.wheel), answer) {
            (Some(Parked::Trunk(wanted)), answer) => {
                self.trunk_resolved(now, park, &wanted, answer, out);
            }
            (Some(Parked::Resolve(key, at, _)), Ok(hops)) => {
                self.candidate_resolved(now, key, at, hops, out);
            }
            (Some(Parked::Single(job, permit, mut candidate, _)), Ok(hops)) => {
                self.learn_gateways(now, &candidate.kind, &hops);
                candidate.hops.extend(hops);
                self.send_single(now, job, &permit, candidate, out);
            }
            (Some(parked @ (Parked::Resolve(..) | Parked::Single(..))), Err(error)) => {
                self.unresolved(now, parked, error, out);
            }
            (Some(Parked::Probe(probed)), Ok(hops)) => {
                self.probe_resolved(now, &probed, hops, out);
            }
            // What is known of its addresses stays; a call says what DNS said.
            (Some(Parked::Probe(_)), Err(_)) => {}
            _ => self.counters.answers_late += 1,
        }
        self.drain(now, out);
    }

    /// Handles that the message with this cookie could not be sent.
    pub fn handle_send_failed(&mut self, now: Now, cookie: u64, out: &mut Outputs) {
        if Transactions::is_cookie(cookie) {
            self.txns
                .handle_send_failed(now.mono_ms, cookie, &mut out.outbox);
        } else {
            self.line_ends_failed(now, cookie, out);
        }
        self.drain(now, out);
    }

    /// Handles that this machine did not send the message with this cookie, for want of room or
    /// because the kernel refused it: it has failed, and that is held against nobody.
    pub fn handle_unsent(&mut self, now: Now, cookie: u64, out: &mut Outputs) {
        self.is_our_failure = true;
        self.handle_send_failed(now, cookie, out);
        self.is_our_failure = false;
    }

    /// Handles that the datagram with this cookie came back (ICMP): it has failed, and the
    /// flow that it was sent along may have ended.
    pub fn handle_returned(&mut self, now: Now, cookie: u64, out: &mut Outputs) {
        self.set_came_back(true);
        self.handle_send_failed(now, cookie, out);
        self.set_came_back(false);
    }

    /// Handles that the connection ended on which the message with this cookie was sent:
    /// a request without any response goes to the next hop.
    pub fn handle_send_lost(&mut self, now: Now, cookie: u64, out: &mut Outputs) {
        self.txns
            .handle_connection_lost(now.mono_ms, cookie, &mut out.outbox);
        self.drain(now, out);
    }

    /// Handles the end of a connection. Requests on it without any response come by
    /// [`Shard::handle_send_lost`]; those with a provisional response go on waiting, since
    /// the peer may answer over another connection.
    pub fn handle_closed(&mut self, now: Now, conn: ConnId, out: &mut Outputs) {
        self.counters.connections_closed += 1;
        self.dialogs.conn_ended(conn);
        self.drain(now, out);
    }

    /// Runs the timers that are due.
    pub fn handle_timers(&mut self, now: Now, out: &mut Outputs) {
        self.txns.handle_timers(now.mono_ms, &mut out.outbox);
        let mut fired = std::mem::take(&mut self.fired);
        self.wheel.advance(now.mono_ms, |timer| fired.push(timer));
        for timer in fired.drain(..) {
            self.timer_fired(now, timer, out);
        }
        self.fired = fired;
        self.registrar.handle_timers(now);
        self.drain(now, out);
    }

    /// When [`Shard::handle_timers`] is to be called next.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        [
            self.txns.next_deadline_ms(),
            self.wheel.next_deadline_ms(),
            self.registrar.next_deadline_ms(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Live transactions, contexts and parked requests: 0 when nothing is under way.
    pub fn in_flight(&self) -> usize {
        let live = self.txns.live();
        live.client_invite
            + live.client_non_invite
            + live.server_invite
            + live.server_non_invite
            + self.contexts.len()
            + self.parks.len()
            + self.registrar.waiting()
    }

    /// Requests that have no final response yet, and INVITEs whose final response may have to be
    /// sent again, or whose ACK is still to pass. Looks at every context: for a server that drains,
    /// not for every turn.
    pub fn unanswered(&self, now: Now) -> usize {
        self.contexts.unanswered()
            // RFC 3261 17.2.1: "If timer G fires, the response is passed to the transport layer
            // once more for retransmission". Nobody else would do it.
            + self.txns.unacknowledged()
            + self.acks.waited_for(now.mono_ms)
            + self.parks.len()
            + self.registrar.waiting()
            + self.registrations.to_be_ended(self.refuses_calls)
    }

    /// The counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The counters of the transactions.
    pub fn transaction_counters(&self) -> &sip_txn::Counters {
        self.txns.counters()
    }

    /// The counters of the registrar.
    pub fn registrar_counters(&self) -> &crate::registrar::RegistrarCounters {
        self.registrar.counters()
    }

    /// Transactions alive, by kind.
    pub fn live_transactions(&self) -> sip_txn::Live {
        self.txns.live()
    }

    /// Dialogs of which something is remembered.
    pub fn dialogs(&self) -> usize {
        self.dialogs.len()
    }

    /// Calls in progress, as far as they are listed.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Appends calls in progress that follow the one of that number (0 for the first), the
    /// oldest first, and gives the number to go on from; `None` when the last was reached.
    /// No more than `max` are looked at.
    pub fn list_calls(&self, after: u64, max: usize, found: &mut Vec<Call>) -> Option<u64> {
        self.calls.list(after, max, found)
    }

    /// The settings that it goes by.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Response contexts alive.
    pub fn live_contexts(&self) -> usize {
        self.contexts.len()
    }

    pub(crate) fn gate_context<'a>(&'a self, now: Now, sender: &'a Sender) -> GateContext<'a> {
        GateContext {
            now,
            settings: &self.settings,
            shared: &self.shared,
            tokens: &self.tokens,
            dialogs: &self.dialogs,
            own: &self.own,
            sender,
        }
    }

    fn timer_fired(&mut self, now: Now, timer: Timer, out: &mut Outputs) {
        match timer {
            Timer::C(key, branch) => self.timer_c_fired(now, key, usize::from(branch), out),
            Timer::Serial(key) => self.serial_timer_fired(now, key, out),
            Timer::Park(park) => self.park_expired(now, park, out),
            Timer::Probes => self.probes_due(now, out),
            Timer::Probe(number) => self.probe_timed_out(now, number, out),
            Timer::Trunks => self.registrations_due(now, out),
            Timer::Register(number) => self.register_timed_out(now, number, out),
            Timer::Record(call) => self.record_timer_fired(now, call, out),
            Timer::KeepAlives => self.find_phones(now),
            Timer::KeepAlive(name) => self.keepalive_due(now, name, out),
        }
    }
}
