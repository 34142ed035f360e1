//! What the server does outward: names that it resolves, and servers that it
//! takes for whom they say they are. And how soon TLS answers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection};

use crate::digest::Challenge;
use crate::phone::PATIENCE;
use crate::scenario::{Scale, Scenario, Tally};
use crate::stream::Stream;
use crate::target::Setup;
use crate::wire::{Draft, word};
use crate::world::World;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "outgoing.dns-slots",
        tries: "A user calls more names that are never resolved than may be under way, and another calls a number.",
        through: "a number whose gateway, known by name, is not reached.",
        setup: |setup: &mut Setup| {
            setup.own_configuration = true;
            "sip:gw.test:@PORT@;transport=udp".clone_into(&mut setup.gateway);
            setup.dns.push_str("queries_max = 64\n");
        },
        not_kamailio: Some("its resolver is the machine's"),
        run: dns_slots,
    },
    Scenario {
        name: "impersonation.server",
        tries: "Somebody answers in the place of a gateway over TLS, with its name in a certificate of his own.",
        through: "a byte of SIP.",
        setup: |setup: &mut Setup| {
            setup.own_configuration = true;
            "sips:gw.test:@IMPOSTOR@".clone_into(&mut setup.gateway);
        },
        not_kamailio: Some("its configuration has no TLS"),
        run: impostor,
    },
    Scenario {
        name: "outgoing.first-answer",
        tries: "New TLS 1.3 connections without TCP_NODELAY, and a request on each.",
        through: "no answer; half of the answers later than 20 ms.",
        setup: |_| {},
        not_kamailio: Some("its configuration has no TLS"),
        run: first_answer,
    },
];

fn dns_slots(world: &mut World, _: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let draft = Draft::new("MESSAGE", &world.mallory_aor(), &world.bob_aor());
    let first = world.mallory.ask(world.to(), &draft)?;
    let challenge = first
        .all("Proxy-Authenticate")
        .find_map(Challenge::read)
        .ok_or("a MESSAGE is not challenged")?;
    for n in 1..=200 {
        let uri = format!("sip:x@n{n}.slow.test");
        let value = challenge.answer(world.mallory_account(), "MESSAGE", &uri, n);
        let draft =
            Draft::new("MESSAGE", &world.mallory_aor(), &uri).with("Proxy-Authorization", &value);
        world.mallory.send(world.to(), &draft);
        tally.try_many(1);
    }
    world.settle_briefly();
    let mark = word("number");
    let call = Draft::new("MESSAGE", &world.alice_aor(), &world.number()).mark(&mark);
    let begun = Instant::now();
    let (_, answer) = world
        .alice
        .ask_as(world.to(), &call, world.alice_account())?;
    let late = begun.elapsed() > Duration::from_secs(3);
    let lost = world.gateway.marked(&mark) == 0;
    tally.judge(lost || late, || {
        format!("a call to a number got {}", answer.start)
    });
    Ok(tally)
}

/// A TLS server with a certificate that it made itself for `gw.test`; the bytes
/// that it was sent under TLS.
fn listen_in(socket: &mut TcpStream) -> Result<usize, String> {
    let made = rcgen::generate_simple_self_signed(vec!["gw.test".to_owned()])
        .map_err(|e| e.to_string())?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .map_err(|e| e.to_string())?;
    let mut session = ServerConnection::new(Arc::new(config)).map_err(|e| e.to_string())?;
    let _ = socket.set_read_timeout(Some(Duration::from_secs(1)));
    let mut stream = rustls::Stream::new(&mut session, socket);
    let mut buffer = [0; 4_096];
    // An alert ends the handshake with an error, and nothing was read.
    let read = stream.read(&mut buffer).unwrap_or(0);
    let _ = stream.flush();
    Ok(read)
}

fn impostor(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    for _ in 0..scale.of(1, 10) {
        let draft = world.alice.invite(&world.alice_aor(), &world.number());
        let first = world.alice.ask(world.to(), &draft)?;
        let next = crate::phone::authorize(&draft, &first, world.alice_account())
            .ok_or("a call is not challenged")?;
        world.alice.send(world.to(), &next);
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until {
            match world.impostor.accept() {
                Ok((mut socket, _)) => {
                    let _ = socket.set_nonblocking(false);
                    let read = listen_in(&mut socket)?;
                    tally.judge(read > 0, || {
                        format!("{read} bytes of SIP came to the impostor")
                    });
                    break;
                }
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
    Ok(tally)
}

fn first_answer(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let tls = world.server.tls.ok_or("it has no TLS address")?;
    let mut delays_us = Vec::new();
    for _ in 0..scale.of(5, 60) {
        let mut stream = Stream::tls(tls, &world.domain)?;
        let draft = Draft::new(
            "OPTIONS",
            "sip:x@x.invalid",
            &format!("sip:{}", world.server.place()),
        );
        let begun = Instant::now();
        let answer = stream.ask(PATIENCE, &draft);
        delays_us.push(begun.elapsed().as_micros());
        tally.judge(answer.is_none(), || "no answer over TLS".to_owned());
    }
    delays_us.sort_unstable();
    let middle = delays_us.get(delays_us.len() / 2).copied().unwrap_or(0);
    if !scale.quick {
        tally.note(format!(
            "half of the first answers came within {middle} us, handshake included"
        ));
        tally.break_in(u64::from(middle > 20_000), || "that is late".to_owned());
    }
    Ok(tally)
}
