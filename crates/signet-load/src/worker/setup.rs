//! Before the run: the agents are made, connected and registered, at a rate of
//! their own.

use invariant::broken;
use sip_dialog::{AgentConfig, Credentials};
use sip_msg::{ConnId, ListenerId, Transport};
use std::fmt::Write as _;
use std::net::SocketAddr;

use super::jobs::{Purpose, RequestSlot};
use super::seats::Seat;
use super::{Due, Unsent, Worker, WorkerPart};
use crate::cause::{CUT, NO_TIME, of_end};
use crate::clock::{NS_PER_MS, to_ms};
use crate::mix::Flow;
use crate::settings::{Lifetime, Settings};

/// Agents that are being brought up at the same time.
const AT_ONCE_MAX: u64 = 512;
/// How long the shared connection may take, over and above its own bounds.
const PATIENCE_NS: u64 = 30_000 * NS_PER_MS;
/// How often an agent is brought up again that failed.
const TRIES_MAX: u8 = 3;

/// How far it is.
#[derive(Default)]
pub(super) struct SetUp {
    next: u32,
    under_way: u64,
    due_ns: u64,
    interval_ns: u64,
    deadline_ns: u64,
    /// Seats to try again, and how often each was tried.
    again: Vec<(u32, u8)>,
    tried: std::collections::HashMap<u32, u8>,
}

impl SetUp {
    /// When the next agent is to be brought up, if it is time alone that it
    /// waits for.
    pub(super) fn next_due_ns(&self, seats: u32) -> Option<u64> {
        let has_more = self.next < seats || !self.again.is_empty();
        (has_more && self.under_way < AT_ONCE_MAX).then_some(self.due_ns)
    }
}

/// How many seats a worker begins with.
pub(super) fn seat_count(settings: &Settings, role: &WorkerPart) -> usize {
    if role.target.is_none() {
        return 0;
    }
    match settings.users.count() {
        0 => 1,
        all => all / role.of + usize::from(all % role.of > role.index),
    }
}

impl Worker {
    pub(super) fn begin_setup(&mut self) -> Result<(), String> {
        let now_ns = self.clock.now_ns();
        let rate_per_s = self.shared.settings.setup_rate_per_s.max(0.1) / self.role.of as f64;
        self.setup.interval_ns = (1e9 / rate_per_s) as u64;
        self.setup.due_ns = now_ns;
        self.setup.deadline_ns = now_ns + PATIENCE_NS;
        self.add_called_side()?;
        self.read_identities()?;
        if self.is_stream() && self.shared.settings.lifetime == Lifetime::One {
            self.open_shared(now_ns)
                .map_err(|why| format!("cannot connect to {}: {why}", self.where_to()))?;
        }
        Ok(())
    }

    /// Reads each agent's certificate, where they have one each; and gives each
    /// sessions of its own, where each has connections of its own to resume.
    fn read_identities(&mut self) -> Result<(), String> {
        let settings = &self.shared.settings;
        let keeps_own_sessions = settings.users.count() > 0
            && settings.lifetime != Lifetime::One
            && settings.tls.resume_share > 0.0;
        let Some(client) = self
            .tls
            .clone()
            .filter(|client| client.is_per_agent() || keeps_own_sessions)
        else {
            return Ok(());
        };
        for number in 0..self.seats.len() {
            let global = number * self.role.of + self.role.index;
            let own = client
                .of_agent(global + 1)
                .map_err(|error| error.to_string())?;
            self.identities.push(own);
        }
        Ok(())
    }

    /// Brings agents up; true when all are up or given up.
    pub(super) fn go_on_setting_up(&mut self, now_ns: u64) -> Result<bool, String> {
        if self.waits_for_shared_conn() {
            if !self.shared_conn.is_some() {
                let why = self.record.upkeep.causes.ranked();
                let why = why.first().map_or("no answer", |(why, _)| why);
                return Err(format!("cannot connect to {}: {why}", self.where_to()));
            }
            if now_ns > self.setup.deadline_ns {
                return Err(format!("cannot connect to {}: no answer", self.where_to()));
            }
            return Ok(false);
        }
        let count = u32::try_from(self.seats.len()).unwrap_or(u32::MAX);
        for _ in 0..64 {
            if now_ns < self.setup.due_ns || self.setup.under_way >= AT_ONCE_MAX {
                return Ok(false);
            }
            let number = if self.setup.next < count {
                self.setup.next += 1;
                self.setup.next - 1
            } else if let Some((number, tried)) = self.setup.again.pop() {
                self.setup.tried.insert(number, tried);
                number
            } else {
                break;
            };
            self.setup.due_ns = self
                .setup
                .due_ns
                .max(now_ns.saturating_sub(100 * NS_PER_MS))
                + self.setup.interval_ns;
            self.bring_up(number, now_ns);
        }
        let is_over =
            self.setup.next >= count && self.setup.under_way == 0 && self.setup.again.is_empty();
        if is_over && self.record.upkeep.ready == 0 && count > 0 {
            let causes = self.record.upkeep.causes.ranked();
            let why: Vec<String> = causes
                .iter()
                .map(|(why, n)| format!("{why} ({n})"))
                .collect();
            return Err(format!(
                "not one of {count} agents could be brought up at {}: {}",
                self.where_to(),
                why.join(", ")
            ));
        }
        if is_over {
            self.setup.tried.clear();
            self.setup.tried.shrink_to_fit();
        }
        Ok(is_over)
    }

