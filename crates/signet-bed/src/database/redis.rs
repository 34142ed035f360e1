//! Redis.

use std::path::Path;

use super::{Instance, run};
use crate::process::Process;
use crate::users;

/// What is set otherwise than by default.
pub(super) const SETTINGS: &str = "nothing is saved";

pub(super) fn start(instance: &Instance<'_>, count: usize) -> Result<Process, String> {
    let words = [
        "--port".to_owned(),
        instance.port.to_string(),
        "--bind".to_owned(),
        "127.0.0.1".to_owned(),
        "--dir".to_owned(),
        instance.path(""),
        "--save".to_owned(),
        String::new(),
        "--appendonly".to_owned(),
        "no".to_owned(),
    ];
    let mut process = Process::start(instance.core, "redis-server", &words, &instance.log())?;
    instance.wait(&mut process)?;
    let commands = instance.path("users");
    users::write(Path::new(&commands), count, users::redis)?;
    let port = instance.port.to_string();
    let at = ["-h", "127.0.0.1", "-p", &port];
    let pipe = [&at[..], &["--pipe"]].concat();
    run("redis-cli", &pipe, Some(Path::new(&commands)))?;
    let size = [&at[..], &["DBSIZE"]].concat();
    let found = run("redis-cli", &size, None)?;
    if found
        .split_whitespace()
        .any(|word| word == count.to_string())
    {
        Ok(process)
    } else {
        Err(format!("{} users are there, and not {count}", found.trim()))
    }
}
