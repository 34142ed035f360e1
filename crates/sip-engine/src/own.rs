//! Which names and addresses are this server's, and which of them it shows to
//! whom.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sip_locate::Reach;
use sip_msg::header::AuthValue;
use sip_msg::{Flow, HostPort, ListenerId, Transport, Uri};

use crate::Settings;
use crate::domains::{Domains, is_same_name};
use crate::settings::is_bound_at;

/// Addresses that a listener on every address was reached at, at most so many.
const LEARNED_MAX: usize = 16;

/// The names and addresses of this server.
pub(crate) struct Own {
    domains: Domains,
    listeners: Vec<OwnListener>,
    reach: Reach,
    /// Whether some listener is bound to every address of the machine.
    is_wild: bool,
    /// Addresses of the machine at which such a listener was reached.
    learned: Vec<IpAddr>,
}

struct OwnListener {
    transport: Transport,
    bound: SocketAddr,
    host: Option<Arc<str>>,
    /// That host, where it is an address.
    advertised_ip: Option<IpAddr>,
    port: u16,
    /// `host:port` as it stands in a Via; empty where the host depends on the flow.
    sent_by: Vec<u8>,
}

impl Own {
    pub(crate) fn new(settings: &Settings) -> Self {
        let listeners: Vec<_> = settings.listeners.iter().map(OwnListener::new).collect();
        let is_wild = listeners.iter().any(|l| l.bound.ip().is_unspecified());
        Self {
            domains: Domains::new(settings),
            reach: (listeners.iter())
                .map(|listener| (listener.transport, listener.bound.ip()))
                .collect(),
            listeners,
            is_wild,
            learned: Vec::new(),
        }
    }

    /// Takes new settings over; learned addresses are kept.
    pub(crate) fn reload(&mut self, settings: &Settings) {
        let learned = std::mem::take(&mut self.learned);
        *self = Self::new(settings);
        if self.is_wild {
            self.learned = learned;
        }
    }

    /// Remembers an address at which this server was reached.
    pub(crate) fn learn(&mut self, local: &SocketAddr) {
        if !self.is_wild || self.learned.last() == Some(&local.ip()) {
            return;
        }
        let ip = local.ip();
        if self.learned.len() < LEARNED_MAX && !ip.is_unspecified() && !self.learned.contains(&ip) {
            self.learned.push(ip);
        }
    }

    /// Whether `host` is a domain that this server is responsible for.
    pub(crate) fn is_domain(&self, host: &[u8]) -> bool {
        self.domain(host).is_some()
    }

    /// The domain that `host` is; `None` for a listener's address.
    pub(crate) fn domain(&self, host: &[u8]) -> Option<&Arc<str>> {
        self.domains.find(host)
    }

    /// The realm that credentials are for, where it is one of ours.
    pub(crate) fn realm(&self, settings: &Settings, given: &AuthValue<'_>) -> Option<Arc<str>> {
        self.domains.realm(settings, given)
    }

    /// The realm of the users of a host.
    pub(crate) fn realm_of(&self, settings: &Settings, host: &[u8]) -> Arc<str> {
        self.domains.realm_of(settings, host)
    }

