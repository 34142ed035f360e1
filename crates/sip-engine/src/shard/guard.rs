//! What the guard says of those who are refused, and of those who guess.

use sip_auth::{Reply, Subject};
use sip_limit::{Attempt, Claim, Fits, LATER_MS, LookUp, Origin, Reserved, Verdict};
use sip_lookup::Outcome;
use sip_msg::{Flow, HeaderName, Message};
use sip_txn::{ServerId, response_target};

use crate::effect::{Effect, Limited, ParkId};
use crate::park::{Held, Job, Parked};
use crate::permit::{Gate, Pending, Permit, Refusal, challenge_there, gate_unavailable, is_listed};
use crate::proxy::context::Owner;
use crate::refusal::{Reason, StatusLine};
use crate::relay::Source;
use crate::sender::Sender;
use crate::{Now, Outputs, Shard};

/// Wrong guesses that wait for their answers; past it they are answered at once.
const GUESSES_MAX: usize = 1_024;
/// The most of a name that is logged, in bytes.
const SHOWN_MAX: usize = 64;

/// Notes in a refusal whether the request that is refused answered a challenge that was
/// sent to where it came from.
fn of_answer(gate: Gate, attempt: Option<&Attempt>) -> Gate {
    match gate {
        Gate::Refuse(refusal) if attempt.is_some_and(Attempt::is_answer) => {
            Gate::Refuse(refusal.of_answer())
        }
        gate => gate,
    }
}

pub(super) fn origin(flow: &Flow) -> Origin {
    Origin {
        remote: flow.remote,
        is_stream: flow.transport.is_reliable(),
    }
}

/// How long a request waits at most before it is looked at again that waits for other look-ups.
const HELD_WAIT_MAX_MS: u64 = 640;

impl Shard {
    /// How a refusal is answered.
    pub(super) fn verdict(
        &mut self,
        now: Now,
        job: &Job,
        refusal: &Refusal,
        out: &mut Outputs,
    ) -> Verdict {
        if !refusal.is_senders() {
            Verdict::Served
        } else if refusal.is_of_answer() {
            if self.is_listed(&job.sender) {
                return Verdict::Served;
            }
            let bytes = job.request.bytes().len();
            let guard = &self.shared.guard;
            guard.refused_answer(now.mono_ms, &origin(&job.sender.flow), bytes)
        } else {
            self.verdict_on(now, &job.sender, &job.request, out)
        }
    }

    /// What a refusal before the gate becomes: its sender owes for it. Nothing where there is to be
    /// no answer.
    pub(crate) fn owed(
        &mut self,
        now: Now,
        sender: &Sender,
        request: &Message,
        line: StatusLine,
        out: &mut Outputs,
    ) -> Option<StatusLine> {
        match self.verdict_on(now, sender, request, out) {
            Verdict::Served => Some(line),
            Verdict::TooMany => Some(StatusLine::refused(503, Reason::RefusedTooOften)),
            Verdict::Silence => None,
        }
    }

    /// What an answer becomes that anybody gets before the gate: the source of a datagram may be
    /// forged, and would be sent one for each. Nothing where there is to be no answer.
    pub(crate) fn for_anybody(
        &self,
        now: Now,
        sender: &Sender,
        request: &Message,
        line: StatusLine,
    ) -> Option<StatusLine> {
        let may_be_forged = !sender.flow.transport.is_reliable();
        if self.settings.authenticate.is_none() || !may_be_forged || self.is_listed(sender) {
            return Some(line);
        }
        let (guard, bytes) = (&self.shared.guard, request.bytes().len());
        match guard.answered_anybody(now.mono_ms, &origin(&sender.flow), bytes) {
            Verdict::Served => Some(line),
            Verdict::TooMany => Some(StatusLine::refused(503, Reason::RefusedTooOften)),
            Verdict::Silence => None,
        }
    }

