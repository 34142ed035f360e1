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
//!    request whose From is in our domains needs the digest of just that user,
//!    or, where the operator lets certificates stand for passwords, a
//!    connection that was opened with the certificate of just that user.
//!    So does one whose P-Asserted-Identity is: peers that are trusted by
//!    configuration may assert identities, users only their own, and what a
//!    stranger asserts is cut. It holds for every method, known or not, and a
//!    tag in To changes nothing: a tag is not a proof.
//! 3. *Requests within a dialog need no challenge, and forged ones get one.*
//!    Each side of a dialog that was let in got a signed Record-Route (see
//!    [`crate::token`]). Only with the one of its sender, in the dialog that it
//!    names by Call-ID, URIs and tags, behind the routes that it was given for,
//!    to a target that the dialog has shown, and before its end
//!    ([`crate::dialogs`]), is a request part of it. What is judged is what will
//!    be routed: the request after its routes were preprocessed, and the
//!    innermost of our routes. With a token nobody reaches another of our
//!    users, a number, or the routing tables; a REGISTER is part of no dialog.
//!    ACK cannot be challenged (RFC 3261 22.1), so an ACK without a token is
//!    dropped where another request would have been challenged or refused. One
//!    to a non-2xx is absorbed by its INVITE's transaction and never comes here.
//! 4. *CANCEL needs no permit*, as it cannot be challenged either: it does
//!    nothing but end a transaction whose branch, sent-by and source it shares,
//!    which the transaction layer checks.
//! 5. *Strangers reach our users or nobody.* Whether they do at all is the
//!    operator's choice. A stranger's permit, like every dialog, opens neither
//!    the routing tables nor the gateways. The one exception is the operator's again: what
//!    his hook sends somewhere, where he wrote that it may
//!    ([`HookSettings::may_relay`](crate::hook::HookSettings)). The hook makes nobody a user,
//!    a peer or a part of a dialog: a permit comes out of [`Permit::directed`] as it went in, or
//!    as [`Permit::Directed`], which binds and asserts nothing.
//! 6. *The gate tells nothing about who exists.* A challenge names a realm, a
//!    nonce and algorithms, not the user. Known or unknown, the user is looked
//!    up, a digest is computed and compared in constant time, and the answer
//!    to a wrong one is the same. Whether a user may do what he asks is looked
//!    at after the digest, never before.
//!    (A user whom the operator wrote into `[[authentication.lenient]]` is offered other
//!    algorithms than the rest; whether he exists is not in it.)
//! 7. *Credentials go no further.* Those of our realms are cut from what is
//!    forwarded; those of other realms pass untouched, and their challenges go
//!    to the client: this server has no password to answer one with.
//!
//! 8. *A member of a trunk reaches our users and nobody else*
//!    (`docs/decisions/0215-who-is-trusted-because-calls-go-there.md`), and speaks for none of
//!    our domains.
//!
//! 9. *A peer that is known by its certificate speaks for whom that names.* A
//!    [`VerifiedPeer`] comes from the verification of a certificate alone; no
//!    header, no address and no other connection of the same address leads to
//!    one. Its From, and every header that names a caller or a payer, must be in the domains of the
//!    certificate, or in those that the operator wrote down for it.
//!
//! 10. *Nobody pays for another.* Whatever leaves by the tables is on somebody's account: the
//!     sender's, or, where a user of ours forwards his calls, that user's. A [`Forwarder`] is made
//!     of what the operator wrote down of whoever was called, together with the place that stands
//!     there; so a stranger reaches by it no number but that one, and that one only as far as its
//!     owner may call himself. An alias is nobody's account: it is another name for what the
//!     sender has dialled.
//! 11. *Who hides is known here all the same.* From may be `anonymous@anonymous.invalid`
//!     (RFC 3323); the digest says who it is, and what he may do goes by that. Whoever has none is
//!     challenged, and nothing else.
//! 12. *A call for help is led wherever the operator leads it*, past permissions, blocked numbers and
//!     limits: for users and peers, and for the bare emergency number at a domain of ours
//!     (`Permit::for_help`).
//!
//! What it does not promise: a peer that is trusted by its address alone is as
//! trustworthy as that address. Over UDP an address can be forged, which is why claim 1 makes no exception
//! for peers, and why a peer can be bound to TLS (`secure_only`) or to its
//! certificate (`identity`). And a party
//! of a dialog can send anything under the name that it has in that dialog to
//! the contact that the other party has shown, as long as the dialog lives.
//! Two that are in league may show what contacts they like, but for gateways and
//! denied networks: those are shown by whoever is known to be there, and the source of a
//! datagram is no proof of that, unless it is a listed peer's ([`crate::relay`]). What reaches a
//! third from them has the
//! form of a request within a dialog that it does not know, and must be refused
//! there (RFC 3261 12.2.2).

