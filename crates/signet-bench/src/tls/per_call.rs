//! A connection per call, from the caller to the server; from the server to
//! the called side one TCP connection for all. What TLS adds to the same call
//! over TCP, by handshake.

use super::load::Calls;
use super::record::Figure;
use super::servers::{Listen, Plan};
use super::{Bench, Kind, Server};
use crate::aims::Relation;

const WHAT: &str = "cpu_us_per_call";
const RAW: &str = "cpu_us_per_handshake";
/// Calls a second, the same for all cases, so that each is held against the
/// same call over TCP. At the first full handshakes with RSA keep the server's
/// core about a third busy, and Kamailio's nearly wholly; at the second Signet's
/// two thirds.
const RATES: [u64; 2] = [700, 1_400];
const SERVERS: [Server; 3] = [Server::Kamailio, Server::Before, Server::Signet];
/// Seconds before each stretch, on a server that is warm.
const SETTLE_S: u64 = 1;

impl Server {
    /// The rates at which its connections per call are measured.
    fn rates(self) -> &'static [u64] {
        match self {
            Self::Signet | Self::Before => &RATES,
            Self::Floor | Self::Kamailio => RATES.get(..1).unwrap_or_default(),
        }
    }
}

/// What a figure of a case at a rate is called.
fn named(case: &str, rate: u64) -> String {
    format!("{case}-{rate}")
}

/// A handshake.
struct Case {
    name: &'static str,
    /// `None` for TCP.
    kind: Option<Kind>,
    options: &'static [&'static str],
}

const TCP: &str = "tcp-per-call";

const CASES: [Case; 9] = [
    Case {
        name: TCP,
        kind: None,
        options: &[],
    },
    Case {
        name: "tls13-full-rsa2048",
        kind: Some(Kind::Rsa2048),
        options: &["--tls", "1.3"],
    },
    Case {
        name: "tls13-full-p256",
        kind: Some(Kind::P256),
        options: &["--tls", "1.3"],
    },
    Case {
        name: "tls13-full-ed25519",
        kind: Some(Kind::Ed25519),
        options: &["--tls", "1.3"],
    },
    Case {
        name: "tls13-resumed",
        kind: Some(Kind::Rsa2048),
        // A ticket of TLS 1.3 serves once: each caller has his own.
        options: &[
            "--tls", "1.3", "--resume", "all", "--agents", "300", "--user", "user{n}",
        ],
    },
    Case {
        name: "tls12-full-rsa2048",
        kind: Some(Kind::Rsa2048),
        options: &["--tls", "1.2"],
    },
    Case {
        name: "tls12-full-p256",
        kind: Some(Kind::P256),
        options: &["--tls", "1.2"],
    },
    Case {
        name: "tls12-resumed-id",
        kind: Some(Kind::Rsa2048),
        options: &["--tls", "1.2", "--resume", "all", "--resume-by", "ids"],
    },
    Case {
        name: "tls12-resumed-ticket",
        kind: Some(Kind::Rsa2048),
        options: &["--tls", "1.2", "--resume", "all", "--resume-by", "tickets"],
    },
];

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), String> {
    for repeat in 0..bench.repeats() {
        let raw = bench.raw()?;
        for kind in Kind::ALL {
            bench.record.add(Figure {
                case: format!("raw-{}", kind.name()),
                server: "raw",
                what: RAW,
                value: raw.of(kind),
                repeat,
                load: None,
            });
        }
        for server in bench.order(&SERVERS, repeat) {
            for rate in server.rates() {
                round(bench, server, *rate, repeat)?;
            }
        }
    }
    bars(bench);
    Ok(())
}

