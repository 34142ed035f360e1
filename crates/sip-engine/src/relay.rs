//! Which addresses requests may be relayed to
//! (`docs/decisions/0082-where-nothing-is-relayed.md`).
//!
//! The destination of a request is chosen by somebody: its sender by Request-URI, Route
//! or `maddr`, a user by his contact or its Path, or whoever runs the DNS of a name. Each
//! of them could name what this server can reach and they cannot: services on its own
//! host, routers on its network, gateways without the routing tables. So the
//! address that is finally chosen is checked, in one place: [`Relay::judge`].
//!
//! Next hops from the configuration are not checked, nor are flows, which lead to
//! whoever opened them.

use std::net::{IpAddr, SocketAddr};

use sip_locate::{Hop, Query};
use sip_msg::network::{IpNet, is_in};
use sip_msg::{Flow, HeaderName, HostPort, Message, Target, Transport, Uri};

use crate::gateways::Gateways;
use crate::location::Binding;
use crate::own::{Own, uri_port};
use crate::permit::Permit;
use crate::proxy::context::TargetKind;
use crate::proxy::outcome::Outcome;
use crate::proxy::route::Routed;
use crate::sender::Sender;
use crate::{Settings, Shard};

/// Who chose the destination of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChosenBy {
    /// A user or a stranger, who may name any place.
    User,
    /// A trusted peer, or anybody where nobody has to authenticate.
    Peer,
    /// The route set of a dialog that was set up through this server.
    Dialog,
    /// The same, by a name that is not a gateway's: what it resolves to was not checked
    /// when the dialog was set up.
    DialogByName,
}

impl ChosenBy {
    /// Whether the request is part of a dialog.
    pub(crate) const fn is_dialog(self) -> bool {
        matches!(self, Self::Dialog | Self::DialogByName)
    }
}

impl Relay<'_> {
    /// Who chose the destination of a request.
    pub(crate) fn chosen_by(
        &self,
        permit: &Permit,
        routed: &Routed,
        request: &Message,
    ) -> ChosenBy {
        match permit {
            Permit::Dialog(_) => {
                let next = routed.next_route.map(|span| request.slice(span));
                let leads = match next {
                    Some(next) => Uri::parse(next),
                    None => routed.uri(request),
                };
                let by_name = leads.is_some_and(|uri| {
                    let named = named_by(&uri);
                    named.ip().is_none() && !self.is_gateways_name(named)
                });
                match by_name {
                    true => ChosenBy::DialogByName,
                    false => ChosenBy::Dialog,
                }
            }
            // They need no token. A Route of ours alone says nothing: phones with an
            // outbound proxy begin every request with it (RFC 3261 16.4).
            Permit::Open(_) | Permit::Peer(_) | Permit::Trunk(_) => {
                let has_tag = || request.to_tag().is_some();
                match routed.is_on_our_route() && has_tag() {
                    true => ChosenBy::Dialog,
                    false => ChosenBy::Peer,
                }
            }
            Permit::Authenticated(_)
            | Permit::Inbound(_)
            | Permit::Directed(_)
            | Permit::Forwarder(_)
            | Permit::Emergency(_) => ChosenBy::User,
        }
    }
}

impl Shard {
    /// Whether the sender of a request that was let in is known to be where it came from: the
    /// operator says so, or he has answered a challenge. From a place that counts one that was sent
    /// there ([`Relay::is_watched`]). A dialog's token says nothing of it.
    pub(crate) fn is_there(&self, sender: &Sender, permit: &Permit) -> bool {
        match permit {
            Permit::Open(_) | Permit::Peer(_) | Permit::Trunk(_) | Permit::Authenticated(_) => true,
            Permit::Dialog(_)
            | Permit::Inbound(_)
            | Permit::Directed(_)
            | Permit::Forwarder(_)
            | Permit::Emergency(_) => self.is_listed_peers(sender),
        }
    }
}

/// Decides where requests may be relayed.
pub(crate) struct Relay<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) own: &'a Own,
    pub(crate) gateways: &'a Gateways,
    pub(crate) now_ms: u64,
}

/// Why a place may be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// As any other.
    Freely,
    /// Because its user registered from that network, and not because the sender
    /// is in it.
    ByRegistration,
}

