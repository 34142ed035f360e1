//! Branches of a response context: which target is tried when (RFC 3261
//! 16.6), and what follows when one fails.

use invariant::broken;
use sip_limit::oc;
use sip_locate::{Hop, Located, Query};
use sip_msg::{Method, Target};
use sip_txn::ClientId;
use wheel::TimerId;

use super::context::{Branch, Candidate, Context, Key, Owner, Progress, TargetKind, lines_of};
use super::egress::{Draft, Egress, flow_of, may_stream, path_of, target_uri};
use super::forward::{CopyContext, RequestCopy};
use super::loops;
use super::next::{is_next, next_targets};
use super::outcome::Outcome;
use crate::effect::Effect;
use crate::gateways::Why;
use crate::park::Parked;
use crate::relay::{Came, Source};
use crate::timer::Timer;
use crate::trunk::legs::LegCopy;
use crate::{Now, Outputs, Shard};

/// A copy of a request that is written and not yet sent.
struct WrittenCopy {
    client: ClientId,
    /// Where it begins in the outbox.
    start: usize,
    method: Method,
    /// How long its first response is awaited, where there are others to try.
    patience_ms: Option<u64>,
    to: Target,
}

impl Shard {
    /// Starts what may be started now: all targets of the highest q that have
    /// not been tried, when no target of a higher q is under way.
    pub(crate) fn start_due(
        &mut self,
        now: Now,
        key: Key,
        context: &mut Context,
        out: &mut Outputs,
    ) {
        while !context.is_closed && !context.is_final_sent && context.breadth_left > 0 {
            let Some(q) = next_targets(context).map(|of| of.q).max() else {
                return;
            };
            let is_active = |of: &&Candidate| {
                matches!(
                    of.progress,
                    Progress::Resolving(_) | Progress::Asking(_) | Progress::Trying
                )
            };
            let active = context.candidates.iter().filter(is_active);
            // RFC 3261 16.6: "Targets are processed from highest qvalue to lowest.  Targets
            // with equal qvalues may be processed in parallel."
            if let Some(active) = active.map(|of| of.q).max()
                && q < active
            {
                // It may have become startable since those began to ring: another flow of a
                // phone of which the first has failed.
                if context.serial_timer == TimerId::NONE {
                    self.limit_ringing(now, key, context, active);
                }
                return;
            }
            if !self.start_group(now, key, context, q, out) {
                return broken!("what could be started next is started");
            }
        }
    }

    /// Starts the targets of one q; whether there was any to start.
    fn start_group(
        &mut self,
        now: Now,
        key: Key,
        context: &mut Context,
        q: u16,
        out: &mut Outputs,
    ) -> bool {
        let mut has_started = false;
        for at in 0..context.candidates.len() {
            let waits = |of: &&Candidate| of.q == q && of.progress == Progress::Waiting;
            let rest = context.candidates.iter().skip(at);
            let waiting = rest.filter(waits).count();
            let target = context.candidates.get(at).filter(waits);
            if !target.is_some_and(|target| is_next(context, at, target)) {
                continue;
            }
            let Some(candidate) = context.candidates.get_mut(at) else {
                return broken!("a target that is started is in its set", has_started);
            };
            // RFC 5393 5.3.3.1: what the branches of one request have in Max-Breadth is
            // together no more than what the request came with. Targets for which nothing is left wait.
            let share = context.breadth_left.div_ceil(waiting.max(1) as u32);
            if share == 0 {
                break;
            }
            candidate.share = share;
            context.breadth_left -= share;
            has_started = true;
            self.start_candidate(now, key, context, at, out);
        }
        if has_started {
            self.limit_ringing(now, key, context, q);
        }
        has_started
    }

    /// How long those may ring that were started last, which have that q. What the group before
    /// was given ends with it.
    fn limit_ringing(&mut self, now: Now, key: Key, context: &mut Context, q: u16) {
        self.wheel.cancel(std::mem::take(&mut context.serial_timer));
        let rings_ms = match next_targets(context).any(|of| of.q < q) {
            true => Some(self.settings.proxy.serial_timeout_ms),
            // The last that ring do so as long as their user wants, who forwards the call then.
            false => context.divert.as_ref().and_then(|divert| divert.after_ms()),
        };
        if let Some(rings_ms) = rings_ms
            && context.method == Method::Invite
            && !context.is_closed
        {
            let deadline_ms = now.mono_ms + rings_ms;
            context.serial_timer = self.wheel.start(deadline_ms, Timer::Serial(key));
        }
    }

