//! The tuner, told nothing, over round trips and loads, on a virtual clock.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

mod support;

use sip_lookup::{Mode, PipelineConfig, Reason, Tuning};
use support::{Bench, Seen, Store};

/// Four workers, 150 us a statement and 15 us a row: 250,000 rows a second at the very most.
fn store(round_trip_us: u64) -> Store {
    Store::new(round_trip_us, 4, 150.0, 15.0)
}

fn tuned(round_trip_us: u64) -> Bench {
    Bench::new(Mode::Tuned, store(round_trip_us))
}

fn show(what: &str, bench: &Bench, seen: &Seen) {
    println!(
        "{what}: {:.0}/s, median {} us, p99 {} us, {:.1} rows, refused {}, failed {}, {:?}",
        seen.answered_per_s(),
        seen.percentile_us(50.0),
        seen.percentile_us(99.0),
        seen.mean_rows(),
        seen.refused,
        seen.failed,
        bench.pipeline.decision(),
    );
}

#[test]
fn nothing_is_added_where_there_is_nothing_to_batch() {
    for round_trip_us in [5_000, 30_000, 100_000] {
        let mut bench = tuned(round_trip_us);
        bench.run(2_000_000, 100.0);
        let seen = bench.run(10_000_000, 100.0);
        show(&format!("{round_trip_us} us, 100/s"), &bench, &seen);
        let added_us = seen.percentile_us(50.0) - round_trip_us;
        assert!(
            added_us < 1_000 + round_trip_us / 100,
            "{added_us} us are added"
        );
        assert_eq!(bench.pipeline.decision().reason, Reason::Idle);
    }
}

#[test]
fn every_load_is_carried_within_the_target() {
    for round_trip_us in [5_000, 30_000, 100_000] {
        for per_s in [100.0, 1_000.0, 5_000.0, 20_000.0, 50_000.0] {
            let mut bench = tuned(round_trip_us);
            bench.run(1_500_000, per_s);
            let seen = bench.run(2_000_000, per_s);
            show(&format!("{round_trip_us} us, {per_s}/s"), &bench, &seen);
            assert!(seen.answered_per_s() > 0.9 * per_s);
            assert_eq!((seen.refused, seen.failed), (0, 0));
            let bound_us = round_trip_us + round_trip_us / 100 + 10_000;
            assert!(
                seen.percentile_us(99.0) < bound_us,
                "p99 {}",
                seen.percentile_us(99.0)
            );
        }
    }
}

#[test]
fn large_loads_go_in_large_batches() {
    let mut bench = tuned(30_000);
    bench.run(1_500_000, 20_000.0);
    let seen = bench.run(2_000_000, 20_000.0);
    assert!(seen.mean_rows() > 16.0, "{} rows", seen.mean_rows());
}

#[test]
fn a_change_of_the_round_trip_is_met() {
    for (before_us, after_us) in [
        (5_000, 100_000),
        (100_000, 5_000),
        (30_000, 100_000),
        (100_000, 30_000),
        (5_000, 30_000),
        (30_000, 5_000),
    ] {
        let mut bench = tuned(before_us);
        bench.run(3_000_000, 12_000.0);
        bench.store.round_trip_us = after_us;
        bench.store.jitter_us = after_us / 100;
        bench.run(8_000_000, 12_000.0);
        let seen = bench.run(2_000_000, 12_000.0);
        show(&format!("{before_us} to {after_us} us"), &bench, &seen);
        assert!(seen.answered_per_s() > 0.9 * 12_000.0);
        assert_eq!(seen.refused, 0);
        assert!(seen.percentile_us(99.0) < after_us + after_us / 100 + 10_000);
    }
}

/// A store that verifies digests one by one has a way that may become longer, too: that is no
/// queue, and nobody is to wait here for it.
#[test]
fn a_longer_way_to_a_store_that_verifies_keeps_nobody_back() {
    for (before_us, after_us) in [(5_000, 100_000), (100_000, 5_000), (5_000, 30_000)] {
        let mut bench = tuned(before_us);
        bench.verifies = true;
        bench.run(3_000_000, 1_000.0);
        bench.store.round_trip_us = after_us;
        bench.store.jitter_us = after_us / 100;
        bench.run(8_000_000, 1_000.0);
        let seen = bench.run(2_000_000, 1_000.0);
        show(
            &format!("{before_us} to {after_us} us, verified"),
            &bench,
            &seen,
        );
        assert!(seen.answered_per_s() > 0.9 * 1_000.0);
        assert_eq!((seen.refused, seen.failed), (0, 0));
        assert!(seen.percentile_us(99.0) < after_us + after_us / 100 + 10_000);
    }
}

