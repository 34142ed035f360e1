//! A free list.

/// The most that one [`Spares::trim`] drops, so that it takes no long time.
const TRIM_MAX: usize = 8_192;

/// A stack of spare values: the one that was pushed last is taken first, so that those
/// that are not needed stay at the bottom.
#[derive(Debug)]
pub struct Spares<T> {
    stack: Vec<T>,
    /// The fewest that there were since the last trim.
    fewest: usize,
}

impl<T> Default for Spares<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Spares<T> {
    /// None.
    pub const fn new() -> Self {
        Self {
            stack: Vec::new(),
            fewest: 0,
        }
    }

    /// Takes the spare that was pushed last.
    pub fn pop(&mut self) -> Option<T> {
        let spare = self.stack.pop();
        self.fewest = self.fewest.min(self.stack.len());
        spare
    }

    /// Adds a spare.
    pub fn push(&mut self, spare: T) {
        self.stack.push(spare);
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.stack.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.stack.is_empty()
    }

    /// Drops half of those that were not needed since the last call; `goes` sees each
    /// before it is dropped.
    pub fn trim(&mut self, mut goes: impl FnMut(&T)) {
        let unneeded = self.fewest.div_ceil(2).min(TRIM_MAX);
        for spare in self.stack.drain(..unneeded.min(self.stack.len())) {
            goes(&spare);
        }
        if self.stack.capacity() > 64 && self.stack.len() < self.stack.capacity() / 4 {
            self.stack.shrink_to(self.stack.len() * 2);
        }
        self.fewest = self.stack.len();
    }
}
