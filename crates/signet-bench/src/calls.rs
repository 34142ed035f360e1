//! CPU per call: the floor, Kamailio and Signet, each on one core with one
//! worker, the load on the other.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::ServeArguments;
use crate::own::{self, Own, OwnTransport};
use crate::process::Process;
use crate::report::{Measurement, Results};
use crate::sipp::{self, SippTransport};

/// Where the servers run, and where the load does.
pub(crate) const SERVER_CORE: &str = "0";
pub(crate) const LOAD_CORE: &str = "1";
pub(crate) const SERVER_PORT: u16 = 5060;
const CALLED_PORT: u16 = 5070;

/// A server that can stand between SIPp and SIPp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Floor,
    Kamailio,
    Signet,
}

impl Server {
    fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Kamailio => "kamailio",
            Self::Signet => "signet",
        }
    }

    /// Seconds until as much ends in each second as begins. Signet's transactions
    /// live for 64*T1 after a call, Kamailio's for five seconds.
    fn warm_s(self) -> u64 {
        match self {
            Self::Floor => 2,
            Self::Kamailio => 8,
            Self::Signet => 36,
        }
    }
}

struct Case {
    name: String,
    transport: SippTransport,
    rate: u64,
    /// Whether the project's own generator is the load, and not SIPp.
    own: bool,
}

/// Runs every wanted case, each server in turn, the order reversed in every
/// other repeat.
pub(crate) fn run(
    arguments: &ServeArguments,
    wanted: &dyn Fn(&str) -> bool,
    results: &mut Results,
) -> Result<(), String> {
    let transports = [
        ("udp", SippTransport::Udp),
        ("tcp-one", SippTransport::TcpOne),
        ("tcp-per-call", SippTransport::TcpPerCall),
    ];
    for (name, transport) in transports {
        let mut cases = Vec::new();
        // A port of a caller that opens connections is free again a minute later:
        // with 28,000 of them a run of 48 s holds no more than this.
        let base = if transport == SippTransport::TcpPerCall {
            500
        } else {
            2_000
        };
        let base_name = format!("{name}-{base}");
        if wanted(&base_name) {
            cases.push(Case {
                name: base_name,
                transport,
                rate: base,
                own: false,
            });
        }
        if transport != SippTransport::TcpPerCall && wanted(&format!("{name}-peak")) {
            let rate = highest_rate(arguments, transport)?;
            eprintln!("{name}: the load holds {rate} calls/s through the floor");
            cases.push(Case {
                name: format!("{name}-peak-{rate}"),
                transport,
                rate,
                own: false,
            });
        }
        for &rate in own_rates(transport) {
            let name = format!("{name}-own-{rate}");
            if wanted(&name) {
                cases.push(Case {
                    name,
                    transport,
                    rate,
                    own: true,
                });
            }
        }
        for case in &cases {
            for repeat in 0..arguments.repeats {
                let mut order = [Server::Floor, Server::Kamailio, Server::Signet];
                if repeat % 2 == 1 {
                    order.reverse();
                }
                for server in order.into_iter().filter(|s| arguments.wants(s.name())) {
                    let measured = if case.own {
                        measure_own(arguments, case, server, arguments.seconds)?
                    } else {
                        measure(arguments, case, server, arguments.seconds)?
                    };
                    eprintln!(
                        "{} {}: {:.1} us of CPU a call, {} calls, {} failed, {} retransmissions",
                        case.name,
                        server.name(),
                        measured.cpu_us_per_call,
                        measured.calls,
                        measured.failed,
                        measured.retransmissions
                    );
                    results.add(measured);
                }
            }
        }
        let peak_name = format!("{name}-own-peak");
        if wanted(&peak_name) {
            for server in [Server::Floor, Server::Kamailio, Server::Signet] {
                if arguments.wants(server.name()) {
                    let measured = match measure_peak(arguments, &peak_name, transport, server) {
                        Ok(measured) => measured,
                        Err(error) => {
                            eprintln!("{peak_name} {}: not measured: {error}", server.name());
                            results.miss(&peak_name, server.name(), &error);
                            continue;
                        }
                    };
                    eprintln!(
                        "{peak_name} {}: {} calls/s, {:.1} us of CPU a call at nine tenths of it",
                        server.name(),
                        measured.rate,
                        measured.cpu_us_per_call
                    );
                    results.add(measured);
                }
            }
        }
    }
    Ok(())
}

