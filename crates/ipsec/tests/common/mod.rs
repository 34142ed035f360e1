//! Packets, and every association that can be.
#![allow(dead_code, unreachable_pub)]

use std::net::{Ipv4Addr, Ipv6Addr};

use ipsec::primitive::Provider;
use ipsec::{Association, Auth, Esp, Inbound, Keys, Mode, Outbound, SetupError, Transform, Tunnel};

pub const V4: Tunnel = Tunnel::V4 {
    from: Ipv4Addr::new(192, 0, 2, 1),
    to: Ipv4Addr::new(192, 0, 2, 2),
};
pub const V6: Tunnel = Tunnel::V6 {
    from: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
    to: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
};

/// An association and its keys.
#[derive(Clone, Debug)]
pub struct Case {
    pub association: Association,
    pub cipher_key: Vec<u8>,
    pub auth_key: Vec<u8>,
}

impl Case {
    pub fn new(transform: Transform, mode: Mode, provider: Provider) -> Self {
        let (cipher_bytes, auth) = match transform {
            Transform::Esp(esp) => {
                let cipher = esp.cipher();
                (cipher.key_bytes() + cipher.salt_bytes(), esp.auth())
            }
            Transform::Ah(auth) => (0, Some(auth)),
        };
        let octets = |bytes: usize, step: u8| -> Vec<u8> {
            (1..=bytes as u8)
                .map(|nth| nth.wrapping_mul(step).wrapping_add(7))
                .collect()
        };
        Self {
            association: Association {
                spi: 0x1234_5678,
                transform,
                mode,
                is_extended: false,
                provider,
            },
            cipher_key: octets(cipher_bytes, 37),
            auth_key: octets(auth.map_or(0, Auth::key_bytes), 91),
        }
    }

    pub fn keys(&self) -> Keys {
        Keys::new(&self.cipher_key, &self.auth_key)
    }

    pub fn pair(&self) -> (Outbound, Inbound) {
        let sender = self.association.outbound(&self.keys(), [9; 16]).unwrap();
        (sender, self.association.inbound(&self.keys()).unwrap())
    }

    pub fn is_ah(&self) -> bool {
        matches!(self.association.transform, Transform::Ah(_))
    }

    pub fn is_authenticated(&self) -> bool {
        match self.association.transform {
            Transform::Ah(_) => true,
            Transform::Esp(esp) => esp.is_authenticated(),
        }
    }

    /// Octets before AH or ESP, of an IPv4 packet that was protected.
    pub fn head_bytes(&self) -> usize {
        match self.association.mode {
            Mode::Tunnel(Tunnel::V6 { .. }) => 40,
            _ => 20,
        }
    }

    pub fn head_bytes_of(&self, sealed: &[u8]) -> usize {
        if sealed[0] >> 4 == 6 { 40 } else { 20 }
    }

    /// Whether AH leaves this octet of the header out, or some bits of it.
    pub fn may_change(&self, at: usize) -> bool {
        match self.head_bytes() {
            20 => [1, 6, 7, 8, 10, 11].contains(&at),
            _ => [0, 1, 2, 3, 7].contains(&at),
        }
    }
}

/// Every transform in every mode by every provider that has it.
pub fn cases() -> impl Iterator<Item = Case> {
    let transforms = Esp::all()
        .map(Transform::Esp)
        .chain(Auth::ALL.map(Transform::Ah));
    let modes = [Mode::Transport, Mode::Tunnel(V4), Mode::Tunnel(V6)];
    transforms.flat_map(move |transform| {
        modes.into_iter().flat_map(move |mode| {
            Provider::ALL.iter().filter_map(move |provider| {
                let case = Case::new(transform, mode, *provider);
                match case.association.inbound(&case.keys()) {
                    Ok(_) => Some(case),
                    Err(SetupError::Unavailable(_)) => None,
                    Err(error) => panic!("{case:?}: {error}"),
                }
            })
        })
    })
}

/// UDP with so many octets between two addresses of IPv4.
pub fn packet_v4(payload: usize) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0x12, 0x34, 0, 0, 64, 17, 0, 0];
    packet.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    let total = 28 + payload;
    packet[2..4].copy_from_slice(&(total as u16).to_be_bytes());
    let sum: u32 = packet
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]))
        .sum();
    let sum = !(((sum >> 16) + (sum & 0xffff)) as u16);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    udp(&mut packet, payload);
    packet
}

/// The same of IPv6.
pub fn packet_v6(payload: usize) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 0, 17, 64];
    packet[4..6].copy_from_slice(&((payload + 8) as u16).to_be_bytes());
    for last in [1, 2] {
        packet.extend([0x20, 1, 0x0d, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    udp(&mut packet, payload);
    packet
}

fn udp(packet: &mut Vec<u8>, payload: usize) {
    let [high, low] = ((payload + 8) as u16).to_be_bytes();
    packet.extend([0x13, 0xc4, 0x13, 0xc4, high, low, 0, 0]);
    packet.extend((0..payload).map(|nth| (nth * 7) as u8));
}
