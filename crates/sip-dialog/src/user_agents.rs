//! Many user agents over one transaction layer.

use crate::agent::{Agent, NOBODY};
use crate::answers::Answers;
use crate::call::{Call, State};
use crate::config::{AgentConfig, Config};
use crate::directory::Directory;
use crate::event::{AgentKey, Cause, Event};
use crate::late::LateAnswers;
use crate::random::Random;
use crate::request::Exchange;
use crate::slots::{Key, Slots};
use invariant::broken;
use sip_msg::{ConnId, Flow, ListenerId, Message, Outbox, Pool, Target};
use sip_txn::{ClientId, Response, ServerId, Transactions};
use smime::SealError;
use std::collections::VecDeque;
use wheel::Wheel;

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests received that were not retransmissions.
    pub requests: u64,
    /// Responses received that were not retransmissions.
    pub responses: u64,
    /// Messages dropped because they were not well formed.
    pub malformed: u64,
    /// Challenges answered.
    pub challenges: u64,
    /// 2xx to INVITE that were sent again.
    pub answers_retransmitted: u64,
    /// ACKs that were sent again, for a 2xx that came again.
    pub acks_retransmitted: u64,
    /// Dialogs of forks, acknowledged and ended at once.
    pub forks_ended: u64,
    /// 2xx to INVITEs that are over here, neither acknowledged nor ended: of forks that answered
    /// later than the call lasted, where [`Config::linger`] is not set. One that is sent again
    /// counts once.
    pub answers_too_late: u64,
    /// Merged requests, answered 482.
    pub merged: u64,
    /// Requests within unknown dialogs, answered 481.
    pub unknown_dialog: u64,
    /// Requests and calls refused because a table was full.
    pub full: u64,
    /// Protected bodies that were opened.
    pub bodies_opened: u64,
    /// Requests refused for their body: S/MIME that could not be opened or was not believed.
    pub bodies_refused: u64,
    /// Requests that were not sent because their body could not be protected.
    pub bodies_unsealed: u64,
    /// Events dropped because nobody polled them.
    pub events_dropped: u64,
}

/// How many of each are alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// Agents.
    pub agents: usize,
    /// Calls, forks and lingering ones included.
    pub calls: usize,
    /// REGISTER, OPTIONS and MESSAGE under way.
    pub requests: usize,
    /// Transactions.
    pub transactions: usize,
}

/// What a transaction's context says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    Invite(Key),
    Bye(Key),
    Request(Key),
}

/// Many user agents, sans-IO: see the crate's documentation for the loop.
///
/// - **Setting up**: [`add_agent`](Self::add_agent), [`remove_agent`](Self::remove_agent),
///   [`set_proxy`](Self::set_proxy), [`move_agent`](Self::move_agent),
///   [`set_catch_all`](Self::set_catch_all),
///   [`reserve`](Self::reserve), [`set_wall_clock`](Self::set_wall_clock),
///   [`secure_bodies`](Self::secure_bodies).
/// - **Acting**: [`register`](Self::register), [`options`](Self::options),
///   [`message`](Self::message), [`invite`](Self::invite), [`ring`](Self::ring),
///   [`answer`](Self::answer), [`reject`](Self::reject), [`hang_up`](Self::hang_up).
/// - **Inputs**: [`handle_message`](Self::handle_message),
///   [`handle_send_failed`](Self::handle_send_failed), [`handle_closed`](Self::handle_closed),
///   [`handle_timers`](Self::handle_timers).
/// - **Outputs**: the outbox, [`poll_event`](Self::poll_event),
///   [`next_deadline_ms`](Self::next_deadline_ms).
pub struct UserAgents {
    pub(crate) config: Config,
    pub(crate) transactions: Transactions,
    pub(crate) wheel: Wheel<Key>,
    pub(crate) agents: Slots<Agent>,
    pub(crate) calls: Slots<Call>,
    pub(crate) requests: Slots<Exchange>,
    pub(crate) directory: Directory,
    pub(crate) random: Random,
    pub(crate) pool: Pool,
    pub(crate) events: VecDeque<Event>,
    pub(crate) counters: Counters,
    pub(crate) answers: Answers,
    late: LateAnswers,
    pub(crate) scratch: Vec<u8>,
    /// Seconds from 1970 to where the clock stands at 0.
    pub(crate) unix_s_at_zero: u64,
    pub(crate) seal_error: Option<SealError>,
    /// The agent of each listener that takes requests for no other agent.
    pub(crate) catch_all: Vec<(ListenerId, Key)>,
    /// Answered server transactions that are only kept to absorb retransmissions, with
    /// the time until when, in the order of these times.
    pub(crate) kept: VecDeque<(u64, ServerId)>,
    due: Vec<Key>,
}

