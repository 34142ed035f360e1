//! What `signet load` says of a run besides its figures: of processes that it watched, of
//! what it could not send, of its doubts beside thresholds, and of what a called side
//! answered.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::command::{run, text};
use crate::support::{Running, TestDir, signet};
use measure::RunResult;

/// A process that waits for the end of its input, which comes with the end of the test.
struct Idle(Child);

impl Idle {
    fn start() -> Self {
        let child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    fn named(&self, name: &str) -> String {
        format!("{name}={}", self.0.id())
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Runs a load with `--json`; its exit code, its result, and what it said.
fn load(folder: &Path, arguments: &[&str]) -> (i32, RunResult, String) {
    let json = folder.join("load.json");
    let output = run(
        &[&["load"], arguments, &["--json", text(&json)]].concat(),
        "",
    );
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    let result = RunResult::read(&json).unwrap_or_else(|error| panic!("{error}: {said}"));
    (output.status.code().unwrap(), result, said)
}

#[test]
fn watched_processes_are_told_apart_and_together() {
    let folder = TestDir::new("load-watch");
    let (server, database) = (Idle::start(), Idle::start());
    let csv = folder.path().join("load.csv");
    let (_, result, said) = load(
        folder.path(),
        &[
            "call",
            "--self",
            "--rate",
            "20",
            "--duration",
            "3s",
            "--watch-pid",
            &server.named("server"),
            "--watch-pid",
            &database.named("database"),
            "--no-check-self",
            "--csv",
            text(&csv),
        ],
    );
    let [one, other] = &result.processes[..] else {
        panic!("two processes: {said}");
    };
    assert_eq!((one.name.as_str(), one.pid), ("server", server.0.id()));
    assert_eq!(
        (other.name.as_str(), other.pid),
        ("database", database.0.id())
    );
    for process in [one, other] {
        assert_eq!(process.program, "cat");
        assert!(process.peak.memory_bytes() > 0 && process.peak.processes == 1);
        assert!(!process.seconds.is_empty(), "{said}");
        let memory = process.seconds.iter().map(|second| second.memory_bytes);
        assert!(memory.min().unwrap() > 0, "{process:?}");
        let line = format!("process {} {}: ", process.pid, process.name);
        assert!(said.contains(&line), "{line:?} in {said}");
    }
    // The sum is where it was.
    let [together] = &result.watched[..] else {
        panic!("one sum: {said}");
    };
    assert_eq!(together.cpu_ns, one.cpu_ns + other.cpu_ns);
    assert!(said.contains("all 2 processes: "), "{said}");
    let csv = fs::read_to_string(&csv).unwrap();
    let columns = "server_cpu_ns,server_memory_bytes,database_cpu_ns,database_memory_bytes";
    assert!(csv.lines().next().unwrap().ends_with(columns), "{csv}");
}

#[test]
fn a_search_for_a_peak_watches_each_try_and_repeats_its_draws() {
    let folder = TestDir::new("load-peak-watch");
    let json = folder.path().join("peak.json");
    let server = Idle::start();
    let output = run(
        &[
            "load",
            "peak",
            "--self",
            "--start",
            "50",
            "--rate-max",
            "50",
            "--try-time",
            "500ms",
            "--rest",
            "0",
            "--repeats",
            "1",
            "--precision",
            "50%",
            "--tries-max",
            "3",
            "--seed",
            "7",
            "--watch-pid",
            &server.named("server"),
            "--late-max",
            "10s",
            "--stall-max",
            "60s",
            "--json",
            text(&json),
        ],
        "",
    );
    let said = String::from_utf8_lossy(&output.stdout);
    let written = fs::read_to_string(&json).unwrap_or_else(|error| panic!("{error}: {said}"));
    let value: serde_json::Value = serde_json::from_str(&written).unwrap();
    let at = |path: &str| value.pointer(path).unwrap_or(&serde_json::Value::Null);
    assert_eq!(at("/settings/seed"), 7);
    assert_eq!(at("/bounds/late_max_us"), 10_000_000);
    assert_eq!(at("/processes/0/name"), "server");
    let tries = at("/peak/tries").as_array().unwrap();
    let watched = at("/processes/0/tries").as_array().unwrap();
    assert!(!tries.is_empty());
    assert_eq!(tries.len(), watched.len());
    for (tried, watched) in tries.iter().zip(watched) {
        assert_eq!(tried.get("rate_per_s"), watched.get("rate_per_s"));
        assert_eq!(tried.get("held"), watched.get("held"));
        assert!(watched.get("memory_bytes").unwrap().as_u64().unwrap() > 0);
    }
    let held = tries.iter().any(|tried| tried["held"] == true);
    let line = format!("process {} server: ", server.0.id());
    assert_eq!(said.contains(&line), held, "{said}");
}

#[test]
fn the_duration_bounds_what_is_sent() {
    let folder = TestDir::new("load-duration");
    let (code, result, said) = load(
        folder.path(),
        &[
            "call",
            "--self",
            "--rate",
            "1000000",
            "--duration",
            "2s",
            "--drain-timeout",
            "1s",
            "--no-check-self",
        ],
    );
    let health = &result.health;
    assert!(health.unsent > 0, "{said}");
    assert_eq!(health.due, 2_000_000, "{said}");
    assert_eq!(result.counters["started"] + health.unsent, health.due);
    assert_eq!(result.counters["unsent"], health.unsent);
    let after = result.series.iter().filter(|second| second.at_s >= 2);
    let after: u64 = after.map(|second| second.started).sum();
    assert!(after <= 64, "{after} calls begun after the end: {said}");
    assert_eq!(code, 3, "{said}");
    let doubts: Vec<&str> = result.doubts.iter().map(|doubt| &*doubt.name).collect();
    assert!(doubts.contains(&"not sent in time"), "{doubts:?}");
    let told = format!("{} of 2000000 arrivals were not sent", health.unsent);
    assert!(said.contains(&told), "{told:?} in {said}");
}

#[test]
fn a_crossed_threshold_is_told_before_a_doubt_and_the_doubt_beside_it() {
    let folder = TestDir::new("load-bounds");
    let common = [
        "call",
        "--self",
        "--rate",
        "50",
        "--count",
        "20",
        "--no-check-self",
        "--late-max",
        "1m",
        "--stall-max",
        "1m",
    ];
    // No thread takes no time at all.
    let doubt = ["--own-cpu-max", "0"];
    let crossed = ["--fail-if", "succeeded > 0"];
    for (more, code, not_valid, failed) in [
        (vec![], 0, false, false),
        (doubt.to_vec(), 3, true, false),
        (crossed.to_vec(), 1, false, true),
        ([doubt, crossed].concat(), 1, true, true),
    ] {
        let (ended, result, said) = load(folder.path(), &[&common[..], &more].concat());
        assert_eq!(ended, code, "{more:?}: {said}");
        assert_eq!(said.contains("NOT VALID"), not_valid, "{more:?}: {said}");
        assert_eq!(
            said.contains("FAILED: a threshold was crossed"),
            failed,
            "{more:?}: {said}"
        );
        assert_eq!(result.valid, code == 0);
        assert_eq!(result.health.bounds.late_max_us, Some(60_000_000));
        assert_eq!(result.figures.succeeded(), 20, "{said}");
    }
}

#[test]
fn a_called_side_says_what_it_answered() {
    let folder = TestDir::new("load-answer");
    let (json, log) = (folder.path().join("answer.json"), folder.path().join("log"));
    let arguments = [
        "load",
        "answer",
        "--listen",
        "udp:127.0.0.1:0",
        "--registrar",
        "--json",
        text(&json),
    ];
    let mut process = Running::start(signet(), &arguments, &log);
    let said = || fs::read_to_string(&log).unwrap_or_default();
    let wait_for = |whats: &[&str], ask: &dyn Fn()| {
        let until = Instant::now() + Duration::from_secs(60);
        while !whats.iter().all(|what| said().contains(what)) {
            assert!(Instant::now() < until, "{whats:?} are not in {}", said());
            ask();
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    wait_for(&["answering on udp:"], &|| ());
    let addr = said().split("udp:").nth(1).unwrap().trim().to_owned();
    let to = format!("sip:bob@{addr}");
    let output = run(
        &[
            "load",
            "call",
            "--to",
            &to,
            "--mix",
            "call=3,options=1",
            "--rate",
            "100",
            "--count",
            "40",
            "--quiet",
            "--no-check-self",
        ],
        "",
    );
    let caller = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(caller.contains("40 ended well"), "{caller}");
    // While it runs, when it is asked; and at its end.
    let whats = ["30  INVITE answered 200", "10  OPTIONS answered 200"];
    wait_for(&whats, &|| process.signal("-USR1"));
    process.signal("-INT");
    let code = process.wait(Duration::from_secs(60));
    assert!(code == Some(0) || code == Some(3), "{code:?}: {}", said());
    let result = RunResult::read(&json).unwrap();
    let answered = result.answered.unwrap();
    assert_eq!((answered.calls, answered.established), (30, 30));
    assert_eq!((answered.ended, answered.failed), (30, 0));
    for (method, count) in [("INVITE", 30), ("BYE", 30), ("OPTIONS", 10)] {
        assert_eq!(answered.responses(method, 200), count, "{method}");
    }
    let said = said();
    assert!(
        said.contains("called side: 30 calls came, 30 acknowledged"),
        "{said}"
    );
    assert!(
        said.matches("10  OPTIONS answered 200").count() >= 2,
        "{said}"
    );
    assert!(!said.contains("ended well"), "it called nobody: {said}");
}

#[test]
fn a_process_that_cannot_be_watched_is_refused() {
    let own = std::process::id();
    let to = ["load", "call", "--to", "sip:127.0.0.1"];
    for (watched, why) in [
        (vec!["server=x".to_owned()], "server=4711"),
        (
            vec!["a b=1".to_owned()],
            "has no name that a column could have",
        ),
        (vec![format!("a={own}"), format!("b={own}")], "one process"),
        (vec![format!("a={own}"), "a=1".to_owned()], "one name"),
        (vec!["a=4294967294".to_owned()], "cannot be watched"),
    ] {
        let words: Vec<&str> = watched
            .iter()
            .flat_map(|watched| ["--watch-pid", watched])
            .collect();
        for command in [&to[..], &["load", "peak", "--self"]] {
            let output = run(&[command, &words].concat(), "");
            let error = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{words:?}: {error}");
            assert!(error.contains(why), "{words:?}: {error}");
        }
    }
}
