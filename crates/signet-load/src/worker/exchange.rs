//! What goes to the sockets and what comes from them.

use std::time::Duration;

use sip_dialog::UserAgents;
use sip_msg::Limits;
use sip_net::NetEvent;

use super::{Input, NAP_NS, Worker};
use crate::cause::{of_close, of_handshake, of_send, of_upgrade};
use crate::clock::{NS_PER_MS, to_ms};

impl Worker {
    /// Sends what is in the outbox, and notes when.
    pub(super) fn send(&mut self) {
        if self.outbox.sends.is_empty() {
            return;
        }
        self.net.send_outbox(&self.outbox);
        self.outbox.clear();
        // Before the kernel has it: what it takes to hand over a batch counts
        // as the server's, never the other way round.
        let now_ns = self.clock.now_ns();
        self.net.flush();
        let mut unsent = std::mem::take(&mut self.unsent);
        for what in unsent.drain(..) {
            let seat = self.mark_sent(what, now_ns);
            if let Some(conn) = seat.and_then(|number| self.opening(number)) {
                self.waiting.add(conn, what);
            }
        }
        self.unsent = unsent;
    }

    /// Waits until something arrives or is due, and does what follows of it.
    pub(super) fn exchange(&mut self) -> Result<(), String> {
        let wait_ns = self.wait_ns();
        let timeout = if wait_ns >= NS_PER_MS {
            Duration::from_millis(to_ms(wait_ns))
        } else {
            // The sockets wait in whole milliseconds. An arrival must not be
            // late by one, so the rest is slept away in naps, between which the
            // sockets are looked at.
            if self.is_idle && wait_ns > 0 {
                std::thread::sleep(Duration::from_nanos(wait_ns.min(NAP_NS)));
            }
            Duration::ZERO
        };
        let clock = self.clock;
        let (agents, outbox, inputs) = (&mut self.agents, &mut self.outbox, &mut self.inputs);
        let record = &mut self.record;
        let mut is_idle = true;
        let mut step = "handshake";
        let (mut unreadable, mut accepted) = (Vec::new(), Vec::new());
        let result = self.net.poll(Some(timeout), |event| {
            let at_ns = clock.now_ns();
            is_idle = false;
            let now_ms = to_ms(at_ns);
            let mut why = None;
            match event {
                NetEvent::Datagram { flow, bytes } | NetEvent::Message { flow, bytes } => {
                    let mut message = agents.spare_message();
                    if message.fill(bytes, &Limits::default()).is_ok() {
                        agents.handle_message(now_ms, &flow, message, outbox);
                    } else {
                        record.rubbish += 1;
                    }
                }
                NetEvent::Opened { flow } => inputs.push(Input::Opened { at_ns, flow }),
                NetEvent::Accepted { flow } if flow.transport.is_secure() => {
                    accepted.push(flow.conn);
                }
                // Before what failed for it, and before its end, are told.
                NetEvent::HandshakeFailed { error, .. } => step = of_handshake(&error),
                NetEvent::UpgradeFailed { fault, .. } => step = of_upgrade(fault),
                NetEvent::Closed { conn, reason } => {
                    let named = of_close(reason, step);
                    why = Some(named);
                    inputs.push(Input::Closed { conn, why: named });
                    agents.handle_closed(now_ms, conn, outbox);
                }
                NetEvent::SendFailed { cookie, error } => {
                    why = Some(of_send(error, step));
                    agents.handle_send_failed(now_ms, cookie, outbox);
                }
                // Nothing more can be read there: it is closed at once, so that
                // what waits for an answer on it fails with that cause.
                NetEvent::Malformed { flow, .. } => {
                    record.rubbish += 1;
                    unreadable.push(flow.conn);
                }
                _ => {}
            }
            while let Some(event) = agents.poll_event() {
                inputs.push(Input::Sip { at_ns, event, why });
            }
        });
        result.map_err(|error| format!("the network failed: {error}"))?;
        for conn in unreadable {
            self.net.close(conn, false);
        }
        for conn in accepted {
            if let Some(info) = self.net.tls_info(conn) {
                self.record.note_called_tls(info);
            }
        }
        let now_ns = self.clock.now_ns();
        self.is_idle = is_idle;
        let now_ms = to_ms(now_ns);
        self.handle_timers(now_ms);
        while let Some(event) = self.agents.poll_event() {
            self.inputs.push(Input::Sip {
                at_ns: now_ns,
                event,
                why: None,
            });
        }
        self.handle_inputs(now_ns);
        Ok(())
    }

    /// Does what follows of what happened, and then what is due.
    fn handle_inputs(&mut self, now_ns: u64) {
        let mut inputs = std::mem::take(&mut self.inputs);
        for what in inputs.drain(..) {
            self.handle(what);
        }
        self.inputs = inputs;
        self.welcome(now_ns);
        let mut due = std::mem::take(&mut self.due);
        self.agenda.advance(to_ms(now_ns), |what| due.push(what));
        for what in due.drain(..) {
            self.do_due(now_ns, what);
        }
        self.due = due;
    }

    /// Does what is due in the transactions, and says of what is sent again
    /// whose fault that is.
    fn handle_timers(&mut self, now_ms: u64) {
        let before = sent_again(&self.agents);
        let due_ms = self.agents.next_deadline_ms().unwrap_or(u64::MAX);
        self.agents.handle_timers(now_ms, &mut self.outbox);
        let again = sent_again(&self.agents) - before;
        // The answer may have waited here for as long as this worker was late.
        if now_ms.saturating_sub(due_ms) > self.shared.settings.timers.t1_ms / 2 {
            self.record.ours_late += again;
        }
        for _ in 0..again {
            self.record.second.retransmitted();
        }
    }
}

/// Messages that these agents sent again.
pub(super) fn sent_again(agents: &UserAgents) -> u64 {
    sum_sent_again(agents.transaction_counters(), agents.counters())
}

/// The same by their counters.
pub(crate) const fn sum_sent_again(
    transactions: &sip_txn::Counters,
    agents: &sip_dialog::Counters,
) -> u64 {
    transactions.request_retransmitted
        + transactions.response_retransmitted
        + agents.answers_retransmitted
}
