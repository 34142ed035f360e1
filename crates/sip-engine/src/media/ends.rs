//! What an engine is told of ends: a dialog is over, or a branch came to nothing. Nobody waits
//! for it.

use std::collections::VecDeque;

use sip_media::{Answered, Ask, Command, EngineId};
use sip_msg::{Message, Method};

use super::ContextMedia;
use super::asking::{from_tag, to_tag};
use crate::dialog_hash::dialog_hash;
use crate::effect::Effect;
use crate::proxy::cancel::CancelReason;
use crate::proxy::context::Context;
use crate::records::ByeSays;
use crate::{Now, Outputs, Shard};

impl Shard {
    /// The first final response to a request goes out: to an INVITE that begins a call, so that
    /// branches are lost; or to a BYE, which ends a dialog. Who answers on a lost branch all the
    /// same is heard, and no engine leads him: the caller ends that dialog (RFC 3261 13.2.2.4).
    pub(crate) fn end_media(
        &mut self,
        context: &mut Context,
        because: CancelReason<'_>,
        out: &mut Outputs,
    ) {
        let (Some(media), Some(request)) =
            (context.media.as_deref_mut(), context.request.as_deref())
        else {
            return;
        };
        match (context.method, media.engine) {
            (Method::Invite, None) => {
                for (at, engine) in media.take_lost() {
                    let mut ask = Ask::new(Command::Delete, &media.call(at), from_tag(request));
                    ask.branch = media.branch(at).into();
                    self.delete(engine, ask, out);
                }
            }
            // As the call's record has it (`docs/decisions/0202`).
            (Method::Bye, Some(engine)) => match ByeSays::of(status_of(because)) {
                ByeSays::Over | ByeSays::Unreached => {
                    self.delete_dialog(engine, media, request, out);
                }
                ByeSays::Again | ByeSays::GoesOn => {}
            },
            _ => {}
        }
    }

    /// One side of a dialog does not know it any more.
    pub(crate) fn media_gone(&mut self, context: &Context, response: &Message, out: &mut Outputs) {
        let media = context.media.as_deref();
        if let Some((media, engine)) = media.and_then(|media| Some((media, media.engine?))) {
            self.delete_dialog(engine, media, response, out);
        }
    }

    /// A target is called without an engine after all.
    pub(super) fn end_target(&mut self, context: &mut Context, at: u16, out: &mut Outputs) {
        let (Some(media), Some(request)) =
            (context.media.as_deref_mut(), context.request.as_deref())
        else {
            return;
        };
        if let Some(engine) = media.target(at).and_then(|target| target.engine) {
            let mut ask = Ask::new(Command::Delete, &media.call(at), from_tag(request));
            ask.branch = media.branch(at).into();
            media.set_target(at, None, Default::default(), None);
            self.delete(engine, ask, out);
        }
    }

    /// An offer was answered when nobody waited for it any more: what an engine keeps for it is
    /// let go.
    pub(super) fn end_stray_offer(&mut self, answered: Answered, out: &mut Outputs) {
        let Answered { ask, result, .. } = answered;
        let is_beginning = ask.command == Command::Offer && !ask.branch.is_empty();
        if let (true, Ok(given)) = (is_beginning, result) {
            let mut delete = Ask::new(Command::Delete, &ask.call_id, &ask.from_tag);
            delete.branch = ask.branch;
            // A branch whose callee offers has the caller's tag in the other place.
            if !ask.to_tag.is_empty() {
                delete.from_tag = ask.to_tag;
            }
            self.delete(given.engine, delete, out);
        }
    }

    fn delete_dialog(
        &mut self,
        engine: EngineId,
        media: &ContextMedia,
        message: &Message,
        out: &mut Outputs,
    ) {
        let mut ask = Ask::new(Command::Delete, &media.call(0), from_tag(message));
        ask.to_tag = to_tag(message).into();
        self.delete(engine, ask, out);
    }

