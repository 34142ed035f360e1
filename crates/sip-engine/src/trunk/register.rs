//! Registrations with providers, as transactions of this shard, and the names of their members
//! (`docs/decisions/0213-a-registration-is-one-workers.md`). What is to be done is said by
//! [`Registration`]; here it is done.

mod answers;
mod send;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use invariant::broken;
use sip_auth::Attempt;
use sip_locate::{Hop, LocateError, Located};
use sip_txn::ClientId;
use wheel::TimerId;

use super::auth::Account;
use super::registration::{Answer, Failure, Registration};
use super::{Registering, State, Trunk};
use crate::effect::{Effect, ParkId};
use crate::hops::of_next_hop;
use crate::park::Parked;
use crate::proxy::groups::in_order;
use crate::routes::{Care, GatewayGroup, NextHop};
use crate::timer::Timer;
use crate::{Now, Outputs, Shard};

/// How often the names of members are resolved.
const NAMED_MS: u64 = 300_000;
/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 16;

/// What a name is resolved for.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// To know who its trunk's members are.
    Members(Arc<str>),
    /// To register an account: whose it is, the one that waits for this answer knows.
    Registration,
}

/// The trunks that are this shard's to register, and whose names are its to resolve.
#[derive(Default)]
pub(crate) struct Registrations {
    own: Vec<Own>,
    last: u32,
    timer: TimerId,
    /// When names are resolved next; `None` before that was planned.
    names_due_ms: Option<u64>,
}

/// A trunk of this shard's.
struct Own {
    trunk: Arc<Trunk>,
    group: Arc<GatewayGroup>,
    /// `None` where its members' names are all that is wanted.
    kept: Option<Kept>,
}

/// A registration.
struct Kept {
    registering: Registering,
    machine: Registration,
    account: Option<Account>,
    attempt: Attempt,
    call_id: String,
    tag: u32,
    /// Whether the last answer was a challenge that was taken up, and whether what was sent
    /// bore credentials before any.
    is_challenged: bool,
    is_ahead: bool,
    /// Host and port of the contact as it was written last.
    place: Vec<u8>,
    /// Where the contact is bound.
    good: Option<MemberAddress>,
    /// Where to try in this round, beside the way at hand: addresses, then members.
    members_left: VecDeque<MemberAddress>,
    members: VecDeque<NextHop>,
    resolving: Option<(ParkId, Arc<str>)>,
    under_way: Option<UnderWay>,
    /// Why the last way came to nothing.
    failure: Failure,
    /// Whether it is configured no more.
    is_leaving: bool,
}

/// An address of a member.
#[derive(Clone)]
struct MemberAddress {
    host: Arc<str>,
    hop: Hop,
}

struct UnderWay {
    number: u32,
    client: ClientId,
    member: MemberAddress,
    timer: TimerId,
    has_contact: bool,
}

impl Kept {
    fn new(trunk: &Trunk, registering: &Registering, (call_id, tag): (String, u32)) -> Self {
        Self {
            registering: registering.clone(),
            machine: Registration::new(registering.expires_s),
            account: trunk.credentials.as_ref().map(Account::new),
            attempt: Attempt::default(),
            call_id,
            tag,
            is_challenged: false,
            is_ahead: false,
            place: Vec::new(),
            good: None,
            members_left: VecDeque::new(),
            members: VecDeque::new(),
            resolving: None,
            under_way: None,
            failure: Failure::Unreachable,
            is_leaving: false,
        }
    }

    /// What is sent next answers no challenge.
    fn begin_attempt(&mut self) {
        self.attempt = Attempt::default();
        (self.is_challenged, self.is_ahead) = (false, false);
    }

    /// Forgets what a round before it came to.
    fn begin_anew(&mut self) {
        self.begin_attempt();
        self.members_left = self.good.iter().cloned().collect();
        self.members.clear();
    }

    /// Adds an address, unless it is the one that is tried first.
    fn add_way(&mut self, host: &Arc<str>, hop: Hop) {
        if self.good.as_ref().is_none_or(|good| good.hop != hop) {
            self.members_left.push_back(MemberAddress {
                host: Arc::clone(host),
                hop,
            });
        }
    }

    fn has_other(&self) -> bool {
        !self.members_left.is_empty() || !self.members.is_empty()
    }
}

impl Own {
    fn care(&self) -> &Care {
        self.group.care.as_deref().unwrap_or(&Care::USUAL)
    }

