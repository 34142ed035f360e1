//! Whom a gateway is asked to call by itself: by a REFER that goes to it, or by the Contacts of a
//! 3xx that answers its call. It would call past the routing tables and the limits here, at the
//! operator's expense, so nobody asks it for more than he may call himself.

use std::sync::Arc;

use invariant::broken;
use sip_msg::header::{Contact, NameAddr};
use sip_msg::uri::Scheme;
use sip_msg::{Message, Method, Uri};

use super::context::{Candidate, Context, TargetKind};
use super::outcome::Outcome;
use super::route::Routed;
use super::targets::Targets;
use crate::numbers::{Class, Permission, number_of, readings_of};
use crate::permit::{Permit, names_nobody};
use crate::relay::Source;
use crate::token::RouteToken;
use crate::trunk::{Trunk, user_of};
use crate::{Now, Shard};

/// URIs, and names of users, that are looked at for one message.
const STEPS_MAX: u8 = 64;

/// On whose account a gateway would call.
#[derive(Clone, Copy)]
struct Asker<'a> {
    /// How far he may call himself; `None` where he is a stranger.
    reach: Option<Permission>,
    /// Whose numbers the gateway reads.
    trunk: Option<&'a Trunk>,
}

impl Asker<'_> {
    /// Whether a gateway may call numbers of that class for him. A stranger refers it to users of
    /// ours, as he may call them, and to nobody else.
    fn may(self, class: Class) -> Result<(), Outcome> {
        let reach = self.reach.unwrap_or(Permission::Internal);
        let needs = match class {
            Class::Blocked => return Err(Outcome::NumberBlocked),
            // Help is for who calls it himself.
            Class::Emergency => Permission::National,
            Class::Needs(needs) => needs,
        };
        match reach >= needs {
            true => Ok(()),
            false => Err(Outcome::NotPermitted),
        }
    }
}

impl Shard {
    /// The targets of a request; none where it is a REFER that asks a gateway for a call that its
    /// sender may not make himself.
    pub(super) fn unless_it_refers(
        &self,
        now: Now,
        (request, routed, permit): (&Message, &Routed, &Permit),
        targets: Targets,
        found: &mut Vec<Candidate>,
    ) -> Targets {
        let is_refer = request.method() == Method::Refer && targets == Targets::Found;
        // Where nobody is asked who he is, anybody may call whom he likes.
        if !is_refer || self.settings.authenticate.is_none() {
            return targets;
        }
        let token = routed.grant.as_ref();
        let marked = token.and_then(|token| Some((token, token.marks()?.to?)));
        let mut kinds = found.iter().map(|candidate| &candidate.kind);
        let is_gateways = marked.is_some()
            || token.is_some_and(RouteToken::leads_to_gateway)
            || kinds.any(|kind| self.leads_to_gateway(now, request, routed, kind));
        if !is_gateways {
            return targets;
        }
        let from = request.from().ok().and_then(|from| from.uri());
        let trunk = match marked {
            Some((token, mark)) => self.marked_trunk(token, mark),
            None => found.iter().find_map(|candidate| match &candidate.kind {
                TargetKind::NextHops { trunk, .. } => trunk.clone(),
                _ => self.trunk_at(from?.host_port.host),
            }),
        };
        let trunk = trunk.as_deref();
        let reach = match permit {
            // What is part of a dialog speaks for whom it was let in or called as.
            Permit::Dialog(token) => from.and_then(|from| match token.is_callees() {
                true => self.reach_of_called(now, &from, trunk, None),
                false => self.reach_of_caller(now, &from),
            }),
            Permit::Inbound(_) | Permit::Trunk(_) => None,
            known => Some(known.permission(&self.settings)),
        };
        // RFC 3515 2.4.1 has one, and which of several counts is up to who gets them.
        let referred = request.fields_named("Refer-To");
        let referred = referred.map(|field| NameAddr::parse(field.value)?.uri());
        match self.may_all_be_called(now, Asker { reach, trunk }, referred) {
            Ok(()) => targets,
            Err(outcome) => {
                found.clear();
                Targets::Answer(outcome)
            }
        }
    }

