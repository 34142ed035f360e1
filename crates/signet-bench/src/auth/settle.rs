//! Changes of the round trip and of the load, and how long the tuner takes to be again as it
//! is where neither changes.

use measure::Second;

use super::database::{Database, Kind};
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
/// How near it has to be to how it is there without a change.
const NEAR: f64 = 0.10;
/// And how soon.
const SETTLED_S: f64 = 10.0;
/// How often all changes are made, and the peak is found where it is not known: neighbours slow
/// the machine for seconds, and what they do is not told from what the tuner does in one run.
const RUNS: usize = 3;

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), String> {
    let database = bench.database(Kind::MariaDb, USERS)?;
    let of_tuner = ("tuner", Kind::MariaDb.name(), USERS);
    let runs = bench.sized(RUNS, 1);
    let peak = match bench.record.lowest_per_s(of_tuner, How::Tuned) {
        Some(peak) => peak,
        None => {
            for repeat in 0..runs {
                measure_peak(bench, &database, ("steps", How::Tuned), repeat)?;
            }
            let of_steps = ("steps", Kind::MariaDb.name(), USERS);
            let lowest = bench.record.lowest_per_s(of_steps, How::Tuned);
            lowest.ok_or("the tuner has no peak")?
        }
    };
    let rate = peak * SHARE;
    let times = Times {
        warm_s: bench.sized(8, 2),
        phase_s: bench.sized(18, 5),
    };
    let mut all = Vec::new();
    for _ in 0..runs {
        let mut rows = round_trips(bench, &database, rate, times)?;
        rows.extend(loads(bench, &database, rate, times)?);
        all.push(rows);
    }
    let slowest = middles_s(&all).into_iter().max_by(f64::total_cmp);
    let rows = all.concat();
    for row in &rows {
        let settled = row
            .settled_s
            .map_or("never".to_owned(), |s| format!("after {s} s"));
        eprintln!(
            "{}: as by itself ({:.1} ms) {settled}, {} failed",
            row.what, row.steady_ms, row.failed
        );
    }
    bench.record.bar(
        "steps",
        "seconds from a change to within 10% of the delay without one, the middle of the runs",
        slowest,
        (Relation::AtMost, SETTLED_S),
    );
    bench.record.steps = rows;
    Ok(())
}

/// After how many seconds each change was settled: the middle of the runs. What has not settled
/// is slower than all.
fn middles_s(runs: &[Vec<StepRow>]) -> Vec<f64> {
    let changes = runs.iter().map(Vec::len).min().unwrap_or(0);
    let middle = |nth: usize| {
        let of_runs = runs.iter().filter_map(|rows| rows.get(nth));
        let mut settled: Vec<f64> = of_runs
            .map(|row| row.settled_s.map_or(f64::INFINITY, |s| s as f64))
            .collect();
        settled.sort_by(f64::total_cmp);
        settled.get(settled.len() / 2).copied()
    };
    (0..changes).filter_map(middle).collect()
}

/// How long a server is warmed up, and a phase lasts.
#[derive(Clone, Copy)]
struct Times {
    warm_s: u64,
    phase_s: u64,
}

/// The round trip changes under a load that stays.
fn round_trips(
    bench: &Bench<'_>,
    database: &Database,
    rate: f64,
    times: Times,
) -> Result<Vec<StepRow>, String> {
    let Times { warm_s, phase_s } = times;
    let mut steady: Vec<(u64, u64)> = Vec::new();
    for rtt_ms in RTTS_MS {
        let known = steady.iter().find(|(known_ms, _)| *known_ms == rtt_ms);
        let us = match known {
            Some((_, us)) => *us,
            None => steady_us(bench, database, (rtt_ms, rate), warm_s)?,
        };
        steady.push((rtt_ms, us));
    }
    let seconds = warm_s + phase_s * RTTS_MS.len() as u64;
    let mut scene = bench.scene(database, How::Tuned.lookups())?;
    let schedule = format!("{rate:.0}/s for {seconds}s");
    let mut load = bench.call_by_known(&schedule, seconds, Callers::First(USERS), rate)?;
    let mut changes = Vec::new();
    for (at, (rtt_ms, steady_us)) in steady.into_iter().enumerate() {
        let at_s = warm_s + at as u64 * phase_s;
        load.wait_until(at_s)?;
        scene.relay.set_rtt(rtt_ms)?;
        changes.push(Change {
            what: format!("round trip {rtt_ms} ms at {rate:.0}/s"),
            at_s,
            steady_us,
        });
    }
    let told = load.end()?;
    drop(scene);
    Ok(rows(&told.result.series, &changes, phase_s))
}

/// The load changes: little, full, little, full.
fn loads(
    bench: &Bench<'_>,
    database: &Database,
    rate: f64,
    times: Times,
) -> Result<Vec<StepRow>, String> {
    let Times { warm_s, phase_s } = times;
    let quiet_us = steady_us(bench, database, (RTT_MS, QUIET_PER_S), warm_s)?;
    let full_us = steady_us(bench, database, (RTT_MS, rate), warm_s)?;
    let scene = bench.scene(database, How::Tuned.lookups())?;
    let loads = [
        (QUIET_PER_S, quiet_us),
        (rate, full_us),
        (QUIET_PER_S, quiet_us),
        (rate, full_us),
    ];
    let phases: Vec<String> = loads
        .iter()
        .map(|(load, _)| format!("{load:.0}/s for {phase_s}s"))
        .collect();
    let load = bench.call_by_known(
        &phases.join("; "),
        phase_s * loads.len() as u64,
        Callers::First(USERS),
        rate,
    )?;
    let told = load.end()?;
    drop(scene);
    let changes = loads.into_iter().enumerate().skip(1);
    let changes: Vec<Change> = changes
        .map(|(at, (load, steady_us))| Change {
            what: format!("load {load:.0}/s at {RTT_MS} ms"),
            at_s: at as u64 * phase_s,
            steady_us,
        })
        .collect();
    Ok(rows(&told.result.series, &changes, phase_s))
}

