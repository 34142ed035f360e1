//! Files that results and traces are written to.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::Refusal;

/// A file. Its first failure is kept and told at the end; after it nothing more is
/// written there.
pub(crate) struct Out {
    path: PathBuf,
    file: BufWriter<File>,
    /// Whether something may stand in memory that is not in the file.
    is_behind: bool,
    failure: Option<io::Error>,
}

impl Out {
    /// Begins a file anew.
    pub(crate) fn create(path: &Path) -> Result<Self, Refusal> {
        match File::create(path) {
            Ok(file) => Ok(Self {
                path: path.to_owned(),
                file: BufWriter::new(file),
                is_behind: false,
                failure: None,
            }),
            Err(error) => Err(Refusal::fatal(cannot_write(path, &error))),
        }
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        if self.failure.is_none() {
            self.is_behind = true;
            self.failure = self.file.write_all(bytes).err();
        }
    }

    /// Lets others see what was written so far.
    pub(crate) fn flush(&mut self) {
        if self.is_behind && self.failure.is_none() {
            self.is_behind = false;
            self.failure = self.file.flush().err();
        }
    }

    /// Writes the rest; gives what went wrong, if anything ever did.
    pub(crate) fn finish(&mut self) -> Option<String> {
        self.flush();
        let failure = self.failure.as_ref()?;
        Some(cannot_write(&self.path, failure))
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}", path.display())
}
