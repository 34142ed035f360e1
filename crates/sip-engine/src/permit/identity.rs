//! Whom a URI names, and which realm his credentials are of.

use std::sync::Arc;

use sip_auth::{Algorithm, Authenticated, Side, Subject};
use sip_msg::header::{AuthValue, NameAddr};
use sip_msg::{HeaderName, Message, Uri};

use super::GateContext;
use super::peers::is_same_user;

/// By what a user proved who he is.
#[derive(Debug)]
pub(super) enum Proof {
    Digest(Authenticated),
    Certificate(CertifiedUser),
}

impl Proof {
    /// The user's name, unescaped.
    pub(super) fn user(&self) -> &[u8] {
        match self {
            Self::Digest(proof) => proof.user(),
            Self::Certificate(user) => &user.user,
        }
    }

    pub(super) fn realm(&self) -> &Arc<str> {
        match self {
            Self::Digest(proof) => proof.realm(),
            Self::Certificate(user) => &user.realm,
        }
    }
}

/// A user of ours whose own certificate was shown on the connection that a
/// request came by: [`certified_user`] alone makes one.
#[derive(Debug)]
pub(super) struct CertifiedUser {
    user: Vec<u8>,
    realm: Arc<str>,
    /// By which HA1 of his it is found out whether there still is such a user.
    pub(super) algorithm: Algorithm,
}

impl CertifiedUser {
    pub(super) fn subject(&self) -> Subject {
        Subject::new(&self.user, self.realm.clone())
    }
}

/// The user in whose name a request speaks, if the certificate that its
/// connection was opened with bears his SIP URI, and its listener takes that
/// for his password. A domain in a certificate makes nobody a user.
pub(super) fn certified_user(
    cx: &GateContext<'_>,
    message: &Message,
    side: Side,
) -> Option<CertifiedUser> {
    let listener = cx
        .settings
        .listeners
        .get(usize::from(cx.sender.flow.listener.0))?;
    let peer = cx.sender.peer.as_deref().filter(|peer| peer.is_client())?;
    // Who was removed has his certificate still, so it must be known who was.
    let is_told_who_exists = cx
        .settings
        .authenticate
        .as_ref()
        .is_some_and(|auth| auth.tells_unknown_users);
    if !listener.certificates_authenticate
        || !is_told_who_exists
        || !cx.sender.flow.transport.is_secure()
    {
        return None;
    }
    let of = |addr: NameAddr<'_>, known: &Uri<'_>| {
        addr.uri().is_some_and(|uri| is_same_user(known, &uri))
    };
    let uris = peer.uris().iter();
    let known = uris
        .filter_map(|uri| Uri::parse(uri.as_bytes()))
        // A user is of a domain of ours, not of an address.
        .filter(|known| known.is_sip() && cx.own.is_domain(known.host_port.host))
        .find(|known| {
            message.from().is_ok_and(|from| of(from, known))
                && (side == Side::Proxy || message.to().is_ok_and(|to| of(to, known)))
        })?;
    let mut user = Vec::new();
    known.write_user(&mut user);
    Some(CertifiedUser {
        user,
        realm: cx.own.realm_of(cx.settings, known.host_port.host),
        algorithm: cx.shared.authenticator.config().commonest(),
    })
}

/// Whether a URI is in our domains. The port is left aside: `example.org:5099`
/// reads like `example.org` to whom it is shown.
pub(super) fn is_ours(cx: &GateContext<'_>, uri: &Uri<'_>) -> bool {
    uri.is_sip() && cx.own.is_own_host(uri.host_port.host)
}

/// Whether From is that of a caller who does not say who he is.
pub(super) fn is_anonymous(message: &Message) -> bool {
    let from = message.from().ok().and_then(|from| from.uri());
    from.is_some_and(|uri| names_nobody(&uri))
}

/// Whether a URI in the place of a caller's says nothing of him. Another user before that host would
/// be shown, a number for example, and nobody has vouched for it.
// RFC 3323 4.1.1.3 has `sip:anonymous@anonymous.invalid` in that place.
pub(crate) fn names_nobody(uri: &Uri<'_>) -> bool {
    let host = uri.host_port.host;
    let is_nowhere = uri.is_sip() && host.eq_ignore_ascii_case(b"anonymous.invalid");
    let user = uri.user_bytes().map(|byte| byte.to_ascii_lowercase());
    is_nowhere && uri.password.is_none() && (uri.user.is_none() || user.eq(*b"anonymous"))
}