    /// Whether the connection that all agents use is yet to come up.
    pub(super) fn waits_for_shared_conn(&self) -> bool {
        self.is_stream()
            && self.shared.settings.lifetime == Lifetime::One
            && self.shared_conn_local.is_none()
    }

    fn bring_up(&mut self, number: u32, now_ns: u64) {
        self.setup.under_way += 1;
        if !self.is_stream() || self.shared.settings.lifetime != Lifetime::Agent {
            let local = self.local_of(number);
            self.seat_agent(number, local, now_ns);
            return;
        }
        let Some(&Seat { conn, told, .. }) = self.seats.at(number) else {
            return broken!("seats are never taken away");
        };
        if conn.is_some() && conn == told {
            // The agent was refused, and its connection is still up.
            self.register_new(number, now_ns);
            return;
        }
        if conn.is_some() {
            // It came up, and there was no room for its agent.
            self.seats.lose_conn(conn);
            self.closing.push(conn);
        }
        match self.open(number) {
            Ok(conn) => self.seats.give_conn(number, conn, now_ns),
            Err(why) => self.set_up_failed(number, measure::Failure::Other(why)),
        }
    }

    /// The connection of a seat that is being brought up has come up. An agent that was refused
    /// on another one before sends over this one from now on.
    pub(super) fn seat_on(&mut self, number: u32, local: SocketAddr, now_ns: u64) {
        let Some(&Seat { agent, conn, .. }) = self.seats.at(number) else {
            return broken!("seats are never taken away");
        };
        if let (Some(agent), Some(target)) = (agent, self.target_on(number, conn)) {
            self.agents.set_proxy(agent, target);
            self.move_seat(number, conn, local);
        }
        self.seat_agent(number, local, now_ns);
    }

    /// The agent's connection is up: makes the agent, if it is not there yet.
    fn seat_agent(&mut self, number: u32, local: SocketAddr, now_ns: u64) {
        let had_agent = self
            .seats
            .at(number)
            .is_some_and(|seat| seat.agent.is_some());
        if !had_agent && !self.make_agent(number, local) {
            self.set_up_failed(number, measure::Failure::Other("no room"));
            return;
        }
        if !self.shared.settings.register_first {
            self.set_up_done(number);
            return;
        }
        self.register_new(number, now_ns);
    }

    fn register_new(&mut self, number: u32, now_ns: u64) {
        if let Err(why) = self.connect(number, now_ns) {
            self.set_up_failed(number, measure::Failure::Other(why));
            return;
        }
        if !self.register(number, Purpose::SetUp, now_ns) {
            self.set_up_failed(number, measure::Failure::Other("no room"));
        }
    }

    /// Makes the agent of a seat. `local` is the address of its contact.
    fn make_agent(&mut self, number: u32, local: SocketAddr) -> bool {
        let settings = &self.shared.settings;
        let global = number as usize * self.role.of + self.role.index;
        let user = self.user_of(number);
        let conn = self.seats.at(number).map_or(ConnId::NONE, |seat| seat.conn);
        let conn = if self.is_stream() && settings.lifetime == Lifetime::One {
            self.shared_conn
        } else {
            conn
        };
        let Some(proxy) = self.target_on(number, conn) else {
            return false;
        };
        // RFC 7118 B.1: a browser does not know where it is, and says so with a name
        // that leads nowhere.
        let sent_by = if proxy.transport.is_websocket() {
            format!("{:012x}.invalid", self.names.u64(..1 << 48))
        } else {
            local.to_string()
        };
        let config = AgentConfig {
            aor: format!("sip:{user}@{}", settings.domain),
            contact: contact(&user, &sent_by, proxy.transport),
            contact_params: String::new(),
            sent_by,
            registrar: format!("sip:{}", settings.domain),
            credentials: settings.users.password(global).map(|password| Credentials {
                realm: settings.realm.clone(),
                user: user.clone(),
                password,
            }),
            proxy,
        };
        let Some(agent) = self.agents.add_agent(&config) else {
            return false;
        };
        if let Some(smime) = &self.shared.smime {
            let Ok(security) = smime.of_caller(&config.aor) else {
                return false;
            };
            self.agents.secure_bodies(agent, Some(security));
        }
        self.seats.seat_down(number, agent);
        if conn.is_some()
            && let Some(seat) = self.seats.at_mut(number)
        {
            seat.conn = conn;
            seat.told = conn;
        }
        true
    }

