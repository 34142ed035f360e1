//! A run: tunnels go in, a record comes out.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use measure::Host;
use signet_bed::process::is_there;
use signet_bed::record::{Calibration, Machine};
use signet_bed::run::Stop;
use signet_bed::{Error, calibrate};

use super::driver::{End, core};
use super::kind::Tunnel;
use super::link::{Folder, Link};
use super::record::{FORMAT, TunnelRecord, TunnelResult, VERSION, figure};
use super::visit::{Common, unix_s};
use crate::record::Missed;

/// Repeats whose throughput differs by more, highest less lowest over the median, are noisy.
const SPREAD_MAX: f64 = 0.2;
/// A machine whose speed moves by more between rounds is not quiet.
const MOVED_MAX: f64 = 0.1;

/// What runs every tunnel, and what has it in Debian.
const TOOLS: [(&str, &str); 5] = [
    ("iperf3", "apt-get install iperf3"),
    ("ip", "apt-get install iproute2"),
    ("setpriv", "apt-get install util-linux"),
    ("taskset", "apt-get install util-linux"),
    ("kill", "apt-get install procps"),
];

/// What is to be run.
pub struct Task {
    /// The program `signet`: it sends messages, sends them back, and calls.
    pub signet: PathBuf,
    /// The command line, for the record.
    pub command: String,
    /// The tunnels, as [`super::choose`] gives them.
    pub tunnels: Vec<&'static Tunnel>,
    /// Seconds of each measurement.
    pub seconds: u32,
    /// How often each tunnel is measured.
    pub repeats: u32,
    /// Calls a second over SIP.
    pub calls_per_s: u32,
}

/// How a run ended.
pub enum Ended {
    /// All was measured, or there is a reason why not.
    Whole(TunnelRecord),
    /// The end was asked for; what was measured until then.
    Interrupted(TunnelRecord),
}

/// Measures each tunnel in turn, round after round. `told` hears what is being measured.
///
/// Call it from the main thread: what it starts ends with the thread that started it.
///
/// # Errors
/// A missing tool, no root, or a kernel without namespaces, before anything is measured.
pub fn run(task: &Task, told: &mut dyn FnMut(&str)) -> Result<Ended, Error> {
    for (program, remedy) in TOOLS {
        if !is_there(program) {
            return Err(Error::new(
                format!("{program} is not installed"),
                format!("type: {remedy}"),
            ));
        }
    }
    let stop = Stop::by_signals().map_err(|error| Error::new(error, "try again"))?;
    // Better now than for each tunnel.
    drop(Link::make()?);
    let folder = Folder::make()?;
    let certificates = folder.certificates()?;
    let common = Common {
        signet: &task.signet,
        folder: &folder,
        certificates: &certificates,
        stop: &stop,
        seconds: task.seconds,
        calls_per_s: task.calls_per_s,
    };
    let mut record = begun(task);
    let mut left: Vec<&Tunnel> = Vec::new();
    for tunnel in &task.tunnels {
        match tunnel.missing() {
            Some(why) => record.miss(tunnel, why.to_string()),
            None => left.push(tunnel),
        }
    }
    record.versions = versions(&left);
    record.calibrations.extend(calibrated());
    for round in 1..=task.repeats {
        left.retain(|tunnel| {
            if stop.is_asked() {
                return true;
            }
            told(&format!(
                "round {round} of {}: {}",
                task.repeats, tunnel.name
            ));
            match common.visit(tunnel) {
                Ok(visited) => {
                    record.keep(tunnel, visited.repeat, visited.by);
                    true
                }
                Err(_) if stop.is_asked() => true,
                Err(why) => {
                    record.miss(tunnel, why);
                    false
                }
            }
        });
        if stop.is_asked() {
            break;
        }
        record.calibrations.extend(calibrated());
    }
    record.ended_unix_s = unix_s();
    record.doubts = doubts(&record);
    Ok(if stop.is_asked() {
        Ended::Interrupted(record)
    } else {
        Ended::Whole(record)
    })
}

fn begun(task: &Task) -> TunnelRecord {
    let host = Host::this();
    let pinned = End::BOTH.map(|end| (end.name().to_owned(), core(end).to_owned()));
    TunnelRecord {
        format: FORMAT.to_owned(),
        version: VERSION,
        command: task.command.clone(),
        started_unix_s: unix_s(),
        machine: Machine {
            cpu_model: host.cpu_model,
            cores: u32::try_from(host.cores).unwrap_or(u32::MAX),
            kernel: host.kernel,
            network: "namespaces".to_owned(),
            idle: signet_bed::awake::keep().to_owned(),
            pinned: pinned.into(),
            has_shares: None,
        },
        seconds: task.seconds,
        repeats: task.repeats,
        calls_per_s: task.calls_per_s,
        ..TunnelRecord::default()
    }
}

