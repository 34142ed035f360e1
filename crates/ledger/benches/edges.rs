//! What an edge costs: nanoseconds for each time that a component is entered or left, on a
//! thread without a ledger and on one with the clock of the system.
#![allow(clippy::print_stdout, missing_docs)]

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Instant;

use ledger::{Component, open, settle, within};

/// Short, so that most of them pass without another thread on the core; the median counts.
const BATCH: u32 = 2_000;
const BATCHES: usize = 2_001;

fn main() {
    println!("without a ledger: {:.1} ns an edge", edge_ns());
    open(clock_ns);
    println!("with one:         {:.1} ns an edge", edge_ns());
    println!("the clock alone:  {:.1} ns", per(clock_alone));
    println!("{} us in the ledger", settle(u64::MAX / 2).sum());
}

fn clock_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let now = Instant::now();
    let since = now.saturating_duration_since(*START.get_or_init(|| now));
    since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos())
}

fn clock_alone() {
    black_box(clock_ns());
}

/// Half of what it takes to enter a component and to leave it.
fn edge_ns() -> f64 {
    per(|| within(Component::Kernel, || black_box(()))) / 2.0
}

fn per(act: impl Fn()) -> f64 {
    let mut batches: Vec<f64> = (0..BATCHES)
        .map(|_| {
            let begun = Instant::now();
            for _ in 0..BATCH {
                act();
            }
            begun.elapsed().as_nanos() as f64 / f64::from(BATCH)
        })
        .collect();
    batches.sort_unstable_by(f64::total_cmp);
    batches.get(BATCHES / 2).copied().unwrap_or_default()
}
