//! The tuner, told nothing, beside the best of the grid: peak, bytes and delay.

use measure::Second;

use super::database::{Database, Kind};
use super::load::Callers;
use super::record::{DelayRow, How, PeakRow};
use super::server::Users;
use super::{Bench, RTT_MS, USERS};
use crate::aims::Relation;
use crate::rule::Summary;
use crate::told::Told;

/// What the tuner may add to the round trip at this share of its peak, one call in a hundred.
const SHARE: f64 = 0.8;
const ADDED_P99_MS: f64 = 10.0;
/// What it may add where there is nothing to batch.
const QUIET_PER_S: f64 = 100.0;
const ADDED_P50_MS: f64 = 1.0;
/// What it may take of the bytes of the best case without batches.
const BYTES_MAX: f64 = 0.25;
/// Where no peak is known.
const GUESS_PER_S: f64 = 6_000.0;

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), String> {
    let database = bench.database(Kind::MariaDb, USERS)?;
    let (pair, one) = bench.best_of_grid();
    // Side by side, so that what the machine does meanwhile is the same to all.
    let mut full_p99_ms = Vec::new();
    for repeat in 0..bench.repeats() {
        measure_peak(bench, &database, ("tuner", How::Tuned), repeat)?;
        // Of the peak that was just found: minutes later the machine has another.
        let rate = SHARE * bench.record.last_per_s().unwrap_or(GUESS_PER_S);
        let full = added(bench, &database, ("at 80% of the peak", rate, USERS))?;
        full_p99_ms.push(full.added_p99_ms);
        bench.record.delays.push(full);
        for how in [pair, one] {
            measure_peak(bench, &database, ("tuner", how), repeat)?;
        }
    }
    let case = ("tuner", Kind::MariaDb.name(), USERS);
    let rates = (How::Tuned, pair);
    let rates = bench.record.ratios(case, rates, |peak| peak.rate_per_s);
    bench.record.bar_of_repeats(
        "tuner",
        &format!("authentications/s, of what {} does", pair.name()),
        &rates,
        (Relation::AtLeast, 1.0),
    );
    let bytes = (How::Tuned, one);
    let bytes = bench
        .record
        .ratios(case, bytes, |peak| peak.wire_bytes_each);
    bench.record.bar_of_repeats(
        "tuner",
        &format!("bytes each, of what {} takes", one.name()),
        &bytes,
        (Relation::AtMost, BYTES_MAX),
    );
    bench.record.bar_of_repeats(
        "tuner",
        "added delay of 99% at 80% of the peak, ms",
        &full_p99_ms,
        (Relation::LessThan, RTT_MS as f64 + ADDED_P99_MS),
    );
    let quiet = added(bench, &database, ("at 100/s", QUIET_PER_S, 200))?;
    bench.record.bar(
        "tuner",
        "median added delay at 100/s, ms",
        Some(quiet.added_p50_ms),
        (Relation::LessThan, RTT_MS as f64 + ADDED_P50_MS),
    );
    bench.record.delays.push(quiet);
    Ok(())
}

/// Measures one peak on a stage of its own.
pub(super) fn measure_peak(
    bench: &mut Bench<'_>,
    database: &Database,
    (case, how): (&str, How),
    repeat: usize,
) -> Result<(), String> {
    let known = bench.record.peaks.iter().rev();
    let guess = known
        .filter(|row| row.how == how && row.store == database.kind.name())
        .map(|row| row.peak.rate_per_s)
        .next()
        .unwrap_or(GUESS_PER_S);
    let scene = bench.scene(database, how.lookups())?;
    let peak = bench.peak(&scene, guess, Callers::First(USERS))?;
    drop(scene);
    bench.record.peak(PeakRow {
        case: case.to_owned(),
        store: database.kind.name().to_owned(),
        users: USERS,
        how,
        name: how.name(),
        repeat,
        peak,
    });
    Ok(())
}

