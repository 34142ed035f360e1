//! Reading a record.

use std::path::Path;

use serde::Deserialize;

use super::{FORMAT, Record, VERSION};
use crate::Error;

/// Of larger files no more is read, and they are refused.
const BYTES_MAX: u64 = 1 << 30;

/// What says whether the rest can be read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Head {
    format: String,
    version: u64,
}

/// Whether a file says that it is a record, of whatever version.
pub fn is_record(path: &Path) -> bool {
    let head = text_of(path).and_then(|text| head_of(path, &text));
    head.is_ok_and(|head| head.format == FORMAT)
}

/// Reads a record.
///
/// # Errors
/// That the file is not there, or what it is in the place of a record of this version.
pub fn read(path: &Path) -> Result<Record, Error> {
    let text = text_of(path)?;
    let head = head_of(path, &text)?;
    if head.format != FORMAT || head.version != u64::from(VERSION) {
        let why = format!(
            "its format is {:?} and its version {}; this program reads {FORMAT:?}, version {VERSION}",
            head.format, head.version
        );
        return Err(wrong(path, &why));
    }
    let mut record: Record =
        serde_json::from_str(&text).map_err(|error| wrong(path, &error.to_string()))?;
    // Records from before repeats said so: an address is of the one server that there is.
    if record.address.is_some() {
        let results = record.results.iter_mut();
        for repeat in results.flat_map(|result| &mut result.repeats) {
            repeat.is_foreign = true;
        }
    }
    Ok(record)
}

fn head_of(path: &Path, text: &str) -> Result<Head, Error> {
    serde_json::from_str(text).map_err(|error| wrong(path, &error.to_string()))
}

fn text_of(path: &Path) -> Result<String, Error> {
    let failed = |error: std::io::Error| {
        Error::new(
            format!("cannot read {}: {error}", path.display()),
            "give the record.json of a run",
        )
    };
    measure::file::read_text(path, BYTES_MAX).map_err(failed)
}

fn wrong(path: &Path, why: &str) -> Error {
    Error::new(
        format!("{}: no record of a run: {why}", path.display()),
        "give a file that `signet bed run` of the same program wrote",
    )
}
