//! The client side: requests out, responses in (RFC 3261 17.1).

use crate::client::{Client, Machine, Started};
use crate::id::Side;
use crate::key::method_tag;
use crate::machine::{Action, ClientEvent, Notice, Timer};
use crate::transactions::{Ran, Transactions};
use crate::{Cancelled, ClientId, ClientState, Event, Response, branch, hop};
use invariant::broken;
use sip_msg::{Message, Method, Outbox, Target};
use wheel::TimerId;

/// The message that is at hand when a machine runs.
#[derive(Clone, Copy)]
pub(crate) enum AtHand<'m> {
    /// The request, from here to the end of the outbox's bytes.
    Request { start: usize },
    /// A response.
    Response(&'m Message),
}

impl Transactions {
    /// Reserves a client transaction, whose branch can then be written into the request;
    /// `None` when [`Config::client_max`](crate::Config::client_max) are in use.
    pub fn reserve_client(&mut self) -> Option<ClientId> {
        let live =
            self.live.client_reserved + self.live.client_invite + self.live.client_non_invite;
        let room = live < self.config.client_max;
        let name = if room {
            self.clients.insert(Client::new(self.secrets.next()))
        } else {
            None
        };
        match name {
            Some(_) => self.live.client_reserved += 1,
            None => self.counters.client_full += 1,
        }
        name.map(ClientId)
    }

    /// Writes the branch of a transaction, magic cookie included; nothing for a
    /// stale name. The caller may append `.` and a part of its own (loop
    /// detection, RFC 5393).
    pub fn write_branch(&self, id: ClientId, out: &mut Vec<u8>) {
        if let Some(client) = self.clients.get(id.0) {
            branch::write(id, client.secret, out);
        }
    }

    /// Starts a reserved transaction: sends `out.bytes[start..]`, a request with its
    /// branch in the topmost Via, and repeats it as its timers say. Responses and
    /// events carry `context`. Not for ACK, which has no client transaction. Where
    /// `id` is not reserved, the bytes are cut off.
    #[allow(clippy::too_many_arguments)]
    pub fn start_client(
        &mut self,
        now_ms: u64,
        id: ClientId,
        method: Method,
        target: Target,
        context: u64,
        start: usize,
        out: &mut Outbox,
    ) {
        let Some(client) = self
            .clients
            .get_mut(id.0)
            .filter(|c| c.machine == Machine::Reserved)
        else {
            out.bytes.truncate(start);
            return;
        };
        let request = out.bytes.get(start..).unwrap_or_default();
        let token = request
            .split(|byte| *byte == b' ')
            .next()
            .unwrap_or_default();
        client.started = Some(Started {
            target,
            context,
            method_tag: method_tag(method, token),
        });
        client.machine = Machine::new(method == Method::Invite);
        self.live.client_reserved -= 1;
        if client.machine.is_invite() {
            self.live.client_invite += 1;
        } else {
            self.live.client_non_invite += 1;
        }
        self.counters.client_created += 1;
        self.run_client(
            now_ms,
            id,
            ClientEvent::Request,
            Some(AtHand::Request { start }),
            out,
        );
    }

    /// Handles a response that was parsed and validated. The ACK to a final response
    /// other than 2xx is queued here (RFC 3261 17.1.1.3).
    pub fn handle_response(
        &mut self,
        now_ms: u64,
        response: &Message,
        out: &mut Outbox,
    ) -> Response {
        let Some((id, context)) = self.find_client(response) else {
            self.counters.response_stray += 1;
            return Response::Unknown;
        };
        let event = ClientEvent::from_status(response.status());
        let ran = self.run_client(now_ms, id, event, Some(AtHand::Response(response)), out);
        // Not for a provisional response that comes after the final one.
        if event == ClientEvent::Provisional
            && ran.pass_up
            && self
                .clients
                .get(id.0)
                .is_some_and(|client| client.cancel_wanted)
        {
            self.send_cancel(now_ms, id, b"", out);
        }
        if ran.pass_up {
            return Response::Pass {
                client: id,
                context,
            };
        }
        self.counters.response_absorbed += u64::from(!ran.is_ours);
        Response::Absorbed
    }

