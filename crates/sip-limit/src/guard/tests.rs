use super::*;
use crate::Table;

fn at(addr: &str) -> Origin {
    Origin {
        remote: addr.parse().unwrap(),
        is_stream: false,
    }
}

/// An attempt with a nonce that was sent there.
fn of(guard: &Guard, origin: &Origin, user: &[u8], nonce: u64) -> Attempt {
    in_realm(guard, origin, user, "example.org", nonce)
}

fn in_realm(guard: &Guard, origin: &Origin, user: &[u8], realm: &str, nonce: u64) -> Attempt {
    let claim = Claim {
        name: user,
        user,
        realm,
    };
    let mark = guard.mark(origin, Fits::Host);
    guard.attempt(origin, claim, (nonce, mark), Fits::Host)
}

/// One look-up, which ends at once.
fn is_looked_up(guard: &Guard, now_ms: u64, attempt: &Attempt) -> bool {
    match guard.take_up(now_ms, attempt) {
        LookUp::Now(reserved) => {
            guard.looked_up(now_ms, reserved);
            true
        }
        look_up => {
            assert_eq!(look_up, LookUp::Never, "nothing is under way");
            false
        }
    }
}

fn guard() -> Guard {
    Guard::new([7; 16], Limits::default())
}

/// Guesses one password after another for so long, one each `every_ms`, with a
/// fresh nonce each time; how many were looked up.
fn guess(guard: &Guard, places: &[Origin], users: &[&str], ms: u64, every_ms: u64) -> usize {
    let mut looked_up = 0;
    for n in 0..ms / every_ms {
        let now_ms = 1_000 + n * every_ms;
        let origin = &places[n as usize % places.len()];
        let user = users[n as usize % users.len()].as_bytes();
        let attempt = of(guard, origin, user, n);
        if is_looked_up(guard, now_ms, &attempt) {
            looked_up += 1;
            guard.failed(now_ms, &attempt);
        }
    }
    looked_up
}

#[test]
fn one_source_guesses_at_one_user_a_few_times_and_then_once_in_a_while() {
    let guard = guard();
    let looked_up = guess(&guard, &[at("192.0.2.1:5060")], &["bob"], 100_000, 1);
    assert!((5..=11).contains(&looked_up), "{looked_up}");
    assert!(guard.counters().guesses_refused > 99_000);
}

#[test]
fn a_hundred_sources_guess_at_one_user_no_faster_than_the_user_has_it() {
    let guard = guard();
    let places: Vec<Origin> = (1..=100)
        .map(|n| at(&format!("192.0.2.{n}:5060")))
        .collect();
    let looked_up = guess(&guard, &places, &["bob"], 100_000, 1);
    assert!((20..=42).contains(&looked_up), "{looked_up}");
}

