//! `signet bed`: the command line, turned into settings.

mod experiments;
mod prices;
mod profile;
mod report;
mod run;

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use signet_bed::{Conditions, DelaySettings, Output, Transport};

use experiments::{CheckOptions, ShowOptions};
use profile::ProfileOptions;
use report::{CompareOptions, ReportOptions, TableOptions};
use run::RunOptions;

/// How often a report file is written, where nothing else is said.
const INTERVAL_NS: u64 = 1_000_000_000;
/// What was asked for could not be printed.
const EXIT_UNTOLD: u8 = 2;

/// What a test bed is made of.
#[derive(Debug, Subcommand)]
pub(crate) enum BedCommand {
    /// Put a distance between two programs of this machine
    ///
    /// A relay that holds every byte for half of the round trip each way, in order, and
    /// counts what passes. While it runs it takes lines on its standard input: rtt 100ms,
    /// jitter 2ms, loss 1%, rate 100mbit, rate none, report, stop. It ends at the end of that
    /// input, at SIGTERM or SIGINT, and prints what passed as JSON; at SIGUSR1 too.
    Delay(DelayOptions),
    /// Name the experiments that this program brings, and how long they take
    List,
    /// Show an experiment: its cases, its length, and what its paper found
    Show(ShowOptions),
    /// Check an experiment's file
    Check(CheckOptions),
    /// Run an experiment: start servers and load, measure, keep a record
    ///
    /// What is measured is kept in record.json in the folder of the run after each
    /// measurement: a run that was cut off goes on with --resume. It exits with 0 when all was
    /// measured, 1 when the record gives a reason why some of it was not, 2 when it could not
    /// begin or write, 130 when it was interrupted.
    Run(Box<RunOptions>),
    /// How fast the machine is: two fixed loops, printed as JSON
    #[command(hide = true)]
    Calibrate,
    /// Draw the pages of records anew
    ///
    /// Exits with 0 when all were drawn, 2 when a file could not be read or written.
    Report(ReportOptions),
    /// Compare two records of an experiment: which figures agree within their own intervals
    ///
    /// Exits with 0 where at least 19 of 20 figures agree and no more than 1 in 20 counts in
    /// only one of the records, else with 1; with 2 when a file could not be read or written, or the
    /// records are of different experiments.
    Compare(CompareOptions),
    /// Draw one page over several records: Signet beside other servers in every case
    ///
    /// Exits with 0 when it was drawn, 2 when a file could not be read or written.
    Table(TableOptions),
    /// Tell what processes spend their CPU time on, by component
    ///
    /// Samples them with perf where it may be used, sorts the samples by rules (--rules prints
    /// them) and scales them to the CPU time that each process used. SIGINT ends it early.
    Profile(Box<ProfileOptions>),
}

#[derive(Debug, Args)]
pub(crate) struct DelayOptions {
    /// Where to listen, on a loopback address
    #[arg(long, value_name = "ADDR:PORT")]
    listen: SocketAddr,
    /// Listen on an address that other machines can reach; nobody is asked for a password
    #[arg(long)]
    open: bool,
    /// Where everything goes
    #[arg(long, value_name = "ADDR:PORT")]
    to: SocketAddr,
    /// The round trip: 30ms
    #[arg(long, value_name = "TIME", value_parser = signet_bed::duration)]
    rtt: u64,
    /// The most that is added each way, drawn for each read or datagram; order is kept
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = signet_bed::duration)]
    jitter: u64,
    /// Packets that are lost each way: datagrams are dropped, streams stall as TCP would
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = signet_bed::share)]
    loss: f64,
    /// What passes each way: 100mbit, headers included; without limit if left out
    #[arg(long, value_name = "RATE", value_parser = signet_bed::bit_rate)]
    rate: Option<u64>,
    /// Relay datagrams, as for RADIUS, in the place of TCP
    #[arg(long)]
    udp: bool,
    /// End after so long
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    seconds: Option<u32>,
    /// Keep what passed so far in this file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// How often that file is written; each second if left out
    #[arg(long, value_name = "TIME", requires = "report", value_parser = signet_bed::duration)]
    interval: Option<u64>,
    /// Seed of random jitter and loss
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=u64::from(u32::MAX)))]
    seed: u64,
}

