//! What the operator orders of one worker, or wants to know of its shard.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use invariant::broken;
use sip_engine::registrar::Removal;
use sip_engine::{Now, Shard};

use crate::{Environment, Worker};

/// Orders that wait for a worker; past it the next is refused.
const ORDERS_MAX: usize = 64;

/// What is done with the outcome of a removal: how many contacts are gone, or `Err` where
/// the store did not say so in time.
pub type Removed = Box<dyn FnOnce(Result<usize, ()>) + Send>;
/// What looks at a shard, in its worker's thread: it copies what it wants to know, and no
/// more of it than a message costs that waits meanwhile.
pub type Look = Box<dyn FnOnce(&Shard, Now) + Send>;

/// An order.
pub enum Order {
    /// Contacts of a user whose bindings belong to that worker's shard are removed.
    Remove {
        /// The address-of-record, in the registrar's canonical form.
        aor: Arc<[u8]>,
        /// The URI of the one contact that is meant; all of them without it.
        contact: Option<Box<[u8]>>,
        /// Who is told of the outcome.
        then: Removed,
    },
    /// Something of the shard is wanted.
    Look(Look),
}

/// The orders that wait for one worker.
#[derive(Default)]
pub(crate) struct Orders {
    /// Whether there are any: a worker looks each turn.
    is_any: AtomicBool,
    waiting: Mutex<Vec<Order>>,
}

impl Orders {
    /// Adds one; false where too many wait.
    pub(crate) fn give(&self, order: Order) -> bool {
        let mut waiting = self.lock();
        if waiting.len() >= ORDERS_MAX {
            return false;
        }
        waiting.push(order);
        self.is_any.store(true, Ordering::Release);
        true
    }

    /// Takes them all.
    pub(crate) fn take(&self) -> Vec<Order> {
        if !self.is_any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut waiting = self.lock();
        self.is_any.store(false, Ordering::Release);
        std::mem::take(&mut waiting)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Order>> {
        // A list is whole whenever the lock is free.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The removals that the shard has, by their numbers.
#[derive(Default)]
pub(crate) struct Removals {
    last: u64,
    under_way: HashMap<u64, Removed>,
}

impl<E: Environment> Worker<E> {
    /// Carries out what was ordered since the last turn.
    pub(super) fn take_orders(&mut self) {
        for order in self.parts.control.orders_of(self.parts.index) {
            match order {
                Order::Look(look) => look(&self.parts.shard, self.now),
                Order::Remove { aor, contact, then } => {
                    self.removals.last += 1;
                    let order = self.removals.last;
                    self.removals.under_way.insert(order, then);
                    let removal = Removal {
                        order,
                        aor,
                        contact,
                    };
                    let (shard, out) = (&mut self.parts.shard, &mut self.outputs);
                    shard.remove_bindings(self.now, removal, out);
                    self.is_dirty = true;
                }
            }
        }
    }

    /// Tells who ordered a removal what came of it.
    pub(super) fn removed(&mut self, order: u64, removed: Result<usize, ()>) {
        match self.removals.under_way.remove(&order) {
            Some(then) => then(removed),
            None => broken!("the outcome of an order is told once"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_taken_once_and_no_more_wait_than_there_is_room_for() {
        let orders = Orders::default();
        assert!(orders.take().is_empty());
        let given = (0..ORDERS_MAX + 3).filter(|_| orders.give(Order::Look(Box::new(|_, _| {}))));
        assert_eq!(given.count(), ORDERS_MAX);
        assert_eq!(orders.take().len(), ORDERS_MAX);
        assert!(orders.take().is_empty());
        assert!(orders.give(Order::Look(Box::new(|_, _| {}))));
    }
}
