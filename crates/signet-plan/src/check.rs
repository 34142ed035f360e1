//! Predictions compared with mixtures that took no part in the calibration.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use signet_bed::Error;
use signet_page::number::figure;

use crate::calibrate::{has_database, ports};
use crate::drive::{Bench, Lengths, Mixture};
use crate::mixtures::{described, mixtures};
use crate::profile::{Checked, Profile, Run};

/// The name in every file.
pub const FORMAT: &str = "signet-plan-check";
/// The version that is written.
pub const VERSION: u32 = 3;
/// Mixtures that are run where nothing else is said.
pub const CASES: u32 = 20;
/// How often each is run, minutes apart: what else the machine does changes from one to the other.
const ROUNDS: u32 = 2;
/// Standard errors on either side of a prediction.
const ERRORS: f64 = 2.0;

/// How a check is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The server, and the program of the load.
    pub signet: PathBuf,
    /// Where configurations and logs are while it lasts.
    pub folder: PathBuf,
    /// The first of its ports on 127.0.0.1.
    pub port: u16,
    /// How many mixtures.
    pub cases: u32,
    /// What they are drawn from.
    pub seed: u64,
    /// Whether the runs are so short that they only show that it works.
    pub is_quick: bool,
}

/// Mixtures, as predicted and as measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The profile that predicted.
    pub profile: String,
    /// What mixtures were drawn from.
    pub seed: u64,
    /// Each mixture.
    pub cases: Vec<Case>,
    /// Over those that count; `None` where none does.
    pub checked: Option<Checked>,
}

/// One mixture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// What is in it.
    pub what: String,
    /// What it took each time, and what happened.
    pub runs: Vec<Run>,
    /// CPU time that it took, in cores: the mean of the runs that count.
    pub measured_cores: f64,
    /// CPU time that was predicted for what happened, in cores, at the machine's speed then.
    pub predicted_cores: f64,
    /// The ends of its interval.
    pub interval: (f64, f64),
    /// (predicted - measured) / measured.
    pub error: f64,
}

impl Case {
    /// Of a mixture with at least one run.
    fn new(profile: &Profile, mixture: &Mixture, mut runs: Vec<Run>) -> Self {
        for run in &mut runs {
            // What has no price would be predicted to cost nothing.
            let unpriced = profile.fit.unpriced(&run.rates);
            run.doubts.extend(
                unpriced
                    .iter()
                    .map(|event| format!("the profile has no price for {}", event.title())),
            );
        }
        // Where none counts, all are told beside their doubts.
        let does_any = runs.iter().any(|run| run.doubts.is_empty());
        let told: Vec<&Run> = runs
            .iter()
            .filter(|run| !does_any || run.doubts.is_empty())
            .collect();
        let mean = |of: &dyn Fn(&Run) -> f64| {
            told.iter().map(|run| of(run)).sum::<f64>() / (told.len().max(1) as f64)
        };
        let fit = &profile.fit;
        let measured_cores = mean(&|run| run.cores);
        let predicted_cores = mean(&|run| fit.cores(&run.rates).0 * profile.slowness(run.speed));
        let half = mean(&|run| {
            let (cores, price_error) = fit.cores(&run.rates);
            ERRORS * price_error.hypot(cores * fit.residual) * profile.slowness(run.speed)
        });
        Self {
            what: described(mixture),
            measured_cores,
            predicted_cores,
            interval: ((predicted_cores - half).max(0.0), predicted_cores + half),
            error: predicted_cores / measured_cores.max(1e-9) - 1.0,
            runs,
        }
    }

    /// Whether it counts: at least one of its runs does.
    pub fn counts(&self) -> bool {
        self.runs.iter().any(|run| run.doubts.is_empty())
    }

    /// Whether what was measured lies in the interval.
    pub fn is_within(&self) -> bool {
        (self.interval.0..=self.interval.1).contains(&self.measured_cores)
    }
}

