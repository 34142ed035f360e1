//! Changes of the round trip and of the load, and how long the tuner takes to be near its
//! best again.

use measure::Second;

use super::database::Kind;
use super::load::Callers;
use super::record::{How, StepRow};
use super::tuner::measure_peak;
use super::{Bench, RTT_MS, USERS};
use crate::aims::Relation;

/// Round trips, one after the other; the first and the last are the usual one.
const RTTS_MS: [u64; 4] = [5, 30, 100, 30];
/// The share of its peak at which the round trip changes.
const SHARE: f64 = 0.8;
/// Loads between which it jumps.
const QUIET_PER_S: f64 = 100.0;
/// How near its best it has to be.
const NEAR: f64 = 0.10;
/// And how soon.
const SETTLED_S: f64 = 10.0;

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), String> {
    let database = bench.database(Kind::MariaDb, USERS)?;
    let of_tuner = ("tuner", Kind::MariaDb.name(), USERS);
    let rate = |bench: &Bench<'_>, case| bench.record.median(case, How::Tuned, |p| p.rate_per_s);
    let peak = match rate(bench, of_tuner) {
        Some(peak) => peak,
        None => {
            measure_peak(bench, &database, ("steps", How::Tuned), 0)?;
            rate(bench, ("steps", Kind::MariaDb.name(), USERS)).ok_or("the tuner has no peak")?
        }
    };
    let rate = peak * SHARE;
    let phase_s: u64 = bench.sized(18, 5);
    let warm_s = bench.sized(8, 2);

    let seconds = warm_s + phase_s * RTTS_MS.len() as u64;
    let mut scene = bench.scene(&database, How::Tuned.lookups())?;
    let schedule = format!("{rate:.0}/s for {seconds}s");
    let mut load = bench.call_by_known(&schedule, seconds, Callers::First(USERS), rate)?;
    let mut changes = Vec::new();
    for (at, rtt_ms) in RTTS_MS.iter().enumerate() {
        let at_s = warm_s + at as u64 * phase_s;
        load.wait_until(at_s)?;
        scene.relay.set_rtt(*rtt_ms)?;
        changes.push((format!("round trip {rtt_ms} ms at {rate:.0}/s"), at_s));
    }
    let told = load.end()?;
    drop(scene);
    let mut rows = rows(&told.result.series, &changes, phase_s);

    // The load: little, full, little, full.
    let scene = bench.scene(&database, How::Tuned.lookups())?;
    let loads = [QUIET_PER_S, rate, QUIET_PER_S, rate];
    let phases: Vec<String> = loads
        .iter()
        .map(|load| format!("{load:.0}/s for {phase_s}s"))
        .collect();
    let load = bench.call_by_known(
        &phases.join("; "),
        phase_s * loads.len() as u64,
        Callers::First(USERS),
        rate,
    )?;
    let told = load.end()?;
    drop(scene);
    let changes: Vec<(String, u64)> = loads
        .iter()
        .enumerate()
        .skip(1)
        .map(|(at, load)| {
            (
                format!("load {load:.0}/s at {RTT_MS} ms"),
                at as u64 * phase_s,
            )
        })
        .collect();
    rows.extend(self::rows(&told.result.series, &changes, phase_s));

    // What has not settled is slower than all.
    let settled = rows
        .iter()
        .map(|row| row.settled_s.map_or(f64::INFINITY, |s| s as f64));
    let slowest = settled.max_by(f64::total_cmp);
    for row in &rows {
        let settled = row
            .settled_s
            .map_or("never".to_owned(), |s| format!("after {s} s"));
        eprintln!(
            "{}: near its best {settled}, {} failed",
            row.what, row.failed
        );
    }
    bench.record.bar(
        "steps",
        "seconds from a change to within 10% of the best",
        slowest,
        (Relation::AtMost, SETTLED_S),
    );
    bench.record.steps = rows;
    Ok(())
}

fn rows(seconds: &[Second], changes: &[(String, u64)], phase_s: u64) -> Vec<StepRow> {
    changes
        .iter()
        .map(|(what, at_s)| {
            // The load's seconds do not begin with the change to the millisecond: the last one
            // has a part of the next phase in it.
            let is_of_phase =
                |second: &&Second| second.at_s >= *at_s && second.at_s + 1 < at_s + phase_s;
            let phase: Vec<&Second> = seconds.iter().filter(is_of_phase).collect();
            StepRow {
                what: what.clone(),
                at_s: *at_s,
                settled_s: settled_s(&phase),
                p50_ms: phase.iter().map(|s| s.p50_us as f64 / 1_000.0).collect(),
                succeeded: phase.iter().map(|s| s.succeeded).collect(),
                failed: phase.iter().map(|s| s.failed).sum(),
            }
        })
        .collect()
}

/// After how many seconds of a phase it is near its best: the median delay within a tenth of
/// the least (or a millisecond, which is nothing to a caller), and as many calls served as
/// were due. A second off by itself later on is the machine's, two in a row are not. `None`
/// where the last two are.
fn settled_s(phase: &[&Second]) -> Option<u64> {
    let served = phase.iter().filter(|second| second.has_delays());
    let best_us = served.map(|second| second.p50_us).min()? as f64;
    let near_us = (best_us * (1.0 + NEAR)).max(best_us + 1_000.0);
    let is_near = |second: &&&Second| {
        second.p50_us as f64 <= near_us
            && second.succeeded as f64 >= second.due as f64 * (1.0 - NEAR)
    };
    let is_off: Vec<bool> = phase.iter().map(|second| !is_near(&second)).collect();
    let off = is_off.windows(2).rposition(|pair| pair == [true, true]);
    let begins_off = is_off.first().copied().unwrap_or(true);
    let settled = match off {
        Some(at) => at + 2,
        None => usize::from(begins_off),
    };
    (settled < phase.len()).then_some(settled as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(at_s: u64, p50_us: u64, succeeded: u64) -> Second {
        Second {
            at_s,
            due: 100,
            succeeded,
            p50_us,
            ..Second::default()
        }
    }

    #[test]
    fn it_has_settled_when_all_that_follow_are_near_the_best() {
        let phase = [
            second(10, 90_000, 60),
            second(11, 33_500, 100),
            second(12, 60_000, 100),
            second(13, 60_000, 99),
            second(14, 31_000, 100),
            second(15, 31_500, 100),
            second(16, 60_000, 100),
            second(17, 31_500, 100),
        ];
        let phase: Vec<&Second> = phase.iter().collect();
        assert_eq!(settled_s(&phase), Some(4), "one by itself is passed over");
        assert_eq!(settled_s(&phase[..4]), None, "the last two are not near");
        assert_eq!(settled_s(&phase[..2]), Some(1));
        assert_eq!(settled_s(&phase[4..6]), Some(0));
        assert_eq!(settled_s(&[]), None);
    }

    #[test]
    fn calls_that_are_not_served_are_not_near() {
        let phase = [
            second(0, 30_000, 100),
            second(1, 30_000, 50),
            second(2, 30_000, 60),
        ];
        let phase: Vec<&Second> = phase.iter().collect();
        assert_eq!(settled_s(&phase), None);
    }

    #[test]
    fn each_change_has_its_seconds() {
        let seconds: Vec<Second> = (0..12).map(|at_s| second(at_s, 5_000, 100)).collect();
        let changes = [("a".to_owned(), 2), ("b".to_owned(), 7)];
        let rows = rows(&seconds, &changes, 5);
        assert_eq!(rows.len(), 2);
        assert!(rows.iter().all(|row| row.p50_ms.len() == 4));
        assert!(rows.iter().all(|row| row.settled_s == Some(0)));
    }
}
