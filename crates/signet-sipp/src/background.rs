//! `-bg`: the same command line, in a process of its own.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::error::{Refusal, exit};

/// Starts this program again without `-bg` and leaves it alone.
pub(crate) fn start() -> Result<u8, Refusal> {
    let program = std::env::current_exe().map_err(Refusal::fatal)?;
    let args = std::env::args_os()
        .skip(1)
        .filter(|arg| arg != "-bg" && arg != "--bg");
    let child = Command::new(program)
        .args(args)
        .arg("-nostdin")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // What the terminal sends to this one is not meant for it.
        .process_group(0)
        .spawn()
        .map_err(|error| Refusal::fatal(format!("-bg: {error}")))?;
    let _ = writeln!(
        std::io::stdout().lock(),
        "Background mode - PID=[{}]",
        child.id()
    );
    Ok(exit::NO_CALLS)
}