mod forwarder;
mod identity;
mod peers;
mod pending;
mod refusal;
#[cfg(test)]
mod tests;
mod trust;

use std::sync::Arc;

use invariant::broken;
use ledger::{Component, within};
use sip_auth::{Check, Failure, Reply, Side, Verdict};
use sip_hook::Answer;
use sip_lookup::{Outcome, Unavailable};
use sip_msg::header::{AuthValue, NameAddr};
use sip_msg::{HeaderName, Message, Method, Span};

use crate::dialogs::{self, Dialogs};
use crate::hook::HookSettings;
use crate::own::Own;
use crate::proxy::route::Routed;
use crate::refusal::Reason;
use crate::sender::Sender;
use crate::settings::Inbound;
use crate::token::{RouteToken, Tokens};
use crate::{Now, Settings, Shared};

pub use forwarder::Forwarder;
use identity::Proof;
pub(crate) use identity::names_nobody;
use peers::Standing;
pub(crate) use peers::{is_listed, listed, trunks_of};
use pending::Credentials;
pub use pending::Pending;
pub use refusal::Refusal;
pub(crate) use trust::{diversion_lines, identity_lines, is_identity};

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
    /// What the shard remembers of dialogs.
    pub(crate) dialogs: &'a Dialogs,
    /// Which names are this server's.
    pub(crate) own: &'a Own,
    /// Who sent the message.
    pub(crate) sender: &'a Sender,
}

/// A proof that only this module makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal(());

/// Why a request may pass. The payloads are proofs: nobody else can make them.
#[derive(Debug)]
pub enum Permit {
    /// `--no-auth`: everybody may do everything.
    Open(Seal),
    /// A trusted peer, by its address or by its certificate.
    Peer(Seal),
    /// A request within a dialog that this server let through before.
    Dialog(RouteToken),
    /// A user, by digest or, where the operator wants that, by certificate.
    Authenticated(AuthenticatedUser),
    /// A stranger calling one of our users: to the location table and nowhere else.
    Inbound(Seal),
    /// Such a call, which the operator's hook sends on, where it may send strangers' calls
    /// anywhere.
    Directed(Seal),
    /// A member of a trunk: the same, and its word for who calls is taken.
    Trunk(Seal),
    /// A user of ours whose calls are forwarded: where they go is on his account, whoever calls.
    Forwarder(Forwarder),
    /// A call for help of whoever is known here: it goes where the operator leads it.
    Emergency(Seal),
}

/// A user of ours whose credentials were verified for this request, and in
/// whose name it speaks.
#[derive(Debug)]
pub struct AuthenticatedUser {
    proof: Proof,
    /// The address-of-record whose contacts he may change: his own in a
    /// REGISTER, empty in every other request.
    aor: Vec<u8>,
    /// The length of his name without a domain of ours behind it.
    bare_len: usize,
}

impl AuthenticatedUser {
    /// The user's name, unescaped, as it is stored.
    pub fn user(&self) -> &[u8] {
        self.proof.user()
    }

    /// The same without a domain of ours behind it.
    pub(crate) fn bare_name(&self) -> &[u8] {
        let name = self.user();
        name.get(..self.bare_len).unwrap_or(name)
    }

    /// The realm.
    pub fn realm(&self) -> &Arc<str> {
        self.proof.realm()
    }

    /// Appends the value of an Authentication-Info header for a 2xx of this
    /// server's own; false, and nothing written, where it is not configured.
    pub fn write_authentication_info(&self, out: &mut Vec<u8>) -> bool {
        match &self.proof {
            Proof::Digest(proof) => proof.write_authentication_info(out),
            Proof::Certificate(_) => false,
        }
    }
}

impl Permit {
    /// Whether the request may leave for a foreign domain, `--forward` or a gateway.
    pub fn may_relay(&self) -> bool {
        !matches!(self, Self::Inbound(_) | Self::Trunk(_))
    }

