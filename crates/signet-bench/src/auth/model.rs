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

/// What the model calls it.
fn setting(how: How) -> Setting {
    match how {
        How::Tuned => unreachable!("the model is of fixed values; the tuner changes its own"),
        How::Blocking { processes, batch } => Setting::Blocking {
            processes: processes as usize,
            batch: batch as usize,
        },
        How::Fixed {
            interval_us,
            batch,
            in_flight,
        } => Setting::Paced {
            interval_us,
            batch_max: batch as usize,
            in_flight_max: in_flight as usize,
        },
    }
}

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), String> {
    let database = bench.database(Kind::MariaDb, USERS)?;
    let capacities = &CAPACITIES[..bench.sized(CAPACITIES.len(), 1)];
    let found = in_turns(bench, &database, capacities)?;
    let (idle, rest) = found.split_at(IDLE.len());
    let (busy, found) = rest.split_at(BUSY.len());
    let model = fit(idle, busy)?;
    bench.record.fit = [
        ("round_trip_us", model.round_trip_us),
        ("query_us", model.query_us),
        ("row_us", model.row_us),
        ("workers", model.workers),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    for (how, &found) in capacities.iter().zip(found) {
        let predicted = model.predict(&setting(*how), 1.0).capacity_per_s;
        bench.compare(how.name(), "authentications/s", predicted, found);
    }
    for &(interval_us, rate) in DELAYS.iter().take(bench.sized(DELAYS.len(), 1)) {
        let how = How::Fixed {
            interval_us,
            batch: MANY,
            in_flight: MANY,
        };
        let base_ms = {
            let server = bench.start_signet(&Users::Embedded)?;
            let found = mean_ms(bench, rate);
            drop(server);
            found?
        };
        let scene = bench.scene(&database, how.lookups())?;
        let setup_ms = mean_ms(bench, rate)?;
        drop(scene);
        let added_ms = Summary::of(vec![setup_ms - base_ms]).ok_or("no delay was found")?;
        let what = format!("a batch every {interval_us} us at {rate}/s");
        let predicted = model.predict(&setting(how), f64::from(rate));
        let predicted_ms = predicted.mean_delay_us / 1_000.0;
        bench.compare(what, "ms added, mean of a second", predicted_ms, added_ms);
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

/// The rounds in which capacities are searched. The middle of them counts, since a moment in
/// which the machine stands still ends a search far below the peak.
const ROUNDS: usize = 3;

/// The capacities of what the model is fitted to, idle and busy, and of what it predicts: each
/// once in a round, so that a machine that changes its speed does so for all of them.
fn in_turns(
    bench: &Bench<'_>,
    database: &Database,
    predicted: &[How],
) -> Result<Vec<Summary>, String> {
    let mut all: Vec<(How, Vec<f64>)> = fitted()
        .chain(predicted.iter().copied())
        .map(|how| (how, Vec::new()))
        .collect();
    for round in 1..=bench.sized(ROUNDS, 1) {
        for (how, rates) in &mut all {
            let guess_per_s = rates.last().copied().unwrap_or_else(|| guess_per_s(*how));
            let scene = bench.scene(database, how.lookups())?;
            let peak = bench.peak(&scene, guess_per_s, Callers::First(USERS))?;
            drop(scene);
            eprintln!(
                "model: round {round}, {}: {:.0}/s",
                how.name(),
                peak.rate_per_s
            );
            rates.push(peak.rate_per_s);
        }
    }
    all.into_iter()
        .map(|(how, rates)| {
            Summary::of(rates).ok_or_else(|| format!("{}: no peak was found", how.name()))
        })
        .collect()
}

/// What the model is fitted to: [`IDLE`], then [`BUSY`].
fn fitted() -> impl Iterator<Item = How> {
    let idle = IDLE.iter().map(|&batch| fixed(1, batch));
    let busy = BUSY.iter().map(|&batch| fixed(BUSY_IN_FLIGHT, batch));
    idle.chain(busy)
}

fn fit(idle: &[Summary], busy: &[Summary]) -> Result<Model, String> {
    // The next one leaves when the answer is there.
    let idle = IDLE.iter().zip(idle).map(|(&batch, found)| {
        let batch = f64::from(batch);
        (batch, batch * 1e6 / found.median)
    });
    let busy = BUSY
        .iter()
        .zip(busy)
        .map(|(&batch, found)| (f64::from(batch), found.median));
    let (idle, busy): (Vec<_>, Vec<_>) = (idle.collect(), busy.collect());
    Model::fit(&idle, &busy).ok_or_else(|| "the model cannot be fitted".to_owned())
}

/// Where a peak is looked for first: as if only the round trip bounded it.
fn guess_per_s(how: How) -> f64 {
    let together = match how {
        How::Tuned => f64::INFINITY,
        How::Blocking { processes, batch } => f64::from(processes) * f64::from(batch),
        How::Fixed {
            batch, in_flight, ..
        } => f64::from(in_flight) * f64::from(batch),
    };
    (together * 1_000.0 / (RTT_MS as f64 + 1.0)).min(GUESS_PER_S)
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

impl Bench<'_> {
    fn compare(&mut self, what: String, unit: &str, predicted: f64, found: Summary) {
        let error = predicted / found.median - 1.0;
        eprintln!(
            "model: {what}: {predicted:.1} predicted, {:.1} measured ({:.1} to {:.1}), {:+.1}%",
            found.median,
            found.low,
            found.high,
            error * 100.0
        );
        self.record.model.push(ModelRow {
            what,
            unit: unit.to_owned(),
            predicted,
            measured: found.median,
            low: found.low,
            high: found.high,
            error,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_predicted_was_fitted() {
        assert_eq!(fitted().count(), IDLE.len() + BUSY.len());
        assert!(fitted().all(|how| !CAPACITIES.contains(&how)));
        assert!(!CAPACITIES.contains(&How::Tuned));
        assert!(CAPACITIES.len() + DELAYS.len() >= 12);
    }

    #[test]
    fn the_fit_finds_what_made_the_points() {
        let model = Model {
            round_trip_us: 30_000.0,
            query_us: 60.0,
            row_us: 50.0,
            workers: 1.0,
        };
        let capacity = |how| model.predict(&setting(how), 1.0).capacity_per_s;
        let made: Vec<Summary> = fitted()
            .map(|how| Summary::of(vec![capacity(how)]).unwrap())
            .collect();
        let (idle, busy) = made.split_at(IDLE.len());
        let found = fit(idle, busy).unwrap();
        assert!((found.row_us - 50.0).abs() < 5.0, "{found:?}");
        let again = found.predict(&setting(fixed(2, 32)), 1.0).capacity_per_s;
        assert!(
            (again / capacity(fixed(2, 32)) - 1.0).abs() < 0.02,
            "{found:?}"
        );
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