#[test]
fn a_store_that_verifies_is_kept_busy_and_not_drowned() {
    for round_trip_us in [5_000, 30_000, 100_000] {
        let mut bench = Bench::new(Mode::Tuned, slow(round_trip_us));
        bench.verifies = true;
        bench.run(6_000_000, 5_000.0);
        let before = bench.pipeline.figures();
        let seen = bench.run(6_000_000, 5_000.0);
        show(
            &format!("{round_trip_us} us, drowned by digests"),
            &bench,
            &seen,
        );
        let best = 1e6 / 450.0;
        assert!(seen.answered_per_s() > 0.85 * best);
        let figures = bench.pipeline.figures();
        let mean_us =
            (figures.round_trip_us - before.round_trip_us) / (figures.answered - before.answered);
        assert!(
            mean_us < round_trip_us * 3 / 2 + 100_000,
            "{mean_us} us in flight"
        );
        assert!(seen.refused > 0);
    }
}

/// While the new way is looked for next to nothing is sent, for two round trips: who comes
/// then has time enough to wait, and is not to be refused by what is sent meanwhile.
#[test]
fn nobody_is_refused_because_the_round_trip_changed() {
    for (before_us, after_us) in [(5_000, 30_000), (30_000, 100_000), (100_000, 5_000)] {
        let mut bench = tuned(before_us);
        bench.deadline_us = 1_000_000;
        bench.run(3_000_000, 12_000.0);
        bench.store.round_trip_us = after_us;
        bench.store.jitter_us = after_us / 100;
        let seen = bench.run(8_000_000, 12_000.0);
        show(&format!("{before_us} to {after_us} us"), &bench, &seen);
        assert_eq!((seen.refused, seen.failed), (0, 0));
    }
}

#[test]
fn a_step_of_the_load_is_met() {
    let mut bench = tuned(30_000);
    bench.run(5_000_000, 100.0);
    bench.run(1_000_000, 50_000.0);
    let seen = bench.run(1_000_000, 50_000.0);
    show("100/s to 50,000/s", &bench, &seen);
    assert!(seen.answered_per_s() > 0.9 * 50_000.0);
    assert!(seen.percentile_us(99.0) < 41_000);
    bench.run(5_000_000, 100.0);
    let seen = bench.run(5_000_000, 100.0);
    show("50,000/s to 100/s", &bench, &seen);
    assert!(seen.percentile_us(50.0) < 31_300);
}

/// A store of one slow worker: 10,000 rows a second at most, and 2,222 one by one.
fn slow(round_trip_us: u64) -> Store {
    Store::new(round_trip_us, 1, 400.0, 50.0)
}

#[test]
fn a_store_at_its_limit_is_kept_busy_and_not_drowned() {
    for round_trip_us in [5_000, 30_000, 100_000] {
        let mut bench = Bench::new(Mode::Tuned, slow(round_trip_us));
        bench.run(6_000_000, 30_000.0);
        let before = bench.pipeline.figures();
        let seen = bench.run(6_000_000, 30_000.0);
        show(&format!("{round_trip_us} us, drowned"), &bench, &seen);
        // The best that fits the target: rows of 5 ms.
        let best = 100.0 * 1e6 / (400.0 + 50.0 * 100.0);
        assert!(
            seen.answered_per_s() > 0.9 * best,
            "{}/s",
            seen.answered_per_s()
        );
        // What is asked too much waits and is refused here: the store's own queue is short.
        let figures = bench.pipeline.figures();
        let mean_us =
            (figures.round_trip_us - before.round_trip_us) / (figures.answered - before.answered);
        assert!(
            mean_us < round_trip_us * 3 / 2 + 20_000,
            "{mean_us} us in flight"
        );
        assert!(seen.refused > 0);
    }
}

#[test]
fn a_longer_way_to_a_store_that_was_busy_just_now_is_not_taken_for_its_queue() {
    let mut bench = Bench::new(Mode::Tuned, slow(5_000));
    bench.run(4_000_000, 30_000.0);
    bench.store.round_trip_us = 100_000;
    bench.store.jitter_us = 1_000;
    bench.run(8_000_000, 8_000.0);
    let seen = bench.run(2_000_000, 8_000.0);
    show("busy, then far away", &bench, &seen);
    assert!(seen.answered_per_s() > 0.9 * 8_000.0);
    assert!(
        seen.percentile_us(99.0) < 111_000,
        "p99 {}",
        seen.percentile_us(99.0)
    );
}

