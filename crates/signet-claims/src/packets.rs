//! What somebody in the path can do with packets of AH and ESP.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use ipsec::{Association, Auth, Esp, Keys, Mode, Provider, Transform, Tunnel};

/// Bytes before the packet: how it is protected, in which mode, with which numbers, and which
/// byte of the ICV is spoilt.
const CHOICES: usize = 4;

/// Whatever arrives is opened only if whoever has the keys made it, and once. What was sealed
/// opens to a packet that seals and opens to itself again. The first bytes choose the association,
/// the rest is the packet.
pub fn packets(data: &[u8]) {
    let Some((&[transform, mode, extended, spoilt], packet)) = data.split_first_chunk::<CHOICES>()
    else {
        return;
    };
    let association = Association {
        spi: 0x4321,
        transform: nth_transform(transform),
        mode: nth_mode(mode),
        is_extended: extended % 2 == 1,
        provider: Provider::RustCrypto,
    };
    let keys = keys(association.transform);
    let mut receiver = association.inbound(&keys).expect("keys that fit");
    let is_authenticated = is_authenticated(association.transform);

    let opened = receiver.open(&mut packet.to_vec()).is_ok();
    assert!(
        !(opened && is_authenticated),
        "opened, and nobody sealed it"
    );

    let mut receiver = association.inbound(&keys).expect("keys that fit");
    let mut sender = association.outbound(&keys, [7; 16]).expect("keys that fit");
    let mut sealed = Vec::new();
    if sender.seal(packet, &mut sealed).is_err() {
        assert!(
            sealed.is_empty(),
            "it failed, and there is something to send"
        );
        return;
    }
    if is_authenticated {
        let icv = icv_of(association.transform, &sealed);
        let mut changed = sealed.clone();
        changed[icv.start + usize::from(spoilt) % icv.len()] ^= 1 << (spoilt % 8);
        assert!(receiver.open(&mut changed).is_err(), "a changed ICV passed");
        let mut changed = sealed.clone();
        let last = changed.last_mut().expect("a packet has octets");
        *last ^= 1 << (spoilt % 8);
        assert!(receiver.open(&mut changed).is_err(), "a changed end passed");
    }
    let mut arrived = sealed.clone();
    let Ok(opened) = receiver.open(&mut arrived) else {
        panic!("what was sealed does not open");
    };
    let opened = opened.packet().to_vec();
    assert!(opened.len() <= packet.len(), "it grew");
    if is_authenticated {
        assert!(receiver.open(&mut sealed).is_err(), "it was replayed");
    }
    sender
        .seal(&opened, &mut sealed)
        .expect("it was sealed before");
    let again = receiver.open(&mut sealed).expect("it was opened before");
    assert_eq!(again.packet(), opened, "it changes on its way");
}

fn nth_transform(nth: u8) -> Transform {
    let all: Vec<Transform> = Esp::all()
        .map(Transform::Esp)
        .chain(Auth::ALL.map(Transform::Ah))
        .collect();
    all[usize::from(nth) % all.len()]
}

fn nth_mode(nth: u8) -> Mode {
    match nth % 3 {
        0 => Mode::Transport,
        1 => Mode::Tunnel(Tunnel::V4 {
            from: Ipv4Addr::new(192, 0, 2, 1),
            to: Ipv4Addr::new(192, 0, 2, 2),
        }),
        _ => Mode::Tunnel(Tunnel::V6 {
            from: Ipv6Addr::LOCALHOST,
            to: Ipv6Addr::LOCALHOST,
        }),
    }
}

fn keys(transform: Transform) -> Keys {
    let (cipher, auth) = match transform {
        Transform::Esp(esp) => (
            esp.cipher().key_bytes() + esp.cipher().salt_bytes(),
            esp.auth().map_or(0, Auth::key_bytes),
        ),
        Transform::Ah(auth) => (0, auth.key_bytes()),
    };
    // Keys of DES and Triple DES that are not weak, and not equal to each other.
    let key = |bytes: usize, from: u8| (from..).step_by(3).take(bytes).collect::<Vec<u8>>();
    Keys::new(&key(cipher, 1), &key(auth, 2))
}

