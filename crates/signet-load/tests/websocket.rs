//! WebSocket servers that refuse the upgrade, prove nothing, or send what makes no
//! sense: every call ends as a counted failure with a cause.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{PATIENCE, calls_to, drive, response, tcp, write_and_stay};
use signet_load::{Control, Failed, Leaked, Lifetime, Ran, Users, run};
use sip_msg::Transport;
use sip_net::ws::{Item, Opcode, Reader, Taken, upgrade, write_frame, write_message};
use sip_net::{Origins, WebSocketRules};

const CALLS: u64 = 25;

/// The request for a WebSocket, once it is there.
fn asked(stream: &mut TcpStream, ends: &AtomicBool) -> Option<Vec<u8>> {
    let mut request = Vec::new();
    let mut buffer = [0; 4_096];
    while !ends.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => return None,
            Ok(len) => request.extend_from_slice(&buffer[..len]),
            Err(_) => {}
        }
        if request.ends_with(b"\r\n\r\n") {
            return Some(request);
        }
    }
    None
}

fn granted(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8(request.to_vec()).unwrap();
    let rules = WebSocketRules {
        path: text.split(' ').nth(1).unwrap().to_owned(),
        origins: Origins::Any,
        ..WebSocketRules::default()
    };
    let mut answer = Vec::new();
    let local = "127.0.0.1".parse().unwrap();
    upgrade(request, &mut 0, &rules, false, local, &mut answer);
    answer
}

/// Answers what is asked on each connection.
fn peer(answer: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) -> common::Peer {
    tcp(move |mut stream, ends| {
        if let Some(request) = asked(&mut stream, ends) {
            write_and_stay(&mut stream, &answer(&request), ends);
        }
    })
}

fn check(ran: &Ran, causes: &[&str]) {
    let ranked = ran.causes.ranked();
    assert_eq!(
        (ran.started, ran.ended, ran.failed),
        (CALLS, CALLS, CALLS),
        "{ranked:?}"
    );
    assert!(
        ranked.iter().all(|(why, _)| causes.contains(&why.as_str())),
        "{ranked:?}, not {causes:?}"
    );
    assert_eq!(ran.leaked, Leaked::default());
}

#[test]
fn what_is_not_granted_is_a_failure_with_its_cause() {
    type Answer = fn(&[u8]) -> Vec<u8>;
    let cases: [(Answer, &str); 5] = [
        (
            |_| b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n".to_vec(),
            "upgrade: status 403",
        ),
        (
            |_| b"HTTP/1.1 302 Found\r\nLocation: /other\r\n\r\n".to_vec(),
            "upgrade: refused",
        ),
        (
            |request| {
                let text = String::from_utf8(granted(request)).unwrap();
                let accept = text.split("Accept: ").nth(1).unwrap();
                let accept = accept.lines().next().unwrap();
                text.replace(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
                    .into_bytes()
            },
            "upgrade: answer to another key",
        ),
        (
            |_| b"SIP/2.0 400 Bad Request\r\n\r\n".to_vec(),
            "upgrade: no http",
        ),
        (|_| Vec::new(), "upgrade: timed out"),
    ];
    for (answer, why) in cases {
        let peer = peer(answer);
        let mut settings = calls_to(peer.addr, Transport::Ws, CALLS);
        // The connection fails, however slow the machine, before a transaction does.
        settings.timers.t1_ms = 500;
        check(&drive(settings.clone()), &[why]);
        settings.lifetime = Lifetime::One;
        match run(settings, &Control::new(), &mut |_| {}) {
            Err(Failed::Run(error)) => assert!(error.contains(why), "{error}"),
            other => panic!("{:?}", other.map(|ran| ran.started)),
        }
    }
}

#[test]
fn frames_that_make_no_sense_end_the_call() {
    let too_long = |request: &[u8]| {
        let mut all = granted(request);
        write_frame(Opcode::Text, &vec![b'x'; 200_000], None, &mut all);
        all
    };
    let stray = |request: &[u8]| {
        let mut all = granted(request);
        write_frame(Opcode::Continuation, b"x", None, &mut all);
        all
    };
    let peers = [peer(too_long), peer(stray)];
    for peer in &peers {
        let mut settings = calls_to(peer.addr, Transport::Ws, CALLS);
        // That peer does not close when it is told to: a connection has two seconds for it.
        settings.timers.t1_ms = 100;
        check(&drive(settings), &["rubbish"]);
    }
}

/// A server that answers each request 200, in frames of 40 bytes with pings between
/// them, and wants frames that are masked.
fn in_parts(mut stream: TcpStream, ends: &AtomicBool) {
    let Some(request) = asked(&mut stream, ends) else {
        return;
    };
    stream.write_all(&granted(&request)).unwrap();
    let (mut reader, mut payload) = (Reader::of_server(), Vec::new());
    let (mut input, mut buffer) = (Vec::new(), [0; 4_096]);
    while !ends.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(len) => input.extend_from_slice(&buffer[..len]),
            Err(_) => continue,
        }
        while let Taken::Frame { len, item } = reader.next(&input, 65_536, &mut payload).unwrap() {
            input.drain(..len);
            if item != Item::Message || payload.starts_with(b"ACK ") {
                continue;
            }
            let answer = response(&String::from_utf8(payload.clone()).unwrap(), "200 OK");
            let mut frames = Vec::new();
            let count = answer.chunks(40).count();
            for (place, part) in answer.chunks(40).enumerate() {
                let at = frames.len();
                let opcode = if place == 0 {
                    Opcode::Text
                } else {
                    Opcode::Continuation
                };
                write_frame(opcode, part, None, &mut frames);
                if place + 1 < count {
                    frames[at] &= 0x7F;
                    write_frame(Opcode::Ping, b"", None, &mut frames);
                }
            }
            stream.write_all(&frames).unwrap();
        }
    }
}

