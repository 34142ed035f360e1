//! The timers' memory: one vector, a free list through it, and generations
//! that make old names stale.

/// No node.
pub(crate) const NIL: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Node<K> {
    /// `None` while free.
    key: Option<K>,
    /// The deadline.
    pub(crate) tick: u64,
    pub(crate) prev: u32,
    /// The next node of the list; of a free node, the next free one.
    pub(crate) next: u32,
    generation: u32,
    pub(crate) list: u16,
}

#[derive(Debug)]
pub(crate) struct Nodes<K> {
    nodes: Vec<Node<K>>,
    free: u32,
    live: usize,
}

impl<K> Default for Nodes<K> {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            free: NIL,
            live: 0,
        }
    }
}

impl<K> Nodes<K> {
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// A node for this timer: its slot and generation.
    pub(crate) fn take(&mut self, tick: u64, key: K) -> Option<(u32, u32)> {
        let slot = self.free;
        if let Some(node) = self.nodes.get_mut(slot as usize) {
            self.free = node.next;
            self.live += 1;
            node.key = Some(key);
            node.tick = tick;
            return Some((slot, node.generation));
        }
        let slot = u32::try_from(self.nodes.len())
            .ok()
            .filter(|slot| *slot != NIL)?;
        self.nodes.push(Node {
            key: Some(key),
            tick,
            prev: NIL,
            next: NIL,
            generation: 0,
            list: 0,
        });
        self.live += 1;
        Some((slot, 0))
    }

    /// Frees a node and gives what it carried.
    pub(crate) fn free(&mut self, slot: u32) -> Option<K> {
        let node = self.nodes.get_mut(slot as usize)?;
        let key = node.key.take()?;
        node.generation = node.generation.wrapping_add(1);
        node.next = self.free;
        self.free = slot;
        self.live -= 1;
        Some(key)
    }

    /// The node, if it is still of that generation.
    pub(crate) fn live(&self, slot: u32, generation: u32) -> Option<&Node<K>> {
        self.nodes
            .get(slot as usize)
            .filter(|node| node.generation == generation && node.key.is_some())
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&Node<K>> {
        self.nodes.get(slot as usize)
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut Node<K>> {
        self.nodes.get_mut(slot as usize)
    }
}
