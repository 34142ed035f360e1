//! Requests within a dialog, and what is learned from them: where a phone is
//! whose connection has ended, where a side has moved to, and when it is over.

use std::sync::Arc;

use invariant::broken;
use sip_msg::{Flow, HeaderName, Message, Method, Span, Uri};

use super::context::{Context, Identity, TargetKind};
use super::egress::{flow_of, is_reached_at, is_reached_under_tls, names_tls};
use super::record_route::{Rewriter, first_contact, makes_dialogs};
use super::route::Routed;
use crate::calls::End;
use crate::dialogs::{Standing, ends_something};
use crate::location::Binding;
use crate::park::Job;
use crate::permit::{Permit, standing_of_token};
use crate::records::ByeSays;
use crate::relay::Source;
use crate::settings::Mode;
use crate::token::{Led, Marks, RouteToken, Sides, Tokens};
use crate::{Now, Shard};

impl Shard {
    /// Whether the flow that a token names has ended.
    pub(super) fn is_flow_gone(&self, token: &RouteToken) -> bool {
        let is_ended =
            |flow: &Flow| self.dialogs.is_conn_ended(flow.conn) || !self.own.has_flow(flow);
        token.is_flow_lost() || token.flow().is_some_and(is_ended)
    }

    /// Where the phone at the other side is, now that its flow has ended: at a
    /// contact that it has registered since or, without one, at its address.
    /// The phone is known by its instance (RFC 5626 4.1), else by the user and
    /// the host of its contact, whatever the port. Where its flow was under TLS,
    /// it is not looked for in the clear: anybody on the way can end a connection.
    pub(super) fn place_of_phone(
        &mut self,
        now: Now,
        request: &Message,
        routed: &Routed,
        token: &RouteToken,
    ) -> Option<TargetKind> {
        let target = routed.uri(request)?;
        let user = request.to().ok()?.uri()?;
        let mut bindings = std::mem::take(&mut self.bindings);
        self.find_bindings(now, &user, &mut bindings);
        let found = bindings
            .drain(..)
            .find(|binding| self.is_same_phone(binding, token, &target));
        self.bindings = bindings;
        match found {
            Some(binding) => {
                self.counters.flows_followed += 1;
                Some(TargetKind::Contact(binding))
            }
            None => {
                let leads = match routed.next_route {
                    Some(next) => Uri::parse(request.slice(next))?,
                    None => target,
                };
                let flow = token.named_flow()?;
                let is_there = is_reached_at(flow, &leads)
                    && (!flow.transport.is_secure() || names_tls(&leads));
                is_there.then_some(TargetKind::Routed)
            }
        }
    }

    fn is_same_phone(&self, binding: &Arc<Binding>, token: &RouteToken, target: &Uri<'_>) -> bool {
        let is_gone = flow_of(&self.settings.nat, binding).is_some_and(|flow| {
            self.dialogs.is_conn_ended(flow.conn)
                || (flow.conn.is_some() && token.flow().is_some_and(|lost| lost.conn == flow.conn))
        });
        let was_secure = token
            .named_flow()
            .is_some_and(|flow| flow.transport.is_secure());
        if is_gone || (was_secure && !is_reached_under_tls(&self.settings.nat, binding)) {
            return false;
        }
        if let Some(instance) = &binding.instance
            && Tokens::has_instance(token)
        {
            return self.tokens.is_instance(token, instance);
        }
        let (Some(uri), Some(_)) = (Uri::parse(&binding.uri), target.user) else {
            return false;
        };
        let host = |uri: &Uri<'_>| uri.host_port.host.to_ascii_lowercase();
        uri.user_bytes().eq(target.user_bytes()) && host(&uri) == host(target)
    }

    /// A copy along the flow of a token has failed there: its target becomes
    /// the place where that phone is.
    pub(super) fn follow_phone(&mut self, now: Now, context: &mut Context, at: usize) -> bool {
        let Some(flow) = context.candidates.get(at).and_then(|c| match c.kind {
            TargetKind::Token(flow) => Some(flow),
            _ => None,
        }) else {
            return false;
        };
        let (Some(request), Some(token)) = (context.request.take(), context.routed.grant) else {
            return broken!(
                "a target by token has its token, and its request is kept",
                false
            );
        };
        self.dialogs.conn_ended(flow.conn);
        let kind = self.place_of_phone(now, &request, &context.routed, &token);
        context.request = Some(request);
        let (Some(kind), Some(candidate)) = (kind, context.candidates.get_mut(at)) else {
            return false;
        };
        candidate.kind = kind;
        candidate.hops.clear();
        candidate.tried = 0;
        true
    }

    /// The instance of a contact, as tokens name it.
    pub(super) fn instance_of(&self, kind: &TargetKind) -> Option<u32> {
        match kind {
            TargetKind::Contact(binding) => {
                let instance = binding.instance.as_deref()?;
                Some(self.tokens.instance(instance))
            }
            _ => None,
        }
    }

