//! One load by several generators, by the real program: a controller, workers on
//! 127.0.0.1 and a real `signet serve`. Totals are sums, percentiles are those of the
//! union, and whoever has no token or wants another target gets nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use measure::RunResult;
use support::command::{Serving, run, succeed, text};
use support::{Running, TestDir, add_user, free_port, signet};

const PATIENCE: Duration = Duration::from_secs(60);

/// A worker on a port; it ends with this value.
struct Worker {
    process: Running,
    at: String,
    log: PathBuf,
}

impl Worker {
    fn start(folder: &Path, name: &str, token: &Path, more: &[&str]) -> Self {
        let at = format!("127.0.0.1:{}", free_port());
        let log = folder.join(format!("{name}.log"));
        let arguments = [
            "load",
            "worker",
            "--listen",
            &at,
            "--token-file",
            text(token),
        ];
        let process = Running::start(signet(), &[&arguments[..], more].concat(), &log);
        let worker = Self { process, at, log };
        worker.wait_for("waiting on ");
        worker
    }

    fn told(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn wait_for(&self, text: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.told().contains(text) {
            assert!(Instant::now() < until, "no {text:?}: {}", self.told());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A server that forwards nothing and knows the users user1 to user8.
fn serve(folder: &Path) -> Serving {
    let data = folder.join("data");
    let serve = ["--data", text(&data), "--domain", "example.test"];
    let listen = ["--listen", "udp:127.0.0.1:0", "--listen", "ws:127.0.0.1:0"];
    let server = Serving::start(folder, &data, &[&serve[..], &listen].concat());
    for number in 1..=8 {
        add_user(
            &data,
            &format!("user{number}"),
            "example.test",
            &format!("pw{number}"),
        );
    }
    server
}

/// A load of calls among those users.
fn calls<'a>(to: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let common = [
        "load",
        "call",
        "--to",
        to,
        "--domain",
        "example.test",
        "--agents",
        "8",
        "--user",
        "user{n}",
        "--password",
        "pw{n}",
        "--pairs",
        "ring",
        "--rate",
        "60",
        "--no-check-self",
    ];
    [&common[..], more].concat()
}

/// Runs a load; its exit code and what it said.
fn load(arguments: &[&str]) -> (i32, String) {
    let output = run(arguments, "");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    (output.status.code().unwrap(), said)
}

fn parts(folder: &Path) -> Vec<RunResult> {
    let mut all: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    all.sort();
    all.iter()
        .map(|path| RunResult::read(path).unwrap())
        .collect()
}

#[test]
fn two_workers_drive_one_load_and_its_result_is_their_sum() {
    let folder = TestDir::new("load-workers");
    let server = serve(folder.path());
    let token = folder.path().join("token");
    let one = Worker::start(folder.path(), "one", &token, &["--allow", "127.0.0.1"]);
    let two = Worker::start(folder.path(), "two", &token, &["--allow", "127.0.0.0/8"]);
    let mode = fs::metadata(&token).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let workers = format!("{},{}", one.at, two.at);
    let (json, each) = (folder.path().join("all.json"), folder.path().join("each"));
    for transport in ["udp", "ws"] {
        let to = format!("sip:{}", server.at(transport));
        let (code, said) = load(&calls(
            &to,
            &[
                "--transport",
                transport,
                "--connection",
                "per-agent",
                "--count",
                "90",
                "--workers",
                &workers,
                "--workers-token",
                text(&token),
                "--workers-json",
                text(&each),
                "--json",
                text(&json),
            ],
        ));
        assert!(matches!(code, 0 | 3), "{code}: {said}");
        assert!(!said.contains("pw1"), "a password was printed: {said}");
        let whole = RunResult::read(&json).unwrap();
        let parts = parts(&each);
        assert_eq!(parts.len(), 2);
        let figures = &whole.figures;
        assert_eq!(
            (figures.invites, figures.invites_ok, figures.completed),
            (90, 90, 90),
            "{said}"
        );
        for part in &parts {
            assert_eq!(
                (part.figures.invites, part.causes.total()),
                (45, 0),
                "{said}"
            );
            assert_eq!(part.counters.get("agents_ready"), Some(&4));
        }
        // Sums and unions: of counters, of every delay, and second by second.
        let mut union = measure::SipFigures::new();
        for part in &parts {
            union.merge(&part.figures);
        }
        assert_eq!(*figures, union);
        assert_eq!(figures.srd.count(), 90);
        for (name, count) in &whole.counters {
            let of = |part: &RunResult| part.counters.get(name).copied().unwrap_or(0);
            let (sum, most) = (
                of(&parts[0]) + of(&parts[1]),
                of(&parts[0]).max(of(&parts[1])),
            );
            let expected = if name == "setup_ms" { most } else { sum };
            assert_eq!(*count, expected, "{name}");
        }
        let started: u64 = whole.series.iter().map(|second| second.started).sum();
        assert_eq!(started, 90, "{said}");
        assert_eq!(whole.settings["workers"][1]["started"], 45);
        // Either process has called: the load was not one's alone.
        assert_eq!(whole.health.threads.len(), 2);
    }
    drop(server);
}

#[test]
fn registrations_are_cut_into_ranges_of_agents() {
    let folder = TestDir::new("load-workers-register");
    let server = serve(folder.path());
    let token = folder.path().join("token");
    let allow = format!("{}", server.at("udp"));
    let one = Worker::start(folder.path(), "one", &token, &["--allow", &allow]);
    let two = Worker::start(folder.path(), "two", &token, &["--allow", &allow]);
    let workers = format!("{},{}", one.at, two.at);
    let to = format!("sip:{}", server.at("udp"));
    let json = folder.path().join("all.json");
    let (code, said) = load(&[
        "load",
        "register",
        "--to",
        &to,
        "--domain",
        "example.test",
        "--agents",
        "8",
        "--user",
        "user{n}",
        "--password",
        "pw{n}",
        "--rate",
        "40",
        "--count",
        "8",
        "--no-check-self",
        "--workers",
        &workers,
        "--workers-token",
        text(&token),
        "--json",
        text(&json),
    ]);
    assert!(matches!(code, 0 | 3), "{code}: {said}");
    let whole = RunResult::read(&json).unwrap();
    assert_eq!(
        (whole.figures.registers, whole.figures.registers_ok),
        (8, 8),
        "{said}"
    );
    // Each of them once, and by one worker: nobody is in two ranges.
    let data = folder.path().join("data");
    let bindings = succeed(&["bindings", "--data", text(&data)], "");
    for number in 1..=8 {
        let user = format!("user{number}@example.test");
        assert_eq!(bindings.matches(&user).count(), 1, "{bindings}");
    }
}

#[test]
fn workers_drive_each_try_of_a_search() {
    let folder = TestDir::new("load-workers-peak");
    let server = serve(folder.path());
    let token = folder.path().join("token");
    let one = Worker::start(folder.path(), "one", &token, &["--allow", "127.0.0.1"]);
    let two = Worker::start(folder.path(), "two", &token, &["--allow", "127.0.0.1"]);
    let workers = format!("{},{}", one.at, two.at);
    let to = format!("sip:{}", server.at("udp"));
    let json = folder.path().join("peak.json");
    let common = [
        "load",
        "peak",
        "--to",
        &to,
        "--domain",
        "example.test",
        "--agents",
        "8",
        "--user",
        "user{n}",
        "--password",
        "pw{n}",
        "--pairs",
        "ring",
        "--workers",
        &workers,
        "--workers-token",
        text(&token),
    ];
    let search = [
        "--start",
        "20",
        "--rate-max",
        "40",
        "--failures-max",
        "50%",
        "--precision",
        "50%",
        "--try-time",
        "1s",
        "--rest",
        "1s",
        "--repeats",
        "1",
        // A busy machine is no reason to search lower.
        "--late-max",
        "30s",
        "--stall-max",
        "30s",
        "--json",
        text(&json),
    ];
    let (code, said) = load(&[&common[..], &search].concat());
    // The peak lies above what may be tried: that is a doubt.
    assert_eq!(code, 3, "{said}");
    assert!(!said.contains("pw1"), "a password was printed: {said}");
    let found: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(found["workers"], serde_json::json!([one.at, two.at]));
    let tries = found["peak"]["tries"].as_array().unwrap();
    assert!(!tries.is_empty(), "{said}");
    for tried in tries {
        // One worker's part would be half of it.
        assert!(
            tried["outcome"]["attempts"].as_u64().unwrap() >= 100,
            "{said}"
        );
    }
    if found["peak_cps"].as_f64().unwrap() > 0.0 {
        assert!(found["self_peak_cps"].as_f64().unwrap() > 0.0, "{said}");
    }
    // What makes no sense over many runs is refused before the first of them.
    let each = ["--workers-json", text(folder.path())];
    let (code, said) = load(&[&common[..], &each].concat());
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("leave out --workers-json"), "{said}");
    let (code, said) = load(&["load", "peak", "--self", "--workers", &workers]);
    assert_eq!(code, 2, "{said}");
}

#[test]
fn a_worker_that_is_lost_puts_the_result_in_doubt() {
    let folder = TestDir::new("load-workers-lost");
    let server = serve(folder.path());
    let token = folder.path().join("token");
    let one = Worker::start(folder.path(), "one", &token, &["--allow", "127.0.0.1"]);
    let mut two = Worker::start(folder.path(), "two", &token, &["--allow", "127.0.0.1"]);
    let workers = format!("{},{}", one.at, two.at);
    let to = format!("sip:{}", server.at("udp"));
    let (json, log) = (
        folder.path().join("all.json"),
        folder.path().join("controller.log"),
    );
    let arguments = calls(
        &to,
        &[
            "--duration",
            "8s",
            "--workers",
            &workers,
            "--workers-token",
            text(&token),
            "--json",
            text(&json),
        ],
    );
    let mut controller = Running::start(signet(), &arguments, &log);
    let told = || fs::read_to_string(&log).unwrap_or_default();
    let until = Instant::now() + PATIENCE;
    // A line a second: after the third there are calls.
    while told()
        .lines()
        .filter(|line| !line.contains("ready"))
        .count()
        < 3
    {
        assert!(Instant::now() < until, "it does not run: {}", told());
        std::thread::sleep(Duration::from_millis(50));
    }
    two.process.signal("-KILL");
    two.process.wait(PATIENCE);
    assert_eq!(controller.wait(PATIENCE), Some(3), "{}", told());
    let whole = RunResult::read(&json).unwrap();
    assert!(!whole.valid);
    let lost = format!("{}: worker lost", two.at);
    assert!(
        whole.doubts.iter().any(|doubt| doubt.name == lost),
        "{:?}",
        whole.doubts
    );
    assert!(told().contains("was lost"), "{}", told());
    // The other has done its part.
    assert_eq!(whole.figures.completed, 240, "{}", told());
}

#[test]
fn an_interrupted_controller_ends_its_workers_loads() {
    let folder = TestDir::new("load-workers-interrupt");
    let server = serve(folder.path());
    let token = folder.path().join("token");
    let worker = Worker::start(folder.path(), "one", &token, &["--allow", "127.0.0.1"]);
    let to = format!("sip:{}", server.at("udp"));
    let (json, log) = (
        folder.path().join("all.json"),
        folder.path().join("controller.log"),
    );
    let arguments = calls(
        &to,
        &[
            "--duration",
            "600s",
            "--workers",
            &worker.at,
            "--workers-token",
            text(&token),
            "--json",
            text(&json),
        ],
    );
    let mut controller = Running::start(signet(), &arguments, &log);
    let told = || fs::read_to_string(&log).unwrap_or_default();
    let until = Instant::now() + PATIENCE;
    while told()
        .lines()
        .filter(|line| !line.contains("ready"))
        .count()
        < 3
    {
        assert!(Instant::now() < until, "it does not run: {}", told());
        std::thread::sleep(Duration::from_millis(50));
    }
    controller.signal("-INT");
    assert_eq!(controller.wait(PATIENCE), Some(130), "{}", told());
    let whole = RunResult::read(&json).unwrap();
    assert!(whole.interrupted && whole.figures.completed > 0);
    assert_eq!(
        whole.figures.completed,
        whole.figures.invites_ok,
        "{}",
        told()
    );

    // One that is killed says nothing: its worker ends the load by itself, and is free.
    let mut controller = Running::start(signet(), &arguments, &log);
    let until = Instant::now() + PATIENCE;
    while told()
        .lines()
        .filter(|line| !line.contains("ready"))
        .count()
        < 3
    {
        assert!(Instant::now() < until, "it does not run: {}", told());
        std::thread::sleep(Duration::from_millis(50));
    }
    controller.signal("-KILL");
    controller.wait(PATIENCE);
    let until = Instant::now() + PATIENCE;
    loop {
        let again = calls(
            &to,
            &[
                "--count",
                "8",
                "--workers",
                &worker.at,
                "--workers-token",
                text(&token),
            ],
        );
        let (code, said) = load(&again);
        if matches!(code, 0 | 3) {
            return;
        }
        assert!(said.contains("another controller"), "{code}: {said}");
        assert!(Instant::now() < until, "{said}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn whoever_has_no_token_or_wants_another_target_gets_nothing() {
    let folder = TestDir::new("load-workers-refused");
    let server = serve(folder.path());
    let token = folder.path().join("token");
    let worker = Worker::start(
        folder.path(),
        "one",
        &token,
        &["--allow", "127.0.0.1:9", "--rate-max", "1000"],
    );
    let to = format!("sip:{}", server.at("udp"));
    let other = folder.path().join("other");
    fs::write(&other, "0123456789abcdef0123456789abcdef\n").unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o600)).unwrap();
    let open = folder.path().join("open");
    fs::copy(&token, &open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    let nowhere = folder.path().join("nowhere");
    let elsewhere = "sip:127.0.0.1:9";
    let at = worker.at.as_str();
    for (to, workers, token, more, expected, why) in [
        (
            to.as_str(),
            at,
            &token,
            &[][..],
            1,
            "may not load 127.0.0.1:",
        ),
        (
            elsewhere,
            at,
            &token,
            &["--follow-routes"],
            1,
            "--follow-routes",
        ),
        (elsewhere, at, &token, &["--rate", "2000"], 1, "--rate-max"),
        (elsewhere, at, &other, &[], 1, "the same token"),
        (elsewhere, at, &open, &[], 2, "chmod 600"),
        (elsewhere, at, &nowhere, &[], 2, "copy it from there"),
        (elsewhere, "127.0.0.1:1", &token, &[], 1, "cannot connect"),
        (elsewhere, "127.0.0.1", &token, &[], 2, "write HOST:7000"),
        (
            elsewhere,
            "a:1,b:1,c:1,d:1,e:1",
            &token,
            &[],
            2,
            "--agents 10",
        ),
    ] {
        let fleet = ["--workers", workers, "--workers-token", text(token)];
        let words = [&calls(to, &fleet)[..], more].concat();
        let words: Vec<&str> = match more {
            // The later of two would be one too many.
            ["--rate", _] => {
                let at = words.iter().position(|word| *word == "--rate").unwrap();
                [&words[..at], &words[at + 2..]].concat()
            }
            _ => words,
        };
        let (code, said) = load(&words);
        assert_eq!(code, expected, "{why}: {said}");
        assert!(said.contains(why), "{why}: {said}");
    }
    // Who speaks no TLS learns nothing, and keeps nobody else out.
    let mut stranger = TcpStream::connect(at).unwrap();
    stranger
        .write_all(b"{\"hello\":{\"protocol\":1,\"program\":\"x\"}}\n")
        .unwrap();
    stranger.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = Vec::new();
    let _ = stranger.read_to_end(&mut answer);
    assert!(
        !answer.windows(5).any(|part| part == b"hello"),
        "{answer:?}"
    );
    let _silent = TcpStream::connect(at).unwrap();
    let fleet = ["--workers", at, "--workers-token", text(&token)];
    let (_, said) = load(&calls(&to, &fleet));
    assert!(said.contains("may not load"), "{said}");
    // Nothing of all this was sent to anybody.
    let figures = fs::read_to_string(&worker.log).unwrap();
    assert!(figures.contains("no handshake"), "{figures}");
}

#[test]
fn workers_are_started_by_ssh() {
    let folder = TestDir::new("load-workers-ssh");
    let server = serve(folder.path());
    // What ssh does, without a network: it runs what stands behind the host.
    let ssh = folder.path().join("ssh");
    let script = format!(
        "#!/bin/sh\n[ \"$1 $2 $3\" = \"-oBatchMode=yes -T --\" ] || exit 9\nshift 4\n[ \"$1\" = signet ] || exit 8\nshift\nexec '{}' \"$@\"\n",
        signet()
    );
    fs::write(&ssh, script).unwrap();
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
    let to = format!("sip:{}", server.at("udp"));
    let json = folder.path().join("all.json");
    let (code, said) = load(&calls(
        &to,
        &[
            "--count",
            "20",
            "--workers",
            "ssh:one,ssh:me@two",
            "--ssh",
            text(&ssh),
            "--json",
            text(&json),
        ],
    ));
    assert!(matches!(code, 0 | 3), "{code}: {said}");
    let whole = RunResult::read(&json).unwrap();
    assert_eq!(whole.figures.completed, 20, "{said}");
    assert_eq!(whole.settings["workers"][1]["name"], "ssh:me@two");
    let missing = calls(&to, &["--workers", "ssh:one", "--ssh", "/nowhere/ssh"]);
    let (code, said) = load(&missing);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("cannot run /nowhere/ssh"), "{said}");
}
