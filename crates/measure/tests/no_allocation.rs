//! Recording on the hot path allocates nothing.

// Only the allocator that counts needs it.
#![allow(unsafe_code)]

use measure::{
    Causes, Failure, Handshakes, Latency, Pacer, Schedule, SecondRecorder, Setup, SipFigures,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Allocations of this thread, so that other tests do not count.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

fn count() {
    // A thread that ends may allocate after its locals are gone.
    let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn the_counter_counts() {
    assert!(allocations(|| drop(std::hint::black_box(Box::new(1)))) >= 1);
}

#[test]
fn recording_allocates_nothing() {
    let mut latency = Latency::new();
    let mut figures = SipFigures::new();
    let mut handshakes = Handshakes::new();
    let mut recorder = SecondRecorder::new();
    let mut causes = Causes::new();
    let mut even = Pacer::new(&Schedule::constant(1e6, 1_000_000_000));
    let mut poisson = Pacer::new(&Schedule::constant(1e6, 1_000_000_000).poisson(1));
    // A cause's first time is its last allocation, and so is a request's name.
    let failures = [
        Failure::Status(503),
        Failure::Timeout,
        Failure::Transport,
        Failure::Other("x"),
    ];
    failures.into_iter().for_each(|failure| causes.add(failure));
    figures.request("OPTIONS").sent += 1;

    let made = allocations(|| {
        for i in 0..10_000u64 {
            // Up to a century, so that every bucket of the histograms is met.
            let done_ns = 1 << (i % 62);
            latency.record(0, i, done_ns);
            let times = Setup {
                intended_ns: 0,
                sent_ns: i,
                first_status_ns: Some(done_ns / 2),
                done_ns,
            };
            figures.invite_sent();
            figures.invite_answered([200, 302, 486, 503][i as usize % 4], &times);
            figures.invite_failed(Failure::Timeout);
            figures.register_ok(0, i, done_ns);
            figures.bye_ok(0, 0, i, done_ns);
            figures.bye_failed(0, 0, i, done_ns);
            figures.request("OPTIONS").delay.record(0, i, done_ns);
            handshakes.done(i % 2 == 0, 0, i, done_ns);
            recorder.due();
            recorder.started();
            recorder.answered(0, done_ns);
            recorder.succeeded();
            recorder.failed();
            causes.add(failures[i as usize % 4]);
            even.take();
            poisson.take();
        }
    });
    assert_eq!(made, 0);
    assert_eq!(latency.count(), 10_000);
}
