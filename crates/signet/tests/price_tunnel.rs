//! `signet price tunnel` from outside: real tunnels between namespaces of the run's own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::command::{fail, succeed, text};
use support::{Running, TestDir, have, signet, skip};

/// How long a run may take.
const PATIENCE: Duration = Duration::from_secs(240);

/// Whether this user may make namespaces of the network, and has what all tunnels need.
fn may_run() -> bool {
    if !(have("ip") && have("iperf3")) {
        return false;
    }
    let probe = Command::new("unshare").args(["-n", "true"]).output();
    let is_allowed = probe.is_ok_and(|output| output.status.success());
    if !is_allowed {
        skip("only root can make the namespaces for this test");
    }
    is_allowed
}

/// A run and what it leaves.
struct Priced {
    folder: TestDir,
    process: Running,
}

impl Priced {
    fn start(name: &str, options: &str) -> Self {
        let folder = TestDir::new(name);
        let (json, page) = (file(&folder, "tunnel.json"), file(&folder, "tunnel.html"));
        let words = [
            "price",
            "tunnel",
            "--json",
            text(&json),
            "--html",
            text(&page),
        ];
        let options: Vec<&str> = options.split(' ').collect();
        let log = file(&folder, "run.log");
        let process = Running::start(signet(), &[&words[..], &options].concat(), &log);
        Self { folder, process }
    }

    fn said(&self) -> String {
        fs::read_to_string(file(&self.folder, "run.log")).unwrap()
    }

    /// Processes that have the run's folder of keys in their command line.
    fn processes(&self) -> Vec<String> {
        let own = format!("signet-tunnel-{}/", self.process.child.id());
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let lines = entries.map(|entry| fs::read(entry.path().join("cmdline")).unwrap_or_default());
        lines
            .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
            .filter(|line| line.contains(&own))
            .collect()
    }

    /// Namespaces of the run.
    fn namespaces(&self) -> Vec<String> {
        let own = format!("signet-bed-{}-", self.process.child.id());
        let output = Command::new("ip").args(["netns", "list"]).output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        let lines = told.lines().filter(|line| line.starts_with(&own));
        lines.map(str::to_owned).collect()
    }

    fn left_nothing(&self) {
        assert_eq!(self.namespaces(), Vec::<String>::new());
        assert_eq!(self.processes(), Vec::<String>::new());
        let keys = std::env::temp_dir().join(format!("signet-tunnel-{}", self.process.child.id()));
        assert!(!keys.exists(), "{}", keys.display());
    }

