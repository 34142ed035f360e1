//! Peers for tests: tiny, hostile or exact, on sockets of the standard library.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use measure::Schedule;
use signet_load::{Called, Control, Flow, Lifetime, Mix, Ran, Server, Settings, Users, run};
use sip_msg::Transport;

/// A thread that ends with this value.
pub struct Peer {
    pub addr: SocketAddr,
    pub seen: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

const POLL: Duration = Duration::from_millis(2);

/// What a UDP peer sends back to a message, and after how long.
pub type Answers = Vec<(Duration, Vec<u8>)>;

/// A UDP peer that answers as `answer` says; a delay counts from the arrival.
/// While `stalls` says so, nothing is read.
pub fn udp(
    mut answer: impl FnMut(&str, u64) -> Answers + Send + 'static,
    stalls: impl Fn(Duration) -> bool + Send + 'static,
) -> Peer {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(POLL)).unwrap();
    let addr = socket.local_addr().unwrap();
    peer(addr, move |ends, seen| {
        let mut first = None;
        let mut waiting: Vec<(Instant, SocketAddr, Vec<u8>)> = Vec::new();
        let mut buffer = [0; 65_535];
        while !ends.load(Ordering::Relaxed) {
            let now = Instant::now();
            let (due, later) = waiting.into_iter().partition(|(at, ..)| *at <= now);
            waiting = later;
            let due: Vec<_> = due;
            for (_, to, bytes) in due {
                let _ = socket.send_to(&bytes, to);
            }
            if first.is_some_and(|first: Instant| stalls(first.elapsed())) {
                std::thread::sleep(POLL);
                continue;
            }
            let Ok((length, from)) = socket.recv_from(&mut buffer) else {
                continue;
            };
            let arrived = Instant::now();
            first.get_or_insert(arrived);
            let number = seen.fetch_add(1, Ordering::Relaxed);
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            for (after, bytes) in answer(&text, number) {
                waiting.push((arrived + after, from, bytes));
            }
        }
    })
}

/// A TCP peer that does this with each connection, on a thread of its own.
pub fn tcp(serve: impl Fn(TcpStream, &AtomicBool) + Send + Sync + 'static) -> Peer {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let addr = listener.local_addr().unwrap();
    peer(addr, move |ends, seen| {
        std::thread::scope(|scope| {
            while !ends.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        seen.fetch_add(1, Ordering::Relaxed);
                        stream.set_nonblocking(false).unwrap();
                        stream.set_read_timeout(Some(POLL)).unwrap();
                        let serve = &serve;
                        scope.spawn(move || serve(stream, ends));
                    }
                    Err(_) => std::thread::sleep(POLL),
                }
            }
        });
    })
}

fn peer(addr: SocketAddr, run: impl FnOnce(&AtomicBool, &AtomicU64) + Send + 'static) -> Peer {
    let ends = Arc::new(AtomicBool::new(false));
    let seen = Arc::new(AtomicU64::new(0));
    let thread = std::thread::spawn({
        let (ends, seen) = (Arc::clone(&ends), Arc::clone(&seen));
        move || run(&ends, &seen)
    });
    Peer {
        addr,
        seen,
        ends,
        thread: Some(thread),
    }
}

/// Reads once, so that the caller has written something.
pub fn read_some(stream: &mut TcpStream, ends: &AtomicBool) {
    let mut buffer = [0; 4_096];
    while !ends.load(Ordering::Relaxed) {
        // What came does not matter, nor whether the end did.
        if stream
            .read(&mut buffer)
            .is_ok_and(|length| length <= buffer.len())
        {
            return;
        }
    }
}

/// What a TCP peer does with a request.
pub enum Reply {
    Nothing,
    Answer(Vec<u8>),
    /// And then it closes the connection.
    Last(Vec<u8>),
}

