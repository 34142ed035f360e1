//! Requests that wait for the operator's hook, and what its answers do to them.

use std::sync::Arc;

use sip_hook::{Action, Answer, Failure, Kind, Outcome};
use sip_limit::Verdict;
use sip_msg::{MessageWriter, Method, Uri};

use crate::effect::{Effect, ParkId};
use crate::hook::{HookSettings, OnFailure, Told, question_about};
use crate::park::{Job, Parked};
use crate::permit::{Permit, is_registration, is_within};
use crate::proxy::context::{Context, Owner, lines_of};
use crate::refusal::{Reason, StatusLine};
use crate::settings::Mode;
use crate::{Now, Outputs, Shard};

impl Shard {
    /// Takes what the hook says of a request, or why it says nothing of use.
    pub fn handle_hook(&mut self, now: Now, park: ParkId, outcome: Outcome, out: &mut Outputs) {
        match (self.parks.take(park, &mut self.wheel), outcome) {
            (Some(Parked::Hook(job, permit)), Ok(answer)) => {
                self.follow_hook(now, job, permit, &answer, out);
            }
            (Some(Parked::Hook(job, permit)), Err(failure)) => {
                self.hook_failed(now, job, permit, &failure, out);
            }
            _ => self.counters.answers_late += 1,
        }
        self.drain(now, out);
    }

    /// As which kind of request the hook is asked about this one; `None` where it is not asked.
    pub(super) fn hook_kind(&self, now: Now, job: &Job, permit: &Permit) -> Option<Kind> {
        let hook = self.settings.hook.as_ref()?;
        let kind = match job.request.method() {
            Method::Invite => Kind::Call,
            Method::Register if is_registration(&self.own, &job.request) => Kind::Registration,
            Method::Message => Kind::Message,
            Method::Subscribe => Kind::Subscription,
            _ => return None,
        };
        let is_asked = hook.asks.contains(&kind)
            && job.server.is_some()
            && !self.is_shown_within(now, job, permit);
        is_asked.then_some(kind)
    }

    /// Whether a request is shown to be part of a dialog. A tag in To is no proof: else it would
    /// be the way past the hook. Where nobody is authenticated there is no other.
    fn is_shown_within(&self, now: Now, job: &Job, permit: &Permit) -> bool {
        let has_tag = || job.request.to_tag().is_some();
        match permit {
            Permit::Dialog(_) => true,
            Permit::Open(_) => has_tag(),
            Permit::Peer(_) => {
                let cx = self.gate_context(now, &job.sender);
                has_tag() && is_within(&cx, &job.request, &job.routed)
            }
            Permit::Authenticated(_)
            | Permit::Inbound(_)
            | Permit::Directed(_)
            | Permit::Trunk(_)
            | Permit::Forwarder(_)
            | Permit::Emergency(_) => false,
        }
    }

    /// Asks the hook about a request that passed the gate, and parks it.
    pub(super) fn ask_hook(
        &mut self,
        now: Now,
        mut job: Job,
        permit: Permit,
        kind: Kind,
        out: &mut Outputs,
    ) {
        self.counters.hook_asked += 1;
        if self.settings.mode != Mode::Redirect {
            job.record = self.begin_record(now, &job, &permit);
        }
        let hook = self.settings.hook.as_ref();
        let (waiting_max, timeout_ms) =
            hook.map_or((0, 0), |hook| (hook.waiting_max, hook.timeout_ms));
        if self.parks.hooks() >= waiting_max {
            self.hook_failed(now, job, permit, &Failure::Full, out);
            return;
        }
        let is_listed = self.is_listed_peers(&job.sender);
        let question = question_about(kind, &job, &permit, is_listed);
        let until_ms = now.mono_ms + timeout_ms;
        let park = self.park_job(job.server, Parked::Hook(job, permit), until_ms);
        out.effects.push(Effect::AskHook {
            park,
            question,
            until_ms,
        });
    }

