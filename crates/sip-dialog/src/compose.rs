//! Writes requests, from the strings of a dialog or of a request of its own.

use crate::random::write_hex;
use crate::tag::Tag;
use crate::texts::{Part, Texts};
use sip_msg::header::{NameAddr, elements};
use sip_msg::write::write_number;
use sip_msg::{ConnId, Message, Target, Transport, Uri};
use std::borrow::Cow;
use std::net::SocketAddr;

/// What a request is made of.
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) transport: Transport,
    pub(crate) tag: Tag,
    pub(crate) cseq: u32,
    pub(crate) texts: &'a Texts,
}

impl Request<'_> {
    /// The Request-URI and the Route of this request.
    pub(crate) fn route(&self) -> Route<'_> {
        Route::of(self.texts)
    }

    /// Writes the request line and the headers that every request has, all but
    /// Content-Length: credentials and what is special to the method come
    /// between this and [`finish`]. `write_branch` writes the Via's branch.
    pub(crate) fn begin(
        &self,
        out: &mut Vec<u8>,
        sent_by: &[u8],
        write_branch: impl FnOnce(&mut Vec<u8>),
    ) {
        let route = self.route();
        out.extend_from_slice(self.method.as_bytes());
        out.push(b' ');
        out.extend_from_slice(&route.request_uri);
        // RFC 3261 8.1.1.7: "When the UAC creates a request, it MUST insert a Via into that request.  The
        // protocol name and protocol version in the header field MUST be SIP and 2.0, respectively.  The
        // Via header field value MUST contain a branch parameter."
        out.extend_from_slice(b" SIP/2.0\r\nVia: SIP/2.0/");
        out.extend_from_slice(self.transport.via_name().as_bytes());
        out.push(b' ');
        out.extend_from_slice(sent_by);
        out.extend_from_slice(b";branch=");
        write_branch(out);
        // RFC 3261 8.1.1.6: "A UAC MUST insert a Max-Forwards header field into each request it originates
        // with a value that SHOULD be 70."
        out.extend_from_slice(b";rport\r\nMax-Forwards: 70\r\n");
        route.write(out);
        out.extend_from_slice(b"From: ");
        // RFC 3261 12.2.1.1: "The From URI of the request MUST be set to the local URI from the dialog
        // state." and "The tag in the From header field of the request MUST be set to the local tag of
        // the dialog ID."
        out.extend_from_slice(self.texts.get(Part::Local));
        // RFC 3261 8.1.1.3: "The From field MUST contain a new "tag" parameter, chosen by the UAC."
        out.extend_from_slice(b";tag=");
        self.tag.write(out);
        out.extend_from_slice(b"\r\nTo: ");
        // RFC 3261 12.2.1.1: "The URI in the To field of the request MUST be set to the remote URI from
        // the dialog state." and "The tag in the To header field of the request MUST be set to the
        // remote tag of the dialog ID."
        out.extend_from_slice(self.texts.get(Part::Remote));
        let remote_tag = self.texts.get(Part::RemoteTag);
        // RFC 3261 12.2.1.1: "If the value of the remote or local tags is null, the tag parameter MUST be
        // omitted from the To or From header fields, respectively."
        // RFC 3261 8.1.1.2: "A request outside of a dialog MUST NOT contain a To tag; the tag in the To
        // field of a request identifies the peer of the dialog."
        if !remote_tag.is_empty() {
            out.extend_from_slice(b";tag=");
            out.extend_from_slice(remote_tag);
        }
        // RFC 3261 8.1.1.4: "It MUST be the same for all requests and responses sent by either UA in a
        // dialog."
        out.extend_from_slice(b"\r\nCall-ID: ");
        // RFC 3261 12.2.1.1: "The Call-ID of the request MUST be set to the Call-ID of the dialog."
        out.extend_from_slice(self.texts.get(Part::CallId));
        // RFC 3261 12.2.1.1: "The method field in the CSeq header field value MUST match the method of
        // the request."
        out.extend_from_slice(b"\r\nCSeq: ");
        write_number(out, u64::from(self.cseq));
        out.push(b' ');
        out.extend_from_slice(self.method.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

/// Writes the end of the headers and the body.
pub(crate) fn finish(out: &mut Vec<u8>, body_type: &[u8], body: &[u8]) {
    if !body.is_empty() {
        line(out, "Content-Type", body_type);
    }
    out.extend_from_slice(b"Content-Length: ");
    write_number(out, body.len() as u64);
    out.extend_from_slice(b"\r\n\r\n");
    out.extend_from_slice(body);
}

/// Writes a header line.
pub(crate) fn line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// The branch of an ACK to a 2xx: its own, and the same each time that this
/// 2xx is acknowledged.
pub(crate) fn write_ack_branch(out: &mut Vec<u8>, tag: Tag, cseq: u32, of_dialog: u64) {
    out.extend_from_slice(b"z9hG4bKa");
    write_hex(out, tag.salt(), 16);
    write_hex(out, u64::from(cseq), 8);
    write_hex(out, of_dialog, 16);
}

/// Request-URI and Route, from the remote target and the route set.
pub(crate) struct Route<'a> {
    /// The Request-URI.
    pub(crate) request_uri: Cow<'a, [u8]>,
    /// The values of Route.
    routes: &'a [u8],
    /// What stands last in Route, behind a strict router.
    last: Option<&'a [u8]>,
    /// What says where the request is sent.
    next_hop: &'a [u8],
}

impl<'a> Route<'a> {
    fn of(texts: &'a Texts) -> Self {
        let target = texts.get(Part::Target);
        let routes = texts.get(Part::Routes);
        // RFC 3261 12.2.1.1: "If the route set is empty, the UAC MUST place the remote target URI into the
        // Request-URI.  The UAC MUST NOT add a Route header field to the request."
        let direct = Self {
            request_uri: Cow::Borrowed(target),
            routes: &[],
            last: None,
            next_hop: target,
        };
        let mut values = elements(routes);
        let Some((value, span)) = values.next() else {
            return direct;
        };
        let Some(first) = NameAddr::parse(value) else {
            return direct;
        };
        let Some(uri) = first.uri() else {
            return direct;
        };
        // RFC 3261 12.2.1.1: "If the route set is not empty, and the first URI in the route set contains
        // the lr parameter (see Section 19.1.1), the UAC MUST place the remote target URI into the
        // Request-URI and MUST include a Route header field containing the route set values in order,
        // including all parameters."
        if uri.has_param("lr") {
            return Self {
                routes,
                next_hop: first.uri,
                ..direct
            };
        }
        // RFC 3261 12.2.1.1: "If the route set is not empty, and its first URI does not contain the lr
        // parameter, the UAC MUST place the first URI from the route set into the Request-URI, stripping
        // any parameters that are not allowed in a Request-URI.  The UAC MUST add a Route header field
        // containing the remainder of the route set values in order, including all parameters.  The UAC
        // MUST then place the remote target URI into the Route header field as the last value."
        let rest = routes.get(span.end as usize..).unwrap_or_default();
        let comma = rest
            .iter()
            .position(|&b| b == b',')
            .map_or(rest.len(), |at| at + 1);
        Self {
            request_uri: for_request_line(&uri),
            routes: rest.get(comma..).unwrap_or_default().trim_ascii(),
            last: Some(target),
            // RFC 3261 8.1.2: "If the first element in the route set indicated a strict router (resulting
            // in forming the request as described in Section 12.2.1.1), the procedures MUST be applied to
            // the Request-URI of the request."
            next_hop: first.uri,
        }
    }

    /// Whether the request may go by TLS alone: its Request-URI or its first
    /// route says so.
    pub(crate) fn is_secure(&self) -> bool {
        is_sips(&self.request_uri) || is_sips(self.next_hop)
    }

    fn write(&self, out: &mut Vec<u8>) {
        if self.routes.is_empty() && self.last.is_none() {
            return;
        }
        out.extend_from_slice(b"Route: ");
        out.extend_from_slice(self.routes);
        if let Some(last) = self.last {
            if !self.routes.is_empty() {
                out.extend_from_slice(b", ");
            }
            out.push(b'<');
            out.extend_from_slice(last);
            out.push(b'>');
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Where the request is sent: to the address in the next hop's URI, over
    /// the agent's own connection where that leads there. Where the URI has a
    /// name in the place of an address, the agent's proxy resolves it.
    pub(crate) fn target(&self, proxy: &Target) -> Target {
        // RFC 3261 8.1.2: "In particular, a UAC configured with an outbound proxy SHOULD attempt to send
        // the request to the location indicated in the first Route header field value instead of adopting
        // the policy of sending all messages to the outbound proxy."
        // RFC 3261 8.1.2: "Unless there is local policy specifying otherwise, the destination MUST be
        // determined by applying the DNS procedures described in [4] as follows."
        let Some(uri) = Uri::parse(self.next_hop) else {
            return proxy.clone();
        };
        let Some(ip) = uri.host_port.ip() else {
            return proxy.clone();
        };
        let transport = match uri.transport() {
            Some(Some(transport)) => transport,
            Some(None) => return proxy.clone(),
            None => proxy.transport,
        };
        let port = uri.host_port.port.unwrap_or(transport.default_port());
        let remote = SocketAddr::new(ip, port);
        // Another transport than the agent's needs another socket, which the
        // agent has not.
        // RFC 3261 8.1.2: "If the Request-URI contains a SIPS URI, any alternate destinations MUST be
        // contacted with TLS."
        if remote == proxy.remote || transport != proxy.transport {
            return proxy.clone();
        }
        Target {
            remote,
            conn: ConnId::NONE,
            may_open: true,
            ..proxy.clone()
        }
    }
}

/// A URI as it may stand in a request line.
pub(crate) fn for_request_line<'a>(uri: &Uri<'a>) -> Cow<'a, [u8]> {
    if uri.headers.is_empty() && !uri.has_param("method") {
        return Cow::Borrowed(uri.raw);
    }
    // RFC 3261 19.1.5: "An implementation MUST NOT send a request requiring an extension that it does
    // not support." No header of a URI is taken up.
    let mut text = Vec::with_capacity(uri.raw.len());
    uri.write_request_uri(&mut text);
    Cow::Owned(text)
}

/// Whether a URI is a SIPS URI.
pub(crate) fn is_sips(uri: &[u8]) -> bool {
    uri.get(..5)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"sips:"))
}

