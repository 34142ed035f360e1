//! How old connections are, without looking at them: a count for each minute of
//! the last hour and for each hour of the last week in which they began.

/// Minutes that have a count of their own.
const MINUTES: u64 = 64;
/// Hours that have one.
const HOURS: u64 = 7 * 24 + 1;
const MINUTE_MS: u64 = 60_000;
const WEEK_MS: u64 = 7 * 24 * 60 * MINUTE_MS;

/// The bounds of the ages in [`ConnectionFigures::ages`], in seconds.
pub const AGE_BOUNDS_S: [u64; 6] = [60, 300, 3_600, 21_600, 86_400, 604_800];

/// The connections that are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionFigures {
    /// How many.
    pub open: u64,
    /// Bytes that they hold in structures of their own: a connection and its
    /// TLS session by their sizes, without buffers and what the session keeps
    /// on the heap.
    pub bytes: u64,
    /// The sum of their ages, in milliseconds.
    pub age_ms_sum: u64,
    /// The age of the oldest, in milliseconds: to a minute in its first hour,
    /// to an hour in its first week, and a week past that.
    pub oldest_ms: u64,
    /// How many are no older than each of [`AGE_BOUNDS_S`] and older than the
    /// bound before; last, those that are older than all. As exact as `oldest_ms`.
    pub ages: [u64; AGE_BOUNDS_S.len() + 1],
}

impl ConnectionFigures {
    /// Adds another's figures: those of another worker.
    pub fn add(&mut self, other: &Self) {
        self.open += other.open;
        self.bytes += other.bytes;
        self.age_ms_sum += other.age_ms_sum;
        self.oldest_ms = self.oldest_ms.max(other.oldest_ms);
        for (mine, theirs) in self.ages.iter_mut().zip(other.ages) {
            *mine += theirs;
        }
    }

    /// This many of them are older by now than when they were looked at. In
    /// `ages` that does not show.
    pub fn grow_older(&mut self, open: u64, by_ms: u64) {
        self.age_ms_sum += open.saturating_mul(by_ms);
        if open > 0 {
            self.oldest_ms += by_ms;
        }
    }
}

/// When connections began.
pub(super) struct Ages {
    /// The first minute with a count of its own, since the clock's beginning;
    /// the counts of the minutes from it on lie in a ring.
    minute: u64,
    minutes: [u32; MINUTES as usize],
    /// The same for hours.
    hour: u64,
    hours: [u32; HOURS as usize],
    older: u32,
}

impl Default for Ages {
    fn default() -> Self {
        Self {
            minute: 0,
            minutes: [0; MINUTES as usize],
            hour: 0,
            hours: [0; HOURS as usize],
            older: 0,
        }
    }
}

impl Ages {
    /// One begins now.
    pub(super) fn enter(&mut self, now_ms: u64) {
        self.advance(now_ms / MINUTE_MS);
        *self.count_of(now_ms / MINUTE_MS) += 1;
    }

    /// One that began then is gone.
    pub(super) fn leave(&mut self, begun_ms: u64) {
        let count = self.count_of(begun_ms / MINUTE_MS);
        *count = count.saturating_sub(1);
    }

    /// How many there are of each age, and the age of the oldest.
    pub(super) fn figures(&self, now_ms: u64) -> ([u64; AGE_BOUNDS_S.len() + 1], u64) {
        let mut ages = [0; AGE_BOUNDS_S.len() + 1];
        let mut oldest_ms = 0;
        let mut note = |count: u32, age_ms: u64| {
            let place = AGE_BOUNDS_S.partition_point(|bound| bound * 1_000 < age_ms);
            if count > 0
                && let Some(sum) = ages.get_mut(place)
            {
                *sum += u64::from(count);
                oldest_ms = oldest_ms.max(age_ms);
            }
        };
        for minute in self.minute..self.minute + MINUTES {
            let age_ms = now_ms.saturating_sub(minute * MINUTE_MS);
            note(
                self.minutes
                    .get(ring(minute, MINUTES))
                    .copied()
                    .unwrap_or(0),
                age_ms,
            );
        }
        for hour in self.hour..self.hour + HOURS {
            let age_ms = now_ms.saturating_sub(hour * 60 * MINUTE_MS);
            note(
                self.hours.get(ring(hour, HOURS)).copied().unwrap_or(0),
                age_ms,
            );
        }
        note(self.older, WEEK_MS + 1);
        (ages, oldest_ms.min(WEEK_MS))
    }

