//! What authentication adds to the CPU that a call costs a server, the database on the same
//! machine and no relay between: Signet beside Kamailio's auth_db.

use std::net::SocketAddr;
use std::path::PathBuf;

use signet_bed::system::{Kamailio, Peer};

use super::database::{Database, Kind};
use super::load::{Callers, Load};
use super::record::CostRow;
use super::server::{Lookups, Users};
use super::{Bench, USERS, ports};
use crate::aims::Relation;
use crate::calibrate;
use crate::cases::visits;
use crate::process::Process;
use crate::report::Measurement;
use crate::rule;

/// Calls a second at which the tuner sends several look-ups together; below some six hundred each
/// leaves by itself. A database that a server waits for costs it the same at each. Much beyond the
/// greater the core that the database shares with the load is full, and what is asked row by row
/// fails calls.
const RATES: [u64; 2] = [1_000, 2_000];
/// What of Kamailio's addition Signet's may be.
const OF_KAMAILIO: f64 = 1.0 / 3.0;
/// What the cache may add beyond the embedded store, microseconds.
const CACHED_US: f64 = 2.0;
/// What the embedded store may cost of what it did in another build.
const EMBEDDED_MAX: f64 = 1.05;

/// Who is measured.
#[derive(Clone, Debug, PartialEq)]
enum Who {
    Kamailio {
        with_auth: bool,
    },
    Signet(Users),
    /// Another build.
    Before(PathBuf, Users),
}

/// A contender's name at a rate.
fn at(name: &str, rate: u64) -> String {
    format!("{name}, {rate}/s")
}

fn contenders(database: u16, before: Option<&PathBuf>) -> Vec<(&'static str, Who)> {
    let users = |cached| Users::Database {
        kind: Kind::MariaDb,
        port: database,
        lookups: Lookups::Tuned,
        cached,
        is_killed: false,
        is_guessed_at: false,
    };
    let store = |cached| Who::Signet(users(cached));
    let mut all = vec![
        ("kamailio", Who::Kamailio { with_auth: false }),
        ("kamailio auth_db", Who::Kamailio { with_auth: true }),
        ("signet", Who::Signet(Users::Nobody)),
        ("signet MariaDB", store(0)),
        ("signet MariaDB cached", store(2 * USERS)),
        ("signet embedded", Who::Signet(Users::Embedded)),
    ];
    if let Some(before) = before {
        let build = |users| Who::Before(before.clone(), users);
        all.push(("before MariaDB", build(users(0))));
        all.push(("before embedded", build(Users::Embedded)));
    }
    all
}

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), String> {
    let database = bench.database(Kind::MariaDb, USERS)?;
    let all = contenders(database.port, bench.arguments.before.as_ref());
    let mut set: Vec<Measurement> = Vec::new();
    for (visit, repeats) in visits(bench.repeats()).into_iter().enumerate() {
        let mut order: Vec<(&str, &Who, u64)> = RATES
            .iter()
            .flat_map(|&rate| all.iter().map(move |(name, who)| (*name, who, rate)))
            .collect();
        if visit % 2 == 1 {
            order.reverse();
        }
        for (name, who, rate) in order {
            let found = stretches(bench, &database, (&at(name, rate), who, rate), repeats)
                .map_err(|error| format!("{name}: {error}"))?;
            for one in &found {
                one.print();
            }
            set.extend(found);
        }
    }
    for rate in RATES {
        for name in all.iter().map(|(name, _)| at(name, rate)) {
            let Some(cost) = rule::cost(&set, &name) else {
                continue;
            };
            bench.record.costs.push(CostRow {
                objections: rule::objections(&set, &[&name]),
                server: name,
                cpu_us_per_call: cost.median,
                low: cost.low,
                high: cost.high,
                repeats: cost.count,
            });
        }
        bars(bench, &set, rate);
    }
    Ok(())
}

/// What one costs beyond another, microseconds a call.
fn beyond(set: &[Measurement], rate: u64, server: &str, other: &str) -> Option<f64> {
    let cost = |name| Some(rule::cost(set, &at(name, rate))?.median);
    Some(cost(server)? - cost(other)?)
}

