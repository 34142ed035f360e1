use super::*;
use sip_msg::{ConnId, ListenerId, Transport};

const HOUR_MS: u64 = 3_600_000;
const NOW: u64 = 1_800_000_000_000;

fn table() -> Location {
    Location::new(1_000, [3; 16])
}

fn binding(uri: &str, q: u16, expires_unix_ms: u64) -> Binding {
    Binding {
        uri: uri.as_bytes().into(),
        q,
        expires_unix_ms,
        call_id: b"call".as_slice().into(),
        cseq: 1,
        instance: None,
        reg_id: None,
        path: Box::default(),
        flow: Some(Flow {
            transport: Transport::Udp,
            listener: ListenerId(0),
            local: "192.0.2.1:5060".parse().unwrap(),
            remote: "192.0.2.9:5060".parse().unwrap(),
            conn: ConnId::NONE,
        }),
        user_agent: Box::default(),
        node: "".into(),
        since_unix_ms: 0,
        source: None,
        is_translated: false,
        had_flow: false,
    }
}

fn put(aor: &str, key: &str, binding: Binding) -> BindingChange {
    BindingChange::Put {
        aor: aor.as_bytes().into(),
        key: key.as_bytes().into(),
        binding: Arc::new(binding),
    }
}

fn remove(aor: &str, key: &str) -> BindingChange {
    BindingChange::Remove {
        aor: aor.as_bytes().into(),
        key: key.as_bytes().into(),
    }
}

fn uris(table: &Location, aor: &str, unix_ms: u64) -> Vec<String> {
    let mut found = Vec::new();
    table.find(aor.as_bytes(), unix_ms, &mut found);
    found
        .iter()
        .map(|b| String::from_utf8_lossy(&b.uri).into_owned())
        .collect()
}

#[test]
fn highest_q_first_then_the_latest() {
    let table = table();
    table.apply(&[
        put("a", "1", binding("u1", 500, NOW + 1)),
        put("a", "2", binding("u2", 1000, NOW + 1)),
        put("a", "3", binding("u3", 500, NOW + 1)),
    ]);
    assert_eq!(uris(&table, "a", NOW), ["u2", "u3", "u1"]);
    table.apply(&[put("a", "1", binding("u1 again", 500, NOW + 1))]);
    assert_eq!(uris(&table, "a", NOW), ["u2", "u1 again", "u3"]);
    assert_eq!(uris(&table, "A", NOW), [""; 0]);
    assert_eq!((table.aors(), table.bindings()), (1, 3));
}

#[test]
fn find_appends() {
    let table = table();
    table.apply(&[
        put("a", "1", binding("low", 1, NOW + 1)),
        put("b", "1", binding("high", 2, NOW + 1)),
    ]);
    let mut found = Vec::new();
    table.find(b"a", NOW, &mut found);
    table.find(b"b", NOW, &mut found);
    assert_eq!(
        found.iter().map(|b| &*b.uri).collect::<Vec<_>>(),
        [b"low".as_slice(), b"high"]
    );
}

#[test]
fn flows_of_one_instance_stand_together() {
    // RFC 5626 7: "MUST NOT populate the target set with more than one contact with the same AOR and
    // instance-id at a time."
    let table = table();
    let flow = |uri, instance: &str, reg_id, q| {
        let instance = Some(instance.as_bytes().into());
        put(
            "a",
            uri,
            Binding {
                instance,
                reg_id: Some(reg_id),
                ..binding(uri, q, NOW + 1)
            },
        )
    };
    table.apply(&[
        flow("x1", "x", 1, 500),
        flow("y1", "y", 1, 1000),
        flow("x2", "x", 2, 1000),
        put("a", "z", binding("z", 700, NOW + 1)),
        flow("y2", "y", 2, 200),
    ]);
    assert_eq!(uris(&table, "a", NOW), ["x2", "x1", "y1", "y2", "z"]);
    let mut found = Vec::new();
    table.find(b"a", NOW, &mut found);
    let same = |a: usize, b: usize| found[a].is_same_instance(&found[b]);
    assert!(same(0, 1) && same(2, 3) && !same(1, 2) && !same(3, 4) && !same(4, 4));
}