    /// Finds addresses for a target and sends a copy to the first.
    pub(crate) fn start_candidate(
        &mut self,
        now: Now,
        key: Key,
        context: &mut Context,
        at: usize,
        out: &mut Outputs,
    ) {
        if self.has_people
            && let Err(outcome) = self.take_places(now, context, at, out)
        {
            self.note_way(now, context, at, outcome.why(), out);
            match outcome == Outcome::GroupCallsMax && go_to_next_group(context, at) {
                true => self.start_candidate(now, key, context, at, out),
                false => self.give_up(context, at, outcome),
            }
            return;
        }
        match self.locate_target(context, at) {
            Some(Located::Hop { hop, by_default }) => {
                let Some(candidate) = context.candidates.get_mut(at) else {
                    return broken!("a target that is started is in its set");
                };
                candidate.hops.push(hop);
                candidate.may_stream = by_default && may_stream(&candidate.kind);
                if self.pass_over(now, context, at) {
                    self.start_candidate(now, key, context, at, out);
                } else {
                    self.try_next(now, key, context, at, Outcome::Unreachable, out);
                }
            }
            Some(Located::Ask(query)) => {
                if let Err(outcome) = self.judge_name(now, context, at, &query) {
                    self.give_up(context, at, outcome);
                    return;
                }
                let asker = context.request.as_ref().and_then(|request| {
                    self.asker(&query, context.chosen_by, &context.sender.flow, request)
                });
                if !self.parks.may_resolve(asker) {
                    self.counters.resolves_refused += 1;
                    self.give_up(context, at, Outcome::NoRoom);
                    return;
                }
                let deadline_ms = now.mono_ms + self.settings.proxy.resolve_timeout_ms;
                let parked = Parked::Resolve(key, at as u16, asker);
                let park = self.parks.park(parked, deadline_ms, &mut self.wheel);
                let by_default = query.transport.is_none();
                out.effects.push(Effect::Resolve { park, query });
                match context.candidates.get_mut(at) {
                    Some(candidate) => {
                        candidate.progress = Progress::Resolving(park);
                        candidate.may_stream = by_default && may_stream(&candidate.kind);
                    }
                    None => broken!("a target that is started is in its set"),
                }
            }
            Some(Located::Nowhere(refusal)) => {
                self.note_target(now, context, at, refusal.into(), out);
                match go_to_next_gateway(context, at) {
                    true => self.start_candidate(now, key, context, at, out),
                    false => self.give_up(context, at, refusal.into()),
                }
            }
            None => self.try_next(now, key, context, at, Outcome::Unreachable, out),
        }
    }

    fn judge_name(
        &mut self,
        now: Now,
        context: &Context,
        at: usize,
        query: &Query,
    ) -> Result<(), Outcome> {
        let Some(candidate) = context.candidates.get(at) else {
            return broken!(
                "a target that is judged is in its set",
                Err(Outcome::NoRoom)
            );
        };
        let relay = self.relay(now);
        let judged = relay.judge_name(context.chosen_by, &candidate.kind, query);
        self.counters.relays_refused += u64::from(judged.is_err());
        judged
    }

    /// Sends a copy to the target's next address; with none left the target
    /// has failed with `outcome`.
    // RFC 3261 16.6: "As described in [4], the proxy MUST attempt to deliver the message to
    // the first tuple in that set, and proceed through the set in order until the
    // delivery attempt succeeds."
    pub(crate) fn try_next(
        &mut self,
        now: Now,
        key: Key,
        context: &mut Context,
        at: usize,
        outcome: Outcome,
        out: &mut Outputs,
    ) {
        while !context.is_closed && !context.is_final_sent {
            let Some(candidate) = context.candidates.get_mut(at) else {
                return broken!("a target that is tried is in its set");
            };
            let came = Came {
                by: &context.sender.flow,
                is_known: context.is_known,
                chosen_by: context.chosen_by,
            };
            let (strip, told) = (&context.strip, lines_of(context.told.as_ref()));
            let media = context.media.as_deref();
            let is_led = media.is_some_and(|media| media.engine.is_some());
            let draft = context.request.as_deref().map(|request| Draft {
                request,
                strip,
                told,
                is_led,
            });
            let egress = self.next_egress(now, &came, draft, candidate);
            let Some(egress) = egress else {
                break;
            };
            if !self.may_send(now, context, at, egress.to.remote) {
                continue;
            }
            let Some(egress) = self.offer_media(now, key, context, at, egress, out) else {
                return;
            };
            if self.send_copy(now, key, context, at, &egress, out) {
                return match context.candidates.get_mut(at) {
                    Some(candidate) => candidate.progress = Progress::Trying,
                    None => broken!("a target that is tried is in its set"),
                };
            }
        }
        if !context.is_closed && !context.is_final_sent {
            let goes_on = go_to_next_gateway(context, at)
                || (outcome == Outcome::Unreachable
                    && self.has_failed_there(context, at)
                    && self.follow_phone(now, context, at));
            if goes_on {
                self.start_candidate(now, key, context, at, out);
                return;
            }
        }
        self.give_up(context, at, outcome);
    }

