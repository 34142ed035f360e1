//! A rate that is held, and what it took.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::load::{RunningLoad, Told, When, setup_s};
use super::profiled::{APART_S, LONGER_S, Profiling};
use super::say;
use super::scene::{Bed, Who};
use crate::experiment::Setting;
use crate::record::{Repeat, figure};
use crate::system::Driver;
use crate::watch::{Looks, unix_s};

/// Where a stretch of a load begins and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) warm_up_s: u64,
    pub(super) measure_s: u64,
}

/// A rate and its stretch.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rate {
    pub(super) per_s: f64,
    pub(super) stretch: Stretch,
    /// What the load draws every choice from.
    pub(super) seed: u64,
    /// Whether CPU time is taken apart after that.
    pub(super) apart: Option<Apart>,
}

/// How CPU time is taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Apart {
    /// Where stacks are drawn, where they are wanted.
    pub(super) flame: Option<PathBuf>,
}

/// How late the load may be before all of its figures are doubted. CPU time and counts of a
/// stretch of seconds do not suffer from what moves by less than that.
const LATE_AT_ALL_MS_MAX: f64 = 100.0;
/// The share of sessions that may be refused where callers would resume them.
const REFUSED_MAX: f64 = 0.1;
/// The doubt that has the lateness in milliseconds as its figure. Delays are taken from the time
/// at which each call was due, and so hold the lateness of the load itself: how much of it they
/// bear the load weighs against what was measured.
const LATE: &str = "behind schedule";
/// A server that ends a smaller share of what was due is overloaded.
const ENDED_MIN: f64 = 0.9;

/// Starts a server, loads it, and ends it. Where nothing ended well there is no rate among the
/// figures.
pub(super) fn hold(
    bed: &Bed,
    driver: &dyn Driver,
    setting: &Setting,
    rate: Rate,
) -> Result<Repeat, String> {
    let at_unix_s = unix_s() as u64;
    let stretch = rate.stretch;
    let measured_s = measured_s(stretch);
    let apart = rate
        .apart
        .as_ref()
        .map(|apart| (apart, profile_begins_s(setting, stretch)));
    let seconds = measured_s + apart.map_or(0, |_| LONGER_S);
    let when = When {
        schedule: format!("{}/s for {seconds}s", plain(rate.per_s)),
        seconds,
        seed: rate.seed,
    };
    // In the second behind those that are measured: the load is there still.
    let weighs_in = Duration::from_millis((stretch.warm_up_s + stretch.measure_s) * 1_000 + 300);
    let Driven {
        told,
        looks,
        profiling,
        share,
    } = drive(bed, driver, setting, &when, weighs_in, apart)?;
    let mut repeat = Repeat {
        at_unix_s,
        figures: figures(&told, &looks, stretch),
        core_busy: core_busy(&told, &looks, stretch),
        causes: told.causes(),
        doubts: doubts(&told),
        late: late(&told),
        server_share: share,
        ..Repeat::default()
    };
    let calls_per_s = repeat.figures.get(figure::RATE_PER_S).copied();
    if let (Some(profiling), Some(calls_per_s)) = (profiling, calls_per_s) {
        // A figure does not suffer where its parts are not known.
        let apart = profiling.end(calls_per_s);
        for doubt in &apart.doubts {
            say(&format!("profile: {doubt}"));
        }
        repeat.profile = apart.parts;
        repeat.profile_source = apart.source;
        repeat.profile_doubts = apart.doubts;
        repeat.profile_void = apart.void;
    }
    Ok(repeat)
}

/// Seconds of the load until all that is measured is there. The last second that is measured has
/// one behind it, so that it is whole.
fn measured_s(stretch: Stretch) -> u64 {
    stretch.warm_up_s + stretch.measure_s + 1
}

/// Seconds after the load's start from which CPU time is taken apart, so that this disturbs nothing
/// that is measured: agents that come up first do so before the load's first second.
fn profile_begins_s(setting: &Setting, stretch: Stretch) -> u64 {
    setup_s(setting) + measured_s(stretch) + APART_S
}

/// # Errors
/// That nothing ended well, with the most frequent cause.
pub(super) fn must_have_ended(repeat: Repeat) -> Result<Repeat, String> {
    if repeat.figures.contains_key(figure::RATE_PER_S) {
        return Ok(repeat);
    }
    Err(
        match repeat.causes.iter().max_by_key(|(_, count)| **count) {
            Some((name, count)) => format!(
                "nothing ended well; {count} failed by '{name}': look at the server's log, and try a lower rate"
            ),
            None => "nothing ended: make the measuring longer than calls are held".to_owned(),
        },
    )
}

