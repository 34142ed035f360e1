//! `signet bed report`, `compare` and `table` by the real program: what they make of records,
//! what they refuse, and their exit codes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use signet_bed::experiment::{Experiment, Form};
use signet_bed::record::{CaseResult, FORMAT, Record, Repeat, VERSION, figure};
use support::command::{run, text};
use support::{TestDir, small_disk, with_small_disk};

const EXPERIMENT: &str = r#"
version = 1
name = "small"
title = "Two transports"
question = "Which costs less?"
systems = ["signet"]

[short]
repeats = 3
peak_repeats = 1
warm_up_s = 1
measure_s = 2

[long]
repeats = 3
peak_repeats = 1
warm_up_s = 1
measure_s = 2

[common]
role = "proxy"
flow = "calls"

[[axis]]
name = "transport"
title = "transport"
[[axis.value]]
name = "udp"
title = "UDP"
set = { transport = "udp" }
[[axis.value]]
name = "tls"
title = "TLS"
set = { transport = "tls" }

[[load]]
rates_per_s = [100.0]
"#;

/// A record in which a call costs so much in each repeat, of both cases.
fn record(costs_us: [f64; 3]) -> Record {
    let experiment = Experiment::from_text(Path::new("small.toml"), EXPERIMENT).unwrap();
    let repeat = |cost_us: &f64| Repeat {
        figures: [(figure::SERVER_CPU_US.to_owned(), *cost_us)].into(),
        ..Repeat::default()
    };
    let of = |case: signet_bed::experiment::Case| CaseResult {
        system: "signet".to_owned(),
        load: case.loads[0].clone(),
        case,
        repeats: costs_us.iter().map(repeat).collect(),
        missed: None,
    };
    Record {
        format: FORMAT.to_owned(),
        version: VERSION,
        experiment: "small".to_owned(),
        experiment_toml: EXPERIMENT.to_owned(),
        form: "short".to_owned(),
        ended_unix_s: Some(1),
        versions: BTreeMap::from([("signet".to_owned(), "0.1.0".to_owned())]),
        results: experiment.cases(Form::Short).into_iter().map(of).collect(),
        ..Record::default()
    }
}

fn put(path: &Path, record: &Record) {
    fs::write(path, serde_json::to_string(record).unwrap()).unwrap();
}

/// Two records that agree, and one in which all costs twice as much.
struct Records {
    folder: TestDir,
}