impl UserAgents {
    /// No agents. `now_ms` is where the clock stands.
    pub fn new(config: Config, now_ms: u64) -> Self {
        Self {
            transactions: Transactions::new(config.transactions.clone(), now_ms),
            wheel: Wheel::new(now_ms),
            agents: Slots::new(config.agents_max),
            calls: Slots::new(config.calls_max),
            requests: Slots::new(config.requests_max),
            directory: Directory::new(),
            random: Random::new(&config.key),
            pool: Pool::default(),
            events: VecDeque::new(),
            counters: Counters::default(),
            answers: Answers::default(),
            late: LateAnswers::default(),
            scratch: Vec::new(),
            unix_s_at_zero: 0,
            seal_error: None,
            catch_all: Vec::new(),
            kept: VecDeque::new(),
            due: Vec::new(),
            config,
        }
    }

    /// Adds an agent; `None` where there is no room, or where its URIs are not SIP URIs.
    pub fn add_agent(&mut self, config: &AgentConfig) -> Option<AgentKey> {
        let key = self.agents.insert()?;
        let register_id = self.random.next();
        let Some(agent) = self.agents.get_mut(key) else {
            return broken!("a slot that was just taken is in use", None);
        };
        if agent.fill(config).is_none() {
            self.agents.remove(key);
            return None;
        }
        agent.register_id = register_id;
        agent.always_proxy = self.config.always_proxy;
        self.directory.add(&self.agents, key.slot, &self.random);
        self.directory
            .join_conn(&mut self.agents, key, &self.random);
        Some(AgentKey(key))
    }

    /// Removes an agent that has neither calls nor requests under way; false
    /// where it has.
    pub fn remove_agent(&mut self, agent: AgentKey) -> bool {
        let Some(found) = self.agents.get(agent.0) else {
            return false;
        };
        if found.first_call != NOBODY || found.first_request != NOBODY {
            return false;
        }
        self.directory
            .remove(&self.agents, agent.0.slot, &self.random);
        self.directory
            .leave_conn(&mut self.agents, agent.0, &self.random);
        self.agents.remove(agent.0)
    }

    /// Sets the agent that takes the requests to this listener whose Request-URI names
    /// no other agent. Without one they are answered 404. [`Config::always_proxy`] does
    /// not apply to its own requests.
    pub fn set_catch_all(&mut self, listener: ListenerId, agent: AgentKey) {
        if let Some(found) = self.agents.get_mut(agent.0) {
            found.always_proxy = false;
        }
        self.catch_all.retain(|entry| entry.0 != listener);
        self.catch_all.push((listener, agent.0));
    }

    /// The agent that takes requests for no other agent.
    pub(crate) fn catch_all(&self, listener: ListenerId) -> Option<Key> {
        let (_, agent) = self.catch_all.iter().find(|entry| entry.0 == listener)?;
        self.agents.get(*agent).map(|_| *agent)
    }

    /// Changes the outbound proxy of an agent: after a connection was opened or lost.
    pub fn set_proxy(&mut self, agent: AgentKey, proxy: Target) {
        self.directory
            .leave_conn(&mut self.agents, agent.0, &self.random);
        if let Some(found) = self.agents.get_mut(agent.0) {
            found.proxy = proxy;
        }
        self.directory
            .join_conn(&mut self.agents, agent.0, &self.random);
    }

    /// Allocates room for so many calls at once: a table that grows under load is
    /// copied, which delays whatever is due.
    pub fn reserve(&mut self, calls: usize) {
        self.calls.reserve(calls);
    }

    /// An empty message, to fill and pass to [`UserAgents::handle_message`].
    pub fn spare_message(&mut self) -> Box<Message> {
        self.pool.message()
    }

    /// Handles a message that was parsed.
    pub fn handle_message(
        &mut self,
        now_ms: u64,
        flow: &Flow,
        mut message: Box<Message>,
        out: &mut Outbox,
    ) {
        if message.validate().is_err() {
            self.counters.malformed += 1;
            self.pool.recycle(message);
            return;
        }
        if message.is_request() {
            message.stamp_received(flow.remote);
            self.take_request(now_ms, flow, message, out);
        } else {
            self.take_response(now_ms, &message, out);
            self.pool.recycle(message);
        }
        self.take_transaction_events(now_ms, out);
    }

