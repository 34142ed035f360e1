//! What happened, and what follows of it: figures are taken, calls hung up,
//! seats freed.

use measure::{Failure, Setup};
use sip_dialog::{AgentKey, CallKey, Cause, Event, RequestKey};

use super::connections::REOPEN_MS;
use super::jobs::{CallSlot, Purpose};
use super::{Due, Input, Stage, Unsent, Worker};
use crate::cause::{UNFINISHED, of_transport};
use crate::clock::{ms_after, to_ms};
use crate::mix::Flow;
use crate::settings::Lifetime;

impl Worker {
    pub(super) fn handle(&mut self, what: Input) {
        match what {
            Input::Sip { at_ns, event, why } => self.handle_event(at_ns, event, why),
            Input::Opened { at_ns, flow } => self.handle_opened(at_ns, &flow),
            Input::Closed { conn, why } => self.handle_closed(conn, why),
        }
    }

    fn handle_event(&mut self, at_ns: u64, event: Event, why: Option<&'static str>) {
        match event {
            Event::Provisional { call, .. } => {
                if let Some(slot) = self.jobs.call(call)
                    && slot.first_status_ns == 0
                {
                    slot.first_status_ns = at_ns;
                }
            }
            Event::Answered { call } => self.on_answered(call, at_ns),
            Event::Ended { call, cause } => self.on_ended(call, cause, why, at_ns),
            Event::Failed { call, cause } => self.on_failed(call, cause, why, at_ns),
            Event::Incoming { call, .. } => self.on_incoming(call, at_ns),
            Event::BodyRefused { method, error, .. } => self.on_body_refused(method, error),
            Event::Established { .. } => self.record.called.established += 1,
            Event::Received { .. } => self.record.called.received += 1,
            Event::Registered {
                agent,
                request,
                expires_s,
            } => {
                self.on_reply(agent, request, Ok(expires_s), at_ns);
            }
            Event::RegisterFailed {
                agent,
                request,
                cause,
            } => {
                self.on_reply(agent, request, Err(Self::failure(cause, why)), at_ns);
            }
            Event::Replied {
                agent,
                request,
                cause,
            } => {
                let result = match cause {
                    Cause::Status(200..=299) => Ok(0),
                    cause => Err(Self::failure(cause, why)),
                };
                self.on_reply(agent, request, result, at_ns);
            }
            // The sockets told it with its reason.
            Event::Disconnected { .. } => {}
        }
    }

    fn on_answered(&mut self, call: CallKey, at_ns: u64) {
        let hold_ms = self.shared.settings.hold.draw_ms(&mut self.dice);
        let Some(slot) = self.jobs.call(call) else {
            return;
        };
        slot.answered_ns = at_ns;
        let first_status_ns = (slot.first_status_ns > 0).then_some(slot.first_status_ns);
        let times = Setup {
            intended_ns: slot.intended_ns,
            sent_ns: slot.sent_ns,
            first_status_ns,
            done_ns: at_ns,
        };
        slot.bye_intended_ns =
            at_ns.saturating_add(hold_ms.saturating_mul(crate::clock::NS_PER_MS));
        self.record.figures.invite_answered(200, &times);
        self.record
            .second
            .answered(times.intended_ns, first_status_ns.unwrap_or(at_ns));
        if hold_ms == 0 || self.order() != super::orders::RUN {
            self.hang_up(call, at_ns);
        } else {
            self.agenda
                .start(ms_after(at_ns, hold_ms), Due::HangUp(call));
        }
    }

    /// Ends a call of ours that was answered.
    pub(super) fn hang_up(&mut self, call: CallKey, now_ns: u64) {
        let Some(slot) = self.jobs.call(call) else {
            return;
        };
        if slot.bye_sent_ns > 0 || slot.answered_ns == 0 {
            return;
        }
        slot.bye_sent_ns = now_ns.max(1);
        slot.bye_intended_ns = slot.bye_intended_ns.min(now_ns);
        let number = slot.seat;
        // Where it has no connection any more, it fails with that cause.
        let _ = self.connect(number, now_ns);
        self.record.figures.bye_sent();
        self.unsent.push(Unsent::Bye(call));
        self.agents.hang_up(to_ms(now_ns), call, &mut self.outbox);
    }