    /// Whether another trunk has the same contact of the same account.
    fn is_same_binding(&self, trunk: &Trunk) -> bool {
        let contact = |registering: &Registering| registering.contact.clone();
        let own = self.trunk.registering.as_ref().map(contact);
        let other = trunk.registering.as_ref().map(contact);
        self.trunk.account == trunk.account && self.trunk.domain == trunk.domain && own == other
    }
}

impl Registrations {
    /// Registrations that are to be taken back before the process ends, if it is to.
    pub(crate) fn to_be_ended(&self, is_ending: bool) -> usize {
        if !is_ending {
            return 0;
        }
        let kept = self.own.iter().filter_map(|own| own.kept.as_ref());
        let of = kept.filter(|kept| {
            let machine = &kept.machine;
            !machine.is_over() && (machine.is_ending() || machine.until_ms() > 0)
        });
        of.count()
    }

    fn find(&mut self, number: u32) -> Option<usize> {
        self.own.iter().position(|own| {
            let under_way = own.kept.as_ref().and_then(|kept| kept.under_way.as_ref());
            under_way.is_some_and(|of| of.number == number)
        })
    }

    fn kept(&mut self, at: usize) -> Option<&mut Kept> {
        self.own.get_mut(at)?.kept.as_mut()
    }
}

impl Shard {
    /// Takes over whose registrations are this shard's. Those that are configured no more are
    /// taken back.
    pub(crate) fn plan_registrations(&mut self) {
        let mut before = std::mem::take(&mut self.registrations.own);
        let settings = Arc::clone(&self.settings);
        for group in &settings.routes.groups {
            let Some(trunk) = group
                .trunk
                .as_ref()
                .filter(|trunk| self.is_mine(trunk, group))
            else {
                continue;
            };
            let same = before.iter().position(|own| own.is_same_binding(trunk));
            let own = match same.map(|at| before.swap_remove(at)) {
                Some(same) => renewed(same, trunk, group),
                None => {
                    let identity = self.registration_identity();
                    Own {
                        trunk: Arc::clone(trunk),
                        group: Arc::new(group.clone()),
                        kept: (trunk.registering.as_ref())
                            .map(|registering| Kept::new(trunk, registering, identity)),
                    }
                }
            };
            self.registrations.own.push(own);
        }
        for mut left in before {
            let is_bound = left.kept.as_mut().is_some_and(|kept| {
                kept.is_leaving = true;
                !kept.machine.is_over()
            });
            if is_bound {
                self.registrations.own.push(left);
            }
        }
        self.registrations.names_due_ms = None;
        self.wake_registrations();
    }

    /// Has the registrations looked at with the next timers.
    pub(crate) fn wake_registrations(&mut self) {
        self.wheel
            .cancel(std::mem::take(&mut self.registrations.timer));
        if !self.registrations.own.is_empty() {
            self.registrations.timer = self.wheel.start(0, Timer::Trunks);
        }
    }

    /// Whether a trunk is this shard's to register, or to resolve.
    fn is_mine(&self, trunk: &Trunk, group: &GatewayGroup) -> bool {
        let has_names = || {
            let mut hosts = group.gateways.iter().map(|of| &of.next_hop.host);
            hosts.any(|host| host.parse::<std::net::IpAddr>().is_err())
        };
        match &trunk.registering {
            // The responses to a REGISTER come to the shard of the user in its To.
            Some(_) => self.is_home_of(trunk.account.as_bytes()),
            None => has_names() && self.is_home_of(trunk.name.as_bytes()),
        }
    }

    fn registration_identity(&mut self) -> (String, u32) {
        let mut draw = || self.dice.below(u32::MAX);
        (format!("trunk-{:08x}{:08x}", draw(), draw()), draw())
    }

    /// Does what is due.
    pub(crate) fn registrations_due(&mut self, now: Now, out: &mut Outputs) {
        self.registrations.timer = TimerId::NONE;
        for at in 0..self.registrations.own.len() {
            let is_ending = self.refuses_calls();
            let Some(kept) = self.registrations.kept(at) else {
                continue;
            };
            let machine = &mut kept.machine;
            if is_ending || kept.is_leaving {
                if !machine.is_ending() && !machine.is_over() {
                    self.begin_end(now, at, out);
                }
            } else if machine.due_ms().is_some_and(|due_ms| due_ms <= now.mono_ms) {
                self.begin_round(now, at, out);
            }
        }
        self.registrations.own.retain(|own| {
            let over = |kept: &Kept| kept.is_leaving && kept.machine.is_over();
            !own.kept.as_ref().is_some_and(over)
        });
        self.resolve_members(now, out);
        let kept = self
            .registrations
            .own
            .iter()
            .filter_map(|own| own.kept.as_ref());
        let due = kept.filter_map(|kept| kept.machine.due_ms());
        let next_ms = due.chain(self.registrations.names_due_ms).min();
        if let Some(next_ms) = next_ms.filter(|_| !self.refuses_calls()) {
            // What came of an answer at once may have planned it.
            self.wheel
                .cancel(std::mem::take(&mut self.registrations.timer));
            self.registrations.timer = self.wheel.start(next_ms, Timer::Trunks);
        }
    }