    /// Whether the routing tables (domains, prefixes, gateways, `--forward`) may
    /// be asked: not within a dialog, whose route set decides.
    pub fn may_use_routes(&self) -> bool {
        match self {
            Self::Open(_)
            | Self::Peer(_)
            | Self::Authenticated(_)
            | Self::Directed(_)
            | Self::Forwarder(_)
            | Self::Emergency(_) => true,
            Self::Dialog(_) | Self::Inbound(_) | Self::Trunk(_) => false,
        }
    }

    /// Whether the contacts of this canonical address-of-record may be changed.
    pub fn may_bind(&self, aor: &[u8]) -> bool {
        // RFC 3261 10.3: "If the authenticated user is not authorized to modify bindings, the registrar
        // MUST return a 403 (Forbidden) and skip the remaining steps."
        match self {
            Self::Open(_) => true,
            Self::Authenticated(user) => !user.aor.is_empty() && user.aor == aor,
            Self::Peer(_)
            | Self::Dialog(_)
            | Self::Inbound(_)
            | Self::Directed(_)
            | Self::Trunk(_)
            | Self::Forwarder(_)
            | Self::Emergency(_) => false,
        }
    }

    /// Why the request was let in, as records and the operator's hook call it. A listed peer that
    /// may call our users alone has the permit of a stranger, and is none.
    pub(crate) const fn class(&self, is_listed: bool) -> &'static str {
        match self {
            Self::Inbound(_) | Self::Directed(_) if is_listed => "peer",
            Self::Open(_) => "open",
            Self::Peer(_) => "peer",
            Self::Dialog(_) => "dialog",
            Self::Authenticated(_) | Self::Forwarder(_) | Self::Emergency(_) => "user",
            Self::Inbound(_) | Self::Directed(_) => "inbound",
            Self::Trunk(_) => "trunk",
        }
    }

    /// The permit of a request that the operator's hook sends somewhere, by that answer.
    pub(crate) fn directed(self, hook: &HookSettings, _: &Answer) -> Self {
        match self {
            Self::Inbound(_) if hook.may_relay => Self::Directed(Seal(())),
            other => other,
        }
    }

    /// Whether P-Asserted-Identity and what else only elements of a trust domain
    /// say (see [`trust`]) stays as it came; otherwise it is cut.
    pub fn may_assert(&self) -> bool {
        matches!(self, Self::Open(_) | Self::Peer(_) | Self::Trunk(_))
    }

    /// Header lines that must not be forwarded: our realms' credentials, identities that the
    /// sender may not assert, and a stranger's word on who has led his call on. In order,
    /// appended to `spans`.
    // RFC 3261 22.3: "Proxies MUST NOT add values to the Proxy-Authorization header field." It only
    // takes its own away.
    pub fn strip(&self, cx: &GateContext<'_>, message: &Message, spans: &mut Vec<Span>) {
        let start = spans.len();
        if !self.may_assert() {
            for name in [
                HeaderName::PAssertedIdentity,
                HeaderName::PPreferredIdentity,
            ] {
                spans.extend(message.fields_of(name).map(|field| field.line_span));
            }
            spans.extend(trust::lines(message));
        }
        // A stranger would name one of ours, and it would stand behind ours where the call is
        // forwarded. What a listed peer says of how a call came to it, voice mail needs.
        if matches!(self, Self::Inbound(_) | Self::Directed(_))
            && !is_listed(cx.settings, cx.own, cx.sender)
        {
            diversion_lines(message, spans);
        }
        for side in [Side::Proxy, Side::Registrar] {
            if !message.has(side.credentials_header()) {
                continue;
            }
            // RFC 3261 22.3: "When multiple proxies are used in a chain, a Proxy-Authorization header field
            // value MUST NOT be consumed by any proxy whose realm does not match the "realm" parameter
            // specified in that value."
            let is_ours = |realm: AuthValue<'_>| cx.own.realm(cx.settings, &realm).is_some();
            spans.extend(sip_auth::credential_lines_of(message, side, is_ours));
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
    /// Ask the store [`Pending::question`], park, then call [`gate_finish`].
    Lookup(Pending),
    /// Answer with [`Refusal::write`].
    Refuse(Refusal),
    /// Drop it silently, and count it: an ACK without proof.
    Drop,
}

/// Whether a request is a REGISTER for this server's registrar; one for
/// another domain is forwarded like any request (RFC 3261 10.3 step 1).
pub(crate) fn is_registration(own: &Own, message: &Message) -> bool {
    message.method() == Method::Register && message.uri().is_ok_and(|uri| own.is_own_uri(&uri))
}

/// Judges a request: any method but CANCEL, which is matched to its INVITE by
/// the transaction layer and needs nothing else.
pub(crate) fn gate(cx: &GateContext<'_>, message: &Message, routed: &Routed) -> Gate {
    if cx.settings.authenticate.is_none() {
        return Gate::Pass(Permit::Open(Seal(())));
    }
    if is_registration(cx.own, message) {
        return judge_user(cx, message, Side::Registrar);
    }
    let standing = peers::standing(cx, message);
    if standing == (Standing::Listed { may_relay: true }) {
        return Gate::Pass(Permit::Peer(Seal(())));
    }
    if let Some(token) = dialog_token(cx, message, routed) {
        return Gate::Pass(Permit::Dialog(token));
    }
    match standing {
        Standing::SpeaksForOthers(host) => {
            return refuse(message, Refusal::speaks_for_others(host));
        }
        Standing::Listed { .. } if is_for_a_user(cx, message) => {
            return Gate::Pass(Permit::Inbound(Seal(())));
        }
        Standing::Trunk if is_for_a_user(cx, message) || is_at_a_trunk(cx, message) => {
            return Gate::Pass(Permit::Trunk(Seal(())));
        }
        Standing::Listed { .. } | Standing::Trunk => {
            return refuse_foreign(cx, message, Reason::NotForOurUsers);
        }
        Standing::Unlisted => {}
    }
    let Ok(from) = message.from() else {
        return refuse(message, Refusal::malformed("From Header Malformed"));
    };
    let is_ours = from.uri().is_some_and(|uri| identity::is_ours(cx, &uri));
    if is_ours || (identity::is_anonymous(message) && identity::has_credentials(cx, message)) {
        // RFC 3261 22.1: "Servers MUST NOT attempt to challenge an ACK."
        if message.method() == Method::Ack {
            return Gate::Drop;
        }
        return judge_user(cx, message, Side::Proxy);
    }
    judge_stranger(cx, message)
}

/// Judges it again with the store's answer; `Err` when the store could not say. Gives
/// [`Gate::Lookup`] once, where the answer was a cache's and does not match, or that it has
/// nothing: then the store itself must say it.
pub fn gate_finish(
    cx: &GateContext<'_>,
    pending: Pending,
    message: &Message,
    answer: Outcome,
) -> Gate {
    let reply = match answer {
        Ok(reply) => reply,
        Err(unavailable) => {
            let reason = Reason::StoreUnavailable;
            return Gate::Refuse(gate_unavailable(message, reason, Some(unavailable)));
        }
    };
    let side = pending.side;
    let again = match &reply {
        Reply::NotCached => sip_lookup::Why::DigestUncached,
        _ => sip_lookup::Why::DigestAgain,
    };
    let unsettled = match pending.credentials {
        Credentials::Digest(credentials) => {
            let authenticator = &cx.shared.authenticator;
            match within(Component::Authentication, || {
                authenticator.finish(cx.now.unix_ms, credentials, &reply)
            }) {
                Verdict::Ok(proof) => return pass(cx, message, side, Proof::Digest(proof)),
                Verdict::Challenge(failure) => {
                    return challenge(cx, message, side, Some(failure));
                }
                Verdict::AskAgain(credentials) => Credentials::Digest(credentials),
            }
        }
        Credentials::Certificate(user) => match reply {
            Reply::Secret(_) | Reply::Cached(_) => {
                return pass(cx, message, side, Proof::Certificate(user));
            }
            Reply::NotCached => Credentials::Certificate(user),
            // He was removed: his certificate is worth what a wrong password is.
            Reply::Unknown | Reply::Verified(_) => {
                return challenge(cx, message, side, Some(Failure::UnknownUser));
            }
        },
    };
    if pending.why != sip_lookup::Why::Digest {
        broken!("the store itself answers what is asked a second time");
        let reason = Reason::StoreUnavailable;
        return Gate::Refuse(gate_unavailable(message, reason, None));
    }
    Gate::Lookup(Pending {
        credentials: unsettled,
        why: again,
        ..pending
    })
}

/// What the proof of a user lets a request do: it must speak for him.
fn pass(cx: &GateContext<'_>, message: &Message, side: Side, proof: Proof) -> Gate {
    let names_him = |addr: NameAddr<'_>| {
        addr.uri()
            .is_some_and(|uri| identity::names(cx, proof.user(), proof.realm(), &uri))
    };
    let hides = || side == Side::Proxy && identity::is_anonymous(message);
    let is_himself = (message.from().is_ok_and(names_him) || hides())
        && (side == Side::Proxy || message.to().is_ok_and(names_him))
        && message
            .addresses(HeaderName::PAssertedIdentity)
            .all(|identity| identity.is_ok_and(|(addr, _)| names_him(addr)));
    if !is_himself {
        return Gate::Refuse(Refusal::not_himself());
    }
    let mut aor = Vec::new();
    if side == Side::Registrar
        && let Some(to) = message.to().ok().and_then(|to| to.uri())
    {
        crate::aor::write_aor(cx.settings, cx.own, &to, &mut aor);
    }
    Gate::Pass(Permit::Authenticated(AuthenticatedUser {
        bare_len: cx.own.bare_name(proof.user()).len(),
        proof,
        aor,
    }))
}

