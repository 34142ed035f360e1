//! The test programs of the workspace, as cargo builds them and tells of them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

/// What cargo tells of something that it built.
#[derive(Deserialize)]
struct Built {
    manifest_path: PathBuf,
    target: Target,
    profile: Profile,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// A test program: `signet::trunks`, or `sip-net (lib)` for the tests beside the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// Of its package: cargo runs it there.
    pub(super) folder: PathBuf,
}

/// What is built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct What {
    /// With lints: the crates of the workspace are compiled by `clippy-driver`, which is the
    /// compiler with them, so that nothing is compiled for the lints alone. Benches and examples
    /// are built too.
    pub(super) is_linted: bool,
    /// The second TLS engine's own tests, and what has it.
    pub(super) is_legacy: bool,
}

pub(super) fn cargo(root: &Path, what: What) -> Command {
    let cargo = std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
    let mut command = Command::new(&cargo);
    command.current_dir(root);
    if what.is_linted {
        // Of the same compiler; else the one that the shell would find.
        let beside = cargo.with_file_name("clippy-driver");
        let driver = if beside.is_file() {
            beside
        } else {
            "clippy-driver".into()
        };
        command.env("RUSTC_WORKSPACE_WRAPPER", driver);
    }
    command
}

/// What cargo is asked to build, one command after the other.
fn asked(what: What) -> Vec<Vec<&'static str>> {
    if !what.is_legacy {
        let all = if what.is_linted {
            &["--all-targets"][..]
        } else {
            &[]
        };
        return vec![[&["--workspace"], all].concat()];
    }
    // What others need is built once: features are those of all, and OpenSSL has one profile. Of
    // the tests beside the code only sip-tls has some of that engine.
    let engine = "ipsec/legacy-tls,signet/legacy-tls,sip-net/legacy-tls";
    vec![
        vec!["--workspace", "--features", engine, "--test", "legacy_*"],
        vec!["-p", "sip-tls", "--features", "legacy-tls", "--lib"],
    ]
}

/// What the compiler says of a line of code.
#[derive(Deserialize)]
struct Said {
    message: Message,
}

#[derive(Deserialize)]
pub(super) struct Message {
    pub(super) level: String,
    rendered: Option<String>,
}

/// Builds them; what the compiler says goes to the terminal.
///
/// # Errors
/// When something does not build, or not without a warning.
pub(super) fn build(root: &Path, what: What) -> Result<Vec<Program>, String> {
    let mut programs = Vec::new();
    for words in asked(what) {
        programs.extend(build_one(root, what, &words)?);
    }
    Ok(programs)
}

fn build_one(root: &Path, what: What, words: &[&str]) -> Result<Vec<Program>, String> {
    let output = cargo(root, what)
        .args([
            "test",
            "--profile",
            "test",
            "--no-run",
            "--message-format=json",
        ])
        .args(words)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    let told = String::from_utf8_lossy(&output.stdout);
    let mut has_warnings = false;
    for message in told.lines().filter_map(said) {
        eprint!("{}", message.rendered.unwrap_or_default());
        has_warnings |= message.level == "warning";
    }
    if !output.status.success() {
        return Err(format!("the tests do not build: {}", output.status));
    }
    if has_warnings {
        return Err("the tests build with warnings".to_owned());
    }
    Ok(told.lines().filter_map(program).collect())
}

/// What a line of cargo's tells of the compiler.
pub(super) fn said(line: &str) -> Option<Message> {
    let said: Said = serde_json::from_str(line).ok()?;
    Some(said.message)
}

/// The test program that a line of cargo's tells of.
pub(super) fn program(line: &str) -> Option<Program> {
    let built: Built = serde_json::from_str(line).ok()?;
    let folder = built.manifest_path.parent()?;
    let package = folder.file_name()?.to_str()?;
    let kind = built.target.kind.first()?.as_str();
    let name = match kind {
        "test" => format!("{package}::{}", built.target.name),
        kind => format!("{package} ({kind})"),
    };
    let is_test = built.profile.test && !["bench", "example"].contains(&kind);
    is_test.then_some(Program {
        name,
        folder: folder.to_owned(),
        path: built.executable?,
    })
}
