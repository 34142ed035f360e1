//! Requests that come: the rules for all methods (RFC 3261 8.2, 12.2.2).

use crate::call::State;
use crate::event::{AgentKey, Event};
use crate::outgoing::allow;
use crate::slots::Key;
use crate::tag::Tag;
use crate::texts::Part;
use crate::user_agents::UserAgents;
use invariant::broken;
use sip_msg::header::{Contact, elements};
use sip_msg::uri::Scheme;
use sip_msg::write::{reason_phrase, write_number};
use sip_msg::{
    Flow, HeaderName, ListenerId, Message, MessageWriter, Method, Outbox, ResponseWriter,
};
use sip_txn::{Incoming, ServerId, Transactions, response_target};

impl UserAgents {
    pub(crate) fn take_request(
        &mut self,
        now_ms: u64,
        flow: &Flow,
        request: Box<Message>,
        out: &mut Outbox,
    ) {
        match self
            .transactions
            .handle_request(now_ms, flow, &request, out)
        {
            Incoming::New(server) => {
                self.counters.requests += 1;
                let is_invite = request.method() == Method::Invite;
                // The INVITE of a call is kept; everything else is used again.
                if let Some(request) = self.take_new(now_ms, flow.listener, server, request, out) {
                    self.pool.recycle(request);
                }
                if !is_invite {
                    self.keep_for_repeats(now_ms, server);
                }
                return;
            }
            Incoming::Cancel { cancel, invite } => {
                self.counters.requests += 1;
                self.take_cancel(now_ms, cancel, invite, &request, out);
            }
            Incoming::Ack { .. } => self.take_ack(now_ms, &request, out),
            Incoming::Full => {
                self.counters.full += 1;
                if let Ok(via) = request.top_via() {
                    self.answers.count(request.method(), 503);
                    let target = response_target(flow, &via, false);
                    let tag = self.loose_tag();
                    let start = out.bytes.len();
                    let mut writer = ResponseWriter::begin(
                        &mut out.bytes,
                        &request,
                        503,
                        reason_phrase(503),
                        &tag,
                    );
                    writer.header("Retry-After", b"5");
                    writer.finish(b"");
                    out.send_since(start, target, 0);
                }
            }
            Incoming::Absorbed | Incoming::NoVia => {}
        }
        self.pool.recycle(request);
    }

    /// Gives the request back unless it was kept.
    fn take_new(
        &mut self,
        now_ms: u64,
        listener: ListenerId,
        server: ServerId,
        request: Box<Message>,
        out: &mut Outbox,
    ) -> Option<Box<Message>> {
        let method = request.method();
        // RFC 3261 8.2.1: "Once a request is authenticated (or authentication is skipped), the UAS MUST
        // inspect the method of the request."
        if let Some(status) = self.refusal_of(method) {
            let allowed = allow(&self.config);
            self.answer_with(now_ms, server, &request, status, out, |w| {
                // RFC 3261 8.2.1: "The UAS MUST also add an Allow header field to the 405 (Method Not Allowed)
                // response."
                // RFC 3261 21.4.6: "The response MUST include an Allow header field containing a
                // list of valid methods for the indicated address."
                w.header("Allow", allowed);
            });
            return Some(request);
        }
        let call = if request.to().is_ok_and(|to| to.tag().is_some()) {
            let Some(call) = self.find_dialog(&request) else {
                // RFC 3261 12.2.2: "If the UAS wishes to reject the request because it does not wish to
                // recreate the dialog, it MUST respond to the request with a 481 (Call/Transaction Does Not
                // Exist) status code and pass that to the server transaction."
                self.counters.unknown_dialog += 1;
                self.refuse(now_ms, server, &request, 481, out);
                return Some(request);
            };
            Some(call)
        } else {
            None
        };
        let agent = match self.recipient(listener, call, &request) {
            Ok(agent) => agent,
            Err(status) => {
                self.refuse(now_ms, server, &request, status, out);
                return Some(request);
            }
        };
        // RFC 3261 20.32: "Although an optional header field, the Require MUST NOT be ignored if it is
        // present." and "Each option tag defines a SIP extension that MUST be understood to process the
        // request."
        if request.has(HeaderName::Require) {
            self.refuse_extensions(now_ms, server, &request, out);
            return Some(request);
        }
        // RFC 3261 15.1.2: "A UAS core receiving a BYE request for an existing dialog MUST follow the
        // procedures of Section 12.2.2 to process the request."
        if let Some(call) = call
            && !self.take_in_order(now_ms, server, call, &request, out)
        {
            return Some(request);
        }
        match (method, call) {
            (Method::Invite, None) => return self.take_invite(now_ms, server, agent, request, out),
            (Method::Invite, Some(call)) => {
                self.refuse_reinvite(now_ms, server, call, &request, out)
            }
            (Method::Bye, Some(call)) => self.take_bye(now_ms, server, call, &request, out),
            // RFC 3261 15.1.2: "If the BYE does not match an existing dialog, the UAS core SHOULD generate a
            // 481 (Call/Transaction Does Not Exist) response and pass that to the server transaction."
            (Method::Bye, None) => {
                self.counters.unknown_dialog += 1;
                self.refuse(now_ms, server, &request, 481, out);
            }
            // RFC 3261 11.2: "The response code chosen MUST be the same that would have been chosen had the
            // request been an INVITE."
            (Method::Options, None) if self.calls.is_full() => {
                self.counters.full += 1;
                self.refuse(now_ms, server, &request, 503, out);
            }
            _ => self.take_other(now_ms, server, agent, &request, out),
        }
        Some(request)
    }

