//! The egress of copies (RFC 3261 16.6 step 7): to which address a target leads, by
//! which flow, over which transport, with which Request-URI.

use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

use sip_locate::{Hop, Located, Query, Refusal, locate_uri};
use sip_msg::uri::Scheme;
use sip_msg::{Flow, ListenerId, Span, Target, Transport, Uri};
use siphasher::sip::SipHasher13;

use super::context::{Candidate, Context, TargetKind};
use crate::hops;
use crate::location::Binding;
use crate::nat::{Nat, NatSettings, is_hidden, is_private, names_source};
use crate::park::Asker;
use crate::relay::{Came, ChosenBy, Reached, Relay};
use crate::routes::NextHop;
use crate::{Now, Shard};

/// A request longer than this goes over a stream where the choice is ours
/// (RFC 3261 18.1.1).
const DATAGRAM_BYTES_MAX: usize = 1_300;
/// The most bytes that forwarding usually adds to a request.
const ADDED_BYTES: usize = 300;
/// The most bytes that an engine usually adds to a session description: addresses, and a line or two
/// for each stream.
const MEDIA_BYTES: usize = 300;

/// What says how long a copy of a request will be.
#[derive(Clone, Copy)]
pub(crate) struct Draft<'a> {
    pub(crate) request: &'a sip_msg::Message,
    /// The lines of it that go no further.
    pub(crate) strip: &'a [Span],
    /// The lines that the operator's hook adds.
    pub(crate) told: &'a [u8],
    /// Whether an engine has the media of its dialog.
    pub(crate) is_led: bool,
}

/// How one copy leaves.
#[derive(Clone)]
pub(crate) struct Egress {
    pub(crate) to: Target,
    pub(crate) local: SocketAddr,
    pub(crate) flow: Option<Flow>,
}

impl Shard {
    /// The address or name that a context's target leads to; `None` where it is a flow.
    pub(super) fn locate_target(&self, context: &Context, at: usize) -> Option<Located> {
        let request = context.request.as_deref()?;
        let candidate = context.candidates.get(at)?;
        // RFC 3261 16.6: "Independently of which URI is being used as input to the
        // procedures of [4], if the Request-URI specifies a SIPS resource, the proxy MUST
        // follow the procedures of [4] as if the input URI were a SIPS URI." and
        // "Furthermore, if the Request-URI contains a SIPS URI, TLS MUST be used to
        // communicate with that proxy."
        let secure = context.routed.is_secure();
        self.locate(&candidate.kind, request, &context.routed, secure)
    }

