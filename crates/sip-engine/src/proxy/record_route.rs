//! Record-Route: what is written into a copy (RFC 3261 16.6 step 4, RFC 5658),
//! and what becomes of it in the responses (16.7 step 8).

use std::cell::OnceCell;
use std::net::SocketAddr;

use sip_msg::header::Contact;
use sip_msg::{Field, Flow, HeaderName, ListenerId, Message, Method, Span, Transport, Uri};

use super::context::Identity;
use super::forward::{CopyContext, RequestCopy};
use super::route::{Behind, span_of};
use crate::nat::{Nat, shows_translation};
use crate::own::Own;
use crate::relay::{ChosenBy, Relay, Shown, Source};
use crate::token::{Decoded, Grant, Holder, Led, Marks, Offer, Sides, Tokens, begins_offer};
use crate::trunk::legs::LegCopy;

impl RequestCopy<'_> {
    pub(super) fn write_record_route(&self, cx: &CopyContext<'_>, text: &mut Vec<u8>) {
        let Some(kind) = self.route_kind(cx) else {
            return;
        };
        let source = self.came.source();
        let behind = records_behind(self.request, cx.own);
        let next = behind.first();
        let names_another = self.names_another(cx, &source, next);
        // Parsed once, and not where nobody asks.
        let parsed = OnceCell::new();
        let shown = || *parsed.get_or_init(|| first_contact(self.request));
        let flow_up = self
            .flow_up(cx, names_another, &shown)
            .filter(|_| !cx.relay.is_doubted(&source));
        let is_double = self.is_double(cx, kind, flow_up.is_some());
        let marks = self.leg.and_then(LegCopy::marks);
        let is_any_signed = cx.sign_routes
            || flow_up.is_some()
            || self.flow_down.is_some()
            || marks.is_some()
            || self.media.is_some();
        let (mut sides, mut contact, mut is_to_end) = (None, None, false);
        if is_any_signed {
            // Whoever gets the copy will say of both sides what stands in it.
            sides = match self.leg {
                Some(leg) => leg.sides(self.request),
                None => Sides::of(self.request),
            };
            let as_shown = shown_as(&cx.relay, Some(&source), shown(), next);
            is_to_end = as_shown == Shown::ToEnd;
            // By another's name he is reached along his flow, or not at all; where that is doubted,
            // a gateway is, to end something.
            let is_reached = !names_another || flow_up.is_some() || is_to_end;
            contact = shown().filter(|_| is_reached && as_shown != Shown::Nowhere);
        }
        let grant = Grant {
            unix_ms: cx.unix_ms,
            behind: &behind,
            target: contact.as_ref(),
            is_to_end,
            marks,
            media: self.media,
            leads_to_gateway: cx.relay.is_gateways(&source),
            ..Grant::default()
        };
        // The requests of whoever gets this copy leave by the last of our values,
        // the caller's by the first.
        let mut value = |listener, transport, local: &SocketAddr, grant: Grant<'_>| {
            let (is_signed, uri) = (
                cx.sign_routes || grant.flow.is_some() || marks.is_some() || grant.media.is_some(),
                RouteUri {
                    kind,
                    listener,
                    transport,
                    local,
                },
            );
            uri.write(cx, text, |text| {
                if let Some(sides) = sides.as_ref().filter(|_| is_signed) {
                    let start = text.len();
                    cx.tokens.write_grant(sides, Holder::Receiver, &grant, text);
                    if text.len() > start {
                        text.push(b'@');
                    }
                }
            });
        };
        // Beside a second value it lets nobody send: else who puts the two in another
        // order would be let past the flow. Nor where the flow is what he may send to, and
        // there is no second value for it.
        let down = Grant {
            target: (contact.as_ref()).filter(|_| !is_double && (!names_another || is_to_end)),
            flow: self.flow_down,
            instance: self.instance.filter(|_| self.flow_down.is_some()),
            is_offer: true,
            ..grant
        };
        value(self.to.listener, self.to.transport, &self.local, down);
        if is_double {
            let up = self.came.by;
            let instance = flow_up.and_then(|_| first_instance(self.request));
            let up_grant = Grant {
                flow: flow_up,
                instance: instance.map(|instance| cx.tokens.instance(instance)),
                ..grant
            };
            value(up.listener, up.transport, &up.local, up_grant);
        }
    }

    /// Whether the copy gets a Record-Route, and of which scheme.
    fn route_kind(&self, cx: &CopyContext<'_>) -> Option<Scheme> {
        if !makes_dialogs(self.request.method()) {
            return None;
        }
        let is_target_secure = match self.uri {
            Some(uri) => is_sips(uri),
            None => self.routed.is_secure(),
        };
        let next = self.routed.next_route.map(|span| self.request.slice(span));
        // RFC 3261 16.6: "If the Request-URI contains a SIPS URI, or the topmost Route
        // header field value (after the post processing of bullet 6) contains a SIPS URI,
        // the URI placed into the Record-Route header field MUST be a SIPS URI.
        // Furthermore, if the request was not received over TLS, the proxy MUST insert a
        // Record-Route header field.  In a similar fashion, a proxy that receives a request
        // over TLS, but generates a request without a SIPS URI in the Request-URI or topmost
        // Route header field value (after the post processing of bullet 6), MUST insert a
        // Record-Route header field that is not a SIPS URI."
        let secure = is_target_secure || next.is_some_and(is_sips);
        let must = secure != self.came.by.transport.is_secure();
        // What is done for a trunk has to be done for all requests of the dialog.
        let is_marked = self.leg.is_some_and(|leg| leg.marks().is_some());
        match (secure, must || cx.record_route || is_marked) {
            (_, false) => None,
            (true, true) => Some(Scheme::Sips),
            (false, true) => Some(Scheme::Sip),
        }
    }

    /// Whether the two sides need a URI each: RFC 5658's double Record-Route.
    fn is_double(&self, cx: &CopyContext<'_>, kind: Scheme, has_flow_up: bool) -> bool {
        let came_by = self.came.by;
        if kind == Scheme::Sips && !came_by.transport.is_secure() {
            // The other side could not be reached by a SIPS URI. This one can.
            return false;
        }
        has_flow_up
            || self.flow_down.is_some()
            || cx.own.transport(came_by.listener) != cx.own.transport(self.to.listener)
            || came_by.listener != self.to.listener
    }

    /// Whether the request calls somebody else than the user of ours whom it names in
    /// To, as it does where a phone follows a 3xx by itself. Whoever is called answers in
    /// that name, so he reaches the caller himself by it, at whatever place the caller
    /// shows, and nobody else. A peer may show places of peers: it calls for others, and
    /// a trunk writes into To what was dialled.
    fn names_another(&self, cx: &CopyContext<'_>, source: &Source, next: Option<&Uri<'_>>) -> bool {
        let (request, own, relay) = (self.request, cx.own, &cx.relay);
        // A peer's request needs no token: that it seems to be of a dialog says nothing.
        let is_within = self.routed.grant.is_some() || !relay.asks_who_calls();
        if self.came.chosen_by != ChosenBy::User && is_within {
            return false;
        }
        let Some(to) = request.to().ok().and_then(|to| to.uri()) else {
            return false;
        };
        let is_he = |uri: Uri<'_>| own.is_own_uri(&uri) && uri.user_bytes().eq(to.user_bytes());
        // With a Route beside it the Request-URI does not say who is called.
        let is_called =
            self.routed.next_route.is_none() && self.routed.uri(request).is_some_and(is_he);
        if !own.is_own_uri(&to) || is_called {
            return false;
        }
        let is_peers = |uri: &Uri<'_>| relay.is_place_of_peers(source, uri);
        let shows_peer = || match next {
            Some(next) => is_peers(next),
            None => first_contact(request).is_some_and(|contact| is_peers(&contact)),
        };
        self.came.chosen_by == ChosenBy::User || !shows_peer()
    }

    /// The flow to the sender, where it is a phone that can be reached by no
    /// other way: it names somebody else than it calls, or it is the first hop (RFC 5626 5.1), and it came over a
    /// connection or from behind a network address translation.
    fn flow_up<'m>(
        &self,
        cx: &CopyContext<'_>,
        names_another: bool,
        shown: &dyn Fn() -> Option<Uri<'m>>,
    ) -> Option<&Flow> {
        let came_by = self.came.by;
        if names_another {
            return Some(came_by);
        }
        let first = self.request.top_via().ok()?;
        if self.request.has_several(HeaderName::Via) {
            return None;
        }
        if came_by.conn.is_some() {
            return Some(came_by);
        }
        let is_translated = || {
            first.received.is_some()
                && first.sent_by.ip() != Some(came_by.remote.ip().to_canonical())
        };
        let port = first.sent_by.port.unwrap_or(Transport::Udp.default_port());
        let has_other_port = first.rport.is_some() && port != came_by.remote.port();
        let contact_shows = || {
            let contact = shown();
            contact.is_some_and(|uri| shows_translation(&uri, came_by, has_other_port))
        };
        let is_behind = match cx.relay.settings.nat.of(came_by) {
            Nat::Always => true,
            Nat::Auto => is_translated() || contact_shows(),
            Nat::Never => false,
        };
        is_behind.then_some(came_by)
    }
}

