//! Calls that we make (RFC 3261 13.2, 9.1, 15.1.1).

use crate::agent::{NOBODY, Text};
use crate::bodies;
use crate::call::{Call, State};
use crate::compose::{for_request_line, is_sips, learn_dialog, line};
use crate::event::{AgentKey, CallKey, Cause, Event};
use crate::outgoing::{Outgoing, allow, send_ack};
use crate::random::write_hex;
use crate::slots::Key;
use crate::tag::Tag;
use crate::texts::Part;
use crate::user_agents::{Context, UserAgents};
use invariant::broken;
use sip_msg::uri::Scheme;
use sip_msg::{ConnId, Message, Method, Outbox, Uri};

/// The type of a session description.
pub(crate) const SDP: &[u8] = b"application/sdp";

impl UserAgents {
    /// Calls `to`, a SIP URI, with a session description of the caller's own
    /// or the configured one. `None` where there is no room, or `to` is no URI or
    /// one that cannot be called: of another method, or SIPS over a way without TLS;
    /// or where the body cannot be protected that is to be
    /// ([`UserAgents::seal_error`]).
    pub fn invite(
        &mut self,
        now_ms: u64,
        agent: AgentKey,
        to: &str,
        session: Option<&[u8]>,
        out: &mut Outbox,
    ) -> Option<CallKey> {
        let uri = self.callable(agent, Method::Invite, to)?;
        let session = session.filter(|session| !session.is_empty());
        let sealed = self.seal_body(now_ms, agent.0, to, SDP, session).ok()?;
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
        // RFC 3261 12.1.2: "The call identifier component of the dialog ID MUST be set to the value of
        // the Call-ID in the request."
        call.texts.set(Part::CallId, &self.scratch);
        bracket(&mut self.scratch, agent.text(Text::Aor));
        call.texts.set(Part::Local, &self.scratch);
        // RFC 3261 12.1.2: "The remote URI MUST be set to the URI in the To field, and the local URI
        // MUST be set to the URI in the From field."
        let target = for_request_line(&uri);
        bracket(&mut self.scratch, &target);
        call.texts.set(Part::Remote, &self.scratch);
        // RFC 3261 8.1.1.1: "The initial Request-URI of the message SHOULD be set to the value of the URI
        // in the To field."
        call.texts.set(Part::Target, &target);
        // RFC 3261 8.1.1.1: "When a pre-existing route set is present, the procedures for populating
        // the Request-URI and Route header field detailed in Section 12.2.1.1 MUST be followed (even
        // though there is no dialog), using the desired Request-URI as the remote target URI."
        call.texts.set(Part::Routes, &agent.service_route);
        if let Some(sealed) = sealed {
            call.has_own_body = true;
            bodies::keep(&mut call.texts, &sealed);
        } else if let Some(session) = session {
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

    /// The URI, where this agent may send it such a request.
    pub(crate) fn callable<'u>(
        &self,
        agent: AgentKey,
        method: Method,
        to: &'u str,
    ) -> Option<Uri<'u>> {
        let agent = self.agents.get(agent.0)?;
        // RFC 3261 19.1.5: "An implementation MUST NOT proceed with transmitting the request."
        let uri = Uri::parse(to.as_bytes())?;
        // RFC 3261 19.1.5: "If the URI contains a method parameter, its value MUST be used as the method of
        // the request."
        let is_its_method =
            (uri.param("method")).is_none_or(|wanted| Method::from_token(wanted) == method);
        // RFC 3261 8.1.2: "Independent of which URI is used as input to the procedures of [4], if the
        // Request-URI specifies a SIPS resource, the UAC MUST follow the procedures of [4] as if the input
        // URI were a SIPS URI." They lead to TLS, which is the agent's way or is not.
        let has_way = uri.scheme != Scheme::Sips || agent.proxy.transport.is_secure();
        (is_its_method && has_way).then_some(uri)
    }

