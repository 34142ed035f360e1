//! When the next of several gateways is tried, and what is held against the one before
//! (`docs/decisions/0191-who-is-silent-is-left.md`).

use invariant::broken;
use sip_msg::{HeaderName, Message};

use super::context::{Context, Key, Progress, TargetKind};
use super::outcome::Outcome;
use crate::effect::Effect;
use crate::gateways::{Change, GatewayAddress, Why};
use crate::refusal::Reason;
use crate::timer::Timer;
use crate::{Now, Outputs, Shard};

impl Shard {
    /// Whether the next hop of a target is tried after that final answer: for what begins
    /// something after the answers that the operator has named, and for everything else
    /// after a 503. The flow of a dialog has no next one, and whoever answers along it is there.
    pub(super) fn fails_over(&self, context: &Context, at: usize, status: u16) -> bool {
        let kind = context.candidates.get(at).map(|of| &of.kind);
        let Some(care) = kind.and_then(TargetKind::care) else {
            return status == 503 && !matches!(kind, Some(TargetKind::Token(_)));
        };
        let begins = || {
            let request = context.request.as_deref();
            request.is_some_and(|request| request.to_tag().is_none())
        };
        let is_named = care.failover.has(status);
        match status {
            503 => is_named || !begins(),
            _ => is_named && begins(),
        }
    }

    /// A branch has an answer: where it was sent somebody is there.
    pub(super) fn hop_answered(
        &mut self,
        now: Now,
        context: &Context,
        number: usize,
        status: u16,
        out: &mut Outputs,
    ) {
        let Some(branch) = context.branches.get(number) else {
            return broken!("the branch of a response was just found");
        };
        // Its target may have gone on to another by now.
        let (transport, addr) = branch.answerer.end();
        self.dead.answered(transport, addr);
        let Some(health) = self.gateways.health_of(transport, addr) else {
            return;
        };
        let at = usize::from(branch.candidate);
        let is_good = status > 100 && status != 503 && !self.fails_over(context, at, status);
        // Whoever still ends calls may have stopped to take new ones.
        let request = context.request.as_deref();
        let begins = request.is_some_and(|request| request.to_tag().is_none());
        let is_in_time = begins && !branch.is_left;
        let change = health.answered(now.mono_ms, status, is_good, is_in_time);
        if let Some(change) = change {
            let name = health.name().into();
            self.tell_of_gateway((transport, addr), name, change, out);
        }
    }

    /// A branch came to nothing: where it was sent is passed over for a time.
    pub(super) fn hold_against(
        &mut self,
        now: Now,
        context: &Context,
        at: usize,
        place: GatewayAddress,
        (why, for_ms): (Why, u64),
        out: &mut Outputs,
    ) {
        let Some(candidate) = context.candidates.get(at) else {
            return broken!("a target that has failed is in its set");
        };
        let (transport, addr) = place;
        let name = match &candidate.kind {
            TargetKind::NextHops { hops, at, .. } => match hops.get(usize::from(*at)) {
                Some(next) => next.host.to_string(),
                None => return broken!("a next hop that has failed is one of its group"),
            },
            // A flow is its phone's, and ends with it.
            _ if candidate.hops.is_empty() => return,
            _ if self.gateways.is_at(addr, now.mono_ms) => addr.ip().to_string(),
            _ => {
                let until_ms = now.mono_ms + for_ms;
                return self.dead.failed(transport, addr, until_ms, now.mono_ms);
            }
        };
        // Without room the next call finds out for itself.
        if let Some(health) = self.gateways.health_at(transport, addr, &name, now.mono_ms)
            && let Some(change) = health.failed(now.mono_ms, why, for_ms)
        {
            self.tell_of_gateway(place, name.into(), change, out);
        }
    }

    /// The same after an answer that says that the next hop serves nobody at the moment.
    pub(super) fn hold_busy(
        &mut self,
        now: Now,
        context: &Context,
        at: usize,
        place: GatewayAddress,
        response: &Message,
        out: &mut Outputs,
    ) {
        let care = context.candidates.get(at).and_then(|of| of.kind.care());
        let pause_ms = care.and_then(|care| pause_ms(response, care.retry_after_max_s));
        // RFC 3261 21.5.4: "It SHOULD NOT forward any other requests to that server for the
        // duration specified in the Retry-After header field, if present." Other answers that may
        // bear one (20.33) come from the called party: a phone answers 500 with Retry-After to a
        // second INVITE (14.2), and what it asks for is not asked of its gateway.
        let held = match pause_ms {
            Some(pause_ms) => (Why::RetryAfter, pause_ms),
            None => (Why::Busy, self.settings.proxy.dead_hop_ms),
        };
        self.hold_against(now, context, at, place, held, out);
    }

