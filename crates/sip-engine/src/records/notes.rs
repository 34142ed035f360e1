//! Where records begin, are added to and end, on the way of messages through the shard.

use std::sync::Arc;

use sip_limit::CountedCall;
use sip_msg::header::NameAddr;
use sip_msg::uri::Scheme;
use sip_msg::{Message, Method, Uri};

use super::open::{MatchedBy, Unfollowed};
use super::{AskedTimer, CallRecord, EndedBy, Followed, Fork, Names, Why, expires_s, printable};
use crate::calls::End;
use crate::park::{Job, Parked};
use crate::permit::Permit;
use crate::proxy::cancel::CancelReason;
use crate::proxy::context::{Candidate, Context, TargetKind};
use crate::proxy::route::Routed;
use crate::refusal::{Reason, StatusLine, TEXT_MAX, escaped, shown, shown_uri};
use crate::relay::Source;
use crate::routes::NextHop;
use crate::{Now, Outputs, Shard};

impl Shard {
    /// Records of calls that were answered and whose end is waited for.
    pub fn open_call_records(&self) -> usize {
        self.open_calls.len()
    }

    /// Ends all records, because the process ends: those of calls that go on, too.
    pub fn stop_records(&mut self, now: Now, out: &mut Outputs) {
        let before = out.records.len();
        let records = &mut out.records;
        let parked = self.parks.take_records();
        let under_way = self.contexts.take_records().chain(parked);
        records.extend(under_way.filter_map(|mut record| {
            record.why = Some(Why::ServerStopped);
            record.ended_by = EndedBy::Server;
            record.ended = Some(now);
            record.into_told()
        }));
        self.open_calls.stop(now, &mut self.wheel, |record| {
            records.extend(record.into_told())
        });
        self.counters.call_records += (out.records.len() - before) as u64;
    }

    /// Begins the record of a call that passed the gate, where records are made.
    pub(crate) fn begin_record(
        &mut self,
        now: Now,
        job: &Job,
        permit: &Permit,
    ) -> Option<Followed> {
        let request = &*job.request;
        if !self.settings.records.is_on || request.method() != Method::Invite {
            return None;
        }
        let within = match permit {
            _ if request.to_tag().is_none() => None,
            // A tag proves nothing: with one of his own making, whoever has no token has a call
            // like any other. So he has with the names of a call, where another takes it.
            Permit::Authenticated(_) | Permit::Inbound(_) | Permit::Directed(_) => {
                match self.is_routed(request, &job.routed) {
                    // Where the other side is says nothing then: another number may be behind the
                    // same gateway.
                    true => None,
                    false => self.open_calls.other_end(request),
                }
            }
            _ => return None,
        };
        self.counters.call_records_begun += u64::from(within.is_none());
        let source = Source::of(&job.sender.flow);
        let class = permit.class(self.is_listed_peers(&job.sender));
        Some(Followed {
            record: self.new_record(now, request, source, (class, user_of(permit))),
            places: Vec::new(),
            is_told: within.is_none(),
            within,
        })
    }

    /// Whether a request goes to a number or a name of ours, and not to a contact.
    fn is_routed(&self, request: &Message, routed: &Routed) -> bool {
        let uri = routed.uri(request);
        uri.is_some_and(|uri| uri.scheme == Scheme::Tel || self.own.is_own_uri(&uri))
    }

    /// Gives a call places that it keeps until its end. Where no record is made it is followed
    /// for them.
    pub(crate) fn follow(
        &mut self,
        now: Now,
        followed: Option<Followed>,
        request: &Message,
        source: Source,
        places: Vec<Arc<CountedCall>>,
    ) -> Followed {
        let mut followed = followed.unwrap_or_else(|| Followed {
            record: self.new_record(now, request, source, ("", Box::default())),
            places: Vec::new(),
            is_told: false,
            within: None,
        });
        followed.add(places);
        followed
    }