    /// Handles that the message with this cookie could not be sent.
    pub fn handle_send_failed(&mut self, now_ms: u64, cookie: u64, out: &mut Outbox) {
        if Transactions::is_cookie(cookie) {
            self.transactions.handle_send_failed(now_ms, cookie, out);
            self.take_transaction_events(now_ms, out);
        }
    }

    /// Handles the end of a connection. Requests that were sent on it and are not
    /// answered fail, since their responses would arrive on it.
    pub fn handle_closed(&mut self, now_ms: u64, conn: ConnId, out: &mut Outbox) {
        while let Some(key) = self
            .directory
            .first_on_conn(&self.agents, conn, &self.random)
        {
            self.directory
                .leave_conn(&mut self.agents, key, &self.random);
            let Some(agent) = self.agents.get_mut(key) else {
                return broken!("a connection names only live agents");
            };
            agent.proxy.conn = ConnId::NONE;
            let (mut next, mut next_request) = (agent.first_call, agent.first_request);
            self.push(Event::Disconnected {
                agent: AgentKey(key),
                conn,
            });
            while let Some(request) = self.requests.key_of(next_request) {
                next_request = self.requests.get(request).map_or(NOBODY, |r| r.next);
                self.give_up_request(request, conn);
            }
            while let Some(call) = self.calls.key_of(next) {
                next = self.calls.get(call).map_or(NOBODY, |c| c.next);
                self.give_up_call(call, conn);
            }
        }
        self.take_transaction_events(now_ms, out);
    }

    /// Runs the timers that are due.
    pub fn handle_timers(&mut self, now_ms: u64, out: &mut Outbox) {
        self.transactions.handle_timers(now_ms, out);
        self.take_transaction_events(now_ms, out);
        while let Some(&(until_ms, server)) = self.kept.front()
            && until_ms <= now_ms
        {
            self.kept.pop_front();
            self.transactions.release_server(server);
        }
        let mut due = std::mem::take(&mut self.due);
        self.wheel.advance(now_ms, |call| due.push(call));
        for call in due.drain(..) {
            self.take_call_timer(now_ms, call, out);
        }
        self.due = due;
        self.take_transaction_events(now_ms, out);
    }

