//! The called side: it rings, answers, and lets the other side hang up.

use sip_dialog::CallKey;
use sip_msg::{ListenerId, Method};
use smime::OpenError;

use super::jobs::{CallSlot, NO_SEAT};
use super::{Due, Worker};
use crate::cause::of_body;
use crate::clock::{ms_after, to_ms};
use crate::smime::Smime;

impl Worker {
    /// One agent for each listener takes whatever comes there.
    pub(super) fn add_called_side(&mut self) -> Result<(), String> {
        let Some(first) = self.role.answering else {
            return Ok(());
        };
        let shared = std::sync::Arc::clone(&self.shared);
        for (offset, (transport, _)) in (0u16..).zip(&shared.settings.answering.listen) {
            let listener = ListenerId(first.0 + offset);
            let config = self
                .called_agent(listener, *transport)
                .ok_or("the called side has no socket")?;
            let agent = self
                .agents
                .add_agent(&config)
                .ok_or("the called side has no room")?;
            let security = self.shared.smime.as_ref().map(Smime::of_called);
            self.agents.secure_bodies(agent, security);
            self.agents.set_catch_all(listener, agent);
        }
        Ok(())
    }

    pub(super) fn on_incoming(&mut self, call: CallKey, at_ns: u64) {
        self.record.called.incoming += 1;
        let answering = &self.shared.settings.answering;
        let now_ms = to_ms(at_ns);
        if let Some(status) = answering.reject {
            self.agents.reject(now_ms, call, status, &mut self.outbox);
            return;
        }
        self.jobs.keep_call(CallSlot {
            key: call,
            is_caller: false,
            seat: NO_SEAT,
            intended_ns: at_ns,
            sent_ns: at_ns,
            first_status_ns: 0,
            answered_ns: 0,
            bye_intended_ns: 0,
            bye_sent_ns: 0,
        });
        let ring_ms = answering.ring.draw_ms(&mut self.dice);
        self.agents.ring(now_ms, call, &mut self.outbox);
        if ring_ms == 0 {
            self.answer(call, at_ns);
        } else {
            self.agenda
                .start(ms_after(at_ns, ring_ms), Due::Answer(call));
        }
    }

    /// A call or a MESSAGE was refused for its body.
    pub(super) fn on_body_refused(&mut self, method: Method, error: OpenError) {
        if method == Method::Invite {
            self.record.called.incoming += 1;
        }
        self.record.called_failed(of_body(error));
    }

    pub(super) fn answer(&mut self, call: CallKey, now_ns: u64) {
        if let Some(slot) = self.jobs.call(call)
            && !slot.is_caller
        {
            self.agents
                .answer(to_ms(now_ns), call, None, &mut self.outbox);
        }
    }
}