#[test]
fn answers_in_parts_are_answers() {
    let peer = tcp(in_parts);
    for lifetime in [Lifetime::One, Lifetime::Calls(1), Lifetime::Calls(4)] {
        let mut settings = calls_to(peer.addr, Transport::Ws, CALLS);
        settings.timers.t1_ms = 500;
        settings.answer_timeout = PATIENCE;
        settings.handshake_timeout = PATIENCE;
        settings.lifetime = lifetime;
        let ran = drive(settings);
        assert_eq!((ran.started, ran.failed), (CALLS, 0), "{:?}", ran.causes);
        assert_eq!(ran.figures.completed, CALLS);
    }
}

/// What waits for its connection is sent when that is up: what the server takes to grant a
/// WebSocket is in the delay of no registration and of no call.
#[test]
fn a_delay_begins_when_the_connection_is_up() {
    const AGENTS: usize = 10;
    const GRANTED_AFTER: Duration = Duration::from_millis(300);
    let peer = tcp(|stream, ends| {
        std::thread::sleep(GRANTED_AFTER);
        in_parts(stream, ends);
    });
    let mut settings = calls_to(peer.addr, Transport::Ws, CALLS);
    settings.users = Users::from_pattern("u{n}", None, AGENTS).unwrap();
    settings.register_first = true;
    settings.timers.t1_ms = 5_000;
    settings.answer_timeout = PATIENCE;
    settings.handshake_timeout = PATIENCE;
    let ran = drive(settings);
    assert_eq!((ran.upkeep.ready, ran.upkeep.failed), (AGENTS as u64, 0));
    assert_eq!(ran.figures.rrd.count(), AGENTS as u64);
    let least_us = u64::try_from(GRANTED_AFTER.as_micros()).unwrap();
    for (name, delay) in [("RRD", &ran.figures.rrd), ("SRD", &ran.figures.srd)] {
        let shortest_us = delay.summary().actual.min_us;
        assert!(shortest_us < least_us / 2, "{name}: {shortest_us} us");
    }
    assert!(ran.connects.summary().actual.min_us * 1_000 >= least_us * 998);
}

/// RFC 7118: Via, contact and subprotocol are those of a browser.
#[test]
fn a_call_looks_as_a_browsers() {
    let (tell, told) = std::sync::mpsc::channel();
    let peer = tcp(move |mut stream, ends| {
        let Some(request) = asked(&mut stream, ends) else {
            return;
        };
        stream.write_all(&granted(&request)).unwrap();
        let (mut input, mut buffer, mut payload) = (Vec::new(), [0; 4_096], Vec::new());
        while !ends.load(Ordering::Relaxed) {
            if let Ok(len @ 1..) = stream.read(&mut buffer) {
                input.extend_from_slice(&buffer[..len]);
            }
            let taken = Reader::of_server().next(&input, 65_536, &mut payload);
            if matches!(taken, Ok(Taken::Frame { .. })) {
                let mut answer = Vec::new();
                let invite = String::from_utf8(payload).unwrap();
                write_message(&response(&invite, "486 Busy Here"), None, &mut answer);
                let _ = tell.send((String::from_utf8(request).unwrap(), invite));
                write_and_stay(&mut stream, &answer, ends);
                return;
            }
        }
    });
    let mut settings = calls_to(peer.addr, Transport::Ws, 1);
    settings.websocket.path = "/sip".to_owned();
    settings.websocket.origin = Some("https://phone.example.com".to_owned());
    let ran = drive(settings);
    assert_eq!(ran.causes.status(486), 1, "{:?}", ran.causes.ranked());
    let (request, invite) = told.recv().unwrap();
    let host = format!("Host: 127.0.0.1:{}\r\n", peer.addr.port());
    for line in [
        "GET /sip HTTP/1.1\r\n",
        &host,
        "Sec-WebSocket-Protocol: sip\r\n",
        "Origin: https://phone.example.com\r\n",
    ] {
        assert!(request.contains(line), "{line}{request}");
    }
    let line = |name: &str| {
        let found = invite.lines().find(|line| line.starts_with(name));
        found
            .unwrap_or_else(|| panic!("no {name}: {invite}"))
            .to_owned()
    };
    let via = line("Via: ");
    assert!(
        via.starts_with("Via: SIP/2.0/WS ") && via.contains(".invalid;branch="),
        "{via}"
    );
    let contact = line("Contact: ");
    assert!(contact.ends_with(".invalid;transport=ws>"), "{contact}");
}