impl Records {
    fn new(name: &str) -> Self {
        let folder = TestDir::new(name);
        put(&folder.path().join("a.json"), &record([50.0, 51.0, 49.0]));
        put(&folder.path().join("b.json"), &record([50.5, 51.5, 49.5]));
        put(
            &folder.path().join("dear.json"),
            &record([100.0, 101.0, 99.0]),
        );
        Self { folder }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Runs a verb; its exit code, and what it said on either output.
fn bed(words: &[&str]) -> (i32, String, String) {
    let output = run(&[&["bed"], words].concat(), "");
    (
        output.status.code().expect("it ends by itself"),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

/// Runs a verb that must refuse with 2 and name all of these.
fn refuse(words: &[&str], expected: &[&str]) {
    let (code, out, error) = bed(words);
    assert_eq!(code, 2, "{words:?}: {out}{error}");
    assert_eq!(out, "", "{words:?}");
    for part in expected {
        assert!(error.contains(part), "{words:?}: no {part:?} in {error}");
    }
}

#[test]
fn pages_are_drawn_of_records_and_folders() {
    let records = Records::new("bed-report");
    let (code, out, error) = bed(&["report", text(&records.at("a.json"))]);
    assert_eq!((code, error.as_str()), (0, ""));
    assert_eq!(out, format!("{}\n", records.at("a.html").display()));
    let page = fs::read_to_string(records.at("a.html")).unwrap();
    assert!(page.contains("Two transports") && page.trim_end().ends_with("</html>"));
    // Each record of a folder, and nothing else that is in it.
    fs::write(records.at("other.json"), "{\"format\": \"signet-load\"}").unwrap();
    let (code, out, _) = bed(&["report", text(records.folder.path())]);
    assert_eq!(code, 0);
    let names: Vec<&str> = out
        .lines()
        .filter_map(|line| line.rsplit('/').next())
        .collect();
    assert_eq!(names, ["a.html", "b.html", "dear.html"]);
    assert!(!records.at("other.html").exists());
    let table = records.at("all.html");
    let [a, dear] = ["a.json", "dear.json"].map(|name| records.at(name));
    let (code, out, error) = bed(&["table", text(&a), text(&dear), "--out", text(&table)]);
    assert_eq!((code, error.as_str()), (0, ""));
    assert_eq!(out, format!("{}\n", table.display()));
    let page = fs::read_to_string(&table).unwrap();
    assert!(page.contains("a.json") && page.contains("dear.json"));
}

#[test]
fn a_comparison_ends_with_whether_the_records_agree() {
    let records = Records::new("bed-compare");
    let [a, b, dear] = ["a.json", "b.json", "dear.json"].map(|name| records.at(name));
    let (code, out, error) = bed(&["compare", text(&a), text(&b)]);
    assert_eq!((code, error.as_str()), (0, ""));
    assert!(out.contains("2 of 2 figures agree"), "{out}");
    assert!(!out.contains("agrees "), "{out}");
    let (_, out, _) = bed(&["compare", "--all", text(&a), text(&b)]);
    assert!(out.contains("agrees "), "{out}");
    let (code, out, _) = bed(&["compare", text(&a), text(&dear)]);
    assert_eq!(code, 1);
    assert!(out.contains("DIFFERS"), "{out}");
    // The same for programs, in a file or in the place of the text.
    let json = records.at("comparison.json");
    let (code, out, _) = bed(&["compare", text(&a), text(&dear), "--json", text(&json)]);
    assert_eq!(code, 1);
    assert!(out.contains("DIFFERS"), "{out}");
    let (code, out, error) = bed(&["compare", text(&a), text(&dear), "--json", "-"]);
    assert_eq!((code, error.as_str()), (1, ""));
    let told: Value = serde_json::from_str(&out).unwrap();
    let kept: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(told, kept);
    assert_eq!(told["format"], "signet-bed-comparison");
    assert_eq!(told["version"], 1);
    assert_eq!(told["holds"], false);
    assert_eq!(told["judged"], 2);
    let row = &told["rows"][0];
    assert_eq!(row["figure"], figure::SERVER_CPU_US);
    assert_eq!(row["a"]["median"], 50.0);
    assert_eq!(row["b"]["median"], 100.0);
    assert_eq!(row["agrees"], false);
}

#[test]
fn what_is_no_record_of_this_version_is_refused_by_name() {
    let records = Records::new("bed-refuse");
    let good = records.at("a.json");
    let whole = fs::read_to_string(&good).unwrap();
    let bad = |name: &str, text: &str| {
        let path = records.at(name);
        fs::write(&path, text).unwrap();
        path
    };
    let later = whole.replacen("\"version\":1", "\"version\":2", 1);
    assert_ne!(later, whole);
    let cut = whole.get(..whole.len() / 2).unwrap();
    let other = Record {
        experiment: "other".to_owned(),
        ..record([1.0, 2.0, 3.0])
    };
    for (path, why) in [
        (records.at("absent.json"), "cannot read"),
        (bad("later.json", &later), "version 2"),
        (bad("cut.json", cut), "no record of a run"),
        (bad("empty.json", ""), "no record of a run"),
        (
            bad("load.json", "{\"format\": \"signet-load\"}"),
            "signet-load",
        ),
    ] {
        let path = text(&path);
        let name = Path::new(path).file_name().unwrap().to_str().unwrap();
        refuse(&["report", path], &[name, why]);
        refuse(&["compare", text(&good), path], &[name, why]);
        refuse(&["compare", path, text(&good)], &[name, why]);
        let out = records.at("table.html");
        refuse(
            &["table", text(&good), path, "--out", text(&out)],
            &[name, why],
        );
        assert!(!out.exists());
    }
    let other_path = records.at("elsewhere.json");
    put(&other_path, &other);
    refuse(
        &["compare", text(&good), text(&other_path)],
        &["small", "other"],
    );
    let empty = records.at("nothing");
    fs::create_dir(&empty).unwrap();
    refuse(
        &["report", text(&empty)],
        &["there is no record of an experiment in it"],
    );
    refuse(
        &["report", text(&records.at("nowhere"))],
        &["nowhere", "cannot read"],
    );
    refuse(&["report"], &["FILE|DIR"]);
    refuse(&["compare", text(&good)], &["<B>"]);
}

#[test]
fn where_a_page_cannot_be_written_it_is_told() {
    let records = Records::new("bed-unwritten");
    let a = records.at("a.json");
    let missing = records.at("no/such/table.html");
    refuse(
        &["table", text(&a), "--out", text(&missing)],
        &["no/such/table.html"],
    );
    refuse(
        &["table", text(&a), "--out", "/dev/full"],
        &["/dev/full", "No space left"],
    );
    let [to, json] = ["b.json", "no/such/all.json"].map(|name| records.at(name));
    refuse(
        &["compare", text(&a), text(&to), "--json", text(&json)],
        &["no/such/all.json"],
    );
}

#[test]
fn a_full_disk_is_told_and_leaves_no_half_page() {
    with_small_disk("a_full_disk_is_told_and_leaves_no_half_page", || {
        let disk = small_disk();
        let kept = disk.join("a.json");
        put(&kept, &record([50.0, 51.0, 49.0]));
        let (code, _, error) = bed(&["report", text(&kept)]);
        assert_eq!((code, error.as_str()), (0, ""));
        let page = fs::read(disk.join("a.html")).unwrap();
        // Until nothing more has room.
        let filled = fs::write(disk.join("filler"), vec![0u8; 1 << 20]);
        assert!(filled.is_err(), "the disk is larger than it should be");
        refuse(&["report", text(&kept)], &["a.html", "No space left"]);
        assert_eq!(
            fs::read(disk.join("a.html")).unwrap(),
            page,
            "the page was spoilt"
        );
        let out = disk.join("table.html");
        refuse(
            &["table", text(&kept), "--out", text(&out)],
            &["table.html", "No space left"],
        );
        assert!(!out.exists());
    });
}

#[test]
fn a_comparison_that_cannot_be_printed_is_no_agreement() {
    let records = Records::new("bed-unprinted");
    let (a, b) = (records.at("a.json"), records.at("b.json"));
    let words = ["bed", "compare", text(&a), text(&b)];
    for words in [&words[..], &[&words[..], &["--json", "-"]].concat()] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let ended = std::process::Command::new(support::signet())
            .args(words)
            .stdout(full)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains("No space left on device"), "{said}");
    }
}
