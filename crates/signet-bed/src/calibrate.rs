//! How fast the machine is at this moment: a fixed piece of pure work and a
//! fixed number of system calls, in CPU time. A measurement between two such
//! readings that differ says more about the machine than about the server.

use std::hint::black_box;
use std::net::UdpSocket;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Steps of the pure work: some forty milliseconds.
const STEPS: u64 = 30_000_000;
/// Datagrams that the loop of system calls sends to itself and reads.
const DATAGRAMS: u32 = 15_000;

/// What the two loops took, in microseconds of CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// The pure work.
    pub compute_us: f64,
    /// The system calls.
    pub kernel_us: f64,
}

impl Speed {
    /// By how much the machine's speed moved until `later`: the larger of the two loops' changes.
    pub fn moved(self, later: Self) -> f64 {
        let change = |before: f64, after: f64| (after / before.max(1.0) - 1.0).abs();
        change(self.compute_us, later.compute_us).max(change(self.kernel_us, later.kernel_us))
    }
}

/// Runs the loops on a core, in a process of its own: this program with `words`, which are to
/// lead it to [`run`]. They share the core with a server under load: only their own CPU time
/// counts.
///
/// # Errors
/// A program that cannot be started, or that prints something else.
pub fn measure(core: &str, words: &[&str]) -> Result<Speed, String> {
    measure_whole(core, words).map(|(speed, _)| speed)
}

/// The same, and the time on the clock over the CPU time: above 1 where somebody else had the
/// core meanwhile.
///
/// # Errors
/// As [`measure`].
pub fn measure_whole(core: &str, words: &[&str]) -> Result<(Speed, f64), String> {
    let this = std::env::current_exe().map_err(|e| e.to_string())?;
    let output = Command::new("taskset")
        .args(["-c", core])
        .arg(this)
        .args(words)
        .process_group(0)
        .output()
        .map_err(|e| format!("cannot start the calibration: {e}"))?;
    let whole: Whole = serde_json::from_slice(&output.stdout).map_err(|e| {
        let told = String::from_utf8_lossy(&output.stderr);
        format!("what the calibration printed cannot be read: {e}: {told}")
    })?;
    let cpu_us = whole.speed.compute_us + whole.speed.kernel_us;
    Ok((whole.speed, whole.wall_us / cpu_us.max(1.0)))
}

/// What a process with the loops prints.
#[derive(Serialize, Deserialize)]
struct Whole {
    #[serde(flatten)]
    speed: Speed,
    /// Both loops, on the clock.
    wall_us: f64,
}

/// Runs the loops here; gives what they took as a line of JSON.
///
/// # Errors
/// A socket or an account of CPU time that is not to be had.
pub fn run() -> Result<String, String> {
    // The first round finds cold caches and a clock that sleeps.
    compute(STEPS / 8);
    let socket = UdpSocket::bind(("127.0.0.1", 0)).map_err(|e| e.to_string())?;
    let own = socket.local_addr().map_err(|e| e.to_string())?;
    socket.connect(own).map_err(|e| e.to_string())?;
    socket
        .set_read_timeout(Some(Duration::from_secs(1)))
        .map_err(|e| e.to_string())?;
    let begun = Instant::now();
    let compute_us = cpu_us(|| {
        compute(STEPS);
        Ok(())
    })?;
    let kernel_us = cpu_us(|| system_calls(&socket).map_err(|e| e.to_string()))?;
    let whole = Whole {
        speed: Speed {
            compute_us,
            kernel_us,
        },
        wall_us: begun.elapsed().as_secs_f64() * 1e6,
    };
    let text = serde_json::to_string(&whole).map_err(|e| e.to_string())?;
    Ok(text + "\n")
}

/// A chain in which each step needs the one before.
fn compute(steps: u64) {
    let mut state = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..steps {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state);
}

fn system_calls(socket: &UdpSocket) -> std::io::Result<()> {
    let mut buffer = [0; 600];
    for _ in 0..DATAGRAMS {
        socket.send(&[7; 500])?;
        // A machine that was halted interrupts who waits for a limited time (signal(7)).
        while let Err(error) = socket.recv(&mut buffer) {
            if error.kind() != std::io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
    Ok(())
}

/// CPU time of this process over a piece of work.
fn cpu_us(work: impl FnOnce() -> Result<(), String>) -> Result<f64, String> {
    let before_ns = own_cpu_ns()?;
    work()?;
    Ok((own_cpu_ns()?.saturating_sub(before_ns)) as f64 / 1_000.0)
}

fn own_cpu_ns() -> Result<u64, String> {
    // The kernel brings its account up to date when a thread leaves the core.
    std::thread::sleep(Duration::from_micros(50));
    let path = Path::new("/proc/self/schedstat");
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    text.split(' ')
        .next()
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| format!("{}: no number", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_change_counts() {
        let speed = |compute_us, kernel_us| Speed {
            compute_us,
            kernel_us,
        };
        let moved = speed(100.0, 200.0).moved(speed(104.0, 180.0));
        assert!((moved - 0.1).abs() < 1e-9, "{moved}");
        assert!(speed(0.0, 0.0).moved(speed(0.0, 0.0)).is_finite());
    }
}
