//! Calls that play a scenario. No I/O: messages, times and failures go in;
//! messages to send and events come out.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::net::SocketAddr;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use invariant::broken;
use sip_msg::{ConnId, Flow, Outbox, Target};
use wheel::Wheel;

use crate::inject::InjectionFile;
use crate::program::{Program, Role, Twin, What};
use crate::random::Random;
use crate::scan::{Received, Start};
use crate::settings::Settings;
use crate::stats::{Counter, Stats};
use crate::value::Value;

mod abort;
mod act;
mod call;
mod command;
mod credentials;
mod dead;
mod link;
mod receive;
mod render;
mod run;
mod send;

use call::{Call, Timer, Verdict};
use dead::Dead;

/// Lists of connections that are kept for new ones.
const SPARE_LISTS_MAX: usize = 1_024;

/// Why a message of a call was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendFailure {
    /// The connection could not be opened.
    Connect,
    /// The connection was closed.
    Closed,
    /// A queue is full.
    Full,
    /// The kernel refused.
    Refused,
    /// A command could not be given to another instance.
    Command,
}

/// What happened besides messages to be sent.
#[derive(Clone, Debug)]
pub enum Event {
    /// A call is over; its path may be closed or given to another.
    Ended {
        /// The call's number.
        number: u64,
        /// Whether it went through the scenario.
        is_success: bool,
        /// Where it sent to.
        target: Target,
    },
    /// A `<log>` action.
    Log(Vec<u8>),
    /// Something worth a line in the error log.
    Warning(String),
    /// An `<error>` action: the run ends.
    Fatal(String),
    /// The status code of a response that was not expected.
    ErrorCode(u16),
    /// A command to run (`<exec command=...>`).
    Command(Vec<u8>),
    /// A command to another instance (`<sendCmd>`).
    ToTwin {
        /// Names the call, as in the outbox: [`Calls::send_failed`] takes it.
        cookie: u64,
        /// To which of [`Program::peers`]; `None` is the only other instance.
        peer: Option<u16>,
        /// The command.
        text: Vec<u8>,
    },
    /// The run ends at once.
    StopNow,
    /// No more calls; the run ends with the last of them.
    StopGracefully,
    /// A response time.
    Rtt {
        /// Which one.
        rtd: u8,
        /// How long, in nanoseconds.
        ns: u64,
    },
}

/// What is to be done, in memory that is used again.
#[derive(Debug, Default)]
pub struct Outputs {
    /// The messages to send. A cookie names the call.
    pub outbox: Outbox,
    /// The rest, in order.
    pub events: Vec<Event>,
}

/// Where a new call sends from and to.
#[derive(Clone, Debug)]
pub struct CallPath {
    /// Where it sends to, and from which listener.
    pub target: Target,
    /// Its own address, where it has one ([`Settings::own_addresses`]).
    pub local: Option<SocketAddr>,
    /// Since when it is under way: before now, where a connection had to be
    /// opened first.
    pub since_ns: u64,
}

/// Why no call could be begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoCall {
    /// As many calls are under way as the settings allow.
    Full,
    /// Every user has a call.
    NoUser,
    /// The scenario ended the run.
    Over,
}

/// All calls of one thread.
#[derive(Debug)]
pub struct Calls {
    core: Core,
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_id: HashTable<u32>,
    /// The calls of each connection.
    by_conn: HashMap<u64, Vec<u32>>,
    /// Lists of connections that are gone, to be used again.
    spare_lists: Vec<Vec<u32>>,
    dead: Dead,
    due: Vec<Timer>,
    live: usize,
    accepts: bool,
}

#[derive(Debug)]
struct Slot {
    /// Counts the calls that were here; never 0.
    generation: u32,
    call: Option<Box<Call>>,
}

