//! What is counted and recorded of requests that are refused, and of next hops that
//! failed.

use std::net::SocketAddr;

use sip_limit::{Note, Tell};
use sip_msg::Message;
use sip_msg::header::{AuthValue, NameAddr};

use crate::proxy::context::{Context, TargetKind};
use crate::proxy::outcome::Outcome;
use crate::refusal::{Reason, RefusalCounts, RefusalRecord, StatusLine, TEXT_MAX};
use crate::refusal::{escaped, matter, shown_uri};
use crate::sender::Sender;
use crate::{Now, Outputs, Shard};

use super::guard::origin;

/// The most of a method's name that is recorded.
const METHOD_MAX: usize = 32;

/// What is recorded, beside the request and its sender.
struct Event<'a> {
    status: Option<u16>,
    phrase: &'static str,
    reason: Reason,
    is_proven: bool,
    hop: Option<SocketAddr>,
    detail: &'a dyn Fn() -> String,
}

impl Shard {
    /// What was refused, by method, status and reason.
    pub fn refusal_counts(&self) -> &RefusalCounts {
        &self.refusals
    }

    /// Counts an answer of this server's own that refuses a request, and records it unless
    /// that was done before.
    pub(crate) fn note_answer(
        &mut self,
        now: Now,
        sender: &Sender,
        request: &Message,
        line: &StatusLine,
        out: &mut Outputs,
    ) {
        let Some(reason) = line.reason() else {
            return;
        };
        let status = Some(line.status());
        self.refusals.count(request.method(), status, reason);
        if !line.is_recorded() {
            self.record(now, sender, request, line, &String::new, out);
        }
    }

    /// Records a refusal, if it is time to: before its answer, where that may never be sent.
    pub(crate) fn record(
        &self,
        now: Now,
        sender: &Sender,
        request: &Message,
        line: &StatusLine,
        detail: &dyn Fn() -> String,
        out: &mut Outputs,
    ) {
        if let Some(reason) = line.reason() {
            let event = Event {
                status: Some(line.status()),
                phrase: line.phrase(),
                reason,
                is_proven: line.is_proven(),
                hop: None,
                detail,
            };
            self.record_event(now, sender, request, &event, out);
        }
    }

    /// Counts and records that one way for a request came to nothing, where its answer will
    /// not say so: it goes on to the next, or the answer tells of all ways together.
    pub(crate) fn note_way(
        &mut self,
        now: Now,
        context: &Context,
        at: usize,
        reason: Reason,
        out: &mut Outputs,
    ) {
        self.note_realm(now, context, at, reason, "", out);
    }

    /// The same where a challenge was not answered, with the realm that it is for.
    pub(crate) fn note_realm(
        &mut self,
        now: Now,
        context: &Context,
        at: usize,
        reason: Reason,
        realm: &str,
        out: &mut Outputs,
    ) {
        let (Some(request), Some(candidate)) =
            (context.request.as_deref(), context.candidates.get(at))
        else {
            return;
        };
        self.refusals.count(request.method(), None, reason);
        let tried = usize::from(candidate.tried).checked_sub(1);
        let hop = tried.and_then(|tried| candidate.hops.get(tried));
        let name = match &candidate.kind {
            TargetKind::NextHops { hops, at, .. } => hops.get(usize::from(*at)),
            _ => None,
        };
        let detail = || {
            let gateway = name.map_or_else(String::new, |hop| format!("gateway {}", hop.host));
            match (gateway.is_empty(), realm) {
                (_, "") => gateway,
                (true, realm) => format!("realm {realm}"),
                (false, realm) => format!("{gateway}, realm {realm}"),
            }
        };
        let event = Event {
            status: None,
            phrase: "",
            reason,
            is_proven: false,
            hop: hop.map(|hop| hop.addr),
            detail: &detail,
        };
        self.record_event(now, &context.sender, request, &event, out);
    }

    /// Counts and records that a call is not forwarded: the answer says what the phones said.
    pub(crate) fn note_forward(
        &mut self,
        now: Now,
        context: &Context,
        outcome: Outcome,
        out: &mut Outputs,
    ) {
        let Some(request) = context.request.as_deref() else {
            return;
        };
        let reason = outcome.why();
        self.refusals.count(request.method(), None, reason);
        let event = Event {
            status: None,
            phrase: "",
            reason,
            is_proven: false,
            hop: None,
            detail: &|| "the forward of whoever was called".to_owned(),
        };
        self.record_event(now, &context.sender, request, &event, out);
    }

    /// Whether what became of a target is lost in the answer: a gateway's own trouble, where
    /// the answer says that none can be reached.
    pub(crate) fn note_target(
        &mut self,
        now: Now,
        context: &Context,
        at: usize,
        outcome: Outcome,
        out: &mut Outputs,
    ) {
        let kind = context.candidates.get(at).map(|candidate| &candidate.kind);
        let is_told_of = matches!(outcome, Outcome::TimedOut | Outcome::Unreachable);
        if !is_told_of && kind.is_some_and(|kind| outcome.at(kind) != outcome) {
            self.note_way(now, context, at, outcome.why(), out);
        }
    }

    fn record_event(
        &self,
        now: Now,
        sender: &Sender,
        request: &Message,
        event: &Event<'_>,
        out: &mut Outputs,
    ) {
        let flow = &sender.flow;
        let is_proven = event.is_proven || flow.transport.is_reliable();
        let guard = &self.shared.guard;
        let tells_all = guard
            .tells_all()
            .unwrap_or(self.settings.tells_all_refusals);
        let note = match tells_all {
            true => Note::Line(Tell::default()),
            false => {
                let matter = matter(event.reason, is_proven);
                guard.note(now.mono_ms, &origin(flow), &matter)
            }
        };
        let tell = match note {
            Note::Line(tell) => Some(tell),
            Note::Record => None,
            Note::Count => return,
        };
        let name = |addr: Option<NameAddr<'_>>| shown_uri(addr.as_ref());
        out.refused.push(RefusalRecord {
            at_unix_ms: now.unix_ms,
            source: flow.remote,
            transport: flow.transport,
            is_proven,
            method: escaped(request.method_token(), METHOD_MAX),
            status: event.status,
            phrase: event.phrase,
            reason: event.reason,
            hop: event.hop,
            from: name(request.from().ok()),
            to: name(request.to().ok()),
            user: escaped(&self.claimed_user(request), TEXT_MAX),
            call_id: escaped(request.call_id(), TEXT_MAX),
            detail: escaped_words(&(event.detail)()),
            tell,
        });
    }

    /// The user whom a request's credentials for us name, whether that is true or not.
    fn claimed_user(&self, request: &Message) -> Vec<u8> {
        use sip_auth::Side;
        let is_ours = |realm: AuthValue<'_>| self.own.realm(&self.settings, &realm).is_some();
        let mut sides = [Side::Proxy, Side::Registrar].into_iter();
        let claimed = sides.find_map(|side| sip_auth::claimed(request, side, is_ours));
        claimed.map(|claimed| claimed.user()).unwrap_or_default()
    }
}

/// Words of this server's own, with names from the wire among them.
fn escaped_words(text: &str) -> Box<str> {
    let words = text
        .split(' ')
        .map(|word| escaped(word.as_bytes(), TEXT_MAX));
    let mut text = words.collect::<Vec<_>>().join(" ");
    // Escaped text is ASCII.
    text.truncate(TEXT_MAX);
    text.into()
}