/// The answer when a look-up took too long, found no room or could not be done: 503 with
/// Retry-After; to a REGISTER 500, as when its bindings cannot be stored.
pub fn gate_unavailable(message: &Message, reason: Reason, why: Option<Unavailable>) -> Refusal {
    let retry_after_s = why.and_then(|why| why.retry_after_s);
    Refusal::unavailable(status_of_later(message), reason, retry_after_s)
}

/// The status of an answer that asks to come again.
fn status_of_later(message: &Message) -> u16 {
    if message.method() == Method::Register {
        500
    } else {
        503
    }
}

/// Judges a request in the name of a user of ours: by his certificate where
/// that stands for his password, else by his digest.
fn judge_user(cx: &GateContext<'_>, message: &Message, side: Side) -> Gate {
    match identity::certified_user(cx, message, side) {
        Some(user) => Gate::Lookup(Pending::new(Credentials::Certificate(user), side)),
        None => judge_credentials(cx, message, side),
    }
}

fn judge_credentials(cx: &GateContext<'_>, message: &Message, side: Side) -> Gate {
    let realm = identity::realm_of(cx, message, side);
    let authenticator = &cx.shared.authenticator;
    match within(Component::Authentication, || {
        let source = Some(cx.sender.flow.remote.ip());
        authenticator.check_from(cx.now.unix_ms, message, side, &realm, source)
    }) {
        Check::Challenge(failure) => challenge_in(realm, side, failure),
        Check::Malformed(malformed) => {
            Gate::Refuse(Refusal::malformed_credentials(malformed.reason))
        }
        Check::Lookup(credentials) => {
            Gate::Lookup(Pending::new(Credentials::Digest(credentials), side))
        }
    }
}

