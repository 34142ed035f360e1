//! `signet load` by the real program: against a real `signet serve`, over every
//! transport, and straight to itself; its files and its exit codes.
//!
//! A machine that runs tests is no place for measurements: the generator may
//! well doubt itself there (exit code 3). What is asserted is what it counted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write as _;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::command::{Serving, run, succeed, text};
use crate::support::{Running, TestDir, free_port, signet};
use measure::RunResult;
use sip_net::testing::uninterrupted;

const FINE_OR_DOUBT: [i32; 2] = [0, 3];

/// Runs a load with `--json` and gives its exit code, its result, and what it said.
fn load(folder: &Path, arguments: &[&str]) -> (i32, RunResult, String) {
    let json = folder.join("load.json");
    let all = [&["load"], arguments, &["--json", text(&json)]].concat();
    let output = run(&all, "");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let result = RunResult::read(&json).unwrap_or_else(|error| panic!("{error}: {said}"));
    fs::remove_file(&json).unwrap();
    (output.status.code().unwrap(), result, said)
}

/// Every one of so many calls was set up and ended well.
fn check(calls: u64, (code, result, said): &(i32, RunResult, String)) {
    let figures = &result.figures;
    assert_eq!(
        (figures.invites, figures.invites_ok, figures.completed),
        (calls, calls, calls),
        "{said}"
    );
    assert_eq!(result.causes.total(), 0, "{said}");
    assert!(FINE_OR_DOUBT.contains(code), "{code}: {said}");
    assert_eq!(*code == 3, said.contains("NOT VALID"), "{said}");
    for name in ["leaked_calls", "leaked_requests", "leaked_connections"] {
        assert_eq!(result.counters.get(name), Some(&0), "{name}");
    }
}

const LISTEN: [&str; 6] = [
    "--listen",
    "udp:127.0.0.1:0",
    "--listen",
    "tcp:127.0.0.1:0",
    "--listen",
    "tls:127.0.0.1:0",
];

#[test]
fn registered_agents_call_each_other_through_a_server_that_asks_for_passwords() {
    let folder = TestDir::new("load-agents");
    let data = folder.path().join("data");
    let place = ["--data", text(&data)];
    let mut users = "user,password\n".to_owned();
    for number in 1..=12 {
        writeln!(users, "user{number},pw{number}").unwrap();
    }
    let csv = folder.path().join("users.csv");
    fs::write(&csv, &users).unwrap();
    let import = ["user", "--domain", "example.test", "import", text(&csv)];
    succeed(&[&import[..], &place].concat(), "");
    let serve = [&place[..], &["--domain", "example.test"], &LISTEN].concat();
    let server = Serving::start(folder.path(), &data, &serve);
    let ca = data.join("ca.pem");
    for (transport, more) in [
        ("udp", &["--ports", "own"][..]),
        (
            "udp",
            &["--mix", "call=2,reregister=1,options=1", "--count", "48"],
        ),
        ("tcp", &["--connection", "per-agent"]),
        ("tls", &["--connection", "per-agent", "--resume", "all"]),
        (
            "tls",
            &[
                "--connection",
                "per-agent",
                "--first-unauthenticated",
                "--tls",
                "1.2",
            ],
        ),
    ] {
        let to = format!("sip:{}", server.at(transport));
        let has_count = more.contains(&"--count");
        // An agent must have its answer before it registers again, and a busy disk takes its time.
        let rate = if has_count { "10" } else { "40" };
        let common = [
            "call",
            "--to",
            &to,
            "--transport",
            transport,
            "--users",
            text(&csv),
            "--domain",
            "example.test",
            "--pairs",
            "ring",
            "--rate",
            rate,
            "--hold",
            "50ms",
            "--ca",
            text(&ca),
            "--no-check-self",
        ];
        let count = if has_count {
            &[][..]
        } else {
            &["--count", "24"]
        };
        let told = load(folder.path(), &[&common[..], more, count].concat());
        check(24, &told);
        let result = &told.1;
        assert_eq!(result.counters.get("agents_ready"), Some(&12), "{}", told.2);
        if transport == "tls" {
            assert_eq!(result.handshakes.full + result.handshakes.resumed, 12);
        }
        if has_count {
            let request = |name: &str| result.figures.requests.get(name).unwrap().ok;
            assert_eq!((request("reregister"), request("options")), (12, 12));
        }
        assert!(result.counters.get("challenges").unwrap() >= &12);
        assert!(!told.2.contains("pw1"), "a password was printed");
    }
}