#[test]
fn at_four_fifths_of_the_peak_the_target_holds() {
    let mut bench = Bench::new(Mode::Tuned, slow(30_000));
    bench.run(5_000_000, 30_000.0);
    let peak = bench.run(5_000_000, 30_000.0).answered_per_s();
    let mut bench = Bench::new(Mode::Tuned, slow(30_000));
    bench.run(5_000_000, 0.8 * peak);
    let seen = bench.run(5_000_000, 0.8 * peak);
    show("at 80 % of the peak", &bench, &seen);
    assert!(
        seen.percentile_us(99.0) < 30_300 + 10_000,
        "p99 {}",
        seen.percentile_us(99.0)
    );
}

#[test]
fn a_store_that_becomes_faster_is_found_out() {
    let mut bench = Bench::new(Mode::Tuned, slow(30_000));
    bench.run(5_000_000, 9_000.0);
    bench.store.query_us = 40.0;
    bench.store.row_us = 5.0;
    bench.run(9_000_000, 30_000.0);
    let seen = bench.run(2_000_000, 30_000.0);
    show("ten times faster", &bench, &seen);
    assert!(seen.answered_per_s() > 0.9 * 30_000.0);
}

#[test]
fn a_way_that_jitters_and_timers_of_a_millisecond_are_borne() {
    for round_trip_us in [5_000, 30_000, 100_000] {
        for per_s in [200.0, 5_000.0, 30_000.0] {
            let mut bench = tuned(round_trip_us);
            bench.store.jitter_us = round_trip_us / 5;
            bench.tick_us = 1_000;
            bench.run(5_000_000, per_s);
            let seen = bench.run(3_000_000, per_s);
            show(
                &format!("{round_trip_us} us and a fifth, {per_s}/s"),
                &bench,
                &seen,
            );
            assert!(seen.answered_per_s() > 0.9 * per_s);
            assert_eq!((seen.refused, seen.failed), (0, 0));
            let bound_us = round_trip_us * 6 / 5 + 10_000;
            assert!(
                seen.percentile_us(99.0) < bound_us,
                "p99 {}",
                seen.percentile_us(99.0)
            );
        }
    }
}

#[test]
fn a_store_that_stalls_now_and_then_is_not_taken_for_another() {
    let mut bench = tuned(30_000);
    for _ in 0..6 {
        bench.run(1_500_000, 10_000.0);
        bench.store.stall(bench.now_us + 300_000);
    }
    bench.run(1_500_000, 10_000.0);
    let seen = bench.run(2_000_000, 10_000.0);
    show("after stalls", &bench, &seen);
    assert!(seen.answered_per_s() > 9_000.0);
    assert!(seen.percentile_us(99.0) < 41_000);
}

#[test]
fn few_connections_are_filled() {
    let config = PipelineConfig {
        in_flight_max: 4,
        ..PipelineConfig::default()
    };
    let mut bench = Bench::with(config, store(30_000));
    bench.run(3_000_000, 12_000.0);
    let seen = bench.run(2_000_000, 12_000.0);
    show("four in flight", &bench, &seen);
    assert!(seen.answered_per_s() > 0.9 * 12_000.0);
    assert!(seen.percentile_us(99.0) < 30_000 * 3 / 2);
}

#[test]
fn each_bound_is_named_where_it_decides() {
    let reason = |config: PipelineConfig, store: Store, per_s: f64| {
        let mut bench = Bench::with(config, store);
        bench.run(4_000_000, per_s);
        bench.pipeline.decision().reason
    };
    let config = PipelineConfig {
        in_flight_max: 1_024,
        ..PipelineConfig::default()
    };
    assert_eq!(reason(config, store(30_000), 500.0), Reason::Idle);
    assert_eq!(reason(config, store(30_000), 20_000.0), Reason::Cost);
    let hurried = Tuning {
        delay_target_us: 2_000,
        ..Tuning::default()
    };
    let target = PipelineConfig {
        tuning: hurried,
        ..config
    };
    assert_eq!(reason(target, store(30_000), 5_000.0), Reason::Target);
    let few = PipelineConfig {
        in_flight_max: 16,
        ..config
    };
    assert_eq!(reason(few, store(30_000), 20_000.0), Reason::Slots);
    let fixed = PipelineConfig {
        mode: Mode::Fixed {
            interval_us: 1,
            batch_max: 1,
            in_flight_max: 1,
        },
        ..config
    };
    assert_eq!(reason(fixed, store(30_000), 10.0), Reason::Fixed);
    let strained = reason(config, slow(30_000), 30_000.0);
    let expected = [Reason::Load, Reason::BackOff, Reason::Reprobe];
    assert!(expected.contains(&strained), "{strained:?}");
}
