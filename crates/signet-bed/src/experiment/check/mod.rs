//! What is wrong with an experiment, found by comparing its parts with each other.
//!
//! Each step relies on those before it, so the first that finds something is the last.

mod asked;
mod cases;
mod picks;

use diagnose::{Fault, nearest};

use super::case::Case;
use super::file::{Axis, Experiment, Form, Plan};

/// The version of the format that this program reads.
const VERSION: u32 = 1;
/// Systems that there are drivers for, and `other`, which an address stands for.
pub const SYSTEMS: [&str; 5] = ["signet", "kamailio", "opensips", "asterisk", "other"];
/// Places on the axes, multiplied.
const COMBINATIONS_MAX: usize = 20_000;
/// Cases, drawings, published values and findings.
const LIST_MAX: usize = 1_000;
const REPEATS_MAX: u32 = 100;
const SECONDS_MAX: u32 = 3_600;
const NAME_LEN_MAX: usize = 64;

/// What was found so far, and what it is compared with.
struct Check<'a> {
    experiment: &'a Experiment,
    short: Vec<Case>,
    long: Vec<Case>,
    faults: Vec<Fault>,
}

impl Experiment {
    /// Everything that is wrong with it, as far as it can be compared.
    pub(super) fn faults(&self) -> Vec<Fault> {
        let mut check = Check {
            experiment: self,
            short: Vec::new(),
            long: Vec::new(),
            faults: Vec::new(),
        };
        for step in [
            Check::head,
            Check::axes,
            Check::picks,
            Check::cases,
            Check::loads,
            Check::asked,
        ] {
            step(&mut check);
            if !check.faults.is_empty() {
                break;
            }
        }
        check.faults
    }
}

impl<'a> Check<'a> {
    fn fault(&mut self, at: impl Into<String>, what: impl Into<String>, remedy: impl Into<String>) {
        self.faults.push(Fault {
            at: at.into(),
            what: what.into(),
            remedy: remedy.into(),
        });
    }

    fn forms(&self) -> [(Form, &[Case]); 2] {
        [(Form::Short, &self.short), (Form::Long, &self.long)]
    }

    /// What needs no other part to be compared with.
    fn head(&mut self) {
        let experiment = self.experiment;
        if experiment.version != VERSION {
            self.fault(
                "version",
                format!("this program reads version {VERSION}"),
                format!("write version = {VERSION}"),
            );
        }
        self.name("name", &experiment.name);
        if experiment.systems.is_empty() {
            self.fault(
                "systems",
                "no system is tested",
                "name one, such as \"signet\"",
            );
        }
        for (nth, system) in experiment.systems.iter().enumerate() {
            self.system(&format!("systems.{nth}"), system);
            if experiment
                .systems
                .iter()
                .take(nth)
                .any(|other| other == system)
            {
                self.fault(
                    format!("systems.{nth}"),
                    "this system is named twice",
                    "name each once",
                );
            }
        }
        if !(experiment.spread_max > 0.0 && experiment.spread_max <= 1.0) {
            self.fault(
                "spread_max",
                "is out of bounds",
                "write a share above 0 and at most 1",
            );
        }
        self.plan("short", &experiment.short);
        self.plan("long", &experiment.long);
        for (key, len) in [
            ("drawing", experiment.drawings.len()),
            ("published", experiment.published.len()),
            ("finding", experiment.findings.len()),
            ("load", experiment.loads.len()),
        ] {
            if len > LIST_MAX {
                self.fault(key, format!("{len} of them"), format!("keep to {LIST_MAX}"));
            }
        }
    }

    fn plan(&mut self, key: &str, plan: &Plan) {
        for (name, value, least, most) in [
            ("repeats", plan.repeats, 1, REPEATS_MAX),
            ("peak_repeats", plan.peak_repeats, 1, REPEATS_MAX),
            (
                "profile_repeats",
                plan.profile_repeats.unwrap_or(plan.repeats),
                1,
                plan.repeats.max(1),
            ),
            ("warm_up_s", plan.warm_up_s, 0, SECONDS_MAX),
            ("measure_s", plan.measure_s, 1, SECONDS_MAX),
        ] {
            if value < least || value > most {
                self.fault(
                    format!("{key}.{name}"),
                    format!("{value} is out of bounds"),
                    format!("write a number from {least} to {most}"),
                );
            }
        }
    }

    fn axes(&mut self) {
        let axes: &'a [Axis] = &self.experiment.axes;
        let mut combinations = 1_usize;
        for (nth, axis) in axes.iter().enumerate() {
            let at = format!("axis.{nth}");
            self.name(&format!("{at}.name"), &axis.name);
            if axis.name == super::drawing::RATE {
                self.fault(
                    format!("{at}.name"),
                    "`rate` stands for the load's rate in drawings",
                    "name the axis otherwise",
                );
            }
            if axes.iter().take(nth).any(|other| other.name == axis.name) {
                self.fault(
                    format!("{at}.name"),
                    format!("a second axis `{}`", axis.name),
                    "name each axis once",
                );
            }
            for (place, value) in axis.values.iter().enumerate() {
                let at = format!("{at}.value.{place}.name");
                self.name(&at, &value.name);
                let mut before = axis.values.iter().take(place);
                if before.any(|other| other.name == value.name) {
                    self.fault(
                        at,
                        format!("a second `{}` on this axis", value.name),
                        "name each value of an axis once",
                    );
                }
            }
            combinations = combinations.saturating_mul(axis.values.len());
        }
        if combinations == 0 || combinations > COMBINATIONS_MAX {
            self.fault(
                "axis",
                format!("{combinations} combinations of values"),
                format!("keep to 1 to {COMBINATIONS_MAX}; give each axis a value"),
            );
        }
    }

    /// Names stand in the names of files, `.` between them.
    fn name(&mut self, at: &str, name: &str) {
        let is_fit = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if name.is_empty() || name.len() > NAME_LEN_MAX || !name.chars().all(is_fit) {
            self.fault(
                at,
                format!("`{name}` is no name"),
                format!("write up to {NAME_LEN_MAX} letters, digits and `-`"),
            );
        }
    }

    fn system(&mut self, at: &str, system: &str) {
        if !SYSTEMS.contains(&system) {
            let remedy = match nearest(system, &SYSTEMS) {
                Some(word) => format!("did you mean `{word}`?"),
                None => format!("write one of: {}", SYSTEMS.join(", ")),
            };
            self.fault(at, format!("unknown system `{system}`"), remedy);
        }
    }
}
