//! Which contacts may be bound: those that a call can go to, as they ask to be
//! called, and that lead where a user's words may lead.

use sip_locate::{Located, locate_uri};
use sip_msg::Uri;
use sip_msg::uri::Scheme;

use super::contacts::is_direct;
use super::plan::Refused;
use super::{RegistrarContext, Registration};
use crate::location::Binding;
use crate::own::{Own, uri_port};
use crate::proxy::egress::{first_path, flow_of};
use crate::proxy::outcome::Outcome;
use crate::relay::Relay;

/// Refuses a contact that is not to be bound. One that leads to where not
/// everybody may send keeps the flow that it was registered by, as the proof of
/// who said so.
pub(super) fn check(
    cx: &RegistrarContext<'_>,
    registration: &Registration,
    binding: &mut Binding,
) -> Result<(), Refused> {
    let flow = registration.sender.flow;
    let Located::Hop { hop, .. } = locate(cx.own, binding, flow.transport.is_secure())? else {
        return Ok(());
    };
    let relay = Relay {
        settings: cx.settings,
        own: cx.own,
        gateways: cx.gateways,
        now_ms: cx.now.mono_ms,
    };
    if !relay.is_watched(hop.addr) {
        return Ok(());
    }
    if binding.flow.is_none() && is_direct(&registration.request) {
        (binding.flow, binding.had_flow) = (Some(flow), true);
    }
    // Along its own flow a phone is called whatever its contact says.
    if binding.path.is_empty() && flow_of(&cx.settings.nat, binding).is_some() {
        return Ok(());
    }
    let judged = relay.judge_contact(&flow, hop.addr);
    judged.map_err(|outcome| {
        Refused::BadContact(match outcome {
            Outcome::NamesGateway => "Contact Is A Gateway",
            _ => "Contact Is In A Network That Is Not Relayed To",
        })
    })
}

/// Where a contact leads, by its Path or by itself, where that may be.
fn locate(own: &Own, binding: &Binding, is_flow_secure: bool) -> Result<Located, Refused> {
    let uri = Uri::parse(&binding.uri).ok_or(Refused::Malformed("Contact Header Malformed"))?;
    // RFC 3261 26.2.2 has TLS on every hop to a SIPS URI. A phone that registers one over a
    // way in the clear would be called by that way, or by none.
    if uri.scheme == Scheme::Sips && !is_flow_secure {
        return Err(Refused::BadContact("SIPS Contact Needs TLS"));
    }
    let path = first_path(binding).and_then(Uri::parse);
    // A call to it would come back: a loop, or with several such contacts a tree of them.
    if is_this_server(own, &uri) || path.is_some_and(|path| is_this_server(own, &path)) {
        return Err(Refused::BadContact("Contact Is This Server"));
    }
    Ok(locate_uri(&path.unwrap_or(uri), false, own.reach()))
}

/// Whether a request for this URI would be sent to this server.
fn is_this_server(own: &Own, uri: &Uri<'_>) -> bool {
    match uri.param("maddr") {
        Some(maddr) => uri.is_sip() && own.is_own_host_at(maddr, uri_port(uri)),
        None => own.is_own_uri(uri),
    }
}
