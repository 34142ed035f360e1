use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

fn nonce(serial: u64) -> Nonce {
    Nonce {
        issued_unix_ms: 0,
        node_id: 0,
        boot_id: 0,
        mark: 0,
        serial,
    }
}

fn window(entries_max: usize) -> ReplayWindow {
    ReplayWindow::new(entries_max, 300_000, [3; 16])
}

/// Entries in a window with one per generation and stripe.
const SMALLEST: u64 = (STRIPES * GENERATIONS) as u64;

#[test]
fn a_count_is_good_once() {
    let window = window(1 << 20);
    for nc in [1, 2, 5, 3, 4, 100, 99, 37, u32::MAX, u32::MAX - 63] {
        assert_eq!(
            window.admit(0, &nonce(1), b"alice", nc),
            Admission::Admitted,
            "{nc}"
        );
        assert_eq!(
            window.admit(0, &nonce(1), b"alice", nc),
            Admission::Replayed,
            "{nc}"
        );
    }
    assert_eq!(
        window.admit(0, &nonce(1), b"alice", 6),
        Admission::Replayed,
        "too far behind to tell"
    );
    assert_eq!(
        window.admit(0, &nonce(1), b"alice", u32::MAX - 64),
        Admission::Replayed
    );
    assert_eq!(window.counters().entries, 1);
}

#[test]
fn a_hundred_thousand_replays() {
    let window = window(1 << 20);
    assert_eq!(window.admit(0, &nonce(1), b"alice", 1), Admission::Admitted);
    for _ in 0..100_000 {
        assert_eq!(window.admit(0, &nonce(1), b"alice", 1), Admission::Replayed);
    }
    assert_eq!(
        window.counters(),
        ReplayCounters {
            replayed: 100_000,
            forgotten: 0,
            evicted: 0,
            entries: 1
        }
    );
}

#[test]
fn one_users_counts_are_not_anothers() {
    let window = window(1 << 20);
    assert_eq!(
        window.admit(0, &nonce(1), b"mallory", u32::MAX),
        Admission::Admitted
    );
    assert_eq!(window.admit(0, &nonce(1), b"alice", 1), Admission::Admitted);
}

#[test]
fn past_its_bound_it_forgets_and_never_accepts_twice() {
    let window = window(0);
    let nonces = 40 * SMALLEST;
    for serial in 1..=nonces {
        assert_eq!(
            window.admit(0, &nonce(serial), b"alice", 1),
            Admission::Admitted
        );
    }
    let counters = window.counters();
    assert!(counters.entries <= SMALLEST, "{counters:?}");
    assert_eq!(counters.evicted, nonces - counters.entries);
    let mut forgotten = 0;
    for serial in 1..=nonces {
        match window.admit(0, &nonce(serial), b"alice", 1) {
            Admission::Admitted => panic!("{serial} was accepted twice"),
            Admission::Forgotten => forgotten += 1,
            Admission::Replayed => {}
        }
    }
    assert_eq!(forgotten, counters.evicted);
    // A new nonce is as good as ever.
    assert_eq!(
        window.admit(0, &nonce(nonces + 1), b"alice", 1),
        Admission::Admitted
    );
}

#[test]
fn an_old_nonce_without_an_entry_is_refused_and_costs_none() {
    let window = window(0);
    let last = 40 * SMALLEST;
    for serial in 2..=last {
        window.admit(0, &nonce(serial), b"alice", 1);
    }
    let before = window.counters().entries;
    assert_eq!(
        window.admit(0, &nonce(1), b"alice", 1),
        Admission::Forgotten
    );
    assert_eq!(window.counters().entries, before);
}

#[test]
fn entries_of_expired_nonces_go_by_themselves() {
    let window = window(1 << 20);
    let mut serial = 0;
    let mut most = 0;
    // Ten lifetimes at a steady rate: what is kept is what may still be used,
    // and the watermark never stands in the way of a live nonce.
    for unix_ms in (0..3_000_000).step_by(10) {
        serial += 1;
        assert_eq!(
            window.admit(unix_ms, &nonce(serial), b"alice", 1),
            Admission::Admitted
        );
        if unix_ms % 100_000 == 0 {
            most = most.max(window.counters().entries);
        }
    }
    assert!((30_000..=41_000).contains(&most), "{most}");
    assert_eq!(window.counters().evicted, 0);
}

