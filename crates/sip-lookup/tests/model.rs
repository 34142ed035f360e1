//! The model against the modelled store: it is found from a few settings and must say what
//! the others do.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

mod support;

use sip_lookup::{Mode, Model, Setting};
use support::{Bench, Store};

const ROUND_TRIP_US: u64 = 30_000;

fn bench(mode: Mode) -> Bench {
    Bench::new(mode, Store::new(ROUND_TRIP_US, 4, 150.0, 15.0))
}

fn capacity(mode: Mode, offered: f64) -> f64 {
    let mut bench = bench(mode);
    bench.run(300_000, offered);
    bench
        .run(for_us(offered, 500_000), offered)
        .answered_per_s()
}

/// Long enough for some thousand questions.
fn for_us(per_s: f64, least_us: u64) -> u64 {
    least_us.max((5_000.0 * 1e6 / per_s) as u64)
}

fn fixed(interval_us: u64, batch_max: usize, in_flight_max: usize) -> Mode {
    Mode::Fixed {
        interval_us,
        batch_max,
        in_flight_max,
    }
}

/// Statements of so many rows, one at a time; and as many as the store can take.
fn measured() -> Model {
    let idle = [1, 16, 64].map(|batch| {
        let mut bench = bench(Mode::Blocking {
            processes: 1,
            batch,
        });
        // Full at once, and asked once the statement before is back.
        bench.run(1_000_000, batch as f64 * 60.0);
        let figures = bench.pipeline.figures();
        let mean_us = figures.round_trip_us as f64 / figures.answered as f64;
        (figures.rows as f64 / figures.answered as f64, mean_us)
    });
    let busy = [2, 48].map(|batch| {
        let mode = fixed(0, batch, 1_024);
        let offered = batch as f64 * 60_000.0;
        let per_s = capacity(mode, offered.min(400_000.0));
        (batch as f64, per_s)
    });
    Model::fit(&idle, &busy).expect("sizes differ")
}

/// None of these took part in the measurement.
fn settings() -> Vec<Mode> {
    let mut settings = vec![
        fixed(250, 64, 256),
        fixed(500, 64, 128),
        fixed(1_000, 64, 64),
        fixed(1_000, 128, 128),
        fixed(2_000, 32, 64),
        fixed(4_000, 256, 32),
    ];
    for (processes, batch) in [(2, 2), (4, 1), (8, 8), (16, 4), (32, 16), (64, 1), (64, 8)] {
        settings.push(Mode::Blocking { processes, batch });
    }
    settings
}

#[test]
fn the_model_says_what_settings_do_that_it_was_not_fitted_on() {
    let model = measured();
    println!("{model:?}");
    let mut worst = 0.0_f64;
    let mut note = |what: &str, mode: Mode, said: f64, was: f64| {
        let error = (said - was).abs() / was;
        println!(
            "{what} of {mode:?}: said {said:.0}, was {was:.0}, {:.1} %",
            error * 100.0
        );
        assert!(
            error < 0.15,
            "{what} of {mode:?}: said {said:.0}, was {was:.0}"
        );
        worst = worst.max(error);
    };
    let settings = settings();
    assert!(settings.len() >= 12);
    for mode in settings {
        let setting = Setting::of(mode).expect("these are fixed");
        let said = model.predict(&setting, 1.0).capacity_per_s;
        note("capacity", mode, said, capacity(mode, said * 1.5));
        for share in [0.3, 0.7] {
            let load = said * share;
            let mut bench = bench(mode);
            bench.run(500_000, load);
            let was = bench.run(for_us(load, 500_000), load).mean_us();
            note(
                "delay",
                mode,
                model.predict(&setting, load).mean_delay_us,
                was,
            );
        }
    }
    println!("the worst is off by {:.1} %", worst * 100.0);
}

/// What the pipeline itself makes of the store, against what it then does. Of the store's speed
/// it knows what it saw when that was last busy, and that fades: at the last of these loads it
/// is taken for faster than it is.
#[test]
fn the_tuner_says_what_its_own_setting_does() {
    let is_near = |said: f64, was: f64| (said - was).abs() / was < 0.15;
    let mut bench = bench(Mode::Tuned);
    bench.run(6_000_000, 400_000.0);
    for (load, is_told) in [
        (200.0, true),
        (2_000.0, true),
        (20_000.0, true),
        (100_000.0, false),
    ] {
        bench.run(12_000_000, load);
        let figures = bench.pipeline.figures();
        let (said_us, said_per_s) = (figures.predicted_us as f64, figures.predicted_per_s as f64);
        let decision = bench.pipeline.decision();
        let was_us = bench.run(for_us(load, 500_000), load).mean_us();
        assert!(
            is_near(said_us, was_us),
            "{load}/s: said {said_us} us, was {was_us:.0}"
        );
        let mode = fixed(
            decision.interval_us,
            decision.batch_max,
            decision.in_flight_max,
        );
        let was_per_s = capacity(mode, (said_per_s * 1.5).min(400_000.0));
        println!("{load}/s: {said_us} us, was {was_us:.0}; {said_per_s}/s, was {was_per_s:.0}");
        assert!(
            !is_told || is_near(said_per_s, was_per_s),
            "{load}/s: said {said_per_s}/s, was {was_per_s:.0}"
        );
    }
}
