//! Overload control with configured neighbours (RFC 7339, RFC 7415).
//!
//! As a client this server offers `oc` to the gateways of `[[route]]` and to
//! `forward`, and obeys their feedback: a call that may not be sent goes to the next
//! gateway of the group, and with none left fails as if the neighbour had refused it.
//! As a server it gives feedback to the peers in `[[trusted]]` that offer `oc`. So
//! feedback is given to, and taken from, configured neighbours alone.

use std::net::SocketAddr;

use sip_limit::oc;
use sip_msg::{Message, Outbox};

use super::context::{Context, TargetKind};
use crate::permit::is_listed;
use crate::sender::Sender;
use crate::{Now, Shard};

impl Shard {
    /// Sets the percentage of requests that peers with `oc` are asked to leave out.
    pub fn set_loss_percent(&mut self, percent: u32) {
        self.loss_percent = percent;
    }

    /// Whether a copy may be sent to this address now: a configured neighbour may have
    /// asked for less. Requests within dialogs always are.
    pub(crate) fn may_send(
        &mut self,
        now: Now,
        context: &Context,
        at: usize,
        addr: SocketAddr,
    ) -> bool {
        if self.neighbours.is_empty() {
            return true;
        }
        let is_neighbour = context
            .candidates
            .get(at)
            .is_some_and(|candidate| matches!(candidate.kind, TargetKind::NextHops { .. }));
        let is_within = || {
            let request = context.request.as_deref();
            request.is_some_and(|request| request.to_tag().is_some())
        };
        if !is_neighbour || is_within() || self.neighbours.may_send(now.mono_ms, addr) {
            return true;
        }
        self.counters.spared += 1;
        false
    }

    /// Takes the feedback of a configured neighbour, in our own Via.
    pub(crate) fn take_feedback(
        &mut self,
        now: Now,
        context: &Context,
        number: usize,
        response: &Message,
    ) {
        let Some(branch) = context.branches.get(number) else {
            return;
        };
        let candidate = context.candidates.get(usize::from(branch.candidate));
        if !candidate.is_some_and(|of| matches!(of.kind, TargetKind::NextHops { .. })) {
            return;
        }
        let via = response.top_via().ok();
        let feedback = via.and_then(|via| oc::read_feedback(response.slice(via.span)));
        if let Some(feedback) = feedback {
            // Its target may have gone on to another by now.
            let (_, addr) = branch.answerer.end();
            self.neighbours.take_feedback(now.mono_ms, addr, feedback);
        }
    }

    /// Whether a listed peer has sent it.
    pub(crate) fn is_listed_peers(&self, sender: &Sender) -> bool {
        !self.settings.trusted.is_empty() && is_listed(&self.settings, &self.own, sender)
    }

    /// Writes feedback for a listed peer into the response that was just written, in
    /// place of any that another server wrote there.
    pub(crate) fn write_feedback(
        &self,
        now: Now,
        is_listed: bool,
        start: usize,
        outbox: &mut Outbox,
    ) {
        if is_listed {
            oc::write_feedback(&mut outbox.bytes, start, self.loss_percent, now.unix_ms);
        }
    }
}