    /// The address or name that a target leads to; `None` where it is a flow.
    pub(crate) fn locate(
        &self,
        kind: &TargetKind,
        request: &sip_msg::Message,
        routed: &super::route::Routed,
        secure: bool,
    ) -> Option<Located> {
        let reach = self.own.reach();
        let of = |uri: Option<Uri<'_>>| match uri {
            Some(uri) => locate_uri(&uri, secure, reach),
            None => Located::Nowhere(Refusal::NoSipUri),
        };
        match kind {
            TargetKind::Token(_) => None,
            // RFC 3261 16.6: "Otherwise, the proxy MUST apply the procedures to the first
            // value in the Route header field, if present, else the Request-URI." and "If the
            // proxy has reformatted the request to send to a strict-routing element as
            // described in step 6 above, the proxy MUST apply those procedures to the
            // Request-URI of the request." In either case that is the first Route left.
            TargetKind::Routed => Some(match routed.next_route {
                Some(next) => of(Uri::parse(request.slice(next))),
                None => of(routed.uri(request)),
            }),
            TargetKind::Contact(binding) if !binding.path.is_empty() => {
                Some(of(first_path(binding).and_then(Uri::parse)))
            }
            TargetKind::Contact(binding) if flow_of(&self.settings.nat, binding).is_some() => None,
            TargetKind::Contact(binding) => Some(of(Uri::parse(&binding.uri))),
            TargetKind::Uri(uri) => Some(of(Uri::parse(uri))),
            // RFC 3261 16.6: "Such a policy MUST NOT be used if the proxy is not certain that the
            // IP address, port, and transport correspond to a server that is a loose router."
            // and "If the request has a Route header field, this alternative MUST NOT be used
            // unless it is known that next hop proxy is a loose router." The operator named
            // it for that, and a request with a Route that is left never gets here.
            TargetKind::NextHops { hops, at, .. } => hops
                .get(usize::from(*at))
                .map(|next| hops::of_next_hop(next, secure, reach)),
        }
    }

    /// Whose limit counts the resolution of a name: the user's who sends this, else the
    /// source's. `None` for a configured name, and where there are no users.
    pub(super) fn asker(
        &self,
        query: &Query,
        chosen_by: ChosenBy,
        came_by: &Flow,
        request: &sip_msg::Message,
    ) -> Option<Asker> {
        if query.is_configured || self.settings.authenticate.is_none() {
            return None;
        }
        let mut hasher = SipHasher13::new_with_key(&self.keys.tags);
        // Who speaks as one of our users without a peer's word has proved to be him.
        let is_known = |from: &sip_msg::header::NameAddr<'_>| {
            let uri = Uri::parse(from.uri);
            let is_ours = uri.is_some_and(|uri| self.own.is_domain(uri.host_port.host));
            chosen_by != ChosenBy::User || is_ours
        };
        match request.from() {
            Ok(from) if is_known(&from) => hasher.write(from.uri),
            _ => came_by.remote.ip().hash(&mut hasher),
        }
        Some(Asker(hasher.finish()))
    }

    /// The next egress to a target that was not tried yet.
    pub(crate) fn next_egress(
        &mut self,
        now: Now,
        came: &Came<'_>,
        draft: Option<Draft<'_>>,
        candidate: &mut Candidate,
    ) -> Option<Egress> {
        if candidate.hops.is_empty() {
            let is_first = candidate.tried == 0;
            candidate.tried = 1;
            let flow = match &candidate.kind {
                TargetKind::Token(flow) => Some(*flow),
                TargetKind::Contact(binding) if binding.path.is_empty() => {
                    flow_of(&self.settings.nat, binding)
                }
                _ => None,
            };
            return flow.filter(|_| is_first).map(|flow| Egress {
                to: flow_target(&flow, &candidate.kind),
                local: flow.local,
                flow: Some(flow),
            });
        }
        loop {
            let hop = match candidate.take_datagram() {
                Some(datagram) => datagram,
                None => {
                    let hop = candidate.hops.get(usize::from(candidate.tried))?.clone();
                    candidate.tried = candidate.tried.checked_add(1)?;
                    match draft {
                        Some(draft) => self.streamed(came, draft, hop, candidate),
                        None => hop,
                    }
                }
            };
            let reached = match self.relay(now).judge(came, &candidate.kind, &hop) {
                Ok(reached) => reached,
                Err(outcome) => {
                    self.counters.relays_refused += 1;
                    candidate.refused = Some(outcome);
                    continue;
                }
            };
            if let Some(listener) = self.own.listener_towards(hop.transport, &hop.addr, came.by) {
                let configured = match &candidate.kind {
                    TargetKind::NextHops { hops, at, .. } => {
                        hops.get(usize::from(*at)).map(|next| next.connections)
                    }
                    _ => None,
                };
                let request = draft.map(|draft| draft.request);
                let lane = self
                    .lanes
                    .lane(hop.transport, hop.addr, configured, request);
                let flow = egress_inside(reached, &candidate.kind, &hop, || Flow {
                    transport: hop.transport,
                    listener,
                    local: came.by.local,
                    remote: hop.addr,
                    conn: sip_msg::ConnId::NONE,
                });
                let local = registered_at(&candidate.kind, &hop, listener);
                return Some(Egress {
                    to: Target {
                        transport: hop.transport,
                        listener,
                        remote: hop.addr,
                        conn: sip_msg::ConnId::NONE,
                        may_open: true,
                        tls_name: hop.tls_name,
                        lane,
                        local,
                    },
                    local: flow.map_or(came.by.local, |flow| flow.local),
                    flow,
                });
            }
        }
    }

    /// What judges where requests may go.
    pub(crate) fn relay(&self, now: Now) -> Relay<'_> {
        Relay {
            settings: &self.settings,
            own: &self.own,
            gateways: &self.gateways,
            now_ms: now.mono_ms,
        }
    }

    /// RFC 3261 18.1.1: "If a request is within 200 bytes of the path MTU, or if it is
    /// larger than 1300 bytes and the path MTU is unknown, the request MUST be sent using
    /// an RFC 2914 [43] congestion controlled transport protocol, such as TCP." Here only where neither
    /// a URI nor the operator named UDP: who names it has no other. If the
    /// stream fails, the datagram is sent after all. What counts is what is sent:
    /// credentials may be half of a request, and go no further; what a hook or an engine adds
    /// does.
    fn streamed(
        &self,
        came: &Came<'_>,
        draft: Draft<'_>,
        hop: Hop,
        candidate: &mut Candidate,
    ) -> Hop {
        if hop.transport != Transport::Udp || !candidate.may_stream {
            return hop;
        }
        let lines = draft.strip.iter().map(|span| draft.request.slice(*span));
        let cut: usize = lines.map(<[u8]>::len).sum();
        let stream = Hop {
            transport: Transport::Tcp,
            ..hop.clone()
        };
        let len = draft.request.bytes().len() + ADDED_BYTES + draft.told.len();
        let is_too_long = |len: usize| len > DATAGRAM_BYTES_MAX + cut;
        // A stream that needs no engine is no reason to go without one.
        let asks = |hop| self.asks_engine(came.by, draft, &candidate.kind, hop);
        let grows = || is_too_long(len + MEDIA_BYTES) && asks(&hop) && asks(&stream);
        // RFC 3261 18: "It has arisen out of the need to handle larger messages, which MUST use TCP, as
        // discussed below."
        if !is_too_long(len) && !grows() {
            return hop;
        }
        let is_it = |of: &Hop| (of.transport, of.addr) == (stream.transport, stream.addr);
        if candidate.has_tried(is_it) || !self.own.reach().has(Transport::Tcp, hop.addr.ip()) {
            return hop;
        }
        candidate.has_datagram = true;
        candidate.leave_out(is_it);
        stream
    }
}

