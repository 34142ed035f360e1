//! Each way to be refused, made on a running server by software that is not ours where it can
//! be: its answer, its line of log, its figure, and what `signet why` finds of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "refusals/flood.rs"]
mod flood;
#[path = "refusals/own.rs"]
mod own;
#[path = "refusals/rows.rs"]
mod rows;
#[path = "refusals/sipp.rs"]
mod sipp;
mod support;

use std::collections::BTreeSet;
use std::fs;
use std::net::UdpSocket;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use sip_engine::refusal::{Level, Reason};
use sip_net::testing::DnsServer;
use support::command::{Serving, succeed, text};
use support::openssl::{figure, wait_for_figure};
use support::{Running, TestDir, add_user, free_port, have, hook, small_disk, with_small_disk};

use rows::{At, GATEWAY, GUEST, HASTY, How, MIRROR, PEER, PHONE, ROWS, Row, SILENT, SPEAKER};
use sipp::{Run, Scenario, done};

const DOMAIN: &str = "example.com";

/// The two servers, and what is around them.
struct Bed<'a> {
    folder: &'a Path,
    proxy: Serving,
    open: Serving,
    dns: DnsServer,
    /// Asked about subscriptions.
    _hook: Running,
    /// Hosts elsewhere that do not answer.
    silent: UdpSocket,
    /// What was begun before its turn, because it takes its time.
    begun: Vec<(&'static str, Running)>,
}

impl<'a> Bed<'a> {
    fn start(folder: &'a Path, disk: &Path) -> Self {
        let dns = DnsServer::start(Vec::new()).unwrap();
        let hook_port = free_port();
        let hook = hook::start(folder, hook_port);
        let (proxy_at, open_at) = (folder.join("proxy"), folder.join("open"));
        fs::create_dir_all(&proxy_at).unwrap();
        fs::create_dir_all(&open_at).unwrap();
        let data = proxy_at.join("data");
        for user in ["alice", "bob", "eve", "late", "twice", "dead", "flow"] {
            add_user(&data, user, DOMAIN, &format!("{user}-secret"));
        }
        let config = proxy_at.join("signet.toml");
        let whole = format!(
            "version = 1\ndata = \"data\"\ndomains = [\"{DOMAIN}\"]\nworkers = 2\n\
             [[listen]]\non = \"udp:127.0.0.1:0\"\n[[listen]]\non = \"tcp:127.0.0.1:0\"\n\
             [metrics]\nlisten = \"127.0.0.1:0\"\n[log]\nlevel = \"debug\"\n\
             [authentication]\nalgorithms = [\"MD5\"]\nfailure_delay_max_ms = 0\nnonce_lifetime_s = 5\n\
             [registrar]\ncontacts_max = 2\ncontacts_full = \"refuse\"\n\
             [proxy]\nrelay_denied = [\"10.0.0.0/8\"]\n[timers]\nt1_ms = 50\n\
             [rates]\npeer_others_per_s = 1\n\
             [dns]\nservers = [\"{}\"]\ntimeout_ms = 200\nattempts = 1\ndeadline_ms = 1000\n\
             [[trusted]]\nnetwork = \"{PEER}\"\n[[trusted]]\nnetwork = \"{HASTY}\"\n\
             [[trusted]]\nnetwork = \"{MIRROR}\"\n\
             [[trusted]]\nnetwork = \"{GUEST}\"\nmay_relay = false\n\
             [[trusted]]\nnetwork = \"{SPEAKER}\"\nspeaks_for = [\"far.example\"]\n\
             [[gateway_group]]\nname = \"dead\"\ngateways = [{{ uri = \"sip:{GATEWAY}:9;transport=udp\" }}]\n\
             [[route]]\nprefix = \"+49\"\ngroup = \"dead\"\n\
             [[route]]\nprefix = \"0\"\ngroup = \"dead\"\n\
             [numbers]\ncountry_code = \"49\"\nblocked = [\"0900\"]\npremium = [\"0137\"]\n\
             [hook]\nurl = \"http://127.0.0.1:{hook_port}/\"\nasks = [\"subscription\"]\ntimeout_ms = 10000\n",
            dns.addr()
        );
        fs::write(&config, whole).unwrap();
        // Each is written while it is no more than four steps to its end.
        for (name, to) in [
            ("b", "c"),
            ("lost", "b"),
            ("c", "d"),
            ("d", "e"),
            ("e", "f"),
            ("f", "alice"),
        ] {
            succeed(&["alias", "add", name, to, "--config", text(&config)], "");
        }
        let proxy = Serving::start(&proxy_at, &data, &["--config", text(&config)]);

        let data = disk.join("data");
        let config = open_at.join("signet.toml");
        let whole = format!(
            "version = 1\ndata = {:?}\ndomains = [\"{DOMAIN}\"]\nworkers = 1\nmode = \"redirect\"\n\
             [[listen]]\non = \"udp:127.0.0.1:0\"\n[metrics]\nlisten = \"127.0.0.1:0\"\n\
             [log]\nlevel = \"debug\"\n[authentication]\nrequired = false\n",
            text(&data)
        );
        fs::write(&config, whole).unwrap();
        let open = Serving::start(&open_at, &data, &["--config", text(&config)]);
        std::os::unix::fs::symlink(&data, open_at.join("data")).unwrap();
        Self {
            folder,
            proxy,
            open,
            dns,
            _hook: hook,
            silent: UdpSocket::bind((SILENT, 0)).unwrap(),
            begun: Vec::new(),
        }
    }

