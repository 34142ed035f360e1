//! A table of debts that threads share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::debts::Debts;

/// Stripes of each table.
const STRIPES: usize = 16;

/// A table in stripes with a lock each.
pub(crate) struct Striped {
    first: Mutex<Debts>,
    others: Vec<Mutex<Debts>>,
}

impl Striped {
    pub(crate) fn new(entries_max: usize, per_s: f64) -> Self {
        let stripe = || Mutex::new(Debts::new(entries_max / STRIPES, per_s));
        Self {
            first: stripe(),
            others: (1..STRIPES).map(|_| stripe()).collect(),
        }
    }

    pub(crate) fn stripe(&self, hash: u64) -> MutexGuard<'_, Debts> {
        let nth = (hash >> 56) as usize % STRIPES;
        let stripe = self.others.get(nth).unwrap_or(&self.first);
        // A change of a table is one store: it is whole whenever the lock is free.
        stripe.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn debt(&self, hash: u64, now_ms: u64) -> u64 {
        self.stripe(hash).debt(hash, now_ms)
    }

    pub(crate) fn charge(&self, hash: u64, now_ms: u64, amount: u64, most: u64) -> u64 {
        self.stripe(hash).charge(hash, now_ms, amount, most)
    }

    pub(crate) fn forgive(&self, hash: u64, now_ms: u64, amount: u64) {
        self.stripe(hash).forgive(hash, now_ms, amount);
    }

    /// The same for one that is there; whether it is.
    pub(crate) fn renew(&self, hash: u64, now_ms: u64, to: u64) -> bool {
        let mut table = self.stripe(hash);
        let is_there = table.debt(hash, now_ms) > 0;
        if is_there {
            table.charge(hash, now_ms, to, to);
        }
        is_there
    }

    /// Sets it to `to` where it is less.
    pub(crate) fn raise(&self, hash: u64, now_ms: u64, to: u64) {
        self.stripe(hash).charge(hash, now_ms, to, to);
    }
}
