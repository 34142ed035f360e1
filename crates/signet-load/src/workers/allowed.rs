//! Whom a worker may load.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use sip_msg::network::IpNet;

/// An address that a worker may load: a network on all ports, or one port of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// All of a network, or of one address.
    Network(IpNet),
    /// One port.
    Port(SocketAddr),
}

impl Allowed {
    /// Whether this address is among it.
    pub fn has(self, addr: SocketAddr) -> bool {
        let ip = addr.ip().to_canonical();
        match self {
            Self::Network(network) => network.contains(&ip),
            Self::Port(only) => (only.ip().to_canonical(), only.port()) == (ip, addr.port()),
        }
    }
}

impl FromStr for Allowed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let network = || text.parse::<IpNet>().ok();
        let address = || text.parse::<IpAddr>().ok().map(IpNet::from);
        let port = || text.parse::<SocketAddr>().ok().map(Self::Port);
        network()
            .or_else(address)
            .map(Self::Network)
            .or_else(port)
            .ok_or_else(|| {
                format!("'{text}' is no target; write an address, ADDR:PORT or a network: 192.0.2.7, 192.0.2.7:5060, 192.0.2.0/24")
            })
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(network) => network.fmt(f),
            Self::Port(addr) => addr.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_allowed_by_itself_its_network_or_its_port_alone() {
        for (allowed, addr, is_allowed) in [
            ("192.0.2.7", "192.0.2.7:5060", true),
            ("192.0.2.7", "192.0.2.8:5060", false),
            ("192.0.2.0/24", "192.0.2.8:1", true),
            ("192.0.2.0/24", "192.0.3.8:1", false),
            ("192.0.2.7:5060", "192.0.2.7:5060", true),
            ("192.0.2.7:5060", "192.0.2.7:53", false),
            ("192.0.2.7", "[::ffff:192.0.2.7]:5060", true),
            ("[::1]:5060", "[::1]:5060", true),
            ("127.0.0.0/8", "0.0.0.0:5060", false),
            ("2001:db8::/32", "192.0.2.7:5060", false),
        ] {
            let rule: Allowed = allowed.parse().unwrap();
            assert_eq!(
                rule.has(addr.parse().unwrap()),
                is_allowed,
                "{allowed} {addr}"
            );
        }
        // A name may lead elsewhere tomorrow.
        assert!("example.com".parse::<Allowed>().is_err());
    }
}
