//! The two clocks, read by the shell and handed to the protocol as numbers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

static START: OnceLock<Instant> = OnceLock::new();

/// Milliseconds on a clock that only goes forward, the same for all threads
/// of the process; it starts near zero.
pub fn now_ms() -> u64 {
    ms_at(Instant::now())
}

/// The same for a time that was read already.
pub fn ms_at(now: Instant) -> u64 {
    let start = *START.get_or_init(|| now);
    let since = now.saturating_duration_since(start);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Nanoseconds on the same clock: what a thread's ledger reads.
pub fn now_ns() -> u64 {
    let now = Instant::now();
    let since = now.saturating_duration_since(*START.get_or_init(|| now));
    since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos())
}

/// Milliseconds since 1970.
pub fn unix_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// What the deadlines of a worker's sockets are reckoned by. All clones are one.
#[derive(Clone, Debug)]
pub struct Clock(Option<Arc<Given>>);

/// A moment, and what has passed since.
#[derive(Debug)]
struct Given {
    begun: Instant,
    begun_unix_ms: u64,
    passed_ms: AtomicU64,
}

impl Clock {
    /// The clocks of the system.
    pub const fn system() -> Self {
        Self(None)
    }

    /// One that stands still until it is told that time passed: so a deadline
    /// is seen to hold to the millisecond, and nobody waits for it.
    pub fn given() -> Self {
        // No clock of the process may begin later than this one.
        let _ = now_ms();
        Self(Some(Arc::new(Given {
            begun: Instant::now(),
            begun_unix_ms: unix_ms(),
            passed_ms: AtomicU64::new(0),
        })))
    }

    /// So much time passes on a given clock; that of the system passes by itself.
    pub fn pass(&self, ms: u64) {
        if let Some(given) = &self.0 {
            given.passed_ms.fetch_add(ms, Ordering::Relaxed);
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.0.as_ref().map_or_else(Instant::now, |given| {
            given.begun + Duration::from_millis(given.passed_ms.load(Ordering::Relaxed))
        })
    }

    pub(crate) fn unix_ms(&self) -> u64 {
        self.0.as_ref().map_or_else(unix_ms, |given| {
            given.begun_unix_ms + given.passed_ms.load(Ordering::Relaxed)
        })
    }
}
