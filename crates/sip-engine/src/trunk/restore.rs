//! Responses of a provider as the phone expects them: with its own CSeq, From and To. So nothing
//! else here meets what was changed for the provider.

use invariant::broken;
use sip_msg::header::NameAddr;
use sip_msg::{HeaderName, Limits, Message};

use super::cseq;
use super::faces::decimal;
use super::legs::{Leg, Legs};
use crate::Shard;
use crate::proxy::context::Context;

impl Shard {
    /// The response to a branch as the sender of its request is to see it.
    pub(crate) fn restored(
        &mut self,
        context: &mut Context,
        branch: usize,
        response: Box<Message>,
    ) -> Box<Message> {
        let Some(legs) = context.legs.as_deref_mut() else {
            return response;
        };
        legs.answering = branch;
        self.note_heard(legs, branch, &response);
        let Some(leg) = legs.leg(branch).filter(|leg| leg.differs()) else {
            return response;
        };
        let bytes = self.restored_bytes(legs, leg, &response);
        let mut restored = self.pool.message();
        // What is put back has passed the limits, and what came has.
        let limits = &self.settings.limits;
        let limits = Limits {
            message_bytes: limits.message_bytes.saturating_mul(2),
            header_bytes: limits.header_bytes.saturating_mul(2),
            ..*limits
        };
        match restored.fill(&bytes, &limits) {
            Ok(()) => {
                self.pool.recycle(response);
                restored
            }
            Err(_) => broken!(
                "a response is one with the headers of its request",
                response
            ),
        }
    }

    fn restored_bytes(&mut self, legs: &Legs, leg: &Leg, response: &Message) -> Vec<u8> {
        let edits = &mut self.edits;
        edits.clear();
        if leg.counts
            && let Some(span) = cseq::span(response)
        {
            edits.replace(span, &decimal(legs.cseq));
        }
        if leg.has_from
            && let Some(field) = response.first(HeaderName::From)
        {
            edits.replace(field.value_span, &legs.from);
        }
        if leg.has_to
            && let Some(field) = response.first(HeaderName::To)
        {
            edits.replace_with(field.value_span, |text| {
                text.extend_from_slice(&legs.to);
                let has_tag = |value: &[u8]| Some(NameAddr::parse(value)?.tag().is_some());
                if has_tag(&legs.to) != Some(true)
                    && let Ok(to) = response.to()
                    && let Some(tag) = to.tag()
                {
                    text.extend_from_slice(b";tag=");
                    text.extend_from_slice(tag);
                }
            });
        }
        let mut bytes = Vec::new();
        edits.apply(response, &mut bytes);
        bytes
    }

    /// A response but a challenge says that the credentials of its request were taken, and a
    /// provisional one with a tag that the request is past the provider.
    fn note_heard(&mut self, legs: &mut Legs, branch: usize, response: &Message) {
        let status = response.status();
        if matches!(status, 100 | 401 | 407) {
            return;
        }
        let Some(leg) = legs.leg_mut(branch) else {
            return;
        };
        leg.is_beyond |= status < 200 && response.to_tag().is_some();
        if !std::mem::take(&mut leg.bears) {
            return;
        }
        let Some(trunk) = &leg.trunk else { return };
        if let Some(account) = self.trunks.account_of(trunk) {
            self.shared.gateways.trunks.accepted(&trunk.name);
            account.taken();
            if leg.is_ahead {
                account.taken_ahead();
            }
        }
    }
}
