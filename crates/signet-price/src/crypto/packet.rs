//! The packets that are protected: UDP over IP, as SIP has them.

use std::net::{Ipv4Addr, Ipv6Addr};

use ipsec::Tunnel;

/// A version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V4,
    V6,
}

impl Version {
    pub(super) const ALL: [Self; 2] = [Self::V4, Self::V6];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::V4 => "ipv4",
            Self::V6 => "ipv6",
        }
    }

    /// Between two gateways (RFC 5737, RFC 3849).
    pub(super) fn tunnel(self) -> Tunnel {
        match self {
            Self::V4 => Tunnel::V4 {
                from: Ipv4Addr::new(192, 0, 2, 1),
                to: Ipv4Addr::new(192, 0, 2, 2),
            },
            Self::V6 => Tunnel::V6 {
                from: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
                to: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
            },
        }
    }
}

/// A packet with `size_bytes` in its datagram, which are fewer than IP holds.
pub(super) fn packet(version: Version, size_bytes: u64) -> Vec<u8> {
    let udp_bytes = size_bytes as u16 + 8;
    let mut packet = match version {
        Version::V4 => {
            let [high, low] = (udp_bytes + 20).to_be_bytes();
            let mut header = vec![
                0x45, 0, high, low, 0, 1, 0x40, 0, 64, 17, 0, 0, 198, 51, 100, 1, 198, 51, 100, 2,
            ];
            let sum: u32 = header
                .chunks_exact(2)
                .filter_map(|pair| pair.first_chunk::<2>())
                .map(|pair| u32::from(u16::from_be_bytes(*pair)))
                .sum();
            // RFC 791 3.1; the second time takes what the first carries over.
            let sum = (sum & 0xffff) + (sum >> 16);
            let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
            if let Some(place) = header.get_mut(10..12) {
                place.copy_from_slice(&sum.to_be_bytes());
            }
            header
        }
        Version::V6 => {
            let [high, low] = udp_bytes.to_be_bytes();
            let mut header = vec![0x60, 0, 0, 0, high, low, 17, 64];
            for last in [3, 4] {
                header.extend(Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, last).octets());
            }
            header
        }
    };
    let [high, low] = udp_bytes.to_be_bytes();
    packet.extend([0x13, 0xc4, 0x13, 0xc4, high, low, 0, 0]);
    packet.extend((0..size_bytes).map(|nth| (nth.wrapping_mul(31) >> 1) as u8));
    packet
}
