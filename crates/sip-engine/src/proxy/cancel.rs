//! CANCEL processing (RFC 3261 16.10).

use invariant::broken;
use sip_msg::{HeaderName, Message, Method};
use sip_txn::{ServerId, ServerState};

use super::branches::end_candidate;
use super::context::{Context, Key, Owner, Progress};
use crate::records::notes::note_cancelled;
use crate::refusal::{Reason, StatusLine};
use crate::sender::Sender;
use crate::{Now, Outputs, Shard};

/// The longest Reason that is passed on.
const REASON_MAX: usize = 1_024;

/// Why branches are cancelled: the Reason of their CANCELs (RFC 3326).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CancelReason<'r> {
    /// The caller has cancelled, with this Reason; empty for none.
    Caller(&'r [u8]),
    /// Another branch had this final response.
    Answered(u16),
    /// For nothing that a phone should know: what rang and was not answered
    /// was missed.
    TimeIsOver,
}

impl Shard {
    /// A CANCEL, and the transaction that it cancels, if there is one.
    // RFC 3261 22.1: "Although the CANCEL method does take a response (a 2xx), servers MUST NOT attempt
    // to challenge CANCEL requests since these requests cannot be resubmitted." It comes past the gate.
    pub(crate) fn handle_cancel(
        &mut self,
        now: Now,
        sender: &Sender,
        request: Box<Message>,
        cancel: ServerId,
        invite: Option<ServerId>,
        out: &mut Outputs,
    ) {
        let Some(invite) = invite else {
            // RFC 3261 9.2: without a matching transaction the answer is 481. This proxy keeps
            // state of all that it forwards, so nobody beyond it can know better. Nothing is kept
            // of it, since it comes past the gate from anybody: when it comes again it is
            // answered again.
            let line = StatusLine::refused(481, Reason::NothingToCancel);
            self.refuse_owing(now, sender, Some(cancel), request, line, out);
            return;
        };
        // RFC 3261 16.10: "If a matching response context is found, the element MUST
        // immediately return a 200 (OK) response to the CANCEL request."
        let line = StatusLine::ok();
        self.answer(now, sender, Some(cancel), &request, line, out);
        // RFC 3261 9.2: "A CANCEL request has no impact on the processing of transactions with
        // any other method defined in this specification."
        let is_pending = self.txns.server_method(invite) == Some(Method::Invite)
            && self.txns.server_state(invite) == Some(ServerState::Proceeding);
        match self.txns.context(invite).map(Owner::decode) {
            Some(Owner::Context(key, _)) if is_pending => {
                self.cancel_context(now, key, &reason_of(&request), out);
            }
            Some(Owner::Parked(park)) if is_pending => self.cancel_parked(now, park, out),
            _ => {}
        }
        self.pool.recycle(request);
    }

    // RFC 3261 16.10: "A proxy MUST cancel any pending client transactions associated with a
    // response context when it receives a matching CANCEL request." and "Furthermore, the
    // element MUST generate CANCEL requests for all pending client transactions in the
    // context as described in Section 16.7 step 10."
    fn cancel_context(&mut self, now: Now, key: Key, reason: &[u8], out: &mut Outputs) {
        let Some(mut context) = self.contexts.take(key) else {
            return broken!("an INVITE without a final response has its context");
        };
        context.is_cancelled = true;
        note_cancelled(&mut context, reason);
        self.close_context(now, &mut context, CancelReason::Caller(reason), out);
        self.settle(now, key, context, out);
    }

    /// No new branches from now on; those that are pending are cancelled.
    pub(crate) fn close_context(
        &mut self,
        now: Now,
        context: &mut Context,
        because: CancelReason<'_>,
        out: &mut Outputs,
    ) {
        if context.is_closed && !context.branches.iter().any(|b| b.is_pending) {
            return;
        }
        context.is_closed = true;
        self.wheel.cancel(std::mem::take(&mut context.serial_timer));
        for candidate in &mut context.candidates {
            match candidate.progress {
                Progress::Resolving(park) | Progress::Asking(park) => {
                    self.parks.take(park, &mut self.wheel);
                    end_candidate(candidate, &mut context.breadth_left);
                }
                Progress::Waiting => candidate.progress = Progress::Done,
                _ => {}
            }
        }
        if !context.branches.iter().any(|b| b.is_pending) {
            return;
        }
        let mut text = [0; 32];
        let reason = because.reason(&mut text);
        for branch in context.branches.iter().filter(|b| b.is_pending) {
            // A transaction without a provisional response waits for it (RFC 3261 9.1).
            self.txns
                .cancel_because(now.mono_ms, branch.client, reason, &mut out.outbox);
        }
    }
}

impl CancelReason<'_> {
    /// The value of Reason; empty for none.
    fn reason<'t>(&'t self, text: &'t mut [u8; 32]) -> &'t [u8] {
        match self {
            Self::Caller(reason) => reason,
            // RFC 3326 3.1 has just this for a fork: a phone that reads it shows no missed call.
            Self::Answered(200..=299) => b"SIP;cause=200;text=\"Call completed elsewhere\"",
            Self::Answered(status) => {
                const FRONT: &[u8] = b"SIP;cause=";
                let digits = [status / 100, status / 10, *status].map(|n| b'0' + (n % 10) as u8);
                let whole = FRONT.iter().chain(&digits);
                for (byte, written) in text.iter_mut().zip(whole) {
                    *byte = *written;
                }
                text.get(..FRONT.len() + digits.len()).unwrap_or_default()
            }
            Self::TimeIsOver => b"",
        }
    }
}

/// The values of a CANCEL's own Reason headers, in one line; empty where there
/// are none, or too many to be meant.
fn reason_of(cancel: &Message) -> Vec<u8> {
    let mut reason = Vec::new();
    for field in cancel.fields_of(HeaderName::Other) {
        if !field.raw_name.eq_ignore_ascii_case(b"Reason") || field.value.is_empty() {
            continue;
        }
        if !reason.is_empty() {
            reason.extend_from_slice(b", ");
        }
        // A folded line is one line (RFC 3261 7.3.1).
        let unfolded = |byte: &u8| if byte.is_ascii_control() { b' ' } else { *byte };
        reason.extend(field.value.iter().map(unfolded));
    }
    if reason.len() > REASON_MAX {
        reason.clear();
    }
    reason
}
