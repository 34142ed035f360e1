//! Timer C (RFC 3261 16.8), the time to the first response, and the end of a group's ringing.

use wheel::TimerId;

use super::branches::end_candidate;
use super::context::{Key, Progress};
use super::next::next_targets;
use super::outcome::Outcome;
use crate::people::When;
use crate::records::notes::note_timed_out;
use crate::timer::Timer;
use crate::{Now, Outputs, Shard};

impl Shard {
    // RFC 3261 16.8: "If timer C should fire, the proxy MUST either reset the timer with any
    // value it chooses, or terminate the client transaction.  If the client transaction
    // has received a provisional response, the proxy MUST generate a CANCEL request
    // matching that transaction.  If the client transaction has not received a
    // provisional response, the proxy MUST behave as if the transaction received a 408
    // (Request Timeout) response."
    pub(crate) fn timer_c_fired(&mut self, now: Now, key: Key, number: usize, out: &mut Outputs) {
        // Another timer of the same tick may have ended it: what waited for a media engine too
        // long, and was the answer.
        let Some(mut context) = self.contexts.take(key) else {
            return;
        };
        if let Some(branch) = context.branches.get_mut(number)
            && branch.is_pending
        {
            branch.timer_c = TimerId::NONE;
            let due_ms = branch.timer_c_ms;
            if due_ms > now.mono_ms {
                branch.timer_c = self.wheel.start(due_ms, Timer::C(key, number as u16));
            } else if branch.is_awaited {
                self.first_response_overdue(now, key, &mut context, number, out);
            } else if branch.is_heard {
                self.counters.timer_c_fired += 1;
                note_timed_out(&mut context.record);
                self.txns
                    .cancel(now.mono_ms, branch.client, &mut out.outbox);
            } else {
                self.counters.timer_c_fired += 1;
                let client = branch.client;
                branch.is_live = false;
                self.txns.release_client(client);
                self.branch_failed(now, key, &mut context, number, Outcome::TimedOut, out);
            }
        }
        self.settle(now, key, context, out);
    }

    /// A group of a serial search has rung long enough.
    pub(crate) fn serial_timer_fired(&mut self, now: Now, key: Key, out: &mut Outputs) {
        // Another timer of the same tick may have ended it.
        let Some(mut context) = self.contexts.take(key) else {
            return;
        };
        context.serial_timer = TimerId::NONE;
        let parts = &mut *context;
        for candidate in &mut parts.candidates {
            match candidate.progress {
                Progress::Trying => {
                    end_candidate(candidate, &mut parts.breadth_left);
                    candidate.progress = Progress::GivenUp;
                }
                Progress::Resolving(park) | Progress::Asking(park) => {
                    self.parks.take(park, &mut self.wheel);
                    end_candidate(candidate, &mut parts.breadth_left);
                }
                _ => {}
            }
        }
        for branch in parts.branches.iter().filter(|b| b.is_pending) {
            self.txns
                .cancel(now.mono_ms, branch.client, &mut out.outbox);
        }
        if next_targets(&context).next().is_none() {
            self.divert(now, &mut context, When::NoAnswer, out);
        }
        self.settle(now, key, context, out);
    }
}