    fn delete(&mut self, engine: EngineId, mut ask: Ask, out: &mut Outputs) {
        self.counters.media_deletes += 1;
        ask.engine = Some(engine);
        out.effects.push(Effect::Media {
            park: None,
            ask: Box::new(ask),
        });
    }
}

/// The status that a final response has, or that stands for one where there is none.
fn status_of(because: CancelReason<'_>) -> u16 {
    match because {
        CancelReason::Answered(status) => status,
        CancelReason::Caller(_) | CancelReason::TimeIsOver => 408,
    }
}

/// Dialogs whose callee has offered in a provisional response, at most so many.
const OFFERED_MAX: usize = 4_096;
/// How long such a response is repeated at most (RFC 3262 3).
const OFFERED_MS: u64 = 32_000;

/// The dialogs in which a PRACK has the answer: their callees have offered, reliably, to INVITEs
/// without an offer. They are few, and not for long.
pub(crate) struct Offered {
    key: [u8; 16],
    /// Until when each is remembered, the oldest first.
    open: VecDeque<(u64, u64)>,
}

impl Offered {
    /// None yet. The key is secret, because phones choose what is hashed.
    pub(crate) fn new(key: [u8; 16]) -> Self {
        Self {
            key,
            open: VecDeque::new(),
        }
    }

    /// The callee offers by this response.
    pub(super) fn put(&mut self, now: Now, response: &Message) {
        while self
            .open
            .front()
            .is_some_and(|(_, until_ms)| *until_ms <= now.mono_ms)
            || self.open.len() >= OFFERED_MAX
        {
            self.open.pop_front();
        }
        let id = self.id(response);
        self.open.retain(|(own, _)| *own != id);
        self.open.push_back((id, now.mono_ms + OFFERED_MS));
    }

    /// Whether this request answers, which it does once.
    pub(super) fn take(&mut self, request: &Message) -> bool {
        if self.open.is_empty() {
            return false;
        }
        let id = self.id(request);
        let before = self.open.len();
        self.open.retain(|(own, _)| *own != id);
        self.open.len() < before
    }

    /// A dialog's name, the same from either side.
    fn id(&self, message: &Message) -> u64 {
        let (from, to) = (from_tag(message), to_tag(message));
        dialog_hash(&self.key, message.call_id(), from, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, parse};

    fn message(call: usize, from: &str, to: &str) -> Message {
        let text = format!(
            "PRACK sip:b@b SIP/2.0\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom: <sip:a@b>;tag={from}\r\n\
             To: <sip:b@b>;tag={to}\r\nCall-ID: {call}\r\nCSeq: 1 PRACK\r\nContent-Length: 0\r\n\r\n"
        );
        parse(text.as_bytes())
    }

    fn at(after_ms: u64) -> Now {
        Now {
            mono_ms: NOW.mono_ms + after_ms,
            ..NOW
        }
    }

    #[test]
    fn an_offer_is_answered_once_by_the_other_side() {
        let mut offered = Offered::new([1; 16]);
        assert!(!offered.take(&message(1, "a", "b")));
        offered.put(at(0), &message(1, "a", "b"));
        assert!(!offered.take(&message(2, "a", "b")));
        assert!(!offered.take(&message(1, "a", "c")));
        assert!(offered.take(&message(1, "b", "a")));
        assert!(!offered.take(&message(1, "b", "a")));
    }

    #[test]
    fn offers_are_forgotten_in_time_and_before_there_are_too_many() {
        let mut offered = Offered::new([1; 16]);
        for call in 0..OFFERED_MAX + 10 {
            offered.put(at(0), &message(call, "a", "b"));
        }
        assert_eq!(offered.open.len(), OFFERED_MAX);
        assert!(!offered.take(&message(9, "a", "b")));
        assert!(offered.take(&message(10, "a", "b")));
        offered.put(at(OFFERED_MS), &message(0, "a", "b"));
        assert_eq!(offered.open.len(), 1);
    }
}