    /// Cancels an INVITE (RFC 3261 9.1). The responses to the CANCEL are
    /// absorbed; the INVITE's own final response, if one comes within 64*T1, is
    /// passed up as usual.
    pub fn cancel(&mut self, now_ms: u64, id: ClientId, out: &mut Outbox) -> Cancelled {
        self.cancel_because(now_ms, id, b"", out)
    }

    /// Cancels an INVITE, and says why: `reason` is the value of the CANCEL's
    /// Reason header (RFC 3326), in one line; empty for none.
    pub fn cancel_because(
        &mut self,
        now_ms: u64,
        id: ClientId,
        reason: &[u8],
        out: &mut Outbox,
    ) -> Cancelled {
        let Some(client) = self.clients.get_mut(id.0) else {
            return Cancelled::TooLate;
        };
        // RFC 3261 9.1: "A CANCEL request SHOULD NOT be sent to cancel a request other than INVITE."
        if !client.machine.is_invite() {
            return Cancelled::TooLate;
        }
        match client.machine.state() {
            Some(ClientState::Calling) => {
                // RFC 3261 9.1: "If no provisional response has been received, the CANCEL request MUST NOT be
                // sent; rather, the client MUST wait for the arrival of a provisional response before
                // sending the request."
                client.cancel_wanted = true;
                client.cancel_reason = (!reason.is_empty()).then(|| reason.into());
                Cancelled::Deferred
            }
            Some(ClientState::Proceeding) if client.linked.is_some() => Cancelled::Sent,
            Some(ClientState::Proceeding) => {
                self.send_cancel(now_ms, id, reason, out);
                Cancelled::Sent
            }
            // RFC 3261 9.1: "If the original request has generated a final response, the CANCEL SHOULD NOT be
            // sent, as it is an effective no-op"
            _ => Cancelled::TooLate,
        }
    }

    /// Ends a transaction at once, reserved or started, without an event.
    pub fn release_client(&mut self, id: ClientId) {
        self.end_client(id);
    }

    /// Where the transaction stands; `None` when it is over.
    pub fn client_state(&self, id: ClientId) -> Option<ClientState> {
        self.clients.get(id.0)?.machine.state()
    }

    /// The transaction's context.
    pub fn client_context(&self, id: ClientId) -> Option<u64> {
        self.started(id).map(|started| started.context)
    }

    /// Where the transaction's request was sent.
    pub fn client_target(&self, id: ClientId) -> Option<&Target> {
        self.started(id).map(|started| &started.target)
    }

    fn started(&self, id: ClientId) -> Option<&Started> {
        let client = self.clients.get(id.0)?;
        client.machine.state()?;
        client.started.as_ref()
    }

    /// The transaction of a response (RFC 3261 17.1.3), and its context.
    fn find_client(&self, response: &Message) -> Option<(ClientId, u64)> {
        // RFC 3261 17.1.3: "1. If the response has the same value of the branch parameter in the top Via header
        // field as the branch parameter in the top Via header field of the request that created the
        // transaction."
        let (id, secret) = branch::read(response.top_via().ok()?.branch)?;
        let client = self
            .clients
            .get(id.0)
            .filter(|client| client.secret == secret)?;
        let tag = method_tag(response.method(), response.method_token());
        // RFC 3261 17.1.3: "2. If the method parameter in the CSeq header field matches the method of the request
        // that created the transaction. The method is needed since a CANCEL request constitutes a different
        // transaction, but shares the same value of the branch parameter."
        let matches = |client: &Client| {
            let started = client.started.as_ref()?;
            client.machine.state()?;
            (started.method_tag == tag).then_some(started.context)
        };
        // RFC 3261 18.1.2: "If there is a match, the response MUST be passed to that transaction."
        if let Some(context) = matches(client) {
            return Some((id, context));
        }
        let cancel = client.linked?;
        matches(self.clients.get(cancel.0)?).map(|context| (cancel, context))
    }

