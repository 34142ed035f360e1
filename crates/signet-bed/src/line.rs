//! What is under way in one direction of one connection, in its order.

use std::collections::VecDeque;

/// A queue whose members leave in the order in which they came, none before its time.
#[derive(Clone, Debug)]
pub struct Line<T> {
    queue: VecDeque<(u64, T)>,
    last_due_ns: u64,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            last_due_ns: 0,
        }
    }
}

impl<T> Line<T> {
    /// Puts something behind all others; it leaves at `due_ns`, or later where one before it
    /// does.
    pub fn push(&mut self, due_ns: u64, what: T) {
        self.last_due_ns = self.last_due_ns.max(due_ns);
        self.queue.push_back((self.last_due_ns, what));
    }

    /// When the first may leave.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.queue.front().map(|(due_ns, _)| *due_ns)
    }

    /// Those that may leave now, with their times, the first of them first.
    pub fn due(&self, now_ns: u64) -> impl Iterator<Item = (u64, &T)> {
        let is_due = move |entry: &&(u64, T)| entry.0 <= now_ns;
        self.queue
            .iter()
            .take_while(is_due)
            .map(|(due_ns, what)| (*due_ns, what))
    }

    /// Takes the first, due or not.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        self.queue.pop_front()
    }

    /// Takes the first where it is due.
    pub fn pop_due(&mut self, now_ns: u64) -> Option<(u64, T)> {
        match self.next_due_ns() {
            Some(due_ns) if due_ns <= now_ns => self.pop(),
            _ => None,
        }
    }

    /// Puts one back in front that was just taken from there.
    pub fn put_back(&mut self, due_ns: u64, what: T) {
        self.queue.push_front((due_ns, what));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Drops all.
    pub fn clear(&mut self) {
        self.queue.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_whatever_the_times() {
        let mut line = Line::default();
        for (due_ns, what) in [(10, 'a'), (30, 'b'), (20, 'c'), (40, 'd')] {
            line.push(due_ns, what);
        }
        assert_eq!(line.pop_due(9), None);
        assert_eq!(line.pop_due(10), Some((10, 'a')));
        assert_eq!(line.pop_due(29), None, "c waits for b");
        let due: Vec<char> = line.due(30).map(|(_, what)| *what).collect();
        assert_eq!(due, ['b', 'c']);
        assert_eq!(line.next_due_ns(), Some(30));
        line.clear();
        assert!(line.is_empty());
    }
}
