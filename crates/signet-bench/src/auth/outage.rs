//! A database that is killed and started again, over and over, beside callers who go on: who
//! is remembered is served all the time, the others are told when to try again, and nobody
//! is let in, or kept out, by mistake.
//!
//! Guesses are not bounded here, as they are in service: each is looked up, so that each
//! could be let in. Users are remembered for ten seconds, and longer while the database is away.

mod probe;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::database::{Database, Kind};
use super::load::{Callers, Load};
use super::record::{CallersRow, How, Outage, OutageRow};
use super::relay::RelayProcess;
use super::server::{Users, figures};
use super::{Bench, RTT_MS, USERS, ports};
use crate::aims::Relation;
use crate::process::Process;
use crate::told::Told;
use probe::{Call, Ended, Probe};

/// Users that the cache has room for. A quarter of them is for those who have not shown a
/// password. The rest is more than those who are to be remembered and all others who call
/// between two calls of one of them; and less than all.
const ROOM: usize = 3_200;
/// Each of those who are to be remembered calls so often.
const EVERY_S: usize = 2;
/// Users beyond the 10,000 for the probe, who are not remembered when their turn comes again.
const PROBED: usize = 500;
/// Names that are guessed at.
const GUESSED: usize = 2_000;
/// What of the calls of those who are remembered may fail, in percent.
const FAILED_MAX_PERCENT: f64 = 0.1;
/// How soon after the database's return the others are served again.
const RECOVERED_MAX_S: f64 = 1.0;
/// How often it is looked whether the database is back.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long it has to be back before it is killed again.
const STAY_S: f64 = 2.0;
/// Of the server's figures, those that are kept.
const FIGURES: [&str; 6] = [
    "signet_lookups_breaks_total",
    "signet_lookups_probes_total",
    "signet_lookups_retried_total",
    "signet_lookups_refused_total",
    "signet_lookups_cache_hits_total",
    "signet_lookups_cache_stale_total",
];

/// When what happens, and how much of it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Plan {
    /// Until the first kill.
    warm_s: u64,
    /// From one kill to the next.
    period_s: u64,
    /// From a kill to the start of the next process.
    away_s: u64,
    kills: u64,
    /// Calls a second: of those who are remembered, of others, and with wrong passwords.
    remembered_per_s: usize,
    others_per_s: usize,
    guesses_per_s: usize,
}

impl Plan {
    const WHOLE: Self = Self {
        warm_s: 8,
        period_s: 10,
        away_s: 3,
        kills: 12,
        remembered_per_s: 500,
        others_per_s: 300,
        guesses_per_s: 100,
    };
    const QUICK: Self = Self {
        warm_s: 5,
        period_s: 8,
        away_s: 1,
        kills: 2,
        remembered_per_s: 100,
        others_per_s: 60,
        guesses_per_s: 20,
    };

    const fn seconds(&self) -> u64 {
        self.warm_s + self.period_s * self.kills
    }

    /// Those who are to be remembered: the first so many.
    const fn remembered(&self) -> usize {
        self.remembered_per_s * EVERY_S
    }
}