    /// Sends the CANCEL of an INVITE in "Proceeding", with this Reason or with
    /// the one that has waited for it.
    fn send_cancel(&mut self, now_ms: u64, invite: ClientId, reason: &[u8], out: &mut Outbox) {
        let Some(client) = self.clients.get_mut(invite.0) else {
            return broken!("an INVITE that is cancelled has its transaction");
        };
        client.cancel_wanted = false;
        let kept = client.cancel_reason.take();
        let reason = kept.as_deref().unwrap_or(reason);
        let (Some(started), None) = (&client.started, client.linked) else {
            return broken!("an INVITE that is cancelled was sent, and has no CANCEL yet");
        };
        let after_ms = self
            .config
            .timers
            .duration_ms(Timer::Cancelled, false, 0)
            .unwrap_or(0);
        let key = Side::Client(invite).timer_cookie(Timer::Cancelled);
        // In "Proceeding" no other timer runs.
        client.timer = self.wheel.start(now_ms.saturating_add(after_ms), key);

        let start = out.bytes.len();
        let written = self
            .scratch
            .read(&client.message)
            .is_some_and(|request| hop::write_cancel(request, reason, &mut out.bytes));
        if !written {
            out.bytes.truncate(start);
            return broken!("the INVITE that is kept is a whole request");
        }
        let started = Started {
            // RFC 3261 9.1: "The destination address, port, and transport for the CANCEL MUST be identical to
            // those used to send the original request."
            target: started.target.clone(),
            context: 0,
            method_tag: method_tag(Method::Cancel, b""),
        };
        let cancel = Client {
            machine: Machine::new(false),
            started: Some(started),
            linked: Some(invite),
            internal: true,
            // Found by way of the INVITE, never by a branch of its own.
            ..Client::new(self.secrets.next())
        };
        // RFC 3261 9.1: "When the client decides to send the CANCEL, it creates a client transaction for the
        // CANCEL and passes it the CANCEL request along with the destination address, port, and transport."
        let Some(cancel) = self.clients.insert(cancel).map(ClientId) else {
            out.bytes.truncate(start);
            self.counters.client_full += 1;
            return;
        };
        match self.clients.get_mut(invite.0) {
            Some(client) => client.linked = Some(cancel),
            None => broken!("an INVITE outlives the making of its CANCEL"),
        }
        self.live.client_non_invite += 1;
        self.counters.client_created += 1;
        self.run_client(
            now_ms,
            cancel,
            ClientEvent::Request,
            Some(AtHand::Request { start }),
            out,
        );
    }