#[test]
fn one_source_with_many_names_guesses_no_faster_than_a_source_may() {
    let guard = guard();
    let names: Vec<String> = (0..5_000).map(|n| format!("user{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let looked_up = guess(&guard, &[at("192.0.2.1:5060")], &names, 100_000, 1);
    assert!((100..=202).contains(&looked_up), "{looked_up}");
}

#[test]
fn who_is_known_gets_in_while_others_guess_at_his_address_and_at_him() {
    let guard = guard();
    let (home, elsewhere) = (at("192.0.2.1:40001"), at("198.51.100.1:5060"));
    for user in [&b"alice"[..], b"bob"] {
        guard.succeeded(500, &home, &of(&guard, &home, user, 1));
    }
    // From the same address and another port: at bob, at others, and at bob from afar.
    let names: Vec<String> = (0..500).map(|n| format!("user{n}")).collect();
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.push("bob");
    guess(
        &guard,
        &[at("192.0.2.1:6666"), elsewhere],
        &names,
        50_000,
        1,
    );
    let now_ms = 51_500;
    for user in [&b"alice"[..], b"bob"] {
        assert!(is_looked_up(
            &guard,
            now_ms,
            &of(&guard, &home, user, 9_999_999)
        ));
    }
    // Alice from a new port of her address too: her own failures are none.
    let moved = at("192.0.2.1:50000");
    assert!(is_looked_up(
        &guard,
        now_ms,
        &of(&guard, &moved, b"alice", 9_999_998)
    ));
    // Whoever is new there has to wait for his turn.
    assert!(!is_looked_up(
        &guard,
        now_ms,
        &of(&guard, &moved, b"user600", 9_999_997)
    ));
}

#[test]
fn users_of_one_name_in_two_realms_have_nothing_to_do_with_each_other() {
    let guard = guard();
    let (home, elsewhere) = (at("192.0.2.1:40001"), at("198.51.100.1:5060"));
    // Everybody's wrong passwords for the user of that name in one realm, from many sources.
    for n in 0..100 {
        let place = at(&format!("192.0.2.{}:5060", n % 50 + 10));
        let attempt = in_realm(&guard, &place, b"100", "a.example.org", n);
        if is_looked_up(&guard, 1_000, &attempt) {
            guard.failed(1_000, &attempt);
        }
    }
    let there = |realm, nonce| in_realm(&guard, &elsewhere, b"100", realm, nonce);
    assert!(!is_looked_up(&guard, 1_100, &there("a.example.org", 1_000)));
    assert!(is_looked_up(&guard, 1_100, &there("b.example.org", 1_001)));
    // Who is known in one realm is a stranger in the other: his source is at its bound.
    let known = |realm, nonce| in_realm(&guard, &home, b"alice", realm, nonce);
    guard.succeeded(1_200, &home, &known("b.example.org", 2_000));
    for n in 0..1_000 {
        let name = format!("user{n}");
        let attempt = of(&guard, &home, name.as_bytes(), 3_000 + n);
        if is_looked_up(&guard, 1_300, &attempt) {
            guard.failed(1_300, &attempt);
        }
    }
    assert!(is_looked_up(&guard, 1_400, &known("b.example.org", 5_000)));
    assert!(!is_looked_up(&guard, 1_400, &known("a.example.org", 5_001)));
}

#[test]
fn who_is_known_with_his_domain_is_not_known_without() {
    let guard = guard();
    let home = at("192.0.2.1:40001");
    let claimed = |name: &str, nonce| {
        let claim = Claim {
            name: name.as_bytes(),
            user: b"alice",
            realm: "example.org",
        };
        let mark = guard.mark(&home, Fits::Host);
        guard.attempt(&home, claim, (nonce, mark), Fits::Host)
    };
    guard.succeeded(500, &home, &claimed("alice@b.example.org", 1));
    for n in 0..1_000 {
        let name = format!("user{n}");
        let attempt = of(&guard, &home, name.as_bytes(), 100 + n);
        if is_looked_up(&guard, 600, &attempt) {
            guard.failed(600, &attempt);
        }
    }
    let is_taken = |name, nonce| is_looked_up(&guard, 700, &claimed(name, nonce));
    assert!(is_taken("alice@b.example.org", 2_000));
    assert!(!is_taken("alice@a.example.org", 2_001));
    // Failures are one account, with his domain and without.
    for n in 0..20 {
        let attempt = claimed("alice@b.example.org", 3_000 + n);
        if is_looked_up(&guard, 800, &attempt) {
            guard.failed(800, &attempt);
        }
    }
    assert!(!is_taken("alice@b.example.org", 4_000));
}

/// Whether a user is taken up at once, as one is who is known there.
fn is_known(guard: &Guard, now_ms: u64, origin: &Origin, user: &[u8]) -> bool {
    let attempt = of(guard, origin, user, 9_999_999);
    guard.take_up(now_ms, &attempt) == LookUp::Now(Reserved::default())
}

#[test]
fn a_user_who_comes_from_every_port_there_is_pushes_nobody_out() {
    let guard = guard();
    let home = at("192.0.2.1:40001");
    guard.succeeded(500, &home, &of(&guard, &home, b"bob", 1));
    // Mallory's password is right each time.
    let places = (0..200_000u32).map(|n| Origin {
        remote: SocketAddr::new(
            [198, 51, 100, (n % 3) as u8].into(),
            10_000 + (n / 4) as u16,
        ),
        is_stream: n % 2 == 0,
    });
    for (n, origin) in (0..).zip(places) {
        let attempt = of(&guard, &origin, b"mallory", n);
        guard.succeeded(1_000 + n / 100, &origin, &attempt);
    }
    let places: Vec<Origin> = (1..=10)
        .map(|n| at(&format!("203.0.113.{n}:5060")))
        .collect();
    guess(&guard, &places, &["bob"], 3_000, 100);
    assert!(is_known(&guard, 4_000, &home, b"bob"));
    assert!(!is_known(&guard, 4_000, &places[0], b"bob"));
}

#[test]
fn new_places_of_a_user_are_remembered_in_time_and_known_ones_stay() {
    let guard = guard();
    let port = |n: u16| Origin {
        remote: SocketAddr::new([192, 0, 2, 1].into(), 10_000 + n),
        is_stream: false,
    };
    let succeed = |now_ms: u64, n: u16| {
        let attempt = of(&guard, &port(n), b"bob", u64::from(n));
        guard.succeeded(now_ms, &port(n), &attempt);
        is_known(&guard, now_ms, &port(n), b"bob")
    };
    let known = (0..100).filter(|n| succeed(1_000, *n));
    assert_eq!(known.count(), 64);
    assert!(!succeed(30_000, 64) && succeed(31_100, 64) && !succeed(31_100, 65));
    // What is known is renewed whatever the number of new ones.
    for n in 0..200 {
        let now_ms = 40_000 + n * 60_000;
        assert!(succeed(now_ms, 0), "{n}");
        succeed(now_ms, 1_000 + n as u16);
        succeed(now_ms, 2_000 + n as u16);
        succeed(now_ms, 3_000 + n as u16);
    }
}

#[test]
fn who_renews_all_of_his_places_has_only_so_many() {
    let guard = guard();
    let place = |n: u64| Origin {
        remote: SocketAddr::new([192, 0, 2, (n / 30_000) as u8].into(), (n % 30_000) as u16),
        is_stream: false,
    };
    let succeed = |now_ms: u64, n: u64| {
        let attempt = of(&guard, &place(n), b"mallory", n);
        guard.succeeded(now_ms, &place(n), &attempt);
    };
    // A new one in half a minute for a day, and all of them again each hour.
    let new_ones = 24 * 120;
    for n in 0..new_ones {
        succeed(1_000 + n * 30_000, n);
        if n % 120 == 0 {
            (0..n).for_each(|n_before| succeed(1_000 + n * 30_000, n_before));
        }
    }
    let now_ms = 1_000 + new_ones * 30_000;
    let is_flow_known = |n: &u64| {
        let attempt = of(&guard, &place(*n), b"mallory", *n);
        guard.known.debt(attempt.flow, now_ms) > 0
    };
    let known = (0..new_ones).filter(is_flow_known).count();
    assert!((200..=620).contains(&known), "{known}");
}

#[test]
fn users_of_one_name_in_several_domains_are_remembered_each_for_himself() {
    let guard = guard();
    let home = |n: u16| at(&format!("198.51.{}.{}:5060", n / 250, n % 250 + 1));
    let named = |n: u16, origin: &Origin| {
        let name = format!("100@{n}.example");
        let claim = Claim {
            name: name.as_bytes(),
            user: b"100",
            realm: "example.org",
        };
        let mark = guard.mark(origin, Fits::Host);
        guard.attempt(origin, claim, (u64::from(n), mark), Fits::Host)
    };
    for n in 0..500 {
        guard.succeeded(1_000, &home(n), &named(n, &home(n)));
    }
    let is_known = |n: &u16| guard.known.debt(named(*n, &home(*n)).flow, 2_000) > 0;
    assert_eq!((0..500).filter(is_known).count(), 500);
}

#[test]
fn a_nonce_by_which_a_user_proved_himself_is_judged_by_its_own_failures() {
    let guard = guard();
    let (home, neighbour) = (at("192.0.2.1:40001"), at("192.0.2.1:6666"));
    let proof = 1_000_000;
    guard.succeeded(500, &home, &of(&guard, &home, b"bob", proof));
    assert!(guess(&guard, &[neighbour], &["bob"], 50_000, 1) >= 5);
    let moved = at("192.0.2.1:50000");
    let now_ms = 51_000;
    // A nonce that he gets now is one like his neighbour's; the one that he has is not.
    assert!(!is_looked_up(
        &guard,
        now_ms,
        &of(&guard, &moved, b"bob", proof + 1)
    ));
    assert!(is_looked_up(
        &guard,
        now_ms,
        &of(&guard, &moved, b"bob", proof)
    ));
    // Not in another's name, nor elsewhere, nor for ever.
    let elsewhere = at("198.51.100.1:5060");
    for (origin, user) in [(&moved, &b"alice"[..]), (&elsewhere, b"bob")] {
        let claim = Claim {
            name: user,
            user,
            realm: "example.org",
        };
        let mark = guard.mark(&home, Fits::Host);
        let attempt = guard.attempt(origin, claim, (proof, mark), Fits::Host);
        let LookUp::Now(reserved) = guard.take_up(now_ms, &attempt) else {
            panic!("nobody has guessed there");
        };
        assert!(!reserved.0.contains(&0), "it counts for all three accounts");
    }
    let later = of(&guard, &moved, b"bob", proof);
    assert!(guard.proved.debt(later.proved, 600_000) > 0);
    assert_eq!(guard.proved.debt(later.proved, 601_000), 0);
}

#[test]
fn who_has_seen_such_a_nonce_on_the_wire_has_three_guesses_and_no_more_at_a_time() {
    let guard = guard();
    let (home, neighbour) = (at("192.0.2.1:40001"), at("192.0.2.1:6666"));
    guard.succeeded(500, &home, &of(&guard, &home, b"bob", 1));
    let stolen = of(&guard, &neighbour, b"bob", 1);
    let mut begun = Vec::new();
    for _ in 0..1_000 {
        match guard.take_up(1_000, &stolen) {
            LookUp::Now(reserved) => begun.push(reserved),
            look_up => assert_eq!(look_up, LookUp::Later),
        }
    }
    assert_eq!(begun.len(), 3);
    for reserved in begun {
        guard.failed(1_010, &stolen);
        guard.looked_up(1_010, reserved);
    }
    assert_eq!(guard.take_up(1_010, &stolen), LookUp::Never);
}

#[test]
fn a_flow_that_fails_is_known_no_more() {
    let guard = guard();
    let home = at("192.0.2.1:40001");
    guard.succeeded(500, &home, &of(&guard, &home, b"bob", 1));
    assert!((5..=7).contains(&guess(&guard, &[home], &["bob"], 20_000, 1)));
}

#[test]
fn a_mark_fits_where_its_nonce_was_sent_and_nowhere_else() {
    let guard = guard();
    let claim = Claim {
        name: b"alice",
        user: b"alice",
        realm: "example.org",
    };
    let is_answer = |sent: &str, marked, from: &str, fits| {
        let mark = guard.mark(&at(sent), marked);
        guard.attempt(&at(from), claim, (1, mark), fits).is_answer()
    };
    let (home, port) = ("192.0.2.1:5060", "192.0.2.1:6000");
    let (place, in_its_network) = ("[2001:db8::1]:5060", "[2001:db8::2]:5060");
    for (sent, from, by_host, by_place) in [
        (home, home, true, true),
        (home, port, true, false),
        (home, "192.0.2.2:5060", false, false),
        (place, place, true, true),
        (place, in_its_network, true, false),
        (place, "[2001:db8:0:1::1]:5060", false, false),
    ] {
        let fits = |fits| is_answer(sent, fits, from, fits);
        assert_eq!(fits(Fits::Host), by_host, "{sent} {from}");
        assert_eq!(fits(Fits::Place), by_place, "{sent} {from}");
        assert!(!is_answer(sent, Fits::Host, from, Fits::Place));
        assert!(!is_answer(sent, Fits::Place, from, Fits::Host));
        for fits in [Fits::Host, Fits::Place, Fits::Nobody] {
            assert!(!is_answer(sent, Fits::Nobody, from, fits));
        }
    }
    // Who has a network of his own may collect the marks of 65,536 places in it.
    let own = |n: u32| at(&format!("[2001:db8:0:{n:x}::1]:5060"));
    let marks = (0..64).map(|n| guard.mark(&own(n), Fits::Host));
    assert_eq!(marks.fold(0, |bits, mark| bits | mark).leading_zeros(), 0);
}

#[test]
fn a_nonce_is_good_for_three_failures() {
    let guard = guard();
    let places = [at("192.0.2.1:1"), at("192.0.2.2:1"), at("192.0.2.3:1")];
    for origin in &places {
        let attempt = of(&guard, origin, b"bob", 7);
        assert!(is_looked_up(&guard, 1_000, &attempt));
        guard.failed(1_000, &attempt);
    }
    let fourth = at("192.0.2.4:1");
    assert!(!is_looked_up(
        &guard,
        1_000,
        &of(&guard, &fourth, b"bob", 7)
    ));
    assert!(is_looked_up(&guard, 1_000, &of(&guard, &fourth, b"bob", 8)));
}

#[test]
fn each_failure_is_answered_later_than_the_one_before() {
    let guard = guard();
    let attempt = of(&guard, &at("192.0.2.1:5060"), b"bob", 7);
    let delays: Vec<u64> = (0..7).map(|_| guard.failed(1_000, &attempt)).collect();
    assert_eq!(delays, [0, 250, 500, 1_000, 2_000, 2_000, 2_000]);
}

#[test]
fn the_operator_is_told_of_each_source_and_of_one_that_may_be_forged_apart() {
    let guard = guard();
    let (one, other) = (at("192.0.2.1:5060"), at("192.0.2.2:5060"));
    let matter = |group, is_proven| Matter {
        table: Table::Strangers,
        group,
        is_proven,
        records_max: 1,
    };
    let told = |origin, matter| {
        (1_000..41_000)
            .filter(|now_ms| guard.note(*now_ms, origin, &matter) != Note::Count)
            .count()
    };
    assert_eq!(
        [
            told(&one, matter(1, false)),
            told(&one, matter(1, true)),
            told(&one, matter(2, true)),
            told(&other, matter(1, true))
        ],
        [4; 4]
    );
    // Whatever port it comes from.
    let again = guard.note(40_999, &at("192.0.2.1:6060"), &matter(1, true));
    assert_eq!(again, Note::Count);
}

#[test]
fn strangers_take_no_line_from_users() {
    let guard = guard();
    let matter = |table| Matter {
        table,
        group: 1,
        is_proven: false,
        records_max: 1,
    };
    let strangers = (0..2_000_u32).filter(|nth| {
        let origin = at(&format!("10.0.{}.{}:5060", nth / 250, nth % 250));
        guard.note(1_000, &origin, &matter(Table::Strangers)) != Note::Count
    });
    assert_eq!(strangers.count(), 1_024);
    let user = guard.note(1_000, &at("192.0.2.7:5060"), &matter(Table::Users));
    assert!(matches!(user, Note::Line(_)));
}

#[test]
fn sources_that_may_be_forged_take_no_line_from_those_that_are_not() {
    let guard = guard();
    let matter = |is_proven| Matter {
        table: Table::Strangers,
        group: 1,
        is_proven,
        records_max: 1,
    };
    for nth in 0..2_000_u32 {
        let forged = at(&format!("10.0.{}.{}:5060", nth / 250, nth % 250));
        guard.note(1_000, &forged, &matter(false));
    }
    let guesser = at("192.0.2.7:5060");
    assert_eq!(guard.note(1_000, &guesser, &matter(false)), Note::Count);
    let note = guard.note(1_000, &guesser, &matter(true));
    assert!(matches!(note, Note::Line(_)), "{note:?}");
}

/// Refusals of one origin at a rate for so long: served, in words, silent.
fn refuse(guard: &Guard, origin: &Origin, per_s: u64, from_ms: u64, ms: u64) -> [u64; 3] {
    let mut count = [0; 3];
    for n in 0..ms * per_s / 1_000 {
        let verdict = guard.refused(from_ms + n * 1_000 / per_s, origin, 500).0;
        count[match verdict {
            Verdict::Served => 0,
            Verdict::TooMany => 1,
            Verdict::Silence => 2,
        }] += 1;
    }
    count
}

#[test]
fn a_flood_is_answered_for_a_while_then_in_words_then_not_and_then_again() {
    let guard = guard();
    let origin = at("192.0.2.1:5060");
    let [served, words, silent] = refuse(&guard, &origin, 20_000, 1_000, 10_000);
    assert!((10_000..10_200).contains(&served), "{served}");
    assert_eq!(words, 20);
    assert!(silent > 180_000);
    assert_eq!(guard.counters().sources_shut, 1);
    assert!(guard.is_shut(11_000, &origin));
    assert!(!guard.is_shut(11_000, &at("192.0.2.2:5060")));
    let stream = Origin {
        is_stream: true,
        ..origin
    };
    assert!(!guard.is_shut(11_000, &stream), "an address that is true");
    // It ends, though the flood went on.
    assert!(!guard.is_shut(40_000, &origin) && !guard.is_any_shut(40_000));
    assert_eq!(refuse(&guard, &origin, 10, 60_000, 10_000), [100, 0, 0]);
}

#[test]
fn five_hundred_phones_behind_one_address_are_never_too_many() {
    // All at once after a power failure, then each once a minute: every
    // registration is challenged once, and then right.
    let guard = guard();
    let mut now_ms = 1_000;
    for round in 0..10 {
        for phone in 0..500u16 {
            now_ms += if round == 0 { 1 } else { 120 };
            let origin = Origin {
                remote: SocketAddr::new([192, 0, 2, 1].into(), 10_000 + phone),
                is_stream: false,
            };
            assert_eq!(guard.refused(now_ms, &origin, 500).0, Verdict::Served);
            let user = format!("phone{phone}");
            let attempt = of(&guard, &origin, user.as_bytes(), now_ms);
            assert!(is_looked_up(&guard, now_ms, &attempt));
            guard.succeeded(now_ms, &origin, &attempt);
        }
    }
}

#[test]
fn a_forged_source_shuts_out_nobody_who_is_in() {
    let guard = guard();
    let phone = at("192.0.2.1:40001");
    guard.succeeded(500, &phone, &of(&guard, &phone, b"bob", 1));
    refuse(&guard, &at("192.0.2.1:7"), 20_000, 1_000, 10_000);
    assert!(guard.is_shut(11_000, &at("192.0.2.1:8")));
    assert!(!guard.is_shut(11_000, &phone));
    assert_eq!(guard.refused(11_000, &phone, 500).0, Verdict::Served);
}

#[test]
fn neighbours_in_one_network_of_ipv6_count_as_one() {
    let guard = guard();
    refuse(&guard, &at("[2001:db8::1]:5060"), 20_000, 1_000, 5_000);
    assert!(guard.is_shut(6_000, &at("[2001:db8::ffff:1]:9")));
    assert!(!guard.is_shut(6_000, &at("[2001:db8:0:1::1]:5060")));
}

#[test]
fn without_limits_nothing_is_limited() {
    let limits = Limits {
        refusals_per_s: 0,
        failures_max: 0,
        ..Limits::default()
    };
    let guard = Guard::new([7; 16], limits);
    let origin = at("192.0.2.1:5060");
    let [served, ..] = refuse(&guard, &origin, 20_000, 1_000, 10_000);
    assert_eq!(served, 200_000);
    assert_eq!(guess(&guard, &[origin], &["bob"], 10_000, 1), 10_000);
}

#[test]
fn guesses_that_are_under_way_together_are_no_more_than_one_after_another() {
    let guard = guard();
    let origin = at("192.0.2.1:5060");
    // At one user, and then at many.
    let names: Vec<String> = (0..1_000).map(|n| format!("user{n}")).collect();
    let mut begun = Vec::new();
    for nonce in 0..1_000 {
        let attempt = of(&guard, &origin, b"bob", nonce);
        if let LookUp::Now(reserved) = guard.take_up(1_000, &attempt) {
            begun.push((attempt, reserved));
        }
    }
    assert_eq!(begun.len(), 5);
    for (nonce, name) in (1_000..).zip(&names) {
        let attempt = of(&guard, &origin, name.as_bytes(), nonce);
        match guard.take_up(1_000, &attempt) {
            LookUp::Now(reserved) => begun.push((attempt, reserved)),
            look_up => assert_eq!(look_up, LookUp::Later, "they may be right"),
        }
    }
    assert_eq!(begun.len(), 100);
    for (attempt, reserved) in begun {
        guard.looked_up(1_010, reserved);
        guard.failed(1_010, &attempt);
    }
    // All were wrong: there is no room any more.
    let next = of(&guard, &origin, b"carol", 9_999);
    assert_eq!(guard.take_up(1_010, &next), LookUp::Never);
}

#[test]
fn phones_that_come_together_wait_for_each_other_and_all_get_in() {
    let guard = guard();
    let mut now_ms = 1_000;
    let mut waiting: Vec<u16> = (0..500).collect();
    let mut rounds = 0;
    while !waiting.is_empty() {
        let mut begun = Vec::new();
        waiting.retain(|phone| {
            let origin = Origin {
                remote: SocketAddr::new([192, 0, 2, 1].into(), 10_000 + phone),
                is_stream: false,
            };
            let name = format!("phone{phone}");
            let attempt = of(&guard, &origin, name.as_bytes(), u64::from(*phone));
            match guard.take_up(now_ms, &attempt) {
                LookUp::Now(reserved) => begun.push((origin, attempt, reserved)),
                look_up => assert_eq!(look_up, LookUp::Later),
            }
            !matches!(begun.last(), Some((last, ..)) if *last == origin)
        });
        now_ms += LATER_MS;
        for (origin, attempt, reserved) in begun {
            guard.looked_up(now_ms, reserved);
            guard.succeeded(now_ms, &origin, &attempt);
        }
        rounds += 1;
    }
    assert_eq!(rounds, 5);
}

#[test]
fn a_place_that_nobody_gave_back_is_free_after_a_while() {
    let guard = guard();
    let attempt = of(&guard, &at("192.0.2.1:5060"), b"bob", 1);
    while guard.take_up(1_000, &attempt) != LookUp::Later {}
    assert!(matches!(guard.take_up(30_000, &attempt), LookUp::Now(_)));
}

#[test]
fn what_a_cache_has_is_compared_with_a_few_guesses_and_those_who_are_known_go_on() {
    let guard = guard();
    let (home, elsewhere) = (at("192.0.2.1:40001"), at("198.51.100.1:5060"));
    guard.succeeded(1_000, &home, &of(&guard, &home, b"bob", 1));
    let guess = |guard: &Guard, origin: &Origin, user: &str, n: u64, now_ms: u64| {
        let attempt = of(guard, origin, user.as_bytes(), n);
        let may = guard.may_compare(now_ms, &attempt);
        if may {
            guard.mismatched(now_ms, &attempt, true);
        }
        may
    };
    let compared = (0..1_000).filter(|n| guess(&guard, &elsewhere, "bob", 100 + n, 1_000 + n));
    assert_eq!(compared.count(), 5);
    // One name after the other, from one place; one place after the other, at one name.
    let compared = (0..1_000).filter(|n| {
        let name = format!("user{n}");
        guess(&guard, &elsewhere, &name, 2_000 + n, 2_000)
    });
    assert!((90..=100).contains(&compared.count()));
    let compared = (0..200).filter(|n| {
        let place = at(&format!("203.0.113.{n}:5060"));
        guess(&guard, &place, "bob", 4_000 + n, 2_000)
    });
    assert!((14..=16).contains(&compared.count()));
    // He who is known by his flow, and by his address.
    let other = at("192.0.2.1:40002");
    for origin in [&home, &other] {
        assert!(guard.may_compare(3_000, &of(&guard, origin, b"bob", 9_000)));
    }
    // None of it is a failure: an attempt is taken up as before.
    assert!(is_looked_up(
        &guard,
        3_000,
        &of(&guard, &elsewhere, b"bob", 9_001)
    ));
    // One is forgotten in twenty seconds.
    assert!(!guess(&guard, &elsewhere, "bob", 9_002, 10_000));
    assert!(guess(&guard, &elsewhere, "bob", 9_003, 200_000));
}

#[test]
fn who_guesses_at_what_a_cache_has_is_known_no_more() {
    let guard = guard();
    let home = at("192.0.2.1:40001");
    guard.succeeded(1_000, &home, &of(&guard, &home, b"bob", 1));
    let compared = (0..100).filter(|n| {
        let attempt = of(&guard, &home, b"bob", 10 + n);
        let may = guard.may_compare(2_000, &attempt);
        guard.mismatched(2_000, &attempt, true);
        may
    });
    assert_eq!(compared.count(), 5);
}

#[test]
fn what_a_cache_does_not_have_is_charged_to_nobody() {
    let guard = guard();
    let home = at("192.0.2.1:40001");
    guard.succeeded(1_000, &home, &of(&guard, &home, b"bob", 1));
    for n in 0..1_000 {
        let place = at(&format!("203.0.113.{}:5060", n % 200));
        for origin in [&home, &place] {
            let attempt = of(&guard, origin, b"bob", 10 + n);
            guard.mismatched(2_000, &attempt, false);
            assert!(guard.may_compare(2_000, &attempt));
        }
    }
    // He is known by his flow as he was.
    let attempt = of(&guard, &home, b"bob", 2_000);
    assert_eq!(
        guard.take_up(3_000, &attempt),
        LookUp::Now(Reserved::default())
    );
}

#[test]
fn another_spelling_of_a_name_is_no_guess_more() {
    let guard = guard();
    let source = at("198.51.100.1:5060");
    let spellings = ["bob", "BOB", "Bob", "bOb", " bob", "boB "];
    let looked_up = (0..60).filter(|nth| {
        let user = spellings[*nth as usize % spellings.len()].as_bytes();
        let attempt = of(&guard, &source, user, 10 + nth);
        let is_looked_up = is_looked_up(&guard, 1_000, &attempt);
        if is_looked_up {
            guard.failed(1_000, &attempt);
        }
        is_looked_up
    });
    assert_eq!(looked_up.count(), 5);
    let other = of(&guard, &source, b"bobby", 100);
    assert!(is_looked_up(&guard, 1_000, &other));
}
