//! A broken invariant is heard: a panic where `debug_assertions` are on, as in
//! tests and in the simulation; in a release build a count, and one report for
//! each place in the source.
//!
//! [`broken!`] stands where an index of our own finds nothing, or a state comes
//! up that no input can lead to. It states what should have held, and leaves
//! the way out to the code around it:
//!
//! ```
//! use invariant::broken;
//!
//! fn refill(jars: &mut [u32], kept_jar: usize) {
//!     let Some(jar) = jars.get_mut(kept_jar) else {
//!         return broken!("a jar that was kept is on the shelf");
//!     };
//!     *jar += 1;
//! }
//! # refill(&mut [0], 0);
//! ```
//!
//! It is not for what a peer, a user or a timer can bring about: that has an
//! answer and a counter of its own.
#![forbid(unsafe_code)]

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// States an invariant that does not hold here. With a second argument it has
/// that value, which is computed only then; else `()`.
#[macro_export]
macro_rules! broken {
    ($stated:literal) => {{
        static INVARIANT: $crate::Invariant = $crate::Invariant::new($stated, file!(), line!());
        INVARIANT.is_broken()
    }};
    ($stated:literal, $instead:expr) => {{
        $crate::broken!($stated);
        $instead
    }};
}

static BROKEN: AtomicU64 = AtomicU64::new(0);
static REPORT: OnceLock<fn(&Invariant)> = OnceLock::new();

/// An invariant and the place in the source that states it, to be displayed
/// as `file:line: statement`.
#[derive(Debug)]
pub struct Invariant {
    stated: &'static str,
    file: &'static str,
    line: u32,
    was_reported: AtomicBool,
}

impl Invariant {
    /// For [`broken!`].
    #[doc(hidden)]
    pub const fn new(stated: &'static str, file: &'static str, line: u32) -> Self {
        Self {
            stated,
            file,
            line,
            was_reported: AtomicBool::new(false),
        }
    }

    /// For [`broken!`].
    #[doc(hidden)]
    #[cold]
    #[inline(never)]
    #[expect(clippy::panic, reason = "tests and the simulation are to stop here")]
    pub fn is_broken(&self) {
        if cfg!(debug_assertions) {
            panic!("broken invariant: {self}");
        }
        self.count_and_report();
    }

    fn count_and_report(&self) {
        BROKEN.fetch_add(1, Ordering::Relaxed);
        if !self.was_reported.swap(true, Ordering::Relaxed)
            && let Some(report) = REPORT.get()
        {
            report(self);
        }
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.stated)
    }
}

/// How often an invariant was found broken since the process began.
pub fn broken_count() -> u64 {
    BROKEN.load(Ordering::Relaxed)
}

/// Has the first break of each invariant reported; only the first call of this
/// in a process counts.
pub fn report_by(report: fn(&Invariant)) {
    let _ = REPORT.set(report);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    static REPORTED: Mutex<Vec<String>> = Mutex::new(Vec::new());

    #[test]
    fn each_break_is_counted_and_each_place_reported_once() {
        static FIRST: Invariant = Invariant::new("one is one", "a.rs", 7);
        static SECOND: Invariant = Invariant::new("two is two", "b.rs", 8);
        report_by(|invariant| REPORTED.lock().unwrap().push(invariant.to_string()));
        report_by(|_| unreachable!("another one reports"));
        FIRST.count_and_report();
        FIRST.count_and_report();
        SECOND.count_and_report();
        assert_eq!(broken_count(), 3);
        assert_eq!(
            *REPORTED.lock().unwrap(),
            ["a.rs:7: one is one", "b.rs:8: two is two"]
        );
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic = ": a list is not empty"]
    fn it_panics_where_assertions_are_on() {
        let list: &[u8] = &[];
        let Some(_) = list.first() else {
            return broken!("a list is not empty");
        };
    }

    #[test]
    fn it_is_quiet_while_the_invariant_holds() {
        let first = [1].first().copied();
        assert_eq!(first.unwrap_or_else(|| broken!("not empty", 0)), 1);
    }
}
