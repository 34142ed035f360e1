//! Requests that the operator's hook sends somewhere: to a group of gateways, or on with another
//! Request-URI.

use sip_msg::uri::Scheme;
use sip_msg::{HeaderName, Uri};

use super::context::Candidate;
use super::outcome::Outcome;
use super::route::preprocess;
use super::targets::Targets;
use crate::numbers::number_of;
use crate::park::Job;
use crate::permit::Permit;
use crate::{Now, Shard};

impl Shard {
    /// Fills in the targets of a request: those of the group that the hook chose or, as for any
    /// request, those of its Request-URI and its routes.
    pub(crate) fn targets_of(
        &mut self,
        now: Now,
        job: &Job,
        permit: &Permit,
        found: &mut Vec<Candidate>,
    ) -> Targets {
        let (request, routed) = (&*job.request, &job.routed);
        match job.told.as_ref().and_then(|told| told.group) {
            Some(group) => {
                let targets = self.chosen_targets(now, group, job, permit, found);
                self.unless_it_refers(now, (request, routed, permit), targets, found)
            }
            None => self.find_targets(now, request, routed, permit, found),
        }
    }

    fn chosen_targets(
        &mut self,
        now: Now,
        group: usize,
        job: &Job,
        permit: &Permit,
        found: &mut Vec<Candidate>,
    ) -> Targets {
        found.clear();
        self.divert = None;
        let Some(uri) = job.routed.uri(&job.request) else {
            return Targets::Answer(Outcome::UnreadableUri);
        };
        // The hook names the way, and the permit says whether there is one for this request.
        if !permit.may_relay() || !permit.may_use_routes() {
            return Targets::Answer(Outcome::NotRelayed);
        }
        // As by the tables: a number is written as the gateways of the group want it.
        let is_number = uri.scheme == Scheme::Tel || self.own.is_own_uri(&uri);
        let number = is_number.then(|| number_of(&uri)).flatten();
        // And nobody calls farther over it than he may.
        if number.is_none()
            && let Err(outcome) = self.may_leave(permit, &uri)
        {
            return Targets::Answer(outcome);
        }
        let how = (
            permit,
            self.gateways.has_drained() && job.request.to_tag().is_none(),
        );
        self.group_targets(now, &[group], (&uri, number.as_deref()), how, found)
    }

    /// Gives a request another Request-URI, where there is one, and takes what is left of its
    /// routes: where it goes is not its sender's to say any more. What it came with, where
    /// something is changed; an error says why it cannot be.
    pub(crate) fn send_elsewhere(
        &mut self,
        job: &mut Job,
        uri: Option<&[u8]>,
    ) -> Result<Option<Box<[u8]>>, String> {
        let request = &*job.request;
        // RFC 3261 26.2.2: a SIPS URI asks for TLS on every hop to the domain of who is called, so
        // nothing else may come to stand in its place.
        let is_sips = |uri: &[u8]| Uri::parse(uri).is_some_and(|uri| uri.scheme == Scheme::Sips);
        if job.routed.is_secure() && uri.is_some_and(|uri| !is_sips(uri)) {
            return Err("a sips URI is called, and it gives one that is not".to_owned());
        }
        if uri.is_none() && !request.has(HeaderName::Route) {
            return Ok(None);
        }
        // Behind a strict router this stands in the last Route.
        let came_with: Box<[u8]> = request.slice(job.routed.uri).into();
        self.edits.clear();
        let place = request.request_uri_span();
        self.edits.replace(place, uri.unwrap_or(&came_with));
        self.edits.remove_all(request, HeaderName::Route);
        let mut text = self.pool.buffer();
        self.edits.apply(request, &mut text);
        let mut changed = self.pool.message();
        let is_message = changed.fill(&text, &self.settings.limits).is_ok();
        self.pool.recycle_buffer(text);
        let routed = match is_message && changed.validate().is_ok() {
            true => preprocess(&changed, &job.sender.flow, &self.own, &self.tokens).ok(),
            false => None,
        };
        let Some(routed) = routed else {
            self.pool.recycle(changed);
            return Err("with its Request-URI the request is malformed or too long".to_owned());
        };
        job.routed = routed;
        let before = std::mem::replace(&mut job.request, changed);
        self.pool.recycle(before);
        Ok(Some(came_with))
    }
}
