//! When a refusal of credentials is told at the earliest.
//!
//! A store may take longer to find a user than not to find him, by a row that is read, sent and
//! read again, and whatever was known of him before may change what is done for him by some
//! microseconds. Thousands of refusals would show it. So a refusal is told when the longest
//! look-up of late would have ended, and not when its own did: how long that took is not to be
//! seen, as long as it took no longer. Who is let in waits for nothing of this
//! (docs/decisions/0145).

/// How long a window of look-ups lasts at least, and how many it has at least: so the longest of
/// them is longer than nearly all that follow, and is not forgotten where few are made.
const WINDOW_MS: u64 = 30_000;
const WINDOW_LOOKUPS_MIN: u32 = 256;
/// A look-up counts as no longer than so many times the shortest, and so much more: a store that
/// hung once holds nobody up for half a minute.
const TIMES_SHORTEST_MAX: u64 = 4;
const BEYOND_MAX_MS: u64 = 20;

/// How long look-ups took of late.
#[derive(Debug, Default)]
pub(crate) struct Floor {
    before: Option<Window>,
    now: Option<Window>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    begun_ms: u64,
    lookups: u32,
    shortest_ms: u64,
    longest_ms: u64,
}

impl Floor {
    /// A look-up has ended that took so long.
    pub(crate) fn note(&mut self, now_ms: u64, took_ms: u64) {
        let is_over = |window: &mut Window| {
            let is_old = now_ms.saturating_sub(window.begun_ms) >= WINDOW_MS;
            is_old && window.lookups >= WINDOW_LOOKUPS_MIN
        };
        if let Some(window) = self.now.take_if(is_over) {
            self.before = Some(window);
        }
        let window = self.now.get_or_insert(Window {
            begun_ms: now_ms,
            lookups: 0,
            shortest_ms: took_ms,
            longest_ms: took_ms,
        });
        window.lookups = window.lookups.saturating_add(1);
        window.shortest_ms = window.shortest_ms.min(took_ms);
        window.longest_ms = window.longest_ms.max(took_ms);
    }

    /// How long after its look-up began a refusal is told at the earliest.
    pub(crate) fn least_ms(&self) -> u64 {
        let windows = || [self.before, self.now].into_iter().flatten();
        let Some(shortest_ms) = windows().map(|window| window.shortest_ms).min() else {
            return 0;
        };
        let longest_ms = windows().map(|window| window.longest_ms).max();
        let most_ms = shortest_ms
            .saturating_mul(TIMES_SHORTEST_MAX)
            .saturating_add(BEYOND_MAX_MS);
        // The clock counts whole milliseconds: one that took as long may have ended in the next.
        longest_ms.unwrap_or(0).min(most_ms) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(took_ms: &[u64]) -> Floor {
        let mut floor = Floor::default();
        for took_ms in took_ms {
            floor.note(1_000, *took_ms);
        }
        floor
    }

    #[test]
    fn refusals_wait_for_the_longest_and_not_for_one_that_hung() {
        assert_eq!(Floor::default().least_ms(), 0);
        assert_eq!(noted(&[30]).least_ms(), 31);
        assert_eq!(noted(&[38, 30, 31]).least_ms(), 39);
        assert_eq!(noted(&[30, 3_000, 31]).least_ms(), 141);
        assert_eq!(noted(&[0, 3_000]).least_ms(), 21);
    }

    #[test]
    fn what_was_long_is_forgotten_once_many_have_come_since() {
        let mut floor = noted(&[60, 30]);
        // For an hour hardly anybody comes.
        for minute in 1..=60 {
            floor.note(1_000 + minute * 60_000, 30);
            assert_eq!(floor.least_ms(), 61);
        }
        let begun_ms = 4_000_000;
        for nth in 0..2 * u64::from(WINDOW_LOOKUPS_MIN) {
            floor.note(begun_ms + nth, 30);
        }
        assert_eq!(floor.least_ms(), 61, "it is in the window before this one");
        for nth in 0..u64::from(WINDOW_LOOKUPS_MIN) {
            floor.note(begun_ms + 2 * WINDOW_MS + nth, 30);
        }
        floor.note(begun_ms + 4 * WINDOW_MS, 31);
        assert_eq!(floor.least_ms(), 32);
    }
}