    /// A request that begins and ends nothing: it is answered by 200.
    fn take_other(
        &mut self,
        now_ms: u64,
        server: ServerId,
        agent: Key,
        request: &Message,
        out: &mut Outbox,
    ) {
        let method = request.method();
        if method == Method::Message && self.open_body(now_ms, server, agent, request, out).is_err()
        {
            return;
        }
        let allowed = allow(&self.config);
        let accepted = self.accepted(agent);
        self.answer_with(now_ms, server, request, 200, out, |w| {
            if method == Method::Options {
                // RFC 3261 11.2: "Allow, Accept, Accept-Encoding, Accept-Language, and Supported header
                // fields SHOULD be present in a 200 (OK) response to an OPTIONS request."
                w.header("Allow", allowed);
                w.header("Accept", accepted);
                w.header("Supported", b"");
            }
            if method == Method::Register {
                write_bindings(w, request);
            }
        });
        self.push(Event::Received {
            agent: AgentKey(agent),
            method,
        });
    }

    /// Refuses what asks for an extension: there is none here.
    fn refuse_extensions(
        &mut self,
        now_ms: u64,
        server: ServerId,
        request: &Message,
        out: &mut Outbox,
    ) {
        // RFC 3261 8.2.2.3: "If a UAS does not understand an option-tag listed in a Require header
        // field, it MUST respond by generating a response with status code 420 (Bad Extension).  The UAS
        // MUST add an Unsupported header field, and list in it those options it does not understand
        // amongst those in the Require header field of the request."
        self.answer_with(now_ms, server, request, 420, out, |w| {
            for field in request.fields_of(HeaderName::Require) {
                w.header("Unsupported", field.value);
            }
        });
    }

    /// Answers with a status and nothing else.
    pub(crate) fn refuse(
        &mut self,
        now_ms: u64,
        server: ServerId,
        request: &Message,
        status: u16,
        out: &mut Outbox,
    ) {
        self.answer_with(now_ms, server, request, status, out, |_| {});
    }