/// What came of a schedule.
pub(super) struct Driven {
    pub(super) told: Told,
    looks: Looks<Who>,
    profiling: Option<Profiling>,
    /// The share of its core that the server was held to.
    share: Option<f64>,
}

/// Starts a server, runs a schedule against it, and ends it. CPU time is taken apart so many
/// seconds after the load began, where it is to be; the server's memory is weighed so long after
/// its first call is due.
pub(super) fn drive(
    bed: &Bed,
    driver: &dyn Driver,
    setting: &Setting,
    when: &When,
    weighs_in: Duration,
    apart: Option<(&Apart, u64)>,
) -> Result<Driven, String> {
    let mut spoken = setting.clone();
    spoken.security.resumption = driver.resumption(setting.security.resumption);
    let setting = &spoken;
    let mut scene = bed.scene(driver, setting)?;
    let stage = bed.stage(setting);
    let to = scene.server.address.ok_or("the server listens nowhere")?;
    let load = RunningLoad::start(&stage, setting, to, when, &bed.cores.load)?;
    let weighs_in = Duration::from_secs(setup_s(setting)) + weighs_in;
    let watch = scene.watch(load.ids(), &bed.cores, weighs_in);
    let mut profiling = apart.map(|(apart, in_s)| scene.profile(driver, apart, in_s));
    let told = load.end(&bed.stop, || {
        if let Some(profiling) = &mut profiling {
            profiling.look();
        }
        scene.must_run()
    });
    let looks = watch.end();
    Ok(Driven {
        told: told?,
        looks,
        profiling,
        share: scene.share(),
    })
}

