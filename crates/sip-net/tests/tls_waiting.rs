//! Clients whose handshakes wait for this side, and what those cost that let it wait.
#![allow(clippy::unwrap_used)]

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::common::{Bench, stream_from};
use crate::tls_storm::{World, connect, plain_hello, turn_until};
use sip_net::clock::Clock;
use sip_tls::{HandshakeConfig, HandshakePool};

/// Without threads the worker does eight full handshakes in a turn, and leaves the sockets of
/// the others unread.
const IN_A_TURN: usize = 8;

/// So many places, and no threads.
fn alone(handshakes_max: usize) -> HandshakeConfig {
    HandshakeConfig {
        threads: 0,
        handshakes_max,
        hello_timeout_ms: 60_000,
        timeout_ms: 60_000,
        ..HandshakeConfig::default()
    }
}

/// So many clients that have said nothing.
fn silent(server: &mut Bench, pool: &HandshakePool, count: usize) -> Vec<TcpStream> {
    let addr = server.addr();
    let under_way = pool.counters().under_way + count as u64;
    let clients = (0..count).map(|_| TcpStream::connect(addr).unwrap());
    let clients = clients.collect();
    turn_until(server, pool, |now| now.under_way == under_way);
    clients
}

fn say(clients: &mut [TcpStream], bytes: &[u8]) {
    for client in clients {
        client.write_all(bytes).unwrap();
    }
}

/// How the server has ended a connection; `Ok` where it is still open.
fn end(mut stream: &TcpStream) -> Result<(), Option<ErrorKind>> {
    stream.set_nonblocking(true).unwrap();
    match stream.read_to_end(&mut Vec::new()).map_err(|e| e.kind()) {
        Err(ErrorKind::WouldBlock) => Ok(()),
        Err(error) => Err(Some(error)),
        Ok(_) => Err(None),
    }
}

fn is_closed(stream: &TcpStream) -> bool {
    end(stream).is_err()
}

fn is_reset(stream: &TcpStream) -> bool {
    end(stream) == Err(Some(ErrorKind::ConnectionReset))
}

/// Else a storm has those closed that did all they had to, for the time in which nobody listened.
#[test]
fn who_has_spoken_and_was_not_listened_to_is_not_timed_out() {
    let world = World::new();
    let config = HandshakeConfig {
        hello_timeout_ms: 1_000,
        ..alone(100)
    };
    let (mut server, pool) = world.server_by(config, Clock::given());
    let mut clients = silent(&mut server, &pool, 41);
    let hello = plain_hello();
    say(&mut clients[..40], &hello);
    say(&mut clients[40..], &hello[..50]);
    // Longer than all of them may be silent, with the time that deadlines are kept in.
    server.clock.pass(1_100);
    server.turn();
    let now = pool.counters();
    assert_eq!((now.timed_out, now.full_begun), (0, IN_A_TURN as u64));
    turn_until(&mut server, &pool, |now| now.full_begun == 40);
    // What the last one said was no hello, as is known by now.
    let patience = Instant::now();
    while pool.counters().timed_out == 0 {
        assert!(patience.elapsed() < Duration::from_secs(30), "{pool:?}");
        server.clock.pass(1);
        server.turn();
    }
    assert!(is_closed(&clients[40]));
    let now = pool.counters();
    assert_eq!((now.timed_out, now.under_way), (1, 40));
}

/// Who sends a record byte by byte pays for one record, and not for each byte.
#[test]
fn the_beginning_of_a_record_takes_no_turn() {
    let world = World::new();
    let (mut server, pool) = world.server_by(alone(100), Clock::given());
    let mut begun = silent(&mut server, &pool, 64);
    say(&mut begun, &plain_hello());
    turn_until(&mut server, &pool, |now| now.full_begun == 64);
    for kept in 1..=3 {
        say(&mut begun, &[22]);
        let patience = Instant::now();
        while server.net.kept_bytes() < 64 * kept {
            assert!(patience.elapsed() < Duration::from_secs(30), "{pool:?}");
            server.turn();
            // As many steps are more than a turn has room for.
            assert_eq!(pool.counters().unread, 0);
        }
    }
}