    /// Resolves the names of members, so that it is known who they are.
    fn resolve_members(&mut self, now: Now, out: &mut Outputs) {
        let due_ms = self.registrations.names_due_ms;
        if self.refuses_calls() || due_ms.is_some_and(|due_ms| due_ms > now.mono_ms) {
            return;
        }
        let mut hosts: Vec<(Arc<str>, sip_locate::Query)> = Vec::new();
        let reach = self.own.reach();
        for own in &self.registrations.own {
            for gateway in &own.group.gateways {
                let hop = &gateway.next_hop;
                let is_known = hosts.iter().any(|(host, _)| *host == hop.host);
                if let (Located::Ask(query), false) = (of_next_hop(hop, false, reach), is_known) {
                    hosts.push((Arc::clone(&hop.host), query));
                }
            }
        }
        self.registrations.names_due_ms = (!hosts.is_empty()).then(|| now.mono_ms + NAMED_MS);
        for (host, query) in hosts {
            self.resolve_for_trunk(now, Wanted::Members(host), query, out);
        }
    }

    fn resolve_for_trunk(
        &mut self,
        now: Now,
        wanted: Wanted,
        query: sip_locate::Query,
        out: &mut Outputs,
    ) -> ParkId {
        let deadline_ms = now.mono_ms + self.settings.proxy.resolve_timeout_ms;
        let park = self
            .parks
            .park(Parked::Trunk(wanted), deadline_ms, &mut self.wheel);
        out.effects.push(Effect::Resolve { park, query });
        park
    }

    /// What DNS said of a member's name, or did not.
    pub(crate) fn trunk_resolved(
        &mut self,
        now: Now,
        park: ParkId,
        wanted: &Wanted,
        answer: Result<Vec<Hop>, LocateError>,
        out: &mut Outputs,
    ) {
        if let Wanted::Members(host) = wanted {
            if let Ok(hops) = answer {
                self.members_given(now, host, &hops);
            }
            return;
        }
        let own = &mut self.registrations.own;
        // By what it waits for: its trunk may have another name by now.
        let found = own.iter().position(|own| {
            let resolving = own.kept.as_ref().and_then(|kept| kept.resolving.as_ref());
            resolving.is_some_and(|(of, _)| *of == park)
        });
        let Some(at) = found else { return };
        let resolving = self
            .registrations
            .kept(at)
            .and_then(|kept| kept.resolving.take());
        let Some((_, host)) = resolving else {
            return broken!("what was found waits for this answer");
        };
        match answer {
            Ok(mut hops) => {
                self.members_given(now, &host, &hops);
                hops.truncate(ADDRESSES_MAX);
                self.gateways.sort(&mut hops, now.mono_ms);
                // By other settings it may be no member any more.
                let kept = self.registrations.kept(at);
                if let Some(kept) = kept.filter(|kept| !kept.machine.is_outdated()) {
                    hops.into_iter().for_each(|hop| kept.add_way(&host, hop));
                }
            }
            Err(_) => {
                if let Some(kept) = self.registrations.kept(at) {
                    kept.failure = Failure::NotResolved;
                }
            }
        }
        self.next_way(now, at, out);
    }

    fn members_given(&mut self, now: Now, host: &str, hops: &[Hop]) {
        let addresses: Vec<_> = hops.iter().map(|hop| hop.addr.ip()).collect();
        let shared = &self.shared.gateways.trunks;
        shared.given(host, &addresses, now.mono_ms);
        for hop in hops {
            self.gateways.learn(host, hop.addr, now.mono_ms);
        }
        self.follow_trunks();
    }

