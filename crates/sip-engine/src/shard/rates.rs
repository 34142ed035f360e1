//! How much those may begin who were let in.

use sip_limit::{Allowance, Kind, Party, PartyKey};
use sip_msg::{Flow, Message, Method};

use crate::effect::{Effect, Limited};
use crate::park::Job;
use crate::people::Person;
use crate::permit::{Permit, is_within, listed};
use crate::{Now, Outputs, Shard};

use super::guard::shown;

impl Shard {
    /// Charges a request that passed the gate to its sender. Whether it is over a rate:
    /// then it is to be refused.
    pub(super) fn is_too_much(
        &mut self,
        now: Now,
        job: &Job,
        permit: &Permit,
        out: &mut Outputs,
    ) -> bool {
        if matches!(
            job.request.method(),
            Method::Ack | Method::Bye | Method::Cancel
        ) {
            return false;
        }
        let Some((key, allowance)) = self.party(now, job, permit) else {
            return false;
        };
        let size = (kind_of(&job.request, &allowance), job.request.bytes().len());
        let name: &[u8] = match permit {
            Permit::Authenticated(user) => user.user(),
            _ => b"",
        };
        self.is_over(now, (key, &allowance), size, (&job.sender.flow, name), out)
    }

    /// Charges a call to the user who forwards it, as if he had begun it. Whether that is over his
    /// rate: then it is not to be forwarded.
    pub(crate) fn is_forwarded_too_often(
        &self,
        now: Now,
        payer: &Person,
        bytes: usize,
        flow: &Flow,
        out: &mut Outputs,
    ) -> bool {
        let allowance = &self.settings.rates.user;
        if allowance.is_unlimited() {
            return false;
        }
        let key = self.shared.rates.user(&payer.name, payer.realm.as_bytes());
        let party = (key, allowance);
        self.is_over(now, party, (Kind::Call, bytes), (flow, &payer.name), out)
    }

    fn is_over(
        &self,
        now: Now,
        (key, allowance): (PartyKey, &Allowance),
        (kind, bytes): (Kind, usize),
        (flow, name): (&Flow, &[u8]),
        out: &mut Outputs,
    ) -> bool {
        let burst_s = self.settings.rates.burst_s;
        let rates = &self.shared.rates;
        let charged = rates.charge(now.mono_ms, key, allowance, burst_s, kind, bytes);
        let Err(exceeded) = charged else {
            return false;
        };
        if exceeded.is_to_be_logged {
            out.effects.push(Effect::Limited {
                flow: *flow,
                what: Limited::Rate {
                    party: key.party(),
                    name: shown(name),
                    rate: exceeded.rate,
                },
            });
        }
        true
    }

    /// The sender of a request and his rates; `None` where there is no limit, as within a
    /// dialog.
    fn party(&self, now: Now, job: &Job, permit: &Permit) -> Option<(PartyKey, Allowance)> {
        let (limits, rates) = (&self.settings.rates, &self.shared.rates);
        match permit {
            Permit::Dialog(_) | Permit::Forwarder(_) | Permit::Emergency(_) => None,
            Permit::Authenticated(user) => (!limits.user.is_unlimited()).then(|| {
                (
                    rates.user(user.bare_name(), user.realm().as_bytes()),
                    limits.user,
                )
            }),
            Permit::Open(_)
            | Permit::Peer(_)
            | Permit::Inbound(_)
            | Permit::Directed(_)
            | Permit::Trunk(_) => {
                let own_rate = |entry: &crate::settings::TrustedPeer| entry.calls_per_s.is_some();
                let is_any_limited = !limits.peer.is_unlimited()
                    || !limits.source.is_unlimited()
                    || self.settings.trusted.iter().any(own_rate);
                if !is_any_limited {
                    return None;
                }
                let entry = listed(&self.settings, &self.own, &job.sender);
                let allowance = match entry {
                    Some(entry) => Allowance {
                        calls_per_s: entry.calls_per_s.unwrap_or(limits.peer.calls_per_s),
                        ..limits.peer
                    },
                    None => limits.source,
                };
                // A listed peer needs no token, so nobody has looked at its own.
                if allowance.is_unlimited()
                    || is_within(
                        &self.gate_context(now, &job.sender),
                        &job.request,
                        &job.routed,
                    )
                {
                    return None;
                }
                let addr = job.sender.flow.remote.ip();
                let key = match entry.map(|entry| entry.identity.as_deref()) {
                    Some(Some(name)) => rates.peer(name.as_bytes()),
                    Some(None) => rates.at(Party::Peer, addr),
                    None => rates.at(Party::Source, addr),
                };
                Some((key, allowance))
            }
        }
    }
}

/// What a request begins. With a tag in To, which proves no dialog, a call or a message counts
/// among the other requests, and where those have no limit as what it is: it is charged all the
/// same.
fn kind_of(request: &Message, allowance: &Allowance) -> Kind {
    let is_other = || allowance.others_per_s > 0 && request.to_tag().is_some();
    match request.method() {
        Method::Register => Kind::Registration,
        Method::Invite if !is_other() => Kind::Call,
        Method::Message | Method::Publish | Method::Notify | Method::Info if !is_other() => {
            Kind::Message
        }
        _ => Kind::Other,
    }
}
