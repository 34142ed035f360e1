//! The gate in front of registrar and proxy: who may do what, and by which proof.
//!
//! # The argument
//!
//! Every request but CANCEL passes [`gate`] once, and whatever the server then
//! does for it takes the [`Permit`] that came out. (An OPTIONS that asks for
//! the server itself is answered before: it is nobody's and changes nothing.)
//! A permit's variants hold values that cannot be made elsewhere ([`Seal`],
//! [`RouteToken`], [`AuthenticatedUser`]), so code that forgot to ask does not
//! compile. What is claimed, and by what it is kept:
//!
//! 1. *Nobody changes another's contacts.* A REGISTER for our domains is
//!    judged by its credentials alone: no address and no route token lets it
//!    in. The digest proves a user in a realm; To and From must both name that
//!    user, and [`Permit::may_bind`] compares the address-of-record once more
//!    where the binding is made.
//! 2. *Nobody speaks for one of our users but himself.* Outside a dialog, a
//!    request whose From is in our domains needs the digest of just that user.
//!    So does one whose P-Asserted-Identity is: peers that are trusted by
//!    configuration may assert identities, users only their own, and what a
//!    stranger asserts is cut. It holds for every method, known or not, and a
//!    tag in To changes nothing: a tag is not a proof.
//! 3. *Requests within a dialog need no challenge, and forged ones get one.*
//!    A dialog that was let in got a signed Record-Route (see
//!    [`crate::token`]). Only with it, for the same Call-ID, is a request with
//!    a tag in To taken as part of that dialog; and only for a contact, as
//!    dialogs have: with a token of one call nobody reaches another of our
//!    users, or a number. ACK cannot be challenged (RFC 3261 22.1), so an ACK
//!    without a token is dropped where another request would have been
//!    challenged or refused. One to a non-2xx is absorbed by its INVITE's
//!    transaction and never comes here.
//! 4. *CANCEL needs no permit*, as it cannot be challenged either: it does
//!    nothing but end a transaction whose branch, sent-by and source it shares,
//!    which the transaction layer checks.
//! 5. *Strangers reach our users or nobody.* Whether they do at all is the
//!    operator's choice. A stranger's permit, and the dialog that he began,
//!    open neither the routing tables nor the gateways.
//! 6. *The gate tells nothing about who exists.* A challenge names a realm, a
//!    nonce and algorithms, not the user. Known or unknown, the user is looked
//!    up, a digest is computed and compared in constant time, and the answer
//!    to a wrong one is the same. Whether a user may do what he asks is looked
//!    at after the digest, never before.
//! 7. *Credentials go no further.* Those of our realms are cut from what is
//!    forwarded; those of other realms pass untouched, and their challenges go
//!    to the client: this server has no password to answer one with.
//!
//! What it does not promise: a trusted peer is as trustworthy as its address.
//! Over UDP an address can be forged, which is why claim 1 makes no exception
//! for peers, and why a peer can be bound to TLS (`secure_only`). And a party
//! of a dialog can send anything, under either side's name, to any contact that
//! it knows the address of: the other end, which knows its dialogs by their
//! tags, must refuse what is not of them (RFC 3261 12.2.2).

mod identity;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;

use sip_auth::{Authenticated, Check, CredentialKey, Ha1, Side, Verdict};
use sip_msg::header::NameAddr;
use sip_msg::{Flow, HeaderName, Message, Method, ResponseWriter, Span, Uri};

use crate::own::Own;
use crate::settings::{Inbound, TrustedPeer};
use crate::token::{Origin, RouteToken, Tokens};
use crate::{Now, Settings, Shared};

/// What the gate looks at beside the message.
#[derive(Clone, Copy)]
pub struct GateContext<'a> {
    /// The time.
    pub now: Now,
    /// The operator's choices.
    pub settings: &'a Settings,
    /// The authenticator and the location table.
    pub shared: &'a Shared,
    /// The shard's token reader.
    pub tokens: &'a Tokens,
    /// Which names are this server's.
    pub(crate) own: &'a Own,
}

/// A proof that only this module makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal(());

/// Why a request may pass. The payloads are proofs: nobody else can make them.
#[derive(Debug)]
pub enum Permit {
    /// `--no-auth`: everybody may do everything.
    Open(Seal),
    /// A trusted peer, by its address.
    Peer(Seal),
    /// A request within a dialog that this server let through before.
    Dialog(RouteToken),
    /// A user, by digest.
    Authenticated(AuthenticatedUser),
    /// A stranger calling one of our users: to the location table and nowhere else.
    Inbound(Seal),
}