#[test]
fn calls_through_a_server_to_a_called_side_of_their_own() {
    for transport in ["udp", "tcp"] {
        let folder = TestDir::new(&format!("load-forward-{transport}"));
        let data = folder.path().join("data");
        let called = free_port();
        let forward = format!("sip:127.0.0.1:{called};transport={transport}");
        let serve = ["--data", text(&data), "--no-auth", "--forward", &forward];
        let server = Serving::start(folder.path(), &data, &[&serve[..], &LISTEN].concat());
        let ca = data.join("ca.pem");
        let here = format!("{transport}:127.0.0.1:{called}");
        for (to, connection, threads) in [
            ("udp", "one", "1"),
            ("tcp", "per-call", "2"),
            ("tls", "per-10-calls", "1"),
            ("tls", "one", "1"),
        ] {
            let uri = format!("sip:bob@{}", server.at(to));
            let pid = server.process.child.id().to_string();
            let told = load(
                folder.path(),
                &[
                    "call",
                    "--to",
                    &uri,
                    "--transport",
                    to,
                    "--answer-here",
                    &here,
                    "--rate",
                    "60",
                    "--count",
                    "30",
                    "--connection",
                    connection,
                    "--threads",
                    threads,
                    "--ca",
                    text(&ca),
                    "--poisson",
                    "--watch-pid",
                    &pid,
                    "--no-check-self",
                    "--local",
                    "127.0.0.1",
                ],
            );
            check(30, &told);
            let count = |name: &str| told.1.counters.get(name).copied().unwrap();
            assert_eq!(
                (count("called_incoming"), count("called_ended")),
                (30, 30),
                "{}",
                told.2
            );
            assert_eq!(told.1.watched.len(), 1);
            assert!(told.1.watched[0].peak.rss_bytes > 0);
        }
    }
}

#[test]
fn registrations_are_made_renewed_and_removed() {
    let folder = TestDir::new("load-register");
    let data = folder.path().join("data");
    let serve = [
        "--data",
        text(&data),
        "--no-auth",
        "--domain",
        "example.test",
    ];
    let server = Serving::start(folder.path(), &data, &[&serve[..], &LISTEN].concat());
    let to = format!("sip:{}", server.at("udp"));
    let bindings = || {
        succeed(&["bindings", "--data", text(&data)], "")
            .lines()
            .count()
    };
    let common = [
        "register",
        "--to",
        &to,
        "--agents",
        "40",
        "--domain",
        "example.test",
        "--rate",
        "100",
        "--count",
        "40",
        "--no-check-self",
    ];
    let (code, result, said) = load(folder.path(), &common);
    assert!(FINE_OR_DOUBT.contains(&code), "{said}");
    assert_eq!(
        (result.figures.registers, result.figures.registers_ok),
        (40, 40),
        "{said}"
    );
    assert_eq!(result.figures.rrd.count(), 40);
    assert!(bindings() >= 40);
    for (flag, name) in [("--again", "reregister"), ("--remove", "deregister")] {
        let (code, result, said) = load(folder.path(), &[&common[..], &[flag]].concat());
        assert!(FINE_OR_DOUBT.contains(&code), "{said}");
        assert_eq!(result.figures.requests.get(name).unwrap().ok, 40, "{said}");
    }
}

