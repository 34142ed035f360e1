//! Bodies that S/MIME protects (RFC 3261 23): they are protected where a request is made, and
//! opened where it comes.

use crate::agent::Agent;
use crate::caller::SDP;
use crate::event::{AgentKey, CallKey, Event};
use crate::server::has_other_than;
use crate::slots::Key;
use crate::texts::{Part, Texts};
use crate::user_agents::UserAgents;
use sip_msg::{HeaderName, Message, Outbox};
use sip_txn::ServerId;
use smime::{BodySecurity, OpenError, Opened, SealError, Sealed};
use std::sync::Arc;

impl UserAgents {
    /// Says what time it is, in seconds since 1970: certificates are good for a time. Without it
    /// it is 1970, when none is.
    pub fn set_wall_clock(&mut self, now_ms: u64, unix_s: u64) {
        self.unix_s_at_zero = unix_s.saturating_sub(now_ms / 1_000);
    }

    /// Sets how an agent protects the bodies of the INVITE and MESSAGE that it sends, and what it
    /// asks of those that come. Its responses bear bodies as they are. `None` for neither.
    pub fn secure_bodies(&mut self, agent: AgentKey, security: Option<Arc<BodySecurity>>) {
        if let Some(found) = self.agents.get_mut(agent.0) {
            found.security = security;
        }
    }

    /// What was in the protected body of the INVITE that came; `None` where it was not
    /// protected.
    pub fn opened(&self, call: CallKey) -> Option<&Opened> {
        self.calls.get(call.0)?.opened.as_deref()
    }

    /// Why the last body could not be protected that was to be.
    pub fn seal_error(&self) -> Option<&SealError> {
        self.seal_error.as_ref()
    }

    fn unix_s(&self, now_ms: u64) -> u64 {
        self.unix_s_at_zero.saturating_add(now_ms / 1_000)
    }

    /// Protects a body of an agent's for the user at `to`. `Err` where that cannot be done, and
    /// the request must not be sent: nobody wants it in the clear.
    pub(crate) fn seal_body(
        &mut self,
        now_ms: u64,
        agent: Key,
        to: &str,
        body_type: &[u8],
        body: Option<&[u8]>,
    ) -> Result<Option<Sealed>, ()> {
        let Some(security) = self.agents.get(agent).and_then(|a| a.security.as_ref()) else {
            return Ok(None);
        };
        let body = body.unwrap_or(&self.config.session);
        if body.is_empty() {
            return Ok(None);
        }
        let sealed = security.seal(to, body_type, body, self.unix_s(now_ms));
        sealed.map_err(|error| {
            self.counters.bodies_unsealed += 1;
            self.seal_error = Some(error);
        })
    }

    /// Opens the body of a request if it is protected. `Err` where the request was refused for
    /// its body.
    pub(crate) fn open_body(
        &mut self,
        now_ms: u64,
        server: ServerId,
        agent: Key,
        request: &Message,
        out: &mut Outbox,
    ) -> Result<Option<Opened>, ()> {
        let Some(security) = self.agents.get(agent).and_then(|a| a.security.clone()) else {
            return Ok(None);
        };
        if request.body().is_empty() {
            return Ok(None);
        }
        let value = |name| request.first(name).map(|field| field.value);
        let content_type = value(HeaderName::ContentType).unwrap_or_default();
        let encoding = request
            .fields_of(HeaderName::Other)
            .find(|field| (field.raw_name).eq_ignore_ascii_case(b"Content-Transfer-Encoding"));
        // RFC 3261 23.2: "compare this value to the From header field of the request."
        let from = request.from().ok();
        let from = from.and_then(|from| std::str::from_utf8(from.uri).ok());
        let opened = security.open(
            from.unwrap_or_default(),
            content_type,
            encoding.map(|field| field.value),
            request.body(),
            self.unix_s(now_ms),
        );
        match opened {
            Ok(opened) => {
                self.counters.bodies_opened += u64::from(opened.is_some());
                Ok(opened)
            }
            Err(error) => {
                self.refuse_body(now_ms, server, agent, request, error, out);
                Err(())
            }
        }
    }

