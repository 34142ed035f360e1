//! What the guard says of those who are refused, and of those who guess.

use sip_limit::{Attempt, Place, Verdict};
use sip_msg::{Flow, Message};

use crate::effect::{Effect, Limited};
use crate::park::{Job, Parked};
use crate::permit::{Gate, Pending, Refusal, is_listed};
use crate::proxy::context::Owner;
use crate::{Now, Outputs, Shard};

/// Wrong guesses that wait for their answers; past it they are answered at once.
const GUESSES_MAX: usize = 256;

/// Notes in a refusal whether the request that is refused answered a challenge that was
/// sent to where it came from.
pub(super) fn of_answer(gate: Gate, attempt: Option<&Attempt>) -> Gate {
    match gate {
        Gate::Refuse(refusal) if attempt.is_some_and(Attempt::is_answer) => {
            Gate::Refuse(refusal.of_answer())
        }
        gate => gate,
    }
}

pub(super) fn place(flow: &Flow) -> Place {
    Place {
        remote: flow.remote,
        is_stream: flow.transport.is_reliable(),
    }
}

impl Shard {
    /// What is to become of a refusal.
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
            if self.is_listed(&job.flow) {
                return Verdict::Served;
            }
            let bytes = job.request.bytes().len();
            let guard = &self.shared.guard;
            guard.refused_answer(now.mono_ms, &place(&job.flow), bytes)
        } else {
            self.verdict_on(now, &job.flow, &job.request, out)
        }
    }

    /// The same of a message that no gate has seen. A peer in the list may be
    /// refused as often as it likes.
    pub(super) fn verdict_on(
        &mut self,
        now: Now,
        flow: &Flow,
        message: &Message,
        out: &mut Outputs,
    ) -> Verdict {
        if self.is_listed(flow) {
            return Verdict::Served;
        }
        let bytes = message.bytes().len();
        let (verdict, is_to_be_told) = self.shared.guard.refused(now.mono_ms, &place(flow), bytes);
        if is_to_be_told {
            out.effects.push(Effect::Limited {
                flow: *flow,
                what: Limited::Source,
            });
        }
        verdict
    }

    fn is_listed(&self, flow: &Flow) -> bool {
        is_listed(&self.settings, &self.own, flow, self.peer.as_deref())
    }

    /// Whether credentials are looked up, or guessed too often.
    pub(super) fn may_look_up(&self, now: Now, flow: &Flow, pending: &Pending) -> bool {
        self.attempt(flow, pending)
            .is_none_or(|attempt| self.shared.guard.may_look_up(now.mono_ms, &attempt))
    }

    /// What an attempt to prove who one is is about.
    pub(super) fn attempt(&self, flow: &Flow, pending: &Pending) -> Option<Attempt> {
        let (user, nonce, mark) = pending.guess()?;
        let guard = &self.shared.guard;
        Some(guard.attempt(&place(flow), user, nonce, mark))
    }

    /// Goes on once the credentials were looked at: who is right has the way
    /// free, and who is wrong waits for his answer, longer each time.
    pub(super) fn proved(
        &mut self,
        now: Now,
        job: Job,
        attempt: Option<Attempt>,
        gate: Gate,
        out: &mut Outputs,
    ) {
        let Some(attempt) = attempt else {
            self.judged(now, job, gate, out);
            return;
        };
        let guard = &self.shared.guard;
        match of_answer(gate, Some(&attempt)) {
            gate @ Gate::Pass(_) => {
                guard.succeeded(now.mono_ms, &place(&job.flow), &attempt);
                self.judged(now, job, gate, out);
            }
            Gate::Refuse(refusal) if refusal.is_of_credentials() => {
                let failure = guard.failed(now.mono_ms, &attempt);
                if failure.is_to_be_told {
                    let user = job.request.from().ok().and_then(|from| from.uri());
                    let user = user.and_then(|uri| uri.user).unwrap_or_default();
                    out.effects.push(Effect::Limited {
                        flow: job.flow,
                        what: Limited::Guess(shown(user)),
                    });
                }
                if failure.delay_ms == 0 || self.parks.guesses() >= GUESSES_MAX {
                    self.refuse_by_gate(now, job, &refusal, out);
                    return;
                }
                let server = job.server;
                let due_ms = now.mono_ms + failure.delay_ms;
                let parked = Parked::Guess(job, refusal);
                let park = self.parks.park(parked, due_ms, &mut self.wheel);
                if let Some(server) = server {
                    self.txns.set_context(server, Owner::Parked(park).encode());
                }
            }
            gate => self.judged(now, job, gate, out),
        }
    }

    /// Lets go of a request without an answer.
    pub(super) fn drop_job(&mut self, job: Job) {
        if let Some(server) = job.server {
            self.txns.release_server(server);
        }
        self.pool.recycle(job.request);
    }
}

/// A name as it may be logged: short, and nothing but what is printed.
fn shown(name: &[u8]) -> Box<str> {
    name.iter()
        .take(64)
        .map(|byte| match byte {
            0x21..=0x7e => char::from(*byte),
            _ => '?',
        })
        .collect::<String>()
        .into()
}
