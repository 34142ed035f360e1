//! One clock for all threads of a run.

use std::time::Instant;

/// Nanoseconds, and the milliseconds that go with them, since the run was set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    since: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            since: Instant::now(),
        }
    }

    pub(crate) fn now_ns(self) -> u64 {
        self.at_ns(Instant::now())
    }

    /// The same at another time; 0 before the beginning.
    pub(crate) fn at_ns(self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.since);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
}

pub(crate) const NS_PER_MS: u64 = 1_000_000;

/// Of a nanosecond, the millisecond that it is in.
pub(crate) const fn to_ms(ns: u64) -> u64 {
    ns / NS_PER_MS
}

/// The first millisecond that begins no earlier than so long after `ns`: what
/// is to last so long must not end before.
pub(crate) const fn ms_after(ns: u64, after_ms: u64) -> u64 {
    ns.div_ceil(NS_PER_MS).saturating_add(after_ms)
}
