//! What measuring costs the thread that moves messages: the median and the best
//! round in nanoseconds, and heap allocations per call in the steady state.
//!
//! `cargo bench -p measure`

// Only the allocator that counts needs it.
#![allow(unsafe_code)]
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use measure::random::Random;
use measure::{Causes, Failure, Latency, Pacer, Schedule, SecondRecorder, Setup, SipFigures};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ROUNDS: usize = 51;
const CALLS_PER_ROUND: u32 = 20_000;
/// Delays to draw from, so that the draw itself costs little.
const DELAYS: usize = 4_096;

fn main() {
    let mut random = Random::new(1);
    // As a server's are: most of a millisecond, some of a hundred.
    let delays_ns: Vec<u64> = (0..DELAYS)
        .map(|_| (500_000.0 * (1.5 * random.normal()).exp()) as u64)
        .collect();
    let mut at = 0;
    let mut delay_ns = move || {
        at = (at + 1) % DELAYS;
        delays_ns[at]
    };
    println!("one call of each, median of {ROUNDS} rounds");

    let mut latency = Latency::new();
    measure("Latency::record (both starts)", || {
        let delay = delay_ns();
        latency.record(1_000, 3_000, black_box(3_000 + delay));
    });
    let mut recorder = SecondRecorder::new();
    measure("SecondRecorder::answered", || {
        recorder.answered(1_000, black_box(1_000 + delay_ns()));
    });
    let mut figures = SipFigures::new();
    measure("SipFigures, all of one call", || {
        let delay = delay_ns();
        let times = Setup {
            intended_ns: 1_000,
            sent_ns: 3_000,
            first_status_ns: Some(2_000 + delay),
            done_ns: black_box(4_000 + delay),
        };
        figures.invite_sent();
        figures.invite_answered(200, &times);
        figures.bye_sent();
        figures.bye_ok(4_000, 1_000_000, 1_001_000, black_box(1_001_000 + delay));
    });
    let mut causes = Causes::new();
    causes.add(Failure::Status(486));
    causes.add(Failure::Timeout);
    measure("Causes::add (status)", || {
        causes.add(black_box(Failure::Status(503)));
    });
    measure("Causes::add (timeout)", || {
        causes.add(black_box(Failure::Timeout));
    });
    let schedule = Schedule::parse("ramp 1000..9000/s over 24h").unwrap();
    let mut constant = Pacer::new(&schedule);
    measure("Pacer, even, on a ramp", || {
        black_box(constant.next_due_ns());
        constant.take();
    });
    let mut poisson = Pacer::new(&schedule.poisson(1));
    measure("Pacer, Poisson, on a ramp", || {
        black_box(poisson.next_due_ns());
        poisson.take();
    });
}

fn measure(name: &str, mut work: impl FnMut()) {
    work();
    let mut rounds_ns: Vec<f64> = Vec::with_capacity(ROUNDS);
    let mut allocations = 0;
    for _ in 0..ROUNDS {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        let start = Instant::now();
        for _ in 0..CALLS_PER_ROUND {
            work();
        }
        rounds_ns.push(start.elapsed().as_nanos() as f64 / f64::from(CALLS_PER_ROUND));
        allocations += ALLOCATIONS.load(Ordering::Relaxed) - before;
    }
    rounds_ns.sort_by(f64::total_cmp);
    let median_ns = rounds_ns[ROUNDS / 2];
    let per_call = allocations as f64 / (ROUNDS as f64 * f64::from(CALLS_PER_ROUND));
    let best_ns = rounds_ns[0];
    println!("{name:<34} {median_ns:>7.1} ns   best {best_ns:>6.1} ns   {per_call:.3} allocations");
}
