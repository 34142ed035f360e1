//! The commands: a run with its picture, its files and its exit code.

mod check_self;
mod fleet;
mod peak;
mod picture;
mod report;
mod signals;
mod watching;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use measure::{
    Bounds, CompareConfig, RunResult, Threshold, ThresholdVerdict, compare as compare_results,
};

use crate::crew::{Control, Failed, Progress, run};
use crate::page;
use crate::settings::Settings;
pub use fleet::{drive_workers, worker};
pub use peak::{PeakSettings, peak};
use picture::Picture;
pub use report::{Circumstances, describe, result_of};
pub use watching::WatchTarget;
use watching::Watching;

/// The run ended, and nothing speaks against its result.
pub const EXIT_FINE: u8 = 0;
/// A threshold was crossed, or more failed than may. It wins over a doubt where it was
/// asked for: who set a threshold is told that it was crossed, by whomever.
pub const EXIT_FAILED: u8 = 1;
/// The command line, a file or an address is wrong.
pub const EXIT_USAGE: u8 = 2;
/// The generator could have made the result itself, and no threshold was crossed.
pub const EXIT_DOUBT: u8 = 3;
/// The run was interrupted; what there is was written.
pub const EXIT_INTERRUPTED: u8 = 130;

/// What is to be done with a result.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// The command line, for the record.
    pub command: String,
    /// The version of the program.
    pub program_version: String,
    /// Where the result goes as JSON.
    pub json: Option<PathBuf>,
    /// Where the series goes as CSV.
    pub csv: Option<PathBuf>,
    /// Where the result goes as a page.
    pub html: Option<PathBuf>,
    /// Whether only the result is printed.
    pub quiet: bool,
    /// Thresholds that decide over the exit code.
    pub thresholds: Vec<Threshold>,
    /// The share of arrivals that may fail, from 0 to 1; `None` for none, of which a
    /// generator that doubts itself is not so sure.
    pub failures_max: Option<f64>,
    /// The bounds past which the generator doubts itself.
    pub bounds: Bounds,
    /// Processes whose CPU time and memory are watched.
    pub watch: Vec<WatchTarget>,
    /// Whether the same load is first driven straight to a called side here.
    pub check_self: bool,
}

/// Runs a load, or a called side, to its end; gives the exit code.
pub fn drive(settings: Settings, output: &Output) -> u8 {
    if let Err(error) = try_files(output) {
        return complain(EXIT_USAGE, &error);
    }
    let control = Control::new();
    if let Err(error) = signals::watch(&control) {
        return complain(EXIT_USAGE, &error);
    }
    finish(try_drive(settings, output, &control), output, &control)
}

/// Whether what is asked for can be written, before a run that would be lost without it.
fn try_files(output: &Output) -> Result<(), String> {
    let files = [&output.json, &output.csv, &output.html];
    for path in files.into_iter().flatten() {
        if !is_standard_output(path) {
            measure::file::try_write(path)?;
        }
    }
    Ok(())
}

/// Prints and writes what came of a run; gives the exit code.
fn finish(driven: Result<RunResult, Failed>, output: &Output, control: &Control) -> u8 {
    match driven {
        Ok(result) => {
            if let Err(error) = write(&result, output) {
                return complain(EXIT_USAGE, &error);
            }
            verdict(&result, output)
        }
        Err(Failed::Usage(error)) => complain(EXIT_USAGE, &error),
        Err(Failed::Run(_)) if control.is_interrupted() => EXIT_INTERRUPTED,
        Err(Failed::Run(error)) => complain(EXIT_FAILED, &error),
    }
}

/// Runs a load and gives its result; files are not written.
///
/// # Errors
/// As [`run`], and where a process cannot be watched.
pub fn try_drive(
    settings: Settings,
    output: &Output,
    control: &Control,
) -> Result<RunResult, Failed> {
    try_drive_with(settings, output, control, &mut |_| {})
}

