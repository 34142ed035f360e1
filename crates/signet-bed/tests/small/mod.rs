//! A small experiment, and records of it.
// Each program of tests uses some of it.
#![allow(dead_code)]

use std::path::Path;

use signet_bed::experiment::{Experiment, Form, Load};
use signet_bed::record::{CaseResult, Record, Repeat, figure};

pub(crate) const HEAD: &str = r#"version = 1
name = "small"
title = "small"
question = "small?"
systems = ["signet", "kamailio"]

[short]
repeats = 3
warm_up_s = 1
measure_s = 1

[long]
repeats = 3
warm_up_s = 1
measure_s = 1

[[axis]]
name = "mode"
title = "mode"
[[axis.value]]
name = "chain"
title = "chain"
[[axis.value]]
name = "outbound"
title = "outbound"
set = { caller_connection = "per-call" }

[[axis]]
name = "transport"
title = "transport"
[[axis.value]]
name = "tcp"
title = "TCP"
set = { transport = "tcp" }
[[axis.value]]
name = "tls"
title = "TLS"
set = { transport = "tls" }

[[load]]
rates_per_s = [100]
[[load]]
peak = { failures_max = 0.01, guess_per_s = 100 }

[cross_check]
rate_per_s = 100
error_max = 0.1
place = "here"
"#;

pub(crate) fn experiment(findings: &str) -> Experiment {
    match Experiment::from_text(Path::new("small.toml"), &format!("{HEAD}{findings}")) {
        Ok(experiment) => experiment,
        Err(error) => panic!("{error}"),
    }
}

pub(crate) fn repeat(figures: &[(&str, f64)]) -> Repeat {
    Repeat {
        figures: figures
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect(),
        ..Repeat::default()
    }
}

/// What was measured of a case at its rate, or at its peak.
pub(crate) fn result(id: &str, is_peak: bool, repeats: Vec<Repeat>) -> CaseResult {
    let cases = experiment("").cases(Form::Long);
    let case = cases.into_iter().find(|case| case.id == id).unwrap();
    let load = case
        .loads
        .iter()
        .find(|load| matches!(load, Load::Peak { .. }) == is_peak)
        .unwrap()
        .clone();
    CaseResult {
        case,
        system: "signet".to_owned(),
        load,
        repeats,
        missed: None,
    }
}

/// CPU times of a case at its rate.
pub(crate) fn cpu(id: &str, values_us: &[f64]) -> CaseResult {
    let repeats = values_us
        .iter()
        .map(|value| repeat(&[(figure::SERVER_CPU_US, *value)]));
    result(id, false, repeats.collect())
}

pub(crate) fn record(results: Vec<CaseResult>) -> Record {
    Record {
        results,
        ..Record::default()
    }
}

/// What a case has at its peak: the rate, and the cores that server and load took.
pub(crate) fn peak(id: &str, rate: f64, server: f64, load: f64) -> CaseResult {
    let figures = [
        (figure::RATE_PER_S, rate),
        (figure::SERVER_CORES, server),
        (figure::LOAD_CORES, load),
    ];
    result(id, true, vec![repeat(&figures)])
}

pub(crate) fn near(value: f64, wanted: f64) {
    assert!(
        (value - wanted).abs() < 1e-9 * wanted.abs(),
        "{value}, not {wanted}"
    );
}