    fn on_ended(&mut self, call: CallKey, cause: Cause, why: Option<&'static str>, at_ns: u64) {
        let Some(slot) = self.jobs.take_call(call) else {
            self.leaving.remove(&call);
            return;
        };
        if !slot.is_caller {
            match cause {
                Cause::PeerHungUp => self.record.called.ended += 1,
                cause => self.record.called_failed(Self::failure(cause, why)),
            }
            return;
        }
        if slot.answered_ns == 0 {
            // It was given up, and a 2xx crossed the CANCEL: the agents sent ACK
            // and BYE, and never told that it was answered. What the BYE came to
            // is not why the call failed.
            let given_up = match cause {
                Cause::Status(_) => Cause::Cancelled,
                other => other,
            };
            let failure = Self::failure(given_up, why);
            self.record.figures.invite_failed(failure);
            self.record.fail(failure);
            self.leave(slot.seat);
            return;
        }
        match cause {
            Cause::HungUp => {
                self.record.figures.bye_ok(
                    slot.answered_ns,
                    slot.bye_intended_ns,
                    slot.bye_sent_ns,
                    at_ns,
                );
                self.record.succeed();
            }
            Cause::PeerHungUp => {
                // Ended by the other side: a session that was completed.
                self.record.figures.completed += 1;
                self.record
                    .figures
                    .sdt
                    .record(slot.answered_ns, slot.answered_ns, at_ns);
                self.record.succeed();
            }
            cause => {
                let sent_ns = if slot.bye_sent_ns > 0 {
                    slot.bye_sent_ns
                } else {
                    at_ns
                };
                self.record.figures.bye_failed(
                    slot.answered_ns,
                    slot.bye_intended_ns.min(sent_ns),
                    sent_ns,
                    at_ns,
                );
                self.record.fail(bye_failure(cause, why));
            }
        }
        self.leave(slot.seat);
    }

    fn on_failed(&mut self, call: CallKey, cause: Cause, why: Option<&'static str>, at_ns: u64) {
        let Some(slot) = self.jobs.take_call(call) else {
            self.leaving.remove(&call);
            return;
        };
        if !slot.is_caller {
            self.record.called_failed(Self::failure(cause, why));
            return;
        }
        let failure = Self::failure(cause, why);
        match failure {
            Failure::Status(status) => {
                let times = Setup {
                    intended_ns: slot.intended_ns,
                    sent_ns: slot.sent_ns,
                    first_status_ns: None,
                    done_ns: at_ns,
                };
                self.record.figures.invite_answered(status, &times);
            }
            other => self.record.figures.invite_failed(other),
        }
        match failure {
            Failure::Status(status @ 300..=399) => self.record.redirect(status),
            failure => self.record.fail(failure),
        }
        self.leave(slot.seat);
    }

    /// A REGISTER, OPTIONS or MESSAGE is over; with the time that was granted.
    fn on_reply(
        &mut self,
        _agent: AgentKey,
        request: RequestKey,
        result: Result<u32, Failure>,
        at_ns: u64,
    ) {
        let Some(slot) = self.jobs.take_request(request) else {
            return;
        };
        let Purpose::Arrival(flow) = slot.purpose else {
            self.registered(&slot, result, at_ns);
            return;
        };
        match result {
            Ok(expires_s) => {
                match flow {
                    Flow::Register => {
                        self.record
                            .figures
                            .register_ok(slot.intended_ns, slot.sent_ns, at_ns)
                    }
                    other => {
                        let figures = self.record.figures.request(other.name());
                        figures.ok += 1;
                        figures.delay.record(slot.intended_ns, slot.sent_ns, at_ns);
                    }
                }
                if flow.is_register() {
                    self.note_registration(slot.seat, expires_s > 0);
                    self.storm_registered(slot.seat, at_ns);
                }
                self.record.second.answered(slot.intended_ns, at_ns);
                self.record.succeed();
            }
            Err(failure) => self.record.failed(flow, failure),
        }
        self.leave(slot.seat);
    }