    /// A user's name without the domain of ours that stands behind it, where one does.
    pub(crate) fn bare_name<'n>(&self, name: &'n [u8]) -> &'n [u8] {
        self.with_domain(name).map_or(name, |(bare, _)| bare)
    }

    /// A name that ends with a domain of ours: what stands before it, and the domain.
    pub(crate) fn with_domain<'n>(&self, name: &'n [u8]) -> Option<(&'n [u8], &Arc<str>)> {
        let at = name.iter().rposition(|byte| *byte == b'@')?;
        let domain = self.domain(name.get(at + 1..)?)?;
        let bare = name.get(..at).filter(|bare| !bare.is_empty())?;
        Some((bare, domain))
    }

    /// How often it was asked for a realm.
    #[cfg(test)]
    pub(crate) fn realms_asked(&self) -> usize {
        self.domains
            .asked
            .swap(0, std::sync::atomic::Ordering::Relaxed)
    }

    /// Whether a URI names this server: one of its domains, or a listener.
    pub(crate) fn is_own_uri(&self, uri: &Uri<'_>) -> bool {
        uri.is_sip() && (self.is_own_domain_at(uri.host_port) || self.is_listener(uri))
    }

    /// Whether a URI names a listener: its host and its port.
    pub(crate) fn is_listener(&self, uri: &Uri<'_>) -> bool {
        self.is_listener_at(uri.host_port, uri_port(uri))
    }

    /// Whether a host, without regard to the port, is this server's.
    pub(crate) fn is_own_host(&self, host: &[u8]) -> bool {
        let ip = HostPort { host, port: None }.ip();
        self.is_domain(host) || self.listeners.iter().any(|l| self.is_host_of(l, host, ip))
    }

    /// Whether `host` at `port` is where a listener is reached.
    pub(crate) fn is_listener_at(&self, host_port: HostPort<'_>, port: u16) -> bool {
        let mut ip = None;
        self.listeners
            .iter()
            .filter(|l| l.port == port || l.bound.port() == port)
            .any(|l| {
                let ip = *ip.get_or_insert_with(|| host_port.ip());
                self.is_host_of(l, host_port.host, ip)
            })
    }

    /// Whether `host` at `port` is one of our domains, or where a listener is reached.
    pub(crate) fn is_own_host_at(&self, host: &[u8], port: u16) -> bool {
        let host_port = HostPort {
            host,
            port: Some(port),
        };
        self.is_own_domain_at(host_port) || self.is_listener_at(host_port, port)
    }

    /// Whether an address is a listener's: what is sent there comes back, and what
    /// comes from there was sent by this server. Beside a listener on every address
    /// of the machine others may live at other ports of it: the port counts too.
    pub(crate) fn is_at(&self, transport: Transport, addr: &SocketAddr) -> bool {
        self.listeners.iter().any(|l| {
            l.transport.is_reliable() == transport.is_reliable()
                && (l.port == addr.port() || l.bound.port() == addr.port())
                && self.is_ip_of(l, addr.ip().to_canonical())
        })
    }

    /// Whether an address is one of this machine's, as far as listeners show it.
    pub(crate) fn is_own_ip(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        self.listeners.iter().any(|l| self.is_ip_of(l, ip))
    }

    /// A listener from which `remote` can be reached: the one that the request
    /// came in by where it will do, else the first that will.
    pub(crate) fn listener_towards(
        &self,
        transport: Transport,
        remote: &SocketAddr,
        came_by: &Flow,
    ) -> Option<ListenerId> {
        let will_do =
            |l: &OwnListener| l.transport == transport && l.bound.is_ipv4() == remote.is_ipv4();
        match self.get(came_by.listener).is_some_and(will_do) {
            true => Some(came_by.listener),
            false => self.first_towards(transport, remote),
        }
    }

    /// The first listener from which `remote` can be reached.
    pub(crate) fn first_towards(
        &self,
        transport: Transport,
        remote: &SocketAddr,
    ) -> Option<ListenerId> {
        let will_do =
            |l: &OwnListener| l.transport == transport && l.bound.is_ipv4() == remote.is_ipv4();
        let at = self.listeners.iter().position(will_do)?;
        u16::try_from(at).ok().map(ListenerId)
    }

    /// What its listeners can send by.
    pub(crate) const fn reach(&self) -> Reach {
        self.reach
    }

    /// The transport of a listener.
    pub(crate) fn transport(&self, id: ListenerId) -> Option<Transport> {
        self.get(id).map(|l| l.transport)
    }

    /// Whether a flow still fits its listener, which a reload may have replaced since it was noted:
    /// a datagram leaves from the address that the phone knows, and from no other.
    pub(crate) fn has_flow(&self, flow: &Flow) -> bool {
        self.get(flow.listener).is_some_and(|listener| {
            listener.transport == flow.transport
                && (flow.transport.is_reliable() || is_bound_at(listener.bound, flow.local))
        })
    }

    /// Writes the host and the port under which a listener is reached: what
    /// the operator gave, else the address that it is bound to, else `local`,
    /// this server's end of the flow at hand.
    pub(crate) fn write_host_port(&self, id: ListenerId, local: &SocketAddr, out: &mut Vec<u8>) {
        let Some(listener) = self.get(id) else {
            write_addr(local, out);
            return;
        };
        if !listener.sent_by.is_empty() {
            out.extend_from_slice(&listener.sent_by);
            return;
        }
        let same_family = |ip: &&IpAddr| ip.is_ipv4() == listener.bound.is_ipv4();
        let local_ip = local.ip();
        let ip = Some(&local_ip)
            .filter(|ip| !ip.is_unspecified())
            .filter(same_family)
            .or_else(|| self.learned.iter().find(same_family))
            .copied()
            .unwrap_or(listener.bound.ip());
        write_addr(&SocketAddr::new(ip, listener.port), out);
    }

    fn get(&self, id: ListenerId) -> Option<&OwnListener> {
        self.listeners.get(usize::from(id.0))
    }

    fn is_own_domain_at(&self, host_port: HostPort<'_>) -> bool {
        let is_port = |port| {
            self.listeners
                .iter()
                .any(|l| l.port == port || l.bound.port() == port)
        };
        self.is_domain(host_port.host) && host_port.port.is_none_or(is_port)
    }

    fn is_host_of(&self, listener: &OwnListener, host: &[u8], ip: Option<IpAddr>) -> bool {
        if let Some(own) = &listener.host
            && is_same_name(own, host)
        {
            return true;
        }
        ip.is_some_and(|ip| self.is_ip_of(listener, ip.to_canonical()))
    }

    /// Whether a listener is reached at `ip`, which is in its canonical form.
    fn is_ip_of(&self, listener: &OwnListener, ip: IpAddr) -> bool {
        let bound = listener.bound.ip().to_canonical();
        if bound == ip || listener.advertised_ip == Some(ip) {
            return true;
        }
        let is_family = bound.is_ipv6() || ip.is_ipv4();
        let is_of_machine = || {
            // Loopback is ours whether somebody came that way or not; so is "no address".
            ip.is_loopback()
                || ip.is_unspecified()
                || self.learned.iter().any(|own| own.to_canonical() == ip)
        };
        bound.is_unspecified() && is_family && is_of_machine()
    }
}

