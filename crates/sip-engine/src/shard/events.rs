//! What transactions, the registrar and deadlines bring about.

use invariant::broken;
use sip_locate::LocateError;
use sip_media::Failure as MediaFailure;
use sip_msg::{Message, Method};
use sip_txn::{Event, Response, ServerId};

use crate::effect::ParkId;
use crate::park::{Job, Parked};
use crate::permit::gate_unavailable;
use crate::proxy::cancel::CancelReason;
use crate::proxy::context::{Key, Owner};
use crate::proxy::outcome::Outcome;
use crate::refusal::{Reason, StatusLine};
use crate::registrar::RegistrarContext;
use crate::sender::Sender;
use crate::settings::Mode;
use crate::trunk::Failure;
use crate::{Now, Outputs, Shard};

impl Shard {
    /// Takes a response.
    pub(super) fn handle_response(
        &mut self,
        now: Now,
        sender: &Sender,
        response: Box<Message>,
        out: &mut Outputs,
    ) {
        if response.validate_forwarded().is_err() {
            self.counters.malformed += 1;
            self.counters.malformed_dropped += 1;
            self.pool.recycle(response);
            return;
        }
        match self
            .txns
            .handle_response(now.mono_ms, &response, &mut out.outbox)
        {
            Response::Pass { context, .. } => match Owner::decode(context) {
                Owner::Context(key, branch) => {
                    self.branch_response(now, key, usize::from(branch), response, out);
                }
                Owner::Probe(number) => {
                    self.probe_answered(now, number, &response, out);
                    self.pool.recycle(response);
                }
                Owner::KeepAlive(number) => {
                    self.keepalive_answered(now, number, response.status());
                    self.pool.recycle(response);
                }
                Owner::Register(number) => {
                    self.register_answered(now, number, &response, out);
                    self.pool.recycle(response);
                }
                _ => {
                    broken!("a client transaction belongs to a branch");
                    self.pool.recycle(response);
                }
            },
            Response::Absorbed => self.pool.recycle(response),
            // RFC 3261 18.1.2: "Otherwise, the response MUST be passed to the core (whether it be
            // stateless proxy, stateful proxy, or UA) for further processing."
            Response::Unknown if self.settings.mode == Mode::Stateless => {
                self.response_single(now, sender, response, out);
            }
            // RFC 6026 8 forbids what RFC 3261 16.7 asked for here: a response to nothing that
            // was sent is not forwarded.
            Response::Unknown => {
                self.counters.responses_stray += 1;
                self.verdict_on(now, sender, &response, out);
                self.pool.recycle(response);
            }
        }
    }

    /// Handles what the input at hand has brought about, until nothing is left.
    pub(crate) fn drain(&mut self, now: Now, out: &mut Outputs) {
        loop {
            while let Some(event) = self.txns.poll_event() {
                self.handle_event(now, event, out);
            }
            let cx = RegistrarContext {
                now,
                settings: &self.settings,
                location: &self.shared.location,
                own: &self.own,
                gateways: &self.gateways,
            };
            let Some(answered) = self.registrar.poll(&cx, out) else {
                return self.keep_bound(now);
            };
            self.registrar_answered(now, answered, out);
        }
    }

    /// Sends what the registrar has written.
    pub(super) fn registrar_answered(
        &mut self,
        now: Now,
        answered: crate::registrar::Answered,
        out: &mut Outputs,
    ) {
        let crate::registrar::Answered {
            request,
            sender,
            server,
            line,
            start,
        } = answered;
        self.send_answer(now, &sender, server, &request, &line, start, out);
        self.pool.recycle(request);
    }

    fn handle_event(&mut self, now: Now, event: Event, out: &mut Outputs) {
        match event {
            // RFC 3261 16.6: "If the client transaction reports failure to send the request or a
            // timeout from its state machine, the proxy continues to the next address in that
            // ordered set." and, with none left, "acts as if this element of the target set
            // returned a 408 (Request Timeout) final response."
            Event::ClientTimeout { context, .. } => {
                self.client_over(now, context, Outcome::TimedOut, out)
            }
            // RFC 3261 16.9: "If the transport layer notifies a proxy of an error when it tries
            // to forward a request (see Section 18.4), the proxy MUST behave as if the
            // forwarded request received a 503 (Service Unavailable) response."
            Event::ClientFailed {
                context, answered, ..
            } => {
                let outcome = match answered {
                    true => Outcome::TimedOut,
                    false => Outcome::Unreachable,
                };
                self.client_over(now, context, outcome, out);
            }
            Event::ClientTerminated { context, .. } => {
                self.client_over(now, context, Outcome::TimedOut, out);
            }
            Event::TryingDue { server, context } => self.trying_due(now, server, context, out),
            // RFC 3261 16.9: "If the proxy is notified of an error when forwarding a response, it
            // drops the response." Nothing is cancelled: a Via could cancel everything.
            Event::ServerFailed { server, context } => {
                if self.txns.server_state(server).is_none() {
                    self.server_over(now, context, out);
                }
            }
            Event::ServerAckTimeout { context, .. }
            | Event::ServerExpired { context, .. }
            | Event::ServerTerminated { context, .. } => self.server_over(now, context, out),
        }
    }

