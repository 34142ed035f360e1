//! What is refused, and why: the status lines of this server's own answers, and what is
//! counted and recorded of them (`docs/decisions/0165-every-refusal-has-a-reason.md`).

mod reason;
mod record;

use std::collections::BTreeMap;

use sip_limit::Matter;
use sip_msg::Method;
use sip_msg::write::reason_phrase;

pub use reason::{Level, Reason};
pub use record::RefusalRecord;
pub(crate) use record::{TEXT_MAX, escaped, shown, shown_uri};

/// The status line of an answer of this server's own. Whatever refuses a request has a
/// reason: there is no other way to make such a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusLine {
    status: u16,
    phrase: &'static str,
    reason: Option<Reason>,
    is_proven: bool,
    is_recorded: bool,
}

impl StatusLine {
    /// 200: it is done.
    pub(crate) fn ok() -> Self {
        Self::without_reason(200)
    }

    /// 302: it is to be tried elsewhere.
    pub(crate) fn moved() -> Self {
        Self::without_reason(302)
    }

    fn without_reason(status: u16) -> Self {
        Self {
            status,
            phrase: reason_phrase(status),
            reason: None,
            is_proven: false,
            is_recorded: false,
        }
    }

    /// Something from 400 on, with its usual phrase.
    pub(crate) fn refused(status: u16, reason: Reason) -> Self {
        Self {
            reason: Some(reason),
            ..Self::without_reason(status)
        }
    }

    /// The same with another reason phrase.
    pub(crate) fn saying(self, phrase: &'static str) -> Self {
        Self { phrase, ..self }
    }

    /// The same, where the sender is known to receive at his address, or not.
    pub(crate) fn to_proven(self, is_proven: bool) -> Self {
        Self { is_proven, ..self }
    }

    /// The same, of what was recorded before.
    pub(crate) fn recorded(self, is_recorded: bool) -> Self {
        Self {
            is_recorded,
            ..self
        }
    }

    /// The status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The reason phrase.
    pub fn phrase(&self) -> &'static str {
        self.phrase
    }

    /// Why, where it refuses.
    pub fn reason(&self) -> Option<Reason> {
        self.reason
    }

    pub(crate) fn is_proven(&self) -> bool {
        self.is_proven
    }

    pub(crate) fn is_recorded(&self) -> bool {
        self.is_recorded
    }
}

/// How the limits of records keep a reason apart from others.
pub(crate) fn matter(reason: Reason, is_proven: bool) -> Matter {
    Matter {
        table: reason.table(),
        group: reason.group(),
        is_proven,
        records_max: reason.records_max(),
    }
}

/// What was refused since the start: a number for each method, status and reason that
/// occurred. All three are of closed lists, so there is a bound to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusalCounts(BTreeMap<Refusals, u64>);

/// Refusals of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusals {
    /// Why.
    pub reason: Reason,
    /// The method; `other` for one that has no name here.
    pub method: &'static str,
    /// The status; `None` where a next hop has failed.
    pub status: Option<u16>,
}

impl RefusalCounts {
    /// Counts one.
    pub fn count(&mut self, method: Method, status: Option<u16>, reason: Reason) {
        let method = match method {
            Method::Other => "other",
            known => known.token(),
        };
        let refusals = Refusals {
            reason,
            method,
            status,
        };
        *self.0.entry(refusals).or_default() += 1;
    }

    /// Adds what another counted.
    pub fn add(&mut self, other: &Self) {
        for (refusals, count) in &other.0 {
            *self.0.entry(*refusals).or_default() += count;
        }
    }

    /// All of them, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = (&Refusals, u64)> {
        self.0.iter().map(|(refusals, count)| (refusals, *count))
    }

    /// How many there were for that reason.
    pub fn of(&self, reason: Reason) -> u64 {
        let of_it = self
            .iter()
            .filter(|(refusals, _)| refusals.reason == reason);
        of_it.map(|(_, count)| count).sum()
    }
}