/// What calls share.
#[derive(Debug)]
struct Core {
    program: Arc<Program>,
    settings: Settings,
    stats: Stats,
    globals: Vec<Value>,
    /// The variables of each user, by number; the first is nobody's.
    users: Vec<Vec<Value>>,
    /// Users without a call; the last is the next.
    free_users: VecDeque<u32>,
    files: Vec<InjectionFile>,
    random: Random,
    hasher: DefaultHashBuilder,
    wheel: Wheel<Timer>,
    timer_serial: u32,
    call_count: u64,
    dynamic_id: u32,
    now_ns: u64,
    /// Memory for texts, captures and such.
    scratch: Vec<u8>,
    /// The message that a step has just sent, where its actions may look at it.
    sent: Vec<u8>,
    /// Why the message being written cannot be.
    complaint: Option<String>,
    /// Whether the run has ended: nothing is done any more.
    is_over: bool,
    captures: Vec<Option<crate::posix::Scratch>>,
}

impl Calls {
    /// No calls yet. `set` gives global variables their values.
    pub fn new(
        program: Program,
        settings: Settings,
        files: Vec<InjectionFile>,
        set: &[(String, Vec<u8>)],
    ) -> Self {
        let program = link::link(program, &settings);
        let mut globals = vec![Value::Unset; program.variables.global.len()];
        for (name, value) in set {
            let index = program.variables.global.iter().position(|n| n == name);
            if let Some(global) = index.and_then(|index| globals.get_mut(index)) {
                *global = Value::Text(value.clone());
            }
        }
        let user_max = u32::try_from(settings.calls_max).unwrap_or(u32::MAX);
        let user_count = settings.users.unwrap_or(0).min(user_max);
        let user = vec![Value::Unset; program.variables.user.len()];
        let captures = program.regexes.iter().map(|_| None).collect();
        Self {
            dead: Dead::new(settings.dead_call_ms),
            core: Core {
                stats: Stats::new(&program),
                random: Random::new(settings.seed),
                program: Arc::new(program),
                globals,
                users: vec![user; user_count as usize + 1],
                free_users: (1..=user_count).collect(),
                files,
                hasher: DefaultHashBuilder::default(),
                wheel: Wheel::with_tick(0, 1),
                timer_serial: 0,
                call_count: 0,
                dynamic_id: settings.dynamic_id.0,
                now_ns: 0,
                scratch: Vec::new(),
                sent: Vec::new(),
                complaint: None,
                is_over: false,
                captures,
                settings,
            },
            slots: Vec::new(),
            free: Vec::new(),
            by_id: HashTable::new(),
            by_conn: HashMap::new(),
            spare_lists: Vec::new(),
            due: Vec::new(),
            live: 0,
            accepts: true,
        }
    }

    /// The scenario.
    pub fn program(&self) -> &Program {
        &self.core.program
    }

    /// What was counted.
    pub fn stats(&self) -> &Stats {
        &self.core.stats
    }

    /// How many calls there are.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// How many calls there ever were.
    pub fn created(&self) -> u64 {
        self.core.call_count
    }

    /// Whether calls that others begin are taken from now on.
    pub fn set_accepting(&mut self, accepts: bool) {
        self.accepts = accepts;
    }

    /// Gives a warning that is not a call's, and counts it.
    pub fn warn(&mut self, text: String, out: &mut Outputs) {
        self.core.warn(text, out);
    }

