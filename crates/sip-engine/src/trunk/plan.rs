//! What a copy that goes by a trunk says in the place of what the phone wrote.

use std::sync::Arc;

use sip_auth::Side as AuthSide;
use sip_msg::{HeaderName, Message, Method, Uri};

use super::auth::group_of;
use super::faces::{self, Caller, decimal, in_e164};
use super::legs::{Again, Leg, LegCopy, Legs};
use super::{Trunk, cseq, diversion};
use crate::park::Job;
use crate::people::Person;
use crate::permit::{diversion_lines, trunks_of};
use crate::proxy::context::{Context, TargetKind};
use crate::proxy::egress::Egress;
use crate::proxy::groups::written;
use crate::proxy::record_route::makes_dialogs;
use crate::proxy::route::span_of;
use crate::relay::ChosenBy;
use crate::token::{Mark, Marks, RouteToken, Sides};
use crate::{Now, Shard};

/// A copy that is to be sent, and what is kept of it.
pub(crate) struct Planned {
    pub(crate) copy: LegCopy,
    leg: Leg,
}

/// What is known of a copy before it is planned.
struct Known<'a> {
    request: &'a Message,
    again: Option<Again>,
    egress: Option<&'a Egress>,
    /// Whether what the sender asserts of a caller counts.
    is_believed: bool,
    /// Whether an emergency number is called.
    is_for_help: bool,
    account: Account<'a>,
}

/// On whose account a copy is, where that is written down.
#[derive(Clone, Copy, Default)]
struct Account<'a> {
    /// The number that his calls show.
    caller_id: Option<&'a str>,
    /// The user who was called and forwards the call.
    payer: Option<&'a str>,
    /// The lines that are added to the copy because it was retargeted.
    added: &'a [u8],
}

impl<'a> Account<'a> {
    fn of(context: &'a Context, at: usize) -> Self {
        let extra = context
            .candidates
            .get(at)
            .and_then(|of| of.extra.as_deref());
        let payer = extra.and_then(|extra| extra.payer.as_deref());
        Self {
            caller_id: context.caller_id(at).map(|number| &**number),
            payer: payer.map(|payer| str::from_utf8(&payer.name).unwrap_or_default()),
            added: extra.map_or(&[], |extra| extra.added.as_slice()),
        }
    }
}

impl Known<'_> {
    fn tries(&self) -> u8 {
        self.again.as_ref().map_or(0, |again| again.tries)
    }
}

impl Shard {
    /// Plans a copy to a target; `None` where it goes by no trunk.
    pub(crate) fn plan_copy(
        &mut self,
        now: Now,
        context: &mut Context,
        at: usize,
        egress: &Egress,
    ) -> Option<Planned> {
        let token = context.routed.grant.filter(|token| token.marks().is_some());
        if !self.trunks.is_any() && token.is_none() {
            return None;
        }
        let again = context.legs.as_mut().and_then(|legs| legs.again.take());
        let known = Known {
            request: context.request.as_deref()?,
            again,
            egress: Some(egress),
            is_believed: context.chosen_by == ChosenBy::Peer,
            is_for_help: context.candidates.get(at)?.is_emergency(),
            account: Account::of(context, at),
        };
        let came_from = context.legs.as_ref();
        let came_from = came_from.and_then(|legs| legs.came_from.clone());
        match (&context.candidates.get(at)?.kind, token) {
            (_, Some(token)) => self.plan_within(now, known, &token),
            (
                TargetKind::NextHops {
                    trunk: Some(trunk), ..
                },
                None,
            ) => Some(self.plan_to_provider(now, known, trunk, came_from.as_ref())),
            (_, None) => Some(self.plan_from_provider(known, &came_from?)),
        }
    }

