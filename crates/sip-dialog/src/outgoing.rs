//! Sends a request: credentials, Via, headers, body, transaction.

use crate::agent::{Agent, Text};
use crate::compose::{self, Request};
use crate::config::Config;
use crate::tag::Tag;
use crate::texts::{Part, Texts};
use sip_auth::{Attempt, RequestParts};
use sip_msg::{Method, Outbox};
use sip_txn::{ClientId, Transactions};

/// The methods that are understood, for Allow.
// RFC 3261 20.5: "All methods, including ACK and CANCEL, understood by the UA MUST be included in the
// list of methods in the Allow header field, when present."
// RFC 3261 8.2.1: "The Allow header field MUST list the set of methods supported by the UAS generating
// the message."
// RFC 3261 13.1: "A UA that supports INVITE MUST also support ACK, CANCEL and BYE."
pub(crate) const fn allow(config: &Config) -> &'static [u8] {
    if config.is_registrar {
        b"INVITE, ACK, CANCEL, BYE, OPTIONS, MESSAGE, REGISTER"
    } else {
        b"INVITE, ACK, CANCEL, BYE, OPTIONS, MESSAGE"
    }
}

/// A request to send.
pub(crate) struct Outgoing<'a> {
    pub(crate) method: Method,
    pub(crate) tag: Tag,
    pub(crate) cseq: u32,
    pub(crate) texts: &'a Texts,
    pub(crate) attempt: &'a mut Attempt,
    /// Whether to prove who we are, where there is a nonce to do it with.
    pub(crate) with_credentials: bool,
    /// A random number.
    pub(crate) cnonce: u64,
    pub(crate) body_type: &'a [u8],
    pub(crate) body: &'a [u8],
    /// The context of its transaction.
    pub(crate) context: u64,
}

impl Outgoing<'_> {
    /// Sends it; `write_more` writes what is special to its method, and is told
    /// whether only TLS will do. The
    /// credentials that it bears are left in `credentials`. `None` where there
    /// is no room for a transaction.
    pub(crate) fn send(
        self,
        now_ms: u64,
        transactions: &mut Transactions,
        agent: &mut Agent,
        credentials: &mut Vec<u8>,
        out: &mut Outbox,
        write_more: impl FnOnce(&Agent, bool, &mut Vec<u8>),
    ) -> Option<ClientId> {
        let client = transactions.reserve_client()?;
        let request = Request {
            method: self.method.token(),
            transport: agent.proxy.transport,
            tag: self.tag,
            cseq: self.cseq,
            texts: self.texts,
        };
        let route = request.route();
        // What begins a dialog, or is of none, goes to the proxy that the agent is configured
        // with, unless it has routes of its own.
        let is_of_no_dialog = self.texts.get(Part::RemoteTag).is_empty();
        let is_unrouted = is_of_no_dialog && self.texts.get(Part::Routes).is_empty();
        let target = if agent.always_proxy || is_unrouted {
            agent.proxy.clone()
        } else {
            route.target(&agent.proxy)
        };
        credentials.clear();
        if self.with_credentials
            && let Some(auth) = &mut agent.auth
        {
            let parts = RequestParts {
                method: self.method.token().as_bytes(),
                uri: &route.request_uri,
                body: self.body,
            };
            auth.write_credentials(self.attempt, parts, self.cnonce, credentials);
        }
        let start = out.bytes.len();
        request.begin(&mut out.bytes, agent.text(Text::SentBy), |out| {
            transactions.write_branch(client, out)
        });
        out.bytes.extend_from_slice(credentials);
        write_more(agent, route.is_secure(), &mut out.bytes);
        if !self.body.is_empty() {
            out.bytes
                .extend_from_slice(self.texts.get(Part::BodyHeaders));
        }
        compose::finish(&mut out.bytes, self.body_type, self.body);
        transactions.start_client(
            now_ms,
            client,
            self.method,
            target,
            self.context,
            start,
            out,
        );
        Some(client)
    }
}

/// Sends the ACK to a 2xx: past the transactions, with the INVITE's own
/// credentials.
pub(crate) fn send_ack(
    agent: &Agent,
    tag: Tag,
    cseq: u32,
    texts: &Texts,
    of_dialog: u64,
    out: &mut Outbox,
) {
    let request = Request {
        method: "ACK",
        transport: agent.proxy.transport,
        tag,
        // RFC 3261 13.2.2.4: "The sequence number of the CSeq header field MUST be the same as the INVITE
        // being acknowledged, but the CSeq method MUST be ACK."
        cseq,
        texts,
    };
    let target = if agent.always_proxy {
        agent.proxy.clone()
    } else {
        request.route().target(&agent.proxy)
    };
    let start = out.bytes.len();
    request.begin(&mut out.bytes, agent.text(Text::SentBy), |out| {
        compose::write_ack_branch(out, tag, cseq, of_dialog);
    });
    // RFC 3261 13.2.2.4: "The ACK MUST contain the same credentials as the INVITE."
    out.bytes.extend_from_slice(texts.get(Part::Credentials));
    // RFC 3261 8.2.2.3: "An ACK request for a 2xx response MUST contain only those Require and
    // Proxy-Require values that were present in the initial request." There are none in either.
    compose::finish(&mut out.bytes, b"", b"");
    // RFC 3261 13.2.2.4: "However, the request is passed to the transport layer directly for
    // transmission, rather than a client transaction."
    out.send_since(start, target, 0);
}
