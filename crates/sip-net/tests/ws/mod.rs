//! WebSockets over loopback.
#![allow(clippy::unwrap_used, clippy::panic)]

mod bounds;
mod client;

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::common::{Bench, Seen, any_port, closed, opened, request, send_failed, to};
use sip_msg::{Flow, Target, Transport};
use sip_net::clock::Clock;
use sip_net::testing::{Received, WebSocketClient, upgrade_request};
use sip_net::ws::Opcode;
use sip_net::{
    CloseReason, Framing, ListenerConfig, NetConfig, SendError, UpgradeRefusal, WebSocketFault,
    WebSocketListener, WebSocketRules,
};
use sip_tls::testing::TestCa;
use sip_tls::{ClientTls, HandshakeConfig, HandshakePool, ServerTls};

type Client = WebSocketClient<TcpStream>;

/// In which deadlines are kept.
const TICK_MS: u64 = 100;

fn server(config: NetConfig) -> Bench {
    server_by(config, Clock::system())
}

fn server_by(config: NetConfig, clock: Clock) -> Bench {
    let rules = WebSocketRules {
        own_hosts: vec!["example.com".into()],
        ..WebSocketRules::default()
    };
    let listener = Arc::new(WebSocketListener::new(rules));
    let listener = ListenerConfig::websocket(any_port("127.0.0.1"), None, listener);
    Bench::with_clock(&[listener], config, clock)
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    stream
}

fn client(to: SocketAddr) -> Client {
    WebSocketClient::open(connect(to), &upgrade_request("example.com", "/", "")).unwrap()
}

/// Runs a client that blocks, while the server turns.
fn beside<T: Send>(server: &mut Bench, client: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let client = scope.spawn(client);
        while !client.is_finished() {
            server.turn();
        }
        client.join().unwrap()
    })
}

fn accepted(seen: &Seen) -> Option<Flow> {
    match seen {
        Seen::Accepted(flow) => Some(*flow),
        _ => None,
    }
}

/// Nothing is left of any connection.
fn assert_empty(server: &mut Bench) {
    while server.net.connection_count() > 0 {
        server.turn();
    }
    assert_eq!(server.net.counters().connections, 0);
    assert_eq!(server.net.kept_bytes(), 0);
    assert!(!server.net.has_unsent());
}

#[test]
fn messages_go_both_ways_each_in_one_of_the_websockets() {
    let mut server = server(NetConfig::default());
    let to = server.addr();
    let mut client = beside(&mut server, || client(to));
    let flow = server.until(accepted);
    assert_eq!(flow.transport, Transport::Ws);
    // RFC 7118 5.1: a message ends where the WebSocket's does, so Content-Length
    // may be left out.
    let without = b"MESSAGE sip:a@b SIP/2.0\r\nCall-ID: 1\r\n\r\nbody";
    client.send(without);
    assert_eq!(server.message(), (flow, without.to_vec()));
    client.send(&request("with"));
    assert_eq!(server.message().1, request("with"));
    client.send_frame(Opcode::Binary, b"\xFFnot text", true);
    assert_eq!(server.message().1, b"\xFFnot text");

    for (message, is_text) in [
        (request("answer"), true),
        (request(&"ä".repeat(10_000)), true),
        (b"SIP/2.0 200 OK\r\n\r\n\xFF".to_vec(), false),
    ] {
        server.net.send(&Target::back(&flow), &message, 0);
        let received = beside(&mut server, || client.receive());
        assert_eq!(received, Received::Message(message, is_text));
    }
    let counters = server.net.counters();
    assert_eq!((counters.ws.messages_in, counters.ws.messages_out), (3, 3));
    assert_eq!(
        (counters.tcp, counters.websocket.upgraded),
        (Default::default(), 1)
    );
    drop(client);
    assert_empty(&mut server);
}