    /// A next hop has not answered an INVITE in its time: it is passed over, and where there is
    /// another way it is left.
    // RFC 3261 9.1: "If no provisional response has been received, the CANCEL request MUST NOT
    // be sent; rather, the client MUST wait for the arrival of a provisional response before
    // sending the request." Its transaction waits for that, and goes on for as long as
    // timer B: a 2xx that comes after all is the caller's.
    pub(super) fn first_response_overdue(
        &mut self,
        now: Now,
        key: Key,
        context: &mut Context,
        number: usize,
        out: &mut Outputs,
    ) {
        let timer_c_ms = self.timer_c_ms();
        let branch = context.branches.get(number);
        let Some((at, place)) = branch.map(|of| (usize::from(of.candidate), of.answerer.end()))
        else {
            return broken!("the branch of a timer was just found");
        };
        let gateways = &self.gateways;
        let is_out = |(transport, addr)| gateways.is_out(transport, addr, now.mono_ms);
        let candidate = context.candidates.get(at);
        let has_other_way = candidate.is_some_and(|candidate| {
            candidate.progress == Progress::Trying && candidate.has_other_way(place, is_out)
        });
        // So it is where it has the call all the same, and where the caller has hung up.
        let held = (Why::Silent, self.settings.proxy.dead_hop_ms);
        self.hold_against(now, context, at, place, held, out);
        let Some(branch) = context.branches.get_mut(number) else {
            return broken!("the branch of a timer was just found");
        };
        branch.is_awaited = false;
        if !has_other_way || context.is_closed || context.is_final_sent {
            branch.timer_c_ms = now.mono_ms + timer_c_ms;
            let timer = Timer::C(key, number as u16);
            branch.timer_c = self.wheel.start(branch.timer_c_ms, timer);
            return;
        }
        branch.is_pending = false;
        branch.is_left = true;
        self.txns
            .cancel(now.mono_ms, branch.client, &mut out.outbox);
        self.counters.gateways_silent += 1;
        self.note_try(context, number, Err(Reason::GatewaySilent));
        self.note_way(now, context, at, Reason::GatewaySilent, out);
        self.target_failed(now, key, context, at, Outcome::TimedOut, out);
    }

    /// Counts that a gateway is passed over, or is used again, and has that logged.
    pub(crate) fn tell_of_gateway(
        &mut self,
        (transport, addr): GatewayAddress,
        name: Box<str>,
        change: Change,
        out: &mut Outputs,
    ) {
        match change {
            Change::PassedOver(_) => self.counters.gateways_passed_over += 1,
            Change::Returned => self.counters.gateways_returned += 1,
        }
        out.effects.push(Effect::Gateway {
            transport,
            addr,
            name,
            change,
        });
    }
}

/// The pause that a gateway asks for, as far as it counts.
// RFC 3261 20.33: "The value of this field is a positive integer number of seconds (in decimal)
// after the time of the response." A comment and parameters may follow. No time is no pause.
pub(crate) fn pause_ms(response: &Message, max_s: u64) -> Option<u64> {
    if max_s == 0 {
        return None;
    }
    let value = response.first(HeaderName::RetryAfter)?.value;
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit());
    let add = |sum: u64, digit: &u8| {
        let digit = u64::from(digit.wrapping_sub(b'0'));
        sum.saturating_mul(10).saturating_add(digit)
    };
    let pause_s = digits.fold(0, add).min(max_s);
    (pause_s > 0).then(|| pause_s.saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parse;

    #[test]
    fn a_pause_is_read_and_bounded() {
        for (value, pause) in [
            ("Retry-After: 18000;duration=3600\r\n", Some(300_000)),
            ("Retry-After: 120 (I'm in a meeting)\r\n", Some(120_000)),
            ("Retry-After: 0\r\n", None),
            ("Retry-After: 000\r\n", None),
            ("Retry-After: \r\n", None),
            ("Retry-After: 1e9\r\n", Some(1_000)),
            ("Retry-After: 99999999999999999999999999\r\n", Some(300_000)),
            ("Retry-After: soon\r\n", None),
            ("Retry-After: -1\r\n", None),
            ("", None),
        ] {
            let text = format!(
                "SIP/2.0 503 Busy\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom: <sip:a@b>;tag=1\r\n\
                 To: <sip:b@b>;tag=2\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\n{value}Content-Length: 0\r\n\r\n"
            );
            let response = parse(text.as_bytes());
            assert_eq!(pause_ms(&response, 300), pause, "{value}");
            assert_eq!(pause_ms(&response, 0), None, "{value}");
        }
    }
}
