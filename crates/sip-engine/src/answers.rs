//! Answers of this server's own, as a user agent server (RFC 3261 8.2).

use std::hash::Hasher;

use sip_msg::{Flow, HeaderName, Message, MessageWriter, Method, ResponseWriter, Target};
use sip_txn::{Responded, ServerId, response_target};
use siphasher::sip::SipHasher13;

use crate::effect::Effect;
use crate::permit::is_listed;
use crate::proxy::context::Context;
use crate::refusal::{Reason, StatusLine};
use crate::registrar::{is_supported, unsupported};
use crate::sender::Sender;
use crate::text::hex16;
use crate::{Now, Outputs, Shard};

/// The methods that this server answers itself.
const ALLOW: &[u8] = b"OPTIONS, REGISTER";
/// The extensions of a user agent server that it has.
const SUPPORTED: &[u8] = b"path, outbound";

impl Shard {
    // RFC 3261 16.1: "When responding directly to a request, the element is playing the role
    // of a UAS and MUST behave as described in Section 8.2."
    /// Answers with a status line and nothing else.
    pub(crate) fn answer(
        &mut self,
        now: Now,
        sender: &Sender,
        server: Option<ServerId>,
        request: &Message,
        line: StatusLine,
        out: &mut Outputs,
    ) -> Responded {
        self.answer_with(now, sender, server, request, line, |_| {}, out)
    }

    /// Answers, with header fields of the caller's.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn answer_with(
        &mut self,
        now: Now,
        sender: &Sender,
        server: Option<ServerId>,
        request: &Message,
        line: StatusLine,
        more: impl FnOnce(&mut MessageWriter<'_>),
        out: &mut Outputs,
    ) -> Responded {
        let phrase = line.phrase();
        self.answer_saying(now, sender, server, request, line, phrase, more, out)
    }

    /// The same with another reason phrase than the line's.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn answer_saying(
        &mut self,
        now: Now,
        sender: &Sender,
        server: Option<ServerId>,
        request: &Message,
        line: StatusLine,
        phrase: &str,
        more: impl FnOnce(&mut MessageWriter<'_>),
        out: &mut Outputs,
    ) -> Responded {
        let start = out.outbox.bytes.len();
        let tag = self.own_tag(request);
        let status = line.status();
        let mut writer =
            ResponseWriter::begin(&mut out.outbox.bytes, request, status, phrase, &tag);
        more(&mut writer);
        match status {
            503 => {
                let retry_after_s = u64::from(self.settings.bounds.retry_after_s);
                writer.number("Retry-After", retry_after_s);
            }
            405 => {
                writer.header("Allow", ALLOW);
            }
            _ => {}
        }
        if let Some(reason) = line.reason().filter(|reason| reason.is_told()) {
            let domain = self.settings.domains.first();
            let agent = domain.map_or("signet", |domain| &**domain);
            writer.header_with("Warning", |value| write_warning(reason, agent, value));
        }
        if !self.settings.server_header.is_empty() {
            writer.header("Server", self.settings.server_header.as_bytes());
        }
        writer.finish(b"");
        self.send_answer(now, sender, server, request, &line, start, out)
    }

