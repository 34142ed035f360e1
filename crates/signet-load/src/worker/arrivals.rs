//! Arrivals: each begins at its time, or fails with a cause. None is put off and none is
//! left out while the schedule lasts: the load is open. What did not come to its turn
//! until then is never sent, and counted: the schedule says how long the run is.

use invariant::broken;
use sip_dialog::{CallKey, RequestKey};
use sip_msg::{ConnId, Target};

use measure::Failure;

use super::jobs::{CallSlot, Purpose, RequestSlot};
use super::{ARRIVALS_MAX, Unsent, Worker};
use crate::cause::{NO_AGENT, NO_ROOM, of_send, of_transport};
use crate::clock::to_ms;
use crate::mix::Flow;
use crate::settings::{Called, Close, Lifetime};

/// What an arrival has become.
enum Job {
    Call(CallKey),
    Request(RequestKey),
}

impl Worker {
    /// Begins what is due. After the end of the schedule that is what fits into this
    /// turn, since something is always due a moment before; the rest is given up.
    pub(super) fn begin_arrivals(&mut self) {
        let is_over = self.clock.now_ns() >= self.start_ns.saturating_add(self.schedule_ns);
        for _ in 0..ARRIVALS_MAX {
            let now_ns = self.clock.now_ns();
            let Some(elapsed_ns) = now_ns.checked_sub(self.start_ns) else {
                return;
            };
            let Some(due_ns) = self
                .pacer
                .as_mut()
                .and_then(|pacer| pacer.take_due(elapsed_ns))
            else {
                break;
            };
            let intended_ns = self.start_ns + due_ns;
            let flow = self.dealer.next();
            self.record.started(flow, intended_ns, now_ns);
            if let Err(failure) = self.begin(flow, intended_ns, now_ns) {
                self.record.failed(flow, failure);
            }
        }
        if is_over && let Some(pacer) = &mut self.pacer {
            let left = pacer.give_up();
            self.record.unsent += left;
            self.record.second.given_up(left);
        }
    }

    fn begin(&mut self, flow: Flow, intended_ns: u64, now_ns: u64) -> Result<(), Failure> {
        let number = self.pick(flow).ok_or(NO_AGENT)?;
        let begun = self.begin_on(number, flow, intended_ns, now_ns);
        if begun.is_err() && self.is_exclusive() {
            self.seats.free(number);
        }
        begun
    }

    /// Whose turn it is.
    fn pick(&mut self, flow: Flow) -> Option<u32> {
        let must_be_registered =
            flow.needs_registration() || flow == Flow::Call && self.shared.settings.register_first;
        if !self.is_exclusive() {
            return self.seats.next(must_be_registered);
        }
        self.seats
            .take_free(must_be_registered)
            .or_else(|| self.seat_more())
    }

    fn begin_on(
        &mut self,
        number: u32,
        flow: Flow,
        intended_ns: u64,
        now_ns: u64,
    ) -> Result<(), Failure> {
        self.connect(number, now_ns).map_err(of_transport)?;
        let agent = self.seats.at(number).and_then(|seat| seat.agent);
        let agent = agent.ok_or_else(|| broken!("a seat that is ready has an agent", NO_AGENT))?;
        let now_ms = to_ms(now_ns);
        let mut uri = std::mem::take(&mut self.uri);
        self.write_called(number, &mut uri);
        let expires_s = if flow == Flow::Deregister {
            0
        } else {
            self.shared.settings.expires_s
        };
        let job = match flow {
            Flow::Call => self
                .agents
                .invite(now_ms, agent, &uri, None, &mut self.outbox)
                .map(Job::Call),
            Flow::Register | Flow::Reregister | Flow::Deregister => self
                .agents
                .register(now_ms, agent, expires_s, &mut self.outbox)
                .map(Job::Request),
            Flow::Options => self
                .agents
                .options(now_ms, agent, &uri, &mut self.outbox)
                .map(Job::Request),
            Flow::Message => self
                .agents
                .message(
                    now_ms,
                    agent,
                    &uri,
                    b"text/plain",
                    MESSAGE,
                    &mut self.outbox,
                )
                .map(Job::Request),
        };
        self.uri = uri;
        match job {
            Some(Job::Call(key)) => {
                self.jobs.keep_call(CallSlot {
                    key,
                    is_caller: true,
                    seat: number,
                    intended_ns,
                    sent_ns: now_ns,
                    first_status_ns: 0,
                    answered_ns: 0,
                    bye_intended_ns: 0,
                    bye_sent_ns: 0,
                });
                self.unsent.push(Unsent::Invite(key));
            }
            Some(Job::Request(key)) => {
                self.jobs.keep_request(RequestSlot {
                    key,
                    purpose: Purpose::Arrival(flow),
                    seat: number,
                    intended_ns,
                    sent_ns: now_ns,
                });
                self.unsent.push(Unsent::Request(key));
            }
            None if flow.is_register() => return Err(Failure::Other("registering already")),
            None => return Err(NO_ROOM),
        }
        Ok(())
    }

