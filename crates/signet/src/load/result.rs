//! What becomes of a result, and when the generator doubts it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use measure::{Bounds, Threshold};
use signet_load::app::{Output, WatchTarget};

use super::values::{masked, nanoseconds, share, threshold, time};

/// What becomes of the result.
#[derive(Debug, Args)]
pub(super) struct ResultArgs {
    /// Write the result as JSON; - for the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the run second by second as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the result as a page with drawings, one file for a browser
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print the result only
    #[arg(long, short)]
    quiet: bool,
    /// Exit with 1 when this is true: 'srd_p99 > 200ms', 'failed > 1%'; several times if you like
    #[arg(long, value_name = "CONDITION", value_parser = threshold)]
    fail_if: Vec<Threshold>,
    /// How many arrivals may fail: 0, 4% [default: none, unless the generator doubts itself]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    failures_max: Option<f64>,
    /// Watch a process and its children, 4711 or server=4711: CPU time and memory, each for
    /// itself; several times if you like
    #[arg(long, value_name = "[NAME=]PID")]
    watch_pid: Vec<WatchTarget>,
    #[command(flatten, next_help_heading = "Doubts")]
    doubts: DoubtArgs,
    /// Do not first drive the same load straight to a called side here
    #[arg(long)]
    no_check_self: bool,
}

/// The bounds of doubt.
#[derive(Debug, Args)]
pub(super) struct DoubtArgs {
    /// How late the latest 1% of messages may leave before the generator doubts itself
    /// [default: a tenth of the delay measured, at least 500us and at most 10ms]
    #[arg(long, value_name = "TIME", value_parser = time)]
    late_max: Option<Duration>,
    /// How late any message may leave [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = time)]
    stall_max: Option<Duration>,
    /// Share of a core that any of its threads may take, in all or while it sends [default: 90%]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    own_cpu_max: Option<f64>,
    /// Share of arrivals that may be left unsent, and of agents that may be missing
    /// [default: 0.1%]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    unsent_max: Option<f64>,
}

impl DoubtArgs {
    pub(super) fn bounds(&self) -> Bounds {
        let plain = Bounds::default();
        Bounds {
            late_max_us: self.late_max.map(|time| nanoseconds(time) / 1_000),
            behind_max_ns: self.stall_max.map_or(plain.behind_max_ns, nanoseconds),
            thread_cpu_share: self.own_cpu_max.unwrap_or(plain.thread_cpu_share),
            sent_share: self
                .unsent_max
                .map_or(plain.sent_share, |share| 1.0 - share),
            ..plain
        }
    }
}

impl ResultArgs {
    pub(super) fn output(self) -> Output {
        Output {
            json: self.json,
            csv: self.csv,
            html: self.html,
            quiet: self.quiet,
            thresholds: self.fail_if,
            failures_max: self.failures_max,
            bounds: self.doubts.bounds(),
            watch: self.watch_pid,
            check_self: !self.no_check_self,
            ..output()
        }
    }
}

/// The command and the program, and nothing asked for.
pub(super) fn output() -> Output {
    let command = measure::command_line();
    Output {
        command: masked(command).join(" "),
        program_version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Output::default()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        doubts: DoubtArgs,
    }

    fn bounds(words: &[&str]) -> Bounds {
        let line = [&["load"], words].concat();
        Line::try_parse_from(line).unwrap().doubts.bounds()
    }

    #[test]
    fn each_bound_can_be_set_and_the_others_stay() {
        let plain = Bounds::default();
        assert_eq!(bounds(&[]), plain);
        let late = Bounds {
            late_max_us: Some(5_000),
            ..plain
        };
        assert_eq!(bounds(&["--late-max", "5ms"]), late);
        let all = bounds(&[
            "--stall-max",
            "2s",
            "--own-cpu-max",
            "50%",
            "--unsent-max",
            "25%",
        ]);
        let expected = Bounds {
            behind_max_ns: 2_000_000_000,
            thread_cpu_share: 0.5,
            sent_share: 0.75,
            ..plain
        };
        assert_eq!(all, expected);
    }
}
