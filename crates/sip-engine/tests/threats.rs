//! `docs/THREATS.md` and `docs/DEVIATIONS.md` name only tests that there are, and
//! the index of decisions names them all.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

#[test]
fn every_test_that_is_named_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut tests_of = BTreeMap::new();
    for (page, at_least) in [("THREATS.md", 51), ("DEVIATIONS.md", 10)] {
        let named = check(&root, page, &mut tests_of);
        assert!(
            named >= at_least,
            "{page} names its tests in another way: {named} were found"
        );
    }
}

#[test]
fn every_decision_is_in_the_index() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/decisions");
    let index = fs::read_to_string(folder.join("README.md")).unwrap();
    let mut found = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name != "README.md" {
            assert!(index.contains(&format!("({name})")), "{name}");
            found += 1;
        }
    }
    assert_eq!(index.matches("\n- [").count(), found);
}

/// Looks for the tests that a page names: between backticks, `crate::name`.
fn check(root: &Path, page: &str, tests_of: &mut BTreeMap<String, BTreeSet<String>>) -> usize {
    let text = fs::read_to_string(root.join("docs").join(page)).unwrap();
    let mut named = 0;
    for quoted in text.split('`').skip(1).step_by(2) {
        let Some((krate, name)) = quoted.split_once("::") else {
            continue;
        };
        let folder = root.join("crates").join(krate);
        // With Rust's spelling it is the path of a module.
        if krate.contains('_') || !folder.is_dir() {
            continue;
        }
        named += 1;
        let tests = tests_of.entry(krate.to_owned()).or_insert_with(|| {
            let mut tests = BTreeSet::new();
            collect(&folder, &mut tests);
            tests
        });
        // Beside tests a page may name a module.
        let is_module = folder.join("src").join(format!("{name}.rs")).is_file();
        assert!(
            is_module || tests.contains(name),
            "{quoted} is in docs/{page} and nowhere else"
        );
    }
    named
}

/// The names of the functions that follow a `#[test]`.
fn collect(folder: &Path, tests: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, tests);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            for after in text.split("#[test]").skip(1) {
                let name = after
                    .split_once("fn ")
                    .and_then(|(_, rest)| rest.split_once('('));
                tests.extend(name.map(|(name, _)| name.trim().to_owned()));
            }
        }
    }
}
