//! Response processing (RFC 3261 16.7).

use invariant::broken;
use sip_msg::{HeaderName, Message, Method};
use sip_txn::{ServerId, ServerState};
use wheel::TimerId;

use super::branches::end_candidate;
use super::cancel::CancelReason;
use super::context::{Branch, Candidate, Context, Key, Owner, Progress};
use super::outcome::Outcome;
use super::privacy::keeps_identity;
use crate::effect::Effect;
use crate::permit::identity_lines;
use crate::records::notes::{note_reason, note_why};
use crate::refusal::{Reason, StatusLine};
use crate::relay::Source;
use crate::timer::Timer;
use crate::{Now, Outputs, Shard};

impl Shard {
    // RFC 3261 16.7: "As client transactions pass responses to the proxy layer, the
    // following processing MUST take place:" steps 1 to 6.
    /// A response that a branch's transaction passed up.
    pub(crate) fn branch_response(
        &mut self,
        now: Now,
        key: Key,
        branch: usize,
        response: Box<Message>,
        out: &mut Outputs,
    ) {
        // A 2xx that left us no Via ended its branch, and may come again.
        let Some(mut context) = self.contexts.take(key) else {
            self.pool.recycle(response);
            return;
        };
        let is_there = context.branches.get(branch).is_some();
        let response = self.restored(&mut context, branch, response);
        if is_there {
            self.hop_answered(now, &context, branch, response.status(), out);
            self.branch_heard(now, key, &mut context, branch, response.status());
            let source = context.answerer(branch);
            self.note_response(now, &context, source.as_ref(), &response);
            self.take_feedback(now, &context, branch, &response);
            let response = match context.media {
                None => Some(response),
                Some(_) => self.hold_for_media(now, key, &mut context, branch, response, out),
            };
            if let Some(response) = response {
                self.pass_response(now, key, &mut context, branch, response, out);
            }
        } else {
            broken!("a transaction's branch is in its context");
            self.pool.recycle(response);
        }
        self.settle(now, key, context, out);
    }

    /// What a response leads to, once nothing holds it up.
    pub(crate) fn pass_response(
        &mut self,
        now: Now,
        key: Key,
        context: &mut Context,
        branch: usize,
        response: Box<Message>,
        out: &mut Outputs,
    ) {
        // Others may have been at hand while it waited.
        if let Some(legs) = &mut context.legs {
            legs.answered_by(branch);
        }
        // RFC 3261 16.7: "If no Via header field values remain in the response, the
        // response was meant for this element and MUST NOT be forwarded."
        let is_for_us = !response.has_several(HeaderName::Via);
        match (response.status(), is_for_us) {
            (100..=199, true) => self.pool.recycle(response),
            (_, true) => {
                self.counters.responses_without_via += 1;
                self.pool.recycle(response);
                self.branch_failed(now, key, context, branch, Outcome::BadResponse, out);
            }
            (100..=199, false) => {
                self.provisional(now, context, branch, &response, out);
                self.pool.recycle(response);
            }
            (200..=299, false) => {
                self.success(now, context, branch, &response, out);
                self.pool.recycle(response);
            }
            _ => self.failure(now, key, context, branch, response, out),
        }
    }

    /// A branch has answered, whether the caller hears of it or not: it is not taken for
    /// silent, and timer C ends it with a CANCEL.
    fn branch_heard(
        &mut self,
        now: Now,
        key: Key,
        context: &mut Context,
        number: usize,
        status: u16,
    ) {
        let timer_c_ms = self.timer_c_ms();
        let Some(branch) = context.branches.get_mut(number) else {
            return broken!("the branch of a response was just found");
        };
        branch.is_heard = true;
        // Whatever it says, it is there: from now on timer C is what it is called.
        if std::mem::take(&mut branch.is_awaited) {
            branch.timer_c_ms = now.mono_ms + timer_c_ms;
        }
        // RFC 3261 16.7: "For an INVITE transaction, if the response is a provisional
        // response with status codes 101 to 199 inclusive (i.e., anything but 100), the
        // proxy MUST reset timer C for that client transaction.  The timer MAY be reset to
        // a different value, but this value MUST be greater than 3 minutes."
        if branch.is_pending && context.method == Method::Invite && matches!(status, 101..=199) {
            branch.timer_c_ms = now.mono_ms + timer_c_ms;
            if branch.timer_c == TimerId::NONE {
                let timer = Timer::C(key, number as u16);
                branch.timer_c = self.wheel.start(branch.timer_c_ms, timer);
            }
        }
    }

