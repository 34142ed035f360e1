//! Sending, and sending again.

use invariant::broken;

use crate::program::{SendStep, Step, What};
use crate::scan;
use crate::stats::Counter;
use crate::template::Kind;

use super::call::{Alarm, Call, Resending, Timer, Verdict};
use super::{Core, Event, Outputs};

impl Core {
    /// Sends a step's message, and keeps it where the step has actions; a verdict ends the
    /// call.
    pub(super) fn send(
        &mut self,
        call: &mut Call,
        step: &Step,
        send: &SendStep,
        out: &mut Outputs,
    ) -> Option<Verdict> {
        let mut is_invite = false;
        if let Kind::Request(method) = &send.kind {
            match method.as_slice() {
                b"ACK" => {
                    call.is_confirmed |= call.owes_ack;
                    call.owes_ack = false;
                    call.is_inviting = false;
                }
                b"CANCEL" => {}
                method => {
                    call.cseq = call.cseq.wrapping_add(1);
                    is_invite = method == b"INVITE";
                    call.is_inviting = is_invite;
                }
            }
        }
        let start = out.outbox.bytes.len();
        self.render(
            call,
            &send.template,
            i64::from(call.step),
            &mut out.outbox.bytes,
        );
        if let Some(why) = self.complaint.take() {
            out.outbox.bytes.truncate(start);
            self.end_run(Event::Fatal(why), out);
            return Some(Verdict::Failed(Counter::Rejected));
        }
        let message = out.outbox.bytes.get(start..).unwrap_or_default();
        keep_txns(call, send, message);
        self.sent.clear();
        if !step.actions.is_empty() {
            self.sent.extend_from_slice(message);
        }
        let is_datagram = !self.settings.transport.is_reliable();
        if is_datagram {
            call.last_sent.clear();
            call.last_sent.extend_from_slice(message);
            call.last_sent_step = call.step;
            // What was received just before, and comes again, was lost on its
            // way back: this message is the answer.
            call.answered_hash = std::mem::take(&mut call.seen_hash);
            call.answered_step = call.seen_step;
        }
        if self.is_lost(step) {
            out.outbox.bytes.truncate(start);
            self.stats.step(call.step).lost += 1;
        } else {
            out.outbox
                .send_since(start, call.target.0.clone(), call.cookie);
        }
        self.stats.step(call.step).done += 1;
        if let Some(delay_ms) = send.retrans_ms
            && is_datagram
            && self.settings.retransmits
        {
            call.resending = Resending {
                alarm: Alarm::default(),
                delay_ms: u64::from(delay_ms),
                count: 0,
                is_invite,
                step: call.step,
            };
            self.arm_resending(call);
        }
        None
    }

    /// Sends the last message once more.
    pub(super) fn send_again(&mut self, call: &mut Call, out: &mut Outputs) {
        self.stats.count(Counter::Retransmissions);
        self.stats.step(call.last_sent_step).retransmitted += 1;
        let program = std::sync::Arc::clone(&self.program);
        let step = program.steps.get(call.last_sent_step as usize);
        if step.is_some_and(|step| self.is_lost(step)) {
            self.stats.step(call.last_sent_step).lost += 1;
            return;
        }
        out.outbox
            .send_copy(&call.last_sent, call.target.0.clone(), call.cookie);
    }

    /// Writes the ACK of a transaction anew and sends it.
    pub(super) fn send_ack_again(&mut self, call: &mut Call, step: u32, out: &mut Outputs) {
        let program = std::sync::Arc::clone(&self.program);
        let Some(What::Send(send)) = program.steps.get(step as usize).map(|step| &step.what) else {
            return broken!("an ACK's step is one that sends");
        };
        let start = out.outbox.bytes.len();
        self.render(call, &send.template, i64::from(step), &mut out.outbox.bytes);
        if let Some(why) = self.complaint.take() {
            out.outbox.bytes.truncate(start);
            self.warn(
                format!("call {}: an ACK was not sent again: {why}", call.number),
                out,
            );
            return;
        }
        out.outbox
            .send_since(start, call.target.0.clone(), call.cookie);
        // Nobody waited for it in vain: it counts at its step alone.
        self.stats.step(step).retransmitted += 1;
    }