    /// Whether a copy was sent to a target and failed there. What this machine did not send says
    /// nothing of where it would have gone.
    fn has_failed_there(&self, context: &Context, at: usize) -> bool {
        let mut branches = context.branches.iter();
        !self.is_our_failure && branches.any(|branch| usize::from(branch.candidate) == at)
    }

    /// Whether a gateway failed lately at all its addresses, so that the others
    /// of its group are tried before it. Each is put behind the others once.
    pub(super) fn pass_over(&self, now: Now, context: &mut Context, candidate: usize) -> bool {
        let Some(candidate) = context.candidates.get_mut(candidate) else {
            return broken!("a target that has addresses is in its set", false);
        };
        let gateways = &self.gateways;
        let is_out = |hop: &Hop| gateways.is_out(hop.transport, hop.addr, now.mono_ms);
        let TargetKind::NextHops { hops, at, .. } = &mut candidate.kind else {
            return false;
        };
        let (here, others) = (usize::from(*at), hops.len().saturating_sub(1));
        let may_wait = here + usize::from(candidate.passed_over) < others;
        if !may_wait || candidate.hops.is_empty() || !candidate.hops.iter().all(is_out) {
            return false;
        }
        if let Some(rest) = hops.get_mut(here..) {
            rest.rotate_left(1);
        }
        candidate.passed_over += 1;
        candidate.hops.clear();
        candidate.tried = 0;
        true
    }