    /// The name of a seat's agent.
    fn user_of(&self, number: u32) -> String {
        let global = number as usize * self.role.of + self.role.index;
        let mut user = String::new();
        self.shared.settings.users.write_user(global, &mut user);
        if user.is_empty() {
            user.push_str("load");
        }
        user
    }

    /// An agent's connection is up. Where it is another one than that whose address its contact
    /// has, it says from now on where it is.
    // RFC 3261 8.1.1.8: "That is, the Contact header field value contains the URI at which the UA
    // would like to receive requests, and this URI MUST be valid even if used in subsequent
    // requests outside of any dialogs."
    pub(super) fn move_seat(&mut self, number: u32, conn: ConnId, local: SocketAddr) {
        let Some(seat) = self.seats.at_mut(number) else {
            return broken!("seats are never taken away");
        };
        if seat.told == conn {
            return;
        }
        seat.told = conn;
        let agent = seat.agent;
        let transport = self.role.target.as_ref().map(|target| target.transport);
        // The name of a browser leads nowhere, whatever its connection.
        let transport = transport.filter(|transport| !transport.is_websocket());
        let (Some(agent), Some(transport)) = (agent, transport) else {
            return;
        };
        let sent_by = local.to_string();
        let contact = contact(&self.user_of(number), &sent_by, transport);
        if !self.agents.move_agent(agent, &contact, &sent_by) {
            broken!("an agent stays, and its contact is a URI wherever it is");
        }
    }

    /// One seat more, for a job that has a connection to itself.
    pub(super) fn seat_more(&mut self) -> Option<u32> {
        if self.shared.settings.users.count() > 0 {
            return None;
        }
        let number = self.seats.grow();
        let local = self.local_of(number);
        if !self.make_agent(number, local) {
            return None;
        }
        self.seats.set_ready(number);
        Some(number)
    }

    /// Sends a REGISTER that is no arrival.
    pub(super) fn register(&mut self, number: u32, purpose: Purpose, now_ns: u64) -> bool {
        let Some(agent) = self.seats.at(number).and_then(|seat| seat.agent) else {
            return false;
        };
        let expires_s = self.shared.settings.expires_s;
        let Some(key) = self
            .agents
            .register(to_ms(now_ns), agent, expires_s, &mut self.outbox)
        else {
            return false;
        };
        self.jobs.keep_request(RequestSlot {
            key,
            purpose,
            seat: number,
            intended_ns: now_ns,
            sent_ns: now_ns,
        });
        self.unsent.push(Unsent::Request(key));
        true
    }

    /// A registration that was no arrival is over.
    pub(super) fn registered(
        &mut self,
        slot: &RequestSlot,
        result: Result<u32, measure::Failure>,
        now_ns: u64,
    ) {
        let result = match result {
            Ok(0) if self.shared.settings.expires_s > 0 => Err(NO_TIME),
            other => other,
        };
        // Where arrivals register, the delays are theirs.
        let mix = &self.shared.settings.mix;
        let arrivals_register = mix.flows().any(|flow| flow == Flow::Register);
        if result.is_ok() && !arrivals_register {
            self.record.figures.upkeep_registered(slot.sent_ns, now_ns);
        }
        match (slot.purpose, result) {
            (Purpose::SetUp, Ok(expires_s)) => {
                self.keep_fresh(slot.seat, expires_s, now_ns);
                self.set_up_done(slot.seat);
            }
            (Purpose::SetUp, Err(failure)) => self.set_up_failed(slot.seat, failure),
            (_, Ok(expires_s)) => {
                self.record.upkeep.refreshed += 1;
                self.storm_registered(slot.seat, now_ns);
                self.keep_fresh(slot.seat, expires_s, now_ns);
            }
            (_, Err(failure)) => {
                self.record.upkeep.causes.add(failure);
                // What the storm cut off is no refusal: it is asked for again at once.
                self.record.upkeep.not_refreshed +=
                    u64::from(failure != measure::Failure::Other(CUT));
                self.note_registration(slot.seat, false);
                if let Some(seat) = self.seats.at_mut(slot.seat) {
                    seat.is_lost = true;
                }
                // As good as a registration that lasts a few seconds.
                let after_ms = self.dice.u64(5_000..10_000);
                self.plan_refresh(slot.seat, to_ms(now_ns) + after_ms);
            }
        }
    }