impl TunnelRecord {
    fn miss(&mut self, tunnel: &Tunnel, why: String) {
        self.missed.push(Missed {
            name: tunnel.name.to_owned(),
            provider: String::new(),
            why,
        });
    }

    fn keep(&mut self, tunnel: &Tunnel, repeat: signet_bed::record::Repeat, by: Option<String>) {
        if let Some(known) = self.tunnels.iter_mut().find(|it| it.name == tunnel.name) {
            known.repeats.push(repeat);
            return;
        }
        self.tunnels.push(TunnelResult {
            name: tunnel.name.to_owned(),
            title: match by {
                Some(by) => format!("{}, {by}", tunnel.title),
                None => tunnel.title.to_owned(),
            },
            algorithms: tunnel
                .algorithms
                .iter()
                .map(|it| (*it).to_owned())
                .collect(),
            carries: tunnel.carries.name().to_owned(),
            repeats: vec![repeat],
        });
    }
}

/// How fast the machine is at this moment; nothing where this program cannot be asked.
fn calibrated() -> Option<Calibration> {
    let at_unix_s = unix_s();
    let measured = calibrate::measure_whole(core(End::Far), &["bed", "calibrate"]);
    let (speed, stolen) = measured.ok()?;
    Some(Calibration {
        at_unix_s,
        compute_us: speed.compute_us,
        kernel_us: speed.kernel_us,
        stolen,
    })
}

fn versions(tunnels: &[&Tunnel]) -> BTreeMap<String, String> {
    let mut versions =
        BTreeMap::from([("signet".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]);
    let iperf3: (&str, &[&str]) = ("iperf3", &["--version"]);
    let programs = tunnels.iter().filter_map(|tunnel| tunnel.program());
    for (program, words) in programs.chain([iperf3]) {
        if !versions.contains_key(program)
            && let Some(version) = version(program, words)
        {
            versions.insert(program.to_owned(), version);
        }
    }
    versions
}

/// The line that a program prints of its version, wherever it prints it.
fn version(program: &str, words: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    [output.stdout, output.stderr].iter().find_map(|told| {
        let text = String::from_utf8_lossy(told);
        // stunnel says something else before.
        let mut lines = text.lines().map(str::trim);
        let is_version =
            |line: &&str| line.contains('.') && line.contains(|it: char| it.is_ascii_digit());
        lines.find(is_version).map(str::to_owned)
    })
}

fn doubts(record: &TunnelRecord) -> Vec<String> {
    let mut doubts = Vec::new();
    for tunnel in &record.tunnels {
        let throughput = tunnel.summary(figure::THROUGHPUT_BITS_PER_S);
        if let Some(noisy) = throughput.filter(|it| it.spread() > SPREAD_MAX) {
            doubts.push(format!(
                "the repeats of {} differ by {:.0} % of their throughput: the machine is not quiet",
                tunnel.name,
                noisy.spread() * 100.0
            ));
        }
        let mut told = tunnel.repeats.iter().filter(|it| !it.doubts.is_empty());
        let first = told.next().and_then(|repeat| repeat.doubts.first());
        doubts.extend(first.map(|first| {
            let first = first.trim_end_matches('.');
            let (of, all) = (1 + told.count(), tunnel.repeats.len());
            format!(
                "the load doubts {of} of {all} repeats of its calls over {}: {first}",
                tunnel.name
            )
        }));
    }
    let speeds = || record.calibrations.iter().map(|it| it.compute_us);
    let (low, high) = (
        speeds().fold(f64::INFINITY, f64::min),
        speeds().fold(0.0, f64::max),
    );
    if high > low * (1.0 + MOVED_MAX) {
        doubts.push(format!(
            "the machine's speed moved by {:.0} % between rounds",
            (high / low - 1.0) * 100.0
        ));
    }
    doubts
}

#[cfg(test)]
mod tests {
    use super::*;
    use signet_bed::record::Repeat;

    fn record(throughputs: &[f64], speeds_us: &[f64]) -> TunnelRecord {
        let repeat = |value: &f64| Repeat {
            figures: [(figure::THROUGHPUT_BITS_PER_S.to_owned(), *value)].into(),
            ..Repeat::default()
        };
        let calibration = |compute_us: &f64| Calibration {
            compute_us: *compute_us,
            ..Calibration::default()
        };
        TunnelRecord {
            tunnels: vec![TunnelResult {
                name: "none".to_owned(),
                repeats: throughputs.iter().map(repeat).collect(),
                ..TunnelResult::default()
            }],
            calibrations: speeds_us.iter().map(calibration).collect(),
            ..TunnelRecord::default()
        }
    }

    #[test]
    fn noise_is_told() {
        assert!(doubts(&record(&[100.0, 105.0], &[40.0, 41.0])).is_empty());
        let told = doubts(&record(&[100.0, 200.0], &[40.0, 50.0]));
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(
            told[0].contains("67 %") && told[1].contains("25 %"),
            "{told:?}"
        );
        assert!(doubts(&TunnelRecord::default()).is_empty());
    }
}
