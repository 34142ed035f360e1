//! Groups of gateways as targets: one after the other where a number or domain has several, each with
//! the number as its gateways want it, and with no more calls at a time than it may have.

use std::sync::Arc;

use invariant::broken;
use sip_limit::concurrent::{CountedCall, Owner};
use sip_locate::Rank;
use sip_msg::{Message, Uri};
use smallvec::SmallVec;

use super::context::{Candidate, Context, TargetKind};
use super::outcome::Outcome;
use super::targets::{DRAINED, TRUNK_REFUSED, Targets};
use crate::numbers::{Class, Permission, number_of, readings_of};
use crate::people::Person;
use crate::permit::Permit;
use crate::random::Dice;
use crate::routes::{Care, Gateway, GatewayGroup, NextHop};
use crate::trunk::Trunk;
use crate::{Now, Outputs, Shard};

/// Calls of one caller that one user may forward at a time and that nobody has answered. Where
/// they come back as calls of their own, without a word of it, this is where the circle ends.
const FORWARDED_MAX: u32 = 8;
/// The same of all callers: From is theirs to choose, and a stranger may have a thousand.
const FORWARDED_OF_ALL_MAX: u32 = 32;
/// Gateways of one group that one request may have.
const GATEWAYS_MAX: usize = 32;

/// What there is beside the gateways of a group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beside {
    /// The name of the group, and how many calls may go on over it, where that is limited.
    pub(crate) limit: Option<(Arc<str>, u32)>,
    /// The groups that are tried after it, the last first.
    pub(crate) next: Vec<NextGroup>,
    /// The names of those that were tried before it, each with the place behind the last of its
    /// next hops.
    pub(crate) left: Vec<(u8, Arc<str>)>,
}

/// A group that is tried once the one before has no gateway left.
#[derive(Clone, Debug)]
pub(crate) struct NextGroup {
    pub(crate) hops: SmallVec<[NextHop; 1]>,
    pub(crate) user: Option<Box<[u8]>>,
    pub(crate) care: Option<Arc<Care>>,
    pub(crate) trunk: Option<Arc<Trunk>>,
    pub(crate) group: Arc<str>,
    pub(crate) limit: Option<(Arc<str>, u32)>,
}

impl Shard {
    /// Gateways for a number, by its longest prefix in the tables.
    pub(super) fn number_targets(
        &mut self,
        now: Now,
        uri: &Uri<'_>,
        permit: &Permit,
        skips_drained: bool,
        found: &mut Vec<Candidate>,
    ) -> Targets {
        let routes = &self.settings.routes;
        if !routes.has_numbers() {
            return Targets::Answer(Outcome::NoRouteForNumber);
        }
        let Some(number) = number_of(uri) else {
            return Targets::Answer(Outcome::NoRouteForNumber);
        };
        let groups = routes.for_number(&number, now.unix_ms);
        if groups.is_empty() {
            return Targets::Answer(Outcome::NoRouteForNumber);
        }
        if !permit.may_use_routes() {
            return Targets::Answer(Outcome::NotRelayed);
        }
        let how = (permit, skips_drained);
        self.group_targets(now, &groups, (uri, Some(&number)), how, found)
    }

