//! Responses that wait for an engine, in their order.

use invariant::broken;
use sip_media::{Ask, Command, EngineId, Failure, Given};
use sip_msg::{Message, Method, Span};

use super::answered::outcome_of;
use super::asking::{from_tag, has_sessions, to_tag};
use super::body::{Body, find};
use super::state::{Next, said};
use super::{MediaWait, NewBody};
use crate::proxy::cancel::CancelReason;
use crate::proxy::context::{Context, Key};
use crate::proxy::outcome::Outcome;
use crate::relay::Source;
use crate::{Now, Outputs, Shard};

impl Shard {
    /// Has a response wait that needs an engine, or that follows one of its branch which waits.
    /// Gives it back where it is passed on at once.
    pub(crate) fn hold_for_media(
        &mut self,
        now: Now,
        key: Key,
        context: &mut Context,
        number: usize,
        response: Box<Message>,
        out: &mut Outputs,
    ) -> Option<Box<Message>> {
        let status = response.status();
        if status == 100 || !has_sessions(context.method) {
            return Some(response);
        }
        let branch = context.branches.get(number);
        let (Some(branch), Some(media)) = (branch, context.media.as_deref_mut()) else {
            return Some(response);
        };
        let (at, was_accepted) = (branch.candidate, branch.is_accepted);
        // A failure overtakes: nobody listens to what rang before it.
        if status >= 300 {
            let pool = &mut self.pool;
            media.drop_held(number, |held| pool.recycle(held));
            context.count_messages();
            return Some(response);
        }
        let Some(engine) = media.engine_of(at) else {
            return Some(response);
        };
        match find(&response) {
            // Another has the call: its own engine was told so, and whoever answers too late is
            // hung up on.
            Body::Session(_) if context.is_final_sent && !was_accepted => Some(response),
            Body::Session(place) => self.hold_session(
                now,
                key,
                context,
                (number, at),
                engine,
                response,
                place,
                out,
            ),
            other => {
                self.counters.media_sealed += u64::from(other == Body::Sealed);
                self.hold_behind(context, number, response)
            }
        }
    }

    /// Whether the final response of a branch whose transaction has ended waits. Where it has
    /// none, nobody is to hear of those before it either.
    pub(crate) fn is_final_held(&mut self, context: &mut Context, number: usize) -> bool {
        let Some(media) = context.media.as_deref_mut() else {
            return false;
        };
        let is_held = media.holds_final(number);
        if !is_held {
            let pool = &mut self.pool;
            media.drop_held(number, |held| pool.recycle(held));
        }
        is_held
    }

