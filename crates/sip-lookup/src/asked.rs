//! What one thread has asked and not heard of yet.

use std::collections::HashMap;

use sip_auth::Subject;

use crate::keyed::Keyed;

/// The subjects that a thread has questions under way for.
///
/// A hit of the cache is answered on the spot and would overtake a question about the same
/// subject that the pipeline still has, or whose answer is on its way back. So that the
/// order of one user's REGISTERs holds, a thread asks the pipeline, which keeps their
/// order, while [`Asked::holds`] says so, and the cache otherwise. All REGISTERs of a user
/// are one thread's (docs/decisions/0007).
///
/// It holds as many subjects as the thread has requests parked, and is bounded with them.
#[derive(Clone)]
pub struct Asked {
    under_way: HashMap<Subject, u32, Keyed>,
}

impl Asked {
    /// With nothing under way. Strangers choose the names, so the key is secret.
    pub fn new(hash_key: [u8; 16]) -> Self {
        Self {
            under_way: HashMap::with_hasher(Keyed(hash_key)),
        }
    }

    /// A question about it was submitted.
    pub fn begin(&mut self, subject: &Subject) {
        match self.under_way.get_mut(subject) {
            Some(count) => *count = count.saturating_add(1),
            None => {
                self.under_way.insert(subject.clone(), 1);
            }
        }
    }

    /// A question about it was answered, refused or given up. One that was not begun
    /// changes nothing.
    pub fn end(&mut self, subject: &Subject) {
        let Some(count) = self.under_way.get_mut(subject) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.under_way.remove(subject);
        }
    }

    /// Whether a question about it is under way, so that the cache must not be asked.
    pub fn holds(&self, subject: &Subject) -> bool {
        !self.under_way.is_empty() && self.under_way.contains_key(subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_held_until_the_last_question_about_it_ends() {
        let alice = Subject::new(b"alice", "example.org".into());
        let bob = Subject::new(b"bob", "example.org".into());
        let mut asked = Asked::new([1; 16]);
        assert!(!asked.holds(&alice));
        asked.begin(&alice);
        asked.begin(&alice);
        asked.end(&alice);
        assert!(asked.holds(&alice) && !asked.holds(&bob));
        asked.end(&bob);
        asked.end(&alice);
        assert!(!asked.holds(&alice));
        assert!(asked.under_way.is_empty());
    }
}
