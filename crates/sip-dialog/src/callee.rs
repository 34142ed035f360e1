//! Calls that come (RFC 3261 13.3, 9.2, 15.1.2).

use crate::agent::Text;
use crate::call::State;
use crate::caller::{SDP, bracket, write_contact};
use crate::compose::{is_sips, learn_dialog};
use crate::directory::invite_hash;
use crate::event::{AgentKey, CallKey, Cause, Event};
use crate::outgoing::allow;
use crate::server::reply;
use crate::slots::Key;
use crate::tag::Tag;
use crate::texts::Part;
use crate::user_agents::{Context, UserAgents};
use invariant::broken;
use sip_msg::header::NameAddr;
use sip_msg::{HeaderName, Message, MessageWriter, Outbox};
use sip_txn::{ServerId, ServerState};

/// The time from one provisional response to the next (RFC 3261 13.3.1.1).
const RING_INTERVAL_MS: u64 = 60_000;

impl UserAgents {
    /// Answers 180. False where the call does not ring any more.
    pub fn ring(&mut self, now_ms: u64, call: CallKey, out: &mut Outbox) -> bool {
        let is_done = self.is_ringing(call.0) && self.send_answer(now_ms, call.0, 180, out);
        if is_done && let Some(found) = self.calls.get_mut(call.0) {
            found.has_rung = true;
            self.restart_ringing(now_ms, call.0);
        }
        self.take_transaction_events(now_ms, out);
        is_done
    }

    /// Answers 200, with a session description of the caller's own or the
    /// configured one. False where the call does not ring any more.
    pub fn answer(
        &mut self,
        now_ms: u64,
        call: CallKey,
        session: Option<&[u8]>,
        out: &mut Outbox,
    ) -> bool {
        if let Some(found) = self.calls.get_mut(call.0)
            && let Some(session) = session
            && found.state == State::Ringing
        {
            found.has_own_body = true;
            found.texts.set(Part::Body, session);
        }
        let is_done = self.is_ringing(call.0) && self.send_answer(now_ms, call.0, 200, out);
        if is_done {
            let timers = self.config.transactions.timers;
            if let Some(found) = self.calls.get_mut(call.0) {
                found.state = State::Answered;
                found.interval_ms = timers.t1_ms;
                found.deadline_ms = now_ms.saturating_add(64 * timers.t1_ms);
            } else {
                broken!("a call that was just answered is in the table");
            }
            self.restart(call.0, now_ms.saturating_add(timers.t1_ms));
        }
        self.take_transaction_events(now_ms, out);
        is_done
    }

    /// Refuses a call with a status of 300 to 699. False where it does not
    /// ring any more.
    pub fn reject(&mut self, now_ms: u64, call: CallKey, status: u16, out: &mut Outbox) -> bool {
        let is_done = (300..700).contains(&status)
            && self.is_ringing(call.0)
            && self.send_answer(now_ms, call.0, status, out);
        if is_done {
            self.fail_call(call.0, Cause::Status(status));
        }
        self.take_transaction_events(now_ms, out);
        is_done
    }