impl Relay<'_> {
    /// Whether a request that came from there may go to `hop`.
    pub(crate) fn judge(
        &self,
        came: &Came<'_>,
        kind: &TargetKind,
        hop: &Hop,
    ) -> Result<Reached, Outcome> {
        let (chosen_by, source) = (came.chosen_by, came.source());
        if self.own.is_at(hop.transport, &hop.addr) {
            return Err(Outcome::ComesBack);
        }
        let binding = match kind {
            TargetKind::Token(_) | TargetKind::NextHops { .. } => return Ok(Reached::Freely),
            TargetKind::Routed | TargetKind::Uri(_) => None,
            TargetKind::Contact(binding) => Some(&**binding),
        };
        let ip = hop.addr.ip();
        let mut reached = Reached::Freely;
        let is_inside = |network| is_in(network, source.addr.ip());
        let counts = says_where_it_is(chosen_by, &source);
        for network in self.denying(ip) {
            // A contact's place was named by whoever registered it, and not by who calls it.
            let is_named_inside = binding.is_none_or(|binding| {
                let from = binding.source.map(|(_, from)| from.ip());
                from.is_some_and(|from| is_in(network, from))
            });
            if counts && is_inside(network) && is_named_inside {
                continue;
            }
            let registered = binding.and_then(Binding::registered_from);
            // Where the flow has ended with its process, a call leads on within its dialog where
            // a token can name the way there: over TCP.
            let leads_on = hop.transport == Transport::Tcp
                || binding.is_some_and(|binding| binding.flow.is_some());
            if leads_on && registered.is_some_and(|(_, from)| is_in(network, from.ip())) {
                reached = Reached::ByRegistration;
            } else if !self.is_neighbours(chosen_by, binding, ip) {
                return Err(Outcome::NetworkDenied);
            }
        }
        let names =
            binding.is_some() || matches!(chosen_by, ChosenBy::User | ChosenBy::DialogByName);
        if names && self.is_gateway(hop.addr) && !is_itself(chosen_by, &source, binding, hop.addr) {
            return Err(Outcome::NamesGateway);
        }
        Ok(reached)
    }

    /// Whether a name that is still to be resolved is a gateway's.
    pub(crate) fn judge_name(
        &self,
        chosen_by: ChosenBy,
        kind: &TargetKind,
        query: &Query,
    ) -> Result<(), Outcome> {
        let names = match kind {
            TargetKind::Token(_) | TargetKind::NextHops { .. } => false,
            TargetKind::Routed | TargetKind::Uri(_) => chosen_by == ChosenBy::User,
            TargetKind::Contact(_) => true,
        };
        let named = HostPort {
            host: query.host.as_bytes(),
            port: query.port,
        };
        match names && self.settings.authenticate.is_some() && self.is_gateways_name(named) {
            true => Err(Outcome::NamesGateway),
            false => Ok(()),
        }
    }

    /// What somebody at `source` may have sent to `uri`, if he shows it as the place where he is
    /// reached within a dialog: a gateway is shown by a gateway alone, and a network to which
    /// nothing is relayed from within. What a name stands for is judged when it is used.
    pub(crate) fn shown(&self, source: Option<&Source>, uri: &Uri<'_>) -> Shown {
        let named = named_by(uri);
        let known = source.filter(|source| source.is_known);
        let (is_inside, is_gateway) = match named.ip() {
            Some(ip) => {
                let addr = SocketAddr::new(ip, uri_port(uri));
                let from_it = |network| known.is_some_and(|of| is_in(network, of.addr.ip()));
                (self.denying(ip).all(from_it), self.is_gateway(addr))
            }
            None => {
                let counts = self.settings.authenticate.is_some();
                (true, counts && self.is_gateways_name(named))
            }
        };
        let by_gateway = source.is_some_and(|source| self.is_gateways(source));
        if is_inside && (!is_gateway || (by_gateway && known.is_some())) {
            Shown::Open
        } else if is_gateway && by_gateway {
            Shown::ToEnd
        } else {
            Shown::Nowhere
        }
    }

    /// Whether what an answer says that goes to `to` shows that who knows it is a gateway, where the
    /// source of the request did not: nobody else reads what is sent there. A gateway that is a
    /// proxy would send it on by the next Via, also where it knows of no such request; so it counts
    /// where there is none but the gateway's.
    pub(crate) fn is_shown_by_answer(&self, to: &Target, response: &Message) -> bool {
        let has_one_more = response.values(HeaderName::Via).nth(2).is_none();
        !to.transport.is_reliable() && has_one_more && self.is_gateway(to.remote)
    }

    /// Whether nobody may be sent along a flow by the word of whoever seems to be at its end:
    /// anybody could write that source, and it would lead him to a gateway, or into a network to
    /// which nothing is relayed.
    pub(crate) fn is_doubted(&self, source: &Source) -> bool {
        !source.is_known && self.is_watched(source.addr)
    }

    /// Whether callers of our domains must show who they are.
    pub(crate) fn asks_who_calls(&self) -> bool {
        self.settings.authenticate.is_some()
    }

    /// Whether a peer at `source` that shows `uri` shows itself, or another peer that the
    /// operator wrote down. What a name stands for is not known here.
    pub(crate) fn is_place_of_peers(&self, source: &Source, uri: &Uri<'_>) -> bool {
        let Some(ip) = named_by(uri).ip() else {
            return false;
        };
        ip == source.addr.ip().to_canonical() || self.is_in_trusted_network(ip)
    }

    fn is_in_trusted_network(&self, ip: IpAddr) -> bool {
        let mut networks = self.settings.trusted.iter().filter_map(|peer| peer.network);
        networks.any(|network| is_in(network, ip))
    }

    /// Whether a message seems to come from a gateway's address.
    pub(crate) fn is_at_gateway(&self, source: &Source) -> bool {
        self.is_gateway(source.addr)
    }

    /// Whether a message came from a gateway; a connection has a port of its own.
    pub(crate) fn is_gateways(&self, source: &Source) -> bool {
        self.is_gateway(source.addr)
            || (source.transport.is_reliable()
                && self.gateways.has_host(source.addr.ip(), self.now_ms))
    }

    /// Whether a URI leads to a gateway. What a name stands for that is no gateway's is not known
    /// here.
    pub(crate) fn leads_to_gateway(&self, uri: &Uri<'_>) -> bool {
        let named = named_by(uri);
        match named.ip() {
            Some(ip) => self.is_gateway(SocketAddr::new(ip, uri_port(uri))),
            None => self.settings.authenticate.is_some() && self.is_gateways_name(named),
        }
    }

    /// Whether that is the name of a gateway.
    fn is_gateways_name(&self, named: HostPort<'_>) -> bool {
        self.gateways.is_name(named)
    }

    /// Whether an address needs a reason to be reached: it is in a network to which
    /// nothing is relayed, or a gateway's.
    pub(crate) fn is_watched(&self, addr: SocketAddr) -> bool {
        self.denying(addr.ip()).next().is_some() || self.is_gateway(addr)
    }

    /// Whether a contact that leads to `addr` may be bound by a REGISTER that came
    /// by `flow`.
    pub(crate) fn judge_contact(&self, flow: &Flow, addr: SocketAddr) -> Result<(), Outcome> {
        let source = flow.remote.ip();
        if self.denying(addr.ip()).any(|net| !is_in(net, source)) {
            return Err(Outcome::NetworkDenied);
        }
        if self.is_gateway(addr) && !is_from(Source::of(flow).end(), addr) {
            return Err(Outcome::NamesGateway);
        }
        Ok(())
    }

    /// The networks that deny an address.
    fn denying(&self, ip: IpAddr) -> impl Iterator<Item = IpNet> {
        let networks = self.settings.proxy.relay_denied.iter().copied();
        networks.filter(move |network| is_in(*network, ip))
    }

    /// Whether an address is a neighbour's of the operator's, and the request goes to
    /// it as those are used: within a dialog, or by the Path of a user behind one. Any user may
    /// write a Path, by a name that he has resolve to there: it counts if a neighbour has brought it.
    /// The source of a datagram is no proof of that, but where credentials count over UDP only with a
    /// nonce that was sent there.
    fn is_neighbours(&self, chosen_by: ChosenBy, binding: Option<&Binding>, ip: IpAddr) -> bool {
        let is_so_used = match binding {
            Some(binding) => {
                let is_one = |(transport, from): (Transport, SocketAddr)| {
                    let is_there = transport.is_reliable() || self.is_watched(from);
                    is_there && self.is_in_trusted_network(from.ip())
                };
                !binding.path.is_empty() && binding.source.is_some_and(is_one)
            }
            None => chosen_by == ChosenBy::Dialog,
        };
        let is_gateways = || binding.is_none() && self.gateways.has_host(ip, self.now_ms);
        is_so_used && (self.is_in_trusted_network(ip) || is_gateways())
    }

    /// Whether a gateway is at that address.
    pub(crate) fn is_gateway(&self, addr: SocketAddr) -> bool {
        // Where nobody is authenticated the tables are open to all as well.
        self.settings.authenticate.is_some() && self.gateways.is_at(addr, self.now_ms)
    }
}