    /// Whether a seat's agent is registered.
    pub(super) fn note_registration(&mut self, number: u32, is_registered: bool) {
        self.seats.set_registered(number, is_registered);
        match self.seats.at_mut(number) {
            Some(seat) => seat.is_lost &= !is_registered,
            None => broken!("seats are never taken away"),
        }
    }

    /// A registration is to be renewed then, and at no time that was planned before.
    fn plan_refresh(&mut self, number: u32, due_ms: u64) {
        let timer = self.agenda.start(due_ms, Due::Refresh(number));
        let Some(seat) = self.seats.at_mut(number) else {
            return broken!("seats are never taken away");
        };
        let before = std::mem::replace(&mut seat.refresh, timer);
        self.agenda.cancel(before);
    }

    /// It is registering, or has no way to: later.
    pub(super) fn refresh_soon(&mut self, number: u32, now_ns: u64) {
        let after_ms = self.dice.u64(1_000..2_000);
        self.plan_refresh(number, to_ms(now_ns) + after_ms);
    }

    /// Renews the registration at half of its time, give or take a fifth: agents
    /// that were registered in one rush must not be renewed in one.
    pub(super) fn keep_fresh(&mut self, number: u32, expires_s: u32, now_ns: u64) {
        self.note_registration(number, expires_s > 0);
        if expires_s > 0 && self.shared.settings.register_first {
            let half_ms = u64::from(expires_s) * 500;
            let after_ms = half_ms - half_ms / 5 + self.dice.u64(..(half_ms * 2 / 5).max(1));
            self.plan_refresh(number, to_ms(now_ns) + after_ms);
        }
    }

    fn set_up_done(&mut self, number: u32) {
        self.setup.under_way = self.setup.under_way.saturating_sub(1);
        self.record.upkeep.ready += 1;
        self.seats.set_ready(number);
        if self.is_exclusive() {
            self.seats.free(number);
        }
    }

    /// An agent could not be brought up; it is tried again a few times.
    pub(super) fn set_up_failed(&mut self, number: u32, failure: measure::Failure) {
        self.setup.under_way = self.setup.under_way.saturating_sub(1);
        let tried = self.setup.tried.get(&number).copied().unwrap_or(1);
        self.record.upkeep.causes.add(failure);
        let is_final = matches!(failure, measure::Failure::Status(400..=499));
        if tried < TRIES_MAX && !is_final {
            self.setup.again.push((number, tried + 1));
        } else {
            self.record.upkeep.failed += 1;
        }
    }

    /// The address in the contact of a seat without a connection.
    pub(super) fn local_of(&self, number: u32) -> SocketAddr {
        if let Some(local) = self.shared_conn_local {
            return local;
        }
        let listener = self
            .target_on(number, ConnId::NONE)
            .map_or(ListenerId(0), |target| target.listener);
        let mut local = self
            .net
            .local_addr(listener)
            .unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)));
        if local.port() == 0 {
            // Nobody listens there; what comes back comes on the connection.
            local.set_port(5_060);
        }
        local
    }

    pub(super) fn where_to(&self) -> String {
        self.role
            .target
            .as_ref()
            .map_or_else(String::new, |target| {
                let mut text = String::new();
                let _ = write!(text, "{}:{}", target.transport.uri_name(), target.remote);
                text
            })
    }

    /// Of the seats, none: an agent of the called side.
    pub(super) fn called_agent(
        &self,
        listener: ListenerId,
        transport: Transport,
    ) -> Option<AgentConfig> {
        let local = self.net.local_addr(listener)?;
        Some(AgentConfig {
            aor: format!("sip:answer@{local}"),
            contact: format!("sip:answer@{local};transport={}", transport.uri_param()),
            contact_params: String::new(),
            sent_by: local.to_string(),
            registrar: format!("sip:{local}"),
            credentials: None,
            proxy: sip_msg::Target {
                transport,
                listener,
                remote: local,
                conn: ConnId::NONE,
                may_open: true,
                tls_name: None,
                lane: sip_msg::Lane::Shared,
                local: None,
            },
        })
    }

    /// Turns a dialog's cause into a failure.
    pub(super) fn failure(cause: sip_dialog::Cause, why: Option<&'static str>) -> measure::Failure {
        of_end(cause, why)
    }
}

/// The contact of a user who is reached there.
fn contact(user: &str, sent_by: &str, transport: Transport) -> String {
    match transport {
        Transport::Udp => format!("sip:{user}@{sent_by}"),
        other => format!("sip:{user}@{sent_by};transport={}", other.uri_param()),
    }
}