/// A user of ours whose credentials were verified for this request, and in
/// whose name it speaks.
#[derive(Debug)]
pub struct AuthenticatedUser {
    proof: Authenticated,
    /// The address-of-record whose contacts he may change: his own in a
    /// REGISTER, empty in every other request.
    aor: Vec<u8>,
}

impl AuthenticatedUser {
    /// The user's name, unescaped, as it is stored.
    pub fn user(&self) -> &[u8] {
        self.proof.user()
    }

    /// The realm.
    pub fn realm(&self) -> &Arc<str> {
        self.proof.realm()
    }

    /// Appends the value of an Authentication-Info header for a 2xx of this
    /// server's own; false, and nothing written, where it is not configured.
    pub fn write_authentication_info(&self, out: &mut Vec<u8>) -> bool {
        self.proof.write_authentication_info(out)
    }
}

impl Permit {
    /// Whether the request may leave for a foreign domain, `--forward` or a gateway.
    pub fn may_relay(&self) -> bool {
        !matches!(self, Self::Inbound(_))
    }

    /// Whether the routing tables (domains, prefixes, gateways, `--forward`) may
    /// be asked: not for a dialog that a stranger began.
    pub fn may_use_routes(&self) -> bool {
        match self {
            Self::Open(_) | Self::Peer(_) | Self::Authenticated(_) => true,
            Self::Dialog(token) => token.origin() == Origin::Trusted,
            Self::Inbound(_) => false,
        }
    }

    /// Whether the contacts of this canonical address-of-record may be changed.
    pub fn may_bind(&self, aor: &[u8]) -> bool {
        // RFC 3261 10.3: "If the authenticated user is not authorized to modify bindings, the registrar
        // MUST return a 403 (Forbidden) and skip the remaining steps."
        match self {
            Self::Open(_) => true,
            Self::Authenticated(user) => !user.aor.is_empty() && user.aor == aor,
            Self::Peer(_) | Self::Dialog(_) | Self::Inbound(_) => false,
        }
    }

    /// Whether P-Asserted-Identity stays as it came; otherwise it is cut.
    pub fn may_assert(&self) -> bool {
        matches!(self, Self::Open(_) | Self::Peer(_))
    }

    /// The origin to write into this request's route token.
    pub fn origin(&self) -> Origin {
        match self {
            Self::Open(_) | Self::Peer(_) | Self::Authenticated(_) => Origin::Trusted,
            Self::Dialog(token) => token.origin(),
            Self::Inbound(_) => Origin::Stranger,
        }
    }

    /// Header lines that must not be forwarded: our realms' credentials, and
    /// identities that the sender may not assert. In order, appended to `spans`.
    pub fn strip(&self, cx: &GateContext<'_>, message: &Message, spans: &mut Vec<Span>) {
        let start = spans.len();
        if !self.may_assert() {
            for name in [
                HeaderName::PAssertedIdentity,
                HeaderName::PPreferredIdentity,
            ] {
                spans.extend(message.fields_of(name).map(|field| field.line_span));
            }
        }
        for side in [Side::Proxy, Side::Registrar] {
            if !message.has(side.credentials_header()) {
                continue;
            }
            // RFC 3261 22.3: "When multiple proxies are used in a chain, a Proxy-Authorization header field
            // value MUST NOT be consumed by any proxy whose realm does not match the "realm" parameter
            // specified in that value."
            for realm in identity::realms(cx.settings) {
                spans.extend(sip_auth::credential_lines(message, side, realm));
            }
        }
        if let Some(found) = spans.get_mut(start..) {
            found.sort_unstable_by_key(|span| span.start);
        }
    }
}

/// What is to be done with a request.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "the large one is the usual one, and boxing it would allocate"
)]
pub enum Gate {
    /// Let it go on.
    Pass(Permit),
    /// Ask the store for [`Pending::key`], park, then call [`gate_finish`].
    Lookup(Pending),
    /// Answer with [`Refusal::write`].
    Refuse(Refusal),
    /// Drop it silently, and count (an ACK that nobody vouches for).
    Drop,
}

/// A request whose credentials were read and whose secret must be looked up.
#[derive(Debug)]
pub struct Pending {
    credentials: sip_auth::Pending,
    side: Side,
}

impl Pending {
    /// What to look up.
    pub fn key(&self) -> CredentialKey {
        self.credentials.key().clone()
    }
}

/// An answer of the gate: a challenge, 403, 400, 500 or 503.
#[derive(Debug)]
pub struct Refusal {
    status: u16,
    why: Why,
}