/// The flow to a phone in a network that nobody outside may name: it goes into the
/// Record-Route, so that the caller reaches that phone within the dialog. Where the phone's own
/// connection has ended with an earlier process it is `opened`, which names none.
fn egress_inside(
    reached: Reached,
    kind: &TargetKind,
    hop: &Hop,
    opened: impl FnOnce() -> Flow,
) -> Option<Flow> {
    let TargetKind::Contact(binding) = kind else {
        return None;
    };
    if reached != Reached::ByRegistration {
        return None;
    }
    let is_datagram = |transport| transport == Transport::Udp;
    match binding.flow {
        Some(registered) => (is_datagram(registered.transport) && is_datagram(hop.transport))
            .then_some(Flow {
                remote: hop.addr,
                ..registered
            }),
        None => Some(opened()),
    }
}

/// The flow by which a contact is reached: the one that it registered over,
/// where no other way is sure to lead there. That is so when the phone asked
/// for it (RFC 5626), when the flow is a connection, and when a translation stands
/// between: the contact's address is not the one that it registered from (or a name that
/// stands for no address), or is just that, which the phone has read in an answer. The
/// operator may say otherwise. A contact that somebody else registered is reached by its URI.
pub(crate) fn flow_of(nat: &NatSettings, binding: &Binding) -> Option<Flow> {
    let flow = binding.flow?;
    if binding.reg_id.is_some() {
        return Some(flow);
    }
    let uri = Uri::parse(&binding.uri)?;
    let nat = nat.of(&flow);
    if nat == Nat::Always {
        return Some(flow);
    }
    if flow.transport == Transport::Udp {
        let is_udp = matches!(uri.transport(), None | Some(Some(Transport::Udp)));
        // A flow is there where Via has shown a translation.
        let is_behind = is_hidden(&uri, flow.remote) || names_source(&uri, flow.remote);
        return (is_udp && nat == Nat::Auto && is_behind).then_some(flow);
    }
    // A browser makes its address up (RFC 7118 B.1), and has no other way.
    if flow.transport.is_websocket()
        && uri
            .transport()
            .flatten()
            .is_some_and(Transport::is_websocket)
    {
        return Some(flow);
    }
    // Over a connection: unless the contact names a public address elsewhere.
    let ip = uri.host_port.ip();
    let is_same_host = ip == Some(flow.remote.ip().to_canonical());
    let is_elsewhere = ip.is_some_and(|ip| !is_private(ip)) && !is_same_host;
    let is_other_transport = uri
        .transport()
        .is_some_and(|named| named != Some(flow.transport) && !flow.transport.is_secure());
    (!is_elsewhere && !is_other_transport).then_some(flow)
}

/// Whether a URI leads where a flow came from, so that a phone whose connection
/// has ended may be reached by a new one.
pub(super) fn is_reached_at(flow: &Flow, uri: &Uri<'_>) -> bool {
    let is_same_host = uri.host_port.ip() == Some(flow.remote.ip().to_canonical());
    is_same_host && !flow.transport.is_websocket()
}

/// Whether a URI says of itself that it is reached under TLS.
pub(super) fn names_tls(uri: &Uri<'_>) -> bool {
    uri.scheme == Scheme::Sips || uri.transport().flatten() == Some(Transport::Tls)
}

