//! What a replica that is left alone is tried with.

use super::table::What;
use crate::question::Rows;

/// Strangers choose what is asked, and a store may never answer one name while it answers all
/// others. So a replica is tried with what was answered last, whoever answered it, or with nobody
/// while nothing was, and while none is there each is tried every other time with what was refused
/// last: neither a name nor its row keeps a replica from being found back.
///
/// A user who was found is better than a name that nobody has: a store that fails over every user may
/// answer that still, and strangers do not choose who is found.
///
/// Where a store verifies digests it is nobody's digest each time: any verdict shows that the
/// store is there, and a user's that is sent again is a wrong one for a store that counts nonces.
#[derive(Debug, Default)]
pub(super) struct Probe {
    answered: Option<Rows>,
    /// What was answered is a user who was found.
    is_found: bool,
    asked: Option<Rows>,
}

impl Probe {
    pub(super) const fn is_empty(&self) -> bool {
        self.answered.is_none() && self.asked.is_none()
    }

    /// Whether a user was found, with whom a replica can be tried.
    pub(super) const fn has_found(&self) -> bool {
        self.is_found
    }

    /// Whether this asks for a user who was found.
    pub(super) fn is_found(&self, rows: &Rows) -> bool {
        self.is_found && self.answered.as_ref() == Some(rows)
    }

    /// A replica has answered this, and found a user or not.
    pub(super) fn answered(&mut self, rows: Rows, is_found: bool) {
        // He may be gone since.
        if is_found || !self.is_found || self.answered.as_ref() == Some(&rows) {
            self.answered = Some(rows);
            self.is_found = is_found;
        }
        self.asked = None;
    }

    /// This was refused, since no replica is there.
    pub(super) fn refused(&mut self, what: &What) {
        self.asked = Some(rows_of(what));
    }

    /// This was sent, or lost. It serves only where there is nothing better.
    pub(super) fn sent(&mut self, what: &What) {
        if self.answered.is_none() {
            self.asked = Some(rows_of(what));
        }
    }

    /// What to try a replica with the `nth` time.
    pub(super) fn rows(&self, nth: u32, is_outage: bool) -> Option<Rows> {
        let may_be_asked = is_outage || self.answered.is_none();
        let is_turn_of_asked = may_be_asked && nth.is_multiple_of(2);
        let asked = self.asked.as_ref().filter(|_| is_turn_of_asked);
        let known = asked.or(self.answered.as_ref()).cloned();
        known.or_else(|| nobody(self.asked.as_ref()?))
    }
}

/// A look-up as a statement of its own.
pub(super) fn rows_of(what: &What) -> Rows {
    match what {
        What::Secrets(subject) => Rows::Secrets(vec![subject.clone()]),
        What::Verify(digest) => {
            let rows = Rows::Verify(digest.clone());
            rows.about_nobody(&digest.realm)
        }
    }
}

/// The same question about nobody.
fn nobody(rows: &Rows) -> Option<Rows> {
    Some(rows.about_nobody(&rows.realm()?))
}
