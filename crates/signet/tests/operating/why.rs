//! Requests that a running server refuses: each has a reason in the log, in the figures and in
//! `signet why`, and fail2ban reads who guesses passwords.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::command::{Serving, fail, succeed, text};
use crate::support::openssl::{figure, wait_for_figure};
use crate::support::phone::Phone;
use crate::support::{TestDir, add_user, have, unique};
use sip_net::testing::uninterrupted;

const DOMAIN: &str = "example.com";
/// A trusted peer, a stranger, and a gateway that is dead and in no list.
const PEER: &str = "127.0.0.7";
const STRANGER: &str = "127.0.0.8";
const GATEWAY: &str = "127.0.0.9";

fn serve(folder: &Path) -> Serving {
    let data = folder.join("data");
    add_user(&data, "alice", DOMAIN, "alice-secret");
    let config = folder.join("signet.toml");
    let whole = format!(
        "version = 1\ndata = \"data\"\ndomains = [\"{DOMAIN}\"]\nworkers = 2\n\
         [[listen]]\non = \"udp:127.0.0.1:0\"\n\
         [metrics]\nlisten = \"127.0.0.1:0\"\n\
         [[trusted]]\nnetwork = \"{PEER}\"\n\
         [[gateway_group]]\nname = \"dead\"\ngateways = [{{ uri = \"sip:{GATEWAY}:9;transport=udp\" }}]\n\
         [[route]]\nprefix = \"+49\"\ngroup = \"dead\"\n\
         [dns]\nservers = [\"127.0.0.1:9\"]\ntimeout_ms = 100\nattempts = 1\ndeadline_ms = 500\n"
    );
    fs::write(&config, whole).unwrap();
    Serving::start(folder, &data, &["--config", text(&config)])
}

/// A socket at one of the addresses of this machine.
fn at(address: &str, server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((address, 0)).unwrap();
    let patience = Some(Duration::from_secs(10));
    socket.set_read_timeout(patience).unwrap();
    socket.connect(server).unwrap();
    socket
}

/// A request of a call of its own, and its Call-ID.
fn request(
    socket: &UdpSocket,
    method: &str,
    uri: &str,
    from: &str,
    more: &str,
) -> (String, String) {
    let (call, local) = (unique(), socket.local_addr().unwrap());
    let limit = match more.contains("Max-Forwards") {
        true => "",
        false => "Max-Forwards: 70\r\n",
    };
    let text = format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bK{call};rport\r\n{limit}\
         From: <{from}>;tag={call}\r\nTo: <sip:somebody@{DOMAIN}>\r\nCall-ID: {call}\r\n\
         CSeq: 1 {method}\r\n{more}Content-Length: 0\r\n\r\n"
    );
    (text, call)
}

/// The status of the final answer.
fn answered(socket: &UdpSocket) -> u16 {
    loop {
        let mut answer = [0; 65_535];
        let length = uninterrupted(|| socket.recv(&mut answer)).unwrap();
        let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        if status >= 200 {
            return status;
        }
    }
}

