//! How far two clocks are from each other, by round trips: no clock is believed to be
//! right, and none is set.

/// A question and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Round {
    /// When the question left, by our clock.
    pub(super) sent_ns: u64,
    /// When it was answered, by the other clock.
    pub(super) theirs_ns: u64,
    /// When the answer came, by ours.
    pub(super) received_ns: u64,
}

/// The distance of two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Distance {
    /// What is to be added to our time to have theirs.
    ns: i128,
    /// By how much that may be wrong, at most.
    pub(super) error_ns: u64,
}

impl Distance {
    /// By the shortest round: the answer was written somewhere between its question and
    /// its arrival, so the middle is wrong by no more than half of it.
    pub(super) fn by(rounds: &[Round]) -> Option<Self> {
        let took_ns = |round: &Round| round.received_ns.saturating_sub(round.sent_ns);
        let best = rounds.iter().min_by_key(|round| took_ns(round))?;
        let error_ns = took_ns(best).div_ceil(2);
        let middle_ns = i128::from(best.sent_ns) + i128::from(error_ns);
        Some(Self {
            ns: i128::from(best.theirs_ns) - middle_ns,
            error_ns,
        })
    }

    /// Our time by their clock.
    pub(super) fn theirs_ns(&self, ours_ns: u64) -> u64 {
        let theirs = i128::from(ours_ns) + self.ns;
        u64::try_from(theirs.max(0)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds over ways that take so long there and back, with a clock that is so far off.
    fn rounds(ahead_ns: i128, ways_ns: &[(u64, u64)]) -> Vec<Round> {
        let mut now_ns = 5_000_000_000;
        let mut all = Vec::new();
        for (there_ns, back_ns) in ways_ns {
            let sent_ns = now_ns;
            let theirs_ns = i128::from(sent_ns + there_ns) + ahead_ns;
            now_ns += there_ns + back_ns;
            all.push(Round {
                sent_ns,
                theirs_ns: u64::try_from(theirs_ns).unwrap(),
                received_ns: now_ns,
            });
        }
        all
    }

    #[test]
    fn the_distance_is_found_within_half_of_the_shortest_round() {
        let mut dice = fastrand::Rng::with_seed(7);
        for _ in 0..1_000 {
            let ahead_ns = i128::from(dice.i64(-4_000_000_000..4_000_000_000));
            let ways: Vec<(u64, u64)> = (0..8)
                .map(|_| (dice.u64(1_000..50_000_000), dice.u64(1_000..50_000_000)))
                .collect();
            let distance = Distance::by(&rounds(ahead_ns, &ways)).unwrap();
            let shortest = ways.iter().map(|(there, back)| there + back).min().unwrap();
            assert_eq!(distance.error_ns, shortest.div_ceil(2));
            let wrong_ns = (distance.ns - ahead_ns).unsigned_abs();
            assert!(wrong_ns <= u128::from(distance.error_ns), "{wrong_ns}");
        }
    }

    #[test]
    fn an_even_way_gives_the_very_time() {
        let distance = Distance::by(&rounds(-1_000_000_000, &[(500, 500)])).unwrap();
        assert_eq!(distance.theirs_ns(7_000_000_000), 6_000_000_000);
        // A time before that clock began is its beginning.
        assert_eq!(distance.theirs_ns(1), 0);
        assert_eq!(Distance::by(&[]), None);
    }
}