/// The rates at which the project's own generator is the load.
fn own_rates(transport: SippTransport) -> &'static [u64] {
    match transport {
        SippTransport::Udp | SippTransport::TcpOne => &[2_000, 5_000, 10_000],
        SippTransport::TcpPerCall => &[1_000],
    }
}

fn own_transport(transport: SippTransport) -> OwnTransport {
    match transport {
        SippTransport::Udp => OwnTransport::Udp,
        SippTransport::TcpOne => OwnTransport::TcpOne,
        SippTransport::TcpPerCall => OwnTransport::TcpPerCall,
    }
}

/// The same as [`measure`] with the project's own generator as the load.
fn measure_own(
    arguments: &ServeArguments,
    case: &Case,
    server: Server,
    seconds: u64,
) -> Result<Measurement, String> {
    let out = arguments.out.as_path();
    let process = start(arguments, case, server, out)?;
    std::thread::sleep(Duration::from_millis(700));
    own_stretch(
        arguments,
        case,
        server,
        (server.warm_s(), seconds),
        &process,
    )
}

fn own_stretch(
    arguments: &ServeArguments,
    case: &Case,
    server: Server,
    (warm_s, seconds): (u64, u64),
    process: &Process,
) -> Result<Measurement, String> {
    let mut load = Own::start(
        &arguments.signet,
        own_transport(case.transport),
        (SERVER_PORT, CALLED_PORT),
        (case.rate, warm_s + seconds + 2),
        LOAD_CORE,
        arguments.out.as_path(),
    )?;
    load.wait_until(warm_s + 1)?;
    let (begun, before_ns) = (Instant::now(), process.cpu_ns());
    load.wait_until(warm_s + 1 + seconds)?;
    let spent_ns = process.cpu_ns().saturating_sub(before_ns);
    let elapsed_s = begun.elapsed().as_secs_f64();
    let counted = load.end()?;
    if !counted.valid {
        eprintln!(
            "{} {}: the generator doubts itself here",
            case.name,
            server.name()
        );
    }
    // The schedule's calls of that stretch, less the share that failed in the run.
    let share = counted.completed as f64 / (counted.completed + counted.failed).max(1) as f64;
    let calls = (case.rate as f64 * elapsed_s * share) as u64;
    Ok(Measurement {
        case: case.name.clone(),
        server: server.name().to_owned(),
        cpu_us_per_call: spent_ns as f64 / 1_000.0 / calls.max(1) as f64,
        calls,
        failed: counted.failed,
        retransmissions: counted.retransmissions,
        rate: case.rate,
        elapsed_s,
    })
}

/// The largest rate that each server holds, and its CPU per call at nine tenths of it.
fn measure_peak(
    arguments: &ServeArguments,
    name: &str,
    transport: SippTransport,
    server: Server,
) -> Result<Measurement, String> {
    let out = arguments.out.as_path();
    let mut case = Case {
        name: name.to_owned(),
        transport,
        rate: 0,
        own: true,
    };
    let process = start(arguments, &case, server, out)?;
    std::thread::sleep(Duration::from_millis(700));
    let ports = (SERVER_PORT, CALLED_PORT);
    let kind = own_transport(transport);
    let peak = own::peak(&arguments.signet, kind, ports, LOAD_CORE, out)?;
    case.rate = (peak * 9 / 10).max(1);
    let measured = own_stretch(
        arguments,
        &case,
        server,
        (3, arguments.seconds.min(6)),
        &process,
    )?;
    Ok(Measurement {
        rate: peak,
        ..measured
    })
}

/// The highest of a few rates at which no call through the floor fails or is sent again.
fn highest_rate(arguments: &ServeArguments, transport: SippTransport) -> Result<u64, String> {
    let mut best = 2_000;
    for rate in [2_500, 3_000, 3_500, 4_000] {
        let case = Case {
            name: "search".to_owned(),
            transport,
            rate,
            own: false,
        };
        let measured = measure(arguments, &case, Server::Floor, 4)?;
        let held_rate = measured.calls as f64 / measured.elapsed_s;
        if measured.failed > 0 || measured.retransmissions > 0 || held_rate < rate as f64 * 0.97 {
            break;
        }
        best = rate;
    }
    Ok(best)
}

