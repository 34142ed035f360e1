//! The suites of RFC 3261 26.2.1 by the whole program: a listener that offers
//! them, what it says of them, and a generator that uses them on either side.
#![cfg(feature = "legacy-tls")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use measure::RunResult;
use sip_tls::testing::{KeyKind, TestCa};
use support::command::{Serving, fail, run, succeed, text};
use support::openssl::{PATIENCE, call, refused, report_with, write_pair};
use support::{Running, TestDir, signet};

const AES: &str = "TLS_RSA_WITH_AES_128_CBC_SHA";
const TRIPLE_DES: &str = "TLS_RSA_WITH_3DES_EDE_CBC_SHA";

/// A server with a listener for phones and one for measurements.
fn serve(folder: &Path, ca: &TestCa, security: &str, top: &str) -> Serving {
    write_pair(
        folder,
        "rsa",
        &ca.issue_with(&["127.0.0.1"], KeyKind::Rsa2048),
    );
    fs::write(folder.join("root.pem"), ca.root_pem()).unwrap();
    let config = folder.join("signet.toml");
    let whole = format!(
        "version = 1\ndata = \"data\"\ndomains = [\"example.com\"]\nworkers = 1\n{top}\n\
         [[listen]]\non = \"udp:127.0.0.1:0\"\n\
         [[listen]]\non = \"tls:127.0.0.1:0\"\nname = \"legacy\"\n\
         [listen.security]\ncertificate = \"rsa.pem\"\nkey = \"rsa.key\"\n{security}\n\
         [authentication]\nrequired = false\n[metrics]\nlisten = \"127.0.0.1:0\"\n"
    );
    fs::write(&config, whole).unwrap();
    Serving::start(folder, &folder.join("data"), &["--config", text(&config)])
}

/// A load whose exit code may be that of doubt: a machine that runs tests is
/// no place for measurements.
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
    (result, said)
}

#[test]
fn the_listener_says_what_it_is_worth_wherever_it_is_asked() {
    let folder = TestDir::new("legacy-warns");
    let ca = TestCa::new();
    let server = serve(folder.path(), &ca, "engine = \"legacy\"", "");
    server.wait_for_log("Sweet32");
    let told = call(
        server.at("tls"),
        &["-tls1_2", "-cipher", "AES128-SHA@SECLEVEL=0"],
    );
    assert!(told.contains("Cipher is AES128-SHA"), "{told}");
    refused(server.at("tls"), &["-tls1_3"]);
    let report = report_with(folder.path(), &format!("1 {AES}"));
    for expected in ["engine         legacy", "Sweet32", AES, TRIPLE_DES] {
        assert!(report.contains(expected), "{report}");
    }
    assert!(!report.contains("X25519"), "{report}");
    let config = folder.path().join("signet.toml");
    let checked = succeed(&["check", text(&config)], "");
    assert!(
        checked.contains("warning") && checked.contains("ROBOT"),
        "{checked}"
    );
}

#[test]
fn suites_may_be_chosen_and_what_the_engine_has_not_is_refused_with_its_line() {
    let folder = TestDir::new("legacy-config");
    let ca = TestCa::new();
    let pair = ca.issue_with(&["127.0.0.1"], KeyKind::Rsa2048);
    write_pair(folder.path(), "rsa", &pair);
    let config = folder.path().join("signet.toml");
    let write = |security: &str| {
        let whole = format!(
            "version = 1\n[[listen]]\non = \"tls:127.0.0.1:0\"\nname = \"legacy\"\n\
             [listen.security]\ncertificate = \"rsa.pem\"\nkey = \"rsa.key\"\n{security}\n"
        );
        fs::write(&config, whole).unwrap();
    };
    for suite in ["AES128-SHA", TRIPLE_DES] {
        write(&format!("suites = [\"{suite}\"]"));
        let checked = succeed(&["check", text(&config)], "");
        assert!(checked.contains("Sweet32"), "{checked}");
        // It alone is offered.
        let report = succeed(&["tls", "--config", text(&config)], "");
        let lines = format!("  suites         {suite}\n  clients");
        assert!(report.contains(&lines), "{report}");
    }
    for (security, key) in [
        ("engine = \"legacy\"\nversions = [\"1.3\"]", "versions"),
        (
            "suites = [\"AES128-SHA\", \"TLS_AES_128_GCM_SHA256\"]",
            "suites",
        ),
    ] {
        write(security);
        let error = fail(&["check", text(&config)], "");
        assert!(error.contains(&format!("| {key} = ")), "{error}");
    }
}

