//! Gateways that say nothing, die and return, and are drained, behind a running server of two
//! workers; SIPp and Kamailio are among them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::caller::Caller;
use crate::support::command::{Serving, fail, succeed, text};
use crate::support::gateway::{Gateway, Habit};
use crate::support::openssl::{PATIENCE, wait_for_figure};
use crate::support::{Running, TestDir, free_port, have, receive_all, wait_for_port};
use serde_json::Value;
use sip_msg::Transport;
use sip_tls::testing::TestCa;

const CALLED: &str = "sip:bob@elsewhere.example";

/// A server whose calls to elsewhere.example go to these, in their order. What failed is
/// passed over for longer than a test takes.
fn serve(folder: &Path, gateways: &[String], keys: &str) -> Serving {
    let members: Vec<String> = (0..)
        .zip(gateways)
        .map(|(priority, uri): (u32, _)| format!("{{ uri = \"{uri}\", priority = {priority} }}"))
        .collect();
    let config = format!(
        "version = 1\ndata = \"data\"\ndomains = [\"example.com\"]\nworkers = 2\n\
         [[listen]]\non = \"udp:127.0.0.1:0\"\n[[listen]]\non = \"tcp:127.0.0.1:0\"\n\
         [metrics]\nlisten = \"127.0.0.1:0\"\n[authentication]\nrequired = false\n\
         [proxy]\ndead_hop_ms = 3600000\n\
         [[gateway_group]]\nname = \"trunk\"\n{keys}gateways = [{}]\n\
         [[route]]\ndomain = \"elsewhere.example\"\ngroup = \"trunk\"\n",
        members.join(", ")
    );
    let file = folder.join("signet.toml");
    fs::write(&file, config).unwrap();
    Serving::start(folder, &folder.join("data"), &["--config", text(&file)])
}

/// What `signet gateways` prints.
fn told(folder: &Path, words: &[&str]) -> String {
    let data = folder.join("data");
    succeed(
        &[&["gateways"], words, &["--data", text(&data)]].concat(),
        "",
    )
}

/// The gateways, in the order of the configuration.
fn shown(folder: &Path) -> Vec<Value> {
    let answer: Value = serde_json::from_str(&told(folder, &["--json"])).unwrap();
    assert_eq!(answer["version"], 2, "{answer}");
    answer["gateways"].as_array().unwrap().clone()
}

