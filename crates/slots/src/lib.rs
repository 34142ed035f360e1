#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod spares;
#[cfg(test)]
mod tests;

pub use spares::Spares;

use invariant::broken;

/// Names a value: its slot, and the generation of that slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// The slot.
    pub slot: u32,
    /// The generation, different for each value in the slot.
    pub generation: u32,
}

const SEGMENT_BITS: u32 = 10;
/// Slots of a segment.
const SEGMENT: usize = 1 << SEGMENT_BITS;
/// No slot.
const NIL: u32 = u32::MAX;

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    /// Of a free slot, the next free one of its segment.
    next_free: u32,
    value: Option<T>,
}

#[derive(Debug)]
struct Segment<T> {
    /// Empty where the memory was given back; else filled from the front.
    slots: Vec<Slot<T>>,
    /// The first of those that were used and are free.
    free: u32,
    live: u32,
    /// Whether a value came in since the last trim.
    was_used: bool,
}

impl<T> Segment<T> {
    const fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: NIL,
            live: 0,
            was_used: false,
        }
    }
}

/// Values under names.
#[derive(Debug)]
pub struct Slots<T> {
    segments: Vec<Segment<T>>,
    /// A bit for each segment that has room.
    open: Vec<u64>,
    /// No word of `open` before this one has a bit.
    first_open: usize,
    slots_max: usize,
    live: usize,
    held_segments: usize,
    generation: u32,
}

impl<T> Slots<T> {
    /// An empty table of at most `slots_max` values.
    pub const fn new(slots_max: usize) -> Self {
        Self {
            segments: Vec::new(),
            open: Vec::new(),
            first_open: 0,
            slots_max,
            live: 0,
            held_segments: 0,
            generation: 0,
        }
    }

    /// Inserts a value; `None` when the table is full.
    pub fn insert(&mut self, value: T) -> Option<Name> {
        if self.live >= self.slots_max {
            return None;
        }
        let number = self.open_segment()?;
        let Some(segment) = self.segments.get_mut(number) else {
            return broken!("a segment with room is one of the table's", None);
        };
        if segment.slots.capacity() == 0 {
            segment.slots.reserve_exact(SEGMENT);
            self.held_segments += 1;
        }
        let generation = self.generation;
        self.generation = generation.wrapping_add(1);
        let place = match segment.slots.get_mut(segment.free as usize) {
            Some(slot) => {
                let place = segment.free;
                segment.free = slot.next_free;
                slot.generation = generation;
                slot.value = Some(value);
                place
            }
            None => {
                let place = segment.slots.len() as u32;
                segment.slots.push(Slot {
                    generation,
                    next_free: NIL,
                    value: Some(value),
                });
                place
            }
        };
        segment.live += 1;
        segment.was_used = true;
        self.live += 1;
        if segment.live as usize == SEGMENT {
            self.set_open(number, false);
        }
        Some(Name {
            slot: (number as u32) << SEGMENT_BITS | place,
            generation,
        })
    }

    /// The value of that name.
    pub fn get(&self, name: Name) -> Option<&T> {
        let slot = self.slot(name.slot)?;
        slot.value
            .as_ref()
            .filter(|_| slot.generation == name.generation)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, name: Name) -> Option<&mut T> {
        let slot = self.slot_mut(name.slot)?;
        slot.value
            .as_mut()
            .filter(|_| slot.generation == name.generation)
    }

    /// Removes the value of that name.
    pub fn remove(&mut self, name: Name) -> Option<T> {
        let number = (name.slot >> SEGMENT_BITS) as usize;
        let segment = self.segments.get_mut(number)?;
        let place = name.slot & (SEGMENT as u32 - 1);
        let slot = segment.slots.get_mut(place as usize)?;
        if slot.generation != name.generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.next_free = segment.free;
        segment.free = place;
        let was_full = segment.live as usize == SEGMENT;
        segment.live -= 1;
        self.live -= 1;
        if was_full {
            self.set_open(number, true);
        }
        Some(value)
    }

    /// The value in a slot, of any generation, with its name.
    pub fn at(&self, slot: u32) -> Option<(Name, &T)> {
        let entry = self.slot(slot)?;
        let generation = entry.generation;
        let value = entry.value.as_ref()?;
        Some((Name { slot, generation }, value))
    }

    /// The same, to be changed.
    pub fn at_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.slot_mut(slot)?.value.as_mut()
    }

    /// How many values there are.
    pub const fn len(&self) -> usize {
        self.live
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// The bytes that the table holds, without what its values own.
    pub const fn held_bytes(&self) -> usize {
        self.held_segments * SEGMENT * size_of::<Slot<T>>()
    }

    /// Frees the segments that were empty since the last call.
    pub fn trim(&mut self) {
        for segment in &mut self.segments {
            let was_used = std::mem::replace(&mut segment.was_used, segment.live > 0);
            if !was_used && segment.live == 0 && segment.slots.capacity() > 0 {
                *segment = Segment::new();
                self.held_segments -= 1;
            }
        }
    }

    /// The first segment with room: the last ones empty themselves.
    fn open_segment(&mut self) -> Option<usize> {
        while let Some(word) = self.open.get(self.first_open) {
            if *word != 0 {
                return Some(self.first_open * 64 + word.trailing_zeros() as usize);
            }
            self.first_open += 1;
        }
        let number = self.segments.len();
        if number >> (32 - SEGMENT_BITS) != 0 {
            return None;
        }
        self.segments.push(Segment::new());
        self.set_open(number, true);
        Some(number)
    }

    fn set_open(&mut self, number: usize, is_open: bool) {
        let (word, bit) = (number / 64, 1 << (number % 64));
        if word >= self.open.len() {
            self.open.resize(word + 1, 0);
        }
        let Some(bits) = self.open.get_mut(word) else {
            return broken!("there is a bit for each segment");
        };
        if is_open {
            *bits |= bit;
            self.first_open = self.first_open.min(word);
        } else {
            *bits &= !bit;
        }
    }

    fn slot(&self, slot: u32) -> Option<&Slot<T>> {
        let segment = self.segments.get((slot >> SEGMENT_BITS) as usize)?;
        segment.slots.get(slot as usize % SEGMENT)
    }

    fn slot_mut(&mut self, slot: u32) -> Option<&mut Slot<T>> {
        let segment = self.segments.get_mut((slot >> SEGMENT_BITS) as usize)?;
        segment.slots.get_mut(slot as usize % SEGMENT)
    }
}
