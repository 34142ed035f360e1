//! The modules of `sip-net`, `sip-tls` and `sip-worker` import each other
//! downwards: of modules side by side no more than three do so in a ring. And
//! sockets are named only where they belong.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Modules side by side that may need each other: one thing in a few files.
const RING_MAX: usize = 3;

/// What has or opens sockets.
const SOCKETS: [&str; 13] = [
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "UnixStream",
    "UnixListener",
    "UnixDatagram",
    "ToSocketAddrs",
    "to_socket_addrs",
    "mio::",
    "socket2",
    "tokio::net",
    "libc::",
    "sys::socket",
];

/// Which modules of a crate with sockets name them: of `sip-net` what moves
/// bytes, makes listeners and asks DNS; of `signet-serve` the worker with its
/// choice of addresses, and what operators connect to.
const WITH_SOCKETS: [(&str, &[&str]); 2] = [
    (
        "sip-net",
        &[
            "config", "dns", "net", "stream", "sys", "testing", "udp", "waker",
        ],
    ),
    ("signet-serve", &["admin", "metrics", "setup", "worker"]),
];

/// A module by its path from the root of its crate, which has none.
type Module = Vec<String>;

/// A path that a `use` line brings into a module, and its name there.
#[derive(Debug)]
struct Use {
    path: Module,
    name: String,
}

/// The modules of a crate and what is imported by them, tests aside.
struct Sources {
    texts: BTreeMap<Module, String>,
    uses: BTreeMap<Module, Vec<Use>>,
}

