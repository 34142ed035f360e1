//! How long a run still takes, from how long its parts have taken.

/// What was reckoned and what it took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Remaining {
    left_s: f64,
    done_s: f64,
    took_s: f64,
}

impl Remaining {
    /// Before anything is measured of so much.
    pub const fn new(reckoned_s: f64) -> Self {
        Self {
            left_s: reckoned_s,
            done_s: 0.0,
            took_s: 0.0,
        }
    }

    /// A part that was reckoned to take so long took so long.
    pub fn took(&mut self, reckoned_s: f64, took_s: f64) {
        self.left_s = (self.left_s - reckoned_s).max(0.0);
        self.done_s += reckoned_s;
        self.took_s += took_s;
    }

    /// A part falls away.
    pub fn falls_away(&mut self, reckoned_s: f64) {
        self.left_s = (self.left_s - reckoned_s).max(0.0);
    }

    /// Seconds to go: what is left, at the pace of what was done.
    pub fn to_go_s(&self) -> f64 {
        if self.done_s > 0.0 {
            self.left_s * self.took_s / self.done_s
        } else {
            self.left_s
        }
    }
}

/// A time as people say it: `40 s`, `12 min`, `2 h 5 min`.
pub fn said(seconds: f64) -> String {
    let seconds = seconds.max(0.0);
    let minutes = (seconds / 60.0).round() as u64;
    match minutes {
        _ if seconds < 90.0 => format!("{seconds:.0} s"),
        0..=89 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_goes_at_the_pace_of_what_was_done() {
        let mut remaining = Remaining::new(100.0);
        assert_eq!(remaining.to_go_s(), 100.0);
        remaining.took(20.0, 30.0);
        assert_eq!(remaining.to_go_s(), 120.0);
        // One that is quicker than reckoned makes the rest shorter.
        remaining.took(20.0, 10.0);
        assert_eq!(remaining.to_go_s(), 60.0);
        remaining.falls_away(30.0);
        assert_eq!(remaining.to_go_s(), 30.0);
        remaining.took(40.0, 60.0);
        assert_eq!(remaining.to_go_s(), 0.0);
    }

    #[test]
    fn times_are_said_in_their_unit() {
        for (seconds, expected) in [
            (-1.0, "0 s"),
            (89.0, "89 s"),
            (90.0, "2 min"),
            (5_340.0, "89 min"),
            (5_400.0, "1 h 30 min"),
            (7_500.0, "2 h 5 min"),
        ] {
            assert_eq!(said(seconds), expected, "{seconds}");
        }
    }
}