    fn follow_hook(
        &mut self,
        now: Now,
        mut job: Job,
        permit: Permit,
        answer: &Arc<Answer>,
        out: &mut Outputs,
    ) {
        let settings = Arc::clone(&self.settings);
        // A reload may have ended it meanwhile.
        let Some(hook) = &settings.hook else {
            self.go_on(now, job, permit, out);
            return;
        };
        if let Action::Reject { status, words } = answer.action() {
            self.reject_by_hook(now, job, &permit, *status, words, out);
            return;
        }
        match self.prepare(hook, &mut job, answer) {
            Ok(told) => {
                let permit = match answer.action() {
                    Action::Continue => permit,
                    _ => permit.directed(hook, answer),
                };
                job.told = Some(Box::new(told));
                self.go_on(now, job, permit, out);
            }
            Err(why) => {
                let failure = Failure::Bad(why.into());
                self.hook_failed(now, job, permit, &failure, out);
            }
        }
    }

    /// Makes a request what the hook wants it to be, or says why that cannot be.
    fn prepare(
        &mut self,
        hook: &HookSettings,
        job: &mut Job,
        answer: &Arc<Answer>,
    ) -> Result<Told, String> {
        let mut names = answer.headers().names();
        if let Some(name) = names.find(|name| !hook.may_set(name)) {
            return Err(format!("it sets {name}, which is not in headers of [hook]"));
        }
        let mut told = Told {
            answer: Some(Arc::clone(answer)),
            ..Told::default()
        };
        let uri = match answer.action() {
            Action::Continue | Action::Reject { .. } => return Ok(told),
            _ if job.request.method() == Method::Register => {
                return Err("a registration goes nowhere else".to_owned());
            }
            Action::ToGroup { name, request_uri } => {
                let mut groups = self.settings.routes.groups.iter();
                let group = groups.position(|group| *group.name == **name);
                let missing = || format!("there is no [[gateway_group]] named {name}");
                told.group = Some(group.ok_or_else(missing)?);
                request_uri.as_deref()
            }
            Action::ToUser { uri } => {
                let is_ours = |uri: Uri<'_>| uri.user.is_some() && self.own.is_own_uri(&uri);
                if !Uri::parse(uri.as_bytes()).is_some_and(is_ours) {
                    return Err(format!("{uri} is no user of this server"));
                }
                Some(&**uri)
            }
            Action::Rewrite { request_uri } => Some(&**request_uri),
        };
        told.came_with = self.send_elsewhere(job, uri.map(str::as_bytes))?;
        Ok(told)
    }

    /// The hook rejects a request.
    fn reject_by_hook(
        &mut self,
        now: Now,
        mut job: Job,
        permit: &Permit,
        status: u16,
        words: &str,
        out: &mut Outputs,
    ) {
        let line = StatusLine::refused(status, Reason::Hook);
        // A stranger owes what is refused him, whoever refuses it.
        let verdict = match permit {
            Permit::Inbound(_) => self.verdict_on(now, &job.sender, &job.request, out),
            _ => Verdict::Served,
        };
        match verdict {
            Verdict::Served => {
                let detail = || match words {
                    "" => "the hook gives no reason".to_owned(),
                    words => format!("the hook says: {words}"),
                };
                self.record(now, &job.sender, &job.request, &line, &detail, out);
                let phrase = phrase_of(words);
                self.answer_by_hook(now, job, line.recorded(true), &phrase, out);
            }
            Verdict::TooMany => {
                let line = StatusLine::refused(503, Reason::RefusedTooOften);
                self.answer_by_hook(now, job, line, "", out);
            }
            Verdict::Silence => {
                self.note_refused(now, job.record.take(), &line, out);
                self.drop_job(job);
            }
        }
    }

