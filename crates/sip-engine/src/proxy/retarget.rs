//! Where a call goes that is for a name or a number of ours, beyond its own contacts: aliases,
//! numbers that are rewritten, and users who forward their calls
//! (`docs/decisions/0218-how-a-call-is-retargeted.md`).
//!
//! RFC 3261 16.5 leaves it to an element how it finds the targets of what it is responsible for:
//! "Any of these mechanisms can be modeled as accessing an abstract Location Service." A call is
//! retargeted no more than [`RETARGETS_MAX`] times, those counted that Diversion
//! tells of, and over all branches of an alias no more than [`STEPS_MAX`].

use std::sync::Arc;

use sip_msg::uri::Scheme;
use sip_msg::{Message, Method, Uri};

use super::context::{Candidate, Context, TargetKind};
use super::diverted::{times_diverted, write_diversion};
use super::outcome::Outcome;
use super::route::Routed;
use super::targets::{Contacts, Targets};
use crate::numbers::{Permission, number_of};
use crate::people::{AliasTarget, Person, RETARGETS_MAX, When};
use crate::permit::{Forwarder, Permit};
use crate::relay::ChosenBy;
use crate::settings::Mode;
use crate::{Now, Outputs, Shard};

/// Names that are looked at for one request.
const STEPS_MAX: u8 = 64;

/// A user whose phones are tried, and who has his calls forwarded where they do not take them.
#[derive(Clone, Debug)]
pub(crate) struct Divert {
    pub(crate) person: Arc<Person>,
    /// How often the call may still be retargeted.
    left: u8,
    /// What the copies for him say of who forwarded the call before: lines of Diversion.
    diversion: Vec<u8>,
    skips_drained: bool,
    /// Whether it is a call for help: wherever it is forwarded to, no limit counts.
    is_emergency: bool,
}

impl Divert {
    /// How long his phones may ring; `None` where nothing comes of it when they are not taken.
    pub(crate) fn after_ms(&self) -> Option<u64> {
        let forwards = &self.person.forwards;
        forwards.no_answer.as_ref().map(|_| forwards.no_answer_ms())
    }
}

/// What a request brings along on its way from name to name.
#[derive(Clone, Copy)]
struct Retargeting<'a> {
    /// On whose account it is.
    permit: &'a Permit,
    /// How often it may still be retargeted.
    left: u8,
    /// Whether it has been: the Request-URI is another by now.
    is_retargeted: bool,
    /// Whether it is a call: nothing else is forwarded.
    is_call: bool,
    /// Whether it is for several at once: their own forwards do not count then.
    is_member: bool,
    skips_drained: bool,
    /// Who has forwarded it so far.
    diversion: &'a [u8],
}

/// The same of a call that is forwarded, without the account that it was on.
#[derive(Clone, Copy)]
struct Road<'a> {
    left: u8,
    skips_drained: bool,
    diversion: &'a [u8],
}

impl<'a> Retargeting<'a> {
    const fn road(&self) -> Road<'a> {
        Road {
            left: self.left,
            skips_drained: self.skips_drained,
            diversion: self.diversion,
        }
    }
}

impl Shard {
    /// Fills in the targets of a request for a URI of ours, or for a number.
    pub(crate) fn retarget(
        &mut self,
        now: Now,
        request: &Message,
        uri: &Uri<'_>,
        permit: &Permit,
        skips_drained: bool,
        found: &mut Vec<Candidate>,
    ) -> Targets {
        self.steps_left = STEPS_MAX;
        // Without state a CANCEL and an ACK must find what their INVITE found. With it an ACK that
        // is retargeted belongs to no call, and nobody pays for it.
        let is_call = match request.method() {
            Method::Invite => true,
            Method::Cancel | Method::Ack => self.settings.mode == Mode::Stateless,
            _ => false,
        };
        let so_far = Retargeting {
            permit,
            left: RETARGETS_MAX.saturating_sub(times_diverted(request)),
            is_retargeted: false,
            is_call,
            is_member: false,
            skips_drained,
            diversion: &[],
        };
        self.retarget_to(now, uri, &so_far, found)
    }

