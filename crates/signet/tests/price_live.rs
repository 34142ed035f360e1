//! Where a running server's CPU time goes: its figures under a real load, against what the
//! kernel says of its threads, and `signet price live` on them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use measure::Figures;
use support::command::{Serving, fail, run, succeed, text};
use support::{TestDir, free_port, signet};

const CPU: &str = "signet_cpu_seconds_total";
const CALLS: u64 = 160;

fn figures(port: u16) -> Figures {
    let mut stream = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    write!(
        stream,
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    Figures::new(page)
}

/// The CPU time of all threads of a process, as the kernel counts it, in seconds.
fn kernels_s(process: u32) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let of = |task: fs::DirEntry| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    };
    tasks.filter_map(|task| of(task.unwrap())).sum::<f64>() / 1e9
}

/// A server with users, its TLS listener, and its port for figures.
struct Served {
    server: Serving,
    figures: u16,
}

impl Served {
    fn start(folder: &Path, data: &Path, users: &Path) -> Self {
        let mut lines = "user,password\n".to_owned();
        for number in 1..=8 {
            writeln!(lines, "user{number},pw{number}").unwrap();
        }
        fs::write(users, &lines).unwrap();
        let place = ["--data", text(data)];
        let import = ["user", "--domain", "example.test", "import", text(users)];
        succeed(&[&import[..], &place].concat(), "");
        let figures = free_port();
        let serve = [
            "--domain",
            "example.test",
            "--workers",
            "2",
            "--listen",
            "udp:127.0.0.1:0",
            "--listen",
            "tls:127.0.0.1:0",
            "--metrics",
            &figures.to_string(),
        ];
        let server = Serving::start(folder, data, &[&place[..], &serve].concat());
        Self { server, figures }
    }
}

/// Calls over TLS by users who are asked for their passwords.
fn load(folder: &Path, data: &Path, users: &Path, to: SocketAddr) {
    let json = folder.join("load.json");
    let to = format!("sip:{to}");
    let (count, ca) = (CALLS.to_string(), data.join("ca.pem"));
    let output = run(
        &[
            "load",
            "call",
            "--to",
            &to,
            "--transport",
            "tls",
            "--connection",
            "per-agent",
            "--users",
            text(users),
            "--domain",
            "example.test",
            "--pairs",
            "ring",
            "--rate",
            "40",
            "--hold",
            "50ms",
            "--count",
            &count,
            "--ca",
            text(&ca),
            "--no-check-self",
            "--json",
            text(&json),
        ],
        "",
    );
    let said = String::from_utf8_lossy(&output.stderr);
    let result = measure::RunResult::read(&json).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!(result.figures.completed, CALLS, "{said}");
}

/// `signet price live`, which has looked once.
fn begin_to_look(arguments: &[&str]) -> Child {
    let mut child = Command::new(signet())
        .args(["price", "live", "--core-hour-eur", "0.05"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    told.read_line(&mut line).unwrap();
    assert!(line.starts_with("looking at "), "{line}");
    child
}

#[test]
fn components_rise_under_load_and_sum_to_what_the_kernel_counts() {
    let folder = TestDir::new("price-live");
    let (data, users) = (folder.path().join("data"), folder.path().join("users.csv"));
    let served = Served::start(folder.path(), &data, &users);
    let (json, page) = (
        folder.path().join("live.json"),
        folder.path().join("live.html"),
    );
    let before = figures(served.figures);
    let at = format!("http://127.0.0.1:{}/metrics", served.figures);
    let live = begin_to_look(&[
        "--metrics",
        &at,
        "--seconds",
        "9",
        "--json",
        text(&json),
        "--html",
        text(&page),
    ]);
    load(folder.path(), &data, &users, served.server.at("tls"));

    // Workers report while they have something to do, so the page comes up to the kernel's
    // figure: to 1 %, and to what a thread that runs has used since the kernel's last tick.
    let process = served.server.process.child.id();
    let until = Instant::now() + Duration::from_secs(20);
    let after = loop {
        let kernels_s = kernels_s(process);
        let after = figures(served.figures);
        let (sum_s, calls) = (after.sum(CPU), after.sum("signet_calls_total"));
        let is_sum = (sum_s - kernels_s).abs() <= 0.01 * kernels_s + 0.005;
        if is_sum && calls == CALLS as f64 {
            break after;
        }
        assert!(
            Instant::now() < until,
            "components sum to {sum_s} s, and the threads' CPU time is {kernels_s} s; {calls} calls"
        );
        std::thread::sleep(Duration::from_millis(200));
    };
    let of = |figures: &Figures, component: &str| {
        let mut found = figures.by(CPU, "component");
        found.find(|(name, _)| *name == component).unwrap().1
    };
    for component in [
        "kernel",
        "sip_core",
        "tls_records",
        "tls_handshakes",
        "authentication",
        "store",
        "administration",
    ] {
        let (first_s, then_s) = (of(&before, component), of(&after, component));
        assert!(
            then_s > first_s,
            "{component}: {first_s} s, then {then_s} s"
        );
    }

    let output = live.wait_with_output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{told}");
    for part in [
        "tls_handshakes",
        "total",
        "a core costs 0.05 EUR an hour",
        "not told apart",
    ] {
        assert!(told.contains(part), "{part:?} is not in:\n{told}");
    }
    let record: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(record["format"], "signet-price-live");
    let calls = record["calls"].as_u64().unwrap();
    assert!((1..=CALLS).contains(&calls), "{calls}");
    let components = record["components"].as_array().unwrap();
    let field_sum = |name: &str| {
        let fields = components.iter().map(|of| of[name].as_f64().unwrap());
        fields.sum::<f64>()
    };
    for name in ["cpu_s", "share", "us_per_call", "eur_per_million_calls"] {
        let (sum, total) = (field_sum(name), record["total"][name].as_f64().unwrap());
        assert!(
            (sum - total).abs() <= 1e-9 * total.abs(),
            "{name}: {sum}, {total}"
        );
        assert!(total > 0.0, "{name}");
    }
    let page = fs::read_to_string(&page).unwrap();
    assert!(page.contains("tls_handshakes") && page.contains("<svg"));
}

#[test]
fn a_server_at_rest_has_no_price_for_a_call_and_one_that_is_not_there_is_told() {
    let folder = TestDir::new("price-live-idle");
    let (data, users) = (folder.path().join("data"), folder.path().join("users.csv"));
    let served = Served::start(folder.path(), &data, &users);
    let told = succeed(
        &[
            "price",
            "live",
            "--data",
            text(&data),
            "--core-hour-eur",
            "0.05",
            "--seconds",
            "1",
        ],
        "",
    );
    assert!(told.contains("admin.sock"), "{told}");
    assert!(told.contains("there were no calls"), "{told}");
    assert!(!told.contains("EUR"), "{told}");

    drop(served);
    let nowhere = free_port().to_string();
    let unreached = [
        (
            ["--metrics", nowhere.as_str()],
            "did not answer",
            "look whether it runs",
        ),
        (
            ["--data", text(&data)],
            "no server runs on",
            "--metrics ADDR:PORT",
        ),
        (
            ["--metrics", "https://example.test/"],
            "https is not spoken",
            "127.0.0.1:9060",
        ),
    ];
    for (place, what, remedy) in unreached {
        let arguments = [&["price", "live", "--core-hour-eur", "0.05"], &place[..]].concat();
        let error = fail(&arguments, "");
        assert!(error.contains(what) && error.contains(remedy), "{error}");
    }
}
