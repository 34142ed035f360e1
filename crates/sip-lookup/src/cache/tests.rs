use std::sync::Arc;

use sip_auth::Ha1;

use super::*;

const NOW_US: u64 = 1_000_000;

fn subject(name: impl ToString) -> Subject {
    Subject::new(name.to_string().as_bytes(), Arc::from("example.org"))
}

fn secrets(password: &str) -> Secrets {
    let mut secrets = Secrets::default();
    secrets.insert(ha1(password));
    secrets
}

fn ha1(password: &str) -> Ha1 {
    Ha1::compute(
        Algorithm::Md5,
        b"alice",
        b"example.org",
        password.as_bytes(),
    )
}

fn config() -> CacheConfig {
    CacheConfig {
        entries_max: 10,
        bytes_max: 1 << 20,
        strangers_max: 4,
        negatives_max: 3,
        lifetime_us: 60_000,
        negative_lifetime_us: 10_000,
        refresh_ahead_us: 12_000,
        stale_us: 500_000,
    }
}

fn cache() -> Cache {
    Cache::new([7; 16], config())
}

fn fill(cache: &Cache, now_us: u64, subject: &Subject, password: Option<&str>) {
    let row = password.map(secrets);
    cache.fill(now_us, subject, cache.ticket(subject), row.as_ref());
}

fn get(cache: &Cache, now_us: u64, subject: &Subject) -> Option<Reply> {
    cache.get(now_us, subject, Algorithm::Md5)
}

#[test]
fn a_secret_counts_for_its_lifetime() {
    let (cache, alice) = (cache(), subject("alice"));
    assert_eq!(get(&cache, NOW_US, &alice), None);
    fill(&cache, NOW_US, &alice, Some("1234"));
    let expected = Some(Reply::Cached(ha1("1234")));
    assert_eq!(get(&cache, NOW_US + 59_999, &alice), expected);
    assert_eq!(get(&cache, NOW_US + 60_000, &alice), None);
    assert_eq!(get(&cache, NOW_US, &subject("bob")), None);
    let figures = cache.figures();
    assert_eq!((figures.hits, figures.misses, figures.strangers), (1, 3, 1));
}

#[test]
fn an_algorithm_that_is_not_held_and_a_name_that_is_not_are_the_pipelines() {
    let (cache, alice, nobody) = (cache(), subject("alice"), subject("nobody"));
    fill(&cache, NOW_US, &alice, Some("1234"));
    fill(&cache, NOW_US, &nobody, None);
    assert_eq!(cache.get(NOW_US, &alice, Algorithm::Sha256), None);
    assert_eq!(get(&cache, NOW_US, &nobody), None);
    assert!(cache.negative(NOW_US, &nobody).is_some());
    assert!(cache.negative(NOW_US, &alice).is_none());
    assert!(cache.negative(NOW_US + 10_000, &nobody).is_none());
    assert_eq!(cache.figures().negative, 1);
}

#[test]
fn a_user_without_a_secret_is_a_name_that_is_not_there() {
    let (cache, alice) = (cache(), subject("alice"));
    cache.fill(
        NOW_US,
        &alice,
        cache.ticket(&alice),
        Some(&Secrets::default()),
    );
    assert!(cache.negative(NOW_US, &alice).is_some());
}

#[test]
fn names_that_strangers_ask_for_take_no_place_from_users() {
    let cache = cache();
    for nth in 0..6 {
        fill(&cache, NOW_US, &subject(nth), Some("1234"));
        cache.confirm(&subject(nth));
    }
    for nth in 100..200 {
        fill(&cache, NOW_US, &subject(nth), Some("1234"));
        fill(&cache, NOW_US, &subject(nth + 1_000), None);
    }
    for nth in 0..6 {
        assert!(get(&cache, NOW_US, &subject(nth)).is_some(), "user {nth}");
    }
    let figures = cache.figures();
    let held = (figures.users, figures.strangers, figures.negatives);
    assert_eq!(held, (6, 4, 3));
    assert_eq!(figures.evicted, 96 + 97);
}

#[test]
fn the_user_who_was_not_seen_for_longest_makes_room() {
    let cache = cache();
    for nth in 0..6 {
        fill(&cache, NOW_US, &subject(nth), Some("1234"));
        cache.confirm(&subject(nth));
    }
    assert!(get(&cache, NOW_US, &subject(0)).is_some());
    fill(&cache, NOW_US, &subject(6), Some("1234"));
    cache.confirm(&subject(6));
    assert!(get(&cache, NOW_US, &subject(0)).is_some());
    assert!(get(&cache, NOW_US, &subject(1)).is_none());
}