/// Runs mixtures and compares. `say` is told each as it is known.
///
/// # Errors
/// What does not run here, and what to do about it.
pub fn check(profile: &Profile, options: &Options, say: &dyn Fn(&str)) -> Result<Check, Error> {
    let ports = ports(options.port)?;
    let wants_database = profile.database.is_some() && has_database();
    let failed = |why: String| {
        let folder = options.folder.display();
        Error::new(why, format!("its logs are in {folder}"))
    };
    let bench =
        Bench::open(&options.signet, &options.folder, ports, wants_database).map_err(failed)?;
    let lengths = lengths(options.is_quick);
    let rounds = if options.is_quick { 1 } else { ROUNDS };
    let mixtures = mixtures(profile, options.cases, options.seed, wants_database);
    let mut runs: Vec<Vec<Run>> = vec![Vec::new(); mixtures.len()];
    let mut cases = Vec::new();
    for round in 1..=rounds {
        for (nth, (mixture, runs)) in mixtures.iter().zip(&mut runs).enumerate() {
            runs.push(bench.run(mixture, lengths).map_err(failed)?);
            if round == rounds {
                let case = Case::new(profile, mixture, std::mem::take(runs));
                say(&line(nth + 1, &case));
                cases.push(case);
            }
        }
    }
    Ok(Check {
        format: FORMAT.to_owned(),
        version: VERSION,
        profile: profile.name.clone(),
        seed: options.seed,
        checked: checked(&cases),
        cases,
    })
}

fn lengths(is_quick: bool) -> Lengths {
    let (warm_up_s, measure_s) = if is_quick { (1, 1) } else { (3, 9) };
    Lengths {
        warm_up: Duration::from_secs(warm_up_s),
        measure: Duration::from_secs(measure_s),
    }
}

/// Over the cases that count.
fn checked(cases: &[Case]) -> Option<Checked> {
    let counting = || cases.iter().filter(|case| case.counts());
    let errors: Vec<f64> = counting().map(|case| case.error.abs()).collect();
    let cores = || counting().map(|case| case.measured_cores);
    let count = errors.len() as f64;
    (!errors.is_empty()).then(|| Checked {
        cases: errors.len() as u64,
        mean: errors.iter().sum::<f64>() / count,
        root_mean_square: (errors.iter().map(|e| e * e).sum::<f64>() / count).sqrt(),
        worst: errors.iter().copied().fold(0.0, f64::max),
        cores_min: cores().fold(f64::MAX, f64::min),
        cores_max: cores().fold(0.0, f64::max),
    })
}

fn line(nth: usize, case: &Case) -> String {
    let verdict = match (case.counts(), case.is_within()) {
        (false, _) => {
            let doubts = case.runs.iter().flat_map(|run| run.doubts.iter());
            let doubts: Vec<&str> = doubts.map(String::as_str).collect();
            format!("  does not count: {}", doubts.join(", "))
        }
        (true, true) => String::new(),
        (true, false) => "  outside of its interval".to_owned(),
    };
    // Milliseconds of CPU a second.
    format!(
        "{nth:>3}  {:>6}  {:>6}  {:>+6.1}%  {}{verdict}",
        figure(case.predicted_cores * 1e3),
        figure(case.measured_cores * 1e3),
        case.error * 100.0,
        case.what
    )
}

/// The heading of the lines that are said.
pub const HEADING: &str =
    "     ms of CPU a second\n     plan    server    error  what is asked a second";