#[test]
fn the_expired_are_passed_over_at_once() {
    let table = table();
    table.apply(&[
        put("a", "1", binding("u1", 1, NOW + 1)),
        put("a", "2", binding("u2", 1, NOW + 2)),
    ]);
    assert_eq!(uris(&table, "a", NOW + 1), ["u2"]);
    assert_eq!(uris(&table, "a", NOW + 2), [""; 0]);
    let mut entries = Vec::new();
    assert!(table.entries(b"a", NOW + 1, &mut entries).is_some());
    assert_eq!(entries.len(), 1);
}

#[test]
fn the_last_contact_takes_the_address_of_record_with_it() {
    let table = table();
    table.apply(&[
        put("a", "1", binding("u1", 1, NOW + 1)),
        put("a", "2", binding("u2", 1, NOW + 1)),
    ]);
    table.apply(&[remove("a", "1"), remove("a", "none"), remove("b", "1")]);
    assert!(table.contains(b"a"));
    assert_eq!((table.aors(), table.bindings()), (1, 1));
    table.apply(&[remove("a", "2")]);
    assert!(!table.contains(b"a"));
    assert_eq!((table.aors(), table.bindings()), (0, 0));
    // Out and in again within one change keeps it.
    table.apply(&[put("a", "1", binding("u1", 1, NOW + 1))]);
    table.apply(&[remove("a", "1"), put("a", "3", binding("u3", 1, NOW + 1))]);
    assert_eq!(uris(&table, "a", NOW), ["u3"]);
}

#[test]
fn room_is_for_those_who_are_in() {
    let table = Location::new(2, [0; 16]);
    table.apply(&[
        put("a", "1", binding("u", 1, NOW + 1)),
        put("b", "1", binding("u", 1, NOW + 1)),
    ]);
    assert!(table.has_room(b"a") && !table.has_room(b"c"));
    table.apply(&[remove("b", "1")]);
    assert!(table.has_room(b"c"));
}

fn sweep_all(table: &Location, unix_ms: u64) -> usize {
    (0..2 * STRIPES).map(|_| table.sweep(unix_ms, 1_000)).sum()
}

#[test]
fn the_sweep_frees_what_expired_and_nothing_else() {
    let table = table();
    for user in 0..500_u64 {
        let at = NOW + (user % 10) * HOUR_MS;
        table.apply(&[put(&format!("user{user}"), "1", binding("u", 1, at))]);
    }
    assert_eq!(sweep_all(&table, NOW - 1), 0);
    for hour in 0..10 {
        assert_eq!(sweep_all(&table, NOW + hour * HOUR_MS), 50, "hour {hour}");
        assert_eq!(table.aors(), 450 - 50 * hour as usize);
        assert_eq!(table.bindings(), table.aors());
    }
}

#[test]
fn a_refresh_outlives_the_first_expiry_and_a_shorter_one_does_not() {
    let table = table();
    table.apply(&[put("a", "1", binding("u", 1, NOW + HOUR_MS))]);
    table.apply(&[put("a", "1", binding("u", 1, NOW + 3 * HOUR_MS))]);
    assert_eq!(sweep_all(&table, NOW + 2 * HOUR_MS), 0);
    assert_eq!(uris(&table, "a", NOW + 2 * HOUR_MS), ["u"]);
    table.apply(&[put(
        "a",
        "2",
        binding("brief", 1, NOW + 2 * HOUR_MS + 1_000),
    )]);
    assert_eq!(sweep_all(&table, NOW + 2 * HOUR_MS + 1_000), 1);
    assert_eq!(table.bindings(), 1);
    assert_eq!(sweep_all(&table, NOW + 3 * HOUR_MS), 1);
    assert_eq!((table.aors(), table.bindings()), (0, 0));
}

#[test]
fn the_sweep_keeps_to_its_budget() {
    let table = Location::new(100_000, [1; 16]);
    for user in 0..20_000 {
        table.apply(&[put(&format!("user{user}"), "1", binding("u", 1, NOW))]);
    }
    let mut calls = 0;
    while table.aors() > 0 {
        assert!(table.sweep(NOW + HOUR_MS, 100) <= 100);
        calls += 1;
        assert!(calls < 20_000, "the sweep does not get on");
    }
    assert!(calls >= 200);
    assert_eq!(table.sweep(NOW + HOUR_MS, 0), 0);
}

