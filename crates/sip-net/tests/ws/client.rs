//! WebSockets that this side opens.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use sip_msg::{Flow, Target, Transport};
use sip_net::clock::Clock;
use sip_net::testing::uninterrupted;
use sip_net::ws::{Opcode, UpgradeFault, WebSocketRequest, write_frame};
use sip_net::{CloseReason, ListenerConfig, NetConfig, SendError, WebSocketListener};
use sip_tls::testing::TestCa;
use sip_tls::{ClientTls, HandshakeConfig, HandshakePool, ServerTls};

use super::{accepted, assert_empty, server};
use crate::common::{Bench, Seen, any_port, closed, opened, request, send_failed, to};

fn config() -> NetConfig {
    let request = WebSocketRequest::new("example.com", "/", None).unwrap();
    NetConfig {
        client_websocket: Some(Arc::new(request)),
        ..NetConfig::default()
    }
}

fn client(config: NetConfig) -> Bench {
    client_by(config, Clock::system())
}

fn client_by(config: NetConfig, clock: Clock) -> Bench {
    let outbound = ListenerConfig::outbound(Transport::Ws, any_port("127.0.0.1"));
    Bench::with_clock(&[outbound], config, clock)
}

fn upgrade_failed(seen: &Seen) -> Option<UpgradeFault> {
    match seen {
        Seen::UpgradeFailed(_, fault) => Some(*fault),
        _ => None,
    }
}

/// A server that reads a request, writes what `answer` makes of its key, and gives
/// all that came on the connection.
fn raw(answer: impl FnOnce(&str) -> Vec<u8> + Send + 'static) -> (Target, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = to(Transport::Ws, listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let mut all = Vec::new();
        while !all.ends_with(b"\r\n\r\n") {
            read_some(&mut stream, &mut all);
        }
        let text = String::from_utf8(all.clone()).unwrap();
        let key = text
            .lines()
            .find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "));
        stream.write_all(&answer(key.unwrap())).unwrap();
        while read_some(&mut stream, &mut all) {}
        all
    });
    (target, thread)
}

fn read_some(stream: &mut TcpStream, all: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 4_096];
    let len = uninterrupted(|| stream.read(&mut buffer)).unwrap_or(0);
    all.extend_from_slice(&buffer[..len]);
    len > 0
}

/// The answer that grants a request, as the server here would write it.
fn granted(key: &str) -> Vec<u8> {
    let request = format!(
        "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: sip\r\n\r\n"
    );
    let mut answer = Vec::new();
    let rules = sip_net::WebSocketRules::default();
    let local = "127.0.0.1".parse().unwrap();
    sip_net::ws::upgrade(
        request.as_bytes(),
        &mut 0,
        &rules,
        false,
        local,
        &mut answer,
    );
    answer
}

#[test]
fn messages_wait_for_the_upgrade_and_go_both_ways() {
    let mut server = server(NetConfig::default());
    let mut client = client(config());
    let target = to(Transport::Ws, server.addr());
    let conn = client.net.open(&target).unwrap();
    let target = Target { conn, ..target };
    for body in ["one", "two"] {
        client.net.send(&target, &request(body), 0);
    }
    let flow = client.until_with(&mut [&mut server], opened);
    assert_eq!((flow.conn, flow.transport), (conn, Transport::Ws));
    let at_server = server.until_with(&mut [&mut client], accepted);
    for body in ["one", "two"] {
        let (_, bytes) = server.until_with(&mut [&mut client], crate::common::message);
        assert_eq!(bytes, request(body));
    }
    client.net.send(&target, b"\xFFnot text", 0);
    let (_, bytes) = server.until_with(&mut [&mut client], crate::common::message);
    assert_eq!(bytes, b"\xFFnot text");
    let long = request(&"ä".repeat(10_000));
    server.net.send(&Target::back(&at_server), &long, 0);
    let (from, bytes) = client.until_with(&mut [&mut server], crate::common::message);
    assert_eq!((from, bytes), (flow, long));
    assert_eq!(server.net.counters().websocket.upgraded, 1);
    assert_eq!(client.net.counters().opened, 1);

    // Whoever names the peer finds the connection.
    client.net.send(
        &Target {
            conn: sip_msg::ConnId::NONE,
            ..target.clone()
        },
        b"again",
        0,
    );
    let (_, bytes) = server.until_with(&mut [&mut client], crate::common::message);
    assert_eq!(
        (bytes.as_slice(), client.net.connection_count()),
        (&b"again"[..], 1)
    );

    client.net.close(conn, true);
    assert_eq!(
        server.until_with(&mut [&mut client], closed),
        CloseReason::Peer
    );
    assert_eq!(
        client.until_with(&mut [&mut server], closed),
        CloseReason::Asked
    );
    assert_empty(&mut client);
    assert_empty(&mut server);
}

