//! Lines that wait, at most so many.

use std::collections::VecDeque;

/// Lines in their order.
pub(super) struct Lines {
    waiting: VecDeque<String>,
    max: usize,
}

impl Lines {
    pub(super) fn new(max: usize) -> Self {
        Self {
            waiting: VecDeque::new(),
            max,
        }
    }

    /// Takes a line, with its end; false where there is no room.
    pub(super) fn push(&mut self, line: String) -> bool {
        let has_room = self.waiting.len() < self.max;
        if has_room {
            self.waiting.push_back(line);
        }
        has_room
    }

    /// The first lines as one text, and how many they are; `None` where none waits.
    pub(super) fn front(&self, max: usize) -> Option<(String, usize)> {
        let first: Vec<&str> = self.waiting.iter().take(max).map(String::as_str).collect();
        (!first.is_empty()).then(|| (first.concat(), first.len()))
    }

    /// Drops so many of the first.
    pub(super) fn pop(&mut self, count: usize) {
        self.waiting.drain(..count.min(self.waiting.len()));
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}
