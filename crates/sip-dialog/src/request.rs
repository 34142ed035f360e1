//! Requests outside of a dialog: REGISTER, OPTIONS, MESSAGE (RFC 3261 10.2,
//! 11.1, RFC 3428).

use crate::agent::{NOBODY, Text};
use crate::bodies;
use crate::caller::{bracket, line_with_contact, write_user_agent};
use crate::compose::{for_request_line, line};
use crate::event::{AgentKey, Cause, Event, RequestKey};
use crate::outgoing::{Outgoing, allow};
use crate::random::write_hex;
use crate::slots::{Key, Reset};
use crate::tag::Tag;
use crate::texts::{Part, Texts};
use crate::user_agents::{Context, UserAgents};
use invariant::broken;
use sip_auth::Attempt;
use sip_msg::header::{Contact, delta_seconds};
use sip_msg::write::write_number;
use sip_msg::{ConnId, HeaderName, Message, Method, Outbox, Uri};
use sip_txn::ClientId;

/// A request outside of a dialog.
#[derive(Default)]
pub(crate) struct Exchange {
    pub(crate) agent: Option<Key>,
    /// The neighbours in the list of the agent's requests.
    pub(crate) next: u32,
    previous: u32,
    method: Option<Method>,
    client: Option<ClientId>,
    tag: Tag,
    cseq: u32,
    texts: Texts,
    attempt: Attempt,
    /// Whether it was challenged.
    was_challenged: bool,
    /// What a REGISTER asks for.
    expires_s: u32,
    /// Whether it was sent again with a longer interval.
    was_too_brief: bool,
    /// Whether it removes the binding that the agent has left.
    removes_left: bool,
}

impl Reset for Exchange {
    fn reset(&mut self) {
        let mut texts = std::mem::take(&mut self.texts);
        texts.reset();
        *self = Self {
            next: NOBODY,
            previous: NOBODY,
            texts,
            ..Self::default()
        };
    }
}

impl UserAgents {
    /// Sends a REGISTER that binds the agent's contact for `expires_s` seconds; 0 removes
    /// the binding. `None` where a REGISTER is under way, or there is no room.
    pub fn register(
        &mut self,
        now_ms: u64,
        agent: AgentKey,
        expires_s: u32,
        out: &mut Outbox,
    ) -> Option<RequestKey> {
        // RFC 3261 10.2: "UAs MUST NOT send a new registration (that is, containing new Contact header
        // field values, as opposed to a retransmission) until they have received a final response from the
        // registrar for the previous one or the previous REGISTER request has timed out."
        if self.agents.get(agent.0)?.registering.is_some() {
            return None;
        }
        let key = self.begin_request(agent.0, Method::Register)?;
        let (Some(found), Some(exchange)) =
            (self.agents.get_mut(agent.0), self.requests.get_mut(key))
        else {
            return broken!("agent and slot were found just before", None);
        };
        exchange.expires_s = expires_s;
        // RFC 3261 10.2: "All registrations from a UAC SHOULD use the same Call-ID header field value for
        // registrations sent to a particular registrar."
        self.scratch.clear();
        write_hex(&mut self.scratch, found.register_id, 16);
        exchange.texts.set(Part::CallId, &self.scratch);
        bracket(&mut self.scratch, found.text(Text::Aor));
        exchange.texts.set(Part::Remote, &self.scratch);
        // RFC 3261 10.2: "The following header fields, except Contact, MUST be included in a REGISTER
        // request." They are Request-URI, To, From, Call-ID, CSeq and Contact.
        let registrar = Uri::parse(found.text(Text::Registrar))?;
        exchange
            .texts
            .set(Part::Target, &for_request_line(&registrar));
        found.registering = Some(key);
        self.launch(now_ms, key, out)
    }

    /// Sends OPTIONS to `to`.
    pub fn options(
        &mut self,
        now_ms: u64,
        agent: AgentKey,
        to: &str,
        out: &mut Outbox,
    ) -> Option<RequestKey> {
        self.ask(now_ms, agent, Method::Options, to, b"", b"", out)
    }

    /// Sends a MESSAGE with a body of any type. `None` also where that cannot be protected and is
    /// to be ([`UserAgents::seal_error`]).
    pub fn message(
        &mut self,
        now_ms: u64,
        agent: AgentKey,
        to: &str,
        body_type: &[u8],
        body: &[u8],
        out: &mut Outbox,
    ) -> Option<RequestKey> {
        self.ask(now_ms, agent, Method::Message, to, body_type, body, out)
    }

