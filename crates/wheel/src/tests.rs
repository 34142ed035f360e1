use super::*;
use proptest::prelude::*;

fn fired(wheel: &mut Wheel<u32>, now_ms: u64) -> Vec<u32> {
    let mut keys = Vec::new();
    wheel.advance(now_ms, |key| keys.push(key));
    keys
}

#[test]
fn a_timer_fires_at_its_tick_and_not_before() {
    let mut wheel = Wheel::new(0);
    wheel.start(501, 1);
    assert!(fired(&mut wheel, 509).is_empty());
    assert_eq!(fired(&mut wheel, 510), [1]);
    assert!(wheel.is_empty());
}

#[test]
fn timers_of_one_tick_share_a_wake_up_and_keep_their_order() {
    let mut wheel = Wheel::new(7);
    for key in 0..10 {
        wheel.start(91 + u64::from(key), key);
    }
    assert_eq!(wheel.next_deadline_ms(), Some(100));
    assert_eq!(fired(&mut wheel, 100), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn a_deadline_that_has_passed_fires_at_the_next_tick() {
    let mut wheel = Wheel::new(1_000);
    wheel.start(3, 1);
    wheel.start(1_000, 2);
    assert!(fired(&mut wheel, 1_009).is_empty());
    assert_eq!(fired(&mut wheel, 1_010), [1, 2]);
}

#[test]
fn stale_names_are_harmless() {
    let mut wheel = Wheel::new(0);
    let first = wheel.start(100, 1);
    assert_eq!(wheel.cancel(first), Some(1));
    assert_eq!(wheel.cancel(first), None);
    let second = wheel.start(100, 2);
    assert_eq!(second.slot, first.slot, "the slot is used again");
    assert_eq!(wheel.cancel(first), None);
    assert_eq!(fired(&mut wheel, 100), [2]);
    assert_eq!(wheel.cancel(second), None);
    assert_eq!(wheel.cancel(TimerId::NONE), None);
}

#[test]
fn the_clock_may_jump_hours_and_the_order_stays() {
    let mut wheel = Wheel::new(0);
    let hours_ms = 3_600_000;
    wheel.start(5 * hours_ms, 5);
    wheel.start(20, 0);
    wheel.start(3 * hours_ms, 3);
    wheel.start(1_000 * hours_ms, 9);
    assert_eq!(fired(&mut wheel, 24 * hours_ms), [0, 3, 5]);
    assert_eq!(wheel.len(), 1);
    assert_eq!(fired(&mut wheel, 1_000 * hours_ms), [9]);
}

#[test]
fn the_ends_of_time_are_no_trouble() {
    let mut wheel = Wheel::with_tick(0, 0);
    wheel.start(u64::MAX, 1);
    wheel.start(u64::MAX - 1, 2);
    wheel.start(1, 3);
    assert_eq!(fired(&mut wheel, u64::MAX - 2), [3]);
    assert_eq!(fired(&mut wheel, u64::MAX), [2, 1]);
    // Past the last tick there is no next one: it fires with the clock's last value.
    wheel.start(5, 4);
    assert_eq!(fired(&mut wheel, u64::MAX), [4]);
}

#[test]
fn waking_when_asked_fires_everything_in_time_with_few_wake_ups() {
    let mut wheel = Wheel::new(123);
    let deadline_ms = 123 + 7 * 24 * 3_600_000;
    wheel.start(deadline_ms, 1);
    let mut wake_ups = 0;
    let mut now_ms = 123;
    while let Some(next_ms) = wheel.next_deadline_ms() {
        assert!(next_ms > now_ms, "a wake-up in the past would spin");
        now_ms = next_ms;
        wheel.advance(now_ms, |_| {});
        wake_ups += 1;
    }
    assert_eq!(now_ms, deadline_ms.next_multiple_of(10));
    assert!(wake_ups <= DIGITS, "{wake_ups}");
}

#[test]
fn a_clock_that_goes_back_is_ignored() {
    let mut wheel = Wheel::new(10_000);
    wheel.start(10_500, 1);
    assert!(fired(&mut wheel, 0).is_empty());
    assert_eq!(fired(&mut wheel, 10_500), [1]);
}

#[derive(Clone, Debug)]
enum Step {
    Start { after_ms: u64 },
    Cancel { which: usize },
    Advance { by_ms: u64 },
    Wake,
}

fn step() -> impl Strategy<Value = Step> {
    let span_ms = prop_oneof![
        0u64..50,
        0u64..700,
        0u64..50_000,
        0u64..10_000_000,
        0u64..1 << 40
    ];
    prop_oneof![
        4 => span_ms.clone().prop_map(|after_ms| Step::Start { after_ms }),
        2 => any::<usize>().prop_map(|which| Step::Cancel { which }),
        2 => span_ms.prop_map(|by_ms| Step::Advance { by_ms }),
        2 => Just(Step::Wake),
    ]
}

proptest! {
    /// The wheel and a plain list of deadlines agree about every step.
    #[test]
    fn agrees_with_a_plain_list(
        start_ms in 0u64..1 << 42,
        tick_ms in prop_oneof![Just(1u64), Just(10), Just(7)],
        steps in proptest::collection::vec(step(), 1..200),
    ) {
        let mut wheel = Wheel::with_tick(start_ms, tick_ms);
        let mut now_ms = start_ms;
        let mut key = 0u32;
        let mut list: Vec<(u64, u32, TimerId)> = Vec::new();
        let mut names: Vec<TimerId> = Vec::new();
        for step in steps {
            match step {
                Step::Start { after_ms } => {
                    let deadline_ms = now_ms + after_ms;
                    let tick = deadline_ms.div_ceil(tick_ms).max(now_ms / tick_ms + 1);
                    let id = wheel.start(deadline_ms, key);
                    list.push((tick * tick_ms, key, id));
                    names.push(id);
                    key += 1;
                }
                Step::Cancel { which } => {
                    if !names.is_empty() {
                        let id = names[which % names.len()];
                        let at = list.iter().position(|timer| timer.2 == id);
                        prop_assert_eq!(wheel.cancel(id), at.map(|at| list.remove(at).1));
                    }
                }
                Step::Advance { by_ms } => {
                    now_ms += by_ms;
                    check(&mut wheel, &mut list, now_ms)?;
                }
                Step::Wake => {
                    if let Some(next_ms) = wheel.next_deadline_ms() {
                        let first_ms = list.iter().map(|timer| timer.0).min();
                        prop_assert!(next_ms > now_ms);
                        prop_assert!(Some(next_ms) <= first_ms);
                        now_ms = next_ms;
                        check(&mut wheel, &mut list, now_ms)?;
                    }
                }
            }
            prop_assert_eq!(wheel.len(), list.len());
            prop_assert_eq!(wheel.next_deadline_ms().is_none(), list.is_empty());
        }
    }
}

fn check(
    wheel: &mut Wheel<u32>,
    list: &mut Vec<(u64, u32, TimerId)>,
    now_ms: u64,
) -> Result<(), TestCaseError> {
    let mut due: Vec<_> = list
        .iter()
        .copied()
        .filter(|timer| timer.0 <= now_ms)
        .collect();
    list.retain(|timer| timer.0 > now_ms);
    due.sort_by_key(|timer| timer.0);
    let mut times = Vec::new();
    let mut keys = Vec::new();
    wheel.advance(now_ms, |key| keys.push(key));
    for key in &keys {
        times.push(
            due.iter()
                .find(|timer| timer.1 == *key)
                .map(|timer| timer.0),
        );
    }
    prop_assert!(times.is_sorted(), "{:?}", times);
    keys.sort_unstable();
    let mut expected: Vec<_> = due.iter().map(|timer| timer.1).collect();
    expected.sort_unstable();
    prop_assert_eq!(keys, expected);
    Ok(())
}
