//! Predictions held to what mixtures take that took no part in the calibration.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use signet_bed::Error;
use signet_page::number::figure;

use crate::calibrate::{has_database, ports};
use crate::demand::{Key, Transport};
use crate::drive::{Bench, Connection, Directory, Flow, Lengths, Mixture, Stream};
use crate::profile::{Checked, Profile, Run};

/// The name in every file.
pub const FORMAT: &str = "signet-plan-check";
/// The version that is written.
pub const VERSION: u32 = 2;
/// Mixtures that are run where nothing else is said.
pub const CASES: u32 = 20;
/// What a mixture is to take of a core, at least and at most.
const CORES: (f64, f64) = (0.06, 0.30);
/// Loads and gateways have one core together: rates beyond these would be theirs.
const CALLS_MAX_PER_S: f64 = 4_000.0;
const REGISTRATIONS_MAX_PER_S: f64 = 5_000.0;
const HANDSHAKES_MAX_PER_S: f64 = 350.0;
/// Standard errors on either side of a prediction.
const ERRORS: f64 = 2.0;

/// How it is done.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The server, and the program of the load.
    pub signet: PathBuf,
    /// Where configurations and logs are while it lasts.
    pub folder: PathBuf,
    /// The first of its ports on 127.0.0.1.
    pub port: u16,
    /// How many mixtures.
    pub cases: u32,
    /// What they are drawn from.
    pub seed: u64,
    /// Whether to show that it works, and no more.
    pub is_quick: bool,
}

/// Mixtures, as predicted and as measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The profile that predicted.
    pub profile: String,
    /// What mixtures were drawn from.
    pub seed: u64,
    /// Each mixture.
    pub cases: Vec<Case>,
    /// Over those that count; `None` where none does.
    pub checked: Option<Checked>,
}

/// One mixture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// What is in it.
    pub what: String,
    /// What it took, and what happened.
    pub run: Run,
    /// CPU time that was predicted for what happened, in cores, at the machine's speed then.
    pub predicted_cores: f64,
    /// The ends of its interval.
    pub interval: (f64, f64),
    /// (predicted - measured) / measured.
    pub error: f64,
}

impl Case {
    fn new(profile: &Profile, mut run: Run) -> Self {
        // What has no price would be predicted to cost nothing.
        let unpriced = profile.fit.unpriced(&run.rates);
        run.doubts.extend(
            unpriced
                .iter()
                .map(|event| format!("the profile has no price for {}", event.title())),
        );
        let slowness = profile.slowness(run.speed);
        let (cores, price_error) = profile.fit.cores(&run.rates);
        let error = price_error.hypot(cores * profile.fit.residual);
        let predicted_cores = cores * slowness;
        let half = ERRORS * error * slowness;
        Self {
            what: described(&run.mixture),
            predicted_cores,
            interval: ((predicted_cores - half).max(0.0), predicted_cores + half),
            error: predicted_cores / run.cores.max(1e-9) - 1.0,
            run,
        }
    }

    /// Whether it says anything.
    pub fn counts(&self) -> bool {
        self.run.doubts.is_empty()
    }

    /// Whether what was measured lies in the interval.
    pub fn is_within(&self) -> bool {
        (self.interval.0..=self.interval.1).contains(&self.run.cores)
    }
}

/// Runs mixtures and compares. `say` is told each as it is known.
///
/// # Errors
/// What does not run here, and what to do about it.
pub fn check(profile: &Profile, options: &Options, say: &dyn Fn(&str)) -> Result<Check, Error> {
    let ports = ports(options.port)?;
    let wants_database = profile.database.is_some() && has_database();
    let failed = |why: String| {
        let folder = options.folder.display();
        Error::new(why, format!("its logs are in {folder}"))
    };
    let bench =
        Bench::open(&options.signet, &options.folder, ports, wants_database).map_err(failed)?;
    let lengths = lengths(options.is_quick);
    let mut cases = Vec::new();
    for mixture in mixtures(profile, options.cases, options.seed, wants_database) {
        let run = bench.run(&mixture, lengths).map_err(failed)?;
        let case = Case::new(profile, run);
        say(&line(cases.len() + 1, &case));
        cases.push(case);
    }
    Ok(Check {
        format: FORMAT.to_owned(),
        version: VERSION,
        profile: profile.name.clone(),
        seed: options.seed,
        checked: checked(&cases),
        cases,
    })
}

