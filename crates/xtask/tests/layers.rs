//! The modules of `sip-net` and `sip-tls` import each other downwards: of
//! modules side by side no more than three do so in a ring.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Modules side by side that may need each other: one thing in a few files.
const RING_MAX: usize = 3;

/// A module by its path from the root of its crate, which has none.
type Module = Vec<String>;

/// The modules of a crate and what is imported by them, tests aside.
struct Sources {
    texts: BTreeMap<Module, String>,
}

impl Sources {
    fn read(name: &str) -> Self {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut texts = BTreeMap::new();
        let mut folders: Vec<(PathBuf, Module)> = vec![(crates.join(name).join("src"), Vec::new())];
        while let Some((folder, above)) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let mut module = above.clone();
                match path.file_stem().unwrap().to_str().unwrap() {
                    "lib" | "mod" => {}
                    "tests" => continue,
                    stem => module.push(stem.to_owned()),
                }
                if path.is_dir() {
                    folders.push((path, module));
                } else {
                    let text = fs::read_to_string(path).unwrap();
                    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
                    texts.insert(module, code.to_owned());
                }
            }
        }
        assert!(texts.len() > 20, "{name} has {} files", texts.len());
        Self { texts }
    }

    /// Where a path leads, names that a module has of one below it followed.
    fn find(&self, path: &[String]) -> Module {
        let mut at = Module::new();
        for (depth, segment) in path.iter().enumerate() {
            let mut below = at.clone();
            below.push(segment.clone());
            if self.texts.contains_key(&below) {
                at = below;
                continue;
            }
            let own = self.texts.get(&at).into_iter().flat_map(|text| uses(text));
            let through = own
                .filter(|used| used.len() > 1 && used.last() == Some(segment))
                .map(|used| [at.clone(), used].concat())
                .find(|used| used.len() > depth + 1 && self.is_below(&at, used));
            return through.map_or(at, |used| self.find(&used));
        }
        at
    }

    fn is_below(&self, module: &Module, path: &[String]) -> bool {
        self.texts.contains_key(&path[..=module.len()])
    }

    /// Which modules side by side import which: by their names and those of all above.
    fn edges(&self) -> BTreeSet<(Module, Module)> {
        let mut edges = BTreeSet::new();
        for (module, text) in &self.texts {
            for path in uses(text) {
                let ups = path.iter().take_while(|part| *part == "super").count();
                let path = match path.first().map(String::as_str) {
                    Some("crate") => path[1..].to_vec(),
                    Some("super") => [&module[..module.len() - ups], &path[ups..]].concat(),
                    _ => continue,
                };
                let target = self.find(&path);
                let common = module
                    .iter()
                    .zip(&target)
                    .take_while(|(a, b)| a == b)
                    .count();
                if common < module.len() && common < target.len() {
                    edges.insert((module[..=common].to_vec(), target[..=common].to_vec()));
                }
            }
        }
        edges
    }
}

/// Every path in the `use` lines of a file, and those in its code that begin at
/// the root or above.
fn uses(text: &str) -> Vec<Module> {
    let mut paths = Vec::new();
    let code: Vec<&str> = text
        .lines()
        .map(|line| line.split("//").next().unwrap())
        .collect();
    let code = code.join("\n");
    for statement in code.split(';') {
        match statement.rsplit_once("use ") {
            Some((before, tree)) if before.is_empty() || before.ends_with(['\n', ' ', ')']) => {
                expand(&[], tree, &mut paths);
            }
            _ => {}
        }
        for start in ["crate::", "super::"] {
            for (at, _) in statement.match_indices(start) {
                let end = |c: char| !(c.is_alphanumeric() || c == '_' || c == ':');
                let path = statement[at..].split(end).next().unwrap();
                paths.push(
                    path.split("::")
                        .filter(|part| !part.is_empty())
                        .map(str::to_owned)
                        .collect(),
                );
            }
        }
    }
    paths
}

/// The paths of a tree like `a::{b, c::{d, e as f}}`.
fn expand(above: &[String], tree: &str, paths: &mut Vec<Module>) {
    let tree = tree.trim();
    let Some((front, rest)) = tree.split_once('{') else {
        let name = tree.split(" as ").next().unwrap();
        let own = name.split("::").map(|part| part.trim().to_owned());
        paths.push(above.iter().cloned().chain(own).collect());
        return;
    };
    let own = front.split("::").map(|part| part.trim().to_owned());
    let above: Module = above
        .iter()
        .cloned()
        .chain(own.filter(|part| !part.is_empty()))
        .collect();
    let inner = rest.rsplit_once('}').unwrap().0;
    let (mut depth, mut start) = (0, 0);
    for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !inner[start..at].trim().is_empty() {
                    expand(&above, &inner[start..at], paths);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// The sets of which each member reaches each other one.
fn rings<T: Ord + Clone>(edges: &BTreeSet<(T, T)>) -> BTreeSet<BTreeSet<T>> {
    let reached = |from: &T| {
        let mut seen = BTreeSet::new();
        let mut left = vec![from.clone()];
        while let Some(at) = left.pop() {
            for (_, to) in edges.iter().filter(|(from, _)| *from == at) {
                if seen.insert(to.clone()) {
                    left.push(to.clone());
                }
            }
        }
        seen
    };
    let all: BTreeSet<&T> = edges.iter().map(|(from, _)| from).collect();
    let reach: BTreeMap<&T, BTreeSet<T>> = all.iter().map(|from| (*from, reached(from))).collect();
    let ring = |from: &T| {
        let mutual = all
            .iter()
            .filter(|to| reach[from].contains(to) && reach[*to].contains(from));
        mutual.map(|to| (*to).clone()).collect::<BTreeSet<T>>()
    };
    all.iter()
        .map(|from| ring(from))
        .filter(|ring| ring.len() > 1)
        .collect()
}

#[test]
fn modules_import_each_other_downwards() {
    for name in ["sip-net", "sip-tls"] {
        let edges = Sources::read(name).edges();
        assert!(edges.len() > 20, "{name}: {edges:?}");
        for ring in rings(&edges) {
            assert!(
                ring.len() <= RING_MAX,
                "{name}: {ring:?} import each other in a ring; move what several need into a module below"
            );
        }
    }
}

#[test]
fn tls_has_no_sockets() {
    for (module, text) in Sources::read("sip-tls").texts {
        for socket in ["TcpStream", "TcpListener", "UdpSocket", "mio::", "socket2"] {
            assert!(!text.contains(socket), "{module:?} names {socket}");
        }
    }
}

#[test]
fn a_ring_is_found_and_what_only_looks_like_one_is_none() {
    let edges: BTreeSet<_> = [(1, 2), (2, 3), (3, 1), (3, 4), (4, 5)].into();
    assert_eq!(rings(&edges), [[1, 2, 3].into()].into());
    let text = "use crate::{a, b::{C, d as e}};\nfn f() { super::g::h(); }\n// use crate::no;\n";
    let found: Vec<String> = uses(text).iter().map(|path| path.join("::")).collect();
    for path in ["crate::a", "crate::b::C", "crate::b::d", "super::g::h"] {
        assert!(
            found.iter().any(|found| found == path),
            "{path} in {found:?}"
        );
    }
    assert!(!found.iter().any(|found| found.ends_with("no")));
}