    fn server(&self, at: At) -> &Serving {
        match at {
            At::Proxy => &self.proxy,
            At::Open => &self.open,
        }
    }

    /// Where that server's data is, and its figures are found.
    fn place(&self, at: At) -> std::path::PathBuf {
        self.folder.join(match at {
            At::Proxy => "proxy",
            At::Open => "open",
        })
    }

    /// How SIPp is run for a row.
    fn run<'r>(&self, row: &'r Row, times: u32) -> Run<'r> {
        Run {
            from: row.source,
            port: None,
            transport: "u1",
            to: self.server(row.at).at("udp"),
            times,
            auth_uri: row.ask.uri.split_once(':').unwrap().1,
        }
    }

    /// Runs a scenario to its end.
    fn play(&self, name: &str, scenario: &Scenario, run: &Run<'_>) {
        done(
            self.folder,
            name,
            &mut scenario.start(self.folder, name, run),
        );
    }

    /// A registration that is let in.
    fn register(&self, user: &'static str, transport: &str, contact: &str) {
        let (from, more) = (
            format!("sip:{user}@{DOMAIN}"),
            format!("Contact: {contact}\n"),
        );
        let ask = sipp::Ask {
            method: "REGISTER",
            uri: "sip:example.com",
            from: &from,
            to: "",
            more: &more,
        };
        let (name, password) = (format!("register-{user}"), format!("{user}-secret"));
        let mut scenario = Scenario::default();
        scenario.send(&ask, None);
        scenario.expect_challenge(401);
        scenario.send(&ask, Some((user, &password)));
        scenario.expect("200");
        let listener = if transport == "u1" { "udp" } else { "tcp" };
        let run = Run {
            from: PHONE,
            port: None,
            transport,
            to: self.proxy.at(listener),
            times: 1,
            auth_uri: DOMAIN,
        };
        self.play(&name, &scenario, &run);
    }

    /// Goes the way of a row.
    fn make(&mut self, row: &Row) {
        let mut scenario = Scenario::default();
        let status = row.status.to_string();
        let times = match row.how {
            How::Own => return own::make(self, row),
            How::Once => {
                scenario.send(&row.ask, None);
                scenario.expect(&status);
                1
            }
            How::Often(times) => {
                scenario.send(&row.ask, None);
                scenario.expect(&format!("480|{status}"));
                times
            }
            How::Proved(user, password) | How::Guesses(_, user, password) => {
                let asks = match row.ask.method {
                    "REGISTER" => 401,
                    _ => 407,
                };
                scenario.send(&row.ask, None);
                scenario.expect_challenge(asks);
                scenario.send(&row.ask, Some((user, password)));
                scenario.expect(&status);
                match row.how {
                    How::Guesses(times, ..) => times,
                    _ => 1,
                }
            }
        };
        self.play(row.reason, &scenario, &self.run(row, times));
    }

    /// What `signet why` finds, as JSON.
    fn why(&self, at: At, arguments: &[&str]) -> Vec<serde_json::Value> {
        let data = self.place(at).join("data");
        let place = ["why", "--data", text(&data), "--json", "--last", "10000"];
        let answer = succeed(&[&place[..], arguments].concat(), "");
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        answer["refusals"].as_array().unwrap().clone()
    }

    /// It is in the log, and found by its call, its source and its user.
    fn is_told(&self, row: &Row) {
        let (reason, status, method) = (row.reason, row.status, row.ask.method);
        let call = format!("{reason}-");
        let is_it = |of: &serde_json::Value| {
            of["reason"] == reason && of["status"] == status && of["method"] == method
        };
        let found = self.why(row.at, &["--call", &call]);
        let record = found.iter().find(|of| is_it(of));
        let record = record.unwrap_or_else(|| panic!("{reason} is not among {found:#?}"));
        let source = record["source"].as_str().unwrap();
        assert!(source.starts_with(&format!("{}:", row.source)), "{record}");
        let means = Reason::ALL.iter().find(|of| of.name() == reason).unwrap();
        assert_eq!(record["means"], means.text());
        let is_this = |of: &serde_json::Value| of["call_id"] == record["call_id"] && is_it(of);
        for arguments in [["--source", row.source], ["--user", user_of(row)]] {
            let found = self.why(row.at, &arguments);
            assert!(found.iter().any(is_this), "{reason} by {arguments:?}");
        }
        let call = record["call_id"].as_str().unwrap();
        let (reason, call) = (
            format!(": {reason} {status}, {method} of "),
            format!("\"{call}\""),
        );
        let is_line = |line: &&str| line.contains(&reason) && line.contains(&call);
        // The thread that writes the log may be behind.
        let until = Instant::now() + sipp::PATIENCE;
        let line = loop {
            let log = fs::read_to_string(&self.server(row.at).log).unwrap();
            if let Some(line) = log.lines().find(is_line) {
                break line.to_owned();
            }
            assert!(
                Instant::now() < until,
                "no line with {reason} and {call} in:\n{log}"
            );
            std::thread::sleep(Duration::from_millis(20));
        };
        let level = match means.level() {
            Level::Debug => "DEBUG",
            Level::Info => "INFO",
            Level::Warn => "WARN",
        };
        assert!(line.contains(level) && line.contains(row.source), "{line}");
    }
}

