//! Request forwarding (RFC 3261 16.6): the copy that leaves, made in one pass
//! over the request with every other byte as it came.

use std::net::SocketAddr;

use invariant::broken;
use sip_msg::{Edits, Flow, HeaderName, Message, Span, Target, Uri};

use super::route::{Routed, write_without_maddr};
use crate::gateways::Gateways;
use crate::media::NewBody;
use crate::own::Own;
use crate::relay::{Came, Relay};
use crate::text::write_decimal;
use crate::token::{Led, Tokens};
use crate::trunk::legs::LegCopy;
use crate::{Now, Settings};

/// RFC 3261 16.6 step 3: "one with a field value, which SHOULD be 70".
const MAX_FORWARDS: u64 = 70;

/// What the copies of a request need beside the request itself.
pub(crate) struct CopyContext<'a> {
    pub(crate) own: &'a Own,
    pub(crate) tokens: &'a Tokens,
    /// Whether dialogs are kept on this server's path.
    pub(crate) record_route: bool,
    /// Whether every Record-Route must be one that only we can have written.
    pub(crate) sign_routes: bool,
    /// The time, for what is signed.
    pub(crate) unix_ms: u64,
    /// What judges where a Contact may lead.
    pub(crate) relay: Relay<'a>,
}

impl<'a> CopyContext<'a> {
    pub(crate) fn new(
        settings: &'a Settings,
        own: &'a Own,
        gateways: &'a Gateways,
        tokens: &'a Tokens,
        now: Now,
    ) -> Self {
        Self {
            own,
            tokens,
            record_route: settings.proxy.record_route,
            sign_routes: settings.authenticate.is_some(),
            unix_ms: now.unix_ms,
            relay: Relay {
                settings,
                own,
                gateways,
                now_ms: now.mono_ms,
            },
        }
    }
}

/// One copy of a request (RFC 3261 16.6).
pub(crate) struct RequestCopy<'a> {
    pub(crate) request: &'a Message,
    pub(crate) routed: &'a Routed,
    /// How the request came, and who chose its destination.
    pub(crate) came: Came<'a>,
    /// The target's URI; `None` where the Request-URI stays.
    pub(crate) uri: Option<&'a [u8]>,
    /// Route values to be put in front (a contact's Path).
    pub(crate) path: &'a [u8],
    /// Where it is sent.
    pub(crate) to: &'a Target,
    /// This server's end of the way there, where that is known.
    pub(crate) local: SocketAddr,
    /// The registered flow that it goes along, if it does.
    pub(crate) flow_down: Option<&'a Flow>,
    /// The instance of the phone at its end, as tokens name it.
    pub(crate) instance: Option<u32>,
    /// Max-Breadth; `None` where the header is left out.
    pub(crate) breadth: Option<u32>,
    /// Header lines that are for this server alone.
    pub(crate) strip: &'a [Span],
    /// Header lines that the operator's hook adds; empty for none.
    pub(crate) told: &'a [u8],
    /// Header lines that are added because of how its target was found, each with its end.
    pub(crate) added: &'a [u8],
    /// The session timer that is asked for, where the request has none (RFC 4028).
    pub(crate) session_expires_s: Option<u32>,
    /// How it differs because it goes by a trunk, if it does.
    pub(crate) leg: Option<&'a LegCopy>,
    /// The engine that leads the media of the dialog.
    pub(crate) media: Option<Led>,
    /// What stands in the place of its session description.
    pub(crate) body: Option<&'a NewBody>,
}

