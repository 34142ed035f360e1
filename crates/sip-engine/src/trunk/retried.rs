//! INVITEs and REFERs within dialogs that were sent again because the provider challenged them:
//! what the ACK of such an INVITE, and the PRACK to its responses, are counted by, and what a
//! REFER began is named by.

use std::hash::Hasher;

use hashbrown::HashMap;
use sip_msg::Message;
use siphasher::sip::SipHasher13;
use smallvec::SmallVec;

/// Dialogs of one shard that have such requests.
const DIALOGS_MAX: usize = 4_096;
/// The last ones of each. A phone has one INVITE under way in a dialog (RFC 3261 14.1), and the
/// ACK of the one before may come again; two are left for REFERs.
const OF_DIALOG_MAX: usize = 4;
/// How long one is remembered. Its 2xx may take as long as timer C, three minutes and more where
/// somebody is asked, and comes again for half a minute without its ACK.
const KEPT_MS: u64 = 300_000;

/// What is remembered of them.
pub(crate) struct Retried {
    key: [u8; 16],
    /// By dialog; the oldest of each first.
    dialogs: HashMap<u64, SmallVec<[One; OF_DIALOG_MAX]>>,
}

/// One of them.
struct One {
    /// The phone's number.
    number: u32,
    /// How often it was challenged.
    tries: u8,
    until_ms: u64,
}

impl Retried {
    /// None yet; the key is secret, because phones choose what is hashed.
    pub(crate) fn new(key: [u8; 16]) -> Self {
        Self {
            key,
            dialogs: HashMap::new(),
        }
    }

    /// How often the request with that number was challenged in the dialog of another.
    pub(crate) fn tries(&self, now_ms: u64, request: &Message, number: u32) -> u8 {
        if self.dialogs.is_empty() {
            return 0;
        }
        let dialog = self.id(request);
        let of = dialog.and_then(|dialog| self.dialogs.get(&dialog));
        let mut known = of.into_iter().flatten();
        known
            .find(|one| one.number == number && one.until_ms > now_ms)
            .map_or(0, |one| one.tries)
    }

    /// Remembers it; false where there is no room. One dialog takes none from the others: the
    /// oldest of its own makes room.
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
        if self.dialogs.len() >= DIALOGS_MAX && !self.dialogs.contains_key(&dialog) {
            let is_kept = |one: &One| one.until_ms > now_ms;
            self.dialogs.retain(|_, of| of.iter().any(is_kept));
            if self.dialogs.len() >= DIALOGS_MAX {
                return false;
            }
        }
        let of = self.dialogs.entry(dialog).or_default();
        of.retain(|one| one.number != number);
        if of.len() >= OF_DIALOG_MAX {
            of.remove(0);
        }
        of.push(One {
            number,
            tries,
            until_ms: now_ms + KEPT_MS,
        });
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
        for tag in 0..DIALOGS_MAX {
            assert!(retried.remember(1, &of(tag), 7, 1));
        }
        // Once more for the same request there is room, and for another of the same dialog.
        assert!(retried.remember(1, &of(0), 7, 2));
        assert!(retried.remember(1, &of(0), 9, 3));
        assert!(!retried.remember(1, &of(DIALOGS_MAX), 7, 1));
        for (tag, number, tries) in [
            (0, 7, 2),
            (0, 9, 3),
            (1, 7, 1),
            (1, 8, 0),
            (DIALOGS_MAX, 7, 0),
        ] {
            assert_eq!(retried.tries(2, &of(tag), number), tries, "{tag} {number}");
        }
        assert_eq!(retried.tries(KEPT_MS + 1, &of(0), 7), 0);
        assert!(retried.remember(KEPT_MS + 1, &of(DIALOGS_MAX), 7, 1));
        assert_eq!(retried.dialogs.len(), 1);
    }

    #[test]
    fn of_one_dialog_the_last_are_remembered() {
        let mut retried = Retried::new([1; 16]);
        let request = of(0);
        for number in 0..10_000 {
            assert!(retried.remember(1, &request, number, 1));
        }
        for (number, tries) in [(9_995, 0), (9_996, 1), (9_999, 1)] {
            assert_eq!(retried.tries(2, &request, number), tries, "{number}");
        }
        // Its last challenge counts, and makes it the newest.
        assert!(retried.remember(1, &request, 9_996, 2));
        assert!(retried.remember(1, &request, 10_000, 1));
        assert_eq!(retried.tries(2, &request, 9_996), 2);
        assert_eq!(retried.tries(2, &request, 9_997), 0);
        assert!(retried.remember(1, &of(1), 7, 1));
        assert_eq!(retried.dialogs.len(), 2);
    }

    #[test]
    fn what_is_in_no_dialog_is_not_remembered() {
        let mut retried = Retried::new([1; 16]);
        let from = "<sip:a@example.org>;tag=a";
        let text = request("INVITE", "sip:b@x", from, "<sip:b@example.org>", "");
        assert!(!retried.remember(1, &parse(text.as_bytes()), 7, 1));
    }
}