    fn refuse_body(
        &mut self,
        now_ms: u64,
        server: ServerId,
        agent: Key,
        request: &Message,
        error: OpenError,
        out: &mut Outbox,
    ) {
        self.counters.bodies_refused += 1;
        let warning = format!("399 signet \"{error}\"");
        let accepted = self.accepted(agent);
        self.answer_with(now_ms, server, request, error.status(), out, |w| {
            if error.status() == 415 {
                w.header("Accept", accepted);
            }
            w.header("Warning", warning.as_bytes());
        });
        self.push(Event::BodyRefused {
            agent: AgentKey(agent),
            method: request.method(),
            error,
        });
    }

    /// Whether the body of an INVITE, as it came or as it was opened, is a session description;
    /// answers 415 if not.
    pub(crate) fn take_session(
        &mut self,
        now_ms: u64,
        server: ServerId,
        agent: Key,
        request: &Message,
        opened: Option<&Opened>,
        out: &mut Outbox,
    ) -> bool {
        let is_session = match opened {
            Some(opened) => is_sdp(&opened.content_type),
            None => request.body().is_empty() || is_session(request),
        };
        if is_session {
            return true;
        }
        // RFC 3261 8.2.3: "If there are any bodies whose type (indicated by the Content-Type), language
        // (indicated by the Content-Language) or encoding (indicated by the Content-Encoding) are not
        // understood, and that body part is not optional (as indicated by the Content-Disposition
        // header field), the UAS MUST reject the request with a 415 (Unsupported Media Type) response."
        let accepted = self.accepted(agent);
        self.answer_with(now_ms, server, request, 415, out, |w| {
            // RFC 3261 8.2.3: "The response MUST contain an Accept header field listing the types of all
            // bodies it understands, in the event the request contained bodies of types not supported by
            // the UAS."
            // RFC 3261 21.4.13: "The server MUST return a list of acceptable formats using the
            // Accept, Accept-Encoding, or Accept-Language header field, depending on the
            // specific problem with the content."
            w.header("Accept", accepted);
            // RFC 3261 8.2.3: "If the request contained content encodings not understood by the
            // UAS, the response MUST contain an Accept-Encoding header field listing the
            // encodings understood by the UAS."
            w.header("Accept-Encoding", b"identity");
        });
        false
    }

    /// The types of bodies that an agent understands.
    pub(crate) fn accepted(&self, agent: Key) -> &'static [u8] {
        self.agents.get(agent).map_or(SDP, accepted)
    }
}

/// The types of bodies that an agent understands, for Accept.
pub(crate) fn accepted(agent: &Agent) -> &'static [u8] {
    if agent.security.is_some() {
        b"application/sdp, multipart/signed, application/pkcs7-mime, application/pkcs7-signature"
    } else {
        SDP
    }
}

/// Keeps a protected body where the body of a request is kept, with the headers that go with it.
pub(crate) fn keep(texts: &mut Texts, sealed: &Sealed) {
    texts.set(Part::BodyType, sealed.content_type.as_bytes());
    let mut headers = format!("Content-Disposition: {}\r\n", sealed.disposition);
    if let Some(encoding) = sealed.transfer_encoding {
        headers.push_str("Content-Transfer-Encoding: ");
        headers.push_str(encoding);
        headers.push_str("\r\n");
    }
    texts.set(Part::BodyHeaders, headers.as_bytes());
    texts.set(Part::Body, &sealed.body);
}

/// Whether the body is a session description that we can read.
fn is_session(request: &Message) -> bool {
    let is_sdp = request
        .first(HeaderName::ContentType)
        .is_some_and(|field| is_sdp(field.value));
    is_sdp && !has_other_than(request, HeaderName::ContentEncoding, b"identity")
}

fn is_sdp(content_type: &[u8]) -> bool {
    let end = content_type
        .iter()
        .position(|&b| b == b';')
        .unwrap_or(content_type.len());
    content_type
        .get(..end)
        .unwrap_or_default()
        .trim_ascii()
        .eq_ignore_ascii_case(SDP)
}