    // RFC 3261 16.6: "For each tuple attempted, the proxy MUST format the message as
    // appropriate for the tuple and send the request using a new client transaction as
    // detailed in steps 8 through 10." and "Thus, the branch parameter provided with the
    // Via header field inserted in step 8 MUST be different for each attempt."
    pub(crate) fn send_copy(
        &mut self,
        now: Now,
        key: Key,
        context: &mut Context,
        at: usize,
        egress: &Egress,
        out: &mut Outputs,
    ) -> bool {
        let number = context.branches.len();
        let mut planned = self.plan_copy(now, context, at, egress);
        let (Some(request), Some(candidate)) =
            (context.request.as_deref(), context.candidates.get_mut(at))
        else {
            return broken!(
                "until the final response, request and targets are kept",
                false
            );
        };
        if number >= self.settings.proxy.branches_max.min(usize::from(u16::MAX)) {
            self.counters.branches_refused += 1;
            return false;
        }
        // RFC 3261 16.6: "A stateful proxy MUST create a new client transaction for this
        // request as described in Section 17.1 and instructs the transaction to send the
        // request using the address, port and transport determined in step 7."
        let Some(client) = self.txns.reserve_client() else {
            self.counters.clients_full += 1;
            candidate.refused = Some(Outcome::NoRoom);
            return false;
        };
        let instance = self.instance_of(&candidate.kind);
        let mut strip = &context.strip;
        let mut cut = std::mem::take(&mut self.strip);
        if !context.hidden.is_empty()
            && !self.may_know_the_caller(&candidate.kind, egress.to.remote.ip())
        {
            Self::lines_to_cut(&context.strip, &context.hidden, &mut cut);
            strip = &cut;
        }
        let told = lines_of(context.told.as_ref());
        let told = self.told_there(told, request, &candidate.kind, egress.to.remote.ip());
        self.target_uri.clear();
        let uri = target_uri(&candidate.kind, &mut self.target_uri).or(candidate.own_uri());
        let leg = planned.as_ref().map(|planned| &planned.copy);
        let added = candidate
            .extra
            .as_ref()
            .map_or(&[][..], |extra| &extra.added);
        let added = leg.and_then(LegCopy::added).unwrap_or(added);
        let media = context.media.as_deref();
        let copy = RequestCopy {
            request,
            routed: &context.routed,
            came: Came {
                by: &context.sender.flow,
                is_known: context.is_known,
                chosen_by: context.chosen_by,
            },
            uri,
            path: path_of(&candidate.kind),
            to: &egress.to,
            local: egress.local,
            flow_down: egress.flow.as_ref(),
            instance,
            breadth: Some(candidate.share),
            strip,
            told: &told,
            added,
            session_expires_s: (context.session)
                .and_then(|timer| timer.is_added.then_some(timer.expires_s)),
            leg,
            media: media.and_then(|media| media.led(at as u16)),
            body: media.and_then(|media| media.target(at as u16)?.body.as_ref()),
        };
        let (settings, own, gateways) = (&*self.settings, &self.own, &self.gateways);
        let cx = CopyContext::new(settings, own, gateways, &self.tokens, now);
        let start = out.outbox.bytes.len();
        let (txns, loop_hash) = (&self.txns, context.loop_hash);
        let is_neighbour = matches!(candidate.kind, TargetKind::NextHops { .. });
        let write_branch = |text: &mut Vec<u8>| {
            // RFC 3261 16.6: "In particular, CANCEL and ACK requests (for non-2xx responses) MUST
            // have the same branch value as the corresponding request they cancel or
            // acknowledge." The transaction writes them, from this copy's Via.
            // RFC 3261 16.6: "The first part MUST satisfy the constraints of Section 8.1.1.7
            // as described above."
            txns.write_branch(client, text);
            loops::write(loop_hash, text);
            if is_neighbour {
                text.extend_from_slice(oc::OFFER);
            }
        };
        copy.write(&cx, &mut self.edits, write_branch, &mut out.outbox.bytes);
        self.strip = cut;
        if let Some(planned) = &mut planned {
            self.authorize(planned, &mut out.outbox.bytes, start);
        }
        let method = request.method();
        let patience_ms = match method {
            Method::Invite => candidate.patience_ms(request),
            _ => None,
        };
        let copy = WrittenCopy {
            client,
            start,
            method,
            patience_ms,
            to: egress.to.clone(),
        };
        self.start_branch(now, key, context, at, copy, out);
        if let Some(planned) = planned {
            self.keep_leg(context, planned);
        }
        true
    }

    /// Hands a copy to its transaction, which sends it, and notes its branch.
    fn start_branch(
        &mut self,
        now: Now,
        key: Key,
        context: &mut Context,
        at: usize,
        copy: WrittenCopy,
        out: &mut Outputs,
    ) {
        let Some(candidate) = context.candidates.get(at) else {
            return broken!("a target that is tried is in its set");
        };
        let number = context.branches.len() as u16;
        if let Some(patience_ms) = copy.patience_ms
            && let Some(health) = self.gateways.health_of(copy.to.transport, copy.to.remote)
        {
            health.tried(now.mono_ms, patience_ms);
        }
        let mut branch = Branch::new(copy.client, at as u16, Source::at(&copy.to));
        self.txns.start_client(
            now.mono_ms,
            copy.client,
            copy.method,
            copy.to,
            Owner::Context(key, number).encode(),
            copy.start,
            &mut out.outbox,
        );
        self.counters.requests_forwarded += 1;
        if let TargetKind::NextHops { at, .. } = &candidate.kind {
            branch.hop = *at;
        }
        if copy.method == Method::Invite {
            // RFC 3261 16.6: "Timer C MUST be set for each client transaction when an INVITE
            // request is proxied.  The timer MUST be larger than 3 minutes." Until the first
            // response it stands for a shorter time, where there are several next hops.
            branch.is_awaited = copy.patience_ms.is_some();
            branch.timer_c_ms = now.mono_ms + copy.patience_ms.unwrap_or(self.timer_c_ms());
            let timer = Timer::C(key, number);
            branch.timer_c = self.wheel.start(branch.timer_c_ms, timer);
        }
        context.branches.push(branch);
    }

    /// Timer C: what the operator chose, and more than three minutes in any case.
    pub(crate) fn timer_c_ms(&self) -> u64 {
        self.settings.proxy.timer_c_ms.max(180_001)
    }

