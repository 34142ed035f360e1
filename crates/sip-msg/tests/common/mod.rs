//! The torture messages: this project's own, and those of RFC 4475, which lie
//! outside the repository.

use std::path::{Path, PathBuf};

/// A folder of messages. Its verdicts are `conformance/NAME/verdicts.toml`.
pub(crate) struct Corpus {
    pub(crate) name: &'static str,
    folder: &'static str,
    extension: &'static str,
}

/// Both of them. The first is always there.
pub(crate) const CORPORA: [Corpus; 2] = [
    Corpus {
        name: "torture",
        folder: "../../conformance/torture",
        extension: "sip",
    },
    Corpus {
        name: "rfc4475",
        folder: "../../../shared/conformance/rfc4475",
        extension: "dat",
    },
];

impl Corpus {
    /// Name and bytes of each message; none, with a word about it, where the
    /// folder is not there.
    pub(crate) fn messages(&self) -> Vec<(String, Vec<u8>)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(self.folder);
        let Ok(entries) = std::fs::read_dir(&folder) else {
            println!("{}: {} is not there", self.name, folder.display());
            return Vec::new();
        };
        let named = |path: PathBuf| {
            let name = path.file_stem().expect("a name").to_string_lossy();
            let bytes = std::fs::read(&path).expect("the file can be read");
            (name.into_owned(), bytes)
        };
        let mut messages: Vec<_> = entries
            .map(|entry| entry.expect("the folder can be read").path())
            .filter(|path| path.extension().is_some_and(|e| e == self.extension))
            .map(named)
            .collect();
        messages.sort();
        messages
    }
}
