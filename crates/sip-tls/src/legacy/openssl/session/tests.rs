use std::net::SocketAddr;

use rustls::pki_types::ServerName;

use super::*;
use crate::session::Session;
use crate::session::tests::{End, talk};
use crate::testing::{KeyKind, TestCa};
use crate::{ClientTls, ClientTlsConfig, ServerTls, ServerTlsConfig, TlsEngine};

struct World {
    server: ServerTls,
    client: ClientTls,
}

fn world(suite: &str) -> World {
    let ca = TestCa::new();
    let (chain, key) = ca.issue_with(&["example.com"], KeyKind::Rsa2048);
    World {
        server: ServerTlsConfig::new()
            .engine(TlsEngine::Legacy)
            .suites(&[suite])
            .pair_pem(chain.as_bytes(), key.as_bytes())
            .unwrap()
            .build()
            .unwrap(),
        client: ClientTlsConfig::new()
            .engine(TlsEngine::Legacy)
            .roots_pem(&[ca.root_pem().as_bytes()])
            .unwrap()
            .build()
            .unwrap(),
    }
}

fn peer() -> (SocketAddr, ServerName<'static>) {
    let name = ServerName::try_from("example.com").unwrap();
    (SocketAddr::from(([127, 0, 0, 1], 5061)), name)
}

fn pair(world: &World) -> (End, End) {
    let (addr, name) = peer();
    let mut said = Vec::new();
    let session = world.client.begin_legacy(addr, &name, &mut said);
    let mut client = End::new(session.unwrap().unwrap());
    client.said = said;
    (
        End::new(
            world
                .server
                .side(std::net::Ipv4Addr::LOCALHOST.into())
                .begin()
                .unwrap(),
        ),
        client,
    )
}

#[test]
fn a_handshake_and_data_pass_at_every_split() {
    let (addr, name) = peer();
    for suite in crate::LEGACY_SUITE_NAMES {
        let world = world(suite);
        for chunk in [1, 2, 3, 5, 7, 100, 1_000, 100_000] {
            let (mut server, mut client) = pair(&world);
            talk(&mut server, &mut client, chunk, &mut |_, _| {});
            assert!(server.established && client.established, "{chunk}");
            // The first leaves a ticket to those after it.
            assert_eq!(server.session.is_resumed(), chunk != 1);
            assert_eq!(client.session.is_resumed(), chunk != 1);
            let held = client.session.legacy_resumable().unwrap();
            world.client.keep_legacy(addr, &name, held);
            let (_, place, group) = server.session.negotiated().unwrap();
            assert_eq!(crate::SUITE_NAMES[usize::from(place)], suite);
            assert_eq!(group, None);
            server.data.clear();
            client.data.clear();
            let message: Vec<u8> = (0..40_000u32).map(|n| n as u8).collect();
            let records = client.send(&message);
            for piece in records.chunks(chunk) {
                assert!(server.take(piece).is_empty());
                let answer = server.send(b"pong");
                client.take(&answer);
            }
            assert_eq!(server.data, message);
            assert_eq!(client.data, b"pong".repeat(records.chunks(chunk).len()));
        }
    }
}

#[test]
fn a_notice_of_the_end_is_understood() {
    let world = world("AES128-SHA");
    let (mut server, mut client) = pair(&world);
    talk(&mut server, &mut client, 1_000, &mut |_, _| {});
    server.data.clear();
    let mut notice = client.send(b"last");
    client
        .session
        .send_close(&mut Vec::new(), &mut notice)
        .unwrap();
    let mut data = Vec::new();
    let progress = server
        .session
        .receive(&mut notice, &mut Vec::new(), &mut |bytes| {
            data.extend_from_slice(bytes)
        })
        .unwrap();
    assert!(progress.peer_closed);
    assert_eq!(data, b"last");
}

