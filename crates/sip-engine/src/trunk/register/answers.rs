//! What comes of a REGISTER, and what is done then.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use invariant::broken;
use sip_auth::GiveUp;
use sip_msg::header::{Contact, delta_seconds};
use sip_msg::{HeaderName, Message};
use wheel::TimerId;

use super::{Kept, MemberAddress, UnderWay};
use crate::effect::Effect;
use crate::gateways::Why;
use crate::proxy::failover::pause_ms;
use crate::trunk::auth::{all, realm_of};
use crate::trunk::registration::{Answer, Change, Failure, Next};
use crate::trunk::{State, Trunk, TrunkEvent};
use crate::{Now, Outputs, Shard};

impl Shard {
    /// A REGISTER has a response.
    pub(crate) fn register_answered(
        &mut self,
        now: Now,
        number: u32,
        response: &Message,
        out: &mut Outputs,
    ) {
        let status = response.status();
        let Some(at) = self.registrations.find(number).filter(|_| status >= 200) else {
            return;
        };
        let Some(own) = self.registrations.own.get_mut(at) else {
            return broken!("a REGISTER is found by its registration");
        };
        let pause = pause_ms(response, own.care().retry_after_max_s);
        let name = Arc::clone(&own.trunk.name);
        let Some((under_way, kept)) = own.kept.as_mut().and_then(taken) else {
            return broken!("a REGISTER that was found is under way");
        };
        self.wheel.cancel(under_way.timer);
        let answer = understood(kept, under_way.has_contact, response);
        let place = (under_way.member.hop.transport, under_way.member.hop.addr);
        if matches!(answer, Answer::Bound { .. }) {
            let is_outdated = kept.machine.is_outdated();
            kept.good = (!is_outdated).then(|| under_way.member.clone());
            if let Some(account) = kept.account.as_mut().filter(|_| kept.is_ahead) {
                account.taken_ahead();
            }
        }
        kept.is_challenged = answer == Answer::Challenged;
        if matches!(
            answer,
            Answer::Challenged | Answer::Done | Answer::TooBrief { .. }
        ) {
            // It may go out again, the same way.
            kept.members_left.push_front(under_way.member.clone());
        }
        let is_good = !matches!(answer, Answer::Member(_));
        self.note_member(now, &under_way.member, Ok((status, is_good)), pause, out);
        let shown = Some((place.1, status));
        self.register_told(
            now,
            at,
            answer,
            pause,
            (name, shown, realm_of(response)),
            out,
        );
    }

    /// A REGISTER came to nothing: it was not answered, or could not be sent.
    pub(crate) fn register_failed(
        &mut self,
        now: Now,
        number: u32,
        failure: Failure,
        out: &mut Outputs,
    ) {
        let Some(at) = self.registrations.find(number) else {
            return;
        };
        let Some((under_way, kept)) = self.registrations.kept(at).and_then(taken) else {
            return broken!("a REGISTER that was found is under way");
        };
        kept.failure = failure;
        self.wheel.cancel(under_way.timer);
        let why = match failure {
            Failure::Silent => Why::Silent,
            _ => Why::Unreachable,
        };
        if !self.is_our_failure {
            self.note_member(now, &under_way.member, Err(why), None, out);
        }
        self.register_came_to(now, at, Answer::Member(failure), None, out);
    }

    /// A REGISTER has had its time, and there is another way.
    pub(crate) fn register_timed_out(&mut self, now: Now, number: u32, out: &mut Outputs) {
        let client = self.registrations.find(number).and_then(|at| {
            let kept = self.registrations.kept(at)?;
            let under_way = kept.under_way.as_mut()?;
            under_way.timer = TimerId::NONE;
            Some(under_way.client)
        });
        if let Some(client) = client {
            self.txns.release_client(client);
            self.register_failed(now, number, Failure::Silent, out);
        }
    }

