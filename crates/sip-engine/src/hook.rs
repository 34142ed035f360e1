//! The operator's hook: a program that is asked about requests that begin something, and says
//! whether they go on, are refused, or go elsewhere
//! (`docs/decisions/0230-what-a-hook-may-do.md`).
//!
//! It is asked once about a request, behind the gate and before targets are chosen; the request is
//! parked meanwhile. What it answers is an input like any other: it may lead where the
//! configuration may, and no further than the request's own permit opens.

mod question;

use std::sync::Arc;

use sip_hook::{Action, Answer, Kind};
use sip_msg::{Message, Span};

use crate::proxy::privacy::{is_privacy, is_privacy_replaced};

pub(crate) use question::question_about;

/// What the hook is asked about, and what its answers may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookSettings {
    /// About which kinds of requests.
    pub asks: Vec<Kind>,
    /// How long a request waits for its answer.
    pub timeout_ms: u64,
    /// Requests that wait for it; past it they are treated as if it had failed.
    pub waiting_max: usize,
    /// What happens to a request without a usable answer.
    pub on_failure: OnFailure,
    /// Whether what it routes or rewrites may leave for gateways and foreign domains where its
    /// sender may not: a stranger, or a peer that may call our users alone.
    pub may_relay: bool,
    /// The headers that it may set. Whoever sends a request about which it is asked does not:
    /// what he brings by these names is cut, but for Privacy where the hook sets none.
    pub headers: Vec<Box<str>>,
}

/// What becomes of a request about which the hook has nothing to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(rename_all = "lowercase")
)]
pub enum OnFailure {
    /// It is refused: 503, and 500 to a REGISTER.
    Reject,
    /// It goes on as if nobody had been asked.
    Continue,
}

impl HookSettings {
    /// Whether an answer may set a header of that name.
    pub(crate) fn may_set(&self, name: &str) -> bool {
        let mut headers = self.headers.iter();
        headers.any(|header| header.eq_ignore_ascii_case(name))
    }

    /// The lines of a request that only the hook may write: appended to those that are cut. What a
    /// caller says of his privacy is his to say, unless the hook's own lines replace it.
    pub(crate) fn strip(&self, request: &Message, lines: &[u8], spans: &mut Vec<Span>) {
        let keeps_privacy = !is_privacy_replaced(request, lines);
        for name in &self.headers {
            if keeps_privacy && is_privacy(name.as_bytes()) {
                continue;
            }
            spans.extend(request.fields_named(name).map(|field| field.line_span));
        }
        spans.sort_unstable_by_key(|span| span.start);
        spans.dedup();
    }
}

/// What the hook made of a request.
#[derive(Default)]
pub(crate) struct Told {
    /// The group of gateways that it goes to, by its place in the tables.
    pub(crate) group: Option<usize>,
    /// The Request-URI that it came with, where another is in its place.
    pub(crate) came_with: Option<Box<[u8]>>,
    /// The answer, which may have header lines.
    pub(crate) answer: Option<Arc<Answer>>,
}

impl Told {
    /// Whether the hook has named the user to whom the request goes.
    pub(crate) fn names_user(&self) -> bool {
        let answer = self.answer.as_ref();
        answer.is_some_and(|answer| matches!(answer.action(), Action::ToUser { .. }))
    }
}
