//! The time-stamp counter, and how many of its ticks make a second. The only place of this
//! crate with `unsafe`.
#![allow(unsafe_code)]

use std::time::{Duration, Instant};

use crate::record::Clock;

/// How long the counter is held against the monotonic clock.
const CALIBRATION: Duration = Duration::from_millis(20);

/// Calibrates the counter; a clock without `source` where there is none that goes on evenly.
pub fn calibrate() -> Clock {
    if !is_even() {
        return Clock::default();
    }
    // The middle one of several: the thread may be taken off its core in any of them.
    let mut rates: Vec<f64> = (0..5).filter_map(|_| rate()).collect();
    rates.sort_by(f64::total_cmp);
    match rates.get(rates.len() / 2) {
        Some(hz) => Clock {
            source: "tsc".to_owned(),
            hz: *hz,
            overhead_ns: 0.0,
        },
        None => Clock::default(),
    }
}

/// Ticks in a second, once.
fn rate() -> Option<f64> {
    let (began, first) = (Instant::now(), now()?);
    let mut elapsed = began.elapsed();
    while elapsed < CALIBRATION {
        elapsed = began.elapsed();
    }
    let ticks = now()?.checked_sub(first)?;
    Some(ticks as f64 / elapsed.as_secs_f64())
}

/// Whether the kernel says that the counter goes on at one rate, asleep or not.
fn is_even() -> bool {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(goes_on)
}

/// By its flags: `constant_tsc` is one rate at any clock of the core, and `nonstop_tsc` says that
/// it goes on in the deeper sleeps.
fn goes_on(flags: &str) -> bool {
    let has = |name: &str| flags.split_whitespace().any(|flag| flag == name);
    has("constant_tsc") && has("nonstop_tsc")
}

/// What the counter says; `None` on processors without one.
fn now() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this architecture has the instruction; it reads no memory.
    return Some(unsafe { core::arch::x86_64::_rdtsc() });
    #[cfg(not(target_arch = "x86_64"))]
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_stops_in_a_sleep_is_not_used() {
        assert!(goes_on("flags : tsc constant_tsc rep_good nonstop_tsc"));
        assert!(!goes_on("flags : tsc constant_tsc rep_good"));
        assert!(!goes_on("flags : tsc nonstop_tsc"));
    }

    #[test]
    fn a_counter_that_is_used_has_a_rate() {
        let clock = calibrate();
        assert_eq!(clock.source.is_empty(), clock.hz == 0.0);
        if clock.hz > 0.0 {
            assert!((1e8..1e11).contains(&clock.hz), "{clock:?}");
        }
    }
}