    /// A client transaction is over; `outcome` stands for the final response, if
    /// none has come.
    fn client_over(&mut self, now: Now, context: u64, outcome: Outcome, out: &mut Outputs) {
        let (key, number) = match Owner::decode(context) {
            Owner::Context(key, number) => (key, number),
            Owner::Probe(number) => return self.probe_failed(now, number, out),
            Owner::KeepAlive(number) => return self.keepalive_failed(now, number, out),
            Owner::Register(number) => {
                let failure = match outcome {
                    Outcome::Unreachable => Failure::Unreachable,
                    _ => Failure::Silent,
                };
                return self.register_failed(now, number, failure, out);
            }
            _ => return broken!("a client transaction belongs to a branch or is our own"),
        };
        // A context ends with its final response, its transactions after it.
        let Some(mut context) = self.contexts.take(key) else {
            return;
        };
        let number = usize::from(number);
        if let Some(branch) = context.branches.get_mut(number) {
            branch.is_live = false;
        }
        // Where its final response waits for a media engine, that is what it comes to.
        if !self.is_final_held(&mut context, number) {
            self.branch_failed(now, key, &mut context, number, outcome, out);
        }
        self.settle(now, key, context, out);
    }

    fn server_over(&mut self, now: Now, context: u64, out: &mut Outputs) {
        match Owner::decode(context) {
            Owner::Context(key, _) => self.context_server_over(now, key, out),
            Owner::Parked(park) => {
                if let Some(mut parked) = self.take_parked(now, park) {
                    self.note_dropped(now, &mut parked, out);
                    self.drop_parked(parked);
                }
            }
            Owner::Nobody | Owner::Probe(_) | Owner::KeepAlive(_) | Owner::Register(_) => {}
        }
    }

    fn context_server_over(&mut self, now: Now, key: Key, out: &mut Outputs) {
        // What ended the context may have come with the same timers.
        let Some(mut context) = self.contexts.take(key) else {
            return;
        };
        context.server = None;
        if !context.is_final_sent {
            // Nobody is left to answer to.
            self.final_sent(now, &mut context, CancelReason::TimeIsOver, out);
        }
        self.settle(now, key, context, out);
    }

    // RFC 3261 17.2.1: "The server transaction MUST generate a 100 (Trying) response unless it
    // knows that the TU will generate a provisional or final response within 200 ms"
    fn trying_due(&mut self, now: Now, server: ServerId, context: u64, out: &mut Outputs) {
        let outbox = &mut out.outbox;
        match Owner::decode(context) {
            Owner::Context(key, _) => {
                let Some(context) = self.contexts.take(key) else {
                    return;
                };
                if let Some(request) = &context.request {
                    self.txns
                        .respond_trying(now.mono_ms, server, request, outbox);
                }
                self.contexts.put(key, context);
            }
            Owner::Parked(park) => {
                if let Some(
                    Parked::Credential(job, _)
                    | Parked::Held(job, ..)
                    | Parked::Guess(job, _)
                    | Parked::User(job)
                    | Parked::Hook(job, _),
                ) = self.parks.get(park)
                {
                    self.txns
                        .respond_trying(now.mono_ms, server, &job.request, outbox);
                }
            }
            Owner::Nobody | Owner::Probe(_) | Owner::KeepAlive(_) | Owner::Register(_) => {}
        }
    }

    /// What was parked has waited too long.
    pub(super) fn park_expired(&mut self, now: Now, park: ParkId, out: &mut Outputs) {
        match self.take_parked(now, park) {
            Some(Parked::Credential(job, _)) => {
                self.counters.lookups_expired += 1;
                let refusal = gate_unavailable(&job.request, Reason::StoreTimeout, None);
                self.counters.auth_failed(refusal.failure());
                self.refuse_by_gate(now, job, &refusal, out);
            }
            Some(Parked::Held(job, pending, held)) => {
                self.look_up(now, job, pending, Some(held), out);
            }
            Some(Parked::Guess(job, refusal)) => self.refuse_by_gate(now, job, &refusal, out),
            Some(Parked::User(job)) => {
                self.counters.lookups_expired += 1;
                let line = StatusLine::refused(480, Reason::NotRegistered);
                self.answer_job(now, job, line, out);
            }
            Some(Parked::Hook(job, permit)) => {
                self.hook_failed(now, job, permit, &sip_hook::Failure::TimedOut, out);
            }
            Some(parked @ (Parked::Resolve(..) | Parked::Single(..))) => {
                self.counters.resolves_expired += 1;
                self.unresolved(now, parked, LocateError::Timeout, out);
            }
            Some(Parked::Probe(_)) => self.counters.resolves_expired += 1,
            Some(Parked::Trunk(wanted)) => {
                self.counters.resolves_expired += 1;
                self.trunk_resolved(now, park, &wanted, Err(LocateError::Timeout), out);
            }
            Some(Parked::Media(wait)) => {
                self.counters.media_expired += 1;
                self.media_answered(now, *wait, Err(MediaFailure::Gone), out);
            }
            None => {}
        }
    }

