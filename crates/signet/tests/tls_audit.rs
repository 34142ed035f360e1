//! What `signet tls` and `/metrics` tell, and that they say where it is from.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use support::TestDir;
use support::command::{fail, succeed, text};
use support::openssl::{PATIENCE, call, page, refused, report_with, serve};

#[test]
fn the_figures_of_a_listener_are_served() {
    let folder = TestDir::new("tls-figures");
    let server = serve(folder.path(), "versions = [\"1.3\"]\n", "");
    let session = folder.path().join("session");
    call(server.at("tls"), &["-sess_out", text(&session)]);
    call(server.at("tls"), &["-sess_in", text(&session)]);
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
    let server = serve(folder.path(), "", more);
    let at = server.at("tls");

    // Two say nothing: for a third there is no place, until one has gone.
    let mut silent = vec![
        TcpStream::connect(at).unwrap(),
        TcpStream::connect(at).unwrap(),
    ];
    report_under_way(folder.path(), 2);
    refused(at, &[]);
    report_with(folder.path(), "1 refused");
    silent.pop();
    report_with(folder.path(), "1 cut");
    call(at, &[]);

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