impl Check {
    /// What it came to, in a sentence or two.
    pub fn summary(&self) -> String {
        let Some(checked) = self.checked else {
            return "no mixture counts: end what else runs on this machine, and check again"
                .to_owned();
        };
        let within = self
            .cases
            .iter()
            .filter(|case| case.counts() && case.is_within());
        let percent = signet_page::number::percent;
        format!(
            "{} of {} mixtures count, at {} to {} of a core; mean error {}, worst {}; {} lie in their interval",
            checked.cases,
            self.cases.len(),
            percent(checked.cores_min),
            percent(checked.cores_max),
            percent(checked.mean),
            percent(checked.worst),
            within.count()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn run(profile: &Profile, factor: f64, doubts: &[&str]) -> Run {
        let mixture = mixtures(profile, 1, 3, false).remove(0);
        let rates = mixture.rates();
        let (cores, _) = profile.fit.cores(&rates);
        Run {
            mixture,
            rates,
            cores: cores * factor,
            doubts: doubts.iter().map(|doubt| (*doubt).to_owned()).collect(),
            ..Run::default()
        }
    }

    fn case(profile: &Profile, factor: f64, doubts: &[&str]) -> Case {
        let run = run(profile, factor, doubts);
        Case::new(profile, &run.mixture.clone(), vec![run])
    }

    #[test]
    fn what_is_measured_is_the_mean_of_the_runs_that_count() {
        let profile = testing::profile();
        let one = run(&profile, 1.0, &[]);
        let other = run(&profile, 1.5, &[]);
        let doubted = run(&profile, 9.0, &["2% failed"]);
        let runs = vec![one.clone(), doubted, other];
        let case = Case::new(&profile, &one.mixture, runs);
        assert!(case.counts());
        assert!((case.measured_cores / one.cores - 1.25).abs() < 1e-9);
        assert!((case.predicted_cores / one.cores - 1.0).abs() < 1e-9);
        assert!((case.error + 0.2).abs() < 1e-9, "{case:?}");
    }

    #[test]
    fn what_has_no_price_is_no_prediction() {
        let mut profile = testing::profile();
        let mixture = mixtures(&profile, 1, 3, false).remove(0);
        let (event, _) = mixture.rates().iter().next().unwrap();
        profile.fit.prices.remove(&event);
        let case = case(&profile, 1.0, &[]);
        assert!(!case.counts());
        let told = format!("the profile has no price for {}", event.title());
        assert!(line(1, &case).contains(&told), "{}", line(1, &case));
    }

    #[test]
    fn errors_are_those_of_cases_that_count() {
        let profile = testing::profile();
        let cases = [
            case(&profile, 1.0, &[]),
            case(&profile, 1.25, &[]),
            case(&profile, 9.0, &["2% failed"]),
        ];
        assert!(cases[0].is_within() && !cases[2].is_within());
        let checked = checked(&cases).unwrap();
        assert_eq!(checked.cases, 2);
        assert!((checked.mean - 0.1).abs() < 1e-9, "{checked:?}");
        assert!((checked.worst - 0.2).abs() < 1e-9, "{checked:?}");
        assert!(line(3, &cases[2]).contains("does not count: 2% failed"));
        let check = Check {
            format: FORMAT.to_owned(),
            version: VERSION,
            profile: "it".to_owned(),
            seed: 1,
            cases: cases.to_vec(),
            checked: Some(checked),
        };
        let summary = check.summary();
        let (less, more) = (cases[0].measured_cores, cases[1].measured_cores);
        assert_eq!((checked.cores_min, checked.cores_max), (less, more));
        assert!(
            summary.starts_with("2 of 3 mixtures count, at "),
            "{summary}"
        );
        assert!(
            summary.contains("of a core; mean error 10%, worst 20%"),
            "{summary}"
        );
    }

    #[test]
    fn a_slow_machine_is_reckoned_with() {
        let mut profile = testing::profile();
        let speed = |us: f64| signet_bed::calibrate::Speed {
            compute_us: us,
            kernel_us: us,
        };
        profile.speed = Some(speed(100.0));
        let mut run = run(&profile, 1.2, &[]);
        run.speed = Some(speed(120.0));
        let case = Case::new(&profile, &run.mixture.clone(), vec![run]);
        assert!(case.error.abs() < 1e-9, "{case:?}");
    }
}
