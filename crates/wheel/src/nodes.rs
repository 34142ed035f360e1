//! The timers' memory: nodes of lists, under names that grow stale.

use invariant::broken;
use slots::{Name, Slots};

/// No node.
pub(crate) const NIL: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Node<K> {
    key: K,
    /// The deadline.
    pub(crate) tick: u64,
    pub(crate) prev: u32,
    /// The next node of the list.
    pub(crate) next: u32,
    pub(crate) list: u16,
}

#[derive(Debug)]
pub(crate) struct Nodes<K>(Slots<Node<K>>);

impl<K> Default for Nodes<K> {
    fn default() -> Self {
        Self(Slots::new(NIL as usize))
    }
}

impl<K> Nodes<K> {
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) const fn held_bytes(&self) -> usize {
        self.0.held_bytes()
    }

    pub(crate) fn trim(&mut self) {
        self.0.trim();
    }

    /// A node for this timer: its slot and generation.
    pub(crate) fn take(&mut self, tick: u64, key: K) -> Option<(u32, u32)> {
        let name = self.0.insert(Node {
            key,
            tick,
            prev: NIL,
            next: NIL,
            list: 0,
        })?;
        Some((name.slot, name.generation))
    }

    /// Frees a node and gives what it carried.
    pub(crate) fn free(&mut self, slot: u32) -> Option<K> {
        let (name, _) = self.0.at(slot)?;
        self.0.remove(name).map(|node| node.key)
    }

    /// The node, if it is still of that generation.
    pub(crate) fn live(&self, slot: u32, generation: u32) -> Option<&Node<K>> {
        self.0.get(Name { slot, generation })
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&Node<K>> {
        self.0.at(slot).map(|(_, node)| node)
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut Node<K>> {
        self.0.at_mut(slot)
    }

    /// The neighbour that a list names; `None` at the list's end.
    pub(crate) fn neighbour_mut(&mut self, slot: u32) -> Option<&mut Node<K>> {
        if slot == NIL {
            return None;
        }
        let node = self.get_mut(slot);
        node.or_else(|| broken!("lists name only timers that run", None))
    }
}