impl DelayOptions {
    fn settings(&self) -> DelaySettings {
        DelaySettings {
            transport: if self.udp {
                Transport::Udp
            } else {
                Transport::Tcp
            },
            listen: self.listen,
            is_open: self.open,
            to: self.to,
            conditions: Conditions {
                rtt_ns: self.rtt,
                jitter_ns: self.jitter,
                loss: self.loss,
                rate_bits_per_s: self.rate,
            },
            duration_ns: self
                .seconds
                .map(|seconds| u64::from(seconds) * 1_000_000_000),
            report_every_ns: self.report.as_ref().map(|_| match self.interval {
                Some(interval_ns) => interval_ns.max(1_000_000),
                None => INTERVAL_NS,
            }),
            seed: self.seed,
        }
    }
}

/// Runs it; gives the exit code.
pub(crate) fn run(command: &BedCommand) -> u8 {
    let (verb, done) = match command {
        BedCommand::Run(options) => return options.run(),
        BedCommand::Delay(options) => ("delay", delay(options)),
        BedCommand::Calibrate => ("calibrate", signet_bed::calibrate::run()),
        BedCommand::Profile(options) => {
            ("profile", options.run().map_err(|error| error.to_string()))
        }
        BedCommand::List => ("list", experiments::list()),
        BedCommand::Show(options) => ("show", experiments::show(options)),
        BedCommand::Check(options) => ("check", experiments::check(options)),
        BedCommand::Report(options) => return report::report(options),
        BedCommand::Table(options) => return report::table(options),
        BedCommand::Compare(options) => return report::compare(options),
    };
    let (code, error) = match done.map(measure::stdout::print) {
        Ok(Ok(())) => return 0,
        Ok(Err(error)) => (EXIT_UNTOLD, error),
        Err(error) => (1, error),
    };
    let _ = writeln!(std::io::stderr(), "signet bed {verb}: {error}");
    code
}

/// Gives its last report.
fn delay(options: &DelayOptions) -> Result<String, String> {
    let output = Output {
        report: options.report.clone(),
    };
    signet_bed::delay(&options.settings(), &output).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser;

    fn delay(line: &str) -> Result<DelaySettings, clap::Error> {
        let args = Args::try_parse_from(format!("signet bed delay {line}").split(' '))?;
        match args.command {
            Command::Bed {
                command: BedCommand::Delay(options),
            } => Ok(options.settings()),
            _ => panic!("not delay"),
        }
    }

    #[test]
    fn options_reach_the_settings() {
        let settings = delay(
            "--listen 127.0.0.1:13306 --to 127.0.0.1:3306 --rtt 30ms --jitter 2ms --loss 1% --rate 100mbit --seconds 10 --udp",
        )
        .unwrap();
        let conditions = Conditions {
            rtt_ns: 30_000_000,
            jitter_ns: 2_000_000,
            loss: 0.01,
            rate_bits_per_s: Some(100_000_000),
        };
        assert_eq!(settings.conditions, conditions);
        assert_eq!(settings.transport, Transport::Udp);
        assert_eq!(settings.duration_ns, Some(10_000_000_000));
        assert_eq!(settings.report_every_ns, None);
        assert!(!settings.is_open);
    }

    #[test]
    fn a_round_trip_must_be_said_and_an_interval_needs_a_file() {
        let ends = "--listen 127.0.0.1:1 --to 127.0.0.1:2";
        assert!(delay(ends).is_err());
        assert!(delay(&format!("{ends} --rtt 30")).is_err());
        assert!(delay(&format!("{ends} --rtt 1ms --interval 1s")).is_err());
        let settings = delay(&format!("{ends} --rtt 1ms --report f")).unwrap();
        assert_eq!(settings.report_every_ns, Some(INTERVAL_NS));
    }
}