    /// The time to send again has come.
    pub(super) fn resend(&mut self, call: &mut Call, out: &mut Outputs) -> Verdict {
        let max = if call.resending.is_invite {
            self.settings.invite_retransmissions_max
        } else {
            self.settings.retransmissions_max
        };
        call.resending.count += 1;
        if call.resending.count > max {
            return self.give_up(call, out);
        }
        self.send_again(call, out);
        let doubled = call.resending.delay_ms.saturating_mul(2);
        call.resending.delay_ms = if call.resending.is_invite {
            doubled
        } else {
            doubled.min(self.settings.t2_ms)
        };
        self.arm_resending(call);
        Verdict::Waits
    }

    /// Nobody answered what was sent again and again.
    fn give_up(&mut self, call: &mut Call, out: &mut Outputs) -> Verdict {
        let index = call.resending.step;
        self.stats.step(index).timeouts += 1;
        call.resending = Resending::default();
        let program = std::sync::Arc::clone(&self.program);
        // A label behind the last step: the call ends, as failed.
        let label = program
            .steps
            .get(index as usize)
            .and_then(|step| step.on_timeout)
            .filter(|label| (*label as usize) < program.steps.len());
        let id = String::from_utf8_lossy(&call.id);
        if let Some(label) = label {
            self.warn(
                format!(
                    "Call-Id: {id}, timeout on max UDP retrans for message {index}, \
                 jumping to step {label}"
                ),
                out,
            );
            self.leave_pause(call);
            call.step = label;
            return self.run(call, out);
        }
        self.warn(
            format!("Aborting call on UDP retransmission timeout for Call-ID '{id}'"),
            out,
        );
        if self.settings.behaviors.bye {
            self.end_politely(call, None, out);
        }
        Verdict::Failed(Counter::MaxUdpRetransmissions)
    }

    /// What is being sent again was answered for now: it goes on, but slowly.
    pub(super) fn slow_resending(&mut self, call: &mut Call) {
        if call.resending.alarm.serial != 0 {
            self.stop_alarm(&mut call.resending.alarm);
            call.resending.delay_ms = self.settings.t2_ms;
            self.arm_resending(call);
        }
    }

    fn arm_resending(&mut self, call: &mut Call) {
        let delay_ms = call.resending.delay_ms;
        call.resending.alarm = self.start_alarm(call.slot, delay_ms);
    }

    /// What was sent is answered.
    pub(super) fn stop_resending(&mut self, call: &mut Call) {
        self.stop_alarm(&mut call.resending.alarm);
    }

    pub(super) fn start_alarm(&mut self, slot: u32, delay_ms: u64) -> Alarm {
        self.timer_serial = self.timer_serial.wrapping_add(1).max(1);
        let serial = self.timer_serial;
        let deadline_ms = (self.now_ns / 1_000_000).saturating_add(delay_ms);
        let id = self.wheel.start(deadline_ms, Timer { slot, serial });
        Alarm { id, serial }
    }

    pub(super) fn stop_alarm(&mut self, alarm: &mut Alarm) {
        if alarm.serial != 0 {
            self.wheel.cancel(alarm.id);
            *alarm = Alarm::default();
        }
    }

    /// Whether chance has it that a message of this step is lost.
    pub(super) fn is_lost(&mut self, step: &Step) -> bool {
        let share = step.lost.unwrap_or(self.settings.lost);
        share > 0.0 && self.random.unit() < share
    }
}

/// Keeps which request began a transaction, and which step is its ACK.
fn keep_txns(call: &mut Call, send: &SendStep, message: &[u8]) {
    let begun = send.start_txn.map(usize::from);
    if let Some(txn) = begun.and_then(|n| call.txns.get_mut(n)) {
        txn.branch.clear();
        txn.branch.extend_from_slice(scan::branch(message));
        txn.ack_step = None;
        txn.response_hash = 0;
    }
    let acked = send.ack_txn.map(usize::from);
    if let Some(txn) = acked.and_then(|n| call.txns.get_mut(n)) {
        txn.ack_step = Some(call.step);
    }
}