impl OwnListener {
    fn new(listener: &crate::settings::Listener) -> Self {
        let mut sent_by = Vec::new();
        let port = listener.advertised_port;
        if let Some(host) = &listener.advertised_host {
            let _ = write!(sent_by, "{host}:{port}");
        } else if !listener.bound.ip().is_unspecified() {
            write_addr(&SocketAddr::new(listener.bound.ip(), port), &mut sent_by);
        }
        Self {
            transport: listener.transport,
            bound: listener.bound,
            host: listener.advertised_host.clone(),
            advertised_ip: listener.advertised_host.as_ref().and_then(|host| {
                let host = host.as_bytes();
                HostPort { host, port: None }
                    .ip()
                    .map(|ip| ip.to_canonical())
            }),
            port,
            sent_by,
        }
    }
}

/// The port that a URI names, explicitly or by default (RFC 3261 19.1.2).
pub(crate) fn uri_port(uri: &Uri<'_>) -> u16 {
    uri.host_port
        .port
        .unwrap_or_else(|| uri_transport(uri).unwrap_or(Transport::Udp).default_port())
}

/// The transport that a URI names: by its scheme, or by its parameter. `sips`
/// makes TLS of what is not secure.
pub(crate) fn uri_transport(uri: &Uri<'_>) -> Option<Transport> {
    let named = uri.transport().flatten();
    if uri.scheme == sip_msg::uri::Scheme::Sips {
        return Some(match named {
            Some(Transport::Ws | Transport::Wss) => Transport::Wss,
            _ => Transport::Tls,
        });
    }
    named
}

