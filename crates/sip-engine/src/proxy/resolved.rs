//! What DNS has said of a target.

use invariant::broken;
use sip_locate::{Hop, LocateError};

use super::context::{Key, Progress, TargetKind};
use super::outcome::Outcome;
use crate::park::Parked;
use crate::{Now, Outputs, Shard};

impl Shard {
    /// The resolver's answer for a target.
    pub(crate) fn candidate_resolved(
        &mut self,
        now: Now,
        key: Key,
        at: u16,
        mut hops: Vec<Hop>,
        out: &mut Outputs,
    ) {
        let Some(mut context) = self.contexts.take(key) else {
            return broken!("a context stays while addresses are asked for");
        };
        let at = usize::from(at);
        if let Some(candidate) = context.candidates.get_mut(at) {
            self.learn_gateways(now, &candidate.kind, &hops);
            hops.truncate(self.settings.proxy.branches_max);
            match candidate.kind {
                TargetKind::NextHops { .. } => self.gateways.sort(&mut hops, now.mono_ms),
                _ => self.dead.sort(&mut hops, now.mono_ms),
            }
            candidate.progress = Progress::Trying;
            candidate.hops.extend(hops);
            // Without an address there is none to try.
            candidate.tried = u8::from(candidate.hops.is_empty());
        } else {
            broken!("a target that waits for addresses is in its set");
        }
        if self.pass_over(now, &mut context, at) {
            self.start_candidate(now, key, &mut context, at, out);
        } else {
            self.try_next(now, key, &mut context, at, Outcome::Unreachable, out);
        }
        self.settle(now, key, context, out);
    }

    /// What waits for addresses will not have them.
    pub(crate) fn unresolved(
        &mut self,
        now: Now,
        parked: Parked,
        error: LocateError,
        out: &mut Outputs,
    ) {
        let outcome = Outcome::from(error);
        match parked {
            Parked::Resolve(key, at, _) => {
                let Some(mut context) = self.contexts.take(key) else {
                    return broken!("a context stays while addresses are asked for");
                };
                let at = usize::from(at);
                if let Some(candidate) = context.candidates.get_mut(at) {
                    candidate.progress = Progress::Trying;
                    candidate.tried = 1;
                } else {
                    broken!("a target that waits for addresses is in its set");
                }
                self.note_target(now, &context, at, outcome, out);
                self.try_next(now, key, &mut context, at, outcome, out);
                self.settle(now, key, context, out);
            }
            Parked::Single(job, _, candidate, _) => {
                self.fail_job(now, job, outcome.at(&candidate.kind), out);
            }
            Parked::Credential(..)
            | Parked::Held(..)
            | Parked::Guess(..)
            | Parked::User(..)
            | Parked::Hook(..)
            | Parked::Media(..)
            | Parked::Probe(..)
            | Parked::Trunk(..) => {
                broken!("only a target waits for addresses");
            }
        }
    }

    /// Takes note of where the operator's next hops are.
    pub(crate) fn learn_gateways(&mut self, now: Now, kind: &TargetKind, hops: &[Hop]) {
        if let TargetKind::NextHops { hops: next, at, .. } = kind
            && let Some(next) = next.get(usize::from(*at))
        {
            for hop in hops {
                self.gateways.learn(&next.host, hop.addr, now.mono_ms);
            }
        }
    }
}
