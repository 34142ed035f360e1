//! Forwarding without state (RFC 3261 16.11): everything where the operator
//! wants it so, and the ACK to a 2xx always.

use std::hash::{Hash, Hasher};
use std::net::SocketAddr;

use sip_locate::Located;
use sip_msg::header::Via;
use sip_msg::{ConnId, Flow, HeaderName, Message, Method, Target};
use siphasher::sip::{SipHasher13, SipHasher24};

use super::context::Candidate;
use super::egress::{Draft, Egress, may_stream, path_of, target_uri};
use super::forward::{CopyContext, RequestCopy};
use super::outcome::Outcome;
use super::privacy::hidden_lines;
use super::responses::write_upstream;
use super::targets::Targets;
use crate::effect::Effect;
use crate::park::{Job, Parked};
use crate::permit::Permit;
use crate::random::Dice;
use crate::refusal::{Reason, StatusLine};
use crate::relay::Source;
use crate::sender::Sender;
use crate::text::hex16;
use crate::{Now, Outputs, Shard};

/// The parameter of our own Via that names the connection a request came on.
const FLOW_PARAM: &[u8] = b";flow=";
/// Bytes of each keyed hash in a branch.
const MAC_LEN: usize = 16;

impl Shard {
    // RFC 3261 16.11: "A stateless proxy MUST validate a request as described in Section
    // 16.3" and "A stateless proxy MUST follow the request processing steps described in
    // Sections 16.4 through 16.5 with the following exception:" one target.
    /// Forwards a request to one target and forgets it.
    pub(crate) fn forward_single(&mut self, now: Now, job: Job, permit: Permit, out: &mut Outputs) {
        // RFC 3261 16.11: "This choice MUST only rely on fields in the message and
        // time-invariant properties of the server.  In particular, a retransmitted request
        // MUST be forwarded to the same destination each time it is processed." So chance is
        // drawn from the Call-ID.
        let mut hasher = SipHasher13::new_with_key(&self.keys.branches);
        hasher.write(job.request.call_id());
        let mut key = self.keys.branches;
        for (byte, hashed) in key.iter_mut().zip(hasher.finish().to_be_bytes()) {
            *byte ^= hashed;
        }
        let dice = std::mem::replace(&mut self.dice, Dice::new(&key));
        let mut candidates = std::mem::take(&mut self.candidates);
        let targets = self.find_targets(now, &job.request, &job.routed, &permit, &mut candidates);
        self.dice = dice;
        // RFC 3261 16.11: "A stateless proxy MUST choose one and only one target from the
        // target set." The first is the best: the contacts come by their q. RFC 3261 16.1:
        // "Any request that is forwarded to more than one location MUST be handled
        // statefully." So this way leads to one. RFC 3261 16.11: "Furthermore, CANCEL and
        // non-Routed ACK requests MUST generate the same choice as their associated
        // INVITE." They have its Request-URI and its Call-ID.
        let chosen = (!candidates.is_empty()).then(|| candidates.swap_remove(0));
        candidates.clear();
        self.candidates = candidates;
        match (targets, chosen) {
            (Targets::Found, Some(candidate)) => {
                self.lead_single(now, job, permit, candidate, out);
            }
            (Targets::Answer(outcome), _) => self.fail_job(now, job, outcome, out),
            (Targets::Absent, _) if job.request.method() == Method::Ack => {
                self.counters.requests_dropped += 1;
                self.pool.recycle(job.request);
            }
            _ => self.ask_for_user(now, job, out),
        }
    }