    /// The same for what is forwarded without state: the ACK to a 2xx.
    pub(crate) fn plan_ack(&mut self, now: Now, job: &Job) -> Option<LegCopy> {
        let token = job.routed.grant.filter(|token| token.marks().is_some())?;
        let known = Known {
            request: &job.request,
            again: None,
            egress: None,
            is_believed: false,
            is_for_help: false,
            account: Account::default(),
        };
        self.plan_within(now, known, &token)
            .map(|planned| planned.copy)
    }

    /// Puts the credentials of its trunk into a copy that was written, where it may have them.
    pub(crate) fn authorize(&mut self, planned: &mut Planned, bytes: &mut Vec<u8>, start: usize) {
        let leg = &mut planned.leg;
        let Some(trunk) = leg.trunk.as_ref().filter(|_| leg.is_answered_for) else {
            return;
        };
        let halves = [u32::MAX; 2].map(|most| u64::from(self.dice.below(most)));
        let cnonce = halves[0] << 32 | halves[1];
        if let Some(account) = self.trunks.account_of(trunk) {
            let is_challenged = leg.tries > 0;
            let attempt = &mut leg.attempt;
            leg.bears = account.authorize(attempt, is_challenged, cnonce, bytes, start);
            leg.is_ahead = leg.bears && !is_challenged;
        }
    }

    /// Keeps what is to be known of a copy that was sent.
    pub(crate) fn keep_leg(&mut self, context: &mut Context, planned: Planned) {
        let Some(request) = context.request.as_deref() else {
            return;
        };
        let legs = context
            .legs
            .get_or_insert_with(|| Box::new(Legs::new(request)));
        let branch = context.branches.len().saturating_sub(1);
        legs.push(Leg {
            branch,
            ..planned.leg
        });
    }

    /// Takes down which trunk's member has sent a request that begins something.
    pub(crate) fn note_trunk(&self, context: &mut Context, trunk: Option<&Arc<Trunk>>) {
        let (Some(trunk), Some(request)) = (trunk, context.request.as_deref()) else {
            return;
        };
        let mut legs = Legs::new(request);
        legs.came_from = Some(Arc::clone(trunk));
        context.legs = Some(Box::new(legs));
    }

    /// The trunks of which the sender of a request is a member.
    pub(crate) fn trunks_of_sender(&self, job: &Job) -> Vec<Arc<Trunk>> {
        if !self.trunks.is_any() {
            return Vec::new();
        }
        let mut found: Vec<Arc<Trunk>> = Vec::new();
        for name in trunks_of(&self.settings, &self.own, &job.sender) {
            let of = super::auth::all(&self.settings).find(|trunk| trunk.name == *name);
            if let Some(trunk) = of
                && found.iter().all(|known| known.name != trunk.name)
            {
                found.push(Arc::clone(trunk));
            }
        }
        found
    }