    /// Whether a request is a call for help, which is led as one whatever its sender names beside
    /// the number. Within a dialog the route set decides.
    pub(crate) fn is_for_help(
        &self,
        now: Now,
        permit: &Permit,
        routed: &Routed,
        request: &Message,
    ) -> bool {
        let is_led = |uri: Uri<'_>| {
            self.settings.numbers.names_help(&uri)
                && (uri.scheme == Scheme::Tel || self.own.is_own_uri(&uri))
        };
        permit.may_call_for_help()
            && request.method() != Method::Register
            && routed.uri(request).is_some_and(is_led)
            && !self
                .relay(now)
                .chosen_by(permit, routed, request)
                .is_dialog()
    }

    /// A call for help: by its number alone, whatever hangs on that, so that no next hop reads
    /// another number in it, and nobody is refused for a `phone-context`.
    /// `None` where it is none, or is led as one by now.
    fn retarget_help(
        &mut self,
        now: Now,
        uri: &Uri<'_>,
        so_far: &Retargeting<'_>,
        found: &mut Vec<Candidate>,
    ) -> Option<Targets> {
        if matches!(so_far.permit, Permit::Emergency(_)) {
            return None;
        }
        let (permit, number) = so_far.permit.for_help(&self.settings.numbers, uri)?;
        let so_far = Retargeting {
            permit: &permit,
            is_retargeted: true,
            ..*so_far
        };
        let start = found.len();
        let scheme = match uri.scheme {
            Scheme::Sips => "sips",
            _ => "sip",
        };
        let host = uri.host_port;
        let domain = self.own.domain(host.host);
        let text = match (domain.or(self.settings.domains.first()), host.port) {
            (Some(domain), _) => format!("{scheme}:{number}@{domain}"),
            (None, _) if uri.scheme == Scheme::Tel => format!("tel:{number}"),
            (None, port) => {
                let port = port.map_or_else(String::new, |port| format!(":{port}"));
                let host = String::from_utf8_lossy(host.host);
                format!("{scheme}:{number}@{host}{port}")
            }
        };
        let Some(bare) = Uri::parse(text.as_bytes()) else {
            return Some(Targets::Answer(Outcome::UnreadableUri));
        };
        let targets = self.retarget_to(now, &bare, &so_far, found);
        // Whatever it is led to, at once or later: no limit counts.
        mark_emergency(found, start);
        if let Some(divert) = &mut self.divert {
            divert.is_emergency = true;
        }
        Some(targets)
    }

    fn retarget_to(
        &mut self,
        now: Now,
        uri: &Uri<'_>,
        so_far: &Retargeting<'_>,
        found: &mut Vec<Candidate>,
    ) -> Targets {
        let Some(steps_left) = self.steps_left.checked_sub(1) else {
            return Targets::Answer(Outcome::LedInCircle);
        };
        self.steps_left = steps_left;
        match uri.scheme == Scheme::Tel || self.own.is_own_uri(uri) {
            true => self.retarget_name(now, uri, so_far, found),
            false => self.retarget_away(now, uri, so_far, found),
        }
    }

    /// A name or a number of ours.
    fn retarget_name(
        &mut self,
        now: Now,
        uri: &Uri<'_>,
        so_far: &Retargeting<'_>,
        found: &mut Vec<Candidate>,
    ) -> Targets {
        if let Some(targets) = self.retarget_help(now, uri, so_far, found) {
            return targets;
        }
        let number = number_of(uri);
        let settings = Arc::clone(&self.settings);
        let mut name = Vec::new();
        if uri.scheme == Scheme::Tel {
            // RFC 3261 19.1.6: a number is the same user wherever it is called.
            let domain = settings.domains.first();
            let (Some(number), Some(domain)) = (&number, domain) else {
                return self.tel_targets(now, uri, so_far.permit, so_far.skips_drained, found);
            };
            name.extend_from_slice(format!("sip:{number}@{domain}").as_bytes());
        } else if !crate::aor::write_aor(&settings, &self.own, uri, &mut name) {
            let (permit, skips_drained) = (so_far.permit, so_far.skips_drained);
            return self.other_targets(now, uri, false, permit, skips_drained, found);
        }
        if let Some(targets) = settings.people.alias(&name) {
            return self.retarget_alias(now, targets, so_far, found);
        }
        let Some(number) = number else {
            return self.retarget_user(now, (uri, uri), so_far, found);
        };
        let rewritten = settings.numbers.rewritten(&number);
        let written = rewritten.as_deref().unwrap_or(&number);
        let at = name.iter().rposition(|byte| *byte == b'@');
        let domain = at.and_then(|at| name.get(at + 1..)).unwrap_or_default();
        let domain = String::from_utf8_lossy(domain);
        let spelt = |number: &str| format!("sip:{number}@{domain}").into_bytes();
        // One that a rule has made of it is one: behind the digit for a line, perhaps.
        if rewritten.is_some()
            && let Some(bare) = Uri::parse(&spelt(written))
            && let Some(targets) = self.retarget_help(now, &bare, so_far, found)
        {
            return targets;
        }
        let global = settings.numbers.global(written);
        let spellings = [Some(written), Some(&*number), global.as_deref()];
        for spelling in spellings.into_iter().flatten() {
            if let Some(targets) = settings.people.alias(&spelt(spelling)) {
                return self.retarget_alias(now, targets, so_far, found);
            }
        }
        if matches!(so_far.permit, Permit::Forwarder(_))
            && let Some(user) =
                self.user_of_number(&[Some(written), Some(&*number), global.as_deref()])
        {
            let target = AliasTarget {
                uri: user.as_bytes().into(),
                q: 1_000,
            };
            return self.retarget_alias(now, &[target].into(), so_far, found);
        }
        let text = match uri.scheme {
            Scheme::Sips => format!("sips:{written}@{domain}"),
            _ => format!("sip:{written}@{domain}"),
        };
        let Some(named) = Uri::parse(text.as_bytes()) else {
            return Targets::Answer(Outcome::UnreadableUri);
        };
        // What no rule has made another leaves as it came, and is judged as such.
        let (ways, is_retargeted) = match &rewritten {
            Some(_) => ((&named, &named), true),
            None if uri.scheme == Scheme::Tel => ((&named, uri), so_far.is_retargeted),
            None => ((uri, uri), so_far.is_retargeted),
        };
        let so_far = Retargeting {
            is_retargeted,
            ..*so_far
        };
        match (self.retarget_user(now, ways, &so_far, found), uri.scheme) {
            // Whether a number is a user's is nobody's to know.
            (Targets::Absent, Scheme::Tel) => Targets::Answer(Outcome::NoRouteForNumber),
            (targets, _) => targets,
        }
    }

    /// The user of ours who has a number by the list of a trunk. A call that is forwarded to it
    /// stays here: by the provider it would come back as another call, and nobody could tell that it
    /// goes in a circle.
    pub(super) fn user_of_number(&self, spellings: &[Option<&str>]) -> Option<String> {
        let domain = self.settings.domains.first()?;
        let groups = self.settings.routes.groups.iter();
        let mut trunks = groups.filter_map(|group| group.trunk.as_ref());
        trunks.find_map(|trunk| {
            let numbers = &trunk.numbers;
            let mut spellings = spellings.iter().flatten();
            let user = spellings.find_map(|number| {
                let main = numbers.to.as_deref().filter(|_| numbers.has(number));
                numbers.user_of(number).or(main)
            })?;
            Some(format!("sip:{user}@{domain}"))
        })
    }

    /// An alias is another name for what was called, on the account of whoever calls it.
    fn retarget_alias(
        &mut self,
        now: Now,
        targets: &Arc<[AliasTarget]>,
        so_far: &Retargeting<'_>,
        found: &mut Vec<Candidate>,
    ) -> Targets {
        let Some(left) = so_far.left.checked_sub(1) else {
            return Targets::Answer(Outcome::LedInCircle);
        };
        let next = Retargeting {
            left,
            is_retargeted: true,
            is_member: so_far.is_member || targets.len() > 1,
            ..*so_far
        };
        let first = found.len();
        let mut refused = None;
        for target in targets.iter() {
            let start = found.len();
            if start >= self.settings.proxy.branches_max {
                self.counters.branches_refused += 1;
                break;
            }
            let Some(uri) = Uri::parse(&target.uri) else {
                continue;
            };
            match self.retarget_to(now, &uri, &next, found) {
                Targets::Found => {
                    drop_twins(found, start);
                    rank_below(found, start, target.q);
                }
                Targets::Absent => {}
                Targets::Answer(outcome) => refused = refused.or(Some(outcome)),
            }
        }
        match found.len() > first {
            true => Targets::Found,
            // Whoever it leads to is a user: the operator has named him.
            false => Targets::Answer(refused.unwrap_or(Outcome::NotRegistered)),
        }
    }

    /// A user: his phones, or where his calls are forwarded to. Under the first of the names he is
    /// looked up, under the second it leaves where he is none.
    fn retarget_user(
        &mut self,
        now: Now,
        (user, uri): (&Uri<'_>, &Uri<'_>),
        so_far: &Retargeting<'_>,
        found: &mut Vec<Candidate>,
    ) -> Targets {
        let forwards = so_far.is_call && !so_far.is_member;
        let person = forwards.then(|| self.person_at(user)).flatten();
        if let Some(person) = &person
            && let Some(forward) = Forwarder::of(person, When::Always)
        {
            // Who may not call him is not retargeted by him either.
            if let Err(outcome) = self.may_call_within(so_far.permit) {
                return Targets::Answer(outcome);
            }
            return self.retarget_forward(now, forward, When::Always, so_far.road(), found);
        }
        let start = found.len();
        let contacts = self.contact_targets(now, user, found);
        if found.len() > start {
            if let Err(outcome) = self.may_call_within(so_far.permit) {
                found.truncate(start);
                return Targets::Answer(outcome);
            }
            add_diversion(found, start, so_far.diversion);
            let person = person.filter(|person| person.forwards.are_later());
            self.divert = person.map(|person| {
                Box::new(Divert {
                    person,
                    left: so_far.left,
                    diversion: so_far.diversion.to_vec(),
                    skips_drained: so_far.skips_drained,
                    is_emergency: false,
                })
            });
            return Targets::Found;
        }
        // All his contacts were in the set before: as one of several who are called, or because
        // the call has come back to him. RFC 3261 16.5: "any given URI MUST NOT be added to the
        // set more than once."
        match (contacts, so_far.is_member) {
            (Contacts::There, true) => return Targets::Answer(Outcome::Absent),
            (Contacts::There, false) => return Targets::Answer(Outcome::LedInCircle),
            _ => {}
        }
        if let Some(person) = &person
            && let Some(forward) = Forwarder::of(person, When::NoAnswer)
        {
            if let Err(outcome) = self.may_call_within(so_far.permit) {
                return Targets::Answer(outcome);
            }
            return self.retarget_forward(now, forward, When::NoAnswer, so_far.road(), found);
        }
        let is_registered = contacts != Contacts::None;
        let (permit, skips_drained) = (so_far.permit, so_far.skips_drained);
        let targets = self.other_targets(now, uri, is_registered, permit, skips_drained, found);
        keep_uri(found, start, uri, so_far);
        targets
    }

    /// A user forwards the call: from here on it is on his account.
    fn retarget_forward(
        &mut self,
        now: Now,
        (forwarder, to): (Forwarder, Arc<[u8]>),
        when: When,
        road: Road<'_>,
        found: &mut Vec<Candidate>,
    ) -> Targets {
        let Some(left) = road.left.checked_sub(1) else {
            return Targets::Answer(Outcome::LedInCircle);
        };
        let Some(uri) = Uri::parse(&to) else {
            return Targets::Answer(Outcome::ForwardRefused);
        };
        let person = Arc::clone(forwarder.person());
        let permit = Permit::Forwarder(forwarder);
        let mut diversion = Vec::new();
        write_diversion(&person.aor, when, &mut diversion);
        diversion.extend_from_slice(road.diversion);
        let so_far = Retargeting {
            permit: &permit,
            left,
            is_retargeted: true,
            is_call: true,
            is_member: false,
            skips_drained: road.skips_drained,
            diversion: &diversion,
        };
        let start = found.len();
        let targets = self.retarget_to(now, &uri, &so_far, found);
        for candidate in found.iter_mut().skip(start) {
            let extra = candidate.extra();
            // Who forwards it on pays for that.
            if extra.payer.is_none() {
                extra.payer = Some(Arc::clone(&person));
            }
        }
        self.counters.calls_diverted += u64::from(targets == Targets::Found);
        match targets {
            Targets::Found
            | Targets::Answer(Outcome::LedInCircle | Outcome::Drained | Outcome::TrunkRefused) => {
                targets
            }
            // Where it leads, and why it must not, is the user's affair and not the caller's.
            Targets::Answer(
                Outcome::NotPermitted | Outcome::NumberBlocked | Outcome::NotRelayed,
            ) => Targets::Answer(Outcome::ForwardRefused),
            Targets::Answer(_) | Targets::Absent => Targets::Answer(Outcome::NotRegistered),
        }
    }

    /// Somebody elsewhere, to whom an alias or a forward leads.
    fn retarget_away(
        &mut self,
        now: Now,
        uri: &Uri<'_>,
        so_far: &Retargeting<'_>,
        found: &mut Vec<Candidate>,
    ) -> Targets {
        if !so_far.permit.may_relay() {
            return Targets::Answer(Outcome::NotRelayed);
        }
        if let Err(outcome) = self.may_leave(so_far.permit, uri) {
            return Targets::Answer(outcome);
        }
        let start = found.len();
        let (permit, skips_drained) = (so_far.permit, so_far.skips_drained);
        let by_table = match permit.may_use_routes() {
            true => self.domain_targets(now, uri, permit, skips_drained, found),
            false => None,
        };
        let targets = by_table.unwrap_or_else(|| {
            let is_there =
                |of: &Candidate| matches!(&of.kind, TargetKind::Uri(other) if **other == *uri.raw);
            if !found.iter().any(is_there) {
                found.push(Candidate::new(TargetKind::Uri(uri.raw.into()), 1000));
            }
            Targets::Found
        });
        keep_uri(found, start, uri, so_far);
        add_diversion(found, start, so_far.diversion);
        targets
    }

    /// Whether a user may call others of ours.
    fn may_call_within(&self, permit: &Permit) -> Result<(), Outcome> {
        match permit.permission(&self.settings) >= Permission::Internal {
            true => Ok(()),
            false => Err(Outcome::NotPermitted),
        }
    }

    /// What is written of the user whom a URI names.
    pub(crate) fn person_at(&self, uri: &Uri<'_>) -> Option<Arc<Person>> {
        let realm = self.own.realm_of(&self.settings, uri.host_port.host);
        let user: Vec<u8> = uri.user_bytes().collect();
        self.settings.people.person(&user, &realm).cloned()
    }

    /// The phones of a user have not taken a call: it goes where he forwards it then. Whether it
    /// does.
    // RFC 3261 16.7: "If a 6xx response is received, it is not immediately forwarded, but the
    // stateful proxy SHOULD cancel all client pending transactions as described in Section 10,
    // and it MUST NOT create any new branches in this context." So a 600 is not forwarded: its
    // context is closed.
    pub(crate) fn divert(
        &mut self,
        now: Now,
        context: &mut Context,
        when: When,
        out: &mut Outputs,
    ) -> bool {
        if context.is_closed || context.is_final_sent || context.is_cancelled {
            return false;
        }
        let Some(divert) = context.divert.take() else {
            return false;
        };
        // The permit of the caller ended with the first targets. This is the user's own.
        let Some(forward) = Forwarder::of(&divert.person, when) else {
            context.divert = Some(divert);
            return false;
        };
        let road = Road {
            left: divert.left,
            skips_drained: divert.skips_drained,
            diversion: &divert.diversion,
        };
        self.divert = None;
        self.steps_left = STEPS_MAX;
        let start = context.candidates.len();
        let mut candidates = std::mem::take(&mut context.candidates);
        let targets = self.retarget_forward(now, forward, when, road, &mut candidates);
        context.candidates = candidates;
        if targets != Targets::Found {
            context.candidates.truncate(start);
            // The caller is told what the phones have said, and the operator why it ends there.
            if let Targets::Answer(outcome) = targets {
                self.note_forward(now, context, outcome, out);
            }
            return false;
        }
        context.divert = self.divert.take();
        if divert.is_emergency {
            mark_emergency(&mut context.candidates, start);
            if let Some(next) = &mut context.divert {
                next.is_emergency = true;
            }
        }
        context.chosen_by = ChosenBy::User;
        self.forget_best(context);
        true
    }

    /// The same once all phones have said no, or are not reached.
    pub(crate) fn divert_after_all(
        &mut self,
        now: Now,
        context: &mut Context,
        out: &mut Outputs,
    ) -> bool {
        if context.divert.is_none() {
            return false;
        }
        match context.best.status {
            // The phones are not busy: they were not called.
            486 if context.best.outcome.is_some_and(Outcome::is_payers) => false,
            486 => self.divert(now, context, When::Busy, out),
            0 | 408 | 430 | 480 => self.divert(now, context, When::NoAnswer, out),
            _ => false,
        }
    }
}

