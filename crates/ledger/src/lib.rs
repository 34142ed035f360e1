#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod component;

use std::array;
use std::cell::Cell;
use std::marker::PhantomData;

pub use component::{Component, CpuTimes};

/// The place behind the components: waiting, which takes no CPU time.
const WAITING: usize = Component::COUNT;

thread_local! {
    static BOOK: Book = const { Book::new() };
}

/// A thread's ledger.
struct Book {
    /// What it reads at each edge; nothing is counted without one.
    clock_ns: Cell<Option<fn() -> u64>>,
    /// Where the thread is: the place of a component, or [`WAITING`].
    place: Cell<usize>,
    /// Since when, by the clock.
    since_ns: Cell<u64>,
    /// What passed in each component since the last settlement, by the clock.
    passed_ns: [Cell<u64>; Component::COUNT],
    /// The CPU time of each component until the last settlement.
    cpu_ns: [Cell<u64>; Component::COUNT],
    /// The thread's CPU time at the last settlement.
    settled_ns: Cell<u64>,
}

impl Book {
    const fn new() -> Self {
        Self {
            clock_ns: Cell::new(None),
            place: Cell::new(Component::SipCore as usize),
            since_ns: Cell::new(0),
            passed_ns: [const { Cell::new(0) }; Component::COUNT],
            cpu_ns: [const { Cell::new(0) }; Component::COUNT],
            settled_ns: Cell::new(0),
        }
    }

    /// Goes to a place; gives the one before. The clock is read where these differ.
    fn go(&self, place: usize) -> usize {
        let before = self.place.replace(place);
        if before != place
            && let Some(clock_ns) = self.clock_ns.get()
        {
            self.charge(before, clock_ns());
        }
        before
    }

    /// What passed until now was spent there.
    fn charge(&self, place: usize, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.since_ns.replace(now_ns));
        if let Some(sum) = self.passed_ns.get(place) {
            sum.set(sum.get() + passed_ns);
        }
    }

    fn settle(&self, cpu_ns: u64) -> CpuTimes {
        if let Some(clock_ns) = self.clock_ns.get() {
            self.charge(self.place.get(), clock_ns());
        }
        let cpu_ns = cpu_ns.max(self.settled_ns.get());
        let spent_ns = cpu_ns - self.settled_ns.replace(cpu_ns);
        let passed_ns: u64 = self.passed_ns.iter().map(Cell::get).sum();
        let mut rest_ns = spent_ns;
        for (sum, passed) in self.cpu_ns.iter().zip(&self.passed_ns) {
            let part_ns = part(passed.take(), passed_ns, spent_ns);
            sum.set(sum.get() + part_ns);
            rest_ns -= part_ns;
        }
        // What is in no component went with the waits: falling asleep and waking up.
        if let Some(kernel) = self.cpu_ns.get(Component::Kernel as usize) {
            kernel.set(kernel.get() + rest_ns);
        }
        CpuTimes {
            us: array::from_fn(|nth| self.cpu_ns.get(nth).map_or(0, Cell::get) / 1_000),
        }
    }
}

/// What of the CPU time is a component's: what passed in it, and no more than its share where
/// more passed in all than the thread ran.
fn part(passed_ns: u64, all_passed_ns: u64, spent_ns: u64) -> u64 {
    if all_passed_ns <= spent_ns {
        return passed_ns;
    }
    let part = u128::from(passed_ns) * u128::from(spent_ns) / u128::from(all_passed_ns);
    // It is no more than `spent_ns`.
    u64::try_from(part).unwrap_or(spent_ns)
}

/// Gives this thread a ledger, with a clock in nanoseconds that only goes forward. It begins
/// in the SIP core.
pub fn open(clock_ns: fn() -> u64) {
    BOOK.with(|book| {
        book.since_ns.set(clock_ns());
        book.clock_ns.set(Some(clock_ns));
    });
}

/// The thread is in a component until the value is dropped; then where it was before.
pub fn enter(component: Component) -> Stay {
    Stay::at(component as usize)
}

/// The thread waits until the value is dropped. What passes is nobody's; the CPU time that
/// it takes to fall asleep and to wake up is the kernel's.
pub fn wait() -> Stay {
    Stay::at(WAITING)
}

/// Does something in a component.
pub fn within<R>(component: Component, act: impl FnOnce() -> R) -> R {
    let _stay = enter(component);
    act()
}

/// The CPU time of this thread by component, from its beginning. `cpu_ns` is what the kernel
/// counts for it until now; what is new in that is divided by what passed in each component.
pub fn settle(cpu_ns: u64) -> CpuTimes {
    BOOK.with(|book| book.settle(cpu_ns))
}

/// The time that a thread is somewhere.
#[must_use = "the thread is there as long as this value lives"]
pub struct Stay {
    before: usize,
    /// It belongs to its thread.
    thread: PhantomData<*const ()>,
}

impl Stay {
    fn at(place: usize) -> Self {
        Self {
            before: BOOK.with(|book| book.go(place)),
            thread: PhantomData,
        }
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        BOOK.with(|book| book.go(self.before));
    }
}

#[cfg(test)]
mod tests;
