//! What `signet tls` and `/metrics` tell, and that they say where it is from.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::TestDir;
use crate::support::command::{Serving, fail, succeed, text};
use crate::support::openssl::{
    Client, PATIENCE, call, page, refused, report_with, serve, write_config, write_pair,
};
use sip_tls::testing::TestCa;

#[test]
fn the_figures_of_a_listener_are_served() {
    let folder = TestDir::new("tls-figures");
    let server = serve(folder.path(), "versions = [\"1.3\"]\n", "");
    let session = folder.path().join("session");
    let suite = ["-ciphersuites", "TLS_AES_256_GCM_SHA384"];
    call(
        server.at("tls"),
        &[&suite[..], &["-sess_out", text(&session)]].concat(),
    );
    call(
        server.at("tls"),
        &[&suite[..], &["-sess_in", text(&session)]].concat(),
    );
    refused(server.at("tls"), &["-tls1_2"]);
    report_with(folder.path(), "2: 1 full, 1 resumed (50.0 %), 1 failed");
    let at = format!("listener=\"tls:{}\"", server.at("tls"));
    let expected = [
        format!("signet_tls_listener_handshakes_total{{{at},kind=\"full\",version=\"1.3\"}} 1"),
        format!("signet_tls_listener_handshakes_total{{{at},kind=\"resumed\",version=\"1.3\"}} 1"),
        format!("signet_tls_listener_resumed_total{{{at},by=\"psk\"}} 1"),
        format!("signet_tls_listener_suite_total{{{at},suite=\"TLS_AES_256_GCM_SHA384\"}} 2"),
        format!("signet_tls_listener_group_total{{{at},group=\"X25519\"}} 2"),
        format!("signet_tls_listener_failed_total{{{at},reason=\"incompatible\"}} 1"),
        format!("signet_tls_listener_failed_total{{{at},reason=\"refused\"}} 0"),
        "signet_tls_refused_source_total 0".to_owned(),
        "signet_tls_peer_handshakes_total{peer=\"other\",opened_by=\"peer\",kind=\"resumed\",version=\"1.3\"} 1".to_owned(),
        format!("signet_listener_connections{{{at}}} 0"),
        "signet_tls_ticket_secrets_made_total 1".to_owned(),
    ];
    let until = Instant::now() + PATIENCE;
    loop {
        let figures = page(folder.path(), "/metrics");
        let missing: Vec<_> = expected
            .iter()
            .filter(|line| !figures.lines().any(|of| of == line.as_str()))
            .collect();
        if missing.is_empty() {
            let end = format!("signet_tls_certificate_not_after_seconds{{{at},file=");
            assert!(figures.contains(&end), "{figures}");
            break;
        }
        assert!(Instant::now() < until, "{missing:?} are not in:\n{figures}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn without_a_running_server_the_configuration_is_read_and_named() {
    let folder = TestDir::new("tls-no-server");
    let mut server = serve(folder.path(), "versions = [\"1.3\"]\n", "");
    let config = folder.path().join("signet.toml");
    let command = ["tls", "--config", text(&config)];
    assert!(succeed(&command, "").starts_with("asked the running server, http://127.0.0.1:"));

    // The file of a server that was killed is not believed.
    server.process.signal("-KILL");
    server.process.wait(Duration::from_secs(30)).unwrap();
    let report = succeed(&command, "");
    assert!(report.starts_with("read from "), "{report}");
    assert!(report.contains("no server runs by it"), "{report}");
    assert!(
        report.contains("server.pem") && report.contains("days left"),
        "{report}"
    );
    assert!(!report.contains("handshakes"), "{report}");

    let data = folder.path().join("data");
    let error = fail(&["tls", "--data", text(&data)], "");
    assert!(error.contains("no server runs on"), "{error}");
}

#[test]
fn what_fails_is_counted_by_its_reason_and_what_is_too_much_is_refused() {
    let folder = TestDir::new("tls-budget");
    let more = "[tls]\nhandshakes_per_source_max = 2\nhello_timeout_ms = 60000\nhandshake_timeout_ms = 60000\n";
    // One worker: each looks among its own clients for one that gives way.
    let config = write_config(folder.path(), "", more);
    let whole = std::fs::read_to_string(&config).unwrap();
    assert!(whole.contains("workers = 2\n"));
    std::fs::write(&config, whole.replace("workers = 2\n", "workers = 1\n")).unwrap();
    let data = folder.path().join("data");
    let server = Serving::start(folder.path(), &data, &["--config", text(&config)]);
    let at = server.at("tls");

    // Two say nothing, and are all that a source may have: the first goes for a third.
    let mut silent = vec![
        TcpStream::connect(at).unwrap(),
        TcpStream::connect(at).unwrap(),
    ];
    report_under_way(folder.path(), 2);
    call(at, &[]);
    report_with(folder.path(), "1 refused");
    assert_eq!(silent.remove(0).read(&mut [0]).unwrap_or(0), 0);
    silent.pop();
    report_with(folder.path(), "1 cut");

    let mut garbage = TcpStream::connect(at).unwrap();
    garbage.write_all(b"OPTIONS sip:x SIP/2.0\r\n\r\n").unwrap();
    report_with(folder.path(), "1 broken");
    // The threads that shake hands report at once, the workers twice a second.
    report_with(folder.path(), "1: 1 full, 0 resumed (0.0 %), 3 failed");
    assert!(page(folder.path(), "/metrics").contains("signet_tls_refused_source_total 1\n"));
}

/// Waits until this many handshakes are under way.
fn report_under_way(folder: &Path, count: usize) {
    let until = Instant::now() + PATIENCE;
    let line = format!("\nsignet_tls_handshakes_under_way {count}\n");
    while !page(folder, "/metrics").contains(&line) {
        assert!(Instant::now() < until, "{line}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_report_has_connections_lists_and_warnings_and_a_form_for_programs() {
    let folder = TestDir::new("tls-report");
    let ca = TestCa::new();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("root.pem"), ca.root_pem()).unwrap();
    std::fs::write(at("crl.pem"), ca.revoke(&[4711])).unwrap();
    write_pair(folder.path(), "server", &ca.issue(&["example.com"]));
    write_pair(folder.path(), "phone", &ca.issue(&["phone.example.com"]));
    write_pair(
        folder.path(),
        "gone",
        &ca.issue_between(&["gone.example.com"], 2020, 2021),
    );
    let security = "certificates = [{ cert = \"server.pem\", key = \"server.key\" }]\n\
         client_certificates = \"optional\"\nclient_roots = [\"root.pem\"]\ncrls = [\"crl.pem\"]\n";
    write_pair(
        folder.path(),
        "trunk",
        &ca.issue_between(&["trunk.example.com"], 2020, 2021),
    );
    let more = "[tls]\nidentity = { cert = \"gone.pem\", key = \"gone.key\" }\n\
         [[tls.peer]]\nnames = [\"carrier.example.net\"]\nexpect = \"example.net\"\n\
         identity = { cert = \"trunk.pem\", key = \"trunk.key\" }\nversions = [\"1.3\"]\n\
         [[tls.peer]]\nnames = [\"silent.example.net\"]\nidentity = \"none\"\n";
    let server = serve(folder.path(), security, more);
    let (cert, key) = (at("phone.pem"), at("phone.key"));
    let suite = ["-ciphersuites", "TLS_AES_256_GCM_SHA384"];
    let shows = [&suite[..], &["-cert", text(&cert), "-key", text(&key)]].concat();
    let mut standing = Client::connect(server.at("tls"), &shows);
    standing.exchange();
    let report = report_with(folder.path(), "connections    1 open, ");
    for line in [
        "WARNING the certificate ",
        "gone.pem: it expired on ",
        "may show a certificate of ",
        "crl.pem, of CN=",
        ", 1 revoked, next due ",
        "peer other, connections opened by the peer",
        "secret from    store ",
        " old, the newest",
        "could resume   with 0 peers",
        "trunk.pem: it expired on ",
        "called         carrier.example.net; must prove example.net\n    shows        ",
        "    versions     1.3\n",
        "called         silent.example.net\n    shows        no certificate\n",
    ] {
        assert!(report.contains(line), "{line:?} is not in:\n{report}");
    }

    let config = at("signet.toml");
    // A handshake and a connection are counted one after the other.
    let ask = || -> serde_json::Value {
        let told = succeed(&["tls", "--json", "--config", text(&config)], "");
        serde_json::from_str(&told).unwrap()
    };
    let mut told = ask();
    for _ in 0..100 {
        if told["listeners"][0]["handshakes"]["full"] == 1 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        told = ask();
    }
    assert!(
        told["from"]
            .as_str()
            .unwrap()
            .starts_with("asked the running server")
    );
    let listener = &told["listeners"][0];
    assert_eq!(listener["handshakes"]["full"], 1);
    assert_eq!(
        listener["handshakes"]["suites"]["TLS_AES_256_GCM_SHA384"],
        1
    );
    assert_eq!(listener["connections"]["open"], 1);
    assert!(listener["connections"]["bytes"].as_u64().unwrap() > 1_000);
    assert_eq!(listener["clients"]["crls"][0]["revoked"], 1);
    assert_eq!(told["tickets"]["secrets"].as_array().unwrap().len(), 1);
    assert_eq!(told["peers"][0]["name"], "other");
    assert_eq!(told["warnings"].as_array().unwrap().len(), 2);
    let called = &told["outgoing"]["called"];
    assert_eq!(called[0]["names"][0], "carrier.example.net");
    assert_eq!(called[0]["identity"]["names"][0], "trunk.example.com");
    assert_eq!(called[0]["versions"][0], "1.3");
    assert!(called[1]["identity"].is_null() && called[1]["suites"].is_null());
    drop(standing);

    // Without the server, what the files say; nothing was counted.
    let mut server = server;
    server.process.signal("-TERM");
    server.process.wait(Duration::from_secs(30)).unwrap();
    let told = succeed(&["tls", "--json", "--config", text(&config)], "");
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert!(told["listeners"][0]["handshakes"].is_null());
    assert_eq!(told["tickets"]["secrets"].as_array().unwrap().len(), 1);
    assert_eq!(told["warnings"].as_array().unwrap().len(), 2);
}
