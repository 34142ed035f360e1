//! `signet price tunnel`, and the hidden verbs that it starts in its namespaces.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use signet_price::Error;
use signet_price::tunnel::probe::{self, Carrier};
use signet_price::tunnel::{self, Ended, Task};

use super::crypto::{Progress, keep};
use super::{Told, said, told};

/// What a run ends with that was interrupted.
const EXIT_INTERRUPTED: u8 = 130;

#[derive(Debug, Args)]
pub(crate) struct TunnelOptions {
    /// Which tunnels, besides none: a program (openvpn) or one of its (openvpn/aes-128-gcm); all if left out
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// List the tunnels and exit
    #[arg(long)]
    list: bool,
    /// Seconds of each measurement
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// How often each tunnel is measured, in turns; the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,
    /// Calls a second over SIP through each
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    calls_per_s: u32,
    /// Keep the record in this file, - for the standard output alone
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the page in this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl TunnelOptions {
    /// The files that it writes.
    pub(super) fn files(&self) -> [Option<&PathBuf>; 2] {
        [self.json.as_ref(), self.html.as_ref()]
    }

    /// Measures; gives what is printed.
    pub(super) fn run(&self) -> Result<Told, String> {
        if self.list {
            return Ok(Told::whole(list()));
        }
        let task = Task {
            signet: this_program().map_err(said)?,
            command: measure::command_line().join(" "),
            tunnels: tunnel::choose(&self.only).map_err(said)?,
            seconds: self.seconds,
            repeats: self.repeats,
            calls_per_s: self.calls_per_s,
        };
        let mut progress = Progress::new();
        let ended = tunnel::run(&task, &mut |line| progress.show(line));
        progress.end();
        let (record, code) = match ended.map_err(said)? {
            Ended::Whole(record) => (record, 0),
            Ended::Interrupted(record) => (record, EXIT_INTERRUPTED),
        };
        let text = told(
            self.json.as_deref(),
            || tunnel::told(&record),
            || serde_json::to_string_pretty(&record).map_err(said),
        )?;
        if let Some(path) = &self.html {
            let page = tunnel::render(&record).map_err(said)?;
            keep(path, &page).map_err(said)?;
        }
        Ok(Told { text, code })
    }
}

/// This program's file.
pub(crate) fn this_program() -> Result<PathBuf, Error> {
    std::env::current_exe().map_err(|error| {
        Error::new(
            format!("which program this is cannot be told ({error})"),
            "start it by its path",
        )
    })
}

fn list() -> String {
    let tunnels = tunnel::TUNNELS.iter();
    tunnels
        .map(|tunnel| format!("{:<32} {}\n", tunnel.name, tunnel.title))
        .collect()
}

#[derive(Debug, Args)]
pub(crate) struct EchoOptions {
    /// Where to listen, over UDP and TCP
    #[arg(long, value_name = "ADDR:PORT")]
    listen: SocketAddr,
}

impl EchoOptions {
    pub(super) fn run(&self) -> Result<Told, Error> {
        probe::echo(self.listen).map(|()| Told::whole(String::new()))
    }
}

#[derive(Debug, Args)]
pub(crate) struct ProbeOptions {
    /// Where `signet price echo` listens
    #[arg(long, value_name = "ADDR:PORT")]
    to: SocketAddr,
    /// What messages travel in
    #[arg(long, value_enum)]
    carrier: CarrierName,
    /// Seconds to wait until one comes back
    #[arg(long, value_name = "N", default_value_t = 0)]
    wait: u32,
    /// Seconds to measure
    #[arg(long, value_name = "N", default_value_t = 1)]
    seconds: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CarrierName {
    Udp,
    Tcp,
}

impl ProbeOptions {
    /// Gives a line of JSON.
    pub(super) fn run(&self) -> Result<Told, Error> {
        let carrier = match self.carrier {
            CarrierName::Udp => Carrier::Udp,
            CarrierName::Tcp => Carrier::Tcp,
        };
        let seconds = |count: u32| Duration::from_secs(u64::from(count));
        let found = probe::probe(carrier, self.to, seconds(self.wait), seconds(self.seconds))?;
        let text = serde_json::to_string(&found).map_err(|error| {
            Error::new(
                error.to_string(),
                "this is a fault of this program; report it",
            )
        })?;
        Ok(Told::whole(text + "\n"))
    }
}
