//! A record for tests: every kind of drawing, and everything that can be missing.

use std::collections::BTreeMap;

use crate::experiment::{Case, Load, Setting};
use crate::record::{Calibration, CaseResult, FORMAT, Machine, Record, Repeat, VERSION, figure};

/// The experiment that it is of.
pub(crate) const EXPERIMENT: &str = include_str!("sample.toml");

const RATES: [f64; 4] = [250.0, 500.0, 1_000.0, 2_000.0];

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(axis, label)| ((*axis).to_owned(), (*label).to_owned()))
        .collect()
}

fn case(labels: BTreeMap<String, String>) -> Case {
    let id: Vec<&str> = labels.values().map(String::as_str).collect();
    Case {
        id: id.join("-"),
        labels,
        setting: Setting::default(),
        loads: Vec::new(),
        below: Vec::new(),
    }
}

/// A figure that is a little off each time.
fn near(value: f64, nth: usize) -> f64 {
    value * [1.0, 1.02, 0.99, 1.03][nth % 4]
}

fn rate(case: &Case, system: &str, per_s: f64, us: f64) -> CaseResult {
    let repeat = |nth: usize| {
        let us = near(us, nth);
        let parts = [
            ("kernel", 0.4),
            ("sip_core", 0.3),
            ("tls_protocol", 0.08),
            ("public_key", 0.05),
            ("memory_allocation", 0.07),
            ("libc", 0.1),
        ];
        Repeat {
            at_unix_s: 1_800_000_000 + nth as u64 * 60,
            figures: [
                (figure::SERVER_CPU_US.to_owned(), us),
                (figure::SERVER_CORES.to_owned(), us * per_s / 1e6),
                (figure::SRD_P50_MS.to_owned(), near(1.2, nth)),
                (figure::FAILED_SHARE.to_owned(), 0.0),
            ]
            .into(),
            profile: parts
                .iter()
                .map(|(part, share)| (format!("server/{part}"), us * share))
                .collect(),
            ..Repeat::default()
        }
    };
    CaseResult {
        case: case.clone(),
        system: system.to_owned(),
        load: Load::Rate {
            per_s,
            profile: true,
            for_check: false,
        },
        repeats: (0..3).map(repeat).collect(),
        missed: None,
    }
}

fn peak(case: &Case, system: &str, per_s: f64, repeats: usize) -> CaseResult {
    let repeat = |nth| Repeat {
        figures: [(figure::RATE_PER_S.to_owned(), near(per_s, nth))].into(),
        ..Repeat::default()
    };
    CaseResult {
        case: case.clone(),
        system: system.to_owned(),
        load: Load::Peak {
            failures_max: 0.04,
            guess_per_s: 4_000.0,
        },
        repeats: (0..repeats).map(repeat).collect(),
        missed: None,
    }
}

/// Two systems over modes, transports and rates, and a grid that one of them has.
pub(crate) fn record() -> Record {
    let mut results = Vec::new();
    for (mode, extra) in [("chain", 1.0), ("outbound", 1.4)] {
        for (transport, us) in [("udp", 40.0), ("tcp", 55.0), ("tls", 120.0)] {
            let case = case(labels(&[("mode", mode), ("transport", transport)]));
            for (system, factor) in [("signet", 1.0), ("kamailio", 1.5)] {
                let us = us * extra * factor;
                results.extend(RATES.map(|per_s| rate(&case, system, per_s, us + 4_000.0 / per_s)));
                results.push(peak(&case, system, 800_000.0 / us, 3));
            }
        }
    }
    for processes in [4u32, 16, 64, 256] {
        for batch in [1u32, 2, 4, 8, 16, 32] {
            let case = case(labels(&[
                ("processes", &processes.to_string()),
                ("batch", &batch.to_string()),
            ]));
            let per_s = (f64::from(processes * batch) * 33.0).min(9_000.0);
            results.push(peak(&case, "signet", per_s, 1));
        }
    }
    spoil(&mut results);
    let calibration = |nth: u64| Calibration {
        at_unix_s: 1_800_000_000 + nth * 30,
        compute_us: 1_000.0 + (nth % 7) as f64 * 12.0,
        kernel_us: 1_400.0 + (nth % 5) as f64 * 40.0,
        stolen: if nth.is_multiple_of(9) { 1.3 } else { 1.0 },
    };
    Record {
        format: FORMAT.to_owned(),
        version: VERSION,
        experiment: "sample".to_owned(),
        experiment_toml: EXPERIMENT.to_owned(),
        // None that there is: the cases are not those of the file.
        form: "sample".to_owned(),
        command: "signet bed run sample --out <folder>".to_owned(),
        seed: 7,
        started_unix_s: 1_800_000_000,
        ended_unix_s: Some(1_800_000_800),
        machine: Machine {
            cpu_model: "A processor & more".to_owned(),
            cores: 2,
            kernel: "6.1.0".to_owned(),
            network: "loopback".to_owned(),
            idle: "awake".to_owned(),
            pinned: labels(&[("server", "0"), ("load", "1")]),
            has_shares: None,
        },
        address: None,
        versions: labels(&[("signet", "0.1.0"), ("kamailio", "5.6.3")]),
        results,
        calibrations: (0..40).map(calibration).collect(),
    }
}

/// One whose repeats disagree, one that doubts itself, one that was not measured.
fn spoil(results: &mut [CaseResult]) {
    let mut of = |id: &str, system: &str, is_peak: bool, change: &dyn Fn(&mut CaseResult)| {
        let wanted = results.iter_mut().filter(|result| {
            result.case.id == id
                && result.system == system
                && matches!(result.load, Load::Peak { .. }) == is_peak
        });
        let count = wanted.map(change).count();
        assert!(count > 0, "{id} of {system}");
    };
    of("chain-tls", "kamailio", false, &|result| {
        for (nth, repeat) in result.repeats.iter_mut().enumerate() {
            repeat
                .figures
                .insert(figure::SERVER_CPU_US.to_owned(), 100.0 + 90.0 * nth as f64);
        }
    });
    of("outbound-tcp", "signet", true, &|result| {
        for repeat in &mut result.repeats {
            repeat
                .doubts
                .push("1% of messages left 3 ms late <or more>".to_owned());
        }
    });
    of("outbound-tls", "kamailio", true, &|result| {
        result.repeats.clear();
        result.missed =
            Some("kamailio ended with \"out of mem\"; give it more with -m & run again".to_owned());
    });
}
