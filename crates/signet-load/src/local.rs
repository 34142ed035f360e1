//! Which addresses a load comes from: one, or a range of loopback addresses,
//! so that neither ports nor a server's bound per source run out.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::str::FromStr;

use sip_msg::Transport;

use crate::settings::{Lifetime, Settings};

/// An address, or a range of IPv4 addresses in the notation `127.1.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local {
    first: IpAddr,
    /// Bits of an IPv4 address that are the same in the whole range.
    prefix: u8,
}

impl Local {
    /// One address.
    pub const fn one(ip: IpAddr) -> Self {
        Self {
            first: ip,
            prefix: 32,
        }
    }

    /// Where a load comes from that says nothing of it: towards this machine its own
    /// addresses, else the address that leads to the server.
    pub fn towards(settings: &Settings) -> Self {
        let loopback =
            || many_connections(settings).unwrap_or(Self::one(Ipv4Addr::LOCALHOST.into()));
        match settings.server.as_ref().map(|server| server.addr) {
            None => loopback(),
            Some(server) if server.ip().is_loopback() && server.is_ipv4() => loopback(),
            Some(server) if server.ip().is_loopback() => Self::one(Ipv6Addr::LOCALHOST.into()),
            Some(server) => Self::one(route_to(server).unwrap_or(server.ip())),
        }
    }

    /// How many addresses there are; the network's own and the last are not
    /// used where there are more than two.
    pub fn count(self) -> usize {
        let all = 1usize << (32 - u32::from(self.prefix.min(32)));
        if all > 2 { all - 2 } else { all }
    }

    /// The address in this place, from the beginning again past the end.
    pub fn at(self, place: usize) -> IpAddr {
        match self.first {
            IpAddr::V4(first) if self.prefix < 32 => {
                let skipped = u32::from(self.prefix < 31);
                let offset = u32::try_from(place % self.count()).unwrap_or(0) + skipped;
                Ipv4Addr::from(u32::from(first).wrapping_add(offset)).into()
            }
            first => first,
        }
    }

    /// The address in this place, with a port that the kernel chooses.
    pub fn any_port(self, place: usize) -> SocketAddr {
        SocketAddr::new(self.at(place), 0)
    }

    /// Whether all of it is on this machine.
    pub fn is_loopback(self) -> bool {
        self.first.is_loopback() && (self.first.is_ipv6() || self.prefix >= 8)
    }
}

/// One address has 28,000 ports, and each is kept for a minute after its use:
/// a connection per call needs more.
fn many_connections(settings: &Settings) -> Option<Local> {
    let is_stream = settings.transport() != Some(Transport::Udp);
    (is_stream && settings.lifetime != Lifetime::One)
        .then(|| "127.1.0.0/16".parse().ok())
        .flatten()
}

/// The address that this machine has towards a server elsewhere.
fn route_to(remote: SocketAddr) -> Option<IpAddr> {
    let any: SocketAddr = if remote.is_ipv4() {
        (Ipv4Addr::UNSPECIFIED, 0).into()
    } else {
        (Ipv6Addr::UNSPECIFIED, 0).into()
    };
    // Connecting a datagram socket sends nothing.
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(remote).ok()?;
    socket.local_addr().ok().map(|local| local.ip())
}

impl FromStr for Local {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help =
            || format!("'{text}' is no address; write 127.0.0.1, ::1, or a range: 127.1.0.0/16");
        let Some((ip, prefix)) = text.split_once('/') else {
            return text.parse().map(Self::one).map_err(|_| help());
        };
        let first: Ipv4Addr = ip.parse().map_err(|_| help())?;
        let prefix: u8 = prefix.parse().map_err(|_| help())?;
        if !(8..=32).contains(&prefix) {
            return Err(format!(
                "'{text}' is too wide a range; write a prefix from /8 to /32"
            ));
        }
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
        let start = Ipv4Addr::from(u32::from(first) & mask);
        if start != first {
            return Err(format!(
                "'{text}' does not begin its range; write {start}/{prefix}"
            ));
        }
        Ok(Self {
            first: first.into(),
            prefix,
        })
    }
}

impl fmt::Display for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first.is_ipv4() && self.prefix < 32 {
            write!(f, "{}/{}", self.first, self.prefix)
        } else {
            write!(f, "{}", self.first)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_walked_without_their_ends() {
        let range: Local = "127.1.0.0/30".parse().unwrap();
        let walked: Vec<String> = (0..3).map(|n| range.at(n).to_string()).collect();
        assert_eq!(walked, ["127.1.0.1", "127.1.0.2", "127.1.0.1"]);
        let wide: Local = "127.1.0.0/16".parse().unwrap();
        assert_eq!(wide.count(), 65_534);
        assert_eq!(wide.at(65_533).to_string(), "127.1.255.254");
        let pair: Local = "127.0.0.2/31".parse().unwrap();
        assert_eq!(
            (pair.count(), pair.at(0).to_string()),
            (2, "127.0.0.2".to_owned())
        );
        let one: Local = "::1".parse().unwrap();
        assert_eq!((one.count(), one.at(5).to_string()), (1, "::1".to_owned()));
        assert!(wide.is_loopback() && one.is_loopback());
    }

    #[test]
    fn mistakes_are_named_with_their_remedy() {
        for (bad, why) in [
            ("localhost", "write 127.0.0.1"),
            ("127.1.0.0/7", "from /8 to /32"),
            ("127.1.2.3/16", "write 127.1.0.0/16"),
            ("127.1.0.0/x", "is no address"),
        ] {
            let error = bad.parse::<Local>().unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
