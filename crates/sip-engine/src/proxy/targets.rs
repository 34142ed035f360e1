//! Determining the targets of a request (RFC 3261 16.5).

use std::sync::Arc;

use invariant::broken;
use sip_locate::Rank;
use sip_msg::uri::Scheme;
use sip_msg::{Message, Transport, Uri};
use smallvec::SmallVec;

use super::context::{Candidate, TargetKind};
use super::outcome::Outcome;
use super::route::Routed;
use crate::location::Binding;
use crate::nat::NatSettings;
use crate::permit::Permit;
use crate::random::Dice;
use crate::relay::ChosenBy;
use crate::routes::{Care, Gateway, GatewayGroup, NextHop};
use crate::trunk::Trunk;
use crate::{Now, Shard};

/// Targets that one address-of-record may have in all.
const GATEWAYS_MAX: usize = 32;

/// The target set, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Targets {
    /// The candidates were filled in.
    Found,
    /// There are none: answer this.
    Answer(Outcome),
    /// A user of ours who is not registered: 480, or 404 where there is none
    /// of that name.
    Absent,
}

impl Shard {
    /// Fills in the targets of a request.
    pub(crate) fn find_targets(
        &mut self,
        now: Now,
        request: &Message,
        routed: &Routed,
        permit: &Permit,
        found: &mut Vec<Candidate>,
    ) -> Targets {
        found.clear();
        let Some(uri) = routed.uri(request) else {
            return Targets::Answer(Outcome::UnreadableUri);
        };
        let relay = |kind| (permit.may_relay(), kind);
        if let Some(token) = &routed.grant
            && self.is_flow_gone(token)
        {
            return match self.place_of_phone(now, request, routed, token) {
                Some(kind) => single(permit.may_relay(), kind, found),
                None => Targets::Answer(Outcome::FlowGone),
            };
        }
        let flow = routed.grant.and_then(|token| token.flow().copied());
        let predetermined = if let Some(flow) = flow {
            Some(relay(TargetKind::Token(flow)))
        } else if routed.next_route.is_some() {
            Some(relay(TargetKind::Routed))
        } else if uri.param("maddr").is_some() {
            // RFC 3261 16.5: "If the Request-URI of the request contains an maddr parameter,
            // the Request-URI MUST be placed into the target set as the only target URI, and
            // the proxy MUST proceed to Section 16.6."
            Some(relay(TargetKind::Routed))
        } else {
            None
        };
        if let Some((may, kind)) = predetermined {
            return single(may, kind, found);
        }
        // A hop that is drained begins nothing, and goes on with what has begun.
        let skips_drained = self.gateways.has_drained() && request.to_tag().is_none();
        if uri.scheme == Scheme::Tel {
            let targets = self.number_targets(now, &uri, permit, skips_drained, found);
            let is_settled = matches!(targets, Targets::Found | DRAINED | TRUNK_REFUSED);
            return match self.settings.forward.is_some() {
                true if !is_settled && permit.may_use_routes() => {
                    self.forward_target(skips_drained, found)
                }
                _ => targets,
            };
        }
        if self.own.is_own_uri(&uri) {
            self.user_targets(now, &uri, permit, skips_drained, found)
        } else {
            let chosen_by = self.relay(now).chosen_by(permit, routed, request);
            let request = (chosen_by, &uri);
            self.foreign_targets(now, request, permit, skips_drained, found)
        }
    }

    /// The next hop of all that is for nobody here.
    fn forward_target(&self, skips_drained: bool, found: &mut Vec<Candidate>) -> Targets {
        let next = self.settings.forward.iter();
        let hops = next.filter(|next| !(skips_drained && self.gateways.is_drained(next)));
        next_hops(hops.cloned().collect(), None, None, None, found)
    }

    /// The gateways of a group that may have this request, in the order of its lots.
    pub(super) fn group_targets(
        &mut self,
        now: Now,
        group: &GatewayGroup,
        user: Option<Box<[u8]>>,
        skips_drained: bool,
        found: &mut Vec<Candidate>,
    ) -> Targets {
        if self.is_refused(now, group) {
            return TRUNK_REFUSED;
        }
        let gateways = &self.gateways;
        let may_have = |of: &Gateway| !(skips_drained && gateways.is_drained(&of.next_hop));
        let hops = in_order(group, may_have, &mut self.dice);
        next_hops(hops, user, group.care.clone(), group.trunk.clone(), found)
    }

    /// Whether nothing that begins something is to be sent to a group, because its provider
    /// has refused the trunk's password lately.
    fn is_refused(&self, now: Now, group: &GatewayGroup) -> bool {
        let shared = &self.shared.gateways.trunks;
        let trunk = group.trunk.as_ref();
        trunk.is_some_and(|trunk| shared.is_refused(&trunk.name, now.mono_ms))
    }

