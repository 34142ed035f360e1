//! The two clocks, read by the shell and handed to the protocol as numbers.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

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

/// Milliseconds since 1970.
pub fn unix_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