/// Asks for credentials once more, with a nonce that is sent to where the request
/// seems to come from.
pub(crate) fn challenge_there(cx: &GateContext<'_>, message: &Message) -> Gate {
    let side = match is_registration(cx.own, message) {
        true => Side::Registrar,
        false => Side::Proxy,
    };
    let realm = identity::realm_of(cx, message, side);
    Gate::Refuse(Refusal::challenge_there(realm, side))
}

fn challenge(
    cx: &GateContext<'_>,
    message: &Message,
    side: Side,
    failure: Option<Failure>,
) -> Gate {
    challenge_in(identity::realm_of(cx, message, side), side, failure)
}

fn challenge_in(realm: Arc<str>, side: Side, failure: Option<Failure>) -> Gate {
    Gate::Refuse(Refusal::challenge(realm, side, failure))
}

/// Judges a request whose From is in no domain of ours.
fn judge_stranger(cx: &GateContext<'_>, message: &Message) -> Gate {
    // Who proved whom it speaks for is held to it, whoever else is let in.
    if cx.settings.inbound != Inbound::Trusted
        && let Some(peer) = cx.sender.peer.as_deref()
        && let Some(host) = peers::first_unproven(cx, peer, message)
    {
        return refuse(message, Refusal::speaks_for_others(host));
    }
    let claims_a_user = message
        .addresses(HeaderName::PAssertedIdentity)
        .any(|identity| {
            identity.map_or(true, |(addr, _)| {
                addr.uri().is_some_and(|uri| identity::is_ours(cx, &uri))
            })
        });
    let is_let_in = match cx.settings.inbound {
        Inbound::Trusted => false,
        Inbound::Proven => cx.sender.peer.is_some(),
        Inbound::Anyone => true,
    };
    let reason = match is_let_in {
        true if claims_a_user => Reason::AssertsOurUser,
        // He may be a user of ours, and then he may.
        true if !is_for_a_user(cx, message) && identity::is_anonymous(message) => {
            return asked_who_hides(cx, message);
        }
        true if !is_for_a_user(cx, message) => Reason::NotForOurUsers,
        true => return Gate::Pass(Permit::Inbound(Seal(()))),
        // He may be a user of ours, and then he can show it.
        false if identity::is_anonymous(message) => return asked_who_hides(cx, message),
        false => Reason::ForeignFrom,
    };
    refuse_foreign(cx, message, reason)
}