    /// Whom this seat calls.
    fn write_called(&mut self, number: u32, uri: &mut String) {
        uri.clear();
        let settings = &self.shared.settings;
        let total = settings.users.count();
        let own = number as usize * self.role.of + self.role.index;
        let peer = match &settings.called {
            Called::Uri(called) => {
                uri.push_str(called);
                return;
            }
            Called::Ring => (own + 1) % total.max(1),
            Called::Random => {
                let other = self.dice.usize(..total.saturating_sub(1).max(1));
                if other < own { other } else { other + 1 }
            }
        };
        uri.push_str("sip:");
        settings.users.write_user(peer, uri);
        uri.push('@');
        uri.push_str(&settings.domain);
    }

    /// Sees to it that the seat has a connection, up or being opened.
    pub(super) fn connect(&mut self, number: u32, now_ns: u64) -> Result<(), &'static str> {
        if !self.is_stream() {
            return Ok(());
        }
        let is_shared = self.shared.settings.lifetime == Lifetime::One;
        let Some(seat) = self.seats.at(number) else {
            return broken!("seats are never taken away", Err("no free agent"));
        };
        let (agent, conn) = (seat.agent, seat.conn);
        if is_shared && !self.shared_conn.is_some() {
            self.open_shared(now_ns)?;
        }
        let wanted = if is_shared {
            self.shared_conn
        } else if conn.is_some() {
            conn
        } else {
            let opened = self.open(number)?;
            self.seats.give_conn(number, opened, now_ns);
            opened
        };
        if is_shared {
            if let Some(local) = self.shared_conn_local.filter(|_| self.shared_since_ns == 0) {
                self.move_seat(number, wanted, local);
            }
            if wanted == conn {
                return Ok(());
            }
            if let Some(seat) = self.seats.at_mut(number) {
                seat.conn = wanted;
            }
        } else if wanted == conn {
            return Ok(());
        }
        if let (Some(agent), Some(target)) = (agent, self.target_on(number, wanted)) {
            self.agents.set_proxy(agent, target);
        }
        Ok(())
    }

    /// Opens the connection that all agents use.
    pub(super) fn open_shared(&mut self, now_ns: u64) -> Result<(), &'static str> {
        self.shared_conn = self.open(0)?;
        self.shared_since_ns = now_ns.max(1);
        Ok(())
    }

    /// Opens a connection for a seat, from the address that is its own.
    pub(super) fn open(&mut self, number: u32) -> Result<ConnId, &'static str> {
        let Some(target) = self.target_on(number, ConnId::NONE) else {
            return Err("no socket");
        };
        let failed = |error| of_send(error, "handshake");
        let Some(client) = self.tls.as_ref().filter(|_| target.transport.is_secure()) else {
            return self.net.open(&target).map_err(failed);
        };
        let share = self.shared.settings.tls.resume_share;
        let resumes = share > 0.0 && self.dice.f64() < share;
        let own = self.identities.get(number as usize);
        let made;
        let identity = match own {
            Some(own) if resumes => own,
            Some(own) => {
                made = std::sync::Arc::new(own.without_resumption());
                &made
            }
            None if resumes => &client.resuming,
            None => &client.full,
        };
        let opened = self.net.open_as(&target, identity).map_err(failed);
        if let Some(seat) = self.seats.at_mut(number) {
            seat.wants_resumption = resumes;
        }
        opened
    }

    /// Where a seat's requests go.
    pub(super) fn target_on(&self, number: u32, conn: ConnId) -> Option<Target> {
        let mut target = self.role.target.clone()?;
        let senders = u32::from(self.role.senders.max(1));
        target.listener.0 += u16::try_from(number % senders).unwrap_or(0);
        target.conn = conn;
        // A connection that is gone is not silently replaced: that would be
        // another handshake than the one that was asked for.
        target.may_open = !conn.is_some();
        Some(target)
    }

    /// What had the seat's connection to itself is over.
    pub(super) fn leave(&mut self, number: u32) {
        let Lifetime::Calls(most) = self.shared.settings.lifetime else {
            return;
        };
        if !self.is_exclusive() {
            return;
        }
        let Some(seat) = self.seats.at_mut(number) else {
            return broken!("seats are never taken away");
        };
        seat.served += 1;
        let (conn, agent, is_spent) = (seat.conn, seat.agent, seat.served >= most);
        if is_spent && conn.is_some() {
            self.seats.lose_conn(conn);
            if let (Some(agent), Some(target)) = (agent, self.target_on(number, ConnId::NONE)) {
                self.agents.set_proxy(agent, target);
            }
            self.closing.push(conn);
        }
        self.seats.free(number);
    }

    /// Closes the connections that have served, after what was last sent on them.
    pub(super) fn close_spent(&mut self) {
        for conn in self.closing.drain(..) {
            match self.shared.settings.close {
                Close::Clean => self.net.close(conn, true),
                Close::Abrupt => self.net.abort(conn),
            }
        }
    }
}

/// What a MESSAGE says.
const MESSAGE: &[u8] = b"The quick brown fox jumps over the lazy dog.";
