//! Memory by the real program: requests are refused before it is spent, and
//! what a flood has held is given back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use support::command::{Serving, text};
use support::{TestDir, receive_all};

/// What the server says of itself under this name.
fn figure(metrics: &str, name: &str) -> u64 {
    let (answer, _) = support::exchange_tcp(
        metrics.parse().unwrap(),
        b"GET /metrics HTTP/1.0\r\n\r\n",
        Duration::from_secs(5),
    );
    let page = String::from_utf8_lossy(&answer).into_owned();
    page.lines()
        .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
        .unwrap_or_else(|| panic!("no {name} in\n{page}"))
}

/// Waits until that figure is as it should be.
fn until(metrics: &str, name: &str, mut is_right: impl FnMut(u64) -> bool) {
    let patience = Instant::now();
    loop {
        let value = figure(metrics, name);
        if is_right(value) {
            return;
        }
        assert!(
            patience.elapsed() < Duration::from_secs(120),
            "{name} stays {value}"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_flood_of_large_messages_is_refused_by_its_bytes_and_leaves_nothing() {
    let folder = TestDir::new("memory-flood");
    let data = folder.path().join("data");
    // It never answers: what was sent to it waits, until its timers end.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let config = folder.path().join("signet.toml");
    std::fs::write(
        &config,
        format!(
            "version = 1\ndata = {data:?}\ndomains = [\"example.com\"]\nworkers = 2\n\
             forward = \"sip:{};transport=udp\"\n\
             [authentication]\nrequired = false\n[bounds]\nmemory_max = \"16MiB\"\nqueue_ms_max = 0\nserver_transactions_max = 100000\n\
             [timers]\nt1_ms = 100\n\
             [metrics]\nlisten = \"127.0.0.1:0\"\n\
             [[listen]]\non = \"udp:127.0.0.1:0\"\n",
            silent.local_addr().unwrap()
        ),
    )
    .unwrap();
    let server = Serving::start(folder.path(), &data, &["--config", text(&config)]);
    let told = std::fs::read_to_string(data.join("listeners.json")).unwrap();
    let metrics = told
        .lines()
        .find_map(|line| line.trim().strip_prefix("\"metrics\": \""))
        .and_then(|rest| rest.split('"').next())
        .unwrap()
        .to_owned();

    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to: SocketAddr = server.at("udp");
    let own = socket.local_addr().unwrap();
    let body = "x".repeat(50_000);
    let mut sent = 0;
    // Each worker has its share of the Call-IDs. Nothing but memory refuses
    // (`queue_ms_max`), however slow the machine.
    until(&metrics, "signet_memory_refused_total ", |refused| {
        // So many at once that the share of calls is not lowered first, and that a
        // worker reads more in one turn than there is room for.
        for _ in 0..400 {
            sent += 1;
            let message = format!(
                "MESSAGE sip:bob@other.invalid SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK{sent}\r\n\
                 Max-Forwards: 70\r\nFrom: <sip:a@other.invalid>;tag=a\r\nTo: <sip:bob@other.invalid>\r\n\
                 Call-ID: {sent}\r\nCSeq: 1 MESSAGE\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            socket.send_to(message.as_bytes(), to).unwrap();
        }
        refused > 0
    });
    let max = figure(&metrics, "signet_memory_max_bytes ");
    let held = figure(&metrics, "signet_memory_held_bytes ");
    assert!(held < max + (1 << 20), "{held} of {max}");
    let refused = receive_all(&socket, Duration::from_millis(500));
    assert!(
        refused
            .iter()
            .any(|answer| answer.starts_with(b"SIP/2.0 503 ")
                && answer.windows(12).any(|at| at == b"Retry-After:")),
        "nobody was told to come back"
    );
    // What is under way ends, and its memory goes with it. What stays is the tables of
    // two workers, half a megabyte each, and what they touched of their pools.
    until(&metrics, "signet_memory_held_bytes ", |held| held < 4 << 20);
    drop(silent);
}