#[test]
fn a_message_in_parts_is_put_together_with_pings_between_them() {
    let mut server = server(NetConfig::default());
    let to = server.addr();
    let mut client = beside(&mut server, || client(to));
    let message = request(&"ü".repeat(300));
    let pongs = beside(&mut server, || {
        let mut opcode = Opcode::Text;
        for part in message.chunks(7) {
            client.send_frame(opcode, part, false);
            client.send_frame(Opcode::Ping, part, true);
            opcode = Opcode::Continuation;
        }
        client.send_frame(Opcode::Continuation, b"", true);
        // Answered in order; a pong that nobody asked for is passed over.
        client.send_frame(Opcode::Pong, b"unasked", true);
        let count = message.chunks(7).count();
        (0..count)
            .filter(|_| client.receive() == Received::Pong)
            .count()
    });
    assert_eq!(pongs, message.chunks(7).count());
    assert_eq!(server.message().1, message);
    assert_eq!(server.net.counters().websocket.pings_in, pongs as u64);
    assert_eq!(server.net.kept_bytes(), 0);
}

#[test]
fn bytes_may_come_singly() {
    let mut server = server(NetConfig::default());
    let to = server.addr();
    let mut all = upgrade_request("example.com", "/", "").into_bytes();
    let upgrade_len = all.len();
    for body in ["one", "two"] {
        sip_net::ws::write_message(&request(body), Some([1, 2, 3, 4]), &mut all);
    }
    let mut stream = connect(to);
    beside(&mut server, || {
        for byte in &all {
            stream.write_all(&[*byte]).unwrap();
        }
    });
    server.until(accepted);
    assert_eq!(server.message().1, request("one"));
    assert_eq!(server.message().1, request("two"));
    // What comes at once with the request is not lost either.
    let mut stream = connect(to);
    stream.write_all(&all[..upgrade_len + 10]).unwrap();
    server.until(accepted);
    stream.write_all(&all[upgrade_len + 10..]).unwrap();
    assert_eq!(server.message().1, request("one"));
}

#[test]
fn line_ends_keep_a_connection_alive_and_are_no_message() {
    let mut server = server(NetConfig::default());
    let to = server.addr();
    let mut client = beside(&mut server, || client(to));
    let received = beside(&mut server, || {
        client.send(b"\r\n");
        client.send(b"");
        client.send(b"\r\n\r\n");
        client.receive()
    });
    assert_eq!(received, Received::Message(b"\r\n".to_vec(), true));
    assert_eq!(server.net.counters().pings, 1);
    assert!(
        !server
            .seen
            .iter()
            .any(|seen| matches!(seen, Seen::Message(..)))
    );
}

#[test]
fn a_request_that_is_no_good_is_refused_told_why_and_closed() {
    let mut server = server(NetConfig::default());
    let to = server.addr();
    let good = upgrade_request("example.com", "/", "");
    for (request, status, refusal) in [
        (
            good.replace("GET /", "nonsense"),
            "400",
            UpgradeRefusal::Malformed,
        ),
        (
            "\x16\x03\x01\x02\x00\x01".to_owned(),
            "400",
            UpgradeRefusal::Malformed,
        ),
        (
            upgrade_request("example.com", "/", &format!("X: {}\r\n", "x".repeat(9_000))),
            "431",
            UpgradeRefusal::TooLarge,
        ),
        (good.replace("GET", "POST"), "405", UpgradeRefusal::Method),
        (
            upgrade_request("example.com", "/other", ""),
            "404",
            UpgradeRefusal::Path,
        ),
        (
            "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n".to_owned(),
            "426",
            UpgradeRefusal::NoUpgrade,
        ),
        (
            good.replace("Version: 13", "Version: 7"),
            "426",
            UpgradeRefusal::Version,
        ),
        (
            upgrade_request("example.com", "/", "Origin: https://evil.example\r\n"),
            "403",
            UpgradeRefusal::Origin,
        ),
        (
            good.replace("Protocol: sip", "Protocol: chat"),
            "400",
            UpgradeRefusal::Protocol,
        ),
    ] {
        let answer = beside(&mut server, || {
            WebSocketClient::open(connect(to), &request).unwrap_err()
        });
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
        // Whole, the text for the reader included, and then the end.
        let (_, text) = answer.split_once("\r\n\r\n").unwrap();
        assert!(text.ends_with(".\n"), "{answer}");
        assert_eq!(server.until(closed), CloseReason::Upgrade);
        let refused = server.net.counters().websocket.refused[refusal as usize];
        assert!(refused > 0, "{refusal:?}");
    }
    let counters = server.net.counters();
    assert_eq!(counters.websocket.refused, [2, 1, 1, 1, 1, 1, 1, 1]);
    assert_eq!(
        (counters.websocket.upgraded, counters.messages_in()),
        (0, 0)
    );
    assert_eq!(
        server.seen,
        [],
        "no word of a connection that never was one"
    );
    assert_empty(&mut server);
}