#[test]
fn a_load_that_the_generator_cannot_drive_is_not_told_as_a_servers() {
    let folder = TestDir::new("load-starved");
    let (code, result, said) = load(
        folder.path(),
        &[
            "call",
            "--self",
            "--rate",
            "400000",
            "--duration",
            "1s",
            "--udp-buffer",
            "4096",
            "--drain-timeout",
            "1s",
        ],
    );
    assert_eq!(code, 3, "{said}");
    assert!(!result.valid && !result.doubts.is_empty());
    assert!(said.contains("NOT VALID"), "{said}");
}

#[test]
fn an_interrupted_run_is_written_and_says_so() {
    let folder = TestDir::new("load-interrupt");
    let (json, csv, log) = (
        folder.path().join("r.json"),
        folder.path().join("r.csv"),
        folder.path().join("log"),
    );
    let arguments = [
        "load",
        "call",
        "--self",
        "--rate",
        "50",
        "--duration",
        "600s",
        "--hold",
        "600s",
        "--json",
        text(&json),
        "--csv",
        text(&csv),
    ];
    let mut process = Running::start(signet(), &arguments, &log);
    let until = Instant::now() + Duration::from_secs(60);
    // A line a second: after the third there are calls.
    while fs::read_to_string(&log).unwrap_or_default().lines().count() < 4 {
        assert!(Instant::now() < until, "it does not run");
        std::thread::sleep(Duration::from_millis(50));
    }
    process.signal("-INT");
    let said = || fs::read_to_string(&log).unwrap();
    assert_eq!(
        process.wait(Duration::from_secs(90)),
        Some(130),
        "{}",
        said()
    );
    let result = RunResult::read(&json).unwrap();
    assert!(result.interrupted && !result.valid);
    let figures = &result.figures;
    // What was being set up at that moment is cancelled; what was up is ended well.
    assert!(figures.invites_ok > 0, "{}", said());
    assert_eq!(
        figures.completed + figures.invites_failed,
        figures.invites,
        "{}",
        said()
    );
    assert_eq!(figures.completed, figures.invites_ok, "{}", said());
    assert!(fs::read_to_string(&csv).unwrap().lines().count() > 1);
}

/// RFC 3261 9.1: an answer may cross the CANCEL. Such a call was given up, and
/// no figure of calls that were up knows of it.
#[test]
fn an_answer_that_crosses_the_cancel_is_a_call_given_up() {
    let folder = TestDir::new("load-crossing");
    let (json, log) = (folder.path().join("r.json"), folder.path().join("log"));
    let called = UdpSocket::bind("127.0.0.1:0").unwrap();
    called
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let to = format!("sip:bob@{}", called.local_addr().unwrap());
    let arguments = [
        "load",
        "call",
        "--to",
        &to,
        "--rate",
        "0.02",
        "--duration",
        "600s",
        "--json",
        text(&json),
    ];
    let mut process = Running::start(signet(), &arguments, &log);
    let mut buffer = [0; 4096];
    let mut receive = |method: &str| loop {
        let (length, from) = uninterrupted(|| called.recv_from(&mut buffer)).expect(method);
        let request = String::from_utf8_lossy(&buffer[..length]).into_owned();
        if request.starts_with(method) {
            return (request, from);
        }
    };
    let answer = |(request, from): &(String, SocketAddr), status: &str| {
        let mut response = format!("SIP/2.0 {status}\r\n");
        for line in request.lines().take_while(|line| !line.is_empty()) {
            let name = line.split(':').next().unwrap_or_default();
            if ["Via", "From", "To", "Call-ID", "CSeq"].contains(&name) {
                let tag = if name == "To" && !line.contains("tag=") {
                    ";tag=bob"
                } else {
                    ""
                };
                write!(response, "{line}{tag}\r\n").unwrap();
            }
        }
        let contact = called.local_addr().unwrap();
        write!(
            response,
            "Contact: <sip:bob@{contact}>\r\nContent-Length: 0\r\n\r\n"
        )
        .unwrap();
        called.send_to(response.as_bytes(), from).unwrap();
    };
    let invite = receive("INVITE");
    answer(&invite, "180 Ringing");
    process.signal("-INT");
    let cancel = receive("CANCEL");
    answer(&invite, "200 OK");
    answer(&cancel, "200 OK");
    receive("ACK");
    let bye = receive("BYE");
    answer(&bye, "200 OK");
    let said = || fs::read_to_string(&log).unwrap();
    assert_eq!(
        process.wait(Duration::from_secs(90)),
        Some(130),
        "{}",
        said()
    );
    let figures = RunResult::read(&json).unwrap().figures;
    let counted = (figures.invites, figures.invites_ok, figures.invites_failed);
    assert_eq!(counted, (1, 0, 1), "{}", said());
    assert_eq!((figures.byes, figures.byes_failed), (0, 0), "{}", said());
    assert_eq!(figures.completed, 0, "{}", said());
    assert!(said().contains("cancelled"), "{}", said());
}