/// One URI of a Record-Route.
struct RouteUri<'a> {
    kind: Scheme,
    listener: ListenerId,
    transport: Transport,
    local: &'a SocketAddr,
}

impl RouteUri<'_> {
    fn write(
        &self,
        cx: &CopyContext<'_>,
        text: &mut Vec<u8>,
        write_user: impl FnOnce(&mut Vec<u8>),
    ) {
        text.extend_from_slice(b"Record-Route: <");
        // RFC 3261 16.6: "The URI placed in the Record-Route header field value MUST be a
        // SIP or SIPS URI.  This URI MUST contain an lr parameter (see Section 19.1.1)."
        text.extend_from_slice(if self.kind == Scheme::Sips {
            b"sips:"
        } else {
            b"sip:"
        });
        write_user(text);
        // RFC 3261 16.6: "The URI placed in the Record-Route header field MUST resolve to
        // the element inserting it (or a suitable stand-in) when the server location
        // procedures of [4] are applied to it, so that subsequent requests reach the same
        // SIP element." So it says its transport wherever UDP is not it.
        cx.own.write_host_port(self.listener, self.local, text);
        // For `sips` that is TLS, unless it is a WebSocket under TLS.
        let is_told = match self.kind {
            Scheme::Sip => self.transport != Transport::Udp,
            Scheme::Sips => self.transport.is_websocket(),
        };
        if is_told {
            text.extend_from_slice(b";transport=");
            text.extend_from_slice(self.transport.uri_param().as_bytes());
        }
        text.extend_from_slice(b";lr>\r\n");
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Sip,
    Sips,
}