    fn new_record(
        &mut self,
        now: Now,
        request: &Message,
        source: Source,
        (caller_class, caller_user): (&'static str, Box<str>),
    ) -> Box<CallRecord> {
        let name = |addr: Option<NameAddr<'_>>| shown_uri(addr.as_ref());
        Box::new(CallRecord {
            id: self.open_calls.next_id(),
            call_id: escaped(request.call_id(), TEXT_MAX),
            started: now,
            rang: None,
            answered: None,
            ended: None,
            seen: now,
            caller_user,
            caller_class,
            caller_from: name(request.from().ok()),
            caller_end: source.end(),
            request_uri: shown_or_nothing(request.request_uri()),
            called_to: name(request.to().ok()),
            callee_target: Box::default(),
            callee_trunk: Box::default(),
            callee_end: None,
            status: None,
            ended_by: EndedBy::Server,
            why: None,
            reason: Box::default(),
            bye_status: None,
            session_expires_s: None,
            tries: Vec::new(),
            tries_total: 0,
            payer_user: Box::default(),
        })
    }

    /// A provisional response is passed to the caller.
    pub(crate) fn note_ringing(&self, now: Now, context: &mut Context, number: usize) {
        let Some(record) = &mut context.record else {
            return;
        };
        record.seen = now;
        if record.rang.is_none() {
            record.rang = Some(now);
            self.note_callee(context, number);
        }
    }

    /// A copy has come to an end.
    pub(crate) fn note_try(&self, context: &mut Context, number: usize, end: Result<u16, Reason>) {
        if context.record.is_none() {
            return;
        }
        self.note_callee(context, number);
        let branch = context.branches.get(number);
        if let (Some(record), Some(branch)) = (&mut context.record, branch) {
            record.note_try(branch.answerer.end(), end);
        }
    }

    /// Keeps to whom a copy went.
    fn note_callee(&self, context: &mut Context, number: usize) {
        let (Some(record), Some(branch)) = (&mut context.record, context.branches.get(number))
        else {
            return;
        };
        record.callee_end = Some(branch.answerer.end());
        let candidate = context.candidates.get(usize::from(branch.candidate));
        let kind = candidate.map(|candidate| &candidate.kind);
        record.callee_target = match kind {
            Some(TargetKind::Contact(binding)) => shown_or_nothing(&binding.uri),
            Some(TargetKind::Uri(uri)) => shown_or_nothing(uri),
            // Its target may have gone on to another.
            Some(TargetKind::NextHops { hops, .. }) => {
                let hop = hops.get(usize::from(branch.hop));
                hop.map_or_else(Box::default, shown_hop)
            }
            Some(TargetKind::Routed | TargetKind::Token(_)) | None => Box::default(),
        };
        let group = kind.and_then(|kind| kind.group_of(branch.hop));
        let group = group.unwrap_or_default();
        record.callee_trunk = escaped(group.as_bytes(), TEXT_MAX);
        let extra = candidate.and_then(|candidate| candidate.extra.as_ref());
        let payer = extra.and_then(|extra| extra.payer.as_deref());
        record.payer_user = payer.map_or_else(Box::default, |of| full_name(&of.name, &of.realm));
    }

    /// Keeps what a further call of a fork is followed by, where others may take the call after the
    /// first final response.
    fn keep_fork(&mut self, now: Now, context: &mut Context) {
        let Some(request) = context.request.as_deref() else {
            return;
        };
        if context.fork.is_some() || context.method != Method::Invite || !context.may_be_taken() {
            return;
        }
        let Some(names) = Names::of(request) else {
            return;
        };
        let (record, is_told, within, places) = match &context.record {
            Some(followed) => {
                let places = followed.places.iter().map(Arc::downgrade);
                let record = followed.record.clone();
                (record, followed.is_told, followed.within, places.collect())
            }
            // A target may have places of its own.
            None if context.candidates.iter().any(Candidate::has_places) => {
                let source = Source::of(&context.sender.flow);
                let record = self.new_record(now, request, source, ("", Box::default()));
                (record, false, None, Vec::new())
            }
            None => return,
        };
        context.fork = Some(Box::new(Fork {
            record,
            is_told,
            within,
            places,
            call_id: names.call_id.into(),
            caller_tag: names.caller_tag.into(),
        }));
    }

    /// Begins to follow a further call of a fork, with the places of its target.
    fn begin_another(&mut self, fork: &Fork, places: Vec<Arc<CountedCall>>) -> Followed {
        let mut followed = fork.another(self.open_calls.next_id());
        followed.add(places);
        self.counters.call_records_begun += u64::from(followed.is_told);
        followed
    }

    /// A 2xx is passed to the caller: from here on the end is waited for, where it will pass.
    /// Where one more of those who were called takes the call, that is another: it may go on, and
    /// cost, beside the first.
    pub(crate) fn note_answered(
        &mut self,
        now: Now,
        context: &mut Context,
        number: usize,
        response: &Message,
        places: Vec<Arc<CountedCall>>,
        out: &mut Outputs,
    ) {
        self.keep_fork(now, context);
        if context.is_final_sent {
            let fork = context.fork.as_deref();
            context.record = fork.map(|fork| self.begin_another(fork, places));
        } else if !places.is_empty()
            && let Some(request) = context.request.as_deref()
        {
            let source = Source::of(&context.sender.flow);
            let followed = context.record.take();
            context.record = Some(self.follow(now, followed, request, source, places));
        }
        if context.record.is_none() {
            return;
        }
        self.note_try(context, number, Ok(response.status()));
        let Some(mut record) = context.record.take() else {
            return;
        };
        let within = record.within.take();
        if within.is_some_and(|end| record.callee_end != Some(end)) {
            record.is_told = true;
            self.counters.call_records_begun += 1;
        }
        // What the other side of an open call takes is that call, and needs no place beside it.
        if !record.is_told && (within.is_some() || !record.has_places()) {
            return;
        }
        record.answered = Some(now);
        record.seen = now;
        record.status = Some(response.status());
        // Timer C or a CANCEL came too late for it.
        (record.why, record.reason) = (None, Box::default());
        record.tries_total = context.branches.len() as u32;
        record.session_expires_s = expires_s(response).or_else(|| added_s(context, response));
        let source = context.answerer(number);
        let sees_the_end =
            source.is_some_and(|source| self.sees_the_end(context, &source, response));
        let names = match (context.request.as_deref(), context.fork.as_deref()) {
            (Some(request), _) => Names::of(request),
            (None, fork) => fork.map(Fork::names),
        };
        let is_routed = (context.request.as_deref())
            .is_some_and(|request| self.is_routed(request, &context.routed));
        let unseen = match sees_the_end {
            false => Err((record, Why::NotOnPath, false)),
            true => {
                let lifetime_s = self.settings.proxy.dialog_token_lifetime_s;
                let (open, wheel) = (&mut self.open_calls, &mut self.wheel);
                let call = (record, is_routed);
                let begun = open.begin(now, lifetime_s, call, (names, response), wheel);
                // With the names of an open call room is not what it lacks.
                begun.map_err(|(record, why)| (record, Why::NoRoom, why == Unfollowed::NoRoom))
            }
        };
        if let Err((mut record, why, is_lost)) = unseen {
            self.counters.call_records_unfollowed += u64::from(is_lost && record.is_told);
            record.why = Some(why);
            record.ended_by = why.ended_by();
            self.tell(record, out);
        }
    }

    /// The first final response goes to whoever sent the request.
    pub(crate) fn note_final(
        &mut self,
        now: Now,
        context: &mut Context,
        because: CancelReason<'_>,
        out: &mut Outputs,
    ) {
        let status = match because {
            CancelReason::Answered(status) => Some(status),
            CancelReason::Caller(_) | CancelReason::TimeIsOver => None,
        };
        if let Some(request) = context.request.as_deref() {
            let went_to = |end: End| context.is_answered_from(end);
            let is_proven = context.speaks_for_dialog;
            let status = status.unwrap_or(408);
            // As for its record: of whoever has no token the other side has to take the BYE.
            let counts = |end| is_proven || (matches!(status, 200..=299) && went_to(end));
            self.note_hung_up(request, status, counts);
            self.note_bye_answered(now, request, status, is_proven, went_to, out);
        }
        self.keep_fork(now, context);
        let Some(mut record) = context.record.take() else {
            return;
        };
        if status.is_none() {
            record.why = Some(Why::NobodyToAnswer);
        }
        // Timer C ended one branch, and another has said more.
        if record.why == Some(Why::Refused(Reason::TimedOut)) && !matches!(status, Some(408 | 487))
        {
            record.why = None;
        }
        record.status = status;
        record.tries_total = context.branches.len() as u32;
        record.ended = Some(now);
        record.seen = now;
        record.ended_by = match (context.is_cancelled, record.why) {
            (true, _) => EndedBy::Caller,
            (false, Some(why)) => why.ended_by(),
            (false, None) => EndedBy::Callee,
        };
        self.tell(record, out);
    }

    /// A request is refused that was let in.
    pub(crate) fn note_refused(
        &mut self,
        now: Now,
        record: Option<Followed>,
        line: &StatusLine,
        out: &mut Outputs,
    ) {
        let Some(mut record) = record else {
            return;
        };
        record.status = Some(line.status());
        record.why = line.reason().map(Why::Refused);
        record.ended_by = record.why.map_or(EndedBy::Server, Why::ended_by);
        record.ended = Some(now);
        self.tell(record, out);
    }

    /// What was parked is dropped, because nobody is left to answer to.
    pub(crate) fn note_dropped(&mut self, now: Now, parked: &mut Parked, out: &mut Outputs) {
        if let Parked::User(job) | Parked::Hook(job, _) = parked
            && let Some(mut record) = job.record.take()
        {
            record.why = Some(Why::NobodyToAnswer);
            record.ended = Some(now);
            self.tell(record, out);
        }
    }

    /// A request is let in.
    pub(crate) fn note_within(&mut self, now: Now, request: &Message, permit: &Permit) {
        if !self.open_calls.is_empty() && request.to_tag().is_some() {
            let lifetime_s = self.settings.proxy.dialog_token_lifetime_s;
            let is_proven = speaks_for_dialog(permit);
            self.open_calls.request(now, lifetime_s, request, is_proven);
        }
    }

    /// A 2xx passes to a request within a dialog.
    pub(crate) fn note_refreshed(&mut self, now: Now, context: &Context, response: &Message) {
        let refreshes = matches!(context.method, Method::Invite | Method::Update);
        if !refreshes || self.open_calls.is_empty() {
            return;
        }
        let request = context.request.as_deref();
        if let Some(request) = request.filter(|request| request.to_tag().is_some()) {
            let lifetime_s = self.settings.proxy.dialog_token_lifetime_s;
            let (added_s, wheel) = (added_s(context, response), &mut self.wheel);
            let by = match context.speaks_for_dialog {
                true => MatchedBy::Token,
                false => MatchedBy::Names,
            };
            let went_to = |end: End| context.is_answered_from(end);
            let messages = (request, response);
            self.open_calls
                .refreshed(now, lifetime_s, messages, added_s, (by, went_to), wheel);
        }
    }

    /// A side of a dialog has answered that it does not know it.
    pub(crate) fn note_gone(&mut self, now: Now, context: &Context, out: &mut Outputs) {
        if self.open_calls.is_empty() || !context.speaks_for_dialog {
            return;
        }
        if let Some(request) = context.request.as_deref()
            && let Some(record) = self.open_calls.gone(now, request, &mut self.wheel)
        {
            self.tell(record, out);
        }
    }

    /// A request has its final answer: if it is a BYE, its call may be over.
    pub(crate) fn note_bye_answered(
        &mut self,
        now: Now,
        request: &Message,
        status: u16,
        is_proven: bool,
        went_to: impl Fn(End) -> bool,
        out: &mut Outputs,
    ) {
        if request.method() != Method::Bye || self.open_calls.is_empty() {
            return;
        }
        let (open, wheel) = (&mut self.open_calls, &mut self.wheel);
        let over = open.bye_answered(now, request, status, is_proven, went_to, wheel);
        if let Some(record) = over {
            self.tell(record, out);
        }
    }

    pub(crate) fn record_timer_fired(&mut self, now: Now, call: u64, out: &mut Outputs) {
        if let Some(record) = self.open_calls.timer_fired(now, call, &mut self.wheel) {
            self.tell(record, out);
        }
    }

    /// A call is over: its places are given back, and its record comes out.
    fn tell(&mut self, followed: Followed, out: &mut Outputs) {
        if let Some(record) = followed.into_told() {
            self.counters.call_records += 1;
            out.records.push(record);
        }
    }
}

/// The caller cancels, with these words.
pub(crate) fn note_cancelled(context: &mut Context, reason: &[u8]) {
    if let Some(record) = &mut context.record {
        record.reason = printable(reason);
    }
}

/// A failure is passed on: what it says of why. A call that was cancelled ended by what the
/// caller says.
pub(crate) fn note_reason(context: &mut Context, response: &Message) {
    if let Some(record) = context.record.as_mut().filter(|_| !context.is_cancelled) {
        record.note_reason(response);
    }
}

/// This server itself refuses the call.
pub(crate) fn note_why(context: &mut Context, line: &StatusLine) {
    if let Some(record) = &mut context.record {
        record.why = line.reason().map(Why::Refused);
    }
}

/// A copy rang for too long.
pub(crate) fn note_timed_out(record: &mut Option<Followed>) {
    if let Some(record) = record {
        record.why = Some(Why::Refused(Reason::TimedOut));
    }
}

/// The session timer that this server writes into a 2xx.
fn added_s(context: &Context, response: &Message) -> Option<u32> {
    let asked: Option<AskedTimer> = context.session;
    asked?.missing_in(response)
}

/// Whether what a request says of its dialog is to be believed: whoever bears the dialog's
/// token sends to the other side of it, and peers are trusted. A user without his token has
/// shown who he is, and sends to whom he likes.
pub(crate) const fn speaks_for_dialog(permit: &Permit) -> bool {
    match permit {
        Permit::Open(_) | Permit::Peer(_) | Permit::Dialog(_) | Permit::Trunk(_) => true,
        Permit::Authenticated(_)
        | Permit::Inbound(_)
        | Permit::Directed(_)
        | Permit::Forwarder(_)
        | Permit::Emergency(_) => false,
    }
}

/// The user who calls, if one proved himself.
fn user_of(permit: &Permit) -> Box<str> {
    match permit {
        Permit::Authenticated(user) => full_name(user.user(), user.realm()),
        _ => Box::default(),
    }
}

/// The name of a user with his realm.
fn full_name(name: &[u8], realm: &str) -> Box<str> {
    escaped(&[name, b"@", realm.as_bytes()].concat(), TEXT_MAX)
}

fn shown_or_nothing(uri: &[u8]) -> Box<str> {
    Uri::parse(uri).map_or_else(Box::default, |uri| shown(&uri))
}

fn shown_hop(hop: &NextHop) -> Box<str> {
    let place = match hop.port {
        Some(port) => format!("{}:{port}", hop.host),
        None => hop.host.to_string(),
    };
    escaped(place.as_bytes(), TEXT_MAX)
}
