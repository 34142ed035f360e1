//! Calls that we make (RFC 3261 13.2, 9.1, 15.1.1).

use crate::agent::{NOBODY, Text};
use crate::call::{Call, State};
use crate::compose::{learn_dialog, line};
use crate::event::{AgentKey, CallKey, Cause, Event};
use crate::outgoing::{ALLOW, Outgoing, send_ack};
use crate::random::write_hex;
use crate::slots::Key;
use crate::tag::Tag;
use crate::texts::Part;
use crate::user_agents::{Context, UserAgents};
use invariant::broken;
use sip_msg::{ConnId, Message, Method, Outbox, Uri};

/// The type of a session description.
pub(crate) const SDP: &[u8] = b"application/sdp";

impl UserAgents {
    /// Calls `to`, a SIP URI, with a session description of the caller's own
    /// or the configured one. `None` where there is no room or `to` is no URI.
    pub fn invite(
        &mut self,
        now_ms: u64,
        agent: AgentKey,
        to: &str,
        session: Option<&[u8]>,
        out: &mut Outbox,
    ) -> Option<CallKey> {
        let uri = Uri::parse(to.as_bytes())?;
        self.agents.get(agent.0)?;
        let Some(key) = self.calls.insert() else {
            self.counters.full += 1;
            return None;
        };
        self.link_call(agent.0, key);
        let tag = Tag::new(key, &mut self.random);
        self.scratch.clear();
        // RFC 3261 8.1.1.4: "In a new request created by a UAC outside of any dialog, the Call-ID header
        // field MUST be selected by the UAC as a globally unique identifier over space and time unless
        // overridden by method-specific behavior."
        write_hex(&mut self.scratch, self.random.next(), 16);
        write_hex(&mut self.scratch, self.random.next(), 16);
        let deadline_ms = now_ms.saturating_add(self.config.setup_timeout_ms);
        let timer = self.wheel.start(deadline_ms, key);
        let (Some(call), Some(agent)) = (self.calls.get_mut(key), self.agents.get(agent.0)) else {
            return broken!("slot and agent were found just before", None);
        };
        call.state = State::Inviting;
        call.tag = tag;
        call.timer = timer;
        call.texts.set(Part::CallId, &self.scratch);
        bracket(&mut self.scratch, agent.text(Text::Aor));
        call.texts.set(Part::Local, &self.scratch);
        bracket(&mut self.scratch, uri.raw);
        call.texts.set(Part::Remote, &self.scratch);
        // RFC 3261 8.1.1.1: "The initial Request-URI of the message SHOULD be set to the value of the URI
        // in the To field."
        call.texts
            .set(Part::Target, crate::compose::without_headers(uri.raw));
        call.texts.set(Part::Routes, &agent.service_route);
        if let Some(session) = session {
            call.has_own_body = true;
            call.texts.set(Part::Body, session);
        }
        if !self.send_invite(now_ms, key, out) {
            self.drop_call(key);
            return None;
        }
        self.take_transaction_events(now_ms, out);
        Some(CallKey(key))
    }

    /// Ends a call according to its state: CANCEL for an outgoing call that is not
    /// answered, 480 for an incoming one that is not answered, BYE for an established one.
    /// False where it is ending already.
    pub fn hang_up(&mut self, now_ms: u64, call: CallKey, out: &mut Outbox) -> bool {
        let Some(found) = self.calls.get_mut(call.0) else {
            return false;
        };
        match found.state {
            State::Inviting => self.cancel(now_ms, call.0, Cause::Cancelled, out),
            State::Ringing => return self.reject(now_ms, call, 480, out),
            // RFC 3261 15: "However, the callee's UA MUST NOT send a BYE on a confirmed dialog until it has
            // received an ACK for its 2xx response or until the server transaction times out."
            State::Answered => found.is_unwanted = true,
            State::Confirmed => self.send_bye(now_ms, call.0, Cause::HungUp, out),
            State::Ending | State::Over => return false,
        }
        self.take_transaction_events(now_ms, out);
        true
    }

    pub(crate) fn cancel(&mut self, now_ms: u64, key: Key, cause: Cause, out: &mut Outbox) {
        let Some(call) = self.calls.get_mut(key) else {
            return broken!("only a call in the table is cancelled");
        };
        call.is_unwanted = true;
        call.cause.get_or_insert(cause);
        if let Some(client) = call.invite_client {
            self.transactions.cancel(now_ms, client, out);
        }
    }

