//! The tuner's model of capacity and delay ([`sip_lookup::Model`]) beside what is measured, in
//! settings that it was not fitted to.
//!
//! It is fitted to a store that is idle, which one batch in flight at a time leaves it, and
//! to a busy one. The store shares its core with the load here: what a call takes of that
//! core counts as the store's time for a row.

use measure::Second;
use sip_lookup::{Model, Setting};

use super::database::{Database, Kind};
use super::load::Callers;
use super::record::{How, ModelRow};
use super::server::Users;
use super::tuner::warm_s;
use super::{Bench, RTT_MS, USERS};
use crate::aims::Relation;
use crate::rule::Summary;

/// Batches with one in flight: what the way to an idle store is fitted to.
const IDLE: [u32; 4] = [1, 8, 64, 256];
/// Batches with so many in flight: what the time of a busy one is fitted to.
const BUSY: [u32; 3] = [1, 4, 64];
const BUSY_IN_FLIGHT: u32 = 256;
/// What it has to predict the capacity of.
const CAPACITIES: [How; 9] = [
    fixed(2, 4),
    fixed(2, 32),
    fixed(4, 16),
    fixed(8, 8),
    fixed(16, 4),
    fixed(256, 16),
    blocking(4, 1),
    blocking(16, 8),
    blocking(512, 2),
];
/// And of which the mean delay: intervals in microseconds and calls a second.
const DELAYS: [(u64, u32); 6] = [
    (2_000, 400),
    (5_000, 400),
    (10_000, 400),
    (20_000, 400),
    (5_000, 1_500),
    (15_000, 1_500),
];
/// A batch and a number in flight that bound nothing.
const MANY: u32 = 512;
/// An interval that bounds nothing.
const AT_ONCE_US: u64 = 200;
/// The largest error.
const ERROR_MAX: f64 = 0.15;
/// Where the peak of a busy store is guessed.
const GUESS_PER_S: f64 = 5_000.0;

const fn fixed(in_flight: u32, batch: u32) -> How {
    How::Fixed {
        interval_us: AT_ONCE_US,
        batch,
        in_flight,
    }
}

const fn blocking(processes: u32, batch: u32) -> How {
    How::Blocking { processes, batch }
}

/// What the model calls it; it does not know the tuner.
fn setting(how: How) -> Option<Setting> {
    match how {
        How::Tuned => None,
        How::Blocking { processes, batch } => Some(Setting::Blocking {
            processes: processes as usize,
            batch: batch as usize,
        }),
        How::Fixed {
            interval_us,
            batch,
            in_flight,
        } => Some(Setting::Paced {
            interval_us,
            batch_max: batch as usize,
            in_flight_max: in_flight as usize,
        }),
    }
}

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), String> {
    let database = bench.database(Kind::MariaDb, USERS)?;
    let model = fit(bench, &database)?;
    bench.record.fit = [
        ("round_trip_us", model.round_trip_us),
        ("query_us", model.query_us),
        ("row_us", model.row_us),
        ("workers", model.workers),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    for &how in CAPACITIES.iter().take(bench.sized(CAPACITIES.len(), 1)) {
        let Some(setting) = setting(how) else {
            continue;
        };
        let predicted = model.predict(&setting, 1.0).capacity_per_s;
        let measured = capacity(bench, &database, how, predicted)?;
        bench.compare(how.name(), "authentications/s", predicted, measured);
    }
    for &(interval_us, rate) in DELAYS.iter().take(bench.sized(DELAYS.len(), 1)) {
        let how = How::Fixed {
            interval_us,
            batch: MANY,
            in_flight: MANY,
        };
        let Some(setting) = setting(how) else {
            continue;
        };
        let base_ms = {
            let server = bench.start_signet(&Users::Embedded)?;
            let found = mean_ms(bench, rate);
            drop(server);
            found?
        };
        let scene = bench.scene(&database, how.lookups())?;
        let found_ms = mean_ms(bench, rate)?;
        drop(scene);
        let what = format!("a batch every {interval_us} us at {rate}/s");
        let predicted_ms = model.predict(&setting, f64::from(rate)).mean_delay_us / 1_000.0;
        bench.compare(
            what,
            "ms added, mean of a second",
            predicted_ms,
            found_ms - base_ms,
        );
    }
    let errors = bench.record.model.iter().map(|row| row.error.abs());
    bench.record.bar(
        "model",
        "largest error of a prediction, as a share",
        errors.max_by(f64::total_cmp),
        (Relation::LessThan, ERROR_MAX),
    );
    Ok(())
}

fn fit(bench: &Bench<'_>, database: &Database) -> Result<Model, String> {
    let mut idle = Vec::new();
    for batch in IDLE {
        let guess = f64::from(batch) * 1_000.0 / (RTT_MS as f64 + 1.0);
        let rate = capacity(bench, database, fixed(1, batch), guess)?;
        eprintln!("model: one in flight, batches of {batch}: {rate:.0}/s");
        // The next one leaves when the answer is there.
        idle.push((f64::from(batch), f64::from(batch) * 1e6 / rate));
    }
    let mut busy = Vec::new();
    for batch in BUSY {
        let rate = capacity(bench, database, fixed(BUSY_IN_FLIGHT, batch), GUESS_PER_S)?;
        eprintln!("model: kept busy with batches of {batch}: {rate:.0}/s");
        busy.push((f64::from(batch), rate));
    }
    Model::fit(&idle, &busy).ok_or_else(|| "the model cannot be fitted".to_owned())
}

/// The mean set-up delay of calls that come by themselves, once each caller has a nonce.
fn mean_ms(bench: &Bench<'_>, rate: u32) -> Result<f64, String> {
    const CALLERS: usize = 500;
    let warm_s = warm_s(bench, f64::from(rate), CALLERS);
    let seconds = warm_s + bench.sized(15, 3);
    let schedule = format!("{rate}/s for {seconds}s");
    let load = bench.call_poisson(&schedule, seconds, Callers::First(CALLERS))?;
    let told = load.end()?;
    middle_ms(told.between(warm_s, seconds)).ok_or_else(|| "no call ended".to_owned())
}

/// The middle of the mean delays of these seconds, ms: one in which the machine stood still is
/// not the database's.
fn middle_ms<'a>(seconds: impl Iterator<Item = &'a Second>) -> Option<f64> {
    let means = seconds
        .filter(|second| second.succeeded > 0)
        .map(|second| second.mean_us / 1_000.0);
    Summary::of(means.collect()).map(|means| means.median)
}

