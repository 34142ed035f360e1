//! Names that a store refused a statement for.

use std::collections::VecDeque;

use super::table::Line;

/// How many are remembered, and for how long.
const SUSPECTS_MAX: usize = 64;
const SUSPECT_US: u64 = 60_000_000;

/// Names that spoiled a statement are asked for alone for a while, so that whoever sends
/// them again spoils nobody else's. The table is small and forgets the oldest.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    names: VecDeque<Suspect>,
}

#[derive(Clone, Copy, Debug)]
struct Suspect {
    hash: u64,
    until_us: u64,
    /// The line in which it is asked.
    line: Line,
}

impl Suspects {
    pub(super) fn note(&mut self, now_us: u64, hash: u64, line: Line) {
        let before = self.find(hash).map(|one| one.line);
        self.names.retain(|one| one.hash != hash);
        if self.names.len() >= SUSPECTS_MAX {
            self.names.pop_front();
        }
        self.names.push_back(Suspect {
            hash,
            until_us: now_us.saturating_add(SUSPECT_US),
            line: before.map_or(line, |before| before.max(line)),
        });
    }

    /// It was answered: it is not one that never is.
    pub(super) fn answered(&mut self, hash: u64) {
        if let Some(one) = self.names.iter_mut().find(|one| one.hash == hash) {
            one.line = Line::Apart;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The line in which a name is to be asked.
    pub(super) fn line(&mut self, now_us: u64, hash: u64) -> Line {
        let is_over = |one: &Suspect| one.until_us <= now_us;
        while self.names.front().is_some_and(is_over) {
            self.names.pop_front();
        }
        self.find(hash).map_or(Line::Shared, |one| one.line)
    }

    fn find(&self, hash: u64) -> Option<&Suspect> {
        self.names.iter().find(|one| one.hash == hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_suspect_for_a_while_and_the_oldest_makes_room() {
        let mut suspects = Suspects::default();
        suspects.note(0, 1, Line::Apart);
        assert_eq!(suspects.line(59_999_999, 1), Line::Apart);
        assert_eq!(suspects.line(0, 2), Line::Shared);
        assert_eq!(suspects.line(60_000_000, 1), Line::Shared);
        for hash in 0..100 {
            suspects.note(0, hash, Line::Apart);
        }
        let known = [35, 36, 99].map(|hash| suspects.line(0, hash));
        assert_eq!(known, [Line::Shared, Line::Apart, Line::Apart]);
    }

    #[test]
    fn what_was_lost_alone_is_taken_never_to_be_answered_until_it_is() {
        let mut suspects = Suspects::default();
        suspects.note(0, 1, Line::Hung);
        suspects.note(1, 1, Line::Apart);
        assert_eq!(suspects.line(2, 1), Line::Hung);
        suspects.answered(1);
        assert_eq!(suspects.line(3, 1), Line::Apart);
    }
}