    /// The count of those that began in a minute.
    fn count_of(&mut self, minute: u64) -> &mut u32 {
        let hour = minute / 60;
        let place = if minute >= self.minute {
            self.minutes.get_mut(ring(minute, MINUTES))
        } else if hour >= self.hour {
            self.hours.get_mut(ring(hour, HOURS))
        } else {
            None
        };
        place.unwrap_or(&mut self.older)
    }

    /// Minutes that are past go to their hours, hours to what is older.
    fn advance(&mut self, now_minute: u64) {
        let first = (now_minute + 1).saturating_sub(MINUTES);
        let first_hour = (now_minute / 60 + 1).saturating_sub(HOURS);
        // Past one round all counts are nought.
        for _ in 0..HOURS.min(first_hour.saturating_sub(self.hour)) {
            self.older += take(&mut self.hours, ring(self.hour, HOURS));
            self.hour += 1;
        }
        self.hour = self.hour.max(first_hour);
        for _ in 0..MINUTES.min(first.saturating_sub(self.minute)) {
            let count = take(&mut self.minutes, ring(self.minute, MINUTES));
            let hour = self.minute / 60;
            self.minute += 1;
            let place = (hour >= self.hour).then(|| self.hours.get_mut(ring(hour, HOURS)));
            *place.flatten().unwrap_or(&mut self.older) += count;
        }
        self.minute = self.minute.max(first);
    }
}

fn ring(number: u64, len: u64) -> usize {
    usize::try_from(number % len).unwrap_or(0)
}

fn take(counts: &mut [u32], place: usize) -> u32 {
    counts.get_mut(place).map_or(0, std::mem::take)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 60 * MINUTE_MS;

    #[test]
    fn connections_grow_old_from_bucket_to_bucket() {
        let mut ages = Ages::default();
        let begun = 1_000 * HOUR_MS + 7 * MINUTE_MS;
        ages.enter(begun);
        ages.enter(begun);
        for (age_ms, place) in [
            (0, 0),
            (3 * MINUTE_MS, 1),
            (30 * MINUTE_MS, 2),
            (5 * HOUR_MS, 3),
            (20 * HOUR_MS, 4),
            (100 * HOUR_MS, 5),
            (500 * HOUR_MS, 6),
        ] {
            // Another comes and goes, by which time passes.
            ages.enter(begun + age_ms);
            ages.leave(begun + age_ms);
            let (found, oldest_ms) = ages.figures(begun + age_ms);
            assert_eq!(found[place], 2, "{age_ms}: {found:?}");
            assert_eq!(found.iter().sum::<u64>(), 2);
            let exact = age_ms.min(168 * HOUR_MS);
            assert!(oldest_ms.abs_diff(exact) <= HOUR_MS, "{age_ms} {oldest_ms}");
        }
        ages.leave(begun);
        ages.leave(begun);
        assert_eq!(ages.figures(begun + 501 * HOUR_MS), ([0; 7], 0));
    }

    #[test]
    fn what_enters_leaves_whenever_that_is() {
        // A walk through time, against a plain list.
        let mut ages = Ages::default();
        let mut list = Vec::new();
        let (mut now, mut seed) = (5 * HOUR_MS, 12_345_u64);
        for step in 0..20_000_u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            now += (seed >> 33)
                % if step % 500 == 0 {
                    40 * HOUR_MS
                } else {
                    2 * MINUTE_MS
                };
            if list.len() > 200 || (seed >> 20) % 3 == 0 && !list.is_empty() {
                let at = (seed >> 40) as usize % list.len();
                ages.leave(list.swap_remove(at));
            } else {
                ages.enter(now);
                list.push(now);
            }
            let (found, oldest_ms) = ages.figures(now);
            assert_eq!(found.iter().sum::<u64>(), list.len() as u64);
            let oldest = list.iter().map(|begun| now - begun).max().unwrap_or(0);
            let exact = oldest.min(168 * HOUR_MS);
            assert!(
                oldest_ms.abs_diff(exact) <= 2 * HOUR_MS,
                "{oldest_ms} {oldest}"
            );
        }
    }
}