fn is_sips(uri: &[u8]) -> bool {
    uri.get(..5)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"sips:"))
}

/// Whether a request of that method may begin a dialog, or be of a kind that
/// this server does not know.
pub(crate) const fn makes_dialogs(method: Method) -> bool {
    matches!(
        method,
        Method::Invite | Method::Subscribe | Method::Refer | Method::Notify | Method::Other
    )
}

/// The Contact at which whoever sent a message is reached within the dialog.
pub(crate) fn first_contact(message: &Message) -> Option<Uri<'_>> {
    match message.contacts().next()?.ok()? {
        Contact::Addr(contact) => Some(contact.uri),
        Contact::Star => None,
    }
}

/// The instance that a Contact names (RFC 5626 4.1).
fn first_instance(message: &Message) -> Option<&[u8]> {
    match message.contacts().next()?.ok()? {
        Contact::Addr(contact) => contact.addr.param("+sip.instance"),
        Contact::Star => None,
    }
}

/// What whoever gets a grant may send to the target that it is for, by the route `next` behind
/// ours.
fn shown_as(
    relay: &Relay<'_>,
    source: Option<&Source>,
    target: Option<Uri<'_>>,
    next: Option<&Uri<'_>>,
) -> Shown {
    // A gateway that puts itself on the route reads the target itself: what 127.0.0.1 is to it is
    // not what it is here. The token is good by that route alone.
    let is_gateways = |next: &&Uri<'_>| {
        let from_it = source.is_some_and(|source| relay.is_gateways(source));
        from_it && next.has_param("lr") && relay.leads_to_gateway(next)
    };
    let target = target.filter(|_| next.filter(is_gateways).is_none());
    let both = [target.as_ref(), next];
    let shown = both
        .into_iter()
        .flatten()
        .map(|uri| relay.shown(source, uri));
    shown.min().unwrap_or(Shown::Nowhere)
}

/// The Record-Routes from the first one that is another's: the routes behind ours for
/// whoever gets the copy.
fn records_behind<'m>(message: &'m Message, own: &Own) -> Behind<'m> {
    if !message.has(HeaderName::RecordRoute) {
        return Behind::new();
    }
    let records = message.addresses(HeaderName::RecordRoute);
    records
        .filter_map(|address| address.ok()?.0.uri())
        .skip_while(|uri| own.is_own_uri(uri))
        .collect()
}

/// The place in a response where the caller's grant is written: an offer of ours.
struct OfferSlot<'m> {
    offer: Decoded,
    span: Span,
    /// The routes behind ours in the caller's requests.
    above: Behind<'m>,
    /// Those in the answerer's.
    below: Behind<'m>,
}

/// The first of our Record-Routes in a response that is an offer.
// RFC 3261 16.7: "If the selected response contains a Record-Route header field value
// originally provided by this proxy, the proxy MAY choose to rewrite the value before
// forwarding the response." In a spiral each pass rewrites its own: an offer that was
// taken up is none any more, so the topmost that is left is the one of this pass.
fn offered<'m>(response: &'m Message, own: &Own) -> Option<OfferSlot<'m>> {
    let mut found: Option<OfferSlot<'m>> = None;
    let mut before = Behind::new();
    for address in response.addresses(HeaderName::RecordRoute) {
        let (address, span) = address.ok()?;
        let uri = address.uri()?;
        match &mut found {
            // Another of ours beside it is none of what comes behind.
            Some(found) if found.below.is_empty() && own.is_own_uri(&uri) => {}
            Some(found) => found.below.push(uri),
            None => {
                let offer = |user| Some((user, Tokens::decode_offer(user)?));
                let user = uri.user.filter(|_| own.is_own_uri(&uri));
                found = user.and_then(offer).map(|(user, offer)| OfferSlot {
                    offer,
                    span: span_of(response.slice(span), span, user),
                    above: Behind::new(),
                    below: Behind::new(),
                });
                if found.is_none() {
                    before.push(uri);
                }
            }
        }
    }
    let mut found = found?;
    // RFC 3261 12.1.2: the caller takes them in reverse order.
    let above = before.into_iter().rev();
    found.above = above.skip_while(|uri| own.is_own_uri(uri)).collect();
    Some(found)
}

