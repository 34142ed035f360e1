//! What idle TLS connections cost a server: the time of a turn of its loop with
//! few and with many of them, and the memory of each, as the process grows.
//!
//! `cargo bench -p sip-net --bench idle`, or with other numbers of connections
//! (the last two bound the slope of the memory):
//! `cargo bench -p sip-net --bench idle -- 100 1000 15000`. For counts of
//! instructions run the binary under `valgrind --tool=callgrind` with small
//! numbers.
//!
//! The clients are a process of their own, since each end of a connection takes
//! a file, and since only the server's memory is to be seen.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sip_msg::{ConnId, Lane, ListenerId, Target, Transport};
use sip_net::{ListenerConfig, Net, NetConfig, NetEvent, bind, sys};
use sip_tls::testing::TestCa;
use sip_tls::{ClientTls, HandshakeConfig, HandshakePool, ServerTls};

/// Tells the process that it is the clients, and where the server is.
const CLIENT: &str = "SIP_NET_BENCH_IDLE_CLIENT";
const CONNECTIONS: [usize; 3] = [100, 1_000, 15_000];
const ROUNDS: usize = 21;
const POLLS_PER_ROUND: u32 = 2_000;
/// Connections that the clients open at a time.
const AT_ONCE: usize = 64;

const REQUEST: &[u8] = b"OPTIONS sip:example.com SIP/2.0\r\n\
Via: SIP/2.0/TLS 192.0.2.1;branch=z9hG4bKnashds8\r\n\
From: <sip:a@example.com>;tag=1\r\nTo: <sip:b@example.com>\r\n\
Call-ID: 1\r\nCSeq: 1 OPTIONS\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n";
const ANSWER: &[u8] = b"SIP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n";

fn main() {
    sys::raise_open_files().unwrap();
    match std::env::var(CLIENT) {
        Ok(server) => clients(server.parse().unwrap()),
        Err(_) => serve(),
    }
}

fn net(listener: ListenerConfig, client_tls: Option<Arc<ClientTls>>) -> Net {
    let config = NetConfig {
        client_tls,
        handshakes: Some(HandshakePool::start(HandshakeConfig::default()).unwrap()),
        connections_max: 100_000,
        connections_per_source_max: 100_000,
        opened_per_source_per_s: 0,
        answer_timeout_ms: 32_000,
        ..NetConfig::default()
    };
    let mut sockets = bind(&[listener], 1).unwrap();
    Net::new(0, config, sockets.remove(0)).unwrap()
}

fn serve() {
    let mut numbers: Vec<usize> = std::env::args()
        .filter_map(|arg| arg.parse().ok())
        .collect();
    if numbers.is_empty() {
        numbers = CONNECTIONS.to_vec();
    }
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let ca = TestCa::new();
    let (chain, key) = ca.issue(&["example.com"]);
    let tls = ServerTls::from_pem(&[(chain.as_bytes(), key.as_bytes())]).unwrap();
    let mut server = net(ListenerConfig::tls(any, Arc::new(tls)), None);
    let addr = server.local_addr(ListenerId(0)).unwrap();

    let mut child = Command::new(std::env::current_exe().unwrap())
        .env(CLIENT, addr.to_string())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut orders = child.stdin.take().unwrap();
    writeln!(orders, "{}", ca.root_pem().len()).unwrap();
    orders.write_all(ca.root_pem().as_bytes()).unwrap();

    println!("connections     ns a poll    best round    KiB in all");
    let mut grown: Vec<(usize, f64)> = Vec::new();
    for number in numbers {
        writeln!(orders, "{number}").unwrap();
        orders.flush().unwrap();
        let mut answered = grown.last().map_or(0, |(before, _)| *before);
        while answered < number {
            let mut flows = Vec::new();
            server
                .poll(Some(Duration::from_millis(50)), |event| {
                    if let NetEvent::Message { flow, .. } = event {
                        flows.push(flow);
                    }
                })
                .unwrap();
            for flow in flows {
                server.send(&Target::back(&flow), ANSWER, 1);
                answered += 1;
            }
            server.flush();
        }
        // What is left of the handshakes.
        for _ in 0..50 {
            let rest = Some(Duration::from_millis(10));
            server.poll(rest, |_| {}).unwrap();
        }
        let mut rounds: Vec<f64> = (0..ROUNDS).map(|_| round(&mut server)).collect();
        rounds.sort_by(f64::total_cmp);
        let memory = resident_kib();
        let (median, best) = (rounds[ROUNDS / 2], rounds[0]);
        println!("{number:>11}  {median:>12.0}  {best:>12.0}  {memory:>12.0}");
        assert_eq!(server.connection_count(), number);
        grown.push((number, memory));
    }
    if let [.., (few, before), (many, after)] = grown[..] {
        let each = (after - before) / (many - few) as f64;
        println!("memory of a connection, from {few} to {many}: {each:.1} KiB");
    }
    drop(orders);
    child.wait().unwrap();
}

/// Nanoseconds for a turn in which nothing happens, ticks of the wheel included.
fn round(server: &mut Net) -> f64 {
    let begun = Instant::now();
    for _ in 0..POLLS_PER_ROUND {
        server.poll(Some(Duration::ZERO), |_| {}).unwrap();
    }
    begun.elapsed().as_nanos() as f64 / f64::from(POLLS_PER_ROUND)
}

/// The memory of this process that is its own.
fn resident_kib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(f64::NAN)
}

/// Opens as many connections as it is told, and keeps them until there are no
/// more orders.
fn clients(server: SocketAddr) {
    let mut orders = BufReader::new(std::io::stdin());
    let mut line = String::new();
    orders.read_line(&mut line).unwrap();
    let mut root = vec![0; line.trim().parse().unwrap()];
    orders.read_exact(&mut root).unwrap();
    let tls = ClientTls::from_pem(&[&root]).unwrap();
    let any = "127.0.0.1:0".parse().unwrap();
    let listener = ListenerConfig::outbound(Transport::Tls, any);
    let mut net = net(listener, Some(Arc::new(tls)));
    let (mut opened, mut answered) = (0, 0);
    loop {
        line.clear();
        if orders.read_line(&mut line).unwrap() == 0 {
            return;
        }
        let number: usize = line.trim().parse().unwrap();
        while answered < number {
            while opened < number && opened - answered < AT_ONCE {
                let mut target = Target {
                    transport: Transport::Tls,
                    listener: ListenerId(0),
                    remote: server,
                    conn: ConnId::NONE,
                    may_open: true,
                    tls_name: Some("example.com".into()),
                    lane: Lane::Shared,
                    local: None,
                };
                target.conn = net.open(&target).unwrap();
                net.send(&target, REQUEST, 0);
                opened += 1;
            }
            net.poll(Some(Duration::from_millis(50)), |event| {
                answered += usize::from(matches!(event, NetEvent::Message { .. }));
            })
            .unwrap();
        }
    }
}