    /// Refuses what did not reach the gate, or is silent to whoever owes too much.
    pub(crate) fn refuse_owing(
        &mut self,
        now: Now,
        sender: &Sender,
        server: Option<ServerId>,
        request: Box<Message>,
        line: StatusLine,
        out: &mut Outputs,
    ) {
        match self.owed(now, sender, &request, line, out) {
            Some(line) => self.refuse(now, sender, server, request, line, out),
            None => {
                if let Some(server) = server {
                    self.txns.release_server(server);
                }
                self.pool.recycle(request);
            }
        }
    }

    /// The same for a message that did not reach the gate. Refusals to listed peers are
    /// not limited.
    pub(crate) fn verdict_on(
        &mut self,
        now: Now,
        sender: &Sender,
        message: &Message,
        out: &mut Outputs,
    ) -> Verdict {
        if self.is_listed(sender) {
            return Verdict::Served;
        }
        let bytes = message.bytes().len();
        let (verdict, is_to_be_told) =
            self.shared
                .guard
                .refused(now.mono_ms, &origin(&sender.flow), bytes);
        if is_to_be_told {
            out.effects.push(Effect::Limited {
                flow: sender.flow,
                what: Limited::Source,
            });
        }
        verdict
    }

    fn is_listed(&self, sender: &Sender) -> bool {
        is_listed(&self.settings, &self.own, sender)
    }

    /// Looks up the stored credentials, unless there were too many failures. Where look-ups
    /// under way fill the bound, the request waits for them; `held` says how it has waited so far.
    pub(super) fn look_up(
        &mut self,
        now: Now,
        job: Job,
        mut pending: Pending,
        held: Option<Held>,
        out: &mut Outputs,
    ) {
        let attempt = self.attempt(now, &job.sender.flow, &pending);
        let attempt = match held {
            Some(_) => attempt.map(Attempt::held),
            None => attempt,
        };
        let verdict = attempt
            .as_ref()
            .map_or(LookUp::Now(Reserved::default()), |attempt| {
                self.shared.guard.take_up(now.mono_ms, attempt)
            });
        let (max, timeout_ms) = self.lookup_bounds();
        let until_ms = held.map_or(now.mono_ms + timeout_ms, |held| held.until_ms);
        if verdict == LookUp::Never {
            let gate = pending.refuse_unseen(&self.gate_context(now, &job.sender), &job.request);
            let gate = match of_answer(gate, attempt.as_ref()) {
                Gate::Refuse(refusal) => Gate::Refuse(self.record_guess(now, &job, refusal, out)),
                gate => gate,
            };
            self.judged(now, job, gate, out);
            return;
        }
        // Nobody has looked at his password: he is not to be told that it is wrong.
        let is_full = self.parks.lookups() >= max;
        // Whose turn has come, and for whom there is no room yet, goes on waiting.
        let waits = match &verdict {
            LookUp::Later => true,
            _ => is_full && held.is_some(),
        };
        if let LookUp::Now(reserved) = verdict {
            if !waits && !is_full {
                pending.reserved = reserved;
                pending.asked_ms = now.mono_ms;
                pending.until_ms = now.mono_ms + timeout_ms;
                return self.ask_store(job, pending, out);
            }
            self.shared.guard.give_back(now.mono_ms, &reserved);
        }
        let is_late = waits && now.mono_ms >= until_ms;
        if is_late || !waits || self.parks.held() >= max {
            let counter = match is_late {
                true => &mut self.counters.lookups_expired,
                false => &mut self.counters.lookups_full,
            };
            *counter += 1;
            let refusal = gate_unavailable(&job.request, Reason::TooManyLookups, None);
            self.counters.auth_failed(refusal.failure());
            self.refuse_by_gate(now, job, &refusal, out);
            return;
        }
        // Where none has ended meanwhile the store is slow, or silent, and need not be looked
        // at all the time.
        let ended = self.shared.guard.looked_up_count();
        let wait_ms = match held {
            Some(held) if held.ended == ended => (2 * held.wait_ms).min(HELD_WAIT_MAX_MS),
            _ => LATER_MS,
        };
        let held = Held {
            until_ms,
            wait_ms,
            ended,
        };
        let due_ms = (now.mono_ms + wait_ms).min(until_ms);
        self.park_job(job.server, Parked::Held(job, pending, held), due_ms);
    }