    fn send_invite(&mut self, now_ms: u64, key: Key, out: &mut Outbox) -> bool {
        let Some(call) = self.calls.get_mut(key) else {
            return broken!("only a call in the table sends an INVITE", false);
        };
        let Some(agent) = call.agent.and_then(|agent| self.agents.get_mut(agent)) else {
            return broken!("a call has an agent, which stays as long as it", false);
        };
        call.cseq += 1;
        call.invite_cseq = call.cseq;
        let body = if call.has_own_body {
            call.texts.get(Part::Body)
        } else {
            &self.config.session
        };
        let outgoing = Outgoing {
            method: Method::Invite,
            tag: call.tag,
            cseq: call.cseq,
            texts: &call.texts,
            attempt: &mut call.attempt,
            with_credentials: self.config.credentials_first || call.was_challenged,
            cnonce: self.random.next(),
            body_type: SDP,
            body,
            context: Context::Invite(key).word(),
        };
        let user_agent = self.config.user_agent.as_bytes();
        call.invite_client = outgoing.send(
            now_ms,
            &mut self.transactions,
            agent,
            &mut self.scratch,
            out,
            |agent, out| {
                // RFC 3261 8.1.1.8: "The Contact header field MUST be present and contain exactly one SIP or
                // SIPS URI in any request that can result in the establishment of a dialog."
                write_contact(out, agent.text(Text::Contact));
                line(out, "Allow", ALLOW);
                write_user_agent(out, user_agent);
            },
        );
        call.texts.set(Part::Credentials, &self.scratch);
        call.invite_client.is_some()
    }

    pub(crate) fn send_bye(&mut self, now_ms: u64, key: Key, cause: Cause, out: &mut Outbox) {
        let Some(call) = self.calls.get_mut(key) else {
            return broken!("only a call in the table sends a BYE");
        };
        let Some(agent) = call.agent.and_then(|agent| self.agents.get_mut(agent)) else {
            return broken!("a call has an agent, which stays as long as it");
        };
        call.state = State::Ending;
        call.cause.get_or_insert(cause);
        call.cseq += 1;
        let outgoing = Outgoing {
            method: Method::Bye,
            tag: call.tag,
            cseq: call.cseq,
            texts: &call.texts,
            attempt: &mut call.attempt,
            with_credentials: self.config.credentials_first || call.was_challenged,
            cnonce: self.random.next(),
            body_type: b"",
            body: b"",
            context: Context::Bye(key).word(),
        };
        let user_agent = self.config.user_agent.as_bytes();
        call.bye_client = outgoing.send(
            now_ms,
            &mut self.transactions,
            agent,
            &mut self.scratch,
            out,
            |_, out| {
                write_user_agent(out, user_agent);
            },
        );
        if call.bye_client.is_none() {
            self.counters.full += 1;
            self.end_call(key, Cause::Full);
        }
    }

    pub(crate) fn take_invite_response(
        &mut self,
        now_ms: u64,
        key: Key,
        response: &Message,
        out: &mut Outbox,
    ) {
        let Some(call) = self.calls.get_mut(key) else {
            return broken!("a call stays as long as its INVITE's transaction passes responses");
        };
        let status = response.status();
        if (200..300).contains(&status) {
            return self.take_answer(now_ms, key, response, out);
        }
        if call.state != State::Inviting {
            return;
        }
        if status < 200 {
            if status > 100 && !call.is_unwanted {
                self.push(Event::Provisional {
                    call: CallKey(key),
                    status,
                });
            }
            return;
        }
        call.invite_client = None;
        if !call.is_unwanted
            && self.is_challenge_taken(key, response)
            && self.send_invite(now_ms, key, out)
        {
            return;
        }
        let cause = match self.calls.get(key).and_then(|c| c.cause) {
            // A cancelled INVITE ends with 487; a challenge is not worth an answer any more.
            Some(cause) if matches!(status, 401 | 407 | 487) => cause,
            _ => Cause::Status(status),
        };
        self.fail_call(key, cause);
    }

