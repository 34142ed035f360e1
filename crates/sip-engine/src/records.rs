//! Call records: what became of each call that was let in, from its INVITE to its end
//! (`docs/decisions/0198-a-record-for-each-call.md`).
//!
//! A record begins when an INVITE outside of any dialog has passed the gate and there is room
//! to forward it. It leaves the shard as a value ([`crate::Outputs::records`]): with the answer
//! of a call that failed, and with the end of one that was answered. So every record that
//! begins comes out once, and nothing of the protocol goes by it.
//!
//! Where records are off there is none, and nothing is looked at for them; but calls that have a
//! place among those of a user or a group ([`sip_limit::concurrent`]) are followed in the same way,
//! and the place is given back where a record would come out.

pub(crate) mod notes;
mod open;
mod refresh;

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Weak};

use sip_limit::CountedCall;
use sip_msg::{Message, Transport};

use crate::Now;
use crate::calls::End;
use crate::refusal::{Reason, TEXT_MAX, escaped};

pub(crate) use open::{ByeSays, Names, OpenCalls};
pub(crate) use refresh::{AskedTimer, expires_s};

/// Whether records are made, and what is asked of calls for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordSettings {
    /// Whether records are made.
    pub is_on: bool,
    /// The session timer that is asked for where nobody did (RFC 4028 8.1), in seconds; 0 for
    /// none.
    pub session_expires_s: u32,
}

/// Who ended a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedBy {
    /// The caller hung up, or cancelled.
    Caller,
    /// The callee hung up, or refused.
    Callee,
    /// Nobody answered in time, or no BYE came.
    Timer,
    /// No gateway could take it: all that there are were tried.
    Failover,
    /// This server.
    Server,
    /// Its end does not pass this server.
    Unseen,
}

impl EndedBy {
    /// All.
    pub const ALL: [Self; 6] = [
        Self::Caller,
        Self::Callee,
        Self::Timer,
        Self::Failover,
        Self::Server,
        Self::Unseen,
    ];

    /// As it stands in a record.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Callee => "callee",
            Self::Timer => "timer",
            Self::Failover => "failover",
            Self::Server => "server",
            Self::Unseen => "unseen",
        }
    }
}

/// What this server itself knows of why a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It refused the call, for that reason.
    Refused(Reason),
    /// The session timer ran out (RFC 4028 8.3).
    SessionExpired,
    /// No BYE came as long as the dialog's tokens are good.
    NoBye,
    /// A BYE came that the other side has refused, or not answered, and after it nothing.
    ByeUnconfirmed,
    /// The process ended; the call may go on.
    ServerStopped,
    /// This server is not on the route of the dialog, so no BYE passes it.
    NotOnPath,
    /// There was no room to wait for its end.
    NoRoom,
    /// The way back to the caller is gone, and no answer was sent.
    NobodyToAnswer,
}

impl Why {
    /// Those that are no reason of a refusal.
    pub const OWN: [Self; 7] = [
        Self::SessionExpired,
        Self::NoBye,
        Self::ByeUnconfirmed,
        Self::ServerStopped,
        Self::NotOnPath,
        Self::NoRoom,
        Self::NobodyToAnswer,
    ];

    /// As it stands in a record.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused(reason) => reason.name(),
            Self::SessionExpired => "session_expired",
            Self::NoBye => "no_bye",
            Self::ByeUnconfirmed => "bye_unconfirmed",
            Self::ServerStopped => "server_stopped",
            Self::NotOnPath => "not_on_path",
            Self::NoRoom => "no_room_to_follow",
            Self::NobodyToAnswer => "nobody_to_answer",
        }
    }

    /// Who ended the call by that.
    const fn ended_by(self) -> EndedBy {
        match self {
            Self::Refused(Reason::Cancelled) => EndedBy::Caller,
            Self::Refused(Reason::TimedOut)
            | Self::SessionExpired
            | Self::NoBye
            | Self::ByeUnconfirmed => EndedBy::Timer,
            Self::Refused(Reason::GatewaysUnreachable | Reason::NextHopBusy) => EndedBy::Failover,
            Self::Refused(_) | Self::ServerStopped | Self::NobodyToAnswer => EndedBy::Server,
            Self::NotOnPath | Self::NoRoom => EndedBy::Unseen,
        }
    }
}

