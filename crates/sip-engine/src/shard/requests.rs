//! The way of a request through the shard.

use std::sync::Arc;

use invariant::broken;
use sip_auth::Subject;
use sip_limit::{Attempt, Verdict};
use sip_lookup::{Question, Why};
use sip_msg::{HeaderName, Message, Method, ParseError};
use sip_txn::{Incoming, ServerId};

use crate::budget::Room;
use crate::effect::Effect;
use crate::park::{Job, Parked};
use crate::permit::{Gate, Permit, Refusal, ask_who_hides, gate, is_registration};
use crate::proxy::context::{Context, Owner};
use crate::proxy::outcome::Outcome;
use crate::proxy::privacy::hidden_lines;
use crate::proxy::route::{Routed, preprocess};
use crate::proxy::targets::Targets;
use crate::proxy::validate::{self, Reject};
use crate::records::AskedTimer;
use crate::records::notes::speaks_for_dialog;
use crate::refusal::{Reason, StatusLine};
use crate::registrar::{RegistrarContext, Registration};
use crate::relay::{ChosenBy, Source};
use crate::sender::Sender;
use crate::settings::{Mode, Nat};
use crate::trunk::Called;
use crate::{Now, Outputs, Shard};

use super::guard::origin;

/// The role of this server for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The registrar of its domain.
    Registrar,
    /// Its recipient.
    Recipient,
    /// A proxy on its way.
    Proxy,
}

impl Shard {
    /// Handles a request that was parsed.
    pub(super) fn handle_request(
        &mut self,
        now: Now,
        sender: &Sender,
        mut request: Box<Message>,
        out: &mut Outputs,
    ) {
        match self.settings.nat.of(&sender.flow) {
            Nat::Always if !sender.flow.transport.is_reliable() => {
                request.stamp_source(sender.flow.remote);
            }
            _ => request.stamp_received(sender.flow.remote),
        }
        // RFC 3261 16.3: "The request MUST be well-formed enough to be handled with a server
        // transaction."
        if let Err(error) = request.validate() {
            self.malformed(now, sender, request, &error, out);
            return;
        }
        if self.is_stateless(&request) {
            if self.has_no_room_for(&request) {
                self.refuse_for_memory(now, sender, None, request, out);
                return;
            }
            // RFC 3261 16.11: "Furthermore, when handling a request statelessly, an element MUST
            // NOT generate its own 100 (Trying) or any other provisional response." None is
            // written without a transaction.
            if request.method() == Method::Ack && self.is_for_own_answer(&request) {
                self.counters.acks_absorbed += 1;
                self.pool.recycle(request);
            } else if self.is_let_in(now, &request) {
                self.admit(now, sender, None, request, out);
            } else {
                self.refuse_for_overload(now, sender, None, request, out);
            }
            return;
        }
        let incoming =
            self.txns
                .handle_request(now.mono_ms, &sender.flow, &request, &mut out.outbox);
        match incoming {
            Incoming::New(server) if self.refuses_calls && begins_call(&request) => {
                let line = StatusLine::refused(503, Reason::Draining);
                self.refuse(now, sender, Some(server), request, line, out);
            }
            Incoming::New(server) if self.has_no_room_for(&request) => {
                self.refuse_for_memory(now, sender, Some(server), request, out);
            }
            // Behind the transactions: a copy of what was let in is absorbed, not refused.
            Incoming::New(server) if !self.is_let_in(now, &request) => {
                self.refuse_for_overload(now, sender, Some(server), request, out);
            }
            Incoming::New(server) => self.admit(now, sender, Some(server), request, out),
            // RFC 3261 16.11: "Stateless proxies MUST NOT perform special processing for CANCEL
            // requests.  They are processed by the above rules as any other requests."
            Incoming::Cancel {
                cancel,
                invite: None,
            } if self.settings.mode == Mode::Stateless && self.settings.authenticate.is_none() => {
                self.txns.release_server(cancel);
                self.admit(now, sender, None, request, out);
            }
            Incoming::Cancel { cancel, invite } => {
                self.handle_cancel(now, sender, request, cancel, invite, out);
            }
            Incoming::Ack { .. } if self.is_for_own_answer(&request) => {
                self.counters.acks_absorbed += 1;
                self.pool.recycle(request);
            }
            Incoming::Ack { .. } => self.admit(now, sender, None, request, out),
            Incoming::Absorbed => self.pool.recycle(request),
            Incoming::Full => {
                let line = StatusLine::refused(503, Reason::TooManyTransactions);
                self.refuse(now, sender, None, request, line, out);
            }
            Incoming::NoVia => {
                self.counters.requests_dropped += 1;
                self.pool.recycle(request);
            }
        }
    }