    /// Begins to ask for a registration, or to renew it.
    fn begin_round(&mut self, now: Now, at: usize, out: &mut Outputs) {
        let Some(own) = self.registrations.own.get_mut(at) else {
            return broken!("what is due is a registration");
        };
        let mut members = in_order(&own.group, |_| true, &mut self.dice).into_vec();
        let gateways = &self.gateways;
        // RFC 3261 10.2.4: "Registration refreshes SHOULD be sent to the same network address as the
        // original registration, unless redirected."
        members.sort_by_key(|hop| is_out(hop, gateways, now));
        let name = Arc::clone(&own.trunk.name);
        let Some(kept) = &mut own.kept else {
            return broken!("what is due is a registration");
        };
        kept.machine.begin();
        kept.begin_anew();
        kept.failure = Failure::Unreachable;
        kept.members = members.into();
        let shared = &self.shared.gateways.trunks;
        if shared
            .shown(&name, now.mono_ms)
            .state
            .is_none_or(|of| of == State::Ended)
        {
            shared.stands(&name, now.mono_ms, State::Asking, 0, None);
        }
        self.next_way(now, at, out);
    }

    /// Begins to take a registration back: where it is bound.
    fn begin_end(&mut self, now: Now, at: usize, out: &mut Outputs) {
        let Some(kept) = self.registrations.kept(at) else {
            return broken!("what is taken back is a registration");
        };
        let under_way = kept.under_way.take();
        let resolving = kept.resolving.take();
        kept.begin_anew();
        let is_to_be_sent = kept.machine.begin_end(now.mono_ms);
        if is_to_be_sent && let Some(under_way) = &under_way {
            kept.members_left.push_front(under_way.member.clone());
            kept.members_left.truncate(1);
        }
        if let Some(under_way) = under_way {
            self.wheel.cancel(under_way.timer);
            self.txns.release_client(under_way.client);
        }
        if let Some((park, _)) = resolving {
            self.parks.take(park, &mut self.wheel);
        }
        if is_to_be_sent {
            self.next_way(now, at, out);
        }
    }

    /// Sends a REGISTER the next way, or says that there is none.
    fn next_way(&mut self, now: Now, at: usize, out: &mut Outputs) {
        loop {
            let reach = self.own.reach();
            let Some(kept) = self.registrations.kept(at) else {
                return broken!("a registration stays while it is tried");
            };
            if kept.machine.is_outdated() {
                let failure = Answer::Member(kept.failure);
                return self.register_came_to(now, at, failure, None, out);
            }
            if let Some(member) = kept.members_left.pop_front() {
                match self.send_register(now, at, member, out) {
                    true => return,
                    false => continue,
                }
            }
            let Some(member) = kept.members.pop_front() else {
                let failure = Answer::Member(kept.failure);
                return self.register_came_to(now, at, failure, None, out);
            };
            match of_next_hop(&member, false, reach) {
                Located::Hop { hop, .. } => kept.add_way(&member.host, hop),
                Located::Ask(query) => {
                    let wanted = Wanted::Registration;
                    let park = self.resolve_for_trunk(now, wanted, query, out);
                    let Some(kept) = self.registrations.kept(at) else {
                        return broken!("a registration stays while it is tried");
                    };
                    kept.resolving = Some((park, member.host));
                    return;
                }
                Located::Nowhere(_) => kept.failure = Failure::NoTransport,
            }
        }
    }
}

/// The same registration by other settings.
fn renewed(mut own: Own, trunk: &Arc<Trunk>, group: &GatewayGroup) -> Own {
    if let (Some(kept), Some(registering)) = (&mut own.kept, &trunk.registering) {
        let is_other = own.trunk != *trunk || *own.group != *group;
        // It may have been taken back, or be about to.
        let was_leaving = std::mem::take(&mut kept.is_leaving);
        if own.trunk.credentials != trunk.credentials {
            kept.account = trunk.credentials.as_ref().map(Account::new);
        }
        if is_other || was_leaving {
            kept.good = None;
            kept.machine.ask_anew(registering.expires_s);
        }
        kept.registering = registering.clone();
    }
    own.trunk = Arc::clone(trunk);
    own.group = Arc::new(group.clone());
    own
}

/// Whether a member that is written as an address is passed over.
fn is_out(hop: &NextHop, gateways: &crate::gateways::Gateways, now: Now) -> bool {
    let Ok(ip) = hop.host.parse::<std::net::IpAddr>() else {
        return false;
    };
    let transport = hop.transport.unwrap_or(sip_msg::Transport::Udp);
    let port = hop.port.unwrap_or(transport.default_port());
    gateways.is_out(transport, SocketAddr::new(ip, port), now.mono_ms)
}
