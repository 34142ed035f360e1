//! What a REGISTER says of its contacts, and of the way that it came.

use std::net::SocketAddr;
use std::sync::Arc;

use sip_msg::header::ContactAddr;
use sip_msg::{Flow, HeaderName, Message, Transport, Uri};

use super::Registration;
use super::plan::Refused;
use crate::nat::{Nat, shows_translation};
use crate::{Binding, Settings};

/// The most bytes of a URI, a Call-ID or an instance that are kept.
pub(super) const LONG: usize = 512;
/// The most bytes of a Path.
const PATH_MAX: usize = 2_048;
/// The most bytes of a User-Agent; what is longer is cut.
const USER_AGENT_MAX: usize = 64;

/// What is the same for all contacts of a request.
pub(super) struct Flows<'m> {
    request: &'m Message,
    /// The flow that the phone itself is at the other end of, where that is how it is
    /// reached whatever its contact says.
    flow: Option<Flow>,
    /// The same where its contact may yet show that it is.
    maybe: Option<Flow>,
    /// Whether `reg-id` counts: the first hop keeps the flow (RFC 5626 6).
    keeps_flow: bool,
    /// Whether Via shows an address translation before the phone.
    is_translated: bool,
    node: &'m Arc<str>,
    /// Where the request itself came from.
    source: (Transport, SocketAddr),
}

/// A contact of the request.
pub(super) struct Asked<'m> {
    uri: Uri<'m>,
    q: u16,
    instance: Option<&'m [u8]>,
    /// Only beside an instance, and where it counts.
    reg_id: Option<u32>,
}

impl<'m> Flows<'m> {
    pub(super) fn of(
        settings: &Settings,
        registration: &'m Registration,
        node: &'m Arc<str>,
    ) -> Result<Self, Refused> {
        let request = &*registration.request;
        let is_direct = is_direct(request);
        // RFC 5626 6: outbound works only where the flow ends here, or at an
        // edge proxy that said so by `ob` in its Path.
        let keeps_flow = is_direct || first_path_has_ob(request);
        let is_asked = || {
            request
                .contacts()
                .any(|c| matches!(c, Ok(sip_msg::header::Contact::Addr(c)) if is_outbound(&c)))
        };
        // The RFC has 439 for it. Phones send `reg-id` whatever stands before them, and
        // one that is refused for it is reached by nobody: it is bound as one without.
        if settings.registrar.outbound_needs_ob
            && !keeps_flow
            && request.has_option(HeaderName::Supported, "outbound")
            && is_asked()
        {
            return Err(Refused::NoOutbound);
        }
        let path_len: usize = request
            .values(HeaderName::Path)
            .map(|(value, _)| value.len() + 2)
            .sum();
        if path_len > PATH_MAX {
            return Err(Refused::Malformed("Path Too Long"));
        }
        let flow = &registration.sender.flow;
        let nat = settings.nat.of(flow);
        let wants_flow = is_direct && wants_flow(request, flow, nat);
        Ok(Self {
            request,
            flow: wants_flow.then_some(*flow),
            maybe: (is_direct && nat == Nat::Auto).then_some(*flow),
            keeps_flow,
            is_translated: is_direct && is_translated(request, flow),
            node,
            source: (
                registration.sender.flow.transport,
                registration.sender.flow.remote,
            ),
        })
    }

    /// The binding that a contact becomes, which was first bound at `since_unix_ms`.
    pub(super) fn binding(
        &self,
        asked: &Asked<'_>,
        call_id: &[u8],
        cseq: u32,
        since_unix_ms: u64,
        expires_unix_ms: u64,
    ) -> Binding {
        let flow = self.flow.or_else(|| self.flow_to(&asked.uri));
        Binding {
            uri: asked.uri.raw.into(),
            q: asked.q,
            expires_unix_ms,
            call_id: call_id.into(),
            cseq,
            instance: asked.instance.map(Into::into),
            reg_id: asked.reg_id,
            path: path(self.request),
            flow,
            user_agent: user_agent(self.request),
            node: Arc::clone(self.node),
            since_unix_ms,
            source: Some(self.source),
            is_translated: self.is_translated,
            had_flow: flow.is_some(),
        }
    }

    /// The flow, where this contact shows that it is how the phone is reached.
    fn flow_to(&self, contact: &Uri<'_>) -> Option<Flow> {
        // What the port in Via shows was looked at with Via.
        let shows = |flow: &Flow| shows_translation(contact, flow, false);
        self.maybe.filter(shows)
    }
}

