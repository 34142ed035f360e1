//! Walks through the steps, until the call waits or ends.

use std::sync::Arc;

use invariant::broken;

use crate::program::{Pause, Step, What};
use crate::scan::Received;
use crate::stats::Counter;
use crate::value::Value;

use super::act::Acted;
use super::call::{Alarm, Call, Timer, Txn, Verdict, Waits};
use super::{Core, Event, Outputs};

/// Steps that a call makes without waiting; a scenario that needs more goes in
/// a circle.
const STEPS_MAX: usize = 100_000;
/// Messages that a call sends before others have their turn.
const SENDS_MAX: usize = 64;

impl Core {
    /// Gives a new call what is its own.
    pub(super) fn begin(&mut self, call: &mut Call) {
        self.call_count += 1;
        call.number = self.call_count;
        call.cseq = self.settings.base_cseq.wrapping_sub(1);
        call.started_ns = self.now_ns;
        let program = Arc::clone(&self.program);
        for value in &mut call.variables {
            // Texts keep their memory only while they hold something.
            *value = Value::Unset;
        }
        call.variables
            .resize(program.variables.call.len(), Value::Unset);
        call.txns.resize(program.transactions.len(), Txn::default());
        call.rtd_started_ns.resize(program.rtds.len(), self.now_ns);
        for file in &mut self.files {
            call.lines.push(file.next_line(call.user, &mut self.random));
        }
        self.choose_listener(call);
    }

    /// The next `[dynamic_id]`: another one at each place that has it.
    pub(super) fn next_dynamic_id(&mut self) -> u32 {
        let (first, last, step) = self.settings.dynamic_id;
        let id = self.dynamic_id;
        self.dynamic_id = match id.checked_add(step) {
            Some(next) if next <= last => next,
            _ => first,
        };
        id
    }

    /// The listener whose address stands in the call's line (`-t ui`).
    fn choose_listener(&mut self, call: &mut Call) {
        let (Some(column), Some(file), Some(&line)) = (
            self.settings.ip_field,
            self.files.first(),
            call.lines.first(),
        ) else {
            return;
        };
        let mut text = Vec::new();
        file.write_field(line, column, &mut text);
        let ip = std::str::from_utf8(&text)
            .ok()
            .and_then(|text| text.trim().parse::<std::net::IpAddr>().ok());
        let found = self
            .settings
            .locals
            .iter()
            .position(|local| Some(local.ip()) == ip);
        if let Some(listener) = found.and_then(|index| u16::try_from(index).ok()) {
            call.target.listener = sip_msg::ListenerId(listener);
        }
    }

    /// Goes on until the call waits or ends.
    pub(super) fn run(&mut self, call: &mut Call, out: &mut Outputs) -> Verdict {
        let program = Arc::clone(&self.program);
        let mut sent = 0;
        while call.steps_made < STEPS_MAX {
            call.steps_made += 1;
            let Some(step) = program.steps.get(call.step as usize) else {
                return Verdict::Succeeded;
            };
            if let Some(condition) = step.condexec
                && self.scopes(call).get(condition).is_set() == step.condexec_inverse
            {
                // What is left out still says where to go on.
                call.step = self.next_step(call, call.step, step);
                continue;
            }
            let mut message = None;
            match &step.what {
                What::Recv(_) | What::ReceiveCommand(_) => {
                    self.await_message(call, step);
                    return self.take_first(call, step, out);
                }
                What::Pause(pause) => return self.pause(call, step, pause, out),
                What::Send(_) | What::SendCommand(_) if call.resending.alarm.serial != 0 => {
                    // Nothing else is sent until what is being sent again is
                    // answered.
                    call.waits = Waits::Answer;
                    call.steps_made = 0;
                    return Verdict::Waits;
                }
                What::Send(_) | What::SendCommand(_) if sent == SENDS_MAX => {
                    call.waits = Waits::Turn;
                    self.stop_alarm(&mut call.alarm);
                    call.alarm = self.start_alarm(call.slot, 0);
                    return Verdict::Waits;
                }
                What::Send(send) => {
                    sent += 1;
                    if let Some(verdict) = self.send(call, step, send, out) {
                        return verdict;
                    }
                    message = Some(std::mem::take(&mut self.sent));
                }
                What::SendCommand(command) => {
                    sent += 1;
                    if let Some(verdict) = self.send_command(call, command, out) {
                        return verdict;
                    }
                }
                What::Nop => self.stats.step(call.step).done += 1,
            }
            let verdict = self.complete(call, call.step, step, message.as_deref(), out);
            if let Some(message) = message {
                self.sent = message;
            }
            if let Some(verdict) = verdict {
                return verdict;
            }
        }
        self.warn(
            format!(
                "call {}: {STEPS_MAX} steps without waiting for anything",
                call.number
            ),
            out,
        );
        Verdict::Failed(Counter::Rejected)
    }

