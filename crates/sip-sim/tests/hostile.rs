//! A thousand small worlds with a hostile neighbour and a hostile user in each.
//! A failure prints its seed; `SEED=… cargo test -p sip-sim --test hostile` runs
//! that seed alone, `FIRST=…` begins with another than 1, `SEEDS=…` changes how
//! many there are, and `HISTORY=FILE` writes every message of a failed run to a file.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use sip_sim::{Failure, Plan, Report, run};
use std::sync::atomic::{AtomicU64, Ordering};

/// Worlds, by default.
const SEEDS: u64 = 1_000;

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
    )
}

fn told(failure: &Failure) -> String {
    if let (Ok(file), Some(history)) = (std::env::var("HISTORY"), &failure.history) {
        std::fs::write(&file, history).expect("HISTORY must name a file that can be written");
    }
    format!(
        "{}\nin {:?}\nreplay: SEED={} cargo test -p sip-sim --test hostile",
        failure.faults.join("\n"),
        failure.plan,
        failure.plan.seed
    )
}

#[derive(Default)]
struct Sum {
    calls: AtomicU64,
    established: AtomicU64,
    messages: AtomicU64,
    registered: AtomicU64,
}

impl Sum {
    fn add(&self, report: &Report) {
        let add = |sum: &AtomicU64, count| sum.fetch_add(count, Ordering::Relaxed);
        add(&self.calls, report.calls);
        add(&self.established, report.established);
        add(&self.messages, report.messages);
        add(&self.registered, report.registered);
    }
}

#[test]
fn a_thousand_seeds_with_the_hostile_gain_no_privilege_and_leave_no_state() {
    let (first, count) = match variable("SEED") {
        Some(seed) => (seed, 1),
        None => (
            variable("FIRST").unwrap_or(1),
            variable("SEEDS").unwrap_or(SEEDS),
        ),
    };
    let keeps_history = std::env::var_os("HISTORY").is_some();
    let (next, sum) = (AtomicU64::new(first), Sum::default());
    let failures: Vec<(u64, String)> = std::thread::scope(|scope| {
        let work = || {
            let mut failures = Vec::new();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= first + count {
                    return failures;
                }
                match run(&Plan::hostile(seed), keeps_history) {
                    Ok(report) => sum.add(&report),
                    Err(failure) => failures.push((seed, told(&failure))),
                }
            }
        };
        let workers: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .flat_map(|worker| {
                worker
                    .join()
                    .unwrap_or_else(|why| std::panic::resume_unwind(why))
            })
            .collect()
    });
    let total = |count: &AtomicU64| count.load(Ordering::Relaxed);
    println!(
        "{count} worlds: {} calls, {} established, {} registrations, {} messages",
        total(&sum.calls),
        total(&sum.established),
        total(&sum.registered),
        total(&sum.messages)
    );
    let seeds: Vec<u64> = failures.iter().map(|(seed, _)| *seed).collect();
    if let Some((_, first)) = failures.first() {
        panic!(
            "{first}\n\n{} of {count} seeds failed: {seeds:?}",
            seeds.len()
        );
    }
    assert!(total(&sum.established) > total(&sum.calls) / 3);
    assert!(total(&sum.registered) > 0 && total(&sum.messages) > 100 * count);
}

#[test]
fn the_same_hostile_seed_is_the_same_run() {
    for seed in [3, 4, 5, 6] {
        let one = run(&Plan::hostile(seed), false).map_err(|failure| told(&failure));
        let other = run(&Plan::hostile(seed), false).map_err(|failure| told(&failure));
        assert_eq!(one, other, "SEED={seed}");
    }
}
