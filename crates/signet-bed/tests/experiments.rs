//! The experiments that the program brings, and the example that the documents have.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use signet_bed::experiment::{Case, Experiment, Form, Load, SHIPPED, SHIPPED_PRICES};
use signet_bed::run::{Choice, Task};

/// What a short form may take.
const SHORT_MAX_S: f64 = 15.0 * 60.0;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn shipped() -> Vec<Experiment> {
    SHIPPED
        .iter()
        .map(|(name, _)| match Experiment::open(name) {
            Ok((experiment, _)) => experiment,
            Err(error) => panic!("{error}"),
        })
        .collect()
}

fn fitting<'a>(
    cases: &'a [Case],
    pick: &'a signet_bed::experiment::Pick,
    at: signet_bed::experiment::At,
) -> impl Iterator<Item = &'a Case> {
    cases
        .iter()
        .filter(move |case| pick.fits(&case.labels) && case.loads.iter().any(|load| at.fits(load)))
}

#[test]
fn every_file_is_shipped_under_its_own_name() {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(root().join("experiments")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "toml") {
            found.insert(path.file_stem().unwrap().to_str().unwrap().to_owned());
        }
    }
    let names = SHIPPED.iter().chain(&SHIPPED_PRICES);
    let names: BTreeSet<String> = names.map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(found, names);
    for (experiment, (name, _)) in shipped().iter().zip(SHIPPED) {
        assert_eq!(experiment.name, name);
        assert!(experiment.paper.is_some(), "{name}");
    }
}

#[test]
fn short_forms_end_within_a_quarter_of_an_hour() {
    for experiment in shipped() {
        let both = ["signet", "kamailio"].map(str::to_owned);
        assert_eq!(experiment.systems, both, "{}", experiment.name);
        let [short_s, long_s] = [Form::Short, Form::Long].map(|form| {
            let task = Task::of(&experiment, String::new(), &Choice::all(form));
            task.unwrap().estimate_s()
        });
        println!(
            "{}: {short_s:.0} s, {:.1} h",
            experiment.name,
            long_s / 3_600.0
        );
        assert!(short_s < SHORT_MAX_S, "{}: {short_s} s", experiment.name);
        assert!(long_s > short_s, "{}", experiment.name);
    }
}

#[test]
fn cases_have_names_of_their_own_that_name_files() {
    for experiment in shipped() {
        for form in [Form::Short, Form::Long] {
            let cases = experiment.cases(form);
            let ids: BTreeSet<&str> = cases.iter().map(|case| case.id.as_str()).collect();
            assert_eq!(ids.len(), cases.len(), "{}", experiment.name);
            for id in ids {
                assert!(
                    id.chars()
                        .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.'),
                    "{id}"
                );
            }
        }
    }
}

#[test]
fn every_published_value_and_every_finding_picks_a_case() {
    let mut asked = 0;
    for experiment in shipped() {
        let name = &experiment.name;
        let long = experiment.cases(Form::Long);
        for published in &experiment.published {
            assert!(
                fitting(&long, &published.of, published.at).next().is_some(),
                "{name}: {published:?}"
            );
            assert!(!published.place.is_empty(), "{name}: {published:?}");
            asked += 1;
        }
        for form in [Form::Short, Form::Long] {
            let cases = experiment.cases(form);
            for finding in experiment.findings.iter().filter(|it| it.is_for(form)) {
                let below = finding.than_at.unwrap_or(finding.at);
                let has_of = fitting(&cases, &finding.of, finding.at).next().is_some();
                let has_than = fitting(&cases, &finding.than, below).next().is_some();
                assert!(has_of && has_than, "{name}, {form}: {}", finding.statement);
                asked += 1;
            }
        }
    }
    assert!(asked > 100, "only {asked} were asked");
}

#[test]
fn what_a_paper_measured_is_there() {
    let all = shipped();
    let of = |name: &str| {
        all.iter()
            .find(|experiment| experiment.name == name)
            .unwrap()
    };
    let long = |name: &str| of(name).cases(Form::Long);

    // Shen 2010, figures 5, 7, 9 and 11: 20 bars, UDP drawn in each and counted once.
    let is_today = |case: &&Case| case.labels["transport"].starts_with("tls13");
    let shen = long("shen-2010");
    assert_eq!(shen.iter().filter(|case| !is_today(case)).count(), 20);
    assert!(shen.iter().any(|case| is_today(&case)));

    // Maguluri 2012, chapter 6: four cases of a registrar, six of a proxy.
    let maguluri = long("maguluri-2012");
    let of_role = |role: &str| {
        let cases = maguluri.iter().filter(|case| case.labels["role"] == role);
        cases.count()
    };
    assert_eq!((of_role("registrar"), of_role("proxy")), (4, 6));
    for case in &maguluri {
        for load in &case.loads {
            if let Load::Peak { failures_max, .. } = load {
                assert_eq!(*failures_max, 0.04, "{}", case.id);
            }
        }
    }

    // Dacosta 2009: processes alone, one process with batches, and 36 pairs; the base, a
    // database near by, and the server's own way beside them.
    let dacosta = long("dacosta-2009");
    let remote: Vec<_> = dacosta
        .iter()
        .filter(|case| case.labels["users"] == "remote")
        .collect();
    assert_eq!(remote.len(), 10 + 6 + 36 + 1);
    let pair = |id: &str| {
        let case = remote.iter().find(|case| case.id == id).unwrap();
        (case.setting.lookups, case.setting.database_rtt_ms)
    };
    assert_eq!(pair("remote.32.16"), (Some((32, 16)), 30));
    assert_eq!(pair("remote.512.1"), (Some((512, 1)), 30));
    assert_eq!(pair("remote.own.own"), (None, 30));

    // Kulin 2012: three transports, a thousand callers and a thousand called.
    let kulin = long("kulin-2012");
    for name in ["udp", "tcp", "tls"] {
        let case = kulin.iter().find(|case| case.id == name).unwrap();
        assert_eq!(
            (case.setting.agents.callers, case.setting.agents.called),
            (1_000, 1_000)
        );
        assert!(case.setting.hold_ms > 0);
    }
}

#[test]
fn the_smallest_that_the_documents_show_can_be_run() {
    let text = std::fs::read_to_string(root().join("docs/EXPERIMENTS.md")).unwrap();
    let (_, rest) = text.split_once("```toml\n").unwrap();
    let (toml, _) = rest.split_once("```").unwrap();
    let experiment = match Experiment::from_text(Path::new("docs/EXPERIMENTS.md"), toml) {
        Ok(experiment) => experiment,
        Err(error) => panic!("{error}"),
    };
    let cases = experiment.cases(Form::Short);
    let ids: Vec<&str> = cases.iter().map(|case| case.id.as_str()).collect();
    assert_eq!(ids, ["udp", "tcp"]);
    assert_eq!(cases[0].loads.len(), 2);
}

#[test]
fn a_name_that_there_is_not_names_those_that_there_are() {
    let error = Experiment::open("shen-2011").unwrap_err().to_string();
    assert!(error.contains("shen-2010"), "{error}");
}
