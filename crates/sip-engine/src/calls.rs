//! Calls in progress, for the operator: an entry when the 2xx to an INVITE passes, until the
//! answer to its BYE does. One that the other side refuses ends nothing; one that reached nobody
//! does, since the table would fill with calls of phones that are out of reach. Nothing of the
//! protocol goes by it.
//!
//! But where a provider is shown another From than the phone wrote, that is put back into the
//! provider's requests from here, as far as it is known
//! (`docs/decisions/0214-from-changed-and-put-back.md`).
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
use sip_msg::header::NameAddr;
use sip_msg::{HeaderName, Message, Transport};
use slots::Spares;

use crate::Now;
use crate::dialog_hash::dialog_hash;
use crate::refusal::{escaped, shown_uri};

/// Calls of one shard that are listed.
const CALLS_MAX: usize = 65_536;
/// The most bytes that are kept of a Call-ID; a From or To that is longer is not kept.
const PART_MAX: usize = 192;

/// One end of a call, as this server reaches it: the phone, or the next hop on its way.
pub type End = (Transport, SocketAddr);

/// A call in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// From, To and the Call-ID as they came: reading them waits until they are shown.
    /// They are shared: to list a call is to count one more that holds them.
    text: Arc<Vec<u8>>,
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
        shown_in(self.sides().0)
    }

    /// Who is called, in the same form.
    pub fn to(&self) -> Box<str> {
        shown_in(self.sides().1)
    }

    /// The Call-ID, or how it begins, safe to be shown.
    pub fn call_id(&self) -> Box<str> {
        let start = usize::from(self.from_len) + usize::from(self.to_len);
        escaped(self.text.get(start..).unwrap_or_default(), 4 * PART_MAX)
    }

    /// From and To, each empty where it is not kept.
    fn sides(&self) -> (&[u8], &[u8]) {
        let part = |start: usize, len: u8| self.text.get(start..start + usize::from(len));
        let from = part(0, self.from_len).unwrap_or_default();
        let to = part(usize::from(self.from_len), self.to_len).unwrap_or_default();
        (from, to)
    }

    /// Where the side is that did not send this request.
    fn other_end(&self, request: &Message) -> End {
        let (from, to) = self.sides();
        let sender = tags_of(request).0;
        // A From that is too long is not kept: then To says who is not the caller.
        let is_callers = match from.is_empty() {
            true => tag_of(to) != sender,
            false => tag_of(from) == sender,
        };
        match is_callers {
            true => self.callee,
            false => self.caller,
        }
    }
}

/// Appends a header's value, if it is not too long; how many bytes that were.
fn keep(response: &Message, name: HeaderName, text: &mut Vec<u8>) -> u8 {
    let raw = response.first(name).map_or(&[][..], |field| field.value);
    // PART_MAX fits.
    let kept = if raw.len() > PART_MAX { &[][..] } else { raw };
    text.extend_from_slice(kept);
    kept.len() as u8
}

fn tag_of(value: &[u8]) -> Option<&[u8]> {
    NameAddr::parse(value)?.tag()
}

/// The tags in From and To.
fn tags_of(message: &Message) -> (Option<&[u8]>, Option<&[u8]>) {
    (
        message.from().ok().and_then(|from| from.tag()),
        message.to().ok().and_then(|to| to.tag()),
    )
}

fn shown_in(value: &[u8]) -> Box<str> {
    shown_uri(NameAddr::parse(value).as_ref())
}

/// The calls of a shard.
pub(crate) struct Calls {
    key: [u8; 16],
    /// By a hash of Call-ID and both tags.
    entries: HashMap<u64, (u64, Call)>,
    /// Names and numbers, the oldest first; a call that has ended may still stand there.
    order: VecDeque<(u64, u64)>,
    last: u64,
    /// The memory of calls that have ended.
    spare: Spares<Arc<Vec<u8>>>,
    /// The bytes of all texts, the spare ones among them.
    texts_bytes: usize,
}

impl Calls {
    /// None yet; the key is secret, because phones choose what is hashed.
    pub(crate) fn new(key: [u8; 16]) -> Self {
        Self {
            key,
            entries: HashMap::new(),
            order: VecDeque::new(),
            last: 0,
            spare: Spares::new(),
            texts_bytes: 0,
        }
    }

    /// A 2xx to an INVITE passes; false where there is no room for its call.
    pub(crate) fn begin(
        &mut self,
        now: Now,
        lifetime_s: u64,
        response: &Message,
        (caller, callee): (End, End),
    ) -> bool {
        self.forget_old(now, lifetime_s);
        if self.entries.len() >= CALLS_MAX {
            return false;
        }
        let mut text = self.spare.pop().unwrap_or_default();
        self.texts_bytes -= text.capacity();
        let kept = Arc::make_mut(&mut text);
        kept.clear();
        let from_len = keep(response, HeaderName::From, kept);
        let to_len = keep(response, HeaderName::To, kept);
        let call_id = response.call_id();
        kept.extend_from_slice(call_id.get(..PART_MAX).unwrap_or(call_id));
        self.texts_bytes += kept.capacity();
        let call = Call {
            text,
            from_len,
            to_len,
            since_unix_ms: now.unix_ms,
            caller,
            callee,
        };
        self.last += 1;
        let id = self.id(response);
        // The end of one of the same name has not passed.
        if let Some((_, other)) = self.entries.insert(id, (self.last, call)) {
            self.use_again(other);
        }
        self.order.push_back((id, self.last));
        true
    }

