//! A case: two scenarios, their options and what comes of them.

use std::path::{Path, PathBuf};

/// Columns that depend on when a message comes, unless a case is made so that they do not.
const BY_CHANCE: [&str; 4] = ["Retransmissions", "Warnings", "DeadCall", "OutOfCall"];

/// A folder of `conformance/sipp`. Its file `case` has a line for each of:
/// `caller exits CODE`, `callee exits CODE`; options of `caller`, `callee` and
/// `both`; `also` more options to play it with once more; `remote` where the
/// caller is told that the callee is; `compares` what is compared besides.
#[derive(Clone, Debug, Default)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) caller_exits: i32,
    pub(crate) callee_exits: i32,
    pub(crate) both: String,
    pub(crate) caller: String,
    pub(crate) callee: String,
    pub(crate) remote: Option<String>,
    /// Whether copies of a message are compared too.
    pub(crate) has_copies: bool,
    /// Columns that are compared too.
    pub(crate) columns: Vec<String>,
    also: Vec<String>,
}

impl Case {
    /// Where the cases are: other people's scenarios stay outside of the repository.
    pub(crate) fn folder() -> PathBuf {
        match std::env::var_os("SIPP_CASES") {
            Some(folder) => folder.into(),
            None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/sipp"),
        }
    }

    /// All cases, by name.
    pub(crate) fn all() -> Vec<Self> {
        let mut cases: Vec<Self> = std::fs::read_dir(Self::folder())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.join("case").is_file())
            .map(|path| Self::read(&path))
            .collect();
        cases.sort_by(|a, b| a.name.cmp(&b.name));
        cases
    }

    /// Whether the column of this name depends on the time.
    pub(crate) fn is_by_chance(&self, name: &str) -> bool {
        let mut by_chance = BY_CHANCE.iter().filter(|part| name.contains(**part));
        by_chance.any(|part| !self.columns.iter().any(|column| column == part))
    }

    /// The case itself, and once more with the options of each `also`.
    pub(crate) fn variants(&self) -> Vec<Self> {
        let mut variants = vec![self.clone()];
        for more in &self.also {
            let mut variant = self.clone();
            variant.both = format!("{} {more}", self.both);
            variants.push(variant);
        }
        variants
    }

    fn read(path: &Path) -> Self {
        let mut case = Self {
            name: path.file_name().unwrap().to_string_lossy().into_owned(),
            path: path.canonicalize().unwrap(),
            caller_exits: -1,
            callee_exits: -1,
            ..Self::default()
        };
        let text = std::fs::read_to_string(path.join("case")).unwrap();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let exits = rest
                .strip_prefix("exits ")
                .map(|code| code.parse().unwrap());
            match (word, exits) {
                ("caller", Some(code)) => case.caller_exits = code,
                ("callee", Some(code)) => case.callee_exits = code,
                ("caller", None) => case.caller = rest.to_owned(),
                ("callee", None) => case.callee = rest.to_owned(),
                ("both", _) => case.both = rest.to_owned(),
                ("also", _) => case.also.push(rest.to_owned()),
                ("remote", _) => case.remote = Some(rest.to_owned()),
                ("compares", _) => {
                    for what in rest.split(' ') {
                        match what {
                            "copies" => case.has_copies = true,
                            what if BY_CHANCE.contains(&what) => case.columns.push(what.to_owned()),
                            what => panic!("{}: compares {what}?", path.display()),
                        }
                    }
                }
                _ => panic!("{}: what is {line:?}?", path.display()),
            }
        }
        assert!(
            text.starts_with("# ") && case.caller_exits >= 0 && case.callee_exits >= 0,
            "{}: a case needs a remark that says what it is, and both exit codes",
            path.display()
        );
        case
    }
}
