//! Determining the targets of a request (RFC 3261 16.5).

use std::sync::Arc;

use sip_msg::uri::Scheme;
use sip_msg::{Message, Transport, Uri};

use super::context::{Candidate, TargetKind};
use super::outcome::Outcome;
use super::route::Routed;
use crate::location::Binding;
use crate::nat::NatSettings;
use crate::permit::Permit;
use crate::relay::ChosenBy;
use crate::{Now, Shard};

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
        let targets = self.targets_by_uri(now, request, routed, permit, found);
        self.unless_it_refers(now, (request, routed, permit), targets, found)
    }

    /// Those to which its Request-URI and its routes lead.
    fn targets_by_uri(
        &mut self,
        now: Now,
        request: &Message,
        routed: &Routed,
        permit: &Permit,
        found: &mut Vec<Candidate>,
    ) -> Targets {
        found.clear();
        self.divert = None;
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
        // It is the operator's to lead, and nothing that hangs on it counts.
        let is_help = self.is_for_help(now, permit, routed, request);
        let predetermined = if is_help {
            None
        } else if let Some(flow) = flow {
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
            if self.has_people
                && !self
                    .relay(now)
                    .chosen_by(permit, routed, request)
                    .is_dialog()
                && let Err(outcome) = self.may_leave(permit, &uri)
            {
                return Targets::Answer(outcome);
            }
            return single(may, kind, found);
        }
        // A hop that is drained begins nothing, and goes on with what has begun.
        let skips_drained = self.gateways.has_drained() && request.to_tag().is_none();
        let is_led = self.has_people && (uri.scheme == Scheme::Tel || self.own.is_own_uri(&uri));
        if is_led || is_help {
            return self.retarget(now, request, &uri, permit, skips_drained, found);
        }
        if uri.scheme == Scheme::Tel {
            return self.tel_targets(now, &uri, permit, skips_drained, found);
        }
        if self.own.is_own_uri(&uri) {
            self.user_targets(now, &uri, permit, skips_drained, found)
        } else {
            let chosen_by = self.relay(now).chosen_by(permit, routed, request);
            self.foreign_targets(now, chosen_by, &uri, permit, skips_drained, found)
        }
    }

    /// The targets of a number that is called as such.
    pub(super) fn tel_targets(
        &mut self,
        now: Now,
        uri: &Uri<'_>,
        permit: &Permit,
        skips_drained: bool,
        found: &mut Vec<Candidate>,
    ) -> Targets {
        let targets = self.number_targets(now, uri, permit, skips_drained, found);
        match self.settings.forward.is_some() {
            true if !is_settled(targets) && permit.may_use_routes() => {
                self.forward_target(uri, permit, skips_drained, found)
            }
            _ => targets,
        }
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
        chosen_by: ChosenBy,
        uri: &Uri<'_>,
        permit: &Permit,
        skips_drained: bool,
        found: &mut Vec<Candidate>,
    ) -> Targets {
        if !permit.may_relay() {
            return Targets::Answer(Outcome::NotRelayed);
        }
        // Within a dialog the route set decides and not the tables.
        if !chosen_by.is_dialog() {
            if let Err(outcome) = self.may_leave(permit, uri) {
                return Targets::Answer(outcome);
            }
            if permit.may_use_routes()
                && let Some(targets) = self.domain_targets(now, uri, permit, skips_drained, found)
            {
                return targets;
            }
        }
        single(true, TargetKind::Routed, found)
    }

    /// Where the tables lead for another domain; `None` where they do not.
    pub(super) fn domain_targets(
        &mut self,
        now: Now,
        uri: &Uri<'_>,
        permit: &Permit,
        skips_drained: bool,
        found: &mut Vec<Candidate>,
    ) -> Option<Targets> {
        let settings = Arc::clone(&self.settings);
        if settings.routes.has_domains() {
            let domain = String::from_utf8_lossy(uri.host_port.host).to_ascii_lowercase();
            let groups = settings.routes.for_domain(&domain, now.unix_ms);
            if !groups.is_empty() {
                let how = (permit, skips_drained);
                return Some(self.group_targets(now, &groups, (uri, None), how, found));
            }
        }
        let forwards = settings.forward.is_some();
        forwards.then(|| self.forward_target(uri, permit, skips_drained, found))
    }

    fn user_targets(
        &mut self,
        now: Now,
        uri: &Uri<'_>,
        permit: &Permit,
        skips_drained: bool,
        found: &mut Vec<Candidate>,
    ) -> Targets {
        let contacts = self.contact_targets(now, uri, found);
        let is_registered = contacts != Contacts::None;
        match found.is_empty() {
            true => self.other_targets(now, uri, is_registered, permit, skips_drained, found),
            false => Targets::Found,
        }
    }

    /// Adds the contacts of a user.
    pub(crate) fn contact_targets(
        &mut self,
        now: Now,
        uri: &Uri<'_>,
        found: &mut Vec<Candidate>,
    ) -> Contacts {
        let mut bindings = std::mem::take(&mut self.bindings);
        self.find_bindings(now, uri, &mut bindings);
        let mut contacts = match bindings.is_empty() {
            true => Contacts::None,
            false => Contacts::Unfit,
        };
        for binding in bindings.drain(..) {
            if found.len() >= self.settings.proxy.branches_max {
                self.counters.branches_refused += 1;
                break;
            }
            let nat = &self.settings.nat;
            if add_contact(nat, binding, uri.scheme == Scheme::Sips, found) {
                contacts = Contacts::There;
            }
        }
        self.bindings = bindings;
        contacts
    }

    /// The targets of a URI of ours without a contact.
    pub(super) fn other_targets(
        &mut self,
        now: Now,
        uri: &Uri<'_>,
        is_registered: bool,
        permit: &Permit,
        skips_drained: bool,
        found: &mut Vec<Candidate>,
    ) -> Targets {
        if uri.user.is_some() && permit.may_use_routes() {
            let targets = self.number_targets(now, uri, permit, skips_drained, found);
            // Another way than the route's is none that the operator wants.
            if is_settled(targets) {
                return targets;
            }
        }
        if permit.may_use_routes() && self.settings.forward.is_some() {
            return self.forward_target(uri, permit, skips_drained, found);
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
}

fn single(may: bool, kind: TargetKind, found: &mut Vec<Candidate>) -> Targets {
    if !may {
        return Targets::Answer(Outcome::NotRelayed);
    }
    found.push(Candidate::new(kind, 1000));
    Targets::Found
}

/// Whether the routes have decided.
const fn is_settled(targets: Targets) -> bool {
    matches!(
        targets,
        Targets::Found
            | Targets::Answer(
                Outcome::Drained
                    | Outcome::TrunkRefused
                    | Outcome::NotPermitted
                    | Outcome::NumberBlocked
            )
    )
}

/// All hops that a request might take are drained.
pub(super) const DRAINED: Targets = Targets::Answer(Outcome::Drained);
/// The provider behind them refuses the trunk's password.
pub(super) const TRUNK_REFUSED: Targets = Targets::Answer(Outcome::TrunkRefused);

/// The contacts of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contacts {
    /// He has none.
    None,
    /// None of his may be used for this request.
    Unfit,
    /// They are in the target set, some of them perhaps from before.
    There,
}

