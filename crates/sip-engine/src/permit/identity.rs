//! Whom a URI names, and which realm his credentials are of.

use std::sync::Arc;

use sip_auth::{Authenticated, Side};
use sip_msg::{Message, Uri};

use super::GateContext;
use crate::Settings;
use crate::aor::domain_of;

/// The realm of a server that was given neither realm nor domain.
const DEFAULT_REALM: &str = "signet";

/// Whether a URI is in our domains. The port is left aside: `example.org:5099`
/// reads like `example.org` to whom it is shown.
pub(super) fn is_ours(cx: &GateContext<'_>, uri: &Uri<'_>) -> bool {
    uri.is_sip() && cx.own.is_own_host(uri.host_port.host)
}

/// Whether a URI names the user whose credentials were verified.
pub(super) fn names(cx: &GateContext<'_>, proof: &Authenticated, uri: &Uri<'_>) -> bool {
    let Some(user) = uri.user else {
        return false;
    };
    if !is_ours(cx, uri) || *realm_of_host(cx.settings, uri.host_port.host) != **proof.realm() {
        return false;
    }
    if !user.contains(&b'%') {
        return user == proof.user();
    }
    let mut unescaped = Vec::with_capacity(user.len());
    uri.write_user(&mut unescaped);
    unescaped == proof.user()
}

/// The realm in which the sender of a request is challenged: that of the user
/// whom it names, which is To's in a REGISTER and From's in any other.
pub(super) fn realm_of(cx: &GateContext<'_>, message: &Message, side: Side) -> Arc<str> {
    let addr = match side {
        Side::Registrar => message.to(),
        Side::Proxy => message.from(),
    };
    let named = addr
        .ok()
        .and_then(|addr| addr.uri())
        .filter(|uri| is_ours(cx, uri));
    let uri = named.or_else(|| message.uri().ok());
    realm_of_host(cx.settings, uri.map_or(&[], |uri| uri.host_port.host))
}

/// Every realm that this server challenges in.
pub(super) fn realms(settings: &Settings) -> impl Iterator<Item = &str> {
    let configured = settings
        .authenticate
        .as_ref()
        .map(|auth| auth.realm.as_deref());
    let domains = matches!(configured, Some(None)).then_some(settings.domains.iter());
    let fallback = matches!(configured, Some(None)) && settings.domains.is_empty();
    configured
        .flatten()
        .into_iter()
        .chain(domains.into_iter().flatten().map(|domain| &**domain))
        .chain(fallback.then_some(DEFAULT_REALM))
}

fn realm_of_host(settings: &Settings, host: &[u8]) -> Arc<str> {
    let configured = settings
        .authenticate
        .as_ref()
        .and_then(|auth| auth.realm.as_ref());
    let realm = configured
        .or_else(|| domain_of(settings, host))
        .or(settings.domains.first());
    realm.map_or_else(|| DEFAULT_REALM.into(), Arc::clone)
}