    fn lead_single(
        &mut self,
        now: Now,
        job: Job,
        permit: Permit,
        mut candidate: Candidate,
        out: &mut Outputs,
    ) {
        let request = &job.request;
        let secure = job.routed.is_secure();
        match self.locate(&candidate.kind, request, &job.routed, secure) {
            None => self.send_single(now, job, &permit, candidate, out),
            Some(Located::Hop { hop, by_default }) => {
                candidate.hops.push(hop);
                // Nobody would send the datagram after all where the stream fails: there is no
                // transaction, and the 2xx that comes again brings an ACK as long as this one.
                candidate.may_stream =
                    by_default && has_transaction(request) && may_stream(&candidate.kind);
                self.send_single(now, job, &permit, candidate, out);
            }
            Some(Located::Ask(_)) if self.parks.len() >= self.settings.bounds.contexts_max => {
                self.counters.parks_full += 1;
                self.fail_job(now, job, Outcome::NoRoom, out);
            }
            Some(Located::Ask(query)) => {
                let relay = self.relay(now);
                let chosen_by = relay.chosen_by(&permit, &job.routed, &job.request);
                let judged = relay.judge_name(chosen_by, &candidate.kind, &query);
                if let Err(outcome) = judged {
                    self.counters.relays_refused += 1;
                    self.fail_job(now, job, outcome, out);
                    return;
                }
                let asker = self.asker(&query, chosen_by, &job.sender.flow, &job.request);
                if !self.parks.may_resolve(asker) {
                    self.counters.resolves_refused += 1;
                    self.fail_job(now, job, Outcome::NoRoom, out);
                    return;
                }
                candidate.may_stream = query.transport.is_none()
                    && has_transaction(&job.request)
                    && may_stream(&candidate.kind);
                let deadline_ms = now.mono_ms + self.settings.proxy.resolve_timeout_ms;
                let parked = Parked::Single(job, permit, candidate, asker);
                let park = self.parks.park(parked, deadline_ms, &mut self.wheel);
                out.effects.push(Effect::Resolve { park, query });
            }
            // A gateway that this request cannot go to, whenever it comes, is no choice.
            Some(Located::Nowhere(_)) if candidate.next_gateway() => {
                self.lead_single(now, job, permit, candidate, out);
            }
            Some(Located::Nowhere(refusal)) => {
                let outcome = Outcome::from(refusal).at(&candidate.kind);
                self.fail_job(now, job, outcome, out);
            }
        }
    }

    // RFC 3261 16.11: "A stateless proxy MUST follow the request processing steps described
    // in Section 16.6 with the following exceptions:" the branch, and no transaction.
    // RFC 3261 16.11: "All other message transformations specified in Section 16.6 MUST
    // result in the same transformation of a retransmitted request."
    // RFC 3261 16.11: "In particular, if
    // the proxy inserts a Record-Route value or pushes URIs into the Route header field,
    // it MUST place the same values in retransmissions of the request.  As for the Via
    // branch parameter, this implies that the transformations MUST be based on
    // time-invariant configuration or retransmission-invariant properties of the
    // request." The copy is a function of the request, its flow, the settings and keys.
    /// Sends a copy to the target's first address.
    pub(crate) fn send_single(
        &mut self,
        now: Now,
        mut job: Job,
        permit: &Permit,
        mut candidate: Candidate,
        out: &mut Outputs,
    ) {
        job.chosen_by = self.relay(now).chosen_by(permit, &job.routed, &job.request);
        let mut strip = std::mem::take(&mut self.strip);
        strip.clear();
        permit.strip(
            &self.gate_context(now, &job.sender),
            &job.request,
            &mut strip,
        );
        let mut hidden = Vec::new();
        hidden_lines(permit, &job.request, &mut hidden);
        let draft = Draft {
            request: &job.request,
            strip: &strip,
            told: &[],
            is_led: false,
        };
        let egress = self.next_egress(now, &job.came(), Some(draft), &mut candidate);
        match egress {
            None => {
                let none = || Outcome::NoTransport.at(&candidate.kind);
                let outcome = candidate.refused.unwrap_or_else(none);
                self.fail_job(now, job, outcome, out);
            }
            Some(egress) if must_be_stateful(&job, &candidate, &egress) => {
                self.forward_after_all(now, job, permit, out);
            }
            Some(egress) => {
                if !hidden.is_empty()
                    && !self.may_know_the_caller(&candidate.kind, egress.to.remote.ip())
                {
                    let own = std::mem::take(&mut strip);
                    Self::lines_to_cut(&own, &hidden, &mut strip);
                }
                self.write_single(now, &job, &candidate, &egress, &strip, out);
                self.counters.requests_forwarded += 1;
                self.pool.recycle(job.request);
            }
        }
        self.strip = strip;
    }

    fn forward_after_all(&mut self, now: Now, mut job: Job, permit: &Permit, out: &mut Outputs) {
        let (flow, request) = (&job.sender.flow, &job.request);
        match self
            .txns
            .handle_request(now.mono_ms, flow, request, &mut out.outbox)
        {
            sip_txn::Incoming::New(server) => {
                job.server = Some(server);
                self.forward(now, job, permit, out);
            }
            sip_txn::Incoming::Full => {
                let line = StatusLine::refused(503, Reason::TooManyTransactions);
                self.answer_job(now, job, line, out);
            }
            _ => self.pool.recycle(job.request),
        }
    }

