//! A run of an experiment: packets first, then tunnels where they can be.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use signet_bed::Error;
use signet_bed::experiment::{Form, PricesExperiment, PricesPlan, Tunnels};

use super::record::{FORMAT, PricesRecord, VERSION};
use crate::crypto::{self, Choice};
use crate::record::PriceRecord;
use crate::timing::Timing;
use crate::tunnel;

/// What a run of packets takes for each round and size, in seconds.
const ROUND_S: f64 = 0.05;
/// What a measurement of a tunnel takes besides its three or four parts: it is made, and goes.
const AROUND_S: f64 = 2.0;
/// Round trips over two carriers, throughput and calls.
const PARTS: f64 = 4.0;

/// What is to be run.
pub struct Task<'a> {
    /// The experiment.
    pub experiment: &'a PricesExperiment,
    /// Its file.
    pub toml: String,
    /// The form.
    pub form: Form,
    /// This program.
    pub signet: PathBuf,
    /// The command line, for the record.
    pub command: String,
}

/// How a run ended.
pub enum Ended {
    /// All was measured, or there is a reason why not.
    Whole(Box<PricesRecord>),
    /// The end was asked for; what was measured until then.
    Interrupted(Box<PricesRecord>),
}

/// How long a form takes, about, in seconds.
pub fn estimate_s(experiment: &PricesExperiment, form: Form) -> f64 {
    let plan = experiment.plan(form);
    let sizes = experiment.packets.sizes_bytes.len() as f64;
    let only = experiment.tunnels.as_ref().map(|tunnels| &tunnels.only[..]);
    let count = only.map_or(0, |only| tunnel::among(only).map_or(0, |all| all.len()));
    let visit_s = AROUND_S + PARTS * f64::from(plan.tunnel_seconds);
    f64::from(plan.rounds) * sizes * ROUND_S
        + count as f64 * f64::from(plan.tunnel_repeats) * visit_s
}

/// Runs it. `told` hears what is being measured.
///
/// # Errors
/// What the experiment asks for and this program does not have.
pub fn run(task: &Task<'_>, told: &mut dyn FnMut(&str)) -> Result<Ended, Error> {
    let experiment = task.experiment;
    let plan = experiment.plan(task.form);
    let mut record = PricesRecord {
        format: FORMAT.to_owned(),
        version: VERSION,
        experiment: experiment.name.clone(),
        experiment_toml: task.toml.clone(),
        form: task.form.name().to_owned(),
        command: task.command.clone(),
        started_unix_s: now_unix_s(),
        ..PricesRecord::default()
    };
    // What is misspelt is told before anything is measured.
    if let Some(tunnels) = &experiment.tunnels {
        tunnel::among(&tunnels.only)?;
    }
    record.packets = packets(task, plan, told)?;
    let mut is_interrupted = false;
    if let Some(tunnels) = &experiment.tunnels {
        match through(task, plan, tunnels, told) {
            Ok(tunnel::Ended::Whole(found)) => record.tunnels = Some(found),
            Ok(tunnel::Ended::Interrupted(found)) => {
                is_interrupted = true;
                record.tunnels = Some(found);
            }
            Err(why) => record.tunnels_missed = why.to_string(),
        }
    }
    record.ended_unix_s = now_unix_s();
    let record = Box::new(record);
    Ok(if is_interrupted {
        Ended::Interrupted(record)
    } else {
        Ended::Whole(record)
    })
}

fn packets(
    task: &Task<'_>,
    plan: &PricesPlan,
    told: &mut dyn FnMut(&str),
) -> Result<PriceRecord, Error> {
    let packets = &task.experiment.packets;
    let choice = Choice::new(&packets.sizes_bytes, &packets.only, &packets.providers)?;
    let (jobs, missed) = crypto::jobs(&choice)?;
    let task = crate::Task {
        command: task.command.clone(),
        jobs,
        missed,
        versions: crypto::versions(),
        timing: Timing {
            rounds: plan.rounds,
            ..Timing::default()
        },
    };
    crate::run(task, &mut |round, rounds| {
        told(&format!("packets: round {round} of {rounds}"));
    })
}

fn through(
    task: &Task<'_>,
    plan: &PricesPlan,
    tunnels: &Tunnels,
    told: &mut dyn FnMut(&str),
) -> Result<tunnel::Ended, Error> {
    let task = tunnel::Task {
        signet: task.signet.clone(),
        command: task.command.clone(),
        tunnels: tunnel::among(&tunnels.only)?,
        seconds: plan.tunnel_seconds,
        repeats: plan.tunnel_repeats,
        calls_per_s: tunnels.calls_per_s,
    };
    tunnel::run(&task, &mut |line| told(&format!("tunnels: {line}")))
}

fn now_unix_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_form_ends_within_a_quarter_of_an_hour() {
        let (experiment, _) = PricesExperiment::open("niedermayer-2006").unwrap().unwrap();
        let [short_s, long_s] = [Form::Short, Form::Long].map(|form| estimate_s(&experiment, form));
        assert!(short_s < 15.0 * 60.0, "{short_s}");
        assert!(long_s > short_s, "{long_s}");
    }
}