#[test]
fn what_is_closed_before_it_is_up_delivers_first() {
    let mut server = server(NetConfig::default());
    let mut client = client(config());
    let target = to(Transport::Ws, server.addr());
    let conn = client.net.open(&target).unwrap();
    let target = Target { conn, ..target };
    client.net.send(&target, &request("last"), 0);
    client.net.close(conn, true);
    let late = Target {
        may_open: false,
        ..target
    };
    client.net.send(&late, &request("too late"), 3);
    let (_, bytes) = server.until_with(&mut [&mut client], crate::common::message);
    assert_eq!(bytes, request("last"));
    assert_eq!(
        server.until_with(&mut [&mut client], closed),
        CloseReason::Peer
    );
    assert_eq!(
        client.until_with(&mut [&mut server], closed),
        CloseReason::Asked
    );
    assert_eq!(client.until(send_failed), (3, SendError::Gone));
    assert_empty(&mut client);
}

#[test]
fn under_tls_it_is_the_same() {
    let ca = TestCa::new();
    let (chain, key) = ca.issue(&["example.com"]);
    let tls = ServerTls::from_pem(&[(chain.as_bytes(), key.as_bytes())]).unwrap();
    let pool = || Some(HandshakePool::start(HandshakeConfig::default()).unwrap());
    let listener = ListenerConfig::websocket(
        any_port("127.0.0.1"),
        Some(Arc::new(tls)),
        Arc::new(WebSocketListener::default()),
    );
    let mut server = Bench::new(
        &[listener],
        NetConfig {
            handshakes: pool(),
            ..NetConfig::default()
        },
    );
    let root = ca.root_pem();
    let mut client = client(NetConfig {
        client_tls: Some(Arc::new(ClientTls::from_pem(&[root.as_bytes()]).unwrap())),
        handshakes: pool(),
        ..config()
    });
    let target = Target {
        tls_name: Some("example.com".into()),
        ..to(Transport::Wss, server.addr())
    };
    let conn = client.net.open(&target).unwrap();
    let target = Target { conn, ..target };
    client.net.send(&target, &request("sealed"), 0);
    let flow: Flow = client.until_with(&mut [&mut server], opened);
    assert_eq!(flow.transport, Transport::Wss);
    assert!(client.net.tls_info(conn).is_some());
    let (back, bytes) = server.until_with(&mut [&mut client], crate::common::message);
    assert_eq!(bytes, request("sealed"));
    server.net.send(&Target::back(&back), &request("answer"), 0);
    let (_, bytes) = client.until_with(&mut [&mut server], crate::common::message);
    assert_eq!(bytes, request("answer"));
    server.net.close(back.conn, true);
    assert_eq!(
        client.until_with(&mut [&mut server], closed),
        CloseReason::Peer
    );
    assert_eq!(
        server.until_with(&mut [&mut client], closed),
        CloseReason::Asked
    );
    assert_empty(&mut client);
    assert_empty(&mut server);
}

#[test]
fn a_server_that_grants_nothing_is_sent_nothing_but_the_request() {
    type Answer = fn(&str) -> Vec<u8>;
    let cases: [(Answer, UpgradeFault); 6] = [
        (
            |_| b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n".to_vec(),
            UpgradeFault::Refused(403),
        ),
        (
            |_| granted("dGhlIHNhbXBsZSBub25jZQ=="),
            UpgradeFault::Accept,
        ),
        (
            |_| b"SIP/2.0 400 Bad Request\r\n\r\n".to_vec(),
            UpgradeFault::Malformed,
        ),
        (
            |_| vec![b'\x15', 3, 3, 0, 2, 2, 40],
            UpgradeFault::Malformed,
        ),
        (
            |key| {
                let text = String::from_utf8(granted(key)).unwrap();
                text.replace("Protocol: sip", "Protocol: chat").into_bytes()
            },
            UpgradeFault::Protocol,
        ),
        (
            |_| {
                let mut long = b"HTTP/1.1 101 Switching Protocols\r\nX: ".to_vec();
                long.resize(20_000, b'x');
                long
            },
            UpgradeFault::TooLarge,
        ),
    ];
    for (answer, fault) in cases {
        let (target, server) = raw(answer);
        let mut client = client(config());
        let conn = client.net.open(&target).unwrap();
        client
            .net
            .send(&Target { conn, ..target }, &request("secret"), 7);
        assert_eq!(client.until(upgrade_failed), fault);
        let failed = client.until(send_failed);
        assert_eq!(failed, (7, SendError::Closed(CloseReason::Upgrade)));
        assert_eq!(client.until(closed), CloseReason::Upgrade);
        assert_eq!(client.net.counters().opened, 0);
        assert_empty(&mut client);
        let sent = String::from_utf8(server.join().unwrap()).unwrap();
        assert!(sent.starts_with("GET / HTTP/1.1\r\n"), "{sent}");
        assert!(
            sent.ends_with("\r\n\r\n") && !sent.contains("OPTIONS"),
            "{sent}"
        );
    }
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = to(Transport::Ws, listener.local_addr().unwrap());
    let mut client = client_by(config(), Clock::given());
    client.net.open(&target).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let mut asked = Vec::new();
    stream
        .set_read_timeout(Some(Duration::from_millis(5)))
        .unwrap();
    while !asked.ends_with(b"\r\n\r\n") {
        client.turn();
        read_some(&mut stream, &mut asked);
    }
    let deadline_ms = NetConfig::default().upgrade_timeout_ms;
    assert_eq!(client.closed_after(deadline_ms), CloseReason::Upgrade);
    assert_eq!(client.until(upgrade_failed), UpgradeFault::TimedOut);
    assert_empty(&mut client);
}