    fn write_single(
        &mut self,
        now: Now,
        job: &Job,
        candidate: &Candidate,
        egress: &Egress,
        strip: &[sip_msg::Span],
        out: &mut Outputs,
    ) {
        let instance = self.instance_of(&candidate.kind);
        let leg = self.plan_ack(now, job);
        self.target_uri.clear();
        let copy = RequestCopy {
            request: &job.request,
            routed: &job.routed,
            came: job.came(),
            uri: target_uri(&candidate.kind, &mut self.target_uri).or(candidate.own_uri()),
            path: path_of(&candidate.kind),
            to: &egress.to,
            local: egress.local,
            flow_down: egress.flow.as_ref(),
            instance,
            breadth: Some(job.breadth),
            strip,
            told: &[],
            added: candidate
                .extra
                .as_ref()
                .map_or(&[][..], |extra| &extra.added),
            session_expires_s: None,
            leg: leg.as_ref(),
            media: None,
            body: job.body.as_deref(),
        };
        let (settings, own, gateways) = (&*self.settings, &self.own, &self.gateways);
        let cx = CopyContext::new(settings, own, gateways, &self.tokens, now);
        let branch = stateless_branch(&self.keys.branches, &job.request);
        let way_back = job.request.top_via().ok();
        let flow_back = job.sender.flow.conn.is_some().then_some(&job.sender.flow);
        let mac =
            way_back.map(|via| hex16(way_back_mac(&self.keys.branches, &branch, &via, flow_back)));
        let is_doubted = settings.authenticate.is_some() && !egress.to.transport.is_reliable();
        let there =
            is_doubted.then(|| hex16(there_mac(&self.keys.branches, &branch, egress.to.remote)));
        let tokens = &self.tokens;
        let write_branch = |text: &mut Vec<u8>| {
            text.extend_from_slice(b"z9hG4bK");
            text.extend_from_slice(&branch);
            if let Some(mac) = &mac {
                text.push(b'.');
                text.extend_from_slice(mac);
                if let Some(there) = &there {
                    text.extend_from_slice(there);
                }
            }
            if job.sender.flow.conn.is_some() && job.request.method() != Method::Ack {
                text.extend_from_slice(FLOW_PARAM);
                tokens.write_flow(&job.sender.flow, text);
            }
        };
        let start = out.outbox.bytes.len();
        copy.write(&cx, &mut self.edits, write_branch, &mut out.outbox.bytes);
        out.outbox.send_since(start, egress.to.clone(), 0);
    }

    // RFC 3261 16.11: "When a response arrives at a stateless proxy, the proxy MUST inspect
    // the sent-by value in the first (topmost) Via header field value.  If that address
    // matches the proxy, (it equals a value this proxy has inserted into previous
    // requests) the proxy MUST remove that header field value from the response and
    // forward the result to the location indicated in the next Via header field value.
    // The proxy MUST NOT add to, modify, or remove the message body.  Unless specified
    // otherwise, the proxy MUST NOT remove any other header field values.  If the address
    // does not match the proxy, the message MUST be silently discarded."
    /// Forwards a response by its Vias.
    pub(crate) fn response_single(
        &mut self,
        now: Now,
        sender: &Sender,
        response: Box<Message>,
        out: &mut Outputs,
    ) {
        let flow = &sender.flow;
        if response.method() == Method::Bye && response.status() >= 200 {
            let ended = self.lanes.ended_call(&response, response.status());
            out.effects.extend(ended.map(Effect::EndCall));
        }
        match self.upstream(flow, &response) {
            Some((target, was_sent_there)) => {
                let start = out.outbox.bytes.len();
                let is_stream = target.transport.is_reliable();
                let is_known = was_sent_there || self.is_listed_peers(sender);
                let source = Source::of(flow).known_if(is_known);
                // Whoever sent the request is not known any more.
                let relay = self.relay(now);
                let is_shown = relay.is_shown_by_answer(&target, &response);
                let known = (None, None, is_shown);
                let granted = self.grant_caller(now, None, Some(&source), known, &response);
                write_upstream(
                    (&response, self.is_trusted(target.remote.ip())),
                    &[],
                    granted.map(|place| (place, &*self.granted)),
                    None,
                    is_stream,
                    &mut self.edits,
                    &mut out.outbox.bytes,
                );
                out.outbox.send_since(start, target, 0);
                self.counters.responses_forwarded += 1;
            }
            None => self.counters.responses_stray += 1,
        }
        self.pool.recycle(response);
    }