    /// Runs the machine.
    pub(crate) fn run_client(
        &mut self,
        now_ms: u64,
        id: ClientId,
        event: ClientEvent,
        at_hand: Option<AtHand<'_>>,
        out: &mut Outbox,
    ) -> Ran {
        let mut ran = Ran::default();
        let Some(client) = self.clients.get_mut(id.0) else {
            return ran;
        };
        let (machine, actions) = client.machine.step(event);
        client.machine = machine;
        let Some(started) = &client.started else {
            return broken!("only a transaction that was started has events", ran);
        };
        let mut at_once = None;
        let side = Side::Client(id);
        let reliable = started.target.transport.is_reliable();
        for action in actions {
            match *action {
                Action::Send => {
                    if let Some(AtHand::Request { start }) = at_hand {
                        out.send_since(start, started.target.clone(), side.cookie());
                    }
                }
                Action::Keep => {
                    // Over a reliable transport nothing is repeated, but an INVITE is
                    // acknowledged or cancelled by its own headers.
                    if let Some(AtHand::Request { start }) = at_hand
                        && (!reliable || client.machine.is_invite())
                    {
                        let bytes = out.bytes.get(start..).unwrap_or_default();
                        self.buffers.store(&mut client.message, bytes);
                    }
                }
                Action::Repeat => {
                    // RFC 3261 17.1.1.2: "The formal definition of retransmit within the context of the
                    // transaction layer is to take the message previously sent to the transport layer and
                    // pass it to the transport layer once more."
                    if !client.message.is_empty() {
                        out.send_copy(&client.message, started.target.clone(), side.cookie());
                    }
                }
                Action::Ack => {
                    let Some(AtHand::Response(response)) = at_hand else {
                        broken!("only a response leads to an ACK");
                        continue;
                    };
                    let start = out.bytes.len();
                    let written = self
                        .scratch
                        .read(&client.message)
                        .is_some_and(|invite| hop::write_ack(invite, response, &mut out.bytes));
                    if written {
                        let ack = out.bytes.get(start..).unwrap_or_default();
                        self.buffers.store(&mut client.message, ack);
                        // RFC 3261 17.1.1.2: "The ACK MUST be sent to the same address, port, and transport
                        // to which the original request was sent."
                        out.send_since(start, started.target.clone(), side.cookie());
                    } else {
                        broken!("the INVITE that is kept is a whole request");
                        out.bytes.truncate(start);
                        self.buffers.recycle(&mut client.message);
                    }
                }
                Action::Forget => self.buffers.recycle(&mut client.message),
                Action::Start(timer) | Action::StartAtT2(timer) => {
                    let interval_ms = match action {
                        Action::StartAtT2(_) => self.config.timers.t2_ms,
                        _ => client.interval_ms,
                    };
                    match self.config.timers.duration_ms(timer, reliable, interval_ms) {
                        None => {}
                        Some(0) => at_once = Some(timer),
                        Some(after_ms) => {
                            let key = side.timer_cookie(timer);
                            let place = if timer.repeats() {
                                client.interval_ms = after_ms;
                                &mut client.repeat
                            } else {
                                &mut client.timer
                            };
                            *place = self.wheel.start(now_ms.saturating_add(after_ms), key);
                        }
                    }
                }
                Action::Stop(timer) => {
                    let place = if timer.repeats() {
                        &mut client.repeat
                    } else {
                        &mut client.timer
                    };
                    self.wheel.cancel(std::mem::replace(place, TimerId::NONE));
                }
                Action::PassUp => {
                    ran.pass_up = !client.internal;
                    ran.is_ours = client.internal;
                }
                Action::Refuse => {}
                Action::Inform(notice) => {
                    let told = notify(notice, id, started.context).filter(|_| !client.internal);
                    self.events.extend(told);
                    match notice {
                        Notice::Timeout => self.counters.client_timeout += 1,
                        Notice::Failed | Notice::AckFailed => self.counters.client_failed += 1,
                        _ => {}
                    }
                }
            }
        }
        if let ClientEvent::Timer(Timer::A | Timer::E) = event
            && actions.contains(&Action::Repeat)
        {
            self.counters.request_retransmitted += 1;
        }
        // RFC 3261 17.1.1.2: "The client transaction MUST be destroyed the instant it enters the "Terminated"
        // state."
        // RFC 3261 17.1.2.2: "Once the transaction is in the terminated state, it MUST be destroyed immediately."
        if client.machine.state().is_none() {
            self.end_client(id);
        } else if let Some(timer) = at_once {
            self.run_client(now_ms, id, ClientEvent::Timer(timer), None, out);
        }
        ran
    }

    /// Frees everything; of an INVITE whose CANCEL is not over, all but the name.
    fn end_client(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        self.wheel.cancel(client.repeat);
        self.wheel.cancel(client.timer);
        self.buffers.recycle(&mut client.message);
        match (client.machine, &client.started) {
            (Machine::Over, _) => return,
            (Machine::Invite(_), _) => self.live.client_invite -= 1,
            (Machine::NonInvite(_), _) => self.live.client_non_invite -= 1,
            (Machine::Reserved, _) => self.live.client_reserved -= 1,
        }
        let (linked, is_cancel) = (client.linked, client.internal);
        if let Some(cancel) = linked.filter(|_| !is_cancel)
            && self.clients.get(cancel.0).is_some()
        {
            return match self.clients.get_mut(id.0) {
                Some(client) => client.machine = Machine::Over,
                None => broken!("the transaction was found just before"),
            };
        }
        self.clients.remove(id.0);
        if let Some(invite) = linked.filter(|_| is_cancel)
            && self
                .clients
                .get(invite.0)
                .is_some_and(|client| client.machine == Machine::Over)
        {
            self.clients.remove(invite.0);
        }
    }
}

const fn notify(notice: Notice, client: ClientId, context: u64) -> Option<Event> {
    match notice {
        Notice::Timeout => Some(Event::ClientTimeout { client, context }),
        Notice::Failed => Some(Event::ClientFailed {
            client,
            context,
            answered: false,
        }),
        Notice::AckFailed => Some(Event::ClientFailed {
            client,
            context,
            answered: true,
        }),
        Notice::Terminated if context != 0 => Some(Event::ClientTerminated { client, context }),
        _ => None,
    }
}
