//! The benches that need whole processes: `make bench` runs
//! `signet-bench serve`. CPU per call is taken from the kernel's account of
//! all of a server's threads; the load and the server have a core each.
#![forbid(unsafe_code)]

mod calls;
mod floor;
mod own;
mod process;
mod register;
mod report;
mod sipp;
mod tls;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Measures Signet beside Kamailio and the floor")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Calls and registrations through Signet, Kamailio and the floor.
    Serve(ServeArguments),
    /// What TLS costs: handshakes, resumption, idle connections, storms.
    Tls(tls::TlsArguments),
    /// The raw cost of a handshake's public-key operations, printed as JSON.
    RawTls(tls::RawArguments),
    /// The floor: a forwarder that does not read what it relays.
    Floor(floor::FloorArguments),
    /// A load of registrations over UDP.
    Register(register::RegisterArguments),
}

#[derive(clap::Args)]
struct ServeArguments {
    /// The server to measure.
    #[arg(long, default_value = "target/release/signet")]
    signet: PathBuf,
    /// Where results, logs and data directories go.
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
    /// Repeats of each case; the order of the servers alternates.
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    /// Seconds of the steady stretch that is measured.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Only the cases whose name contains one of these.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only these servers.
    #[arg(long, value_delimiter = ',', default_value = "floor,kamailio,signet")]
    servers: Vec<String>,
    /// Also write the results, with their circumstances, to this file.
    #[arg(long)]
    record: Option<PathBuf>,
}

impl ServeArguments {
    fn wants(&self, server: &str) -> bool {
        self.servers.iter().any(|s| s == server)
    }
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Serve(arguments) => serve(&arguments),
        Command::Tls(arguments) => tls::run(&arguments),
        Command::RawTls(arguments) => tls::run_raw(&arguments),
        Command::Floor(arguments) => floor::run(&arguments),
        Command::Register(arguments) => register::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("signet-bench: {message}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: &ServeArguments) -> Result<(), String> {
    std::fs::create_dir_all(&arguments.out)
        .map_err(|e| format!("{}: {e}", arguments.out.display()))?;
    let wanted = |case: &str| {
        let only = &arguments.only;
        only.is_empty() || only.iter().any(|part| case.contains(part.as_str()))
    };
    let mut results = report::Results::default();
    calls::run(arguments, &wanted, &mut results)?;
    register::compare(arguments, &wanted, &mut results)?;
    let path = arguments.out.join("serve.json");
    results.write(&path)?;
    results.print();
    if let Some(record) = &arguments.record {
        results.record(record)?;
    }
    Ok(())
}