    /// A new INVITE; gives it back unless it was kept.
    pub(crate) fn take_invite(
        &mut self,
        now_ms: u64,
        server: ServerId,
        agent: Key,
        request: Box<Message>,
        out: &mut Outbox,
    ) -> Option<Box<Message>> {
        let (Ok(from), Ok(to), Ok(cseq)) = (request.from(), request.to(), request.cseq()) else {
            self.refuse(now_ms, server, &request, 400, out);
            return Some(request);
        };
        let from_tag = from.tag().unwrap_or_default();
        let hash = invite_hash(
            agent,
            request.call_id(),
            from_tag,
            cseq.number,
            &self.random,
        );
        // RFC 3261 8.2.2.2: "If the request has no tag in the To header field, the UAS core MUST check
        // the request against ongoing transactions."
        if self.directory.has_invite(hash) {
            // RFC 3261 8.2.2.2: "If the From tag, Call-ID, and CSeq exactly match those associated with an
            // ongoing transaction, but the request does not match that transaction (based on the matching
            // rules in Section 17.2.3), the UAS core SHOULD generate a 482 (Loop Detected) response and pass
            // it to the server transaction."
            self.counters.merged += 1;
            self.refuse(now_ms, server, &request, 482, out);
            return Some(request);
        }
        let Ok(opened) = self.open_body(now_ms, server, agent, &request, out) else {
            return Some(request);
        };
        if !self.take_session(now_ms, server, agent, &request, opened.as_ref(), out) {
            return Some(request);
        }
        let Some(key) = self.calls.insert() else {
            self.counters.full += 1;
            self.refuse(now_ms, server, &request, 503, out);
            return Some(request);
        };
        self.link_call(agent, key);
        let tag = Tag::new(key, &mut self.random);
        let Some(call) = self.calls.get_mut(key) else {
            return broken!("a slot that was just taken is in use", Some(request));
        };
        call.state = State::Ringing;
        // RFC 3261 12.1.1: "The local tag component of the dialog ID MUST be set to the tag in the To
        // field in the response to the request (which always includes a tag), and the remote tag
        // component of the dialog ID MUST be set to the tag from the From field in the request."
        call.tag = tag;
        call.invite_server = Some(server);
        call.invite_hash = hash;
        // RFC 3261 12.1.1: "The remote sequence number MUST be set to the value of the sequence number
        // in the CSeq header field of the request." and "The local sequence number MUST be empty." Ours
        // is 0 until we send.
        call.remote_cseq = Some(cseq.number);
        call.invite_cseq = cseq.number;
        // RFC 3261 12.1.1: "The remote URI MUST be set to the URI in the From field, and the local URI MUST
        // be set to the URI in the To field."
        // RFC 3261 12.1.1: "The call identifier component of the dialog ID MUST be set to the value of
        // the Call-ID in the request."
        call.texts.set(Part::CallId, request.call_id());
        bracket(&mut self.scratch, to.uri);
        call.texts.set(Part::Local, &self.scratch);
        bracket(&mut self.scratch, from.uri);
        call.texts.set(Part::Remote, &self.scratch);
        call.texts.set(Part::Target, from.uri);
        learn_dialog(&mut call.texts, &request, &mut self.scratch);
        call.deadline_ms = match request.expires_s() {
            Some(seconds) => now_ms.saturating_add(u64::from(seconds) * 1000),
            None => u64::MAX,
        };
        call.opened = opened.map(Box::new);
        call.invite = Some(request);
        self.transactions
            .set_context(server, Context::Invite(key).word());
        self.directory.add_invite(hash, key);
        self.restart_ringing(now_ms, key);
        self.push(Event::Incoming {
            agent: AgentKey(agent),
            call: CallKey(key),
        });
        None
    }

    pub(crate) fn take_ack(&mut self, now_ms: u64, ack: &Message, out: &mut Outbox) {
        let Some(key) = self.find_dialog(ack) else {
            return;
        };
        let (Some(call), Ok(cseq)) = (self.calls.get_mut(key), ack.cseq()) else {
            return broken!("the dialog was just found, and a valid ACK has a CSeq");
        };
        if call.state != State::Answered || cseq.number != call.invite_cseq {
            return;
        }
        // RFC 3261 13.3.1.4: "Response retransmissions cease when an ACK request for the response is
        // received."
        call.state = State::Confirmed;
        let timer = std::mem::take(&mut call.timer);
        let invite = call.invite.take();
        let is_unwanted = call.is_unwanted;
        let server = call.invite_server;
        self.wheel.cancel(timer);
        if let Some(invite) = invite {
            self.pool.recycle(invite);
        }
        if let Some(server) = server {
            self.keep_for_repeats(now_ms, server);
        }
        self.push(Event::Established { call: CallKey(key) });
        if is_unwanted {
            self.send_bye(now_ms, key, Cause::HungUp, out);
        }
    }

    pub(crate) fn take_cancel(
        &mut self,
        now_ms: u64,
        cancel: ServerId,
        invite: Option<ServerId>,
        request: &Message,
        out: &mut Outbox,
    ) {
        let Some(invite) = invite else {
            // RFC 3261 9.2: "If the UAS did not find a matching transaction for the CANCEL according to the
            // procedure above, it SHOULD respond to the CANCEL with a 481 (Call Leg/Transaction Does Not
            // Exist)."
            return self.refuse(now_ms, cancel, request, 481, out);
        };
        // RFC 3261 8.2.2.3: "These header fields MUST be ignored if they are present in these
        // requests." Nothing here reads them.
        let context = self
            .transactions
            .context(invite)
            .unwrap_or_else(|| broken!("an INVITE that is cancelled has its transaction", 0));
        let call = match Context::read(context) {
            Some(Context::Invite(key)) => self
                .calls
                .get(key)
                .map(|call| (key, call.tag.text(), call.state)),
            _ => None,
        };
        // RFC 3261 9.2: "Regardless of the method of the original request, as long as the CANCEL matched an
        // existing transaction, the UAS answers the CANCEL request itself with a 200 (OK) response." and
        // "noting that the To tag of the response to the CANCEL and the To tag in the response to the original
        // request SHOULD be the same."
        let tag = call.map_or_else(|| self.loose_tag(), |call| call.1);
        self.answers.count(request.method(), 200);
        reply(
            &mut self.transactions,
            now_ms,
            cancel,
            request,
            200,
            &tag,
            b"",
            out,
            |_| {},
        );
        let Some((key, _, state)) = call else {
            return;
        };
        // RFC 3261 9.2: "If the UAS has not issued a final response for the original request, its behavior
        // depends on the method of the original request.  If the original request was an INVITE, the UAS
        // SHOULD immediately respond to the INVITE with a 487 (Request Terminated)."
        if state == State::Ringing
            && self.transactions.server_state(invite) == Some(ServerState::Proceeding)
            && self.send_answer(now_ms, key, 487, out)
        {
            self.fail_call(key, Cause::Cancelled);
        }
    }

