//! ACKs to a 2xx: the process that ends before they have passed takes their calls with it.

use std::hash::Hasher;

use hashbrown::HashMap;
use sip_msg::Message;
use siphasher::sip::SipHasher13;

/// Calls of which each ACK is waited for by itself, at most so many.
const WAITING_MAX: usize = 4_096;

/// The ACKs that a server waits for before it ends.
///
/// Before it drains, any 2xx has it wait for a while: nobody else need be known. While it drains
/// the calls that go on refresh their sessions, and on a busy server there is no such while without
/// a 2xx. So from then on each is waited for until its own ACK passes.
#[derive(Default)]
pub(crate) struct Acks {
    is_draining: bool,
    /// Until when any of them may come that is not waited for by itself.
    any_until_ms: u64,
    /// Until when each may come.
    waiting: HashMap<u64, u64>,
}

impl Acks {
    /// From now on each is waited for by itself.
    pub(crate) fn drain(&mut self) {
        self.is_draining = true;
    }

    /// A 2xx to an INVITE passes, perhaps not for the first time.
    pub(crate) fn accepted(&mut self, key: &[u8; 16], now_ms: u64, until_ms: u64, ok: &Message) {
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.retain(|_, until_ms| *until_ms > now_ms);
        }
        if !self.is_draining || self.waiting.len() >= WAITING_MAX {
            self.any_until_ms = until_ms;
        } else if let Some(name) = name_of(key, ok) {
            self.waiting.insert(name, until_ms);
        }
    }

    /// An ACK passes.
    pub(crate) fn passed(&mut self, key: &[u8; 16], ack: &Message) {
        if self.is_draining
            && let Some(name) = name_of(key, ack)
        {
            self.waiting.remove(&name);
        }
    }

    /// How many are waited for; those that are not known by themselves count as one.
    pub(crate) fn waited_for(&self, now_ms: u64) -> usize {
        let waiting = self.waiting.values().filter(|until| **until > now_ms);
        waiting.count() + usize::from(self.any_until_ms > now_ms)
    }
}

/// What a 2xx and its ACK have in common.
// RFC 3261 13.2.2.4: "The sequence number of the CSeq header field MUST be the same as the INVITE
// being acknowledged, but the CSeq method MUST be ACK."
fn name_of(key: &[u8; 16], message: &Message) -> Option<u64> {
    let mut hasher = SipHasher13::new_with_key(key);
    for part in [message.call_id(), message.to_tag()?] {
        hasher.write_u32(part.len() as u32);
        hasher.write(part);
    }
    hasher.write_u32(message.cseq().ok()?.number);
    Some(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{parse, request};

    const KEY: [u8; 16] = [1; 16];

    fn ack(nth: u32) -> Message {
        let (from, to) = ("<sip:a@example.org>;tag=a", "<sip:b@example.org>;tag=b");
        let text = request("ACK", "sip:b@203.0.113.9", from, to, "");
        parse(text.replace("call-1", &format!("call-{nth}")).as_bytes())
    }

    #[test]
    fn what_is_waited_for_is_bounded() {
        let mut acks = Acks::default();
        acks.drain();
        for nth in 0..WAITING_MAX as u32 + 9 {
            acks.accepted(&KEY, 1_000, 3_000, &ack(nth));
        }
        assert_eq!(acks.waiting.len(), WAITING_MAX);
        assert_eq!(acks.waited_for(2_999), WAITING_MAX + 1);
        assert_eq!(acks.waited_for(3_000), 0);
        // By then there is room again.
        acks.accepted(&KEY, 3_000, 5_000, &ack(1));
        assert_eq!((acks.waiting.len(), acks.waited_for(3_001)), (1, 1));
    }
}