    /// Sends `outbox.bytes[start..]` as the answer to a request: through its
    /// transaction, or without one.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn send_answer(
        &mut self,
        now: Now,
        sender: &Sender,
        server: Option<ServerId>,
        request: &Message,
        line: &StatusLine,
        start: usize,
        out: &mut Outputs,
    ) -> Responded {
        let outbox = &mut out.outbox;
        // RFC 3261 17: an ACK has no response.
        if request.method() == Method::Ack {
            outbox.bytes.truncate(start);
            return Responded::Refused;
        }
        let status = line.status();
        self.counters.answered(status);
        self.note_answer(now, sender, request, line, out);
        if status == 400 {
            self.odd(sender, &mut out.effects);
        }
        let is_listed = self.is_listed_peers(sender);
        self.write_feedback(now, is_listed, start, &mut out.outbox);
        let outbox = &mut out.outbox;
        let Some(server) = server else {
            // A Via that cannot be read says nowhere else to go than back.
            let back = |_| Target::back(&sender.flow);
            let to = request
                .top_via()
                .map_or_else(back, |via| response_target(&sender.flow, &via, false));
            outbox.send_since(start, to, 0);
            return Responded::Sent;
        };
        // RFC 4320 4.2: "As a consequence, an element that cannot respond before the transaction
        // expires will not send a final response at all." Until then its transaction absorbs the
        // request when it comes again.
        let responded = self
            .txns
            .respond(now.mono_ms, server, status, start, outbox);
        if responded != Responded::Sent {
            outbox.bytes.truncate(start);
        }
        responded
    }

    /// A message on a stream was wrong, but whole: the stream stays open. Many
    /// such messages are no accident, so they are counted; not those of a
    /// neighbour, whose connection carries the calls of many.
    pub(crate) fn odd(&self, sender: &Sender, effects: &mut Vec<Effect>) {
        let is_told = matches!(
            effects.last(),
            Some(Effect::Odd(conn) | Effect::Close(conn)) if *conn == sender.flow.conn
        );
        let is_neighbour = || is_listed(&self.settings, &self.own, sender);
        if sender.flow.conn.is_some() && !is_told && !is_neighbour() {
            effects.push(Effect::Odd(sender.flow.conn));
        }
    }

    /// Answers without keeping state: for strangers, and for requests that are not worth a
    /// transaction. Recycles the request.
    // RFC 3261 8.2.7: "A stateless UAS MUST NOT send provisional (1xx) responses." and "A stateless UAS
    // MUST NOT retransmit responses."
    pub(crate) fn refuse(
        &mut self,
        now: Now,
        sender: &Sender,
        server: Option<ServerId>,
        request: Box<Message>,
        line: StatusLine,
        out: &mut Outputs,
    ) {
        if let Some(server) = server {
            self.txns.release_server(server);
        }
        self.answer(now, sender, None, &request, line, out);
        self.pool.recycle(request);
    }

    // RFC 3261 16.3: "The response MUST include an Unsupported (Section 20.40) header field
    // listing those option-tags the element did not understand."
    /// 420, with the option tags of `name` as not understood.
    pub(crate) fn refuse_extensions(
        &mut self,
        now: Now,
        sender: &Sender,
        server: Option<ServerId>,
        request: Box<Message>,
        name: HeaderName,
        out: &mut Outputs,
    ) {
        if let Some(server) = server {
            self.txns.release_server(server);
        }
        // RFC 3261 21.4.15: "The server MUST include a list of the unsupported extensions in an
        // Unsupported header field in the response."
        // In one line: one for each would make the answer several times as long as the request.
        let unsupported = |writer: &mut MessageWriter<'_>| {
            let tags = request.values(name).map(|(tag, _)| tag);
            let is_unknown = |tag: &&[u8]| name == HeaderName::ProxyRequire || !is_supported(tag);
            let tags: Vec<&[u8]> = tags.filter(is_unknown).collect();
            writer.header("Unsupported", &tags.join(&b","[..]));
        };
        let line = StatusLine::refused(420, Reason::ExtensionRequired);
        let line = match self.owed(now, sender, &request, line, out) {
            Some(line) if line.status() == 420 => line,
            Some(line) => return self.refuse(now, sender, None, request, line, out),
            None => return self.pool.recycle(request),
        };
        self.answer_with(now, sender, None, &request, line, unsupported, out);
        self.pool.recycle(request);
    }

    /// Answers an OPTIONS as its recipient (RFC 3261 11.2).
    pub(crate) fn answer_options(
        &mut self,
        now: Now,
        sender: &Sender,
        server: Option<ServerId>,
        request: Box<Message>,
        out: &mut Outputs,
    ) {
        // RFC 3261 20.32: "Although an optional header field, the Require MUST NOT be ignored if it is present."
        if unsupported(&request).next().is_some() {
            let name = HeaderName::Require;
            return self.refuse_extensions(now, sender, server, request, name, out);
        }
        if let Some(server) = server {
            self.txns.release_server(server);
        }
        let about = |writer: &mut MessageWriter<'_>| {
            writer.header("Allow", ALLOW);
            writer.header("Supported", SUPPORTED);
        };
        let line = match self.for_anybody(now, sender, &request, StatusLine::ok()) {
            Some(line) if line.status() == 200 => line,
            Some(line) => return self.refuse(now, sender, None, request, line, out),
            None => return self.pool.recycle(request),
        };
        self.answer_with(now, sender, None, &request, line, about, out);
        self.pool.recycle(request);
    }

    /// Answers the request of a context.
    pub(crate) fn answer_context(
        &mut self,
        now: Now,
        context: &mut Context,
        line: StatusLine,
        out: &mut Outputs,
    ) {
        let Some(request) = context.request.take() else {
            return;
        };
        let sender = context.sender.clone();
        self.answer(now, &sender, context.server, &request, line, out);
        context.request = Some(request);
    }

    /// The To tag of this server's own answers: of the transaction, so that
    /// each answer to it has the same, and none can be guessed. An ACK with
    /// this tag acknowledges an answer for which no state was kept.
    // RFC 3261 8.2.7: "To header tags MUST be generated for responses in a stateless manner - in a
    // manner that will generate the same tag for the same request consistently."
    pub(crate) fn own_tag(&self, request: &Message) -> [u8; 16] {
        let mut hasher = SipHasher13::new_with_key(&self.keys.tags);
        let mut part = |bytes: &[u8]| {
            hasher.write_u32(bytes.len() as u32);
            hasher.write(bytes);
        };
        part(request.call_id());
        if let Ok(via) = request.top_via() {
            part(via.branch);
        }
        if let Ok(from) = request.from() {
            part(from.tag().unwrap_or_default());
        }
        hex16(hasher.finish())
    }

    /// Whether an ACK acknowledges an answer of this server's own.
    // RFC 3261 8.2.7: "A stateless UAS MUST ignore ACK requests."
    pub fn is_for_own_answer(&self, ack: &Message) -> bool {
        const LENGTH: usize = 16;
        let is_ours = |tag: &[u8]| tag.len() == LENGTH && tag == self.own_tag(ack);
        ack.to_tag().is_some_and(is_ours)
    }
}

/// RFC 3261 20.43: a Warning that names the reason; for a SIPS URI the one of RFC 5630.
fn write_warning(reason: Reason, agent: &str, value: &mut Vec<u8>) {
    let (code, text) = match reason {
        Reason::NotUnderTls => ("380 ", "SIPS Not Allowed"),
        other => ("399 ", other.name()),
    };
    for part in [code, agent, " \"", text, "\""] {
        value.extend_from_slice(part.as_bytes());
    }
}

/// Has a connection closed behind what was sent on it, once.
pub(crate) fn close(flow: &Flow, effects: &mut Vec<Effect>) {
    // The answer to what ends it has been counted.
    if matches!(effects.last(), Some(Effect::Odd(conn)) if *conn == flow.conn) {
        effects.pop();
    }
    let is_closing = matches!(effects.last(), Some(Effect::Close(conn)) if *conn == flow.conn);
    if flow.conn.is_some() && !is_closing {
        effects.push(Effect::Close(flow.conn));
    }
}