#[test]
fn memory_is_bounded_whatever_the_names() {
    let cache = Cache::new(
        [7; 16],
        CacheConfig {
            entries_max: 1_000_000,
            strangers_max: 500_000,
            negatives_max: 500_000,
            bytes_max: 1 << 20,
            ..config()
        },
    );
    for nth in 0..3_000 {
        fill(
            &cache,
            NOW_US,
            &subject(format!("{nth:01000}")),
            Some("1234"),
        );
        fill(&cache, NOW_US, &subject(format!("x{nth:01000}")), None);
    }
    let bytes = cache.figures().bytes;
    assert!((1 << 18..=1 << 20).contains(&bytes), "{bytes}");
}

#[test]
fn who_comes_while_users_have_all_the_memory_becomes_one_of_them() {
    let cache = Cache::new(
        [7; 16],
        CacheConfig {
            entries_max: 1_000,
            strangers_max: 250,
            negatives_max: 250,
            bytes_max: 20_000,
            ..config()
        },
    );
    let log_in = |nth: usize| {
        let came = subject(format!("user{nth:05}"));
        fill(&cache, NOW_US, &came, Some("1234"));
        cache.confirm(&came);
        assert!(get(&cache, NOW_US, &came).is_some(), "user {nth}");
    };
    for nth in 0..500 {
        log_in(nth);
    }
    let full = cache.figures();
    assert!(full.bytes > 19_000 && full.users < 100, "{full:?}");
    assert!(get(&cache, NOW_US, &subject("user00000")).is_none());
    // Strangers and names that nobody has take no more from them than their own shares.
    for nth in 0..500 {
        fill(&cache, NOW_US, &subject(format!("else{nth:05}")), Some("1"));
        fill(&cache, NOW_US, &subject(format!("none{nth:05}")), None);
    }
    let figures = cache.figures();
    assert!(figures.users >= full.users * 3 / 5 - 1, "{figures:?}");
    assert!(get(&cache, NOW_US, &subject("user00499")).is_some());
}

#[test]
fn a_hit_late_in_its_life_has_it_asked_for_once() {
    let (cache, alice) = (cache(), subject("alice"));
    fill(&cache, NOW_US, &alice, Some("1234"));
    let taken = || {
        let mut taken = Vec::new();
        cache.take_refreshes(10, &mut taken);
        taken
    };
    assert!(get(&cache, NOW_US + 47_999, &alice).is_some());
    assert!(taken().is_empty());
    assert!(get(&cache, NOW_US + 48_000, &alice).is_some());
    assert!(get(&cache, NOW_US + 48_000, &alice).is_some());
    assert_eq!(taken(), std::slice::from_ref(&alice));
    assert!(get(&cache, NOW_US + 48_001, &alice).is_some());
    assert!(taken().is_empty(), "it is being asked for");
    cache.refresh_failed(&alice);
    assert!(get(&cache, NOW_US + 48_002, &alice).is_some());
    assert_eq!(taken(), std::slice::from_ref(&alice));
    fill(&cache, NOW_US + 50_000, &alice, Some("5678"));
    assert_eq!(
        get(&cache, NOW_US + 60_001, &alice),
        Some(Reply::Cached(ha1("5678")))
    );
}

#[test]
fn what_was_read_before_a_change_does_not_come_in_after_it() {
    let (cache, alice) = (cache(), subject("alice"));
    let before = cache.ticket(&alice);
    cache.invalidate(&alice);
    cache.fill(NOW_US, &alice, before, Some(&secrets("old")));
    assert_eq!(get(&cache, NOW_US, &alice), None);
    fill(&cache, NOW_US, &alice, Some("new"));
    assert!(get(&cache, NOW_US, &alice).is_some());
    let before = cache.ticket(&alice);
    cache.invalidate_all();
    cache.fill(NOW_US, &alice, before, Some(&secrets("old")));
    assert_eq!(get(&cache, NOW_US, &alice), None);
    assert_eq!(cache.figures().invalidated, 1);
}

#[test]
fn a_change_of_one_user_keeps_out_few_rows_of_others() {
    let cache = Cache::new(
        [7; 16],
        CacheConfig {
            entries_max: 1_000,
            strangers_max: 1_000,
            ..config()
        },
    );
    let asked: Vec<_> = (0..500)
        .map(|nth| (subject(nth), cache.ticket(&subject(nth))))
        .collect();
    for nth in 1_000..1_010 {
        cache.invalidate(&subject(nth));
    }
    for (subject, ticket) in &asked {
        cache.fill(NOW_US, subject, *ticket, Some(&secrets("1234")));
    }
    let held = asked
        .iter()
        .filter(|(subject, _)| get(&cache, NOW_US, subject).is_some());
    let held = held.count();
    assert!(held > 450, "{held}");
}