#[derive(Debug)]
enum Why {
    Challenge {
        side: Side,
        realm: Arc<str>,
        stale: bool,
    },
    Malformed(&'static str),
    Forbidden,
    Unavailable,
}

impl Refusal {
    /// The status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Appends the whole response.
    pub fn write(&self, cx: &GateContext<'_>, request: &Message, to_tag: &[u8], out: &mut Vec<u8>) {
        let reason = match self.why {
            Why::Malformed(reason) => reason,
            _ => sip_msg::write::reason_phrase(self.status),
        };
        let mut writer = ResponseWriter::begin(out, request, self.status, reason, to_tag);
        match &self.why {
            // RFC 3261 22.3: "The proxy MUST populate the 407 (Proxy Authentication Required) message with a
            // Proxy-Authenticate header field value applicable to the proxy for the requested resource."
            Why::Challenge { side, realm, stale } => {
                let user_agent = request
                    .first(HeaderName::UserAgent)
                    .map_or(&[][..], |f| f.value);
                cx.shared.authenticator.add_challenge(
                    cx.now.unix_ms,
                    *side,
                    realm,
                    *stale,
                    user_agent,
                    &mut writer,
                );
            }
            Why::Unavailable => {
                writer.number("Retry-After", u64::from(cx.settings.bounds.retry_after_s));
            }
            Why::Malformed(_) | Why::Forbidden => {}
        }
        if !cx.settings.server_header.is_empty() {
            writer.header("Server", cx.settings.server_header.as_bytes());
        }
        writer.finish(&[]);
    }

    fn forbidden() -> Self {
        Self {
            status: 403,
            why: Why::Forbidden,
        }
    }

    fn malformed(reason: &'static str) -> Self {
        Self {
            status: 400,
            why: Why::Malformed(reason),
        }
    }
}

/// Whether a request is a REGISTER for this server's registrar; one for
/// another domain is forwarded like any request (RFC 3261 10.3 step 1).
pub(crate) fn is_registration(own: &Own, message: &Message) -> bool {
    message.method() == Method::Register && message.uri().is_ok_and(|uri| own.is_own_uri(&uri))
}

/// Judges a request: any method but CANCEL, which is matched to its INVITE by
/// the transaction layer and needs nothing else.
pub fn gate(cx: &GateContext<'_>, flow: &Flow, message: &Message) -> Gate {
    if cx.settings.authenticate.is_none() {
        return Gate::Pass(Permit::Open(Seal(())));
    }
    if is_registration(cx.own, message) {
        return judge_credentials(cx, message, Side::Registrar);
    }
    if cx.settings.trusted.iter().any(|peer| is_peer(peer, flow)) {
        return Gate::Pass(Permit::Peer(Seal(())));
    }
    if let Some(token) = dialog_token(cx, message) {
        return Gate::Pass(Permit::Dialog(token));
    }
    let Ok(from) = message.from() else {
        return refuse(message, Refusal::malformed("From Header Malformed"));
    };
    if from.uri().is_some_and(|uri| identity::is_ours(cx, &uri)) {
        // RFC 3261 22.1: "Servers MUST NOT attempt to challenge an ACK."
        if message.method() == Method::Ack {
            return Gate::Drop;
        }
        return judge_credentials(cx, message, Side::Proxy);
    }
    judge_stranger(cx, message)
}

/// Judges it again with the store's answer: `Ok(None)` for an unknown user,
/// `Err` when the store could not say. Never gives `Lookup`.
pub fn gate_finish(
    cx: &GateContext<'_>,
    pending: Pending,
    message: &Message,
    answer: Result<Option<Ha1>, ()>,
) -> Gate {
    let Ok(answer) = answer else {
        return Gate::Refuse(gate_unavailable(message));
    };
    let side = pending.side;
    let proof =
        match cx
            .shared
            .authenticator
            .finish(cx.now.unix_ms, pending.credentials, answer.as_ref())
        {
            Verdict::Ok(proof) => proof,
            Verdict::Challenge { stale } => return challenge(cx, message, side, stale),
        };
    let names_him = |addr: NameAddr<'_>| {
        addr.uri()
            .is_some_and(|uri| identity::names(cx, &proof, &uri))
    };
    let is_himself = message.from().is_ok_and(names_him)
        && (side == Side::Proxy || message.to().is_ok_and(names_him))
        && message
            .addresses(HeaderName::PAssertedIdentity)
            .all(|identity| identity.is_ok_and(|(addr, _)| names_him(addr)));
    if !is_himself {
        return Gate::Refuse(Refusal::forbidden());
    }
    let mut aor = Vec::new();
    if side == Side::Registrar
        && let Some(to) = message.to().ok().and_then(|to| to.uri())
    {
        crate::aor::write_aor(cx.settings, cx.own, &to, &mut aor);
    }
    Gate::Pass(Permit::Authenticated(AuthenticatedUser { proof, aor }))
}