impl<'m> Asked<'m> {
    pub(super) fn new(contact: &ContactAddr<'m>, flows: &Flows<'_>) -> Result<Self, Refused> {
        let instance = contact
            .addr
            .param("+sip.instance")
            .filter(|instance| !instance.is_empty());
        let reg_id = reg_id(contact).filter(|_| flows.keeps_flow && instance.is_some());
        if contact.uri.raw.len() > LONG || instance.is_some_and(|instance| instance.len() > LONG) {
            return Err(Refused::Malformed("Contact Too Long"));
        }
        Ok(Self {
            uri: contact.uri,
            q: contact.q,
            instance,
            reg_id,
        })
    }

    /// Whether this contact is that binding.
    pub(super) fn is(&self, key: &[u8], binding: &Binding) -> bool {
        match (self.reg_id, binding.reg_id) {
            // RFC 5626 6: with reg-id and instance a new flow replaces the old
            // one of the same name, whatever its URI.
            (Some(mine), Some(its)) => mine == its && self.instance == binding.instance.as_deref(),
            // RFC 3261 10.3: "For each address, the registrar then searches the list of current bindings
            // using the URI comparison rules."
            (None, None) => {
                key == self.uri.raw
                    || Uri::parse(&binding.uri).is_some_and(|uri| uri.equals(&self.uri))
            }
            _ => false,
        }
    }

    /// The identity of a contact that is new. A URI holds no `<`, with which an
    /// instance and its flow begin.
    pub(super) fn key(&self) -> Arc<[u8]> {
        match (self.instance, self.reg_id) {
            (Some(instance), Some(reg_id)) => [b"<", reg_id.to_string().as_bytes(), b">", instance]
                .concat()
                .into(),
            _ => self.uri.raw.into(),
        }
    }
}

fn reg_id(contact: &ContactAddr<'_>) -> Option<u32> {
    let text = std::str::from_utf8(contact.addr.param("reg-id")?).ok()?;
    text.parse().ok().filter(|&reg_id| reg_id > 0)
}

fn is_outbound(contact: &ContactAddr<'_>) -> bool {
    contact.addr.param("+sip.instance").is_some() && reg_id(contact).is_some()
}

/// Whether the phone itself is at the other end of the flow.
pub(super) fn is_direct(request: &Message) -> bool {
    request.values(HeaderName::Via).take(2).count() == 1
}

fn first_path_has_ob(request: &Message) -> bool {
    let first = request
        .addresses(HeaderName::Path)
        .next()
        .and_then(Result::ok);
    first
        .and_then(|(addr, _)| addr.uri())
        .is_some_and(|uri| uri.has_param("ob"))
}

/// Whether calls must go back the way that the REGISTER came. A connection is
/// the only way to a phone behind it. A datagram's source is better than the
/// contact's address where a NAT stands between, which the Via tells: its
/// address is not the source's, or only its port is not, and the phone asked
/// for that (RFC 3581).
fn wants_flow(request: &Message, flow: &Flow, nat: Nat) -> bool {
    if flow.transport.is_reliable() || nat == Nat::Always {
        return true;
    }
    if nat == Nat::Never {
        return false;
    }
    let Ok(via) = request.top_via() else {
        return false;
    };
    let port = via.sent_by.port.unwrap_or(flow.transport.default_port());
    match via.sent_by.ip() {
        Some(ip) if ip.to_canonical() != flow.remote.ip().to_canonical() => true,
        Some(_) => via.rport.is_some() && port != flow.remote.port(),
        None => via.rport.is_some(),
    }
}

/// Whether Via has another address than the one that the request came from.
fn is_translated(request: &Message, flow: &Flow) -> bool {
    let via = request.top_via().ok();
    let own = via.and_then(|via| via.sent_by.ip());
    own.is_some_and(|ip| ip.to_canonical() != flow.remote.ip().to_canonical())
}

/// RFC 3327 5.3: what is stored is what will be the Route, in the same order.
fn path(request: &Message) -> Box<[u8]> {
    if !request.has(HeaderName::Path) {
        return Box::default();
    }
    let mut path = Vec::new();
    for (value, _) in request.values(HeaderName::Path) {
        if !path.is_empty() {
            path.extend_from_slice(b", ");
        }
        path.extend(value.iter().map(unfolded));
    }
    path.into()
}

fn user_agent(request: &Message) -> Box<[u8]> {
    let value = request
        .first(HeaderName::UserAgent)
        .map_or(&[][..], |field| field.value);
    value.iter().take(USER_AGENT_MAX).map(unfolded).collect()
}

/// A folded line is one line (RFC 3261 7.3.1).
fn unfolded(byte: &u8) -> u8 {
    if byte.is_ascii_control() { b' ' } else { *byte }
}