/// What is sent from where, and what comes of it.
type RefusalCase = (
    &'static str,
    (&'static str, &'static str),
    &'static str,
    &'static str,
    (u16, &'static str),
);

const WAYS: [RefusalCase; 15] = [
    (
        PEER,
        ("MESSAGE", "sip:nobody@example.com"),
        "sip:x@far.example",
        "",
        (404, "no_such_user"),
    ),
    (
        PEER,
        ("MESSAGE", "sip:alice@example.com"),
        "sip:x@far.example",
        "",
        (480, "not_registered"),
    ),
    (
        PEER,
        ("MESSAGE", "sip:+4930@example.com"),
        "sip:x@far.example",
        "",
        (503, "gateways_unreachable"),
    ),
    (
        PEER,
        ("MESSAGE", "tel:+1555"),
        "sip:x@far.example",
        "",
        (404, "no_route_for_number"),
    ),
    (
        PEER,
        ("MESSAGE", "sip:x@else.example"),
        "sip:x@far.example",
        "",
        (504, "dns_silent"),
    ),
    (
        PEER,
        ("MESSAGE", "sip:x@203.0.113.9;transport=sctp"),
        "sip:x@far.example",
        "",
        (502, "no_transport"),
    ),
    (
        PEER,
        ("MESSAGE", "urn:service:sos"),
        "sip:x@far.example",
        "",
        (416, "unknown_scheme"),
    ),
    (
        PEER,
        ("MESSAGE", "sip:x@else.example"),
        "sip:x@far.example",
        "Max-Forwards: 0\r\n",
        (483, "too_many_hops"),
    ),
    (
        PEER,
        ("MESSAGE", "sip:x@else.example"),
        "sip:x@far.example",
        "Max-Breadth: 0\r\n",
        (440, "breadth_spent"),
    ),
    (
        PEER,
        ("MESSAGE", "sip:x@else.example"),
        "sip:x@far.example",
        "Proxy-Require: y\r\n",
        (420, "extension_required"),
    ),
    (
        PEER,
        ("CANCEL", "sip:x@else.example"),
        "sip:x@far.example",
        "",
        (481, "nothing_to_cancel"),
    ),
    (
        PEER,
        ("MESSAGE", "sip:x@else.example"),
        "sip:x@far.example",
        "Max-Forwards: many\r\n",
        (400, "malformed"),
    ),
    (
        STRANGER,
        ("MESSAGE", "sip:alice@example.com"),
        "sip:mallory@far.example",
        "",
        (403, "foreign_from"),
    ),
    (
        STRANGER,
        ("MESSAGE", "sip:alice@example.com"),
        "sip:anonymous@anonymous.invalid",
        "",
        (407, "anonymous_caller"),
    ),
    (
        GATEWAY,
        ("MESSAGE", "sip:alice@example.com"),
        "sip:+4930@gw.example",
        "",
        (403, "gateway_not_trusted"),
    ),
];

/// What `signet why` finds, as JSON.
fn why(folder: &Path, arguments: &[&str]) -> Vec<serde_json::Value> {
    let data = folder.join("data");
    let place = ["why", "--data", text(&data), "--json"];
    let answer = succeed(&[&place[..], arguments].concat(), "");
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["version"], 1);
    answer["refusals"].as_array().unwrap().clone()
}

fn reasons(found: &[serde_json::Value]) -> BTreeSet<&str> {
    found
        .iter()
        .map(|of| of["reason"].as_str().unwrap())
        .collect()
}

#[test]
fn each_refusal_is_in_the_log_in_the_figures_and_in_signet_why() {
    let folder = TestDir::new("why");
    let server = serve(folder.path());
    for (source, (method, uri), from, more, (status, reason)) in WAYS {
        let socket = at(source, server.at("udp"));
        let (sent, call) = request(&socket, method, uri, from, more);
        socket.send(sent.as_bytes()).unwrap();
        assert_eq!(answered(&socket), status, "{reason}");
        let found = why(folder.path(), &["--call", &call]);
        let last = found
            .last()
            .unwrap_or_else(|| panic!("{reason} is not found"));
        assert_eq!(
            (&last["reason"], &last["status"]),
            (&reason.into(), &status.into())
        );
        assert_eq!(last["method"], method);
        assert_eq!(last["source"], socket.local_addr().unwrap().to_string());
        // Whether a name exists makes no line of log: the two share theirs. Whoever hides is
        // challenged like everybody, which is routine.
        if !["not_registered", "anonymous_caller"].contains(&reason) {
            server.wait_for_log(&format!(": {reason} {status}, {method} of "));
        }
        let labels = format!("method=\"{method}\",status=\"{status}\",reason=\"{reason}\"");
        wait_for_figure(
            folder.path(),
            &format!("signet_refusals_total{{{labels}}}"),
            1,
        );
    }
    // What became of the gateway itself.
    let ways = why(folder.path(), &["--source", PEER, "--last", "100"]);
    let way = ways.iter().find(|of| of["status"].is_null()).unwrap();
    assert_eq!(way["hop"], format!("{GATEWAY}:9"));
    assert_eq!(way["detail"], format!("gateway {GATEWAY}"));
    let by_user = why(folder.path(), &["--user", "mallory"]);
    assert_eq!(reasons(&by_user), ["foreign_from"].into());
    let by_source = why(folder.path(), &["--source", GATEWAY]);
    assert_eq!(reasons(&by_source), ["gateway_not_trusted"].into());

    let data = folder.path().join("data");
    let shown = succeed(
        &[
            "why",
            "--data",
            text(&data),
            "--user",
            "mallory@far.example",
        ],
        "",
    );
    assert!(shown.contains("403 Forbidden, foreign_from"), "{shown}");
    assert!(shown.contains("`[[trusted]]`"), "what to do: {shown}");
    drop(server);
    let error = fail(&["why", "--data", text(&data)], "");
    assert!(error.contains("no server runs on"), "{error}");
}