#[test]
fn what_makes_no_sense_is_closed_with_the_code_that_says_so() {
    let mut server = server(NetConfig::default());
    let to = server.addr();
    let too_long = vec![b'x'; NetConfig::default().limits.message_bytes + 1];
    let mut faults = [0; WebSocketFault::ALL.len()];
    type Act<'a> = &'a (dyn Fn(&mut Client) + Sync);
    let cases: [(Act<'_>, u16, WebSocketFault); 7] = [
        (&|c| c.send_bytes(b"\x81\x02hi"), 1002, WebSocketFault::Mask),
        (
            &|c| c.send_bytes(b"\xFF\xFF garbage"),
            1002,
            WebSocketFault::Reserved,
        ),
        (
            &|c| c.send_frame(Opcode::Continuation, b"x", true),
            1002,
            WebSocketFault::Order,
        ),
        (
            &|c| c.send_frame(Opcode::Ping, &[0; 126], true),
            1002,
            WebSocketFault::Control,
        ),
        (
            &|c| c.send_frame(Opcode::Text, b"\xC3\x28", true),
            1007,
            WebSocketFault::Utf8,
        ),
        (
            &|c| c.send_frame(Opcode::Text, &too_long, true),
            1009,
            WebSocketFault::TooLarge,
        ),
        (
            &|c| {
                c.send_frame(Opcode::Binary, &too_long[..60_000], false);
                c.send_frame(Opcode::Continuation, &too_long[..6_000], true);
            },
            1009,
            WebSocketFault::TooLarge,
        ),
    ];
    for (act, code, fault) in cases {
        let received = beside(&mut server, || {
            let mut client = client(to);
            client.send(&request("before"));
            act(&mut client);
            // Nothing behind it counts; the server may be gone already.
            let _ = client.stream.write_all(b"\x81\x82\0\0\0\0hi");
            (client.receive(), client.receive())
        });
        assert_eq!(
            received,
            (Received::Close(Some(code)), Received::End),
            "{fault:?}"
        );
        assert_eq!(server.message().1, request("before"));
        assert_eq!(server.until(closed), CloseReason::Malformed, "{fault:?}");
        faults[fault as usize] += 1;
        assert_eq!(server.net.counters().websocket.faults, faults);
    }
    assert!(
        !server
            .seen
            .iter()
            .any(|seen| matches!(seen, Seen::Message(..)))
    );
    assert_empty(&mut server);
}

#[test]
fn either_side_closes_and_the_other_says_so_too() {
    let mut server = server(NetConfig::default());
    let to = server.addr();
    let received = beside(&mut server, || {
        let mut client = client(to);
        client.send_close(4_001);
        (client.receive(), client.receive())
    });
    assert_eq!(received, (Received::Close(Some(4_001)), Received::End));
    let flow = server.until(accepted);
    assert_eq!(server.until(closed), CloseReason::Peer);
    server.net.send(&Target::back(&flow), b"too late", 5);
    assert_eq!(server.until(send_failed), (5, SendError::Gone));

    let mut client = beside(&mut server, || client(to));
    let flow = server.until(accepted);
    server.net.send(&Target::back(&flow), b"last", 0);
    server.net.close(flow.conn, true);
    server.net.send(&Target::back(&flow), b"too late", 6);
    assert_eq!(server.until(send_failed), (6, SendError::Gone));
    let received = beside(&mut server, || {
        let received = [client.receive(), client.receive()];
        client.send_close(1_000);
        received
    });
    assert_eq!(
        received,
        [
            Received::Message(b"last".to_vec(), true),
            Received::Close(Some(1_000))
        ]
    );
    drop(client);
    assert_eq!(server.until(closed), CloseReason::Asked);
    assert_empty(&mut server);
}

#[test]
fn a_server_opens_no_connection_to_a_browser_nor_takes_one_for_another() {
    let mut server = server(NetConfig::default());
    let at = server.addr();
    let _client = beside(&mut server, || client(at));
    let flow = server.until(accepted);
    let target = to(Transport::Ws, flow.remote);
    assert_eq!(server.net.open(&target), Err(SendError::NoListener));
    server.net.send(&target, &request("x"), 9);
    assert_eq!(server.until(send_failed), (9, SendError::NoListener));
    assert_eq!(server.net.counters().opened, 0);
}

#[test]
fn under_tls_it_is_the_same() {
    let ca = TestCa::new();
    let (chain, key) = ca.issue(&["example.com"]);
    let tls = ServerTls::from_pem(&[(chain.as_bytes(), key.as_bytes())]).unwrap();
    let config = NetConfig {
        handshakes: Some(HandshakePool::start(HandshakeConfig::default()).unwrap()),
        upgrade_timeout_ms: 2_000,
        ..NetConfig::default()
    };
    let rules = Arc::new(WebSocketListener::default());
    let listener = ListenerConfig::websocket(any_port("127.0.0.1"), Some(Arc::new(tls)), rules);
    let mut server = Bench::on_given_clock(&[listener], config);
    let config = NetConfig {
        client_tls: Some(Arc::new(
            ClientTls::from_pem(&[ca.root_pem().as_bytes()]).unwrap(),
        )),
        handshakes: Some(HandshakePool::start(HandshakeConfig::default()).unwrap()),
        ..NetConfig::default()
    };
    let outbound = ListenerConfig {
        framing: Framing::Raw,
        ..ListenerConfig::outbound(Transport::Tls, any_port("127.0.0.1"))
    };
    let mut client = Bench::new(&[outbound], config);
    let target = Target {
        tls_name: Some("example.com".into()),
        ..to(Transport::Tls, server.addr())
    };
    let conn = client.net.open(&target).unwrap();
    let named = Target { conn, ..target };
    client.net.send(&named, b"\x16\x03\x01\r\n\r\n", 0);
    client.until_with(&mut [&mut server], opened);
    client.until_with(&mut [&mut server], closed);
    assert_eq!(
        server.until_with(&mut [&mut client], closed),
        CloseReason::Upgrade
    );
    client.net.open(&named).unwrap();
    client.until_with(&mut [&mut server], opened);
    while server.net.counters().handshakes_in < 2 {
        server.turn();
    }
    server.clock.pass(2_000 + TICK_MS);
    assert_eq!(
        server.until_with(&mut [&mut client], closed),
        CloseReason::Upgrade
    );
    assert_eq!(server.net.counters().websocket.upgraded, 0);

    client.seen.clear();
    let conn = client.net.open(&named).unwrap();
    let named = Target { conn, ..named };
    let upgrade = upgrade_request("example.com", "/", "");
    client.net.send(&named, upgrade.as_bytes(), 0);
    let mut frame = Vec::new();
    sip_net::ws::write_message(&request("sealed"), Some([9, 8, 7, 6]), &mut frame);
    client.net.send(&named, &frame, 0);
    let flow = server.until_with(&mut [&mut client], accepted);
    assert_eq!(flow.transport, Transport::Wss);
    assert!(server.net.tls_info(flow.conn).is_some());
    assert_eq!(server.message(), (flow, request("sealed")));
    server.net.send(&Target::back(&flow), b"answer", 0);
    server.net.close(flow.conn, true);
    let mut all = Vec::new();
    while !all.ends_with(b"\x81\x06answer\x88\x02\x03\xE8") {
        all.extend(client.until_with(&mut [&mut server], |seen| match seen {
            Seen::Data(_, bytes) => Some(bytes.clone()),
            _ => None,
        }));
    }
    assert!(all.starts_with(b"HTTP/1.1 101 "));
    assert_eq!(
        server.until_with(&mut [&mut client], closed),
        CloseReason::Asked
    );
    assert_eq!(server.net.counters().wss.messages_in, 1);
    assert_empty(&mut server);
}
