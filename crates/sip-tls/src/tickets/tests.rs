use super::*;

const HOUR: u64 = 3_600;
const NOW: u64 = 500_000 * HOUR + 1_800;

fn keys(secret: u8) -> TicketKeys {
    TicketKeys::new([secret; 32], Duration::from_secs(HOUR)).unwrap()
}

fn opened(keys: &TicketKeys, now: u64, ticket: &[u8]) -> Option<Vec<u8>> {
    keys.open(now, b"scope", ticket).map(|plain| plain.to_vec())
}

#[test]
fn who_has_the_secret_opens_what_another_sealed() {
    let ticket = keys(1).seal(NOW, b"scope", b"session").unwrap();
    assert_eq!(opened(&keys(1), NOW, &ticket).unwrap(), b"session");
    assert_eq!(opened(&keys(2), NOW, &ticket), None);
    assert!(keys(1).open(NOW, b"another", &ticket).is_none());
    assert!(!ticket.windows(7).any(|window| window == b"session"));
}

#[test]
fn the_epoch_before_and_the_one_after_are_accepted_and_no_other() {
    let keys = keys(1);
    let ticket = keys.seal(NOW, b"scope", b"session").unwrap();
    for (now, fits) in [
        (NOW - 2 * HOUR, false),
        (NOW - HOUR, true),
        (NOW + HOUR, true),
        (NOW + 2 * HOUR, false),
        // And once more, when other keys have been at hand.
        (NOW, true),
    ] {
        assert_eq!(opened(&keys, now, &ticket).is_some(), fits, "{now}");
    }
    assert!(keys.ring().secrets[0].kept().len() <= KEPT);
    let next = keys.seal(NOW + HOUR, b"scope", b"session").unwrap();
    assert_ne!(next[..NAME_BYTES], ticket[..NAME_BYTES]);
}