/// Delays at a steady rate: the median of the seconds' medians, and of their 99th
/// percentiles. One second in which the machine did something else is not the answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Steady {
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

impl Steady {
    /// `None` where no call was answered in half of the seconds or more. A second without an answer
    /// has no delay, and none is not a short one.
    pub(super) fn of(seconds: &[Second]) -> Option<Self> {
        let answered = || seconds.iter().filter(|second| second.has_delays());
        if answered().count() * 2 <= seconds.len() {
            return None;
        }
        let middle = |pick: fn(&Second) -> u64| {
            let values = answered().map(|second| pick(second) as f64 / 1_000.0);
            Summary::of(values.collect()).map(|summary| summary.median)
        };
        Some(Self {
            p50_ms: middle(|second| second.p50_us)?,
            p99_ms: middle(|second| second.p99_us)?,
        })
    }
}

/// What look-ups at a distance add to the set-up of calls at a rate.
fn added(
    bench: &Bench<'_>,
    database: &Database,
    (what, rate, callers): (&str, f64, usize),
) -> Result<DelayRow, String> {
    let (base, _) = {
        let server = bench.start_signet(&Users::Embedded)?;
        let found = steady(bench, rate, callers);
        drop(server);
        found?
    };
    let scene = bench.scene(database, How::Tuned.lookups())?;
    let (found, told) = steady(bench, rate, callers)?;
    drop(scene);
    let row = DelayRow {
        what: what.to_owned(),
        rate_per_s: rate,
        base_p50_ms: base.p50_ms,
        setup_p50_ms: found.p50_ms,
        setup_p99_ms: found.p99_ms,
        added_p50_ms: found.p50_ms - base.p50_ms,
        added_p99_ms: found.p99_ms - base.p50_ms,
        remarks: told.remarks(),
    };
    eprintln!(
        "{what}: added {:.2} ms in the middle, {:.2} for 99%",
        row.added_p50_ms, row.added_p99_ms
    );
    Ok(row)
}

/// Seconds until each caller has a nonce, and some.
pub(super) fn warm_s(bench: &Bench<'_>, rate: f64, callers: usize) -> u64 {
    (callers as f64 / rate.max(1.0)).ceil() as u64 + bench.sized(4, 1)
}

/// Calls at one rate, until each caller has a nonce and for a while after that.
pub(super) fn steady(
    bench: &Bench<'_>,
    rate: f64,
    callers: usize,
) -> Result<(Steady, Told), String> {
    let warm_s = warm_s(bench, rate, callers);
    let seconds = warm_s + bench.sized(15, 3);
    let schedule = format!("{rate:.0}/s for {seconds}s");
    let load = bench.call_by_known(&schedule, seconds, Callers::First(callers), rate)?;
    let told = load.end()?;
    let measured: Vec<Second> = told.between(warm_s, seconds).copied().collect();
    let steady =
        Steady::of(&measured).ok_or("in half of the seconds or more no call was answered")?;
    Ok((steady, told))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_second_is_not_the_answer() {
        let second = |p50_us, p99_us| Second {
            p50_us,
            p99_us,
            ..Second::default()
        };
        let seconds = [
            second(30_000, 31_000),
            second(30_200, 32_000),
            second(30_100, 900_000),
        ];
        let found = Steady::of(&seconds).unwrap();
        assert_eq!((found.p50_ms, found.p99_ms), (30.1, 32.0));
        assert_eq!(Steady::of(&[]), None);
    }

    #[test]
    fn a_second_without_an_answer_is_not_the_fastest() {
        let second = |p50_us, p99_us| Second {
            p50_us,
            p99_us,
            ..Second::default()
        };
        let answered = second(30_000, 31_000);
        let found = Steady::of(&[answered, second(0, 0), answered]).unwrap();
        assert_eq!((found.p50_ms, found.p99_ms), (30.0, 31.0));
        assert_eq!(Steady::of(&[answered, second(0, 0)]), None);
        assert_eq!(Steady::of(&[second(0, 0); 15]), None);
    }
}
