//! How much memory messages may hold, over all threads of a process.
//!
//! Each thread counts what it holds by itself and reports the sum once a turn
//! ([`Share::tell`]); no shared counter is touched for a message.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// What is refused at a given share of the budget in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Room {
    /// Nothing is refused.
    #[default]
    Enough,
    /// New work is refused; requests of dialogs and transactions that have begun pass.
    Scarce,
    /// Only responses, ACK, CANCEL and BYE pass.
    None,
    /// BYE is refused too: its transaction takes memory, and nothing in it proves that
    /// there is a call.
    Overdrawn,
}

/// The share of the budget past which nothing new is begun. The rest is for
/// what is under way.
pub const SCARCE_AT: f64 = 0.8;

/// The share of the budget past which not even calls are ended. What is above
/// the budget is for BYE alone.
pub const OVERDRAWN_AT: f64 = 1.125;

impl Room {
    /// The room at a share of the budget in use.
    pub fn at(pressure: f64) -> Self {
        if pressure >= OVERDRAWN_AT {
            Self::Overdrawn
        } else if pressure >= 1.0 {
            Self::None
        } else if pressure >= SCARCE_AT {
            Self::Scarce
        } else {
            Self::Enough
        }
    }
}

/// The bytes that messages may hold, and those that they do.
#[derive(Debug)]
pub struct Budget {
    bytes_max: u64,
    // Shares are told one after the other: in between the sum may be off, and
    // even below zero, by what has just gone from one thread to another.
    held: AtomicI64,
}

impl Budget {
    /// A budget of so many bytes.
    pub const fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            held: AtomicI64::new(0),
        }
    }

    /// A budget that is never spent.
    pub const fn unbounded() -> Self {
        Self::new(u64::MAX)
    }

    /// The bytes that messages may hold.
    pub const fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// The bytes that messages hold, as the threads last reported them.
    pub fn bytes_held(&self) -> u64 {
        u64::try_from(self.held.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// The share of the budget in use: 0 where nothing is held, 1 and more
    /// where it is spent.
    pub fn pressure(&self) -> f64 {
        self.bytes_held() as f64 / self.bytes_max.max(1) as f64
    }
}

/// One thread's share in what is held. It is given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    told: i64,
}

impl Share {
    /// A share that holds nothing yet.
    pub const fn new(budget: Arc<Budget>) -> Self {
        Self { budget, told: 0 }
    }

    /// Reports how many bytes this thread holds. It may be negative, where messages were
    /// handed over that another thread has counted.
    pub fn tell(&mut self, bytes: i64) {
        if bytes != self.told {
            self.budget
                .held
                .fetch_add(bytes - self.told, Ordering::Relaxed);
            self.told = bytes;
        }
    }

    /// The budget that it is a share of.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.tell(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_sum_up_and_give_back() {
        let budget = Arc::new(Budget::new(1_000));
        let mut first = Share::new(budget.clone());
        let mut second = Share::new(budget.clone());
        first.tell(300);
        second.tell(400);
        first.tell(200);
        assert_eq!(budget.bytes_held(), 600);
        assert_eq!(Room::at(budget.pressure()), Room::Enough);
        // The first gave 500 bytes away that it had counted.
        first.tell(-300);
        second.tell(1_100);
        assert_eq!(Room::at(budget.pressure()), Room::Scarce);
        second.tell(1_300);
        assert_eq!(Room::at(budget.pressure()), Room::None);
        second.tell(1_425);
        assert_eq!(Room::at(budget.pressure()), Room::Overdrawn);
        drop(second);
        assert_eq!(budget.bytes_held(), 0, "never less than nothing");
        drop(first);
        assert_eq!(budget.pressure(), 0.0);
        assert_eq!(Room::at(Budget::unbounded().pressure()), Room::Enough);
    }
}