/// A rate as the command line takes it: in hundredths, and below a tenth in two digits that count.
pub(super) fn plain(rate_per_s: f64) -> String {
    let decimals = if rate_per_s > 0.0 && rate_per_s < 0.1 {
        (1.0 - rate_per_s.log10().floor()) as usize
    } else {
        2
    };
    let text = format!("{rate_per_s:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The figures of a stretch.
pub(super) fn figures(told: &Told, looks: &Looks<Who>, stretch: Stretch) -> BTreeMap<String, f64> {
    let (from_s, to_s) = (stretch.warm_up_s, stretch.warm_up_s + stretch.measure_s);
    let mut counts = Counts::default();
    for second in told.between(from_s, to_s) {
        counts.seconds += 1;
        counts.succeeded += second.succeeded;
        counts.failed += second.failed;
        counts.retransmissions += second.retransmissions;
        counts.in_flight_max = counts.in_flight_max.max(second.in_flight);
    }
    let mut figures = BTreeMap::new();
    let mut put = |name: &str, value: f64| {
        if value.is_finite() {
            figures.insert(name.to_owned(), value);
        }
    };
    let (ended, length_s) = (
        (counts.succeeded + counts.failed) as f64,
        counts.seconds as f64,
    );
    if ended > 0.0 {
        put(figure::FAILED_SHARE, counts.failed as f64 / ended);
        put(
            figure::RETRANSMISSIONS,
            counts.retransmissions as f64 / ended,
        );
    }
    if counts.succeeded > 0 {
        put(figure::RATE_PER_S, counts.succeeded as f64 / length_s);
        put(figure::CONCURRENT_MAX, counts.in_flight_max as f64);
    }
    let begun_s = told.begun_unix_s;
    let (from, to) = (begun_s + from_s as f64, begun_s + from_s as f64 + length_s);
    for (who, cores, each) in [
        (
            Who::Server,
            figure::SERVER_CORES,
            Some(figure::SERVER_CPU_US),
        ),
        (
            Who::Database,
            figure::DATABASE_CORES,
            Some(figure::DATABASE_CPU_US),
        ),
        (Who::Load, figure::LOAD_CORES, None),
    ] {
        let Some(mut cpu_ns) = looks.cpu_ns(who, from, to) else {
            continue;
        };
        if who == Who::Load {
            cpu_ns += looks.cpu_ns(Who::Called, from, to).unwrap_or(0.0);
        }
        put(cores, cpu_ns / 1e9 / length_s);
        if let Some(each) = each.filter(|_| counts.succeeded > 0) {
            put(each, cpu_ns / 1e3 / counts.succeeded as f64);
        }
    }
    if let Some(bytes) = looks.memory_bytes(Who::Server, from, to) {
        put(figure::SERVER_MEMORY_BYTES, bytes as f64);
    }
    let passed_bytes = looks.passed(from, to, |passed| passed.wire_bytes);
    if let Some(bytes) = passed_bytes.filter(|bytes| *bytes > 0.0) {
        put(figure::DATABASE_BITS_PER_S, bytes * 8.0 / length_s);
    }
    delays(told, &mut put);
    figures
}

/// How busy the cores were in a stretch, as [`Repeat::core_busy`] has it.
fn core_busy(told: &Told, looks: &Looks<Who>, stretch: Stretch) -> BTreeMap<String, f64> {
    let from = told.begun_unix_s + stretch.warm_up_s as f64;
    let to = from + stretch.measure_s as f64;
    let cores = [(Who::Server, "server"), (Who::Load, "load")].into_iter();
    cores
        .filter_map(|(whose, name)| Some((name.to_owned(), looks.busy(whose, from, to)?)))
        .collect()
}

#[derive(Default)]
struct Counts {
    seconds: u64,
    succeeded: u64,
    failed: u64,
    retransmissions: u64,
    in_flight_max: u64,
}

/// The delays of RFC 6076, of the whole load, from the time at which each was due.
fn delays(told: &Told, put: &mut impl FnMut(&str, f64)) {
    let of = &told.result.figures;
    for (latency, [p50, mean, p99]) in [
        (
            &of.rrd,
            [figure::RRD_P50_MS, figure::RRD_MEAN_MS, figure::RRD_P99_MS],
        ),
        (
            &of.srd,
            [figure::SRD_P50_MS, figure::SRD_MEAN_MS, figure::SRD_P99_MS],
        ),
    ] {
        if latency.count() == 0 {
            continue;
        }
        let found = latency.summary().intended;
        put(p50, found.p50_us as f64 / 1e3);
        put(mean, found.mean_us / 1e3);
        put(p99, found.p99_us as f64 / 1e3);
    }
}

/// What the load holds against itself, but lateness that moves no count.
pub(super) fn doubts(told: &Told) -> Vec<String> {
    let doubts = told.result.doubts.iter();
    doubts
        .filter(|doubt| doubt.name != LATE || doubt.figure > LATE_AT_ALL_MS_MAX)
        .map(|doubt| doubt.sentence.clone())
        .chain(refused(told))
        .collect()
}

/// That sessions which callers would resume were mostly or often begun anew.
fn refused(told: &Told) -> Option<String> {
    let handshakes = &told.result.handshakes;
    let refused = handshakes.resumption_refused;
    let offered = handshakes.resumed + refused;
    (refused as f64 > REFUSED_MAX * offered as f64).then(|| {
        format!(
            "Of {offered} sessions that were offered the server has refused {refused}: what each \
             took is not what a resumed handshake costs."
        )
    })
}

/// Lateness that moves delays and nothing else.
fn late(told: &Told) -> Option<String> {
    let mut doubts = told.result.doubts.iter();
    let late = doubts.find(|doubt| doubt.name == LATE && doubt.figure <= LATE_AT_ALL_MS_MAX)?;
    Some(late.sentence.clone())
}

/// That a server did less than it was asked for.
pub(super) fn overloaded(repeat: &Repeat, per_s: f64) -> Option<String> {
    let ended_per_s = repeat.figures.get(figure::RATE_PER_S).copied()?;
    (ended_per_s < per_s * ENDED_MIN).then(|| {
        format!(
            "Of {} a second {} ended well: the server does not hold this rate, so what each took \
             is not what each costs; measure at a lower one.",
            plain(per_s),
            plain(ended_per_s.round())
        )
    })
}

#[cfg(test)]
mod tests {
    use measure::{Doubt, RunResult, Second};

    use super::*;
    use crate::experiment::{Connection, Flow};

    fn second(at_s: u64, succeeded: u64, failed: u64) -> Second {
        Second {
            at_s,
            succeeded,
            failed,
            in_flight: at_s,
            retransmissions: 1,
            ..Second::default()
        }
    }

    fn told() -> Told {
        let mut result = RunResult {
            series: (0..6).map(|at_s| second(at_s, 100 * at_s, at_s)).collect(),
            ..RunResult::default()
        };
        result.figures.srd.record(0, 0, 2_000_000);
        Told {
            result,
            begun_unix_s: 1_000.0,
        }
    }

    #[test]
    fn figures_are_of_the_stretch_alone() {
        let stretch = Stretch {
            warm_up_s: 2,
            measure_s: 3,
        };
        let found = figures(&told(), &Looks::default(), stretch);
        assert_eq!(found.get(figure::RATE_PER_S), Some(&300.0));
        assert_eq!(found.get(figure::FAILED_SHARE), Some(&(9.0 / 909.0)));
        assert_eq!(found.get(figure::RETRANSMISSIONS), Some(&(3.0 / 909.0)));
        assert_eq!(found.get(figure::CONCURRENT_MAX), Some(&4.0));
        assert_eq!(found.get(figure::SRD_P50_MS), Some(&2.0));
        for missing in [
            figure::SERVER_CPU_US,
            figure::SERVER_CORES,
            figure::SERVER_MEMORY_BYTES,
            figure::RRD_P50_MS,
            figure::DATABASE_BITS_PER_S,
        ] {
            assert!(!found.contains_key(missing), "{missing}");
        }
        for name in found.keys() {
            assert!(figure::ALL.contains(&name.as_str()), "{name}");
        }
    }

    #[test]
    fn where_nothing_ended_there_is_no_rate() {
        let stretch = Stretch {
            warm_up_s: 7,
            measure_s: 3,
        };
        let found = figures(&told(), &Looks::default(), stretch);
        assert!(!found.contains_key(figure::RATE_PER_S), "{found:?}");
        assert!(!found.contains_key(figure::FAILED_SHARE), "{found:?}");
    }

    #[test]
    fn lateness_of_milliseconds_is_held_against_delays_alone() {
        let with = |all: &[(&str, f64)]| {
            let mut told = told();
            told.result.doubts = all
                .iter()
                .map(|(name, figure)| Doubt {
                    name: (*name).to_owned(),
                    figure: *figure,
                    // Beside a delay of a few milliseconds.
                    bound: 0.5,
                    sentence: format!("{name} {figure}"),
                })
                .collect();
            told
        };
        for figure in [0.6, 4.0, 6.0, 100.0] {
            let told = with(&[("behind schedule", figure), ("own cpu", 0.95)]);
            assert_eq!(doubts(&told), ["own cpu 0.95"], "{figure}");
            assert_eq!(late(&told), Some(format!("behind schedule {figure}")));
        }
        let mut refusing = with(&[]);
        refusing.result.handshakes.resumed = 90;
        refusing.result.handshakes.resumption_refused = 10;
        assert!(doubts(&refusing).is_empty());
        refusing.result.handshakes.resumption_refused = 11;
        assert!(doubts(&refusing)[0].contains("refused 11"));
        let told = with(&[("behind schedule", 101.0)]);
        assert_eq!(doubts(&told), ["behind schedule 101"]);
        assert_eq!(late(&told), None);
        assert_eq!(late(&with(&[("own cpu", 0.95)])), None);
    }

    #[test]
    fn cpu_time_is_taken_apart_after_what_is_measured_wherever_agents_come_up_first() {
        let stretch = Stretch {
            warm_up_s: 2,
            measure_s: 4,
        };
        let nobody = Setting::default();
        assert_eq!(profile_begins_s(&nobody, stretch), 8);
        let registered = Setting {
            flow: Flow::CallsToRegistered,
            ..Setting::default()
        };
        // 1,000 who call and 1,000 who are called, 500 a second.
        assert_eq!(profile_begins_s(&registered, stretch), 12);
        let mut each_his_own = Setting {
            caller_connection: Connection::PerAgent,
            ..Setting::default()
        };
        each_his_own.agents.callers = 10_001;
        assert_eq!(profile_begins_s(&each_his_own, stretch), 29);
    }

    #[test]
    fn a_server_that_does_less_than_it_is_asked_for_is_overloaded() {
        let repeat = |per_s: f64| Repeat {
            figures: [(figure::RATE_PER_S.to_owned(), per_s)].into(),
            ..Repeat::default()
        };
        assert_eq!(overloaded(&repeat(901.0), 1_000.0), None);
        let why = overloaded(&repeat(899.0), 1_000.0);
        assert!(why.is_some_and(|why| why.contains("Of 1000 a second 899 ended well")));
        assert_eq!(overloaded(&Repeat::default(), 1_000.0), None);
    }

    #[test]
    fn rates_are_written_plainly() {
        for (rate, expected) in [
            (2_000.0, "2000"),
            (0.25, "0.25"),
            (33.333, "33.33"),
            (0.012_34, "0.012"),
            (0.004, "0.004"),
            (0.000_123, "0.00012"),
            (0.0, "0"),
        ] {
            assert_eq!(plain(rate), expected);
            let read = measure::pace::parse_rate_per_s(&format!("{expected}/s")).unwrap();
            assert!((read - rate).abs() <= 0.05 * rate, "{expected}");
        }
    }
}
