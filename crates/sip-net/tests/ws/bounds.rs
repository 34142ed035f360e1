//! How long a WebSocket may take for something, and how much of it there may be.

use std::io::{Read, Write};

use sip_msg::Target;
use sip_net::clock::Clock;
use sip_net::testing::{Received, uninterrupted, upgrade_request};
use sip_net::ws::Opcode;
use sip_net::{CloseReason, NetConfig};

use super::{TICK_MS, accepted, assert_empty, beside, client, connect, server, server_by};
use crate::common::{Bench, closed, request};

/// Has a peer do something again and again until a connection is closed: by the
/// deadline, and by nothing before it; the peer may have its time to close too.
fn closed_while(server: &mut Bench, deadline_ms: u64, mut act: impl FnMut()) -> CloseReason {
    let step_ms = deadline_ms / 50;
    let latest_ms = deadline_ms + 2 * step_ms + NetConfig::default().linger_ms;
    let mut passed_ms = 0;
    loop {
        server.turn();
        server.turn();
        if let Some(reason) = server.seen.iter().find_map(closed) {
            server.seen.clear();
            assert!(passed_ms >= deadline_ms, "{passed_ms} ms");
            return reason;
        }
        assert!(passed_ms <= latest_ms, "{passed_ms} ms");
        act();
        server.clock.pass(step_ms);
        passed_ms += step_ms;
    }
}

#[test]
fn a_slow_request_ends_by_the_deadline_however_it_is_fed() {
    let mut server = server_by(NetConfig::default(), Clock::given());
    let to = server.addr();
    let deadline_ms = NetConfig::default().upgrade_timeout_ms;
    let connected = |server: &mut Bench| {
        let stream = connect(to);
        while server.net.connection_count() == 0 {
            server.turn();
        }
        stream
    };
    let silent = connected(&mut server);
    assert_eq!(server.closed_after(deadline_ms), CloseReason::Upgrade);
    drop(silent);
    let mut fed = connected(&mut server);
    // One byte after the other, until the server has had enough.
    let reason = closed_while(&mut server, deadline_ms, || fed.write_all(b"G").unwrap());
    assert_eq!(reason, CloseReason::Upgrade);
    assert_empty(&mut server);
}

#[test]
fn a_silent_peer_is_pinged_and_given_up_when_it_does_not_answer() {
    const PING_MS: u64 = 30_000;
    let config = NetConfig {
        websocket_ping_ms: PING_MS,
        ..NetConfig::default()
    };
    let mut server = server_by(config, Clock::given());
    let to = server.addr();
    // One that answers stays.
    let mut client = beside(&mut server, || client(to));
    server.until(accepted);
    for pings in 0..5 {
        server.clock.pass(PING_MS - 1);
        server.turn();
        server.turn();
        assert_eq!(server.net.counters().websocket.pings_out, pings);
        server.clock.pass(1 + TICK_MS);
        server.turn();
        let Received::Ping(payload) = beside(&mut server, || client.receive()) else {
            panic!("no ping");
        };
        let before = server.net.counters().ws.bytes_in;
        client.send_frame(Opcode::Pong, &payload, true);
        while server.net.counters().ws.bytes_in == before {
            server.turn();
        }
    }
    // From then on it does not.
    let reason = closed_while(&mut server, 2 * PING_MS, || {});
    assert_eq!(reason, CloseReason::Idle);
    assert_eq!(server.net.counters().websocket.pings_out, 6);
    assert_empty(&mut server);
}

#[test]
fn a_message_that_is_begun_must_be_finished_pings_or_not() {
    const PING: &[u8] = b"\x89\x80\0\0\0\0";
    let deadline_ms = NetConfig::default().message_timeout_ms;
    for is_part in [false, true] {
        let mut server = server_by(NetConfig::default(), Clock::given());
        let to = server.addr();
        let mut client = beside(&mut server, || client(to));
        client.send(&request("whole"));
        server.message();
        let before = server.net.counters().ws.bytes_in;
        if is_part {
            client.send_frame(Opcode::Text, b"OPTIONS", false);
        } else {
            client.send_bytes(b"\x81\xFE\x10\x00\0\0\0\0OPTIONS");
        }
        while server.net.counters().ws.bytes_in == before {
            server.turn();
        }
        let reason = closed_while(&mut server, deadline_ms, || {
            if is_part {
                client.stream.write_all(PING).unwrap();
            }
        });
        assert_eq!(reason, CloseReason::MessageTimeout);
        assert_empty(&mut server);
    }
}

#[test]
fn many_that_began_hold_no_more_than_they_sent_and_nothing_when_they_are_gone() {
    let mut server = server(NetConfig::default());
    let to = server.addr();
    let upgrade = upgrade_request("example.com", "/", "");
    let mut streams = Vec::new();
    for nth in 0..400 {
        let mut stream = connect(to);
        match nth % 4 {
            0 => stream.write_all(&upgrade.as_bytes()[..60]).unwrap(),
            1 => stream.write_all(upgrade.as_bytes()).unwrap(),
            2 => {
                let begun = [upgrade.as_bytes(), b"\x81\xFE\xFF\xFF\0\0\0\0begun"].concat();
                stream.write_all(&begun).unwrap();
            }
            _ => {
                let part = [
                    upgrade.as_bytes(),
                    b"\x01\x84\0\0\0\0part\x00\x84\0\0\0\0part",
                ];
                stream.write_all(&part.concat()).unwrap();
            }
        }
        server.turn();
        streams.push(stream);
    }
    while server.net.counters().websocket.upgraded < 300
        || server.net.kept_bytes() < 100 * (60 + 13 + 8)
    {
        server.turn();
    }
    assert_eq!(server.net.kept_bytes(), 100 * (60 + 13 + 8));
    drop(streams);
    assert_empty(&mut server);
}

#[test]
fn a_reader_that_never_reads_is_closed() {
    let config = NetConfig {
        write_queue_bytes_max: 100_000,
        ..NetConfig::default()
    };
    let mut server = server_by(config, Clock::given());
    let to = server.addr();
    let stuck = beside(&mut server, || client(to));
    let flow = server.until(accepted);
    let message = request(&"x".repeat(2_000));
    while server.net.queued_bytes() < 200_000 {
        server.net.send(&Target::back(&flow), &message, 0);
        server.net.flush();
    }
    server.clock.pass(4_000);
    server.turn();
    server.net.send(&Target::back(&flow), &message, 0);
    assert_eq!(server.until(closed), CloseReason::SlowReader);
    assert!(!server.net.has_unsent());
    drop(stuck);
}

#[test]
fn the_limits_are_those_of_all_connections() {
    let config = NetConfig {
        connections_per_source_max: 2,
        ..NetConfig::default()
    };
    let mut server = server(config);
    let to = server.addr();
    let _two = [connect(to), connect(to)];
    let mut third = connect(to);
    while server.net.counters().refused_source == 0 {
        server.turn();
    }
    let end = uninterrupted(|| third.read(&mut [0; 1]));
    assert_eq!(end.unwrap_or(0), 0);
    assert_eq!(server.net.connection_count(), 2);
}
