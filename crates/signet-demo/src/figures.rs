//! Set-up delays and their percentiles.

use std::time::Duration;

/// Delays, every one of them kept: there are some thousands.
#[derive(Debug, Default)]
pub(crate) struct Delays {
    delays: Vec<Duration>,
}

impl Delays {
    pub(crate) fn add(&mut self, delay: Duration) {
        self.delays.push(delay);
    }

    /// The smallest delay that so many of a hundred do not exceed (the nearest
    /// rank); 0 where there are none.
    pub(crate) fn percentile_ms(&self, percent: f64) -> f64 {
        let mut sorted = self.delays.clone();
        sorted.sort_unstable();
        let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
        let delay = sorted.get(rank.saturating_sub(1).min(sorted.len().saturating_sub(1)));
        delay.map_or(0.0, |delay| delay.as_secs_f64() * 1_000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_rank() {
        let mut delays = Delays::default();
        assert_eq!(delays.percentile_ms(50.0), 0.0);
        for ms in (1..=100).rev() {
            delays.add(Duration::from_millis(ms));
        }
        assert_eq!(delays.percentile_ms(50.0), 50.0);
        assert_eq!(delays.percentile_ms(99.0), 99.0);
        assert_eq!(delays.percentile_ms(100.0), 100.0);
        assert_eq!(delays.percentile_ms(0.0), 1.0);
    }
}
