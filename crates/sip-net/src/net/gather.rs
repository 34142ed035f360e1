//! When it pays to let messages gather before the sockets are looked at.
//!
//! At a few thousand messages a second a worker that wakes up for each spends
//! more on waking up, and on finding its memory gone from the caches, than on
//! the messages. One that looks once in a while takes them in one batch and
//! answers in one, as network cards moderate their interrupts. A message then
//! waits for the interval at most, and only while there is traffic enough for
//! it to be worth the while.

use std::time::{Duration, Instant};

/// Over how many intervals the traffic is counted.
const WINDOW_INTERVALS: u32 = 16;

/// Knows how much came lately, and when the sockets were last looked at.
#[derive(Debug)]
pub struct Gather {
    worth: u32,
    looked: Instant,
    window_since: Instant,
    /// Messages received when the window began.
    window_messages: u64,
    on: bool,
}

impl Gather {
    /// Nothing has come. It pays from `worth` messages in an interval on.
    pub fn new(now: Instant, worth: u32) -> Self {
        Self {
            worth,
            looked: now,
            window_since: now,
            window_messages: 0,
            on: false,
        }
    }

    /// How long to leave the sockets alone; zero when they are to be looked at
    /// at once.
    pub fn pause(&self, interval: Duration, now: Instant) -> Duration {
        if self.on {
            (self.looked + interval).saturating_duration_since(now)
        } else {
            Duration::ZERO
        }
    }

    /// The sockets have been looked at, after `messages` had been received in all.
    pub fn looked(&mut self, interval: Duration, now: Instant, messages: u64) {
        self.looked = now;
        let window = interval * WINDOW_INTERVALS;
        let passed = now.saturating_duration_since(self.window_since);
        if passed >= window {
            let enough = u64::from(WINDOW_INTERVALS * self.worth);
            // A window that lasted longer, since nothing came, asks for as much more.
            let per_window = (messages - self.window_messages)
                .saturating_mul(window.as_micros() as u64)
                / (passed.as_micros() as u64).max(1);
            self.on = !interval.is_zero() && per_window >= enough;
            self.window_since = now;
            self.window_messages = messages;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(1);

    /// Looks every `step_us` for 100 ms, with `messages` new ones each time.
    fn after(step_us: u64, messages: u64) -> Gather {
        let begun = Instant::now();
        let mut gather = Gather::new(begun, 2);
        for step in 1..=100_000 / step_us {
            let now = begun + Duration::from_micros(step * step_us);
            gather.looked(INTERVAL, now, step * messages);
        }
        gather
    }

    #[test]
    fn it_pauses_only_under_traffic_and_until_the_interval_is_over() {
        for (step_us, messages, pauses) in [
            (10_000, 1, false),
            (1_000, 1, false),
            (1_000, 2, true),
            (500, 1, true),
            (100, 1, true),
            (50_000, 150, true),
        ] {
            let gather = after(step_us, messages);
            let looked = gather.looked;
            let at = |us| gather.pause(INTERVAL, looked + Duration::from_micros(us));
            let expected_us = if pauses { [1_000, 400, 0] } else { [0; 3] };
            for (us, expected_us) in [0, 600, 2_000].into_iter().zip(expected_us) {
                assert_eq!(
                    at(us),
                    Duration::from_micros(expected_us),
                    "{messages} every {step_us} us, {us} us later"
                );
            }
        }
    }

    #[test]
    fn it_stops_when_the_traffic_stops_and_never_begins_without_an_interval() {
        let mut gather = after(100, 1);
        let later = gather.looked + Duration::from_secs(1);
        gather.looked(INTERVAL, later, 1_001);
        assert_eq!(gather.pause(INTERVAL, later), Duration::ZERO);

        let begun = Instant::now();
        let mut never = Gather::new(begun, 2);
        for step in 1..1_000u64 {
            never.looked(Duration::ZERO, begun + Duration::from_micros(step), step);
        }
        assert_eq!(never.pause(Duration::ZERO, begun), Duration::ZERO);
    }
}