/// Writes an address as it stands in a Via or a URI: `SocketAddr`'s form is
/// theirs, but for a scope.
fn write_addr(addr: &SocketAddr, out: &mut Vec<u8>) {
    let addr = match addr {
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => SocketAddr::new(IpAddr::V4(v4), v6.port()),
            None => SocketAddr::new(IpAddr::V6(*v6.ip()), v6.port()),
        },
        SocketAddr::V4(_) => *addr,
    };
    let _ = write!(out, "{addr}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Listener;

    fn own(bound: &str, host: Option<&str>) -> Own {
        let settings = Settings {
            domains: vec!["example.org".into()],
            listeners: vec![
                listener(Transport::Udp, bound, host),
                listener(Transport::Tls, "[2001:db8::1]:5061", None),
            ],
            ..Settings::default()
        };
        Own::new(&settings)
    }

    fn listener(transport: Transport, bound: &str, host: Option<&str>) -> Listener {
        let bound: SocketAddr = bound.parse().unwrap();
        Listener {
            transport,
            bound,
            advertised_host: host.map(Into::into),
            advertised_port: bound.port(),
            certificates_authenticate: false,
        }
    }

    fn is_own(own: &Own, uri: &str) -> bool {
        own.is_own_uri(&Uri::parse(uri.as_bytes()).unwrap())
    }

    #[test]
    fn domains_and_listeners_are_ours() {
        let own = own("192.0.2.1:5060", Some("Proxy.example.net"));
        for uri in [
            "sip:a@example.org",
            "sip:a@EXAMPLE.org.",
            "sip:example.org:5060;lr",
            "sips:a@example.org",
            "sip:192.0.2.1",
            "sip:192.0.2.1:5060;transport=tcp",
            "sip:proxy.example.net",
            "sips:[2001:DB8::1]",
            "sip:[2001:db8:0::1]:5061",
        ] {
            assert!(is_own(&own, uri), "{uri}");
        }
        for uri in [
            "sip:a@example.com",
            "sip:a@example.org:5070",
            "sip:192.0.2.1:5062",
            "sips:proxy.example.net:5062",
            "sip:[2001:db8::1]:5062",
            "tel:+4912345",
        ] {
            assert!(!is_own(&own, uri), "{uri}");
        }
    }

    #[test]
    fn a_listener_on_every_address_learns_where_it_was_reached() {
        let mut own = own("0.0.0.0:5060", None);
        assert!(!is_own(&own, "sip:192.0.2.7"));
        own.learn(&"192.0.2.7:5060".parse().unwrap());
        assert!(is_own(&own, "sip:192.0.2.7"));
        for n in 0..100 {
            own.learn(&SocketAddr::new(IpAddr::from([198, 51, 100, n]), 5060));
        }
        assert_eq!(own.learned.len(), LEARNED_MAX);
    }

    #[test]
    fn what_stands_in_a_via() {
        let text = |own: &Own, id, local: &str| {
            let mut out = Vec::new();
            own.write_host_port(ListenerId(id), &local.parse().unwrap(), &mut out);
            String::from_utf8(out).unwrap()
        };
        let named = own("192.0.2.1:5060", Some("proxy.example.net"));
        assert_eq!(text(&named, 0, "192.0.2.1:5060"), "proxy.example.net:5060");
        assert_eq!(text(&named, 1, "192.0.2.1:5060"), "[2001:db8::1]:5061");
        let wild = own("0.0.0.0:5060", None);
        assert_eq!(text(&wild, 0, "192.0.2.7:33333"), "192.0.2.7:5060");
        assert_eq!(text(&wild, 0, "[::ffff:192.0.2.7]:1"), "0.0.0.0:5060");
        assert_eq!(text(&wild, 9, "[::ffff:192.0.2.7]:1"), "192.0.2.7:1");
    }
}
