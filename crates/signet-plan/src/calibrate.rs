//! Measures what things cost on this machine.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use measure::Host;
use signet_bed::Error;

use crate::demand::{Key, Transport};
use crate::drive::{
    Bench, Connection, Flow, Lengths, Long, Mixture, PasswordStore, Ports, Stream, Stretch,
};
use crate::event::{Event, KEPT_S};
use crate::fit::SPARE_MIN;
use crate::machine;
use crate::mixtures::mixtures;
use crate::profile::{FORMAT, Held, LONG_RUN, Later, Memory, Profile, Run, VERSION};

/// How a calibration is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The server, and the program of the load.
    pub signet: PathBuf,
    /// Where configurations and logs are while it lasts.
    pub folder: PathBuf,
    /// The first of its ports on 127.0.0.1.
    pub port: u16,
    /// Whether the runs are so short that they only show that it works.
    pub is_quick: bool,
    /// What the profile is called.
    pub name: String,
    /// The command, for the profile.
    pub command: String,
}

/// What rates are written for: microseconds of CPU that a call over UDP takes at
/// [`PROBE_MAX_PER_S`]. They are lowered where it takes more.
const CALL_US: f64 = 80.0;
/// How far rates are raised or lowered.
const FACTORS: (f64, f64) = (0.02, 1.5);
/// A calibration in a hurry has lower rates: it may share the machine with anything.
const IN_A_HURRY: f64 = 0.25;
/// Calls a second of the first run that looks for the factor of the rates ([`factor`]).
const PROBE_PER_S: f64 = 100.0;
/// The rate of each such run over that of the one before.
const PROBE_STEP: f64 = 4.0;
/// No such run has more calls a second than this.
const PROBE_MAX_PER_S: f64 = 1_600.0;
/// The one in which the server takes this share of its core is the last.
const PROBE_CORES: f64 = 0.15;
/// Mixtures beside the runs of one kind: what mixing costs shows in no other.
const MIXTURES: u32 = 9;
/// What they are drawn from. A check draws from small numbers.
const MIXTURES_SEED: u64 = 0x6d69_7874;
/// How often a run is repeated that is in doubt or failed.
const DOUBTED_AGAIN: u32 = 1;

/// Measures, and works prices out. `say` is told what it does.
///
/// # Errors
/// What does not run here, and what to do about it.
pub fn calibrate(options: &Options, say: &dyn Fn(&str)) -> Result<Profile, Error> {
    let began = Instant::now();
    let ports = ports(options.port)?;
    let mut profile = Profile {
        format: FORMAT.to_owned(),
        version: VERSION,
        name: options.name.clone(),
        command: options.command.clone(),
        program: program(options)?,
        made_unix_s: unix_s(),
        machine: Host::this(),
        machine_id: machine::this(),
        is_quick: options.is_quick,
        ..Profile::default()
    };
    let has_database = has_database();
    if !has_database {
        profile
            .missing
            .push("mariadbd is not installed: apt-get install mariadb-server".to_owned());
    }
    let failed = |why: String| Error::new(why, logs(options));
    let bench =
        Bench::open(&options.signet, &options.folder, ports, has_database).map_err(failed)?;
    let lengths = lengths(options.is_quick);
    let hurry = if options.is_quick { IN_A_HURRY } else { 1.0 };
    let factor = factor(&bench, lengths).map_err(failed)? * hurry;
    let measure = |profile: &mut Profile, mixtures: &[Mixture]| -> Result<(), Error> {
        for mixture in mixtures {
            let run = tried(&bench, mixture, lengths).map_err(failed)?;
            say(&told(profile.runs.len(), &run, began.elapsed()));
            profile.runs.push(run);
        }
        profile.work_out();
        known(profile)
    };
    let planned = planned(has_database, options.is_quick);
    measure(&mut profile, &once(&planned, factor))?;
    if !options.is_quick {
        let mixed = mixtures(&profile, MIXTURES, MIXTURES_SEED, has_database);
        measure(&mut profile, &mixed)?;
        measure(&mut profile, &again(&planned, factor))?;
        enough(&profile)?;
    }
    // The long run is held against the machine's speed in these.
    held(&bench, &mut profile, factor, options.is_quick).map_err(failed)?;
    say(&format!("memory: {:.0} s", began.elapsed().as_secs_f64()));
    if !options.is_quick {
        let doubts = long(&bench, &mut profile, factor, lengths);
        say(&format!(
            "the long run: {:.0} s{doubts}",
            began.elapsed().as_secs_f64()
        ));
    }
    Ok(profile)
}

