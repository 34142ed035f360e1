//! The messages of RFC 4475, which lie outside the repository.

use std::path::Path;

/// How many there are.
pub(crate) const COUNT: usize = 49;

/// Name and bytes of each; `None`, with a word about it, where the folder is
/// not there.
pub(crate) fn torture_messages() -> Option<Vec<(String, Vec<u8>)>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance/rfc4475");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("skipped: {} is not there", folder.display());
        return None;
    };
    let mut messages: Vec<(String, Vec<u8>)> = entries
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|e| e == "dat"))
        .map(|path| {
            let name = path
                .file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            (name, std::fs::read(&path).expect("the file can be read"))
        })
        .collect();
    messages.sort();
    assert_eq!(messages.len(), COUNT, "in {}", folder.display());
    Some(messages)
}
