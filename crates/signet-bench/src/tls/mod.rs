//! What TLS costs: `make bench-tls`. Each case writes raw figures and holds
//! them against the bars of the project's aims.

mod idle;
mod load;
mod one;
mod per_call;
mod raw;
mod record;
mod servers;
mod storm;
mod ticking;

use std::path::PathBuf;

use clap::ValueEnum;
use signet_bed::certificates::{Certificates, Kind};

use load::Load;
use record::Record;
use servers::Server;

#[derive(clap::Args)]
pub(crate) struct TlsArguments {
    /// The server to measure, and the load unless --load is another.
    #[arg(long, default_value = "target/release/signet")]
    signet: PathBuf,
    /// Another build for the load, so that two builds of the server meet the same one.
    #[arg(long)]
    load: Option<PathBuf>,
    /// A build of Signet from before a change, measured in the same run, in turns.
    #[arg(long)]
    before: Option<PathBuf>,
    /// Where results, logs and data directories go.
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
    /// Repeats of each measurement of CPU per call; the order of the servers alternates.
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    /// Seconds of each stretch that is measured.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// This case alone.
    #[arg(long)]
    only: Option<CaseName>,
    /// Few connections, short stretches, one repeat: shows that all works, and no figure.
    #[arg(long)]
    quick: bool,
    /// Only these servers.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "floor,kamailio,signet"
    )]
    servers: Vec<Server>,
    /// The first of 30 ports on 127.0.0.1.
    #[arg(long, default_value_t = 15_060)]
    port: u16,
}

/// A case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CaseName {
    /// Calls over one TLS connection.
    One,
    /// A connection per call, full and resumed handshakes.
    PerCall,
    /// The memory of idle connections.
    Idle,
    /// Ten thousand phones that reconnect at once.
    Storm,
    /// The cost of ticking with many idle connections.
    Ticking,
}

impl CaseName {
    const ALL: [Self; 5] = [
        Self::One,
        Self::PerCall,
        Self::Idle,
        Self::Storm,
        Self::Ticking,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::PerCall => "per-call",
            Self::Idle => "idle",
            Self::Storm => "storm",
            Self::Ticking => "ticking",
        }
    }
}

/// Offsets of the ports.
mod ports {
    /// UDP and TCP of the server under test.
    pub(super) const PLAIN: u16 = 0;
    /// TLS with each kind of key.
    pub(super) const RSA: u16 = 1;
    pub(super) const P256: u16 = 2;
    pub(super) const ED25519: u16 = 3;
    /// The called side.
    pub(super) const CALLED: u16 = 10;
    /// The server's figures.
    pub(super) const METRICS: u16 = 20;
}

/// What all cases have at hand.
struct Bench<'a> {
    arguments: &'a TlsArguments,
    /// The folder for logs, data and certificates.
    folder: PathBuf,
    certificates: Certificates,
    record: Record,
}

impl Bench<'_> {
    fn port(&self, offset: u16) -> u16 {
        self.arguments.port + offset
    }

    /// The port of the TLS listener with this kind of key.
    fn tls_port(&self, kind: Kind) -> u16 {
        self.port(match kind {
            Kind::Rsa2048 => ports::RSA,
            Kind::P256 => ports::P256,
            Kind::Ed25519 => ports::ED25519,
        })
    }

    fn wants(&self, server: Server) -> bool {
        self.arguments.servers.contains(&server)
            || (server == Server::Before && self.arguments.before.is_some())
    }

    /// The wanted ones of these, in reverse in every other repeat.
    fn order(&self, servers: &[Server], repeat: usize) -> Vec<Server> {
        let mut order: Vec<Server> = servers.iter().copied().filter(|s| self.wants(*s)).collect();
        if repeat % 2 == 1 {
            order.reverse();
        }
        order
    }

    fn repeats(&self) -> usize {
        if self.arguments.quick {
            1
        } else {
            self.arguments.repeats.max(1)
        }
    }

    /// Seconds of a measured stretch.
    fn seconds(&self) -> u64 {
        if self.arguments.quick {
            2
        } else {
            self.arguments.seconds.max(1)
        }
    }

    /// The smaller number where it is to be quick.
    fn sized(&self, whole: usize, quick: usize) -> usize {
        if self.arguments.quick { quick } else { whole }
    }
}

/// Runs the wanted cases and writes the results.
pub(crate) fn run(arguments: &TlsArguments) -> Result<(), String> {
    let folder = arguments.out.join("tls");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let folder = folder
        .canonicalize()
        .map_err(|e| format!("{}: {e}", folder.display()))?;
    let certificates = Certificates::make(&folder)?;
    let mut bench = Bench {
        arguments,
        folder,
        certificates,
        record: Record::new(arguments.quick),
    };
    // A part, or a run that shows no figures, does not take the place of a whole one.
    let name = match (arguments.only, arguments.quick) {
        (None, false) => "tls.json".to_owned(),
        (None, true) => "tls-quick.json".to_owned(),
        (Some(case), false) => format!("tls-{}.json", case.name()),
        (Some(case), true) => format!("tls-{}-quick.json", case.name()),
    };
    let path = arguments.out.join(name);
    let mut failed = Vec::new();
    for case in CaseName::ALL {
        if arguments.only.is_some_and(|only| only != case) {
            continue;
        }
        let outcome = match case {
            CaseName::One => one::measure(&mut bench),
            CaseName::PerCall => per_call::measure(&mut bench),
            CaseName::Idle => idle::measure(&mut bench),
            CaseName::Storm => storm::measure(&mut bench),
            CaseName::Ticking => ticking::measure(&mut bench),
        };
        if let Err(error) = outcome {
            eprintln!("{}: {error}", case.name());
            bench.record.aims.fail(case.name(), &error);
            failed.push(case.name());
        }
        // What there is survives an end before the last case.
        bench.record.write(&path)?;
    }
    bench.record.print_before();
    bench.record.aims.print();
    eprintln!("\n{}", path.display());
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("not measured to the end: {}", failed.join(", ")))
    }
}