    /// The sides of a request's dialog as the phone knows them, whatever a provider calls them and
    /// as far as that is known. `kept` has what is not in the request.
    pub(crate) fn sides_here<'m>(
        &self,
        request: &'m Message,
        token: Option<&RouteToken>,
        kept: &'m mut LegCopy,
    ) -> Option<Sides<'m>> {
        if let Some(token) = token
            && let Some(mark) = token.marks().and_then(|marks| marks.from)
        {
            let trunk = self.marked_trunk(token, mark);
            self.put_back(mark, trunk.as_deref(), request, kept);
        }
        kept.sides(request)
    }

    /// A request to a provider that begins something; `came_from` has the trunk whose provider
    /// has sent it, if one has.
    fn plan_to_provider(
        &self,
        now: Now,
        known: Known<'_>,
        trunk: &Arc<Trunk>,
        came_from: Option<&Arc<Trunk>>,
    ) -> Planned {
        let request = known.request;
        let mut copy = LegCopy::default();
        let is_anonymous = faces::is_anonymous(trunk, request);
        let number = self.count(trunk.counts(), &known, &mut copy);
        let Account {
            caller_id,
            payer,
            added,
        } = known.account;
        // A name elsewhere is none of ours, however it is called: of whom we know nothing but that
        // nothing is shown, and within the dialog nobody could tell any more.
        let is_strangers = !known.is_believed && !self.is_from_here(request);
        let keeps_faces = is_strangers && !is_anonymous;
        if !keeps_faces {
            self.face(trunk, request, is_anonymous, &mut copy);
        }
        let who = Caller {
            is_anonymous,
            is_believed: known.is_believed,
            caller_id,
            payer: payer.or(is_strangers.then_some("")),
        };
        faces::identify(trunk, request, who, &mut copy.lines, &mut copy.cut);
        // Nor is a stranger's word on who has led his call on: a provider charges by it.
        match is_strangers {
            true => diversion_lines(request, &mut copy.cut),
            false => diversion::rewrite(trunk, request, &mut copy.replaced),
        }
        copy.added = diversion::rewritten(trunk, added, |uri| {
            let person = self.person_at(uri)?;
            Some(in_e164(trunk, person.caller_id.as_deref()?))
        });
        cut_credentials(trunk, request, &mut copy);
        let is_marked = trunk.marks_dialogs() && makes_dialogs(request.method());
        let to = is_marked.then(|| Mark {
            trunk: self.tokens.trunk(&trunk.name),
            counts: trunk.counts(),
            is_anonymous,
            is_inbound: keeps_faces,
            invite: number,
        });
        let from = came_from.and_then(|from| self.mark_of_caller(from, request));
        let marks = Marks::of(to, from);
        let shared = &self.shared.gateways.trunks;
        let is_left_alone = !known.is_for_help && shared.is_refused(&trunk.name, now.mono_ms);
        let is_answered_for = trunk.counts() && !is_left_alone;
        planned(copy, known, Some(trunk), marks, is_answered_for)
    }

    /// A request of a provider that begins something.
    fn plan_from_provider(&self, known: Known<'_>, trunk: &Arc<Trunk>) -> Planned {
        let mut copy = LegCopy::default();
        asserted_in_e164(trunk, known.request, &mut copy);
        let from = self.mark_of_caller(trunk, known.request);
        planned(copy, known, None, Marks::of(None, from), false)
    }

    /// What is to be known of a dialog that the provider of a trunk begins.
    fn mark_of_caller(&self, trunk: &Trunk, request: &Message) -> Option<Mark> {
        let is_marked = trunk.marks_dialogs() && makes_dialogs(request.method());
        is_marked.then(|| Mark {
            trunk: self.tokens.trunk(&trunk.name),
            counts: trunk.counts(),
            is_anonymous: false,
            is_inbound: true,
            invite: 0,
        })
    }

    /// The trunk that a mark of a token speaks of; `None` where it is configured no more.
    pub(crate) fn marked_trunk(&self, token: &RouteToken, mark: Mark) -> Option<Arc<Trunk>> {
        super::auth::all(&self.settings)
            .find(|trunk| self.tokens.is_trunk(token, mark, &trunk.name))
            .cloned()
    }

    /// A request within a dialog that goes by a trunk.
    fn plan_within(&self, now: Now, known: Known<'_>, token: &RouteToken) -> Option<Planned> {
        let marks = token.marks()?;
        let request = known.request;
        // The key that the token was signed with may not be the newest any more.
        let renewed = marks.map(|mark| Mark {
            trunk: self
                .marked_trunk(token, mark)
                .map_or(mark.trunk, |trunk| self.tokens.trunk(&trunk.name)),
            ..mark
        });
        let mut copy = LegCopy::default();
        if let Some(mark) = marks.from {
            // RFC 3515 2.4.6: NOTIFY names the REFER of who gets it.
            if mark.counts
                && request.method() == Method::Notify
                && let Some((span, sent)) = cseq::of_refer(request)
            {
                copy.replaced.push((span, decimal(cseq::told(sent))));
            }
            let trunk = self.marked_trunk(token, mark);
            self.put_back(mark, trunk.as_deref(), request, &mut copy);
        }
        let Some(mark) = marks.to else {
            let is_same = copy.replaced.is_empty() && copy.from.is_none() && copy.to.is_none();
            if is_same && !makes_dialogs(request.method()) {
                return None;
            }
            return Some(planned(copy, known, None, Some(renewed), false));
        };
        let trunk = self.marked_trunk(token, mark);
        self.count_within(now, mark, &known, &mut copy);
        let mut is_answered_for = false;
        if let Some(trunk) = &trunk {
            if !mark.is_inbound {
                self.face(trunk, request, mark.is_anonymous, &mut copy);
            }
            cut_credentials(trunk, request, &mut copy);
            let shared = &self.shared.gateways.trunks;
            is_answered_for = mark.counts
                && trunk.counts()
                && request.method() != Method::Ack
                && !shared.is_refused(&trunk.name, now.mono_ms)
                && known
                    .egress
                    .is_some_and(|egress| self.trunks.is_member(&self.settings, trunk, &egress.to));
        }
        Some(planned(
            copy,
            known,
            trunk.as_ref(),
            Some(renewed),
            is_answered_for,
        ))
    }

    /// Gives a request its number towards the provider; that number, or 0 where it keeps the
    /// phone's.
    fn count(&self, counts: bool, known: &Known<'_>, copy: &mut LegCopy) -> u32 {
        let (Ok(number), true) = (known.request.cseq(), counts) else {
            return 0;
        };
        let sent = cseq::sent(number.number, known.tries());
        if let Some(span) = cseq::span(known.request) {
            copy.replaced.push((span, decimal(sent)));
        }
        sent
    }

    /// The same within a dialog, and what names the number of another request.
    fn count_within(&self, now: Now, mark: Mark, known: &Known<'_>, copy: &mut LegCopy) {
        let request = known.request;
        if !mark.counts {
            return;
        }
        let as_invite = |number: u32| match cseq::is_of(mark.invite, number) && mark.invite != 0 {
            true => mark.invite,
            false => {
                let tries = self.trunks.retried.tries(now.mono_ms, request, number);
                cseq::sent(number, tries)
            }
        };
        // RFC 3261 13.2.2.4: "The sequence number of the CSeq header field MUST be the same as the
        // INVITE being acknowledged, but the CSeq method MUST be ACK."
        match (request.method(), request.cseq(), cseq::span(request)) {
            (Method::Ack, Ok(cseq), Some(span)) => {
                copy.replaced.push((span, decimal(as_invite(cseq.number))));
            }
            _ => {
                self.count(true, known, copy);
            }
        }
        if let Some((span, number)) = cseq::of_rack(request) {
            copy.replaced.push((span, decimal(as_invite(number))));
        }
        // SUBSCRIBE names a REFER of its own sender; a NOTIFY names one of the provider's.
        if request.method() == Method::Subscribe
            && let Some((span, number)) = cseq::of_refer(request)
        {
            let tries = self.trunks.retried.tries(now.mono_ms, request, number);
            copy.replaced
                .push((span, decimal(cseq::sent(number, tries))));
        }
    }

    /// From and To as the provider wants them.
    fn face(&self, trunk: &Trunk, request: &Message, is_anonymous: bool, copy: &mut LegCopy) {
        let group = group_of(&self.settings, trunk);
        let as_written = |dialled: &str| match group {
            Some(group) => written(dialled, group),
            None => trunk.numbers.plan.outbound(dialled),
        };
        let caller = self.has_people.then(|| self.person_in_from(request));
        let caller_id = caller.flatten().and_then(|of| of.caller_id.clone());
        let caller_id = caller_id.as_deref();
        let faces = faces::faces(trunk, request, is_anonymous, caller_id, as_written);
        (copy.from, copy.to) = (faces.from, faces.to);
    }

    /// Whether a URI in From is in our domains, whatever port it has: by its host alone the gate has
    /// asked for the password of its user.
    fn is_of_here(&self, uri: &Uri<'_>) -> bool {
        uri.is_sip() && self.own.is_own_host(uri.host_port.host)
    }

    /// Whether From is in our domains.
    fn is_from_here(&self, request: &Message) -> bool {
        let from = request.from().ok().and_then(|from| from.uri());
        from.is_some_and(|uri| self.is_of_here(&uri))
    }

    /// What is written of the user in From.
    fn person_in_from(&self, request: &Message) -> Option<Arc<Person>> {
        let from = request.from().ok().and_then(|from| from.uri());
        from.filter(|uri| self.is_of_here(uri))
            .and_then(|uri| self.person_at(&uri))
    }

    /// From and To of a provider's request as the phone wrote them, as far as that is known.
    fn put_back(&self, mark: Mark, trunk: Option<&Trunk>, request: &Message, copy: &mut LegCopy) {
        let may_differ = mark.is_anonymous
            || trunk
                .is_none_or(|trunk| trunk.identity == super::Identity::From || trunk.rewrites_to);
        if mark.is_inbound || !may_differ {
            return;
        }
        let Some((callers, callees)) = self.calls.sides_of(request) else {
            return;
        };
        let value = |name| request.first(name).map(|field| field.value);
        let other = |kept: &[u8], name| {
            (!kept.is_empty() && value(name) != Some(kept)).then(|| kept.to_vec())
        };
        copy.to = other(callers, HeaderName::To);
        copy.from = other(callees, HeaderName::From);
    }
}