    fn provisional(
        &mut self,
        now: Now,
        context: &mut Context,
        number: usize,
        response: &Message,
        out: &mut Outputs,
    ) {
        // RFC 3261 16.7: "In particular, a stateful proxy MUST NOT forward any 100 (Trying)
        // response."
        if response.status() == 100 {
            return;
        }
        // RFC 3261 16.7: "Until a final response has been sent on the server transaction,
        // the following responses MUST be forwarded immediately:" "Any provisional
        // response other than 100 (Trying)" "Any 2xx response".
        if !context.is_final_sent {
            match context.branches.get_mut(number) {
                Some(branch) => branch.is_told = true,
                None => return broken!("the branch of a response was just found"),
            }
            let source = context.answerer(number);
            self.note_ringing(now, context, number);
            self.forward_response(now, context, source.as_ref(), response, out);
        }
    }

    fn success(
        &mut self,
        now: Now,
        context: &mut Context,
        number: usize,
        response: &Message,
        out: &mut Outputs,
    ) {
        let Some(branch) = context.branches.get_mut(number) else {
            return broken!("the branch of a response was just found");
        };
        let is_invite = context.method == Method::Invite;
        let comes_again = std::mem::replace(&mut branch.is_accepted, is_invite);
        let at = usize::from(branch.candidate);
        let answered = context.candidates.get_mut(at);
        let places = answered.map_or_else(Vec::new, Candidate::take_places);
        if let Some(media) = &mut context.media {
            media.is_answered_by(branch.candidate);
        }
        // Of one that was left, the target is with another by now.
        match std::mem::take(&mut branch.is_left) {
            true => self.end_branch_alone(context, number),
            false => self.end_branch(context, number),
        }
        // RFC 3261 16.7: "After a final response has been sent on the server transaction,
        // the following responses MUST be forwarded immediately:" "Any 2xx response to an
        // INVITE request".
        if context.is_final_sent && context.method != Method::Invite {
            return;
        }
        context.taken_by = context.taken_by.or(Some(number));
        let source = context.answerer(number);
        self.note_call(now, context, source.as_ref(), response);
        if !comes_again {
            self.note_answered(now, context, number, response, places, out);
        }
        self.note_refreshed(now, context, response);
        if context.method == Method::Invite {
            self.note_accepted(now, response);
        }
        self.forward_response(now, context, source.as_ref(), response, out);
        self.end_call(context, response.status(), out);
        self.final_sent(now, context, CancelReason::Answered(response.status()), out);
    }

    /// Lets go of a call's own connections, if this was its end.
    fn end_call(&self, context: &Context, status: u16, out: &mut Outputs) {
        let request = context.request.as_deref();
        let ended = request.and_then(|request| self.lanes.ended_call(request, status));
        out.effects.extend(ended.map(Effect::EndCall));
    }