/// Whether the source of a request counts for where it may go. A token is no credential, and
/// binds no address: two in league, one of whom shows a name, could send a request of their dialog
/// with any source that they like, and have that name lead there. An address that is written out
/// was shown by whoever is known to be there.
fn says_where_it_is(chosen_by: ChosenBy, source: &Source) -> bool {
    match chosen_by {
        ChosenBy::Dialog => true,
        ChosenBy::DialogByName => source.transport.is_reliable(),
        ChosenBy::User | ChosenBy::Peer => source.is_known,
    }
}

/// Whether it is the gateway itself that is called by its own word: it sends the
/// request, or has registered as the user. A user's request is a user's, whatever
/// source its datagram has.
fn is_itself(
    chosen_by: ChosenBy,
    source: &Source,
    binding: Option<&Binding>,
    addr: SocketAddr,
) -> bool {
    match binding.and_then(Binding::registered_from) {
        Some(end) if is_from(end, addr) => true,
        _ if source.transport.is_reliable() => chosen_by == ChosenBy::Peer && source.is_from(addr),
        _ => {
            let counts = chosen_by != ChosenBy::User && says_where_it_is(chosen_by, source);
            counts && source.is_from(addr)
        }
    }
}

/// Whether what comes from there comes from `addr`; a connection has a port of its own.
fn is_from((transport, from): (Transport, SocketAddr), addr: SocketAddr) -> bool {
    let (from, addr) = (canonical(from), canonical(addr));
    from == addr || (transport.is_reliable() && from.ip() == addr.ip())
}