/// A time without a database, in seconds since the beginning.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Gap {
    killed_s: f64,
    /// When it greeted again.
    back_s: f64,
}

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), String> {
    let plan = bench.sized(Plan::WHOLE, Plan::QUICK);
    let mut database = bench.database(Kind::MariaDb, USERS + PROBED)?;
    let relay = RelayProcess::start(
        &bench.arguments.signet,
        (
            SocketAddr::from(([127, 0, 0, 1], bench.port(ports::RELAY))),
            database.port,
        ),
        RTT_MS,
        &bench.arguments.cores.relay,
        &bench.folder,
    )?;
    let mut server = bench.start_signet(&Users::Database {
        kind: database.kind,
        port: bench.port(ports::RELAY),
        lookups: How::Tuned.lookups(),
        cached: ROOM,
        is_killed: true,
        is_guessed_at: false,
    })?;
    let called = bench.answer()?;
    let begun = Instant::now();
    let loads = begin_loads(bench, &plan)?;
    let users = USERS + 1..USERS + PROBED + 1;
    let probe = Probe::begin(bench.port(ports::SERVER), users, begun)?;
    let gaps = kill_and_restart(&mut database, &mut server, &plan, begun)?;
    sleep_until(begun, plan.seconds() as f64);
    let calls = probe.end()?;
    let mut told = Vec::new();
    for (who, per_s, load) in loads {
        told.push((who, per_s, load.end()?));
    }
    let figures = figures(bench.port(ports::METRICS))?;
    drop((server, called, relay, database));
    let outage = Outage {
        callers: callers(&told, &calls),
        times: times(&gaps, &calls, plan.seconds() as f64),
        figures: kept(figures),
    };
    for row in &outage.callers {
        eprintln!("{}", shown(row));
    }
    for row in &outage.times {
        let recovered = row
            .recovered_s
            .map_or("not".to_owned(), |s| format!("after {:.0} ms", s * 1e3));
        eprintln!(
            "killed at {:.1} s, away for {:.1} s: served again {recovered}",
            row.killed_s, row.away_s
        );
    }
    // Nobody is let in, or kept out, who does not call.
    if let Some(row) = outage.callers.iter().find(|row| row.is_empty()) {
        return Err(format!("{}: none of their calls ended", row.who));
    }
    // A database that nobody misses shows nothing.
    if let Some(row) = outage.times.iter().find(|row| row.told_later == 0) {
        return Err(format!(
            "nobody was told to call later while MariaDB was away from {:.1} s on",
            row.killed_s
        ));
    }
    bars(bench, &outage, &calls);
    bench.record.outage = Some(outage);
    Ok(())
}

/// Three loads side by side: those who are remembered, the others, and guesses.
fn begin_loads(bench: &Bench<'_>, plan: &Plan) -> Result<[(&'static str, usize, Load); 3], String> {
    let others = list(
        bench,
        "others.csv",
        (plan.remembered() + 1..=USERS)
            .map(|number| (format!("user{number:07}"), format!("pw{number:07}"))),
    )?;
    let guesses = list(bench, "guesses.csv", guesses())?;
    let seconds = plan.seconds();
    let begin = |who: &'static str, name: &str, per_s: usize, callers| {
        let schedule = format!("{per_s}/s for {seconds}s");
        let load = bench.call_beside(name, &schedule, seconds, callers)?;
        Ok::<_, String>((who, per_s, load))
    };
    Ok([
        begin(
            REMEMBERED,
            "remembered",
            plan.remembered_per_s,
            Callers::First(plan.remembered()),
        )?,
        begin(
            OTHERS,
            "others",
            plan.others_per_s,
            Callers::Listed(&others),
        )?,
        begin(
            GUESSES,
            "guesses",
            plan.guesses_per_s,
            Callers::Listed(&guesses),
        )?,
    ])
}

/// The groups of callers.
const REMEMBERED: &str = "users who are remembered";
const OTHERS: &str = "other users";
const GUESSES: &str = "wrong passwords, of users and of nobody";
const PROBE: &str = "other users, one call after the other";

/// Users from all over the table with another password, and between them names of nobody.
fn guesses() -> impl Iterator<Item = (String, String)> {
    (0..GUESSED).map(|nth| {
        let number = nth * (USERS / GUESSED) + 1;
        let user = match nth % 2 {
            0 => format!("user{number:07}"),
            _ => format!("ghost{number:07}"),
        };
        (user, format!("guess{number:07}"))
    })
}

/// Writes users and passwords for a load.
fn list(
    bench: &Bench<'_>,
    name: &str,
    users: impl Iterator<Item = (String, String)>,
) -> Result<PathBuf, String> {
    let path = bench.folder.join(name);
    let mut text = "user,password\n".to_owned();
    for (user, password) in users {
        let _ = writeln!(text, "{user},{password}");
    }
    std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(path)
}