    fn failure(
        &mut self,
        now: Now,
        key: Key,
        context: &mut Context,
        number: usize,
        response: Box<Message>,
        out: &mut Outputs,
    ) {
        let status = response.status();
        let Some(branch) = context.branches.get_mut(number) else {
            self.pool.recycle(response);
            return broken!("the branch of a response was just found");
        };
        let was_left = std::mem::take(&mut branch.is_left);
        if was_left && status < 600 {
            // It was left for its silence, and another has its place.
            return self.pool.recycle(response);
        }
        let branch = *branch;
        let at = usize::from(branch.candidate);
        if is_challenge(status) && self.answer_challenge(now, key, context, number, &response, out)
        {
            return self.pool.recycle(response);
        }
        let is_given_up = |of: &Candidate| of.progress == Progress::GivenUp;
        let was_given_up = context.candidates.get(at).is_some_and(is_given_up);
        self.note_try(context, number, Ok(status));
        if branch.is_pending && status == 503 {
            self.hold_busy(now, context, at, branch.answerer.end(), &response, out);
        }
        // The caller who hears it ring at one gateway hears no other one after it.
        let fails_over = !branch.is_told && self.fails_over(context, at, status);
        // RFC 3263 4.3: a 503 is a failure of the hop: the next one is tried. So it is after
        // other answers of a gateway that the operator has named.
        if fails_over && branch.is_pending && !context.is_final_sent && !context.is_closed {
            self.end_branch_alone(context, number);
            self.leave_next_hop(now, key, context, branch, response, out);
            return;
        }
        match was_left {
            true => self.end_branch_alone(context, number),
            false => self.end_branch(context, number),
        }
        if matches!(context.method, Method::Invite | Method::Update) {
            self.note_dialog_lost(now, context, &response, out);
        }
        if context.is_final_sent {
            // RFC 3261 16.7: "A stateful proxy MUST NOT immediately forward any other
            // responses." There is nothing left to be the best for.
            self.pool.recycle(response);
            return;
        }
        // Its phone rang too long, and was told so, which is no answer to the caller: others have
        // the call by now, or have said what comes of it.
        if was_given_up && status == 487 && !context.is_cancelled {
            self.pool.recycle(response);
            return;
        }
        // A gateway may follow it by itself, past the tables, and is not told where it leads.
        let is_moved = matches!(status, 300..=399);
        if is_moved && self.redirects_a_gateway(now, context, number, &response) {
            self.pool.recycle(response);
            self.note_failure(context, Outcome::ForwardRefused);
            return;
        }
        self.note_best(context, status, Some(response));
        // RFC 3261 16.7: "If a 6xx response is received, it is not immediately forwarded,
        // but the stateful proxy SHOULD cancel all client pending transactions as
        // described in Section 10, and it MUST NOT create any new branches in this
        // context."
        if status >= 600 {
            self.close_context(now, context, CancelReason::Answered(status), out);
        }
    }

    /// A next hop has given an answer after which another is tried: that answer is kept, in case
    /// none gives a better one, and the target goes on.
    fn leave_next_hop(
        &mut self,
        now: Now,
        key: Key,
        context: &mut Context,
        branch: Branch,
        response: Box<Message>,
        out: &mut Outputs,
    ) {
        let (at, status) = (usize::from(branch.candidate), response.status());
        let reason = match status {
            503 => Reason::NextHopBusy,
            _ => Reason::GatewayFailed,
        };
        self.note_way(now, context, at, reason, out);
        self.note_ranked(context, (rank_of_failed(status), status), Some(response));
        let (_, addr) = branch.answerer.end();
        match context.candidates.get_mut(at) {
            Some(candidate) => candidate.leave_server(addr),
            None => broken!("a target that has failed is in its set"),
        }
        self.target_failed(now, key, context, at, Outcome::NextHopBusy, out);
    }

    /// Takes note that an INVITE or UPDATE within a dialog was answered 408 or 481.
    // RFC 3261 12.2.1.2: "If the response for a request within a dialog is a 481
    // (Call/Transaction Does Not Exist) or a 408 (Request Timeout), the UAC SHOULD
    // terminate the dialog."
    fn note_dialog_lost(
        &mut self,
        now: Now,
        context: &Context,
        response: &Message,
        out: &mut Outputs,
    ) {
        let status = response.status();
        if matches!(status, 408 | 481)
            && let Some(request) = context.request.as_deref()
        {
            let is_proven = context.speaks_for_dialog;
            self.calls.end(request, |_| is_proven);
        }
        if status == 481 {
            self.note_gone(now, context, out);
            self.media_gone(context, response, out);
        }
    }

