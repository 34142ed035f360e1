//! Calls that ended a while ago, known by the hash of their Call-ID, so that
//! their late messages begin no calls.

use std::collections::VecDeque;

use hashbrown::HashMap;

/// Calls remembered; past it the oldest is forgotten.
const DEAD_MAX: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Dead {
    keep_ms: u64,
    until_ms: HashMap<u64, u64>,
    order: VecDeque<(u64, u64)>,
}

impl Dead {
    pub(super) fn new(keep_ms: u64) -> Self {
        Self {
            keep_ms,
            until_ms: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    pub(super) fn remember(&mut self, hash: u64, now_ms: u64) {
        if self.keep_ms == 0 {
            return;
        }
        if self.order.len() >= DEAD_MAX {
            self.forget_first();
        }
        let until_ms = now_ms.saturating_add(self.keep_ms);
        self.until_ms.insert(hash, until_ms);
        self.order.push_back((hash, until_ms));
    }

    /// Whether a message is a late one of such a call, which is then remembered for
    /// its whole time again.
    pub(super) fn hears(&mut self, hash: u64, now_ms: u64) -> bool {
        let Some(&until_ms) = self.until_ms.get(&hash).filter(|until| now_ms < **until) else {
            return false;
        };
        if until_ms < now_ms.saturating_add(self.keep_ms) {
            self.remember(hash, now_ms);
        }
        true
    }

    /// Forgets those whose time is over.
    pub(super) fn forget(&mut self, now_ms: u64) {
        while self
            .order
            .front()
            .is_some_and(|(_, until)| *until <= now_ms)
        {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((hash, until)) = self.order.pop_front()
            && self.until_ms.get(&hash) == Some(&until)
        {
            self.until_ms.remove(&hash);
        }
    }
}
