//! The example of docs/HOOK.md, run by Python.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Running;
use super::command::text;

/// Where the example is.
pub fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../etc/hook.py")
}

/// Starts it at that port of 127.0.0.1, and waits until it listens.
pub fn start(folder: &Path, port: u16) -> Running {
    let log = folder.join(format!("hook-{port}.log"));
    let mut running = Running::start("python3", &[text(&example()), &port.to_string()], &log);
    let until = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        let ended = running.child.try_wait().unwrap();
        assert!(
            ended.is_none() && Instant::now() < until,
            "the hook does not listen: {}",
            std::fs::read_to_string(&log).unwrap_or_default()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    running
}
