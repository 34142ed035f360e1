//! What authentication costs: nanoseconds for each step, on one core.
//!
//! `cargo bench -p sip-auth`
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a measuring tool"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use sip_auth::{
    Algorithm, Attempt, AuthConfig, Authenticator, Check, ClientAuth, Ha1Set, Reply, RequestParts,
    Side,
};
use sip_msg::{Limits, Message};

const ROUNDS: usize = 100_000;

fn main() {
    let realm: Arc<str> = "example.org".into();
    let set = Ha1Set::compute(b"alice", b"example.org", b"swordfish");
    print!("{:<14}", "algorithm");
    for column in ["challenge", "check", "right", "wrong", "unknown", "client"] {
        print!("{column:>12}");
    }
    println!();
    for algorithm in Algorithm::ALL {
        let config = AuthConfig {
            algorithms: vec![algorithm],
            ..AuthConfig::default()
        };
        let server = Authenticator::new(config, &[7; 32], 1);
        let mut out = Vec::new();
        let challenge_ns = per_round(ROUNDS, |_| {
            out.clear();
            server.write_challenge(black_box(1_000), Side::Registrar, &realm, false, &mut out);
        });

        // As phones do that never use a nonce again: a new one for each request.
        let mut client_ns = 0.0;
        let requests: Vec<Message> = (0..ROUNDS)
            .map(|_| {
                out.clear();
                server.write_challenge(1_000, Side::Registrar, &realm, false, &mut out);
                let lines = String::from_utf8(out.clone()).unwrap();
                let text = format!("SIP/2.0 401 Unauthorized\r\n{lines}Content-Length: 0\r\n\r\n");
                let response = Message::parse(text.as_bytes(), &Limits::default()).unwrap();
                let (mut client, mut attempt) = (ClientAuth::new(), Attempt::default());
                client.add(&realm, "alice", "swordfish");
                client.handle_challenge(&mut attempt, &response).unwrap();
                out.clear();
                let parts = RequestParts { method: b"REGISTER", uri: b"sip:example.org", body: b"" };
                let begun = Instant::now();
                client.write_credentials(&mut attempt, parts, 0x1234_5678, &mut out);
                client_ns += begun.elapsed().as_nanos() as f64;
                let line = String::from_utf8(out.clone()).unwrap();
                let text = format!(
                    "REGISTER sip:example.org SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK74bf9\r\n\
                     Max-Forwards: 70\r\nFrom: <sip:alice@example.org>;tag=a73kszlfl\r\nTo: <sip:alice@example.org>\r\n\
                     Call-ID: 1j9FpLxk3uxtm8tn@192.0.2.1\r\nCSeq: 2 REGISTER\r\nContact: <sip:alice@192.0.2.1>\r\n\
                     {line}Content-Length: 0\r\n\r\n"
                );
                Message::parse(text.as_bytes(), &Limits::default()).unwrap()
            })
            .collect();

        let checked = |cost: &mut f64| {
            let mut all = Vec::with_capacity(ROUNDS);
            *cost = per_round(ROUNDS, |at| {
                match server.check(1_000, &requests[at], Side::Registrar, &realm) {
                    Check::Lookup(found) => all.push(found),
                    other => panic!("{other:?}"),
                }
            });
            all.into_iter()
        };
        let mut check_ns = 0.0;
        // A wrong password and an unknown user must cost the same.
        let other = Ha1Set::compute(b"alice", b"example.org", b"marlin");
        let secret = |of: &Ha1Set| Reply::Secret(of.get(algorithm).clone());
        let replies = [secret(&set), secret(&other), Reply::Unknown];
        let [right_ns, wrong_ns, unknown_ns] = replies.map(|reply| {
            let mut pending = checked(&mut check_ns);
            per_round(ROUNDS, |_| {
                drop(black_box(server.finish(
                    1_000,
                    pending.next().unwrap(),
                    &reply,
                )))
            })
        });
        let client_ns = client_ns / ROUNDS as f64;
        print!("{:<14}", algorithm.as_str());
        for ns in [
            challenge_ns,
            check_ns,
            right_ns,
            wrong_ns,
            unknown_ns,
            client_ns,
        ] {
            print!("{ns:>9.0} ns");
        }
        println!();
    }
}

fn per_round(rounds: usize, mut round: impl FnMut(usize)) -> f64 {
    let begun = Instant::now();
    for at in 0..rounds {
        round(at);
    }
    begun.elapsed().as_nanos() as f64 / rounds as f64
}
