//! From a URI or a configured next hop to addresses, where no question needs
//! to be asked; and the memory of hops that failed.

use std::net::SocketAddr;

use hashbrown::HashMap;
use sip_msg::uri::Scheme;
use sip_msg::{Transport, Uri};

use crate::effect::{Hop, ResolveQuery};
use crate::own::{Own, uri_transport};
use crate::routes::NextHop;

/// Hops that are remembered as dead, at most so many.
const DEAD_MAX: usize = 4_096;

/// Where a URI or a next hop leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lead {
    /// To this address; and whether the transport was nobody's explicit wish.
    Hop(Hop, bool),
    /// To a name, to be resolved first.
    Ask(ResolveQuery),
    /// To nowhere that this server can send to.
    Nowhere,
}

// RFC 3261 16.6: "Otherwise, the proxy MUST apply the procedures to the first value in
// the Route header field, if present, else the Request-URI." Which of them `uri` is,
// the caller decided.
/// Where a URI leads. `secure`: only TLS will do.
pub(crate) fn of_uri(uri: &Uri<'_>, secure: bool, own: &Own) -> Lead {
    if !uri.is_sip() {
        return Lead::Nowhere;
    }
    let secure = secure || uri.scheme == Scheme::Sips;
    let named = uri_transport(uri).map(|t| secured(t, secure));
    if named.is_none() && uri.has_param("transport") {
        return Lead::Nowhere;
    }
    // RFC 7118 5.1: nobody opens a WebSocket to a browser. It is reached along
    // the flow that it opened.
    if named.is_some_and(Transport::is_websocket) {
        return Lead::Nowhere;
    }
    let host = uri.param("maddr").unwrap_or(uri.host_port.host);
    lead(host, uri.host_port.port, named, secure, own)
}

/// Where a configured next hop leads.
pub(crate) fn of_next_hop(next: &NextHop, secure: bool, own: &Own) -> Lead {
    let named = next.transport.map(|t| secured(t, secure));
    match lead(next.host.as_bytes(), next.port, named, secure, own) {
        Lead::Ask(query) => Lead::Ask(ResolveQuery {
            is_configured: true,
            ..query
        }),
        other => other,
    }
}

fn lead(host: &[u8], port: Option<u16>, named: Option<Transport>, secure: bool, own: &Own) -> Lead {
    // RFC 3263 4.1: "If no transport protocol is specified, but the TARGET is a numeric
    // IP address, the client SHOULD use UDP for a SIP URI, and TCP for a SIPS URI."
    let bare = host
        .strip_prefix(b"[")
        .and_then(|h| h.strip_suffix(b"]"))
        .unwrap_or(host);
    let ip = std::str::from_utf8(bare)
        .ok()
        .and_then(|text| text.parse().ok());
    let Some(ip) = ip else {
        return match std::str::from_utf8(host) {
            Ok(host) => Lead::Ask(ResolveQuery {
                host: host.into(),
                port,
                transport: named,
                secure,
                is_configured: false,
            }),
            Err(_) => Lead::Nowhere,
        };
    };
    let addr_with = |t: Transport| SocketAddr::new(ip, port.unwrap_or(t.default_port()));
    let transport = match named {
        Some(transport) => transport,
        None if secure => Transport::Tls,
        None => [Transport::Udp, Transport::Tcp]
            .into_iter()
            .find(|t| own.has(*t, &addr_with(*t)))
            .unwrap_or(Transport::Udp),
    };
    let hop = Hop {
        transport,
        addr: addr_with(transport),
        tls_name: transport
            .is_secure()
            .then(|| String::from_utf8_lossy(bare).into()),
    };
    Lead::Hop(hop, named.is_none())
}

const fn secured(transport: Transport, secure: bool) -> Transport {
    match transport {
        Transport::Udp | Transport::Tcp if secure => Transport::Tls,
        Transport::Ws if secure => Transport::Wss,
        other => other,
    }
}

/// Hops that did not answer lately. Bounded; only hops that were tried get in.
#[derive(Default)]
pub(crate) struct DeadHops {
    until: HashMap<(Transport, SocketAddr), u64>,
}

impl DeadHops {
    /// Remembers a failure.
    pub(crate) fn failed(
        &mut self,
        transport: Transport,
        addr: SocketAddr,
        until_ms: u64,
        now_ms: u64,
    ) {
        if self.until.len() >= DEAD_MAX {
            self.until.retain(|_, until| *until > now_ms);
            if self.until.len() >= DEAD_MAX {
                return;
            }
        }
        self.until.insert((transport, addr), until_ms);
    }

    /// Forgets it: the hop has answered.
    pub(crate) fn answered(&mut self, transport: Transport, addr: SocketAddr) {
        if !self.until.is_empty() {
            self.until.remove(&(transport, addr));
        }
    }

