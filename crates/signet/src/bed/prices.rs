//! Experiments of `kind = "prices"`: listed, shown and run as the others are.

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

use signet_bed::experiment::{Form, PricesExperiment, SHIPPED_PRICES};
use signet_bed::run::{RECORD, said};
use signet_price::experiment::{self, Ended, PricesRecord, Task, estimate_s};

use crate::price::crypto::Progress;
use crate::price::tunnel::this_program;

/// All was measured, or there is a reason why not.
const EXIT_FINE: u8 = 0;
/// The record gives a reason why some of it was not measured.
const EXIT_MISSED: u8 = 1;
const EXIT_INTERRUPTED: u8 = 130;

/// Every one that the program brings, with both its lengths.
pub(super) fn list() -> Result<String, String> {
    let mut told = String::new();
    for (name, _) in SHIPPED_PRICES {
        if let Some((experiment, _)) = opened(name)? {
            let _ = writeln!(told, "{name:<16} {}", experiment.title);
            for form in [Form::Short, Form::Long] {
                let _ = writeln!(told, "{:<16}   {}", "", length(&experiment, form));
            }
        }
    }
    Ok(told)
}

/// The experiment of this name, or in this file; `None` where it is of the other kind.
pub(super) fn opened(name: &str) -> Result<Option<(PricesExperiment, String)>, String> {
    experiment::open(name).map_err(|error| error.to_string())
}

/// What it prices, for how long, and what its paper found.
pub(super) fn show(experiment: &PricesExperiment) -> String {
    let mut told = format!(
        "{}: {}\n{}\n",
        experiment.name, experiment.title, experiment.question
    );
    let paper = &experiment.paper;
    let _ = writeln!(
        told,
        "After {}: {}. {}, {}.\n",
        paper.authors.join(", "),
        paper.title,
        paper.venue,
        paper.year
    );
    told.push_str(&lengths(experiment));
    let _ = writeln!(
        told,
        "\nPackets with: {}",
        experiment.packets.only.join(", ")
    );
    if let Some(tunnels) = &experiment.tunnels {
        let _ = writeln!(told, "Tunnels: {}", tunnels.only.join(", "));
    }
    let _ = writeln!(told, "\nFindings that it answers:");
    for finding in &experiment.findings {
        let _ = writeln!(told, "  {} ({})", finding.statement, finding.place);
    }
    told
}

/// A line for each form.
pub(super) fn lengths(experiment: &PricesExperiment) -> String {
    let of = |form| format!("{}\n", length(experiment, form));
    of(Form::Short) + &of(Form::Long)
}

fn length(experiment: &PricesExperiment, form: Form) -> String {
    let plan = experiment.plan(form);
    let sizes: Vec<String> = experiment
        .packets
        .sizes_bytes
        .iter()
        .map(u64::to_string)
        .collect();
    let tunnels = match experiment.tunnels {
        Some(_) => format!(
            "; tunnels x {}, {} s each",
            plan.tunnel_repeats, plan.tunnel_seconds
        ),
        None => String::new(),
    };
    format!(
        "{form}: packets of {} bytes x {}{tunnels}; about {}",
        sizes.join(", "),
        plan.rounds,
        said(estimate_s(experiment, form))
    )
}

/// Runs it in a folder; gives the exit code.
pub(super) fn run(
    (experiment, toml): (PricesExperiment, String),
    form: Form,
    out: &Path,
) -> Result<u8, String> {
    let path = out.join(RECORD);
    if path.exists() {
        return Err(format!(
            "{} is there already: choose another --out",
            path.display()
        ));
    }
    std::fs::create_dir_all(out).map_err(|error| {
        format!(
            "cannot make {}: {error}: choose another --out",
            out.display()
        )
    })?;
    let task = Task {
        experiment: &experiment,
        toml,
        form,
        signet: this_program().map_err(|error| error.to_string())?,
        command: measure::command_line().join(" "),
    };
    let mut progress = Progress::new();
    let ended = experiment::run(&task, &mut |line| progress.show(line));
    progress.end();
    let (record, code) = match ended.map_err(|error| error.to_string())? {
        Ended::Whole(record) if is_whole(&record) => (record, EXIT_FINE),
        Ended::Whole(record) => (record, EXIT_MISSED),
        Ended::Interrupted(record) => (record, EXIT_INTERRUPTED),
    };
    measure::file::write_json(&path, &record)
        .map_err(|error| format!("{error}: make room there, or choose another --out"))?;
    if !record.tunnels_missed.is_empty() {
        let why = &record.tunnels_missed;
        let _ = writeln!(
            std::io::stderr(),
            "signet bed: no tunnel was measured: {why}"
        );
    }
    for page in experiment::report(&path).map_err(|error| error.to_string())? {
        measure::stdout::print(format!("the page is {}\n", page.display()))?;
    }
    Ok(code)
}

/// Whether all was measured.
fn is_whole(record: &PricesRecord) -> bool {
    let tunnels = record.tunnels.as_ref();
    record.tunnels_missed.is_empty() && tunnels.is_none_or(|it| it.missed.is_empty())
}
