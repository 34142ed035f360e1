//! What of an experiment is run.

use super::estimate::visit_s;
use super::order::{Repeats, Step, is_of, steps};
use crate::Error;
use crate::experiment::{Case, Experiment, Form};

/// The lengths of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Seconds of load before the measuring.
    pub warm_up_s: u32,
    /// Seconds of measuring.
    pub measure_s: u32,
}

/// What of an experiment is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// The experiment's name.
    pub experiment: String,
    /// Its file.
    pub toml: String,
    /// `short` or `long`.
    pub form: String,
    /// What is measured.
    pub cases: Vec<Case>,
    /// Of which systems, where no address is given.
    pub systems: Vec<String>,
    /// How often.
    pub repeats: Repeats,
    /// For how long.
    pub lengths: Lengths,
    /// What a system cannot do: its name, the case, and why.
    pub not_for: Vec<(String, String, String)>,
}

/// What is chosen of what an experiment has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its length.
    pub form: Form,
    /// The pattern of the cases' names; all if left out.
    pub cases: Option<String>,
    /// Systems; the experiment's if there is none.
    pub systems: Vec<String>,
    /// How often each load is measured; as the form says if left out.
    pub repeats: Option<u32>,
}

impl Choice {
    /// All that an experiment has in a form.
    pub const fn all(form: Form) -> Self {
        Self {
            form,
            cases: None,
            systems: Vec::new(),
            repeats: None,
        }
    }
}

impl Task {
    /// What is chosen of an experiment whose file has the text `toml`.
    ///
    /// # Errors
    /// That no case has such a name.
    pub fn of(experiment: &Experiment, toml: String, choice: &Choice) -> Result<Self, Error> {
        let all = experiment.cases(choice.form);
        let names: Vec<String> = all.iter().take(4).map(|case| case.id.clone()).collect();
        let is_chosen = |case: &Case| {
            let pattern = choice.cases.as_deref();
            pattern.is_none_or(|pattern| is_of(pattern, &case.id)) && !case.loads.is_empty()
        };
        let cases: Vec<Case> = all.into_iter().filter(is_chosen).collect();
        if cases.is_empty() {
            return Err(Error::new(
                format!(
                    "no case of the {} form of {} is called {}",
                    choice.form,
                    experiment.name,
                    choice.cases.as_deref().unwrap_or("anything")
                ),
                format!("they are called {} and the like", names.join(", ")),
            ));
        }
        let plan = experiment.plan(choice.form);
        let mut systems = if choice.systems.is_empty() {
            experiment.systems.clone()
        } else {
            choice.systems.clone()
        };
        let mut seen = std::collections::BTreeSet::new();
        systems.retain(|system| seen.insert(system.clone()));
        let mut not_for = Vec::new();
        for system in &systems {
            for case in &cases {
                if let Some(why) = experiment.reason_against(system, case) {
                    not_for.push((system.clone(), case.id.clone(), why.to_owned()));
                }
            }
        }
        Ok(Self {
            experiment: experiment.name.clone(),
            toml,
            form: choice.form.name().to_owned(),
            repeats: Repeats {
                rates: choice.repeats.unwrap_or(plan.repeats),
                peaks: choice.repeats.unwrap_or(plan.peak_repeats),
                profiles: plan.profile_repeats.unwrap_or(u32::MAX),
            },
            lengths: Lengths {
                warm_up_s: plan.warm_up_s,
                measure_s: plan.measure_s,
            },
            cases,
            systems,
            not_for,
        })
    }

    /// How long one measurement takes, in seconds, as it is reckoned before any was made.
    pub fn step_s(&self, step: &Step) -> f64 {
        let case = self.cases.get(step.case);
        let load = case.and_then(|case| Some((case, case.loads.get(step.load)?)));
        load.map_or(0.0, |(case, load)| {
            let is_taken_apart = self.repeats.is_taken_apart(load, step.round);
            visit_s(self.lengths, case, load, step.round, is_taken_apart)
        })
    }

    /// How long all of it takes. What a system cannot do takes no time.
    pub fn estimate_s(&self) -> f64 {
        let is_out = |step: &Step| {
            let (system, case) = (self.systems.get(step.system), self.cases.get(step.case));
            let mut not_for = self.not_for.iter();
            not_for
                .any(|(name, id, _)| Some(name) == system && Some(id) == case.map(|case| &case.id))
        };
        // The order takes no time.
        let all = steps(&self.cases, self.systems.len(), self.repeats, 0);
        let left = all.iter().filter(|step| !is_out(step));
        left.map(|step| self.step_s(step)).sum()
    }
}