    /// Whether so much of the memory budget is in use that this request is refused: first
    /// new work, then everything but ACK, CANCEL and BYE.
    fn has_no_room_for(&self, request: &Message) -> bool {
        match (self.room, request.method()) {
            (Room::Enough, _) | (_, Method::Ack | Method::Cancel) => false,
            (Room::Scarce | Room::None, Method::Bye) => false,
            (Room::Scarce, _) => begins(request),
            (Room::None | Room::Overdrawn, _) => true,
        }
    }

    // RFC 3261 21.5.4: "The server is temporarily unable to process the request due to a
    // temporary overloading or maintenance of the server.  The server MAY indicate when the
    // client should retry the request in a Retry-After header field."
    fn refuse_for_memory(
        &mut self,
        now: Now,
        sender: &Sender,
        server: Option<ServerId>,
        request: Box<Message>,
        out: &mut Outputs,
    ) {
        self.counters.memory_refused += 1;
        let line = StatusLine::refused(503, Reason::MemoryFull);
        self.refuse(now, sender, server, request, line, out);
    }

    /// Whether a request is handled without a transaction.
    ///
    /// An INVITE that must be authenticated is not: its CANCEL cannot be
    /// challenged, so who sent it must be remembered. And an INVITE may have got
    /// a transaction after all (see [`Shard::must_be_stateful`]); then its ACK and CANCEL belong there.
    fn is_stateless(&self, request: &Message) -> bool {
        let is_of_invite = matches!(request.method(), Method::Ack | Method::Cancel);
        let may_have_state = match &self.settings.authenticate {
            Some(_) => is_of_invite || request.method() == Method::Invite,
            None => is_of_invite && self.txns.live().server_invite > 0,
        };
        self.settings.mode == Mode::Stateless && !may_have_state
    }

    // RFC 3261 16.2: "For all new requests, including any with unknown methods, an element
    // intending to proxy the request MUST:" validate it, preprocess its routes, determine
    // its targets, forward it to each, and process all responses.
    fn admit(
        &mut self,
        now: Now,
        sender: &Sender,
        server: Option<ServerId>,
        request: Box<Message>,
        out: &mut Outputs,
    ) {
        let Ok(routed) = preprocess(&request, &sender.flow, &self.own, &self.tokens) else {
            let line = StatusLine::refused(400, Reason::Malformed).saying("Malformed Route");
            self.refuse_owing(now, sender, server, request, line, out);
            return;
        };
        let default = self.settings.proxy.max_breadth;
        let mut job = Job {
            sender: sender.clone(),
            server,
            routed,
            breadth: default,
            loop_hash: 0,
            chosen_by: ChosenBy::User,
            is_known: false,
            record: None,
            told: None,
            body: None,
            request,
        };
        // RFC 3261 16.3: "An element MUST NOT refuse to proxy a request because it contains a
        // method or header field it does not know about." So the method decides only
        // what this server does for itself.
        match self.role(&job.request, &routed) {
            Role::Registrar => {}
            Role::Recipient => {
                self.answer_options(now, sender, server, job.request, out);
                return;
            }
            Role::Proxy => {
                let (own, key) = (&self.own, &self.keys.loops);
                match validate::check(&job.request, routed.scheme, own, key, default) {
                    Ok(checked) => {
                        job.breadth = checked.breadth;
                        job.loop_hash = checked.loop_hash;
                    }
                    // RFC 3261 8.3: "Redirect servers MUST ignore features that are not understood (including
                    // unrecognized header fields, any unknown option tags in Require, or even method names)
                    // and proceed with the redirection of the request in question."
                    Err(Reject::ProxyRequire) if self.settings.mode == Mode::Redirect => {}
                    Err(reject) => {
                        self.reject(now, job, reject, out);
                        return;
                    }
                }
            }
        }
        // RFC 3261 16.3: "If an element requires credentials before forwarding a request, the
        // request MUST be inspected as described in Section 22.3."
        let gate = gate(&self.gate_context(now, sender), &job.request, &job.routed);
        if job.routed.grant.is_some() && !matches!(gate, Gate::Pass(_)) {
            self.counters.dialog_tokens_refused += 1;
        }
        self.judged(now, job, gate, out);
    }