    // RFC 3261 16.5: "If the domain of the Request-URI indicates a domain this element is
    // not responsible for, the Request-URI MUST be placed into the target set as the only
    // target, and the element MUST proceed to the task of Request Forwarding (Section
    // 16.6)." and "A proxy MUST NOT add additional targets to the target set if the
    // Request-URI of the original request does not indicate a resource this proxy is
    // responsible for." The tables name a next hop for it, never another URI.
    fn foreign_targets(
        &mut self,
        now: Now,
        (chosen_by, uri): (ChosenBy, &Uri<'_>),
        permit: &Permit,
        skips_drained: bool,
        found: &mut Vec<Candidate>,
    ) -> Targets {
        if !permit.may_relay() {
            return Targets::Answer(Outcome::NotRelayed);
        }
        // Within a dialog the route set decides and not the tables.
        if !chosen_by.is_dialog() && permit.may_use_routes() {
            let settings = Arc::clone(&self.settings);
            let domain = String::from_utf8_lossy(uri.host_port.host);
            let group = match settings.routes.domains.is_empty() {
                true => None,
                false => settings.routes.domains.get(&*domain.to_ascii_lowercase()),
            };
            if let Some(group) = group.and_then(|at| group_at(&settings, *at)) {
                return self.group_targets(now, group, None, skips_drained, found);
            }
            if settings.forward.is_some() {
                return self.forward_target(skips_drained, found);
            }
        }
        single(true, TargetKind::Routed, found)
    }

    fn user_targets(
        &mut self,
        now: Now,
        uri: &Uri<'_>,
        permit: &Permit,
        skips_drained: bool,
        found: &mut Vec<Candidate>,
    ) -> Targets {
        let is_registered = self.contact_targets(now, uri, found);
        if !found.is_empty() {
            return Targets::Found;
        }
        if uri.user.is_some() && permit.may_use_routes() {
            let targets = self.number_targets(now, uri, permit, skips_drained, found);
            // Another way than the route's is none that the operator wants.
            if matches!(targets, Targets::Found | DRAINED | TRUNK_REFUSED) {
                return targets;
            }
        }
        if permit.may_use_routes() && self.settings.forward.is_some() {
            return self.forward_target(skips_drained, found);
        }
        // RFC 3261 16.5: "If the Request-URI indicates a resource at this proxy that does
        // not exist, the proxy MUST return a 404 (Not Found) response." Nobody is at an
        // address without a user.
        match uri.user {
            // RFC 5630 has this status for it, and that phrase in its Warning.
            Some(_) if is_registered && uri.scheme == Scheme::Sips => {
                Targets::Answer(Outcome::NotUnderTls)
            }
            Some(_) if is_registered => Targets::Answer(Outcome::Absent),
            Some(_) => Targets::Absent,
            None => Targets::Answer(Outcome::NobodyThere),
        }
    }

    /// The contacts of a user of ours; whether he has any, be they fit or not.
    pub(crate) fn contact_targets(
        &mut self,
        now: Now,
        uri: &Uri<'_>,
        found: &mut Vec<Candidate>,
    ) -> bool {
        let mut bindings = std::mem::take(&mut self.bindings);
        self.find_bindings(now, uri, &mut bindings);
        let is_registered = !bindings.is_empty();
        for binding in bindings.drain(..) {
            if found.len() >= self.settings.proxy.branches_max {
                self.counters.branches_refused += 1;
                break;
            }
            let nat = &self.settings.nat;
            add_contact(nat, binding, uri.scheme == Scheme::Sips, found);
        }
        self.bindings = bindings;
        is_registered
    }

    /// Copies the bindings of a URI's address-of-record, highest q first.
    pub(crate) fn find_bindings(&mut self, now: Now, uri: &Uri<'_>, found: &mut Vec<Arc<Binding>>) {
        found.clear();
        // RFC 3261 16.5: "When accessing the location service constructed by a registrar,
        // the Request-URI MUST first be canonicalized as described in Section 10.3 before
        // being used as an index."
        self.aor.clear();
        if crate::aor::write_aor(&self.settings, &self.own, uri, &mut self.aor) {
            self.shared.location.find(&self.aor, now.unix_ms, found);
        }
    }

    /// Gateways for a number, by its longest prefix in the table.
    fn number_targets(
        &mut self,
        now: Now,
        uri: &Uri<'_>,
        permit: &Permit,
        skips_drained: bool,
        found: &mut Vec<Candidate>,
    ) -> Targets {
        let settings = Arc::clone(&self.settings);
        if settings.routes.prefixes.is_empty() {
            return Targets::Answer(Outcome::NoRouteForNumber);
        }
        let Some(number) = number_of(uri) else {
            return Targets::Answer(Outcome::NoRouteForNumber);
        };
        let group = (0..=number.len()).rev().find_map(|length| {
            let prefix = number.get(..length)?;
            settings.routes.prefixes.get(prefix)
        });
        let Some(group) = group.and_then(|at| group_at(&settings, *at)) else {
            return Targets::Answer(Outcome::NoRouteForNumber);
        };
        if !permit.may_use_routes() {
            return Targets::Answer(Outcome::NotRelayed);
        }
        let user = written(&number, group).into_bytes().into_boxed_slice();
        self.group_targets(now, group, Some(user), skips_drained, found)
    }
}

pub(super) fn group_at(settings: &crate::Settings, at: usize) -> Option<&GatewayGroup> {
    let group = settings.routes.groups.get(at);
    group.or_else(|| broken!("a table names groups that are there", None))
}

fn single(may: bool, kind: TargetKind, found: &mut Vec<Candidate>) -> Targets {
    if !may {
        return Targets::Answer(Outcome::NotRelayed);
    }
    found.push(Candidate::new(kind, 1000));
    Targets::Found
}

/// All hops that a request might take are drained.
const DRAINED: Targets = Targets::Answer(Outcome::Drained);
/// The provider behind them refuses the trunk's password.
const TRUNK_REFUSED: Targets = Targets::Answer(Outcome::TrunkRefused);

fn next_hops(
    hops: SmallVec<[NextHop; 1]>,
    user: Option<Box<[u8]>>,
    care: Option<Arc<Care>>,
    trunk: Option<Arc<Trunk>>,
    found: &mut Vec<Candidate>,
) -> Targets {
    // A group has gateways: the configuration is not taken without.
    if hops.is_empty() {
        return DRAINED;
    }
    let kind = TargetKind::NextHops {
        hops,
        at: 0,
        user,
        care,
        trunk,
    };
    found.push(Candidate::new(kind, 1000));
    Targets::Found
}

/// Adds a contact, unless it is there already or must not be used.
fn add_contact(
    nat: &NatSettings,
    binding: Arc<Binding>,
    secure_only: bool,
    found: &mut Vec<Candidate>,
) {
    let Some(uri) = Uri::parse(&binding.uri) else {
        return;
    };
    // A contact may have been bound before it was refused for its flow.
    let needs_tls = secure_only || uri.scheme == Scheme::Sips;
    if needs_tls && !is_secure(nat, &uri, &binding) {
        return;
    }
    // RFC 3261 16.5: "If a target URI is already present in the set (based on the
    // definition of equality for the URI type), it MUST NOT be added again." and "As
    // above, any given URI MUST NOT be added to the set more than once." Two flows of
    // one phone (RFC 5626) may have the same URI; they are two targets, one at a time.
    let is_there = found.iter().any(|c| match &c.kind {
        TargetKind::Contact(other) => {
            let same_uri = Uri::parse(&other.uri).is_some_and(|other| other.equals(&uri));
            let other_flow = binding.reg_id.is_some() && other.reg_id != binding.reg_id;
            same_uri && !other_flow
        }
        _ => false,
    });
    if !is_there {
        let q = binding.q;
        found.push(Candidate::new(TargetKind::Contact(binding), q));
    }
}

/// Whether a contact may be called by a `sips` URI (RFC 3261 26.2.2).
fn is_secure(nat: &NatSettings, uri: &Uri<'_>, binding: &Binding) -> bool {
    if binding.path.is_empty()
        && let Some(flow) = super::egress::flow_of(nat, binding)
    {
        return flow.transport.is_secure();
    }
    let over_flow = binding.flow.is_some_and(|flow| flow.transport.is_secure());
    over_flow || uri.scheme == Scheme::Sips || uri.transport().flatten() == Some(Transport::Tls)
}

/// The digits of a number, with its `+`; `None` where the user is no number.
pub(crate) fn number_of(uri: &Uri<'_>) -> Option<String> {
    let user = uri.user?;
    let user = user.split(|&b| b == b';').next().unwrap_or_default();
    let is_separator = |b: u8| b"-.()".contains(&b);
    let mut number = String::with_capacity(user.len());
    for (at, &byte) in user.iter().enumerate() {
        match byte {
            b'+' if at == 0 => number.push('+'),
            b'0'..=b'9' | b'*' | b'#' => number.push(char::from(byte)),
            _ if is_separator(byte) => {}
            _ => return None,
        }
    }
    number.bytes().any(|b| b.is_ascii_digit()).then_some(number)
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
pub(super) fn rewritten(number: &str, group: &GatewayGroup) -> String {
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
    fn numbers() {
        let number = |uri: &str| number_of(&Uri::parse(uri.as_bytes()).unwrap());
        assert_eq!(number("sip:+49-30(1)@x").as_deref(), Some("+49301"));
        assert_eq!(number("tel:+49-30-1").as_deref(), Some("+49301"));
        assert_eq!(number("sip:0301@x;user=phone").as_deref(), Some("0301"));
        assert_eq!(number("sip:alice@x"), None);
        assert_eq!(number("sip:+@x"), None);
        assert_eq!(number("sip:1+2@x"), None);
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