    /// Whether a 3xx that answers a gateway's call would have it call what the user may not whose
    /// phone has sent it.
    pub(super) fn redirects_a_gateway(
        &self,
        now: Now,
        context: &Context,
        branch: usize,
        response: &Message,
    ) -> bool {
        let request = context.request.as_deref();
        let is_judged = context.method == Method::Invite && self.settings.authenticate.is_some();
        let Some(request) = request.filter(|_| is_judged) else {
            return false;
        };
        let legs = context.legs.as_deref();
        let trunk = legs.and_then(|legs| legs.came_from());
        let came_from = Source::of(&context.sender.flow);
        if trunk.is_none() && !self.relay(now).is_gateways(&came_from) {
            return false;
        }
        let at = context.branches.get(branch).map(|of| of.candidate);
        let Some(candidate) = at.and_then(|at| context.candidates.get(usize::from(at))) else {
            return broken!("until the final response, targets are kept", true);
        };
        let extra = candidate.extra.as_ref();
        let payer = extra.and_then(|extra| extra.payer.as_ref());
        let reach = match (payer, &candidate.kind) {
            (Some(payer), _) => Some(payer.permission(&self.settings.numbers)),
            // It has called somebody elsewhere itself, and no user of ours has had a say in that.
            (None, TargetKind::NextHops { .. }) => return false,
            (None, TargetKind::Routed) if request.to_tag().is_none() => return false,
            (None, _) => self.reach_of_answerer(now, request, &context.routed, trunk),
        };
        let contacts = response.contacts().map(|contact| match contact {
            Ok(Contact::Addr(contact)) => Some(contact.uri),
            Ok(Contact::Star) | Err(_) => None,
        });
        let judged = self.may_all_be_called(now, Asker { reach, trunk }, contacts);
        judged.is_err()
    }

    /// Whether a target is a gateway.
    fn leads_to_gateway(
        &self,
        now: Now,
        request: &Message,
        routed: &Routed,
        kind: &TargetKind,
    ) -> bool {
        let relay = self.relay(now);
        let leads = |uri: Option<Uri<'_>>| uri.is_some_and(|uri| relay.leads_to_gateway(&uri));
        match kind {
            TargetKind::NextHops { .. } => true,
            TargetKind::Token(flow) => relay.is_gateways(&Source::of(flow)),
            TargetKind::Uri(uri) => leads(Uri::parse(uri)),
            TargetKind::Contact(binding) => {
                let flow = binding.flow.as_ref().map(Source::of);
                leads(Uri::parse(&binding.uri)) || flow.is_some_and(|of| relay.is_gateways(&of))
            }
            TargetKind::Routed => match routed.next_route {
                Some(next) => leads(Uri::parse(request.slice(next))),
                None => leads(routed.uri(request)),
            },
        }
    }

