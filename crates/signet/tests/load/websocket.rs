//! `signet load` over WebSockets, by the real program against a real `signet serve`:
//! registrations, calls and a peak, with every life of a connection.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::command::{Serving, run, succeed, text};
use crate::support::{Running, TestDir, add_user, free_port, signet};
use measure::RunResult;

const DOMAIN: &str = "example.test";

/// A server with a listener for each kind of WebSocket.
fn serve(folder: &Path, top: &str) -> Serving {
    let config = folder.join("signet.toml");
    let whole = format!(
        "version = 1\ndata = \"data\"\ndomains = [\"{DOMAIN}\"]\nworkers = 2\n{top}\n\
         [[listen]]\non = \"udp:127.0.0.1:0\"\n\
         [[listen]]\non = \"wss:127.0.0.1:0\"\n[[listen]]\non = \"ws:127.0.0.1:0\"\n\
         [metrics]\nlisten = \"127.0.0.1:0\"\n"
    );
    fs::write(&config, whole).unwrap();
    Serving::start(folder, &folder.join("data"), &["--config", text(&config)])
}

/// Runs a load that nothing goes wrong with; its result and what it said. A machine that
/// runs tests may well make the generator doubt itself.
fn load(folder: &Path, arguments: &[&str]) -> (RunResult, String) {
    let json = folder.join("load.json");
    let all = [&["load"], arguments, &["--json", text(&json)]].concat();
    let output = run(&all, "");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    let result = RunResult::read(&json).unwrap_or_else(|error| panic!("{error}: {said}"));
    for name in ["leaked_calls", "leaked_requests", "leaked_connections"] {
        assert_eq!(result.counters.get(name), Some(&0), "{name}");
    }
    assert_eq!(result.causes.total(), 0, "{said}");
    (result, said)
}

fn called(result: &RunResult, said: &str, calls: u64) {
    let figures = &result.figures;
    assert_eq!(
        (figures.invites, figures.invites_ok, figures.completed),
        (calls, calls, calls),
        "{said}"
    );
}

#[test]
fn calls_over_either_kind_and_every_life_of_a_connection() {
    for transport in ["ws", "wss"] {
        let folder = TestDir::new(&format!("load-{transport}"));
        let port = free_port();
        let top = format!("forward = \"sip:127.0.0.1:{port}\"\n[authentication]\nrequired = false");
        let server = serve(folder.path(), &top);
        let ca = folder.path().join("data/ca.pem");
        let uri = format!("sip:bob@{}", server.at(transport));
        let here = format!("udp:127.0.0.1:{port}");
        for (connection, opened) in [
            ("one", 1..=1),
            ("per-call", 30..=30),
            ("per-5-calls", 6..=29),
        ] {
            let (result, said) = load(
                folder.path(),
                &[
                    "call",
                    "--to",
                    &uri,
                    "--transport",
                    transport,
                    "--ca",
                    text(&ca),
                    "--answer-here",
                    &here,
                    "--rate",
                    "60",
                    "--count",
                    "30",
                    "--connection",
                    connection,
                    "--no-check-self",
                ],
            );
            called(&result, &said, 30);
            let count = result.counters.get("connections_opened").unwrap();
            assert!(opened.contains(count), "{connection}: {count}");
            let handshakes = result.handshakes.full + result.handshakes.resumed;
            let secured = if transport == "wss" { *count } else { 0 };
            assert_eq!(handshakes, secured, "{connection}: {said}");
        }
    }
}

#[test]
fn agents_register_and_call_each_other_by_passwords() {
    let folder = TestDir::new("load-ws-agents");
    let server = serve(folder.path(), "");
    let data = folder.path().join("data");
    for number in 1..=12 {
        add_user(
            &data,
            &format!("user{number}"),
            DOMAIN,
            &format!("pw{number}"),
        );
    }
    let ca = data.join("ca.pem");
    for (transport, connection) in [("ws", "per-agent"), ("wss", "per-agent"), ("ws", "one")] {
        let to = format!("sip:{}", server.at(transport));
        let common = [
            "--to",
            &to,
            "--transport",
            transport,
            "--ca",
            text(&ca),
            "--domain",
            DOMAIN,
            "--agents",
            "12",
            "--user",
            "user{n}",
            "--password",
            "pw{n}",
            "--rate",
            "12",
            "--connection",
            connection,
            "--no-check-self",
        ];
        let register = [&["register"], &common[..], &["--count", "24"]].concat();
        let (result, said) = load(folder.path(), &register);
        let figures = &result.figures;
        assert_eq!(
            (figures.registers, figures.registers_ok),
            (24, 24),
            "{said}"
        );
        let bindings = succeed(&["bindings", "--data", text(&data)], "");
        assert!(bindings.contains(".invalid;transport=ws"), "{bindings}");

        let pairs = ["--pairs", "ring", "--hold", "50ms", "--count", "24"];
        let call = [&["call"], &common[..], &pairs].concat();
        let (result, said) = load(folder.path(), &call);
        called(&result, &said, 24);
        assert_eq!(result.counters.get("agents_ready"), Some(&12), "{said}");
        let opened = if connection == "one" { 1 } else { 12 };
        let count = result.counters.get("connections_opened");
        assert_eq!(count, Some(&opened), "{said}");
    }
}

#[test]
fn a_called_side_takes_websockets_and_a_peak_is_found_over_them() {
    let folder = TestDir::new("load-ws-answer");
    let port = free_port();
    let at = format!("ws:127.0.0.1:{port}");
    let arguments = ["load", "answer", "--listen", &at];
    let _answer = Running::start(signet(), &arguments, &folder.path().join("answer.log"));
    let addr = SocketAddr::from(([127, 0, 0, 1], port));
    let until = Instant::now() + Duration::from_secs(30);
    while std::net::TcpStream::connect(addr).is_err() {
        assert!(Instant::now() < until, "nobody answers");
        std::thread::sleep(Duration::from_millis(20));
    }
    let to = format!("sip:bob@{addr};transport=ws");
    let (result, said) = load(
        folder.path(),
        &[
            "call",
            "--to",
            &to,
            "--rate",
            "50",
            "--count",
            "20",
            "--no-check-self",
        ],
    );
    called(&result, &said, 20);

    let json = folder.path().join("peak.json");
    let output = run(
        &[
            "load",
            "peak",
            "--self",
            "--transport",
            "wss",
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
    assert!(matches!(output.status.code(), Some(0 | 3)));
    let told = fs::read_to_string(&json).unwrap();
    assert!(told.contains("\"transport\": \"wss\""), "{told}");
}

#[test]
fn a_path_that_the_server_has_not_is_told_by_its_status() {
    let folder = TestDir::new("load-ws-path");
    let server = serve(folder.path(), "");
    let to = format!("sip:{}", server.at("ws"));
    let output = run(
        &[
            "load",
            "call",
            "--to",
            &to,
            "--transport",
            "ws",
            "--ws-path",
            "/other",
            "--no-check-self",
        ],
        "",
    );
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("upgrade: status 404"), "{error}");
}