    /// The gateways of these groups that may have this request, those of each group in the order
    /// that was drawn for it. `called` is the Request-URI, and the number in it where the gateways
    /// are to get that in the form of their group; without one the Request-URI stays.
    pub(super) fn group_targets(
        &mut self,
        now: Now,
        groups: &[usize],
        called: (&Uri<'_>, Option<&str>),
        (permit, skips_drained): (&Permit, bool),
        found: &mut Vec<Candidate>,
    ) -> Targets {
        let settings = Arc::clone(&self.settings);
        let mut is_emergency = false;
        let mut none = DRAINED;
        let mut refused = None;
        let mut next: SmallVec<[NextGroup; 1]> = SmallVec::new();
        let mut last: SmallVec<[NextGroup; 1]> = SmallVec::new();
        for at in groups {
            let Some(group) = settings.routes.groups.get(*at) else {
                broken!("a table names groups that are there");
                continue;
            };
            let is_help = match self.may_go_by(permit, called, group) {
                Ok(is_help) => is_help,
                Err(outcome) => {
                    refused = Some(outcome);
                    continue;
                }
            };
            let is_refused = self.is_refused(now, group);
            if is_refused && !is_help {
                none = TRUNK_REFUSED;
                continue;
            }
            is_emergency |= is_help;
            let gateways = &self.gateways;
            let may_have = |of: &Gateway| !(skips_drained && gateways.is_drained(&of.next_hop));
            let hops = in_order(group, may_have, &mut self.dice);
            // A group has gateways: the configuration is not taken without.
            if hops.is_empty() {
                continue;
            }
            // Its provider may take a call for help without a password, or take that by now.
            let next = if is_refused { &mut last } else { &mut next };
            next.push(NextGroup {
                hops,
                user: (called.1)
                    .map(|number| written(number, group).into_bytes().into_boxed_slice()),
                care: group.care.clone(),
                trunk: group.trunk.clone(),
                group: Arc::clone(&group.name),
                limit: (group.calls_max > 0).then(|| (Arc::clone(&group.name), group.calls_max)),
            });
        }
        next.append(&mut last);
        if next.is_empty() {
            return refused.map_or(none, Targets::Answer);
        }
        let mut candidate = Candidate::new(kind_of(next), 1000);
        if is_emergency {
            candidate.extra().is_emergency = true;
        }
        found.push(candidate);
        Targets::Found
    }

    /// Whether nothing that begins something is to be sent to a group, because its provider
    /// has refused the trunk's password lately.
    fn is_refused(&self, now: Now, group: &GatewayGroup) -> bool {
        let shared = &self.shared.gateways.trunks;
        let trunk = group.trunk.as_ref();
        trunk.is_some_and(|trunk| shared.is_refused(&trunk.name, now.mono_ms))
    }

    /// The next hop of all that is for nobody here.
    pub(super) fn forward_target(
        &self,
        uri: &Uri<'_>,
        permit: &Permit,
        skips_drained: bool,
        found: &mut Vec<Candidate>,
    ) -> Targets {
        let is_emergency = match self.may_leave(permit, uri) {
            Ok(is_emergency) => is_emergency,
            Err(outcome) => return Targets::Answer(outcome),
        };
        let next = self.settings.forward.iter();
        let hops = next.filter(|next| !(skips_drained && self.gateways.is_drained(next)));
        let hops: SmallVec<[NextHop; 1]> = hops.cloned().collect();
        if hops.is_empty() {
            return DRAINED;
        }
        let kind = TargetKind::NextHops {
            hops,
            at: 0,
            user: None,
            care: None,
            trunk: None,
            group: None,
            beside: None,
        };
        let mut candidate = Candidate::new(kind, 1000);
        if is_emergency {
            candidate.extra().is_emergency = true;
        }
        found.push(candidate);
        Targets::Found
    }

    /// Whether a request may leave this server with that URI, which others read as they like;
    /// and whether it is an emergency.
    pub(super) fn may_leave(&self, permit: &Permit, uri: &Uri<'_>) -> Result<bool, Outcome> {
        let is_free = matches!(
            permit,
            Permit::Dialog(_) | Permit::Inbound(_) | Permit::Trunk(_)
        );
        match self.has_people && !is_free {
            true => self.judge(permit, self.class_leaving(uri)),
            false => Ok(false),
        }
    }

    /// What a URI is that leaves with all that hangs on it.
    pub(super) fn class_leaving(&self, uri: &Uri<'_>) -> Class {
        let rules = &self.settings.numbers;
        let readings = readings_of(uri);
        let Some(number) = readings.first() else {
            // Another domain is at least as far as a number of this country.
            return Class::Needs(Permission::National);
        };
        let is_ours = self.own.is_own_uri(uri) || !uri.is_sip();
        // Nothing but its number, and nothing that a next hop could add to that.
        let is_plain = is_ours && readings.len() == 1 && number_of(uri).is_some();
        match is_plain {
            true => rules.class(&self.number_lists, number, number),
            false => rules.worst(&self.number_lists, readings.iter().map(String::as_str)),
        }
    }

    /// Whether a request may go by a group, and whether it may because it is an emergency.
    fn may_go_by(
        &self,
        permit: &Permit,
        (uri, number): (&Uri<'_>, Option<&str>),
        group: &GatewayGroup,
    ) -> Result<bool, Outcome> {
        let is_led = matches!(permit, Permit::Emergency(_));
        let Some(number) = number else {
            if self.has_people
                && let Some(trunk) = &group.trunk
            {
                self.judge_unchanged(permit, uri, trunk)?;
            }
            return Ok(is_led);
        };
        if self.has_people {
            return self.judge_number(permit, number, group);
        }
        let is_emergency = self.settings.numbers.is_emergency(number);
        Ok(is_led || (is_emergency && permit.may_call_for_help()))
    }

    /// Whether whoever has that permit may call a number over that group, and whether he may
    /// because it is an emergency. A provider has its own way to read what is dialled: that
    /// counts beside ours, and not how it wants to have it written.
    fn judge_number(
        &self,
        permit: &Permit,
        number: &str,
        group: &GatewayGroup,
    ) -> Result<bool, Outcome> {
        let rules = &self.settings.numbers;
        let leaving = rewritten(number, group);
        let is_emergency = self.judge(permit, rules.class(&self.number_lists, number, &leaving))?;
        let trunk = group.trunk.as_ref();
        match trunk.and_then(|trunk| trunk.numbers.plan.understood(&leaving)) {
            Some(e164) => self.judge(permit, rules.class(&self.number_lists, number, &e164)),
            None => Ok(is_emergency),
        }
    }

    /// The same of a Request-URI that leaves as it came, by what its provider reads in it;
    /// [`Shard::may_leave`] has judged what we do.
    fn judge_unchanged(
        &self,
        permit: &Permit,
        uri: &Uri<'_>,
        trunk: &Trunk,
    ) -> Result<(), Outcome> {
        let (rules, plan) = (&self.settings.numbers, &trunk.numbers.plan);
        let readings = readings_of(uri);
        let mut understood = readings.iter().filter_map(|of| plan.understood(of));
        understood.try_for_each(|e164| {
            let class = rules.worst(&self.number_lists, [&*e164]);
            self.judge(permit, class).map(drop)
        })
    }

    /// Whether whoever has that permit may call numbers of that class; and whether he may because
    /// it is an emergency.
    pub(super) fn judge(&self, permit: &Permit, class: Class) -> Result<bool, Outcome> {
        let needs = match class {
            _ if matches!(permit, Permit::Emergency(_)) => return Ok(true),
            Class::Emergency if permit.may_call_for_help() => return Ok(true),
            Class::Emergency => Permission::National,
            Class::Blocked => return Err(Outcome::NumberBlocked),
            Class::Needs(needs) => needs,
        };
        match permit.permission(&self.settings) >= needs {
            true => Ok(false),
            false => Err(Outcome::NotPermitted),
        }
    }

    /// Takes the places that a target needs before it is tried: among the calls over its group,
    /// and among those of the user on whose account it is.
    pub(super) fn take_places(
        &self,
        now: Now,
        context: &mut Context,
        at: usize,
        out: &mut Outputs,
    ) -> Result<(), Outcome> {
        let candidate = context.candidates.get(at);
        let Some(candidate) = candidate.filter(|_| context.is_counted) else {
            return Ok(());
        };
        // Whoever calls for help is not told to wait.
        if candidate.is_emergency() {
            return Ok(());
        }
        let extra = candidate.extra.as_ref();
        let payer = extra.and_then(|extra| extra.payer.clone());
        let has_place = extra.is_some_and(|extra| extra.payer_place.is_some());
        let place = match &payer {
            Some(payer) if !has_place => self.place_of_payer(context, payer)?,
            _ => None,
        };
        let Some(candidate) = context.candidates.get_mut(at) else {
            return broken!("a target that needs places is in its set", Ok(()));
        };
        if place.is_some() {
            candidate.extra().payer_place = place;
        }
        if let Some(payer) = &payer
            && !matches!(candidate.kind, TargetKind::Contact(_))
            && candidate.extra().forward_places.is_none()
        {
            let request = context.request.as_deref();
            let places = self.places_of_forward(payer, request)?;
            // As if he had made the call: what he may not spend, nobody spends for him.
            let bytes = request.map_or(0, |request| request.bytes().len());
            let flow = &context.sender.flow;
            if self.is_forwarded_too_often(now, payer, bytes, flow, out) {
                return Err(Outcome::ForwardRate);
            }
            candidate.extra().forward_places = Some(Arc::new(places));
        }
        let TargetKind::NextHops {
            beside: Some(beside),
            ..
        } = &candidate.kind
        else {
            return Ok(());
        };
        if let Some((name, max)) = beside.limit.clone()
            && candidate.extra().group_place.is_none()
        {
            let calls = self.shared.rates.calls();
            let place = calls.take(Owner::Group(name.as_bytes()), max);
            let place = place.ok_or(Outcome::GroupCallsMax)?;
            candidate.extra().group_place = Some(Arc::new(place));
        }
        Ok(())
    }

    /// The place of a call among those of whoever pays for it: one, at however many targets it is
    /// tried. `None` where it needs none.
    fn place_of_payer(
        &self,
        context: &Context,
        payer: &Arc<Person>,
    ) -> Result<Option<Arc<CountedCall>>, Outcome> {
        // Who calls himself has a place, as the caller.
        let is_payer = |of: &Arc<Person>| Arc::ptr_eq(of, payer);
        if payer.calls_max(&self.settings.numbers) == 0
            || context.caller.as_ref().is_some_and(is_payer)
        {
            return Ok(None);
        }
        let extras = context.candidates.iter().filter_map(|of| of.extra.as_ref());
        let mut his = extras.filter(|extra| extra.payer.as_ref().is_some_and(is_payer));
        if let Some(place) = his.find_map(|extra| extra.payer_place.as_ref()) {
            return Ok(Some(Arc::clone(place)));
        }
        let place = self.place_of(payer).ok_or(Outcome::UserCallsMax)?;
        Ok(Some(Arc::new(place)))
    }

    /// Places among the calls that a user forwards to the outside and that nobody has answered:
    /// those of one caller, and those of all.
    fn places_of_forward(
        &self,
        payer: &Person,
        request: Option<&Message>,
    ) -> Result<[CountedCall; 2], Outcome> {
        let from = request.and_then(|request| request.from().ok()?.uri());
        let caller: Vec<u8> = from.iter().flat_map(Uri::user_bytes).collect();
        let (name, realm) = (&*payer.name, payer.realm.as_bytes());
        let calls = self.shared.rates.calls();
        let of_one = calls.take(Owner::Forward(name, realm, &caller), FORWARDED_MAX);
        let of_one = of_one.ok_or(Outcome::LedInCircle)?;
        let of_all = calls.take(Owner::Forwards(name, realm), FORWARDED_OF_ALL_MAX);
        Ok([of_one, of_all.ok_or(Outcome::UserCallsMax)?])
    }

    /// A place among the calls of a user who may have so many and no more.
    pub(crate) fn place_of(&self, person: &Person) -> Option<CountedCall> {
        let max = person.calls_max(&self.settings.numbers);
        let owner = Owner::User(&person.name, person.realm.as_bytes());
        self.shared.rates.calls().take(owner, max)
    }
}

/// Several groups as one target, which goes on from one to the next.
fn kind_of(mut next: SmallVec<[NextGroup; 1]>) -> TargetKind {
    next.reverse();
    let Some(first) = next.pop() else {
        return broken!("there is a group at least", TargetKind::Routed);
    };
    let beside = (first.limit.is_some() || !next.is_empty()).then(|| {
        Box::new(Beside {
            limit: first.limit,
            next: next.into_vec(),
            left: Vec::new(),
        })
    });
    TargetKind::NextHops {
        hops: first.hops,
        at: 0,
        user: first.user,
        care: first.care,
        trunk: first.trunk,
        group: Some(first.group),
        beside,
    }
}

/// The number as the gateways of this group want it, and the provider behind them.
pub(crate) fn written(number: &str, group: &GatewayGroup) -> String {
    let rewritten = rewritten(number, group);
    match &group.trunk {
        Some(trunk) => trunk.numbers.plan.outbound(&rewritten),
        None => rewritten,
    }
}

/// The number as the gateways of this group want it.
fn rewritten(number: &str, group: &GatewayGroup) -> String {
    let mut chars = number.chars();
    for _ in 0..group.strip {
        chars.next();
    }
    format!("{}{}", group.prepend, chars.as_str())
}

/// The gateways of a group that may have a request: by priority, and among equals by lot,
/// each with the chance of its weight (RFC 2782).
pub(crate) fn in_order(
    group: &GatewayGroup,
    may_have: impl Fn(&Gateway) -> bool,
    dice: &mut Dice,
) -> SmallVec<[NextHop; 1]> {
    let gateways = group.gateways.iter().filter(|of| may_have(of));
    let mut gateways: Vec<&Gateway> = gateways.take(GATEWAYS_MAX).collect();
    let rank = |gateway: &&Gateway| Rank {
        priority: gateway.priority,
        weight: gateway.weight,
    };
    sip_locate::order(&mut gateways, GATEWAYS_MAX, rank, &mut |most: u32| {
        dice.below(most.saturating_add(1))
    });
    let next_hops = gateways.into_iter().map(|gateway| &gateway.next_hop);
    next_hops.cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::random::Dice;

    fn gateway(host: &str, priority: u16, weight: u16) -> Gateway {
        Gateway {
            next_hop: NextHop {
                host: host.into(),
                port: None,
                transport: None,
                connections: Default::default(),
            },
            priority,
            weight,
        }
    }

    #[test]
    fn gateways_come_by_priority_and_then_by_weight() {
        let group = GatewayGroup {
            gateways: vec![
                gateway("backup", 20, 1),
                gateway("seldom", 10, 1),
                gateway("often", 10, 9),
                gateway("hardly", 10, 0),
            ],
            ..GatewayGroup::default()
        };
        let mut dice = Dice::new(&[5; 16]);
        let mut firsts = BTreeMap::new();
        for _ in 0..1_100 {
            let order = in_order(&group, |_| true, &mut dice);
            assert_eq!(order.len(), 4);
            assert_eq!(&*order[3].host, "backup");
            *firsts.entry(order[0].host.to_string()).or_insert(0) += 1;
        }
        // RFC 2782: "In the presence of records containing weights greater than 0, records
        // with weight 0 should have a very small chance of being selected." One lot of the
        // eleven here.
        let share = |host: &str| firsts.get(host).copied().unwrap_or(0);
        assert!((850..950).contains(&share("often")), "{firsts:?}");
        assert!((50..150).contains(&share("seldom")), "{firsts:?}");
        assert!((50..150).contains(&share("hardly")), "{firsts:?}");
        let others = in_order(&group, |of| of.priority > 10, &mut dice);
        assert_eq!(others.len(), 1);
    }

    #[test]
    fn a_group_rewrites_the_number() {
        let group = |strip, prepend: &str| GatewayGroup {
            strip,
            prepend: prepend.into(),
            ..GatewayGroup::default()
        };
        assert_eq!(rewritten("+4930", &group(0, "")), "+4930");
        assert_eq!(rewritten("+4930", &group(3, "0")), "030");
        assert_eq!(rewritten("12", &group(9, "")), "");
    }
}