#[test]
fn memory_returns_after_a_flood() {
    let window = window(1 << 20);
    for serial in 1..=200_000 {
        window.admit(0, &nonce(serial), b"alice", 1);
    }
    let capacity = || -> usize {
        let stripes = window.stripes.iter().map(|s| s.lock().expect("whole"));
        stripes
            .map(|s| {
                s.generations
                    .iter()
                    .map(|g| g.used.capacity())
                    .sum::<usize>()
            })
            .sum()
    };
    let flooded = capacity();
    for step in 0..20_000u64 {
        window.admit(1_000_000 + step * 100, &nonce(200_001 + step), b"alice", 1);
    }
    assert!(capacity() < flooded / 10, "{} of {flooded}", capacity());
}

#[test]
fn a_clock_set_back_neither_opens_nor_closes_the_window() {
    let window = window(0);
    for serial in 1..=40 * SMALLEST {
        window.admit(1_000_000_000, &nonce(serial), b"alice", 1);
    }
    for serial in 40 * SMALLEST + 1..=60 * SMALLEST {
        assert_eq!(
            window.admit(1_000, &nonce(serial), b"alice", 1),
            Admission::Admitted
        );
        assert_ne!(
            window.admit(1_000, &nonce(serial), b"alice", 1),
            Admission::Admitted
        );
    }
}

#[test]
fn a_clock_that_is_a_little_behind_another_ends_no_generation() {
    let window = window(1 << 20);
    let in_one = |serial: &u64| window.fingerprint(&nonce(*serial), b"alice").stripe() == 0;
    let mut serials = (1..).filter(in_one);
    let mut admit = |unix_ms| {
        let serial = serials.next().expect("there are more");
        let admission = window.admit(unix_ms, &nonce(serial), b"alice", 1);
        assert_eq!(admission, Admission::Admitted);
        serial
    };
    let generations = [0, 1, 2, 3].map(|nth| admit(1_000_000 + nth * 100_000));
    // Three shards, whose clocks are a millisecond apart each.
    for unix_ms in [1_400_000, 1_399_999, 1_399_998] {
        admit(unix_ms);
    }
    let again = generations.map(|serial| window.admit(1_399_998, &nonce(serial), b"alice", 1));
    let [oldest, others @ ..] = again;
    assert_eq!(oldest, Admission::Forgotten);
    assert_eq!(others, [Admission::Replayed; 3]);
}

proptest! {
    /// Whatever the order, the clock and the pressure: no count twice.
    #[test]
    fn never_twice(
        steps in prop::collection::vec((0u64..400_000, 1u64..2_000, 0u32..200), 1..2_000),
        entries_max in prop_oneof![Just(0usize), Just(1 << 20)],
    ) {
        let window = window(entries_max);
        let mut admitted = HashSet::new();
        for (unix_ms, serial, nc) in steps {
            if window.admit(unix_ms, &nonce(serial), b"u", nc) == Admission::Admitted {
                prop_assert!(admitted.insert((serial, nc)));
            }
        }
        prop_assert!(!admitted.is_empty());
    }

    /// The bitmap against a set that remembers everything.
    #[test]
    fn bitmap_agrees_with_a_set(counts in prop::collection::vec(0u32..300, 1..300)) {
        let mut model = HashSet::new();
        let mut highest = None::<u32>;
        let mut window = None::<Counts>;
        for nc in counts {
            let expected = highest.is_none_or(|h| nc > h || h - nc < WINDOW) && model.insert(nc);
            let got = match &mut window {
                None => { window = Some(Counts { highest: nc, seen: 1 }); true }
                Some(counts) => counts.admit(nc),
            };
            prop_assert_eq!(got, expected);
            highest = highest.max(Some(nc));
        }
    }
}