    // RFC 3261 16.3: "If any of these checks fail, the element MUST behave as a user agent
    // server (see Section 8.2) and respond with an error code."
    fn reject(&mut self, now: Now, job: Job, reject: Reject, out: &mut Outputs) {
        let Job {
            request,
            sender,
            server,
            ..
        } = job;
        match reject {
            Reject::Because(line) => self.refuse_owing(now, &sender, server, request, line, out),
            Reject::ProxyRequire => {
                let name = HeaderName::ProxyRequire;
                self.refuse_extensions(now, &sender, server, request, name, out);
            }
            Reject::ActAsRecipient => self.answer_options(now, &sender, server, request, out),
        }
    }

    fn role(&self, request: &Message, routed: &Routed) -> Role {
        if is_registration(&self.own, request) {
            return Role::Registrar;
        }
        let method = request.method();
        if routed.next_route.is_some() || routed.grant.is_some() {
            return Role::Proxy;
        }
        let is_for_us = method == Method::Options
            && routed
                .uri(request)
                .is_some_and(|uri| uri.user.is_none() && self.own.is_own_uri(&uri));
        if is_for_us {
            Role::Recipient
        } else {
            Role::Proxy
        }
    }

    /// Carries out the verdict of the gate.
    pub(super) fn judged(&mut self, now: Now, job: Job, gate: Gate, out: &mut Outputs) {
        match gate {
            Gate::Pass(permit) => self.proceed(now, job, permit, None, out),
            Gate::Refuse(refusal) => {
                self.counters.auth_failed(refusal.failure());
                let is_foreign = refusal.reason() == Reason::ForeignFrom;
                let source = job.sender.flow.remote.ip();
                let is_gateways = is_foreign && self.gateways.has_host(source, now.mono_ms);
                let refusal = match is_gateways {
                    true => refusal.because(Reason::GatewayNotTrusted),
                    false => refusal,
                };
                self.refuse_by_gate(now, job, &refusal, out);
            }
            Gate::Drop => {
                self.counters.requests_dropped += 1;
                self.drop_job(job);
            }
            Gate::Lookup(pending) => self.look_up(now, job, pending, None, out),
        }
    }

    pub(super) fn lookup_bounds(&self) -> (usize, u64) {
        match &self.settings.authenticate {
            Some(auth) => (auth.lookups_max, auth.lookup_timeout_ms),
            None => (0, 0),
        }
    }

    /// Sends the gate's answer. No transaction is kept for what its sender is to blame for: a
    /// stranger costs no memory.
    pub(super) fn refuse_by_gate(
        &mut self,
        now: Now,
        job: Job,
        refusal: &Refusal,
        out: &mut Outputs,
    ) {
        let limited = match self.verdict(now, &job, refusal, out) {
            Verdict::Served => None,
            Verdict::TooMany => Some(refusal.too_many()),
            Verdict::Silence => {
                self.drop_job(job);
                return;
            }
        };
        let refusal = limited.as_ref().unwrap_or(refusal);
        let Job {
            request,
            sender,
            server,
            ..
        } = job;
        let line = match refusal.claimed() {
            Some(claimed) => {
                self.counters.identities_refused += 1;
                let detail = || said_and_proved(claimed, &sender);
                let line = refusal.line();
                self.record(now, &sender, &request, &line, &detail, out);
                line.recorded(true)
            }
            None => refusal.line(),
        };
        // The store's trouble may be over when the request comes again, and a
        // transaction has one final response: this one is kept.
        let kept = server.filter(|_| !refusal.is_senders() && limited.is_none());
        if let (Some(server), None) = (server, kept) {
            self.txns.release_server(server);
        }
        let tag = self.own_tag(&request);
        let start = out.outbox.bytes.len();
        refusal.write(
            &self.gate_context(now, &sender),
            &request,
            self.mark_for(now, &sender, &request),
            &tag,
            &mut out.outbox.bytes,
        );
        self.send_answer(now, &sender, kept, &request, &line, start, out);
        self.pool.recycle(request);
    }