    /// Answers outside of any dialog, with more headers.
    pub(crate) fn answer_with(
        &mut self,
        now_ms: u64,
        server: ServerId,
        request: &Message,
        status: u16,
        out: &mut Outbox,
        write_more: impl FnOnce(&mut MessageWriter<'_>),
    ) {
        let tag = self.loose_tag();
        self.answers.count(request.method(), status);
        let transactions = &mut self.transactions;
        reply(
            transactions,
            now_ms,
            server,
            request,
            status,
            &tag,
            b"",
            out,
            write_more,
        );
    }

    /// The agent that a request is for, or the status that refuses it.
    fn recipient(
        &self,
        listener: ListenerId,
        call: Option<Key>,
        request: &Message,
    ) -> Result<Key, u16> {
        let named = match call {
            Some(call) => self.calls.get(call).and_then(|c| c.agent),
            // The Request-URI is the domain, not a user of it.
            None if request.method() == Method::Register => None,
            None => match request.uri() {
                Ok(uri) if uri.is_sip() => self.directory.find(&self.agents, uri.raw, &self.random),
                // RFC 3261 8.2.2.1: "If the Request-URI uses a scheme not supported by the UAS, it SHOULD
                // reject the request with a 416 (Unsupported URI Scheme) response."
                Ok(uri) => return Err(if uri.scheme == Scheme::Tel { 404 } else { 416 }),
                Err(_) => None,
            },
        };
        // RFC 3261 8.2.2.1: "If the Request-URI does not identify an address that the UAS is willing to
        // accept requests for, it SHOULD reject the request with a 404 (Not Found) response."
        named.or_else(|| self.catch_all(listener)).ok_or(404)
    }

    /// The status for a method that is not served.
    fn refusal_of(&self, method: Method) -> Option<u16> {
        match method {
            // RFC 3261 21.5.2: "This is the appropriate response when a UAS does not recognize the request
            // method and is not capable of supporting it for any user."
            Method::Other => Some(501),
            // RFC 3261 11: "All UAs MUST support the OPTIONS method."
            Method::Invite | Method::Bye | Method::Options | Method::Message => None,
            Method::Register if self.config.is_registrar => None,
            // RFC 3261 8.2.1: "If the UAS recognizes but does not support the method of a request, it MUST
            // generate a 405 (Method Not Allowed) response."
            _ => Some(405),
        }
    }

    /// The dialog that a request with a To tag is in.
    pub(crate) fn find_dialog(&self, request: &Message) -> Option<Key> {
        let tag = Tag::read(request.to().ok()?.tag()?)?;
        let key = self.calls.key_of(tag.slot())?;
        let call = self.calls.get(key)?;
        if call.tag != tag || call.texts.get(Part::CallId) != request.call_id() {
            return None;
        }
        // RFC 3261 12.1.1: "A UAS MUST be prepared to receive a request without a tag in the From field, in
        // which case the tag is considered to have a value of null."
        let from_tag = request.from().ok()?.tag().unwrap_or_default();
        let is_made = |state| !matches!(state, State::Inviting | State::Over);
        let is_match = |key: Key| {
            self.calls.get(key).is_some_and(|call| {
                is_made(call.state) && call.texts.get(Part::RemoteTag) == from_tag
            })
        };
        if is_match(key) {
            return Some(key);
        }
        call.forks
            .iter()
            .map(|fork| fork.1)
            .find(|&fork| is_match(fork))
    }

    /// Whether a request within a dialog is in order; answers it if not.
    fn take_in_order(
        &mut self,
        now_ms: u64,
        server: ServerId,
        call: Key,
        request: &Message,
        out: &mut Outbox,
    ) -> bool {
        let (Some(found), Ok(cseq)) = (self.calls.get_mut(call), request.cseq()) else {
            return broken!(
                "the dialog was just found, and a valid request has a CSeq",
                false
            );
        };
        // RFC 3261 12.2.2: "If the remote sequence number was not empty, but the sequence number of the
        // request is lower than the remote sequence number, the request is out of order and MUST be rejected
        // with a 500 (Server Internal Error) response."
        if found.remote_cseq.is_some_and(|last| cseq.number < last) {
            self.refuse(now_ms, server, request, 500, out);
            return false;
        }
        // RFC 3261 12.2.2: "The UAS MUST then set the remote sequence number to the value of the sequence
        // number in the CSeq header field value in the request."
        // RFC 3261 12.2.2: "If the remote sequence number is empty, it MUST be set to the value of the
        // sequence number in the CSeq header field value in the request."
        found.remote_cseq = Some(cseq.number);
        true
    }

    /// A re-INVITE: sessions do not change here.
    fn refuse_reinvite(
        &mut self,
        now_ms: u64,
        server: ServerId,
        key: Key,
        request: &Message,
        out: &mut Outbox,
    ) {
        let Some(call) = self.calls.get_mut(key) else {
            return broken!("the dialog of a re-INVITE was just found");
        };
        let tag = call.tag.text();
        if call.state == State::Ringing {
            // RFC 3261 14.2: "A UAS that receives a second INVITE before it sends the final response to a
            // first INVITE with a lower CSeq sequence number on the same dialog MUST return a 500 (Server
            // Internal Error) response to the second INVITE and MUST include a Retry-After header field with
            // a randomly chosen value of between 0 and 10 seconds."
            let seconds = self.random.next() % 11;
            self.answers.count(request.method(), 500);
            reply(
                &mut self.transactions,
                now_ms,
                server,
                request,
                500,
                &tag,
                b"",
                out,
                |w| {
                    w.number("Retry-After", seconds);
                },
            );
            return;
        }
        // RFC 3261 12.2.2: "When a UAS receives a target refresh request, it MUST replace the dialog's
        // remote target URI with the URI from the Contact header field in that request, if present." Only
        // an accepted one does: "If the request is rejected, none of the state changes are performed."
        // RFC 3261 14.2: "If the new session description is not acceptable, the UAS can reject it by
        // returning a 488 (Not Acceptable Here) response for the re-INVITE."
        self.answers.count(request.method(), 488);
        reply(
            &mut self.transactions,
            now_ms,
            server,
            request,
            488,
            &tag,
            b"",
            out,
            |w| {
                // RFC 3261 14.2: "This response SHOULD include a Warning header field."
                w.header("Warning", b"399 signet \"This session does not change\"");
            },
        );
    }

    /// A To tag that belongs to no dialog.
    pub(crate) fn loose_tag(&mut self) -> [u8; Tag::LEN] {
        let nowhere = Key {
            slot: u32::MAX,
            generation: 0,
        };
        Tag::new(nowhere, &mut self.random).text()
    }
}

/// Writes a response and gives it to its transaction.
#[allow(clippy::too_many_arguments)]
pub(crate) fn reply(
    transactions: &mut Transactions,
    now_ms: u64,
    server: ServerId,
    request: &Message,
    status: u16,
    tag: &[u8],
    body: &[u8],
    out: &mut Outbox,
    write_more: impl FnOnce(&mut MessageWriter<'_>),
) {
    let start = out.bytes.len();
    let mut writer =
        ResponseWriter::begin(&mut out.bytes, request, status, reason_phrase(status), tag);
    write_more(&mut writer);
    writer.finish(body);
    transactions.respond(now_ms, server, status, start, out);
}

/// Writes the contacts that a REGISTER binds, each for as long as it asks.
fn write_bindings(writer: &mut MessageWriter<'_>, request: &Message) {
    let default_s = request.expires_s().unwrap_or(DEFAULT_EXPIRES_S);
    // RFC 3261 10.3: "The registrar returns a 200 (OK) response.  The response MUST contain Contact
    // header field values enumerating all current bindings.  Each Contact value MUST feature an "expires"
    // parameter indicating its expiration interval chosen by the registrar."
    for (value, _) in request.values(HeaderName::Contact) {
        let Some(Contact::Addr(contact)) = Contact::parse(value) else {
            continue;
        };
        // RFC 3261 10.3: "If the field value has an "expires" parameter, that value MUST be taken as the
        // requested expiration."
        if contact.expires_s.unwrap_or(default_s) == 0 {
            continue;
        }
        writer.header_with("Contact", |out| {
            out.extend_from_slice(value);
            if contact.expires_s.is_none() {
                out.extend_from_slice(b";expires=");
                write_number(out, u64::from(default_s));
            }
        });
    }
}

/// For how long a contact is bound that asks for no time.
const DEFAULT_EXPIRES_S: u32 = 3_600;

/// Whether a list header has an element other than `allowed`.
pub(crate) fn has_other_than(request: &Message, name: HeaderName, allowed: &[u8]) -> bool {
    request
        .fields_of(name)
        .flat_map(|field| elements(field.value))
        .any(|(value, _)| !value.eq_ignore_ascii_case(allowed))
}