/// The ports from this one on.
pub(crate) fn ports(first: u16) -> Result<Ports, Error> {
    Ports::from(first).ok_or_else(|| {
        Error::new(
            format!("there are no {} ports from {first} on", Ports::COUNT),
            "write --port with a number from 1 to 65000",
        )
    })
}

pub(crate) fn lengths(is_quick: bool) -> Lengths {
    let (warm_up_ms, measure_ms) = if is_quick {
        (600, 1_000)
    } else {
        (1_200, 3_000)
    };
    Lengths {
        warm_up: Duration::from_millis(warm_up_ms),
        measure: Duration::from_millis(measure_ms),
    }
}

fn logs(options: &Options) -> String {
    format!("its logs are in {}", options.folder.display())
}

fn program(options: &Options) -> Result<String, Error> {
    let failed = |why: String| {
        let path = options.signet.display();
        Error::new(
            format!("{path} {why}"),
            "give the path of a build: --signet PATH",
        )
    };
    let output = std::process::Command::new(&options.signet)
        .arg("--version")
        .output()
        .map_err(|error| failed(format!("does not start ({error})")))?;
    if !output.status.success() {
        return Err(failed("does not tell its version".to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Whether MariaDB can be started here.
pub(crate) fn has_database() -> bool {
    let mut command = std::process::Command::new("mariadbd");
    let output = command.args(["--no-defaults", "--version"]).output();
    output.is_ok_and(|output| output.status.success())
}

fn unix_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// By how much rates are raised or lowered here. Where little comes each message wakes the
/// server up, which makes a call dearer than it is at the rates of the calibration: so the rate
/// is raised until the server has something to do.
fn factor(bench: &Bench, lengths: Lengths) -> Result<f64, String> {
    let mut per_s = PROBE_PER_S;
    loop {
        let (cores, came_per_s) = once_more(|| probe(bench, lengths, per_s), |_| true)?;
        if cores >= PROBE_CORES || per_s >= PROBE_MAX_PER_S {
            let us = cores * 1e6 / came_per_s;
            return Ok((CALL_US / us.max(1.0)).clamp(FACTORS.0, FACTORS.1));
        }
        per_s = (per_s * PROBE_STEP).min(PROBE_MAX_PER_S);
    }
}

/// What the server takes at so many calls a second, and how many of them came.
fn probe(bench: &Bench, lengths: Lengths, per_s: f64) -> Result<(f64, f64), String> {
    let probe = mixture("probe", PasswordStore::None, calls(Transport::Udp, per_s));
    let run = bench.run(&probe, lengths)?;
    let came_per_s = run.rates.get(Event::LegUdp) / 2.0;
    if came_per_s <= 0.0 {
        return Err("no call came through".to_owned());
    }
    Ok((run.cores, came_per_s))
}

/// A run, and once more where it is in doubt or did not come about.
fn tried(bench: &Bench, mixture: &Mixture, lengths: Lengths) -> Result<Run, String> {
    let take = || bench.run(mixture, lengths);
    once_more(take, |run| run.doubts.is_empty())
}

/// What is taken, and once more where it is an error or does not count. What came the first time
/// stays where the second is an error.
fn once_more<T>(
    take: impl Fn() -> Result<T, String>,
    counts: impl Fn(&T) -> bool,
) -> Result<T, String> {
    let mut taken = take();
    for _ in 0..DOUBTED_AGAIN {
        if taken.as_ref().is_ok_and(&counts) {
            break;
        }
        taken = take().or(taken);
    }
    taken
}

fn told(nth: usize, run: &Run, elapsed: Duration) -> String {
    let doubts = match run.doubts.as_slice() {
        [] => String::new(),
        doubts => format!("; does not count: {}", doubts.join(", ")),
    };
    format!(
        "{}. {}: {:.3} cores, {:.0} s{doubts}",
        nth + 1,
        run.mixture.name,
        run.cores,
        elapsed.as_secs_f64()
    )
}

/// Of two loads alike: what one process sends comes together, and wakes the server up less often
/// than what comes from many.
fn mixture(name: &str, users: PasswordStore, stream: Stream) -> Mixture {
    let half = Stream {
        per_s: stream.per_s / 2.0,
        ..stream
    };
    Mixture {
        name: name.to_owned(),
        users,
        rtt_ms: 0,
        streams: vec![half.clone(), half],
    }
}

fn calls(transport: Transport, per_s: f64) -> Stream {
    Stream::new(Flow::Calls(transport), transport, per_s)
}

fn registrations(transport: Transport, per_s: f64) -> Stream {
    Stream::new(Flow::Registrations, transport, per_s)
}

/// Runs with one kind of load each.
fn planned(has_database: bool, is_quick: bool) -> Vec<Planned> {
    let mut all = unasked();
    all.extend(asked());
    if has_database {
        all.extend(looked_up());
    }
    if !is_quick {
        all.extend(more());
    }
    all
}

/// The mixtures of these runs, once each.
fn once(planned: &[Planned], factor: f64) -> Vec<Mixture> {
    let all = planned.iter();
    all.map(|(one, _)| one.clone().scaled(factor)).collect()
}

/// Those that are measured at the end again, so that a machine that changes meanwhile is noticed.
fn again(planned: &[Planned], factor: f64) -> Vec<Mixture> {
    let repeated = planned.iter().filter(|(_, is_repeated)| *is_repeated);
    repeated
        .map(|(one, _)| one.clone().scaled(factor))
        .collect()
}

/// A mixture, and whether it is measured twice.
type Planned = (Mixture, bool);

/// Where nobody proves who he is.
fn unasked() -> Vec<Planned> {
    use Transport::{Tcp, Tls, Udp};
    let none = |name: &str, stream: Stream, is_repeated: bool| {
        (mixture(name, PasswordStore::None, stream), is_repeated)
    };
    let mutual = Stream {
        connection: Connection::PerCall {
            key: Key::P256,
            resumed: 0.0,
            is_mutual: true,
        },
        ..Stream::per_call(Tls, 600.0, Key::P256, 0.0)
    };
    vec![
        none("calls udp 400/s", calls(Udp, 400.0), false),
        none("calls udp 4000/s", calls(Udp, 4_000.0), true),
        none("calls tcp 3000/s", calls(Tcp, 3_000.0), false),
        none("calls tls 3000/s", calls(Tls, 3_000.0), true),
        none(
            "calls to users 1200/s",
            Stream::new(Flow::Local, Udp, 1_200.0),
            false,
        ),
        none(
            "registrations udp 6000/s",
            registrations(Udp, 6_000.0),
            true,
        ),
        none(
            "registrations tcp 5000/s",
            registrations(Tcp, 5_000.0),
            false,
        ),
        none(
            "registrations tls 5000/s",
            registrations(Tls, 5_000.0),
            false,
        ),
        none(
            "a tcp connection per call",
            Stream::per_call(Tcp, 1_000.0, Key::P256, 0.0),
            false,
        ),
        none(
            "a handshake per call, P-256",
            Stream::per_call(Tls, 800.0, Key::P256, 0.0),
            true,
        ),
        none(
            "a handshake per call, RSA-2048",
            Stream::per_call(Tls, 800.0, Key::Rsa2048, 0.0),
            false,
        ),
        none(
            "a resumed handshake per call",
            Stream::per_call(Tls, 1_000.0, Key::P256, 1.0),
            false,
        ),
        none("a handshake with certificates per call", mutual, false),
    ]
}

/// Where users are in the server's own store.
fn asked() -> Vec<Planned> {
    use Transport::Udp;
    let own = |name: &str, stream: Stream, is_repeated: bool| {
        (mixture(name, PasswordStore::Own, stream), is_repeated)
    };
    vec![
        own("calls of users", calls(Udp, 3_000.0), false),
        own("challenged calls", calls(Udp, 2_500.0).challenged(), true),
        own("registrations of users", registrations(Udp, 5_000.0), false),
        own(
            "challenged registrations",
            registrations(Udp, 3_500.0).challenged(),
            false,
        ),
    ]
}

/// Where users are in a database.
fn looked_up() -> Vec<Planned> {
    use Transport::Udp;
    let away = Mixture {
        rtt_ms: 10,
        ..mixture(
            "look-ups 10 ms away",
            PasswordStore::Database,
            registrations(Udp, 2_000.0),
        )
    };
    let looked_up = mixture(
        "look-ups",
        PasswordStore::Database,
        registrations(Udp, 3_000.0),
    );
    let cached = mixture(
        "look-ups in the cache",
        PasswordStore::Cache,
        registrations(Udp, 4_000.0),
    );
    vec![(looked_up, false), (away, false), (cached, false)]
}

/// Other rates of what is there: they tell wake-ups from work.
fn more() -> Vec<Planned> {
    use Transport::{Tcp, Tls, Udp};
    let none = |name: &str, stream: Stream| (mixture(name, PasswordStore::None, stream), false);
    vec![
        none("calls udp 8000/s", calls(Udp, 8_000.0)),
        none("calls tcp 400/s", calls(Tcp, 400.0)),
        none("calls tls 400/s", calls(Tls, 400.0)),
        none("registrations udp 500/s", registrations(Udp, 500.0)),
        none("registrations udp 12000/s", registrations(Udp, 12_000.0)),
    ]
}

/// Two readings: their mean, and half of what they differ by.
fn both([one, two]: [f64; 2]) -> Held {
    Held {
        bytes: one.midpoint(two),
        error_bytes: (one - two).abs() / 2.0,
    }
}

fn held(bench: &Bench, profile: &mut Profile, factor: f64, is_quick: bool) -> Result<(), String> {
    // An allocator takes memory in pieces: few agents would show the pieces.
    let (bindings, connections) = if is_quick {
        (1_000, 400)
    } else {
        (6_000, 3_000)
    };
    let held = |transport: Transport, agents: u32| {
        once_more(|| bench.held(transport, agents), |_| true).map(both)
    };
    let binding = held(Transport::Udp, bindings)?;
    let tcp = held(Transport::Tcp, connections)?;
    let tls = held(Transport::Tls, connections)?;
    let (per_s, length) = if is_quick {
        (400.0 * factor, Duration::from_secs(1))
    } else {
        (1_000.0 * factor, Duration::from_secs(4))
    };
    let (base, bytes) = once_more(|| bench.standing(per_s, length), |_| true)?;
    profile.connections_max = u64::from(connections);
    profile.memory = Memory {
        base,
        binding,
        tcp,
        tls,
        // Until the long run says what of it is transactions.
        call: Held {
            bytes,
            error_bytes: bytes * 0.5,
        },
        transaction: Held::default(),
    };
    Ok(())
}

/// The long run, once more where it does not count. Without it the profile has what was measured
/// before, and says why there is no more; gives what is to be told of that.
fn long(bench: &Bench, profile: &mut Profile, factor: f64, lengths: Lengths) -> String {
    let kept = Duration::from_secs_f64(KEPT_S);
    let take = || bench.long(1_500.0 * factor, lengths, kept);
    match once_more(take, |_| true) {
        Ok(long) => {
            add(profile, &long);
            String::new()
        }
        Err(why) => {
            leave_out(profile, &why);
            format!("; does not count: {why}")
        }
    }
}

fn add(profile: &mut Profile, long: &Long) {
    profile.later = Some(later(profile, long));
    let memory = &mut profile.memory;
    memory.transaction = Held {
        bytes: long.bytes,
        error_bytes: long.bytes * 0.1,
    };
    // INVITE on both sides is in what a call that stands holds.
    let bytes = (memory.call.bytes - 2.0 * long.bytes).max(0.0);
    memory.call = Held {
        bytes,
        error_bytes: memory.call.bytes * 0.1,
    };
}

fn leave_out(profile: &mut Profile, why: &str) {
    let memory = &mut profile.memory;
    // A call that stands holds two of them and more: each is between nothing and half of that.
    memory.transaction = Held {
        bytes: memory.call.bytes / 4.0,
        error_bytes: memory.call.bytes / 8.0,
    };
    profile
        .missing
        .push(format!("{LONG_RUN} does not count: {why}"));
}

/// What a transaction costs when it ends: what the server takes more for each once they do, on a
/// machine as fast as in the middle. Each stretch is off by as much as a run is, so that a
/// difference of nothing is no more certain than another.
fn later(profile: &Profile, long: &Long) -> Later {
    let [before, after] = long.speeds.map(|speed| profile.slowness(Some(speed)));
    let each_us = |stretch: &Stretch, slowness: f64| {
        stretch.cores / slowness * 1e6 / stretch.kept_per_s.max(1e-9)
    };
    let (first_us, last_us) = (each_us(&long.first, before), each_us(&long.last, after));
    Later {
        us: (last_us - first_us).max(0.0),
        error_us: profile.off_by() * first_us.hypot(last_us),
    }
}

/// # Errors
/// That too little of it counts to plan by.
fn known(profile: &Profile) -> Result<(), Error> {
    let needed = [Event::LegUdp, Event::RegisterUdp];
    let is_known = needed
        .iter()
        .all(|event| profile.fit.prices.contains_key(event));
    if is_known {
        return Ok(());
    }
    Err(too_few(profile))
}

/// # Errors
/// That so few of it count that prices go through them whatever they are off by.
fn enough(profile: &Profile) -> Result<(), Error> {
    if profile.spare_runs() < SPARE_MIN {
        return Err(too_few(profile));
    }
    Ok(())
}

fn too_few(profile: &Profile) -> Error {
    let doubts: Vec<&str> = profile
        .runs
        .iter()
        .flat_map(|run| run.doubts.iter().map(String::as_str))
        .collect();
    Error::new(
        format!("too few runs count: {}", doubts.join("; ")),
        "end what else runs on this machine, and calibrate again",
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::event::Rates;

    fn all(has_database: bool, is_quick: bool) -> Rates {
        let mut rates = Rates::default();
        for run in once(&planned(has_database, is_quick), 1.0) {
            rates.add_all(&run.rates());
        }
        rates
    }

    #[test]
    fn everything_is_measured_in_a_hurry_too() {
        for is_quick in [false, true] {
            let rates = all(true, is_quick);
            for event in Event::ALL {
                assert!(rates.get(event) > 0.0, "{event:?}, quick: {is_quick}");
            }
        }
        assert_eq!(all(false, false).get(Event::VerifyRemote), 0.0);
    }

    #[test]
    fn there_are_no_more_runs_than_five_minutes_are_reckoned_to_hold() {
        // How many there are and how long each measures is the calibration's; what is around a
        // run (server, gateways, the loops, the last answers) is reckoned here and not measured.
        const AROUND_S: f64 = 1.1;
        let lengths = lengths(false);
        let each_s = (lengths.warm_up + lengths.measure).as_secs_f64() + AROUND_S;
        let planned = planned(true, false);
        let runs = once(&planned, 1.0).len() + again(&planned, 1.0).len() + MIXTURES as usize;
        // The database and probes, memory, the long run.
        let others_s = 18.0 + 20.0 + KEPT_S + 6.0;
        assert!((runs as f64).mul_add(each_s, others_s) < 300.0, "{runs}");
    }

    #[test]
    fn repeats_have_the_same_name_and_others_do_not() {
        let planned = planned(true, false);
        let mut runs = once(&planned, 0.5);
        runs.extend(again(&planned, 0.5));
        let names: BTreeSet<&str> = runs.iter().map(|run| run.name.as_str()).collect();
        let repeated = runs.len() - names.len();
        assert!((4..=8).contains(&repeated), "{repeated}");
        for run in &runs {
            let same = runs.iter().filter(|other| other.name == run.name);
            assert!(same.clone().count() <= 2, "{}", run.name);
            assert!(same.clone().all(|other| other == run), "{}", run.name);
        }
        assert_eq!(runs[1].streams.len(), 2);
        assert_eq!(runs[1].streams[0].per_s, 1_000.0);
    }

    #[test]
    fn a_machine_that_became_slow_ends_transactions_no_dearer() {
        let speed = |us: f64| signet_bed::calibrate::Speed {
            compute_us: us,
            kernel_us: us,
        };
        let mut profile = Profile {
            speed: Some(speed(100.0)),
            ..Profile::default()
        };
        profile.fit.residual = 0.09;
        let stretch = |cores: f64, kept_per_s: f64| Stretch { cores, kept_per_s };
        let long = |last: Stretch, after_us: f64| Long {
            first: stretch(0.10, 10_000.0),
            last,
            speeds: [speed(100.0), speed(after_us)],
            bytes: 0.0,
        };
        let steady = later(&profile, &long(stretch(0.11, 10_000.0), 100.0));
        assert!((steady.us - 1.0).abs() < 1e-9, "{steady:?}");
        let slower = later(&profile, &long(stretch(0.132, 10_000.0), 120.0));
        assert!((slower.us - 1.0).abs() < 1e-9, "{slower:?}");
        let none = later(&profile, &long(stretch(0.09, 10_000.0), 100.0));
        assert_eq!(none.us, 0.0);
        // A tenth more came, and it took a tenth more.
        let more = later(&profile, &long(stretch(0.11, 11_000.0), 100.0));
        assert!(more.us < 1e-9, "{more:?}");
        for one in [steady, slower, none, more] {
            // 9 % of 10 us is what the first stretch alone may be off by.
            assert!(one.error_us >= 0.9 && !one.is_seen(), "{one:?}");
        }
        profile.fit.residual = 0.001;
        let clear = later(&profile, &long(stretch(0.11, 10_000.0), 100.0));
        assert!(clear.is_seen(), "{clear:?}");
    }

    #[test]
    fn what_is_disturbed_is_done_once_more_and_the_better_of_both_is_taken() {
        let ended = |ends: Vec<Result<u32, String>>| {
            let ends = std::cell::RefCell::new(ends.into_iter());
            let taken = once_more(|| ends.borrow_mut().next().unwrap(), |end| *end > 10);
            let left = ends.borrow().len();
            (taken, left)
        };
        let failed = |why: &str| Err(why.to_owned());
        assert_eq!(ended(vec![Ok(11), Ok(12)]), (Ok(11), 1));
        assert_eq!(ended(vec![Ok(1), Ok(12), Ok(13)]), (Ok(12), 1));
        assert_eq!(ended(vec![Ok(1), Ok(2), Ok(13)]), (Ok(2), 1));
        assert_eq!(ended(vec![failed("a"), Ok(12)]), (Ok(12), 0));
        assert_eq!(ended(vec![Ok(1), failed("b")]), (Ok(1), 0));
        assert!(ended(vec![failed("a"), failed("b")]).0.is_err());
    }

    #[test]
    fn without_the_long_run_there_is_a_profile_that_says_so() {
        let measured = Profile {
            later: None,
            ..crate::testing::profile()
        };
        let mut profile = measured.clone();
        leave_out(&mut profile, "2% failed");
        assert_eq!(profile.later, None);
        assert_eq!(profile.fit, measured.fit);
        assert!(profile.missing[0].contains("the long run does not count: 2% failed"));
        assert_eq!(profile.memory.call, measured.memory.call);
        let (call, each) = (profile.memory.call, profile.memory.transaction);
        assert_eq!(each.bytes + 2.0 * each.error_bytes, call.bytes / 2.0);
    }

    #[test]
    fn hardly_more_runs_than_prices_are_too_few() {
        let mut profile = crate::testing::profile();
        assert!(enough(&profile).is_ok());
        for run in profile.runs.iter_mut().skip(24) {
            run.doubts.push("2% failed".to_owned());
        }
        assert_eq!(profile.spare_runs(), 4);
        let told = enough(&profile).unwrap_err().to_string();
        assert!(told.contains("too few runs count: 2% failed"), "{told}");
    }

    #[test]
    fn a_check_has_no_mixture_of_the_calibration() {
        let profile = crate::testing::profile();
        let drawn = |count, seed| -> BTreeSet<String> {
            let drawn = mixtures(&profile, count, seed, true);
            drawn.iter().map(crate::mixtures::described).collect()
        };
        let own = drawn(MIXTURES, MIXTURES_SEED);
        for seed in 1..100 {
            assert!(own.is_disjoint(&drawn(20, seed)), "{seed}");
        }
    }

    #[test]
    fn ports_are_checked() {
        assert!(ports(0).unwrap_err().to_string().contains("--port"));
        assert!(ports(18_000).is_ok());
    }
}
