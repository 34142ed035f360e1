//! Several generators: the options of their controller and of a worker.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use signet_load::app::{self, Output};
use signet_load::workers::{Address, Allowed, ControlledBy, Fleet, WorkerOptions};
use signet_load::{Local, Settings};

/// Who drives the load.
#[derive(Debug, Args)]
pub(super) struct FleetArgs {
    /// Let workers drive it, each a part, all from the same moment on: HOST:PORT of a
    /// `signet load worker`, or ssh:HOST, where it is started
    #[arg(long, value_name = "WORKER", value_delimiter = ',', conflicts_with_all = ["straight", "answer_here"])]
    workers: Vec<Address>,
    /// The file with the token that workers at ports want: the one that they made
    #[arg(long, value_name = "FILE", requires = "workers")]
    workers_token: Option<PathBuf>,
    /// Write each worker's own result into this folder
    #[arg(long, value_name = "FOLDER", requires = "workers")]
    workers_json: Option<PathBuf>,
    /// The program that starts workers of ssh:HOST
    #[arg(
        long,
        value_name = "PROGRAM",
        default_value = "ssh",
        requires = "workers"
    )]
    ssh: String,
}

impl FleetArgs {
    /// Drives the load, here or by workers; gives the exit code. `local` is where it is
    /// to come from, where that was said.
    pub(super) fn drive(self, settings: Settings, local: Option<Local>, output: &Output) -> u8 {
        match self.fleet(local) {
            None => app::drive(settings, output),
            Some(fleet) => app::drive_workers(&settings, &fleet, output),
        }
    }

    /// The workers that drive a search; `None` for this process.
    ///
    /// # Errors
    /// Where each worker's own result is wanted: there is one for each try.
    pub(super) fn for_search(self, local: Option<Local>) -> Result<Option<Fleet>, String> {
        if self.workers_json.is_some() {
            return Err(
                "a search has a result for each try: leave out --workers-json, or run \
                        `signet load call` at the rate that is found"
                    .to_owned(),
            );
        }
        Ok(self.fleet(local))
    }

    fn fleet(self, local: Option<Local>) -> Option<Fleet> {
        (!self.workers.is_empty()).then_some(Fleet {
            workers: self.workers,
            token: self.workers_token,
            ssh: self.ssh,
            local,
            results: self.workers_json,
        })
    }
}

#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// Where to wait for controllers
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7000")]
    listen: SocketAddr,
    /// The file with the token that a controller must have; it is made where there is none
    #[arg(long, value_name = "FILE", required_unless_present = "stdio")]
    token_file: Option<PathBuf>,
    /// Whom controllers may load: an address, ADDR:PORT, or a network
    #[arg(
        long,
        value_name = "TARGET",
        value_delimiter = ',',
        required_unless_present = "stdio"
    )]
    allow: Vec<Allowed>,
    /// The highest rate that is taken, in arrivals a second
    #[arg(long, value_name = "RATE")]
    rate_max: Option<f64>,
    /// Take orders from standard input instead: how ssh starts it
    #[arg(long, conflicts_with_all = ["listen", "token_file"])]
    stdio: bool,
}

impl WorkerArgs {
    pub(super) fn run(self) -> u8 {
        let place = match self.token_file {
            Some(token) => ControlledBy::Port {
                listen: self.listen,
                token,
            },
            None => ControlledBy::Stdio,
        };
        app::worker(&WorkerOptions {
            place,
            allowed: self.allow,
            rate_max_per_s: self.rate_max,
            program_version: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }
}