#[test]
fn fail2ban_finds_who_guesses_passwords_and_nobody_else() {
    let folder = TestDir::new("fail2ban");
    let server = serve(folder.path());
    let mut guesser = Phone::udp(server.at("udp"), "alice", DOMAIN);
    guesser.set_password("guessed");
    assert!(guesser.try_register().starts_with("SIP/2.0 401 "));
    // Their lines are the same one's, so that nobody learns from it which names exist.
    let mut nobody = Phone::udp(server.at("udp"), "nobody", DOMAIN);
    assert!(nobody.try_register().starts_with("SIP/2.0 401 "));
    server
        .wait_for_log("refused request from 127.0.0.1: wrong_password 401, REGISTER of \"alice\"");
    let stranger = at(STRANGER, server.at("udp"));
    let name = "sip:x@far.example%22%20WARN%20refused%20request%20from%20192.0.2.1";
    let (sent, _) = request(&stranger, "MESSAGE", "sip:alice@example.com", name, "");
    stranger.send(sent.as_bytes()).unwrap();
    assert!(answered(&stranger) >= 400);
    let found = why(folder.path(), &["--user", "nobody"]);
    assert!(reasons(&found).contains("unknown_user"), "{found:?}");
    let log = fs::read_to_string(&server.log).unwrap();
    for secret in ["guessed", "alice-secret", "response="] {
        assert!(!log.contains(secret), "{log}");
    }

    if !have("fail2ban-regex") {
        return;
    }
    let filter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../etc/fail2ban/signet.conf");
    let output = Command::new("fail2ban-regex")
        .args(["--print-all-matched", text(&server.log), text(&filter)])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}");
    assert!(told.contains(" 1 matched"), "{told}");
    assert!(told.contains("from 127.0.0.1: wrong_password"), "{told}");
}

#[test]
fn a_flood_of_refusals_leaves_a_log_that_can_be_read_and_what_befell_users() {
    let folder = TestDir::new("why-flood");
    let server = serve(folder.path());
    let peer = at(PEER, server.at("udp"));
    let (sent, call) = request(&peer, "MESSAGE", "tel:+1555", "sip:x@far.example", "");
    peer.send(sent.as_bytes()).unwrap();
    assert_eq!(answered(&peer), 404);
    let (sources, each) = (100, 100);
    for nth in 0..sources {
        let stranger = at(&format!("127.0.2.{}", nth + 1), server.at("udp"));
        for _ in 0..each {
            let to = "sip:alice@example.com";
            let (sent, _) = request(&stranger, "MESSAGE", to, "sip:mallory@far.example", "");
            stranger.send(sent.as_bytes()).unwrap();
            assert_eq!(answered(&stranger), 403);
        }
    }
    let labels = "method=\"MESSAGE\",status=\"403\",reason=\"foreign_from\"";
    let name = format!("signet_refusals_total{{{labels}}}");
    wait_for_figure(folder.path(), &name, sources * each);
    assert_eq!(figure(folder.path(), "signet_broken_invariants_total"), 0);
    let found = why(folder.path(), &["--last", "100000"]);
    let of = |reason: &str| found.iter().filter(|of| of["reason"] == reason).count() as u64;
    // Of each source sixteen in ten seconds, and one line.
    assert!(
        (sources..=2_048).contains(&of("foreign_from")),
        "{}",
        of("foreign_from")
    );
    assert_eq!(of("no_route_for_number"), 1, "what befell a user is there");
    let is_it = |of: &&serde_json::Value| of["call_id"] == *call;
    assert_eq!(found.iter().filter(is_it).count(), 1);
    server.wait_for_count(": foreign_from 403", usize::try_from(sources).unwrap());
    let log = fs::read_to_string(&server.log).unwrap();
    let lines = log.matches(": foreign_from 403").count() as u64;
    assert!((sources..sources * each / 10).contains(&lines), "{lines}");
}