impl RequestCopy<'_> {
    /// Appends the copy to `out`. `write_branch` writes the Via's branch.
    pub(crate) fn write(
        &self,
        cx: &CopyContext<'_>,
        edits: &mut Edits,
        write_branch: impl FnOnce(&mut Vec<u8>),
        out: &mut Vec<u8>,
    ) {
        // RFC 3261 16.6: "The copy MUST initially contain all of the header fields from the
        // received request.  Fields not detailed in the processing described below MUST NOT
        // be removed." and "The proxy MUST NOT reorder field values with a common field name
        // (See Section 7.3.1).  The proxy MUST NOT add to, modify, or remove the message
        // body." What no edit names is copied as it came: the body too, but for the session
        // description of a call whose media an engine leads (docs/DEVIATIONS.md).
        let request = self.request;
        edits.clear();
        for line in self.strip {
            edits.remove(*line);
        }
        let strict = self.strict_route();
        self.edit_uri(strict, edits);
        self.edit_routes(strict, edits);
        self.edit_max_forwards(edits);
        self.edit_breadth(edits);
        if let Some(leg) = self.leg {
            leg.edit(request, self.strip, edits);
        }
        if let Some(body) = self.body {
            body.edit(request, edits);
        }
        // RFC 3261 16.6: "The proxy MUST insert a Via header field value into the copy
        // before the existing Via header field values." Everything that is added goes to
        // the top of the headers. RFC 3261 16.6: "If this proxy wishes to remain on the path
        // of future requests in a dialog created by this request (assuming the request
        // creates a dialog), it MUST insert a Record-Route header field value into the copy
        // before any existing Record-Route header field values, even if a Route header
        // field is already present."
        edits.insert_with(request.headers_start(), |text| {
            self.write_via(cx, write_branch, text);
            self.write_record_route(cx, text);
            // RFC 3261 16.6: "This set MUST be pushed into the Route header field of the
            // copy ahead of any existing values, if present.  If the Route header field is
            // absent, it MUST be added, containing that list of URIs."
            if !self.path.is_empty() {
                field(text, "Route", self.path);
            }
            if !request.has(HeaderName::MaxForwards) {
                // RFC 3261 16.6: "If the copy does not contain a Max-Forwards header field,
                // the proxy MUST add one with a field value, which SHOULD be 70."
                number(text, "Max-Forwards", MAX_FORWARDS);
            }
            if let Some(breadth) = self.breadth
                && !request.has(HeaderName::MaxBreadth)
            {
                number(text, "Max-Breadth", u64::from(breadth));
            }
            if let Some(session_expires_s) = self.session_expires_s {
                number(text, "Session-Expires", u64::from(session_expires_s));
            }
            text.extend_from_slice(self.told);
            text.extend_from_slice(self.added);
            if let Some(leg) = self.leg {
                text.extend_from_slice(leg.lines());
            }
            // RFC 3261 16.6: "If the request will be sent to the next hop using a
            // stream-based transport and the copy contains no Content-Length header field,
            // the proxy MUST insert one with the correct value for the body of the request
            // (see Section 20.14)."
            // RFC 3261 18.3: "The Content-Length header field MUST be used with stream oriented
            // transports."
            // RFC 3261 20: "If a stream-based protocol (such as TCP) is used as a transport, then the
            // header field MUST be sent."
            if self.to.transport.is_reliable() && !request.has(HeaderName::ContentLength) {
                let as_it_came = request.body().len();
                let len = (self.body).map_or(as_it_came, |body| body.body_len(request));
                number(text, "Content-Length", len as u64);
            }
        });
        edits.apply(request, out);
    }

    /// The next hop, where it is a strict router.
    fn strict_route(&self) -> Option<Uri<'_>> {
        // RFC 3261 16.6: "If the copy contains a Route header field, the proxy MUST
        // inspect the URI in its first value.  If that URI does not contain an lr parameter,
        // the proxy MUST modify the copy as follows:" see the two edits below.
        if !self.path.is_empty() {
            return None;
        }
        let next = self.request.slice(self.routed.next_route?);
        Uri::parse(next).filter(|uri| !uri.has_param("lr"))
    }

    // RFC 3261 16.6: "The Request-URI in the copy's start line MUST be replaced with the
    // URI for this target.  If the URI contains any parameters not allowed in a
    // Request-URI, they MUST be removed."
    fn edit_uri(&self, strict: Option<Uri<'_>>, edits: &mut Edits) {
        let place = self.request.request_uri_span();
        match strict {
            // RFC 3261 16.6: "The proxy MUST then place the first Route header field value
            // into the Request-URI and remove that value from the Route header field."
            Some(next) => edits.replace_with(place, |text| next.write_request_uri(text)),
            None if self.is_uri_unchanged() => {}
            None => edits.replace_with(place, |text| self.write_target_uri(text)),
        }
    }

    fn is_uri_unchanged(&self) -> bool {
        let may_stay = || {
            let uri = self.request.uri();
            uri.is_ok_and(|uri| uri.params.is_empty() || !uri.has_param("method"))
        };
        self.uri.is_none()
            && !self.routed.strip_maddr
            && !self.routed.last_route_is_uri
            && may_stay()
    }

    fn write_target_uri(&self, text: &mut Vec<u8>) {
        let bytes = self
            .uri
            .unwrap_or_else(|| self.request.slice(self.routed.uri));
        match Uri::parse(bytes) {
            Some(uri) if self.uri.is_none() && self.routed.strip_maddr => {
                write_without_maddr(&uri, text);
            }
            Some(uri) => uri.write_request_uri(text),
            None => text.extend_from_slice(bytes),
        }
    }

    fn edit_routes(&self, strict: Option<Uri<'_>>, edits: &mut Edits) {
        let request = self.request;
        if !request.has(HeaderName::Route) {
            return;
        }
        if self.routed.next_route.is_none() {
            edits.remove_all(request, HeaderName::Route);
            return;
        }
        let mut first_cut = usize::from(self.routed.own_routes);
        if strict.is_some() {
            first_cut += 1;
        }
        let count = request.values(HeaderName::Route).count();
        let last_cut = usize::from(self.routed.last_route_is_uri);
        if first_cut + last_cut >= count {
            edits.remove_all(request, HeaderName::Route);
        } else {
            edits.remove_first_values(request, HeaderName::Route, first_cut);
            if last_cut > 0 {
                remove_last_value(request, edits);
            }
        }
        // RFC 3261 16.6: "The proxy MUST place the Request-URI into the Route header field
        // as the last value."
        if strict.is_some()
            && let Some(last) = request.fields_of(HeaderName::Route).last()
        {
            edits.insert_with(last.line_span.end, |text| {
                text.extend_from_slice(b"Route: <");
                self.write_target_uri(text);
                text.extend_from_slice(b">\r\n");
            });
        }
    }

    fn edit_max_forwards(&self, edits: &mut Edits) {
        // RFC 3261 16.6: "If the copy contains a Max-Forwards header field, the proxy MUST
        // decrement its value by one (1)."
        if let (Some(field), Ok(Some(value))) = (
            self.request.first(HeaderName::MaxForwards),
            self.request.max_forwards(),
        ) {
            edits.replace_with(field.value_span, |text| {
                write_decimal(u64::from(value.saturating_sub(1)), text);
            });
        }
    }

    fn edit_breadth(&self, edits: &mut Edits) {
        if let (Some(field), Some(breadth)) =
            (self.request.first(HeaderName::MaxBreadth), self.breadth)
        {
            edits.replace_with(field.value_span, |text| {
                write_decimal(u64::from(breadth), text);
            });
        }
    }

    fn write_via(
        &self,
        cx: &CopyContext<'_>,
        write_branch: impl FnOnce(&mut Vec<u8>),
        text: &mut Vec<u8>,
    ) {
        text.extend_from_slice(b"Via: SIP/2.0/");
        // RFC 3261 18.1.1: "If this causes a change in the transport protocol from the one indicated in
        // the top Via, the value in the top Via MUST be changed."
        text.extend_from_slice(self.to.transport.via_name().as_bytes());
        text.push(b' ');
        // RFC 3261 18.1.1: "Before a request is sent, the client transport MUST insert a value of the
        // "sent-by" field into the Via header field." and "To handle this case, the transport layer
        // MUST also be prepared to receive an incoming connection on the source IP address from which
        // the request was sent and port number in the "sent-by" field." It is a listener's.
        cx.own.write_host_port(self.to.listener, &self.local, text);
        text.extend_from_slice(b";branch=");
        write_branch(text);
        text.extend_from_slice(b"\r\n");
    }
}

fn remove_last_value(request: &Message, edits: &mut Edits) {
    let Some((_, last)) = request.values(HeaderName::Route).last() else {
        return;
    };
    let mut before = None;
    for (_, span) in request.values(HeaderName::Route) {
        if span == last {
            break;
        }
        before = Some(span);
    }
    // A field behind it may have no value at all.
    let fields = request.fields_of(HeaderName::Route);
    let Some(line) = fields
        .map(|field| field.line_span)
        .filter(|line| line.start <= last.start)
        .last()
    else {
        return broken!("a value stands in one of the fields");
    };
    match before {
        Some(before) if before.start >= line.start => edits.remove(Span {
            start: before.end,
            end: last.end,
        }),
        _ => edits.remove(line),
    }
}

fn field(text: &mut Vec<u8>, name: &str, value: &[u8]) {
    text.extend_from_slice(name.as_bytes());
    text.extend_from_slice(b": ");
    text.extend_from_slice(value);
    text.extend_from_slice(b"\r\n");
}

fn number(text: &mut Vec<u8>, name: &str, value: u64) {
    text.extend_from_slice(name.as_bytes());
    text.extend_from_slice(b": ");
    write_decimal(value, text);
    text.extend_from_slice(b"\r\n");
}
