//! Hours of the week, in the time of a place. The changes of its clocks are given as a list, so
//! that no file is read here.

/// The minutes of a week.
pub const WEEK_MIN: u16 = 7 * 24 * 60;

/// The offset of a place's clocks from UTC, and when it changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zone {
    /// From when on, in seconds since 1970, and by how many seconds; in order.
    changes: Vec<(i64, i32)>,
}

impl Zone {
    /// A place by the changes of its clocks, the oldest first. Before the first of them its
    /// offset counts as well; without any it is UTC.
    pub fn new(changes: Vec<(i64, i32)>) -> Self {
        Self { changes }
    }

    /// The minute of the week there, from Monday 00:00 on.
    pub fn minute_of_week(&self, unix_ms: u64) -> u16 {
        let unix_s = i64::try_from(unix_ms / 1_000).unwrap_or(i64::MAX);
        let after = self
            .changes
            .partition_point(|(from_s, _)| *from_s <= unix_s);
        let change = self.changes.get(after.saturating_sub(1));
        let offset_s = change.map_or(0, |(_, offset_s)| i64::from(*offset_s));
        // 1970 began on a Thursday.
        let minutes = unix_s.saturating_add(offset_s).div_euclid(60) + 3 * 24 * 60;
        u16::try_from(minutes.rem_euclid(i64::from(WEEK_MIN))).unwrap_or(0)
    }
}

/// Hours of the week: from a minute to before another, each from Monday 00:00 on. One that goes
/// past the end of the week goes on at its beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hours(Vec<(u16, u16)>);

impl Hours {
    /// The hours between these minutes; the second of a pair may be past the week's end.
    pub fn new(spans: Vec<(u16, u16)>) -> Self {
        Self(spans)
    }

    /// Whether a minute of the week is among them.
    pub fn have(&self, minute: u16) -> bool {
        let is_in = |at: u16| self.0.iter().any(|(from, to)| (*from..*to).contains(&at));
        is_in(minute) || minute.checked_add(WEEK_MIN).is_some_and(is_in)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u16 = 60;

    #[test]
    fn the_minute_of_the_week() {
        let utc = Zone::default();
        assert_eq!(utc.minute_of_week(0), 3 * 24 * HOUR);
        // Monday, 5 January 1970.
        assert_eq!(utc.minute_of_week(4 * 86_400_000), 0);
        assert_eq!(utc.minute_of_week(4 * 86_400_000 - 1), WEEK_MIN - 1);
        // Berlin: on 31 March 2024 at 01:00 UTC the clocks went from 02:00 to 03:00.
        let changed_s = 1_711_846_800;
        let berlin = Zone::new(vec![(0, 3_600), (changed_s, 7_200)]);
        let at = |unix_s: i64| berlin.minute_of_week(unix_s as u64 * 1_000);
        assert_eq!(at(changed_s - 60), 6 * 24 * HOUR + HOUR + 59);
        assert_eq!(at(changed_s), 6 * 24 * HOUR + 3 * HOUR);
        let before = Zone::new(vec![(1_000, -3_600)]);
        assert_eq!(before.minute_of_week(0), 3 * 24 * HOUR - HOUR);
    }

    #[test]
    fn hours_go_past_midnight_and_past_the_end_of_the_week() {
        let sunday = 6 * 24 * HOUR;
        let hours = Hours::new(vec![
            (8 * HOUR, 18 * HOUR),
            (sunday + 22 * HOUR, sunday + 30 * HOUR),
        ]);
        for (minute, is_open) in [
            (8 * HOUR - 1, false),
            (8 * HOUR, true),
            (18 * HOUR - 1, true),
            (18 * HOUR, false),
            (sunday + 22 * HOUR, true),
            (WEEK_MIN - 1, true),
            (0, true),
            (6 * HOUR - 1, true),
            (6 * HOUR, false),
        ] {
            assert_eq!(hours.have(minute), is_open, "{minute}");
        }
        assert!(!Hours::default().have(0));
    }
}
