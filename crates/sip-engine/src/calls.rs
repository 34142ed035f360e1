//! Calls in progress, for the operator: an entry when the 2xx to an INVITE passes, until
//! its BYE does. Nothing of the protocol goes by it.
//!
//! A message belongs to the shard of its Call-ID, so both pass the same shard. Where this
//! server does not stay on the path of dialogs it sees no BYE, and makes no entries. One
//! whose BYE never came is forgotten when the dialog's tokens are.
//!
//! The table is bounded: a call that finds no room is counted and not listed.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use hashbrown::HashMap;
use sip_msg::{Message, Transport, Uri};

use crate::Now;
use crate::refusal::{escaped, shown};

/// Calls of one shard that are listed.
const CALLS_MAX: usize = 65_536;
/// The most bytes that are kept of a Call-ID; a URI that is longer is not kept.
const PART_MAX: usize = 192;

/// One end of a call, as this server reaches it: the phone, or the next hop on its way.
pub type End = (Transport, SocketAddr);

/// A call in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The URIs of From and To, and the Call-ID. They are shared: to list a call is to
    /// count one more that holds them.
    text: Arc<[u8]>,
    from_len: u8,
    to_len: u8,
    /// When its 2xx passed, in milliseconds since 1970.
    pub since_unix_ms: u64,
    /// Where the INVITE came from.
    pub caller: End,
    /// Where the 2xx came from.
    pub callee: End,
}

impl Call {
    /// Who calls: a URI without a password, safe to be shown; empty where it is not kept.
    pub fn from(&self) -> Box<str> {
        shown_in(self.part(0, usize::from(self.from_len)))
    }

    /// Who is called, in the same form.
    pub fn to(&self) -> Box<str> {
        shown_in(self.part(usize::from(self.from_len), usize::from(self.to_len)))
    }

    /// The Call-ID, or how it begins, safe to be shown.
    pub fn call_id(&self) -> Box<str> {
        let start = usize::from(self.from_len) + usize::from(self.to_len);
        escaped(self.text.get(start..).unwrap_or_default(), 4 * PART_MAX)
    }

    fn part(&self, start: usize, len: usize) -> &[u8] {
        self.text.get(start..start + len).unwrap_or_default()
    }
}

fn shown_in(uri: &[u8]) -> Box<str> {
    Uri::parse(uri).map(|uri| shown(&uri)).unwrap_or_default()
}

/// The calls of a shard.
#[derive(Default)]
pub(crate) struct Calls {
    /// By the dialog's name.
    entries: HashMap<u64, (u64, Call)>,
    /// Names and numbers, the oldest first; a call that has ended may still stand there.
    order: VecDeque<(u64, u64)>,
    last: u64,
    buffer: Vec<u8>,
}

impl Calls {
    /// A 2xx to an INVITE passes; false where there is no room for its call.
    pub(crate) fn begin(
        &mut self,
        now: Now,
        lifetime_s: u64,
        id: u64,
        response: &Message,
        (caller, callee): (End, End),
    ) -> bool {
        self.forget_old(now, lifetime_s);
        if self.entries.len() >= CALLS_MAX {
            return false;
        }
        self.buffer.clear();
        let (from, to) = (response.from().ok(), response.to().ok());
        let from_len = self.keep(from.and_then(|from| from.uri()));
        let to_len = self.keep(to.and_then(|to| to.uri()));
        let call_id = response.call_id();
        let cut = call_id.get(..PART_MAX).unwrap_or(call_id);
        self.buffer.extend_from_slice(cut);
        let call = Call {
            text: self.buffer.as_slice().into(),
            from_len,
            to_len,
            since_unix_ms: now.unix_ms,
            caller,
            callee,
        };
        self.last += 1;
        self.entries.insert(id, (self.last, call));
        self.order.push_back((id, self.last));
        true
    }

    /// A call is over.
    pub(crate) fn end(&mut self, id: u64) {
        self.entries.remove(&id);
    }

    /// Whether none is listed: then nothing can end.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Appends calls that come after the one of that number, in their order, and gives the
    /// number to go on from; `None` when the last was reached. No more than `max` are
    /// looked at.
    pub(crate) fn list(&self, after: u64, max: usize, found: &mut Vec<Call>) -> Option<u64> {
        let start = self.order.partition_point(|(_, number)| *number <= after);
        let mut seen = self.order.range(start..).take(max);
        let alive = seen.clone().filter_map(|(id, number)| {
            let (own, call) = self.entries.get(id)?;
            (own == number).then(|| call.clone())
        });
        found.extend(alive);
        let (_, last) = seen.next_back()?;
        (*last < self.last).then_some(*last)
    }

    fn keep(&mut self, uri: Option<Uri<'_>>) -> u8 {
        let raw = uri.map_or(&[][..], |uri| uri.raw);
        // PART_MAX fits.
        let kept = if raw.len() > PART_MAX { &[][..] } else { raw };
        self.buffer.extend_from_slice(kept);
        kept.len() as u8
    }

