//! Third-party call control: commands to and of other instances, which make the
//! other half of the same calls.

use std::hash::BuildHasher;
use std::sync::Arc;

use crate::program::{CommandStep, Presence, Role, What};
use crate::scan;
use crate::stats::Counter;

use super::call::{Call, Verdict};
use super::{CallPath, Calls, Core, Event, NoCall, Outputs};

impl Calls {
    /// Gives a command of another instance to its call. False where it belongs to
    /// none and the scenario begins with it: [`Calls::start_by_command`] is next.
    pub fn receive_command(&mut self, now_ns: u64, text: &[u8], out: &mut Outputs) -> bool {
        if self.core.is_over {
            return true;
        }
        self.core.now_ns = now_ns;
        let Some(id) = scan::command_header(text, b"Call-ID").filter(|id| !id.is_empty()) else {
            self.core.warn(
                format!(
                    "a command without Call-ID: '{}'",
                    String::from_utf8_lossy(text)
                ),
                out,
            );
            return true;
        };
        let id = self.core.call_id(id);
        let hash = self.core.hasher.hash_one(id);
        if let Some(mut call) = self.find(hash, id).and_then(|slot| self.take(slot)) {
            let verdict = self.core.take_command(&mut call, text, out);
            self.put_back(call, verdict, out);
            return true;
        }
        if self.dead.hears(hash, now_ns / 1_000_000) {
            self.core.stats.count(Counter::DeadCallMessages);
            return true;
        }
        if self.core.program.role == Role::Commanded && self.accepts {
            return false;
        }
        self.core.stats.count(Counter::OutOfCallMessages);
        self.core.warn(
            format!(
                "a command that belongs to no call: '{}'",
                String::from_utf8_lossy(text)
            ),
            out,
        );
        true
    }

    /// Begins the call that a command is about; gives its number.
    pub fn start_by_command(
        &mut self,
        now_ns: u64,
        path: CallPath,
        text: &[u8],
        out: &mut Outputs,
    ) -> Result<u64, NoCall> {
        let mut call = self.open(now_ns, path)?;
        let id = scan::command_header(text, b"Call-ID").unwrap_or_default();
        call.id.clear();
        call.id.extend_from_slice(self.core.call_id(id));
        let number = call.number;
        self.enter(&mut call);
        let verdict = self.core.take_command(&mut call, text, out);
        self.put_back(call, verdict, out);
        Ok(number)
    }
}

impl Core {
    /// Sends a step's command.
    pub(super) fn send_command(
        &mut self,
        call: &mut Call,
        step: &CommandStep,
        out: &mut Outputs,
    ) -> Option<Verdict> {
        let mut text = Vec::new();
        // SIPp's number for what is no SIP message.
        self.render(call, &step.template, -1, &mut text);
        if let Some(why) = self.complaint.take() {
            self.end_run(Event::Fatal(why), out);
            return Some(Verdict::Gone);
        }
        out.events.push(Event::ToTwin {
            cookie: call.cookie,
            peer: step.dest,
            text,
        });
        self.stats.step(call.step).done += 1;
        None
    }

    /// Takes a command: for the next step that expects one, past what is
    /// optional and what only acts.
    fn take_command(&mut self, call: &mut Call, text: &[u8], out: &mut Outputs) -> Verdict {
        if says_abort(text) {
            self.warn(
                format!(
                    "the other instance aborted the call '{}'",
                    String::from_utf8_lossy(&call.id)
                ),
                out,
            );
            if self.settings.behaviors.bye {
                self.end_politely(call, None, out);
            }
            return Verdict::Aborted;
        }
        let program = Arc::clone(&self.program);
        let mut ahead = (call.step..).zip(program.steps.iter().skip(call.step as usize));
        let next = ahead.find(|(_, step)| match &step.what {
            What::Nop => false,
            What::Recv(recv) => recv.optional == Presence::Mandatory,
            _ => true,
        });
        let found = next.filter(|(_, step)| match &step.what {
            What::ReceiveCommand(expected) => expected
                .src
                .as_deref()
                .is_none_or(|src| scan::command_header(text, b"From") == Some(src)),
            _ => false,
        });
        let Some((index, step)) = found else {
            self.warn(
                format!(
                    "a command that step {} does not expect, or not of its sender: '{}'",
                    call.step,
                    String::from_utf8_lossy(text)
                ),
                out,
            );
            return Verdict::Failed(Counter::Rejected);
        };
        self.leave_pause(call);
        self.stats.step(index).done += 1;
        let mut text = text;
        while let Some(shorter) = text.strip_suffix(b"\r\n") {
            text = shorter;
        }
        match self.complete(call, index, step, Some(text), out) {
            Some(verdict) => verdict,
            None => self.run(call, out),
        }
    }

    /// Tells the other instance that the call ends before its time.
    pub(super) fn abort_twin(&self, call: &Call, out: &mut Outputs) {
        if self.program.twin.is_none() || !self.program.peers.is_empty() || call.step == 0 {
            return;
        }
        let mut text = b"call-id: ".to_vec();
        text.extend_from_slice(&call.id);
        text.extend_from_slice(b"\r\ninternal-cmd: abort_call\r\n\r\n");
        out.events.push(Event::ToTwin {
            cookie: call.cookie,
            peer: None,
            text,
        });
    }
}

fn says_abort(text: &[u8]) -> bool {
    scan::command_header(text, b"internal-cmd")
        .and_then(|command| command.split(u8::is_ascii_whitespace).next())
        .is_some_and(|command| command == b"abort_call")
}