    /// When to call [`UserAgents::handle_timers`] next.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        let (one, other) = (
            self.transactions.next_deadline_ms(),
            self.wheel.next_deadline_ms(),
        );
        match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// The next event; call until `None` after every action and every input.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Counts since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The final responses given since the start.
    pub fn answers(&self) -> &Answers {
        &self.answers
    }

    /// The transactions' counts since the start.
    pub fn transaction_counters(&self) -> &sip_txn::Counters {
        self.transactions.counters()
    }

    /// How many of each are alive.
    pub fn live(&self) -> Live {
        let live = self.transactions.live();
        Live {
            agents: self.agents.len(),
            calls: self.calls.len(),
            requests: self.requests.len(),
            transactions: live.client_invite
                + live.client_non_invite
                + live.server_invite
                + live.server_non_invite,
        }
    }

    /// Keeps an answered transaction for a while, to absorb retransmissions.
    pub(crate) fn keep_for_repeats(&mut self, now_ms: u64, server: ServerId) {
        if let Some(keep_ms) = self.config.keep_answers_ms {
            self.kept
                .push_back((now_ms.saturating_add(keep_ms), server));
        }
    }

    pub(crate) fn push(&mut self, event: Event) {
        if self.events.len() < self.config.events_max {
            self.events.push_back(event);
        } else {
            self.counters.events_dropped += 1;
        }
    }

    fn take_response(&mut self, now_ms: u64, response: &Message, out: &mut Outbox) {
        // RFC 3261 8.1.3.3: "If more than one Via header field value is present in a response, the UAC
        // SHOULD discard the message."
        if response.vias().nth(1).is_some() {
            self.counters.malformed += 1;
            return;
        }
        let passed = self.transactions.handle_response(now_ms, response, out);
        let Response::Pass { context, .. } = passed else {
            let is_answer = (200..300).contains(&response.status())
                && response.cseq().is_ok_and(|cseq| cseq.method == b"INVITE");
            if passed == Response::Unknown && is_answer {
                self.count_late_answer(now_ms, response);
            }
            return;
        };
        self.counters.responses += 1;
        match Context::read(context) {
            Some(Context::Invite(call)) => self.take_invite_response(now_ms, call, response, out),
            Some(Context::Bye(call)) => self.take_bye_response(now_ms, call, response, out),
            Some(Context::Request(request)) => {
                self.take_request_response(now_ms, request, response, out)
            }
            None => broken!("a transaction bears the context that it was begun with"),
        }
    }

    /// An answer that nobody acknowledges is sent again for 64*T1 (RFC 3261 13.3.1.4).
    fn count_late_answer(&mut self, now_ms: u64, response: &Message) {
        let tag = response.to().ok().and_then(|to| to.tag());
        let answer = self
            .random
            .of(&[response.call_id(), tag.unwrap_or_default()]);
        let until_ms = now_ms.saturating_add(64 * self.config.transactions.timers.t1_ms);
        let is_new = self.late.is_new(now_ms, until_ms, answer);
        self.counters.answers_too_late += u64::from(is_new);
    }

    pub(crate) fn take_transaction_events(&mut self, now_ms: u64, out: &mut Outbox) {
        use sip_txn::Event as E;
        while let Some(event) = self.transactions.poll_event() {
            match event {
                // RFC 3261 8.1.3.1: "When a timeout error is received from the transaction layer, it MUST be
                // treated as if a 408 (Request Timeout) status code has been received."
                E::ClientTimeout { client, context } => {
                    self.take_no_response(client, context, Cause::Timeout);
                }
                // RFC 3261 8.1.3.1: "If a fatal transport error is reported by the transport layer (generally,
                // due to fatal ICMP errors in UDP or connection failures in TCP), the condition MUST be treated
                // as a 503 (Service Unavailable) status code."
                E::ClientFailed {
                    client,
                    context,
                    answered: false,
                } => self.take_no_response(client, context, Cause::Transport),
                E::ClientFailed {
                    client, context, ..
                }
                | E::ClientTerminated { client, context } => {
                    // Not of the INVITE that was challenged: another went out since.
                    if let Some(Context::Invite(call)) = Context::read(context)
                        && self.is_invite_client(call, client)
                    {
                        self.forget_invite_client(call);
                    }
                }
                E::TryingDue { context, .. } => {
                    if let Some(Context::Invite(call)) = Context::read(context) {
                        self.send_answer(now_ms, call, 100, out);
                    }
                }
                E::ServerAckTimeout { .. }
                | E::ServerFailed { .. }
                | E::ServerExpired { .. }
                | E::ServerTerminated { .. } => {}
            }
        }
    }

    fn is_invite_client(&self, call: Key, client: ClientId) -> bool {
        let call = self.calls.get(call);
        call.is_some_and(|call| call.invite_client == Some(client))
    }

    fn take_no_response(&mut self, client: ClientId, context: u64, cause: Cause) {
        match Context::read(context) {
            Some(Context::Invite(call)) if self.is_invite_client(call, client) => {
                if let Some(found) = self.calls.get_mut(call) {
                    found.invite_client = None;
                    if found.state == State::Inviting {
                        self.fail_call(call, cause);
                    }
                }
            }
            Some(Context::Invite(_)) => {}
            Some(Context::Bye(call)) => {
                if let Some(found) = self.calls.get_mut(call) {
                    found.bye_client = None;
                }
                self.end_call(call, cause);
            }
            Some(Context::Request(request)) => self.end_request(request, cause, 0),
            None => broken!("a transaction bears the context that it was begun with"),
        }
    }
}

impl Context {
    pub(crate) fn word(self) -> u64 {
        let (kind, key) = match self {
            Self::Invite(key) => (1u64, key),
            Self::Bye(key) => (2, key),
            Self::Request(key) => (3, key),
        };
        kind << 60 | u64::from(key.slot) << 32 | u64::from(key.generation)
    }

    pub(crate) fn read(word: u64) -> Option<Self> {
        let key = Key {
            slot: (word >> 32) as u32 & 0x0fff_ffff,
            generation: word as u32,
        };
        match word >> 60 {
            1 => Some(Self::Invite(key)),
            2 => Some(Self::Bye(key)),
            3 => Some(Self::Request(key)),
            _ => None,
        }
    }
}
