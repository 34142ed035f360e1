//! Networks of addresses.

use std::net::IpAddr;

/// Whether an address is in a network, which is named by any address in it and
/// the length of its prefix in bits; one that is too long means that one
/// address. An IPv4 address is the same in its IPv6 form (RFC 4291 2.5.5.2).
pub fn is_in(addr: IpAddr, prefix_len: u8, ip: IpAddr) -> bool {
    match (addr.to_canonical(), ip.to_canonical()) {
        (IpAddr::V4(addr), IpAddr::V4(ip)) => {
            let bits = u32::from(prefix_len.min(32));
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            addr.to_bits() & mask == ip.to_bits() & mask
        }
        (IpAddr::V6(addr), IpAddr::V6(ip)) => {
            let bits = u32::from(prefix_len.min(128));
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            addr.to_bits() & mask == ip.to_bits() & mask
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_its_addresses_and_no_others() {
        for (network, prefix_len, ip, has) in [
            ("192.0.2.0", 24, "192.0.2.255", true),
            ("192.0.2.0", 24, "192.0.3.0", false),
            ("192.0.2.77", 24, "192.0.2.1", true),
            ("192.0.2.1", 32, "192.0.2.1", true),
            ("192.0.2.1", 32, "192.0.2.2", false),
            ("192.0.2.1", 255, "192.0.2.1", true),
            ("192.0.2.1", 255, "192.0.2.2", false),
            ("0.0.0.0", 0, "203.0.113.9", true),
            ("0.0.0.0", 0, "2001:db8::1", false),
            ("192.0.2.0", 24, "::ffff:192.0.2.9", true),
            ("2001:db8::", 32, "2001:db8:ffff::1", true),
            ("2001:db8::", 32, "2001:db9::1", false),
            ("2001:db8::1", 128, "2001:db8::1", true),
            ("2001:db8::1", 128, "2001:db8::2", false),
            ("::", 0, "2001:db8::1", true),
            ("::", 0, "192.0.2.1", false),
        ] {
            assert_eq!(
                is_in(network.parse().unwrap(), prefix_len, ip.parse().unwrap()),
                has,
                "{network}/{prefix_len} {ip}"
            );
        }
    }
}
