//! Commands that scenarios run (`<exec command=...>`): in processes of their
//! own, a bounded number at a time, and nobody waits for them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};

/// Commands at a time; past it one is not run, and counted.
const COMMANDS_MAX: usize = 64;

#[derive(Default)]
pub(crate) struct Commands {
    running: Vec<Child>,
    refused: u64,
}

impl Commands {
    /// Runs a line in the shell; the error says why not.
    pub(crate) fn run(&mut self, line: &[u8]) -> Result<(), String> {
        self.reap();
        let shown = String::from_utf8_lossy(line);
        if self.running.len() >= COMMANDS_MAX {
            self.refused += 1;
            return Err(format!(
                "the command '{shown}' was not run: {COMMANDS_MAX} are running, {} not run so far",
                self.refused
            ));
        }
        let child = Command::new("/bin/sh")
            .arg("-c")
            .arg(OsStr::from_bytes(line))
            .stdin(Stdio::null())
            .spawn()
            .map_err(|error| format!("the command '{shown}' was not run: {error}"))?;
        self.running.push(child);
        Ok(())
    }

    /// Forgets those that are done.
    pub(crate) fn reap(&mut self) {
        self.running
            .retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }
}
