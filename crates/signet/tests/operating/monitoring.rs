//! The figures, the alert rules and the dashboard before a real Prometheus.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::figures::missing;
use crate::support::{Running, Server, TestDir, free_port};
use serde_json::Value;

fn monitoring() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/monitoring")
}

/// The body of an answer to GET, or what went wrong.
fn get(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port)))?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    write!(
        stream,
        "GET {path} HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (_, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    Ok(body.to_owned())
}

fn query(port: u16, expression: &str) -> Value {
    let mut path = "/api/v1/query?query=".to_owned();
    for byte in expression.bytes() {
        let _ = write!(path, "%{byte:02X}");
    }
    serde_json::from_str(&get(port, &path).unwrap()).unwrap()
}

/// What Prometheus itself says of a text on its standard input.
fn promtool(arguments: &[&str], text: &str) -> (bool, String) {
    let mut child = Command::new("promtool")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is in Debian's package prometheus: make tools");
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

/// The expressions of the dashboard, as Grafana would send them.
fn dashboard_expressions() -> Vec<String> {
    let text = fs::read_to_string(monitoring().join("dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let mut found = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap_or(&Vec::new()) {
            let expression = target["expr"].as_str().unwrap();
            found.push(
                expression
                    .replace("$instance", ".*")
                    .replace("$__rate_interval", "1m"),
            );
        }
    }
    assert!(found.len() > 20, "{found:?}");
    found
}

/// The families that an expression names.
fn families(expression: &str) -> BTreeSet<&str> {
    expression
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| word.starts_with("signet_") || word.starts_with("process_"))
        .collect()
}

/// Those of stores elsewhere are there where such a store is, and those of a hook: their tests have
/// this too.
#[test]
fn every_figure_that_something_counts_is_on_the_page() {
    let folder = TestDir::new("monitoring-figures");
    let port = free_port();
    let _server = Server::start(folder.path(), &["--metrics", &port.to_string()]);
    let page = get(port, "/metrics").unwrap();
    let others = ["signet_lookups_", "signet_users_store_", "signet_hook_"];
    let missing = missing(&page, |name| !others.iter().any(|of| name.starts_with(of)));
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn prometheus_takes_figures_rules_and_dashboard() {
    let folder = TestDir::new("monitoring");
    let figures = free_port();
    let server = Server::start(folder.path(), &["--metrics", &figures.to_string()]);
    let page = get(figures, "/metrics").unwrap();
    let (is_good, said) = promtool(&["check", "metrics"], &page);
    assert!(is_good && said.is_empty(), "{said}");
    assert!(
        page.contains("signet_build_info{version=\""),
        "no build_info"
    );

    let rules = monitoring().join("alerts.yml");
    let (is_good, said) = promtool(&["check", "rules", &rules.display().to_string()], "");
    assert!(is_good, "{said}");

    let port = free_port();
    let config = format!(
        "global: {{ scrape_interval: 200ms, evaluation_interval: 200ms }}\n\
         rule_files: [{:?}]\n\
         scrape_configs:\n  - job_name: signet\n    static_configs:\n      - targets: ['127.0.0.1:{figures}']\n",
        rules.display().to_string()
    );
    let file = folder.path().join("prometheus.yml");
    fs::write(&file, config).unwrap();
    let prometheus = Running::start(
        "prometheus",
        &[
            &format!("--config.file={}", file.display()),
            &format!(
                "--storage.tsdb.path={}",
                folder.path().join("series").display()
            ),
            &format!("--web.listen-address=127.0.0.1:{port}"),
        ],
        &folder.path().join("prometheus.log"),
    );
    let until = Instant::now() + Duration::from_secs(60);
    let is_there = || {
        get(port, "/-/ready").is_ok_and(|said| said.contains("Ready"))
            && !query(port, "signet_ready == 1")["data"]["result"]
                .as_array()
                .is_none_or(Vec::is_empty)
    };
    while !is_there() {
        assert!(
            Instant::now() < until,
            "{}",
            fs::read_to_string(folder.path().join("prometheus.log")).unwrap()
        );
        std::thread::sleep(Duration::from_millis(200));
    }

    let alerts = fs::read_to_string(&rules).unwrap();
    let of_rules = alerts
        .lines()
        .filter_map(|line| line.trim().strip_prefix("expr: "))
        .map(str::to_owned);
    for expression in dashboard_expressions().into_iter().chain(of_rules) {
        let answer = query(port, &expression);
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        for family in families(&expression) {
            // Those of stores elsewhere are there where such a store is, and those of a hook.
            let is_known = page.contains(&format!("# TYPE {family} "));
            let comes_later = ["signet_lookups_", "signet_hook_"];
            assert!(
                is_known || comes_later.iter().any(|of| family.starts_with(of)),
                "{expression}: {family} is not among the figures"
            );
        }
    }
    let loaded: Value = serde_json::from_str(&get(port, "/api/v1/rules").unwrap()).unwrap();
    let loaded = loaded["data"]["groups"][0]["rules"].as_array().unwrap();
    assert_eq!(loaded.len(), alerts.matches("- alert:").count());
    let broken: Vec<&Value> = loaded
        .iter()
        .filter(|rule| rule["health"] == "err")
        .collect();
    assert!(broken.is_empty(), "{broken:?}");
    drop(prometheus);
    drop(server);
}
