//! `signet bed report`, `compare` and `table`: what is made of records.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use signet_bed::report;

/// 19 of 20 figures agree.
const EXIT_FINE: u8 = 0;
/// Too many figures differ.
const EXIT_DIFFERS: u8 = 1;
/// A file cannot be read, or the records have nothing in common.
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
}

#[derive(Debug, Args)]
pub(crate) struct TableOptions {
    /// Records, one of each experiment
    #[arg(value_name = "FILE", required = true)]
    records: Vec<PathBuf>,
    /// Where the page goes
    #[arg(long, short, value_name = "FILE", default_value = "table.html")]
    out: PathBuf,
}

/// The pages that were written, a line each.
pub(crate) fn report(options: &ReportOptions) -> Result<String, String> {
    let mut told = String::new();
    for path in &options.records {
        for page in report::report(path)? {
            told.push_str(&format!("{}\n", page.display()));
        }
    }
    Ok(told)
}

/// The page that was written.
pub(crate) fn table(options: &TableOptions) -> Result<String, String> {
    report::table(&options.records, &options.out)?;
    Ok(format!("{}\n", options.out.display()))
}

/// Prints what differs; gives the exit code.
pub(crate) fn compare(options: &CompareOptions) -> u8 {
    match report::compare_files(&options.a, &options.b) {
        Ok(comparison) => {
            // Nobody listens: nothing is lost.
            let _ = std::io::stdout().write_all(comparison.table(options.all).as_bytes());
            if comparison.holds() {
                EXIT_FINE
            } else {
                EXIT_DIFFERS
            }
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "signet bed compare: {error}");
            EXIT_USAGE
        }
    }
}
