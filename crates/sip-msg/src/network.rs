//! Networks of addresses.

use std::net::IpAddr;

pub use ipnet::IpNet;

/// Whether an address is in a network. An IPv4 address is the same in its IPv6
/// form (RFC 4291 2.5.5.2).
pub fn is_in(network: IpNet, ip: IpAddr) -> bool {
    network.contains(&ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_its_addresses_and_no_others() {
        for (network, ip, has) in [
            ("192.0.2.0/24", "192.0.2.255", true),
            ("192.0.2.0/24", "192.0.3.0", false),
            ("192.0.2.77/24", "192.0.2.1", true),
            ("192.0.2.1/32", "192.0.2.1", true),
            ("192.0.2.1/32", "192.0.2.2", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("192.0.2.0/24", "::ffff:192.0.2.9", true),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("2001:db8::1/128", "2001:db8::1", true),
            ("2001:db8::1/128", "2001:db8::2", false),
            ("::/0", "2001:db8::1", true),
            ("::/0", "192.0.2.1", false),
        ] {
            assert_eq!(
                is_in(network.parse().unwrap(), ip.parse().unwrap()),
                has,
                "{network} {ip}"
            );
        }
    }
}
