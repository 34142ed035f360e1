//! Seeded runs. A failure prints its seed; `SEED=… cargo test -p sip-sim`
//! runs that seed alone, `FIRST=…` begins with another seed than 1, `SEEDS=…`
//! changes how many there are, and `HISTORY=FILE` writes every message of a
//! failed run to a file.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use sip_engine::settings::KeepAlive;
use sip_sim::{Failure, Plan, Report, Translation, run};
use std::collections::BTreeMap;

/// Calls in one run: enough for states to meet, few enough for a short replay.
const CALLS_PER_RUN: u64 = 500;
/// Runs, by default: 100,000 calls.
const SEEDS: u64 = 200;

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
    )
}

fn must(result: Result<Report, Box<Failure>>) -> Report {
    match result {
        Ok(report) => report,
        Err(failure) => {
            if let (Ok(file), Some(history)) = (std::env::var("HISTORY"), &failure.history) {
                std::fs::write(&file, history)
                    .expect("HISTORY must name a file that can be written");
            }
            panic!(
                "{}\nin {:?}\nreplay: SEED={} cargo test -p sip-sim",
                failure.faults.join("\n"),
                failure.plan,
                failure.plan.seed
            );
        }
    }
}

/// Runs the seeds of one worker and sums up.
fn runs(seeds: impl Iterator<Item = u64>) -> Report {
    let keeps_history = std::env::var_os("HISTORY").is_some();
    let mut sum = Report::default();
    for seed in seeds {
        let report = must(run(&Plan::of_seed(seed, CALLS_PER_RUN), keeps_history));
        assert_eq!(
            report.calls, CALLS_PER_RUN,
            "SEED={seed}: every call was made"
        );
        assert!(report.registered > 0, "SEED={seed}: somebody registered");
        sum.calls += report.calls;
        sum.established += report.established;
        sum.failed += report.failed;
        sum.registered += report.registered;
        sum.register_failed += report.register_failed;
        sum.replied += report.replied;
        sum.messages += report.messages;
        sum.lost += report.lost;
        sum.repeated += report.repeated;
        sum.unsent += report.unsent;
        sum.broken += report.broken;
        sum.forks += report.forks;
        sum.challenges += report.challenges;
        sum.handed_over += report.handed_over;
        sum.refused += report.refused;
        sum.resolved += report.resolved;
        sum.unresolved += report.unresolved;
        sum.unsaved += report.unsaved;
        sum.deaths += report.deaths;
        sum.killed += report.killed;
        sum.restored += report.restored;
        sum.reloads += report.reloads;
        sum.drains += report.drains;
        sum.unacknowledged += report.unacknowledged;
        sum.cached += report.cached;
        sum.batches += report.batches;
        sum.probed += report.probed;
        sum.left += report.left;
        sum.kept += report.kept;
        sum.flows_ended += report.flows_ended;
        sum.hooked += report.hooked;
        sum.undecided += report.undecided;
        sum.led += report.led;
        sum.unled += report.unled;
        sum.virtual_ms += report.virtual_ms;
        for (cause, count) in report.causes {
            *sum.causes.entry(cause).or_default() += count;
        }
    }
    sum
}

