//! Files that are written whole or not at all.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

/// Writes a file: to a temporary name beside it first, then renamed, so that nobody reads half
/// of it and what was there before stays where this one cannot be written. What is there and
/// no ordinary file, as `/dev/stdout`, is written to. It is on the disk when this returns.
///
/// # Errors
/// As the system says; nothing is left beside it then.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    put(path, bytes, fs::File::sync_all)
}

/// The same without waiting for the disk: for what is told anew several times a second.
///
/// # Errors
/// As [`write`].
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    put(path, bytes, |_| Ok(()))
}

fn put(path: &Path, bytes: &[u8], keep: fn(&fs::File) -> io::Result<()>) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        let mut file = fs::OpenOptions::new().write(true).open(path)?;
        return file.write_all(bytes);
    }
    let Some(name) = path.file_name() else {
        return Err(io::Error::other(
            "no file name; write a path such as result.json",
        ));
    };
    let mut temporary = name.to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(temporary);
    let written = fs::File::create(&temporary)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| keep(&file)))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// The same of text; an error names the file.
///
/// # Errors
/// As [`write`].
pub fn write_text(path: &Path, text: &str) -> Result<(), String> {
    write(path, text.as_bytes())
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// The same of a value as JSON, for people to read too.
///
/// # Errors
/// As [`write`], and what JSON cannot hold.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), String> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    write_text(path, &(text + "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_leaves_what_was_there_and_nothing_beside_it() {
        let folder = std::env::temp_dir().join(format!("measure-file-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a.json");
        write_json(&path, &[1, 2]).unwrap();
        let kept = "[\n  1,\n  2\n]\n";
        assert_eq!(fs::read_to_string(&path).unwrap(), kept);
        // A folder can be neither renamed over nor written to.
        fs::create_dir(folder.join("b.json")).unwrap();
        let error = write_text(&folder.join("b.json"), "x").unwrap_err();
        assert!(error.contains("cannot write") && error.contains("b.json"));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_device_is_written_to_and_stays_one() {
        assert!(write(Path::new("/dev/null"), b"x").is_ok());
        let full = Path::new("/dev/full");
        let error = write_text(full, "x").unwrap_err();
        assert!(error.contains("/dev/full"), "{error}");
        assert!(!fs::metadata(full).unwrap().is_file());
        assert!(write(Path::new("/"), b"x").is_err());
    }
}