    fn record(&self) -> Value {
        let text = fs::read_to_string(file(&self.folder, "tunnel.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Waits for its end and gives its record.
    fn end(&mut self) -> Value {
        let code = self.process.wait(PATIENCE);
        assert_eq!(code, Some(0), "{}", self.said());
        self.left_nothing();
        self.record()
    }
}

fn file(folder: &TestDir, name: &str) -> PathBuf {
    folder.path().join(name)
}

/// A figure of the one repeat of a tunnel.
fn figure(record: &Value, tunnel: &str, name: &str) -> Option<f64> {
    let tunnels = record["tunnels"].as_array().unwrap();
    let found = tunnels.iter().find(|it| it["name"] == tunnel);
    let found = found.unwrap_or_else(|| panic!("{tunnel} is not in {record:#}"));
    assert_eq!(found["repeats"].as_array().unwrap().len(), 1);
    found["repeats"][0]["figures"][name].as_f64()
}

/// That a tunnel carried what passed, and that programs took part in it.
fn carried(record: &Value, tunnel: &str) {
    let of = |name: &str| figure(record, tunnel, name);
    let told = |name: &str| of(name).unwrap_or_else(|| panic!("{tunnel}: no {name}: {record:#}"));
    // iperf3 ran for a second, so what passed a second is about what passed.
    let passed_bytes = told("throughput_bits_per_s") / 8.0;
    assert!(passed_bytes > 0.0, "{tunnel}");
    assert!(
        told("carried_bytes") > passed_bytes / 2.0,
        "{tunnel} let something pass beside it: {record:#}"
    );
    assert!(told("wire_bytes") > passed_bytes / 2.0, "{tunnel}");
    assert!(told("cpu_ns_per_byte") > 0.0, "{tunnel}");
    assert!(told("tcp_p50_us") > 0.0 && told("calls") > 0.0, "{tunnel}");
}

#[test]
fn stunnel_and_openvpn_carry_what_passes_and_leave_nothing() {
    if !(may_run() && have("stunnel") && have("openvpn")) {
        return;
    }
    let mut run = Priced::start(
        "tunnel-run",
        "--only stunnel/aes-128-gcm,openvpn/aes-128-gcm --seconds 1 --repeats 1 --calls-per-s 20",
    );
    let record = run.end();
    assert_eq!(
        (&record["format"], &record["version"]),
        (&"signet-price-tunnel".into(), &1.into())
    );
    assert_eq!(record["missed"], Value::Array(Vec::new()), "{record:#}");
    for tunnel in ["stunnel/aes-128-gcm", "openvpn/aes-128-gcm"] {
        carried(&record, tunnel);
    }
    for tunnel in ["none", "openvpn/aes-128-gcm"] {
        assert!(
            figure(&record, tunnel, "udp_p50_us").unwrap() > 0.0,
            "{tunnel}"
        );
    }
    assert_eq!(figure(&record, "none", "cpu_ns_per_byte"), None);
    assert_eq!(figure(&record, "stunnel/aes-128-gcm", "udp_p50_us"), None);
    let said = run.said();
    assert!(said.contains("openvpn/aes-128-gcm"), "{said}");
    let json = file(&run.folder, "tunnel.json");
    let (page, again) = (
        file(&run.folder, "tunnel.html"),
        file(&run.folder, "again.html"),
    );
    succeed(&["price", "report", text(&json), "--out", text(&again)], "");
    let [page, again] = [page, again].map(|path| fs::read_to_string(path).unwrap());
    assert_eq!(page, again);
    assert!(page.contains("The price of a tunnel"));
}

#[test]
fn strongswan_carries_what_passes_in_user_space() {
    if !may_run() {
        return;
    }
    let plugin = "/usr/lib/ipsec/plugins/libstrongswan-kernel-libipsec.so";
    if !Path::new(plugin).exists() {
        skip("strongSwan's libipsec is not installed (`make tools` installs it)");
        return;
    }
    let mut run = Priced::start(
        "tunnel-strongswan",
        "--only strongswan/aes-128-cbc+sha1 --seconds 1 --repeats 1 --calls-per-s 20",
    );
    let record = run.end();
    assert_eq!(record["missed"], Value::Array(Vec::new()), "{record:#}");
    carried(&record, "strongswan/aes-128-cbc+sha1");
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    if !(may_run() && have("openvpn")) {
        return;
    }
    let mut run = Priced::start(
        "tunnel-interrupted",
        "--only openvpn/aes-128-gcm --seconds 2 --repeats 50 --calls-per-s 20",
    );
    let until = Instant::now() + PATIENCE;
    while run
        .processes()
        .iter()
        .filter(|it| it.contains("openvpn"))
        .count()
        < 2
    {
        assert!(Instant::now() < until, "no tunnel: {}", run.said());
        std::thread::sleep(Duration::from_millis(20));
    }
    run.process.signal("-INT");
    assert_eq!(run.process.wait(PATIENCE), Some(130), "{}", run.said());
    run.left_nothing();
    // What was measured before is kept.
    assert!(figure(&run.record(), "none", "throughput_bits_per_s").unwrap() > 0.0);
}

#[test]
fn a_run_that_was_killed_is_cleared_by_the_next() {
    if !(may_run() && have("stunnel")) {
        return;
    }
    let mut killed = Priced::start("tunnel-killed", "--only stunnel --seconds 60 --repeats 1");
    let until = Instant::now() + PATIENCE;
    while killed.namespaces().len() < 2 {
        assert!(Instant::now() < until, "nothing runs: {}", killed.said());
        std::thread::sleep(Duration::from_millis(20));
    }
    killed.process.signal("-KILL");
    killed.process.wait(PATIENCE);
    let mut next = Priced::start("tunnel-next", "--only none --seconds 1 --repeats 1");
    next.end();
    killed.left_nothing();
}

#[test]
fn what_cannot_be_run_is_a_sentence_and_a_remedy() {
    let of = |options: &str| {
        let words = ["price", "tunnel"].into_iter().chain(options.split(' '));
        fail(&words.collect::<Vec<_>>(), "")
    };
    let error = of("--only opnvpn");
    assert!(error.contains("did you mean openvpn?"), "{error}");
    let error = of("--only openvpn,pigeon");
    assert!(error.contains("write one of: none"), "{error}");
    let error = fail(&["price", "report", "/nowhere/tunnel.json"], "");
    assert!(
        error.contains("cannot read /nowhere/tunnel.json"),
        "{error}"
    );
    let listed = succeed(&["price", "tunnel", "--list"], "");
    assert!(listed.contains("strongswan/aes-128-cbc+sha1"), "{listed}");
}

fn told(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_missing_tool_is_told_with_its_package() {
    let folder = TestDir::new("tunnel-tools");
    for (only, remedy) in [
        ("stunnel", "apt-get install stunnel4"),
        ("none", "apt-get install iperf3"),
    ] {
        let output = Command::new(signet())
            .args(["price", "tunnel", "--only", only])
            .env("PATH", folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let error = told(&output);
        assert!(
            error.contains("is not installed") && error.contains(remedy),
            "{error}"
        );
    }
}

#[test]
fn without_root_it_is_said() {
    if !(have("ip") && have("iperf3") && have("setpriv")) {
        return;
    }
    // Root without its capabilities may no more than others.
    let output = Command::new("setpriv")
        .args(["--bounding-set=-all", signet(), "price", "tunnel"])
        .args(["--only", "none", "--seconds", "1"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let error = told(&output);
    assert!(
        error.contains("ip netns add") && error.contains("be root"),
        "{error}"
    );
}
