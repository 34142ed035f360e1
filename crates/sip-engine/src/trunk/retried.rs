//! INVITEs and REFERs within dialogs that were sent again because the provider challenged them:
//! what the ACK of such an INVITE, and the PRACK to its responses, are counted by, and what a
//! REFER began is named by.

use std::hash::Hasher;

use hashbrown::HashMap;
use sip_msg::Message;
use siphasher::sip::SipHasher13;

/// Such requests of one shard.
const RETRIED_MAX: usize = 4_096;
/// How long one is remembered: its ACK follows its 2xx, which follows soon within a dialog.
const KEPT_MS: u64 = 300_000;

/// What is remembered of them.
pub(crate) struct Retried {
    key: [u8; 16],
    /// By dialog and by the phone's number: how often it was challenged, and until when that
    /// is remembered.
    entries: HashMap<(u64, u32), (u8, u64)>,
}

impl Retried {
    /// None yet; the key is secret, because phones choose what is hashed.
    pub(crate) fn new(key: [u8; 16]) -> Self {
        Self {
            key,
            entries: HashMap::new(),
        }
    }

    /// How often the request with that number was challenged in the dialog of another.
    pub(crate) fn tries(&self, now_ms: u64, request: &Message, number: u32) -> u8 {
        if self.entries.is_empty() {
            return 0;
        }
        let id = self.id(request).map(|dialog| (dialog, number));
        let entry = id.and_then(|id| self.entries.get(&id));
        entry
            .filter(|(_, until_ms)| *until_ms > now_ms)
            .map_or(0, |(tries, _)| *tries)
    }

    /// Remembers it; false where there is no room.
    pub(crate) fn remember(
        &mut self,
        now_ms: u64,
        request: &Message,
        number: u32,
        tries: u8,
    ) -> bool {
        let Some(dialog) = self.id(request) else {
            return false;
        };
        if self.entries.len() >= RETRIED_MAX {
            self.entries.retain(|_, (_, until_ms)| *until_ms > now_ms);
        }
        let id = (dialog, number);
        if self.entries.len() >= RETRIED_MAX && !self.entries.contains_key(&id) {
            return false;
        }
        self.entries.insert(id, (tries, now_ms + KEPT_MS));
        true
    }

    /// A dialog's name; `None` for what is in none.
    fn id(&self, message: &Message) -> Option<u64> {
        let (from, to) = (message.from().ok()?, message.to().ok()?);
        let (from, to) = (from.tag()?, to.tag()?);
        let mut hasher = SipHasher13::new_with_key(&self.key);
        for part in [message.call_id(), from, to] {
            hasher.write_u32(part.len() as u32);
            hasher.write(part);
        }
        Some(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{parse, request};

    fn of(tag: usize) -> Message {
        let from = format!("<sip:a@example.org>;tag={tag}");
        let to = "<sip:b@example.org>;tag=b";
        parse(request("INVITE", "sip:b@203.0.113.9", &from, to, "").as_bytes())
    }

    #[test]
    fn what_was_challenged_is_remembered_for_its_ack_and_no_more_than_there_is_room_for() {
        let mut retried = Retried::new([1; 16]);
        assert_eq!(retried.tries(1, &of(0), 7), 0);
        for tag in 0..RETRIED_MAX {
            assert!(retried.remember(1, &of(tag), 7, 1));
        }
        // Once more for the same request there is room.
        assert!(retried.remember(1, &of(0), 7, 2));
        assert!(!retried.remember(1, &of(RETRIED_MAX), 7, 1));
        for (tag, number, tries) in [(0, 7, 2), (1, 7, 1), (1, 8, 0), (RETRIED_MAX, 7, 0)] {
            assert_eq!(retried.tries(2, &of(tag), number), tries, "{tag} {number}");
        }
        assert_eq!(retried.tries(KEPT_MS + 1, &of(0), 7), 0);
        assert!(retried.remember(KEPT_MS + 1, &of(RETRIED_MAX), 7, 1));
        assert_eq!(retried.entries.len(), 1);
    }

    #[test]
    fn what_is_in_no_dialog_is_not_remembered() {
        let mut retried = Retried::new([1; 16]);
        let from = "<sip:a@example.org>;tag=a";
        let text = request("INVITE", "sip:b@x", from, "<sip:b@example.org>", "");
        assert!(!retried.remember(1, &parse(text.as_bytes()), 7, 1));
    }
}