#[test]
fn every_bit_counts_and_nothing_is_sealed_alike_twice() {
    let keys = keys(1);
    let ticket = keys.seal(NOW, b"scope", b"session").unwrap();
    assert_ne!(keys.seal(NOW, b"scope", b"session").unwrap(), ticket);
    for bit in 0..ticket.len() * 8 {
        let mut spoiled = ticket.clone();
        spoiled[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(opened(&keys, NOW, &spoiled), None, "{bit}");
    }
    for len in 0..ticket.len() {
        assert_eq!(opened(&keys, NOW, &ticket[..len]), None, "{len}");
    }
}

#[test]
fn a_secret_is_told_from_another_by_its_name() {
    assert_eq!(keys(1).ids(), keys(1).ids());
    assert_ne!(keys(1).ids(), keys(2).ids());
    assert!(keys(1).ids().iter().all(|id| id.len() == 8));
    // The name of a key is made of something else.
    let ticket = keys(1).seal(NOW, b"scope", b"session").unwrap();
    let front = u32::from_be_bytes(ticket[..4].try_into().unwrap());
    assert_ne!(keys(1).ids(), [format!("{front:08x}")]);
}

#[test]
fn the_secret_is_not_shown() {
    let shown = format!("{:?}", keys(0xab));
    assert!(!shown.contains("171") && !shown.contains("ab,"), "{shown}");
    assert!(TicketKeys::new([0; 32], Duration::from_secs(1)).is_err());
    assert!(TicketKeys::new([0; 32], Duration::from_secs(700_000)).is_err());
    assert_eq!(TicketKeys::random().unwrap().lifetime_s(), 6 * 3_600);
}

fn secret(byte: u8, created: u64, not_after: Option<u64>) -> TicketSecret {
    TicketSecret {
        id: format!("{byte}"),
        secret: Zeroizing::new([byte; 32]),
        created_unix_s: created,
        not_after_unix_s: not_after,
    }
}

#[test]
fn a_new_secret_seals_when_others_know_it_and_the_one_before_opens_till_its_end() {
    let hour = Duration::from_secs(HOUR);
    let settle = Duration::from_secs(30);
    let one = TicketKeys::from_secrets(vec![secret(1, NOW - HOUR, None)], hour, settle).unwrap();
    // A node that learned of the new one, and one that did not yet.
    let both = vec![
        secret(1, NOW - HOUR, Some(NOW + HOUR)),
        secret(2, NOW, None),
    ];
    let two = TicketKeys::from_secrets(both.clone(), hour, settle).unwrap();
    let early = two.seal(NOW + 29, b"scope", b"session").unwrap();
    assert!(opened(&one, NOW + 29, &early).is_some());
    let late = two.seal(NOW + 30, b"scope", b"session").unwrap();
    assert!(opened(&one, NOW + 30, &late).is_none());
    one.replace(both, hour, settle).unwrap();
    assert!(opened(&one, NOW + 30, &late).is_some());
    // The old one ends.
    assert!(opened(&one, NOW + HOUR - 1, &early).is_some());
    assert!(opened(&one, NOW + HOUR, &early).is_none());
    // Alone, a secret seals at once.
    let keys = TicketKeys::from_secrets(vec![secret(3, NOW, None)], hour, settle).unwrap();
    let ticket = keys.seal(NOW, b"scope", b"session").unwrap();
    assert!(opened(&keys, NOW, &ticket).is_some());
    // Put out of service, it opens nothing, on no clone.
    let clone = keys.clone();
    keys.replace(vec![secret(4, NOW, None)], hour, settle)
        .unwrap();
    assert!(opened(&clone, NOW, &ticket).is_none());
}

#[test]
fn a_secret_of_a_clock_that_was_ahead_seals_until_others_know_the_next() {
    let hour = Duration::from_secs(HOUR);
    let settle = Duration::from_secs(30);
    let ahead = NOW + 8_760 * HOUR;
    let one = TicketKeys::from_secrets(vec![secret(1, ahead, None)], hour, settle).unwrap();
    let both = vec![secret(1, ahead, Some(NOW + HOUR)), secret(2, NOW, None)];
    let two = TicketKeys::from_secrets(both.clone(), hour, settle).unwrap();
    let early = two.seal(NOW + 29, b"scope", b"session").unwrap();
    assert!(opened(&one, NOW + 29, &early).is_some());
    let late = two.seal(NOW + 30, b"scope", b"session").unwrap();
    assert!(opened(&one, NOW + 30, &late).is_none());
    one.replace(both, hour, settle).unwrap();
    assert!(opened(&one, NOW + 30, &late).is_some());
    assert!(opened(&one, NOW + HOUR - 1, &early).is_some());
    assert!(opened(&one, NOW + HOUR, &early).is_none());
}

#[test]
fn secrets_are_bounded_and_never_none() {
    let hour = Duration::from_secs(HOUR);
    let many = (0..20)
        .map(|byte| secret(byte, u64::from(byte), None))
        .collect();
    let keys = TicketKeys::from_secrets(many, hour, Duration::ZERO).unwrap();
    assert_eq!(keys.ring().secrets.len(), SECRETS_MAX);
    assert_eq!(keys.ring().secrets[0].from.id, "19");
    assert!(keys.replace(Vec::new(), hour, Duration::ZERO).is_err());
    let ticket = keys.seal(NOW, b"scope", b"session").unwrap();
    assert!(opened(&keys, NOW, &ticket).is_some());
    let shown = format!("{:?}", secret(0xab, 0, None));
    assert!(!shown.contains("171,"), "{shown}");
}

#[test]
fn keys_of_epochs_that_are_no_more_leave_first() {
    let ring = keys(1).ring();
    let secret = &ring.secrets[0];
    // A clock that was set back, or epochs that became longer: the numbers become smaller.
    for epoch in [1_000, 1_001, 999, 500, 499, 501] {
        assert_eq!(secret.key_of(epoch).unwrap().epoch, epoch);
    }
    let mut kept: Vec<u64> = secret.kept().iter().map(|key| key.epoch).collect();
    kept.sort_unstable();
    assert_eq!(kept, [499, 500, 501]);
}