fn asked_who_hides(cx: &GateContext<'_>, message: &Message) -> Gate {
    let realm = identity::realm_of(cx, message, Side::Proxy);
    refuse(message, Refusal::challenge_anonymous(realm))
}

/// The challenge to a caller who hides, was let in as a stranger, and may do more as a user: he is
/// asked whether he is one. `None` for everybody else.
pub(crate) fn ask_who_hides(cx: &GateContext<'_>, message: &Message) -> Option<Refusal> {
    let hides = message.method() != Method::Ack && identity::is_anonymous(message);
    hides.then(|| Refusal::challenge_anonymous(identity::realm_of(cx, message, Side::Proxy)))
}

/// Whether a request is for one of our users.
fn is_for_a_user(cx: &GateContext<'_>, message: &Message) -> bool {
    message
        .uri()
        .is_ok_and(|uri| uri.user.is_some() && cx.own.is_own_uri(&uri))
}

/// Whether a request is for a number at the domain of a trunk: providers call their customers
/// so.
fn is_at_a_trunk(cx: &GateContext<'_>, message: &Message) -> bool {
    let trunks = cx.settings.routes.groups.iter();
    let mut trunks = trunks.filter_map(|group| group.trunk.as_ref());
    message.uri().is_ok_and(|uri| {
        let host = uri.host_port.host;
        uri.user.is_some() && trunks.any(|trunk| trunk.domain.as_bytes().eq_ignore_ascii_case(host))
    })
}

/// The refusal of a stranger, or of a request for none of our users. Until all of our domains are
/// known, one of those may be meant: it is to come again. It is the sender's all the same, who is
/// charged for it and of whom nothing is kept: anybody can write a foreign name.
fn refuse_foreign(cx: &GateContext<'_>, message: &Message, reason: Reason) -> Gate {
    let auth = cx.settings.authenticate.as_ref();
    let refusal = match auth.is_none_or(|auth| auth.knows_all_domains) {
        true => Refusal::forbidden(reason),
        false => Refusal::later(status_of_later(message), reason),
    };
    refuse(message, refusal)
}

/// A refusal; an ACK, which has no response, is dropped.
fn refuse(message: &Message, refusal: Refusal) -> Gate {
    if message.method() == Method::Ack {
        Gate::Drop
    } else {
        Gate::Refuse(refusal)
    }
}

/// Whether a request is shown by its token to be part of a dialog that was let in
/// before, whoever sends it.
pub(crate) fn is_within(cx: &GateContext<'_>, message: &Message, routed: &Routed) -> bool {
    dialog_token(cx, message, routed).is_some()
}

/// The token of a request within a dialog. What is judged is what will be
/// routed: the request as it is after the preprocessing of its routes. Its
/// target must be one that the dialog has shown; one of our users by his name,
/// or a number, is a new request's, and so is a REGISTER.
fn dialog_token(cx: &GateContext<'_>, message: &Message, routed: &Routed) -> Option<RouteToken> {
    let standing = standing_of_token(cx, message, routed)?;
    routed.grant.filter(|_| standing == dialogs::Standing::Part)
}

/// What the token of a request is good for; `None` for one that is part of no dialog by its token.
pub(crate) fn standing_of_token(
    cx: &GateContext<'_>,
    message: &Message,
    routed: &Routed,
) -> Option<dialogs::Standing> {
    let token = routed.grant?;
    let target = routed.uri(message)?;
    if message.method() == Method::Register || !target.is_sip() || cx.own.is_own_uri(&target) {
        return None;
    }
    let lifetime_s = cx.settings.proxy.dialog_token_lifetime_s;
    let (dialogs, tokens) = (cx.dialogs, cx.tokens);
    Some(dialogs.judge(cx.now, lifetime_s, tokens, &token, message, &target))
}
