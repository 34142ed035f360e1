//! Challenges of providers (RFC 3261 22.2, 22.3): which are answered here, and what follows when
//! the answer is refused (`docs/decisions/0212-which-challenges-are-answered.md`).

use std::sync::Arc;

use invariant::broken;
use sip_auth::{GiveUp, Side};
use sip_msg::{Message, Method};

use super::auth::realm_of;
use super::legs::Again;
use super::{Trunk, TrunkEvent, cseq};
use crate::effect::Effect;
use crate::proxy::context::{Context, Key};
use crate::proxy::outcome::Outcome;
use crate::refusal::Reason;
use crate::{Now, Outputs, Shard};

/// What becomes of a challenge.
enum Verdict {
    /// It is the caller's.
    Callers,
    /// The request goes out again.
    Again(Again),
    /// The provider does not take the credentials.
    Refused,
    /// There is no room to remember what an answer would take.
    NoRoom,
}

impl Shard {
    /// Deals with a challenge to a branch; false where it is the caller's.
    pub(crate) fn answer_challenge(
        &mut self,
        now: Now,
        key: Key,
        context: &mut Context,
        number: usize,
        response: &Message,
        out: &mut Outputs,
    ) -> bool {
        let leg = context.legs.as_deref().and_then(|legs| legs.leg(number));
        let Some(trunk) = leg.and_then(|leg| leg.trunk.clone()) else {
            return false;
        };
        let Some(at) = context.branches.get(number).map(|of| of.candidate) else {
            return broken!("the branch of a response was just found", false);
        };
        let at = usize::from(at);
        match self.judge_challenge(now, context, number, &trunk, response, out) {
            Verdict::Callers => {
                if trunk.counts() {
                    self.counters.trunk_challenges_passed += 1;
                    let mut realm = realm_of(response);
                    let account = self.trunks.account(&trunk.name);
                    if account.is_some_and(|account| account.is_for(response)) {
                        let status = response.status();
                        realm =
                            format!("{realm}, with {status} by another than the provider").into();
                    }
                    let reason = Reason::TrunkForeignRealm;
                    self.note_realm(now, context, at, reason, &realm, out);
                }
                return false;
            }
            // Who has hung up waits for no answer of the provider's.
            Verdict::Again(_) if context.is_closed || context.is_final_sent => {
                self.end_branch(context, number);
            }
            Verdict::Again(again) => {
                self.counters.trunk_challenges_answered += 1;
                self.note_try(context, number, Ok(response.status()));
                self.end_branch_alone(context, number);
                self.send_again(now, key, context, (number, at), again, out);
            }
            Verdict::Refused | Verdict::NoRoom if context.is_closed || context.is_final_sent => {
                self.end_branch(context, number);
            }
            Verdict::Refused => {
                self.note_try(context, number, Ok(response.status()));
                self.end_branch(context, number);
                self.note_failure(context, Outcome::TrunkRefused);
            }
            Verdict::NoRoom => {
                self.end_branch(context, number);
                self.note_failure(context, Outcome::NoRoom);
            }
        }
        true
    }

    fn judge_challenge(
        &mut self,
        now: Now,
        context: &mut Context,
        number: usize,
        trunk: &Arc<Trunk>,
        response: &Message,
        out: &mut Outputs,
    ) -> Verdict {
        let Context { legs, request, .. } = context;
        let leg = legs.as_deref_mut().and_then(|legs| legs.leg_mut(number));
        let (Some(leg), Some(account)) = (leg, self.trunks.account(&trunk.name)) else {
            return Verdict::Callers;
        };
        if !leg.is_answered_for {
            // The password is left alone for a while, or the place is not a member's.
            let shared = &self.shared.gateways.trunks;
            let is_ours = account.is_for(response);
            return match is_ours && shared.is_refused(&trunk.name, now.mono_ms) {
                true => Verdict::Refused,
                false => Verdict::Callers,
            };
        }
        // A reload came between: what was asked for is another password, perhaps elsewhere.
        if !account.is_with(trunk.credentials.as_ref()) {
            return Verdict::Refused;
        }
        let side = match response.status() {
            401 => Side::Registrar,
            _ => Side::Proxy,
        };
        // Whoever is called may ask in the provider's name, and would be answered with what fits to a
        // nonce of his own. The provider asks before it sends a request on, and by one header.
        let may_be_providers = !leg.is_beyond
            && account.is_asked_by(side)
            && (leg.tries == 0 || leg.attempt.has_answered(side));
        if !may_be_providers {
            return Verdict::Callers;
        }
        let was_ahead = leg.is_ahead;
        let taken_up = account.challenged_by(side, &mut leg.attempt, response, was_ahead);
        match taken_up {
            Ok(()) if leg.tries < cseq::TRIES_MAX => {}
            Ok(()) | Err(GiveUp::Loop | GiveUp::Unsupported | GiveUp::Malformed) => {
                self.counters.trunk_credentials_refused += 1;
                return Verdict::Refused;
            }
            Err(GiveUp::ForeignRealm) => return Verdict::Callers,
            Err(GiveUp::Rejected) => {
                self.counters.trunk_credentials_refused += 1;
                let name = &trunk.name;
                let shared = &self.shared.gateways.trunks;
                if account.refused()
                    && let Some(for_ms) = shared.refused(name, now.mono_ms)
                {
                    out.effects.push(Effect::Trunk {
                        name: Arc::clone(name),
                        event: TrunkEvent::PasswordRefused { for_ms },
                    });
                }
                return Verdict::Refused;
            }
        }
        let again = Again {
            tries: leg.tries + 1,
            attempt: std::mem::take(&mut leg.attempt),
        };
        // The ACK of an INVITE will have to be counted as that is, and what a REFER began is named
        // by its number.
        let named = request.as_deref().filter(|request| {
            let is_named = matches!(request.method(), Method::Invite | Method::Refer);
            is_named && request.to_tag().is_some()
        });
        let is_remembered = named.is_none_or(|named| {
            let number = named.cseq().map_or(0, |cseq| cseq.number);
            let retried = &mut self.trunks.retried;
            retried.remember(now.mono_ms, named, number, again.tries)
        });
        match is_remembered {
            true => Verdict::Again(again),
            false => Verdict::NoRoom,
        }
    }

    /// Sends a copy again, the same way.
    fn send_again(
        &mut self,
        now: Now,
        key: Key,
        context: &mut Context,
        (number, at): (usize, usize),
        again: Again,
        out: &mut Outputs,
    ) {
        let Some(legs) = context.legs.as_deref_mut() else {
            return broken!("a challenge is answered to a leg");
        };
        let egress = legs.leg(number).and_then(|leg| leg.egress.clone());
        let Some(egress) = egress else {
            return broken!("what may be sent again keeps its way");
        };
        legs.again = Some(again);
        if !self.send_copy(now, key, context, at, &egress, out) {
            self.target_failed(now, key, context, at, Outcome::NoRoom, out);
        }
    }
}