    /// A request that passed the gate, by an attempt of its sender's where he proved himself.
    pub(super) fn proceed(
        &mut self,
        now: Now,
        mut job: Job,
        permit: Permit,
        proof: Option<&Attempt>,
        out: &mut Outputs,
    ) {
        let permit = self.look_at_refused_token(now, &mut job, permit);
        if self.is_too_much(now, &job, &permit, out) {
            let line = StatusLine::refused(503, Reason::RateLimited);
            self.refuse(now, &job.sender, job.server, job.request, line, out);
            return;
        }
        // What is past his rate makes nobody known: he would push out those who are.
        if let Some(attempt) = proof {
            let origin = origin(&job.sender.flow);
            self.shared.guard.succeeded(now.mono_ms, &origin, attempt);
        }
        match self.hook_kind(now, &job, &permit) {
            Some(kind) => self.ask_hook(now, job, permit, kind, out),
            None => self.go_on(now, job, permit, out),
        }
    }

    /// A request that passed the gate, and about which nobody is to be asked any more.
    pub(crate) fn go_on(&mut self, now: Now, mut job: Job, permit: Permit, out: &mut Outputs) {
        // A Route of its sender's would lead a call for help past whoever is to help.
        let has_way = job.routed.next_route.is_some() || job.routed.grant.is_some();
        if has_way
            && self.is_for_help(now, &permit, &job.routed, &job.request)
            && self.send_elsewhere(&mut job, None).is_err()
        {
            broken!("without its Routes a request is one still");
            self.fail_job(now, job, Outcome::UnreadableUri, out);
            return;
        }
        job.is_known |= self.is_there(&job.sender, &permit);
        self.note_request(now, &job);
        self.counters.calls += u64::from(begins_call(&job.request));
        // Nobody hears what is answered to a request that is forwarded without state.
        if job.server.is_none() && job.request.method() == Method::Bye {
            self.calls.end(&job.request, |_| true);
        }
        self.note_within(now, &job.request, &permit);
        match self.role(&job.request, &job.routed) {
            Role::Registrar => self.register(now, job, permit, out),
            _ if job.request.method() == Method::Ack => {
                self.acks.passed(&self.keys.tags, &job.request);
                self.forward_ack(now, job, permit, out);
            }
            _ => match self.settings.mode {
                Mode::Stateless if job.server.is_none() => {
                    self.forward_single(now, job, permit, out);
                }
                Mode::Stateful | Mode::Stateless => self.forward(now, job, &permit, out),
                Mode::Redirect => self.redirect(now, job, &permit, out),
            },
        }
    }

    fn register(&mut self, now: Now, job: Job, permit: Permit, out: &mut Outputs) {
        let registration = Registration {
            request: job.request,
            sender: job.sender,
            server: job.server,
            permit,
        };
        if let Some(server) = registration.server {
            self.txns.set_context(server, Owner::Nobody.encode());
        }
        let cx = RegistrarContext {
            now,
            settings: &self.settings,
            location: &self.shared.location,
            own: &self.own,
            gateways: &self.gateways,
        };
        let answered = self.registrar.handle_register(&cx, registration, out);
        if let Some(answered) = answered {
            self.registrar_answered(now, answered, out);
        }
    }