    #[allow(clippy::too_many_arguments)]
    fn ask(
        &mut self,
        now_ms: u64,
        agent: AgentKey,
        method: Method,
        to: &str,
        body_type: &[u8],
        body: &[u8],
        out: &mut Outbox,
    ) -> Option<RequestKey> {
        let uri = self.callable(agent, method, to)?;
        // RFC 3261 20.15: "The Content-Type header field MUST be present if the body is not empty."
        // RFC 3261 7.4.1: "The Internet media type of the message body MUST be given by the
        // Content-Type header field."
        if body_type.is_empty() && !body.is_empty() {
            return None;
        }
        if body_type.iter().any(|&b| b < 0x20 || b == 0x7f) {
            return None;
        }
        let sealed = self
            .seal_body(now_ms, agent.0, to, body_type, Some(body))
            .ok()?;
        let key = self.begin_request(agent.0, method)?;
        let (Some(found), Some(exchange)) =
            (self.agents.get_mut(agent.0), self.requests.get_mut(key))
        else {
            return broken!("agent and slot were found just before", None);
        };
        self.scratch.clear();
        write_hex(&mut self.scratch, self.random.next(), 16);
        write_hex(&mut self.scratch, self.random.next(), 16);
        exchange.texts.set(Part::CallId, &self.scratch);
        let target = for_request_line(&uri);
        bracket(&mut self.scratch, &target);
        exchange.texts.set(Part::Remote, &self.scratch);
        exchange.texts.set(Part::Target, &target);
        exchange.texts.set(Part::Routes, &found.service_route);
        match sealed {
            Some(sealed) => bodies::keep(&mut exchange.texts, &sealed),
            None => {
                exchange.texts.set(Part::BodyType, body_type);
                exchange.texts.set(Part::Body, body);
            }
        }
        self.launch(now_ms, key, out)
    }

    fn begin_request(&mut self, agent: Key, method: Method) -> Option<Key> {
        let found = self.agents.get(agent)?;
        let Some(key) = self.requests.insert() else {
            self.counters.full += 1;
            return None;
        };
        let Some(exchange) = self.requests.get_mut(key) else {
            return broken!("a slot that was just taken is in use", None);
        };
        exchange.agent = Some(agent);
        exchange.method = Some(method);
        exchange.tag = Tag::new(key, &mut self.random);
        bracket(&mut self.scratch, found.text(Text::Aor));
        exchange.texts.set(Part::Local, &self.scratch);
        exchange.next = found.first_request;
        if let Some(next) = self.requests.neighbour_mut(found.first_request) {
            next.previous = key.slot;
        }
        match self.agents.get_mut(agent) {
            Some(found) => found.first_request = key.slot,
            None => return broken!("the agent was found just before", None),
        }
        Some(key)
    }

    fn launch(&mut self, now_ms: u64, key: Key, out: &mut Outbox) -> Option<RequestKey> {
        if !self.send_exchange(now_ms, key, out) {
            self.counters.full += 1;
            self.forget_request(key);
            return None;
        }
        self.take_transaction_events(now_ms, out);
        Some(RequestKey(key))
    }

    fn send_exchange(&mut self, now_ms: u64, key: Key, out: &mut Outbox) -> bool {
        let Some(exchange) = self.requests.get_mut(key) else {
            return broken!("only a request in the table is sent", false);
        };
        let Some(agent) = exchange.agent.and_then(|agent| self.agents.get_mut(agent)) else {
            return broken!("a request has an agent, which stays as long as it", false);
        };
        let Some(method) = exchange.method else {
            return broken!("a request got its method when it got its slot", false);
        };
        if method == Method::Register {
            // RFC 3261 10.2: "A UA MUST increment the CSeq value by one for each REGISTER request with the
            // same Call-ID."
            agent.register_cseq += 1;
            exchange.cseq = agent.register_cseq;
        } else {
            // RFC 3261 22.2: "When a UAC resubmits a request with its credentials after receiving a 401
            // (Unauthorized) or 407 (Proxy Authentication Required) response, it MUST increment the
            // CSeq header field value as it would normally when sending an updated request."
            exchange.cseq += 1;
        }
        let outgoing = Outgoing {
            method,
            tag: exchange.tag,
            cseq: exchange.cseq,
            texts: &exchange.texts,
            attempt: &mut exchange.attempt,
            with_credentials: self.config.credentials_first || exchange.was_challenged,
            cnonce: self.random.next(),
            body_type: exchange.texts.get(Part::BodyType),
            body: exchange.texts.get(Part::Body),
            context: Context::Request(key).word(),
        };
        let user_agent = self.config.user_agent.as_bytes();
        let expires_s = exchange.expires_s;
        exchange.removes_left = method == Method::Register && agent.left.is_some();
        exchange.client = outgoing.send(
            now_ms,
            &mut self.transactions,
            agent,
            &mut self.scratch,
            out,
            |agent, is_secure, out| {
                match method {
                    Method::Register => write_binding(out, agent, expires_s),
                    Method::Options => {
                        // RFC 3261 11.1: "An Accept header field SHOULD be included to indicate the type of
                        // message body the UAC wishes to receive in the response."
                        line_with_contact(out, agent.text(Text::Contact), is_secure);
                        line(out, "Accept", bodies::accepted(agent));
                        line(out, "Allow", allow(&self.config));
                    }
                    _ => {}
                }
                write_user_agent(out, user_agent);
            },
        );
        exchange.client.is_some()
    }

