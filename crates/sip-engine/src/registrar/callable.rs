//! Which contacts may be bound: those that a call can go to, as they ask to be
//! called, and that lead to somebody else.

use sip_msg::uri::Scheme;
use sip_msg::{HeaderName, Message, Uri};

use super::contacts::Asked;
use super::plan::Refused;
use super::{RegistrarContext, Registration};
use crate::own::{Own, uri_port};

/// Refuses a contact that is not to be bound.
pub(super) fn check(
    cx: &RegistrarContext<'_>,
    registration: &Registration,
    asked: &Asked<'_>,
) -> Result<(), Refused> {
    // RFC 3261 26.2.2 has TLS on every hop to a SIPS URI. A phone that registers one over a
    // way in the clear would be called by that way, or by none.
    if asked.uri.scheme == Scheme::Sips && !registration.flow.transport.is_secure() {
        return Err(Refused::BadContact("SIPS Contact Needs TLS"));
    }
    // A call to it would come back: a loop, or with several such contacts a tree of them.
    let path = first_path(&registration.request);
    if is_this_server(cx.own, &asked.uri) || path.is_some_and(|uri| is_this_server(cx.own, &uri)) {
        return Err(Refused::BadContact("Contact Is This Server"));
    }
    Ok(())
}

/// The first hop on the way to the contacts, where there is one (RFC 3327).
fn first_path(request: &Message) -> Option<Uri<'_>> {
    let first = request.addresses(HeaderName::Path).next()?;
    first.ok()?.0.uri()
}

/// Whether a request for this URI would be sent to this server.
fn is_this_server(own: &Own, uri: &Uri<'_>) -> bool {
    match uri.param("maddr") {
        Some(maddr) => uri.is_sip() && own.is_own_host_at(maddr, uri_port(uri)),
        None => own.is_own_uri(uri),
    }
}