/// Waits until the first address of the first gateway is so.
#[track_caller]
fn wait_until(folder: &Path, is_so: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        let address = shown(folder)[0]["addresses"][0].clone();
        if is_so(&address) {
            return address;
        }
        assert!(Instant::now() < until, "waited in vain: {address}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn sipp(folder: &Path, port: u16) -> Running {
    let log = folder.join("uas.log");
    let number = port.to_string();
    let uas = Running::start(
        "sipp",
        &["-sn", "uas", "-i", "127.0.0.1", "-p", &number, "-nostdin"],
        &log,
    );
    wait_for_port(port, &log);
    uas
}

/// A Kamailio that answers OPTIONS 200 and calls 486.
struct Kamailio(Running);

impl Kamailio {
    fn start(folder: &Path, port: u16) -> Self {
        let at = |file: &str| folder.join(file).display().to_string();
        let config = format!(
            "#!KAMAILIO\ndebug=1\nlog_stderror=yes\nchildren=1\nauto_aliases=no\ndisable_tcp=yes\n\
             listen=udp:127.0.0.1:{port}\nloadmodule \"sl.so\"\n\
             request_route {{\n  if (method == \"OPTIONS\") {{\n    sl_send_reply(\"200\", \"OK\");\n    exit;\n  }}\n\
             \x20 if (method == \"INVITE\") {{\n    sl_send_reply(\"486\", \"Busy Here\");\n    exit;\n  }}\n}}\n"
        );
        fs::write(at("kamailio.cfg"), config).unwrap();
        fs::create_dir_all(at("run")).unwrap();
        let log = folder.join("kamailio.log");
        let (file, run) = (at("kamailio.cfg"), at("run"));
        let arguments = ["-f", &file, "-DD", "-E", "-m", "64", "-M", "8", "-Y", &run];
        let process = Running::start("kamailio", &arguments, &log);
        wait_for_port(port, &log);
        Self(process)
    }
}

impl Drop for Kamailio {
    fn drop(&mut self) {
        // The first process takes its children with it when it is asked to end.
        self.0.signal("-TERM");
        let _ = self.0.wait(Duration::from_secs(10));
    }
}

/// The calls of which something came to a socket.
fn calls_at(socket: &UdpSocket) -> BTreeSet<String> {
    let came = receive_all(socket, Duration::from_millis(200));
    came.iter()
        .map(|bytes| {
            let text = String::from_utf8_lossy(bytes);
            let line = text.lines().find(|line| line.starts_with("Call-ID:"));
            line.expect("a message").to_owned()
        })
        .collect()
}

#[test]
fn a_silent_gateway_costs_one_call_its_time_and_no_other() {
    if !have("sipp") {
        return;
    }
    let folder = TestDir::new("gateways-silent");
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = free_port();
    let _uas = sipp(folder.path(), port);
    let gateways = [
        format!("sip:{};transport=udp", silent.local_addr().unwrap()),
        format!("sip:127.0.0.1:{port};transport=udp"),
    ];
    let server = serve(folder.path(), &gateways, "timeout_ms = 500\n");
    let complete = |_| {
        let mut call = Caller::new(server.at("udp"), CALLED);
        assert_eq!(call.invite(), 200);
        call.ack();
        assert_eq!(call.bye(), 200);
    };
    (0..1).for_each(complete);
    assert_eq!(calls_at(&silent).len(), 1, "the first call was there");
    // Each worker has some of these.
    (0..16).for_each(complete);
    assert!(
        calls_at(&silent).len() <= 1,
        "the first is repeated, and no other comes"
    );
    let address = wait_until(folder.path(), |of| of["is_passed_over"] == true);
    assert_eq!(address["why"], "silent");
    assert_eq!(address["times_passed_over"], 1);
    assert!(told(folder.path(), &[]).contains("passed over; "));
    server.wait_for_log("a gateway is passed over: it gave no answer");
    let log = fs::read_to_string(&server.log).unwrap();
    assert_eq!(log.matches("a gateway is passed over").count(), 1, "{log}");
    let found = succeed(&["why", "--data", text(&folder.path().join("data"))], "");
    assert!(found.contains("gateway_silent"), "{found}");
}

#[test]
fn a_gateway_that_dies_is_found_out_by_probes_and_so_is_its_return() {
    if !have("kamailio") {
        return;
    }
    let folder = TestDir::new("gateways-probed");
    let port = free_port();
    let kamailio = Kamailio::start(folder.path(), port);
    let spare = Gateway::start(Transport::Tcp, &TestCa::new(), Habit::Answers);
    let gateways = [format!("sip:127.0.0.1:{port};transport=udp"), spare.uri()];
    let keys = "timeout_ms = 500\nprobe_interval_s = 1\nprobe_fail = 2\nprobe_ok = 2\n";
    let server = serve(folder.path(), &gateways, keys);
    let calls = || Caller::new(server.at("udp"), CALLED).invite();
    wait_until(folder.path(), |of| of["probes_good"].as_u64() > Some(1));
    assert_eq!(calls(), 486, "by Kamailio");
    let labels =
        format!("{{gateway=\"127.0.0.1\",address=\"127.0.0.1:{port}\",transport=\"udp\"}} ");
    wait_for_figure(folder.path(), &format!("signet_gateway_in_use{labels}"), 1);

    drop(kamailio);
    let address = wait_until(folder.path(), |of| of["is_passed_over"] == true);
    assert_eq!(address["why"], "probes");
    assert!(address["probes_failed"].as_u64() >= Some(2), "{address}");
    assert_eq!(calls(), 200, "by the spare one, at once");
    wait_for_figure(folder.path(), &format!("signet_gateway_in_use{labels}"), 0);
    server.wait_for_log("a gateway is passed over: its probes fail");

    let _kamailio = Kamailio::start(folder.path(), port);
    wait_until(folder.path(), |of| of["why"].is_null());
    server.wait_for_log("a gateway is used again");
    assert_eq!(calls(), 486, "by Kamailio again");
}

#[test]
fn a_gateway_is_drained_and_its_calls_go_on() {
    let folder = TestDir::new("gateways-drained");
    let ca = TestCa::new();
    let both = [(); 2].map(|()| Gateway::start(Transport::Tcp, &ca, Habit::Answers));
    let server = serve(folder.path(), &both.each_ref().map(Gateway::uri), "");
    let [first, second] = both.each_ref().map(|of| of.addr.to_string());
    let mut before = Caller::new(server.at("udp"), CALLED);
    assert_eq!(before.invite(), 200);
    before.ack();
    let calls = || Caller::new(server.at("udp"), CALLED).invite();
    let seen = || both.each_ref().map(|of| of.record().calls.len());
    assert_eq!(seen(), [1, 0]);

    let drained = told(folder.path(), &["drain", &first]);
    assert_eq!(
        drained,
        format!("trunk {first} is drained: it gets no new calls, and those in progress go on\n")
    );
    assert!(told(folder.path(), &["drain", &first]).contains("was drained before"));
    assert_eq!(calls(), 200);
    assert_eq!(seen(), [1, 1]);
    assert_eq!(before.bye(), 200);
    both[0].wait_for(|record| record.calls.values().any(|came| came.len() == 3));
    assert!(told(folder.path(), &[]).contains(": drained; "));
    assert_eq!(shown(folder.path())[0]["is_drained"], true);

    // It stays so through a reload.
    server.process.signal("-HUP");
    server.wait_for_log("reloaded");
    assert_eq!(calls(), 200);
    assert_eq!(seen(), [1, 2]);

    // All of a group by its name: then calls are refused, and why is told.
    told(folder.path(), &["drain", "trunk"]);
    assert_eq!(calls(), 503);
    let data = folder.path().join("data");
    let found = succeed(&["why", "--data", text(&data)], "");
    assert!(found.contains("gateways_drained"), "{found}");
    let undrained = told(folder.path(), &["undrain", "trunk"]);
    assert_eq!(
        undrained,
        format!("trunk {first} gets new calls again\ntrunk {second} gets new calls again\n")
    );
    assert_eq!(calls(), 200);
    assert_eq!(seen(), [2, 2]);
    let error = fail(&["gateways", "drain", "nobody", "--data", text(&data)], "");
    assert!(
        error.contains("no gateway and no group is called nobody"),
        "{error}"
    );
}
