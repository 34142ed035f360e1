//! A flood of what is refused: log, memory and the answers of the server stay within bounds.

use std::fs;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::sipp::listens;
use super::support::caller::Caller;
use super::support::command::{Serving, succeed, text};
use super::support::openssl::{PATIENCE, page};
use super::support::{Running, TestDir, free_port, have, unique};

pub(crate) const REASON: &str = "refused_too_often";
pub(crate) const TOLD: &str = "a flood from one source, past `sources.refusals_max`";
pub(crate) const ANSWER: &str = "503 to OPTIONS, then none for `sources.silence_s`";
pub(crate) const BY: &str = "a flood of our own, as SIPp is too slow";

/// How long it lasts.
const FLOOD: Duration = Duration::from_secs(3);
/// Sources; each sends from one socket.
const SOURCES: u64 = 40;
/// What the process may grow by: records and tables of a fixed size, and what passes.
const GROWTH_KIB_MAX: u64 = 96 * 1024;

/// What all counters of that name say together.
fn sum(folder: &std::path::Path, name: &str, label: &str) -> u64 {
    let page = page(folder, "/metrics");
    let lines = page
        .lines()
        .filter(|line| line.starts_with(name) && line.contains(label));
    let value = |line: &str| line.rsplit(' ').next()?.parse::<u64>().ok();
    lines.filter_map(value).sum()
}

fn resident_kib(server: &Serving) -> u64 {
    let status = format!("/proc/{}/status", server.process.child.id());
    let status = fs::read_to_string(status).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Sends as fast as it can from its share of the sources; how many it sent.
fn send(to: std::net::SocketAddr, sources: std::ops::Range<u64>, is_over: &AtomicBool) -> u64 {
    let senders: Vec<(UdpSocket, String)> = sources
        .map(|nth| {
            let socket = UdpSocket::bind((format!("127.0.3.{}", nth + 1), 0)).unwrap();
            socket.connect(to).unwrap();
            socket.set_nonblocking(true).unwrap();
            let local = socket.local_addr().unwrap();
            let request = format!(
                "OPTIONS sip:alice@example.com SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bKBRANCH;rport\r\n\
                 Max-Forwards: 70\r\nFrom: <sip:mallory@far.example>;tag=1\r\nTo: <sip:alice@example.com>\r\n\
                 Call-ID: {}BRANCH\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n",
                unique()
            );
            (socket, request)
        })
        .collect();
    let mut sent = 0;
    while !is_over.load(Ordering::Relaxed) {
        for (socket, request) in &senders {
            let request = request.replace("BRANCH", &sent.to_string());
            sent += u64::from(socket.send(request.as_bytes()).is_ok());
        }
    }
    sent
}

#[test]
fn a_flood_of_refusals_stays_within_the_bounds_of_log_and_memory() {
    if !have("sipp") {
        return;
    }
    let folder = TestDir::new("refusals-flood");
    let config = folder.path().join("signet.toml");
    let whole = "version = 1\ndata = \"data\"\ndomains = [\"example.com\"]\nworkers = 2\n\
         [[listen]]\non = \"udp:127.0.0.1:0\"\n[metrics]\nlisten = \"127.0.0.1:0\"\n\
         [sources]\nrefusals_max = 200\n\
         [[trusted]]\nnetwork = \"127.0.0.1\"\n[proxy]\nrelay_denied = [\"10.0.0.0/8\"]\n";
    fs::write(&config, whole).unwrap();
    let data = folder.path().join("data");
    let server = Serving::start(folder.path(), &data, &["--config", text(&config)]);
    let to = server.at("udp");
    let before_kib = resident_kib(&server);

    let (is_over, sent) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let begun = Instant::now();
    let floods: Vec<_> = [0..SOURCES / 2, SOURCES / 2..SOURCES]
        .into_iter()
        .map(|sources| {
            let (is_over, sent) = (is_over.clone(), sent.clone());
            std::thread::spawn(move || {
                sent.fetch_add(send(to, sources, &is_over), Ordering::Relaxed);
            })
        })
        .collect();
    std::thread::sleep(FLOOD);
    is_over.store(true, Ordering::Relaxed);
    for flood in floods {
        flood.join().unwrap();
    }
    let lasted = begun.elapsed();
    let refused = || sum(folder.path(), "signet_refusals_total", "");
    let until = Instant::now() + PATIENCE;
    let mut seen = 0;
    while seen == 0 || refused() > seen {
        seen = refused();
        assert!(Instant::now() < until, "it never ends");
        std::thread::sleep(Duration::from_millis(600));
    }
    let sent = sent.load(Ordering::Relaxed);
    eprintln!(
        "{:.0} requests a second were sent, {:.0} a second were answered with a refusal",
        sent as f64 / lasted.as_secs_f64(),
        seen as f64 / lasted.as_secs_f64()
    );
    let banned = format!("reason=\"{REASON}\"");
    assert!(sum(folder.path(), "signet_refusals_total", &banned) > 0);
    assert!(seen > 50 * SOURCES, "that was no flood: {seen}");

    // One line for each source and reason in ten seconds.
    server.wait_for_count("refused request", usize::try_from(SOURCES).unwrap());
    let log = fs::read_to_string(&server.log).unwrap();
    let lines = log.matches("refused request").count() as u64;
    let spells = begun.elapsed().as_secs() / 10 + 1;
    assert!(
        lines >= SOURCES && lines <= 2 * SOURCES * spells,
        "{lines} lines"
    );
    let grown_kib = resident_kib(&server).saturating_sub(before_kib);
    assert!(grown_kib < GROWTH_KIB_MAX, "{grown_kib} KiB more");
    let place = ["why", "--data", text(&data), "--json", "--last", "100000"];
    let found: serde_json::Value = serde_json::from_str(&succeed(&place, "")).unwrap();
    assert!(found["kept"].as_u64().unwrap() <= 3 * 2_048);
    let mut refusals = found["refusals"].as_array().unwrap().iter();
    assert!(refusals.any(|of| of["reason"] == REASON));

    // And a call goes through.
    let port = free_port();
    let called = [
        "-sn",
        "uas",
        "-i",
        "127.0.0.1",
        "-p",
        &port.to_string(),
        "-nostdin",
    ];
    let _called = Running::start("sipp", &called, &folder.path().join("uas.log"));
    listens("127.0.0.1", port);
    let mut call = Caller::new(to, &format!("sip:bob@127.0.0.1:{port}"));
    assert_eq!(call.invite(), 200);
    call.ack();
    assert_eq!(call.bye(), 200);
}
