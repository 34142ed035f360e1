//! Namespaces of the network that a run makes, and what runs in them.

use std::path::Path;
use std::process::Command;

use crate::process::Process;

/// The names of what namespaces leave behind begin so; the id of the run's process follows.
const PREFIX: &str = "signet-bed-";

/// What helps where a namespace cannot be made.
pub const REMEDY: &str =
    "be root on a kernel with namespaces and veth, and have `ip` (apt-get install iproute2)";

/// A namespace, which goes with this value, and what runs in it with it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes one; `part` tells those of one process apart and may be empty. Its loopback is up,
    /// and there is nothing else in it. Those of runs that were killed are removed.
    ///
    /// # Errors
    /// What `ip` said; [`REMEDY`] mostly helps.
    pub fn make(part: &str) -> Result<Self, String> {
        remove_stale();
        let id = std::process::id();
        let name = match part {
            "" => format!("{PREFIX}{id}"),
            part => format!("{PREFIX}{id}-{part}"),
        };
        ip(&format!("netns add {name}"))?;
        let made = Self { name };
        made.ip("link set lo up")?;
        Ok(made)
    }

    /// As `ip netns` knows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` in it, words apart by single spaces; gives what it printed.
    ///
    /// # Errors
    /// What it said.
    pub fn ip(&self, line: &str) -> Result<String, String> {
        ip(&format!("-n {} {line}", self.name))
    }

    /// Starts a program in it, which keeps its files but sees devices and addresses of the
    /// namespace alone.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub fn start(
        &self,
        core: &str,
        program: &str,
        arguments: &[String],
        log: &Path,
    ) -> Result<Process, String> {
        let mut words = ["netns", "exec", &self.name, program]
            .map(str::to_owned)
            .to_vec();
        words.extend_from_slice(arguments);
        // It becomes the program that it starts, under the same process id.
        Process::start(core, "ip", &words, log)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// Runs `ip`, words apart by single spaces; gives what it printed.
pub(super) fn ip(line: &str) -> Result<String, String> {
    let failed = |why: &str| format!("ip {line}: {why}");
    let output = Command::new("ip")
        .args(line.split(' '))
        .output()
        .map_err(|error| failed(&error.to_string()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(failed(String::from_utf8_lossy(&output.stderr).trim()))
    }
}

/// Removes a namespace of a run, and first what still runs in it: a daemon that was left would
/// keep it alive.
fn remove(name: &str) {
    for id in ip(&format!("netns pids {name}"))
        .unwrap_or_default()
        .lines()
    {
        let _ = Command::new("kill")
            .args(["-s", "KILL", id.trim()])
            .status();
    }
    let _ = ip(&format!("netns del {name}"));
}

/// Removes namespaces of runs that were killed.
pub(crate) fn remove_stale() {
    for line in ip("netns list").unwrap_or_default().lines() {
        let name = line.split(' ').next().unwrap_or("");
        if run_of(name).is_some_and(|id| !Path::new("/proc").join(id.to_string()).exists()) {
            remove(name);
        }
    }
}

/// The process that made a namespace of this name; `None` where no run did.
fn run_of(name: &str) -> Option<u32> {
    let rest = name.strip_prefix(PREFIX)?;
    rest.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_whose_it_is() {
        assert_eq!(run_of("signet-bed-17"), Some(17));
        assert_eq!(run_of("signet-bed-17-near"), Some(17));
        for other in ["signet-bed-", "signet-bed-x-17", "vpn", "bed-17", ""] {
            assert_eq!(run_of(other), None, "{other}");
        }
    }
}