    pub(crate) fn take_request_response(
        &mut self,
        now_ms: u64,
        key: Key,
        response: &Message,
        out: &mut Outbox,
    ) {
        let status = response.status();
        let Some(exchange) = self.requests.get_mut(key) else {
            return broken!("a request stays until it is answered");
        };
        if status < 200 {
            return;
        }
        exchange.client = None;
        let agent = exchange.agent.and_then(|agent| self.agents.get_mut(agent));
        let is_taken = matches!(status, 401 | 407)
            && agent
                .and_then(|agent| agent.auth.as_mut())
                .is_some_and(|auth| {
                    auth.handle_challenge(&mut exchange.attempt, response)
                        .is_ok()
                });
        if is_taken {
            exchange.was_challenged = true;
            self.counters.challenges += 1;
            if self.send_exchange(now_ms, key, out) {
                return;
            }
        } else if status == 423
            && self.is_interval_taken(key, response)
            && self.send_exchange(now_ms, key, out)
        {
            return;
        }
        let mut granted_s = 0;
        if (200..300).contains(&status) {
            granted_s = self.learn_registration(key, response);
        }
        self.end_request(key, Cause::Status(status), granted_s);
    }

    /// Tells how a request ended, and forgets it.
    pub(crate) fn end_request(&mut self, key: Key, cause: Cause, granted_s: u32) {
        let Some((agent, method)) = self
            .requests
            .get(key)
            .and_then(|e| Some((e.agent?, e.method?)))
        else {
            return broken!("a request that ends is in the table, with agent and method");
        };
        let (agent, request) = (AgentKey(agent), RequestKey(key));
        self.forget_request(key);
        self.push(match (method, cause) {
            (Method::Register, Cause::Status(200..=299)) => Event::Registered {
                agent,
                request,
                expires_s: granted_s,
            },
            (Method::Register, cause) => Event::RegisterFailed {
                agent,
                request,
                cause,
            },
            (_, cause) => Event::Replied {
                agent,
                request,
                cause,
            },
        });
    }

    /// Gives up a request that waits for its response on a connection that has ended.
    pub(crate) fn give_up_request(&mut self, key: Key, conn: ConnId) {
        let Some(client) = self.requests.get(key).and_then(|exchange| exchange.client) else {
            return;
        };
        if self
            .transactions
            .client_target(client)
            .is_some_and(|target| target.conn == conn)
        {
            self.transactions.release_client(client);
            self.end_request(key, Cause::Transport, 0);
        }
    }

    fn forget_request(&mut self, key: Key) {
        let Some(exchange) = self.requests.get(key) else {
            return broken!("only a request in the table is forgotten");
        };
        let (agent, next, previous) = (exchange.agent, exchange.next, exchange.previous);
        if let Some(request) = self.requests.neighbour_mut(next) {
            request.previous = previous;
        }
        if let Some(request) = self.requests.neighbour_mut(previous) {
            request.next = next;
        }
        if let Some(agent) = agent.and_then(|agent| self.agents.get_mut(agent)) {
            if previous == NOBODY {
                agent.first_request = next;
            }
            if agent.registering == Some(key) {
                agent.registering = None;
            }
        } else {
            broken!("a request has an agent, which stays as long as it");
        }
        self.requests.remove(key);
    }