/// Its socket is read once more than there is something on it: then it still lets this side wait.
#[test]
fn who_was_to_be_read_and_had_nothing_to_say_is_chosen_again() {
    let world = World::new();
    let (mut server, pool) = world.server_by(alone(2 * IN_A_TURN + 1), Clock::given());
    let addr = server.addr();
    let mut dribbler = silent(&mut server, &pool, 1);
    let mut busy = silent(&mut server, &pool, 2 * IN_A_TURN);
    let (first, second) = busy.split_at_mut(IN_A_TURN);
    let hello = plain_hello();
    // The turn is over before what it says is read.
    say(first, &hello);
    say(&mut dribbler, &hello[..1]);
    server.turn();
    assert_eq!((pool.counters().unread, server.net.kept_bytes()), (1, 0));
    // In the next one it is read first, both bytes; and then it was ready once more.
    say(second, &hello);
    say(&mut dribbler, &hello[1..2]);
    server.turn();
    assert_eq!((pool.counters().unread, server.net.kept_bytes()), (1, 2));
    // One that is to be read is not closed: the one goes that has left its answer alone.
    server.clock.pass(1_000);
    let mut newcomers = vec![TcpStream::connect(addr).unwrap()];
    turn_until(&mut server, &pool, |now| now.refused == 1);
    assert!(is_closed(&busy[0]) && !is_closed(&dribbler[0]));
    turn_until(&mut server, &pool, |now| now.unread == 0);
    // Nothing was there, and it has been silent for longest.
    newcomers.push(TcpStream::connect(addr).unwrap());
    turn_until(&mut server, &pool, |now| now.refused == 2);
    assert!(is_closed(&dribbler[0]) && !busy[1..].iter().any(is_closed));
    assert!(!newcomers.iter().any(is_closed));
}

/// Who holds connections open and says nothing does not have others served by the threads alone.
#[test]
fn silent_connections_are_no_storm() {
    let world = World::new();
    let (mut server, pool) = world.server_by(HandshakeConfig::default(), Clock::given());
    let silent = silent(&mut server, &pool, 100);
    let client = connect(server.addr(), &plain_hello());
    turn_until(&mut server, &pool, |now| now.full_begun == 1);
    assert_eq!(pool.counters().full_on_workers, 1);
    drop((silent, client));
}

/// Else one address has the handshakes of all others refused.
#[test]
fn the_queue_for_threads_is_not_one_sources() {
    let world = World::new();
    let config = HandshakeConfig {
        full_queue_max: 40,
        full_per_s_max: 1,
        ..HandshakeConfig::default()
    };
    let (mut server, pool) = world.server_by(config, Clock::given());
    let (addr, hello) = (server.addr(), plain_hello());
    let mut come = 0;
    let mut connect_from = |server: &mut Bench, last: u8| {
        let mut stream = stream_from([127, 0, 0, last], addr);
        stream.write_all(&hello).unwrap();
        come += 1;
        let all = come;
        turn_until(server, &pool, |now| {
            now.full_begun + now.full_waiting + now.refused_full == all
                && now.under_way + now.refused_full == all
                && now.refused == now.refused_full
        });
        stream
    };
    let mut flood = Vec::new();
    while pool.counters().refused_full == 0 {
        flood.push(connect_from(&mut server, 8));
    }
    assert!(is_reset(&flood.pop().unwrap()));
    // Whoever comes then finds room, or is given some.
    let mut others = Vec::new();
    for last in 10.. {
        others.push(connect_from(&mut server, last));
        if pool.counters().refused_full == 2 {
            break;
        }
    }
    assert!(is_reset(&flood.pop().unwrap()));
    assert!(!flood.iter().chain(&others).any(is_reset));
    assert_eq!(pool.counters().under_way, come - 2);
}