    /// Asks the store, and parks the request until it answers or the time is up.
    pub(super) fn ask_store(&mut self, job: Job, pending: Pending, out: &mut Outputs) {
        let (question, until_ms) = (pending.question(), pending.until_ms);
        let park = self.park_job(job.server, Parked::Credential(job, pending), until_ms);
        out.effects.push(Effect::FindCredential {
            park,
            question,
            until_ms,
        });
    }

    /// Parks a request of that transaction.
    pub(super) fn park_job(
        &mut self,
        server: Option<ServerId>,
        parked: Parked,
        due_ms: u64,
    ) -> ParkId {
        let park = self.parks.park(parked, due_ms, &mut self.wheel);
        if let Some(server) = server {
            self.txns.set_context(server, Owner::Parked(park).encode());
        }
        park
    }

    /// The accounts of an attempt to authenticate.
    pub(super) fn attempt(&self, now: Now, flow: &Flow, pending: &Pending) -> Option<Attempt> {
        let (key, nonce, mark) = pending.guess()?;
        let claim = Claim {
            name: key.user(),
            user: self.own.bare_name(key.user()),
            realm: key.realm(),
        };
        let fits = match self.may_be_forged_gateway(now, flow) {
            true => Fits::Place,
            false => Fits::Host,
        };
        let guard = &self.shared.guard;
        Some(guard.attempt(&origin(flow), claim, (nonce, mark), fits))
    }

    /// Whether a datagram has the source of a gateway, and anybody may have sent it.
    fn may_be_forged_gateway(&self, now: Now, flow: &Flow) -> bool {
        let (relay, source) = (self.relay(now), Source::of(flow));
        relay.is_doubted(&source) && relay.is_at_gateway(&source)
    }

    /// The mark of a nonce that is sent in answer to a request. Whoever answers from a place where
    /// not everybody may be called shows by it that he is there, so it fits where the answer goes,
    /// and nobody where a proxy would send the answer on by the next Via, unless it is listed.
    pub(super) fn mark_for(&self, now: Now, sender: &Sender, request: &Message) -> u64 {
        let (mut there, guard) = (origin(&sender.flow), &self.shared.guard);
        let is_doubted = self.relay(now).is_doubted(&Source::of(&sender.flow));
        if is_doubted && request.has_several(HeaderName::Via) && !self.is_listed(sender) {
            return guard.mark(&there, Fits::Nobody);
        }
        if !self.may_be_forged_gateway(now, &sender.flow) {
            return guard.mark(&there, Fits::Host);
        }
        if let Ok(via) = request.top_via() {
            there.remote = response_target(&sender.flow, &via, false).remote;
        }
        guard.mark(&there, Fits::Place)
    }

    /// What a cache has, unless too many digests did not match what it had: then it is as if
    /// it had nothing.
    pub(super) fn fit_to_compare(
        &self,
        now: Now,
        attempt: Option<&Attempt>,
        answer: Outcome,
    ) -> Outcome {
        if !matches!(answer, Ok(Reply::Cached(_) | Reply::NotCached)) {
            return answer;
        }
        let guard = &self.shared.guard;
        match attempt.is_none_or(|attempt| guard.may_compare(now.mono_ms, attempt)) {
            true => answer,
            false => Ok(Reply::NotCached),
        }
    }

