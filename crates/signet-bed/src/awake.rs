//! Cores that do not sleep while something is measured.
//!
//! A core with nothing to do is put to sleep, and a virtual one goes back to its host, which may give it
//! to others. Waking it costs what the host pleases, and what runs next finds cold caches: at some
//! thousand calls a second a server's CPU time a call is then mostly the machine's affair, and
//! differs by half from one minute to the next. The kernel has a way to ask that idle cores wait
//! without sleeping: as long as `/dev/cpu_dma_latency` is open with a bound of 0 microseconds
//! (its `Documentation/power/pm_qos_interface.rst`). Whoever waits so counts as idle still.

use std::fs::{self, File};
use std::io::Write;
use std::sync::OnceLock;

const REQUESTS: &str = "/dev/cpu_dma_latency";
/// Where the kernel names its driver for idle cores; without one it ignores the request.
const DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";

/// The request of this process, which ends with it.
static REQUEST: OnceLock<Option<File>> = OnceLock::new();

/// Keeps the cores awake until this process ends, where that is possible: as root, and with a
/// driver for idle cores. Gives what [`idle`] says from then on.
pub fn keep() -> &'static str {
    REQUEST.get_or_init(|| request().ok());
    idle()
}

/// What idle cores do: `awake` where this process keeps them so, else `asleep`.
pub fn idle() -> &'static str {
    match REQUEST.get() {
        Some(Some(_)) => "awake",
        _ => "asleep",
    }
}

fn request() -> std::io::Result<File> {
    if fs::read_to_string(DRIVER)?.trim() == "none" {
        return Err(std::io::ErrorKind::Unsupported.into());
    }
    let mut request = File::options().write(true).open(REQUESTS)?;
    request.write_all(&0_i32.to_ne_bytes())?;
    Ok(request)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// How often a core began to wait without sleeping; `None` where they have no such state.
    fn polls() -> Option<u64> {
        let of = |core: usize, name: &str| {
            let path = format!("/sys/devices/system/cpu/cpu{core}/cpuidle/state0/{name}");
            Some(fs::read_to_string(path).ok()?.trim().to_owned())
        };
        let cores = (0..).map_while(|core| of(core, "usage").zip(of(core, "name")));
        let polls: Vec<u64> = cores
            .filter(|(_, name)| name == "POLL")
            .filter_map(|(usage, _)| usage.parse().ok())
            .collect();
        (!polls.is_empty()).then(|| polls.iter().sum())
    }

    #[test]
    fn idle_cores_are_asleep_until_they_are_kept_awake() {
        assert_eq!(idle(), "asleep");
        if keep() == "asleep" {
            // Not root, or a kernel that leaves sleep to its host.
            assert!(request().is_err());
            return;
        }
        assert_eq!(idle(), "awake");
        let Some(before) = polls() else { return };
        // Where others keep all cores busy it takes a while until one is idle.
        let until = Instant::now() + Duration::from_secs(60);
        while polls() <= Some(before) {
            assert!(Instant::now() < until, "no core waits awake");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