    /// Takes the token from a request that was let in although the gate has refused it: it leads
    /// nowhere, and nothing is learned by it. An ACK and a BYE keep it where it was made for their
    /// target: they end what is open there. So does whatever a user sends there of whose token
    /// only the time is over: he has proved who he is, and whether the dialog lives on the other
    /// side says. What he sends by it is part of the dialog, and not his own choice of a place.
    pub(crate) fn look_at_refused_token(&self, now: Now, job: &mut Job, permit: Permit) -> Permit {
        let Some(token) = job.routed.grant else {
            return permit;
        };
        let is_for_target = || {
            let target = job.routed.uri(&job.request);
            target.is_some_and(|target| self.tokens.is_target(&token, &target))
        };
        let ends = ends_something(job.request.method());
        let stays = match permit {
            // Who needs no token was not judged by it.
            Permit::Dialog(_) | Permit::Open(_) | Permit::Peer(_) => true,
            Permit::Authenticated(_) if is_for_target() => {
                let cx = self.gate_context(now, &job.sender);
                let standing = standing_of_token(&cx, &job.request, &job.routed);
                if standing.is_some() && ends
                    || standing == Some(Standing::Old) && !token.is_to_end()
                {
                    job.is_known = self.is_there(&job.sender, &permit);
                    return Permit::Dialog(token);
                }
                ends
            }
            Permit::Authenticated(_) => false,
            Permit::Inbound(_)
            | Permit::Directed(_)
            | Permit::Trunk(_)
            | Permit::Forwarder(_)
            | Permit::Emergency(_) => is_for_target() && ends,
        };
        if !stays {
            job.routed.grant = None;
        }
        permit
    }

    /// Takes note of what a request within a dialog says, once it was let in.
    pub(crate) fn note_request(&mut self, now: Now, job: &Job) {
        let Some(token) = &job.routed.grant else {
            return;
        };
        if self.settings.authenticate.is_none() {
            return;
        }
        let request = &*job.request;
        let lifetime_s = self.settings.proxy.dialog_token_lifetime_s;
        // Without state no answer is believed: the request has to do, as long as its token is good.
        if self.settings.mode == Mode::Stateless
            && job.server.is_none()
            && self.dialogs.is_alive(now, lifetime_s, token, request)
        {
            let alive_until_s = self.dialogs.seen_alive(now, lifetime_s, token, request);
            self.need_key(token, alive_until_s);
        }
        let went_to_gateway = token.went_to_gateway();
        if went_to_gateway
            && let Ok(from) = request.from()
            && let Some(tag) = from.tag()
        {
            self.dialogs.is_there(now, lifetime_s, request, tag);
        }
        if !refreshes_targets(request.method()) {
            return;
        }
        let source = job.came().source();
        let source = source.known_if(went_to_gateway && self.relay(now).is_at_gateway(&source));
        if let Some(target) = first_contact(request)
            && let Ok(from) = request.from()
            && let Some(tag) = from.tag()
        {
            let as_shown = self.relay(now).shown(Some(&source), &target);
            self.dialogs
                .announce(now, lifetime_s, request, (tag, &target), as_shown);
        }
    }

    /// Keeps of a request what its responses must have in common with it.
    pub(crate) fn identify(&self, context: &mut Context, job: &Job) {
        context.identity = None;
        context.is_in_dialog = false;
        let method = job.request.method();
        if self.settings.authenticate.is_none() {
            // Responses of a trunk are known by it, whatever From and To are called there.
            if self.trunks.is_any() && makes_dialogs(method) {
                let key = &self.keys.identities;
                context.identity = Identity::new(key, &job.request, false);
            }
            return;
        }
        context.is_in_dialog = job.routed.grant.is_some();
        if context.is_in_dialog || makes_dialogs(method) {
            let has_tag = context.is_in_dialog;
            context.identity = Identity::new(&self.keys.identities, &job.request, has_tag);
        }
    }

    /// Takes note of what a response to a request within a dialog says.
    pub(super) fn note_response(
        &mut self,
        now: Now,
        context: &Context,
        source: Option<&Source>,
        response: &Message,
    ) {
        let is_done = matches!(response.status(), 200..=299);
        let is_end = ends_dialog(context.method, response.status());
        if !context.is_in_dialog || !(is_end || is_done) || !self.is_of(context, response) {
            return;
        }
        let lifetime_s = self.settings.proxy.dialog_token_lifetime_s;
        if is_end {
            self.dialogs.end(now, lifetime_s, response);
        } else if refreshes_targets(context.method)
            && let Some(target) = first_contact(response)
            && let Ok(to) = response.to()
            && let Some(tag) = to.tag()
        {
            let as_shown = self.relay(now).shown(source, &target);
            self.dialogs
                .announce(now, lifetime_s, response, (tag, &target), as_shown);
        }
        if is_done && let Some(token) = &context.routed.grant {
            let alive_until_s = self.dialogs.seen_alive(now, lifetime_s, token, response);
            self.need_key(token, alive_until_s);
        }
        self.counters.dialogs_forgotten = self.dialogs.forgotten();
    }