    /// Drops those at the front that have ended, or are too old.
    fn forget_old(&mut self, now: Now, lifetime_s: u64) {
        let lifetime_ms = lifetime_s.saturating_mul(1_000);
        while let Some((id, number)) = self.order.front() {
            let own = self.entries.get(id).filter(|(own, _)| own == number);
            let is_alive = own.is_some_and(|(_, call)| {
                now.unix_ms < call.since_unix_ms.saturating_add(lifetime_ms)
            });
            if is_alive {
                break;
            }
            if own.is_some() {
                self.entries.remove(id);
            }
            self.order.pop_front();
        }
        // One that goes on for long keeps those that have ended behind it.
        if self.order.len() >= 2 * CALLS_MAX {
            let entries = &self.entries;
            self.order
                .retain(|(id, number)| entries.get(id).is_some_and(|(own, _)| own == number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, parse, request};

    fn message(from: &str, call: &str) -> Message {
        let text = request(
            "BYE",
            "sip:b@192.0.2.9",
            from,
            "<sip:b@example.org>;tag=b",
            "",
        );
        parse(text.replace("call-1", call).as_bytes())
    }

    fn end(transport: Transport) -> End {
        (transport, "192.0.2.9:5060".parse().unwrap())
    }

    fn begin(calls: &mut Calls, now: Now, id: u64, from: &str) -> bool {
        let ends = (end(Transport::Udp), end(Transport::Tls));
        calls.begin(now, 100, id, &message(from, "call-1"), ends)
    }

    fn listed(calls: &Calls, max: usize) -> Vec<u64> {
        let (mut found, mut after) = (Vec::new(), Some(0));
        while let Some(from) = after {
            after = calls.list(from, max, &mut found);
        }
        found.iter().map(|call| call.since_unix_ms).collect()
    }

    #[test]
    fn a_call_is_shown_without_secrets_and_without_control_characters() {
        let mut calls = Calls::default();
        assert!(begin(
            &mut calls,
            NOW,
            1,
            "<sip:a:secret@example.org:5070;x=y>;tag=a"
        ));
        let mut found = Vec::new();
        assert_eq!(calls.list(0, 10, &mut found), None);
        let [call] = &found[..] else { panic!() };
        assert_eq!(&*call.from(), "sip:a@example.org:5070");
        assert_eq!(&*call.to(), "sip:b@example.org");
        assert_eq!(&*call.call_id(), "call-1");
        assert_eq!(
            (call.caller, call.callee),
            (end(Transport::Udp), end(Transport::Tls))
        );

        let long = format!("<sip:{}@example.org>;tag=a", "a".repeat(PART_MAX));
        assert!(begin(&mut calls, NOW, 2, &long));
        calls.list(1, 10, &mut found);
        assert_eq!(&*found[1].from(), "");
        assert_eq!(&*found[1].to(), "sip:b@example.org");
    }

    #[test]
    fn calls_are_listed_in_pieces_and_those_that_ended_are_not() {
        let mut calls = Calls::default();
        let from = "<sip:a@example.org>;tag=a";
        for n in 1..=20 {
            let now = Now { unix_ms: n, ..NOW };
            assert!(begin(&mut calls, now, n, from));
        }
        for n in (2..=20).step_by(2) {
            calls.end(n);
        }
        calls.end(99);
        let odd: Vec<u64> = (1..=20).step_by(2).collect();
        for max in [1, 3, 20, 100] {
            assert_eq!(listed(&calls, max), odd, "{max}");
        }
        assert_eq!(calls.len(), 10);
        // A name that is used again is another call.
        let now = Now { unix_ms: 21, ..NOW };
        assert!(begin(&mut calls, now, 2, from));
        assert_eq!(listed(&calls, 4).len(), 11);
    }

    #[test]
    fn the_table_is_bounded_and_what_never_ended_makes_room() {
        let mut calls = Calls::default();
        let from = "<sip:a@example.org>;tag=a";
        for n in 0..CALLS_MAX as u64 {
            assert!(begin(&mut calls, NOW, n, from));
        }
        assert!(!begin(&mut calls, NOW, u64::MAX, from));
        // A long call in front of many short ones.
        for n in 1..CALLS_MAX as u64 {
            calls.end(n);
        }
        for n in 0..3 * CALLS_MAX as u64 {
            let id = n + (1 << 32);
            assert!(begin(&mut calls, NOW, id, from));
            calls.end(id);
        }
        assert!(calls.order.len() <= 2 * CALLS_MAX);
        assert_eq!(calls.len(), 1);
        let late = Now {
            unix_ms: NOW.unix_ms + 100_000,
            ..NOW
        };
        assert!(begin(&mut calls, late, 7, from));
        assert_eq!(calls.len(), 1, "the long one is forgotten");
    }
}
