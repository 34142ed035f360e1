//! The contexts of a shard, by their keys.

use invariant::broken;
use slots::Spares;

use super::owner::{GENERATION_MASK, Key, SLOT_BITS};
use super::{Candidate, Context};
use crate::records::Followed;

/// All contexts of a shard. Contexts and their memory are used again.
#[derive(Default)]
pub(crate) struct Contexts {
    slots: Vec<Slot>,
    free: Vec<u32>,
    // Boxed: a context goes in and out by its pointer.
    spare: Spares<Box<Context>>,
    /// Target sets of contexts that need them no more.
    target_sets: Spares<Vec<Candidate>>,
    /// The memory of these.
    target_sets_bytes: usize,
    live: usize,
    /// The memory of the messages of those in the table.
    messages_bytes: usize,
}

struct Slot {
    generation: u32,
    context: Option<Box<Context>>,
}

impl Contexts {
    /// Those whose final response is still to come. Looks at every slot.
    pub(crate) fn unanswered(&self) -> usize {
        let contexts = self.slots.iter().filter_map(|slot| slot.context.as_ref());
        contexts.filter(|context| !context.is_final_sent).count()
    }

    /// Takes the records of the calls in it. Looks at every slot.
    pub(crate) fn take_records(&mut self) -> impl Iterator<Item = Followed> {
        let contexts = self
            .slots
            .iter_mut()
            .filter_map(|slot| slot.context.as_mut());
        contexts.filter_map(|context| context.record.take())
    }

    /// A context that is not in the table yet; [`Contexts::put`] puts it there.
    /// `None` when `max` are live.
    pub(crate) fn open(&mut self, max: usize) -> Option<(Key, Box<Context>)> {
        if self.live >= max.min(1 << SLOT_BITS) {
            return None;
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                // Below `1 << SLOT_BITS`.
                let slot = self.slots.len() as u32;
                self.slots.push(Slot {
                    generation: 0,
                    context: None,
                });
                slot
            }
        };
        let Some(generation) = self.slots.get(slot as usize).map(|slot| slot.generation) else {
            return broken!("a free slot is one of the table's", None);
        };
        self.live += 1;
        let mut context = self.spare.pop().unwrap_or_else(|| Box::new(Context::new()));
        if context.candidates.capacity() == 0
            && let Some(target_set) = self.target_sets.pop()
        {
            self.target_sets_bytes -= memory_of(&target_set);
            context.candidates = target_set;
        }
        Some((Key { slot, generation }, context))
    }

    /// Takes a context out, to work on it.
    pub(crate) fn take(&mut self, key: Key) -> Option<Box<Context>> {
        let slot = self.slots.get_mut(key.slot as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        let context = slot.context.take()?;
        self.messages_bytes -= context.messages_bytes;
        Some(context)
    }

    /// Puts a context back, or in.
    pub(crate) fn put(&mut self, key: Key, context: Box<Context>) {
        let Some(slot) = self.slots.get_mut(key.slot as usize) else {
            return broken!("a context that was opened has its slot");
        };
        if slot.context.is_some() {
            broken!("a context was taken out to be put back");
        }
        self.messages_bytes += context.messages_bytes;
        slot.context = Some(context);
    }

    /// Ends a context that was taken out.
    pub(crate) fn close(&mut self, key: Key, mut context: Box<Context>, pool: &mut sip_msg::Pool) {
        context.reset(pool);
        self.spare.push(context);
        let Some(slot) = self.slots.get_mut(key.slot as usize) else {
            return broken!("a context that was opened has its slot");
        };
        slot.generation = (slot.generation + 1) & GENERATION_MASK;
        self.free.push(key.slot);
        self.live -= 1;
    }

    /// Takes a target set that is not needed any more: contexts that only wait
    /// for repetitions are many, and should be small. A context whose set was taken has none.
    pub(crate) fn keep_target_set(&mut self, context: &mut Context) {
        let mut target_set = std::mem::take(&mut context.candidates);
        if target_set.capacity() == 0 {
            return;
        }
        target_set.clear();
        self.target_sets_bytes += memory_of(&target_set);
        self.target_sets.push(target_set);
    }

    /// How many are live.
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// The memory of the contexts, those to be used again among them, and of
    /// the messages that they keep.
    pub(crate) fn held_bytes(&self) -> usize {
        let contexts = self.live + self.spare.len();
        contexts * size_of::<Context>()
            + self.slots.capacity() * size_of::<Slot>()
            + self.target_sets_bytes
            + self.messages_bytes
    }

    /// Gives back memory that nothing has needed since the last call.
    pub(crate) fn trim(&mut self) {
        self.spare.trim(|_| {});
        let bytes = &mut self.target_sets_bytes;
        self.target_sets.trim(|gone| *bytes -= memory_of(gone));
    }
}

/// The memory of a target set.
fn memory_of(target_set: &Vec<Candidate>) -> usize {
    target_set.capacity() * size_of::<Candidate>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_and_target_sets_are_counted_as_long_as_they_are_there() {
        let mut pool = sip_msg::Pool::default();
        let mut contexts = Contexts::default();
        let (key, mut context) = contexts.open(1).unwrap();
        context.count_messages();
        contexts.put(key, context);
        let empty = contexts.held_bytes();

        let mut context = contexts.take(key).unwrap();
        context.best.challenges = vec![0; 10_000];
        context.count_messages();
        contexts.put(key, context);
        assert_eq!(contexts.held_bytes(), empty + 10_000);

        let mut context = contexts.take(key).unwrap();
        context.forget_messages(&mut pool);
        assert_eq!(context.best.challenges.capacity(), 0);
        // Once it is given back there is none to be given back again.
        context.candidates = Vec::with_capacity(3);
        for _ in 0..1_000 {
            contexts.keep_target_set(&mut context);
        }
        contexts.put(key, context);
        let sets = contexts.held_bytes() - empty;
        assert!(sets >= 3 * size_of::<Candidate>(), "{sets}");
        assert!(sets < 10 * size_of::<Candidate>(), "{sets}");
        let context = contexts.take(key).unwrap();
        contexts.close(key, context, &mut pool);
        let (key, context) = contexts.open(1).unwrap();
        assert_eq!(contexts.held_bytes(), empty);
        assert!(context.candidates.capacity() >= 3);
        contexts.put(key, context);
    }

    #[test]
    fn a_stale_key_finds_nobody_and_a_bound_holds() {
        let mut pool = sip_msg::Pool::default();
        let mut contexts = Contexts::default();
        let (first, context) = contexts.open(1).unwrap();
        contexts.put(first, context);
        assert!(contexts.open(1).is_none());
        let context = contexts.take(first).unwrap();
        assert!(contexts.take(first).is_none());
        contexts.close(first, context, &mut pool);
        assert_eq!(contexts.len(), 0);
        let (second, context) = contexts.open(1).unwrap();
        contexts.put(second, context);
        assert_eq!(first.slot, second.slot);
        assert!(contexts.take(first).is_none());
        assert!(contexts.take(second).is_some());
    }
}