    /// The answer to a request says that its dialog is over. `counts` says whether that is believed,
    /// by where the side is that did not send the request.
    pub(crate) fn end(&mut self, request: &Message, counts: impl FnOnce(End) -> bool) {
        if self.entries.is_empty() {
            return;
        }
        let id = self.id(request);
        if let Some((_, call)) = self.entries.get(&id)
            && counts(call.other_end(request))
        {
            self.forget(id);
        }
    }

    fn forget(&mut self, id: u64) {
        if let Some((_, call)) = self.entries.remove(&id) {
            self.use_again(call);
        }
    }

    fn use_again(&mut self, mut call: Call) {
        // Unless the call is being shown.
        match Arc::get_mut(&mut call.text) {
            Some(_) => self.spare.push(call.text),
            None => self.texts_bytes -= call.text.capacity(),
        }
    }

    /// The memory of the table, and of what is spare.
    pub(crate) fn held_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<(u64, (u64, Call))>()
            + self.order.capacity() * size_of::<(u64, u64)>()
            + self.spare.len() * size_of::<Arc<Vec<u8>>>()
            + self.texts_bytes
    }

    /// Gives back memory that nothing has needed since the last call.
    pub(crate) fn trim(&mut self) {
        let texts_bytes = &mut self.texts_bytes;
        self.spare.trim(|text| *texts_bytes -= text.capacity());
    }

    /// From and To as the caller wrote them, of the call that a request of its callee is of:
    /// there the caller is in To.
    pub(crate) fn sides_of(&self, request: &Message) -> Option<(&[u8], &[u8])> {
        if self.entries.is_empty() {
            return None;
        }
        let (_, call) = self.entries.get(&self.id(request))?;
        let raw = |name| request.first(name).map_or(&[][..], |field| field.value);
        let (caller, callee) = call.sides();
        let is_his = tag_of(caller) == tag_of(raw(HeaderName::To))
            && tag_of(callee) == tag_of(raw(HeaderName::From));
        is_his.then_some((caller, callee))
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

    /// A dialog's name, the same from either side. Who has no tag is told by the other's alone.
    fn id(&self, message: &Message) -> u64 {
        let (one, other) = tags_of(message);
        let (one, other) = (one.unwrap_or_default(), other.unwrap_or_default());
        dialog_hash(&self.key, message.call_id(), one, other)
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
            let (id, is_old) = (*id, own.is_some());
            if is_old {
                self.forget(id);
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

    const ALICE: &str = "<sip:a@example.org>;tag=a";
    const BOB: &str = "<sip:b@example.org>;tag=b";

    fn message(from: &str, to: &str, call: &str) -> Message {
        let text = request("BYE", "sip:b@192.0.2.9", from, to, "");
        parse(text.replace("call-1", call).as_bytes())
    }

    fn of(call: u64) -> Message {
        message(ALICE, BOB, &format!("call-{call}"))
    }

    fn at(unix_ms: u64) -> Now {
        Now { unix_ms, ..NOW }
    }

    fn end(transport: Transport) -> End {
        (transport, "192.0.2.9:5060".parse().unwrap())
    }

    fn begin(calls: &mut Calls, now: Now, message: &Message) -> bool {
        let ends = (end(Transport::Udp), end(Transport::Tls));
        calls.begin(now, 100, message, ends)
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
        let mut calls = Calls::new([1; 16]);
        let from = "\"A\" <sip:a:secret@example.org:5070;x=y>;tag=a";
        assert!(begin(&mut calls, NOW, &message(from, BOB, "call-1")));
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
        assert!(begin(&mut calls, NOW, &message(&long, BOB, "call-2")));
        calls.list(1, 10, &mut found);
        assert_eq!(&*found[1].from(), "");
        assert_eq!(&*found[1].to(), "sip:b@example.org");
        calls.end(&message(BOB, &long, "call-2"), |_| true);
        assert_eq!(calls.len(), 1);
        // Who hangs up is known all the same.
        for (from, to, other) in [(&*long, BOB, Transport::Tls), (BOB, &*long, Transport::Udp)] {
            assert!(begin(&mut calls, NOW, &message(&long, BOB, "call-2")));
            calls.end(&message(from, to, "call-2"), |place| place == end(other));
            assert_eq!(calls.len(), 1, "{from}");
        }
    }

    #[test]
    fn a_bye_of_either_side_ends_its_own_dialog_and_no_other() {
        for (from, to, is_its) in [
            (ALICE, BOB, true),
            (BOB, ALICE, true),
            ("\"Al\" <sip:a@example.org> ; tag=a", BOB, true),
            (
                "sip:b@example.org;tag=b",
                "<sip:a@example.org>;x;tag=a",
                true,
            ),
            // The other leg of a call that was forked.
            (ALICE, "<sip:b@example.org>;tag=c", false),
            ("<sip:a@example.org>;tag=c", BOB, false),
            (ALICE, ALICE, false),
        ] {
            let mut calls = Calls::new([1; 16]);
            assert!(begin(&mut calls, NOW, &of(1)));
            calls.end(&of(2), |_| true);
            assert_eq!(calls.len(), 1);
            calls.end(&message(from, to, "call-1"), |_| true);
            assert_eq!(calls.len(), usize::from(!is_its), "{from} {to}");
        }
    }

    #[test]
    fn a_second_dialog_of_a_call_id_has_an_entry_of_its_own() {
        let mut calls = Calls::new([1; 16]);
        let second = message(ALICE, "<sip:b@example.org>;tag=c", "call-1");
        for call in [&of(1), &second] {
            assert!(begin(&mut calls, NOW, call));
        }
        assert_eq!(calls.len(), 2);
        // Whether it is over may go by where the other side is than the one that hangs up.
        let is_at_caller = |place: End| place == end(Transport::Udp);
        calls.end(&of(1), is_at_caller);
        assert_eq!(calls.len(), 2);
        calls.end(&message(BOB, ALICE, "call-1"), is_at_caller);
        assert_eq!(calls.len(), 1);
        let mut found = Vec::new();
        calls.list(0, 10, &mut found);
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn what_the_caller_wrote_is_found_by_the_requests_of_his_callee() {
        let mut calls = Calls::new([1; 16]);
        let callees = |from: &str, to: &str| message(from, to, "call-1");
        assert_eq!(calls.sides_of(&callees(BOB, ALICE)), None);
        assert!(begin(&mut calls, NOW, &of(1)));
        let both = (ALICE.as_bytes(), BOB.as_bytes());
        for other in [ALICE, "<sip:number@provider.example>;tag=a"] {
            assert_eq!(calls.sides_of(&callees(BOB, other)), Some(both), "{other}");
        }
        for (from, to) in [(ALICE, BOB), (BOB, "<sip:a@example.org>;tag=c"), (BOB, BOB)] {
            assert_eq!(calls.sides_of(&callees(from, to)), None, "{from} {to}");
        }
    }

    #[test]
    fn calls_are_listed_in_pieces_and_those_that_ended_are_not() {
        let mut calls = Calls::new([1; 16]);
        for n in 1..=20 {
            assert!(begin(&mut calls, at(n), &of(n)));
        }
        for n in (2..=20).step_by(2) {
            calls.end(&of(n), |_| true);
        }
        let odd: Vec<u64> = (1..=20).step_by(2).collect();
        for max in [1, 3, 20, 100] {
            assert_eq!(listed(&calls, max), odd, "{max}");
        }
        assert_eq!(calls.len(), 10);
        // A name that is used again is another call.
        assert!(begin(&mut calls, at(21), &of(2)));
        assert_eq!(listed(&calls, 4).len(), 11);
    }

    #[test]
    fn the_memory_of_calls_is_counted_used_again_and_given_back() {
        let mut calls = Calls::new([1; 16]);
        for n in 1..=20 {
            assert!(begin(&mut calls, NOW, &of(n)));
        }
        let texts_bytes = calls.texts_bytes;
        assert!(texts_bytes > 20 * (ALICE.len() + BOB.len()));
        for n in 1..=20 {
            calls.end(&of(n), |_| true);
        }
        for n in 1..=19 {
            assert!(begin(&mut calls, NOW, &of(n)));
        }
        assert_eq!((calls.texts_bytes, calls.spare.len()), (texts_bytes, 1));
        // Whoever shows a call keeps what it says.
        let mut found = Vec::new();
        calls.list(0, 100, &mut found);
        calls.end(&of(1), |_| true);
        assert!(begin(&mut calls, NOW, &of(21)));
        assert_eq!(&*found[0].call_id(), "call-1");
        drop(found);
        for n in 1..=21 {
            calls.end(&of(n), |_| true);
        }
        for _ in 0..10 {
            calls.trim();
        }
        assert_eq!((calls.texts_bytes, calls.spare.len()), (0, 0));
    }

    #[test]
    fn the_table_is_bounded_and_what_never_ended_makes_room() {
        let mut calls = Calls::new([1; 16]);
        for n in 0..CALLS_MAX as u64 {
            assert!(begin(&mut calls, NOW, &of(n)));
        }
        assert!(!begin(&mut calls, NOW, &of(CALLS_MAX as u64)));
        // A long call in front of many short ones.
        for n in 1..CALLS_MAX as u64 {
            calls.end(&of(n), |_| true);
        }
        for n in 0..2 * CALLS_MAX as u64 {
            let short = of(n + CALLS_MAX as u64);
            assert!(begin(&mut calls, NOW, &short));
            calls.end(&short, |_| true);
        }
        assert!(calls.order.len() <= 2 * CALLS_MAX);
        assert_eq!(calls.len(), 1);
        assert!(begin(&mut calls, at(NOW.unix_ms + 100_000), &of(7)));
        assert_eq!(calls.len(), 1, "the long one is forgotten");
    }
}
