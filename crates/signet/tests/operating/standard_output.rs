//! The standard output that is full, and the one that nobody reads any more.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use measure::RunResult;

use crate::support::command::text;
use crate::support::{TestDir, signet};

/// Runs the program with this standard output; its exit code and its standard error.
fn run_into(words: &[&str], output: impl Into<Stdio>) -> (Option<i32>, String) {
    let ended = Command::new(signet())
        .args(words)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    (ended.status.code(), said)
}

/// The result of a load, in a file.
fn result(folder: &Path) -> String {
    let file = folder.join("result.json");
    RunResult::default().write(&file).unwrap();
    text(&file).to_owned()
}

#[test]
fn what_cannot_be_printed_is_told_and_no_success() {
    let folder = TestDir::new("output-full");
    let result = result(folder.path());
    let file = |name: &str| text(&folder.path().join(name)).to_owned();
    let (priced, page) = (file("crypto.json"), file("crypto.html"));
    let demand = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../etc/plan.toml");
    let call = ["load", "call", "--self", "--no-check-self", "--count", "2"];
    for words in [
        &[&call[..], &["--json", "-"]].concat()[..],
        &call,
        &["load", "report", &result],
        &["load", "compare", &result, &result],
        &["bed", "list"],
        &["bed", "show", "kulin-2012"],
        &["bed", "profile", "--rules"],
        &[
            "price", "crypto", "--part", "digest", "--rounds", "5", "--json", &priced,
        ],
        &["price", "report", &priced, "--out", &page],
        &["price", "choose"],
        &["price", "choose", "--json", "-"],
        &["price", "rate", "--json", "-"],
        &["price", "tunnel", "--list"],
        &["plan", text(&demand), "--profile", "epyc-2c"],
        &["plan", "profiles"],
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let (code, said) = run_into(words, full);
        assert_eq!(code, Some(2), "{words:?}: {said}");
        let told: Vec<&str> = said
            .lines()
            .filter(|line| line.contains("cannot write to the standard output: "))
            .collect();
        assert_eq!(told.len(), 1, "{words:?}: {said}");
        assert!(told[0].contains("No space left on device"), "{said}");
    }
    // What was also asked for in a file is there: report read what crypto wrote.
    assert!(Path::new(&page).exists());
    let full = File::options().write(true).open("/dev/full").unwrap();
    let (code, said) = run_into(&["completions", "bash"], full);
    assert_eq!(code, Some(1), "{said}");
}

#[test]
fn a_reader_who_has_gone_is_no_failure() {
    let folder = TestDir::new("output-closed");
    let result = result(folder.path());
    for words in [
        &["load", "report", &result][..],
        &["load", "compare", &result, &result],
        &["bed", "list"],
        &["bed", "profile", "--rules"],
        &["price", "choose", "--json", "-"],
        &["price", "tunnel", "--list"],
        &["plan", "profiles"],
        &["completions", "bash"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, said) = run_into(words, writer);
        assert_eq!((code, said.as_str()), (Some(0), ""), "{words:?}");
    }
}