/// By whom the row's request is found: who is in From or To, with the domain.
fn user_of(row: &Row) -> &'static str {
    row.ask.from.split_once(':').unwrap().1
}

fn labels(row: &Row) -> String {
    let (method, status, reason) = (row.ask.method, row.status, row.reason);
    format!("signet_refusals_total{{method=\"{method}\",status=\"{status}\",reason=\"{reason}\"}}")
}

#[test]
fn every_way_to_be_refused_is_answered_logged_counted_and_found() {
    if !have("sipp") || !have("python3") {
        return;
    }
    with_small_disk(
        "every_way_to_be_refused_is_answered_logged_counted_and_found",
        || {
            let folder = TestDir::new("refusals");
            let mut bed = Bed::start(folder.path(), &small_disk());
            own::begin(&mut bed);
            let (last, others) = ROWS.split_last().unwrap();
            // One that fails is told together with the others.
            let mut failed = Vec::new();
            for row in others {
                let way = AssertUnwindSafe(|| {
                    bed.make(row);
                    bed.is_told(row);
                });
                if catch_unwind(way).is_err() {
                    failed.push(row.reason);
                }
            }
            assert!(failed.is_empty(), "{failed:?}");
            for row in others {
                let found = || figure(&bed.place(row.at), &labels(row));
                match row.how {
                    // How many of them were refused for that is a matter of time.
                    How::Often(_) | How::Guesses(..) => assert!(found() > 0, "{row:?}"),
                    _ => wait_for_figure(&bed.place(row.at), &labels(row), 1),
                }
            }
            bed.make(last);
            bed.is_told(last);
            wait_for_figure(&bed.place(last.at), &labels(last), 1);
            for at in [At::Proxy, At::Open] {
                let broken = figure(&bed.place(at), "signet_broken_invariants_total");
                assert_eq!(broken, 0);
            }
        },
    );
}

/// The document, as it must be.
fn document() -> String {
    let mut text = "# Ways to be refused\n\n\
        Each of these is made on a running server by `crates/signet/tests/refusals.rs`, which also\n\
        holds this table to what it does: the answer, the line of log, one more in\n\
        `signet_refusals_total{method,status,reason}`, and the record that `signet why` finds by call,\n\
        user and source. SIPp is Debian's. What each reason means is what `signet why` prints; the\n\
        level is that of its line of log.\n\n\
        | reason | what is done | answer | level | by |\n|---|---|---|---|---|\n"
        .to_owned();
    let level = |reason: &str| {
        let found = Reason::ALL.iter().find(|of| of.name() == reason).unwrap();
        match found.level() {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
        }
    };
    for row in ROWS {
        let (reason, method, status) = (row.reason, row.ask.method, row.status);
        let (told, by) = (row.told, row.by);
        let level = level(reason);
        text += &format!("| `{reason}` | {told} | {status} to {method} | {level} | {by} |\n");
    }
    let level = level(flood::REASON);
    text += &format!(
        "| `{}` | {} | {} | {level} | {} |\n",
        flood::REASON,
        flood::TOLD,
        flood::ANSWER,
        flood::BY
    );
    let made: BTreeSet<&str> = ROWS
        .iter()
        .map(|row| row.reason)
        .chain([flood::REASON])
        .collect();
    let others = Reason::ALL.iter().map(|reason| reason.name());
    let others: Vec<String> = others
        .filter(|name| !made.contains(name))
        .map(|name| format!("`{name}`"))
        .collect();
    text += &format!(
        "\nThe other reasons need a moment that nobody outside brings about at will; the tests of the\n\
         engine have them (`crates/sip-engine/tests/reasons.rs`): {}.\n",
        others.join(", ")
    );
    text
}

#[test]
fn the_document_has_every_way_as_it_is_made() {
    let reasons: BTreeSet<&str> = ROWS.iter().map(|row| row.reason).collect();
    assert_eq!(reasons.len(), ROWS.len(), "each has a figure of its own");
    assert!(ROWS.len() >= 40);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/REFUSALS.md");
    let (found, expected) = (fs::read_to_string(&path).unwrap_or_default(), document());
    assert!(found == expected, "docs/REFUSALS.md must be:\n{expected}");
}
