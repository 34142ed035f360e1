//! Rows of an operator's own statement that are nobody's who was asked for.

use std::cell::Cell;

/// Answers in a row of which no row is of who was asked for, after which answers and questions have
/// come apart. One says nothing: an operator's statement may select what it likes.
const STRAYS_MAX: u8 = 4;

/// The last answers of one connection.
#[derive(Debug, Default)]
pub(crate) struct Strays(Cell<u8>);

impl Strays {
    /// Takes what an answer was: whether a row of it was of somebody who was asked for, and whether
    /// one was of somebody else. Whether answers and questions on this connection have come apart.
    pub(crate) fn have_come_apart(&self, has_own: bool, has_other: bool) -> bool {
        match (has_own, has_other) {
            (true, _) => self.0.set(0),
            (false, true) => self.0.set(self.0.get().saturating_add(1)),
            // Of a user who does not exist there are no rows.
            (false, false) => {}
        }
        self.0.get() >= STRAYS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_about_others_in_a_row_count() {
        let strays = Strays::default();
        for _ in 0..3 {
            assert!(!strays.have_come_apart(false, true));
            assert!(!strays.have_come_apart(false, false));
        }
        assert!(!strays.have_come_apart(true, true));
        for _ in 0..3 {
            assert!(!strays.have_come_apart(false, true));
        }
        assert!(strays.have_come_apart(false, true));
    }
}