    /// Whether the response asks for credentials that we have.
    fn is_challenge_taken(&mut self, key: Key, response: &Message) -> bool {
        let Some(call) = self.calls.get_mut(key) else {
            return broken!("the call of a challenge was just found", false);
        };
        let Some(agent) = call.agent.and_then(|agent| self.agents.get_mut(agent)) else {
            return broken!("a call has an agent, which stays as long as it", false);
        };
        let is_taken = matches!(response.status(), 401 | 407)
            && agent
                .auth
                .as_mut()
                .is_some_and(|auth| auth.handle_challenge(&mut call.attempt, response).is_ok());
        if is_taken {
            call.was_challenged = true;
            self.counters.challenges += 1;
        }
        is_taken
    }

    fn take_answer(&mut self, now_ms: u64, key: Key, response: &Message, out: &mut Outbox) {
        let Some(call) = self.calls.get_mut(key) else {
            return broken!("the call of a 2xx was just found");
        };
        let tag = response
            .to()
            .ok()
            .and_then(|to| to.tag())
            .unwrap_or_default();
        if call.state != State::Inviting {
            if call.texts.get(Part::RemoteTag) == tag {
                // RFC 3261 13.2.2.4: "The ACK MUST be passed to the client transport every time a
                // retransmission of the 2xx final response that triggered the ACK arrives."
                self.counters.acks_retransmitted += 1;
                self.send_ack_of(key, out);
            } else {
                self.take_fork(now_ms, key, tag, response, out);
            }
            return;
        }
        learn_dialog(&mut call.texts, response, &mut self.scratch);
        call.state = State::Confirmed;
        call.was_challenged = false;
        call.attempt = sip_auth::Attempt::default();
        let timer = std::mem::take(&mut call.timer);
        let unwanted = call.is_unwanted.then_some(call.cause).flatten();
        self.wheel.cancel(timer);
        // RFC 3261 13.2.2.4: "The UAC core MUST generate an ACK request for each 2xx received from the
        // transaction layer."
        self.send_ack_of(key, out);
        match unwanted {
            None => self.push(Event::Answered { call: CallKey(key) }),
            // RFC 3261 15: "If the INVITE results in 2xx final response(s) to the INVITE, this means that a
            // UAS accepted the invitation while the CANCEL was in progress.  The UAC MAY continue with the
            // sessions established by any 2xx responses, or MAY terminate them with BYE."
            Some(cause) => self.send_bye(now_ms, key, cause, out),
        }
    }

    /// A 2xx from another fork than the one that answered first.
    fn take_fork(
        &mut self,
        now_ms: u64,
        key: Key,
        tag: &[u8],
        response: &Message,
        out: &mut Outbox,
    ) {
        let hash = self.random.of(&[tag]);
        let Some(call) = self.calls.get(key) else {
            return broken!("the call of a 2xx was just found");
        };
        if let Some(&(_, fork)) = call.forks.iter().find(|fork| fork.0 == hash) {
            self.counters.acks_retransmitted += 1;
            return self.send_ack_of(fork, out);
        }
        if call.forks.len() >= Call::FORKS_MAX {
            return;
        }
        let (tag, invite_cseq, agent) = (call.tag, call.invite_cseq, call.agent);
        let (Some(agent), Some(fork)) = (agent, self.calls.insert()) else {
            self.counters.full += 1;
            return;
        };
        self.link_call(agent, fork);
        let mut texts = match self.calls.get_mut(fork) {
            Some(call) => std::mem::take(&mut call.texts),
            None => return broken!("a slot that was just taken is in use"),
        };
        if let Some(call) = self.calls.get_mut(key) {
            call.forks.push((hash, fork));
            texts.copy_from(&call.texts);
        } else {
            broken!("a call outlives the making of its fork");
        }
        learn_dialog(&mut texts, response, &mut self.scratch);
        let Some(call) = self.calls.get_mut(fork) else {
            return broken!("a slot that was just taken is in use");
        };
        call.texts = texts;
        call.state = State::Confirmed;
        call.is_fork = true;
        call.tag = tag;
        call.cseq = invite_cseq;
        call.invite_cseq = invite_cseq;
        self.counters.forks_ended += 1;
        self.send_ack_of(fork, out);
        // RFC 3261 13.2.2.4: "If, after acknowledging any 2xx response to an INVITE, the UAC does not want
        // to continue with that dialog, then the UAC MUST terminate the dialog by sending a BYE request as
        // described in Section 15."
        self.send_bye(now_ms, fork, Cause::HungUp, out);
    }

