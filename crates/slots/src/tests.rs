use super::*;
use proptest::prelude::*;

#[test]
fn the_name_of_a_value_that_is_gone_finds_nothing() {
    let mut slots = Slots::new(10);
    let first = slots.insert("a").unwrap();
    assert_eq!(slots.remove(first), Some("a"));
    let second = slots.insert("b").unwrap();
    assert_eq!(second.slot, first.slot);
    assert_eq!(slots.get(first), None);
    assert_eq!(slots.get_mut(first), None);
    assert_eq!(slots.remove(first), None);
    assert_eq!(slots.get(second), Some(&"b"));
    assert_eq!(slots.at(second.slot), Some((second, &"b")));
}

#[test]
fn a_full_table_takes_nothing_more() {
    let mut slots = Slots::new(SEGMENT + 1);
    let names: Vec<_> = (0..=SEGMENT).map(|n| slots.insert(n).unwrap()).collect();
    assert_eq!(slots.insert(0), None);
    assert_eq!(slots.remove(names[5]), Some(5));
    assert!(slots.insert(7).is_some());
    assert_eq!(slots.insert(0), None);
}

#[test]
fn memory_comes_back_after_a_flood_and_old_names_stay_stale() {
    let mut slots = Slots::new(1 << 20);
    let names: Vec<_> = (0..100_000).map(|n| slots.insert(n).unwrap()).collect();
    let peak = slots.held_bytes();
    assert!(peak >= 100_000 * size_of::<Slot<i32>>());
    for name in &names[1..] {
        slots.remove(*name);
    }
    slots.trim();
    assert_eq!(slots.held_bytes(), peak, "it may be needed again at once");
    slots.trim();
    assert_eq!(slots.held_bytes(), SEGMENT * size_of::<Slot<i32>>());
    assert_eq!(slots.get(names[0]), Some(&0));
    let again: Vec<_> = (0..100_000).map(|n| slots.insert(n).unwrap()).collect();
    assert!(names[1..].iter().all(|name| slots.get(*name).is_none()));
    assert!(again.iter().all(|name| slots.get(*name).is_some()));
}

#[test]
fn what_lives_keeps_to_the_first_segments() {
    let mut slots = Slots::new(1 << 20);
    let names: Vec<_> = (0..SEGMENT * 4).map(|n| slots.insert(n).unwrap()).collect();
    slots.remove(names[SEGMENT * 3]);
    slots.remove(names[3]);
    assert_eq!(slots.insert(9).unwrap().slot, names[3].slot);
}

#[test]
fn what_is_needed_stays_and_the_rest_goes_by_and_by() {
    let mut spares = Spares::new();
    for n in 0..1_000 {
        spares.push(n);
    }
    spares.trim(|_| {});
    for _ in 0..20 {
        let taken: Vec<_> = (0..100).filter_map(|_| spares.pop()).collect();
        assert_eq!(taken.len(), 100);
        taken.into_iter().for_each(|spare| spares.push(spare));
        spares.trim(|_| {});
    }
    assert_eq!(spares.len(), 100);
    let mut gone = 0;
    for _ in 0..20 {
        spares.trim(|_| gone += 1);
    }
    assert_eq!((spares.len(), gone), (0, 100));
}

proptest! {
    #[test]
    fn a_table_holds_what_was_put_in(steps in proptest::collection::vec((0u8..4, 0usize..3_000), 1..4_000)) {
        let mut slots = Slots::new(2_500);
        let mut names: Vec<(Name, usize)> = Vec::new();
        for (step, number) in steps {
            match step {
                0 | 1 => match slots.insert(number) {
                    Some(name) => names.push((name, number)),
                    None => prop_assert_eq!(names.len(), 2_500),
                },
                2 if !names.is_empty() => {
                    let (name, value) = names.swap_remove(number % names.len());
                    prop_assert_eq!(slots.remove(name), Some(value));
                    prop_assert_eq!(slots.remove(name), None);
                }
                _ => slots.trim(),
            }
            prop_assert_eq!(slots.len(), names.len());
        }
        for (name, value) in &names {
            prop_assert_eq!(slots.get(*name), Some(value));
            prop_assert_eq!(slots.at(name.slot), Some((*name, value)));
        }
    }
}
