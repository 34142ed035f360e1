//! A table whose slots keep their memory: a removed value is reset, not dropped, so
//! that the next one in its slot allocates nothing.

use crate::agent::NOBODY;
use invariant::broken;

/// Names a slot and the value in it; a stale key finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// What can live in a slot.
pub(crate) trait Reset: Default {
    /// Forgets everything and keeps the memory.
    fn reset(&mut self);
}

/// The slots, at most `max` of them in use.
pub(crate) struct Slots<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
    live: usize,
    max: usize,
}

struct Entry<T> {
    generation: u32,
    is_live: bool,
    value: T,
}

impl<T: Reset> Slots<T> {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            live: 0,
            // A transaction's context has 28 bits for the slot.
            max: max.min(1 << 28),
        }
    }

    /// Takes room for so many more at once.
    pub(crate) fn reserve(&mut self, more: usize) {
        let more = more.min(self.max);
        self.entries.reserve(more);
        self.free.reserve(more);
    }

    /// Takes a slot, whose value is as `reset` left it.
    pub(crate) fn insert(&mut self) -> Option<Key> {
        if self.is_full() {
            return None;
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                // Below `max`, which fits.
                let slot = self.entries.len() as u32;
                let mut value = T::default();
                value.reset();
                self.entries.push(Entry {
                    generation: 0,
                    is_live: false,
                    value,
                });
                slot
            }
        };
        let Some(entry) = self.entries.get_mut(slot as usize) else {
            return broken!("a free slot is one of the table's", None);
        };
        entry.generation = entry.generation.wrapping_add(1);
        entry.is_live = true;
        self.live += 1;
        Some(Key {
            slot,
            generation: entry.generation,
        })
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let entry = self.entries.get(key.slot as usize)?;
        (entry.is_live && entry.generation == key.generation).then_some(&entry.value)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let entry = self.entries.get_mut(key.slot as usize)?;
        (entry.is_live && entry.generation == key.generation).then_some(&mut entry.value)
    }

    /// The name of what lives in that slot now.
    pub(crate) fn key_of(&self, slot: u32) -> Option<Key> {
        let entry = self.entries.get(slot as usize)?;
        entry.is_live.then_some(Key {
            slot,
            generation: entry.generation,
        })
    }

    /// The neighbour that a list names by its slot; `None` at the end of the list.
    pub(crate) fn neighbour_mut(&mut self, slot: u32) -> Option<&mut T> {
        if slot == NOBODY {
            return None;
        }
        let live = self.entries.get_mut(slot as usize);
        let live = live.filter(|entry| entry.is_live);
        match live {
            Some(entry) => Some(&mut entry.value),
            None => broken!("lists name only what lives", None),
        }
    }

    /// What lives in that slot now.
    pub(crate) fn at(&self, slot: u32) -> Option<&T> {
        let entry = self.entries.get(slot as usize)?;
        entry.is_live.then_some(&entry.value)
    }

    pub(crate) fn remove(&mut self, key: Key) -> bool {
        let Some(entry) = self.entries.get_mut(key.slot as usize) else {
            return false;
        };
        if !entry.is_live || entry.generation != key.generation {
            return false;
        }
        entry.value.reset();
        entry.is_live = false;
        self.live -= 1;
        self.free.push(key.slot);
        true
    }

    /// Whether there is no room for one more.
    pub(crate) fn is_full(&self) -> bool {
        self.live >= self.max
    }

    pub(crate) fn len(&self) -> usize {
        self.live
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Reset for Vec<u8> {
        fn reset(&mut self) {
            self.clear();
        }
    }

    #[test]
    fn a_stale_name_finds_nothing_and_memory_stays() {
        let mut slots: Slots<Vec<u8>> = Slots::new(2);
        let first = slots.insert().unwrap();
        slots.get_mut(first).unwrap().extend_from_slice(b"hello");
        let capacity = slots.get(first).unwrap().capacity();
        assert!(slots.remove(first));
        assert!(!slots.remove(first));
        assert!(slots.get(first).is_none());
        let second = slots.insert().unwrap();
        assert_eq!(second.slot, first.slot);
        assert!(
            slots.get(first).is_none(),
            "the slot is used again, the name is not"
        );
        assert!(slots.get(second).unwrap().is_empty());
        assert_eq!(slots.get(second).unwrap().capacity(), capacity);
    }

    #[test]
    fn no_more_than_the_bound() {
        let mut slots: Slots<Vec<u8>> = Slots::new(2);
        let keys = [slots.insert(), slots.insert(), slots.insert()];
        assert_eq!(keys.iter().flatten().count(), 2);
        assert_eq!(slots.len(), 2);
    }
}
