//! What must hold of every packet: it comes back as it was, once, and only unchanged.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Case, V4, V6, cases, packet_v4, packet_v6};
use ipsec::primitive::Provider;
use ipsec::{
    Association, Auth, Cipher, Esp, Keys, Mode, OpenError, Outbound, PacketError, SealError,
    SetupError, Transform,
};
use proptest::prelude::*;

fn flipped(sealed: &[u8], bit: usize) -> Vec<u8> {
    let mut copy = sealed.to_vec();
    copy[bit / 8] ^= 1 << (bit % 8);
    copy
}

#[test]
fn every_transform_gives_packets_back() {
    for case in cases() {
        let (mut sender, mut receiver) = case.pair();
        let mut sealed = Vec::new();
        for payload in [0, 1, 7, 8, 63, 64, 300, 1_400] {
            for packet in [packet_v4(payload), packet_v6(payload)] {
                sender.seal(&packet, &mut sealed).unwrap();
                let opened = receiver.open(&mut sealed).unwrap();
                assert_eq!(opened.packet(), packet, "{case:?} {payload}");
            }
        }
    }
}

/// Any bit of what is authenticated; in AH those of the header that may change are not.
#[test]
fn a_flipped_bit_is_refused() {
    for case in cases().filter(Case::is_authenticated) {
        let (mut sender, mut receiver) = case.pair();
        let mut sealed = Vec::new();
        sender.seal(&packet_v4(33), &mut sealed).unwrap();
        let from = if case.is_ah() { 0 } else { case.head_bytes() };
        for bit in from * 8..sealed.len() * 8 {
            if case.is_ah() && case.may_change(bit / 8) {
                continue;
            }
            let result = receiver.open(&mut flipped(&sealed, bit)).map(|_| ());
            assert!(result.is_err(), "{case:?} bit {bit}");
        }
        // And none of those attempts has used the number up.
        assert!(receiver.open(&mut sealed).is_ok(), "{case:?}");
    }
}

/// RFC 4302 3.3.3.1.1: routers change these, and AH does not mind.
#[test]
fn ah_does_not_mind_what_routers_change() {
    for case in cases().filter(Case::is_ah) {
        let (mut sender, mut receiver) = case.pair();
        let mut sealed = Vec::new();
        sender.seal(&packet_v4(33), &mut sealed).unwrap();
        let changes: &[usize] = if sealed[0] >> 4 == 6 {
            &[1, 2, 3, 7]
        } else {
            &[1, 8, 10, 11]
        };
        for at in changes {
            sealed[*at] ^= 0x15;
        }
        let opened = receiver.open(&mut sealed).unwrap();
        assert_eq!(opened.packet()[28..], packet_v4(33)[28..], "{case:?}");
    }
}

/// RFC 4303 2.6 has dummies, which ESP in transport mode would make of these; RFC 4302 has none.
#[test]
fn a_packet_that_carries_nothing_is_sealed_by_ah_and_in_a_tunnel_alone() {
    let nothing = [(packet_v4(0), 9), (packet_v6(0), 6)].map(|(mut packet, next_at)| {
        packet[next_at] = 59;
        of_class(packet, 0)
    });
    for case in cases() {
        let (mut sender, mut receiver) = case.pair();
        let is_transport = case.association.mode == Mode::Transport;
        for packet in &nothing {
            let mut sealed = vec![1];
            let result = sender.seal(packet, &mut sealed);
            if is_transport && !case.is_ah() {
                assert_eq!(result, Err(SealError::CarriesNothing), "{case:?}");
                assert!(sealed.is_empty(), "{case:?}");
                continue;
            }
            result.unwrap();
            let opened = receiver.open(&mut sealed).unwrap();
            assert_eq!(opened.packet(), packet, "{case:?}");
        }
    }
}

