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

pub(super) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
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

/// Builds them all; what the compiler says goes to the terminal.
///
/// # Errors
/// When something does not build, or not without a warning: `make lint` looks at the code with all
/// features, so that what is there without them only is looked at here.
pub(super) fn build(root: &Path) -> Result<Vec<Program>, String> {
    let output = cargo(root)
        .args(["test", "--workspace", "--no-run"])
        .arg("--message-format=json")
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
    let name = match built.target.kind.first()?.as_str() {
        "test" => format!("{package}::{}", built.target.name),
        kind => format!("{package} ({kind})"),
    };
    built.profile.test.then_some(Program {
        name,
        folder: folder.to_owned(),
        path: built.executable?,
    })
}
