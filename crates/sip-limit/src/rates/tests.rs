use super::*;

const LIMITS: RateLimits = RateLimits {
    user: Allowance {
        calls_per_s: 50,
        registrations_per_s: 20,
        messages_per_s: 0,
        others_per_s: 1,
        bytes_per_s: 100_000,
    },
    peer: Allowance {
        calls_per_s: 0,
        registrations_per_s: 0,
        messages_per_s: 0,
        others_per_s: 0,
        bytes_per_s: 0,
    },
    source: Allowance {
        calls_per_s: 5,
        registrations_per_s: 0,
        messages_per_s: 0,
        others_per_s: 0,
        bytes_per_s: 0,
    },
    burst_s: 10,
};

fn rates() -> Rates {
    Rates::new([7; 16])
}

fn alice(rates: &Rates) -> PartyKey {
    rates.user(b"alice", b"example.org")
}

fn ask(rates: &Rates, now_ms: u64, key: PartyKey, kind: Kind, bytes: usize) -> Result<(), Rate> {
    let allowance = LIMITS.of(key.party());
    rates
        .charge(now_ms, key, allowance, LIMITS.burst_s, kind, bytes)
        .map_err(|exceeded| exceeded.rate)
}

/// Asks `per_s` times a second for so long; how often it was let in.
fn press(rates: &Rates, key: PartyKey, kind: Kind, from_ms: u64, for_ms: u64, per_s: u64) -> usize {
    (0..for_ms * per_s / 1_000)
        .filter(|n| ask(rates, from_ms + n * 1_000 / per_s, key, kind, 100).is_ok())
        .count()
}

#[test]
fn a_thousand_calls_a_second_are_held_to_the_rate_and_nobody_is_banned() {
    let rates = rates();
    let key = alice(&rates);
    // Ten seconds' worth at once, and then fifty a second.
    assert_eq!(press(&rates, key, Kind::Call, 1_000, 60_000, 1_000), 3_499);
    assert_eq!(
        rates.limited(Party::User, Rate::Requests(Kind::Call)),
        60_000 - 3_499
    );
    // Whoever slows down to his rate is served at once, without a wait.
    assert_eq!(press(&rates, key, Kind::Call, 61_000, 10_000, 50), 500);
    // And after a while of silence there is room for a burst again.
    assert_eq!(press(&rates, key, Kind::Call, 82_000, 100, 10_000), 504);
}

#[test]
fn others_go_on_and_so_does_what_is_of_another_kind() {
    let rates = rates();
    let key = alice(&rates);
    press(&rates, key, Kind::Call, 1_000, 2_000, 1_000);
    let now_ms = 2_999;
    let refused = Err(Rate::Requests(Kind::Call));
    assert_eq!(ask(&rates, now_ms, key, Kind::Call, 100), refused);
    assert_eq!(ask(&rates, now_ms, key, Kind::Registration, 100), Ok(()));
    assert_eq!(ask(&rates, now_ms, key, Kind::Message, 100), Ok(()));
    for other in [
        rates.user(b"alice", b"example.net"),
        rates.user(b"bob", b"example.org"),
        rates.user(b"alicee", b"xample.org"),
        rates.peer(b"alice"),
        rates.at(Party::Source, "192.0.2.1".parse().unwrap()),
    ] {
        assert_eq!(ask(&rates, now_ms, other, Kind::Call, 100), Ok(()));
    }
}

#[test]
fn each_kind_has_its_rate_and_0_is_none() {
    let rates = rates();
    let key = alice(&rates);
    for (kind, let_in) in [
        (Kind::Registration, 200 + 200),
        (Kind::Message, 2_000),
        (Kind::Other, 10 + 10),
    ] {
        let passed = press(&rates, key, kind, 1_000, 10_000, 200);
        assert!(passed.abs_diff(let_in) <= 1, "{kind:?}: {passed}");
    }
    let peer = rates.peer(b"example.net");
    assert_eq!(press(&rates, peer, Kind::Call, 1_000, 1_000, 5_000), 5_000);
}

