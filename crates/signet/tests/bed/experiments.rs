//! Experiments on the command line, by the real program: listed, shown, checked.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;

use crate::support::TestDir;
use crate::support::command::{fail, run, succeed, text};

#[test]
fn experiments_are_there_without_any_file() {
    let listed = succeed(&["bed", "list"], "");
    for name in ["shen-2010", "kulin-2012", "maguluri-2012", "dacosta-2009"] {
        assert!(listed.contains(name), "{listed}");
        let shown = succeed(&["bed", "show", name], "");
        assert!(shown.contains("Cases of the short form:"), "{shown}");
        assert!(shown.contains("Findings that it answers:"), "{shown}");
        let long = succeed(&["bed", "show", name, "--form", "long"], "");
        assert!(long.contains("Cases of the long form:"), "{long}");
    }
    let unknown = fail(&["bed", "show", "shen-2011"], "");
    assert!(unknown.contains("shen-2010"), "{unknown}");
    let middle = run(&["bed", "show", "shen-2010", "--form", "middle"], "");
    assert_eq!(middle.status.code(), Some(2));
    let told = String::from_utf8_lossy(&middle.stderr);
    assert!(told.contains("write short or long"), "{told}");
}

#[test]
fn a_mistake_is_told_with_its_line() {
    let folder = TestDir::new("bed-check");
    let file = folder.path().join("mine.toml");
    let documents = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/EXPERIMENTS.md");
    let documents = fs::read_to_string(documents).unwrap();
    let (_, rest) = documents.split_once("```toml\n").unwrap();
    let (good, _) = rest.split_once("```").unwrap();

    fs::write(&file, good).unwrap();
    let told = succeed(&["bed", "check", text(&file)], "");
    assert!(told.contains("short: 2 cases"), "{told}");

    let bad = good.replacen("warm_up_s", "warmup_s", 1);
    let line = 1 + bad
        .lines()
        .position(|line| line.contains("warmup_s"))
        .unwrap();
    fs::write(&file, bad).unwrap();
    let told = fail(&["bed", "check", text(&file)], "");
    assert!(
        told.contains(&format!("mine.toml:{line}:1: unknown key `warmup_s`")),
        "{told}"
    );
    assert!(told.contains("did you mean `warm_up_s`?"), "{told}");
}