    fn send_ack_of(&mut self, key: Key, out: &mut Outbox) {
        // A fork may be over, and its 2xx come again.
        let Some(call) = self.calls.get(key) else {
            return;
        };
        let Some(agent) = call.agent.and_then(|agent| self.agents.get(agent)) else {
            return broken!("a call has an agent, which stays as long as it");
        };
        let of_dialog = self.random.of(&[call.texts.get(Part::RemoteTag)]);
        send_ack(
            agent,
            call.tag,
            call.invite_cseq,
            &call.texts,
            of_dialog,
            out,
        );
    }

    pub(crate) fn take_bye_response(
        &mut self,
        now_ms: u64,
        key: Key,
        response: &Message,
        out: &mut Outbox,
    ) {
        let Some(call) = self.calls.get_mut(key) else {
            return broken!("a call stays until its BYE is answered");
        };
        let status = response.status();
        if status < 200 || call.state != State::Ending {
            return;
        }
        call.bye_client = None;
        if self.is_challenge_taken(key, response) {
            return self.send_bye(now_ms, key, Cause::HungUp, out);
        }
        let Some(call) = self.calls.get(key) else {
            return broken!("a challenge that is not taken leaves the call");
        };
        let cause = match call.cause {
            Some(cause) if (200..300).contains(&status) => cause,
            _ if call.peer_hung_up => Cause::PeerHungUp,
            // RFC 3261 15.1.1: "If the response for the BYE is a 481 (Call/Transaction Does Not Exist) or a
            // 408 (Request Timeout) or no response at all is received for the BYE (that is, a timeout is
            // returned by the client transaction), the UAC MUST consider the session and the dialog
            // terminated." So does any other final response: there is nothing left to try.
            _ => Cause::Status(status),
        };
        self.end_call(key, cause);
    }

    /// Gives up what waits for a response on a connection that has ended.
    pub(crate) fn give_up_call(&mut self, key: Key, conn: ConnId) {
        let Some(call) = self.calls.get_mut(key) else {
            return broken!("a list of calls names only live ones");
        };
        let client = match call.state {
            State::Inviting => call.invite_client,
            State::Ending => call.bye_client,
            _ => None,
        };
        let Some(client) = client else {
            return;
        };
        if self
            .transactions
            .client_target(client)
            .is_none_or(|target| target.conn != conn)
        {
            return;
        }
        self.transactions.release_client(client);
        if call.state == State::Inviting {
            call.invite_client = None;
            self.fail_call(key, Cause::Transport);
        } else {
            call.bye_client = None;
            self.end_call(key, Cause::Transport);
        }
    }

    /// Puts a call into the list of its agent's calls.
    pub(crate) fn link_call(&mut self, agent: Key, key: Key) {
        let Some(found) = self.agents.get_mut(agent) else {
            return broken!("whoever gets a call is in the table");
        };
        let next = std::mem::replace(&mut found.first_call, key.slot);
        if let Some(call) = self.calls.neighbour_mut(next) {
            call.previous = key.slot;
        }
        let Some(call) = self.calls.get_mut(key) else {
            return broken!("a slot that was just taken is in use");
        };
        call.agent = Some(agent);
        call.next = next;
        call.previous = NOBODY;
    }
}

/// `<uri>`, in a buffer that is used again.
pub(crate) fn bracket(scratch: &mut Vec<u8>, uri: &[u8]) {
    scratch.clear();
    scratch.push(b'<');
    scratch.extend_from_slice(uri);
    scratch.push(b'>');
}

/// Writes a Contact line.
pub(crate) fn write_contact(out: &mut Vec<u8>, uri: &[u8]) {
    out.extend_from_slice(b"Contact: <");
    out.extend_from_slice(uri);
    out.extend_from_slice(b">\r\n");
}

/// Writes a User-Agent line, where there is something to say.
pub(crate) fn write_user_agent(out: &mut Vec<u8>, name: &[u8]) {
    if !name.is_empty() {
        line(out, "User-Agent", name);
    }
}