    /// A branch has its final response, and its target with it.
    pub(crate) fn end_branch(&mut self, context: &mut Context, number: usize) {
        self.end_branch_alone(context, number);
        let Some(at) = context.branches.get(number).map(|b| b.candidate) else {
            return broken!("the branch of a response was just found");
        };
        // The target set was given back if this response only comes again.
        if let Some(candidate) = context.candidates.get_mut(usize::from(at)) {
            end_candidate(candidate, &mut context.breadth_left);
            drop(candidate.take_places());
        }
    }

    pub(crate) fn end_branch_alone(&mut self, context: &mut Context, number: usize) {
        let Some(branch) = context.branches.get_mut(number) else {
            return broken!("the branch of a response was just found");
        };
        branch.is_pending = false;
        self.wheel.cancel(std::mem::take(&mut branch.timer_c));
    }

    /// Keeps a final response, if it is better than what there was.
    fn note_best(&mut self, context: &mut Context, status: u16, response: Option<Box<Message>>) {
        self.note_ranked(context, (rank(status), status), response);
    }

    fn note_ranked(
        &mut self,
        context: &mut Context,
        (rank, status): (u8, u16),
        response: Option<Box<Message>>,
    ) {
        let best = &mut context.best;
        if best.rank != 0 && best.rank <= rank {
            // RFC 3261 16.7: "If the selected response is a 401 (Unauthorized) or 407 (Proxy
            // Authentication Required), the proxy MUST collect any WWW-Authenticate and
            // Proxy-Authenticate header field values from all other 401 (Unauthorized) and
            // 407 (Proxy Authentication Required) responses received so far in this response
            // context and add them to this response without modification before
            // forwarding."
            if let Some(response) = response {
                if is_challenge(status) && is_challenge(best.status) {
                    self.counters.challenges_left_out += u64::from(!best.collect(&response));
                    context.count_messages();
                }
                self.pool.recycle(response);
            }
            return;
        }
        best.rank = rank;
        best.status = status;
        best.outcome = None;
        let (old, has_room) = best.choose(response);
        self.counters.challenges_left_out += u64::from(!has_room && is_challenge(status));
        if let Some(old) = old {
            self.pool.recycle(old);
        }
        context.count_messages();
    }

    /// Forgets what was the best: the call goes elsewhere.
    pub(crate) fn forget_best(&mut self, context: &mut Context) {
        let best = &mut context.best;
        if let Some(old) = best.response.take() {
            self.pool.recycle(old);
        }
        best.challenges = Vec::new();
        (best.rank, best.status, best.outcome) = (0, 0, None);
        context.count_messages();
    }

    /// Takes note that a target has no response, if there is nothing better.
    pub(crate) fn note_failure(&mut self, context: &mut Context, outcome: Outcome) {
        let best = &mut context.best;
        if best.rank != 0 && best.rank <= outcome.rank() {
            return;
        }
        best.rank = outcome.rank();
        best.status = outcome.status();
        best.outcome = Some(outcome);
        if let Some(old) = best.response.take() {
            self.pool.recycle(old);
        }
    }

