//! Other databases, and a million users.

use std::fmt::Write as _;

use super::database::{Database, Kind};
use super::load::Callers;
use super::record::{CostRow, How};
use super::scene::taken;
use super::tuner::measure_peak;
use super::{Bench, USERS, USERS_MANY};
use crate::aims::Relation;
use crate::rule::Summary;

/// The rate at which a look-up's cost is taken.
const RATE_PER_S: u64 = 2_000;
/// Who calls there: as many of few users as of many.
const CALLERS: usize = 5_000;
/// What a million may cost of what ten thousand do.
const MANY_MAX: f64 = 1.2;

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), String> {
    for kind in [Kind::Postgres, Kind::Redis] {
        let database = bench.database(kind, USERS)?;
        for repeat in 0..bench.sized(3, 1) {
            measure_peak(bench, &database, ("stores", How::Tuned), repeat)?;
        }
    }
    let few = {
        let database = bench.database(Kind::MariaDb, USERS)?;
        look_ups(bench, &database, USERS)?
    };
    let users = bench.sized(USERS_MANY, 50_000);
    let many = {
        let database = bench.database(Kind::MariaDb, users)?;
        look_ups(bench, &database, users)?
    };
    bench.record.bar(
        "stores",
        &format!("CPU of server and database for a call, {users} users over {USERS}"),
        Some(many / few),
        (Relation::AtMost, MANY_MAX),
    );
    Ok(())
}

/// CPU of server and database for each call, with callers from all over the table.
fn look_ups(bench: &mut Bench<'_>, database: &Database, users: usize) -> Result<f64, String> {
    let list = bench.folder.join("callers.csv");
    let mut text = "user,password\n".to_owned();
    for number in spread(users, CALLERS) {
        let _ = writeln!(text, "user{number:07},pw{number:07}");
    }
    std::fs::write(&list, text).map_err(|e| format!("{}: {e}", list.display()))?;
    let mut values = Vec::new();
    let (warm_s, measured_s) = (CALLERS as u64 / RATE_PER_S + 3, bench.sized(8, 2));
    for _ in 0..bench.repeats() {
        let scene = bench.scene(database, How::Tuned.lookups())?;
        let seconds = warm_s + measured_s;
        let schedule = format!("{RATE_PER_S}/s for {seconds}s");
        let load = bench.call(&schedule, seconds, Callers::Listed(&list))?;
        let watch = scene.watch(&load);
        let told = load.end();
        let looks = watch.end();
        let told = told?;
        let served: u64 = told.between(warm_s, seconds).map(|s| s.succeeded).sum();
        let rate = served as f64 / measured_s as f64;
        let taken = taken(&looks, warm_s as f64, seconds as f64).ok_or("nothing was seen")?;
        let [server, _, database, _] = taken.cores;
        values.push((server + database) * 1e6 / rate.max(1.0));
    }
    let summary = Summary::of(values).ok_or("nothing was measured")?;
    let server = format!("server and MariaDB, {users} users");
    eprintln!("{server}: {:.1} us of CPU a call", summary.median);
    bench.record.costs.push(CostRow {
        server,
        cpu_us_per_call: summary.median,
        low: summary.low,
        high: summary.high,
        repeats: summary.count,
        objections: Vec::new(),
    });
    Ok(summary.median)
}

/// So many numbers from 1 to `users`, none twice, in an order that is none: each is the one
/// before it and a step that shares no factor with `users`.
fn spread(users: usize, count: usize) -> impl Iterator<Item = usize> {
    const STEP: usize = 618_033;
    let step = (STEP..)
        .find(|step| divisor(*step, users) == 1)
        .unwrap_or(1);
    (0..count.min(users)).map(move |at| (at * step) % users + 1)
}

/// The largest number that divides both.
fn divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_from_all_over_and_none_is_twice() {
        for (users, count) in [(10_000, 5_000), (1_000_000, 5_000), (10, 20)] {
            let numbers: Vec<usize> = spread(users, count).collect();
            assert!(numbers.iter().all(|number| (1..=users).contains(number)));
            let different: std::collections::BTreeSet<&usize> = numbers.iter().collect();
            assert_eq!(different.len(), count.min(users));
            let upper = numbers.iter().filter(|number| **number > users / 2).count();
            let share = upper as f64 / numbers.len() as f64;
            assert!((0.4..0.6).contains(&share), "{share}");
        }
    }
}