impl Sources {
    fn read(name: &str) -> Self {
        let mut texts = BTreeMap::new();
        let mut folders: Vec<(PathBuf, Module)> =
            vec![(crates().join(name).join("src"), Vec::new())];
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
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let text = fs::read_to_string(path).unwrap();
                    texts.insert(module, without_tests(&text));
                }
            }
        }
        assert!(texts.contains_key(&Module::new()), "{name} has a root");
        Self::of(texts)
    }

    fn of(texts: BTreeMap<Module, String>) -> Self {
        let uses = texts
            .iter()
            .map(|(module, text)| (module.clone(), uses(text)))
            .collect();
        Self { texts, uses }
    }

    /// A path from the root, if it is one of this crate's.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Module> {
        let ups = path.iter().take_while(|part| *part == "super").count();
        match path.first().map(String::as_str) {
            Some("crate") => Some(path[1..].to_vec()),
            Some("self") => Some([module, &path[1..]].concat()),
            Some("super") => Some([&module[..module.len() - ups], &path[ups..]].concat()),
            _ => {
                let below = [module, path.get(..1)?].concat();
                self.texts
                    .contains_key(&below)
                    .then(|| [module, path].concat())
            }
        }
    }

    /// The modules that a path names: the one it leads to, and where that has the
    /// name from another, that one too.
    fn find(&self, path: &[String]) -> Vec<Module> {
        let mut at = Module::new();
        for (depth, segment) in path.iter().enumerate() {
            let mut below = at.clone();
            below.push(segment.clone());
            if self.texts.contains_key(&below) {
                at = below;
                continue;
            }
            let own = self.uses.get(&at).into_iter().flatten();
            let further = own
                .filter(|used| used.name == *segment)
                .find_map(|used| self.absolute(&at, &used.path));
            let mut found = vec![at];
            if let Some(further) = further {
                let rest = &path[depth + 1..];
                found.extend(self.find(&[further.as_slice(), rest].concat()));
            }
            return found;
        }
        vec![at]
    }

    /// The paths in a module that lead to others of its crate.
    fn paths(&self, module: &[String], text: &str) -> Vec<Module> {
        let mut paths: Vec<Module> = ["crate", "super", "self"]
            .iter()
            .flat_map(|first| paths_from(text, first))
            .collect();
        for used in self.uses.get(module).into_iter().flatten() {
            paths.push(used.path.clone());
            // What is named through a module that was imported whole.
            for path in paths_from(text, &used.name) {
                let tail = path.get(1..).unwrap_or_default();
                paths.push([used.path.as_slice(), tail].concat());
            }
        }
        paths
            .iter()
            .filter_map(|path| self.absolute(module, path))
            .collect()
    }

    /// Which modules side by side import which: by their names and those of all above.
    fn edges(&self) -> BTreeSet<(Module, Module)> {
        let mut edges = BTreeSet::new();
        for (module, text) in &self.texts {
            let has_module = |line: &str| {
                let words: Vec<&str> = line.split_whitespace().collect();
                matches!(words[..], [.., "mod", _, "{"])
            };
            assert!(
                !text.lines().any(has_module),
                "{module:?} has a module in its file: `super` of that would be misread"
            );
            for path in self.paths(module, text) {
                assert!(
                    path.last().is_none_or(|last| last != "*"),
                    "{module:?} imports all of {path:?}: whose names it uses cannot be seen"
                );
                for target in self.find(&path) {
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
        }
        edges
    }
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A file's code without its comments and its tests: an item that is not
/// indented ends with the first such line that ends with `;` or `}`.
fn without_tests(text: &str) -> String {
    let mut code = String::new();
    let mut is_test = false;
    for line in text.lines() {
        let line = without_comment(line).trim_end();
        if line == "#[cfg(test)]" {
            is_test = true;
        } else if is_test {
            is_test = line.starts_with(' ') || !line.ends_with([';', '}']);
        } else {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}

/// A line up to its comment; the slashes of a URL begin none.
fn without_comment(line: &str) -> &str {
    let comment = line
        .match_indices("//")
        .find(|(at, _)| !line[..*at].ends_with(':'));
    comment.map_or(line, |(at, _)| &line[..at])
}

/// What the `use` lines of a file import, wherever they are.
fn uses(code: &str) -> Vec<Use> {
    let mut uses = Vec::new();
    for statement in code.split(';') {
        match statement.rsplit_once("use ") {
            Some((before, tree)) if before.is_empty() || before.ends_with(['\n', ' ', ')']) => {
                expand(&[], tree, &mut uses);
            }
            _ => {}
        }
    }
    uses
}

/// The paths in code that begin with a name.
fn paths_from(code: &str, first: &str) -> Vec<Module> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    code.match_indices(&format!("{first}::"))
        .filter(|(at, _)| !code[..*at].ends_with(is_part))
        .map(|(at, _)| {
            let path = code[at..].split(|c: char| !is_part(c)).next().unwrap();
            path.split("::")
                .filter(|part| !part.is_empty())
                .map(str::to_owned)
                .collect()
        })
        .collect()
}

/// The paths of a tree like `a::{b, c::{d, e as f}}`.
fn expand(above: &[String], tree: &str, uses: &mut Vec<Use>) {
    let tree = tree.trim();
    let Some((front, rest)) = tree.split_once('{') else {
        let (path, alias) = tree.split_once(" as ").unwrap_or((tree, ""));
        let own = path.split("::").map(|part| part.trim().to_owned());
        let mut path: Module = above.iter().cloned().chain(own).collect();
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let name = match alias.trim() {
            "" => path.last().unwrap().clone(),
            alias => alias.to_owned(),
        };
        uses.push(Use { path, name });
        return;
    };
    let own = front.split("::").map(|part| part.trim().to_owned());
    let above: Module = above
        .iter()
        .cloned()
        .chain(own.filter(|part| !part.is_empty()))
        .collect();
    let Some((inner, _)) = rest.rsplit_once('}') else {
        // Words in a string.
        return;
    };
    let (mut depth, mut start) = (0, 0);
    for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !inner[start..at].trim().is_empty() {
                    expand(&above, &inner[start..at], uses);
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

/// The crates that have no sockets, as the list in `docs/ARCHITECTURE.md` says.
fn without_sockets() -> BTreeSet<String> {
    let text = fs::read_to_string(crates().join("../docs/ARCHITECTURE.md")).unwrap();
    let list = text.split_once("\ncrates/\n").unwrap().1;
    let list = list.split_once("\nattacks/").unwrap().0;
    let mut entries: Vec<String> = Vec::new();
    for line in list.lines() {
        if line.starts_with("   ") {
            entries.last_mut().unwrap().push_str(line);
        } else {
            entries.push(line.to_owned());
        }
    }
    entries
        .iter()
        .filter(|entry| entry.ends_with("no I/O") || entry.ends_with("no sockets"))
        .map(|entry| entry.split_whitespace().next().unwrap().to_owned())
        .collect()
}

#[test]
fn modules_import_each_other_downwards() {
    for name in ["sip-net", "sip-tls", "sip-worker"] {
        let edges = Sources::read(name).edges();
        assert!(edges.len() > 10, "{name}: {edges:?}");
        for ring in rings(&edges) {
            assert!(
                ring.len() <= RING_MAX,
                "{name}: {ring:?} import each other in a ring; move what several need into a module below"
            );
        }
    }
}

#[test]
fn crates_without_sockets_name_none_and_depend_on_none_that_do() {
    let without = without_sockets();
    for name in ["sip-engine", "sip-worker", "sip-tls", "sip-dialog"] {
        assert!(without.contains(name), "{name} is not in {without:?}");
    }
    for name in &without {
        for (module, text) in Sources::read(name).texts {
            for socket in SOCKETS.iter().chain(&["sip_net"]) {
                assert!(!text.contains(socket), "{name}: {module:?} names {socket}");
            }
        }
        let manifest = fs::read_to_string(crates().join(name).join("Cargo.toml")).unwrap();
        let manifest: toml::Table = toml::from_str(&manifest).unwrap();
        let needed = manifest.get("dependencies").and_then(|it| it.as_table());
        for other in needed.into_iter().flat_map(|needed| needed.keys()) {
            let is_ours = crates().join(other).is_dir();
            assert!(
                !is_ours || without.contains(other),
                "{name} has no sockets and depends on {other}"
            );
        }
    }
}

#[test]
fn where_sockets_are_named_is_told() {
    for (name, told) in WITH_SOCKETS {
        let found: BTreeSet<String> = Sources::read(name)
            .texts
            .into_iter()
            .filter(|(_, text)| SOCKETS.iter().any(|socket| text.contains(socket)))
            .map(|(module, _)| module.first().cloned().unwrap_or_default())
            .collect();
        let told: BTreeSet<String> = told.iter().map(|&module| module.to_owned()).collect();
        assert_eq!(found, told, "{name}");
    }
}

#[test]
fn only_the_worker_and_what_starts_it_have_its_sockets() {
    let sources = Sources::read("signet-serve");
    let mut found = BTreeSet::new();
    for (module, text) in &sources.texts {
        let used = sources.uses[module].iter().map(|used| used.path.clone());
        let is_net = |path: Module| path.iter().take(2).eq(["sip_net", "Net"]);
        if used.chain(paths_from(text, "sip_net")).any(is_net) {
            found.insert(module.join("::"));
        }
    }
    let told = ["server::start", "worker"].map(str::to_owned);
    assert_eq!(found, told.into());
}

#[test]
fn a_ring_is_found_and_what_only_looks_like_one_is_none() {
    let edges: BTreeSet<_> = [(1, 2), (2, 3), (3, 1), (3, 4), (4, 5)].into();
    assert_eq!(rings(&edges), [[1, 2, 3].into()].into());
}

/// The edges of a crate of a few files, as `from>to`.
fn edges_of(files: &[(&str, &str)]) -> BTreeSet<String> {
    let texts = files.iter().map(|(module, text)| {
        let module = module.split("::").filter(|part| !part.is_empty());
        let module: Module = module.map(str::to_owned).collect();
        (module, without_tests(text))
    });
    let edges = Sources::of(texts.collect()).edges();
    edges
        .into_iter()
        .map(|(from, to)| format!("{}>{}", from.join("::"), to.join("::")))
        .collect()
}

#[test]
fn an_import_is_found_however_it_is_written() {
    let a_uses_b = [
        "use crate::b::B;",
        "use crate::{b::{B, C as D}, E};",
        "pub(crate) use super::b;",
        "fn f() {\n    use super::b::B;\n}",
        "fn f() {\n    super::b::g();\n}",
        "fn f() -> crate::b::B;",
        "#[cfg(test)]\nmod tests;\n\nuse crate::b::B;",
        "#[cfg(test)]\n#[expect(\n    clippy::panic,\n)]\nmod tests {\n    fn f() {}\n}\nuse crate::b::B;",
        "const URL: &str = \"http://b\"; use crate::b::B;",
        // By the name that the root has of it.
        "use crate::B;",
        "use crate::Alias;",
        "use crate::Itself;",
        "use crate::Absolute;",
        // Through a module that was imported whole.
        "use super::{self as up};\nfn f() {\n    up::b::g();\n}",
    ];
    let root = "pub use b::{B, C as Alias};\npub use self::b::Itself;\npub use crate::b::Absolute;";
    for text in a_uses_b {
        let edges = edges_of(&[("", root), ("a", text), ("b", "")]);
        assert_eq!(edges, ["a>b".to_owned()].into(), "{text}");
    }
    let a_uses_nothing = [
        "// use crate::b::B;",
        "use std::b::B;",
        "#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}",
        "#[cfg(test)]\nuse crate::b::B;",
        "use super::F;",
        "fn f() {\n    self::g();\n}",
    ];
    for text in a_uses_nothing {
        let edges = edges_of(&[("", root), ("a", text), ("b", "")]);
        assert_eq!(edges, BTreeSet::new(), "{text}");
    }
}

#[test]
fn who_hands_an_import_on_is_imported_as_well() {
    let edges = edges_of(&[
        ("", ""),
        ("a", "use crate::b::C;"),
        ("b", "pub use crate::c::C;"),
        ("c", "use crate::d::e::f;"),
        ("d", ""),
        ("d::e", "use super::g::G;"),
        ("d::g", ""),
    ]);
    let expected = ["a>b", "a>c", "b>c", "c>d", "d::e>d::g"];
    assert_eq!(edges, expected.map(str::to_owned).into());
}

#[test]
#[should_panic(expected = "whose names it uses cannot be seen")]
fn a_module_is_not_imported_by_a_star() {
    edges_of(&[("", ""), ("a", "use crate::b::*;"), ("b", "")]);
}

#[test]
#[should_panic(expected = "would be misread")]
fn a_module_has_a_file() {
    edges_of(&[("", ""), ("a", "mod inner {\n    use super::b;\n}\n")]);
}
