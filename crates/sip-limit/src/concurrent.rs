//! Limits of what goes on at a time: the calls of a user, the calls over a group of gateways.
//!
//! A [`CountedCall`] is one call's. It is given back when it is dropped, so whatever ends a call, and
//! whatever keeps one from beginning, gives it back. The table has an entry for each name that
//! has a place, and so no more entries than there are calls.

use std::collections::HashMap;
use std::hash::Hasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use invariant::broken;
use siphasher::sip::SipHasher13;

use crate::names::write_user;

/// Parts of the table with a lock each.
const STRIPES: usize = 64;

/// Whose places they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner<'n> {
    /// A user, by name and realm, however the name is spelt.
    User(&'n [u8], &'n [u8]),
    /// A group of gateways, by its name.
    Group(&'n [u8]),
    /// A user who forwards calls, by name and realm, whoever calls.
    Forwards(&'n [u8], &'n [u8]),
    /// The same, and the caller.
    Forward(&'n [u8], &'n [u8], &'n [u8]),
}

/// How many places each owner has taken; shared by all workers.
pub struct Concurrent {
    key: [u8; 16],
    stripes: Box<[Mutex<HashMap<u64, u32>>]>,
}

/// One place, taken until it is dropped.
pub struct CountedCall {
    of: Arc<Concurrent>,
    hash: u64,
}

impl Concurrent {
    /// With no place taken. The key is secret, because phones choose names.
    pub fn new(key: [u8; 16]) -> Self {
        Self {
            key,
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
        }
    }

    /// Takes a place where fewer than `max` are taken.
    pub fn take(self: &Arc<Self>, owner: Owner<'_>, max: u32) -> Option<CountedCall> {
        let hash = self.hash(owner);
        let mut stripe = self.stripe(hash)?;
        let taken = stripe.get(&hash).copied().unwrap_or(0);
        if taken >= max {
            return None;
        }
        stripe.insert(hash, taken + 1);
        drop(stripe);
        Some(CountedCall {
            of: Arc::clone(self),
            hash,
        })
    }

    /// How many places that one has taken.
    pub fn taken(&self, owner: Owner<'_>) -> u32 {
        let hash = self.hash(owner);
        let stripe = self.stripe(hash);
        stripe.and_then(|of| of.get(&hash).copied()).unwrap_or(0)
    }

    /// How many have taken any.
    pub fn owners(&self) -> usize {
        self.stripes.iter().map(|stripe| lock(stripe).len()).sum()
    }

    fn give_back(&self, hash: u64) {
        let Some(mut stripe) = self.stripe(hash) else {
            return;
        };
        match stripe.get_mut(&hash) {
            Some(taken) if *taken > 1 => *taken -= 1,
            Some(_) => _ = stripe.remove(&hash),
            None => broken!("a place that is given back was taken"),
        }
    }

    fn hash(&self, owner: Owner<'_>) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        match owner {
            Owner::User(name, realm) => {
                hasher.write_u8(0);
                write_user(&mut hasher, name, realm);
            }
            Owner::Forwards(name, realm) => {
                hasher.write_u8(3);
                write_user(&mut hasher, name, realm);
            }
            Owner::Forward(name, realm, caller) => {
                hasher.write_u8(2);
                write_user(&mut hasher, name, realm);
                hasher.write(caller);
            }
            Owner::Group(name) => {
                hasher.write_u8(1);
                hasher.write(name);
            }
        }
        hasher.finish()
    }

    fn stripe(&self, hash: u64) -> Option<MutexGuard<'_, HashMap<u64, u32>>> {
        let stripe = self.stripes.get((hash >> 32) as usize % STRIPES);
        match stripe {
            Some(stripe) => Some(lock(stripe)),
            None => broken!("there are STRIPES of them", None),
        }
    }
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        self.of.give_back(self.hash);
    }
}

impl std::fmt::Debug for CountedCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CountedCall").finish_non_exhaustive()
    }
}

fn lock(stripe: &Mutex<HashMap<u64, u32>>) -> MutexGuard<'_, HashMap<u64, u32>> {
    // A count is whole whenever the lock is free.
    stripe.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_by_owner_and_come_back() {
        let table = Arc::new(Concurrent::new([1; 16]));
        let alice = Owner::User(b"alice", b"example.org");
        let first = table.take(alice, 2).unwrap();
        let second = table
            .take(Owner::User(b"ALICE", b"example.org"), 2)
            .unwrap();
        assert!(table.take(alice, 2).is_none(), "however it is spelt");
        assert_eq!(table.taken(alice), 2);
        let others = [
            Owner::User(b"alice", b"example.net"),
            Owner::User(b"alic", b"eexample.org"),
            Owner::Group(b"alice"),
            Owner::Forwards(b"alice", b"example.org"),
            Owner::Forward(b"alice", b"example.org", b""),
        ];
        for other in others {
            assert_eq!(table.taken(other), 0);
        }
        drop(first);
        assert_eq!(table.taken(alice), 1);
        let third = table.take(alice, 2).unwrap();
        assert!(table.take(alice, 2).is_none());
        drop((second, third));
        assert_eq!((table.taken(alice), table.owners()), (0, 0));
        assert!(table.take(alice, 0).is_none());
        assert_eq!(table.owners(), 0);
    }

    #[test]
    fn threads_never_have_more_than_there_are() {
        let table = Arc::new(Concurrent::new([2; 16]));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let table = Arc::clone(&table);
                scope.spawn(move || {
                    for _ in 0..2_000 {
                        let place = table.take(Owner::Group(b"trunk"), 2);
                        assert!(table.taken(Owner::Group(b"trunk")) <= 2);
                        drop(place);
                    }
                });
            }
        });
        assert_eq!(table.owners(), 0);
    }
}