fn kill_and_restart(
    database: &mut Database,
    server: &mut Process,
    plan: &Plan,
    begun: Instant,
) -> Result<Vec<Gap>, String> {
    let address = SocketAddr::from(([127, 0, 0, 1], database.port));
    let mut gaps: Vec<Gap> = Vec::new();
    let until_s = plan.seconds() as f64 - STAY_S;
    for nth in 0..plan.kills {
        let due_s = (plan.warm_s + nth * plan.period_s) as f64;
        // Where the machine is slow to start it, a turn is passed over.
        if gaps.last().is_some_and(|gap| gap.back_s + STAY_S > due_s) {
            eprintln!("MariaDB was back too late to be killed at {due_s:.0} s");
            continue;
        }
        sleep_until(begun, due_s);
        let killed_s = begun.elapsed().as_secs_f64();
        database.kill()?;
        sleep_until(begun, due_s + plan.away_s as f64);
        database.start_again()?;
        while !greets(address) {
            if !database.process.is_running() {
                return Err("MariaDB did not start again".to_owned());
            }
            if begun.elapsed().as_secs_f64() > until_s {
                return Err(format!(
                    "MariaDB was killed at {killed_s:.0} s and is not back before the end"
                ));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let back_s = begun.elapsed().as_secs_f64();
        gaps.push(Gap { killed_s, back_s });
        server.must_run("Signet")?;
    }
    Ok(gaps)
}

/// Whether it takes a connection and says something.
fn greets(address: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else {
        return false;
    };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
    matches!(stream.read(&mut [0; 1]), Ok(1))
}

fn sleep_until(begun: Instant, seconds: f64) {
    let until = begun + Duration::from_secs_f64(seconds);
    std::thread::sleep(until.saturating_duration_since(Instant::now()));
}

fn callers(told: &[(&str, usize, Told)], calls: &[Call]) -> Vec<CallersRow> {
    let loads = told.iter().map(|(who, per_s, told)| CallersRow {
        who: (*who).to_owned(),
        rate_per_s: *per_s as f64,
        served: told.result.figures.invites_ok,
        causes: told.causes.clone(),
        remarks: told.doubts.clone(),
    });
    loads.chain([of_probe(calls)]).collect()
}

fn of_probe(calls: &[Call]) -> CallersRow {
    let mut causes = BTreeMap::new();
    for call in calls {
        let cause = match call.ended {
            Ended::Served => continue,
            Ended::Later => "status 503, Retry-After",
            Ended::Bare => "status 503",
            Ended::Refused => "status 401, 403 or 407",
            Ended::Other => "another status",
            Ended::Silent => "timeout",
            Ended::Unproved => "let in without a password",
        };
        *causes.entry(cause.to_owned()).or_insert(0) += 1;
    }
    let seconds = calls.last().map_or(1.0, |call| call.ended_s.max(1.0));
    CallersRow {
        who: PROBE.to_owned(),
        rate_per_s: calls.len() as f64 / seconds,
        served: count(calls, Ended::Served),
        causes,
        remarks: Vec::new(),
    }
}

fn count(calls: &[Call], ended: Ended) -> u64 {
    calls.iter().filter(|call| call.ended == ended).count() as u64
}

/// What the probe saw of each time without a database. A call belongs to the time after the
/// last kill before it ended.
fn times(gaps: &[Gap], calls: &[Call], end_s: f64) -> Vec<OutageRow> {
    let next_s = gaps.iter().skip(1).map(|gap| gap.killed_s).chain([end_s]);
    gaps.iter()
        .zip(next_s)
        .map(|(gap, next_s)| {
            let of_gap = |call: &&Call| call.ended_s >= gap.killed_s && call.ended_s < next_s;
            let later = calls.iter().filter(of_gap);
            let told_later = later.filter(|call| call.ended == Ended::Later).count() as u64;
            OutageRow {
                killed_s: gap.killed_s,
                away_s: gap.back_s - gap.killed_s,
                told_later,
                recovered_s: recovered_s(gap, next_s, calls),
            }
        })
        .collect()
}

/// How long after the database's return the first call ended that was served, as were all
/// that were sent after it, up to the next kill. `None` where the last one was not.
fn recovered_s(gap: &Gap, next_s: f64, calls: &[Call]) -> Option<f64> {
    let since = calls
        .iter()
        .filter(|call| call.ended_s >= gap.back_s && call.ended_s < next_s);
    let mut served: Option<&Call> = None;
    for call in since {
        served = match call.ended {
            Ended::Served => served.or(Some(call)),
            _ => None,
        };
    }
    served.map(|call| call.ended_s - gap.back_s)
}

/// Of all figures those that tell of an outage.
fn kept(figures: BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let is_kept = |name: &String| FIGURES.iter().any(|kept| name.starts_with(kept));
    figures
        .into_iter()
        .filter(|(name, _)| is_kept(name))
        .collect()
}

fn shown(row: &CallersRow) -> String {
    format!(
        "{}, {:.0}/s: {} served, {:?}",
        row.who, row.rate_per_s, row.served, row.causes
    )
}

/// What the aims are held against.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Verdict {
    let_in: u64,
    kept_out: u64,
    remembered_failed_percent: f64,
    others_otherwise: u64,
    slowest_s: f64,
}

impl Verdict {
    fn of(outage: &Outage, calls: &[Call]) -> Self {
        let of = |who: &'static str| outage.callers.iter().filter(move |row| row.who == who);
        let causes = |who: &'static str, is_it: fn(&str) -> bool| -> u64 {
            let all = of(who).flat_map(|row| &row.causes);
            all.filter(|(cause, _)| is_it(cause)).map(|(_, n)| n).sum()
        };
        let is_refusal = |cause: &str| ["status 401", "status 403", "status 407"].contains(&cause);
        let failed = causes(REMEMBERED, |_| true);
        let ended = failed + of(REMEMBERED).map(|row| row.served).sum::<u64>();
        let of_probe = [Ended::Bare, Ended::Other, Ended::Silent];
        // What has not recovered is slower than all.
        let times = outage.times.iter();
        let slowest = times.map(|row| row.recovered_s.unwrap_or(f64::INFINITY));
        Self {
            let_in: of(GUESSES).map(|row| row.served).sum::<u64>() + count(calls, Ended::Unproved),
            kept_out: causes(REMEMBERED, is_refusal)
                + causes(OTHERS, is_refusal)
                + count(calls, Ended::Refused),
            remembered_failed_percent: failed as f64 * 100.0 / ended.max(1) as f64,
            // A refusal is counted above.
            others_otherwise: causes(OTHERS, |cause| cause != "status 503")
                - causes(OTHERS, is_refusal)
                + of_probe
                    .map(|ended| count(calls, ended))
                    .iter()
                    .sum::<u64>(),
            slowest_s: slowest.fold(0.0, f64::max),
        }
    }
}

fn bars(bench: &mut Bench<'_>, outage: &Outage, calls: &[Call]) {
    let verdict = Verdict::of(outage, calls);
    let mut bar = |what: &str, value: f64, relation, limit| {
        let what = format!("database killed: {what}");
        bench
            .record
            .bar("outage", &what, Some(value), (relation, limit));
    };
    let none = Relation::AtMost;
    bar(
        "calls let in with a wrong password, or with none",
        verdict.let_in as f64,
        none,
        0.0,
    );
    bar(
        "users with the right password told 401, 403 or 407",
        verdict.kept_out as f64,
        none,
        0.0,
    );
    bar(
        "calls of users who are remembered that failed, %",
        verdict.remembered_failed_percent,
        Relation::LessThan,
        FAILED_MAX_PERCENT,
    );
    bar(
        "calls of others that failed without 503 and Retry-After",
        verdict.others_otherwise as f64,
        none,
        0.0,
    );
    bar(
        "seconds from the database's return until all are served, slowest",
        verdict.slowest_s,
        Relation::LessThan,
        RECOVERED_MAX_S,
    );
}

#[cfg(test)]
mod tests;