    /// The hook has no answer of use.
    pub(super) fn hook_failed(
        &mut self,
        now: Now,
        mut job: Job,
        permit: Permit,
        failure: &Failure,
        out: &mut Outputs,
    ) {
        self.counters.hook_undecided += 1;
        let hook = self.settings.hook.as_ref();
        let goes_on = hook.is_none_or(|hook| hook.on_failure == OnFailure::Continue);
        // Nobody bars a call for help by bringing the program down; what it says itself counts.
        if goes_on || self.is_for_help(now, &permit, &job.routed, &job.request) {
            job.told = Some(Box::default());
            self.go_on(now, job, permit, out);
            return;
        }
        // To a REGISTER as where its bindings cannot be stored: its phone comes again.
        let status = match job.request.method() {
            Method::Register => 500,
            _ => 503,
        };
        let line = StatusLine::refused(status, Reason::HookFailed);
        let detail = || format!("the hook: {failure}");
        self.record(now, &job.sender, &job.request, &line, &detail, out);
        self.answer_by_hook(now, job, line.recorded(true), "", out);
    }

    /// A REGISTER waited for the hook when contacts of its user were removed: he may be gone, and
    /// what it binds would stay.
    pub(super) fn refuse_before_removal(&mut self, now: Now, job: Job, out: &mut Outputs) {
        let line = StatusLine::refused(500, Reason::RegistrarBusy);
        let detail = || "contacts of its user were removed meanwhile".to_owned();
        self.record(now, &job.sender, &job.request, &line, &detail, out);
        self.answer_by_hook(now, job, line.recorded(true), "", out);
    }

    /// Answers a request about which the hook was asked; in the usual words where there are none.
    fn answer_by_hook(
        &mut self,
        now: Now,
        job: Job,
        line: StatusLine,
        words: &str,
        out: &mut Outputs,
    ) {
        let Job {
            request,
            sender,
            server,
            record,
            ..
        } = job;
        self.note_refused(now, record, &line, out);
        if let Some(server) = server {
            self.txns.set_context(server, Owner::Nobody.encode());
        }
        let words = match words {
            "" => line.phrase(),
            words => words,
        };
        // RFC 3261 20.33: "The Retry-After header field can be used with a 500 (Server Internal
        // Error) or 503 (Service Unavailable) response" and a 503 has it in any case.
        let retry_after_s = u64::from(self.settings.bounds.retry_after_s);
        let is_passing = matches!(
            line.reason(),
            Some(Reason::HookFailed | Reason::RegistrarBusy)
        );
        let wants_it = line.status() == 500 && is_passing;
        let more = |writer: &mut MessageWriter<'_>| {
            if wants_it {
                writer.number("Retry-After", retry_after_s);
            }
        };
        self.answer_saying(now, &sender, server, &request, line, words, more, out);
        self.pool.recycle(request);
    }

    /// Has a context forward its request as the hook wants it.
    pub(super) fn take_told(&self, told: Told, request: &sip_msg::Message, context: &mut Context) {
        if let Some(hook) = &self.settings.hook {
            let lines = lines_of(told.answer.as_ref());
            hook.strip(request, lines, &mut context.strip);
        }
        context.told = told.answer.filter(|answer| !answer.headers().is_empty());
    }
}

/// Words as they may stand in a status line.
// RFC 3261 25.1: "Reason-Phrase   =  *(reserved / unreserved / escaped / UTF8-NONASCII / UTF8-CONT
// / SP / HTAB)". What is not among these is nothing that a phone shows.
fn phrase_of(words: &str) -> String {
    let is_allowed = |c: char| {
        c == ' '
            || c.is_ascii_alphanumeric()
            || ";/?:@&=+$,-_.!~*'()".contains(c)
            || (!c.is_ascii() && !c.is_control())
    };
    let shown = |c: char| if is_allowed(c) { c } else { '?' };
    words.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_fit_into_a_status_line() {
        assert_eq!(
            phrase_of("No credit, sorry (5 left)!"),
            "No credit, sorry (5 left)!"
        );
        assert_eq!(phrase_of("Zoë"), "Zoë");
        assert_eq!(phrase_of("a\"b<c>%0d\r\n"), "a?b?c??0d??");
    }
}