/// A copy that was planned, and what is kept of it.
fn planned(
    copy: LegCopy,
    known: Known<'_>,
    trunk: Option<&Arc<Trunk>>,
    marks: Option<Marks>,
    is_answered_for: bool,
) -> Planned {
    let to = marks.and_then(|marks| marks.to);
    let counts = to.is_some_and(|mark| mark.counts) || trunk.is_some_and(|trunk| trunk.counts());
    let (tries, attempt) = match known.again {
        Some(again) => (again.tries, again.attempt),
        None => Default::default(),
    };
    let leg = Leg {
        branch: 0,
        trunk: trunk.map(Arc::clone),
        egress: known.egress.filter(|_| is_answered_for).cloned(),
        attempt,
        tries,
        counts,
        has_from: copy.from.is_some(),
        has_to: copy.to.is_some(),
        is_answered_for,
        bears: false,
        is_ahead: false,
        is_beyond: false,
        marks,
    };
    let copy = LegCopy {
        marks: marks
            .filter(|_| makes_dialogs(known.request.method()))
            .map(Marks::turned),
        ..copy
    };
    Planned { copy, leg }
}

/// Leaves out what the phone itself wrote for the trunk's realm: this server answers there.
fn cut_credentials(trunk: &Trunk, request: &Message, copy: &mut LegCopy) {
    let Some(credentials) = &trunk.credentials else {
        return;
    };
    for side in [AuthSide::Proxy, AuthSide::Registrar] {
        let lines = sip_auth::credential_lines(request, side, &credentials.realm);
        copy.cut.extend(lines);
    }
}

/// The numbers that a provider asserts, in E.164.
fn asserted_in_e164(trunk: &Trunk, request: &Message, copy: &mut LegCopy) {
    for identity in request.addresses(HeaderName::PAssertedIdentity) {
        let Ok((addr, span)) = identity else { continue };
        let Some(user) = addr.uri().and_then(|uri| uri.user) else {
            continue;
        };
        let Some(number) = std::str::from_utf8(user).ok() else {
            continue;
        };
        if let Some(e164) = trunk.numbers.plan.read_inbound(number)
            && e164 != number
        {
            let at = span_of(request.slice(span), span, user);
            copy.replaced.push((at, e164.into_bytes()));
        }
    }
}
