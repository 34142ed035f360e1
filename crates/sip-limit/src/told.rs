//! What the log has told of each source lately, so that a flood is a line and not a thousand.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// One line of a source in this time.
const EVERY_MS: u64 = 10_000;
/// Sources of which lines were written in that time; past it there are no lines of others.
const SOURCES_MAX: usize = 1_024;
/// How often sources are forgotten whose line was written too long ago to count.
const SWEEP_MS: u64 = 1_000;

/// What a line of log says beside its own event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tell {
    /// Events of the same source since the line before, of which no line was written.
    pub more: u64,
    /// How long ago that line was.
    pub since_s: u64,
}

/// What becomes of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// It is recorded, and a line of log is written of it.
    Line(Tell),
    /// It is recorded.
    Record,
    /// It is counted and nothing else.
    Count,
}

/// What an event is of, as far as those of one source are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matter {
    /// Which table of sources counts it: those of one table crowd out nobody in another.
    pub table: Table,
    /// Events with the same number share their lines.
    pub group: u8,
    /// Whether whoever sent it does receive there: else the source may be forged, and
    /// takes no line from who really is there.
    pub is_proven: bool,
    /// Events of one source that are recorded in ten seconds.
    pub records_max: u64,
}

/// The tables of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Table {
    Routine,
    Strangers,
    Users,
}

/// A table of sources, by their keyed hashes; shared by all threads.
#[derive(Default)]
pub(crate) struct Told(Mutex<Lines>);

#[derive(Default)]
struct Lines {
    by_source: HashMap<u64, Line>,
    swept_ms: u64,
}

struct Line {
    at_ms: u64,
    unwritten: u64,
}

impl Told {
    /// What becomes of an event of a source. `records_max` are recorded for each line.
    pub(crate) fn note(&self, now_ms: u64, source: u64, records_max: u64) -> Note {
        // Each change is whole by itself.
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |line: &Line| now_ms.saturating_sub(line.at_ms) >= EVERY_MS;
        if let Some(line) = lines.by_source.get_mut(&source) {
            if !is_over(line) {
                line.unwritten += 1;
                return match line.unwritten < records_max {
                    true => Note::Record,
                    false => Note::Count,
                };
            }
            let tell = Tell {
                more: line.unwritten,
                since_s: (now_ms - line.at_ms) / 1_000,
            };
            *line = Line {
                at_ms: now_ms,
                unwritten: 0,
            };
            return Note::Line(tell);
        }
        if lines.by_source.len() >= SOURCES_MAX {
            if now_ms < lines.swept_ms.saturating_add(SWEEP_MS) {
                return Note::Count;
            }
            lines.swept_ms = now_ms;
            lines.by_source.retain(|_, line| !is_over(line));
            if lines.by_source.len() >= SOURCES_MAX {
                return Note::Count;
            }
        }
        let line = Line {
            at_ms: now_ms,
            unwritten: 0,
        };
        lines.by_source.insert(source, line);
        Note::Line(Tell::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Note = Note::Line(Tell {
        more: 0,
        since_s: 0,
    });

    #[test]
    fn a_source_has_one_line_in_a_while_that_counts_the_others() {
        let told = Told::default();
        assert_eq!(told.note(5_000, 1, 1), FIRST);
        for nth in 0..3 {
            assert_eq!(told.note(5_001 + nth, 1, 1), Note::Count);
        }
        assert_eq!(told.note(14_999, 1, 1), Note::Count);
        assert_eq!(told.note(6_000, 2, 1), FIRST, "of another");
        let tell = Tell {
            more: 4,
            since_s: 12,
        };
        assert_eq!(told.note(17_000, 1, 1), Note::Line(tell));
        assert_eq!(told.note(26_999, 1, 1), Note::Count);
    }

    #[test]
    fn some_are_recorded_for_each_line() {
        let told = Told::default();
        let notes: Vec<Note> = (0..6).map(|nth| told.note(1_000 + nth, 1, 4)).collect();
        let [first, recorded @ .., fifth, sixth] = &notes[..] else {
            panic!("{notes:?}");
        };
        assert_eq!(*first, FIRST);
        assert_eq!(recorded, [Note::Record; 3]);
        assert_eq!([*fifth, *sixth], [Note::Count; 2]);
    }

    #[test]
    fn lines_are_bounded_whoever_comes_and_places_come_back() {
        let told = Told::default();
        let lines = |from_ms: u64, sources: std::ops::Range<u64>| {
            sources
                .filter(|source| told.note(from_ms, *source, 9) != Note::Count)
                .count()
        };
        assert_eq!(lines(50_000, 0..100_000), SOURCES_MAX);
        assert_eq!(lines(59_000, 100_000..200_000), 0);
        assert_eq!(lines(60_000, 200_000..300_000), SOURCES_MAX);
    }
}
