//! A load whose two legs speak TLS differently, through a real `signet serve` between
//! them: each leg's versions, suites, groups and certificates are its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;

use crate::support::command::{Serving, run, text};
use crate::support::openssl::write_pair;
use crate::support::{TestDir, free_port};
use measure::RunResult;
use sip_tls::testing::TestCa;

const SUITE_12: &str = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256";
const SUITE_13: &str = "TLS_AES_256_GCM_SHA384";

/// Runs a load; its exit code, its result and what it said.
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
    (output.status.code().unwrap(), result, said)
}

#[test]
fn each_leg_has_versions_suites_groups_and_certificates_of_its_own() {
    let folder = TestDir::new("load-legs");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (ca, other) = (TestCa::new(), TestCa::new());
    fs::write(at("root.pem"), ca.root_pem()).unwrap();
    fs::write(at("other.pem"), other.root_pem()).unwrap();
    write_pair(folder.path(), "called", &ca.issue(&["127.0.0.1"]));
    write_pair(folder.path(), "me", &ca.issue(&["example.test"]));
    let port = free_port();
    let config = folder.path().join("signet.toml");
    let whole = format!(
        "version = 1\ndata = \"data\"\ndomains = [\"example.test\"]\nworkers = 1\n\
         forward = \"sip:127.0.0.1:{port};transport=tls\"\n\
         [[listen]]\non = \"udp:127.0.0.1:0\"\n[[listen]]\non = \"tls:127.0.0.1:0\"\n\
         [authentication]\nrequired = false\n[metrics]\nlisten = \"127.0.0.1:0\"\n\
         [tls]\ntrust = [\"root.pem\"]\nidentity = {{ cert = \"me.pem\", key = \"me.key\" }}\n"
    );
    fs::write(&config, whole).unwrap();
    let data = folder.path().join("data");
    let server = Serving::start(folder.path(), &data, &["--config", text(&config)]);
    let (to, here) = (
        format!("sip:bob@{}", server.at("tls")),
        format!("tls:127.0.0.1:{port}"),
    );
    let (cert, key) = (at("called.pem"), at("called.key"));
    let server_ca = data.join("ca.pem");
    let common = [
        "call",
        "--to",
        &to,
        "--transport",
        "tls",
        "--ca",
        text(&server_ca),
        "--connection",
        "per-call",
        "--tls",
        "1.2",
        "--suite",
        SUITE_12,
        "--group",
        "X25519",
        "--answer-here",
        &here,
        "--answer-cert",
        &cert,
        "--answer-key",
        &key,
        "--answer-tls",
        "1.3",
        "--answer-suite",
        SUITE_13,
        "--answer-group",
        "P-384",
        "--rate",
        "40",
        "--count",
        "20",
        "--no-check-self",
    ];
    // Only a called side that asks for the server's certificate is told it.
    let (root, wrong) = (at("root.pem"), at("other.pem"));
    for asks in [&[][..], &["--answer-ca", &root]] {
        let (code, result, said) = load(folder.path(), &[&common[..], asks].concat());
        assert!(matches!(code, 0 | 3), "{said}");
        assert_eq!(result.figures.completed, 20, "{said}");
        let count = |name: &str| result.counters.get(name).copied().unwrap_or(0);
        assert_eq!((count(SUITE_12), count("X25519")), (20, 20), "{said}");
        assert_eq!((count(SUITE_13), count("P-384")), (0, 0), "{said}");
        let called = |name: &str| count(&format!("called: {name}"));
        assert!(called(SUITE_13) > 0 && called("P-384") > 0, "{said}");
        assert_eq!((called(SUITE_12), called("X25519")), (0, 0), "{said}");
    }
    let (code, result, said) = load(
        folder.path(),
        &[&common[..], &["--answer-ca", &wrong]].concat(),
    );
    assert!(matches!(code, 1 | 3), "{said}");
    assert_eq!(result.figures.completed, 0, "{said}");
}