#[test]
fn a_handshake_that_is_cut_anywhere_is_not_done() {
    let world = world("DES-CBC3-SHA");
    // What each side has to say, flight by flight.
    let mut flights = Vec::new();
    let (mut server, mut client) = pair(&world);
    talk(&mut server, &mut client, 100_000, &mut |_, bytes| {
        flights.push(bytes.clone())
    });
    assert!(flights.iter().filter(|flight| !flight.is_empty()).count() >= 4);
    for (victim, flight) in flights.iter().enumerate() {
        // The last flight may carry data behind the end of the handshake.
        let client_done = victim >= 3;
        for len in (0..flight.len()).step_by(flight.len() / 20 + 1) {
            let (mut server, mut client) = pair(&world);
            talk(&mut server, &mut client, 100_000, &mut |number, bytes| {
                if number == victim {
                    bytes.truncate(len);
                } else if number > victim {
                    bytes.clear();
                }
            });
            assert!(!client.established || client_done, "{victim} {len}");
            assert!(!server.failed && !client.failed, "{victim} {len}");
            assert!(client.data.is_empty() || client_done);
        }
    }
}

#[test]
fn spoiled_bytes_fail_with_an_alert_and_never_panic() {
    let mut failures = 0;
    let mut alerts = 0;
    for suite in crate::LEGACY_SUITE_NAMES {
        let world = world(suite);
        let mut lots = 1u64;
        let mut lot = |max: usize| {
            lots = lots.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (lots >> 33) as usize % max.max(1)
        };
        for round in 0..200 {
            let (mut server, mut client) = pair(&world);
            let (victim, chunk) = (lot(6), [3, 50, 100_000][round % 3]);
            let mut spoil = |number: usize, bytes: &mut Vec<u8>| {
                if number != victim || bytes.is_empty() {
                    return;
                }
                let place = lot(bytes.len());
                match lot(4) {
                    0 => bytes[place] ^= 1 << lot(8),
                    1 => bytes.truncate(place),
                    2 => bytes.insert(place, lot(256) as u8),
                    _ => bytes.extend_from_within(place..),
                }
            };
            talk(&mut server, &mut client, chunk, &mut spoil);
            let mut record = client.send(b"data");
            if !record.is_empty() {
                // Behind the header, so that it is a record, but a wrong one.
                let place = HEADER_BYTES + lot(record.len() - HEADER_BYTES);
                record[place] ^= 0x10;
                let had = server.data.len();
                alerts += usize::from(!server.take(&record).is_empty());
                assert_eq!(server.data.len(), had);
            }
            failures += usize::from(server.failed || client.failed);
        }
    }
    assert!(failures > 200, "{failures}");
    assert!(alerts > 50, "{alerts}");
}

#[test]
fn what_is_no_tls_fails() {
    let world = world("AES128-SHA");
    for bytes in [
        &b"REGISTER sip:example.com SIP/2.0\r\n"[..],
        &[22, 9, 9, 0, 1, 0],
        &[22, 3, 1, 0, 4, 1, 0, 0, 0],
        &[0; 64],
        &[23, 3, 3, 0, 5, 1, 2, 3, 4, 5],
    ] {
        let session: Session = world
            .server
            .side(std::net::Ipv4Addr::LOCALHOST.into())
            .begin()
            .unwrap();
        let mut server = End::new(session);
        server.take(bytes);
        assert!(server.failed && !server.established, "{bytes:?}");
        // Whatever comes after it is not taken for anything.
        assert!(server.take(b"more").is_empty());
    }
}

#[test]
fn records_are_taken_whole_and_what_is_none_at_once() {
    let record = |len: usize| {
        let mut bytes = vec![23, 3, 3];
        bytes.extend(u16::try_from(len).unwrap().to_be_bytes());
        bytes.resize(HEADER_BYTES + len, 7);
        bytes
    };
    let mut two = record(10);
    two.extend(record(20));
    for len in 0..two.len() {
        let whole = if len < 15 { 0 } else { 15 };
        assert_eq!(whole_records(&two[..len]), whole, "{len}");
    }
    assert_eq!(whole_records(&two), two.len());
    assert_eq!(whole_records(b"REG"), 3);
    assert_eq!(whole_records(&[23, 9, 3, 0, 9]), 5);
    assert_eq!(whole_records(&record(SEALED_MAX)[..100]), 0);
    assert_eq!(whole_records(&record(SEALED_MAX + 1)[..100]), 100);
}
