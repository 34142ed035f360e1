//! `signet load peak`: the options of a search.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use measure::{Schedule, SearchConfig};
use signet_load::app::{self, Output, PeakSettings, WatchTarget};
use signet_load::{Mix, Span};

use super::fleet::FleetArgs;
use super::result::{DoubtArgs, output};
use super::settings::settings;
use super::smime_options::SmimeOptions;
use super::values::{nanoseconds, share, time};
use super::{PathArgs, Who};

#[derive(Debug, Args)]
pub(crate) struct PeakOptions {
    #[command(flatten, next_help_heading = "Server and connections")]
    path: PathArgs,
    #[command(flatten, next_help_heading = "Agents")]
    who: Who,
    /// How long calls are held
    #[arg(long, value_name = "TIME", default_value = "0", help_heading = "Load")]
    hold: Span,
    /// How long the called side here rings
    #[arg(long, value_name = "TIME", default_value = "0", help_heading = "Load")]
    ring: Span,
    /// Flows and their weights
    #[arg(
        long,
        value_name = "MIX",
        default_value = "call",
        help_heading = "Load"
    )]
    mix: Mix,
    #[command(flatten, next_help_heading = "S/MIME")]
    smime: SmimeOptions,
    /// Where to begin
    #[arg(
        long,
        value_name = "RATE",
        default_value_t = 100.0,
        help_heading = "Search"
    )]
    start: f64,
    /// The lowest rate to try; a sixteenth of --start if left out
    #[arg(long, value_name = "RATE", help_heading = "Search")]
    rate_min: Option<f64>,
    /// The highest rate to try
    #[arg(
        long,
        value_name = "RATE",
        default_value_t = 200_000.0,
        help_heading = "Search"
    )]
    rate_max: f64,
    /// How many arrivals may fail: 0, 1%, 4%
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share, help_heading = "Search")]
    failures_max: f64,
    /// The longest set-up delay
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Search")]
    delay_max: Option<Duration>,
    /// Which percentile of the delay is held against it
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 99.0,
        help_heading = "Search"
    )]
    delay_percent: f64,
    /// How long each try lasts
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time, help_heading = "Search")]
    try_time: Duration,
    /// How long to rest after a try that was not held
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = time, help_heading = "Search")]
    rest: Duration,
    /// How often the whole search is done
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Search")]
    repeats: u32,
    /// Most tries of all repeats together
    #[arg(long, value_name = "N", default_value_t = 200, help_heading = "Search")]
    tries_max: u32,
    /// How close the search comes, as a share of the rate
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = share, help_heading = "Search")]
    precision: f64,
    /// Then RFC 7502's algorithm, with this many attempts a try
    #[arg(long, value_name = "ATTEMPTS", num_args = 0..=1, default_missing_value = "50000", help_heading = "Search")]
    rfc7502: Option<u64>,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Search")]
    seed: u64,
    /// Watch a process and its children in each try, 4711 or server=4711: CPU time and memory,
    /// each for itself; several times if you like
    #[arg(long, value_name = "[NAME=]PID", help_heading = "Search")]
    watch_pid: Vec<WatchTarget>,
    #[command(flatten, next_help_heading = "Workers")]
    fleet: FleetArgs,
    #[command(flatten, next_help_heading = "Doubts")]
    doubts: DoubtArgs,
    /// Write the result as JSON; - for the standard output
    #[arg(long, value_name = "FILE", help_heading = "Result")]
    json: Option<PathBuf>,
    /// Print the result only
    #[arg(long, short, help_heading = "Result")]
    quiet: bool,
    /// Do not first look for the generator's own peak
    #[arg(long, help_heading = "Result")]
    no_check_self: bool,
}

impl PeakOptions {
    pub(super) fn run(self) -> Result<u8, String> {
        let fleet = self.fleet.for_search(self.path.local)?;
        let mut settings = settings(self.mix, self.path, self.who)?;
        settings.hold = self.hold;
        settings.answering.ring = self.ring;
        settings.smime = self.smime.settings();
        settings.seed = self.seed;
        // What it is replaced by for each try.
        settings.schedule = Some(Schedule::constant(self.start, 1_000_000_000));
        let options = PeakSettings {
            search: SearchConfig {
                start_per_s: self.start,
                failures_max: self.failures_max,
                delay_max_ns: self.delay_max.map_or(u64::MAX, nanoseconds),
                repeats: self.repeats,
                precision: self.precision,
                try_ns: nanoseconds(self.try_time),
                rest_ns: nanoseconds(self.rest),
                rate_min_per_s: self.rate_min.unwrap_or(self.start / 16.0),
                rate_max_per_s: self.rate_max,
                tries_max: self.tries_max,
                ..SearchConfig::default()
            },
            delay_percent: self.delay_percent,
            rfc7502: self.rfc7502,
            fleet,
        };
        let output = Output {
            json: self.json,
            quiet: self.quiet,
            check_self: !self.no_check_self,
            bounds: self.doubts.bounds(),
            watch: self.watch_pid,
            ..output()
        };
        Ok(app::peak(settings, &options, &output))
    }
}
