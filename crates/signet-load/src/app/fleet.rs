//! The commands of a load by several generators: the controller's and the worker's.

use std::path::Path;

use measure::{RunResult, Threshold};
use serde_json::Value;

use super::picture::Picture;
use super::report::describe;
use super::watching::Watching;
use super::{
    EXIT_FAILED, EXIT_FINE, EXIT_USAGE, Output, complain, finish, signals, try_files, unix_ms,
};
use crate::crew::{Control, Failed, Progress};
use crate::settings::Settings;
use crate::workers::{Fleet, Gathered, Part, WorkerOptions, cut, gather, merge, serve};

/// Runs a load by workers to its end; gives the exit code.
pub fn drive_workers(settings: &Settings, fleet: &Fleet, output: &Output) -> u8 {
    if let Err(error) = try_files(output) {
        return complain(EXIT_USAGE, &error);
    }
    let control = Control::new();
    if let Err(error) = signals::watch(&control) {
        return complain(EXIT_USAGE, &error);
    }
    finish(
        try_drive(settings, fleet, output, &control),
        output,
        &control,
    )
}

fn try_drive(
    settings: &Settings,
    fleet: &Fleet,
    output: &Output,
    control: &Control,
) -> Result<RunResult, Failed> {
    let watching = Watching::new(&output.watch).map_err(Failed::Usage)?;
    let started_unix_ms = unix_ms();
    let mut picture = Picture::new(settings, output.quiet, output.bounds, watching);
    let asked = ask(settings, fleet, output, control, &mut |progress| {
        picture.draw(progress);
    });
    let mut watching = picture.end();
    let (watched, processes) = watching.end();
    let mut asked = asked?;
    if let Some(folder) = &fleet.results {
        write_parts(folder, &asked.parts).map_err(Failed::Usage)?;
    }
    let result = &mut asked.result;
    result.command.clone_from(&output.command);
    result.program_version.clone_from(&output.program_version);
    result.started_unix_ms = started_unix_ms;
    result.host = measure::Host::this();
    result.settings = describe(settings);
    if let Value::Object(settings) = &mut result.settings {
        settings.insert("workers".to_owned(), merge::describe(&asked.parts));
    }
    result.watched = watched;
    result.processes = processes;
    for (at_s, watched_ns, _) in watching.cpu_by_second() {
        // Its own is the controller's, which drives nothing.
        if let Some(second) = result.series.iter_mut().find(|second| second.at_s == at_s) {
            second.watched_cpu_ns = watched_ns;
        }
    }
    Ok(asked.conclude(&output.thresholds))
}

/// What workers told of a load.
pub(super) struct Asked {
    parts: Vec<Part>,
    /// Their figures together.
    result: RunResult,
}

/// Has a load driven by workers.
///
/// # Errors
/// What they cannot drive, and where one is lost before the beginning.
pub(super) fn ask(
    settings: &Settings,
    fleet: &Fleet,
    output: &Output,
    control: &Control,
    draw: &mut dyn FnMut(&Progress<'_>),
) -> Result<Asked, Failed> {
    let how = cut::How {
        local: fleet.local,
        checks_self: output.check_self,
        bounds: output.bounds,
    };
    let jobs = cut::cut(settings, how, fleet.workers.len()).map_err(Failed::Usage)?;
    let Gathered { parts, series } = gather(jobs, fleet, &output.program_version, control, draw)?;
    let mut result = merge::merge(&parts, series);
    result.health.bounds = output.bounds;
    Ok(Asked { parts, result })
}

impl Asked {
    /// The result with its verdicts, and every worker's doubts under its name.
    pub(super) fn conclude(mut self, thresholds: &[Threshold]) -> RunResult {
        self.result.conclude(thresholds);
        let of_workers = merge::doubts(&self.parts);
        // What a worker says of itself it says with its name.
        let is_told = |name: &str| of_workers.iter().any(|doubt| doubt.name.ends_with(name));
        self.result.doubts.retain(|doubt| !is_told(&doubt.name));
        self.result.doubts.extend(of_workers);
        self.result.valid &= self.result.doubts.is_empty();
        self.result
    }

    /// The rate that all reach together without a server, where each looked.
    pub(super) fn self_peak_per_s(&self) -> Option<f64> {
        self.result.health.self_peak_per_s
    }
}

/// Writes each worker's own result, under its name.
fn write_parts(folder: &Path, parts: &[Part]) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for part in parts {
        if let Ok(result) = &part.end {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-#".contains(c);
            let name: String = (part.name.chars())
                .map(|c| if is_plain(c) { c } else { '_' })
                .collect();
            let path = folder.join(format!("{name}.json"));
            result.write(&path).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Works for controllers until it is interrupted; gives the exit code.
pub fn worker(options: &WorkerOptions) -> u8 {
    let control = Control::new();
    if let Err(error) = signals::watch(&control) {
        return complain(EXIT_USAGE, &error);
    }
    // Its standard output may be a controller's.
    let tell = |text: &str| {
        complain(EXIT_FINE, text);
    };
    match serve(options, &control, &tell) {
        Ok(()) => EXIT_FINE,
        Err(error) => complain(EXIT_FAILED, &error),
    }
}
