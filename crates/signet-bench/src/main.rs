//! The benches that need whole processes: `make bench` runs
//! `signet-bench serve`. CPU per call is taken from the kernel's account of
//! all of a server's threads; the load and the server have a core each.
#![forbid(unsafe_code)]

mod aims;
mod auth;
mod calibrate;
mod calls;
mod cases;
mod contender;
mod demo;
mod floor;
mod load;
mod own;
mod register;
mod report;
mod rule;
mod sipp;
mod tls;
mod told;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use signet_bed::generator::Desk;
use signet_bed::process::{self, LOAD_CORE};

use cases::{Case, Sizes, Work};
use clap::{Parser, Subcommand};
use contender::{Also, Contender};

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
    /// What a call costs a server by transport and with authentication, as a picture.
    Demo(demo::DemoArguments),
    /// What TLS costs: handshakes, resumption, idle connections, storms.
    Tls(tls::TlsArguments),
    /// What authentication costs when the users are in a database at a distance.
    Auth(auth::AuthArguments),
    /// The floor: a forwarder that does not read what it relays.
    Floor(floor::FloorArguments),
    /// A load of registrations over UDP.
    Register(register::RegisterArguments),
    /// How fast the machine is: two fixed loops, printed as JSON.
    Calibrate,
}

/// Repeats of each case, unless another number is asked for.
const REPEATS: usize = 5;
/// Seconds of each stretch that is measured.
const SECONDS: u64 = 4;
/// Minutes within which a run with the usual cases ends, further sets included.
const MINUTES_MAX: u64 = 25;

#[derive(clap::Args)]
struct ServeArguments {
    /// The server to measure; it is the load as well where SIPp is not.
    #[arg(long, default_value = "target/release/signet")]
    signet: PathBuf,
    /// Another build of Signet, measured in the same run under this name.
    #[arg(long, value_name = "NAME=PATH")]
    also: Vec<Also>,
    /// Signet once more, with so many workers on the server's core: `signet-2-workers`. It takes
    /// no part in registrations with digest.
    #[arg(long, value_name = "WORKERS", value_parser = clap::value_parser!(u32).range(2..=64))]
    also_workers: Option<u32>,
    /// Where results, logs and data directories go.
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
    /// Repeats of each case. Below five nothing is recorded.
    #[arg(long, default_value_t = REPEATS)]
    repeats: usize,
    /// Sets of repeats that may follow one that disagrees, while the time lasts.
    #[arg(long, default_value_t = 2)]
    further_sets: usize,
    /// Seconds of each stretch that is measured.
    #[arg(long, default_value_t = SECONDS)]
    seconds: u64,
    /// One short repeat of each case: shows that all works, and no figure.
    #[arg(long)]
    quick: bool,
    /// Only the cases whose name contains one of these; also those that take part only by name.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only these servers.
    #[arg(long, value_delimiter = ',', default_value = "floor,kamailio,signet")]
    servers: Vec<String>,
    /// Also write the results to this file. It is an error where none can be recorded.
    #[arg(long)]
    record: Option<PathBuf>,
}

/// What all cases have at hand.
#[derive(Clone)]
struct Bench<'a> {
    /// Where results, logs and data directories go.
    out: &'a Path,
    /// The load, where SIPp is not.
    signet: &'a Path,
    contenders: Vec<Contender>,
    sizes: Sizes,
    further_sets: usize,
}

impl Bench<'_> {
    /// Where the project's own generator runs.
    fn desk(&self) -> Desk<'_> {
        Desk {
            signet: self.signet,
            core: LOAD_CORE,
            folder: self.out,
        }
    }

    /// The names of those that take part in a case.
    fn names(&self, case: &Case) -> Vec<&str> {
        let taking_part = self.contenders.iter().filter(|c| case.has(c));
        taking_part.map(|c| c.name.as_str()).collect()
    }

    /// A case whose rate was searched for has it in its name.
    fn name_of(&self, case: &Case, rate: u64) -> String {
        match case.work {
            Work::Sipp(_, 0) => format!("{}-{rate}", case.name),
            _ => case.name.to_owned(),
        }
    }
}

fn main() -> ExitCode {
    let command = Arguments::parse().command;
    if matches!(
        command,
        Command::Serve(_) | Command::Tls(_) | Command::Auth(_)
    ) {
        let idle = signet_bed::awake::keep();
        eprintln!("idle cores are {idle} meanwhile");
    }
    let outcome = match command {
        Command::Serve(arguments) => serve(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Tls(arguments) => tls::run(&arguments),
        Command::Auth(arguments) => auth::run(&arguments),
        Command::Floor(arguments) => floor::run(&arguments),
        Command::Register(arguments) => register::run(&arguments),
        Command::Calibrate => calibrate::run().and_then(measure::stdout::print),
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
    let sizes = Sizes {
        repeats: if arguments.quick {
            1
        } else {
            arguments.repeats.max(1)
        },
        seconds: if arguments.quick {
            2
        } else {
            arguments.seconds.max(1)
        },
        is_quick: arguments.quick,
    };
    if arguments.record.is_some() && sizes.repeats < rule::REPEATS_MIN {
        return Err(format!(
            "--record: nothing is recorded of fewer than {} repeats: leave --record out, or --quick and --repeats",
            rule::REPEATS_MIN
        ));
    }
    // A configuration names what is in it.
    let out = arguments
        .out
        .canonicalize()
        .map_err(|e| format!("{}: {e}", arguments.out.display()))?;
    let bench = Bench {
        out: &out,
        signet: &arguments.signet,
        contenders: contender::contenders(arguments)?,
        sizes,
        further_sets: arguments.further_sets,
    };
    let cases = cases::wanted(&arguments.only)?;
    let cases: Vec<Case> = cases
        .into_iter()
        .filter(|case| !bench.names(case).is_empty())
        .collect();
    let path = arguments.out.join(if arguments.quick {
        "serve-quick.json"
    } else {
        "serve.json"
    });
    let results = measure(&bench, &cases, &path)?;
    results.print();
    eprintln!("\n{}", path.display());
    if let Some(record) = &arguments.record {
        results.write(record)?;
    }
    match results.missed() {
        missed if missed.is_empty() => Ok(()),
        missed => Err(format!("not measured: {}", missed.join(", "))),
    }
}

fn measure(bench: &Bench<'_>, cases: &[Case], path: &Path) -> Result<report::Results, String> {
    let set_s = |case: &Case| case.set_s(&bench.contenders, bench.sizes);
    let expected_s: u64 = cases.iter().map(set_s).sum();
    eprintln!(
        "{} cases, {} repeats: about {} minutes; sets that disagree are measured again within {MINUTES_MAX}",
        cases.len(),
        bench.sizes.repeats,
        expected_s.div_ceil(60)
    );
    let begun = Instant::now();
    let mut results = report::Results::new(bench.sizes.is_quick);
    for (at, case) in cases.iter().enumerate() {
        // What is left when this case and all that follow have had their first set.
        let rest_s: u64 = cases.iter().skip(at).map(set_s).sum();
        let spare_s = (MINUTES_MAX * 60).saturating_sub(begun.elapsed().as_secs() + rest_s);
        calls::run(bench, case, spare_s, &mut results);
        // What there is survives an end before the last case.
        results.write(path)?;
    }
    Ok(results)
}
