//! Requests that wait for an engine before they are sent on.

use std::hash::Hasher;

use invariant::broken;
use sip_locate::Hop;
use sip_media::{Ask, Command, Shape};
use sip_msg::{Flow, Message, Method, Span, Transport};
use siphasher::sip::SipHasher13;

use super::body::{Body, find};
use super::need::MediaEnd;
use super::state::{TargetMedia, numbered};
use super::{ContextMedia, MediaSettings, MediaUse, MediaWait};
use crate::effect::{Effect, ParkId};
use crate::park::{Job, Parked};
use crate::permit::Permit;
use crate::proxy::context::{Context, Key, Progress, TargetKind};
use crate::proxy::egress::{Draft, Egress};
use crate::relay::Source;
use crate::text::hex16;
use crate::token::{RouteToken, name_parties};
use crate::trunk::legs::LegCopy;
use crate::{Now, Outputs, Shard};

impl Shard {
    /// The media of a request within a dialog, where the dialog's token says that an engine has
    /// it.
    pub(crate) fn media_within(&self, job: &Job) -> Option<Box<ContextMedia>> {
        self.settings.media.as_ref()?;
        let led = job.routed.grant.as_ref()?.media()?;
        let method = job.request.method();
        let counts = has_sessions(method) || method == Method::Bye;
        if !counts {
            return None;
        }
        let call_id = self.media_call(&job.request, job.routed.grant.as_ref())?;
        Some(Box::new(ContextMedia::within(led, call_id)))
    }

    /// Asks an engine for the copy of a request that is about to leave. Gives the way back where
    /// there is nothing to ask: else it goes on with the answer.
    pub(crate) fn offer_media(
        &mut self,
        now: Now,
        key: Key,
        context: &mut Context,
        at: usize,
        egress: Egress,
        out: &mut Outputs,
    ) -> Option<Egress> {
        let Some(settings) = self.settings.media.clone() else {
            return Some(egress);
        };
        let Some((ask, place)) = self.question(now, &settings, key, context, at, &egress, out)
        else {
            return Some(egress);
        };
        let wait = MediaWait::Copy {
            key,
            at: at as u16,
            egress,
            place,
        };
        let park = self.ask_engine(now, &settings, wait, ask, out);
        match context.candidates.get_mut(at) {
            Some(candidate) => candidate.progress = Progress::Asking(park),
            None => broken!("a target that is tried is in its set"),
        }
        None
    }

    /// What is to be asked for a copy, and where its session description stands.
    #[allow(clippy::too_many_arguments)]
    fn question(
        &mut self,
        now: Now,
        settings: &MediaSettings,
        key: Key,
        context: &mut Context,
        at: usize,
        egress: &Egress,
        out: &mut Outputs,
    ) -> Option<(Ask, Option<Span>)> {
        if !has_sessions(context.method) {
            return None;
        }
        let request = context.request.as_deref()?;
        let target = at as u16;
        let from = Source::of(&context.sender.flow).end();
        let shape = settings.shape(from, (egress.to.transport, egress.to.remote));
        let known = context
            .media
            .as_ref()
            .and_then(|media| media.target(target));
        let kind = &context.candidates.get(at)?.kind;
        let group = kind.care().and_then(|care| care.media);
        // What was made for one address of a target is as good for the next, but for a group of
        // gateways that has no engine.
        let is_led_on = group != Some(MediaUse::Never);
        let is_as_good =
            |known: &TargetMedia| known.engine.is_none() || (known.shape == shape && is_led_on);
        if known.is_some_and(is_as_good) {
            return None;
        }
        if context.method != Method::Invite || request.to_tag().is_some() {
            return self.question_within(context, target, shape);
        }
        let engine = known.and_then(|known| known.engine);
        let (nat, to) = (&self.settings.nat, &egress.to);
        let caller = MediaEnd::caller(nat, request, &context.sender.flow);
        let callee = MediaEnd::callee(nat, kind, to.transport, to.listener, to.remote);
        if !settings.is_needed(group, &caller, &callee) {
            // The address before this one needed it.
            if engine.is_some() {
                self.end_target(context, target, out);
            }
            return None;
        }
        let call_id = self.media_call(request, None)?;
        let begin = || ContextMedia::beginning(self.media_name(now, key), call_id);
        let media = context.media.get_or_insert_with(|| Box::new(begin()));
        let place = match find(request) {
            Body::Session(place) => Some(place),
            Body::None => None,
            Body::Sealed => {
                self.counters.media_sealed += 1;
                media.set_target(target, None, shape, None);
                return None;
            }
        };
        media.has_offer = place.is_some();
        let command = match place {
            Some(_) => Command::Offer,
            // The callee offers: the engine is named to both sides now, and asked then.
            None => Command::Choose,
        };
        let mut ask = Ask::new(command, &media.call(target), from_tag(request));
        ask.chosen_by = request.call_id().len();
        ask.branch = media.branch(target).into();
        ask.shape = shape;
        ask.engine = engine;
        if let Some(place) = place {
            ask.describe(request.slice(place), context.is_listed);
        }
        Some((ask, place))
    }

    /// Whether an engine will be asked for the session description of a copy to a hop.
    pub(crate) fn asks_engine(
        &self,
        came_by: &Flow,
        draft: Draft<'_>,
        kind: &TargetKind,
        hop: &Hop,
    ) -> bool {
        let request = draft.request;
        let Some(settings) = self.settings.media.as_deref() else {
            return false;
        };
        if !has_sessions(request.method()) || !matches!(find(request), Body::Session(_)) {
            return false;
        }
        if draft.is_led || request.to_tag().is_some() {
            return draft.is_led;
        }
        let (nat, group) = (&self.settings.nat, kind.care().and_then(|care| care.media));
        let listener = self.own.listener_towards(hop.transport, &hop.addr, came_by);
        listener.is_some_and(|listener| {
            let caller = MediaEnd::caller(nat, request, came_by);
            let callee = MediaEnd::callee(nat, kind, hop.transport, listener, hop.addr);
            settings.is_needed(group, &caller, &callee)
        })
    }