fn lengths(is_quick: bool) -> Lengths {
    let (warm_up_s, measure_s) = if is_quick { (1, 1) } else { (3, 9) };
    Lengths {
        warm_up: Duration::from_secs(warm_up_s),
        measure: Duration::from_secs(measure_s),
    }
}

/// Over the cases that count.
fn checked(cases: &[Case]) -> Option<Checked> {
    let counting = || cases.iter().filter(|case| case.counts());
    let errors: Vec<f64> = counting().map(|case| case.error.abs()).collect();
    let cores = || counting().map(|case| case.run.cores);
    let count = errors.len() as f64;
    (!errors.is_empty()).then(|| Checked {
        cases: errors.len() as u64,
        mean: errors.iter().sum::<f64>() / count,
        root_mean_square: (errors.iter().map(|e| e * e).sum::<f64>() / count).sqrt(),
        worst: errors.iter().copied().fold(0.0, f64::max),
        cores_min: cores().fold(f64::MAX, f64::min),
        cores_max: cores().fold(0.0, f64::max),
    })
}

/// Mixtures, drawn from a seed, each as large as suits the machine of the profile.
pub fn mixtures(profile: &Profile, count: u32, seed: u64, has_database: bool) -> Vec<Mixture> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count)
        .map(|nth| {
            let users = match nth % 5 {
                0 | 3 => Directory::None,
                2 if has_database => Directory::Database,
                _ => Directory::Own,
            };
            let count = random.usize(2..=3);
            let mut streams: Vec<Stream> = (0..count).map(|_| stream(&mut random, users)).collect();
            streams.sort_by_key(described_stream);
            let mixture = Mixture {
                name: format!("mixture {}", nth + 1),
                users,
                rtt_ms: 0,
                streams,
            };
            sized(profile, mixture, &mut random)
        })
        .collect()
}

/// A load of some kind, at a rate that says how it stands to the others.
fn stream(random: &mut fastrand::Rng, users: Directory) -> Stream {
    let transports = [Transport::Udp, Transport::Tcp, Transport::Tls];
    let mut any = || {
        let nth = random.usize(0..transports.len());
        transports.get(nth).copied().unwrap_or_default()
    };
    let (from, onward) = (any(), any());
    let weight = 0.25 + random.f64();
    let kind = random.u8(0..10);
    let is_challenged = users != Directory::None && random.bool();
    let made = match kind {
        0..=3 => Stream::new(Flow::Calls(onward), from, 400.0 * weight),
        4..=6 => Stream::new(Flow::Registrations, from, 800.0 * weight),
        7 if users == Directory::None => Stream::new(Flow::Local, Transport::Udp, 250.0 * weight),
        7 | 8 => {
            let key = if random.bool() {
                Key::P256
            } else {
                Key::Rsa2048
            };
            let resumed = f64::from(random.u8(0..=4)) / 4.0;
            Stream::per_call(Transport::Tls, 60.0 * weight, key, resumed)
        }
        _ => Stream::per_call(Transport::Tcp, 120.0 * weight, Key::P256, 0.0),
    };
    Stream {
        is_challenged,
        ..made
    }
}

/// The same mixture with rates that take a share of a core that is drawn, as far as the loads
/// can make them.
fn sized(profile: &Profile, mixture: Mixture, random: &mut fastrand::Rng) -> Mixture {
    let wanted = CORES.0 + (CORES.1 - CORES.0) * random.f64();
    let of = |mixture: &Mixture| {
        let (cores, _) = profile.fit.cores(&mixture.rates());
        (cores - profile.fit.base_cores).max(1e-6)
    };
    // Wake-ups are no line: twice comes close enough.
    let mut mixture = mixture;
    for _ in 0..2 {
        let factor = (wanted / of(&mixture)).min(room(&mixture));
        mixture = mixture.scaled(factor);
    }
    mixture
}