    /// RFC 3261 10.2.8: "If a UA receives a 423 (Interval Too Brief) response, it MAY retry the
    /// registration after making the expiration interval of all contact addresses in the REGISTER request
    /// equal to or greater than the expiration interval within the Min-Expires header field of the 423
    /// (Interval Too Brief) response."
    fn is_interval_taken(&mut self, key: Key, response: &Message) -> bool {
        let min_s = response
            .first(HeaderName::MinExpires)
            .and_then(|field| delta_seconds(field.value));
        let (Some(min_s), Some(exchange)) = (min_s, self.requests.get_mut(key)) else {
            return false;
        };
        if exchange.was_too_brief || exchange.expires_s == 0 || min_s <= exchange.expires_s {
            return false;
        }
        exchange.was_too_brief = true;
        exchange.expires_s = min_s;
        true
    }

    /// For how long our contact is bound by a 200, and the Service-Route.
    fn learn_registration(&mut self, key: Key, response: &Message) -> u32 {
        // RFC 3261 10.2: "The Record-Route header field has no meaning in REGISTER requests or
        // responses, and MUST be ignored if present." and "In particular, the UAC MUST NOT create a new
        // route set based on the presence or absence of a Record-Route header field in any response to
        // a REGISTER request."
        // RFC 3261 20: "Similarly, a header field labeled "not applicable" for a response means that
        // the UAS MUST NOT place the header field in the response, and the UAC MUST ignore the header
        // field in the response."
        // RFC 3261 7.3.2: "If a header field appears in a message not matching its category (such as a
        // request header field in a response), it MUST be ignored."
        let Some(exchange) = self.requests.get(key) else {
            return broken!("a request stays until its answer was read", 0);
        };
        let Some(agent) = exchange.agent.and_then(|agent| self.agents.get_mut(agent)) else {
            return broken!("a request has an agent, which stays as long as it", 0);
        };
        if exchange.method != Some(Method::Register) {
            return 0;
        }
        agent.is_bound = exchange.expires_s > 0;
        if exchange.removes_left {
            agent.left = None;
        }
        self.scratch.clear();
        for (value, _) in response.values(HeaderName::ServiceRoute) {
            if !self.scratch.is_empty() {
                self.scratch.extend_from_slice(b", ");
            }
            self.scratch.extend_from_slice(value);
        }
        if *agent.service_route != *self.scratch {
            agent.service_route = self.scratch.as_slice().into();
        }
        if exchange.expires_s == 0 {
            return 0;
        }
        let Some(ours) = Uri::parse(agent.text(Text::Contact)) else {
            return broken!("an agent's contact was parsed when it was added", 0);
        };
        let found = response
            .contacts()
            .filter_map(Result::ok)
            .find_map(|contact| match contact {
                Contact::Addr(contact) if contact.uri.equals(&ours) => Some(contact.expires_s),
                _ => None,
            });
        // RFC 3261 10.2.4: "The 200 (OK) response from the registrar contains a list of Contact fields
        // enumerating all current bindings.  The UA compares each contact address to see if it created the
        // contact address, using comparison rules in Section 19.1.4.  If so, it updates the expiration time
        // interval according to the expires parameter or, if absent, the Expires field value."
        found
            .flatten()
            .or(response.expires_s())
            .unwrap_or(exchange.expires_s)
    }
}

/// Writes what a REGISTER has beside what every request has.
fn write_binding(out: &mut Vec<u8>, agent: &crate::agent::Agent, expires_s: u32) {
    let params = agent.text(Text::ContactParams);
    out.extend_from_slice(b"Contact: <");
    out.extend_from_slice(agent.text(Text::Contact));
    out.push(b'>');
    out.extend_from_slice(params);
    // RFC 3261 10.2.2: "A UA requests the immediate removal of a binding by specifying an expiration
    // interval of "0" for that contact address in a REGISTER request."
    if let Some(left) = &agent.left {
        out.extend_from_slice(b"\r\nContact: <");
        out.extend_from_slice(left);
        out.extend_from_slice(b">;expires=0");
    }
    out.extend_from_slice(b"\r\nExpires: ");
    write_number(out, u64::from(expires_s));
    out.extend_from_slice(b"\r\n");
    if params.windows(7).any(|w| w == b"reg-id=") {
        // RFC 5626 4.2.1: the registrar must know that flows are meant.
        // RFC 3261 8.1.1.9: "The option tags listed MUST only refer to extensions defined in
        // standards-track RFCs."
        // RFC 3261 20.37: "A UA compliant to this specification MUST only include option tags
        // corresponding to standards-track RFCs."
        line(out, "Supported", b"outbound, path");
    }
}