    pub(super) fn register_came_to(
        &mut self,
        now: Now,
        at: usize,
        answer: Answer,
        pause: Option<u64>,
        out: &mut Outputs,
    ) {
        let Some(own) = self.registrations.own.get(at) else {
            return broken!("a registration stays while it is tried");
        };
        let name = Arc::clone(&own.trunk.name);
        self.register_told(now, at, answer, pause, (name, None, Box::default()), out);
    }

    /// Has the machine say what is to be done, tells of it, and does it.
    fn register_told(
        &mut self,
        now: Now,
        at: usize,
        answer: Answer,
        pause: Option<u64>,
        (name, shown, realm): (Arc<str>, Option<(SocketAddr, u16)>, Box<str>),
        out: &mut Outputs,
    ) {
        let dice = &mut self.dice;
        let lot = |most: u64| u64::from(dice.below(u32::try_from(most).unwrap_or(u32::MAX)));
        let Some(kept) = self.registrations.kept(at) else {
            return broken!("a registration stays while it is tried");
        };
        let has_other = kept.has_other();
        let (next, change) = kept
            .machine
            .answered(now.mono_ms, answer, has_other, pause, lot);
        let (until_ms, due_ms) = (kept.machine.until_ms(), kept.machine.due_ms());
        let failure = failure_of(answer);
        match next {
            Next::Again => {
                // RFC 3261 22.1: "A UAC MUST NOT re-attempt requests with the credentials that have
                // just been rejected". What answers no challenge is another request: its own
                // credentials have not been.
                if answer != Answer::Challenged {
                    kept.begin_attempt();
                }
                return self.next_way(now, at, out);
            }
            Next::Other => {
                kept.begin_attempt();
                kept.failure = failure.unwrap_or(kept.failure);
                return self.next_way(now, at, out);
            }
            Next::Rest => {}
        }
        let (state, until_ms) = match due_ms {
            None => (State::Ended, 0),
            Some(_) if change == Some(Change::Ended) => (State::Ended, 0),
            Some(_) if until_ms > now.mono_ms && failure.is_none() => (State::Registered, until_ms),
            Some(due_ms) => (State::Failing(failure.unwrap_or(Failure::Silent)), due_ms),
        };
        kept.members_left.clear();
        kept.members.clear();
        let is_leaving = kept.is_leaving;
        // Another may be registered by its trunk's name, here or by another shard.
        let is_current = |of: &Arc<Trunk>| of.name == name && of.registering.is_some();
        if !is_leaving || !all(&self.settings).any(is_current) {
            let shared = &self.shared.gateways.trunks;
            shared.stands(&name, now.mono_ms, state, until_ms, shown);
        }
        if let Some(change) = change {
            let change = match change {
                Change::Failed { why, again_ms, .. } if why == Failure::ForeignRealm => {
                    Change::Failed {
                        why,
                        realm,
                        again_ms,
                    }
                }
                other => other,
            };
            let event = TrunkEvent::Registration(change);
            out.effects.push(Effect::Trunk { name, event });
        }
        // When it is due next is seen with the next timers.
        self.wake_registrations();
    }

    /// What is found out of a member counts for calls as well.
    fn note_member(
        &mut self,
        now: Now,
        member: &MemberAddress,
        came: Result<(u16, bool), Why>,
        pause: Option<u64>,
        out: &mut Outputs,
    ) {
        let (transport, addr) = (member.hop.transport, member.hop.addr);
        let dead_hop_ms = self.settings.proxy.dead_hop_ms;
        let held = match (came, pause) {
            (Err(why), _) => Some((why, dead_hop_ms)),
            (Ok((500 | 503, _)), Some(pause_ms)) => Some((Why::RetryAfter, pause_ms)),
            (Ok((503, _)), None) => Some((Why::Busy, dead_hop_ms)),
            (Ok(_), _) => None,
        };
        let change = match (held, came) {
            (Some((why, for_ms)), _) => {
                let health = (self.gateways).health_at(transport, addr, &member.host, now.mono_ms);
                health.and_then(|of| of.failed(now.mono_ms, why, for_ms))
            }
            (None, Ok((status, is_good))) => {
                let health = self.gateways.health_of(transport, addr);
                health.and_then(|of| of.answered(now.mono_ms, status, is_good, true))
            }
            (None, Err(_)) => None,
        };
        if let Some(change) = change {
            let name = (&*member.host).into();
            self.tell_of_gateway((transport, addr), name, change, out);
        }
    }
}