    /// Where a response to a request that was forwarded without state goes, and whether the
    /// request was sent to where the response comes from.
    fn upstream(&self, flow: &Flow, response: &Message) -> Option<(Target, bool)> {
        let mut vias = response.vias();
        let top = vias.next()??;
        let default_port = top.transport.map_or(5060, |t| t.default_port());
        let port = top.sent_by.port.unwrap_or(default_port);
        // RFC 3261 18.1.2: "If the value of the "sent-by" parameter in that header field value does not
        // correspond to a value that the client transport is configured to insert into requests, the
        // response MUST be silently discarded." Where state is kept, the branch says whose it is.
        if !self.own.is_listener_at(top.sent_by, port) {
            return None;
        }
        let next = vias.next()??;
        let (branch, mac) = branch_parts(top.branch)?;
        let top_text = response.values(HeaderName::Via).next()?.0;
        let token = memchr::memmem::find(top_text, FLOW_PARAM)
            .and_then(|at| top_text.get(at + FLOW_PARAM.len()..))
            .and_then(|rest| rest.split(|&b| b == b';').next());
        let token = token.and_then(|token| self.tokens.read_flow(token.trim_ascii()));
        let flow_back = token.as_ref().map(|token| token.flow());
        // Who makes a response up would choose where it goes: the branch must be one
        // that was written for this very way back.
        let (mac, there) = mac.split_at_checked(MAC_LEN)?;
        if mac != hex16(way_back_mac(&self.keys.branches, branch, &next, flow_back)) {
            return None;
        }
        let was_sent_there = there == hex16(there_mac(&self.keys.branches, branch, flow.remote));
        if let Some(flow) = flow_back {
            return Some((Target::back(flow), was_sent_there));
        }
        // RFC 3261 18.2.2, RFC 3581 4: `received` and `rport` before sent-by.
        let transport = next.transport?;
        let host = next.received.unwrap_or(next.sent_by.host);
        let ip = sip_msg::HostPort { host, port: None }.ip().or_else(|| {
            let text = std::str::from_utf8(host).ok()?;
            text.parse().ok()
        })?;
        let port = next
            .rport
            .flatten()
            .or(next.sent_by.port)
            .unwrap_or(transport.default_port());
        let remote = SocketAddr::new(ip, port);
        let target = Target {
            transport,
            listener: self.own.listener_towards(transport, &remote, flow)?,
            remote,
            conn: ConnId::NONE,
            may_open: true,
            tls_name: None,
            lane: sip_msg::Lane::Shared,
            local: None,
        };
        Some((target, was_sent_there))
    }
}

// RFC 3261 16.1: "Requests forwarded between different types of transports where the
// proxy's TU must take an active role in ensuring reliable delivery on one of the
// transports MUST be forwarded transaction statefully."
/// Whether nobody but this proxy would send again what is lost: a request that
/// came over a stream and leaves as a datagram, or that leaves over a stream of
/// our choice, which may not be there.
fn must_be_stateful(job: &Job, candidate: &Candidate, egress: &Egress) -> bool {
    let is_made_unreliable =
        job.sender.flow.transport.is_reliable() && !egress.to.transport.is_reliable();
    has_transaction(&job.request) && (is_made_unreliable || candidate.has_datagram)
}

/// Whether a request could have a transaction of its own.
fn has_transaction(request: &Message) -> bool {
    !matches!(request.method(), Method::Ack | Method::Cancel)
}

