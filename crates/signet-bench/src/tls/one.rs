//! Calls over one TLS connection on each side: what a server's own work is,
//! above a relay that decrypts and encrypts without reading.

use super::load::Calls;
use super::record::Figure;
use super::servers::{Listen, Plan};
use super::{Bench, Kind, Server};
use crate::aims::Relation;

const RATES: [u64; 2] = [1_000, 2_000];
const WHAT: &str = "cpu_us_per_call";
const ALL: [Server; 4] = [
    Server::Floor,
    Server::Kamailio,
    Server::Before,
    Server::Signet,
];

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), String> {
    for repeat in 0..bench.repeats() {
        for rate in RATES {
            for server in bench.order(&ALL, repeat) {
                match stretch(bench, server, rate, repeat) {
                    Ok(figure) => bench.record.add(figure),
                    Err(error) if !server.must_be_measured() => {
                        let (case, name) = (case(rate), server.name());
                        eprintln!("{case} {name}: not measured: {error}");
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }
    for rate in RATES {
        let case = case(rate);
        let [floor, kamailio, _, signet] =
            ALL.map(|server| bench.record.median(&case, server.name(), WHAT));
        let ratio = match (floor, kamailio, signet) {
            (Some(floor), Some(kamailio), Some(signet)) => {
                Some((signet - floor) / (kamailio - floor))
            }
            _ => None,
        };
        bench.record.bar(
            (
                &case,
                "CPU per call above the floor, Signet's over Kamailio's",
            ),
            ratio,
            (Relation::AtMost, 1.0 / 3.0),
            &[&case],
        );
    }
    Ok(())
}

fn case(rate: u64) -> String {
    format!("tls13-one-{rate}")
}

fn stretch(bench: &Bench<'_>, server: Server, rate: u64, repeat: usize) -> Result<Figure, String> {
    let plan = Plan {
        listens: vec![Listen::Tls(Kind::P256)],
        next: "tls",
    };
    let mut process = bench.start(server, &plan, false)?;
    let (warm_s, seconds) = (bench.warm_s(server), bench.seconds());
    let mut load = bench.call(&Calls {
        transport: "tls",
        port: bench.tls_port(Kind::P256),
        answers: "tls",
        connection: "one",
        rate,
        seconds: warm_s + seconds + 2,
        more: ["--tls", "1.3"].map(str::to_owned).to_vec(),
    })?;
    load.wait_until(warm_s + 1)?;
    let stretch = process.stretch();
    load.wait_until(warm_s + 1 + seconds)?;
    let (spent_ns, elapsed_s) = stretch.end();
    let told = load.end()?;
    process.must_run(server.name())?;
    let calls = rate as f64 * elapsed_s * told.share_of_due();
    Ok(Figure {
        case: case(rate),
        server: server.name(),
        what: WHAT,
        value: spent_ns as f64 / 1_000.0 / calls.max(1.0),
        repeat,
        load: Some(told),
    })
}