/// All cases, one after the other on the same server, which stays as busy with
/// the ends of calls all the while.
fn round(bench: &mut Bench<'_>, server: Server, rate: u64, repeat: usize) -> Result<(), String> {
    let mut listens = vec![Listen::Tcp];
    listens.extend(Kind::ALL.map(Listen::Tls));
    let mut process = bench.start(
        server,
        &Plan {
            listens,
            next: "tcp",
        },
        false,
    )?;
    let mut order: Vec<&Case> = CASES.iter().collect();
    if repeat % 2 == 1 {
        order.reverse();
    }
    let seconds = bench.seconds();
    let mut warm_s = bench.warm_s(server);
    for case in order {
        let (transport, port) = match case.kind {
            None => ("tcp", bench.port(super::ports::PLAIN)),
            Some(kind) => ("tls", bench.tls_port(kind)),
        };
        let mut load = bench.call(&Calls {
            transport,
            port,
            answers: "tcp",
            connection: "per-call",
            rate,
            seconds: warm_s + seconds + 1,
            more: case.options.iter().map(|&word| word.to_owned()).collect(),
        })?;
        load.wait_until(warm_s + 1)?;
        let stretch = process.stretch();
        load.wait_until(warm_s + 1 + seconds)?;
        let (spent_ns, elapsed_s) = stretch.end();
        let told = load.end().and_then(|told| {
            process.must_run(server.name())?;
            // What is the cost of a call that nobody could make?
            if told.share_ok() < 0.5 {
                return Err(told.remarks().join("; "));
            }
            Ok(told)
        });
        let told = match told {
            Ok(told) => told,
            // What a peer cannot do is no figure of it.
            Err(error) if !server.must_be_measured() => {
                eprintln!(
                    "{} {}: not measured: {error}",
                    named(case.name, rate),
                    server.name()
                );
                continue;
            }
            Err(error) => return Err(format!("{}: {error}", named(case.name, rate))),
        };
        let calls = rate as f64 * elapsed_s * told.share_of_due();
        let handshakes = (told.handshakes_full + told.handshakes_resumed).max(1) as f64;
        let resumed_percent = told.handshakes_resumed as f64 * 100.0 / handshakes;
        let mut figure = |what: &'static str, value: f64, load| {
            bench.record.add(Figure {
                case: named(case.name, rate),
                server: server.name(),
                what,
                value,
                repeat,
                load,
            });
        };
        if case.options.contains(&"--resume") {
            figure("resumed_percent", resumed_percent, None);
        }
        figure("core_busy_percent", spent_ns as f64 / 1e7 / elapsed_s, None);
        figure(WHAT, spent_ns as f64 / 1_000.0 / calls.max(1.0), Some(told));
        warm_s = SETTLE_S;
    }
    Ok(())
}

/// What TLS adds to a call.
fn added(bench: &Bench<'_>, server: Server, case: &str, rate: u64) -> Option<f64> {
    let of = |case| bench.record.median(&named(case, rate), server.name(), WHAT);
    Some(of(case)? - of(TCP)?)
}

fn bars(bench: &mut Bench<'_>) {
    for server in SERVERS {
        for &rate in server.rates() {
            for case in CASES.iter().filter(|case| case.kind.is_some()) {
                if let Some(value) = added(bench, server, case.name, rate) {
                    bench.record.add(Figure {
                        case: named(case.name, rate),
                        server: server.name(),
                        what: "added_to_tcp_us",
                        value,
                        repeat: 0,
                        load: None,
                    });
                }
            }
        }
    }
    for rate in RATES {
        bars_at(bench, rate);
    }
}

fn bars_at(bench: &mut Bench<'_>, rate: u64) {
    let tcp = named(TCP, rate);
    for (kind, limit) in [(Kind::Rsa2048, 1.3), (Kind::P256, 2.5)] {
        let case = format!("tls13-full-{}", kind.name());
        let raw_case = format!("raw-{}", kind.name());
        let raw = bench.record.median(&raw_case, "raw", RAW);
        let ratio = added(bench, Server::Signet, &case, rate)
            .zip(raw)
            .map(|(added, raw)| added / raw);
        let case = named(&case, rate);
        bench.record.bar(
            (
                &case,
                "what TLS adds to a call over TCP, over the raw public-key operations",
            ),
            ratio,
            (Relation::AtMost, limit),
            &[&case, &tcp],
        );
    }
    for case in ["tls12-resumed-id", "tls12-resumed-ticket"] {
        let full = "tls12-full-rsa2048";
        let ratio = added(bench, Server::Signet, case, rate)
            .zip(added(bench, Server::Signet, full, rate))
            .map(|(resumed, full)| resumed / full);
        let (case, full) = (named(case, rate), named(full, rate));
        bench.record.bar(
            (
                &case,
                "what TLS adds to a call over TCP, resumed over full with RSA-2048",
            ),
            ratio,
            (Relation::AtMost, 1.0 / 8.0),
            &[&case, &full, &tcp],
        );
    }
}