/// Searches for each capacity: their middle counts, since a moment in which the machine stands
/// still ends a search far below the peak.
const SEARCHES: usize = 3;

/// The peak of one setting.
fn capacity(
    bench: &Bench<'_>,
    database: &Database,
    how: How,
    guess_per_s: f64,
) -> Result<f64, String> {
    let scene = bench.scene(database, how.lookups())?;
    let guess_per_s = guess_per_s.min(GUESS_PER_S * 2.0);
    let mut found = Vec::new();
    for _ in 0..bench.sized(SEARCHES, 1) {
        let peak = bench.peak(&scene, guess_per_s, Callers::First(USERS))?;
        found.push(peak.rate_per_s);
    }
    let middle = Summary::of(found).map(|found| found.median);
    middle.ok_or_else(|| "no peak was found".to_owned())
}

impl Bench<'_> {
    fn compare(&mut self, what: String, unit: &str, predicted: f64, measured: f64) {
        let error = predicted / measured - 1.0;
        eprintln!(
            "model: {what}: {predicted:.1} predicted, {measured:.1} measured, {:+.1}%",
            error * 100.0
        );
        self.record.model.push(ModelRow {
            what,
            unit: unit.to_owned(),
            predicted,
            measured,
            error,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_predicted_was_fitted() {
        let fitted = IDLE.map(|batch| fixed(1, batch)).into_iter();
        let fitted = fitted.chain(BUSY.map(|batch| fixed(BUSY_IN_FLIGHT, batch)));
        assert!(fitted.into_iter().all(|how| !CAPACITIES.contains(&how)));
        assert!(CAPACITIES.len() + DELAYS.len() >= 12);
        assert!(CAPACITIES.iter().all(|how| setting(*how).is_some()));
    }

    #[test]
    fn the_fit_finds_what_made_the_points() {
        let model = Model {
            round_trip_us: 30_000.0,
            query_us: 60.0,
            row_us: 50.0,
            workers: 1.0,
        };
        let of = |how| model.predict(&setting(how).unwrap(), 1.0).capacity_per_s;
        let idle = IDLE.map(|batch| {
            (
                f64::from(batch),
                f64::from(batch) * 1e6 / of(fixed(1, batch)),
            )
        });
        let busy = BUSY.map(|batch| (f64::from(batch), of(fixed(BUSY_IN_FLIGHT, batch))));
        let found = Model::fit(&idle, &busy).unwrap();
        assert!((found.row_us - 50.0).abs() < 5.0, "{found:?}");
        let again = found
            .predict(&setting(fixed(2, 32)).unwrap(), 1.0)
            .capacity_per_s;
        assert!((again / of(fixed(2, 32)) - 1.0).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn a_second_in_which_the_machine_stood_still_does_not_count() {
        let second = |succeeded, mean_us| Second {
            succeeded,
            mean_us,
            ..Second::default()
        };
        let seconds = [
            second(1, 9_000.0),
            second(3, 1_000.0),
            second(0, 77.0),
            second(5, 2_000.0),
        ];
        assert_eq!(middle_ms(seconds.iter()), Some(2.0));
        assert_eq!(middle_ms([].iter()), None);
    }
}