#[test]
fn what_is_held_leaves_where_a_newer_row_may_not_come_in() {
    let (cache, alice) = (cache(), subject("alice"));
    fill(&cache, NOW_US, &alice, Some("old"));
    let before = cache.ticket(&alice);
    // Somebody whose changes are counted with hers.
    let group_of = |name: &Subject| group(cache.hash.hash_one(name));
    let bob = (0..)
        .map(subject)
        .find(|bob| group_of(bob) == group_of(&alice));
    cache.invalidate(&bob.unwrap());
    assert!(get(&cache, NOW_US, &alice).is_some());
    cache.fill(NOW_US, &alice, before, Some(&secrets("new")));
    assert_eq!(get(&cache, NOW_US, &alice), None);
}

#[test]
fn what_is_emptied_is_wiped_by_whoever_emptied_it() {
    let mut entries = Entries::new(Bounds::of(&config(), 1));
    for nth in 0..3 {
        entries.put(nth, &subject(nth), Some(&secrets("1234")), NOW_US);
    }
    let gone = entries.take_all();
    assert_eq!((entries.len(), entries.bytes(), gone.len()), (0, 0, 3));
    assert!(gone.bytes() > 0, "nothing is wiped until it is dropped");
}

#[test]
fn while_no_store_can_be_asked_secrets_count_longer_and_not_forever() {
    let (cache, alice) = (cache(), subject("alice"));
    fill(&cache, NOW_US, &alice, Some("1234"));
    cache.set_outage(true);
    assert!(get(&cache, NOW_US + 60_000, &alice).is_some());
    assert!(get(&cache, NOW_US + 559_999, &alice).is_some());
    assert!(get(&cache, NOW_US + 560_000, &alice).is_none());
    cache.set_outage(false);
    assert!(get(&cache, NOW_US + 60_000, &alice).is_none());
    assert_eq!(cache.figures().stale, 2);
}

#[test]
fn a_doubted_secret_is_the_pipelines_until_the_store_has_answered() {
    let (cache, alice) = (cache(), subject("alice"));
    fill(&cache, NOW_US, &alice, Some("1234"));
    cache.doubt(&alice, NOW_US + 4_000);
    assert_eq!(get(&cache, NOW_US + 3_999, &alice), None);
    assert!(
        get(&cache, NOW_US + 4_000, &alice).is_some(),
        "nobody ever answered"
    );
    cache.doubt(&alice, NOW_US + 9_000);
    fill(&cache, NOW_US + 5_000, &alice, Some("5678"));
    assert!(get(&cache, NOW_US + 5_000, &alice).is_some());
    cache.doubt(&alice, NOW_US + 20_000);
    cache.set_outage(true);
    assert!(
        get(&cache, NOW_US + 6_000, &alice).is_some(),
        "a stranger's guess shuts nobody out"
    );
}

#[test]
fn what_is_too_old_is_swept_out() {
    let cache = cache();
    for nth in 0..4 {
        fill(&cache, NOW_US, &subject(nth), Some("1234"));
    }
    fill(&cache, NOW_US, &subject("nobody"), None);
    cache.sweep(NOW_US + 60_000);
    let figures = cache.figures();
    assert_eq!((figures.strangers, figures.negatives), (4, 0));
    cache.sweep(NOW_US + 560_000);
    let figures = cache.figures();
    assert_eq!((figures.strangers, figures.bytes), (0, 0));
}

#[test]
fn new_bounds_hold_at_once() {
    let cache = cache();
    for nth in 0..4 {
        fill(&cache, NOW_US, &subject(nth), Some("1234"));
    }
    cache.reload(CacheConfig {
        entries_max: 0,
        ..config()
    });
    assert_eq!(cache.figures().strangers, 0);
    fill(&cache, NOW_US, &subject(9), Some("1234"));
    assert_eq!(get(&cache, NOW_US, &subject(9)), None);
}

#[test]
fn threads_share_it() {
    let cache = Arc::new(cache());
    let alice = subject("alice");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    fill(&cache, NOW_US, &alice, Some("1234"));
                    assert!(get(&cache, NOW_US, &alice).is_some());
                    cache.confirm(&alice);
                }
            });
        }
    });
    assert_eq!(cache.figures().hits, 400);
}