#[test]
fn mistakes_are_refused_before_the_first_packet() {
    let folder = TestDir::new("load-mistakes");
    let csv = folder.path().join("users.csv");
    fs::write(&csv, "user,password\nalice,secret\nbob\n").unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["call"], "--to"),
        (&["call", "--to", "127.0.0.1"], "write sip:HOST:PORT"),
        (&["call", "--to", "sip:127.0.0.1", "--rate", "0"], "above 0"),
        (
            &["call", "--to", "sip:127.0.0.1", "--rate", "ramp 1"],
            "--rate",
        ),
        (
            &["call", "--to", "sip:127.0.0.1", "--pairs", "ring"],
            "--agents 2",
        ),
        (
            &["call", "--to", "sip:127.0.0.1", "--hold", "2"],
            "write 0, 500ms",
        ),
        (
            &["call", "--to", "sip:127.0.0.1", "--mix", "calls=1"],
            "there is no flow 'calls'",
        ),
        (
            &["call", "--to", "sip:127.0.0.1", "--users", text(&csv)],
            "users.csv:3:",
        ),
        (
            &["call", "--to", "sip:127.0.0.1", "--fail-if", "srd_p98 > 1"],
            "srd_p98",
        ),
        (
            &["call", "--to", "sip:127.0.0.1;transport=tls"],
            "--ca FILE",
        ),
        (
            &["call", "--to", "sip:127.0.0.1", "--transport", "sctp"],
            "write udp, tcp, tls, ws or wss",
        ),
        (
            &["call", "--to", "sip:127.0.0.1", "--watch-pid", "4294967294"],
            "cannot be watched",
        ),
        (&["register", "--to", "sip:127.0.0.1"], "--agents N"),
        (&["answer"], "--listen"),
        (&["answer", "--listen", "tls:127.0.0.1:0"], "--cert FILE"),
        (
            &[
                "call",
                "--to",
                "sip:127.0.0.1;transport=ws",
                "--ws-path",
                "sip",
            ],
            "begins with a slash",
        ),
        (
            &[
                "call",
                "--to",
                "sip:127.0.0.1",
                "--answer-tls",
                "legacy,1.3",
            ],
            "write legacy alone",
        ),
        (&["compare", "a", "b"], "a:"),
    ];
    for (arguments, why) in cases {
        let output = run(&[&["load"], *arguments].concat(), "");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(why), "{arguments:?}: {error}");
    }
}

#[test]
fn a_peak_is_found_and_written() {
    let folder = TestDir::new("load-peak");
    let json = folder.path().join("peak.json");
    let output = run(
        &[
            "load",
            "peak",
            "--self",
            "--start",
            "50",
            "--rate-max",
            "100",
            "--try-time",
            "500ms",
            "--rest",
            "0",
            "--repeats",
            "1",
            "--precision",
            "50%",
            "--tries-max",
            "4",
            "--json",
            text(&json),
        ],
        "",
    );
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        FINE_OR_DOUBT.contains(&output.status.code().unwrap()),
        "{said}"
    );
    let text = fs::read_to_string(&json).unwrap();
    assert!(
        text.contains("\"peak_cps\"") && text.contains("signet-load-peak"),
        "{text}"
    );
    assert!(said.contains("peak "), "{said}");
}