    /// When wrong credentials are refused at the earliest. A look-up that has ended is noted.
    pub(super) fn refusals_told_ms(
        &mut self,
        now: Now,
        pending: &Pending,
        answer: &Outcome,
    ) -> u64 {
        let auth = self.settings.authenticate.as_ref();
        let by_store = matches!(
            answer,
            Ok(Reply::Unknown | Reply::Secret(_) | Reply::Verified(_))
        );
        if !by_store || auth.is_none_or(|auth| !auth.evens_refusals) {
            return 0;
        }
        let took_ms = now.mono_ms.saturating_sub(pending.asked_ms);
        self.floor.note(now.mono_ms, took_ms);
        pending.asked_ms + self.floor.least_ms()
    }

    /// Continues once the credentials were checked: the answer to wrong ones is delayed, longer
    /// each time, and comes not before `told_ms`.
    pub(super) fn proved(
        &mut self,
        now: Now,
        job: Job,
        (attempt, told_ms): (Option<Attempt>, u64),
        gate: Gate,
        out: &mut Outputs,
    ) {
        let Some(attempt) = attempt else {
            self.judged(now, job, gate, out);
            return;
        };
        let guard = &self.shared.guard;
        match of_answer(gate, Some(&attempt)) {
            // Whoever is there may be called there, and may send to his neighbours. The
            // source of a datagram is no proof of it, a nonce that was sent there is.
            Gate::Pass(_)
                if !attempt.is_answer()
                    && !job.sender.flow.transport.is_reliable()
                    && self.relay(now).is_watched(job.sender.flow.remote) =>
            {
                let gate = challenge_there(&self.gate_context(now, &job.sender), &job.request);
                self.judged(now, job, gate, out);
            }
            Gate::Pass(permit) => self.proceed(now, job, permit, Some(&attempt), out),
            Gate::Refuse(refusal) if refusal.is_of_credentials() => {
                let delay_ms = guard.failed(now.mono_ms, &attempt);
                // Now: who cancels before he is answered has failed as well.
                self.counters.auth_failed(refusal.failure());
                let refusal = self.record_guess(now, &job, refusal, out);
                let due_ms = now.mono_ms.max(told_ms) + delay_ms;
                if due_ms == now.mono_ms || self.parks.guesses() >= GUESSES_MAX {
                    self.refuse_by_gate(now, job, &refusal, out);
                    return;
                }
                self.park_job(job.server, Parked::Guess(job, refusal), due_ms);
            }
            gate => self.judged(now, job, gate, out),
        }
    }

    /// Tells the store who has proved himself, where it wants to know.
    pub(super) fn tell_who_is_proved(&self, gate: &Gate, out: &mut Outputs) {
        let auth = self.settings.authenticate.as_ref();
        if auth.is_some_and(|auth| auth.tells_who_is_proved)
            && let Gate::Pass(Permit::Authenticated(user)) = gate
        {
            let subject = Subject::new(user.user(), user.realm().clone());
            out.effects.push(Effect::Proved(subject));
        }
    }

    /// Records wrong credentials: before the answer, which may be delayed, and which who
    /// cancels his INVITE, or sends too much, does not wait for.
    fn record_guess(&self, now: Now, job: &Job, refusal: Refusal, out: &mut Outputs) -> Refusal {
        if !refusal.is_of_guess() {
            return refusal;
        }
        let line = refusal.line();
        self.record(now, &job.sender, &job.request, &line, &String::new, out);
        refusal.recorded()
    }

    /// Drops a request without an answer.
    pub(super) fn drop_job(&mut self, job: Job) {
        if let Some(server) = job.server {
            self.txns.release_server(server);
        }
        self.pool.recycle(job.request);
    }
}

/// A name as it may be logged, short, and nothing but what is printed.
pub(super) fn shown(name: &[u8]) -> Box<str> {
    name.iter()
        .take(SHOWN_MAX)
        .map(|byte| match byte {
            0x21..=0x7e => char::from(*byte),
            _ => '?',
        })
        .collect::<String>()
        .into()
}