/// Takes a dialog's remote side from a message of the peer: its tag, its
/// target and the route set. In a response the route set is reversed.
pub(crate) fn learn_dialog(texts: &mut Texts, message: &Message, scratch: &mut Vec<u8>) {
    let address = if message.is_request() {
        message.from()
    } else {
        message.to()
    };
    // RFC 3261 12.1: "UAs MUST assign values to the dialog ID components as described below."
    let tag = address.ok().and_then(|a| a.tag()).unwrap_or_default();
    texts.set(Part::RemoteTag, tag);
    learn_target(texts, message);
    scratch.clear();
    for (value, _) in message.values(sip_msg::HeaderName::RecordRoute) {
        if message.is_request() {
            // RFC 3261 12.1.1: "The route set MUST be set to the list of URIs in the Record-Route header
            // field from the request, taken in order and preserving all URI parameters."
            if !scratch.is_empty() {
                scratch.extend_from_slice(b", ");
            }
            scratch.extend_from_slice(value);
        } else {
            // RFC 3261 12.1.2: "The route set MUST be set to the list of URIs in the Record-Route header
            // field from the response, taken in reverse order and preserving all URI parameters."
            let tail = scratch.len();
            scratch.extend_from_slice(value);
            if tail > 0 {
                scratch.extend_from_slice(b", ");
            }
            scratch.rotate_left(tail);
        }
    }
    // RFC 3261 12.1.2: "This route set, even if empty, overrides any pre-existing route set for future
    // requests in this dialog."
    // RFC 3261 12.1.1: "If no Record-Route header field is present in the request, the route set MUST
    // be set to the empty set. This route set, even if empty, overrides any pre-existing route set for
    // future requests in this dialog."
    // RFC 3261 12.1.2: "If no Record-Route header field is present in the response, the route set MUST
    // be set to the empty set. This route set, even if empty, overrides any pre-existing route set for
    // future requests in this dialog."
    texts.set(Part::Routes, scratch);
}

/// Takes the remote target from a message's Contact, where it has one.
pub(crate) fn learn_target(texts: &mut Texts, message: &Message) {
    // RFC 3261 12.1.1: "The remote target MUST be set to the URI from the Contact header field of the
    // request."
    // RFC 3261 12.1.2: "The remote target MUST be set to the URI from the Contact header field of the
    // response."
    if let Some(Ok(sip_msg::header::Contact::Addr(contact))) = message.contacts().next()
        && contact.uri.is_sip()
    {
        texts.set(Part::Target, &for_request_line(&contact.uri));
    }
}

#[cfg(test)]
mod tests;