/// The same, and `tell` is called whenever it is drawn.
pub(crate) fn try_drive_with(
    settings: Settings,
    output: &Output,
    control: &Control,
    tell: &mut dyn FnMut(&Progress<'_>),
) -> Result<RunResult, Failed> {
    invariant::report_by(|broken| {
        eprintln!("a fault of this program, please report this line: {broken}");
    });
    settings.check().map_err(Failed::Usage)?;
    let watching = Watching::new(&output.watch).map_err(Failed::Usage)?;
    let self_peak_per_s =
        if output.check_self && settings.schedule.is_some() && settings.direct.is_none() {
            check_self::check_self(
                &settings,
                &control.without_gate(),
                output.quiet,
                output.bounds,
            )?
        } else {
            None
        };
    let started_unix_ms = unix_ms();
    let mut picture = Picture::new(&settings, output.quiet, output.bounds, watching);
    let described = settings.clone();
    let ran = run(settings, control, &mut |progress| {
        picture.draw(progress);
        tell(progress);
    })?;
    let mut watching = picture.end();
    let (watched, processes) = watching.end();
    let circumstances = Circumstances {
        command: output.command.clone(),
        program_version: output.program_version.clone(),
        started_unix_ms,
        self_peak_per_s,
        claims_limit: false,
        cpu_by_second: watching.cpu_by_second(),
        own_memory_bytes: watching.own_memory_bytes(),
        watched,
        processes,
        bounds: output.bounds,
    };
    let mut result = result_of(ran, &described, circumstances);
    result.conclude(&output.thresholds);
    Ok(result)
}

/// Compares two results in files; gives the exit code.
pub fn compare(a: &Path, b: &Path) -> u8 {
    let read = |path: &Path| RunResult::read(path).map_err(|error| error.to_string());
    let (a, b) = match (read(a), read(b)) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(error), _) | (_, Err(error)) => return complain(EXIT_USAGE, &error),
    };
    let comparison = compare_results(&a, &b, &CompareConfig::default());
    if let Err(error) = print(&comparison.table()) {
        return complain(EXIT_USAGE, &error);
    }
    if comparison.any_worse() {
        EXIT_FAILED
    } else {
        EXIT_FINE
    }
}

/// Prints a result that is in a file, and writes its page; gives the exit code.
pub fn report(file: &Path, html: Option<&Path>) -> u8 {
    let result = match RunResult::read(file) {
        Ok(result) => result,
        Err(error) => return complain(EXIT_USAGE, &error.to_string()),
    };
    let output = Output {
        html: html.map(Path::to_path_buf),
        ..Output::default()
    };
    match write(&result, &output) {
        Ok(()) => EXIT_FINE,
        Err(error) => complain(EXIT_USAGE, &error),
    }
}

/// Prints the table and writes the files, also where it could not be printed.
fn write(result: &RunResult, output: &Output) -> Result<(), String> {
    let table = measure::terminal::table(result);
    let printed = match &output.json {
        // Nothing else is to stand beside it there.
        Some(path) if is_standard_output(path) => {
            let _ = writeln!(std::io::stderr().lock(), "{}", table.trim_end());
            print(&result.to_json().map_err(|error| error.to_string())?)
        }
        Some(path) => {
            let printed = print(&table);
            result.write(path).map_err(|error| error.to_string())?;
            printed
        }
        None => print(&table),
    };
    if let Some(path) = &output.csv {
        result.write_csv(path).map_err(|error| error.to_string())?;
    }
    if let Some(path) = &output.html {
        page::write(result, path)?;
    }
    printed
}

/// What the exit code is, and why. A threshold that was set is told before a doubt, and
/// the doubt beside it; that something failed where nothing was said of failures is
/// told after it, since it may have been the generator.
fn verdict(result: &RunResult, output: &Output) -> u8 {
    if result.interrupted {
        return EXIT_INTERRUPTED;
    }
    let attempts = result.figures.ended().max(1);
    let failed = result.figures.failed();
    let failures_max = output.failures_max.unwrap_or(0.0);
    let has_failed = failed as f64 > failures_max * attempts as f64;
    let is_in_doubt = !result.doubts.is_empty();
    if is_in_doubt {
        let _ = complain(
            EXIT_DOUBT,
            "the figures above may be this generator's own, not the server's",
        );
    }
    if result.thresholds.iter().any(ThresholdVerdict::failed) {
        return complain(EXIT_FAILED, "a threshold was crossed");
    }
    if has_failed && (output.failures_max.is_some() || !is_in_doubt) {
        return complain(
            EXIT_FAILED,
            &format!("{failed} of {attempts} failed; --failures-max says how many may"),
        );
    }
    if is_in_doubt { EXIT_DOUBT } else { EXIT_FINE }
}

