//! What an engine has answered, and what becomes of what waited for it.

use invariant::broken;
use sip_media::{Answered, Failure, Given};
use sip_msg::{HeaderName, Message, Span};

use super::body::is_within;
use super::{NewBody, WhenGone};
use crate::effect::ParkId;
use crate::park::{Job, Parked};
use crate::permit::Permit;
use crate::proxy::context::{Candidate, Context, Key, Progress};
use crate::proxy::egress::Egress;
use crate::proxy::outcome::Outcome;
use crate::{Now, Outputs, Shard};

/// What waits for an engine.
#[allow(
    clippy::large_enum_variant,
    reason = "it is boxed where it waits, and the small ones are gone at once"
)]
pub(crate) enum MediaWait {
    /// A copy of a request, on its way to a target.
    Copy {
        key: Key,
        at: u16,
        egress: Egress,
        /// Where its session description stands, if it has one.
        place: Option<Span>,
    },
    /// A response that is held, by its name there.
    Response { key: Key, serial: u32, place: Span },
    /// An ACK.
    Ack {
        job: Job,
        permit: Permit,
        place: Span,
    },
}

impl MediaWait {
    /// The memory of the message in it; contexts count their own.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::Ack { job, .. } => job.request.held_bytes(),
            Self::Copy { .. } | Self::Response { .. } => 0,
        }
    }
}

impl Shard {
    /// Takes an engine's answer.
    pub fn handle_media(&mut self, now: Now, answered: Answered, out: &mut Outputs) {
        match self.parks.take(ParkId(answered.waiter), &mut self.wheel) {
            Some(Parked::Media(wait)) => self.media_answered(now, *wait, answered.result, out),
            Some(_) => broken!("what an engine was asked waits for it"),
            None => {
                self.counters.answers_late += 1;
                self.end_stray_offer(answered, out);
            }
        }
        self.drain(now, out);
    }

    /// Goes on with what has waited.
    pub(crate) fn media_answered(
        &mut self,
        now: Now,
        wait: MediaWait,
        result: Result<Given, Failure>,
        out: &mut Outputs,
    ) {
        match wait {
            MediaWait::Copy {
                key,
                at,
                egress,
                place,
            } => self.copy_answered(now, (key, at), egress, place, result, out),
            MediaWait::Response { key, serial, place } => {
                self.response_answered(now, key, serial, place, result, out);
            }
            MediaWait::Ack {
                mut job,
                permit,
                place,
            } => {
                let limits = &self.settings.limits;
                match result.ok().and_then(|given| given.sdp) {
                    Some(text) if is_within(limits, &job.request, place, text.len()) => {
                        job.body = Some(Box::new(NewBody { place, text }));
                    }
                    // Without its ACK a call does not live long. Whether it has media shows.
                    _ => self.counters.media_passed += 1,
                }
                self.forward_single(now, job, permit, out);
            }
        }
    }

    fn copy_answered(
        &mut self,
        now: Now,
        (key, at): (Key, u16),
        egress: Egress,
        place: Option<Span>,
        result: Result<Given, Failure>,
        out: &mut Outputs,
    ) {
        let Some(mut context) = self.contexts.take(key) else {
            return broken!("a context stays while an engine is asked for its targets");
        };
        let from = context.sender.flow;
        let shape = match &self.settings.media {
            Some(settings) => settings.shape(
                (from.transport, from.remote),
                (egress.to.transport, egress.to.remote),
            ),
            None => sip_media::Shape::default(),
        };
        let target = usize::from(at);
        let result = result.and_then(|given| self.check_given(&mut context, at, place, given, out));
        let passes = |failure: &Failure| self.may_pass(&context, target, failure);
        let passes = result.as_ref().is_err_and(passes);
        match context.candidates.get_mut(target) {
            Some(candidate) => candidate.progress = Progress::Trying,
            None => broken!("a target that waits for an engine is in its set"),
        }
        let request = context.request.as_deref();
        let outcome = match (result, context.media.as_deref_mut()) {
            (_, None) => broken!(
                "media that is asked for is its context's",
                Some(Outcome::MediaGone)
            ),
            (Ok(given), Some(media)) if is_untouched(request, place, &given) => {
                media.leave(at, shape);
                None
            }
            (Ok(Given { engine, sdp }), Some(media)) => {
                let body = place.zip(sdp).map(|(place, text)| NewBody { place, text });
                media.set_target(at, Some(engine), shape, body);
                None
            }
            (Err(failure), Some(media)) => match passes {
                true => {
                    self.counters.media_passed += 1;
                    media.set_target(at, None, shape, None);
                    None
                }
                false => Some(outcome_of(&failure)),
            },
        };
        match outcome {
            Some(outcome) => {
                self.counters.media_refused += 1;
                self.give_up(&mut context, target, outcome);
            }
            None if self.send_copy(now, key, &mut context, target, &egress, out) => {}
            None => self.try_next(now, key, &mut context, target, Outcome::Unreachable, out),
        }
        context.count_messages();
        self.settle(now, key, context, out);
    }