// RFC 3261 16.11: "Therefore, the component of the branch parameter that makes it unique
// MUST be the same each time a retransmitted request is forwarded.  Thus for a stateless
// proxy, the branch parameter MUST be computed as a combinatoric function of message
// parameters which are invariant on retransmission."
/// The unique part of a branch, from what a retransmission, a CANCEL and an ACK
/// to a failure have in common with their request.
fn stateless_branch(key: &[u8; 16], request: &Message) -> [u8; 16] {
    let mut hasher = SipHasher13::new_with_key(key);
    let mut part = |bytes: &[u8]| {
        hasher.write_u32(bytes.len() as u32);
        hasher.write(bytes);
    };
    let via = request.top_via().ok();
    let branch = via.as_ref().map(|via| via.branch).unwrap_or_default();
    if let Some(via) = &via {
        part(via.sent_by.host);
        part(&via.sent_by.port.unwrap_or(0).to_be_bytes());
    }
    // RFC 3261 16.11: "The proxy examines the branch ID in the topmost Via header field of
    // the received request.  If it begins with the magic cookie, the first component of
    // the branch ID of the outgoing request is computed as a hash of the received branch
    // ID.  Otherwise, the first component of the branch ID is computed as a hash of the
    // topmost Via, the tag in the To header field, the tag in the From header field, the
    // Call-ID header field, the CSeq number (but not method), and the Request-URI from
    // the received request." The To tag is left out: an ACK to a failure has one that
    // its INVITE had not, and the other parts tell transactions apart. A cookie with nothing
    // behind it identifies nothing (RFC 4475 3.2.1).
    part(branch);
    let unique = branch.strip_prefix(b"z9hG4bK");
    if unique.is_none_or(<[u8]>::is_empty) {
        if let Some((top, _)) = request.values(HeaderName::Via).next() {
            part(top);
        }
        if let Ok(from) = request.from() {
            part(from.tag().unwrap_or_default());
        }
        part(request.call_id());
        if let Ok(cseq) = request.cseq() {
            part(&cseq.number.to_be_bytes());
        }
        part(request.request_uri());
    }
    hex16(hasher.finish())
}

/// The two parts of a branch of ours: what is unique to the request, and what
/// shows that its way back is the one that it came by, and where it was sent.
fn branch_parts(branch: &[u8]) -> Option<(&[u8], &[u8])> {
    let own = branch.strip_prefix(b"z9hG4bK")?;
    let dot = own.iter().position(|&byte| byte == b'.')?;
    Some((own.get(..dot)?, own.get(dot + 1..)?))
}

/// A keyed hash over the way back of a request: the Via below our own, and the
/// connection that it came by, where it is one. Who takes it to another way back
/// finds that it does not fit there.
fn way_back_mac(key: &[u8; 16], branch: &[u8], via: &Via<'_>, flow: Option<&Flow>) -> u64 {
    let mut hasher = SipHasher24::new_with_key(key);
    let mut part = |bytes: &[u8]| {
        hasher.write_u32(bytes.len() as u32);
        hasher.write(bytes);
    };
    part(b"way back");
    part(branch);
    part(&[via.transport.map_or(0, |transport| transport as u8 + 1)]);
    part(via.sent_by.host);
    part(&via.sent_by.port.unwrap_or(0).to_be_bytes());
    part(via.received.unwrap_or_default());
    part(&via.rport.flatten().unwrap_or(0).to_be_bytes());
    if let Some(flow) = flow {
        part(&flow.conn.0.to_be_bytes());
        part(&flow.listener.0.to_be_bytes());
    }
    hasher.finish()
}

/// A keyed hash over the address that a request is sent to: anybody could answer it with any
/// source, and whoever has this one has got it there.
fn there_mac(key: &[u8; 16], branch: &[u8], to: SocketAddr) -> u64 {
    let mut hasher = SipHasher24::new_with_key(key);
    hasher.write(b"there");
    hasher.write(branch);
    to.ip().to_canonical().hash(&mut hasher);
    to.port().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_msg::Limits;

    fn branch_of(method: &str, branch: &str, cseq: u32) -> [u8; 16] {
        let text = format!(
            "{method} sip:b@b.example SIP/2.0\r\nVia: SIP/2.0/UDP a.example{branch}\r\n\
             From: <sip:a@a.example>;tag=1\r\nTo: <sip:b@b.example>\r\nCall-ID: c\r\nCSeq: {cseq} {method}\r\n\r\n"
        );
        let message = Message::parse(text.as_bytes(), &Limits::default()).unwrap();
        stateless_branch(&[1; 16], &message)
    }

    #[test]
    fn a_branch_is_a_function_of_what_retransmissions_share() {
        // RFC 3261 16.11: "Thus for a stateless proxy, the branch parameter MUST be computed
        // as a combinatoric function of message parameters which are invariant on
        // retransmission."
        let first = branch_of("INVITE", ";branch=z9hG4bK1", 1);
        assert_eq!(first, branch_of("INVITE", ";branch=z9hG4bK1", 1));
        assert_eq!(first, branch_of("CANCEL", ";branch=z9hG4bK1", 1));
        assert_ne!(first, branch_of("INVITE", ";branch=z9hG4bK2", 1));
        // A cookie alone is as good as none.
        for none in ["", ";branch=z9hG4bK"] {
            let old = branch_of("INVITE", none, 1);
            assert_eq!(old, branch_of("CANCEL", none, 1));
            assert_ne!(old, branch_of("INVITE", none, 2), "{none}");
        }
    }
}