    pub(super) fn do_due(&mut self, now_ns: u64, what: Due) {
        match what {
            Due::Storm if self.stage == Stage::Running => self.storm(now_ns),
            Due::Storm => {}
            Due::HangUp(call) => self.hang_up(call, now_ns),
            Due::Answer(call) => self.answer(call, now_ns),
            Due::Refresh(number) => {
                if !self.is_kept_up(number) {
                    return;
                }
                let is_connected = self.connect(number, now_ns).is_ok();
                // Where his port is new he registers once he knows it (`welcome`).
                let is_moving = self.shared.settings.lifetime == Lifetime::Agent
                    && self.opening(number).is_some();
                if !is_connected || is_moving || !self.register(number, Purpose::Refresh, now_ns) {
                    self.refresh_soon(number, now_ns);
                }
            }
            Due::Reopen(number) => {
                let has_conn = self
                    .seats
                    .at(number)
                    .is_some_and(|seat| seat.conn.is_some());
                if !has_conn && self.is_kept_up(number) && self.connect(number, now_ns).is_err() {
                    self.agenda
                        .start(to_ms(now_ns) + REOPEN_MS, Due::Reopen(number));
                }
            }
        }
    }

    /// The run was interrupted: what is held is hung up, what rings is cancelled.
    pub(super) fn hang_up_all(&mut self, now_ns: u64) {
        let calls: Vec<CallSlot> = self
            .jobs
            .calls()
            .filter(|slot| slot.is_caller && slot.bye_sent_ns == 0)
            .copied()
            .collect();
        for slot in calls {
            if slot.answered_ns > 0 {
                self.hang_up(slot.key, now_ns);
            } else {
                self.agents
                    .hang_up(to_ms(now_ns), slot.key, &mut self.outbox);
            }
        }
    }

    /// What is not over will not be: each is a failure. Those who called are still to hear of
    /// it from the other side.
    pub(super) fn give_up_all(&mut self) {
        let calls: Vec<CallSlot> = self.jobs.calls().copied().collect();
        for slot in calls {
            self.jobs.take_call(slot.key);
            if !slot.is_caller {
                self.record.called_failed(UNFINISHED);
                continue;
            }
            self.leaving.insert(slot.key);
            if slot.answered_ns == 0 {
                self.record.figures.invite_failed(UNFINISHED);
            } else {
                self.record.figures.byes_failed += 1;
            }
            self.record.fail(UNFINISHED);
        }
        let requests: Vec<_> = self.jobs.requests().copied().collect();
        for slot in requests {
            self.jobs.take_request(slot.key);
            if let Purpose::Arrival(flow) = slot.purpose {
                self.record.failed(flow, UNFINISHED);
            }
        }
    }
}

/// Why a call that was set up did not end well.
fn bye_failure(cause: Cause, why: Option<&'static str>) -> Failure {
    match (cause, why) {
        (Cause::Timeout, _) => Failure::Other("bye timeout"),
        (Cause::Status(status), _) => Failure::Other(match status {
            401 | 407 => "bye challenged",
            403 => "bye status 403",
            404 => "bye status 404",
            408 => "bye status 408",
            481 => "bye status 481",
            482 => "bye status 482",
            483 => "bye status 483",
            500 => "bye status 500",
            503 => "bye status 503",
            _ => "bye refused",
        }),
        (Cause::Transport, Some(why)) => of_transport(why),
        (Cause::Transport, None) => Failure::Broken("bye transport"),
        (Cause::NoAck, _) => Failure::Other("no ack"),
        _ => Failure::Other("bye failed"),
    }
}