    /// The same within a dialog.
    fn question_within(
        &mut self,
        context: &mut Context,
        target: u16,
        shape: Shape,
    ) -> Option<(Ask, Option<Span>)> {
        let request = context.request.as_deref()?;
        let media = context.media.as_deref_mut()?;
        let engine = media.engine?;
        let place = match find(request) {
            Body::Session(place) => place,
            Body::None => return None,
            Body::Sealed => {
                self.counters.media_sealed += 1;
                return None;
            }
        };
        // RFC 3262 5: a PRACK answers the offer of a reliable provisional response, else it may
        // have an offer of its own.
        let is_answer = request.method() == Method::Prack && self.offered.take(request);
        media.has_offer = !is_answer;
        let (own, other) = (from_tag(request), to_tag(request));
        let (command, offerer, answerer) = match is_answer {
            true => (Command::Answer, other, own),
            false => (Command::Offer, own, other),
        };
        let mut ask = Ask::new(command, &media.call(target), offerer);
        ask.to_tag = answerer.into();
        ask.shape = shape;
        ask.engine = Some(engine);
        ask.describe(request.slice(place), context.is_listed);
        Some((ask, Some(place)))
    }

    // RFC 3261 13.2.2.4: "If the 2xx contains an offer (based on the rules above), the ACK MUST
    // carry an answer in its body."
    /// Forwards an ACK; where it answers what the callee has offered, an engine is asked before.
    pub(crate) fn forward_ack(&mut self, now: Now, job: Job, permit: Permit, out: &mut Outputs) {
        let led = job.routed.grant.as_ref().and_then(|token| token.media());
        let asked = match (self.settings.media.clone(), led) {
            (Some(settings), Some(led)) => match find(&job.request) {
                Body::Session(place) => self
                    .media_call(&job.request, job.routed.grant.as_ref())
                    .map(|call_id| (settings, led, place, numbered(&call_id, led.number))),
                _ => None,
            },
            _ => None,
        };
        let has_room = self.parks.len() < self.settings.bounds.contexts_max;
        let Some((settings, led, place, call)) = asked.filter(|_| has_room) else {
            return self.forward_single(now, job, permit, out);
        };
        let request = &*job.request;
        let from = Source::of(&job.sender.flow).end();
        let flow = job.routed.grant.as_ref().and_then(|token| token.flow());
        // Whoever has no flow in the token is no browser.
        let to = flow.map_or((Transport::Udp, from.1), |flow| {
            (flow.transport, flow.remote)
        });
        let mut ask = Ask::new(Command::Answer, &call, to_tag(request));
        ask.to_tag = from_tag(request).into();
        ask.shape = settings.shape(from, to);
        ask.engine = Some(led.engine);
        ask.describe(request.slice(place), self.is_listed_peers(&job.sender));
        let wait = MediaWait::Ack { job, permit, place };
        self.ask_engine(now, &settings, wait, ask, out);
    }

    /// Parks what waits for an engine, and asks.
    pub(super) fn ask_engine(
        &mut self,
        now: Now,
        settings: &MediaSettings,
        wait: MediaWait,
        ask: Ask,
        out: &mut Outputs,
    ) -> ParkId {
        match ask.command {
            Command::Offer => self.counters.media_offers += 1,
            Command::Answer => self.counters.media_answers += 1,
            Command::Choose | Command::Delete => {}
        }
        let deadline_ms = now.mono_ms + settings.patience_ms();
        let parked = Parked::Media(Box::new(wait));
        let park = self.parks.park(parked, deadline_ms, &mut self.wheel);
        out.effects.push(Effect::Media {
            park: Some(park),
            ask: Box::new(ask),
        });
        park
    }

    /// What the engines call all calls with the Call-ID and the two parties of a request; behind it
    /// stands a number of this server's ([`Led`](crate::token::Led)), since a caller writes both as
    /// he likes.
    /// It is the same from both sides of a leg to a provider, who knows them by other names.
    fn media_call(&self, request: &Message, token: Option<&RouteToken>) -> Option<Box<[u8]>> {
        let mut kept = LegCopy::default();
        let name = name_parties(&self.sides_here(request, token, &mut kept)?);
        Some([request.call_id(), b";", &hex16(name)].concat().into())
    }

    /// A name that no other context has, for its branches at an engine.
    fn media_name(&self, now: Now, key: Key) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.keys.branches);
        hasher.write(b"media");
        hasher.write_u32(key.slot);
        hasher.write_u32(key.generation);
        hasher.write_u64(now.unix_ms);
        hasher.finish()
    }
}

/// Whether requests of that method, or their responses, describe sessions (RFC 6337 2).
pub(super) const fn has_sessions(method: Method) -> bool {
    matches!(method, Method::Invite | Method::Update | Method::Prack)
}

/// The tag in From; empty where there is none.
pub(super) fn from_tag(message: &Message) -> &[u8] {
    let from = message.from().ok();
    from.and_then(|from| from.tag()).unwrap_or_default()
}

/// The tag in To; empty where there is none.
pub(super) fn to_tag(message: &Message) -> &[u8] {
    let to = message.to().ok();
    to.and_then(|to| to.tag()).unwrap_or_default()
}