#[test]
fn calls_in_any_weather() {
    let (first, count) = match variable("SEED") {
        Some(seed) => (seed, 1),
        None => (
            variable("FIRST").unwrap_or(1),
            variable("SEEDS").unwrap_or(SEEDS),
        ),
    };
    let workers = 2;
    let sums: Vec<Report> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..workers)
            .map(|worker| {
                scope.spawn(move || {
                    runs((first..first + count).filter(move |seed| seed % workers == worker))
                })
            })
            .collect();
        handles
            .into_iter()
            .map(|handle| {
                handle
                    .join()
                    .unwrap_or_else(|why| std::panic::resume_unwind(why))
            })
            .collect()
    });
    let total = |pick: fn(&Report) -> u64| sums.iter().map(pick).sum::<u64>();
    let mut causes: BTreeMap<&str, u64> = BTreeMap::new();
    for (cause, count) in sums.iter().flat_map(|sum| &sum.causes) {
        *causes.entry(cause).or_default() += count;
    }
    println!(
        "{} calls ({} established, {} failed), {} registrations, {} messages, {} lost, {} streams broken, \
         {} forks ended, {} challenges, {} handed over, {} refused for want of room, {} names resolved, \
         {} unacknowledged, {} look-ups from a cache, {} answers of databases at a distance, \
         {} probes answered, {} gateways left, {} keep-alives, {} flows ended, \
         {} answers of a hook, {} requests without, {} sessions led by engines, {} calls without, \
         {} s on the virtual clock\n{causes:#?}",
        total(|r| r.calls),
        total(|r| r.established),
        total(|r| r.failed),
        total(|r| r.registered),
        total(|r| r.messages),
        total(|r| r.lost),
        total(|r| r.broken),
        total(|r| r.forks),
        total(|r| r.challenges),
        total(|r| r.handed_over),
        total(|r| r.refused),
        total(|r| r.resolved),
        total(|r| r.unacknowledged),
        total(|r| r.cached),
        total(|r| r.batches),
        total(|r| r.probed),
        total(|r| r.left),
        total(|r| r.kept),
        total(|r| r.flows_ended),
        total(|r| r.hooked),
        total(|r| r.undecided),
        total(|r| r.led),
        total(|r| r.unled),
        total(|r| r.virtual_ms) / 1_000,
    );
    println!(
        "{} datagrams came twice, {} messages did not leave, {} names led nowhere, {} changes were not \
         made, {} deaths of gateways, {} times killed in the middle, {} contacts found again, \
         {} reloads and {} drains in the middle",
        total(|r| r.repeated),
        total(|r| r.unsent),
        total(|r| r.unresolved),
        total(|r| r.unsaved),
        total(|r| r.deaths),
        total(|r| r.killed),
        total(|r| r.restored),
        total(|r| r.reloads),
        total(|r| r.drains),
    );
    assert_eq!(total(|r| r.calls), count * CALLS_PER_RUN);
    assert!(
        total(|r| r.established) > total(|r| r.calls) / 10,
        "hardly a call was established"
    );
    // Seeds enough have each kind of world among them.
    if count >= 20 {
        assert!(total(|r| r.cached) > 0, "no cache knew anybody");
        assert!(total(|r| r.batches) > 0, "no database was at a distance");
        assert!(total(|r| r.probed) > 0, "no gateway was probed");
        assert!(total(|r| r.left) > 0, "no gateway was left");
        assert!(total(|r| r.kept) > 0, "no way was kept open");
        assert!(total(|r| r.flows_ended) > 0, "no flow has ended");
        assert!(total(|r| r.hooked) > 0, "no hook decided anything");
        assert!(total(|r| r.undecided) > 0, "no hook failed");
        assert!(total(|r| r.led) > 0, "no media was led by an engine");
        assert!(total(|r| r.unled) > 0, "engines took all calls");
    }
    // More of them have each misfortune that is told of in the crate's words.
    if count >= 100 {
        for number in [1, 2, 4] {
            let mut plans = (first..first + count).map(|seed| Plan::of_seed(seed, CALLS_PER_RUN));
            let has_one = plans.any(|plan| plan.workers == number);
            assert!(has_one, "no server had {number} workers");
        }
        assert!(total(|r| r.handed_over) > 0, "no worker gave another any");
        assert!(total(|r| r.refused) > 0, "there was room for everything");
        assert!(total(|r| r.challenges) > 0, "nobody was challenged");
        assert!(total(|r| r.forks) > 0, "no two phones answered");
        assert!(total(|r| r.lost) > 0, "no datagram was lost");
        assert!(total(|r| r.repeated) > 0, "no datagram came twice");
        assert!(total(|r| r.broken) > 0, "no stream broke");
        assert!(total(|r| r.unsent) > 0, "all that was sent left");
        assert!(total(|r| r.resolved) > 0, "no name led anywhere");
        assert!(total(|r| r.unresolved) > 0, "all names led somewhere");
        assert!(total(|r| r.unsaved) > 0, "the store made all changes");
        assert!(total(|r| r.deaths) > 0, "no gateway died");
        assert!(
            total(|r| r.killed) > 0,
            "no process was killed in the middle"
        );
        assert!(
            total(|r| r.restored) > 0,
            "no process found a contact again"
        );
        assert!(total(|r| r.reloads) > 0, "no reload came in the middle");
        assert!(total(|r| r.drains) > 0, "no drain began in the middle");
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in [3, 4, 5, 6] {
        let plan = Plan::of_seed(seed, 60);
        let (one, other) = (must(run(&plan, false)), must(run(&plan, false)));
        assert_eq!(one, other, "SEED={seed}");
        let next = must(run(&Plan::of_seed(seed + 100, 60), false));
        assert_ne!(one.trace, next.trace, "another seed is another run");
    }
}

#[test]
fn in_fair_weather_every_call_succeeds() {
    for seed in [1, 2, 3, 4, 5, 6, 7, 8] {
        let report = must(run(&Plan::calm(seed, 100), false));
        assert_eq!(
            report.established, report.calls,
            "SEED={seed}: {:?}",
            report.causes
        );
        assert_eq!(report.failed, 0, "SEED={seed}: {:?}", report.causes);
        assert_eq!(report.register_failed, 0, "SEED={seed}");
    }
}

#[test]
fn behind_translations_every_call_succeeds_while_their_ways_are_kept_open() {
    let plan = |seed, keepalive, counts_inward, speaks| Plan {
        nat: Some(Translation {
            memory_ms: 10_000,
            counts_inward,
            speaks,
            keepalive,
            expires_max_s: None,
        }),
        streams: 0,
        outward: 0,
        // Longer than a translation remembers.
        call_interval_ms: 1_000,
        ..Plan::calm(seed, 100)
    };
    for seed in 1..=4 {
        for (keepalive, counts_inward, speaks) in [
            (KeepAlive::Crlf, true, false),
            (KeepAlive::Options, false, false),
            (KeepAlive::Options, true, true),
        ] {
            let report = must(run(&plan(seed, keepalive, counts_inward, speaks), false));
            let causes = &report.causes;
            assert_eq!(report.established, report.calls, "SEED={seed}: {causes:?}");
            assert!(report.kept > 0, "SEED={seed}");
            let lost = (report.lost, report.flows_ended);
            assert_eq!(lost, (0, 0), "SEED={seed}: {keepalive:?}");
        }
        // Ways are forgotten that nobody keeps open, or by what does not count.
        for (keepalive, counts_inward) in [(KeepAlive::Off, true), (KeepAlive::Crlf, false)] {
            let report = must(run(&plan(seed, keepalive, counts_inward, false), false));
            assert!(report.lost > 0, "SEED={seed}: {keepalive:?}");
        }
    }
}
