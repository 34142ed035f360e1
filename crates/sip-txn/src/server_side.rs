//! The server side: requests in, responses out (RFC 3261 17.2).

use crate::id::Side;
use crate::key::{Key, method_tag, tag_hash};
use crate::machine::{Action, Notice, ServerEvent, Timer};
use crate::server::{Machine, Server};
use crate::transactions::{Ran, Transactions};
use crate::via::{maddr, response_target};
use crate::{Event, Incoming, Responded, ServerId, ServerState};
use invariant::broken;
use sip_msg::{Flow, Message, Method, Outbox, ResponseWriter, Target};
use wheel::TimerId;

/// How many transactions may have one branch and sent-by (in the form of RFC 2543: all that names a
/// transaction but the tag in To). They stand in one chain, which each request of that branch
/// walks, an ACK of anybody's too. Who keeps to RFC 3261 8.1.1.7 has two at most, an INVITE and
/// its CANCEL.
const TWINS_MAX: usize = 8;

impl Transactions {
    /// Handles a request that was parsed and validated.
    pub fn handle_request(
        &mut self,
        now_ms: u64,
        flow: &Flow,
        request: &Message,
        out: &mut Outbox,
    ) -> Incoming {
        let Ok(via) = request.top_via() else {
            return Incoming::NoVia;
        };
        let method = request.method();
        let tag = method_tag(method, request.method_token());
        let key = Key::new(&self.config.hash_key, request, &via);
        if method == Method::Ack {
            return self.handle_ack(now_ms, &key, out);
        }

        // RFC 3261 17.2.3: "3. the method of the request matches the one that created the transaction, except
        // for ACK, where the method of the request that created the transaction is INVITE."
        // RFC 3261 17.2.3: "When a non-INVITE request matches an existing transaction, it is a
        // retransmission of the request that created that transaction."
        // A CANCEL from another address must not pass for the right one (see `find_cancelled`).
        let from_there = |server: &Server| {
            method != Method::Cancel
                || server.maddr
                || server.target.remote.ip() == flow.remote.ip()
        };
        let same = |server: &Server| {
            server.method_tag == tag && server.key.to_tag == key.to_tag && from_there(server)
        };
        let twins = match self.servers.seek(key.hash, same) {
            Ok(id) => {
                self.counters.request_absorbed += 1;
                self.run_server(now_ms, id, ServerEvent::Request, None, out);
                return Incoming::Absorbed;
            }
            Err(twins) => twins,
        };
        if twins >= TWINS_MAX {
            self.counters.server_twins_full += 1;
            return Incoming::Full;
        }
        if self.servers.len() >= self.config.server_max {
            self.counters.server_full += 1;
            return Incoming::Full;
        }
        let (machine, actions) = Machine::new(method);
        let target = response_target(flow, &via, self.config.honour_maddr);
        let mut server = Server::new(key, method, tag, machine, target);
        server.maddr = self.config.honour_maddr && maddr(&via).is_some();
        let Some(id) = self.servers.insert(server) else {
            self.counters.server_full += 1;
            return Incoming::Full;
        };
        self.counters.server_created += 1;
        if machine.is_invite() {
            self.live.server_invite += 1;
        } else {
            self.live.server_non_invite += 1;
        }
        self.act_server(now_ms, id, actions, None, out);

        if method == Method::Cancel {
            let invite = self.find_cancelled(flow, &key, tag);
            return Incoming::Cancel { cancel: id, invite };
        }
        // RFC 3261 17.2.1: "The request MUST be passed to the TU."
        Incoming::New(id)
    }

    /// Sends `out.bytes[start..]` as response with this status. Where the
    /// response is refused, those bytes are cut off.
    pub fn respond(
        &mut self,
        now_ms: u64,
        id: ServerId,
        status: u16,
        start: usize,
        out: &mut Outbox,
    ) -> Responded {
        let Some(server) = self.servers.get_mut(id) else {
            out.bytes.truncate(start);
            return Responded::Unknown;
        };
        if !server.machine.is_invite() && !allowed_to_non_invite(status, server.trying_allowed) {
            self.counters.response_refused += 1;
            out.bytes.truncate(start);
            return Responded::Refused;
        }
        if server.key.legacy && status >= 200 {
            let response = out
                .bytes
                .get(start..)
                .and_then(|bytes| self.scratch.read(bytes));
            let tag = response.and_then(|response| response.to().ok()?.tag());
            server.response_tag = Some(tag_hash(&self.config.hash_key, tag.unwrap_or_default()));
        }
        let ran = self.run_server(
            now_ms,
            id,
            ServerEvent::from_status(status),
            Some(start),
            out,
        );
        if ran.refused {
            self.counters.response_refused += 1;
            out.bytes.truncate(start);
            return Responded::Refused;
        }
        Responded::Sent
    }