    /// Whether a gateway may call all of these URIs for somebody, `None` for one that cannot be read.
    fn may_all_be_called<'u>(
        &self,
        now: Now,
        asker: Asker<'_>,
        mut uris: impl Iterator<Item = Option<Uri<'u>>>,
    ) -> Result<(), Outcome> {
        // Where nothing is written of numbers and people each of ours may call whom he likes.
        if asker.reach.is_some() && !self.has_people {
            return Ok(());
        }
        let mut steps = STEPS_MAX;
        uris.try_for_each(|uri| match uri {
            Some(uri) => self.may_be_called(now, asker, &uri, &mut steps),
            None => Err(Outcome::NotPermitted),
        })
    }

    /// The same of one, and of those to which it leads as an alias.
    fn may_be_called(
        &self,
        now: Now,
        asker: Asker<'_>,
        uri: &Uri<'_>,
        steps: &mut u8,
    ) -> Result<(), Outcome> {
        *steps = steps.checked_sub(1).ok_or(Outcome::NotPermitted)?;
        // Another scheme may stand for a list in the body (RFC 5368).
        if !uri.is_sip() && uri.scheme != Scheme::Tel {
            return Err(Outcome::NotPermitted);
        }
        let readings = readings_of(uri);
        // With `maddr` it leads elsewhere, whatever its host is.
        let aor = self.aor_of(uri).filter(|_| uri.param("maddr").is_none());
        if let Some(aor) = aor {
            if let Some(targets) = self.settings.people.alias(&aor) {
                let mut targets = targets.iter().map(|target| Uri::parse(&target.uri));
                return targets.try_for_each(|uri| match uri {
                    Some(uri) => self.may_be_called(now, asker, &uri, steps),
                    None => Err(Outcome::NotPermitted),
                });
            }
            // Not every gateway minds the domain: what may be dialled is a number, unless it is
            // known to be a user's name.
            let is_user = || self.is_bound(now, &aor) || self.person_at(uri).is_some();
            if readings.is_empty() || is_user() {
                return match replaces(uri) {
                    true => Ok(()),
                    false => asker.may(Class::Needs(Permission::Internal)),
                };
            }
        }
        if replaces(uri) && self.is_place_in_call(now, uri) {
            return Ok(());
        }
        asker.may(self.class_leaving(uri))?;
        // What its provider reads in it counts too, and what the rules make of it if it comes back.
        let rules = &self.settings.numbers;
        let plan = asker.trunk.map(|trunk| &trunk.numbers.plan);
        let read = readings.iter().filter_map(|of| plan?.understood(of));
        let rewritten = number_of(uri).and_then(|number| rules.rewritten(&number));
        let mut others = read.chain(rewritten);
        others.try_for_each(|number| asker.may(rules.worst(&self.number_lists, [&*number])))
    }

    /// Whether that is the URI of somebody's phone, as it stands in the Contact of a call, or a
    /// gateway's own. Whoever takes over a call is asked for by it as well as by his name.
    fn is_place_in_call(&self, now: Now, uri: &Uri<'_>) -> bool {
        let has_number = !readings_of(uri).is_empty();
        if !has_number && self.relay(now).leads_to_gateway(uri) {
            return true;
        }
        let Some(user) = user_of(uri) else {
            return false;
        };
        let bare = Uri {
            headers: &[],
            ..*uri
        };
        let mut found = Vec::new();
        for domain in self.settings.domains.iter().take(STEPS_MAX.into()) {
            let aor = format!("sip:{user}@{domain}");
            let location = &self.shared.location;
            location.find(aor.as_bytes(), now.unix_ms, &mut found);
        }
        let mut places = found.iter().filter_map(|binding| Uri::parse(&binding.uri));
        places.any(|place| place.equals(&bare))
    }

    /// How far whoever has called may call himself, by his From. `None` for a stranger, who is at
    /// no host of ours.
    fn reach_of_caller(&self, now: Now, from: &Uri<'_>) -> Option<Permission> {
        let general = self.settings.numbers.permission;
        // Whoever hides may be a stranger, whom a peer or a provider has brought.
        if names_nobody(from) {
            return None;
        }
        // By its host alone the gate has asked for the password of its user.
        let is_ours = from.is_sip() && self.own.is_own_host(from.host_port.host);
        let aor = self.aor_of(from).filter(|_| is_ours);
        let reach = aor.map(|aor| self.reach_of_aor(now, aor));
        reach.or(is_ours.then_some(general))
    }

    /// How far whoever answers a gateway's INVITE may call.
    fn reach_of_answerer(
        &self,
        now: Now,
        request: &Message,
        routed: &Routed,
        trunk: Option<&Trunk>,
    ) -> Option<Permission> {
        if request.to_tag().is_none() {
            let uri = routed.uri(request)?;
            return self.reach_of_called(now, &uri, trunk, Some(request));
        }
        // Within a dialog the Request-URI is his contact. That he was called the gateway's own
        // token says.
        let to = request.to().ok()?.uri()?;
        match routed.grant.is_some_and(|token| !token.is_callees()) {
            true => self.reach_of_called(now, &to, None, None),
            false => self.reach_of_caller(now, &to),
        }
    }

    /// How far whoever was called by a URI may call: who has its number by a list of a trunk, whom
    /// its name leads to, or who gets what nobody has. `invite` is the call, where it is at hand.
    /// `None` for a stranger.
    fn reach_of_called(
        &self,
        now: Now,
        uri: &Uri<'_>,
        trunk: Option<&Trunk>,
        invite: Option<&Message>,
    ) -> Option<Permission> {
        let at_domain = self.trunk_at(uri.host_port.host);
        let trunk = trunk.or(at_domain.as_deref());
        let number = number_of(uri);
        let by_trunk = || self.at_home(&self.user_called(trunk?, uri, invite)?);
        let by_any = || {
            let user = self.user_of_number(&[Some(number.as_deref()?)])?;
            Some(user.into_bytes())
        };
        let own = || {
            let aor = self.aor_of(uri)?;
            (number.is_none() || self.is_known(now, &aor)).then_some(aor)
        };
        let by_name = || {
            let aor = self.at_home(&user_of(uri)?)?;
            (trunk.is_some() && self.is_known(now, &aor)).then_some(aor)
        };
        // Where the call is at hand, whoever gets what nobody has is he.
        let left = || self.at_home(invite.and(trunk)?.numbers.to.as_deref()?);
        let aor = by_trunk().or_else(by_any).or_else(own);
        if let Some(aor) = aor.or_else(by_name).or_else(left) {
            return Some(self.reach_of_aor(now, aor));
        }
        // To may be of a call that was diverted to one of ours, or name the account.
        let is_here = || self.own.is_own_host(uri.host_port.host);
        let is_ours = trunk.is_some() || number.is_some() || is_here();
        is_ours.then(|| self.settings.people.least(&self.settings.numbers))
    }

    /// How far the user of an address-of-record may call; of an alias the least of what those may
    /// who are users. Of whom nothing is written, or nothing is known, that is what all may.
    fn reach_of_aor(&self, now: Now, aor: Vec<u8>) -> Permission {
        let settings = &self.settings;
        let mut least = None;
        let mut names = vec![aor];
        for _ in 0..STEPS_MAX {
            let Some(name) = names.pop() else {
                break;
            };
            if let Some(targets) = settings.people.alias(&name) {
                let uris = targets.iter().filter_map(|target| Uri::parse(&target.uri));
                names.extend(uris.filter_map(|uri| self.aor_of(&uri)));
            } else if let Some(reach) = self.reach_of_user(now, &name) {
                least = Some(least.map_or(reach, |least: Permission| least.min(reach)));
            }
        }
        // Who was not looked at may be anybody.
        let unseen = (!names.is_empty()).then(|| settings.people.least(&settings.numbers));
        let seen = least.into_iter().chain(unseen).min();
        seen.unwrap_or(settings.numbers.permission)
    }

    /// The same of one that is no alias. What looks like a number is a user if he is here.
    fn reach_of_user(&self, now: Now, aor: &[u8]) -> Option<Permission> {
        let rules = &self.settings.numbers;
        let uri = Uri::parse(aor)?;
        if let Some(person) = self.person_at(&uri) {
            return Some(person.permission(rules));
        }
        let is_user = number_of(&uri).is_none() || self.is_bound(now, aor);
        is_user.then_some(rules.permission)
    }

    /// Whether there is an alias or a user of that address-of-record.
    fn is_known(&self, now: Now, aor: &[u8]) -> bool {
        let is_person = || Uri::parse(aor).is_some_and(|uri| self.person_at(&uri).is_some());
        self.settings.people.alias(aor).is_some() || self.is_bound(now, aor) || is_person()
    }

    /// The address-of-record of a name at our first domain.
    fn at_home(&self, user: &str) -> Option<Vec<u8>> {
        let domain = self.settings.domains.first()?;
        Some(format!("sip:{user}@{domain}").into_bytes())
    }

    /// The trunk at whose domain somebody is.
    fn trunk_at(&self, host: &[u8]) -> Option<Arc<Trunk>> {
        let groups = self.settings.routes.groups.iter();
        let mut trunks = groups.filter_map(|group| group.trunk.as_ref());
        let is_it = |trunk: &&Arc<Trunk>| trunk.domain.as_bytes().eq_ignore_ascii_case(host);
        trunks.find(is_it).cloned()
    }

    /// The address-of-record that a URI of ours names.
    fn aor_of(&self, uri: &Uri<'_>) -> Option<Vec<u8>> {
        let mut aor = Vec::new();
        crate::aor::write_aor(&self.settings, &self.own, uri, &mut aor).then_some(aor)
    }

    /// Whether an address-of-record has a contact.
    fn is_bound(&self, now: Now, aor: &[u8]) -> bool {
        let mut found = Vec::new();
        self.shared.location.find(aor, now.unix_ms, &mut found);
        !found.is_empty()
    }
}

/// Whether whoever is called by a URI is to take over a call (RFC 3891), as at the end of an
/// attended transfer: the call to him is there already.
fn replaces(uri: &Uri<'_>) -> bool {
    let mut headers = uri.headers.split(|byte| *byte == b'&');
    headers.any(|header| {
        let name = header.split(|byte| *byte == b'=').next();
        name.is_some_and(|name| name.eq_ignore_ascii_case(b"Replaces"))
    })
}
