//! Whom a provider calls: its number, or the registered contact, leads to a user of ours
//! (`docs/decisions/0216-numbers-are-e164-inside.md`).

use std::sync::Arc;

use sip_msg::header::NameAddr;
use sip_msg::{HeaderName, Message, Method, Uri};

use super::faces::user_of;
use super::{Numbers, Trunk};
use crate::hook::Told;
use crate::park::Job;
use crate::permit::Permit;
use crate::proxy::context::Candidate;
use crate::proxy::outcome::Outcome;
use crate::proxy::targets::{Contacts, Targets};
use crate::{Now, Shard};

/// What a request from a trunk's member comes to.
pub(crate) enum Called {
    /// What any request would come to.
    Usual,
    /// It asks after the trunk itself.
    TheTrunk,
    /// These targets, by that trunk.
    Targets(Targets, Arc<Trunk>),
    /// The usual ones, by that trunk.
    UsualBy(Arc<Trunk>),
}

impl Shard {
    /// Whom a request calls that begins something, if a member of a trunk has sent it.
    pub(crate) fn called_by_trunk(
        &mut self,
        now: Now,
        job: &Job,
        permit: &Permit,
        found: &mut Vec<Candidate>,
    ) -> Called {
        if !self.trunks.is_any() {
            return Called::Usual;
        }
        let request = &*job.request;
        let is_within = request.to_tag().is_some()
            || job.routed.grant.is_some()
            || job.routed.next_route.is_some();
        let Some(uri) = job.routed.uri(request).filter(|_| !is_within) else {
            return Called::Usual;
        };
        let trunks = self.trunks_of_sender(job);
        let Some(user) = user_of(&uri).filter(|_| !trunks.is_empty()) else {
            return Called::Usual;
        };
        let Some((trunk, is_contact)) = chosen(&trunks, &user, request) else {
            return Called::Usual;
        };
        let host = uri.host_port.host;
        let is_ours =
            self.own.is_own_uri(&uri) || trunk.domain.as_bytes().eq_ignore_ascii_case(host);
        if !is_ours {
            return Called::Usual;
        }
        if is_contact && request.method() == Method::Options {
            return Called::TheTrunk;
        }
        let is_named = job.told.as_deref().is_some_and(Told::names_user);
        let numbers = &trunk.numbers;
        let mut called = match is_contact && !is_named {
            true => named(request),
            false => Vec::new(),
        };
        let is_number = numbers.plan.read_inbound(&user).is_some();
        called.push(user);
        let listed = self.listed_user(numbers, &called);
        let known = listed.as_deref();
        // Nobody else is called in the place of whom the hook has named, whoever gets what nobody has.
        if known.is_none() && is_named {
            return Called::UsualBy(trunk);
        }
        if known.is_none() && !is_contact && self.own.is_own_uri(&uri) {
            // A user of that very name comes before whoever gets what is left.
            let is_there = self.contact_targets(now, &uri, found) != Contacts::None
                || (self.has_people && self.person_at(&uri).is_some());
            if is_there || (numbers.to.is_none() && !is_number) {
                found.clear();
                return Called::UsualBy(trunk);
            }
        }
        let targets = match known.or(numbers.to.as_deref()) {
            Some(user) => self.local_targets(now, user, (job, permit), found),
            None => Targets::Answer(Outcome::NobodysNumber),
        };
        Called::Targets(targets, trunk)
    }

    /// The user or alias of ours that a provider has called by a trunk, by its name: as the URI
    /// says or, where that is the registered contact, what the call names beside it.
    pub(crate) fn user_called(
        &self,
        trunk: &Trunk,
        uri: &Uri<'_>,
        invite: Option<&Message>,
    ) -> Option<String> {
        let user = user_of(uri)?;
        let invite = invite.filter(|_| is_account(trunk, &user));
        let mut called = invite.map(named).unwrap_or_default();
        called.push(user);
        self.listed_user(&trunk.numbers, &called)
    }

    /// The user who has one of these numbers by a trunk's list. An alias is as good as the list.
    fn listed_user(&self, numbers: &Numbers, called: &[String]) -> Option<String> {
        let listed = called.iter().find_map(|number| numbers.user_of(number));
        let listed = listed.map(str::to_owned);
        listed.or_else(|| self.alias_of(numbers, called))
    }

    /// The first of these numbers that is an alias, as it is written there.
    fn alias_of(&self, numbers: &Numbers, called: &[String]) -> Option<String> {
        let domain = self.settings.domains.first().filter(|_| self.has_people)?;
        let read = called.iter().filter_map(|of| numbers.plan.read_inbound(of));
        let mut names = read.chain(called.iter().cloned());
        names.find(|name| {
            let aor = format!("sip:{name}@{domain}");
            self.settings.people.alias(aor.as_bytes()).is_some()
        })
    }

    /// Where calls to a user of ours go, by his name: to his phones, or where he or an alias leads
    /// them.
    fn local_targets(
        &mut self,
        now: Now,
        user: &str,
        (job, permit): (&Job, &Permit),
        found: &mut Vec<Candidate>,
    ) -> Targets {
        found.clear();
        self.divert = None;
        let Some(domain) = self.settings.domains.first().cloned() else {
            return Targets::Answer(Outcome::NobodysNumber);
        };
        let text = format!("sip:{user}@{domain}");
        let Some(uri) = Uri::parse(text.as_bytes()) else {
            return Targets::Answer(Outcome::NobodysNumber);
        };
        if self.has_people {
            let skips_drained = self.gateways.has_drained();
            let request = &job.request;
            return match self.retarget(now, request, &uri, permit, skips_drained, found) {
                Targets::Absent => Targets::Answer(Outcome::NotRegistered),
                targets => targets,
            };
        }
        self.contact_targets(now, &uri, found);
        match found.is_empty() {
            true => Targets::Answer(Outcome::NotRegistered),
            false => Targets::Found,
        }
    }
}

/// Which of its trunks a provider calls by, and whether it calls the registered contact.
fn chosen(trunks: &[Arc<Trunk>], user: &str, request: &Message) -> Option<(Arc<Trunk>, bool)> {
    let is_contact = |trunk: &&Arc<Trunk>| is_account(trunk, user);
    if let Some(trunk) = trunks.iter().find(is_contact) {
        return Some((Arc::clone(trunk), true));
    }
    let has_number = |trunk: &&Arc<Trunk>| {
        let numbers = &trunk.numbers;
        numbers.has(user) || named(request).iter().any(|number| numbers.has(number))
    };
    let first = trunks.iter().find(has_number).or(trunks.first())?;
    Some((Arc::clone(first), false))
}

/// Whether a name is that of a trunk's account, which is the user of the registered contact.
fn is_account(trunk: &Trunk, user: &str) -> bool {
    !trunk.account.is_empty() && *trunk.account == *user
}

/// The numbers that a request names beside its Request-URI: in P-Called-Party-ID (RFC 7315 4.2)
/// and in To.
fn named(request: &Message) -> Vec<String> {
    let to = request.to().ok().and_then(|to| user_of(&to.uri()?));
    let called = request
        .fields_of(HeaderName::Other)
        .find(|field| field.raw_name.eq_ignore_ascii_case(b"P-Called-Party-ID"));
    let called = called.and_then(|field| user_of(&NameAddr::parse(field.value)?.uri()?));
    to.into_iter().chain(called).collect()
}
