//! What is wrong with a scenario or an injection file, and where.

/// Warnings that are kept of one file.
const WARNINGS_MAX: usize = 200;

/// A mistake in a file: it is reported before the first packet is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, as it was named.
    pub file: String,
    /// The line, counted from 1.
    pub line: u32,
    /// The byte within the line, counted from 1.
    pub column: u32,
    /// What is wrong, and the remedy.
    pub what: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}:{}:{}: {}",
            self.file, self.line, self.column, self.what
        )
    }
}

impl std::error::Error for Problem {}

/// A file's bytes, from which a byte's line and column are found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) name: &'a str,
    pub(crate) bytes: &'a [u8],
}

impl Source<'_> {
    /// The line and the column of the byte at `offset`.
    pub(crate) fn line_and_column(&self, offset: usize) -> (u32, u32) {
        let before = self.bytes.get(..offset).unwrap_or(self.bytes);
        let line = memchr::memchr_iter(b'\n', before).count() + 1;
        let column = before.len() - memchr::memrchr(b'\n', before).map_or(0, |at| at + 1) + 1;
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        (number(line), number(column))
    }

    pub(crate) fn problem(&self, offset: usize, what: impl Into<String>) -> Problem {
        let (line, column) = self.line_and_column(offset);
        Problem {
            file: self.name.to_owned(),
            line,
            column,
            what: what.into(),
        }
    }
}

/// What SIPp passes over without a word, and we with one: the first of them.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    list: Vec<Problem>,
}

impl Warnings {
    pub(crate) fn add(&mut self, source: Source<'_>, offset: usize, what: impl Into<String>) {
        // Past the bound not even its place is looked for.
        if self.list.len() < WARNINGS_MAX {
            self.list.push(source.problem(offset, what));
        }
    }

    /// Takes over what others found.
    pub(crate) fn append(&mut self, other: &mut Self) {
        let room = WARNINGS_MAX.saturating_sub(self.list.len());
        self.list.extend(other.list.drain(..).take(room));
    }

    /// In the order of the file.
    pub(crate) fn finish(mut self) -> Vec<Problem> {
        self.list
            .sort_by_key(|problem| (problem.line, problem.column));
        self.list
    }
}