/// Whether what goes to a contact is under TLS on its way.
pub(super) fn is_reached_under_tls(nat: &NatSettings, binding: &Binding) -> bool {
    let leads = match (binding.path.is_empty(), flow_of(nat, binding)) {
        (true, Some(flow)) => return flow.transport.is_secure(),
        (true, None) => Uri::parse(&binding.uri),
        (false, _) => first_path(binding).and_then(Uri::parse),
    };
    leads.is_some_and(|uri| names_tls(&uri))
}

/// The address of ours that a contact was registered at, where the hop is the
/// host that registered it: its NAT lets in what comes from there.
fn registered_at(kind: &TargetKind, hop: &Hop, listener: ListenerId) -> Option<IpAddr> {
    let TargetKind::Contact(binding) = kind else {
        return None;
    };
    let flow = binding.flow?;
    let is_same = flow.transport == hop.transport
        && flow.listener == listener
        && flow.remote.ip() == hop.addr.ip();
    is_same.then(|| flow.local.ip())
}

/// The target of a flow. Where the phone did not ask for the flow alone, and
/// its contact is a plain TCP address, a new connection will do as well; and it is all that there
/// is where a token names a place that connections are opened to.
fn flow_target(flow: &Flow, kind: &TargetKind) -> Target {
    let mut target = Target::back(flow);
    if let TargetKind::Token(_) = kind
        && flow.transport == Transport::Tcp
        && !flow.conn.is_some()
    {
        (target.may_open, target.local) = (true, None);
    }
    if let TargetKind::Contact(binding) = kind
        && binding.reg_id.is_none()
        && flow.transport == Transport::Tcp
        && let Some(uri) = Uri::parse(&binding.uri)
        && uri.host_port.ip() == Some(flow.remote.ip())
    {
        let port = uri.host_port.port.unwrap_or(Transport::Tcp.default_port());
        target.remote = SocketAddr::new(flow.remote.ip(), port);
        target.may_open = true;
    }
    target
}

pub(crate) fn path_of(kind: &TargetKind) -> &[u8] {
    match kind {
        TargetKind::Contact(binding) => &binding.path,
        _ => &[],
    }
}

pub(crate) fn first_path(binding: &Binding) -> Option<&[u8]> {
    let (first, _) = sip_msg::header::elements(&binding.path).next()?;
    let address = sip_msg::header::NameAddr::parse(first)?;
    // RFC 3261 16.6: "A proxy MUST ensure that all such proxies are loose routers."
    address.uri().filter(|uri| uri.has_param("lr"))?;
    Some(address.uri)
}

/// The Request-URI for a target; `None` where it stays.
pub(crate) fn target_uri<'a>(kind: &'a TargetKind, text: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    match kind {
        TargetKind::Contact(binding) => Some(&binding.uri),
        TargetKind::Uri(uri) => Some(uri),
        TargetKind::NextHops {
            hops,
            at,
            user: Some(user),
            trunk,
            ..
        } => {
            let next = hops.get(usize::from(*at))?;
            text.extend_from_slice(b"sip:");
            for byte in user {
                // RFC 3261 19.1.2: "All other characters MUST be escaped."
                match byte {
                    b'#' => text.extend_from_slice(b"%23"),
                    other => text.push(*other),
                }
            }
            text.push(b'@');
            match trunk {
                Some(trunk) => text.extend_from_slice(trunk.domain.as_bytes()),
                None => write_next_hop(next, text),
            }
            Some(text)
        }
        _ => None,
    }
}

/// Writes the host and the port of a next hop as they stand in a URI.
pub(crate) fn write_next_hop(next: &NextHop, text: &mut Vec<u8>) {
    let is_v6 = next.host.contains(':') && !next.host.starts_with('[');
    if is_v6 {
        text.push(b'[');
    }
    text.extend_from_slice(next.host.as_bytes());
    if is_v6 {
        text.push(b']');
    }
    if let Some(port) = next.port {
        text.push(b':');
        crate::text::write_decimal(u64::from(port), text);
    }
}

/// Whether a long request to this place may take a stream in the place of the
/// datagram that is the default: not where the phone has registered by
/// datagram, and not where the operator wrote the next hop down.
pub(crate) fn may_stream(kind: &TargetKind) -> bool {
    match kind {
        TargetKind::Contact(binding) => binding
            .flow
            .is_none_or(|flow| flow.transport != Transport::Udp),
        TargetKind::Routed | TargetKind::Uri(_) => true,
        TargetKind::Token(_) | TargetKind::NextHops { .. } => false,
    }
}