    /// When to call [`Calls::advance`] next, in milliseconds.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.core.wheel.next_deadline_ms()
    }

    /// Begins a call; gives its number.
    pub fn start(&mut self, now_ns: u64, path: CallPath, out: &mut Outputs) -> Result<u64, NoCall> {
        let mut call = self.open(now_ns, path)?;
        let mut id = std::mem::take(&mut call.id);
        self.core.write_call_id(&call, &mut id);
        call.id = id;
        let number = call.number;
        self.enter(&mut call);
        let verdict = self.core.run(&mut call, out);
        self.put_back(call, verdict, out);
        Ok(number)
    }

    /// A call that begins here and has no Call-ID yet.
    fn open(&mut self, now_ns: u64, path: CallPath) -> Result<Box<Call>, NoCall> {
        self.core.now_ns = now_ns;
        if self.core.is_over {
            return Err(NoCall::Over);
        }
        if self.live >= self.core.settings.calls_max {
            return Err(NoCall::Full);
        }
        let user = match self.core.settings.users {
            None => None,
            Some(_) => Some(self.core.free_users.pop_back().ok_or(NoCall::NoUser)?),
        };
        self.core.stats.count(Counter::OutgoingCalls);
        let mut call = self.admit(path.target);
        call.user = user;
        call.local = path.local;
        self.core.begin(&mut call);
        call.started_ns = path.since_ns.min(now_ns);
        call.rtd_started_ns.fill(call.started_ns);
        Ok(call)
    }

    /// Gives a message that was received to its call, or to a new one.
    pub fn receive(&mut self, now_ns: u64, flow: &Flow, bytes: &[u8], out: &mut Outputs) {
        if self.core.is_over {
            return;
        }
        self.core.now_ns = now_ns;
        let Some(received) = Received::read(bytes) else {
            self.core.stats.count(Counter::OutOfCallMessages);
            self.core.warn(
                format!(
                    "not a SIP message with Call-ID, from {}: '{}'",
                    flow.remote,
                    String::from_utf8_lossy(bytes.get(..80).unwrap_or(bytes))
                ),
                out,
            );
            return;
        };
        if received.cseq_method.is_empty() {
            let what = format!(
                "a message without a method in its CSeq, from {}",
                flow.remote
            );
            self.core.warn(what, out);
        }
        let id = self.core.call_id(received.call_id);
        let hash = self.core.hasher.hash_one(id);
        if let Some(slot) = self.find(hash, id) {
            let Some(mut call) = self.take(slot) else {
                return broken!("a Call-ID names only calls that live");
            };
            let verdict = self.core.take_message(&mut call, &received, out);
            self.put_back(call, verdict, out);
            return;
        }
        if self.dead.hears(hash, now_ns / 1_000_000) {
            self.core.stats.count(Counter::DeadCallMessages);
            return;
        }
        if self.core.program.role == Role::Server && self.accepts {
            self.accept(hash, flow, &received, id, out);
            return;
        }
        self.out_of_call(flow, &received, out);
    }

    /// Moves the clock on: pauses end, and timers fire.
    pub fn advance(&mut self, now_ns: u64, out: &mut Outputs) {
        self.core.now_ns = now_ns;
        let mut due = std::mem::take(&mut self.due);
        self.core
            .wheel
            .advance(now_ns / 1_000_000, |timer| due.push(timer));
        for timer in due.drain(..) {
            if self.core.is_over {
                break;
            }
            // Another timer of this tick may have ended it.
            let Some(mut call) = self.take(timer.slot) else {
                continue;
            };
            let verdict = self.core.timer(&mut call, timer, out);
            self.put_back(call, verdict, out);
        }
        self.due = due;
        self.dead.forget(now_ns / 1_000_000);
    }

    /// A message with this cookie was not sent: its call fails, unless it only answers
    /// what comes again (`<timewait>`).
    pub fn send_failed(
        &mut self,
        now_ns: u64,
        cookie: u64,
        failure: SendFailure,
        out: &mut Outputs,
    ) {
        if self.core.is_over {
            return;
        }
        self.core.now_ns = now_ns;
        let slot = u32::try_from(cookie >> 32).unwrap_or(u32::MAX);
        let is_it = self
            .slots
            .get(slot as usize)
            .is_some_and(|s| u64::from(s.generation) == cookie & 0xffff_ffff);
        if !is_it {
            return;
        }
        let Some(call) = self.take(slot) else {
            return;
        };
        let counter = match failure {
            SendFailure::Connect => Counter::TcpConnect,
            SendFailure::Closed => Counter::TcpClosed,
            SendFailure::Full => Counter::OutboundCongestion,
            SendFailure::Refused => Counter::CannotSend,
            SendFailure::Command => Counter::CommandNotSent,
        };
        if self.core.only_lingers(&call) {
            // It needs no connection any longer.
            self.put_back(call, Verdict::Succeeded, out);
            return;
        }
        self.core.warn(
            format!(
                "call {}: a message could not be sent: {failure:?}",
                call.number
            ),
            out,
        );
        self.put_back(call, Verdict::Failed(counter), out);
    }

    /// A connection is gone: the calls on it fail, as by [`Calls::send_failed`].
    pub fn path_closed(
        &mut self,
        now_ns: u64,
        conn: ConnId,
        failure: SendFailure,
        out: &mut Outputs,
    ) {
        let cookies: Vec<u64> = self
            .by_conn
            .get(&conn.0)
            .into_iter()
            .flatten()
            .filter_map(|slot| Some((*slot, self.slots.get(*slot as usize)?)))
            .map(|(slot, place)| u64::from(slot) << 32 | u64::from(place.generation))
            .collect();
        for cookie in cookies {
            self.send_failed(now_ns, cookie, failure, out);
        }
    }

    /// Does nothing any more: calls stay as they are.
    pub fn stop(&mut self) {
        self.core.is_over = true;
    }

    /// Ends every call that is open, and tells its other side where the settings want
    /// that. Such a call counts neither as successful nor as failed, and its length is in
    /// no figure. Nothing is done after it, as after an end by the scenario, which leaves
    /// calls as they are.
    pub fn abandon(&mut self, now_ns: u64, out: &mut Outputs) {
        if std::mem::replace(&mut self.core.is_over, true) {
            return;
        }
        self.core.now_ns = now_ns;
        for slot in 0..self.slots.len() {
            if let Some(mut call) = self.take(u32::try_from(slot).unwrap_or(u32::MAX)) {
                if self.core.settings.behaviors.bye {
                    self.core.end_politely(&mut call, None, out);
                }
                self.put_back(call, Verdict::Gone, out);
            }
        }
    }

    fn accept(
        &mut self,
        hash: u64,
        flow: &Flow,
        received: &Received<'_>,
        id: &[u8],
        out: &mut Outputs,
    ) {
        if self.live >= self.core.settings.calls_max {
            self.core.stats.count(Counter::OutOfCallMessages);
            return;
        }
        // As in SIPp: the half of a call that another instance is told of is one that begins
        // here, whoever's message it waits for.
        self.core.stats.count(match self.core.program.twin {
            Some(Twin::Tells) => Counter::OutgoingCalls,
            _ => Counter::IncomingCalls,
        });
        let target = self.core.way_back(flow);
        let mut call = self.admit(target);
        self.core.begin(&mut call);
        call.id.clear();
        call.id.extend_from_slice(id);
        call.id_hash = hash;
        self.enter(&mut call);
        // As in SIPp: where a <nop> comes first, the message waits for the first <recv>.
        let first = self.core.program.steps.first();
        let is_kept = first.is_some_and(|step| matches!(step.what, What::Nop));
        if is_kept {
            call.first_received.extend_from_slice(received.bytes);
        }
        let mut verdict = self.core.run(&mut call, out);
        if verdict == Verdict::Waits && !is_kept {
            verdict = self.core.take_message(&mut call, received, out);
        }
        self.put_back(call, verdict, out);
    }

    /// A message of no call.
    fn out_of_call(&mut self, flow: &Flow, received: &Received<'_>, out: &mut Outputs) {
        let core = &mut self.core;
        // As SIPp: a PING is answered within a call only.
        if let Start::Request(method) = received.start
            && method != b"PING"
            && core.is_answered_alone(method)
        {
            let start = out.outbox.bytes.len();
            core.write_ok(received.bytes, None, flow.listener, &mut out.outbox.bytes);
            out.outbox.send_since(start, core.way_back(flow), 0);
            core.stats.count(Counter::AutoAnswered);
            return;
        }
        core.stats.count(Counter::OutOfCallMessages);
        self.core.warn(
            format!(
                "Discarding message which can't be mapped to a known call: '{}'",
                String::from_utf8_lossy(received.bytes)
            ),
            out,
        );
    }

    /// A call of its own, not yet known by its Call-ID.
    fn admit(&mut self, target: Target) -> Box<Call> {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                call: None,
            });
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let place = self.slots.get_mut(slot as usize);
        let (mut call, generation) = match place {
            Some(place) => {
                place.generation = place.generation.wrapping_add(1).max(1);
                (place.call.take().unwrap_or_default(), place.generation)
            }
            None => broken!("a free slot is one of the table's", (Box::default(), 1)),
        };
        call.reset(target);
        call.slot = slot;
        call.cookie = u64::from(slot) << 32 | u64::from(generation);
        self.live += 1;
        call
    }

    /// Makes it known by its Call-ID, and to its connection.
    fn enter(&mut self, call: &mut Call) {
        if call.target.conn.is_some() {
            let spare = &mut self.spare_lists;
            let list = self
                .by_conn
                .entry(call.target.conn.0)
                .or_insert_with(|| spare.pop().unwrap_or_default());
            call.conn_place = list.len();
            list.push(call.slot);
        }
        call.id_hash = self.core.hasher.hash_one(call.id.as_slice());
        let slots = &self.slots;
        let call_of = |slot: &u32| slots.get(*slot as usize)?.call.as_ref();
        self.by_id
            .insert_unique(call.id_hash, call.slot, |slot| match call_of(slot) {
                Some(call) => call.id_hash,
                None => broken!("a Call-ID names only calls in the table", 0),
            });
    }

    /// Its connection need not know it any longer.
    fn leave_conn(&mut self, call: &Call) {
        if !call.target.conn.is_some() {
            return;
        }
        let list = self.by_conn.get_mut(&call.target.conn.0);
        let Some(list) = list.filter(|list| list.get(call.conn_place) == Some(&call.slot)) else {
            return broken!("a call stands in the list of its connection");
        };
        list.swap_remove(call.conn_place);
        let moved = list.get(call.conn_place).copied();
        if list.is_empty()
            && let Some(list) = self.by_conn.remove(&call.target.conn.0)
            && self.spare_lists.len() < SPARE_LISTS_MAX
        {
            self.spare_lists.push(list);
        }
        let Some(moved) = moved else { return };
        match self
            .slots
            .get_mut(moved as usize)
            .map(|slot| &mut slot.call)
        {
            Some(Some(moved)) => moved.conn_place = call.conn_place,
            _ => broken!("a connection lists only calls in the table"),
        }
    }

    fn find(&self, hash: u64, id: &[u8]) -> Option<u32> {
        let found = self.by_id.find(hash, |slot| {
            self.slots
                .get(*slot as usize)
                .and_then(|slot| slot.call.as_ref())
                .is_some_and(|call| call.id == id)
        });
        found.copied()
    }

    fn take(&mut self, slot: u32) -> Option<Box<Call>> {
        let call = &mut self.slots.get_mut(slot as usize)?.call;
        if call.as_ref().is_some_and(|call| call.live) {
            call.take()
        } else {
            None
        }
    }

    fn put_back(&mut self, mut call: Box<Call>, verdict: Verdict, out: &mut Outputs) {
        if verdict != Verdict::Waits {
            self.core.end(&mut call, verdict, out);
            self.live -= 1;
            if verdict.is_remembered(self.core.settings.behaviors) {
                let now_ms = self.core.now_ns / 1_000_000;
                self.dead.remember(call.id_hash, now_ms);
            }
            self.leave_conn(&call);
            let slot = call.slot;
            match self.by_id.find_entry(call.id_hash, |known| *known == slot) {
                Ok(entry) => _ = entry.remove(),
                Err(_) => broken!("a call is found by its Call-ID until it ends"),
            }
            self.free.push(slot);
        }
        match self.slots.get_mut(call.slot as usize) {
            Some(slot) => slot.call = Some(call),
            None => broken!("a call that was admitted has its slot"),
        }
    }
}

impl Core {
    /// Gives a warning, and counts it.
    fn warn(&mut self, text: String, out: &mut Outputs) {
        self.stats.count(Counter::Warnings);
        out.events.push(Event::Warning(text));
    }

    /// Ends the run. Nothing is done behind it, so that no other call starts, sends or
    /// finds another end.
    fn end_run(&mut self, how: Event, out: &mut Outputs) {
        self.is_over = true;
        out.events.push(how);
    }

    /// Where a call that came along a flow sends to.
    fn way_back(&self, flow: &Flow) -> Target {
        let mut target = Target::back(flow);
        if let Some(remote) = self.settings.answers_to {
            target.remote = remote;
            // The route there decides, not where the request came in.
            target.local = None;
        }
        target
    }
}

#[cfg(test)]
mod tests;