/// The answer when a look-up took too long or there is no room to park: 503
/// with Retry-After; to a REGISTER 500, as when its bindings cannot be stored.
pub fn gate_unavailable(message: &Message) -> Refusal {
    let status = if message.method() == Method::Register {
        500
    } else {
        503
    };
    Refusal {
        status,
        why: Why::Unavailable,
    }
}

fn judge_credentials(cx: &GateContext<'_>, message: &Message, side: Side) -> Gate {
    let realm = identity::realm_of(cx, message, side);
    match cx
        .shared
        .authenticator
        .check(cx.now.unix_ms, message, side, &realm)
    {
        Check::Challenge { stale } => Gate::Refuse(Refusal {
            status: side.status(),
            why: Why::Challenge { side, realm, stale },
        }),
        Check::Malformed(malformed) => Gate::Refuse(Refusal::malformed(malformed.reason)),
        Check::Lookup(credentials) => Gate::Lookup(Pending { credentials, side }),
    }
}

fn challenge(cx: &GateContext<'_>, message: &Message, side: Side, stale: bool) -> Gate {
    let realm = identity::realm_of(cx, message, side);
    Gate::Refuse(Refusal {
        status: side.status(),
        why: Why::Challenge { side, realm, stale },
    })
}

/// Judges a request whose From is in no domain of ours.
fn judge_stranger(cx: &GateContext<'_>, message: &Message) -> Gate {
    let is_for_a_user = message
        .uri()
        .is_ok_and(|uri| uri.user.is_some() && cx.own.is_own_uri(&uri));
    let claims_a_user = message
        .addresses(HeaderName::PAssertedIdentity)
        .any(|identity| {
            identity.map_or(true, |(addr, _)| {
                addr.uri().is_some_and(|uri| identity::is_ours(cx, &uri))
            })
        });
    if cx.settings.inbound == Inbound::Anyone && is_for_a_user && !claims_a_user {
        return Gate::Pass(Permit::Inbound(Seal(())));
    }
    refuse(message, Refusal::forbidden())
}

/// A refusal; an ACK, which has no response, is dropped.
fn refuse(message: &Message, refusal: Refusal) -> Gate {
    if message.method() == Method::Ack {
        Gate::Drop
    } else {
        Gate::Refuse(refusal)
    }
}

/// The token of a request within a dialog: in the first Route values, where
/// this server's own stand (two, where the transport changed), or in the
/// Request-URI, where a strict router put it. The target must be a contact:
/// one of our users by his name, or a number, is a new request's.
fn dialog_token(cx: &GateContext<'_>, message: &Message) -> Option<RouteToken> {
    const OWN_ROUTES_MAX: usize = 2;
    message.to().ok()?.tag()?;
    let call_id = message.call_id();
    let read = |uri: &Uri<'_>| cx.tokens.read_route(call_id, uri.user?);
    let routes = || {
        let routes = message.addresses(HeaderName::Route);
        routes.map_while(|route| route.ok()?.0.uri())
    };
    let uri = message.uri().ok()?;
    let (token, target) = match routes().take(OWN_ROUTES_MAX).find_map(|uri| read(&uri)) {
        Some(token) => (token, uri),
        None => (uri.has_param("lr").then(|| read(&uri))??, routes().last()?),
    };
    (target.is_sip() && !cx.own.is_own_uri(&target)).then_some(token)
}

/// Whether a flow is a trusted peer's.
pub(crate) fn is_peer(peer: &TrustedPeer, flow: &Flow) -> bool {
    let is_in_prefix = match (peer.addr.to_canonical(), flow.remote.ip().to_canonical()) {
        (IpAddr::V4(peer_ip), IpAddr::V4(ip)) => {
            let bits = u32::from(peer.prefix_len.min(32));
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            peer_ip.to_bits() & mask == ip.to_bits() & mask
        }
        (IpAddr::V6(peer_ip), IpAddr::V6(ip)) => {
            let bits = u32::from(peer.prefix_len.min(128));
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            peer_ip.to_bits() & mask == ip.to_bits() & mask
        }
        _ => false,
    };
    is_in_prefix && (!peer.secure_only || flow.transport.is_secure())
}
