//! What can be decided without DNS (RFC 3263 4.1, 4.2).

use std::net::SocketAddr;
use std::sync::Arc;

use sip_msg::uri::Scheme;
use sip_msg::{HostPort, Transport, Uri};

use crate::reach::{Family, Reach};

/// Where a request is to go, before it is located.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination<'a> {
    /// A name, an IPv4 address, or an IPv6 address with or without brackets.
    pub host: &'a [u8],
    /// The port, where one is given.
    pub port: Option<u16>,
    /// The transport, where one is given.
    pub transport: Option<Transport>,
    /// Whether TLS is required.
    pub secure: bool,
    /// Whether it comes from the configuration.
    pub is_configured: bool,
}

/// What locating a destination came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Located {
    /// It is an address.
    Hop {
        /// The address, and the transport.
        hop: Hop,
        /// Whether the transport is the default, because none was given.
        by_default: bool,
    },
    /// It is a name: a [`crate::Resolution`] asks DNS for its hops.
    Ask(Query),
    /// Nothing can be sent there.
    Nowhere(Refusal),
}

/// One address to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The transport to use.
    pub transport: Transport,
    /// The address to send to.
    pub addr: SocketAddr,
    /// For TLS, the name that its certificate must have: the host of the URI, whatever
    /// names DNS gave in its place (RFC 5922 4).
    pub tls_name: Option<Arc<str>>,
}

/// A host to be resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The host as it stands in the URI.
    pub host: Arc<str>,
    /// The port, where the URI has one.
    pub port: Option<u16>,
    /// The transport, where the URI or the configuration names one.
    pub transport: Option<Transport>,
    /// Whether TLS is required (a `sips:` URI).
    pub secure: bool,
    /// Whether the host comes from the configuration: then it may use the room that
    /// is reserved from names in requests.
    pub is_configured: bool,
}

/// Why nothing can be sent to a destination, whatever DNS says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The scheme is neither `sip` nor `sips`.
    NoSipUri,
    /// The host is neither an address nor a valid DNS name.
    NoHost,
    /// The `transport` parameter is unknown.
    UnknownTransport,
    /// TLS is required, and `transport=udp` given.
    NoTlsOverUdp,
    /// Its transport is WebSocket, whose connections are opened by the other side.
    OpenedByPeer,
    /// This server has no listener of a transport that reaches it.
    NoListener,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoSipUri => "only `sip:` and `sips:` URIs name a place to send to",
            Self::NoHost => "it is no address, and no name that DNS could have",
            Self::UnknownTransport => "its `transport` is none of udp, tcp, tls",
            Self::NoTlsOverUdp => {
                "TLS is asked for, and UDP: leave `transport=udp` out, or write `sip:` for `sips:`"
            }
            Self::OpenedByPeer => "a WebSocket is opened by the other side: wait for it to connect",
            Self::NoListener => {
                "this server has no listener of its transport in its address family: add one"
            }
        })
    }
}

/// Locates a URI from a server with that reach. `secure`: TLS is required, whatever
/// the scheme.
pub fn locate_uri(uri: &Uri<'_>, secure: bool, reach: Reach) -> Located {
    match Destination::of_uri(uri, secure) {
        Ok(destination) => locate(&destination, reach),
        Err(refusal) => Located::Nowhere(refusal),
    }
}

/// Locates a destination from a server with that reach.
pub fn locate(destination: &Destination<'_>, reach: Reach) -> Located {
    match first(destination, reach) {
        Ok(First::Hop(hop)) => Located::Hop {
            hop,
            by_default: destination.transport.is_none(),
        },
        Ok(First::Name { host, transport }) => Located::Ask(Query {
            host: host.into(),
            port: destination.port,
            transport,
            secure: destination.secure,
            is_configured: destination.is_configured,
        }),
        Err(refusal) => Located::Nowhere(refusal),
    }
}