/// Whether there are credentials for one of our realms.
pub(super) fn has_credentials(cx: &GateContext<'_>, message: &Message) -> bool {
    claimed_realm(cx, message).is_some()
}

/// The first of our realms for which there are credentials.
fn claimed_realm(cx: &GateContext<'_>, message: &Message) -> Option<Arc<str>> {
    let is_ours = |realm: AuthValue<'_>| cx.own.realm(cx.settings, &realm).is_some();
    let claimed = sip_auth::claimed(message, Side::Proxy, is_ours)?;
    cx.own.realm(cx.settings, &claimed.realm)
}

/// Whether a URI names the user whose credentials were verified, by the name before the
/// domain or by both: phones write `alice@example.org` for alice of example.org.
pub(super) fn names(cx: &GateContext<'_>, proven: &[u8], realm: &str, uri: &Uri<'_>) -> bool {
    let Some(user) = uri.user else {
        return false;
    };
    let host = uri.host_port.host;
    if !is_ours(cx, uri) || *cx.own.realm_of(cx.settings, host) != *realm {
        return false;
    }
    let is_of = |domain: &Arc<str>| {
        let named = cx.own.domain(host).or(cx.settings.domains.first());
        named == Some(domain)
    };
    let is_named_whole =
        |(bare, domain): (&[u8], &Arc<str>)| is_of(domain) && is_spelt(uri, user, bare);
    is_spelt(uri, user, proven) || cx.own.with_domain(proven).is_some_and(is_named_whole)
}

/// The user of whom a request says that it is his, unescaped; empty where that is none of
/// ours.
pub(super) fn named_user(cx: &GateContext<'_>, message: &Message, side: Side) -> Vec<u8> {
    let mut user = Vec::new();
    let addr = match side {
        Side::Registrar => message.to(),
        Side::Proxy => message.from(),
    };
    if let Some(uri) = addr.ok().and_then(|addr| addr.uri())
        && is_ours(cx, &uri)
    {
        uri.write_user(&mut user);
    }
    user
}

/// Whether the user of a URI is that name, unescaped.
fn is_spelt(uri: &Uri<'_>, user: &[u8], proven: &[u8]) -> bool {
    if !user.contains(&b'%') {
        return user == proven;
    }
    let mut unescaped = Vec::with_capacity(user.len());
    uri.write_user(&mut unescaped);
    unescaped == proven
}

/// The realm in which the sender of a request is challenged: that of the user
/// whom it names, which is To's in a REGISTER and From's in any other.
// RFC 3261 22.1: "Operators of user agents or proxy servers that will authenticate received requests
// MUST adhere to the following guidelines for creation of a realm string for their server:" and "Realm
// strings MUST be globally unique." A domain's name is; who has none gives one.
pub(super) fn realm_of(cx: &GateContext<'_>, message: &Message, side: Side) -> Arc<str> {
    let addr = match side {
        Side::Registrar => message.to(),
        Side::Proxy => message.from(),
    };
    let named = addr
        .ok()
        .and_then(|addr| addr.uri())
        .filter(|uri| is_ours(cx, uri));
    // Who hides says by his credentials of which realm he is or, before he has any, by the
    // identity that he would have asserted (RFC 3325 9.2).
    if side == Side::Proxy && is_anonymous(message) {
        if let Some(realm) = claimed_realm(cx, message) {
            return realm;
        }
        let preferred = message.addresses(HeaderName::PPreferredIdentity).next();
        let preferred = preferred.and_then(|of| of.ok()?.0.uri());
        if let Some(uri) = preferred.filter(|uri| is_ours(cx, uri)) {
            return cx.own.realm_of(cx.settings, uri.host_port.host);
        }
    }
    let uri = named.or_else(|| message.uri().ok());
    let host = uri.map_or(&[][..], |uri| uri.host_port.host);
    cx.own.realm_of(cx.settings, host)
}