/// Answers the requests of a connection, one after the other, until it ends.
pub fn serve(stream: &mut TcpStream, ends: &AtomicBool, mut answer: impl FnMut(&str) -> Reply) {
    let (mut unread, mut buffer) = (Vec::new(), [0; 4_096]);
    while !ends.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => unread.extend_from_slice(&buffer[..length]),
            // A machine that was halted interrupts who waits for a limited time (signal(7)).
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                continue;
            }
            Err(_) => return,
        }
        while let Some(request) = next_request(&mut unread) {
            let (bytes, is_last) = match answer(&request) {
                Reply::Nothing => continue,
                Reply::Answer(bytes) => (bytes, false),
                Reply::Last(bytes) => (bytes, true),
            };
            if stream.write_all(&bytes).is_err() || is_last {
                return;
            }
        }
    }
}

/// Takes a whole request off the front.
fn next_request(unread: &mut Vec<u8>) -> Option<String> {
    let text = String::from_utf8_lossy(unread).into_owned();
    let head = text.find("\r\n\r\n")? + 4;
    let body = text[..head]
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "))
        .map_or(0, |length| length.trim().parse().unwrap());
    let whole = text.get(..head + body)?.to_owned();
    unread.drain(..head + body);
    Some(whole)
}

/// Writes, and does nothing more until the test ends.
pub fn write_and_stay(stream: &mut TcpStream, bytes: &[u8], ends: &AtomicBool) {
    let _ = stream.write_all(bytes);
    while !ends.load(Ordering::Relaxed) {
        std::thread::sleep(POLL);
    }
}

/// The response to a request: its own headers back.
pub fn response(request: &str, status: &str) -> Vec<u8> {
    let mut text = format!("SIP/2.0 {status}\r\n");
    for line in request.lines().skip(1).take_while(|line| !line.is_empty()) {
        let name = line.split(':').next().unwrap_or_default();
        match name {
            "Via" | "From" | "Call-ID" | "CSeq" => text += &format!("{line}\r\n"),
            "To" if line.contains(";tag=") => text += &format!("{line}\r\n"),
            "To" => text += &format!("{line};tag=peer\r\n"),
            _ => {}
        }
    }
    text += "Contact: <sip:peer@127.0.0.1>\r\nContent-Length: 0\r\n\r\n";
    text.into_bytes()
}

/// Whether it is a request of this method.
pub fn is(request: &str, method: &str) -> bool {
    request.starts_with(&format!("{method} "))
}

/// How long an answer may take that comes, however long the machine stands still meanwhile.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Calls at 100 a second, `calls` of them, with timers that are soon over.
pub fn calls_to(addr: SocketAddr, transport: Transport, calls: u64) -> Settings {
    let mut settings = Settings::new(Mix::only(Flow::Call));
    settings.server = Some(Server {
        transport,
        addr,
        host: "127.0.0.1".to_owned(),
        user: None,
    });
    settings.called = Called::Uri("sip:peer@load.test".to_owned());
    settings.schedule = Some(Schedule::parse("100/s for 60s").unwrap().limit(calls));
    settings.timers.t1_ms = 10;
    settings.answer_timeout = Duration::from_millis(500);
    settings.connect_timeout = Duration::from_millis(1_500);
    settings.handshake_timeout = Duration::from_millis(500);
    settings.lifetime = Lifetime::Calls(1);
    settings
}

/// A load of ten registered users.
pub fn of_users(addr: SocketAddr, calls: u64) -> Settings {
    let mut settings = calls_to(addr, Transport::Udp, calls);
    settings.users = Users::from_pattern("u{n}", Some("p{n}"), 10).unwrap();
    settings.register_first = true;
    settings.timers.t1_ms = 500;
    settings.answer_timeout = PATIENCE;
    settings
}

/// A peer that never stalls.
pub fn never(_: Duration) -> bool {
    false
}

pub fn drive(settings: Settings) -> Ran {
    run(settings, &Control::new(), &mut |_| {}).unwrap()
}