    /// The user agents of a dialog never get another token (RFC 3261 12.2): as long as it is alive,
    /// its key verifies.
    fn need_key(&self, token: &RouteToken, alive_until_s: Option<u64>) {
        if let Some(until_s) = alive_until_s {
            self.tokens.need_key(token, until_s);
        }
    }

    /// Lists a call whose 2xx passes, if its BYE will pass too.
    pub(super) fn note_call(
        &mut self,
        now: Now,
        context: &Context,
        source: Option<&Source>,
        response: &Message,
    ) {
        // Given up with the first final response: what comes again is listed already.
        let Some(request) = context.request.as_deref() else {
            return;
        };
        let Some(source) = source.filter(|_| context.method == Method::Invite) else {
            return;
        };
        let caller = Source::of(&context.sender.flow).end();
        let callee = source.end();
        if !self.sees_the_end(context, source, response) || request.to_tag().is_some() {
            return;
        }
        self.counters.calls_begun += 1;
        let lifetime_s = self.settings.proxy.dialog_token_lifetime_s;
        let ends = (caller, callee);
        if !self.calls.begin(now, lifetime_s, response, ends) {
            self.counters.calls_unlisted += 1;
        }
    }

    /// A request has its final answer: if it is a BYE, its call may be listed no more. `counts`
    /// says whether that is believed, by where the other side is.
    pub(crate) fn note_hung_up(
        &mut self,
        request: &Message,
        status: u16,
        counts: impl FnOnce(End) -> bool,
    ) {
        let is_over = || match ByeSays::of(status) {
            ByeSays::Over | ByeSays::Unreached => true,
            ByeSays::Again | ByeSays::GoesOn => false,
        };
        if request.method() == Method::Bye && is_over() {
            self.calls.end(request, counts);
        }
    }

    /// Whether the BYE of a dialog that this 2xx makes will pass here.
    pub(crate) fn sees_the_end(
        &self,
        context: &Context,
        source: &Source,
        response: &Message,
    ) -> bool {
        let caller = context.sender.flow.transport;
        let changes_scheme = caller.is_secure() != source.end().0.is_secure();
        // The dialog of a trunk needs this server for all of its requests.
        let marks = context.legs.as_ref().and_then(|legs| legs.caller_marks());
        let is_on_path = self.settings.proxy.record_route || changes_scheme || marks.is_some();
        is_on_path && response.has(HeaderName::RecordRoute)
    }

    /// Writes the caller's grant for the dialog that a response makes into
    /// `self.granted`; where in the response it belongs. `identity` is that of
    /// the request, where it is known; `marks` say of the trunk that the dialog goes by, `media` of
    /// the engine that leads its media, and `went_to_gateway` of where the response goes.
    pub(super) fn grant_caller(
        &mut self,
        now: Now,
        identity: Option<Identity>,
        source: Option<&Source>,
        (marks, media, went_to_gateway): (Option<Marks>, Option<Led>, bool),
        response: &Message,
    ) -> Option<Span> {
        if !response.has(HeaderName::RecordRoute) || !matches!(response.status(), 101..=299) {
            return None;
        }
        let mut granted = std::mem::take(&mut self.granted);
        let rewriter = Rewriter {
            own: &self.own,
            tokens: &self.tokens,
            unix_ms: now.unix_ms,
            relay: self.relay(now),
            source,
            identity,
            identities: &self.keys.identities,
            marks,
            media,
            went_to_gateway,
        };
        let place = rewriter.write(response, &mut granted);
        self.granted = granted;
        place
    }

    /// Whether a response is to the context's request.
    fn is_of(&self, context: &Context, response: &Message) -> bool {
        let identity = context.identity.zip(Sides::of(response));
        identity.is_some_and(|(identity, sides)| identity.is_of(&self.keys.identities, &sides))
    }
}

/// Whether an answer with that status to a request of that method ends the dialog in which it was.
/// A 481 to others may be about a transaction or a subscription alone (RFC 5057), as one to the
/// NOTIFY of a transfer is.
// RFC 3261 12.2.1.2: "If the response for a request within a dialog is a 481 (Call/Transaction Does
// Not Exist) or a 408 (Request Timeout), the UAC SHOULD terminate the dialog."
const fn ends_dialog(method: Method, status: u16) -> bool {
    match method {
        Method::Bye => matches!(status, 200..=299 | 481),
        Method::Invite | Method::Update => status == 481,
        _ => false,
    }
}

/// Whether a request of that method, within a dialog, tells the other side
/// where its sender is from then on (RFC 3261 12.2, RFC 3311, RFC 6665).
// RFC 3261 12.2.1.2: "When a UAC receives a 2xx response to a target refresh request, it MUST replace
// the dialog's remote target URI with the URI from the Contact header field in that response, if
// present."
const fn refreshes_targets(method: Method) -> bool {
    matches!(
        method,
        Method::Invite | Method::Update | Method::Subscribe | Method::Notify | Method::Refer
    )
}