    pub(crate) fn take_bye(
        &mut self,
        now_ms: u64,
        server: ServerId,
        key: Key,
        request: &Message,
        out: &mut Outbox,
    ) {
        let Some(call) = self.calls.get_mut(key) else {
            return broken!("the dialog of a BYE was just found");
        };
        let (tag, state) = (call.tag.text(), call.state);
        // RFC 3261 15.1.2: "Whether or not it ends its participation on the session, the UAS core MUST
        // generate a 2xx response to the BYE, and MUST pass that to the server transaction for
        // transmission."
        // RFC 3261 20: "If one is placed in a request by mistake, it MUST be ignored by the UAS
        // receiving the request." A Contact, for one.
        call.peer_hung_up = true;
        self.answers.count(request.method(), 200);
        reply(
            &mut self.transactions,
            now_ms,
            server,
            request,
            200,
            &tag,
            b"",
            out,
            |_| {},
        );
        match state {
            // RFC 3261 15.1.2: "The UAS MUST still respond to any pending requests received for that dialog.
            // It is RECOMMENDED that a 487 (Request Terminated) response be generated to those pending
            // requests."
            State::Ringing => {
                self.send_answer(now_ms, key, 487, out);
                self.fail_call(key, Cause::PeerHungUp);
            }
            // Our own BYE is under way: its response ends the call.
            State::Ending => {}
            _ => self.end_call(key, Cause::PeerHungUp),
        }
    }

    pub(crate) fn take_call_timer(&mut self, now_ms: u64, key: Key, out: &mut Outbox) {
        let Some(call) = self.calls.get_mut(key) else {
            return broken!("a call's timer is cancelled before the call is dropped");
        };
        let is_late = now_ms >= call.deadline_ms;
        match call.state {
            State::Inviting => self.cancel(now_ms, key, Cause::Timeout, out),
            // RFC 3261 13.3.1: "If the invitation expires before the UAS has generated a final response, a
            // 487 (Request Terminated) response SHOULD be generated."
            State::Ringing if is_late => {
                self.send_answer(now_ms, key, 487, out);
                self.fail_call(key, Cause::Timeout);
            }
            State::Ringing => {
                // RFC 3261 13.3.1.1: "To prevent cancellation, the UAS MUST send a non-100 provisional response
                // at every minute, to handle the possibility of lost provisional responses."
                if call.has_rung {
                    self.send_answer(now_ms, key, 180, out);
                }
                self.restart_ringing(now_ms, key);
            }
            // RFC 3261 13.3.1.4: "If the server retransmits the 2xx response for 64*T1 seconds without
            // receiving an ACK, the dialog is confirmed, but the session SHOULD be terminated.  This is
            // accomplished with a BYE, as described in Section 15."
            State::Answered if is_late => {
                if let Some(invite) = call.invite.take() {
                    self.pool.recycle(invite);
                }
                self.send_bye(now_ms, key, Cause::NoAck, out);
            }
            State::Answered => {
                // RFC 3261 13.3.1.4: "The 2xx response is passed to the transport with an interval that starts
                // at T1 seconds and doubles for each retransmission until it reaches T2 seconds (T1 and T2 are
                // defined in Section 17)."
                call.interval_ms =
                    (call.interval_ms * 2).min(self.config.transactions.timers.t2_ms);
                let next_ms = now_ms
                    .saturating_add(call.interval_ms)
                    .min(call.deadline_ms);
                self.counters.answers_retransmitted += 1;
                self.send_answer(now_ms, key, 200, out);
                self.restart(key, next_ms);
            }
            State::Confirmed | State::Ending | State::Over => {}
        }
    }

    fn is_ringing(&self, key: Key) -> bool {
        self.calls
            .get(key)
            .is_some_and(|call| call.state == State::Ringing)
    }

