//! A model of capacity and delay beside what is measured, in settings that it was not
//! fitted to.
//!
//! A batch of b users takes the round trip R and s(b) = c0 + c1*b. With P in flight
//! capacity is P*b / (R + s(b)), as long as no core is full; a full core gives 1 / (what a call
//! takes of it). A batch that leaves every I finds its users waiting I/2 in the middle, so
//! that a look-up adds R + I/2 + s(b).

use super::database::{Database, Kind};
use super::load::Callers;
use super::record::{How, ModelRow, Relation};
use super::server::Users;
use super::tuner::steady;
use super::{Bench, RTT_MS, USERS};

/// Batches with one in flight: what the model is fitted to.
const FITTED: [u32; 4] = [1, 8, 64, 256];
/// In flight and batches: what it has to predict.
const CAPACITIES: [(u32, u32); 8] = [
    (2, 4),
    (2, 32),
    (4, 16),
    (8, 8),
    (8, 2),
    (16, 4),
    (3, 24),
    (6, 12),
];
/// Intervals in microseconds and calls a second.
const DELAYS: [(u64, u64); 6] = [
    (2_000, 400),
    (5_000, 400),
    (10_000, 400),
    (20_000, 400),
    (5_000, 1_500),
    (15_000, 1_500),
];
/// A batch and a number in flight that bound nothing.
const MANY: u32 = 512;
/// The largest error.
const ERROR_MAX: f64 = 0.15;

/// The model.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Model {
    rtt_ms: f64,
    /// A query's time, and a row's.
    query_ms: f64,
    row_ms: f64,
}

impl Model {
    /// Fits it to capacities with one batch in flight: R + s(b) = b / rate, a line in b
    /// whose sum of squares of relative errors is least.
    fn fit(points: &[(u32, f64)], rtt_ms: f64) -> Option<Self> {
        let (mut n, mut x, mut y, mut xx, mut xy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for &(batch, rate_per_s) in points {
            let (b, took_ms) = (f64::from(batch), f64::from(batch) * 1_000.0 / rate_per_s);
            let weight = 1.0 / (took_ms * took_ms);
            n += weight;
            x += weight * b;
            y += weight * took_ms;
            xx += weight * b * b;
            xy += weight * b * took_ms;
        }
        let spread = n * xx - x * x;
        let row_ms = (n * xy - x * y) / spread;
        let query_ms = (y - row_ms * x) / n - rtt_ms;
        (spread > 0.0 && row_ms.is_finite() && query_ms.is_finite()).then_some(Self {
            rtt_ms,
            query_ms,
            row_ms,
        })
    }

    /// The database's time and all else that is not the distance, for a batch.
    fn batch_ms(&self, users: f64) -> f64 {
        self.query_ms + self.row_ms * users
    }

    /// Authentications a second with so many batches in flight, waiting alone bounding.
    fn capacity_per_s(&self, in_flight: u32, batch: u32) -> f64 {
        let users = f64::from(batch);
        f64::from(in_flight) * users * 1_000.0 / (self.rtt_ms + self.batch_ms(users))
    }

    /// What a look-up adds in the middle, a batch leaving at each interval.
    fn delay_ms(&self, interval_us: u64, rate_per_s: u64) -> f64 {
        let interval_ms = interval_us as f64 / 1_000.0;
        let users = (rate_per_s as f64 * interval_ms / 1_000.0).max(1.0);
        self.rtt_ms + interval_ms / 2.0 + self.batch_ms(users)
    }
}

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), String> {
    let database = bench.database(Kind::MariaDb, USERS)?;
    let mut points = Vec::new();
    for batch in FITTED {
        let rate = capacity(bench, &database, (1, batch))?;
        eprintln!("model: fitted to 1 in flight, batches of {batch}: {rate:.0}/s");
        points.push((batch, rate));
    }
    let model = Model::fit(&points, RTT_MS as f64).ok_or("the model cannot be fitted")?;
    bench.record.fit = [
        ("rtt_ms", model.rtt_ms),
        ("query_ms", model.query_ms),
        ("row_ms", model.row_ms),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let base = {
        let server = bench.start_signet(&Users::Embedded)?;
        let found = steady(bench, 400.0, 200);
        drop(server);
        found?.0.p50_ms
    };
    let (capacities, delays) = if bench.is_quick() {
        (CAPACITIES.get(..1), DELAYS.get(..1))
    } else {
        (Some(&CAPACITIES[..]), Some(&DELAYS[..]))
    };
    for &(in_flight, batch) in capacities.unwrap_or_default() {
        let measured = capacity(bench, &database, (in_flight, batch))?;
        let what = format!("{in_flight} in flight, batches of {batch}");
        let predicted = model.capacity_per_s(in_flight, batch);
        bench.compare(what, "authentications/s", predicted, measured);
    }
    for &(interval_us, rate) in delays.unwrap_or_default() {
        let how = How::Fixed {
            interval_us,
            batch: MANY,
            in_flight: MANY,
        };
        let scene = bench.scene(&database, how.lookups())?;
        let (found, _) = steady(bench, rate as f64, 500)?;
        drop(scene);
        let what = format!("a batch every {interval_us} us at {rate}/s");
        let predicted = model.delay_ms(interval_us, rate);
        bench.compare(what, "ms added, median", predicted, found.p50_ms - base);
    }
    let errors = bench.record.model.iter().map(|row| row.error.abs());
    let largest = errors.fold(None, |most: Option<f64>, error| {
        Some(most.map_or(error, |most| most.max(error)))
    });
    bench.record.bar(
        "model",
        "largest error of a prediction, as a share",
        largest,
        (Relation::LessThan, ERROR_MAX),
    );
    Ok(())
}

/// The peak with fixed values, of which the interval bounds nothing.
fn capacity(
    bench: &Bench<'_>,
    database: &Database,
    (in_flight, batch): (u32, u32),
) -> Result<f64, String> {
    let how = How::Fixed {
        interval_us: 200,
        batch,
        in_flight,
    };
    let guess = f64::from(in_flight) * f64::from(batch) * 1_000.0 / (RTT_MS as f64 + 1.0);
    let scene = bench.scene(database, how.lookups())?;
    let peak = bench.peak(&scene, guess.min(6_000.0), Callers::First(USERS))?;
    Ok(peak.rate_per_s)
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

    const MODEL: Model = Model {
        rtt_ms: 30.0,
        query_ms: 0.5,
        row_ms: 0.02,
    };

    #[test]
    fn the_fit_finds_what_made_the_points() {
        let points = FITTED.map(|batch| (batch, MODEL.capacity_per_s(1, batch)));
        let found = Model::fit(&points, 30.0).unwrap();
        assert!((found.query_ms - 0.5).abs() < 1e-6, "{found:?}");
        assert!((found.row_ms - 0.02).abs() < 1e-6, "{found:?}");
        assert_eq!(Model::fit(&points[..1], 30.0), None);
    }

    #[test]
    fn no_setting_that_is_predicted_was_fitted() {
        assert!(CAPACITIES.iter().all(|(in_flight, _)| *in_flight != 1));
        assert!(CAPACITIES.len() + DELAYS.len() >= 12);
    }

    #[test]
    fn capacity_and_delay() {
        assert!((MODEL.capacity_per_s(4, 1) - 4_000.0 / 30.52).abs() < 1e-9);
        let delay_ms = MODEL.delay_ms(10_000, 400);
        assert!(
            (delay_ms - (30.0 + 5.0 + 0.5 + 0.08)).abs() < 1e-9,
            "{delay_ms}"
        );
    }
}