    /// Opens a response context for a request and starts its first branches.
    pub(crate) fn forward(&mut self, now: Now, mut job: Job, permit: &Permit, out: &mut Outputs) {
        let Some((key, mut context)) = self.contexts.open(self.settings.bounds.contexts_max) else {
            self.refuse_without_context(now, job, permit, out);
            return;
        };
        let candidates = &mut context.candidates;
        let (called_by, found) = match self.called_by_trunk(now, &job, permit, candidates) {
            Called::Usual => (None, None),
            Called::UsualBy(trunk) => (Some(trunk), None),
            Called::Targets(targets, trunk) => (Some(trunk), Some(targets)),
            Called::TheTrunk => {
                self.contexts.close(key, context, &mut self.pool);
                self.answer_options(now, &job.sender, job.server, job.request, out);
                return;
            }
        };
        // One about which the hook was asked has begun.
        if job.record.is_none() {
            job.record = self.begin_record(now, &job, permit);
        }
        let has_way = job.told.as_ref().is_some_and(|told| told.group.is_some());
        let targets = match found {
            Some(found) if !has_way => found,
            _ => self.targets_of(now, &job, permit, candidates),
        };
        if targets != Targets::Found {
            self.contexts.close(key, context, &mut self.pool);
            self.answer_without_targets(now, job, permit, targets, out);
            return;
        }
        if self.has_people
            && let Err(outcome) = self.charge(now, &mut job, permit, &mut context)
        {
            self.contexts.close(key, context, &mut self.pool);
            self.fail_job(now, job, outcome, out);
            return;
        }
        permit.strip(
            &self.gate_context(now, &job.sender),
            &job.request,
            &mut context.strip,
        );
        hidden_lines(permit, &job.request, &mut context.hidden);
        if let Some(told) = job.told.take() {
            self.take_told(*told, &job.request, &mut context);
        }
        context.chosen_by = match self.has_people && context.is_on_others_account() {
            true => ChosenBy::User,
            false => self.relay(now).chosen_by(permit, &job.routed, &job.request),
        };
        context.is_known = job.is_known;
        self.identify(&mut context, &job);
        context.media = self.media_within(&job);
        context.is_listed = self.is_listed_peers(&job.sender);
        context.is_counted =
            job.request.method() == Method::Invite && !matches!(permit, Permit::Dialog(_));
        context.speaks_for_dialog = speaks_for_dialog(permit);
        context.sender = job.sender;
        context.method = job.request.method();
        context.routed = job.routed;
        context.loop_hash = job.loop_hash;
        context.breadth_left = job.breadth;
        context.server = job.server;
        context.record = job.record.take();
        context.session = AskedTimer::of(&self.settings, &job.request);
        if let Some(server) = job.server {
            context.back = self.txns.server_target(server).cloned();
            self.txns
                .set_context(server, Owner::Context(key, 0).encode());
            // RFC 3261 16.2: "The proxy core MUST behave as a UAS with respect to sending an
            // immediate provisional on that server transaction (such as 100 Trying) as
            // described in Section 8.2.6.  Thus, a stateful proxy SHOULD NOT generate 100
            // (Trying) responses to non-INVITE requests."
            // RFC 3261 17.2.1: "The server transaction MUST generate a 100 (Trying) response
            // unless it knows that the TU will generate a provisional or final response within
            // 200 ms". It will: the next hop's, or its own when the transaction reminds it.
            if context.method == Method::Invite && self.settings.proxy.trying_at_once {
                self.txns
                    .respond_trying(now.mono_ms, server, &job.request, &mut out.outbox);
            }
        }
        context.request = Some(job.request);
        context.count_messages();
        self.note_trunk(&mut context, called_by.as_ref());
        self.settle(now, key, context, out);
    }

    /// Refuses a request that there is no room to forward.
    fn refuse_without_context(
        &mut self,
        now: Now,
        mut job: Job,
        permit: &Permit,
        out: &mut Outputs,
    ) {
        self.counters.contexts_full += 1;
        let line = StatusLine::refused(503, Reason::TooManyTransactions);
        let is_proven = speaks_for_dialog(permit);
        self.note_hung_up(&job.request, line.status(), |_| is_proven);
        self.note_bye_answered(now, &job.request, line.status(), is_proven, |_| false, out);
        self.note_refused(now, job.record.take(), &line, out);
        self.refuse(now, &job.sender, job.server, job.request, line, out);
    }

    /// Answers a request that has no targets, or asks first who sent it or whether its user exists.
    fn answer_without_targets(
        &mut self,
        now: Now,
        mut job: Job,
        permit: &Permit,
        targets: Targets,
        out: &mut Outputs,
    ) {
        if let Some(refusal) = self.who_hides(now, &job, permit, targets) {
            let record = job.record.take();
            self.note_refused(now, record, &refusal.line(), out);
            self.refuse_by_gate(now, job, &refusal, out);
            return;
        }
        match targets {
            Targets::Answer(outcome) => self.fail_job(now, job, outcome, out),
            _ => self.ask_for_user(now, job, out),
        }
    }

    /// Whether a stranger who hides has called what only users may call: then he is asked whether
    /// he is one.
    fn who_hides(&self, now: Now, job: &Job, permit: &Permit, targets: Targets) -> Option<Refusal> {
        let may_be = matches!(permit, Permit::Inbound(_))
            && matches!(
                targets,
                Targets::Absent | Targets::Answer(Outcome::NotRelayed)
            );
        may_be
            .then(|| ask_who_hides(&self.gate_context(now, &job.sender), &job.request))
            .flatten()
    }