    // RFC 3261 16.7: "A stateful proxy MUST send a final response to a response context's
    // server transaction if no final responses have been immediately forwarded by the
    // above rules and all client transactions in this response context have been
    // terminated." A transaction that has passed its final response up has nothing more to say.
    fn choose_best(&mut self, now: Now, context: &mut Context, out: &mut Outputs) {
        let own = context.best.outcome.take();
        let status = match context.best.status {
            // RFC 3261 16.7: "If there are no final responses in the context, the proxy MUST
            // send a 408 (Request Timeout) response to the server transaction."
            0 | 408 if context.is_cancelled && context.best.response.is_none() => 487,
            0 => 408,
            // RFC 3261 16.7: "If the only response that was received is a 503, the proxy SHOULD
            // generate a 500 response and forward that upstream."
            503 if own.is_none() => 500,
            430 => 480,
            other => other,
        };
        let response = context.best.response.take();
        match response {
            // RFC 3261 16.7: "Otherwise, the proxy MUST forward a response from the responses
            // stored in the response context."
            Some(response) if response.status() == status => {
                note_reason(context, &response);
                self.forward_response(now, context, None, &response, out);
                self.pool.recycle(response);
            }
            other => {
                if let Some(response) = other {
                    self.pool.recycle(response);
                }
                let line = match (own, status) {
                    (Some(own), status) if own.status() == status => own.line(),
                    (_, 487) => StatusLine::refused(487, Reason::Cancelled),
                    (_, 480) => StatusLine::refused(480, Reason::PhoneFlowGone),
                    (_, 500) => StatusLine::refused(500, Reason::NextHopBusy),
                    (_, status) => StatusLine::refused(status, Reason::TimedOut),
                };
                note_why(context, &line);
                self.answer_context(now, context, line, out);
            }
        }
        self.end_call(context, status, out);
        self.final_sent(now, context, CancelReason::Answered(status), out);
    }

    /// After a final response: what is still pending is cancelled, and what is
    /// no longer needed is given back.
    pub(crate) fn final_sent(
        &mut self,
        now: Now,
        context: &mut Context,
        because: CancelReason<'_>,
        out: &mut Outputs,
    ) {
        if !context.is_final_sent {
            self.note_final(now, context, because, out);
            self.end_media(context, because, out);
        }
        context.is_final_sent = true;
        // RFC 3261 16.7: "If the forwarded response was a final response, the proxy MUST
        // generate a CANCEL request for all pending client transactions associated with
        // this response context."
        self.close_context(now, context, because, out);
        context.forget_messages(&mut self.pool);
        // What is told of another who takes the call is in its target.
        if !context.is_waiting() && context.fork.is_none() {
            self.contexts.keep_target_set(context);
        }
    }

    // RFC 3261 16.7: "The following processing MUST be performed on each response that is
    // forwarded." and "Any response chosen for immediate forwarding MUST be processed as
    // described in steps "Aggregate Authorization Header Field Values" through
    // "Record-Route"." and "The forwarded response MUST be processed as described in
    // steps "Aggregate Authorization Header Field Values" through "Record-Route"."
    /// Forwards a response upstream: without its topmost Via, and otherwise as
    /// it came.
    // The session description of a call whose media an engine leads was changed before
    // (docs/DEVIATIONS.md). Beyond that:
    // RFC 3261 16.7: "The proxy MUST NOT add to, modify, or remove the message body.  Unless
    // otherwise specified, the proxy MUST NOT remove any header field values other than
    // the Via header field value discussed in Section 16.7 Item 3.  In particular, the
    // proxy MUST NOT remove any "received" parameter it may have added to the next Via
    // header field value while processing the request associated with this response."
    // RFC 3261 16.7: "A proxy MUST NOT insert a tag into the To header field of a 1xx or 2xx
    // response if the request did not contain one.  A proxy MUST NOT modify the tag in
    // the To header field of a 1xx or 2xx response." and "A proxy MUST NOT modify the To
    // tag in any forwarded response to a request that contains a To tag."
    fn forward_response(
        &mut self,
        now: Now,
        context: &mut Context,
        source: Option<&Source>,
        response: &Message,
        out: &mut Outputs,
    ) {
        let outbox = &mut out.outbox;
        let start = outbox.bytes.len();
        let is_stream = context.sender.flow.transport.is_reliable();
        let came_from = Source::of(&context.sender.flow).known_if(context.is_known);
        let relay = self.relay(now);
        let back = context.back.as_ref();
        let known = (
            context.legs.as_ref().and_then(|legs| legs.caller_marks()),
            context.led_by(),
            back.is_some_and(|back| {
                !came_from.is_known() && relay.is_shown_by_answer(back, response)
            }),
        );
        let granted = self.grant_caller(now, context.identity, source, known, response);
        let is_trusted = context.is_listed || self.is_trusted(context.sender.flow.remote.ip());
        write_upstream(
            (response, is_trusted),
            &context.best.challenges,
            granted.map(|place| (place, &*self.granted)),
            context.session.and_then(|timer| timer.missing_in(response)),
            is_stream,
            &mut self.edits,
            &mut outbox.bytes,
        );
        self.write_feedback(now, context.is_listed, start, &mut out.outbox);
        let outbox = &mut out.outbox;
        self.counters.responses_forwarded += 1;
        let status = response.status();
        // RFC 3261 16.7: "After a final response has been sent on the server transaction, the
        // following responses MUST be forwarded immediately:" "Any 2xx response to an INVITE
        // request". A transaction that has refused the call takes none, so it goes past it.
        let takes_it = |server: ServerId| match self.txns.server_state(server) {
            Some(ServerState::Completed | ServerState::Confirmed) => {
                !(context.is_final_sent && matches!(status, 200..=299))
            }
            state => state.is_some(),
        };
        let server = context.server.filter(|server| takes_it(*server));
        let Some(server) = server else {
            // RFC 3261 16.7: "If the server transaction is no longer available to handle the
            // transmission, the element MUST forward the response statelessly by sending it
            // to the server transport."
            match &context.back {
                Some(back) => outbox.send_since(start, back.clone(), 0),
                None => {
                    broken!("the way back was kept when the context was opened");
                    outbox.bytes.truncate(start);
                }
            }
            return;
        };
        // RFC 3261 16.7: "The proxy MUST pass the response to the server transaction
        // associated with the response context." One that RFC 4320 forbids is not sent, and its
        // transaction stays until it expires: the request comes again, and is not a new one.
        self.txns
            .respond(now.mono_ms, server, status, start, outbox);
    }

