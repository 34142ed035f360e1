//! Digests that did not match what a cache has of a user.

use super::{Attempt, Guard, ONE, SOURCE_FAILURES_MAX, USER_FAILURES_MAX};
use crate::striped::Striped;

impl Guard {
    /// Whether the digest of this attempt may be compared with what a cache has of the user.
    /// Else it is for the store alone to say whether it is right.
    pub fn may_compare(&self, now_ms: u64, attempt: &Attempt) -> bool {
        let is_known = |hash| self.known.debt(hash, now_ms) > 0;
        if self.limits.failures_max == 0 || attempt.is_answer && is_known(attempt.flow) {
            return true;
        }
        let accounts = self.mismatches(attempt);
        let bounds = accounts.get(..if is_known(attempt.known_pair) { 1 } else { 3 });
        let mut bounds = bounds.unwrap_or_default().iter();
        bounds.all(|(table, hash, max)| table.debt(*hash, now_ms) + ONE <= *max)
    }

    /// A digest did not match what a cache has of the user. Whether the sender ever hears of
    /// it is the store's matter: who goes before it answers, or asks while it cannot, has
    /// tried a password all the same.
    ///
    /// Unless it `was_held`, there was nothing to compare it with and nothing is charged: the
    /// accounts are looked at all the same, since what takes longer would show.
    pub fn mismatched(&self, now_ms: u64, attempt: &Attempt, was_held: bool) {
        for (table, hash, max) in self.mismatches(attempt) {
            match was_held {
                true => table.charge(hash, now_ms, ONE, max),
                false => table.debt(hash, now_ms),
            };
        }
        match attempt.is_answer {
            true if was_held => self.known.forgive(attempt.flow, now_ms, u64::MAX),
            true => _ = self.known.debt(attempt.flow, now_ms),
            false => {}
        }
    }

    /// The accounts of digests that did not match what a cache has, with their bounds. They
    /// are not those of failures: who is past these is told so, and that would tell that
    /// there was something to compare with.
    fn mismatches(&self, attempt: &Attempt) -> [(&Striped, u64, u64); 3] {
        let of = |hash: u64| hash ^ self.hash_of(b"mismatches", b"");
        let pair_max = u64::from(self.limits.failures_max);
        [
            (&self.pairs, of(attempt.pair), pair_max * ONE),
            (&self.users, of(attempt.user), USER_FAILURES_MAX * ONE),
            (&self.sources, of(attempt.source), SOURCE_FAILURES_MAX * ONE),
        ]
    }
}
