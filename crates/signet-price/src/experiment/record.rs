//! What a run of an experiment found: JSON with `"format": "signet-bed-prices"` and
//! `"version": 1`. Within a version fields are only added, each with a default.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use signet_bed::Error;
use signet_bed::experiment::PricesExperiment;

use crate::record::{PriceRecord, format_of, read_as};
use crate::tunnel::TunnelRecord;

/// The name in every file.
pub const FORMAT: &str = "signet-bed-prices";
/// The version that this crate writes and reads.
pub const VERSION: u32 = 1;

/// A run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PricesRecord {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The experiment's name.
    pub experiment: String,
    /// The experiment's file as it was, so that a page can be drawn without it.
    pub experiment_toml: String,
    /// `short` or `long`.
    pub form: String,
    /// The command line of the run.
    pub command: String,
    /// When it began, seconds since 1970.
    pub started_unix_s: u64,
    /// When it ended, seconds since 1970.
    pub ended_unix_s: u64,
    /// What packets cost.
    pub packets: PriceRecord,
    /// What tunnels carry; `None` where none could be measured.
    pub tunnels: Option<TunnelRecord>,
    /// Why no tunnel was measured, with the remedy; empty where some were, or none was asked for.
    pub tunnels_missed: String,
}

/// Reads a record.
///
/// # Errors
/// That the file is not there, or what it is in the place of a record of this version.
pub fn read(path: &Path) -> Result<PricesRecord, Error> {
    read_as(path, FORMAT, VERSION, "signet bed run niedermayer-2006")
}

/// Draws the page of a record beside it, or of each in a folder; gives the pages. Files of
/// another form are passed over.
///
/// # Errors
/// Names the file that cannot be read or written.
pub fn report(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let is_own = |path: &PathBuf| format_of(path).is_ok_and(|format| format == FORMAT);
    let mut records: Vec<PathBuf> = match std::fs::read_dir(path) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(_) => vec![path.to_owned()],
    };
    records.retain(|path| path.extension().is_some_and(|it| it == "json") && is_own(path));
    records.sort();
    records.iter().map(|path| drawn(path)).collect()
}

fn drawn(path: &Path) -> Result<PathBuf, Error> {
    let record = read(path)?;
    let kept = format!("{} (experiment_toml)", path.display());
    let experiment = PricesExperiment::from_text(Path::new(&kept), &record.experiment_toml)
        .map_err(|error| Error::new(error.to_string(), "run the experiment again"))?;
    let page = path.with_extension("html");
    let text = super::render(&experiment, &record)?;
    measure::file::write_text(&page, &text)
        .map_err(|error| Error::new(error, "make room there, or copy the record elsewhere"))?;
    Ok(page)
}