    /// Does what is due in a context and puts it back, or ends it.
    pub(crate) fn settle(
        &mut self,
        now: Now,
        key: Key,
        mut context: Box<Context>,
        out: &mut Outputs,
    ) {
        if !context.is_final_sent {
            self.start_due(now, key, &mut context, out);
            while !context.is_waiting() && self.divert_after_all(now, &mut context, out) {
                self.start_due(now, key, &mut context, out);
            }
            if !context.is_waiting() {
                self.choose_best(now, &mut context, out);
            }
        }
        context.forget_fork();
        if context.is_over() {
            self.wheel.cancel(std::mem::take(&mut context.serial_timer));
            if let Some(server) = context.server {
                self.txns.set_context(server, Owner::Nobody.encode());
            }
            self.contexts.close(key, context, &mut self.pool);
        } else {
            self.contexts.put(key, context);
        }
    }
}

/// Writes a response as it leaves for the next hop upstream; `granted` is the
/// caller's grant and its place, `session_expires_s` the session timer that the callee left
/// out (RFC 4028 8.2).
pub(crate) fn write_upstream(
    (response, is_trusted): (&Message, bool),
    challenges: &[u8],
    granted: Option<(sip_msg::Span, &[u8])>,
    session_expires_s: Option<u32>,
    is_stream: bool,
    edits: &mut sip_msg::Edits,
    out: &mut Vec<u8>,
) {
    edits.clear();
    edits.remove_first_value(response, HeaderName::Via);
    // RFC 3325 7 speaks of messages, and not of requests alone.
    if !is_trusted && keeps_identity(response) {
        let mut lines = Vec::new();
        identity_lines(response, &mut lines);
        for line in lines {
            edits.remove(line);
        }
    }
    if let Some((place, user)) = granted {
        edits.replace(place, user);
    }
    if !challenges.is_empty() && is_challenge(response.status()) {
        edits.insert(response.headers_end(), challenges);
    }
    if is_stream && !response.has(HeaderName::ContentLength) {
        edits.insert_with(response.headers_end(), |text| {
            text.extend_from_slice(b"Content-Length: ");
            crate::text::write_decimal(response.body().len() as u64, text);
            text.extend_from_slice(b"\r\n");
        });
    }
    if let Some(expires_s) = session_expires_s {
        edits.insert_with(response.headers_end(), |text| {
            text.extend_from_slice(b"Session-Expires: ");
            crate::text::write_decimal(u64::from(expires_s), text);
            text.extend_from_slice(b";refresher=uac\r\n");
            if !response.has_option(HeaderName::Require, "timer") {
                text.extend_from_slice(b"Require: timer\r\n");
            }
        });
    }
    edits.apply(response, out);
}

