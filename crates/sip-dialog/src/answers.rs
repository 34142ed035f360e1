//! The final responses given, by method and status.

use sip_msg::Method;

/// Final responses that were given to requests, by method and status. One that is sent
/// again counts once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// A handful: methods are few, and so are the statuses that are given.
    counts: Vec<(Method, u16, u64)>,
}

impl Answers {
    pub(crate) fn count(&mut self, method: Method, status: u16) {
        if status >= 200 {
            self.add(method, status, 1);
        }
    }

    fn add(&mut self, method: Method, status: u16, count: u64) {
        let known = self
            .counts
            .iter_mut()
            .find(|known| (known.0, known.1) == (method, status));
        match known {
            Some(known) => known.2 += count,
            None => self.counts.push((method, status, count)),
        }
    }

    /// Adds another's to these.
    pub fn merge(&mut self, other: &Self) {
        for &(method, status, count) in &other.counts {
            self.add(method, status, count);
        }
    }

    /// Method, status and how many, in the order in which each came first.
    pub fn iter(&self) -> impl Iterator<Item = (Method, u16, u64)> + '_ {
        self.counts.iter().copied()
    }

    /// How many of this status to requests of this method.
    pub fn of(&self, method: Method, status: u16) -> u64 {
        self.iter()
            .find(|found| (found.0, found.1) == (method, status))
            .map_or(0, |found| found.2)
    }
}
