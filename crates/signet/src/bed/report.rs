//! `signet bed report`, `compare` and `table`: what is made of records.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use measure::stdout::print;
use signet_bed::report;

/// All was written; of a comparison, 19 of 20 figures agree and no more than 1 in 20 is lost.
const EXIT_FINE: u8 = 0;
/// Too many figures differ, or only one of the records has them.
const EXIT_DIFFERS: u8 = 1;
/// A file cannot be read or written, or the records have nothing in common.
const EXIT_USAGE: u8 = 2;

#[derive(Debug, Args)]
pub(crate) struct ReportOptions {
    /// Records, or folders with records; each page is written beside its record
    #[arg(value_name = "FILE|DIR", required = true)]
    records: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CompareOptions {
    /// The earlier record
    a: PathBuf,
    /// The later one
    b: PathBuf,
    /// Name the figures that agree too
    #[arg(long)]
    all: bool,
    /// Write the comparison as JSON; - for standard output, in the place of the text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct TableOptions {
    /// Records, one of each experiment, or the folders of runs
    #[arg(value_name = "FILE|DIR", required = true)]
    records: Vec<PathBuf>,
    /// Where the page goes
    #[arg(long, short, value_name = "FILE", default_value = "table.html")]
    out: PathBuf,
}

/// Draws pages and prints their names, a line each; gives the exit code.
pub(crate) fn report(options: &ReportOptions) -> u8 {
    for path in &options.records {
        let pages = pages(path);
        let told =
            pages.and_then(|pages| print(pages.iter().map(|page| name(page)).collect::<String>()));
        if let Err(error) = told {
            return complain("report", &error);
        }
    }
    EXIT_FINE
}

/// The pages of a record, or of those in a folder, of either kind.
fn pages(path: &Path) -> Result<Vec<PathBuf>, String> {
    let priced = signet_price::experiment::report(path).map_err(|error| error.to_string())?;
    // In a folder with records of prices there need be no other.
    if !priced.is_empty() && !report::has_records(path)? {
        return Ok(priced);
    }
    Ok([priced, report::report(path)?].concat())
}

/// Draws a page and prints its name; gives the exit code.
pub(crate) fn table(options: &TableOptions) -> u8 {
    let drawn = report::table(&options.records, &options.out);
    match drawn.and_then(|()| print(name(&options.out))) {
        Ok(()) => EXIT_FINE,
        Err(error) => complain("table", &error),
    }
}

/// Prints what differs; gives the exit code.
pub(crate) fn compare(options: &CompareOptions) -> u8 {
    match try_compare(options) {
        Ok(code) => code,
        Err(error) => complain("compare", &error),
    }
}

fn try_compare(options: &CompareOptions) -> Result<u8, String> {
    let comparison = report::compare_files(&options.a, &options.b)?;
    let is_shown = match &options.json {
        Some(path) if path == Path::new("-") => {
            print(format!("{:#}\n", comparison.json()))?;
            false
        }
        Some(path) => {
            measure::file::write_json(path, &comparison.json())?;
            true
        }
        None => true,
    };
    if is_shown {
        print(comparison.table(options.all))?;
    }
    Ok(if comparison.holds() {
        EXIT_FINE
    } else {
        EXIT_DIFFERS
    })
}

fn name(page: &Path) -> String {
    format!("{}\n", page.display())
}

fn complain(verb: &str, error: &str) -> u8 {
    let _ = writeln!(std::io::stderr(), "signet bed {verb}: {error}");
    EXIT_USAGE
}