    /// Ends a call according to its state: CANCEL for an outgoing call that is not
    /// answered, 480 for an incoming one that is not answered, BYE for an established one.
    /// False where it is ending already.
    pub fn hang_up(&mut self, now_ms: u64, call: CallKey, out: &mut Outbox) -> bool {
        let Some(found) = self.calls.get_mut(call.0) else {
            return false;
        };
        match found.state {
            // RFC 3261 15: "A UA MUST NOT send a BYE outside of a dialog." and "The caller's UA MAY
            // send a BYE for either confirmed or early dialogs, and the callee's UA MAY send a BYE on
            // confirmed dialogs, but MUST NOT send a BYE on early dialogs."
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
        // RFC 3261 12.1.2: "The local sequence number MUST be set to the value of the sequence number
        // in the CSeq header field of the request." The peer's stays empty.
        // RFC 3261 12.1.2: "The remote sequence number MUST be empty (it is established when the remote
        // UA sends a request within the dialog)."
        call.cseq += 1;
        call.invite_cseq = call.cseq;
        // RFC 3261 13.2.1: "The initial offer MUST be in either an INVITE or, if not there, in the
        // first reliable non-failure message from the UAS back to the UAC."
        let body = if call.has_own_body {
            call.texts.get(Part::Body)
        } else {
            &self.config.session
        };
        let own_type = call.texts.get(Part::BodyType);
        let outgoing = Outgoing {
            method: Method::Invite,
            tag: call.tag,
            cseq: call.cseq,
            texts: &call.texts,
            attempt: &mut call.attempt,
            with_credentials: self.config.credentials_first || call.was_challenged,
            cnonce: self.random.next(),
            body_type: if own_type.is_empty() { SDP } else { own_type },
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
            |agent, is_secure, out| {
                // RFC 3261 12.1.2: "When a UAC sends a request that can establish a dialog (such as an
                // INVITE) it MUST provide a SIP or SIPS URI with global scope (i.e., the same SIP URI
                // can be used in messages outside this dialog) in the Contact header field of the
                // request."
                // RFC 3261 8.1.1.8: "The Contact header field MUST be present and contain exactly one SIP or
                // SIPS URI in any request that can result in the establishment of a dialog."
                // RFC 3261 8.1.1.8: "That is, the Contact header field value contains the URI at which
                // the UA would like to receive requests, and this URI MUST be valid even if used in
                // subsequent requests outside of any dialogs." It is the agent's own.
                line_with_contact(out, agent.text(Text::Contact), is_secure);
                line(out, "Allow", allow(&self.config));
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
        // RFC 3261 15.1.1: "The UAC MUST consider the session terminated (and therefore stop sending or
        // listening for media) as soon as the BYE request is passed to the client transaction."
        call.state = State::Ending;
        call.cause.get_or_insert(cause);
        // RFC 3261 12.2.1.1: "Requests within a dialog MUST contain strictly monotonically increasing
        // and contiguous CSeq sequence numbers (increasing-by-one) in each direction (excepting ACK and
        // CANCEL of course, whose numbers equal the requests being acknowledged or cancelled)." and
        // "Therefore, if the local sequence number is not empty, the value of the local sequence number
        // MUST be incremented by one, and this value MUST be placed into the CSeq header field." and
        // "If the local sequence number is empty, an initial value MUST be chosen using the guidelines
        // of Section 8.1.1.5."
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
            // RFC 3261 20: ""Not applicable" means that the header field MUST NOT be present in a
            // request."
            |_, _, out| {
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
        // RFC 3261 13.2.2.3: "Subsequent final responses (which would only arrive under error
        // conditions) MUST be ignored."
        if call.state != State::Inviting {
            return;
        }
        if status < 200 {
            // RFC 3261 8.1.3.2: "A UAC MUST treat any provisional response different than 100 that it
            // does not recognize as 183 (Session Progress)." and "A UAC MUST be able to process 100 and
            // 183 responses."
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
            // RFC 3261 8.1.3.2: "A UAC MUST treat any final response it does not recognize as being
            // equivalent to the x00 response code of that class, and MUST be able to process the x00
            // response code for all classes."
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
        // RFC 3261 21.4.8: "This code is similar to 401 (Unauthorized), but indicates that the client
        // MUST first authenticate itself with the proxy."
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
        // RFC 3261 12.1.2: "A UAC MUST be prepared to receive a response without a tag in the To field,
        // in which case the tag is considered to have a value of null."
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
        // RFC 3261 12.1.2: "The local tag component of the dialog ID MUST be set to the tag in the From
        // field in the request, and the remote tag component of the dialog ID MUST be set to the tag in
        // the To field of the response."
        // RFC 3261 13.2.2.4: "If the dialog identifier in the 2xx response matches the dialog
        // identifier of an existing dialog, the dialog MUST be transitioned to the "confirmed" state,
        // and the route set for the dialog MUST be recomputed based on the 2xx response using the
        // procedures of Section 12.2.1.2."
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
        // RFC 3261 13.2.2.4: "Otherwise, a new dialog in the "confirmed" state MUST be constructed
        // using the procedures of Section 12.1.2."
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
// RFC 3261 20.20: "Even if the "display-name" is empty, the "name-addr" form MUST be used if the
// "addr-spec" contains a comma, question mark, or semicolon."
pub(crate) fn bracket(scratch: &mut Vec<u8>, uri: &[u8]) {
    scratch.clear();
    scratch.push(b'<');
    scratch.extend_from_slice(uri);
    scratch.push(b'>');
}

/// Writes a Contact line.
pub(crate) fn line_with_contact(out: &mut Vec<u8>, uri: &[u8], is_secure: bool) {
    out.extend_from_slice(b"Contact: ");
    write_contact(out, uri, is_secure);
    out.extend_from_slice(b"\r\n");
}

/// Writes a Contact's value: as a SIPS URI where the dialog is one of those.
pub(crate) fn write_contact(out: &mut Vec<u8>, uri: &[u8], is_secure: bool) {
    // RFC 3261 8.1.1.8: "If the Request-URI or top Route header field value contains a SIPS URI, the
    // Contact header field MUST contain a SIPS URI as well."
    // RFC 3261 12.1.2: "If the request has a Request-URI or a topmost Route header field value with a
    // SIPS URI, the Contact header field MUST contain a SIPS URI."
    let (scheme, rest): (&[u8], _) = match uri.split_at_checked("sip:".len()) {
        Some((_, rest)) if is_secure && !is_sips(uri) => (b"sips:", rest),
        _ => (b"", uri),
    };
    // RFC 3261 20: "If the URI contains a comma, question mark or semicolon, the URI MUST be enclosed
    // in angle brackets (< and >)."
    for part in [b"<", scheme, rest, b">"] {
        out.extend_from_slice(part);
    }
}

/// Writes a User-Agent line, where there is something to say.
pub(crate) fn write_user_agent(out: &mut Vec<u8>, name: &[u8]) {
    if !name.is_empty() {
        line(out, "User-Agent", name);
    }
}