/// Adds a contact, unless it is there already or must not be used; whether it is there.
fn add_contact(
    nat: &NatSettings,
    binding: Arc<Binding>,
    secure_only: bool,
    found: &mut Vec<Candidate>,
) -> bool {
    let Some(uri) = Uri::parse(&binding.uri) else {
        return false;
    };
    // A contact may have been bound before it was refused for its flow.
    let needs_tls = secure_only || uri.scheme == Scheme::Sips;
    if needs_tls && !is_secure(nat, &uri, &binding) {
        return false;
    }
    // RFC 3261 16.5: "If a target URI is already present in the set (based on the
    // definition of equality for the URI type), it MUST NOT be added again." and "As
    // above, any given URI MUST NOT be added to the set more than once." Two flows of
    // one phone (RFC 5626) may have the same URI; they are two targets, one at a time. So may
    // two phones, each with the same private address behind a translation of its own: both ring.
    let is_there = found.iter().any(|c| match &c.kind {
        TargetKind::Contact(other) => {
            let same_uri = Uri::parse(&other.uri).is_some_and(|other| other.equals(&uri));
            let same_flow = other.reg_id == binding.reg_id && other.instance == binding.instance;
            let other_flow = binding.reg_id.is_some() && !same_flow;
            same_uri && !other_flow
        }
        _ => false,
    });
    if !is_there {
        let q = binding.q;
        found.push(Candidate::new(TargetKind::Contact(binding), q));
    }
    true
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