#[test]
fn a_slot_that_is_used_again_keeps_its_new_owner() {
    let table = table();
    for round in 0..50_u64 {
        let now = NOW + round * HOUR_MS;
        for user in 0..20 {
            table.apply(&[put(
                &format!("{round}-{user}"),
                "1",
                binding("u", 1, now + HOUR_MS),
            )]);
        }
        // Sweeps in small steps leave fired timers waiting while slots change hands.
        table.sweep(now + HOUR_MS, 7);
        for user in 0..10 {
            table.apply(&[remove(&format!("{round}-{user}"), "1")]);
            table.apply(&[put(
                &format!("{round}-{user}-new"),
                "1",
                binding("u", 1, NOW + 1_000 * HOUR_MS),
            )]);
        }
    }
    sweep_all(&table, NOW + 60 * HOUR_MS);
    assert_eq!((table.aors(), table.bindings()), (500, 500));
}

#[test]
fn start_up_takes_what_is_alive_even_past_the_bound() {
    let table = Location::new(1, [0; 16]);
    let stored = vec![
        put("a", "1", binding("u1", 1, NOW + 1)),
        put("a", "2", binding("u2", 1, NOW)),
        put("b", "1", binding("u3", 1, NOW + 1)),
    ];
    assert_eq!(table.load(stored, NOW), 2);
    assert_eq!(uris(&table, "a", NOW), ["u1"]);
    assert_eq!(table.aors(), 2);
}

#[test]
fn everybody_is_shown_once() {
    let table = table();
    for user in 0..300 {
        table.apply(&[put(&format!("user{user}"), "1", binding("u", 1, NOW + 1))]);
        table.apply(&[put(&format!("user{user}"), "2", binding("gone", 1, NOW))]);
    }
    table.apply(&[put("gone", "1", binding("gone", 1, NOW))]);
    let mut seen = std::collections::BTreeSet::new();
    table.for_each(NOW, |aor, bindings| {
        assert_eq!(bindings.len(), 1);
        assert!(seen.insert(aor.clone()));
    });
    assert_eq!(seen.len(), 300);
}

#[test]
fn readers_see_a_registration_whole_or_not_at_all() {
    let table = table();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..20_000 {
                let name = format!("u{round}");
                table.apply(&[
                    put("a", "1", binding(&name, 1, NOW + 1)),
                    put("a", "2", binding(&name, 1, NOW + 1)),
                    put("a", "3", binding(&name, 1, NOW + 1)),
                ]);
            }
            done.store(true, Ordering::Relaxed);
        });
        let mut looked = 0;
        while !done.load(Ordering::Relaxed) || looked == 0 {
            let found = uris(&table, "a", NOW);
            assert!(
                found.is_empty() || (found.len() == 3 && found.iter().all(|uri| *uri == found[0]))
            );
            looked += 1;
        }
    });
}

#[test]
fn random_changes_agree_with_a_plain_model() {
    use std::collections::BTreeMap;
    let table = Location::new(10_000, [9; 16]);
    let mut model: BTreeMap<(String, String), u64> = BTreeMap::new();
    let mut seed = 42_u64;
    let mut random = |below: u64| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let mut now = NOW;
    for _ in 0..30_000 {
        now += random(5_000);
        let (aor, key) = (format!("a{}", random(60)), format!("k{}", random(4)));
        match random(4) {
            0 => {
                table.apply(&[remove(&aor, &key)]);
                model.remove(&(aor, key));
            }
            1 => {
                table.sweep(now, 40);
            }
            _ => {
                let expires = now + 1 + random(HOUR_MS / 4);
                table.apply(&[put(&aor, &key, binding(&key, 1, expires))]);
                model.insert((aor, key), expires);
            }
        }
        let aor = format!("a{}", random(60));
        let mut found = uris(&table, &aor, now);
        found.sort();
        let alive = model
            .iter()
            .filter(|((a, _), expires)| *a == aor && **expires > now);
        let expected: Vec<String> = alive.map(|((_, key), _)| key.clone()).collect();
        assert_eq!(found, expected);
    }
    sweep_all(&table, now + HOUR_MS);
    assert_eq!((table.aors(), table.bindings()), (0, 0));
}
