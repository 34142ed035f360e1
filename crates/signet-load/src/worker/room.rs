//! The room and the processor time of a worker.

use super::Place;
use crate::settings::Settings;

/// What will be under way at the same time, by the rate that is asked for.
pub(super) struct Room {
    pub(super) calls: usize,
    pub(super) clients: usize,
    pub(super) servers: usize,
}

impl Room {
    /// More is never taken at once, however high the rate.
    const MAX: f64 = 1_000_000.0;

    pub(super) fn of(settings: &Settings, place: &Place) -> Self {
        let rate_per_s = match (&settings.schedule, &place.target) {
            (Some(schedule), Some(_)) => schedule.rate_max_per_s() / place.of as f64,
            _ => 0.0,
        };
        let lasting = |seconds: f64| (rate_per_s * seconds * 1.25).min(Self::MAX) as usize;
        let held_s =
            settings.hold.mean().as_secs_f64() + settings.answering.ring.mean().as_secs_f64();
        let kept_s = settings.timers.t4_ms as f64 / 1e3;
        let sides = if place.answering.is_some() { 2.0 } else { 1.0 };
        Self {
            calls: lasting(held_s * sides + 0.1),
            clients: lasting(held_s + kept_s),
            servers: if sides > 1.0 {
                lasting(held_s + 2.0 * kept_s)
            } else {
                0
            },
        }
    }
}

/// What the kernel's scheduler says of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CpuTime {
    pub(super) cpu_ns: u64,
    pub(super) waited_ns: u64,
}

impl CpuTime {
    pub(super) fn of_this_thread() -> Self {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let mut figures = text
            .split_ascii_whitespace()
            .map_while(|figure| figure.parse().ok());
        Self {
            cpu_ns: figures.next().unwrap_or(0),
            waited_ns: figures.next().unwrap_or(0),
        }
    }
}