/// Takes out the REGISTER that is under way.
fn taken(kept: &mut Kept) -> Option<(UnderWay, &mut Kept)> {
    Some((kept.under_way.take()?, kept))
}

/// What a final response to a REGISTER means.
fn understood(kept: &mut Kept, has_contact: bool, response: &Message) -> Answer {
    match response.status() {
        200..=299 if !has_contact || kept.machine.is_ending() => Answer::Done,
        200..=299 => Answer::Bound {
            expires_s: granted_s(kept, response),
        },
        status @ (401 | 407) => {
            let Some(account) = &mut kept.account else {
                return Answer::Account(Failure::Refused(status));
            };
            match account.challenged(&mut kept.attempt, response, kept.is_ahead) {
                Ok(()) => Answer::Challenged,
                Err(GiveUp::Rejected) => Answer::Account(Failure::WrongPassword),
                Err(GiveUp::ForeignRealm) => Answer::Account(Failure::ForeignRealm),
                Err(_) => Answer::Account(Failure::BadChallenge),
            }
        }
        423 => {
            let field = response.first(HeaderName::MinExpires);
            Answer::TooBrief {
                min_s: field.and_then(|field| delta_seconds(field.value)),
            }
        }
        status @ (408 | 500..=599) => Answer::Member(Failure::Refused(status)),
        status => Answer::Account(Failure::Refused(status)),
    }
}

/// For how long our contact is bound.
// RFC 3261 10.2.4: "The UA compares each contact address to see if it created the contact address,
// using comparison rules in Section 19.1.4.  If so, it updates the expiration time interval
// according to the expires parameter or, if absent, the Expires field value."
fn granted_s(kept: &Kept, response: &Message) -> u32 {
    let asked_s = kept.machine.asked_s();
    let of_all = response.expires_s().unwrap_or(asked_s);
    let contacts = response.contacts().filter_map(|contact| match contact {
        Ok(Contact::Addr(contact)) => Some(contact),
        Ok(Contact::Star) | Err(_) => None,
    });
    let contacts: Vec<_> = contacts.collect();
    if let Some(ours) = contacts.iter().find(|of| is_ours(kept, &of.uri)) {
        return ours.expires_s.unwrap_or(of_all).min(asked_s);
    }
    // Registrars that mend what an address translation has spoilt show another in its place.
    let given_s = match &*contacts {
        [alone] => alone.expires_s,
        _ => None,
    };
    given_s.unwrap_or(of_all).min(asked_s)
}

/// Whether a contact is at the place that was written.
fn is_ours(kept: &Kept, uri: &sip_msg::Uri<'_>) -> bool {
    let mut place = uri.host_port.host.to_vec();
    if let Some(port) = uri.host_port.port {
        let _ = write!(place, ":{port}");
    }
    place.eq_ignore_ascii_case(&kept.place)
}

fn failure_of(answer: Answer) -> Option<Failure> {
    match answer {
        Answer::Member(failure) | Answer::Account(failure) => Some(failure),
        Answer::Bound { expires_s: 0 } => Some(Failure::Refused(200)),
        Answer::TooBrief { .. } => Some(Failure::Refused(423)),
        Answer::Challenged => Some(Failure::BadChallenge),
        Answer::Done => Some(Failure::NoTransport),
        Answer::Bound { .. } => None,
    }
}