    /// Takes the message that began the call, where it was kept for this step: the first
    /// that waits for one.
    fn take_first(&mut self, call: &mut Call, step: &Step, out: &mut Outputs) -> Verdict {
        if call.first_received.is_empty() || !matches!(step.what, What::Recv(_)) {
            return Verdict::Waits;
        }
        let first = std::mem::take(&mut call.first_received);
        match Received::read(&first) {
            Some(received) => self.take_message(call, &received, out),
            None => broken!("a message that began a call was read", Verdict::Waits),
        }
    }

    /// A step was done: times, actions, and where to go on. A verdict ends the call.
    pub(super) fn complete(
        &mut self,
        call: &mut Call,
        index: u32,
        step: &Step,
        message: Option<&[u8]>,
        out: &mut Outputs,
    ) -> Option<Verdict> {
        call.step = match self.do_as_told(call, step, message, out) {
            Acted::Done => self.next_step(call, index, step),
            Acted::Jumped(target) => target,
            Acted::Ends(verdict) => return Some(verdict),
        };
        None
    }

    /// Takes a step's times and does its actions. As in SIPp, the call still stands where it
    /// stood: there a `<recv>` may be a later step than the one that the call waits at.
    pub(super) fn do_as_told(
        &mut self,
        call: &mut Call,
        step: &Step,
        message: Option<&[u8]>,
        out: &mut Outputs,
    ) -> Acted {
        self.keep_times(call, step, out);
        if step.actions.is_empty() {
            return Acted::Done;
        }
        self.act(call, step, message, out)
    }

    /// Where a call goes on behind a step.
    pub(super) fn next_step(&mut self, call: &mut Call, index: u32, step: &Step) -> u32 {
        let behind = index.saturating_add(1);
        let Some(target) = step.next else {
            return behind;
        };
        if step
            .test
            .is_some_and(|test| !self.scopes(call).get(test).is_set())
        {
            return behind;
        }
        match step.chance {
            Some(chance) if self.random.unit() >= chance => behind,
            _ => target,
        }
    }

    fn keep_times(&mut self, call: &mut Call, step: &Step, out: &mut Outputs) {
        if let Some(counter) = step.counter
            && let Some(count) = self.stats.own.get_mut(usize::from(counter))
        {
            *count += 1;
        }
        if let Some(rtd) = step.start_rtd
            && let Some(started) = call.rtd_started_ns.get_mut(usize::from(rtd))
        {
            *started = self.now_ns;
        }
        // Once it was taken it is not taken again, though it may begin anew.
        if let Some(rtd) = step.stop_rtd {
            let bit = 1u64 << (rtd % 64);
            if call.rtd_done & bit == 0 {
                if !step.repeat_rtd {
                    call.rtd_done |= bit;
                }
                self.take_time(call, rtd, out);
            }
        }
    }

    fn take_time(&mut self, call: &Call, rtd: u8, out: &mut Outputs) {
        let index = usize::from(rtd);
        let Some(started) = call.rtd_started_ns.get(index) else {
            return broken!("a call has a time for each rtd of its program");
        };
        let ns = self.now_ns.saturating_sub(*started);
        let ms = ns as f64 / 1e6;
        if let Some(spread) = self.stats.response_times.get_mut(index) {
            spread.add(ms);
        }
        if let Some(classes) = self.stats.response_classes.get_mut(index) {
            classes.add(ms);
        }
        if self.settings.tells_rtts {
            out.events.push(Event::Rtt { rtd, ns });
        }
    }

    /// Waits for a message: as long as the step at which the call stands says, else as
    /// long as all are waited for. What later steps say counts once the call stands there.
    fn await_message(&mut self, call: &mut Call, step: &Step) {
        call.waits = Waits::Message;
        call.steps_made = 0;
        self.stop_alarm(&mut call.alarm);
        let own_ms = match &step.what {
            What::Recv(recv) => recv.timeout_ms.map(u64::from),
            _ => None,
        };
        if let Some(ms) = own_ms.or(self.settings.recv_timeout_ms) {
            call.alarm = self.start_alarm(call.slot, ms);
        }
    }

    /// Begins a pause. All that its step says is done now, but where to go on.
    fn pause(&mut self, call: &mut Call, step: &Step, pause: &Pause, out: &mut Outputs) -> Verdict {
        let ms = match pause {
            Pause::Default | Pause::TimeWait(None) => self.settings.pause_ms as f64,
            Pause::Variable(variable) => self.scopes(call).get(*variable).number(),
            Pause::Of(distribution) | Pause::TimeWait(Some(distribution)) => {
                distribution.draw(&mut self.random)
            }
        };
        self.stats.step(call.step).done += 1;
        let jumps_to = match self.do_as_told(call, step, None, out) {
            Acted::Done => None,
            Acted::Jumped(target) => Some(target),
            Acted::Ends(verdict) => return verdict,
        };
        call.waits = Waits::Pause;
        call.jumps_to = jumps_to;
        call.steps_made = 0;
        self.stats.step(call.step).sessions += 1;
        // What is below zero, or no number, is no pause.
        call.alarm = self.start_alarm(call.slot, ms.max(0.0) as u64);
        Verdict::Waits
    }

