//! Where users are known, and by which nonces they proved who they are.
//!
//! The other tables forget the smallest debt, which harms nobody. These hold what protects users, so
//! it is bounded how much of one user they take up, however many ports he comes from: of places that
//! are new there is only so much in a time, and as much again of those that are renewed. Of one user
//! some six hundred places are known at most, so nobody without seventy accounts pushes others out.

use super::{Attempt, Guard, KNOWN_MS, ONE};

/// How long a nonce is known: longer than nonces usually live.
const PROVED_MS: u64 = 600_000;
/// New places of one user, and new nonces, that are remembered at once.
const NEWS_MAX: u64 = 64;
/// One more of each is in so many seconds.
pub(super) const NEWS_S: f64 = 30.0;

impl Guard {
    /// Remembers where a user is, and for longer where less than half of the time is left.
    pub(super) fn remember_place(&self, now_ms: u64, attempt: &Attempt) {
        let places = [attempt.flow, attempt.known_pair, attempt.remote];
        let left = places.map(|hash| self.known.debt(hash, now_ms));
        let account = match left.into_iter().min() {
            Some(left) if left > KNOWN_MS / 2 => return,
            Some(1..) => attempt.renewals,
            _ => attempt.places,
        };
        if !self.is_room(now_ms, account) {
            return;
        }
        for hash in places {
            self.known.raise(hash, now_ms, KNOWN_MS);
        }
    }

    /// Remembers by which nonce he proved it, where it was sent to where he is.
    pub(super) fn remember_nonce(&self, now_ms: u64, attempt: &Attempt) {
        if attempt.is_answer
            && !self.proved.renew(attempt.proved, now_ms, PROVED_MS)
            && self.is_room(now_ms, attempt.nonces)
        {
            self.proved.raise(attempt.proved, now_ms, PROVED_MS);
        }
    }

    /// Whether something new is remembered of a user; it is charged to that account of his.
    fn is_room(&self, now_ms: u64, account: u64) -> bool {
        let mut table = self.news.stripe(account);
        let is_room = table.debt(account, now_ms) + ONE <= NEWS_MAX * ONE;
        if is_room {
            table.charge(account, now_ms, ONE, u64::MAX);
        }
        is_room
    }
}