/// A copy of the INVITE, and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Try {
    /// Where it was sent.
    pub to: (Transport, SocketAddr),
    /// The final response, or why there was none.
    pub end: Result<u16, Reason>,
}

/// The record of one call. Texts from the wire are printable ASCII: other bytes are written
/// `\xNN`. No password is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// A number of its own, in 32 hexadecimal digits as it is written.
    pub id: u128,
    /// The Call-ID, or how it begins.
    pub call_id: Box<str>,
    /// When the INVITE was let in.
    pub started: Now,
    /// When the first provisional response but 100 was passed to the caller.
    pub rang: Option<Now>,
    /// When the 2xx was.
    pub answered: Option<Now>,
    /// When it was over; `None` where that was not seen.
    pub ended: Option<Now>,
    /// When the last message of it passed.
    pub seen: Now,
    /// The user who proved himself, with his realm; empty for none.
    pub caller_user: Box<str>,
    /// Why the INVITE was let in: `user`, `peer`, `trunk`, `inbound`, `open` or `dialog`.
    pub caller_class: &'static str,
    /// The URI in From, without a password and without parameters.
    pub caller_from: Box<str>,
    /// Where the INVITE came from.
    pub caller_end: (Transport, SocketAddr),
    /// The Request-URI as it was received, in the same form.
    pub request_uri: Box<str>,
    /// The URI in To, in the same form.
    pub called_to: Box<str>,
    /// The contact or the next hop that answered or, where none did, that was heard of last.
    pub callee_target: Box<str>,
    /// The group of gateways by which it was called; empty for none.
    pub callee_trunk: Box<str>,
    /// Where the copy for it was sent.
    pub callee_end: Option<(Transport, SocketAddr)>,
    /// The final status that the caller was given.
    pub status: Option<u16>,
    /// Who ended the call.
    pub ended_by: EndedBy,
    /// What this server knows of why.
    pub why: Option<Why>,
    /// What the header Reason said of why (RFC 3326), of whoever ended it.
    pub reason: Box<str>,
    /// The final response to the BYE; 408 where there was none.
    pub bye_status: Option<u16>,
    /// The session timer that was agreed on last (RFC 4028), in seconds.
    pub session_expires_s: Option<u32>,
    /// The first copies that came to an end before the call was answered or refused.
    pub tries: Vec<Try>,
    /// How many copies were sent.
    pub tries_total: u32,
    /// The user on whose account it is, with his realm, where he has forwarded it; empty where it
    /// is the caller's own affair.
    pub payer_user: Box<str>,
}

/// A call that is followed to its end: its record, and the places that it has among the calls of
/// its users and groups. Whatever ends it gives them back, as they go with it.
#[derive(Debug)]
pub(crate) struct Followed {
    record: Box<CallRecord>,
    places: Vec<Arc<CountedCall>>,
    /// Whether the record is told: else the call is followed for its places alone.
    is_told: bool,
    /// Where the other side is of the open call whose names its INVITE bears, and not its token.
    /// Where somebody else takes it, it is another call, and told.
    within: Option<End>,
}

impl Followed {
    pub(crate) fn add(&mut self, places: impl IntoIterator<Item = Arc<CountedCall>>) {
        self.places.extend(places);
    }

    fn has_places(&self) -> bool {
        !self.places.is_empty()
    }

    /// Gives its places back.
    fn free(&mut self) {
        self.places.clear();
    }

    /// Its record, where it is told; the places are given back.
    pub(crate) fn into_told(self) -> Option<Box<CallRecord>> {
        self.is_told.then_some(self.record)
    }
}

impl Deref for Followed {
    type Target = CallRecord;

    fn deref(&self) -> &CallRecord {
        &self.record
    }
}

impl DerefMut for Followed {
    fn deref_mut(&mut self) -> &mut CallRecord {
        &mut self.record
    }
}

/// What a further call of a fork is followed by: more than one of those who were called may take
/// it, and each makes a dialog of its own (RFC 3261 13.2.2.4).
#[derive(Debug)]
pub(crate) struct Fork {
    record: Box<CallRecord>,
    is_told: bool,
    within: Option<End>,
    /// The caller's places, which the first call has as long as it goes on. The further calls share
    /// them, and the last of all gives them back.
    places: Vec<Weak<CountedCall>>,
    call_id: Box<[u8]>,
    caller_tag: Box<[u8]>,
}

