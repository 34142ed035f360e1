//! Every figure that the sources name, held against a page of figures.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Those of all wanted figures that are not on the page. What is counted and not shown would be
/// missed by nobody.
pub fn missing(page: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let all = all();
    assert!(all.len() > 200, "only {all:?}");
    let mut wanted: Vec<String> = all.into_iter().filter(|name| is_wanted(name)).collect();
    assert!(!wanted.is_empty(), "there are none of these");
    wanted.retain(|name| !page.contains(&format!("# TYPE {name} ")));
    wanted
}

/// Their names: of the families of each `counters!`, and those that the page has itself.
fn all() -> BTreeSet<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(crates).unwrap() {
        let sources = entry.unwrap().path().join("src");
        if sources.is_dir() {
            gather(&sources, &mut found);
        }
    }
    found
}

fn gather(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            gather(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs")
            && !path.ends_with("tests.rs")
        {
            let is_page = path.display().to_string().contains("/metrics/page");
            names(&fs::read_to_string(&path).unwrap(), is_page, found);
        }
    }
}

/// What stands in quotes and is a name, on the page anywhere, and else as that of a family. Times
/// are counted in microseconds and shown in seconds.
fn names(text: &str, is_page: bool, found: &mut BTreeSet<String>) {
    let parts: Vec<&str> = text.split("\"signet_").collect();
    for (before, part) in parts.iter().zip(parts.iter().skip(1)) {
        let before = before.trim_end();
        let is_family = before.ends_with("counter(") || before.ends_with("gauge(");
        let name = part.split('"').next().unwrap_or_default();
        let is_name = name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if is_name && (is_family || is_page) {
            found.insert(format!(
                "signet_{}",
                name.replace("_microseconds", "_seconds")
            ));
        }
    }
}