    /// The sender has cancelled what is parked.
    pub(crate) fn cancel_parked(&mut self, now: Now, park: ParkId, out: &mut Outputs) {
        match self.take_parked(now, park) {
            Some(
                Parked::Credential(job, _)
                | Parked::Held(job, ..)
                | Parked::Guess(job, _)
                | Parked::User(job)
                | Parked::Hook(job, _),
            ) => {
                let line = StatusLine::refused(487, Reason::Cancelled);
                self.answer_job(now, job, line, out);
            }
            Some(other) => self.drop_parked(other),
            None => {}
        }
    }

    /// Looks the credentials of REGISTERs for an address-of-record up again: what the store
    /// was asked before may not hold any more. One that was let in and waits for the hook is
    /// refused; its phone comes again and shows its password anew.
    pub(super) fn look_up_again(&mut self, now: Now, aor: &[u8], out: &mut Outputs) {
        let is_for_him = |parked: &Parked| {
            let (Parked::Credential(job, _) | Parked::Hook(job, _)) = parked else {
                return false;
            };
            let mut named = Vec::new();
            let to = job.request.to().ok().and_then(|to| to.uri());
            job.request.method() == Method::Register
                && to.is_some_and(|to| {
                    crate::aor::write_aor(&self.settings, &self.own, &to, &mut named)
                })
                && named == aor
        };
        for park in self.parks.find_all(is_for_him) {
            match self.take_parked(now, park) {
                Some(Parked::Credential(job, pending)) => {
                    self.look_up(now, job, pending, None, out);
                }
                Some(Parked::Hook(job, _)) => self.refuse_before_removal(now, job, out),
                Some(_) | None => broken!("what was found is of these two kinds"),
            }
        }
    }

    /// Takes out what was parked. A look-up that ends with it gives its reservations back.
    pub(super) fn take_parked(&mut self, now: Now, park: ParkId) -> Option<Parked> {
        let mut parked = self.parks.take(park, &mut self.wheel)?;
        if let Parked::Credential(_, pending) = &mut parked {
            let reserved = std::mem::take(&mut pending.reserved);
            self.shared.guard.looked_up(now.mono_ms, reserved);
        }
        Some(parked)
    }

    fn drop_parked(&mut self, parked: Parked) {
        match parked {
            Parked::Credential(job, _)
            | Parked::Held(job, ..)
            | Parked::Guess(job, _)
            | Parked::User(job)
            | Parked::Hook(job, _)
            | Parked::Single(job, ..) => {
                self.pool.recycle(job.request);
            }
            // An ACK has no transaction, and the rest has its context.
            Parked::Resolve(..) | Parked::Probe(_) | Parked::Trunk(_) | Parked::Media(_) => {}
        }
    }

    /// Answers a request that has failed, with the reason.
    pub(crate) fn fail_job(&mut self, now: Now, job: Job, outcome: Outcome, out: &mut Outputs) {
        self.answer_job(now, job, outcome.line(), out);
    }

    /// Answers a request through its transaction, if it has one.
    pub(crate) fn answer_job(&mut self, now: Now, job: Job, line: StatusLine, out: &mut Outputs) {
        let Job {
            request,
            sender,
            server,
            routed,
            record,
            ..
        } = job;
        if request.method() == Method::Ack {
            self.counters.requests_dropped += 1;
        } else {
            self.note_refused(now, record, &line, out);
            let status = line.status();
            // By its dialog's token it was for the other side, where that is not reached. A peer is
            // believed without one, and so is anybody where nobody proves who he is.
            let is_believed = routed.grant.is_some()
                || self.settings.authenticate.is_none()
                || self.is_listed_peers(&sender);
            self.note_hung_up(&request, status, |_| is_believed);
            self.note_bye_answered(now, &request, status, true, |_| false, out);
            if let Some(server) = server {
                self.txns.set_context(server, Owner::Nobody.encode());
            }
            self.answer(now, &sender, server, &request, line, out);
        }
        self.pool.recycle(request);
    }
}
