//! CANCEL processing (RFC 3261 16.10).

use sip_txn::{ServerId, ServerState};

use super::branches::end_candidate;
use super::context::{Context, Key, Owner, Progress};
use crate::{Now, Outputs, Shard};
use sip_msg::{Flow, Message};

impl Shard {
    /// A CANCEL, and the transaction that it cancels, if there is one.
    pub(crate) fn handle_cancel(
        &mut self,
        now: Now,
        flow: &Flow,
        request: Box<Message>,
        cancel: ServerId,
        invite: Option<ServerId>,
        out: &mut Outputs,
    ) {
        let Some(invite) = invite else {
            // RFC 3261 9.2: without a matching transaction the answer is 481. This proxy keeps
            // state of all that it forwards, so nobody beyond it can know better.
            self.answer(now, flow, Some(cancel), &request, 481, out);
            self.pool.recycle(request);
            return;
        };
        // RFC 3261 16.10: "If a matching response context is found, the element MUST
        // immediately return a 200 (OK) response to the CANCEL request."
        self.answer(now, flow, Some(cancel), &request, 200, out);
        self.pool.recycle(request);
        if self.txns.server_state(invite) != Some(ServerState::Proceeding) {
            return;
        }
        match self.txns.context(invite).map(Owner::decode) {
            Some(Owner::Context(key, _)) => self.cancel_context(now, key, out),
            Some(Owner::Parked(park)) => self.cancel_parked(now, park, out),
            _ => {}
        }
    }

    // RFC 3261 16.10: "A proxy MUST cancel any pending client transactions associated with a
    // response context when it receives a matching CANCEL request." and "Furthermore, the
    // element MUST generate CANCEL requests for all pending client transactions in the
    // context as described in Section 16.7 step 10."
    fn cancel_context(&mut self, now: Now, key: Key, out: &mut Outputs) {
        let Some(mut context) = self.contexts.take(key) else {
            return;
        };
        context.is_cancelled = true;
        self.close_context(now, &mut context, out);
        self.settle(now, key, context, out);
    }

    /// No new branches from now on; those that are pending are cancelled.
    pub(crate) fn close_context(&mut self, now: Now, context: &mut Context, out: &mut Outputs) {
        if context.is_closed && !context.branches.iter().any(|b| b.is_pending) {
            return;
        }
        context.is_closed = true;
        self.wheel.cancel(std::mem::take(&mut context.serial_timer));
        for candidate in &mut context.candidates {
            match candidate.progress {
                Progress::Resolving(park) => {
                    self.parks.take(park, &mut self.wheel);
                    end_candidate(candidate, &mut context.breadth_left);
                }
                Progress::Waiting => candidate.progress = Progress::Done,
                _ => {}
            }
        }
        for branch in context.branches.iter().filter(|b| b.is_pending) {
            // A transaction without a provisional response waits for it (RFC 3261 9.1).
            self.txns
                .cancel(now.mono_ms, branch.client, &mut out.outbox);
        }
    }
}
