//! What counts as one source of connections.

use std::net::IpAddr;

/// What counts as one source: a host with IPv6 has a /64 to itself.
pub(crate) fn source(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(ip) => IpAddr::from((u128::from(ip) & !u128::from(u64::MAX)).to_be_bytes()),
    }
}
