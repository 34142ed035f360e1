//! The relay between real sockets: what goes in comes out, however it is held up.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use signet_bed::{
    Change, Conditions, DelaySettings, Handle, Occasion, Relay, RelayCommand, Report, Transport,
};
use sip_net::testing::uninterrupted;
use socket2::SockRef;

const MS: u64 = 1_000_000;

struct Running {
    at: SocketAddr,
    handle: Handle,
    thread: JoinHandle<Report>,
}

impl Running {
    fn start(to: SocketAddr, change: impl FnOnce(&mut DelaySettings)) -> Self {
        let mut settings = DelaySettings::new(to, 4 * MS);
        change(&mut settings);
        let relay = Relay::bind(&settings).unwrap();
        Self {
            at: relay.local_addr(),
            handle: relay.handle(),
            thread: spawn(move || relay.run(|_, _| {}).unwrap()),
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.at).unwrap();
        // A byte that does not come fails a test instead of holding it up.
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream
    }

    fn stop(self) -> Report {
        self.handle.send(RelayCommand::Stop);
        self.thread.join().unwrap()
    }
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Gives back what it gets until its peer has no more to say, on so many connections.
fn echo(listener: TcpListener, connections: usize) -> JoinHandle<()> {
    spawn(move || {
        let threads: Vec<JoinHandle<()>> = (0..connections)
            .map(|_| {
                let (mut stream, _) = listener.accept().unwrap();
                spawn(move || {
                    let mut buffer = [0; 8_192];
                    loop {
                        match stream.read(&mut buffer).unwrap() {
                            0 => return,
                            count => stream.write_all(&buffer[..count]).unwrap(),
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
    })
}

fn bytes(seed: u8, count: usize) -> Vec<u8> {
    (0..count)
        .map(|n| (n as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0] ^ seed)
        .collect()
}

fn conditions(jitter_ns: u64, loss: f64, rate_bits_per_s: Option<u64>) -> Conditions {
    Conditions {
        rtt_ns: 4 * MS,
        jitter_ns,
        loss,
        rate_bits_per_s,
    }
}

#[test]
fn bytes_come_unchanged_and_in_order_over_many_connections() {
    const CONNECTIONS: usize = 20;
    const EACH: usize = 100_000;
    for conditions in [
        conditions(0, 0.0, None),
        conditions(3 * MS, 0.0, None),
        conditions(0, 0.0, Some(100_000_000)),
        conditions(3 * MS, 0.002, Some(400_000_000)),
    ] {
        let (listener, to) = listener();
        let server = echo(listener, CONNECTIONS);
        let relay = Running::start(to, |settings| settings.conditions = conditions);
        let callers: Vec<JoinHandle<()>> = (0..CONNECTIONS)
            .map(|number| {
                let stream = relay.connect();
                let mut writer = stream.try_clone().unwrap();
                let sent = bytes(number as u8, EACH);
                let copy = sent.clone();
                spawn(move || {
                    let writing = spawn(move || {
                        for part in copy.chunks(3_000) {
                            writer.write_all(part).unwrap();
                        }
                        writer.shutdown(Shutdown::Write).unwrap();
                    });
                    let mut got = Vec::new();
                    (&stream).read_to_end(&mut got).unwrap();
                    assert!(got == sent, "connection {number}: other bytes came back");
                    writing.join().unwrap();
                })
            })
            .collect();
        for caller in callers {
            caller.join().unwrap();
        }
        server.join().unwrap();
        let report = relay.stop();
        let all = (CONNECTIONS * EACH) as u64;
        assert_eq!((report.there.bytes, report.back.bytes), (all, all));
        assert!(report.there.packets >= all / 1_448, "{report:?}");
        assert_eq!(
            report.there.wire_bytes,
            all + report.there.packets * signet_bed::PACKET_OVERHEAD_BYTES
        );
        assert_eq!(report.connections.accepted, CONNECTIONS as u64);
        assert_eq!(report.connections.reset, 0);
        assert_eq!(report.held_bytes, 0);
        if conditions.loss > 0.0 {
            assert!(report.there.retransmissions + report.back.retransmissions > 0);
        }
    }
}

#[test]
fn a_half_that_is_closed_leaves_the_other_open() {
    let (listener, to) = listener();
    let relay = Running::start(to, |_| {});
    let mut caller = relay.connect();
    caller.write_all(b"question").unwrap();
    caller.shutdown(Shutdown::Write).unwrap();
    let (mut called, _) = listener.accept().unwrap();
    let mut got = Vec::new();
    called.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"question");
    // It may answer as long as it likes.
    for part in [&b"ans"[..], b"wer"] {
        called.write_all(part).unwrap();
    }
    drop(called);
    let mut got = Vec::new();
    caller.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"answer");
    let report = relay.stop();
    assert_eq!((report.connections.open, report.connections.reset), (0, 0));
    assert_eq!(report.round_trips, 1);
}

#[test]
fn who_is_called_may_speak_first() {
    let (listener, to) = listener();
    let relay = Running::start(to, |_| {});
    let mut caller = relay.connect();
    let (mut called, _) = listener.accept().unwrap();
    called.write_all(b"welcome").unwrap();
    let mut got = [0; 7];
    caller.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"welcome");
    assert_eq!(relay.stop().round_trips, 0);
}

/// Breaks a connection off: its close is a reset.
fn reset(stream: TcpStream) {
    SockRef::from(&stream)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
}

#[test]
fn a_reset_is_passed_on_behind_what_was_sent_before_it() {
    for from_caller in [true, false] {
        let (listener, to) = listener();
        let relay = Running::start(to, |_| {});
        let caller = relay.connect();
        let (called, _) = listener.accept().unwrap();
        called
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let (mut breaks, mut sees) = if from_caller {
            (caller, called)
        } else {
            (called, caller)
        };
        breaks.write_all(b"last words").unwrap();
        let mut got = [0; 10];
        sees.read_exact(&mut got).unwrap();
        reset(breaks);
        let error = uninterrupted(|| sees.read(&mut got)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        let report = relay.stop();
        assert_eq!((report.connections.open, report.connections.reset), (0, 1));
    }
}

#[test]
fn who_breaks_off_after_his_last_word_is_noticed_by_the_other_side() {
    let (listener, to) = listener();
    let relay = Running::start(to, |_| {});
    let caller = relay.connect();
    let (mut called, _) = listener.accept().unwrap();
    called
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    caller.shutdown(Shutdown::Write).unwrap();
    assert_eq!(uninterrupted(|| called.read(&mut [0; 1])).unwrap(), 0);
    reset(caller);
    // The reset comes by itself, or with the answer to what is written.
    let broken = (0..100_000).find_map(|_| called.write_all(&[0; 1_000]).err());
    let kind = broken.expect("the reset does not come").kind();
    assert!(
        matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
        "{kind}"
    );
    relay.stop();
}

#[test]
fn where_nobody_listens_the_caller_is_reset() {
    let (listener, to) = listener();
    drop(listener);
    let relay = Running::start(to, |_| {});
    let mut caller = relay.connect();
    let error = uninterrupted(|| caller.read(&mut [0; 1])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(relay.stop().connections.reset, 1);
}

#[test]
fn who_does_not_read_holds_up_his_sender_and_no_other() {
    let (listener, to) = listener();
    let relay = Running::start(to, |_| {});
    let mut greedy = relay.connect();
    let (_silent, _) = listener.accept().unwrap();
    greedy
        .set_write_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let mut sent = 0_usize;
    let whole = vec![7; 1 << 20];
    // The relay holds 32 MiB, the kernel's buffers some more.
    let error = loop {
        match uninterrupted(|| greedy.write(&whole)) {
            Ok(count) => sent += count,
            Err(error) => break error,
        }
        assert!(sent < 256 << 20, "the relay takes all that there is");
    };
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    let mut other = relay.connect();
    let (mut called, _) = listener.accept().unwrap();
    other.write_all(b"through").unwrap();
    let mut got = [0; 7];
    called.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"through");
    let report = relay.stop();
    assert!(
        report.held_bytes >= 30 << 20 && report.held_bytes < 34 << 20,
        "{report:?}"
    );
}

#[test]
fn datagrams_come_unchanged_to_the_one_who_asked() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap();
    let relay = Running::start(to, |settings| {
        settings.transport = Transport::Udp;
        settings.conditions.jitter_ns = 2 * MS;
    });
    let answering = spawn(move || {
        let mut buffer = [0; 2_000];
        for _ in 0..120 {
            let (count, from) = server.recv_from(&mut buffer).unwrap();
            server.send_to(&buffer[..count], from).unwrap();
        }
    });
    let askers: Vec<JoinHandle<()>> = (0..3_u8)
        .map(|number| {
            let at = relay.at;
            spawn(move || {
                let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                socket
                    .set_read_timeout(Some(Duration::from_secs(20)))
                    .unwrap();
                let all: Vec<Vec<u8>> = (0..40).map(|n| bytes(number, 10 + n)).collect();
                for datagram in &all {
                    socket.send_to(datagram, at).unwrap();
                }
                let mut buffer = [0; 2_000];
                for datagram in &all {
                    let count = uninterrupted(|| socket.recv(&mut buffer)).unwrap();
                    assert_eq!(&buffer[..count], datagram, "in order");
                }
            })
        })
        .collect();
    for asker in askers {
        asker.join().unwrap();
    }
    answering.join().unwrap();
    let report = relay.stop();
    assert_eq!((report.there.packets, report.back.packets), (120, 120));
    assert_eq!((report.there.lost, report.there.overflowed), (0, 0));
    assert_eq!(report.connections.accepted, 3);
}

#[test]
fn datagrams_are_lost_as_asked() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let relay = Running::start(server.local_addr().unwrap(), |settings| {
        settings.transport = Transport::Udp;
        settings.conditions.loss = 0.5;
    });
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..200 {
        socket.send_to(b"x", relay.at).unwrap();
    }
    // One of so many is not lost, and all others are before it.
    for _ in 0..60 {
        socket.send_to(b"end", relay.at).unwrap();
    }
    let mut buffer = [0; 10];
    let mut arrived = 0;
    while uninterrupted(|| server.recv_from(&mut buffer)).unwrap().0 == 1 {
        arrived += 1;
    }
    let report = relay.stop();
    assert!(report.there.lost > 0 && arrived > 0, "{report:?}");
    assert!(arrived < 200, "{report:?}");
}

#[test]
fn the_path_can_change_and_reports_come_when_asked() {
    let (listener, to) = listener();
    let server = echo(listener, 1);
    let relay = Relay::bind(&DelaySettings::new(to, 10 * MS)).unwrap();
    let (at, handle) = (relay.local_addr(), relay.handle());
    let (told, reports) = std::sync::mpsc::channel();
    let thread = spawn(move || {
        relay
            .run(|report, occasion| told.send((report.clone(), occasion)).unwrap())
            .unwrap()
    });
    let mut stream = TcpStream::connect(at).unwrap();
    let mut got = [0; 2];
    for rtt_ns in [MS, 0, 20 * MS] {
        handle.send(RelayCommand::Change(Change::Rtt { ns: rtt_ns }));
        handle.send(RelayCommand::Report);
        let (report, occasion) = reports.recv().unwrap();
        assert_eq!(report.conditions.rtt_ns, rtt_ns);
        assert_eq!(occasion, Occasion::Asked);
        stream.write_all(b"hi").unwrap();
        stream.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"hi");
    }
    drop(stream);
    server.join().unwrap();
    handle.send(RelayCommand::Stop);
    let last = thread.join().unwrap();
    assert_eq!(last.round_trips, 3);
    let json = serde_json::to_value(&last).unwrap();
    assert_eq!(json["format"], "signet-bed-delay");
    assert_eq!(json["version"], 1);
    assert_eq!(json["there"]["bytes"], 6);
}

#[test]
fn it_ends_by_itself_and_an_address_that_is_taken_has_a_remedy() {
    let (_listener, to) = listener();
    let mut settings = DelaySettings::new(to, 0);
    settings.duration_ns = Some(MS);
    let relay = Relay::bind(&settings).unwrap();
    let mut second = settings.clone();
    second.listen = relay.local_addr();
    let error = Relay::bind(&second).err().unwrap().to_string();
    assert!(error.contains("choose another port"), "{error}");
    relay.run(|_, _| {}).unwrap();
}