/// Takes those out again that lead where others lead already (RFC 3261 16.5); of contacts and URIs
/// there are none.
fn drop_twins(found: &mut Vec<Candidate>, start: usize) {
    for at in (start..found.len()).rev() {
        let (before, rest) = found.split_at(start);
        let leads_there = |of: &Candidate| match (&of.kind, rest.get(at - start).map(|of| &of.kind))
        {
            (
                TargetKind::NextHops { user, hops, .. },
                Some(TargetKind::NextHops {
                    user: other,
                    hops: to,
                    ..
                }),
            ) => user.is_some() && user == other && hops.first() == to.first(),
            _ => false,
        };
        if before.iter().any(leads_there) {
            found.remove(at);
        }
    }
}

/// Targets of an alias are as preferred as it says, and among themselves as they are.
fn rank_below(found: &mut [Candidate], start: usize, q: u16) {
    for candidate in found.iter_mut().skip(start) {
        candidate.q = (u32::from(candidate.q) * u32::from(q) / 1_000) as u16;
    }
}

/// The Request-URI of copies that go by the tables, where it is not the request's any more.
fn keep_uri(found: &mut [Candidate], start: usize, uri: &Uri<'_>, so_far: &Retargeting<'_>) {
    for candidate in found.iter_mut().skip(start) {
        if so_far.is_retargeted
            && matches!(&candidate.kind, TargetKind::NextHops { user: None, .. })
        {
            candidate.extra().uri = Some(uri.raw.into());
        }
    }
    add_diversion(found, start, so_far.diversion);
}

/// Those are of a call for help.
fn mark_emergency(found: &mut [Candidate], start: usize) {
    for candidate in found.iter_mut().skip(start) {
        candidate.extra().is_emergency = true;
    }
}

fn add_diversion(found: &mut [Candidate], start: usize, diversion: &[u8]) {
    if diversion.is_empty() {
        return;
    }
    for candidate in found.iter_mut().skip(start) {
        let extra = candidate.extra();
        if extra.added.is_empty() {
            extra.added = diversion.to_vec();
        }
    }
}