    /// Takes note on whose account a request is, and takes the place that a call needs among those
    /// of its caller. An emergency needs none.
    fn charge(
        &mut self,
        now: Now,
        job: &mut Job,
        permit: &Permit,
        context: &mut Context,
    ) -> Result<(), Outcome> {
        let divert = self.divert.take();
        let request = &*job.request;
        if request.method() != Method::Invite {
            return Ok(());
        }
        if begins(request) {
            context.divert = divert;
        }
        let settings = Arc::clone(&self.settings);
        let Some(person) = permit.person(&settings.people) else {
            return Ok(());
        };
        context.caller = Some(Arc::clone(person));
        if person.calls_max(&settings.numbers) == 0 || context.is_emergency() {
            return Ok(());
        }
        let place = self.place_of(person).ok_or(Outcome::UserCallsMax)?;
        let (followed, source) = (job.record.take(), Source::of(&job.sender.flow));
        let places = vec![Arc::new(place)];
        job.record = Some(self.follow(now, followed, request, source, places));
        Ok(())
    }

    /// A user of ours has no contact: whether he exists decides the answer.
    pub(crate) fn ask_for_user(&mut self, now: Now, job: Job, out: &mut Outputs) {
        // RFC 3261 16.5: "If the Request-URI indicates a resource at this proxy that does
        // not exist, the proxy MUST return a 404 (Not Found) response." Without
        // authentication there is no list of users: who is not registered is not there.
        let unknown = StatusLine::refused(404, Reason::NoSuchUser);
        let absent = StatusLine::refused(480, Reason::NotRegistered);
        let Some(auth) = self.settings.authenticate.clone() else {
            self.answer_job(now, job, unknown, out);
            return;
        };
        let Some(uri) = job.routed.uri(&job.request) else {
            self.answer_job(now, job, unknown, out);
            return broken!("the URI of a user who is absent was read before");
        };
        if !auth.tells_unknown_users {
            self.answer_job(now, job, absent, out);
            return;
        }
        let (max, timeout_ms) = self.lookup_bounds();
        if self.parks.lookups() >= max {
            self.counters.lookups_full += 1;
            self.answer_job(now, job, absent, out);
            return;
        }
        let host = uri.host_port.host;
        let domain = self.own.domain(host).or(self.settings.domains.first());
        let realm = match (auth.realm, domain) {
            (Some(realm), _) => realm,
            (None, Some(domain)) => domain.clone(),
            (None, None) => String::from_utf8_lossy(host).into(),
        };
        self.aor.clear();
        uri.write_user(&mut self.aor);
        let question = Question {
            subject: Subject::new(&self.aor, realm),
            algorithm: self.shared.authenticator.config().commonest(),
            digest: None,
            why: Why::Existence,
        };
        let until_ms = now.mono_ms + timeout_ms;
        let park = self.park_job(job.server, Parked::User(job), until_ms);
        out.effects.push(Effect::FindCredential {
            park,
            question,
            until_ms,
        });
    }

    /// Answers what is not well-formed, where it can be answered.
    pub(super) fn malformed(
        &mut self,
        now: Now,
        sender: &Sender,
        mut message: Box<Message>,
        error: &ParseError,
        out: &mut Outputs,
    ) {
        self.counters.malformed += 1;
        if !message.is_answerable() {
            self.counters.malformed_dropped += 1;
            self.pool.recycle(message);
            return;
        }
        let line = StatusLine::refused(error.status(), Reason::Malformed).saying(error.reason());
        message.stamp_received(sender.flow.remote);
        self.refuse_owing(now, sender, None, message, line, out);
    }
}

/// Which host a peer named, and which its certificate has.
fn said_and_proved(claimed: &str, sender: &Sender) -> String {
    let proved = match &sender.peer {
        Some(peer) if !peer.domains().is_empty() => peer.domains().join(", "),
        Some(_) => "no domain".to_owned(),
        None => "its address alone".to_owned(),
    };
    format!("claims {claimed}, proves {proved}")
}

/// Whether this is an INVITE outside of any dialog.
fn begins_call(request: &Message) -> bool {
    request.method() == Method::Invite && begins(request)
}

/// Whether a request claims to be part of no dialog.
fn begins(request: &Message) -> bool {
    request.to_tag().is_none()
}
