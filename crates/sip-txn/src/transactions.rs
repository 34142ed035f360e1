//! All transactions of a shard: what both sides share.

use crate::branch::Secrets;
use crate::buffers::Buffers;
use crate::client::Client;
use crate::id::{SLOT_MAX, Side, cookie_timer};
use crate::machine::{ClientEvent, ServerEvent};
use crate::server::Servers;
use crate::{Config, Counters, Event, Live};
use invariant::broken;
use sip_msg::{Limits, Message, Outbox};
use slots::Slots;
use std::collections::VecDeque;
use wheel::Wheel;

/// The transactions of one shard.
///
/// - **Server side**: [`handle_request`](Self::handle_request),
///   [`respond`](Self::respond), [`respond_trying`](Self::respond_trying),
///   [`release_server`](Self::release_server), and getters.
/// - **Client side**: [`reserve_client`](Self::reserve_client),
///   [`write_branch`](Self::write_branch), [`start_client`](Self::start_client),
///   [`handle_response`](Self::handle_response), [`cancel`](Self::cancel),
///   [`release_client`](Self::release_client), and getters.
/// - **Both**: [`handle_send_failed`](Self::handle_send_failed),
///   [`handle_connection_lost`](Self::handle_connection_lost),
///   [`handle_timers`](Self::handle_timers), and then, until each gives `None`
///   or the outbox is empty, [`poll_event`](Self::poll_event) and the sending.
///
/// Who answers for the end of a transaction: every client transaction but one
/// for an INVITE in "Proceeding" ends by its timers; that one ends by timer C
/// of the core (RFC 3261 16.8), which cancels or releases it. A server
/// transaction for an INVITE waits for its core's final response; one for
/// another method is forgotten after 64*T1.
#[derive(Debug)]
pub struct Transactions {
    pub(crate) config: Config,
    pub(crate) wheel: Wheel<u64>,
    pub(crate) servers: Servers,
    pub(crate) clients: Slots<Client>,
    pub(crate) secrets: Secrets,
    pub(crate) buffers: Buffers,
    pub(crate) events: VecDeque<Event>,
    pub(crate) counters: Counters,
    pub(crate) live: Live,
    /// INVITE server transactions in "Completed".
    pub(crate) completed: usize,
    /// Where a kept message is read again.
    pub(crate) scratch: Scratch,
    /// The timers that are due, while they are handled.
    due: Vec<u64>,
}

impl Transactions {
    /// No transactions. `now_ms` is where the clock stands.
    pub fn new(config: Config, now_ms: u64) -> Self {
        Self {
            wheel: Wheel::new(now_ms),
            servers: Servers::new(config.server_max),
            clients: Slots::new(SLOT_MAX),
            secrets: Secrets::new(config.branch_key),
            buffers: Buffers::default(),
            events: VecDeque::new(),
            counters: Counters::default(),
            live: Live::default(),
            completed: 0,
            scratch: Scratch::default(),
            due: Vec::new(),
            config,
        }
    }

    /// Whether a [`sip_msg::QueuedMessage::cookie`] is one of this layer's. They have the
    /// top bit clear: a caller's own cookies should have it set.
    pub fn is_cookie(cookie: u64) -> bool {
        cookie >> 63 == 0 && Side::from_cookie(cookie).is_some()
    }

    /// Handles a message that could not be sent, named by its cookie (RFC 3261 17.1.4).
    pub fn handle_send_failed(&mut self, now_ms: u64, cookie: u64, out: &mut Outbox) {
        match Side::from_cookie(cookie).filter(|_| Self::is_cookie(cookie)) {
            Some(Side::Client(id)) => {
                self.run_client(now_ms, id, ClientEvent::TransportError, None, out)
            }
            Some(Side::Server(id)) => {
                self.run_server(now_ms, id, ServerEvent::TransportError, None, out)
            }
            None => Default::default(),
        };
    }

    /// Handles the end of the connection that the message with this cookie was sent
    /// over: a request without any response has failed (RFC 3261 17.1.4), every
    /// other transaction goes on.
    pub fn handle_connection_lost(&mut self, now_ms: u64, cookie: u64, out: &mut Outbox) {
        if Self::is_cookie(cookie)
            && let Some(Side::Client(id)) = Side::from_cookie(cookie)
        {
            self.run_client(now_ms, id, ClientEvent::ConnectionLost, None, out);
        }
    }

    /// Fires the timers that are due: retransmissions, and the ends of transactions.
    pub fn handle_timers(&mut self, now_ms: u64, out: &mut Outbox) {
        let mut due = std::mem::take(&mut self.due);
        self.wheel.advance(now_ms, |key| due.push(key));
        for key in due.drain(..) {
            let Some(timer) = cookie_timer(key) else {
                broken!("the wheel carries cookies of timers");
                continue;
            };
            match Side::from_cookie(key) {
                Some(Side::Client(id)) => {
                    self.run_client(now_ms, id, ClientEvent::Timer(timer), None, out)
                }
                Some(Side::Server(id)) => self.handle_server_timer(now_ms, id, timer, out),
                None => broken!("the wheel carries cookies of timers", Ran::default()),
            };
        }
        self.due = due;
    }

    /// When to call [`Transactions::handle_timers`] next.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.wheel.next_deadline_ms()
    }

    /// The next event; call until `None` after every `handle_*`, `respond` and `cancel`.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Counts since the start.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The memory that transactions hold: the tables, the messages that they
    /// keep, and what is spare.
    pub fn held_bytes(&self) -> usize {
        self.servers.held_bytes()
            + self.clients.held_bytes()
            + self.wheel.held_bytes()
            + self.buffers.held_bytes()
    }

    /// Gives back memory that nothing has needed since the last call: to be
    /// called every few seconds.
    pub fn trim(&mut self) {
        self.servers.trim();
        self.clients.trim();
        self.wheel.trim();
        self.buffers.trim();
        self.scratch.trim();
    }

    /// Transactions alive.
    pub const fn live(&self) -> Live {
        self.live
    }

    /// INVITEs whose final response may have to be sent again, because its ACK has not come. An
    /// ACK to a 2xx is no affair of this layer.
    pub const fn unacknowledged(&self) -> usize {
        self.completed
    }

    /// How long after a 2xx to an INVITE has passed its ACK may still be expected. Whoever sends
    /// a 2xx repeats it after T1 and 3*T1 if its ACK is lost (RFC 3261 13.3.1.4).
    pub const fn ack_wait_ms(&self) -> u64 {
        self.config.timers.t1_ms.saturating_mul(4)
    }
}

/// What running a machine came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ran {
    /// The message at hand is for the core.
    pub(crate) pass_up: bool,
    /// It would be, but it answers a CANCEL that is made here.
    pub(crate) is_ours: bool,
    /// The core's response must not be sent.
    pub(crate) refused: bool,
}

/// A message that kept bytes are read into.
#[derive(Default)]
pub(crate) struct Scratch(Message);

/// A kept message was within the limits of whoever wrote it.
const LIMITS: Limits = Limits {
    message_bytes: usize::MAX,
    header_count: usize::MAX,
    header_bytes: usize::MAX,
    uri_bytes: usize::MAX,
    body_bytes: usize::MAX,
};

impl Scratch {
    fn trim(&mut self) {
        self.0.shrink();
    }

    /// `None` for bytes that are no message.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Option<&Message> {
        self.0.fill(bytes, &LIMITS).ok()?;
        Some(&self.0)
    }
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scratch")
    }
}