/// A frame of a server: without a mask.
fn frame(opcode: Opcode, payload: &[u8], is_final: bool) -> Vec<u8> {
    let mut frame = Vec::new();
    write_frame(opcode, payload, None, &mut frame);
    if !is_final {
        frame[0] &= 0x7F;
    }
    frame
}

#[test]
fn frames_in_parts_are_put_together_and_pings_answered_under_a_mask() {
    let (target, server) = raw(|key| {
        let mut all = granted(key);
        all.extend(frame(Opcode::Text, b"SIP/2.0 ", false));
        all.extend(frame(Opcode::Ping, b"you?", true));
        all.extend(frame(Opcode::Continuation, b"200 OK\r\n\r\n", true));
        all.extend(frame(Opcode::Close, &1001u16.to_be_bytes(), true));
        all
    });
    let mut client = client(config());
    client.net.open(&target).unwrap();
    client.until(opened);
    assert_eq!(client.message().1, b"SIP/2.0 200 OK\r\n\r\n");
    assert_eq!(client.until(closed), CloseReason::Peer);
    let sent = server.join().unwrap();
    let head = sent.windows(4).position(|at| at == b"\r\n\r\n").unwrap() + 4;
    let frames = &sent[head..];
    // RFC 6455 5.1: "a client MUST mask all frames that it sends to the server".
    let mut reader = sip_net::ws::Reader::of_server();
    let (mut at, mut items, mut payload) = (0, Vec::new(), Vec::new());
    while at < frames.len() {
        match reader.next(&frames[at..], 1_000, &mut payload).unwrap() {
            sip_net::ws::Taken::Frame { len, item } => {
                items.push((item, payload.clone()));
                at += len;
            }
            sip_net::ws::Taken::More => panic!("half a frame: {frames:?}"),
        }
    }
    assert_eq!(
        items,
        [
            (sip_net::ws::Item::Pong, b"you?".to_vec()),
            (
                sip_net::ws::Item::Close(Some(1001)),
                1001u16.to_be_bytes().to_vec()
            ),
        ]
    );
}

#[test]
fn a_server_whose_frames_make_no_sense_is_closed() {
    type Frames = fn() -> Vec<u8>;
    let cases: [(Frames, u16); 4] = [
        (|| frame(Opcode::Text, &vec![b'x'; 65_536 * 2], true), 1009),
        (
            || {
                let mut all = frame(Opcode::Text, &vec![b'x'; 60_000], false);
                all.extend(frame(Opcode::Continuation, &vec![b'x'; 60_000], true));
                all
            },
            1009,
        ),
        (|| frame(Opcode::Continuation, b"x", true), 1002),
        (
            || {
                let mut masked = Vec::new();
                write_frame(Opcode::Text, b"x", Some([1, 2, 3, 4]), &mut masked);
                masked
            },
            1002,
        ),
    ];
    for (frames, code) in cases {
        let (target, server) = raw(move |key| [granted(key), frames()].concat());
        let mut client = client(config());
        client.net.open(&target).unwrap();
        client.until(opened);
        assert_eq!(client.until(closed), CloseReason::Malformed, "{code}");
        assert_empty(&mut client);
        let sent = server.join().unwrap();
        let last = sent.windows(4).position(|at| at == b"\r\n\r\n").unwrap() + 4;
        let mut payload = Vec::new();
        let taken = sip_net::ws::Reader::of_server().next(&sent[last..], 1_000, &mut payload);
        let item = sip_net::ws::Item::Close(Some(code));
        assert!(
            matches!(taken, Ok(sip_net::ws::Taken::Frame { item: it, .. }) if it == item),
            "{taken:?}"
        );
    }
}

#[test]
fn a_silent_server_is_pinged_and_given_up_when_it_does_not_answer() {
    let (target, _server) = raw(granted);
    let mut client = client_by(config(), Clock::given());
    client.net.open(&target).unwrap();
    client.until(opened);
    let ping_ms = NetConfig::default().websocket_ping_ms;
    for pings in 0..2 {
        assert_eq!(client.net.counters().websocket.pings_out, pings);
        client.clock.pass(ping_ms + super::TICK_MS);
        client.turn();
    }
    // The peer keeps its end open: so much longer may the close take.
    client
        .clock
        .pass(NetConfig::default().linger_ms + super::TICK_MS);
    assert_eq!(client.until(closed), CloseReason::Idle);
}