/// How many times as much the loads could still make.
fn room(mixture: &Mixture) -> f64 {
    let sum = |is_counted: &dyn Fn(&Stream) -> bool| -> f64 {
        let counted = mixture.streams.iter().filter(|stream| is_counted(stream));
        counted.map(|stream| stream.per_s).sum()
    };
    let calls = sum(&|stream| stream.flow != Flow::Registrations);
    let registrations = sum(&|stream| stream.flow == Flow::Registrations);
    let handshakes =
        sum(&|stream| stream.transport == Transport::Tls && stream.connection != Connection::Kept);
    // They share the core, so that what each takes of it is added.
    let used = calls / CALLS_MAX_PER_S
        + registrations / REGISTRATIONS_MAX_PER_S
        + handshakes / HANDSHAKES_MAX_PER_S;
    1.0 / used.max(1e-9)
}

/// A mixture in a line.
pub fn described(mixture: &Mixture) -> String {
    let streams: Vec<String> = mixture.streams.iter().map(described_stream).collect();
    let users = match mixture.users {
        Directory::None => "",
        Directory::Own => "; own store",
        Directory::Database => "; database",
        Directory::Cache => "; cache",
    };
    format!("{}{users}", streams.join(" + "))
}

fn described_stream(stream: &Stream) -> String {
    let name = stream.transport.name();
    let mut told = match stream.flow {
        Flow::Calls(onward) => format!("{:.0} calls {name}-{}", stream.per_s, onward.name()),
        Flow::Local => format!("{:.0} calls to users {name}", stream.per_s),
        Flow::Registrations => format!("{:.0} registrations {name}", stream.per_s),
    };
    if let Connection::PerCall { key, resumed, .. } = stream.connection {
        match (stream.transport, key) {
            (Transport::Tls, Key::P256) => told.push_str(", each P-256"),
            (Transport::Tls, Key::Rsa2048) => told.push_str(", each RSA"),
            _ => told.push_str(", each connected"),
        }
        if stream.transport == Transport::Tls && resumed > 0.0 {
            let _ = write!(told, " {:.0}% resumed", resumed * 100.0);
        }
    }
    if stream.is_challenged {
        told.push_str(", challenged");
    }
    told
}

fn line(nth: usize, case: &Case) -> String {
    let verdict = match (case.counts(), case.is_within()) {
        (false, _) => format!("  does not count: {}", case.run.doubts.join(", ")),
        (true, true) => String::new(),
        (true, false) => "  outside of its interval".to_owned(),
    };
    // Milliseconds of CPU a second.
    format!(
        "{nth:>3}  {:>6}  {:>6}  {:>+6.1}%  {}{verdict}",
        figure(case.predicted_cores * 1e3),
        figure(case.run.cores * 1e3),
        case.error * 100.0,
        case.what
    )
}

/// The heading of the lines that are said.
pub const HEADING: &str =
    "     ms of CPU a second\n     plan    server    error  what is asked a second";