    /// Has a response that is ready wait for those before it, if there are any.
    fn hold_behind(
        &mut self,
        context: &mut Context,
        number: usize,
        response: Box<Message>,
    ) -> Option<Box<Message>> {
        match context.media.as_deref_mut() {
            Some(media) if media.holds(number) => {
                if media.has_room() {
                    media.hold(number, response, 0, true);
                    context.count_messages();
                } else {
                    // It comes again, or says nothing that the next does not say.
                    self.counters.media_dropped += 1;
                    self.pool.recycle(response);
                }
                None
            }
            _ => Some(response),
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn hold_session(
        &mut self,
        now: Now,
        key: Key,
        context: &mut Context,
        (number, at): (usize, u16),
        engine: EngineId,
        response: Box<Message>,
        place: Span,
        out: &mut Outputs,
    ) -> Option<Box<Message>> {
        let (Some(settings), Some(media)) = (self.settings.media.clone(), context.media.as_deref())
        else {
            return self.hold_behind(context, number, response);
        };
        let tag = to_tag(&response);
        // RFC 3261 8.2.6.2 has a tag in it: without one nobody knows whose media it is.
        let is_nobodys = tag.is_empty();
        if is_nobodys && response.status() >= 200 {
            return self.refuse_nobodys(now, context, (number, at), response, out);
        }
        let said = said(&self.keys.tags, tag, response.slice(place));
        let next = match is_nobodys {
            true => Next::Full,
            false => media.next(number, &response, said),
        };
        match next {
            Next::Known(text) => match self.with_body(response, &NewBody { place, text }) {
                Ok(response) => self.hold_behind(context, number, response),
                Err(response) => {
                    self.counters.media_dropped += 1;
                    self.pool.recycle(response);
                    None
                }
            },
            Next::Waits => {
                self.pool.recycle(response);
                None
            }
            Next::Full => {
                self.counters.media_dropped += 1;
                self.pool.recycle(response);
                None
            }
            Next::Ask => {
                let ask = self.question_about(now, context, (number, at), engine, &response, place);
                if let Some(media) = context.media.as_deref_mut() {
                    media.tell(at);
                    let serial = media.hold(number, response, said, false);
                    context.count_messages();
                    let wait = MediaWait::Response { key, serial, place };
                    self.ask_engine(now, &settings, wait, ask, out);
                }
                None
            }
        }
    }

    /// What is to be asked for a response.
    fn question_about(
        &mut self,
        now: Now,
        context: &Context,
        (number, at): (usize, u16),
        engine: EngineId,
        response: &Message,
        place: Span,
    ) -> Ask {
        let media = context.media.as_deref();
        let has_offer = media.is_some_and(|media| media.has_offer);
        let (caller, callee) = (from_tag(response), to_tag(response));
        let (command, offerer, answerer) = match has_offer {
            true => (Command::Answer, caller, callee),
            false => (Command::Offer, callee, caller),
        };
        // A PRACK answers it.
        if !has_offer && response.status() < 200 {
            self.offered.put(now, response);
        }
        let call = media.map(|media| media.call(at)).unwrap_or_default();
        let mut ask = Ask::new(command, &call, offerer);
        ask.to_tag = answerer.into();
        if let Some(media) = media.filter(|media| media.engine.is_none()) {
            ask.branch = media.branch(at).into();
        }
        let from = context.answerer(number).map(Source::end);
        let to = Source::of(&context.sender.flow).end();
        if let (Some(settings), Some(from)) = (&self.settings.media, from) {
            ask.shape = settings.shape(from, to);
        }
        ask.engine = Some(engine);
        // What answers an offer of ours was never by an engine before. What is offered may have
        // been, by a next hop of the operator's.
        let target = context.candidates.get(usize::from(at));
        let is_next_hop = target.is_some_and(|target| target.kind.care().is_some());
        ask.describe(response.slice(place), !has_offer && is_next_hop);
        ask
    }

    /// An engine has answered for a response that waits.
    pub(super) fn response_answered(
        &mut self,
        now: Now,
        key: Key,
        serial: u32,
        place: Span,
        result: Result<Given, Failure>,
        out: &mut Outputs,
    ) {
        // The call may have come to its end meanwhile.
        let Some(mut context) = self.contexts.take(key) else {
            return;
        };
        let media = context.media.as_deref_mut();
        if let Some((number, response)) = media.and_then(|media| media.take_held(serial)) {
            self.give_response(
                now,
                &mut context,
                (number, serial),
                response,
                place,
                result,
                out,
            );
            while let Some(response) = context
                .media
                .as_deref_mut()
                .and_then(|media| media.next_ready(number))
            {
                self.pass_response(now, key, &mut context, number, response, out);
            }
            context.count_messages();
        }
        self.settle(now, key, context, out);
    }

    /// Puts into its place what an engine has made of a response, or what there is without.
    #[allow(clippy::too_many_arguments)]
    fn give_response(
        &mut self,
        now: Now,
        context: &mut Context,
        (number, serial): (usize, u32),
        response: Box<Message>,
        place: Span,
        result: Result<Given, Failure>,
        out: &mut Outputs,
    ) {
        let refused = || Failure::Refused("no session description".into());
        let branch = context.branches.get(number);
        let target = branch.map_or(usize::MAX, |branch| usize::from(branch.candidate));
        let text = result.and_then(|given| given.sdp.ok_or_else(refused));
        let changed = match text {
            Ok(text) => {
                let body = NewBody { place, text };
                match self.with_body(response, &body) {
                    Ok(changed) => Ok((changed, Some(body.text))),
                    Err(response) => Err((response, refused())),
                }
            }
            Err(failure) if self.may_pass(context, target, &failure) => {
                self.counters.media_passed += 1;
                Ok((response, None))
            }
            Err(failure) => Err((response, failure)),
        };
        let Some(media) = context.media.as_deref_mut() else {
            return broken!("a response that waited is of a call with media");
        };
        match changed {
            Ok((response, text)) => {
                if let Some(text) = text {
                    media.keep(serial, text);
                }
                media.put_held(serial, Some(response));
            }
            Err((response, failure)) => {
                media.put_held(serial, None);
                let is_final = response.status() >= 200;
                self.pool.recycle(response);
                match is_final {
                    // It rings all the same: the next response says so.
                    false => self.counters.media_dropped += 1,
                    true => self.refuse_answered(now, context, number, outcome_of(&failure), out),
                }
            }
        }
    }

    /// Who answers without a tag is refused, but where calls are passed on without an engine.
    fn refuse_nobodys(
        &mut self,
        now: Now,
        context: &mut Context,
        (number, at): (usize, u16),
        response: Box<Message>,
        out: &mut Outputs,
    ) -> Option<Box<Message>> {
        let refused = Failure::Refused("it has no tag in To".into());
        // What comes after the call was answered changes nothing.
        if !context.is_final_sent && self.may_pass(context, usize::from(at), &refused) {
            self.counters.media_passed += 1;
            return self.hold_behind(context, number, response);
        }
        self.pool.recycle(response);
        if context.is_final_sent {
            self.counters.media_dropped += 1;
            return None;
        }
        self.refuse_answered(now, context, number, outcome_of(&refused), out);
        context.count_messages();
        None
    }

    /// Somebody has answered, and no engine leads the media to him: the call is refused, and he
    /// hangs up where no ACK comes (RFC 3261 13.3.1.4).
    fn refuse_answered(
        &mut self,
        now: Now,
        context: &mut Context,
        number: usize,
        outcome: Outcome,
        out: &mut Outputs,
    ) {
        if let Some(media) = context.media.as_deref_mut() {
            let pool = &mut self.pool;
            media.drop_held(number, |held| pool.recycle(held));
        }
        // What comes again after the call was answered changes nothing.
        if context.is_final_sent {
            self.counters.media_dropped += 1;
            return;
        }
        self.counters.media_refused += 1;
        self.note_try(context, number, Err(outcome.why()));
        self.end_branch(context, number);
        self.note_failure(context, outcome);
        if context.method == Method::Invite {
            let because = CancelReason::Answered(outcome.status());
            self.close_context(now, context, because, out);
        }
    }
}