#[test]
fn bytes_have_a_bucket_of_their_own_and_a_refused_request_takes_from_none() {
    let rates = rates();
    let key = alice(&rates);
    // A message that is larger than the bucket passes a full one.
    assert_eq!(ask(&rates, 1_000, key, Kind::Message, 5_000_000), Ok(()));
    let refused = Err(Rate::Bytes);
    assert_eq!(ask(&rates, 1_000, key, Kind::Message, 1), refused);
    // What is refused for its bytes is not counted as a registration.
    for _ in 0..1_000 {
        assert_eq!(ask(&rates, 1_000, key, Kind::Registration, 400), refused);
    }
    assert_eq!(rates.limited(Party::User, Rate::Bytes), 1_001);
    // Fifty seconds' worth was taken.
    assert_eq!(ask(&rates, 40_000, key, Kind::Message, 60_000), refused);
    let now_ms = 51_001;
    let passed = (0..300)
        .filter(|_| ask(&rates, now_ms, key, Kind::Registration, 400).is_ok())
        .count();
    assert_eq!(passed, 200);
    // And what is refused for its number takes no bytes.
    assert_eq!(ask(&rates, now_ms, key, Kind::Message, 900_000), Ok(()));
}

#[test]
fn a_source_is_an_address_and_of_ipv6_a_network() {
    let rates = rates();
    let at = |text: &str| rates.at(Party::Source, text.parse().unwrap());
    assert_eq!(at("192.0.2.1"), at("::ffff:192.0.2.1"));
    assert_ne!(at("192.0.2.1"), at("192.0.2.2"));
    assert_eq!(at("2001:db8::1"), at("2001:db8::9:1"));
    assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
    assert_ne!(
        at("192.0.2.1"),
        rates.at(Party::Peer, "192.0.2.1".parse().unwrap())
    );
    let one = at("192.0.2.1");
    assert_eq!(press(&rates, one, Kind::Call, 1_000, 1_000, 1_000), 54);
}

#[test]
fn the_table_is_bounded_and_many_others_do_not_free_who_owes() {
    let rates = rates();
    let key = alice(&rates);
    press(&rates, key, Kind::Call, 1_000, 2_000, 1_000);
    for n in 0..300_000u32 {
        let other = rates.at(Party::Source, IpAddr::from(n.to_be_bytes()));
        assert_eq!(ask(&rates, 2_999, other, Kind::Call, 100), Ok(()));
    }
    let refused = Err(Rate::Requests(Kind::Call));
    assert_eq!(ask(&rates, 2_999, key, Kind::Call, 100), refused);
}

#[test]
fn a_rate_that_changes_counts_from_then_on() {
    let rates = rates();
    let key = alice(&rates);
    press(&rates, key, Kind::Call, 1_000, 2_000, 1_000);
    let more = Allowance {
        calls_per_s: 1_000,
        ..LIMITS.user
    };
    let passed = (0..5_000)
        .filter(|n| {
            rates
                .charge(3_000 + n, key, &more, 10, Kind::Call, 100)
                .is_ok()
        })
        .count();
    assert!(passed >= 4_900, "{passed}");
}

#[test]
fn the_operator_is_told_once_a_second() {
    let rates = rates();
    let key = alice(&rates);
    let told = (0..10_000)
        .filter_map(|ms| {
            rates
                .charge(1_000 + ms, key, &LIMITS.user, 10, Kind::Other, 100)
                .err()
        })
        .filter(|exceeded| exceeded.is_to_be_logged)
        .count();
    assert_eq!(told, 10);
}

#[test]
fn a_user_has_one_rate_however_his_name_is_spelt() {
    let rates = rates();
    assert_eq!(rates.user(b"ALICE ", b"example.org"), alice(&rates));
    assert_ne!(rates.user(b"alicia", b"example.org"), alice(&rates));
}