impl Check {
    /// What it came to, in a sentence or two.
    pub fn summary(&self) -> String {
        let Some(checked) = self.checked else {
            return "no mixture counts: end what else runs on this machine, and check again"
                .to_owned();
        };
        let within = self
            .cases
            .iter()
            .filter(|case| case.counts() && case.is_within());
        let percent = signet_page::number::percent;
        format!(
            "{} of {} mixtures count, at {} to {} of a core; mean error {}, worst {}; {} lie in their interval",
            checked.cases,
            self.cases.len(),
            percent(checked.cores_min),
            percent(checked.cores_max),
            percent(checked.mean),
            percent(checked.worst),
            within.count()
        )
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::testing;

    #[test]
    fn mixtures_are_drawn_again_and_are_no_runs_of_the_calibration() {
        let profile = testing::profile();
        let all = mixtures(&profile, 20, 1, true);
        assert_eq!(all, mixtures(&profile, 20, 1, true));
        assert_ne!(all, mixtures(&profile, 20, 2, true));
        assert!(all.iter().all(|mixture| mixture.streams.len() >= 2));
        let names: BTreeSet<String> = all.iter().map(described).collect();
        assert_eq!(names.len(), 20, "{names:#?}");
        let databases = all.iter().filter(|one| one.users.has_database());
        assert_eq!(databases.count(), 4);
        let without = mixtures(&profile, 20, 1, false);
        assert!(!without.iter().any(|mixture| mixture.users.has_database()));
    }

    #[test]
    fn mixtures_suit_the_machine_and_the_loads() {
        let profile = testing::profile();
        for mixture in mixtures(&profile, 200, 7, true) {
            let (cores, _) = profile.fit.cores(&mixture.rates());
            assert!(cores < CORES.1 * 1.1, "{cores}: {}", described(&mixture));
            assert!(room(&mixture) > 0.99, "{}", described(&mixture));
            assert!(profile.fit.unpriced(&mixture.rates()).is_empty());
        }
    }

    fn case(profile: &Profile, factor: f64, doubts: &[&str]) -> Case {
        let mixture = mixtures(profile, 1, 3, false).remove(0);
        let rates = mixture.rates();
        let (cores, _) = profile.fit.cores(&rates);
        let run = Run {
            mixture,
            rates,
            cores: cores * factor,
            doubts: doubts.iter().map(|doubt| (*doubt).to_owned()).collect(),
            ..Run::default()
        };
        Case::new(profile, run)
    }

    #[test]
    fn what_has_no_price_is_no_prediction() {
        let mut profile = testing::profile();
        let mixture = mixtures(&profile, 1, 3, false).remove(0);
        let (event, _) = mixture.rates().iter().next().unwrap();
        profile.fit.prices.remove(&event);
        let case = case(&profile, 1.0, &[]);
        assert!(!case.counts());
        let told = format!("the profile has no price for {}", event.title());
        assert!(line(1, &case).contains(&told), "{}", line(1, &case));
    }

    #[test]
    fn errors_are_those_of_cases_that_count() {
        let profile = testing::profile();
        let cases = [
            case(&profile, 1.0, &[]),
            case(&profile, 1.25, &[]),
            case(&profile, 9.0, &["2% failed"]),
        ];
        assert!(cases[0].is_within() && !cases[2].is_within());
        let checked = checked(&cases).unwrap();
        assert_eq!(checked.cases, 2);
        assert!((checked.mean - 0.1).abs() < 1e-9, "{checked:?}");
        assert!((checked.worst - 0.2).abs() < 1e-9, "{checked:?}");
        assert!(line(3, &cases[2]).contains("does not count: 2% failed"));
        let check = Check {
            format: FORMAT.to_owned(),
            version: VERSION,
            profile: "it".to_owned(),
            seed: 1,
            cases: cases.to_vec(),
            checked: Some(checked),
        };
        let summary = check.summary();
        let (less, more) = (cases[0].run.cores, cases[1].run.cores);
        assert_eq!((checked.cores_min, checked.cores_max), (less, more));
        assert!(
            summary.starts_with("2 of 3 mixtures count, at "),
            "{summary}"
        );
        assert!(
            summary.contains("of a core; mean error 10%, worst 20%"),
            "{summary}"
        );
    }

    #[test]
    fn a_slow_machine_is_reckoned_with() {
        let mut profile = testing::profile();
        let speed = |us: f64| signet_bed::calibrate::Speed {
            compute_us: us,
            kernel_us: us,
        };
        profile.speed = Some(speed(100.0));
        let mut run = case(&profile, 1.2, &[]).run;
        run.speed = Some(speed(120.0));
        let case = Case::new(&profile, run);
        assert!(case.error.abs() < 1e-9, "{case:?}");
    }
}