fn bars(bench: &mut Bench<'_>, set: &[Measurement], rate: u64) {
    let signet = beyond(set, rate, "signet MariaDB", "signet");
    let kamailio = beyond(set, rate, "kamailio auth_db", "kamailio");
    bench.record.bar(
        "cost",
        &format!("CPU that authentication adds to a call at {rate}/s, of what auth_db adds"),
        signet
            .zip(kamailio)
            .map(|(signet, kamailio)| signet / kamailio),
        (Relation::AtMost, OF_KAMAILIO),
    );
    bench.record.bar(
        "cost",
        &format!("CPU of a call served from the cache beyond the embedded store's at {rate}/s, us"),
        beyond(set, rate, "signet MariaDB cached", "signet embedded"),
        (Relation::LessThan, CACHED_US),
    );
    // Neither is a look-up by itself: the embedded store's has one of its own, and whoever is
    // let through unasked is not challenged and shows no digest.
    for (other, what) in [
        ("signet embedded", "one with the embedded store"),
        ("signet", "one without authentication"),
    ] {
        if let Some(us) = beyond(set, rate, "signet MariaDB cached", other) {
            eprintln!("cost: a call served from the cache at {rate}/s: {us:+.1} us beyond {what}");
        }
    }
    if let Some(us) = beyond(set, rate, "signet MariaDB", "before MariaDB") {
        eprintln!("cost: a call with MariaDB at {rate}/s: {us:+.1} us beyond the build before");
    }
    if bench.arguments.before.is_some() {
        let now = rule::cost(set, &at("signet embedded", rate));
        let before = rule::cost(set, &at("before embedded", rate));
        bench.record.bar(
            "cost",
            &format!(
                "CPU of a call with the embedded store at {rate}/s, of that in the build before"
            ),
            now.zip(before)
                .map(|(now, before)| now.median / before.median),
            (Relation::AtMost, EMBEDDED_MAX),
        );
    }
}

/// Starts a server, brings it to its steady state, and measures stretches of it.
fn stretches(
    bench: &Bench<'_>,
    database: &Database,
    (name, who, rate): (&str, &Who, u64),
    repeats: usize,
) -> Result<Vec<Measurement>, String> {
    let (mut process, warm_s) = start(bench, database, who)?;
    let callers = match who {
        Who::Kamailio { with_auth: false } | Who::Signet(Users::Nobody) => Callers::Strangers,
        _ => Callers::First(USERS),
    };
    // Each caller has a nonce first.
    let warm_s = bench.sized(warm_s.max(USERS as u64 / rate + 4), 3);
    let stretch_s = bench.sized(4, 2);
    let seconds = warm_s + repeats as u64 * (stretch_s + 3) + 2;
    let mut load = bench.call(&format!("{rate}/s for {seconds}s"), seconds, callers)?;
    load.wait_until(warm_s)?;
    let mut found = Vec::new();
    let mut before = calibrate::measure()?;
    for _ in 0..repeats {
        let (spent_ns, elapsed_s) = stretch(&process, &mut load, stretch_s)?;
        let after = calibrate::measure()?;
        found.push((spent_ns, elapsed_s, before, after));
        before = after;
    }
    let told = load.end()?;
    process.must_run(name)?;
    let served = told.share_of_due();
    Ok(found
        .into_iter()
        .map(|(spent_ns, elapsed_s, before, after)| {
            let calls = rate as f64 * elapsed_s * served;
            Measurement {
                case: "cost".to_owned(),
                server: name.to_owned(),
                cpu_us_per_call: spent_ns as f64 / 1_000.0 / calls.max(1.0),
                calls: calls as u64,
                failed: told.failed,
                failed_share: 1.0 - told.share_ok(),
                retransmissions: told.retransmissions,
                rate,
                held_share: served,
                elapsed_s,
                is_doubted: !told.doubts.is_empty(),
                before,
                after,
            }
        })
        .collect())
}

fn stretch(process: &Process, load: &mut Load, seconds: u64) -> Result<(u64, f64), String> {
    let stretch = process.stretch();
    std::thread::sleep(std::time::Duration::from_secs(seconds));
    let found = stretch.end();
    load.wait_until(0)?;
    Ok(found)
}

/// A server, and the seconds until as much ends in each as begins.
fn start(bench: &Bench<'_>, database: &Database, who: &Who) -> Result<(Process, u64), String> {
    match who {
        Who::Kamailio { with_auth } => {
            let called = bench.port(ports::CALLED);
            let peer = Peer {
                next_hop: Some(format!("127.0.0.1:{called};transport=udp")),
                database: with_auth.then(|| SocketAddr::from(([127, 0, 0, 1], database.port))),
                ..Peer::default()
            };
            let server = Kamailio.serve(&bench.site(), &peer)?;
            Ok((server.into_process()?, 8))
        }
        Who::Signet(users) => Ok((bench.start_signet(users)?, 34)),
        Who::Before(path, users) => Ok((bench.start_build(path, users)?, 34)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_build_takes_part_where_it_is_named() {
        assert_eq!(contenders(1, None).len(), 6);
        let before = PathBuf::from("old/signet");
        let all = contenders(1, Some(&before));
        assert_eq!(all.len(), 8);
        let embedded = Who::Before(before, Users::Embedded);
        assert_eq!(all.last().unwrap().1, embedded);
    }
}
