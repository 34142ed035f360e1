//! Answers that came too late, each counted once however often it is sent.

use std::collections::{HashSet, VecDeque};

/// The most that are remembered at a time; past it the first is forgotten, and would count again.
const KEPT_MAX: usize = 65_536;

/// Those that are still sent again.
#[derive(Default)]
pub(crate) struct LateAnswers {
    known: HashSet<u64>,
    /// Until when, and which, in the order of these times.
    kept: VecDeque<(u64, u64)>,
}

impl LateAnswers {
    /// Whether this one has not been seen; it is remembered until then.
    pub(crate) fn is_new(&mut self, now_ms: u64, until_ms: u64, answer: u64) -> bool {
        while let Some(&(old_until_ms, _)) = self.kept.front()
            && old_until_ms <= now_ms
        {
            self.forget_first();
        }
        if self.known.contains(&answer) {
            return false;
        }
        if self.kept.len() >= KEPT_MAX {
            self.forget_first();
        }
        self.known.insert(answer);
        self.kept.push_back((until_ms, answer));
        true
    }

    fn forget_first(&mut self) {
        if let Some((_, old)) = self.kept.pop_front() {
            self.known.remove(&old);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_new_once_while_it_is_sent_again() {
        let mut late = LateAnswers::default();
        assert!(late.is_new(0, 32_000, 7));
        assert!(!late.is_new(500, 32_500, 7));
        assert!(late.is_new(500, 32_500, 8));
        assert!(late.is_new(32_000, 64_000, 7));
        assert!(!late.is_new(32_000, 64_000, 8));
        assert!(late.is_new(32_500, 64_500, 8));
        assert_eq!((late.known.len(), late.kept.len()), (2, 2));
    }

    #[test]
    fn they_are_bounded() {
        let mut late = LateAnswers::default();
        let count = KEPT_MAX as u64 + 10;
        for answer in 0..count {
            assert!(late.is_new(0, 32_000, answer));
        }
        assert_eq!((late.known.len(), late.kept.len()), (KEPT_MAX, KEPT_MAX));
        assert!(!late.is_new(0, 32_000, 10), "the first that is left");
        assert!(!late.is_new(0, 32_000, count - 1));
        assert!(late.is_new(0, 32_000, 0));
    }
}