    /// Writes a 100 (Trying) to the transaction's request, as
    /// [`Message::stamp_received`] left it, and sends it.
    pub fn respond_trying(
        &mut self,
        now_ms: u64,
        id: ServerId,
        request: &Message,
        out: &mut Outbox,
    ) -> Responded {
        let start = out.bytes.len();
        // RFC 3261 17.2.1: "The 100 (Trying) response is constructed according to the procedures in Section
        // 8.2.6, except that the insertion of tags in the To header field of the response (when none was
        // present in the request) is downgraded from MAY to SHOULD NOT."
        ResponseWriter::begin(&mut out.bytes, request, 100, "Trying", b"").finish(b"");
        self.respond(now_ms, id, 100, start, out)
    }

    /// Ends a transaction at once, without an event: for a request that is to be
    /// handled without state after all (answer it by [`response_target`]), or
    /// one whose core ends without an answer.
    pub fn release_server(&mut self, id: ServerId) {
        self.end_server(id);
    }

    /// Gives the transaction a value that its events carry; 0 at first. The
    /// ordinary end of a transaction whose context is 0 makes no event.
    pub fn set_context(&mut self, id: ServerId, context: u64) {
        if let Some(server) = self.servers.get_mut(id) {
            server.context = context;
        }
    }

    /// The transaction's context.
    pub fn context(&self, id: ServerId) -> Option<u64> {
        self.servers.get(id).map(|server| server.context)
    }

    /// Where the transaction stands; `None` when it is over.
    pub fn server_state(&self, id: ServerId) -> Option<ServerState> {
        self.servers.get(id)?.machine.state()
    }

    /// The method of the request that created the transaction.
    pub fn server_method(&self, id: ServerId) -> Option<Method> {
        self.servers.get(id).map(|server| server.method)
    }

    /// Where the transaction's responses go.
    pub fn server_target(&self, id: ServerId) -> Option<&Target> {
        self.servers.get(id).map(|server| &server.target)
    }

    fn handle_ack(&mut self, now_ms: u64, key: &Key, out: &mut Outbox) -> Incoming {
        let invite_tag = method_tag(Method::Invite, b"");
        // RFC 3261 17.2.3: "The ACK request matches a transaction if the Request-URI, From tag, Call-ID, CSeq
        // number (not the method), and top Via header field match those of the INVITE request which
        // created the transaction, and the To tag of the ACK matches the To tag of the response sent by
        // the server transaction."
        let acknowledged = |server: &Server| {
            server.method_tag == invite_tag
                && (!key.legacy || server.response_tag == Some(key.to_tag))
        };
        let Some(id) = self.servers.find(key.hash, acknowledged) else {
            return Incoming::Ack { invite: None };
        };
        if self
            .run_server(now_ms, id, ServerEvent::Ack, None, out)
            .pass_up
        {
            return Incoming::Ack { invite: Some(id) };
        }
        self.counters.ack_absorbed += 1;
        Incoming::Absorbed
    }

    // RFC 3261 9.2: "The TU determines the transaction to be cancelled by taking the CANCEL request, and then
    // assuming that the request method is anything but CANCEL or ACK and applying the transaction matching
    // procedures of Section 17.2.3."
    fn find_cancelled(&mut self, flow: &Flow, key: &Key, cancel_tag: u32) -> Option<ServerId> {
        let cancelled =
            |server: &Server| server.method_tag != cancel_tag && server.key.to_tag == key.to_tag;
        let id = self.servers.find(key.hash, cancelled)?;
        let server = self.servers.get(id)?;
        // A CANCEL takes its INVITE's way, so it comes from the same address.
        // Its branch alone would let an onlooker end other people's calls.
        if !server.maddr && server.target.remote.ip() != flow.remote.ip() {
            self.counters.cancel_wrong_source += 1;
            return None;
        }
        Some(id)
    }

    pub(crate) fn handle_server_timer(
        &mut self,
        now_ms: u64,
        id: ServerId,
        timer: Timer,
        out: &mut Outbox,
    ) -> Ran {
        if let Some(server) = self.servers.get_mut(id) {
            // RFC 4320 4.1: "A SIP element MUST NOT respond to a non-INVITE request with a Status-Code of 100
            // over any unreliable transport, such as UDP, before the amount of time it takes a client
            // transaction's Timer E to be reset to T2."
            server.trying_allowed |= timer == Timer::TryingLate;
        }
        self.run_server(now_ms, id, ServerEvent::Timer(timer), None, out)
    }

    /// Runs the machine. `response` is where the core's response begins.
    pub(crate) fn run_server(
        &mut self,
        now_ms: u64,
        id: ServerId,
        event: ServerEvent,
        response: Option<usize>,
        out: &mut Outbox,
    ) -> Ran {
        let Some(server) = self.servers.get_mut(id) else {
            return Ran::default();
        };
        let (machine, actions) = server.machine.step(event);
        let before = std::mem::replace(&mut server.machine, machine);
        self.completed += usize::from(machine.awaits_ack());
        self.completed -= usize::from(before.awaits_ack());
        self.act_server(now_ms, id, actions, response, out)
    }