/// Whether a file's name means the standard output.
pub(crate) fn is_standard_output(path: &Path) -> bool {
    path == Path::new("-")
}

/// Tells how it goes. What cannot be told is not lost: the result comes after it.
pub(crate) fn say(text: &str) {
    let _ = print(text);
}

/// Prints what came of it.
fn print(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Ok(());
    }
    measure::stdout::print(format!("{}\n", text.trim_end()))
}

fn complain(code: u8, text: &str) -> u8 {
    let _ = writeln!(std::io::stderr().lock(), "signet load: {text}");
    code
}

fn unix_ms() -> u64 {
    sip_net::clock::unix_ms()
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::{Failure, Health};

    fn result(change: impl FnOnce(&mut RunResult)) -> RunResult {
        let mut result = RunResult::default();
        result.figures.invites = 100;
        result.figures.invites_ok = 100;
        result.health = Health {
            wall_ns: 1,
            ..Health::default()
        };
        change(&mut result);
        result
    }

    fn code(result: &mut RunResult, output: &Output) -> u8 {
        result.conclude(&output.thresholds);
        verdict(result, output)
    }

    #[test]
    fn one_exit_code_for_each_end() {
        let plain = Output::default();
        assert_eq!(code(&mut result(|_| {}), &plain), EXIT_FINE);
        let fail = |count: u64| {
            move |result: &mut RunResult| {
                result.figures.invites_ok -= count;
                result.figures.invites_failed = count;
                (0..count).for_each(|_| result.causes.add(Failure::Timeout));
            }
        };
        assert_eq!(code(&mut result(fail(1)), &plain), EXIT_FAILED);
        // Whoever is told where to call instead has not failed.
        let redirected = |result: &mut RunResult| {
            result.figures.invites_ok = 0;
            result.figures.invites_redirected = 100;
        };
        assert_eq!(code(&mut result(redirected), &plain), EXIT_FINE);
        let some = Output {
            failures_max: Some(0.04),
            ..Output::default()
        };
        assert_eq!(code(&mut result(fail(4)), &some), EXIT_FINE);
        assert_eq!(code(&mut result(fail(5)), &some), EXIT_FAILED);
        let strict = Output {
            thresholds: vec![Threshold::parse("ser < 99").unwrap()],
            failures_max: Some(1.0),
            ..Output::default()
        };
        assert_eq!(code(&mut result(|_| {}), &strict), EXIT_FINE);
        assert_eq!(code(&mut result(fail(5)), &strict), EXIT_FAILED);
        // A figure that may be the generator's own is nobody's failure.
        let drops = |result: &mut RunResult| result.health.kernel_drops = 1;
        assert_eq!(code(&mut result(drops), &strict), EXIT_DOUBT);
        // But a threshold that was set and crossed is not hidden by that.
        let both = |count: u64| {
            move |result: &mut RunResult| {
                fail(count)(result);
                drops(result);
            }
        };
        assert_eq!(code(&mut result(both(5)), &strict), EXIT_FAILED);
        assert_eq!(code(&mut result(both(5)), &some), EXIT_FAILED);
        assert_eq!(code(&mut result(both(4)), &some), EXIT_DOUBT);
        assert_eq!(code(&mut result(both(1)), &plain), EXIT_DOUBT);
        let interrupted = |result: &mut RunResult| result.interrupted = true;
        assert_eq!(code(&mut result(interrupted), &plain), EXIT_INTERRUPTED);
    }

    #[test]
    fn a_result_in_a_file_becomes_a_page() {
        let folder = std::env::temp_dir().join(format!("signet-load-page-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (json, html) = (folder.join("a.json"), folder.join("a.html"));
        result(|_| {}).write(&json).unwrap();
        assert_eq!(report(&json, Some(&html)), EXIT_FINE);
        let page = std::fs::read_to_string(&html).unwrap();
        assert!(page.trim_end().ends_with("</html>"));
        assert_eq!(report(&html, None), EXIT_USAGE, "no result");
        assert_eq!(report(&json, Some(&folder)), EXIT_USAGE, "no file");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