/// A change, when it was, and the median delay that is to be reached again.
struct Change {
    what: String,
    at_s: u64,
    steady_us: u64,
}

/// The median delay of calls at one round trip and load, with a server that knows no other.
fn steady_us(
    bench: &Bench<'_>,
    database: &Database,
    (rtt_ms, rate): (u64, f64),
    warm_s: u64,
) -> Result<u64, String> {
    let seconds = warm_s + bench.sized(8, 3);
    let mut scene = bench.scene(database, How::Tuned.lookups())?;
    scene.relay.set_rtt(rtt_ms)?;
    let schedule = format!("{rate:.0}/s for {seconds}s");
    let load = bench.call_by_known(&schedule, seconds, Callers::First(USERS), rate)?;
    let told = load.end()?;
    drop(scene);
    let warm = told.between(warm_s, seconds);
    let mut p50s: Vec<u64> = warm
        .filter(|of| of.has_delays())
        .map(|of| of.p50_us)
        .collect();
    p50s.sort_unstable();
    let middle = p50s.get(p50s.len() / 2).copied();
    middle.ok_or_else(|| format!("no call ended at {rate:.0}/s and {rtt_ms} ms"))
}

fn rows(seconds: &[Second], changes: &[Change], phase_s: u64) -> Vec<StepRow> {
    changes
        .iter()
        .map(|change| {
            let Change {
                what,
                at_s,
                steady_us,
            } = change;
            // The load's seconds do not begin with the change to the millisecond: the last one
            // has a part of the next phase in it.
            let is_of_phase =
                |second: &&Second| second.at_s >= *at_s && second.at_s + 1 < at_s + phase_s;
            let phase: Vec<&Second> = seconds.iter().filter(is_of_phase).collect();
            StepRow {
                what: what.clone(),
                at_s: *at_s,
                steady_ms: *steady_us as f64 / 1_000.0,
                settled_s: settled_s(&phase, *steady_us),
                p50_ms: phase.iter().map(|s| s.p50_us as f64 / 1_000.0).collect(),
                succeeded: phase.iter().map(|s| s.succeeded).collect(),
                failed: phase.iter().map(|s| s.failed).sum(),
            }
        })
        .collect()
}

/// After how many seconds of a phase it is as without a change: the median delay within a tenth
/// of that (or a millisecond, which is nothing to a caller), and as many calls served as were
/// due. A second off by itself later on is the machine's, two in a row are not. `None` where the
/// last two are.
fn settled_s(phase: &[&Second], steady_us: u64) -> Option<u64> {
    let steady_us = steady_us as f64;
    let near_us = (steady_us * (1.0 + NEAR)).max(steady_us + 1_000.0);
    let is_near = |second: &&&Second| {
        second.has_delays()
            && second.p50_us as f64 <= near_us
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
    fn it_has_settled_when_all_that_follow_are_as_without_a_change() {
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
        let of = |phase: &[&Second]| settled_s(phase, 31_000);
        assert_eq!(of(&phase), Some(4), "one by itself is passed over");
        assert_eq!(of(&phase[..4]), None, "the last two are not near");
        assert_eq!(of(&phase[..2]), Some(1));
        assert_eq!(of(&phase[4..6]), Some(0));
        assert_eq!(of(&[]), None);
        // One that stays as slow as it was is no better than its worst.
        assert_eq!(of(&phase[2..4]), None);
    }

    #[test]
    fn calls_that_are_not_served_are_not_near() {
        let phase = [
            second(0, 30_000, 100),
            second(1, 30_000, 50),
            second(2, 30_000, 60),
        ];
        let phase: Vec<&Second> = phase.iter().collect();
        assert_eq!(settled_s(&phase, 30_000), None);
    }

    #[test]
    fn a_change_has_the_middle_of_its_runs() {
        let row = |settled_s| StepRow {
            what: "a change".to_owned(),
            at_s: 0,
            steady_ms: 30.0,
            settled_s,
            p50_ms: Vec::new(),
            succeeded: Vec::new(),
            failed: 0,
        };
        let runs = [
            vec![row(Some(2)), row(None)],
            vec![row(None), row(Some(1))],
            vec![row(Some(1)), row(None)],
        ];
        assert_eq!(middles_s(&runs), [2.0, f64::INFINITY]);
        assert!(middles_s(&[]).is_empty());
    }

    #[test]
    fn each_change_has_its_seconds() {
        let seconds: Vec<Second> = (0..12).map(|at_s| second(at_s, 5_000, 100)).collect();
        let changes = [("a", 2), ("b", 7)].map(|(what, at_s)| Change {
            what: what.to_owned(),
            at_s,
            steady_us: 5_000,
        });
        let rows = rows(&seconds, &changes, 5);
        assert_eq!(rows.len(), 2);
        assert!(rows.iter().all(|row| row.p50_ms.len() == 4));
        assert!(rows.iter().all(|row| row.settled_s == Some(0)));
    }
}
