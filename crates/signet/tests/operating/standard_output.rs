//! The standard output that is full, and the one that nobody reads any more.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use measure::RunResult;

use crate::support::command::{run, succeed, text};
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

#[test]
fn a_made_password_that_nobody_saw_is_told_to_be_lost() {
    let folder = TestDir::new("output-password");
    let data = folder.path().join("data");
    let at = ["--data", text(&data), "--domain", "example.com"];
    let add = |name| [&["user", "add", name, "--generate"], &at[..]].concat();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    for (name, output) in [("alice", Stdio::from(full)), ("bob", Stdio::from(closed))] {
        let (code, said) = run_into(&add(name), output);
        assert_eq!(code, Some(1), "{said}");
        let lost = format!("{name}@example.com was added, and the password is lost");
        let remedy = format!("signet user passwd {name}@example.com --generate");
        assert!(said.contains(&lost) && said.contains(&remedy), "{said}");
    }
    let list = succeed(&[&["user", "list"], &at[..]].concat(), "");
    assert_eq!(list, "alice@example.com\nbob@example.com\n");
}

#[test]
fn a_line_as_name_of_a_record_of_prices_is_the_standard_output() {
    let folder = TestDir::new("output-line");
    let ended = |words: &[&str]| {
        let ended = Command::new(signet())
            .args(words)
            .current_dir(folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{words:?}: {said}");
        serde_json::from_slice::<serde_json::Value>(&ended.stdout).unwrap()
    };
    let part = ["--part", "digest", "--rounds", "5"];
    let priced = ended(&[&["price", "crypto", "--json", "-"], &part[..]].concat());
    assert_eq!(priced["format"], "signet-price");
    let file = folder.path().join("crypto.json");
    std::fs::write(&file, priced.to_string()).unwrap();
    let medians = ended(&["price", "report", "crypto.json", "--json", "-"]);
    assert_eq!(medians["format"], "signet-price");
    assert!(folder.path().join("crypto.html").exists());
    assert!(!folder.path().join("-").exists());
}

#[test]
fn a_load_that_could_not_be_kept_or_is_none_is_refused_before_it_begins() {
    let folder = TestDir::new("output-nowhere");
    let missing = folder.path().join("nowhere/result");
    let missing = text(&missing);
    let call = ["load", "call", "--self", "--no-check-self"];
    for (words, why) in [
        (["--json", missing], "in a folder that this user may write"),
        (["--csv", missing], "in a folder that this user may write"),
        (["--html", missing], "in a folder that this user may write"),
        (["--count", "0"], "--count 0: write a number above 0"),
        (["--duration", "0"], "--duration 0: write a time above 0"),
    ] {
        let ended = run(&[&call[..], &words].concat(), "");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(why), "{words:?}: {said}");
        assert!(ended.stdout.is_empty(), "{words:?}: it began");
    }
    let peak = ["load", "peak", "--self", "--json", missing];
    let ended = run(&peak, "");
    assert_eq!(ended.status.code(), Some(2));
    assert!(ended.stdout.is_empty(), "it began");
    let ended = run(&["price", "crypto", "--html", missing], "");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(
        said.contains("in a folder that this user may write"),
        "{said}"
    );
}