    /// What an engine gives for a copy, where that makes a message. Where it does not, what the
    /// engine has begun for the call is let go.
    fn check_given(
        &mut self,
        context: &mut Context,
        at: u16,
        place: Option<Span>,
        given: Given,
        out: &mut Outputs,
    ) -> Result<Given, Failure> {
        let (Some(place), Some(request)) = (place, context.request.as_deref()) else {
            return Ok(given);
        };
        let limits = &self.settings.limits;
        let text = given.sdp.as_deref();
        if text.is_some_and(|text| is_within(limits, request, place, text.len())) {
            return Ok(given);
        }
        if let Some(media) = context.media.as_deref_mut()
            && media.engine.is_none()
        {
            media.set_target(at, Some(given.engine), sip_media::Shape::default(), None);
            self.end_target(context, at, out);
        }
        Err(Failure::Refused("no message can be made of it".into()))
    }

    /// Whether what cannot have an engine is passed on as it came. What an engine has refused is
    /// not: the other end would not understand it either. A call for help always is: it rings at
    /// least.
    pub(super) fn may_pass(&self, context: &Context, target: usize, failure: &Failure) -> bool {
        let candidate = context.candidates.get(target);
        if candidate.is_some_and(Candidate::is_emergency) {
            return true;
        }
        let media = self.settings.media.as_ref();
        let passes = media.is_none_or(|media| media.when_gone == WhenGone::Pass);
        passes && !matches!(failure, Failure::Refused(_))
    }

    /// A response with a session description in the place of its own; the response as it was
    /// where that makes no message.
    pub(super) fn with_body(
        &mut self,
        response: Box<sip_msg::Message>,
        body: &NewBody,
    ) -> Result<Box<sip_msg::Message>, Box<sip_msg::Message>> {
        let mut bytes = self.pool.buffer();
        self.edits.clear();
        body.edit(&response, &mut self.edits);
        if !response.has(HeaderName::ContentLength) {
            let len = body.body_len(&response) as u64;
            self.edits.insert_with(response.headers_end(), |text| {
                text.extend_from_slice(b"Content-Length: ");
                crate::text::write_decimal(len, text);
                text.extend_from_slice(b"\r\n");
            });
        }
        self.edits.apply(&response, &mut bytes);
        let mut changed = self.pool.message();
        let filled = changed.fill(&bytes, &self.settings.limits);
        self.pool.recycle_buffer(bytes);
        let (kept, other) = match filled {
            Ok(()) => (Ok(changed), response),
            Err(_) => (Err(response), changed),
        };
        self.pool.recycle(other);
        kept
    }
}

/// Whether an engine has left an offer as it was.
fn is_untouched(request: Option<&Message>, place: Option<Span>, given: &Given) -> bool {
    let offered = request
        .zip(place)
        .map(|(request, place)| request.slice(place));
    offered.is_some_and(|offered| given.sdp.as_deref() == Some(offered))
}

/// What a failure comes to.
pub(super) fn outcome_of(failure: &Failure) -> Outcome {
    match failure {
        Failure::Gone | Failure::Busy | Failure::Unknown => Outcome::MediaGone,
        Failure::Refused(_) => Outcome::MediaRefused,
    }
}
