//! `docs/THREATS.md` names only tests that there are.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

#[test]
fn every_test_that_is_named_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/THREATS.md")).unwrap();
    let mut tests_of: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut named = 0;
    // Between backticks, `crate::name`.
    for quoted in page.split('`').skip(1).step_by(2) {
        let Some((krate, name)) = quoted.split_once("::") else {
            continue;
        };
        let folder = root.join("crates").join(krate);
        if krate.contains('_') || !folder.is_dir() {
            continue;
        }
        named += 1;
        let tests = tests_of.entry(krate).or_insert_with(|| {
            let mut tests = BTreeSet::new();
            collect(&folder, &mut tests);
            tests
        });
        assert!(
            tests.contains(name),
            "{quoted} is in docs/THREATS.md and nowhere else"
        );
    }
    assert!(
        named > 50,
        "the page names its tests in another way: {named} were found"
    );
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