/// A packet of this class, with the checksum that belongs to it.
fn of_class(mut packet: Vec<u8>, class: u8) -> Vec<u8> {
    if packet[0] >> 4 == 6 {
        packet[0] |= class >> 4;
        packet[1] |= class << 4;
        return packet;
    }
    packet[1] = class;
    packet[10..12].fill(0);
    let sum = !sum_of(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// The sum over an IPv4 header: all ones where its checksum is right.
fn sum_of(packet: &[u8]) -> u16 {
    let words = packet[..20].chunks(2);
    let sum: u32 = words
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum();
    ((sum >> 16) + (sum & 0xffff)) as u16
}

/// RFC 4301 5.1.2.1: those who understand congestion are told what the outer packet met.
#[test]
fn congestion_in_a_tunnel_is_told_to_those_who_understand_it() {
    let is_tunnel = |case: &Case| case.association.mode != Mode::Transport;
    for case in cases().filter(is_tunnel) {
        let (mut sender, mut receiver) = case.pair();
        let mut sealed = Vec::new();
        for ecn in 0..=3 {
            for packet in [packet_v4(20), packet_v6(20)] {
                let class = 0xb8 | ecn;
                let packet = of_class(packet, class);
                sender.seal(&packet, &mut sealed).unwrap();
                sealed[1] |= if sealed[0] >> 4 == 6 { 0x30 } else { 0x03 };
                let opened = receiver.open(&mut sealed).unwrap();
                let expected = if ecn == 0 { class } else { class | 3 };
                let expected = of_class(packet, expected);
                assert_eq!(opened.packet(), expected, "{case:?} {ecn}");
                let is_v4 = expected[0] >> 4 == 4;
                assert!(
                    !is_v4 || sum_of(opened.packet()) == 0xffff,
                    "{case:?} {ecn}"
                );
            }
        }
    }
}

#[test]
fn a_replayed_and_a_too_old_packet_are_refused() {
    for case in cases().filter(Case::is_authenticated) {
        let (mut sender, mut receiver) = case.pair();
        let packets: Vec<Vec<u8>> = (0..66)
            .map(|_| {
                let mut sealed = Vec::new();
                sender.seal(&packet_v4(20), &mut sealed).unwrap();
                sealed
            })
            .collect();
        let mut open = |nth: usize| receiver.open(&mut packets[nth].clone()).map(|_| ());
        assert_eq!(open(65), Ok(()));
        assert_eq!(open(65), Err(OpenError::Replayed), "{case:?}");
        // 66 is the highest number; the window's left edge is 3, the third packet.
        assert_eq!(open(1), Err(OpenError::TooOld), "{case:?}");
        assert_eq!(open(2), Ok(()));
        assert_eq!(open(2), Err(OpenError::Replayed));
    }
}

#[test]
fn numbers_end_before_they_cycle() {
    for is_extended in [false, true] {
        let mut case = cases().next().unwrap();
        case.association.is_extended = is_extended;
        let (mut sender, mut receiver) = case.pair();
        let last = if is_extended {
            u64::MAX
        } else {
            u64::from(u32::MAX)
        };
        sender.resume_after(last - 1);
        receiver.resume_after(last - 1);
        let mut sealed = Vec::new();
        sender.seal(&packet_v4(20), &mut sealed).unwrap();
        assert_eq!(receiver.open(&mut sealed).unwrap().sequence(), last);
        assert_eq!(
            sender.seal(&packet_v4(20), &mut sealed),
            Err(SealError::Exhausted)
        );
        assert!(sealed.is_empty());
    }
}

/// RFC 4106 3.1: "For a given key, the IV MUST NOT repeat."
#[test]
fn no_iv_comes_twice_wherever_the_numbers_go_on() {
    for case in cases() {
        let iv_bytes = match case.association.transform {
            Transform::Esp(esp) => esp.cipher().iv_bytes(),
            Transform::Ah(_) => 0,
        };
        if iv_bytes == 0 {
            continue;
        }
        let iv = |sender: &mut Outbound| {
            let mut sealed = Vec::new();
            sender.seal(&packet_v4(20), &mut sealed).unwrap();
            let at = case.head_bytes() + 8;
            sealed[at..at + iv_bytes].to_vec()
        };
        let (mut sender, _) = case.pair();
        let first = iv(&mut sender);
        sender.resume_after(0);
        let second = iv(&mut sender);
        assert_ne!(first, second, "{case:?}");
        // The same keys and secret after a restart.
        let (mut again, _) = case.pair();
        again.resume_after(1);
        assert_ne!(iv(&mut again), first, "{case:?}");
    }
}

#[test]
fn what_was_received_is_not_received_again_wherever_the_numbers_go_on() {
    for case in cases().filter(Case::is_authenticated) {
        let (mut sender, mut receiver) = case.pair();
        let mut sealed = Vec::new();
        sender.seal(&packet_v4(20), &mut sealed).unwrap();
        receiver.open(&mut sealed.clone()).unwrap();
        receiver.resume_after(0);
        let again = receiver.open(&mut sealed).unwrap_err();
        assert_eq!(again, OpenError::Replayed, "{case:?}");
    }
}

/// RFC 4303 2.2.1: the upper half is authenticated though it is not sent.
#[test]
fn the_upper_half_of_a_number_counts() {
    for mut case in cases().filter(Case::is_authenticated) {
        case.association.is_extended = true;
        let (mut sender, mut receiver) = case.pair();
        sender.resume_after((1 << 32) - 2);
        receiver.resume_after((1 << 32) - 2);
        let mut sealed = Vec::new();
        for number in (1u64 << 32) - 1..(1 << 32) + 3 {
            sender.seal(&packet_v4(20), &mut sealed).unwrap();
            assert_eq!(
                receiver.open(&mut sealed).unwrap().sequence(),
                number,
                "{case:?}"
            );
        }
        sender.seal(&packet_v4(20), &mut sealed).unwrap();
        let (_, mut elsewhere) = case.pair();
        // Its window lies in the first half: it takes the packet for one of those.
        assert_eq!(
            elsewhere.open(&mut sealed).unwrap_err(),
            OpenError::Icv,
            "{case:?}"
        );
    }
}

#[test]
fn another_association_another_key_and_a_stump_are_told_apart() {
    for case in cases() {
        let (mut sender, mut receiver) = case.pair();
        let mut sealed = Vec::new();
        sender.seal(&packet_v4(50), &mut sealed).unwrap();
        let mut other = case.clone();
        other.association.spi += 1;
        let wrong = other.pair().1.open(&mut sealed.clone()).unwrap_err();
        assert_eq!(wrong, OpenError::WrongSpi(case.association.spi));
        let is_v6 = sealed[0] >> 4 == 6;
        for bytes in 0..sealed.len() {
            let mut stump = sealed[..bytes].to_vec();
            assert!(receiver.open(&mut stump).is_err(), "{case:?} {bytes}");
            // One that says itself that it is so short.
            let says = if is_v6 {
                bytes.checked_sub(40)
            } else {
                Some(bytes)
            };
            if let Some(says) = says.filter(|_| bytes >= 20) {
                let at = if is_v6 { 4 } else { 2 };
                stump[at..at + 2].copy_from_slice(&(says as u16).to_be_bytes());
                let opened = receiver.open(&mut stump).map(|_| ());
                assert!(
                    opened.is_err() || !case.is_authenticated(),
                    "{case:?} {bytes}"
                );
            }
        }
        assert!(receiver.open(&mut packet_v4(50)).is_err());
    }
}

#[test]
fn what_cannot_be_protected_is_told() {
    let mut transport = cases().next().unwrap();
    transport.association.mode = Mode::Transport;
    let (mut sender, _) = transport.pair();
    let mut sealed = vec![1];
    let mut fragment = packet_v4(50);
    fragment[6] = 0x20;
    let refused = sender.seal(&fragment, &mut sealed);
    assert_eq!(refused, Err(SealError::Packet(PacketError::Fragment)));
    assert!(sealed.is_empty());
    let refused = sender.seal(&packet_v4(50)[..30], &mut sealed);
    assert_eq!(refused, Err(SealError::Packet(PacketError::Truncated)));
    // The longest there is, and its octets of ESP.
    let refused = sender.seal(&packet_v4(65_507), &mut sealed);
    assert_eq!(refused, Err(SealError::TooLong));
    // A tunnel takes fragments: they are whole packets to it.
    for mode in [V4, V6] {
        transport.association.mode = Mode::Tunnel(mode);
        let (mut sender, mut receiver) = transport.pair();
        sender.seal(&fragment, &mut sealed).unwrap();
        assert_eq!(receiver.open(&mut sealed).unwrap().packet(), fragment);
    }
}

#[test]
fn associations_that_cannot_be_are_told() {
    let transform = Transform::Esp(Esp::new(Cipher::Aes128Cbc, Some(Auth::HmacSha1_96)).unwrap());
    let mut it = Association {
        spi: 255,
        transform,
        mode: Mode::Transport,
        is_extended: false,
        provider: Provider::RustCrypto,
    };
    let keys = Keys::new(&[1; 16], &[2; 20]);
    let error = |it: &Association, keys: &Keys| it.inbound(keys).map(|_| ()).unwrap_err();
    assert_eq!(error(&it, &keys), SetupError::ReservedSpi(255));
    it.spi = 256;
    let short = error(&it, &Keys::new(&[1; 15], &[2; 20]));
    assert_eq!(
        short.to_string(),
        "aes-128-cbc takes a key of 16 octets, not of 15"
    );
    let short = error(&it, &Keys::new(&[1; 16], &[2; 16]));
    assert_eq!(
        short.to_string(),
        "hmac-sha1-96 takes a key of 20 octets, not of 16"
    );
    it.transform = Transform::Ah(Auth::HmacSha1_96);
    let odd = error(&it, &keys);
    assert_eq!(
        odd.to_string(),
        "a transform without encryption takes a key of 0 octets, not of 16"
    );
    assert_eq!(format!("{keys:?}"), "Keys(…)");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever is in it, whatever the options.
    #[test]
    fn any_packet_comes_back(
        nth in any::<prop::sample::Index>(),
        payload in prop::collection::vec(any::<u8>(), 0..2_000),
        class in any::<u8>(),
        is_v6 in any::<bool>(),
        before in 0u64..u64::from(u32::MAX),
    ) {
        let cases: Vec<Case> = cases().collect();
        let case = &cases[nth.index(cases.len())];
        let (mut sender, mut receiver) = case.pair();
        sender.resume_after(before);
        receiver.resume_after(before);
        let mut packet = if is_v6 { packet_v6(payload.len()) } else { packet_v4(payload.len()) };
        let at = packet.len() - payload.len();
        packet[at..].copy_from_slice(&payload);
        if is_v6 {
            packet[1] = class;
        }
        let mut sealed = Vec::new();
        sender.seal(&packet, &mut sealed).unwrap();
        let opened = receiver.open(&mut sealed).unwrap();
        prop_assert_eq!(opened.packet(), &packet[..]);
        prop_assert_eq!(opened.sequence(), before + 1);
    }

    /// No octets make it panic, whether as they are or behind a header that leads to AH or ESP.
    #[test]
    fn no_octets_do_harm(
        nth in any::<prop::sample::Index>(),
        mut octets in prop::collection::vec(any::<u8>(), 0..400),
        is_led in any::<bool>(),
        is_v6 in any::<bool>(),
    ) {
        let cases: Vec<Case> = cases().collect();
        let case = &cases[nth.index(cases.len())];
        let (mut sender, mut receiver) = case.pair();
        if is_led {
            let mut packet = if is_v6 { packet_v6(octets.len()) } else { packet_v4(octets.len()) };
            let at = packet.len() - octets.len() - 8;
            packet.truncate(at);
            packet.extend(&octets);
            packet[if is_v6 { 6 } else { 9 }] = if case.is_ah() { 51 } else { 50 };
            let spi = case.association.spi.to_be_bytes();
            let spi_at = at + if case.is_ah() { 4 } else { 0 };
            if let Some(place) = packet.get_mut(spi_at..spi_at + 4) {
                place.copy_from_slice(&spi);
            }
            let says = (packet.len() - if is_v6 { 40 } else { 0 }) as u16;
            let says_at = if is_v6 { 4 } else { 2 };
            packet[says_at..says_at + 2].copy_from_slice(&says.to_be_bytes());
            octets = packet;
        }
        let _ = sender.seal(&octets, &mut Vec::new());
        if receiver.open(&mut octets).is_ok() {
            prop_assert!(!case.is_authenticated());
        }
    }

    /// What was sealed and then spoilt anywhere is refused, or comes back as it was.
    #[test]
    fn what_was_spoilt_is_not_believed(
        nth in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        with in 1u8..,
        is_v6 in any::<bool>(),
    ) {
        let cases: Vec<Case> = cases().filter(Case::is_authenticated).collect();
        let case = &cases[nth.index(cases.len())];
        let (mut sender, mut receiver) = case.pair();
        let packet = if is_v6 { packet_v6(99) } else { packet_v4(99) };
        let mut sealed = Vec::new();
        sender.seal(&packet, &mut sealed).unwrap();
        let at = at.index(sealed.len());
        sealed[at] ^= with;
        let is_header = at < case.head_bytes_of(&sealed);
        if let Ok(opened) = receiver.open(&mut sealed) {
            // A header outside of the ICV may be other; what it carries is not.
            prop_assert!(is_header);
            let from = if is_v6 { 40 } else { 20 };
            prop_assert_eq!(&opened.packet()[from..], &packet[from..]);
        }
    }
}
