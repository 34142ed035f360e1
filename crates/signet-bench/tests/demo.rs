//! The demonstration itself, shortened: it must succeed, leave its results
//! and leave no server behind.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Calls a second.
const RATE: f64 = 100.0;

const DEMO: &str = env!("CARGO_BIN_EXE_signet-bench");

/// The server's program, which a build of the workspace puts beside ours.
fn signet() -> PathBuf {
    let program = Path::new(DEMO).with_file_name("signet");
    assert!(
        program.is_file(),
        "{} is not there; build it with cargo build -p signet",
        program.display()
    );
    program
}

/// A folder of this run's own, which is not there yet.
fn folder(name: &str) -> PathBuf {
    let name = format!("{name}-{}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

/// The process that serves on a data folder, by what it says of itself.
fn server_of(dir: &Path) -> Option<i32> {
    let text = std::fs::read_to_string(dir.join("data/listeners.json")).ok()?;
    let said: serde_json::Value = serde_json::from_str(&text).ok()?;
    i32::try_from(said["pid"].as_i64()?).ok()
}

#[test]
fn calls_over_every_transport_and_nothing_left_behind() {
    let signet = signet();
    let dir = folder("demo");
    let output = Command::new(DEMO)
        .arg("demo")
        .arg("--signet")
        .arg(&signet)
        .arg("--dir")
        .arg(&dir)
        .args(["--rate", &RATE.to_string(), "--seconds", "1"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains('\r'), "no terminal, no carriage returns");
    let record = std::fs::read_to_string(dir.join("result.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let results = record["results"].as_array().unwrap();
    assert_eq!(results.len(), 5 * 2);
    for row in results {
        assert_eq!(
            (&row["calls"], &row["failures"]),
            (&100.into(), &0.into()),
            "{row}"
        );
        assert!(row["setup_p50_ms"].as_f64().unwrap() > 0.0);
        assert!(row["server_cpu_us_per_call"].as_f64().unwrap() > 0.0);
        let case = row["case"].as_str().unwrap();
        let handshakes = [&row["handshakes_full"], &row["handshakes_resumed"]];
        let handshakes = handshakes.map(|count| count.as_u64().unwrap());
        match case.rsplit(", ").next().unwrap() {
            // Each user has a session of his own, and this is his first call but for a few.
            "resumed" if row["is_authenticated"] == true => {
                assert_eq!(handshakes.iter().sum::<u64>(), 100, "{row}");
            }
            // Whoever calls before the first has his ticket has none.
            "resumed" => {
                let in_flight = row["setup_p99_ms"].as_f64().unwrap() * RATE / 1_000.0;
                assert!(handshakes[0] as f64 <= 10.0 + in_flight, "{row}");
                assert!(handshakes[1] > 0, "{row}");
                assert_eq!(handshakes.iter().sum::<u64>(), 100, "{row}");
            }
            "full handshake" => assert_eq!(handshakes, [100, 0], "{row}"),
            _ => assert_eq!(handshakes[1], 0, "{row}"),
        }
    }
    let page = std::fs::read_to_string(dir.join("report.html")).unwrap();
    assert!(page.contains("<svg") && page.trim_end().ends_with("</html>"));
    assert_eq!(server_of(&dir), None, "the server took its listeners back");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn an_interruption_ends_the_server_too() {
    let signet = signet();
    let dir = folder("interrupted");
    let mut demo = Command::new(DEMO)
        .arg("demo")
        .arg("--signet")
        .arg(&signet)
        .arg("--dir")
        .arg(&dir)
        .args(["--rate", "10", "--seconds", "600"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    let server = loop {
        if let Some(server) = server_of(&dir) {
            break server;
        }
        assert!(Instant::now() < until, "no server after half a minute");
        std::thread::sleep(Duration::from_millis(20));
    };
    let demo_pid = Pid::from_raw(i32::try_from(demo.id()).unwrap());
    // SIGINT may be ignored by whoever started this, and so by what is started here.
    kill(demo_pid, Signal::SIGTERM).unwrap();
    let status = loop {
        if let Some(status) = demo.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < until, "the demonstration still runs");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(!status.success());
    while kill(Pid::from_raw(server), None).is_ok() {
        assert!(Instant::now() < until, "process {server} still runs");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_missing_server_is_named() {
    let output = Command::new(DEMO)
        .args(["demo", "--signet", "/nowhere/signet", "--dir"])
        .arg(folder("missing"))
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("/nowhere/signet is not there"), "{said}");
}