    fn act_server(
        &mut self,
        now_ms: u64,
        id: ServerId,
        actions: &'static [Action],
        response: Option<usize>,
        out: &mut Outbox,
    ) -> Ran {
        let mut ran = Ran::default();
        let mut at_once = None;
        let Some(server) = self.servers.get_mut(id) else {
            return broken!("a transaction is there when its machine has stepped", ran);
        };
        let side = Side::Server(id);
        let reliable = server.target.transport.is_reliable();
        for action in actions {
            match *action {
                Action::Send => {
                    if let Some(start) = response {
                        out.send_since(start, server.target.clone(), side.cookie());
                    }
                }
                Action::Keep => {
                    let bytes = response.and_then(|start| out.bytes.get(start..));
                    // Over a reliable transport a non-INVITE is over as soon as it is answered.
                    let over = !server.machine.is_invite()
                        && reliable
                        && server.machine.state() == Some(ServerState::Completed);
                    if let Some(bytes) = bytes.filter(|_| !over) {
                        self.buffers.store(&mut server.response, bytes);
                    }
                }
                Action::Repeat => {
                    if !server.response.is_empty() {
                        out.send_copy(&server.response, server.target.clone(), side.cookie());
                    }
                }
                Action::Forget => self.buffers.recycle(&mut server.response),
                Action::Start(timer) | Action::StartAtT2(timer) => {
                    match self
                        .config
                        .timers
                        .duration_ms(timer, reliable, server.interval_ms)
                    {
                        None => {}
                        Some(0) => at_once = Some(timer),
                        Some(after_ms) => {
                            let key = side.timer_cookie(timer);
                            let place = if timer.repeats() {
                                server.interval_ms = after_ms;
                                &mut server.repeat
                            } else {
                                &mut server.timer
                            };
                            *place = self.wheel.start(now_ms.saturating_add(after_ms), key);
                        }
                    }
                }
                Action::Stop(timer) => {
                    let place = if timer.repeats() {
                        &mut server.repeat
                    } else {
                        &mut server.timer
                    };
                    self.wheel.cancel(std::mem::replace(place, TimerId::NONE));
                }
                Action::PassUp => ran.pass_up = true,
                Action::Refuse => ran.refused = true,
                Action::Ack => {}
                Action::Inform(notice) => {
                    let context = server.context;
                    if let Some(event) = notify(notice, id, context) {
                        self.events.push_back(event);
                    }
                    match notice {
                        Notice::AckTimeout => self.counters.ack_timeout += 1,
                        Notice::Expired => self.counters.server_expired += 1,
                        _ => {}
                    }
                }
            }
        }
        if actions.contains(&Action::Repeat) && actions.contains(&Action::Start(Timer::G)) {
            self.counters.response_retransmitted += 1;
        }
        // RFC 3261 17.2.1: "Once the transaction is in the "Terminated" state, it MUST be destroyed
        // immediately."
        // RFC 3261 17.2.2: "The server transaction MUST be destroyed the instant it enters the "Terminated"
        // state."
        if server.machine.state().is_none() {
            self.end_server(id);
        } else if let Some(timer) = at_once {
            self.run_server(now_ms, id, ServerEvent::Timer(timer), None, out);
        }
        ran
    }

    fn end_server(&mut self, id: ServerId) {
        let Some(mut server) = self.servers.remove(id) else {
            return;
        };
        self.wheel.cancel(server.repeat);
        self.wheel.cancel(server.timer);
        self.buffers.recycle(&mut server.response);
        self.completed -= usize::from(server.machine.awaits_ack());
        if server.machine.is_invite() {
            self.live.server_invite -= 1;
        } else {
            self.live.server_non_invite -= 1;
        }
    }
}

/// What RFC 4320 lets a server send to a request other than INVITE.
const fn allowed_to_non_invite(status: u16, trying_allowed: bool) -> bool {
    match status {
        100 => trying_allowed,
        // RFC 4320 4.1: "A SIP element MUST NOT send any provisional response with a Status-Code other than
        // 100 to a non-INVITE request."
        101..200 => false,
        // RFC 4320 4.2: "A transaction-stateful SIP element MUST NOT send a response with Status-Code of 408
        // to a non-INVITE request. As a consequence, an element that cannot respond before the transaction
        // expires will not send a final response at all."
        408 => false,
        _ => true,
    }
}

const fn notify(notice: Notice, server: ServerId, context: u64) -> Option<Event> {
    match notice {
        Notice::Trying => Some(Event::TryingDue { server, context }),
        Notice::AckTimeout => Some(Event::ServerAckTimeout { server, context }),
        Notice::Failed | Notice::AckFailed => Some(Event::ServerFailed { server, context }),
        Notice::Expired | Notice::Timeout => Some(Event::ServerExpired { server, context }),
        Notice::Terminated if context == 0 => None,
        Notice::Terminated => Some(Event::ServerTerminated { server, context }),
    }
}
