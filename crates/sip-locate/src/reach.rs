//! What a server can send by.

use std::net::IpAddr;

use sip_msg::Transport;

/// The transports that a server can send by, for each family of addresses: those
/// of its listeners. It is collected from their transports and addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// A bit for each transport.
    ipv4: u8,
    ipv6: u8,
}

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

/// The transports that servers are found for, the preferred one first; that counts
/// where a domain states no preference.
const PREFERRED: [Transport; 3] = [Transport::Tls, Transport::Udp, Transport::Tcp];

impl Reach {
    /// UDP, TCP and TLS, to IPv4 and to IPv6.
    pub const EVERYWHERE: Self = {
        let bits = bit(Transport::Udp) | bit(Transport::Tcp) | bit(Transport::Tls);
        Self {
            ipv4: bits,
            ipv6: bits,
        }
    };

    /// Whether `ip` can be reached over `transport`.
    pub const fn has(self, transport: Transport, ip: IpAddr) -> bool {
        self.has_in(transport, Family::of(ip))
    }

    const fn has_in(self, transport: Transport, family: Family) -> bool {
        let bits = match family {
            Family::V4 => self.ipv4,
            Family::V6 => self.ipv6,
        };
        bits & bit(transport) != 0
    }

    // RFC 3263 4.1: "Otherwise, if no transport protocol is specified, but the TARGET is a
    // numeric IP address, the client SHOULD use UDP for a SIP URI, and TCP for a SIPS URI.
    // Similarly, if no transport protocol is specified, and the TARGET is not numeric, but
    // an explicit port is provided, the client SHOULD use UDP for a SIP URI, and TCP for a
    // SIPS URI." Where this server has no UDP it is TCP, RFC 3261 18: "All SIP elements MUST
    // implement UDP and TCP."
    /// The transport to an address of that family: the one that is named, else the
    /// default; `None` where there is no listener of it.
    pub(crate) fn choose(
        self,
        named: Option<Transport>,
        secure: bool,
        family: Family,
    ) -> Option<Transport> {
        let has = |transport: &Transport| self.has_in(*transport, family);
        match named {
            Some(named) => Some(named).filter(has),
            None if secure => Some(Transport::Tls).filter(has),
            None => [Transport::Udp, Transport::Tcp].into_iter().find(has),
        }
    }

    /// The families in which there is such a transport. IPv6 comes first.
    pub(crate) fn families(
        self,
        named: Option<Transport>,
        secure: bool,
    ) -> impl Iterator<Item = Family> {
        [Family::V6, Family::V4]
            .into_iter()
            .filter(move |family| self.choose(named, secure, *family).is_some())
    }

    /// The transports that a domain may offer, the preferred one first.
    pub(crate) fn services(self, secure: bool) -> impl Iterator<Item = Transport> {
        PREFERRED.into_iter().filter(move |transport| {
            (!secure || transport.is_secure())
                && (self.has_in(*transport, Family::V4) || self.has_in(*transport, Family::V6))
        })
    }
}

impl FromIterator<(Transport, IpAddr)> for Reach {
    fn from_iter<I: IntoIterator<Item = (Transport, IpAddr)>>(listeners: I) -> Self {
        let mut reach = Self::default();
        for (transport, ip) in listeners {
            let bits = match Family::of(ip) {
                Family::V4 => &mut reach.ipv4,
                Family::V6 => &mut reach.ipv6,
            };
            *bits |= bit(transport);
        }
        reach
    }
}

impl Family {
    pub(crate) const fn of(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }
}

const fn bit(transport: Transport) -> u8 {
    1 << transport as u8
}
