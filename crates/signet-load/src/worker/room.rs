//! The room and the processor time of a worker.

use super::WorkerPart;
use crate::settings::Settings;

/// How many calls an agent may have at once, so that room for them is taken
/// before the first.
pub(super) fn calls_at_once(settings: &Settings, role: &WorkerPart) -> usize {
    /// More is never taken at once, however high the rate.
    const MAX: f64 = 1_000_000.0;
    let rate_per_s = match &role.target {
        Some(_) => settings.rate_max_per_s() / role.of as f64,
        None => 0.0,
    };
    let held_s = settings.hold.mean().as_secs_f64() + settings.answering.ring.mean().as_secs_f64();
    let sides = if role.answering.is_some() { 2.0 } else { 1.0 };
    (rate_per_s * (held_s * sides + 0.1) * 1.25).min(MAX) as usize
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
