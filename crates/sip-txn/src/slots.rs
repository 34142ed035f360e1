//! Values in slots that are used again, each under a name of slot and
//! generation, so that the names of values that are gone are harmless.

use crate::id::{Name, SLOT_MAX};

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
    pub(crate) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Takes room for so many more at once.
    pub(crate) fn reserve(&mut self, more: usize) {
        let more = more.min(SLOT_MAX);
        self.slots.reserve(more);
        self.free.reserve(more);
    }

    /// `None` when all [`SLOT_MAX`] slots are taken.
    pub(crate) fn insert(&mut self, value: T) -> Option<Name> {
        if let Some(number) = self.free.pop() {
            let slot = self.slots.get_mut(number as usize)?;
            slot.value = Some(value);
            return Some(Name {
                slot: number,
                generation: slot.generation,
            });
        }
        if self.slots.len() >= SLOT_MAX {
            return None;
        }
        let number = self.slots.len() as u32;
        self.slots.push(Slot {
            generation: 0,
            value: Some(value),
        });
        Some(Name {
            slot: number,
            generation: 0,
        })
    }

    pub(crate) fn get(&self, name: Name) -> Option<&T> {
        let slot = self.slots.get(name.slot as usize)?;
        slot.value
            .as_ref()
            .filter(|_| slot.generation == name.generation)
    }

    pub(crate) fn get_mut(&mut self, name: Name) -> Option<&mut T> {
        let slot = self.slots.get_mut(name.slot as usize)?;
        slot.value
            .as_mut()
            .filter(|_| slot.generation == name.generation)
    }

    pub(crate) fn remove(&mut self, name: Name) -> Option<T> {
        let slot = self.slots.get_mut(name.slot as usize)?;
        if slot.generation != name.generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(name.slot);
        Some(value)
    }

    /// The value in a slot, whatever its generation, with its name.
    pub(crate) fn at(&self, slot: u32) -> Option<(Name, &T)> {
        let entry = self.slots.get(slot as usize)?;
        let value = entry.value.as_ref()?;
        Some((
            Name {
                slot,
                generation: entry.generation,
            },
            value,
        ))
    }

    /// The same, to be changed.
    pub(crate) fn at_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.slots.get_mut(slot as usize)?.value.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_value_that_is_gone_finds_nothing() {
        let mut slots = Slots::new();
        let first = slots.insert("a").unwrap();
        assert_eq!(slots.remove(first), Some("a"));
        let second = slots.insert("b").unwrap();
        assert_eq!(second.slot, first.slot);
        assert_eq!(slots.get(first), None);
        assert_eq!(slots.get_mut(first), None);
        assert_eq!(slots.remove(first), None);
        assert_eq!(slots.get(second), Some(&"b"));
        assert_eq!(slots.at(second.slot), Some((second, &"b")));
    }
}