    /// A target has no address left to try.
    pub(crate) fn give_up(&mut self, context: &mut Context, at: usize, outcome: Outcome) {
        let Some(candidate) = context.candidates.get_mut(at) else {
            return broken!("a target that has failed is in its set");
        };
        end_candidate(candidate, &mut context.breadth_left);
        // RFC 5626 5.3: a flow that is gone is answered 430, and the next flow of the
        // same phone is tried; so it is when nothing came back along it, or a 503. That one is
        // an answer, and the flow along which it came is not gone.
        let is_flow = match &candidate.kind {
            TargetKind::Contact(binding) => flow_of(&self.settings.nat, binding).is_some(),
            TargetKind::Token(_) => true,
            TargetKind::Routed | TargetKind::Uri(_) | TargetKind::NextHops { .. } => false,
        };
        let is_gone = is_flow
            && !self.is_our_failure
            && matches!(outcome, Outcome::TimedOut | Outcome::Unreachable);
        candidate.is_flow_failed = is_flow
            && matches!(
                outcome,
                Outcome::TimedOut | Outcome::Unreachable | Outcome::NextHopBusy
            );
        self.counters.flows_failed += u64::from(is_gone);
        let outcome = match outcome {
            Outcome::Unreachable if is_gone => Outcome::FlowGone,
            other => other.at(&candidate.kind),
        };
        let outcome = candidate.refused.take().unwrap_or(outcome);
        drop(candidate.take_places());
        self.note_failure(context, outcome);
    }

    /// A branch ended without a final response: on to the target's next
    /// address, or the target has failed.
    pub(crate) fn branch_failed(
        &mut self,
        now: Now,
        key: Key,
        context: &mut Context,
        branch: usize,
        outcome: Outcome,
        out: &mut Outputs,
    ) {
        let number = branch;
        let Some(branch) = context.branches.get_mut(number) else {
            return broken!("a transaction's branch is in its context");
        };
        if !std::mem::take(&mut branch.is_pending) {
            return;
        }
        self.wheel.cancel(std::mem::take(&mut branch.timer_c));
        let (at, end) = (usize::from(branch.candidate), branch.answerer.end());
        let is_told = branch.is_told;
        self.note_try(context, number, Err(outcome.why()));
        let why = match outcome {
            Outcome::Unreachable => Why::Unreachable,
            _ => Why::Silent,
        };
        if !self.is_our_failure {
            let for_ms = self.settings.proxy.dead_hop_ms;
            self.hold_against(now, context, at, end, (why, for_ms), out);
        }
        self.note_way(now, context, at, outcome.why(), out);
        // The caller hears that it rings, and hears no other one after it.
        match is_told && context.method == Method::Invite {
            true => self.give_up(context, at, outcome),
            false => self.target_failed(now, key, context, at, outcome, out),
        }
    }

    /// A target's last attempt has failed: on to its next address, unless
    /// nobody waits for this target any more.
    pub(crate) fn target_failed(
        &mut self,
        now: Now,
        key: Key,
        context: &mut Context,
        at: usize,
        outcome: Outcome,
        out: &mut Outputs,
    ) {
        let Some(candidate) = context.candidates.get_mut(at) else {
            return broken!("a target that has failed is in its set");
        };
        // Who was silent on a stream is there: a datagram would bring the same request again.
        candidate.has_datagram &= outcome == Outcome::Unreachable;
        if candidate.progress == Progress::Trying {
            self.try_next(now, key, context, at, outcome, out);
        } else {
            self.give_up(context, at, outcome);
        }
    }
}

/// Goes on to the next gateway of a target, where it has one.
fn go_to_next_gateway(context: &mut Context, at: usize) -> bool {
    let candidate = context.candidates.get_mut(at);
    candidate.is_some_and(Candidate::next_gateway)
}

/// Goes on to the next group of gateways of a target, where it has one.
fn go_to_next_group(context: &mut Context, at: usize) -> bool {
    let candidate = context.candidates.get_mut(at);
    candidate.is_some_and(Candidate::next_group)
}

/// Ends a target and takes its share of Max-Breadth back.
pub(crate) fn end_candidate(candidate: &mut Candidate, breadth_left: &mut u32) {
    *breadth_left += std::mem::take(&mut candidate.share);
    candidate.progress = Progress::Done;
}