impl Fork {
    /// A further call of the fork, with a number of its own.
    fn another(&self, id: u128) -> Followed {
        let mut record = self.record.clone();
        record.id = id;
        Followed {
            record,
            places: self.places.iter().filter_map(Weak::upgrade).collect(),
            is_told: self.is_told,
            within: self.within,
        }
    }

    fn names(&self) -> Names<'_> {
        Names {
            call_id: &self.call_id,
            caller_tag: &self.caller_tag,
        }
    }

    /// The memory that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.record.held_bytes() + self.call_id.len() + self.caller_tag.len()
    }
}

impl CallRecord {
    /// The most entries in `tries`.
    pub const TRIES_MAX: usize = 8;
    /// The most bytes of a text.
    pub const TEXT_MAX: usize = TEXT_MAX;

    /// Milliseconds from the INVITE to the ringing.
    pub fn ring_after_ms(&self) -> Option<u64> {
        self.rang.map(|rang| between(self.started, rang))
    }

    /// Milliseconds from the INVITE to the 2xx.
    pub fn answer_after_ms(&self) -> Option<u64> {
        let answered = self.answered?;
        Some(between(self.started, answered))
    }

    /// Milliseconds from the 2xx to the end.
    pub fn talk_ms(&self) -> Option<u64> {
        Some(between(self.answered?, self.ended?))
    }

    /// Keeps what became of a copy.
    pub(crate) fn note_try(&mut self, to: (Transport, SocketAddr), end: Result<u16, Reason>) {
        if self.tries.len() < Self::TRIES_MAX {
            self.tries.push(Try { to, end });
        }
    }

    /// Keeps what a message says in its own words of why the call ends.
    pub(crate) fn note_reason(&mut self, message: &Message) {
        if let Some(field) = message.first_named("Reason") {
            self.reason = printable(field.value);
        }
    }

    /// The memory that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        let texts = [
            &self.call_id,
            &self.caller_user,
            &self.caller_from,
            &self.request_uri,
            &self.called_to,
            &self.callee_target,
            &self.callee_trunk,
            &self.reason,
            &self.payer_user,
        ];
        let texts: usize = texts.iter().map(|text| text.len()).sum();
        size_of::<Self>() + texts + self.tries.capacity() * size_of::<Try>()
    }
}

/// Milliseconds by the clock that only goes forward.
const fn between(from: Now, to: Now) -> u64 {
    to.mono_ms.saturating_sub(from.mono_ms)
}

/// Words from the wire: printable ASCII stays, and so do spaces and quotes, which whoever
/// writes the record has to escape for its own format.
pub(crate) fn printable(words: &[u8]) -> Box<str> {
    let mut text = String::with_capacity(words.len().min(TEXT_MAX));
    for byte in words {
        let is_plain = matches!(byte, 0x20..=0x7e) && *byte != b'\\';
        if text.len() + if is_plain { 1 } else { 4 } > TEXT_MAX {
            break;
        }
        match is_plain {
            true => text.push(char::from(*byte)),
            false => text.push_str(&escaped(&[*byte], 4)),
        }
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_told_apart() {
        let own = Why::OWN.map(Why::name);
        let reasons = Reason::ALL.iter().map(|reason| reason.name());
        let all: BTreeSet<&str> = own.into_iter().chain(reasons).collect();
        assert_eq!(all.len(), Why::OWN.len() + Reason::ALL.len());
        let by: BTreeSet<&str> = EndedBy::ALL.map(EndedBy::name).into();
        assert_eq!(by.len(), EndedBy::ALL.len());
    }

    #[test]
    fn words_stay_readable_and_have_no_control_characters() {
        let words = b"Q.850;cause=16;text=\"Bye \xc3\xa4\\\0\r\n\"";
        let shown = "Q.850;cause=16;text=\"Bye \\xc3\\xa4\\x5c\\x00\\x0d\\x0a\"";
        assert_eq!(&*printable(words), shown);
        assert_eq!(printable(&[b'a'; 1_000]).len(), TEXT_MAX);
        assert_eq!(printable(&[0; 1_000]).len(), TEXT_MAX / 4 * 4);
    }
}
