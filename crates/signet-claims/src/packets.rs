//! What somebody in the path can do with packets of AH and ESP.

use std::net::{Ipv4Addr, Ipv6Addr};

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
        let icv = icv_at(association.transform, &sealed);
        let mut changed = sealed.clone();
        changed[icv + usize::from(spoilt) % (sealed.len() - icv)] ^= 1 << (spoilt % 8);
        assert!(receiver.open(&mut changed).is_err(), "a changed ICV passed");
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

/// Where the ICV begins: at the end of ESP, behind the twelve fixed octets of AH.
fn icv_at(transform: Transform, sealed: &[u8]) -> usize {
    match transform {
        Transform::Esp(esp) => sealed.len() - esp.icv_bytes(),
        // What follows the ICV is covered by it: any of it will do.
        Transform::Ah(_) => sealed.len() - 1,
    }
}