const fn is_challenge(status: u16) -> bool {
    matches!(status, 401 | 407)
}

// RFC 3261 16.7: "The stateful proxy MUST choose the "best" final response among those
// received and stored in the response context." and "It MUST choose from the 6xx class
// responses if any exist in the context.  If no 6xx class responses are present, the
// proxy SHOULD choose from the lowest response class stored in the response context."
/// How good a final response is: the lowest is the best. Within the 4xx those
/// come first that say how to try again; a hop that was not reached says least.
pub(crate) const fn rank(status: u16) -> u8 {
    match status {
        600.. => 1,
        300..=399 => 2,
        401 | 407 => 3,
        415 | 420 | 484 => 4,
        408 | 430 => 7,
        503 => 9,
        500..=599 => 8,
        _ => 5,
    }
}

/// The same for an answer after which another gateway was tried: what that one says is
/// better than what is as good otherwise, and nobody's silence is.
const fn rank_of_failed(status: u16) -> u8 {
    match status {
        503 => rank(status),
        _ => rank(status) + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::context::Best;
    use crate::testing::parse;

    /// A 401 with one challenge, and a body of so many bytes.
    fn challenge(body_bytes: usize) -> Box<Message> {
        let body = "x".repeat(body_bytes);
        let text = format!(
            "SIP/2.0 401 No\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom: <sip:a@b>;tag=1\r\n\
             To: <sip:b@b>;tag=2\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\n\
             WWW-Authenticate: Digest realm=\"{}\"\r\nContent-Length: {body_bytes}\r\n\r\n{body}",
            "r".repeat(5_000)
        );
        Box::new(parse(text.as_bytes()))
    }

    #[test]
    fn challenges_of_others_are_kept_as_long_as_they_have_room_beside_the_best() {
        let mut best = Best::default();
        assert!(best.choose(Some(challenge(0))).1);
        assert!(best.collect(&challenge(0)) && best.collect(&challenge(0)));
        let kept = best.challenges.len();
        assert!(kept > 10_000);
        // Beside a longer one too, and not beside one that they would make too long.
        assert!(best.choose(Some(challenge(40_000))).1);
        assert_eq!(best.challenges.len(), kept);
        assert!(!best.choose(Some(challenge(50_000))).1);
        assert!(best.challenges.is_empty());
        assert!(best.collect(&challenge(0)) && !best.collect(&challenge(0)));
    }

    #[test]
    fn the_best_response() {
        // RFC 3261 16.7: "It MUST choose from the 6xx class responses if any exist in the
        // context.  If no 6xx class responses are present, the proxy SHOULD choose from the
        // lowest response class stored in the response context."
        let mut statuses = [503, 500, 408, 486, 484, 407, 302, 603];
        statuses.sort_by_key(|s| rank(*s));
        assert_eq!(statuses, [603, 302, 407, 484, 486, 408, 500, 503]);
        // After a failover: the answer of the gateway that was asked last, if it gave any.
        for failed in [404, 480, 486] {
            assert!(rank_of_failed(failed) > rank(486) && rank_of_failed(failed) < rank(408));
        }
        for failed in [500, 502, 503] {
            assert!(rank_of_failed(failed) > rank(500) && rank_of_failed(failed) <= rank(503));
        }
    }
}