/// Brings a server to its steady state, then takes its CPU time over `seconds`.
fn measure(
    arguments: &ServeArguments,
    case: &Case,
    server: Server,
    seconds: u64,
) -> Result<Measurement, String> {
    let out = arguments.out.as_path();
    let process = start(arguments, case, server, out)?;
    std::thread::sleep(Duration::from_millis(700));
    let called = sipp::answer(case.transport, CALLED_PORT, LOAD_CORE, out)?;
    let warm_s = server.warm_s();
    let calls = case.rate * (warm_s + seconds + 2);
    let mut caller = sipp::Caller::start(
        case.transport,
        SERVER_PORT,
        (case.rate, calls),
        LOAD_CORE,
        out,
    )?;
    caller.wait_row(warm_s)?;
    let (begun, before_ns) = (Instant::now(), process.cpu_ns());
    let before = caller.counted()?;
    caller.wait_row(warm_s + seconds)?;
    let spent_ns = process.cpu_ns().saturating_sub(before_ns);
    let elapsed_s = begun.elapsed().as_secs_f64();
    let completed = caller.counted()?.successful - before.successful;
    let counted = caller.end()?;
    drop(called);
    Ok(Measurement {
        case: case.name.clone(),
        server: server.name().to_owned(),
        cpu_us_per_call: spent_ns as f64 / 1_000.0 / completed.max(1) as f64,
        calls: completed,
        failed: counted.failed,
        retransmissions: counted.retransmissions,
        rate: case.rate,
        elapsed_s,
    })
}

fn start(
    arguments: &ServeArguments,
    case: &Case,
    server: Server,
    out: &Path,
) -> Result<Process, String> {
    let log = out.join(format!("{}.log", server.name()));
    let transport = if case.transport == SippTransport::Udp {
        "udp"
    } else {
        "tcp"
    };
    match server {
        Server::Floor => {
            let this = std::env::current_exe().map_err(|e| e.to_string())?;
            let mode = match case.transport {
                SippTransport::Udp => "udp",
                SippTransport::TcpOne => "tcp",
                SippTransport::TcpPerCall => "tcp-shared",
            };
            let words = [
                "floor",
                "--mode",
                mode,
                "--listen",
                "127.0.0.1:5060",
                "--to",
                "127.0.0.1:5070",
            ];
            Process::start(
                SERVER_CORE,
                &this.display().to_string(),
                &words.map(str::to_owned),
                &log,
            )
        }
        Server::Kamailio => {
            let config = kamailio_config(
                "kamailio-proxy.cfg",
                out,
                &[("TRANSPORT", transport), ("NEXTHOP", "127.0.0.1:5070")],
            )?;
            start_kamailio(&config, &log)
        }
        Server::Signet => {
            let data = out.join("signet-data");
            let _ = std::fs::remove_dir_all(&data);
            let words = vec![
                "serve".to_owned(),
                "--data".to_owned(),
                data.display().to_string(),
                "--listen".to_owned(),
                format!("udp:127.0.0.1:{SERVER_PORT}"),
                "--listen".to_owned(),
                format!("tcp:127.0.0.1:{SERVER_PORT}"),
                "--workers".to_owned(),
                "1".to_owned(),
                "--no-auth".to_owned(),
                "--forward".to_owned(),
                format!("sip:127.0.0.1:{CALLED_PORT};transport={transport}"),
            ];
            Process::start(
                SERVER_CORE,
                &arguments.signet.display().to_string(),
                &words,
                &log,
            )
        }
    }
}

/// Fills in a configuration of `bench/peers`.
pub(crate) fn kamailio_config(
    name: &str,
    out: &Path,
    values: &[(&str, &str)],
) -> Result<String, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../bench/peers")
        .join(name);
    let mut text =
        std::fs::read_to_string(&source).map_err(|e| format!("{}: {e}", source.display()))?;
    text = text
        .replace("CHILDREN", "1")
        .replace("SERVERPORT", &SERVER_PORT.to_string());
    for (from, to) in values {
        text = text.replace(from, to);
    }
    let path = out.join(name);
    std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(path.display().to_string())
}

/// Starts Kamailio with the allocator with which it is fastest.
pub(crate) fn start_kamailio(config: &str, log: &Path) -> Result<Process, String> {
    let words = [
        "-f", config, "-DD", "-E", "-m", "512", "-M", "16", "-x", "tlsf", "-X", "tlsf",
    ];
    Process::start(SERVER_CORE, "kamailio", &words.map(str::to_owned), log)
}