    fn restart_ringing(&mut self, now_ms: u64, key: Key) {
        let Some(call) = self.calls.get(key) else {
            return broken!("a call that rings is in the table");
        };
        let next_ms = now_ms.saturating_add(RING_INTERVAL_MS);
        self.restart(key, next_ms.min(call.deadline_ms));
    }

    fn restart(&mut self, key: Key, deadline_ms: u64) {
        let Some(call) = self.calls.get_mut(key) else {
            return broken!("a call that has a timer is in the table");
        };
        self.wheel.cancel(call.timer);
        call.timer = self.wheel.start(deadline_ms, key);
    }

    /// Writes a response to the call's INVITE and gives it to its transaction.
    pub(crate) fn send_answer(
        &mut self,
        now_ms: u64,
        key: Key,
        status: u16,
        out: &mut Outbox,
    ) -> bool {
        // A 100 may be due for an INVITE whose call is over.
        let Some(call) = self.calls.get(key) else {
            return false;
        };
        let is_repeated = call.state == State::Answered && status == 200;
        let (Some(server), Some(invite), true) = (
            call.invite_server,
            call.invite.as_deref(),
            call.state == State::Ringing || is_repeated,
        ) else {
            return false;
        };
        let Some(agent) = call.agent.and_then(|agent| self.agents.get(agent)) else {
            return broken!("a call has an agent, which stays as long as it", false);
        };
        let is_answer = (200..300).contains(&status);
        // RFC 3261 8.2.6.2: "The same tag MUST be used for all responses to that request, both final
        // and provisional (again excepting the 100 (Trying))." It is the call's.
        // RFC 3261 13.2.1: "If the initial offer is in an INVITE, the answer MUST be in a reliable
        // non-failure message from UAS back to UAC which is correlated to that INVITE." and "Once the
        // UAS has sent or received an answer to the initial offer, it MUST NOT generate subsequent
        // offers in any responses to the initial INVITE." and "All user agents that support INVITE MUST
        // support these two exchanges."
        // RFC 3261 13.3.1: "It MUST provide the offer in its first non-failure reliable message back to
        // the UAC."
        // RFC 3261 13.3.1.4: "If the INVITE request contained an offer, and the UAS had not yet sent an
        // answer, the 2xx MUST contain an answer." and "If the INVITE did not contain an offer, the 2xx
        // MUST contain an offer if the UAS had not yet sent an offer."
        let body = match (is_answer, call.has_own_body) {
            (false, _) => b"",
            (true, true) => call.texts.get(Part::Body),
            (true, false) => &self.config.session[..],
        };
        // RFC 3261 13.3.1.1: "Each of these MUST indicate the same dialog ID."
        let tag = call.tag.text();
        if !is_repeated {
            self.answers.count(invite.method(), status);
        }
        reply(
            &mut self.transactions,
            now_ms,
            server,
            invite,
            status,
            &tag,
            body,
            out,
            |w| {
                if status > 100 && status < 300 {
                    write_dialog(w, invite, agent.text(Text::Contact));
                }
                if is_answer {
                    // RFC 3261 13.3.1.4: "A 2xx response to an INVITE SHOULD contain the Allow header field and the
                    // Supported header field, and MAY contain the Accept header field."
                    w.header("Allow", allow(&self.config));
                    w.header("Supported", b"");
                    if !body.is_empty() {
                        w.header("Content-Type", SDP);
                    }
                }
            },
        );
        true
    }
}

/// Writes what a response that makes a dialog must have.
fn write_dialog(writer: &mut MessageWriter<'_>, invite: &Message, contact: &[u8]) {
    // RFC 3261 12.1.1: "When a UAS responds to a request with a response that establishes a dialog (such
    // as a 2xx to INVITE), the UAS MUST copy all Record-Route header field values from the request into
    // the response (including the URIs, URI parameters, and any Record-Route header field parameters,
    // whether they are known or unknown to the UAS) and MUST maintain the order of those values.  The UAS
    // MUST add a Contact header field to the response."
    for field in invite.fields_of(HeaderName::RecordRoute) {
        writer.field(invite, &field);
    }
    // RFC 3261 12.1.1: "If the request that initiated the dialog contained a SIPS URI in the Request-URI
    // or in the top Record-Route header field value, if there was any, or the Contact header field if
    // there was no Record-Route header field, the Contact header field in the response MUST be a SIPS URI."
    let from = [HeaderName::RecordRoute, HeaderName::Contact];
    let sender = from.into_iter().find_map(|name| invite.values(name).next());
    let is_secure = is_sips(invite.request_uri())
        || sender
            .and_then(|(value, _)| NameAddr::parse(value))
            .is_some_and(|addr| is_sips(addr.uri));
    writer.header_with("Contact", |out| write_contact(out, contact, is_secure));
}
