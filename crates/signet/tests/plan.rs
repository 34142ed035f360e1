//! `signet plan` from end to end: prices are measured, a plan is made of them, and predictions
//! are held to what mixtures take.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs;
use std::path::Path;
use std::time::Duration;

use signet_plan::check::Check;
use signet_plan::event::Event;
use signet_plan::{Plan, Profile};
use sip_net::testing::free_ports;
use support::{Running, TestDir, have, signet};

/// How long a calibration in a hurry may take, in a build for tests beside other tests.
const PATIENCE: Duration = Duration::from_secs(400);

struct Planner {
    folder: TestDir,
}

impl Planner {
    /// Runs `signet plan`; the exit code and what it said.
    fn run(&self, words: &[&str]) -> (i32, String) {
        let log = self.folder.path().join("plan.log");
        let mut running = Running::start(signet(), &[&["plan"][..], words].concat(), &log);
        let code = running.wait(PATIENCE);
        (
            code.expect("it did not end"),
            fs::read_to_string(&log).unwrap(),
        )
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}

fn example() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../etc/plan.toml");
    path.display().to_string()
}

#[test]
fn prices_are_measured_planned_by_and_checked() {
    if !have("mariadbd") {
        return;
    }
    let planner = Planner {
        folder: TestDir::new("plan"),
    };
    let (port, work, profile) = (
        free_ports(9).to_string(),
        planner.file("work"),
        planner.file("profile.json"),
    );
    let bench = ["--quick", "--port", port.as_str(), "--work", work.as_str()];
    let words = ["calibrate", "--out", profile.as_str()];
    let (code, said) = planner.run(&[&words[..], &bench[..]].concat());
    assert_eq!(code, 0, "{said}");
    let measured = Profile::open(&profile).unwrap();
    assert!(measured.is_quick && measured.missing.is_empty());
    for event in Event::ALL {
        let counts = measured
            .runs
            .iter()
            .any(|run| run.doubts.is_empty() && run.rates.get(event) > 0.0);
        assert_eq!(
            counts,
            measured.fit.prices.contains_key(&event),
            "{event:?}"
        );
    }
    assert!(measured.fit.prices.len() >= 6, "{said}");
    assert!(measured.memory.tls.bytes > 1_000.0, "{:?}", measured.memory);
    let udp_bytes = measured.bytes.get(&Event::LegUdp);
    assert!(
        udp_bytes.is_none_or(|bytes| *bytes > 500.0),
        "{:?}",
        measured.bytes
    );

    let (json, html) = (planner.file("plan.json"), planner.file("plan.html"));
    let demand = example();
    let (code, said) = planner.run(&[
        &demand,
        "--profile",
        &profile,
        "--json",
        &json,
        "--html",
        &html,
    ]);
    // A busy machine spoils runs: what has no price then is refused, and named.
    if code == 1 {
        assert!(said.contains("has no price for"), "{said}");
        assert!(measured.fit.prices.len() < Event::ALL.len());
    } else {
        assert_eq!(code, 0, "{said}");
        let whose = match &measured.machine_id {
            Some(_) => "measured on this machine",
            None => "NOT YOURS",
        };
        assert!(said.contains(whose), "{said}");
        assert!(
            said.contains("the calibration was made in a hurry"),
            "{said}"
        );
        let plan: Plan = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
        assert!(plan.machines >= 2 && plan.busy_cores.value > 0.0);
        assert!(
            fs::read_to_string(&html)
                .unwrap()
                .contains("busiest minute")
        );
    }

    let checked = planner.file("check.json");
    let words = [
        "check",
        "--profile",
        profile.as_str(),
        "--json",
        checked.as_str(),
    ];
    let (code, said) = planner.run(&[&words[..], &bench[..]].concat());
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("mean error"), "{said}");
    let check: Check = serde_json::from_slice(&fs::read(&checked).unwrap()).unwrap();
    assert_eq!(check.cases.len(), 3);
    for case in &check.cases {
        let streams = &case.runs[0].mixture.streams;
        assert!(
            streams.len() >= 2 && case.predicted_cores >= 0.0,
            "{case:?}"
        );
        assert!(
            measured
                .runs
                .iter()
                .all(|run| run.mixture.streams != *streams)
        );
    }
    // Three mixtures of a second say nothing to plan by.
    assert!(
        check.checked.is_some() && said.contains("not kept"),
        "{said}"
    );
    assert_eq!(Profile::open(&profile).unwrap().checked, None);
}

#[test]
fn what_is_wrong_is_told_with_its_remedy() {
    let planner = Planner {
        folder: TestDir::new("plan-wrong"),
    };
    let demand = example();
    let missing = planner.file("nothing.json");
    let (code, said) = planner.run(&[&demand, "--profile", &missing]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("signet plan calibrate"), "{said}");
    let (code, said) = planner.run(&[&demand, "--set", "calls.busy_hours=5"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("did you mean `busy_hour`?"), "{said}");
    let (code, said) = planner.run(&[
        "calibrate",
        "--signet",
        &missing,
        "--work",
        &planner.file("work"),
    ]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("--signet PATH"), "{said}");
    let (code, said) = planner.run(&["profiles"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("epyc-2c: "), "{said}");
    assert!(said.contains("not of this machine"), "{said}");
}

#[test]
fn what_was_never_measured_is_refused() {
    let planner = Planner {
        folder: TestDir::new("plan-refused"),
    };
    let profile = planner.file("empty.json");
    let empty = Profile {
        format: signet_plan::profile::FORMAT.to_owned(),
        version: signet_plan::profile::VERSION,
        ..Profile::default()
    };
    empty.write(Path::new(&profile)).unwrap();
    let (code, said) = planner.run(&[&example(), "--profile", &profile]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("has no price for"), "{said}");
}

#[test]
fn a_profile_of_another_machine_is_not_checked_on_this_one() {
    let planner = Planner {
        folder: TestDir::new("plan-elsewhere"),
    };
    let profile = planner.file("theirs.json");
    let theirs = Profile {
        format: signet_plan::profile::FORMAT.to_owned(),
        version: signet_plan::profile::VERSION,
        machine_id: Some("another".to_owned()),
        ..Profile::default()
    };
    theirs.write(Path::new(&profile)).unwrap();
    let (code, said) = planner.run(&["check", "--profile", &profile]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("is of another machine"), "{said}");
    assert!(said.contains("signet plan calibrate"), "{said}");
    assert_eq!(Profile::open(&profile).unwrap(), theirs);
}