impl<'a> Destination<'a> {
    /// The destination of a URI. `secure`: TLS is required, whatever the scheme.
    pub fn of_uri(uri: &Uri<'a>, secure: bool) -> Result<Self, Refusal> {
        if !uri.is_sip() {
            return Err(Refusal::NoSipUri);
        }
        let transport = match uri.transport() {
            Some(None) => return Err(Refusal::UnknownTransport),
            named => named.flatten(),
        };
        Ok(Self {
            // RFC 3263 4: the TARGET is the `maddr` parameter, and without one the host.
            host: uri.param("maddr").unwrap_or(uri.host_port.host),
            port: uri.host_port.port,
            transport,
            secure: secure || uri.scheme == Scheme::Sips,
            is_configured: false,
        })
    }
}

impl Query {
    pub(crate) fn destination(&self) -> Destination<'_> {
        Destination {
            host: self.host.as_bytes(),
            port: self.port,
            transport: self.transport,
            secure: self.secure,
            is_configured: self.is_configured,
        }
    }
}

/// What is known without a question.
pub(crate) enum First<'a> {
    Hop(Hop),
    /// A name, and the transport where that is settled.
    Name {
        host: &'a str,
        transport: Option<Transport>,
    },
}

pub(crate) fn first<'a>(destination: &Destination<'a>, reach: Reach) -> Result<First<'a>, Refusal> {
    let Destination {
        host, port, secure, ..
    } = *destination;
    // RFC 3263 4.1: "If the URI specifies a transport protocol in the transport parameter,
    // that transport protocol SHOULD be used."
    let named = match destination.transport {
        Some(transport) => Some(secured(transport, secure)?),
        None => None,
    };
    if let Some(ip) = (HostPort { host, port }).ip() {
        let transport = reach
            .choose(named, secure, Family::of(ip))
            .ok_or(Refusal::NoListener)?;
        let port = port.unwrap_or(transport.default_port());
        return Ok(First::Hop(Hop {
            transport,
            addr: SocketAddr::new(ip, port),
            tls_name: transport.is_secure().then(|| bare(host)),
        }));
    }
    let host = std::str::from_utf8(host)
        .ok()
        .filter(|host| is_host_name(host))
        .ok_or(Refusal::NoHost)?;
    // Without a transport and a port the domain chooses among all of them.
    let is_reachable = match (named, port) {
        (None, None) => reach.services(secure).next().is_some(),
        _ => reach.families(named, secure).next().is_some(),
    };
    match is_reachable {
        true => Ok(First::Name {
            host,
            transport: named,
        }),
        false => Err(Refusal::NoListener),
    }
}

// RFC 3261 26.2.2: "Note that in the SIPS URI scheme, transport is independent of TLS, and
// thus "sips:alice@atlanta.com;transport=tcp" and "sips:alice@atlanta.com;transport=sctp"
// are both valid (although note that UDP is not a valid transport for SIPS)."
/// The transport that is used for the one that is named.
const fn secured(named: Transport, secure: bool) -> Result<Transport, Refusal> {
    match (named, secure) {
        // RFC 7118 5.1: nobody opens a WebSocket to a browser. It is reached along the flow
        // that it opened.
        (Transport::Ws | Transport::Wss, _) => Err(Refusal::OpenedByPeer),
        // RFC 3261 19.1.1: "For a SIPS URI, the transport parameter MUST indicate a reliable
        // transport."
        (Transport::Udp, true) => Err(Refusal::NoTlsOverUdp),
        (Transport::Tcp, true) => Ok(Transport::Tls),
        (named, _) => Ok(named),
    }
}

/// An address without the brackets of a URI, as it stands in a certificate.
fn bare(host: &[u8]) -> Arc<str> {
    let inner = host
        .strip_prefix(b"[")
        .and_then(|host| host.strip_suffix(b"]"));
    String::from_utf8_lossy(inner.unwrap_or(host)).into()
}

/// Whether DNS may be asked for it: RFC 1123's letters, and lengths.
fn is_host_name(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let fits = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    host.len() <= 253 && host.split('.').all(fits)
}

#[cfg(test)]
mod tests;