/// What may be the user part in a value of a header; a token has no colon in it.
fn user_at_a_glance(value: &[u8]) -> Option<&[u8]> {
    let before = value.get(..memchr::memchr(b'@', value)?)?;
    before.get(memchr::memrchr(b':', before)? + 1..)
}

/// What is needed to give a caller his grant.
pub(crate) struct Rewriter<'a> {
    pub(crate) own: &'a Own,
    pub(crate) tokens: &'a Tokens,
    pub(crate) unix_ms: u64,
    /// What judges where a Contact may lead, and where the response comes from.
    pub(crate) relay: Relay<'a>,
    pub(crate) source: Option<&'a Source>,
    /// That of the request, where it is known, and the key of its hash: else the
    /// offer itself must prove that the response is to the request that it says.
    pub(crate) identity: Option<Identity>,
    pub(crate) identities: &'a [u8; 16],
    /// What the caller's token is to say of the trunk that the dialog goes by.
    pub(crate) marks: Option<Marks>,
    /// The engine that leads the dialog's media, where the request's context knows it.
    pub(crate) media: Option<Led>,
    /// Whether the response goes to a gateway whose request anybody could have sent.
    pub(crate) went_to_gateway: bool,
}

// RFC 3261 16.6: "If the URI placed in the Record-Route header field needs to be rewritten
// when it passes back through in a response, the URI MUST be distinct enough to locate at
// that time." It is by its token. RFC 3261 16.7: "The new URI provided by the proxy MUST
// satisfy the same constraints on URIs placed in Record-Route header fields in requests
// (see Step 4 of Section 16.6) with the following modifications:" Only its user part is
// another.
impl Rewriter<'_> {
    /// Writes the caller's grant for the dialog that a response makes or
    /// refreshes; where in the response it belongs.
    pub(crate) fn write(&self, response: &Message, text: &mut Vec<u8>) -> Option<Span> {
        if !matches!(response.status(), 101..=299)
            || !makes_dialogs(response.method())
            || !response.has(HeaderName::RecordRoute)
        {
            return None;
        }
        // A glance before they are parsed: most have no offer in them.
        let has_user = |field: Field<'_>| memchr::memchr(b'@', field.value).is_some();
        let has_offers = response.fields_of(HeaderName::RecordRoute).any(has_user)
            && response
                .values(HeaderName::RecordRoute)
                .filter_map(|(value, _)| user_at_a_glance(value))
                .any(begins_offer);
        if !has_offers {
            return None;
        }
        let sides = Sides::of(response).filter(Sides::is_answered)?;
        let slot = offered(response, self.own)?;
        let target = first_contact(response)?;
        let as_shown = shown_as(&self.relay, self.source, Some(target), slot.above.first());
        if as_shown == Shown::Nowhere {
            return None;
        }
        // An offer that names no flow has nothing in it that the response, or its request's context,
        // has not. Nor could one be read that was signed for the From and To of a provider.
        let is_identified = || {
            self.identity
                .is_some_and(|identity| identity.is_of(self.identities, &sides))
        };
        let is_known = !slot.offer.has_flow() && (!slot.offer.has_media() || self.media.is_some());
        let offer = match is_known && is_identified() {
            true => Offer {
                media: self.media,
                ..Offer::default()
            },
            false => self.tokens.read_offer(&slot.offer, &sides, &slot.below)?,
        };
        let leads_to_gateway = self.source.is_some_and(|of| self.relay.is_gateways(of));
        let grant = Grant {
            unix_ms: self.unix_ms,
            behind: &slot.above,
            target: Some(&target),
            flow: offer.flow.as_ref(),
            instance: offer.instance,
            media: offer.media,
            is_offer: false,
            is_to_end: as_shown == Shown::ToEnd,
            // With a route before ours its requests, and the token in them, pass another first.
            went_to_gateway: self.went_to_gateway && slot.below.is_empty(),
            leads_to_gateway,
            marks: self.marks,
        };
        text.clear();
        self.tokens
            .write_grant(&sides, Holder::Sender, &grant, text);
        (!text.is_empty()).then_some(slot.span)
    }
}
