//! Seeded worlds in which replicas lose statements, refuse connections, end them over whoever
//! exists, break off, answer late, twice, in part and wrongly, or never over one name, and users
//! come, change and go. A failure prints its seed;
//! `SEED=… cargo test -p sip-lookup --test simulation` plays that one alone, `FIRST=…` begins
//! with another seed than 1, and `SEEDS=…` changes how many there are.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

mod support;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use support::variable;
use world::{Report, World};

const SEEDS: u64 = 10_000;

fn play(seeds: impl Iterator<Item = u64>) -> Report {
    let mut sum = Report::default();
    for seed in seeds {
        match catch_unwind(AssertUnwindSafe(|| World::new(seed).play())) {
            Ok(report) => sum.add(&report),
            Err(why) => {
                println!("replay: SEED={seed} cargo test -p sip-lookup --test simulation");
                resume_unwind(why);
            }
        }
    }
    sum
}

#[test]
fn questions_are_answered_once_in_order_and_rightly_whatever_stores_do() {
    let (first, count) = match variable("SEED") {
        Some(seed) => (seed, 1),
        None => (
            variable("FIRST").unwrap_or(1),
            variable("SEEDS").unwrap_or(SEEDS),
        ),
    };
    let workers = 2;
    let mut sum = Report::default();
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..workers)
            .map(|worker| {
                let seeds = (first..first + count).filter(move |seed| seed % workers == worker);
                scope.spawn(move || play(seeds))
            })
            .collect();
        for handle in handles {
            sum.add(&handle.join().unwrap_or_else(|why| resume_unwind(why)));
        }
    });
    println!("{sum:?}");
    if count >= 1_000 {
        let happened = [
            sum.answered,
            sum.refused,
            sum.failed,
            sum.hits,
            sum.joined,
            sum.overtaken,
            sum.retried,
            sum.passengers,
            sum.refreshes,
            sum.expired,
            sum.breaks,
            sum.stale,
            sum.unasked,
            sum.muted,
            sum.broken_off,
            sum.ended,
            sum.turned_away,
        ];
        assert!(
            happened.iter().all(|&many| many > 0),
            "something never happens: {sum:?}"
        );
    }
}