/// What may be sent within a dialog to a place that a side has shown as its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shown {
    /// Nothing.
    Nowhere,
    /// What ends something there, until the other side has shown that it is there: a gateway has
    /// shown itself, or somebody who writes its source. Whoever is called by it can hang up, and
    /// begins nothing.
    ToEnd,
    /// Everything.
    Open,
}

/// How a request came, and who chose where it goes.
#[derive(Clone, Copy)]
pub(crate) struct Came<'a> {
    pub(crate) by: &'a Flow,
    /// Whether the gate knows that its sender is there.
    pub(crate) is_known: bool,
    pub(crate) chosen_by: ChosenBy,
}

impl Came<'_> {
    /// Where it came from.
    pub(crate) fn source(&self) -> Source {
        Source::of(self.by).known_if(self.is_known)
    }
}

/// Where a message came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    addr: SocketAddr,
    /// A connection may have a port of its own.
    transport: Transport,
    /// Whether whoever has sent it is known to be there.
    is_known: bool,
}

impl Source {
    /// Where what comes by a flow comes from. The source of a datagram is whatever its sender
    /// has written, but for one of this machine: the kernel takes none such from outside.
    pub(crate) fn of(flow: &Flow) -> Self {
        let is_local = flow.remote.ip().to_canonical().is_loopback();
        Self {
            addr: flow.remote,
            transport: flow.transport,
            is_known: flow.transport.is_reliable() || is_local,
        }
    }

    /// Where what answers a copy comes from: the copy was sent there.
    pub(crate) fn at(target: &Target) -> Self {
        Self {
            addr: target.remote,
            transport: target.transport,
            is_known: true,
        }
    }

    /// The same, where its sender is known to be there if that holds.
    pub(crate) const fn known_if(self, is_known: bool) -> Self {
        Self {
            is_known: self.is_known || is_known,
            ..self
        }
    }

    /// Whether it is `addr`; a connection has a port of its own.
    fn is_from(&self, addr: SocketAddr) -> bool {
        is_from(self.end(), addr)
    }

    /// Whether whoever has sent it is known to be there.
    pub(crate) const fn is_known(&self) -> bool {
        self.is_known
    }

    /// The transport and the address.
    pub(crate) const fn end(self) -> (Transport, SocketAddr) {
        (self.transport, self.addr)
    }
}

/// The host that a URI leads to.
fn named_by<'u>(uri: &Uri<'u>) -> HostPort<'u> {
    match uri.param("maddr") {
        Some(host) => HostPort {
            host,
            port: uri.host_port.port,
        },
        None => uri.host_port,
    }
}

fn canonical(addr: SocketAddr) -> SocketAddr {
    SocketAddr::new(addr.ip().to_canonical(), addr.port())
}
