//! `signet bed list`, `show` and `check`: experiments, read and told.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use signet_bed::experiment::{Case, Experiment, Form, Load, SHIPPED};
use signet_bed::run::{Choice, Task, said};

use super::prices;

#[derive(Debug, Args)]
pub(crate) struct ShowOptions {
    /// An experiment that `signet bed list` names, or a file
    #[arg(value_name = "NAME|FILE")]
    experiment: String,
    /// Which cases: short or long; short if left out
    #[arg(long, value_name = "FORM")]
    form: Option<Form>,
    /// A system under test; those of the experiment if left out
    #[arg(long = "system", value_name = "NAME")]
    systems: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckOptions {
    /// An experiment's file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Every experiment that the program brings, a line each.
pub(super) fn list() -> Result<String, String> {
    let mut told = String::new();
    for (name, _) in SHIPPED {
        let (experiment, _) = Experiment::open(name).map_err(|error| error.to_string())?;
        line(&mut told, format_args!("{name:<16} {}", experiment.title));
        for form in [Form::Short, Form::Long] {
            line(
                &mut told,
                format_args!(
                    "{:<16}   {}",
                    "",
                    length(&experiment, form, &experiment.systems)?
                ),
            );
        }
    }
    told.push_str(&prices::list()?);
    Ok(told)
}

/// An experiment: its question, its lengths, its cases, and what its paper found.
pub(super) fn show(options: &ShowOptions) -> Result<String, String> {
    if let Some((experiment, _)) = prices::opened(&options.experiment)? {
        let asked = [
            (!options.systems.is_empty(), "--system"),
            (options.form.is_some(), "--form"),
        ];
        return match asked.iter().find(|(is_asked, _)| *is_asked) {
            Some((_, option)) => Err(format!(
                "{} has prices of protections, and no cases or systems: leave {option} out",
                experiment.name
            )),
            None => Ok(prices::show(&experiment)),
        };
    }
    let form = options.form.unwrap_or(Form::Short);
    let (experiment, _) =
        Experiment::open(&options.experiment).map_err(|error| error.to_string())?;
    let systems = if options.systems.is_empty() {
        &experiment.systems
    } else {
        &options.systems
    };
    let mut told = String::new();
    line(
        &mut told,
        format_args!("{}: {}", experiment.name, experiment.title),
    );
    line(&mut told, format_args!("{}", experiment.question));
    if let Some(paper) = &experiment.paper {
        line(
            &mut told,
            format_args!(
                "After {}: {}. {}, {}.",
                paper.authors.join(", "),
                paper.title,
                paper.venue,
                paper.year
            ),
        );
    }
    line(&mut told, format_args!("\nSystems: {}", systems.join(", ")));
    for form in [Form::Short, Form::Long] {
        line(
            &mut told,
            format_args!("  {}", length(&experiment, form, systems)?),
        );
    }
    line(&mut told, format_args!("\nCases of the {form} form:"));
    for case in experiment.cases(form) {
        line(
            &mut told,
            format_args!("  {:<34} {}", case.id, loads(&case)),
        );
        for system in systems {
            if let Some(why) = experiment.reason_against(system, &case) {
                line(&mut told, format_args!("    not for {system}: {why}"));
            }
        }
    }
    line(&mut told, format_args!("\nFindings that it answers:"));
    for finding in &experiment.findings {
        line(
            &mut told,
            format_args!("  {} ({})", finding.statement, finding.place),
        );
    }
    Ok(told)
}

/// Says that a file can be run, or what is wrong with it.
pub(super) fn check(options: &CheckOptions) -> Result<String, String> {
    let file = options.file.to_string_lossy();
    // A path, also where it is called like one of those that the program brings.
    let path = if options.file.is_relative() {
        format!("./{file}")
    } else {
        file.into_owned()
    };
    if let Some((experiment, _)) = prices::opened(&path)? {
        return Ok(prices::lengths(&experiment));
    }
    let (experiment, _) = Experiment::open(&path).map_err(|error| error.to_string())?;
    let mut told = String::new();
    for form in [Form::Short, Form::Long] {
        line(
            &mut told,
            format_args!("{}", length(&experiment, form, &experiment.systems)?),
        );
    }
    Ok(told)
}

/// What a form measures, and for how long.
fn length(experiment: &Experiment, form: Form, systems: &[String]) -> Result<String, String> {
    let choice = Choice {
        systems: systems.to_vec(),
        ..Choice::all(form)
    };
    let task = Task::of(experiment, String::new(), &choice).map_err(|error| error.to_string())?;
    Ok(format!(
        "{form}: {} cases; rates {} x {} s after {} s, peaks x {}; about {}",
        experiment.cases(form).len(),
        task.repeats.rates,
        task.lengths.measure_s,
        task.lengths.warm_up_s,
        task.repeats.peaks,
        said(task.estimate_s()),
    ))
}

fn loads(case: &Case) -> String {
    let told: Vec<String> = case
        .loads
        .iter()
        .map(|load| match load {
            Load::Peak { failures_max, .. } => {
                format!("peak at {} % failures", failures_max * 100.0)
            }
            Load::Rate { per_s, profile, .. } => {
                format!("{per_s}/s{}", if *profile { ", profiled" } else { "" })
            }
        })
        .collect();
    told.join("; ")
}

fn line(told: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a String does not fail.
    let _ = writeln!(told, "{what}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use signet_bed::experiment::SHIPPED_PRICES;

    #[test]
    fn every_experiment_is_listed_with_both_lengths() {
        let told = list().unwrap();
        let all = SHIPPED.iter().chain(&SHIPPED_PRICES);
        for (name, _) in all.clone() {
            assert!(told.contains(name), "{told}");
        }
        assert_eq!(told.lines().count(), 3 * all.count());
    }

    #[test]
    fn an_experiment_shows_cases_and_findings() {
        let options = ShowOptions {
            experiment: "dacosta-2009".to_owned(),
            form: None,
            systems: vec!["kamailio".to_owned()],
        };
        let told = show(&options).unwrap();
        assert!(told.contains("Cases of the short form:"), "{told}");
        assert!(told.contains("remote.4.1 "), "{told}");
        assert!(told.contains("not for kamailio: "), "{told}");
        assert!(
            told.contains("Batches and parallelism together win."),
            "{told}"
        );
    }

    #[test]
    fn prices_have_neither_systems_nor_cases() {
        let show = |form, systems: &[&str]| {
            show(&ShowOptions {
                experiment: "niedermayer-2006".to_owned(),
                form,
                systems: systems.iter().map(|name| (*name).to_owned()).collect(),
            })
        };
        assert!(show(None, &[]).is_ok());
        let error = show(None, &["signet"]).unwrap_err();
        assert!(error.contains("leave --system out"), "{error}");
        let error = show(Some(Form::Long), &[]).unwrap_err();
        assert!(error.contains("leave --form out"), "{error}");
    }
}