fn is_authenticated(transform: Transform) -> bool {
    match transform {
        Transform::Esp(esp) => esp.is_authenticated(),
        Transform::Ah(_) => true,
    }
}

/// Protocol numbers of AH, and of the header of a fragment, which does not tell its length.
const AH: u8 = 51;
const FRAGMENT: u8 = 44;

/// Where the ICV lies: at the end of ESP, behind the twelve fixed octets of AH.
fn icv_of(transform: Transform, sealed: &[u8]) -> Range<usize> {
    match transform {
        Transform::Esp(esp) => sealed.len() - esp.icv_bytes()..sealed.len(),
        Transform::Ah(auth) => {
            let icv_at = ah_at(sealed) + 12;
            icv_at..icv_at + auth.icv_bytes()
        }
    }
}

/// Where AH lies in what was sealed: behind IPv4's header, or behind extension headers of IPv6.
fn ah_at(sealed: &[u8]) -> usize {
    if sealed[0] >> 4 == 4 {
        return usize::from(sealed[0] & 0x0f) * 4;
    }
    let (mut at, mut kind) = (40, sealed[6]);
    while kind != AH {
        let units = if kind == FRAGMENT { 0 } else { sealed[at + 1] };
        kind = sealed[at];
        at += (usize::from(units) + 1) * 8;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    /// UDP over IPv4, and over IPv6 behind a header that each node reads.
    fn plain() -> [Vec<u8>; 2] {
        let udp = [0x13, 0xc4, 0x13, 0xc4, 0, 12, 0, 0, b'd', b'a', b't', b'a'];
        let mut v4 = vec![
            0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0, 192, 0, 2, 3, 192, 0, 2, 4,
        ];
        v4.extend_from_slice(&udp);
        let mut v6 = vec![0x60, 0, 0, 0, 0, 20, 0, 64];
        v6.extend_from_slice(&Ipv6Addr::LOCALHOST.octets());
        v6.extend_from_slice(&Ipv6Addr::LOCALHOST.octets());
        // Options for each hop: padding alone.
        v6.extend_from_slice(&[17, 0, 1, 4, 0, 0, 0, 0]);
        v6.extend_from_slice(&udp);
        [v4, v6]
    }

    /// The choices that lead to AH.
    fn of_ah() -> impl Iterator<Item = u8> {
        let all = Esp::all().count() + Auth::ALL.len();
        let all = u8::try_from(all).expect("few transforms");
        (0..all).filter(|nth| matches!(nth_transform(*nth), Transform::Ah(_)))
    }

    #[test]
    fn what_another_key_changes_of_a_packet_of_ah_is_its_icv() {
        for (transform, mode) in of_ah().flat_map(|nth| [(nth, 0), (nth, 1), (nth, 2)]) {
            for packet in plain() {
                let Transform::Ah(auth) = nth_transform(transform) else {
                    panic!("it is AH");
                };
                let association = Association {
                    spi: 0x4321,
                    transform: Transform::Ah(auth),
                    mode: nth_mode(mode),
                    is_extended: false,
                    provider: Provider::RustCrypto,
                };
                let sealed = |octet: u8| {
                    let keys = Keys::new(&[], &vec![octet; auth.key_bytes()]);
                    let mut sender = association.outbound(&keys, [7; 16]).unwrap();
                    let mut sealed = Vec::new();
                    sender.seal(&packet, &mut sealed).unwrap();
                    sealed
                };
                let (one, other) = (sealed(1), sealed(2));
                let icv = icv_of(association.transform, &one);
                assert_eq!(icv.len(), auth.icv_bytes());
                for at in 0..one.len() {
                    let is_same = one[at] == other[at];
                    assert!(is_same || icv.contains(&at), "{at} of {icv:?}, {mode}");
                }
                assert_ne!(one[icv.clone()], other[icv]);
            }
        }
    }

    #[test]
    fn every_octet_of_an_icv_is_compared() {
        let transforms = of_ah().count();
        assert_eq!(transforms, Auth::ALL.len());
        for (transform, mode) in of_ah().flat_map(|nth| [(nth, 0), (nth, 1), (nth, 2)]) {
            for packet in plain() {
                for spoilt in 0..48 {
                    packets(&[&[transform, mode, 0, spoilt], &packet[..]].concat());
                }
            }
        }
    }
}