    /// Whether the hop failed lately.
    pub(crate) fn is_dead(&self, transport: Transport, addr: SocketAddr, now_ms: u64) -> bool {
        !self.until.is_empty()
            && self
                .until
                .get(&(transport, addr))
                .is_some_and(|until| *until > now_ms)
    }

    /// Puts the dead behind the living, each in their order.
    pub(crate) fn sort(&self, hops: &mut [Hop], now_ms: u64) {
        if !self.until.is_empty() {
            hops.sort_by_key(|hop| self.is_dead(hop.transport, hop.addr, now_ms));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use crate::settings::Listener;

    fn own() -> Own {
        let bound: SocketAddr = "192.0.2.1:5060".parse().unwrap();
        let listener = |transport| Listener {
            transport,
            bound,
            advertised_host: None,
            advertised_port: 5060,
            certificates_authenticate: false,
        };
        Own::new(&Settings {
            listeners: vec![listener(Transport::Udp), listener(Transport::Tcp)],
            ..Settings::default()
        })
    }

    fn lead_of(uri: &str, secure: bool) -> (Option<(Transport, String)>, Option<ResolveQuery>) {
        match of_uri(&Uri::parse(uri.as_bytes()).unwrap(), secure, &own()) {
            Lead::Hop(hop, _) => (Some((hop.transport, hop.addr.to_string())), None),
            Lead::Ask(query) => (None, Some(query)),
            Lead::Nowhere => (None, None),
        }
    }

    #[test]
    fn numeric_hosts_need_no_question() {
        let hop = |uri, secure| lead_of(uri, secure).0.unwrap();
        assert_eq!(
            hop("sip:a@192.0.2.9", false),
            (Transport::Udp, "192.0.2.9:5060".into())
        );
        assert_eq!(
            hop("sip:a@192.0.2.9:7;transport=tcp", false),
            (Transport::Tcp, "192.0.2.9:7".into())
        );
        assert_eq!(
            hop("sip:a@[2001:db8::9];transport=TLS", false),
            (Transport::Tls, "[2001:db8::9]:5061".into())
        );
        assert_eq!(
            hop("sips:a@192.0.2.9", false),
            (Transport::Tls, "192.0.2.9:5061".into())
        );
        assert_eq!(
            hop("sip:a@example.org;maddr=192.0.2.9", false),
            (Transport::Udp, "192.0.2.9:5060".into())
        );
        // RFC 3261 16.6: "Independently of which URI is being used as input to the
        // procedures of [4], if the Request-URI specifies a SIPS resource, the proxy MUST
        // follow the procedures of [4] as if the input URI were a SIPS URI."
        assert_eq!(
            hop("sip:192.0.2.9;transport=tcp;lr", true),
            (Transport::Tls, "192.0.2.9:5061".into())
        );
    }

    #[test]
    fn names_are_asked_for() {
        let query = lead_of("sip:a@example.org:5080;transport=tcp", true)
            .1
            .unwrap();
        assert_eq!(&*query.host, "example.org");
        assert_eq!(
            (query.port, query.transport, query.secure),
            (Some(5080), Some(Transport::Tls), true)
        );
        assert_eq!(
            lead_of("sip:a@example.org;transport=sctp", false),
            (None, None)
        );
        assert_eq!(lead_of("tel:+49123", false), (None, None));
        for nowhere in [
            "sip:a@b.invalid;transport=ws",
            "sips:a@192.0.2.9;transport=ws",
        ] {
            assert_eq!(lead_of(nowhere, false), (None, None), "{nowhere}");
        }
    }

    #[test]
    fn the_dead_are_passed_over_for_a_time() {
        let hop = |n: u8| Hop {
            transport: Transport::Udp,
            addr: SocketAddr::from(([192, 0, 2, n], 5060)),
            tls_name: None,
        };
        let mut dead = DeadHops::default();
        dead.failed(Transport::Udp, hop(1).addr, 100, 0);
        let mut hops = [hop(1), hop(2), hop(3)];
        dead.sort(&mut hops, 50);
        assert_eq!(hops, [hop(2), hop(3), hop(1)]);
        hops.sort_by_key(|h| h.addr);
        dead.sort(&mut hops, 100);
        assert_eq!(hops, [hop(1), hop(2), hop(3)]);
        dead.answered(Transport::Udp, hop(1).addr);
        assert!(!dead.is_dead(Transport::Udp, hop(1).addr, 50));
    }

    #[test]
    fn the_memory_of_the_dead_is_bounded() {
        let mut dead = DeadHops::default();
        for n in 0..2 * DEAD_MAX as u32 {
            let addr = SocketAddr::from((n.to_be_bytes(), 5060));
            dead.failed(Transport::Udp, addr, 100, 0);
        }
        assert_eq!(dead.until.len(), DEAD_MAX);
    }
}