#[test]
fn a_certificate_without_an_rsa_key_is_refused_before_the_start() {
    let folder = TestDir::new("legacy-key");
    let ca = TestCa::new();
    write_pair(folder.path(), "ec", &ca.issue(&["127.0.0.1"]));
    let config = folder.path().join("signet.toml");
    for pair in ["", "certificate = \"ec.pem\"\nkey = \"ec.key\"\n"] {
        let whole = format!(
            "version = 1\n[[listen]]\non = \"tls:127.0.0.1:0\"\nname = \"legacy\"\n\
             [listen.security]\nengine = \"legacy\"\n{pair}"
        );
        fs::write(&config, whole).unwrap();
        let error = fail(&["check", text(&config)], "");
        assert!(error.contains("RSA key"), "{error}");
    }
    // What the remedy says gives one that fits.
    let data = folder.path().join("data");
    let stem = folder.path().join("ec");
    let issue = [
        "ca",
        "issue",
        "--data",
        text(&data),
        "--key-type",
        "rsa2048",
        "127.0.0.1",
        "--out",
        text(&stem),
    ];
    succeed(&issue, "");
    let checked = succeed(&["check", text(&config)], "");
    assert!(checked.contains("good"), "{checked}");
}

#[test]
fn calls_pass_through_the_server_in_either_suite_and_resume() {
    for suite in [AES, TRIPLE_DES] {
        let folder = TestDir::new("legacy-calls");
        let ca = TestCa::new();
        let called = support::free_port();
        let forward = format!("forward = \"sip:127.0.0.1:{called}\"");
        let server = serve(
            folder.path(),
            &ca,
            &format!("suites = [\"{suite}\"]"),
            &forward,
        );
        let root = folder.path().join("root.pem");
        let to = format!("sip:bob@{}", server.at("tls"));
        let here = format!("udp:127.0.0.1:{called}");
        let (result, said) = load(
            folder.path(),
            &[
                "call",
                "--to",
                &to,
                "--transport",
                "tls",
                "--ca",
                text(&root),
                "--answer-here",
                &here,
                "--rate",
                "10",
                "--count",
                "20",
                "--connection",
                "per-call",
                "--resume",
                "all",
                "--suite",
                suite,
                "--no-check-self",
                "--local",
                "127.0.0.1",
            ],
        );
        let figures = &result.figures;
        assert_eq!((figures.invites_ok, figures.completed), (20, 20), "{said}");
        assert_eq!(result.causes.total(), 0, "{said}");
        let report = report_with(folder.path(), &format!("20 {suite}"));
        // How many had a session to resume is a matter of when they came.
        assert!(report.contains(" ticket\n"), "{report}");
        assert!(!report.contains(" failed by"), "{report}");
    }
}

#[test]
fn a_load_straight_to_itself_uses_the_suite_on_both_sides() {
    let folder = TestDir::new("legacy-self");
    for asked in [["--tls", "legacy"], ["--suite", TRIPLE_DES]] {
        let (result, said) = load(
            folder.path(),
            &[
                &[
                    "call",
                    "--self",
                    "--transport",
                    "tls",
                    "--rate",
                    "20",
                    "--count",
                    "20",
                ][..],
                &["--connection", "per-call"],
                &asked,
            ]
            .concat(),
        );
        let figures = &result.figures;
        assert_eq!((figures.invites_ok, figures.completed), (20, 20), "{said}");
        assert_eq!(result.causes.total(), 0, "{said}");
    }
}

#[test]
fn the_called_side_alone_takes_them() {
    let folder = TestDir::new("legacy-answer");
    let ca = TestCa::new();
    write_pair(
        folder.path(),
        "rsa",
        &ca.issue_with(&["127.0.0.1"], KeyKind::Rsa2048),
    );
    let port = support::free_port();
    let at = format!("tls:127.0.0.1:{port}");
    let (cert, key) = (folder.path().join("rsa.pem"), folder.path().join("rsa.key"));
    let arguments = [
        "load",
        "answer",
        "--listen",
        &at,
        "--cert",
        text(&cert),
        "--key",
        text(&key),
        "--tls",
        "legacy",
        "--suite",
        "AES128-SHA",
    ];
    let _answer = Running::start(signet(), &arguments, &folder.path().join("answer.log"));
    let addr = format!("127.0.0.1:{port}").parse().unwrap();
    let until = Instant::now() + PATIENCE;
    while std::net::TcpStream::connect(addr).is_err() {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(20));
    }
    let told = call(addr, &["-tls1_2", "-cipher", "AES128-SHA@SECLEVEL=0"]);
    assert!(told.contains("Cipher is AES128-SHA"), "{told}");
    refused(addr, &["-tls1_3"]);
}