    /// A timer of a call has fired.
    pub(super) fn timer(&mut self, call: &mut Call, timer: Timer, out: &mut Outputs) -> Verdict {
        if call.resending.alarm.serial == timer.serial {
            call.resending.alarm = Alarm::default();
            return self.resend(call, out);
        }
        if call.alarm.serial != timer.serial {
            // One that was stopped while it was on its way.
            return Verdict::Waits;
        }
        call.alarm = Alarm::default();
        match call.waits {
            Waits::Pause => {
                let program = Arc::clone(&self.program);
                let Some(step) = program.steps.get(call.step as usize) else {
                    return broken!("a call pauses at a step", Verdict::Succeeded);
                };
                let jumps_to = call.jumps_to;
                self.leave_pause(call);
                call.step = match jumps_to {
                    Some(target) => target,
                    None => self.next_step(call, call.step, step),
                };
                self.run(call, out)
            }
            Waits::Turn => self.run(call, out),
            Waits::Message => self.time_out(call, out),
            Waits::Answer | Waits::Nothing => Verdict::Waits,
        }
    }

    /// The pause is over, or broken off.
    pub(super) fn leave_pause(&mut self, call: &mut Call) {
        if call.waits == Waits::Pause {
            let counts = self.stats.step(call.step);
            counts.sessions = counts.sessions.saturating_sub(1);
        }
        call.waits = Waits::Nothing;
        call.jumps_to = None;
        self.stop_alarm(&mut call.alarm);
    }

    /// Whether the call is over, and only answers what comes again.
    pub(super) fn only_lingers(&self, call: &Call) -> bool {
        let step = self.program.steps.get(call.step as usize);
        call.waits == Waits::Pause
            && step.is_some_and(|step| matches!(step.what, What::Pause(Pause::TimeWait(_))))
    }

    /// No message came in time.
    fn time_out(&mut self, call: &mut Call, out: &mut Outputs) -> Verdict {
        call.waits = Waits::Nothing;
        self.stats.step(call.step).timeouts += 1;
        let program = Arc::clone(&self.program);
        let step = program.steps.get(call.step as usize);
        // A label behind the last step: the call ends, as failed.
        let label = step
            .and_then(|step| step.on_timeout)
            .filter(|label| (*label as usize) < program.steps.len());
        let id = String::from_utf8_lossy(&call.id);
        if let Some(label) = label {
            self.warn(
                format!(
                    "Call-Id: {id}, receive timeout on message {}, jumping to step {label}",
                    call.step
                ),
                out,
            );
            call.step = label;
            self.stop_resending(call);
            return self.run(call, out);
        }
        self.warn(
            format!(
                "Call-Id: {id}, receive timeout on message {} without a step to go on at \
             (ontimeout attribute): aborting call",
                call.step
            ),
            out,
        );
        if self.settings.behaviors.bye {
            self.end_politely(call, None, out);
        }
        Verdict::Failed(Counter::TimeoutOnRecv)
    }

    /// A call is over.
    pub(super) fn end(&mut self, call: &mut Call, verdict: Verdict, out: &mut Outputs) {
        let verdict = match (verdict, call.failure) {
            (Verdict::Succeeded, Some(counter)) => Verdict::Failed(counter),
            (verdict, _) => verdict,
        };
        self.leave_pause(call);
        self.stop_resending(call);
        match verdict {
            Verdict::Waits | Verdict::Gone => {}
            Verdict::Succeeded => self.stats.count(Counter::Successful),
            Verdict::Aborted => self.stats.count(Counter::Failed),
            Verdict::HungUp => {
                self.stats.count(Counter::Failed);
                self.stats.count(Counter::UnexpectedMessage);
            }
            Verdict::Stopped => {
                self.stats.count(Counter::Failed);
                self.stats.count(Counter::Rejected);
            }
            Verdict::Failed(counter) => {
                self.stats.count(Counter::Failed);
                self.stats.count(counter);
            }
        }
        if verdict != Verdict::Gone {
            let ms = self.now_ns.saturating_sub(call.started_ns) as f64 / 1e6;
            self.stats.call_lengths.add(ms);
            self.stats.call_classes.add(ms);
        }
        if let Some(user) = call.user.take() {
            self.free_users.push_front(user);
        }
        call.live = false;
        out.events.push(Event::Ended {
            number: call.number,
            is_success: verdict == Verdict::Succeeded,
            target: call.target.0.clone(),
        });
    }
}
